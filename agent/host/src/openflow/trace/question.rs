//! The flow that `ofproto/trace` is asked about, as a text that the switch reads.

use std::fmt::Write as _;

use muster_shared::mac;
use muster_shared::model::flow::{Field, FieldKind, TraceQuestion};

use super::TraceError;

/// The hops that a packet may still make, where it has such a number: as much as systems begin with.
const TTL: u8 = 64;
const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;

/// The flow of a question.
///
/// # Errors
/// [`TraceError::PortName`]
pub fn text(question: &TraceQuestion) -> Result<String, TraceError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if question.in_port.is_empty() || !question.in_port.chars().all(plain) {
        return Err(TraceError::PortName(question.in_port.clone()));
    }
    let mut text = match &*question.in_port {
        "LOCAL" => "in_port=LOCAL".to_owned(),
        port => format!("in_port=\"{port}\""),
    };
    // The order of fields is that of their prerequisites.
    for (field, value) in question.packet.fields() {
        let _ = write!(text, ",{}={}", name(field), value_text(field, value));
    }
    if [IPV4, IPV6].contains(&question.packet.get(Field::EthType)) {
        let _ = write!(text, ",nw_ttl={TTL}");
    }
    Ok(text)
}

/// The field's name in Open vSwitch, where it is another one.
pub(super) fn name(field: Field) -> &'static str {
    match field {
        Field::TunnelId => "tun_id",
        Field::IpEcn => "nw_ecn",
        Field::Ipv4Src => "ip_src",
        Field::Ipv4Dst => "ip_dst",
        Field::Ipv6Flabel => "ipv6_label",
        Field::Icmpv4Type => "icmp_type",
        Field::Icmpv4Code => "icmp_code",
        Field::Ipv6NdTarget => "nd_target",
        Field::Ipv6NdSll => "nd_sll",
        Field::Ipv6NdTll => "nd_tll",
        other => other.name(),
    }
}

fn value_text(field: Field, value: u128) -> String {
    let octets = value.to_be_bytes();
    match field.kind() {
        FieldKind::Mac => mac::text_of_field(value),
        FieldKind::Ipv4 => octets[12..].iter().map(u8::to_string).collect::<Vec<_>>().join("."),
        FieldKind::Ipv6 => std::net::Ipv6Addr::from_bits(value).to_string(),
        FieldKind::CtState => format!("{value:#x}"),
        FieldKind::Number | FieldKind::Vlan | FieldKind::TcpFlags => format!("{value:#x}"),
    }
}
