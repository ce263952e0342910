//! The network as the flow tables' host needs it: the bridges, the bridge that carries the path to the
//! controller, and the hold that makes a restarted switch wait for its tables.
//!
//! Absent: when a switch is held (`agent/src/driver/flow_restore_wait.rs`), and whether a batch of flow rules is guarded
//! (`agent/src/flows/management.rs`).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::monitor::appears;
use super::netlink::Netlink;
use super::ovsdb::{Hold, SwitchVersion};
use super::state::{Link, State};
use super::{NetError, Network};

/// Their traffic continues through another link, which is not looked up.
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
    /// The directory of the switch's sockets.
    pub fn ovs_rundir(&self) -> &Path {
        self.ovs_db.parent().unwrap_or(Path::new("/"))
    }

    /// The socket of its database.
    pub(crate) fn ovs_db(&self) -> &Path {
        &self.ovs_db
    }

    /// Waits until the switch's database may have appeared: until its socket is made, or for `retry` where
    /// there is one already, which may not answer yet.
    pub async fn database_appears(&self, retry: Duration) {
        appears(&self.ovs_db, retry).await;
    }

    /// The names of Open vSwitch's bridges; empty if it is not running.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn bridge_names(&self) -> Result<BTreeSet<String>, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.bridge_names().await?),
            None => Ok(BTreeSet::new()),
        }
    }

    /// The switch; none if its database does not run.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn switch_version(&self) -> Result<Option<SwitchVersion>, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(Some(ovs.version().await?)),
            None => Ok(None),
        }
    }

    /// Makes a switch that starts from now on wait for its flow tables, unless a hold exists already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn hold_flows(&self) -> Result<Hold, NetError> {
        match self.connect_ovs().await? {
            Some(mut ovs) => Ok(ovs.hold().await?),
            None => Ok(Hold::Nobody),
        }
    }

    /// The flow tables are filled: removes the hold of [`Network::hold_flows`], and no other. With `wait`,
    /// waits until the switch has applied this: only then may it be held again. Returns whether there was a
    /// database; without one, the state of the hold is unknown.
    ///
    /// # Errors
    /// The database does not answer, or the switch does not apply the change.
    pub async fn release_flows(&self, wait: bool) -> Result<bool, NetError> {
        let Some(mut ovs) = self.connect_ovs().await? else { return Ok(false) };
        if ovs.release().await? && wait {
            ovs.sync().await?;
        }
        Ok(true)
    }

    /// Whether packets to `peer` go through this bridge; true if uncertain.
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
                // A patch leads to another bridge, whose traffic is not looked up.
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
