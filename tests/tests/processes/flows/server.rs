//! One server with an Open vSwitch, and what is asked of both sides.

use std::collections::BTreeSet;

use muster_testbed::{Namespace, Switch, eventually};
use muster_tests::site::{Agent, OneServer, Site};
use serde_json::{Value, json};

/// Everything that is Muster's, as `ovs-ofctl` takes it.
const OURS: &str = "cookie=0x4d55000000000000/0xffff000000000000";

pub struct FlowServer {
    pub site: Site,
    pub switch: Switch,
    pub agent: Agent,
    /// Outlives what runs in it.
    pub namespace: Namespace,
}

/// A rule of its own place for each number.
pub fn rule(number: u32, port: &str) -> Value {
    json!({"device": "web-1/br0", "priority": 1 + number / 4094, "selector": {"vlan_vid": number % 4094},
        "treatment": [{"output": port}]})
}

impl FlowServer {
    /// `br0` with the ports `p1` and `p2`; the node is managed over another interface.
    pub fn start() -> Self {
        Self::of(OneServer::new(), |_, switch| switch.bridge("br0", &["p1", "p2"]))
    }

    /// The node is managed over `up0`, which is a port of `br-mgmt`.
    pub fn managed_over_a_bridge() -> Self {
        Self::of(OneServer::new(), |server, switch| {
            switch.bridge("br-mgmt", &[]);
            switch.vsctl("add-port br-mgmt up0");
            server.ip("address flush dev up0");
            server.ip("address add 10.77.0.2/24 dev br-mgmt");
            server.ip("link set br-mgmt up");
        })
    }

    fn of(one: OneServer, cable: impl FnOnce(&Namespace, &Switch)) -> Self {
        let switch = Switch::start(&one.server);
        cable(&one.server, &switch);
        let agent = one.join_with(&switch);
        let OneServer { site, server: namespace } = one;
        Self { site, switch, agent, namespace }
    }

    /// Starts the switch again; returns once it answers.
    pub fn restart_switch(&mut self) {
        self.switch.restart();
        // Which waits until the switch has taken it up.
        self.switch
            .vsctl("remove Open_vSwitch . external_ids test -- set Open_vSwitch . external_ids:test=1");
    }

    /// Muster's rules on `br0`, sorted.
    pub fn ours(&self) -> Vec<String> {
        self.dump("br0")
    }

    /// Muster's rules on a bridge, sorted.
    pub fn dump(&self, bridge: &str) -> Vec<String> {
        lines(&self.switch.ofctl(&["dump-flows", bridge, OURS]))
    }

    /// The rules on `br0`, sorted.
    pub fn all(&self) -> Vec<String> {
        lines(&self.switch.ofctl(&["dump-flows", "br0"]))
    }

    /// The controller's list of rules on `br0`.
    pub fn list(&self) -> Vec<Value> {
        match self.site.json(&["flow", "list", "web-1/br0"]) {
            Value::Array(rows) => rows,
            other => panic!("not a list: {other}"),
        }
    }

    /// `flow apply --wait` of these rules; must work.
    pub fn apply(&self, rules: &[Value]) {
        self.apply_to("br0", rules);
    }

    /// As [`FlowServer::apply`], and afterwards all of them are on that bridge.
    pub fn apply_to(&self, bridge: &str, rules: &[Value]) {
        self.apply_some_short(rules);
        assert!(self.dump(bridge).len() >= rules.len());
    }

    /// `flow apply --wait` of rules of which some may be over before anybody looks; must work.
    pub fn apply_some_short(&self, rules: &[Value]) {
        let file = self.site.file(&json!({ "rules": rules }).to_string());
        self.site.ok(&["flow", "apply", "-f", &file, "--wait"]);
    }

    /// Id and first port of every rule that the controller takes for ADDED; none while any is in another state.
    pub fn wanted(&self) -> Option<BTreeSet<(String, String)>> {
        let text = |value: &Value| value.as_str().unwrap_or("drop").to_owned();
        let row = |row: &Value| {
            (row["state"] == "ADDED").then(|| (text(&row["id"]), text(&row["treatment"][0]["output"])))
        };
        self.list().iter().map(row).collect()
    }

    /// Id and first port of every rule of ours on the switch.
    pub fn held(&self) -> BTreeSet<(String, String)> {
        let part = |flow: &str, before: &str, end: char| {
            let rest = flow.split_once(before).map_or("", |(_, rest)| rest);
            rest.split(end).next().unwrap_or_default().to_owned()
        };
        let of = |flow: &String| {
            let port = part(flow, "actions=", ',');
            (part(flow, "cookie=0x", ','), port.strip_prefix("output:").unwrap_or(&port).to_owned())
        };
        self.ours().iter().map(of).collect()
    }

    /// Both sides come to hold the same.
    pub fn until_equal(&self, what: &str) -> BTreeSet<(String, String)> {
        eventually(what, || {
            let wanted = self.wanted()?;
            (wanted == self.held()).then_some(wanted)
        })
    }
}

fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("cookie=") || line.starts_with("table=") || line.contains("actions="))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}
