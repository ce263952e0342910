use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_engine::JoinAsk;
use muster_shared::join::JoinToken;
use muster_shared::model::Down;
use muster_shared::seal::SealPublic;
use muster_shared::{MonoTime, NodeId};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::driver::{self, Driver, Outbox};
use crate::link::intake;
use crate::store::{Database, Location};

mod files;
mod flows;
mod intents;
mod operating;
mod size;

/// No resources: COMPLETE as soon as it is accepted.
const EMPTY: &str = "\
heat_template_version: 2018-08-31
parameters:
  greeting: {type: string, default: hello}
  secret: {type: string, default: hush, hidden: true}
outputs:
  said: {value: {get_param: greeting}}
";

/// Waits for a node that never joins.
const WAITING: &str = "\
heat_template_version: 2018-08-31
resources:
  motd:
    type: Muster::Dummy
    properties: {node: web-1}
";

struct Nowhere;

impl Outbox for Nowhere {
    fn send(&self, _: &NodeId, _: u64, _: &[Down]) {}
    fn send_chunk(&self, _: crate::link::Grant) {}
    fn close(&self, _: &NodeId) {}
}

/// A controller without agents.
struct World {
    folder: TempDir,
    key: crate::store::DataKey,
    driver: DriverHandle,
    pki: Arc<Pki>,
    socket: Socket,
    api: ApiHandle,
    events: intake::Feed,
    refused: RefusedPackets,
}

impl World {
    async fn new() -> Self {
        Self::with(config()).await
    }

    async fn with(config: ApiConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("muster.db");
        let store = Database::sqlite(&database, &folder.path().join("secrets.key")).unwrap();
        let key = store.key();
        let pki = Arc::new(Pki::open(folder.path()).unwrap());
        let (driver, inbox) = driver::channel();
        let (events, from_link) = intake::channel(intake::fair::Bounds::default());
        let (commits, arrivals) = (store.commits(), from_link.arrivals());
        let engine_config = |epoch| muster_engine::Config {
            epoch,
            epoch_bits: 1,
            starts: muster_engine::Starts::default(),
            seed: [1; 32],
            limits: muster_engine::Limits::default(),
        };
        let engine = Driver::new(store, Nowhere, engine_config).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(engine.run(inbox, from_link));
        });
        let refused = RefusedPackets::default();
        let config = ApiConfig { refused: refused.clone(), commits, arrivals, ..config };
        let reader = Reader::open(&Location::Sqlite(database.clone()), &key).unwrap();
        let socket = socket(folder.path().join("api.sock"));
        let api = serve(&socket, config, driver.clone(), reader, Arc::clone(&pki)).unwrap();
        Self { folder, key, driver, pki, socket, api, events, refused }
    }

    fn reader(&self) -> Reader {
        Reader::open(&Location::Sqlite(self.folder.path().join("muster.db")), &self.key).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("api.sock")
    }

    async fn ask(&self, line: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(&self.socket(), line, &body).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(&format!("GET {path}"), &Value::Null).await
    }

    async fn create(&self, name: &str, template: &str) -> (u16, Value) {
        self.ask("POST /v1/stacks", &json!({"name": name, "template": {"name": "t.yaml", "text": template}}))
            .await
    }

    /// A server joins; its agent is never there.
    async fn join(&self, name: &str) {
        let (_, answer) = self.ask("POST /v1/tokens", &json!({"ttl": 60, "uses": 1, "name": name})).await;
        let token: JoinToken = answer["token"].as_str().unwrap().parse().unwrap();
        let ask = JoinAsk {
            token_id: token.id.0,
            secret: token.secret,
            name: name.parse().unwrap(),
            seal_public: SealPublic([7; 32]),
            agent_version: "1".to_owned(),
            moves: false,
            wall: 0,
        };
        self.driver.request(muster_engine::Request::Join(ask)).await.unwrap();
    }

    async fn stop(self) {
        let socket = self.socket();
        self.api.stop().await;
        self.socket.close().await;
        self.driver.stop().await;
        assert!(!socket.exists());
    }
}

/// The socket of a process with two sites.
fn socket(path: PathBuf) -> Socket {
    let names = ["default", "hall-b"].map(|name| name.parse().unwrap());
    Socket::new(path, names.into(), tokio::runtime::Handle::current())
}

fn config() -> ApiConfig {
    let share = Share::new("c1".to_owned(), std::iter::empty());
    share.owns(&SiteName::default());
    ApiConfig {
        site: SiteName::default(),
        share,
        name: "c1".to_owned(),
        tenure: Tenure::for_good(),
        store: "sqlite:/muster.db".to_owned(),
        addresses: vec!["controller.example.org:8883".to_owned()],
        broker: None,
        link: "direct".to_owned(),
        health: watch::channel(Health::Connected("here".to_owned())).1,
        body_max: 64 * 1024,
        template_max: 16 * 1024,
        flow_rules_max: 100,
        api_ca: None,
        socket_role: Role::Admin,
        heat_without_token: None,
        api_client_ca: false,
        oidc: None,
        session: Duration::from_secs(1),
        refused: RefusedPackets::default(),
        commits: Durations::default(),
        arrivals: intake::channel(intake::fair::Bounds::default()).1.arrivals(),
        agents: None,
        history: History::default(),
        telemetry: Telemetry::off(),
    }
}

async fn ask(socket: &Path, line: &str, body: &str) -> (u16, Value) {
    ask_with(socket, line, "", body).await
}

/// With a line more in the head.
async fn ask_with(socket: &Path, line: &str, header: &str, body: &str) -> (u16, Value) {
    let (head, body) = exchange(socket, line, header, body).await;
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body)
}

/// The answer's head, and its body.
async fn exchange(socket: &Path, line: &str, header: &str, body: &str) -> (String, Value) {
    let (head, body) = exchange_text(socket, line, header, body).await;
    let value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head}: {body}"));
    (head, value)
}

/// The same, where the body is not JSON.
async fn exchange_text(socket: &Path, line: &str, header: &str, body: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\n{header}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_stack_from_create_to_delete() {
    let world = World::new().await;
    let (status, begun) = world.create("web", EMPTY).await;
    assert_eq!(status, 202);
    assert_eq!(
        (&begun["name"], &begun["action"], &begun["revision"]),
        (&json!("web"), &json!("CREATE"), &json!(1))
    );

    let (_, view) = world.get("/v1/stacks/web").await;
    assert_eq!((&view["id"], &view["status"]), (&begun["id"], &json!("COMPLETE")));
    assert_eq!(view["parameters"], json!({"greeting": "hello", "secret": "******"}));
    assert!(view["created_at"].as_str().unwrap().ends_with('Z'), "{view}");
    assert_eq!(world.get("/v1/stacks/web/outputs").await.1[0]["value"], "hello");
    let (_, list) = world.get("/v1/stacks").await;
    assert_eq!((&list[0]["name"], &list[0]["outputs"]), (&json!("web"), &Value::Null));

    let (_, template) = world.get("/v1/stacks/web/template").await;
    assert_eq!((&template["template"], &template["revision"]), (&json!(EMPTY), &json!(1)));
    assert_eq!(template["parameters"], Value::Null, "there may be secrets among them");
    assert_eq!(world.get("/v1/stacks/web/template?revision=9").await.0, 404);

    let (_, events) = world.get("/v1/stacks/web/events").await;
    let last = events.as_array().unwrap().last().unwrap();
    assert_eq!((&last["action"], &last["status"]), (&json!("CREATE"), &json!("COMPLETE")));
    let after = format!("/v1/stacks/web/events?after={}", last["number"]);
    assert_eq!(world.get(&after).await, (200, json!([])));

    let (status, begun) = world.ask("DELETE /v1/stacks/web", &Value::Null).await;
    assert_eq!((status, &begun["action"]), (202, &json!("DELETE")));
    let watch = format!("/v1/stacks/web/watch?seq=0&traversal={}", begun["traversal"]);
    let (status, gone) = world.get(&watch).await;
    assert_eq!((status, &gone["action"], &gone["status"]), (200, &json!("DELETE"), &json!("COMPLETE")));
    let gone = format!("/v1/stacks/web/events?after={}&id={}", last["number"], begun["id"].as_str().unwrap());
    let (_, events) = world.get(&gone).await;
    let stages: Vec<String> =
        events.as_array().unwrap().iter().map(|e| format!("{} {}", e["action"], e["status"])).collect();
    assert_eq!(
        stages,
        [r#""DELETE" "IN_PROGRESS""#, r#""DELETE" "COMPLETE""#],
        "who follows a stack reads its end"
    );
    for path in [
        "",
        "/watch",
        "/template",
        "/outputs",
        "/events",
        "/graph",
        "/revisions",
        "/failures",
        "/resources",
        "/resources/x",
    ] {
        let path = format!("/v1/stacks/{}{path}", if path == "/watch" { "other" } else { "web" });
        let (status, answer) = world.get(&path).await;
        assert_eq!((status, &answer["error"]["class"]), (404, &json!("not_found")), "{path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn an_update_takes_what_is_not_given_from_the_current_revision() {
    let world = World::new().await;
    let template = json!({"name": "t.yaml", "text": EMPTY});
    let more = EMPTY.replace("greeting", "word");
    world
        .ask("POST /v1/stacks", &json!({"name": "web", "template": template, "parameters": {"secret": "s"}}))
        .await;
    let rows = [
        (json!({"existing": true, "parameters": {"greeting": "hi"}}), "hi"),
        (json!({"existing": true}), "hi"),
        (json!({"existing": true, "clear_parameters": ["greeting"]}), "hello"),
        (json!({"existing": true, "clear_parameters": ["greeting"], "parameters": {"greeting": "hi"}}), "hi"),
        (json!({"existing": true, "template": {"name": "t.yaml", "text": more}}), "hello"),
        (json!({"template": template, "parameters": {"greeting": "yo"}}), "yo"),
        (
            json!({"existing": true, "template": {"name": "t.yaml", "text": more}, "clear_parameters": ["greeting"]}),
            "hello",
        ),
        (json!({}), "hello"),
    ];
    for (revision, (body, said)) in (2..).zip(rows) {
        let (status, begun) = world.ask("PUT /v1/stacks/web", &body).await;
        assert_eq!((status, &begun["revision"]), (202, &json!(revision)), "{body} {begun}");
        assert_eq!(world.get("/v1/stacks/web/outputs").await.1[0]["value"], said, "{body}");
    }
    let (status, begun) = world.ask("POST /v1/stacks/web/rollback", &json!({"to": 2})).await;
    assert_eq!((status, &begun["action"]), (202, &json!("ROLLBACK")));
    assert_eq!(world.get("/v1/stacks/web/outputs").await.1[0]["value"], "hi");
    assert_eq!(world.ask("PUT /v1/stacks/other", &json!({})).await.0, 404);
    world.stop().await;
}

#[tokio::test]
async fn a_watch_answers_when_something_changes() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    let (_, view) = world.get("/v1/stacks/web/watch").await;
    assert_eq!((&view["status"], &view["active"][0]["name"]), (&json!("IN_PROGRESS"), &json!("motd")));
    let path = format!("/v1/stacks/web/watch?seq={}", view["seq"]);
    let body = json!({"template": {"name": "t.yaml", "text": EMPTY}});
    let (changed, _) = tokio::join!(world.get(&path), world.ask("PUT /v1/stacks/web", &body));
    assert_eq!(changed.0, 200);
    assert_ne!(changed.1["seq"], view["seq"]);
    world.stop().await;
}

#[tokio::test]
async fn a_watch_does_not_hold_up_the_end() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    let (_, view) = world.get("/v1/stacks/web/watch").await;
    let (socket, path) = (world.socket(), format!("GET /v1/stacks/web/watch?seq={}", view["seq"]));
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    stream.write_all(format!("{path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    // Answered in turn: the watch was taken up before.
    assert_eq!(world.get("/v1/stacks").await.0, 200);
    world.stop().await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn resources_are_found_by_name_and_by_physical_id() {
    let world = World::new().await;
    world.create("web", WAITING).await;
    let (_, rows) = world.get("/v1/stacks/web/resources?all=true").await;
    assert_eq!((&rows[0]["name"], &rows[0]["type"]), (&json!("motd"), &json!("Muster::Dummy")));
    assert_eq!(world.get("/v1/stacks/web/resources?status=FAILED").await, (200, json!([])));
    for key in ["motd", rows[0]["physical_id"].as_str().unwrap()] {
        assert_eq!(world.get(&format!("/v1/stacks/web/resources/{key}")).await, (200, rows[0].clone()));
    }
    assert_eq!(world.get("/v1/nodes").await, (200, json!([])));
    assert_eq!(world.get("/v1/nodes/web-1").await.0, 404);
    assert_eq!(world.get("/v1/version").await.1["version"], env!("CARGO_PKG_VERSION"));
    world.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_by_class() {
    let world = World::new().await;
    world.create("web", EMPTY).await;
    let stack = |name: &str, text: &str| json!({"name": name, "template": {"name": "t.yaml", "text": text}});
    let mut late = stack("late", EMPTY);
    late["options"] = json!({"timeout": 0});
    let mut strict = stack("strict", WAITING);
    strict["options"] = json!({"require_nodes": true});
    for (line, body, status, class) in [
        ("POST /v1/stacks", stack("web", EMPTY), 409, "conflict"),
        ("POST /v1/stacks", stack("1web", EMPTY), 400, "invalid"),
        ("POST /v1/stacks", stack("other", "resources: {}"), 400, "invalid"),
        ("POST /v1/stacks", stack("big", &"#".repeat(64 * 1024)), 400, "invalid"),
        ("POST /v1/stacks", late, 400, "invalid"),
        ("POST /v1/stacks", strict, 409, "conflict"),
        ("POST /v1/stacks", json!([]), 400, "invalid"),
        (
            "POST /v1/stacks",
            json!({"name": "x", "template": {"name": "t", "text": EMPTY}, "extra": 1}),
            400,
            "invalid",
        ),
        ("PUT /v1/stacks/web", json!({"parameters": {"greting": "x"}}), 400, "invalid"),
        ("POST /v1/stacks/web/rollback", json!({"to": 9}), 404, "not_found"),
        ("GET /v1/stacks/1web", Value::Null, 400, "invalid"),
        ("GET /v1/stacks/web/events?after=x", Value::Null, 400, "invalid"),
        ("GET /v1/stacks/web/watch?seq=-1", Value::Null, 400, "invalid"),
        ("GET /v1/elsewhere", Value::Null, 404, "not_found"),
        ("PATCH /v1/stacks", Value::Null, 400, "invalid"),
        ("DELETE /v1/stacks/other", Value::Null, 404, "not_found"),
        ("DELETE /v1/tokens/0000000000000000", Value::Null, 404, "not_found"),
        ("DELETE /v1/tokens/zz", Value::Null, 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 0, "uses": 1}), 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 9, "uses": 0}), 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 9, "uses": 1, "name": "Web 1"}), 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 9, "uses": 1, "labels": {"a": "b,c"}}), 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 9, "uses": 1, "labels": {"": "b"}}), 400, "invalid"),
        ("POST /v1/tokens", json!({"ttl": 9, "uses": 1, "rate": "10/d"}), 400, "invalid"),
    ] {
        let answer = world.ask(line, &body).await;
        assert_eq!((answer.0, &answer.1["error"]["class"]), (status, &json!(class)), "{line} {}", answer.1);
        assert!(!answer.1["error"]["message"].as_str().unwrap().is_empty(), "{line}");
    }
    let (_, answer) = world.create("bad", &WAITING.replace("Dummy", "Dumy")).await;
    let error = &answer["error"]["errors"][0];
    assert_eq!(
        (&error["file"], &error["line"], &error["path"]),
        (&json!("t.yaml"), &json!(4), &json!("resources.motd.type"))
    );
    assert_eq!(world.get("/v1/stacks").await.1.as_array().unwrap().len(), 1, "nothing has changed");
    world.stop().await;
}

#[tokio::test]
async fn tokens_are_told_once() {
    let world = World::new().await;
    let body = json!({"ttl": 3600, "uses": 2, "name": "web-*", "labels": {"role": "web"}, "rate": "30/m"});
    let (status, answer) = world.ask("POST /v1/tokens", &body).await;
    assert_eq!(status, 201);
    let token: JoinToken = answer["token"].as_str().unwrap().parse().unwrap();
    assert_eq!((&token.site, token.ca_fingerprint), (world.pki.site(), world.pki.fingerprint()));
    assert_eq!(token.addresses[0].as_str(), "controller.example.org:8883");
    let (_, list) = world.get("/v1/tokens").await;
    let expires = answer["expires"].clone();
    assert!(expires.as_str().unwrap().ends_with('Z'), "{expires}");
    assert_eq!(
        list,
        json!([{"id": token.id.to_string(), "expires": expires, "uses_left": 2, "name": "web-*", "labels": {"role": "web"}, "rate": "30/m"}])
    );
    let (status, _) = world.ask(&format!("DELETE /v1/tokens/{}", token.id), &Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(world.get("/v1/tokens").await, (200, json!([])));
    world.stop().await;
}

#[tokio::test]
async fn the_socket_is_for_root_and_a_group_and_has_one_owner() {
    let world = World::new().await;
    let place = world.socket();
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o660);
    let again = |socket: &Socket| {
        serve(socket, config(), world.driver.clone(), world.reader(), Arc::clone(&world.pki))
    };
    assert!(matches!(again(&socket(place.clone())), Err(SocketError::InUse(path)) if path == place));
    let (file, stale) = (world.folder.path().join("file"), world.folder.path().join("stale"));
    std::fs::write(&file, "").unwrap();
    assert!(matches!(again(&socket(file.clone())), Err(SocketError::NotASocket(path)) if path == file));
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let second = socket(stale.clone());
    let api = again(&second).unwrap();
    assert_eq!(ask(&stale, "GET /v1/version", "").await.0, 200);
    api.stop().await;
    second.close().await;
    // Whoever waits for that hears it also afterwards.
    timeout(Duration::from_secs(20), second.ended()).await.unwrap();
    world.stop().await;
}

/// The status of the answer to a request by another user than root.
async fn asked_by(uid: u32, socket: &Path, arguments: &[&str]) -> String {
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"]).arg(socket).args(arguments);
    let output = curl.uid(uid).gid(uid).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn others_than_root_have_the_role_of_the_settings_on_the_socket() {
    const NOBODY: u32 = 65_534;
    let world = World::new().await;
    std::fs::set_permissions(world.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let label = ["-X", "PATCH", "http://x/v1/nodes/web-9", "-d", "{\"labels\": {}}"];
    let users = ["http://x/v1/users"];
    for (role, reads, changes, lists_users) in [
        (Role::Viewer, "200", "403", "403"),
        (Role::Operator, "200", "404", "403"),
        (Role::Admin, "200", "404", "200"),
    ] {
        let place = world.folder.path().join(role.as_str());
        let socket = socket(place.clone());
        let config = ApiConfig { socket_role: role, ..config() };
        let api =
            serve(&socket, config, world.driver.clone(), world.reader(), Arc::clone(&world.pki)).unwrap();
        chown(&place, None, Some(NOBODY)).unwrap();
        assert_eq!(asked_by(NOBODY, &place, &["http://x/v1/status"]).await, reads, "{role:?}");
        assert_eq!(asked_by(NOBODY, &place, &label).await, changes, "{role:?}");
        assert_eq!(asked_by(NOBODY, &place, &users).await, lists_users, "{role:?}");
        assert_eq!(asked_by(0, &place, &users).await, "200", "root, {role:?}");
        api.stop().await;
        socket.close().await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_header_says_for_which_site_a_request_is() {
    let world = World::new().await;
    let get = async |site: &str| {
        let line = "GET /v1/status";
        ask_with(&world.socket(), line, &format!("muster-site: {site}\r\n"), "").await
    };
    assert_eq!(get("default").await.0, 200);
    let (status, answer) = get("hall-b").await;
    assert_eq!(
        (status, answer["error"]["message"].as_str().unwrap()),
        (503, "site hall-b starts, or changes its controller")
    );
    let (status, answer) = get("hall-c").await;
    assert_eq!(
        (status, answer["error"]["message"].as_str().unwrap()),
        (404, "there is no site 'hall-c' here: this controller has default, hall-b")
    );
    assert_eq!(get("../pki").await.0, 400);
    let standby = StandbyConfig {
        name: "c1".to_owned(),
        site: "hall-b".parse().unwrap(),
        id: None,
        share: Share::new("c1".to_owned(), std::iter::empty()),
        store: "postgres://db1/muster".to_owned(),
        link: "direct".to_owned(),
        tenure: Tenure::none(),
    };
    let head = async |line: &str| exchange(&world.socket(), line, "muster-site: hall-b\r\n", "").await.0;
    let may_pass =
        async |line: &str| head(line).await.to_ascii_lowercase().contains("\r\nretry-after: 1\r\n");
    assert!(may_pass("GET /v1/status").await, "it starts");
    let hall = serve_standby(&world.socket, standby).unwrap();
    let (status, answer) = get("hall-b").await;
    assert_eq!((status, answer["role"].as_str().unwrap()), (200, "standby"));
    let (answered, metrics) =
        exchange_text(&world.socket(), "GET /metrics", "muster-site: hall-b\r\n", "").await;
    assert!(
        answered.starts_with("HTTP/1.1 200 ") && metrics.contains("\nmuster_controller_active 0\n"),
        "{metrics}"
    );
    assert!(metrics.contains("\nprocess_open_fds ") && !metrics.contains("muster_nodes"), "{metrics}");
    assert!(head("DELETE /v1/stacks/web").await.starts_with("HTTP/1.1 503 "));
    assert!(may_pass("DELETE /v1/stacks/web").await, "no controller is active yet");
    assert_eq!(get("default").await.1["role"], "active");
    hall.stop().await;
    assert_eq!(get("hall-b").await.0, 503);
    world.stop().await;
}

/// A driver that takes nothing, as one that waits for its database.
#[tokio::test]
async fn requests_that_wait_for_the_driver_are_bounded() {
    let world = World::new().await;
    let (driver, _inbox) = driver::channel();
    let path = world.folder.path().join("stalled.sock");
    let (_running, stopped) = watch::channel(());
    let api = Api {
        patience: Duration::from_millis(100),
        ..Api::new(config(), driver, world.reader(), Arc::clone(&world.pki), stopped)
    };
    let (socket, room) = (socket(path.clone()), api.room.clone());
    let served = socket.serve(SiteName::default(), |_| router(api)).unwrap();
    let text = format!("{EMPTY}# {}", "x".repeat(8 * 1024));
    let body = json!({"name": "web", "template": {"name": "t.yaml", "text": text}}).to_string();
    let takes = body.len().next_multiple_of(1024);
    let mut waiting = Vec::new();
    // All of them are of one user, who has the half of it.
    let others = room.free() / 2;
    for _ in 0..others / takes {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let head = format!("POST /v1/stacks HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    while room.free() >= others + takes {
        tokio::task::yield_now().await;
    }
    let (head, answer) = exchange(&path, "POST /v1/stacks", "", &body).await;
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nretry-after: 1\r\n"), "{head}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("that one user has"), "{answer}");
    drop(waiting);
    served.stop().await;
    socket.close().await;
    world.stop().await;
}

/// The driver takes nothing, as one that waits for a database that it does not reach.
#[tokio::test]
async fn a_controller_whose_lease_is_over_says_standby() {
    let world = World::new().await;
    let (driver, _inbox) = driver::channel();
    let path = world.folder.path().join("parted.sock");
    let (_running, stopped) = watch::channel(());
    let tenure = Tenure::none();
    // A moment after the machine's boot.
    tenure.set(MonoTime(Duration::from_nanos(1)));
    let config = ApiConfig { tenure, ..config() };
    let api = Api::new(config, driver, world.reader(), Arc::clone(&world.pki), stopped);
    let socket = socket(path.clone());
    let served = socket.serve(SiteName::default(), |_| router(api)).unwrap();
    let (status, answer) = ask(&path, "GET /v1/status", "").await;
    assert_eq!((status, answer["role"].as_str()), (200, Some("standby")), "{answer}");
    assert_eq!((&answer["controllers"], &answer["site"]), (&json!([]), &json!(world.pki.site().to_string())));
    let (_, active) = world.get("/v1/status").await;
    assert_eq!(active["role"], "active");
    // Since its lease ran out.
    assert!(answer["since"].as_str() < active["since"].as_str(), "{answer} {active}");
    served.stop().await;
    socket.close().await;
    world.stop().await;
}

#[tokio::test]
async fn reads_that_wait_for_the_database_are_bounded() {
    let world = World::new().await;
    let (_running, stopped) = watch::channel(());
    let mut api = Api::new(config(), world.driver.clone(), world.reader(), Arc::clone(&world.pki), stopped);
    api.patience = Duration::from_millis(1);
    let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let gate = Arc::new(tokio::sync::RwLock::new(()));
    let closed = gate.write().await;
    for _ in 0..2 * READS_MAX {
        let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
        let read = api.read(move |_| {
            begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            drop(gate.blocking_read());
            Ok(())
        });
        let refused = read.await.unwrap_err();
        assert!(refused.retry_after.is_some() && refused.message.contains("its database"), "{refused:?}");
    }
    assert!(begun.load(std::sync::atomic::Ordering::SeqCst) <= READS_MAX);
    drop(closed);
    world.stop().await;
}

#[tokio::test]
async fn nonsense_and_silence_hurt_nobody_else() {
    let world = World::new().await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(UnixStream::connect(world.socket()).await.unwrap());
    }
    // A body that is announced and never comes holds no place.
    for stream in silent.iter_mut().take(BODIES_MAX) {
        stream.write_all(b"POST /v1/stacks HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n").await.unwrap();
    }
    for bytes in [
        &[0xff_u8; 4096][..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"POST /v1/stacks HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    ] {
        let mut stream = UnixStream::connect(world.socket()).await.unwrap();
        // It may be closed before all is written.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(world.get("/v1/stacks").await, (200, json!([])));
    let created = timeout(Duration::from_secs(20), world.create("web", EMPTY)).await;
    assert_eq!(created.unwrap().0, 202);
    drop(silent);
    world.stop().await;
}
