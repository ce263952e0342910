//! Fits the members of a stack to the nodes that its selectors match now: each branch of the diagram in
//! `stack/follow.rs`. When that happens is decided there.

use muster_shared::MonoTime;

use crate::record::{StackAction, Status};
use crate::stack::follow::nodes_of;
use crate::todo::Todo;
use crate::traversal::derive::Occasion;
use crate::traversal::walk::Stage;
use crate::traversals::Traversals;

impl Traversals {
    /// Adds and drops members of a stack so that they match its selectors.
    pub(crate) fn fit(&mut self, id: u64) {
        let now = self.jobs.graph.ctx.now;
        let Some(stack) = self.jobs.graph.stacks.get_mut(&id) else { return };
        stack.membership.begin();
        if stack.action == StackAction::Delete {
            return;
        }
        if stack.entering.is_some() {
            return stack.membership.set_owed(true); // followed once all rows are in
        }
        let is_under_way = stack.status == Status::InProgress;
        let leave = self.jobs.graph.stacks.get(&id).is_some_and(|stack| self.jobs.graph.somebody_left(stack));
        if let Some(stack) = self.jobs.graph.stacks.get_mut(&id) {
            stack.membership.followed(now, leave);
        }
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        match stack.walk.as_ref().map(|walk| walk.stage) {
            // After a cancel no job starts.
            _ if stack.cancelled => {}
            Some(Stage::First | Stage::Forward | Stage::Cleanup) => self.fit_walk(id),
            None if is_under_way => return, // the walk of the revision will see the present nodes
            Some(Stage::Check) | None => {
                if !is_under_way && self.jobs.graph.stands_whole(stack) && self.jobs.graph.is_unfit(stack) {
                    self.jobs.leave_walk(id);
                    // The findings of the check are for the next operation of an operator.
                    self.jobs.forget_verdicts(id);
                    return self.begin_again(id, "the nodes that its selectors mean have changed".into());
                }
            }
        }
        let is_owed = self.jobs.graph.stacks.get(&id).is_some_and(|stack| self.jobs.graph.is_unfit(stack));
        if let Some(stack) = self.jobs.graph.stacks.get_mut(&id) {
            stack.membership.set_owed(is_owed);
        }
    }

    fn fit_walk(&mut self, id: u64) {
        let Some(stack) = self.jobs.graph.stacks.get(&id) else { return };
        let Some(walk) = &stack.walk else { return };
        // A failed operation does not extend to new members.
        let follows = stack.status == Status::InProgress;
        let tree = match self.jobs.graph.grown(stack, &walk.tree, follows) {
            Ok(tree) => tree,
            Err(errors) => {
                let reason = stack.without_hidden(&walk.tree, &errors.to_string());
                let told = format!("the nodes that its selectors mean have changed: {reason}");
                return self.jobs.graph.note(id, told);
            }
        };
        if tree.names() == stack.names {
            return;
        }
        let plan = self.plan_again(stack, &tree);
        let come = plan.chosen.iter().filter(|slot| slot.is_none()).count();
        let go = plan.dropped.iter().filter(|slot| !stack.extras.contains(*slot)).count();
        let (before, now) = (nodes_of(&walk.tree), nodes_of(&tree));
        let (joined, left) = (now.difference(&before).count(), before.difference(&now).count());
        self.lay_out_again(id, plan, tree, Occasion::Fitted);
        if let Some(walk) = self.jobs.graph.stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) {
            walk.fleet.joined += joined;
            walk.fleet.left += left;
        }
        self.jobs.graph.note(
            id,
            format!("the nodes that its selectors mean have changed: {come} resources come, {go} go"),
        );
    }

    /// The timer to follow the nodes.
    pub(crate) fn fit_due(&mut self, id: u64, due: MonoTime) {
        if self.jobs.graph.stacks.get(&id).is_some_and(|stack| stack.membership.is_due(due)) {
            self.jobs.graph.ctx.agenda.push_back(Todo::Fit(id));
        }
    }
}
