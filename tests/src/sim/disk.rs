//! The state directory of an agent: what was synced survives a power cut, the rest may.

use std::collections::{BTreeMap, BTreeSet};

use muster_agent_core::Entry;
use muster_shared::model::flow::{Bridge, FlowId};
use muster_shared::model::{Action, Claim, ContentDigest, Outcome, ReportKey};
use muster_shared::{EpochId, MonoTime, ResourceId};

use super::aftermath::is_kept;
use super::dice::Dice;
use super::flow::Log;

/// The state directory.
#[derive(Clone, Default)]
pub struct Disk {
    pub(super) entries: BTreeMap<ResourceId, Entry>,
    /// The claims that each resource held last, also of those that are gone.
    held: BTreeMap<ResourceId, Vec<Claim>>,
    /// Entries that were written since the last sync, as they were then.
    pub(super) unsynced: BTreeMap<ResourceId, Option<Entry>>,
    pub(super) epoch: EpochId,
    pub(super) epoch_synced: EpochId,
    pub(super) contents: BTreeMap<ContentDigest, Vec<u8>>,
    /// The logs of flow tables.
    pub logs: BTreeMap<Bridge, Log>,
    /// Entries in them that their table does not know any more, by their digest.
    pub excused: BTreeMap<Bridge, BTreeSet<(FlowId, u64)>>,
    /// When tables were forgotten that were here: what was sent before may come yet.
    pub forgotten_at: BTreeMap<Bridge, MonoTime>,
    /// Nothing can be written.
    pub full: bool,
}

impl Disk {
    pub fn write(&mut self, entry: Entry) {
        if entry.exists() {
            self.held.insert(entry.resource, entry.claims().to_vec());
        }
        let old = self.entries.insert(entry.resource, entry.clone());
        self.unsynced.entry(entry.resource).or_insert(old);
    }

    pub fn remove(&mut self, resource: ResourceId) {
        let old = self.entries.remove(&resource);
        self.unsynced.entry(resource).or_insert(old);
    }

    pub fn sync(&mut self) {
        self.unsynced.clear();
        self.epoch_synced = self.epoch;
    }

    /// Drops each unsynced change or keeps it, at random, and cuts contents somewhere. Returns whether a log of a flow
    /// table is shorter now.
    pub fn power_cut(&mut self, dice: &mut Dice) -> bool {
        for (resource, old) in std::mem::take(&mut self.unsynced) {
            if dice.one_in(2) {
                match old {
                    Some(entry) => drop(self.entries.insert(resource, entry)),
                    None => drop(self.entries.remove(&resource)),
                }
            }
        }
        if dice.one_in(2) {
            self.epoch = self.epoch_synced;
        }
        self.epoch_synced = self.epoch;
        let cut = self.logs.values_mut().map(|log| log.power_cut(dice)).filter(|cut| *cut).count();
        for content in self.contents.values_mut() {
            content.truncate(dice.index(content.len() + 1));
        }
        cut > 0
    }

    /// Resources that are to restore a thing.
    pub fn holders(&self, thing: &str) -> impl Iterator<Item = ResourceId> {
        let holds = move |entry: &&Entry| entry.claims().iter().any(|claim| claim.key == *thing);
        self.entries.values().filter(holds).filter(|entry| !self.is_taken(entry)).map(|entry| entry.resource)
    }

    /// Whether another resource took over what this one held.
    pub fn is_taken(&self, entry: &Entry) -> bool {
        self.entries.values().any(|other| other.is_over(entry))
    }

    /// The claims that a resource holds, or held.
    pub fn held_by(&self, resource: ResourceId) -> Vec<Claim> {
        self.held.get(&resource).cloned().unwrap_or_default()
    }

    /// Returns the claims that the resource took over from others, each with the resource that had it. They go with the
    /// resource, unless it has made nothing itself: then the others have them back.
    pub fn given_up_to(&self, resource: ResourceId) -> Vec<(String, ResourceId)> {
        let holds = |entry: &&Entry| entry.applied.is_some() && !self.is_taken(entry);
        let Some(holder) = self.entries.get(&resource).filter(holds) else { return Vec::new() };
        let givers = self.entries.values().filter(|entry| holder.is_over(entry));
        givers
            .flat_map(|giver| giver.claims().iter().map(move |claim| (claim, giver.resource)))
            .filter(|(claim, _)| holder.claims().contains(claim))
            .map(|(claim, giver)| (claim.key.clone(), giver))
            .collect()
    }

    /// Whether this is the end of a job that leaves what there is.
    pub fn ends_retained(&self, entry: &Entry) -> bool {
        let job = self.entries.get(&entry.resource).and_then(|old| old.current.as_ref()).map(|a| &a.job);
        let last = entry.last.as_ref().filter(|last| matches!(last.outcome, Outcome::Done(_)));
        job.filter(|job| last.is_some_and(|last| last.key == job.key())).is_some_and(|job| match job.action {
            Action::Retain => true,
            Action::Delete => is_kept(&job.spec),
            Action::Create | Action::Update | Action::Check | Action::Adopt => false,
        })
    }

    /// Whether a power cut leaves what to restore of this change.
    pub fn knows_undo_of(&self, key: ReportKey) -> bool {
        let of_it = |entry: &Entry| entry.undo.as_ref().is_some_and(|undo| undo.key == key);
        let synced = self.unsynced.get(&key.resource).is_none_or(|old| old.as_ref().is_some_and(of_it));
        synced && self.entries.get(&key.resource).is_some_and(of_it)
    }

    /// Jobs whose change may have started, and was not confirmed.
    pub fn half_done(&self) -> BTreeSet<ReportKey> {
        let undo = |entry: &Entry| Some(entry.undo.as_ref()?.key);
        let job = |entry: &Entry| Some(entry.current.as_ref()?.job.key());
        self.entries.values().filter(|entry| undo(entry) == job(entry)).filter_map(undo).collect()
    }

    pub fn entry(&self, resource: ResourceId) -> Option<&Entry> {
        self.entries.get(&resource)
    }

    /// Entries, as an agent that starts reads them.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}
