//! Who asks, and whether they may. On the socket it is the user of the connected process, as the kernel says; over the
//! network whoever has a user's token. Decides that a request without a token, or with too small a role, is refused.
//!
//! Absent: which role a request needs (`controller/api/src/route.rs`), which tokens count
//! (`controller/engine/src/user.rs`), and who may use the socket (`server.rs`).

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use muster_api::route::Operation;
use muster_api::user::Role;
use muster_shared::user_token::UserToken;
use nix::unistd::{Uid, User};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::Api;
use super::error::ApiError;
use super::token::now;
use crate::driver::Caller;

/// The most characters shown of a name that nobody has checked.
const CLAIMED_MAX: usize = 64;

/// The other end of a connection.
#[derive(Clone)]
pub(super) enum Peer {
    /// A process on this machine: it may use the socket, so it may do everything.
    Local(Caller),
    /// Somebody at this address, who has to show a token.
    Remote(IpAddr),
}

/// What is asked for, and the role that it needs; with each route.
#[derive(Clone, Copy)]
pub(super) struct Needs(pub Operation, pub Role);

/// The caller at the other end of the socket. A name is looked up, which may take time.
pub(super) async fn of_socket(stream: &UnixStream) -> Peer {
    let Ok(peer) = stream.peer_cred() else {
        return Peer::Local(Caller { actor: "unknown".to_owned(), from: "local".to_owned(), token: None });
    };
    let from = peer.pid().map_or_else(|| "local".to_owned(), |pid| format!("local, process {pid}"));
    let uid = Uid::from_raw(peer.uid());
    let known = spawn_blocking(move || User::from_uid(uid).ok().flatten()).await;
    let name = known.ok().flatten().map(|user| user.name);
    Peer::Local(Caller { actor: name.unwrap_or_else(|| format!("uid {uid}")), from, token: None })
}

impl FromRequestParts<Api> for Api {
    type Rejection = ApiError;

    /// The API for whoever asks: what is asked of the driver is in the caller's name.
    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let (Some(peer), Some(needs)) = (parts.extensions.get::<Peer>(), parts.extensions.get::<Needs>())
        else {
            return Err(ApiError::internal("the controller does not know who asks for what"));
        };
        let (caller, role) = match peer {
            Peer::Local(caller) => (caller.clone(), Role::Admin),
            Peer::Remote(address) => {
                let token = bearer(parts).ok_or_else(|| {
                    ApiError::unauthorized("this needs a user's token: 'muster login', or MUSTER_TOKEN")
                })?;
                admitted(api, token, *address, (*needs, parts.uri.path())).await?
            }
        };
        Ok(Api { driver: api.driver.of(caller), role, ..api.clone() })
    }
}

/// The token of the request, if it has one.
fn bearer(parts: &Parts) -> Option<UserToken> {
    let text = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { token.trim().parse().ok() } else { None }
}

/// The user with this token, if the role is enough.
async fn admitted(
    api: &Api,
    token: UserToken,
    address: IpAddr,
    (Needs(operation, needed), path): (Needs, &str),
) -> Result<(Caller, Role), ApiError> {
    let (hash, name) = (token.digest(), token.name.clone());
    let role = api.driver.query(move |site| site.user_role(&token.name, &hash, now())).await?;
    let role = match role {
        Ok(role) => role,
        Err(why) => {
            let claimed: String = name.chars().take(CLAIMED_MAX).flat_map(char::escape_default).collect();
            let (actor, from) = (format!("unknown ({claimed})"), address.to_string());
            let stranger = api.driver.of(Caller { actor, from, token: None });
            stranger.not_let_in(format!("{operation:?}"), path, why);
            return Err(ApiError::unauthorized(why));
        }
    };
    let caller = Caller { actor: name, from: address.to_string(), token: Some(hash) };
    if role >= needed {
        return Ok((caller, role));
    }
    let why = format!("needs role {}: {} has role {}", needed.as_str(), caller.actor, role.as_str());
    api.driver.of(caller).not_let_in(format!("{operation:?}"), path, &why);
    Err(ApiError::forbidden(why))
}
