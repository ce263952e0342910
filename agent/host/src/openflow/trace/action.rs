//! One line of an action in the text of `ofproto/trace`, and how the packet changes with it.
//!
//! Muster's own rules have few kinds of actions. Those of others may have any: what is not known here is
//! [`Effect::Unclear`].

use std::net::{Ipv4Addr, Ipv6Addr};

use muster_shared::mac;
use muster_shared::model::flow::{Field, FieldKind, Packet};

use super::question::name;

/// The bit in a VLAN field that means "there is a tag".
const TAGGED: u128 = 0x1000;
const TCP: u128 = 6;
const UDP: u128 = 17;

/// Words that change nothing of a packet on a cable. A line that begins with one is done with.
const HARMLESS: [&str; 20] = [
    "drop",
    "resubmit(",
    "goto_table:",
    "write_metadata:",
    "write_actions(",
    "clear_actions",
    "group:",
    "meter:",
    "set_queue:",
    "pop_queue",
    "dec_ttl",
    "set_tunnel",
    "ct_clear",
    "thaw",
    "Resuming from",
    "note:",
    "learn(",
    "conjunction(",
    "fin_timeout(",
    "exit",
];

/// The effect of a line besides changes of the packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing else.
    None,
    /// A bucket of a group begins.
    Bucket,
    /// A copy leaves by this port.
    Output(String),
    /// A copy leaves by the bridge's own port.
    Local,
    /// A copy leaves where the packet came in.
    Back,
    /// The switch chooses the ports.
    Chosen,
    /// A copy goes to an OpenFlow controller.
    Controller,
    /// The packet may have changed in a way that is not known.
    Unclear,
}

/// The effect of a line.
pub fn of(text: &str, packet: &mut Packet) -> Effect {
    let word = |known: &&str| text.starts_with(*known);
    match text {
        "LOCAL" => Effect::Local,
        "IN_PORT" => Effect::Back,
        "NORMAL" | "FLOOD" | "ALL" => Effect::Chosen,
        "pop_vlan" | "strip_vlan" => {
            packet.pop_vlan();
            Effect::None
        }
        _ if text.starts_with("CONTROLLER") || text.starts_with("controller(") => Effect::Controller,
        _ if text.starts_with("bucket ") => Effect::Bucket,
        _ if text.starts_with("push_vlan:") => {
            packet.push_vlan();
            Effect::None
        }
        // Addresses change with a connection that is not known here.
        _ if text.starts_with("ct(") && !text.contains("nat") => Effect::None,
        _ if HARMLESS.iter().any(word) => Effect::None,
        _ => match text.split_once(':') {
            Some(("output", port)) => output(port),
            Some((action, rest)) if change(action, rest, packet).is_some() => Effect::None,
            Some(_) | None => Effect::Unclear,
        },
    }
}

fn output(port: &str) -> Effect {
    match port.strip_prefix('"') {
        Some(quoted) => serde_json::from_str(&format!("\"{quoted}")).map_or(Effect::Unclear, Effect::Output),
        // A port that a register names.
        None if port.contains('[') => Effect::Unclear,
        None => Effect::Output(port.to_owned()),
    }
}

/// Changes the packet. Returns `None` if it is not known how.
fn change(action: &str, rest: &str, packet: &mut Packet) -> Option<()> {
    match action {
        "set_field" => {
            let (value, field) = rest.rsplit_once("->")?;
            if field.starts_with("tun_") {
                return Some(()); // of a tunnel, not of the packet in it
            }
            let field = Field::ALL.iter().copied().find(|it| name(*it) == field)?;
            let (value, mask) = match value.split_once('/') {
                Some((value, mask)) => (value, Some(number(field, mask)?)),
                None => (value, None),
            };
            packet.set(field, number(field, value)?, mask);
        }
        "load" => {
            let (value, bits) = rest.rsplit_once("->")?;
            let (field, bits) = bits.strip_suffix(']')?.split_once('[')?;
            if is_of_the_switch(field) {
                return Some(());
            }
            let field = nxm(field)?;
            let (from, to) = match bits.split_once("..") {
                Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
                None if bits.is_empty() => (0, field.bits() - 1),
                None => (bits.parse().ok()?, bits.parse().ok()?),
            };
            if from > to || to >= field.bits() {
                return None;
            }
            let mask = u128::MAX >> (127 - (to - from)) << from;
            packet.set(field, plain(value)?.checked_shl(from)?, Some(mask));
        }
        "move" => {
            let (_, to) = rest.rsplit_once("->")?;
            return is_of_the_switch(to).then_some(());
        }
        "mod_dl_src" => packet.set(Field::EthSrc, number(Field::EthSrc, rest)?, None),
        "mod_dl_dst" => packet.set(Field::EthDst, number(Field::EthDst, rest)?, None),
        "mod_nw_src" => packet.set(Field::Ipv4Src, number(Field::Ipv4Src, rest)?, None),
        "mod_nw_dst" => packet.set(Field::Ipv4Dst, number(Field::Ipv4Dst, rest)?, None),
        "mod_nw_tos" => packet.set(Field::IpDscp, plain(rest)? >> 2, None),
        "mod_nw_ecn" => packet.set(Field::IpEcn, plain(rest)?, None),
        "mod_vlan_vid" => packet.set(Field::VlanVid, TAGGED | plain(rest)?, None),
        "mod_vlan_pcp" => {
            packet.set(Field::VlanVid, TAGGED, Some(TAGGED));
            packet.set(Field::VlanPcp, plain(rest)?, None);
        }
        "mod_tp_src" => packet.set(of_protocol(packet, Field::TcpSrc, Field::UdpSrc)?, plain(rest)?, None),
        "mod_tp_dst" => packet.set(of_protocol(packet, Field::TcpDst, Field::UdpDst)?, plain(rest)?, None),
        _ => return None,
    }
    Some(())
}

fn of_protocol(packet: &Packet, tcp: Field, udp: Field) -> Option<Field> {
    match packet.get(Field::IpProto) {
        TCP => Some(tcp),
        UDP => Some(udp),
        _ => None,
    }
}

/// A field of the switch's own, which a packet does not carry on a cable.
fn is_of_the_switch(field: &str) -> bool {
    let own =
        ["NXM_NX_REG", "NXM_NX_XREG", "NXM_NX_XXREG", "OXM_OF_PKT_REG", "OXM_OF_METADATA", "NXM_NX_TUN_"];
    own.iter().any(|word| field.starts_with(word))
}

/// The field under its name in a `load`, which stands for a `set_field` with a mask.
fn nxm(name: &str) -> Option<Field> {
    Some(match name {
        "NXM_OF_ETH_SRC" => Field::EthSrc,
        "NXM_OF_ETH_DST" => Field::EthDst,
        "NXM_OF_IP_SRC" => Field::Ipv4Src,
        "NXM_OF_IP_DST" => Field::Ipv4Dst,
        "NXM_OF_TCP_SRC" => Field::TcpSrc,
        "NXM_OF_TCP_DST" => Field::TcpDst,
        "NXM_OF_UDP_SRC" => Field::UdpSrc,
        "NXM_OF_UDP_DST" => Field::UdpDst,
        "NXM_OF_ARP_OP" => Field::ArpOp,
        "NXM_OF_ARP_SPA" => Field::ArpSpa,
        "NXM_OF_ARP_TPA" => Field::ArpTpa,
        "NXM_NX_ARP_SHA" => Field::ArpSha,
        "NXM_NX_ARP_THA" => Field::ArpTha,
        _ => return None,
    })
}

fn number(field: Field, text: &str) -> Option<u128> {
    match field.kind() {
        FieldKind::Mac => mac::parse_field(text),
        FieldKind::Ipv4 => Some(text.parse::<Ipv4Addr>().ok()?.to_bits().into()),
        FieldKind::Ipv6 => Some(text.parse::<Ipv6Addr>().ok()?.to_bits()),
        FieldKind::Number | FieldKind::Vlan | FieldKind::CtState | FieldKind::TcpFlags => plain(text),
    }
}

fn plain(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
