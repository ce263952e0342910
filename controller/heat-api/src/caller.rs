//! The caller of a request: the user of the token in `X-Auth-Token`, of a bearer token, or of the token that is the
//! password of HTTP basic; or the user that the connection names. Decides that a request without a token counts only
//! where the operator allows that, and never from a page in a browser or under a name that is not this machine's.
//!
//! Absent: which tokens count, and what their users may do: the API says so.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName};
use data_encoding::BASE64;
use muster_api::user::CallerView;
use muster_front::bearer;
use muster_shared::user_token::UserToken;

use crate::Heat;
use crate::client::Client;
use crate::fault::Fault;

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The token that keystoneauth sends with `--os-auth-type none`.
const NO_TOKEN: &str = "notused";

/// The scheme by which the client speaks with this controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// On this machine.
    Http,
    /// Over TLS.
    Https,
}

/// Whoever asks, and where.
pub struct Asking {
    /// Muster's API, for the caller.
    pub api: Client,
    /// The begin of each link: `https://HOST/v1/PROJECT`.
    pub base: String,
    /// Any word: there are no projects.
    pub project: String,
}

impl Asking {
    /// Refuses a request of nobody before its body is read.
    pub async fn admit(&self) -> Result<CallerView, Fault> {
        self.api.get("/v1/caller").await
    }
}

impl FromRequestParts<Heat> for Asking {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, heat: &Heat) -> Result<Self, Fault> {
        let authority = authority(&parts.headers)?;
        let token = token(&parts.headers)?;
        let peer = match (&token, &heat.host.without_token) {
            (Some(_), _) => (heat.host.peer)(&parts.extensions),
            (None, _) if is_of_a_page(&parts.headers) => {
                return Err(Fault::unauthorized("a page in a browser must send a token"));
            }
            (None, Some(allowed)) if is_this_machine(&authority) => allowed(&parts.extensions),
            (None, _) => (heat.host.peer)(&parts.extensions),
        };
        let project = parts.uri.path().split('/').nth(2).unwrap_or_default().to_owned();
        let base = format!("{}://{authority}/v1/{project}", scheme(parts));
        Ok(Self {
            api: Client::new(heat.api.clone(), peer, token.as_deref().and_then(bearer)),
            base,
            project,
        })
    }
}

/// As the client calls this controller: what links are made of.
pub fn authority(headers: &HeaderMap) -> Result<Authority, Fault> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(|host| host.parse().ok());
    let named = named.filter(|it: &Authority| !it.as_str().contains('@') && !it.host().is_empty());
    named.ok_or_else(|| Fault::invalid("the request's Host header is missing, or names no host"))
}

/// Before a program on this machine that ends TLS, it is that program's.
pub fn scheme(parts: &Parts) -> &'static str {
    let is_secure = || parts.headers.get(FORWARDED_PROTO).is_some_and(|proto| proto == "https");
    match parts.extensions.get::<Scheme>() {
        Some(Scheme::Http) if !is_secure() => "http",
        _ => "https",
    }
}

/// The token that is shown, if one is.
fn token(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
    let shown = text(&X_AUTH_TOKEN).filter(|token| !token.is_empty() && *token != NO_TOKEN);
    if let Some(token) = shown {
        return checked(token, None).map(Some);
    }
    let Some(credential) = text(&AUTHORIZATION) else { return Ok(None) };
    let (scheme, value) = credential.split_once(' ').unwrap_or((credential, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return checked(value.trim(), None).map(Some);
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair =
            BASE64.decode(value.trim().as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some((user, password)) = pair.as_ref().and_then(|pair| pair.split_once(':')) else {
            return Err(Fault::unauthorized("the credentials of HTTP basic cannot be read"));
        };
        return checked(password, Some(user)).map(Some);
    }
    Err(Fault::unauthorized("want a token in X-Auth-Token, a bearer token, or HTTP basic"))
}

/// A token of Muster, and of this user.
fn checked(text: &str, user: Option<&str>) -> Result<String, Fault> {
    let token: UserToken = text.parse().map_err(|_| {
        Fault::unauthorized(
            "this is no user's token of Muster: an admin makes one with 'muster user create'; Keystone is not asked",
        )
    })?;
    if user.is_some_and(|user| !user.is_empty() && user != token.name) {
        return Err(Fault::unauthorized(format!("this token is for {}, and not for that user", token.name)));
    }
    Ok(text.to_owned())
}

/// Browsers name the page that a request comes from.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE)
}

/// Another site's name may lead here: a page of that site would be let in.
fn is_this_machine(authority: &Authority) -> bool {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
