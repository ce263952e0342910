//! The walk of a graph: a node whose needs are ready is visited; what it decides becomes a job, or nothing.
//!
//! ```text
//!   Forward ── all ready ──▶ Cleanup ── all gone ──▶ COMPLETE (or, for DELETE, no stack)
//!      └──────── nothing can go on ────┴──────────▶ FAILED, or rolled back
//! ```

use std::sync::Arc;

use muster_shared::model::{Action, Content, ContentDigest, Spec};
use muster_template::{References, Template};
use serde_json::Value;

use crate::engine::{Engine, Todo};
use crate::node::NodeKey;
use crate::operation::Pending;
use crate::record::PackedSpec;
use crate::record::{Change, StackAction, Status};
use crate::request::Source;
use crate::resource::{Role, Slot, WorkState};
use crate::stack::{Stack, Stage};
use crate::view::OutputView;

/// A job must fit one message together with its frame.
const SPEC_MAX: usize = 240 * 1024;
/// COMPLETE revisions remembered for rollback.
const COMPLETE_KEPT: usize = 100;

/// What a visit found to be done.
enum Decision {
    Nothing,
    Apply {
        node: NodeKey,
        action: Action,
        spec: PackedSpec,
        content: Option<Arc<[u8]>>,
    },
    Replace,
    /// No node has joined that could have it.
    Unplaced,
}

impl Engine {
    /// Does what a graph node needs now that all it waits for is done.
    pub(crate) fn visit(&mut self, slot: Slot) {
        let Some(row) = self.rows.get(slot) else { return };
        if row.ready || row.blocked > 0 {
            return;
        }
        match row.role {
            Role::Steady => {}
            Role::Forward => self.visit_forward(slot),
            Role::Cleanup => self.visit_cleanup(slot),
        }
    }

    fn visit_forward(&mut self, slot: Slot) {
        let stack = self.rows[slot].stack;
        let Some(template) =
            self.stacks.get(&stack).and_then(|s| s.walk.as_ref()).map(|w| Arc::clone(&w.template))
        else {
            return;
        };
        let decision = self.decide(slot, &template).map_err(|reason| {
            let walk = self.stacks.get(&stack).and_then(|stack| stack.walk.as_ref());
            walk.map(|walk| walk.parameters.without_hidden(&reason)).unwrap_or(reason)
        });
        match decision {
            Err(reason) if self.rows[slot].work.is_some() => {
                self.take_back(slot);
                if self.rows[slot].work.is_none() {
                    self.fail_row(slot, reason);
                }
            }
            Err(reason) => self.fail_row(slot, reason),
            Ok(Decision::Nothing) => self.row_ready(slot),
            Ok(Decision::Apply { node, action, spec, content }) => {
                if self.rows[slot].work.is_none() {
                    self.set_requires(slot, &template, true);
                    let row = &mut self.rows[slot];
                    row.kind = template.resources[row.index as usize].kind;
                    self.queue_job(slot, node, action, Some(spec), content);
                } else if !self.is_same_work(slot, node, &spec) {
                    self.take_back(slot);
                    if self.rows[slot].work.is_none() {
                        self.agenda.push_back(Todo::Visit(slot));
                    }
                }
            }
            Ok(Decision::Replace) => {
                if self.rows[slot].work.is_some() {
                    self.take_back(slot);
                    if self.rows[slot].work.is_none() {
                        self.agenda.push_back(Todo::Visit(slot));
                        return;
                    }
                }
                // The old row keeps its work, if any, and is cleaned up after that has ended.
                let new = self.replace(slot, &template);
                self.agenda.push_back(Todo::Visit(new));
            }
            Ok(Decision::Unplaced) => {
                self.unplaced.insert(slot);
            }
        }
    }

    /// Whether the job that is out already leads to what is wanted.
    fn is_same_work(&self, slot: Slot, node: NodeKey, spec: &PackedSpec) -> bool {
        let row = &self.rows[slot];
        row.node == Some(node)
            && row.spec.as_ref() == Some(spec)
            && row.action != Some(Action::Delete)
            && row.work.as_ref().is_some_and(|work| work.state != WorkState::Withdrawing)
    }

    fn decide(&mut self, slot: Slot, template: &Template) -> Result<Decision, String> {
        let row = &self.rows[slot];
        let stack = &self.stacks[&row.stack];
        let Some(walk) = &stack.walk else { return Ok(Decision::Nothing) };
        let index = row.index as usize;
        let references = Rendered { engine: self, stack };
        let properties = template.render(index, &walk.parameters, &references).map_err(|e| e.to_string())?;
        let kind = template.resources[index].kind;
        let wrong = |error| template.property_error(index, &error).to_string();
        let mut spec = muster_template::spec(kind, &properties).map_err(wrong)?;
        let node = muster_template::node(&properties).map_err(wrong)?;
        if row.action == Some(Action::Delete) && row.work.is_none() {
            return Ok(Decision::Replace); // its thing is gone, or half gone
        }
        let node = match node {
            Some(name) => self.nodes.key(&name),
            None => match row.node.or_else(|| self.any_node(row.id)) {
                Some(node) => node,
                None => return Ok(Decision::Unplaced),
            },
        };
        let content = externalise(&mut spec);
        let packed = PackedSpec::new(&spec);
        if packed.bytes().len() > SPEC_MAX {
            return Err(format!(
                "its properties are {} bytes, over the limit of {SPEC_MAX}",
                packed.bytes().len()
            ));
        }
        let row = &self.rows[slot];
        if row.applied {
            let differs = row.kind != kind
                || row.node != Some(node)
                || row.spec.as_ref().is_none_or(|old| old.unpack().needs_replacement(&spec));
            if differs {
                return Ok(Decision::Replace);
            }
        }
        let settled = row.status == Some(Status::Complete) && row.work.is_none() && !row.handed_over;
        if settled && row.spec.as_ref() == Some(&packed) {
            return Ok(Decision::Nothing);
        }
        self.claim(slot, node, &spec)?;
        let action = if self.rows[slot].held.is_some() { Action::Update } else { Action::Create };
        Ok(Decision::Apply { node, action, spec: packed, content })
    }

    /// Takes what the spec claims, from a row that is being dropped if need be.
    fn claim(&mut self, slot: Slot, node: NodeKey, spec: &Spec) -> Result<(), String> {
        let claims = spec.claims();
        for claim in &claims {
            let Some(owner) = self.claims.owner(node, claim).filter(|owner| *owner != slot) else { continue };
            let (row, other) = (&self.rows[slot], &self.rows[owner]);
            if other.stack != row.stack || other.role != Role::Cleanup {
                return Err(self.claimed(claim, &self.nodes[node].name, other, &row.name).to_string());
            }
        }
        for claim in claims {
            if let Some(owner) = self.claims.owner(node, &claim).filter(|owner| *owner != slot) {
                self.rows[owner].handed_over = true;
                self.row_changed(owner, true);
            }
            self.claims.take(node, claim, slot);
        }
        Ok(())
    }

    /// A node for a resource that may be anywhere: spread by row.
    fn any_node(&self, row: u64) -> Option<NodeKey> {
        let joined: Vec<NodeKey> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.joined.as_ref().is_some_and(|j| !j.revoked))
            .map(|(k, _)| k)
            .collect();
        let count = u64::try_from(joined.len()).ok().filter(|count| *count > 0)?;
        joined.get(usize::try_from(row % count).ok()?).copied()
    }

    pub(crate) fn place_the_unplaced(&mut self) {
        for slot in std::mem::take(&mut self.unplaced) {
            self.agenda.push_back(Todo::Visit(slot));
        }
    }

    fn visit_cleanup(&mut self, slot: Slot) {
        if self.rows[slot].work.is_some() {
            return; // visited again when its outcome is known
        }
        let row = &self.rows[slot];
        match row.node {
            Some(node) if row.applied => self.queue_job(slot, node, Action::Delete, None, None),
            _ => self.drop_row(slot),
        }
    }

    /// `both`: the thing may be as it was or as it will be, so it needs what either needs.
    pub(crate) fn set_requires(&mut self, slot: Slot, template: &Template, both: bool) {
        let row = &self.rows[slot];
        let forward = &self.stacks[&row.stack].forward;
        let wanted = template.resources[row.index as usize].requires.iter().map(|r| forward[*r as usize]);
        let mut requires: Vec<Slot> = wanted.collect();
        if both && row.applied {
            requires.extend(row.requires.iter().filter(|old| self.rows.get(**old).is_some()));
        }
        requires.sort_unstable();
        requires.dedup();
        if *requires != *row.requires {
            self.rows[slot].requires = requires.into();
            self.edges_changed(slot);
        }
    }

    /// A forward node is as the revision wants it: those that need it may go.
    pub(crate) fn row_ready(&mut self, slot: Slot) {
        let stack_id = self.rows[slot].stack;
        let Some(walk) = self.stacks.get(&stack_id).and_then(|stack| stack.walk.as_ref()) else { return };
        let template = Arc::clone(&walk.template);
        let index = self.rows[slot].index as usize;
        let definition = template.resources[index].definition_digest(&walk.parameters);
        self.set_requires(slot, &template, false);
        let revision = self.stacks[&stack_id].revision;
        let row = &mut self.rows[slot];
        row.ready = true;
        let redefined = row.definition != definition;
        if redefined {
            row.definition = definition;
            row.revision = revision;
        }
        self.row_changed(slot, redefined);
        let Some(stack) = self.stacks.get_mut(&stack_id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        walk.forward_left -= 1;
        for &next in walk.needed_by.of(index) {
            let next = stack.forward[next as usize];
            let row = &mut self.rows[next];
            if row.role == Role::Forward && !row.ready {
                row.blocked = row.blocked.saturating_sub(1);
                if row.blocked == 0 {
                    self.agenda.push_back(Todo::Visit(next));
                }
            }
        }
        self.agenda.push_back(Todo::CheckEnd(stack_id));
    }

    /// This graph node has failed for good; independent branches go on.
    pub(crate) fn fail_row(&mut self, slot: Slot, reason: String) {
        let row = &mut self.rows[slot];
        row.status = Some(Status::Failed);
        row.action.get_or_insert(Action::Create);
        row.reason = Some(reason.into());
        let stack = row.stack;
        self.row_changed(slot, false);
        self.event(stack, Some(slot));
        if let Some(walk) = self.stacks.get_mut(&stack).and_then(|stack| stack.walk.as_mut()) {
            walk.failed += 1;
        }
        self.agenda.push_back(Todo::CheckEnd(stack));
    }

    /// The row's thing is not there (any more): nothing is left to remember.
    pub(crate) fn drop_row(&mut self, slot: Slot) {
        self.let_go(slot);
        let Some(row) = self.rows.remove(slot) else { return };
        self.by_physical.swap_remove(&row.physical);
        self.unplaced.remove(&slot);
        if let Some(node) = row.node {
            self.nodes[node].rows -= 1;
        }
        self.change(Change::ResourceRemoved(row.id));
        let Some(stack) = self.stacks.get_mut(&row.stack) else { return };
        stack.extras.swap_remove(&slot);
        let mut released: Vec<Slot> = Vec::new();
        for required in &row.requires {
            let Some(other) = self.rows.get_mut(*required) else { continue };
            if other.role == Role::Cleanup {
                other.blocked = other.blocked.saturating_sub(1);
                if other.blocked == 0 {
                    released.push(*required);
                }
            }
        }
        released.sort_by(|a, b| self.rows[*a].name.cmp(&self.rows[*b].name));
        self.agenda.extend(released.into_iter().map(Todo::Visit));
        self.agenda.push_back(Todo::CheckEnd(row.stack));
        self.touch(row.stack);
    }

    /// Claims and contents of a row's last spec.
    fn let_go(&mut self, slot: Slot) {
        let row = &self.rows[slot];
        let (Some(node), Some(spec)) = (row.node, row.spec.as_ref().map(PackedSpec::unpack)) else { return };
        for claim in spec.claims() {
            self.claims.release(node, &claim, slot);
        }
        self.release_content(&spec);
    }

    pub(crate) fn check_end(&mut self, id: u64) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        let Some(walk) = &mut stack.walk else { return };
        match walk.stage {
            Stage::Forward if walk.forward_left == 0 && !stack.extras.is_empty() => {
                walk.stage = Stage::Cleanup;
                walk.failed = 0;
                walk.ended = false;
                self.begin_cleanup(id);
            }
            Stage::Forward | Stage::Cleanup if walk.forward_left == 0 && stack.extras.is_empty() => {
                self.complete(id);
            }
            Stage::Forward | Stage::Cleanup => {
                if stack.active == 0 && walk.failed > 0 && !walk.ended {
                    walk.ended = true;
                    self.stuck(id);
                }
            }
        }
    }

    fn begin_cleanup(&mut self, id: u64) {
        let mut extras: Vec<Slot> = self.stacks[&id].extras.iter().copied().collect();
        for slot in &extras {
            self.rows[*slot].blocked = 0;
        }
        for slot in &extras {
            for required in self.rows[*slot].requires.clone() {
                if let Some(row) = self.rows.get_mut(required).filter(|row| row.role == Role::Cleanup) {
                    row.blocked += 1;
                }
            }
        }
        extras.sort_by(|a, b| {
            let (a, b) = (&self.rows[*a], &self.rows[*b]);
            (&a.name, a.id).cmp(&(&b.name, b.id))
        });
        self.agenda.extend(extras.into_iter().map(Todo::Visit));
        self.agenda.push_back(Todo::CheckEnd(id));
    }

    fn complete(&mut self, id: u64) {
        let outputs = self.outputs(&self.stacks[&id]);
        self.leave_walk(id);
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        for slot in &stack.forward {
            self.rows[*slot].role = Role::Steady;
        }
        stack.status = Status::Complete;
        stack.reason = String::new();
        stack.outputs = outputs;
        stack.queue = std::collections::VecDeque::new();
        stack.complete.insert(0, stack.revision);
        stack.complete.truncate(COMPLETE_KEPT);
        if stack.action == StackAction::Delete {
            let (name, traversal) = (stack.name.clone(), stack.traversal);
            self.stacks.remove(&id);
            self.names.remove(&name);
            self.seq += 1;
            self.change(Change::StackRemoved { id, name, traversal });
            return;
        }
        self.stack_changed(id);
        self.event(id, None);
    }

    fn stuck(&mut self, id: u64) {
        let Some(stack) = self.stacks.get(&id) else { return };
        let mut reason = String::new();
        for slot in stack.forward.iter().chain(&stack.extras) {
            let row = &self.rows[*slot];
            if row.status == Some(Status::Failed) && row.role != Role::Steady {
                // Three causes say enough in one line; each resource has its own.
                if reason.matches("; ").count() >= 2 {
                    reason.push_str("; …");
                    break;
                }
                if !reason.is_empty() {
                    reason.push_str("; ");
                }
                reason.push_str(&format!("{}: {}", row.name, row.reason.as_deref().unwrap_or("failed")));
            }
        }
        self.end_failed(id, reason);
    }

    /// FAILED, and rolled back where that was asked for.
    pub(crate) fn end_failed(&mut self, id: u64, reason: String) {
        let Some(stack) = self.stacks.get_mut(&id) else { return };
        stack.status = Status::Failed;
        stack.reason = reason;
        let roll_back = std::mem::take(&mut stack.rollback);
        let (name, traversal) = (stack.name.clone(), stack.traversal);
        let revision = stack.complete.first().copied();
        self.stack_changed(id);
        self.event(id, None);
        if roll_back {
            match revision {
                Some(revision) => {
                    self.load_revision(
                        name,
                        revision,
                        Pending { stack: id, traversal, revision, request: None },
                    );
                }
                None => {
                    let pending = Pending { stack: id, traversal, revision: 0, request: None };
                    self.pending.insert(0, pending);
                    self.revision_loaded(0, Ok(Source::nothing()));
                }
            }
        }
    }

    /// A stack has had its time. What is under way goes on: a node that returns finishes its branch.
    pub(crate) fn stack_due(&mut self, id: u64, traversal: u64) {
        let Some(stack) = self.stacks.get_mut(&id).filter(|stack| stack.traversal == traversal) else {
            return;
        };
        if stack.status != Status::InProgress {
            return;
        }
        if let Some(walk) = &mut stack.walk {
            walk.timeout = None;
        }
        let mut missing: Vec<String> = Vec::new();
        for slot in stack.forward.iter().chain(&stack.extras) {
            let row = &self.rows[*slot];
            if let Some(node) = row.work.as_ref().and(row.node).map(|key| &self.nodes[key])
                && !node.ready
            {
                missing.push(node.name.to_string());
            }
        }
        missing.sort();
        missing.dedup();
        let seconds = stack.timeout_s;
        let reason = match missing.len() {
            0 => format!("timed out after {seconds} s"),
            1..=10 => format!("timed out after {seconds} s; missing nodes: {}", missing.join(", ")),
            n => format!("timed out after {seconds} s; {n} nodes missing: {}, …", missing[..10].join(", ")),
        };
        self.end_failed(id, reason);
    }

    fn outputs(&self, stack: &Stack) -> Vec<OutputView> {
        let Some(walk) = &stack.walk else { return Vec::new() };
        let references = Rendered { engine: self, stack };
        let render = |(index, output): (usize, &muster_template::Output)| OutputView {
            key: output.key.to_string(),
            description: output.description.as_deref().unwrap_or_default().to_owned(),
            value: walk.template.render_output(index, &walk.parameters, &references).unwrap_or(Value::Null),
        };
        walk.template.outputs().iter().enumerate().map(render).collect()
    }

    /// Counts one more spec that refers to a content; `bytes` are needed the first time.
    pub(crate) fn keep_content(&mut self, spec: &Spec, bytes: Option<Arc<[u8]>>) {
        let Some(digest) = stored_content(spec) else { return };
        let count = self.contents.entry(digest).or_default();
        *count += 1;
        if *count == 1
            && let Some(bytes) = bytes
        {
            self.change(Change::Content { digest, bytes });
        }
    }

    pub(crate) fn release_content(&mut self, spec: &Spec) {
        let Some(digest) = stored_content(spec) else { return };
        if let Some(count) = self.contents.get_mut(&digest) {
            *count -= 1;
            if *count == 0 {
                self.contents.remove(&digest);
                self.change(Change::ContentRemoved(digest));
            }
        }
    }
}

/// Large content leaves the spec: it is fetched by its digest.
fn externalise(spec: &mut Spec) -> Option<Arc<[u8]>> {
    let Spec::File(file) = spec else { return None };
    match &mut file.content {
        Content::Inline(bytes) if bytes.len() > Content::INLINE_MAX => {
            let bytes = std::mem::take(bytes);
            let digest = ContentDigest::of(&bytes);
            file.content = Content::Stored { digest, size: bytes.len() as u64 };
            Some(bytes.into())
        }
        Content::Inline(_) | Content::Stored { .. } => None,
    }
}

pub(crate) fn stored_content(spec: &Spec) -> Option<ContentDigest> {
    match spec {
        Spec::File(file) => match &file.content {
            Content::Stored { digest, .. } => Some(*digest),
            Content::Inline(_) => None,
        },
        Spec::Dummy(_) | Spec::Network(_) => None,
    }
}

/// What a resource sees of those it needs.
struct Rendered<'a> {
    engine: &'a Engine,
    stack: &'a Stack,
}

impl References for Rendered<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        let slot = self.stack.forward.get(index as usize)?;
        Some(self.engine.rows[*slot].physical.to_string())
    }

    fn is_ready(&self, index: u32) -> bool {
        self.stack.forward.get(index as usize).is_some_and(|slot| self.engine.rows[*slot].ready)
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        let row = &self.engine.rows[*self.stack.forward.get(index as usize)?];
        if let Some(value) = row.attributes.as_ref().and_then(|attributes| attributes.get(name)) {
            return Some(Value::String(value.clone()));
        }
        row.spec.as_ref()?.unpack().attribute(name)
    }
}
