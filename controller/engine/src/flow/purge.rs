//! Entries that operators take off a device: by their ids, all of them, or the table alone.
//!
//! Absent on purpose: purging because a device or a node is away. What is not there may come back, and is compared then.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_shared::model::flow::{DeviceName, FlowDown, FlowId};

use super::device::{DeviceKey, Target};
use super::entry::{Kept, Owner};
use super::operation::{FlowAction, FlowOp, FlowWrite, Operation};
use super::record::FlowChange;
use crate::engine::Engine;
use crate::record::{Change, Status};
use crate::request::{Answer, Refusal};

impl Engine {
    /// Takes entries off a device by their ids.
    pub(crate) fn delete_flows(
        &mut self,
        device: DeviceName,
        ids: Vec<FlowId>,
        confirm: Option<u32>,
    ) -> Result<Answer, Refusal> {
        let key = self.known_device(&device)?;
        let Some(known) = self.flows.get(key) else { return Ok(Answer::Done) };
        if let Some(id) = ids.iter().find(|id| known.table.get(**id).is_none()) {
            return Err(Refusal::NotFound(format!(
                "device '{device}' has no rule {id}: see 'muster flow list {device}'"
            )));
        }
        let ops = ids.into_iter().collect::<BTreeSet<_>>().into_iter().map(FlowOp::Remove).collect();
        self.begin_flows(FlowAction::Delete, vec![vec![FlowWrite { device, ops }]], confirm)
    }

    /// Takes all that operators own off a device; `forget`: its table alone, what is on the device is left there.
    pub(crate) fn purge_flows(
        &mut self,
        device: DeviceName,
        forget: bool,
        confirm: Option<u32>,
    ) -> Result<Answer, Refusal> {
        let key = self.known_device(&device)?;
        let Some(known) = self.flows.get(key) else { return Ok(Answer::Done) };
        if forget {
            let owned = known.table.iter().find(|(_, kept)| kept.owner != Owner::OPERATOR);
            if let Some((id, kept)) = owned {
                return Err(Refusal::Conflict(format!(
                    "rule {id} on {device} belongs to {}: a table is forgotten when no stack has rules in it",
                    self.owner_text(kept.owner)
                )));
            }
            return self.forget_device(key, &device);
        }
        let is_theirs = |kept: &Kept| kept.owner == Owner::OPERATOR && !kept.removing;
        let ids = known.table.iter().filter(|(_, kept)| is_theirs(kept)).map(|(id, _)| id);
        let ids: BTreeSet<FlowId> = ids.collect();
        let ops = ids.into_iter().map(FlowOp::Remove).collect();
        self.begin_flows(FlowAction::Purge, vec![vec![FlowWrite { device, ops }]], confirm)
    }

    fn forget_device(&mut self, key: DeviceKey, name: &DeviceName) -> Result<Answer, Refusal> {
        let Some(device) = self.flows.get_mut(key) else { return Ok(Answer::Done) };
        let (node, bridge, rules) = (device.node, device.bridge.clone(), device.table.len() as u64);
        let waiters: Vec<Target> = std::mem::take(&mut device.waiters).into_values().flatten().collect();
        let generation = self.next_generation();
        self.send_flow(node, FlowDown::Forget { device: bridge, generation });
        for target in waiters {
            self.target_ended(key, target, Err((None, "its table was purged", true)));
        }
        self.end_asks(key);
        self.flows.remove(key);
        self.change(Change::Flow(FlowChange::DeviceRemoved(key.0)));
        let warnings = if self.nodes[node].ready {
            Vec::new()
        } else {
            vec![format!(
                "node {} is away: should its agent come back with rules of {name}, they are taken away",
                name.node
            )]
        };
        self.flows.next_operation += 1;
        let id = self.flows.next_operation;
        self.flows.operations.insert(
            id,
            Operation {
                action: FlowAction::Purge,
                status: Status::InProgress,
                stage: 0,
                stages: Arc::default(),
                stage_count: 1,
                done: rules,
                total: rules,
                confirm: None,
                open: BTreeSet::new(),
                errors: Vec::new(),
            },
        );
        self.end_operation(id, Status::Complete);
        Ok(Answer::Flows { operation: id, rules, devices: 1, warnings })
    }
}
