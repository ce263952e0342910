//! The way of a packet through the switches, and what such ways prove of an intent, as JSON.
//!
//! Absent: the requests (`controller/src/api/trace.rs`), and how a packet is followed
//! (`controller/intent/src/trace.rs`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::intent::Point;

/// The way of a packet and of its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceView {
    /// A copy is delivered, and none is lost.
    pub delivered: bool,
    /// The port where the packet comes in.
    pub from: Point,
    /// The packet's fields, in the words of a selector.
    pub packet: Map<String, Value>,
    /// The switches that it passes, each after the one before it.
    pub hops: Vec<TraceHop>,
    /// The end of each copy.
    pub ends: Vec<TraceEnd>,
}

/// A switch, and what it does with the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceHop {
    /// Counts from 1.
    pub hop: usize,
    /// The hop that the packet comes from; none for the first one.
    pub after: Option<usize>,
    /// `node/bridge`
    pub device: String,
    /// The interface where the packet comes in.
    pub in_port: String,
    /// The packet as it comes in. Values that a rule with hidden parameters has set are masked.
    pub packet: Map<String, Value>,
    /// The rules that take it, in order.
    pub rules: Vec<TraceRule>,
    /// The interfaces by which copies leave.
    pub outputs: Vec<Point>,
    /// Remarks about what the switch does not do, in its own words.
    pub notes: Vec<String>,
}

/// A rule that takes the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceRule {
    /// `node/bridge`: another one than the hop's behind a patch port.
    pub device: String,
    /// The number of the table.
    pub table: u8,
    /// The id of a rule of Muster's; none for rules of others, and where no rule of the table takes the packet.
    pub id: Option<String>,
    /// The owner of the rule. None for rules of others.
    pub owner: Option<String>,
    /// The key of the intent that it is for.
    pub intent: Option<String>,
    /// The match of a rule of others, in the switch's words.
    pub matches: Option<String>,
}

/// The end of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TraceEnd {
    /// The last hop.
    pub hop: usize,
    /// Whether the copy leaves the network as wanted.
    pub delivered: bool,
    /// The port by which it leaves, where it is delivered.
    pub at: Option<Point>,
    /// The hosts there, by MAC address.
    pub hosts: Vec<String>,
    /// The packet as it leaves.
    pub packet: Map<String, Value>,
    /// The reason of a loss; empty for a copy that is delivered.
    pub why: String,
}

/// Whether an intent carries what it promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Each packet that was tried arrives.
    Ok,
    /// At least one copy does not.
    Broken,
    /// A switch could not be asked, or the intent is not INSTALLED.
    #[default]
    Unknown,
}

/// The proof of an intent by traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IntentProof {
    /// The intent's key.
    pub key: String,
    pub verdict: Verdict,
    /// The reason of a fault; empty where all is well.
    pub reason: String,
    /// Ports where packets of it come in: one packet was tried at each.
    pub tried: usize,
    /// Further such ports, of very many, where none was tried.
    pub left_out: usize,
    /// The way of the packet that is not ok; of the first one that was tried, if each of them arrives.
    pub trace: Option<TraceView>,
}
