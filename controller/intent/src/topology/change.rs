//! The changes since the tracker last looked. A thing that changed back is not among the changes.

use std::collections::BTreeSet;

use super::{LinkNo, LinkTraits, PortNo, Topology};
use crate::host::HostId;

/// A change of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Packets now pass.
    LinkUp(LinkNo),
    /// Packets no longer pass.
    LinkDown(LinkNo),
    /// The traits changed; packets pass as before.
    LinkChanged(LinkNo),
    /// The port can now be an end point.
    PortUp(PortNo),
    /// The port can no longer be an end point.
    PortDown(PortNo),
    /// The port no longer has a link.
    PortFree(PortNo),
    /// The port now has a link.
    PortInner(PortNo),
    /// The host has appeared, moved or gone.
    Host(HostId),
}

impl Topology {
    /// Changes with everything that may change a path.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes since the last call. A thing that changed back is not among them.
    pub fn take_changes(&mut self) -> BTreeSet<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Applies `how`, and notes the changes of these ports and links, and of the ports' links.
    pub(super) fn change(&mut self, ports: &[PortNo], links: &[LinkNo], how: impl FnOnce(&mut Self)) {
        let mut touched: BTreeSet<LinkNo> = links.iter().copied().collect();
        for port in ports {
            let state = &self.ports[port.0 as usize];
            touched.extend(state.out.iter().chain(&state.into));
        }
        let before: Vec<bool> = touched.iter().map(|link| self.passes(*link)).collect();
        let ends: BTreeSet<PortNo> = links.iter().flat_map(|link| <[_; 2]>::from(self.ends(*link))).collect();
        let inner: Vec<bool> = ends.iter().map(|port| self.is_inner(*port)).collect();
        let up: Vec<bool> = ports.iter().map(|port| self.is_up(*port)).collect();
        let traits: Vec<LinkTraits> = links.iter().map(|link| self.traits(*link)).collect();
        how(self);
        for (link, before) in touched.into_iter().zip(before) {
            match (before, self.passes(link)) {
                (false, true) => self.note(Change::LinkUp(link), Change::LinkDown(link)),
                (true, false) => self.note(Change::LinkDown(link), Change::LinkUp(link)),
                (true, true) | (false, false) => {}
            }
        }
        for (port, before) in ports.iter().zip(up) {
            match (before, self.is_up(*port)) {
                (false, true) => self.note(Change::PortUp(*port), Change::PortDown(*port)),
                (true, false) => self.note(Change::PortDown(*port), Change::PortUp(*port)),
                (true, true) | (false, false) => {}
            }
        }
        for (port, was_inner) in ends.into_iter().zip(inner) {
            match (was_inner, self.is_inner(port)) {
                (true, false) => self.note(Change::PortFree(port), Change::PortInner(port)),
                (false, true) => self.note(Change::PortInner(port), Change::PortFree(port)),
                (true, true) | (false, false) => {}
            }
        }
        for (link, before) in links.iter().zip(traits) {
            if before != self.traits(*link) {
                self.changes.insert(Change::LinkChanged(*link));
                self.version += 1;
            }
        }
    }

    /// Notes a change. A change and its opposite before the next look cancel out: packets were lost
    /// in between, but the paths are the same.
    fn note(&mut self, change: Change, opposite: Change) {
        // Ports without links are on no path.
        if let Change::LinkUp(_) | Change::LinkDown(_) | Change::LinkChanged(_) = change {
            self.version += 1;
        }
        if !self.changes.remove(&opposite) {
            self.changes.insert(change);
        }
    }
}
