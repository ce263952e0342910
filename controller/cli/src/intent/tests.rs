use serde_json::{Value, json};

use super::*;
use crate::output::read;

fn answer() -> Value {
    let point = |device: &str, port: &str| json!({"device": device, "port": port});
    json!({
        "key": "a-to-b", "type": "point_to_point", "state": "INSTALLED", "request": "INSTALL_REQ", "errors": 1, "reason": "",
        "owner": "the operator", "from": point("web-1/br0", "host0"), "to": point("web-2/br0", "host0"),
        "selector": {"eth_type": 2048}, "treatment": [], "constraints": [{"bandwidth": 1_000_000}], "priority": 100,
        "paths": [["web-1/br0", "web-3/br0", "web-2/br0"]], "path_links": [],
        "rules": ["4d55000000000001", "4d55000000000002", "4d55000000000003"],
        "entries": [
            {"id": "4d55000000000001", "device": "web-1/br0", "state": "ADDED", "error": null},
            {"id": "4d55000000000002", "device": "web-3/br0", "state": "FAILED", "error": "no port 'p\u{1b}'"},
        ],
        "reservations": [{"from": point("web-1/br0", "p3"), "to": point("web-3/br0", "p1"), "bandwidth": 1_000_000, "label": null}],
        "history": [{"why": "the link web-1/br0:p2 → web-2/br0:p1 is down", "took": 0.0123, "before": [["web-1/br0", "web-2/br0"]]}],
        "waits_for": [{"device": "web-3/br0", "rules": 2}], "retry_in": 3.7,
    })
}

#[test]
fn an_intent_for_people() {
    assert_eq!(
        shown::intent(&answer()).unwrap(),
        "\
key          a-to-b
type         point_to_point
state        INSTALLED
reason       -
request      INSTALL_REQ
errors       1
retry_in     4 s
owner        the operator
from         web-1/br0:host0
to           web-2/br0:host0
selector     eth_type=2048
treatment    -
constraints  bandwidth=1000000
priority     100
waits_for    web-3/br0 (2)

PATHS
web-1/br0 → web-3/br0 → web-2/br0

RULES
RULE              DEVICE     STATE   ERROR
4d55000000000001  web-1/br0  ADDED   -
4d55000000000002  web-3/br0  FAILED  no port 'p\\u{1b}'
and 1 more

RESERVED
LINK                         BANDWIDTH      VLAN
web-1/br0:p3 → web-3/br0:p1  1000000 bit/s  -

MOVED
in 0.012 s from web-1/br0 → web-2/br0: the link web-1/br0:p2 → web-2/br0:p1 is down
"
    );
}

#[test]
fn ends_of_an_intent_are_ports_hosts_links_or_masked() {
    let port = json!({"device": "a/br0", "port": "p1"});
    for (from, wanted) in [
        (port.clone(), "a/br0:p1"),
        (json!([port, port]), "a/br0:p1,a/br0:p1"),
        (json!({"host": "02:00:00:00:00:01"}), "02:00:00:00:00:01"),
        (json!([{"from": port, "to": port}]), "a/br0:p1 → a/br0:p1"),
        (json!("******"), "******"),
    ] {
        assert_eq!(shown::intent(&json!({"from": from})).unwrap(), format!("from  {wanted}\n"));
    }
}

#[test]
fn what_is_not_there_has_no_section() {
    let text = shown::intent(
        &json!({"key": "x", "state": "FAILED", "reason": "no path", "paths": [], "entries": []}),
    )
    .unwrap();
    assert_eq!(text, "key     x\nstate   FAILED\nreason  no path\n");
}

#[test]
fn who_waited_is_told_which_failed_and_why() {
    let view = json!({"ended": true, "done": 3, "failed": 2, "total": 3, "intents": [
        {"key": "a", "state": "FAILED", "reason": "no path from x to y has a bandwidth of 5 bit/s"},
        {"key": "b", "state": "CORRUPT", "reason": ""}]});
    let failure = operation::failed("submit", &read(&view).unwrap());
    assert_eq!(
        failure.lines,
        [
            "intent submit FAILED: 2 of 3",
            "intent 'a' FAILED: no path from x to y has a bandwidth of 5 bit/s",
            "intent 'b' CORRUPT"
        ]
    );
    assert_eq!(failure.exit, crate::failure::Exit::Failed);
    let many: Value = (0..100).map(|n| json!({"key": format!("k{n}"), "state": "FAILED"})).collect();
    let failure =
        operation::failed("withdraw", &read(&json!({"failed": 500, "total": 500, "intents": many})).unwrap());
    assert_eq!((failure.lines.len(), &*failure.lines[21]), (22, "and 480 more: 'muster intent list'"));
}
