//! One intent for people: its request, its path, its rules, its claims, its moves.
//!
//! Absent: the path itself (`controller/intent/src/compile/constrained_path.rs`).

use muster_api::intent::{IntentRule, IntentView, Point, Reroute, Reservation};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Column, cell, fields, key, object, printable, read, rows, table, word};
use muster_picture::network::point;

const RETRY_IN: &str = key!(IntentView.retry_in);
const WAITS_FOR: &str = key!(IntentView.waits_for);
// Words of intent files.
const FROM: &str = "from";
const TO: &str = "to";
const LINKS: &str = "links";

/// Keys with lines of their own; the rest comes below.
const FACTS: [&str; 17] = [
    key!(IntentView.key),
    "type",
    key!(IntentView.state),
    key!(IntentView.reason),
    key!(IntentView.broken),
    key!(IntentView.request),
    key!(IntentView.errors),
    RETRY_IN,
    key!(IntentView.owner),
    FROM,
    TO,
    LINKS,
    "selector",
    "treatment",
    "constraints",
    "priority",
    WAITS_FOR,
];

const RULES: [Column<IntentRule>; 4] = [
    ("RULE", |rule| cell(&rule.id)),
    ("DEVICE", |rule| cell(&rule.device)),
    ("STATE", |rule| cell(&rule.state)),
    ("ERROR", |rule| cell(&rule.error)),
];

/// An end of an intent, or a link that its path must use, as in intent files.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum End {
    Port { device: String, port: String },
    Host { host: String },
    Link { from: Point, to: Point },
    Many(Vec<End>),
}

pub fn intent(answer: &Value) -> Result<String, Failure> {
    let view: IntentView = read(answer)?;
    let mut facts = object(answer);
    facts.retain(|name, _| FACTS.contains(&name.as_str()));
    for (name, value) in &mut facts {
        match name.as_str() {
            // A mask stands for each secret of an intent.
            FROM | TO | LINKS => *value = End::deserialize(&*value).map_or(value.clone(), |end| end.short()),
            RETRY_IN => *value = view.retry_in.map_or(Value::Null, |wait| json!(format!("{wait:.0} s"))),
            WAITS_FOR => {
                let waits = view.waits_for.iter();
                *value = waits.map(|it| json!(format!("{} ({})", word(&it.device), it.rules))).collect();
            }
            _ => {}
        }
    }
    let mut text = fields(&FACTS, &facts);
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            text.push_str(&format!("\n{title}\n{body}"));
        }
    };
    section("PATHS", lines(&view.paths, |way| path(way)));
    let more = view.rules.len().saturating_sub(view.entries.len());
    section(
        "RULES",
        match (view.entries.len(), more) {
            (0, _) => String::new(),
            (_, 0) => table(&RULES, &view.entries),
            (_, more) => format!("{}and {more} more\n", table(&RULES, &view.entries)),
        },
    );
    section("RESERVED", reserved(&view.reservations));
    section("MOVED", lines(&view.history, moved));
    Ok(text)
}

fn lines<T>(list: &[T], line: impl Fn(&T) -> String) -> String {
    list.iter().map(|item| line(item) + "\n").collect()
}

impl End {
    /// `web-1/br0:p1`; of a link both ends.
    fn short(self) -> Value {
        match self {
            End::Port { device, port } => json!(point(&Point { device, port })),
            End::Host { host } => json!(host),
            End::Link { from, to } => json!(link(&from, &to)),
            End::Many(ends) => ends.into_iter().map(End::short).collect(),
        }
    }
}

fn link(from: &Point, to: &Point) -> String {
    format!("{} → {}", point(from), point(to))
}

fn path(way: &[String]) -> String {
    way.iter().map(|device| word(device)).collect::<Vec<_>>().join(" → ")
}

fn reserved(list: &[Reservation]) -> String {
    let row = |held: &Reservation| {
        let bandwidth = held.bandwidth.map(|bandwidth| format!("{bandwidth} bit/s"));
        vec![link(&held.from, &held.to), cell(&bandwidth), cell(&held.label)]
    };
    if list.is_empty() {
        return String::new();
    }
    let heading = ["LINK", "BANDWIDTH", "VLAN"].map(str::to_owned).to_vec();
    rows(std::iter::once(heading).chain(list.iter().map(row)))
}

/// `in 0.012 s from web-1/br0 → web-2/br0: the link … is down`
fn moved(Reroute { why, took, before }: &Reroute) -> String {
    let before: Vec<String> = before.iter().map(|way| path(way)).collect();
    format!("in {took:.3} s from {}: {}", before.join(", "), printable(why))
}
