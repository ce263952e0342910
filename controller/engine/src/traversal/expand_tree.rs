//! Expands a stack's tree with what is known now: attributes of rows, members of groups, and nodes
//! that match selectors.
//!
//! Absent: an operation whose tree changes meanwhile (`traversal/rebuild_tree.rs`), and stacks that follow nodes
//! (`stack/follow.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_template::{CurrentResources, Errors, Removed, Selector, Tree};
use serde_json::Value;

use crate::graph::Graph;
use crate::row::Row;
use crate::stack::Stack;

/// The rows of a stack by path.
struct StackResources<'a> {
    graph: &'a Graph,
    stack: &'a Stack,
    /// The tree that the stack leads to.
    wanted: &'a Tree,
    /// Matching nodes without a member count too.
    follows: bool,
    /// Rows in clean-up, by path. A row is kept if its path is wanted again.
    going: BTreeMap<&'a str, &'a Row>,
}

impl<'a> StackResources<'a> {
    fn new(graph: &'a Graph, stack: &'a Stack, wanted: &'a Tree, follows: bool) -> Self {
        let mut going: Vec<&Row> = stack.extras.iter().map(|slot| &graph.rows[*slot]).collect();
        going.retain(|row| row.is_usable());
        going.sort_by_key(|row| row.id);
        let going = going.into_iter().map(|row| (&*row.name, row)).collect();
        Self { graph, stack, wanted, follows, going }
    }

    fn row(&self, path: &str) -> Option<&Row> {
        let rows = &self.graph.rows;
        let found = self.stack.forward.binary_search_by(|slot| (*rows[*slot].name).cmp(path));
        Some(&rows[self.stack.forward[found.ok()?]])
    }

    /// The row that stands for this path in the new tree.
    fn kept(&self, path: &str) -> Option<&Row> {
        let kind = self.wanted.index_of(path).map(|index| self.wanted.kind(index));
        let fits = |row: &&Row| kind.is_none_or(|kind| kind == row.kind);
        let (row, going) = (self.row(path), self.going.get(path).copied());
        row.filter(fits).or(going.filter(fits)).or(row)
    }

    /// The row whose attributes count for this path. A thing of another type does not count.
    fn tells(&self, path: &str) -> Option<&Row> {
        let row = self.row(path)?;
        let index = self.wanted.index_of(path);
        index.is_none_or(|index| self.wanted.kind(index) == row.kind).then_some(row)
    }
}

impl CurrentResources for StackResources<'_> {
    fn reference(&self, path: &str) -> Option<String> {
        self.kept(path).map(Row::reference)
    }

    fn attribute(&self, path: &str, name: &str) -> Option<Value> {
        self.graph.attribute(self.tells(path)?, name)
    }

    fn removed(&self, path: &str) -> Removed {
        self.kept(path).and_then(Row::removed).cloned().unwrap_or_default()
    }

    fn members(&self, path: &str) -> Vec<String> {
        let rows = &self.graph.rows;
        let prefix = format!("{path}/");
        let first = self.stack.forward.partition_point(|slot| *rows[*slot].name < *prefix);
        let inside =
            self.stack.forward[first..].iter().map_while(|slot| rows[*slot].name.strip_prefix(&*prefix));
        let mut names: Vec<&str> = inside.filter(|name| !name.contains('/')).collect();
        names.sort_by_key(|name| (name.len(), *name));
        names.into_iter().map(str::to_owned).collect()
    }

    fn nodes(&self, path: &str, selector: &Selector) -> Vec<Arc<str>> {
        match self.follows {
            true => self.graph.meant(self.stack, path, selector),
            false => self.graph.still_meant(self.stack, path, selector),
        }
    }

    fn is_there(&self, path: &str) -> bool {
        self.row(path).is_some_and(|row| row.is_applied())
    }
}

impl Graph {
    /// The tree of a source, expanded with the present rows and nodes. `follows`: matching nodes
    /// without a member count too.
    pub(crate) fn grown(&self, stack: &Stack, tree: &Arc<Tree>, follows: bool) -> Result<Arc<Tree>, Errors> {
        if !tree.looks_at_what_is_there() {
            return Ok(Arc::clone(tree));
        }
        tree.with(&StackResources::new(self, stack, tree, follows)).map(Arc::new)
    }
}
