//! Batches: queued entries go to the agent, one batch of a device at a time. The outcome settles or
//! fails the writes in it. A refused batch is retried, in the end with fewer writes. A batch that
//! removes or repairs entries is guarded.
//!
//! Absent: how the agent applies a batch (`agent/core/src/flow/batch.rs`), and repairs that it
//! undoes (`undone.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::NodeId;
use muster_shared::model::flow::{
    CONFIRM_TIMEOUT, FlowBatch, FlowDown, FlowId, FlowRefusal, OPS_INLINE_MAX, Ops,
};
use muster_shared::model::{Content, ContentDigest};
use muster_shared::wire::CHUNK_MAX;

use crate::device::{DeviceKey, Flows, InFlight, Target};
use crate::effect::{Effect, Failure};
use crate::record::{FlowChange, FlowMark};
use crate::site::Turn;
use crate::table::Table;

/// The delay between retries of a batch that was refused for now. It doubles from the first to the longest.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Time after which a batch is sent again if the agent has not answered: the message may be lost.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// Entries named if one of them caused a refusal and it is not known which. They fit a readable line.
const SUSPECTS_NAMED: usize = 10;

impl Flows {
    /// Sends the next batch, or compares, if the agent is connected and has no batch of the device.
    pub fn pump(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let Some(device) = self.get(key) else { return };
        let connection = self.peers.get(&device.name.node).and_then(|peer| peer.connection);
        if connection.is_none() || !device.heard {
            return;
        }
        match &device.in_flight {
            Some(flight) if flight.connection == connection && flight.sent_at + SAID_AGAIN > turn.now => {}
            Some(flight) if flight.batch.is_some() => self.send_batch(turn.now, key),
            // The batch is from before a start and no longer known, so a new one is made.
            Some(_) => {
                self.wait_again(key);
                self.pump(turn, key);
            }
            None if device.not_before.is_some_and(|at| at > turn.now) => {}
            None if device.table.waits() => self.make_batch(turn, key),
            None => self.compare(turn, key),
        }
    }

    fn make_batch(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let (generation, now) = (turn.generations.draw(), turn.now);
        let Some(device) = self.get_mut(key) else { return };
        let narrow = device.narrow_upto.and_then(|last| device.first_undecided(last));
        let upto = match narrow {
            Some(first) => device.table.closed(first.max(device.table.settled())),
            None => device.table.serial(),
        };
        if narrow.is_none() {
            device.narrow_upto = None;
        }
        if device.table.marked(FlowMark::Again) == 0 && !device.table.has_strays() {
            device.apart = None;
        }
        let mut ids = device.table.take_waiting(upto, device.apart);
        let strays = match device.apart {
            Some(_) if !ids.is_empty() => Vec::new(),
            most => device.table.take_strays(most.unwrap_or(usize::MAX)),
        };
        if ids.is_empty() && strays.is_empty() {
            // All entries that were written have been withdrawn.
            self.settle_device(turn, key, upto, &[]);
            return self.pump(turn, key);
        }
        if device.table.has_specials() {
            ids.sort_by_key(|id| device.table.get(*id).map(crate::entry::Kept::rank));
        }
        let mut ops = Ops::default();
        let mut special = Vec::new();
        for id in &ids {
            let Some(kept) = device.table.get(*id) else { continue };
            if kept.removing {
                ops.remove(*id);
            } else {
                ops.put(*id, &kept.packed);
            }
            if !kept.is_simple() {
                special.push(*id);
            }
        }
        strays.iter().for_each(|id| ops.remove(*id));
        let asked = device.guards.range(..=upto).map(|(_, seconds)| *seconds).max();
        let repairs = !strays.is_empty() || device.table.repairs_among(&ids) > 0;
        let is_guarded = repairs || ids.iter().any(|id| device.table.is_removing(*id));
        let confirm_timeout = asked.or(is_guarded.then_some(CONFIRM_TIMEOUT));
        let bytes = ops.into_bytes();
        let (ops, stored) = if bytes.len() > OPS_INLINE_MAX {
            let digest = ContentDigest::of(&bytes);
            (Content::Stored { digest, size: bytes.len() as u64 }, Some((digest, bytes.into())))
        } else {
            (Content::Inline(bytes), None)
        };
        let batch = FlowBatch { device: device.name.bridge.clone(), generation, confirm_timeout, ops };
        device.tally.batches += 1;
        device.comparing = None;
        device.in_flight = Some(InFlight {
            generation,
            serial: upto,
            ids,
            special,
            strays,
            batch: Some(batch),
            stored,
            connection: None,
            sent_at: now,
        });
        self.device_changed(key);
        self.send_batch(now, key);
    }

    fn send_batch(&mut self, now: MonoTime, key: DeviceKey) {
        let Some(node) = self.get(key).map(|device| device.name.node.clone()) else { return };
        let connection = self.peers.get(&node).and_then(|peer| peer.connection);
        let Some(device) = self.get_mut(key) else { return };
        let Some(flight) = &mut device.in_flight else { return };
        (flight.connection, flight.sent_at) = (connection, now);
        let batch = flight.batch.clone();
        // One timer for each device, however many batches there are until then.
        if device.said_again.is_none() {
            device.said_again = Some(now + SAID_AGAIN);
            self.set_timer(now + SAID_AGAIN, key);
        }
        if let Some(batch) = batch {
            self.send(node, FlowDown::Batch(batch));
        }
    }

    /// A piece of a batch that is at this node's agent, from this byte on. `None`: no batch has
    /// that digest.
    pub fn chunk(&self, node: &NodeId, digest: ContentDigest, offset: u64) -> Option<Vec<u8>> {
        let keys = self.peers.get(node)?.devices.values();
        let bytes = keys.into_iter().find_map(|key| {
            let (of, bytes) = self.get(*key)?.in_flight.as_ref()?.stored.as_ref()?;
            (*of == digest).then_some(bytes)
        })?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let upto = from.saturating_add(CHUNK_MAX).min(bytes.len());
        Some(bytes[from..upto].to_vec())
    }

    /// Queues the entries in flight again: they were not applied, or that is not known.
    pub(crate) fn wait_again(&mut self, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        if let Some(flight) = device.in_flight.take() {
            device.table.wait_again(&flight.ids);
            self.device_changed(key);
        }
    }

    /// The batch in flight was applied.
    pub(crate) fn batch_applied(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        let Some(flight) = device.in_flight.take() else { return };
        (device.tries, device.not_before) = (0, None);
        let repairs = repairs_of(&device.table, &flight);
        if !repairs.is_empty() {
            device.apart = device.apart.map(|most| most.saturating_mul(2));
            if device.undone.applied(turn.now, &repairs) {
                device.repairs = 0;
            }
        }
        // Entries of later writes were not in the batch.
        let is_applied = |id: &FlowId| device.table.get(*id).is_some_and(|kept| kept.serial <= flight.serial);
        if turn.site.heeds_applied(&device.name) {
            let rules = flight.ids.iter().copied().filter(is_applied).collect();
            let device = device.name.clone();
            self.effect(Effect::Applied { device, rules });
        }
        self.settle_device(turn, key, flight.serial, &flight.special);
    }

    fn settle_device(&mut self, turn: &mut Turn<'_>, key: DeviceKey, serial: u64, special: &[FlowId]) {
        let Some(device) = self.get_mut(key) else { return };
        let before = device.table.len();
        device.table.settle(serial, special);
        let gone = before - device.table.len();
        let later = device.waiters.split_off(&(serial + 1));
        let ended = std::mem::replace(&mut device.waiters, later);
        device.guards = device.guards.split_off(&(serial + 1));
        self.entries -= gone;
        if !special.is_empty() {
            self.change(FlowChange::Settled { device: key.0, serial });
        }
        self.device_changed(key);
        for target in ended.into_values().flatten() {
            self.target_ended(turn, key, target, Ok(()));
        }
    }

    /// The batch in flight was refused. The write of the entry at fault fails, and the others are
    /// sent again.
    pub(crate) fn batch_refused(&mut self, turn: &mut Turn<'_>, key: DeviceKey, refusal: &FlowRefusal) {
        let limit = self.limits.retries;
        let Some(device) = self.get_mut(key) else { return };
        let Some(flight) = device.in_flight.take() else { return };
        device.tally.refusals += 1;
        let settled = device.table.settled();
        let blamed = refusal.id.and_then(|id| device.table.write_of(id, flight.serial));
        let repairs = device.table.repairs_among(&flight.ids);
        let finally = refusal.permanent || device.tries >= limit;
        let mut open = BTreeSet::new();
        if finally {
            open.extend(device.table.undecided(&flight.ids, flight.serial));
            open.extend(device.waiters.range(..=flight.serial).map(|(serial, _)| *serial));
        }
        device.table.wait_again(&flight.ids);
        match (blamed, open.len()) {
            (Some(serial), _) if serial <= settled => self.repair_refused(turn.now, key, refusal, repairs),
            _ if !finally => self.try_later(turn.now, key),
            (Some(serial), _) => {
                device.tries = 0;
                self.fail_write(turn, key, serial, &flight.ids, refusal);
            }
            (None, 0) if refusal.permanent => self.repairs_undone(turn.now, key, &flight, refusal),
            (None, 0) => {
                // A single entry is at fault itself. Others are found by halving the batch.
                let alone = flight.ids.first().filter(|_| flight.ids.len() == 1);
                if let Some(id) = alone.filter(|id| device.table.wants(**id)) {
                    device.table.see(*id, FlowMark::Wrong, Some(refusal.reason.as_str().into()));
                }
                device.apart = Some((repairs / 2).max(1));
                self.try_later(turn.now, key);
            }
            // A write must not fail because of a repair. From now on repairs have batches of their own.
            (None, _) if repairs > 0 || !flight.strays.is_empty() => {
                (device.apart, device.tries) = (Some(repairs.max(1)), 0);
            }
            (None, count) if count == 1 || device.narrow_upto.is_some() => {
                device.tries = 0;
                // The newest goes first: its entries become what they were before it.
                for serial in open.iter().rev() {
                    self.fail_write(turn, key, *serial, &flight.ids, refusal);
                }
            }
            (None, _) => (device.narrow_upto, device.tries) = (Some(flight.serial), 0),
        }
        self.device_changed(key);
    }

    /// A repair of an entry without open writes was refused. The entry stays wrong until the next
    /// comparison. The other repairs go at once, but fewer at a time, because more may be at fault.
    fn repair_refused(&mut self, now: MonoTime, key: DeviceKey, refusal: &FlowRefusal, repairs: usize) {
        let Some(device) = self.get_mut(key) else { return };
        let is_repair = |id: &FlowId| device.table.get(*id).is_some_and(|kept| kept.mark == FlowMark::Again);
        match refusal.id.filter(is_repair) {
            Some(id) => {
                device.table.see(id, FlowMark::Wrong, Some(refusal.reason.as_str().into()));
                (device.apart, device.tries) = (Some((repairs / 2).max(1)), 0);
            }
            // The removal of a FAILED entry that the device has was refused.
            None => self.try_later(now, key),
        }
    }

    /// The agent undid repairs, and would do so again. See [`Undone`](crate::undone::Undone).
    fn repairs_undone(&mut self, now: MonoTime, key: DeviceKey, flight: &InFlight, refusal: &FlowRefusal) {
        let Some(device) = self.get_mut(key) else { return };
        let repairs = repairs_of(&device.table, flight);
        let (is_held, pause) = device.undone.undo(now, &repairs);
        // The search for an entry to blame goes on among these entries, even if others are written meanwhile.
        flight.strays.iter().filter(|_| !is_held).for_each(|id| device.table.stray(*id));
        // An entry to remove may be FAILED in the table, and stays so.
        for id in repairs.iter().filter(|_| is_held) {
            if device.table.wants(*id) {
                device.table.see(*id, FlowMark::Wrong, Some(refusal.reason.as_str().into()));
            }
        }
        device.apart = Some((repairs.len() / 2).max(1));
        (device.tries, device.not_before) = (0, Some(now + pause));
        let next = device.undone.next();
        [Some(now + pause), next].into_iter().flatten().for_each(|due| self.set_timer(due, key));
    }

    fn try_later(&mut self, now: MonoTime, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        let delay = BACKOFF_FIRST.saturating_mul(1 << device.tries.min(16)).min(BACKOFF_MAX);
        device.tries = device.tries.saturating_add(1);
        let due = now + delay;
        device.not_before = Some(due);
        self.set_timer(due, key);
    }

    /// Fails a write and whatever waits for it.
    fn fail_write(
        &mut self,
        turn: &mut Turn<'_>,
        key: DeviceKey,
        serial: u64,
        ids: &[FlowId],
        refusal: &FlowRefusal,
    ) {
        let Some(device) = self.get_mut(key) else { return };
        let reason: Arc<str> = refusal.reason.as_str().into();
        // Entries that a newer write changed are not in the batch, and must not go back to this write.
        let ids = [ids, device.table.waiting()].concat();
        let (blamed, told) = match refusal.id {
            Some(id) => (Some(id), refusal.reason.clone()),
            None => suspects(&refusal.reason, &device.table.of_write(serial, &ids)),
        };
        let before = device.table.len();
        // An entry that was refused together with another is not told that it is wrong itself.
        match blamed {
            Some(id) => {
                let shared: Arc<str> = format!("refused together with rule {id}: {reason}").into();
                device.table.fail(serial, &ids, Some(&shared));
                device.table.explain(id, &reason);
            }
            None => device.table.fail(serial, &ids, Some(&reason)),
        }
        // The refused removal of an entry that never existed leaves nothing.
        let gone = before - device.table.len();
        device.guards.remove(&serial);
        let ended = device.waiters.remove(&serial).unwrap_or_default();
        self.entries -= gone;
        self.device_changed(key);
        let failure = Failure { rule: blamed, reason: told, permanent: refusal.permanent };
        for target in ended {
            self.target_ended(turn, key, target, Err(failure.clone()));
        }
    }

    /// A write with a waiter has ended.
    pub(crate) fn target_ended(
        &mut self,
        turn: &mut Turn<'_>,
        key: DeviceKey,
        target: Target,
        ended: Result<(), Failure>,
    ) {
        match target {
            Target::Operation(id, count) => self.part_ended(turn, id, key, count, ended),
            Target::Job(job) => self.effect(Effect::JobEnded(job, ended)),
            Target::Intent(token) => self.effect(Effect::IntentEnded(token, ended)),
            Target::After(job) => self.effect(Effect::JobBegins(job)),
        }
    }

    /// Handles the time of [`Flows::next_due`].
    pub fn timeout(&mut self, turn: &mut Turn<'_>) {
        while let Some(key) = self.next_timer(turn.now) {
            self.device_due(turn, key);
        }
    }

    fn device_due(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let now = turn.now;
        let Some(device) = self.get_mut(key) else { return };
        device.not_before = device.not_before.filter(|at| *at > now);
        let again = device.said_again.take_if(|at| *at <= now);
        // The batch in flight may be younger than the timer that has run out.
        let due =
            device.in_flight.as_ref().filter(|_| again.is_some()).map(|flight| flight.sent_at + SAID_AGAIN);
        if let Some(due) = due.filter(|due| *due > now) {
            device.said_again = Some(due);
            self.set_timer(due, key);
        }
        self.questions_due(now, key);
        self.pump(turn, key);
    }
}

/// The repairs in a batch: entries that the device lost or changed, and entries to remove that no
/// table has.
fn repairs_of(table: &Table, flight: &InFlight) -> Vec<FlowId> {
    table.repairs(&flight.ids).chain(flight.strays.iter().copied()).collect()
}

/// The entry that a refusal without an id is about: the only one of its write. Otherwise a text
/// that names some.
fn suspects(reason: &str, ids: &[FlowId]) -> (Option<FlowId>, String) {
    match ids {
        [] => (None, reason.to_owned()),
        [id] => (Some(*id), reason.to_owned()),
        ids => {
            let named: Vec<String> = ids.iter().take(SUSPECTS_NAMED).map(ToString::to_string).collect();
            let more = match ids.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = named.join(", ");
            (None, format!("{reason}; which of these it is is not known: {named}{more}"))
        }
    }
}
