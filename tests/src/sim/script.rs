//! Scripts of software deployments on a server: runs that go on without their agent, as those of `muster-host` do.
//!
//! A run belongs to a generation of a resource, whatever attempt of its job asks for it. It leaves a line as it begins, and
//! tells of itself when it has ended. Whether it may begin is looked at here: once for a generation, and once more for each
//! time that it was interrupted, where its deployment says so; never for what counts as done.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_agent_core::{Entry, Input, Retry, RunError};
use muster_engine::record::{PackedSpec, ResourceRecord};
use muster_host::run::{Next, RunState, next};
use muster_shared::model::{
    Action, DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT, Deployment, Job, Observed, OnInterrupt,
    Outcome, ReportKey, Spec,
};
use muster_shared::{Generation, ResourceId};

use super::fault::Kind;
use super::job_fate::Work;
use super::plan::{gist, output};
use super::world::{Event, World};

/// The milliseconds from a request to end until the run is killed.
const STOPS_WITHIN: u64 = 11_000;

pub type RunKey = (ResourceId, Generation);

/// Runs of a server, as they are on its disk.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    runs: BTreeMap<RunKey, Run>,
    /// Lines that scripts have left.
    lines: u64,
    /// The number of times that the run of each generation began, and was interrupted.
    begun: BTreeMap<RunKey, (u32, u32)>,
}

#[derive(Clone, Debug)]
struct Run {
    state: State,
    again: u32,
    /// The line that it has left.
    line: u64,
    job: Box<Job>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Alive(End),
    Interrupted,
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Badly,
    TooLate,
    Stopped,
}

/// The last run that went well, as its resource stands.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The deployment that ran.
    pub deployment: Deployment,
    pub stdout: String,
    /// The inputs that the resource has now: they differ from those of the run where a change of inputs runs nothing.
    pub inputs: BTreeMap<String, String>,
}

/// A job that waits for its run.
#[derive(Clone, Debug)]
pub struct Ordered {
    job: Box<Job>,
    fails: Option<bool>,
    is_silent: bool,
    /// An agent that began in the middle asks for it.
    is_new: bool,
}

impl Runner {
    fn stands(&self, key: RunKey) -> RunState {
        match self.runs.get(&key) {
            None => RunState::Nothing,
            Some(Run { state: State::Alive(_), .. }) => RunState::Alive,
            Some(Run { state: State::Interrupted, again, .. }) => RunState::Began { again: *again },
            Some(Run { state: State::Ended(_), .. }) => RunState::Ended,
        }
    }

    fn interrupts(&mut self, is_it: impl Fn(RunKey) -> bool) -> u64 {
        let mut interrupted = 0;
        for (key, run) in self.runs.iter_mut().filter(|(key, _)| is_it(**key)) {
            if let State::Alive(_) = run.state {
                run.state = State::Interrupted;
                self.begun.entry(*key).or_default().1 += 1;
                interrupted += 1;
            }
        }
        interrupted
    }
}

impl World {
    /// A job of a deployment: it waits for its run, which may be under way or over.
    pub(super) fn script_is_ordered(&mut self, at: usize, job: Job) {
        let key = job.key();
        let whom = format!("{} {:?} of {}", self.machines[at].name, job.action, job.resource);
        let mut strikes = |kind| self.faults.strikes(self.now, kind, &whom);
        let fails =
            if strikes(Kind::JobFails) { Some(false) } else { strikes(Kind::JobRefused).then_some(true) };
        let is_silent = strikes(Kind::JobSilent);
        let is_new =
            self.machines[at].host.runner.stands((job.resource, job.generation)) == RunState::Nothing;
        if let Some(process) = &mut self.machines[at].process {
            process.scripts.insert(key, Ordered { job: Box::new(job), fails, is_silent, is_new });
        }
        let after = self.dice.hosts.millis(1, 300);
        self.work_later(at, after, Work::Script(key));
    }

    /// Takes the next step of a job that waits for its run: begins it, stops older ones, or reports its end.
    pub(super) fn script_goes_on(&mut self, at: usize, key: ReportKey) {
        let run = (key.resource, key.generation);
        let machine = &mut self.machines[at];
        let ordered = machine.process.as_ref().and_then(|process| process.scripts.get(&key)).cloned();
        let Some(Ordered { job, fails, is_silent, is_new }) = ordered else { return };
        let Spec::Deployment(deployment) = &job.spec else { return };
        let runner = &mut machine.host.runner;
        // Older runs of the same resource are ended first.
        let is_other = |other: &RunKey| other.0 == run.0 && *other != run;
        runner.runs.retain(|other, run| !is_other(other) || matches!(run.state, State::Alive(_)));
        let others: Vec<RunKey> = runner.runs.keys().filter(|other| is_other(other)).copied().collect();
        if !others.is_empty() {
            others.into_iter().for_each(|other| self.script_is_stopped(at, other));
            return;
        }
        let has_step = deployment.step(job.action).is_some();
        let count = |what: &str| self.shared.borrow_mut().counts.add(format!("script {what}"));
        let failed = |reason: &str, permanent| {
            Err(RunError { reason: reason.into(), retry: Retry::unless(permanent) })
        };
        let stands = if has_step { runner.stands(run) } else { RunState::Ended };
        let outcome = match next(stands, deployment.on_interrupt == OnInterrupt::Rerun, 0) {
            Next::Prepare { again: 0 } if fails.is_some() => {
                failed("the supervisor cannot be started", fails == Some(true))
            }
            Next::Prepare { again } => return self.script_begins(at, &job, deployment, again),
            Next::Take if !has_step => {
                count("has nothing to do");
                Ok(told(deployment, 0, String::new(), None))
            }
            Next::Start | Next::NeverBegan => failed("its supervisor is not there", false),
            Next::Wait => {
                if !is_new {
                    count("is waited for by another agent");
                }
                return;
            }
            Next::Interrupted { .. } => {
                count("that was interrupted fails");
                failed("the run was interrupted", true)
            }
            Next::Take => {
                if !is_new {
                    count("is found to have ended");
                }
                let Some(Run { state: State::Ended(end), .. }) = runner.runs.get(&run) else { return };
                match end {
                    End::Well if job.action == Action::Delete => Ok(Observed::default()),
                    End::Well => {
                        let stdout = stdout(&job);
                        Ok(told(deployment, 0, stdout, Some(output(&gist(deployment)))))
                    }
                    End::Badly => failed("the script ended with status 1", true),
                    End::TooLate => failed("the script took longer than it may and was ended", true),
                    End::Stopped => failed("the script was ended: its job was withdrawn", true),
                }
            }
        };
        if is_silent {
            return;
        }
        if outcome.is_ok() {
            match job.action {
                Action::Delete => drop(machine.host.scripts.remove(&key.resource)),
                _ if !has_step => {
                    if let Some(ran) = machine.host.scripts.get_mut(&key.resource) {
                        ran.stdout.clear();
                        ran.inputs.clone_from(&deployment.inputs);
                    }
                }
                _ => {}
            }
        }
        if let Some(process) = &mut machine.process {
            process.scripts.remove(&key);
        }
        self.job_ended(at, key);
        self.tell_agent(at, Input::Ran { key, outcome, before: None, touched: true });
    }

    fn script_begins(&mut self, at: usize, job: &Job, deployment: &Deployment, again: u32) {
        let run = (job.resource, job.generation);
        let whom = format!("{} {:?} of {}", self.machines[at].name, job.action, job.resource);
        let wrong = self.script_must_not_begin(at, job, deployment, &whom);
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        if job.action == Action::Delete {
            self.taken_away(job);
        }
        let mut strikes = |kind| self.faults.strikes(self.now, kind, &whom);
        let (badly, hangs, slow) =
            (strikes(Kind::JobFailsLate), strikes(Kind::JobHangs), strikes(Kind::JobSlow));
        let ends_early = strikes(Kind::EndsInRun);
        let end = if hangs {
            End::TooLate
        } else if badly {
            End::Badly
        } else {
            End::Well
        };
        let millis = gist(deployment).get("ms").and_then(|text| text.parse().ok()).unwrap_or_default();
        let takes = match end {
            End::TooLate => Duration::from_secs(deployment.timeout.into()),
            _ => self.dice.hosts.millis(millis, millis + if slow { 30_000 } else { 100 }),
        };
        let runner = &mut self.machines[at].host.runner;
        runner.lines += 1;
        let line = runner.lines;
        runner.begun.entry(run).or_default().0 += 1;
        runner.runs.insert(run, Run { state: State::Alive(end), again, line, job: Box::new(job.clone()) });
        self.note(|_| format!("script of {whom} leaves line {line}"));
        let mut shared = self.shared.borrow_mut();
        shared.counts.add(format!("script begins {:?}", job.action));
        if again > 0 {
            shared.counts.add("script runs again after an interruption");
        }
        drop(shared);
        let now = self.now;
        self.at(now + takes, Event::ScriptEnds(at, run, line));
        if ends_early {
            let dice = self.faults.dice(Kind::EndsInRun);
            let part = takes.mul_f64(dice.below(100) as f64 / 100.0);
            let how = dice.below(4);
            self.at(now + part, Event::EndsInRun(at, run, line, how));
        }
    }

    fn script_must_not_begin(
        &self,
        at: usize,
        job: &Job,
        deployment: &Deployment,
        whom: &str,
    ) -> Option<String> {
        let run = (job.resource, job.generation);
        let (begun, interrupted) = self.machines[at].host.runner.begun.get(&run).copied().unwrap_or_default();
        if begun > interrupted {
            return Some(format!("the script of {whom} runs {} times, interrupted {interrupted}", begun + 1));
        }
        if begun > 0 && deployment.on_interrupt == OnInterrupt::Fail {
            return Some(format!("the script of {whom} was interrupted, and runs again unasked"));
        }
        let shared = self.shared.borrow();
        let settled = shared.settled.get(&job.resource).map(PackedSpec::unpack);
        // Another server has the node's name now.
        let ran = self.machines[at].host.scripts.get(&job.resource);
        // A server that went back, or ran twice, has what it ran then.
        let is_same = |ran: &Ran| ran.inputs == deployment.inputs && ran.deployment.steps == deployment.steps;
        let was_here = ran.is_some_and(|ran| !self.history.is_on || is_same(ran));
        let is_done = settled.as_ref().and_then(|it| it.spec()) == Some(&job.spec) && job.action.applies();
        // The other one of two servers with one identity may have been told so.
        let is_done = is_done && was_here && !self.was_cloned(at);
        let runs = self.machines[at].host.runner.begun.range((job.resource, Generation::default())..);
        let last = runs.map(|(run, _)| *run).take_while(|(resource, _)| *resource == job.resource).last();
        let is_done = is_done && !last.is_some_and(|last| self.was_midway(last));
        is_done.then(|| format!("the script of {whom} runs again, and was done with the same inputs"))
    }

    /// Asks a run to end, and plans its end.
    pub(super) fn script_is_stopped(&mut self, at: usize, key: RunKey) {
        let due = self.now + self.dice.hosts.millis(1, STOPS_WITHIN);
        let Some(run) = self.machines[at].host.runner.runs.get_mut(&key) else { return };
        if let State::Alive(end) = &mut run.state
            && *end != End::Stopped
        {
            *end = End::Stopped;
            let line = run.line;
            self.shared.borrow_mut().counts.add("script is stopped");
            self.at(due, Event::ScriptEnds(at, key, line));
        }
    }

    /// The end of the run that left this line.
    pub fn script_ends(&mut self, at: usize, key: RunKey, line: u64) {
        let machine = &mut self.machines[at];
        let Some(run) = machine.host.runner.runs.get_mut(&key).filter(|run| run.line == line) else { return };
        let State::Alive(end) = run.state else { return };
        run.state = State::Ended(end);
        if let (End::Well, Spec::Deployment(deployment)) = (end, &run.job.spec) {
            let (stdout, inputs) = (stdout(&run.job), deployment.inputs.clone());
            let ran = Ran { deployment: deployment.clone(), stdout, inputs };
            if run.job.action.applies() {
                machine.host.scripts.insert(key.0, ran);
            }
        }
        let what = match end {
            End::Well => "script ends well",
            End::Badly => "script ends badly",
            End::TooLate => "script takes too long",
            End::Stopped => "script has been stopped",
        };
        self.note(|world| format!("{} on {}: line {line}", what, world.machines[at].name));
        self.shared.borrow_mut().counts.add(what);
        self.waits_no_more(at, key.0);
    }

    /// Lets each job that waits for a run of this resource look again.
    fn waits_no_more(&mut self, at: usize, resource: ResourceId) {
        let Some(process) = &self.machines[at].process else { return };
        let waiting: Vec<ReportKey> =
            process.scripts.keys().filter(|key| key.resource == resource).copied().collect();
        for key in waiting {
            let after = self.dice.hosts.millis(0, 20);
            self.work_later(at, after, Work::Script(key));
        }
    }

    /// Ends something in the middle of a run: its server loses power, its processes are killed, or its agent ends,
    /// perhaps soon after the run.
    pub fn ends_in_run(&mut self, at: usize, key: RunKey, line: u64, how: u64) {
        let run = self.machines[at].host.runner.runs.get(&key).filter(|run| run.line == line);
        let is_alive = matches!(run, Some(Run { state: State::Alive(_), .. }));
        if !self.faults.on || !is_alive {
            return;
        }
        match how {
            0 => self.agent_ends(at, true),
            1 => self.agent_ends(at, false),
            2 => {
                self.machines[at].host.runner.interrupts(|it| it == key);
                self.shared.borrow_mut().counts.add("script is killed");
                self.waits_no_more(at, key.0);
            }
            _ => {
                if let Some(process) = &mut self.machines[at].process {
                    process.fuse = Some(2);
                }
            }
        }
    }

    /// Interrupts all runs on a server that loses power.
    pub(super) fn scripts_lose_power(&mut self, at: usize) {
        let interrupted = self.machines[at].host.runner.interrupts(|_| true);
        for _ in 0..interrupted {
            self.shared.borrow_mut().counts.add("script loses power");
        }
    }

    /// The job is not to go on.
    pub(super) fn script_is_cancelled(&mut self, at: usize, key: ReportKey) {
        let process = self.machines[at].process.as_mut();
        if process.and_then(|process| process.scripts.remove(&key)).is_some() {
            self.script_is_stopped(at, (key.resource, key.generation));
        }
    }

    /// An agent that starts forgets the runs that nobody needs, and has those stopped that are under way.
    pub(super) fn scripts_are_swept(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let entries = &machine.disk.entries;
        let is_needed = |key: &RunKey| entries.get(&key.0).is_some_and(|entry| needs(entry, *key));
        let unneeded: Vec<RunKey> =
            machine.host.runner.runs.keys().filter(|key| !is_needed(key)).copied().collect();
        for key in unneeded {
            self.script_is_stopped(at, key);
            let runs = &mut self.machines[at].host.runner.runs;
            if runs.get(&key).is_some_and(|run| !matches!(run.state, State::Alive(_))) {
                runs.remove(&key);
            }
        }
    }

    /// Checks an entry that says that a job of a deployment is done: its script must have run.
    pub(super) fn says_what_ran(&self, at: usize, entry: &Entry) -> Option<String> {
        let machine = &self.machines[at];
        let last = entry.last.as_ref().filter(|last| matches!(last.outcome, Outcome::Done(_)))?;
        let was = machine.disk.entries.get(&entry.resource)?.current.as_ref()?;
        let Spec::Deployment(deployment) = &was.job.spec else { return None };
        deployment.step(was.job.action).filter(|_| was.job.key() == last.key)?;
        if was_never_here(machine.disk.entries.get(&entry.resource)?, was.job.action) {
            return None;
        }
        let run = machine.host.runner.runs.get(&(entry.resource, last.key.generation));
        let ran = run.is_some_and(|run| run.state == State::Ended(End::Well) && run.job.spec == was.job.spec);
        let (name, id) = (&machine.name, entry.resource);
        (!ran).then(|| format!("{name} records that {id} is done, and its script is {run:?}"))
    }

    /// Whether there is a run of this resource.
    pub(super) fn has_run(&self, at: usize, resource: ResourceId) -> bool {
        self.machines[at].host.runner.runs.keys().any(|key| key.0 == resource)
    }

    /// The end of a job is on disk: its run is not needed any more.
    pub(super) fn script_is_forgotten(&mut self, at: usize, entry: &Entry) {
        let runs = &mut self.machines[at].host.runner.runs;
        runs.retain(|key, run| {
            key.0 != entry.resource || needs(entry, *key) || !matches!(run.state, State::Ended(_))
        });
    }

    /// A deployment is COMPLETE: the script has run with what it says, or its server has a later run that a store which
    /// went back does not know: it stands, and is listed.
    pub(super) fn script_has_run(&self, row: &ResourceRecord) -> Option<String> {
        let desired = row.spec.as_ref()?.unpack();
        let Some(Spec::Deployment(wanted)) = desired.spec() else { return None };
        let name = row.node.as_ref()?;
        let mut hosts = self.machines.iter().filter(|machine| machine.name == *name);
        let is_so = |ran: &Ran| wanted.step(Action::Update).is_none() || ran.deployment == *wanted;
        let ran = hosts.any(|machine| machine.host.scripts.get(&row.physical).is_some_and(is_so));
        let ran = ran || self.ran_before(row.physical, is_so) || self.has_what_is_unknown(name, row.physical);
        (!ran)
            .then(|| format!("{} on {name} is COMPLETE, and its script has not run so: {wanted:?}", row.name))
    }
}

/// The job has not ended, or may be tried again.
fn needs(entry: &Entry, key: RunKey) -> bool {
    let is_it = |it: ReportKey| (it.resource, it.generation) == key;
    let jobs = [&entry.current, &entry.next];
    let last = entry.last.as_ref().filter(|last| {
        matches!(last.outcome, Outcome::Failed { permanent: false, .. } | Outcome::NoRoom { .. })
    });
    jobs.into_iter().flatten().any(|accepted| is_it(accepted.job.key()))
        || last.is_some_and(|last| is_it(last.key))
}

/// A delete of what never was here has nothing to do.
fn was_never_here(was: &Entry, action: Action) -> bool {
    action == Action::Delete && !was.exists()
}

/// Returns the output of a run. It has the resource and the inputs alone: so a reader of it does not change because a
/// new server has an old one's name.
fn stdout(job: &Job) -> String {
    let with = match &job.spec {
        Spec::Deployment(deployment) => output(&gist(deployment)),
        _ => String::new(),
    };
    format!("{} ran with {with}", job.resource)
}

fn told(deployment: &Deployment, status: i32, stdout: String, output: Option<String>) -> Observed {
    let mut attributes: BTreeMap<String, String> =
        [(DEPLOY_STATUS_CODE, status.to_string()), (DEPLOY_STDOUT, stdout), (DEPLOY_STDERR, String::new())]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
    let declared = deployment.outputs.iter().any(|output| output.name == "o");
    attributes.extend(output.filter(|_| declared).map(|output| ("o".to_owned(), output)));
    Observed { attributes }
}
