//! One intent for people: what it is, its way, its rules, what it holds, how it moved.

use serde_json::{Map, Value, json};

use crate::output::{cell, fields, printable, rows, table};

/// What stands in lines of its own; the rest comes below.
const FACTS: [&str; 16] = [
    "key",
    "type",
    "state",
    "reason",
    "request",
    "errors",
    "retry_in",
    "owner",
    "from",
    "to",
    "links",
    "selector",
    "treatment",
    "constraints",
    "priority",
    "waits_for",
];

pub fn intent(answer: &Value) -> String {
    let facts: Map<String, Value> = FACTS
        .iter()
        .filter_map(|name| answer.get(*name).map(|value| ((*name).to_owned(), fact(name, value))))
        .collect();
    let mut text = fields(&FACTS, &Value::Object(facts));
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            text.push_str(&format!("\n{title}\n{body}"));
        }
    };
    section("PATHS", lines(&answer["paths"], path));
    let rules = table(
        &[("RULE", "id"), ("DEVICE", "device"), ("STATE", "state"), ("ERROR", "error")],
        &answer["entries"],
    );
    let more = len(&answer["rules"]).saturating_sub(len(&answer["entries"]));
    section(
        "RULES",
        match (len(&answer["entries"]), more) {
            (0, _) => String::new(),
            (_, 0) => rules,
            (_, more) => format!("{rules}and {more} more\n"),
        },
    );
    section("RESERVED", reserved(&answer["reservations"]));
    section("MOVED", lines(&answer["history"], moved));
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn len(value: &Value) -> usize {
    list(value).len()
}

fn lines(value: &Value, line: impl Fn(&Value) -> String) -> String {
    list(value).iter().map(|item| line(item) + "\n").collect()
}

/// Points and links in short; whatever else as it is.
fn fact(name: &str, value: &Value) -> Value {
    match name {
        "from" | "to" => match value {
            Value::Array(points) => points.iter().map(|item| json!(point(item))).collect(),
            Value::Object(_) => json!(point(value)),
            other => other.clone(),
        },
        "links" => list(value).iter().map(|item| json!(link(item))).collect(),
        "retry_in" => value.as_f64().map_or(Value::Null, |seconds| json!(format!("{seconds:.0} s"))),
        "waits_for" => {
            let waits = |item: &Value| json!(format!("{} ({})", cell(&item["device"]), cell(&item["rules"])));
            list(value).iter().map(waits).collect()
        }
        _ => value.clone(),
    }
}

/// `web-1/br0:p1`
pub fn point(value: &Value) -> String {
    format!("{}:{}", cell(&value["device"]), cell(&value["port"]))
}

fn link(value: &Value) -> String {
    format!("{} → {}", point(&value["from"]), point(&value["to"]))
}

fn path(value: &Value) -> String {
    list(value).iter().map(cell).collect::<Vec<_>>().join(" → ")
}

fn reserved(value: &Value) -> String {
    let row = |item: &Value| {
        let held = [("bandwidth", " bit/s"), ("label", "")].map(|(name, unit)| match &item[name] {
            Value::Null => "-".to_owned(),
            value => format!("{}{unit}", cell(value)),
        });
        let [bandwidth, label] = held;
        vec![link(item), bandwidth, label]
    };
    match list(value) {
        [] => String::new(),
        items => {
            let heading = ["LINK", "BANDWIDTH", "VLAN"].map(str::to_owned).to_vec();
            rows(std::iter::once(heading).chain(items.iter().map(row)))
        }
    }
}

/// `in 0.012 s from web-1/br0 → web-2/br0: the link … is down`
fn moved(value: &Value) -> String {
    let before: Vec<String> = list(&value["before"]).iter().map(path).collect();
    let took = value["took"].as_f64().unwrap_or_default();
    let why = printable(value["why"].as_str().unwrap_or_default());
    format!("in {took:.3} s from {}: {why}", before.join(", "))
}
