//! The places of hosts: decides which statement counts, as operators declare and agents see them.
//!
//! Absent: how many hosts there may be, and the statements themselves (`host.rs`).

use muster_shared::NodeId;
use muster_shared::model::flow::DeviceName;

use super::{Change, ConnectPoint, Topology, TopologyError};
use crate::host::{Host, HostId, HostLocation};

impl Topology {
    /// The place of a host, if it is known and not in dispute.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        match self.host_location(id) {
            HostLocation::At(host) => Some(host),
            HostLocation::Unknown | HostLocation::Claimed(_) => None,
        }
    }

    /// The place of a host. A statement of an agent that is away counts only if no other agent sees
    /// the host.
    pub fn host_location(&self, id: HostId) -> HostLocation<'_> {
        let Some(said) = self.hosts.get(id) else { return HostLocation::Unknown };
        if let Some(declared) = said.declared() {
            return HostLocation::At(declared);
        }
        let all: Vec<&Host> = said.observed().collect();
        let is_there =
            |host: &&&Host| self.device(&host.location.device).is_some_and(|device| !self.is_away(device));
        let present: Vec<&Host> = all.iter().filter(is_there).copied().collect();
        match (present.as_slice(), all.as_slice()) {
            ([one], _) | ([], [one]) => HostLocation::At(one),
            ([], _) => HostLocation::Claimed(all),
            _ => HostLocation::Claimed(present),
        }
    }

    /// Hosts by id, each with its place, whether it is declared, and whether it is observed.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, HostLocation<'_>, bool, bool)> {
        self.hosts.ids().filter_map(|id| {
            let said = self.hosts.get(id)?;
            let (declared, observed) = (said.declared().is_some(), said.observed().next().is_some());
            Some((id, self.host_location(id), declared, observed))
        })
    }

    /// Hosts that several nodes claim.
    pub fn claimed(&self) -> impl Iterator<Item = (HostId, Vec<&Host>)> {
        self.hosts.with_several().filter_map(|id| match self.host_location(id) {
            HostLocation::Claimed(hosts) => Some((id, hosts)),
            HostLocation::Unknown | HostLocation::At(_) => None,
        })
    }

    /// Declares the place of a host, or retracts that.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn declare_host(&mut self, id: HostId, host: Option<Host>) -> Result<(), TopologyError> {
        let before = self.location(id);
        self.hosts.declare(id, host)?;
        self.host_changed(id, before.as_ref());
        Ok(())
    }

    /// Notes that the agent of a node sees a host, or no longer does.
    ///
    /// # Errors
    /// There are too many hosts.
    pub fn observe_host(
        &mut self,
        id: HostId,
        node: &NodeId,
        host: Option<Host>,
    ) -> Result<(), TopologyError> {
        let before = self.location(id);
        self.hosts.observe(id, node, host)?;
        self.host_changed(id, before.as_ref());
        Ok(())
    }

    /// Drops the change of a host whose place was known before the start.
    pub(crate) fn is_no_news(&mut self, host: HostId) {
        self.changes.remove(&Change::Host(host));
    }

    /// Hosts that are observed on a device.
    pub(crate) fn hosts_observed_on(&self, device: &DeviceName) -> impl Iterator<Item = HostId> {
        self.hosts.observed_on(device)
    }

    pub(super) fn location(&self, id: HostId) -> Option<ConnectPoint> {
        self.host(id).map(|host| host.location.clone())
    }

    /// Notes a change of a host's place. Paths to a host stay when another node claims it.
    pub(super) fn host_changed(&mut self, id: HostId, before: Option<&ConnectPoint>) {
        let concerns = match self.host_location(id) {
            HostLocation::At(host) => before != Some(&host.location),
            HostLocation::Unknown => before.is_some(),
            HostLocation::Claimed(_) => false,
        };
        if concerns {
            self.changes.insert(Change::Host(id));
        }
    }
}
