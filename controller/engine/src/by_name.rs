//! Rows that wait for a server to be known, each under the name that it goes by in a template: so who joins, or tells
//! something for the first time, wakes those alone who mean it.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::NodeId;

use crate::resource::Slot;

/// Rows by the full or short name of the server they wait for; each waits for one.
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

/// Whether `name` is the node's, in full or for short.
pub(crate) fn is_called(node: &NodeId, name: &NodeId) -> bool {
    node.as_str().strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a server may be called for short: its name up to each dot.
pub(crate) fn short_names(full: &NodeId) -> impl Iterator<Item = NodeId> {
    full.as_str().match_indices('.').filter_map(|(dot, _)| full.as_str()[..dot].parse().ok())
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
