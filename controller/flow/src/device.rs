//! A device: its table, the batch at its agent, and the state that the agent reported. Also all
//! devices of the site, with the bounds of their number and of their entries.
//!
//! Absent: what is sent when (`batch.rs`), and the agent's connection to the switch
//! (`agent/src/flows/device.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;
use muster_intent::manager::Token;
use muster_shared::model::ContentDigest;
use muster_shared::model::flow::{Bridge, DeviceName, FlowBatch, FlowDown, FlowId, FlowState};
use muster_shared::{Generation, MonoTime, NodeId};
use muster_template::ForeignPolicy;

use crate::application::Applications;
use crate::compare_with_agent::Comparing;
use crate::device_report::Peer;
use crate::effect::{Effect, Job};
use crate::entry::FlowStanding;
use crate::operation::Operation;
use crate::question::Questions;
use crate::record::{FlowChange, FlowDeviceRecord};
use crate::site::{Refused, Site};
use crate::table::Table;
use crate::undone::Undone;

/// Entries of one device: as many as a flow file may have, and room for those of stacks.
pub(crate) const DEVICE_ENTRIES_MAX: usize = 2_000_000;
/// Entries of all devices. At 200 bytes each they take most of a gigabyte.
pub(crate) const ENTRIES_MAX: usize = 4_000_000;
/// Devices of all nodes. Each costs some kilobytes.
const DEVICES_MAX: usize = 100_000;
/// Devices of one node, including one that lies.
pub(crate) const NODE_DEVICES_MAX: usize = 256;
/// Open writes of a device. Each may keep a former version.
pub(crate) const OPEN_MAX: usize = 1024;

/// The index of a device in memory, and its number in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub(crate) u32);

/// A waiter for the end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A stage of an operation with this number of entries.
    Operation(u64, u64),
    /// A job of a resource.
    Job(Job),
    /// A write of an intent.
    Intent(Token),
    /// A job of a resource that starts once the write of another has ended.
    After(Job),
}

/// A batch that the agent may have.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub generation: Generation,
    /// The newest write in the batch.
    pub serial: u64,
    pub ids: Vec<FlowId>,
    /// Entries in `ids` that are more than ADDED when the batch is settled.
    pub special: Vec<FlowId>,
    /// Entries that the batch removes and no table has.
    pub strays: Vec<FlowId>,
    /// `None` after a restart: only the outcome of the batch can be known.
    pub batch: Option<FlowBatch>,
    /// The operations, if they are too large for a message.
    pub stored: Option<(ContentDigest, Arc<[u8]>)>,
    /// The connection over which the batch was sent.
    pub connection: Option<u64>,
    pub sent_at: MonoTime,
}

/// Counts since this start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub batches: u64,
    pub refusals: u64,
    pub reconciliations: u64,
    pub repaired: u64,
}

/// A device that holds flow rules.
#[derive(Debug)]
pub(crate) struct Device {
    pub name: DeviceName,
    pub table: Table,
    pub in_flight: Option<InFlight>,
    /// Waiters, by the serial of their write.
    pub waiters: BTreeMap<u64, Vec<Target>>,
    /// Guarded writes and their seconds.
    pub guards: BTreeMap<u64, u32>,
    /// The agent has reported all its devices since its Hello.
    pub heard: bool,
    /// The reported state. `None`: the agent has no table of the device.
    pub state: Option<FlowState>,
    /// The agent could not name the entry at fault. Up to this serial, batches hold as few writes
    /// as possible.
    pub narrow_upto: Option<u64>,
    /// A repair was refused. Repairs have batches of their own with at most so many.
    pub apart: Option<usize>,
    /// Failed tries of the present batch.
    pub tries: u32,
    /// When to check whether the batch in flight must be sent again.
    pub said_again: Option<MonoTime>,
    /// Nothing is sent before this time.
    pub not_before: Option<MonoTime>,
    pub comparing: Option<Comparing>,
    /// Roots, the agent's and ours, that a comparison could not explain.
    pub odd: Option<(u64, u64)>,
    /// Comparisons in a row that found a difference.
    pub repairs: u32,
    pub undone: Undone,
    pub foreign: ForeignPolicy,
    /// The reason why the last import failed.
    pub import_error: Option<String>,
    pub questions: Questions,
    pub tally: Tally,
    unsaved: bool,
}

/// Bounds of a site.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Retries of a batch that is refused for now.
    pub retries: u32,
    /// Ended operations that can still be queried.
    pub operations_kept: usize,
}

/// The devices and operations of the site.
#[derive(Debug)]
pub struct Flows {
    pub(crate) limits: Limits,
    devices: Vec<Option<Box<Device>>>,
    /// Nodes that have a device, are connected, or must still forget a table.
    pub(crate) peers: BTreeMap<NodeId, Peer>,
    count: usize,
    pub(crate) operations: BTreeMap<u64, Operation>,
    pub(crate) ended: VecDeque<u64>,
    pub(crate) next_operation: u64,
    /// Shared with whoever describes owners.
    pub(crate) applications: Arc<Applications>,
    next_question: u64,
    pub(crate) entries: usize,
    timers: BTreeSet<(MonoTime, DeviceKey)>,
    unsaved: IndexSet<DeviceKey>,
    /// Numbers of devices whose removal was not handed out yet. A new device under such a number
    /// would be removed with it.
    leaving: BTreeSet<usize>,
    changes: VecDeque<FlowChange>,
    effects: VecDeque<Effect>,
}

/// Entries in one change, enough that the cost of the change does not count.
const ENTRIES_PER_CHANGE: usize = 512;
/// Room kept for effects. A turn with a hundred thousand of them leaves no room for as many behind.
const EFFECTS_KEPT: usize = 1024;

impl Flows {
    /// A site without devices.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            devices: Vec::new(),
            peers: BTreeMap::new(),
            count: 0,
            operations: BTreeMap::new(),
            ended: VecDeque::new(),
            next_operation: 0,
            applications: Arc::default(),
            next_question: 0,
            entries: 0,
            timers: BTreeSet::new(),
            unsaved: IndexSet::new(),
            leaving: BTreeSet::new(),
            changes: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// State that exists only while something goes on. A table stays as long as its bridge, but its
    /// entries go.
    pub fn leftovers(&self) -> [(&'static str, usize); 9] {
        let devices = || self.devices.iter().flatten();
        [
            ("entries of flow tables", self.entries),
            ("open operations on flow tables", self.operations.len().saturating_sub(self.ended.len())),
            ("flow tables to be written", self.unsaved.len()),
            ("flow tables that leave", self.leaving.len()),
            ("tables named by a greeting", self.peers.values().map(Peer::named).sum()),
            ("batches in flight", devices().filter(|device| device.in_flight.is_some()).count()),
            ("writes that are waited for", devices().map(|device| device.waiters.len()).sum()),
            ("guards of writes", devices().map(|device| device.guards.len()).sum()),
            ("comparisons", devices().filter(|device| device.comparing.is_some()).count()),
        ]
    }

    /// The device with this name, if it has a table.
    pub fn find(&self, name: &DeviceName) -> Option<DeviceKey> {
        self.peers.get(&name.node)?.devices.get(&name.bridge).copied()
    }

    pub(crate) fn get(&self, key: DeviceKey) -> Option<&Device> {
        self.devices.get(key.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, key: DeviceKey) -> Option<&mut Device> {
        self.devices.get_mut(key.0 as usize)?.as_deref_mut()
    }

    /// Whether a node has a table, or must still forget one.
    pub fn knows(&self, node: &NodeId) -> bool {
        self.peers.get(node).is_some_and(|peer| !peer.devices.is_empty() || !peer.forgotten.is_empty())
    }

    /// Devices of a node that have rules in their tables, with the number of rules.
    pub fn rules_on(&self, node: &NodeId) -> impl Iterator<Item = (&Bridge, usize)> {
        let devices = self.peers.get(node).into_iter().flat_map(|peer| &peer.devices);
        let rules =
            devices.map(|(bridge, key)| (bridge, self.get(*key).map_or(0, |device| device.table.len())));
        rules.filter(|(_, rules)| *rules > 0)
    }

    pub(crate) fn of_node(&self, node: &NodeId) -> Vec<DeviceKey> {
        self.peers.get(node).into_iter().flat_map(|peer| peer.devices.values()).copied().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (DeviceKey, &Device)> {
        (0..).zip(&self.devices).filter_map(|(at, device)| Some((DeviceKey(at), device.as_deref()?)))
    }

    /// Makes a table at this number, or at the first free one.
    pub(crate) fn insert(&mut self, at: Option<u32>, name: DeviceName) -> DeviceKey {
        let is_full = self.devices.len() <= self.count + self.leaving.len();
        let mut places = (0..).zip(&self.devices);
        let mut free = || places.position(|(at, it)| it.is_none() && !self.leaving.contains(&at));
        let free = if is_full { None } else { free() };
        let at = at.map(|at| at as usize).or(free).unwrap_or(self.devices.len());
        if self.devices.len() <= at {
            self.devices.resize_with(at + 1, || None);
        }
        let key = DeviceKey(u32::try_from(at).expect("bounded by DEVICES_MAX"));
        self.devices[at] = Some(Box::new(Device {
            name: name.clone(),
            table: Table::default(),
            in_flight: None,
            waiters: BTreeMap::new(),
            guards: BTreeMap::new(),
            heard: false,
            state: None,
            narrow_upto: None,
            apart: None,
            tries: 0,
            said_again: None,
            not_before: None,
            comparing: None,
            odd: None,
            repairs: 0,
            undone: Undone::default(),
            foreign: ForeignPolicy::default(),
            import_error: None,
            questions: Questions::default(),
            tally: Tally::default(),
            unsaved: false,
        }));
        self.peers.entry(name.node).or_default().devices.insert(name.bridge, key);
        self.count += 1;
        key
    }

    pub(crate) fn remove(&mut self, key: DeviceKey) {
        let Some(device) = self.devices.get_mut(key.0 as usize).and_then(Option::take) else { return };
        if let Some(peer) = self.peers.get_mut(&device.name.node) {
            peer.devices.remove(&device.name.bridge);
        }
        self.drop_idle_peer(&device.name.node);
        self.count -= 1;
        self.unsaved.swap_remove(&key);
        self.entries -= device.table.len();
        self.leaving.insert(key.0 as usize);
        self.change(FlowChange::DeviceRemoved(key.0));
    }

    /// Forgets a node that is away and has no tables.
    pub(crate) fn drop_idle_peer(&mut self, node: &NodeId) {
        if self.peers.get(node).is_some_and(Peer::is_idle) {
            self.peers.remove(node);
        }
    }

    /// The table with this name, which is made if necessary. The site knows its node.
    pub(crate) fn device(&mut self, name: &DeviceName) -> Result<DeviceKey, Refused> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if self.count >= DEVICES_MAX {
            return Err(Refused::Conflict(format!("the site has {DEVICES_MAX} devices, which is its limit")));
        }
        let peer = self.peers.get(&name.node);
        if peer.is_some_and(|peer| peer.devices.len() >= NODE_DEVICES_MAX) {
            return Err(Refused::Conflict(format!(
                "node {} has {NODE_DEVICES_MAX} devices, which is the limit",
                name.node
            )));
        }
        // The agent has reported all its tables, and this is a new one.
        let has_told = peer.is_some_and(|peer| peer.has_told);
        let key = self.insert(None, name.clone());
        if let Some(device) = self.get_mut(key) {
            device.heard = has_told;
        }
        self.device_changed(key);
        Ok(key)
    }

    /// The table with this name, if there is one.
    pub(crate) fn known_device(&self, site: &dyn Site, name: &DeviceName) -> Result<DeviceKey, Refused> {
        if let Some(key) = self.find(name) {
            return Ok(key);
        }
        if let Some(unknown) = site.unknown(&name.node) {
            return Err(Refused::NotFound(unknown));
        }
        let bridges = self.peers.get(&name.node).into_iter().flat_map(|peer| peer.devices.keys());
        let near = muster_template::suggestion(name.bridge.as_str(), bridges.map(Bridge::as_str));
        Err(Refused::NotFound(format!("there are no flow rules of device '{name}'{near}")))
    }

    pub fn name(&self, key: DeviceKey) -> Option<&DeviceName> {
        Some(&self.get(key)?.name)
    }

    pub fn standing(&self, device: &DeviceName, id: FlowId) -> Option<FlowStanding> {
        let device = self.get(self.find(device)?)?;
        Some(device.table.standing(device.table.get(id)?))
    }

    /// Marks the device's record to be saved.
    pub(crate) fn device_changed(&mut self, key: DeviceKey) {
        if let Some(device) = self.get_mut(key) {
            device.unsaved = true;
            self.touched(key);
        }
    }

    /// Marks the device or its entries to be saved.
    pub(crate) fn touched(&mut self, key: DeviceKey) {
        self.unsaved.insert(key);
    }

    pub(crate) fn change(&mut self, change: FlowChange) {
        self.changes.push_back(change);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn send(&mut self, node: NodeId, message: FlowDown) {
        if self.peers.get(&node).is_some_and(Peer::is_there) {
            self.effects.push_back(Effect::Send { node, message });
        }
    }

    pub(crate) fn next_question(&mut self) -> u64 {
        self.next_question += 1;
        self.next_question
    }

    pub(crate) fn set_timer(&mut self, due: MonoTime, key: DeviceKey) {
        self.timers.insert((due, key));
    }

    /// When to call [`Flows::timeout`].
    pub fn next_due(&self) -> Option<MonoTime> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// A device whose timer is due.
    pub(crate) fn next_timer(&mut self, now: MonoTime) -> Option<DeviceKey> {
        self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.pop_first().map(|(_, key)| key)
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if effect.is_none() {
            self.effects.shrink_to(EFFECTS_KEPT);
        }
        effect
    }

    /// The next change to persist. Changes of devices and entries are made only now, so that a
    /// million of them are never in memory at once.
    pub fn poll_change(&mut self) -> Option<FlowChange> {
        let change = self.next_unsaved().or_else(|| self.changes.pop_front())?;
        if let FlowChange::DeviceRemoved(number) = change {
            // The removal is handed out, so the number is free.
            self.leaving.remove(&(number as usize));
        }
        Some(change)
    }

    fn next_unsaved(&mut self) -> Option<FlowChange> {
        loop {
            let key = *self.unsaved.last()?;
            let Some(device) = self.devices.get_mut(key.0 as usize).and_then(Option::as_mut) else {
                self.unsaved.pop();
                continue;
            };
            if std::mem::take(&mut device.unsaved) {
                return Some(FlowChange::Device(Box::new(device.record(key))));
            }
            let (entries, gone) = device.table.next_unsaved(ENTRIES_PER_CHANGE);
            if !entries.is_empty() || !gone.is_empty() {
                return Some(FlowChange::Entries { device: key.0, entries, gone });
            }
            if !device.table.is_unsaved() {
                self.unsaved.pop();
            }
        }
    }
}

impl Device {
    fn record(&self, key: DeviceKey) -> FlowDeviceRecord {
        FlowDeviceRecord {
            device: key.0,
            node: self.name.node.clone(),
            bridge: self.name.bridge.clone(),
            serial: self.table.serial(),
            settled: self.table.settled(),
            sent: self.in_flight.as_ref().map(|batch| (batch.generation, batch.serial)),
            foreign: self.foreign,
        }
    }

    /// The first open write up to this serial, with or without a waiter.
    pub fn first_undecided(&self, upto: u64) -> Option<u64> {
        let awaited = self.waiters.keys().next().copied().filter(|first| *first <= upto);
        awaited.into_iter().chain(self.table.undecided(self.table.waiting(), upto).min()).min()
    }

    /// Number of open writes with a waiter.
    pub fn open(&self) -> usize {
        self.waiters.len()
    }
}
