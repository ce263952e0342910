//! What operators see of flow tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::model::flow::{
    DeviceName, FlowCounters, FlowId, ForeignRule, Packed, SwitchState, TableCounters,
};
use serde::{Deserialize, Serialize};

use super::device::{Device, DeviceKey};
use super::entry::{FlowStanding, Kept, Owner};
use super::operation::FlowError;
use super::record::FlowMark;
use crate::engine::Engine;
use crate::record::Status;
use crate::request::Refusal;

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceView {
    /// `node/bridge`
    pub device: String,
    /// Where it is.
    pub node: String,
    /// Its name there.
    pub bridge: String,
    /// Whether its node's agent is there: `online` or `offline`.
    pub node_state: String,
    /// `absent`, `filling`, `watched`, or `unknown` while the agent has not said.
    pub switch: String,
    /// Rules, groups and meters in its table.
    pub rules: u64,
    /// Of those, as they are to be on the device.
    pub added: u64,
    /// On their way to it.
    pub pending_add: u64,
    /// On their way off it.
    pub pending_remove: u64,
    /// The device would not have them.
    pub failed: u64,
    /// They ended by their own timeouts.
    pub expired: u64,
    /// Of those on their way: the agent cannot put them right at present.
    pub wrong: u64,
    /// Rules on the device that are not ours.
    pub foreign: u64,
    /// What becomes of those.
    pub foreign_policy: String,
    /// A batch is with the agent.
    pub in_flight: bool,
    /// Batches sent since the controller started.
    pub batches: u64,
    /// Batches refused since the controller started.
    pub refusals: u64,
    /// Comparisons of tables that differed since the controller started.
    pub reconciliations: u64,
    /// Entries put right by those.
    pub repaired: u64,
    /// Why the last import of those came to nothing; empty if it did not.
    pub import_error: String,
    /// Why something is wrong; empty if nothing is.
    pub reason: String,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOperationView {
    /// Its number.
    pub operation: u64,
    /// `APPLY`, `DELETE`, `PURGE` or `IMPORT`
    pub action: String,
    /// `IN_PROGRESS`, `COMPLETE` or `FAILED`
    pub state: String,
    /// The stage under way, or the last; from 1.
    pub stage: u64,
    /// How many there are.
    pub stages: u64,
    /// Entries that are as it wants them.
    pub done: u64,
    /// Entries in all.
    pub total: u64,
    /// What went wrong.
    pub errors: Vec<FlowError>,
}

/// An entry, to be shown beside the driver.
#[derive(Clone, Debug)]
pub struct FlowRow {
    /// Its id.
    pub id: FlowId,
    /// What it is.
    pub packed: Packed,
    /// How it stands.
    pub standing: FlowStanding,
    /// Whose it is.
    pub owner: Owner,
    /// The write that made it so.
    pub serial: u64,
    /// As last told.
    pub counters: Option<FlowCounters>,
    /// Why it is not as it is to be.
    pub error: Option<String>,
    /// What a hidden parameter holds went into it: nobody sees of what it is made.
    pub secret: bool,
}

/// Entries of a device.
#[derive(Clone, Debug, Default)]
pub struct FlowRows {
    /// In no order: see [`FlowRows::sorted`].
    pub rows: Vec<FlowRow>,
    /// For people.
    pub owners: BTreeMap<Owner, String>,
    /// Rules that are not ours, as last told.
    pub foreign: Vec<ForeignRule>,
    /// How its device is.
    pub device: DeviceView,
    /// Of the device in the store.
    pub number: u32,
}

/// What one owner's entries counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerCounters {
    /// For people.
    pub owner: String,
    /// Entries in the table.
    pub rules: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl OwnerCounters {
    fn add(&mut self, other: &Self) {
        self.rules += other.rules;
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// Counters of a device.
#[derive(Clone, Debug, Default)]
pub struct StatsView {
    /// Of its tables.
    pub tables: Vec<TableCounters>,
    /// By owner.
    pub owners: Vec<OwnerCounters>,
    /// How old they are; none if the agent has not told any since the controller started.
    pub age: Option<Duration>,
}

impl FlowRows {
    /// In the order of their ids; beside the driver, for there may be a million.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.rows.sort_unstable_by_key(|row| row.id);
        self
    }
}

impl Device {
    /// Entries by how they stand, in the order of [`FlowStanding::ALL`].
    pub fn standings(&self) -> [u64; 5] {
        let marked = |mark| self.table.marked(mark) as u64;
        let failed = marked(FlowMark::Failed);
        let expired = marked(FlowMark::Expired) + marked(FlowMark::Gone);
        let pending = marked(FlowMark::Wrong) + marked(FlowMark::Again);
        let added = (self.table.len() as u64).saturating_sub(failed + expired + pending);
        let mut counts = [pending, added, 0, failed, expired];
        // Only of those that are on their way the marks do not say all.
        let mut open = self.table.waiting().to_vec();
        open.extend(self.in_flight.iter().flat_map(|flight| &flight.ids));
        open.sort_unstable();
        open.dedup();
        for kept in open.into_iter().filter_map(|id| self.table.get(id)) {
            let by_mark = match kept.mark {
                FlowMark::Failed => FlowStanding::Failed,
                FlowMark::Expired | FlowMark::Gone => FlowStanding::Expired,
                FlowMark::Wrong | FlowMark::Again => FlowStanding::PendingAdd,
                FlowMark::None => FlowStanding::Added,
            };
            counts[by_mark as usize] -= 1;
            counts[self.table.standing(kept) as usize] += 1;
        }
        counts
    }
}

impl Engine {
    /// All devices, by name.
    pub fn device_views(&self) -> Vec<DeviceView> {
        let mut views: Vec<DeviceView> =
            self.flows.iter().map(|(_, device)| self.device_view_of(device)).collect();
        views.sort_by(|a, b| a.device.cmp(&b.device));
        views
    }

    /// One device.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn device_view(&self, name: &DeviceName) -> Result<DeviceView, Refusal> {
        let key = self.known_device(name)?;
        Ok(self.flows.get(key).map(|device| self.device_view_of(device)).unwrap_or_default())
    }

    fn device_view_of(&self, device: &Device) -> DeviceView {
        let [pending_add, added, pending_remove, failed, expired] = device.standings();
        let node = &self.nodes[device.node];
        let said = device.state.as_ref();
        DeviceView {
            device: format!("{}/{}", node.name, device.bridge),
            node: node.name.to_string(),
            bridge: device.bridge.to_string(),
            node_state: if node.ready { "online" } else { "offline" }.into(),
            switch: match said.map(|state| state.switch) {
                Some(SwitchState::Absent) => "absent",
                Some(SwitchState::Filling) => "filling",
                Some(SwitchState::Watched) => "watched",
                None => "unknown",
            }
            .into(),
            rules: device.table.len() as u64,
            added,
            pending_add,
            pending_remove,
            failed,
            expired,
            wrong: device.table.marked(FlowMark::Wrong) as u64,
            foreign: said.map_or(0, |state| state.foreign.into()),
            foreign_policy: device.foreign.as_str().into(),
            in_flight: device.in_flight.is_some(),
            batches: device.tally.batches,
            refusals: device.tally.refusals,
            reconciliations: device.tally.reconciliations,
            repaired: device.tally.repaired,
            import_error: device.import_error.clone().unwrap_or_default(),
            reason: said.map(|state| state.reason.clone()).unwrap_or_default(),
        }
    }

    /// The entries of a device, all or those that stand so.
    ///
    /// # Errors
    /// There is no such device.
    pub fn flow_rows(&self, name: &DeviceName, only: Option<FlowStanding>) -> Result<FlowRows, Refusal> {
        let key = self.known_device(name)?;
        let Some(device) = self.flows.get(key) else { return Ok(FlowRows::default()) };
        let is_wanted = |kept: &&Kept| only.is_none_or(|only| device.table.standing(kept) == only);
        let wanted = device.table.iter().filter(|(_, kept)| is_wanted(kept));
        let rows: Vec<FlowRow> = wanted.map(|(id, kept)| flow_row(device, id, kept)).collect();
        let owners = rows.iter().map(|row| row.owner).collect::<BTreeSet<_>>();
        Ok(FlowRows {
            owners: self.owner_texts(owners.into_iter()),
            rows,
            foreign: device.asks.strangers.clone(),
            device: self.device_view_of(device),
            number: key.0,
        })
    }

    /// The digest of a device's table as it is to be.
    pub fn flow_root(&self, name: &DeviceName) -> Option<u64> {
        let key = self.known_device(name).ok()?;
        Some(self.flows.get(key)?.table.sums().root())
    }

    /// Whether a device's rules that are not ours are listed with ours.
    pub fn shows_foreign(&self, name: &DeviceName) -> bool {
        let key = self.known_device(name).ok();
        let device = key.and_then(|key| self.flows.get(key));
        device.is_some_and(|device| device.foreign != muster_template::ForeignPolicy::Leave)
    }

    /// One entry of a device.
    ///
    /// # Errors
    /// There is no such device, or no such entry.
    pub fn flow_show(&self, name: &DeviceName, id: FlowId) -> Result<FlowRows, Refusal> {
        let key = self.known_device(name)?;
        let device = self.flows.get(key);
        let row = device.and_then(|device| Some(flow_row(device, id, device.table.get(id)?)));
        let row = row.ok_or_else(|| {
            Refusal::NotFound(format!("device '{name}' has no rule {id}: see 'muster flow list {name}'"))
        })?;
        Ok(FlowRows {
            owners: self.owner_texts([row.owner].into_iter()),
            rows: vec![row],
            device: self.device_view(name)?,
            number: key.0,
            ..FlowRows::default()
        })
    }

    /// Who they are, for people.
    fn owner_texts(&self, owners: impl Iterator<Item = Owner>) -> BTreeMap<Owner, String> {
        owners.map(|owner| (owner, self.owner_text(owner))).collect()
    }

    /// An operation, while it is known.
    pub fn flow_operation(&self, id: u64) -> Option<FlowOperationView> {
        let operation = self.flows.operations.get(&id)?;
        Some(FlowOperationView {
            operation: id,
            action: operation.action.as_str().into(),
            state: operation.status.as_str().into(),
            stage: (operation.stage + 1).min(operation.stage_count) as u64,
            stages: operation.stage_count as u64,
            done: operation.done,
            total: operation.total,
            errors: operation.errors.clone(),
        })
    }

    /// Whether an operation has ended, or was never known.
    pub fn flow_operation_ended(&self, id: u64) -> bool {
        self.flows.operations.get(&id).is_none_or(|operation| operation.status != Status::InProgress)
    }

    /// Counters of a device, as last told.
    ///
    /// # Errors
    /// There is no such device.
    pub fn flow_stats(&self, name: &DeviceName) -> Result<StatsView, Refusal> {
        let key = self.known_device(name)?;
        Ok(self.stats_of(key, usize::MAX))
    }

    /// With so many owners by name, the largest.
    pub(super) fn stats_of(&self, key: DeviceKey, most: usize) -> StatsView {
        let Some(device) = self.flows.get(key) else { return StatsView::default() };
        let mut sums: BTreeMap<Owner, OwnerCounters> = BTreeMap::new();
        for (owner, rules) in device.table.owners() {
            sums.entry(owner).or_default().rules = rules as u64;
        }
        let counted = device.asks.counted.as_ref();
        for (owner, (packets, bytes)) in counted.into_iter().flat_map(|counted| &counted.owners) {
            // Of one that has nothing left here, nothing is said.
            if let Some(sum) = sums.get_mut(owner) {
                (sum.packets, sum.bytes) = (*packets, *bytes);
            }
        }
        let mut sums: Vec<(Owner, OwnerCounters)> = sums.into_iter().collect();
        sums.sort_by_key(|(owner, sum)| (std::cmp::Reverse(sum.rules), *owner));
        let others = sums.split_off(most.min(sums.len()));
        let mut owners: Vec<OwnerCounters> = Vec::new();
        let mut places = BTreeMap::new();
        for (owner, sum) in sums {
            // Several may be the same to people: a resource and the one that replaces it.
            let text = self.owner_text(owner);
            let at = *places.entry(text.clone()).or_insert(owners.len());
            match owners.get_mut(at) {
                Some(same) => same.add(&sum),
                None => owners.push(OwnerCounters { owner: text, ..sum }),
            }
        }
        if !others.is_empty() {
            let mut rest = OwnerCounters { owner: "others".into(), ..OwnerCounters::default() };
            others.iter().for_each(|(_, sum)| rest.add(sum));
            owners.push(rest);
        }
        StatsView {
            tables: counted.map(|counted| counted.tables.clone()).unwrap_or_default(),
            owners,
            age: counted.map(|counted| self.now.since(counted.at)),
        }
    }

    /// For one who measures: every device with its counters, at most so many owners of each by name.
    pub fn flow_metrics(&self, owners: usize) -> Vec<(DeviceView, StatsView)> {
        let all = self.flows.iter();
        all.map(|(key, device)| (self.device_view_of(device), self.stats_of(key, owners))).collect()
    }

    /// Stacks, by action and status.
    pub fn stack_counts(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for stack in self.stacks.values() {
            *counts.entry((stack.action.as_str(), stack.status.as_str())).or_default() += 1;
        }
        counts
    }

    /// Nodes that have joined: those whose agent is there, those that are away, those that were cut off.
    pub fn node_counts(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for (_, node) in self.nodes.iter() {
            match &node.joined {
                Some(record) if record.revoked => counts[2] += 1,
                Some(_) if node.ready => counts[0] += 1,
                Some(_) => counts[1] += 1,
                None => {}
            }
        }
        counts
    }
}

fn flow_row(device: &Device, id: FlowId, kept: &Kept) -> FlowRow {
    FlowRow {
        id,
        packed: kept.packed.clone(),
        standing: device.table.standing(kept),
        owner: kept.owner,
        serial: kept.serial,
        counters: device.asks.counted.as_ref().and_then(|counted| counted.of(id)).copied(),
        error: device.table.reason(id).map(str::to_owned),
        secret: kept.hidden,
    }
}
