//! Packets are traced through three real switches in a line: the switches say where a packet goes, also where a rule of
//! others takes it although every table is as it is to be.

use std::ffi::OsStr;

use muster_testbed::{Namespace, Switch, eventually};
use muster_tests::site::{Agent, Place, Site};
use serde_json::{Value, json};

/// Dropped in this order.
struct Line {
    _agents: Vec<Agent>,
    switches: Vec<Switch>,
    servers: Vec<Namespace>,
    /// At the ports `host` of the first and the last switch.
    _hosts: [Namespace; 2],
    site: Site,
}

impl Line {
    /// `sw-1`, `sw-2` and `sw-3`, each with the bridge `br0`, and an intent from end to end.
    fn start() -> Self {
        let site = Site::in_namespace_with(&[("MUSTER_LIMITS__VERIFY_EVERY", OsStr::new("1"))]);
        let hub = site.hub();
        let servers: Vec<Namespace> = (1..=3).map(|number| hub.server(number + 1)).collect();
        for (one, other) in [(1, 2), (2, 3)] {
            servers[one - 1].link(&format!("to{other}"), &servers[other - 1], &format!("to{one}"));
        }
        let hosts = [1, 3].map(|number: usize| {
            let host = Namespace::new();
            servers[number - 1].link("host", &host, "eth0");
            host
        });
        let ports = [&["to2", "host"][..], &["to1", "to3"], &["to2", "host"]];
        let switches = servers.iter().zip(ports).map(|(server, ports)| {
            let switch = Switch::start(server);
            switch.bridge("br0", &[]);
            switch.vsctl("set-fail-mode br0 secure");
            ports.iter().for_each(|port| drop(switch.vsctl(&format!("add-port br0 {port}"))));
            switch
        });
        let switches: Vec<Switch> = switches.collect();
        let agents = (1..=3).zip(servers.iter().zip(&switches)).map(|(number, (server, switch))| {
            let place = Place { namespace: Some(server), switch: Some(switch), ..Place::default() };
            site.join_at(&format!("sw-{number}"), place)
        });
        let line = Self { _agents: agents.collect(), switches, servers, _hosts: hosts, site };
        eventually("both cables are known", || {
            let topology = line.site.json(&["topology", "show"]);
            let links = topology["links"].as_array()?;
            (links.iter().filter(|link| link["up"] == true).count() == 4).then_some(())
        });
        let end = |number: usize| json!({"device": format!("sw-{number}/br0"), "port": "host"});
        let intent = json!({"key": "there", "type": "point_to_point", "from": end(1), "to": end(3),
            "selector": {"eth_type": 0x800, "ipv4_dst": "10.9.0.0/24"},
            "treatment": [{"set_eth_dst": "52:54:00:12:34:56"}], "constraints": [{"encapsulation": "vlan"}]});
        let file = line.site.file(&json!({ "intents": [intent] }).to_string());
        line.site.ok(&["intent", "submit", "-f", &file, "--wait"]);
        line
    }

    fn trace(&self, packet: &str, exit: i32) -> (Value, String) {
        let from = ["trace", "--from", "sw-1/br0:host", "--packet", packet, "-o", "json"];
        let ran = self.site.muster(&from).expect(exit);
        (serde_json::from_str(&ran.stdout).unwrap(), ran.stderr)
    }

    /// The fault that the background found.
    fn broken(&self) -> Value {
        self.site.json(&["intent", "show", "there"])["broken"].clone()
    }
}

#[test]
fn a_packet_is_followed_and_an_intent_verified_on_real_switches() {
    let line = Line::start();
    let packet = "eth_type: ipv4, ipv4_dst: 10.9.0.7, ip_proto: udp, udp_dst: 53";

    let (trace, _) = line.trace(packet, 0);
    let hops = trace["hops"].as_array().unwrap();
    let ways: Vec<_> = hops.iter().map(|hop| (&hop["device"], &hop["in_port"])).collect();
    let on = |number: usize, port: &str| (json!(format!("sw-{number}/br0")), json!(port));
    let wanted = [on(1, "host"), on(2, "to1"), on(3, "to2")];
    assert_eq!(ways, wanted.iter().map(|(device, port)| (device, port)).collect::<Vec<_>>(), "{trace:#}");
    assert!(hops.iter().all(|hop| hop["rules"][0]["intent"] == "there"), "{trace:#}");
    assert!(hops[1]["packet"]["vlan_vid"].is_number(), "the intent's own tag: {trace:#}");
    let end = &trace["ends"][0];
    assert_eq!(end["at"], json!({"device": "sw-3/br0", "port": "host"}));
    let arrives = json!({"eth_dst": "52:54:00:12:34:56", "eth_type": 0x800, "ip_proto": 17, "ipv4_dst": "10.9.0.7",
        "udp_dst": 53});
    assert_eq!(end["packet"], arrives);
    let shown = line.site.ok(&["trace", "--from", "sw-1/br0:host", "--packet", packet]);
    assert!(shown.contains("intent there") && shown.contains("delivered"), "{shown}");
    let verified = line.site.ok(&["intent", "verify"]);
    assert!(verified.contains("there  ok"), "{verified}");

    let (_, error) = line.trace("eth_type: arp", 1);
    assert!(error.contains("no rule of table 0 on sw-1/br0 takes it"), "{error}");
    let wrong = ["trace", "--from", "sw-1/br0:host9"];
    line.site.muster(&wrong).refused(1, &["sw-1/br0 has no port 'host9'; did you mean 'host'?"]);

    // A rule of others, above the intent's: every table is as it is to be, and nothing arrives.
    let of_others = "table=0,priority=60000,in_port=to1,actions=drop";
    line.switches[1].ofctl(&["add-flow", "br0", of_others]);
    let (trace, error) = line.trace(packet, 1);
    assert!(error.contains("a rule on sw-2/br0 drops it"), "{error}");
    let taken = &trace["hops"][1]["rules"][0];
    assert_eq!((&taken["id"], &taken["owner"]), (&Value::Null, &Value::Null), "{trace:#}");
    assert!(taken["matches"].as_str().unwrap().contains("priority 60000"), "{trace:#}");
    let ran = line.site.muster(&["intent", "verify", "there"]).expect(1);
    assert!(
        ran.stdout.contains("broken") && ran.stdout.contains("a rule on sw-2/br0 drops it"),
        "{}",
        ran.stdout
    );
    assert_eq!(line.site.json(&["intent", "show", "there"])["state"], "INSTALLED");
    eventually("the background finds it", || line.broken().as_str().map(drop));
    line.switches[1].ofctl(&["--strict", "del-flows", "br0", "table=0,priority=60000,in_port=to1"]);
    eventually("the background finds it well again", || line.broken().is_null().then_some(()));
    let verified = line.site.ok(&["intent", "verify", "there"]);
    assert!(verified.contains("there  ok") && verified.contains("sw-3/br0"), "its way is shown: {verified}");

    // A rule of the intent that somebody takes off comes back, and packets arrive again.
    line.switches[1].ofctl(&["del-flows", "br0", "cookie=0x4d55000000000000/0xffff000000000000"]);
    eventually("the rule is there again", || {
        (line.site.muster(&["intent", "verify", "there"]).status == 0).then_some(())
    });

    // Where the cable is cut, the intent has no way, and no packet has one.
    line.servers[1].ip("link set to3 down");
    eventually("the controller knows", || {
        (line.site.json(&["intent", "show", "there"])["state"] == "FAILED").then_some(())
    });
    let ran = line.site.muster(&["intent", "verify", "there"]).expect(1);
    assert!(
        ran.stdout.contains("unknown") && ran.stdout.contains("it is FAILED, not INSTALLED"),
        "{}",
        ran.stdout
    );
    line.trace(packet, 1);
}
