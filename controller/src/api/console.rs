//! The console beside the API: what it needs of the controller.
//!
//! Absent: its pages, sessions and forms (`controller/console`).

use axum::Router;
use axum::http::Extensions;
use muster_console::Host;
use tokio::sync::watch;

use super::caller::Peer;
use crate::random::random;

/// The API, and the console that asks it, until `stopped` changes.
pub(super) fn with(api: Router, stopped: watch::Receiver<()>) -> Router {
    muster_console::with(api, Host { random: || random().ok(), peer: remote, stopped })
}

/// Over the network users show a token. Who is on this machine may do everything without one.
fn remote(extensions: &Extensions) -> Option<Extensions> {
    let Some(Peer::Remote(address, _)) = extensions.get::<Peer>() else { return None };
    let mut extensions = Extensions::new();
    // A page never acts with the certificate of the browser that shows it.
    extensions.insert(Peer::Remote(*address, None));
    Some(extensions)
}
