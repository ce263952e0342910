//! The bounds on history and on names. In some runs they are so small that they are reached all the time. In no run is
//! more kept than they allow.
//!
//! Absent: tombstones of agents. A late message outlives three of them, and makes a thing again.

use std::collections::BTreeMap;

use muster_engine::Limits;
use muster_flow::OperationStatus;

use super::Options;
use super::dice::Dice;
use super::shared::Shared;
use super::store::Tables;

/// A run in so many.
const IN: u64 = 4;
/// The bound of everything that is kept of the past.
const FEW: usize = 3;
/// Revisions that a rollback may lead to are kept besides the newest.
const ROLLBACKS: usize = 2;
/// Tokens of servers that ask again and again for their answer was lost, and those that others hold.
const TOKENS: usize = 12;

/// The limits of the site.
pub fn limits(options: &Options, limits: Limits) -> Limits {
    let is_on = options.parts.load && Dice::new(options.seed, "bounds").one_in(IN);
    if !is_on {
        return limits;
    }
    Limits {
        revisions_kept: u32::try_from(FEW).unwrap_or_default(),
        complete_kept: FEW,
        held_per_node: FEW,
        flow_operations_kept: FEW,
        tokens_max: TOKENS,
        ..limits
    }
}

impl Tables {
    /// Returns what the tables keep more of than they may.
    fn keeps_too_much(&self, limits: &Limits) -> Option<String> {
        let too_many = |what: &str, many: usize, most: usize| {
            (many > most).then(|| format!("{many} {what} are kept, and {most} may be"))
        };
        let mut revisions: BTreeMap<u64, usize> = BTreeMap::new();
        for (stack, _) in self.revisions.keys() {
            *revisions.entry(*stack).or_default() += 1;
        }
        let ended =
            self.flows.operations.values().filter(|(it, _)| it.status != OperationStatus::InProgress).count();
        let most = usize::try_from(limits.revisions_kept).unwrap_or(usize::MAX).saturating_add(ROLLBACKS);
        let revisions = revisions.into_iter().max_by_key(|(_, many)| *many);
        let complete = self.stacks.values().map(|stack| stack.complete.len()).max().unwrap_or_default();
        revisions
            .and_then(|(stack, many)| too_many(&format!("revisions of stack {stack}"), many, most))
            .or_else(|| too_many("COMPLETE revisions of a stack", complete, limits.complete_kept))
            .or_else(|| too_many("ended operations on flow tables", ended, limits.flow_operations_kept))
            .or_else(|| too_many("join tokens", self.tokens.len(), limits.tokens_max))
            .or_else(|| too_many("nodes", self.nodes.len(), limits.nodes_max))
    }
}

impl Shared {
    /// Checks that the site keeps to its bounds after a commit.
    pub fn keeps_to_its_bounds(&mut self) {
        let wrong = self.limits.as_ref().and_then(|limits| self.tables.keeps_too_much(limits));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        if self.limits.as_ref().is_some_and(|limits| limits.complete_kept == FEW) {
            let full = |stack: &muster_engine::record::StackRecord| stack.complete.len() == FEW;
            if self.tables.stacks.values().any(full) {
                self.counts.add("bounds as many COMPLETE revisions as are kept");
            }
        }
    }
}
