//! A device: its table, what is with its agent, and what the agent said of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use indexmap::IndexSet;
use muster_intent::manager::Token;
use muster_shared::model::ContentDigest;
use muster_shared::model::flow::{Bridge, DeviceName, FlowBatch, FlowId, FlowState};
use muster_shared::{Generation, MonoTime};
use muster_template::ForeignPolicy;
use std::sync::Arc;

use super::ask::Asks;
use super::forget::Forgotten;
use super::operation::Operation;
use super::reconcile::Comparing;
use super::record::{FlowChange, FlowDeviceRecord};
use super::table::Table;
use crate::engine::Engine;
use crate::node::NodeKey;
use crate::record::Change;
use crate::request::Refusal;
use crate::resource::Slot;

/// Entries of one device: as many as a flow file may have, and room for what a stack adds.
pub(super) const DEVICE_ENTRIES_MAX: usize = 2_000_000;
/// Entries of all devices: at 200 bytes each they are most of a gigabyte.
pub(super) const ENTRIES_MAX: usize = 4_000_000;
/// Devices of all nodes; each costs some kilobytes.
const DEVICES_MAX: usize = 100_000;
/// Devices of one node, also of one that lies.
pub(super) const NODE_DEVICES_MAX: usize = 256;
/// Writes of a device that are not decided: each may keep what was before it.
pub(super) const OPEN_MAX: usize = 1024;

/// Where a device lies in memory, and its number in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DeviceKey(pub u32);

/// Who waits for a write to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A stage of an operation; so many entries.
    Operation(u64, u64),
    /// A job of a row.
    Row(Slot, Generation, u32),
    /// An intent's write.
    Intent(Token),
    /// A job of a row that begins when the write of another has ended.
    After(Slot, Generation, u32),
}

/// A batch that its agent may have.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub generation: Generation,
    /// The newest write in it.
    pub serial: u64,
    pub ids: Vec<FlowId>,
    /// Those of `ids` that are more than ADDED when it is settled.
    pub special: Vec<FlowId>,
    /// It takes something off the device that is in no table.
    pub with_strays: bool,
    /// None after a restart: what it was is not known any more, only how it ended.
    pub batch: Option<FlowBatch>,
    /// Where it is too large for a message.
    pub stored: Option<(ContentDigest, Arc<[u8]>)>,
    /// The connection it was sent over.
    pub connection: Option<u64>,
    /// When.
    pub sent_at: MonoTime,
}

/// What has happened to a device since this start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub batches: u64,
    pub refusals: u64,
    pub reconciliations: u64,
    pub repaired: u64,
}

/// Something that holds flow rules.
#[derive(Debug)]
pub(crate) struct Device {
    pub node: NodeKey,
    pub bridge: Bridge,
    pub table: Table,
    pub in_flight: Option<InFlight>,
    /// Who waits, by the write that decides.
    pub waiters: BTreeMap<u64, Vec<Target>>,
    /// Writes that are guarded, with their time.
    pub guards: BTreeMap<u64, u32>,
    /// The agent has said how all its devices stand since it greeted.
    pub heard: bool,
    /// What it said of this one; none: it has no table of it.
    pub state: Option<FlowState>,
    /// One write in a batch, up to this: the agent could not say whose fault a refusal was.
    pub narrow_upto: Option<u64>,
    /// Repairs go without writes, so many at a time: one of them was refused.
    pub apart: Option<usize>,
    /// Tries of the present batch that came to nothing.
    pub tries: u32,
    /// When it is seen whether the batch in flight is to be said again.
    pub said_again: Option<MonoTime>,
    /// Nothing is sent before.
    pub not_before: Option<MonoTime>,
    pub comparing: Option<Comparing>,
    /// Roots, theirs and ours, that a comparison could not explain.
    pub odd: Option<(u64, u64)>,
    /// Comparisons in a row that found something.
    pub repairs: u32,
    pub foreign: ForeignPolicy,
    /// Why the last import came to nothing.
    pub import_error: Option<String>,
    pub asks: Asks,
    pub tally: Tally,
    pub(super) unsaved: bool,
}

/// All devices and operations.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    devices: Vec<Option<Box<Device>>>,
    by_name: BTreeMap<NodeKey, BTreeMap<Bridge, DeviceKey>>,
    count: usize,
    pub operations: BTreeMap<u64, Operation>,
    pub ended: VecDeque<u64>,
    pub next_operation: u64,
    pub next_number: u64,
    pub entries: usize,
    pub forgotten: BTreeMap<NodeKey, BTreeMap<Bridge, Forgotten>>,
    unsaved: IndexSet<DeviceKey>,
    /// Numbers of devices whose removal is not handed out: what is written of another would be removed by it.
    leaving: BTreeSet<usize>,
}

/// Entries in one change: enough that its own cost does not count.
const ENTRIES_PER_CHANGE: usize = 512;

impl Flows {
    /// See [`Engine::leftovers`](crate::Engine::leftovers). A table stays as long as its bridge; what was in it goes.
    pub fn leftovers(&self) -> [(&'static str, usize); 8] {
        let devices = || self.devices.iter().flatten();
        [
            ("entries of flow tables", self.entries),
            ("open operations on flow tables", self.operations.len().saturating_sub(self.ended.len())),
            ("flow tables to be written", self.unsaved.len()),
            ("flow tables that leave", self.leaving.len()),
            ("batches in flight", devices().filter(|device| device.in_flight.is_some()).count()),
            ("writes that are waited for", devices().map(|device| device.waiters.len()).sum()),
            ("guards of writes", devices().map(|device| device.guards.len()).sum()),
            ("comparisons", devices().filter(|device| device.comparing.is_some()).count()),
        ]
    }

    pub fn find(&self, node: NodeKey, bridge: &Bridge) -> Option<DeviceKey> {
        self.by_name.get(&node)?.get(bridge).copied()
    }

    pub fn get(&self, key: DeviceKey) -> Option<&Device> {
        self.devices.get(key.0 as usize)?.as_deref()
    }

    pub fn get_mut(&mut self, key: DeviceKey) -> Option<&mut Device> {
        self.devices.get_mut(key.0 as usize)?.as_deref_mut()
    }

    /// It has a table of this node, or of one that was given up.
    pub fn knows(&self, node: NodeKey) -> bool {
        self.by_name.get(&node).is_some_and(|devices| !devices.is_empty())
            || self.forgotten.contains_key(&node)
    }

    pub fn of_node(&self, node: NodeKey) -> Vec<DeviceKey> {
        self.by_name.get(&node).into_iter().flat_map(BTreeMap::values).copied().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (DeviceKey, &Device)> {
        (0..).zip(&self.devices).filter_map(|(at, device)| Some((DeviceKey(at), device.as_deref()?)))
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// At this number, or at the first that is free.
    pub fn insert(&mut self, at: Option<u32>, node: NodeKey, bridge: Bridge) -> DeviceKey {
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
            node,
            bridge: bridge.clone(),
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
            foreign: ForeignPolicy::default(),
            import_error: None,
            asks: Asks::default(),
            tally: Tally::default(),
            unsaved: false,
        }));
        self.by_name.entry(node).or_default().insert(bridge, key);
        self.count += 1;
        key
    }

    pub fn remove(&mut self, key: DeviceKey) {
        let Some(device) = self.devices.get_mut(key.0 as usize).and_then(Option::take) else { return };
        if let Some(bridges) = self.by_name.get_mut(&device.node) {
            bridges.remove(&device.bridge);
        }
        self.count -= 1;
        self.unsaved.swap_remove(&key);
        self.entries -= device.table.len();
        self.leaving.insert(key.0 as usize);
    }

    /// Its removal is handed out: the number is free.
    pub fn left(&mut self, number: u32) {
        self.leaving.remove(&(number as usize));
    }

    /// Something of the device or its entries is to be written down.
    pub fn touched(&mut self, key: DeviceKey) {
        self.unsaved.insert(key);
    }

    fn next_change(&mut self, names: impl Fn(NodeKey) -> muster_shared::NodeId) -> Option<FlowChange> {
        loop {
            let key = *self.unsaved.last()?;
            let Some(device) = self.devices.get_mut(key.0 as usize).and_then(Option::as_mut) else {
                self.unsaved.pop();
                continue;
            };
            if std::mem::take(&mut device.unsaved) {
                return Some(FlowChange::Device(Box::new(device.record(key, names(device.node)))));
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
    fn record(&self, key: DeviceKey, node: muster_shared::NodeId) -> FlowDeviceRecord {
        FlowDeviceRecord {
            device: key.0,
            node,
            bridge: self.bridge.clone(),
            serial: self.table.serial(),
            settled: self.table.settled(),
            sent: self.in_flight.as_ref().map(|batch| (batch.generation, batch.serial)),
            foreign: self.foreign,
        }
    }

    /// Writes that are not decided and somebody waits for.
    pub fn open(&self) -> usize {
        self.waiters.len()
    }
}

impl Engine {
    /// The device of this name, made if need be.
    pub(crate) fn device(&mut self, name: &DeviceName) -> Result<DeviceKey, Refusal> {
        let node = self.nodes.find(&name.node);
        if let Some(key) = node.and_then(|node| self.flows.find(node, &name.bridge)) {
            return Ok(key);
        }
        if self.flows.len() >= DEVICES_MAX {
            return Err(Refusal::Conflict(format!("the site has {DEVICES_MAX} devices, which is its limit")));
        }
        if node.is_none() && !self.has_room_for_nodes(1) {
            return Err(Refusal::Conflict("too many nodes are named that have never joined".into()));
        }
        let node = self.nodes.key(&name.node);
        if self.flows.of_node(node).len() >= NODE_DEVICES_MAX {
            return Err(Refusal::Conflict(format!(
                "node {} has {NODE_DEVICES_MAX} devices, which is the limit",
                name.node
            )));
        }
        let key = self.flows.insert(None, node, name.bridge.clone());
        if let Some(device) = self.flows.get_mut(key) {
            // It has told of all it has, and this is none of them.
            device.heard = self.nodes[node].flows_heard;
        }
        self.device_changed(key);
        Ok(key)
    }

    /// The device of this name, if there is one.
    pub(crate) fn known_device(&self, name: &DeviceName) -> Result<DeviceKey, Refusal> {
        let node = self.nodes.find(&name.node);
        if let Some(key) = node.and_then(|node| self.flows.find(node, &name.bridge)) {
            return Ok(key);
        }
        let Some(node) = node else {
            return Err(Refusal::NotFound(match self.nodes.nearest(name.node.as_str()) {
                Some(near) => format!("no node '{}' is known; did you mean {near}?", name.node),
                None => format!("no node '{}' is known: see 'muster node list'", name.node),
            }));
        };
        let bridges = self.flows.of_node(node).into_iter().filter_map(|key| self.flows.get(key));
        let bridges: Vec<&str> = bridges.map(|device| device.bridge.as_str()).collect();
        let near = muster_template::suggestion(name.bridge.as_str(), bridges);
        Err(Refusal::NotFound(format!("there are no flow rules of device '{name}'{near}")))
    }

    pub(crate) fn device_name(&self, key: DeviceKey) -> Option<DeviceName> {
        let device = self.flows.get(key)?;
        Some(DeviceName { node: self.nodes[device.node].name.clone(), bridge: device.bridge.clone() })
    }

    /// Its record is to be written.
    pub(crate) fn device_changed(&mut self, key: DeviceKey) {
        if let Some(device) = self.flows.get_mut(key) {
            device.unsaved = true;
            self.flows.touched(key);
        }
    }

    /// The next change of a device or its entries: made only now, so that a million of them never lie in memory at once.
    pub(crate) fn next_flow_change(&mut self) -> Option<Change> {
        let nodes = &self.nodes;
        self.flows.next_change(|key| nodes[key].name.clone()).map(Change::Flow)
    }
}
