//! `GET /metrics`: for Prometheus, in its text format 0.0.4. While the driver does not answer, the figures of the site are
//! left out, and those of the controller itself are there on the socket, since that is when somebody looks. Over TLS there
//! is no answer then: the driver says which tokens count (`authorization.rs`).
//!
//! Absent: the names (`metrics/page.rs`), what is counted where (`durations.rs`, `link/refused.rs`,
//! `controller/engine/src/job/end_counts.rs`), and `muster status` (`status.rs`).

mod page;
mod process;

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use muster_engine::Request;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::Registry;
use tokio::time::timeout;

use super::error::ApiError;
use super::{Api, blocking};
use crate::driver::Look;
use page::{Controller, Page, Site};
use process::Process;

/// The most owners named for each device, the largest first; the others are one. Each value of a label costs
/// memory in the reader.
const OWNERS_MAX: usize = 20;
/// The longest wait for the driver: Prometheus gives up after 10 s, unless it is told otherwise.
const DRIVER_MAX: Duration = Duration::from_secs(5);

/// GET /metrics
pub async fn metrics(api: Api) -> Result<Response, ApiError> {
    // Before the driver takes what waits, to answer this.
    let waiting = api.driver.waiting();
    let arrivals = api.config.arrivals.lengths();
    let site = timeout(DRIVER_MAX, site(&api)).await.ok().flatten();
    let controller = Controller {
        turns: api.driver.turns().clone(),
        commits: api.config.commits.clone(),
        queues: [("requests", waiting), ("nodes", arrivals.nodes), ("joins", arrivals.questions)],
        refused: api.config.refused.counts(),
        is_reachable: api.config.health.borrow().problem().is_none(),
        ca_ends: api.pki.ca_ends(),
        standbys: api.config.tenure.seen().standbys,
        spans: api.config.telemetry.counts(),
    };
    let (agents, is_active) = (api.config.agents.clone(), api.config.tenure.holds());
    answer(move || {
        let connections = agents.map(|link| link.connections());
        Page { is_active, process: Process::read(), controller: Some(controller), connections, site }
    })
    .await
}

/// The same of a controller that stands by.
pub async fn of_standby() -> Result<Response, ApiError> {
    answer(|| Page {
        is_active: false,
        process: Process::read(),
        controller: None,
        connections: None,
        site: None,
    })
    .await
}

async fn answer(page: impl FnOnce() -> Page + Send + 'static) -> Result<Response, ApiError> {
    let encode = move || {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(page()));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry)
            .map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(text)
    };
    Ok(([(CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], blocking(encode).await?).into_response())
}

/// The driver's figures of the site, unless it does not answer.
async fn site(api: &Api) -> Option<Site> {
    // The answers of the devices are in the next sample. A site that is read-only refuses this, and has figures.
    drop(api.driver.request(Request::SampleFlows).await);
    let look = |look: &Look<'_>| Site {
        is_writable: look.read_only.is_none(),
        nodes: look.site.node_counts(),
        stacks: look.site.stack_counts(),
        rollouts: look.site.rollout_counts(),
        jobs: look.site.job_ends(),
        drifted: look.site.drifted_count(),
        intents: look.site.intent_counts(),
        broken_intents: look.site.broken_intent_count(),
        devices: look.site.flows().metrics(OWNERS_MAX),
    };
    api.driver.look(look).await.ok()
}
