use std::sync::Arc;
use std::time::Duration;

use muster_flow::{FlowStanding, Owner};
use muster_intent::host::Host;
use muster_intent::manager::IntentNo;
use muster_intent::phase::{Request, State};
use muster_intent::topology::LinkTraits;
use muster_shared::model::flow::{Entry, Packed};
use muster_template::{IntentFile, IntentLimits};

use super::*;

fn point(device: &str, port: &str) -> ConnectPoint {
    ConnectPoint { device: device.parse().unwrap(), port: port.into() }
}

/// An intent that is installed over a link, and moved once.
fn installed() -> Shown {
    let text = "intents:\n- {key: a, type: point_to_point, from: {device: web-1/br0, port: h}, to: {device: web-2/br0, port: h}, \
                selector: {eth_type: 0x0800, ipv4_dst: 10.7.7.7}, constraints: [{bandwidth: 5}]}\n";
    let mut file = IntentFile::parse("f", text, IntentLimits::default()).unwrap();
    let (key, wish) = file.intents.remove(0);
    let entry = Entry::from_json(
        &json!({"priority": 100, "selector": {"in_port": "h"}, "treatment": [{"output": "p1"}]}),
    )
    .unwrap();
    let device: DeviceName = "web-1/br0".parse().unwrap();
    let packed = Packed::new(&entry).unwrap();
    let row = FlowRow {
        id: entry.id(&device),
        packed: packed.clone(),
        standing: FlowStanding::Failed,
        owner: Owner(1),
        serial: 1,
        counters: None,
        error: Some("no port 'p1'".into()),
        secret: false,
    };
    let link = (point("web-1/br0", "p1"), point("web-2/br0", "p1"));
    let devices: Vec<DeviceName> = vec![device.clone(), "web-2/br0".parse().unwrap()];
    let view = manager::IntentView {
        no: IntentNo(1),
        key,
        intent: Arc::clone(&wish.intent),
        group: None,
        request: Request::Install,
        state: State::Corrupt,
        errors: 2,
        reason: Some("web-1/br0: no port 'p1'".into()),
        paths: vec![devices.clone()],
        links: vec![link.clone()],
        rules: vec![(device.clone(), packed)],
        reservations: vec![manager::ReservationView {
            from: link.0,
            to: link.1,
            bandwidth: Some(5),
            label: None,
        }],
        waits_for: vec![(device, 1)],
        retry_in: Some(Duration::from_millis(1500)),
        history: vec![manager::Reroute {
            why: "a link is down".into(),
            took: Duration::from_millis(20),
            before: vec![devices],
        }],
    };
    Shown { view, rows: vec![(row.id, Some(row))], owner: Some("the operator".into()), broken: None }
}

#[test]
fn an_intent_has_the_keys_of_the_contract() {
    let one = installed();
    let id = one.rows[0].0.to_string();
    let ends =
        json!({"from": {"device": "web-1/br0", "port": "p1"}, "to": {"device": "web-2/br0", "port": "p1"}});
    let mut reserved = ends.clone();
    reserved["bandwidth"] = json!(5);
    reserved["label"] = serde_json::Value::Null;
    assert_eq!(
        json!(shown(&one)),
        json!({
            "key": "a", "state": "CORRUPT", "request": "INSTALL_REQ", "errors": 2, "reason": "web-1/br0: no port 'p1'",
            "paths": [["web-1/br0", "web-2/br0"]], "rules": [id], "owner": "the operator", "type": "point_to_point",
            "from": {"device": "web-1/br0", "port": "h"}, "to": {"device": "web-2/br0", "port": "h"},
            "selector": {"eth_type": 2048, "ipv4_dst": "10.7.7.7"}, "treatment": [], "constraints": [{"bandwidth": 5}],
            "priority": 100, "path_links": [ends.clone()], "reservations": [reserved],
            "entries": [{"id": id, "device": "web-1/br0", "state": "FAILED", "error": "no port 'p1'"}],
            "waits_for": [{"device": "web-1/br0", "rules": 1}], "retry_in": 1.5,
            "history": [{"why": "a link is down", "took": 0.02, "before": [["web-1/br0", "web-2/br0"]]}],
        })
    );
    assert_eq!(json!(drawn(&one.view)), json!({"key": "a", "state": "CORRUPT", "links": [ends]}));
}

#[test]
fn an_intent_with_hidden_parts_shows_only_its_state() {
    let mut one = installed();
    one.rows[0].1.as_mut().unwrap().secret = true;
    let view = json!(shown(&one));
    for key in ["selector", "treatment", "constraints", "from", "to", "priority"] {
        assert_eq!(view[key], MASK, "{key}");
    }
    assert_eq!((&view["type"], &view["state"]), (&json!("point_to_point"), &json!("CORRUPT")));
    assert_eq!(view["entries"][0]["error"], MASK);
    assert!(!view.to_string().contains("10.7.7.7"), "{view}");
}

#[test]
fn the_network_as_it_is_told() {
    let link = manager::LinkView {
        from: point("a/br0", "p1"),
        to: point("b/br0", "p1"),
        up: true,
        declared: true,
        discovered: false,
        traits: LinkTraits {
            bandwidth: Some(1000),
            latency: Some(1_500_000),
            annotations: [("type".into(), "fibre".into())].into(),
            ..LinkTraits::default()
        },
        reserved: 7,
        intents: 1,
    };
    let port = |name: &str, up| manager::PortView { name: name.into(), up };
    let device = ("a/br0".parse().unwrap(), true, false, vec![port("h", false), port("p1", true)]);
    let host = manager::HostView {
        id: "52:54:00:00:00:01".parse().unwrap(),
        host: Host { location: point("a/br0", "h"), addresses: vec!["10.0.0.1".parse().unwrap()] },
        claimed: vec![point("a/br0", "h"), point("b/br0", "h")],
        declared: true,
        observed: false,
        intents: 2,
    };
    let network = manager::TopologyView { devices: vec![device], links: vec![link], hosts: vec![host] };
    assert_eq!(
        json!(topology_view(network, &[0x5254_0012_3456, 2], &[])),
        json!({
            "intents": [],
            "hosts": [{"host": "52:54:00:00:00:01", "location": {"device": "a/br0", "port": "h"}, "addresses": ["10.0.0.1"],
                "claimed": [{"device": "a/br0", "port": "h"}, {"device": "b/br0", "port": "h"}],
                "declared": true, "observed": false, "intents": 2}],
            "devices": [{"device": "a/br0", "datapath_id": "0000525400123456", "up": true, "away": false,
                "ports": [{"name": "h", "up": false}, {"name": "p1", "up": true}]}],
            "links": [{"from": {"device": "a/br0", "port": "p1"}, "to": {"device": "b/br0", "port": "p1"}, "up": true,
                "declared": true, "discovered": false, "cost": 1, "bandwidth": 1000, "reserved": 7, "latency": 0.0015,
                "annotations": {"type": "fibre"}, "intents": 1}],
        })
    );
}
