//! What the machine asks of the rest of the site.

use std::collections::BTreeSet;

use muster_shared::model::flow::{DeviceName, FlowId};
use muster_shared::{Generations, MonoTime, NodeId};
use thiserror::Error;

use crate::entry::Owner;

/// The reason why a request was not taken. Nothing has changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// There is no such device, rule or node.
    #[error("{0}")]
    NotFound(String),
    /// The request contradicts what is there.
    #[error("{0}")]
    Conflict(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// What one call may use.
pub struct Turn<'a> {
    /// The time.
    pub now: MonoTime,
    /// The source of batches' generations.
    pub generations: &'a mut Generations,
    /// The rest of the site.
    pub site: &'a dyn Site,
}

/// The rest of the site, as it is now.
pub trait Site {
    /// Whether resources have claimed any rules on a node.
    fn has_claims(&self, node: &NodeId) -> bool;

    /// The resource that has claimed a rule of a device, which may not be in the table yet.
    fn claimant(&self, device: &DeviceName, id: FlowId) -> Option<Owner>;

    /// An owner's name, for operators.
    fn describe(&self, owner: Owner) -> String;

    /// Whether nobody is left who could take an owner's rules off: its node was removed, or it is unknown.
    fn is_lost(&self, owner: Owner) -> bool;

    /// Whether a resource's rules are made of something hidden.
    fn hides(&self, owner: Owner) -> bool;

    /// Whether a node has joined.
    fn has_joined(&self, node: &NodeId) -> bool;

    /// A node that is not known: what an operator is told of its name.
    fn unknown(&self, node: &NodeId) -> Option<String>;

    /// The reason why nothing happens on a node that is away, or has never joined.
    fn why_waited_for(&self, node: &NodeId) -> String;

    /// The reason why nothing happens on a device whose node is there without such a bridge.
    fn lacks_bridge(&self, device: &DeviceName) -> Option<String>;

    /// Whether the site is restored: its store is older than what agents have.
    fn is_restored(&self) -> bool;

    /// Whether nothing of a table is put right until an operator has decided.
    fn holds_table(&self, device: &DeviceName) -> bool;

    /// Rules of a table that are left as they are; none: all are compared.
    fn left_rules(&self, device: &DeviceName) -> Option<&BTreeSet<FlowId>>;

    /// Whether [`Effect::Applied`](crate::Effect::Applied) of a device means anything to the site.
    fn heeds_applied(&self, device: &DeviceName) -> bool;
}
