//! The site at a glance.

use axum::Json;
use axum::extract::State;
use muster_engine::site::{AgentCounts, SiteView, WaitingView};
use muster_shared::Epoch;
use serde::Serialize;

use super::Api;
use super::error::ApiError;
use crate::driver::Look;
use crate::store::rfc3339;

/// What a controller of the site is to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// It decides, alone.
    Active,
}

/// `muster status -o json`
#[derive(Debug, Serialize)]
pub struct StatusView {
    site: String,
    /// Of the controller that answers.
    role: Role,
    /// Since when it has been that, RFC 3339 UTC.
    since: String,
    epoch: Epoch,
    /// The store was older than what agents know, and an operator has not said what becomes of that.
    restored: bool,
    store: String,
    link: &'static str,
    /// Why nothing can be written; none while all is well.
    read_only: Option<String>,
    controllers: Vec<ControllerView>,
    agents: AgentCounts,
    waiting: WaitingView,
}

/// One of the site's controllers.
#[derive(Debug, Serialize)]
struct ControllerView {
    name: String,
    role: Role,
    /// How far its store is behind the active one's, in seconds.
    behind_s: u64,
}

/// GET /v1/status
pub async fn status(State(api): State<Api>) -> Result<Json<StatusView>, ApiError> {
    let look = |look: &Look<'_>| (look.engine.site_view(), look.read_only.map(str::to_owned));
    let (SiteView { epoch, restored, agents, waiting }, read_only) = api.driver.look(look).await?;
    let role = Role::Active;
    Ok(Json(StatusView {
        site: api.pki.site().to_string(),
        role,
        since: rfc3339(api.since),
        epoch,
        restored,
        store: api.config.store.clone(),
        link: "direct",
        read_only,
        controllers: vec![ControllerView { name: api.config.name.clone(), role, behind_s: 0 }],
        agents,
        waiting,
    }))
}
