//! Flow rules, groups and meters: the desired entries of a device, as they are requested, stored and sent.
//!
//! An [`Entry`] is plain data in one canonical form: values without the bits outside their mask, no full
//! masks, criteria in the order of [`Field`]. So equal entries are equal bytes ([`Packed`]), and two digests
//! tell whether two tables are equal. `parse.rs` turns text into entries and checks prerequisites; `print.rs`
//! turns entries into text.
//!
//! Absent: states and owners of rules (`controller/flow/src/owner.rs`), OpenFlow (`agent/host/src/openflow.rs`)
//! and nftables (`agent/host/src/nftables.rs`).

mod batch;
mod field;
mod message;
mod packed;
mod parse;
mod print;
mod table;
mod trace;

#[cfg(test)]
mod tests;

pub use batch::{BadOps, Ops, OpsRef, read_ops};
pub use field::{Field, FieldKind};
pub use message::{
    ENTRIES_PAGE, FLOW_REASON_MAX, FOREIGN_MAX, FOREIGN_PAGE, FOREIGN_TEXT_MAX, FlowAsk, FlowBatch,
    FlowCounters, FlowDown, FlowRefusal, FlowState, FlowUp, ForeignRule, OPS_INLINE_MAX, STATES_MAX,
    STATS_PAGE, SwitchState, TableCounters,
};
pub use packed::{ENTRY_MAX, NotAnEntry, Packed};
pub use parse::{BadEntry, Step, check_part, check_traffic, suggestion, traffic_selector, traffic_treatment};
pub use table::{BUCKETS, Buckets, EntryState, bucket_of};
pub use trace::{Packet, TRACE_STEPS_MAX, TRACE_TEXT_MAX, TraceQuestion, TraceStep};

/// Seconds in which an agent reaches its controller over a new connection after a guarded change of flow rules, where
/// nobody says otherwise. No link has to come up first, so it is less than after a change of the network's configuration.
pub const CONFIRM_TIMEOUT: u32 = 30;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::NodeId;

/// The first bits of all of Muster's ids, as OpenFlow cookie and as nftables comment: `MU`.
pub const ID_PREFIX: u16 = 0x4d55;
/// The bits of a cookie that [`ID_PREFIX`] fills.
pub const ID_MASK: u64 = 0xffff << 48;
/// The device name for a node's own nftables table.
pub const NFTABLES: &str = "nftables";
/// A bridge is a network interface: its name has at most so many bytes (`IFNAMSIZ - 1`).
pub const BRIDGE_MAX: usize = 15;
/// Criteria of a selector: every field once.
pub const CRITERIA_MAX: usize = 64;
/// Instructions of a treatment: more are a program.
pub const INSTRUCTIONS_MAX: usize = 64;
/// Buckets of a group.
pub const GROUP_BUCKETS_MAX: usize = 64;
/// The most bands of a meter, as in Open vSwitch.
pub const BANDS_MAX: usize = 8;

/// A holder of flow rules, named `node/bridge`; `node/nftables` is the node's own packet filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceName {
    pub node: NodeId,
    /// The bridge, or [`NFTABLES`].
    pub bridge: Bridge,
}

/// A device's name on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bridge(Arc<str>);

/// The reason why a text names no device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{given}' is not a device: want NODE/BRIDGE, such as web-1/br0")]
pub struct NotADevice {
    given: String,
}

/// The id of an entry: [`ID_PREFIX`] and a hash of device, table, priority and selector. Shown as 16
/// hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u64);

/// A desired entry of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    Rule(Rule),
    /// A group that rules send packets to.
    Group(Group),
    /// A meter that rules are limited by.
    Meter(Meter),
}

/// A flow rule: what matches `selector` in `table`, and nothing of a higher priority does, gets `treatment`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// 0 to 254.
    pub table: u8,
    /// The higher wins.
    pub priority: u16,
    /// Criteria in the order of their fields, each field at most once; empty matches everything.
    pub selector: Vec<Criterion>,
    /// Instructions in order; empty drops.
    pub treatment: Vec<Instruction>,
    /// Seconds without a packet until the rule ends; 0: never.
    pub idle_timeout: u16,
    /// Seconds until it ends; 0: never.
    pub hard_timeout: u16,
}

/// A condition of a selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Criterion {
    /// `in_port`
    InPort(Port),
    /// A field of the packet or of its metadata.
    Field {
        field: Field,
        /// Right-aligned; no bit outside `mask`.
        value: u128,
        /// The bits that count; `None`: the whole field.
        mask: Option<u128>,
    },
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Port {
    /// A port by the name of its interface.
    Named(Box<str>),
    /// The bridge's own (`LOCAL`).
    Local,
}

/// The destination of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Output {
    Port(Port),
    /// The port where the packet came in (`IN_PORT`).
    InPort,
    /// As a switch without rules forwards (`NORMAL`).
    Normal,
    /// Every port but the packet's own (`ALL`).
    All,
    /// As `ALL`, without ports that do not flood (`FLOOD`).
    Flood,
    /// The OpenFlow controller that somebody has set for the bridge (`CONTROLLER`). Without one the packet is dropped.
    Controller,
}

/// A step of a treatment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Instruction {
    /// Actions that apply immediately, in order.
    Do(Action),
    /// `meter`: by its number; first of all instructions.
    Meter(u32),
    /// `goto_table`: last of all instructions, and onwards only.
    GotoTable(u8),
    /// `write_metadata`
    WriteMetadata {
        /// Has no bit outside `mask`.
        value: u64,
        /// The bits to write; `None`: all.
        mask: Option<u64>,
    },
    /// `clear_actions`: empties the set of deferred actions.
    ClearActions,
    /// `write_actions`: deferred until no table follows.
    WriteActions(Vec<Action>),
}

/// A step in the treatment of a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// `output`
    Output(Output),
    /// `group`: by its number.
    Group(u32),
    /// `set_queue`: for the outputs that follow.
    SetQueue(u32),
    /// `resubmit`: looks the packet up in this table, and goes on afterwards.
    Resubmit(u8),
    /// `set_FIELD`
    Set {
        field: Field,
        /// Right-aligned; no bit outside `mask`.
        value: u128,
        /// The bits to set; `None`: all.
        mask: Option<u128>,
    },
    /// `push_vlan`: with this EtherType, 0x8100 or 0x88a8.
    PushVlan(u16),
    /// `pop_vlan`
    PopVlan,
    /// `push_mpls`: with this EtherType, 0x8847 or 0x8848.
    PushMpls(u16),
    /// `pop_mpls`: what remains is of this EtherType.
    PopMpls(u16),
    /// `dec_ttl`
    DecTtl,
    /// `dec_mpls_ttl`
    DecMplsTtl,
    /// `ct`
    Ct(Ct),
}

/// Connection tracking.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ct {
    /// Remember the connection.
    pub commit: bool,
    /// Take this packet's direction for the first one, with `commit`.
    pub force: bool,
    /// The zone, 0 if not given.
    pub zone: u16,
    /// The table in which the packet is looked up again, with its `ct_*` fields; only a later one.
    pub table: Option<u8>,
    /// The value for `ct_mark`, with `commit`.
    pub mark: Option<(u32, Option<u32>)>,
}

/// A group: the treatment of packets that rules send to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number on the device, at most 0xffffff00.
    pub number: u32,
    /// The way to choose buckets.
    pub kind: GroupKind,
    /// Buckets in order.
    pub buckets: Vec<GroupBucket>,
}

/// The way in which a group chooses buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupKind {
    /// Uses all buckets.
    All,
    /// Uses one bucket, by hash and weight.
    Select,
    Indirect,
    /// Uses the first bucket whose watched port is up.
    FastFailover,
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupBucket {
    /// The weight for [`GroupKind::Select`], from 1; otherwise 0.
    pub weight: u16,
    /// The port that must be up, for [`GroupKind::FastFailover`].
    pub watch_port: Option<Port>,
    /// Actions in order.
    pub treatment: Vec<Action>,
}

/// A meter: packets above its rates are dropped or marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// The number on the device, from 1.
    pub number: u32,
    /// Rates count packets, not kilobits.
    pub packets: bool,
    /// Has at least one band.
    pub bands: Vec<Band>,
}

/// A rate of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// Kilobits or packets per second.
    pub rate: u32,
    /// Kilobits or packets of a burst; 0: the switch's own choice.
    pub burst: u32,
    /// Raises the drop precedence by this much; `None`: drops.
    pub dscp_remark: Option<u8>,
}

impl Rule {
    /// The criterion of a field: value, and mask where it is not the whole field.
    pub fn field(&self, wanted: Field) -> Option<(u128, Option<u128>)> {
        self.selector.iter().find_map(|criterion| match criterion {
            Criterion::Field { field, value, mask } if *field == wanted => Some((*value, *mask)),
            Criterion::Field { .. } | Criterion::InPort(_) => None,
        })
    }

    /// Whether a timeout ends the rule.
    pub fn has_timeout(&self) -> bool {
        self.idle_timeout != 0 || self.hard_timeout != 0
    }
}

impl DeviceName {
    /// The device is the node's packet filter, not a bridge.
    pub fn is_nftables(&self) -> bool {
        self.bridge.is_nftables()
    }
}

impl Port {
    /// Bytes of a name: Open vSwitch has ports that are no interface of the kernel's, with longer ones.
    const NAME_MAX: usize = 64;

    /// Whether it can be [`Port::Named`] so.
    pub fn is_name(name: &str) -> bool {
        (1..=Self::NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
    }
}

impl Bridge {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The device is the node's packet filter, not a bridge.
    pub fn is_nftables(&self) -> bool {
        &*self.0 == NFTABLES
    }
}

impl FromStr for Bridge {
    type Err = NotADevice;

    fn from_str(text: &str) -> Result<Self, NotADevice> {
        let is_part_of_a_name = |b: u8| b.is_ascii_graphic() && b != b'/';
        let is_name = (1..=BRIDGE_MAX).contains(&text.len()) && text.bytes().all(is_part_of_a_name);
        match is_name && text != "." && text != ".." {
            true => Ok(Self(text.into())),
            false => {
                Err(NotADevice { given: text.chars().take(80).flat_map(char::escape_default).collect() })
            }
        }
    }
}

impl TryFrom<String> for Bridge {
    type Error = NotADevice;

    fn try_from(text: String) -> Result<Self, NotADevice> {
        text.parse()
    }
}

impl From<Bridge> for String {
    fn from(bridge: Bridge) -> String {
        bridge.as_str().to_owned()
    }
}

impl fmt::Display for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeviceName {
    type Err = NotADevice;

    fn from_str(text: &str) -> Result<Self, NotADevice> {
        let wrong = || NotADevice { given: text.chars().take(80).flat_map(char::escape_default).collect() };
        let (node, bridge) = text.split_once('/').ok_or_else(wrong)?;
        let node = node.parse().map_err(|_| wrong())?;
        Ok(Self { node, bridge: bridge.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.bridge)
    }
}

impl FlowId {
    /// Parses the digits in which an id is shown.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let id = u64::from_str_radix(digits, 16).ok()?;
        (digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && Self::is_ours(id))
            .then_some(Self(id))
    }

    /// A cookie within our space.
    pub fn is_ours(cookie: u64) -> bool {
        cookie & ID_MASK == u64::from(ID_PREFIX) << 48
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
