//! Entries that operators remove from a device: by id, all of them, or the table alone.
//!
//! Absent on purpose: purging because a device or a node is away. A device that returns is compared then. Absent: how
//! the agent learns that its table is forgotten (`forget.rs`).

use std::collections::BTreeSet;

use muster_shared::model::flow::{DeviceName, FlowId};

use crate::device::Flows;
use crate::device_report::Peer;
use crate::entry::Kept;
use crate::operation::{Begun, FlowAction, FlowOp, FlowWrite};
use crate::owner::Owner;
use crate::site::{Refused, Turn};

impl Flows {
    /// Deletes entries of a device by their ids.
    ///
    /// # Errors
    /// There is no such device or rule, or operators do not own a rule.
    pub fn delete(
        &mut self,
        turn: &mut Turn<'_>,
        device: DeviceName,
        ids: Vec<FlowId>,
        confirm: Option<u32>,
    ) -> Result<Begun, Refused> {
        let key = self.known_device(turn.site, &device)?;
        let Some(known) = self.get(key) else { return Ok(Begun::default()) };
        if let Some(id) = ids.iter().find(|id| known.table.get(**id).is_none()) {
            return Err(Refused::NotFound(format!(
                "device '{device}' has no rule {id}: see 'muster flow list {device}'"
            )));
        }
        let ops = ids.into_iter().collect::<BTreeSet<_>>().into_iter().map(FlowOp::Remove).collect();
        self.begin(turn, FlowAction::Delete, vec![vec![FlowWrite { device, ops }]], confirm)
    }

    /// Deletes all entries of a device that operators own. `forget`: empties the table only, and
    /// the rules stay on the device.
    ///
    /// # Errors
    /// There is no such device, or a table to forget has rules of a stack.
    pub fn purge(
        &mut self,
        turn: &mut Turn<'_>,
        device: DeviceName,
        forget: bool,
        confirm: Option<u32>,
    ) -> Result<Begun, Refused> {
        let key = self.known_device(turn.site, &device)?;
        let Some(known) = self.get(key) else { return Ok(Begun::default()) };
        if forget {
            // No entry can be removed from a removed server, so entries of intents do not count.
            let is_gone = !turn.site.has_joined(&device.node);
            let is_left = |owner: Owner| is_gone && owner.as_intent().is_some();
            let has_stack =
                |owner: &Owner| !owner.is_any_operator() && !turn.site.is_lost(*owner) && !is_left(*owner);
            let owner = known.table.owners().map(|(owner, _)| owner).find(has_stack);
            let owned = owner.and_then(|owner| Some((known.table.owned(owner).next()?, owner)));
            if let Some((id, owner)) = owned {
                return Err(Refused::Conflict(format!(
                    "rule {id} on {device} belongs to {}: a table is forgotten when no stack has rules in it",
                    turn.site.describe(owner)
                )));
            }
            return self.forget_device(turn, key);
        }
        let is_theirs = |kept: &Kept| kept.owner.is_any_operator() && !kept.removing;
        let ids = known.table.iter().filter(|(_, kept)| is_theirs(kept)).map(|(id, _)| id);
        let ids: BTreeSet<FlowId> = ids.collect();
        let ops = ids.into_iter().map(FlowOp::Remove).collect();
        let writes = vec![vec![FlowWrite { device: device.clone(), ops }]];
        let mut begun = self.begin(turn, FlowAction::Purge, writes, confirm)?;
        let is_there = self.peers.get(&device.node).is_some_and(Peer::is_there);
        if !self.has_ended(begun.operation) && !is_there {
            begun.warnings.push(format!("if it never comes: 'muster flow purge --forget {device}'"));
        }
        Ok(begun)
    }
}
