//! Programs in Go work with Heat's API over gophercloud, as Terraform's provider for OpenStack does: the requests of that
//! provider for a stack's apply, change, refresh and destroy, in their order, with answers read into the types that the
//! library reads them into. Neither is here, so what they send is written down. The provider itself asks a Keystone
//! for a token first, which Muster is not.

use std::collections::BTreeMap;
use std::process::Command;

use muster_testbed::{Running, eventually};
use muster_tests::site::Site;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::heat_api::{site, token};

const TEMPLATE: &str = "heat_template_version: 2018-08-31
parameters:
  text: {type: string}
  count: {type: number, default: 1}
  names: {type: comma_delimited_list, default: 'a,b'}
resources:
  value: {type: OS::Heat::Value, properties: {value: {get_param: text}}}
outputs:
  said: {value: {get_attr: [value, value]}, description: what was said}
  all: {value: {get_param: names}}
";

/// An answer as the library reads it. It takes null for nothing, and refuses a value of another type.
#[derive(Debug, Deserialize)]
struct Answer<T> {
    stack: T,
}

#[derive(Debug, Deserialize)]
struct Created {
    id: String,
    links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "to read them is the test")]
struct Link {
    href: String,
    rel: String,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "to read them is the test")]
struct Retrieved {
    capabilities: Option<Vec<Value>>,
    creation_time: Option<String>,
    description: Option<String>,
    disable_rollback: Option<bool>,
    id: String,
    links: Vec<Link>,
    notification_topics: Option<Vec<Value>>,
    outputs: Option<Vec<BTreeMap<String, Value>>>,
    parameters: BTreeMap<String, String>,
    stack_name: String,
    stack_status: String,
    stack_status_reason: Option<String>,
    tags: Option<Vec<String>>,
    template_description: Option<String>,
    timeout_mins: Option<i64>,
    updated_time: Option<String>,
}

/// The library's client: it follows a redirect of a GET, and wants one of these statuses.
struct Library {
    endpoint: String,
    token: String,
}

impl Library {
    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--max-time", "20", "-w", "\n%{http_code}", "-X", method]);
        if method == "GET" {
            curl.arg("-L");
        }
        curl.args(["-H", "Accept: application/json", "-H", "User-Agent: gophercloud/v2"]);
        curl.args(["-H", &format!("X-Auth-Token: {}", self.token)]);
        if let Some(body) = body {
            curl.args(["-H", "Content-Type: application/json", "-d", &body.to_string()]);
        }
        let ran = Running::start({
            curl.arg(format!("{}/{path}", self.endpoint));
            curl
        })
        .finish()
        .expect(0);
        let (text, status) = ran.stdout.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), text.to_owned())
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        match self.send("GET", path, None) {
            (200, text) => {
                Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}")))
            }
            (404, _) => None,
            (status, text) => panic!("{path}: {status} {text}"),
        }
    }

    /// The stack that the provider finds by the id in its state; `None`: it is gone.
    fn find(&self, id: &str) -> Option<Retrieved> {
        self.get::<Answer<Retrieved>>(&format!("stacks/{id}")).map(|answer| answer.stack)
    }

    /// Waits as the provider does: it goes on from what is pending alone.
    fn wait(&self, id: &str, pending: &[&str], wanted: &[&str]) -> Retrieved {
        eventually(&format!("{wanted:?}"), || {
            let stack = self.find(id).expect("the stack is there");
            if wanted.contains(&&*stack.stack_status) {
                return Some(stack);
            }
            assert!(pending.contains(&&*stack.stack_status), "{stack:?}");
            None
        })
    }
}

fn output<'s>(stack: &'s Retrieved, key: &str) -> &'s Value {
    let outputs = stack.outputs.as_ref().unwrap();
    &outputs.iter().find(|output| output["output_key"] == key).unwrap()["output_value"]
}

/// A time of Go's `time.RFC3339`, or of the same without a zone.
fn is_time(text: Option<&String>) -> bool {
    let bytes = text.map(|text| text.trim_end_matches('Z').as_bytes());
    bytes.is_some_and(|bytes| bytes.len() == 19 && bytes[10] == b'T' && bytes[4] == b'-' && bytes[13] == b':')
}

#[test]
fn gophercloud_creates_updates_and_deletes_a_stack() {
    // The requests are those of Terraform's provider.
    let (site, port): (Site, u16) = site("");
    let token = token(&site, "builder", "operator");
    let library = Library { endpoint: format!("http://127.0.0.1:{port}/v1/any"), token };
    // An apply. The provider always gives tags, and whether to roll back.
    let body = json!({
        "stack_name": "web",
        "disable_rollback": false,
        "template": TEMPLATE,
        "environment": "parameters: {count: 2}\n",
        "parameters": {"text": "first"},
        "timeout_mins": 30,
        "tags": "",
    });
    let (status, text) = library.send("POST", "stacks", Some(&body));
    assert_eq!(status, 201, "{text}");
    let created: Answer<Created> = serde_json::from_str(&text).unwrap();
    let id = created.stack.id;
    assert_eq!(created.stack.links[0].rel, "self");
    let made = ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS"];
    let stack = library.wait(&id, &["CREATE_IN_PROGRESS", "INIT_COMPLETE"], &made);
    // The refresh: what the provider keeps in its state.
    assert_eq!((&*stack.stack_name, &*stack.id), ("web", &*id));
    assert_eq!((stack.disable_rollback, stack.timeout_mins), (Some(false), Some(30)));
    assert!(is_time(stack.creation_time.as_ref()), "{stack:?}");
    let given = |stack: &Retrieved, name: &str| stack.parameters[name].clone();
    assert_eq!(
        ["text", "count", "names"].map(|name| given(&stack, name)),
        ["first", "2", "a,b"].map(str::to_owned)
    );
    for own in ["OS::project_id", "OS::stack_id", "OS::stack_name"] {
        assert!(stack.parameters.contains_key(own), "the provider takes {own} out: {stack:?}");
    }
    assert_eq!((output(&stack, "said"), output(&stack, "all")), (&json!("first"), &json!(["a", "b"])));

    // A second apply of the same name is refused, and nothing changes.
    let (status, text) = library.send("POST", "stacks", Some(&body));
    assert_eq!(status, 409, "{text}");

    // A change: all that is there is given again, with tags as the provider joins none.
    let body = json!({
        "template": TEMPLATE,
        "environment": "parameters: {count: 2}\n",
        "parameters": {"text": "second"},
        "timeout_mins": 30,
        "tags": "",
    });
    let name = library.find(&id).unwrap().stack_name;
    let (status, text) = library.send("PUT", &format!("stacks/{name}/{id}"), Some(&body));
    assert_eq!(status, 202, "{text}");
    // The provider reads what is there now, and does not wait.
    library.find(&id).unwrap();
    let stack = library.wait(&id, &["CREATE_COMPLETE", "UPDATE_IN_PROGRESS"], &["UPDATE_COMPLETE"]);
    assert_eq!((&*given(&stack, "text"), output(&stack, "said")), ("second", &json!("second")));
    assert!(is_time(stack.updated_time.as_ref()), "{stack:?}");
    // Another value would make the provider replace the stack.
    assert_eq!((stack.disable_rollback, stack.timeout_mins), (Some(false), Some(30)));

    // An import by name finds the same stack.
    assert_eq!(library.find("web").unwrap().id, id);

    // Other calls of the library.
    let listed: Value = library.get("stacks?name=web&sort_dir=asc&sort_keys=name").unwrap();
    assert_eq!(listed["stacks"][0]["id"], json!(id));
    let resources: Value = library.get(&format!("stacks/web/{id}/resources?nested_depth=1")).unwrap();
    assert_eq!(resources["resources"][0]["resource_name"], "value");
    let events: Value = library.get(&format!("stacks/web/{id}/events?limit=2")).unwrap();
    assert_eq!(events["events"].as_array().unwrap().len(), 2);
    let template: Value = library.get(&format!("stacks/web/{id}/template")).unwrap();
    assert_eq!(template["heat_template_version"], "2018-08-31");
    let build: Value = library.get("build_info").unwrap();
    assert!(build["api"]["revision"].is_string() && build["engine"]["revision"].is_string(), "{build}");

    // A destroy. A second one finds nothing, which the provider takes for success.
    let name = library.find(&id).unwrap().stack_name;
    let (status, text) = library.send("DELETE", &format!("stacks/{name}/{id}"), None);
    assert_eq!(status, 204, "{text}");
    eventually("the stack is gone", || library.find(&id).is_none().then_some(()));
    let (status, text) = library.send("DELETE", &format!("stacks/web/{id}"), None);
    assert_eq!(status, 404, "{text}");

    // A failed apply rolls back, and tells why.
    let fails = "heat_template_version: 2018-08-31\nresources: {bad: {type: OS::Heat::TestResource, properties: {fail: true}}}\n";
    let body = json!({"stack_name": "bad", "disable_rollback": false, "template": fails, "tags": ""});
    let (status, text) = library.send("POST", "stacks", Some(&body));
    assert_eq!(status, 201, "{text}");
    let created: Answer<Created> = serde_json::from_str(&text).unwrap();
    let pending = ["CREATE_IN_PROGRESS", "CREATE_FAILED", "ROLLBACK_IN_PROGRESS"];
    let stack = library.wait(&created.stack.id, &pending, &["ROLLBACK_COMPLETE"]);
    let events: Value = library.get(&format!("stacks/bad/{}/events", stack.id)).unwrap();
    let reasons: Vec<&str> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["resource_status_reason"].as_str())
        .collect();
    assert!(reasons.iter().any(|reason| reason.contains("told to fail")), "{reasons:?}");
}
