//! The content that a template asks for, worked out naively and without the template engine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

/// The resources of a template.
#[derive(Clone, Debug, Default)]
pub(super) struct Content(Map<String, Value>);

impl Content {
    pub fn of(template: &Value) -> Self {
        Self(template["resources"].as_object().cloned().unwrap_or_default())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether one of them is told to fail.
    pub fn fails(&self) -> bool {
        self.0.values().any(|resource| !resource["properties"]["fail"].is_null())
    }

    /// Whether the deletion of one of them fails.
    pub fn stays(&self) -> bool {
        self.0.values().any(|resource| {
            let fail = &resource["properties"]["fail"];
            *fail == Value::Bool(true) || matches!(fail.as_str(), Some("true" | "delete"))
        })
    }

    /// The resources that this one needs.
    pub fn needs(&self, name: &str) -> BTreeSet<String> {
        let resource = &self.0[name];
        let mut needs = BTreeSet::new();
        match &resource["depends_on"] {
            Value::String(one) => drop(needs.insert(one.clone())),
            Value::Array(all) => needs.extend(all.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        }
        for value in resource["properties"]["values"].as_object().into_iter().flat_map(Map::values) {
            let named =
                value.get("get_resource").or_else(|| value.get("get_attr").and_then(|path| path.get(0)));
            needs.extend(named.and_then(Value::as_str).map(str::to_owned));
        }
        needs
    }

    /// The values of a resource once its references are resolved; `id` knows the physical ids.
    ///
    /// # Errors
    /// A thing that the value refers to is not there.
    pub fn values(
        &self,
        name: &str,
        id: &dyn Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let resource = self.0.get(name).with_context(|| format!("no resource {name}"))?;
        let values = resource["properties"]["values"].as_object().into_iter().flatten();
        values.map(|(key, value)| Ok((key.clone(), self.value(value, id)?))).collect()
    }

    fn value(&self, value: &Value, id: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
        let Value::Object(call) = value else {
            return Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        };
        if let Some(target) = call.get("get_resource").and_then(Value::as_str) {
            return id(target);
        }
        let path = call.get("get_attr").and_then(Value::as_array).map(Vec::as_slice);
        let Some([Value::String(target), Value::String(attribute)]) = path else {
            bail!("{value} is no function that a scenario can use");
        };
        self.values(target, id)?.remove(attribute).with_context(|| format!("{target} has no {attribute}"))
    }
}
