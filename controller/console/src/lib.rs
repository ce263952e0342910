//! The console: pages for a browser. It is a client of the HTTP API like `muster`: each page asks the API's own router
//! in the name of whoever is logged in. So roles, bounds and the audit are the API's, and the console can do nothing
//! that the API does not let its user do.
//!
//! ```text
//! browser ── cookie ──▶ session.rs ── the user's token ──▶ client.rs ──▶ the API's router
//!                          │
//!                          ▼
//!                       page/*.rs ── HTML ──▶ frame.rs ──▶ browser;  live.rs sends the page again when it has changed
//! ```
//!
//! Absent: who may do what (`controller/api/src/route.rs`), and pictures of graphs (`controller/picture`).

mod client;
mod frame;
mod guard;
mod live;
mod login;
mod oidc;
mod page;
mod session;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Extensions;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use axum::{Router, middleware};
use muster_front::Room;
use tokio::sync::watch;

use client::Client;
use live::Live;
use session::Sessions;

/// The functions that the server of the console gives it.
#[derive(Clone)]
pub struct Host {
    /// The name of a site that is not the first one of its controller; empty for the first.
    pub site: String,
    /// Draws unpredictable bytes; `None`, if the system has none.
    pub random: fn() -> Option<[u8; 32]>,
    /// The extensions of a request that tell the API who is at the other end of the connection. `None`: not a user
    /// with a token, so the console is not for them.
    pub peer: fn(&Extensions) -> Option<Extensions>,
    /// Changes when the controller stops.
    pub stopped: watch::Receiver<()>,
}

/// Shared by all requests.
#[derive(Clone)]
struct Console {
    api: Router,
    host: Host,
    sessions: Arc<Mutex<Sessions>>,
    /// Memory for forms with templates.
    room: Room,
    /// Sessions have the time since then.
    began: Instant,
}

impl Console {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The name of a cookie. A browser keeps one of each name for a host, whatever the port, and another site of the
    /// controller may be at another port.
    fn cookie_name(&self, name: &str) -> String {
        let site = &self.host.site;
        if site.is_empty() { name.to_owned() } else { format!("{name}.{site}") }
    }

    /// The API for whoever has this token, at the other end of a connection.
    fn api_for(&self, extensions: &Extensions, token: &str) -> Client {
        Client::new(self.api.clone(), (self.host.peer)(extensions).unwrap_or_default(), token)
    }
}

/// The API, and the pages below `/console` that are made of what it answers.
pub fn with(api: Router, host: Host) -> Router {
    let (sessions, room) = (Arc::default(), Room::new(guard::TEMPLATE_FORMS));
    let console = Console { api: api.clone(), host, sessions, room, began: Instant::now() };
    // Pages that are kept up to date: none of them asks a switch.
    let pages = Router::new()
        .route("/console", get(page::fleet::show))
        .route("/console/nodes/{node}", get(page::node::show).post(page::node::change))
        .route("/console/stacks", get(page::stacks::show))
        .route("/console/stacks/{stack}", get(page::stack::show).post(page::stack::change))
        .route("/console/stacks/{stack}/resources", get(page::resources::show))
        .route("/console/stacks/{stack}/events", get(page::events::show))
        .route("/console/rollouts", get(page::rollouts::show))
        .route("/console/devices", get(page::devices::show))
        .route("/console/network", get(page::network::show))
        .route("/console/intents", get(page::intents::show))
        .route("/console/intents/{key}", get(page::intents::one))
        .route("/console/audit", get(page::audit::show))
        .with_state(console.clone());
    let live = Router::new()
        .route("/console/live", get(live::stream))
        .with_state(Live::new(console.clone(), pages.clone()));
    let others = Router::new()
        .route("/console/login", get(login::form).post(login::begin))
        .route("/console/login/oidc", get(oidc::begin))
        .route("/console/login/oidc/callback", get(oidc::end))
        .route("/console/logout", post(login::end))
        .route("/console/stacks/{stack}/update", get(page::update::form).post(page::update::preview))
        .route("/console/stacks/{stack}/update/start", post(page::update::start))
        .route("/console/devices/{node}/{bridge}", get(page::device::show))
        .route("/console/intents/{key}/verify", get(page::trace::verify))
        .route("/console/trace", get(page::trace::show))
        .route("/console/{*other}", get(page::absent))
        .with_state(console.clone());
    pages
        .merge(others)
        .merge(live)
        .route("/", get(async || Redirect::to("/console")))
        .route("/console/console.css", get(|| asset("text/css", include_str!("../assets/console.css"))))
        .route(
            "/console/idiomorph.js",
            get(|| asset("text/javascript", include_str!("../assets/idiomorph.min.js"))),
        )
        .route("/console/console.js", get(|| asset("text/javascript", include_str!("../assets/console.js"))))
        .layer(middleware::from_fn_with_state(console.clone(), guard::body))
        .layer(middleware::from_fn(guard::same_origin))
        .layer(middleware::from_fn_with_state(console, guard::refuse_the_socket))
        .merge(api)
        .layer(middleware::from_fn(guard::headers))
}

/// A file that is part of the program.
async fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "private, max-age=300")], text)
}

#[cfg(test)]
mod tests;
