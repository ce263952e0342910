//! Network documents on servers with an Open vSwitch of their own.

use muster_testbed::{Namespace, Switch, eventually};
use muster_tests::site::OneServer;

/// As TripleO's net-config-static-bridge describes, with a VLAN.
const TEMPLATE: &str = r#"
heat_template_version: 2018-08-31
parameters:
  address: {type: string, default: 192.0.2.1/24}
  vlan: {type: number, default: 10}
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
          addresses: [{ip_netmask: {get_param: address}}]
          routes: [{ip_netmask: 203.0.113.0/24, next_hop: 192.0.2.254}]
          members:
            - {type: interface, name: nic1, primary: true}
            - {type: vlan, vlan_id: {get_param: vlan}, addresses: [{ip_netmask: 198.51.100.1/24}]}
  after:
    type: Muster::Dummy
    depends_on: net
    properties: {node: web-1}
"#;

/// The server's state, without what changes by itself: lifetimes, and the numbers and order of links made again.
fn state(server: &Namespace, switch: &Switch) -> [Vec<String>; 3] {
    let sorted = |text: String| {
        let without_lifetime = |line: &str| line.split('\\').next().unwrap_or(line).trim_end().to_owned();
        let without_number = |line: String| match line.split_once(": ") {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest.to_owned(),
            _ => line,
        };
        let mut lines: Vec<String> = text.lines().map(without_lifetime).map(without_number).collect();
        lines.sort();
        lines
    };
    [server.ip("-4 -o address show"), server.ip("-4 route show"), switch.vsctl("list-br")].map(sorted)
}

#[test]
fn a_document_is_applied_updated_and_taken_back() {
    let one = OneServer::new();
    let OneServer { site, server } = &one;
    let (peer, switch) = (Namespace::new(), Switch::start(server));
    server.link("eth1", &peer, "eth1");
    server.ip("address add 192.0.2.77/24 brd + dev eth1");
    server.ip("route add 203.0.113.0/25 via 192.0.2.99");
    let web1 = one.join_with(&switch);
    let before = state(server, &switch);
    let template = site.file(TEMPLATE);

    site.ok(&["stack", "create", "net", "-t", &template, "--wait"]);
    assert_eq!(switch.vsctl("list-br"), "br-ex\n");
    assert_eq!(switch.vsctl("list-ports br-ex"), "eth1\nvlan10\n");
    assert_eq!(switch.vsctl("get port vlan10 tag").trim(), "10");
    assert!(server.ip("-4 address show dev br-ex").contains("192.0.2.1/24"));
    assert!(server.ip("-4 route show").contains("203.0.113.0/24 via 192.0.2.254 dev br-ex"));
    assert!(server.ip("-4 address show dev vlan10").contains("198.51.100.1/24"));
    peer.ip("address add 192.0.2.2/24 dev eth1");
    peer.run("ping -n -c 1 -w 20 192.0.2.1");

    site.ok(&[
        "stack",
        "update",
        "net",
        "-t",
        &template,
        "-P",
        "address=192.0.2.9/24",
        "-P",
        "vlan=11",
        "--wait",
    ]);
    assert_eq!(switch.vsctl("list-ports br-ex"), "eth1\nvlan11\n");
    let addresses = server.ip("-4 address show dev br-ex");
    assert!(addresses.contains("192.0.2.9/24") && !addresses.contains("192.0.2.1/24"), "{addresses}");
    peer.run("ping -n -c 1 -w 20 192.0.2.9");
    assert_eq!(site.physical_ids("net", "net").len(), 1);

    site.ok(&["stack", "delete", "net", "--wait"]);
    assert_eq!(state(server, &switch), before);
    assert_eq!(web1.listing(), [""; 0]);
}

/// Killed before its change is confirmed, it restores that and the stack is FAILED; asked again, it goes on.
#[test]
fn a_document_survives_kills_of_the_agent() {
    let one = OneServer::new();
    let OneServer { site, server } = &one;
    let (peer, switch) = (Namespace::new(), Switch::start(server));
    server.link("eth1", &peer, "eth1");
    server.ip("address add 192.0.2.77/24 brd + dev eth1");
    let mut web1 = one.join_with(&switch);
    let template = site.file(TEMPLATE);
    let before = state(server, &switch);
    let steps: [(&[&str], &str); 3] = [
        (&["create", "net", "-t", &template], "vlan10"),
        (&["update", "net", "-t", &template, "-P", "vlan=11"], "vlan11"),
        (&["delete", "net"], ""),
    ];
    let mut was = before.clone();
    for (words, port) in steps {
        let jobs = |log: String| log.matches(" job ").count();
        let begun = jobs(web1.daemon.log());
        site.ok(&[&["stack"], words].concat());
        eventually("the job has begun", || (jobs(web1.daemon.log()) > begun).then_some(()));
        web1.daemon.kill();
        web1.daemon.restart();
        let is_kept = eventually("the stack has an outcome", || {
            let list = site.json(&["stack", "list"]);
            match list.as_array().unwrap().first().map(|stack| stack["status"].as_str().unwrap().to_owned()) {
                None => Some(true),
                Some(status) if status == "IN_PROGRESS" => None,
                Some(status) => Some(status == "COMPLETE"),
            }
        });
        if !is_kept {
            assert!(site.ok(&["stack", "failures", "net"]).contains("has been restored"));
            assert_eq!(state(server, &switch), was);
            let again = if words[0] == "create" { "update" } else { words[0] };
            site.ok(&[&["stack", again], &words[1..], &["--wait"]].concat());
        }
        was = state(server, &switch);
        if !port.is_empty() {
            assert_eq!(switch.vsctl("list-ports br-ex"), format!("eth1\n{port}\n"));
            assert!(server.ip("-4 address show dev br-ex").contains("192.0.2.1/24"));
        }
    }
    assert_eq!(was, before);
}
