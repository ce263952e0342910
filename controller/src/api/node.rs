//! Requests about nodes: list, label, maintenance, revoke, move, remove, facts, drift. Checks the token of a move.
//!
//! Absent: what a request changes (`controller/engine/src/node/requests.rs`), and which state it has: online, offline,
//! maintenance … (`controller/engine/src/view/site.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::node::{
    ChangeLabels, DriftView, FactsView, FleetCounts, LinkCounters, LinkFactsView, Maintenance, MoveNode,
    NodeEventView, NodeMoved, NodeRemoved, NodeResourceView, NodeView, SurveyView,
};
use muster_api::query::{Counted, NodeEvents, NodePage, OnNode, OneNode};
use muster_api::user::Scope;
use muster_engine::view::KnownNode;
use muster_engine::{Answer, Request, View};
use muster_shared::NodeId;
use muster_shared::join::{JoinToken, TokenError};
use muster_shared::model::{Counters, Facts};
use muster_template::{Selector, facts_by_name, suggestion};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::error::ApiError;
use super::{Api, PAGE, blocking, query, source, token};
use crate::store::{Reader, rfc3339};

/// The most events of a node in an answer.
const NODE_EVENTS_MAX: usize = 100;
/// The most stacks of a node whose events are looked through, the first by name.
const NODE_STACKS_MAX: usize = 20;
/// Events that are read at a time, and how many times of each stack: as many as a stack keeps by default.
const NODE_EVENT_PAGE: usize = 1000;
const NODE_EVENT_PAGES: usize = 10;

/// GET /v1/nodes
pub async fn list(
    api: Api,
    asked: Result<Query<NodePage>, QueryRejection>,
) -> Result<Json<Vec<NodeView>>, ApiError> {
    let NodePage { selector, limit, marker, facts } = query(asked)?;
    let selector = within(&api, &selector)?;
    views(&api, &selector, marker, super::limit(limit)?, facts).await.map(Json)
}

/// The nodes that are meant and that the caller reaches.
fn within(api: &Api, selector: &str) -> Result<Selector, ApiError> {
    // Alone first: an error is about what the caller wrote.
    let meant: Selector = selector.parse().map_err(ApiError::invalid)?;
    match &api.scope.label {
        None => Ok(meant),
        Some(label) if selector.trim().is_empty() => label.to_string().parse().map_err(ApiError::invalid),
        Some(label) => format!("{selector},{label}").parse().map_err(ApiError::invalid),
    }
}

/// Queries page by page, so that the driver is not delayed.
async fn views(
    api: &Api,
    selector: &Selector,
    mut after: Option<NodeId>,
    limit: usize,
    with_facts: bool,
) -> Result<Vec<NodeView>, ApiError> {
    let mut nodes = Vec::new();
    loop {
        let from = after.clone();
        let look = move |site: View<'_>| (site.node_page(from.as_ref(), PAGE), OffsetDateTime::now_utc());
        let (page, now) = api.driver.query(look).await?;
        let is_last = page.len() < PAGE;
        after = page.last().and_then(|node| node.view.name.parse().ok());
        // Outside the driver, which must not search the facts of 10,000 nodes.
        let selector = selector.clone();
        let meant = move || {
            let meant = page.into_iter().filter(|node| node.is_meant(&selector));
            Ok(meant.map(|node| shown(node, now, with_facts)).collect::<Vec<_>>())
        };
        nodes.extend(blocking(meant).await?);
        if is_last || nodes.len() >= limit {
            break;
        }
    }
    nodes.truncate(limit);
    last_seen(api, &mut nodes).await?;
    Ok(nodes)
}

/// While a node is connected, memory has when it was last heard: the store is not written each time.
fn shown(node: KnownNode, now: OffsetDateTime, with_facts: bool) -> NodeView {
    let facts = if with_facts { node.facts() } else { None };
    let last_seen = node.view.silent.map(|silent| rfc3339(now - silent));
    NodeView { last_seen, facts, ..node.view }
}

/// Adds when absent nodes were last heard, from the database.
async fn last_seen(api: &Api, nodes: &mut [NodeView]) -> Result<(), ApiError> {
    if nodes.iter().any(|node| node.last_seen.is_none()) {
        let mut stored = api.read(|reader| reader.last_seen()).await?;
        for node in nodes.iter_mut().filter(|node| node.last_seen.is_none()) {
            node.last_seen = stored.remove(&node.name);
        }
    }
    Ok(())
}

/// GET /v1/counts/nodes?selector=: the number of nodes in each state.
pub async fn count(
    api: Api,
    asked: Result<Query<Counted>, QueryRejection>,
) -> Result<Json<BTreeMap<String, u64>>, ApiError> {
    let FleetCounts { total, mut states, .. } = counted(&api, query(asked)?).await?;
    states.insert("total".to_owned(), total);
    states.entry("online".to_owned()).or_default();
    Ok(Json(states))
}

/// GET /v1/counts/fleet?selector=
pub async fn count_fleet(
    api: Api,
    asked: Result<Query<Counted>, QueryRejection>,
) -> Result<Json<FleetCounts>, ApiError> {
    counted(&api, query(asked)?).await.map(Json)
}

async fn counted(api: &Api, Counted { selector }: Counted) -> Result<FleetCounts, ApiError> {
    let selector = within(api, &selector)?;
    let mut counts = FleetCounts::default();
    let mut after = None;
    loop {
        let from = after.clone();
        let page = api.driver.query(move |site| site.node_page(from.as_ref(), PAGE)).await?;
        let is_last = page.len() < PAGE;
        after = page.last().and_then(|node| node.view.name.parse::<NodeId>().ok());
        let selector = selector.clone();
        let add = move || {
            for node in page.into_iter().filter(|node| node.is_meant(&selector)) {
                counts.total += 1;
                counts.drifted += u64::from(node.view.drifted > 0);
                *counts.states.entry(node.view.state).or_default() += 1;
                *counts.versions.entry(node.view.agent_version).or_default() += 1;
            }
            Ok(counts)
        };
        counts = blocking(add).await?;
        if is_last {
            return Ok(counts);
        }
    }
}

/// GET /v1/nodes/{node}
pub async fn show(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<OneNode>, QueryRejection>,
) -> Result<Json<NodeView>, ApiError> {
    let OneNode { facts } = query(asked)?;
    find(&api, &node_name(name)?, facts).await
}

/// PATCH /v1/nodes/{node}: the node as it is then.
pub async fn label(api: Api, Path(name): Path<String>, body: Body) -> Result<Json<NodeView>, ApiError> {
    let node = node_name(name)?;
    let ChangeLabels { labels } = source::json(&api, body).await?;
    tracing::info!(%node, "label");
    api.driver.request(Request::LabelNode { node: node.clone(), labels }).await?;
    one(&api, &node).await
}

/// POST /v1/nodes/{node}/maintenance: the node as it is then.
pub async fn maintenance(api: Api, Path(name): Path<String>, body: Body) -> Result<Json<NodeView>, ApiError> {
    let node = node_name(name)?;
    let Maintenance { on } = source::json(&api, body).await?;
    tracing::info!(%node, on, "maintenance");
    api.driver.request(Request::Maintenance { node: node.clone(), on }).await?;
    one(&api, &node).await
}

/// POST /v1/nodes/{node}/revoke: the node as it is then.
pub async fn revoke(api: Api, Path(name): Path<String>) -> Result<Json<NodeView>, ApiError> {
    let node = node_name(name)?;
    tracing::info!(%node, "revoke");
    api.driver.request(Request::RevokeNode { node: node.clone() }).await?;
    one(&api, &node).await
}

/// POST /v1/nodes/{node}/move: answered when the node belongs to the other site.
pub async fn change_site(
    api: Api,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<NodeMoved>, ApiError> {
    let node = node_name(name)?;
    let MoveNode { token } = source::json(&api, body).await?;
    let token: JoinToken = token.parse().map_err(|error: TokenError| ApiError::invalid(error.to_string()))?;
    let site = token.site.clone();
    if token.ca_fingerprint == api.pki.fingerprint() {
        return Err(ApiError::invalid(format!(
            "the join token is of this site, '{site}': make one in the site to which {node} shall move: muster node token \
             --name {node}"
        )));
    }
    if token::now() >= token.expires {
        return Err(ApiError::invalid(
            "the join token has expired: make another in its site with 'muster node token'",
        ));
    }
    tracing::info!(%node, %site, token = %token.id, "move");
    api.driver.request(Request::MoveNode { node: node.clone(), token: Box::new(token) }).await?;
    Ok(Json(NodeMoved { name: node.to_string(), site: site.to_string() }))
}

/// DELETE /v1/nodes/{node}: returns the remains on the node.
pub async fn remove(api: Api, Path(name): Path<String>) -> Result<Json<NodeRemoved>, ApiError> {
    let node = node_name(name)?;
    tracing::info!(%node, "remove");
    match api.driver.request(Request::RemoveNode { node }).await? {
        Answer::NodeRemoved { node, lost, lost_total } => {
            Ok(Json(NodeRemoved { name: node.to_string(), lost, lost_total }))
        }
        Answer::Stack { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Signalled { .. }
        | Answer::Facts { .. }
        | Answer::Intents { .. }
        | Answer::Traced(_)
        | Answer::Surveyed(_)
        | Answer::Proved(_)
        | Answer::Flows { .. } => Err(ApiError::internal("the engine did not say what was removed")),
    }
}

/// GET /v1/nodes/{node}/facts
pub async fn facts(api: Api, Path(name): Path<String>) -> Result<Json<FactsView>, ApiError> {
    match api.driver.request(Request::Facts { node: node_name(name)? }).await? {
        Answer::Facts { node, age, facts } => Ok(Json(facts_view(&node, age, &facts)?)),
        Answer::Stack { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Signalled { .. }
        | Answer::Traced(_)
        | Answer::Surveyed(_)
        | Answer::Proved(_)
        | Answer::NodeRemoved { .. }
        | Answer::Intents { .. }
        | Answer::Flows { .. } => Err(ApiError::internal("the engine did not say what the node is")),
    }
}

/// GET /v1/nodes/{node}/survey: answered when the agent has looked.
pub async fn survey(api: Api, Path(name): Path<String>) -> Result<Json<SurveyView>, ApiError> {
    match api.driver.request(Request::Survey { node: node_name(name)? }).await? {
        Answer::Surveyed(view) => Ok(Json(*view)),
        Answer::Stack { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Signalled { .. }
        | Answer::Facts { .. }
        | Answer::Traced(_)
        | Answer::Proved(_)
        | Answer::NodeRemoved { .. }
        | Answer::Intents { .. }
        | Answer::Flows { .. } => Err(ApiError::internal("the engine did not say what the node is like")),
    }
}

/// GET /v1/nodes/{node}/resources: what stacks have there.
pub async fn resources(api: Api, Path(name): Path<String>) -> Result<Json<Vec<NodeResourceView>>, ApiError> {
    let node = node_name(name)?;
    // A name that no node has is an error, not an empty list.
    let Json(_) = one(&api, &node).await?;
    let scope = api.scope.clone();
    let look = move |site: View<'_>| {
        let mut all = site.resources_on(&node);
        all.retain(|resource| reaches(site, &scope, &resource.stack));
        all
    };
    Ok(Json(api.driver.query(look).await?))
}

/// GET /v1/nodes/{node}/events: of the resources that are there.
pub async fn events(
    api: Api,
    Path(name): Path<String>,
    asked: Result<Query<NodeEvents>, QueryRejection>,
) -> Result<Json<Vec<NodeEventView>>, ApiError> {
    let limit = super::limit(query(asked)?.limit)?.min(NODE_EVENTS_MAX);
    let node = node_name(name)?;
    let Json(_) = one(&api, &node).await?;
    let scope = api.scope.clone();
    let look = move |site: View<'_>| {
        let mut of_stacks: BTreeMap<String, (u64, BTreeSet<String>)> = BTreeMap::new();
        for on in site.resources_on(&node) {
            let id = on.stack.parse().ok().and_then(|name| site.stack_id(&name));
            let Some(id) = id.filter(|_| reaches(site, &scope, &on.stack)) else { continue };
            if of_stacks.len() < NODE_STACKS_MAX || of_stacks.contains_key(&on.stack) {
                of_stacks.entry(on.stack).or_insert((id, BTreeSet::new())).1.insert(on.resource.physical_id);
            }
        }
        of_stacks
    };
    let of_stacks = api.driver.query(look).await?;
    let read = move |reader: &Reader| {
        let mut all = Vec::new();
        for (stack, (id, here)) in of_stacks {
            let (mut found, mut before) = (0, i64::MAX.unsigned_abs());
            for _ in 0..NODE_EVENT_PAGES {
                let page = reader.events(id, 0, Some(before), NODE_EVENT_PAGE)?;
                let Some(last) = page.last() else { break };
                before = last.number;
                let is_last = page.len() < NODE_EVENT_PAGE;
                let on_node = page.into_iter().filter(|event| {
                    event.physical_id.as_ref().is_some_and(|physical| here.contains(physical))
                });
                let events: Vec<_> = on_node
                    .take(limit - found)
                    .map(|event| NodeEventView { stack: stack.clone(), event })
                    .collect();
                found += events.len();
                all.extend(events);
                if is_last || found >= limit {
                    break;
                }
            }
        }
        all.sort_by(|a, b| b.event.time.cmp(&a.event.time));
        all.truncate(limit);
        Ok(all)
    };
    Ok(Json(api.read(read).await?))
}

/// Whether a user with this scope reaches the stack of this name.
fn reaches(site: View<'_>, scope: &Scope, stack: &str) -> bool {
    scope.is_whole() || stack.parse().is_ok_and(|name| site.reaches_stack(scope, &name).is_ok())
}

/// GET /v1/drift: resources with drift.
pub async fn drift(
    api: Api,
    asked: Result<Query<OnNode>, QueryRejection>,
) -> Result<Json<Vec<DriftView>>, ApiError> {
    let node = query(asked)?.node.map(node_name).transpose()?;
    if let Some(node) = &node {
        // A name that no node has is an error, not an empty list.
        let Json(_) = one(&api, node).await?;
    }
    let scope = api.scope.clone();
    let look = move |site: View<'_>| {
        let is_seen = |node: &str| node.parse().is_ok_and(|node| site.sees_node(&scope, &node).is_ok());
        let mut all = site.drift_views(node.as_ref());
        all.retain(|drift| scope.is_whole() || (reaches(site, &scope, &drift.stack) && is_seen(&drift.node)));
        all
    };
    Ok(Json(api.driver.query(look).await?))
}

fn facts_view(node: &NodeId, age: Duration, facts: &Facts) -> Result<FactsView, ApiError> {
    let told_at = OffsetDateTime::now_utc() - age;
    let booted_at = i64::try_from(facts.booted_at).ok().filter(|at| *at > 0);
    let booted_at = booted_at.and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok()).map(rfc3339);
    let mut told = facts_by_name(facts);
    let disks = taken(&mut told, "disks")?;
    let mut links: Vec<LinkFactsView> = taken(&mut told, "links")?;
    for (link, facts) in links.iter_mut().zip(&facts.links) {
        let Counters {
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
        } = facts.counters;
        link.rx =
            LinkCounters { bytes: rx_bytes, packets: rx_packets, errors: rx_errors, dropped: rx_dropped };
        link.tx =
            LinkCounters { bytes: tx_bytes, packets: tx_packets, errors: tx_errors, dropped: tx_dropped };
    }
    let (name, told_at) = (node.to_string(), rfc3339(told_at));
    Ok(FactsView { name, told_at, age: age.as_secs_f64(), booted_at, disks, links, facts: told })
}

/// A fact of templates, as the API has it.
fn taken<T: DeserializeOwned>(facts: &mut Map<String, Value>, name: &str) -> Result<T, ApiError> {
    serde_json::from_value(facts.remove(name).unwrap_or_default())
        .map_err(|error| ApiError::internal(format!("the fact '{name}' is not that of the API: {error}")))
}

async fn one(api: &Api, node: &NodeId) -> Result<Json<NodeView>, ApiError> {
    find(api, node, false).await
}

async fn find(api: &Api, node: &NodeId, with_facts: bool) -> Result<Json<NodeView>, ApiError> {
    let name = node.clone();
    let look = move |site: View<'_>| (site.node_named(&name), OffsetDateTime::now_utc());
    if let (Some(known), now) = api.driver.query(look).await? {
        let mut found = [shown(known, now, with_facts)];
        last_seen(api, &mut found).await?;
        let [view] = found;
        return Ok(Json(view));
    }
    let nodes = views(api, &Selector::default(), None, usize::MAX, false).await?;
    let near = suggestion(node.as_str(), nodes.iter().map(|other| &*other.name));
    Err(ApiError::not_found(format!("no node '{node}'{near}")))
}

pub(super) fn node_name(text: String) -> Result<NodeId, ApiError> {
    text.try_into().map_err(|error: muster_shared::id::IdError| ApiError::invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use muster_shared::model::{DiskFacts, LinkFacts, NeighbourFacts, PciFacts};
    use muster_template::{FACTS, fact};
    use serde_json::json;

    use super::*;

    /// A key that templates have and the API's type has not would be lost.
    #[test]
    fn facts_are_those_of_templates() {
        let neighbour = NeighbourFacts { vlan: Some(7), ..NeighbourFacts::default() };
        let link = LinkFacts {
            pci: Some(PciFacts::default()),
            mac: Some([2, 0, 0, 0, 0, 1]),
            permanent_mac: Some([2, 0, 0, 0, 0, 2]),
            speed: Some(1000),
            full_duplex: Some(true),
            master: Some("bond0".to_owned()),
            lower: Some("eth1".to_owned()),
            neighbours: vec![neighbour],
            ..LinkFacts::default()
        };
        let facts = Facts { disks: vec![DiskFacts::default()], links: vec![link], ..Facts::default() };
        let node = node_name("web-1".to_owned()).unwrap();
        let view = json!(facts_view(&node, Duration::ZERO, &facts).unwrap());
        for name in FACTS {
            let mut told = view[name].clone();
            if name == "links" {
                let link = told[0].as_object_mut().unwrap();
                assert!(link.remove("rx").is_some() && link.remove("tx").is_some());
            }
            assert_eq!(Some(told), fact(&facts, name), "{name}");
        }
    }
}
