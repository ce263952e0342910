//! The differences that a comparison found on the device: entries that it holds otherwise than the table, and strays.
//!
//! Absent: the comparison itself (`compare_with_agent.rs`).

use std::sync::Arc;

use muster_shared::model::flow::FlowId;

use super::Table;
use crate::entry::Kept;
use crate::record::FlowMark;

/// Bound on strays removed at a time. The next comparison finds the others. A lying agent may
/// invent as many as it likes, for 256 devices.
pub(crate) const STRAYS_MAX: usize = 50_000;

impl Table {
    /// A comparison found no difference.
    pub fn found_equal(&mut self) {
        self.perhaps_present.clear();
    }

    /// The device has this id of ours, and no table does.
    pub fn stray(&mut self, id: FlowId) {
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(id);
        }
    }

    pub fn has_strays(&self) -> bool {
        !self.strays.is_empty()
    }

    /// Takes at most so many of the strays to remove from the device.
    pub fn take_strays(&mut self, most: usize) -> Vec<FlowId> {
        let entries = &self.entries;
        self.strays.retain(|id| entries.get(id).is_none_or(|kept| kept.seen().is_none() && !kept.removing));
        self.strays.sort_unstable();
        self.strays.dedup();
        let rest = self.strays.split_off(most.min(self.strays.len()));
        std::mem::replace(&mut self.strays, rest)
    }

    /// Sends an entry again that the device lost or changed. If a repair failed before, its reason stays.
    pub fn again(&mut self, id: FlowId, reason: &Arc<str>) {
        let was_wrong = self.entries.get(&id).is_some_and(|kept| kept.mark == FlowMark::Wrong);
        let known = self.reasons.get(&id).filter(|_| was_wrong);
        let reason = known.unwrap_or(reason).clone();
        self.see(id, FlowMark::Again, Some(reason));
        self.queue(id);
    }

    /// Records how the device holds an entry without open writes.
    pub fn see(&mut self, id: FlowId, mark: FlowMark, reason: Option<Arc<str>>) {
        let Some(kept) = self.entries.get(&id) else { return };
        let (old, digest) = (kept.seen(), kept.digest);
        self.mark(id, mark, reason);
        let new = self.entries[&id].seen();
        if old != new {
            for seen in [old, new].into_iter().flatten() {
                self.sums.toggle(id, digest, seen);
            }
        }
        self.save(id);
    }

    /// Number of entries sent again because the device lost or changed them.
    pub fn repairs_among(&self, ids: &[FlowId]) -> usize {
        if self.marked(FlowMark::Again) == 0 {
            return 0;
        }
        self.repairs(ids).count()
    }

    pub fn repairs<'t>(&'t self, ids: &'t [FlowId]) -> impl Iterator<Item = FlowId> + 't {
        let is_repair = |id: &FlowId| self.get(*id).is_some_and(|kept| kept.mark == FlowMark::Again);
        ids.iter().copied().filter(is_repair)
    }

    /// Drops all repairs: the device stays as it is. Returns false if no entry of the table needed one.
    pub fn leave_repairs(&mut self) -> bool {
        self.strays.clear();
        let is_repair = |(_, kept): &(FlowId, &Kept)| kept.mark == FlowMark::Again;
        let repairs: Vec<FlowId> = match self.marked(FlowMark::Again) {
            0 => Vec::new(),
            _ => self.iter().filter(is_repair).map(|(id, _)| id).collect(),
        };
        for id in &repairs {
            self.see(*id, FlowMark::None, None);
        }
        !repairs.is_empty()
    }
}
