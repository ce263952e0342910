//! Servers that operators see to by hand. Work that was out goes on, and nothing new begins until they have done.

use std::time::Duration;

use muster_engine::Request;
use muster_engine::record::{NodeRecord, ResourceRecord, Status};
use muster_shared::NodeId;
use muster_shared::model::Job;

use super::machine::Machine;
use super::shared::Shared;
use super::world::{Event, World};

/// The pause before an operator asks again.
const AGAIN: Duration = Duration::from_secs(2);

impl World {
    /// An operator puts a server into maintenance, or ends that.
    pub fn maintainer_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.operators.maintenance.millis(1000, 120_000);
        self.later(next, Event::Maintainer);
        let there = |machine: &Machine| machine.joined && !machine.scrapped;
        let ats: Vec<usize> = (0..self.machines.len()).filter(|at| there(&self.machines[*at])).collect();
        if ats.is_empty() || !self.can_be_asked() {
            return;
        }
        let dice = &mut self.operators.maintenance;
        let at = *dice.pick(&ats);
        let (on, forgets, long) = (dice.below(4) > 0, dice.one_in(5), dice.millis(1000, 150_000));
        self.asks_for_maintenance(at, on);
        if on && !forgets {
            self.later(long, Event::MaintenanceEnds(at));
        }
    }

    /// Ends the maintenance of this server, or of the one that came in its place.
    pub fn maintenance_ends(&mut self, at: usize) {
        let name = &self.machines[at].name;
        let is_on = self.shared.borrow().tables.nodes.get(name).is_some_and(|node| node.maintenance);
        if !is_on {
            return;
        }
        if self.can_be_asked() {
            self.asks_for_maintenance(at, false);
        }
        if self.shared.borrow().tables.nodes.get(&self.machines[at].name).is_some_and(|node| node.maintenance)
        {
            self.later(AGAIN, Event::MaintenanceEnds(at));
        }
    }

    fn asks_for_maintenance(&mut self, at: usize, on: bool) {
        let node = self.machines[at].name.clone();
        let what = if on { "maintenance on" } else { "maintenance off" };
        self.tries(what, Request::Maintenance { node, on });
    }

    /// The faults are over, and so is the work on servers.
    pub fn everybody_leaves_maintenance(&mut self) {
        for at in 0..self.machines.len() {
            self.later(Duration::ZERO, Event::MaintenanceEnds(at));
        }
    }

    /// Returns a resource that waits although nothing holds it back any more.
    pub(super) fn waits_for_nothing(&self) -> Option<String> {
        let site = self.controller.turns.as_ref()?.view();
        let is_there = |name: &str| self.machines.iter().any(|it| !it.scrapped && it.name.as_str() == name);
        let rows = site.stack_views().into_iter().filter_map(|stack| {
            let name = stack.name.parse().ok()?;
            site.resource_views(&name, true)
        });
        let waits = ["maintenance", "queued", "node_away"];
        let mut waiting = rows.flatten().filter(|row| waits.contains(&&*row.phase) && is_there(&row.node));
        waiting.next().map(|row| format!("nothing is under way, and this waits: {row:?}"))
    }
}

impl Shared {
    /// A job must not leave for a node that nobody is to touch, unless its agent may have it.
    pub fn is_held_back(&mut self, node: &NodeId, job: &Job) -> Option<String> {
        let is_new = self.may_have.insert(job.key());
        let is_on = self.tables.nodes.get(node).is_some_and(|node| node.maintenance);
        let wrong = is_new && is_on && self.maintained.contains(node);
        wrong.then(|| {
            let key = job.key();
            format!("{:?} {key:?} is sent to {node}, which is in maintenance", job.action)
        })
    }

    /// Counts that maintenance of a node begins or ends, and what is waiting, out or different then.
    pub fn maintenance_went(&mut self, was: Option<&NodeRecord>, is: &NodeRecord) {
        let was = was.is_some_and(|was| was.maintenance);
        if was == is.maintenance {
            return;
        }
        let waits = |row: &&ResourceRecord| {
            let progress = &row.progress;
            let is_open = progress.status == Some(Status::InProgress) && !progress.in_flight;
            row.node.as_ref() == Some(&is.name) && is_open && progress.hook.is_none()
        };
        let here = |row: &&ResourceRecord| row.node.as_ref() == Some(&is.name) && !row.is_lost();
        let rows = || self.tables.rows.values().filter(here);
        let word = if is.maintenance { "begins" } else { "ends" };
        let mut what = vec![format!("maintenance {word}")];
        if rows().any(|row| waits(&row)) {
            what.push(format!("maintenance {word} with work that waits"));
        }
        if rows().any(|row| row.progress.in_flight) {
            what.push(format!("maintenance {word} with work that is out"));
        }
        if rows().any(|row| row.progress.observed.differs()) {
            what.push(format!("maintenance {word} with drift"));
        }
        what.into_iter().for_each(|what| self.counts.add(what));
    }

    /// A turn is over.
    pub fn remember_maintained(&mut self) {
        let nodes = self.tables.nodes.values().filter(|node| node.maintenance);
        self.maintained = nodes.map(|node| node.name.clone()).collect();
    }
}
