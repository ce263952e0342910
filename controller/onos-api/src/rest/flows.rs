//! `flows`: rules of flow tables. Decides that a change waits for nothing: as in ONOS, a rule is PENDING_ADD until its
//! device has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use muster_api::flow::{FlowView, FlowsBegun};
use muster_front::escaped;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused, created};
use crate::application::{self, Application};
use crate::client::Visitor;
use crate::document::Part;
use crate::network::{Bridge, Network};
use crate::rule::{self, Asked, decoded, encoded};

/// The parameters of a request that makes rules.
#[derive(Debug, Default, Deserialize)]
pub struct OfApplication {
    #[serde(rename = "appId")]
    app_id: Option<String>,
}

type Query_ = Result<Query<OfApplication>, QueryRejection>;

fn asked_application(query: Query_) -> Answer<Option<Application>> {
    let Query(OfApplication { app_id }) = query.map_err(|rejection| Refused::bad(rejection.body_text()))?;
    let named = app_id.as_deref().map(Application::new).transpose();
    named.map_err(|why| Refused::bad(format!("appId: {why}")))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn is_rule(flow: &FlowView) -> bool {
    flow.kind == "rule"
}

fn shown(flows: Vec<Value>) -> Json<Value> {
    Json(json!({ "flows": flows }))
}

async fn all(visitor: &Visitor, is_wanted: impl Fn(&FlowView) -> bool) -> Answer {
    let now = now_ms();
    let make = |bridge: &Bridge, flow: &FlowView| {
        (is_rule(flow) && is_wanted(flow)).then(|| encoded(flow, bridge, now))
    };
    Ok(shown(visitor.all(make).await?))
}

/// GET /flows
pub async fn list(visitor: Visitor) -> Answer {
    all(&visitor, |_| true).await
}

/// GET /flows/pending
pub async fn pending(visitor: Visitor) -> Answer {
    all(&visitor, |flow| flow.state.starts_with("PENDING_")).await
}

/// GET /flows/table/{table}
pub async fn of_table(visitor: Visitor, path: Named<u8>) -> Answer {
    let table = json!(named(path)?);
    all(&visitor, |flow| flow.entry.table.as_ref() == Some(&table)).await
}

/// GET /flows/application/{application}
pub async fn of_application(visitor: Visitor, path: Named<String>) -> Answer {
    let wanted = named(path)?;
    all(&visitor, |flow| application::of_owner(flow.owner.as_deref()) == wanted).await
}

/// GET /flows/{device}
pub async fn of_device(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    let (flows, now) = (visitor.flows(&bridge).await?, now_ms());
    Ok(shown(flows.iter().filter(|flow| is_rule(flow)).map(|flow| encoded(flow, &bridge, now)).collect()))
}

/// GET /flows/{device}/{flow}
pub async fn show(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (device, id) = named(path)?;
    let (bridge, _) = visitor.bridge(&device).await?;
    let (flows, now) = (visitor.flows(&bridge).await?, now_ms());
    let found = flows.iter().find(|flow| is_rule(flow) && rule::id(flow) == id);
    let found = found.ok_or_else(|| Refused::not_found("Flow is not found"))?;
    Ok(shown(vec![encoded(found, &bridge, now)]))
}

/// POST /flows/{device}: 201, and where the rule is.
pub async fn create(visitor: Visitor, path: Named<String>, query: Query_, body: Body) -> Answer<Response> {
    let (device, application) = (named(path)?, asked_application(query)?);
    let (document, _room) = visitor.document(body).await?;
    let (bridge, network) = visitor.bridge(&device).await?;
    let asked = decoded(&Part::whole(&document), &network, Some(&bridge), application.as_ref())?;
    let id = asked.id.clone();
    apply(&visitor, vec![asked]).await?;
    Ok(created(["flows", &bridge.id, &id]))
}

/// POST /flows: 200, and the id of each rule.
pub async fn create_many(visitor: Visitor, query: Query_, body: Body) -> Answer {
    let application = asked_application(query)?;
    let (document, _room) = visitor.document(body).await?;
    let whole = Part::whole(&document);
    whole.only(&["flows"])?;
    let flows = whole.need("flows")?.items()?;
    let network = network_of(&visitor, &flows).await?;
    let mut asked = Vec::with_capacity(flows.len());
    for flow in &flows {
        asked.push(decoded(flow, &network, None, application.as_ref())?);
    }
    let ids = asked.iter().map(|rule| json!({"deviceId": rule.bridge.id, "flowId": rule.id})).collect();
    if !asked.is_empty() {
        apply(&visitor, asked).await?;
    }
    Ok(shown(ids))
}

/// The devices of a document: of one, what touches it is enough.
async fn network_of(visitor: &Visitor, flows: &[Part<'_>]) -> Answer<Network> {
    let mut devices = BTreeSet::new();
    for flow in flows {
        devices.insert(flow.need("deviceId")?.text()?);
    }
    let mut devices = devices.into_iter();
    match (devices.next(), devices.next()) {
        (Some(only), None) => Ok(visitor.bridge(only).await?.1),
        _ => visitor.network().await,
    }
}

/// Applies rules, those of one application at a time: none, if those of the first are refused.
async fn apply(visitor: &Visitor, asked: Vec<Asked>) -> Answer<()> {
    let mut by_owner: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for rule in asked {
        by_owner.entry(rule.application.as_str().to_owned()).or_default().push(rule.rule);
    }
    if by_owner.len() > 1 {
        return Err(Refused::bad(
            "the flows have several applications: send those of one at a time, or give ?appId=",
        ));
    }
    for (application, rules) in by_owner {
        put(visitor, &application, &json!({ "rules": rules })).await?;
    }
    Ok(())
}

/// Applies a flow file as an application.
pub async fn put(visitor: &Visitor, application: &str, file: &Value) -> Answer<()> {
    let owner = match application {
        application::REST => String::new(),
        application => format!("&application={}", escaped(application)),
    };
    let _begun: FlowsBegun = visitor.send(Method::POST, &format!("/v1/flows?name=onos{owner}"), file).await?;
    Ok(())
}

/// DELETE /flows/{device}/{flow}: 204, also where there is none.
pub async fn delete(visitor: Visitor, path: Named<(String, String)>) -> Answer<StatusCode> {
    let (device, id) = named(path)?;
    let (bridge, _) = visitor.bridge(&device).await?;
    let Some(id) = rule::own_id(&id) else { return Err(Refused::not_found("Flow is not found")) };
    remove(&visitor, &bridge, &BTreeSet::from([id])).await
}

/// DELETE /flows: 204.
pub async fn delete_many(visitor: Visitor, body: Body) -> Answer<StatusCode> {
    let (document, _room) = visitor.document(body).await?;
    let whole = Part::whole(&document);
    whole.only(&["flows"])?;
    let flows = whole.need("flows")?.items()?;
    let network = network_of(&visitor, &flows).await?;
    let mut by_device: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for flow in &flows {
        let bridge = network.device(&flow.need("deviceId")?)?;
        let id = flow.need("flowId")?;
        let own = rule::own_id(&crate::criterion::plain(id.value()));
        let own = own.ok_or_else(|| id.wrong("want the id of a flow, a decimal number"))?;
        by_device.entry(bridge.name.clone()).or_default().insert(own);
    }
    for (name, ids) in &by_device {
        if let Some(bridge) = network.named(name) {
            remove(&visitor, bridge, ids).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// DELETE /flows/application/{application}: 204.
pub async fn delete_application(visitor: Visitor, path: Named<String>) -> Answer<StatusCode> {
    let wanted = named(path)?;
    if [application::INTENTS, application::OWN].contains(&wanted.as_str()) || wanted.starts_with("stack:") {
        return Err(Refused::new(
            StatusCode::CONFLICT,
            "rules of intents go when these are withdrawn, and those of a stack with its update",
        ));
    }
    let network = visitor.network().await?;
    for (bridge, _) in visitor.with_tables(&network).await? {
        let flows = visitor.flows_in_turn(&bridge).await?;
        let of_it =
            |flow: &&FlowView| is_rule(flow) && application::of_owner(flow.owner.as_deref()) == wanted;
        let ids: BTreeSet<String> = flows.iter().filter(of_it).filter_map(|flow| flow.id.clone()).collect();
        if !ids.is_empty() {
            remove(&visitor, &bridge, &ids).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Takes those of these entries off a bridge that are there.
pub async fn remove(visitor: &Visitor, bridge: &Bridge, ids: &BTreeSet<String>) -> Answer<StatusCode> {
    let flows = visitor.flows(bridge).await?;
    let there: Vec<&String> =
        flows.iter().filter_map(|flow| flow.id.as_ref()).filter(|id| ids.contains(*id)).collect();
    if !there.is_empty() {
        let (node, name) = bridge.parts();
        let path = format!("/v1/devices/{}/{}/flows", escaped(node), escaped(name));
        let _begun: FlowsBegun = visitor.send(Method::DELETE, &path, &json!({ "ids": there })).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
