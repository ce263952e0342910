//! `groups`: groups of flow tables, which Muster knows by their numbers.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use muster_api::flow::FlowView;
use serde_json::{Value, json};

use super::flows::{put, remove};
use super::{Named, named};
use crate::answer::{Answer, Refused, created};
use crate::application;
use crate::client::Visitor;
use crate::document::Part;
use crate::group::{decoded, encoded, number, of_cookie};
use crate::network::Bridge;

fn is_group(flow: &&FlowView) -> bool {
    flow.kind == "group"
}

fn shown(groups: Vec<Value>) -> Json<Value> {
    Json(json!({ "groups": groups }))
}

/// GET /groups
pub async fn list(visitor: Visitor) -> Answer {
    Ok(shown(visitor.all(|bridge, flow| is_group(&flow).then(|| encoded(flow, bridge))).await?))
}

/// GET /groups/{device}
pub async fn of_device(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    let flows = visitor.flows(&bridge).await?;
    Ok(shown(flows.iter().filter(is_group).map(|flow| encoded(flow, &bridge)).collect()))
}

/// GET /groups/{device}/{cookie}
pub async fn show(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (device, cookie) = named(path)?;
    let (bridge, found) = one(&visitor, &device, &cookie).await?;
    Ok(shown(vec![encoded(&found, &bridge)]))
}

async fn one(visitor: &Visitor, device: &str, cookie: &str) -> Answer<(Bridge, FlowView)> {
    let (bridge, _) = visitor.bridge(device).await?;
    let wanted = of_cookie(cookie);
    let mut flows = visitor.flows(&bridge).await?.into_iter();
    let found = flows.find(|flow| is_group(&flow) && Some(number(flow)) == wanted);
    let absent =
        || Refused::not_found("Group was not found: a group's cookie is its number here, such as 0x1");
    Ok((bridge, found.ok_or_else(absent)?))
}

/// POST /groups/{device}: 201, and where the group is.
pub async fn create(visitor: Visitor, path: Named<String>, body: Body) -> Answer<Response> {
    let device = named(path)?;
    let (document, _room) = visitor.document(body).await?;
    let application = application::of_document(&Part::whole(&document))?;
    let (bridge, network) = visitor.bridge(&device).await?;
    let (group, number) = decoded(&Part::whole(&document), &network, &bridge)?;
    put(&visitor, application.as_str(), &json!({"groups": [group]})).await?;
    Ok(created(["groups", &bridge.id, &number.to_string()]))
}

/// DELETE /groups/{device}/{cookie}: 204.
pub async fn delete(visitor: Visitor, path: Named<(String, String)>) -> Answer<StatusCode> {
    let (device, cookie) = named(path)?;
    let (bridge, found) = one(&visitor, &device, &cookie).await?;
    remove(&visitor, &bridge, &found.id.into_iter().collect::<BTreeSet<_>>()).await
}
