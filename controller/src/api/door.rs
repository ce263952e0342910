//! The doors of a site: each address of the network leads to one. Behind one are the API and the console; behind the others
//! ONOS's REST and Heat's API, which ask the API in this process.
//!
//! Absent: the addresses (`server.rs`), and what is behind the doors (`mod.rs`, `controller/console`,
//! `controller/onos-api`, `heat.rs`).

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::Extensions;
use axum::response::{IntoResponse as _, Response};
use tower::ServiceExt as _;

use super::authorization::Peer;
use super::error::ApiError;
use super::heat;

/// The service to which a listener leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// The API and the console: `controller.api`, and the socket.
    #[default]
    Api,
    /// ONOS's REST: `controller.onos_api`.
    Onos,
    /// Heat's API: `controller.heat_api`.
    Heat,
}

impl Door {
    /// The setting that has its address.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Api => "controller.api",
            Self::Onos => "controller.onos_api",
            Self::Heat => "controller.heat_api",
        }
    }

    /// The name of that service for the log.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Api => "the API",
            Self::Onos => "ONOS's REST",
            Self::Heat => "Heat's API",
        }
    }

    /// Whether connections are without TLS: clients of Heat may reach it from this machine alone.
    pub(super) fn is_plain_at(self, address: SocketAddr) -> bool {
        self == Self::Heat && address.ip().is_loopback()
    }

    /// The door that the request came through.
    pub(super) fn of(request: &Request) -> Self {
        request.extensions().get().copied().unwrap_or_default()
    }

    /// The refusal in the form that clients of this door read.
    pub(super) fn refuse(self, error: ApiError) -> Response {
        match self {
            Self::Api | Self::Onos => error.into_response(),
            Self::Heat => heat::refusal(error),
        }
    }
}

/// Leads each request to what is behind its door.
pub(super) fn behind(main: Router, onos: Router, heat: Router) -> Router {
    Router::new().fallback(async move |request: Request| match Door::of(&request) {
        Door::Onos => entered(onos, request).await,
        Door::Heat => entered(heat, request).await,
        Door::Api => entered(main, request).await,
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

/// The client at the other end: a user with a token, or with a certificate.
fn peer(extensions: &Extensions) -> Option<Extensions> {
    let peer = extensions.get::<Peer>()?.clone();
    let mut extensions = Extensions::new();
    extensions.insert(peer);
    Some(extensions)
}
