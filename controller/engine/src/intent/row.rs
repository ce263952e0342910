//! Resources that are links, hosts and intents. The controller realises them. A link or a host
//! exists at once. An intent's resource waits until the intent is installed; its removal waits
//! until no rule is left.
//!
//! Absent: how an intent is installed or removed (`controller/intent/src/manager/move_rules.rs`).

use std::time::Duration;

use muster_flow::Owner;
use muster_intent::manager::{IntentNo, Wish};
use muster_intent::phase::State;
use muster_intent::topology::ConnectPoint;
use muster_shared::model::Action;
use muster_template::{Desired, Kind, TopologyHost, TopologyLink, VirtualResource};

use crate::engine::Engine;
use crate::record::PackedSpec;
use crate::row::{Role, Row, Slot};
use crate::traversals::Traversals;
use crate::view::View;

/// Bound on the removal of an intent whose devices are away. The stack's own timeout ends the
/// operation earlier.
const GOES_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// A direction of a link.
type Direction = (ConnectPoint, ConnectPoint);

fn directions(link: &TopologyLink) -> Vec<Direction> {
    let there = (link.from.clone(), link.to.clone());
    let back = link.bidirectional.then(|| (link.to.clone(), link.from.clone()));
    [Some(there), back].into_iter().flatten().collect()
}

fn link_of(row: &Row) -> Option<TopologyLink> {
    let spec = row.spec().filter(|_| row.kind == Kind::TopologyLink && row.is_applied())?;
    let Desired::Virtual(VirtualResource::Link(link)) = spec.unpack() else { return None };
    Some(link)
}

fn host_of(row: &Row) -> Option<TopologyHost> {
    let spec = row.spec().filter(|_| row.kind == Kind::TopologyHost && row.is_applied())?;
    let Desired::Virtual(VirtualResource::Host(host)) = spec.unpack() else { return None };
    Some(host)
}

impl Engine {
    /// Declares the host of a row. The MAC address identifies a host.
    fn declare_host(&mut self, slot: Slot, host: &TopologyHost) -> Result<(), String> {
        let id = self.graph().rows[slot].id;
        let owner = self.intents.hosts.get(&host.mac).filter(|owner| **owner != id);
        // A dropped row hands the host to the row that replaces it.
        let other =
            owner.and_then(|owner| self.graph().rows.of_id(*owner)).map(|slot| &self.graph().rows[slot]);
        if let Some(other) = other.filter(|other| other.role != Role::Cleanup && other.dropped().is_none()) {
            return Err(format!(
                "host {} is declared by {}",
                host.mac,
                self.view().owner_text(Owner(other.id))
            ));
        }
        let declared = self.intents.manager.declare_host(host.mac, Some(host.host.clone()));
        declared.map_err(|error| error.to_string())?;
        let old = self.intents.hosts.insert(host.mac, id);
        self.traversals.taken_over(old, id);
        Ok(())
    }

    fn retract_host(&mut self, slot: Slot) {
        let row = &self.graph().rows[slot];
        let id = row.id;
        let Some(host) = host_of(row).filter(|host| self.intents.hosts.get(&host.mac) == Some(&id)) else {
            return;
        };
        self.intents.hosts.remove(&host.mac);
        let _was_known = self.intents.manager.declare_host(host.mac, None);
    }

    /// Declares the link of a row. Replaces what the row declared before.
    pub(crate) fn declare_link(&mut self, slot: Slot, link: &TopologyLink) -> Result<(), String> {
        let row = &self.graph().rows[slot];
        let id = row.id;
        let before = link_of(row).map(|old| directions(&old)).unwrap_or_default();
        let wanted = directions(link);
        for direction in &wanted {
            let owner = self.intents.links.get(direction).filter(|owner| **owner != id);
            // A dropped row hands the link to the row that replaces it.
            let other =
                owner.and_then(|owner| self.graph().rows.of_id(*owner)).map(|slot| &self.graph().rows[slot]);
            if let Some(other) =
                other.filter(|other| other.role != Role::Cleanup && other.dropped().is_none())
            {
                return Err(format!(
                    "the link from {} to {} is declared by {}",
                    direction.0,
                    direction.1,
                    self.view().owner_text(Owner(other.id))
                ));
            }
        }
        for (at, direction) in wanted.iter().enumerate() {
            let (from, to) = direction;
            if let Err(error) = self.intents.manager.declare(from, to, link.traits.clone()) {
                let made =
                    wanted[..at].iter().filter(|made| !before.contains(made)).cloned().collect::<Vec<_>>();
                made.iter().for_each(|made| self.intents.retract(id, made));
                return Err(error.to_string());
            }
            let old = self.intents.links.insert(direction.clone(), id);
            self.traversals.taken_over(old, id);
        }
        before.iter().filter(|old| !wanted.contains(old)).for_each(|old| self.intents.retract(id, old));
        Ok(())
    }

    /// Retracts what the row of a link or host declared.
    pub(crate) fn retract_link_and_host(&mut self, slot: Slot) {
        self.retract_host(slot);
        let row = &self.graph().rows[slot];
        let id = row.id;
        if let Some(link) = link_of(row) {
            directions(&link).iter().for_each(|direction| self.intents.retract(id, direction));
        }
    }

    /// Declares the links and hosts of all rows after a start.
    pub(super) fn declare_links(&mut self) {
        let mut slots: Vec<Slot> = self.graph().rows.slots().collect();
        slots.sort_by_key(|slot| self.graph().rows[*slot].id);
        for slot in slots {
            if let Some(link) = link_of(&self.graph().rows[slot]) {
                // The link was valid when it was accepted.
                let _was_right = self.declare_link(slot, &link);
            }
            if let Some(host) = host_of(&self.graph().rows[slot]) {
                let _was_right = self.declare_host(slot, &host);
            }
        }
    }

    /// Submits the intent of a row.
    pub(crate) fn submit_intent(&mut self, slot: Slot, key: &str, wish: Wish) -> Result<(), String> {
        let id = self.graph().rows[slot].id;
        let known = self.intents.manager.find(key);
        if let Some(no) = known {
            let owner = self.intents.owners.get(&no).copied();
            let row =
                owner.and_then(|owner| self.graph().rows.of_id(owner)).map(|slot| &self.graph().rows[slot]);
            let is_free = owner == Some(id)
                || row.is_some_and(|row| row.role == Role::Cleanup || row.dropped().is_some());
            if !is_free {
                return Err(format!(
                    "intent '{key}' belongs to {}: a key is one intent's",
                    self.view().owner_text(owner.map_or(Owner::OPERATOR, Owner))
                ));
            }
        }
        let new = self.intents.next_number();
        let no = self.intents.manager.submit(key, new, wish).map_err(|refused| refused.to_string())?;
        let old = self.intents.owners.insert(no, id);
        self.traversals.taken_over(old, id);
        Ok(())
    }

    /// Withdraws the intent of a row. Returns how long that may take. `None`: there is nothing to
    /// wait for.
    pub(crate) fn withdraw_intent(&mut self, slot: Slot, farewell: Action) -> Option<Duration> {
        let no = self.view().intent_of(slot)?;
        if farewell == Action::Retain {
            self.intents.owners.remove(&no);
            return None;
        }
        self.intents.manager.remove(no);
        Some(GOES_WITHIN)
    }

    /// The state of an intent changed. Completes or fails a row that waits for it.
    pub(super) fn intent_changed(&mut self, no: IntentNo) {
        let owner = self.intents.owners.get(&no).and_then(|id| self.graph().rows.of_id(*id));
        let waits = |slot: &Slot| {
            let row = &self.graph().rows[*slot];
            row.kind == Kind::Intent
                && row.pauses()
                && !row.is_going()
                && !self.graph().is_before_batch(*slot)
        };
        let Some(slot) = owner.filter(waits) else { return };
        if !self.intents.manager.is_settled(no) {
            return;
        }
        match self.intents.manager.state(no) {
            Some((State::Installed, _)) => {
                self.graph_mut().end_pause(slot);
                self.traversals.jobs.made(slot);
            }
            Some((State::Failed, _)) if !self.intents.manager.may_heal(no) => self.intent_failed(slot),
            _ => self.traversals.jobs.graph.touch(self.traversals.jobs.graph.rows[slot].stack),
        }
    }

    /// Fails the row of an intent, with the intent's reason.
    pub(crate) fn intent_failed(&mut self, slot: Slot) {
        let reason = self.view().intent_reason(slot);
        self.graph_mut().end_pause(slot);
        self.traversals.jobs.fail_row(slot, reason);
    }

    /// The manager has forgotten an intent. Ends a removal that waits for that.
    pub(super) fn intent_gone(&mut self, no: IntentNo) {
        let owner = self.intents.owners.remove(&no).and_then(|id| self.graph().rows.of_id(id));
        let goes = |slot: &Slot| self.graph().rows[*slot].pauses() && self.graph().rows[*slot].is_going();
        if let Some(slot) = owner.filter(goes) {
            self.traversals.unmade(slot);
        }
    }

    /// Declares or submits what the spec of a link, host or intent says.
    pub(crate) fn wanted_virtual(&mut self, slot: Slot, spec: &PackedSpec) -> Result<(), String> {
        let Desired::Virtual(resource) = spec.unpack() else { return Ok(()) };
        match resource {
            VirtualResource::Link(link) => self.declare_link(slot, &link),
            VirtualResource::Host(host) => self.declare_host(slot, &host),
            VirtualResource::Intent { key, wish, .. } => self.submit_intent(slot, &key, wish),
            VirtualResource::Whole
            | VirtualResource::None
            | VirtualResource::Value(..)
            | VirtualResource::Random(..)
            | VirtualResource::Test(..)
            | VirtualResource::Server(..)
            | VirtualResource::Net(..)
            | VirtualResource::TaggedNet(..)
            | VirtualResource::Subnet(..)
            | VirtualResource::Port(..)
            | VirtualResource::Config(..)
            | VirtualResource::WaitHandle
            | VirtualResource::Wait(..)
            | VirtualResource::SlowTest(..)
            | VirtualResource::Bound(..)
            | VirtualResource::Stranger(..) => Ok(()),
        }
    }
}

impl Traversals {
    /// Another row took over what this row declared. The row declares it again if it is wanted;
    /// if it is being removed, the removal is complete.
    fn taken_over(&mut self, old: Option<u64>, new: u64) {
        let old = old.filter(|old| *old != new).and_then(|old| self.jobs.graph.rows.of_id(old));
        let Some(slot) = old else { return };
        self.jobs.graph.rows[slot].set_handed_over(true);
        self.jobs.graph.row_changed(slot, true);
        if self.jobs.graph.rows[slot].pauses() && self.jobs.graph.rows[slot].is_going() {
            self.unmade(slot);
        }
    }
}

impl View<'_> {
    /// The intent of a row, if no other row took it over.
    fn intent_of(&self, slot: Slot) -> Option<IntentNo> {
        let row = &self.graph.rows[slot];
        let spec = row.spec().filter(|_| row.kind == Kind::Intent)?;
        let Desired::Virtual(VirtualResource::Intent { key, .. }) = spec.unpack() else { return None };
        let no = self.intents.manager.find(&key)?;
        (self.intents.owners.get(&no) == Some(&row.id)).then_some(no)
    }

    /// The reason shown for a row that waits for its intent.
    pub(crate) fn intent_reason(&self, slot: Slot) -> String {
        let Some(no) = self.intent_of(slot) else { return "its intent is gone".into() };
        let manager = &self.intents.manager;
        let (key, state) = (manager.key(no).unwrap_or_default(), manager.state(no));
        match state {
            Some((state, Some(reason))) => format!("intent {key} is {}: {reason}", state.as_str()),
            Some((state, None)) => format!("intent {key} is {}", state.as_str()),
            None => format!("intent {key} is gone"),
        }
    }
}
