//! The contents of the database: the engine's own tables in memory, and what a database has besides them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use muster_engine::record::{Change, ResourceRecord};
use muster_engine::{Snapshot, memory};
use muster_shared::model::Claim;
use muster_shared::{MonoTime, NodeId, ResourceId, StackName};

/// The contents of the database.
#[derive(Clone, Default)]
pub struct Tables {
    kept: memory::Tables,
    /// When stacks and rollouts were written, by the database's clock.
    written: memory::Written,
    /// The id of each stack, by name.
    pub names: BTreeMap<StackName, u64>,
    /// The row of each physical id.
    pub physical: BTreeMap<ResourceId, u64>,
    pub(super) last_event: BTreeMap<u64, u64>,
    /// When each row began to wait.
    pub(super) waits_since: BTreeMap<u64, Duration>,
    /// When each row began to wait, and was corrected last, by the database's clock.
    pub(super) began: BTreeMap<u64, [Option<i64>; 2]>,
    pub(super) steady: Option<i64>,
    /// The epoch of the newest start.
    pub epoch: u32,
    pub(super) starts: muster_engine::Starts,
    /// The bits of all starts, as the simulator has them.
    pub bits: BTreeSet<u64>,
    /// Rows that own what they claim.
    pub claims: BTreeMap<(NodeId, Claim), BTreeSet<u64>>,
}

impl Deref for Tables {
    type Target = memory::Tables;
    fn deref(&self) -> &memory::Tables {
        &self.kept
    }
}

impl DerefMut for Tables {
    fn deref_mut(&mut self) -> &mut memory::Tables {
        &mut self.kept
    }
}

impl Tables {
    /// Returns what is left although all stacks, rules and intents are gone.
    pub fn are_left(&self) -> Option<String> {
        let left = [
            ("names", self.names.len()),
            ("revisions", self.revisions.len()),
            ("physical ids", self.physical.len()),
            ("rows that wait", self.waits_since.len()),
        ];
        let (what, count) = left.into_iter().find(|(_, count)| *count > 0)?;
        Some(format!("{count} {what} are left in the tables"))
    }

    /// The time that the database counts by.
    fn clock(&self, now: MonoTime) -> MonoTime {
        let of_machine = |seconds: i64| MonoTime(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        self.steady.map_or(now, of_machine)
    }

    /// Notes when a stack or a rollout was written.
    pub(super) fn note(&mut self, change: &Change, now: MonoTime) {
        let clock = self.clock(now);
        self.written.note(change, clock);
    }

    /// Makes stacks and rollouts what a start loads.
    pub(super) fn age(&self, snapshot: &mut Snapshot, now: MonoTime) {
        self.written.age(snapshot, self.clock(now));
    }

    /// Notes when a row began to wait.
    pub(super) fn waits(&mut self, row: &ResourceRecord, now: MonoTime) {
        match row.progress.waited {
            Some(waited) => drop(self.waits_since.insert(row.id, now.0.saturating_sub(waited))),
            None => drop(self.waits_since.remove(&row.id)),
        }
        if let Some(steady) = self.steady {
            let began =
                |ago: Duration| steady.saturating_sub(i64::try_from(ago.as_secs()).unwrap_or(i64::MAX));
            let corrected = row.progress.corrections.map(|corrections| corrections.ago);
            self.began.insert(row.id, [row.progress.waited.map(began), corrected.map(began)]);
        }
    }

    /// Makes a row what a start loads: how long it has waited is counted by the clock.
    pub(super) fn load(&self, row: &mut ResourceRecord, now: MonoTime) {
        let since = self.waits_since.get(&row.id);
        row.progress.waited = row.progress.waited.and(since).map(|since| now.0.saturating_sub(*since));
        if let (Some(steady), Some([waits, corrected])) = (self.steady, self.began.get(&row.id)) {
            let ago =
                |began: &i64| Duration::from_secs(u64::try_from(steady.saturating_sub(*began)).unwrap_or(0));
            row.progress.waited = row.progress.waited.and(waits.as_ref().map(ago));
            if let (Some(corrections), Some(began)) = (&mut row.progress.corrections, corrected) {
                corrections.ago = ago(began);
            }
        }
    }

    pub(super) fn disclaim(&mut self, id: u64, touched: &mut BTreeSet<(NodeId, Claim)>) {
        let Some(row) = self.rows.get(&id) else { return };
        for key in owned(row) {
            if let Some(owners) = self.claims.get_mut(&key) {
                owners.remove(&id);
                if owners.is_empty() {
                    self.claims.remove(&key);
                }
            }
            touched.insert(key);
        }
    }

    pub(super) fn claim(&mut self, row: &ResourceRecord, touched: &mut BTreeSet<(NodeId, Claim)>) {
        for key in owned(row) {
            self.claims.entry(key.clone()).or_default().insert(row.id);
            touched.insert(key);
        }
    }
}

/// A row in a line.
pub fn brief(row: &ResourceRecord) -> String {
    let progress = &row.progress;
    let dropped = if row.dropped.is_some() { " dropped" } else { "" };
    format!(
        "row {} {} on {:?}{dropped} {} {:?} applied {} sent {} handed over {} hook {:?}",
        row.id,
        row.name,
        row.node,
        muster_engine::record::action_str(progress.action),
        progress.status,
        progress.applied,
        progress.in_flight,
        row.handed_over,
        progress.hook
    )
}

/// Returns the claims that a row owns.
fn owned(row: &ResourceRecord) -> Vec<(NodeId, Claim)> {
    let (Some(node), Some(spec)) = (&row.node, &row.spec) else { return Vec::new() };
    // A row whose job never left owns nothing after a restart.
    if row.handed_over || row.is_lost() || row.external_id.is_some() || !row.progress.applied {
        return Vec::new();
    }
    spec.unpack().claims().into_iter().map(|claim| (node.clone(), claim)).collect()
}
