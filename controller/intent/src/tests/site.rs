//! A manager with a network of devices, which do writes when the test lets them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};

use super::*;
use crate::manager::{
    Effect, IntentNo, IntentRecord, IntentRefused, Manager, Op, SettledPort, TableEntry, Token, Wish,
};
use crate::phase::State;

/// A site whose devices do writes when the test lets them.
#[derive(Default)]
pub(super) struct Site {
    pub manager: Manager,
    pub now: MonoTime,
    pub plane: Plane,
    pub waiting: VecDeque<(Token, IntentNo, DeviceName, Vec<Op>)>,
    /// Devices that refuse puts and accept removals.
    pub refusing: BTreeSet<DeviceName>,
    /// Devices that refuse puts and removals.
    pub undoing: BTreeSet<DeviceName>,
    /// After a restart, cables that are down are unknown.
    pub forgets: bool,
    /// Devices that do not answer.
    pub silent: BTreeSet<DeviceName>,
    pub saved: BTreeMap<IntentNo, IntentRecord>,
    pub owners: BTreeMap<(DeviceName, FlowId), (IntentNo, Packed)>,
    /// Refused entries that replaced none. The table has them as FAILED until a write removes or
    /// puts them.
    pub failed: BTreeMap<(DeviceName, FlowId), (IntentNo, Packed)>,
    next: u64,
    pub states: Vec<(String, State)>,
}

impl Site {
    pub fn new(cables: &str) -> Self {
        let mut site = Self::default();
        let topology = network(cables);
        for device in topology.all_devices() {
            let ports: Vec<SettledPort> = topology
                .ports(device)
                .map(|port| SettledPort { name: topology.point(port).port, up: true, heard: None })
                .collect();
            site.manager.tell_device(site.now, topology.device_name(device), true, &ports);
        }
        for link in topology.known_links() {
            let (from, to) = topology.ends(link);
            let (from, to) = (topology.point(from), topology.point(to));
            site.manager.declare(&from, &to, topology.traits(link)).expect("a link");
        }
        site.settle();
        site
    }

    pub fn submit(&mut self, key: &str, intent: Intent) -> Result<IntentNo, IntentRefused> {
        self.next += 1;
        self.manager.submit(key, IntentNo(self.next), Wish { intent: Arc::new(intent), group: None })
    }

    /// Takes all effects, and does none of the writes.
    pub fn take(&mut self) {
        self.manager.run(self.now);
        while let Some(effect) = self.manager.poll_effect() {
            match effect {
                Effect::Write { token, intent, device, ops } => {
                    self.waiting.push_back((token, intent, device, ops));
                }
                Effect::Save(no) => {
                    let record = self.manager.record(no).expect("it is there");
                    if self.saved.get(&no).is_none_or(|old| old.state != record.state) {
                        self.states.push((record.key.to_string(), record.state));
                    }
                    self.saved.insert(no, record);
                }
                Effect::Forget(no) => drop(self.saved.remove(&no)),
            }
        }
    }

    /// Does the `at`th write that can be done. Returns false if there is none. Writes of one device
    /// are done in order.
    pub fn step(&mut self, at: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut ready = Vec::new();
        for (at, (_, _, device, _)) in self.waiting.iter().enumerate() {
            if seen.insert(device.clone()) && !self.silent.contains(device) {
                ready.push(at);
            }
        }
        let Some(at) = (!ready.is_empty()).then(|| ready[at % ready.len()]) else { return false };
        let Some((token, intent, device, ops)) = self.waiting.remove(at) else { return false };
        let puts = ops.iter().any(|op| matches!(op, Op::Put(_)));
        // A put of another intent's rule is refused, because a rule has one owner.
        let is_others = |op: &Op| {
            let Op::Put(packed) = op else { return false };
            let owner = self.owners.get(&(device.clone(), packed.unpack().id(&device)));
            owner.is_some_and(|(owner, _)| *owner != intent)
        };
        if puts && self.refusing.contains(&device) {
            for op in &ops {
                if let Op::Put(packed) = op {
                    let place = (device.clone(), packed.unpack().id(&device));
                    if !self.owners.contains_key(&place) {
                        self.failed.insert(place, (intent, packed.clone()));
                    }
                }
            }
            self.written(token, Err("no room".into()));
        } else if self.undoing.contains(&device) {
            self.written(token, Err("undone".into()));
        } else if ops.iter().any(is_others) {
            self.written(token, Err("the rule belongs to another".into()));
        } else {
            self.apply(intent, &device, &ops);
            self.written(token, Ok(()));
        }
        self.take();
        true
    }

    pub fn written(&mut self, token: Token, end: Result<(), Box<str>>) {
        let Self { manager, owners, failed, waiting, .. } = self;
        manager.written(self.now, [(token, end)], |no, device, packed| {
            lies(owners, failed, waiting, no, device, packed.unpack().id(device))
        });
    }

    pub fn apply(&mut self, intent: IntentNo, device: &DeviceName, ops: &[Op]) {
        let number = self.manager.topology().device(device).expect("a device");
        for op in ops {
            let (Op::Put(packed) | Op::Remove(packed)) = op;
            let entry = packed.unpack();
            let place = (device.clone(), entry.id(device));
            if self.failed.get(&place).is_some_and(|(owner, _)| *owner == intent) {
                self.failed.remove(&place);
            }
            match op {
                Op::Put(_) => {
                    self.owners.insert(place, (intent, packed.clone()));
                    self.plane.apply(&Step::Put(number, entry));
                }
                Op::Remove(_) if self.owners.get(&place).is_some_and(|(owner, _)| *owner == intent) => {
                    self.owners.remove(&place);
                    self.plane.apply(&Step::Remove(number, entry));
                }
                Op::Remove(_) => {}
            }
        }
    }

    /// Does writes until none is left.
    pub fn settle(&mut self) {
        self.take();
        while self.step(0) {}
    }

    /// Lets time pass, timer by timer.
    pub fn wait(&mut self, time: Duration) {
        self.settle();
        let end = self.now + time;
        while let Some(due) = self.manager.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    pub fn port(&mut self, point: &str, up: bool) {
        let point = at(point);
        let topology = self.manager.topology();
        let device = topology.device(&point.device).expect("a device");
        let ports: Vec<SettledPort> = topology
            .ports(device)
            .map(|port| {
                let name = topology.point(port).port;
                let was = topology.is_port_up(port);
                SettledPort { up: if name == point.port { up } else { was }, name, heard: None }
            })
            .collect();
        self.manager.tell_device(self.now, &point.device, true, &ports);
    }

    /// Sets both ends of a cable.
    pub fn cable(&mut self, one: &str, other: &str, up: bool) {
        self.port(&format!("{one}:{other}"), up);
        self.port(&format!("{other}:{one}"), up);
    }

    pub fn state(&self, key: &str) -> Option<State> {
        Some(self.manager.state(self.manager.find(key)?)?.0)
    }

    pub fn reason(&self, key: &str) -> String {
        let found = self.manager.find(key).and_then(|no| self.manager.state(no));
        found.and_then(|(_, reason)| reason).unwrap_or_default().to_owned()
    }

    pub fn path(&self, key: &str) -> String {
        let view = self.manager.find(key).and_then(|no| self.manager.view(self.now, no)).expect("an intent");
        let names =
            |path: &Vec<DeviceName>| path.iter().map(|it| it.node.to_string()).collect::<Vec<_>>().join(" ");
        view.paths.iter().map(names).collect::<Vec<_>>().join(", ")
    }

    pub fn states_of(&self, key: &str) -> Vec<State> {
        self.states.iter().filter(|(of, _)| of == key).map(|(_, state)| *state).collect()
    }

    /// Restarts the manager from the saved records and the entries on devices.
    pub fn restart(&mut self) {
        let old = std::mem::take(&mut self.manager);
        let topology = old.topology();
        for device in topology.all_devices() {
            let ports: Vec<SettledPort> = old
                .port_records(device)
                .into_iter()
                .map(|port| SettledPort { name: port.name, up: port.up, heard: port.heard })
                .collect();
            self.manager.tell_device(self.now, topology.device_name(device), true, &ports);
        }
        // A cable that is down and was only discovered is unknown.
        for link in topology.known_links().filter(|link| !self.forgets || topology.passes(*link)) {
            let (from, to) = topology.ends(link);
            let (from, to) = (topology.point(from), topology.point(to));
            self.manager.declare(&from, &to, topology.traits(link)).expect("a link");
        }
        // Open writes are in the flow table, and go on from there.
        let waiting = std::mem::take(&mut self.waiting);
        let ids = |(_, _, device, ops): &(Token, IntentNo, DeviceName, Vec<Op>)| {
            let id = |op: &Op| (device.clone(), op.packed().unpack().id(device));
            ops.iter().map(id).collect::<Vec<_>>()
        };
        let mut places: BTreeSet<Place> = self.owners.keys().chain(self.failed.keys()).cloned().collect();
        places.extend(waiting.iter().flat_map(ids));
        for (no, record) in self.saved.clone() {
            let (mut placed, mut failed) = (Vec::new(), Vec::new());
            for (device, id) in &places {
                match lies(&self.owners, &self.failed, &waiting, no, device, *id) {
                    TableEntry::Nothing => {}
                    TableEntry::Entry(packed) => placed.push((device.clone(), packed)),
                    TableEntry::Failed(packed) => failed.push((device.clone(), packed)),
                }
            }
            self.manager.load(record, placed, failed);
        }
        for (_, no, device, mut ops) in waiting {
            // The table makes no write for an entry that is there already.
            let is_open = |op: &Op| {
                let id = op.packed().unpack().id(&device);
                let (owners, failed) = (&self.owners, &self.failed);
                let there = lies(owners, failed, &self.waiting, no, &device, id);
                !matches!(op, Op::Put(packed) if there == TableEntry::Entry(packed.clone()))
            };
            ops.retain(is_open);
            if ops.is_empty() {
                continue;
            }
            let is_met = |packed: &Packed| {
                let id = packed.unpack().id(&device);
                ops.iter().any(|op| op.packed().unpack().id(&device) == id)
            };
            let lie = self.owners.iter().filter(|((of, _), (owner, _))| *of == device && *owner == no);
            let older = self.waiting.iter().filter(|(_, of, at, _)| *of == no && *at == device);
            let older = older.flat_map(|(_, _, _, ops)| ops.iter().map(Op::packed));
            let before = lie.map(|(_, (_, packed))| packed).chain(older).filter(|it| is_met(it));
            let before = before.cloned().collect();
            let token =
                self.manager.load_open(no, &device, ops.clone(), before).expect("whoever waits is known");
            self.waiting.push_back((token, no, device, ops));
        }
        self.take();
    }
}

type Place = (DeviceName, FlowId);
type Owned = BTreeMap<Place, (IntentNo, Packed)>;

/// The answer of the flow table about an entry of an intent, with open writes.
fn lies(
    owners: &Owned,
    failed: &Owned,
    waiting: &VecDeque<(Token, IntentNo, DeviceName, Vec<Op>)>,
    no: IntentNo,
    device: &DeviceName,
    id: FlowId,
) -> TableEntry {
    let own = waiting.iter().rev().filter(|(_, of, at, _)| *of == no && at == device);
    let newest = own.flat_map(|(_, _, _, ops)| ops).find(|op| op.packed().unpack().id(device) == id);
    let place = (device.clone(), id);
    let of = |all: &Owned| all.get(&place).filter(|(of, _)| *of == no).map(|(_, packed)| packed.clone());
    match newest {
        Some(Op::Put(packed)) => TableEntry::Entry(packed.clone()),
        Some(Op::Remove(_)) => TableEntry::Nothing,
        None => of(owners)
            .map(TableEntry::Entry)
            .or(of(failed).map(TableEntry::Failed))
            .unwrap_or(TableEntry::Nothing),
    }
}

pub(super) fn ring() -> Site {
    Site::new("a-b b-c c-d d-a")
}

pub(super) fn simple() -> Intent {
    from_to("a:h1", "b:h1", Constraints::default())
}

pub(super) fn arrives(site: &Site, from: &str, to: &str) {
    let fate = site.plane.walk(site.manager.topology(), &at(from));
    assert_eq!(fate, Fate::Out([to.to_owned()].into()));
}
