//! Checks that only an operator's input places resources: a server's own facts must not choose a node.
//!
//! The walk (`walk.rs`) refuses a fact in the property itself. This file refuses a fact that arrives through other
//! resources.
//!
//! Absent: values through a nested stack's parameters and outputs, and outputs of deployments.

use std::collections::BTreeMap;

use crate::error::{Path, Place, Sink, cut};
use crate::types::Kind;

/// The reason why a fact is not allowed there.
pub(super) const REFUSED: &str = "a fact of a server does not choose a node, or that server could have sent to it what is \
    meant for another: write the node's name, a parameter, or for_each";

/// The findings of the walk; resources by index.
#[derive(Default)]
pub(super) struct Placement {
    /// Resources that use a fact.
    facts: Vec<u32>,
    /// A resource of the controller, and one that it refers to.
    passed: Vec<(u32, u32)>,
    /// The place where a property that chooses a node refers to a resource.
    chosen: Vec<(Place, u32, u32)>,
}

impl Placement {
    pub fn asks_for_fact(&mut self, resource: u32) {
        self.facts.push(resource);
    }

    pub fn refers(&mut self, at: Place, resource: u32, kind: Option<Kind>, to: u32, chooses: bool) {
        if chooses {
            self.chosen.push((at, resource, to));
        } else if kind.is_some_and(passes_on) {
            self.passed.push((resource, to));
        }
    }

    /// Names what a fact would choose the node of.
    pub fn check(&self, names: &[&str], kinds: &[Option<Kind>], errors: &mut Sink) {
        let mut has_fact = vec![false; names.len()];
        let mut new: Vec<u32> = self.facts.clone();
        new.retain(|index| kinds[*index as usize].is_some_and(passes_on));
        if new.is_empty() {
            return;
        }
        let mut referred: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (by, of) in &self.passed {
            referred.entry(*of).or_default().push(*by);
        }
        while let Some(index) = new.pop() {
            if !std::mem::replace(&mut has_fact[index as usize], true) {
                new.extend(referred.get(&index).into_iter().flatten());
            }
        }
        for (at, resource, of) in self.chosen.iter().filter(|(_, _, of)| has_fact[*of as usize]) {
            let (resource, of) = (*resource as usize, names[*of as usize]);
            let mut path = Path::default();
            for part in ["resources", names[resource], "properties"] {
                path.key(part);
            }
            if let Some(property) = kinds[resource].and_then(property) {
                path.key(property);
            }
            errors.push(*at, path.as_str(), format!("'{}' passes a fact on: {REFUSED}", cut(of)));
        }
    }
}

/// The property by which a resource chooses a node.
pub(super) fn property(kind: Kind) -> Option<&'static str> {
    if kind == Kind::DeployedServer {
        Some("name")
    } else if matches!(kind, Kind::FlowGroup | Kind::FlowMeter | Kind::FlowRule | Kind::FlowTable) {
        Some("device")
    } else {
        kind.node_property()
    }
}

/// The attributes say what its properties do.
fn passes_on(kind: Kind) -> bool {
    kind.is_virtual() && !kind.is_whole() && kind != Kind::DeployedServer
}
