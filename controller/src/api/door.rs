//! The doors of a site: each address of the network leads to one. Behind one are the API and the console, behind another
//! ONOS's REST, which asks the API in this process.
//!
//! Absent: the addresses (`server.rs`), and what is behind the doors (`mod.rs`, `controller/console`, `controller/onos-api`).

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::http::Extensions;
use axum::response::Response;
use tower::ServiceExt as _;

use super::caller::Peer;

/// What a listener leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// The API and the console: `controller.api`, and the socket.
    #[default]
    Api,
    /// ONOS's REST: `controller.onos_api`.
    Onos,
}

impl Door {
    /// The setting that has its address.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Api => "controller.api",
            Self::Onos => "controller.onos_api",
        }
    }
}

/// Leads each request to what is behind its door.
pub(super) fn behind(main: Router, onos: Router) -> Router {
    Router::new().fallback(async move |request: Request| match request.extensions().get::<Door>() {
        Some(Door::Onos) => entered(onos, request).await,
        Some(Door::Api) | None => entered(main, request).await,
    })
}

async fn entered(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never as Infallible {},
    }
}

/// ONOS's REST, which asks this API.
pub(super) fn onos(api: Router) -> Router {
    muster_onos_api::router(api, muster_onos_api::Host { peer })
}

/// Who is at the other end: a user with a token, or with a certificate.
fn peer(extensions: &Extensions) -> Option<Extensions> {
    let peer = extensions.get::<Peer>()?.clone();
    let mut extensions = Extensions::new();
    extensions.insert(peer);
    Some(extensions)
}
