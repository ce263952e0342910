//! The settings of ethtool(8), through generic netlink: features, rings, channels, coalescing, pause, speed.
//!
//! A setting has a name of Muster's, such as `rings/rx`, and a number. Settings that an interface does not
//! report are left out, and so are features that cannot be changed. Absent: which settings a document may name
//! (`shared/src/model/network/ethtool.rs`), and their values before.

mod asked;

use std::collections::BTreeMap;
use std::io::ErrorKind;

use rtnetlink::sys::protocols::NETLINK_GENERIC;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};

use super::netlink::{NetlinkError, REQUEST_TIMEOUT, extended_ack_in};

pub(super) use asked::{AUTONEG, Asked, DUPLEX, MODES, SPEED, is_asked, is_of_link, to_put_back};

type Result<T> = std::result::Result<T, NetlinkError>;
/// Settings by name.
pub type Settings = BTreeMap<String, u32>;

/// A group of settings: the messages that get and set it, and its attributes with their bytes.
struct Group {
    name: &'static str,
    get: u8,
    set: u8,
    attributes: &'static [(&'static str, u16, usize)],
}

const GROUPS: [Group; 5] = [
    Group {
        name: "link",
        get: LINK_GET,
        set: LINK_SET,
        attributes: &[("autoneg", 2, 1), ("speed", 5, 4), ("duplex", 6, 1)],
    },
    Group {
        name: "rings",
        get: 15,
        set: 16,
        attributes: &[("rx", 6, 4), ("rx-mini", 7, 4), ("rx-jumbo", 8, 4), ("tx", 9, 4)],
    },
    Group {
        name: "channels",
        get: 17,
        set: 18,
        attributes: &[("rx", 6, 4), ("tx", 7, 4), ("other", 8, 4), ("combined", 9, 4)],
    },
    Group {
        name: "coalesce",
        get: 19,
        set: 20,
        attributes: &[
            ("rx-usecs", 2, 4),
            ("rx-frames", 3, 4),
            ("rx-usecs-irq", 4, 4),
            ("rx-frames-irq", 5, 4),
            ("tx-usecs", 6, 4),
            ("tx-frames", 7, 4),
            ("tx-usecs-irq", 8, 4),
            ("tx-frames-irq", 9, 4),
            ("stats-block-usecs", 10, 4),
            ("adaptive-rx", 11, 1),
            ("adaptive-tx", 12, 1),
            ("pkt-rate-low", 13, 4),
            ("rx-usecs-low", 14, 4),
            ("rx-frames-low", 15, 4),
            ("tx-usecs-low", 16, 4),
            ("tx-frames-low", 17, 4),
            ("pkt-rate-high", 18, 4),
            ("rx-usecs-high", 19, 4),
            ("rx-frames-high", 20, 4),
            ("tx-usecs-high", 21, 4),
            ("tx-frames-high", 22, 4),
            ("sample-interval", 23, 4),
        ],
    },
    Group { name: "pause", get: 21, set: 22, attributes: &[("autoneg", 2, 1), ("rx", 3, 1), ("tx", 4, 1)] },
];
const LINK_GET: u8 = 4;
const LINK_SET: u8 = 5;
/// The advertised modes, among those that the interface has.
const LINK_OURS: u16 = 3;
const FEATURES: &str = "features";
const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
const FEATURES_HW: u16 = 2;
const FEATURES_WANTED: u16 = 3;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY` and its attributes.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NESTED: u16 = 0x8000;
/// The driver has no such setting, or the kernel is too old for it.
const ABSENT: [i32; 3] = [95, 22, 524];
/// Values of a link without carrier, which cannot be set.
const UNKNOWN: [(&str, u32); 2] = [("link/speed", u32::MAX), ("link/duplex", 0xff)];

/// The settings that the interface reports.
pub(super) async fn read(link: &str) -> Result<Settings> {
    let mut kernel = Kernel::open().await?;
    let mut settings = Settings::new();
    for group in &GROUPS {
        let Some(answer) = kernel.get(group.get, link).await? else { continue };
        for (name, attribute, _) in group.attributes {
            if let Some(value) = find(&answer, *attribute).and_then(number) {
                settings.insert(format!("{}/{name}", group.name), value);
            }
        }
        if group.get == LINK_GET {
            let modes = find(&answer, LINK_OURS).map(bits).unwrap_or_default().into_iter();
            let modes = modes.filter(|(name, _)| name.contains("base"));
            settings.extend(modes.map(|(name, on)| (format!("{MODES}{name}"), u32::from(on))));
        }
    }
    if let Some(answer) = kernel.get(FEATURES_GET, link).await? {
        let wanted = find(&answer, FEATURES_WANTED).map(set_bits).unwrap_or_default();
        for name in find(&answer, FEATURES_HW).map(set_bits).unwrap_or_default() {
            let value = u32::from(wanted.contains(&name));
            settings.insert(format!("{FEATURES}/{name}"), value);
        }
    }
    settings.retain(|name, value| !UNKNOWN.contains(&(name.as_str(), *value)));
    Ok(settings)
}

/// Sets settings of one group. Each group is one message, which takes effect as a whole.
pub(super) async fn set(link: &str, settings: &Settings) -> Result<()> {
    let mut kernel = Kernel::open().await?;
    let of = |name: &str| {
        let (group, name) = name.split_once('/')?;
        let group = GROUPS.iter().find(|known| known.name == group)?;
        let (_, attribute, bytes) = group.attributes.iter().find(|(known, ..)| *known == name)?;
        Some((group.set, *attribute, *bytes))
    };
    let mut messages: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let (mut features, mut modes) = (Vec::new(), Vec::new());
    for (name, value) in settings {
        if let Some((message, attribute, bytes)) = of(name) {
            let value = value.to_ne_bytes();
            let value = if cfg!(target_endian = "big") { &value[4 - bytes..] } else { &value[..bytes] };
            put(messages.entry(message).or_default(), attribute, value);
        } else if let Some(mode) = name.strip_prefix(MODES) {
            put_bit(&mut modes, mode, *value != 0);
        } else if let Some(feature) = name.strip_prefix(FEATURES).and_then(|rest| rest.strip_prefix('/')) {
            put_bit(&mut features, feature, *value != 0);
        }
    }
    for (bits, message, attribute) in
        [(features, FEATURES_SET, FEATURES_WANTED), (modes, LINK_SET, LINK_OURS)]
    {
        if !bits.is_empty() {
            let mut set = Vec::new();
            put(&mut set, NESTED | BITS, &bits);
            put(messages.entry(message).or_default(), NESTED | attribute, &set);
        }
    }
    for (message, attributes) in messages {
        kernel.ask(message, link, &attributes).await?;
    }
    Ok(())
}

/// Attributes of a set of bits.
const NO_MASK: u16 = 1;
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

fn put_bit(to: &mut Vec<u8>, name: &str, on: bool) {
    let mut bit = Vec::new();
    put(&mut bit, BIT_NAME, &[name.as_bytes(), &[0]].concat());
    if on {
        put(&mut bit, BIT_VALUE, &[]);
    }
    put(to, NESTED | BIT, &bit);
}

/// The names of the bits that are set.
fn set_bits(set: &[u8]) -> Vec<String> {
    bits(set).into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
}

/// The names of the bits that are spoken of, and whether they are set.
fn bits(set: &[u8]) -> Vec<(String, bool)> {
    let is_list = find(set, NO_MASK).is_some();
    let all = attributes(find(set, BITS).unwrap_or_default());
    let named = |bit: &[u8]| {
        let name = String::from_utf8_lossy(find(bit, BIT_NAME)?).trim_end_matches('\0').to_owned();
        Some((name, is_list || find(bit, BIT_VALUE).is_some()))
    };
    all.filter_map(|(_, bit)| named(bit)).collect()
}

struct Kernel {
    socket: TokioSocket,
    family: u16,
    sequence: u32,
}

impl Kernel {
    /// Opens a socket in this thread's namespace.
    async fn open() -> Result<Self> {
        let open = || {
            let mut socket = TokioSocket::new(NETLINK_GENERIC)?;
            socket.socket_ref().connect(&SocketAddr::new(0, 0))?;
            // Only improves the kernel's error texts.
            let _ = socket.socket_mut().set_cap_ack(true);
            let _ = socket.socket_mut().set_ext_ack(true);
            Ok(socket)
        };
        let socket = open().map_err(NetlinkError::Socket)?;
        let mut kernel = Self { socket, family: CONTROL, sequence: 0 };
        let mut name = Vec::new();
        put(&mut name, FAMILY_NAME, b"ethtool\0");
        let answer = kernel.exchange(GET_FAMILY, &name).await;
        let family = answer.ok().flatten().and_then(|answer| number(find(&answer, FAMILY_ID)?));
        let family = family.and_then(|family| u16::try_from(family).ok());
        let old =
            || NetlinkError::Answer("this kernel has no ethtool over netlink; Linux 5.6 has".to_owned());
        kernel.family = family.ok_or_else(old)?;
        Ok(kernel)
    }

    /// `None` if the interface has no such settings.
    async fn get(&mut self, message: u8, link: &str) -> Result<Option<Vec<u8>>> {
        match self.ask(message, link, &[]).await {
            Err(NetlinkError::Kernel { code, .. }) if ABSENT.contains(&code) => Ok(None),
            answer => answer,
        }
    }

    async fn ask(&mut self, message: u8, link: &str, attributes: &[u8]) -> Result<Option<Vec<u8>>> {
        const HEADER: u16 = 1;
        const DEVICE: u16 = 2;
        let (mut header, mut body) = (Vec::new(), Vec::new());
        put(&mut header, DEVICE, &[link.as_bytes(), &[0]].concat());
        put(&mut body, NESTED | HEADER, &header);
        body.extend(attributes);
        self.exchange(message, &body).await
    }

    /// The attributes of the answer, if there was one before the acknowledgement.
    async fn exchange(&mut self, message: u8, body: &[u8]) -> Result<Option<Vec<u8>>> {
        const VERSION: u8 = 1;
        self.sequence += 1;
        let length = u32::try_from(20 + body.len()).unwrap_or(u32::MAX);
        let mut request = length.to_ne_bytes().to_vec();
        request.extend(self.family.to_ne_bytes());
        request.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend([message, VERSION, 0, 0]);
        request.extend(body);
        let talk = async {
            self.socket.send(&request).await.map_err(NetlinkError::Socket)?;
            let mut answer = None;
            let mut buffer = Vec::with_capacity(64 * 1024);
            loop {
                buffer.clear();
                match self.socket.recv(&mut buffer).await {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => drop(read.map_err(NetlinkError::Socket)?),
                }
                for (kind, sequence, payload) in messages(&buffer) {
                    if sequence != self.sequence {
                        continue;
                    }
                    if kind != NLMSG_ERROR {
                        answer = payload.get(4..).map(<[u8]>::to_vec);
                        continue;
                    }
                    let code = payload.get(..4).and_then(number).unwrap_or_default().cast_signed();
                    return match code {
                        0 => Ok(answer),
                        code => Err(NetlinkError::Kernel {
                            code: code.wrapping_neg(),
                            detail: payload.get(20..).and_then(extended_ack_in),
                        }),
                    };
                }
            }
        };
        tokio::time::timeout(REQUEST_TIMEOUT, talk).await.map_err(|_| NetlinkError::Timeout)?
    }
}

/// Type, sequence number and payload of each message of a datagram.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(number(rest.get(..4)?)?).ok()?;
        let kind = u16::from_ne_bytes([*rest.get(4)?, *rest.get(5)?]);
        let sequence = number(rest.get(8..12)?)?;
        let payload = rest.get(16..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, payload))
    })
}

fn put(to: &mut Vec<u8>, attribute: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(attribute.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Types without their flags, and values.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const FLAGS: u16 = 0xc000;
    std::iter::from_fn(move || {
        let [l0, l1, t0, t1, ..] = *rest else { return None };
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([t0, t1]) & !FLAGS, value))
    })
}

fn find(attributes_of: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(attributes_of).find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(match *bytes {
        [one] => u32::from(one),
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => return None,
    })
}
