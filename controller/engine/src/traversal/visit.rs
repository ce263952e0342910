//! The visit of a row whose needs are ready. The visit renders the properties, asks `row/needed.rs` for the
//! step (nothing, a job, or a replacement), and takes it. It withdraws a job that no longer fits.
//!
//! Absent: which step that is (`row/needed.rs`), what holds the step back (`traversal/gate.rs`), and
//! when all that a row needs is ready (`traversal/derive.rs` counts its needs, `traversal/readiness.rs` frees it).

use std::sync::Arc;

use muster_shared::NodeId;
use muster_shared::id::IdError;
use muster_shared::model::{Action, Claim};
use muster_template::{Desired, Kind, RenderError, Restriction, Tree};

use crate::content::externalise;
use crate::deployment::Deployed;
use crate::job::NewJob;
use crate::jobs::Jobs;
use crate::node::NodeKey;
use crate::record::{PackedSpec, Status};
use crate::row::attribute::Rendered;
use crate::row::cause::Cause;
use crate::row::needed::Needed;
use crate::row::{Role, Slot, TaskState};
use crate::todo::Todo;
use crate::traversal::walk::Stage;
use crate::traversals::Traversals;

/// A job must fit one message together with its frame.
const SPEC_MAX: usize = 240 * 1024;
/// Limit for the properties of a virtual resource, which memory and the store hold. Values passed
/// between resources are far smaller.
const HERE_MAX: usize = 4 * 1024 * 1024;

/// The outcome of a visit.
enum Decision {
    Nothing,
    Apply(Apply),
    Replace,
    /// The controller realises the resource itself (`traversal/virtual_resource.rs`).
    Realise {
        action: Action,
        spec: PackedSpec,
    },
    /// No node has joined that could have the resource.
    Unplaced,
    /// The properties need facts that this node, by its full or short name, has not told.
    Asks(NodeId),
}

/// The work of a job on a node.
struct Apply {
    node: NodeKey,
    action: Action,
    spec: PackedSpec,
    claims: Vec<Claim>,
    content: Option<Arc<[u8]>>,
}

impl Traversals {
    /// Takes the next step for a row: its question in a check, else what its role asks for. A row
    /// that is ready or blocked, or whose stack is cancelled, needs none.
    pub(crate) fn visit(&mut self, slot: Slot) {
        #[cfg(test)]
        {
            self.jobs.graph.ctx.visits += 1;
        }
        let Some(row) = self.jobs.graph.rows.get(slot) else { return };
        let stack = self.jobs.graph.stacks.get(&row.stack);
        if stack.and_then(|stack| stack.walk.as_ref()).is_some_and(|walk| walk.stage == Stage::Check) {
            return self.jobs.visit_to_check(slot);
        }
        if row.ready || row.blocked > 0 || stack.is_some_and(|stack| stack.cancelled) {
            return;
        }
        match row.role {
            _ if row.is_lost() => self.visit_lost(slot),
            Role::Steady => {}
            Role::Forward if self.jobs.graph.is_first(row.stack) => {}
            Role::Forward => self.visit_forward(slot),
            Role::Cleanup => self.visit_cleanup(slot),
        }
    }

    /// Decides about a row of the revision, and takes the step if nothing holds it back.
    pub(crate) fn visit_forward(&mut self, slot: Slot) {
        self.awaited.looked_at(slot);
        let stack = self.jobs.graph.rows[slot].stack;
        let walk = self.jobs.graph.stacks.get(&stack).and_then(|stack| stack.walk.as_ref());
        let Some(tree) = walk.map(|walk| Arc::clone(&walk.tree)) else { return };
        if !self.is_as_expanded(slot, &tree) {
            return;
        }
        self.jobs.note_definition(slot, &tree);
        let decision = self.decide(slot, &tree).map_err(|reason| {
            let stack = self.jobs.graph.stacks.get(&stack);
            stack.map(|stack| stack.without_hidden(&tree, &reason)).unwrap_or(reason)
        });
        let (acts, same_task) = match &decision {
            Ok(Decision::Apply(apply)) => (true, self.jobs.is_same_task(slot, apply)),
            Ok(Decision::Replace | Decision::Realise { .. }) => (true, false),
            Ok(Decision::Nothing | Decision::Unplaced | Decision::Asks(_)) | Err(_) => (false, false),
        };
        if acts && self.jobs.hold_step(slot, &tree, same_task) {
            return;
        }
        let changed = acts || self.jobs.stands_for_changed(slot, &tree);
        self.jobs.graph.rows[slot].note_changed(changed);
        match decision {
            Err(reason) => self.jobs.fail_without_job(slot, reason),
            Ok(Decision::Nothing) => {
                self.jobs.mend(slot);
                if !self.jobs.graph.waits_after(slot) {
                    self.jobs.row_ready(slot);
                }
            }
            Ok(Decision::Apply(apply)) => self.jobs.apply(slot, &tree, apply),
            Ok(Decision::Realise { action, spec }) => self.jobs.realise_soon(slot, &tree, action, spec),
            Ok(Decision::Replace) => self.replace_and_visit(slot, &tree),
            Ok(Decision::Unplaced) => self.awaited.any(slot),
            Ok(Decision::Asks(node)) => self.awaited.facts(slot, node),
        }
    }

    /// Lets another row take the place of this one, and visits that row once it may begin.
    fn replace_and_visit(&mut self, slot: Slot, tree: &Tree) {
        if self.jobs.withdraw_and_visit(slot) {
            return;
        }
        let row = &self.jobs.graph.rows[slot];
        let (is_past, has_job) = (row.is_past(), row.task().is_some());
        if let Some(reason) = self.jobs.graph.restricted(slot, Restriction::Replace).filter(|_| !is_past) {
            // The outcome of a job that is being withdrawn is not known yet.
            if !has_job {
                self.jobs.graph.rows[slot].refuse(Action::Update);
                self.jobs.fail_row(slot, reason);
            }
            return;
        }
        // The old row keeps its job, if any. Its clean-up waits until that job has ended.
        let new = self.replace(slot, tree);
        if !self.jobs.graph.waits_for_room(slot, new) {
            self.jobs.graph.ctx.agenda.push_back(Todo::Visit(new));
        }
    }

    fn decide(&mut self, slot: Slot, tree: &Tree) -> Result<Decision, String> {
        let row = &self.jobs.graph.rows[slot];
        let stack = &self.jobs.graph.stacks[&row.stack];
        let index = row.index as usize;
        let references = Rendered { graph: &self.jobs.graph, stack };
        let properties = match tree.render(index, &references) {
            // A row that needs no change does not wait for the facts of a node that is away.
            Err(RenderError::UnknownNode { .. }) if self.jobs.is_as_defined(slot, tree) => {
                return Ok(Decision::Nothing);
            }
            Err(RenderError::UnknownNode { node }) => {
                return node.parse().map(Decision::Asks).map_err(|error: IdError| error.to_string());
            }
            rendered => rendered.map_err(|error| error.to_string())?,
        };
        let kind = tree.kind(index);
        let wrong = |error| tree.property_error(index, &error).to_string();
        let site = Deployed {
            stack,
            resource: tree.name(index),
            config: &|id| self.jobs.graph.config(row.stack, id),
        };
        let mut spec = muster_template::spec_within(kind, &properties, &site).map_err(wrong)?;
        if row.is_beyond_use() {
            return Ok(Decision::Replace);
        }
        stack.may_have(kind)?;
        if kind.is_virtual() {
            self.bind_server(Some(row), &mut spec)?;
            if matches!(kind, Kind::Intent | Kind::TopologyHost | Kind::TopologyLink) {
                let stack = &self.jobs.graph.stacks[&row.stack];
                let may_hide = stack.hidden.hides_of_others() || !tree.secrets().is_empty();
                if may_hide && stack.masked(tree, properties.clone()) != properties {
                    return Err("something hidden is among its properties, and whoever looks at the network sees hosts, links and intents".into());
                }
            }
            return self.jobs.decide_virtual(slot, kind, &spec);
        }
        let node = muster_template::node(&properties).map_err(wrong)?;
        let node = match node {
            Some(name) => self.jobs.graph.nodes.key(&name),
            // A row that was never applied does not wait for a node that may never join.
            None => match row
                .node
                .filter(|key| row.is_applied() || self.jobs.graph.nodes.is_welcome(*key))
                .or_else(|| self.jobs.graph.nodes.any(row.id))
            {
                Some(node) => node,
                None => return Ok(Decision::Unplaced),
            },
        };
        let graph = &self.jobs.graph;
        graph.in_scope(&graph.stacks[&graph.rows[slot].stack], &graph.nodes[node].name)?;
        let content = externalise(&mut spec);
        self.jobs.graph.rows[slot].mark_restarts(&mut spec);
        let packed = PackedSpec::new(&spec);
        if packed.bytes().len() > SPEC_MAX && !packed.is_flows() {
            return Err(format!(
                "its properties are {} bytes, over the limit of {SPEC_MAX}",
                packed.bytes().len()
            ));
        }
        let mut needed = self.jobs.graph.rows[slot].needed(kind, Some(node), &spec, &packed);
        let waits = || {
            self.jobs.graph.rows[slot].waits_for_its_time(&packed)
                || self.jobs.restart_waits(slot, node, &packed)
        };
        if needed == Needed::Apply(Action::Update) && waits() {
            needed = Needed::Nothing;
        }
        if needed == Needed::Nothing && self.jobs.is_to_converge(slot, kind, &packed) {
            needed = Needed::Apply(if self.jobs.graph.rows[slot].is_external() {
                Action::Check
            } else {
                Action::Update
            });
        }
        let row = &self.jobs.graph.rows[slot];
        if self.jobs.graph.stacks[&row.stack].adopt {
            needed = needed.adopting(kind, Some(row));
        }
        if packed.is_flows() {
            let stack = &self.jobs.graph.stacks[&self.jobs.graph.rows[slot].stack];
            let may_hide = stack.hidden.hides_of_others() || !tree.secrets().is_empty();
            let hides = may_hide && stack.masked(tree, properties.clone()) != properties;
            self.mark_hidden_flows(slot, hides, needed == Needed::Nothing);
        }
        Ok(match needed {
            Needed::Nothing => Decision::Nothing,
            Needed::Replace => Decision::Replace,
            Needed::Apply(action) => {
                Decision::Apply(Apply { node, action, spec: packed, claims: spec.claims(), content })
            }
        })
    }
}

impl Jobs {
    /// Notes in the row what a later step needs of its definition. Each visit does: the row may be a
    /// replacement, and the tree may be new after a restart.
    fn note_definition(&mut self, slot: Slot, tree: &Tree) {
        let index = self.graph.rows[slot].index as usize;
        self.remember_removed(slot, tree.removed(index));
        self.graph.remember_selector(slot, tree);
        self.remember_restarts(slot, tree);
        self.be_of_type(slot, tree.kind(index));
    }

    /// Gives the row a job, unless the present one does the same.
    fn apply(&mut self, slot: Slot, tree: &Tree, apply: Apply) {
        let is_same = self.is_same_task(slot, &apply);
        let Apply { node, action, spec, claims, content } = apply;
        if self.graph.rows[slot].task().is_some() {
            if !is_same || self.graph.is_held_back(slot) {
                self.withdraw_and_visit(slot);
            }
            return;
        }
        if let Err(held) = self.may_begin(slot, node, action, claims) {
            return self.hold_back(slot, action, held);
        }
        self.graph.set_requires(slot, tree, true);
        let row = &mut self.graph.rows[slot];
        row.set_kind(tree.kind(row.index as usize));
        let job = NewJob { cause: Cause::Traversal, node, action, spec: Some(spec), content };
        self.queue_job(slot, job);
    }

    /// Lets the engine realise a virtual resource, unless the row already waits for just that.
    fn realise_soon(&mut self, slot: Slot, tree: &Tree, action: Action, spec: PackedSpec) {
        if self.graph.waits_for_this(slot, &spec) {
            self.graph.set_requires(slot, tree, true);
            return self.look_at_signals(slot);
        }
        self.graph.break_pause_for(slot, &spec);
        if self.graph.rows[slot].task().is_some() {
            self.withdraw_and_visit(slot);
        } else if let Err(held) = self.graph.may_be_done(slot, action) {
            self.hold_back(slot, action, held);
        } else {
            self.graph.set_requires(slot, tree, true);
            let kind = tree.kind(self.graph.rows[slot].index as usize);
            self.graph.ctx.agenda.push_front(Todo::Realise { slot, kind, action, spec });
        }
    }

    /// Withdraws the row's job. A job that the agent does not have is gone at once: then the row is visited again.
    /// Returns whether it is. Otherwise the answer of the agent leads to the next visit.
    fn withdraw_and_visit(&mut self, slot: Slot) -> bool {
        if self.graph.rows[slot].task().is_none() {
            return false;
        }
        self.withdraw(slot);
        let is_gone = self.graph.rows[slot].task().is_none();
        if is_gone {
            self.graph.ctx.agenda.push_back(Todo::Visit(slot));
        }
        is_gone
    }

    /// Fails the row, once it has no job.
    fn fail_without_job(&mut self, slot: Slot, reason: String) {
        if self.graph.rows[slot].task().is_some() {
            self.withdraw(slot);
        }
        if self.graph.rows[slot].task().is_none() {
            self.fail_row(slot, reason);
        }
    }

    /// Whether a row below a nested stack or a group has changed in this operation.
    fn stands_for_changed(&self, slot: Slot, tree: &Tree) -> bool {
        let index = self.graph.rows[slot].index as usize;
        tree.kind(index).is_whole() && self.needs_changed(slot, tree)
    }

    fn needs_changed(&self, slot: Slot, tree: &Tree) -> bool {
        let row = &self.graph.rows[slot];
        let forward = &self.graph.stacks[&row.stack].forward;
        tree.requires(row.index as usize)
            .iter()
            .any(|index| self.graph.rows[forward[*index as usize]].changed)
    }

    /// Whether the row has the definition of the tree and no row that it needs has changed.
    /// Facts of nodes do not count.
    fn is_as_defined(&self, slot: Slot, tree: &Tree) -> bool {
        let row = &self.graph.rows[slot];
        let index = row.index as usize;
        row.is_as_defined(tree.kind(index), tree.definition(index)) && !self.needs_changed(slot, tree)
    }

    /// Clears the failure of a row that failed without a job and has what the revision asks for.
    fn mend(&mut self, slot: Slot) {
        let row = &self.graph.rows[slot];
        if row.status() == Some(Status::Failed) && !row.failed_after_drift() {
            self.graph.not_failed(slot);
            self.graph.rows[slot].mend();
        }
    }

    /// Whether the row's job already leads to this. An adoption is no creation: it changes nothing.
    fn is_same_task(&self, slot: Slot, apply: &Apply) -> bool {
        let row = &self.graph.rows[slot];
        row.node == Some(apply.node)
            && row.spec() == Some(&apply.spec)
            && (row.action() == Some(Action::Adopt)) == (apply.action == Action::Adopt)
            && !row.is_going()
            && row.task().is_some_and(|task| task.state != TaskState::Withdrawing)
    }

    /// Whether a row that seems unchanged gets a job all the same, so that its agent looks and
    /// corrects. Deployments do not run again. Flow tables are compared all the time. A restricted
    /// row is left alone.
    fn is_to_converge(&self, slot: Slot, kind: Kind, spec: &PackedSpec) -> bool {
        self.graph.rows[slot].converges
            && !kind.is_deployment()
            && !spec.is_flows()
            && self.graph.restricted(slot, Restriction::Update).is_none()
    }

    fn decide_virtual(&self, slot: Slot, kind: Kind, spec: &Desired) -> Result<Decision, String> {
        let packed = PackedSpec::new(spec);
        if packed.bytes().len() > HERE_MAX {
            let bytes = packed.bytes().len();
            return Err(format!("its properties are {bytes} bytes, over the limit of {HERE_MAX}"));
        }
        Ok(match self.graph.rows[slot].needed(kind, None, spec, &packed) {
            Needed::Nothing => Decision::Nothing,
            Needed::Replace => Decision::Replace,
            Needed::Apply(action) => Decision::Realise { action, spec: packed },
        })
    }
}
