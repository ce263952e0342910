use serde_json::{Value, json};

use super::*;

fn picture(answer: &Value) -> Picture {
    Picture::of(&serde_json::from_value(answer.clone()).unwrap())
}

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

fn hostile() -> Value {
    let name = "a\"];\n</title><script>&'\\\u{1b}[2J\u{fffe}/br0";
    let end = |device: &str| json!({"device": device, "port": "<p>"});
    json!({
        "devices": [{"device": name, "up": true, "ports": [{"name": "<p>", "up": true}]}, {"device": "b/br0", "up": true}],
        "links": [{"from": end(name), "to": end("b/br0"), "up": true}],
        "intents": [{"key": "</text>\u{1b}", "state": "<s>", "links": [{"from": end(name), "to": end("b/br0")}]}],
    })
}

#[test]
fn dot() {
    insta::assert_snapshot!(picture(&answer()).dot());
}

#[test]
fn svg() {
    insta::assert_snapshot!(picture(&answer()).svg());
}

#[test]
fn nothing_breaks_out_of_a_picture() {
    let text = picture(&hostile()).svg();
    assert!(!text.contains("<script") && !text.contains('\u{1b}') && !text.contains('\u{fffe}'), "{text}");
    assert!(!text.contains("<p>") && !text.contains("<s>"), "{text}");
    assert_eq!((text.matches("<g>").count(), text.matches("</g>").count()), (2, 3));
    let text = picture(&hostile()).dot();
    for line in text.lines() {
        let (mut quoted, mut escaped) = (false, false);
        for c in line.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                c => assert!(quoted || !c.is_control()),
            }
        }
        assert!(!quoted && !escaped, "{line}");
    }
}

#[test]
fn a_large_network_is_drawn_in_part_and_says_so() {
    let devices: Value = (0..1200).map(|n| json!({"device": format!("n{n:04}/br0"), "up": true})).collect();
    let end = |n: usize, p: usize| json!({"device": format!("n{n:04}/br0"), "port": format!("p{p}")});
    let links: Value =
        (0..12000).map(|n| json!({"from": end(n % 30, n), "to": end(30 + n % 271, n), "up": true})).collect();
    let text = picture(&json!({"devices": devices, "links": links})).svg();
    assert!(text.contains("1000 of 1200 bridges are drawn"), "{}", &text[..3000]);
    assert!(text.contains("5000 of ") && text.contains("links are drawn"));
    assert_eq!(text.matches("<g>").count(), 1000);
    let empty = Picture::of(&TopologyView::default()).svg();
    assert!(empty.contains("0 bridges, 0 links"), "{empty}");
}
