//! Flow tables: the agent makes each device of this node hold its table, and reports the device's state.
//!
//! ```text
//!   batch:  Fetching ─▶ Ready ─switch, guard─▶ Appending ─on disk─▶ Logged ─host idle─▶ Applying ──┬─▶ Deciding ─on disk─▶ told
//!              │ no content │ no switch           │ refused            ▲ crash           │ refused │      ▲
//!              ▼            ▼                     ▼                    │                 ▼         ▼      │
//!           refused       refused              refused              restart           refused  Confirming ┤ answered
//!                                                                                                  │ late │
//!                                                                                                  ▼      │
//!                                                                                               Undoing ──┘ refused
//!
//!   device: hint, scan, back, retry ─▶ due ─host idle, no batch at it─▶ Compare ─▶ Compared ─differs─▶ Repair ─▶ Compare …
//! ```
//!
//! **Invariants.** A batch is in the log on disk before the agent touches the device. The table changes only
//! once the batch's end is on disk too. The host works on one request per device at a time. A generation
//! never follows a newer one. A guarded batch is kept only if the agent reached the controller over a new
//! connection; after a crash the batch is undone. An entry that ended by its timeout stays gone. The agent
//! removes only entries that it put, and never clears a device.
//!
//! **The host's duties.** The host answers [`FlowEffect::Watch`] soon by [`FlowInput::Back`] or
//! [`FlowInput::Gone`], and reports each change between the two. The host also reports `Back` after a restart
//! of the switch so quick that the host never saw the switch gone. While the switch is back, the host reports
//! changes made by others as [`FlowInput::Hint`]. The host executes `Append`, `Decide`, `Expire`, `Compact`
//! and `Forget` in order and always answers them. `Apply`, `Compare` and `Repair` come one at a time; the
//! host answers each within a bounded time, unless cancelled. A log is loaded as [`Loaded`].
//!
//! `flow/batch.rs` leads a batch to its end, `flow/guard.rs` keeps or undoes one that can cut the node off,
//! `flow/repair_switch.rs` compares and repairs, and `flow/tell.rs` reports.
//!
//! Absent: which entries a device is to hold (`controller/flow/src/table.rs`). Absent too: OpenFlow, nftables,
//! files and wall clocks. The host reports which entries have ended by their timeouts.

mod batch;
mod face;
mod guard;
mod log;
mod repair_switch;
mod stage;
mod table;
mod tell;

pub use face::{
    Appended, Compacted, Compared, DivergentForms, Extraneous, FlowEffect, FlowInput, Loaded, NotApplied, Op,
    Repaired, TableEntry, Undecided,
};
pub use repair_switch::ENDED_MAX;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::flow::{
    Bridge, FLOW_REASON_MAX, FlowBatch, FlowDown, FlowId, FlowRefusal, FlowState, FlowUp,
};
use muster_shared::model::{ContentDigest, Up};
use muster_shared::{Generation, MonoTime, ResourceId};
use uuid::Uuid;

use crate::connection::Connection;
use crate::effects::Effects;
use crate::face::Effect;
use crate::fetch::Fetch;
use crate::random::Random;
use repair_switch::Watching;
use stage::Batch;
use table::Table;
use tell::{FlowReports, Question};

/// Tables on one node: a server has a few bridges. All their states fit into one message.
pub const DEVICES_MAX: usize = 64;
/// Entries of a device: as many as one switch holds, with 24 MB of index.
pub const ENTRIES_MAX: usize = 1_000_000;
/// The most bytes of one batch: all entries of a device, at 200 bytes each.
pub const BATCH_BYTES_MAX: u64 = 200 * 1024 * 1024;
/// Rules removed in one round of comparing; further ones wait for the next round.
pub const EXTRANEOUS_MAX: usize = 16 * 1024;
/// A smaller log is not compacted.
const COMPACT_FROM: u64 = 64 * 1024;

/// The host's present work on one device.
#[derive(Debug)]
enum Work {
    Applying,
    Undoing,
    /// Whether the device holds what the controller was reached with.
    Confirmed,
    Comparing {
        since: MonoTime,
        /// The switch came back meanwhile: the result may describe the switch before its restart.
        stale: bool,
    },
    Repairing {
        put: Vec<FlowId>,
        since: MonoTime,
        /// Further rules remain to be removed.
        more: bool,
        /// The switch came back meanwhile: the result may describe the switch before its restart.
        stale: bool,
    },
}

/// Whether the device answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Switch {
    /// The host has not reported the switch yet.
    Unknown,
    Back {
        /// Since the device appeared, the agent has compared and, where possible, repaired it.
        filled: bool,
    },
    Gone {
        reason: String,
    },
}

#[derive(Debug)]
struct Device {
    bridge: Bridge,
    /// The id under which contents and challenges refer to the device.
    resource: ResourceId,
    table: Table,
    decided: Generation,
    refused: Option<FlowRefusal>,
    /// Bytes of the device's log; `None` without a log.
    log: Option<u64>,
    batch: Option<Batch>,
    next: Option<FlowBatch>,
    switch: Switch,
    /// The device was seen here: if it goes, the agent waits for its return.
    was_back: bool,
    work: Option<Work>,
    /// The number of the latest work. Answers with another number belong to cancelled work.
    number: u64,
    watching: Watching,
    /// Ordered to be forgotten, at this generation.
    forgetting: Option<Generation>,
    forgotten: bool,
    /// The agent gave up a batch that can cut the node off, and has not yet seen that the switch holds
    /// nothing of it.
    undo_unseen: bool,
    /// The host has not answered an order for the log.
    logging: bool,
    /// Records that the disk refused, to be written again.
    owed: Option<(Generation, Option<FlowRefusal>)>,
    owed_expired: BTreeSet<FlowId>,
    /// The device's state may have changed.
    changed: bool,
    /// The controller asked for the device's state: send it, changed or not.
    asked: bool,
    /// Report the state once the device has been compared.
    looking: bool,
    told: Option<FlowState>,
}

/// The flow tables of the node.
#[derive(Debug)]
pub(crate) struct Flows {
    devices: BTreeMap<Bridge, Device>,
    telling: FlowReports,
    random: Random,
}

/// The parts of the agent that one call uses: facts, and the machines below the tables.
pub(crate) struct Turn<'a> {
    pub(crate) now: MonoTime,
    /// Nothing new begins.
    pub(crate) is_stopping: bool,
    /// Nothing else that can cut the node off is under way.
    pub(crate) may_guard: bool,
    pub(crate) connection: &'a mut Connection,
    pub(crate) fetch: &'a mut Fetch,
    pub(crate) effects: &'a mut Effects,
}

impl Turn<'_> {
    fn say(&mut self, up: FlowUp) {
        self.effects.send(Up::Flow(up));
    }

    fn release(&mut self, resource: ResourceId, stored: Option<ContentDigest>) {
        if let Some(digest) = stored {
            self.fetch.release(resource, digest, self.now, self.effects);
        }
    }

    fn reconnect(&mut self, why: &str) {
        self.connection.reconnect(self.now, why, self.fetch, self.effects);
    }
}

impl Flows {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed ^ 0x666c_6f77_7300_0000);
        Self { devices: BTreeMap::new(), telling: FlowReports::default(), random }
    }

    /// Loads the tables from the logs on disk.
    pub(crate) fn load(&mut self, tables: Vec<Loaded>) {
        for loaded in tables {
            let mut device = Device::load(loaded);
            if let Some(batch) = &mut device.batch {
                batch.guards &= !self.guards();
            }
            self.devices.insert(device.bridge.clone(), device);
        }
    }

    /// The desired entries of a device, each with its state.
    pub(crate) fn table(&self, device: &Bridge) -> Option<Arc<Vec<TableEntry>>> {
        self.devices.get(device).map(|device| device.table.kept())
    }

    /// A device that has rules of ours, or may have them soon.
    pub(crate) fn in_use(&self) -> Option<&Bridge> {
        let is_used = |device: &&Device| {
            device.table.len() > 0 || device.batch.is_some() || device.next.is_some() || device.undo_unseen
        };
        self.devices.values().find(is_used).map(|device| &device.bridge)
    }

    pub(crate) fn start(&mut self, turn: &mut Turn) {
        for device in self.devices.values_mut().filter(|device| !device.forgotten) {
            device.effect(FlowEffect::Watch, turn);
            if let Some(batch) = &mut device.batch {
                batch.wait_until = turn.now + batch::SWITCH_WITHIN;
            }
        }
    }

    fn device_of(&mut self, resource: ResourceId) -> Option<&mut Device> {
        self.devices.values_mut().find(|device| device.resource == resource)
    }

    /// Handles a message from the controller.
    pub(crate) fn down(&mut self, down: FlowDown, turn: &mut Turn) {
        match down {
            FlowDown::Batch(batch) => self.batch(batch, turn),
            FlowDown::Ask { device, number, ask } => self.ask(&device, number, ask, turn),
            FlowDown::Forget { device, generation } => {
                let device = self.devices.get_mut(&device);
                match device.filter(|it| generation >= it.decided && !it.forgotten) {
                    Some(device) => device.forget(generation, turn),
                    None => self.telling.all = true,
                }
            }
        }
    }

    pub(crate) fn input(&mut self, bridge: &Bridge, input: FlowInput, turn: &mut Turn) {
        match (input, self.devices.get_mut(bridge)) {
            (FlowInput::Counted { number, entries, tables, last }, _) => {
                if self.telling.is_wanted(bridge, number, Question::Count, last, turn) {
                    turn.say(FlowUp::Stats { device: bridge.clone(), number, entries, tables, last });
                }
            }
            (FlowInput::Foreigners { number, rules, last }, _) => {
                if self.telling.is_wanted(bridge, number, Question::Foreign, last, turn) {
                    turn.say(FlowUp::Foreign { device: bridge.clone(), number, rules, last });
                }
            }
            (FlowInput::Traced { number, result }, _) => {
                if self.telling.is_wanted(bridge, number, Question::Trace, true, turn) {
                    turn.say(FlowUp::Traced { device: bridge.clone(), number, result });
                }
            }
            (_, None) => {}
            (FlowInput::Back, Some(device)) => device.back(turn),
            (FlowInput::Gone { reason }, Some(device)) => device.gone(reason, turn.now),
            (FlowInput::Hint, Some(device)) => device.watching.hint(turn.now, Vec::new()),
            (FlowInput::Ended { ids }, Some(device)) => device.watching.hint(turn.now, ids),
            (FlowInput::Appended { generation, result }, Some(device)) => {
                device.appended(generation, result, turn);
            }
            (FlowInput::Decided { generation, result }, Some(device)) => {
                device.end_deciding(generation, result, turn);
            }
            (FlowInput::Expired { ids, result }, Some(device)) => device.expired(ids, result, turn),
            (FlowInput::Compacted(result), Some(device)) => device.compacted(result, turn),
            (FlowInput::Forgotten(result), Some(device)) => {
                self.telling.all |= device.end_forgetting(result, turn);
            }
            // Cancelled work may still be answered, since its answer may have been on its way.
            (
                FlowInput::Applied { number, .. }
                | FlowInput::Compared { number, .. }
                | FlowInput::Repaired { number, .. },
                Some(device),
            ) if device.work.is_none() || device.number != number => {}
            (FlowInput::Applied { result, .. }, Some(device)) => device.applied(result, turn),
            (FlowInput::Compared { result, .. }, Some(device)) => device.compared(result, turn),
            (FlowInput::Repaired { result, .. }, Some(device)) => device.repaired(result, turn),
        }
    }

    /// A content has arrived, or cannot be fetched. Returns true if the content was for a device.
    pub(crate) fn settled(&mut self, resource: ResourceId, failed: Option<&str>, turn: &mut Turn) -> bool {
        self.device_of(resource).map(|device| device.settled(failed, turn)).is_some()
    }

    /// Begins all work that can begin. Called after every input.
    pub(crate) fn advance(&mut self, turn: &mut Turn) {
        turn.may_guard &= !self.guards();
        for device in self.devices.values_mut() {
            device.advance(turn);
            turn.may_guard &= !device.guards();
            if !turn.is_stopping {
                device.advance_forgetting(turn);
                device.advance_comparing(&mut self.random, turn);
                device.advance_log(turn);
            }
        }
        self.tell(turn);
    }

    /// Runs with each heartbeat: retries writes that the disk refused.
    pub(crate) fn heartbeat(&mut self, turn: &mut Turn) {
        self.telling.all |= !self.devices.is_empty();
        self.devices.values_mut().for_each(|device| device.write_owed(turn));
    }

    /// When to look again, and why.
    pub(crate) fn timeout(&self, is_open: bool, is_stopping: bool) -> Option<(MonoTime, &'static str)> {
        let devices = || self.devices.values();
        let batches = devices().filter_map(Device::batch_timeout).min_by_key(|(at, _)| *at);
        if is_stopping {
            return batches.filter(|_| self.guards());
        }
        let compares = devices().filter_map(Device::compare_timeout).min_by_key(|(at, _)| *at);
        let told = self.telling.timeout().filter(|_| is_open);
        [batches, compares, told].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Device {
    fn new(bridge: Bridge) -> Self {
        Self {
            resource: resource_id(&bridge),
            bridge,
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
        let Loaded { device, kept, decided, refused, undecided, forgotten, log } = loaded;
        let table = Table::new(kept);
        let batch = undecided.and_then(|undecided| Batch::recovered(undecided, &table));
        Self { table, decided, refused, log: Some(log), batch, forgotten, ..Self::new(device) }
    }

    /// The newest batch that is known.
    fn newest(&self) -> Generation {
        let next = self.next.as_ref().map(|next| next.generation);
        let batch = self.batch.as_ref().map(|batch| batch.generation);
        next.or(batch).unwrap_or_default().max(self.decided)
    }

    /// The agent is about to forget the table, and does not report on it until then.
    fn is_leaving(&self) -> bool {
        self.forgetting.is_some() && !self.undo_unseen
    }

    fn is_back(&self) -> bool {
        matches!(self.switch, Switch::Back { .. })
    }

    fn is_filled(&self) -> bool {
        self.switch == Switch::Back { filled: true }
    }

    fn effect(&self, effect: FlowEffect, turn: &mut Turn) {
        turn.effects.push(Effect::Flow { device: self.bridge.clone(), effect });
    }

    /// Asks the host to begin this work; returns its number.
    fn begin(&mut self, work: Work, turn: &mut Turn) -> u64 {
        (self.work, self.number) = (Some(work), turn.effects.number());
        self.number
    }

    /// Asks the host to stop the work under way.
    fn cancel(&mut self, turn: &mut Turn) {
        self.work = None;
        self.effect(FlowEffect::Cancel { number: self.number }, turn);
    }
}

/// The resource id of a device. Derived from the device's name alone, so that it survives a restart.
pub fn resource_id(device: &Bridge) -> ResourceId {
    // FNV-1a suffices to distinguish the few bridges of one node.
    let fnv = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let hash = device.as_str().as_bytes().iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fnv);
    ResourceId(Uuid::from_u128(hash))
}

/// Bounds a reason for the operator.
fn bounded(mut reason: String) -> String {
    if reason.len() > FLOW_REASON_MAX {
        let end = (0..=FLOW_REASON_MAX).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or_default();
        reason.truncate(end);
    }
    reason
}
