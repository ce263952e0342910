//! Rows that wait for a server, each under the name that the template gives it. A server that
//! joins, or sends facts for the first time, wakes only the rows that may mean it.
//!
//! Absent: the server that a deployed server stands for (`node/server.rs`), and the node that a short
//! name means (`Nodes::full_name`, `node.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;

use crate::row::{Row, Slot};
use crate::todo::Todo;
use crate::traversals::Traversals;

/// Rows by the full or short name of the server that they wait for. Each waits for one server.
#[derive(Debug, Default)]
pub(crate) struct ByName {
    names: BTreeMap<Slot, NodeId>,
    slots: BTreeMap<NodeId, BTreeSet<Slot>>,
}

impl ByName {
    pub fn len(&self) -> usize {
        self.names.len() + self.slots.len()
    }

    pub fn insert(&mut self, slot: Slot, name: NodeId) {
        self.remove(slot);
        self.slots.entry(name.clone()).or_default().insert(slot);
        self.names.insert(slot, name);
    }

    pub fn remove(&mut self, slot: Slot) {
        let Some(name) = self.names.remove(&slot) else { return };
        if let Some(slots) = self.slots.get_mut(&name) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.slots.remove(&name);
            }
        }
    }

    /// The name that a row waits for.
    pub fn name_of(&self, slot: Slot) -> Option<&NodeId> {
        self.names.get(&slot)
    }

    /// Rows that may mean the server of this full name.
    pub fn meant(&self, full: &NodeId) -> BTreeSet<Slot> {
        let names = std::iter::once(full.clone()).chain(short_names(full));
        names.filter_map(|name| self.slots.get(&name)).flatten().copied().collect()
    }
}

/// Rows that wait for a server.
#[derive(Debug, Default)]
pub(crate) struct AwaitedNodes {
    /// Rows of resources that may be on any node, while no node has joined.
    any: BTreeSet<Slot>,
    /// Rows that need facts of a server that has not joined, or has sent none.
    facts: ByName,
    /// Deployed servers with a full or short name that no joined server has.
    servers: ByName,
}

impl AwaitedNodes {
    /// A row waits for any node.
    pub fn any(&mut self, slot: Slot) {
        self.any.insert(slot);
    }

    /// A node has joined: rows that waited for any.
    pub fn take_any(&mut self) -> BTreeSet<Slot> {
        std::mem::take(&mut self.any)
    }

    /// A row waits for the facts of a node.
    pub fn facts(&mut self, slot: Slot, node: NodeId) {
        self.facts.insert(slot, node);
    }

    /// The node whose facts a row waits for, as the template names it.
    pub fn facts_of(&self, slot: Slot) -> Option<&NodeId> {
        self.facts.name_of(slot)
    }

    /// Rows that wait for the facts of this node.
    pub fn for_facts(&self, node: &NodeId) -> BTreeSet<Slot> {
        self.facts.meant(node)
    }

    /// A row is visited: the visit says again what the row waits for.
    pub fn looked_at(&mut self, slot: Slot) {
        self.any.remove(&slot);
        self.facts.remove(slot);
    }

    /// A deployed server waits for a node of this name. `None`: it waits no longer.
    pub fn server(&mut self, slot: Slot, name: Option<NodeId>) {
        match name {
            Some(name) => self.servers.insert(slot, name),
            None => self.servers.remove(slot),
        }
    }

    /// Deployed servers that may be this node.
    pub fn servers(&self, node: &NodeId) -> BTreeSet<Slot> {
        self.servers.meant(node)
    }

    /// A row is gone.
    pub fn forget(&mut self, slot: Slot) {
        self.looked_at(slot);
        self.servers.remove(slot);
    }

    /// See [`View::leftovers`](crate::View::leftovers).
    pub fn leftovers(&self) -> [(&'static str, usize); 3] {
        [
            ("rows without a place", self.any.len()),
            ("rows that ask of servers", self.facts.len()),
            ("rows with names nobody has", self.servers.len()),
        ]
    }
}

/// Whether `name` is the full or a short name of the node.
pub(crate) fn is_called(node: &NodeId, name: &NodeId) -> bool {
    node.as_str().strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The short names of a server: its name up to each dot.
pub(crate) fn short_names(full: &NodeId) -> impl Iterator<Item = NodeId> {
    full.as_str().match_indices('.').filter_map(|(dot, _)| full.as_str()[..dot].parse().ok())
}

impl Traversals {
    /// The node whose facts a row waits for, as the template names it.
    pub(crate) fn asks(&self, row: &Row) -> Option<&NodeId> {
        self.jobs.graph.rows.of_id(row.id).and_then(|slot| self.awaited.facts_of(slot))
    }

    pub(crate) fn place_the_unplaced(&mut self) {
        for slot in self.awaited.take_any() {
            self.jobs.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_every_name_its_server_may_have() {
        let name = |name: &str| name.parse::<NodeId>().unwrap();
        let mut waiting = ByName::default();
        for (slot, asked) in
            ["web-1", "web-1.example", "web-1.example.org", "web-10", "web-1"].iter().enumerate()
        {
            waiting.insert(Slot(u32::try_from(slot).unwrap()), name(asked));
        }
        waiting.remove(Slot(4));
        for (joined, wanted) in [
            ("web-1.example.org", vec![0, 1, 2]),
            ("web-1.example.net", vec![0, 1]),
            ("web-1", vec![0]),
            ("web-10.example", vec![3]),
            ("web", vec![]),
        ] {
            let wanted: BTreeSet<Slot> = wanted.into_iter().map(Slot).collect();
            assert_eq!(waiting.meant(&name(joined)), wanted, "{joined}");
        }
        waiting.insert(Slot(3), name("db"));
        assert_eq!(waiting.meant(&name("web-10")), BTreeSet::new(), "it waits for one at a time");
        assert_eq!(waiting.name_of(Slot(3)), Some(&name("db")));
    }
}
