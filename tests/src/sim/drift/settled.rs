//! When nothing is under way any more: what is said of each resource is so, and what others did is corrected, told or
//! passed over, as the plan has it.

use std::collections::BTreeSet;

use muster_agent_core::Found;
use muster_engine::record::{ResourceRecord, StackAction, Status};
use muster_shared::{ResourceId, StackName};
use muster_template::{DriftPolicy, Kind};

use super::super::machine::Machine;
use super::super::plan::{Plan, split};
use super::super::shared::Shared;
use super::super::store::brief;
use super::super::world::World;
use super::Thing;

/// A resource that its agent looks at.
struct Watched<'a> {
    row: &'a ResourceRecord,
    plan: &'a Plan,
    policy: DriftPolicy,
    /// Whether the thing differs from what is wanted.
    differs: bool,
    /// Others left the thing so.
    is_left: bool,
}

impl Watched<'_> {
    fn is_said_to_differ(&self) -> bool {
        self.row.progress.observed.differs()
    }

    fn is_complete(&self) -> bool {
        self.row.progress.status == Some(Status::Complete)
    }

    fn breaker_is_open(&self) -> bool {
        self.row.progress.corrections.is_some_and(|corrections| corrections.open)
    }

    /// The selector does not mean its node, and its stack has not followed that.
    fn is_outside(&self, shared: &Shared) -> bool {
        let (name, _) = split(&self.row.name);
        let each = self.plan.resources.get(name).and_then(|resource| resource.each.as_ref());
        let node = self.row.node.as_ref().and_then(|node| shared.tables.nodes.get(node));
        each.is_some_and(|each| !node.is_some_and(|node| each.nodes.means(&node.labels)))
    }

    fn brief(&self) -> String {
        let policy = self.policy.as_str();
        let progress = &self.row.progress;
        let said = progress.observed.as_str();
        let spec = self.row.spec.as_ref().map(|spec| spec.unpack());
        format!("{} ({policy}, said to be {said}, {:?}): {spec:?}", brief(self.row), progress.corrections)
    }
}

impl World {
    /// Returns what is wrong with drift, once all agents have looked.
    pub(crate) fn drift_is_wrong(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let tables = &shared.tables;
        self.watched(&shared).find_map(|it| {
            let of_stack = tables.stacks.get(&it.row.stack)?;
            if it.row.drift_policy.unwrap_or(DriftPolicy::of_kind(it.row.kind)) != it.policy {
                return Some(format!("another drift_policy than that of {}: {}", it.plan.name, it.brief()));
            }
            if !it.is_complete() {
                return None;
            }
            let is_told = it.differs && it.policy != DriftPolicy::Ignore;
            if it.is_said_to_differ() != is_told {
                return Some(format!("it differs: {}, and it is said otherwise: {}", it.differs, it.brief()));
            }
            let is_left_alone = of_stack.action == StackAction::Delete
                || it.row.progress.unhealthy
                || it.breaker_is_open()
                || it.is_outside(&shared)
                || it.plan.must_not_be_updated(&it.row.name);
            let is_wanted =
                it.policy == DriftPolicy::Correct && !is_left_alone && it.row.progress.observed_ready;
            (it.differs && is_wanted).then(|| format!("nobody has corrected it: {}", it.brief()))
        })
    }

    /// Checks that the drift that operators read of is there.
    pub(crate) fn drift_is_shown(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let site = self.controller.turns.as_ref()?.view();
        let views = site.drift_views(None);
        self.watched(&shared).find_map(|it| {
            let id = it.row.physical.to_string();
            let view = views.iter().find(|view| view.physical_id == id);
            let breaker = if it.breaker_is_open() { "open" } else { "closed" };
            let is_right = match view {
                Some(view) => {
                    it.is_said_to_differ() && view.policy == it.policy.as_str() && view.breaker == breaker
                }
                None => !it.is_said_to_differ(),
            };
            (!is_right).then(|| format!("node drift has {view:?} of {}", it.brief()))
        })
    }

    /// The resources that differ, and of which operators have been told.
    pub(crate) fn reported(&self) -> BTreeSet<ResourceId> {
        let shared = self.shared.borrow();
        let rows = self.watched(&shared);
        rows.filter(|it| it.differs && it.is_said_to_differ()).map(|it| it.row.physical).collect()
    }

    /// The things among `things` that belong to one of the stacks.
    pub(crate) fn of_stacks(
        &self,
        things: &BTreeSet<ResourceId>,
        stacks: &BTreeSet<StackName>,
    ) -> BTreeSet<ResourceId> {
        let shared = self.shared.borrow();
        let tables = &shared.tables;
        let is_of = |stack: &u64| tables.stacks.get(stack).is_some_and(|stack| stacks.contains(&stack.name));
        let rows = tables.rows.values().filter(|row| is_of(&row.stack));
        rows.map(|row| row.physical).filter(|thing| things.contains(thing)).collect()
    }

    /// After an update of all stacks, with those that had been `reported` before it and the stacks that were `converged`: what
    /// still is as somebody left it, and should not be.
    pub(crate) fn drift_outlives(
        &self,
        reported: &BTreeSet<ResourceId>,
        converged: &BTreeSet<u64>,
    ) -> Option<String> {
        let shared = self.shared.borrow();
        let rows = self.watched(&shared);
        let mut left = rows.filter(|it| it.differs && it.row.external_id.is_none());
        left.find_map(|it| {
            let is_seen_to = converged.contains(&it.row.stack)
                || it.policy == DriftPolicy::Correct
                || it.policy == DriftPolicy::Report && reported.contains(&it.row.physical);
            is_seen_to.then(|| format!("the update has not corrected it: {}", it.brief()))
        })
    }

    /// Counts the resources by drift and by what is said of it.
    pub(crate) fn counts_drift(&self) {
        let mut what = Vec::new();
        {
            let shared = self.shared.borrow();
            for it in self.watched(&shared) {
                if it.differs && it.is_left && it.is_complete() {
                    let name = match (it.policy, it.breaker_is_open()) {
                        (DriftPolicy::Correct, true) => "drift is left to who fights",
                        (DriftPolicy::Correct, false) => "drift is left uncorrected",
                        (DriftPolicy::Report, _) => "drift is left and reported",
                        (DriftPolicy::Ignore, _) => "drift is left and ignored",
                    };
                    what.push(name);
                }
            }
        }
        let counts = &mut self.shared.borrow_mut().counts;
        what.into_iter().for_each(|what| counts.add(what));
    }

    /// Rows with something on a server that its agent has made and knows to be its own.
    fn watched<'a>(&'a self, shared: &'a Shared) -> impl Iterator<Item = Watched<'a>> {
        let tables = &shared.tables;
        tables.rows.values().filter_map(move |row| {
            let is_live = row.dropped.is_none() && !row.is_lost() && !row.handed_over;
            let machine = self.server_of(row).filter(|_| is_live)?;
            let desired = row.spec.as_ref()?.unpack();
            let spec = desired.spec()?;
            let entry = machine.disk.entries.get(&row.physical)?;
            let applied = entry.applied.as_ref().filter(|_| !machine.disk.is_taken(entry))?;
            if row.progress.held != Some(applied.generation) || row.kind == Kind::SoftwareDeployment {
                return None;
            }
            let stack = tables.stacks.get(&row.stack)?;
            let text = tables.revisions.get(&(stack.id, stack.revision))?;
            let plan = shared.plans.get(&text.name)?;
            let thing = Thing::of(row.physical, spec);
            Some(Watched {
                row,
                plan,
                policy: plan.drift_policy(&row.name, row.kind),
                differs: machine.host.check(row.physical, spec) != Found::AsDesired,
                is_left: thing.is_none_or(|thing| machine.host.is_left(&thing)),
            })
        })
    }

    fn server_of(&self, row: &ResourceRecord) -> Option<&Machine> {
        self.machines.iter().find(|machine| !machine.scrapped && row.node.as_ref() == Some(&machine.name))
    }
}
