//! Fields of packets in OpenFlow's extensible match, including Open vSwitch's own.

use muster_shared::model::flow::Field;

use super::wire::{Put, Take};

const NXM_OF: u16 = 0x0000;
const NXM_NX: u16 = 0x0001;
const OXM: u16 = 0x8000;
const EXPERIMENTER: u16 = 0xffff;
/// `ONF_EXPERIMENTER_ID`: TCP flags, until 1.5 made them a field like others.
const ONF: u32 = 0x4f4e_4600;
/// Beyond the seven bits that a number has: a field of another experimenter.
const OF_OTHERS: u8 = 0x80;
/// `OXM_OF_IN_PORT`
pub(super) const IN_PORT: Key = Key { class: OXM, number: 0 };
/// `NXM_NX_CT_MARK`
pub(super) const CT_MARK: Key = Key { class: NXM_NX, number: 107 };

/// The identifier of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub class: u16,
    pub number: u8,
}

const fn oxm(number: u8) -> Key {
    Key { class: OXM, number }
}

const fn nx(number: u8) -> Key {
    Key { class: NXM_NX, number }
}

const fn of(number: u8) -> Key {
    Key { class: NXM_OF, number }
}

/// In the order of [`Field::ALL`]: the key in matches and in `set_field`, and the key that Open vSwitch uses
/// when it loads some bits of the field.
const KEYS: [(Key, Key); Field::ALL.len()] = [
    (nx(0), nx(0)),
    (nx(1), nx(1)),
    (nx(2), nx(2)),
    (nx(3), nx(3)),
    (nx(4), nx(4)),
    (nx(5), nx(5)),
    (nx(6), nx(6)),
    (nx(7), nx(7)),
    (nx(8), nx(8)),
    (nx(9), nx(9)),
    (nx(10), nx(10)),
    (nx(11), nx(11)),
    (nx(12), nx(12)),
    (nx(13), nx(13)),
    (nx(14), nx(14)),
    (nx(15), nx(15)),
    (oxm(2), oxm(2)),                                  // metadata
    (oxm(38), nx(16)),                                 // tunnel_id
    (nx(105), nx(105)),                                // ct_state
    (nx(106), nx(106)),                                // ct_zone
    (CT_MARK, CT_MARK),                                // ct_mark
    (oxm(3), of(1)),                                   // eth_dst
    (oxm(4), of(2)),                                   // eth_src
    (oxm(5), of(3)),                                   // eth_type
    (oxm(6), oxm(6)),                                  // vlan_vid
    (oxm(7), oxm(7)),                                  // vlan_pcp
    (oxm(34), oxm(34)),                                // mpls_label
    (oxm(35), oxm(35)),                                // mpls_tc
    (oxm(36), oxm(36)),                                // mpls_bos
    (oxm(8), oxm(8)),                                  // ip_dscp
    (oxm(9), nx(28)),                                  // ip_ecn
    (oxm(10), of(6)),                                  // ip_proto
    (oxm(11), of(7)),                                  // ipv4_src
    (oxm(12), of(8)),                                  // ipv4_dst
    (oxm(26), nx(19)),                                 // ipv6_src
    (oxm(27), nx(20)),                                 // ipv6_dst
    (oxm(28), nx(27)),                                 // ipv6_flabel
    (oxm(13), of(9)),                                  // tcp_src
    (oxm(14), of(10)),                                 // tcp_dst
    (Key { class: EXPERIMENTER, number: 42 }, nx(34)), // tcp_flags
    (oxm(15), of(11)),                                 // udp_src
    (oxm(16), of(12)),                                 // udp_dst
    (oxm(17), oxm(17)),                                // sctp_src
    (oxm(18), oxm(18)),                                // sctp_dst
    (oxm(19), of(13)),                                 // icmpv4_type
    (oxm(20), of(14)),                                 // icmpv4_code
    (oxm(29), nx(21)),                                 // icmpv6_type
    (oxm(30), nx(22)),                                 // icmpv6_code
    (oxm(31), nx(23)),                                 // ipv6_nd_target
    (oxm(32), nx(24)),                                 // ipv6_nd_sll
    (oxm(33), nx(25)),                                 // ipv6_nd_tll
    (oxm(21), of(15)),                                 // arp_op
    (oxm(22), of(16)),                                 // arp_spa
    (oxm(23), of(17)),                                 // arp_tpa
    (oxm(24), nx(17)),                                 // arp_sha
    (oxm(25), nx(18)),                                 // arp_tha
];

impl Key {
    /// The header without its length and mask bit.
    fn bits(self) -> u32 {
        u32::from(self.class) << 16 | u32::from(self.number) << 9
    }
}

/// The key of a field in matches.
pub(super) fn key(field: Field) -> Key {
    KEYS[field as usize].0
}

/// The header under which some bits of a field are loaded.
pub(super) fn load_header(field: Field) -> u32 {
    let bytes = u32::try_from(bytes(field)).unwrap_or(0);
    KEYS[field as usize].1.bits() | bytes
}

/// The field of a key, of a match or of a load.
pub(super) fn field(key: Key) -> Option<Field> {
    let index = KEYS.iter().position(|(matched, loaded)| *matched == key || *loaded == key)?;
    Field::ALL.get(index).copied()
}

/// The field that such a header loads bits of.
pub(super) fn loaded_field(header: u32) -> Option<Field> {
    Field::ALL.iter().copied().find(|field| load_header(*field) == header)
}

/// Bytes of a value.
pub(super) fn bytes(field: Field) -> usize {
    match field {
        // Two of Open vSwitch's own fields are wider than their content.
        Field::Ipv6Flabel | Field::MplsLabel => 4,
        _ => field.bits().div_ceil(8) as usize,
    }
}

/// Writes a field with its value.
pub(super) fn put(out: &mut Vec<u8>, field: Field, value: u128, mask: Option<u128>) {
    put_key(out, key(field), bytes(field), value, mask);
}

/// Writes a key with a value of so many bytes.
pub(super) fn put_key(out: &mut Vec<u8>, key: Key, bytes: usize, value: u128, mask: Option<u128>) {
    let is_experimenter = key.class == EXPERIMENTER;
    let length = bytes * if mask.is_some() { 2 } else { 1 } + if is_experimenter { 4 } else { 0 };
    out.u32(key.bits() | u32::from(mask.is_some()) << 8 | u32::try_from(length).unwrap_or(0));
    if is_experimenter {
        out.u32(ONF);
    }
    for number in [Some(value), mask].into_iter().flatten() {
        out.extend_from_slice(&number.to_be_bytes()[16 - bytes..]);
    }
}

/// A criterion, as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub key: Key,
    pub value: &'a [u8],
    /// `None` if the mask is full.
    pub mask: Option<&'a [u8]>,
}

impl Item<'_> {
    /// The value; of a longer one the end.
    pub fn value(&self) -> u128 {
        number(self.value)
    }

    pub fn mask(&self) -> Option<u128> {
        self.mask.map(number)
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The next criterion; `None` at the end, and for malformed bytes. Rules of others may have unknown fields of
/// any length: these get a key that none of ours has.
pub(super) fn take<'a>(from: &mut Take<'a>) -> Option<Item<'a>> {
    let header = from.u32()?;
    let (class, number) = ((header >> 16) as u16, (header >> 9 & 0x7f) as u8);
    let is_masked = header & 0x100 != 0;
    let mut body = Take(from.bytes((header & 0xff) as usize)?);
    if class == EXPERIMENTER {
        let whole = body.0;
        if body.u32()? != ONF {
            // The value includes the vendor's number and the mask.
            let key = Key { class, number: number | OF_OTHERS };
            return Some(Item { key, value: whole, mask: is_masked.then_some(&[]) });
        }
    }
    let (key, body) = (Key { class, number }, body.0);
    let field = field(key);
    let value_max = if field.is_some() || key == IN_PORT { 16 } else { body.len() };
    if !is_masked {
        return (body.len() <= value_max).then_some(Item { key, value: body, mask: None });
    }
    let (value, mask) = body.split_at(body.len() / 2);
    let is_whole = match field {
        Some(field) => self::number(mask) & field.all_bits() == field.all_bits(),
        None => mask.iter().all(|byte| *byte == 0xff),
    };
    let is_well = body.len() % 2 == 0 && value.len() <= value_max;
    is_well.then_some(Item { key, value, mask: if is_whole { None } else { Some(mask) } })
}
