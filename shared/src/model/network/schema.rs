//! os-net-config's own schema (18.1), as strict as there: what a value of each kind may be. Which options each object type
//! has is in `schema/options.rs`; `schema/json.rs` tells editors.
//!
//! The schema defines the form of a document; `support.rs` defines which parts are supported. Absent: YAML,
//! and template functions except `get_param` and `get_input`, which the schema itself allows. The parser
//! refuses those afterwards, because nothing resolves them on a server.

mod about;
mod json;
mod options;
mod words;

use serde_json::{Map, Value};

use super::NetworkError;
use super::error::clip;
use super::value::{fields, is_boolean, list, quoted, text, wrong_kind};
pub(super) use options::{REMOVED_TYPES, Type, find, types};

type Checked = Result<(), NetworkError>;

/// The deepest nesting of members: a bond in a bridge, an interface in it. A deeper one is refused earlier by
/// its type.
const MAX_DEPTH: usize = 8;

/// The kind of an option's value. `…OrParam` of the schema is every kind but [`Kind::PlainText`],
/// [`Kind::Mac`], [`Kind::VfState`] and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    PlainText,
    Int,
    IntOrText,
    Bool,
    Addresses,
    Routes,
    Rules,
    Servers,
    Domains,
    Mapping,
    /// Text with one or more `key=value`.
    OvsOptions,
    /// A list of `key=value`.
    OvsOptionList,
    OvsExtra,
    /// An address with the length of its prefix.
    Cidr,
    /// An IP address, or `self`.
    NextHop,
    Mac,
    VfState,
    Dcb,
    Dscp2prio,
    OneOf(&'static [&'static str]),
    /// Types that fit, the least and the most of them; with `true` only the first is looked at, as in
    /// the schema.
    Members(&'static [&'static str], usize, usize, bool),
}

/// Checks all objects of a section.
pub(super) fn section(path: &str, objects: &[Value]) -> Checked {
    for (index, value) in objects.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if is_removal(value) {
            removal(&path, value)?;
        } else {
            object(&path, value, None, 0)?;
        }
    }
    let first_removal = objects.iter().position(is_removal);
    match first_removal.filter(|_| !objects.iter().all(is_removal)) {
        None => Ok(()),
        Some(index) => Err(NetworkError::invalid(
            &format!("{path}[{index}]"),
            "what is removed stands in a list of its own; put it into remove_config",
        )),
    }
}

/// Looks like a `remove_net_device`, which has no type.
pub(super) fn is_removal(value: &Value) -> bool {
    let has = |key: &str| value.get(key).is_some();
    !has("type") && (has("remove_name") || has("remove_type"))
}

fn removal(path: &str, value: &Value) -> Checked {
    let map = fields(path, value)?;
    let known = ["remove_name", "remove_type"];
    only(path, map, &known, "option")?;
    required(path, map, &known)?;
    check(&format!("{path}.remove_name"), Kind::Text, &map["remove_name"], 0)?;
    one_of(&format!("{path}.remove_type"), &REMOVED_TYPES, &map["remove_type"])
}

/// Checks an object; `fits` are the types that its place allows, any if `None`.
fn object(path: &str, value: &Value, fits: Option<&[&str]>, depth: usize) -> Checked {
    let map = fields(path, value)?;
    let type_path = format!("{path}.type");
    let kind = text(&type_path, map.get("type").ok_or_else(|| missing(&type_path))?)?;
    let Some(kind) = find(kind) else {
        return Err(NetworkError::unknown(path, "type", kind, types().map(|kind| kind.name)));
    };
    if let Some(fits) = fits.filter(|fits| !fits.contains(&kind.name)) {
        let problem = format!("{} cannot be a member here; it takes {}", kind.name, fits.join(", "));
        return Err(NetworkError::invalid(&type_path, problem));
    }
    for (option, value) in map.iter().filter(|(option, _)| *option != "type") {
        let path = format!("{path}.{}", clip(option));
        match kind.option(option) {
            Some(kind) => check(&path, kind, value, depth)?,
            None if kind.open => {}
            None => return Err(unknown_option(&path, kind, option)),
        }
    }
    // The bound on each option is checked first: missing options of a list that is too long do not matter.
    kind.required.iter().find(|option| !map.contains_key(**option)).map_or(Ok(()), |option| {
        let hint = if *option == "members" { "; an empty list is taken" } else { "" };
        let hint = if kind.takes_no_members() { hint } else { "" };
        Err(NetworkError::invalid(&format!("{path}.{option}"), format!("is missing{hint}")))
    })
}

fn unknown_option(path: &str, kind: &Type, option: &str) -> NetworkError {
    let elsewhere: Vec<&str> =
        types().filter(|kind| kind.option(option).is_some()).map(|kind| kind.name).collect();
    if elsewhere.is_empty() {
        return NetworkError::unknown(path, "option", option, kind.option_names());
    }
    // Shows enough types to recognise the intended one.
    let shown = elsewhere.iter().take(4).copied().collect::<Vec<_>>().join(", ");
    let more = if elsewhere.len() > 4 { " and others" } else { "" };
    let problem = format!("type '{}' has no option '{option}'; {shown}{more} can have it", kind.name);
    NetworkError::invalid(path, problem)
}

fn missing(path: &str) -> NetworkError {
    NetworkError::invalid(path, "is missing")
}

fn only(path: &str, map: &Map<String, Value>, known: &[&'static str], what: &'static str) -> Checked {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let known = known.iter().copied();
            Err(NetworkError::unknown(&format!("{path}.{}", clip(key)), what, key, known))
        }
    }
}

fn required(path: &str, map: &Map<String, Value>, options: &[&str]) -> Checked {
    match options.iter().find(|option| !map.contains_key(**option)) {
        None => Ok(()),
        Some(option) => Err(missing(&format!("{path}.{option}"))),
    }
}

/// `{get_param: …}` or `{get_input: …}`.
pub(super) fn is_param(value: &Value) -> bool {
    let Some(map) = value.as_object() else { return false };
    map.len() == 1 && ["get_param", "get_input"].iter().any(|key| map.get(*key).is_some_and(Value::is_string))
}

fn check(path: &str, kind: Kind, value: &Value, depth: usize) -> Checked {
    let plain = matches!(kind, Kind::PlainText | Kind::Mac | Kind::VfState | Kind::Mapping | Kind::Dcb)
        || matches!(kind, Kind::Addresses | Kind::Routes | Kind::Rules | Kind::Domains | Kind::Dscp2prio)
        || matches!(kind, Kind::Members(..));
    if !plain && is_param(value) {
        return Ok(());
    }
    match kind {
        Kind::Text | Kind::PlainText => text(path, value).map(drop),
        Kind::Int => integer(path, value),
        Kind::IntOrText if value.is_string() => Ok(()),
        Kind::IntOrText => integer(path, value),
        Kind::Bool if is_boolean(value) => Ok(()),
        Kind::Bool => Err(wrong_kind(path, "a boolean", value)),
        Kind::Addresses => at_least_one(path, value, |path, value| entry(path, value, &ADDRESS)),
        Kind::Rules => at_least_one(path, value, |path, value| entry(path, value, &RULE)),
        Kind::Dscp2prio => each(path, value, |path, value| entry(path, value, &DSCP2PRIO)),
        Kind::Routes => each(path, value, route),
        // A template left the option empty, which os-net-config treats as absent.
        Kind::Servers | Kind::Domains if value.is_null() => Ok(()),
        Kind::Servers => each(path, value, ip),
        Kind::Domains if value.as_str() == Some("") => Ok(()),
        Kind::Domains if value.is_string() => domain(path, value),
        Kind::Domains => each(path, value, domain),
        Kind::Mapping if value.is_null() => Ok(()),
        Kind::Mapping => fields(path, value).map(drop),
        Kind::OvsOptions => {
            shape(path, value, words::is_ovs_options, "key=value is wanted, or several with blanks between")
        }
        Kind::OvsOptionList => at_least_one(path, value, |path, value| {
            shape(path, value, words::is_ovs_option, "key=value is wanted")
        }),
        Kind::OvsExtra if value.is_string() => Ok(()),
        Kind::OvsExtra => at_least_one(path, value, |path, value| text(path, value).map(drop)),
        Kind::Cidr => cidr(path, value),
        Kind::NextHop if value == "self" => Ok(()),
        Kind::NextHop => ip(path, value),
        Kind::Mac => shape(path, value, words::is_mac, "a MAC address is wanted"),
        Kind::VfState => one_of(path, &["auto", "enable", "disable"], value),
        Kind::Dcb => {
            let map = fields(path, value)?;
            required(path, map, &["dscp2prio"])?;
            map.get("device")
                .map_or(Ok(()), |device| check(&format!("{path}.device"), Kind::Text, device, depth))?;
            check(&format!("{path}.dscp2prio"), Kind::Dscp2prio, &map["dscp2prio"], depth)
        }
        Kind::OneOf(words) => one_of(path, words, value),
        Kind::Members(fits, least, most, first_only) => {
            let items = list(path, value)?;
            if items.len() < least || items.len() > most {
                let most = if most == usize::MAX { String::new() } else { format!(", at most {most}") };
                return Err(NetworkError::invalid(
                    path,
                    format!("at least {least}{most} wanted, not {}", items.len()),
                ));
            }
            if depth >= MAX_DEPTH {
                return Err(NetworkError::invalid(path, format!("members nest at most {MAX_DEPTH} deep")));
            }
            let looked_at = if first_only { 1 } else { usize::MAX };
            let mut members = items.iter().enumerate().take(looked_at);
            members.try_for_each(|(i, value)| object(&format!("{path}[{i}]"), value, Some(fits), depth + 1))
        }
    }
}

type Entry = (&'static [(&'static str, Kind)], &'static [&'static str]);

const RULE: Entry = (&[("rule", Kind::Text), ("comment", Kind::Text)], &["rule"]);
const ADDRESS: Entry = (&[("ip_netmask", Kind::Cidr)], &["ip_netmask"]);
const DSCP2PRIO: Entry =
    (&[("priority", Kind::Int), ("protocol", Kind::Int), ("selector", Kind::Int)], &["priority", "protocol"]);
const ROUTE: [(&str, Kind); 8] = [
    ("next_hop", Kind::NextHop),
    ("nexthop", Kind::NextHop),
    ("ip_netmask", Kind::Cidr),
    ("destination", Kind::Cidr),
    ("default", Kind::Bool),
    ("route_options", Kind::Text),
    ("table", Kind::IntOrText),
    ("metric", Kind::Int),
];

fn entry(path: &str, value: &Value, (options, wanted): &Entry) -> Checked {
    let map = fields(path, value)?;
    only(path, map, &names(options), "option")?;
    required(path, map, wanted)?;
    each_option(path, map, options)
}

fn names(options: &[(&'static str, Kind)]) -> Vec<&'static str> {
    options.iter().map(|(name, _)| *name).collect()
}

fn each_option(path: &str, map: &Map<String, Value>, options: &[(&'static str, Kind)]) -> Checked {
    let mut given = options.iter().filter_map(|(name, kind)| Some((name, kind, map.get(*name)?)));
    given.try_for_each(|(name, kind, value)| check(&format!("{path}.{name}"), *kind, value, 0))
}

fn route(path: &str, value: &Value) -> Checked {
    let map = fields(path, value)?;
    only(path, map, &names(&ROUTE), "option")?;
    each_option(path, map, &ROUTE)?;
    let has = |option: &str| map.contains_key(option);
    let both = |one: &str, other: &str| {
        NetworkError::invalid(path, format!("has {one} and {other}; give one of them"))
    };
    if has("next_hop") && has("nexthop") {
        return Err(both("next_hop", "nexthop"));
    }
    if !has("next_hop") && !has("nexthop") {
        return Err(missing(&format!("{path}.next_hop")));
    }
    match (has("default"), has("ip_netmask"), has("destination")) {
        (false, true, true) => Err(both("ip_netmask", "destination")),
        (false, false, false) => {
            Err(NetworkError::invalid(path, "wants ip_netmask, destination or 'default: true'"))
        }
        _ => Ok(()),
    }
}

/// An integer, or its digits: a template's parameters arrive as text, and os-net-config takes them so.
fn integer(path: &str, value: &Value) -> Checked {
    let is_integer = match value {
        Value::Number(number) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        Value::String(text) => text.parse::<i64>().is_ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if is_integer { Ok(()) } else { Err(wrong_kind(path, "an integer", value)) }
}

fn ip(path: &str, value: &Value) -> Checked {
    if is_param(value) {
        return Ok(());
    }
    let written = text(path, value)?;
    match words::is_ip(written) {
        true => Ok(()),
        false => Err(NetworkError::invalid(path, format!("{} is no IP address", quoted(written)))),
    }
}

fn cidr(path: &str, value: &Value) -> Checked {
    if is_param(value) {
        return Ok(());
    }
    if let Some(map) = value.as_object()
        && let Some(join) = map.get("list_join").filter(|_| map.len() == 1)
    {
        return list_join(&format!("{path}.list_join"), join);
    }
    let written = text(path, value)?;
    if words::is_cidr(written) {
        return Ok(());
    }
    let problem = match words::is_ip(written) {
        true => format!("{written} lacks its prefix length, such as {written}/24"),
        false => format!("{} is no address with prefix length, such as 192.0.2.1/24", quoted(written)),
    };
    Err(NetworkError::invalid(path, problem))
}

/// `["/", [ADDRESS, LENGTH]]`
fn list_join(path: &str, value: &Value) -> Checked {
    let items = list(path, value)?;
    if items.first().is_some_and(|separator| separator != "/") {
        return Err(NetworkError::invalid(&format!("{path}[0]"), "\"/\" is wanted"));
    }
    let path = format!("{path}[1]");
    let Some(parts) = items.get(1) else { return Ok(()) };
    let parts = list(&path, parts)?;
    parts.first().map_or(Ok(()), |address| ip(&format!("{path}[0]"), address))?;
    parts.get(1).map_or(Ok(()), |length| check(&format!("{path}[1]"), Kind::Int, length, 0))
}

fn domain(path: &str, value: &Value) -> Checked {
    let name = text(path, value)?;
    match words::is_domain(name) {
        true => Ok(()),
        false => Err(NetworkError::invalid(path, format!("'{}' is no domain name", clip(name)))),
    }
}

fn shape(path: &str, value: &Value, fits: fn(&str) -> bool, wanted: &str) -> Checked {
    let written = text(path, value)?;
    match fits(written) {
        true => Ok(()),
        false => Err(NetworkError::invalid(path, format!("{wanted}, not {}", quoted(written)))),
    }
}

fn one_of(path: &str, words: &[&'static str], value: &Value) -> Checked {
    let written = text(path, value)?;
    match words.contains(&written) {
        true => Ok(()),
        false => Err(NetworkError::not_one_of(path, written, words)),
    }
}

fn each(path: &str, value: &Value, check: impl Fn(&str, &Value) -> Checked) -> Checked {
    let mut items = list(path, value)?.iter().enumerate();
    items.try_for_each(|(index, item)| check(&format!("{path}[{index}]"), item))
}

fn at_least_one(path: &str, value: &Value, check: impl Fn(&str, &Value) -> Checked) -> Checked {
    match list(path, value)?.is_empty() {
        true => Err(NetworkError::invalid(path, "is an empty list; leave the option out")),
        false => each(path, value, check),
    }
}
