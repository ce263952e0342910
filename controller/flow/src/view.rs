//! Flow tables as operators see them: devices, entries, counters and operations.
//!
//! Absent: the names of owners, which the engine gives (`controller/engine/src/flow/site.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::flow::{DeviceView, FlowOperationView, OwnerCounters};
use muster_shared::MonoTime;
use muster_shared::model::flow::{
    DeviceName, FlowCounters, FlowId, FlowState, ForeignRule, Packed, SwitchState, TableCounters,
};

use crate::device::{Device, DeviceKey, Flows};
use crate::device_report::Peer;
use crate::entry::{FlowStanding, Kept};
use crate::owner::Owner;
use crate::record::FlowMark;
use crate::site::{Refused, Site};

/// An entry. The caller renders it outside of the driver.
#[derive(Clone, Debug)]
pub struct FlowRow {
    pub id: FlowId,
    pub packed: Packed,
    pub standing: FlowStanding,
    pub owner: Owner,
    /// The write that gave the entry its present form.
    pub serial: u64,
    /// Counters as last reported.
    pub counters: Option<FlowCounters>,
    /// The reason why the entry is not as desired.
    pub error: Option<String>,
    /// Hidden values went into the entry, so its content is not shown.
    pub secret: bool,
}

/// Entries of a device.
#[derive(Clone, Debug, Default)]
pub struct FlowRows {
    /// In no order: see [`FlowRows::sorted`].
    pub rows: Vec<FlowRow>,
    /// Owners by name.
    pub owners: BTreeMap<Owner, String>,
    /// Rules of others as last reported.
    pub foreign: Vec<ForeignRule>,
    /// The state of the device.
    pub device: DeviceView,
    /// The number of the device in the store.
    pub number: u32,
}

fn add(sum: &mut OwnerCounters, other: &OwnerCounters) {
    sum.rules += other.rules;
    sum.packets = sum.packets.wrapping_add(other.packets);
    sum.bytes = sum.bytes.wrapping_add(other.bytes);
}

/// Counters of a device.
#[derive(Clone, Debug, Default)]
pub struct StatsView {
    /// Counters of the device's tables.
    pub tables: Vec<TableCounters>,
    /// Counters by owner.
    pub owners: Vec<OwnerCounters>,
    /// Age of the counters. `None`: the agent has sent none since the controller started.
    pub age: Option<Duration>,
}

impl FlowRows {
    /// Sorts the rows by id. There may be a million, so this runs outside of the driver.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.rows.sort_unstable_by_key(|row| row.id);
        self
    }
}

impl Device {
    /// Number of entries by standing, in the order of [`FlowStanding::ALL`].
    pub fn standings(&self) -> [u64; 5] {
        let marked = |mark| self.table.marked(mark) as u64;
        let failed = marked(FlowMark::Failed);
        let expired = marked(FlowMark::Expired) + marked(FlowMark::Gone);
        let pending = marked(FlowMark::Wrong) + marked(FlowMark::Again);
        let added = (self.table.len() as u64).saturating_sub(failed + expired + pending);
        let mut counts = [pending, added, 0, failed, expired];
        // For entries with open writes the mark is not enough.
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

impl Flows {
    /// The devices, by name.
    pub fn device_views(&self) -> Vec<DeviceView> {
        let mut views: Vec<DeviceView> = self.iter().map(|(_, device)| self.device_view_of(device)).collect();
        views.sort_by(|a, b| a.device.cmp(&b.device));
        views
    }

    ///
    /// # Errors
    /// There is no such device.
    pub fn device_view(&self, site: &dyn Site, name: &DeviceName) -> Result<DeviceView, Refused> {
        let key = self.known_device(site, name)?;
        Ok(self.get(key).map(|device| self.device_view_of(device)).unwrap_or_default())
    }

    fn device_view_of(&self, device: &Device) -> DeviceView {
        let [pending_add, added, pending_remove, failed, expired] = device.standings();
        let is_there = self.peers.get(&device.name.node).is_some_and(Peer::is_there);
        let said = device.state.as_ref();
        DeviceView {
            device: device.name.to_string(),
            node: device.name.node.to_string(),
            bridge: device.name.bridge.to_string(),
            node_state: if is_there { "online" } else { "offline" }.into(),
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
            reason: said.map(FlowState::named_reason).unwrap_or_default(),
        }
    }

    /// The entries of a device: all of them, or `only` those with one standing.
    ///
    /// # Errors
    /// There is no such device.
    pub fn rows(
        &self,
        site: &dyn Site,
        name: &DeviceName,
        only: Option<FlowStanding>,
    ) -> Result<FlowRows, Refused> {
        let key = self.known_device(site, name)?;
        let Some(device) = self.get(key) else { return Ok(FlowRows::default()) };
        let is_wanted = |kept: &&Kept| only.is_none_or(|only| device.table.standing(kept) == only);
        let wanted = device.table.iter().filter(|(_, kept)| is_wanted(kept));
        let rows: Vec<FlowRow> = wanted.map(|(id, kept)| flow_row(device, id, kept)).collect();
        let owners = rows.iter().map(|row| row.owner).collect::<BTreeSet<_>>();
        Ok(FlowRows {
            owners: owner_texts(site, owners.into_iter()),
            rows,
            foreign: device.questions.strangers.clone(),
            device: self.device_view_of(device),
            number: key.0,
        })
    }

    /// The owner of a device's entry, if its table has it.
    pub fn owner(&self, device: &DeviceName, id: FlowId) -> Option<Owner> {
        Some(self.get(self.find(device)?)?.table.get(id)?.owner)
    }

    /// The digest of the desired table of a device.
    pub fn root(&self, name: &DeviceName) -> Option<u64> {
        Some(self.get(self.find(name)?)?.table.sums().root())
    }

    /// Whether rules of others on a device are listed.
    pub fn shows_foreign(&self, name: &DeviceName) -> bool {
        let device = self.find(name).and_then(|key| self.get(key));
        device.is_some_and(|device| device.foreign != muster_template::ForeignPolicy::Leave)
    }

    ///
    /// # Errors
    /// There is no such device, or no such entry.
    pub fn row(&self, site: &dyn Site, name: &DeviceName, id: FlowId) -> Result<FlowRows, Refused> {
        let key = self.known_device(site, name)?;
        let device = self.get(key);
        let row = device.and_then(|device| Some(flow_row(device, id, device.table.get(id)?)));
        let row = row.ok_or_else(|| {
            Refused::NotFound(format!("device '{name}' has no rule {id}: see 'muster flow list {name}'"))
        })?;
        Ok(FlowRows {
            owners: owner_texts(site, [row.owner].into_iter()),
            rows: vec![row],
            device: self.device_view(site, name)?,
            number: key.0,
            ..FlowRows::default()
        })
    }

    /// An operation, as long as it is kept.
    pub fn operation(&self, id: u64) -> Option<FlowOperationView> {
        let operation = self.operations.get(&id)?;
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

    /// Counters of a device as last reported.
    ///
    /// # Errors
    /// There is no such device.
    pub fn stats(&self, site: &dyn Site, now: MonoTime, name: &DeviceName) -> Result<StatsView, Refused> {
        let key = self.known_device(site, name)?;
        Ok(self.stats_of(site, now, key, usize::MAX))
    }

    /// Counters with the `most` largest owners by name.
    fn stats_of(&self, site: &dyn Site, now: MonoTime, key: DeviceKey, most: usize) -> StatsView {
        let Some(device) = self.get(key) else { return StatsView::default() };
        let mut sums: BTreeMap<Owner, OwnerCounters> = BTreeMap::new();
        for (owner, rules) in device.table.owners() {
            sums.entry(owner).or_default().rules = rules as u64;
        }
        let counted = device.questions.counted.as_ref();
        for (owner, (packets, bytes)) in counted.into_iter().flat_map(|counted| &counted.owners) {
            // An owner without entries here is left out.
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
            // Several owners may have one name: a resource and the one that replaces it.
            let text = site.describe(owner);
            let at = *places.entry(text.clone()).or_insert(owners.len());
            match owners.get_mut(at) {
                Some(same) => add(same, &sum),
                None => owners.push(OwnerCounters { owner: text, ..sum }),
            }
        }
        if !others.is_empty() {
            let mut rest = OwnerCounters { owner: "others".into(), ..OwnerCounters::default() };
            others.iter().for_each(|(_, sum)| add(&mut rest, sum));
            owners.push(rest);
        }
        StatsView {
            tables: counted.map(|counted| counted.tables.clone()).unwrap_or_default(),
            owners,
            age: counted.map(|counted| now.since(counted.at)),
        }
    }

    /// Every device with its counters, with at most `owners` owners each by name, for metrics.
    pub fn metrics(&self, site: &dyn Site, now: MonoTime, owners: usize) -> Vec<(DeviceView, StatsView)> {
        let all = self.iter();
        all.map(|(key, device)| (self.device_view_of(device), self.stats_of(site, now, key, owners)))
            .collect()
    }
}

/// Names of owners, for operators.
fn owner_texts(site: &dyn Site, owners: impl Iterator<Item = Owner>) -> BTreeMap<Owner, String> {
    owners.map(|owner| (owner, site.describe(owner))).collect()
}

fn flow_row(device: &Device, id: FlowId, kept: &Kept) -> FlowRow {
    FlowRow {
        id,
        packed: kept.packed.clone(),
        standing: device.table.standing(kept),
        owner: kept.owner,
        serial: kept.serial,
        counters: device.questions.counted.as_ref().and_then(|counted| counted.of(id)).copied(),
        error: device.table.reason(id).map(str::to_owned),
        secret: kept.hidden,
    }
}
