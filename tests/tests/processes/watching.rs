//! Somebody changes the network by hand, and the controller says so; facts of a server.

use muster_tests::testbed::{Namespace, Place, Site, Switch, eventually};

/// A bridge of Open vSwitch with an address and a VLAN, on a link to somebody else.
const TEMPLATE: &str = r#"
heat_template_version: 2018-08-31
resources:
  net:
    type: Muster::NetworkConfig
    properties:
      node: web-1
      mapping: {nic1: eth1}
      network_config:
        - type: ovs_bridge
          name: br-ex
          use_dhcp: false
          addresses: [{ip_netmask: 192.0.2.1/24}]
          members:
            - {type: interface, name: nic1, primary: true}
            - {type: vlan, vlan_id: 10, addresses: [{ip_netmask: 198.51.100.1/24}]}
"#;

fn until_observed(site: &Site, wanted: &str) {
    let is_so = || (site.resource("net", "net")["observed"] == wanted).then_some(());
    eventually(&format!("it is {wanted}"), is_so);
}

fn until_told(site: &Site, wanted: &str) {
    let told = || {
        let events = site.json(&["stack", "events", "net"]);
        let reasons = events.as_array()?.iter().filter_map(|event| event["reason"].as_str());
        reasons.into_iter().any(|reason| reason.contains(wanted)).then_some(())
    };
    eventually(&format!("an event says '{wanted}'"), told);
}

#[test]
fn what_others_change_is_seen_shown_and_put_right_by_an_update() {
    let site = Site::in_namespace();
    let (server, peer) = (site.namespace.as_ref().unwrap().server(2), Namespace::new());
    let switch = Switch::start(&server);
    server.link("eth1", &peer, "eth1");
    let place = Place { namespace: Some(&server), switch: Some(&switch), ..Place::default() };
    let web1 = site.join_at("web-1", place);
    let template = site.file(TEMPLATE);
    site.ok(&["stack", "create", "net", "-t", &template, "--wait"]);
    until_observed(&site, "in_sync");
    assert_eq!(site.json(&["node", "drift"]), serde_json::json!([]));

    server.ip("address del 192.0.2.1/24 dev br-ex");
    until_observed(&site, "drifted");
    until_told(&site, "wanted 192.0.2.1/24, br-ex has none");
    let row = site.resource("net", "net");
    assert_eq!(row["status"], "COMPLETE");
    let drift = site.json(&["node", "drift", "web-1"]);
    assert_eq!(drift[0]["resource"], "net");
    assert!(drift[0]["reason"].as_str().unwrap().contains("192.0.2.1/24"), "{drift}");
    assert_eq!(site.json(&["node", "list"])[0]["drifted"], 1);
    server.ip("address add 192.0.2.1/24 dev br-ex");
    until_observed(&site, "in_sync");
    assert_eq!(site.json(&["node", "list"])[0]["drifted"], 0);

    switch.vsctl("del-port br-ex vlan10");
    until_observed(&site, "drifted");
    site.ok(&["stack", "update", "net", "-t", &template, "--wait"]);
    assert_eq!(switch.vsctl("get port vlan10 tag").trim(), "10", "what drifted is applied again");
    until_observed(&site, "in_sync");

    // Not while the agent is away; then at once.
    let mut web1 = web1;
    web1.daemon.kill();
    server.ip("address del 192.0.2.1/24 dev br-ex");
    web1.daemon.restart();
    until_observed(&site, "drifted");

    site.ok(&["stack", "delete", "net", "--wait"]);
    assert_eq!(site.json(&["node", "drift"]), serde_json::json!([]));
}

#[test]
fn a_server_tells_what_it_is_and_when_its_link_loses_its_carrier() {
    let site = Site::in_namespace();
    let (server, peer) = (site.namespace.as_ref().unwrap().server(2), Namespace::new());
    let switch = Switch::start(&server);
    server.link("eth1", &peer, "eth1");
    let place = Place { namespace: Some(&server), switch: Some(&switch), ..Place::default() };
    let mut web1 = site.join_at("web-1", place);
    site.ok(&["stack", "create", "net", "-t", &site.file(TEMPLATE), "--wait"]);
    until_observed(&site, "in_sync");

    let link = |name: &str| {
        let facts = site.json(&["node", "facts", "web-1"]);
        facts["links"].as_array().unwrap().iter().find(|link| link["name"] == name).cloned().unwrap()
    };
    let facts = site.json(&["node", "facts", "web-1"]);
    let read = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(facts["kernel"], read("/proc/sys/kernel/osrelease").trim());
    assert!(facts["memory"].as_u64().unwrap() > 1 << 20 && facts["cpus"].as_u64().unwrap() > 0, "{facts}");
    assert!(facts["booted_at"].is_string() && facts["os"]["id"].is_string(), "{facts}");
    let bridge = link("br-ex");
    assert_eq!((&bridge["up"], &bridge["addresses"][0]), (&true.into(), &"192.0.2.1/24".into()), "{bridge}");
    assert_eq!(
        site.json(&["node", "list", "-l", "fact.memory>1M,fact.links.br-ex.up=true"])[0]["name"],
        "web-1"
    );
    assert_eq!(site.json(&["node", "list", "-l", "fact.memory<1M"]), serde_json::json!([]));
    site.muster(&["node", "list", "-l", "fact.memry>1"]).refused(2, &["did you mean 'memory'"]);
    let before = link("eth1");
    assert_eq!((&before["carrier"], &before["speed"]), (&true.into(), &serde_json::Value::Null), "{before}");
    peer.ip("address add 192.0.2.2/24 dev eth1");
    peer.run("ping -n -c 3 -i 0.2 -w 20 192.0.2.1");
    let received = |link: &serde_json::Value| link["rx"]["packets"].as_u64().unwrap();
    assert!(received(&link("eth1")) >= received(&before) + 3, "counters are as they are now");

    peer.ip("link set eth1 down");
    until_told(&site, "carrier lost on eth1");
    assert_eq!(link("eth1")["carrier"], false);
    assert_eq!(site.resource("net", "net")["observed"], "in_sync", "a cable is no drift");
    peer.ip("link set eth1 up");
    until_told(&site, "carrier found on eth1");

    web1.daemon.kill();
    site.until_node("web-1", "offline");
    assert_eq!(link("eth1")["name"], "eth1", "what was told last");
    site.muster(&["node", "facts", "web-9"]).refused(1, &["web-9"]);
}
