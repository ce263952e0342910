//! Keeps a page up to date: its main part is made again every few seconds, and sent when it is another one. A page is asked
//! for as a browser asks for it, with the same cookie: so it shows nothing that its user may not see any more.
//!
//! Absent: what a page does with that (`assets/console.js`).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Query, State};
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::Console;
use crate::login::{PART, Visitor};

/// The most pages that are kept up to date at a time; others are as they were when they were loaded.
pub const STREAMS_MAX: usize = 128;
/// Between two looks at a page.
const PAUSE: Duration = Duration::from_secs(2);
/// A comment in between, so that a browser that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);
/// The most bytes of a page.
const PAGE_MAX: usize = 4 << 20;

/// Which page.
#[derive(Deserialize)]
pub struct Wanted {
    page: String,
}

/// A page that somebody looks at.
struct Watched {
    console: Console,
    page: String,
    headers: HeaderMap,
    peer: axum::http::Extensions,
    shown: Option<blake3::Hash>,
    _place: OwnedSemaphorePermit,
}

/// GET /console/live?page=
pub async fn stream(
    State(console): State<Console>,
    visitor: Visitor,
    extensions: axum::http::Extensions,
    headers: HeaderMap,
    Query(Wanted { page }): Query<Wanted>,
) -> Response {
    if !page.starts_with("/console") || page.starts_with("/console/live") {
        return (StatusCode::BAD_REQUEST, "that is no page of the console").into_response();
    }
    let Ok(place) = std::sync::Arc::clone(&console.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are kept up to date").into_response();
    };
    drop(visitor);
    let mut kept = HeaderMap::from_iter([(PART, HeaderValue::from_static("main"))]);
    kept.extend(headers.get_all(COOKIE).iter().map(|cookie| (COOKIE, cookie.clone())));
    let peer = (console.host.peer)(&extensions).unwrap_or_default();
    let watched = Watched { console, page, headers: kept, peer, shown: None, _place: place };
    let events = stream::unfold(watched, async |mut watched| {
        let event = watched.next().await?;
        Some((Ok::<_, Infallible>(event), watched))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

impl Watched {
    /// Waits until the page is another one. `None`: its user is not logged in any more, or it is not there.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let text = self.look().await?;
            let hash = blake3::hash(text.as_bytes());
            if self.shown.replace(hash) != Some(hash) {
                return Some(Event::default().event("main").data(text));
            }
            sleep(PAUSE).await;
        }
    }

    async fn look(&self) -> Option<String> {
        let mut request = Request::builder().uri(&self.page).body(Body::empty()).ok()?;
        request.headers_mut().extend(self.headers.clone());
        request.extensions_mut().extend(self.peer.clone());
        let pages = self.console.pages.get()?.clone();
        let answer = match pages.oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        if answer.status() != StatusCode::OK {
            return None;
        }
        let bytes = to_bytes(answer.into_body(), PAGE_MAX).await.ok()?;
        String::from_utf8(bytes.into()).ok()
    }
}
