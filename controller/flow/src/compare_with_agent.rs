//! Reconciliation: compares our table of a device with its agent's. If nothing is in flight and the
//! agent's digest differs from ours, the buckets that differ are compared, and a batch corrects
//! them. Expired entries are believed and recorded. Wrong ones are shown with their reason.
//!
//! Absent: how the agent compares its table with the device itself
//! (`agent/core/src/flow/repair_switch.rs`), and repairs that the agent undoes (`undone.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{
    BUCKETS, DeviceName, EntryState, FlowAsk, FlowDown, FlowId, FlowState, bucket_of,
};
use muster_shared::{MonoTime, NodeId};

use crate::device::{DeviceKey, Flows, InFlight};
use crate::effect::Effect;
use crate::record::FlowMark;
use crate::restored_difference::TableDifference;
use crate::site::Turn;
use crate::table::STRAYS_MAX;
use crate::undone::Undone;

/// An agent answers within milliseconds. After this time the question counts as lost.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The interval between comparisons that each found a difference. It doubles from the first to the
/// longest. The first two follow at once.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// A comparison under way.
#[derive(Debug)]
pub(crate) struct Comparing {
    number: u64,
    until: MonoTime,
    /// The agent's root when the buckets were chosen.
    theirs: u64,
    buckets: BTreeSet<u16>,
    seen: BTreeSet<FlowId>,
    differs: Vec<(FlowId, Difference)>,
    strays: Vec<FlowId>,
}

/// A difference of an entry.
#[derive(Clone, Copy, Debug)]
enum Difference {
    Altered,
    Is(EntryState),
}

impl Flows {
    /// Starts a comparison if our root differs from the agent's.
    pub(crate) fn compare(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let (now, until) = (turn.now, turn.now + ANSWER_WITHIN);
        let Some(device) = self.get_mut(key) else { return };
        let ours = device.table.sums().root();
        let theirs = device.state.as_ref().map_or(0, |state| state.root);
        if ours == theirs {
            (device.odd, device.repairs) = (None, 0);
            device.undone = Undone::default();
            device.table.found_equal();
            if turn.site.is_restored() {
                let (device, difference) = (device.name.clone(), TableDifference::default());
                self.effect(Effect::Compared { device, difference });
            }
            return;
        }
        let tries_again = device.undone.is_due(now) && !turn.site.holds_table(&device.name);
        let is_known = device.odd == Some((theirs, ours)) && !tries_again;
        if is_known || device.comparing.as_ref().is_some_and(|it| it.until > now) {
            return;
        }
        device.tally.reconciliations += 1;
        if theirs == 0 {
            // The agent has no entries, so there is nothing to ask for.
            device.comparing = Some(Comparing {
                number: 0,
                until,
                theirs,
                buckets: all_buckets(),
                seen: BTreeSet::new(),
                differs: Vec::new(),
                strays: Vec::new(),
            });
            return self.compared(turn, key);
        }
        let number = self.next_question();
        let Some(device) = self.get_mut(key) else { return };
        device.comparing = Some(Comparing {
            number,
            until,
            theirs,
            buckets: BTreeSet::new(),
            seen: BTreeSet::new(),
            differs: Vec::new(),
            strays: Vec::new(),
        });
        let DeviceName { node, bridge } = device.name.clone();
        self.send(node, FlowDown::Ask { device: bridge, number, ask: FlowAsk::Buckets });
    }

    /// Drops repairs of a held table, queued or in flight: an operator must decide first.
    pub(crate) fn leave_repairs(&mut self, turn: &Turn<'_>, key: DeviceKey) {
        let Some(device) = self.get(key) else { return };
        if !turn.site.holds_table(&device.name) {
            return;
        }
        let has_repairs = |it: &InFlight| !it.strays.is_empty() || device.table.repairs_among(&it.ids) > 0;
        if device.in_flight.as_ref().is_some_and(has_repairs) {
            self.wait_again(key);
        }
        if self.get_mut(key).is_some_and(|device| device.table.leave_repairs()) {
            self.device_changed(key);
        }
    }

    pub(crate) fn buckets_told(&mut self, key: DeviceKey, number: u64, sums: &[u64]) {
        let Some(device) = self.get_mut(key) else { return };
        let ours = device.table.sums();
        let Some(comparing) = device.comparing.as_mut().filter(|it| it.number == number) else { return };
        if sums.len() != BUCKETS {
            device.comparing = None;
            return;
        }
        let differing =
            (0u16..).zip(ours.all().iter().zip(sums)).filter(|(_, (ours, theirs))| ours != theirs);
        comparing.buckets = differing.map(|(bucket, _)| bucket).collect();
        comparing.theirs = device.state.as_ref().map_or(0, |state| state.root);
        let buckets: Vec<u16> = comparing.buckets.iter().copied().collect();
        if buckets.is_empty() {
            device.comparing = None; // equal by now
            return;
        }
        let DeviceName { node, bridge } = device.name.clone();
        self.send(node, FlowDown::Ask { device: bridge, number, ask: FlowAsk::Entries(buckets) });
    }

    pub(crate) fn entries_told(
        &mut self,
        turn: &mut Turn<'_>,
        key: DeviceKey,
        number: u64,
        entries: Vec<(FlowId, u64, EntryState)>,
        last: bool,
    ) {
        let Some(device) = self.get_mut(key) else { return };
        let Some(comparing) = device.comparing.as_mut().filter(|it| it.number == number) else { return };
        comparing.until = turn.now + ANSWER_WITHIN;
        let left = turn.site.left_rules(&device.name);
        for (id, digest, state) in entries {
            let asked = u16::try_from(bucket_of(id)).is_ok_and(|bucket| comparing.buckets.contains(&bucket));
            if !asked {
                continue;
            }
            let Some(kept) = device.table.get(id).filter(|_| device.table.wants(id)) else {
                if comparing.strays.len() < STRAYS_MAX && !left.is_some_and(|left| left.contains(&id)) {
                    comparing.strays.push(id);
                }
                continue;
            };
            if !comparing.seen.insert(id) {
                continue;
            }
            if kept.digest != digest {
                comparing.differs.push((id, Difference::Altered));
            } else if marked(kept.mark) != state {
                comparing.differs.push((id, Difference::Is(state)));
            }
        }
        if last {
            self.compared(turn, key);
        }
    }

    /// Records or sends the differences, once all are known.
    fn compared(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let now = turn.now;
        let Some(device) = self.get_mut(key) else { return };
        let Some(mut comparing) = device.comparing.take() else { return };
        if device.in_flight.is_some() || device.table.waits() {
            return; // a write came in between: the next comparison follows it
        }
        let said = device.state.as_ref().map(FlowState::named_reason).unwrap_or_default();
        let wrong: Arc<str> =
            if said.is_empty() { "the device cannot correct it at present".into() } else { said.into() };
        let lost: Arc<str> = "the device had lost it".into();
        let altered: Arc<str> = "the device had another in its place".into();
        let table = &mut device.table;
        let is_missing = |id: &FlowId| {
            let bucket = u16::try_from(bucket_of(*id)).unwrap_or(u16::MAX);
            comparing.buckets.contains(&bucket) && !comparing.seen.contains(id) && table.wants(*id)
        };
        let mut missing: Vec<FlowId> = table.iter().map(|(id, _)| id).filter(is_missing).collect();
        if let Some(left) = turn.site.left_rules(&device.name) {
            missing.retain(|id| !left.contains(id));
            let is_left = |(id, differs): &(FlowId, Difference)| {
                matches!(differs, Difference::Altered) && left.contains(id)
            };
            comparing.differs.retain(|differs| !is_left(differs));
        }
        let mut held = None;
        if turn.site.holds_table(&device.name) {
            let altered = comparing.differs.iter().filter(|(_, it)| matches!(it, Difference::Altered));
            held = Some(TableDifference {
                newer: altered.map(|(id, _)| *id).collect(),
                unknown: std::mem::take(&mut comparing.strays).into_iter().collect(),
                deleted: std::mem::take(&mut missing).into_iter().collect(),
            });
            comparing.differs.retain(|(_, it)| !matches!(it, Difference::Altered));
        }
        if !device.undone.is_idle() && held.is_none() {
            let altered_id =
                |(id, it): &(FlowId, Difference)| matches!(it, Difference::Altered).then_some(*id);
            let altered = comparing.differs.iter().filter_map(altered_id);
            let repairs = missing.iter().chain(&comparing.strays).copied().chain(altered).collect();
            let released = device.undone.release(now, &repairs);
            missing.retain(|id| released.contains(id));
            comparing.strays.retain(|id| released.contains(id));
            comparing.differs.retain(|it| altered_id(it).is_none_or(|id| released.contains(&id)));
        }
        let next_try = device.undone.next().filter(|next| *next > now);
        let found = !missing.is_empty() || !comparing.differs.is_empty() || !comparing.strays.is_empty();
        let mut repaired = missing.len() + comparing.strays.len();
        comparing.strays.into_iter().for_each(|id| table.stray(id));
        for id in missing {
            // An expired entry is not put again because the agent forgot that it expired.
            match table.get(id).map(|kept| kept.mark) {
                Some(FlowMark::Expired) => table.see(id, FlowMark::Gone, None),
                _ => table.again(id, &lost),
            }
        }
        for (id, difference) in comparing.differs {
            match difference {
                Difference::Altered => table.again(id, &altered),
                Difference::Is(EntryState::Expired) => table.see(id, FlowMark::Expired, None),
                Difference::Is(EntryState::Present) => table.see(id, FlowMark::None, None),
                Difference::Is(EntryState::Wrong) => table.see(id, FlowMark::Wrong, Some(wrong.clone())),
            }
            repaired += usize::from(!matches!(difference, Difference::Is(_)));
        }
        device.tally.repaired += repaired as u64;
        next_try.into_iter().for_each(|next| self.set_timer(next, key));
        let Some(device) = self.get_mut(key) else { return };
        let name = device.name.clone();
        let roots = (device.state.as_ref().map_or(0, |state| state.root), device.table.sums().root());
        if !found && comparing.theirs == roots.0 {
            device.odd = Some(roots);
        }
        if let Some(difference) = held {
            self.effect(Effect::Compared { device: name.clone(), difference });
        }
        if !found {
            if let Some(device) = self.get_mut(key).filter(|device| !device.undone.is_idle()) {
                device.repairs = 0;
            }
            return match comparing.theirs == roots.0 {
                true => self.effect(Effect::Told(name.node)),
                // The compared part is equal by now, and another part differs.
                false => self.pump(turn, key),
            };
        }
        self.touched(key);
        let Some(device) = self.get_mut(key) else { return };
        device.repairs = device.repairs.saturating_add(1);
        if device.repairs > 2 {
            let delay = AGAIN_FIRST.saturating_mul(1 << (device.repairs - 3).min(16)).min(AGAIN_MAX);
            device.not_before = Some(now + delay);
            self.set_timer(now + delay, key);
        }
        self.pump(turn, key);
    }

    /// Whether all tables of a node were compared with its devices.
    pub fn is_compared(&self, node: &NodeId) -> bool {
        self.of_node(node).into_iter().filter_map(|key| self.get(key)).all(|device| {
            let theirs = device.state.as_ref().map_or(0, |state| state.root);
            let ours = device.table.sums().root();
            device.in_flight.is_none()
                && !device.table.waits()
                && (theirs == ours || device.odd == Some((theirs, ours)))
        })
    }

    /// Whether a comparison of a table of the node is under way.
    pub fn is_comparing(&self, node: &NodeId) -> bool {
        self.of_node(node)
            .into_iter()
            .filter_map(|key| self.get(key))
            .any(|device| device.comparing.is_some())
    }

    /// Lets a node's tables be compared again with its next report.
    pub fn compare_anew(&mut self, node: &NodeId) {
        for key in self.of_node(node) {
            if let Some(device) = self.get_mut(key) {
                device.odd = None;
            }
        }
    }

    /// Compares a table again now, because more of it may be corrected.
    pub fn compare_now(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        if let Some(device) = self.get_mut(key) {
            (device.odd, device.repairs) = (None, 0);
            device.undone.hurry(turn.now);
        }
        self.pump(turn, key);
    }
}

fn marked(mark: FlowMark) -> EntryState {
    match mark {
        FlowMark::None | FlowMark::Again | FlowMark::Failed => EntryState::Present,
        FlowMark::Expired | FlowMark::Gone => EntryState::Expired,
        FlowMark::Wrong => EntryState::Wrong,
    }
}

fn all_buckets() -> BTreeSet<u16> {
    (0..u16::try_from(BUCKETS).unwrap_or(u16::MAX)).collect()
}
