//! What the manager makes of requests, of devices that refuse, and of a network that changes. The cases are those of
//! ONOS's tests of its intent manager, clean-up, installer and tracker (`docs/intents.md`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};

use super::*;
use crate::manager::{
    Effect, IntentNo, IntentRecord, IntentRefused, Lies, Manager, Op, SettledPort, Token, Wish,
};
use crate::phase::{Request, State};

/// A site whose devices do what they are told, when they are told to.
#[derive(Default)]
pub(super) struct Site {
    pub manager: Manager,
    pub now: MonoTime,
    pub plane: Plane,
    pub waiting: VecDeque<(Token, IntentNo, DeviceName, Vec<Op>)>,
    /// Devices that refuse whatever they are told, but for what is taken away.
    pub refusing: BTreeSet<DeviceName>,
    /// Devices that undo whatever they are told, also what is taken away.
    pub undoing: BTreeSet<DeviceName>,
    /// Devices that say nothing.
    pub silent: BTreeSet<DeviceName>,
    pub saved: BTreeMap<IntentNo, IntentRecord>,
    pub owners: BTreeMap<(DeviceName, FlowId), (IntentNo, Packed)>,
    /// What was refused where nothing was: the table has it as FAILED until somebody takes it out or puts it again.
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

    /// Takes effects, and does none of the writes.
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

    /// Does one write, the `at`th that can be done; false if there is none. Writes of one device are done in order.
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
        // A rule has one owner.
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

    fn written(&mut self, token: Token, end: Result<(), Box<str>>) {
        let Self { manager, owners, failed, waiting, .. } = self;
        manager.written(self.now, [(token, end)], |no, device, packed| {
            lies(owners, failed, waiting, no, device, packed.unpack().id(device))
        });
    }

    fn apply(&mut self, intent: IntentNo, device: &DeviceName, ops: &[Op]) {
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

    /// Until nothing more is written.
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

    /// Both ends of a cable.
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

    fn states_of(&self, key: &str) -> Vec<State> {
        self.states.iter().filter(|(of, _)| of == key).map(|(_, state)| *state).collect()
    }

    /// As if the controller had been started anew: what was saved, and what is on the devices, is what is known.
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
        for link in topology.known_links() {
            let (from, to) = topology.ends(link);
            let (from, to) = (topology.point(from), topology.point(to));
            self.manager.declare(&from, &to, topology.traits(link)).expect("a link");
        }
        // What was on its way is in the flow table, and goes on from there.
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
                    Lies::Nothing => {}
                    Lies::Entry(packed) => placed.push((device.clone(), packed)),
                    Lies::Failed(packed) => failed.push((device.clone(), packed)),
                }
            }
            self.manager.load(record, placed, failed);
        }
        for (_, no, device, mut ops) in waiting {
            // What is there already is no write of the table's.
            let is_open = |op: &Op| {
                let id = op.packed().unpack().id(&device);
                let (owners, failed) = (&self.owners, &self.failed);
                let there = lies(owners, failed, &self.waiting, no, &device, id);
                !matches!(op, Op::Put(packed) if there == Lies::Entry(packed.clone()))
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

/// What the table says: what is decided, and what waits to be.
fn lies(
    owners: &Owned,
    failed: &Owned,
    waiting: &VecDeque<(Token, IntentNo, DeviceName, Vec<Op>)>,
    no: IntentNo,
    device: &DeviceName,
    id: FlowId,
) -> Lies {
    let own = waiting.iter().rev().filter(|(_, of, at, _)| *of == no && at == device);
    let newest = own.flat_map(|(_, _, _, ops)| ops).find(|op| op.packed().unpack().id(device) == id);
    let place = (device.clone(), id);
    let of = |all: &Owned| all.get(&place).filter(|(of, _)| *of == no).map(|(_, packed)| packed.clone());
    match newest {
        Some(Op::Put(packed)) => Lies::Entry(packed.clone()),
        Some(Op::Remove(_)) => Lies::Nothing,
        None => of(owners).map(Lies::Entry).or(of(failed).map(Lies::Failed)).unwrap_or(Lies::Nothing),
    }
}

fn ring() -> Site {
    Site::new("a-b b-c c-d d-a")
}

fn simple() -> Intent {
    from_to("a:h1", "b:h1", Constraints::default())
}

fn arrives(site: &Site, from: &str, to: &str) {
    let fate = site.plane.walk(site.manager.topology(), &at(from));
    assert_eq!(fate, Fate::Out([to.to_owned()].into()));
}

#[test]
fn submitted_it_is_installed_and_withdrawn_nothing_is_left() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.states_of("one"), [State::Installing, State::Installed]);
    assert_eq!(site.plane.0.len(), 2);
    arrives(&site, "a:h1", "b:h1");
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!(site.states_of("one")[2..], [State::Withdrawing, State::Withdrawn]);
    assert!(site.plane.0.is_empty());
    site.manager.purge("one").expect("taken");
    site.settle();
    assert_eq!((site.manager.len(), site.saved.len()), (0, 0));
    assert!(site.manager.ledger().is_empty());
}

#[test]
fn the_last_of_many_requests_for_a_key_counts() {
    let mut site = ring();
    for round in 0..50 {
        site.submit("one", simple()).expect("taken");
        if round % 3 == 0 {
            site.take();
        }
        site.manager.withdraw("one").expect("taken");
        if round % 2 == 0 {
            site.step(0);
        }
    }
    site.settle();
    assert_eq!((site.manager.len(), site.state("one")), (1, Some(State::Withdrawn)));
    assert!(site.plane.0.is_empty());
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Installed));
}

#[test]
fn five_hundred_come_and_go() {
    let mut site = ring();
    for number in 0..500_u128 {
        let mut intent = simple();
        intent.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: number, mask: None });
        site.submit(&number.to_string(), intent).expect("taken");
    }
    site.settle();
    assert_eq!(site.manager.count(State::Installed), 500);
    assert_eq!(site.plane.0.len(), 1000);
    for number in 0..500 {
        site.manager.withdraw(&number.to_string()).expect("taken");
    }
    site.settle();
    assert_eq!(site.manager.count(State::Withdrawn), 500);
    assert!(site.plane.0.is_empty());
}

#[test]
fn what_cannot_be_compiled_is_failed_with_why_and_never_waits() {
    let mut site = ring();
    let obstacles = [at("b:h1").device, at("d:h1").device].into();
    site.submit("one", from_to("a:h1", "c:h1", Constraints { obstacles, ..Constraints::default() }))
        .expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed));
    assert!(
        site.reason("one").contains("no path from a/br0 to c/br0 with the obstacles"),
        "{}",
        site.reason("one")
    );
    assert_eq!(site.manager.pending().count(), 0);
    site.submit("two", from_to("a:h1", "x:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(
        (site.state("two"), site.reason("two")),
        (Some(State::Failed), "there is no device x/br0".into())
    );
    // What is installed goes where the newer wish cannot be.
    site.submit("three", simple()).expect("taken");
    site.settle();
    site.submit("three", from_to("a:h1", "b:a", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.state("three"), Some(State::Failed));
    assert!(site.plane.0.is_empty());
    // What failed can be forgotten; what stands cannot.
    site.manager.purge("one").expect("taken");
    site.submit("four", simple()).expect("taken");
    site.settle();
    assert!(matches!(site.manager.purge("four"), Err(IntentRefused::NotWithdrawn { .. })));
    assert_eq!(site.manager.purge("none"), Err(IntentRefused::Unknown("none".into())));
}

#[test]
fn a_device_that_refuses_makes_it_corrupt_and_it_is_tried_again_ever_later() {
    let mut site = ring();
    site.refusing.insert(at("b:h1").device);
    site.submit("one", simple()).expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Corrupt));
    assert_eq!(site.reason("one"), "b/br0: no room");
    assert!(site.plane.0.is_empty(), "nothing is left of what was half there");
    let corrupt =
        |site: &Site| site.states_of("one").iter().filter(|state| **state == State::Corrupt).count();
    site.wait(Duration::from_secs(10));
    assert_eq!(corrupt(&site), 4, "at once, and after 1, 2 and 4 seconds");
    site.wait(Duration::from_secs(3600));
    assert!(corrupt(&site) < 25, "{}", corrupt(&site));
    site.refusing.clear();
    site.wait(Duration::from_secs(301));
    assert_eq!((site.state("one"), site.reason("one")), (Some(State::Installed), String::new()));
    assert_eq!(site.plane.0.len(), 2);
}

#[test]
fn a_move_that_fails_goes_back_to_where_it_stood() {
    let mut site = ring();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b c");
    site.refusing.insert(at("d:h1").device);
    let away = Constraints { obstacles: [at("b:h1").device].into(), ..Constraints::default() };
    site.submit("one", from_to("a:h1", "c:h1", away)).expect("taken");
    site.take();
    while site.step(0) {
        arrives(&site, "a:h1", "c:h1");
    }
    // What stands there is not what was asked for last.
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Corrupt), "a b c".into()));
    assert_eq!(site.reason("one"), "it could not be moved: d/br0: no room");
    assert_eq!(site.plane.0.len(), 3);
    site.refusing.clear();
    site.wait(Duration::from_secs(2));
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c".into()));
    // A better way that cannot be had.
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b c");
    site.refusing.insert(at("d:h1").device);
    let traits = LinkTraits { cost: 9, ..LinkTraits::default() };
    site.manager.declare(&at("a:b"), &at("b:a"), traits).expect("a link");
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a b c".into()));
    assert_eq!(site.reason("one"), "it could not be moved: d/br0: no room");
    arrives(&site, "a:h1", "c:h1");
}

#[test]
fn a_link_that_fails_moves_those_that_go_over_it_and_no_others() {
    let mut site = ring();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    let mut two = from_to("d:h1", "c:h2", Constraints::default());
    two.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    site.submit("two", two).expect("taken");
    site.settle();
    let states = site.states.len();
    site.cable("a", "b", false);
    site.settle();
    assert_eq!((site.path("one"), site.path("two")), ("a d c".into(), "d c".into()));
    assert_eq!(site.states_of("one")[2..], [State::Reallocating, State::Installed]);
    assert_eq!(site.states.len(), states + 2);
    arrives(&site, "a:h1", "c:h1");
    let view =
        site.manager.view(site.now, site.manager.find("one").expect("it is there")).expect("it is there");
    assert_eq!(view.history.len(), 1);
    assert!(view.history[0].why.contains("a/br0 port b"), "{}", view.history[0].why);
    assert!(view.history[0].before[0].iter().any(|device| device.node.as_str() == "b"));
    // No way at all: nothing is left; a way again: it is there again, by itself.
    site.cable("d", "a", false);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed));
    site.cable("a", "b", true);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Failed), "a cable that came back is waited for");
    site.wait(Duration::from_secs(1));
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a b c".into()));
}

#[test]
fn a_flapping_cable_is_waited_for_ever_longer() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    let moves =
        |site: &Site| site.states_of("one").iter().filter(|state| **state == State::Reallocating).count();
    for _ in 0..40 {
        site.cable("a", "b", false);
        site.wait(Duration::from_millis(300));
        site.cable("a", "b", true);
        site.wait(Duration::from_millis(300));
    }
    assert!(moves(&site) <= 2, "{}", moves(&site));
    assert_eq!(site.path("one"), "a d c b");
    site.wait(Duration::from_secs(40));
    // Who stands well stays, until something else happens.
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c b".into()));
    site.cable("c", "d", false);
    site.settle();
    assert_eq!(site.path("one"), "a b");
}

#[test]
fn a_move_while_moving_is_not_lost_and_no_packet_goes_round() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2 a-d=3 d-z=3");
    site.submit("one", from_to("a:h1", "z:h1", Constraints::default())).expect("taken");
    site.settle();
    site.cable("a", "b", false);
    site.take();
    site.step(0);
    site.cable("c", "z", false);
    site.take();
    while site.step(1) {
        assert_ne!(site.plane.walk(site.manager.topology(), &at("a:h1")), Fate::Round);
    }
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d z".into()));
    assert_eq!(site.plane.0.len(), 3);
    arrives(&site, "a:h1", "z:h1");
}

#[test]
fn a_node_that_says_nothing_holds_no_move_up() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2 a-d=3 d-z=3");
    site.submit("one", from_to("a:h1", "z:h1", Constraints::default())).expect("taken");
    site.settle();
    site.silent.insert(at("c:h1").device);
    site.cable("a", "b", false);
    site.settle();
    assert_eq!(site.state("one"), Some(State::Reallocating));
    let no = site.manager.find("one").expect("it is there");
    assert_eq!(site.manager.waits_for(no).len(), 1);
    // New ways keep off it once it is known to be away.
    site.manager.set_away(&at("c:h1").device, true).expect("a device");
    site.cable("c", "z", false);
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d z".into()));
    // Gone is what is gone everywhere.
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!(site.state("one"), Some(State::Withdrawing));
    site.silent.clear();
    site.settle();
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    assert!(site.plane.0.is_empty());
}

#[test]
fn a_withdrawal_is_not_undone_by_the_network() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.manager.withdraw("one").expect("taken");
    site.cable("a", "b", false);
    site.take();
    site.cable("a", "b", true);
    site.wait(Duration::from_secs(3));
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    site.cable("a", "d", false);
    site.cable("a", "d", true);
    site.wait(Duration::from_secs(100));
    assert_eq!(site.state("one"), Some(State::Withdrawn));
    assert!(site.plane.0.is_empty());
}

#[test]
fn bandwidth_is_held_once_and_what_one_gives_back_another_takes() {
    let mut site = Site::new("a-b");
    for (from, to) in [("a", "b"), ("b", "a")] {
        let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let traits = LinkTraits { bandwidth: Some(100), ..LinkTraits::default() };
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    let wide = |from: &str, to: &str| {
        from_to(from, to, Constraints { bandwidth: Some(60), ..Constraints::default() })
    };
    for _ in 0..3 {
        site.submit("one", wide("a:h1", "b:h1")).expect("taken");
        site.settle();
    }
    let hop = link(site.manager.topology(), "a", "b");
    assert_eq!(site.manager.ledger().taken(hop), 60);
    site.submit("two", wide("a:h2", "b:h2")).expect("taken");
    site.settle();
    assert_eq!(site.state("two"), Some(State::Failed));
    assert!(site.reason("two").contains("bandwidth"), "{}", site.reason("two"));
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Withdrawn), Some(State::Installed)));
    assert_eq!(site.manager.ledger().taken(hop), 60);
    site.manager.withdraw("two").expect("taken");
    site.settle();
    assert!(site.manager.ledger().is_empty());
}

#[test]
fn what_was_held_on_a_way_that_is_left_is_given_back_also_where_a_bridge_is_away() {
    let mut site = Site::new("a-b b-z a-c=2 c-z=2");
    for (from, to) in [("a", "b"), ("b", "z"), ("a", "c"), ("c", "z")] {
        let cost = traits_of(&site, from, to).cost;
        let (from, to) = (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let traits = LinkTraits { cost, bandwidth: Some(100), ..LinkTraits::default() };
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    let wide = |from: &str, to: &str| {
        from_to(from, to, Constraints { bandwidth: Some(60), ..Constraints::default() })
    };
    site.submit("one", wide("a:h1", "z:h1")).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b z");
    // b says nothing any more, and its rule stays there for now.
    site.silent.insert(at("b:h1").device);
    site.cable("a", "b", false);
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a c z".into()));
    let no = site.manager.find("one").expect("it is there");
    assert_eq!(site.manager.waits_for(no).len(), 1);
    let hop = link(site.manager.topology(), "b", "z");
    assert_eq!(site.manager.ledger().taken(hop), 0);
    site.silent.clear();
    site.manager.withdraw("one").expect("taken");
    site.settle();
    assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
}

fn traits_of(site: &Site, from: &str, to: &str) -> LinkTraits {
    let topology = site.manager.topology();
    topology.traits(link(topology, from, to))
}

#[test]
fn over_a_restart_all_stands_as_it_stood() {
    let mut site = ring();
    site.submit("stays", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.submit("goes", from_to("b:h1", "d:h1", Constraints::default())).expect("taken");
    let nowhere =
        Constraints { obstacles: [at("b:h1").device, at("d:h1").device].into(), ..Constraints::default() };
    site.submit("failed", from_to("c:h2", "a:h2", nowhere)).expect("taken");
    site.settle();
    site.manager.withdraw("goes").expect("taken");
    site.take();
    let mut comes = from_to("a:h2", "b:h2", Constraints::default());
    comes.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    site.submit("comes", comes).expect("taken");
    site.take();
    let path = site.path("stays");
    let before = site.states.len();
    site.restart();
    site.settle();
    assert_eq!(site.path("stays"), path);
    for (key, state) in [
        ("stays", State::Installed),
        ("goes", State::Withdrawn),
        ("comes", State::Installed),
        ("failed", State::Failed),
    ] {
        assert_eq!(site.state(key), Some(state), "{key}");
    }
    assert!(!site.states[before..].iter().any(|(key, _)| key == "stays"), "{:?}", &site.states[before..]);
    arrives(&site, "a:h1", "c:h1");
    site.cable("a", "b", false);
    site.settle();
    assert_eq!(site.path("stays"), "a d c");
}

#[test]
fn what_is_wrong_in_any_network_is_refused_and_changes_nothing() {
    let mut site = ring();
    assert_eq!(site.submit("", simple()), Err(IntentRefused::Key));
    assert_eq!(site.submit("a\nb", simple()), Err(IntentRefused::Key));
    assert_eq!(site.submit(&"k".repeat(256), simple()), Err(IntentRefused::Key));
    let same = from_to("a:h1", "a:h1", Constraints::default());
    assert!(matches!(site.submit("one", same), Err(IntentRefused::Bad(_))));
    assert_eq!(site.manager.withdraw("one"), Err(IntentRefused::Unknown("one".into())));
    assert_eq!(site.manager.len(), 0);
}

#[test]
fn records_say_what_was_asked_for() {
    let mut site = ring();
    let no = site.submit("one", simple()).expect("taken");
    site.settle();
    let record = site.manager.record(no).expect("it is there");
    assert_eq!((record.request, record.state), (Request::Install, State::Installed));
    let text = serde_json::to_string(&*record.intent).expect("text");
    assert_eq!(serde_json::from_str::<Intent>(&text).expect("an intent"), simple());
}

#[test]
fn what_a_device_refused_is_taken_out_of_its_table_however_often_the_way_changes() {
    let mut site = Site::new("a-b b-c a-d=2 d-c=2 a-e=3 e-c=3");
    let [a, b, c] = ["a", "b", "c"].map(|name| at(&format!("{name}:h1")).device);
    site.refusing.insert(b);
    site.silent = [a, c].into();
    site.submit("one", from_to("a:h1", "c:h1", Constraints::default())).expect("taken");
    site.take();
    assert!(site.step(0));
    assert_eq!(site.failed.len(), 1);
    site.silent.clear();
    // Both times before anything of the new way is done.
    for next in ["b", "d"] {
        site.cable("a", next, false);
        site.take();
    }
    site.settle();
    assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a e c".to_owned()));
    assert!(site.failed.is_empty(), "{:?}", site.failed);
}

#[test]
fn what_a_refused_write_leaves_is_what_its_table_says_whatever_came_after_it() {
    let mut site = ring();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.silent = [at("a:h1").device].into();
    // Off, on, and off again: `a` has done none of it.
    site.manager.withdraw("one").expect("taken");
    site.settle();
    site.submit("one", simple()).expect("taken");
    site.settle();
    site.manager.withdraw("one").expect("taken");
    site.settle();
    let (token, ..) = site.waiting.pop_front().expect("the first removal");
    site.written(token, Err("it is busy".into()));
    site.take();
    assert_eq!(site.waiting.len(), 2);
    // The rule is on its way off by the last of these writes: it has to be put there once more.
    site.submit("one", simple()).expect("taken");
    site.silent.clear();
    site.wait(Duration::from_secs(10));
    assert_eq!(site.state("one"), Some(State::Installed));
    arrives(&site, "a:h1", "b:h1");
}

#[test]
fn a_link_that_is_taken_back_is_left_and_who_names_it_is_told() {
    let mut site = ring();
    let ends = |from: &str, to: &str| (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
    let named = |priority| Intent {
        kind: Kind::LinkCollection {
            links: vec![ends("a", "b")],
            from: vec![at("a:h2")],
            to: vec![at("b:h2")],
        },
        priority,
        ..simple()
    };
    // One stands on it, one names it, one is on its way to it.
    site.submit("way", simple()).expect("taken");
    site.submit("named", named(100)).expect("taken");
    site.settle();
    let mut comes = from_to("d:h1", "b:h2", Constraints::default());
    comes.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: 7, mask: None });
    comes.priority = 101;
    site.submit("comes", comes).expect("taken");
    site.take();
    assert!(site.step(0), "one of its rules is there");
    for (from, to) in [("a", "b"), ("b", "a")] {
        let (from, to) = ends(from, to);
        site.manager.retract(&from, &to);
    }
    site.settle();
    assert_eq!((site.state("way"), site.path("way")), (Some(State::Installed), "a d c b".into()));
    assert_eq!((site.state("comes"), site.path("comes")), (Some(State::Installed), "d c b".into()));
    let reason = "the link from a/br0 port b to b/br0 port a is down";
    assert_eq!((site.state("named"), site.reason("named").as_str()), (Some(State::Failed), reason));
    arrives(&site, "a:h1", "b:h1");
    let fate = site.plane.walk_to(site.manager.topology(), &at("d:h1"), 7);
    assert_eq!(fate, Fate::Out(["b:h2".to_owned()].into()));
    assert_eq!(site.plane.0.len(), 4 + 3, "{:?}", site.plane.0);
    // It is said to be there again: with a bandwidth, which before nobody had said of any.
    let wide = from_to("a:h2", "b:h1", Constraints { bandwidth: Some(1), ..Constraints::default() });
    site.submit("wide", wide).expect("taken");
    site.settle();
    let reason = "no path from a/br0 to b/br0 with the bandwidth asked for; there is one without";
    assert_eq!((site.state("wide"), site.reason("wide").as_str()), (Some(State::Failed), reason));
    for (from, to) in [("a", "b"), ("b", "a")] {
        let traits = LinkTraits { bandwidth: Some(1), ..LinkTraits::default() };
        let (from, to) = ends(from, to);
        site.manager.declare(&from, &to, traits).expect("a link");
    }
    site.manager.withdraw("named").expect("taken");
    site.settle();
    assert_eq!((site.state("wide"), site.path("wide")), (Some(State::Installed), "a b".into()));
    site.submit("named", named(102)).expect("taken");
    site.settle();
    assert_eq!(site.state("named"), Some(State::Installed));
}

#[test]
fn a_label_is_its_intents_as_long_as_a_rule_has_it() {
    for restarts in [false, true] {
        let mut site = Site::new("a-b b-c a-d=2 d-c=2");
        let vlan = |to: &str, address, priority| {
            let mut intent = from_to("a:h1", to, Constraints { vlan: true, ..Constraints::default() });
            intent.selector.push(Criterion::Field { field: Field::Ipv4Dst, value: address, mask: None });
            Intent { priority, ..intent }
        };
        site.submit("one", vlan("c:h1", 1, 200)).expect("taken");
        site.settle();
        // It moves, and `b` neither does as it is told nor says so, or does not let go of its rule.
        site.silent = [at("b:h1").device].into();
        site.cable("a", "b", false);
        site.settle();
        assert_eq!((site.state("one"), site.path("one")), (Some(State::Installed), "a d c".to_owned()));
        if restarts {
            site.restart();
        } else {
            let (token, ..) = site.waiting.pop_front().expect("the old way's rule goes");
            site.written(token, Err("it is busy".into()));
        }
        site.cable("a", "b", true);
        site.now = site.now + Duration::from_millis(600);
        site.take();
        site.submit("two", vlan("b:h2", 2, 100)).expect("taken");
        site.take();
        let label = |key: &str| {
            let no = site.manager.find(key).expect("it is there");
            site.manager.record(no).expect("it is there").label
        };
        assert_eq!((label("one"), label("two")), (Some(1), Some(2)), "{restarts}");
        site.silent.clear();
        site.wait(Duration::from_secs(10));
        let fate = site.plane.walk_to(site.manager.topology(), &at("a:h1"), 2);
        assert_eq!(fate, Fate::Out(["b:h2".to_owned()].into()));
        for key in ["one", "two"] {
            site.manager.withdraw(key).expect("taken");
        }
        site.settle();
        assert!(site.manager.ledger().is_empty() && site.plane.0.is_empty());
    }
}

#[test]
fn an_end_that_turns_out_to_lead_to_another_bridge_is_none() {
    let mut site = Site::new("a-b");
    site.submit("one", from_to("a:h1", "b:h2", Constraints::default())).expect("taken");
    let mut two = from_to("a:h2", "b:h1", Constraints::default());
    two.priority = 101;
    site.submit("two", two).expect("taken");
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Installed), Some(State::Installed)));
    // Somebody says that there is a cable between the two hosts' ports.
    let traits = LinkTraits::default();
    site.manager.declare(&at("a:h1"), &at("b:h1"), traits).expect("a link");
    site.settle();
    for key in ["one", "two"] {
        assert_eq!(site.state(key), Some(State::Failed));
        assert!(site.reason(key).contains("ports without a link"), "{}", site.reason(key));
    }
    assert!(site.plane.0.is_empty());
    site.manager.retract(&at("a:h1"), &at("b:h1"));
    site.settle();
    assert_eq!((site.state("one"), site.state("two")), (Some(State::Installed), Some(State::Installed)));
}

#[test]
fn what_may_still_lie_on_a_device_counts_when_the_way_is_changed_halfway() {
    let mut site = Site::new("a-b b-c c-d=2 d-e a-d e-b c-f");
    let lay = |shut: &[&str], to: &[&str]| {
        let link = |from: &str, to: &str| (at(&format!("{from}:{to}")), at(&format!("{to}:{from}")));
        let ends = shut.iter().map(|cable| cable.split_once('-').expect("two ends"));
        let obstacle_links = ends.flat_map(|(from, to)| [link(from, to), link(to, from)]).collect();
        Intent {
            kind: Kind::SinglePointToMultiPoint {
                from: at("a:h1"),
                to: to.iter().map(|to| at(&format!("{to}:h2"))).collect(),
            },
            ..from_to("a:h1", "b:h2", Constraints { obstacle_links, ..Constraints::default() })
        }
    };
    site.submit("one", lay(&["a-d", "e-b"], &["b", "c", "e"])).expect("taken");
    site.settle();
    assert_eq!(site.path("one"), "a b, a b c, a b c d e");
    // c is to send to d no more, and does not answer.
    site.silent.insert(at("c:h1").device);
    site.submit("one", lay(&["e-b", "c-d"], &["b", "c", "e"])).expect("taken");
    site.wait(Duration::from_secs(3));
    assert_eq!(site.path("one"), "a b, a b c, a d e");
    // From d over e to b, and on to c, and from there to d as before: that would go round.
    site.submit("one", lay(&["a-b", "c-d"], &["b", "c", "e", "f"])).expect("taken");
    site.take();
    let holds = |site: &Site| {
        assert_ne!(site.plane.walk(site.manager.topology(), &at("a:h1")), Fate::Round);
    };
    while site.step(1) {
        holds(&site);
    }
    site.silent.clear();
    while site.step(1) {
        holds(&site);
    }
    assert_eq!(site.state("one"), Some(State::Installed));
    assert_eq!(site.path("one"), "a d e b, a d e b c, a d e, a d e b c f");
}

#[test]
fn an_old_rule_that_takes_its_packets_is_waited_for_also_after_a_restart() {
    let mut site = Site::new("a-b a-c");
    let to = |to: &str, priority| Intent { priority, ..from_to("a:h1", to, Constraints::default()) };
    site.submit("one", to("b:h1", 101)).expect("taken");
    site.settle();
    site.silent.insert(at("a:h1").device);
    site.submit("one", to("c:h1", 100)).expect("taken");
    site.settle();
    // The lower one is there already, by whatever came before; the higher one is still to go.
    let (_, no, device, ops) = site.waiting.front().cloned().expect("a write to a");
    let put: Vec<Op> = ops.into_iter().filter(|op| matches!(op, Op::Put(_))).collect();
    assert_eq!(put.len(), 1);
    site.apply(no, &device, &put);
    site.undoing.insert(device.clone());
    site.restart();
    arrives(&site, "a:h1", "b:h1");
    assert_ne!(site.state("one"), Some(State::Installed), "it goes to b yet");
    site.silent.clear();
    site.settle();
    assert_ne!(site.state("one"), Some(State::Installed), "{}", site.reason("one"));
    site.undoing.clear();
    site.wait(Duration::from_secs(10));
    assert_eq!(site.state("one"), Some(State::Installed));
    arrives(&site, "a:h1", "c:h1");
}
