//! The outputs of a deployment, as far as the template shows them: those that its config declares.
//!
//! Absent: the section `outputs` of a template (`parse.rs`), and the values (`controller/engine/src/deployment.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::{DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT};

use super::Table;
use crate::expression::{Call, Expr, ExprKind};
use crate::parse::DraftResource;
use crate::types::Kind;

const OF_ONE: [&str; 3] = [DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT];
const OF_GROUP: [&str; 7] = [
    "attributes",
    "deploy_status_codes",
    "deploy_stderrs",
    "deploy_stdouts",
    "refs",
    "refs_map",
    "removed_rsrc_list",
];

/// The names for `get_attr`, by resource; without the resources where they are unknown.
pub(super) fn declared(resources: &[DraftResource], names: &Table<'_>) -> BTreeMap<u32, BTreeSet<String>> {
    let of = |resource: &DraftResource| {
        let kind = resource.kind.filter(|kind| kind.is_deployment() || kind.is_deployment_group())?;
        let given = &resource.properties.entry("config")?.value.kind;
        let ExprKind::Call(call) = given else { return None };
        let Call::GetResource { resource: config } = &**call else { return None };
        let config = &resources[names.index(*config, "resource").ok()? as usize];
        if !matches!(config.kind?, Kind::SoftwareConfig | Kind::StructuredConfig | Kind::SoftwareComponent) {
            return None;
        }
        let more: &[&str] = if kind.is_deployment_group() { &OF_GROUP } else { &[] };
        let own = OF_ONE.iter().chain(more).map(|name| (*name).to_owned());
        let outputs = match config.properties.entry("outputs") {
            Some(entry) => written(&entry.value)?,
            None if matches!(config.properties.kind, ExprKind::Map(_) | ExprKind::Null) => Vec::new(),
            None => return None,
        };
        Some(own.chain(outputs).collect())
    };
    (0..).zip(resources).filter_map(|(index, resource)| Some((index, of(resource)?))).collect()
}

/// The names in a list of maps that is written out.
fn written(outputs: &Expr) -> Option<Vec<String>> {
    match &outputs.kind {
        ExprKind::Null => Some(Vec::new()),
        ExprKind::List(items) => items
            .iter()
            .map(|item| {
                if let ExprKind::Text(name) = &item.entry("name")?.value.kind {
                    Some(name.to_string())
                } else {
                    None
                }
            })
            .collect(),
        ExprKind::Bool(_)
        | ExprKind::Number(_)
        | ExprKind::Text(_)
        | ExprKind::Map(_)
        | ExprKind::Call(_)
        | ExprKind::Invalid => None,
    }
}
