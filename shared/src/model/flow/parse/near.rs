//! Fields that are not known, and texts as messages show them.

use std::borrow::Cow;

use super::BadEntry;
use crate::model::flow::Field;
use crate::near::suggestion;

/// Names from `ovs-ofctl`, which its users may write, and ours.
const OF_OVS_OFCTL: [(&str, &str); 16] = [
    ("dl_dst", "eth_dst"),
    ("dl_src", "eth_src"),
    ("dl_type", "eth_type"),
    ("dl_vlan", "vlan_vid"),
    ("dl_vlan_pcp", "vlan_pcp"),
    ("icmp_code", "icmpv4_code"),
    ("icmp_type", "icmpv4_type"),
    ("nd_sll", "ipv6_nd_sll"),
    ("nd_target", "ipv6_nd_target"),
    ("nd_tll", "ipv6_nd_tll"),
    ("nw_dst", "ipv4_dst"),
    ("nw_proto", "ip_proto"),
    ("nw_src", "ipv4_src"),
    ("tp_dst", "tcp_dst"),
    ("tp_src", "tcp_src"),
    ("tun_id", "tunnel_id"),
];

pub(super) fn unknown_field(name: &str) -> BadEntry {
    let known = Field::ALL.iter().map(|field| field.name()).chain(["in_port"]);
    let near = match OF_OVS_OFCTL.iter().find(|(theirs, _)| *theirs == name) {
        Some((_, ours)) => format!("; did you mean '{ours}'?"),
        None => suggestion(name, known),
    };
    BadEntry::new(format!("there is no field '{}'{near}", cut(name)))
}

/// The first part of a text, for messages, with control characters escaped: it goes to a terminal.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 80;
    let shown = text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end]);
    match shown.contains(char::is_control) {
        true => Cow::Owned(shown.escape_debug().to_string()),
        false => Cow::Borrowed(shown),
    }
}
