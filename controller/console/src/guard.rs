//! The rules for every request: headers that let a browser load and send nothing else, a bound of size and time for
//! each form, and the rule that a change comes from a page of the console itself.
//!
//! Absent: the key of each form (`login.rs`), and the bounds of connections, which the controller has.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use muster_front::{Bounds, NotCollected};
use tokio::time::timeout;

use crate::{Console, frame, login};

/// The most bytes of a form: keys and words of buttons, or a token.
const FORM_MAX: usize = 8 << 10;
/// The most bytes of a form with a template, which only somebody who is logged in may send.
const TEMPLATE_FORM_MAX: usize = 4 << 20;
/// Memory for all forms with templates; one user's take the half of it.
pub const TEMPLATE_FORMS: usize = 16 * TEMPLATE_FORM_MAX;
/// The time for the bytes of a form.
const FORM_TIME: Duration = Duration::from_secs(30);
/// The longest wait for room.
const FORM_PATIENCE: Duration = Duration::from_secs(10);
/// Nothing but our own style sheet and script; no text of a page is ever run.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Sets the headers of an answer.
pub async fn headers(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Without any, a browser would not say from which page a form comes.
        (REFERRER_POLICY, "same-origin"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Refuses requests at the local socket, which needs no token: the console is for the network.
pub async fn refuse_the_socket(State(console): State<Console>, request: Request, next: Next) -> Response {
    if (console.host.peer)(request.extensions()).is_none() {
        let why = "The console is for browsers, over TLS: at the address of the API.";
        return frame::alone(StatusCode::NOT_FOUND, "Not found", why);
    }
    next.run(request).await
}

/// Reads a form, within its bounds.
pub async fn body(State(console): State<Console>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let user = request
        .uri()
        .path()
        .starts_with("/console/stacks/")
        .then(|| login::user(&console, request.headers()));
    let (parts, body) = request.into_parts();
    let read = async {
        let Some(user) = user.flatten() else {
            let bytes = to_bytes(body, FORM_MAX).await;
            return Ok((bytes.map_err(|_| NotCollected::TooLong(FORM_MAX))?, None));
        };
        let form = Bounds { most: TEMPLATE_FORM_MAX, patience: FORM_PATIENCE };
        let form = console.room.collect(&user, body, form).await?;
        Ok((form.bytes.into(), form.room))
    };
    // The form's room is its own until it is answered.
    let (bytes, _room) = match timeout(FORM_TIME, read).await.unwrap_or(Err(NotCollected::Late)) {
        Ok(read) => read,
        Err(why) => return not_read(&why),
    };
    next.run(Request::from_parts(parts, Body::from(bytes))).await
}

fn not_read(why: &NotCollected) -> Response {
    match why {
        NotCollected::TooLong(_) | NotCollected::Broken(_) => frame::alone(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Too large",
            "A browser may send 4 MB here: 'muster stack update' takes larger templates.",
        ),
        NotCollected::Late => frame::alone(
            StatusCode::REQUEST_TIMEOUT,
            "Too slow",
            "The form did not arrive within 30 seconds.",
        ),
        NotCollected::NoRoom | NotCollected::ShareTaken => {
            frame::alone(StatusCode::SERVICE_UNAVAILABLE, "Too much at once", &why.to_string())
        }
    }
}

/// Refuses what another site's page sends.
pub async fn same_origin(request: Request, next: Next) -> Response {
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && is_foreign(request.headers()) {
        let why = "this comes from another site's page: a change begins on a page of the console";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// A browser says from which page a request comes. A request that names no origin does not come from a browser.
fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text(&FETCH_SITE)
        && site != "same-origin"
    {
        return true;
    }
    match (text(&ORIGIN), text(&HOST)) {
        (Some(origin), Some(host)) => origin != format!("https://{host}"),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_change_something() {
        for (sent, foreign) in [
            (&[][..], false),
            (&[("sec-fetch-site", "same-origin"), ("origin", "https://muster:8443")], false),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("origin", "https://muster:8443")], false),
            (&[("origin", "http://muster:8443")], true),
            (&[("origin", "https://muster:8443.example.org")], true),
            (&[("origin", "null")], true),
        ] {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("muster:8443"))]);
            for (name, value) in sent {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(is_foreign(&headers), foreign, "{sent:?}");
        }
    }
}
