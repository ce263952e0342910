//! Tables after a restart, from the store. The agent reports the outcome of a batch that was out.
//!
//! Absent: how the store is read (`controller/src/store/flow.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::{CONFIRM_TIMEOUT, DeviceName, FlowId};
use muster_template::FlowSet;

use crate::device::{DeviceKey, Flows, InFlight, Target};
use crate::effect::Job;
use crate::forget::Forgotten;
use crate::operation::{Operation, OperationStatus};
use crate::record::FlowSnapshot;
use crate::site::Turn;

impl Flows {
    /// Loads the store. `jobs` are jobs of resources that were out, each with its entries.
    pub fn load(&mut self, turn: &mut Turn<'_>, snapshot: FlowSnapshot, jobs: Vec<(Job, FlowSet)>) {
        let FlowSnapshot { devices, entries, operations, parts, forgotten, applications, highest } = snapshot;
        self.applications = Arc::new(applications);
        let mut sent = BTreeMap::new();
        for (number, record) in devices {
            let name = DeviceName { node: record.node, bridge: record.bridge };
            let key = self.insert(Some(number), name);
            let Some(device) = self.get_mut(key) else { continue };
            device.table.load_numbers(record.serial, record.settled);
            device.foreign = record.foreign;
            if let Some((generation, serial)) = record.sent {
                turn.generations.rise_above(generation);
                sent.insert(key, (generation, serial));
            }
        }
        for ((number, _), record) in entries {
            if let Some(device) = self.get_mut(DeviceKey(number)) {
                device.table.load(record);
                self.entries += 1;
            }
        }
        for (key, (generation, serial)) in sent {
            let Some(device) = self.get_mut(key) else { continue };
            // Entries of later writes are not settled by the batch.
            let ids: Vec<FlowId> = device.table.waiting().to_vec();
            let special = ids.clone();
            device.in_flight = Some(InFlight {
                generation,
                serial,
                ids,
                special,
                strays: Vec::new(),
                batch: None,
                stored: None,
                connection: None,
                sent_at: turn.now,
            });
        }
        for ((node, bridge), generation) in forgotten {
            turn.generations.rise_above(generation);
            let forgotten = Forgotten { generation, said: None };
            self.peers.entry(node).or_default().forgotten.insert(bridge, forgotten);
        }
        self.next_operation = highest;
        for (id, (record, stages)) in operations {
            let ended = record.status != OperationStatus::InProgress;
            let operation = Operation {
                status: record.status,
                stage: record.stage as usize,
                stages: if ended { Arc::default() } else { stages },
                stage_count: record.stages as usize,
                done: record.done,
                total: record.total,
                errors: record.errors,
                ..Operation::new(record.action, record.confirm_timeout)
            };
            self.operations.insert(id, operation);
            if ended {
                self.ended.push_back(id);
            }
        }
        let mut unguarded = BTreeSet::new();
        for ((id, number), part) in parts {
            let key = DeviceKey(number);
            let Some(operation) = self.operations.get_mut(&id) else { continue };
            let confirm = operation.confirm;
            operation.open.insert(key);
            let Some(device) = self.get_mut(key) else { continue };
            device.waiters.entry(part.serial).or_default().push(Target::Operation(id, part.count));
            device.guards.extend(confirm.map(|seconds| (part.serial, seconds)));
            if confirm.is_none() {
                unguarded.insert((key, part.serial));
            }
        }
        self.await_jobs(jobs, &mut unguarded);
        self.guard_the_unknown(&unguarded);
        let open: Vec<u64> = self.operations.keys().copied().collect();
        open.into_iter().for_each(|id| self.stage_ends(turn, id));
    }

    /// Lets a job of a resource that was out wait for its write, with the same guard. Otherwise the
    /// job could be withdrawn while its agent has the write, or the write be sent again without its guard.
    fn await_jobs(&mut self, jobs: Vec<(Job, FlowSet)>, unguarded: &mut BTreeSet<(DeviceKey, u64)>) {
        for (job, set) in jobs {
            let key = self.find(&set.device);
            let Some((key, device)) = key.and_then(|key| Some((key, self.get_mut(key)?))) else {
                continue;
            };
            let table = &device.table;
            let writes = table.owned(job.owner).filter_map(|id| table.get(id)).map(|kept| kept.serial);
            let Some(serial) = writes.max().filter(|serial| *serial > table.settled()) else { continue };
            device.waiters.entry(serial).or_default().push(Target::Job(job));
            device.guards.extend(set.confirm_timeout.map(|seconds| (serial, seconds)));
            if set.confirm_timeout.is_none() {
                unguarded.insert((key, serial));
            }
        }
    }

    /// Guards open writes without a waiter, because it is not known whether they were guarded. This
    /// includes versions that come back if a newer write fails.
    fn guard_the_unknown(&mut self, unguarded: &BTreeSet<(DeviceKey, u64)>) {
        let keys: Vec<DeviceKey> = self.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(device) = self.get_mut(key) else { continue };
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
