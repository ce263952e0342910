//! The site at a glance: `muster status`.
//!
//! Absent: how nodes are counted (`controller/engine/src/view/site.rs`), and the answer of a standby (`standby.rs`).

use axum::Json;
use muster_api::site::{ControllerView, Role, StatusView};
use muster_engine::view::site;

use super::Api;
use super::error::ApiError;
use super::standby::{controllers, sites};
use crate::driver::Look;
use crate::store::rfc3339;

/// GET /v1/status
pub async fn status(api: Api) -> Result<Json<StatusView>, ApiError> {
    let look = |look: &Look<'_>| (look.site.site_view(), look.read_only.map(str::to_owned));
    let (site::SiteView { epoch, restored, agents, waiting }, read_only) = api.driver.look(look).await?;
    let role = Role::Active;
    let mut controllers = controllers(&api.config.tenure);
    if controllers.is_empty() {
        controllers.push(ControllerView { name: api.config.name.clone(), role, behind_s: 0 });
    }
    let link_problem = api.config.health.borrow().problem();
    Ok(Json(StatusView {
        site: api.pki.site().to_string(),
        role,
        since: rfc3339(api.since),
        epoch,
        restored,
        store: api.config.store.clone(),
        link: api.config.link.clone(),
        link_problem,
        read_only,
        lease_problem: api.config.tenure.seen().problem,
        ca_left_s: Some(api.pki.ca_left()),
        controllers,
        sites: sites(&api.config.share),
        agents,
        waiting,
    }))
}
