//! The ownership of claims that several resources have, and the state before the first of them. The resource
//! that owns a claim **holds** it.
//!
//! ```text
//!   resource   since   over                    1 made the thing; 2 took it over from 1, and 3 from 2.
//!      1         3     -                       3 holds it: nobody is over 3.
//!      2         5     1 since 3               3 ends without ever having been applied: 2 holds it.
//!      3         8     1 since 3, 2 since 5    3 restores what was there before Muster: 1 and 2 are gone with it.
//! ```
//!
//! A take-over is one write: of the record of the resource that takes over. It holds the state before Muster,
//! and names the holdings that were taken over, whose own records stay as they are. The end of that resource
//! is one write of the same record. **Invariant.** A holding names only older holdings, so holdings cannot
//! form a ring.
//!
//! A resource takes over all claims of another holding, including those it does not claim itself, and
//! restores the latter with its own change: an address that moves from a bridge to its port must not be
//! on both.
//!
//! Absent: whether a resource may have a claim that another one has. The controller decides that
//! (`controller/engine/src/claim.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::ResourceId;
use muster_shared::model::{Action, Claim, Job};
use serde::{Deserialize, Serialize};

use crate::effects::Effects;
use crate::ledger::{Before, Entry, Ledger, Order};

/// The things that a resource may change, or has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The state before Muster.
    pub before: Before,
    /// The subject of `before`, in order.
    pub claims: Vec<Claim>,
    /// When the holding began; higher than in every earlier holding.
    pub since: Order,
    /// Holdings of other resources that this one took over, directly or through them, with the time
    /// each began.
    pub over: BTreeMap<ResourceId, Order>,
}

impl Entry {
    /// The claims that the resource holds, or held until another one took over.
    pub fn claims(&self) -> &[Claim] {
        self.holding.as_ref().map_or(&[], |holding| &holding.claims)
    }

    /// The state before Muster.
    pub fn before(&self) -> Option<&Before> {
        self.holding.as_ref().map(|holding| &holding.before)
    }

    /// Whether this resource took over the holding of `other`, or that holding has gone with it.
    pub fn is_over(&self, other: &Entry) -> bool {
        let over = self.holding.iter().map(|holding| &holding.over).chain([&self.gone]);
        over.into_iter().any(|over| other.is_in(over))
    }

    fn is_in(&self, holdings: &BTreeMap<ResourceId, Order>) -> bool {
        let holding = self.holding.as_ref();
        holding.is_some_and(|holding| holdings.get(&self.resource) == Some(&holding.since))
    }

    /// Resources that the record names as taken over or gone, now or in an earlier holding.
    pub(crate) fn named(&self) -> impl Iterator<Item = ResourceId> {
        let over = self.holding.iter().flat_map(|holding| holding.over.keys());
        over.chain(self.gone.keys()).copied()
    }
}

impl Ledger {
    /// Whether another resource took over this one's holding.
    pub(crate) fn is_taken(&self, resource: ResourceId) -> bool {
        self.taker(resource).is_some()
    }

    /// The resource that took over this one's holding.
    fn taker(&self, resource: ResourceId) -> Option<&Entry> {
        let entry = self.get(resource)?;
        let naming = self.naming.get(&resource).into_iter().flatten().filter_map(|other| self.get(*other));
        naming
            .filter(|taker| taker.is_over(entry))
            .max_by_key(|taker| taker.holding.as_ref().map(|holding| holding.since))
    }

    /// Other resources that hold one of these claims.
    pub(crate) fn holders(&self, claims: &[Claim], but: ResourceId) -> Vec<(ResourceId, &Holding)> {
        let owners: BTreeSet<_> =
            claims.iter().filter_map(|claim| self.owners.get(claim)).flatten().collect();
        let others = owners.into_iter().copied().filter(|&other| other != but && !self.is_taken(other));
        others.filter_map(|other| Some((other, self.get(other)?.holding.as_ref()?))).collect()
    }

    /// Other resources that own their claims again once this resource ends without having been applied. This
    /// resource restores its remaining claims itself.
    pub(crate) fn owners_after(&self, resource: ResourceId) -> Vec<&Entry> {
        let holds = |entry: &&Entry| entry.applied.is_none() && !self.is_taken(resource);
        let holding = self.get(resource).filter(holds).and_then(|entry| entry.holding.as_ref());
        holding.map_or_else(Vec::new, |holding| self.among(&holding.over).collect())
    }

    fn among(&self, holdings: &BTreeMap<ResourceId, Order>) -> impl Iterator<Item = &Entry> {
        holdings.keys().filter_map(|resource| self.get(*resource)).filter(|entry| entry.is_in(holdings))
    }

    /// The records of the state before Muster for a resource that takes these claims: its own, and those of
    /// the resources it takes over from. A holder that was applied has restored the parts of its take-over
    /// that it did not want, and only its record has the state before that.
    pub(crate) fn known(&self, resource: ResourceId, claims: &[Claim]) -> Vec<Before> {
        let own = self.own(resource).map(|own| own.before.clone());
        let givers = self.givers(resource, claims).into_iter().map(|(_, giver)| giver.before.clone());
        own.into_iter().chain(givers).collect()
    }

    /// The state before Muster: the job's own record, and the records of resources that restored
    /// what the job's resource took over.
    pub(crate) fn known_to(&self, job: &Job) -> (Option<Before>, Vec<Before>) {
        let before = self.get(job.resource).and_then(|entry| entry.before().cloned());
        let theirs = if job.action == Action::Delete { self.owners_after(job.resource) } else { Vec::new() };
        (before, theirs.into_iter().filter_map(|entry| entry.before().cloned()).collect())
    }

    /// The host reports a new record of the time before Muster, where that changed.
    pub(crate) fn keep_before(&mut self, resource: ResourceId, before: Option<Before>) {
        if let Some(before) = before {
            let keep = |entry: &mut Entry| entry.holding.as_mut().map(|holding| holding.before = before);
            self.edit(resource, keep);
        }
    }

    /// The holding of a resource that takes over its claims from others. It includes all further claims of
    /// those others, until this resource restores them.
    pub(crate) fn taken_over(&mut self, resource: ResourceId, before: Before, claims: &[Claim]) -> Holding {
        let since = self.next_order();
        let givers = self.givers(resource, claims);
        let holdings = || self.own(resource).into_iter().chain(givers.iter().map(|(_, giver)| *giver));
        let mut claims = claims.to_vec();
        claims.extend(holdings().flat_map(|holding| holding.claims.iter().cloned()));
        claims.sort();
        claims.dedup();
        let under = holdings().flat_map(|holding| self.among(&holding.over));
        let under = under.filter_map(|entry| Some((entry.resource, entry.holding.as_ref()?.since)));
        let mut over: BTreeMap<_, _> = under.collect();
        over.extend(givers.iter().map(|(giver, holding)| (*giver, holding.since)));
        over.remove(&resource);
        Holding { before, claims, since, over }
    }

    /// Another resource that holds one of these claims.
    pub(crate) fn holder(&self, resource: ResourceId, claims: &[Claim]) -> Option<ResourceId> {
        self.givers(resource, claims).first().map(|(holder, _)| *holder)
    }

    fn givers(&self, resource: ResourceId, claims: &[Claim]) -> Vec<(ResourceId, &Holding)> {
        let own = self.own(resource).into_iter().flat_map(|own| &own.claims);
        let claims: Vec<Claim> = claims.iter().chain(own).cloned().collect();
        self.holders(&claims, resource)
    }

    /// The holding of a resource, unless only the record of its taker has the state before Muster.
    fn own(&self, resource: ResourceId) -> Option<&Holding> {
        let is_lost = self.taker(resource).is_some_and(|taker| taker.applied.is_some() || !taker.exists());
        self.get(resource)?.holding.as_ref().filter(|_| !is_lost)
    }

    /// Whether the end of this resource changes nothing on the host, because another resource owns
    /// its claims.
    pub(crate) fn leaves_alone(&self, resource: ResourceId) -> bool {
        let Some(holding) = self.get(resource).and_then(|entry| entry.holding.as_ref()) else { return true };
        let theirs = self.owners_after(resource);
        let have = |claim| theirs.iter().any(|theirs| theirs.claims().contains(claim));
        self.is_taken(resource) || !theirs.is_empty() && holding.claims.iter().all(have)
    }

    /// Holdings that are gone once this resource's holding is restored, or left for good.
    pub(crate) fn ended_with(&self, resource: ResourceId) -> BTreeMap<ResourceId, Order> {
        let holds = |entry: &&Entry| entry.applied.is_some() && !self.is_taken(resource);
        let entry = self.get(resource).filter(holds);
        entry.and_then(|entry| entry.holding.as_ref()).map_or_else(BTreeMap::new, |it| it.over.clone())
    }

    /// The resource has ended, and its record on disk names the holdings gone with it. If the controller has
    /// a row of one of those, it is reported as lost and made again.
    pub(crate) fn drop_ended_with(&mut self, resource: ResourceId, effects: &mut Effects) {
        let Some(entry) = self.get(resource) else { return };
        // An entry that has yet to be restored is not gone.
        let gone = self.among(&entry.gone).filter(|other| other.undo.is_none());
        for gone in gone.map(|other| other.resource).collect::<Vec<_>>() {
            self.edit(gone, |entry| (entry.holding, entry.applied) = (None, None));
            self.write_through(gone, effects);
        }
    }
}
