//! Bodies of Heat's requests that create and update stacks, made into those of Muster's API.
//!
//! Absent: whether the template is any good, which the API says, and contents of other servers: what a template names comes
//! with the request, and an address in it is never fetched.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::stack::{CreateStack, EnvironmentFile, Options, StackView, TemplateFile, UpdateStack};
use muster_shared::StackName;
use serde::Deserialize;
use serde_json::Value;

use crate::client::TEMPLATE;
use crate::fault::{Fault, cut};
use crate::query;

/// The body of a create, an update, a preview or a validation. Unknown keys mean nothing, as in Heat.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    stack_name: Option<String>,
    template: Value,
    template_url: Value,
    files: Option<BTreeMap<String, Value>>,
    files_container: Value,
    environment: Value,
    environment_files: Option<Vec<String>>,
    parameters: Option<BTreeMap<String, Value>>,
    disable_rollback: Value,
    timeout_mins: Value,
    converge: Value,
    tags: Value,
    clear_parameters: Option<BTreeSet<String>>,
    adopt_stack_data: Value,
}

/// The contents of a body, with environments in their order.
#[derive(Debug)]
pub struct Read {
    pub template: Option<TemplateFile>,
    pub environments: Vec<EnvironmentFile>,
    pub files: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, Value>,
    pub clear_parameters: BTreeSet<String>,
    pub options: Options,
    /// Whether the body says what becomes of a failure.
    has_rollback: bool,
    name: Option<String>,
}

impl Asked {
    pub fn read(self) -> Result<Read, Fault> {
        self.check()?;
        let (options, has_rollback) = (self.options()?, !self.disable_rollback.is_null());
        let template = match self.template {
            Value::Null => None,
            Value::String(text) => Some(text),
            document @ Value::Object(_) => Some(pretty(&document)?),
            _ => return Err(Fault::invalid("template: want a template, as a map or as text")),
        };
        let template = template.filter(|text| !text.is_empty()).map(|text| TemplateFile {
            name: TEMPLATE.to_owned(),
            text,
            files: BTreeMap::new(),
        });
        let mut files = BTreeMap::new();
        for (key, value) in self.files.unwrap_or_default() {
            let Value::String(text) = value else {
                return Err(Fault::invalid(format!("files: '{}' is no text", cut(&key))));
            };
            files.insert(key, text);
        }
        let mut environments = Vec::new();
        // As in Heat, the merged environment does not count beside its parts.
        match self.environment_files.filter(|names| !names.is_empty()) {
            Some(names) => {
                for name in &names {
                    let Some(text) = files.get(name).cloned() else {
                        let message = format!("environment_files: '{}' is not among the files", cut(name));
                        return Err(Fault::invalid(message));
                    };
                    environments.push(EnvironmentFile { name: name.clone(), key: Some(name.clone()), text });
                }
                files.retain(|key, _| !names.contains(key));
            }
            None => environments.extend(environment(self.environment)?),
        }
        Ok(Read {
            template,
            environments,
            files,
            parameters: self.parameters.unwrap_or_default(),
            clear_parameters: self.clear_parameters.unwrap_or_default(),
            options,
            has_rollback,
            name: self.stack_name,
        })
    }

    /// Refuses by name what Heat has and Muster has not.
    fn check(&self) -> Result<(), Fault> {
        let is_there = |value: &Value| {
            !matches!(value, Value::Null) && value != "" && value != &Value::Array(Vec::new())
        };
        for (value, message) in [
            (&self.template_url, "template_url: no address is fetched: send the template itself"),
            (&self.files_container, "files_container: there is no Swift: send the files in 'files'"),
            (&self.adopt_stack_data, "adopt_stack_data: 'muster adopt' takes over what a server has"),
            (&self.tags, "tags: stacks have no tags"),
        ] {
            if is_there(value) {
                return Err(Fault::not_supported(message));
            }
        }
        Ok(())
    }

    fn options(&self) -> Result<Options, Fault> {
        let disabled = flag("disable_rollback", &self.disable_rollback)?.unwrap_or(true);
        let converge = flag("converge", &self.converge)?.unwrap_or(false);
        let minutes = match &self.timeout_mins {
            Value::Null => None,
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if minutes.is_none_or(|minutes| minutes == 0) && !self.timeout_mins.is_null() {
            return Err(Fault::invalid("timeout_mins: want a whole number of minutes, 1 or more"));
        }
        let timeout = minutes.map(|minutes| minutes.saturating_mul(60));
        Ok(Options { rollback: !disabled, converge, timeout, ..Options::default() })
    }
}

impl Read {
    /// The name in the body.
    pub fn stack_name(&self) -> Result<StackName, Fault> {
        let Some(name) = &self.name else { return Err(Fault::invalid("No stack name specified")) };
        name.parse().map_err(|error: muster_shared::id::IdError| Fault::invalid(error.to_string()))
    }

    /// The template, which must be there.
    pub fn whole_template(&self) -> Result<&TemplateFile, Fault> {
        self.template.as_ref().ok_or_else(|| Fault::invalid("No template specified"))
    }

    pub fn create(self) -> Result<CreateStack, Fault> {
        let name = self.stack_name()?;
        self.whole_template()?;
        let Self { template, environments, files, parameters, options, .. } = self;
        let template = template.ok_or_else(|| Fault::invalid("No template specified"))?;
        Ok(CreateStack { name, template, environments, files, parameters, options })
    }

    /// An update without these options has those of the stack, as in Heat.
    pub fn keeping(mut self, now: &StackView) -> Self {
        if !self.has_rollback {
            self.options.rollback = now.rollback;
        }
        self.options.timeout = self.options.timeout.or((now.timeout != 0).then_some(now.timeout));
        self
    }

    /// With `existing`, what is neither given nor cleared stays. Without, nothing does.
    pub fn update(self, existing: bool) -> Result<UpdateStack, Fault> {
        if !existing {
            self.whole_template()?;
        }
        let Self { template, environments, files, parameters, mut clear_parameters, options, .. } = self;
        if !existing {
            clear_parameters.clear();
        }
        Ok(UpdateStack {
            template,
            environments,
            files,
            parameters,
            existing,
            clear_parameters,
            revision: None,
            options,
        })
    }
}

/// An environment as a map or as text; one without anything in it is none.
fn environment(value: Value) -> Result<Option<EnvironmentFile>, Fault> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text,
        Value::Object(sections) if sections.is_empty() => return Ok(None),
        document @ Value::Object(_) => pretty(&document)?,
        _ => return Err(Fault::invalid("environment: want an environment, as a map or as text")),
    };
    Ok(Some(EnvironmentFile { name: "environment".to_owned(), key: None, text }))
}

fn flag(name: &str, value: &Value) -> Result<Option<bool>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(*value)),
        Value::String(text) => query::boolean(name, text).map(Some),
        _ => Err(Fault::invalid(format!("{name}: want true or false"))),
    }
}

fn pretty(document: &Value) -> Result<String, Fault> {
    serde_json::to_string_pretty(document).map_err(|error| Fault::internal(error.to_string()))
}
