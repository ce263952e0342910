//! Whatever document follows whatever other: executed step by step on a kernel made of paper, the management
//! address and the default route are there all the time if both documents have them, and the plan reaches its
//! target; undone after any step, all is as it was.

use std::net::IpAddr;
use std::sync::Arc;

use muster_shared::model::network::NetworkDocument;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::snapshot::Snapshot;
use super::super::state::{Link, Ovs, OvsBridge, OvsPort, Route, State};
use super::super::step::Step;
use super::super::verify::differences;
use super::super::wanted::Target;
use super::plan;

/// The effect of a step on the kernel and Open vSwitch, as far as plans rely on it.
fn execute(state: &mut State, step: &Step) {
    let mut bridges: std::collections::BTreeMap<String, OvsBridge> =
        state.ovs.take().unwrap_or_default().into();
    let new = |kind: &str| Link { kind: kind.to_owned(), mtu: 1500, ..Link::default() };
    match step {
        Step::CreateLinuxBridge { link } => drop(state.links.insert(link.clone(), new("bridge"))),
        Step::DeleteLink { link } => {
            state.links.remove(link);
            state.links.values_mut().for_each(|member| drop(member.master.take_if(|master| master == link)));
        }
        Step::CreateOvsBridge { bridge, row } => {
            let mut row = row.as_ref().clone();
            let local = OvsPort { ours: row.ours, ..OvsPort::new(bridge, None, true) };
            row.ports.insert(bridge.clone(), local);
            bridges.insert(bridge.clone(), row);
            state.links.insert(bridge.clone(), new("tun"));
        }
        Step::DeleteOvsBridge { bridge } => {
            let gone = bridges.remove(bridge);
            for port in gone.iter().flat_map(|bridge| &bridge.ports).filter(|(_, port)| port.is_internal()) {
                state.links.remove(port.0);
            }
        }
        Step::AddOvsPort { bridge, port, row } => {
            assert!(
                bridges.values().all(|bridge| !bridge.ports.contains_key(port)),
                "{port} is in a bridge already"
            );
            if row.is_internal() {
                state.links.insert(port.clone(), new("tun"));
            }
            bridges
                .get_mut(bridge)
                .expect("bridges come before their ports")
                .ports
                .insert(port.clone(), row.as_ref().clone());
        }
        Step::RemoveOvsPort { bridge, port } => {
            let gone = bridges.get_mut(bridge).and_then(|bridge| bridge.ports.remove(port));
            if gone.is_some_and(|port| port.is_internal()) {
                state.links.remove(port);
            }
        }
        Step::SetOvsTag { port, tag } => {
            bridges
                .values_mut()
                .filter_map(|bridge| bridge.ports.get_mut(port))
                .for_each(|port| port.tag = *tag);
        }
        Step::SetOvsHwaddr { bridge, hwaddr } => bridges.get_mut(bridge).unwrap().hwaddr.clone_from(hwaddr),
        Step::SetOvsMtu { interface, mtu } => {
            let ports = bridges.values_mut().flat_map(|bridge| bridge.ports.values_mut());
            ports.filter_map(|port| port.interfaces.get_mut(interface)).for_each(|it| it.mtu_request = *mtu);
            let link = state.links.get_mut(interface).unwrap();
            link.mtu = mtu.unwrap_or(1500);
        }
        Step::SyncOvs | Step::ReloadResolved | Step::SetResolver { .. } => {}
        Step::AddRule { rule, protocol } => drop(state.rules.insert(rule.as_ref().clone(), *protocol)),
        Step::RemoveRule { rule, .. } => drop(state.rules.remove(rule)),
        step => execute_on_link(state, step),
    }
    state.ovs = Some(Ovs::from(bridges));
}

fn execute_on_link(state: &mut State, step: &Step) {
    let key = match step {
        Step::ReplaceRoute { route, .. } => Some(route.key()),
        Step::AddRoute { route, .. } => Some(route.key()),
        _ => None,
    };
    match step {
        Step::ReplaceRoute { .. } => {
            state
                .links
                .values_mut()
                .for_each(|link| Arc::make_mut(&mut link.routes).retain(|route| Some(route.key()) != key));
        }
        Step::AddRoute { .. } => {
            let taken = state
                .links
                .values()
                .flat_map(|link| link.routes.iter())
                .any(|route| Some(route.key()) == key);
            assert!(!taken, "the kernel keeps one route for a key: {step}");
        }
        _ => {}
    }
    let on = match step {
        Step::SetMaster { link, .. }
        | Step::SetMtu { link, .. }
        | Step::SetMac { link, .. }
        | Step::SetUp { link, .. } => link,
        Step::AddAddress { link, .. } | Step::RemoveAddress { link, .. } => link,
        Step::AddRoute { link, .. } | Step::ReplaceRoute { link, .. } | Step::RemoveRoute { link, .. } => {
            link
        }
        other => panic!("no paper for: {other}"),
    };
    let link = state.links.get_mut(on).unwrap_or_else(|| panic!("there is no {on} for: {step}"));
    match step {
        Step::SetMaster { master, .. } => link.master.clone_from(master),
        Step::SetMtu { mtu, .. } => link.mtu = *mtu,
        Step::SetMac { mac, .. } => link.mac = Some(mac.clone()),
        Step::SetUp { up, .. } => {
            link.up = *up;
            if !up {
                Arc::make_mut(&mut link.routes).clear();
                link.addresses.retain(|address| address.net.addr().is_ipv4());
            }
        }
        Step::AddAddress { address, .. } if !link.addresses.contains(address) => {
            link.addresses.push(*address)
        }
        Step::RemoveAddress { address, .. } => remove_address(link, address),
        Step::AddRoute { route, .. } => add_route(link, route, step),
        Step::ReplaceRoute { route, .. } => add_route(link, route, step),
        Step::RemoveRoute { route, .. } => Arc::make_mut(&mut link.routes).retain(|other| other != route),
        _ => {}
    }
}

fn add_route(link: &mut Link, route: &Route, step: &Step) {
    assert!(link.up, "a route needs a link that is up: {step}");
    let gateway = route.gateway.unwrap();
    let reached = link.addresses.iter().any(|address| address.net.contains(&gateway));
    assert!(reached, "a next hop needs a network: {step}");
    Arc::make_mut(&mut link.routes).push(route.clone());
}

/// With the first address of a network its others go, with the last one all routes.
fn remove_address(link: &mut Link, address: &super::super::state::Address) {
    let same = |other: &&super::super::state::Address| other.net.trunc() == address.net.trunc();
    let first = link.addresses.iter().find(same) == Some(address);
    if first && address.net.addr().is_ipv4() {
        link.addresses.retain(|other| other.net.trunc() != address.net.trunc());
    } else {
        link.addresses.retain(|other| other != address);
    }
    if !link.addresses.iter().any(|address| address.net.addr().is_ipv4()) {
        Arc::make_mut(&mut link.routes).retain(|route| route.destination.addr().is_ipv6());
    }
}

const MANAGEMENT: &str = "192.0.2.10";

/// Documents that vary the place of the management address, its prefix length, its neighbours, and
/// other objects.
fn documents() -> impl Strategy<Value = Value> {
    let others =
        proptest::sample::subsequence(vec!["192.0.2.9/24", "192.0.2.11/24", "198.51.100.1/24"], 0..=3);
    let length = prop_oneof![Just(24), Just(25), Just(32)];
    (0..4usize, length, others, 0..4usize, any::<[bool; 4]>()).prop_map(
        |(place, length, others, at, flags)| {
            let [eth1_joins, vlan, second, mtu] = flags;
            let mut addresses: Vec<String> = others.iter().map(ToString::to_string).collect();
            addresses.insert(at.min(addresses.len()), format!("{MANAGEMENT}/{length}"));
            if length == 32
                && !addresses.iter().any(|address| address.ends_with(".9/24") || address.ends_with(".11/24"))
            {
                addresses.push("192.0.2.12/24".to_owned());
            }
            let addresses: Vec<Value> =
                addresses.iter().map(|address| json!({"ip_netmask": address})).collect();
            let mut l3 =
                json!({"addresses": addresses, "routes": [{"default": true, "next_hop": "192.0.2.1"}]});
            if second {
                l3["routes"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"ip_netmask": "10.0.0.0/8", "next_hop": "192.0.2.2"}));
            }
            if mtu {
                l3["mtu"] = json!(1400);
            }
            let mut members = vec![json!({"type": "interface", "name": "eth0", "primary": true})];
            if eth1_joins {
                members.push(json!({"type": "interface", "name": "eth1"}));
            }
            if vlan && place != 1 {
                members.push(
                    json!({"type": "vlan", "vlan_id": 7, "addresses": [{"ip_netmask": "10.7.0.1/24"}]}),
                );
            }
            let (kind, name) = [
                ("interface", "eth0"),
                ("linux_bridge", "br1"),
                ("ovs_bridge", "br-ex"),
                ("ovs_bridge", "br1"),
            ][place];
            let mut object = l3;
            object["type"] = json!(kind);
            object["name"] = json!(name);
            if place > 0 {
                object["members"] = json!(members);
            }
            json!([object])
        },
    )
}

fn holds(state: &State, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    state.links.values().flat_map(|link| &link.addresses).any(|other| other.net.addr() == address)
}

fn has_default(state: &State) -> bool {
    state.links.values().flat_map(|link| link.routes.iter()).any(|route| route.destination.prefix_len() == 0)
}

/// Two links that somebody else has configured.
fn at_first() -> State {
    let state = json!({
        "links": {
            "eth0": {"index": 2, "kind": "", "mac": "52:54:00:00:00:01", "mtu": 1500, "up": true,
                "addresses": [{"net": "192.0.2.9/24"}, {"net": "192.0.2.10/24"}],
                "routes": [{"destination": "0.0.0.0/0", "gateway": "192.0.2.1", "table": 254, "metric": 0, "protocol": 3}]},
            "eth1": {"index": 3, "kind": "", "mac": "52:54:00:00:00:02", "mtu": 1500},
        },
        "ovs": {},
    });
    serde_json::from_value(state).unwrap()
}

fn empty() -> NetworkDocument {
    NetworkDocument::default()
}

/// Executes a plan and says what must hold on the way. The one exception: a name changes its kind, and the
/// kernel has each name once, so the old one goes first.
fn follow(state: &mut State, steps: &[Step]) -> Result<(), TestCaseError> {
    let anew = matches!(steps.first(), Some(Step::DeleteLink { .. } | Step::DeleteOvsBridge { .. }));
    let (mut held, mut had) = (holds(state, MANAGEMENT) && !anew, has_default(state) && !anew);
    for step in steps {
        execute(state, step);
        let (holds, has) = (holds(state, MANAGEMENT), has_default(state));
        prop_assert!(holds || !held, "the address is nowhere after '{}' of {:#?}", step, words(steps));
        prop_assert!(has || !had, "there is no default route after '{}' of {:#?}", step, words(steps));
        (held, had) = ((held || holds) && !anew, (had || has) && !anew);
    }
    prop_assert!(holds(state, MANAGEMENT) && has_default(state), "lost by {:#?}", words(steps));
    Ok(())
}

fn words(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

/// Without what nobody decides about.
fn comparable(mut state: State) -> State {
    for link in state.links.values_mut() {
        link.index = 0;
        Arc::make_mut(&mut link.routes).sort();
        link.addresses.sort_by_key(|address| address.net.trunc());
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_management_address_is_always_somewhere(first in documents(), second in documents(), cut in 0..40usize) {
        let mut state = at_first();
        let mut before = Snapshot::default();
        for document in [&first, &second] {
            let document = NetworkDocument::parse(document).unwrap();
            before.extend_by(&document, &state);
            let undo = Snapshot::undo_of(&document, &before, &state);
            let target = Target::new(&document, &before, &state, None);
            let steps = plan(&target, &state).unwrap();

            // Cut off after some step, and undone.
            let mut undone = state.clone();
            steps.iter().take(cut).for_each(|step| execute(&mut undone, step));
            let back = plan(&Target::new(&empty(), &undo, &undone, None), &undone).unwrap();
            follow(&mut undone, &back)?;
            prop_assert_eq!(comparable(undone), comparable(state.clone()), "{:#?}", words(&steps));

            follow(&mut state, &steps)?;
            let target = Target::new(&document, &before, &state, None);
            prop_assert_eq!(differences(&target, &state), []);
            prop_assert_eq!(words(&plan(&target, &state).unwrap()), Vec::<String>::new());
            before.keep_only(&document);
        }
        let back = plan(&Target::new(&empty(), &before, &state, None), &state).unwrap();
        follow(&mut state, &back)?;
        prop_assert_eq!(comparable(state), comparable(at_first()));
    }
}
