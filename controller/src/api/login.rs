//! Logins with OpenID Connect. Whoever asks here is not known yet: decides how often somebody may ask, and how many logins
//! are under way at a time. A login makes a user's token, which counts as others do.
//!
//! Absent: which ID tokens count (`oidc.rs`), and whose a name is (`controller/engine/src/user.rs`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use muster_api::login::{BeginInBrowser, BrowserLogin, DeviceLogin, LogIn, LoggedIn, LoginView};
use muster_engine::record::LoginRecord;
use muster_engine::{NewLogin, Request};
use muster_shared::user_token::UserToken;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::Api;
use super::authorization::Peer;
use super::error::ApiError;
use super::rate_limit::RateLimit;
use super::tls::network;
use super::token::{now, rfc3339};
use crate::driver::Caller;
use crate::oidc::{Device, Identity, Oidc, OidcError};
use crate::random::{NoRandom, random};

/// The most logins that wait for the provider at a time: it may hang, and everybody may begin one.
const LOGINS_MAX: usize = 16;
/// The most bytes of a request: an ID token has a few KiB, with many groups some tens.
const BODY_MAX: usize = 64 * 1024;
/// The time for these bytes.
const BODY_TIME: Duration = Duration::from_secs(10);
/// The pace of requests and their burst for one network: a login has four.
const EVERY: Duration = Duration::from_secs(1);
const BURST: u32 = 30;
/// The path in the audit.
const PATH: &str = "/v1/login";

/// The bounds of logins, and the provider.
pub(super) struct Logins {
    oidc: Option<Arc<Oidc>>,
    /// The lifetime of a token.
    session: Duration,
    rate_limit: RateLimit,
    places: Semaphore,
}

/// A client that is not known yet.
pub(super) struct Stranger {
    api: Api,
    /// None: on this machine.
    address: Option<IpAddr>,
}

impl Logins {
    pub fn new(oidc: Option<Arc<Oidc>>, session: Duration) -> Self {
        Self { oidc, session, rate_limit: RateLimit::new(EVERY, BURST), places: Semaphore::new(LOGINS_MAX) }
    }
}

impl FromRequestParts<Api> for Stranger {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let address = match parts.extensions.get::<Peer>() {
            Some(Peer::Owner(_) | Peer::Member(_) | Peer::Allowed(..)) => None,
            Some(Peer::Remote(address, _)) => Some(*address),
            None => return Err(ApiError::internal("the controller does not know who asks")),
        };
        Ok(Self { api: api.clone(), address })
    }
}

impl Stranger {
    fn from(&self) -> String {
        self.address.map_or_else(|| "local".to_owned(), |address| address.to_string())
    }

    /// The provider, and a place for a request to it.
    fn oidc(&self) -> Result<(&Oidc, SemaphorePermit<'_>), ApiError> {
        let logins = &self.api.logins;
        let oidc = logins.oidc.as_deref().ok_or_else(|| {
            ApiError::not_found("OpenID Connect is not set up here ([oidc]): log in with a token")
        })?;
        let from = self.address.map_or_else(String::new, |address| network(address).to_string());
        logins.rate_limit.take(&from, Instant::now()).map_err(|wait| {
            ApiError::after(wait, "too many logins come from there: one request a second is allowed")
        })?;
        let place = logins.places.try_acquire().map_err(|_| {
            ApiError::later(format!("{LOGINS_MAX} logins wait for the identity provider: try again"))
        })?;
        Ok((oidc, place))
    }

    /// The user's token.
    async fn let_in(&self, identity: Identity) -> Result<LoggedIn, ApiError> {
        let Identity { name, role, scope, subject } = identity;
        let ca_fingerprint = self.api.config.api_ca.ok_or_else(|| {
            ApiError::conflict(
                "nobody could use a token: this site's API is not there over the network; set controller.api, or api in \
                 the site's own section",
            )
        })?;
        let secret = random().map_err(|error: NoRandom| ApiError::internal(error.to_string()))?;
        let token = UserToken { name: name.clone(), ca_fingerprint, secret };
        let expires = now() + self.api.logins.session.as_secs();
        let login = LoginRecord { secret_hash: token.digest(), expires };
        let login = NewLogin { name: name.clone(), role, scope, subject, login };
        let caller = Caller { actor: name.clone(), from: self.from(), shown: None, trace: None };
        self.api.driver.of(caller).request(Request::LogIn { login, wall: now() }).await?;
        self.api.wrong_tokens.counts(token.digest(), Instant::now());
        Ok(LoggedIn { wait: None, name, role, token: token.to_string(), expires: rfc3339(expires) })
    }

    /// The answer to somebody whom the provider does not let in; the audit has who it was by address.
    fn turned_away(&self, error: OidcError) -> ApiError {
        match error {
            OidcError::Away(_) => ApiError::unavailable(error.to_string()),
            OidcError::Invalid(why) => ApiError::invalid(why),
            OidcError::Refused(why) => {
                let caller =
                    Caller { actor: "unknown".to_owned(), from: self.from(), shown: None, trace: None };
                self.api.driver.of(caller).not_let_in("LogIn".to_owned(), PATH, &why);
                ApiError::unauthorized(why)
            }
        }
    }
}

/// GET /v1/login
pub async fn show(stranger: Stranger) -> Json<LoginView> {
    let issuer = stranger.api.logins.oidc.as_ref().map(|oidc| oidc.issuer().to_owned());
    Json(LoginView { issuer })
}

/// POST /v1/login/browser
pub async fn in_browser(stranger: Stranger, body: Body) -> Result<Json<BrowserLogin>, ApiError> {
    let BeginInBrowser { redirect_uri } = json(body).await?;
    let (oidc, _place) = stranger.oidc()?;
    oidc.browser(redirect_uri).await.map(Json).map_err(|error| stranger.turned_away(error))
}

/// POST /v1/login/device
pub async fn on_device(stranger: Stranger) -> Result<Json<DeviceLogin>, ApiError> {
    let (oidc, _place) = stranger.oidc()?;
    oidc.device().await.map(Json).map_err(|error| stranger.turned_away(error))
}

/// POST /v1/login
pub async fn log_in(stranger: Stranger, body: Body) -> Result<Json<LoggedIn>, ApiError> {
    let asked: LogIn = json(body).await?;
    let found = {
        let (oidc, _place) = stranger.oidc()?;
        match asked {
            LogIn::IdToken(token) => oidc.from_token(&token).await.map(Device::Done),
            LogIn::DeviceCode(code) => oidc.from_device(&code).await,
            LogIn::Browser(code) => oidc.from_browser(code).await.map(Device::Done),
        }
    };
    match found.map_err(|error| stranger.turned_away(error))? {
        Device::Done(identity) => stranger.let_in(identity).await.map(Json),
        Device::Waits(seconds) => Ok(Json(LoggedIn { wait: Some(seconds), ..LoggedIn::default() })),
    }
}

/// The body of somebody who is not known: small, and soon there.
async fn json<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = match timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(ApiError::invalid(format!("a login has at most {BODY_MAX} bytes"))),
        Err(_elapsed) => return Err(ApiError::invalid("the request did not arrive within 10 s")),
    };
    // Without the text that is wrong: it may be a secret.
    serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::invalid(format!("that is no login: line {}, column {}", error.line(), error.column()))
    })
}
