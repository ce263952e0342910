//! The outputs that a real Heat gave to an overcloud, compared with ours.
//!
//! These may differ: which address a port got (but each of Heat's stands for one of ours), hidden values, which are masked
//! here, random texts, the order of what yaql makes of a set, which Python leaves open, and what os-collect-config would ask for.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::fixtures;

/// Differences that are printed, and how much of each.
const SHOWN: (usize, usize) = (30, 400);
/// The text that stands for a hidden value.
const MASK: &str = "******";
/// The network of `PLAN`, without the last byte of its addresses.
const NETWORK: &str = "192.0.2.";
/// Lists that are made of a set.
const SETS: [&str; 1] = ["logging_groups"];

/// Random texts of each stack's own.
const RANDOM: [&str; 4] = [
    ".heat::engine::auth_encryption_key",
    ".horizon::secret_key",
    ".mysql::server::root_password",
    ".rabbitmq::erlang_cookie",
];
/// Defaults that are hidden.
const DEFAULTS: [&str; 2] = ["admin@example.com", "secret"];
/// Settings of os-collect-config, which no server of ours has.
const COLLECTED: &str = "ServerOsCollectConfigData.";

/// Differences between outputs.
pub struct Comparison {
    /// The last bytes of Heat's addresses, and of ours.
    addresses: BTreeMap<String, String>,
    /// Texts that an operator gives, of which some are hidden.
    site: Vec<String>,
    found: Vec<String>,
}

/// Panics unless these outputs are those that Heat gave.
pub fn assert_equal(tree: &str, ours: &BTreeMap<String, Value>) {
    let path = fixtures().join("outputs").join(format!("{tree}.json.xz"));
    let unpacked = Command::new("xz").arg("-dc").arg(path).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let heats: BTreeMap<String, Value> = serde_json::from_slice(&unpacked.stdout).unwrap();
    assert!(heats.keys().eq(ours.keys()), "{:?} beside {:?}", heats.keys(), ours.keys());
    let mut comparison = Comparison { addresses: BTreeMap::new(), site: site(), found: Vec::new() };
    for (name, one) in &heats {
        comparison.values(name, one, &ours[name]);
    }
    let mut swapped: Vec<&String> = comparison.addresses.values().collect();
    swapped.sort();
    swapped.dedup();
    assert_eq!(swapped.len(), comparison.addresses.len(), "one address of ours for each of Heat's");
    let found = comparison.found;
    let shown = found.iter().take(SHOWN.0).map(|text| text.chars().take(SHOWN.1).collect::<String>());
    let shown = shown.collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{} differences, Heat's beside ours:\n{shown}", found.len());
}

/// Values of `site.yaml`, the longest first.
fn site() -> Vec<String> {
    let text = std::fs::read_to_string(fixtures().join("site.yaml")).unwrap();
    let values = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(": "));
    let values = values.map(|(_, value)| value.trim_matches('\''));
    let mut values: Vec<String> = values.chain(DEFAULTS).map(str::to_owned).collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    values.dedup();
    values
}

impl Comparison {
    fn values(&mut self, at: &str, heats: &Value, ours: &Value) {
        match (heats, ours) {
            (Value::String(one), Value::String(other))
                if RANDOM.iter().any(|random| at.ends_with(random)) =>
            {
                if one.len() != other.len() {
                    self.found.push(format!("{at}: {one} | {other}"));
                }
            }
            (Value::Object(_), Value::Object(nothing)) if is_of_server(at) && nothing.is_empty() => {}
            (Value::Object(heats), Value::Object(ours)) => {
                let mut left: Vec<&String> = ours.keys().collect();
                for (key, one) in heats {
                    let own =
                        left.iter().position(|own| self.texts(key, own)).map(|index| left.remove(index));
                    match own {
                        Some(own) => self.values(&format!("{at}.{key}"), one, &ours[own]),
                        None => self.found.push(format!("{at}.{key}: {one} | nothing")),
                    }
                }
                for key in left {
                    self.found.push(format!("{at}.{key}: nothing | {}", ours[key]));
                }
            }
            (Value::Array(heats), Value::Array(ours)) if heats.len() == ours.len() => {
                let sorted = |items: &[Value]| {
                    let mut items = items.to_vec();
                    if SETS.iter().any(|set| at.ends_with(set)) {
                        items.sort_by_key(Value::to_string);
                    }
                    items
                };
                for (index, (one, other)) in sorted(heats).iter().zip(&sorted(ours)).enumerate() {
                    self.values(&format!("{at}[{index}]"), one, other);
                }
            }
            (Value::String(heats), Value::String(ours)) if self.texts(heats, ours) => {}
            _ if heats == ours => {}
            _ => self.found.push(format!("{at}: {heats} | {ours}")),
        }
    }

    fn texts(&mut self, mut heats: &str, mut ours: &str) -> bool {
        while !ours.is_empty() {
            if let Some(rest) = ours.strip_prefix(MASK) {
                let hidden: Vec<usize> =
                    self.site.iter().filter(|value| heats.starts_with(*value)).map(String::len).collect();
                return hidden.into_iter().any(|length| self.texts(&heats[length..], rest));
            }
            if let (Some(one), Some(other)) = (heats.strip_prefix(NETWORK), ours.strip_prefix(NETWORK)) {
                let ((one, rest), (other, rest_of_ours)) = (last_byte(one), last_byte(other));
                if self.addresses.entry(one.to_owned()).or_insert_with(|| other.to_owned()) != other {
                    return false;
                }
                (heats, ours) = (rest, rest_of_ours);
                continue;
            }
            let mut both = (heats.chars(), ours.chars());
            if both.0.next() != both.1.next() {
                return false;
            }
            (heats, ours) = (both.0.as_str(), both.1.as_str());
        }
        heats.is_empty()
    }
}

fn is_of_server(at: &str) -> bool {
    at.strip_prefix(COLLECTED).is_some_and(|rest| rest.split('.').count() == 2)
}

fn last_byte(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}
