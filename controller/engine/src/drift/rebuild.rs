//! Rebuilds: a thing that its agent has lost is made again, unless the agent loses it again and
//! again.
//!
//! Absent: how a loss is found (`node/ledger_compare.rs`), and things that others changed
//! (`drift/correct.rs`).

use muster_shared::model::Action;
use muster_template::Hook;

use crate::drift::breaker::NextTry;
use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{Observation, Status};
use crate::row::cause::Cause;
use crate::row::{Role, Slot};
use crate::todo::Todo;

impl Jobs {
    /// Makes a thing again. The agent has no record of it, or one of another state.
    pub(crate) fn make_again(&mut self, slot: Slot, node: NodeKey) {
        if self.graph.rows[slot].is_asked() {
            self.end_check(slot);
            // The check does not wait for the row if it is not made again now.
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
        let row = &mut self.graph.rows[slot];
        if row.task().is_some() {
            // The job makes the thing. If it never starts, the state before it is gone as well.
            return row.lose_status();
        }
        if row.status() != Some(Status::Complete) {
            // Other jobs take care of the row. They see that the lost thing is no longer in sync.
            if row.observed() == Observation::InSync {
                self.observe(slot, Observation::Unknown);
            }
            return;
        }
        let row = &self.graph.rows[slot];
        let is_wanted = row.ready && row.role != Role::Cleanup && !self.graph.is_outside(row);
        if is_wanted && !self.may_make_again(slot, node) {
            return;
        }
        let row = &mut self.graph.rows[slot];
        // This holds for a later revision too, if this one's job is withdrawn.
        row.lose_status();
        self.observe(slot, Observation::Unknown);
        let row = &self.graph.rows[slot];
        if !row.ready || row.role == Role::Cleanup {
            // A row is made again in its turn, if it is wanted. One at a post hook has had its turn.
            let has_had = matches!(row.details().hook, Some(Hook::PostCreate | Hook::PostUpdate));
            if row.role == Role::Forward && has_had {
                self.graph.leave_hook(slot);
                self.graph.ctx.agenda.push_back(Todo::Visit(slot));
            }
            return;
        }
        // A node outside of the selector is never touched, even if its stack follows the nodes no longer.
        if self.graph.is_outside(row) {
            let stack = row.stack;
            let row = &mut self.graph.rows[slot];
            row.fail_as_it_is("its server has lost it, and is not selected any more");
            self.graph.row_changed(slot, true);
            return self.graph.event(stack, Some(slot));
        }
        let spec = row.spec().cloned();
        // The action is not Create, because the thing there belongs to this row. A deployment has
        // no thing; on a new server it runs what it runs at creation. What was adopted was there before Muster.
        let was_there = row.action() == Some(Action::Adopt);
        let action = if row.kind.is_deployment() || was_there { Action::Create } else { Action::Update };
        self.queue_job(slot, NewJob { cause: Cause::Rebuild, node, action, spec, content: None });
    }

    /// Whether a lost thing may be made again. If an agent loses it again and again (a disk that is
    /// set back, a clone), rebuilds end like corrections in a fight.
    fn may_make_again(&mut self, slot: Slot, node: NodeKey) -> bool {
        let now = self.graph.ctx.now;
        let breaker = self.graph.rows[slot].breaker_or_new(now);
        self.unsettled.set_counted(slot, true);
        if !matches!(breaker.made_again.next_try(now), NextTry::AfterCalm(_)) {
            breaker.made_again.strike(now, 0);
            return true;
        }
        let (count, lasted) = (breaker.made_again.count, breaker.made_again.lasted.as_secs());
        let name = &self.graph.nodes[node].name;
        let stack = self.graph.stacks.get(&self.graph.rows[slot].stack);
        let stack = stack.map(|stack| stack.name.to_string()).unwrap_or_default();
        let why = format!(
            "{name} has lost it again and again: it was made {count} times within {lasted} s; it is left as it is until \
             'muster stack update {stack} --existing --converge'"
        );
        self.graph.rows[slot].set_reason(&why);
        self.observe(slot, Observation::Missing);
        self.graph.row_changed(slot, false);
        self.graph.tell_of(slot, why);
        false
    }
}
