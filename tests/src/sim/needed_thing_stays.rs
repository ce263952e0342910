//! Nothing is taken away while another thing refers to it, as the hosts themselves see it: the durable records of needs
//! could be wrong in the same way as the job.

use std::collections::BTreeMap;

use muster_engine::record::ResourceRecord;
use muster_shared::ResourceId;
use muster_shared::model::Job;

use super::host::Host;
use super::plan::{Value, What, split};
use super::store::Tables;
use super::world::World;

impl World {
    /// A job has just taken its thing away. One that a store which went back does not know was right when it was sent.
    pub fn taken_away(&mut self, job: &Job) {
        let wrong = if self.history.is_lost(job) { None } else { self.still_referred_to(job.resource) };
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }

    fn still_referred_to(&self, gone: ResourceId) -> Option<String> {
        let shared = self.shared.borrow();
        let gone = row(&shared.tables, gone)?;
        let id = gone.physical.to_string();
        let machines = self.machines.iter().filter(|machine| !machine.scrapped);
        let all = machines.flat_map(|machine| {
            let ids = machine.host.dummies.keys().chain(machine.host.scripts.keys());
            ids.filter_map(move |thing| Some((machine, thing, machine.host.values_of(*thing)?)))
        });
        for (machine, thing, values) in all {
            let mut keys = values.iter().filter(|(_, value)| **value == id).map(|(key, _)| *key).peekable();
            let by = keys.peek().and_then(|_| row(&shared.tables, *thing));
            let Some(by) = by else { continue };
            // A restored store never heard of a resource that it does not know, and one that a server has again has ended since.
            if self.has_what_is_unknown(&machine.name, *thing) || self.is_set_back(machine, *thing) {
                continue;
            }
            if keys.any(|key| self.refers_itself(by, key)) {
                return Some(format!(
                    "{} is taken away while {} on {} refers to it",
                    gone.name, by.name, machine.name
                ));
            }
        }
        None
    }

    /// A job begins that changes a thing: until its outcome is known, the thing needs what it refers to now.
    pub fn forgets_needs(&self, at: usize, job: &Job) -> Option<String> {
        let shared = self.shared.borrow();
        let by = row(&shared.tables, job.resource).filter(|_| job.action.applies())?;
        // A restored store never heard of a resource that it does not know, and one that a server has again has ended since.
        let machine = &self.machines[at];
        if self.is_unknown(at, job) || self.is_set_back(machine, job.resource) {
            return None;
        }
        let values = machine.host.values_of(job.resource)?;
        let needs = shared.tables.edges.get(&by.id).map(Vec::as_slice).unwrap_or_default();
        let forgotten = values.iter().find_map(|(key, value)| {
            let target = row(&shared.tables, ResourceId(value.parse().ok()?))?;
            (!needs.contains(&target.id) && self.refers_itself(by, key)).then_some(target)
        })?;
        Some(format!(
            "{} is being changed and refers to {}, which it is not said to need any more",
            by.name, forgotten.name
        ))
    }

    /// Whether that value was the id of another resource whenever it was one. What comes as an attribute of a third one
    /// may be the id of something that only that one needs.
    fn refers_itself(&self, by: &ResourceRecord, key: &str) -> bool {
        let shared = self.shared.borrow();
        let revisions = shared.tables.revisions.range((by.stack, 0)..=(by.stack, u32::MAX));
        let mut found = false;
        for plan in revisions.filter_map(|(_, text)| shared.plans.get(&text.name)) {
            let value = match plan.resources.get(split(&by.name).0).map(|resource| &resource.what) {
                Some(What::Dummy { values, .. }) => values.get(key),
                Some(What::Script(script)) if key == "a" => Some(&script.input),
                _ => continue,
            };
            match value {
                Some(Value::Attribute(..) | Value::All(..) | Value::Address(_)) => return false,
                Some(Value::Id(_)) => found = true,
                Some(Value::Text(_) | Value::Hidden | Value::Own) | None => {}
            }
        }
        found
    }
}

impl Host {
    /// Returns the values that a dummy was made of, or that a script was given.
    fn values_of(&self, resource: ResourceId) -> Option<BTreeMap<&str, &str>> {
        let all = match self.scripts.get(&resource) {
            Some(ran) => &ran.inputs,
            None => self.dummies.get(&resource)?,
        };
        Some(all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
    }
}

/// Returns the row of a resource. One that a removed node had is nobody's, and one that was retained has no row.
fn row(tables: &Tables, id: ResourceId) -> Option<&ResourceRecord> {
    let row = tables.physical.get(&id).and_then(|id| tables.rows.get(id))?;
    (!row.is_lost()).then_some(row)
}
