//! Operations: entries for many devices in stages. The devices of a stage work at the same time; the next stage begins
//! when all of this one have done their part, and a part that fails ends the operation there.

use std::sync::Arc;

use muster_shared::NodeId;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_shared::model::{Claim, ClaimKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::device::{DEVICE_ENTRIES_MAX, DeviceKey, ENTRIES_MAX, OPEN_MAX, Target};
use super::entry::{FlowStanding, Kept, Owner, Written};
use super::record::{FlowChange, FlowOperationRecord, FlowPartRecord};
use crate::engine::Engine;
use crate::record::{Change, Status};
use crate::request::{Answer, Refusal};

/// Operations that have not ended: each keeps the stages that are to come.
const RUNNING_MAX: usize = 10_000;
/// Errors kept of one operation: more are not read one by one.
const ERRORS_MAX: usize = 100;
/// Stages of one operation.
const STAGES_MAX: usize = 1000;
/// Warnings of one answer.
const WARNINGS_MAX: usize = 20;

/// What is to be done with one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowOp {
    /// The device is to hold it.
    Put {
        /// [`muster_shared::model::flow::Entry::id`]
        id: FlowId,
        /// [`Packed::digest`]
        digest: u64,
        /// What.
        packed: Packed,
    },
    /// The device is not to hold it any more.
    Remove(FlowId),
}

/// What one stage does to one device: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowWrite {
    /// Where.
    pub device: DeviceName,
    /// In any order; best in that of their ids. No two of one id.
    pub ops: Vec<FlowOp>,
}

/// Stages that are to come, shared with the change that makes them durable.
pub type FlowStages = Arc<Vec<Vec<FlowWrite>>>;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// Entries from a file.
    Apply,
    /// Entries by their ids.
    Delete,
    /// All of a device that operators own.
    Purge,
    /// Foreign rules become ours.
    Import,
}

impl FlowAction {
    /// As operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            FlowAction::Apply => "APPLY",
            FlowAction::Delete => "DELETE",
            FlowAction::Purge => "PURGE",
            FlowAction::Import => "IMPORT",
        }
    }

    /// From [`FlowAction::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Apply, Self::Delete, Self::Purge, Self::Import].into_iter().find(|it| it.as_str() == name)
    }
}

/// Why a part of an operation came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowError {
    /// The entry that is to blame, where one is.
    pub id: Option<String>,
    /// `node/bridge`
    pub device: String,
    /// For the operator.
    pub error: String,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub action: FlowAction,
    pub status: Status,
    pub stage: usize,
    pub stages: FlowStages,
    pub stage_count: usize,
    pub done: u64,
    pub total: u64,
    pub confirm: Option<u32>,
    /// Devices whose part of this stage has not ended.
    pub open: BTreeSet<DeviceKey>,
    pub errors: Vec<FlowError>,
}

impl Operation {
    fn record(&self, id: u64) -> FlowOperationRecord {
        FlowOperationRecord {
            id,
            action: self.action,
            status: self.status,
            stage: u32::try_from(self.stage).unwrap_or(u32::MAX),
            stages: u32::try_from(self.stage_count).unwrap_or(u32::MAX),
            done: self.done,
            total: self.total,
            confirm_timeout: self.confirm,
            errors: self.errors.clone(),
        }
    }
}

impl Engine {
    /// Takes an operation and begins it; refused as a whole where anything is known to be wrong.
    pub(crate) fn begin_flows(
        &mut self,
        action: FlowAction,
        stages: Vec<Vec<FlowWrite>>,
        confirm: Option<u32>,
    ) -> Result<Answer, Refusal> {
        let warnings = self.check_flows(action, &stages)?;
        let mut devices = BTreeSet::new();
        for write in stages.iter().flatten() {
            devices.insert(self.device(&write.device)?);
        }
        self.flows.next_operation += 1;
        let id = self.flows.next_operation;
        let total = stages.iter().flatten().map(|write| write.ops.len() as u64).sum();
        let stage_count = stages.len();
        let operation = Operation {
            action,
            status: Status::InProgress,
            stage: 0,
            stages: Arc::new(Vec::new()),
            stage_count,
            done: 0,
            total,
            confirm,
            open: BTreeSet::new(),
            errors: Vec::new(),
        };
        self.flows.operations.insert(id, operation);
        self.operation_changed(id);
        let mut stages = stages.into_iter();
        let first = stages.next().unwrap_or_default();
        let rest: Vec<Vec<FlowWrite>> = stages.collect();
        if !rest.is_empty() {
            let rest = Arc::new(rest);
            self.change(Change::Flow(FlowChange::Stages { operation: id, stages: rest.clone() }));
            if let Some(operation) = self.flows.operations.get_mut(&id) {
                operation.stages = rest;
            }
        }
        self.begin_stage(id, first);
        Ok(Answer::Flows { operation: id, rules: total, devices: devices.len() as u64, warnings })
    }

    /// What can be known before anything is sent: bounds, owners, collisions, nodes.
    fn check_flows(&self, action: FlowAction, stages: &[Vec<FlowWrite>]) -> Result<Vec<String>, Refusal> {
        if stages.len() > STAGES_MAX {
            return Err(Refusal::Invalid(format!("{} stages: {STAGES_MAX} are allowed", stages.len())));
        }
        if self.flows.operations.len() >= RUNNING_MAX + self.limits.flow_operations_kept {
            return Err(Refusal::Conflict(format!("{RUNNING_MAX} operations have not ended: wait for some")));
        }
        let mut puts = BTreeMap::new();
        let mut absent: BTreeSet<&NodeId> = BTreeSet::new();
        let mut lacking: BTreeSet<String> = BTreeSet::new();
        for stage in stages {
            let mut devices = BTreeSet::new();
            if let Some(twice) = stage.iter().find(|write| !devices.insert(&write.device)) {
                return Err(Refusal::Invalid(format!("device {} is twice in a stage", twice.device)));
            }
        }
        for write in stages.iter().flatten() {
            let node = self.nodes.find(&write.device.node);
            match node.filter(|node| self.nodes[*node].ready) {
                None => drop(absent.insert(&write.device.node)),
                Some(node) if action == FlowAction::Apply => {
                    lacking.extend(self.lacks_bridge(node, &write.device))
                }
                Some(_) => {}
            }
            *puts.entry(&write.device).or_insert(0) += self.check_write(action, write)?;
        }
        let new: usize = puts.values().sum();
        // What was before a write that waits costs as much as what is to be.
        let versions: usize = match new {
            0 => 0,
            _ => self.flows.iter().map(|(_, device)| device.table.versions()).sum(),
        };
        let all = self.flows.entries + versions + new;
        if all > ENTRIES_MAX {
            return Err(Refusal::Conflict(match versions {
                0 => format!("the site would have {all} rules: {ENTRIES_MAX} are allowed"),
                _ => format!(
                    "the site would have {all} rules, {versions} of them changed again while a change of them waits: \
                     {ENTRIES_MAX} are allowed"
                ),
            }));
        }
        let mut warnings: Vec<String> =
            absent.iter().take(WARNINGS_MAX).map(|name| self.waited_for(name)).collect();
        if absent.len() > WARNINGS_MAX {
            warnings.push(format!("{} more nodes are not there", absent.len() - WARNINGS_MAX));
        }
        let more = lacking.len().saturating_sub(WARNINGS_MAX);
        warnings.extend(lacking.into_iter().take(WARNINGS_MAX));
        if more > 0 {
            warnings.push(format!("{more} more bridges are not there"));
        }
        Ok(warnings)
    }

    /// Why so many entries more are too many for a device or the site.
    pub(crate) fn no_room(&self, key: DeviceKey, new: usize) -> Option<String> {
        let known = self.flows.get(key).map_or(0, |device| device.table.len());
        if known + new > DEVICE_ENTRIES_MAX {
            return Some(format!("it would have {} rules: {DEVICE_ENTRIES_MAX} are allowed", known + new));
        }
        let all = self.flows.entries + new;
        (all > ENTRIES_MAX).then(|| format!("the site would have {all} rules: {ENTRIES_MAX} are allowed"))
    }

    /// Why nothing happens on a node until it comes.
    fn waited_for(&self, name: &NodeId) -> String {
        match self.nodes.find(name).is_some_and(|node| self.nodes[node].joined.is_some()) {
            true => format!("node {name} is away and is waited for"),
            false => self.never_joined(name),
        }
    }

    /// How many entries would be new, or kept in one more version.
    fn check_write(&self, action: FlowAction, write: &FlowWrite) -> Result<usize, Refusal> {
        let node = self.nodes.find(&write.device.node);
        let device = node.and_then(|node| self.flows.get(self.flows.find(node, &write.device.bridge)?));
        let claimed = node.filter(|node| self.claims.has_kind(*node, ClaimKind::Flow));
        if let Some(device) = device
            && device.open() >= OPEN_MAX
            && action != FlowAction::Purge
        {
            return Err(Refusal::Conflict(format!(
                "device '{}' has {OPEN_MAX} changes that wait: let its node come, or 'muster flow purge {}'",
                write.device, write.device
            )));
        }
        let (mut new, mut versions) = (0, 0);
        for op in &write.ops {
            let (FlowOp::Put { id, .. } | FlowOp::Remove(id)) = op;
            let kept = device.and_then(|device| device.table.get(*id));
            new += usize::from(kept.is_none() && matches!(op, FlowOp::Put { .. }));
            versions += usize::from(kept.is_some_and(Kept::has_past) && action != FlowAction::Purge);
            let owner = kept.map(|kept| kept.owner).filter(|owner| !owner.is_operator());
            let claim = claimed.and_then(|node| {
                let key = format!("{} {id}", write.device.bridge);
                let slot = self.claims.owner(node, &Claim { kind: ClaimKind::Flow, key })?;
                Some(Owner(self.rows[slot].id))
            });
            if let Some(owner) = owner.or(claim) {
                return Err(self.owned_by_resource(&write.device, *id, owner, op));
            }
            if let (Some(kept), FlowOp::Put { packed, digest, .. }) = (kept, op)
                && kept.digest != *digest
                && !kept.packed.unpack().has_place_of(&packed.unpack())
            {
                return Err(Refusal::Conflict(collision(*id, &write.device)));
            }
        }
        let known = device.map_or(0, |device| device.table.len());
        if known + new > DEVICE_ENTRIES_MAX {
            return Err(Refusal::Conflict(format!(
                "device '{}' would have {} rules: {DEVICE_ENTRIES_MAX} are allowed",
                write.device,
                known + new
            )));
        }
        Ok(new + versions)
    }

    fn owned_by_resource(&self, device: &DeviceName, id: FlowId, owner: Owner, op: &FlowOp) -> Refusal {
        let whose = self.owner_text(owner);
        let todo = match op {
            _ if self.is_lost_owner(owner) => {
                return Refusal::Conflict(format!(
                    "rule {id} on {device} belongs to {whose}, which cleans it up when it is back; if it never is: \
                     'muster flow purge --forget {device}'"
                ));
            }
            FlowOp::Put { .. } if owner.as_intent().is_some() => {
                "one rule has one owner; give the rule or the intent another priority"
            }
            FlowOp::Remove(_) if owner.as_intent().is_some() => "withdraw the intent",
            FlowOp::Put { .. } => "one rule has one owner; take it out of the template, or out of the file",
            FlowOp::Remove(_) => "take it out of the stack's template and update the stack",
        };
        Refusal::Conflict(match op {
            FlowOp::Put { .. } => {
                format!("the operator asks for rule {id} on {device}, which belongs to {whose}: {todo}")
            }
            FlowOp::Remove(_) => format!("rule {id} on {device} belongs to {whose}: {todo}"),
        })
    }

    /// Who it is, for people.
    pub(crate) fn owner_text(&self, owner: Owner) -> String {
        if owner.is_operator() {
            return "the operator".into();
        }
        if let Some(no) = owner.as_intent() {
            return match self.intents.manager.key(no) {
                Some(key) => format!("intent {key}"),
                None => "an intent that is gone".into(),
            };
        }
        match self.rows.of_id(owner.0).map(|slot| &self.rows[slot]) {
            Some(row) => match self.stacks.get(&row.stack) {
                Some(stack) => format!("resource {} of stack {}", row.name, stack.name),
                None => format!("resource {} of a removed node", row.name),
            },
            None => "a resource that is gone".into(),
        }
    }

    /// Its node was removed, or nobody knows of it: it has no stack that could take its rules off.
    pub(super) fn is_lost_owner(&self, owner: Owner) -> bool {
        match owner.as_intent() {
            Some(no) => self.intents.manager.key(no).is_none(),
            None => {
                !owner.is_operator() && self.rows.of_id(owner.0).is_none_or(|slot| self.rows[slot].is_lost())
            }
        }
    }

    fn begin_stage(&mut self, id: u64, writes: Vec<FlowWrite>) {
        let confirm = self.flows.operations.get(&id).and_then(|operation| operation.confirm);
        let mut parts = Vec::new();
        for write in writes {
            let count = write.ops.len() as u64;
            match self.device(&write.device) {
                Ok(key) => {
                    let serial = self.write_flows(key, write.ops, Owner::OPERATOR, confirm);
                    parts.push((key, serial, count));
                }
                Err(refusal) => self.flow_error(id, None, write.device.to_string(), refusal.to_string()),
            }
        }
        for &(key, serial, count) in &parts {
            let Some(device) = self.flows.get_mut(key) else { continue };
            if serial <= device.table.settled() {
                if let Some(operation) = self.flows.operations.get_mut(&id) {
                    operation.done += count;
                }
                continue;
            }
            device.waiters.entry(serial).or_default().push(Target::Operation(id, count));
            if let Some(operation) = self.flows.operations.get_mut(&id) {
                operation.open.insert(key);
            }
            let part = FlowPartRecord { operation: id, device: key.0, serial, count };
            self.change(Change::Flow(FlowChange::Part(part)));
        }
        for (key, ..) in parts {
            self.pump_device(key);
        }
        self.stage_ends(id);
    }

    /// Writes entries of one owner; the write whose end is to be waited for, or one that has ended.
    pub(crate) fn write_flows(
        &mut self,
        key: DeviceKey,
        ops: Vec<FlowOp>,
        owner: Owner,
        confirm: Option<u32>,
    ) -> u64 {
        let whose = (owner, self.hides_flows(owner));
        let Some(device) = self.flows.get_mut(key) else { return 0 };
        let before = device.table.len();
        let serial = device.table.begin();
        let (mut changed, mut awaited) = (false, 0);
        for op in ops {
            let written = match op {
                FlowOp::Put { id, digest, packed } => device.table.put(id, packed, digest, whose, serial),
                FlowOp::Remove(id) => device.table.remove(id, serial),
            };
            match written {
                Written::Changed => changed = true,
                Written::Same(earlier) => awaited = awaited.max(earlier),
                Written::Nothing => {}
            }
        }
        if changed {
            awaited = serial;
            device.guards.extend(confirm.map(|seconds| (serial, seconds)));
            // What waits there for another try is a repair: the write goes without it.
            if device.waiters.is_empty() && device.not_before.take().is_some() {
                device.apart.get_or_insert(usize::MAX);
            }
        }
        let after = device.table.len();
        self.flows.entries = self.flows.entries + after - before;
        self.device_changed(key);
        awaited
    }

    /// A part of an operation has come to its end.
    pub(super) fn part_ended(
        &mut self,
        id: u64,
        key: DeviceKey,
        count: u64,
        error: Option<(Option<FlowId>, &str)>,
    ) {
        self.change(Change::Flow(FlowChange::PartRemoved { operation: id, device: key.0 }));
        let Some(operation) = self.flows.operations.get_mut(&id) else { return };
        operation.open.remove(&key);
        match error {
            None => operation.done += count,
            Some((rule, why)) => {
                if operation.action == FlowAction::Import {
                    let id = rule.map(|id| format!("rule {id}: ")).unwrap_or_default();
                    self.import_failed(key, &format!("{id}{why}"));
                }
                let device = self.device_name(key).map(|name| name.to_string()).unwrap_or_default();
                self.flow_error(id, rule, device, why.to_owned());
            }
        }
        self.stage_ends(id);
    }

    fn flow_error(&mut self, id: u64, rule: Option<FlowId>, device: String, error: String) {
        let Some(operation) = self.flows.operations.get_mut(&id) else { return };
        if operation.errors.len() < ERRORS_MAX {
            operation.errors.push(FlowError { id: rule.map(|id| id.to_string()), device, error });
        }
    }

    pub(super) fn stage_ends(&mut self, id: u64) {
        self.operation_changed(id);
        let Some(operation) = self.flows.operations.get_mut(&id) else { return };
        if !operation.open.is_empty() || operation.status != Status::InProgress {
            return;
        }
        let next = operation.stages.get(operation.stage).cloned();
        match next {
            _ if !operation.errors.is_empty() => self.end_operation(id, Status::Failed),
            None => self.end_operation(id, Status::Complete),
            Some(writes) => {
                operation.stage += 1;
                let action = operation.action;
                // Others may own by now what was free when the operation was taken.
                let refused = |write: &FlowWrite| {
                    Some((write.device.to_string(), self.check_write(action, write).err()?))
                };
                match writes.iter().find_map(refused) {
                    None => self.begin_stage(id, writes),
                    Some((device, refusal)) => {
                        self.flow_error(id, None, device, refusal.to_string());
                        self.end_operation(id, Status::Failed);
                    }
                }
            }
        }
    }

    pub(super) fn end_operation(&mut self, id: u64, status: Status) {
        let Some(operation) = self.flows.operations.get_mut(&id) else { return };
        operation.status = status;
        operation.stages = Arc::default();
        self.operation_changed(id);
        self.flows.ended.push_back(id);
        while self.flows.ended.len() > self.limits.flow_operations_kept {
            if let Some(old) = self.flows.ended.pop_front() {
                self.flows.operations.remove(&old);
                self.change(Change::Flow(FlowChange::OperationRemoved(old)));
            }
        }
    }

    fn operation_changed(&mut self, id: u64) {
        if let Some(operation) = self.flows.operations.get(&id) {
            let record = operation.record(id);
            self.change(Change::Flow(FlowChange::Operation(Box::new(record))));
        }
    }

    /// How an entry stands.
    pub fn flow_standing(&self, device: &DeviceName, id: FlowId) -> Option<FlowStanding> {
        let device = self.flows.get(self.flows.find(self.nodes.find(&device.node)?, &device.bridge)?)?;
        Some(device.table.standing(device.table.get(id)?))
    }
}

pub(super) fn collision(id: FlowId, device: &DeviceName) -> String {
    format!(
        "two rules on {device} have the same id {id}, by a chance of one in 280,000,000,000,000: change the priority of one"
    )
}
