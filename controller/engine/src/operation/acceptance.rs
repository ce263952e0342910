//! Accepts or refuses an operation before it starts: property values, claims, nodes, immutable
//! parameters. A refused operation has changed nothing.
//!
//! Absent: which operations a stack takes in its present state (`operation.rs`), and claims while
//! jobs begin (`claim.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::NodeId;
use muster_shared::model::Claim;
use muster_shared::property::PropertyError;
use muster_template::{
    Desired, MASK, Policies, References, RenderError, Tree, Unresolved, VirtualResource, suggestion,
};
use serde_json::Value;

use crate::request::{Options, Refusal, Source};
use crate::row::Slot;
use crate::stack::Stack;
use crate::traversal::plan::{Plan, PlanInput, plan};
use crate::view::View;

/// Warnings in one answer. More would say the same.
const WARNINGS_MAX: usize = 20;
/// Names to compare a mistyped one with. This takes a fraction of a second.
const SUGGESTED_MAX: usize = 10_000;
/// Resources in a stack.
const RESOURCES_MAX: usize = 2_000_000;

/// An operation that was checked and can start.
pub(crate) struct Planned {
    /// The tree, expanded with what is known of rows and nodes.
    pub tree: Arc<Tree>,
    pub plan: Plan,
    /// Problems that do not prevent the operation.
    pub warnings: Vec<String>,
}

/// Nodes of a stack that cannot get a job yet.
pub(crate) struct AbsentNodes {
    /// Nodes that have never joined, or were removed.
    absent: BTreeSet<NodeId>,
    /// The template's names for absent nodes that one of its servers is bound to.
    bound: BTreeMap<NodeId, NodeId>,
    revoked: BTreeSet<NodeId>,
}

impl View<'_> {
    /// Plans an operation on a stack, and checks what can be known now.
    pub(crate) fn planned(
        &self,
        stack: &Stack,
        source: &Source,
        target: Option<u32>,
        options: &Options,
    ) -> Result<Planned, Refusal> {
        let Source { tree, policies, .. } = source;
        let grown = self.graph.grown(stack, tree, true);
        let tree =
            grown.map_err(|errors| Refusal::Invalid(stack.without_hidden(tree, &errors.to_string())))?;
        if tree.len() > RESOURCES_MAX {
            return Err(Refusal::Invalid(format!("a stack has at most {RESOURCES_MAX} resources")));
        }
        if target.is_none()
            && let Some(name) = changed_immutable(stack, &tree)
        {
            return Err(Refusal::Invalid(format!(
                "the parameter '{name}' is immutable: its value cannot change while the stack is there"
            )));
        }
        let of = PlanInput::of(stack, &self.graph.rows);
        let ground = PlanInput { converges: options.converge, target, ..of };
        let plan = plan(&ground, &tree);
        let shown = |text: String| stack.without_hidden(&tree, &text);
        let checked = self.check(stack, &plan, &tree, options);
        let absent = checked.map_err(|refusal| refusal.map(shown))?;
        let mut warnings: Vec<String> = self.warnings(&absent).into_iter().map(shown).collect();
        if target.is_none() {
            let said = self.graph.check_sets(&tree, options).map_err(|refusal| refusal.map(shown))?;
            warnings.extend(said.into_iter().map(shown));
        }
        warnings.extend(self.named_by_none(stack, &tree, policies));
        warnings.extend(tree.warnings().into_iter().map(shown));
        Ok(Planned { tree, plan, warnings })
    }

    /// Warnings for names in environments that the template does not have. An environment may serve
    /// many stacks, but a name in it may also be mistyped.
    fn named_by_none(&self, stack: &Stack, tree: &Tree, policies: &Policies) -> Vec<String> {
        let mut unknown: Vec<&str> = policies.named().filter(|name| tree.index_of(name).is_none()).collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        let rows: BTreeSet<&str> =
            stack.forward.iter().chain(&stack.extras).map(|slot| &*self.graph.rows[*slot].name).collect();
        unknown.retain(|name| !rows.contains(name));
        let said = |name: &str| {
            let known = (0..tree.len()).take(SUGGESTED_MAX).map(|index| tree.name(index));
            let near = suggestion(name, known);
            format!("an environment names the resource '{name}', which the template does not have{near}")
        };
        unknown.into_iter().take(WARNINGS_MAX).map(said).collect()
    }

    /// Checks what can be known before a job runs: property values, claims, nodes. Returns the nodes
    /// that the stack will wait for.
    pub(crate) fn check(
        &self,
        stack: &Stack,
        plan: &Plan,
        tree: &Tree,
        options: &Options,
    ) -> Result<AbsentNodes, Refusal> {
        self.jobs.check_ownership(plan, tree)?;
        let dropped: BTreeSet<Slot> = plan.dropped.iter().copied().collect();
        let mut claims: BTreeMap<(NodeId, Claim), usize> = BTreeMap::new();
        let mut absent: BTreeSet<NodeId> = BTreeSet::new();
        let mut bound: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        let mut revoked: BTreeSet<NodeId> = BTreeSet::new();
        for index in 0..tree.len() {
            if !plan.dirty[index] {
                continue;
            }
            let invalid = |error| Refusal::Invalid(tree.property_error(index, &error).to_string());
            let kind = tree.kind(index);
            if options.adopt && plan.chosen[index].is_none() && !kind.is_adoptable() {
                return Err(invalid(PropertyError::new(format!(
                    "a {} cannot be adopted, because nothing says what it would change: leave it out, and add it by an update",
                    kind.name()
                ))));
            }
            if tree.asks_nodes(index) {
                absent.extend(self.asked_of_nobody(tree, index).map_err(Refusal::Invalid)?);
            }
            let properties = match tree.render(index, &NoReferences) {
                Ok(properties) => properties,
                Err(RenderError::NotYet { .. } | RenderError::UnknownNode { .. }) => continue,
                Err(error) => return Err(Refusal::Invalid(error.to_string())),
            };
            // The config of a deployment is known once the config's row exists.
            let spec = match kind.is_deployment() {
                true => muster_template::check_values(kind, &properties).map(|()| None),
                false => muster_template::spec(kind, &properties).map(Some),
            };
            let mut spec = spec.map_err(invalid)?;
            if let Some(Desired::Virtual(VirtualResource::Server(name))) = &spec {
                let name = name.clone();
                let row = plan.chosen[index].map(|slot| &self.graph.rows[slot]);
                spec.as_mut()
                    .map_or(Ok(()), |it| self.traversals.bind_server(row, it))
                    .map_err(Refusal::Invalid)?;
                match &spec {
                    Some(Desired::Virtual(VirtualResource::Bound(node)))
                        if self.graph.nodes.is_joined(node) => {}
                    Some(Desired::Virtual(VirtualResource::Bound(node))) => {
                        absent.insert(node.clone());
                        bound.insert(node.clone(), name);
                    }
                    _ => drop(absent.insert(name)),
                }
            }
            stack.may_have(kind).map_err(Refusal::Forbidden)?;
            if kind.is_virtual() {
                continue;
            }
            let node = muster_template::node(&properties).map_err(invalid)?;
            let Some(node) = node else { continue };
            self.graph.in_scope(stack, &node).map_err(Refusal::Forbidden)?;
            let is_external = tree.is_external(index);
            if !self.graph.nodes.is_joined(&node) {
                absent.insert(node.clone());
            } else if !self.graph.nodes.find(&node).is_some_and(|key| self.graph.nodes.is_welcome(key)) {
                revoked.insert(node.clone());
            }
            if let Some(Desired::Flows(set)) = &spec
                && let Some(refusal) = self.flows().conflict(set, tree.name(index))
            {
                return Err(refusal);
            }
            for claim in spec.iter().flat_map(Desired::claims) {
                if let Some(other) = claims.insert((node.clone(), claim.clone()), index) {
                    return Err(Refusal::Conflict(format!(
                        "resources {} and {} both claim {claim} on {node}: one thing has one owner",
                        tree.name(other),
                        tree.name(index)
                    )));
                }
                let owner = self.graph.nodes.find(&node).and_then(|key| self.jobs.claims.owner(key, &claim));
                let owner = owner.filter(|owner| plan.chosen[index] != Some(*owner));
                if let Some(owner) = owner.filter(|owner| self.jobs.takes_it_away(is_external, *owner)) {
                    return Err(self.jobs.external_but_ours(&claim, &node, owner, tree.name(index)));
                }
                if let Some(owner) = owner.filter(|owner| !dropped.contains(owner)) {
                    let owner = &self.graph.rows[owner];
                    // A row that changes may release the claim. Its index is of the template before.
                    let at = tree.index_of(&owner.name);
                    let changes = owner.stack == stack.id && at.is_some_and(|at| plan.dirty[at]);
                    if !changes {
                        return Err(self.graph.claimed(&claim, &node, owner, tree.name(index)));
                    }
                }
            }
        }
        if options.require_nodes && !absent.is_empty() {
            let names =
                absent.iter().take(WARNINGS_MAX).map(|name| match self.graph.nodes.nearest(name.as_str()) {
                    Some(near) => format!("{name} (did you mean {near}?)"),
                    None => name.to_string(),
                });
            let names: Vec<String> = names.collect();
            return Err(Refusal::Conflict(format!("these nodes have never joined: {}", names.join(", "))));
        }
        if options.require_nodes && !revoked.is_empty() {
            let names: Vec<&str> = revoked.iter().take(WARNINGS_MAX).map(NodeId::as_str).collect();
            return Err(Refusal::Conflict(format!("these nodes are revoked: {}", names.join(", "))));
        }
        let unknown = absent.iter().filter(|name| self.graph.nodes.find(name).is_none()).count();
        if !self.graph.has_room_for_nodes(unknown) {
            return Err(Refusal::Conflict("too many nodes are named that have never joined".into()));
        }
        Ok(AbsentNodes { absent, bound, revoked })
    }

    /// Warnings for nodes that the stack will wait for. Each is compared with the names of all nodes.
    fn warnings(&self, nodes: &AbsentNodes) -> Vec<String> {
        let AbsentNodes { absent, bound, revoked } = nodes;
        let mut warnings: Vec<String> =
            absent.iter().take(WARNINGS_MAX).map(|name| self.awaited(name, bound.get(name))).collect();
        if absent.len() > WARNINGS_MAX {
            warnings.push(format!("{} more nodes have never joined", absent.len() - WARNINGS_MAX));
        }
        let told = revoked.iter().take(WARNINGS_MAX);
        warnings.extend(told.map(|name| format!("node {name} is revoked and is waited for")));
        if revoked.len() > WARNINGS_MAX {
            warnings.push(format!("{} more nodes are revoked", revoked.len() - WARNINGS_MAX));
        }
        warnings
    }

    /// Nodes whose facts a resource asks for and that have not joined, as far as their names are
    /// known now.
    ///
    /// # Errors
    /// The resource names a node by a short name that several have.
    fn asked_of_nobody(&self, tree: &Tree, index: usize) -> Result<Vec<NodeId>, String> {
        let asked = NodeRecorder::default();
        // Other errors of the resource are checked on their own.
        let _ = tree.render(index, &asked);
        let mut absent = Vec::new();
        for name in asked.0.into_inner() {
            // A text that cannot be a name is an error where it is used.
            let Ok(name) = name.parse::<NodeId>() else { continue };
            if self.graph.nodes.full_name(&name)?.is_none() {
                absent.push(name);
            }
        }
        Ok(absent)
    }

    /// The warning for a node that is not there. `called` is the template's name for the node that
    /// one of its servers is bound to.
    fn awaited(&self, node: &NodeId, called: Option<&NodeId>) -> String {
        match called.filter(|called| *called != node) {
            None => self.graph.nodes.never_joined(node),
            Some(called) => format!(
                "node {node} was removed and is waited for, for '{called}' is that node in this stack: to mean another, \
                 write its full name"
            ),
        }
    }
}

/// An immutable parameter whose value differs from the current revision. For hidden values, digests
/// are compared.
fn changed_immutable<'a>(stack: &Stack, tree: &'a Tree) -> Option<&'a str> {
    let (template, parameters) = (tree.template(), tree.parameters());
    let mut immutable = template.parameters().filter(|parameter| parameter.immutable);
    let changed = |name: &str| match (stack.hidden_digests.get(name), stack.parameters.get(name)) {
        (Some(old), _) => parameters.digest_of(name).is_some_and(|new| new != *old),
        (None, Some(old)) => old != MASK && parameters.get(name).is_some_and(|new| new != old),
        (None, None) => false,
    };
    immutable.find(|parameter| changed(&parameter.name)).map(|parameter| &*parameter.name)
}

/// Resolves no reference: before a job runs nothing is known of other resources.
struct NoReferences;

impl References for NoReferences {
    fn resource_id(&self, _: u32) -> Option<String> {
        None
    }

    fn attribute(&self, _: u32, _: &str) -> Option<Value> {
        None
    }
}

/// Records the nodes whose facts are asked for.
#[derive(Default)]
struct NodeRecorder(RefCell<BTreeSet<String>>);

impl References for NodeRecorder {
    fn resource_id(&self, _: u32) -> Option<String> {
        None
    }

    fn attribute(&self, _: u32, _: &str) -> Option<Value> {
        None
    }

    fn of_node(&self, node: &str, _: &[String]) -> Result<Option<Value>, Unresolved> {
        self.0.borrow_mut().insert(node.to_owned());
        Ok(Some(Value::from("")))
    }
}
