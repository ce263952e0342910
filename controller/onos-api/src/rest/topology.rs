//! `topology`: how large the network is, and which bridges hang together.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused};
use crate::client::{Visitor, no_device};
use crate::document::Part;
use crate::graph::clusters as clusters_of;
use crate::network::Network;

/// GET /topology
pub async fn show(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let up = network.view.links.iter().filter(|link| link.up).count();
    Ok(Json(json!({
        "time": u64::try_from(now).unwrap_or(u64::MAX),
        "devices": network.bridges.len(),
        "links": up,
        "clusters": clusters_of(&network.view).len(),
    })))
}

fn shown(network: &Network, (n, bridges): (usize, &Vec<&str>)) -> Value {
    let links = links_of(network, bridges);
    let root = bridges.first().and_then(|name| network.named(name)).map(|bridge| bridge.id.clone());
    json!({"id": n, "deviceCount": bridges.len(), "linkCount": links.len(), "root": root})
}

fn links_of(network: &Network, bridges: &[&str]) -> Vec<Value> {
    let inside =
        network.view.links.iter().filter(|link| link.up && bridges.contains(&link.from.device.as_str()));
    inside.map(|link| network.link(link)).collect()
}

/// GET /topology/clusters
pub async fn clusters(visitor: Visitor) -> Answer {
    let network = visitor.network().await?;
    let all = clusters_of(&network.view);
    Ok(Json(json!({"clusters": all.iter().enumerate().map(|one| shown(&network, one)).collect::<Vec<_>>()})))
}

fn one(network: &Network, cluster: usize) -> Answer<Vec<&str>> {
    clusters_of(&network.view)
        .into_iter()
        .nth(cluster)
        .ok_or_else(|| Refused::not_found("Cluster is not found"))
}

/// GET /topology/clusters/{cluster}
pub async fn cluster(visitor: Visitor, path: Named<usize>) -> Answer {
    let (cluster, network) = (named(path)?, visitor.network().await?);
    Ok(Json(shown(&network, (cluster, &one(&network, cluster)?))))
}

/// GET /topology/clusters/{cluster}/devices
pub async fn cluster_devices(visitor: Visitor, path: Named<usize>) -> Answer {
    let (cluster, network) = (named(path)?, visitor.network().await?);
    let bridges = one(&network, cluster)?;
    let ids: Vec<&str> =
        bridges.iter().filter_map(|name| network.named(name)).map(|it| it.id.as_str()).collect();
    Ok(Json(json!({ "devices": ids })))
}

/// GET /topology/clusters/{cluster}/links
pub async fn cluster_links(visitor: Visitor, path: Named<usize>) -> Answer {
    let (cluster, network) = (named(path)?, visitor.network().await?);
    Ok(Json(json!({"links": links_of(&network, &one(&network, cluster)?)})))
}

/// GET /topology/infrastructure/{point}: whether a port leads to another bridge.
pub async fn infrastructure(visitor: Visitor, path: Named<String>) -> Answer {
    let point = named(path)?;
    let Some((device, port)) = point.rsplit_once('/') else { return Err(no_device(&point)) };
    let (bridge, network) = visitor.bridge(device).await?;
    let port = bridge.in_port(&Part::at(&json!(port), "port"))?;
    let is_link =
        network.view.links.iter().any(|link| {
            [&link.from, &link.to].iter().any(|end| end.device == bridge.name && end.port == port)
        });
    Ok(Json(json!({ "infrastructure": is_link })))
}
