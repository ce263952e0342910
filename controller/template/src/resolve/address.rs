//! Dependencies within an address plan that the template expresses by names only: a port comes after the
//! subnets of its network, and both after the network. As in Heat.
//!
//! Absent: ports in nested templates and mapped types (`tree/expand/address.rs`), and the addresses themselves
//! (`controller/engine/src/address.rs`).

use std::collections::BTreeMap;

use super::walk::Used;
use crate::expression::{Call, Expr, ExprKind};
use crate::parse::DraftResource;
use crate::types::Kind;

/// The network that a resource names, as far as the template tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Named {
    Resource(u32),
    Parameter(u32),
    Text(Box<str>),
}

/// The networks of one template, with their subnets.
#[derive(Default)]
pub(crate) struct Networks {
    nets: BTreeMap<Named, u32>,
    subnets: BTreeMap<Named, Vec<u32>>,
}

pub(super) fn add_needs(resources: &[DraftResource], uses: &mut [Used]) {
    let networks = Networks::new(resources.iter().map(|resource| (resource.kind, &resource.properties)));
    for (index, resource) in resources.iter().enumerate() {
        let is_port = resource.kind == Some(Kind::Port);
        if !is_port && resource.kind != Some(Kind::Subnet) {
            continue;
        }
        if let Some(network) = network_of(&resource.properties) {
            uses[index].needs_too(&networks.needs(network, is_port));
        }
    }
}

impl Networks {
    /// The networks among a template's resources in their order, each with its type, as far as that is known,
    /// and its properties.
    pub fn new<'t>(resources: impl Iterator<Item = (Option<Kind>, &'t Expr)> + Clone) -> Self {
        let of = |kind: Kind| {
            (0u32..)
                .zip(resources.clone())
                .filter(move |(_, (known, _))| *known == Some(kind))
                .map(|(index, (_, properties))| (index, properties))
        };
        let mut networks = Self::default();
        for (index, properties) in of(Kind::Net) {
            if let Some(name) = property(properties, "name").and_then(named) {
                networks.nets.insert(name, index);
            }
        }
        for (index, properties) in of(Kind::Subnet) {
            if let Some(network) = network_of(properties) {
                let network = networks.known(network);
                networks.subnets.entry(network).or_default().push(index);
            }
        }
        networks
    }

    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.nets.is_empty() && self.subnets.is_empty()
    }

    /// The resources before a subnet of a network, or before a port.
    pub fn needs(&self, network: Named, is_port: bool) -> Vec<u32> {
        let network = self.known(network);
        let subnets = self.subnets.get(&network).filter(|_| is_port).into_iter().flatten().copied();
        let net = match network {
            Named::Resource(net) => Some(net),
            Named::Parameter(_) | Named::Text(_) => None,
        };
        net.into_iter().chain(subnets).collect()
    }

    /// The network as a resource, if the template has it.
    fn known(&self, network: Named) -> Named {
        self.nets.get(&network).map_or(network, |index| Named::Resource(*index))
    }
}

/// The network that a subnet or port names.
pub(crate) fn network_of(properties: &Expr) -> Option<Named> {
    property(properties, "network").or_else(|| property(properties, "network_id")).and_then(named)
}

fn property<'t>(properties: &'t Expr, name: &str) -> Option<&'t Expr> {
    properties.entry(name).map(|entry| &entry.value)
}

pub(crate) fn named(value: &Expr) -> Option<Named> {
    match &value.kind {
        ExprKind::Text(text) => Some(Named::Text(text.clone())),
        ExprKind::Call(call) => {
            if let Call::GetResource { resource } = &**call {
                Some(Named::Resource(*resource))
            } else if let Call::GetParam { parameter, path } = &**call
                && path.is_empty()
            {
                Some(Named::Parameter(*parameter))
            } else {
                None
            }
        }
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::List(_)
        | ExprKind::Map(_)
        | ExprKind::Invalid => None,
    }
}
