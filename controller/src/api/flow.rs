//! Requests about flow tables: apply, delete, purge, compare, list, counters. Sets how long a guarded change waits
//! where nobody says it. Files are parsed and entries printed outside the driver.
//!
//! Absent: how an operation goes through devices and fails (`controller/flow/src/operation.rs`), and whose rule it is
//! (`controller/flow/src/owner.rs`).

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use muster_api::flow::{
    DeleteFlows, DeviceView, ExplainedFlow, FlowError, FlowOperationView, FlowSearch, FlowView, FlowsBegun,
    StatsView, TableView,
};
use muster_api::query::{ApplyFlows, DevicePage, FlowList, Guard, Purge, Reconcile, Wait};
use muster_api::user::Scope;
use muster_engine::{Answer, Request, View};
use muster_flow::FlowStanding;
use muster_shared::model::flow::{CONFIRM_TIMEOUT, DeviceName, FlowId, TableCounters};
use muster_template::ForeignPolicy;
use tokio::time::timeout;

use super::error::ApiError;
use super::flow_view::{Shown, explained, foreign_view, rule_view};
use super::{Api, WAIT_MAX, blocking, query, source};

/// The longest guard: a node cut off for more than an hour is not protected any more.
const GUARD_MAX: u32 = 3600;
/// The most ids in one request.
const IDS_MAX: usize = 1_000_000;

/// POST /v1/flows: the body is a flow file.
pub async fn apply(
    api: Api,
    asked: Result<Query<ApplyFlows>, QueryRejection>,
    body: Body,
) -> Result<Json<FlowsBegun>, ApiError> {
    let ApplyFlows { guard, confirm_timeout, name, application } = query(asked)?;
    let application = application.map(String::into_boxed_str);
    let asked = guarded(guard, confirm_timeout)?;
    let mut held = source::read(&api, body).await?;
    let room = held.take_room();
    let (stages, confirm) = source::flows(held, name.unwrap_or_else(|| "flow file".into())).await?;
    // The command line takes precedence over the file.
    let confirm_timeout = if confirm_timeout.is_none() { asked.and(confirm).or(asked) } else { asked };
    tracing::info!(stages = stages.len(), "flow apply");
    begun(api.driver.request_in(Request::ApplyFlows { stages, confirm_timeout, application }, room).await?)
}

/// GET /v1/flows/operations/{id}
pub async fn operation(
    api: Api,
    Path(id): Path<u64>,
    asked: Result<Query<Wait>, QueryRejection>,
) -> Result<Json<FlowOperationView>, ApiError> {
    let wait = query(asked)?.wait.map(Duration::from_secs).unwrap_or_default().min(WAIT_MAX);
    if !wait.is_zero() {
        let mut stopped = api.stopped.clone();
        tokio::select! {
            ended = timeout(wait, api.driver.watch_flow(id)) => if let Ok(ended) = ended { ended? },
            _ended = stopped.changed() => return Err(ApiError::unavailable("the controller is stopping")),
        }
    }
    let scope = api.scope.clone();
    let look = move |site: View<'_>| {
        let mut view = site.flows().operation(id)?;
        let node = |error: &FlowError| error.device.split('/').next().unwrap_or_default().to_owned();
        view.errors.retain(|error| is_seen(site, &scope, &node(error)));
        Some(view)
    };
    let view = api.driver.query(look).await?;
    view.map(Json).ok_or_else(|| {
        ApiError::not_found(format!("no operation {id} on flow tables: the newest 1000 that ended are kept"))
    })
}

/// GET /v1/devices
pub async fn devices(
    api: Api,
    asked: Result<Query<DevicePage>, QueryRejection>,
) -> Result<Json<Vec<DeviceView>>, ApiError> {
    let DevicePage { limit, marker } = query(asked)?;
    let limit = super::limit(limit)?;
    let scope = api.scope.clone();
    let look = move |site: View<'_>| {
        let mut all = site.flows().devices();
        let is_on = |device: &DeviceView| marker.as_ref().is_none_or(|marker| device.device > *marker);
        all.retain(|device| is_on(device) && is_seen(site, &scope, &device.node));
        all.truncate(limit);
        all
    };
    Ok(Json(api.driver.query(look).await?))
}

fn is_seen(site: View<'_>, scope: &Scope, node: &str) -> bool {
    scope.is_whole() || node.parse().is_ok_and(|node| site.sees_node(scope, &node).is_ok())
}

/// GET /v1/devices/{node}/{bridge}
pub async fn device(api: Api, Path(path): Path<(String, String)>) -> Result<Json<DeviceView>, ApiError> {
    one(&api, device_name(&path)?).await
}

/// GET /v1/devices/{node}/{bridge}/flows
pub async fn list(
    api: Api,
    Path(path): Path<(String, String)>,
    asked: Result<Query<FlowList>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (device, asked) = (device_name(&path)?, query(asked)?);
    let FlowList { table, state, foreign, counters, search, limit, offset } = asked;
    let standing = state.as_deref().map(standing).transpose()?;
    let (limit, search) = (super::limit(limit)?, FlowSearch::new(&search));
    if counters.unwrap_or(true) {
        api.driver.request(Request::FlowStats { device: device.clone() }).await?;
    }
    let shows = {
        let device = device.clone();
        foreign.unwrap_or(api.driver.query(move |site| site.flows().shows_foreign(&device)).await?)
    };
    if shows {
        api.driver.request(Request::ForeignFlows { device: device.clone() }).await?;
    }
    let rows = {
        let device = device.clone();
        api.driver.query(move |site| site.flows().rows(&device, standing)).await??
    };
    let text = blocking(move || {
        let rows = rows.sorted();
        let views = rows.rows.iter().filter_map(|row| rule_view(&device, row, &rows.owners, table));
        let foreign = rows.foreign.iter().filter(|_| shows && standing.is_none());
        let all = views.chain(foreign.filter_map(|rule| foreign_view(&device, rule, table)));
        written(all.filter(|view| search.finds(view)).skip(offset).take(limit))
    });
    Ok(([(CONTENT_TYPE, "application/json")], Bytes::from(text.await?)).into_response())
}

/// A list as text, item by item: a million of them as values would take gigabytes.
fn written(items: impl Iterator<Item = FlowView>) -> Result<Vec<u8>, ApiError> {
    let mut text = vec![b'['];
    for item in items {
        if text.len() > 1 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &item).map_err(|error| ApiError::internal(error.to_string()))?;
    }
    text.push(b']');
    Ok(text)
}

/// GET /v1/devices/{node}/{bridge}/flows/{id}
pub async fn show(
    api: Api,
    Path((node, bridge, id)): Path<(String, String, String)>,
) -> Result<Json<ExplainedFlow>, ApiError> {
    let (device, id) = (device_name(&(node, bridge))?, flow_id(&id)?);
    // Looks in the engine first: a rule that does not exist needs no query to a device.
    let look = |device: DeviceName| {
        api.driver.query(move |site| {
            site.flows()
                .row(&device, id)
                .map(|rows| (rows, site.flows().stats(&device).ok().and_then(|it| it.age)))
        })
    };
    look(device.clone()).await??;
    api.driver.request(Request::FlowStats { device: device.clone() }).await?;
    let (rows, age) = look(device.clone()).await??;
    let Some(row) = rows.rows.first() else {
        return Err(ApiError::internal("the engine did not show the rule"));
    };
    let (number, serial, is_added) = (rows.number, row.serial, row.standing == FlowStanding::Added);
    let since = api.read(move |reader| reader.flow_since(number, id, is_added.then_some(serial))).await?;
    Ok(Json(explained(&Shown { device: &device, row, owners: &rows.owners, view: &rows.device, since, age })))
}

/// DELETE /v1/devices/{node}/{bridge}/flows
pub async fn delete(
    api: Api,
    Path(path): Path<(String, String)>,
    asked: Result<Query<Guard>, QueryRejection>,
    body: Body,
) -> Result<Json<FlowsBegun>, ApiError> {
    let (device, Guard { guard, confirm_timeout }) = (device_name(&path)?, query(asked)?);
    let confirm_timeout = guarded(guard, confirm_timeout)?;
    let DeleteFlows { ids } = source::json(&api, body).await?;
    if ids.is_empty() || ids.len() > IDS_MAX {
        return Err(ApiError::invalid(format!("{} ids: want 1 to {IDS_MAX}", ids.len())));
    }
    let ids = ids.iter().map(|id| flow_id(id)).collect::<Result<Vec<_>, _>>()?;
    tracing::info!(%device, rules = ids.len(), "flow delete");
    begun(api.driver.request(Request::DeleteFlows { device, ids, confirm_timeout }).await?)
}

/// GET /v1/devices/{node}/{bridge}/stats
pub async fn stats(api: Api, Path(path): Path<(String, String)>) -> Result<Json<StatsView>, ApiError> {
    let device = device_name(&path)?;
    api.driver.request(Request::FlowStats { device: device.clone() }).await?;
    let name = device.to_string();
    let stats = api.driver.query(move |site| site.flows().stats(&device)).await??;
    let table = |TableCounters { table, active, lookups, matches }: TableCounters| TableView {
        table,
        active,
        lookups,
        matches,
    };
    Ok(Json(StatsView {
        device: name,
        tables: stats.tables.into_iter().map(table).collect(),
        owners: stats.owners,
        age: stats.age.map(|age| age.as_secs_f64()),
    }))
}

/// POST /v1/devices/{node}/{bridge}/reconcile: the device as it is then.
pub async fn reconcile(
    api: Api,
    Path(path): Path<(String, String)>,
    asked: Result<Query<Reconcile>, QueryRejection>,
) -> Result<Json<DeviceView>, ApiError> {
    let device = device_name(&path)?;
    let policy = |name: String| {
        ForeignPolicy::from_name(&name)
            .ok_or_else(|| ApiError::invalid(format!("foreign={name}: want leave, show or import")))
    };
    let foreign = query(asked)?.foreign.map(policy).transpose()?;
    tracing::info!(%device, "flow reconcile");
    api.driver.request(Request::ReconcileFlows { device: device.clone(), foreign }).await?;
    if foreign.is_some_and(|policy| policy != ForeignPolicy::Leave) {
        // The agent must list them first: only then is it known whether they can become ours.
        api.driver.request(Request::ForeignFlows { device: device.clone() }).await?;
    }
    one(&api, device).await
}

/// POST /v1/devices/{node}/{bridge}/purge
pub async fn purge(
    api: Api,
    Path(path): Path<(String, String)>,
    asked: Result<Query<Purge>, QueryRejection>,
) -> Result<Json<FlowsBegun>, ApiError> {
    let (device, Purge { forget, guard, confirm_timeout }) = (device_name(&path)?, query(asked)?);
    let confirm_timeout = guarded(guard, confirm_timeout)?;
    let forget = forget.unwrap_or(false);
    tracing::info!(%device, forget, "flow purge");
    begun(api.driver.request(Request::PurgeFlows { device, forget, confirm_timeout }).await?)
}

/// The seconds of the guard; `None` for no guard.
fn guarded(guard: Option<bool>, seconds: Option<u32>) -> Result<Option<u32>, ApiError> {
    match (guard, seconds) {
        (Some(false), _) => Ok(None),
        (_, Some(seconds)) if !(1..=GUARD_MAX).contains(&seconds) => {
            Err(ApiError::invalid(format!("confirm_timeout={seconds}: want 1 to {GUARD_MAX}")))
        }
        (_, seconds) => Ok(Some(seconds.unwrap_or(CONFIRM_TIMEOUT))),
    }
}

fn begun(answer: Answer) -> Result<Json<FlowsBegun>, ApiError> {
    match answer {
        Answer::Flows { operation, rules, devices, warnings } => {
            Ok(Json(FlowsBegun { operation, rules, devices, warnings }))
        }
        Answer::Stack { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Signalled { .. }
        | Answer::Facts { .. }
        | Answer::Intents { .. }
        | Answer::Traced(_)
        | Answer::Surveyed(_)
        | Answer::Proved(_)
        | Answer::NodeRemoved { .. } => Err(ApiError::internal("the engine did not say what has begun")),
    }
}

async fn one(api: &Api, device: DeviceName) -> Result<Json<DeviceView>, ApiError> {
    Ok(Json(api.driver.query(move |site| site.flows().device(&device)).await??))
}

fn device_name((node, bridge): &(String, String)) -> Result<DeviceName, ApiError> {
    let name = format!("{node}/{bridge}");
    name.parse().map_err(|error: muster_shared::model::flow::NotADevice| ApiError::invalid(error.to_string()))
}

fn flow_id(text: &str) -> Result<FlowId, ApiError> {
    FlowId::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
        ApiError::invalid(format!(
            "'{shown}' is no rule's id: want 16 hexadecimal digits that begin with 4d55"
        ))
    })
}

fn standing(name: &str) -> Result<FlowStanding, ApiError> {
    let known = FlowStanding::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(name));
    known.ok_or_else(|| {
        let all = FlowStanding::ALL.map(FlowStanding::as_str).join(", ");
        let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
        ApiError::invalid(format!("state={shown}: want one of {all}"))
    })
}
