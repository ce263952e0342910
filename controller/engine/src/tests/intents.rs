//! Intents over flow tables: each rule has one owner, no rule is left behind, and agents report the network.

mod stacks;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use muster_intent::intent::{Constraints, Intent, Kind};
use muster_intent::manager::Wish;
use muster_intent::phase::State;
use muster_intent::topology::ConnectPoint;
use muster_shared::model::Up;
use muster_shared::model::flow::{Criterion, DeviceName, Field, FlowId, Packed};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState};

use super::bed::{Bed, node};
use super::flow_tables::device;
use crate::{Answer, Refusal, Request};

/// The beacon of a node's port towards another node.
fn beacon(of: usize, towards: usize) -> Beacon {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&[u8::try_from(of).unwrap(), u8::try_from(towards).unwrap()]);
    Beacon(bytes)
}

/// A ring of nodes. Each has a bridge with a port `h` and one port to each neighbour, over which it
/// hears LLDP.
struct Ring {
    bed: Bed,
    size: usize,
    /// Cables that are cut.
    cut: Vec<(usize, usize)>,
}

impl Ring {
    fn new(size: usize) -> Self {
        let mut ring = Self { bed: Bed::new(size), size, cut: Vec::new() };
        (0..size).for_each(|index| ring.tell(index));
        ring
    }

    fn neighbours(&self, index: usize) -> [usize; 2] {
        [(index + self.size - 1) % self.size, (index + 1) % self.size]
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&(a, b)) || self.cut.contains(&(b, a))
    }

    fn ports(&self, index: usize) -> DevicePorts {
        let mut ports: Vec<PortState> = self
            .neighbours(index)
            .map(|other| {
                let up = !self.is_cut(index, other);
                let heard = if up { vec![beacon(other, index)] } else { Vec::new() };
                PortState { name: format!("p{other}").into(), up, beacon: Some(beacon(index, other)), heard }
            })
            .into();
        ports.push(PortState { name: "h".into(), up: true, beacon: None, heard: Vec::new() });
        DevicePorts { bridge: device(index).bridge, up: true, ports }
    }

    fn tell(&mut self, index: usize) {
        let ports = self.ports(index);
        self.bed.receive(&node(index), Up::Ports(vec![ports]));
    }

    fn cut(&mut self, a: usize, b: usize) {
        self.cut.push((a, b));
        [a, b].into_iter().for_each(|index| self.tell(index));
    }

    fn heal(&mut self) {
        self.cut.clear();
        (0..self.size).for_each(|index| self.tell(index));
    }

    fn restart(&mut self) {
        self.bed.restart();
        for index in 0..self.size {
            self.bed.connect(&node(index));
            self.tell(index);
        }
    }

    fn submit(&mut self, key: &str, from: usize, to: usize) -> Result<Answer, Refusal> {
        self.bed.ask(Request::SubmitIntents { intents: vec![(key.into(), wish(from, to, 1))] })
    }

    fn withdraw(&mut self, key: &str) -> Result<Answer, Refusal> {
        self.bed.ask(Request::WithdrawIntents { keys: vec![key.into()] })
    }

    fn state(&self, key: &str) -> State {
        self.bed.engine.view().intent(key).unwrap().state
    }

    fn path(&self, key: &str) -> String {
        let view = self.bed.engine.view().intent(key).unwrap();
        let names = |path: &Vec<DeviceName>| {
            path.iter()
                .map(|it| it.node.as_str().trim_start_matches("node-").to_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        view.paths.iter().map(names).collect::<Vec<_>>().join(", ")
    }

    /// Whether each device has the intents' rules and no others.
    fn equal(&self) -> bool {
        (0..self.size).all(|index| {
            let keys = self.bed.engine.view().intents();
            let rules = keys.iter().flat_map(|it| self.bed.engine.view().intent(&it.key).unwrap().rules);
            let own = rules.filter(|(at, _)| *at == device(index));
            let mut own: Vec<FlowId> = own.map(|(at, packed): (_, Packed)| packed.unpack().id(&at)).collect();
            own.sort();
            self.bed.on_device(&device(index)) == own
        })
    }

    fn rules(&self) -> usize {
        (0..self.size).map(|index| self.bed.on_device(&device(index)).len()).sum()
    }
}

fn at(index: usize) -> ConnectPoint {
    ConnectPoint { device: device(index), port: "h".into() }
}

fn wish(from: usize, to: usize, address: u128) -> Wish {
    let field = |field, value| Criterion::Field { field, value, mask: None };
    let intent = Intent {
        kind: Kind::PointToPoint { from: at(from), to: at(to) },
        priority: 100,
        selector: vec![field(Field::EthType, 0x800), field(Field::Ipv4Dst, address)],
        treatment: Vec::new(),
        constraints: Constraints::default(),
    };
    Wish { intent: Arc::new(intent), group: None }
}

#[test]
fn an_intent_installs_moves_on_a_cut_cable_and_leaves_nothing() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    assert_eq!((ring.state("one"), ring.path("one").as_str(), ring.rules()), (State::Installed, "0 1 2", 3));
    assert!(ring.equal());
    ring.cut(0, 1);
    assert_eq!(
        (ring.state("one"), ring.path("one").as_str(), ring.rules()),
        (State::Installed, "0 4 3 2", 4)
    );
    assert!(ring.equal());
    ring.cut(3, 2);
    assert_eq!((ring.state("one"), ring.rules()), (State::Failed, 0));
    ring.heal();
    ring.bed.pass(Duration::from_secs(2));
    assert_eq!(ring.state("one"), State::Installed);
    ring.withdraw("one").unwrap();
    assert_eq!((ring.state("one"), ring.rules()), (State::Withdrawn, 0));
    ring.bed.ask(Request::PurgeIntents { keys: vec!["one".into()] }).unwrap();
    assert!(ring.bed.engine.view().intents().is_empty());
    assert!(ring.bed.tables.intents.intents.is_empty());
    assert!(ring.bed.tables.flows.entries.is_empty());
}

#[test]
fn over_a_restart_it_stands_and_no_rule_is_written_again() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    let ran: Vec<usize> = (0..5).map(|index| ring.bed.hosts[&node(index)].flows.ran).collect();
    ring.restart();
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 1 2"));
    let now: Vec<usize> = (0..5).map(|index| ring.bed.hosts[&node(index)].flows.ran).collect();
    assert_eq!(ran, now);
    ring.cut(1, 2);
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 4 3 2"));
    assert!(ring.equal());
    // No number is given twice.
    ring.withdraw("one").unwrap();
    ring.bed.ask(Request::PurgeIntents { keys: vec!["one".into()] }).unwrap();
    ring.restart();
    ring.submit("two", 0, 2).unwrap();
    assert_eq!(ring.bed.tables.intents.intents.keys().next().map(|no| no.0), Some(2));
}

#[test]
fn what_was_under_way_goes_on_after_a_restart() {
    for held in [0, 1, 2] {
        let mut ring = Ring::new(5);
        ring.bed.hold(held, true);
        ring.submit("one", 0, 2).unwrap();
        assert_eq!(ring.state("one"), State::Installing);
        ring.bed.restart();
        ring.bed.hold(held, false);
        for index in 0..5 {
            ring.bed.connect(&node(index));
            ring.tell(index);
        }
        ring.bed.decide(held);
        ring.bed.idle();
        assert_eq!((ring.state("one"), ring.rules()), (State::Installed, 3), "{held}");
        assert!(ring.equal());
        ring.bed.hold(held, true);
        ring.withdraw("one").unwrap();
        assert_eq!(ring.state("one"), State::Withdrawing);
        ring.bed.restart();
        ring.bed.hold(held, false);
        for index in 0..5 {
            ring.bed.connect(&node(index));
            ring.tell(index);
        }
        ring.bed.decide(held);
        ring.bed.idle();
        assert_eq!((ring.state("one"), ring.rules()), (State::Withdrawn, 0), "{held}");
    }
}

#[test]
fn of_writes_that_a_restart_came_between_each_is_waited_for() {
    let mut ring = Ring::new(4);
    let flows = |ring: &mut Ring, held, down| {
        let flows = &mut ring.bed.hosts.get_mut(&node(0)).unwrap().flows;
        (flows.held, flows.down) = (held, down);
    };
    flows(&mut ring, true, false);
    ring.submit("one", 0, 1).unwrap();
    ring.withdraw("one").unwrap();
    assert_eq!(ring.state("one"), State::Withdrawing);
    // Neither the rule nor its removal is decided, and now both are refused.
    flows(&mut ring, false, true);
    ring.restart();
    ring.bed.pass(Duration::from_millis(500));
    assert_eq!(ring.state("one"), State::Corrupt);
    flows(&mut ring, true, false);
    ring.submit("one", 0, 1).unwrap();
    ring.bed.pass(Duration::from_secs(1));
    assert_eq!(ring.state("one"), State::Installing, "its rule is not on node-0");
    flows(&mut ring, false, false);
    ring.bed.decide(0);
    ring.bed.pass(Duration::from_secs(10));
    assert_eq!((ring.state("one"), ring.rules()), (State::Installed, 2));
    assert!(ring.equal());
}

#[test]
fn a_rule_has_one_owner() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    let (at, packed) = ring.bed.engine.view().intent("one").unwrap().rules.into_iter().next().unwrap();
    let entry = packed.unpack();
    // An operator can neither take the rule over nor remove it.
    let write = super::flow_tables::write(&at, std::slice::from_ref(&entry));
    let refusal = ring.bed.apply(vec![vec![write]]).unwrap_err().to_string();
    assert!(refusal.contains("belongs to intent one: one rule has one owner"), "{refusal}");
    let request =
        Request::DeleteFlows { device: at.clone(), ids: vec![entry.id(&at)], confirm_timeout: None };
    let refusal = ring.bed.ask(request).unwrap_err().to_string();
    assert!(refusal.contains("belongs to intent one: withdraw the intent"), "{refusal}");
    // Another intent waits until the rule is free, and names the owner.
    ring.submit("two", 0, 2).unwrap();
    assert_eq!(ring.state("two"), State::Corrupt);
    let reason = ring.bed.engine.view().intent("two").unwrap().reason.unwrap();
    assert!(reason.contains("belongs to intent one"), "{reason}");
    assert!(ring.equal(), "nothing of it is left on the way");
    ring.withdraw("one").unwrap();
    ring.bed.pass(Duration::from_secs(5));
    assert_eq!(ring.state("two"), State::Installed);
    assert!(ring.equal());
}

#[test]
fn what_an_intent_takes_back_is_its_own_until_it_is_gone() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    let (at, packed) = ring.bed.engine.view().intent("one").unwrap().rules.into_iter().next().unwrap();
    ring.bed.disconnect(&node(0));
    ring.withdraw("one").unwrap();
    assert_eq!(ring.state("one"), State::Withdrawing);
    // The bridge may still have the rule. With another owner by now, no part of the controller
    // would know of it.
    ring.submit("two", 0, 2).unwrap();
    let reason = ring.bed.engine.view().intent("two").unwrap().reason.unwrap();
    assert!(reason.contains("belongs to intent one"), "{reason}");
    let mut rule = packed.unpack().to_json();
    rule.insert("device".into(), at.to_string().into());
    let rule = serde_json::Value::Object(rule);
    let set = format!("  rule:\n    type: Muster::FlowRule\n    properties: {rule}\n");
    let refusal = ring.bed.create(stacks::template(&set)).unwrap_err().to_string();
    assert!(refusal.contains("belongs to intent one") && refusal.contains("let go of it"), "{refusal}");
    ring.bed.connect(&node(0));
    ring.bed.pass(Duration::from_secs(5));
    assert_eq!((ring.state("one"), ring.state("two")), (State::Withdrawn, State::Installed));
    assert!(ring.equal());
}

#[test]
fn a_device_that_refuses_leaves_nothing_on_the_others() {
    let mut ring = Ring::new(5);
    ring.submit("probe", 0, 2).unwrap();
    let rules = ring.bed.engine.view().intent("probe").unwrap().rules;
    let (at, packed) = rules.iter().find(|(at, _)| *at == device(1)).unwrap();
    ring.withdraw("probe").unwrap();
    let id = packed.unpack().id(at);
    ring.bed.hosts.get_mut(&node(1)).unwrap().flows.bad.insert(id, ("no such port".into(), true));
    ring.submit("one", 0, 2).unwrap();
    assert_eq!((ring.state("one"), ring.rules()), (State::Corrupt, 0));
    let reason = ring.bed.engine.view().intent("one").unwrap().reason.unwrap();
    assert!(reason.starts_with("node-1/br0: rule ") && reason.contains("no such port"), "{reason}");
    assert_eq!(ring.bed.tables.flows.entries.len(), 0);
    ring.bed.hosts.get_mut(&node(1)).unwrap().flows.bad.clear();
    ring.bed.pass(Duration::from_secs(3));
    assert_eq!((ring.state("one"), ring.rules()), (State::Installed, 3));
}

#[test]
fn an_away_node_is_bypassed_and_cleaned_up_on_its_return() {
    let mut ring = Ring::new(5);
    ring.submit("one", 0, 2).unwrap();
    ring.bed.disconnect(&node(1));
    assert_eq!(
        (ring.state("one"), ring.path("one").as_str()),
        (State::Installed, "0 1 2"),
        "its switch goes on"
    );
    ring.cut.push((0, 1));
    ring.tell(0);
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 4 3 2"));
    assert_eq!(ring.bed.on_device(&device(1)).len(), 1);
    ring.withdraw("one").unwrap();
    assert_eq!(ring.state("one"), State::Withdrawing, "something of it is there still");
    ring.bed.connect(&node(1));
    ring.tell(1);
    ring.bed.idle();
    assert_eq!((ring.state("one"), ring.rules()), (State::Withdrawn, 0));
}

#[test]
fn a_beacon_that_nobody_says_is_no_link_and_two_are_a_hub() {
    let mut ring = Ring::new(4);
    let links = |ring: &Ring| ring.bed.engine.view().topology().links.iter().filter(|link| link.up).count();
    assert_eq!(links(&ring), 8);
    let mut forged = ring.ports(0);
    forged.ports[2].heard = vec![Beacon([7; 16])];
    forged.ports[1].heard.push(beacon(2, 1));
    ring.bed.receive(&node(0), Up::Ports(vec![forged]));
    assert_eq!(links(&ring), 7);
    ring.tell(0);
    assert_eq!(links(&ring), 8);
    // No node takes another node's beacon.
    let mut thief = ring.ports(2);
    thief.ports[2].beacon = Some(beacon(1, 0));
    ring.bed.receive(&node(2), Up::Ports(vec![thief]));
    assert_eq!(links(&ring), 8);
    let told = ring.bed.engine.view().topology().links;
    assert!(told.iter().all(|link| &*link.from.port != "h"), "{told:?}");
    ring.tell(2);
    // A beacon may be heard before the port that sends it is known.
    ring.bed.disconnect(&node(1));
    ring.bed.connect(&node(1));
    ring.tell(1);
    assert_eq!(links(&ring), 8);
}

#[test]
fn a_cable_that_dies_silently_is_gone_round() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    assert_eq!(ring.path("one"), "0 1");
    // The carrier is up, but no LLDP is heard.
    ring.bed.pass(Duration::from_secs(6));
    let mut silent = ring.ports(1);
    silent.ports[0].heard.clear();
    ring.bed.receive(&node(1), Up::Ports(vec![silent]));
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 3 2 1"));
}

#[test]
fn an_agent_that_is_started_again_moves_nothing() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    let ran = |ring: &Ring| (0..4).map(|index| ring.bed.hosts[&node(index)].flows.ran).sum::<usize>();
    let before = ran(&ring);
    let other = |index: usize, towards: usize| {
        Beacon([index as u8, towards as u8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
    };
    let mut ports = ring.ports(1);
    ports.ports[0].beacon = Some(other(1, 0));
    ports.ports[1].beacon = Some(other(1, 2));
    ring.bed.disconnect(&node(1));
    ring.bed.connect(&node(1));
    ring.bed.receive(&node(1), Up::Ports(vec![ports]));
    let links = |ring: &Ring| ring.bed.engine.view().topology().links.iter().filter(|link| link.up).count();
    assert_eq!((links(&ring), ran(&ring)), (8, before));
    // Both beacons are heard, then the new one alone.
    for heard in [vec![beacon(1, 0), other(1, 0)], vec![other(1, 0)]] {
        let mut ports = ring.ports(0);
        ports.ports[1].heard = heard;
        assert_eq!(&*ports.ports[1].name, "p1");
        ring.bed.receive(&node(0), Up::Ports(vec![ports]));
        assert_eq!((links(&ring), ran(&ring)), (8, before));
    }
}

#[test]
fn all_of_a_request_is_taken_or_nothing() {
    let mut ring = Ring::new(4);
    let bad = wish(1, 1, 2);
    let intents = vec![("good".into(), wish(0, 1, 1)), ("bad".into(), bad)];
    let refusal = ring.bed.ask(Request::SubmitIntents { intents }).unwrap_err();
    assert!(refusal.to_string().starts_with("intent 'bad': node-1/br0 port h is where"), "{refusal}");
    assert!(ring.bed.engine.view().intents().is_empty());
    let unknown = ring.withdraw("gone").unwrap_err();
    assert_eq!(unknown, Refusal::NotFound("there is no intent 'gone'".into()));
    ring.submit("web", 0, 1).unwrap();
    let near = ring.withdraw("wep").unwrap_err();
    assert!(near.to_string().contains("web"), "{near}");
    let standing = ring.bed.ask(Request::PurgeIntents { keys: vec!["web".into()] }).unwrap_err();
    assert!(standing.to_string().contains("is INSTALLED: withdraw it first"), "{standing}");
}

/// As many intents as one request may have: some are installed, most wait for a path.
#[test]
fn a_hundred_thousand_are_withdrawn_at_once() {
    const STANDING: u128 = 2000;
    const ALL: u128 = 100_000;
    let mut ring = Ring::new(4);
    let intents = (0..STANDING).map(|n| (n.to_string().into(), wish(0, 1, n))).collect();
    ring.bed.ask(Request::SubmitIntents { intents }).unwrap();
    ring.bed.idle();
    assert_eq!(ring.rules(), 4000);
    let batches = ring.bed.hosts[&node(0)].flows.ran;
    assert!(batches < 10, "{batches} batches");
    ring.cut(1, 2);
    ring.cut(2, 3);
    let intents = (STANDING..ALL).map(|n| (n.to_string().into(), wish(0, 2, n))).collect();
    ring.bed.ask(Request::SubmitIntents { intents }).unwrap();
    ring.bed.idle();
    let keys: Vec<Box<str>> = (0..ALL).map(|n| n.to_string().into()).collect();
    assert!(ring.bed.engine.view().intents_ended(&keys));
    ring.bed.ask(Request::WithdrawIntents { keys: keys.clone() }).unwrap();
    ring.bed.idle();
    assert!(ring.bed.engine.view().intents().iter().all(|intent| intent.state == State::Withdrawn));
    assert_eq!(ring.rules(), 0);
    let batches = ring.bed.hosts[&node(0)].flows.ran - batches;
    assert!(batches < 10, "{batches} batches");
    ring.bed.ask(Request::PurgeIntents { keys }).unwrap();
    assert!(ring.bed.engine.view().intents().is_empty());
}

#[test]
fn an_agent_that_has_just_begun_to_listen_is_given_time() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    ring.bed.disconnect(&node(1));
    ring.bed.connect(&node(1));
    let mut deaf = ring.ports(1);
    deaf.ports.iter_mut().for_each(|port| port.heard.clear());
    ring.bed.receive(&node(1), Up::Ports(vec![deaf]));
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 1"));
    ring.bed.pass(Duration::from_secs(3));
    ring.tell(1);
    ring.bed.pass(Duration::from_secs(9));
    assert_eq!(ring.path("one"), "0 1");
    assert_eq!(ring.bed.engine.view().topology().links.iter().filter(|link| link.up).count(), 8);
    // A port that still hears nothing has a dead cable.
    ring.bed.disconnect(&node(1));
    ring.bed.connect(&node(1));
    let mut deaf = ring.ports(1);
    deaf.ports[0].heard.clear();
    ring.bed.receive(&node(1), Up::Ports(vec![deaf]));
    assert_eq!(ring.path("one"), "0 1");
    ring.bed.pass(Duration::from_secs(9));
    assert_eq!(ring.path("one"), "0 3 2 1");
}

#[test]
fn a_port_that_flapped_counts_as_up_after_a_restart() {
    let mut ring = Ring::new(4);
    ring.submit("one", 0, 1).unwrap();
    let mut down = ring.ports(0);
    down.ports[2].up = false;
    ring.bed.receive(&node(0), Up::Ports(vec![down]));
    assert_eq!(ring.state("one"), State::Failed);
    ring.tell(0);
    ring.bed.pass(Duration::from_secs(2));
    assert_eq!(ring.state("one"), State::Installed);
    ring.bed.restart();
    assert_eq!((ring.state("one"), ring.rules()), (State::Installed, 2));
    (0..4).for_each(|index| ring.bed.connect(&node(index)));
    assert_eq!((ring.state("one"), ring.rules()), (State::Installed, 2));
}

#[test]
fn a_server_that_is_removed_is_no_more_in_the_network() {
    for restarts in [false, true] {
        let mut ring = Ring::new(4);
        ring.submit("one", 0, 1).unwrap();
        ring.bed.disconnect(&node(1));
        if restarts {
            ring.bed.restart();
            [0, 2, 3].into_iter().for_each(|index| {
                ring.bed.connect(&node(index));
                ring.tell(index);
            });
        }
        ring.bed.ask(Request::RemoveNode { node: node(1) }).unwrap();
        let topology = ring.bed.engine.view().topology();
        assert!(
            topology
                .links
                .iter()
                .all(|link| !link.up || (link.from.device != device(1) && link.to.device != device(1)))
        );
        assert!(!ring.bed.tables.intents.devices.contains_key(&device(1)));
        // The intent's rule is on the removed server.
        ring.withdraw("one").unwrap();
        assert_eq!(ring.state("one"), State::Withdrawing);
        ring.bed.ask(Request::PurgeFlows { device: device(1), forget: true, confirm_timeout: None }).unwrap();
        ring.bed.pass(Duration::from_secs(5));
        assert_eq!((ring.state("one"), ring.rules()), (State::Withdrawn, 1), "{restarts}");
    }
}

#[test]
fn rules_for_a_bridge_that_is_not_there_say_which_are() {
    let mut ring = Ring::new(3);
    let apply = |ring: &mut Ring, index: usize, bridge: &str| {
        let device = DeviceName { bridge: bridge.parse().unwrap(), node: node(index) };
        let write = super::flow_tables::write(&device, &[super::flow_tables::rule(1, 1)]);
        let request =
            Request::ApplyFlows { stages: vec![vec![write]], confirm_timeout: None, application: None };
        let Answer::Flows { warnings, .. } = ring.bed.ask(request).unwrap() else { panic!("flows") };
        warnings
    };
    assert_eq!(apply(&mut ring, 0, "br9"), ["node-0 has no bridge br9 (it has br0): the rules wait for it"]);
    assert_eq!(apply(&mut ring, 0, "br0"), [""; 0]);
    assert_eq!(apply(&mut ring, 0, "nftables"), [""; 0]);
    // A node that has not reported its bridges since its Hello may have the bridge.
    ring.bed.disconnect(&node(0));
    ring.bed.connect(&node(0));
    assert_eq!(apply(&mut ring, 0, "br8"), [""; 0]);
    // The agent of a server without bridges reports none.
    ring.bed.join(&node(9));
    ring.bed.connect(&node(9));
    assert_eq!(apply(&mut ring, 9, "br0"), [""; 0], "it has just greeted");
    ring.bed.pass(Duration::from_secs(2));
    assert_eq!(apply(&mut ring, 9, "br0"), ["node-9 has no bridge br0 (it has none): the rules wait for it"]);
}
