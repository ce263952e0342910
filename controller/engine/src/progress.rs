//! What each resource in progress is doing or waiting for, and since when; and the word to the operator when nothing of
//! a stack has moved for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::{MonoTime, NodeId};
use muster_template::DriftPolicy;

use crate::engine::Engine;
use crate::record::Status;
use crate::resource::{Role, Row, Slot, WorkState};
use crate::stack::Stack;
use crate::timer::TimerKey;

/// The longest between two words that nothing moves.
const QUIET_MAX: Duration = Duration::from_secs(3600);
/// Resources that such a word names.
const NAMED: usize = 10;
/// As operators see that a node's jobs are held back.
const MAINTENANCE: &str = "maintenance";
/// Names shown of what one resource waits for: more say the same.
const WAITS_FOR_MAX: usize = 100;

/// Who watches that something moves.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The last change of the stack or of one of its rows.
    moved: MonoTime,
    /// How long nothing has to move before the next word of it.
    after: Duration,
    due: Option<MonoTime>,
}

impl Quiet {
    /// After a word that nothing moves, the next is due sooner again: then, instead of.
    pub fn moved(&mut self, now: MonoTime, first: Duration) -> Option<(MonoTime, MonoTime)> {
        self.moved = now;
        let old = self.due.filter(|_| self.after > first)?;
        (self.after, self.due) = (first, Some(now + first));
        Some((old, now + first))
    }
}

/// Rows that are needed still, with the names of those that need them.
pub(crate) type NeededBy<'a> = BTreeMap<Slot, BTreeSet<&'a str>>;

impl Engine {
    /// As operators see it.
    pub(crate) fn phase(&self, row: &Row) -> &'static str {
        match &row.work {
            Some(work) if work.state.is_sent() && row.node.is_some_and(|key| !self.nodes[key].ready) => {
                WorkState::NodeAway.phase()
            }
            Some(work)
                if !work.state.is_sent() && row.node.is_some_and(|key| self.is_in_maintenance(key)) =>
            {
                MAINTENANCE
            }
            Some(_) if self.waits_for_disk(row) => "disk_full",
            Some(work) => work.state.phase(),
            None if row.role == Role::Steady || row.ready => "",
            None if self.stacks.get(&row.stack).is_some_and(Stack::is_still) => "",
            None if row.rare().hook.is_some() => "hook",
            None if row.awaits_signals() => "signals",
            None if row.pauses() => "pause",
            None if self.is_held(row) => self.phase_of_held(row),
            None if row.failed || self.comes_too_late(row) => "",
            None if row.blocked > 0 || self.waits_for_first(row) => "waiting",
            None if row.status == Some(Status::Failed) => "",
            None if self.asks(row).is_some() => "facts",
            None => WorkState::NodeAway.phase(), // no node has joined
        }
    }

    /// Of a row that differs: also of one that only waits to be corrected.
    pub(crate) fn phase_of_drift(&self, row: &Row) -> &'static str {
        let held = row.node.is_some_and(|key| self.is_in_maintenance(key));
        match self.phase(row) {
            "" if held && row.drift_policy() == DriftPolicy::Correct && row.breaker() == "closed" => {
                MAINTENANCE
            }
            phase => phase,
        }
    }

    /// The node whose facts it waits for, as it is called there.
    pub(crate) fn asks(&self, row: &Row) -> Option<&NodeId> {
        self.rows.of_id(row.id).and_then(|slot| self.awaited.facts_of(slot))
    }

    /// How long it has been in that phase. What waits for others does so since its part of the operation began.
    pub(crate) fn phase_time(&self, row: &Row) -> Duration {
        let walk = self.stacks.get(&row.stack).and_then(|stack| stack.walk.as_ref());
        let since = match (&row.work, self.phase(row)) {
            (_, "") => return Duration::ZERO,
            (Some(work), _) => Some(work.since),
            (None, "hook") => row.rare().hook_since,
            (None, "signals" | "pause") => {
                return row.rare().pause.map_or(Duration::ZERO, |pause| pause.waited(self.now));
            }
            (None, _) => walk.map(|walk| walk.since),
        };
        since.map_or(Duration::ZERO, |since| self.now.0.saturating_sub(since.0))
    }

    /// Who needs the rows that are to be cleaned up, or is yet to take their place.
    pub(crate) fn still_needed<'a>(&'a self, stack: &'a Stack) -> NeededBy<'a> {
        let mut needed = NeededBy::new();
        if stack.extras.is_empty() {
            return needed;
        }
        let unready = stack.forward.iter().filter(|slot| !self.rows[**slot].ready);
        for slot in unready.chain(&stack.extras) {
            let row = &self.rows[*slot];
            for required in row.requires.iter().filter(|slot| stack.extras.contains(*slot)) {
                needed.entry(*required).or_default().insert(&row.name);
            }
        }
        let replaced = stack.extras.iter().filter_map(|slot| Some((self.rows[*slot].replaced_by?, *slot)));
        let replaced: BTreeMap<u64, Slot> = replaced.collect();
        for slot in stack.forward.iter().filter(|slot| !self.rows[**slot].ready) {
            if let Some(old) = replaced.get(&self.rows[*slot].id) {
                needed.entry(*old).or_default().insert(&self.rows[*slot].name);
            }
        }
        needed
    }

    /// The names of what a row waits for.
    pub(crate) fn waits_for(&self, stack: &Stack, slot: Slot, needed: &NeededBy<'_>) -> Vec<String> {
        let row = &self.rows[slot];
        if let Some(behind) = self.queued_behind(slot) {
            return vec![behind];
        }
        let waits = (row.blocked > 0 || self.waits_for_first(row)) && !stack.is_still();
        let Some(walk) = stack.walk.as_ref().filter(|_| waits) else { return Vec::new() };
        match row.role {
            Role::Forward => {
                let requires = walk.tree.requires(row.index as usize).iter();
                let unready = requires
                    .map(|required| &self.rows[stack.forward[*required as usize]])
                    .filter(|required| !required.ready)
                    .map(|required| required.name.to_string());
                unready.chain(self.waits_for_room_of(stack, slot)).take(WAITS_FOR_MAX).collect()
            }
            Role::Cleanup => {
                let names = needed.get(&slot).into_iter().flatten();
                names.take(WAITS_FOR_MAX).map(ToString::to_string).collect()
            }
            Role::Steady => Vec::new(),
        }
    }

    /// From now on something is to move.
    pub(crate) fn watch(&mut self, id: u64) {
        self.watch_no_more(id);
        let (now, after) = (self.now, self.limits.quiet);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.quiet = Quiet { moved: now, after, due: Some(now + after) };
        self.timers.set(now + after, TimerKey::Quiet(id));
    }

    pub(crate) fn watch_no_more(&mut self, id: u64) {
        if let Some(due) = self.stacks.get_mut(&id).and_then(|stack| stack.quiet.due.take()) {
            self.timers.clear(due, TimerKey::Quiet(id));
        }
    }

    /// Has anything moved?
    pub(crate) fn quiet_due(&mut self, id: u64, due: MonoTime) {
        let now = self.now;
        let Some(stack) = self.stacks.get_mut(&id).filter(|stack| stack.quiet.due == Some(due)) else {
            return;
        };
        stack.quiet.due = None;
        if stack.status != Status::InProgress {
            return;
        }
        let quiet = &mut stack.quiet;
        let still = now.0.saturating_sub(quiet.moved.0);
        let tell = still >= quiet.after;
        let next = if tell {
            quiet.after = (quiet.after * 2).min(QUIET_MAX);
            now + quiet.after
        } else {
            quiet.moved + quiet.after
        };
        quiet.due = Some(next);
        self.timers.set(next, TimerKey::Quiet(id));
        if tell && let Some(waiting) = self.what_is_waited_for(id) {
            self.note(id, format!("no progress for {} s: {waiting}", still.as_secs()));
        }
    }

    /// The first resources that keep a stack from going on, each with what it waits for. Those that wait for others say
    /// nothing new. None: nothing is waited for.
    pub(crate) fn what_is_waited_for(&self, id: u64) -> Option<String> {
        let stack = self.stacks.get(&id)?;
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.rows[*slot]);
        let mut causes = rows.filter(|row| !matches!(self.phase(row), "" | "waiting"));
        let told: Vec<String> = causes.by_ref().take(NAMED).map(|row| self.told(row)).collect();
        match (told.len(), causes.count()) {
            (0, _) => None,
            (_, 0) => Some(told.join(", ")),
            (_, more) => Some(format!("{} and {more} more", told.join(", "))),
        }
    }

    /// The nodes without which a stack does not go on, each with what there is to know of it.
    pub(crate) fn missing_nodes(&self, stack: &Stack) -> Vec<String> {
        let rows = stack.forward.iter().chain(&stack.extras).map(|slot| &self.rows[*slot]);
        let missing: BTreeSet<String> = rows.filter_map(|row| self.missing_node(row)).collect();
        missing.into_iter().collect()
    }

    fn missing_node(&self, row: &Row) -> Option<String> {
        if row.work.is_none() {
            let (set, node) = self.away_member(row)?;
            return Some(format!("{node} (away; {set} waits for it)"));
        }
        let key = row.node?;
        let node = &self.nodes[key];
        let name = &node.name;
        match (node.ready, node.joined.is_some()) {
            (true, _) if !row.is_sent() && self.is_in_maintenance(key) => {
                Some(format!("{name} (in maintenance)"))
            }
            (true, _) if self.waits_for_disk(row) => Some(format!("{name} (its disk is full)")),
            (true, _) => None,
            (false, true) => Some(name.to_string()),
            (false, false) if self.nodes.was_removed(name) => Some(format!("{name} (removed)")),
            (false, false) => Some(match self.nodes.nearest(name.as_str()) {
                Some(near) => format!("{name} (never joined; did you mean {near}?)"),
                None => format!("{name} (never joined)"),
            }),
        }
    }

    fn told(&self, row: &Row) -> String {
        let (name, phase) = (&row.name, self.phase(row));
        match (row.rare().hook, row.node.map(|key| &self.nodes[key].name)) {
            (Some(hook), _) if phase == "hook" => format!("{name} ({phase} {})", hook.as_str()),
            (None, None) if phase == "signals" => {
                let slot = self.rows.of_id(row.id);
                format!("{name} ({})", slot.map_or_else(String::new, |slot| self.signals_of(slot)))
            }
            _ if phase == "rollout" => match self.away_member(row) {
                Some((_, node)) => format!("{name} ({phase}: {node} is away)"),
                None => format!("{name} ({phase})"),
            },
            _ if phase == "pause" => format!("{name} ({phase})"),
            _ if phase == "facts" => {
                format!("{name} (facts of {})", self.asked(row))
            }
            (_, Some(node)) => format!("{name} ({phase} on {node})"),
            (_, None) => format!("{name} ({phase}: no node has joined that could have it)"),
        }
    }
}
