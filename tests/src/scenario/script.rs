//! A scenario as it is written: every step, with its checks.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use muster_shared::ResourceId;

use super::order::Order;
use super::world::World;
use super::{Scenario, Step};

impl Scenario {
    /// Runs the script; with a seed, any job that waits may be the next.
    ///
    /// # Errors
    /// The step that failed, by number, and why.
    pub fn run(&self, seed: Option<u64>) -> anyhow::Result<()> {
        let order = seed.map_or(Order::AsSent, |seed| Order::AnyJob(super::order::Dice::new(seed)));
        let mut world = World::new(order)?;
        let mut remembered = BTreeMap::new();
        for (number, step) in self.steps.iter().enumerate() {
            perform(&mut world, &mut remembered, step)
                .with_context(|| format!("step {number} ({})", step.title()))?;
        }
        Ok(())
    }
}

fn perform(
    world: &mut World,
    remembered: &mut BTreeMap<String, ResourceId>,
    step: &Step,
) -> anyhow::Result<()> {
    match step {
        Step::Operation(operation) => world.operate(operation)??,
        Step::Jobs(n) => drop(world.run(*n)?),
        Step::Idle => drop(world.run(usize::MAX)?),
        Step::Until { count, resource } => {
            while world.live(None, resource.as_deref()) != *count {
                if world.run(1)? == 0 {
                    bail!("never so: there are {}", world.live(None, resource.as_deref()));
                }
            }
        }
        Step::Verify(content) => world.verify(None, content)?,
        Step::StoreUuid(resource) => {
            remembered.insert(resource.clone(), world.only(None, resource)?);
        }
        Step::UuidSame(resource) => {
            let stored = remembered.get(resource).context("not stored before")?;
            ensure!(*stored == world.only(None, resource)?, "it is another");
        }
        Step::UuidDiffers { resource, from } => {
            let stored = remembered.get(from).context("not stored before")?;
            ensure!(*stored != world.only(None, resource)?, "it is the same");
        }
    }
    Ok(())
}
