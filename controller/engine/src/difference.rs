//! What an operation changes, by the names of resources: for the audit, which shows no values.
//!
//! Absent: what a preview shows of each resource (`preview.rs`).

use muster_template::Tree;

use crate::plan::Plan;
use crate::rows::Rows;

/// Names of each kind. The number of others is told.
const NAMES_MAX: usize = 10;

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
    /// `adds a, b; changes c; removes d and 7 more`. Empty: no definition changes.
    pub fn difference(&self, rows: &Rows, tree: &Tree) -> String {
        let (mut adds, mut changes, mut removes) = (Names::default(), Names::default(), Names::default());
        for (index, slot) in self.chosen.iter().enumerate().filter(|(index, _)| self.dirty[*index]) {
            match slot.map(|slot| rows[slot].definition) {
                None => adds.add(tree.name(index)),
                Some(definition) if definition != tree.definition(index) => changes.add(tree.name(index)),
                Some(_) => {}
            }
        }
        self.dropped.iter().for_each(|slot| removes.add(&rows[*slot].name));
        let parts = [adds.text("adds"), changes.text("changes"), removes.text("removes")];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}
