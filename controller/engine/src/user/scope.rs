//! Scopes of users: the part of the site that each reaches.
//!
//! ```text
//!   --stacks 'web-*'    stacks of these names; nodes are seen, and not changed
//!   --scope rack=r1     nodes with this label, their flow rules, and the stacks that users with this scope made
//! ```
//!
//! **Invariant.** A stack that was made by a user with a label keeps that label, whoever updates it: no operation of it gives
//! a job to a node without it, none of its selectors matches one, and no template of it reads the facts of one. What it has
//! on a node that loses the label stays as it is, and is corrected, until the stack changes.
//!
//! Absent: which routes a user with a scope may use at all (`controller/api/src/route.rs`).

use std::collections::BTreeSet;

use muster_api::user::{NodeLabel, Scope};
use muster_shared::{NodeId, StackName};
use muster_template::Kind;

use crate::graph::Graph;
use crate::node::NodeKey;
use crate::request::{Refusal, Request};
use crate::row::Slot;
use crate::stack::Stack;
use crate::todo::Todo;
use crate::view::View;

/// The objects of a request, as far as scopes tell them apart.
enum Target<'a> {
    Stack(&'a StackName),
    Nodes(BTreeSet<&'a NodeId>),
    /// A node is looked at.
    Seen(&'a NodeId),
    /// The site, or things that belong to no part of it.
    Site,
}

impl Request {
    fn target(&self) -> Target<'_> {
        match self {
            Request::Create { name, .. }
            | Request::Update { name, .. }
            | Request::Delete { name }
            | Request::Rollback { name, .. }
            | Request::Check { name }
            | Request::Cancel { name }
            | Request::Rollout { name, .. } => Target::Stack(name),
            Request::Unhealthy { stack, .. }
            | Request::ClearHook { stack, .. }
            | Request::Signal { stack, .. } => Target::Stack(stack),
            Request::Maintenance { node, .. } => Target::Nodes([node].into()),
            Request::Facts { node } | Request::Survey { node } => Target::Seen(node),
            Request::FlowStats { device } | Request::ForeignFlows { device } => Target::Seen(&device.node),
            Request::ApplyFlows { stages, .. } => {
                Target::Nodes(stages.iter().flatten().map(|write| &write.device.node).collect())
            }
            Request::DeleteFlows { device, .. }
            | Request::PurgeFlows { device, .. }
            | Request::ReconcileFlows { device, .. } => Target::Nodes([&device.node].into()),
            Request::NewToken { .. }
            | Request::RevokeToken { .. }
            | Request::NewUser { .. }
            | Request::LogIn { .. }
            | Request::RevokeUser { .. }
            | Request::Join(_)
            // A label decides which stacks have the node.
            | Request::LabelNode { .. }
            | Request::RevokeNode { .. }
            | Request::SampleFlows
            | Request::SubmitIntents { .. }
            | Request::WithdrawIntents { .. }
            | Request::PurgeIntents { .. }
            | Request::Trace { .. }
            | Request::VerifyIntent { .. }
            | Request::Restored { .. }
            | Request::RemoveNode { .. }
            | Request::MoveNode { .. } => Target::Site,
        }
    }

    /// The request as a user with this scope makes it: a stack that is created keeps the label.
    pub fn confine(&mut self, scope: &Scope) {
        if let Request::Create { options, .. } = self {
            options.scope.clone_from(&scope.label);
        }
    }
}

impl Stack {
    /// Refuses types of resources that concern the network, or the addresses, of the whole site.
    pub fn may_have(&self, kind: Kind) -> Result<(), String> {
        let Some(label) = &self.scope else { return Ok(()) };
        let is_of_site = matches!(
            kind,
            Kind::Intent | Kind::TopologyHost | Kind::TopologyLink | Kind::Net | Kind::Subnet | Kind::Port
        );
        if !is_of_site {
            return Ok(());
        }
        let name = kind.name();
        Err(format!(
            "the stack has nodes with {label} alone, and {name} concerns the network of the whole site"
        ))
    }
}

impl Graph {
    fn has_label(&self, node: &NodeId, label: &NodeLabel) -> bool {
        let joined = self.nodes.find(node).and_then(|key| self.nodes[key].joined.as_ref());
        joined.is_some_and(|joined| label.is_among(&joined.labels))
    }

    /// Refuses a node that is outside of the stack's scope.
    pub(crate) fn in_scope(&self, stack: &Stack, node: &NodeId) -> Result<(), String> {
        match &stack.scope {
            Some(label) if !self.has_label(node, label) => Err(format!(
                "node {node} does not have the label {label}, and the stack has nodes with that label alone"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The labels of a node have changed: jobs that wait there are looked at again, if their stacks have another label.
    pub(crate) fn look_at_scopes(&mut self, node: NodeKey) {
        let is_outside = |slot: &Slot| {
            let row = &self.rows[*slot];
            let stack = self.stacks.get(&row.stack).filter(|_| row.task().is_some() && !row.is_sent());
            stack.is_some_and(|stack| self.in_scope(stack, &self.nodes[node].name).is_err())
        };
        let slots: Vec<Slot> = self.nodes[node].rows.iter().copied().filter(is_outside).collect();
        self.ctx.agenda.extend(slots.into_iter().map(Todo::Visit));
    }

    /// Refuses a node outside of the stack's scope whose facts a template reads, by a name that may be short.
    pub(crate) fn fact_in_scope(&self, stack: &Stack, node: &str) -> Result<(), String> {
        if stack.scope.is_none() {
            return Ok(());
        }
        // A text that cannot be a name, or is that of several nodes, is an error of its own.
        let Ok(name) = node.parse::<NodeId>() else { return Ok(()) };
        match self.nodes.full_name(&name)? {
            Some(full) => self.in_scope(stack, &full),
            None => Ok(()),
        }
    }
}

/// The refusal of what concerns more than a part of the site.
pub fn beyond(scope: &Scope) -> String {
    format!("that is for users who have all of the site; your scope: {scope}")
}

impl View<'_> {
    /// Whether a user with this scope reaches the stack. A name that no stack has is reached if a stack could have it.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`]: the stack is outside.
    pub fn reaches_stack(&self, scope: &Scope, name: &StackName) -> Result<(), Refusal> {
        let stack = self.graph.stacks.id_of(name).and_then(|id| self.graph.stacks.get(&id));
        let is_of = |label: &NodeLabel| stack.is_none_or(|stack| stack.scope.as_ref() == Some(label));
        if scope.has_name(name.as_str()) && scope.label.as_ref().is_none_or(is_of) {
            return Ok(());
        }
        Err(Refusal::Forbidden(format!("stack '{name}' is outside your scope: {scope}")))
    }

    /// Whether a user with this scope sees the node.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`]: the node is outside, or is not there.
    pub fn sees_node(&self, scope: &Scope, node: &NodeId) -> Result<(), Refusal> {
        match &scope.label {
            Some(label) if !self.graph.has_label(node, label) => {
                Err(Refusal::Forbidden(format!("node '{node}' is outside your scope: {scope}")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a user with this scope may make the request.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`]: it concerns more than the scope.
    pub fn may_ask(&self, scope: &Scope, request: &Request) -> Result<(), Refusal> {
        if scope.is_whole() {
            return Ok(());
        }
        match request.target() {
            Target::Stack(name) => self.reaches_stack(scope, name),
            Target::Seen(node) => self.sees_node(scope, node),
            Target::Nodes(nodes) if scope.label.is_some() => {
                nodes.into_iter().try_for_each(|node| self.sees_node(scope, node))
            }
            Target::Nodes(_) | Target::Site => Err(Refusal::Forbidden(beyond(scope))),
        }
    }
}
