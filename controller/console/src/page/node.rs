//! A node: how it stands, its network drawn, what stacks have on it, what has drifted, and what it told of itself.

use axum::Form;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use muster_api::intent::TopologyView;
use muster_api::node::{
    DiskView, DriftView, LinkFactsView, Maintenance, NodeEventView, NodeResourceView, NodeView,
};
use muster_front::{escaped, path};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{node_picture, stack_link};
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, cut_text, list, picture, table, text, when};
use crate::login::Visitor;

/// The most events of jobs that are shown, the newest.
const JOBS_MAX: usize = 50;
/// The most rows of drift on the page.
const DRIFTS_MAX: usize = 500;

/// GET /console/nodes/{node}
pub async fn show(visitor: Visitor, Path(node): Path<String>) -> Response {
    super::shown(&visitor, page(&visitor, &node).await)
}

/// A button of the page.
#[derive(Deserialize)]
pub struct ButtonForm {
    key: String,
    does: String,
}

/// POST /console/nodes/{node}
pub async fn change(visitor: Visitor, Path(node): Path<String>, Form(form): Form<ButtonForm>) -> Response {
    let done = async {
        visitor.check(&form.key)?;
        let on = match &*form.does {
            "maintenance" => true,
            "end-maintenance" => false,
            _ => return Err(Problem::new(StatusCode::BAD_REQUEST, "The page has no such button.")),
        };
        let at = path(["v1", "nodes", &node, "maintenance"]);
        visitor.api.send::<NodeView>(Method::POST, &at, &Maintenance { on }).await
    };
    match done.await {
        Ok(_) => Redirect::to(&path(["console", "nodes", &node])).into_response(),
        Err(problem) => visitor.refused(&problem),
    }
}

async fn page(visitor: &Visitor, name: &str) -> Result<Page, Problem> {
    let api = &visitor.api;
    // As it told last: a page that is kept up to date asks no agent.
    let node: NodeView = api.get(&format!("{}?facts=true", path(["v1", "nodes", name]))).await?;
    let resources: Vec<NodeResourceView> = api.get(&path(["v1", "nodes", name, "resources"])).await?;
    let jobs: Vec<NodeEventView> =
        api.get(&format!("{}?limit={JOBS_MAX}", path(["v1", "nodes", name, "events"]))).await?;
    let drift: Vec<DriftView> = api.get(&format!("/v1/drift?node={}", escaped(name))).await?;
    let network: TopologyView = api.get(&format!("/v1/topology?node={}", escaped(name))).await?;
    let facts = node.facts.clone().map(Facts::of).transpose()?;
    let labels: Vec<String> = node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let is_held = node.state == "maintenance";
    let (does, words) =
        if is_held { ("end-maintenance", "End maintenance") } else { ("maintenance", "Begin maintenance") };
    let drawn = match &facts {
        Some(facts) => {
            let (name, links) = (name.to_owned(), facts.links.clone());
            picture("Network of the node", move || node_picture::of(&name, &links, &network)).await
        }
        None => html! {},
    };
    let content = html! {
        (list(&[
            ("State", html! { (badge(&node.state)) @if let Some(why) = &node.state_reason { " " (why) } }),
            ("Agent", text(&node.agent_version)),
            ("Address", text(node.address.map(|address| address.to_string()).unwrap_or_default())),
            ("Last seen", when(node.last_seen.as_deref().unwrap_or_default())),
            ("Labels", text(labels.join(" "))),
            ("Clock", text(node.clock_off_s.map(|off| format!("{off} s off")).unwrap_or_default())),
        ]))
        (visitor.button(&path(["console", "nodes", name]), does, "", words))
        @for conflict in node.mac_conflicts.iter().chain(&node.conflict) { p.error { (conflict) } }
        @if let Some(facts) = &facts {
            h2 { "Network" }
            (drawn)
            (links(&facts.links))
        }
        h2 { "Resources" }
        (resources_table(&resources))
        (cut(usize::try_from(node.resources).unwrap_or(usize::MAX), resources.len()))
        h2 { "Last jobs" }
        (jobs_table(&jobs))
        h2 { "Drift" }
        (drift_table(&drift))
        (cut(drift.len(), DRIFTS_MAX))
        @if let Some(facts) = &facts { h2 { "Facts" } (facts_list(facts)) }
    };
    Ok(Page { section: Section::Fleet, title: format!("Node {name}"), is_live: true, content })
}

fn resources_table(resources: &[NodeResourceView]) -> Markup {
    let row = |on: &NodeResourceView| {
        let row = &on.resource;
        vec![
            stack_link(&on.stack),
            text(&row.name),
            text(&row.kind),
            html! { (text(&row.action)) " " (badge(&row.status)) },
            badge(&row.observed),
            text(muster_picture::words::phase_since(&row.phase, row.hook.as_deref(), row.phase_seconds)),
            text(&row.status_reason),
        ]
    };
    let heads = ["Stack", "Resource", "Type", "Last job", "Observed", "Waits", "Reason"];
    table("Resources of stacks here", &heads, &resources.iter().map(row).collect::<Vec<_>>())
}

fn jobs_table(jobs: &[NodeEventView]) -> Markup {
    let row = |NodeEventView { stack, event }: &NodeEventView| {
        vec![
            when(&event.time),
            stack_link(stack),
            text(event.resource.as_deref().unwrap_or_default()),
            html! { (text(&event.action)) " " (badge(&event.status)) },
            text(cut_text(&event.reason)),
            text(event.actor.as_deref().unwrap_or_default()),
        ]
    };
    let heads = ["Time", "Stack", "Resource", "Job", "Outcome", "Asked for by"];
    table("What was done last to these resources", &heads, &jobs.iter().map(row).collect::<Vec<_>>())
}

fn drift_table(drift: &[DriftView]) -> Markup {
    let row = |row: &DriftView| {
        vec![
            stack_link(&row.stack),
            text(&row.resource),
            badge(&row.observed),
            text(&row.reason),
            text(&row.policy),
            text(&row.phase),
        ]
    };
    let heads = ["Stack", "Resource", "Observed", "Difference", "Policy", "Correction"];
    table("Resources with drift", &heads, &drift.iter().take(DRIFTS_MAX).map(row).collect::<Vec<_>>())
}

fn links(links: &[LinkFactsView]) -> Markup {
    let row = |link: &LinkFactsView| {
        let state = if link.up && link.carrier { "up" } else { "down" };
        let heard: Vec<String> = link
            .neighbours
            .iter()
            .map(|other| {
                format!("{} {}", other.system_name.as_deref().unwrap_or(&other.chassis_id), other.port_id)
            })
            .collect();
        let part_of = [("member of", &link.master), ("on", &link.lower)];
        let part_of: Vec<String> =
            part_of.iter().filter_map(|(how, other)| Some(format!("{how} {}", other.as_ref()?))).collect();
        vec![
            text(&link.name),
            text(if link.kind.is_empty() { &link.driver } else { &link.kind }),
            text(part_of.join(", ")),
            badge(state),
            text(cut_text(&link.addresses.join(" "))),
            text(link.mac.as_deref().unwrap_or_default()),
            text(link.mtu),
            text(link.speed.map(|speed| format!("{speed} Mbit/s")).unwrap_or_default()),
            text(cut_text(&heard.join(", "))),
        ]
    };
    let heads = ["Interface", "Kind", "Part of", "State", "Addresses", "MAC", "MTU", "Speed", "Neighbour"];
    table("Interfaces", &heads, &links.iter().map(row).collect::<Vec<_>>())
}

/// The facts that a node told.
struct Facts {
    links: Vec<LinkFactsView>,
    disks: Vec<DiskView>,
    others: Map<String, Value>,
}

impl Facts {
    fn of(mut facts: Map<String, Value>) -> Result<Self, Problem> {
        Ok(Self { links: taken(&mut facts, "links")?, disks: taken(&mut facts, "disks")?, others: facts })
    }
}

/// A fact by its name.
fn taken<T: DeserializeOwned + Default>(facts: &mut Map<String, Value>, name: &str) -> Result<T, Problem> {
    let fact = facts.remove(name).map(serde_json::from_value).transpose();
    let unclear = |error| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the fact '{name}' is not understood: {error}"),
        )
    };
    Ok(fact.map_err(unclear)?.unwrap_or_default())
}

fn facts_list(facts: &Facts) -> Markup {
    let value = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut rows: Vec<(&str, Markup)> =
        facts.others.iter().map(|(name, fact)| (&**name, text(cut_text(&value(fact))))).collect();
    let disks: Vec<String> = facts
        .disks
        .iter()
        .map(|disk| format!("{} {} GB {}", disk.name, disk.size / 1_000_000_000, disk.model))
        .collect();
    rows.push(("disks", text(cut_text(&disks.join(", ")))));
    list(&rows)
}
