//! Intents between hosts: both directions, wherever the hosts are. The first cases are those of
//! ONOS's HostToHostIntentCompilerTest.

use std::time::Duration;

use super::site::Site;
use super::*;
use crate::compile::{CompileError, Compiled, Compiler};
use crate::host::{Host, HostId};
use crate::intent::BadIntent;
use crate::path_search::Trees;
use crate::phase::State;
use crate::reservations::{Holder, Ledger};

fn host(number: u8) -> HostId {
    HostId::new([0x52, 0x54, 0, 0, 0, number]).expect("of one")
}

fn located(at: &ConnectPoint) -> Option<Host> {
    Some(Host { location: at.clone(), addresses: Vec::new() })
}

fn between(one: u8, two: u8, constraints: Constraints) -> Intent {
    let kind = Kind::HostToHost { one: host(one), two: host(two) };
    Intent { kind, ..from_to("a:h1", "b:h1", constraints) }
}

fn compiled(topology: &Topology, intent: &Intent) -> Result<Compiled, CompileError> {
    let (ledger, mut trees) = (Ledger::default(), Trees::default());
    let mut compiler = Compiler { topology, ledger: &ledger, trees: &mut trees };
    compiler.compile(intent, "key", &Holder::Intent("key".into()), 1)
}

fn ways(topology: &Topology, intent: &Intent) -> Result<Vec<String>, CompileError> {
    let made = compiled(topology, intent)?;
    Ok(made.paths.iter().map(|path| shown(topology, path)).collect())
}

#[test]
fn eight_hops_there_and_back() {
    let mut topology = network("s1-s2 s2-s3 s3-s4 s4-s5 s5-s6 s6-s7 s7-s8");
    for (number, at_port) in [(1, "s1:h1"), (2, "s8:h2")] {
        topology.declare_host(host(number), located(&at(at_port))).expect("a host");
    }
    let made = compiled(&topology, &between(1, 2, Constraints::default())).expect("two paths");
    let found: Vec<String> = made.paths.iter().map(|path| shown(&topology, path)).collect();
    assert_eq!(found, ["s1 s2 s3 s4 s5 s6 s7 s8", "s8 s7 s6 s5 s4 s3 s2 s1"]);
    assert_eq!((made.links.len(), made.entries.len()), (14, 16));
    let plane = Plane(made.entries.clone());
    assert_eq!(plane.walk(&topology, &at("s1:h1")), Fate::Out(["s8:h2".to_owned()].into()));
    assert_eq!(plane.walk(&topology, &at("s8:h2")), Fate::Out(["s1:h1".to_owned()].into()));
    // Packets of other hosts do not match the rules, in either direction.
    let fields = |from: &str| -> Vec<(Field, u128)> {
        let rule = made.entries.iter().find_map(|(_, entry)| match entry {
            Entry::Rule(rule) if rule.selector.contains(&Criterion::InPort(at(from).of_rule())) => Some(rule),
            _ => None,
        });
        let criteria = rule.expect("a rule").selector.iter();
        let field = |criterion: &Criterion| match criterion {
            Criterion::Field { field, value, .. } => Some((*field, *value)),
            Criterion::InPort(_) => None,
        };
        criteria.filter_map(field).collect()
    };
    let [one, two] = [1, 2].map(|number| host(number).value());
    for (from, source, target) in [("s1:h1", one, two), ("s8:h2", two, one)] {
        let found = fields(from);
        for wanted in [(Field::EthSrc, source), (Field::EthDst, target), (Field::EthType, 0x0800)] {
            assert!(found.contains(&wanted), "{from}: {found:?}");
        }
    }
}

#[test]
fn from_a_host_to_itself_and_what_hosts_are_known_by_is_refused() {
    assert_eq!(between(1, 1, Constraints::default()).check(), Err(BadIntent::SameHost(host(1))));
    let mut intent = between(1, 2, Constraints::default());
    intent.selector.push(Criterion::Field { field: Field::EthDst, value: 1, mask: None });
    assert_eq!(intent.check(), Err(BadIntent::HostField("eth_dst")));
    let vlan = Constraints { vlan: true, ..Constraints::default() };
    let refused = between(1, 2, vlan).check().expect_err("no label for two ways");
    assert_eq!(refused.to_string(), "'encapsulation' means nothing for an intent of type host_to_host");
}

#[test]
fn a_host_is_the_mac_address_of_one_interface_in_either_case() {
    assert_eq!("52:54:00:AB:cd:01".parse::<HostId>().expect("one").to_string(), "52:54:00:ab:cd:01");
    for wrong in [
        "",
        "52:54:00:ab:cd",
        "52:54:00:ab:cd:01:02",
        "+1:54:00:ab:cd:01",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
        "01:80:c2:00:00:0e",
    ] {
        assert!(wrong.parse::<HostId>().is_err(), "{wrong}");
    }
}

#[test]
fn on_one_device_and_behind_one_port() {
    let mut topology = network("a-b");
    for (number, at_port) in [(1, "a:h1"), (2, "a:h2"), (3, "a:h1")] {
        topology.declare_host(host(number), located(&at(at_port))).expect("a host");
    }
    let made = compiled(&topology, &between(1, 2, Constraints::default())).expect("both ways");
    assert_eq!((made.links.len(), made.entries.len()), (0, 2));
    // Hosts behind one port reach each other without rules.
    let made = compiled(&topology, &between(1, 3, Constraints::default())).expect("nothing to do");
    assert!(made.entries.is_empty());
}

#[test]
fn both_ways_take_the_same_cables_where_they_can() {
    let mut topology = network("a-b b-d a-c c-d a-d=9");
    for (number, at_port) in [(1, "a:h1"), (2, "d:h1")] {
        topology.declare_host(host(number), located(&at(at_port))).expect("a host");
    }
    let wide = Constraints { bandwidth: Some(10), ..Constraints::default() };
    let all = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d")];
    for (one, other) in all {
        traits(&mut topology, one, other, |traits| traits.bandwidth = Some(10));
        traits(&mut topology, other, one, |traits| traits.bandwidth = Some(10));
    }
    let intent = between(1, 2, wide);
    assert_eq!(ways(&topology, &intent).expect("two"), ["a b d", "d b a"]);
    // The link back from b has no room: both directions go over c.
    traits(&mut topology, "b", "a", |traits| traits.bandwidth = Some(9));
    assert_eq!(ways(&topology, &intent).expect("two"), ["a c d", "d c a"]);
    // Unless they need not.
    let wide = Constraints { bandwidth: Some(10), asymmetric: true, ..Constraints::default() };
    assert_eq!(ways(&topology, &between(1, 2, wide)).expect("two"), ["a b d", "d c a"]);
    // No cable has room both ways: each direction has its own path.
    traits(&mut topology, "c", "a", |traits| traits.bandwidth = Some(9));
    traits(&mut topology, "a", "d", |traits| traits.bandwidth = Some(9));
    assert_eq!(ways(&topology, &intent).expect("two"), ["a b d", "d a"]);
    traits(&mut topology, "d", "a", |traits| traits.bandwidth = Some(9));
    let error = ways(&topology, &intent).expect_err("no way back");
    assert_eq!(
        error.to_string(),
        "no path from d/br0 to a/br0 with the bandwidth asked for; there is one without"
    );
}

fn states(site: &Site, key: &str) -> (State, String) {
    let no = site.manager.find(key).expect("it is there");
    let (state, reason) = site.manager.state(no).expect("it is there");
    (state, reason.unwrap_or_default().to_owned())
}

fn meet(site: &Site, one: &str, two: &str) {
    let topology = site.manager.topology();
    for (from, to) in [(one, two), (two, one)] {
        assert_eq!(site.plane.walk(topology, &at(from)), Fate::Out([to.to_owned()].into()));
    }
}

#[test]
fn a_host_that_comes_moves_and_goes_is_followed() {
    let mut site = Site::new("a-b b-c c-d d-a");
    site.manager.declare_host(host(1), located(&at("a:h1"))).expect("a host");
    site.submit("k", between(1, 2, Constraints::default())).expect("taken");
    site.settle();
    let (state, reason) = states(&site, "k");
    assert_eq!(state, State::Failed);
    assert!(reason.starts_with("nobody says where host 52:54:00:00:00:02 is: declare it"), "{reason}");
    assert!(site.manager.may_heal(site.manager.find("k").expect("it is there")));

    let c = at("c:h1").device;
    let seen = |port: &str| vec![(host(2), Host { location: at(port), addresses: Vec::new() })];
    site.manager.observe_hosts(&[c.clone()].into(), seen("c:h1"));
    site.settle();
    assert_eq!(states(&site, "k").0, State::Installed);
    meet(&site, "a:h1", "c:h1");

    // The host moves to another device. Then it is declared elsewhere, and the declaration counts
    // more than the observation.
    let d = at("d:h1").device;
    site.manager.observe_hosts(&[d.clone()].into(), seen("d:h2"));
    site.settle();
    meet(&site, "a:h1", "c:h1");
    site.manager.observe_hosts(&[c.clone()].into(), Vec::new());
    site.settle();
    meet(&site, "a:h1", "d:h2");
    site.manager.declare_host(host(2), located(&at("b:h2"))).expect("a host");
    site.settle();
    meet(&site, "a:h1", "b:h2");
    let view = site.manager.view_topology();
    let found: Vec<_> = view.hosts.iter().map(|it| (it.id, it.declared, it.observed, it.intents)).collect();
    assert_eq!(found, [(host(1), true, false, 1), (host(2), true, true, 1)]);
    assert_eq!(site.plane.0.len(), 4, "nothing is left where it was");
    // A host seen at a port with a link belongs to the device at the other end.
    site.manager.declare_host(host(2), None).expect("no host");
    site.manager.observe_hosts(&[d].into(), seen("d:a"));
    site.settle();
    let (state, reason) = states(&site, "k");
    assert_eq!((state, site.plane.0.len()), (State::Failed, 0), "{reason}");

    // A withdrawn intent no longer waits for its host.
    site.manager.withdraw("k").expect("it is there");
    site.settle();
    site.manager.declare_host(host(2), located(&at("b:h2"))).expect("a host");
    site.settle();
    assert_eq!((states(&site, "k").0, site.plane.0.len()), (State::Withdrawn, 0));
}

/// Two nodes claim a host: packets do not go to the one that claimed it last.
#[test]
fn a_host_that_two_nodes_claim_is_with_neither() {
    let mut site = Site::new("a-b b-c c-d d-a");
    site.manager.declare_host(host(1), located(&at("a:h1"))).expect("a host");
    let seen = |site: &mut Site, port: &str, is_there: bool| {
        let told = Host { location: at(port), addresses: Vec::new() };
        let hosts = if is_there { vec![(host(2), told)] } else { Vec::new() };
        site.manager.observe_hosts(&[at(port).device].into(), hosts);
        site.settle();
    };
    seen(&mut site, "c:h1", true);
    site.submit("before", between(1, 2, Constraints::default())).expect("taken");
    site.settle();
    seen(&mut site, "d:h2", true);
    // An installed intent stays. A new one gets an error with both places.
    assert_eq!(states(&site, "before").0, State::Installed);
    meet(&site, "a:h1", "c:h1");
    site.manager.declare_host(host(3), located(&at("b:h1"))).expect("a host");
    site.submit("after", between(2, 3, Constraints::default())).expect("taken");
    site.settle();
    let (state, reason) = states(&site, "after");
    assert_eq!(state, State::Failed);
    for words in ["52:54:00:00:00:02 is claimed by c at", "and by d at", "Muster::TopologyHost"] {
        assert!(reason.contains(words), "{reason}");
    }
    let claimed: Vec<_> = site.manager.view_topology().hosts.into_iter().map(|host| host.claimed).collect();
    assert_eq!(claimed, [vec![], vec![at("c:h1"), at("d:h2")], vec![]]);
    // One of the two nodes no longer claims the host.
    seen(&mut site, "d:h2", false);
    assert_eq!([states(&site, "before").0, states(&site, "after").0], [State::Installed; 2]);
    site.manager.withdraw("after").expect("it is there");
    site.settle();
    meet(&site, "a:h1", "c:h1");
    // The operator's declaration counts more than both.
    seen(&mut site, "d:h2", true);
    site.manager.declare_host(host(2), located(&at("b:h2"))).expect("a host");
    site.settle();
    meet(&site, "a:h1", "b:h2");
    // The claim of a node that is away does not count if another node sees the host.
    site.manager.declare_host(host(2), None).expect("no host");
    site.manager.set_away(&at("c:h1").device, true).expect("it is there");
    site.settle();
    meet(&site, "a:h1", "d:h2");
}

#[test]
fn hosts_keep_their_places_over_a_restart_until_reported() {
    let mut site = Site::new("a-b b-c c-a");
    let seen =
        |port: &str| (vec![(host(2), Host { location: at(port), addresses: Vec::new() })], at(port).device);
    site.manager.declare_host(host(1), located(&at("a:h1"))).expect("a host");
    let (hosts, device) = seen("b:h1");
    site.manager.observe_hosts(&[device].into(), hosts);
    site.submit("k", between(1, 2, Constraints::default())).expect("taken");
    site.settle();
    let before = site.plane.clone().0;
    site.restart();
    assert_eq!((states(&site, "k").0, site.plane.0.len()), (State::Installed, before.len()));
    // The path fails before a node has reported hosts.
    site.cable("a", "b", false);
    site.settle();
    assert_eq!(states(&site, "k").0, State::Installed);
    meet(&site, "a:h1", "b:h1");
    // The node reports that the host is gone.
    site.manager.observe_hosts(&[at("b:h1").device].into(), Vec::new());
    site.wait(Duration::from_secs(1));
    assert_eq!((states(&site, "k").0, site.plane.0.len()), (State::Failed, 0));
}
