//! Operations on stacks: what is checked before anything changes, and how a traversal begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::Claim;
use muster_shared::{NodeId, StackName};
use muster_template::{Parameters, Policies, References, RenderError, Template, suggestion};
use serde_json::Value;

use crate::delete_first::UNCOUNTED;
use crate::engine::{Effect, Engine, Todo};
use crate::plan::{Ground, Plan, plan};
use crate::record::{Change, RevisionRecord, StackAction, Status};
use crate::request::{Answer, Options, Refusal, Source};
use crate::resource::{Role, Row, Slot};
use crate::stack::{Stack, Stage, Walk};
use crate::timer::TimerKey;

/// Warnings in one answer: more say the same.
const WARNINGS_MAX: usize = 20;
/// Names that a mistyped one is compared with: a fraction of a second.
const SUGGESTED_MAX: usize = 10_000;
/// Stacks in a site.
const STACKS_MAX: usize = 100_000;
/// Resources in a stack.
const RESOURCES_MAX: usize = 2_000_000;

/// An operation that waits for a revision to be loaded.
pub(crate) struct Pending {
    pub stack: u64,
    /// The traversal it was decided in; a newer one makes what the engine decided moot.
    pub traversal: u64,
    pub revision: u32,
    /// The operator's request; none: the engine decided.
    pub request: Option<u64>,
    pub purpose: Purpose,
}

/// What a loaded revision is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its content comes back.
    RollBack,
    /// The current one is walked again.
    TakeUp,
    /// What is there is compared with the current one.
    Check,
}

/// Where an operation leads.
struct Target {
    action: StackAction,
    /// In a rollback: the revision that comes back.
    revision: Option<u32>,
    options: Options,
}

/// What an operation would do.
pub(crate) struct Planned {
    pub plan: Plan,
    /// What deserves attention but hinders nothing.
    pub warnings: Vec<String>,
}

impl Engine {
    pub(crate) fn create(
        &mut self,
        name: StackName,
        source: Source,
        options: Options,
    ) -> Result<Answer, Refusal> {
        if self.names.contains_key(&name) {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' exists already: update it with 'muster stack update {name}', or choose another name"
            )));
        }
        if self.stacks.len() >= STACKS_MAX {
            return Err(Refusal::Conflict(format!("the site has {STACKS_MAX} stacks, which is its limit")));
        }
        let stack = Stack::new(self.next_stack, name.clone());
        let id = stack.id;
        self.stacks.insert(id, stack);
        let target = Target { action: StackAction::Create, revision: None, options };
        let begun = self.begin(id, source, target);
        match begun {
            Ok(_) => {
                self.next_stack += 1;
                self.names.insert(name, id);
            }
            Err(_) => {
                self.stacks.remove(&id);
            }
        }
        begun
    }

    pub(crate) fn update(
        &mut self,
        name: &StackName,
        source: Source,
        options: Options,
    ) -> Result<Answer, Refusal> {
        let id = self.changeable(name)?;
        self.begin(id, source, Target { action: StackAction::Update, revision: None, options })
    }

    pub(crate) fn delete(&mut self, name: &StackName) -> Result<Answer, Refusal> {
        let id = self.find(name)?;
        let stack = &self.stacks[&id];
        if stack.is_being_deleted() {
            return Ok(self.begun(id, Vec::new()));
        }
        let timeout = Duration::from_secs(stack.timeout_s);
        let options = Options { timeout, ..Options::default() };
        self.begin(id, Source::nothing(), Target { action: StackAction::Delete, revision: None, options })
    }

    /// Answers at once if no revision has to be loaded.
    pub(crate) fn rollback(
        &mut self,
        name: &StackName,
        to: Option<u32>,
        request: Option<u64>,
    ) -> Result<Option<Answer>, Refusal> {
        let id = self.changeable(name)?;
        let stack = &self.stacks[&id];
        let revision = match to {
            Some(to) if to == 0 || to > stack.revision => {
                return Err(Refusal::NotFound(format!(
                    "stack '{name}' has no revision {to}: its newest is {}",
                    stack.revision
                )));
            }
            Some(to) => Some(to),
            // A check says nothing of the revision.
            None if stack.action == StackAction::Check => {
                stack.complete.iter().find(|good| **good != stack.revision).copied()
            }
            None if stack.status == Status::Complete => stack.complete.get(1).copied(),
            None => stack.complete.first().copied(),
        };
        match revision {
            Some(revision) => {
                let pending = Pending {
                    stack: id,
                    traversal: stack.traversal,
                    revision,
                    request,
                    purpose: Purpose::RollBack,
                };
                self.load_revision(name.clone(), revision, pending);
                Ok(None)
            }
            None => self.roll_back_to(id, 0, Source::nothing()).map(Some),
        }
    }

    pub(crate) fn revision_loaded(&mut self, load: u64, source: Result<Source, String>) {
        let Some(pending) = self.pending.remove(&load) else { return };
        let Pending { stack, traversal, revision, request, purpose } = pending;
        match (purpose, request) {
            (Purpose::RollBack, _) => {}
            (Purpose::TakeUp, _) => return self.taken_up(stack, traversal, source),
            (Purpose::Check, request) => {
                let answer = self.check_loaded(stack, traversal, source);
                return request.into_iter().for_each(|request| self.answer(request, answer.clone()));
            }
        }
        let current = self.stacks.get(&stack).map(|stack| (stack.is_being_deleted(), stack.traversal));
        let result = match (current, source) {
            (None | Some((true, _)), _) => Err(Refusal::Conflict("the stack is being deleted".into())),
            (Some((_, now)), _) if request.is_none() && now != traversal => return,
            (Some(_), Err(why)) => {
                Err(Refusal::NotFound(format!("revision {revision} cannot be loaded: {why}")))
            }
            (Some(_), Ok(source)) => {
                let failures = self.stacks[&stack].failures.clone();
                let begun = self.roll_back_to(stack, revision, source);
                if begun.is_ok() && request.is_none() {
                    self.keep_failures(stack, failures);
                }
                begun
            }
        };
        match (request, result) {
            (Some(id), answer) => self.answer(id, answer),
            (None, Ok(_)) => {}
            (None, Err(refusal)) => self.end_failed(stack, format!("rollback failed: {refusal}")),
        }
    }

    fn roll_back_to(&mut self, id: u64, revision: u32, source: Source) -> Result<Answer, Refusal> {
        let stack = &self.stacks[&id];
        let timeout = Duration::from_secs(stack.timeout_s);
        // Where there was no room for both on the way there, there is none on the way back.
        let options = Options { timeout, delete_first: stack.delete_first, ..Options::default() };
        self.begin(id, source, Target { action: StackAction::Rollback, revision: Some(revision), options })
    }

    /// What to say of a name that no stack has.
    pub fn no_stack(&self, name: &StackName) -> Refusal {
        let near = suggestion(name.as_str(), self.names.keys().map(StackName::as_str));
        Refusal::NotFound(format!("no stack '{name}'{near}"))
    }

    pub(crate) fn find(&self, name: &StackName) -> Result<u64, Refusal> {
        self.names.get(name).copied().ok_or_else(|| self.no_stack(name))
    }

    pub(crate) fn changeable(&self, name: &StackName) -> Result<u64, Refusal> {
        let id = self.find(name)?;
        if self.stacks[&id].is_being_deleted() {
            return Err(Refusal::Conflict(format!(
                "stack '{name}' is being deleted: wait until it is gone, or stop that with 'muster stack cancel {name}'"
            )));
        }
        Ok(id)
    }

    pub(crate) fn begun(&self, id: u64, warnings: Vec<String>) -> Answer {
        let stack = &self.stacks[&id];
        Answer::Stack {
            name: stack.name.clone(),
            id,
            traversal: stack.traversal,
            revision: stack.revision,
            warnings,
        }
    }

    /// Checks everything that can be known now, then begins the traversal. A refusal has changed nothing.
    fn begin(&mut self, id: u64, source: Source, target: Target) -> Result<Answer, Refusal> {
        let stack = &self.stacks[&id];
        let number = stack.revision + u32::from(target.action != StackAction::Delete);
        let Planned { plan, warnings } = self.planned(stack, &source, target.revision, &target.options)?;
        let Source { template, parameters, policies, text } = source;
        if target.action != StackAction::Delete {
            self.change(Change::Revision(RevisionRecord {
                stack: id,
                number,
                made_by: made_by(&target),
                text,
            }));
            let kept = self.limits.revisions_kept;
            if number > kept {
                // What a rollback without --to leads to stays.
                let good = self.stacks[&id].complete.iter().take(2).next_back().copied().unwrap_or(number);
                let below = (number - kept).saturating_add(1).min(good);
                self.change(Change::RevisionsTrimmed { stack: id, below });
            }
        }
        let stack = &self.stacks[&id];
        let steady = plan.same_rows && stack.status == Status::Complete && stack.walk.is_none();
        self.enter(id, number, &target);
        if target.action != StackAction::Delete
            && let Some(stack) = self.stacks.get_mut(&id)
        {
            stack.policies = policies;
        }
        self.lay_out(id, plan, steady, template, parameters);
        self.watch(id);
        self.event(id, None);
        self.agenda.push_back(Todo::CheckEnd(id));
        Ok(self.begun(id, warnings))
    }

    /// What an operation on a stack would walk, checked as far as it can be known now.
    pub(crate) fn planned(
        &self,
        stack: &Stack,
        source: &Source,
        target: Option<u32>,
        options: &Options,
    ) -> Result<Planned, Refusal> {
        let Source { template, parameters, policies, .. } = source;
        if template.resources.len() > RESOURCES_MAX {
            return Err(Refusal::Invalid(format!("a stack has at most {RESOURCES_MAX} resources")));
        }
        let ground = Ground {
            rows: &self.rows,
            forward: &stack.forward,
            settled: &stack.settled,
            names: stack.names,
            extras: &stack.extras,
            previous: stack.revision,
            target,
        };
        let plan = plan(&ground, template, parameters);
        let shown = |text: String| parameters.without_hidden(&text);
        let checked = self.check(stack.id, &plan, template, parameters, options);
        let mut warnings: Vec<String> =
            checked.map_err(|refusal| refusal.map(shown))?.into_iter().map(shown).collect();
        warnings.extend(self.named_by_none(stack, template, policies));
        Ok(Planned { plan, warnings })
    }

    /// Environments serve many stacks, but a resource's name may be mistyped in one.
    fn named_by_none(&self, stack: &Stack, template: &Template, policies: &Policies) -> Vec<String> {
        let mut unknown: Vec<&str> =
            policies.named().filter(|name| template.index_of(name).is_none()).collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        let rows: BTreeSet<&str> =
            stack.forward.iter().chain(&stack.extras).map(|slot| &*self.rows[*slot].name).collect();
        unknown.retain(|name| !rows.contains(name));
        let said = |name: &str| {
            let known = template.resources.iter().take(SUGGESTED_MAX).map(|resource| &*resource.name);
            let near = suggestion(name, known);
            format!("an environment names the resource '{name}', which the template does not have{near}")
        };
        unknown.into_iter().take(WARNINGS_MAX).map(said).collect()
    }

    fn enter(&mut self, id: u64, number: u32, target: &Target) {
        let traversal = self.next_traversal;
        self.next_traversal += 1;
        self.leave_walk(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.action = target.action;
        stack.status = Status::InProgress;
        stack.reason = match (target.action, target.revision) {
            (StackAction::Rollback, Some(0)) => "rolling back to nothing".into(),
            (StackAction::Rollback, Some(to)) => format!("rolling back to revision {to}"),
            _ => String::new(),
        };
        stack.revision = number;
        stack.traversal = traversal;
        stack.timeout_s = target.options.timeout.as_secs();
        stack.rollback = target.options.rollback;
        stack.delete_first = target.options.delete_first;
        stack.cancelled = false;
        (stack.failures, stack.failures_before) = (Vec::new(), 0);
        self.stack_changed(id);
    }

    /// The traversal that ran until now releases nothing more.
    pub(crate) fn leave_walk(&mut self, id: u64) {
        self.watch_no_more(id);
        self.end_checks(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let traversal = stack.traversal;
        let Some(walk) = stack.walk.take() else { return };
        if let Some(due) = walk.timeout {
            self.timers.clear(due, TimerKey::Stack(id, traversal));
        }
        self.effect(Effect::Discard(walk.template));
    }

    /// Gives every graph node its role and lets those go that need nothing more.
    fn lay_out(
        &mut self,
        id: u64,
        plan: Plan,
        steady: bool,
        template: Arc<Template>,
        parameters: Arc<Parameters>,
    ) {
        let revision = self.stacks[&id].revision;
        let (forward, settled) = self.lay_out_forward(id, &plan, steady, &template, &parameters);
        let Plan { dirty, dropped, needed_by, .. } = plan;
        for slot in &dropped {
            let row = &mut self.rows[*slot];
            row.role = Role::Cleanup;
            (row.ready, row.failed) = (false, false);
            row.blocked = UNCOUNTED;
            row.retry_count = 0;
            row.set_hooks_again();
            row.dropped.get_or_insert(revision);
            self.row_changed(*slot, true);
        }
        let visits: Vec<u32> =
            (0u32..).zip(&dirty).filter(|(_, dirty)| **dirty).map(|(index, _)| index).collect();
        let total = visits.len();
        let shown = parameters.masked();
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let timeout = self.now + Duration::from_secs(stack.timeout_s);
        self.timers.set(timeout, TimerKey::Stack(id, stack.traversal));
        stack.parameters = shown;
        let slots: Vec<Slot> = visits.iter().map(|index| forward[*index as usize]).collect();
        stack.forward = forward;
        stack.settled = settled;
        stack.names = template.names;
        stack.walk = Some(Walk {
            visits,
            template,
            parameters,
            needed_by,
            stage: Stage::Forward,
            since: self.now,
            total: total + dropped.len(),
            forward_left: total,
            asked: BTreeSet::new(),
            failed: 0,
            delete_first: None,
            at_hooks: BTreeSet::new(),
            ended: false,
            timeout: Some(timeout),
        });
        stack.extras = dropped.iter().copied().collect();
        // Work of an earlier traversal is taken back where it can be; what fits the new one is found by visit().
        let blocked = slots.iter().filter(|slot| self.rows[**slot].blocked > 0);
        let obsolete: Vec<Slot> = dropped.iter().chain(blocked).copied().collect();
        for slot in obsolete {
            self.take_back(slot);
        }
        for slot in slots {
            if self.rows[slot].blocked == 0 {
                self.agenda.push_back(Todo::Visit(slot));
            }
        }
        self.begin_first(id);
    }

    /// The rows of the new revision, by index, and what is known of them without a look. `steady`: those that are
    /// neither dirty nor new are as they should be.
    fn lay_out_forward(
        &mut self,
        id: u64,
        plan: &Plan,
        steady: bool,
        template: &Template,
        parameters: &Parameters,
    ) -> (Vec<Slot>, Vec<u128>) {
        let known =
            self.stacks.get_mut(&id).filter(|_| steady).map(|stack| std::mem::take(&mut stack.settled));
        let mut forward = Vec::with_capacity(plan.chosen.len());
        let mut settled = known.unwrap_or_else(|| vec![0; plan.chosen.len()]);
        let mut new = Vec::new();
        for (index, slot) in plan.chosen.iter().enumerate() {
            if let Some(slot) = slot
                && !plan.dirty[index]
                && settled[index] != 0
            {
                forward.push(*slot);
                continue;
            }
            let slot = slot.unwrap_or_else(|| {
                new.push(index);
                self.new_row(id, template, index)
            });
            forward.push(slot);
            let row = &mut self.rows[slot];
            row.index = u32::try_from(index).expect("bounded by RESOURCES_MAX");
            let revived = row.dropped.take().is_some() | row.replaced_by.take().is_some();
            if !plan.dirty[index] {
                row.role = Role::Steady;
                settled[index] = row.definition;
                continue;
            }
            settled[index] = 0;
            row.role = Role::Forward;
            (row.ready, row.failed) = (false, false);
            row.retry_count = 0;
            row.set_hooks_again();
            let requires = &template.resources[index].requires;
            row.blocked = u32::try_from(requires.iter().filter(|r| plan.dirty[**r as usize]).count())
                .expect("bounded by RESOURCES_MAX");
            self.row_changed(slot, revived);
            self.own(slot, template, index, parameters);
        }
        for index in new {
            let requires: Box<[Slot]> =
                template.resources[index].requires.iter().map(|r| forward[*r as usize]).collect();
            if !requires.is_empty() {
                self.rows[forward[index]].requires = requires;
                self.edges_changed(forward[index]);
            }
        }
        (forward, settled)
    }

    fn new_row(&mut self, stack: u64, template: &Template, index: usize) -> Slot {
        let resource = &template.resources[index];
        let (id, physical) = self.next_ids();
        let slot = self.rows.insert(Row::new(id, physical, stack, Arc::from(&*resource.name), resource.kind));
        self.by_physical.insert(physical, slot);
        self.rows[slot].revision = self.stacks[&stack].revision;
        self.rows[slot].index = u32::try_from(index).expect("bounded by RESOURCES_MAX");
        self.row_changed(slot, true);
        slot
    }

    /// A new row for the same resource; the old one is cleaned up when all is ready.
    pub(crate) fn replace(&mut self, old: Slot, template: &Template) -> Slot {
        let index = self.rows[old].index as usize;
        let stack_id = self.rows[old].stack;
        let new = self.new_row(stack_id, template, index);
        self.not_failed(old);
        self.leave_hook(old);
        let (old_id, new_id) = (self.rows[old].id, self.rows[new].id);
        let (retain, external_id) = (self.rows[old].retain, self.rows[old].rare().external_id.clone());
        let row = &mut self.rows[new];
        row.role = Role::Forward;
        row.replaces = Some(old_id);
        row.retain = retain;
        if external_id.is_some() {
            row.rare_mut().external_id = external_id;
        }
        self.set_requires(new, template, false);
        let Some(stack) = self.stacks.get_mut(&stack_id) else { return new };
        stack.forward[index] = new;
        stack.settled[index] = 0;
        stack.extras.insert(old);
        if let Some(walk) = &mut stack.walk {
            walk.total += 1;
        }
        let row = &mut self.rows[old];
        row.replaced_by = Some(new_id);
        row.role = Role::Cleanup;
        row.blocked = UNCOUNTED;
        row.dropped = Some(stack.revision);
        self.row_changed(old, true);
        new
    }

    /// What can be known before anything runs: property values, claims, nodes.
    fn check(
        &self,
        stack: u64,
        plan: &Plan,
        template: &Template,
        parameters: &Parameters,
        options: &Options,
    ) -> Result<Vec<String>, Refusal> {
        self.check_ownership(plan, template, parameters)?;
        let dropped: BTreeSet<Slot> = plan.dropped.iter().copied().collect();
        let mut claims: BTreeMap<(NodeId, Claim), usize> = BTreeMap::new();
        let mut absent: BTreeSet<NodeId> = BTreeSet::new();
        for (index, resource) in template.resources.iter().enumerate() {
            if !plan.dirty[index] {
                continue;
            }
            let invalid = |error| Refusal::Invalid(template.property_error(index, &error).to_string());
            let properties = match template.render(index, parameters, &Nothing) {
                Ok(properties) => properties,
                Err(RenderError::NotYet { .. }) => continue,
                Err(error) => return Err(Refusal::Invalid(error.to_string())),
            };
            let node = muster_template::node(&properties).map_err(invalid)?;
            let spec = muster_template::spec(resource.kind, &properties).map_err(invalid)?;
            let Some(node) = node else { continue };
            let adopts = template.is_adopted(index);
            if !self.nodes.is_joined(&node) {
                absent.insert(node.clone());
            }
            for claim in spec.claims() {
                if let Some(other) = claims.insert((node.clone(), claim.clone()), index) {
                    return Err(Refusal::Conflict(format!(
                        "resources {} and {} both claim {claim} on {node}: one thing has one owner",
                        template.resources[other].name, resource.name
                    )));
                }
                let owner = self.nodes.find(&node).and_then(|key| self.claims.owner(key, &claim));
                let owner = owner.filter(|owner| plan.chosen[index] != Some(*owner));
                if let Some(owner) = owner.filter(|owner| self.takes_it_away(adopts, *owner)) {
                    return Err(self.adopted_from_its_maker(&claim, &node, owner, &resource.name));
                }
                if let Some(owner) = owner.filter(|owner| !dropped.contains(owner)) {
                    let owner = &self.rows[owner];
                    // One that changes may let it go; its index is still that of the template before.
                    let index = template.resources.binary_search_by(|other| (*other.name).cmp(&*owner.name));
                    let changes = owner.stack == stack && index.is_ok_and(|index| plan.dirty[index]);
                    if !changes {
                        return Err(self.claimed(&claim, &node, owner, &resource.name));
                    }
                }
            }
        }
        if options.require_nodes && !absent.is_empty() {
            let names: Vec<&str> = absent.iter().take(WARNINGS_MAX).map(NodeId::as_str).collect();
            return Err(Refusal::Conflict(format!("these nodes have never joined: {}", names.join(", "))));
        }
        let unknown = absent.iter().filter(|name| self.nodes.find(name).is_none()).count();
        if !self.nodes.has_room(unknown) {
            return Err(Refusal::Conflict("too many nodes are named that have never joined".into()));
        }
        let mut warnings: Vec<String> =
            absent.iter().take(WARNINGS_MAX).map(|name| self.never_joined(name)).collect();
        if absent.len() > WARNINGS_MAX {
            warnings.push(format!("{} more nodes have never joined", absent.len() - WARNINGS_MAX));
        }
        Ok(warnings)
    }

    pub(crate) fn claimed(&self, claim: &Claim, node: &NodeId, owner: &Row, asker: &str) -> Refusal {
        let stack = self.stacks.get(&owner.stack).map_or("?", |stack| stack.name.as_str());
        Refusal::Conflict(format!(
            "resource {asker} claims {claim} on {node}, which belongs to resource {} of stack {stack}",
            owner.name
        ))
    }

    pub(crate) fn never_joined(&self, name: &NodeId) -> String {
        match self.nodes.nearest(name.as_str()) {
            _ if self.was_removed(name) => format!("node {name} was removed and is waited for"),
            Some(near) => format!("node {name} has never joined and is waited for; did you mean {near}?"),
            None => format!("node {name} has never joined and is waited for"),
        }
    }
}

/// As `stack revisions` shows it.
fn made_by(target: &Target) -> String {
    match (target.action, target.revision) {
        (StackAction::Rollback, Some(to)) => format!("{} to {to}", target.action.as_str()),
        (action, _) => action.as_str().into(),
    }
}

/// Before anything runs nothing is known of other resources.
struct Nothing;

impl References for Nothing {
    fn resource_id(&self, _: u32) -> Option<String> {
        None
    }

    fn attribute(&self, _: u32, _: &str) -> Option<Value> {
        None
    }
}
