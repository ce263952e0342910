//! Requests to the API over the network that must not count: of strangers, of users whose role or scope is too small, and of
//! clients that speak HTTP as nobody should. Each is refused, changes nothing, and leaves a controller that answers.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use muster_api::route::{Method, Operation, ROUTES, Route};
use muster_api::user::Role;
use muster_shared::user_token::UserToken;
use muster_testbed::eventually;
use serde_json::json;

use crate::https::{Heard, request, rest};
use crate::target::{BODY_MAX, Target, bearer};

const EMPTY: &str = "heat_template_version: 2018-08-31\n";

/// The body of a create.
fn stack(name: &str, text: &str) -> String {
    json!({"name": name, "template": {"name": "t.yaml", "text": text}}).to_string()
}

/// A route's request for what is really there, as somebody who may would send it.
fn genuine(target: &Target, operation: Operation, route: &Route) -> (String, String) {
    let tokens = target.site.json(&["node", "tokens"]);
    let id = tokens[0]["id"].as_str().unwrap_or("0000000000000000");
    let mut path = route.path.to_owned();
    for (name, value) in [
        ("{stack}", "web"),
        ("{resource}", "motd"),
        ("{node}", "web-1"),
        ("{bridge}", "br0"),
        ("{id}", id),
        ("{user}", "victim"),
        ("{key}", "a-to-b"),
    ] {
        path = path.replace(name, value);
    }
    assert!(!path.contains('{'), "{path} names what no test has");
    let template = json!({"name": "t.yaml", "text": EMPTY});
    let body = match operation {
        Operation::CreateStack => json!({"name": "db", "template": template}),
        Operation::UpdateStack | Operation::PreviewStack => json!({"template": template}),
        Operation::RollBack => json!({}),
        Operation::SteerRollout => json!({"action": "abort"}),
        Operation::ClearHook => json!({"hook": "pre-update"}),
        Operation::CreateToken => json!({"ttl": 60, "uses": 1, "name": "web-2"}),
        Operation::CreateUser => json!({"name": "mallory", "role": "admin", "ttl": 60}),
        Operation::ChangeLabels => json!({"labels": {"rack": "r9"}}),
        Operation::SetMaintenance => json!({"on": true}),
        Operation::MoveNode => json!({"token": "x"}),
        Operation::DeleteFlows => json!({"ids": []}),
        Operation::PurgeIntents | Operation::WatchIntents => json!({"keys": ["a-to-b"]}),
        Operation::WithdrawIntents => json!({"withdraw": ["a-to-b"]}),
        Operation::Decide => json!({"verdict": "adopt"}),
        Operation::ApplyFlows => json!({"rules": [{"device": "web-1/br0", "priority": 1, "selector": {},
            "treatment": []}]}),
        Operation::SubmitIntents => json!({"intents": [{"key": "a-to-b", "type": "point_to_point",
            "from": {"device": "web-1/br0", "port": "a"}, "to": {"device": "web-1/br0", "port": "b"}}]}),
        _ => json!({}),
    };
    (format!("{} {path}", verb(route.method)), body.to_string())
}

fn verb(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
    }
}

/// Routes that change something.
fn changing() -> impl Iterator<Item = &'static (Operation, Route)> {
    ROUTES.iter().filter(|(_, route)| route.method != Method::Get)
}

/// Requests before anybody is known. Their own tests are in `processes/oidc.rs`.
fn is_login(operation: Operation) -> bool {
    matches!(operation, Operation::LogIn | Operation::BeginInBrowser | Operation::BeginOnDevice)
}

#[test]
fn tokens_that_do_not_count_change_nothing() {
    let target = Target::start();
    target.site.ok(&["node", "token", "--name", "web-9"]);
    let victim = target.token("victim", &["--role", "admin"]);
    let known: UserToken = victim.parse().unwrap();
    let forged = |changed: UserToken| bearer(&changed.to_string());
    let revoked = bearer(&target.token("gone", &["--role", "admin"]));
    target.site.ok(&["user", "revoke", "gone"]);
    let expired = bearer(&target.token("late", &["--role", "admin", "--ttl", "1s"]));
    eventually("a token expires", || (target.looks(&expired).status() == 401).then_some(()));
    let again = bearer(&target.token("again", &["--role", "admin"]));
    target.site.ok(&["user", "revoke", "again"]);
    target.site.ok(&["user", "create", "again", "--role", "admin"]);
    let strangers = [
        ("no token", String::new()),
        ("no scheme", format!("authorization: {victim}\r\n")),
        ("another scheme", format!("authorization: Basic {victim}\r\n")),
        ("an empty token", bearer("")),
        ("half a token", bearer(&victim[..victim.len() / 2])),
        ("more than a token", bearer(&format!("{victim}x"))),
        ("a long one", bearer(&"A".repeat(8000))),
        ("another secret", forged(UserToken { secret: [7; 32], ..known.clone() })),
        ("another name", forged(UserToken { name: "root".to_owned(), ..known.clone() })),
        ("another user's name", forged(UserToken { name: "again".to_owned(), ..known.clone() })),
        ("a revoked one", revoked),
        ("an expired one", expired),
        ("one of a user of the same name before", again),
        ("two", format!("{}{}", bearer("x"), bearer(&victim))),
        ("a cookie", format!("cookie: authorization=Bearer {victim}; __Host-muster={victim}\r\n")),
        ("another header", format!("proxy-authorization: Bearer {victim}\r\nx-auth-token: {victim}\r\n")),
        (
            "who a proxy says",
            "x-forwarded-user: root\r\nx-remote-user: root\r\nx-forwarded-for: 127.0.0.1\r\n".to_owned(),
        ),
    ];
    target.unchanged(|| {
        for (operation, route) in changing().filter(|(operation, _)| !is_login(*operation)) {
            let (line, body) = genuine(&target, *operation, route);
            for (what, headers) in &strangers {
                let heard = target.https.ask(&line, headers, &body);
                assert_eq!(heard.status(), 401, "{line}, {what}: {heard:?}");
                assert!(!heard.0.contains(&victim), "{line}, {what}");
            }
            let in_query = format!("{line}?token={victim}&access_token={victim}");
            assert_eq!(target.https.ask(&in_query, "", &body).status(), 401, "{line}");
        }
    });
    assert_eq!(target.looks(&bearer(&victim)).status(), 200, "the genuine one counts");
    assert!(!target.site.controller.log().contains(&victim));
}

#[test]
fn a_role_or_scope_too_small_changes_nothing() {
    let target = Target::start();
    target.site.ok(&["node", "token", "--name", "web-9"]);
    target.token("victim", &["--role", "viewer"]);
    let (viewer, operator) = (target.user("vera", "viewer"), target.user("otto", "operator"));
    let part =
        bearer(&target.token("ben", &["--role", "operator", "--scope", "rack=r9", "--stacks", "mine-*"]));
    let admin = target.user("ada", "admin");
    let refused = |heard: &Heard, why: &[&str]| {
        let said = heard.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(why.iter().any(|why| said.contains(why)), "{said}");
    };
    target.unchanged(|| {
        for (operation, route) in changing().filter(|(operation, _)| !is_login(*operation)) {
            let (line, body) = genuine(&target, *operation, route);
            for (role, user) in [(Role::Viewer, &viewer), (Role::Operator, &operator)] {
                if role < route.role {
                    let heard = target.https.ask(&line, user, &body);
                    assert_eq!(heard.status(), 403, "{line} of a {role:?}: {heard:?}");
                    refused(&heard, &["needs role"]);
                }
            }
            let heard = target.https.ask(&line, &part, &body);
            assert_eq!(heard.status(), 403, "{line} of a user with a scope: {heard:?}");
            refused(&heard, &["scope", "all of the site", "needs role"]);
        }
    });
    // The same requests of somebody who may are understood, and many of them change something.
    let ends_all = |operation: Operation| matches!(operation, Operation::RevokeNode | Operation::RemoveNode);
    let of_admin = changing().filter(|(operation, _)| !is_login(*operation) && !ends_all(*operation));
    let done = of_admin.filter(|(operation, route)| {
        let (line, body) = genuine(&target, *operation, route);
        let status = target.https.ask(&line, &admin, &body).status();
        assert!(status != 401 && status != 403, "{line}: {status}");
        (200..300).contains(&status)
    });
    assert!(done.count() > 9);
}

/// Each of these ends in a refusal, or in a closed connection, and is no second request.
#[test]
fn requests_that_no_client_makes_are_refused() {
    let target = Target::start();
    let admin = target.user("ada", "admin");
    let delete = format!("DELETE /v1/stacks/web HTTP/1.1\r\nhost: muster\r\n{admin}\r\n");
    let post = |headers: &str, body: &str| {
        format!("POST /v1/tokens HTTP/1.1\r\nhost: muster\r\n{admin}{headers}\r\n{body}").into_bytes()
    };
    let get = |line: &str, headers: &str| {
        format!("{line}\r\nhost: muster\r\nconnection: close\r\n{admin}{headers}\r\n").into_bytes()
    };
    let many = |line: &str, count: usize| line.repeat(count);
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("a thousand headers", get("GET /v1/stacks HTTP/1.1", &many("x: y\r\n", 1000))),
        ("a hundred thousand headers", get("GET /v1/stacks HTTP/1.1", &many("x: y\r\n", 100_000))),
        (
            "a header of a megabyte",
            get("GET /v1/stacks HTTP/1.1", &format!("x: {}\r\n", "y".repeat(1 << 20))),
        ),
        ("a path of a megabyte", get(&format!("GET /{} HTTP/1.1", "x".repeat(1 << 20)), "")),
        ("a line that never ends", vec![b'G'; 1 << 20]),
        ("two lengths", post("content-length: 2\r\ncontent-length: 200\r\n", &format!("{{}}{delete}"))),
        ("a list of lengths", post("content-length: 2, 200\r\n", &format!("{{}}{delete}"))),
        (
            "a length and chunks",
            post("content-length: 5\r\ntransfer-encoding: chunked\r\n", &format!("0\r\n\r\n{delete}")),
        ),
        (
            "chunks in another spelling",
            post("transfer-encoding: xchunked\r\n", &format!("0\r\n\r\n{delete}")),
        ),
        (
            "chunks that are not the last coding",
            post("transfer-encoding: chunked, identity\r\n", &format!("0\r\n\r\n{delete}")),
        ),
        ("a space before the colon", post("transfer-encoding : chunked\r\n", &format!("0\r\n\r\n{delete}"))),
        ("a folded header", post("content-length:\r\n 5\r\n", &delete)),
        ("a chunk of too many digits", post("transfer-encoding: chunked\r\n", "fffffffffffffffff0\r\nx")),
        ("a negative chunk", post("transfer-encoding: chunked\r\n", "-1\r\nx\r\n0\r\n\r\n")),
        (
            "a long extension of a chunk",
            post("transfer-encoding: chunked\r\n", &format!("1;{}\r\nx\r\n0\r\n\r\n", "y".repeat(1 << 20))),
        ),
        (
            "many trailers",
            post("transfer-encoding: chunked\r\n", &format!("0\r\n{}\r\n", many("x: y\r\n", 100_000))),
        ),
        ("a negative length", post("content-length: -1\r\n", "{}")),
        ("a length beyond numbers", post("content-length: 99999999999999999999999\r\n", "{}")),
        ("a length with a sign", post("content-length: +2\r\n", "{}")),
        ("a NUL in a header", get("GET /v1/stacks HTTP/1.1", "x: a\0b\r\n")),
        ("a NUL in the path", get("GET /v1/stacks\0 HTTP/1.1", "")),
        ("a tunnel", get("CONNECT muster:22 HTTP/1.1", "")),
        ("a trace", get("TRACE /v1/stacks HTTP/1.1", "")),
        ("the server's options", get("OPTIONS * HTTP/1.1", "")),
        ("HTTP/2 at once", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("HTTP/0.9", b"GET /v1/stacks\r\n\r\n".to_vec()),
        ("a version that is none", get("GET /v1/stacks HTTP/1.9", "")),
        ("a bare carriage return", get("GET /v1/stacks HTTP/1.1", "x: y\r\rz: 1\r\n")),
        ("bytes that are no text", vec![0xff; 4096]),
    ];
    target.unchanged(|| {
        for (what, bytes) in rows {
            let heard = target.https.say(&bytes);
            let fits = |status: &u16| (400..500).contains(status) || *status == 501;
            assert!(heard.statuses().iter().all(fits), "{what}: {:?}", heard.statuses());
            assert!(heard.statuses().len() < 3, "{what}: {:?}", heard.statuses());
            assert_eq!(target.looks(&admin).status(), 200, "after {what}");
        }
        // Its end never comes, but for the connection's.
        let huge = post("transfer-encoding: chunked\r\n", "ffffffffffffffff\r\nx");
        assert!(target.https.breaks_off(&huge).statuses().iter().all(|status| *status == 400));
        // What a client may ask for, and is not had here.
        for headers in [
            "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
            "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\n",
            "x-http-method-override: DELETE\r\nx-method-override: DELETE\r\n_method: DELETE\r\n",
            "x-original-url: /v1/users\r\nx-rewrite-url: /v1/users\r\n",
        ] {
            let heard = target.https.say(&get("GET /v1/stacks/web HTTP/1.1", headers));
            assert_eq!((heard.status(), &heard.json()["name"]), (200, &json!("web")), "{headers}");
        }
    });
}

/// Another host, another site, and another address than the connection's.
#[test]
fn headers_of_proxies_and_other_hosts_count_for_nothing() {
    let target = Target::start();
    let viewer = target.user("vera", "viewer");
    let ask = |line: &str, headers: &str| target.https.ask(line, &format!("{viewer}{headers}"), "");
    target.unchanged(|| {
        for headers in ["muster-site: elsewhere\r\n", "muster-site: ../../etc\r\n", "muster-site: \u{e9}\r\n"] {
            let heard = ask("GET /v1/stacks", headers);
            assert!([400, 503].contains(&heard.status()), "{headers}: {heard:?}");
        }
        for line in ["GET https://evil.example/v1/stacks", "GET /v1/stacks"] {
            let heard = ask(line, "origin: https://evil.example\r\nx-forwarded-host: evil.example\r\n");
            assert!(!heard.0.contains("evil.example"), "{heard:?}");
            assert_eq!(heard.header("access-control-allow-origin"), None, "no other site's page reads an answer");
        }
        let from = "x-forwarded-for: 192.0.2.1\r\nforwarded: for=192.0.2.1\r\nx-real-ip: 192.0.2.1\r\nvia: 1.1 x\r\n";
        assert_eq!(ask("DELETE /v1/stacks/web", from).status(), 403);
    });
    let audit = target.site.json(&["audit", "--user", "vera"]);
    let rows = audit.as_array().unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["from"] == "127.0.0.1"), "{audit:#}");
}

#[test]
fn paths_lead_nowhere_else() {
    let target = Target::start();
    let part = bearer(&target.token("ben", &["--role", "operator", "--stacks", "mine-*"]));
    let viewer = target.user("vera", "viewer");
    target.unchanged(|| {
        for path in [
            "/v1/stacks/../users",
            "/v1/stacks/%2e%2e/users",
            "/v1/stacks/..%2fusers",
            "/v1/stacks/web%2f..%2f..%2fusers",
            "/v1/stacks/..%5c..%5cusers",
            "/v1/stacks/%252e%252e%252fusers",
            "//v1/users",
            "/v1//users",
            "/V1/users",
            "/v1/users/",
            "/v1/users;x=y",
            "/v1/users%00",
            "/v1/users%20",
            "/v1/users%2f",
            "/v1/%75sers",
            "/%76%31/users",
            "/v1/./users",
            "/v1/users?x=/v1/stacks",
            "/v1/users#/v1/stacks",
            "/console/../v1/users",
            "/../../../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
        ] {
            let heard = target.https.ask(&format!("GET {path}"), &viewer, "");
            // Below the console there are pages alone, and somebody who is not logged in sees none.
            let is_page = path.starts_with("/console") && heard.status() == 303;
            assert!(is_page || (400..500).contains(&heard.status()), "{path}: {heard:?}");
            assert!(
                !heard.body().contains("\"role\":") && !heard.body().contains("root:"),
                "{path}: {heard:?}"
            );
        }
        // A name in a path is one name, whatever is in it.
        for name in
            ["mine-/../web", "mine-x%2f..%2fweb", "web%00", "web%0a", "%77eb", "WEB", "web%20", "mine-*"]
        {
            let heard = target.https.ask(&format!("DELETE /v1/stacks/{name}"), &part, "");
            assert!((400..500).contains(&heard.status()), "{name}: {heard:?}");
        }
    });
}

#[test]
fn a_path_takes_its_own_methods_alone() {
    let target = Target::start();
    let admin = target.user("ada", "admin");
    target.unchanged(|| {
        for (operation, route) in ROUTES {
            let (line, _) = genuine(&target, *operation, route);
            let path = line.split_once(' ').unwrap().1;
            let taken: Vec<&str> = ROUTES
                .iter()
                .filter(|(_, other)| other.path == route.path)
                .map(|(_, it)| verb(it.method))
                .collect();
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "delete", "X"] {
                if taken.contains(&method) {
                    continue;
                }
                let heard = target.ask(&format!("{method} {path}"), &admin, "{}");
                assert!((400..500).contains(&heard.status()), "{method} {path}: {heard:?}");
            }
        }
    });
}

#[test]
fn documents_that_explode_are_refused() {
    let target = Target::start();
    let admin = target.user("ada", "admin");
    let large = "x".repeat(BODY_MAX);
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let bombs = [
        ("nothing", String::new()),
        ("arrays in arrays", deep("[", "]")),
        ("objects in objects", deep("{\"a\":", "}")),
        ("arrays that do not end", "[".repeat(BODY_MAX - 1)),
        ("a number beyond numbers", "{\"ttl\": 1e999999999}".to_owned()),
        ("a number of many digits", format!("{{\"ttl\": {}}}", "9".repeat(100_000))),
        ("a negative number", "{\"ttl\": -1, \"uses\": 1}".to_owned()),
        ("a fraction", "{\"ttl\": 1.5, \"uses\": 1}".to_owned()),
        ("no number", "{\"ttl\": NaN, \"uses\": 1}".to_owned()),
        ("one key twice", "{\"ttl\": 60, \"uses\": 1, \"ttl\": 60}".to_owned()),
        (
            "a name twice",
            format!(
                "{{\"name\": \"a\", \"name\": \"b\", \"template\": {{\"name\": \"t\", \"text\": {EMPTY:?}}}}}"
            ),
        ),
        ("a key in two spellings", "{\"ttl\": 60, \"uses\": 1, \"\\u0074tl\": 60}".to_owned()),
        ("keys of nothing", "{\"__proto__\": {\"role\": \"admin\"}}".to_owned()),
        ("half a character", "{\"name\": \"\\ud800\"}".to_owned()),
        ("a NUL", "{\"name\": \"a\\u0000b\", \"ttl\": 60, \"uses\": 1}".to_owned()),
        ("more after the end", "{\"ttl\": 60, \"uses\": 1} {\"ttl\": 60}".to_owned()),
        ("a mark of the order of bytes", "\u{feff}{\"ttl\": 60, \"uses\": 1}".to_owned()),
        ("a comment", "{\"ttl\": 60, /* */ \"uses\": 1}".to_owned()),
        ("a text of all that fits", format!("\"{}", &large[..BODY_MAX - 2])),
        ("more than fits", format!("{large}{large}")),
        (
            "many keys",
            format!("{{{}\"a\": 1}}", (0..50_000).map(|n| format!("\"k{n}\":1,")).collect::<String>()),
        ),
        ("a form", "ttl=60&uses=1".to_owned()),
    ];
    let lines: Vec<String> = changing()
        .filter(|(operation, _)| !is_login(*operation))
        .filter(|(_, route)| matches!(route.body, muster_api::route::Content::Json(_)))
        .map(|(operation, route)| genuine(&target, *operation, route).0)
        .collect();
    assert!(lines.len() > 12);
    target.unchanged(|| {
        for line in &lines {
            for (what, body) in &bombs {
                // These take any document, or none, and refuse what is no signal of theirs.
                let may_be_none =
                    line.ends_with("/rollback") || line.ends_with("/signal") || line.ends_with("/preview");
                if may_be_none && (body.is_empty() || body.starts_with("{\"")) {
                    continue;
                }
                let heard = target.ask(line, &admin, body);
                assert!((400..500).contains(&heard.status()), "{line}, {what}: {heard:?}");
            }
        }
        let laughs: String = (1..30)
            .map(|n| format!("  p{n}: {{default: &p{n} [*p{0}, *p{0}, *p{0}, *p{0}], type: json}}\n", n - 1))
            .collect();
        for text in [
            format!("{EMPTY}parameters:\n  p0: {{default: &p0 [x, x], type: json}}\n{laughs}"),
            format!("{EMPTY}outputs: {}1{}", "[".repeat(50_000), "]".repeat(50_000)),
        ] {
            let heard = target.ask("POST /v1/stacks", &admin, &stack("bomb", &text));
            assert_eq!(heard.status(), 400, "{text:.400} {heard:?}");
        }
    });
    // An output of a thousand million items has none.
    let items = json!(vec![1; 1000]);
    let repeat = json!({"repeat": {"for_each": {"x": items, "y": items, "z": items}, "template": "x"}});
    let text = format!("{EMPTY}outputs: {{many: {{value: {repeat}}}}}");
    let heard = target.ask("POST /v1/stacks", &admin, &stack("many", &text));
    assert_eq!(heard.status(), 202, "{heard:?}");
    let outputs = target.ask("GET /v1/stacks/many/outputs", &admin, "");
    let why = outputs.json()[0]["output_error"].as_str().unwrap_or_default().to_owned();
    assert!(!why.is_empty() && outputs.json()[0]["value"].is_null(), "{:?}", outputs.0.get(..600));
    assert_eq!(target.ask("GET /v1/stacks", &admin, "").status(), 200);
}

/// Clients that begin and go no further hold what is theirs alone.
#[test]
fn slow_and_broken_requests_hold_up_nobody_else() {
    let target = Target::start();
    let admin = target.user("ada", "admin");
    let body = stack("half", EMPTY);
    let whole = String::from_utf8(request("POST /v1/stacks", &admin, &body)).unwrap();
    target.unchanged(|| {
        // All that one network may have: before the handshake, within a head, and within a body.
        let at = target.https.from(9);
        let silent: Vec<_> = (0..20).map(|_| at.tcp()).collect();
        let slow: Vec<_> = (0..44)
            .map(|number| {
                let mut connection = at.connect();
                let until = if number % 2 == 0 { whole.len() / 3 } else { whole.len() - 1 };
                connection.write_all(&whole.as_bytes()[..until]).unwrap();
                connection.flush().unwrap();
                connection
            })
            .collect();
        for _ in 0..10 {
            assert_eq!(target.looks(&admin).status(), 200);
        }
        // They break off in the middle.
        drop((silent, slow));
        for until in (1..whole.len()).step_by(7) {
            let heard = target.https.breaks_off(&whole.as_bytes()[..until]);
            assert!(!(200..300).contains(&heard.status()), "{until} bytes of {}: {heard:?}", whole.len());
        }
    });
    // The whole of it is a request.
    assert_eq!(target.https.say(whole.as_bytes()).status(), 202);
}

#[test]
fn requests_in_a_row_are_answered_in_turn() {
    let target = Target::start();
    let (vera, ben) = (target.user("vera", "viewer"), target.user("ben", "viewer"));
    target.unchanged(|| {
        let one = |line: &str, user: &str| format!("{line} HTTP/1.1\r\nhost: muster\r\n{user}\r\n");
        let mut bytes: String = (0..50)
            .map(|_| {
                one("GET /v1/version", "") + &one("GET /v1/nowhere", "") + &one("DELETE /v1/stacks/web", "")
            })
            .collect();
        bytes += &String::from_utf8(request("GET /v1/stacks", &vera, "")).unwrap();
        // Who asked before on a connection is nobody in the next request.
        bytes += &String::from_utf8(request("DELETE /v1/stacks/web", "", "")).unwrap();
        let heard = target.https.say(bytes.as_bytes()).statuses();
        assert_eq!(heard.len(), 151, "the last one asks for the end");
        assert!(heard[..150].chunks(3).all(|three| three == [200, 404, 401]), "{heard:?}");
        assert_eq!(heard[150], 200);

        // One user asks without end; the others are answered.
        let mut bytes = one("GET /v1/version", "");
        bytes += &one("GET /v1/caller", &vera).repeat(1500);
        bytes += &String::from_utf8(request("GET /v1/version", "", "")).unwrap();
        let mut flood = target.https.connect();
        flood.write_all(bytes.as_bytes()).unwrap();
        flood.flush().unwrap();
        let mut first = [0; 12];
        flood.read_exact(&mut first).unwrap();
        for _ in 0..20 {
            assert_eq!(target.looks(&ben).status(), 200);
        }
        let heard = rest(flood);
        let statuses = heard.statuses();
        let refused = statuses.iter().filter(|status| **status == 503).count();
        assert_eq!(statuses.len(), 1501, "each is answered, beside the first one");
        assert!(refused > 0 && statuses.contains(&200), "{refused}");
        assert!(heard.0.contains("vera asks too often") && heard.0.contains("retry-after: 1"));
    });
}

/// A network shows tokens that do not count without end. Users of that network and of others are answered.
#[test]
fn a_flood_of_wrong_tokens_keeps_no_known_user_out() {
    let target = Target::start();
    let (vera, ben) = (target.user("vera", "viewer"), target.token("ben", &["--role", "viewer"]));
    let at = target.https.from(9);
    let wrong = UserToken { secret: [7; 32], ..ben.parse().unwrap() };
    target.unchanged(|| {
        let one = format!("GET /v1/stacks HTTP/1.1\r\nhost: muster\r\n{}\r\n", bearer(&wrong.to_string()));
        let mut bytes = one.repeat(5000);
        bytes += &String::from_utf8(request("GET /v1/version", "", "")).unwrap();
        let mut flood = at.connect();
        flood.write_all(bytes.as_bytes()).unwrap();
        flood.flush().unwrap();
        let mut first = [0; 12];
        flood.read_exact(&mut first).unwrap();
        for _ in 0..20 {
            assert_eq!(at.ask("GET /v1/stacks", &vera, "").status(), 200, "her token is known");
            assert_eq!(target.looks(&bearer(&ben)).status(), 200, "of another network");
        }
        let heard = rest(flood);
        let statuses = heard.statuses();
        assert_eq!(statuses.len(), 5000, "each is answered, beside the first one");
        let refused = |with: u16| statuses.iter().filter(|status| **status == with).count();
        assert!(refused(401) >= 999 && refused(503) > 0, "{} and {}", refused(401), refused(503));
        assert!(heard.0.contains("too many tokens that do not count"));
        assert!(statuses.iter().all(|status| [200, 401, 503].contains(status)));
    });
}

/// The bodies of one user's requests take a part of the memory for bodies, so that there is room for others'.
#[test]
fn one_user_s_bodies_leave_room_for_others() {
    let target = Target::start();
    let (anna, ben) = (target.user("anna", "operator"), target.user("ben", "operator"));
    let head =
        format!("POST /v1/stacks HTTP/1.1\r\nhost: muster\r\n{anna}content-length: {BODY_MAX}\r\n\r\n");
    let most = [head.as_bytes(), &vec![b' '; BODY_MAX - 1000]].concat();
    let (wires, sending): (Vec<_>, Vec<_>) = (0..6)
        .map(|number| {
            let mut connection = target.https.from(10 + number).connect();
            let (wire, most) = (connection.sock.try_clone().unwrap(), most.clone());
            let send =
                move || connection.write_all(&most).and_then(|()| connection.flush()).map(|()| connection);
            (wire, std::thread::spawn(send))
        })
        .unzip();
    // What there is no room for is not read.
    let sent = || sending.iter().filter(|sends| sends.is_finished()).count();
    eventually("she has sent what she has room for", || (sent() >= 2).then_some(()));
    let body = stack("of-ben", &format!("{EMPTY}#{}", "x".repeat(BODY_MAX / 3)));
    let heard = target.https.ask("POST /v1/stacks", &ben, &body);
    assert_eq!(heard.status(), 202, "{heard:?}");
    wires.iter().for_each(|wire| wire.shutdown(Shutdown::Both).unwrap());
    // Whether all went out is of no importance.
    sending.into_iter().for_each(|sends| drop(sends.join().unwrap()));
}
