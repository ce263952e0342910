//! Flow tables: each device of this node holds what its table says, and the controller knows how it stands.
//!
//! ```text
//!   batch:  Fetching ─▶ Ready ─switch, guard─▶ Appending ─on disk─▶ Logged ─host idle─▶ Applying ──┬─▶ Deciding ─on disk─▶ told
//!              │ no content  │ no switch          │ refused            ▲ crash           │ refused │      ▲
//!              ▼             ▼                    ▼                    │                 ▼         ▼      │
//!           refused       refused              refused              restart           refused  Confirming ┤ answered
//!                                                                                                  │ late │
//!                                                                                                  ▼      │
//!                                                                                               Undoing ──┘ refused
//!
//!   device: hint, scan, back, retry ─▶ due ─host idle, no batch at it─▶ Compare ─▶ Compared ─differs─▶ Repair ─▶ Compare …
//! ```
//!
//! **Invariants.** A batch is in the log on disk before the device is touched, and the table changes only once its end
//! is on disk too. One thing of a device is under way at the host at a time. A generation never follows a newer one.
//! A guarded batch is kept only if the controller was reached anew; after a crash it is undone. What ended by its
//! timeout stays gone. Nothing is removed that was not put by us, and nothing is ever cleared.
//!
//! **What a host owes.** [`FlowEffect::Watch`] is answered soon by [`FlowInput::Back`] or [`FlowInput::Gone`], and each
//! change between the two is told, also `Back` after an answer that it is gone; `Back` also if the switch was restarted so quickly that nobody saw it gone. What
//! happens while it is back comes as [`FlowInput::Hint`], not for what was put by us. `Append`, `Decide`, `Expire`,
//! `Compact` and `Forget` are done in their order and always answered. `Apply`, `Compare` and `Repair` come one at a
//! time, and are always answered unless cancelled, in a time that the host bounds. A log is loaded as [`Loaded`].
//!
//! Absent: OpenFlow, nftables, files, wall clocks: the host says what has ended by its time.

mod batch;
mod face;
mod guard;
mod reconcile;
mod table;
mod tell;

pub use face::{
    Appended, Compacted, Compared, Extraneous, FlowEffect, FlowInput, Kept, Loaded, NotApplied, Odd, Op,
    Repaired, Undecided,
};
pub use reconcile::ENDED_MAX;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::{
    Bridge, EntryState, FLOW_REASON_MAX, FlowBatch, FlowDown, FlowId, FlowRefusal, FlowState,
};
use muster_shared::{Generation, MonoTime, ResourceId};
use uuid::Uuid;

use crate::agent::Agent;
use crate::backoff::Random;
use crate::face::Effect;
use batch::Batch;
use reconcile::Watching;
use table::Table;
use tell::Telling;

/// Tables on one node: a server has a few bridges. All their states fit into one message.
pub const DEVICES_MAX: usize = 64;
/// Entries of a device: what one switch holds, and 24 MB of index.
pub const ENTRIES_MAX: usize = 1_000_000;
/// Bytes of one batch: all entries of a device at once, at 200 bytes each.
pub const BATCH_BYTES_MAX: u64 = 200 * 1024 * 1024;
/// Rules that are removed in one round of comparing: more wait for the next.
pub const EXTRANEOUS_MAX: usize = 16 * 1024;
/// A log that is smaller is not worth writing anew.
const COMPACT_FROM: u64 = 64 * 1024;

/// What the host is at, of one device.
#[derive(Debug)]
enum Work {
    Applying,
    Undoing,
    /// Whether the device holds what the controller was reached with.
    Confirmed,
    Comparing {
        since: MonoTime,
        /// The switch came back meanwhile: what is found may be of the one before.
        stale: bool,
    },
    Repairing {
        put: Vec<FlowId>,
        since: MonoTime,
        /// There is more to be removed.
        more: bool,
        /// As above.
        stale: bool,
    },
}

/// Whether the device answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Switch {
    /// The host has not said yet.
    Unknown,
    Back {
        /// It was compared, and put right where that was possible, since it came.
        filled: bool,
    },
    Gone {
        reason: String,
    },
}

/// One device.
#[derive(Debug)]
struct Device {
    /// Stands for it where resources are named: contents, challenges.
    resource: ResourceId,
    table: Table,
    decided: Generation,
    refused: Option<FlowRefusal>,
    /// Bytes of its log; none: there is none.
    log: Option<u64>,
    batch: Option<Batch>,
    next: Option<FlowBatch>,
    switch: Switch,
    /// It was seen here: should it go, it is waited for.
    was_back: bool,
    work: Option<Work>,
    /// The number of what was begun last: what comes of another was cancelled.
    number: u64,
    watching: Watching,
    /// Ordered to be forgotten, at this generation.
    forgetting: Option<Generation>,
    forgotten: bool,
    /// A batch that can cut the node off was given up, and it is not seen yet that the switch has nothing of it.
    undo_unseen: bool,
    /// An order for the log is not answered.
    logging: bool,
    /// What the log did not take, to be tried again.
    owed: Option<(Generation, Option<FlowRefusal>)>,
    owed_expired: BTreeSet<FlowId>,
    /// Something of its state may have changed.
    changed: bool,
    /// Its state is to be said, changed or not.
    asked: bool,
    /// So it is once it was compared.
    looking: bool,
    told: Option<FlowState>,
}

/// All flow tables of the node.
#[derive(Debug)]
pub(crate) struct Flows {
    devices: BTreeMap<Bridge, Device>,
    /// The device whose batch can cut the node off.
    guarding: Option<Bridge>,
    telling: Telling,
    /// Counts what hosts were asked to begin, over all devices: one that was forgotten does not begin anew.
    begun: u64,
    random: Random,
}

impl Flows {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            devices: BTreeMap::new(),
            guarding: None,
            telling: Telling::default(),
            begun: 0,
            random: Random::new(seed ^ 0x666c_6f77_7300_0000),
        }
    }

    fn resource_of(&self, resource: ResourceId) -> Option<Bridge> {
        let mut devices = self.devices.iter();
        devices.find(|(_, device)| device.resource == resource).map(|(bridge, _)| bridge.clone())
    }
}

impl Device {
    fn new(bridge: &Bridge) -> Self {
        Self {
            resource: resource_id(bridge),
            table: Table::default(),
            decided: Generation::default(),
            refused: None,
            log: None,
            batch: None,
            next: None,
            switch: Switch::Unknown,
            was_back: false,
            work: None,
            number: 0,
            watching: Watching::default(),
            forgetting: None,
            forgotten: false,
            undo_unseen: false,
            logging: false,
            owed: None,
            owed_expired: BTreeSet::new(),
            changed: true,
            asked: false,
            looking: false,
            told: None,
        }
    }

    fn load(loaded: Loaded) -> Self {
        Self {
            table: Table::new(loaded.kept),
            decided: loaded.decided,
            refused: loaded.refused,
            log: Some(loaded.log),
            batch: None,
            forgotten: loaded.forgotten,
            ..Self::new(&loaded.device)
        }
    }

    /// The newest batch that is known.
    fn newest(&self) -> Generation {
        let next = self.next.as_ref().map(|next| next.generation);
        let batch = self.batch.as_ref().map(|batch| batch.generation);
        next.or(batch).unwrap_or_default().max(self.decided)
    }

    /// The table is forgotten next; nobody is told of it before.
    fn is_leaving(&self) -> bool {
        self.forgetting.is_some() && !self.undo_unseen
    }

    fn is_back(&self) -> bool {
        matches!(self.switch, Switch::Back { .. })
    }

    fn is_filled(&self) -> bool {
        self.switch == Switch::Back { filled: true }
    }
}

/// A device's own, as if it were a resource: of its name alone, so that it is the same after a restart.
pub fn resource_id(device: &Bridge) -> ResourceId {
    // FNV-1a: it need only tell the few bridges of one node apart.
    let fnv = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let hash = device.as_str().as_bytes().iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fnv);
    ResourceId(Uuid::from_u128(hash))
}

/// For the operator, bounded.
fn bounded(mut reason: String) -> String {
    if reason.len() > FLOW_REASON_MAX {
        let end = (0..=FLOW_REASON_MAX).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or_default();
        reason.truncate(end);
    }
    reason
}

impl Agent {
    /// With the flow tables as their logs were on disk; before [`Input::Start`](crate::Input::Start).
    #[must_use]
    pub fn with_flows(mut self, tables: Vec<Loaded>) -> Self {
        for mut loaded in tables {
            let (bridge, undecided) = (loaded.device.clone(), loaded.undecided.take());
            let mut device = Device::load(loaded);
            if let Some(undecided) = undecided {
                device.batch = Batch::recovered(undecided, &device.table);
            }
            if device.batch.as_ref().is_some_and(Batch::is_being_undone) {
                self.flows.guarding.get_or_insert(bridge.clone());
            }
            self.flows.devices.insert(bridge, device);
        }
        self
    }

    /// What each device is to hold, and how it stands.
    pub fn flow_table(&self, device: &Bridge) -> Option<Arc<Vec<Kept>>> {
        self.flows.devices.get(device).map(|device| device.table.kept())
    }

    pub(crate) fn start_flows(&mut self) {
        for bridge in self.flow_devices() {
            if self.flows.devices[&bridge].forgotten {
                continue;
            }
            self.flow_effect(&bridge, FlowEffect::Watch);
            let now = self.now;
            self.with_batch(&bridge, |batch| batch.wait_until = now + batch::SWITCH_WITHIN);
        }
    }

    fn flow_devices(&self) -> Vec<Bridge> {
        self.flows.devices.keys().cloned().collect()
    }

    fn flow_effect(&mut self, device: &Bridge, effect: FlowEffect) {
        self.effects.push(Effect::Flow { device: device.clone(), effect });
    }

    /// The host is to begin this; its number.
    fn begin_work(&mut self, bridge: &Bridge, work: Work) -> u64 {
        self.flows.begun += 1;
        let number = self.flows.begun;
        if let Some(device) = self.device(bridge) {
            (device.work, device.number) = (Some(work), number);
        }
        number
    }

    /// It is the answer to what is under way. Of what was cancelled one may be on its way all the same.
    fn is_under_way(&self, bridge: &Bridge, number: u64) -> bool {
        self.flows.devices.get(bridge).is_some_and(|device| device.work.is_some() && device.number == number)
    }

    fn device(&mut self, bridge: &Bridge) -> Option<&mut Device> {
        self.flows.devices.get_mut(bridge)
    }

    /// From the controller.
    pub(crate) fn flow(&mut self, down: FlowDown) {
        match down {
            FlowDown::Batch(batch) => self.flow_batch(batch),
            FlowDown::Ask { device, number, ask } => self.flow_ask(&device, number, ask),
            FlowDown::Forget { device, generation } => self.flow_forget(&device, generation),
        }
    }

    /// From the host.
    pub(crate) fn flow_input(&mut self, bridge: &Bridge, input: FlowInput) {
        match input {
            FlowInput::Counted { number, entries, tables, last } => {
                return self.flow_counted(bridge, number, entries, tables, last);
            }
            FlowInput::Foreigners { number, rules, last } => {
                return self.flow_foreigners(bridge, number, rules, last);
            }
            _ => {}
        }
        if !self.flows.devices.contains_key(bridge) {
            return;
        }
        match input {
            FlowInput::Back => self.flow_back(bridge),
            FlowInput::Gone { reason } => self.flow_gone(bridge, reason),
            FlowInput::Hint => self.flow_hint(bridge, Vec::new()),
            FlowInput::Ended { ids } => self.flow_hint(bridge, ids),
            FlowInput::Appended { generation, result } => self.flow_appended(bridge, generation, result),
            FlowInput::Decided { generation, result } => self.flow_decided(bridge, generation, result),
            FlowInput::Expired { ids, result } => self.flow_expired(bridge, ids, result),
            FlowInput::Compacted(result) => self.flow_compacted(bridge, result),
            FlowInput::Forgotten(result) => self.flow_forgotten(bridge, result),
            FlowInput::Applied { number, .. }
            | FlowInput::Compared { number, .. }
            | FlowInput::Repaired { number, .. }
                if !self.is_under_way(bridge, number) => {}
            FlowInput::Applied { result, .. } => self.flow_applied(bridge, result),
            FlowInput::Compared { result, .. } => self.flow_compared(bridge, result),
            FlowInput::Repaired { result, .. } => self.flow_repaired(bridge, result),
            FlowInput::Counted { .. } | FlowInput::Foreigners { .. } => {}
        }
    }

    /// After every input: begins what can begin.
    pub(crate) fn advance_flows(&mut self) {
        for bridge in self.flow_devices() {
            self.advance_batch(&bridge);
            if !self.is_stopping {
                self.advance_forgetting(&bridge);
                self.advance_comparing(&bridge);
                self.advance_log(&bridge);
            }
        }
        self.tell_flows();
    }

    fn flow_forget(&mut self, bridge: &Bridge, generation: Generation) {
        let known = self.flows.devices.get_mut(bridge);
        let Some(device) = known.filter(|it| generation >= it.decided && !it.forgotten) else {
            self.flows.telling.all = true;
            return;
        };
        if device.next.as_ref().is_some_and(|next| next.generation <= generation) {
            device.next = None;
        }
        // Told once it is so: what is told before would be believed to be what is there after.
        device.forgetting = Some(generation);
        self.drop_unbegun(bridge, generation);
    }

    fn advance_forgetting(&mut self, bridge: &Bridge) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        let Some(generation) = device.forgetting else { return };
        // Once it is left, nothing of it is taken off the switch any more.
        if !device.is_leaving() || device.batch.is_some() || device.work.is_some() || device.logging {
            return;
        }
        device.logging = true;
        self.flow_effect(bridge, FlowEffect::Leave);
        self.flow_effect(bridge, FlowEffect::Forget { generation });
    }

    fn flow_forgotten(&mut self, bridge: &Bridge, result: Result<(), String>) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        device.logging = false;
        // Refused or not: the controller says it again, as long as the table is among those it is told of.
        let Some(generation) = device.forgetting.take() else { return };
        let failed = result.err();
        if failed.is_none() {
            let next = device.next.take();
            *device =
                Device { decided: generation, forgotten: true, log: Some(0), next, ..Device::new(bridge) };
        }
        self.flows.telling.all = true;
        if let Some(reason) = failed {
            self.flow_effect(bridge, FlowEffect::Watch);
            self.effects.warn(format!("cannot forget the flow table of {bridge}: {reason}"));
        }
    }

    /// Writes the log anew once most of it is dead, and what it did not take.
    fn advance_log(&mut self, bridge: &Bridge) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        let is_idle = device.batch.is_none() && device.work.is_none() && !device.logging;
        let is_due = |log: u64| log > COMPACT_FROM && log / 2 > device.table.live();
        if !is_idle || device.forgotten || device.forgetting.is_some() || !device.log.is_some_and(is_due) {
            return;
        }
        device.logging = true;
        let (kept, decided, refused) = (device.table.kept(), device.decided, device.refused.clone());
        self.flow_effect(bridge, FlowEffect::Compact { kept, decided, refused });
    }

    fn flow_compacted(&mut self, bridge: &Bridge, result: Result<Compacted, String>) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        device.logging = false;
        match result {
            Ok(compacted) => {
                device.table.moved(&compacted.at);
                device.log = Some(compacted.log);
                // It says all.
                device.owed = None;
                device.owed_expired.clear();
            }
            Err(reason) => {
                // With the next batch that is decided.
                device.log = Some(0);
                self.effects.warn(format!("cannot write the log of {bridge} anew: {reason}"));
            }
        }
    }

    /// With each heartbeat: what the log did not take is tried again.
    pub(crate) fn flow_heartbeat(&mut self) {
        self.flows.telling.all |= !self.flows.devices.is_empty();
        for bridge in self.flow_devices() {
            let Some(device) = self.flows.devices.get_mut(&bridge) else { continue };
            let is_idle = device.batch.is_none() && !device.logging && !device.forgotten;
            if let Some((generation, refused)) = device.owed.take_if(|_| is_idle) {
                device.logging = true;
                self.flow_effect(&bridge, FlowEffect::Decide { generation, refused });
            } else if is_idle && !device.owed_expired.is_empty() {
                let mut ids = std::mem::take(&mut device.owed_expired);
                // What was put again since has not ended.
                ids.retain(|id| device.table.get(*id).is_some_and(|it| it.state == EntryState::Expired));
                if !ids.is_empty() {
                    self.flow_effect(&bridge, FlowEffect::Expire { ids: ids.into_iter().collect() });
                }
            }
        }
    }

    /// When to look again, and why.
    pub(crate) fn flow_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let devices = || self.flows.devices.values();
        let batches = devices().filter_map(Device::batch_timeout).min_by_key(|(at, _)| *at);
        if self.is_stopping {
            return batches.filter(|_| self.flows.is_guarding());
        }
        let compares = devices().filter_map(Device::compare_timeout).min_by_key(|(at, _)| *at);
        let told = self.flows.telling.timeout().filter(|_| self.connection.is_open());
        [batches, compares, told].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
