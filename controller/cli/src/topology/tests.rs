use serde_json::{Value, json};

use super::*;

/// A triangle, of which one link is down and one leads one way; two intents.
fn answer() -> Value {
    let port = |name: &str, up: bool| json!({"name": name, "up": up});
    let device = |name: &str, away: bool| json!({"device": name, "up": true, "away": away, "ports": [port("host0", true), port("p1", true), port("p2", name != "c/br0")]});
    let end = |device: &str, port: &str| json!({"device": device, "port": port});
    let link = |from: (&str, &str), to: (&str, &str), up: bool, bandwidth: Value| {
        json!({"from": end(from.0, from.1), "to": end(to.0, to.1), "up": up, "declared": !bandwidth.is_null(), "discovered": true,
            "cost": 1, "bandwidth": bandwidth, "reserved": 1000, "latency": 0.001, "annotations": {}, "intents": 2})
    };
    let hop =
        |from: (&str, &str), to: (&str, &str)| json!({"from": end(from.0, from.1), "to": end(to.0, to.1)});
    let (ab, ba, bc, cb, ac) =
        (("a/br0", "p1"), ("b/br0", "p1"), ("b/br0", "p2"), ("c/br0", "p1"), ("a/br0", "p2"));
    json!({
        "devices": [device("a/br0", false), device("b/br0", true), device("c/br0", false),
            {"device": "d/br0", "up": false, "away": false, "ports": []}],
        "links": [
            link(ab, ba, true, json!(1_000_000)), link(ba, ab, true, json!(1_000_000)),
            link(bc, cb, true, Value::Null), link(cb, bc, true, Value::Null),
            link(ac, ("c/br0", "p2"), false, Value::Null),
        ],
        "intents": [
            {"key": "a-to-c", "state": "INSTALLED", "links": [hop(ab, ba), hop(bc, cb)]},
            {"key": "c-to-a", "state": "REALLOCATING", "links": [hop(cb, bc), hop(ba, ab)]},
        ],
    })
}

#[test]
fn tables_for_people() {
    assert_eq!(
        tables(&read(&answer()).unwrap()),
        "\
DEVICE  STATE  PORTS  DOWN
a/br0   up     3      -
b/br0   away   3      -
c/br0   up     3      p2
d/br0   down   0      -

FROM      TO        STATE  KNOWN          COST  BANDWIDTH  RESERVED  LATENCY  INTENTS
a/br0:p1  b/br0:p1  up     declared,LLDP  1     1000000    1000      0.001    2
b/br0:p1  a/br0:p1  up     declared,LLDP  1     1000000    1000      0.001    2
b/br0:p2  c/br0:p1  up     LLDP           1     -          1000      0.001    2
c/br0:p1  b/br0:p2  up     LLDP           1     -          1000      0.001    2
a/br0:p2  c/br0:p2  down   LLDP           1     -          1000      0.001    2
"
    );
    assert!(tables(&TopologyView::default()).starts_with("DEVICE"), "nothing is there yet");
}
