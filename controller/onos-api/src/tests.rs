//! ONOS's documents and ours, in both directions. Most documents here are our own, of the shapes that the examples of
//! ONOS's REST and the tests of its codecs have; `recorded.rs` has these themselves.

mod documents;
mod graph;
mod recorded;
mod refused;
mod table;

use std::collections::BTreeMap;

use muster_api::intent::{BridgeView, PortView, TopologyView};

use crate::network::{Network, NoBridge};

/// `web-1/br0` with p1 and p2, and `web-2/br0`, with the ids of:…1 and of:…2.
fn network() -> Network {
    let port = |name: &str| PortView { name: name.to_owned(), up: true };
    let bridge = |node: &str, id: u64| BridgeView {
        device: format!("{node}/br0"),
        datapath_id: format!("{id:016x}"),
        up: true,
        away: false,
        ports: vec![port("p1"), port("p2")],
    };
    Network::new(TopologyView {
        devices: vec![bridge("web-1", 1), bridge("web-2", 2)],
        ..TopologyView::default()
    })
}

#[test]
fn a_bridge_is_found_by_its_ids_and_its_name() {
    let whole = network();
    let name = |network: &Network, wanted: &str| network.find(wanted).map(|bridge| bridge.name.clone());
    assert_eq!(name(&whole, "of:0000000000000002").unwrap(), "web-2/br0");
    assert_eq!(name(&whole, "web-1/br0").unwrap(), "web-1/br0");
    let by_name = "of:4d55000000000001";
    assert_eq!(name(&whole, by_name), Err(NoBridge::Unknown), "only the API knows ids that are not shown");
    let mut found = whole.view.clone();
    found.devices.truncate(1);
    let alone = Network::of_id(found, by_name);
    assert_eq!(name(&alone, by_name).unwrap(), "web-1/br0");
    assert_eq!(name(&alone, "of:4d55000000000002"), Err(NoBridge::Unknown));
    let mut twins = whole.view;
    twins.devices[1].datapath_id = twins.devices[0].datapath_id.clone();
    let why = name(&Network::new(twins), "of:0000000000000001").unwrap_err();
    assert!(matches!(why, NoBridge::Several(why) if why.contains("web-1/br0 and web-2/br0")));
}

/// ONOS's numbers of p1 and p2.
fn numbers() -> BTreeMap<&'static str, u64> {
    let network = network();
    ["p1", "p2"].into_iter().map(|name| (name, network.bridges[0].number(name))).collect()
}
