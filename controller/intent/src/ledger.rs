//! What intents hold of links and devices: bandwidth, VLAN labels, numbers of groups.
//!
//! A holder is an intent, or a resource group whose intents share what they reserve: on a link a holder takes as much as
//! the largest of its shares, once. While an intent moves from one path to another it has two shares, of which the
//! smaller costs nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::{LinkNo, Topology};

/// The labels that a VLAN tag can have.
const LABELS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Who takes; intents of one resource group are one holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An intent by its key.
    Intent(Box<str>),
    /// A resource group.
    Group(Box<str>),
}

/// Whose share it is: the intent's key, and the number of what it was compiled to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The intent.
    pub key: Box<str>,
    /// Counts with each time that it is compiled.
    pub number: u64,
}

/// What is held. Taken and given back by share: a share that was given back is not given back again.
#[derive(Debug, Default)]
pub struct Ledger {
    bandwidth: BTreeMap<LinkNo, BTreeMap<Holder, BTreeMap<Share, u64>>>,
    labels: BTreeMap<LinkNo, BTreeMap<u16, BTreeSet<Share>>>,
    /// Where each share is.
    shares: BTreeMap<Share, (Holder, Vec<LinkNo>)>,
}

impl Ledger {
    /// Bits per second of a link that are taken.
    pub fn taken(&self, link: LinkNo) -> u64 {
        let largest = |shares: &BTreeMap<Share, u64>| shares.values().copied().max().unwrap_or(0);
        self.bandwidth.get(&link).into_iter().flat_map(BTreeMap::values).map(largest).sum()
    }

    /// Bits per second that a holder can have on a link: what nobody else has. None: its bandwidth is not known.
    pub fn offered(&self, topology: &Topology, link: LinkNo, holder: &Holder) -> Option<u64> {
        let own = self.bandwidth.get(&link).and_then(|holders| holders.get(holder));
        let own = own.and_then(|shares| shares.values().copied().max()).unwrap_or(0);
        Some(topology.bandwidth(link)?.saturating_sub(self.taken(link) - own))
    }

    /// The lowest label that no other intent has on any of these links; one that the intent itself has on all of them
    /// comes first.
    pub fn label(&self, links: &[LinkNo], key: &str) -> Option<u16> {
        let is_free = |label: &u16| {
            links.iter().all(|link| {
                let held = self.labels.get(link).and_then(|labels| labels.get(label));
                held.is_none_or(|shares| shares.iter().all(|share| &*share.key == key))
            })
        };
        let own = links.first().and_then(|link| self.labels.get(link));
        let mut own = own.into_iter().flatten().filter(|(_, shares)| shares.iter().any(|s| &*s.key == key));
        own.find_map(|(label, _)| Some(*label).filter(is_free)).or_else(|| LABELS.into_iter().find(is_free))
    }

    /// Takes bandwidth and a label on links. What is beyond the links' own is taken all the same: whoever compiles has
    /// looked before.
    pub fn take(
        &mut self,
        share: Share,
        holder: Holder,
        links: &[LinkNo],
        bandwidth: Option<u64>,
        label: Option<u16>,
    ) {
        self.give_back(&share);
        for link in links {
            if let Some(bandwidth) = bandwidth {
                let holders = self.bandwidth.entry(*link).or_default();
                holders.entry(holder.clone()).or_default().insert(share.clone(), bandwidth);
            }
            if let Some(label) = label {
                let labels = self.labels.entry(*link).or_default();
                labels.entry(label).or_default().insert(share.clone());
            }
        }
        if bandwidth.is_some() || label.is_some() {
            self.shares.insert(share, (holder, links.to_vec()));
        }
    }

    /// What a share has of each link: bits per second, a label.
    pub fn held(&self, share: &Share) -> Vec<(LinkNo, Option<u64>, Option<u16>)> {
        let Some((holder, links)) = self.shares.get(share) else { return Vec::new() };
        let of = |link: &LinkNo| {
            let bandwidth =
                self.bandwidth.get(link).and_then(|holders| holders.get(holder)?.get(share)).copied();
            let labels = self.labels.get(link).into_iter().flatten();
            let label =
                labels.into_iter().find(|(_, shares)| shares.contains(share)).map(|(label, _)| *label);
            (*link, bandwidth, label)
        };
        links.iter().map(of).collect()
    }

    /// All that a share has. Whether it had something.
    pub fn give_back(&mut self, share: &Share) -> bool {
        let Some((holder, links)) = self.shares.remove(share) else { return false };
        for link in links {
            if let Some(holders) = self.bandwidth.get_mut(&link) {
                if let Some(shares) = holders.get_mut(&holder) {
                    shares.remove(share);
                }
                holders.retain(|_, shares| !shares.is_empty());
                if holders.is_empty() {
                    self.bandwidth.remove(&link);
                }
            }
            if let Some(labels) = self.labels.get_mut(&link) {
                labels.values_mut().for_each(|shares| {
                    shares.remove(share);
                });
                labels.retain(|_, shares| !shares.is_empty());
                if labels.is_empty() {
                    self.labels.remove(&link);
                }
            }
        }
        true
    }

    /// Nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.bandwidth.is_empty() && self.labels.is_empty() && self.shares.is_empty()
    }
}
