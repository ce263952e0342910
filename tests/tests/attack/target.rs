//! The target of the attacks: a controller with a node, a stack and users, and what of it must not change.

use muster_testbed::{eventually, port};
use muster_tests::site::{Agent, Site, template_of_a_file};
use serde_json::{Value, json};

use crate::https::{Heard, Https};

/// Bytes of a body: small, so that few of them are too much.
pub const BODY_MAX: usize = 1 << 20;

/// A site whose API is there over the network. Dropped in this order.
pub struct Target {
    pub agent: Agent,
    pub site: Site,
    pub https: Https,
    /// ONOS's REST, over TLS.
    pub onos: Https,
    /// Heat's API, which is without TLS on this machine.
    pub heat: Https,
}

impl Target {
    pub fn start() -> Self {
        let (ports, mut site) = ([port(), port(), port()], Site::start());
        let [api, onos, heat] = ports;
        site.configure(&format!(
            "[controller]\napi = '127.0.0.1:{api}'\nonos_api = '127.0.0.1:{onos}'\nheat_api = '127.0.0.1:{heat}'\n[limits]\napi_body = {BODY_MAX}\ntemplate = {}\n",
            BODY_MAX / 2
        ));
        site.kill();
        site.restart();
        let agent = site.join("web-1");
        let template = site.file(&template_of_a_file("web-1", &agent.file("motd")));
        site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=hello", "--wait"]);
        let [https, onos, heat] = [api, onos, heat].map(|port| Https::new(port, &site.ca()));
        Self { agent, site, https, onos, heat: heat.without_tls() }
    }

    /// A new user's token.
    pub fn token(&self, name: &str, rest: &[&str]) -> String {
        self.site.ok(&[&["user", "create", name], rest].concat()).trim().to_owned()
    }

    /// The header of a new user with this role.
    pub fn user(&self, name: &str, role: &str) -> String {
        bearer(&self.token(name, &["--role", role]))
    }

    /// Everything that a request may change, as root sees it.
    pub fn state(&self) -> Value {
        let list = |words: &[&str]| self.site.json(words);
        let mut nodes = list(&["node", "list"]);
        for node in nodes.as_array_mut().unwrap() {
            node["last_seen"] = Value::Null;
        }
        json!({
            "nodes": nodes, "tokens": list(&["node", "tokens"]), "users": list(&["user", "list"]),
            "stacks": list(&["stack", "list"]), "resources": list(&["resource", "list", "web"]),
            "intents": list(&["intent", "list"]), "done": self.done(), "motd": self.agent.content("motd"),
        })
    }

    /// Changes that somebody asked for over the network, and that were made.
    fn done(&self) -> Vec<Value> {
        let rows = self.site.json(&["audit"]);
        let done = |row: &&Value| row["result"] == "ok" && row["from"] == "127.0.0.1";
        rows.as_array().unwrap().iter().filter(done).cloned().collect()
    }

    /// Does this, after which all is as before and the controller answers an honest user.
    pub fn unchanged<T>(&self, attack: impl FnOnce() -> T) -> T {
        let before = self.state();
        let came = attack();
        let after = self.state();
        assert_eq!(before, after);
        came
    }

    /// The answer to a user who asks more often than allowed, and again after each refusal for that. Whoever still sends a
    /// body that is not read may see the end of the connection in place of the refusal.
    pub fn ask(&self, line: &str, user: &str, body: &str) -> Heard {
        eventually("the user's turn comes", || {
            let heard = self.https.ask(line, user, body);
            (heard.status() != 0 && !heard.0.contains("asks too often")).then_some(heard)
        })
    }

    /// The answer to a user's `GET /v1/stacks`.
    pub fn looks(&self, user: &str) -> Heard {
        self.https.ask("GET /v1/stacks", user, "")
    }
}

/// The header of a token.
pub fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}
