//! Bridges and ports under ONOS's names: `of:` with a datapath id, and port numbers. Decides that a port has a number made
//! of its name: agents do not tell a switch's own numbers, so a small number, as a switch would have, means nothing here.
//!
//! Absent: where the datapath id of a bridge comes from (`controller/engine/src/node/datapath.rs`).

use std::collections::BTreeMap;

use muster_api::intent::{BridgeView, LinkView, Point, TopologyView};
use serde_json::{Value, json};

use crate::document::{Part, Read, Wrong, number_of, shown};

/// Below this are numbers that a switch gives.
const LEAST: u64 = 0x1_0000;
/// Above this are numbers with a meaning of their own in OpenFlow.
const MOST: u64 = 0x7fff_ffff;
/// The most ports that a message names.
const NAMED_MAX: usize = 20;

/// Numbers and names of ports that are no ports.
const LOGICAL: [(u64, &str); 8] = [
    (0xffff_fff8, "IN_PORT"),
    (0xffff_fff9, "TABLE"),
    (0xffff_fffa, "NORMAL"),
    (0xffff_fffb, "FLOOD"),
    (0xffff_fffc, "ALL"),
    (0xffff_fffd, "CONTROLLER"),
    (0xffff_fffe, "LOCAL"),
    (0xffff_ffff, "ANY"),
];

/// A bridge and its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// `node/bridge`
    pub name: String,
    /// `of:` and 16 hexadecimal digits.
    pub id: String,
    /// Whether the bridge forwards, and its agent is there.
    pub is_available: bool,
    /// Interfaces by name: whether packets pass.
    pub ports: BTreeMap<String, bool>,
}

impl From<BridgeView> for Bridge {
    fn from(view: BridgeView) -> Self {
        Self {
            name: view.device,
            id: format!("of:{}", view.datapath_id),
            is_available: view.up && !view.away,
            ports: view.ports.into_iter().map(|port| (port.name, port.up)).collect(),
        }
    }
}

/// The number of a port of this name.
fn number(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    let bits = hash.as_bytes().iter().take(8).fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
    LEAST + bits % (MOST - LEAST)
}

impl Bridge {
    /// The node and the bridge's name there.
    pub fn parts(&self) -> (&str, &str) {
        self.name.split_once('/').unwrap_or((&self.name, ""))
    }

    fn has_name(&self, wanted: &str) -> bool {
        self.id.eq_ignore_ascii_case(wanted) || self.name == wanted
    }

    /// ONOS's number of a port in the words of flow files.
    pub fn number(&self, name: &str) -> u64 {
        let logical = LOGICAL.iter().find(|(_, known)| *known == name);
        logical.map_or_else(|| number(name), |(number, _)| *number)
    }

    /// As ONOS writes a port: a number in text, or the name of a logical one.
    pub fn port(&self, name: &str) -> String {
        match LOGICAL.iter().any(|(_, known)| *known == name) {
            true => name.to_owned(),
            false => number(name).to_string(),
        }
    }

    /// An interface, or `LOCAL`.
    pub fn in_port(&self, part: &Part<'_>) -> Read<String> {
        match self.word(part)?.as_str() {
            word @ ("IN_PORT" | "NORMAL" | "FLOOD" | "ALL" | "TABLE" | "CONTROLLER" | "ANY") => {
                Err(part.wrong(format!("no packet comes in at {word}")))
            }
            word => Ok(word.to_owned()),
        }
    }

    /// The port to which packets go, in the words of flow files.
    pub fn output(&self, part: &Part<'_>) -> Read<String> {
        match self.word(part)?.as_str() {
            word @ ("TABLE" | "ANY") => Err(part
                .wrong(format!("OUTPUT to {word} is not supported: it is for packets from the controller"))),
            word => Ok(word.to_owned()),
        }
    }

    /// The word of a port: a number, a name, or `[name](number)` as ONOS prints named ports.
    fn word(&self, part: &Part<'_>) -> Read<String> {
        let Some(text) = part.value().as_str() else {
            return match part.value().as_i64() {
                Some(signed @ -8..=-1) => self.of_number(part, (signed + 0x1_0000_0000).unsigned_abs()),
                _ => self.of_number(part, part.number(u64::from(u32::MAX))?),
            };
        };
        let upper = text.to_ascii_uppercase();
        if let Some(number) = number_of(text) {
            self.of_number(part, number)
        } else if let Some((_, word)) = LOGICAL.iter().find(|(_, word)| *word == upper) {
            Ok((*word).to_owned())
        } else {
            let named = text.strip_prefix('[').and_then(|rest| rest.split_once("]("));
            let name = named.map_or(text, |(name, _)| name);
            match self.ports.contains_key(name) {
                true => Ok(name.to_owned()),
                false => Err(self.no_port(part, &shown(text))),
            }
        }
    }

    fn of_number(&self, part: &Part<'_>, wanted: u64) -> Read<String> {
        if let Some((_, word)) = LOGICAL.iter().find(|(known, _)| *known == wanted) {
            return Ok((*word).to_owned());
        }
        let mut with_it = self.ports.keys().filter(|name| number(name) == wanted);
        match (with_it.next(), with_it.next()) {
            (Some(name), None) => Ok(name.clone()),
            (Some(one), Some(other)) => {
                Err(part.wrong(format!("{one} and {other} have the number {wanted}: give the port's name")))
            }
            (None, _) => Err(self.no_port(part, &wanted.to_string())),
        }
    }

    fn no_port(&self, part: &Part<'_>, wanted: &str) -> Wrong {
        let ports: Vec<String> =
            self.ports.keys().take(NAMED_MAX).map(|name| format!("{} ({name})", number(name))).collect();
        let known = match ports.is_empty() {
            true => "none".to_owned(),
            false => ports.join(", "),
        };
        part.wrong(format!(
            "{} has no port {wanted}: Muster's numbers are its own, not the switch's; known here, or by name: {known}",
            self.name
        ))
    }
}

/// Bridges, and what is between them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub bridges: Vec<Bridge>,
    pub view: TopologyView,
    /// Another id of the only bridge, by which the API found it.
    asked: Option<String>,
}

/// The reason why a device is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoBridge {
    Unknown,
    /// Several have the id.
    Several(String),
}

impl Network {
    pub fn new(view: TopologyView) -> Self {
        Self { bridges: view.devices.iter().cloned().map(Bridge::from).collect(), view, asked: None }
    }

    /// The bridge of an id: one, if it is no id of several, and perhaps by an id that is not shown.
    pub fn of_id(view: TopologyView, wanted: &str) -> Self {
        let network = Self::new(view);
        let asked = (network.bridges.len() == 1).then(|| wanted.to_owned());
        Self { asked, ..network }
    }

    /// The bridge with an id, or a name `node/bridge`.
    pub fn find(&self, wanted: &str) -> Result<&Bridge, NoBridge> {
        let mut found = self.bridges.iter().filter(|bridge| bridge.has_name(wanted));
        match (found.next(), found.next()) {
            (Some(bridge), None) => Ok(bridge),
            (Some(one), Some(other)) => Err(NoBridge::Several(format!(
                "{wanted} is {} and {}: give NODE/BRIDGE in its place, in a path with %2F",
                one.name, other.name
            ))),
            (None, _) => {
                let asked = self.asked.as_deref().filter(|asked| asked.eq_ignore_ascii_case(wanted));
                asked.and(self.bridges.first()).ok_or(NoBridge::Unknown)
            }
        }
    }

    /// The bridge of this name.
    pub fn named(&self, name: &str) -> Option<&Bridge> {
        self.bridges.iter().find(|bridge| bridge.name == name)
    }

    /// The bridge that a document names.
    pub fn device(&self, part: &Part<'_>) -> Read<&Bridge> {
        let wanted = part.text()?;
        self.find(wanted).map_err(|why| match why {
            NoBridge::Unknown => part.wrong(format!("there is no device '{}'", shown(wanted))),
            NoBridge::Several(why) => part.wrong(why),
        })
    }

    /// The bridge that a path names. A document that names a device as well has to name the same one, as in ONOS.
    pub fn of_path<'b>(&self, document: &Part<'_>, bridge: &'b Bridge) -> Read<&'b Bridge> {
        let Some(part) = document.get("deviceId")? else { return Ok(bridge) };
        let wanted = part.text()?;
        let is_it = bridge.has_name(wanted) || self.find(wanted).is_ok_and(|found| found.name == bridge.name);
        match is_it {
            true => Ok(bridge),
            false => Err(part.wrong(format!(
                "the path names {}, and the document '{}': leave deviceId out, or give the path's device",
                bridge.name,
                shown(wanted)
            ))),
        }
    }

    /// `{"device", "port"}` in the words of intent files.
    pub fn point(&self, part: &Part<'_>) -> Read<Value> {
        part.only(&["device", "port", "host"])?;
        if part.get("host")?.is_some() {
            return Err(part.wrong("a point of an intent is a port of a device"));
        }
        let bridge = self.device(&part.need("device")?)?;
        let port = bridge.in_port(&part.need("port")?)?;
        Ok(json!({"device": bridge.name, "port": port}))
    }

    /// ONOS's connect point.
    pub fn connect_point(&self, point: &Point) -> Value {
        let bridge = self.named(&point.device).cloned().unwrap_or_default();
        json!({"port": bridge.port(&point.port), "device": bridge.id})
    }

    /// ONOS's link.
    pub fn link(&self, link: &LinkView) -> Value {
        let state = if link.up { "ACTIVE" } else { "INACTIVE" };
        json!({
            "src": self.connect_point(&link.from),
            "dst": self.connect_point(&link.to),
            "type": link_type(link),
            "state": state,
        })
    }
}

/// ONOS's types of links.
pub const LINK_TYPES: [&str; 6] = ["DIRECT", "INDIRECT", "EDGE", "TUNNEL", "OPTICAL", "VIRTUAL"];

/// The annotation `type`, where it is a type of ONOS; else `DIRECT`.
fn link_type(link: &LinkView) -> &str {
    let said = link.annotations.get("type").map(|text| &**text);
    said.filter(|said| LINK_TYPES.contains(said)).unwrap_or(LINK_TYPES[0])
}
