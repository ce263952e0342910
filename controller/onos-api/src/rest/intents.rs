//! `intents`: submit, withdraw, list. Decides that a DELETE waits a few seconds for the intent to be withdrawn, as ONOS's
//! does, and forgets it then.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use muster_api::flow::ExplainedFlow;
use muster_api::intent::{IntentRow, IntentView, IntentsTaken, IntentsWatched};
use muster_front::escaped;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Named, named};
use crate::answer::{Answer, Refused, created};
use crate::application::{OWN, of_key};
use crate::client::Visitor;
use crate::document::Part;
use crate::intent::{self, TYPES, decoded, encoded, place, row};
use crate::rule;

/// Seconds that a DELETE waits.
const WITHDRAWN_WITHIN: u64 = 5;
/// Rules of an intent that are shown: each is a question to the API.
const RULES_MAX: usize = 100;

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
pub struct Wanted {
    #[serde(default)]
    detail: bool,
}

type Query_ = Result<Query<Wanted>, QueryRejection>;

/// GET /intents
pub async fn list(visitor: Visitor, query: Query_) -> Answer {
    listed(&visitor, query, |_| true).await
}

/// GET /intents/application/{application}
pub async fn of_application(visitor: Visitor, path: Named<String>, query: Query_) -> Answer {
    let wanted = named(path)?;
    listed(&visitor, query, |row| of_key(&row.key).0 == wanted).await
}

async fn listed(visitor: &Visitor, query: Query_, is_wanted: impl Fn(&IntentRow) -> bool) -> Answer {
    let Query(Wanted { detail }) = query.map_err(|rejection| Refused::bad(rejection.body_text()))?;
    let mut rows: Vec<IntentRow> = visitor.get("/v1/intents").await?;
    rows.retain(|row| is_wanted(row));
    if !detail {
        return Ok(Json(json!({"intents": rows.iter().map(row).collect::<Vec<_>>()})));
    }
    if rows.len() > RULES_MAX {
        return Err(Refused::bad(format!(
            "{} intents with details: {RULES_MAX} are allowed; ask for one",
            rows.len()
        )));
    }
    let network = visitor.network().await?;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let view: IntentView = visitor.get(&path_of(&row.key)).await?;
        all.push(encoded(&view, &network));
    }
    Ok(Json(json!({ "intents": all })))
}

fn path_of(key: &str) -> String {
    format!("/v1/intents/{}", escaped(key))
}

/// GET /intents/minisummary: how many there are, by type and state.
pub async fn summary(visitor: Visitor) -> Answer {
    let rows: Vec<IntentRow> = visitor.get("/v1/intents").await?;
    let mut all: BTreeMap<&str, [u64; 7]> = BTreeMap::from([("All", [0; 7])]);
    for row in &rows {
        let kind =
            TYPES.iter().find(|(_, own, _)| *own == row.kind).map_or(row.kind.as_str(), |(.., short)| short);
        let at = match row.state.as_str() {
            "INSTALLED" => 0,
            "FAILED" | "CORRUPT" => 1,
            "INSTALL_REQ" => 2,
            "INSTALLING" | "REALLOCATING" => 3,
            "WITHDRAW_REQ" | "PURGE_REQ" => 4,
            "WITHDRAWING" => 5,
            _ => 6,
        };
        for kind in ["All", kind] {
            all.entry(kind).or_default()[at] += 1;
        }
    }
    let shown = all.into_iter().map(|(kind, counts)| {
        let [installed, failed, request, installing, withdraw, withdrawing, withdrawn] = counts;
        let counts = json!({
            "total": counts.iter().sum::<u64>(), "installed": installed, "failed": failed, "installReq": request,
            "installing": installing, "compiling": 0, "recompiling": 0, "withdrawReq": withdraw,
            "withdrawing": withdrawing, "withdrawn": withdrawn, "unknownState": 0,
        });
        (kind.to_owned(), counts)
    });
    Ok(Json(Value::Object(shown.collect())))
}

/// The key of an intent that a path names: by its key, or by its number.
async fn key_of(visitor: &Visitor, application: &str, key: &str) -> Answer<Option<String>> {
    let rows: Vec<IntentRow> = visitor.get("/v1/intents").await?;
    let exact =
        |row: &&IntentRow| row.key == format!("{application}/{key}") || application == OWN && row.key == key;
    let numbered = |row: &&IntentRow| {
        of_key(&row.key).0 == application
            && intent::number(key).is_some_and(|number| intent::id(&row.key) == number)
    };
    let found = rows.iter().find(exact).or_else(|| rows.iter().find(numbered));
    Ok(found.map(|row| row.key.clone()))
}

async fn found(visitor: &Visitor, path: Named<(String, String)>) -> Answer<String> {
    let (application, key) = named(path)?;
    let found = key_of(visitor, &application, &key).await?;
    found.ok_or_else(|| Refused::not_found("Intent is not found"))
}

/// GET /intents/{application}/{key}
pub async fn show(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let key = found(&visitor, path).await?;
    let view: IntentView = visitor.get(&path_of(&key)).await?;
    Ok(Json(encoded(&view, &visitor.network().await?)))
}

/// GET /intents/relatedflows/{application}/{key}
pub async fn flows(visitor: Visitor, path: Named<(String, String)>) -> Answer {
    let key = found(&visitor, path).await?;
    let view: IntentView = visitor.get(&path_of(&key)).await?;
    let network = visitor.network().await?;
    let mut flows = Vec::new();
    for entry in view.entries.iter().filter(|entry| entry.state.is_some()).take(RULES_MAX) {
        let Some(bridge) = network.named(&entry.device) else { continue };
        let (node, name) = bridge.parts();
        let path = format!("/v1/devices/{}/{}/flows/{}", escaped(node), escaped(name), escaped(&entry.id));
        let explained: ExplainedFlow = visitor.get(&path).await?;
        flows.push(rule::encoded(&explained.flow, bridge, 0));
    }
    let summary = encoded(&view, &network);
    let (application, own) = of_key(&view.key);
    Ok(Json(json!({"appId": application, "id": own, "type": summary["type"], "paths": [flows]})))
}

/// POST /intents: 201, and where the intent is.
pub async fn create(visitor: Visitor, body: Body) -> Answer<Response> {
    let (document, _room) = visitor.document(body).await?;
    let network = visitor.network().await?;
    let asked = decoded(&Part::whole(&document), &network)?;
    let file = json!({"intents": [asked.intent]});
    let taken: Answer<IntentsTaken> = visitor.send(Method::POST, "/v1/intents?name=onos", &file).await;
    if let Err(mut refused) = taken {
        for (path, _) in &mut refused.errors {
            if let Some(onos) = place(path, &asked) {
                *path = onos;
            }
        }
        return Err(refused);
    }
    Ok(created(["intents", asked.application.as_str(), &intent::id(&asked.key).to_string()]))
}

/// DELETE /intents/{application}/{key}: 204, also where there is none.
pub async fn delete(visitor: Visitor, path: Named<(String, String)>) -> Answer<StatusCode> {
    let (application, key) = named(path)?;
    let Some(key) = key_of(&visitor, &application, &key).await? else { return Ok(StatusCode::NO_CONTENT) };
    let withdraw = format!("{}/withdraw", path_of(&key));
    let _taken: IntentsTaken = visitor.send(Method::POST, &withdraw, &Value::Null).await?;
    let watch = format!("/v1/watch/intents?wait={WITHDRAWN_WITHIN}&state=WITHDRAWN");
    let watched: IntentsWatched = visitor.send(Method::POST, &watch, &json!({"keys": [key]})).await?;
    if watched.ended && watched.failed == 0 {
        let _purged: IntentsTaken = visitor.send(Method::DELETE, &path_of(&key), &Value::Null).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
