//! `Muster::Dummy`: makes nothing real; for tests, demonstrations and ordering.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DesiredState, TemplateType, map_in_bounds};
use crate::model::spec::{Action, Claim};
use crate::near::suggestion;
use crate::property::{Property, PropertyError, PropertyType, RenderedProperties, cut, node, text, unwanted};

/// A day: longer than any stack's timeout that makes sense.
const SECONDS_MAX: u64 = 86_400;
const FAIL: [&str; 5] = ["true", "false", "create", "update", "delete"];

/// Nothing real.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dummy {
    /// Values kept by the agent; each is an attribute. A changed key that begins with `!` forces
    /// a replacement.
    pub values: BTreeMap<String, String>,
    /// The duration of applying, in milliseconds.
    pub milliseconds: u64,
    /// The actions that fail.
    pub fail: Option<FailOn>,
}

/// When a dummy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailOn {
    Any,
    Action(Action),
}

impl TemplateType for Dummy {
    const NAME: &'static str = "Muster::Dummy";
    const ABOUT: &'static str = "makes nothing real: for tests, demonstrations and order";
    const PROPERTIES: &'static [Property] = &[
        Property::optional("fail", |value| fail(value).map(drop))
            .is(PropertyType::String, "which actions fail")
            .default("\"false\"")
            .one_of(&FAIL),
        Property::optional("node", |value| node(value).map(drop))
            .is(PropertyType::String, "the node it is on; any node where it is left out")
            .replaces(),
        Property::optional("seconds", |value| milliseconds(value).map(drop))
            .is(PropertyType::Number, "how long each action takes")
            .default("0")
            .range(0, SECONDS_MAX),
        Property::optional("values", |value| values(value).map(drop))
            .is(PropertyType::Map, "texts that are kept, and are its attributes")
            .default("{}")
            .replaces_where("a '!' key has changed"),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[];
    const OTHER_ATTRIBUTES: &'static str = "each key of 'values', with its value";

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        Ok(Dummy {
            values: given.get("values", values)?.unwrap_or_default(),
            milliseconds: given.get("seconds", milliseconds)?.unwrap_or(0),
            fail: given.get("fail", fail)?.flatten(),
        })
    }
}

impl DesiredState for Dummy {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        "".into()
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn properties(&self) -> Value {
        let fail = self.fail.map(|fail| match fail {
            FailOn::Any => json!(true),
            FailOn::Action(Action::Create) => json!("create"),
            FailOn::Action(Action::Update) => json!("update"),
            FailOn::Action(Action::Delete) => json!("delete"),
            FailOn::Action(Action::Check) => json!("check"),
            FailOn::Action(Action::Retain) => json!("retain"),
            FailOn::Action(Action::Adopt) => json!("adopt"),
        });
        json!({"values": self.values, "seconds": self.own_time().as_secs_f64(), "fail": fail})
    }

    fn attribute(&self, name: &str) -> Option<Value> {
        self.values.get(name).map(|value| json!(value))
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        map_in_bounds("values", &self.values)
    }

    fn needs_replacement(&self, next: &Self) -> bool {
        let forced = |dummy: &Dummy| -> BTreeMap<String, String> {
            let forced = dummy.values.iter().filter(|(key, _)| key.starts_with('!'));
            forced.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        forced(self) != forced(next)
    }

    fn own_time(&self) -> Duration {
        Duration::from_millis(self.milliseconds)
    }

    fn is_interruptible(&self) -> bool {
        true
    }

    fn weight(&self) -> usize {
        self.values.iter().map(|(key, value)| key.len() + value.len()).sum()
    }
}

fn values(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else { return Err(unwanted("a map", value)) };
    map.iter()
        .map(|(key, value)| Ok((key.clone(), text(value).map_err(|error| error.within_key(key))?)))
        .collect()
}

fn milliseconds(value: &Value) -> Result<u64, PropertyError> {
    let seconds = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(unwanted("a number of seconds", value));
        }
    };
    match seconds {
        // The value is in range, so the cast is exact except for fractions of a millisecond.
        Some(seconds) if (0.0..=SECONDS_MAX as f64).contains(&seconds) => {
            Ok((seconds * 1000.0).round() as u64)
        }
        _ => Err(PropertyError::new(format!("want seconds from 0 to {SECONDS_MAX}"))),
    }
}

fn fail(value: &Value) -> Result<Option<FailOn>, PropertyError> {
    if let Value::Bool(on) = value {
        return Ok(on.then_some(FailOn::Any));
    }
    let Value::String(word) = value else {
        return Err(unwanted("true, false, create, update or delete", value));
    };
    match word.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(FailOn::Any)),
        "false" => Ok(None),
        "create" => Ok(Some(FailOn::Action(Action::Create))),
        "update" => Ok(Some(FailOn::Action(Action::Update))),
        "delete" => Ok(Some(FailOn::Action(Action::Delete))),
        _ => {
            let near = suggestion(word, FAIL);
            Err(PropertyError::new(format!(
                "want true, false, create, update or delete, got '{}'{near}",
                cut(word)
            )))
        }
    }
}
