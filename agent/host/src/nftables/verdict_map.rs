//! Rules with the same fields, exact values and a plain verdict share a map, whose name tells which rules
//! belong to it.

use std::fmt;

use muster_shared::mac;
use muster_shared::model::flow::{Criterion, Field, Port, Rule};
use serde_json::{Value, json};

use super::translate::{ip4, ip6, may_be_quoted};

/// A change with this many rules of one shape makes a map of them: fewer are easier to read as rules.
pub(super) const SHARED: usize = 16;

/// The possible parts of a key, in their order within a key: 64 bytes together, the kernel's limit.
const KEYS: [Key; 8] = [
    Key { fields: &[], words: "iifname", kind: "ifname" },
    Key { fields: &[Field::EthSrc], words: "ether saddr", kind: "ether_addr" },
    Key { fields: &[Field::Ipv4Src], words: "ip saddr", kind: "ipv4_addr" },
    Key { fields: &[Field::Ipv4Dst], words: "ip daddr", kind: "ipv4_addr" },
    Key { fields: &[Field::Ipv6Src], words: "ip6 saddr", kind: "ipv6_addr" },
    Key { fields: &[Field::Ipv6Dst], words: "ip6 daddr", kind: "ipv6_addr" },
    Key { fields: &[Field::TcpSrc, Field::UdpSrc, Field::SctpSrc], words: "sport", kind: "inet_service" },
    Key { fields: &[Field::TcpDst, Field::UdpDst, Field::SctpDst], words: "dport", kind: "inet_service" },
];

struct Key {
    /// Empty for the port.
    fields: &'static [Field],
    words: &'static str,
    kind: &'static str,
}

/// The fields that rules match, without their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    keys: u8,
    /// 4, 6, or 0 for both.
    family: u8,
    protocol: Option<u8>,
}

/// A map: rules of one table, priority and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MapName {
    pub table: u8,
    pub priority: u16,
    pub shape: Shape,
}

/// The shape of a rule, and its key both in nft's input language and in its listing.
pub(super) fn of(rule: &Rule) -> Option<(Shape, String, Value)> {
    let mut shape = Shape { keys: 0, family: 0, protocol: None };
    let mut parts: Vec<(usize, String, Value)> = Vec::new();
    for criterion in &rule.selector {
        match criterion {
            Criterion::InPort(Port::Named(name)) if may_be_quoted(name) => {
                parts.push((0, format!("\"{name}\""), json!(name)));
            }
            Criterion::Field { field: Field::EthType, value: 0x0800, mask: None } => shape.family = 4,
            Criterion::Field { field: Field::EthType, value: 0x86dd, mask: None } => shape.family = 6,
            Criterion::Field { field: Field::IpProto, value, mask: None } => {
                shape.protocol = Some(u8::try_from(*value).ok()?);
            }
            Criterion::Field { field, value, mask: None } => {
                let at = KEYS.iter().position(|key| key.fields.contains(field))?;
                let (text, given) = match KEYS[at].kind {
                    "ether_addr" => (mac::text_of_field(*value), json!(mac::text_of_field(*value))),
                    "ipv4_addr" => (ip4(*value), json!(ip4(*value))),
                    "ipv6_addr" => (ip6(*value), json!(ip6(*value))),
                    _ => (value.to_string(), json!(u16::try_from(*value).ok()?)),
                };
                parts.push((at, text, given));
            }
            Criterion::Field { .. } | Criterion::InPort(_) => return None,
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.sort_by_key(|(at, ..)| *at);
    shape.keys = parts.iter().fold(0, |keys, (at, ..)| keys | 1 << at);
    let text: Vec<&str> = parts.iter().map(|(_, text, _)| text.as_str()).collect();
    let text = text.join(" . ");
    let mut given: Vec<Value> = parts.into_iter().map(|(.., given)| given).collect();
    let given = if given.len() == 1 { given.remove(0) } else { json!({ "concat": given }) };
    Some((shape, text, given))
}

impl Shape {
    fn keys(self) -> impl Iterator<Item = (usize, &'static Key)> {
        KEYS.iter().enumerate().filter(move |(at, _)| self.keys & 1 << at != 0)
    }

    fn protocol_name(self) -> &'static str {
        match self.protocol {
            Some(6) => "tcp",
            Some(17) => "udp",
            _ => "sctp",
        }
    }

    fn words(self) -> Vec<String> {
        let word = |(at, key): (usize, &Key)| match at {
            6.. => format!("{} {}", self.protocol_name(), key.words),
            _ => key.words.to_owned(),
        };
        self.keys().map(word).collect()
    }

    /// A number for ordering rules.
    pub fn code(self) -> u64 {
        let protocol = self.protocol.map_or(0, |protocol| 0x100 | u64::from(protocol));
        u64::from(self.keys) << 16 | u64::from(self.family) << 12 | protocol
    }

    /// A listed key in nft's input language; `None` if it is not of this shape.
    pub fn key_text(self, given: &Value) -> Option<String> {
        let parts = match given.get("concat") {
            Some(parts) => parts.as_array()?.clone(),
            None => vec![given.clone()],
        };
        let kinds: Vec<&str> = self.keys().map(|(_, key)| key.kind).collect();
        let text = |(part, kind): (&Value, &&str)| match part {
            Value::String(name) if *kind == "ifname" => may_be_quoted(name).then(|| format!("\"{name}\"")),
            Value::String(text) => {
                let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'.' || byte == b':';
                text.bytes().all(is_plain).then(|| text.clone())
            }
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let texts: Option<Vec<String>> = parts.iter().zip(&kinds).map(text).collect();
        (parts.len() == kinds.len()).then_some(texts?.join(" . "))
    }

    /// The type of the map's keys, as nft lists it.
    pub fn kind(self) -> Value {
        let kinds: Vec<&str> = self.keys().map(|(_, key)| key.kind).collect();
        if let [kind] = kinds[..] { json!(kind) } else { json!(kinds) }
    }
}

impl MapName {
    /// Parses the map's name.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('m')?.split('_');
        let (table, priority) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let code = u64::from_str_radix(parts.next()?, 16).ok()?;
        let family = u8::try_from(code >> 12 & 0xf).ok()?;
        let protocol = (code & 0x100 != 0).then_some((code & 0xff) as u8);
        let shape = Shape { keys: u8::try_from(code >> 16).ok()?, family, protocol };
        let name = Self { table, priority, shape };
        (shape.keys != 0 && name.to_string() == text).then_some(name)
    }

    pub fn declaration(&self) -> String {
        format!("{{ typeof {} : verdict; counter; }}", self.shape.words().join(" . "))
    }

    /// The rule that looks packets up in the map.
    pub fn dispatch(&self) -> String {
        let Shape { family, protocol, .. } = self.shape;
        let mut text = String::new();
        match family {
            4 => text.push_str("meta nfproto ipv4 "),
            6 => text.push_str("meta nfproto ipv6 "),
            _ => {}
        }
        if let Some(protocol) = protocol {
            text.push_str(&format!("meta l4proto {protocol} "));
        }
        format!("{text}{} vmap @{self}", self.shape.words().join(" . "))
    }

    /// The same rule as nft lists it.
    pub fn dispatch_form(&self) -> Vec<Value> {
        let Shape { family, protocol, .. } = self.shape;
        let has_kind = |prefix: &str| self.shape.keys().any(|(_, key)| key.kind.starts_with(prefix));
        let mut all = Vec::new();
        if family != 0 && !has_kind("ipv") {
            all.push(super::translate::nfproto_form(family));
        }
        if let Some(protocol) = protocol.filter(|_| !has_kind("inet_service")) {
            all.push(super::translate::l4proto_form(protocol));
        }
        let left = |words: String| match words.split_once(' ') {
            None => json!({"meta": {"key": words}}),
            Some((protocol, field)) => json!({"payload": {"protocol": protocol, "field": field}}),
        };
        let mut keys: Vec<Value> = self.shape.words().into_iter().map(left).collect();
        let key = if keys.len() == 1 { keys.remove(0) } else { json!({ "concat": keys }) };
        all.push(json!({"vmap": {"key": key, "data": format!("@{self}")}}));
        all
    }
}

impl fmt::Display for MapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}_{}_{:06x}", self.table, self.priority, self.shape.code())
    }
}
