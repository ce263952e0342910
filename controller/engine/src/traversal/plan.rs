//! The plan of a traversal: which row stands for each name, what is unchanged, what is dropped. Pure.
//!
//! The cost follows the change: an unchanged resource costs one comparison of digests.
//!
//! Absent: whether a changed resource is updated in place or replaced (`row/needed.rs`), and the checks of a
//! plan (`operation/acceptance.rs`). What makes a resource's definition another one:
//! `controller/template/src/digest.rs`.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use muster_template::{Kind, Tree};

use crate::record::Status;
use crate::row::rows::Rows;
use crate::row::{Row, Slot};
use crate::stack::Stack;
use crate::traversal::walk::Adjacency;

/// The input of a plan.
pub(crate) struct PlanInput<'a> {
    pub rows: &'a Rows,
    /// Rows of the current revision, by name.
    pub forward: &'a [Slot],
    /// See [`Stack::settled`](crate::stack::Stack::settled).
    pub settled: &'a [u128],
    /// Digest of the names of `forward`.
    pub names: u128,
    pub extras: &'a IndexSet<Slot>,
    /// The revision before.
    pub previous: u32,
    /// In a rollback, the revision to return to.
    pub target: Option<u32>,
    /// The same operation goes on. Drift is left for the next operation of an operator.
    pub again: bool,
    /// The rows may use hidden values of other stacks.
    pub hides: bool,
    /// Every resource is visited, changed or not.
    pub converges: bool,
}

impl<'a> PlanInput<'a> {
    /// The input for an operation that begins on a stack as it is.
    pub fn of(stack: &'a Stack, rows: &'a Rows) -> Self {
        Self {
            rows,
            forward: &stack.forward,
            settled: &stack.settled,
            names: stack.names,
            extras: &stack.extras,
            previous: stack.revision,
            target: None,
            again: false,
            hides: stack.hidden.hides_of_others(),
            converges: stack.converge,
        }
    }
}

/// The work of a traversal.
pub(crate) struct Plan {
    /// A row for each resource of the template, in its order. `None`: the resource needs a new row.
    pub chosen: Vec<Option<Slot>>,
    /// Nodes of the graph that must be visited: what changed, and what depends on it.
    pub dirty: Vec<bool>,
    /// Rows to be cleaned up.
    pub dropped: Vec<Slot>,
    /// The chosen rows are those of `forward`, or new.
    pub same_rows: bool,
    /// The reverse of the edges. Empty if nothing must be visited.
    pub needed_by: Adjacency,
}

/// Chooses rows and finds what changed.
pub(crate) fn plan(ground: &PlanInput<'_>, tree: &Tree) -> Plan {
    let same_rows = ground.extras.is_empty() && ground.names == tree.names();
    let (chosen, dropped) = if same_rows { keep(ground) } else { choose(ground, tree) };
    let settled = |index: usize| if same_rows { ground.settled[index] } else { 0 };
    let has_secrets = ground.hides || !tree.secrets().is_empty();
    // New facts of nodes are left for the next operation, too.
    let is_as_it_was = |slot: Slot, index: usize| {
        let row = &ground.rows[slot];
        ground.again && row.rests() && row.definition == tree.definition(index)
    };
    let mut dirty: Vec<bool> = chosen
        .iter()
        .enumerate()
        .map(|(index, slot)| match slot {
            // Facts may have changed though the template has not.
            Some(slot) if tree.asks_nodes(index) && !is_as_it_was(*slot, index) => true,
            Some(_) if ground.converges => true,
            Some(slot) if has_secrets && may_hide(&ground.rows[*slot]) => true,
            Some(_) if settled(index) != 0 => settled(index) != tree.definition(index),
            Some(slot) => {
                let row = &ground.rows[*slot];
                let is_settled = if ground.again { row.rests() } else { row.is_settled() };
                !(is_settled
                    && row.kind == tree.kind(index)
                    && row.definition == tree.definition(index)
                    && same_requires(row, tree.requires(index), &chosen))
            }
            None => true,
        })
        .collect();
    let mut needed_by = Adjacency::default();
    if dirty.contains(&true) {
        needed_by = Adjacency::reversed(tree.len(), |index| tree.requires(index));
        let mut queue: Vec<usize> = (0..dirty.len()).filter(|index| dirty[*index]).collect();
        while let Some(index) = queue.pop() {
            for &next in needed_by.of(index) {
                if !std::mem::replace(&mut dirty[next as usize], true) {
                    queue.push(next as usize);
                }
            }
        }
    }
    Plan { chosen, dirty, dropped, same_rows, needed_by }
}

/// Keeps the rows: the names are unchanged, and each has one row.
fn keep(ground: &PlanInput<'_>) -> (Vec<Option<Slot>>, Vec<Slot>) {
    let mut dropped = Vec::new();
    let kept = |(slot, settled): (&Slot, &u128)| {
        let usable = *settled != 0 || ground.rows[*slot].is_usable();
        if !usable {
            dropped.push(*slot);
        }
        usable.then_some(*slot)
    };
    (ground.forward.iter().zip(ground.settled).map(kept).collect(), dropped)
}

/// Whether a flow row does not say yet that hidden values went into it. A value may have become
/// hidden after the row was made.
fn may_hide(row: &Row) -> bool {
    matches!(row.kind, Kind::FlowGroup | Kind::FlowMeter | Kind::FlowRule | Kind::FlowTable)
        && !row.hides_flows()
}

fn same_requires(row: &Row, requires: &[u32], chosen: &[Option<Slot>]) -> bool {
    // A row may need a hundred thousand others.
    let sorted = |mut slots: Vec<Slot>| {
        slots.sort_unstable();
        slots
    };
    let wanted: Option<Vec<Slot>> = requires.iter().map(|index| chosen[*index as usize]).collect();
    row.requires.len() == requires.len()
        && wanted.is_some_and(|wanted| sorted(wanted) == sorted(row.requires.to_vec()))
}

/// Chooses rows in one pass: rows and template are both sorted by name.
fn choose(ground: &PlanInput<'_>, tree: &Tree) -> (Vec<Option<Slot>>, Vec<Slot>) {
    let rows = ground.rows;
    let mut others: BTreeMap<&str, Vec<Slot>> = BTreeMap::new();
    for slot in ground.extras {
        others.entry(&rows[*slot].name).or_default().push(*slot);
    }
    let mut dropped = Vec::new();
    let mut forward = ground.forward.iter().copied().peekable();
    let chosen = (0..tree.len())
        .map(|index| {
            let name = tree.name(index);
            let mut candidates = others.remove(name).unwrap_or_default();
            while let Some(slot) = forward.next_if(|slot| *rows[*slot].name <= *name) {
                if *rows[slot].name == *name {
                    candidates.push(slot);
                } else {
                    dropped.push(slot);
                }
            }
            // The definition costs time, so it is read only where there is a choice.
            let wanted = (candidates.len() > 1).then(|| tree.definition(index));
            let best = candidates
                .iter()
                .copied()
                .filter(|slot| rows[*slot].is_usable())
                .max_by_key(|slot| (score(ground, &rows[*slot], wanted), rows[*slot].id));
            dropped.extend(candidates.into_iter().filter(|slot| Some(*slot) != best));
            best
        })
        .collect();
    dropped.extend(forward);
    dropped.extend(others.into_values().flatten());
    (chosen, dropped)
}

/// A measure of how well a row fits. Weights are as in Heat's `_get_best_existing_rsrc_db_id`, with
/// more for a row that is as `wanted` already: if an update has started to replace a thing, reverting
/// it keeps the thing.
fn score(ground: &PlanInput<'_>, row: &Row, wanted: Option<u128>) -> i32 {
    let stood_in =
        |revision: u32| row.revision <= revision && row.dropped().is_none_or(|dropped| revision < dropped);
    let mut score = 0;
    if row.status() == Some(Status::Failed) {
        score -= 30;
    }
    if row.is_going() {
        score -= 50;
    }
    if row.replaced_by().is_some() {
        score -= 1;
    }
    if stood_in(ground.previous) {
        score += 5;
    }
    if wanted == Some(row.definition) && row.status() == Some(Status::Complete) {
        score += 8;
    }
    if ground.target.is_some_and(stood_in) {
        score += 10;
    }
    score
}
