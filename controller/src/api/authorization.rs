//! The caller of a request, and whether the caller may ask. On the socket, the caller is the user of the connected
//! process, as the kernel says: root may do everything, others what the settings give them. Over the network, the
//! caller has a user's token, or a certificate with a user's name. Decides that a request is refused without either,
//! with too small a role, or about things that the user does not reach.
//!
//! Absent: which role a request needs (`controller/api/src/route.rs`), which tokens count
//! (`controller/engine/src/user.rs`), what a user reaches (`controller/engine/src/user/scope.rs`), and who may use the
//! socket (`server.rs`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::RequestPartsExt as _;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use muster_api::route::{Operation, Route};
use muster_api::user::{Role, Scope};
use muster_engine::{Refusal, Shown, beyond};
use muster_shared::user_token::UserToken;
use nix::unistd::Uid;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::client_certificate::{ClientCertificate, is_of_a_page};
use super::error::ApiError;
use super::node::node_name;
use super::token::now;
use super::{Api, stack_name};
use crate::driver::{Caller, stranger};
use crate::telemetry::TraceContext;
use crate::this_host::user_name;

/// The other end of a connection.
#[derive(Clone)]
pub(super) enum Peer {
    /// A process of root, or of the controller's own user, on this machine: it may do everything.
    Owner(Caller),
    /// A process of another user of this machine who may use the socket: `controller.socket_role` says what for.
    Member(Caller),
    /// A client at this address, which has to show a token if it has no certificate.
    Remote(IpAddr, Option<Arc<ClientCertificate>>),
    /// A client without a token to which the operator's settings give this role (`heat.rs`).
    Allowed(Caller, Role),
}

/// The credential of a request.
enum Credential {
    Token(UserToken),
    Certificate(Arc<ClientCertificate>),
}

/// The operation that is asked for; with each route.
#[derive(Clone, Copy)]
pub(super) struct Asked(pub Operation, pub Route);

/// The caller at the other end of the socket. A name is looked up, which may take time.
pub(super) async fn of_socket(stream: &UnixStream) -> Peer {
    let caller = |actor, from| Caller { actor, from, shown: None, trace: None };
    let Ok(peer) = stream.peer_cred() else {
        return Peer::Member(caller("unknown".to_owned(), "local".to_owned()));
    };
    let from = peer.pid().map_or_else(|| "local".to_owned(), |pid| format!("local, process {pid}"));
    let uid = Uid::from_raw(peer.uid());
    let name = spawn_blocking(move || user_name(uid)).await;
    let caller = caller(name.unwrap_or_else(|_| format!("uid {uid}")), from);
    if uid.is_root() || uid == Uid::effective() { Peer::Owner(caller) } else { Peer::Member(caller) }
}

impl FromRequestParts<Api> for Api {
    type Rejection = ApiError;

    /// The API for whoever asks: what is asked of the driver is in the caller's name.
    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let (Some(peer), Some(asked)) =
            (parts.extensions.get::<Peer>().cloned(), parts.extensions.get::<Asked>().copied())
        else {
            return Err(ApiError::internal("the controller does not know who asks for what"));
        };
        let (caller, role, scope) = match peer {
            Peer::Owner(caller) => (caller, Role::Admin, Scope::default()),
            Peer::Member(caller) => with_role(api, caller, api.config.socket_role, asked, parts.uri.path())?,
            Peer::Allowed(caller, role) => {
                within_rate(api, &caller)?;
                with_role(api, caller, role, asked, parts.uri.path())?
            }
            Peer::Remote(address, certificate) => {
                let credential = credential(parts, certificate)?;
                let names = parts.extract_with_state::<RawPathParams, Api>(api).await;
                let names = names.map_err(|error| ApiError::invalid(error.to_string()))?;
                admitted(api, credential, address, (asked, parts.uri.path()), &names).await?
            }
        };
        let caller = Caller { trace: parts.extensions.get::<TraceContext>().copied(), ..caller };
        Ok(Api { driver: api.driver.of(caller), role, scope, ..api.clone() })
    }
}

/// Refuses somebody without a token who asks too often.
fn within_rate(api: &Api, Caller { actor, .. }: &Caller) -> Result<(), ApiError> {
    api.rate_limit.take(actor, Instant::now()).map_err(|wait| {
        ApiError::after(wait, format!("{actor} asks too often: 100 requests a second are allowed"))
    })
}

/// Lets a client without a token in, if the role is enough.
fn with_role(
    api: &Api,
    caller: Caller,
    role: Role,
    Asked(operation, route): Asked,
    path: &str,
) -> Result<(Caller, Role, Scope), ApiError> {
    if role >= route.role {
        return Ok((caller, role, Scope::default()));
    }
    let why = format!("needs role {}: {} has role {}", route.role.as_str(), caller.actor, role.as_str());
    api.driver.of(caller).not_let_in(format!("{operation:?}"), path, &why);
    Err(ApiError::forbidden(why))
}

/// A token goes before a certificate.
fn credential(parts: &Parts, certificate: Option<Arc<ClientCertificate>>) -> Result<Credential, ApiError> {
    if let Some(token) = bearer(parts) {
        return Ok(Credential::Token(token));
    }
    match certificate {
        Some(certificate) if !parts.headers.contains_key(AUTHORIZATION) => {
            if is_of_a_page(&parts.headers) {
                return Err(ApiError::unauthorized(
                    "a page in a browser cannot ask with a certificate: log in to the console",
                ));
            }
            if certificate.has_ended() {
                return Err(ApiError::unauthorized("the certificate has expired: ask your CA for a new one"));
            }
            Ok(Credential::Certificate(certificate))
        }
        Some(_) | None => {
            Err(ApiError::unauthorized("this needs a user's token: 'muster login', or MUSTER_TOKEN"))
        }
    }
}

/// The token of the request, if it has one.
fn bearer(parts: &Parts) -> Option<UserToken> {
    let text = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { token.trim().parse().ok() } else { None }
}

/// The name that a credential is for, as far as it is known, and what is shown.
async fn named(api: &Api, credential: Credential) -> Result<(String, Shown), ApiError> {
    match credential {
        Credential::Token(token) => {
            let shown = Shown::Token(token.digest());
            Ok((token.name, shown))
        }
        Credential::Certificate(certificate) => {
            let first = certificate.names.first().cloned().unwrap_or_default();
            let user =
                api.driver.query(move |site| site.user_of_certificate(&certificate.names).cloned()).await?;
            Ok((user.unwrap_or(first), Shown::Certificate))
        }
    }
}

/// The user with this credential, if the role is enough, and what the path names is within reach.
async fn admitted(
    api: &Api,
    credential: Credential,
    address: IpAddr,
    (Asked(operation, route), path): (Asked, &str),
    names: &RawPathParams,
) -> Result<(Caller, Role, Scope), ApiError> {
    let (name, shown) = named(api, credential).await?;
    let (asked, asked_at) = (name.clone(), Instant::now());
    if let Shown::Token(token) = &shown {
        api.wrong_tokens.may_show(address, token, asked_at).map_err(|wait| {
            ApiError::after(
                wait,
                "too many tokens that do not count come from there: 100 a second are looked at",
            )
        })?;
    }
    let user = api.driver.query(move |site| site.user_role(&asked, &shown, now())).await?;
    let (role, scope) = match user {
        Ok(user) => {
            if let Shown::Token(token) = shown {
                api.wrong_tokens.counts(token, asked_at);
            }
            user
        }
        Err(why) => {
            if let Shown::Token(token) = &shown {
                api.wrong_tokens.does_not_count(address, token, asked_at);
            }
            let (actor, from) = (stranger(&name), address.to_string());
            let asks = api.driver.of(Caller { actor, from, shown: None, trace: None });
            asks.not_let_in(format!("{operation:?}"), path, why);
            return Err(ApiError::unauthorized(why));
        }
    };
    let caller = Caller { actor: name, from: address.to_string(), shown: Some(shown), trace: None };
    if let Err(wait) = api.rate_limit.take(&caller.actor, Instant::now()) {
        return Err(ApiError::after(
            wait,
            format!("{} asks too often: 100 requests a second are allowed", caller.actor),
        ));
    }
    let why = match reaches(api, &scope, &route, names).await? {
        _ if role < route.role => {
            format!("needs role {}: {} has role {}", route.role.as_str(), caller.actor, role.as_str())
        }
        Ok(()) => return Ok((caller, role, scope)),
        Err(refusal) => refusal.to_string(),
    };
    api.driver.of(caller).not_let_in(format!("{operation:?}"), path, &why);
    Err(ApiError::forbidden(why))
}

/// Whether a user with this scope reaches what the path names.
async fn reaches(
    api: &Api,
    scope: &Scope,
    route: &Route,
    names: &RawPathParams,
) -> Result<Result<(), Refusal>, ApiError> {
    if scope.is_whole() {
        return Ok(Ok(()));
    }
    let named = |key: &str| names.iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
    let scope = scope.clone();
    if let Some(stack) = named("stack") {
        let stack = stack_name(stack)?;
        Ok(api.driver.query(move |site| site.reaches_stack(&scope, &stack)).await?)
    } else if let Some(node) = named("node") {
        let node = node_name(node)?;
        Ok(api.driver.query(move |site| site.sees_node(&scope, &node)).await?)
    } else if route.for_parts {
        Ok(Ok(()))
    } else {
        Ok(Err(Refusal::Forbidden(beyond(&scope))))
    }
}
