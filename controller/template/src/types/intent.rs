//! `Muster::TopologyLink`, `Muster::TopologyHost` and `Muster::Intent`: parts of the network, and
//! required connectivity.
//!
//! The intent file's parser reads points, constraints and whole intents. Here its errors get their
//! place in the template.
//!
//! Absent: the wait until an intent is installed (`controller/engine/src/intent/row.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use muster_intent::host::{ADDRESSES_MAX, Host, HostId};
use muster_intent::topology::{ConnectPoint, LinkTraits};
use serde_json::{Map, Value};

use super::flow::{guard as flag, located};
use super::neutron::addresses;
use super::value::{has_null, integer, text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::intent_file::{self, TYPES};
use crate::render::Step;
use crate::virtual_resource::{TopologyHost, TopologyLink, VirtualResource};

type Read<T> = Result<T, PropertyError>;

/// OSPF's bound: a path of any length costs less than an absent device.
const COST_MAX: u64 = 65_535;
/// The most annotations of a link: more than anybody writes.
const ANNOTATIONS_MAX: usize = 64;
/// Bytes of an annotation's name and of its value.
const ANNOTATION_MAX: usize = 255;
/// Seconds that a row waits by default until its intent is installed.
const TIMEOUT: u32 = 60;
/// The bound of a wait condition: twelve hours.
const TIMEOUT_MAX: u64 = 43_200;

pub(super) const LINK: TypeInfo = TypeInfo::new(
    "Muster::TopologyLink",
    "a link between ports of two bridges",
    &LINK_PROPERTIES,
    Place::Controller(link),
);

pub(super) const HOST: TypeInfo = TypeInfo::new(
    "Muster::TopologyHost",
    "a host, and the port of a bridge that it is at",
    &HOST_PROPERTIES,
    Place::Controller(host),
)
.attributes(&[("mac", "its MAC address, as intents name it")]);

pub(super) const INTENT: TypeInfo = TypeInfo::new(
    "Muster::Intent",
    "connectivity through the bridges of the site, which finds its way by itself",
    &INTENT_PROPERTIES,
    Place::Controller(intent),
)
.attributes(&[("key", "its key, as 'muster intent list' has it")]);

static LINK_PROPERTIES: [Property; 7] = [
    Property::optional("annotations", |value| annotations(value).map(drop))
        .is(
            PropertyType::Map,
            "whatever else is to be said of it, such as type: what intents choose links by",
        )
        .default("{}"),
    Property::optional("bandwidth", |value| bandwidth(value).map(drop))
        .is(PropertyType::Integer, "bits per second that intents may reserve; none if not given")
        .range(1, intent_file::BANDWIDTH_MAX),
    Property::optional("bidirectional", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "whether packets go both ways")
        .default("true"),
    Property::optional("cost", |value| cost(value).map(drop))
        .is(PropertyType::Integer, "a path has the least sum of these")
        .default("1")
        .range(1, COST_MAX),
    Property::required("from", end)
        .is(PropertyType::Map, "one end: {device: NODE/BRIDGE, port: INTERFACE}")
        .replaces(),
    Property::optional("latency", |value| latency(value).map(drop))
        .is(PropertyType::Number, "seconds that packets take; not known if not given")
        .limits("more than 0, at most 3600"),
    Property::required("to", end).is(PropertyType::Map, "the other end, on another bridge").replaces(),
];

static HOST_PROPERTIES: [Property; 3] = [
    Property::optional("addresses", |value| host_addresses(value).map(drop))
        .is(PropertyType::List, "its addresses, for people")
        .default("[]"),
    Property::required("location", end)
        .is(PropertyType::Map, "the port that it is at: {device: NODE/BRIDGE, port: INTERFACE}"),
    Property::required("mac", |value| mac(value).map(drop))
        .is(PropertyType::String, "the MAC address of its interface: what intents name it by")
        .replaces(),
];

static INTENT_PROPERTIES: [Property; 10] = [
    Property::optional("constraints", |value| part("constraints", value))
        .is(
            PropertyType::List,
            "how: maps of one key each, such as {bandwidth: 1000000}, {latency: 0.01}, {waypoints: [NODE/BRIDGE]}",
        )
        .default("[]"),
    Property::required("from", |value| part("from", value)).is(
        PropertyType::Map,
        "where packets come in: {device: NODE/BRIDGE, port: INTERFACE}, or a list of such where the type has several, or {host: MAC}",
    ),
    Property::required("key", |value| part("key", value))
        .is(PropertyType::String, "its name, of which the site has one")
        .limits("1 to 255 bytes")
        .replaces(),
    Property::optional("links", |value| part("links", value))
        .is(PropertyType::List, "of type link_collection: the links it takes, {from: …, to: …} each")
        .default("[]"),
    Property::optional("priority", |value| part("priority", value))
        .is(PropertyType::Integer, "of its rules: of those that match, the one with the highest counts")
        .default("100")
        .range(0, 65_534),
    Property::optional("selector", |value| part("selector", value))
        .is(
            PropertyType::Map,
            "which packets, as in a flow rule, without in_port; all packets where it is empty",
        )
        .default("{}"),
    Property::optional("timeout", |value| timeout(value).map(drop))
        .is(PropertyType::Integer, "seconds to be installed in; else the resource has failed")
        .default("60")
        .range(1, TIMEOUT_MAX),
    Property::required("to", |value| part("to", value))
        .is(PropertyType::Map, "where they go out; as 'from'"),
    Property::optional("treatment", |value| part("treatment", value))
        .is(PropertyType::List, "what is changed of them before they go out: actions, as in a flow rule")
        .default("[]"),
    Property::required("type", |value| part("type", value))
        .is(PropertyType::String, "between what")
        .one_of(&TYPES),
];

fn link(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let link = TopologyLink {
        from: given.required("from", point)?,
        to: given.required("to", point)?,
        bidirectional: given.get("bidirectional", flag)?.unwrap_or(true),
        traits: LinkTraits {
            cost: given.get("cost", cost)?.unwrap_or(1),
            bandwidth: given.get("bandwidth", bandwidth)?,
            latency: given.get("latency", latency)?,
            annotations: given.get("annotations", annotations)?.unwrap_or_default(),
        },
    };
    if link.from.device == link.to.device {
        let message = format!("both ends are on {}: a link is between two devices", link.to.device);
        return Err(PropertyError::new(message).within_key("device").within_key("to"));
    }
    Ok(VirtualResource::Link(link))
}

fn host(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    Ok(VirtualResource::Host(TopologyHost {
        mac: given.required("mac", mac)?,
        host: Host {
            location: given.required("location", point)?,
            addresses: given.get("addresses", host_addresses)?.unwrap_or_default(),
        },
    }))
}

fn intent(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let words = given.0.iter().filter(|(name, value)| *name != "timeout" && !value.is_null());
    let map: Map<String, Value> = words.map(|(name, value)| (name.clone(), value.clone())).collect();
    for property in INTENT_PROPERTIES.iter().filter(|property| property.required) {
        given.required(property.name, |_| Ok(()))?;
    }
    let (key, wish) = intent_file::wish(&Value::Object(map)).map_err(located)?;
    Ok(VirtualResource::Intent { key, wish, timeout: given.get("timeout", timeout)?.unwrap_or(TIMEOUT) })
}

/// Checks a value that may still have nulls in place of functions' values, as far as it is certain.
fn part(name: &str, value: &Value) -> Read<()> {
    match has_null(value) {
        true => Ok(()),
        false => intent_file::part(name, value).map_err(located),
    }
}

/// As [`part`].
fn end(value: &Value) -> Read<()> {
    if has_null(value) { Ok(()) } else { point(value).map(drop) }
}

fn point(value: &Value) -> Read<ConnectPoint> {
    intent_file::point(value).map_err(located)
}

fn mac(value: &Value) -> Read<HostId> {
    intent_file::host(value).map_err(located)
}

fn host_addresses(value: &Value) -> Read<Vec<IpAddr>> {
    match addresses(value)? {
        many if many.len() > ADDRESSES_MAX => {
            Err(PropertyError::new(format!("at most {ADDRESSES_MAX} are taken")))
        }
        all => Ok(all),
    }
}

fn cost(value: &Value) -> Read<u32> {
    narrow(integer(value, 1, COST_MAX)?)
}

fn timeout(value: &Value) -> Read<u32> {
    narrow(integer(value, 1, TIMEOUT_MAX)?)
}

fn narrow(number: u64) -> Read<u32> {
    u32::try_from(number).map_err(|_| PropertyError::new("too large"))
}

fn bandwidth(value: &Value) -> Read<u64> {
    intent_file::bandwidth(value).map_err(located)
}

fn latency(value: &Value) -> Read<u64> {
    intent_file::latency(value).map_err(located)
}

fn annotations(value: &Value) -> Read<BTreeMap<Box<str>, Box<str>>> {
    let Value::Object(map) = value else { return Err(unwanted("a map", value)) };
    if map.len() > ANNOTATIONS_MAX {
        return Err(PropertyError::new(format!("at most {ANNOTATIONS_MAX} are taken")));
    }
    let bounded = |text: &str| match text.len() <= ANNOTATION_MAX && !text.contains(char::is_control) {
        true => Ok(Box::<str>::from(text)),
        false => Err(PropertyError::new(format!("want at most {ANNOTATION_MAX} bytes in a line"))),
    };
    let given = map.iter().filter(|(_, value)| !value.is_null());
    let read = |(name, value): (&String, &Value)| {
        let value = text(value).and_then(|text| bounded(&text));
        Ok((bounded(name)?, value.map_err(|error| error.within(Step::Key(name.as_str().into())))?))
    };
    given.map(read).collect()
}
