//! Writes of intents. A rule of another owner is neither replaced nor removed.
//!
//! Absent: who is refused, and with which words (`owner.rs`), and the rules of an intent
//! (`controller/intent/src/compile.rs`).

use std::collections::BTreeMap;

use muster_intent::manager::{IntentNo, Op, TableEntry, Token};
use muster_shared::model::flow::{CONFIRM_TIMEOUT, DeviceName, FlowId, Packed};

use crate::device::{DEVICE_ENTRIES_MAX, DeviceKey, ENTRIES_MAX, Flows, Target};
use crate::operation::FlowOp;
use crate::owner::{Asker, Owner, OwnerCheck};
use crate::record::FlowMark;
use crate::site::Site;

/// An open write of an intent.
#[derive(Debug, Default)]
pub struct OpenWrite {
    /// Entries that it puts and removes.
    pub ops: Vec<Op>,
    /// Entries that the device may have until it ends.
    pub before: Vec<Packed>,
}

/// Entries of intents in tables after a start.
#[derive(Debug, Default)]
pub struct IntentWrites {
    /// Entries on devices, and entries being put.
    pub placed: BTreeMap<IntentNo, Vec<(DeviceName, Packed)>>,
    /// Entries that devices refused.
    pub refused: BTreeMap<IntentNo, Vec<(DeviceName, Packed)>>,
    /// Open writes by intent, device and serial.
    pub open: BTreeMap<(IntentNo, DeviceKey, u64), OpenWrite>,
}

impl Flows {
    /// The intent's entry in a table with the identity of `packed`.
    pub fn placed(&self, no: IntentNo, device: &DeviceName, packed: &Packed) -> TableEntry {
        let entry = packed.unpack();
        let table = self.find(device).and_then(|key| self.get(key)).map(|device| &device.table);
        let kept = table.and_then(|table| table.get(entry.id(device)));
        let kept = kept.filter(|kept| kept.owner == Owner::intent(no) && !kept.removing);
        match kept.filter(|kept| kept.packed.unpack().has_place_of(&entry)) {
            None => TableEntry::Nothing,
            Some(kept) if kept.mark == FlowMark::Failed => TableEntry::Failed(kept.packed.clone()),
            Some(kept) => TableEntry::Entry(kept.packed.clone()),
        }
    }

    /// Gives a write of an intent to the table of its device. The caller must then pump the device.
    /// `None`: there was nothing to do.
    ///
    /// # Errors
    /// Another owner has a rule, or there is no room. The text is for operators.
    pub fn write_intent(
        &mut self,
        site: &dyn Site,
        token: Token,
        intent: IntentNo,
        device: &DeviceName,
        ops: &[Op],
    ) -> Result<Option<DeviceKey>, String> {
        let owner = Owner::intent(intent);
        let key = self.device(device).map_err(|refused| refused.to_string())?;
        let check = OwnerCheck::new(site, device);
        let mut flow_ops = Vec::with_capacity(ops.len());
        for op in ops {
            let id = op.packed().unpack().id(device);
            match op {
                Op::Put(packed) => {
                    if let Some(why) = self.why_not(&check, key, id, packed, intent) {
                        return Err(why);
                    }
                    flow_ops.push(FlowOp::Put { id, digest: packed.digest(), packed: packed.clone() });
                }
                Op::Remove(_) => {
                    let kept = self.get(key).and_then(|device| device.table.get(id));
                    if kept.is_some_and(|kept| kept.owner == owner) {
                        flow_ops.push(FlowOp::Remove(id));
                    }
                }
            }
        }
        if let Some(why) = self.no_room(key, flow_ops.len()) {
            return Err(why);
        }
        let serial = self.write(site, key, flow_ops, owner, Some(CONFIRM_TIMEOUT));
        let Some(device) = self.get_mut(key) else { return Ok(None) };
        if serial <= device.table.settled() {
            return Ok(None);
        }
        device.waiters.entry(serial).or_default().push(Target::Intent(token));
        Ok(Some(key))
    }

    /// The reason why an intent cannot have a rule.
    fn why_not(
        &self,
        check: &OwnerCheck<'_>,
        key: DeviceKey,
        id: FlowId,
        packed: &Packed,
        intent: IntentNo,
    ) -> Option<String> {
        let kept = self.get(key)?.table.get(id);
        let refusal = check.refusal(id, kept, Asker::Intent(intent));
        if refusal.is_some() {
            return refusal;
        }
        let collides = kept.is_some_and(|kept| {
            kept.packed != *packed && !kept.packed.unpack().has_place_of(&packed.unpack())
        });
        collides
            .then(|| format!("rule {id} has by chance the id of another: give the intent another priority"))
    }

    /// The reason why a device or the site has no room for `new` more entries.
    fn no_room(&self, key: DeviceKey, new: usize) -> Option<String> {
        let known = self.get(key).map_or(0, |device| device.table.len());
        if known + new > DEVICE_ENTRIES_MAX {
            return Some(format!("it would have {} rules: {DEVICE_ENTRIES_MAX} are allowed", known + new));
        }
        let all = self.entries + new;
        (all > ENTRIES_MAX).then(|| format!("the site would have {all} rules: {ENTRIES_MAX} are allowed"))
    }

    /// Entries and open writes of all intents.
    pub fn intent_writes(&self) -> IntentWrites {
        let mut found = IntentWrites::default();
        for (key, device) in self.iter() {
            for (owner, _) in device.table.owners() {
                let Some(no) = owner.as_intent() else { continue };
                for kept in device.table.owned(owner).filter_map(|id| device.table.get(id)) {
                    let entry = || (device.name.clone(), kept.packed.clone());
                    if kept.mark == FlowMark::Failed {
                        found.refused.entry(no).or_default().push(entry());
                    } else if !kept.removing {
                        found.placed.entry(no).or_default().push(entry());
                    }
                }
            }
            // All open writes count, even if a newer one is of another owner: each may fail by
            // itself.
            let waiting = device.table.waiting().iter().filter_map(|id| device.table.get(*id));
            for write in waiting.flat_map(|kept| kept.open_writes(device.table.settled())) {
                let Some(no) = write.owner.as_intent() else { continue };
                let packed = write.packed.clone();
                let OpenWrite { ops, before } = found.open.entry((no, key, write.serial)).or_default();
                ops.push(if write.removing { Op::Remove(packed) } else { Op::Put(packed) });
                before.extend(write.before().cloned());
            }
        }
        found
    }

    /// Lets an intent wait for a write that was open when the controller stopped.
    pub fn await_write(&mut self, key: DeviceKey, serial: u64, token: Token) {
        if let Some(device) = self.get_mut(key) {
            device.waiters.entry(serial).or_default().push(Target::Intent(token));
        }
    }
}
