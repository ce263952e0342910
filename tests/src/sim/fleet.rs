//! Resources for each node: operators who give servers other labels at any moment, and what must hold of members
//! meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_engine::Request;
use muster_engine::record::{NodeRecord, ResourceRecord, StackRecord, Status};
use muster_shared::model::{Action, Job};
use muster_shared::{MonoTime, NodeId};

use super::plan::{ROLE, member, role, split};
use super::shared::Shared;
use super::store::Tables;
use super::world::{Event, World};

/// The number of roles that selectors ask for.
const ROLES: u64 = 3;
/// A stack follows its nodes within a minute, and the controller may stand still and wait for its disk before.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(180);

/// A change within this time counts as recent, for the counts.
const JUST_NOW: Duration = Duration::from_secs(5);

type Labels = BTreeMap<String, String>;

/// The memory of nodes and members that tells what may be.
#[derive(Clone, Default)]
pub struct Fleet {
    /// Labels that nodes had, and until when.
    had: BTreeMap<NodeId, VecDeque<(MonoTime, Labels)>>,
    /// The time since which nodes have other labels.
    labelled: BTreeMap<NodeId, MonoTime>,
    /// Revision and traversal of each stack as the last commit left them.
    stood: BTreeMap<u64, (u32, u64)>,
    /// Rows whose clean-up began when all else was ready, and in which traversal: it goes on when somebody joins then.
    leaving: BTreeMap<u64, u64>,
    /// Stacks that were COMPLETE in this turn, if only for a moment: the next operation may have started in it.
    pub completed: BTreeSet<u64>,
}

impl Fleet {
    /// A node's record changes.
    pub fn node_went(&mut self, was: Option<&NodeRecord>, is: &NodeRecord, now: MonoTime) {
        let Some(was) = was.filter(|was| was.labels != is.labels) else { return };
        self.labelled.insert(is.name.clone(), now);
        let had = self.had.entry(is.name.clone()).or_default();
        had.push_back((now, was.labels.clone()));
        had.retain(|(until, _)| now.since(*until) < FOLLOWS_WITHIN);
    }

    /// A commit is over.
    pub fn committed(&mut self, tables: &Tables) {
        let stacks = tables.stacks.iter();
        self.stood = stacks.map(|(id, stack)| (*id, (stack.revision, stack.traversal))).collect();
        self.leaving.retain(|row, _| tables.rows.get(row).is_some_and(|row| row.dropped.is_some()));
        let is_unready = |row: &&ResourceRecord| row.dropped.is_none() && !row.progress.observed_ready;
        let unready: BTreeSet<u64> = tables.rows.values().filter(is_unready).map(|row| row.stack).collect();
        for row in tables.rows.values().filter(|row| row.dropped.is_some()) {
            let Some(stack) = tables.stacks.get(&row.stack) else { continue };
            let is_going = row.progress.status == Some(Status::InProgress)
                && matches!(row.progress.action, Some(Action::Delete | Action::Retain));
            if is_going && !unready.contains(&row.stack) {
                self.leaving.insert(row.id, stack.traversal);
            }
        }
    }

    /// The clean-up of a row has started in this traversal, when its time had come.
    pub fn is_leaving(&self, row: u64, traversal: u64) -> bool {
        self.leaving.get(&row) == Some(&traversal)
    }

    /// A row came, or is no longer wanted. Counts what matters of it.
    pub fn row_went(
        &self,
        was: Option<&ResourceRecord>,
        is: &ResourceRecord,
        stack: Option<&StackRecord>,
        now: MonoTime,
    ) -> Vec<String> {
        let way = match was {
            None if is.dropped.is_none() => "comes",
            Some(was) if was.dropped.is_none() && is.dropped.is_some() => "goes",
            _ => return Vec::new(),
        };
        let (Some(node), Some(stack)) = (split(&is.name).1, stack) else { return Vec::new() };
        let Some((_, traversal)) =
            self.stood.get(&stack.id).filter(|(revision, _)| *revision == stack.revision)
        else {
            return vec![format!("fleet member {way} with a revision")];
        };
        let is_recent = |at: &MonoTime| now.since(*at) < JUST_NOW;
        let is_labelled = self.labelled.iter().any(|(name, at)| name.as_str() == node && is_recent(at));
        let why = if is_labelled { "by a label" } else { "with its node" };
        let when = if *traversal == stack.traversal { "during an operation" } else { "between two" };
        vec![format!("fleet member {way} {why}"), format!("fleet member {way} {when}")]
    }

    fn was_meant(&self, node: &NodeId, means: impl Fn(&Labels) -> bool, now: MonoTime) -> bool {
        let recent = |(until, _): &&(MonoTime, _)| now.since(*until) < FOLLOWS_WITHIN;
        self.had.get(node).is_some_and(|had| had.iter().filter(recent).any(|(_, labels)| means(labels)))
    }
}

/// A job that makes or changes a member is sent for the first time: only nodes that the selector matches get one.
pub fn begins(shared: &mut Shared, node: &NodeId, job: &Job) -> Option<String> {
    let tables = &shared.tables;
    let row = tables.physical.get(&job.resource).and_then(|id| tables.rows.get(id))?;
    let (name, Some(own)) = split(&row.name) else { return None };
    if own != node.as_str() {
        return Some(format!("{} is sent to {node}", row.name));
    }
    let stack = tables.stacks.get(&row.stack)?;
    let plan = shared.plans.get(&tables.revisions.get(&(stack.id, stack.revision))?.name)?;
    let each = plan.resources.get(name)?.each.as_ref()?;
    let is_meant = tables.nodes.get(node).is_some_and(|node| each.nodes.means(&node.labels));
    if !is_meant && !shared.fleet.was_meant(node, |labels| each.nodes.means(labels), shared.now) {
        return Some(format!(
            "{} is sent to {node}, which '{}' does not select",
            row.name,
            each.nodes.text()
        ));
    }
    let is_there = |other: &str| {
        tables.rows.values().any(|row| row.stack == stack.id && row.dropped.is_none() && *row.name == *other)
    };
    let needs = plan.needs_of(&row.name).unwrap_or_default();
    let is_pair = needs.iter().any(|need| split(need).1.is_some() && is_there(need));
    let is_behind = each.barriers.iter().any(|barrier| is_there(&member(barrier, own)));
    shared.counts.add("fleet member begins");
    if is_pair {
        shared.counts.add("fleet member begins after its pair");
    }
    if is_behind {
        shared.counts.add("fleet member begins behind a barrier");
    }
    None
}

/// A further attempt: what was under way when nodes came or went goes on, though what it needs waits for those who came.
pub fn goes_on(shared: &Shared, row: &ResourceRecord, job: &Job) -> bool {
    let tables = &shared.tables;
    let text =
        tables.stacks.get(&row.stack).and_then(|stack| tables.revisions.get(&(stack.id, stack.revision)));
    let plan = text.and_then(|text| shared.plans.get(&text.name));
    job.attempt.0 > 0
        && plan.is_some_and(|plan| plan.resources.values().any(|resource| resource.each.is_some()))
}

/// The members of a stack that are wanted.
pub fn members(stack: u64, tables: &Tables) -> impl Iterator<Item = &str> {
    let rows = tables.rows.values().filter(move |row| row.stack == stack && row.dropped.is_none());
    rows.map(|row| &*row.name).filter(|name| split(name).1.is_some())
}

impl World {
    /// The labels of a server that joins.
    pub fn labels_at_first(&mut self) -> Labels {
        let dice = &mut self.operators.fleet;
        let has_role = dice.below(4) > 0;
        has_role.then(|| (ROLE.to_owned(), role(dice.below(ROLES)))).into_iter().collect()
    }

    /// Lets an operator of the fleet act.
    pub fn fleet_operator_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.operators.fleet.millis(100, 25_000);
        self.later(next, Event::FleetOperator);
        if !self.can_be_asked() {
            return;
        }
        match self.operators.fleet.below(5) {
            0..3 => self.labels_a_node(),
            _ => self.steers_a_rollout(),
        }
    }

    fn labels_a_node(&mut self) {
        let dice = &mut self.operators.fleet;
        let at = dice.index(self.machines.len());
        let value = (!dice.one_in(4)).then(|| role(dice.below(ROLES)));
        let node = self.machines[at].name.clone();
        self.tries("fleet label", Request::LabelNode { node, labels: [(ROLE.to_owned(), value)].into() });
    }
}
