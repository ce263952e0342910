use serde_json::{Value, json};

use super::*;

fn picture(answer: &Value) -> Picture {
    Picture::of(&serde_json::from_value(answer.clone()).unwrap())
}

/// A triangle, of which one link is down and one leads one way; two intents.
fn answer() -> Value {
    serde_json::from_str(include_str!("../../testdata/network.json")).unwrap()
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
    crate::testing::is_quoted(&text);
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

#[test]
fn a_packet_has_its_way_and_is_no_intent() {
    let network: TopologyView = serde_json::from_value(answer()).unwrap();
    let drawn = Picture::of_packet(&network, &network.intents[0].links).svg();
    assert!(drawn.contains(">the way of the packet<") && !drawn.contains(">intent "), "{drawn}");
}
