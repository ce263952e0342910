//! Whoever asks, and the API in their name. Decides how somebody shows a token: as ONOS's scripts do, it is
//! the password of HTTP's basic authentication.
//!
//! Absent: whose token counts and what they may do (`controller/src/api/authorization.rs`), and how the router is asked
//! (`controller/front/src/client.rs`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use data_encoding::BASE64;
use muster_api::flow::{DeviceView, FlowView};
use muster_api::intent::TopologyView;
use muster_api::user::CallerView;
use muster_front::{Client, Collected, Failure, NotCollected, Place, bearer, escaped};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::sleep;

use crate::answer::{Answer, Refused};
use crate::document::shown;
use crate::network::{Bridge, Network, NoBridge};
use crate::{BODY, Onos};

/// The most bytes of an answer of the API, and of all that one answer of ONOS's is made of: a hundred thousand rules.
pub const ANSWER_MAX: usize = 64 << 20;

/// A client, and the API for it.
pub struct Visitor {
    onos: Onos,
    api: Client,
}

impl FromRequestParts<Onos> for Visitor {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, onos: &Onos) -> Result<Self, Refused> {
        if is_of_a_page(&parts.headers) {
            return Err(Refused::new(
                StatusCode::FORBIDDEN,
                "a page in a browser cannot ask here: use the console",
            ));
        }
        let authorization = parts.headers.get(AUTHORIZATION).and_then(shown_token);
        let peer = (onos.host.peer)(&parts.extensions).unwrap_or_default();
        let api = Client::new(onos.api.clone(), peer, authorization, ANSWER_MAX);
        Ok(Self { onos: onos.clone(), api })
    }
}

/// A browser sends a password along with the requests of any site's page.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.get("sec-fetch-site").is_some_and(|site| site != "none")
}

/// The password of `Basic` as the token of `Bearer`; anything else as it is.
fn shown_token(header: &HeaderValue) -> Option<HeaderValue> {
    let text = header.to_str().ok()?;
    let Some((scheme, coded)) = text.split_once(' ') else { return Some(header.clone()) };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Some(header.clone());
    }
    let plain = String::from_utf8(BASE64.decode(coded.trim().as_bytes()).ok()?).ok()?;
    let (_, password) = plain.split_once(':')?;
    bearer(password)
}

impl Visitor {
    /// Gets the document at a path of the API.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        Ok(self.api.get(path).await?)
    }

    /// Asks for a change.
    pub async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> Answer<T> {
        Ok(self.api.send(method, path, body).await?)
    }

    /// The document in a body, and the right to hold it. Who asks must be let in before any of it is kept, and a slow body
    /// holds what it has sent alone.
    pub async fn document(&self, body: Body) -> Answer<(Value, Option<Place>)> {
        let who: CallerView = self.get("/v1/caller").await?;
        let Collected { bytes, room } = self.onos.room.collect(&who.name, body, BODY).await?;
        let value = serde_json::from_slice(&bytes);
        Ok((value.map_err(|error| Refused::bad(format!("the document is no JSON: {error}")))?, room))
    }

    /// Held while a meter gets a number.
    pub async fn numbering(&self) -> tokio::sync::OwnedMutexGuard<()> {
        Arc::clone(&self.onos.numbering).lock_owned().await
    }

    /// The whole network.
    pub async fn network(&self) -> Answer<Network> {
        Ok(Network::new(self.get("/v1/topology").await?))
    }

    /// A bridge that a path names, and what touches it.
    pub async fn bridge(&self, wanted: &str) -> Answer<(Bridge, Network)> {
        let query = match (wanted.strip_prefix("of:"), wanted.split_once('/')) {
            (Some(id), _) if id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                format!("datapath_id={id}")
            }
            (_, Some((node, _))) => format!("node={}", escaped(node)),
            _ => return Err(no_device(wanted)),
        };
        let view: TopologyView = self.get(&format!("/v1/topology?{query}")).await?;
        let network = match wanted.starts_with("of:") {
            true => Network::of_id(view, wanted),
            false => Network::new(view),
        };
        match network.find(wanted) {
            Ok(bridge) => Ok((bridge.clone(), network)),
            Err(NoBridge::Unknown) => Err(no_device(wanted)),
            Err(NoBridge::Several(why)) => Err(Refused::new(StatusCode::CONFLICT, why)),
        }
    }

    /// The entries of a bridge's table; nothing, if there is none.
    pub async fn flows(&self, bridge: &Bridge) -> Answer<Vec<FlowView>> {
        let (node, name) = bridge.parts();
        let path = format!("/v1/devices/{}/{}/flows?foreign=false", escaped(node), escaped(name));
        match self.get(&path).await {
            Err(Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(Vec::new()),
            answer => answer,
        }
    }

    /// As [`Self::flows`], of one of many devices: a request that is too soon is made again.
    pub async fn flows_in_turn(&self, bridge: &Bridge) -> Answer<Vec<FlowView>> {
        for _ in 1..TRIES {
            match self.flows(bridge).await {
                Err(Refused { retry_after: Some(after), .. }) => {
                    let seconds = after.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(1);
                    sleep(Duration::from_secs(seconds).min(PAUSE_MAX)).await;
                }
                answer => return answer,
            }
        }
        self.flows(bridge).await
    }

    /// Bridges that have a table.
    pub async fn with_tables(&self, network: &Network) -> Answer<Vec<(Bridge, DeviceView)>> {
        let devices: Vec<DeviceView> = self.get("/v1/devices").await?;
        let known = devices.into_iter().filter_map(|view| Some((network.named(&view.device)?.clone(), view)));
        Ok(known.collect())
    }

    /// The entries of the tables of all bridges, each with its bridge, made by `make`.
    pub async fn all<T>(&self, make: impl Fn(&Bridge, &FlowView) -> Option<T>) -> Answer<Vec<T>> {
        let network = self.network().await?;
        let (mut all, mut rules) = (Vec::new(), 0);
        for (bridge, view) in self.with_tables(&network).await? {
            rules += view.rules;
            if rules > RULES_MAX {
                return Err(too_much());
            }
            all.extend(self.flows_in_turn(&bridge).await?.iter().filter_map(|flow| make(&bridge, flow)));
        }
        Ok(all)
    }
}

/// Tries for a device of many: a user may ask so often a second, and each device is a request.
const TRIES: u32 = 3;
/// The longest pause in between.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The most rules of one answer about all devices: each is a kilobyte or two in memory.
const RULES_MAX: u64 = 200_000;

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TooMuch => too_much(),
            Failure::Internal(why) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, why),
            Failure::Refused(refused) => {
                let text = |error: &Value, key: &str| error[key].as_str().unwrap_or_default().to_owned();
                let errors = refused
                    .errors
                    .iter()
                    .map(|error| (text(error, "path"), text(error, "message")))
                    .collect();
                let muster_front::Refused { status, message, retry_after, .. } = refused;
                Self { status, message, errors, retry_after }
            }
        }
    }
}

impl From<NotCollected> for Refused {
    fn from(why: NotCollected) -> Self {
        let status = match why {
            NotCollected::NoRoom | NotCollected::ShareTaken => StatusCode::SERVICE_UNAVAILABLE,
            NotCollected::TooLong(_) | NotCollected::Broken(_) | NotCollected::Late => {
                StatusCode::BAD_REQUEST
            }
        };
        Self::new(status, why.to_string())
    }
}

fn too_much() -> Refused {
    Refused::bad(
        "there is too much of it for one answer: ask for one device, as in /onos/v1/flows/{deviceId}",
    )
}

pub fn no_device(wanted: &str) -> Refused {
    Refused::not_found(format!("Device is not found: {}", shown(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_script_is_the_token() {
        let of = |text: &str| {
            shown_token(&HeaderValue::from_str(text).unwrap()).map(|it| it.to_str().unwrap().to_owned())
        };
        assert_eq!(of(&format!("Basic {}", BASE64.encode(b"onos:mu_x:y"))).unwrap(), "Bearer mu_x:y");
        assert_eq!(of("Bearer mu_x").unwrap(), "Bearer mu_x");
        assert_eq!(of("Basic ***"), None);
        assert_eq!(of(&format!("Basic {}", BASE64.encode(b"nothing"))), None);
    }

    #[test]
    fn a_page_in_a_browser_is_told_apart() {
        let headers = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).parse().unwrap(), HeaderValue::from_str(value).unwrap()));
            is_of_a_page(&pairs.collect())
        };
        assert!(headers(&[("origin", "https://elsewhere.example")]));
        assert!(headers(&[("sec-fetch-site", "cross-site")]));
        assert!(!headers(&[("sec-fetch-site", "none")]) && !headers(&[]));
    }
}
