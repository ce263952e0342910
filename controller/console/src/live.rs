//! Keeps a page up to date: its main part is made again every few seconds, and sent when it has changed. A page is
//! asked for as its user asks for it, with the same cookie: so it shows nothing that the user may not see any more.
//! A controller that is busy is asked again; a page that its user does not get any more is over.
//!
//! Absent: what a page does with that (`assets/console.js`).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, Query, State};
use axum::http::header::COOKIE;
use axum::http::{Extensions, HeaderMap, Request, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::{Mutex as Turn, Semaphore, watch};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::Console;
use crate::frame::mark;
use crate::login::{Look, Visitor};

/// The most pages of one user that are kept up to date: others are as they were when they were loaded.
const PAGES_MAX: usize = 8;
/// The most pages that are made again at a time, one of each user.
const LOOKS_MAX: usize = 4;
/// Between two looks at a page; longer, if a look takes long.
const PAUSE: Duration = Duration::from_secs(2);
/// A look takes at most this part of the time.
const SHARE: u32 = 20;
/// A page that could not be made for so long is over.
const PATIENCE: Duration = Duration::from_secs(120);
/// A comment in between, so that a browser that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);
/// The most bytes of a page.
const PAGE_MAX: usize = 4 << 20;

/// The console, and its pages as a browser asks for them.
#[derive(Clone)]
pub struct Live {
    console: Console,
    pages: Router,
    watched: Watched,
    looks: Arc<Semaphore>,
}

impl Live {
    /// For these pages, and no others.
    pub fn new(console: Console, pages: Router) -> Self {
        Self { console, pages, watched: Watched::default(), looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }
}

impl FromRef<Live> for Console {
    fn from_ref(live: &Live) -> Self {
        live.console.clone()
    }
}

/// The page, and the mark of the browser's copy.
#[derive(Deserialize)]
pub struct LiveQuery {
    page: String,
    #[serde(default)]
    mark: String,
}

/// GET /console/live?page=&mark=
pub async fn stream(
    State(live): State<Live>,
    visitor: Visitor,
    extensions: Extensions,
    headers: HeaderMap,
    Query(LiveQuery { page, mark }): Query<LiveQuery>,
) -> Response {
    if !page.starts_with("/console") || page.starts_with("/console/live") {
        return (StatusCode::BAD_REQUEST, "that is no page of the console").into_response();
    }
    let Some(place) = live.watched.place(&visitor.caller.name) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "this user has many pages that are kept up to date")
            .into_response();
    };
    let cookies = headers.get_all(COOKIE).iter().map(|cookie| (COOKIE, cookie.clone())).collect();
    let peer = (live.console.host.peer)(&extensions).unwrap_or_default();
    let stopped = live.console.host.stopped.clone();
    let shown = ShownPage { live, page, cookies, peer, mark, stopped, place };
    let events = stream::unfold(Some(shown), async |shown| {
        let mut shown = shown?;
        match shown.next().await {
            Some(event) => Some((Ok::<_, Infallible>(event), Some(shown))),
            // The browser does not ask again.
            None => Some((Ok(Event::default().event("ended").data("-")), None)),
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// A page that somebody looks at.
struct ShownPage {
    live: Live,
    page: String,
    cookies: HeaderMap,
    peer: Extensions,
    /// The mark of the browser's copy.
    mark: String,
    stopped: watch::Receiver<()>,
    place: Place,
}

/// The answer to a look at a page.
enum Looked {
    Made(String),
    /// The controller is busy: the page may be there later.
    Busy,
    /// The user does not get the page any more.
    Over,
}

impl ShownPage {
    /// Waits until the page has changed. `None`: its user is not logged in any more, it is not there, it could not be
    /// made for long, or the controller stops.
    async fn next(&mut self) -> Option<Event> {
        let mut made = Instant::now();
        loop {
            let began = Instant::now();
            match self.look().await {
                Looked::Made(text) => {
                    let mark = mark(&text);
                    if self.mark != mark {
                        self.mark = mark;
                        return Some(Event::default().event("main").data(text));
                    }
                    made = Instant::now();
                }
                Looked::Busy if made.elapsed() < PATIENCE => {}
                Looked::Busy | Looked::Over => return None,
            }
            let pause = PAUSE.max(began.elapsed() * SHARE);
            tokio::select! {
                () = sleep(pause) => {}
                _ended = self.stopped.changed() => return None,
            }
        }
    }

    async fn look(&self) -> Looked {
        let Ok(mut request) = Request::builder().uri(&self.page).body(Body::empty()) else {
            return Looked::Over;
        };
        // A user whose pages take long keeps no other user from looking.
        let _turn = self.place.turn.lock().await;
        let Ok(_look) = self.live.looks.acquire().await else { return Looked::Over };
        request.headers_mut().extend(self.cookies.clone());
        request.extensions_mut().extend(self.peer.clone());
        request.extensions_mut().insert(Look);
        let answer = match self.live.pages.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        match answer.status() {
            StatusCode::OK => {}
            // Not logged in any more, not allowed any more, gone.
            StatusCode::SEE_OTHER
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND => return Looked::Over,
            _ => return Looked::Busy,
        }
        match to_bytes(answer.into_body(), PAGE_MAX).await.map(|bytes| String::from_utf8(bytes.into())) {
            Ok(Ok(text)) => Looked::Made(text),
            Ok(Err(_)) | Err(_) => Looked::Busy,
        }
    }
}

/// The pages of a user that are kept up to date.
#[derive(Default)]
struct OfUser {
    count: usize,
    /// Held by the page that is looked at.
    turn: Arc<Turn<()>>,
}

/// The pages of each user that are kept up to date.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<BTreeMap<String, OfUser>>>);

/// A page of a user; it counts until this is dropped.
struct Place {
    watched: Watched,
    user: String,
    turn: Arc<Turn<()>>,
}

impl Watched {
    /// `None`: the user has as many as a user may have.
    fn place(&self, user: &str) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = all.entry(user.to_owned()).or_default();
        if of_user.count >= PAGES_MAX {
            return None;
        }
        of_user.count += 1;
        Some(Place { watched: self.clone(), user: user.to_owned(), turn: Arc::clone(&of_user.turn) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_user) = all.get_mut(&self.user) {
            of_user.count -= 1;
            if of_user.count == 0 {
                all.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_pages_and_gets_them_back() {
        let watched = Watched::default();
        let mut places: Vec<Place> = (0..PAGES_MAX).map(|_| watched.place("anna").unwrap()).collect();
        assert!(watched.place("anna").is_none());
        assert!(watched.place("vera").is_some(), "another user has room");
        places.pop();
        assert!(watched.place("anna").is_some());
        drop(places);
        assert!(watched.0.lock().unwrap().is_empty(), "nothing is kept of who is gone");
    }
}
