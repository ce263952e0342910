//! The agents' reports of their bridges' ports, and the neighbours that the controller derives from them.

use std::time::Instant;

use muster_testbed::{Switch, eventually};
use muster_tests::site::{Place, Site};
use serde_json::Value;

/// A port that came up sends four frames in three seconds, and one every two seconds then; each is good for six.
const FRAMES: u64 = 7;

/// The ports of `br0` of a node as the controller has them, and since when.
fn ports(site: &Site, node: &str) -> Option<(Value, String)> {
    let sql = format!(
        "SELECT ports, changed_at FROM topology_devices WHERE node = '{node}' AND bridge = 'br0' AND up"
    );
    let mut row = site.query(&sql).pop()?;
    let since = row.pop()?;
    Some((serde_json::from_str(&row.pop()?).unwrap(), since))
}

fn port(site: &Site, node: &str, name: &str) -> Option<Value> {
    let (ports, _) = ports(site, node)?;
    ports.as_array().unwrap().iter().find(|port| port["name"] == name).cloned()
}

fn until_port(site: &Site, node: &str, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    eventually(&format!("{name} of {node} {what}"), || port(site, node, name).filter(|port| is_so(port)));
}

fn until_linked(site: &Site) {
    for (node, own, other) in [("web-1", "c1", "c2"), ("web-2", "c2", "c1")] {
        until_port(site, node, own, "hears the other end", |port| port["heard"]["port"] == other);
    }
}

#[test]
fn the_controller_knows_a_cable_its_cut_and_a_restarted_agent() {
    let site = Site::in_namespace();
    let (one, two) = [2, 3].map(|number| site.hub().server(number)).into();
    one.link("c1", &two, "c2");
    let switches = [(&one, "c1"), (&two, "c2")].map(|(server, cable)| {
        let switch = Switch::start(server);
        switch.bridge("br0", &[]);
        switch.vsctl(&format!("add-port br0 {cable}"));
        // Nothing else is on the cable.
        server.ip(&format!("link set {cable} addrgenmode none"));
        server.ip(&format!("link set {cable} up"));
        switch
    });
    let mut agents = [(&one, "web-1"), (&two, "web-2")]
        .into_iter()
        .zip(&switches)
        .map(|((server, name), switch)| {
            site.join_at(name, Place { namespace: Some(server), switch: Some(switch), ..Place::default() })
        })
        .collect::<Vec<_>>();
    until_linked(&site);

    let begun = Instant::now();
    two.ip("link set c2 down");
    until_port(&site, "web-2", "c2", "is down", |port| port["up"] == false);
    until_port(&site, "web-1", "c1", "is down", |port| port["up"] == false);
    println!("from 'ip link set down' to durable with the controller, both ends: {:?}", begun.elapsed());
    two.ip("link set c2 up");
    until_linked(&site);

    // Who hears its frames knows it as before.
    let before = ports(&site, "web-2");
    let received = || two.run("cat /sys/class/net/c2/statistics/rx_packets").trim().parse::<u64>().unwrap();
    // Right after a frame, there is most time until it is silent for too long.
    let heard = received();
    eventually("it speaks", || (received() > heard).then_some(()));
    agents[0].daemon.kill();
    let until = received() + FRAMES;
    agents[0].daemon.restart();
    eventually("it has spoken for longer than what it said before is good", || {
        assert_eq!(ports(&site, "web-2"), before, "it is no other neighbour, and none that is silent");
        (received() >= until).then_some(())
    });

    // One that does not come back is silent, and its cable has its carrier.
    agents[0].daemon.kill();
    until_port(&site, "web-2", "c2", "hears nobody", |port| port["up"] == true && port["heard"].is_null());
    agents[0].daemon.restart();
    until_linked(&site);

    switches[1].vsctl("del-br br0");
    eventually("br0 of web-2 is gone", || ports(&site, "web-2").is_none().then_some(()));
}
