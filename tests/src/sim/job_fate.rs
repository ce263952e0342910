//! The work of a server for its agent: looks, jobs and contents, each with its fate.

use std::collections::VecDeque;
use std::time::Duration;

use muster_agent_core::{Before, ContentState, ContentStep, Found, Input, Look, Retry, RunError};
use muster_shared::ResourceId;
use muster_shared::model::flow::Bridge;
use muster_shared::model::{Action, ContentDigest, Job, Observed, ReportKey, Spec};

use super::fault::Kind;
use super::flow::FlowWork;
use super::host::{Host, Step};
use super::world::{Event, World};

/// A job that runs on this host, with the result that it will have.
#[derive(Clone)]
pub struct Run {
    job: Job,
    before: Option<Before>,
    theirs: Vec<Before>,
    steps: VecDeque<Step>,
    makers: Vec<(String, Option<ResourceId>)>,
    touched: bool,
    fate: Fate,
    result: Option<Result<(Observed, Option<Before>), RunError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Works,
    Fails {
        permanent: bool,
    },
    /// Some of it is done.
    FailsHalfWay,
    FailsLate,
    Hangs,
    Silent,
}

/// Host work that comes to its end.
#[derive(Clone, Debug)]
pub enum Work {
    /// Reads the state from before the resource.
    Capture(ReportKey, Box<Spec>, Vec<Before>, bool),
    /// Compares the present state with a job's resource.
    Check(ReportKey),
    /// Compares the present state of resources that have no job.
    Look(u64, Vec<Look>),
    /// Reads the server's facts.
    Gather,
    /// Reads the state of everything that a job may touch.
    Guard(Box<Job>, Option<Before>),
    /// Takes the next step of a change of the network.
    Step(ReportKey),
    /// Restores the state from before a change.
    Restore(ReportKey, Before),
    /// A host that could do nothing else does what its document has for that.
    Fallback(ReportKey, Box<Spec>),
    /// Makes the change.
    Apply(ReportKey),
    /// Answers the agent.
    Answer(ReportKey),
    /// A job that waits for a script looks how that stands.
    Script(ReportKey),
    /// Compares a content with its digest.
    Verify(ContentDigest),
    /// Works on a flow table.
    Flow(Bridge, FlowWork),
}

impl World {
    pub(super) fn work_later(&mut self, at: usize, after: Duration, work: Work) {
        let life = self.machines[at].life;
        self.later(after, Event::HostWork(at, life, work));
    }

    pub(super) fn job_begins(&mut self, at: usize, job: Job, before: Option<Before>, theirs: Vec<Before>) {
        let key = job.key();
        // Things that others have back are left alone.
        let own = before.as_ref().map(|before| Host::without(before, &theirs));
        let wrong = self.job_must_not_begin(at, &job, own.as_ref());
        let wrong = wrong.or_else(|| self.forgets_needs(at, &job)).or_else(|| self.is_undecided(at, &job));
        let wrong = wrong.or_else(|| self.is_made_too_often(&job));
        let wrong = wrong.or_else(|| self.adopts_blindly(at, &job));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        self.is_of_a_lost_history(at, &job);
        self.running.insert(job.resource, (at, key));
        if let Spec::Deployment(_) = &job.spec {
            return self.script_is_ordered(at, job);
        }
        let whom = format!("{} {:?} of {}", self.machines[at].name, job.action, job.resource);
        let mut strikes = |kind| self.faults.strikes(self.now, kind, &whom);
        let is_network = job.spec.confirm_within().is_some();
        let fate = if strikes(Kind::JobFails) {
            if is_network { Fate::FailsHalfWay } else { Fate::Fails { permanent: false } }
        } else if strikes(Kind::JobRefused) {
            Fate::Fails { permanent: true }
        } else if strikes(Kind::JobFailsLate) {
            Fate::FailsLate
        } else if strikes(Kind::JobHangs) {
            Fate::Hangs
        } else if strikes(Kind::JobSilent) {
            Fate::Silent
        } else {
            Fate::Works
        };
        let slow = strikes(Kind::JobSlow);
        let mut takes = self.dice.hosts.millis(1, if slow { 60_000 } else { 300 });
        if let Spec::Dummy(dummy) = &job.spec {
            takes += Duration::from_millis(dummy.milliseconds);
        }
        if self.machines[at].process.is_some() {
            let own = before.as_ref().map(|before| Host::without(before, &theirs));
            let steps: VecDeque<Step> = self.machines[at].host.network_steps(&job, own.as_ref()).into();
            let count = u32::try_from(steps.len()).unwrap_or_default();
            let makers = self.machines[at].host.makers(&steps);
            let Some(process) = &mut self.machines[at].process else { return };
            let run = Run { job, before, theirs, steps, makers, touched: false, fate, result: None };
            process.runs.insert(key, run);
            for n in 1..=count {
                self.work_later(at, takes.mul_f64(0.7) * n / (count + 1), Work::Step(key));
            }
        }
        self.work_later(at, takes.mul_f64(0.7), Work::Apply(key));
        self.work_later(at, takes, Work::Answer(key));
    }

    /// The host's work comes to an end.
    pub fn host_works(&mut self, at: usize, life: u64, work: Work) {
        if self.machines[at].life != life {
            return;
        }
        if self.now < self.machines[at].frozen_until {
            let due = self.machines[at].frozen_until;
            return self.at(due, Event::HostWork(at, life, work));
        }
        match work {
            Work::Capture(key, spec, known, own) => {
                let whom = format!("{} {}", self.machines[at].name, key.resource);
                let before = if self.faults.strikes(self.now, Kind::CaptureFails, &whom) {
                    Err(RunError { reason: "input/output error".into(), retry: Retry::Later })
                } else {
                    self.machines[at].forgets_retained(key.resource, &spec);
                    Ok(self.machines[at].host.capture(&spec, &known, own))
                };
                self.tell_agent(at, Input::Captured { key, before });
            }
            Work::Check(key) => {
                let machine = &mut self.machines[at];
                let job = machine.process.as_mut().and_then(|process| process.checks.remove(&key));
                if let Some((job, is_made)) = job {
                    let mut found = match &job.spec {
                        Spec::Deployment(_) if !is_made => {
                            Found::Differs { missing: true, reason: "it has not run here".into() }
                        }
                        spec => machine.host.check(job.resource, spec),
                    };
                    let whom = format!("{} {}", machine.name, key.resource);
                    if self.faults.strikes(self.now, Kind::ForeignChange, &whom) {
                        found = Found::Differs { missing: false, reason: "somebody changes it".into() };
                    }
                    if job.action == Action::Adopt {
                        self.is_compared(at, key, &found);
                    }
                    self.tell_agent(at, Input::Checked { key, found: Ok(found) });
                }
            }
            Work::Guard(job, before) => {
                let key = job.key();
                let whom = format!("{} {}", self.machines[at].name, key.resource);
                let undo = if self.faults.strikes(self.now, Kind::CaptureFails, &whom) {
                    Err(RunError { reason: "input/output error".into(), retry: Retry::Later })
                } else {
                    Ok(self.machines[at].host.guard(&job, before.as_ref()))
                };
                let challenge = self.dice.agents.number().to_le_bytes().to_vec();
                self.tell_agent(at, Input::Guarded { key, undo, challenge });
            }
            Work::Step(key) => self.network_step(at, key),
            Work::Flow(bridge, work) => self.flow_works(at, &bridge, work),
            Work::Restore(key, undo) => {
                let whom = format!("{} {}", self.machines[at].name, key.resource);
                let fails = self.faults.strikes(self.now, Kind::RestoreFails, &whom);
                match fails {
                    true => self.machines[at].refused_at = self.now,
                    false => self.machines[at].host.restore(&undo),
                }
                let result = if fails { Err("the switch is not running".into()) } else { Ok(()) };
                self.tell_agent(at, Input::Restored { key, result });
            }
            Work::Fallback(key, spec) => {
                let result = if self.dice.hosts.one_in(2) {
                    self.machines[at].host.falls_back(key.resource, &spec);
                    Ok(())
                } else {
                    Err("the document has no fallback_config".into())
                };
                self.tell_agent(at, Input::Restored { key, result });
            }
            Work::Look(number, looks) => self.looked(at, number, looks),
            Work::Gather => self.tell_agent(at, Input::Gathered(Ok(Box::default()))),
            Work::Apply(key) => self.job_applies(at, key),
            Work::Answer(key) => self.job_answers(at, key),
            Work::Script(key) => self.script_goes_on(at, key),
            Work::Verify(digest) => {
                let contents = &mut self.machines[at].disk.contents;
                let right = contents.get(&digest).is_some_and(|bytes| ContentDigest::of(bytes) == digest);
                if !right {
                    contents.remove(&digest);
                }
                if right {
                    self.has_fetched(at, digest);
                }
                let state = if right { ContentState::Verified } else { ContentState::Corrupt };
                self.tell_agent(at, Input::Content { digest, state: Ok(state) });
            }
        }
    }

    fn network_step(&mut self, at: usize, key: ReportKey) {
        let was_cut = self.machines[at].host.is_cut();
        let machine = &mut self.machines[at];
        let Some(run) = machine.process.as_mut().and_then(|process| process.runs.get_mut(&key)) else {
            return;
        };
        if matches!(run.fate, Fate::Fails { .. } | Fate::Hangs)
            || run.fate == Fate::FailsHalfWay && run.touched
        {
            return;
        }
        let machine_disk = &machine.disk;
        let what = run.steps.front().filter(|_| !machine_disk.knows_undo_of(key));
        if what.is_some() {
            let wrong = format!("{} is changed and what to restore is not on disk", key.resource);
            return self.violate(wrong);
        }
        let step = run.steps.pop_front();
        if let Some(step) = &step {
            run.touched |= machine.host.step(step);
        }
        if !was_cut && machine.host.is_cut() {
            self.is_cut_off(at);
        }
        if step.is_some() {
            self.hints(at);
        }
    }

    pub(super) fn job_applies(&mut self, at: usize, key: ReportKey) {
        let faults_on = self.faults.on;
        let machine = &mut self.machines[at];
        let Some(run) = machine.process.as_mut().and_then(|process| process.runs.get_mut(&key)) else {
            return;
        };
        if matches!(run.fate, Fate::Fails { .. } | Fate::FailsHalfWay | Fate::Hangs) {
            return;
        }
        let before = run.before.as_ref().map(|before| Host::without(before, &run.theirs));
        let result = machine.host.run(&run.job, before.as_ref(), &machine.disk.contents, faults_on);
        let (is_done, is_delete) = (result.is_ok(), run.job.action == Action::Delete);
        let gone = (is_done && is_delete).then(|| run.job.clone());
        let written = (is_done && !is_delete).then(|| run.job.spec.clone());
        run.result = Some(result);
        if let Some(spec) = written {
            self.thing_is_written(at, key.resource, &spec);
        }
        if let Some(job) = gone {
            self.taken_away(&job);
            self.keeps_what_has_no_row(at, &job);
        }
    }

    pub(super) fn job_answers(&mut self, at: usize, key: ReportKey) {
        let Some(process) = &mut self.machines[at].process else { return };
        let Some(run) = process.runs.get(&key) else { return };
        let error =
            |reason: &str, permanent| RunError { reason: reason.into(), retry: Retry::unless(permanent) };
        let (outcome, before) = match (run.fate, run.result.clone()) {
            (Fate::Hangs | Fate::Silent, _) => return,
            (Fate::Works, Some(Ok((observed, before)))) => (Ok(observed), before),
            (Fate::Works, Some(Err(error))) => (Err(error), None),
            (Fate::FailsLate, _) => (Err(error("it differs after all", false)), None),
            (Fate::FailsHalfWay, _) => (Err(error("a step failed", false)), None),
            (Fate::Fails { permanent }, _) => (Err(error("the host says no", permanent)), None),
            (Fate::Works, None) => (Err(error("nothing was done", false)), None),
        };
        let (touched, makers, job) = (run.touched, run.makers.clone(), run.job.clone());
        process.runs.remove(&key);
        if outcome.is_ok() {
            self.job_took(at, &job);
        }
        if outcome.is_err() && !touched {
            self.machines[at].host.was_made_by(makers);
        }
        self.job_ended(at, key);
        self.tell_agent(at, Input::Ran { key, outcome, before, touched });
    }

    pub(super) fn job_ended(&mut self, at: usize, key: ReportKey) {
        if self.running.get(&key.resource) == Some(&(at, key)) {
            self.running.remove(&key.resource);
        }
    }

    pub(super) fn content(&mut self, at: usize, digest: ContentDigest, step: ContentStep) {
        let disk = &mut self.machines[at].disk;
        let length = disk.contents.get(&digest).map_or(0, Vec::len) as u64;
        let state = match step {
            ContentStep::Find => Ok(ContentState::Have(length)),
            ContentStep::Append { .. } if disk.full => {
                let reason = "no space left on device".to_owned();
                Err(RunError { reason, retry: Retry::WhenRoom })
            }
            ContentStep::Append { offset, bytes } => {
                self.piece_came(at, digest);
                let whom = format!("{} {digest}", self.machines[at].name);
                let damaged = self.faults.strikes(self.now, Kind::ContentDamaged, &whom);
                let content = self.machines[at].disk.contents.entry(digest).or_default();
                content.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
                content.extend_from_slice(&bytes);
                if let (true, Some(last)) = (damaged, content.last_mut()) {
                    *last ^= 1;
                }
                Ok(ContentState::Have(content.len() as u64))
            }
            ContentStep::Verify => {
                let after = self.dice.disks.millis(0, 10);
                return self.work_later(at, after, Work::Verify(digest));
            }
            ContentStep::Drop => {
                self.drops(at, digest);
                self.machines[at].disk.contents.remove(&digest);
                return;
            }
        };
        self.tell_agent(at, Input::Content { digest, state });
    }
}
