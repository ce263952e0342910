//! `OS::Heat::SoftwareDeployment`, `OS::Heat::StructuredDeployment`, and groups of them.
//!
//! A deployment names its config by id. [`Site`] provides the config and the stack's name.
//!
//! A group that Muster has not is a hook of the server: its step has all that the hook is given, but for what a run adds.
//!
//! Absent: the lookup of the config and the attributes of a run (`controller/engine/src/deployment.rs`), and the run
//! itself (`agent/src/host/deployment.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::network::NetworkDocument;
use muster_shared::model::{
    Content, DEPLOY_ACTION, DEPLOYMENT_TIMEOUT_MAX, Deployment, DeploymentAction, DeploymentGroup,
    DeploymentStep, HookConfig, HookInput, INPUT_TYPE, NetworkConfig, OnDelete, OnInterrupt, Spec,
};
use serde_json::{Map, Value};

use super::config::{actions, map};
use super::value::{CONFIRM_TIMEOUT, integer, node, text, unwanted};
use super::{Place, Property, PropertyError, PropertyType, RenderedProperties, TypeInfo};
use crate::config::{ConfigAction, ConfigBody, ConfigGroup, HookGroup, SoftwareConfig};
use crate::error::{cut, suggestion_or_all};
use crate::text::{python, text_of};

type Read<T> = Result<T, PropertyError>;

/// The default time limit of Heat's stacks, in seconds.
const TIMEOUT: u32 = 3600;
const GET_INPUT: &str = "get_input";
const TRANSPORTS: [&str; 6] =
    ["AUTO", "CFN_SIGNAL", "HEAT_SIGNAL", "NO_SIGNAL", "TEMP_URL_SIGNAL", "ZAQAR_SIGNAL"];
/// Heat's default, also for `AUTO`.
const TRANSPORT: &str = "CFN_SIGNAL";
const VALIDATES: [&str; 2] = ["LAX", "STRICT"];
const INTERRUPTS: [&str; 2] = ["rerun", "fail"];

/// The context of a deployment beyond its properties.
pub trait Site {
    /// The software config of that id.
    ///
    /// # Errors
    /// The error if there is none.
    fn config(&self, id: &str) -> Result<SoftwareConfig, String>;
    /// `NAME/ID` of the stack.
    fn stack(&self) -> String;
    /// The resource's own name.
    fn resource(&self) -> &str;
}

/// Knows of no config.
pub(super) struct Nowhere;

impl Site for Nowhere {
    fn config(&self, id: &str) -> Result<SoftwareConfig, String> {
        Err(format!("there is no software config '{}'", cut(id)))
    }

    fn stack(&self) -> String {
        String::new()
    }

    fn resource(&self) -> &str {
        "deployment"
    }
}

const ACTIONS: Property = Property::optional("actions", |value| actions(value).map(drop))
    .is(PropertyType::List, "when the config runs; SUSPEND and RESUME are taken, and never come")
    .default("[\"CREATE\", \"UPDATE\"]");
const CONFIG: Property = Property::optional("config", |value| text(value).map(drop))
    .is(PropertyType::String, "the id of a software config of the same stack; without one nothing runs");
const INPUT_KEY: Property = Property::optional("input_key", |value| text(value).map(drop))
    .is(PropertyType::String, "the key whose maps in the config are inputs")
    .default("\"get_input\"");
const INPUT_VALUES: Property = Property::optional("input_values", |value| map(value).map(drop))
    .is(PropertyType::Map, "values of the config's inputs, and of more");
const VALIDATE: Property =
    Property::optional("input_values_validate", |value| word(value, &VALIDATES).map(drop))
        .is(PropertyType::String, "STRICT: an input of the config without a value is an error")
        .default("\"LAX\"")
        .one_of(&VALIDATES);
const NAME: Property = Property::optional("name", |value| text(value).map(drop))
    .is(PropertyType::String, "what it is called on the node; the resource's name where not given");
const ON_INTERRUPT: Property = Property::optional("on_interrupt", |value| word(value, &INTERRUPTS).map(drop))
    .is(PropertyType::String, "Muster's own: what becomes of a run that the node's end has cut off")
    .default("\"rerun\"")
    .one_of(&INTERRUPTS);
const SERVER: Property = Property::required("server", |value| node(value).map(drop))
    .is(PropertyType::String, "the node it runs on, as get_resource of an OS::Heat::DeployedServer gives it")
    .replaces();
const SERVERS: Property = Property::required("servers", |value| servers(value).map(drop))
    .is(PropertyType::Map, "a name for each member, and the node it runs on");
const SIGNAL: Property = Property::optional("signal_transport", |value| word(value, &TRANSPORTS).map(drop))
    .is(PropertyType::String, "taken for Heat's sake: the node's agent tells what came of it")
    .default("\"CFN_SIGNAL\"")
    .one_of(&TRANSPORTS);
const SECONDS: Property = Property::optional("timeout", |value| timeout(value).map(drop))
    .is(PropertyType::Integer, "Muster's own: seconds after which a run is ended and has failed")
    .default("3600")
    .range(1, DEPLOYMENT_TIMEOUT_MAX as u64);

pub(super) const SOFTWARE: TypeInfo = TypeInfo::new(
    "OS::Heat::SoftwareDeployment",
    "a software config on a node",
    &SOFTWARE_PROPERTIES,
    Place::Deployment(|given, site| spec(given, site, false)),
)
.other_attributes(OUTPUTS);

pub(super) const STRUCTURED: TypeInfo = TypeInfo::new(
    "OS::Heat::StructuredDeployment",
    "a document on a node, with inputs in it",
    &STRUCTURED_PROPERTIES,
    Place::Deployment(|given, site| spec(given, site, true)),
)
.other_attributes(OUTPUTS);

pub(super) const SOFTWARE_GROUP: TypeInfo = TypeInfo::new(
    "OS::Heat::SoftwareDeploymentGroup",
    "a software config on many nodes",
    &SOFTWARE_GROUP_PROPERTIES,
    Place::Whole,
)
.other_attributes(OUTPUTS_OF_MEMBERS);

pub(super) const STRUCTURED_GROUP: TypeInfo = TypeInfo::new(
    "OS::Heat::StructuredDeploymentGroup",
    "a document on many nodes, with inputs in it",
    &STRUCTURED_GROUP_PROPERTIES,
    Place::Whole,
)
.other_attributes(OUTPUTS_OF_MEMBERS);

const OUTPUTS: &str = "each output of the config, deploy_stdout, deploy_stderr and deploy_status_code: null where the run told \
                       nothing of it";
const OUTPUTS_OF_MEMBERS: &str = "each output of the config, deploy_stdouts, deploy_stderrs and deploy_status_codes: maps with the value of \
                                  each member; refs, refs_map, attributes (with the name of one), resource.NAME or \
                                  resource.NAME.ATTRIBUTE of a member";

static SOFTWARE_PROPERTIES: [Property; 8] =
    [ACTIONS, CONFIG, INPUT_VALUES, NAME, ON_INTERRUPT, SERVER, SIGNAL, SECONDS];
static SOFTWARE_GROUP_PROPERTIES: [Property; 8] =
    [ACTIONS, CONFIG, INPUT_VALUES, NAME, ON_INTERRUPT, SERVERS, SIGNAL, SECONDS];
static STRUCTURED_PROPERTIES: [Property; 10] =
    [ACTIONS, CONFIG, INPUT_KEY, INPUT_VALUES, VALIDATE, NAME, ON_INTERRUPT, SERVER, SIGNAL, SECONDS];
static STRUCTURED_GROUP_PROPERTIES: [Property; 10] =
    [ACTIONS, CONFIG, INPUT_KEY, INPUT_VALUES, VALIDATE, NAME, ON_INTERRUPT, SERVERS, SIGNAL, SECONDS];

fn servers(value: &Value) -> Read<()> {
    for (name, server) in map(value)? {
        // Null stands for an unknown value.
        if !server.is_null() {
            node(server).map_err(|error| error.within_key(name))?;
        }
    }
    Ok(())
}

fn timeout(value: &Value) -> Read<u32> {
    let seconds = integer(value, 1, DEPLOYMENT_TIMEOUT_MAX.into())?;
    u32::try_from(seconds).map_err(|_| PropertyError::new("too many seconds"))
}

fn word(value: &Value, known: &[&'static str]) -> Read<&'static str> {
    let given = value.as_str().ok_or_else(|| unwanted("a word", value))?;
    known.iter().find(|word| **word == given).copied().ok_or_else(|| {
        PropertyError::new(format!("unknown: '{}'{}", cut(given), suggestion_or_all(given, known)))
    })
}

/// The desired state of a deployment on its node.
fn spec(given: &RenderedProperties<'_>, site: &dyn Site, is_structured: bool) -> Read<Spec> {
    given.required("server", node)?;
    let config = given.get("config", text)?.map(|id| site.config(&id)).transpose();
    let config = config.map_err(|message| PropertyError::new(message).within_key("config"))?;
    let actions =
        given.get("actions", actions)?.unwrap_or_else(|| vec![ConfigAction::Create, ConfigAction::Update]);
    let transport = given.get("signal_transport", |value| word(value, &TRANSPORTS))?;
    let timeout = given.get("timeout", timeout)?.unwrap_or(TIMEOUT);
    let on_interrupt = match given.get("on_interrupt", |value| word(value, &INTERRUPTS))? {
        Some("fail") => OnInterrupt::Fail,
        _ => OnInterrupt::Rerun,
    };
    let mut values = input_values(given, config.as_ref())?;
    let structured = Structured::read(is_structured, given, &values)?;
    let added = [
        ("deploy_server_id", given.get("server", text)?.unwrap_or_default()),
        ("deploy_stack_id", site.stack()),
        ("deploy_resource_name", site.resource().to_owned()),
        (
            "deploy_signal_transport",
            transport.filter(|given| *given != "AUTO").unwrap_or(TRANSPORT).to_owned(),
        ),
    ];
    values.extend(added.map(|(name, value)| (name.to_owned(), Value::String(value))));
    let body = config.as_ref().map(|config| &config.body);
    if let Some((config, is_text)) = os_net_config(body) {
        return network(config, is_text, &actions, structured.as_ref(), &values);
    }
    let options = config.as_ref().and_then(|config| config.options.as_deref());
    let steps = match body {
        Some(body) => steps(body, &actions, structured.as_ref(), &values, options)?,
        None => Vec::new(),
    };
    let replace_on = replacing(config.as_ref());
    // The config for a hook has its inputs, and a job has no room for all of them twice.
    let is_hook = !steps.is_empty() && steps.iter().all(|step| step.group == DeploymentGroup::Hook);
    let is_needed = |name: &String| !is_hook || replace_on.contains(name);
    let inputs = values.iter().filter(|(name, _)| is_needed(name));
    let deployment = Deployment {
        name: given.get("name", text)?.unwrap_or_else(|| site.resource().to_owned()),
        steps,
        inputs: inputs.map(|(name, value)| (name.clone(), environment(value))).collect(),
        replace_on,
        outputs: config.map(|config| config.outputs).unwrap_or_default(),
        timeout,
        on_interrupt,
    };
    deployment.check().map_err(|error| PropertyError::new(error.to_string()))?;
    Ok(Spec::Deployment(deployment))
}

/// A value for a script's environment: a text as it is, others as JSON.
fn environment(value: &Value) -> String {
    if let Value::Bool(flag) = value { flag.to_string() } else { text_of(value).into_owned() }
}

fn replacing(config: Option<&SoftwareConfig>) -> BTreeSet<String> {
    let inputs = config.into_iter().flat_map(|config| &config.inputs);
    inputs.filter(|input| input.replace_on_change).map(|input| input.name.clone()).collect()
}

/// The values of inputs, both those that the config declares and further given ones.
fn input_values(
    given: &RenderedProperties<'_>,
    config: Option<&SoftwareConfig>,
) -> Read<BTreeMap<String, Value>> {
    let mut values: BTreeMap<String, Value> = BTreeMap::new();
    for input in config.into_iter().flat_map(|config| &config.inputs) {
        let default = input.default.as_ref().and_then(|json| serde_json::from_str(json).ok());
        values.insert(input.name.clone(), default.unwrap_or_default());
    }
    values.extend(given.get("input_values", |value| map(value).cloned())?.unwrap_or_default());
    Ok(values)
}

/// The way in which a structured deployment inserts inputs into its config.
struct Structured {
    key: String,
    is_strict: bool,
    /// Inputs that have a value.
    known: BTreeSet<String>,
}

impl Structured {
    fn read(
        is_structured: bool,
        given: &RenderedProperties<'_>,
        values: &BTreeMap<String, Value>,
    ) -> Read<Option<Self>> {
        if !is_structured {
            return Ok(None);
        }
        let key = given.get("input_key", text)?.unwrap_or_else(|| GET_INPUT.to_owned());
        let validate = given.get("input_values_validate", |value| word(value, &VALIDATES))?;
        let known = values.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.clone());
        Ok(Some(Self { key, is_strict: validate == Some("STRICT"), known: known.collect() }))
    }

    /// Replaces each `{get_input: NAME}` by the input's value, or by null if it has none.
    fn fill(&self, value: Value, values: &BTreeMap<String, Value>) -> Result<Value, String> {
        match value {
            Value::Object(map) => {
                if let (1, Some(Value::String(name))) = (map.len(), map.get(&self.key)) {
                    if self.is_strict && !self.known.contains(name) && !name.starts_with("deploy_") {
                        return Err(format!(
                            "its config asks for the input '{}', which has no value",
                            cut(name)
                        ));
                    }
                    return Ok(values.get(name).cloned().unwrap_or_default());
                }
                let each = |(key, value)| Ok((key, self.fill(value, values)?));
                map.into_iter().map(each).collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
            Value::Array(items) => items.into_iter().map(|item| self.fill(item, values)).collect(),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(other),
        }
    }
}

/// The steps for each action.
fn steps(
    body: &ConfigBody,
    actions: &[ConfigAction],
    structured: Option<&Structured>,
    values: &BTreeMap<String, Value>,
    options: Option<&str>,
) -> Read<Vec<DeploymentStep>> {
    let step = |group: &ConfigGroup, actions: &[ConfigAction], config: Value| {
        let actions: Vec<DeploymentAction> = actions.iter().filter_map(|action| reaching(*action)).collect();
        let text = |config: Value| text_of(&config).into_owned().into_bytes();
        // A component may have any number of these; the others are `Network`.
        let (group, config) = match group {
            ConfigGroup::Script => (DeploymentGroup::Script, text(config)),
            ConfigGroup::JsonFile => (DeploymentGroup::JsonFile, config.to_string().into_bytes()),
            ConfigGroup::ApplyConfig | ConfigGroup::OsNetConfig => {
                (DeploymentGroup::ApplyConfig, config.to_string().into_bytes())
            }
            ConfigGroup::Hook(hook) => {
                (DeploymentGroup::Hook, hooked(hook, config, values, options).to_bytes())
            }
        };
        (!actions.is_empty()).then_some(DeploymentStep { actions, group, config: Content::Inline(config) })
    };
    let steps: Vec<Option<DeploymentStep>> = match body {
        ConfigBody::Text(ConfigGroup::Script, text) => {
            vec![step(&ConfigGroup::Script, actions, text.as_str().into())]
        }
        ConfigBody::Text(group @ ConfigGroup::Hook(_), text) => {
            vec![step(group, actions, text.as_str().into())]
        }
        ConfigBody::Text(group, text) => {
            vec![step(group, actions, document(text, group)?)]
        }
        ConfigBody::Structured(group, json) => {
            // A document that uses the action differs for each action.
            let apart = structured.is_some() && json.contains(DEPLOY_ACTION);
            let mut steps = Vec::new();
            for actions in actions.chunks(if apart { 1 } else { actions.len().max(1) }) {
                let mut values = values.clone();
                if let ([action], true) = (actions, apart) {
                    values.insert(DEPLOY_ACTION.into(), action.name().into());
                }
                let config = filled(json, group, structured, &values)?;
                steps.push(step(group, actions, config));
            }
            steps
        }
        ConfigBody::Component(parts) => {
            let part = |part: &crate::config::ComponentPart| {
                let config = match &part.tool {
                    ConfigGroup::Script | ConfigGroup::Hook(_) => part.config.as_str().into(),
                    tool @ (ConfigGroup::ApplyConfig | ConfigGroup::JsonFile | ConfigGroup::OsNetConfig) => {
                        document(&part.config, tool)?
                    }
                };
                Ok(step(&part.tool, &part.actions, config))
            };
            parts.iter().map(part).collect::<Read<Vec<_>>>()?
        }
    };
    Ok(steps.into_iter().flatten().collect())
}

/// The input of a hook. As heat-agents do, an input of type `String` is a text in Python's form.
fn hooked(
    group: &HookGroup,
    config: Value,
    values: &BTreeMap<String, Value>,
    options: Option<&str>,
) -> HookConfig {
    let input = |(name, value): (&String, &Value)| {
        let declared = group.types.get(name);
        let value = match (declared, value) {
            (None, Value::String(_)) | (Some(_), _) => value.clone(),
            (None, value) => Value::String(python(value)),
        };
        let kind = declared.map_or(INPUT_TYPE, String::as_str).to_owned();
        HookInput { name: name.clone(), kind, value }
    };
    HookConfig {
        group: group.name.clone(),
        config,
        options: options.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default(),
        inputs: values.iter().map(input).collect(),
    }
}

fn reaching(action: ConfigAction) -> Option<DeploymentAction> {
    match action {
        ConfigAction::Create => Some(DeploymentAction::Create),
        ConfigAction::Update => Some(DeploymentAction::Update),
        ConfigAction::Delete => Some(DeploymentAction::Delete),
        ConfigAction::Suspend | ConfigAction::Resume => None,
    }
}

/// A document with its inputs in it.
fn filled(
    json: &str,
    group: &ConfigGroup,
    structured: Option<&Structured>,
    values: &BTreeMap<String, Value>,
) -> Read<Value> {
    let config = document(json, group)?;
    let filled = match structured {
        Some(structured) => structured.fill(config, values),
        None => Ok(config),
    };
    filled.map_err(|message| PropertyError::new(message).within_key("input_values"))
}

/// Parses a text as the JSON that its group needs; an empty text is an empty map.
fn document(text: &str, group: &ConfigGroup) -> Read<Value> {
    let wrong = |why: &str| {
        let message = format!("its config is for the group {}, and is no map in JSON: {why}", group.name());
        PropertyError::new(message).within_key("config")
    };
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(value @ Value::Array(_)) if matches!(group, ConfigGroup::OsNetConfig | ConfigGroup::Hook(_)) => {
            Ok(value)
        }
        Ok(_) => Err(wrong("it is another value")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

fn os_net_config(body: Option<&ConfigBody>) -> Option<(&str, bool)> {
    match body? {
        ConfigBody::Text(ConfigGroup::OsNetConfig, text) => Some((text, true)),
        ConfigBody::Structured(ConfigGroup::OsNetConfig, json) => Some((json, false)),
        ConfigBody::Text(..) | ConfigBody::Structured(..) | ConfigBody::Component(_) => None,
    }
}

/// Group `os-net-config`: the same as a `Muster::NetworkConfig`, so a change that cuts the node off is
/// undone. As in Heat, a delete does nothing unless DELETE is among the actions.
fn network(
    config: &str,
    is_text: bool,
    actions: &[ConfigAction],
    structured: Option<&Structured>,
    values: &BTreeMap<String, Value>,
) -> Read<Spec> {
    if !(actions.contains(&ConfigAction::Create) && actions.contains(&ConfigAction::Update)) {
        let message = "the group os-net-config wants CREATE and UPDATE: the network is as the config says";
        return Err(PropertyError::new(message).within_key("actions"));
    }
    let structured = structured.filter(|_| !is_text);
    let document = filled(config, &ConfigGroup::OsNetConfig, structured, values)?;
    // The form within an os-apply-config document.
    let document = document.get("os_net_config").cloned().unwrap_or(document);
    NetworkDocument::parse(&document).map_err(|error| {
        PropertyError::new(format!("its config: {}: {}", error.path, error.problem)).within_key("config")
    })?;
    let keeps = !actions.contains(&ConfigAction::Delete);
    Ok(Spec::Network(NetworkConfig {
        document: document.to_string(),
        mapping: BTreeMap::new(),
        confirm_timeout: CONFIRM_TIMEOUT,
        on_delete: if keeps { OnDelete::Keep } else { OnDelete::Restore },
    }))
}
