//! The questions of flow tables about the rest of the site, the inputs of a call, and refusals.
//!
//! Absent: the answers (`controller/engine/src/flow/site.rs`).

use std::collections::BTreeSet;

use muster_shared::model::flow::{DeviceName, FlowId};
use muster_shared::{Generations, MonoTime, NodeId};
use thiserror::Error;

use crate::owner::Owner;

/// The reason why a request was refused. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// There is no such device, rule or node.
    #[error("{0}")]
    NotFound(String),
    /// The request contradicts the present state.
    #[error("{0}")]
    Conflict(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// Inputs of a call.
pub struct Turn<'a> {
    /// The time.
    pub now: MonoTime,
    /// The source of batches' generations.
    pub generations: &'a mut Generations,
    /// The rest of the site.
    pub site: &'a dyn Site,
}

/// The rest of the site at present.
pub trait Site {
    /// Whether a resource has claimed a rule on the node.
    fn has_claims(&self, node: &NodeId) -> bool;

    /// The resource that has claimed a rule of a device. The table may not have the rule yet.
    fn claimant(&self, device: &DeviceName, id: FlowId) -> Option<Owner>;

    /// An owner's name, for operators.
    fn describe(&self, owner: Owner) -> String;

    /// Whether nothing is left that could remove an owner's rules: its node was removed, or the
    /// owner is unknown.
    fn is_lost(&self, owner: Owner) -> bool;

    /// Whether hidden values went into a resource's rules.
    fn hides(&self, owner: Owner) -> bool;

    /// Whether a node has joined.
    fn has_joined(&self, node: &NodeId) -> bool;

    /// The text for operators about an unknown node.
    fn unknown(&self, node: &NodeId) -> Option<String>;

    /// The reason why nothing happens on a node that is away or has never joined.
    fn why_waited_for(&self, node: &NodeId) -> String;

    /// The reason why nothing happens on a device whose node is connected and has no such bridge.
    fn lacks_bridge(&self, device: &DeviceName) -> Option<String>;

    /// Whether the site is restored: its store is older than what agents have.
    fn is_restored(&self) -> bool;

    /// Whether a table is not reconciled until an operator has decided.
    fn holds_table(&self, device: &DeviceName) -> bool;

    /// Rules of a table that are left as they are. `None`: all rules are compared.
    fn left_rules(&self, device: &DeviceName) -> Option<&BTreeSet<FlowId>>;

    /// Whether [`Effect::Applied`](crate::Effect::Applied) of a device matters to the site.
    fn heeds_applied(&self, device: &DeviceName) -> bool;
}
