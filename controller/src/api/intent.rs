//! Requests about intents and their network: submit, withdraw, purge, list, wait. Files are parsed outside the driver.
//!
//! Absent: what is refused (`controller/engine/src/intent/request.rs`), and the path
//! (`controller/intent/src/compile/constrained_path.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use muster_api::intent::{
    BridgeView, IntentKeys, IntentRow, IntentView, IntentsTaken, IntentsWatched, Point, TopologyView,
    WithdrawIntents,
};
use muster_api::query::{IntentList, SubmitIntents, Topology, WatchIntents};
use muster_engine::{Answer, IntentSummary, Request, View, beyond};
use muster_intent::phase::State as IntentState;
use muster_shared::model::flow::{DeviceName, NotADevice};
use tokio::time::timeout;

use super::error::ApiError;
use super::intent_view::{RULES_JOINED, Shown, shown, summary, topology_view};
use super::node::node_name;
use super::{Api, WAIT_MAX, blocking, query, source};

/// The most keys in one request: as many as one file may have.
const KEYS_MAX: usize = 100_000;
/// The most intents of a watch that are named, beside the counts.
const NAMED_MAX: usize = 100;
/// The most bridges that a request may want first; more are no picture that one can read.
const FIRST_MAX: usize = 1000;
/// Intents that a picture of the network may have.
const DRAWN_MAX: usize = 100;

/// POST /v1/intents: the body is an intent file.
pub async fn submit(
    api: Api,
    asked: Result<Query<SubmitIntents>, QueryRejection>,
    body: Body,
) -> Result<Json<IntentsTaken>, ApiError> {
    let name = query(asked)?.name.unwrap_or_else(|| "intent file".into());
    let mut held = source::read(&api, body).await?;
    let room = held.take_room();
    let intents = source::intents(held, name).await?;
    tracing::info!(intents = intents.len(), "intent submit");
    taken(api.driver.request_in(Request::SubmitIntents { intents }, room).await?)
}

/// PATCH /v1/intents, {"withdraw": [keys]}
pub async fn withdraw_many(api: Api, body: Body) -> Result<Json<IntentsTaken>, ApiError> {
    let WithdrawIntents { withdraw } = source::json(&api, body).await?;
    withdraw_keys(&api, withdraw).await
}

/// POST /v1/intents/{key}/withdraw
pub async fn withdraw(api: Api, Path(key): Path<String>) -> Result<Json<IntentsTaken>, ApiError> {
    withdraw_keys(&api, vec![key.into()]).await
}

async fn withdraw_keys(api: &Api, keys: Vec<Box<str>>) -> Result<Json<IntentsTaken>, ApiError> {
    let keys = distinct(keys)?;
    tracing::info!(intents = keys.len(), "intent withdraw");
    taken(api.driver.request(Request::WithdrawIntents { keys }).await?)
}

/// DELETE /v1/intents, {"keys": [keys]}
pub async fn purge_many(api: Api, body: Body) -> Result<Json<IntentsTaken>, ApiError> {
    let IntentKeys { keys } = source::json(&api, body).await?;
    purge_keys(&api, keys).await
}

/// DELETE /v1/intents/{key}
pub async fn purge(api: Api, Path(key): Path<String>) -> Result<Json<IntentsTaken>, ApiError> {
    purge_keys(&api, vec![key.into()]).await
}

async fn purge_keys(api: &Api, keys: Vec<Box<str>>) -> Result<Json<IntentsTaken>, ApiError> {
    let keys = distinct(keys)?;
    tracing::info!(intents = keys.len(), "intent purge");
    taken(api.driver.request(Request::PurgeIntents { keys }).await?)
}

/// Each once, in the order given.
fn distinct(keys: Vec<Box<str>>) -> Result<Vec<Box<str>>, ApiError> {
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(ApiError::invalid(format!("{} keys: want 1 to {KEYS_MAX}", keys.len())));
    }
    let mut seen = BTreeSet::new();
    Ok(keys.into_iter().filter(|key| seen.insert(key.clone())).collect())
}

/// GET /v1/intents
pub async fn list(
    api: Api,
    asked: Result<Query<IntentList>, QueryRejection>,
) -> Result<Json<Vec<IntentRow>>, ApiError> {
    let IntentList { state: only, search, limit, marker } = query(asked)?;
    let (only, limit) = (only.as_deref().map(state).transpose()?, super::limit(limit)?);
    let mut all = api.driver.query(|site| site.intents()).await?;
    blocking(move || {
        all.sort_by(|a, b| a.key.cmp(&b.key));
        let wanted = all.iter().filter(|intent| {
            let is_on = marker.as_ref().is_none_or(|marker| *intent.key > **marker);
            let texts = [&*intent.key, intent.state.as_str(), &*intent.owner];
            let is_found = texts.iter().any(|text| text.contains(&search));
            is_on && is_found && only.is_none_or(|only| intent.state == only)
        });
        Ok(Json(wanted.take(limit).map(summary).collect()))
    })
    .await
}

/// GET /v1/intents/{key}
pub async fn show(api: Api, Path(key): Path<String>) -> Result<Json<IntentView>, ApiError> {
    let found = api.driver.query(move |site| {
        let view = site.intent(&key)?;
        let entry = |(device, packed): &(_, muster_shared::model::flow::Packed)| {
            let id = packed.unpack().id(device);
            let row = site.flows().row(device, id).ok().and_then(|rows| rows.rows.into_iter().next());
            (id, row)
        };
        let rows = view.rules.iter().take(RULES_JOINED).map(entry).collect();
        let owner = site.intent_summary(&key).map(|intent| intent.owner);
        let broken = site.broken_intent(&key);
        Ok::<_, muster_engine::Refusal>(Shown { view, rows, owner, broken })
    });
    let found = found.await??;
    blocking(move || Ok(Json(shown(&found)))).await
}

/// POST /v1/watch/intents, {"keys": [keys]}: the states, as soon as none of the intents is under way. Failed
/// are intents that reached another state than the requested one; without a requested one, than INSTALLED
/// and WITHDRAWN.
pub async fn watch(
    api: Api,
    asked: Result<Query<WatchIntents>, QueryRejection>,
    body: Body,
) -> Result<Json<IntentsWatched>, ApiError> {
    let WatchIntents { wait, state: wanted } = query(asked)?;
    let wait = wait.map(Duration::from_secs).unwrap_or_default().min(WAIT_MAX);
    let wanted = wanted.as_deref().map(state).transpose()?;
    let IntentKeys { keys } = source::json(&api, body).await?;
    let keys = distinct(keys)?;
    if !wait.is_zero() {
        let mut stopped = api.stopped.clone();
        tokio::select! {
            ended = timeout(wait, api.driver.watch_intents(keys.clone())) => if let Ok(ended) = ended { ended? },
            _ended = stopped.changed() => return Err(ApiError::unavailable("the controller is stopping")),
        }
    }
    let watched = api.driver.query(move |site| Watched::of(site, &keys, wanted)).await?;
    Ok(Json(watched.told()))
}

/// The number of intents that have come to an end, and those not in the requested state.
#[derive(Default)]
struct Watched {
    total: usize,
    ended: usize,
    failed: usize,
    named: Vec<IntentSummary>,
}

impl Watched {
    fn of(site: View<'_>, keys: &[Box<str>], wanted: Option<IntentState>) -> Self {
        let mut watched = Self { total: keys.len(), ..Self::default() };
        for key in keys {
            let ended = site.intents_ended(std::slice::from_ref(key));
            watched.ended += usize::from(ended);
            let Some(intent) = site.intent_summary(key) else {
                // A purged intent no longer exists.
                watched.failed += usize::from(wanted == Some(IntentState::Installed));
                continue;
            };
            let good = match wanted {
                Some(wanted) => intent.state == wanted,
                None => matches!(intent.state, IntentState::Installed | IntentState::Withdrawn),
            };
            watched.failed += usize::from(ended && !good);
            if !(ended && good) && watched.named.len() < NAMED_MAX {
                watched.named.push(intent);
            }
        }
        watched
    }

    fn told(self) -> IntentsWatched {
        let Self { total, ended, failed, named } = self;
        let intents = named.iter().map(summary).collect();
        IntentsWatched { ended: ended == total, done: ended, failed, total, intents }
    }
}

/// GET /v1/topology
pub async fn topology(
    api: Api,
    asked: Result<Query<Topology>, QueryRejection>,
) -> Result<Json<TopologyView>, ApiError> {
    let Topology { intents, key, node, datapath_id, devices, limit, marker } = query(asked)?;
    let (is_page, limit) = (limit.is_some() || marker.is_some(), super::limit(limit)?);
    let has_key = key.is_some();
    if (has_key || devices.is_some()) && marker.is_some() {
        return Err(ApiError::invalid(
            "marker: bridges of `devices` and on the way of `key` come first, so there is no next page",
        ));
    }
    let mut first = devices.as_deref().map(bridges).transpose()?.unwrap_or_default();
    let datapath_id = datapath_id.as_deref().map(datapath).transpose()?;
    if !api.scope.is_whole() {
        let scope = api.scope.clone();
        match (&node, datapath_id, &key, intents) {
            (Some(node), _, None, None) => {
                let node = node_name(node.clone())?;
                api.driver.query(move |site| site.sees_node(&scope, &node)).await??;
            }
            // Bridges that this user does not see are left out below.
            (None, Some(_), None, None) => {}
            _ => return Err(ApiError::forbidden(beyond(&scope))),
        }
    }
    let (most, scope) = (intents.unwrap_or(0).min(DRAWN_MAX), api.scope.clone());
    let found = api.driver.query(move |site| {
        let views = match &key {
            Some(key) => vec![site.intent(key)?],
            None if most == 0 => Vec::new(),
            None => {
                let all = site.intents().into_iter();
                let views = all.filter_map(|intent| site.intent(&intent.key).ok());
                views.filter(|view| !view.links.is_empty()).take(most).collect()
            }
        };
        let topology = site.topology();
        let ids: Vec<u64> = topology.devices.iter().map(|(device, ..)| site.datapath_id(device)).collect();
        let with_id: Option<BTreeSet<String>> = datapath_id.map(|id| {
            let bridges = topology.devices.iter().map(|(device, ..)| device).zip(&ids);
            let meant =
                bridges.filter(|(device, own)| **own == id || View::datapath_id_of_name(device) == id);
            let seen = meant.filter(|(device, _)| site.sees_node(&scope, &device.node).is_ok());
            seen.map(|(device, _)| device.to_string()).collect()
        });
        Ok::<_, muster_engine::Refusal>((topology, ids, with_id, views))
    });
    let (topology, ids, with_id, views) = found.await??;
    let shown = move || {
        let mut network = topology_view(topology, &ids, &views);
        if let Some(node) = &node {
            around(&mut network, |device| device.split_once('/').is_some_and(|(at, _)| at == node));
        }
        if let Some(bridges) = &with_id {
            around(&mut network, |device| bridges.contains(device));
        }
        if is_page {
            if has_key {
                first.extend(on_ways(&network));
            }
            page(&mut network, limit, marker.as_deref(), &first);
        }
        Ok(Json(network))
    };
    blocking(shown).await
}

/// The number of 16 hexadecimal digits.
fn datapath(text: &str) -> Result<u64, ApiError> {
    let digits =
        Some(text).filter(|text| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| {
        let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
        ApiError::invalid(format!("datapath_id={shown}: want 16 hexadecimal digits"))
    })
}

/// `web-1/br0 web-2/br0`: a space is in no name of a bridge.
fn bridges(text: &str) -> Result<BTreeSet<String>, ApiError> {
    let names: Vec<&str> = text.split_ascii_whitespace().collect();
    if names.len() > FIRST_MAX {
        return Err(ApiError::invalid(format!("devices: {} bridges, want at most {FIRST_MAX}", names.len())));
    }
    let parsed = names.iter().map(|name| name.parse::<DeviceName>().map(|device| device.to_string()));
    parsed.collect::<Result<_, NotADevice>>().map_err(|error| ApiError::invalid(format!("devices: {error}")))
}

/// Leaves what touches these bridges.
fn around(network: &mut TopologyView, is_there: impl Fn(&str) -> bool) {
    network.devices.retain(|bridge| is_there(&bridge.device));
    network.links.retain(|link| is_there(&link.from.device) || is_there(&link.to.device));
    network.hosts.retain(|host| is_there(&host.location.device));
}

/// The bridges on the ways of the intents.
fn on_ways(network: &TopologyView) -> impl Iterator<Item = String> + '_ {
    let ends = network.intents.iter().flat_map(|way| &way.links);
    ends.flat_map(|link| [&link.from.device, &link.to.device]).cloned()
}

/// Leaves so many bridges after the marker, by name, with the links between them and their hosts. Those of `first`
/// come first.
fn page(network: &mut TopologyView, limit: usize, marker: Option<&str>, first: &BTreeSet<String>) {
    network.devices.retain(|bridge| marker.is_none_or(|marker| *bridge.device > *marker));
    let is_first = |bridge: &BridgeView| first.contains(&bridge.device);
    network.devices.sort_by_cached_key(|bridge| (!is_first(bridge), bridge.device.clone()));
    network.devices.truncate(limit);
    let shown: BTreeSet<&str> = network.devices.iter().map(|bridge| &*bridge.device).collect();
    let is_shown = |point: &Point| shown.contains(&*point.device);
    network.links.retain(|link| is_shown(&link.from) && is_shown(&link.to));
    network.hosts.retain(|host| is_shown(&host.location));
}

fn taken(answer: Answer) -> Result<Json<IntentsTaken>, ApiError> {
    match answer {
        Answer::Intents { keys, warnings } => Ok(Json(IntentsTaken { keys, warnings })),
        Answer::Stack { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Signalled { .. }
        | Answer::Facts { .. }
        | Answer::Flows { .. }
        | Answer::Traced(_)
        | Answer::Surveyed(_)
        | Answer::Proved(_)
        | Answer::NodeRemoved { .. } => Err(ApiError::internal("the engine did not say what it took")),
    }
}

fn state(name: &str) -> Result<IntentState, ApiError> {
    let known = IntentState::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(name));
    known.ok_or_else(|| {
        let all = IntentState::ALL.map(IntentState::as_str).join(", ");
        let shown: String = name.chars().take(40).flat_map(char::escape_default).collect();
        ApiError::invalid(format!("state={shown}: want one of {all}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_count_once() {
        let keys = |number| vec![Box::<str>::from("a"); number];
        assert_eq!(distinct(keys(KEYS_MAX)).unwrap(), keys(1));
        let refused = distinct(keys(KEYS_MAX + 1)).unwrap_err();
        assert_eq!(refused.message, "100001 keys: want 1 to 100000");
    }

    #[test]
    fn bridges_that_are_wanted_first_come_first() {
        let named = |name: &str| BridgeView { device: name.to_owned(), ..BridgeView::default() };
        let all = ["a/br0", "b/br0", "c/br,0", "d/br0"];
        for (wanted, limit, marker, shown) in [
            ("d/br0 c/br,0", 3, None, &["c/br,0", "d/br0", "a/br0"][..]),
            ("d/br0 gone/br0", 1, None, &["d/br0"]),
            ("", 2, None, &["a/br0", "b/br0"]),
            ("", 2, Some("b/br0"), &["c/br,0", "d/br0"]),
        ] {
            let mut network = TopologyView { devices: all.map(named).into(), ..TopologyView::default() };
            page(&mut network, limit, marker, &bridges(wanted).unwrap());
            let left: Vec<&str> = network.devices.iter().map(|bridge| &*bridge.device).collect();
            assert_eq!(left, shown, "{wanted}");
        }
        assert!(bridges("a/br0,").is_ok(), "a comma may be in a name");
        assert!(bridges("a").unwrap_err().message.starts_with("devices: "));
        let many = vec!["a/br0"; FIRST_MAX + 1].join(" ");
        assert_eq!(bridges(&many).unwrap_err().message, "devices: 1001 bridges, want at most 1000");
    }
}
