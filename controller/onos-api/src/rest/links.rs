//! `links`: each direction of a link on its own, as ONOS has them.

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use muster_api::intent::LinkView;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::{Answer, Refused};
use crate::client::Visitor;
use crate::document::Part;

/// GET /links
#[derive(Debug, Default, Deserialize)]
pub struct Wanted {
    device: Option<String>,
    port: Option<String>,
    direction: Option<String>,
}

/// GET /links
pub async fn list(visitor: Visitor, query: Result<Query<Wanted>, QueryRejection>) -> Answer {
    let Query(Wanted { device, port, direction }) =
        query.map_err(|rejection| Refused::bad(rejection.body_text()))?;
    let (goes, comes) = match direction.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None | Some("ALL") => (true, true),
        Some("EGRESS") => (true, false),
        Some("INGRESS") => (false, true),
        Some(_) => return Err(Refused::bad("direction: want ALL, EGRESS or INGRESS")),
    };
    let (network, wanted) = match &device {
        None if port.is_some() => return Err(Refused::bad("a port needs the device beside it")),
        None => (visitor.network().await?, None),
        Some(device) => {
            let (bridge, network) = visitor.bridge(device).await?;
            let port = port.map(|port| bridge.in_port(&Part::at(&json!(port), "port"))).transpose()?;
            (network, Some((bridge.name, port)))
        }
    };
    let is_wanted = |link: &&LinkView| {
        let Some((device, port)) = &wanted else { return true };
        let is_end = |end: &muster_api::intent::Point| {
            end.device == *device && port.as_ref().is_none_or(|port| *port == end.port)
        };
        goes && is_end(&link.from) || comes && is_end(&link.to)
    };
    let links: Vec<Value> =
        network.view.links.iter().filter(is_wanted).map(|link| network.link(link)).collect();
    Ok(Json(json!({ "links": links })))
}
