//! The engine's counts, compared with a new count from the rows.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::Drift;

use crate::content::stored_content;
use crate::record::{Observation, PackedSpec};
use crate::row::{Role, Row, Slot};
use crate::timer::TimerKey;
use crate::view::View;

impl View<'_> {
    /// The time when the next job is due: its backoff ends, or its answer is late.
    pub fn next_job(&self) -> Option<muster_shared::MonoTime> {
        self.graph.ctx.timers.next_job()
    }

    /// Panics if a count differs from the rows.
    pub fn audit(&self) {
        let rows: BTreeMap<Slot, &Row> =
            self.graph.rows.slots().map(|slot| (slot, &self.graph.rows[slot])).collect();
        for (id, stack) in &self.graph.stacks {
            let mine = || rows.values().filter(|row| row.stack == *id);
            assert_eq!(stack.working.len(), mine().filter(|row| row.task().is_some()).count(), "working");
            assert!(stack.working.iter().all(|slot| self.graph.rows[*slot].task().is_some()), "working");
            let with_agents = |row: &&&Row| {
                row.is_sent() && row.node.is_some_and(|key| self.graph.nodes[key].presence.is_ready())
            };
            assert_eq!(stack.in_flight.count(), mine().filter(with_agents).count(), "in flight");
            assert_eq!(stack.forward.len() + stack.extras.len(), mine().count(), "rows of a stack");
            assert_eq!(stack.settled.len(), stack.forward.len(), "known of the rows");
            for (index, (slot, settled)) in stack.forward.iter().zip(&stack.settled).enumerate() {
                let row = &self.graph.rows[*slot];
                assert_eq!(row.index as usize, index, "the place of {}", row.name);
                let same = || row.definition == *settled && row.is_settled();
                assert!(*settled == 0 || same(), "{} is not settled: {row:?}", row.name);
            }
            if let Some(walk) = &stack.walk {
                assert_eq!(walk.failed(), mine().filter(|row| row.failed).count(), "failed");
                for (name, slot) in &walk.at_hooks {
                    let row = &rows[slot];
                    let rests = row.task().is_none() && !row.ready && row.blocked == 0 && !row.failed;
                    assert!(row.name == *name && rests && row.details().hook.is_some(), "at a hook: {row:?}");
                }
                for row in mine().filter(|row| row.details().hook.is_some() && !stack.cancelled) {
                    assert!(walk.at_hooks_of(&row.name).count() > 0, "not at its hook: {row:?}");
                }
                let left = mine().filter(|row| row.role == Role::Forward && !row.ready).count();
                assert_eq!(walk.forward_left(), left, "left");
            }
            assert!(stack.walk.is_some() || stack.extras.is_empty(), "rows that nobody takes away");
        }
        let differ = |row: &&Row| matches!(row.observed(), Observation::Drifted | Observation::Missing);
        let drifted: BTreeSet<Slot> = rows.iter().filter(|(_, r)| differ(r)).map(|(s, _)| *s).collect();
        assert_eq!(*self.jobs.unsettled.drifted(), drifted, "drifted");
        let fights = rows.iter().filter(|(_, r)| r.details().breaker.is_some()).map(|(slot, _)| *slot);
        assert_eq!(*self.jobs.unsettled.counted(), fights.collect(), "corrected");
        for (slot, row) in rows.iter().filter(|(_, row)| row.could_not_be_corrected()) {
            let Some(node) = self.jobs.may_correct(*slot) else { continue };
            let due = row.details().breaker.and_then(|breaker| breaker.due);
            let waits = due.is_some_and(|due| self.graph.ctx.timers.is_set(due, TimerKey::Correct(*slot)))
                || self.graph.nodes[node].put_off.contains(slot)
                || self.graph.is_in_maintenance(node);
            assert!(waits, "{} is never tried again", row.name);
        }
        for (key, node) in self.graph.nodes.iter() {
            let said =
                node.drifts.iter().map(|(id, (generation, state))| Drift::digest(*id, *generation, *state));
            assert_eq!(node.drifts_digest, said.fold(0, |sum, one| sum ^ one), "heard");
            let is_known = |id: &&_| {
                self.graph.rows.of_thing(id).is_some() || self.graph.restored.is_stray(&node.name, **id)
            };
            assert!(node.drifts.keys().all(|id| is_known(&id)), "heard of what is gone");
            let sent: BTreeSet<Slot> =
                rows.iter().filter(|(_, r)| r.node == Some(key) && r.is_sent()).map(|(s, _)| *s).collect();
            assert_eq!(node.sent, sent, "sent");
            let lost: BTreeSet<Slot> =
                rows.iter().filter(|(_, r)| r.node == Some(key) && r.is_lost()).map(|(s, _)| *s).collect();
            assert_eq!(node.lost.slots().collect::<BTreeSet<_>>(), lost, "lost rows of a node");
            let line: BTreeSet<Slot> = node.in_line().into_iter().collect();
            for (slot, row) in rows.iter().filter(|(slot, _)| self.jobs.waits_in_line(**slot, key)) {
                let behind =
                    |slot| self.graph.stacks.get(&row.stack).is_some_and(|stack| stack.queue.contains(slot));
                assert!(line.contains(slot) || behind(slot), "{} waits in no line", row.name);
            }
            let placed: BTreeSet<Slot> =
                rows.iter().filter(|(_, row)| row.node == Some(key)).map(|(slot, _)| *slot).collect();
            assert_eq!(node.rows, placed, "rows of a node");
        }
        let mut contents: BTreeSet<_> = BTreeSet::new();
        for row in rows.values() {
            let specs = row.spec().into_iter().chain(row.spec_before_task()).map(PackedSpec::unpack);
            contents.extend(specs.filter_map(|spec| stored_content(&spec)));
        }
        assert!(contents.iter().all(|digest| self.jobs.contents.has(digest)), "contents");
        assert_eq!(self.jobs.contents.len(), contents.len(), "contents");
        for owner in self.jobs.claims.owners() {
            assert!(rows.get(&owner).is_some_and(|row| !row.is_lost()), "a claim of a row that is gone");
        }
        for row in rows.values() {
            let fits = |slot: &Slot| rows.get(slot).is_some_and(|other| other.stack == row.stack);
            assert!(row.requires.iter().all(fits), "an edge to a row that is gone, or another stack's");
            assert_eq!(row.is_lost(), row.stack == 0, "a lost row is no stack's");
        }
        for (slot, row) in &rows {
            assert_eq!(self.graph.rows.of_id(row.id), Some(*slot), "a row is found by its number");
        }
    }
}
