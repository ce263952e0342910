//! Checks after every step, from outside: of what the controller writes, of what leaves it, and of the hosts. None of
//! them asks the engine.

use std::collections::BTreeSet;

use muster_engine::Hook;
use muster_engine::record::{Change, EventRecord, ResourceRecord, StackAction, StackRecord, Status};
use muster_shared::model::flow::{DeviceName, FlowDown};
use muster_shared::model::{Action, Claim, Down, Job, ReportKey};
use muster_shared::{Generation, NodeId};
use muster_template::Kind;

use super::adopt;
use super::fleet;
use super::outbox::Leaving;
use super::plan::{HIDDEN, Plan, split};
use super::shared::{Noted, Shared, Suspect};
use super::store::{Tables, brief};

/// The changes of the present turn of the controller, before the tables became what they are.
#[derive(Default)]
pub struct SoFar {
    /// Rows that went out of use: a job of theirs may have left before that, and is withdrawn in its turn.
    dropped: BTreeSet<u64>,
    /// Stacks that were laid out again under way.
    laid_out: BTreeSet<u64>,
    /// Rows that were ready before that, and those that came.
    were_ready: BTreeSet<u64>,
    /// Rows whose work began.
    began: BTreeSet<u64>,
    /// Rows whose work began before an operation on their stack did: the operation keeps their job.
    kept: BTreeSet<u64>,
}

impl SoFar {
    /// A row is another than it was.
    pub fn row_went(&mut self, was: Option<&ResourceRecord>, is: &ResourceRecord) {
        if is.dropped.is_some() && was.is_none_or(|was| was.dropped.is_none()) {
            self.dropped.insert(is.id);
        }
        if was.is_none_or(|was| was.progress.observed_ready) {
            self.were_ready.insert(is.id);
        }
    }

    /// Operators are told of something.
    pub fn tells(&mut self, event: &EventRecord, tables: &Tables) {
        match &event.resource {
            Some((_, physical)) if event.status == Status::Complete.as_str() => {
                self.were_ready.extend(tables.physical.get(physical));
            }
            Some((_, physical)) if event.status == Status::InProgress.as_str() => {
                if let Some(id) = tables.physical.get(physical) {
                    self.began.insert(*id);
                    // Another job, of the operation itself.
                    self.kept.remove(id);
                }
            }
            None if event.status == Status::InProgress.as_str() && event.reason.is_empty() => {
                let is_of_it = |id: &&u64| tables.rows.get(id).is_some_and(|row| row.stack == event.stack);
                self.kept.extend(self.began.iter().filter(is_of_it));
            }
            None if ["the nodes that its selectors mean have changed:", "expanded:"]
                .iter()
                .any(|what| event.reason.starts_with(what)) =>
            {
                self.laid_out.insert(event.stack);
            }
            _ => {}
        }
    }

    /// A job went out for what this row was ready for, and then the stack was laid out again: it goes on. Operators are told
    /// of no row that stands for a set: one that became ready and waits for who came is ready if its members were.
    fn was_ready(&self, row: &ResourceRecord) -> bool {
        self.laid_out.contains(&row.stack) && (row.kind == Kind::Set || self.were_ready.contains(&row.id))
    }

    /// Nothing was to be done for this row: it was ready as soon as what it needs was, without a word to operators, and
    /// then the stack was laid out again.
    fn may_rest(&self, row: &ResourceRecord) -> bool {
        self.laid_out.contains(&row.stack) && row.progress.status == Some(Status::Complete)
    }
}

/// A hidden value where operators read.
pub fn leak(change: &Change) -> Option<String> {
    let show = |what: &str, text: &str| {
        text.contains(HIDDEN).then(|| format!("a hidden value is in {what}: {text}"))
    };
    match change {
        Change::Event(event) => show("an event", &event.reason),
        Change::Stack(stack) => show("a stack's reason", &stack.reason)
            .or_else(|| show("a stack's outputs", &format!("{:?}", stack.outputs)))
            .or_else(|| show("a stack's parameters", &format!("{:?}", stack.parameters)))
            .or_else(|| show("a stack's failures", &format!("{:?}", stack.failures))),
        Change::Resource(row) => progress_leak(&row.progress),
        Change::Progress(progress) => progress_leak(progress),
        _ => None,
    }
}

fn progress_leak(progress: &muster_engine::record::ProgressRecord) -> Option<String> {
    let mut texts = progress.reason.iter().chain(&progress.causes);
    let leaked = texts.find(|text| text.contains(HIDDEN))?;
    Some(format!("a hidden value is in the reason of row {}: {leaked}", progress.id))
}

/// A claim has one owner.
pub fn claimed_twice(tables: &Tables, touched: &BTreeSet<(NodeId, Claim)>) -> Option<String> {
    let doubled = touched.iter().find(|key| tables.claims.get(key).is_some_and(|owners| owners.len() > 1))?;
    let (node, claim) = doubled;
    let rows = tables.claims[doubled].iter().filter_map(|id| tables.rows.get(id)).map(brief);
    Some(format!("{claim} on {node} is claimed twice: {}", rows.collect::<Vec<_>>().join("; ")))
}

/// Checks a message that leaves the controller for a node, against what is durable at this moment.
pub fn leaves(shared: &mut Shared, node: &NodeId, connection: u64, message: &Down) -> Option<String> {
    match message {
        Down::Withdraw { resource, generation } => {
            shared.suspects.retain(|it| (&it.resource, &it.generation) != (resource, generation));
            None
        }
        Down::Job(job) => {
            let first = shared.sent.insert((job.resource, job.generation));
            let is_new = shared.tried.insert(job.key());
            let correction = first.then(|| shared.corrects_wrongly(job)).flatten();
            if let Some(wrong) = shared.is_held_back(node, job).or(correction) {
                let (resource, generation) = (job.resource, job.generation);
                shared.suspects.push(Suspect { resource, generation, wrong, unless_greeted: None });
            }
            let key = shared.keys.get(&connection).copied();
            let known =
                shared.tables.nodes.get(node).filter(|node| !node.revoked).map(|node| node.seal_public);
            if key.is_none() || key != known {
                return Some(format!("a job for {node} leaves on a connection of somebody else"));
            }
            let (resource, generation) = (job.resource, job.generation);
            // it may be withdrawn in the same turn.
            if let Some(wrong) = out_of_turn(shared, node, job, first, is_new) {
                shared.suspects.push(Suspect { resource, generation, wrong, unless_greeted: None });
            }
            // Or what had failed is tried again since, because the node has said Hello.
            if first
                && job.action.applies()
                && !is_sent_anew(shared, job)
                && let Some(wrong) = unclean(shared, node)
            {
                let wrong = format!("{:?} of {resource} is sent to {node}: {wrong}", job.action);
                let unless_greeted = Some(node.clone());
                shared.suspects.push(Suspect { resource, generation, wrong, unless_greeted });
            }
            let wrong = not_written(&shared.tables, node, job, first);
            if wrong.is_some() || !first || !job.action.applies() {
                return wrong;
            }
            if enters(shared, job) {
                return Some(format!("{resource} is sent to {node}, whose stack enters its rows"));
            }
            if let Some(wrong) = adopt::creates(shared, job) {
                shared.suspects.push(Suspect { resource, generation, wrong, unless_greeted: None });
            }
            if job.action != Action::Adopt {
                shared.made.insert(resource);
            }
            if let Some(wrong) = fleet::begins(shared, node, job) {
                shared.suspects.push(Suspect { resource, generation, wrong, unless_greeted: None });
            }
            None
        }
        Down::Acknowledge(key) => acknowledged(&shared.tables, *key),
        Down::Welcome(_) => {
            shared.suspects.retain(|it| it.unless_greeted.as_ref() != Some(node));
            None
        }
        Down::Chunk { .. }
        | Down::Answer { .. }
        | Down::AskFacts
        | Down::AskDrift
        | Down::Describe(_)
        | Down::Remove(_)
        | Down::Controllers(_)
        | Down::Move(_)
        | Down::Survey
        | Down::Flow(FlowDown::Ask { .. }) => None,
        Down::Flow(FlowDown::Batch(batch)) => shared.takes_off_unasked(node, batch),
        // Rules on the device stay there, and are not checked.
        Down::Flow(FlowDown::Forget { device, .. }) => {
            let device = DeviceName { node: node.clone(), bridge: device.clone() };
            shared.rules_undecided.remove(&device);
            None
        }
    }
}

/// The stack of the job has entered rows since before this turn, and still does.
fn enters(shared: &Shared, job: &Job) -> bool {
    let tables = &shared.tables;
    let row = tables.physical.get(&job.resource).and_then(|id| tables.rows.get(id));
    let Some(stack) = row.and_then(|row| tables.stacks.get(&row.stack)) else { return false };
    let began = shared.noted.iter().any(|noted| match noted {
        Noted::Stack { was, is } => {
            is.id == stack.id
                && !was.as_ref().is_some_and(|was| was.entering && was.traversal == stack.traversal)
        }
        _ => false,
    });
    stack.entering && !began
}

/// A job is durable as it is sent.
fn not_written(tables: &Tables, node: &NodeId, job: &Job, first: bool) -> Option<String> {
    let name = |why: String| Some(format!("{:?} of {} is sent to {node}: {why}", job.action, job.resource));
    let Some(row) = tables.physical.get(&job.resource).and_then(|id| tables.rows.get(id)) else {
        // A row that goes may have gone in the same turn.
        return if job.action.applies() { name("it has no row".into()) } else { None };
    };
    if job.action == Action::Check {
        return None; // it changes nothing, and a check may be over in the same turn
    }
    let progress = &row.progress;
    if !first && progress.generation > job.generation {
        return None; // said once more, and followed by a newer one in the same turn
    }
    let written = progress.generation == job.generation
        && progress.attempt >= job.attempt.0
        && progress.action == Some(job.action)
        && row.node.as_ref() == Some(node)
        && row.spec.as_ref().is_some_and(|spec| spec.unpack().spec() == Some(&job.spec));
    if !written {
        return name(format!("what is durable says otherwise: {row:?}"));
    }
    // A report in the same turn may have ended it already, or said that there is no room, which is no try.
    let is_told = progress.status != Some(Status::InProgress) || progress.reason.is_some();
    let known = progress.in_flight || progress.retry_count > 0 || is_told;
    if known { None } else { name("it is not known to be out".into()) }
}

/// A job must not be out now.
fn out_of_turn(shared: &Shared, node: &NodeId, job: &Job, first: bool, is_new: bool) -> Option<String> {
    let tables = &shared.tables;
    let name = |why: String| Some(format!("{:?} of {} is sent to {node}: {why}", job.action, job.resource));
    let row = tables.physical.get(&job.resource).and_then(|id| tables.rows.get(id))?;
    if !row.progress.in_flight {
        return None;
    }
    let with_node = tables
        .rows
        .values()
        .filter(|row| row.progress.in_flight && row.node.as_ref() == Some(node))
        .take(shared.in_flight_per_node + 1)
        .count();
    if first && with_node > shared.in_flight_per_node {
        return name(format!("{with_node} jobs are in flight there already"));
    }
    if first && let Some(hook) = hooked(shared, row, job) {
        return name(format!("{} was not cleared", hook.as_str()));
    }
    match job.action {
        // One that is out stays out when somebody changes what it needs, and is said again.
        Action::Create | Action::Update | Action::Adopt if is_new && !fleet::goes_on(shared, row, job) => {
            too_early(shared, row).and_then(name)
        }
        Action::Delete | Action::Retain if first => still_needed(shared, row).and_then(name),
        Action::Create | Action::Update | Action::Delete | Action::Retain | Action::Check | Action::Adopt => {
            None
        }
    }
}

/// A hook before this job that no operator has cleared.
fn hooked(shared: &Shared, row: &ResourceRecord, job: &Job) -> Option<Hook> {
    let stack = shared.tables.stacks.get(&row.stack)?;
    let hook = match job.action {
        Action::Create | Action::Adopt => Hook::PreCreate,
        Action::Update => Hook::PreUpdate,
        Action::Delete | Action::Retain => Hook::PreDelete,
        Action::Check => return None,
    };
    let began = shared.began.get(&(job.resource, job.generation));
    if row.progress.observed_ready || began != Some(&stack.traversal) || stack.action == StackAction::Delete {
        return None;
    }
    let text = shared.tables.revisions.get(&(stack.id, stack.revision))?;
    let hooks = &shared.plans.get(&text.name)?.hooks;
    let hooks = hooks.get(&*row.name).or_else(|| hooks.get(split(&row.name).0))?;
    let bit = Hook::ALL.iter().position(|other| *other == hook)?;
    (hooks.contains(&hook) && row.progress.hooks_cleared & (1 << bit) == 0).then_some(hook)
}

/// The node knows more of the resource than a store that went back, so a job that was out before has another number.
fn is_sent_anew(shared: &Shared, job: &Job) -> bool {
    let before = (job.resource, Generation::default())..(job.resource, job.generation);
    shared.tables.restored.is_some() && shared.sent.range(before).next().is_some()
}

/// Checks that what a removed node still has is cleaned up before anything new is made there.
fn unclean(shared: &Shared, node: &NodeId) -> Option<String> {
    let tables = &shared.tables;
    let here = |row: &&ResourceRecord| row.is_lost() && row.node.as_ref() == Some(node);
    let lost = tables.rows.values().find(here)?;
    // One that could not be taken away holds those up that it needs, and nobody else. It may have said so in this
    // turn, and be tried again since.
    let failed = |row: &ResourceRecord| row.progress.status == Some(Status::Failed);
    let of = |message: &Down| matches!(message, Down::Acknowledge(key) if key.resource == lost.physical);
    let heard = shared
        .leaving
        .iter()
        .any(|leaving| matches!(leaving, Leaving::Send { messages, .. } if messages.iter().any(of)));
    if heard || tables.rows.values().filter(here).any(failed) {
        return None;
    }
    Some(format!("{} was left behind there and is not cleaned up", lost.name))
}

/// A job is never sent before all its resource needs is observed ready.
fn too_early(shared: &Shared, row: &ResourceRecord) -> Option<String> {
    let tables = &shared.tables;
    if row.progress.observed_ready {
        return None; // made again, for its agent had lost it
    }
    if shared.turn.dropped.contains(&row.id) {
        return None;
    }
    if row.dropped.is_some() {
        return Some(format!("{} is to be cleaned up", row.name));
    }
    let stack = tables.stacks.get(&row.stack)?;
    let text = tables.revisions.get(&(stack.id, stack.revision))?;
    let plan = shared.plans.get(&text.name)?;
    if plan.needs_of(&row.name).is_none() {
        return Some(format!("{} is not in {}", row.name, plan.name));
    }
    if shared.turn.kept.contains(&row.id) {
        return None;
    }
    let missing = missing_need(shared, plan, row)?;
    Some(format!("{} needs {missing}, which is not ready ({})", row.name, plan.name))
}

/// A resource that the row needs and that was not ready when its job went out.
fn missing_need(shared: &Shared, plan: &Plan, row: &ResourceRecord) -> Option<String> {
    let tables = &shared.tables;
    let ready = |need: &String| {
        let inside = [format!("{need}/"), format!("{need}[")];
        let is_it = |other: &&ResourceRecord| {
            let is_in = |inside: &String| other.name.starts_with(inside);
            let is_of_it = *other.name == **need || inside.iter().any(is_in);
            other.stack == row.stack && is_of_it && other.dropped.is_none()
        };
        // A group, a nested stack and what is there for each node are ready when all that is in them is. Where there is
        // none on a node, nobody waits for it there.
        let is_ready = |other: &ResourceRecord| {
            other.progress.observed_ready
                || shared.turn.was_ready(other)
                || shared.turn.may_rest(other) && missing_need(shared, plan, other).is_none()
        };
        let mut rows = tables.rows.values().filter(is_it).map(is_ready);
        rows.next().unwrap_or(split(need).1.is_some()) && rows.all(|ready| ready)
    };
    plan.needs_of(&row.name)?.into_iter().find(|need| !ready(need))
}

/// Clean-up comes last, and only when nothing needs the row any more.
fn still_needed(shared: &Shared, row: &ResourceRecord) -> Option<String> {
    let tables = &shared.tables;
    if row.is_lost() {
        return None;
    }
    if row.dropped.is_none() {
        return Some(format!("{} is wanted", row.name));
    }
    let is_there = |by: &u64| tables.rows.get(by).filter(|by| by.progress.applied && by.id != row.id);
    let mut needed_by = tables.edges.iter().filter(|(_, needs)| needs.contains(&row.id));
    if let Some(by) = needed_by.find_map(|(by, _)| is_there(by)) {
        return Some(format!("{} is still needed by {}", row.name, by.name));
    }
    // A delete wants none of the rows that it has not entered yet.
    let is_delete = |stack: &StackRecord| stack.entering && stack.action == StackAction::Delete;
    let stack = tables.stacks.get(&row.stack).filter(|stack| !stack.delete_first && !is_delete(stack))?;
    if shared.fleet.is_leaving(row.id, stack.traversal) {
        return None;
    }
    let mut rows = tables.rows.values().filter(|other| other.stack == stack.id && other.dropped.is_none());
    let unready = rows.find(|other| !other.progress.observed_ready && !shared.turn.was_ready(other))?;
    Some(format!("{} is not ready yet, and clean-up comes last", unready.name))
}

/// A report is acknowledged once what follows from it is durable.
fn acknowledged(tables: &Tables, key: ReportKey) -> Option<String> {
    let row = tables.physical.get(&key.resource).and_then(|id| tables.rows.get(id))?;
    let progress = &row.progress;
    let open =
        progress.in_flight && progress.generation == key.generation && progress.attempt == key.attempt.0;
    open.then(|| format!("the report {key:?} of {} is acknowledged and not durable", row.name))
}
