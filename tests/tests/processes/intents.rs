//! Intents on a real Open vSwitch: what was asked for is in the switch, as `muster` says it is.

use muster_testbed::eventually;
use serde_json::json;

use crate::flows::FlowServer;

#[test]
fn an_intent_is_submitted_shown_withdrawn_and_purged() {
    let server = FlowServer::start();
    ["p1", "p2"].iter().for_each(|port| drop(server.namespace.ip(&format!("link set {port} up"))));
    let device = "web-1/br0";
    let file = |to: &str| {
        let point = |port: &str| json!({"device": device, "port": port});
        let intent = json!({"key": "p1/to", "type": "point_to_point", "from": point("p1"), "to": point(to),
            "selector": {"eth_type": 0x0800, "ipv4_dst": "10.0.0.0/24"}});
        server.site.file(&json!({"intents": [intent]}).to_string())
    };
    eventually("the controller knows the ports", || {
        let network = server.site.json(&["topology", "show"]);
        let ports = network["devices"].as_array()?.iter().find(|it| it["device"] == device)?["ports"]
            .as_array()?
            .clone();
        ["p1", "p2"].iter().all(|name| ports.contains(&json!({"name": name, "up": true}))).then_some(())
    });

    let ran = server
        .site
        .muster(&["intent", "submit", "-f", &file("nowhere"), "--wait", "--timeout", "60"])
        .expect(1);
    assert!(
        ran.stderr.contains("intent 'p1/to' FAILED: ") && ran.stderr.contains("nowhere"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.ours(), [""; 0]);

    let said = server.site.ok(&["intent", "submit", "-f", &file("p2"), "--wait", "--timeout", "60"]);
    assert_eq!(said, "intent submit COMPLETE: 1 intent\n");
    let ours = server.ours();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert!(ours[0].contains("in_port=p1,nw_dst=10.0.0.0/24 actions=output:p2"), "{ours:?}");
    let shown = server.site.json(&["intent", "show", "p1/to"]);
    let id = shown["rules"][0].as_str().unwrap();
    assert!(ours[0].contains(id), "{id} {ours:?}");
    assert_eq!(
        (&shown["state"], &shown["paths"], &shown["entries"]),
        (
            &json!("INSTALLED"),
            &json!([[device]]),
            &json!([{"id": id, "device": device, "state": "ADDED", "error": null}])
        )
    );
    let row = &server.site.json(&["intent", "list", "--state", "installed"])[0];
    assert_eq!((&row["key"], &row["reason"]), (&json!("p1/to"), &json!("")));

    server.site.muster(&["intent", "purge", "p1/to"]).refused(1, &["INSTALLED", "withdraw it first"]);
    server.site.ok(&["intent", "withdraw", "p1/to", "--wait", "--timeout", "60"]);
    assert_eq!(server.ours(), [""; 0]);
    server.site.ok(&["intent", "purge", "p1/to"]);
    assert_eq!(server.site.json(&["intent", "list"]), json!([]));
}
