//! What of an address plan needs what, where the template says so by names only: a port comes after the subnets of its
//! network, and both after the network. As in Heat.

use std::collections::BTreeMap;

use super::walk::Used;
use crate::expression::{Call, Expr, ExprKind};
use crate::parse::DraftResource;
use crate::types::Kind;

/// Which network a resource names, as far as the template tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named<'t> {
    Resource(u32),
    Parameter(u32),
    Text(&'t str),
}

pub(super) fn add_needs(resources: &[DraftResource], uses: &mut [Used]) {
    let of = |kind: Kind| {
        resources.iter().enumerate().filter(move |(_, resource)| resource.kind == Some(kind)).map(number)
    };
    let mut nets: BTreeMap<Named<'_>, u32> = BTreeMap::new();
    for (index, resource) in of(Kind::Net) {
        if let Some(named) = property(resource, "name").and_then(named) {
            nets.insert(named, index);
        }
    }
    let network = |resource| {
        let named = property(resource, "network").and_then(named)?;
        Some(nets.get(&named).map_or(named, |index| Named::Resource(*index)))
    };
    let mut subnets: BTreeMap<Named<'_>, Vec<u32>> = BTreeMap::new();
    for (index, resource) in of(Kind::Subnet) {
        if let Some(network) = network(resource) {
            subnets.entry(network).or_default().push(index);
        }
    }
    for (index, resource) in of(Kind::Subnet).chain(of(Kind::Port)) {
        let Some(network) = network(resource) else { continue };
        let mut needs = Vec::new();
        if let Named::Resource(net) = &network {
            needs.push(*net);
        }
        if resource.kind == Some(Kind::Port) {
            needs.extend(subnets.get(&network).into_iter().flatten());
        }
        uses[index as usize].needs_too(&needs);
    }
}

fn number((index, resource): (usize, &DraftResource)) -> (u32, &DraftResource) {
    (u32::try_from(index).expect("a text of 16 MiB has fewer resources than 2^32"), resource)
}

fn property<'t>(resource: &'t DraftResource, name: &str) -> Option<&'t Expr> {
    resource.properties.entry(name).map(|entry| &entry.value)
}

fn named(value: &Expr) -> Option<Named<'_>> {
    match &value.kind {
        ExprKind::Text(text) => Some(Named::Text(text)),
        ExprKind::Call(call) => match &**call {
            Call::GetResource { resource } => Some(Named::Resource(*resource)),
            Call::GetParam { parameter, path } if path.is_empty() => Some(Named::Parameter(*parameter)),
            _ => None,
        },
        _ => None,
    }
}
