//! Phases: what each resource with something to do is doing or waits for, and since when. Operators see them in lists
//! and in reasons.
//!
//! Absent: what holds a step or a job back (`traversal/gate.rs`), and when an event says that a stack makes no progress
//! (`traversal/progress_check.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_template::{DriftPolicy, Hook, Kind};

use crate::row::{Role, Row, Slot};
use crate::stack::Stack;
use crate::traversal::gate::Wait;
use crate::traversals::Traversals;
use crate::view::View;

/// Resources that a text names.
const NAMED: usize = 10;
/// Names shown of what one resource waits for. More names would say the same.
const WAITS_FOR_MAX: usize = 100;

/// The state of a row with something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The node is away, or no node has joined that could have the resource.
    NodeAway,
    /// The node is in maintenance.
    Maintenance,
    /// The disk of the node is full.
    DiskFull,
    /// The job waits for room in flight, or for its agent to start it.
    Queued,
    /// The agent runs the job.
    Running,
    /// The agent waits until the observed state equals the desired state.
    Settling,
    /// An attempt failed, and the next one waits.
    Backoff,
    /// The row waits at a hook for an operator.
    Hook,
    /// A wait condition waits for signals.
    Signals,
    /// The row waits for time to pass.
    Pause,
    /// The row waits until its rollout starts it.
    Rollout,
    /// The row waits for what it needs.
    Waiting,
    /// The row waits for a node to tell its facts.
    Facts,
}

impl Phase {
    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::NodeAway => "node_away",
            Phase::Maintenance => "maintenance",
            Phase::DiskFull => "disk_full",
            Phase::Queued => "queued",
            Phase::Running => "running",
            Phase::Settling => "settling",
            Phase::Backoff => "backoff",
            Phase::Hook => "hook",
            Phase::Signals => "signals",
            Phase::Pause => "pause",
            Phase::Rollout => "rollout",
            Phase::Waiting => "waiting",
            Phase::Facts => "facts",
        }
    }

    /// The name that operators see; empty for no phase.
    pub fn shown(phase: Option<Self>) -> String {
        phase.map_or("", Phase::as_str).to_owned()
    }
}

impl Wait {
    /// A wait as operators see it.
    fn phase(self) -> Phase {
        match self {
            Wait::Hook(_) => Phase::Hook,
            Wait::Signals => Phase::Signals,
            Wait::Time => Phase::Pause,
            Wait::Rollout => Phase::Rollout,
            Wait::Needs => Phase::Waiting,
            Wait::Facts => Phase::Facts,
            Wait::Node => Phase::NodeAway,
            Wait::Entry => Phase::Queued,
        }
    }
}

/// Needed rows, each with the names of the rows that need it.
pub(crate) type NeededBy<'a> = BTreeMap<Slot, BTreeSet<&'a str>>;

impl Traversals {
    /// The phase of a row. `None`: there is nothing to do for the row now.
    pub(crate) fn phase(&self, row: &Row) -> Option<Phase> {
        let Some(task) = row.task() else { return self.wait(row).map(Wait::phase) };
        let is_sent = task.state.is_sent();
        Some(match row.node {
            Some(key) if is_sent && !self.jobs.graph.nodes[key].presence.is_ready() => Phase::NodeAway,
            Some(key) if !is_sent && self.jobs.graph.is_in_maintenance(key) => Phase::Maintenance,
            _ if self.jobs.graph.waits_for_disk(row) => Phase::DiskFull,
            _ => task.state.phase(),
        })
    }

    /// The phase of a row that differs, including a row that only waits for its correction.
    pub(crate) fn phase_of_drift(&self, row: &Row) -> Option<Phase> {
        let held = row.node.is_some_and(|key| self.jobs.graph.is_in_maintenance(key));
        let waits = || held && row.drift_policy() == DriftPolicy::Correct && !row.is_breaker_open();
        self.phase(row).or_else(|| waits().then_some(Phase::Maintenance))
    }

    /// The time that the row has been in its phase. A row that waits for others has done so since
    /// the stage of the traversal began.
    pub(crate) fn phase_time(&self, row: &Row) -> Duration {
        let walk = self.jobs.graph.stacks.get(&row.stack).and_then(|stack| stack.walk.as_ref());
        let since = match (row.task(), self.phase(row)) {
            (_, None) => return Duration::ZERO,
            (Some(task), _) => Some(task.since),
            (None, Some(Phase::Hook)) => row.details().hook_since,
            (None, Some(Phase::Signals | Phase::Pause)) => {
                return row
                    .details()
                    .pause
                    .map_or(Duration::ZERO, |pause| pause.waited(self.jobs.graph.ctx.now));
            }
            (None, _) => walk.map(|walk| walk.since),
        };
        since.map_or(Duration::ZERO, |since| self.jobs.graph.ctx.now.0.saturating_sub(since.0))
    }

    /// The rows in clean-up that others still need, or whose replacement is not ready.
    pub(crate) fn still_needed<'a>(&'a self, stack: &'a Stack) -> NeededBy<'a> {
        let mut needed = NeededBy::new();
        if stack.extras.is_empty() {
            return needed;
        }
        let unready = stack.forward.iter().filter(|slot| !self.jobs.graph.rows[**slot].ready);
        for slot in unready.chain(&stack.extras) {
            let row = &self.jobs.graph.rows[*slot];
            for required in row.requires.iter().filter(|slot| stack.extras.contains(*slot)) {
                needed.entry(*required).or_default().insert(&row.name);
            }
        }
        let replaced =
            stack.extras.iter().filter_map(|slot| Some((self.jobs.graph.rows[*slot].replaced_by()?, *slot)));
        let replaced: BTreeMap<u64, Slot> = replaced.collect();
        for slot in stack.forward.iter().filter(|slot| !self.jobs.graph.rows[**slot].ready) {
            if let Some(old) = replaced.get(&self.jobs.graph.rows[*slot].id) {
                needed.entry(*old).or_default().insert(&self.jobs.graph.rows[*slot].name);
            }
        }
        needed
    }

    /// The names of what a row waits for.
    pub(crate) fn waits_for(&self, stack: &Stack, slot: Slot, needed: &NeededBy<'_>) -> Vec<String> {
        let row = &self.jobs.graph.rows[slot];
        if let Some(behind) = self.jobs.graph.queued_behind(slot) {
            return vec![behind];
        }
        let waits = (row.blocked > 0 || self.jobs.graph.waits_for_first(row)) && !stack.is_still();
        let Some(walk) = stack.walk.as_ref().filter(|_| waits) else { return Vec::new() };
        match row.role {
            Role::Forward => {
                let requires = walk.tree.requires(row.index as usize).iter();
                let unready = requires
                    .map(|required| &self.jobs.graph.rows[stack.forward[*required as usize]])
                    .filter(|required| !required.ready)
                    .map(|required| required.name.to_string());
                unready.chain(self.jobs.graph.waits_for_room_of(stack, slot)).take(WAITS_FOR_MAX).collect()
            }
            Role::Cleanup => {
                let names = needed.get(&slot).into_iter().flatten();
                names.take(WAITS_FOR_MAX).map(ToString::to_string).collect()
            }
            Role::Steady => Vec::new(),
        }
    }

    /// The first resources that hold up a stack, each with what it waits for. A resource that waits
    /// for another is left out. `None`: nothing holds up the stack.
    pub(crate) fn what_is_waited_for(&self, id: u64) -> Option<String> {
        let stack = self.jobs.graph.stacks.get(&id)?;
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.jobs.graph.rows[*slot]);
        let mut causes = rows.filter_map(|row| {
            let phase = self.phase(row).filter(|phase| *phase != Phase::Waiting)?;
            Some((row, phase))
        });
        let told = causes.by_ref().take(NAMED).map(|(row, phase)| self.told(row, phase));
        let told: Vec<String> = told.collect();
        match (told.len(), causes.count()) {
            (0, _) => None,
            (_, 0) => Some(told.join(", ")),
            (_, more) => Some(format!("{} and {more} more", told.join(", "))),
        }
    }

    /// The nodes that hold up a stack, each with its reason.
    pub(crate) fn missing_nodes(&self, stack: &Stack) -> Vec<String> {
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.jobs.graph.rows[*slot]);
        let missing: BTreeSet<String> = rows.filter_map(|row| self.missing_node(row)).collect();
        missing.into_iter().collect()
    }

    fn missing_node(&self, row: &Row) -> Option<String> {
        if row.task().is_none() {
            let (set, node) = self.jobs.away_member(row)?;
            return Some(format!("{node} (away; {set} waits for it)"));
        }
        let key = row.node?;
        let node = &self.jobs.graph.nodes[key];
        let name = &node.name;
        match (node.presence.is_ready(), node.joined.is_some()) {
            (true, _) if !row.is_sent() && self.jobs.graph.is_in_maintenance(key) => {
                Some(format!("{name} (in maintenance)"))
            }
            (true, _) if self.jobs.graph.waits_for_disk(row) => Some(format!("{name} (its disk is full)")),
            (true, _) => None,
            (false, true) => Some(name.to_string()),
            (false, false) if self.jobs.graph.nodes.was_removed(name) => Some(format!("{name} (removed)")),
            (false, false) => Some(match self.jobs.graph.nodes.nearest(name.as_str()) {
                Some(near) => format!("{name} (never joined; did you mean {near}?)"),
                None => format!("{name} (never joined)"),
            }),
        }
    }

    fn told(&self, row: &Row, phase: Phase) -> String {
        let (name, shown) = (&row.name, phase.as_str());
        match (phase, row.node.map(|key| &self.jobs.graph.nodes[key].name)) {
            (Phase::Hook, _) => {
                format!("{name} ({shown} {})", row.details().hook.map_or("", Hook::as_str))
            }
            (Phase::Signals, None) => {
                let slot = self.jobs.graph.rows.of_id(row.id);
                format!("{name} ({})", slot.map_or_else(String::new, |slot| self.jobs.signals_of(slot)))
            }
            (Phase::Rollout, _) => match self.jobs.away_member(row) {
                Some((_, node)) => format!("{name} ({shown}: {node} is away)"),
                None => format!("{name} ({shown})"),
            },
            (Phase::Pause, _) => format!("{name} ({shown})"),
            (Phase::Facts, _) => format!("{name} (facts of {})", self.asked(row)),
            (_, Some(node)) => format!("{name} ({shown} on {node})"),
            (_, None) => format!("{name} ({shown}: no node has joined that could have it)"),
        }
    }
}

impl View<'_> {
    /// The reason shown for a row that waits.
    pub(crate) fn pause_reason(&self, slot: Slot) -> String {
        let row = &self.graph.rows[slot];
        let Some(pause) = row.details().pause.filter(|_| !row.awaits_signals()) else {
            return self.jobs.signals_reason(slot);
        };
        if row.kind == Kind::Intent && !pause.of_batch {
            return self.intent_reason(slot);
        }
        let left = pause.due.map_or(0, |due| due.since(self.graph.ctx.now).as_secs());
        let what = if pause.of_batch { "its batch begins" } else { "it is ready" };
        format!("{what} in {left} s")
    }
}
