//! The answers of a standby to operators: its own name, and the name of the active controller. For everything else it
//! sends operators there.
//!
//! Absent: what it answers agents (`link/nodes.rs`), and when it takes over (`lease/machine.rs`).

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Json, Router, routing};
use muster_api::site::{ControllerView, Role, SiteView, StatusView};
use muster_shared::SiteId;
use time::OffsetDateTime;

use super::authorization::Peer;
use super::door::Door;
use super::error::ApiError;
use super::metrics;
use super::server::{ApiHandle, Socket, SocketError};
use super::version;
use crate::lease::{Share, Tenure};
use crate::site_name::SiteName;
use crate::store::rfc3339;

/// The status that a standby shows.
#[derive(Clone, Debug)]
pub struct StandbyConfig {
    /// The name of this controller.
    pub name: String,
    /// The site's name for operators.
    pub site: SiteName,
    /// The share of this controller in the sites.
    pub share: Share,
    /// The site's id, if its keys are here.
    pub id: Option<SiteId>,
    /// The place of the site's data, as a URL.
    pub store: String,
    /// The link to agents: `link.url`.
    pub link: String,
    /// The knowledge about the other controllers.
    pub tenure: Tenure,
}

/// Answers requests to a site that another controller is active for.
///
/// # Errors
/// [`SocketError`]
pub fn serve_standby(socket: &Socket, config: StandbyConfig) -> Result<ApiHandle, SocketError> {
    let since = OffsetDateTime::now_utc();
    let (shown, site) = (config.clone(), config.site.clone());
    let status = move || async move { Json(status(&shown, since)) };
    let elsewhere = move || async move { refusal(&config) };
    let router = Router::new()
        .route("/v1/status", routing::get(status))
        .route("/v1/version", routing::get(version))
        .route("/metrics", routing::get(metrics::of_standby))
        .fallback(elsewhere)
        .layer(from_fn(to_this_machine));
    socket.serve(site, |_| router)
}

/// A standby knows no users.
async fn to_this_machine(request: Request, next: Next) -> Response {
    match request.extensions().get::<Peer>() {
        Some(Peer::Owner(_) | Peer::Member(_)) => next.run(request).await,
        Some(Peer::Remote(..) | Peer::Allowed(..)) | None => {
            Door::of(&request).refuse(ApiError::unavailable("this controller stands by: ask the active one"))
        }
    }
}

fn status(config: &StandbyConfig, since: OffsetDateTime) -> StatusView {
    StatusView {
        site: config.id.as_ref().map(ToString::to_string).unwrap_or_default(),
        role: Role::Standby,
        since: rfc3339(since),
        epoch: config.tenure.seen().epoch,
        store: config.store.clone(),
        link: config.link.clone(),
        lease_problem: config.tenure.seen().problem,
        controllers: controllers(&config.tenure),
        sites: sites(&config.share),
        ..StatusView::default()
    }
}

/// The sites of this controller.
pub(super) fn sites(share: &Share) -> Vec<SiteView> {
    let shown = |(name, active): (SiteName, _)| SiteView { name: name.to_string(), active };
    share.holders().into_iter().map(shown).collect()
}

/// The site's controllers, the active one first.
pub(super) fn controllers(tenure: &Tenure) -> Vec<ControllerView> {
    let seen = tenure.seen();
    let active = seen.active.map(|(active, since)| ControllerView {
        name: active.name,
        role: Role::Active,
        since: Some(since),
        behind_s: 0,
    });
    let standbys = seen.standbys.into_iter().map(|standby| ControllerView {
        name: standby.member.name,
        role: Role::Standby,
        since: None,
        behind_s: standby.behind.as_secs(),
    });
    active.into_iter().chain(standbys).collect()
}

/// The refusal of requests. A client need not wait here where another controller is active.
fn refusal(config: &StandbyConfig) -> ApiError {
    let StandbyConfig { name, tenure, .. } = config;
    let seen = tenure.seen();
    if let Some(problem) = seen.problem {
        return ApiError::unavailable(format!("{name} stands by: {problem}"));
    }
    match seen.active {
        None => ApiError::later(format!("{name} stands by, and no controller is active yet")),
        Some((active, _)) if tenure.is_vacant() => ApiError::later(format!(
            "{name} stands by: {} does not renew its lease, and a standby takes over",
            active.name
        )),
        Some((active, since)) => ApiError::unavailable(format!(
            "{name} stands by: {} is active since {since}, ask there",
            active.name
        )),
    }
}
