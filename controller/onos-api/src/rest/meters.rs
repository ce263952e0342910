//! `meters`: meters of flow tables.

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
use crate::document::{Part, number_of};
use crate::meter::{decoded, encoded, free, number};
use crate::network::Bridge;

fn is_meter(flow: &&FlowView) -> bool {
    flow.kind == "meter"
}

fn shown(meters: Vec<Value>) -> Json<Value> {
    Json(json!({ "meters": meters }))
}

/// GET /meters
pub async fn list(visitor: Visitor) -> Answer {
    Ok(shown(visitor.all(|bridge, flow| is_meter(&flow).then(|| encoded(flow, bridge))).await?))
}

/// GET /meters/{device}
pub async fn of_device(visitor: Visitor, path: Named<String>) -> Answer {
    let (bridge, _) = visitor.bridge(&named(path)?).await?;
    let flows = visitor.flows(&bridge).await?;
    Ok(shown(flows.iter().filter(is_meter).map(|flow| encoded(flow, &bridge)).collect()))
}

/// GET /meters/{device}/{meter}
pub async fn show(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (device, meter) = named(path)?;
    let (bridge, found) = one(&visitor, &device, &meter).await?;
    Ok(shown(vec![encoded(&found, &bridge)]))
}

async fn one(visitor: &Visitor, device: &str, meter: &str) -> Answer<(Bridge, FlowView)> {
    let (bridge, _) = visitor.bridge(device).await?;
    let wanted = number_of(meter);
    let mut flows = visitor.flows(&bridge).await?.into_iter();
    let found = flows.find(|flow| is_meter(&flow) && Some(number(flow)) == wanted);
    Ok((bridge, found.ok_or_else(|| Refused::not_found("Meter is not found"))?))
}

/// POST /meters/{device}: 201, and where the meter is.
pub async fn create(visitor: Visitor, path: Named<String>, body: Body) -> Answer<Response> {
    let device = named(path)?;
    let (document, _room) = visitor.document(body).await?;
    let application = application::of_document(&Part::whole(&document))?;
    let (bridge, network) = visitor.bridge(&device).await?;
    let mut meter = decoded(&Part::whole(&document), &network, &bridge)?;
    let _numbering = visitor.numbering().await;
    let flows = visitor.flows(&bridge).await?;
    let number = free(&flows.into_iter().filter(|flow| is_meter(&flow)).collect::<Vec<_>>());
    meter["meter"] = json!(number);
    put(&visitor, application.as_str(), &json!({"meters": [meter]})).await?;
    Ok(created(["meters", &bridge.id, &number.to_string()]))
}

/// DELETE /meters/{device}/{meter}: 204.
pub async fn delete(visitor: Visitor, path: Named<(String, String)>) -> Answer<StatusCode> {
    let (device, meter) = named(path)?;
    let (bridge, found) = one(&visitor, &device, &meter).await?;
    remove(&visitor, &bridge, &found.id.into_iter().collect::<BTreeSet<_>>()).await
}
