//! Software deployments of a plan: a script that leaves a line and tells what it was given.

use std::collections::BTreeMap;

use muster_shared::model::{Action, Content, Deployment};
use serde_json::{Map, Value as Json, json};

use super::Value;

/// The one config of a plan: all of its deployments take it.
pub const CONFIG: &str = "q";
/// The one handle of a plan that signals are sent to.
pub const HANDLE: &str = "p";
/// Seconds a script may take.
pub const TIMEOUT: u64 = 60;

/// `OS::Heat::SoftwareDeployment` of that config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The script's input.
    pub input: Value,
    /// A change of this number makes another deployment of it.
    pub again: u64,
    /// The milliseconds that a run takes.
    pub millis: u64,
    /// The operations that run the script.
    pub runs: Runs,
    /// An interrupted run is a failure.
    pub fails: bool,
}

/// The operations that run a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The script runs when its resource is made, and when it changes.
    AsUsual,
    /// The script also runs before its resource goes.
    ToTheEnd,
    /// The script runs only when its resource is made.
    Once,
}

impl Script {
    pub fn json(&self, node: Option<&String>, properties: &mut Map<String, Json>) -> &'static str {
        if let Some(node) = node {
            properties.insert("server".into(), json!(node));
        }
        properties.insert("config".into(), json!({"get_resource": CONFIG}));
        let again = self.again.to_string();
        let inputs = json!({"a": self.input.json(), "r": again, "ms": self.millis.to_string()});
        properties.insert("input_values".into(), inputs);
        properties.insert("timeout".into(), json!(TIMEOUT));
        match self.runs {
            Runs::AsUsual => {}
            Runs::ToTheEnd => {
                drop(properties.insert("actions".into(), json!(["CREATE", "UPDATE", "DELETE"])));
            }
            Runs::Once => drop(properties.insert("actions".into(), json!(["CREATE"]))),
        }
        if self.fails {
            properties.insert("on_interrupt".into(), json!("fail"));
        }
        "OS::Heat::SoftwareDeployment"
    }

    /// Returns the values that a run is made of, by name.
    pub fn gist(&self, config: String, input: String) -> BTreeMap<String, String> {
        let all = [
            ("config", config),
            ("a", input),
            ("r", self.again.to_string()),
            ("ms", self.millis.to_string()),
        ];
        all.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

/// The software config.
pub fn config_json(text: &str) -> (&'static str, Json) {
    let inputs = json!([{"name": "a"}, {"name": "r", "replace_on_change": true}, {"name": "ms"}]);
    let all = json!({"group": "script", "config": text, "inputs": inputs, "outputs": [{"name": "o"}]});
    ("OS::Heat::SoftwareConfig", all)
}

/// Returns the values that a run of a deployment is made of, as [`Script::gist`].
pub fn gist(deployment: &Deployment) -> BTreeMap<String, String> {
    let config = deployment.step(Action::Create).map(|step| match &step.config {
        Content::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Content::Stored { digest, .. } => digest.to_string(),
    });
    let inputs = ["a", "r", "ms"].into_iter();
    let inputs = inputs.filter_map(|name| Some((name.to_owned(), deployment.inputs.get(name)?.clone())));
    inputs.chain(config.map(|config| ("config".to_owned(), config))).collect()
}

/// Returns the script's output `o`.
pub fn output(gist: &BTreeMap<String, String>) -> String {
    ["a", "config"].map(|key| gist.get(key).map(String::as_str).unwrap_or_default()).join(":")
}
