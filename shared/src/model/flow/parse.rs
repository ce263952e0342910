//! Parses entries from JSON values in the notation of a flow file; errors have a path.
//!
//! All is checked that can be known without the switch: words, bounds, masks, prerequisites, the order of
//! instructions. Printed entries (`print.rs`) parse to the same entries.
//!
//! Absent: files of many entries and their lines (`controller/template/src/flow_file.rs`), and whether ports,
//! groups and meters exist (`agent/host/src/openflow/encode.rs`).

mod near;
mod object;
mod prerequisite;
mod traffic;
mod treatment;
mod value;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::any_entry;

use std::fmt;

use serde_json::{Map, Value};

pub use crate::near::suggestion;
use object::{Object, unwanted};
pub use traffic::{check_traffic, traffic_selector, traffic_treatment};

use super::{
    BANDS_MAX, Band, Criterion, Entry, Field, GROUP_BUCKETS_MAX, Group, GroupBucket, GroupKind, Meter, Rule,
};

/// The key with an entry's device; the reader of the file handles it.
const DEVICE: &str = "device";
const RULE_KEYS: [&str; 7] =
    [DEVICE, "table", "priority", "selector", "treatment", "idle_timeout", "hard_timeout"];
const GROUP_KEYS: [&str; 4] = [DEVICE, "group", "type", "buckets"];
const METER_KEYS: [&str; 4] = [DEVICE, "meter", "unit", "bands"];
/// The highest number of a group that OpenFlow leaves to people.
pub(super) const GROUP_MAX: u64 = 0xffff_ff00;
/// As [`GROUP_MAX`], for a meter.
pub(super) const METER_MAX: u64 = 0xffff_0000;
/// The last table: 255 means all of them.
const TABLE_MAX: u64 = 254;

/// The reason why a value is no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// The path within the value; empty for the whole value.
    pub path: Vec<Step>,
    /// The error, and its remedy.
    pub message: String,
}

/// A step down a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a map.
    Key(Box<str>),
    /// Into a list.
    Item(usize),
}

type Read<T> = Result<T, BadEntry>;

impl Entry {
    /// A rule, a group (has the key `group`) or a meter (`meter`), as in a flow file. The key `device` is
    /// left to the caller.
    ///
    /// # Errors
    /// [`BadEntry`] with path and reason.
    pub fn from_json(value: &Value) -> Result<Self, BadEntry> {
        let Value::Object(map) = value else { return Err(unwanted("a flow rule, which is a map", value)) };
        match map {
            map if map.contains_key("group") => Group::from_json(map).map(Entry::Group),
            map if map.contains_key("meter") => Meter::from_json(map).map(Entry::Meter),
            map => Rule::from_json(map).map(Entry::Rule),
        }
    }
}

/// Checks one key of an entry alone, while the others are unknown; prerequisites are not checked.
///
/// # Errors
/// [`BadEntry`], with the path below the key.
pub fn check_part(key: &str, value: &Value) -> Result<(), BadEntry> {
    let below = |most| value::number::<u64>(value, 0..=most).map(drop);
    match key {
        "table" => below(TABLE_MAX),
        "priority" | "idle_timeout" | "hard_timeout" => below(u16::MAX.into()),
        "selector" => prerequisite::selector(selector(value)?),
        "treatment" => treatment::instructions(value).map(drop),
        "group" => below(GROUP_MAX),
        "type" => group_kind(value).map(drop),
        "meter" => value::number::<u64>(value, 1..=METER_MAX).map(drop),
        "unit" => unit(value).map(drop),
        "bands" => object::list(value, BANDS_MAX, band).map(drop),
        // The permitted keys of a bucket depend on the type.
        _ => Ok(()),
    }
}

impl Rule {
    /// Parses a map of a flow file; the key `device` is left to the caller.
    ///
    /// # Errors
    /// [`BadEntry`] with path and reason.
    pub fn from_json(map: &Map<String, Value>) -> Result<Self, BadEntry> {
        let given = Object::new("a flow rule", map, &RULE_KEYS)?;
        let rule = Rule {
            table: given.number("table", 0..=TABLE_MAX)?.unwrap_or(0),
            priority: given.number("priority", 0..=u64::from(u16::MAX))?.ok_or_else(|| {
                BadEntry::new("this must be given: 0 to 65535, the higher wins").key("priority")
            })?,
            selector: given.read("selector", selector)?.unwrap_or_default(),
            treatment: given.read("treatment", treatment::instructions)?.unwrap_or_default(),
            idle_timeout: given.number("idle_timeout", 0..=u64::from(u16::MAX))?.unwrap_or(0),
            hard_timeout: given.number("hard_timeout", 0..=u64::from(u16::MAX))?.unwrap_or(0),
        };
        prerequisite::check(&rule)?;
        Ok(rule)
    }
}

fn selector(value: &Value) -> Read<Vec<Criterion>> {
    let Value::Object(map) = value else {
        return Err(unwanted("a map, such as {eth_type: 0x0800, ipv4_dst: 10.0.0.0/24}", value));
    };
    let given = map.iter().filter(|(_, value)| !value.is_null());
    let mut selector = given
        .map(|(name, value)| criterion(name, value).map_err(|bad| bad.key(name)))
        .collect::<Read<Vec<Criterion>>>()?;
    selector.sort_unstable_by_key(Criterion::order);
    Ok(selector)
}

fn criterion(name: &str, value: &Value) -> Read<Criterion> {
    if name == "in_port" {
        return Ok(Criterion::InPort(value::port(value)?));
    }
    let field = Field::from_name(name).ok_or_else(|| near::unknown_field(name))?;
    let (value, mask) = value::of_field(field, value)?;
    match (mask, field.is_maskable()) {
        (Some(_), false) => Err(BadEntry::new(format!("{name} matches whole; it takes no mask"))),
        _ => Ok(Criterion::Field { field, value, mask }),
    }
}

impl Group {
    fn from_json(map: &Map<String, Value>) -> Read<Self> {
        let given = Object::new("a group", map, &GROUP_KEYS)?;
        let kind = given.read("type", group_kind)?.ok_or_else(|| {
            BadEntry::new("this must be given: all, select, indirect or fast_failover").key("type")
        })?;
        let group = Group {
            number: given
                .number("group", 0..=GROUP_MAX)?
                .ok_or_else(|| BadEntry::new("this must be given: the group's number").key("group"))?,
            kind,
            buckets: given.list("buckets", GROUP_BUCKETS_MAX, |value| bucket(kind, value))?.ok_or_else(
                || BadEntry::new("this must be given: a list of {treatment: […]}").key("buckets"),
            )?,
        };
        match group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
            true => Err(BadEntry::new("a group of type indirect has exactly one bucket").key("buckets")),
            false => Ok(group),
        }
    }
}

fn group_kind(value: &Value) -> Read<GroupKind> {
    const ALL: [GroupKind; 4] =
        [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let Value::String(word) = value else {
        return Err(unwanted("all, select, indirect or fast_failover", value));
    };
    ALL.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| {
        let near = suggestion(word, ALL.map(GroupKind::as_str));
        let word = near::cut(word);
        BadEntry::new(format!("want all, select, indirect or fast_failover, got '{word}'{near}"))
    })
}

fn bucket(kind: GroupKind, value: &Value) -> Read<GroupBucket> {
    let Value::Object(map) = value else { return Err(unwanted("a bucket, which is a map", value)) };
    let given = Object::new("a bucket", map, &["weight", "watch_port", "treatment"])?;
    let weight = given.number("weight", 1..=u64::from(u16::MAX))?;
    let watch_port = given.read("watch_port", value::port)?;
    match (kind, weight, &watch_port) {
        (GroupKind::Select, _, _) | (_, None, _) => {}
        _ => return Err(BadEntry::new("only buckets of a group of type select have a weight").key("weight")),
    }
    match (kind, &watch_port) {
        (GroupKind::FastFailover, None) => {
            let why = "this must be given: in fast_failover a bucket is used while this port is up";
            Err(BadEntry::new(why).key("watch_port"))
        }
        (GroupKind::FastFailover, _) | (_, None) => Ok(GroupBucket {
            weight: weight.unwrap_or(if kind == GroupKind::Select { 1 } else { 0 }),
            watch_port,
            treatment: given.read("treatment", treatment::actions)?.unwrap_or_default(),
        }),
        _ => {
            Err(BadEntry::new("only buckets of a group of type fast_failover watch a port").key("watch_port"))
        }
    }
}

impl Meter {
    fn from_json(map: &Map<String, Value>) -> Read<Self> {
        let given = Object::new("a meter", map, &METER_KEYS)?;
        let packets = given.read("unit", unit)?;
        let bands = given.list("bands", BANDS_MAX, band)?.unwrap_or_default();
        if bands.is_empty() {
            return Err(BadEntry::new("a meter has at least one band, such as {rate: 1000}").key("bands"));
        }
        Ok(Meter {
            number: given
                .number("meter", 1..=METER_MAX)?
                .ok_or_else(|| BadEntry::new("this must be given: the meter's number").key("meter"))?,
            packets: packets.unwrap_or(false),
            bands,
        })
    }
}

/// Whether rates count packets.
fn unit(value: &Value) -> Read<bool> {
    match value.as_str() {
        Some("kilobits") => Ok(false),
        Some("packets") => Ok(true),
        _ => Err(unwanted("kilobits or packets (per second)", value)),
    }
}

fn band(value: &Value) -> Read<Band> {
    let Value::Object(map) = value else { return Err(unwanted("a band, which is a map", value)) };
    let given = Object::new("a band", map, &["rate", "burst", "dscp_remark"])?;
    Ok(Band {
        rate: given
            .number("rate", 1..=u64::from(u32::MAX))?
            .ok_or_else(|| BadEntry::new("this must be given: kilobits or packets per second").key("rate"))?,
        burst: given.number("burst", 0..=u64::from(u32::MAX))?.unwrap_or(0),
        dscp_remark: given.number("dscp_remark", 0..=u64::from(u8::MAX))?,
    })
}

impl BadEntry {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    pub(super) fn key(mut self, key: &str) -> Self {
        self.path.insert(0, Step::Key(near::cut(key).into()));
        self
    }

    pub(super) fn item(mut self, index: usize) -> Self {
        self.path.insert(0, Step::Item(index));
        self
    }
}

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.path.iter().enumerate() {
            match step {
                Step::Key(key) => write!(f, "{}{key}", if n == 0 { "" } else { "." })?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{colon}{}", self.message)
    }
}

impl std::error::Error for BadEntry {}
