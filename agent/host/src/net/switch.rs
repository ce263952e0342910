//! What those who hold flow tables ask of the network: which bridges there are, which of them the way to the controller
//! goes through, and that a switch that is started anew waits for its tables.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use super::netlink::Netlink;
use super::ovsdb::Hold;
use super::state::{Link, State};
use super::{NetError, Network};

/// What goes through them goes on through another link, which is not looked for.
const TUNNELS: [&str; 12] = [
    "tun",
    "wireguard",
    "vxlan",
    "geneve",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ipip",
    "sit",
    "ip6tnl",
    "xfrm",
];

impl Network {
    /// Where the switch has its sockets.
    pub fn ovs_rundir(&self) -> &Path {
        self.ovs_db.parent().unwrap_or(Path::new("/"))
    }

    /// The socket of its database.
    pub(crate) fn ovs_db(&self) -> &Path {
        &self.ovs_db
    }

    /// The bridges of Open vSwitch by name; none where it is not running.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn bridge_names(&self) -> Result<BTreeSet<String>, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.bridge_names().await?),
            None => Ok(BTreeSet::new()),
        }
    }

    /// Has a switch that is started from now on wait for its flow tables, unless somebody has already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn hold_flows(&self) -> Result<Hold, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.hold().await?),
            None => Ok(Hold::Nobody),
        }
    }

    /// The flow tables are filled: takes back what [`Network::hold_flows`] did, and no more than that. With `wait` until
    /// the switch has taken that up: only then may it be held again. Whether there was a database: without one nobody knows
    /// what stands in it.
    ///
    /// # Errors
    /// The database does not answer, or the switch does not take it up.
    pub async fn release_flows(&self, wait: bool) -> Result<bool, NetError> {
        let Some(mut ovs) = self.connect_ovs().await? else { return Ok(false) };
        if ovs.release().await? && wait {
            ovs.sync().await?;
        }
        Ok(true)
    }

    /// Whether what goes to `peer` goes through this bridge. Where that is not certain: yes.
    pub async fn carries(&self, bridge: &str, peer: IpAddr) -> bool {
        if peer.is_loopback() {
            return false;
        }
        let look = async {
            let mut netlink = Netlink::open()?;
            let link = netlink.link_to(peer).await.map_err(NetError::Observe)?;
            Ok::<_, NetError>((link, self.observe_through(&mut netlink).await?))
        };
        let Ok((Some(index), state)) = look.await else { return true };
        let link = state.links.iter().find(|(_, link)| link.index == index).map(|(name, _)| name.as_str());
        link.is_none_or(|link| state.leads_through(link, bridge))
    }
}

impl State {
    /// Whether what leaves through `link` passes this bridge of Open vSwitch, or may.
    fn leads_through(&self, link: &str, bridge: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![link];
        while let Some(link) = waiting.pop() {
            if !seen.insert(link) {
                continue;
            }
            let on = if self.ovs_bridge(link).is_some() {
                Some(link)
            } else {
                self.ovs_port(link).map(|(on, _)| on)
            };
            match on {
                Some(on) if on == bridge => return true,
                // A patch leads from one bridge to another, who knows where.
                Some(_) if self.has_patches() => return true,
                Some(_) => continue,
                None => {}
            }
            let Some(here) = self.links.get(link) else { return true };
            if TUNNELS.contains(&here.kind.as_str()) {
                return true;
            }
            waiting.extend(here.parent.as_deref());
            waiting.extend(here.vlan.as_ref().map(|vlan| vlan.device.as_str()));
            let is_member = |(_, other): &(&String, &Link)| other.master.as_deref() == Some(link);
            waiting.extend(self.links.iter().filter(is_member).map(|(name, _)| name.as_str()));
        }
        false
    }

    /// Some interface of Open vSwitch has no link of the kernel: a patch between bridges, or a tunnel.
    fn has_patches(&self) -> bool {
        let bridges = self.ovs.iter().flat_map(|ovs| ovs.values());
        let ports = bridges.flat_map(|bridge| bridge.ports.values());
        ports.flat_map(|port| port.interfaces.keys()).any(|name| !self.links.contains_key(name))
    }
}
