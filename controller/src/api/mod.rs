//! The HTTP API for operators: JSON under `/v1`, on a Unix socket that belongs to root and the group `muster`.
//!
//! ```text
//!   GET|POST /v1/stacks?limit=&marker=             GET /v1/stacks/{stack}/template?revision=
//!   GET|PUT|DELETE /v1/stacks/{stack}              GET /v1/stacks/{stack}/outputs|graph|revisions|failures
//!   POST /v1/stacks/{stack}/rollback|cancel|check|preview  GET /v1/stacks/{stack}/events?marker=&limit=&id=
//!   POST /v1/stacks/{stack}/rollout                {"action":"pause|resume|promote|abort","resource":NAME?}
//!   GET  /v1/stacks/{stack}/watch?seq=&traversal=  GET /v1/stacks/{stack}/resources?all=&status=&limit=&marker=
//!   GET  /v1/stacks/{stack}/resources/{resource}   POST /v1/stacks/{stack}/resources/{resource}/unhealthy|clear-hook
//!   GET  /v1/nodes?selector=&limit=&marker=        GET|PATCH|DELETE /v1/nodes/{node}    POST /v1/nodes/{node}/revoke
//!   GET  /v1/nodes/{node}/facts                    GET  /v1/drift?node=                POST /v1/nodes/{node}/maintenance {"on"}
//!   GET  /v1/counts/nodes?selector=                {"total","online",…}: how many in each state that any is in
//!   GET  /v1/status                                {"site","role","since","epoch","restored","store","link","read_only","controllers":[],
//!                                                   "agents":{},"waiting":{}}
//!   GET  /v1/restore?node=                         [{"id","node","state":"unknown|newer|deleted|table","type","stack","resource","rules","reason"}]
//!   POST /v1/restore                               {"verdict":"adopt|remove","ids":[]|null,"node":null}: null is all; the status as it is then
//!   GET|POST /v1/tokens                            DELETE /v1/tokens/{id}               GET /v1/version
//!
//!   POST /v1/flows?guard=&confirm_timeout=&name=   the body is a flow file as the operator wrote it; guard=false: not guarded
//!                                                  {"operation","rules","devices","warnings":[]}
//!   GET  /v1/flows/operations/{id}?wait=SECONDS    {"operation","action","state":"IN_PROGRESS|COMPLETE|FAILED","stage","stages",
//!                                                   "done","total","errors":[{"id","device","error"}]}
//!   GET  /v1/devices                               [{"device","node","bridge","node_state","switch":"absent|filling|watched|unknown",
//!                                                   "rules","added","pending","failed","expired","wrong","foreign","reason",…}]
//!   GET  /v1/devices/{node}/{bridge}               one of these
//!   GET  /v1/devices/{node}/{bridge}/flows?table=&state=&foreign=&counters=
//!                                                  [{"id","device","kind","table","priority","selector","treatment","idle_timeout",
//!                                                   "hard_timeout","state","owner","packets","bytes","duration","error"}]
//!   DELETE /v1/devices/{node}/{bridge}/flows?guard=   body {"ids":[]}; as POST /v1/flows
//!   GET  /v1/devices/{node}/{bridge}/flows/{id}    one of these, with "since", "on_device", "explanation":[lines]
//!   GET  /v1/devices/{node}/{bridge}/stats         {"device","tables":[{"table","active","lookups","matches"}],
//!                                                   "owners":[{"owner","rules","packets","bytes"}],"age"}
//!   POST /v1/devices/{node}/{bridge}/reconcile?foreign=   the device as it is then
//!   POST /v1/devices/{node}/{bridge}/purge?forget=&guard=&confirm_timeout= as POST /v1/flows; forget: the table alone, what is on the device is left
//!
//!   POST /v1/intents?name=                         the body is an intent file as the operator wrote it; {"keys":[],"warnings":[]}
//!   GET  /v1/intents?state=                        [{"key","type","state","request","errors","reason","owner"}]
//!   PATCH|DELETE /v1/intents                       body {"withdraw":[keys]} | {"keys":[]}, which are forgotten; as POST /v1/intents
//!   GET  /v1/intents/{key}                         one of these, whole, with "paths":[[devices]], "rules":[ids], "entries":[{"id","device",
//!                                                   "state","error"}], "reservations", "history", "waits_for", "retry_in"; a key's / is %2F
//!   POST /v1/intents/{key}/withdraw                DELETE /v1/intents/{key}; as POST /v1/intents
//!   POST /v1/watch/intents?wait=SECONDS&state=     body {"keys":[]}; {"ended","done","failed","total","intents":[those that are not so]}
//!   GET  /v1/topology?intents=N|key=               {"devices":[{"device","up","away","ports":[{"name","up"}]}],"links":[{"from","to","up",
//!                                                   "declared","discovered","cost","bandwidth","reserved","latency",…}],"intents":[{"key",
//!                                                   "state","links"}]}
//!   GET  /metrics                                  for Prometheus, text format 0.0.4
//! ```
//!
//! Lists with `limit` and `marker` come in pages as in Heat's API: `marker` is the last item of the page before, by its
//! name, and of events by its number.
//!
//! An error is `{"error": {"class", "message", "errors"}}`, see [`error`]. Templates are parsed here, beside the
//! driver, never in it. Absent on purpose: decisions, and the operator's disk: what a template names comes with it.

pub mod error;
mod flow;
mod flow_view;
mod intent;
mod intent_view;
mod metrics;
mod node;
mod parameter;
mod poll;
mod preview;
mod resource;
mod restore;
mod server;
mod source;
mod stack;
mod status;
mod token;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query};
use axum::routing::{delete, get, post};
use muster_engine::Engine;
use muster_shared::StackName;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::{Semaphore, watch};

use crate::driver::DriverHandle;
use crate::pki::Pki;
use crate::store::{Reader, StoreError};
use error::ApiError;
pub use server::{ApiHandle, SocketError, serve};

/// Items of a list that the driver is asked for at a time: it has other things to do than to draw up a long one.
const PAGE: usize = 1000;
/// Requests with a body that are parsed at a time; others wait. Each may need several times the body's bound in memory.
/// What has come of all bodies is as much together: a slow one holds what has come of it, and no place.
const BODIES_MAX: usize = 4;

/// How the API is reached, and its bounds.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// What this controller is called.
    pub name: String,
    /// Where its data are, as a URL.
    pub store: String,
    /// The Unix socket.
    pub socket: PathBuf,
    /// What join tokens say of where the controller is: `host:port`.
    pub addresses: Vec<String>,
    /// Bytes of a request.
    pub body_max: usize,
    /// Bytes of a template.
    pub template_max: usize,
    /// Rules, groups and meters of a flow file.
    pub flow_rules_max: usize,
}

/// What every request needs.
#[derive(Clone)]
struct Api {
    driver: DriverHandle,
    reader: Reader,
    pki: Arc<Pki>,
    config: Arc<ApiConfig>,
    bodies: Arc<Semaphore>,
    /// KiB of bodies that may still come.
    room: Arc<Semaphore>,
    /// Changes when the controller stops.
    stopped: watch::Receiver<()>,
    /// When this controller became the active one.
    since: OffsetDateTime,
}

impl Api {
    fn new(
        config: ApiConfig,
        driver: DriverHandle,
        reader: Reader,
        pki: Arc<Pki>,
        stopped: watch::Receiver<()>,
    ) -> Self {
        let bodies = Arc::new(Semaphore::new(BODIES_MAX));
        let room = Arc::new(Semaphore::new(BODIES_MAX * config.body_max.div_ceil(source::KIB)));
        let since = OffsetDateTime::now_utc();
        Self { driver, reader, pki, config: Arc::new(config), bodies, room, stopped, since }
    }

    /// Looks at a stack.
    async fn look<T: Send + 'static>(
        &self,
        name: &StackName,
        look: impl FnOnce(&Engine, &StackName) -> Option<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let name = name.clone();
        let found =
            self.driver.query(move |engine| look(engine, &name).ok_or_else(|| engine.no_stack(&name)));
        Ok(found.await??)
    }

    /// Reads what the engine does not keep in memory.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let reader = self.reader.clone();
        blocking(move || read(&reader).map_err(ApiError::from)).await
    }
}

fn router(api: Api) -> Router {
    Router::new()
        .route("/v1/stacks", get(stack::list).post(stack::create))
        .route("/v1/stacks/{stack}", get(stack::show).put(stack::update).delete(stack::delete))
        .route("/v1/stacks/{stack}/rollback", post(stack::rollback))
        .route("/v1/stacks/{stack}/cancel", post(stack::cancel))
        .route("/v1/stacks/{stack}/rollout", post(stack::rollout))
        .route("/v1/stacks/{stack}/preview", post(preview::preview))
        .route("/v1/stacks/{stack}/check", post(stack::check))
        .route("/v1/stacks/{stack}/watch", get(poll::watch))
        .route("/v1/stacks/{stack}/template", get(stack::template))
        .route("/v1/stacks/{stack}/outputs", get(stack::outputs))
        .route("/v1/stacks/{stack}/graph", get(stack::graph))
        .route("/v1/stacks/{stack}/revisions", get(stack::revisions))
        .route("/v1/stacks/{stack}/failures", get(stack::failures))
        .route("/v1/stacks/{stack}/events", get(stack::events))
        .route("/v1/stacks/{stack}/resources", get(resource::list))
        .route("/v1/stacks/{stack}/resources/{resource}", get(resource::show))
        .route("/v1/stacks/{stack}/resources/{resource}/clear-hook", post(resource::clear_hook))
        .route("/v1/stacks/{stack}/resources/{resource}/signal", post(resource::signal))
        .route("/v1/stacks/{stack}/resources/{resource}/unhealthy", post(resource::unhealthy))
        .route("/v1/tokens", get(token::list).post(token::create))
        .route("/v1/tokens/{id}", delete(token::revoke))
        .route("/v1/nodes", get(node::list))
        .route("/v1/counts/nodes", get(node::count))
        .route("/v1/nodes/{node}", get(node::show).patch(node::label).delete(node::remove))
        .route("/v1/nodes/{node}/revoke", post(node::revoke))
        .route("/v1/nodes/{node}/maintenance", post(node::maintenance))
        .route("/v1/nodes/{node}/facts", get(node::facts))
        .route("/v1/drift", get(node::drift))
        .route("/v1/flows", post(flow::apply))
        .route("/v1/flows/operations/{id}", get(flow::operation))
        .route("/v1/devices", get(flow::devices))
        .route("/v1/devices/{node}/{bridge}", get(flow::device))
        .route("/v1/devices/{node}/{bridge}/flows", get(flow::list).delete(flow::delete))
        .route("/v1/devices/{node}/{bridge}/flows/{id}", get(flow::show))
        .route("/v1/devices/{node}/{bridge}/stats", get(flow::stats))
        .route("/v1/devices/{node}/{bridge}/reconcile", post(flow::reconcile))
        .route("/v1/devices/{node}/{bridge}/purge", post(flow::purge))
        .route(
            "/v1/intents",
            get(intent::list).post(intent::submit).patch(intent::withdraw_many).delete(intent::purge_many),
        )
        .route("/v1/intents/{key}", get(intent::show).delete(intent::purge))
        .route("/v1/intents/{key}/withdraw", post(intent::withdraw))
        .route("/v1/watch/intents", post(intent::watch))
        .route("/v1/topology", get(intent::topology))
        .route("/v1/status", get(status::status))
        .route("/v1/restore", get(restore::list).post(restore::decide))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/version", get(version))
        .fallback(async || ApiError::not_found("no such path: see GET /v1/version"))
        .method_not_allowed_fallback(async || ApiError::invalid("this path does not take that method"))
        // Bodies are read in `source`, with bounds of their own.
        .layer(DefaultBodyLimit::disable())
        .with_state(api)
}

async fn version() -> axum::Json<Value> {
    axum::Json(json!({"version": env!("CARGO_PKG_VERSION"), "api": ["v1"]}))
}

/// Runs what blocks or computes for long where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    // It panics with the work, or is cancelled when the runtime stops.
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}

fn stack_name(text: String) -> Result<StackName, ApiError> {
    text.try_into().map_err(|error: muster_shared::id::IdError| ApiError::invalid(error.to_string()))
}

/// `?limit=`: none is all.
fn limit(limit: Option<usize>) -> Result<usize, ApiError> {
    match limit {
        Some(0) => Err(ApiError::invalid("limit=0: want 1 or more")),
        limit => Ok(limit.unwrap_or(usize::MAX)),
    }
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(query)| query).map_err(|rejection| ApiError::invalid(rejection.body_text()))
}

#[cfg(test)]
mod tests;
