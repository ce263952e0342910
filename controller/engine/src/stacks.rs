//! The site's stacks, by id and by name, and which of them wait for a revision or have a row that cannot be read.

use std::collections::BTreeMap;
use std::ops::{Bound, Index};

use muster_shared::StackName;
use muster_template::suggestion;

use crate::graph::Graph;
use crate::revision::Pending;
use crate::stack::Stack;
use crate::{Answer, Refusal};

/// All stacks. **Invariant.** A name stands for one stack, which exists; a stack has no name while its first operation is
/// worked out.
#[derive(Default)]
pub(crate) struct Stacks {
    by_id: BTreeMap<u64, Stack>,
    names: BTreeMap<StackName, u64>,
    /// Operations that wait for a revision to be read, by the number of that question.
    pending: BTreeMap<u64, Pending>,
    /// Stacks of which a row cannot be read, with the reason.
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

    /// Enters a stack. It has no name yet.
    pub fn insert(&mut self, id: u64, stack: Stack) {
        self.by_id.insert(id, stack);
    }

    /// A stack goes, with its name.
    pub fn remove(&mut self, id: &u64) {
        if let Some(stack) = self.by_id.remove(id)
            && self.names.get(&stack.name) == Some(id)
        {
            self.names.remove(&stack.name);
        }
    }

    /// A stack that was entered goes by its name from now on.
    pub fn name(&mut self, id: u64) {
        if let Some(stack) = self.by_id.get(&id) {
            self.names.insert(stack.name.clone(), id);
        }
    }

    /// The stack of this name.
    pub fn id_of(&self, name: &StackName) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// The stack of this name.
    pub fn named(&self, name: &StackName) -> Option<&Stack> {
        self.by_id.get(self.names.get(name)?)
    }

    /// All that have a name, in the order of names, after this one.
    pub fn after(&self, name: Option<&StackName>) -> impl Iterator<Item = &Stack> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = self.names.range::<StackName, _>((from, Bound::Unbounded));
        ids.filter_map(|(_, id)| self.by_id.get(id))
    }

    /// The names of all stacks.
    pub fn names(&self) -> impl Iterator<Item = &StackName> {
        self.names.keys()
    }

    /// An operation waits for a revision: the answer comes under this number.
    pub fn wait(&mut self, load: u64, pending: Pending) {
        self.pending.insert(load, pending);
    }

    /// What waited for the revision of this number.
    pub fn take_pending(&mut self, load: u64) -> Option<Pending> {
        self.pending.remove(&load)
    }

    /// What waits for revisions of a stack, and waits no longer.
    pub fn take_pending_of(&mut self, stack: u64) -> Vec<Pending> {
        let (of_it, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, pending)| pending.stack == stack);
        self.pending = others;
        of_it.into_values().collect()
    }

    /// What waits for a revision of a stack.
    pub fn pending_of(&self, stack: u64) -> impl Iterator<Item = &Pending> {
        self.pending.values().filter(move |pending| pending.stack == stack)
    }

    /// Whether an operation of a stack waits for a revision.
    pub fn is_pending(&self, stack: u64) -> bool {
        self.pending_of(stack).next().is_some()
    }

    /// The reason why rows of a stack cannot be read.
    pub fn damage(&self, stack: u64) -> Option<&str> {
        self.damaged.get(&stack).map(String::as_str)
    }

    /// The reason why rows of any stack cannot be read.
    pub fn any_damage(&self) -> Option<&str> {
        self.damaged.values().next().map(String::as_str)
    }

    pub fn load_damage(&mut self, damaged: BTreeMap<u64, String>) {
        self.damaged = damaged;
    }

    /// See [`Engine::leftovers`](crate::Engine::leftovers).
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
        }
    }

    /// What to say of a name that no stack has.
    pub(crate) fn no_stack(&self, name: &StackName) -> Refusal {
        let near = suggestion(name.as_str(), self.stacks.names().map(StackName::as_str));
        Refusal::NotFound(format!("no stack '{name}'{near}"))
    }
}
