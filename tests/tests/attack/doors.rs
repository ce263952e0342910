//! The doors beside the API: those for clients of Heat and for scripts of ONOS. Strangers, users whose role is too small, other
//! sites' pages, and clients that speak HTTP as nobody should, are refused, change nothing, and leave a door that answers.

use data_encoding::BASE64;
use muster_shared::user_token::UserToken;
use serde_json::{Value, json};

use crate::https::{Heard, Https};
use crate::target::{BODY_MAX, Target, bearer};

/// The routes of a door are in its source alone: a new one is in these tests by itself.
const HEAT: &str = include_str!("../../../controller/heat-api/src/lib.rs");
const ONOS: &str = include_str!("../../../controller/onos-api/src/lib.rs");
const EMPTY: &str = "heat_template_version: 2018-08-31\n";

/// A door, with what clients ask there.
struct Door<'a> {
    name: &'static str,
    wire: &'a Https,
    /// Before each path of the source.
    prefix: &'static str,
    source: &'static str,
    /// The names that paths need, and those of things that are really there.
    named: Vec<(&'static str, String)>,
    /// A request that an operator makes, and that changes something.
    honest: (&'static str, Value),
    /// A request that a viewer makes.
    looks: &'static str,
}

impl Door<'_> {
    /// Requests that change something, as somebody who may would send them.
    fn changing(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for rest in self.source.split(".route(").skip(1) {
            let Some((path, rest)) =
                rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'))
            else {
                continue;
            };
            let handlers = rest.split(".route").next().unwrap();
            let mut path = format!("{}{path}", self.prefix);
            for (name, value) in &self.named {
                path = path.replace(name, value);
            }
            assert!(!path.contains('{'), "{path} names what no test has");
            for method in ["post", "put", "patch", "delete"] {
                if handlers.contains(&format!("{method}(")) || handlers.contains("lookup()") {
                    all.push((format!("{} {path}", method.to_uppercase()), self.body(&path)));
                }
            }
        }
        assert!(all.len() > 12, "{}: {all:?}", self.name);
        all
    }

    fn body(&self, path: &str) -> String {
        let body = match path {
            path if path.ends_with("/actions") => json!({"check": null}),
            path if path.contains("/v1/any/") => json!({"stack_name": "db", "template": EMPTY}),
            path if path.contains("/flows") => json!({"flows": [self.honest.1["flows"][0].clone()]}),
            _ => self.honest.1.clone(),
        };
        body.to_string()
    }

    fn ask(&self, line: &str, headers: &str, body: &str) -> Heard {
        self.wire.ask(line, &format!("content-type: application/json\r\n{headers}"), body)
    }

    /// Whether the request is refused as the client's own fault, or as one that is not served.
    fn is_refused(heard: &Heard) -> bool {
        (400..500).contains(&heard.status()) || heard.status() == 501
    }

    fn answers(&self, user: &str) {
        assert_eq!(self.ask(self.looks, user, "").status(), 200, "{}", self.name);
    }
}

fn doors<'a>(target: &'a Target, viewer: &str) -> [Door<'a>; 2] {
    let stacks = target.heat.ask("GET /v1/any/stacks", viewer, "").json();
    let id = stacks["stacks"][0]["id"].as_str().unwrap_or_else(|| panic!("{stacks}")).to_owned();
    let text = |pairs: &[(&'static str, &str)]| {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>()
    };
    let mut of_heat = text(&[
        ("{project}", "any"),
        ("{stack}", "web"),
        ("{resource}", "motd"),
        ("{kind}", "Muster::File"),
        ("{version}", "heat_template_version.2018-08-31"),
        ("{server}", "web-1"),
        ("{key}", "said"),
        ("{event}", "1"),
        ("{deployment}", "1"),
        ("{*rest}", "1"),
    ]);
    of_heat.push(("{id}", id));
    let of_onos = text(&[
        ("{device}", "web-1%2Fbr0"),
        ("{application}", "org.example"),
        ("{flow}", "1"),
        ("{cookie}", "0x1"),
        ("{meter}", "1"),
        ("{key}", "a-to-b"),
        ("{host}", "02:00:00:00:00:01"),
        ("{mac}", "02:00:00:00:00:01"),
        ("{vlan}", "None"),
        ("{table}", "0"),
        ("{cluster}", "0"),
        ("{point}", "web-1%2Fbr0%2F1"),
        ("{port}", "1"),
        ("{from}", "a"),
        ("{to}", "b"),
        ("{id}", "1"),
    ]);
    let flow = json!({"deviceId": "web-1/br0", "priority": 1, "isPermanent": true, "timeout": 0,
        "selector": {"criteria": []}, "treatment": {"instructions": []}});
    let heat = Door {
        name: "heat",
        wire: &target.heat,
        prefix: "",
        source: HEAT,
        named: of_heat,
        honest: ("POST /v1/any/stacks", json!({"stack_name": "db", "template": EMPTY})),
        looks: "GET /v1/any/stacks",
    };
    let onos = Door {
        name: "onos",
        wire: &target.onos,
        prefix: "/onos/v1",
        source: ONOS,
        named: of_onos,
        honest: ("POST /onos/v1/flows", json!({"flows": [flow]})),
        looks: "GET /onos/v1/devices",
    };
    [heat, onos]
}

fn basic(user: &str, password: &str) -> String {
    format!("authorization: Basic {}\r\n", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

#[test]
fn doors_are_shut_to_tokens_that_do_not_count() {
    let target = Target::start();
    let (viewer, victim) = (target.user("vera", "viewer"), target.token("victim", &["--role", "admin"]));
    let known: UserToken = victim.parse().unwrap();
    let forged = |changed: UserToken| changed.to_string();
    let revoked = target.token("gone", &["--role", "admin"]);
    target.site.ok(&["user", "revoke", "gone"]);
    let other = forged(UserToken { secret: [7; 32], ..known.clone() });
    let strangers = [
        ("no token", String::new()),
        ("an empty token", bearer("")),
        ("half a token", bearer(&victim[..victim.len() / 2])),
        ("another secret", bearer(&other)),
        ("another name", bearer(&forged(UserToken { name: "root".to_owned(), ..known.clone() }))),
        ("a revoked one", bearer(&revoked)),
        ("a revoked one as a password", basic("gone", &revoked)),
        ("another secret as a password", basic("victim", &other)),
        ("a password that is none", basic("onos", "rocks")),
        ("no pair", "authorization: Basic !!!\r\n".to_owned()),
        ("Heat's own header with another secret", format!("x-auth-token: {other}\r\n")),
        ("a cookie", format!("cookie: authorization=Bearer {victim}\r\n")),
        ("who a proxy says", "x-forwarded-user: root\r\nx-forwarded-for: 127.0.0.1\r\n".to_owned()),
    ];
    for door in doors(&target, &viewer) {
        target.unchanged(|| {
            for (line, body) in door.changing() {
                for (what, headers) in &strangers {
                    let heard = door.ask(&line, headers, &body);
                    assert!(Door::is_refused(&heard), "{line}, {what}: {heard:?}");
                    assert!(!heard.0.contains(&victim), "{line}, {what}");
                    if line == door.honest.0 {
                        assert_eq!(heard.status(), 401, "{line}, {what}: {heard:?}");
                    }
                }
                let in_query = format!("{line}?token={victim}&access_token={victim}");
                assert!(Door::is_refused(&door.ask(&in_query, "", &body)), "{line}");
            }
        });
        door.answers(&bearer(&victim));
    }
    assert!(!target.site.controller.log().contains(&victim));
}

#[test]
fn doors_let_a_role_that_is_too_small_change_nothing() {
    let target = Target::start();
    let (viewer, operator) = (target.user("vera", "viewer"), target.user("otto", "operator"));
    let part =
        bearer(&target.token("ben", &["--role", "operator", "--scope", "rack=r9", "--stacks", "mine-*"]));
    for door in doors(&target, &viewer) {
        target.unchanged(|| {
            for (line, body) in door.changing() {
                for user in [&viewer, &part] {
                    let heard = door.ask(&line, user, &body);
                    // A name that leads elsewhere is no change, nor is what would only be compared, nor the end of
                    // what is not there.
                    let is_look = [301, 302, 307, 308].contains(&heard.status())
                        || line.contains("/preview")
                        || line.contains("/validate")
                        || line.starts_with("DELETE /onos/") && heard.status() == 204;
                    assert!(is_look || Door::is_refused(&heard), "{line}: {heard:?}");
                }
            }
        });
    }
    // The same of somebody who may is done. ONOS's door needs a real switch for that: `processes/onos_api.rs`.
    let [heat, _] = doors(&target, &viewer);
    let (line, body) = (heat.honest.0, heat.honest.1.to_string());
    assert_eq!(heat.ask(line, &viewer, &body).status(), 403, "{line}");
    let done = heat.ask(line, &operator, &body);
    assert!((200..300).contains(&done.status()), "{line}: {done:?}");
}

#[test]
fn doors_refuse_requests_that_no_client_makes() {
    let target = Target::start();
    let (viewer, admin) = (target.user("vera", "viewer"), target.user("ada", "admin"));
    for door in doors(&target, &viewer) {
        let (honest, body) = (door.honest.0, door.honest.1.to_string());
        let second = format!(
            "{honest} HTTP/1.1\r\nhost: muster\r\n{admin}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let post = |headers: &str, body: &str| {
            format!("{honest} HTTP/1.1\r\nhost: muster\r\n{admin}{headers}\r\n{body}").into_bytes()
        };
        let get = |line: &str, headers: &str| {
            format!("{line}\r\nhost: muster\r\nconnection: close\r\n{admin}{headers}\r\n").into_bytes()
        };
        let looks = format!("{} HTTP/1.1", door.looks);
        let rows = [
            ("a thousand headers", get(&looks, &"x: y\r\n".repeat(1000))),
            ("a header of a megabyte", get(&looks, &format!("x: {}\r\n", "y".repeat(1 << 20)))),
            ("a path of a megabyte", get(&format!("GET /{} HTTP/1.1", "x".repeat(1 << 20)), "")),
            ("a line that never ends", vec![b'G'; 1 << 20]),
            ("two lengths", post("content-length: 2\r\ncontent-length: 200\r\n", &format!("{{}}{second}"))),
            (
                "a length and chunks",
                post("content-length: 5\r\ntransfer-encoding: chunked\r\n", &format!("0\r\n\r\n{second}")),
            ),
            (
                "chunks in another spelling",
                post("transfer-encoding: xchunked\r\n", &format!("0\r\n\r\n{second}")),
            ),
            (
                "a space before the colon",
                post("transfer-encoding : chunked\r\n", &format!("0\r\n\r\n{second}")),
            ),
            ("a negative chunk", post("transfer-encoding: chunked\r\n", "-1\r\nx\r\n0\r\n\r\n")),
            ("a length beyond numbers", post("content-length: 99999999999999999999999\r\n", "{}")),
            ("a NUL in a header", get(&looks, "x: a\0b\r\n")),
            ("a tunnel", get("CONNECT muster:22 HTTP/1.1", "")),
            ("a trace", get("TRACE / HTTP/1.1", "")),
            ("HTTP/0.9", format!("{}\r\n", door.looks).into_bytes()),
            ("bytes that are no text", vec![0xff; 4096]),
        ];
        target.unchanged(|| {
            for (what, bytes) in rows {
                let heard = door.wire.say(&bytes);
                let fits = |status: &u16| (400..500).contains(status) || *status == 501;
                assert!(heard.statuses().iter().all(fits), "{}, {what}: {:?}", door.name, heard.statuses());
                assert!(heard.statuses().len() < 3, "{}, {what}: {:?}", door.name, heard.statuses());
                door.answers(&viewer);
            }
        });
    }
}

#[test]
fn doors_lead_to_their_own_paths_alone() {
    let target = Target::start();
    let (viewer, admin) = (target.user("vera", "viewer"), target.user("ada", "admin"));
    for door in doors(&target, &viewer) {
        target.unchanged(|| {
            // What is behind the other doors, and names that are no single name.
            for path in [
                "/v1/users",
                "/v1/stacks",
                "/v1/audit",
                "/metrics",
                "/console",
                "/console/login",
                "/onos/v1/../../v1/users",
                "/onos/v1/..%2f..%2fv1/users",
                "/onos/v1//devices",
                "/ONOS/v1/devices",
                "/onos/v1/devices/..%2f..%2fusers",
                "/onos/v1/devices/web-1%2Fbr0%2F..%2F..%2Fusers",
                "/onos/v1/flows/%00",
                "/v1/any/../../v1/users",
                "/v1/any/stacks/..%2fusers",
                "/v1/any/stacks/web%2f..%2f..%2fusers",
                "/v1/any/stacks/web%00",
                "/v1/any/stacks/%0d%0ax:%20y",
                "/v1/any/users",
                "/../../../../etc/passwd",
                "/%2e%2e/%2e%2e/etc/passwd",
            ] {
                let heard = door.ask(&format!("GET {path}"), &admin, "");
                assert!(Door::is_refused(&heard), "{}, {path}: {heard:?}", door.name);
                assert!(
                    !heard.body().contains("\"role\":") && !heard.body().contains("root:"),
                    "{}, {path}: {heard:?}",
                    door.name
                );
                assert_eq!(heard.header("x"), None, "{}, {path}", door.name);
            }
        });
    }
    // And the API's door has none of theirs.
    for path in ["/onos/v1/devices", "/v1/any/stacks", "/v1/any/build_info"] {
        assert_eq!(target.https.ask(&format!("GET {path}"), &admin, "").status(), 404, "{path}");
    }
}

#[test]
fn doors_refuse_pages_of_other_sites() {
    let target = Target::start();
    let (viewer, admin) = (target.user("vera", "viewer"), target.user("ada", "admin"));
    for door in doors(&target, &viewer) {
        let body = door.honest.1.to_string();
        target.unchanged(|| {
            for headers in [
                "origin: https://evil.example\r\n",
                "origin: null\r\n",
                "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
                "host: evil.example\r\norigin: https://evil.example\r\n",
            ] {
                // Without a token, as a browser would send it.
                let heard = door.ask(door.honest.0, headers, &body);
                assert!(Door::is_refused(&heard), "{}, {headers}: {heard:?}", door.name);
                assert_eq!(heard.header("access-control-allow-origin"), None, "{}", door.name);
                let before = format!("OPTIONS {}", door.honest.0.split_once(' ').unwrap().1);
                let asks = format!("{headers}access-control-request-method: POST\r\n{admin}");
                let heard = door.wire.ask(&before, &asks, "");
                assert_eq!(heard.header("access-control-allow-origin"), None, "{}", door.name);
            }
        });
    }
    // A browser sends a password that it knows along with any page's request.
    let remembered = basic("ada", admin.trim().rsplit(' ').next().unwrap());
    let [_, onos] = doors(&target, &viewer);
    target.unchanged(|| {
        let heard = onos.ask(
            onos.honest.0,
            &format!("{remembered}origin: https://evil.example\r\n"),
            &onos.honest.1.to_string(),
        );
        assert_eq!(heard.status(), 403, "{heard:?}");
    });
}

#[test]
fn doors_refuse_documents_that_explode() {
    let target = Target::start();
    let (viewer, admin) = (target.user("vera", "viewer"), target.user("ada", "admin"));
    let large = "x".repeat(BODY_MAX);
    let bombs = [
        ("nothing", String::new()),
        ("arrays in arrays", format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("objects in objects", format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000))),
        ("arrays that do not end", "[".repeat(BODY_MAX - 1)),
        ("a number beyond numbers", "{\"stack_name\": 1e999999999, \"flows\": 1e999999999}".to_owned()),
        ("another kind", "{\"stack_name\": [], \"template\": 1, \"flows\": \"x\"}".to_owned()),
        ("half a character", "{\"stack_name\": \"\\ud800\", \"flows\": \"\\ud800\"}".to_owned()),
        ("a flow of nothing", "{\"stack_name\": \"\", \"template\": {}, \"flows\": [{}]}".to_owned()),
        (
            "numbers that do not fit",
            "{\"flows\": [{\"deviceId\": \"of:ffffffffffffffffff\", \"priority\": -1}]}".to_owned(),
        ),
        ("more after the end", "{\"flows\": []} {\"stack_name\": \"a\"}".to_owned()),
        ("more than fits", format!("{large}{large}")),
        ("a form", "stack_name=a&template=b".to_owned()),
    ];
    for door in doors(&target, &viewer) {
        target.unchanged(|| {
            for (what, body) in &bombs {
                let heard = door.ask(door.honest.0, &admin, body);
                // A body that is not read to its end may cost the connection.
                let is_cut = heard.status() == 0 && body.len() >= BODY_MAX;
                assert!(is_cut || Door::is_refused(&heard), "{}, {what}: {heard:?}", door.name);
                door.answers(&viewer);
            }
        });
    }
}
