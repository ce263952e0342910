//! The datapath id of a bridge, by which OpenFlow and ONOS know it. Decides that it is the MAC address of the bridge's own
//! port, as Open vSwitch takes it where nobody has set one; and what stands for it until a node has told its facts.
//!
//! Absent: an id that somebody has set (`other_config:datapath-id`), because agents do not tell it.

use muster_shared::model::flow::DeviceName;

use crate::view::View;

/// The first bits of an id made of the bridge's name, `MU`: an id made of a MAC address has zeros there.
const OF_A_NAME: u64 = 0x4d55 << 48;

impl View<'_> {
    /// The datapath id of a bridge. Until its node has told which MAC address it has, an id of its name.
    pub fn datapath_id(&self, device: &DeviceName) -> u64 {
        self.mac_of(device).unwrap_or_else(|| Self::datapath_id_of_name(device))
    }

    /// An id that a bridge always answers to as well.
    pub fn datapath_id_of_name(device: &DeviceName) -> u64 {
        let hash = blake3::hash(device.to_string().as_bytes());
        let bits = hash.as_bytes().iter().take(6).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        OF_A_NAME | bits
    }

    fn mac_of(&self, device: &DeviceName) -> Option<u64> {
        let node = &self.graph.nodes[self.graph.nodes.find(&device.node)?];
        let links = &node.facts.as_ref()?.facts.links;
        let mac = links.iter().find(|link| link.name == device.bridge.as_str())?.mac?;
        Some(mac.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_name_is_its_own_and_stays() {
        let id = |name: &str| View::datapath_id_of_name(&name.parse().unwrap());
        assert_eq!(id("web-1/br0") >> 48, 0x4d55);
        assert_eq!(id("web-1/br0"), id("web-1/br0"));
        assert_ne!(id("web-1/br0"), id("web-2/br0"));
    }
}
