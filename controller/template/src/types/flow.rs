//! `Muster::FlowRule`, `Muster::FlowTable`, `Muster::FlowGroup`, `Muster::FlowMeter`: desired
//! entries of a device's flow table.
//!
//! The model's parser reads the words of rules. Here its errors get their place in the template.
//!
//! Absent: two resources that want one rule (`controller/engine/src/claim.rs`), and the write to the table
//! (`controller/flow/src/resource.rs`).

use std::collections::BTreeMap;

use muster_shared::model::flow::{self, BadEntry, DeviceName, Entry, FlowId, Packed, check_part};
use serde_json::{Map, Value};

use super::value::{CONFIRM_TIMEOUT_MAX, confirm_timeout, has_null, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::desired::{FlowSet, ForeignPolicy};
use crate::error::{cut, suggestion};
use crate::render::Step;

/// The property that names the device.
pub(super) const DEVICE: &str = "device";

pub(super) const RULE: TypeInfo = TypeInfo::new(
    "Muster::FlowRule",
    "one flow rule of a bridge",
    &RULE_PROPERTIES,
    Place::Device(|given| one(given, None)),
)
.attributes(&ENTRY_ATTRIBUTES);

// The key makes an entry a group or a meter, even without a value.
pub(super) const GROUP: TypeInfo = TypeInfo::new(
    "Muster::FlowGroup",
    "a group of treatments on a bridge, which flow rules send packets to",
    &GROUP_PROPERTIES,
    Place::Device(|given| one(given, Some("group"))),
)
.attributes(&ENTRY_ATTRIBUTES);

pub(super) const METER: TypeInfo = TypeInfo::new(
    "Muster::FlowMeter",
    "a bound on the rate of packets on a bridge, which flow rules name",
    &METER_PROPERTIES,
    Place::Device(|given| one(given, Some("meter"))),
)
.attributes(&ENTRY_ATTRIBUTES);

pub(super) const TABLE: TypeInfo = TypeInfo::new(
    "Muster::FlowTable",
    "many flow rules of a bridge",
    &TABLE_PROPERTIES,
    Place::Device(table),
)
.attributes(&[DEVICE_ATTRIBUTE, IDS_ATTRIBUTE]);

static ENTRY_ATTRIBUTES: [(&str, &str); 3] =
    [DEVICE_ATTRIBUTE, ("id", "its id, as 'muster flow list' has it"), IDS_ATTRIBUTE];
const DEVICE_ATTRIBUTE: (&str, &str) = (DEVICE, "the bridge, NODE/BRIDGE");
const IDS_ATTRIBUTE: (&str, &str) = ("ids", "the ids of all its entries, in order");

// Properties that all of these types have.
const CONFIRM_TIMEOUT_PROPERTY: Property =
    Property::optional("confirm_timeout", |value| confirm_timeout(value).map(drop))
        .is(
            PropertyType::Integer,
            "seconds to reach the controller again after a change; otherwise the agent undoes it",
        )
        .default("30")
        .range(1, CONFIRM_TIMEOUT_MAX);

const DEVICE_PROPERTY: Property = Property::required(DEVICE, |value| device(value).map(drop))
    .is(PropertyType::String, "the bridge, NODE/BRIDGE")
    .replaces();

const GUARD_PROPERTY: Property = Property::optional("guard", |value| guard(value).map(drop))
    .is(
        PropertyType::Boolean,
        "whether the agent undoes a change that could cut the node off unless it is confirmed",
    )
    .default("true");

static RULE_PROPERTIES: [Property; 9] = [
    CONFIRM_TIMEOUT_PROPERTY,
    DEVICE_PROPERTY,
    GUARD_PROPERTY,
    Property::optional("hard_timeout", |value| part("hard_timeout", value))
        .is(PropertyType::Integer, "seconds until it goes; 0: never")
        .default("0")
        .range(0, 65_535),
    Property::optional("idle_timeout", |value| part("idle_timeout", value))
        .is(PropertyType::Integer, "seconds without a packet until it goes; 0: never")
        .default("0")
        .range(0, 65_535),
    Property::required("priority", |value| part("priority", value))
        .is(PropertyType::Integer, "of rules that match, the one with the highest counts")
        .range(0, 65_535),
    Property::optional("selector", |value| part("selector", value))
        .is(
            PropertyType::Map,
            "which packets: fields and their values, such as eth_type; all packets where it is empty",
        )
        .default("{}"),
    Property::optional("table", |value| part("table", value))
        .is(PropertyType::Integer, "the table of the bridge it is in")
        .default("0")
        .range(0, 254),
    Property::optional("treatment", |value| part("treatment", value))
        .is(
            PropertyType::List,
            "what is done with them, such as {output: PORT}; they are dropped where it is empty",
        )
        .default("[]"),
];

static TABLE_PROPERTIES: [Property; 6] = [
    CONFIRM_TIMEOUT_PROPERTY,
    DEVICE_PROPERTY,
    Property::optional("foreign", |value| foreign(value).map(drop))
        .is(PropertyType::String, "what becomes of rules on the bridge that are not Muster's")
        .one_of(&["leave", "show", "import"]),
    GUARD_PROPERTY,
    Property::required("rules", check_rules)
        .is(PropertyType::List, "rules, each a map of the properties of Muster::FlowRule without device"),
    Property::optional("table", |value| part("table", value))
        .is(PropertyType::Integer, "the table of the bridge that they are in, unless a rule says so itself")
        .range(0, 254),
];

static GROUP_PROPERTIES: [Property; 6] = [
    Property::required("buckets", check_buckets)
        .is(PropertyType::List, "what is done with packets: {treatment, weight, watch_port} each"),
    CONFIRM_TIMEOUT_PROPERTY,
    DEVICE_PROPERTY,
    Property::required("group", |value| part("group", value))
        .is(PropertyType::Integer, "its number on the bridge")
        .range(0, 0xffff_ff00),
    GUARD_PROPERTY,
    Property::required("type", |value| part("type", value))
        .is(PropertyType::String, "which of its buckets are used")
        .one_of(&["all", "select", "indirect", "fast_failover"]),
];

static METER_PROPERTIES: [Property; 6] = [
    Property::required("bands", |value| part("bands", value))
        .is(PropertyType::List, "bounds: {rate, burst, dscp_remark} each"),
    CONFIRM_TIMEOUT_PROPERTY,
    DEVICE_PROPERTY,
    GUARD_PROPERTY,
    Property::required("meter", |value| part("meter", value))
        .is(PropertyType::Integer, "its number on the bridge")
        .range(1, 0xffff_0000),
    Property::optional("unit", |value| part("unit", value))
        .is(PropertyType::String, "of rates, per second")
        .default("\"kilobits\"")
        .one_of(&["kilobits", "packets"]),
];

/// A rule, a group or a meter.
fn one(given: &RenderedProperties<'_>, key: Option<&str>) -> Result<FlowSet, PropertyError> {
    let own = ["confirm_timeout", "guard", DEVICE];
    let words = given.0.iter().filter(|(key, value)| !own.contains(&key.as_str()) && !value.is_null());
    let mut map: Map<String, Value> = words.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(key) = key {
        map.entry(key).or_insert(Value::Null);
    }
    let entry = Entry::from_json(&Value::Object(map)).map_err(located)?;
    set(given, vec![packed(&entry)?], None)
}

/// Compares the treatment of a rule with its selector and table, unless one of them has null in place of a
/// function's value. Other properties do not count here.
pub(crate) fn check_flow_rule(properties: &Value) -> Result<(), PropertyError> {
    let given = |key: &str| properties.get(key).map(|value| (key.to_owned(), value.clone()));
    let mut map: Map<String, Value> =
        ["selector", "table", "treatment"].iter().filter_map(|key| given(key)).collect();
    if map.values().any(has_null) {
        return Ok(());
    }
    map.insert("priority".into(), Value::from(0));
    flow::Rule::from_json(&map).map(drop).map_err(located)
}

/// The entries of all `rules`.
fn table(given: &RenderedProperties<'_>) -> Result<FlowSet, PropertyError> {
    let table = given.get("table", |value| part("table", value).map(|()| value.clone()))?;
    let device = given.required(DEVICE, device)?;
    let rules = given.required("rules", |value| rules(value, table.as_ref(), &device))?;
    set(given, rules, given.get("foreign", foreign)?)
}

fn set(
    given: &RenderedProperties<'_>,
    entries: Vec<Packed>,
    foreign: Option<ForeignPolicy>,
) -> Result<FlowSet, PropertyError> {
    let seconds = given.get("confirm_timeout", confirm_timeout)?.unwrap_or(flow::CONFIRM_TIMEOUT);
    let guard = given.get("guard", guard)?.unwrap_or(true);
    Ok(FlowSet {
        device: given.required(DEVICE, device)?,
        entries,
        confirm_timeout: guard.then_some(seconds),
        foreign,
    })
}

fn rules(value: &Value, table: Option<&Value>, device: &DeviceName) -> Result<Vec<Packed>, PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of rules", value)) };
    let mut places: BTreeMap<FlowId, usize> = BTreeMap::new();
    let mut entries = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let at = |error: PropertyError| error.within(Step::Item(n));
        let entry = rule(item, table).map_err(at)?;
        if let Some(first) = places.insert(entry.id(device), n) {
            return Err(at(twice(first)));
        }
        entries.push(packed(&entry).map_err(at)?);
    }
    Ok(entries)
}

fn twice(first: usize) -> PropertyError {
    PropertyError::new(format!(
        "the same table, priority and selector as in rules[{first}]: give one of them"
    ))
}

/// A rule in a list, with the table that holds for all of the list.
fn rule(item: &Value, table: Option<&Value>) -> Result<Entry, PropertyError> {
    let Value::Object(map) = item else { return Err(unwanted("a flow rule", item)) };
    if map.contains_key(DEVICE) {
        return Err(PropertyError::new("the device is given once, for all rules").within_key(DEVICE));
    }
    let mut map = map.clone();
    match (table, map.get("table").filter(|table| !table.is_null())) {
        (Some(all), None) => drop(map.insert("table".into(), all.clone())),
        (Some(all), Some(own)) if all != own => {
            let message = format!("all of these rules are in table {all}; leave it out");
            return Err(PropertyError::new(message).within_key("table"));
        }
        _ => {}
    }
    flow::Rule::from_json(&map).map(Entry::Rule).map_err(located)
}

fn packed(entry: &Entry) -> Result<Packed, PropertyError> {
    Packed::new(entry).map_err(|error| PropertyError::new(format!("too large: {error}")))
}

pub(super) fn device(value: &Value) -> Result<DeviceName, PropertyError> {
    if let Value::String(text) = value {
        text.parse().map_err(|error| PropertyError::new(format!("{error}")))
    } else {
        Err(unwanted("a device, NODE/BRIDGE", value))
    }
}

/// A parameter may arrive as text.
pub(super) fn guard(value: &Value) -> Result<bool, PropertyError> {
    match value {
        Value::Bool(on) => Ok(*on),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(unwanted("true or false", value))
        }
    }
}

fn foreign(value: &Value) -> Result<ForeignPolicy, PropertyError> {
    let Value::String(word) = value else { return Err(unwanted("leave, show or import", value)) };
    ForeignPolicy::from_name(word).ok_or_else(|| {
        let near = suggestion(word, ["leave", "show", "import"]);
        PropertyError::new(format!("want leave, show or import, got '{}'{near}", cut(word)))
    })
}

/// Checks a property that may still have nulls in place of functions' values, as far as it is certain.
fn part(key: &str, value: &Value) -> Result<(), PropertyError> {
    match has_null(value) {
        true => Ok(()),
        false => check_part(key, value).map_err(located),
    }
}

fn check_rules(value: &Value) -> Result<(), PropertyError> {
    let Value::Array(items) = value else { return Err(unwanted("a list of rules", value)) };
    let mut places = BTreeMap::new();
    for (n, item) in items.iter().enumerate().filter(|(_, item)| !has_null(item)) {
        let at = |error: PropertyError| error.within(Step::Item(n));
        // Two rules that are equal without the common table are also equal with it.
        let Entry::Rule(rule) = rule(item, None).map_err(at)? else { continue };
        if let Some(first) = places.insert((rule.table, rule.priority, rule.selector), n) {
            return Err(at(twice(first)));
        }
    }
    Ok(())
}

fn check_buckets(value: &Value) -> Result<(), PropertyError> {
    if value.is_array() { Ok(()) } else { Err(unwanted("a list of {treatment: [...]}", value)) }
}

pub(super) fn located(bad: BadEntry) -> PropertyError {
    bad.path.into_iter().rev().fold(PropertyError::new(bad.message), PropertyError::within)
}
