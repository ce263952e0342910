//! The plans of operators: small stacks made at random, as data that the reference model knows and as templates that
//! Muster is given.

mod drift;
mod each;
mod make;
mod script;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::{EnvironmentText, Hook, SourceText};
use muster_shared::model::OnDelete;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use serde_json::{Map, Value as Json, json};

pub use each::{Each, ROLE, Rollout, Selector, Share, member, role, split};
pub use make::SHARED;
pub use make::{FOUND, Maker, Mood};
pub use script::{CONFIG, HANDLE, Runs, Script, gist, output};
pub use tree::{Group, INNER_LENGTH, Inner, Member, Order, Virtual};

/// A link with this MTU cuts its server off.
pub const CUTTING: u32 = 1234;
/// Seconds to confirm a change of the network.
pub const CONFIRM_TIMEOUT: u64 = 20;
/// The beginning of every hidden value: no operator may ever read it.
pub const HIDDEN: &str = "hush-";

/// Contents from this size on are files beside the template.
const BESIDE: usize = 400_000;

fn beside(size: usize) -> String {
    format!("{size}.bin")
}

/// A stack as an operator wants it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Unique in a run; the name of the source.
    pub name: String,
    /// The resources by name.
    pub resources: BTreeMap<String, Resource>,
    /// The value of the hidden parameter.
    pub hidden: String,
    /// The hooks at which each resource waits for an operator.
    pub hooks: BTreeMap<String, Vec<Hook>>,
    /// The action that each resource must not undergo.
    pub restricted: BTreeMap<String, &'static str>,
    /// The environment maps the types of the resources.
    pub own_types: bool,
    /// The drift policies of the resources.
    pub policies: drift::Policies,
}

#[derive(Clone, Debug)]
pub struct Resource {
    /// The resource's node; none: it may be anywhere.
    pub node: Option<String>,
    /// The resources that must come first.
    pub depends_on: BTreeSet<String>,
    pub what: What,
    /// The thing stays when the resource goes.
    pub retain: bool,
    /// The id of a thing that was there before, for which the resource stands.
    pub external: Option<String>,
    /// The value of the parameter for the resource's condition, if it has one.
    pub on: Option<bool>,
    /// The nodes that have one each.
    pub each: Option<Each>,
}

/// The type of a resource, with its properties.
#[derive(Clone, Debug)]
pub enum What {
    /// `Muster::Dummy`
    Dummy { values: BTreeMap<String, Value>, millis: u64, fail: Option<&'static str> },
    /// `Muster::File`
    File { path: String, content: Value, size: usize, mode: u32, on_delete: OnDelete },
    /// `Muster::NetworkConfig`: link → MTU.
    Network { links: BTreeMap<String, u32>, on_delete: OnDelete },
    /// `Muster::Hostname`: `h` and this number.
    Hostname { number: u32, on_delete: OnDelete },
    /// `Muster::FlowRule`, or of several `Muster::FlowTable`.
    Flows { device: DeviceName, entries: BTreeMap<FlowId, Packed> },
    /// `OS::Heat::SoftwareDeployment`
    Script(Script),
    /// A resource that the controller realises itself.
    Virtual(Virtual),
    /// `OS::Heat::ResourceGroup`
    Group(Group),
    /// A nested stack.
    Nested(Inner),
}

/// A value with what it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text that stands for itself.
    Text(String),
    /// The hidden parameter.
    Hidden,
    /// A resource's physical id.
    Id(String),
    /// A resource's attribute.
    Attribute(String, String),
    /// An attribute of each member of a group.
    All(String, String),
    /// The address of a port.
    Address(String),
    /// The name of the node that a member is on.
    Own,
}

impl Value {
    fn json(&self) -> Json {
        match self {
            Value::Text(text) => json!(text),
            Value::Hidden => json!({"get_param": "secret"}),
            Value::Id(of) => json!({"get_resource": of}),
            Value::Attribute(of, key) => json!({"get_attr": [of, key]}),
            Value::All(of, key) => json!({"list_join": [",", {"get_attr": [of, key]}]}),
            Value::Address(of) => json!({"get_attr": [of, "fixed_ips", 0, "ip_address"]}),
            Value::Own => json!({"get_node": "name"}),
        }
    }

    fn refers_to(&self) -> Option<&String> {
        match self {
            Value::Id(of) | Value::Attribute(of, _) | Value::All(of, _) | Value::Address(of) => Some(of),
            Value::Text(_) | Value::Hidden | Value::Own => None,
        }
    }
}

impl Resource {
    /// Nothing but this.
    pub fn of(what: What) -> Self {
        Self {
            node: None,
            depends_on: BTreeSet::new(),
            what,
            retain: false,
            external: None,
            on: None,
            each: None,
        }
    }

    /// Whether its condition lets it be.
    pub fn is_there(&self) -> bool {
        self.on != Some(false)
    }

    /// Returns the resources that this one needs.
    pub fn needs(&self) -> BTreeSet<String> {
        let mut needs = self.depends_on.clone();
        match &self.what {
            What::Dummy { values, .. } => needs.extend(values.values().filter_map(Value::refers_to).cloned()),
            What::File { content, .. } => needs.extend(content.refers_to().cloned()),
            What::Network { .. } | What::Hostname { .. } | What::Flows { .. } => {}
            What::Script(script) => {
                needs.insert(CONFIG.to_owned());
                needs.extend(script.input.refers_to().cloned());
            }
            What::Virtual(Virtual::Wait { .. }) => drop(needs.insert(HANDLE.to_owned())),
            What::Virtual(_) | What::Group(_) | What::Nested(_) => {
                needs.extend(self.what.values().into_iter().filter_map(Value::refers_to).cloned());
            }
        }
        needs
    }

    fn json(&self, name: &str) -> Json {
        let mut properties = Map::new();
        let mut more = Map::new();
        if let Some(node) =
            self.node.as_ref().filter(|_| !matches!(self.what, What::Flows { .. } | What::Script(_)))
        {
            properties.insert("node".into(), json!(node));
        }
        let kind = match &self.what {
            What::Dummy { values, millis, fail } => {
                let values: Map<String, Json> = values.iter().map(|(k, v)| (k.clone(), v.json())).collect();
                properties.insert("values".into(), values.into());
                if *millis > 0 {
                    properties.insert("seconds".into(), json!(*millis as f64 / 1000.0));
                }
                if let Some(fail) = fail {
                    properties.insert("fail".into(), json!(fail));
                }
                "Muster::Dummy"
            }
            What::File { path, content, size, mode, on_delete } => {
                properties.insert("path".into(), json!(path));
                let content = match size {
                    0 => content.json(),
                    size if *size < BESIDE => json!({"list_join": ["", [content.json(), "x".repeat(*size)]]}),
                    size => json!({"list_join": ["", [content.json(), {"get_file": beside(*size)}]]}),
                };
                properties.insert("content".into(), content);
                properties.insert("mode".into(), json!(format!("{mode:04o}")));
                if *on_delete == OnDelete::Keep {
                    properties.insert("on_delete".into(), json!("keep"));
                }
                "Muster::File"
            }
            What::Network { links, on_delete } => {
                let link =
                    |(name, mtu): (&String, &u32)| json!({"type": "interface", "name": name, "mtu": mtu});
                let links: Vec<Json> = links.iter().map(link).collect();
                properties.insert("network_config".into(), links.into());
                properties.insert("confirm_timeout".into(), json!(CONFIRM_TIMEOUT));
                if *on_delete == OnDelete::Keep {
                    properties.insert("on_delete".into(), json!("keep"));
                }
                "Muster::NetworkConfig"
            }
            What::Hostname { number, on_delete } => {
                properties.insert("hostname".into(), json!(format!("h{number}")));
                properties.insert("confirm_timeout".into(), json!(CONFIRM_TIMEOUT));
                if *on_delete == OnDelete::Keep {
                    properties.insert("on_delete".into(), json!("keep"));
                }
                "Muster::Hostname"
            }
            What::Flows { device, entries } => {
                let rules: Vec<Map<String, Json>> =
                    entries.values().map(|packed| packed.unpack().to_json()).collect();
                let kind = match rules.as_slice() {
                    [one] => {
                        properties.extend(one.clone());
                        "Muster::FlowRule"
                    }
                    many => {
                        properties.insert("rules".into(), json!(many));
                        "Muster::FlowTable"
                    }
                };
                properties.insert("device".into(), json!(device.to_string()));
                properties.insert("confirm_timeout".into(), json!(CONFIRM_TIMEOUT));
                kind
            }
            What::Script(script) => script.json(self.node.as_ref(), &mut properties),
            What::Virtual(here) => here.json(&mut properties),
            What::Group(group) => group.json(name, &mut properties, &mut more),
            What::Nested(inner) => inner.json(&mut properties),
        };
        let mut resource = more;
        if self.on.is_some() {
            resource.insert("condition".into(), json!({"get_param": format!("on_{name}")}));
        }
        resource.insert("type".into(), json!(kind));
        resource.insert("properties".into(), properties.into());
        if self.retain {
            resource.insert("deletion_policy".into(), json!("retain"));
        }
        if let Some(id) = &self.external {
            resource.insert("external_id".into(), json!(id));
        }
        if let Some(each) = &self.each {
            each.json(&mut resource);
        }
        if !self.depends_on.is_empty() {
            let is_barrier = |name| self.each.as_ref().is_some_and(|each| each.barriers.contains(name));
            let needs = self.depends_on.iter().map(|name| match is_barrier(name) {
                true => json!({"resource": name, "scope": "all"}),
                false => json!(name),
            });
            resource.insert("depends_on".into(), needs.collect());
        }
        resource.into()
    }
}

impl Plan {
    /// Returns the plan as an operator sends it.
    pub fn source(&self) -> SourceText {
        let mut resources: Map<String, Json> =
            self.resources.iter().map(|(name, resource)| (name.clone(), resource.json(name))).collect();
        self.say_policies(&mut resources);
        let outputs: Map<String, Json> = self
            .resources
            .keys()
            .take(1)
            .map(|name| ("first".to_owned(), json!({"value": {"get_resource": name}})))
            .collect();
        let mut parameters = BTreeMap::from([("secret".to_owned(), json!(self.hidden))]);
        let mut definitions = json!({"secret": {"type": "string", "hidden": true}});
        for (name, resource) in &self.resources {
            if let Some(on) = resource.on {
                definitions[format!("on_{name}")] = json!({"type": "boolean"});
                parameters.insert(format!("on_{name}"), json!(on));
            }
            if let What::Group(Group { count: Value::Text(count), by_parameter: true, .. }) = &resource.what {
                definitions[format!("count_{name}")] = json!({"type": "number"});
                parameters.insert(format!("count_{name}"), json!(count));
            }
        }
        let registry = if self.own_types { tree::with_own_types(&mut resources) } else { Map::new() };
        let template = json!({
            "heat_template_version": "2018-08-31",
            "parameters": definitions,
            "resources": resources,
            "outputs": outputs,
        });
        SourceText {
            name: self.name.clone(),
            template: template.to_string(),
            parameters,
            environments: self.environment(registry).into_iter().collect(),
            files: self.files(),
        }
    }

    /// Nested templates, and contents that are large.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = tree::files(self.resources.values().map(|resource| &resource.what));
        for resource in self.resources.values() {
            match &resource.what {
                What::File { size, .. } if *size >= BESIDE => {
                    files.insert(beside(*size), "x".repeat(*size));
                }
                _ => {}
            }
        }
        files
    }

    /// Returns the environment, with the site's own names of types.
    fn environment(&self, mut registry: Map<String, Json>) -> Option<EnvironmentText> {
        if self.hooks.is_empty() && self.restricted.is_empty() && registry.is_empty() {
            return None;
        }
        let mut resources: BTreeMap<&String, Map<String, Json>> = BTreeMap::new();
        for (name, hooks) in &self.hooks {
            let hooks: Vec<&str> = hooks.iter().map(|hook| hook.as_str()).collect();
            resources.entry(name).or_default().insert("hooks".into(), json!(hooks));
        }
        for (name, action) in &self.restricted {
            resources.entry(name).or_default().insert("restricted_actions".into(), json!(action));
        }
        registry.insert("resources".into(), json!(resources));
        let text = json!({"resource_registry": registry}).to_string();
        Some(EnvironmentText { name: "env".into(), key: None, text })
    }
}
