//! The console beside the API: what it needs of the controller.
//!
//! Absent: its pages, sessions and forms (`controller/console`).

use axum::Router;
use axum::http::Extensions;
use muster_console::Host;
use tokio::sync::watch;

use super::authorization::Peer;
use crate::random::random;
use crate::site_name::SiteName;

/// The API of a site, and the console that asks it, until `stopped` changes.
pub(super) fn with(api: Router, site: &SiteName, stopped: watch::Receiver<()>) -> Router {
    let site = if *site == SiteName::default() { String::new() } else { site.to_string() };
    muster_console::with(api, Host { site, random: || random().ok(), peer: remote, stopped })
}

/// Over the network users show a token. Who is on this machine may do everything without one.
fn remote(extensions: &Extensions) -> Option<Extensions> {
    let Some(Peer::Remote(address, _)) = extensions.get::<Peer>() else { return None };
    let mut extensions = Extensions::new();
    // A page never acts with the certificate of the browser that shows it.
    extensions.insert(Peer::Remote(*address, None));
    Some(extensions)
}
