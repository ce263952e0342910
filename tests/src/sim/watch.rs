//! What others do to a server's network behind Muster's back, and what agents see of it.

use muster_agent_core::{Input, Look, Looked};

use super::world::World;

impl World {
    /// How these stand at this moment.
    pub(super) fn looked(&mut self, at: usize, number: u64, looks: Vec<Look>) {
        let host = &self.machines[at].host;
        let looked = looks.into_iter().map(|look| Looked {
            resource: look.resource,
            generation: look.generation,
            found: Ok(host.check(look.resource, &look.spec)),
        });
        let looked = looked.collect();
        self.tell_agent(at, Input::Looked { number, looked });
    }
}
