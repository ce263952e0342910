//! An operator marks a resource unhealthy. The next update replaces it.
//!
//! Absent: the decision to replace it (`row/needed.rs`).

use muster_shared::StackName;

use crate::jobs::Jobs;
use crate::record::Status;
use crate::request::{Answer, Refusal};

impl Jobs {
    pub(crate) fn mark_unhealthy(&mut self, name: &StackName, resource: &str) -> Result<Answer, Refusal> {
        let id = self.graph.find(name)?;
        let stack = &self.graph.stacks[&id];
        if stack.status == Status::InProgress || self.graph.stacks.is_pending(id) {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' is {}_IN_PROGRESS: wait until that has ended, or stop it with 'muster stack cancel {name}'",
                stack.action.as_str()
            )));
        }
        let names = || stack.forward.iter().map(|slot| &*self.graph.rows[*slot].name);
        let found = stack.forward.binary_search_by(|slot| (*self.graph.rows[*slot].name).cmp(resource));
        let Ok(at) = found else {
            let near = muster_template::suggestion(resource, names());
            return Err(Refusal::NotFound(format!("stack '{name}' has no resource '{resource}'{near}")));
        };
        let slot = stack.forward[at];
        let row = &mut self.graph.rows[slot];
        row.mark_unhealthy();
        // The outcome of a job that is still out is reported as usual.
        if row.task().is_none() {
            self.fail_row(slot, "marked unhealthy by an operator".into());
        }
        self.graph.row_changed(slot, false);
        Ok(Answer::Done)
    }
}
