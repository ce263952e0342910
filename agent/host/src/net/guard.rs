//! The way to the controller is left alone: until a change can be confirmed over the new network, a document
//! that touches it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use muster_shared::model::network::{MAIN_TABLE, NetworkDocument, NicMapping};

use super::netlink::{Netlink, Path};
use super::state::State;
use super::{NetError, Network, Snapshot, mapped};

/// Does the document, its aliases replaced, decide about `link`?
pub fn touches(document: &NetworkDocument, link: &str) -> bool {
    document.link_names().any(|name| name.as_str() == link)
}

impl Network {
    /// The link through which the kernel reaches the controller; nothing if there is no way.
    pub async fn controller_link(&self, controller: IpAddr) -> Result<Option<String>, NetError> {
        Ok(Netlink::open()?.path_to(controller).await?.map(|path| path.link))
    }

    /// Refuses a document that would change the way to the controller: a link that carries it, or an address
    /// or route that would take it over. `before` is what an older document touched.
    pub async fn guard(
        &self,
        document: &NetworkDocument,
        mapping: &NicMapping,
        before: &Snapshot,
        controller: IpAddr,
    ) -> Result<(), NetError> {
        let mut netlink = Netlink::open()?;
        let state = self.observe_through(&mut netlink).await?;
        let document = mapped(document, mapping, &state)?;
        match netlink.path_to(controller).await? {
            // A controller on this very host is reached without any interface.
            Some(path) if path.link != "lo" => check(&document, before, &state, &path, controller),
            _ => Ok(()),
        }
    }
}

fn check(
    document: &NetworkDocument,
    before: &Snapshot,
    state: &State,
    way: &Path,
    controller: IpAddr,
) -> Result<(), NetError> {
    let carriers = carriers(&way.link, state);
    let mut places: BTreeMap<&str, String> =
        before.links.keys().map(|name| (name.as_str(), format!("before.{name}"))).collect();
    places.extend(document.all().map(|object| (object.name.as_str(), object.path.clone())));
    for (link, path) in places {
        if carriers.contains(link) {
            return Err(NetError::CarriesController { path, link: link.to_owned(), controller });
        }
    }
    let takes = |path: String, prefix: IpNet, metric: u32| match takes_over(prefix, metric, way, controller) {
        false => Ok(()),
        true => {
            let (prefix, link) = (prefix.to_string(), way.link.clone());
            Err(NetError::TakesController { path, prefix, link, controller })
        }
    };
    for object in document.all() {
        for (index, address) in object.addresses.iter().enumerate() {
            // The kernel's metric of a connected network.
            let metric = if controller.is_ipv4() { 0 } else { 256 };
            takes(format!("{}.addresses[{index}]", object.path), address.trunc(), metric)?;
        }
        for (index, route) in object.routes.iter().enumerate().filter(|(_, route)| route.table == MAIN_TABLE)
        {
            takes(format!("{}.routes[{index}]", object.path), route.destination, route.kernel_metric())?;
        }
    }
    Ok(())
}

/// The kernel takes the longest prefix, then the lowest metric.
fn takes_over(prefix: IpNet, metric: u32, way: &Path, controller: IpAddr) -> bool {
    let longer = prefix.prefix_len() > way.prefix_len;
    let better = prefix.prefix_len() == way.prefix_len && metric <= way.metric;
    prefix.contains(&controller) && (longer || better)
}

/// The link and all that it runs over: a bridge's members, a VLAN's device, a bond's interfaces.
fn carriers(link: &str, state: &State) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![link.to_owned()];
    while let Some(link) = open.pop() {
        if !found.insert(link.clone()) {
            continue;
        }
        let members =
            state.links.iter().filter(|(_, member)| member.master.as_deref() == Some(link.as_str()));
        open.extend(members.map(|(name, _)| name.clone()));
        open.extend(
            state.links.get(&link).and_then(|link| link.vlan.as_ref()).map(|vlan| vlan.device.clone()),
        );
        let own_bridge = state.ovs_bridge(&link).map(|bridge| (link.as_str(), bridge));
        // An internal port runs over the whole bridge that holds it; another port does not.
        let holding = state.ovs_port(&link).filter(|(_, port)| port.interfaces.values().all(|i| i.internal));
        let holding = holding.and_then(|(name, _)| Some((name, state.ovs_bridge(name)?)));
        for (name, bridge) in own_bridge.into_iter().chain(holding) {
            open.push(name.to_owned());
            open.extend(bridge.ports.values().flat_map(|port| port.interfaces.keys().cloned()));
        }
    }
    found
}
