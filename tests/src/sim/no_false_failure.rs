//! Checks runs without faults: no resource fails but for a reason that an operator, its plan or a timeout gave. A
//! resource that waits for its turn, for its content or for a slow line has not failed.
//!
//! Absent: stacks, which fail with their resources or by their own time. The check does not know whether a reason is
//! true of this very resource, but for servers that were never cut off.

use muster_engine::record::{EventRecord, Status};
use muster_shared::ResourceId;

use super::fault::Level;
use super::world::World;

/// Reasons that a plan gives: a dummy that is to fail, a rule at a port that is not there, a claim that has another
/// owner, an address or a network that is not free, an intent that no path can carry, a count that is a name.
const BY_ITS_PLAN: [&str; 13] = [
    "told to fail",
    "has no port nope",
    "has one owner",
    "intent ",
    "no address is free",
    "is in use by the port",
    "cannot be a port's address",
    "is asked for twice",
    "the port ",
    "there is no network",
    "still has ports",
    "is restricted by the environment",
    "properties.count: want a whole number",
];
/// Reasons that operators give: they signal, cancel, begin something else, mark a resource or abort a rollout. And one
/// that others give: they leave rules on a switch.
const BY_OTHERS: [&str; 7] = [
    "Signal ",
    "signals received",
    "was withdrawn",
    "interrupted: a cancel or a newer operation",
    "marked unhealthy",
    "its rollout was aborted",
    "there is a rule of somebody else",
];
/// Reasons of a server that operators have revoked: it joins again with nothing.
const WITH_NOTHING: [&str; 2] = ["its server has lost it, and is not selected any more", "not as desired:"];
/// The reason of a change that cuts its server off.
const CUT_OFF: &str = "the controller was not reached again";

impl World {
    /// Returns a resource that failed although nobody had told it to, in a run without faults.
    pub fn fails_untold(&self, event: &EventRecord) -> Option<String> {
        let (name, physical) = event.resource.as_ref()?;
        if self.options.faults != Level::None || event.status != Status::Failed.as_str() {
            return None;
        }
        let is_of = |whys: &[&str]| whys.iter().any(|why| event.reason.contains(why));
        let is_told = is_of(&BY_ITS_PLAN)
            || is_of(&BY_OTHERS)
            || is_of(&WITH_NOTHING) && self.is_not_there(*physical)
            || is_of(&[CUT_OFF]) && self.was_cut_off(*physical);
        if is_told {
            return None;
        }
        Some(format!("{name} is FAILED, and nobody has told it to: {}", event.reason))
    }

    /// Returns whether the server's agent has not made the resource.
    fn is_not_there(&self, resource: ResourceId) -> bool {
        let entries = self.machines.iter().filter(|machine| !machine.scrapped);
        let mut entries = entries.filter_map(|machine| machine.disk.entries.get(&resource));
        !entries.any(|entry| entry.applied.is_some())
    }

    /// Returns whether the resource's server was cut off, by this change or by a rule that was tried together with it.
    /// A row that went in the same turn does not say where it was: then any server counts.
    fn was_cut_off(&self, resource: ResourceId) -> bool {
        let shared = self.shared.borrow();
        let row = shared.tables.physical.get(&resource).and_then(|id| shared.tables.rows.get(id));
        let node = row.and_then(|row| row.node.as_ref());
        self.machines.iter().any(|machine| machine.cuts > 0 && node.is_none_or(|node| *node == machine.name))
    }
}
