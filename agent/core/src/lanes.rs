//! One lane per kind of work: its jobs run one after the other in order of arrival; lanes do not wait for
//! each other.
//!
//! Absent: which lane a type has (`DesiredState::lane`, `shared/src/model/types.rs`), and what else keeps a job
//! from its turn (`jobs/begin.rs`).

use std::collections::BTreeMap;

use muster_shared::ResourceId;
use muster_shared::model::Lane;

use crate::ledger::Order;

#[derive(Debug, Default)]
struct Queue {
    running: Option<ResourceId>,
    waiting: BTreeMap<Order, ResourceId>,
}

#[derive(Debug, Default)]
pub struct Lanes(BTreeMap<Lane, Queue>);

impl Lanes {
    /// Queues a job in its place. Jobs that arrived later run later, even if they could have started before.
    pub fn enqueue(&mut self, lane: Lane, order: Order, resource: ResourceId) {
        self.0.entry(lane).or_default().waiting.insert(order, resource);
    }

    /// Removes a job from the lane before its turn.
    pub fn withdraw(&mut self, lane: Lane, order: Order) {
        if let Some(queue) = self.0.get_mut(&lane) {
            queue.waiting.remove(&order);
        }
    }

    /// The next job of a lane that is idle and not `held`. The job counts as running until
    /// [`Lanes::release`]. Jobs for which `waits` returns true keep their place.
    pub fn next(
        &mut self,
        held: Option<Lane>,
        mut waits: impl FnMut(Order, ResourceId) -> bool,
    ) -> Option<ResourceId> {
        let free = self.0.iter_mut().filter(|(lane, queue)| queue.running.is_none() && held != Some(**lane));
        free.map(|(_, queue)| queue).find_map(|queue| {
            let next = queue.waiting.iter().find(|(order, resource)| !waits(**order, **resource));
            let order = next.map(|(order, _)| *order)?;
            queue.running = queue.waiting.remove(&order);
            queue.running
        })
    }

    pub fn is_busy(&self, lane: Lane) -> bool {
        self.running_in(lane).is_some()
    }

    pub fn running_in(&self, lane: Lane) -> Option<ResourceId> {
        self.0.get(&lane).and_then(|queue| queue.running)
    }

    /// The jobs that run now.
    pub fn running(&self) -> impl Iterator<Item = ResourceId> {
        self.0.values().filter_map(|queue| queue.running)
    }

    /// The job ended.
    pub fn release(&mut self, resource: ResourceId) {
        for queue in self.0.values_mut() {
            if queue.running == Some(resource) {
                queue.running = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> ResourceId {
        ResourceId(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn one_at_a_time_in_order_and_lanes_do_not_wait_for_each_other() {
        let any = |_, _| false;
        let mut lanes = Lanes::default();
        lanes.enqueue(Lane::Service, Order(3), id(3));
        lanes.enqueue(Lane::Service, Order(1), id(1));
        lanes.enqueue(Lane::Service, Order(2), id(2));
        lanes.enqueue(Lane::Network, Order(4), id(4));
        lanes.withdraw(Lane::Service, Order(2));
        assert_eq!(lanes.next(Some(Lane::Network), any), Some(id(1)), "a lane that is held gives none");
        assert_eq!([lanes.next(None, any), lanes.next(None, any)], [Some(id(4)), None]);
        lanes.release(id(4));
        assert_eq!(lanes.next(None, any), None, "the network lane is empty, the service lane is busy");
        lanes.release(id(1));
        assert_eq!(lanes.next(None, any), Some(id(3)));
    }

    #[test]
    fn one_that_waits_keeps_its_place() {
        let mut lanes = Lanes::default();
        lanes.enqueue(Lane::Service, Order(1), id(1));
        lanes.enqueue(Lane::Service, Order(2), id(2));
        assert_eq!(lanes.next(None, |order, _| order == Order(1)), Some(id(2)));
        lanes.release(id(2));
        assert_eq!(lanes.next(None, |_, resource| resource == id(1)), None);
        assert_eq!(lanes.next(None, |_, _| false), Some(id(1)));
    }
}
