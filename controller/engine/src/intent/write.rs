//! Writes of intents to flow tables. A rule that another owns is neither put over nor taken away.

use muster_intent::manager::{IntentNo, Lies, Op, Token};
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_shared::model::{Claim, ClaimKind};

use crate::engine::Engine;
use crate::flow::record::FlowMark;
use crate::flow::{DeviceKey, FlowOp, Owner, Table, Target};

/// Seconds after which a change that cut its node off is taken back.
const CONFIRM: u32 = 30;

/// What a table has in the place of an entry, as far as it is this intent's.
pub(super) fn lies(table: &Table, no: IntentNo, device: &DeviceName, packed: &Packed) -> Lies {
    let entry = packed.unpack();
    let kept = table.get(entry.id(device)).filter(|kept| kept.owner == Owner::intent(no) && !kept.removing);
    match kept.filter(|kept| kept.packed.unpack().has_place_of(&entry)) {
        None => Lies::Nothing,
        Some(kept) if kept.mark == FlowMark::Failed => Lies::Failed(kept.packed.clone()),
        Some(kept) => Lies::Entry(kept.packed.clone()),
    }
}

impl Engine {
    /// Gives a write to the table of its device, which is to be pumped then.
    pub(super) fn write_intent(
        &mut self,
        token: Token,
        intent: IntentNo,
        device: &DeviceName,
        ops: &[Op],
    ) -> Option<DeviceKey> {
        let owner = Owner::intent(intent);
        let end = |engine: &mut Self, end: Result<(), String>| {
            engine.intents.ended.push((token, end.map_err(String::into_boxed_str)));
            None
        };
        let key = match self.device(device) {
            Ok(key) => key,
            Err(refusal) => return end(self, Err(refusal.to_string())),
        };
        let mut flow_ops = Vec::with_capacity(ops.len());
        for op in ops {
            let id = op.packed().unpack().id(device);
            match op {
                Op::Put(packed) => match self.refused(key, id, packed, owner) {
                    Some(why) => return end(self, Err(why)),
                    None => {
                        flow_ops.push(FlowOp::Put { id, digest: packed.digest(), packed: packed.clone() })
                    }
                },
                Op::Remove(_) => {
                    let kept = self.flows.get(key).and_then(|device| device.table.get(id));
                    if kept.is_some_and(|kept| kept.owner == owner) {
                        flow_ops.push(FlowOp::Remove(id));
                    }
                }
            }
        }
        if let Some(why) = self.no_room(key, flow_ops.len()) {
            return end(self, Err(why));
        }
        let serial = self.write_flows(key, flow_ops, owner, Some(CONFIRM));
        let device = self.flows.get_mut(key)?;
        if serial <= device.table.settled() {
            return end(self, Ok(()));
        }
        device.waiters.entry(serial).or_default().push(Target::Intent(token));
        Some(key)
    }

    /// Why a rule cannot be this owner's.
    fn refused(&self, key: DeviceKey, id: FlowId, packed: &Packed, owner: Owner) -> Option<String> {
        let device = self.flows.get(key)?;
        let claim = || {
            let claim = Claim { kind: ClaimKind::Flow, key: format!("{} {id}", device.bridge) };
            let slot = self.claims.owner(device.node, &claim)?;
            Some(Owner(self.rows[slot].id))
        };
        let kept = device.table.get(id);
        // One that an intent takes back may come back, where its bridge keeps it.
        let held = kept.filter(|kept| !kept.removing || kept.owner.as_intent().is_some());
        let held = held.map(|kept| kept.owner).filter(|held| *held != owner);
        if let Some(other) =
            held.or_else(|| self.claims.has_kind(device.node, ClaimKind::Flow).then(claim)?)
        {
            return Some(format!(
                "rule {id} belongs to {}: one rule has one owner; give the intent another priority or selector",
                self.owner_text(other)
            ));
        }
        let collides = kept.is_some_and(|kept| {
            kept.packed != *packed && !kept.packed.unpack().has_place_of(&packed.unpack())
        });
        collides
            .then(|| format!("rule {id} has by chance the id of another: give the intent another priority"))
    }
}
