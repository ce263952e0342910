//! The sections of a document's file, each checked as far as it can be alone.

use std::path::Path;

use anyhow::bail;
use muster_shared::model::network::NetworkDocument;
use serde_json::{Map, Value, json};

/// The sections of a file. A section that is absent or no list is empty, as in os-net-config.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// `network_config`
    pub network: Vec<Value>,
    /// `minimum_config`
    pub minimum: Vec<Value>,
    /// `fallback_config`
    pub fallback: Vec<Value>,
    /// `remove_config`
    pub remove: Vec<Value>,
}

const NAMES: [&str; 4] = ["network_config", "minimum_config", "fallback_config", "remove_config"];

impl Sections {
    /// # Errors
    /// There is no such file, or it is not YAML.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        if !file.exists() {
            bail!("{}: there is no such file", file.display());
        }
        Self::of(crate::net::read_value(file)?, file)
    }

    fn of(value: Value, file: &Path) -> anyhow::Result<Self> {
        let map = match value {
            Value::Object(map) => map,
            // The form that `muster-agent net apply` accepts.
            Value::Array(network) => return Ok(Self { network, ..Self::default() }),
            _ => bail!("{}: want a map with network_config", file.display()),
        };
        if let Some(other) = map.keys().find(|name| !NAMES.contains(&name.as_str())) {
            eprintln!("warning: {}: section '{}' is not known", file.display(), other.escape_default());
        }
        let mut map: Map<String, Value> = map;
        let mut section = |name: &str| match map.remove(name) {
            Some(Value::Array(objects)) => objects,
            _ => Vec::new(),
        };
        let [network, minimum, fallback, remove] = NAMES.map(&mut section);
        Ok(Self { network, minimum, fallback, remove })
    }

    /// The errors of each section.
    pub fn wrong(&self) -> Vec<String> {
        let as_network = |name: &str, objects: &[Value]| {
            let error = NetworkDocument::parse(&json!({ "network_config": objects })).err()?;
            Some(error.to_string().replacen("network_config", name, 1))
        };
        let of = |name: &str, objects: &[Value]| {
            (!objects.is_empty()).then(|| as_network(name, objects)).flatten()
        };
        let mut wrong: Vec<String> =
            [of("network_config", &self.network), of("minimum_config", &self.minimum)]
                .into_iter()
                .flatten()
                .collect();
        for (name, objects) in [("fallback_config", &self.fallback), ("remove_config", &self.remove)] {
            let alone = json!({ "network_config": [], name: objects });
            wrong.extend(NetworkDocument::parse(&alone).err().map(|error| error.to_string()));
        }
        wrong
    }

    /// The document in the form that is applied.
    pub fn document(self, with_removals: bool, with_fallback: bool) -> Value {
        let mut document = json!({ "network_config": self.network });
        if with_removals && !self.remove.is_empty() {
            document["remove_config"] = Value::Array(self.remove);
        }
        if with_fallback && !self.fallback.is_empty() {
            document["fallback_config"] = Value::Array(self.fallback);
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: Value) -> Sections {
        Sections::of(value, Path::new("config.yaml")).unwrap()
    }

    #[test]
    fn what_is_wrong_is_said_by_section() {
        let bad = json!([{"type": "interfaze", "name": "eth0"}]);
        let good = json!([{"type": "interface", "name": "eth0", "use_dhcp": false}]);
        for (sections, says) in [
            (json!({"network_config": good}), None),
            (json!([{"type": "interface", "name": "eth0", "use_dhcp": false}]), None),
            (json!({"network_config": bad}), Some("network_config[0]")),
            (json!({"network_config": good, "minimum_config": bad}), Some("minimum_config[0]")),
            (json!({"network_config": good, "fallback_config": bad}), Some("fallback_config[0]")),
            (json!({"network_config": null, "minimum_config": "none"}), None),
        ] {
            let wrong = of(sections.clone()).wrong();
            match says {
                None => assert_eq!(wrong, Vec::<String>::new(), "{sections}"),
                Some(says) => assert!(wrong.len() == 1 && wrong[0].contains(says), "{sections}: {wrong:?}"),
            }
        }
        assert!(Sections::of(json!("text"), Path::new("x.yaml")).is_err());
    }

    #[test]
    fn removals_and_the_fallback_only_where_they_are_wanted() {
        let whole = json!({
            "network_config": [{"name": "eth0"}],
            "fallback_config": [{"name": "eth1"}],
            "remove_config": [{"remove_name": "br0", "remove_type": "linux_bridge"}],
        });
        assert_eq!(of(whole.clone()).document(true, true), whole);
        assert_eq!(of(whole).document(false, false), json!({"network_config": [{"name": "eth0"}]}));
    }
}
