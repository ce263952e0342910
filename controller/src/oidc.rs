//! OpenID Connect: people who are known to an identity provider log in with it. Decides which ID tokens count: signed by
//! the provider, for this client, not expired, and with the nonce of the login where the controller began it.
//!
//! ```text
//! console  ── browser() ──▶ provider's page ──▶ from_browser(code)  ─┐
//! muster   ── device()  ──▶ provider's page ──▶ from_device(code)   ─┼──▶ Identity: name and role (claims.rs)
//! anybody  ──────────────── an ID token ──────▶ from_token()        ─┘
//! ```
//!
//! Invariants: no login waits for the provider longer than for a few of its answers, each of which is bounded
//! (`fetch.rs`); no secret is in an error.
//!
//! Absent: the user that a login makes (`controller/engine/src/user.rs`), and the requests (`api/login.rs`).

mod fetch;
mod identity;
mod provider;

use std::fmt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_api::login::{BrowserCode, BrowserLogin, DeviceLogin};
use openidconnect::core::{CoreAuthenticationFlow, CoreIdToken, CoreTokenResponse};
use openidconnect::{
    AuthorizationCode, ClaimsVerificationError, ClientSecret, CsrfToken, DeviceCodeErrorResponseType, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError,
    TokenResponse as _,
};
use serde_json::json;
use thiserror::Error;
use tokio::sync::Notify;

use fetch::{Fetch, FetchError};
pub use identity::{Identity, Mapping};
use provider::{Discovered, Provider};

/// The most seconds from an ID token's issue to its use, where the controller did not begin the login: a token that is
/// found in some log is older.
const TOKEN_AGE_MAX: i64 = 600;
/// The most bytes of an error of the provider that is shown.
const SHOWN_MAX: usize = 200;

/// The reason why a login failed.
#[derive(Debug, Error)]
pub enum OidcError {
    /// The provider does not answer, or with something else than it should.
    #[error("the identity provider cannot be asked: {0}; try again, or log in with a token")]
    Away(String),
    /// The provider, or what it says of somebody, lets nobody in.
    #[error("{0}")]
    Refused(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// The settings of a provider, in a form that was checked.
pub struct Config<'a> {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// None: the CAs of this machine.
    pub ca: Option<&'a Path>,
    /// Besides `openid`.
    pub scopes: Vec<String>,
    pub mapping: Mapping,
    /// Whether an ID token of another login counts.
    pub takes_id_tokens: bool,
}

/// A provider, by which people log in.
pub struct Oidc {
    provider: Provider,
    scopes: Vec<String>,
    mapping: Mapping,
    takes_id_tokens: bool,
}

/// The state of a login on another machine.
pub enum Device {
    Done(Identity),
    /// Ask again after so many seconds.
    Waits(u64),
}

impl fmt::Debug for Oidc {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("issuer", &self.issuer()).finish_non_exhaustive()
    }
}

impl Oidc {
    /// Asks nobody yet: the provider may be away at a start.
    ///
    /// # Errors
    /// The CA cannot be read, or the issuer is no URL.
    pub fn new(config: Config<'_>) -> anyhow::Result<Self> {
        let Config { issuer, client_id, client_secret, ca, scopes, mapping, takes_id_tokens } = config;
        let secret = client_secret.map(ClientSecret::new);
        let provider = Provider::new(issuer, client_id, secret, Fetch::new(ca)?)?;
        Ok(Self { provider, scopes, mapping, takes_id_tokens })
    }

    /// The provider's URL.
    pub fn issuer(&self) -> &str {
        self.provider.issuer()
    }

    fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        self.scopes.iter().cloned().map(Scope::new)
    }

    /// Begins a login that comes back to this address.
    ///
    /// # Errors
    /// [`OidcError`]
    pub async fn browser(&self, redirect_uri: String) -> Result<BrowserLogin, OidcError> {
        let client = self.provider.discovered().await?.client.set_redirect_uri(redirect(redirect_uri)?);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (address, state, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scopes(self.scopes())
            .set_pkce_challenge(challenge)
            .url();
        Ok(BrowserLogin {
            address: address.into(),
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        })
    }

    /// Ends a login in a browser.
    ///
    /// # Errors
    /// [`OidcError`]
    pub async fn from_browser(&self, code: BrowserCode) -> Result<Identity, OidcError> {
        let BrowserCode { code, nonce, verifier, redirect_uri } = code;
        let client = self.provider.discovered().await?.client.set_redirect_uri(redirect(redirect_uri)?);
        let request = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| OidcError::Away(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(verifier));
        let answer = request.request_async(self.provider.http()).await.map_err(|error| refused(&error))?;
        self.identity(id_token(&answer)?, Some(Nonce::new(nonce))).await
    }

    /// Begins a login on another machine's browser.
    ///
    /// # Errors
    /// [`OidcError`]
    pub async fn device(&self) -> Result<DeviceLogin, OidcError> {
        let Discovered { client, device_url, .. } = self.provider.discovered().await?;
        let client = client.set_device_authorization_url(device_url.ok_or_else(no_devices)?);
        let request = client.exchange_device_code().add_scopes(self.scopes());
        let begun: openidconnect::core::CoreDeviceAuthorizationResponse =
            request.request_async(self.provider.http()).await.map_err(|error| refused(&error))?;
        Ok(DeviceLogin {
            address: begun.verification_uri().to_string(),
            address_with_code: begun.verification_uri_complete().map(|uri| uri.secret().clone()),
            user_code: begun.user_code().secret().clone(),
            device_code: begun.device_code().secret().clone(),
            expires_in: begun.expires_in().as_secs(),
            interval: begun.interval().as_secs(),
        })
    }

    /// Looks once whether a login on another machine's browser is done.
    ///
    /// # Errors
    /// [`OidcError`]
    pub async fn from_device(&self, device_code: &str) -> Result<Device, OidcError> {
        let Discovered { client, device_url, .. } = self.provider.discovered().await?;
        let client = client.set_device_authorization_url(device_url.ok_or_else(no_devices)?);
        let begun = json!({"device_code": device_code, "user_code": "", "verification_uri": self.issuer(), "expires_in": 600});
        let begun: openidconnect::core::CoreDeviceAuthorizationResponse =
            serde_json::from_value(begun).map_err(|error| OidcError::Invalid(error.to_string()))?;
        let request = client
            .exchange_device_access_token(&begun)
            .map_err(|error| OidcError::Away(error.to_string()))?;
        // The client would ask again by itself after a pause: whoever logs in waits, and not a request.
        let (not_yet, pause) = (Notify::new(), std::sync::Mutex::new(0));
        let wait = |time: std::time::Duration| {
            *pause.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = time.as_secs();
            not_yet.notify_one();
            std::future::pending::<()>()
        };
        let http = self.provider.http();
        let answer = tokio::select! {
            answer = request.request_async(http, wait, None) => answer,
            () = not_yet.notified() => {
                let pause = *pause.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                return Ok(Device::Waits(pause.max(1)));
            }
        };
        let answer = answer.map_err(|error| match &error {
            RequestTokenError::ServerResponse(said) => OidcError::Refused(match said.error() {
                DeviceCodeErrorResponseType::AccessDenied => {
                    "the login was refused at the provider's page".to_owned()
                }
                DeviceCodeErrorResponseType::ExpiredToken => {
                    "the login took too long: begin it again".to_owned()
                }
                DeviceCodeErrorResponseType::AuthorizationPending
                | DeviceCodeErrorResponseType::SlowDown
                | DeviceCodeErrorResponseType::Basic(_) => {
                    format!("the provider refuses the login: {}", short(said))
                }
            }),
            RequestTokenError::Request(_) | RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                OidcError::Away(short(&error))
            }
        })?;
        self.identity(id_token(&answer)?, None).await.map(Device::Done)
    }

    /// Whoever has an ID token for this client, from a flow that the controller had no part in: so there is no nonce, and
    /// the token must be fresh. Only where the settings allow it.
    ///
    /// # Errors
    /// [`OidcError`]
    pub async fn from_token(&self, text: &str) -> Result<Identity, OidcError> {
        if !self.takes_id_tokens {
            return Err(OidcError::Invalid(
                "ID tokens are not taken here (oidc.id_tokens): use 'muster login URL --oidc'".to_owned(),
            ));
        }
        let token =
            text.parse::<CoreIdToken>().map_err(|_| OidcError::Invalid("that is no ID token".to_owned()))?;
        self.verified(&token, None, Some(TOKEN_AGE_MAX)).await
    }

    async fn identity(&self, token: &CoreIdToken, nonce: Option<Nonce>) -> Result<Identity, OidcError> {
        self.verified(token, nonce, None).await
    }

    /// The person of a token that counts, and is at most so many seconds old.
    async fn verified(
        &self,
        token: &CoreIdToken,
        nonce: Option<Nonce>,
        age_max: Option<i64>,
    ) -> Result<Identity, OidcError> {
        let mut verified = self.provider.discovered().await?.verify(token, nonce.as_ref());
        let has_new_key = matches!(
            &verified,
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey))
        );
        if has_new_key && self.provider.renew().await? {
            verified = self.provider.discovered().await?.verify(token, nonce.as_ref());
        }
        let issued = verified.map_err(|error| {
            OidcError::Refused(format!("the ID token does not count: {}", reason(&error)))
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let age = i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(issued);
        if age_max.is_some_and(|most| age > most) {
            return Err(OidcError::Refused(format!(
                "the ID token does not count: it was issued more than {} minutes ago",
                TOKEN_AGE_MAX / 60
            )));
        }
        self.mapping.identity(self.issuer(), &token.to_string()).map_err(OidcError::Refused)
    }
}

fn redirect(text: String) -> Result<RedirectUrl, OidcError> {
    RedirectUrl::new(text).map_err(|_| OidcError::Invalid("redirect_uri is no URL".to_owned()))
}

fn no_devices() -> OidcError {
    OidcError::Refused(
        "the provider has no login for devices (device_authorization_endpoint): log in with a token"
            .to_owned(),
    )
}

fn id_token(answer: &CoreTokenResponse) -> Result<&CoreIdToken, OidcError> {
    let none = "the provider gave no ID token: the client must have the scope 'openid' there";
    answer.id_token().ok_or_else(|| OidcError::Refused(none.to_owned()))
}

/// The provider's answer to a request for a token.
fn refused<T: openidconnect::ErrorResponse + fmt::Display + 'static>(
    error: &RequestTokenError<FetchError, T>,
) -> OidcError {
    match error {
        RequestTokenError::ServerResponse(said) => {
            OidcError::Refused(format!("the provider refuses the login: {}", short(said)))
        }
        RequestTokenError::Request(error) => OidcError::Away(error.to_string()),
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => OidcError::Away(short(error)),
    }
}

/// Without values of claims.
fn reason(error: &ClaimsVerificationError) -> &'static str {
    match error {
        ClaimsVerificationError::Expired(_) => "it has expired",
        ClaimsVerificationError::InvalidAudience(_) => "it is for another client",
        ClaimsVerificationError::InvalidIssuer(_) => "it is of another issuer",
        ClaimsVerificationError::InvalidNonce(_) => "it is of another login",
        ClaimsVerificationError::SignatureVerification(_) => "the provider has not signed it",
        _ => "its claims are not those of an ID token",
    }
}

/// A part of a foreign text that fits into a line.
fn short(said: &impl fmt::Display) -> String {
    let text = said.to_string();
    text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}
