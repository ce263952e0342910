//! Every page of the console, made of answers in which each text is one that a browser would run. The answers come from the
//! API's description, and the pages from the console's routes: a new text and a new page are in these tests by themselves.

use axum::routing::{MethodFilter, on};
use muster_api::openapi;
use muster_api::route::{Content, Method, ROUTES};
use serde_json::{Map, Value};

use super::*;

/// Begins an element, ends an attribute, a comment, a script, CDATA and an event of a stream, and hides characters.
const TEXT: &str = "]]>--></script></title><taken a=\"b\"/><svg onload=taken()>' \" onfocus=\"taken&lt;taken>\u{1b}[2J\u{202e}\
                    \r\n\r\nevent: taken\r\ndata: taken\r\n\r\n";
/// An address that a browser would run.
const ADDRESS: &str = "javascript:taken()//<taken>";
/// The deepest value that is made.
const DEEP: usize = 8;

/// The text for every place, and others by key: they make pages of stacks under way, of running rollouts, of VLANs.
#[derive(Clone, Copy)]
struct Words {
    text: &'static str,
    /// The variant that is taken where there are several.
    variant: usize,
    by_key: &'static [(&'static str, &'static str)],
}

const ROUNDS: &[Words] = &[
    Words { text: TEXT, variant: 0, by_key: &[] },
    Words {
        text: ADDRESS,
        variant: 1,
        by_key: &[("name", "eth0.1"), ("device", "web-1/javascript:taken()")],
    },
    Words {
        text: TEXT,
        variant: 2,
        by_key: &[("status", "IN_PROGRESS"), ("state", "going"), ("kind", "vlan"), ("phase", "hook")],
    },
    Words {
        text: TEXT,
        variant: 3,
        by_key: &[
            ("status", "FAILED"),
            ("state", "paused"),
            ("device", "web-1/br0"),
            ("created_at", "2026-01-01T00:00:00Z"),
        ],
    },
];

/// A value of a schema of the description.
struct Maker {
    document: Value,
    words: Words,
}

impl Maker {
    fn of(&self, schema: &Value, key: &str, deep: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let schema = &self.document["components"]["schemas"][name.rsplit('/').next().unwrap()];
            return if deep > DEEP { Value::Null } else { self.of(schema, key, deep + 1) };
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(variants) = schema[several].as_array() {
                let variants: Vec<&Value> = variants.iter().filter(|one| one["type"] != "null").collect();
                return self.of(variants[self.words.variant % variants.len()], key, deep);
            }
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
            return values[self.words.variant % values.len()].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap(),
            kind => kind,
        };
        match kind.as_str() {
            Some("string") if schema["format"] == "ip" => json!("192.0.2.1"),
            Some("string") => json!(self.word(key)),
            Some("integer" | "number") => json!(3),
            Some("boolean") => json!(self.words.variant.is_multiple_of(2)),
            Some("array") => {
                json!([self.of(&schema["items"], key, deep + 1), self.of(&schema["items"], key, deep + 1)])
            }
            Some("object") if key == "facts" => self.facts(deep),
            Some("object") => self.object(schema, deep),
            _ => json!({self.words.text: [self.words.text, {"deep": self.words.text}]}),
        }
    }

    fn object(&self, schema: &Value, deep: usize) -> Value {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let mut object: Map<String, Value> =
            fields.map(|(key, field)| (key.clone(), self.of(field, key, deep + 1))).collect();
        match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => {
                drop(object.insert(self.words.text.to_owned(), self.words.text.into()))
            }
            Some(more @ Value::Object(_)) => {
                object.insert(self.words.text.to_owned(), self.of(more, "", deep + 1));
            }
            _ => {}
        }
        object.into()
    }

    /// Facts have no schema of their own within a node, but that of a node's facts.
    fn facts(&self, deep: usize) -> Value {
        let mut facts = self.object(&self.document["components"]["schemas"]["FactsView"], deep);
        facts["os"] = json!(self.words.text);
        facts[self.words.text] = json!([self.words.text]);
        facts
    }

    fn word(&self, key: &str) -> &'static str {
        let of_key = self.words.by_key.iter().find(|(name, _)| *name == key);
        of_key.map_or(self.words.text, |(_, word)| word)
    }
}

/// The API with such answers.
fn api(words: Words) -> Router {
    let maker = Maker { document: openapi::document(), words };
    let mut api = Router::new();
    for (_, route) in ROUTES {
        let Content::Json(_) = route.answer else { continue };
        let (method, filter) = match route.method {
            Method::Get => ("get", MethodFilter::GET),
            Method::Post => ("post", MethodFilter::POST),
            Method::Put => ("put", MethodFilter::PUT),
            Method::Patch => ("patch", MethodFilter::PATCH),
            Method::Delete => ("delete", MethodFilter::DELETE),
        };
        let answers = &maker.document["paths"][route.path][method]["responses"];
        let answer = answers.as_object().unwrap().values().next().unwrap();
        let mut value = maker.of(&answer["content"]["application/json"]["schema"], "", 0);
        if route.path == "/v1/caller" {
            value["role"] = json!("operator");
            // A label, which has a form of its own.
            value["scope"] = Value::Null;
        }
        api = api.route(route.path, on(filter, async move || Json(value)));
    }
    api
}

/// Addresses of all pages, with what is asked of them.
fn pages() -> Vec<String> {
    let routes = include_str!("../lib.rs").split(".route(").skip(1);
    let paths = routes.filter_map(|rest| {
        let (path, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let line = rest.lines().next()?;
        (line.contains("get(page::") && !path.contains("{*")).then_some(path)
    });
    let text = muster_front::escaped(TEXT);
    let mut pages: Vec<String> = paths
        .map(|path| {
            let parts = path.split('/').map(|part| if part.starts_with('{') { &*text } else { part });
            parts.collect::<Vec<_>>().join("/")
        })
        .collect();
    assert!(pages.len() > 14, "{pages:?}");
    let query = ["selector", "search", "from", "packet", "user", "marker", "after", "state"]
        .map(|name| format!("{name}={text}"))
        .join("&");
    pages.extend(["/console", "/console/trace"].map(|page| format!("{page}?{query}")));
    pages
}

/// No part of a text is anything else than text.
fn is_text_alone(what: &str, page: &str) {
    let small = page.to_lowercase();
    // Attributes are in the other quotes, which are what is escaped.
    for part in ["<taken", "<svg onload", "</script></title", "]]>--", "='", "\" onfocus=\""] {
        let near = small.find(part).map(|at| small.get(at.saturating_sub(200)..at + 60).unwrap_or(part));
        assert_eq!(near, None, "{what} has {part}");
    }
    for address in ["href=", "src=", "action=", "formaction=", "xlink:href="] {
        for quote in ['"', '\''] {
            let bad = format!("{address}{quote}javascript:");
            assert!(!small.contains(&bad), "{what} has {bad}");
        }
    }
}

#[tokio::test]
async fn every_text_of_every_page_is_text() {
    let mut shown = 0;
    for (round, words) in ROUNDS.iter().enumerate() {
        let (_, stopped) = watch::channel(());
        let host = Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped };
        let console = with(api(*words), host);
        let (cookie, key) = log_in(&console, "anna").await;
        for path in pages() {
            let answer = ask(&console, &path, &cookie, None).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path} {}", text(answer).await);
            let page = text(answer).await;
            is_text_alone(&format!("round {round} {path}"), &page);
            shown += usize::from(page.contains("taken"));
        }
        let stack = format!("/console/stacks/{}", muster_front::escaped(TEXT));
        for path in [format!("{stack}/update"), format!("{stack}/update/start")] {
            let form = [("key", &*key), ("template", TEXT), ("previewed", TEXT)];
            let page = text(ask(&console, &path, &cookie, Some(&form)).await).await;
            is_text_alone(&format!("round {round} {path}"), &page);
            shown += usize::from(page.contains("taken"));
        }
        // A refusal repeats what was sent.
        let page =
            text(ask(&console, "/console/login", "", Some(&[("token", TEXT), ("next", TEXT)])).await).await;
        is_text_alone("the login", &page);
    }
    assert!(shown >= ROUNDS.len() * (pages().len() - 3), "{shown} pages show it");
}

/// A page that is sent again is one event, whatever is in it; and only pages that say so are sent again.
#[tokio::test]
async fn no_text_is_an_event_of_a_live_page() {
    let (_, stopped) = watch::channel(());
    let host = Host { site: String::new(), random: bytes, peer: |_| Some(Extensions::new()), stopped };
    let console = with(api(ROUNDS[0]), host);
    let (cookie, _) = log_in(&console, "anna").await;
    let (mut live_pages, mut others) = (0, 0);
    for path in pages() {
        let page = text(ask(&console, &path, &cookie, None).await).await;
        let is_live = page.contains("data-live=");
        (live_pages, others) = (live_pages + usize::from(is_live), others + usize::from(!is_live));
        let live = format!("/console/live?mark=x&page={}", muster_front::escaped(&path));
        let mut events = ask(&console, &live, &cookie, None).await.into_body();
        let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
        let event = String::from_utf8(frame.to_vec()).unwrap();
        let begun: Vec<&str> = event.split(['\r', '\n']).filter(|line| line.starts_with("event:")).collect();
        assert_eq!(begun, [if is_live { "event: main" } else { "event: ended" }], "{path}");
        is_text_alone(&live, &event);
    }
    assert!(live_pages > 11 && others > 3, "{live_pages} and {others}");
}
