//! Trees that depend on attributes. A count that comes from an attribute is known only when the
//! attribute is.
//!
//! ```text
//!   visited ── decided on as before ──▶ goes on
//!      └────── another count ─────────▶ build the tree again, lay out the same operation again
//! ```
//!
//! Rows are kept by name, so only rows that are added or removed change. A row that waited, failed
//! or passed a hook stays so.
//!
//! Absent: how a tree is built from present rows and nodes (`traversal/expand_tree.rs`), and how templates expand
//! (`controller/template/src/tree/expand.rs`).

use std::sync::Arc;

use muster_template::{Removed, Tree};

use crate::engine::Engine;
use crate::record::Status;
use crate::request::Options;
use crate::row::attribute::Rendered;
use crate::row::notes::Notes;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::todo::Todo;
use crate::traversal::derive::Occasion;
use crate::traversal::plan::{Plan, PlanInput, plan};
use crate::traversals::Traversals;

/// Bound on the times that one operation is laid out again. Each time a value became known, and a
/// template has few such values.
const ANEW_MAX: u32 = 1000;

impl Row {
    /// Names that the group of this row has removed.
    pub fn removed(&self) -> Option<&Removed> {
        match &self.details().notes {
            Some(Notes::Removed(removed)) => Some(removed),
            _ => None,
        }
    }
}

impl Engine {
    /// Builds the tree of the row's stack again, because a value that the row depends on became known.
    pub(crate) fn expand(&mut self, slot: Slot) {
        let graph = &self.traversals.jobs.graph;
        let Some(id) = graph.rows.get(slot).map(|row| row.stack) else { return };
        let walk = graph.stacks.get(&id).and_then(|stack| stack.walk.as_ref());
        let Some(tree) = walk.map(|walk| Arc::clone(&walk.tree)) else { return };
        if let Err(reason) = self.expand_anew(id) {
            self.traversals.cannot_be_expanded(slot, &tree, &reason);
        }
    }

    fn expand_anew(&mut self, id: u64) -> Result<(), String> {
        let Some(stack) = self.graph().stacks.get(&id) else { return Ok(()) };
        let Some(walk) = &stack.walk else { return Ok(()) };
        if walk.anew >= ANEW_MAX {
            return Err(format!(
                "what is decided on by other resources came out another way {ANEW_MAX} times"
            ));
        }
        let follows = stack.status == Status::InProgress;
        let tree = self.graph().grown(stack, &walk.tree, follows).map_err(|errors| errors.to_string())?;
        let plan = self.traversals.plan_again(stack, &tree);
        let checked = self.view().check(stack, &plan, &tree, &Options::default());
        let _absent = checked.map_err(|refusal| refusal.to_string())?;
        let count = tree.len();
        self.traversals.lay_out_again(id, plan, tree, Occasion::Expanded);
        if let Some(walk) = self.graph_mut().stacks.get_mut(&id).and_then(|stack| stack.walk.as_mut()) {
            walk.anew += 1;
        }
        self.graph_mut().note(id, format!("expanded: the stack has {count} resources now"));
        Ok(())
    }
}

impl Traversals {
    /// Whether a visit may go on. Otherwise the operation will be laid out again, or the row has failed.
    pub(crate) fn is_as_expanded(&mut self, slot: Slot, tree: &Arc<Tree>) -> bool {
        let row = &self.jobs.graph.rows[slot];
        let (id, index) = (row.stack, row.index as usize);
        let refs = Rendered { graph: &self.jobs.graph, stack: &self.jobs.graph.stacks[&id] };
        match tree.is_as_expanded(index, &refs) {
            Ok(true) => return true,
            Ok(false) => self.jobs.graph.ctx.agenda.push_front(Todo::Expand(slot)),
            Err(error) => self.cannot_be_expanded(slot, tree, &error.to_string()),
        }
        false
    }

    /// Fails a row whose tree cannot be expanded. A job that is out is withdrawn first.
    pub(crate) fn cannot_be_expanded(&mut self, slot: Slot, tree: &Tree, reason: &str) {
        let id = self.jobs.graph.rows[slot].stack;
        let reason = self.jobs.graph.stacks[&id].without_hidden(tree, reason);
        if self.jobs.graph.rows[slot].task().is_some() {
            self.jobs.withdraw(slot);
        }
        if self.jobs.graph.rows[slot].task().is_none() {
            self.jobs.fail_row(slot, reason);
        }
    }

    pub(crate) fn plan_again(&self, stack: &Stack, tree: &Tree) -> Plan {
        let of = PlanInput::of(stack, &self.jobs.graph.rows);
        let ground = PlanInput { converges: false, again: true, ..of };
        plan(&ground, tree)
    }
}
