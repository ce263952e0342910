//! Logs in with OpenID Connect: sends the browser to the provider's page, and takes it back from there. Decides that it
//! is the same browser: what the login began with is in a cookie of its own, and the provider sends a part of that
//! back.
//!
//! Absent: what the provider is asked (`controller/src/oidc.rs`).

use std::fmt;

use axum::extract::{Query, State};
use axum::http::header::{HOST, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, Method, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use data_encoding::BASE64URL_NOPAD;
use muster_api::login::{BeginInBrowser, BrowserCode, BrowserLogin, LogIn, LoggedIn};
use serde::Deserialize;

use crate::Console;
use crate::login::{LoginQuery, NO_RANDOM, cookie_of, open_session, page};

/// The cookie of a login that is under way.
const COOKIE_NAME: &str = "__Host-muster-login";
/// The seconds that somebody may take at the provider's page.
const TIME: u64 = 600;
/// The most characters of what a provider says went wrong.
const SHOWN_MAX: usize = 200;

/// The beginning of a login. It is the browser's own: neither another site's page nor a script of ours reads it.
struct Begun {
    state: String,
    nonce: String,
    verifier: String,
    /// The page to go on to.
    next: String,
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.state, &self.nonce, &self.verifier, &self.next];
        f.write_str(&parts.map(|part| BASE64URL_NOPAD.encode(part.as_bytes())).join("."))
    }
}

impl Begun {
    fn read(text: &str) -> Option<Self> {
        let part = |text: &str| String::from_utf8(BASE64URL_NOPAD.decode(text.as_bytes()).ok()?).ok();
        let parts: Vec<String> = text.split('.').map(part).collect::<Option<_>>()?;
        let [state, nonce, verifier, next] = parts.try_into().ok()?;
        Some(Self { state, nonce, verifier, next })
    }

    /// Random, and of one use: time tells nothing of value.
    fn is_of(&self, state: &str) -> bool {
        !state.is_empty() && blake3::hash(self.state.as_bytes()) == blake3::hash(state.as_bytes())
    }
}

/// The address to which the provider sends the browser back. The provider knows which addresses of this kind there
/// are.
fn redirect_uri(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(HOST)?.to_str().ok()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']');
    host.chars().all(fits).then(|| format!("https://{host}/console/login/oidc/callback"))
}

fn cookie(console: &Console, value: &str, seconds: u64) -> String {
    let name = console.cookie_name(COOKIE_NAME);
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}")
}

/// GET /console/login/oidc
pub async fn begin(
    State(console): State<Console>,
    extensions: Extensions,
    headers: HeaderMap,
    Query(query): Query<LoginQuery>,
) -> Response {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return page(&console, &extensions, StatusCode::FORBIDDEN, "/console", Some(ELSEWHERE)).await;
    }
    let Some(redirect_uri) = redirect_uri(&headers) else {
        return page(&console, &extensions, StatusCode::BAD_REQUEST, query.page(), Some(NO_HOST)).await;
    };
    let api = console.api_for(&extensions, "");
    match api.send::<BrowserLogin>(Method::POST, "/v1/login/browser", &BeginInBrowser { redirect_uri }).await
    {
        Ok(BrowserLogin { address, state, nonce, verifier }) => {
            let begun = Begun { state, nonce, verifier, next: query.page().to_owned() };
            (
                AppendHeaders([(SET_COOKIE, cookie(&console, &begun.to_string(), TIME))]),
                Redirect::to(&address),
            )
                .into_response()
        }
        Err(problem) => {
            page(&console, &extensions, problem.status, query.page(), Some(&problem.message)).await
        }
    }
}

const NO_HOST: &str = "The request does not say which host it is for.";
const ELSEWHERE: &str = "Another site's page began this login: begin it here.";
const FOREIGN: &str =
    "This login did not begin in this browser, or took more than ten minutes: begin it again.";

/// The parameters with which the provider sends the browser back.
#[derive(Deserialize)]
pub struct Callback {
    #[serde(default)]
    state: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    error: String,
}

/// GET /console/login/oidc/callback
pub async fn end(
    State(console): State<Console>,
    extensions: Extensions,
    headers: HeaderMap,
    Query(Callback { state, code, error }): Query<Callback>,
) -> Response {
    let begun = cookie_of(&headers, &console.cookie_name(COOKIE_NAME)).and_then(Begun::read);
    let begun = begun.filter(|begun| begun.is_of(&state));
    let (Some(Begun { nonce, verifier, next, .. }), Some(redirect_uri)) = (begun, redirect_uri(&headers))
    else {
        return page(&console, &extensions, StatusCode::FORBIDDEN, "/console", Some(FOREIGN)).await;
    };
    let query = LoginQuery { next };
    let refused = async |status, why: &str| {
        let form = page(&console, &extensions, status, query.page(), Some(why)).await;
        (AppendHeaders([(SET_COOKIE, cookie(&console, "", 0))]), form).into_response()
    };
    if !error.is_empty() {
        let said: String = error.chars().take(SHOWN_MAX).collect();
        return refused(
            StatusCode::UNAUTHORIZED,
            &format!("The identity provider refuses the login: {said}."),
        )
        .await;
    }
    let api = console.api_for(&extensions, "");
    let asked = LogIn::Browser(BrowserCode { code, nonce, verifier, redirect_uri });
    let LoggedIn { name, token, .. } = match api.send(Method::POST, "/v1/login", &asked).await {
        Ok(done) => done,
        Err(problem) => return refused(problem.status, &problem.message).await,
    };
    let Some(session) = open_session(&console, &headers, name, token) else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, NO_RANDOM).await;
    };
    let cookies = [(SET_COOKIE, session), (SET_COOKIE, cookie(&console, "", 0))];
    (AppendHeaders(cookies), Redirect::to(query.page())).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn what_a_login_began_with_is_read_as_it_was_written() {
        let begun = Begun {
            state: "s".into(),
            nonce: "n".into(),
            verifier: "v-_".into(),
            next: "/console/stacks?x=;=.".into(),
        };
        let text = begun.to_string();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')), "{text}");
        let read = Begun::read(&text).unwrap();
        assert_eq!(
            (read.state, read.nonce, read.verifier, read.next),
            ("s".into(), "n".into(), "v-_".into(), begun.next.clone())
        );
        assert!(begun.is_of("s") && !begun.is_of("t") && !begun.is_of(""));
        for text in ["", "a.b", "a.b.c.d.e", "a.b.c.*"] {
            assert!(Begun::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_way_back_is_to_the_host_that_was_asked() {
        for (host, wanted) in [
            ("c1.example.org:8443", Some("https://c1.example.org:8443/console/login/oidc/callback")),
            ("[2001:db8::1]", Some("https://[2001:db8::1]/console/login/oidc/callback")),
            ("c1/x?", None),
            ("c1@evil", None),
        ] {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert_eq!(redirect_uri(&headers).as_deref(), wanted);
        }
    }
}
