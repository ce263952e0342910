//! Heat's HTTP API, version 1, for clients that were written for OpenStack: `openstack stack …`, and libraries that create
//! stacks. Like the console it is a client of Muster's own API: each request asks the API's router in the caller's name. So
//! roles, scopes, bounds and the audit are the API's, and a client of Heat can do nothing that the API does not let its
//! user do.
//!
//! ```text
//! client ── X-Auth-Token ──▶ caller.rs ── the user's token ──▶ client.rs ──▶ the API's router
//!                               │
//!                               ▼
//!                            stack.rs, resource.rs, event.rs, … ── Heat's JSON, Heat's errors (fault.rs) ──▶ client
//! ```
//!
//! Absent: who may do what (`controller/api/src/route.rs`), Keystone, and what no server has that is installed already:
//! snapshots, tags, suspended stacks.

mod actions;
mod body;
mod caller;
mod client;
mod contents;
mod deployment;
mod event;
mod fault;
mod id;
mod kinds;
mod nested;
mod place;
mod preview;
mod query;
mod request;
mod resource;
mod resource_times;
mod service;
mod stack;
mod status;
mod time;
mod validate;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Extensions;
use axum::routing::{any, get, patch, post};
use muster_front::Room;
use tokio::sync::Semaphore;

pub use caller::Scheme;
pub use fault::Fault;

/// Makes of a request's extensions those of the request to the API.
pub type Peer = Arc<dyn Fn(&Extensions) -> Extensions + Send + Sync>;

/// The functions that the server of this front gives it.
#[derive(Clone)]
pub struct Host {
    /// The version of the controller.
    pub version: &'static str,
    /// Bytes of a request.
    pub body_max: usize,
    /// Bytes of a template.
    pub template_max: usize,
    /// Tells the API who is at the other end of the connection.
    pub peer: Peer,
    /// The same for a request without a token, where the operator allows such requests.
    pub without_token: Option<Peer>,
}

/// Shared by all requests.
#[derive(Clone)]
struct Heat {
    api: Router,
    host: Host,
    /// Bodies that are worked on at a time.
    work: Arc<Semaphore>,
    /// Memory for bodies that may still arrive.
    room: Room,
}

/// Heat's API in front of Muster's.
pub fn router(api: Router, host: Host) -> Router {
    let room = Room::new(body::BODIES_MAX * host.body_max);
    let work = Arc::new(Semaphore::new(body::BODIES_MAX));
    let heat = Heat { api, host, work, room };
    let lookup = || any(place::redirect);
    Router::new()
        .route("/", get(service::versions))
        .route("/v1/{project}/build_info", get(service::build_info))
        .route("/v1/{project}/services", get(service::list))
        .route("/v1/{project}/validate", post(validate::validate))
        .route("/v1/{project}/resource_types", get(kinds::list))
        .route("/v1/{project}/resource_types/{kind}", get(kinds::show))
        .route("/v1/{project}/resource_types/{kind}/template", get(kinds::template))
        .route("/v1/{project}/template_versions", get(kinds::versions))
        .route("/v1/{project}/template_versions/{version}/functions", get(kinds::functions_of))
        .route("/v1/{project}/software_configs", get(deployment::configs).post(deployment::no_config))
        .route("/v1/{project}/software_configs/{id}", get(deployment::config).delete(deployment::no_config))
        .route("/v1/{project}/software_deployments", get(deployment::list).post(deployment::no_deployment))
        .route("/v1/{project}/software_deployments/metadata/{server}", get(deployment::metadata))
        .route(
            "/v1/{project}/software_deployments/{id}",
            get(deployment::show).put(deployment::no_deployment).delete(deployment::no_deployment),
        )
        .route("/v1/{project}/stacks", get(stack::list).post(stack::create))
        .route("/v1/{project}/stacks/detail", get(stack::list))
        .route("/v1/{project}/stacks/preview", post(preview::create))
        .route("/v1/{project}/stacks/{stack}", lookup())
        .route("/v1/{project}/stacks/{stack}/resources", lookup())
        .route("/v1/{project}/stacks/{stack}/events", lookup())
        .route("/v1/{project}/stacks/{stack}/outputs", lookup())
        .route("/v1/{project}/stacks/{stack}/template", lookup())
        .route("/v1/{project}/stacks/{stack}/environment", lookup())
        .route("/v1/{project}/stacks/{stack}/files", lookup())
        .route("/v1/{project}/stacks/{stack}/actions", lookup())
        .route(
            "/v1/{project}/stacks/{stack}/{id}",
            get(stack::show).put(stack::update).patch(stack::update_existing).delete(stack::delete),
        )
        .route(
            "/v1/{project}/stacks/{stack}/{id}/preview",
            axum::routing::put(preview::update).patch(preview::update_existing),
        )
        .route("/v1/{project}/stacks/{stack}/{id}/actions", post(actions::act))
        .route("/v1/{project}/stacks/{stack}/{id}/template", get(contents::template))
        .route("/v1/{project}/stacks/{stack}/{id}/environment", get(contents::environment))
        .route("/v1/{project}/stacks/{stack}/{id}/files", get(contents::files))
        .route("/v1/{project}/stacks/{stack}/{id}/outputs", get(contents::outputs))
        .route("/v1/{project}/stacks/{stack}/{id}/outputs/{key}", get(contents::output_named))
        .route("/v1/{project}/stacks/{stack}/{id}/abandon", any(actions::no_abandon))
        .route("/v1/{project}/stacks/{stack}/{id}/export", any(actions::no_export))
        .route("/v1/{project}/stacks/{stack}/{id}/snapshots", any(actions::no_snapshot))
        .route("/v1/{project}/stacks/{stack}/{id}/snapshots/{*rest}", any(actions::no_snapshot))
        .route("/v1/{project}/stacks/{stack}/{id}/resources", get(resource::list))
        .route(
            "/v1/{project}/stacks/{stack}/{id}/resources/{resource}",
            get(resource::show).merge(patch(resource::mark)),
        )
        .route("/v1/{project}/stacks/{stack}/{id}/resources/{resource}/metadata", get(resource::metadata))
        .route("/v1/{project}/stacks/{stack}/{id}/resources/{resource}/signal", post(resource::signal))
        .route("/v1/{project}/stacks/{stack}/{id}/resources/{resource}/events", get(event::of_resource))
        .route("/v1/{project}/stacks/{stack}/{id}/resources/{resource}/events/{event}", get(event::show))
        .route("/v1/{project}/stacks/{stack}/{id}/events", get(event::list))
        .fallback(async || Fault::not_found("Heat's API has no such path: see docs/heat-api.md"))
        .method_not_allowed_fallback(async || Fault::method_not_allowed())
        // Bodies are read in `body.rs`, which has its own bounds.
        .layer(DefaultBodyLimit::disable())
        .with_state(heat)
}

#[cfg(test)]
mod tests;
