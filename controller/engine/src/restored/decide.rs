//! Carries out what an operator decides about things that a restored store does not know: `adopt`
//! or `remove`. An operation of a stack adopts what is held of that stack.
//!
//! Absent: the list (`restored.rs`), and the removal of a thing without a row
//! (`restored/strays.rs`).

use std::collections::BTreeSet;

use muster_shared::model::flow::DeviceName;
use muster_shared::{NodeId, ResourceId};

use crate::engine::Engine;
use crate::jobs::Jobs;
use crate::restored::{Divergence, HeldThing};
use crate::row::Slot;
use crate::todo::Todo;
use crate::traversals::Traversals;
use crate::{Answer, Refusal, Verdict};

impl Engine {
    /// Decides about all things and tables named, or about none if one of them cannot be decided.
    pub(crate) fn decide_held(
        &mut self,
        verdict: Verdict,
        ids: Option<Vec<String>>,
        node: Option<&NodeId>,
    ) -> Result<Answer, Refusal> {
        if !self.graph().restored.is_on() && self.graph().restored.count() == 0 {
            return Err(Refusal::Conflict("the site is not restored: nothing waits to be decided".into()));
        }
        let is_there = |on: &NodeId| node.is_none_or(|node| node == on);
        let is_named = |id: &str| ids.as_ref().is_none_or(|ids| ids.iter().any(|named| named == id));
        let things = self.graph().restored.things().filter(|(on, _, _)| is_there(on));
        let things = things.filter(|(_, thing, _)| is_named(&thing.to_string()));
        let mut things: Vec<(NodeId, ResourceId, HeldThing)> =
            things.map(|(node, thing, held)| (node.clone(), thing, held)).collect();
        // A later thing may need an earlier one, so it goes first.
        things.sort_by_key(|(_, _, held)| std::cmp::Reverse(held.generation));
        let tables = self.graph().restored.tables().filter(|(on, _, _)| is_there(on));
        let tables = tables.map(|(node, bridge, _)| (node.clone(), bridge.clone()));
        let tables: Vec<_> = tables.filter(|(node, bridge)| is_named(&format!("{node}/{bridge}"))).collect();
        let known: BTreeSet<String> = things
            .iter()
            .map(|(_, thing, _)| thing.to_string())
            .chain(tables.iter().map(|(node, bridge)| format!("{node}/{bridge}")))
            .collect();
        if let Some(id) = ids.iter().flatten().find(|id| !known.contains(*id)) {
            return Err(Refusal::NotFound(format!(
                "'{id}' does not wait to be decided: see 'muster restore list'"
            )));
        }
        if let Some(node) = node.filter(|_| known.is_empty()) {
            return Err(Refusal::NotFound(format!(
                "nothing on node '{node}' waits to be decided: see 'muster restore list'"
            )));
        }
        if verdict == Verdict::Remove {
            let strays = things.iter().filter(|(_, _, held)| held.unlike == Divergence::Unknown);
            for (node, thing, _) in strays {
                self.graph_mut().is_removable(node, *thing)?;
            }
        }
        for (node, thing, held) in things {
            self.traversals.jobs.decide_thing(verdict, &node, thing, held);
        }
        self.traversals.ask_for_more();
        for (node, bridge) in tables {
            let Some(key) = self.graph().nodes.find(&node) else { continue };
            match verdict {
                Verdict::Adopt => self.graph_mut().restored.leave_table(&node, &bridge),
                Verdict::Remove => {
                    self.graph_mut().restored.drop_table(&node, &bridge);
                    self.graph_mut().restored.free_table(&node, &bridge);
                }
            }
            if let Some(device) = self.flows.find(&DeviceName { node: node.clone(), bridge }) {
                // The table may have more differences than were listed.
                self.graph_mut().restored.await_tables(&node);
                self.with_flows(|flows, turn| flows.compare_now(turn, device));
                self.tables_compared(key);
            }
        }
        self.graph_mut().end_restored();
        Ok(Answer::Done)
    }
}

impl Traversals {
    /// Asks nodes with unlisted differences and no listed ones to connect again: they then report
    /// the rest.
    fn ask_for_more(&mut self) {
        for node in self.jobs.graph.restored.beyond_the_list() {
            if let Some(key) = self
                .jobs
                .graph
                .nodes
                .find(&node)
                .filter(|key| self.jobs.graph.nodes[*key].presence.is_ready())
            {
                self.cut_off(key);
            }
        }
    }

    /// Adopts all held things of a stack, because an operation is newer than them. Returns whether
    /// there were any.
    pub(crate) fn wish(&mut self, stack: u64) -> bool {
        if !self.jobs.graph.restored.is_on() {
            return false;
        }
        let is_of_it = |thing: &ResourceId| {
            self.jobs.graph.rows.of_thing(thing).is_some_and(|slot| self.jobs.graph.rows[slot].stack == stack)
        };
        // A thing without a row may have the id of a row on another node. No stack names that thing.
        let is_known = |held: &HeldThing| held.unlike != Divergence::Unknown;
        let things =
            self.jobs.graph.restored.things().filter(|(_, thing, held)| is_known(held) && is_of_it(thing));
        let things: Vec<_> = things.map(|(node, thing, held)| (node.clone(), thing, held)).collect();
        self.jobs.graph.restored.note_wish(stack);
        for (node, thing, held) in &things {
            self.jobs.decide_thing(Verdict::Adopt, node, *thing, *held);
        }
        self.ask_for_more();
        self.jobs.graph.end_restored();
        !things.is_empty()
    }
}

impl Jobs {
    fn decide_thing(&mut self, verdict: Verdict, node: &NodeId, thing: ResourceId, held: HeldThing) {
        let key = self.graph.nodes.find(node);
        let here = |slot: &Slot| self.graph.rows[*slot].node == key;
        let Some(slot) = self.graph.rows.of_thing(&thing).filter(here) else {
            return match verdict {
                Verdict::Adopt => self.graph.restored.leave(node, thing),
                Verdict::Remove => self.graph.remove_stray(node, thing, held),
            };
        };
        self.graph.restored.drop_thing(node, thing);
        self.graph.holds(slot, held);
        // A restart of the unit waited for this decision.
        if self.unsettled.owed().contains(&slot) {
            self.graph.ctx.agenda.push_back(Todo::Correct(slot));
        }
        match (verdict, key) {
            (Verdict::Adopt, _) | (_, None) => self.compare_with_next(slot),
            (Verdict::Remove, Some(key)) => {
                let row = &mut self.graph.rows[slot];
                if row.task().is_none() {
                    row.be_made(); // as the store has it
                }
                self.make_again(slot, key);
            }
        }
    }
}
