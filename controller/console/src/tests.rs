//! The console before an API that answers what a test says: pages, sessions and refusals without a controller.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, Path, Query, State};
use axum::http::header::{AUTHORIZATION, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::middleware::Next;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use muster_shared::user_token::UserToken;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

mod hostile;

/// A script that no page may let a browser run.
const SCRIPT: &str = "<script>alert(1)</script>\" onload=\"alert(1)";
const ESCAPED: &str = "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;alert(1)";

fn token(name: &str) -> String {
    UserToken { name: name.to_owned(), ca_fingerprint: [7; 32], secret: [9; 32] }.to_string()
}

fn who(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    sent.parse::<UserToken>().ok().map(|token| token.name)
}

/// An API with hostile texts, which knows anna and vera.
fn api() -> Router {
    let caller = async |headers: HeaderMap| match who(&headers).as_deref() {
        Some("anna") => Ok(Json(json!({"name": "anna", "role": "operator"}))),
        Some("vera") => Ok(Json(json!({"name": "vera", "role": "viewer"}))),
        _ => Err((
            StatusCode::UNAUTHORIZED,
            Json(json!({"error": {"class": "unauthorized", "message": "unknown or revoked"}})),
        )),
    };
    let stack = async |Path(name): Path<String>| {
        Json(json!({"name": name, "action": "UPDATE", "status": "IN_PROGRESS", "status_reason": SCRIPT,
            "outputs": [{"key": SCRIPT, "value": SCRIPT, "description": SCRIPT}],
            "rollouts": [{"resource": SCRIPT, "state": "going", "reason": SCRIPT}]}))
    };
    let node = async |Path(name): Path<String>| {
        Json(json!({"name": name, "state": "online", "facts": {"os": SCRIPT, "links": [
            {"name": "eth0", "up": true, "carrier": true, "neighbours": [{"system_name": SCRIPT, "port_id": SCRIPT}]}]}}))
    };
    let refused = async || {
        let body =
            json!({"error": {"class": "forbidden", "message": "needs role operator: vera has role viewer"}});
        (StatusCode::FORBIDDEN, Json(body))
    };
    // The agent of the bridge 'slow' hangs.
    async fn flows(
        Path((_, bridge)): Path<(String, String)>,
        Query(asked): Query<BTreeMap<String, String>>,
    ) -> Json<Value> {
        if bridge != "slow" {
            return Json(json!([]));
        }
        if asked["counters"] == "true" {
            std::future::pending::<()>().await;
        }
        Json(json!([{"table": 0, "priority": 77, "state": "ADDED", "selector": {}, "treatment": []}]))
    }
    let row = || json!({"name": SCRIPT, "node": SCRIPT, "status": "IN_PROGRESS", "status_reason": SCRIPT, "waits_for": [SCRIPT]});
    Router::new()
        .route("/v1/caller", get(caller))
        .route("/v1/stacks/{stack}", get(stack))
        .route("/v1/stacks/{stack}/resources", get(async move || Json(json!([row()]))))
        .route(
            "/v1/stacks/{stack}/failures",
            get(async || Json(json!([{"resource": SCRIPT, "reason": SCRIPT}]))),
        )
        .route(
            "/v1/stacks/{stack}/graph",
            get(async || Json(json!({"name": SCRIPT, "nodes": [{"id": "1", "name": SCRIPT}]}))),
        )
        .route("/v1/stacks/{stack}/check", post(refused))
        .route("/v1/nodes/{node}", get(node))
        .route("/v1/nodes/{node}/resources", get(async || Json(json!([]))))
        .route(
            "/v1/nodes/{node}/events",
            get(async || {
                Json(json!([{"stack": SCRIPT, "resource": SCRIPT, "status": "FAILED", "reason": SCRIPT}]))
            }),
        )
        .route("/v1/drift", get(async || Json(json!([]))))
        .route("/v1/topology", get(async || Json(json!({}))))
        .route(
            "/v1/intents",
            get(async || {
                Json(json!([{"key": "a", "state": "INSTALLED", "broken": SCRIPT}, {"key": "b", "state": "INSTALLED"}]))
            }),
        )
        .route("/v1/devices/{node}/{bridge}", get(async || Json(json!({"device": "web-1/br0"}))))
        .route("/v1/devices/{node}/{bridge}/flows", get(flows))
}

fn bytes() -> Option<[u8; 32]> {
    static NEXT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
    Some([NEXT.fetch_add(1, Relaxed); 32])
}

fn console() -> Router {
    let (_, stopped) = watch::channel(());
    with(api(), Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped })
}

async fn ask(console: &Router, path: &str, cookie: &str, form: Option<&[(&str, &str)]>) -> Response<Body> {
    let mut request = Request::builder().uri(path).header(COOKIE, cookie);
    let mut body = Body::empty();
    if let Some(form) = form {
        request = request.method("POST").header("content-type", "application/x-www-form-urlencoded");
        let pairs: Vec<String> =
            form.iter().map(|(key, value)| format!("{key}={}", muster_front::escaped(value))).collect();
        body = Body::from(pairs.join("&"));
    }
    console.clone().oneshot(request.body(body).unwrap()).await.unwrap()
}

async fn text(answer: Response<Body>) -> String {
    String::from_utf8(to_bytes(answer.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap()
}

/// The cookie of somebody who has logged in, and the key of their forms.
async fn log_in(console: &Router, name: &str) -> (String, String) {
    let form = [("token", token(name)), ("next", "/console/stacks/web".to_owned())];
    let form = form.each_ref().map(|(key, value)| (*key, &**value));
    let answer = ask(console, "/console/login", "", Some(&form)).await;
    assert_eq!(
        (answer.status(), answer.headers().get(LOCATION)),
        (StatusCode::SEE_OTHER, "/console/stacks/web".parse().as_ref().ok())
    );
    let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
    for part in ["__Host-muster", "Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let page = text(ask(console, "/console/stacks/web", &cookie, None).await).await;
    let (_, rest) = page.split_once("name=\"key\" value=\"").unwrap_or_else(|| panic!("{page}"));
    (cookie, rest.split('"').next().unwrap().to_owned())
}

#[tokio::test]
async fn every_text_is_shown_as_text() {
    let console = console();
    let (cookie, _) = log_in(&console, "anna").await;
    let page = text(ask(&console, "/console/stacks/web", &cookie, None).await).await;
    assert!(!page.contains("<script>alert") && !page.contains("\" onload"), "{page}");
    assert!(page.matches(ESCAPED).count() > 8, "{page}");
}

/// There is no route here that asks an agent: a page that is kept up to date must not.
#[tokio::test]
async fn a_node_is_shown_as_it_told_last() {
    let console = console();
    let (cookie, _) = log_in(&console, "anna").await;
    let page = text(ask(&console, "/console/nodes/web-1", &cookie, None).await).await;
    assert!(page.contains("eth0") && page.contains("1 interface"), "{page}");
    assert!(!page.contains("<script>alert") && page.matches(ESCAPED).count() >= 2, "{page}");
}

#[tokio::test]
async fn nobody_is_let_in_without_a_session() {
    let console = console();
    for cookie in
        ["", "__Host-muster=", "__Host-muster=x", "__Host-muster=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
    {
        for path in ["/console", "/console/stacks/web?x=1", "/console/live?page=/console", "/console/nowhere"]
        {
            let answer = ask(&console, path, cookie, None).await;
            assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{path} {cookie}");
            let there = answer.headers()[LOCATION].to_str().unwrap();
            assert!(there.starts_with("/console/login?next=%2Fconsole"), "{there}");
        }
        let form = [("key", ""), ("does", "check")];
        let answer = ask(&console, "/console/stacks/web", cookie, Some(&form)).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    }
    for (token, status) in
        [(token("mallory"), StatusCode::UNAUTHORIZED), ("x".to_owned(), StatusCode::BAD_REQUEST)]
    {
        let answer = ask(&console, "/console/login", "", Some(&[("token", &token)])).await;
        assert_eq!(answer.status(), status);
        assert!(answer.headers().get(SET_COOKIE).is_none());
    }
}

#[tokio::test]
async fn a_form_counts_for_its_own_session_alone() {
    let console = console();
    let ((anna, key_of_anna), (vera, key_of_vera)) =
        (log_in(&console, "anna").await, log_in(&console, "vera").await);
    for (cookie, key, says) in [
        (&vera, &key_of_vera, "needs role operator"),
        (&vera, &key_of_anna, "another session"),
        (&anna, &key_of_vera, "another session"),
        (&anna, &String::new(), "another session"),
    ] {
        let answer =
            ask(&console, "/console/stacks/web", cookie, Some(&[("key", key), ("does", "check")])).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        assert!(text(answer).await.contains(says), "{says}");
    }
    let unknown =
        ask(&console, "/console/stacks/web", &anna, Some(&[("key", &key_of_anna), ("does", "burn")])).await;
    assert_eq!(unknown.status(), StatusCode::BAD_REQUEST);
    let page = text(ask(&console, "/console/stacks/web", &vera, None).await).await;
    let (_, main) = page.split_once("<main").unwrap();
    assert!(!main.contains("<button"), "a viewer has none");
}

#[tokio::test]
async fn who_logs_out_is_out() {
    let console = console();
    let (cookie, key) = log_in(&console, "anna").await;
    ask(&console, "/console/logout", &cookie, Some(&[("key", "x")])).await;
    assert_eq!(ask(&console, "/console/stacks/web", &cookie, None).await.status(), StatusCode::OK);
    let answer = ask(&console, "/console/logout", &cookie, Some(&[("key", &key)])).await;
    assert!(answer.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(ask(&console, "/console/stacks/web", &cookie, None).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn paths_and_sizes_that_nobody_types() {
    let console = console();
    let (cookie, key) = log_in(&console, "anna").await;
    for path in [
        "/console/..%2f..%2fv1%2fusers",
        "/console/stacks/..%2f..%2fusers",
        "/console/nodes/%00",
        "/console/live?page=/v1/users",
    ] {
        let answer = ask(&console, path, &cookie, None).await;
        assert!(
            answer.status().is_client_error() || answer.status().is_success(),
            "{path} {}",
            answer.status()
        );
        assert!(!text(answer).await.contains("\"role\""), "{path}");
    }
    for path in
        ["/console/devices/web-1/br0?from=18446744073709551615", "/console/intents?from=18446744073709551615"]
    {
        assert_eq!(ask(&console, path, &cookie, None).await.status(), StatusCode::OK, "{path}");
    }
    let large = "x".repeat(4 << 20);
    for (path, cookie, bytes) in [
        ("/console/stacks/web/update", &*cookie, large.len()),
        ("/console/stacks/web/update", "", 9000),
        ("/console/login", &*cookie, 9000),
        ("/console/nodes/web-1", &*cookie, 9000),
    ] {
        let form = [("key", &*key), ("template", &large[..bytes])];
        let answer = ask(&console, path, cookie, Some(&form)).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
}

#[tokio::test]
async fn a_flow_table_is_there_without_what_its_agent_does_not_tell() {
    let console = console();
    let (cookie, _) = log_in(&console, "vera").await;
    let page = text(ask(&console, "/console/devices/web-1/slow", &cookie, None).await).await;
    assert!(page.contains("77") && page.contains("has told no counters yet"), "{page}");
}

#[tokio::test]
async fn an_intent_whose_packets_go_elsewhere_is_seen_in_the_list() {
    let console = console();
    let (cookie, _) = log_in(&console, "vera").await;
    let page = text(ask(&console, "/console/intents", &cookie, None).await).await;
    assert_eq!(page.matches("badge bad").count(), 1, "{page}");
    assert!(page.contains(">broken<") && !page.contains(SCRIPT), "{page}");
}

#[tokio::test]
async fn the_console_is_for_the_network_alone() {
    let (_, stopped) = watch::channel(());
    let console = with(api(), Host { site: String::new(), random: bytes, peer: |_| None, stopped });
    for (path, form) in
        [("/", None), ("/console/login", None), ("/console/login", Some(&[("token", "x")][..]))]
    {
        let answer = ask(&console, path, "", form).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert!(text(answer).await.contains("address of the API"));
    }
    assert_eq!(
        ask(&console, "/v1/caller", "", None).await.status(),
        StatusCode::UNAUTHORIZED,
        "the API is there"
    );
}

#[tokio::test]
async fn headers_forbid_what_no_page_needs() {
    let console = console();
    for path in ["/console/login", "/console/console.js", "/console"] {
        let answer = ask(&console, path, "", None).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert!(
            header("content-security-policy").starts_with("default-src 'none'; style-src 'self'"),
            "{path}"
        );
        assert!(!header("content-security-policy").contains("unsafe"));
        assert_eq!((&*header("x-content-type-options"), &*header("x-frame-options")), ("nosniff", "DENY"));
    }
}

/// A form of which no more bytes come.
#[tokio::test(start_paused = true)]
async fn a_slow_form_has_its_time() {
    let console = console();
    let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let request = Request::post("/console/login").body(body).unwrap();
    assert_eq!(console.oneshot(request).await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

/// A browser hears of the changes of a page, and of its end.
#[tokio::test(start_paused = true)]
async fn a_page_is_kept_up_to_date_until_its_user_is_out() {
    let console = console();
    let (cookie, key) = log_in(&console, "anna").await;
    let listen = async |path: &str| ask(&console, path, &cookie, None).await;
    let page = text(ask(&console, "/console/stacks/web", &cookie, None).await).await;
    let (_, rest) = page.split_once("data-mark=\"").unwrap();
    let mark = rest.split('"').next().unwrap().to_owned();

    // A browser that has another one gets the page.
    let mut events = listen("/console/live?page=/console/stacks/web&mark=x").await.into_body();
    let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
    let event = String::from_utf8(frame.to_vec()).unwrap();
    assert!(
        event.starts_with("event: main\n") && event.contains(ESCAPED) && !event.contains("<main"),
        "{event}"
    );
    drop(events);

    // One that has this one hears nothing, until the user has logged out.
    let answer = listen(&format!("/console/live?page=/console/stacks/web&mark={mark}")).await;
    ask(&console, "/console/logout", &cookie, Some(&[("key", &key)])).await;
    let heard = text(answer).await;
    assert!(heard.contains("event: ended") && !heard.contains("event: main"), "{heard}");
}

/// The requests for `/v1/stacks/web`: how they are answered, and how many are open.
struct Watch {
    /// So many are refused with this status.
    refused: Mutex<(usize, StatusCode)>,
    asked: AtomicUsize,
    /// Under way now, and at most.
    open: AtomicUsize,
    most: AtomicUsize,
    /// The controller runs until this is dropped.
    _running: watch::Sender<()>,
}

impl Watch {
    fn refuses(&self, times: usize, status: StatusCode) {
        *self.refused.lock().unwrap() = (times, status);
        self.asked.store(0, Relaxed);
    }

    async fn see(State(watch): State<Arc<Self>>, request: Request<Body>, next: Next) -> Response<Body> {
        if request.uri().path() != "/v1/stacks/web" {
            return next.run(request).await;
        }
        watch.asked.fetch_add(1, Relaxed);
        {
            let mut refused = watch.refused.lock().unwrap();
            if let Some(left) = refused.0.checked_sub(1) {
                refused.0 = left;
                let error = json!({"error": {"class": "unavailable", "message": "not now"}});
                return (refused.1, Json(error)).into_response();
            }
        }
        watch.most.fetch_max(watch.open.fetch_add(1, Relaxed) + 1, Relaxed);
        // An answer takes its time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answer = next.run(request).await;
        watch.open.fetch_sub(1, Relaxed);
        answer
    }
}

fn watched_console() -> (Arc<Watch>, Router) {
    let (running, stopped) = watch::channel(());
    let watch = Arc::new(Watch {
        refused: Mutex::new((0, StatusCode::OK)),
        asked: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        _running: running,
    });
    let api = api().layer(middleware::from_fn_with_state(Arc::clone(&watch), Watch::see));
    (
        watch,
        with(api, Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_busy_controller_is_asked_again() {
    let (watch, console) = watched_console();
    let (cookie, _) = log_in(&console, "anna").await;
    let heard = async || {
        let live = "/console/live?page=/console/stacks/web&mark=x";
        let mut events = ask(&console, live, &cookie, None).await.into_body();
        let frame = events.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    };
    for busy in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INTERNAL_SERVER_ERROR] {
        watch.refuses(3, busy);
        assert!(heard().await.starts_with("event: main\n"), "{busy}");
        assert_eq!(watch.asked.load(Relaxed), 4, "{busy}");
    }
    for over in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND] {
        watch.refuses(3, over);
        assert!(heard().await.starts_with("event: ended\n"), "{over}");
        assert_eq!(watch.asked.load(Relaxed), 1, "{over}");
    }
    // A controller that stays busy is not asked for ever.
    watch.refuses(usize::MAX, StatusCode::SERVICE_UNAVAILABLE);
    let live = ask(&console, "/console/live?page=/console/stacks/web&mark=x", &cookie, None).await;
    let heard = text(live).await;
    assert!(heard.contains("event: ended") && !heard.contains("event: main"), "{heard}");
    assert!((40..=62).contains(&watch.asked.load(Relaxed)), "{:?}", watch.asked);
}

#[tokio::test(start_paused = true)]
async fn a_user_looks_at_one_page_at_a_time() {
    let (watch, console) = watched_console();
    let (cookie, _) = log_in(&console, "anna").await;
    let look = async || {
        let live = "/console/live?page=/console/stacks/web&mark=x";
        let mut events = ask(&console, live, &cookie, None).await.into_body();
        let event = events.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(event.starts_with(b"event: main\n"), "{event:?}");
    };
    join_all((0..3).map(|_| look())).await;
    assert_eq!(watch.most.load(Relaxed), 1);
}

/// A stack that somebody else updates between the console's look at it and the console's update.
fn crossed_api(revision: &Arc<AtomicU32>, begun: &Arc<AtomicU32>) -> Router {
    let (at, begins) = (Arc::clone(revision), Arc::clone(begun));
    let template =
        async move || Json(json!({"revision": at.load(Relaxed), "name": "t.yaml", "template": "a: 1"}));
    let at = Arc::clone(revision);
    let update = async move |Json(body): Json<Value>| {
        let now = if at.load(Relaxed) == 6 { at.fetch_add(1, Relaxed) + 1 } else { at.load(Relaxed) };
        if body["revision"].as_u64().is_some_and(|wanted| wanted != u64::from(now)) {
            let message = format!("stack 'web' is at revision {now}, not {}: look again", body["revision"]);
            let error = json!({"error": {"class": "conflict", "message": message}});
            return (StatusCode::CONFLICT, Json(error));
        }
        begins.store(now, Relaxed);
        (StatusCode::ACCEPTED, Json(json!({"name": "web", "action": "UPDATE"})))
    };
    let preview =
        async || Json(json!({"counts": {"update": 1}, "resources": [{"name": "a", "change": "update"}]}));
    api()
        .route("/v1/stacks/{stack}/template", get(template))
        .route("/v1/stacks/{stack}/preview", post(preview))
        .route("/v1/stacks/{stack}", axum::routing::put(update))
}

#[tokio::test]
async fn an_update_of_somebody_else_in_between_is_previewed_again() {
    let (revision, begun) = (Arc::new(AtomicU32::new(6)), Arc::new(AtomicU32::new(0)));
    let (_running, stopped) = watch::channel(());
    let api = crossed_api(&revision, &begun);
    let console =
        with(api, Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped });
    let (cookie, key) = log_in(&console, "anna").await;
    let mark = |page: &str| {
        let (_, rest) = page.split_once("name=\"previewed\" value=\"").unwrap_or_else(|| panic!("{page}"));
        rest.split('"').next().unwrap().to_owned()
    };
    let send = async |path: &str, previewed: &str| {
        let form = [("key", &*key), ("template", "a: 2"), ("previewed", previewed)];
        ask(&console, path, &cookie, Some(&form)).await
    };
    let first = mark(&text(send("/console/stacks/web/update", "").await).await);
    let answer = send("/console/stacks/web/update/start", &first).await;
    assert_eq!((answer.status(), begun.load(Relaxed)), (StatusCode::OK, 0));
    let page = text(answer).await;
    assert!(page.contains("Nothing was started: look again."), "{page}");
    let second = mark(&page);
    assert_ne!(first, second);
    let answer = send("/console/stacks/web/update/start", &second).await;
    assert_eq!((answer.status(), begun.load(Relaxed)), (StatusCode::SEE_OTHER, 7));
}

/// Stacks under way come first, and each is on one page.
#[tokio::test]
async fn rollouts_have_pages() {
    let list = async |Query(query): Query<BTreeMap<String, String>>| {
        let first = if query["status"] == "FAILED" { 'a' } else { 'b' };
        let names = (0..60).map(|number| format!("{first}{number:03}"));
        let names = names.filter(|name| query.get("marker").is_none_or(|marker| name > marker));
        let rows = names.take(query["limit"].parse().unwrap()).map(|name| json!({"name": name}));
        Json(rows.collect::<Vec<_>>())
    };
    let (_running, stopped) = watch::channel(());
    let host = Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped };
    let console = with(api().route("/v1/stacks", get(list)), host);
    let (cookie, _) = log_in(&console, "anna").await;
    let (mut next, mut seen) = (Some("/console/rollouts".to_owned()), Vec::new());
    while let Some(path) = next {
        let page = text(ask(&console, &path, &cookie, None).await).await;
        let links = page.split("Stack <a href=\"/console/stacks/").skip(1);
        let names: Vec<String> = links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
        assert!(!names.is_empty() && names.len() <= 50, "{path}: {names:?}");
        seen.extend(names);
        let rest = page.split_once("rel=\"next\" href=\"").map(|(_, rest)| rest);
        next = rest.map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&"));
    }
    let all = ['b', 'a'].into_iter().flat_map(|first| (0..60).map(move |n| format!("{first}{n:03}")));
    assert_eq!(seen, all.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_page_that_nobody_clicks_on_keeps_no_session() {
    let (_, stopped) = watch::channel(());
    let host = Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped };
    let mut console =
        Console { api: api(), host, sessions: Arc::default(), room: Room::new(1), began: Instant::now() };
    let id = [3; 32];
    let session = session::Session::new("anna".to_owned(), token("anna"), String::new());
    console.sessions().begin(Duration::ZERO, &id, session);
    let cookie = format!("__Host-muster={}", data_encoding::BASE64URL_NOPAD.encode(&id));
    let mut visit = async |minutes: u64, path: &str| {
        console.began = Instant::now() - Duration::from_secs(60 * minutes);
        let (mut parts, ()) = Request::get(path).header(COOKIE, &cookie).body(()).unwrap().into_parts();
        login::Visitor::from_request_parts(&mut parts, &console).await.is_ok()
    };
    assert!(visit(20, "/console/live?page=/console").await);
    assert!(!visit(40, "/console/live?page=/console").await, "half an hour without a click");
}

/// A browser sends the cookies of a host to each of its ports.
#[tokio::test]
async fn a_browser_is_logged_in_at_two_sites_of_one_host() {
    let (_running, stopped) = watch::channel(());
    let of = |site: &str| {
        let (site, stopped) = (site.to_owned(), stopped.clone());
        with(api(), Host { site, random: bytes, peer: |_| Some(Extensions::new()), stopped })
    };
    let (first, hall) = (of(""), of("hall-b"));
    let ((one, _), (other, key)) = (log_in(&first, "anna").await, log_in(&hall, "anna").await);
    assert!(one.starts_with("__Host-muster=") && other.starts_with("__Host-muster.hall-b="), "{one} {other}");
    let both = format!("{one}; {other}");
    for (console, name) in [(&first, "Muster</a>"), (&hall, "Muster hall-b</a>")] {
        let page = text(ask(console, "/console/stacks/web", &both, None).await).await;
        assert!(page.contains(name), "{name}: {page}");
    }
    let out = ask(&hall, "/console/logout", &both, Some(&[("key", &key)])).await;
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().starts_with("__Host-muster.hall-b=;"));
    for (console, status) in [(&first, StatusCode::OK), (&hall, StatusCode::SEE_OTHER)] {
        assert_eq!(ask(console, "/console/stacks/web", &both, None).await.status(), status);
    }
}

/// Nothing of the console is left once the site is served elsewhere.
#[tokio::test]
async fn the_console_goes_with_its_router() {
    let (running, stopped) = watch::channel(());
    let console =
        with(api(), Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped });
    log_in(&console, "anna").await;
    drop(console);
    running.closed().await;
}
