//! Bridges, ports and interfaces in Open vSwitch's database.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Values that others have set in columns that Muster does not decide about, in the database's own JSON: kept
/// so that a row that is made again has them. Columns that hold their default are left out.
pub type Columns = BTreeMap<String, Value>;

/// The bridges by name, and an index from interface to bridge: with thousands of ports, no search is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, OvsBridge>", into = "BTreeMap<String, OvsBridge>")]
pub struct Ovs {
    bridges: BTreeMap<String, OvsBridge>,
    /// Interface → bridge and port.
    places: BTreeMap<String, (String, String)>,
}

/// A bridge of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsBridge {
    /// Ports by name, including the bridge's own local port.
    pub ports: BTreeMap<String, OvsPort>,
    /// `other_config:hwaddr`
    pub hwaddr: Option<String>,
    /// Empty: the kernel's.
    pub datapath_type: String,
    /// The row carries Muster's mark.
    pub ours: bool,
    /// `fail_mode` and all other columns that are set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: Columns,
}

/// A port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsPort {
    pub tag: Option<u16>,
    /// The row carries Muster's mark.
    pub ours: bool,
    /// An interface with the port's own name; several in a bond.
    pub interfaces: BTreeMap<String, OvsInterface>,
    /// The other columns that are set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: Columns,
}

/// An interface of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OvsInterface {
    /// Made by Open vSwitch.
    pub internal: bool,
    /// The MTU asked for.
    pub mtu_request: Option<u32>,
    /// The reason why the switch cannot use it.
    pub error: Option<String>,
    /// The type, if it is neither a link nor internal, and all other columns that are set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: Columns,
}

impl OvsPort {
    /// A port of Muster's, with one interface of the same name.
    pub fn new(name: &str, tag: Option<u16>, internal: bool) -> Self {
        let interface = OvsInterface { internal, ..OvsInterface::default() };
        let interfaces = BTreeMap::from([(name.to_owned(), interface)]);
        Self { tag, ours: true, interfaces, columns: Columns::new() }
    }

    /// A port with these interfaces, of that type of Open vSwitch's; none of them is a link.
    pub fn of(interfaces: &[&str], kind: Option<&str>, tag: Option<u16>) -> Self {
        let columns: Columns = kind.map(|kind| ("type".to_owned(), Value::from(kind))).into_iter().collect();
        let interface = |name: &&str| {
            let interface = OvsInterface { columns: columns.clone(), ..OvsInterface::default() };
            ((*name).to_owned(), interface)
        };
        Self {
            tag,
            ours: true,
            interfaces: interfaces.iter().map(interface).collect(),
            columns: Columns::new(),
        }
    }

    /// The same interfaces of the same types; how they are set is not asked.
    pub fn same_interfaces(&self, other: &Self) -> bool {
        let kinds = |port: &Self| -> Vec<(String, bool, Option<Value>)> {
            let of = |(name, it): (&String, &OvsInterface)| {
                (name.clone(), it.internal, it.columns.get("type").cloned())
            };
            port.interfaces.iter().map(of).collect()
        };
        kinds(self) == kinds(other)
    }

    /// Whether Open vSwitch makes all of its interfaces.
    pub fn is_internal(&self) -> bool {
        self.interfaces.values().all(|interface| interface.internal)
    }
}

impl Ovs {
    /// The bridge and port that hold the interface `name`.
    pub fn port_of(&self, name: &str) -> Option<(&str, &OvsPort)> {
        let (bridge, port) = self.places.get(name)?;
        Some((bridge.as_str(), self.bridges.get(bridge)?.ports.get(port)?))
    }

    /// The port that holds the interface `name`.
    pub fn port_name_of(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|(_, port)| port.as_str())
    }

    /// The port by that name, and its bridge.
    pub fn port(&self, name: &str) -> Option<(&str, &OvsPort)> {
        self.bridges
            .iter()
            .find_map(|(bridge, of_bridge)| Some((bridge.as_str(), of_bridge.ports.get(name)?)))
    }

    pub(in super::super) fn forget_bridge(&mut self, name: &str) {
        if self.bridges.remove(name).is_some() {
            self.places.retain(|_, (bridge, _)| bridge != name);
        }
    }

    pub(in super::super) fn forget_port(&mut self, name: &str) {
        let there = self.port(name).map(|(bridge, _)| (bridge.to_owned(), name.to_owned()));
        let Some((bridge, port)) = there.or_else(|| self.places.get(name).cloned()) else { return };
        let gone = self.bridges.get_mut(&bridge).and_then(|bridge| bridge.ports.remove(&port));
        for interface in gone.iter().flat_map(|port| port.interfaces.keys()) {
            self.places.remove(interface);
        }
    }
}

impl Deref for Ovs {
    type Target = BTreeMap<String, OvsBridge>;

    fn deref(&self) -> &Self::Target {
        &self.bridges
    }
}

impl From<BTreeMap<String, OvsBridge>> for Ovs {
    fn from(bridges: BTreeMap<String, OvsBridge>) -> Self {
        let mut places = BTreeMap::new();
        for (bridge, of_bridge) in &bridges {
            for (port, of_port) in &of_bridge.ports {
                let place = || (bridge.clone(), port.clone());
                places.extend(of_port.interfaces.keys().map(|interface| (interface.clone(), place())));
            }
        }
        Self { bridges, places }
    }
}

impl From<Ovs> for BTreeMap<String, OvsBridge> {
    fn from(ovs: Ovs) -> Self {
        ovs.bridges
    }
}
