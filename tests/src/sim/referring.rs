//! Nothing is taken away while another thing refers to it, as the hosts themselves see it: what is durable of who needs
//! whom could be wrong in the same way as the job.

use muster_shared::ResourceId;

use super::world::World;

impl World {
    /// A thing has just been taken away.
    pub fn taken_away(&mut self, gone: ResourceId) {
        let wrong = self.still_referred_to(gone);
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }

    fn still_referred_to(&self, gone: ResourceId) -> Option<String> {
        let shared = self.shared.borrow();
        let row = |id: &ResourceId| shared.tables.physical.get(id).and_then(|id| shared.tables.rows.get(id));
        // What a removed node had is nobody's, and what was retained has no row.
        let counts = |id: &ResourceId| row(id).is_some_and(|row| row.lost_from.is_none());
        if !counts(&gone) {
            return None;
        }
        let text = gone.to_string();
        let mut things =
            self.machines.iter().filter(|machine| !machine.scrapped).flat_map(|machine| {
                machine.host.dummies.iter().map(move |(id, values)| (machine, id, values))
            });
        let (machine, by, _) =
            things.find(|(_, id, values)| counts(id) && values.values().any(|value| *value == text))?;
        let (by, gone) = (&row(by)?.name, &row(&gone)?.name);
        Some(format!("{gone} is taken away while {by} on {} refers to it", machine.name))
    }
}
