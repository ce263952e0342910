//! Operations of operators: entries for many devices in stages. The devices of a stage work at the
//! same time. The next stage starts once all of them have ended. A part that fails ends the
//! operation after its stage. Nothing is sent if a part is known to be wrong.
//!
//! Absent: why an entry of another owner is refused (`owner.rs`), and the writes of stacks
//! (`resource.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::flow::FlowError;
use muster_shared::NodeId;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use serde::{Deserialize, Serialize};

use crate::device::{DEVICE_ENTRIES_MAX, DeviceKey, ENTRIES_MAX, Flows, OPEN_MAX, Target};
use crate::device_report::Peer;
use crate::effect::Failure;
use crate::entry::{Kept, Written};
use crate::owner::{Asker, Owner, OwnerCheck};
use crate::record::{FlowChange, FlowOperationRecord, FlowPartRecord};
use crate::site::{Refused, Site, Turn};

/// Bound on open operations. Each keeps its further stages.
const RUNNING_MAX: usize = 10_000;
/// Errors kept of one operation. More would not be read one by one.
const ERRORS_MAX: usize = 100;
/// Stages of one operation.
const STAGES_MAX: usize = 1000;
/// Warnings of one answer.
const WARNINGS_MAX: usize = 20;

/// An operation on one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowOp {
    /// The device must hold the entry.
    Put {
        /// [`muster_shared::model::flow::Entry::id`]
        id: FlowId,
        /// [`Packed::digest`]
        digest: u64,
        packed: Packed,
    },
    /// The device must not hold the entry.
    Remove(FlowId),
}

/// The part of a stage for one device: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowWrite {
    pub device: DeviceName,
    /// Operations in any order, best by id. No two have the same id.
    pub ops: Vec<FlowOp>,
}

/// Further stages, shared with the change that persists them.
pub type FlowStages = Arc<Vec<Vec<FlowWrite>>>;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// Put entries from a file.
    Apply,
    /// Delete entries by their ids.
    Delete,
    /// Delete all entries of a device that operators own.
    Purge,
    /// Take over rules of others.
    Import,
}

impl FlowAction {
    /// The name that operators see.
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

/// The status of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStatus {
    /// A stage is under way.
    InProgress,
    /// Every stage is done.
    Complete,
    /// A part failed. Later stages were not started.
    Failed,
}

impl OperationStatus {
    /// The name that operators see.
    pub fn as_str(self) -> &'static str {
        match self {
            OperationStatus::InProgress => "IN_PROGRESS",
            OperationStatus::Complete => "COMPLETE",
            OperationStatus::Failed => "FAILED",
        }
    }

    /// From [`OperationStatus::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::InProgress, Self::Complete, Self::Failed].into_iter().find(|it| it.as_str() == name)
    }
}

/// An operation that has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    pub operation: u64,
    pub rules: u64,
    pub devices: u64,
    /// Warnings for operators, such as nodes that are away.
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub action: FlowAction,
    pub status: OperationStatus,
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
    /// A new operation without stages.
    pub fn new(action: FlowAction, confirm: Option<u32>) -> Self {
        Self {
            action,
            status: OperationStatus::InProgress,
            stage: 0,
            stages: Arc::default(),
            stage_count: 0,
            done: 0,
            total: 0,
            confirm,
            open: BTreeSet::new(),
            errors: Vec::new(),
        }
    }

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

impl Flows {
    /// Starts an operation. The site knows its nodes.
    ///
    /// # Errors
    /// A part is known to be wrong. Nothing is done then.
    pub fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        action: FlowAction,
        stages: Vec<Vec<FlowWrite>>,
        confirm: Option<u32>,
    ) -> Result<Begun, Refused> {
        self.begin_of(turn, action, stages, (confirm, Owner::OPERATOR))
    }

    /// Starts an operation whose entries are an application's. It has one stage: further ones are kept without a name.
    ///
    /// # Errors
    /// As [`Self::begin`]; or the name is invalid, or there are several stages.
    pub fn begin_named(
        &mut self,
        turn: &mut Turn<'_>,
        stages: Vec<Vec<FlowWrite>>,
        confirm: Option<u32>,
        name: &str,
    ) -> Result<Begun, Refused> {
        if stages.len() > 1 {
            return Err(Refused::Invalid(
                "rules of an application are applied in one stage: leave 'stages' out".into(),
            ));
        }
        self.check(turn.site, FlowAction::Apply, &stages)?;
        let owner = self.application(name)?;
        self.begin_of(turn, FlowAction::Apply, stages, (confirm, owner))
    }

    fn begin_of(
        &mut self,
        turn: &mut Turn<'_>,
        action: FlowAction,
        stages: Vec<Vec<FlowWrite>>,
        (confirm, owner): (Option<u32>, Owner),
    ) -> Result<Begun, Refused> {
        let warnings = self.check(turn.site, action, &stages)?;
        let mut devices = BTreeSet::new();
        for write in stages.iter().flatten() {
            devices.insert(self.device(&write.device)?);
        }
        let rules = stages.iter().flatten().map(|write| write.ops.len() as u64).sum();
        let stage_count = stages.len();
        let operation = Operation { stage_count, total: rules, ..Operation::new(action, confirm) };
        let id = self.add_operation(operation);
        self.operation_changed(id);
        let mut stages = stages.into_iter();
        let first = stages.next().unwrap_or_default();
        let rest: Vec<Vec<FlowWrite>> = stages.collect();
        if !rest.is_empty() {
            let rest = Arc::new(rest);
            self.change(FlowChange::Stages { operation: id, stages: rest.clone() });
            if let Some(operation) = self.operations.get_mut(&id) {
                operation.stages = rest;
            }
        }
        self.begin_stage(turn, id, first, owner);
        Ok(Begun { operation: id, rules, devices: devices.len() as u64, warnings })
    }

    /// Adds an operation under the next number.
    pub(crate) fn add_operation(&mut self, operation: Operation) -> u64 {
        self.next_operation += 1;
        self.operations.insert(self.next_operation, operation);
        self.next_operation
    }

    /// Checks bounds, owners, id collisions and nodes before anything is sent.
    fn check(
        &self,
        site: &dyn Site,
        action: FlowAction,
        stages: &[Vec<FlowWrite>],
    ) -> Result<Vec<String>, Refused> {
        if stages.len() > STAGES_MAX {
            return Err(Refused::Invalid(format!("{} stages: {STAGES_MAX} are allowed", stages.len())));
        }
        if self.operations.len() >= RUNNING_MAX + self.limits.operations_kept {
            return Err(Refused::Conflict(format!("{RUNNING_MAX} operations have not ended: wait for some")));
        }
        let mut puts = BTreeMap::new();
        let mut absent: BTreeSet<&NodeId> = BTreeSet::new();
        let mut lacking: BTreeSet<String> = BTreeSet::new();
        for stage in stages {
            let mut devices = BTreeSet::new();
            if let Some(twice) = stage.iter().find(|write| !devices.insert(&write.device)) {
                return Err(Refused::Invalid(format!("device {} is twice in a stage", twice.device)));
            }
        }
        for write in stages.iter().flatten() {
            match self.peers.get(&write.device.node).is_some_and(Peer::is_there) {
                false => drop(absent.insert(&write.device.node)),
                true if action == FlowAction::Apply => lacking.extend(site.lacks_bridge(&write.device)),
                true => {}
            }
            *puts.entry(&write.device).or_insert(0) += self.check_write(site, action, write)?;
        }
        let new: usize = puts.values().sum();
        // A former version of an entry with open writes costs as much as the newest.
        let versions: usize = match new {
            0 => 0,
            _ => self.iter().map(|(_, device)| device.table.versions()).sum(),
        };
        let all = self.entries + versions + new;
        if all > ENTRIES_MAX {
            return Err(Refused::Conflict(match versions {
                0 => format!("the site would have {all} rules: {ENTRIES_MAX} are allowed"),
                _ => format!(
                    "the site would have {all} rules, {versions} of them changed again while a change of them waits: \
                     {ENTRIES_MAX} are allowed"
                ),
            }));
        }
        let mut warnings: Vec<String> =
            absent.iter().take(WARNINGS_MAX).map(|name| site.why_waited_for(name)).collect();
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

    /// Number of entries that are new or get one more version.
    fn check_write(&self, site: &dyn Site, action: FlowAction, write: &FlowWrite) -> Result<usize, Refused> {
        let device = self.find(&write.device).and_then(|key| self.get(key));
        if let Some(device) = device
            && device.open() >= OPEN_MAX
            && action != FlowAction::Purge
        {
            return Err(Refused::Conflict(format!(
                "device '{}' has {OPEN_MAX} changes that wait: let its node come, or 'muster flow purge {}'",
                write.device, write.device
            )));
        }
        let check = OwnerCheck::new(site, &write.device);
        let (mut new, mut versions) = (0, 0);
        for op in &write.ops {
            let (FlowOp::Put { id, .. } | FlowOp::Remove(id)) = op;
            let kept = device.and_then(|device| device.table.get(*id));
            new += usize::from(kept.is_none() && matches!(op, FlowOp::Put { .. }));
            versions += usize::from(kept.is_some_and(Kept::has_past) && action != FlowAction::Purge);
            let asker = match op {
                FlowOp::Put { .. } => Asker::OperatorPuts,
                FlowOp::Remove(_) => Asker::OperatorRemoves,
            };
            if let Some(why) = check.refusal(*id, kept, asker) {
                return Err(Refused::Conflict(why));
            }
            if let (Some(kept), FlowOp::Put { packed, digest, .. }) = (kept, op)
                && kept.digest != *digest
                && !kept.packed.unpack().has_place_of(&packed.unpack())
            {
                return Err(Refused::Conflict(collision(*id, &write.device)));
            }
        }
        let known = device.map_or(0, |device| device.table.len());
        if known + new > DEVICE_ENTRIES_MAX {
            return Err(Refused::Conflict(format!(
                "device '{}' would have {} rules: {DEVICE_ENTRIES_MAX} are allowed",
                write.device,
                known + new
            )));
        }
        Ok(new + versions)
    }

    fn begin_stage(&mut self, turn: &mut Turn<'_>, id: u64, writes: Vec<FlowWrite>, owner: Owner) {
        let confirm = self.operations.get(&id).and_then(|operation| operation.confirm);
        let mut parts = Vec::new();
        for write in writes {
            let count = write.ops.len() as u64;
            match self.device(&write.device) {
                Ok(key) => {
                    let serial = self.write(turn.site, key, write.ops, owner, confirm);
                    parts.push((key, serial, count));
                }
                Err(refusal) => self.add_error(id, None, write.device.to_string(), refusal.to_string()),
            }
        }
        for &(key, serial, count) in &parts {
            let Some(device) = self.get_mut(key) else { continue };
            if serial <= device.table.settled() {
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.done += count;
                }
                continue;
            }
            device.waiters.entry(serial).or_default().push(Target::Operation(id, count));
            if let Some(operation) = self.operations.get_mut(&id) {
                operation.open.insert(key);
            }
            let part = FlowPartRecord { operation: id, device: key.0, serial, count };
            self.change(FlowChange::Part(part));
        }
        for (key, ..) in parts {
            self.pump(turn, key);
        }
        self.stage_ends(turn, id);
    }

    /// Writes entries of one owner. Returns the serial to wait for, which may have ended.
    pub(crate) fn write(
        &mut self,
        site: &dyn Site,
        key: DeviceKey,
        ops: Vec<FlowOp>,
        owner: Owner,
        confirm: Option<u32>,
    ) -> u64 {
        let whose = (owner, site.hides(owner));
        let Some(device) = self.get_mut(key) else { return 0 };
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
            // A repair waits there for a retry. The write is sent without it.
            if device.waiters.is_empty() && device.not_before.take().is_some() {
                device.apart.get_or_insert(usize::MAX);
            }
        }
        let after = device.table.len();
        self.entries = self.entries + after - before;
        self.device_changed(key);
        awaited
    }

    /// A part of an operation has ended.
    pub(crate) fn part_ended(
        &mut self,
        turn: &mut Turn<'_>,
        id: u64,
        key: DeviceKey,
        count: u64,
        ended: Result<(), Failure>,
    ) {
        self.change(FlowChange::PartRemoved { operation: id, device: key.0 });
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.open.remove(&key);
        match ended {
            Ok(()) => operation.done += count,
            Err(failure) => {
                if operation.action == FlowAction::Import {
                    self.import_failed(key, &failure.text());
                }
                let device = self.name(key).map(|name| name.to_string()).unwrap_or_default();
                self.add_error(id, failure.rule, device, failure.reason);
            }
        }
        self.stage_ends(turn, id);
    }

    fn add_error(&mut self, id: u64, rule: Option<FlowId>, device: String, error: String) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if operation.errors.len() < ERRORS_MAX {
            operation.errors.push(FlowError { id: rule.map(|id| id.to_string()), device, error });
        }
    }

    pub(crate) fn stage_ends(&mut self, turn: &mut Turn<'_>, id: u64) {
        self.operation_changed(id);
        let Some(operation) = self.operations.get_mut(&id) else { return };
        if !operation.open.is_empty() || operation.status != OperationStatus::InProgress {
            return;
        }
        let next = operation.stages.get(operation.stage).cloned();
        match next {
            _ if !operation.errors.is_empty() => self.end_operation(id, OperationStatus::Failed),
            None => self.end_operation(id, OperationStatus::Complete),
            Some(writes) => {
                operation.stage += 1;
                let action = operation.action;
                // An entry that was free at the start may have another owner now.
                let refused = |write: &FlowWrite| {
                    Some((write.device.to_string(), self.check_write(turn.site, action, write).err()?))
                };
                match writes.iter().find_map(refused) {
                    None => self.begin_stage(turn, id, writes, Owner::OPERATOR),
                    Some((device, refusal)) => {
                        self.add_error(id, None, device, refusal.to_string());
                        self.end_operation(id, OperationStatus::Failed);
                    }
                }
            }
        }
    }

    pub(crate) fn end_operation(&mut self, id: u64, status: OperationStatus) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        operation.status = status;
        operation.stages = Arc::default();
        self.operation_changed(id);
        self.ended.push_back(id);
        while self.ended.len() > self.limits.operations_kept {
            if let Some(old) = self.ended.pop_front() {
                self.operations.remove(&old);
                self.change(FlowChange::OperationRemoved(old));
            }
        }
    }

    fn operation_changed(&mut self, id: u64) {
        if let Some(operation) = self.operations.get(&id) {
            let record = operation.record(id);
            self.change(FlowChange::Operation(Box::new(record)));
        }
    }

    /// Whether an operation has ended or is unknown.
    pub fn has_ended(&self, operation: u64) -> bool {
        self.operations.get(&operation).is_none_or(|it| it.status != OperationStatus::InProgress)
    }
}

pub(crate) fn collision(id: FlowId, device: &DeviceName) -> String {
    format!(
        "two rules on {device} have the same id {id}, by a chance of one in 280,000,000,000,000: change the priority of one"
    )
}
