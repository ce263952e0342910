//! The site's stacks, by id and by name, with operations that wait for a revision and rows that
//! cannot be read.
//!
//! Absent: which texts may be a name ([`muster_shared::StackName`], in `muster_shared::id`).

use std::collections::BTreeMap;
use std::ops::{Bound, Index};

use muster_shared::StackName;
use muster_template::suggestion;

use crate::graph::Graph;
use crate::operation::revision::Pending;
use crate::stack::Stack;
use crate::{Answer, Refusal};

/// The stacks of the site. **Invariant.** A name stands for one stack, which exists. A new stack
/// gets its name once its first operation is accepted.
#[derive(Default)]
pub(crate) struct Stacks {
    by_id: BTreeMap<u64, Stack>,
    names: BTreeMap<StackName, u64>,
    /// Operations that wait for a revision, by the number of the load.
    pending: BTreeMap<u64, Pending>,
    /// Stacks with a row that cannot be read, and the reason.
    damaged: BTreeMap<u64, String>,
}

impl Stacks {
    pub fn get(&self, id: &u64) -> Option<&Stack> {
        self.by_id.get(id)
    }

    pub fn get_mut(&mut self, id: &u64) -> Option<&mut Stack> {
        self.by_id.get_mut(id)
    }

    pub fn values(&self) -> impl Iterator<Item = &Stack> {
        self.by_id.values()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds a stack without a name.
    pub fn insert(&mut self, id: u64, stack: Stack) {
        self.by_id.insert(id, stack);
    }

    /// Removes a stack and its name.
    pub fn remove(&mut self, id: &u64) {
        if let Some(stack) = self.by_id.remove(id)
            && self.names.get(&stack.name) == Some(id)
        {
            self.names.remove(&stack.name);
        }
    }

    /// Gives a stack its name.
    pub fn name(&mut self, id: u64) {
        if let Some(stack) = self.by_id.get(&id) {
            self.names.insert(stack.name.clone(), id);
        }
    }

    pub fn id_of(&self, name: &StackName) -> Option<u64> {
        self.names.get(name).copied()
    }

    pub fn named(&self, name: &StackName) -> Option<&Stack> {
        self.by_id.get(self.names.get(name)?)
    }

    /// Stacks with a name after this one, by name.
    pub fn after(&self, name: Option<&StackName>) -> impl Iterator<Item = &Stack> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = self.names.range::<StackName, _>((from, Bound::Unbounded));
        ids.filter_map(|(_, id)| self.by_id.get(id))
    }

    pub fn names(&self) -> impl Iterator<Item = &StackName> {
        self.names.keys()
    }

    /// An operation waits for a revision, whose load has this number.
    pub fn wait(&mut self, load: u64, pending: Pending) {
        self.pending.insert(load, pending);
    }

    /// Ends the wait for this load. Returns the operation.
    pub fn take_pending(&mut self, load: u64) -> Option<Pending> {
        self.pending.remove(&load)
    }

    /// Ends all waits of a stack. Returns the operations.
    pub fn take_pending_of(&mut self, stack: u64) -> Vec<Pending> {
        let (of_it, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, pending)| pending.stack == stack);
        self.pending = others;
        of_it.into_values().collect()
    }

    /// Operations of a stack that wait for a revision.
    pub fn pending_of(&self, stack: u64) -> impl Iterator<Item = &Pending> {
        self.pending.values().filter(move |pending| pending.stack == stack)
    }

    /// Whether an operation of a stack waits for a revision.
    pub fn is_pending(&self, stack: u64) -> bool {
        self.pending_of(stack).next().is_some()
    }

    /// The reason why a row of the stack cannot be read.
    pub fn damage(&self, stack: u64) -> Option<&str> {
        self.damaged.get(&stack).map(String::as_str)
    }

    /// The reason why a row of some stack cannot be read.
    pub fn any_damage(&self) -> Option<&str> {
        self.damaged.values().next().map(String::as_str)
    }

    pub fn load_damage(&mut self, damaged: BTreeMap<u64, String>) {
        self.damaged = damaged;
    }

    /// See [`View::leftovers`](crate::View::leftovers).
    pub fn leftovers(&self) -> [(&'static str, usize); 4] {
        [
            ("stacks", self.by_id.len()),
            ("names of stacks", self.names.len()),
            ("stacks with damaged rows", self.damaged.len()),
            ("revisions that are read", self.pending.len()),
        ]
    }
}

impl Index<&u64> for Stacks {
    type Output = Stack;

    fn index(&self, id: &u64) -> &Stack {
        &self.by_id[id]
    }
}

impl<'s> IntoIterator for &'s Stacks {
    type Item = (&'s u64, &'s Stack);
    type IntoIter = std::collections::btree_map::Iter<'s, u64, Stack>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_id.iter()
    }
}

impl Graph {
    pub(crate) fn find(&self, name: &StackName) -> Result<u64, Refusal> {
        self.stacks.id_of(name).ok_or_else(|| self.no_stack(name))
    }

    pub(crate) fn begun(&self, id: u64, warnings: Vec<String>) -> Answer {
        let stack = &self.stacks[&id];
        Answer::Stack {
            name: stack.name.clone(),
            id,
            traversal: stack.traversal,
            revision: stack.revision,
            warnings,
            difference: String::new(),
        }
    }

    /// The refusal for a name that no stack has.
    pub(crate) fn no_stack(&self, name: &StackName) -> Refusal {
        let near = suggestion(name.as_str(), self.stacks.names().map(StackName::as_str));
        Refusal::NotFound(format!("no stack '{name}'{near}"))
    }
}
