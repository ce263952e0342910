//! The known name nearest to one that is not known.

use std::borrow::Cow;

use super::BadEntry;
use crate::model::flow::Field;

/// Bytes of a name that can be a misspelt one.
const NAME_MAX: usize = 40;

/// What `ovs-ofctl` calls things: whoever comes from there writes it.
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

/// `; did you mean 'X'?` with the nearest name, or nothing where none is near.
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if name.len() > NAME_MAX {
        return String::new();
    }
    let bound = (name.len() / 3).clamp(1, 4);
    let name = name.to_ascii_lowercase();
    let distances = known.into_iter().map(|it| (distance(&name, &it.to_ascii_lowercase()), it));
    let nearest = distances.filter(|(distance, _)| *distance <= bound).min();
    nearest.map_or_else(String::new, |(_, near)| format!("; did you mean '{near}'?"))
}

/// As [`suggestion`]; where no name is near, all of them.
pub(super) fn suggestion_or_all(name: &str, known: &[&str]) -> String {
    match suggestion(name, known.iter().copied()) {
        near if near.is_empty() => format!("; known are {}", known.join(", ")),
        near => near,
    }
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

/// Insertions, deletions, substitutions and exchanges of neighbours that make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let other = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + other);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
