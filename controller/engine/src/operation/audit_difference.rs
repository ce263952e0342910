//! The difference that an operation makes, by the names of resources: for the audit, which shows no values.
//!
//! Absent: what a preview shows of each resource (`operation/preview.rs`), and which of them get a job
//! (`row/needed.rs`).

use muster_template::Tree;

use crate::row::rows::Rows;
use crate::traversal::plan::Plan;

/// Names of each kind. The number of others is told.
const NAMES_MAX: usize = 10;
/// The most resources whose definitions are compared again: more would hold up the turn.
const COMPARED_MAX: usize = 10_000;

/// Names, and how many there are.
#[derive(Default)]
struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < NAMES_MAX {
            self.first.push(name.to_owned());
        }
    }

    fn text(&self, does: &str) -> Option<String> {
        let more = self.count - self.first.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (self.count > 0).then(|| format!("{does} {}{more}", self.first.join(", ")))
    }
}

impl Plan {
    /// `adds a, b; changes c; removes d and 7 more`. Empty: no definition changes. Of very many resources, those that
    /// are visited count as changed.
    pub fn difference(&self, rows: &Rows, tree: &Tree) -> String {
        let (mut adds, mut changes, mut removes) = (Names::default(), Names::default(), Names::default());
        let mut compared = 0;
        for (index, slot) in self.chosen.iter().enumerate().filter(|(index, _)| self.dirty[*index]) {
            match slot.map(|slot| &rows[slot]) {
                None => adds.add(tree.name(index)),
                Some(row) if !row.is_applied() && !row.kind.is_virtual() => adds.add(tree.name(index)),
                Some(_) if compared == COMPARED_MAX => changes.count += 1,
                Some(row) => {
                    compared += 1;
                    if row.definition != tree.definition(index) {
                        changes.add(tree.name(index));
                    }
                }
            }
        }
        // An operation before may be removing others still.
        let newly = self.dropped.iter().map(|slot| &rows[*slot]).filter(|row| row.dropped().is_none());
        newly.filter(|row| tree.index_of(&row.name).is_none()).for_each(|row| removes.add(&row.name));
        let parts = [adds.text("adds"), changes.text("changes"), removes.text("removes")];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}
