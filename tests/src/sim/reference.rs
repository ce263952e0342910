//! The reference model: what must be in the end, worked out from requests that were accepted and operations that began,
//! with nothing of the engine: plans as data, revisions by hand, and hosts as they were before Muster.

mod kept;
mod tree;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use muster_engine::record::{StackAction, StackRecord, Status};
use muster_engine::{Answer, Refusal};
use muster_shared::{NodeId, ResourceId, StackName};

use super::count::Counts;
use super::fleet;
use super::machine::Machine;
use super::plan::{Plan, member, split};
use super::store::Tables;
pub use tree::addresses;

use kept::Kept;
use tree::physical;
use wanted::Wanted;

/// A request of an operator.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A new stack.
    Create(Rc<Plan>),
    /// A new revision.
    Update(Rc<Plan>),
    /// An older one.
    Rollback(Option<u32>),
    Delete,
    Check,
    /// A stop of the operation under way.
    Cancel,
}

impl Asked {
    /// Returns the name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Asked::Create(_) => "create",
            Asked::Update(_) => "update",
            Asked::Rollback(None) => "rollback",
            Asked::Rollback(Some(_)) => "rollback --to",
            Asked::Delete => "delete",
            Asked::Check => "check",
            Asked::Cancel => "cancel",
        }
    }

    fn action(&self) -> Option<StackAction> {
        match self {
            Asked::Create(_) => Some(StackAction::Create),
            Asked::Update(_) => Some(StackAction::Update),
            Asked::Rollback(_) => Some(StackAction::Rollback),
            Asked::Delete => Some(StackAction::Delete),
            Asked::Check => Some(StackAction::Check),
            Asked::Cancel => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct History {
    id: u64,
    traversal: u64,
    revision: u32,
    /// Revisions with their plans; none: the stack is empty.
    revisions: BTreeMap<u32, Option<Rc<Plan>>>,
    /// Newest first.
    complete: Vec<u32>,
    is_complete: bool,
    /// The last operation was a check.
    is_checked: bool,
    /// Values that stay the same from one revision to the next.
    kept: Kept,
    /// The members on nodes when the stack was COMPLETE last.
    members: BTreeSet<String>,
}

/// A request that has not been seen in what is durable.
struct Expected {
    id: u64,
    name: StackName,
    asked: Asked,
    /// The stack and the walk that began for it, once that is known.
    begun: Option<(u64, u64)>,
}

/// The requests of operators up to a time.
#[derive(Clone)]
pub struct Past {
    stacks: BTreeMap<StackName, History>,
    marked: BTreeMap<(StackName, String), (ResourceId, u32)>,
    left: BTreeSet<(NodeId, ResourceId)>,
}

/// The requests of operators, as they were accepted.
#[derive(Default)]
pub struct Reference {
    stacks: BTreeMap<StackName, History>,
    /// Requests that have not been seen in what is durable, in the order in which the engine took them.
    expected: Vec<Expected>,
    /// Resources that are marked unhealthy, with the revision in which they were marked.
    marked: BTreeMap<(StackName, String), (ResourceId, u32)>,
    /// Things without a row that operators have said are to stay where they are.
    pub left: BTreeSet<(NodeId, ResourceId)>,
    /// Things that stayed on a server when their resource went, and whose resource a store that went back has again.
    pub regained: BTreeSet<(NodeId, String)>,
    /// A node is being removed.
    pub removing: bool,
    /// The counts of what happened to stacks and their trees.
    pub counts: Counts,
}

impl History {
    fn begin(&mut self, asked: &Asked) {
        let was_checked = std::mem::replace(&mut self.is_checked, matches!(asked, Asked::Check));
        let plan = match asked {
            Asked::Create(plan) | Asked::Update(plan) => Some(Rc::clone(plan)),
            Asked::Rollback(to) => {
                let target = match to {
                    Some(to) => Some(to),
                    // A check says nothing of the revision.
                    None if self.is_complete || was_checked => {
                        self.complete.iter().find(|other| **other != self.revision)
                    }
                    None => self.complete.first(),
                };
                target.and_then(|to| self.revisions.get(to).cloned().flatten())
            }
            Asked::Delete | Asked::Check | Asked::Cancel => {
                if matches!(asked, Asked::Delete) {
                    self.kept = Kept::default();
                }
                self.is_complete = false;
                return;
            }
        };
        self.revision += 1;
        self.kept.begins(plan.as_deref());
        self.revisions.insert(self.revision, plan);
        self.is_complete = false;
    }

    /// The revision was COMPLETE, if only for a moment.
    fn was_complete(&mut self) {
        if !self.is_complete && !self.is_checked && self.complete.first() != Some(&self.revision) {
            self.complete.insert(0, self.revision);
        }
    }

    /// Returns whether a node is selected and has no member, or the other way round.
    fn is_unfit(&self, tables: &Tables) -> bool {
        let resources = self.plan().map(|plan| plan.resources.iter()).into_iter().flatten();
        resources.filter(|(_, resource)| resource.is_there()).any(|(name, resource)| {
            let Some(each) = &resource.each else { return false };
            let has = |node: &str| self.members.contains(&member(name, node));
            let meant = each.nodes(tables.nodes.values(), has);
            let own = self.members.iter().filter(|it| split(it).0 == name).count();
            own != meant.len() || !meant.into_iter().all(has)
        })
    }

    /// Returns the plan that the stack must match.
    fn plan(&self) -> Option<&Plan> {
        self.revisions.get(&self.revision)?.as_deref()
    }
}

impl Reference {
    /// Notes a request, with its number, before it is made.
    pub fn expect(&mut self, id: u64, name: StackName, asked: Asked) {
        self.expected.push(Expected { id, name, asked, begun: None });
    }

    /// Takes the engine's answer to a request.
    pub fn answered(&mut self, id: u64, answer: &Result<Answer, Refusal>) {
        match answer {
            Ok(Answer::Stack { id: stack, traversal, .. }) => {
                let it = self.expected.iter_mut().filter(|it| it.id == id);
                it.for_each(|it| it.begun = Some((*stack, *traversal)));
            }
            Ok(_) => {}
            Err(_) => self.is_over(id),
        }
    }

    /// Drops a request that was refused or has started.
    pub fn is_over(&mut self, id: u64) {
        self.expected.retain(|it| it.id != id);
    }

    /// Drops all pending requests: nobody gets an answer to them any more.
    pub fn forgets_what_is_asked(&mut self) {
        self.expected.clear();
    }

    /// Returns the pending requests for a stack.
    pub fn open(&self, name: &StackName) -> impl Iterator<Item = &Asked> {
        self.expected.iter().filter(move |it| it.name == *name).map(|it| &it.asked)
    }

    /// Returns the requests for a stack up to this traversal, which carries the last one of them out.
    fn takes_expected(&mut self, is: &StackRecord) -> Vec<Asked> {
        let until_now = |(stack, traversal): (u64, u64)| stack == is.id && traversal <= is.traversal;
        let has_begun = |it: &mut Expected| it.name == is.name && it.begun.is_none_or(until_now);
        self.expected.extract_if(.., has_begun).map(|it| it.asked).collect()
    }

    /// A stack's record changed; what is wrong with that comes back. `was_complete`: it was since it did last, if only for
    /// a moment.
    pub fn stack_went(
        &mut self,
        was: Option<&StackRecord>,
        is: &StackRecord,
        was_complete: bool,
        tables: &Tables,
    ) -> Option<String> {
        if was.is_none() {
            self.stacks.insert(is.name.clone(), History { id: is.id, ..History::default() });
        }
        let is_another = self.stacks.get(&is.name).is_none_or(|history| history.traversal != is.traversal);
        let mut asked = if is_another { self.takes_expected(is) } else { Vec::new() };
        let history = self.stacks.entry(is.name.clone()).or_default();
        if is_another {
            history.traversal = is.traversal;
            let was_checked = history.is_checked;
            let last = asked.pop();
            // In the turn in which it ended, somebody asked for its end.
            if matches!(last, Some(Asked::Delete)) && asked.iter().all(|it| matches!(it, Asked::Delete)) {
                if was_complete {
                    history.was_complete();
                }
                // The operation had failed, and rolled back by itself.
                if is.revision == history.revision + 1 {
                    history.begin(&Asked::Rollback(None));
                }
            }
            asked.iter().for_each(|asked| history.begin(asked));
            let asked = last;
            if let Some(asked) = &asked {
                history.begin(asked);
            }
            match asked.and_then(|asked| asked.action()) {
                Some(action) if action == is.action => {}
                // By itself, because the one before failed.
                None | Some(_) if is.action == StackAction::Rollback => {
                    history.is_complete = false;
                    history.begin(&Asked::Rollback(None));
                }
                // Resources on a node that is gone for ever are recreated.
                None if self.removing
                    && is.action == StackAction::Update
                    && history.revision == is.revision =>
                {
                    // The stack may have waited for rows on that node alone: then it was COMPLETE for a moment.
                    if was_complete && !history.is_complete && !was_checked {
                        history.complete.insert(0, is.revision);
                    }
                    // The stack is no longer COMPLETE, whatever a check has said.
                    (history.is_complete, history.is_checked) = (false, false);
                }
                // Other nodes than before are meant.
                None if is.action == StackAction::Update
                    && history.revision == is.revision
                    && (was_complete || history.is_unfit(tables)) =>
                {
                    if was_complete && !history.is_complete && !was_checked {
                        history.complete.insert(0, is.revision);
                    }
                    self.counts.add("fleet stack is walked again");
                    (history.is_complete, history.is_checked) = (false, false);
                }
                None | Some(_) => {
                    return Some(format!("stack {} began {} unasked", is.name, is.action.as_str()));
                }
            }
            let keeps = matches!(is.action, StackAction::Delete | StackAction::Check);
            let has = tables.revisions.get(&(is.id, is.revision)).map(|text| text.name.as_str());
            let wanted =
                history.revisions.get(&is.revision).map(|plan| plan.as_ref().map_or("nothing", |p| &p.name));
            // A delete in the same turn has taken the stack's revisions with it.
            let is_over = has.is_none() && !tables.stacks.contains_key(&is.id);
            if history.revision != is.revision || (has != wanted && !keeps && !is_over) {
                return Some(format!(
                    "{} of stack {} leads to revision {} with {has:?}, and should to {} with {wanted:?}",
                    is.action.as_str(),
                    is.name,
                    is.revision,
                    history.revision
                ));
            }
        }
        let is_complete = is.status == Status::Complete;
        if is_complete && !history.is_complete && is.action != StackAction::Check {
            history.complete.insert(0, is.revision);
            let id = is.id;
            let newer = |(stack, _): &(StackName, String), (_, revision): &mut (ResourceId, u32)| {
                *stack == is.name && *revision < is.revision
            };
            let trusted = self.marked.extract_if(.., newer);
            for ((_, resource), marked) in trusted.collect::<Vec<_>>() {
                if physical(id, &resource, tables) == Ok(marked.0) {
                    return Some(format!(
                        "{resource} of {} was marked unhealthy and is {} still",
                        is.name, marked.0
                    ));
                }
            }
        }
        if is_complete {
            history.members = fleet::members(is.id, tables).map(str::to_owned).collect();
        }
        let is_new = is_complete && !history.is_complete && is.action != StackAction::Check;
        history.is_complete = is_complete;
        // Another operation may have started in the same turn.
        let still = tables.stacks.get(&is.id).is_some_and(|now| now.traversal == is.traversal);
        let plan = history.plan().cloned().filter(|_| is_new && still)?;
        let wrong = history.kept.ends(is.id, &plan, tables, &mut self.counts);
        wrong.map(|wrong| format!("stack {}: {wrong}", is.name))
    }

    /// An operator does not trust a resource.
    pub fn marks(&mut self, stack: &StackName, resource: &str, tables: &Tables) {
        let Some(history) = self.stacks.get(stack) else { return };
        if let Ok(physical) = physical(history.id, resource, tables) {
            self.marked.insert((stack.clone(), resource.to_owned()), (physical, history.revision));
            self.may_mark(stack, resource);
        }
    }

    /// Notes that a resource may have been marked unhealthy: nobody knows whether that became durable.
    pub fn may_mark(&mut self, stack: &StackName, resource: &str) {
        if let Some(history) = self.stacks.get_mut(stack) {
            history.kept.marks(resource);
        }
    }

    /// Returns a copy of what operators asked for so far.
    pub fn past(&self) -> Past {
        Past { stacks: self.stacks.clone(), marked: self.marked.clone(), left: self.left.clone() }
    }

    /// Forgets what operators did after `past`: the store that goes on does not know of it.
    pub fn goes_back(&mut self, past: Past) {
        self.expected.clear();
        (self.stacks, self.marked, self.left) = (past.stacks, past.marked, past.left);
    }

    /// An operator has said that a thing without a row stays where it is.
    pub fn is_left(&self, node: &NodeId, thing: ResourceId) -> bool {
        self.left.contains(&(node.clone(), thing))
    }

    /// A stack has been deleted.
    pub fn stack_is_gone(&mut self, stack: &StackRecord) {
        let is_it = |it: &Expected| it.name == stack.name && it.begun.is_none_or(|(id, _)| id == stack.id);
        self.expected.retain(|it| !(is_it(it) && matches!(it.asked, Asked::Delete)));
        self.stacks.remove(&stack.name);
        self.marked.retain(|(name, _), _| *name != stack.name);
    }

    /// Returns a difference between the hosts and the stacks that are COMPLETE; other things must be as they were
    /// before Muster. Changes that others made by hand are left to `drift`.
    pub fn differs(&self, tables: &Tables, machines: &[Machine]) -> Option<String> {
        let machines: Vec<&Machine> = machines.iter().filter(|machine| !machine.scrapped).collect();
        let mut wanted = Wanted::new(&machines);
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for (name, history) in &self.stacks {
            let is_complete = tables.stacks.get(&history.id).is_some_and(|s| s.status == Status::Complete);
            match history.plan().filter(|_| is_complete) {
                Some(plan) => {
                    if let Err(wrong) = wanted.add(history.id, plan, tables, &machines) {
                        return Some(format!("stack {name}: {wrong}"));
                    }
                }
                None if is_complete => {}
                None => drop(open.insert(name.as_str())),
            }
        }
        machines.iter().find_map(|machine| {
            let left = self.left.iter().filter(|(node, _)| *node == machine.name);
            let left_here = left.clone().map(|(_, thing)| *thing).collect();
            let regained = self.regained.iter().filter(|(node, _)| *node == machine.name);
            let left = left.flat_map(|(_, thing)| machine.held_by(*thing)).map(|claim| claim.key);
            let open_things = left.chain(regained.map(|(_, thing)| thing.clone())).collect();
            wanted.differs(machine, tables, &open, &left_here, open_things)
        })
    }
}
