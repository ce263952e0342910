//! The login: the form, the cookie, and the visitor that each page gets. A user logs in with the token that
//! `muster user create` printed; the API says whether it counts, then and with every request.
//!
//! Absent: logins at an identity provider (`oidc.rs`), and how long a session lasts (`session.rs`).

use axum::Form;
use axum::extract::{FromRef, FromRequestParts, Query, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use data_encoding::BASE64URL_NOPAD;
use muster_api::login::LoginView;
use muster_api::user::{CallerView, Role};
use muster_front::escaped;
use muster_shared::user_token::UserToken;
use serde::Deserialize;

use crate::Console;
use crate::client::{Client, Problem};
use crate::frame;
use crate::session::{Activity, Id, LONGEST, Session};

/// The cookie: of this host alone, over TLS alone, and no script reads it.
const COOKIE_NAME: &str = "__Host-muster";
/// Without these no session can begin.
pub const NO_RANDOM: &str = "The controller's system gives no random numbers.";
/// Marks a request of `live.rs` for the main part of a page.
#[derive(Clone, Copy)]
pub struct Look;

/// Whoever is at the browser, logged in.
pub struct Visitor {
    /// The API in their name.
    pub api: Client,
    /// The user, with their role.
    pub caller: CallerView,
    /// The key of their forms.
    pub form_key: String,
    /// The page that was asked for.
    pub uri: Uri,
    /// Only the main part of the page is query.
    pub is_part: bool,
    /// See [`Host::site`](crate::Host::site).
    pub site: String,
}

impl Visitor {
    /// Whether they may do what operators may.
    pub fn is_operator(&self) -> bool {
        self.caller.role >= Role::Operator
    }

    /// The form was made for this session.
    ///
    /// # Errors
    /// [`Problem`], for the user.
    pub fn check(&self, form_key: &str) -> Result<(), Problem> {
        // Both are random and of one length; time tells nothing of value about a key that lasts for a session.
        if blake3::hash(form_key.as_bytes()) == blake3::hash(self.form_key.as_bytes()) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "this form is of another session: go back, load the page again, and repeat it",
        ))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor
where
    Console: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let console = Console::from_ref(state);
        let uri = parts.uri.clone();
        let is_part = parts.extensions.get::<Look>().is_some();
        let is_page = is_part || uri.path() == "/console/live";
        let by = if is_page { Activity::Page } else { Activity::Person };
        let found = session_id(&console, &parts.headers)
            .and_then(|id| console.sessions().find(console.now(), &id, by));
        let next =
            if parts.method == Method::GET { address(&uri) } else { uri.path().trim_end_matches("/start") };
        let Some(session) = found else { return Err(to_login(next)) };
        let api = console.api_for(&parts.extensions, &session.token);
        match api.get::<CallerView>("/v1/caller").await {
            Ok(caller) => {
                Ok(Self { api, caller, form_key: session.form_key, uri, is_part, site: console.host.site })
            }
            // The token has expired, or was revoked.
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(to_login(next)),
            Err(problem) => {
                Err(frame::alone(problem.status, "The controller does not answer", &problem.message))
            }
        }
    }
}

fn to_login(next: &str) -> Response {
    Redirect::to(&format!("/console/login?next={}", escaped(next))).into_response()
}

/// A page with what is asked of it.
pub fn address(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/console", |address| address.as_str())
}

/// The session that a request belongs to.
pub fn user(console: &Console, headers: &HeaderMap) -> Option<String> {
    console.sessions().user(console.now(), &session_id(console, headers)?)
}

/// The value of a cookie of the browser.
pub fn cookie_of<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    Some(pairs.find(|(name, _)| *name == wanted)?.1)
}

/// The id in the cookie, if there is one.
fn session_id(console: &Console, headers: &HeaderMap) -> Option<Id> {
    let text = cookie_of(headers, &console.cookie_name(COOKIE_NAME))?;
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The most bytes of an address to go on to: a cookie keeps it.
const NEXT_MAX: usize = 1024;

/// The parameters after the question mark.
#[derive(Deserialize)]
pub struct LoginQuery {
    #[serde(default)]
    pub next: String,
}

impl LoginQuery {
    /// The page to go on to: one of the console, and of no other site.
    pub fn page(&self) -> &str {
        let is_ours = self.next == "/console"
            || self.next.starts_with("/console/")
            || self.next.starts_with("/console?");
        let fits = self.next.len() <= NEXT_MAX && !self.next.contains(['\\', '\r', '\n']);
        if is_ours && fits { &self.next } else { "/console" }
    }
}

/// GET /console/login
pub async fn form(
    State(console): State<Console>,
    extensions: Extensions,
    Query(query): Query<LoginQuery>,
) -> Response {
    page(&console, &extensions, StatusCode::OK, query.page(), None).await
}

/// The form, with a way to the identity provider if there is one.
pub async fn page(
    console: &Console,
    extensions: &Extensions,
    status: StatusCode,
    next: &str,
    error: Option<&str>,
) -> Response {
    let view = console.api_for(extensions, "").get::<LoginView>("/v1/login").await;
    frame::login(status, &console.host.site, next, error, view.is_ok_and(|view| view.issuer.is_some()))
}

/// The filled form.
#[derive(Deserialize)]
pub struct LoginForm {
    token: String,
    #[serde(flatten)]
    query: LoginQuery,
}

/// POST /console/login
pub async fn begin(
    State(console): State<Console>,
    extensions: Extensions,
    headers: HeaderMap,
    Form(LoginForm { token, query }): Form<LoginForm>,
) -> Response {
    let refused =
        async |status, why: &str| page(&console, &extensions, status, query.page(), Some(why)).await;
    let token = token.trim().to_owned();
    let Ok(parsed) = token.parse::<UserToken>() else {
        return refused(
            StatusCode::BAD_REQUEST,
            "That is no user's token: paste the whole text that 'muster user create' printed.",
        )
        .await;
    };
    let api = console.api_for(&extensions, &token);
    if let Err(problem) = api.get::<CallerView>("/v1/caller").await {
        return refused(problem.status, &problem.message).await;
    }
    match open_session(&console, &headers, parsed.name, token) {
        Some(cookie) => (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(query.page())).into_response(),
        None => refused(StatusCode::SERVICE_UNAVAILABLE, NO_RANDOM).await,
    }
}

/// Begins a session of this user in place of the browser's last one. Returns the cookie; `None`: see [`NO_RANDOM`].
pub fn open_session(console: &Console, headers: &HeaderMap, user: String, token: String) -> Option<String> {
    let (id, key) = ((console.host.random)()?, (console.host.random)()?);
    let session = Session::new(user, token, BASE64URL_NOPAD.encode(&key));
    if let Some(before) = session_id(console, headers) {
        console.sessions().end(&before);
    }
    console.sessions().begin(console.now(), &id, session);
    Some(cookie(console, &BASE64URL_NOPAD.encode(&id), LONGEST.as_secs()))
}

/// The key of a form that has nothing else.
#[derive(Deserialize)]
pub struct LogoutForm {
    key: String,
}

/// POST /console/logout
pub async fn end(
    State(console): State<Console>,
    headers: HeaderMap,
    visitor: Visitor,
    Form(LogoutForm { key }): Form<LogoutForm>,
) -> Response {
    if let Err(problem) = visitor.check(&key) {
        return visitor.refused(&problem);
    }
    if let Some(id) = session_id(&console, &headers) {
        console.sessions().end(&id);
    }
    (AppendHeaders([(SET_COOKIE, cookie(&console, "", 0))]), Redirect::to("/console/login")).into_response()
}

fn cookie(console: &Console, value: &str, seconds: u64) -> String {
    let name = console.cookie_name(COOKIE_NAME);
    format!("{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_a_page_of_the_console_alone() {
        for (next, page) in [
            ("/console/stacks/web?x=1", "/console/stacks/web?x=1"),
            ("/console?selector=a", "/console?selector=a"),
            ("", "/console"),
            ("https://example.org/", "/console"),
            ("//example.org/console", "/console"),
            ("/console.example.org", "/console"),
            ("/console/\\example.org", "/console"),
            ("/v1/stacks", "/console"),
            (&format!("/console?x={}", "x".repeat(NEXT_MAX)), "/console"),
        ] {
            assert_eq!(LoginQuery { next: next.to_owned() }.page(), page, "{next}");
        }
    }
}
