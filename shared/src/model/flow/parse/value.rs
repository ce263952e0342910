//! Numbers, addresses, flags and ports, with their masks.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use serde_json::Value;

use super::near::cut;
use super::object::unwanted;
use super::{BadEntry, Read};
use crate::mac;
use crate::model::flow::print::{CT_STATES, TCP_FLAGS, VLAN_PRESENT, value_text};
use crate::model::flow::{Field, FieldKind, Output, Port};
use crate::near::suggestion;

type Masked = (u128, Option<u128>);

/// A port's name may be longer than the kernel's limit: the switch has ports of its own, such as tunnels.
const PORT_NAME_MAX: usize = 64;
const PORT_NUMBERS: &str =
    "ports are named by their interface, such as eth1: numbers change when a port is made again";
const OUTPUTS: [(&str, Output); 5] = [
    ("IN_PORT", Output::InPort),
    ("NORMAL", Output::Normal),
    ("ALL", Output::All),
    ("FLOOD", Output::Flood),
    ("CONTROLLER", Output::Controller),
];
/// Names for numbers that everyone knows by name.
const NAMES: [(Field, &str, u128); 13] = [
    (Field::EthType, "ipv4", 0x0800),
    (Field::EthType, "ipv6", 0x86dd),
    (Field::EthType, "arp", 0x0806),
    (Field::EthType, "mpls", 0x8847),
    (Field::EthType, "lldp", 0x88cc),
    (Field::IpProto, "icmp", 1),
    (Field::IpProto, "tcp", 6),
    (Field::IpProto, "udp", 17),
    (Field::IpProto, "gre", 47),
    (Field::IpProto, "icmpv6", 58),
    (Field::IpProto, "sctp", 132),
    (Field::ArpOp, "request", 1),
    (Field::ArpOp, "reply", 2),
];

/// A whole number within bounds, also as text.
pub(super) fn number<T: TryFrom<u64>>(value: &Value, bounds: RangeInclusive<u64>) -> Read<T> {
    let found = value.as_u64().or_else(|| u64::try_from(digits(value.as_str()?)?).ok());
    let wanted = || unwanted(&format!("a whole number from {} to {}", bounds.start(), bounds.end()), value);
    found.filter(|n| bounds.contains(n)).and_then(|n| T::try_from(n).ok()).ok_or_else(wanted)
}

pub(super) fn port(value: &Value) -> Read<Port> {
    match output(value)? {
        Output::Port(port) => Ok(port),
        Output::InPort | Output::Normal | Output::All | Output::Flood | Output::Controller => {
            Err(unwanted("one port: the name of an interface, or LOCAL for the bridge's own", value))
        }
    }
}

pub(super) fn output(value: &Value) -> Read<Output> {
    if value.is_number() {
        return Err(BadEntry::new(PORT_NUMBERS));
    }
    let Value::String(name) = value else { return Err(unwanted("the name of an interface", value)) };
    if name == "LOCAL" {
        return Ok(Output::Port(Port::Local));
    }
    if let Some((_, output)) = OUTPUTS.iter().find(|(word, _)| word == name) {
        return Ok(output.clone());
    }
    let is_like = |word: &&str| word.eq_ignore_ascii_case(name);
    if let Some(word) = OUTPUTS.iter().map(|(word, _)| *word).chain(["LOCAL"]).find(is_like) {
        return Err(BadEntry::new(format!("'{name}' is written {word}")));
    }
    match name.to_ascii_uppercase().as_str() {
        "TABLE" => Err(BadEntry::new(
            "TABLE is for packets that a controller sends; to go on in a table use goto_table or resubmit",
        )),
        "DROP" => Err(BadEntry::new("to drop packets leave the treatment empty: treatment: []")),
        _ if (1..=PORT_NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(Output::Port(Port::Named(name.as_str().into())))
        }
        _ => Err(unwanted("the name of an interface", value)),
    }
}

/// A field's value and mask, in canonical form.
pub(super) fn of_field(field: Field, value: &Value) -> Read<Masked> {
    let masked = match field.kind() {
        FieldKind::Number => plain(field, value)?,
        FieldKind::Mac => {
            split(value, "a MAC address such as 52:54:00:12:34:56", mac::parse_field, mac::parse_field)?
        }
        FieldKind::Ipv4 => split(value, "an IPv4 address such as 10.0.0.1 or 10.0.0.0/24", ipv4, ipv4_mask)?,
        FieldKind::Ipv6 => split(value, "an IPv6 address such as fd00::1 or fd00::/64", ipv6, ipv6_mask)?,
        FieldKind::Vlan => vlan(value)?,
        FieldKind::CtState => flags(&CT_STATES, field, value)?,
        FieldKind::TcpFlags => flags(&TCP_FLAGS, field, value)?,
    };
    canonical(field, masked)
}

/// A number of so many bits with its mask, in canonical form.
pub(super) fn masked_number(bits: u32, value: &Value) -> Read<Masked> {
    let field = if bits == 32 { Field::CtMark } else { Field::Metadata };
    of_field(field, value)
}

fn canonical(field: Field, (value, mask): Masked) -> Read<Masked> {
    let all = field.all_bits();
    if value & !all != 0 || mask.is_some_and(|mask| mask & !all != 0) {
        let most = if field.kind() == FieldKind::Vlan { 4095 } else { all };
        let near = if all < 1 << 32 { format!("0 to {most}") } else { format!("0 to {most:#x}") };
        return Err(BadEntry::new(format!("{} has {} bits: want {near}", field.name(), field.bits())));
    }
    match mask {
        Some(0) => Err(BadEntry::new("a mask without a bit matches everything: leave the field out")),
        Some(mask) if value & !mask != 0 => {
            let meant = value_text(field, value & mask, Some(mask).filter(|mask| *mask != all));
            Err(BadEntry::new(format!("the value has bits outside its mask; did you mean '{meant}'?")))
        }
        Some(mask) if mask == all => Ok((value, None)),
        mask => Ok((value, mask)),
    }
}

fn plain(field: Field, value: &Value) -> Read<Masked> {
    let wanted = || unwanted("a whole number, decimal or 0x…", value);
    match value {
        Value::Number(number) => Ok((number.as_u64().ok_or_else(wanted)?.into(), None)),
        Value::String(text) => {
            let mut named = NAMES.iter().filter(|(of, ..)| *of == field);
            if let Some((_, _, number)) = named.clone().find(|(_, name, _)| name == text) {
                return Ok((*number, None));
            }
            let (number, mask) = halves(text);
            let mask = mask.map(|mask| digits(mask).ok_or_else(wanted)).transpose()?;
            match digits(number) {
                Some(number) => Ok((number, mask)),
                None if named.next().is_some() => {
                    let names = NAMES.iter().filter(|(of, ..)| *of == field).map(|(_, name, _)| *name);
                    let known = names.clone().collect::<Vec<_>>().join(", ");
                    let near = suggestion(text, names);
                    let got = cut(text);
                    Err(BadEntry::new(format!("want a number or one of {known}, got '{got}'{near}")))
                }
                None => Err(wanted()),
            }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wanted()),
    }
}

fn split(
    value: &Value,
    wanted: &str,
    read: fn(&str) -> Option<u128>,
    read_mask: fn(&str) -> Option<u128>,
) -> Read<Masked> {
    let bad = || unwanted(wanted, value);
    let (value, mask) = halves(value.as_str().ok_or_else(bad)?);
    let mask = mask.map(|mask| read_mask(mask).ok_or_else(bad)).transpose()?;
    Ok((read(value).ok_or_else(bad)?, mask))
}

fn vlan(value: &Value) -> Read<Masked> {
    let wanted = || unwanted("a VLAN from 0 to 4095, none (no tag), any (some tag) or 0xVALUE/0xMASK", value);
    match value.as_str() {
        Some("none") => Ok((0, None)),
        Some("any") => Ok((VLAN_PRESENT, Some(VLAN_PRESENT))),
        Some(text) if text.contains('/') => {
            let (value, mask) = halves(text);
            let (value, mask) =
                (digits(value).ok_or_else(wanted)?, mask.and_then(digits).ok_or_else(wanted)?);
            match value & VLAN_PRESENT == 0 && mask & VLAN_PRESENT != 0 && value != 0 {
                true => {
                    Err(BadEntry::new("a frame without a tag has no VLAN: set the bit 0x1000 in the value"))
                }
                false => Ok((value, Some(mask))),
            }
        }
        Some(_) | None => number::<u16>(value, 0..=4095)
            .map(|vid| (u128::from(vid) | VLAN_PRESENT, None))
            .map_err(|_| wanted()),
    }
}

/// Parses `+trk-new`, or a number with a mask. Every flag needs a sign: without one its meaning is unclear.
fn flags(names: &[&str], field: Field, value: &Value) -> Read<Masked> {
    let wanted = || unwanted(&format!("flags with + or -, such as +{}-{}", names[4], names[1]), value);
    let known = (1 << names.len()) - 1;
    match value {
        Value::String(text) if text.starts_with(['+', '-']) => {
            let (mut bits, mut mask) = (0u128, 0u128);
            for (at, _) in text.match_indices(['+', '-']) {
                let name = text[at + 1..].split(['+', '-']).next().unwrap_or_default();
                let bit = names.iter().position(|known| *known == name).ok_or_else(|| {
                    let known = names.join(", ");
                    BadEntry::new(format!("there is no flag '{}'; known are {known}", cut(name)))
                })?;
                if mask >> bit & 1 == 1 {
                    return Err(BadEntry::new(format!("the flag '{name}' is given twice")));
                }
                mask |= 1 << bit;
                bits |= u128::from(text.as_bytes()[at] == b'+') << bit;
            }
            Ok((bits, Some(mask)))
        }
        Value::String(text) => {
            let (value, mask) = halves(text);
            let mask = mask.map(|mask| digits(mask).ok_or_else(wanted)).transpose()?;
            of_flags(field, digits(value).ok_or_else(wanted)?, mask, known)
        }
        Value::Number(number) => of_flags(field, number.as_u64().ok_or_else(wanted)?.into(), None, known),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wanted()),
    }
}

/// Open vSwitch knows no other bits of `ct_state`, and refuses a match on them.
fn of_flags(field: Field, value: u128, mask: Option<u128>, known: u128) -> Read<Masked> {
    match (field.kind(), mask) {
        (FieldKind::CtState, None) => {
            Err(BadEntry::new("give the flags that count, such as +trk+new, or a mask: 0x21/0x21"))
        }
        (FieldKind::CtState, Some(mask)) if mask & !known != 0 => Err(BadEntry::new(format!(
            "the mask {mask:#x} has bits that no switch knows: {known:#x} are all"
        ))),
        _ => Ok((value, mask)),
    }
}

fn halves(text: &str) -> (&str, Option<&str>) {
    text.split_once('/').map_or((text, None), |(value, mask)| (value, Some(mask)))
}

/// Decimal or 0x…; a leading zero is refused, for some read it as octal.
fn digits(text: &str) -> Option<u128> {
    if let Some(hex) = text.strip_prefix("0x") {
        let is_hex = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
        return is_hex.then(|| u128::from_str_radix(hex, 16).ok()).flatten();
    }
    let is_decimal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    (is_decimal && !has_leading_zero).then(|| text.parse().ok()).flatten()
}

fn ipv4(text: &str) -> Option<u128> {
    text.parse::<Ipv4Addr>().ok().map(|address| address.to_bits().into())
}

fn ipv6(text: &str) -> Option<u128> {
    text.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits)
}

fn ipv4_mask(text: &str) -> Option<u128> {
    ipv4(text).or_else(|| prefix(text, 32))
}

fn ipv6_mask(text: &str) -> Option<u128> {
    ipv6(text).or_else(|| prefix(text, 128))
}

fn prefix(text: &str, bits: u32) -> Option<u128> {
    let length = digits(text).and_then(|length| u32::try_from(length).ok()).filter(|it| *it <= bits)?;
    let all = u128::MAX >> (128 - bits);
    Some(all & !all.checked_shr(length).unwrap_or(0))
}
