//! Who asks. On the socket it is the user of the connected process, as the kernel says.
//!
//! Absent: what the audit says of a request (`driver/audit.rs`), and who may use the socket (`server.rs`).

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use nix::unistd::{Uid, User};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::Api;
use super::error::ApiError;
use crate::driver::Caller;

/// The caller at the other end of the socket. A name is looked up, which may take time.
pub(super) async fn of_socket(stream: &UnixStream) -> Caller {
    let Ok(peer) = stream.peer_cred() else {
        return Caller { actor: "unknown".to_owned(), from: "local".to_owned() };
    };
    let from = peer.pid().map_or_else(|| "local".to_owned(), |pid| format!("local, process {pid}"));
    let uid = Uid::from_raw(peer.uid());
    let known = spawn_blocking(move || User::from_uid(uid).ok().flatten()).await;
    let name = known.ok().flatten().map(|user| user.name);
    Caller { actor: name.unwrap_or_else(|| format!("uid {uid}")), from }
}

impl FromRequestParts<Api> for Api {
    type Rejection = ApiError;

    /// The API for whoever asks: what is asked of the driver is in the caller's name.
    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        match parts.extensions.get::<Caller>() {
            Some(caller) => Ok(Api { driver: api.driver.of(caller.clone()), ..api.clone() }),
            None => Err(ApiError::unavailable("the controller does not know who asks")),
        }
    }
}
