//! Rows that cannot be read. Each blocks its own stack, not the site: the row stays in the database
//! unchanged, and the engine does nothing for its resource.
//!
//! Absent: which rows are looked at (`load.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::sql::{Damage, Row};

/// The remedy for a stack with a damaged row.
const ADVICE: &str = "restore a backup, or delete the stack: what that row made on its server stays there";

/// The damaged rows of one load.
#[derive(Default)]
pub(super) struct DamagedRows {
    /// Stacks that are left out, with all of their rows.
    pub(super) stacks: BTreeSet<u64>,
    /// Stacks of which a row is left out, with the reason: the first of several.
    pub(super) damaged: BTreeMap<u64, String>,
    /// Rows were left out.
    pub(super) is_any: bool,
}

impl DamagedRows {
    /// A row of `stacks` is damaged.
    pub(super) fn stack(&mut self, row: &Row<'_>, error: &Damage) {
        self.is_any = true;
        let name = row.get::<String>("name").unwrap_or_else(|_| "?".to_owned());
        let id = row.get::<u64>("id").ok();
        self.stacks.extend(id);
        tracing::error!(
            stack = name,
            "the stack's row in the database cannot be read: {error}; the stack is left out and its servers stay as \
             they are: restore a backup"
        );
    }

    /// A row of `resources` is damaged.
    pub(super) fn resource(&mut self, row: &Row<'_>, error: &Damage) {
        self.is_any = true;
        let name = row.get::<String>("name").unwrap_or_else(|_| "?".to_owned());
        let Some(stack) = row.get::<u64>("stack_id").ok() else {
            return tracing::error!(resource = name, "a resource's row cannot be read: {error}");
        };
        if self.stacks.contains(&stack) {
            return;
        }
        let reason = format!("the row of resource '{name}' in the database is damaged ({error}): {ADVICE}");
        tracing::error!(stack, "{reason}");
        self.damaged.entry(stack).or_insert(reason);
    }
}
