//! Things are changed by hand, and the controller reports or corrects that; facts of a server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use muster_testbed::{Namespace, Switch, eventually};
use muster_tests::site::{Agent, OneServer, Site};

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
    let one = OneServer::new();
    let OneServer { site, server } = &one;
    let (peer, switch) = (Namespace::new(), Switch::start(server));
    server.link("eth1", &peer, "eth1");
    let web1 = one.join_with(&switch);
    let template = site.file(TEMPLATE);
    site.ok(&["stack", "create", "net", "-t", &template, "--wait"]);
    until_observed(site, "in_sync");
    assert_eq!(site.json(&["node", "drift"]), serde_json::json!([]));

    server.ip("address del 192.0.2.1/24 dev br-ex");
    until_observed(site, "drifted");
    until_told(site, "wanted 192.0.2.1/24, br-ex has none");
    let row = site.resource("net", "net");
    assert_eq!(row["status"], "COMPLETE");
    let drift = site.json(&["node", "drift", "web-1"]);
    assert_eq!(drift[0]["resource"], "net");
    assert!(drift[0]["reason"].as_str().unwrap().contains("192.0.2.1/24"), "{drift}");
    assert_eq!(site.json(&["node", "list"])[0]["drifted"], 1);
    server.ip("address add 192.0.2.1/24 dev br-ex");
    until_observed(site, "in_sync");
    assert_eq!(site.json(&["node", "list"])[0]["drifted"], 0);

    switch.vsctl("del-port br-ex vlan10");
    until_observed(site, "drifted");
    site.ok(&["stack", "update", "net", "-t", &template, "--wait"]);
    assert_eq!(switch.vsctl("get port vlan10 tag").trim(), "10", "what drifted is applied again");
    until_observed(site, "in_sync");

    // Not while the agent is away; then at once.
    let mut web1 = web1;
    web1.daemon.kill();
    server.ip("address del 192.0.2.1/24 dev br-ex");
    web1.daemon.restart();
    until_observed(site, "drifted");

    site.ok(&["stack", "delete", "net", "--wait"]);
    assert_eq!(site.json(&["node", "drift"]), serde_json::json!([]));
}

#[test]
fn a_server_reports_its_facts_and_a_lost_carrier() {
    let one = OneServer::new();
    let OneServer { site, server } = &one;
    let (peer, switch) = (Namespace::new(), Switch::start(server));
    server.link("eth1", &peer, "eth1");
    let mut web1 = one.join_with(&switch);
    site.ok(&["stack", "create", "net", "-t", &site.file(TEMPLATE), "--wait"]);
    until_observed(site, "in_sync");

    let link = |name: &str| {
        let facts = site.json(&["node", "facts", "web-1"]);
        facts["links"].as_array().unwrap().iter().find(|link| link["name"] == name).cloned()
    };
    // A server that does not answer within two seconds has the facts that it told last.
    let until_link = |name: &str, what: &str, is_so: &dyn Fn(&serde_json::Value) -> bool| {
        eventually(&format!("{name} {what}"), || link(name).filter(is_so))
    };
    let is_up = |link: &serde_json::Value| link["up"] == true && link["addresses"][0] == "192.0.2.1/24";
    until_link("br-ex", "is up with its address", &is_up);
    let facts = site.json(&["node", "facts", "web-1"]);
    let read = |path| fs::read_to_string(path).unwrap();
    assert_eq!(facts["kernel"], read("/proc/sys/kernel/osrelease").trim());
    assert!(facts["memory"].as_u64().unwrap() > 1 << 20 && facts["cpus"].as_u64().unwrap() > 0, "{facts}");
    assert!(facts["booted_at"].is_string() && facts["os"]["id"].is_string(), "{facts}");
    assert_eq!(
        site.json(&["node", "list", "-l", "fact.memory>1M,fact.links.br-ex.up=true"])[0]["name"],
        "web-1"
    );
    assert_eq!(site.json(&["node", "list", "-l", "fact.memory<1M"]), serde_json::json!([]));
    site.muster(&["node", "list", "-l", "fact.memry>1"]).refused(2, &["did you mean 'memory'"]);
    server.ip("link add br1 type bridge");
    server.ip("link add veth1 type veth peer name veth2");
    server.ip("link set veth1 master br1");
    until_link("veth1", "is a member of a bridge", &|link| link["master"] == "br1");
    let before = link("eth1").unwrap();
    assert_eq!((&before["carrier"], &before["speed"]), (&true.into(), &serde_json::Value::Null), "{before}");
    peer.ip("address add 192.0.2.2/24 dev eth1");
    peer.run("ping -n -c 3 -i 0.2 -w 20 192.0.2.1");
    let received = |link: &serde_json::Value| link["rx"]["packets"].as_u64().unwrap();
    let all = received(&before) + 3;
    until_link("eth1", "counts as it does now", &|link| received(link) >= all);

    peer.ip("link set eth1 down");
    until_told(site, "carrier lost on eth1");
    until_link("eth1", "has no carrier", &|link| link["carrier"] == false);
    assert_eq!(site.resource("net", "net")["observed"], "in_sync", "a cable is no drift");
    peer.ip("link set eth1 up");
    until_told(site, "carrier found on eth1");

    web1.daemon.kill();
    site.until_node("web-1", "offline");
    assert!(link("eth1").is_some(), "what was told last");
    site.muster(&["node", "facts", "web-9"]).refused(1, &["web-9"]);
}

/// Files of one server, each with a policy.
fn files(site: &Site, agent: &Agent, rows: &[(&str, &str)]) -> String {
    let mut text = "heat_template_version: 2018-08-31\nresources:\n".to_owned();
    for (name, policy) in rows {
        let (node, path) = (&agent.name, agent.file(name));
        let policy = if policy.is_empty() { String::new() } else { format!("drift_policy: {policy}, ") };
        text += &format!(
            "  {name}: {{type: Muster::File, {policy}properties: {{node: {node}, path: {}, content: hello}}}}\n",
            path.display()
        );
    }
    site.file(&text)
}

#[test]
fn foreign_file_changes_are_corrected_as_the_policy_says() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    let rows = [("own", ""), ("shown", "report"), ("free", "ignore")];
    let template = files(&site, &web1, &rows);
    site.ok(&["stack", "create", "web", "-t", &template, "--wait"]);
    let has = |agent: &Agent, name: &str, wanted: &str| {
        (agent.content(name).as_deref() == Some(wanted)).then_some(())
    };

    for (name, _) in rows {
        fs::write(web1.file(name), "theirs").unwrap();
    }
    eventually("the first is corrected", || has(&web1, "own", "hello"));
    eventually("the second is shown", || {
        (site.resource("web", "shown")["observed"] == "drifted").then_some(())
    });
    fs::remove_file(web1.file("own")).unwrap();
    eventually("it is made again", || has(&web1, "own", "hello"));
    // The file is there before its job has ended: what is changed in between is corrected by the same job.
    eventually("that job has ended", || (site.resource("web", "own")["status"] == "COMPLETE").then_some(()));
    fs::set_permissions(web1.file("own"), fs::Permissions::from_mode(0o600)).unwrap();
    let mode = || fs::metadata(web1.file("own")).map_or(0, |meta| meta.permissions().mode() & 0o777);
    eventually("its mode is corrected", || (mode() == 0o644).then_some(()));
    eventually("all of that is known", || {
        let drift = site.json(&["node", "drift", "web-1"]);
        let names: Vec<_> = drift.as_array()?.iter().filter_map(|row| row["resource"].as_str()).collect();
        let row = site.resource("web", "own");
        let is_done = row["status"] == "COMPLETE" && row["corrections"].as_u64()? >= 2;
        (is_done && names == ["shown"] && drift[0]["policy"] == "report").then_some(())
    });
    assert_eq!((web1.content("shown"), web1.content("free")), (Some("theirs".into()), Some("theirs".into())));
    assert_eq!(site.resource("web", "own")["breaker"], "closed");

    // Also what changed while nobody looked.
    web1.daemon.kill();
    fs::write(web1.file("own"), "theirs").unwrap();
    web1.daemon.restart();
    eventually("it is corrected", || has(&web1, "own", "hello"));
    assert_eq!(web1.content("free").as_deref(), Some("theirs"), "what is ignored is left alone");

    site.ok(&["stack", "update", "web", "-t", &template, "--converge", "--wait"]);
    for (name, _) in rows {
        assert_eq!(web1.content(name).as_deref(), Some("hello"), "{name} converged");
    }
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert!(web1.listing().is_empty());
}

#[test]
fn a_node_in_maintenance_is_left_alone_and_put_right_afterwards() {
    let mut site = Site::start();
    let web1 = site.join("web-1");
    let (one, two) = (files(&site, &web1, &[("a", "")]), files(&site, &web1, &[("a", ""), ("b", "")]));
    site.ok(&["stack", "create", "web", "-t", &one, "--wait"]);
    site.muster(&["node", "maintenance", "web-1", "maybe"]).refused(2, &["maybe"]);
    site.muster(&["node", "maintenance", "web-2", "on"]).refused(1, &["did you mean web-1?"]);
    assert_eq!(site.ok(&["node", "maintenance", "web-1", "on"]).trim(), "web-1: maintenance");

    fs::write(web1.file("a"), "theirs").unwrap();
    let drifted = |site: &Site| {
        let drift = site.json(&["node", "drift"]);
        (drift[0]["observed"] == "drifted" && drift[0]["phase"] == "maintenance").then_some(())
    };
    eventually("it is seen", || drifted(&site));
    site.ok(&["stack", "update", "web", "-t", &two]);
    let held = |site: &Site| (site.resource("web", "b")["phase"] == "maintenance").then_some(());
    eventually("the new one waits", || held(&site));
    site.kill();
    site.restart();
    eventually("it is held still", || held(&site));
    assert_eq!(site.json(&["node", "list"])[0]["state"], "maintenance");
    assert_eq!((web1.content("a").as_deref(), web1.content("b")), (Some("theirs"), None));

    let off = site.ok(&["node", "maintenance", "web-1", "off", "-o", "json"]);
    assert!(!off.contains("maintenance"), "{off}");
    eventually("both are as they should be", || {
        let all = ["a", "b"].map(|name| web1.content(name));
        all.iter().all(|content| content.as_deref() == Some("hello")).then_some(())
    });
    eventually("and COMPLETE", || {
        (site.json(&["stack", "show", "web"])["status"] == "COMPLETE").then_some(())
    });
}

#[test]
fn so_many_nodes_are_waited_for() {
    let site = Site::start();
    let _web1 = site.join("web-1");
    assert_eq!(site.json(&["node", "wait", "--count", "1", "--timeout", "20"])["online"], 1);
    site.muster(&["node", "wait", "--count", "2", "--timeout", "1"]).refused(3, &["of 2 nodes", "1 online"]);
    let _web2 = site.join("web-2");
    assert_eq!(site.ok(&["node", "wait", "--count", "2", "--timeout", "60"]), "2 nodes online\n");
    site.ok(&["node", "maintenance", "web-1", "on"]);
    site.muster(&["node", "wait", "-l", "", "--count", "2", "--timeout", "1"]).refused(3, &["1 maintenance"]);
}
