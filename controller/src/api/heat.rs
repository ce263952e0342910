//! Heat's API beside ours: what it needs of the controller. Decides who counts as the caller of a request without a token.
//!
//! Absent: its paths and bodies (`controller/heat-api`).

use std::sync::Arc;

use axum::Router;
use axum::http::Extensions;
use axum::response::{IntoResponse as _, Response};
use muster_api::error::Class;
use muster_api::user::Role;
use muster_heat_api::{Fault, Host};

use super::ApiConfig;
use super::authorization::Peer;
use super::error::ApiError;
use crate::driver::Caller;

pub(super) use muster_heat_api::Scheme;

/// Bytes of a request: a template of the largest size, and its files. Heat's own default is a megabyte.
const BODY_MAX: usize = 16 << 20;
/// The audit's name for clients that the operator lets in without a token. No user has such a name.
const ANYBODY: &str = "anybody (controller.heat_api_without_token)";

/// The settings of the API that matter here.
pub(super) struct Settings {
    body_max: usize,
    template_max: usize,
    without_token: Option<Role>,
}

impl Settings {
    pub fn of(config: &ApiConfig) -> Self {
        Self {
            body_max: BODY_MAX.min(config.body_max),
            template_max: config.template_max,
            without_token: config.heat_without_token,
        }
    }
}

/// Heat's API in front of this one.
pub(super) fn router(api: Router, settings: Settings) -> Router {
    let Settings { body_max, template_max, without_token } = settings;
    let without_token = without_token.map(|role| -> muster_heat_api::Peer {
        Arc::new(move |extensions: &Extensions| extended(extensions.get().map(|peer| anybody(peer, role))))
    });
    let host = Host {
        version: env!("CARGO_PKG_VERSION"),
        body_max,
        template_max,
        peer: Arc::new(|extensions: &Extensions| extended(extensions.get::<Peer>().cloned())),
        without_token,
    };
    muster_heat_api::router(api, host)
}

fn anybody(peer: &Peer, role: Role) -> Peer {
    match peer {
        Peer::Remote(address, None) => {
            let caller =
                Caller { actor: ANYBODY.to_owned(), from: address.to_string(), shown: None, trace: None };
            Peer::Allowed(caller, role)
        }
        other => other.clone(),
    }
}

fn extended(peer: Option<Peer>) -> Extensions {
    let mut extensions = Extensions::new();
    if let Some(peer) = peer {
        extensions.insert(peer);
    }
    extensions
}

/// A refusal before there is a site, as clients of Heat read it.
pub(super) fn refusal(error: ApiError) -> Response {
    match error.class {
        Class::Invalid => Fault::invalid(error.message).into_response(),
        Class::NotFound => Fault::not_found(error.message).into_response(),
        Class::Unavailable | Class::Unauthorized | Class::Forbidden | Class::Conflict | Class::Internal => {
            Fault::later(error.message).into_response()
        }
    }
}
