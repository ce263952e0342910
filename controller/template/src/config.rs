//! Software configs: the content of deployments, under an id. The controller itself realises a config; a
//! deployment contains a full copy.
//!
//! Absent: the properties in a template (`types/config.rs`), and the deployment of a config (`types/deployment.rs`).

use std::collections::BTreeMap;

use muster_shared::model::DeploymentOutput;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// `OS::Heat::SoftwareConfig` and similar types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftwareConfig {
    pub body: ConfigBody,
    /// The declared inputs; a deployment may give more.
    pub inputs: Vec<ConfigInput>,
    /// The outputs read from a run.
    pub outputs: Vec<DeploymentOutput>,
    /// Options as JSON, for hooks.
    pub options: Option<String>,
}

/// The content of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigBody {
    /// `OS::Heat::SoftwareConfig`: a text.
    Text(ConfigGroup, String),
    /// `OS::Heat::StructuredConfig`: JSON.
    Structured(ConfigGroup, String),
    /// `OS::Heat::SoftwareComponent`: a text for some actions each.
    Component(Vec<ComponentPart>),
}

/// A config of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentPart {
    pub actions: Vec<ConfigAction>,
    /// The tool that applies the config.
    pub tool: ConfigGroup,
    pub config: String,
}

/// Heat's names for what takes a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigGroup {
    /// A program.
    Script,
    /// A document for `os-apply-config`.
    ApplyConfig,
    /// Files with JSON in them.
    JsonFile,
    /// The network, as a `Muster::NetworkConfig`.
    OsNetConfig,
    /// A program of the server with the group's name.
    Hook(Box<HookGroup>),
}

/// A group that a program of the server takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookGroup {
    pub name: String,
    /// Types of the config's inputs that declare another one than `String`: these values are given as they are.
    pub types: BTreeMap<String, String>,
}

/// Heat's actions. Nothing runs for the last two: no stack of Muster is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConfigAction {
    /// When the deployment is made.
    Create,
    /// When it is changed.
    Update,
    Delete,
    Suspend,
    Resume,
}

/// An input of a config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigInput {
    pub name: String,
    /// The default as JSON.
    pub default: Option<String>,
    /// A changed value makes another deployment.
    pub replace_on_change: bool,
}

impl SoftwareConfig {
    pub(crate) fn attribute(&self, name: &str) -> Option<Value> {
        match (name, &self.body) {
            ("config", ConfigBody::Text(_, text)) => Some(json!(text)),
            ("config", ConfigBody::Structured(_, json)) => serde_json::from_str(json).ok(),
            ("config", ConfigBody::Component(parts)) => Some(json!({"configs": configs(parts)})),
            _ => None,
        }
    }

    fn hooks(&self) -> impl Iterator<Item = &HookGroup> {
        let groups: Vec<&ConfigGroup> = match &self.body {
            ConfigBody::Text(group, _) | ConfigBody::Structured(group, _) => vec![group],
            ConfigBody::Component(parts) => parts.iter().map(|part| &part.tool).collect(),
        };
        groups
            .into_iter()
            .filter_map(|group| if let ConfigGroup::Hook(hook) = group { Some(&**hook) } else { None })
    }

    pub(crate) fn properties(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
        match &self.body {
            ConfigBody::Text(group, _) | ConfigBody::Structured(group, _) => {
                put("group", json!(group.name()));
                put("config", self.attribute("config").unwrap_or_default());
            }
            ConfigBody::Component(parts) => put("configs", configs(parts)),
        }
        let input = |input: &ConfigInput| {
            let mut shown = json!({"name": input.name});
            if let Some(kind) = self.hooks().find_map(|hook| hook.types.get(&input.name)) {
                shown["type"] = json!(kind);
            }
            if let Some(default) = &input.default {
                shown["default"] = serde_json::from_str(default).unwrap_or_default();
            }
            if input.replace_on_change {
                shown["replace_on_change"] = json!(true);
            }
            shown
        };
        if !self.inputs.is_empty() {
            put("inputs", self.inputs.iter().map(input).collect());
        }
        let output = |output: &DeploymentOutput| match output.error_output {
            true => json!({"name": output.name, "error_output": true}),
            false => json!({"name": output.name}),
        };
        if !self.outputs.is_empty() {
            put("outputs", self.outputs.iter().map(output).collect());
        }
        if let Some(options) = &self.options {
            put("options", serde_json::from_str(options).unwrap_or_default());
        }
        all
    }
}

fn configs(parts: &[ComponentPart]) -> Value {
    let one = |part: &ComponentPart| {
        let actions: Vec<&str> = part.actions.iter().map(|action| action.name()).collect();
        json!({"actions": actions, "tool": part.tool.name(), "config": part.config})
    };
    parts.iter().map(one).collect()
}

impl ConfigGroup {
    /// The group of a name in a template. Heat's own name for a config without a group means `os-apply-config`.
    pub(crate) fn of_name(name: &str) -> Self {
        match name {
            "script" => Self::Script,
            "apply-config" | "os-apply-config" | "Heat::Ungrouped" => Self::ApplyConfig,
            "json-file" => Self::JsonFile,
            "os-net-config" => Self::OsNetConfig,
            _ => Self::Hook(Box::new(HookGroup { name: name.to_owned(), types: BTreeMap::new() })),
        }
    }

    /// The name in templates.
    pub fn name(&self) -> &str {
        match self {
            Self::Script => "script",
            Self::ApplyConfig => "apply-config",
            Self::JsonFile => "json-file",
            Self::OsNetConfig => "os-net-config",
            Self::Hook(hook) => &hook.name,
        }
    }
}

impl ConfigAction {
    pub(crate) const ALL: [Self; 5] = [Self::Create, Self::Update, Self::Delete, Self::Suspend, Self::Resume];
    pub(crate) const NAMES: [&str; 5] = ["CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME"];

    /// The name in templates.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
