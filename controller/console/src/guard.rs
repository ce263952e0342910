//! What every answer and every change has: headers that let a browser load and send nothing else, and the rule that a change
//! comes from a page of the console itself.
//!
//! Absent: the key of each form (`login.rs`).

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

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

/// Refuses what another site's page sends.
pub async fn same_origin(request: Request, next: Next) -> Response {
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && is_foreign(request.headers()) {
        let why = "this comes from another site's page: a change begins on a page of the console";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// A browser says from which page a request comes; who says nothing is none.
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
