//! Links, hosts and intents of stacks.

use muster_shared::model::{Facts, LinkFacts, NeighbourFacts};

use super::*;
use crate::tests::bed::{options, parse, stack};

pub(super) fn template(resources: &str) -> crate::Source {
    let template = format!("heat_template_version: 2018-08-31\nresources:\n{resources}");
    parse(crate::SourceText { name: "t".into(), template, ..crate::SourceText::default() })
}

fn link(name: &str, from: usize, to: usize, cost: u32) -> String {
    format!(
        "  {name}:\n    type: Muster::TopologyLink\n    properties: {{from: {{device: node-{from}/br0, port: p{to}}}, \
         to: {{device: node-{to}/br0, port: p{from}}}, cost: {cost}}}\n"
    )
}

fn intent(name: &str, key: &str, from: usize, to: usize, needs: &str) -> String {
    format!(
        "  {name}:\n    type: Muster::Intent\n    depends_on: [{needs}]\n    properties: {{key: {key}, type: point_to_point, \
         from: {{device: node-{from}/br0, port: h}}, to: {{device: node-{to}/br0, port: h}}, selector: {{eth_type: 0x0800}}}}\n"
    )
}

#[test]
fn a_stack_has_links_and_an_intent_and_takes_them_away() {
    let mut ring = Ring::new(4);
    let text = link("ab", 0, 1, 2) + &intent("way", "a-to-b", 0, 1, "ab");
    ring.bed.create(template(&text)).unwrap();
    assert_eq!(ring.bed.status(), "CREATE_COMPLETE");
    assert_eq!((ring.state("a-to-b"), ring.path("a-to-b").as_str()), (State::Installed, "0 1"));
    let refusal = ring.withdraw("a-to-b").unwrap_err().to_string();
    assert!(refusal.contains("belongs to resource way of stack s: update the stack"), "{refusal}");
    let refusal = ring.submit("a-to-b", 0, 2).unwrap_err().to_string();
    assert!(refusal.contains("belongs to resource way"), "{refusal}");
    // The link changes in place, and the intent takes the better path.
    let physical = ring.bed.resource("ab").physical_id;
    let text = link("ab", 0, 1, 5) + &intent("way", "a-to-b", 0, 1, "ab");
    ring.bed.update(template(&text)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.path("a-to-b").as_str()), ("UPDATE_COMPLETE", "0 3 2 1"));
    assert_eq!(ring.bed.resource("ab").physical_id, physical);
    ring.restart();
    assert_eq!((ring.state("a-to-b"), ring.path("a-to-b").as_str()), (State::Installed, "0 3 2 1"));
    // A new key makes a new intent; a new name keeps the intent.
    let text = link("ab", 0, 1, 5) + &intent("road", "a-to-b", 0, 1, "ab");
    ring.bed.update(template(&text)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.state("a-to-b")), ("UPDATE_COMPLETE", State::Installed));
    let text = link("ab", 0, 1, 5) + &intent("road", "b-to-a", 1, 0, "ab");
    ring.bed.update(template(&text)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.state("b-to-a")), ("UPDATE_COMPLETE", State::Installed));
    assert!(ring.bed.engine.view().intent("a-to-b").is_err());
    assert!(ring.equal());
    ring.bed.delete().unwrap();
    ring.bed.idle();
    assert_eq!((ring.bed.status().as_str(), ring.rules()), ("gone", 0));
    assert!(ring.bed.engine.view().intents().is_empty());
    assert!(ring.bed.engine.view().topology().links.iter().all(|link| !link.declared));
}

#[test]
fn an_impossible_intent_fails_its_stack_in_time_with_a_reason() {
    let mut ring = Ring::new(4);
    ring.cut(0, 1);
    ring.cut(0, 3);
    ring.bed.create(template(&intent("way", "a-to-b", 0, 1, ""))).unwrap();
    assert_eq!(ring.bed.status(), "CREATE_IN_PROGRESS");
    ring.bed.pass(Duration::from_secs(61));
    assert_eq!(ring.bed.status(), "CREATE_FAILED");
    let reason = ring.bed.resource("way").status_reason;
    assert!(reason.contains("intent a-to-b is FAILED: no path from node-0/br0 to node-1/br0"), "{reason}");
    ring.heal();
    ring.bed.pass(Duration::from_secs(2));
    ring.bed.update(template(&intent("way", "a-to-b", 0, 1, ""))).unwrap();
    assert_eq!(ring.bed.status(), "UPDATE_COMPLETE");
    // A key belongs to one intent.
    ring.submit("mine", 2, 3).unwrap();
    let text = intent("way", "a-to-b", 0, 1, "") + &intent("other", "mine", 1, 0, "");
    ring.bed.update(template(&text)).unwrap();
    assert_eq!(ring.bed.status(), "UPDATE_FAILED");
    let reason = ring.bed.resource("other").status_reason;
    assert!(reason.contains("intent 'mine' belongs to the operator"), "{reason}");
}

/// Links and intents are shown in lists and pictures.
#[test]
fn nothing_hidden_goes_into_a_link_or_an_intent() {
    let mut ring = Ring::new(4);
    let source = |hidden: bool| {
        let text = format!(
            "heat_template_version: 2018-08-31\nparameters: {{what: {{type: string, default: 10.66.6.6, hidden: {hidden}}}}}\nresources:\n{}{}",
            link("ab", 0, 1, 2).replace("cost: 2", "annotations: {rack: {get_param: what}}"),
            intent("way", "a-to-b", 0, 1, "").replace("0x0800", "0x0800, ipv4_dst: {get_param: what}"),
        );
        parse(crate::SourceText { name: "t".into(), template: text, ..crate::SourceText::default() })
    };
    ring.bed.create(source(true)).unwrap();
    ring.bed.idle();
    assert_eq!(ring.bed.status(), "CREATE_FAILED");
    for name in ["ab", "way"] {
        let reason = ring.bed.resource(name).status_reason;
        assert!(reason.contains("something hidden is among its properties"), "{name}: {reason}");
    }
    assert!(ring.bed.engine.view().intents().is_empty() && ring.rules() == 0);
    assert!(!format!("{:?}", ring.bed.engine.view().topology()).contains("10.66.6.6"));
    ring.bed.update(source(false)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.state("a-to-b")), ("UPDATE_COMPLETE", State::Installed));
}

#[test]
fn a_delete_waits_for_a_node_that_is_away() {
    let mut ring = Ring::new(4);
    ring.bed.create(template(&intent("way", "a-to-b", 0, 1, ""))).unwrap();
    assert_eq!(ring.bed.status(), "CREATE_COMPLETE");
    ring.bed.disconnect(&node(1));
    ring.bed.delete().unwrap();
    assert_eq!(ring.bed.status(), "DELETE_IN_PROGRESS");
    ring.bed.restart();
    (0..4).filter(|index| *index != 1).for_each(|index| {
        ring.bed.connect(&node(index));
        ring.tell(index);
    });
    assert_eq!(ring.bed.status(), "DELETE_IN_PROGRESS");
    ring.bed.connect(&node(1));
    ring.tell(1);
    ring.bed.idle();
    assert_eq!((ring.bed.status().as_str(), ring.rules()), ("gone", 0));
}

#[test]
fn a_rollback_returns_a_given_away_intent_to_its_resource() {
    let mut ring = Ring::new(4);
    ring.bed.create(template(&(link("ab", 0, 1, 2) + &intent("a", "way", 0, 1, "ab")))).unwrap();
    let bad = "  zz:\n    type: Muster::Dummy\n    depends_on: b\n    properties: {node: node-0, fail: create, values: {}}\n";
    ring.bed.update(template(&(link("cd", 0, 1, 2) + &intent("b", "way", 0, 1, "cd") + bad))).unwrap();
    ring.bed.idle();
    assert_eq!(ring.bed.status(), "UPDATE_FAILED");
    ring.bed.ask(Request::Rollback { name: stack(), to: None }).unwrap();
    ring.bed.idle();
    assert_eq!(
        (ring.bed.status().as_str(), ring.state("way"), ring.rules()),
        ("ROLLBACK_COMPLETE", State::Installed, 2)
    );
    assert_eq!(ring.bed.engine.view().topology().links.iter().filter(|link| link.declared).count(), 2);
}

fn host(number: u8, node: usize) -> String {
    format!(
        "  host_{number}:\n    type: Muster::TopologyHost\n    properties: {{mac: '52:54:00:00:00:0{number}', \
         location: {{device: node-{node}/br0, port: h}}}}\n"
    )
}

fn meeting(needs: &str) -> String {
    format!(
        "  way:\n    type: Muster::Intent\n    depends_on: [{needs}]\n    properties: {{key: meet, type: host_to_host, \
         from: {{host: '52:54:00:00:00:01'}}, to: {{host: '52:54:00:00:00:02'}}}}\n"
    )
}

#[test]
fn hosts_of_a_stack_meet_wherever_they_move() {
    let mut ring = Ring::new(4);
    let text = host(1, 0) + &host(2, 1) + &meeting("host_1, host_2");
    ring.bed.create(template(&text)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.path("meet").as_str()), ("CREATE_COMPLETE", "0 1, 1 0"));
    // The host moved, and its resource changes in place.
    let physical = ring.bed.resource("host_2").physical_id;
    let text = host(1, 0) + &host(2, 3) + &meeting("host_1, host_2");
    ring.bed.update(template(&text)).unwrap();
    assert_eq!((ring.bed.status().as_str(), ring.path("meet").as_str()), ("UPDATE_COMPLETE", "0 3, 3 0"));
    assert_eq!(ring.bed.resource("host_2").physical_id, physical);
    assert!(ring.equal());
    ring.restart();
    assert_eq!((ring.state("meet"), ring.path("meet").as_str()), (State::Installed, "0 3, 3 0"));
    ring.cut(0, 3);
    assert_eq!((ring.state("meet"), ring.path("meet").as_str()), (State::Installed, "0 1 2 3, 3 2 1 0"));
    // Only one resource can declare a host.
    let other: muster_shared::StackName = "other".parse().unwrap();
    let source = template(&host(1, 2));
    ring.bed.ask(Request::Create { name: other.clone(), source, options: options() }).unwrap();
    let views = ring.bed.engine.view().resource_views(&other, false).unwrap();
    let reason = &views[0].status_reason;
    assert!(reason.contains("host 52:54:00:00:00:01 is declared by resource host_1 of stack s"), "{reason}");
    // No resource declares one of the hosts any longer.
    ring.bed.update(template(&(host(1, 0) + &meeting("host_1")))).unwrap();
    let view = ring.bed.engine.view().intent("meet").unwrap();
    assert_eq!((view.state, ring.rules()), (State::Failed, 0), "{:?}", view.reason);
}

/// Facts of a node's links: the bridge's own port, and a neighbour at `h`.
fn facts(bridge: u8, neighbour: Option<u8>) -> Up {
    let own = LinkFacts {
        name: "br0".into(),
        kind: "openvswitch".into(),
        mac: Some([0x52, 0x54, 0, 0, 0, bridge]),
        addresses: vec!["10.0.0.1/24".parse().unwrap()],
        ..LinkFacts::default()
    };
    let heard = |number: u8| NeighbourFacts {
        port_id: format!("52:54:00:00:00:0{number}"),
        ..NeighbourFacts::default()
    };
    let neighbours = neighbour.map(heard).into_iter().collect();
    let port = LinkFacts { name: "h".into(), neighbours, ..LinkFacts::default() };
    Up::Facts(Box::new(Facts { links: vec![own, port], ..Facts::default() }))
}

#[test]
fn what_a_node_knows_of_hosts_without_looking_is_taken() {
    let mut ring = Ring::new(4);
    let with_own = |ring: &mut Ring, index: usize| {
        let mut ports = ring.ports(index);
        let own = PortState { name: "br0".into(), up: true, beacon: None, heard: Vec::new() };
        ports.ports.insert(0, own);
        ring.bed.receive(&node(index), Up::Ports(vec![ports]));
    };
    ring.bed.create(template(&meeting(""))).unwrap();
    // The facts arrive before the ports, and after them.
    ring.bed.receive(&node(0), facts(1, None));
    with_own(&mut ring, 0);
    with_own(&mut ring, 2);
    ring.bed.receive(&node(2), facts(7, Some(2)));
    assert_eq!(ring.state("meet"), State::Installed);
    assert_eq!(ring.path("meet"), "0 1 2, 2 1 0");
    let found: Vec<String> = ring
        .bed
        .engine
        .view()
        .topology()
        .hosts
        .iter()
        .map(|it| format!("{} {}", it.id, it.host.location))
        .collect();
    assert_eq!(
        found,
        [
            "52:54:00:00:00:01 node-0/br0 port br0",
            "52:54:00:00:00:02 node-2/br0 port h",
            "52:54:00:00:00:07 node-2/br0 port br0"
        ]
    );
    // A controller that has just started moves nothing until agents have reported.
    ring.bed.restart();
    assert_eq!((ring.state("meet"), ring.path("meet").as_str()), (State::Installed, "0 1 2, 2 1 0"));
    (0..4).for_each(|index| {
        ring.bed.connect(&node(index));
        if index % 2 == 0 { with_own(&mut ring, index) } else { ring.tell(index) }
    });
    // The neighbour is no longer heard.
    ring.bed.receive(&node(2), facts(7, None));
    assert_eq!((ring.state("meet"), ring.rules()), (State::Failed, 0));
}

/// A MAC address that two nodes claim belongs to neither, and operators see both nodes.
#[test]
fn a_mac_address_that_two_nodes_claim_is_a_conflict() {
    let mut ring = Ring::new(4);
    let conflicts = |ring: &Ring, index: usize| {
        let all = ring.bed.engine.view().node_views();
        all.into_iter().find(|view| view.name == node(index).as_str()).unwrap().mac_conflicts
    };
    let tell = |ring: &mut Ring, index: usize, mac: u8, neighbour: Option<u8>| {
        ring.bed.receive(&node(index), facts(mac, neighbour));
        ring.bed.idle();
    };
    tell(&mut ring, 0, 0x10, Some(1));
    tell(&mut ring, 1, 0x11, Some(2));
    ring.bed.create(template(&meeting(""))).unwrap();
    ring.bed.idle();
    assert_eq!(ring.bed.status(), "CREATE_COMPLETE");
    let path = ring.path("meet");
    // node-2 reports the host at its own port.
    tell(&mut ring, 2, 0x12, Some(2));
    assert_eq!(ring.path("meet"), path, "nothing is led to the one that says so last");
    let told =
        "52:54:00:00:00:02 is claimed by node-1 at node-1/br0 port h and by node-2 at node-2/br0 port h";
    for (index, wanted) in [(0, 0), (1, 1), (2, 1), (3, 0)] {
        let all = conflicts(&ring, index);
        assert_eq!(all.len(), wanted, "{all:?}");
        assert!(all.iter().all(|line| line.contains(told)), "{all:?}");
    }
    let told = ring.bed.tables.reasons.iter().filter(|reason| reason.contains(told)).count();
    assert_eq!(told, 1, "the stack whose intent it is about has an event");
    tell(&mut ring, 2, 0x12, None);
    assert!((0..4).all(|index| conflicts(&ring, index).is_empty()));
}

#[test]
fn a_declared_cable_that_died_silently_is_dead_after_a_restart() {
    let mut ring = Ring::new(4);
    ring.bed.create(template(&link("ab", 0, 1, 1))).unwrap();
    ring.submit("one", 0, 1).unwrap();
    ring.bed.pass(Duration::from_secs(6));
    let silent = |ring: &mut Ring| {
        for (index, port) in [(0, 1), (1, 0)] {
            let mut ports = ring.ports(index);
            ports
                .ports
                .iter_mut()
                .filter(|it| *it.name == *format!("p{port}"))
                .for_each(|it| it.heard.clear());
            ring.bed.receive(&node(index), Up::Ports(vec![ports]));
        }
    };
    silent(&mut ring);
    assert_eq!((ring.state("one"), ring.path("one").as_str()), (State::Installed, "0 3 2 1"));
    ring.bed.restart();
    let dead = |ring: &Ring| ring.bed.engine.view().topology().links.iter().filter(|link| !link.up).count();
    assert_eq!(dead(&ring), 2);
    ring.submit("two", 1, 0).unwrap();
    assert_eq!(ring.path("two"), "1 2 3 0");
    // All neighbours are heard again.
    (0..4).for_each(|index| {
        ring.bed.connect(&node(index));
        ring.tell(index);
    });
    assert_eq!(dead(&ring), 0);
}
