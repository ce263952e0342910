//! Heat's API before an API that answers what a test says: requests as clients of Heat were seen to send them, and what
//! they are answered.

use std::sync::Mutex;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query};
use axum::http::header::{AUTHORIZATION, HOST, LOCATION, ORIGIN};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::put;
use data_encoding::BASE64;
use muster_shared::user_token::UserToken;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

/// The body that the client sends for `stack create web -t web.yaml -e site.yaml`, recorded from python-heatclient
/// 5.3.
const CREATE: &str = include_str!("../testdata/create.json");
/// `stack update web --existing --parameter text=b`.
const UPDATE: &str = include_str!("../testdata/update_existing.json");

/// Stack 7 is `web`; of each change the API keeps the body.
fn api(seen: &Arc<Mutex<Vec<(String, Value)>>>) -> Router {
    let caller = async |headers: HeaderMap| match who(&headers) {
        Some(name) => Ok(Json(json!({"name": name, "role": "operator"}))),
        None => Err(refused(StatusCode::UNAUTHORIZED, "unauthorized", "no token")),
    };
    let stacks = async || {
        let row = |id: u64, name: &str, status: &str| {
            json!({"id": id.to_string(), "name": name, "action": "CREATE", "status": status,
                "created_at": format!("2026-11-28T19:00:0{id}.123Z"), "updated_at": "2026-11-28T19:00:09Z"})
        };
        Json(json!([row(3, "db", "FAILED"), row(7, "web", "COMPLETE"), row(5, "lb", "COMPLETE")]))
    };
    let stack = async |Path(name): Path<String>| match &*name {
        "web" | "lb" => Ok(Json(
            json!({"id": if name == "web" { "7" } else { "5" }, "name": name, "action": "UPDATE", "status": "IN_PROGRESS",
            "created_at": "2026-11-28T19:00:07Z", "updated_at": "2026-11-28T19:00:09Z",
            "rollback": true, "timeout": 1800,
            "parameters": {"text": "a", "on": true, "list": ["a", "b"]},
            "outputs": [{"key": "said", "value": {"a": 1}, "description": ""},
                {"key": "lost", "value": null, "output_error": "t.yaml:9:12: no such key", "description": ""}]}),
        )),
        _ => Err(refused(StatusCode::NOT_FOUND, "not_found", "no stack 'gone': did you mean 'web'?")),
    };
    let resources = async || {
        let row = |name: &str, status: &str, requires: &[&str]| {
            json!({"name": name, "physical_id": format!("id of {name}"), "type": "Muster::File", "node": "web-1",
                "action": "CREATE", "status": status, "requires": requires})
        };
        Json(json!([
            row("motd", "COMPLETE", &[]),
            row("group", "INIT", &["motd"]),
            row("group/0", "COMPLETE", &["motd"]),
            row("group/1", "FAILED", &["motd"]),
        ]))
    };
    let events = async |Path(name): Path<String>,
                        Query(asked): Query<std::collections::BTreeMap<String, String>>| {
        let row = |number: u64, resource: Option<&str>, action: &str, status: &str| {
            json!({"number": number, "time": format!("2026-11-28T19:00:{number:02}Z"), "resource": resource,
                "physical_id": resource.map(|_| "id"), "action": action, "status": status, "reason": ""})
        };
        let mut all = vec![
            row(1, None, "CREATE", "IN_PROGRESS"),
            row(2, Some("motd"), "CREATE", "COMPLETE"),
            row(3, Some("group/0"), "CREATE", "COMPLETE"),
            row(4, None, "CREATE", "COMPLETE"),
        ];
        // More than a page has.
        let more = if name == "lb" { 5..2505 } else { 5..5 };
        all.extend(more.map(|number| row(number, Some("group/0"), "UPDATE", "COMPLETE")));
        let bound = |key: &str| asked.get(key).and_then(|text| text.parse::<u64>().ok());
        let in_bounds = |row: &Value| {
            let number = row["number"].as_u64().unwrap();
            number > bound("after").unwrap_or(0) && number < bound("before").unwrap_or(u64::MAX)
        };
        let mut rows: Vec<Value> = all.into_iter().filter(in_bounds).collect();
        if bound("before").is_some() {
            rows.reverse();
        }
        rows.truncate(asked.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX));
        Json(Value::from(rows))
    };
    let template = async || {
        Json(json!({"revision": 1, "name": "t.yaml", "files": {},
            "template": "heat_template_version: 2018-08-31\ndescription: a site\nresources:\n  \
                         group: {type: OS::Heat::ResourceGroup}\n"}))
    };
    let keeps = |what: &'static str, answer: Value| {
        let seen = Arc::clone(seen);
        async move |body: Bytes| {
            let body = serde_json::from_slice(&body).unwrap();
            seen.lock().unwrap().push((what.to_owned(), body));
            (StatusCode::ACCEPTED, Json(answer))
        }
    };
    let begun = json!({"name": "new", "id": "8", "action": "CREATE", "traversal": 1, "revision": 1});
    Router::new()
        .route("/v1/caller", get(caller))
        .route("/v1/stacks", get(stacks).post(keeps("create", begun.clone())))
        .route("/v1/stacks/{stack}", get(stack).merge(put(keeps("update", begun.clone()))))
        .route("/v1/stacks/{stack}/preview", post(async || Json(json!({"resources": [], "warnings": []}))))
        .route("/v1/stacks/{stack}/check", post(keeps("check", begun.clone())))
        .route("/v1/stacks/{stack}/rollback", post(keeps("rollback", begun)))
        .route("/v1/stacks/{stack}/resources", get(resources))
        .route("/v1/stacks/{stack}/events", get(events))
        .route("/v1/stacks/{stack}/template", get(template))
}

fn refused(status: StatusCode, class: &str, message: &str) -> (StatusCode, Json<Value>) {
    (status, Json(json!({"error": {"class": class, "message": message}})))
}

fn who(headers: &HeaderMap) -> Option<String> {
    let sent = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    sent.parse::<UserToken>().ok().map(|token| token.name)
}

fn token(name: &str) -> String {
    UserToken { name: name.to_owned(), ca_fingerprint: [7; 32], secret: [9; 32] }.to_string()
}

/// Heat's API, and what it asked for.
struct Front {
    router: Router,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Front {
    fn new() -> Self {
        let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let nobody: Peer = Arc::new(|_| Extensions::new());
        let host =
            Host { version: "9", body_max: 4096, template_max: 4096, peer: nobody, without_token: None };
        Self { router: router(api(&seen), host), seen }
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).header(HOST, "heat.example.org:8004");
        let request = request.header("x-auth-token", token("anna"));
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let answer = self.ask("GET", &format!("/v1/p/{path}"), "").await;
        (answer.status(), json_of(answer).await)
    }

    fn last(&self) -> (String, Value) {
        self.seen.lock().unwrap().last().cloned().unwrap()
    }
}

async fn json_of(answer: Response<Body>) -> Value {
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into()))
}

fn web() -> String {
    format!("stacks/web/{}", id::Id::Stack(7))
}

#[tokio::test]
async fn a_recorded_create_becomes_one_of_ours() {
    let front = Front::new();
    let answer = front.ask("POST", "/v1/p/stacks", CREATE).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let href = format!("https://heat.example.org:8004/v1/p/stacks/new/{}", id::Id::Stack(8));
    assert_eq!(answer.headers()[LOCATION], *href);
    let stack = json_of(answer).await;
    assert_eq!(stack["stack"]["links"][0], json!({"href": href, "rel": "self"}));
    let (what, asked) = front.last();
    assert_eq!((&*what, &asked["name"]), ("create", &json!("new")));
    assert_eq!(asked["options"]["rollback"], false);
    let text: Value = serde_json::from_str(asked["template"]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["resources"]["motd"]["type"], "Muster::File");
    let environment = &asked["environments"][0];
    assert!(environment["key"].as_str().unwrap().ends_with("/site.yaml"), "{asked}");
    assert!(environment["text"].as_str().unwrap().contains("hello"), "{asked}");
    assert_eq!(asked["environments"].as_array().unwrap().len(), 1, "the merged one does not count");
}

#[tokio::test]
async fn a_recorded_update_keeps_what_it_does_not_name() {
    let front = Front::new();
    let at = format!("/v1/p/{}", web());
    let answer = front.ask("PATCH", &at, UPDATE).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED, "{}", json_of(answer).await);
    let (what, asked) = front.last();
    assert_eq!((&*what, &asked["existing"], &asked["template"]), ("update", &json!(true), &Value::Null));
    assert_eq!((&asked["parameters"], &asked["environments"]), (&json!({"text": "b"}), &json!([])));
    assert_eq!((&asked["options"]["rollback"], &asked["options"]["timeout"]), (&json!(true), &json!(1800)));
    let said = json!({"template": "heat_template_version: 2018-08-31\n", "disable_rollback": true, "timeout_mins": 5});
    let answer = front.ask("PUT", &at, &said.to_string()).await;
    assert_eq!(answer.status(), StatusCode::ACCEPTED, "{}", json_of(answer).await);
    let options = &front.last().1["options"];
    assert_eq!((&options["rollback"], &options["timeout"]), (&json!(false), &json!(300)));
    let clears =
        json!({"clear_parameters": ["text"], "template": "heat_template_version: 2018-08-31\n"}).to_string();
    for (method, cleared) in [("PATCH", json!(["text"])), ("PUT", Value::Null)] {
        assert_eq!(front.ask(method, &at, &clears).await.status(), StatusCode::ACCEPTED);
        assert_eq!(front.last().1["clear_parameters"], cleared, "{method}");
    }
    let answer = front.ask("PUT", &at, UPDATE).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(json_of(answer).await["error"]["message"], "No template specified");
}

#[tokio::test]
async fn names_and_ids_lead_to_the_whole_path() {
    let front = Front::new();
    let nested = id::Id::nested(7, "group");
    for (asked, wanted) in [
        ("web".to_owned(), web()),
        ("web/events?marker=1&x=%2F".to_owned(), web() + "/events?marker=1&x=%2F"),
        (id::Id::Stack(7).to_string(), web()),
        (format!("{nested}/resources"), format!("stacks/web-group/{nested}/resources")),
    ] {
        let answer = front.ask("GET", &format!("/v1/p/stacks/{asked}"), "").await;
        assert_eq!(answer.status(), StatusCode::FOUND, "{asked}");
        assert_eq!(answer.headers()[LOCATION], *format!("https://heat.example.org:8004/v1/p/{wanted}"));
    }
    for asked in [
        "gone".to_owned(),
        "..%2f..%2fetc".to_owned(),
        "2f6cdd8a-4d0e-4bd5-8a4c-1cfb5a4a1a5e".to_owned(),
        id::Id::Stack(99).to_string(),
        id::Id::nested(7, "other").to_string(),
        id::Id::Event { stack: 7, number: 1 }.to_string(),
        format!("web/{}", id::Id::Stack(5)),
        format!("db/{}", id::Id::Stack(7)),
        format!("web/{}", id::Id::nested(7, "group")),
        "web/1".to_owned(),
    ] {
        let (status, body) = front.get(&format!("stacks/{asked}")).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (StatusCode::NOT_FOUND, &json!("EntityNotFound")),
            "{asked}"
        );
        assert_eq!((&body["code"], &body["title"]), (&json!(404), &json!("Not Found")));
    }
}

#[tokio::test]
async fn stacks_are_filtered_sorted_and_paged() {
    let front = Front::new();
    let names = async |query: &str| -> Vec<String> {
        let (_, body) = front.get(&format!("stacks?{query}")).await;
        let stacks = body["stacks"].as_array().unwrap_or_else(|| panic!("{query}: {body}"));
        stacks.iter().map(|stack| stack["stack_name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("").await, ["web", "lb", "db"], "the newest first");
    assert_eq!(names("sort_keys=stack_name").await, ["db", "lb", "web"]);
    assert_eq!(names("sort_keys=stack_name&sort_dir=desc").await, ["web", "lb", "db"]);
    assert_eq!(names("status=FAILED").await, ["db"]);
    assert_eq!(names("stack_status=CREATE_COMPLETE&stack_name=lb&stack_name=db").await, ["lb"]);
    assert_eq!(names(&format!("id={}", id::Id::Stack(7))).await, ["web"]);
    assert_eq!(names("tags=a").await, [""; 0]);
    assert_eq!(names(&format!("limit=1&marker={}", id::Id::Stack(7))).await, ["lb"]);
    let (_, page) = front.get("stacks?limit=2&with_count=True").await;
    assert_eq!(page["count"], 3);
    let next = page["links"][0]["href"].as_str().unwrap();
    assert!(next.ends_with(&format!("limit=2&with_count=True&marker={}", id::Id::Stack(5))), "{next}");
    assert_eq!(front.get("stacks?limit=many").await.0, StatusCode::BAD_REQUEST);
    // A list that would lack stacks without a word is refused.
    for flag in ["show_nested", "show_deleted"] {
        let (status, body) = front.get(&format!("stacks?{flag}=True")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body.to_string().contains(flag), "{body}");
        assert_eq!(front.get(&format!("stacks?{flag}=False")).await.0, StatusCode::OK);
    }
    assert_eq!(front.get("stacks?show_hidden=True").await.0, StatusCode::OK, "no stack is hidden");
    assert_eq!(front.get("stacks?marker=x").await.0, StatusCode::NOT_FOUND);
    assert_eq!(front.get("stacks?name=%ff").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_stack_is_shown_as_heat_shows_it() {
    let front = Front::new();
    let (_, body) = front.get(&web()).await;
    let stack = &body["stack"];
    assert_eq!(
        (&stack["stack_status"], &stack["description"]),
        (&json!("UPDATE_IN_PROGRESS"), &json!("a site"))
    );
    assert_eq!(stack["stack_status_reason"], "Stack UPDATE started");
    assert_eq!(
        (&stack["creation_time"], &stack["id"]),
        (&json!("2026-11-28T19:00:07Z"), &json!(id::Id::Stack(7).to_string()))
    );
    assert_eq!((&stack["parameters"]["on"], &stack["parameters"]["list"]), (&json!("True"), &json!("a,b")));
    assert_eq!(stack["outputs"][0]["output_value"], json!({"a": 1}));
    assert_eq!(stack["outputs"][0].get("output_error"), None);
    assert_eq!(stack["outputs"][1]["output_error"], "t.yaml:9:12: no such key");
    let lost = front.get(&(web() + "/outputs/lost")).await.1;
    assert_eq!(lost["output"]["output_error"], "t.yaml:9:12: no such key");
    let listed = front.get(&(web() + "/outputs")).await.1;
    assert_eq!(listed["outputs"][1], json!({"output_key": "lost", "description": "No description given"}));
    assert_eq!((&stack["disable_rollback"], &stack["timeout_mins"]), (&json!(false), &json!(30)));
    let (_, body) = front.get(&(web() + "?resolve_outputs=False")).await;
    assert!(body["stack"]["outputs"].is_null());
    assert_eq!(front.get(&(web() + "/outputs/said")).await.1["output"]["output_value"], json!({"a": 1}));
    assert_eq!(front.get(&(web() + "/outputs/none")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        front.get(&(web() + "/template")).await.1["resources"]["group"]["type"],
        "OS::Heat::ResourceGroup"
    );
}

#[tokio::test]
async fn a_preview_says_what_becomes_of_a_failure() {
    let front = Front::new();
    let template = "heat_template_version: 2018-08-31\n";
    for (more, rolls_back, minutes) in [
        (json!({"disable_rollback": false, "timeout_mins": 30}), true, json!(30)),
        (json!({}), false, Value::Null),
    ] {
        let mut body = json!({"stack_name": "new", "template": template});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = front.ask("POST", "/v1/p/stacks/preview", &body.to_string()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let stack = &json_of(answer).await["stack"];
        assert_eq!((&stack["disable_rollback"], &stack["timeout_mins"]), (&json!(!rolls_back), &minutes));
    }
}

#[tokio::test]
async fn resources_nest_as_deep_as_is_asked_for() {
    let front = Front::new();
    let (_, body) = front.get(&(web() + "/resources")).await;
    let rows = body["resources"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["resource_name"]), (2, &json!("group")));
    let nested = id::Id::nested(7, "group").to_string();
    assert_eq!(
        (&rows[0]["resource_type"], &rows[0]["resource_status"], &rows[0]["physical_resource_id"]),
        (&json!("Muster::File"), &json!("CREATE_FAILED"), &json!(nested))
    );
    assert_eq!(rows[0]["links"][2]["rel"], "nested");
    assert_eq!(
        (&rows[1]["required_by"], &rows[1]["updated_time"]),
        (&json!(["group"]), &json!("2026-11-28T19:00:02Z"))
    );
    let (_, body) = front.get(&(web() + "/resources?nested_depth=5")).await;
    assert_eq!(body["resources"].as_array().unwrap().len(), 4);
    assert_eq!(body["resources"][1]["parent_resource"], "group");
    let inner = format!("stacks/web-group/{nested}");
    let (_, body) = front.get(&(inner.clone() + "/resources?status=FAILED")).await;
    assert_eq!(
        (body["resources"].as_array().unwrap().len(), &body["resources"][0]["resource_name"]),
        (1, &json!("1"))
    );
    assert_eq!(front.get(&inner).await.1["stack"]["stack_status"], "CREATE_FAILED");
    assert_eq!(front.get(&(inner + "/resources/1")).await.1["resource"]["attributes"]["node"], "web-1");
    assert_eq!(front.get(&(web() + "/resources?colour=red")).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(front.get(&(web() + "/resources/none")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn times_are_there_after_more_events_than_a_page() {
    let front = Front::new();
    let (_, body) = front.get(&format!("stacks/lb/{}/resources", id::Id::Stack(5))).await;
    let motd = &body["resources"][1];
    assert_eq!(
        (&motd["creation_time"], &motd["updated_time"]),
        (&json!("2026-11-28T19:00:02Z"), &json!("2026-11-28T19:00:02Z")),
        "{body}"
    );
}

#[tokio::test]
async fn events_go_both_ways_from_a_marker() {
    let front = Front::new();
    let numbers = async |query: &str| -> Vec<u64> {
        let (_, body) = front.get(&format!("{}/events?{query}", web())).await;
        let events = body["events"].as_array().unwrap_or_else(|| panic!("{query}: {body}"));
        let number = |event: &Value| match event["id"].as_str().unwrap().parse() {
            Ok(id::Id::Event { stack: 7, number }) => number,
            other => panic!("{other:?}"),
        };
        events.iter().map(number).collect()
    };
    let marker = |number| format!("marker={}", id::Id::Event { stack: 7, number });
    assert_eq!(numbers("sort_dir=asc").await, [1, 2, 4], "nested ones are left out");
    assert_eq!(numbers("sort_dir=asc&nested_depth=1").await, [1, 2, 3, 4]);
    assert_eq!(numbers("").await, [4, 2, 1]);
    assert_eq!(numbers("limit=1&sort_dir=desc").await, [4]);
    assert_eq!(numbers(&format!("sort_dir=asc&{}", marker(2))).await, [4]);
    assert_eq!(numbers(&format!("sort_dir=desc&{}", marker(2))).await, [1]);
    assert_eq!(numbers("sort_dir=asc&resource_name=motd").await, [2]);
    assert_eq!(numbers("sort_dir=asc&resource_status=IN_PROGRESS").await, [1]);
    let (_, body) = front.get(&format!("{}/events?sort_dir=asc", web())).await;
    let last = &body["events"][2];
    assert_eq!(
        (&last["resource_name"], &last["resource_status"]),
        (&json!("web"), &json!("CREATE_COMPLETE"))
    );
    assert_eq!(last["physical_resource_id"], id::Id::Stack(7).to_string());
    for foreign in ["marker=4", &format!("marker={}", id::Id::Event { stack: 8, number: 1 })] {
        assert_eq!(front.get(&format!("{}/events?{foreign}", web())).await.0, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn actions_are_taken_or_refused_by_name() {
    let front = Front::new();
    let at = format!("/v1/p/{}/actions", web());
    for (body, wanted) in [("{\"check\": null}", "check"), ("{\"cancel_update\": null}", "rollback")] {
        assert_eq!(front.ask("POST", &at, body).await.status(), StatusCode::OK, "{body}");
        assert_eq!(front.last().0, wanted);
    }
    for (body, wanted) in [
        ("{\"suspend\": null}", "muster node maintenance"),
        ("{\"resume\": null}", "resume"),
        ("{\"check\": null, \"resume\": null}", "Multiple actions"),
        ("{\"dance\": null}", "dance"),
        ("{}", "No action"),
        ("", "No action"),
        ("[", "body is wrong"),
    ] {
        let answer = front.ask("POST", &at, body).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
        let message = json_of(answer).await["error"]["message"].clone();
        assert!(message.as_str().unwrap().contains(wanted), "{body}: {message}");
    }
}

#[tokio::test]
async fn what_muster_has_not_is_refused_by_name() {
    let front = Front::new();
    let template = json!({"heat_template_version": "2018-08-31"});
    for (key, value) in [
        ("template_url", json!("http://169.254.169.254/latest")),
        ("files_container", json!("c")),
        ("tags", json!("a,b")),
        ("adopt_stack_data", json!("{}")),
        ("environment_files", json!(["/etc/shadow"])),
        ("files", json!({"a": 1})),
        ("template", json!(7)),
        ("timeout_mins", json!(0)),
        ("disable_rollback", json!("perhaps")),
    ] {
        let mut body = json!({"stack_name": "new", "template": template});
        body[key] = value;
        let answer = front.ask("POST", "/v1/p/stacks", &body.to_string()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{key}");
        let message = json_of(answer).await["error"]["message"].clone();
        let message = message.as_str().unwrap();
        assert!(message.contains(key) || message.contains("disable_rollback"), "{key}: {message}");
    }
    for at in [web() + "/snapshots", web() + "/snapshots/1/restore", web() + "/export", web() + "/abandon"] {
        let (status, body) = front.get(&at).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (StatusCode::BAD_REQUEST, &json!("NotSupported")),
            "{at}"
        );
    }
    let answer = front.ask("POST", "/v1/p/software_configs", "{}").await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(front.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn tokens_come_in_three_ways_and_no_other() {
    let front = Front::new();
    let ask = async |headers: &[(&str, &str)], host: &str| {
        let mut request = Request::builder().uri("/v1/p/build_info").header(HOST, host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        front.send(request.body(Body::empty()).unwrap()).await.status()
    };
    let anna = token("anna");
    let basic = |pair: String| format!("Basic {}", BASE64.encode(pair.as_bytes()));
    for (name, value, wanted) in [
        ("x-auth-token", anna.clone(), 200),
        ("authorization", format!("Bearer {anna}"), 200),
        ("authorization", basic(format!("anna:{anna}")), 200),
        ("authorization", basic(format!(":{anna}")), 200),
        ("authorization", basic(format!("ben:{anna}")), 401),
        ("authorization", "Basic !".to_owned(), 401),
        ("authorization", format!("Digest {anna}"), 401),
        ("x-auth-token", "notused".to_owned(), 401),
        ("x-auth-token", "gAAAAABkeystone".to_owned(), 401),
        ("x-other", anna.clone(), 401),
    ] {
        assert_eq!(ask(&[(name, &value)], "h").await.as_u16(), wanted, "{name}: {value}");
    }
    for host in ["", "a@b", "a b"] {
        assert_eq!(ask(&[("x-auth-token", &anna)], host).await, StatusCode::BAD_REQUEST, "{host}");
    }
}

#[tokio::test]
async fn without_a_token_only_this_machine_is_let_in() {
    let seen = Arc::default();
    let whoever = async |extensions: Extensions| match extensions.get::<&'static str>() {
        Some(who) => Ok(Json(json!({"name": who, "role": "viewer"}))),
        None => Err(refused(StatusCode::UNAUTHORIZED, "unauthorized", "no token")),
    };
    let api = Router::new().route(
        "/v1/caller",
        get(async move |request: axum::extract::Request| whoever(request.extensions().clone()).await),
    );
    drop::<Arc<Mutex<Vec<(String, Value)>>>>(seen);
    let with = |who: Option<&'static str>| -> Peer {
        Arc::new(move |_| {
            let mut extensions = Extensions::new();
            who.map(|who| extensions.insert(who));
            extensions
        })
    };
    let allowed = Some(with(Some("anybody")));
    let host = Host { version: "9", body_max: 9, template_max: 9, peer: with(None), without_token: allowed };
    let front = router(api, host);
    for (name, headers, wanted) in [
        ("127.0.0.1:8004", &[][..], 200),
        ("[::1]:8004", &[], 200),
        ("localhost", &[("x-auth-token", "notused")], 200),
        ("evil.example.org", &[], 401),
        ("127.0.0.1.evil.example.org", &[], 401),
        ("127.0.0.1", &[(ORIGIN.as_str(), "https://evil.example.org")], 401),
        ("127.0.0.1", &[("sec-fetch-site", "cross-site")], 401),
    ] {
        let mut request = Request::builder().uri("/v1/p/build_info").header(HOST, name);
        for (key, value) in headers {
            request = request.header(*key, *value);
        }
        let answer = front.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), wanted, "{name} {headers:?}");
    }
}

/// A client that sends its body slowly gets so much time, and a large body is refused before it is all there.
#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_in_size_and_time() {
    let front = Front::new();
    let large = format!("{{\"stack_name\": \"{}\"}}", "a".repeat(5000));
    let answer = front.ask("POST", "/v1/p/stacks", &large).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    sender.send(Ok(Bytes::from_static(b"{"))).await.unwrap();
    let slow = Body::from_stream(futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    }));
    let request = Request::builder().method("POST").uri("/v1/p/stacks").header(HOST, "h");
    let answer = front.send(request.header("x-auth-token", token("anna")).body(slow).unwrap()).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    // Nobody's body is read: this one never ends.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let request = Request::builder().method("POST").uri("/v1/p/stacks").header(HOST, "h");
    assert_eq!(front.send(request.body(endless).unwrap()).await.status(), StatusCode::UNAUTHORIZED);
    drop(sender);
}

#[tokio::test]
async fn a_template_is_validated_with_its_parameters() {
    let front = Front::new();
    let ask = async |template: Value| {
        let answer = front.ask("POST", "/v1/p/validate", &json!({"template": template}).to_string()).await;
        (answer.status(), json_of(answer).await)
    };
    let (status, body) = ask(json!({"heat_template_version": "2018-08-31", "parameters": {
        "a": {"type": "number", "constraints": [{"range": {"min": 1}}]}, "b": {"type": "string", "hidden": true, "default": "x"}}}))
    .await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(
        (&body["Parameters"]["a"]["Type"], &body["Parameters"]["a"]["MinValue"]),
        (&json!("Number"), &json!(1))
    );
    assert_eq!(
        (&body["Parameters"]["b"]["NoEcho"], &body["Parameters"]["b"]["Default"]),
        (&json!("true"), &json!("x"))
    );
    let (status, body) =
        ask(json!({"heat_template_version": "2018-08-31", "resources": {"a": {"type": "Muster::Fiel"}}}))
            .await;
    assert_eq!((status, &body["error"]["type"]), (StatusCode::BAD_REQUEST, &json!("StackValidationFailed")));
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("resources.a") && message.contains("Muster::File"), "{message}");
    // Aliases that multiply.
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                  d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                  g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    assert_eq!(ask(json!(laughs)).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_language_is_listed() {
    let front = Front::new();
    let (_, body) = front.get("resource_types").await;
    assert!(body["resource_types"].as_array().unwrap().contains(&json!("Muster::File")), "{body}");
    let (_, body) = front.get("resource_types/Muster::File").await;
    assert_eq!(body["properties"]["path"]["required"], true, "{body}");
    assert_eq!(front.get("resource_types/No::Such").await.0, StatusCode::NOT_FOUND);
    let (_, body) = front.get("resource_types/Muster::File/template?template_type=hot").await;
    assert_eq!(body["resources"]["File"]["properties"]["path"], json!({"get_param": "path"}));
    let (_, body) = front.get("template_versions").await;
    let versions = body["template_versions"].as_array().unwrap();
    assert!(versions.iter().any(|it| it["aliases"] == json!(["heat_template_version.rocky"])), "{body}");
    let (_, body) = front.get("template_versions/heat_template_version.2018-08-31/functions").await;
    let named =
        |name: &str| body["template_functions"].as_array().unwrap().iter().any(|it| it["functions"] == name);
    assert!(named("get_attr") && !named("and"), "{body}");
    let answer = front.ask("GET", "/", "").await;
    assert_eq!(answer.status(), StatusCode::MULTIPLE_CHOICES);
    assert_eq!(json_of(answer).await["versions"][0]["id"], "v1.0");
    assert_eq!(front.get("nowhere").await.1["code"], 404);
}
