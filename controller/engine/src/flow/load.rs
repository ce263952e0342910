//! Tables after a restart: as the store has them. Of a batch that was out, its agent says how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::FlowId;
use muster_template::Desired;

use super::batch::CONFIRM_TIMEOUT;
use super::device::{DeviceKey, InFlight, Target};
use super::entry::Owner;
use super::forget::Forgotten;
use super::operation::Operation;
use super::record::FlowSnapshot;
use crate::engine::Engine;
use crate::record::Status;
use crate::resource::Slot;

impl Engine {
    /// Before anything of the stacks is taken up.
    pub(crate) fn load_flows(&mut self, snapshot: FlowSnapshot) {
        let FlowSnapshot { devices, entries, operations, parts, forgotten, highest } = snapshot;
        let mut sent = BTreeMap::new();
        for (number, record) in devices {
            let node = self.nodes.key(&record.node);
            let key = self.flows.insert(Some(number), node, record.bridge);
            let Some(device) = self.flows.get_mut(key) else { continue };
            device.table.load_numbers(record.serial, record.settled);
            device.foreign = record.foreign;
            if let Some((generation, serial)) = record.sent {
                self.rise_above(generation);
                sent.insert(key, (generation, serial));
            }
        }
        for ((number, _), record) in entries {
            if let Some(device) = self.flows.get_mut(DeviceKey(number)) {
                device.table.load(record);
                self.flows.entries += 1;
            }
        }
        for (key, (generation, serial)) in sent {
            let Some(device) = self.flows.get_mut(key) else { continue };
            // Those of later writes are not settled by it, whatever is said of them.
            let ids: Vec<FlowId> = device.table.waiting().to_vec();
            let special = ids.clone();
            device.in_flight = Some(InFlight {
                generation,
                serial,
                ids,
                special,
                with_strays: false,
                batch: None,
                stored: None,
                connection: None,
                sent_at: self.now,
            });
        }
        for ((node, bridge), generation) in forgotten {
            self.rise_above(generation);
            let forgotten = Forgotten { generation, said: None };
            self.flows.forgotten.entry(self.nodes.key(&node)).or_default().insert(bridge, forgotten);
        }
        self.flows.next_operation = highest;
        for (id, (record, stages)) in operations {
            let ended = record.status != Status::InProgress;
            let operation = Operation {
                action: record.action,
                status: record.status,
                stage: record.stage as usize,
                stages: if ended { Arc::default() } else { stages },
                stage_count: record.stages as usize,
                done: record.done,
                total: record.total,
                confirm: record.confirm_timeout,
                open: Default::default(),
                errors: record.errors,
            };
            self.flows.operations.insert(id, operation);
            if ended {
                self.flows.ended.push_back(id);
            }
        }
        let mut unguarded = BTreeSet::new();
        for ((id, number), part) in parts {
            let key = DeviceKey(number);
            let Some(operation) = self.flows.operations.get_mut(&id) else { continue };
            let confirm = operation.confirm;
            operation.open.insert(key);
            let Some(device) = self.flows.get_mut(key) else { continue };
            device.waiters.entry(part.serial).or_default().push(Target::Operation(id, part.count));
            device.guards.extend(confirm.map(|seconds| (part.serial, seconds)));
            if confirm.is_none() {
                unguarded.insert((key, part.serial));
            }
        }
        self.await_flow_rows(&mut unguarded);
        self.guard_the_unknown(&unguarded);
        let open: Vec<u64> = self.flows.operations.keys().copied().collect();
        open.into_iter().for_each(|id| self.stage_ends(id));
    }

    /// A job of a row that was out waits for its write as before, guarded as before: else the job could be taken back
    /// while its agent has the write, or the write be sent again without its guard.
    fn await_flow_rows(&mut self, unguarded: &mut BTreeSet<(DeviceKey, u64)>) {
        let of_flows = |slot: &Slot| {
            let (slot, row) = (*slot, self.rows.get(*slot)?);
            let is_out = row.is_sent() && !row.is_asked();
            let spec = row.spec.as_ref().filter(|spec| is_out && spec.is_flows())?;
            let Desired::Flows(set) = spec.unpack() else { return None };
            Some((set, Owner(row.id), Target::Row(slot, row.generation, row.attempt)))
        };
        let rows: Vec<_> = self.by_physical.values().filter_map(of_flows).collect();
        for (set, owner, target) in rows {
            let node = self.nodes.find(&set.device.node);
            let key = node.and_then(|node| self.flows.find(node, &set.device.bridge));
            let Some((key, device)) = key.and_then(|key| Some((key, self.flows.get_mut(key)?))) else {
                continue;
            };
            let table = &device.table;
            let writes = table.owned(owner).filter_map(|id| table.get(id)).map(|kept| kept.serial);
            let Some(serial) = writes.max().filter(|serial| *serial > table.settled()) else { continue };
            device.waiters.entry(serial).or_default().push(target);
            device.guards.extend(set.confirm_timeout.map(|seconds| (serial, seconds)));
            if set.confirm_timeout.is_none() {
                unguarded.insert((key, serial));
            }
        }
    }

    /// What waits, and nobody waits for any more, is guarded all the same: whether it was asked to be is not known. So is
    /// what comes back where a newer write fails.
    fn guard_the_unknown(&mut self, unguarded: &BTreeSet<(DeviceKey, u64)>) {
        let keys: Vec<DeviceKey> = self.flows.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(device) = self.flows.get_mut(key) else { continue };
            let settled = device.table.settled();
            let waiting = device.table.waiting().iter().filter_map(|id| device.table.get(*id));
            let writes = waiting.flat_map(|kept| kept.open_writes(settled)).map(|write| write.serial);
            let unknown = writes.filter(|serial| !unguarded.contains(&(key, *serial)));
            for serial in unknown.collect::<BTreeSet<_>>() {
                device.guards.entry(serial).or_insert(CONFIRM_TIMEOUT);
            }
        }
    }
}
