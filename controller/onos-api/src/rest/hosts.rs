//! `hosts`: what agents and stacks say of hosts. They come from there alone.

use axum::Json;
use axum::http::StatusCode;
use muster_api::intent::HostView;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused};
use crate::client::Visitor;
use crate::document::shown;
use crate::intent::{host_id, host_of};
use crate::network::Network;

/// ONOS's host.
fn host(view: &HostView, network: &Network) -> Value {
    let location = |point: &muster_api::intent::Point| {
        let point = network.connect_point(point);
        json!({"elementId": point["device"], "port": point["port"]})
    };
    let locations: Vec<Value> = [&view.location].into_iter().chain(&view.claimed).map(location).collect();
    json!({
        "id": host_id(&view.host),
        "mac": view.host.to_ascii_uppercase(),
        "vlan": "None",
        "innerVlan": "None",
        "outerTpid": "0x0000",
        "configured": view.declared,
        "suspended": false,
        "ipAddresses": view.addresses,
        "locations": locations,
    })
}

/// GET /hosts
pub async fn list(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    Ok(Json(json!({"hosts": network.view.hosts.iter().map(|view| host(view, &network)).collect::<Vec<_>>()})))
}

/// GET /hosts/{host}
pub async fn show(visitor: Visitor, path: Named<String>) -> Answer {
    one(&visitor, &named(path)?).await
}

/// GET /hosts/{mac}/{vlan}
pub async fn by_address(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (mac, vlan) = named(path)?;
    one(&visitor, &format!("{mac}/{vlan}")).await
}

async fn one(visitor: &Visitor, id: &str) -> Answer {
    let network = visitor.network().await?;
    let wanted = host_of(id);
    let found = network.view.hosts.iter().find(|view| Some(view.host.to_ascii_lowercase()) == wanted);
    let found = found.ok_or_else(|| Refused::not_found(format!("Host is not found: {}", shown(id))))?;
    Ok(Json(host(found, &network)))
}

/// POST /hosts
pub async fn declared_in_stacks(_visitor: Visitor) -> Answer {
    Err(Refused::new(StatusCode::NOT_IMPLEMENTED, "a host is declared in a stack: Muster::TopologyHost"))
}

/// DELETE /hosts/{mac}/{vlan}
pub async fn not_removed(_visitor: Visitor) -> Answer {
    let why = "a host that a stack declares goes with the stack, and one that an agent sees when it is gone";
    Err(Refused::new(StatusCode::NOT_IMPLEMENTED, why))
}
