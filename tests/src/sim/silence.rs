//! "No answer from the agent" is said of no agent that was connected and well: it tells of all jobs that it has.

use std::time::Duration;

use muster_engine::record::EventRecord;

use super::bus::Way;
use super::world::World;

/// Three accounts of an agent, what is allowed beyond them, and what the slowest message takes.
const WELL_FOR: Duration = Duration::from_secs(240);

impl World {
    /// Returns what is wrong with an event that says "no answer from the agent".
    pub fn is_answered(&self, event: &EventRecord) -> Option<String> {
        let (name, physical) =
            event.resource.as_ref().filter(|_| event.reason.contains("no answer from the agent"))?;
        let shared = self.shared.borrow();
        let node = shared.tables.rows.values().find(|row| row.physical == *physical)?.node.as_ref()?;
        let machine = self.machines.iter().find(|machine| machine.name == *node && !machine.scrapped)?;
        let line = self.bus.lines.get(self.bus.registered.get(node)?)?;
        let well_since =
            [line.since, machine.up_since, machine.frozen_until, machine.cut_off_until].into_iter().max()?;
        let well_since = well_since.max(self.standbys.away_until(Way::Up));
        let is_well = !line.broken && !machine.host.is_cut() && machine.is_online();
        (is_well && well_since + WELL_FOR <= self.now)
            .then(|| format!("{name} on {node}, which is connected and well: {}", event.reason))
    }
}
