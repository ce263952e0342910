//! Operators who adopt what others have configured, in a part of all runs: before that, others may have made files just
//! as a stack wants them.
//!
//! **Invariants.** An operation that adopts sends no job that creates, but for what an earlier job may have made. An
//! adoption applies only what its agent has compared and found as wanted.

use muster_agent_core::Found;
use muster_engine::record::StackAction;
use muster_shared::model::{Action, ContentDigest, Job, ReportKey, Spec};

use super::dice::Dice;
use super::host::{FileState, Host};
use super::plan::{Plan, Value, What};
use super::shared::Shared;
use super::world::World;

/// The operators that adopt.
pub struct Adopters {
    dice: Dice,
    /// Whether there are any. Most runs have none, and go as they went before there were adopters.
    are_there: bool,
}

impl Adopters {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "adopters");
        let are_there = dice.one_in(4);
        Self { dice, are_there }
    }

    /// Whether the next operation adopts.
    pub fn adopt(&mut self) -> bool {
        self.are_there && self.dice.one_in(6)
    }
}

impl World {
    /// Others make some files of the plan as it wants them, where Muster knows nothing of them.
    pub fn others_make(&mut self, plan: &Plan) {
        for resource in plan.resources.values() {
            let What::File { path, content: Value::Text(text), size: 0, mode, .. } = &resource.what else {
                continue;
            };
            let is_one = resource.each.is_none() && resource.external.is_none();
            let node = resource.node.as_ref().filter(|_| is_one && self.operators.adopters.dice.one_in(2));
            let at =
                node.and_then(|node| self.machines.iter().position(|it| it.name.as_str() == node.as_str()));
            let Some(machine) = at.map(|at| &mut self.machines[at]) else { continue };
            let is_claimed =
                machine.disk.entries().any(|entry| entry.claims().iter().any(|claim| claim.key == *path));
            if !is_claimed {
                let file = FileState { digest: ContentDigest::of(text.as_bytes()), mode: *mode };
                machine.host.is_found_with(path, file);
            }
        }
    }
}

impl World {
    /// An adoption was compared with its server.
    pub(super) fn is_compared(&mut self, at: usize, key: ReportKey, found: &Found) {
        let mut shared = self.shared.borrow_mut();
        match found {
            Found::AsDesired => {
                shared.counts.add("adoption finds what it wants");
                if let Some(process) = &mut self.machines[at].process {
                    process.compared.insert(key);
                }
            }
            Found::Differs { .. } => shared.counts.add("adoption finds something else"),
        }
    }

    /// An adoption begins to apply what was not compared.
    pub(super) fn adopts_blindly(&mut self, at: usize, job: &Job) -> Option<String> {
        let process = self.machines[at].process.as_mut()?;
        let is_blind = job.action == Action::Adopt && !process.compared.remove(&job.key());
        is_blind.then(|| format!("{} is adopted without a look at it", job.resource))
    }
}

impl Host {
    /// Others make a file that nobody of Muster has.
    fn is_found_with(&mut self, path: &str, file: FileState) {
        if !self.made_by.contains_key(path) {
            self.files.insert(path.to_owned(), file);
            self.files_before.insert(path.to_owned(), file);
        }
    }
}

/// The job makes what its operation only adopts.
pub fn creates(shared: &Shared, job: &Job) -> Option<String> {
    let row = shared.tables.physical.get(&job.resource).and_then(|id| shared.tables.rows.get(id))?;
    let stack = shared.tables.stacks.get(&row.stack)?;
    let is_of_it = shared.began.get(&(job.resource, job.generation)) == Some(&stack.traversal);
    // Scripts of an earlier operation that did not end well run again.
    let is_created = job.action == Action::Create && !matches!(job.spec, Spec::Deployment(_));
    let adopts = stack.adopt && matches!(stack.action, StackAction::Create | StackAction::Update);
    (adopts && is_of_it && is_created && !shared.made.contains(&job.resource))
        .then(|| format!("{} is created, and the operation of {} adopts", row.name, stack.name))
}
