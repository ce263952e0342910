//! Tables after a restart: as the store has them. Of a batch that was out, its agent says how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_shared::model::flow::FlowId;

use super::device::{DeviceKey, InFlight, Target};
use super::operation::Operation;
use super::record::FlowSnapshot;
use crate::engine::Engine;
use crate::record::Status;

impl Engine {
    /// Before anything of the stacks is taken up.
    pub(crate) fn load_flows(&mut self, snapshot: FlowSnapshot) {
        let FlowSnapshot { devices, entries, operations, parts, highest } = snapshot;
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
                batch: None,
                stored: None,
                connection: None,
                sent_at: self.now,
            });
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
        for ((id, number), part) in parts {
            let key = DeviceKey(number);
            let Some(operation) = self.flows.operations.get_mut(&id) else { continue };
            let confirm = operation.confirm;
            operation.open.insert(key);
            let Some(device) = self.flows.get_mut(key) else { continue };
            device.waiters.entry(part.serial).or_default().push(Target::Operation(id, part.count));
            device.guards.extend(confirm.map(|seconds| (part.serial, seconds)));
        }
        let open: Vec<u64> = self.flows.operations.keys().copied().collect();
        open.into_iter().for_each(|id| self.stage_ends(id));
    }
}
