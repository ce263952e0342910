//! `OS::Neutron::Net`, `Subnet` and `Port`: the site's own address plan.
//!
//! Properties that only make sense in a cloud (security groups, owners of networks, …) are accepted for
//! Heat's sake and have no effect.
//!
//! Absent: the defaults that follow from a range (`controller/template/src/address.rs`), and which port gets which
//! address (`controller/engine/src/address.rs`).

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use super::value::{integer, text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::address::{FixedIp, Net, Port, Subnet};
use crate::error::{cut, suggestion_or_all};
use crate::parameter::ParameterType;
use crate::render::Step;
use crate::virtual_resource::VirtualResource;

type Read<T> = Result<T, PropertyError>;

/// The most pools, addresses, routes or name servers: more than anybody gives one subnet or port.
const ITEMS_MAX: usize = 256;
/// The description of a property that only makes sense in a cloud.
const NOTHING: &str = "taken for Heat's sake: means nothing here";

/// A property that only makes sense in a cloud.
const fn nothing(name: &'static str, kind: PropertyType) -> Property {
    let check: fn(&Value) -> Read<()> = match kind {
        PropertyType::Boolean => |value| flag(value).map(drop),
        PropertyType::Integer | PropertyType::Number => |value| integer(value, 0, u64::MAX).map(drop),
        PropertyType::List => |value| if value.is_array() { Ok(()) } else { Err(unwanted("a list", value)) },
        PropertyType::Map => |value| if value.is_object() { Ok(()) } else { Err(unwanted("a map", value)) },
        PropertyType::Any | PropertyType::String => |value| text(value).map(drop),
    };
    Property::optional(name, check).is(kind, NOTHING)
}

pub(super) const NET: TypeInfo = TypeInfo::new(
    "OS::Neutron::Net",
    "a network of the site's address plan",
    &NET_PROPERTIES,
    Place::Controller(net),
)
.attributes(&[
    UP,
    ("name", AS_GIVEN),
    ("segments", "an empty list: an address plan has no segments"),
    SHOW,
    ACTIVE,
]);

pub(super) const PORT: TypeInfo = TypeInfo::new(
    "OS::Neutron::Port",
    "addresses of a network, nobody else's for as long as it is there",
    &PORT_PROPERTIES,
    Place::Controller(port),
)
.attributes(&[
    UP,
    ("device_id", AS_GIVEN),
    ("device_owner", AS_GIVEN),
    ("fixed_ips", "its addresses: maps with subnet_id and ip_address"),
    ("mac_address", AS_GIVEN),
    ("name", AS_GIVEN),
    ("network", "its network: a map with id, name, subnets and tags"),
    NETWORK_ID,
    ACTIVE,
    ("subnets", "what its addresses are of: maps with id, name, cidr, gateway_ip, …"),
]);

pub(super) const SUBNET: TypeInfo = TypeInfo::new(
    "OS::Neutron::Subnet",
    "a range of a network, from which ports get addresses",
    &SUBNET_PROPERTIES,
    Place::Controller(subnet),
)
.attributes(&[
    ("allocation_pools", "maps with start and end"),
    ("cidr", AS_GIVEN),
    ("dns_nameservers", AS_GIVEN),
    ("enable_dhcp", AS_GIVEN),
    ("gateway_ip", "what routes from it; null where nothing does"),
    ("host_routes", AS_GIVEN),
    ("ip_version", "4 or 6"),
    ("name", AS_GIVEN),
    NETWORK_ID,
    SHOW,
]);

/// Characters of a tag.
const TAG_MAX: usize = 255;

const AS_GIVEN: &str = "the property";
const UP: (&str, &str) = ("admin_state_up", "true");
const SHOW: (&str, &str) = ("show", "a map of its attributes; a cloud's has more");
const ACTIVE: (&str, &str) = ("status", "ACTIVE");
const NETWORK_ID: (&str, &str) = ("network_id", "the id of its network, or as it was given");

const NETWORK: Property = Property::required("network", |value| text(value).map(drop))
    .is(PropertyType::String, "name or id of its network; network_id is a former name of this");

static NET_PROPERTIES: [Property; 10] = [
    nothing("admin_state_up", PropertyType::Boolean),
    nothing("dns_domain", PropertyType::String),
    nothing("mtu", PropertyType::Integer),
    Property::optional("name", |value| text(value).map(drop))
        .is(PropertyType::String, "what subnets and ports call it"),
    nothing("port_security_enabled", PropertyType::Boolean),
    nothing("qos_policy", PropertyType::String),
    nothing("shared", PropertyType::Boolean),
    Property::optional("tags", |value| tags(value).map(drop))
        .is(PropertyType::List, "texts, shown in the attribute 'network' of its ports")
        .limits("at most 256, of 1 to 255 characters each"),
    nothing("tenant_id", PropertyType::String),
    nothing("value_specs", PropertyType::Map),
];

static SUBNET_PROPERTIES: [Property; 15] = [
    Property::optional("allocation_pools", |value| pools(value).map(drop)).is(
        PropertyType::List,
        "maps with 'start' and 'end': where ports get addresses; all but the gateway if not given",
    ),
    Property::required("cidr", |value| cidr(value).map(drop))
        .is(PropertyType::String, "its range, such as 10.0.0.0/24"),
    Property::optional("dns_nameservers", |value| addresses(value).map(drop))
        .is(PropertyType::List, "addresses, for those who configure hosts"),
    Property::optional("enable_dhcp", |value| flag(value).map(drop))
        .is(PropertyType::Boolean, "told to those who ask; nothing is started")
        .default("true"),
    Property::optional("gateway_ip", |value| gateway(value).map(drop)).is(
        PropertyType::String,
        "what routes from it: the first address if not given, none if it is an empty text",
    ),
    Property::optional("host_routes", |value| routes(value).map(drop))
        .is(PropertyType::List, "maps with 'destination' and 'nexthop', for those who configure hosts"),
    Property::optional("ip_version", |value| integer(value, 4, 6).map(drop))
        .is(PropertyType::Integer, "4 or 6, as its range says"),
    nothing("ipv6_address_mode", PropertyType::String),
    nothing("ipv6_ra_mode", PropertyType::String),
    Property::optional("name", |value| text(value).map(drop)).is(PropertyType::String, "what ports call it"),
    NETWORK,
    nothing("segment", PropertyType::String),
    nothing("tags", PropertyType::List),
    nothing("tenant_id", PropertyType::String),
    nothing("value_specs", PropertyType::Map),
];

static PORT_PROPERTIES: [Property; 17] = [
    nothing("admin_state_up", PropertyType::Boolean),
    nothing("allowed_address_pairs", PropertyType::List),
    nothing("binding:vnic_type", PropertyType::String),
    Property::optional("device_id", |value| text(value).map(drop))
        .is(PropertyType::String, "told to those who ask"),
    Property::optional("device_owner", |value| text(value).map(drop))
        .is(PropertyType::String, "told to those who ask"),
    nothing("dns_name", PropertyType::String),
    Property::optional("fixed_ips", |value| fixed_ips(value).map(drop)).is(
        PropertyType::List,
        "maps with 'subnet' or 'ip_address' or both; one address of each family if not given",
    ),
    Property::optional("mac_address", |value| text(value).map(drop))
        .is(PropertyType::String, "told to those who ask"),
    Property::optional("name", |value| text(value).map(drop)).is(PropertyType::String, "for people"),
    NETWORK.replaces(),
    nothing("port_security_enabled", PropertyType::Boolean),
    nothing("qos_policy", PropertyType::String),
    nothing("replacement_policy", PropertyType::String),
    nothing("security_groups", PropertyType::List),
    nothing("tags", PropertyType::List),
    nothing("tenant_id", PropertyType::String),
    nothing("value_specs", PropertyType::Map),
];

fn net(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let net = Net { name: given.get("name", text)? };
    let tags = given.get("tags", tags)?.unwrap_or_default();
    // The form from before there were tags, for stored resources.
    Ok(if tags.is_empty() { VirtualResource::Net(net) } else { VirtualResource::TaggedNet(net, tags) })
}

fn tags(value: &Value) -> Read<Vec<String>> {
    each(value, |item| {
        let tag = text(item)?;
        match tag.chars().count() {
            1..=TAG_MAX => Ok(tag),
            _ => Err(PropertyError::new(format!("a tag has 1 to {TAG_MAX} characters"))),
        }
    })
}

fn subnet(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    let says_gateway = given.0.get("gateway_ip").is_some_and(|value| !value.is_null());
    let subnet = Subnet {
        name: given.get("name", text)?,
        network: given.required("network", text)?,
        cidr: given.required("cidr", cidr)?,
        gateway: given.get("gateway_ip", gateway)?.flatten(),
        pools: given.get("allocation_pools", pools)?.unwrap_or_default(),
        dns_nameservers: given.get("dns_nameservers", addresses)?.unwrap_or_default(),
        host_routes: given.get("host_routes", routes)?.unwrap_or_default(),
        enable_dhcp: given.get("enable_dhcp", flag)?.unwrap_or(true),
    };
    let version = given.get("ip_version", |value| integer(value, 4, 6))?;
    if let Some(version) = version.filter(|version| (*version == 4) != matches!(subnet.cidr, IpNet::V4(_))) {
        let message = format!("{} is not of IP version {version}", subnet.cidr);
        return Err(PropertyError::new(message).within_key("ip_version"));
    }
    let complete = subnet.complete(says_gateway);
    complete
        .map(VirtualResource::Subnet)
        .map_err(|(key, message)| PropertyError::new(message).within_key(key))
}

fn port(given: &RenderedProperties<'_>) -> Read<VirtualResource> {
    Ok(VirtualResource::Port(Port {
        name: given.get("name", text)?,
        network: given.required("network", text)?,
        fixed_ips: given.get("fixed_ips", fixed_ips)?.unwrap_or_default(),
        mac_address: given.get("mac_address", text)?,
        device_id: given.get("device_id", text)?,
        device_owner: given.get("device_owner", text)?,
    }))
}

fn flag(value: &Value) -> Read<bool> {
    match ParameterType::Boolean.convert(value) {
        Ok(flag) => Ok(flag == Value::Bool(true)),
        Err(message) => Err(PropertyError::new(message)),
    }
}

fn cidr(value: &Value) -> Read<IpNet> {
    let text = text(value)?;
    text.trim()
        .parse()
        .map_err(|_| PropertyError::new(format!("want a range such as 10.0.0.0/24, got '{}'", cut(&text))))
}

fn address(value: &Value) -> Read<IpAddr> {
    let text = text(value)?;
    text.trim().parse().map_err(|_| PropertyError::new(format!("want an IP address, got '{}'", cut(&text))))
}

/// An empty text means no gateway.
fn gateway(value: &Value) -> Read<Option<IpAddr>> {
    if let Value::String(text) = value
        && text.is_empty()
    {
        Ok(None)
    } else {
        address(value).map(Some)
    }
}

pub(super) fn addresses(value: &Value) -> Read<Vec<IpAddr>> {
    each(value, address)
}

fn pools(value: &Value) -> Read<Vec<(IpAddr, IpAddr)>> {
    each(value, |item| {
        let map = keys(item, &["start", "end"])?;
        Ok((wanted(map, "start", address)?, wanted(map, "end", address)?))
    })
}

fn routes(value: &Value) -> Read<Vec<(IpNet, IpAddr)>> {
    each(value, |item| {
        let map = keys(item, &["destination", "nexthop"])?;
        Ok((wanted(map, "destination", cidr)?, wanted(map, "nexthop", address)?))
    })
}

fn fixed_ips(value: &Value) -> Read<Vec<FixedIp>> {
    each(value, |item| {
        let map = keys(item, &["ip_address", "subnet", "subnet_id"])?;
        let subnet = match optional(map, "subnet", text)? {
            Some(subnet) => Some(subnet),
            None => optional(map, "subnet_id", text)?,
        };
        Ok(FixedIp { subnet, address: optional(map, "ip_address", address)? })
    })
}

/// Reads a list; errors have the item's place. Unknown values are accepted.
fn each<T>(value: &Value, read: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    let Value::Array(items) = value else { return Err(unwanted("a list", value)) };
    if items.len() > ITEMS_MAX {
        return Err(PropertyError::new(format!("at most {ITEMS_MAX} are taken")));
    }
    let known = items.iter().enumerate().filter(|(_, item)| !item.is_null());
    known.map(|(index, item)| read(item).map_err(|error| error.within(Step::Item(index)))).collect()
}

fn keys<'v>(value: &'v Value, known: &[&str]) -> Read<&'v Map<String, Value>> {
    let Value::Object(map) = value else { return Err(unwanted("a map", value)) };
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(other) => {
            let near = suggestion_or_all(other, known);
            Err(PropertyError::new(format!("unknown key '{}'{near}", cut(other))))
        }
        None => Ok(map),
    }
}

fn optional<T>(map: &Map<String, Value>, key: &str, read: impl Fn(&Value) -> Read<T>) -> Read<Option<T>> {
    let value = map.get(key).filter(|value| !value.is_null());
    value.map(read).transpose().map_err(|error| error.within_key(key))
}

fn wanted<T>(map: &Map<String, Value>, key: &str, read: impl Fn(&Value) -> Read<T>) -> Read<T> {
    optional(map, key, read)?.ok_or_else(|| PropertyError::new("this must be given").within_key(key))
}
