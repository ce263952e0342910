//! Entries that operators take off a device: by their ids, all of them, or the table alone.
//!
//! Absent on purpose: purging because a device or a node is away. What is not there may come back, and is compared then.

use std::collections::BTreeSet;

use muster_shared::model::flow::{DeviceName, FlowId};

use super::device::DeviceKey;
use super::entry::{Kept, Owner};
use super::operation::{FlowAction, FlowOp, FlowWrite};
use crate::engine::Engine;
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
            // Of a server that was removed nothing can be taken off: an intent has nothing there any more.
            let is_gone = self.nodes[known.node].joined.is_none();
            let is_left = |owner: Owner| is_gone && owner.as_intent().is_some();
            let has_stack =
                |owner: &Owner| !owner.is_operator() && !self.is_lost_owner(*owner) && !is_left(*owner);
            let owner = known.table.owners().map(|(owner, _)| owner).find(has_stack);
            let owned = owner.and_then(|owner| Some((known.table.owned(owner).next()?, owner)));
            if let Some((id, owner)) = owned {
                return Err(Refusal::Conflict(format!(
                    "rule {id} on {device} belongs to {}: a table is forgotten when no stack has rules in it",
                    self.owner_text(owner)
                )));
            }
            return self.forget_device(key, &device);
        }
        let is_theirs = |kept: &Kept| kept.owner.is_operator() && !kept.removing;
        let ids = known.table.iter().filter(|(_, kept)| is_theirs(kept)).map(|(id, _)| id);
        let ids: BTreeSet<FlowId> = ids.collect();
        let ops = ids.into_iter().map(FlowOp::Remove).collect();
        let answer = self.begin_flows(
            FlowAction::Purge,
            vec![vec![FlowWrite { device: device.clone(), ops }]],
            confirm,
        )?;
        Ok(match answer {
            Answer::Flows { operation, rules, devices, mut warnings }
                if !self.flow_operation_ended(operation) && !self.is_ready(key) =>
            {
                warnings.push(format!("if it never comes: 'muster flow purge --forget {device}'"));
                Answer::Flows { operation, rules, devices, warnings }
            }
            answer => answer,
        })
    }

    fn is_ready(&self, key: DeviceKey) -> bool {
        self.flows.get(key).is_some_and(|device| self.nodes[device.node].ready)
    }
}
