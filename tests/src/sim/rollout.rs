//! Checks of rollouts, which take a change through a fleet in batches: no member begins too early, and a change that
//! fails everywhere is stopped. The checks go by the jobs that leave, by what is durable, and by what operators asked
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use muster_engine::record::{ProgressRecord, ResourceRecord, StackAction, StackRecord, Status};
use muster_engine::{Request, RolloutAction};
use muster_shared::model::Action;
use muster_shared::{Generation, MonoTime, ResourceId, StackName};

use super::operator::stack_name;
use super::plan::{Plan, Rollout, Share, What, member, split};
use super::shared::Shared;
use super::store::Tables;
use super::world::World;

/// The time between an agent's report and the commit that makes it durable: the report counts from its arrival.
const LAG: Duration = Duration::from_secs(1);

/// The plans that operators sent, by the name of the source.
type Plans = BTreeMap<String, Rc<Plan>>;

/// The rollouts, by stack and resource.
#[derive(Clone, Default)]
pub struct Rollouts {
    runs: BTreeMap<(u64, String), RolloutRun>,
    /// Sets of which all members were ready once, as stack, revision and resource.
    proven: BTreeSet<(u64, u32, String)>,
    /// Rows whose jobs are out since this commit.
    pub fresh: Vec<u64>,
    /// Rows whose rollout was aborted with this commit.
    pub aborted: Vec<u64>,
}

/// A rollout in one operation.
#[derive(Clone, Default)]
struct RolloutRun {
    traversal: u64,
    /// Members whose job went out, by node. The turn of each may have come earlier: a job waits for its node, and for
    /// others there.
    begun: BTreeMap<String, Begun>,
    /// The most members that the set had.
    members: usize,
    /// The nodes of the members, as of the last commit.
    nodes: BTreeSet<String>,
    /// A canary has proven itself.
    proven: bool,
    /// The operation returns to a revision that was COMPLETE.
    returns: bool,
    /// When operators promoted the rollout, and how many members were under way then.
    promoted: Vec<(MonoTime, usize)>,
    /// Members that had a job of an earlier operation when this one began, and when that job ended well. From outside,
    /// nobody sees whether they count: for a canary they may.
    taken: BTreeMap<String, Option<MonoTime>>,
    /// The rollout had to stop.
    stopped: Option<Stopped>,
}

#[derive(Clone, Copy)]
struct Stopped {
    /// The number of members that were under way when the rollout had to stop.
    under_way: usize,
    /// The number of members that have started since.
    since: usize,
}

#[derive(Clone)]
struct Begun {
    at: MonoTime,
    /// The end of the job, and its time.
    ended: Option<(End, MonoTime)>,
    /// The node is not a member any more.
    left: bool,
    /// When the member was seen to differ from what was wanted, or not to be trusted.
    disturbed: Option<MonoTime>,
    /// The member was under way when the rollout had to stop.
    at_stop: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Ready,
    Failed,
}

impl RolloutRun {
    /// Stops the rollout: members that are under way go on.
    fn stops(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(Stopped { under_way: self.under_way(), since: 0 });
        for begun in self.begun.values_mut() {
            begun.at_stop = begun.ended.is_none() && !begun.left;
        }
    }

    /// Notes what became of the members that have started.
    fn goes<'r>(&mut self, progress: &dyn Fn(&str) -> Option<&'r ProgressRecord>, now: MonoTime) {
        for (node, begun) in &mut self.begun {
            begun.goes(progress(node), now);
        }
    }

    /// Returns whether all members of the last commit have started since the operation began, and are ready.
    fn all_ended_well(&self) -> bool {
        let is_ready = |begun: &Begun| !begun.left && matches!(begun.ended, Some((End::Ready, _)));
        !self.nodes.is_empty() && self.nodes.iter().all(|node| self.begun.get(node).is_some_and(is_ready))
    }

    fn under_way(&self) -> usize {
        self.begun.values().filter(|begun| begun.ended.is_none() && !begun.left).count()
    }

    /// The reason why nobody may begin now. `rollout`: as it goes.
    fn refuses(&self, rollout: &Rollout, is_fatal: bool, now: MonoTime) -> Option<String> {
        let batch = rollout.batch_of(self.members);
        let most = rollout.failures_of(self.members);
        let left = self.begun.values().filter(|begun| begun.left).count();
        let pause = Duration::from_secs(rollout.pause);
        // A member that is gone for long is passed over, as long as failed and passed-over members are within the bound.
        let passed = if rollout.away == "wait" { 0 } else { most };
        let turns = batch * (1 + self.promoted.len()) + passed;
        if let Some(Stopped { under_way, since }) = self.stopped
            && under_way + since >= turns
        {
            return Some(format!(
                "{under_way} were under way when it was to stop, and {since} have begun since"
            ));
        }
        // A member that left while it was under way counts as soon as another one fails.
        let bound = turns - passed + most + left;
        if is_fatal && self.begun.len() >= bound {
            return Some(format!(
                "it fails everywhere, and {} have it, {left} of which left",
                self.begun.len()
            ));
        }
        // A member whose turn had come before an operator promoted the rollout may get its job after that.
        let (since, may) = match self.promoted.last() {
            Some((at, under_way)) => (Some(*at), turns.saturating_sub(*under_way).max(batch)),
            None => (None, turns),
        };
        let is_over = |at: MonoTime| at + pause <= now + LAG;
        let counts = |begun: &&Begun| !begun.left && since.is_none_or(|since| begun.at > since);
        let fresh = |begun: &&Begun| begun.ended.is_none_or(|(_, at)| !is_over(at));
        let fresh = self.begun.values().filter(counts).filter(fresh).count();
        if fresh >= may {
            return Some(format!("{fresh} are under way, or the pause after them is not over"));
        }
        let canary = if since.is_some() { 0 } else { rollout.canary_of(self.members).min(batch) };
        if canary == 0 || self.begun.len() - left < canary {
            return None;
        }
        // The first that begin are the canary, as long as no member has left or had a job of an earlier operation: such
        // a member may be the canary.
        if left == 0
            && self.taken.is_empty()
            && self.begun.len() == canary
            && self.begun.values().any(|begun| begun.was_disturbed(pause))
        {
            return Some("its canary was disturbed".into());
        }
        (!self.proven).then(|| "no canary is ready for long enough".into())
    }

    /// Returns whether a member was ready and undisturbed for the length of a pause.
    fn is_proven(&self, pause: Duration, now: MonoTime) -> bool {
        let ready = self.begun.values().filter(|begun| !begun.was_disturbed(pause));
        let ready = ready.filter_map(|begun| begun.ended).filter(|(end, _)| *end == End::Ready);
        let mut ready = ready.map(|(_, at)| at).chain(self.taken.values().flatten().copied());
        ready.any(|at| at + pause <= now + LAG)
    }
}

impl Rollouts {
    /// A commit is over, of what was decided `now`: it may have waited for the database since.
    pub fn committed(
        &mut self,
        tables: &Tables,
        plans: &Plans,
        began: &BTreeMap<(ResourceId, Generation), u64>,
        now: MonoTime,
    ) {
        self.takes_in(tables, began);
        let by_name: &BTreeMap<(u64, &str), &ResourceRecord> = &tables
            .rows
            .values()
            .filter(|row| row.dropped.is_none())
            .map(|row| ((row.stack, &*row.name), row))
            .collect();
        let sets = tables.stacks.values().flat_map(|stack| {
            let resources = plan_of(tables, plans, stack).into_iter().flat_map(|plan| &plan.resources);
            let sets = resources.filter(|(_, resource)| resource.each.is_some());
            sets.filter_map(move |(name, _)| Some((stack, name, by_name.get(&(stack.id, &**name))?)))
        });
        for (stack, name, row) in sets {
            let prefix = format!("{name}[");
            let members = by_name.range((stack.id, prefix.as_str())..);
            let members = members.take_while(|((of, name), _)| *of == stack.id && name.starts_with(&prefix));
            let nodes: BTreeSet<String> =
                members.filter_map(|((_, name), _)| split(name).1).map(str::to_owned).collect();
            let members = nodes.len();
            let progress =
                |node: &str| by_name.get(&(stack.id, &*member(name, node))).map(|row| &row.progress);
            let run = self.run(stack, name);
            run.members = run.members.max(members);
            run.goes(&progress, now);
            // A set may become ready and grow within one commit. Its row was ready in between.
            let grew = run.all_ended_well() && run.nodes.is_subset(&nodes) && run.nodes != nodes;
            run.nodes = nodes;
            if (row.progress.observed_ready || grew) && members > 0 {
                // Members that come later belong to another rollout.
                let RolloutRun { traversal, members, returns, .. } = *run;
                let nodes = std::mem::take(&mut run.nodes);
                *run = RolloutRun { traversal, members, nodes, returns, ..RolloutRun::default() };
                self.proven.insert((stack.id, stack.revision, name.clone()));
            }
        }
        for ((stack, name), run) in &mut self.runs {
            let progress = |node: &str| by_name.get(&(*stack, &*member(name, node))).map(|row| &row.progress);
            run.goes(&progress, now);
            run.taken.retain(|node, ended| {
                let Some(row) = progress(node) else { return false };
                if row.observed_ready {
                    ended.get_or_insert(now);
                }
                true
            });
        }
        for row in std::mem::take(&mut self.aborted) {
            let Some(row) = tables.rows.get(&row) else { continue };
            if let Some(stack) = tables.stacks.get(&row.stack) {
                self.run(stack, &row.name).stops();
            }
        }
        self.runs.retain(|(stack, _), _| tables.stacks.contains_key(stack));
        self.proven.retain(|(stack, ..)| tables.stacks.contains_key(stack));
    }

    fn takes_in(&mut self, tables: &Tables, began: &BTreeMap<(ResourceId, Generation), u64>) {
        let is_out = |row: &&ResourceRecord| {
            let ProgressRecord { in_flight, action, .. } = row.progress;
            row.dropped.is_none() && in_flight && action.is_some_and(Action::applies)
        };
        for row in tables.rows.values().filter(is_out) {
            let (name, Some(node)) = split(&row.name) else { continue };
            let Some(stack) = tables.stacks.get(&row.stack) else { continue };
            if began.get(&(row.physical, row.progress.generation)) != Some(&stack.traversal) {
                self.run(stack, name).taken.entry(node.to_owned()).or_default();
            }
        }
    }

    fn run(&mut self, stack: &StackRecord, name: &str) -> &mut RolloutRun {
        let run = self.runs.entry((stack.id, name.to_owned())).or_default();
        if run.traversal != stack.traversal {
            *run =
                RolloutRun { traversal: stack.traversal, returns: returns(stack), ..RolloutRun::default() };
        }
        run
    }
}

/// Returns the plan of a stack's revision.
fn plan_of<'p>(tables: &Tables, plans: &'p Plans, stack: &StackRecord) -> Option<&'p Plan> {
    let text = tables.revisions.get(&(stack.id, stack.revision))?;
    plans.get(&text.name).map(|plan| &**plan)
}

/// Whether a row stands for what its stack has for each node. The row's kind does not say so before all of that is ready: until
/// then it is the kind of what stood under the name before.
pub fn is_set(tables: &Tables, plans: &Plans, row: &ResourceRecord) -> bool {
    let stack = tables.stacks.get(&row.stack).filter(|_| row.dropped.is_none());
    let resource = stack.and_then(|stack| plan_of(tables, plans, stack)?.resources.get(&*row.name));
    resource.is_some_and(|resource| resource.each.is_some())
}

/// Returns whether the operation is a rollback to a revision that was COMPLETE, or to an empty stack, as it was when
/// the operation began.
fn returns(stack: &StackRecord) -> bool {
    let to = stack.reason.strip_prefix("rolling back to revision ").and_then(|to| to.parse().ok());
    stack.action == StackAction::Rollback && to.is_none_or(|to: u32| stack.complete.contains(&to))
}

/// Returns the rollout as it has to go: a proven revision needs no canary and no pause, and on the way back to an older
/// revision no failure stops it.
fn as_it_goes(rollout: &Rollout, is_proven: bool, returns: bool) -> Rollout {
    let mut goes = rollout.clone();
    if is_proven || returns {
        (goes.pause, goes.canary) = (0, Share::Count(0));
    }
    if returns {
        (goes.max_failures, goes.away) = (Share::Percent(100), "skip");
    }
    goes
}

impl Begun {
    fn was_disturbed(&self, pause: Duration) -> bool {
        match (self.ended, self.disturbed) {
            (Some((End::Ready, at)), Some(disturbed)) => disturbed + LAG < at + pause,
            _ => false,
        }
    }

    fn goes(&mut self, row: Option<&ProgressRecord>, now: MonoTime) {
        let failed = |row: &ProgressRecord| row.status == Some(Status::Failed);
        match (row, self.ended) {
            (None, _) => self.left = true,
            (Some(row), None) if failed(row) => self.ended = Some((End::Failed, now)),
            // As before a job that was withdrawn: there is another one. Without a job the member waits for its turn again.
            (Some(row), Some((End::Failed, _))) if !failed(row) && (row.in_flight || row.observed_ready) => {
                self.ended = row.observed_ready.then_some((End::Ready, now));
            }
            (Some(row), None) if row.observed_ready => self.ended = Some((End::Ready, now)),
            (Some(row), Some((End::Ready, _))) if failed(row) || row.observed.differs() => {
                self.disturbed.get_or_insert(now);
            }
            _ => {}
        }
    }
}

/// Jobs went out with this commit.
pub fn begin(shared: &mut Shared) {
    for row in std::mem::take(&mut shared.rollouts.fresh) {
        let wrong = begins(shared, row);
        wrong.into_iter().for_each(|wrong| shared.violate(wrong));
    }
}

fn begins(shared: &mut Shared, row: u64) -> Option<String> {
    let Shared { tables, plans, rollouts, counts, now, .. } = shared;
    let row = tables.rows.get(&row)?;
    let (name, node) = split(&row.name);
    let is_made = row.progress.action.is_some_and(Action::applies) && row.dropped.is_none();
    // One that is ready is made again, for its agent had lost it.
    if !is_made || row.progress.observed_ready {
        return None;
    }
    let (stack, node) = (tables.stacks.get(&row.stack)?, node?.to_owned());
    let resource = plan_of(tables, plans, stack)?.resources.get(name)?;
    let rollout = resource.each.as_ref()?.rollout.as_ref()?;
    let members = super::fleet::members(stack.id, tables).filter(|it| split(it).0 == name).count();
    let proven = (stack.id, stack.revision, name.to_owned());
    let is_proven = rollouts.proven.contains(&proven);
    let run = rollouts.run(stack, name);
    let goes = as_it_goes(rollout, is_proven, run.returns);
    let is_fatal = !run.returns && matches!(resource.what, What::Dummy { fail: Some("true"), .. });
    run.members = run.members.max(members);
    if run.begun.get(&node).is_some_and(|begun| !begun.left) {
        return None;
    }
    run.proven |= run.is_proven(Duration::from_secs(goes.pause), *now);
    // A member that is back has its turn again. If it was under way at the stop, that is the place it had then.
    let was = run.begun.remove(&node);
    if let Some(stopped) = &mut run.stopped
        && was.is_some_and(|was| was.at_stop && was.ended.is_none())
    {
        stopped.under_way -= 1;
    }
    // With a job of an earlier operation its turn may have come, and it keeps that when the job is withdrawn.
    let had_its_turn = run.taken.contains_key(&node);
    let refuses = run.refuses(&goes, is_fatal, *now).filter(|_| !had_its_turn);
    run.begun.insert(node, Begun { at: *now, ended: None, left: false, disturbed: None, at_stop: false });
    if let Some(stopped) = &mut run.stopped {
        stopped.since += 1;
    }
    counts.add(if is_proven || run.returns {
        "rollout member begins, proven"
    } else {
        "rollout member begins"
    });
    refuses.map(|why| format!("{} begins in {rollout:?} of {members}: {why}", row.name))
}

/// Returns the name under which it is counted that the rollout of a set was aborted, by the reason of the set's row.
pub fn counted(was: &ProgressRecord, is: &ProgressRecord) -> Option<&'static str> {
    let reason =
        is.reason.as_deref().filter(|_| is.status == Some(Status::Failed) && was.reason != is.reason)?;
    let whys = [
        ("its canary", "failed", "rollout canary failed"),
        ("its canary", "was disturbed", "rollout canary was disturbed"),
        ("more than its max_failures", "", "rollout aborted for its failures"),
        ("an operator wants it so", "", "rollout aborted by an operator"),
    ];
    whys.iter().find(|(one, other, _)| reason.contains(one) && reason.contains(other)).map(|(.., what)| *what)
}

impl World {
    /// An operator pauses, resumes, promotes or aborts a rollout.
    pub fn steers_a_rollout(&mut self) {
        let dice = &mut self.operators.fleet;
        let name = stack_name(dice.index(self.options.stacks));
        let action = match dice.below(10) {
            0..3 => RolloutAction::Pause,
            3..7 => RolloutAction::Resume,
            7..9 => RolloutAction::Promote,
            _ => RolloutAction::Abort,
        };
        let is_one = dice.below(4) > 0;
        let number = dice.number();
        let sets: Vec<String> = {
            let shared = self.shared.borrow();
            let id = shared.tables.names.get(&name).copied().unwrap_or_default();
            let rows = shared.tables.rows.values();
            let rows = rows.filter(|row| row.stack == id && is_set(&shared.tables, &shared.plans, row));
            rows.filter(|row| shared.tables.rollouts.rollouts.contains_key(&row.id))
                .map(|row| row.name.to_string())
                .collect()
        };
        let one = (!sets.is_empty()).then(|| sets[number as usize % sets.len()].clone());
        self.steers(&name, action, one.filter(|_| is_one));
    }

    /// Resumes or aborts the rollouts of a stack: one that was paused and forgotten would refuse updates.
    pub fn resumes_rollouts(&mut self, name: &StackName) {
        let is_abort = self.operators.fleet.one_in(2);
        self.steers(name, if is_abort { RolloutAction::Abort } else { RolloutAction::Resume }, None);
    }

    fn steers(&mut self, name: &StackName, action: RolloutAction, resource: Option<String>) {
        let runs: Vec<String> = {
            let shared = self.shared.borrow();
            let id = shared.tables.names.get(name).copied().unwrap_or_default();
            let rows = shared.tables.rows.values().filter(|row| row.stack == id);
            let rows = rows.filter(|row| is_set(&shared.tables, &shared.plans, row));
            let meant = rows.filter(|row| resource.as_deref().is_none_or(|one| *row.name == *one));
            meant.map(|row| row.name.to_string()).collect()
        };
        let is_one = resource.is_some();
        // A promotion or resumption lets members start at once.
        let now = self.now;
        let before: Vec<Option<Stopped>> = self.of_runs(name, &runs, |run| {
            let was = run.stopped;
            match action {
                RolloutAction::Promote => run.promoted.push((now, run.under_way())),
                RolloutAction::Resume => run.stopped = None,
                RolloutAction::Pause | RolloutAction::Abort => {}
            }
            was
        });
        let request = Request::Rollout { name: name.clone(), action, resource };
        let answer = self.tries(&format!("rollout {}", action.as_str()), request);
        match (answer, action) {
            (Some(Err(_)), _) => {
                let mut before = before.into_iter();
                self.of_runs(name, &runs, |run| {
                    run.stopped = before.next().unwrap_or_default();
                    if action == RolloutAction::Promote {
                        run.promoted.pop();
                    }
                });
            }
            // For all rollouts at once, the stopped ones are unknown.
            (Some(Ok(_)), RolloutAction::Pause | RolloutAction::Abort) if is_one => {
                self.of_runs(name, &runs, RolloutRun::stops);
            }
            _ => {}
        }
    }

    fn of_runs<T>(
        &self,
        stack: &StackName,
        names: &[String],
        each: impl FnMut(&mut RolloutRun) -> T,
    ) -> Vec<T> {
        let shared = &mut *self.shared.borrow_mut();
        let stack = shared.tables.names.get(stack).and_then(|id| shared.tables.stacks.get(id));
        let Some(stack) = stack else { return Vec::new() };
        let mut each = each;
        names.iter().map(|name| each(shared.rollouts.run(stack, name))).collect()
    }
}
