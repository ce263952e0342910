//! Pages of the console for a site with 10,000 nodes, a stack of 100,000 resources, and as much of the rest: none is larger
//! than 2 MB. Times are printed and judged by nobody; `tests/bench/console.sh` measures them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use futures_util::future::join_all;
use tower::ServiceExt as _;

use super::*;
use crate::api::authorization::Peer;

const NODES: usize = 10_000;
const PAGE_MAX: usize = 2_000_000;
/// Joins that wait for one commit.
const AT_A_TIME: usize = 1000;

const LARGE: &str = "\
heat_template_version: 2018-08-31
resources:
  all:
    type: OS::Heat::ResourceGroup
    properties:
      count: 100000
      resource_def: {type: OS::Heat::Value, properties: {value: 'value %index%'}}
outputs:
  all: {value: {get_attr: [all, value]}}
";

/// Waits for its nodes, which are away.
const FLEET: &str = "\
heat_template_version: 2018-08-31
resources:
  motd:
    type: OS::Heat::ResourceGroup
    properties:
      count: 10000
      resource_def: {type: Muster::Dummy, properties: {node: n%index%, values: {a: '%index%'}}}
  link:
    type: OS::Heat::ResourceGroup
    properties:
      count: 10000
      resource_def:
        type: Muster::TopologyLink
        properties: {from: {device: n%index%/br0, port: up}, to: {device: hub/br0, port: p%index%}}
";

/// A browser of an operator who has logged in.
struct Browser {
    console: Router,
    cookie: String,
}

impl Browser {
    async fn log_in(world: &World) -> Self {
        let stopped = watch::channel(()).1;
        let api = router(Api::new(
            large(),
            world.driver.clone(),
            world.reader(),
            Arc::clone(&world.pki),
            stopped.clone(),
        ));
        let (_, user) =
            world.ask("POST /v1/users", &json!({"name": "anna", "role": "operator", "ttl": 3600})).await;
        let mut browser = Self {
            console: console::with(with_switches(api), &SiteName::default(), stopped),
            cookie: String::new(),
        };
        let form =
            format!("token={}&next=/console", user["token"].as_str().unwrap_or_else(|| panic!("{user}")));
        let (parts, _) = browser.ask("/console/login", Some(form)).await;
        assert_eq!(parts.headers.get(LOCATION).unwrap(), "/console");
        let cookie = parts.headers[SET_COOKIE].to_str().unwrap().to_owned();
        browser.cookie = cookie.split(';').next().unwrap().to_owned();
        browser
    }

    async fn ask(&self, path: &str, form: Option<String>) -> (axum::http::response::Parts, String) {
        let mut request = Request::builder()
            .uri(path)
            .header(COOKIE, &self.cookie)
            .extension(Peer::Remote(IpAddr::V4(Ipv4Addr::LOCALHOST), None));
        if form.is_some() {
            request = request.method("POST").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let request = request.body(form.map_or_else(Body::empty, Body::from)).unwrap();
        let (parts, body) = self.console.clone().oneshot(request).await.unwrap().into_parts();
        (parts, String::from_utf8(to_bytes(body, 64 << 20).await.unwrap().to_vec()).unwrap())
    }

    /// A page, no larger than a page may be.
    async fn page(&self, path: &str) -> String {
        let began = Instant::now();
        let (parts, page) = self.ask(path, None).await;
        let millis = began.elapsed().as_millis();
        eprintln!("{}", json!({"page": path, "bytes": page.len(), "milliseconds": millis}));
        assert_eq!(parts.status, StatusCode::OK, "{path}: {}", &page[..page.len().min(2000)]);
        assert!(page.len() < PAGE_MAX, "{path}: {} bytes", page.len());
        page
    }
}

/// The API, with the words of switches that would be asked if their agents were not away: a packet goes from the last
/// server to the hub, and is lost there.
fn with_switches(api: Router) -> Router {
    let point = |device: &str, port: &str| json!({"device": device, "port": port});
    let trace = json!({
        "from": point("n9999/br0", "h"),
        "hops": [
            {"hop": 1, "device": "n9999/br0", "in_port": "h", "outputs": [point("n9999/br0", "up")]},
            {"hop": 2, "after": 1, "device": "hub/br0", "in_port": "p9999"},
        ],
        "ends": [{"hop": 2, "why": "no rule of table 0 on hub/br0 takes it"}],
    });
    let proof = json!({"key": "intent-00001", "verdict": "broken", "tried": 1, "trace": trace});
    Router::new()
        .route("/v1/trace", get(async move || Json(trace)))
        .route("/v1/intents/{key}/verify", get(async move || Json(proof)))
        .fallback_service(api)
}

/// As the controller's own defaults are.
fn large() -> ApiConfig {
    ApiConfig {
        body_max: 256 << 20,
        template_max: 16 << 20,
        flow_rules_max: 1_000_000,
        api_ca: Some([7; 32]),
        ..config()
    }
}

impl World {
    async fn joined(&self) {
        let (_, answer) =
            self.ask("POST /v1/tokens", &json!({"ttl": 3600, "uses": NODES, "name": "n*"})).await;
        let token: JoinToken =
            answer["token"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap();
        for first in (0..NODES).step_by(AT_A_TIME) {
            let joins = (first..first + AT_A_TIME).map(|n| {
                let ask = JoinAsk {
                    token_id: token.id.0,
                    secret: token.secret.clone(),
                    name: format!("n{n}").parse().unwrap(),
                    seal_public: SealPublic([7; 32]),
                    agent_version: "1".to_owned(),
                    moves: false,
                    wall: 0,
                };
                self.driver.request(muster_engine::Request::Join(ask))
            });
            for joined in join_all(joins).await {
                joined.unwrap();
            }
        }
    }

    async fn filled(&self) {
        self.joined().await;
        for (name, template) in [("large", LARGE), ("fleet", FLEET)] {
            let (status, answer) = self.create(name, template).await;
            assert_eq!(status, 202, "{answer}");
        }
        for first in (0..NODES / 10).step_by(AT_A_TIME) {
            let names: Vec<String> = (first..first + AT_A_TIME).map(|n| format!("small-{n}")).collect();
            for (status, answer) in join_all(names.iter().map(|name| self.create(name, EMPTY))).await {
                assert_eq!(status, 202, "{answer}");
            }
        }
        let rule = |device: String, n: usize| {
            json!({"device": device, "priority": 100, "treatment": [{"output": "p1"}],
                "selector": {"eth_type": 0x0800, "ipv4_dst": format!("10.{}.{}.0/24", n / 256, n % 256)}})
        };
        let many = (0..65_000).map(|n| rule("n0/br0".to_owned(), n));
        let rules: Vec<Value> = many.chain((1..NODES).map(|n| rule(format!("n{n}/br0"), 0))).collect();
        let (status, answer) = self.ask("POST /v1/flows", &json!({ "rules": rules })).await;
        assert_eq!(status, 200, "{answer}");
        let end = |n: usize| json!({"device": format!("n{n}/br0"), "port": "h"});
        let intents: Vec<Value> = (1..NODES)
            .map(|n| json!({"key": format!("intent-{n:05}"), "type": "point_to_point", "from": end(0), "to": end(n)}))
            .collect();
        let (status, answer) = self.ask("POST /v1/intents", &json!({ "intents": intents })).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Waits until the links of the fleet are in the network.
    async fn until_linked(&self) {
        let mut seq = 0;
        loop {
            let (_, network) = self.get("/v1/topology?devices=n9999/br0&limit=1").await;
            if network["devices"][0]["device"] == "n9999/br0" {
                return;
            }
            let (_, view) = self.get(&format!("/v1/stacks/fleet/watch?seq={seq}")).await;
            assert_eq!(view["status"], "IN_PROGRESS", "{view}");
            seq = view["seq"].as_u64().unwrap();
        }
    }

    async fn until_complete(&self, stack: &str) {
        let mut seq = 0;
        loop {
            let (_, view) = self.get(&format!("/v1/stacks/{stack}/watch?seq={seq}")).await;
            match view["status"].as_str() {
                Some("COMPLETE") => return,
                Some("IN_PROGRESS") => seq = view["seq"].as_u64().unwrap(),
                _ => panic!("{view}"),
            }
        }
    }
}

/// The pages of each route, and beside it another page of the same route.
const PAGES: [(&str, &[&str]); 16] = [
    ("/console", &["/console", "/console?selector=role%3Dweb"]),
    ("/console/nodes/{node}", &["/console/nodes/n0", "/console/nodes/n9999"]),
    ("/console/stacks", &["/console/stacks"]),
    ("/console/stacks/{stack}", &["/console/stacks/large", "/console/stacks/fleet"]),
    (
        "/console/stacks/{stack}/resources",
        &["/console/stacks/large/resources", "/console/stacks/fleet/resources?status=IN_PROGRESS"],
    ),
    ("/console/stacks/{stack}/events", &["/console/stacks/large/events", "/console/stacks/fleet/events"]),
    ("/console/rollouts", &["/console/rollouts"]),
    ("/console/devices", &["/console/devices"]),
    ("/console/network", &["/console/network", "/console/network?after=n5%2Fbr0"]),
    ("/console/intents", &["/console/intents", "/console/intents?search=intent-09"]),
    ("/console/intents/{key}", &["/console/intents/intent-00001"]),
    ("/console/audit", &["/console/audit"]),
    ("/console/stacks/{stack}/update", &["/console/stacks/large/update"]),
    (
        "/console/devices/{node}/{bridge}",
        &[
            "/console/devices/n0/br0",
            "/console/devices/n0/br0?search=10.9.9.0",
            "/console/devices/n0/br0?from=64950",
        ],
    ),
    ("/console/intents/{key}/verify", &["/console/intents/intent-00001/verify"]),
    ("/console/trace", &["/console/trace", "/console/trace?from=n9999%2Fbr0%3Ah&packet="]),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_a_large_site_is_larger_than_2_mb() {
    let world = World::with(large()).await;
    world.filled().await;
    world.until_complete("large").await;
    world.until_linked().await;
    let browser = Browser::log_in(&world).await;

    // A new page of the console has to be in the list.
    let routes = include_str!("../../../console/src/lib.rs").lines().filter_map(|line| {
        let (path, method) = line.trim().strip_prefix(".route(\"/console")?.split_once("\", ")?;
        let is_page = method.starts_with("get(page::") && !path.contains('*');
        is_page.then(|| format!("/console{path}"))
    });
    let listed: Vec<&str> = PAGES.iter().map(|(route, _)| *route).collect();
    assert_eq!(routes.collect::<Vec<_>>(), listed);
    let mut next = 0;
    for path in PAGES.iter().flat_map(|(_, paths)| *paths) {
        let page = browser.page(path).await;
        // The next page is another one, and no larger.
        if let Some((_, rest)) = page.split_once("rel=\"next\" href=\"") {
            let href = rest.split('"').next().unwrap().replace("&amp;", "&");
            assert_ne!(browser.page(&href).await, page, "{path}");
            next += 1;
        }
    }
    assert!(next >= 9, "{next} lists have a next page");

    let of_rules = browser.page("/console/devices/n0/br0?search=10.9.9.0").await;
    assert!(of_rules.contains("Entries 1 to 1.") && of_rules.contains("10.9.9.0/24"), "{of_rules}");
    let last = browser.page("/console/devices/n0/br0?from=64950").await;
    assert!(last.contains("Entries 64951 to 65000.") && !last.contains("rel=\"next\""), "{last}");

    // The packet's own switches are drawn, whatever their names are.
    for path in ["/console/trace?from=n9999%2Fbr0%3Ah&packet=", "/console/intents/intent-00001/verify"] {
        let page = browser.page(path).await;
        let drawn = page.split_once("<svg").and_then(|(_, rest)| rest.split_once("</svg>"));
        let (drawn, _) = drawn.unwrap_or_else(|| panic!("{path} has no picture"));
        assert!(drawn.contains("n9999/br0") && drawn.contains("hub/br0"), "{path}");
    }

    // What an update of everything would do.
    let page = browser.page("/console/stacks/large/update").await;
    let key = page.split_once("name=\"key\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let template = LARGE.replace("'value %index%'", "'another value %index%'");
    let form = format!("key={key}&template={}", muster_front::escaped(&template));
    let (parts, page) = browser.ask("/console/stacks/large/update", Some(form)).await;
    assert_eq!(parts.status, StatusCode::OK, "{page}");
    assert!(page.contains("another value 1") && page.contains("the first 500 are shown"), "{page}");
    assert!(page.len() < PAGE_MAX, "{} bytes", page.len());
    world.stop().await;
}
