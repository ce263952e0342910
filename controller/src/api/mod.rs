//! The HTTP API for operators, on a Unix socket that belongs to root and the group `muster`, and over TLS for users with
//! tokens. `muster_api` defines the routes and the form of requests and answers; each route is served here.
//!
//! Lists with `limit` and `marker` come in pages as in Heat's API: `marker` is the last item of the page
//! before, by its name, and of events by its number.
//!
//! Templates are parsed here, outside the driver. Absent on purpose: decisions, and the operator's disk: the
//! files that a template names come with the request.

mod accept;
mod audit;
mod authorization;
mod client_certificate;
mod console;
mod defaults;
mod door;
pub mod error;
mod existing;
mod flow;
mod flow_view;
mod heat;
mod history;
mod intent;
mod intent_view;
mod login;
mod metrics;
mod node;
mod own_certificate;
mod plain;
mod preview;
mod rate_limit;
mod resource;
mod restore;
mod server;
mod source;
mod stack;
mod stack_watch;
mod standby;
mod status;
mod tls;
mod token;
mod trace;
mod traced;
mod user;
mod wrong_tokens;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Json, Router};
use muster_api::openapi;
use muster_api::route::{Method, Operation, ROUTES, Route};
use muster_api::site::Version;
use muster_api::user::{Role, Scope};
use muster_engine::View;
use muster_shared::StackName;
use muster_shared::join::BrokerAccess;
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::driver::DriverHandle;
use crate::durations::Durations;
use crate::history::History;
use crate::lease::{Share, Tenure};
use crate::link::intake::Arrivals;
use crate::link::{Health, LinkHandle, RefusedPackets};
use crate::oidc::Oidc;
use crate::pki::Pki;
use crate::site_name::SiteName;
use crate::store::{Reader, StoreError};
use crate::telemetry::Telemetry;
use authorization::Asked;
pub use client_certificate::client_verifier;
pub use door::Door;
use error::ApiError;
use login::Logins;
pub use own_certificate::{CertificateError, OwnCertificate};
use rate_limit::RateLimit;
pub use server::{ApiHandle, Socket, SocketError, serve};
pub use standby::{StandbyConfig, serve_standby};
pub use tls::acceptor;
use wrong_tokens::WrongTokens;

/// The most items of a list that one query asks of the driver: a long list would delay its other work.
const PAGE: usize = 1000;
/// The longest wait for an answer, even if nothing has changed: so a client notices a controller that
/// hangs.
const WAIT_MAX: Duration = Duration::from_secs(25);
/// Requests with a body that are parsed at a time; others wait. Each may need several times the
/// body's bound in memory. The received bytes of all bodies together are bounded alike: a slow body
/// holds only the bytes it has sent, and no place here. What was parsed keeps its bytes' room until the driver takes it.
const BODIES_MAX: usize = 4;
/// Reads of the database at a time: they share one connection, and each waits for it on a thread.
const READS_MAX: usize = 32;
/// The longest wait for a read of the database, or for room: it is longer only where the database stalls.
const STALL_MAX: Duration = Duration::from_secs(30);

/// The bounds of a site's API, and what it shows besides the engine's state.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The site's name for operators.
    pub site: SiteName,
    /// The share of this controller in the sites.
    pub share: Share,
    /// The name of this controller.
    pub name: String,
    /// The knowledge about the site's other controllers.
    pub tenure: Tenure,
    /// The place of its data, as a URL.
    pub store: String,
    /// The addresses in join tokens: `host:port`.
    pub addresses: Vec<String>,
    /// The way through brokers, in join tokens.
    pub broker: Option<BrokerAccess>,
    /// The link to agents: `link.url`.
    pub link: String,
    /// Whether they can be reached.
    pub health: watch::Receiver<Health>,
    /// Bytes of a request.
    pub body_max: usize,
    /// Bytes of a template.
    pub template_max: usize,
    /// Rules, groups and meters of a flow file.
    pub flow_rules_max: usize,
    /// The digest of the CA of the certificate that the API shows over the network, in users' tokens; none: it is not
    /// there.
    pub api_ca: Option<[u8; 32]>,
    /// The role of users of this machine on the socket, but for root.
    pub socket_role: Role,
    /// The role of clients of Heat's API that show no token; none: they are refused.
    pub heat_without_token: Option<Role>,
    /// Whether certificates of users are taken.
    pub api_client_ca: bool,
    /// By which people log in.
    pub oidc: Option<Arc<Oidc>>,
    /// For how long that is good.
    pub session: Duration,
    /// Packets of agents that the link did not take.
    pub refused: RefusedPackets,
    /// The durations of commits.
    pub commits: Durations,
    /// The input that waits for the driver.
    pub arrivals: Arrivals,
    /// The connections of agents.
    pub agents: Option<LinkHandle>,
    /// The samples of the site's past.
    pub history: History,
    /// Traces of requests, as an option.
    pub telemetry: Telemetry,
}

/// Shared by all requests.
#[derive(Clone)]
struct Api {
    driver: DriverHandle,
    reader: Reader,
    pki: Arc<Pki>,
    config: Arc<ApiConfig>,
    bodies: Arc<Semaphore>,
    /// Memory for bodies that may still arrive.
    room: muster_front::Room,
    reads: Arc<Semaphore>,
    /// The longest wait for a read, or for room.
    patience: Duration,
    /// Changes when the controller stops.
    stopped: watch::Receiver<()>,
    /// When this controller became the active one.
    since: OffsetDateTime,
    /// The pace of each user's requests.
    rate_limit: Arc<RateLimit>,
    /// The tokens that did not count.
    wrong_tokens: Arc<WrongTokens>,
    logins: Arc<Logins>,
    /// The caller's role.
    role: Role,
    /// The caller's part of the site.
    scope: Scope,
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
        let room = muster_front::Room::new(BODIES_MAX * config.body_max);
        let (reads, patience) = (Arc::new(Semaphore::new(READS_MAX)), STALL_MAX);
        let since = OffsetDateTime::now_utc();
        let logins = Arc::new(Logins::new(config.oidc.clone(), config.session));
        Self {
            driver,
            reader,
            pki,
            config: Arc::new(config),
            bodies,
            room,
            reads,
            patience,
            stopped,
            since,
            rate_limit: Arc::default(),
            wrong_tokens: Arc::default(),
            logins,
            role: Role::Viewer,
            scope: Scope::default(),
        }
    }

    /// Looks at a stack.
    async fn look<T: Send + 'static>(
        &self,
        name: &StackName,
        look: impl FnOnce(View<'_>, &StackName) -> Option<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (name, scope) = (name.clone(), self.scope.clone());
        let found = self.driver.query(move |site| {
            // Another stack may have the name since the request was let in.
            site.reaches_stack(&scope, &name)?;
            look(site, &name).ok_or_else(|| site.no_stack(&name))
        });
        Ok(found.await??)
    }

    /// Reads what the engine does not keep in memory.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (reader, reads) = (self.reader.clone(), Arc::clone(&self.reads));
        let work = async move {
            let place = reads.acquire_owned().await.expect("the semaphore is never closed");
            let read = move || {
                let _place = place;
                read(&reader).map_err(ApiError::from)
            };
            blocking(read).await
        };
        timeout(self.patience, work).await.unwrap_or_else(|_elapsed| {
            Err(ApiError::later(format!(
                "the controller waits for its database, and could not read it for {} s",
                self.patience.as_secs()
            )))
        })
    }
}

fn router(api: Api) -> Router {
    let telemetry = api.config.telemetry.clone();
    let with = |router: Router<Api>, (operation, route): &(Operation, Route)| {
        let asked = Extension(Asked(*operation, *route));
        let serving = serving(*operation, filter(route.method));
        let serving = match traced::method(route) {
            Some(method) if telemetry.is_on() => traced::with(serving, telemetry.clone(), method, route.path),
            Some(_) | None => serving,
        };
        router.route(route.path, serving.layer(asked))
    };
    ROUTES
        .iter()
        .fold(Router::new(), with)
        .fallback(async || ApiError::not_found("no such path: see GET /v1/version"))
        .method_not_allowed_fallback(async || ApiError::invalid("this path does not take that method"))
        // Bodies are read in `source`, which has its own bounds.
        .layer(DefaultBodyLimit::disable())
        .with_state(api)
}

fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

/// The handler of each operation.
fn serving(operation: Operation, method: MethodFilter) -> MethodRouter<Api> {
    match operation {
        Operation::CreateUser => on(method, user::create),
        Operation::ListUsers => on(method, user::list),
        Operation::RevokeUser => on(method, user::revoke),
        Operation::ShowLogin => on(method, login::show),
        Operation::LogIn => on(method, login::log_in),
        Operation::BeginInBrowser => on(method, login::in_browser),
        Operation::BeginOnDevice => on(method, login::on_device),
        Operation::ShowCaller => on(method, user::caller),
        Operation::ListAudit => on(method, audit::list),
        Operation::ListStacks => on(method, stack::list),
        Operation::CreateStack => on(method, stack::create),
        Operation::ShowStack => on(method, stack::show),
        Operation::UpdateStack => on(method, stack::update),
        Operation::DeleteStack => on(method, stack::delete),
        Operation::RollBack => on(method, stack::rollback),
        Operation::CancelStack => on(method, stack::cancel),
        Operation::SteerRollout => on(method, stack::rollout),
        Operation::PreviewStack => on(method, preview::preview),
        Operation::CheckStack => on(method, stack::check),
        Operation::WatchStack => on(method, stack_watch::watch),
        Operation::ShowTemplate => on(method, stack::template),
        Operation::ShowOutputs => on(method, stack::outputs),
        Operation::ShowGraph => on(method, stack::graph),
        Operation::ListRevisions => on(method, stack::revisions),
        Operation::ListFailures => on(method, stack::failures),
        Operation::ListEvents => on(method, stack::events),
        Operation::ListResources => on(method, resource::list),
        Operation::ShowResource => on(method, resource::show),
        Operation::ClearHook => on(method, resource::clear_hook),
        Operation::SendSignal => on(method, resource::signal),
        Operation::MarkUnhealthy => on(method, resource::unhealthy),
        Operation::ListTokens => on(method, token::list),
        Operation::CreateToken => on(method, token::create),
        Operation::RevokeToken => on(method, token::revoke),
        Operation::ListNodes => on(method, node::list),
        Operation::CountNodes => on(method, node::count),
        Operation::CountFleet => on(method, node::count_fleet),
        Operation::ShowHistory => on(method, history::show),
        Operation::ShowNode => on(method, node::show),
        Operation::ChangeLabels => on(method, node::label),
        Operation::RemoveNode => on(method, node::remove),
        Operation::RevokeNode => on(method, node::revoke),
        Operation::MoveNode => on(method, node::change_site),
        Operation::SetMaintenance => on(method, node::maintenance),
        Operation::ShowFacts => on(method, node::facts),
        Operation::SurveyNode => on(method, node::survey),
        Operation::ListNodeResources => on(method, node::resources),
        Operation::ListNodeEvents => on(method, node::events),
        Operation::ListDrift => on(method, node::drift),
        Operation::ApplyFlows => on(method, flow::apply),
        Operation::ShowFlowOperation => on(method, flow::operation),
        Operation::ListDevices => on(method, flow::devices),
        Operation::ShowDevice => on(method, flow::device),
        Operation::ListFlows => on(method, flow::list),
        Operation::DeleteFlows => on(method, flow::delete),
        Operation::ShowFlow => on(method, flow::show),
        Operation::ShowStats => on(method, flow::stats),
        Operation::ReconcileDevice => on(method, flow::reconcile),
        Operation::PurgeDevice => on(method, flow::purge),
        Operation::ListIntents => on(method, intent::list),
        Operation::SubmitIntents => on(method, intent::submit),
        Operation::WithdrawIntents => on(method, intent::withdraw_many),
        Operation::PurgeIntents => on(method, intent::purge_many),
        Operation::ShowIntent => on(method, intent::show),
        Operation::PurgeIntent => on(method, intent::purge),
        Operation::WithdrawIntent => on(method, intent::withdraw),
        Operation::VerifyIntent => on(method, trace::verify),
        Operation::Trace => on(method, trace::trace),
        Operation::WatchIntents => on(method, intent::watch),
        Operation::ShowTopology => on(method, intent::topology),
        Operation::ShowStatus => on(method, status::status),
        Operation::ListHeld => on(method, restore::list),
        Operation::Decide => on(method, restore::decide),
        Operation::ShowMetrics => on(method, metrics::metrics),
        Operation::ShowVersion => on(method, version),
        Operation::Describe => on(method, describe),
    }
}

async fn describe() -> Json<&'static Value> {
    // Made once: anybody may ask for it.
    static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);
    Json(&DOCUMENT)
}

async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), api: vec!["v1".to_owned()] })
}

/// Runs blocking or long work on a thread where it delays nothing else.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    // The task fails if the work panics, or when the runtime stops.
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))?
}

fn stack_name(text: String) -> Result<StackName, ApiError> {
    text.try_into().map_err(|error: muster_shared::id::IdError| ApiError::invalid(error.to_string()))
}

/// `?limit=`: all items if absent.
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
