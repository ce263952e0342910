//! ONOS's REST: `/onos/v1/…` as ONOS's scripts ask for it. It is a client of the HTTP API like `muster` and the console:
//! each request asks the API's own router in the name of whoever sent it. So roles, scopes, bounds and the audit are the
//! API's, and nothing is decided here about rules or intents.
//!
//! ```text
//! script ── Basic: a token ──▶ client.rs ──▶ rest/*.rs ──▶ the API's router
//!                                              │
//!            rule.rs, group.rs, meter.rs, intent.rs: ONOS's documents ⇄ flow files and intent files
//!                criterion.rs, instruction.rs, constraint.rs: one table each
//!            network.rs: of:… and port numbers ⇄ NODE/BRIDGE and interfaces
//! ```
//!
//! `docs/onos-api.md` is the manual, `docs/conformance/onos-json.md` the table of words.
//!
//! Absent: who may do what (`controller/api/src/route.rs`), where it is served (`controller/src/api/server.rs`), and
//! what of ONOS has no twin here: applications, packets, mastership, regions, objectives.

mod answer;
mod application;
mod client;
mod constraint;
mod criterion;
mod document;
mod graph;
mod group;
mod instruction;
mod intent;
mod meter;
mod network;
mod rest;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Extensions, StatusCode};
use axum::routing::get;
use muster_front::{Bounds, Room};
use tokio::sync::Mutex;

use answer::Refused;
use rest::{devices, flows, groups, hosts, intents, links, meters, paths, statistics, topology};

/// The most bytes of a document: some twenty thousand rules. A flow file may be larger.
const BODY_MAX: usize = 16 << 20;
/// Bytes of all bodies together: each takes several times that as values.
const ROOM: usize = 4 * BODY_MAX;
/// The limits of one.
const BODY: Bounds = Bounds { most: BODY_MAX, patience: Duration::from_secs(30) };

/// The functions that the server of this front gives it.
#[derive(Clone, Copy)]
pub struct Host {
    /// The extensions of a request that tell the API who is at the other end of the connection.
    pub peer: fn(&Extensions) -> Option<Extensions>,
}

/// Shared by all requests.
#[derive(Clone)]
struct Onos {
    api: Router,
    host: Host,
    /// Memory for bodies that may still arrive.
    room: Room,
    /// Held while a meter gets a number: two at once would get the same one.
    numbering: Arc<Mutex<()>>,
}

/// ONOS's REST, which asks this router.
pub fn router(api: Router, host: Host) -> Router {
    let onos = Onos { api, host, room: Room::new(ROOM), numbering: Arc::default() };
    let routes = Router::new()
        .route("/devices", get(devices::list))
        .route("/devices/ports", get(devices::all_ports))
        .route("/devices/{device}", get(devices::show))
        .route("/devices/{device}/ports", get(devices::ports))
        .route("/links", get(links::list))
        .route("/hosts", get(hosts::list).post(hosts::declared_in_stacks))
        .route("/hosts/{host}", get(hosts::show))
        .route("/hosts/{mac}/{vlan}", get(hosts::by_address).delete(hosts::not_removed))
        .route("/flows", get(flows::list).post(flows::create_many).delete(flows::delete_many))
        .route("/flows/pending", get(flows::pending))
        .route("/flows/table/{table}", get(flows::of_table))
        .route(
            "/flows/application/{application}",
            get(flows::of_application).delete(flows::delete_application),
        )
        .route("/flows/{device}", get(flows::of_device).post(flows::create))
        .route("/flows/{device}/{flow}", get(flows::show).delete(flows::delete))
        .route("/groups", get(groups::list))
        .route("/groups/{device}", get(groups::of_device).post(groups::create))
        .route("/groups/{device}/{cookie}", get(groups::show).delete(groups::delete))
        .route("/meters", get(meters::list))
        .route("/meters/{device}", get(meters::of_device).post(meters::create))
        .route("/meters/{device}/{meter}", get(meters::show).delete(meters::delete))
        .route("/intents", get(intents::list).post(intents::create))
        .route("/intents/minisummary", get(intents::summary))
        .route("/intents/application/{application}", get(intents::of_application))
        .route("/intents/relatedflows/{application}/{key}", get(intents::flows))
        .route("/intents/{application}/{key}", get(intents::show).delete(intents::delete))
        .route("/topology", get(topology::show))
        .route("/topology/clusters", get(topology::clusters))
        .route("/topology/clusters/{cluster}", get(topology::cluster))
        .route("/topology/clusters/{cluster}/devices", get(topology::cluster_devices))
        .route("/topology/clusters/{cluster}/links", get(topology::cluster_links))
        .route("/topology/infrastructure/{point}", get(topology::infrastructure))
        .route("/paths/{from}/{to}", get(paths::list))
        .route("/statistics/flows/tables", get(statistics::tables))
        .route("/statistics/flows/tables/{device}", get(statistics::tables_of))
        .route("/statistics/flows/activeentries", get(statistics::active))
        .route("/statistics/ports", get(statistics::ports))
        .route("/statistics/ports/{device}", get(statistics::ports_of))
        .route("/statistics/ports/{device}/{port}", get(statistics::port))
        .with_state(onos);
    let routes = UNSUPPORTED.iter().fold(routes, |routes, (path, why)| {
        let why = *why;
        let refused = async move || Refused::new(StatusCode::NOT_IMPLEMENTED, why);
        routes.route(path, get(refused).post(refused).put(refused).delete(refused))
    });
    Router::new()
        .nest("/onos/v1", routes)
        .fallback(async || {
            Refused::not_found("no such path: docs/onos-api.md has those of ONOS that are here")
        })
        .method_not_allowed_fallback(async || {
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
        })
        // Bodies are read in `client.rs`, which has its own bounds.
        .layer(DefaultBodyLimit::disable())
}

const NETCFG: &str = "links and hosts are declared in a stack: Muster::TopologyLink, Muster::TopologyHost";

/// Paths of ONOS that scripts ask for and that have no twin here, each with what there is instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "/applications",
        "Muster has no applications to install: the name of one is the owner of its rules and intents",
    ),
    ("/flowobjectives/{device}/filter", "Muster has no flow objectives: POST /onos/v1/flows"),
    ("/flowobjectives/{device}/forward", "Muster has no flow objectives: POST /onos/v1/flows"),
    ("/flowobjectives/{device}/next", "Muster has no flow objectives: POST /onos/v1/groups"),
    ("/groups/{device}/{cookie}/buckets", "POST /onos/v1/groups with all buckets of the group"),
    ("/network/configuration", NETCFG),
    // As onos-netcfg asks, without and with the part of the configuration.
    ("/network/configuration/", NETCFG),
    ("/network/configuration/{*part}", NETCFG),
    ("/regions", "Muster has no regions: selectors choose nodes by their labels"),
    ("/mcast", "Muster has no multicast routes: POST /onos/v1/intents, a SinglePointToMultiPointIntent"),
    ("/mastership", "the agent on a bridge's server is its only master"),
    ("/cluster/configuration", "controllers are no members of a cluster: docs/standbys.md"),
    ("/keys", "Muster logs in to no device: an agent joins with a token"),
    (
        "/statistics/flows/link",
        "a link has no counters: GET /onos/v1/statistics/ports has those of its ports",
    ),
    (
        "/paths/{from}/{to}/disjoint",
        "submit an intent with the constraint protection: its paths are disjoint",
    ),
];

#[cfg(test)]
mod tests;
