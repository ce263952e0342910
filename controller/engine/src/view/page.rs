//! Pages of long lists. A page starts after a name. Its cost depends on the page, not on the list.

use muster_shared::{ResourceId, StackName};
use muster_template::Kind;

use super::stack::status_of;
use super::{ResourceView, StackView};
use crate::row::Slot;
use crate::stack::Stack;
use crate::view::View;
use crate::view::phase::NeededBy;

/// With more rows in clean-up than this, a page does not name the rows that need them. That takes a
/// look at the whole stack.
const NEEDED_MAX: usize = 10_000;

/// Filter for the rows of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Show replaced and dropped rows too, and the rows of `for_each` sets.
    pub all: bool,
    /// Only rows with this status.
    pub status: Option<String>,
    /// Only rows on which something is being done, or that wait for something.
    pub busy: bool,
}

impl View<'_> {
    /// The next rows of a stack by name after this one, about `most`. Rows of one name are not
    /// split. `None`: there is no such stack.
    pub fn resource_page(
        &self,
        name: &StackName,
        which: &RowFilter,
        after: Option<&str>,
        most: usize,
    ) -> Option<Vec<ResourceView>> {
        let stack = self.graph.stacks.named(name)?;
        let name_of = |slot: &Slot| &*self.graph.rows[*slot].name;
        let is_after = |slot: &Slot| after.is_none_or(|after| name_of(slot) > after);
        let is_listed = |slot: &&Slot| {
            let row = &self.graph.rows[**slot];
            let is_row = which.all || row.kind != Kind::Set;
            let is_busy = || self.traversals.phase(row).is_some();
            is_row
                && (!which.busy || is_busy())
                && which.status.as_ref().is_none_or(|wanted| *wanted == status_of(row))
        };
        // Rows of the revision are sorted by name.
        let from = stack.forward.partition_point(|slot| !is_after(slot));
        let forward = stack.forward[from..].iter().filter(is_listed).take(most);
        let mut page: Vec<(&str, bool, Slot)> = forward.map(|slot| (name_of(slot), false, *slot)).collect();
        let extras = self.extras(stack, which.all).filter(|slot| is_after(slot)).filter(is_listed);
        page.extend(extras.map(|slot| (name_of(slot), true, *slot)));
        if most > 0 && page.len() > most {
            let bound = page.select_nth_unstable(most - 1).1.0;
            page.retain(|(name, ..)| *name <= bound);
        }
        page.sort_unstable();
        let needed = match page.iter().any(|(_, is_extra, _)| *is_extra) && stack.extras.len() <= NEEDED_MAX {
            true => self.traversals.still_needed(stack),
            false => NeededBy::new(),
        };
        Some(page.into_iter().map(|(_, _, slot)| self.resource_view(stack, slot, &needed)).collect())
    }

    /// A row by its name or its physical id. A row of the current revision comes first. The outer
    /// `None`: there is no such stack.
    pub fn resource_named(&self, name: &StackName, wanted: &str, all: bool) -> Option<Option<ResourceView>> {
        let stack = self.graph.stacks.named(name)?;
        let is_listed = |slot: &Slot| all || self.graph.rows[*slot].kind != Kind::Set;
        let forward = stack.forward.binary_search_by(|slot| (*self.graph.rows[*slot].name).cmp(wanted));
        let forward = forward.ok().map(|at| stack.forward[at]).filter(is_listed);
        let named = || {
            self.extras(stack, all)
                .copied()
                .find(|slot| *self.graph.rows[*slot].name == *wanted && is_listed(slot))
        };
        let physical = || {
            let id = uuid::Uuid::parse_str(wanted).ok()?;
            let slot = self.graph.rows.of_thing(&ResourceId(id))?;
            let is_forward = || stack.forward.get(self.graph.rows[slot].index as usize) == Some(&slot);
            Some(slot).filter(|slot| {
                self.graph.rows[*slot].stack == stack.id && (all || is_forward()) && is_listed(slot)
            })
        };
        // The id of a deployed server is the name of its node.
        let server = || {
            let all = stack.forward.iter().chain(self.extras(stack, all)).copied();
            all.filter(|slot| self.graph.rows[*slot].kind == Kind::DeployedServer)
                .find(|slot| self.graph.rows[*slot].shown_id() == wanted)
        };
        let slot = forward.or_else(named).or_else(physical).or_else(server);
        Some(slot.map(|slot| self.resource_view(stack, slot, &self.traversals.still_needed(stack))))
    }

    /// Dropped rows, if they are listed. A stack that is being deleted has no others.
    fn extras<'e>(&self, stack: &'e Stack, all: bool) -> impl Iterator<Item = &'e Slot> {
        stack.extras.iter().filter(move |_| all || stack.forward.is_empty())
    }

    /// The next stacks by name, without outputs and parameters.
    pub fn stack_page(&self, after: Option<&StackName>, most: usize) -> Vec<StackView> {
        self.graph.stacks.after(after).map(|stack| self.short_view(stack)).take(most).collect()
    }
}
