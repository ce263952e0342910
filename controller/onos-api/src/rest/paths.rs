//! `paths`: the shortest paths between two bridges or hosts, by the number of links.

use axum::Json;
use muster_api::intent::{HostView, LinkView, Point};
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused};
use crate::client::{Visitor, no_device};
use crate::document::shown;
use crate::graph::shortest;
use crate::intent::{host_id, host_of};
use crate::network::{Network, NoBridge};

/// An end of a path.
struct End<'n> {
    bridge: &'n str,
    host: Option<&'n HostView>,
}

/// GET /paths/{from}/{to}
pub async fn list(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let (from, to) = named(path)?;
    let network = visitor.network().await?;
    let (from, to) = (end(&network, &from)?, end(&network, &to)?);
    let between = match from.bridge == to.bridge {
        // Hosts of one bridge have a path without a link; a bridge has none to itself.
        true => vec![Vec::new()],
        false => shortest(&network.view, from.bridge, to.bridge),
    };
    let paths = between
        .iter()
        .map(|links| shown_path(&network, &from, links, &to))
        .filter(|path| path["links"].as_array().is_some_and(|links| !links.is_empty()));
    Ok(Json(json!({"paths": paths.collect::<Vec<_>>()})))
}

fn end<'n>(network: &'n Network, id: &str) -> Answer<End<'n>> {
    match network.find(id) {
        Ok(bridge) => return Ok(End { bridge: &bridge.name, host: None }),
        Err(NoBridge::Several(why)) => return Err(Refused::bad(why)),
        Err(NoBridge::Unknown) => {}
    }
    if id.starts_with("of:") {
        return Err(no_device(id));
    }
    let wanted = host_of(id);
    let host = network.view.hosts.iter().find(|host| Some(host.host.to_ascii_lowercase()) == wanted);
    let host =
        host.ok_or_else(|| Refused::not_found(format!("no device and no host is called {}", shown(id))))?;
    Ok(End { bridge: &host.location.device, host: Some(host) })
}

fn shown_path(network: &Network, from: &End<'_>, links: &[&LinkView], to: &End<'_>) -> Value {
    let edge = |src: Value, dst: Value| json!({"src": src, "dst": dst, "type": "EDGE", "state": "ACTIVE"});
    let host = |host: &HostView| json!({"port": "0", "host": host_id(&host.host)});
    let port = |point: &Point| network.connect_point(point);
    let mut all = Vec::with_capacity(links.len() + 2);
    all.extend(from.host.map(|it| edge(host(it), port(&it.location))));
    all.extend(links.iter().map(|link| network.link(link)));
    all.extend(to.host.map(|it| edge(port(&it.location), host(it))));
    json!({"cost": all.len() as f64, "links": all})
}
