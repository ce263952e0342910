//! Encodes and decodes LLDP frames (IEEE 802.1AB). Pure; no input panics.
//!
//! ```text
//!   frame = group (6) · source (6) · 0x88cc · LLDPDU          TLV = type (7 bits) · length (9 bits) · value
//!   LLDPDU = chassis id · port id · time to live · any others · end
//! ```
//!
//! As the standard says, a frame is invalid if its first three TLVs are not these, or if it breaks off. Any
//! other invalid TLV is skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muster_shared::mac;
use muster_shared::model::NeighbourFacts;
use muster_shared::model::topology::Beacon;
use thiserror::Error;

pub const ETHERTYPE: u16 = 0x88cc;
/// The destination addresses: the nearest bridge, the nearest non-repeater, the nearest customer bridge.
pub const GROUPS: [[u8; 6]; 3] = [
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e],
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x03],
    [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00],
];

/// Bytes of a text or an id, by the standard.
const TEXT_MAX: usize = 255;
/// The most management addresses that are kept.
const MANAGEMENT_MAX: usize = 4;

const END: u8 = 0;
const CHASSIS_ID: u8 = 1;
const PORT_ID: u8 = 2;
const TIME_TO_LIVE: u8 = 3;
const PORT_DESCRIPTION: u8 = 4;
const SYSTEM_NAME: u8 = 5;
const SYSTEM_DESCRIPTION: u8 = 6;
const MANAGEMENT_ADDRESS: u8 = 8;
const ORGANIZATION: u8 = 127;
/// IEEE 802.1, port VLAN id.
const PORT_VLAN: [u8; 4] = [0x00, 0x80, 0xc2, 1];
/// Muster's own number. Numbers whose first octet is `x2` are assigned to no organization (IEEE 802c).
const BEACON: [u8; 4] = [0x02, 0x4d, 0x55, 1];
/// IANA's address families.
const IPV4: u8 = 1;
const IPV6: u8 = 2;

/// A neighbour's description of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    pub chassis: Id,
    pub port: Id,
    /// Seconds for which the frame is valid; 0 ends its validity at once.
    pub ttl: u16,
    /// A text for people.
    pub port_description: Option<String>,
    /// The name that the administrator gave.
    pub system_name: Option<String>,
    /// Maker, version and so on.
    pub system_description: Option<String>,
    /// The port's own.
    pub vlan: Option<u16>,
    /// Management addresses, at most four.
    pub management: Vec<IpAddr>,
    /// The beacon of a port of Muster; sent only to the nearest bridge's group, which no bridge forwards.
    pub beacon: Option<Beacon>,
}

/// Names a chassis or a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The type of the octets; see [`Id::MAC_OF_CHASSIS`] and so on.
    pub subtype: u8,
    /// From 1 to 255 octets.
    pub octets: Vec<u8>,
}

/// The reason why bytes are no frame of LLDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no frame of LLDP: {0}")]
pub struct FrameError(&'static str);

type Result<T> = std::result::Result<T, FrameError>;

impl Frame {
    /// Reads an Ethernet frame. Bytes after the end of the LLDPDU are padding.
    ///
    /// # Errors
    /// The frame is not LLDP, or breaks its rules.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let (header, mut rest) = bytes.split_first_chunk::<14>().ok_or(FrameError("too short"))?;
        if header[12..] != ETHERTYPE.to_be_bytes() {
            return Err(FrameError("another type"));
        }
        let mut first = |wanted| match next(&mut rest)? {
            Some((found, value)) if found == wanted => Ok(value),
            _ => Err(FrameError("the first three are not in their order")),
        };
        let mut frame = Self {
            chassis: Id::read(first(CHASSIS_ID)?)?,
            port: Id::read(first(PORT_ID)?)?,
            ttl: match first(TIME_TO_LIVE)? {
                [high, low, ..] => u16::from_be_bytes([*high, *low]),
                _ => return Err(FrameError("no time to live")),
            },
            port_description: None,
            system_name: None,
            system_description: None,
            vlan: None,
            management: Vec::new(),
            beacon: None,
        };
        while let Some((kind, value)) = next(&mut rest)? {
            frame.take(kind, value)?;
        }
        frame.beacon = frame.beacon.filter(|_| header.starts_with(&GROUPS[0]));
        Ok(frame)
    }

    fn take(&mut self, kind: u8, value: &[u8]) -> Result<()> {
        match kind {
            CHASSIS_ID | PORT_ID | TIME_TO_LIVE => {
                return Err(FrameError("one of the first three comes twice"));
            }
            PORT_DESCRIPTION => self.port_description = text(value),
            SYSTEM_NAME => self.system_name = text(value),
            SYSTEM_DESCRIPTION => self.system_description = text(value),
            MANAGEMENT_ADDRESS if self.management.len() < MANAGEMENT_MAX => {
                // The length, then family and address; the remainder describes the interface.
                let address = value.split_first().and_then(|(length, rest)| rest.get(..usize::from(*length)));
                self.management.extend(address.and_then(network_address));
            }
            ORGANIZATION => {
                if let Some([high, low]) = value.strip_prefix(&PORT_VLAN) {
                    self.vlan = Some(u16::from_be_bytes([*high, *low])).filter(|vlan| *vlan != 0);
                } else if let Some(octets) = value.strip_prefix(&BEACON) {
                    self.beacon = octets.try_into().ok().map(Beacon).or(self.beacon);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Encodes the frame, from the port with this MAC address to the nearest bridge. Decoding it gives the
    /// same frame.
    pub fn write(&self, source: [u8; 6]) -> Vec<u8> {
        let mut out = [&GROUPS[0][..], &source, &ETHERTYPE.to_be_bytes()].concat();
        let mut put = |kind: u8, value: &[u8]| {
            // A frame's parts are shorter than 2^9 bytes.
            let value = &value[..value.len().min(0x1ff)];
            out.extend_from_slice(&(u16::from(kind) << 9 | value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
        };
        put(CHASSIS_ID, &self.chassis.value());
        put(PORT_ID, &self.port.value());
        put(TIME_TO_LIVE, &self.ttl.to_be_bytes());
        let texts = [
            (PORT_DESCRIPTION, &self.port_description),
            (SYSTEM_NAME, &self.system_name),
            (SYSTEM_DESCRIPTION, &self.system_description),
        ];
        for (kind, text) in texts {
            text.iter().for_each(|text| put(kind, text.as_bytes()));
        }
        for address in &self.management {
            let (family, octets) = match address {
                IpAddr::V4(address) => (IPV4, address.octets().to_vec()),
                IpAddr::V6(address) => (IPV6, address.octets().to_vec()),
            };
            // Interface number and object identifier are left empty.
            let value = [&[1 + octets.len() as u8, family], &*octets, &[1, 0, 0, 0, 0, 0]].concat();
            put(MANAGEMENT_ADDRESS, &value);
        }
        if let Some(vlan) = self.vlan {
            put(ORGANIZATION, &[&PORT_VLAN[..], &vlan.to_be_bytes()].concat());
        }
        if let Some(Beacon(octets)) = &self.beacon {
            put(ORGANIZATION, &[&BEACON[..], octets].concat());
        }
        put(END, &[]);
        out
    }
}

impl Id {
    /// [`Id::subtype`] of a chassis that its owner names.
    pub const LOCAL_OF_CHASSIS: u8 = 7;
    /// [`Id::subtype`] of a chassis that is a MAC address.
    pub const MAC_OF_CHASSIS: u8 = 4;
    /// [`Id::subtype`] of a chassis that is an address of a family.
    pub const ADDRESS_OF_CHASSIS: u8 = 5;
    /// [`Id::subtype`] of a port that is a MAC address.
    pub const MAC_OF_PORT: u8 = 3;
    /// [`Id::subtype`] of a port that is an address of a family.
    pub const ADDRESS_OF_PORT: u8 = 4;
    /// [`Id::subtype`] of a port that is an interface's name.
    pub const NAME_OF_PORT: u8 = 5;

    fn read(value: &[u8]) -> Result<Self> {
        match value {
            [subtype, octets @ ..] if !octets.is_empty() && octets.len() <= TEXT_MAX => {
                Ok(Self { subtype: *subtype, octets: octets.to_vec() })
            }
            _ => Err(FrameError("an id of no length, or too long")),
        }
    }

    fn value(&self) -> Vec<u8> {
        [&[self.subtype], &*self.octets].concat()
    }

    fn told(&self, mac: u8, address: u8) -> String {
        let is_plain = |text: &&str| !text.chars().any(char::is_control);
        if self.subtype == address
            && let Some(address) = network_address(&self.octets)
        {
            return address.to_string();
        }
        match std::str::from_utf8(&self.octets).ok().filter(is_plain) {
            Some(text) if self.subtype != mac && self.subtype != address => text.to_owned(),
            _ => mac::text(&self.octets),
        }
    }
}

impl From<&Frame> for NeighbourFacts {
    fn from(frame: &Frame) -> Self {
        Self {
            chassis_id: frame.chassis.told(Id::MAC_OF_CHASSIS, Id::ADDRESS_OF_CHASSIS),
            port_id: frame.port.told(Id::MAC_OF_PORT, Id::ADDRESS_OF_PORT),
            port_description: frame.port_description.clone(),
            system_name: frame.system_name.clone(),
            system_description: frame.system_description.clone(),
            vlan: frame.vlan,
            management: frame.management.clone(),
        }
    }
}

/// The next TLV; `None` at the end TLV or the end of the bytes.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>> {
    let Some((head, behind)) = rest.split_first_chunk::<2>() else {
        return if rest.is_empty() { Ok(None) } else { Err(FrameError("it breaks off")) };
    };
    let head = u16::from_be_bytes(*head);
    let (kind, length) = ((head >> 9) as u8, usize::from(head & 0x1ff));
    if kind == END {
        return Ok(None);
    }
    let (value, behind) = behind.split_at_checked(length).ok_or(FrameError("it breaks off"))?;
    *rest = behind;
    Ok(Some((kind, value)))
}

fn network_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes {
        [IPV4, octets @ ..] => <[u8; 4]>::try_from(octets).ok().map(|octets| Ipv4Addr::from(octets).into()),
        [IPV6, octets @ ..] => <[u8; 16]>::try_from(octets).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// Sanitises a text: anybody may have written it, and terminals show it.
fn text(value: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(value);
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = plain.trim();
    let plain = plain[..plain.floor_char_boundary(TEXT_MAX)].trim_end();
    (!plain.is_empty()).then(|| plain.to_owned())
}
