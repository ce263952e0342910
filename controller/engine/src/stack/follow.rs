//! Sets follow nodes: which nodes the selectors of a stack match, and when the stack follows a change.
//! `fit.rs` then adds and drops members, as this diagram says.
//!
//! ```text
//!   a node joins, is labelled, is removed ─▶ members and matching nodes differ
//!      ├── an operation is in progress ─▶ it goes on with the new tree: other members stay
//!      ├── the stack is COMPLETE, or was before a check ─▶ its revision is walked again
//!      ├── a check is in progress ─▶ the same, after the check
//!      └── the operation FAILED ─▶ dropped members go; new ones wait for a success
//! ```
//!
//! A stack follows the first change at once, and changes of the next second together, so a thousand
//! nodes that join are not a thousand plans. If nodes leave again and again, as with a label that
//! flaps, the stack follows them less and less often, down to once a minute. A revoked node keeps
//! its members and gets no new ones.
//!
//! Absent: whether a selector matches a node (`controller/template/src/selector.rs`), and changes of labels
//! (`node/requests.rs`).

pub(crate) mod fit;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_template::{Kind, Selector, Tree};

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::record::{StackAction, Status};
use crate::request::{Options, Refusal};
use crate::row::notes::Notes;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::timer::TimerKey;
use crate::todo::Todo;

/// Interval between two plans of one stack for changes of nodes. A plan of 20,000 resources takes
/// some tens of milliseconds.
const FIT_EVERY: Duration = Duration::from_secs(1);
/// The longest interval, for a stack that nodes leave again and again.
const FIT_SELDOM: Duration = Duration::from_secs(60);
/// So many nodes may leave within two minutes of one another before the interval grows.
const LEAVES_FREE: u32 = 3;

/// A `for_each` of a stack.
pub(crate) struct NodeSet {
    path: Arc<str>,
    selector: Selector,
}

/// When a stack follows changes of nodes.
#[derive(Default)]
pub(crate) struct MembershipUpdates {
    /// When the stack last followed them.
    last: Option<MonoTime>,
    due: Option<MonoTime>,
    /// The stack follows them once the present operation has ended.
    later: bool,
    /// The number of times that nodes have left, each within two minutes of the one before.
    leaves: u32,
}

impl MembershipUpdates {
    /// Interval until the stack follows the nodes again.
    fn pause(&self) -> Duration {
        let doubled = self.leaves.saturating_sub(LEAVES_FREE).min(6);
        (FIT_EVERY * (1 << doubled)).min(FIT_SELDOM)
    }

    /// Sets and returns the time to follow the nodes, unless one is set.
    fn next(&mut self, now: MonoTime) -> Option<MonoTime> {
        if self.due.is_some() {
            return None;
        }
        let due = self.last.map_or(now, |last| last + self.pause()).max(now);
        self.due = Some(due);
        self.due
    }

    #[cfg(test)]
    pub fn waits(&self) -> bool {
        self.due.is_some() || self.later
    }

    /// Whether this is the time that was set.
    pub fn is_due(&self, due: MonoTime) -> bool {
        self.due == Some(due)
    }

    /// The stack follows the nodes now.
    pub fn begin(&mut self) {
        self.due = None;
    }

    /// Notes whether the stack must follow the nodes after the present operation.
    pub fn set_owed(&mut self, is_owed: bool) {
        self.later = is_owed;
    }

    /// The stack has followed the nodes. `leave`: a member's node has left.
    pub fn followed(&mut self, now: MonoTime, leave: bool) {
        let is_quiet = self.last.is_none_or(|last| now.since(last) > 2 * FIT_SELDOM);
        if is_quiet {
            self.leaves = 0;
        }
        self.leaves = self.leaves.saturating_add(leave.into());
        self.last = Some(now);
    }
}

impl Graph {
    /// Remembers the `for_each` sets of a stack.
    pub(crate) fn note_sets(&mut self, id: u64, tree: &Tree) {
        let meant = |set: muster_template::Set<'_>| {
            Some(NodeSet { path: tree.shared_name(set.index()), selector: set.selector().parse().ok()? })
        };
        let sets = tree.sets().filter_map(meant).collect();
        if let Some(stack) = self.stacks.get_mut(&id) {
            stack.sets = sets;
        }
    }

    /// Restores the sets from the rows after a restart.
    pub(crate) fn load_sets(&mut self, id: u64) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let meant = |slot: &Slot| {
            let row = &self.rows[*slot];
            let Some(Notes::Selector(selector)) =
                row.details().notes.as_ref().filter(|_| row.kind == Kind::Set)
            else {
                return None;
            };
            Some(NodeSet { path: row.name.clone(), selector: selector.parse().ok()? })
        };
        let sets: Vec<NodeSet> = stack.forward.iter().filter_map(meant).collect();
        if let Some(stack) = self.stacks.get_mut(&id) {
            stack.sets = sets;
        }
    }

    /// Notes the selector in the row of a set, because a COMPLETE stack has no tree.
    pub(crate) fn remember_selector(&mut self, slot: Slot, tree: &Tree) {
        let index = self.rows[slot].index as usize;
        if tree.kind(index) != Kind::Set {
            return;
        }
        let Some(set) = tree.sets().find(|set| set.index() == index) else { return };
        if self.rows[slot].set_notes(Some(Notes::Selector(set.selector().to_owned()))) {
            self.row_changed(slot, false);
        }
    }

    /// The nodes that match the selector of the set with this path.
    pub(crate) fn meant(&self, stack: &Stack, path: &str, selector: &Selector) -> Vec<Arc<str>> {
        let nodes = self.nodes.iter().filter(|(key, _)| self.is_meant(stack, path, selector, *key));
        nodes.map(|(_, node)| node.name.as_str().into()).collect()
    }

    /// The matching nodes that have a member.
    pub(crate) fn still_meant(&self, stack: &Stack, path: &str, selector: &Selector) -> Vec<Arc<str>> {
        let mut nodes = self.meant(stack, path, selector);
        nodes.retain(|node| self.has_member(stack, path, node));
        nodes
    }

    fn is_meant(&self, stack: &Stack, path: &str, selector: &Selector, key: NodeKey) -> bool {
        self.nodes[key].joined.as_ref().is_some_and(|joined| {
            selector.matches(&joined.labels, None)
                && stack.scope.as_ref().is_none_or(|label| label.is_among(&joined.labels))
                && (!joined.revoked || self.has_member(stack, path, self.nodes[key].name.as_str()))
        })
    }

    /// Whether the row is a member whose node does not match the selector.
    pub(crate) fn is_outside(&self, row: &Row) -> bool {
        let (Some(stack), Some(key)) = (self.stacks.get(&row.stack), row.node) else { return false };
        let is_of = |set: &&NodeSet| {
            row.name.strip_prefix(&*set.path).is_some_and(|rest| rest.starts_with('[') && rest.ends_with(']'))
        };
        let set = stack.sets.iter().find(is_of);
        set.is_some_and(|set| !self.is_meant(stack, &set.path, &set.selector, key))
    }

    fn has_member(&self, stack: &Stack, path: &str, node: &str) -> bool {
        let name = format!("{path}[{node}]");
        stack.forward.binary_search_by(|slot| (*self.rows[*slot].name).cmp(&name)).is_ok()
    }

    /// A node has joined or left, or its labels changed: the stacks that it concerns will follow.
    pub(crate) fn follow_node(&mut self, key: NodeKey) {
        let differs = |stack: &Stack| {
            let differs = |set: &NodeSet| {
                let has = self.has_member(stack, &set.path, self.nodes[key].name.as_str());
                has != self.is_meant(stack, &set.path, &set.selector, key)
            };
            stack.sets.iter().any(differs)
        };
        let stacks: Vec<u64> =
            self.stacks.values().filter(|stack| differs(stack)).map(|stack| stack.id).collect();
        stacks.into_iter().for_each(|id| self.fit_soon(id));
    }

    /// After a restart, lets stacks follow nodes that changed just before it.
    pub(crate) fn follow_all(&mut self) {
        let stacks = self.stacks.values().filter(|stack| self.is_unfit(stack));
        let stacks: Vec<u64> = stacks.map(|stack| stack.id).collect();
        stacks.into_iter().for_each(|id| self.fit_soon(id));
    }

    /// Whether a matching node has no member, or a member no matching node.
    pub(crate) fn is_unfit(&self, stack: &Stack) -> bool {
        let is_unfit = |set: &NodeSet| {
            let meant = self.meant(stack, &set.path, &set.selector);
            let prefix = format!("{}[", set.path);
            let from = stack.forward.partition_point(|slot| *self.rows[*slot].name < *prefix);
            let rows = stack.forward[from..].iter().map(|slot| &self.rows[*slot].name);
            let there = rows.take_while(|name| name.starts_with(&prefix)).count();
            let named = |node: &Arc<str>| format!("{prefix}{node}]");
            let has = |name: String| {
                stack.forward.binary_search_by(|slot| (*self.rows[*slot].name).cmp(&name)).is_ok()
            };
            there != meant.len() || !meant.iter().map(named).all(has)
        };
        stack.sets.iter().any(is_unfit)
    }

    /// Whether a member has no matching node.
    pub(crate) fn somebody_left(&self, stack: &Stack) -> bool {
        stack.sets.iter().any(|set| {
            let meant = self.meant(stack, &set.path, &set.selector);
            let prefix = format!("{}[", set.path);
            let from = stack.forward.partition_point(|slot| *self.rows[*slot].name < *prefix);
            let rows = stack.forward[from..].iter().map(|slot| &self.rows[*slot].name);
            let nodes = rows.map_while(|name| name.strip_prefix(&*prefix)?.strip_suffix(']'));
            let meant: BTreeSet<&str> = meant.iter().map(|node| &**node).collect();
            nodes.into_iter().any(|node| !meant.contains(node))
        })
    }

    fn fit_soon(&mut self, id: u64) {
        let now = self.ctx.now;
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(due) = stack.membership.next(now) else { return };
        match due > now {
            true => self.ctx.timers.set(due, TimerKey::Fit(id)),
            false => self.ctx.agenda.push_back(Todo::Fit(id)),
        }
    }

    /// Follows the nodes if the operation that just ended was in the way.
    pub(crate) fn fit_if_owed(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        if std::mem::take(&mut stack.membership.later) {
            self.fit_soon(id);
        }
    }

    /// Whether the stack is COMPLETE, or was before a check that failed.
    pub(crate) fn stands_whole(&self, stack: &Stack) -> bool {
        let is_ready = |slot: &Slot| self.rows[*slot].ready;
        let stood = || stack.extras.is_empty() && stack.forward.iter().all(is_ready);
        stack.status == Status::Complete
            || (stack.action == StackAction::Check && !stack.cancelled && stood())
    }

    /// Checks selectors and rollouts against the present nodes. Returns warnings.
    pub(crate) fn check_sets(&self, tree: &Tree, options: &Options) -> Result<Vec<String>, Refusal> {
        let mut warnings = Vec::new();
        for set in tree.sets() {
            let (count, selector) = (set.members().len(), set.selector());
            if let Some(most) = options.max_nodes.filter(|most| count > *most as usize) {
                let message = format!(
                    "'{selector}' selects {count} nodes, over the {most} of --max-nodes: narrow the selector, or raise \
                     --max-nodes if all of them are meant"
                );
                return Err(Refusal::Conflict(set.error(&message).to_string()));
            }
            if count == 0 {
                let name = set.name();
                warnings
                    .push(format!("no node matches '{selector}' of {name}: nothing is made until one does"));
                continue;
            }
            let most = set.rollout().map_or(0, |rollout| rollout.max_failures.of(count));
            if most > count {
                let message = format!(
                    "max_failures of its rollout is {most}, but '{selector}' selects {count} nodes: nothing would ever stop it"
                );
                return Err(Refusal::Invalid(set.error(&message).to_string()));
            }
        }
        Ok(warnings)
    }
}

/// The nodes that have a member in one of the tree's sets.
pub(crate) fn nodes_of(tree: &Tree) -> BTreeSet<Arc<str>> {
    let of_set = |set: muster_template::Set<'_>| {
        let prefix = format!("{}[", set.name());
        let node = move |member: &u32| {
            let name = tree.shared_name(*member as usize);
            name.strip_prefix(&*prefix)?.strip_suffix(']').map(Arc::from)
        };
        set.members().iter().filter_map(node).collect::<Vec<_>>()
    };
    tree.sets().flat_map(of_set).collect()
}
