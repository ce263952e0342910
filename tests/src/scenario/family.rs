//! The interleavings of a scenario: its operations, each arriving after every possible number of jobs.
//!
//! The end must match the operations alone, so the script's own checks are left out: reality is what the last operation
//! asked for, with one thing for each name, every row settled, and the stack COMPLETE or gone. Then an update to what
//! is there runs no job, and a delete leaves nothing.

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use muster_engine::Refusal;

use super::order::{Dice, Order};
use super::world::World;
use super::{Operation, Scenario, Step, Wish};

/// A run of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// For each operation but the first: so many jobs after the one before, or when nothing is left to do.
    pub arrivals: Vec<Option<usize>>,
    /// A seed for the order of jobs and messages; else as they were sent.
    pub order: Option<u64>,
}

/// The bounds of a walk through a family.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Orders that each interleaving is run in, beside the one in which things were sent.
    pub orders: u64,
    /// The step between the moments that are taken when two operations interrupt.
    pub stride: usize,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrive = |arrival: &Option<usize>| arrival.map_or("idle".to_owned(), |jobs| jobs.to_string());
        let arrivals: Vec<String> = self.arrivals.iter().map(arrive).collect();
        write!(f, "--arrive {}", if arrivals.is_empty() { "idle".into() } else { arrivals.join(",") })?;
        self.order.map_or(Ok(()), |seed| write!(f, " --order {seed}"))
    }
}

impl Scenario {
    /// Runs the whole family; `seen` is told of each run. Nobody has to know beforehand how many jobs an
    /// operation takes: it arrives later and later until the one before is found to have ended.
    pub fn interleave(&self, bounds: Bounds, seen: &mut dyn FnMut(&Variant, anyhow::Result<()>)) {
        let after_first = self.interrupting();
        let mut walk = Walk { scenario: self, bounds, seen };
        let idle = vec![None; after_first];
        walk.run(idle.clone());
        for i in 0..after_first {
            let mut arrivals = idle.clone();
            for jobs in 0.. {
                arrivals[i] = Some(jobs);
                if walk.run(arrivals.clone()) <= i {
                    break;
                }
                for j in i + 1..after_first {
                    walk.second(arrivals.clone(), j, (jobs + j) % bounds.stride.max(1));
                }
            }
        }
    }

    /// Operations that may interrupt: all but the first.
    pub fn interrupting(&self) -> usize {
        self.operations().count().saturating_sub(1)
    }

    /// Runs a variant of the family.
    ///
    /// # Errors
    /// Says what does not hold.
    pub fn run_variant(&self, variant: &Variant) -> anyhow::Result<()> {
        let mut ran = Vec::new();
        self.run_counted(variant, &mut ran)
    }

    /// `ran`: how many jobs ran before each operation that came.
    fn run_counted(&self, variant: &Variant, ran: &mut Vec<usize>) -> anyhow::Result<()> {
        let order = variant.order.map_or(Order::AsSent, |seed| Order::Anyhow(Dice::new(seed)));
        let mut world = World::new(order)?;
        for (number, operation) in self.operations().enumerate() {
            if number > 0 {
                let arrival = variant.arrivals.get(number - 1).copied().flatten();
                ran.push(world.run(arrival.unwrap_or(usize::MAX))?);
            }
            world.take(operation).with_context(|| format!("operation {number} ({})", operation.title()))?;
        }
        world.run(usize::MAX)?;
        let lasting =
            self.operations().any(|operation| operation.wanted().is_some_and(|w| w.content.stays()));
        world.is_as_wanted(lasting)?;
        if !lasting {
            world.take_away()?;
        }
        Ok(())
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.steps.iter().filter_map(|step| match step {
            Step::Operation(operation) => Some(operation),
            _ => None,
        })
    }
}

struct Walk<'a> {
    scenario: &'a Scenario,
    bounds: Bounds,
    seen: &'a mut dyn FnMut(&Variant, anyhow::Result<()>),
}

impl Walk<'_> {
    /// Returns how many arrivals, from the first, were not later than the end of the operation before.
    fn run(&mut self, arrivals: Vec<Option<usize>>) -> usize {
        let mut variant = Variant { arrivals, order: None };
        let mut ran = Vec::new();
        let result = self.scenario.run_counted(&variant, &mut ran);
        (self.seen)(&variant, result);
        for seed in 1..=self.bounds.orders {
            variant.order = Some(seed);
            let result = self.scenario.run_variant(&variant);
            (self.seen)(&variant, result);
        }
        let in_time = |(arrival, ran): (&Option<usize>, &usize)| arrival.is_none_or(|jobs| *ran >= jobs);
        variant.arrivals.iter().zip(&ran).take_while(|both| in_time(*both)).count()
    }

    /// A second operation that interrupts.
    fn second(&mut self, mut arrivals: Vec<Option<usize>>, at: usize, from: usize) {
        for jobs in (from..).step_by(self.bounds.stride.max(1)) {
            arrivals[at] = Some(jobs);
            if self.run(arrivals.clone()) <= at {
                break;
            }
        }
    }
}

impl World {
    /// An operation that may come when it cannot be taken; then nothing has changed.
    fn take(&mut self, operation: &Operation) -> anyhow::Result<()> {
        let exists = self.engine().view().stack_view(&operation.stack);
        let busy = exists.as_ref().is_some_and(|view| view.status == "IN_PROGRESS");
        let deleting = busy && exists.as_ref().is_some_and(|view| view.action == "DELETE");
        let may_refuse = match operation.wish {
            Wish::Create(_) => exists.is_some(),
            Wish::Update(_) | Wish::Rollback => exists.is_none() || deleting,
            Wish::Delete => exists.is_none(),
            Wish::Cancel => !busy,
        };
        match self.operate(operation)? {
            Ok(()) => Ok(()),
            Err(Refusal::Conflict(_) | Refusal::NotFound(_)) if may_refuse => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// `stays`: something cannot be deleted, so that a stack may also have FAILED.
    fn is_as_wanted(&self, stays: bool) -> anyhow::Result<()> {
        for (name, history) in &self.stacks {
            let view = self.engine().view().stack_view(name).with_context(|| format!("no stack {name}"))?;
            if history.cancelled {
                ensure!(view.status == "FAILED" && view.status_reason == "cancelled", "{name}: {view:?}");
                continue;
            }
            if view.status == "FAILED" && (stays || history.wanted.content.fails()) {
                ensure!(!view.status_reason.is_empty(), "{name} has FAILED and nobody says why");
                continue;
            }
            let rows = self.engine().view().resource_views(name, true).unwrap_or_default();
            ensure!(
                view.status == "COMPLETE",
                "{name} is {} {}: {:?} {rows:#?}",
                view.action,
                view.status,
                view
            );
            ensure!(!history.deleting, "{name} is deleted and still there");
            self.verify(Some(name), &history.wanted.content)?;
            let mut names: Vec<&str> = history.wanted.content.names().collect();
            names.sort_unstable();
            ensure!(rows.iter().map(|row| row.name.as_str()).eq(names), "{name} has other rows: {rows:#?}");
            for row in &rows {
                let settled = row.status == "COMPLETE" && row.phase.is_empty() && row.observed == "in_sync";
                ensure!(settled, "{} is not settled: {row:#?}", row.name);
                let alone = row.replaced_by.is_none();
                ensure!(alone, "{} has been replaced by a row that is gone", row.name);
                let id = self.only(Some(name), &row.name)?.to_string();
                ensure!(row.physical_id == id, "{}: the row stands for another thing", row.name);
            }
        }
        let of_none =
            self.live(None, None) - self.stacks.keys().map(|name| self.live(Some(name), None)).sum::<usize>();
        ensure!(of_none == 0, "{of_none} things of stacks that are gone");
        Ok(())
    }

    /// An update to what is there does nothing, and a delete leaves nothing.
    fn take_away(&mut self) -> anyhow::Result<()> {
        let stacks: Vec<_> =
            self.stacks.iter().map(|(name, history)| (name.clone(), history.clone())).collect();
        for (stack, history) in &stacks {
            if !history.wanted.content.fails() {
                let same = Wish::Update(history.wanted.clone());
                self.operate(&Operation { stack: stack.clone(), wish: same, delete_first: false })??;
                let ran = self.run(usize::MAX)?;
                ensure!(ran == 0 || history.cancelled, "an update to what is there ran {ran} jobs");
                self.is_as_wanted(false).context("after an update to what was there")?;
            }
            self.operate(&Operation { stack: stack.clone(), wish: Wish::Delete, delete_first: false })??;
        }
        self.run(usize::MAX)?;
        if !self.is_empty() || !self.stacks.is_empty() {
            let left: Vec<_> = self.engine().view().stack_views();
            bail!("a delete left something behind: {left:#?}");
        }
        let timer = self.engine().poll_timeout();
        ensure!(timer.is_none(), "a timer is left for nothing: {timer:?}");
        Ok(())
    }
}
