//! A link lost its carrier, or found it again: an event of the stack whose resource has the link.
//!
//! Absent: when an agent reports it (`agent/core/src/facts.rs`), and how often events of one resource are
//! written (`drift/drift_report.rs`).

use std::collections::BTreeMap;

use muster_shared::model::{Claim, ClaimKind, Facts};

use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::node::facts::NodeFacts;
use crate::row::Slot;

/// Links named in one event.
const LINKS_NAMED: usize = 10;

/// Links of a row whose carrier changed, with the carrier that was reported last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToldCarriers(BTreeMap<Box<str>, bool>);

impl ToldCarriers {
    /// The words for the links whose carrier differs from the one reported last.
    pub fn changes(self, facts: &NodeFacts) -> impl Iterator<Item = String> {
        self.0.into_iter().take(LINKS_NAMED).filter_map(|(link, was)| {
            let is = facts.carrier(&link).filter(|is| *is != was)?;
            Some(format!("carrier {} on {link}", if is { "found" } else { "lost" }))
        })
    }
}

impl Jobs {
    /// Compares the carriers of links in both lists. A link in only one of them has appeared or gone.
    pub(crate) fn compare_carriers(&mut self, key: NodeKey, before: &Facts, now: &Facts) {
        let was: BTreeMap<&str, bool> =
            before.links.iter().map(|link| (link.name.as_str(), link.carrier)).collect();
        for link in &now.links {
            let Some(was) = was.get(link.name.as_str()).copied().filter(|was| *was != link.carrier) else {
                continue;
            };
            // A network mapping may name the link by its MAC address.
            let mac = link.mac.map(|mac| muster_shared::mac::text(&mac));
            let mut names = [Some(link.name.clone()), mac].into_iter().flatten();
            let owner = |name| self.claims.owner(key, &Claim { kind: ClaimKind::Link, key: name });
            if let Some(slot) = names.find_map(owner) {
                self.carrier_changed(slot, &link.name, was);
            }
        }
    }

    fn carrier_changed(&mut self, slot: Slot, link: &str, was: bool) {
        let row = &mut self.graph.rows[slot];
        // The row's own job takes links up and down.
        if row.task().is_some() || row.is_lost() {
            return;
        }
        row.drift_event_or_new().carriers().0.entry(link.into()).or_insert(was);
        self.tell_soon(slot);
    }
}
