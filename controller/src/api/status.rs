//! The site at a glance: `muster status`.
//!
//! A controller whose lease is over says that it stands by, and no more: whatever it knows of nodes may be another
//! controller's by now, and its driver may wait for a database that it does not reach.
//!
//! Absent: how nodes are counted (`controller/engine/src/view/site.rs`), and the answer of a controller that was not
//! active (`standby.rs`).

use axum::Json;
use muster_api::site::{ControllerView, Role, StatusView};
use muster_engine::view::site;
use time::OffsetDateTime;

use super::Api;
use super::error::ApiError;
use super::standby::{controllers, sites};
use crate::driver::Look;
use crate::store::rfc3339;

/// GET /v1/status
pub async fn status(api: Api) -> Result<Json<StatusView>, ApiError> {
    let tenure = &api.config.tenure;
    let look = |look: &Look<'_>| (look.site.site_view(), look.read_only.map(str::to_owned));
    let looked = if tenure.holds() { Some(api.driver.look(look).await) } else { None };
    // Not before: the lease may have run out while the driver did not answer.
    let Some(looked) = looked.filter(|_| tenure.holds()) else { return Ok(Json(without_lease(&api))) };
    let (site::SiteView { epoch, restored, agents, waiting }, read_only) = looked?;
    let role = Role::Active;
    let mut controllers = controllers(tenure);
    if controllers.is_empty() {
        let (name, since) = (api.config.name.clone(), Some(rfc3339(api.since)));
        controllers.push(ControllerView { name, role, since, behind_s: 0 });
    }
    Ok(Json(StatusView {
        role,
        since: rfc3339(api.since),
        epoch,
        restored,
        read_only,
        ca_left_s: Some(api.pki.ca_left()),
        controllers,
        agents,
        waiting,
        ..of_process(&api)
    }))
}

fn without_lease(api: &Api) -> StatusView {
    let tenure = &api.config.tenure;
    // The one that was active last is this one; whether another one has followed is not known here.
    let standbys = controllers(tenure).into_iter().filter(|other| other.role == Role::Standby);
    StatusView {
        role: Role::Standby,
        since: rfc3339(OffsetDateTime::now_utc() - tenure.over_for()),
        epoch: tenure.seen().epoch,
        controllers: standbys.collect(),
        ..of_process(api)
    }
}

/// The part that does not depend on the role.
fn of_process(api: &Api) -> StatusView {
    StatusView {
        site: api.pki.site().to_string(),
        store: api.config.store.clone(),
        link: api.config.link.clone(),
        link_problem: api.config.health.borrow().problem(),
        lease_problem: api.config.tenure.seen().problem,
        sites: sites(&api.config.share),
        ..StatusView::default()
    }
}
