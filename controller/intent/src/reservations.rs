//! Reservations of intents on links and devices: bandwidth and VLAN labels.
//!
//! A holder is an intent, or a resource group whose intents share what they reserve. On a link a
//! holder counts once, with the largest of its shares. While an intent moves from one path to
//! another it has two shares, and the smaller one costs nothing.
//!
//! The bandwidth taken on a link is asked for most, so it is kept as a sum. Taking and giving back
//! costs as much as is taken.
//!
//! Absent: the refusal of a path for lack of bandwidth (`Gate`, `compile/constrained_path.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::topology::{LinkNo, PortNo, Topology};

/// The labels that a VLAN tag can have.
const LABELS: std::ops::RangeInclusive<u16> = 1..=4094;

/// The holder of a reservation. Intents of one resource group are one holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An intent, by its key.
    Intent(Arc<str>),
    /// A resource group.
    Group(Arc<str>),
}

/// A share: the intent's key and a number that counts its compilations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The key of the intent.
    pub key: Arc<str>,
    /// Counts the compilations.
    pub number: u64,
}

/// Identifies a holder as long as it holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HolderNo(u64);

/// Identifies a share as long as it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ShareNo(u64);

#[derive(Debug)]
struct Taken {
    no: ShareNo,
    holder: HolderNo,
    /// The intent itself, which owns labels.
    owner: HolderNo,
    /// Names of holder and owner, to release their numbers.
    names: [Holder; 2],
    links: Box<[LinkNo]>,
    bandwidth: Option<u64>,
    label: Option<u16>,
    /// Ports where packets with the label come in.
    ports: Box<[PortNo]>,
}

/// Reservations. They are taken and given back by share. Giving a share back twice has no effect.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Bits per second taken, by number of the link.
    taken: Vec<u128>,
    bandwidth: BTreeSet<(LinkNo, HolderNo, u64, ShareNo)>,
    /// Labels by the port where their packets come in. If another cable leads there later, rules of
    /// the first one still count.
    labels: BTreeSet<(PortNo, u16, HolderNo, ShareNo)>,
    shares: BTreeMap<Share, Taken>,
    /// Number and count of shares of each holder.
    holders: BTreeMap<Holder, (HolderNo, usize)>,
    next: u64,
}

impl Ledger {
    /// Counts of shares and holders, of labels, and of bandwidth entries.
    pub fn counts(&self) -> (usize, usize, usize) {
        let taken = self.taken.iter().filter(|taken| **taken > 0).count();
        (self.shares.len() + self.holders.len(), self.labels.len(), self.bandwidth.len() + taken)
    }

    /// Bits per second taken on a link.
    pub fn taken(&self, link: LinkNo) -> u64 {
        let taken = self.taken.get(link.index()).copied().unwrap_or(0);
        u64::try_from(taken).unwrap_or(u64::MAX)
    }

    /// Bits per second that a holder can have on a link: all that others have not taken. `None`:
    /// the link's bandwidth is unknown.
    pub fn offered(&self, topology: &Topology, link: LinkNo, holder: &Holder) -> Option<u64> {
        let holder = self.holders.get(holder).map(|(no, _)| *no);
        let own = holder.map_or(0, |holder| self.largest(link, holder));
        Some(topology.bandwidth(link)?.saturating_sub(self.taken(link).saturating_sub(own)))
    }

    /// Whether a holder can have `wanted` bits per second on a link.
    pub(crate) fn offers(&self, topology: &Topology, link: LinkNo, holder: &Holder, wanted: u64) -> bool {
        let Some(bandwidth) = topology.bandwidth(link) else { return false };
        // The holder's own share is looked up only if it makes a difference.
        let is_free = bandwidth.saturating_sub(self.taken(link)) >= wanted;
        is_free || self.offered(topology, link, holder).is_some_and(|offered| offered >= wanted)
    }

    /// The largest of a holder's shares on a link.
    fn largest(&self, link: LinkNo, holder: HolderNo) -> u64 {
        let own = (link, holder, 0, ShareNo(0))..=(link, holder, u64::MAX, ShareNo(u64::MAX));
        self.bandwidth.range(own).next_back().map_or(0, |(_, _, bandwidth, _)| *bandwidth)
    }

    /// The lowest label that no other intent has at the ends of these links. A label that the
    /// intent has already comes first.
    pub fn label(&self, topology: &Topology, links: &[LinkNo], key: &str) -> Option<u16> {
        let owner = self.holders.get(&Holder::Intent(key.into())).map(|(no, _)| *no);
        let mut is_others = [false; *LABELS.end() as usize + 1];
        let mut own = BTreeSet::new();
        for link in links {
            let port = topology.ends(*link).1;
            let first = (port, 0, HolderNo(0), ShareNo(0));
            let last = (port, u16::MAX, HolderNo(u64::MAX), ShareNo(u64::MAX));
            for (_, label, holder, _) in self.labels.range(first..=last) {
                match Some(*holder) == owner {
                    true => drop(own.insert(*label)),
                    false => is_others[usize::from(*label)] = true,
                }
            }
        }
        let is_free = |label: &u16| !is_others[usize::from(*label)];
        own.into_iter().find(is_free).or_else(|| LABELS.into_iter().find(is_free))
    }

    /// Takes bandwidth and a label on links, even beyond the bandwidth of a link: the compiler has
    /// checked that before.
    pub fn take(
        &mut self,
        topology: &Topology,
        share: Share,
        holder: Holder,
        links: &[LinkNo],
        bandwidth: Option<u64>,
        label: Option<u16>,
    ) {
        let ends = links.iter().filter(|_| label.is_some()).map(|link| topology.ends(*link).1);
        self.hold(share, holder, links, bandwidth, label, ends.collect());
    }

    /// Takes a label at ports, whatever cables are there.
    pub fn take_label(&mut self, share: Share, ports: Box<[PortNo]>, label: u16) {
        let holder = Holder::Intent(share.key.clone());
        self.hold(share, holder, &[], None, Some(label), ports);
    }

    fn hold(
        &mut self,
        share: Share,
        holder: Holder,
        links: &[LinkNo],
        bandwidth: Option<u64>,
        label: Option<u16>,
        ports: Box<[PortNo]>,
    ) {
        self.give_back(&share);
        if bandwidth.is_none() && label.is_none() {
            return;
        }
        let names = [holder, Holder::Intent(share.key.clone())];
        let [holder, owner] = [&names[0], &names[1]].map(|name| self.number(name));
        self.next += 1;
        let no = ShareNo(self.next);
        for link in links {
            if let Some(bandwidth) = bandwidth {
                self.change(*link, holder, |held| held.insert((*link, holder, bandwidth, no)));
            }
        }
        for (port, label) in ports.iter().zip(label.into_iter().cycle()) {
            self.labels.insert((*port, label, owner, no));
        }
        let links = links.into();
        self.shares.insert(share, Taken { no, holder, owner, names, links, bandwidth, label, ports });
    }

    /// The label of a share, and the ports where its packets come in.
    pub fn label_of(&self, share: &Share) -> Option<(u16, &[PortNo])> {
        let taken = self.shares.get(share)?;
        Some((taken.label?, &*taken.ports))
    }

    /// Reservations of a share on each link: bits per second and a label. After a start, a label of
    /// rules left behind is held at ports only and does not show here.
    pub fn held(&self, share: &Share) -> Vec<(LinkNo, Option<u64>, Option<u16>)> {
        let Some(Taken { links, bandwidth, label, .. }) = self.shares.get(share) else { return Vec::new() };
        links.iter().map(|link| (*link, *bandwidth, *label)).collect()
    }

    /// Gives back the bandwidth of a share that no packets use. Its label stays until no rule has
    /// it. Returns the links.
    pub fn give_back_bandwidth(&mut self, share: &Share) -> Box<[LinkNo]> {
        let Some(taken) = self.shares.get_mut(share) else { return Box::default() };
        let (no, holder, label) = (taken.no, taken.holder, taken.label);
        let Some(bandwidth) = taken.bandwidth.take() else { return Box::default() };
        let links = taken.links.clone();
        for link in &links {
            self.change(*link, holder, |held| held.remove(&(*link, holder, bandwidth, no)));
        }
        if label.is_none() {
            self.give_back(share);
        }
        links
    }

    /// Gives back a share. Returns its links.
    pub fn give_back(&mut self, share: &Share) -> Box<[LinkNo]> {
        let Some(taken) = self.shares.remove(share) else { return Box::default() };
        let Taken { no, holder, owner, names, links, bandwidth, label, ports } = taken;
        for link in &links {
            if let Some(bandwidth) = bandwidth {
                self.change(*link, holder, |held| held.remove(&(*link, holder, bandwidth, no)));
            }
        }
        for (port, label) in ports.iter().zip(label.into_iter().cycle()) {
            self.labels.remove(&(*port, label, owner, no));
        }
        for name in names {
            if let Some((_, shares)) = self.holders.get_mut(&name) {
                *shares -= 1;
                if *shares == 0 {
                    self.holders.remove(&name);
                }
            }
        }
        links
    }

    fn change(
        &mut self,
        link: LinkNo,
        holder: HolderNo,
        how: impl FnOnce(&mut BTreeSet<(LinkNo, HolderNo, u64, ShareNo)>) -> bool,
    ) {
        let before = self.largest(link, holder);
        let _has_changed = how(&mut self.bandwidth);
        let after = self.largest(link, holder);
        if self.taken.len() <= link.index() {
            self.taken.resize(link.index() + 1, 0);
        }
        let taken = &mut self.taken[link.index()];
        *taken = *taken + u128::from(after) - u128::from(before);
    }

    fn number(&mut self, holder: &Holder) -> HolderNo {
        self.next += 1;
        let new = HolderNo(self.next);
        let (no, shares) = self.holders.entry(holder.clone()).or_insert((new, 0));
        *shares += 1;
        *no
    }

    /// Whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        let is_nothing = self.bandwidth.is_empty() && self.labels.is_empty() && self.shares.is_empty();
        is_nothing && self.holders.is_empty() && self.taken.iter().all(|taken| *taken == 0)
    }
}
