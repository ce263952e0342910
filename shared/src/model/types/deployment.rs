//! A software deployment of Heat: scripts and documents for a server when a resource is made, changed
//! or deleted.
//!
//! The state carries the steps of all actions, and the agent runs the step of its job's action: for
//! [`Action::Create`] the one with [`DeploymentAction::Create`], and so on. The agent adds
//! [`DEPLOY_ACTION`], which depends on the job, to the inputs. Everything else that Heat adds is
//! among the inputs already.
//!
//! Absent: how the agent runs a step (`agent/src/host/deployment.rs`), and group `os-net-config`, which is a
//! [`NetworkConfig`](super::NetworkConfig).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::{DesiredState, HookConfig};
use crate::model::spec::{Action, Claim, Content, Lane};

/// The input that the agent adds: `CREATE`, `UPDATE` or `DELETE`.
pub const DEPLOY_ACTION: &str = "deploy_action";
/// Attribute: what the run wrote to its standard output.
pub const DEPLOY_STDOUT: &str = "deploy_stdout";
/// Attribute: what the run wrote to its standard error.
pub const DEPLOY_STDERR: &str = "deploy_stderr";
/// Attribute: the number that the run ended with, in decimal digits.
pub const DEPLOY_STATUS_CODE: &str = "deploy_status_code";

/// Bytes of all configs and inputs together: a job with them must fit a message of 256 KiB.
pub const DEPLOYMENT_MAX: usize = 192 * 1024;
/// Bytes of all attributes that a run leaves: its report must fit a message of 256 KiB, and the controller
/// keeps them.
pub const DEPLOYMENT_ATTRIBUTES_MAX: usize = 128 * 1024;
/// The most bytes of one attribute; a longer text is cut at its beginning, since the end has the error.
pub const DEPLOYMENT_ATTRIBUTE_MAX: usize = 32 * 1024;
/// The most seconds of a run: an hour less than the longest job, so that the agent's limit comes first.
pub const DEPLOYMENT_TIMEOUT_MAX: u32 = 23 * 3600;
/// The wire form that an agent must read to run hooks, as in [`READS`](crate::wire::READS).
const READS_HOOKS: u32 = 7;
/// `NAME_MAX` of Linux: an output is a file's name, and an input's name is no longer.
const NAME_MAX: usize = 255;
/// The most inputs: more than anybody declares, so that names alone cannot fill a message.
const INPUTS_MAX: usize = 512;
const OUTPUTS_MAX: usize = 128;

/// `OS::Heat::SoftwareDeployment` and similar types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The deployment's name, for people and for the unit's name.
    pub name: String,
    /// At most one step per action; an action without one does nothing and succeeds.
    pub steps: Vec<DeploymentStep>,
    /// Environment variables for scripts; values as Heat passes them: strings as they are, others as JSON.
    pub inputs: BTreeMap<String, String>,
    /// Inputs whose change makes this another deployment.
    pub replace_on: BTreeSet<String>,
    /// The outputs read from the run: each existing one is an attribute.
    pub outputs: Vec<DeploymentOutput>,
    /// The most seconds of the run; then all of its processes are ended, and the run has failed.
    pub timeout: u32,
    /// The treatment of a run with an unknown end.
    pub on_interrupt: OnInterrupt,
}

/// A step for some actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentStep {
    pub actions: Vec<DeploymentAction>,
    /// The tool that runs the step.
    pub group: DeploymentGroup,
    /// A script's text, or JSON. In a job always complete; the ledger keeps its digest once it has run.
    pub config: Content,
}

/// Heat's actions that reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeploymentAction {
    /// The first time.
    Create,
    /// Config or inputs changed.
    Update,
    /// Runs before the resource is gone.
    Delete,
}

/// Heat's name for the hook that takes a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeploymentGroup {
    /// A program; its first line names the interpreter.
    Script,
    /// A JSON document that `os-apply-config` reads, together with those of other deployments.
    ApplyConfig,
    /// A JSON object of absolute path → document: each document is written to its file.
    JsonFile,
    /// A [`HookConfig`] as JSON, for the program of the server that its group names.
    Hook,
}

/// An output of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentOutput {
    /// A script writes it to `$heat_outputs_path.NAME`.
    pub name: String,
    /// If there is anything in it, the run has failed.
    pub error_output: bool,
}

/// The treatment of a run with an unknown end, since the server went down meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnInterrupt {
    /// The step runs again.
    #[default]
    Rerun,
    /// The deployment has failed.
    Fail,
}

/// The reason why there is no such deployment. Reads on after the deployment's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeploymentError {
    #[error("its name is empty, has control characters, or is longer than {NAME_MAX} bytes")]
    Name,
    #[error("two configs are for action {}", .0.name())]
    Twice(DeploymentAction),
    #[error("its configs and inputs are {0} bytes together; at most {DEPLOYMENT_MAX} fit a job")]
    TooLarge(usize),
    #[error("its config is not part of the job")]
    Stored,
    #[error("input '{}' cannot be an environment variable: its name is empty, longer than {NAME_MAX} bytes, or has '=' or a NUL in it", .0.escape_default())]
    InputName(String),
    #[error("input '{0}' has a NUL in its value, which no environment variable can")]
    InputValue(String),
    #[error("it has more than {INPUTS_MAX} inputs")]
    Inputs,
    #[error("output '{}' cannot be part of a file's name: it is empty, longer than {NAME_MAX} bytes, or has '/' or a NUL in it", .0.escape_default())]
    OutputName(String),
    #[error("output '{0}' is declared twice, or has the name of an attribute that each deployment has")]
    OutputTwice(String),
    #[error("it has more than {OUTPUTS_MAX} outputs")]
    Outputs,
    #[error("its timeout is not 1 to {DEPLOYMENT_TIMEOUT_MAX} seconds")]
    Timeout,
}

/// The wire form: a config is always in the job, and an interrupted run either runs again or does not.
#[derive(Serialize, Deserialize)]
pub struct Wire {
    name: String,
    steps: Vec<(Vec<DeploymentAction>, DeploymentGroup, Vec<u8>)>,
    inputs: BTreeMap<String, String>,
    replace_on: BTreeSet<String>,
    outputs: Vec<DeploymentOutput>,
    timeout: u32,
    rerun: bool,
}

impl From<Deployment> for Wire {
    fn from(deployment: Deployment) -> Self {
        let Deployment { name, steps, inputs, replace_on, outputs, timeout, on_interrupt } = deployment;
        let step = |step: DeploymentStep| match step.config {
            Content::Inline(bytes) => (step.actions, step.group, bytes),
            // A checked deployment has no stored content.
            Content::Stored { .. } => (step.actions, step.group, Vec::new()),
        };
        let steps = steps.into_iter().map(step).collect();
        Self { name, steps, inputs, replace_on, outputs, timeout, rerun: on_interrupt == OnInterrupt::Rerun }
    }
}

impl From<Wire> for Deployment {
    fn from(wire: Wire) -> Self {
        let Wire { name, steps, inputs, replace_on, outputs, timeout, rerun } = wire;
        let step =
            |(actions, group, config)| DeploymentStep { actions, group, config: Content::Inline(config) };
        let steps = steps.into_iter().map(step).collect();
        let on_interrupt = if rerun { OnInterrupt::Rerun } else { OnInterrupt::Fail };
        Self { name, steps, inputs, replace_on, outputs, timeout, on_interrupt }
    }
}

impl DesiredState for Deployment {
    fn type_name(&self) -> &'static str {
        "OS::Heat::SoftwareDeployment"
    }

    fn key(&self) -> Cow<'_, str> {
        (&self.name).into()
    }

    /// The files that a script changes are unknown.
    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn properties(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            json!({
                "actions": step.actions.iter().map(|action| action.name()).collect::<Vec<_>>(),
                "group": step.group_name(),
                "config": step.config.shown(),
            })
        });
        let outputs = self.outputs.iter().map(|output| match output.error_output {
            true => json!({"name": output.name, "error_output": true}),
            false => json!({"name": output.name}),
        });
        json!({
            "name": self.name,
            "configs": steps.collect::<Vec<_>>(),
            "input_values": self.inputs,
            "outputs": outputs.collect::<Vec<_>>(),
            "timeout": self.timeout,
            "on_interrupt": match self.on_interrupt {
                OnInterrupt::Rerun => "rerun",
                OnInterrupt::Fail => "fail",
            },
        })
    }

    fn attribute(&self, _name: &str) -> Option<Value> {
        None
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        self.check().map_err(|_| "deployment")
    }

    /// Whether an input of `replace_on` changed.
    fn needs_replacement(&self, next: &Self) -> bool {
        let differs = |name: &String| self.inputs.get(name) != next.inputs.get(name);
        next.replace_on.iter().any(differs)
    }

    fn lane(&self) -> Lane {
        Lane::Deployment
    }

    fn reads_for_content(&self) -> u32 {
        let is_hook = self.steps.iter().any(|step| step.group == DeploymentGroup::Hook);
        if is_hook { READS_HOOKS } else { 0 }
    }

    fn own_time(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// The script that runs on a delete is not in the ledger.
    fn is_removable(&self) -> bool {
        !self.steps.iter().any(|step| step.actions.contains(&DeploymentAction::Delete))
    }

    /// Inputs may be secrets, and the job of a delete brings them again.
    fn strip(&mut self) {
        self.steps.iter_mut().for_each(|step| step.config.strip());
        self.inputs.clear();
    }

    fn weight(&self) -> usize {
        let configs = self.steps.iter().map(|step| step.config.weight());
        let inputs = self.inputs.iter().map(|(name, value)| name.len() + value.len());
        configs.chain(inputs).sum()
    }
}

impl Deployment {
    /// The step of an action.
    pub fn step(&self, action: Action) -> Option<&DeploymentStep> {
        let action = DeploymentAction::of(action)?;
        self.steps.iter().find(|step| step.actions.contains(&action))
    }

    /// Checks that a job can carry the deployment, and that a run can be given all of it.
    ///
    /// # Errors
    /// [`DeploymentError`]
    pub fn check(&self) -> Result<(), DeploymentError> {
        if self.name.is_empty() || self.name.len() > NAME_MAX || self.name.chars().any(char::is_control) {
            return Err(DeploymentError::Name);
        }
        self.check_steps()?;
        if self.inputs.len() > INPUTS_MAX {
            return Err(DeploymentError::Inputs);
        }
        for (name, value) in &self.inputs {
            if name.is_empty() || name.len() > NAME_MAX || name.contains(['=', '\0']) {
                return Err(DeploymentError::InputName(name.clone()));
            }
            if value.contains('\0') {
                return Err(DeploymentError::InputValue(name.clone()));
            }
        }
        // Each name may be that of an input, so there are at most as many names as inputs.
        if self.replace_on.len() > INPUTS_MAX || self.replace_on.iter().any(|name| name.len() > NAME_MAX) {
            return Err(DeploymentError::Inputs);
        }
        self.check_outputs()?;
        if self.timeout == 0 || self.timeout > DEPLOYMENT_TIMEOUT_MAX {
            return Err(DeploymentError::Timeout);
        }
        match self.weight() {
            ..=DEPLOYMENT_MAX => Ok(()),
            weight => Err(DeploymentError::TooLarge(weight)),
        }
    }

    fn check_steps(&self) -> Result<(), DeploymentError> {
        let mut actions = BTreeSet::new();
        for step in &self.steps {
            if let Some(twice) = step.actions.iter().find(|action| !actions.insert(**action)) {
                return Err(DeploymentError::Twice(*twice));
            }
            if matches!(step.config, Content::Stored { .. }) {
                return Err(DeploymentError::Stored);
            }
        }
        Ok(())
    }

    fn check_outputs(&self) -> Result<(), DeploymentError> {
        if self.outputs.len() > OUTPUTS_MAX {
            return Err(DeploymentError::Outputs);
        }
        let mut names = BTreeSet::from([DEPLOY_STDOUT, DEPLOY_STDERR, DEPLOY_STATUS_CODE]);
        for DeploymentOutput { name, .. } in &self.outputs {
            if name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\0']) {
                return Err(DeploymentError::OutputName(name.clone()));
            }
            if !names.insert(name) {
                return Err(DeploymentError::OutputTwice(name.clone()));
            }
        }
        Ok(())
    }
}

impl DeploymentStep {
    /// The group as the template has it.
    fn group_name(&self) -> Cow<'static, str> {
        let config = match (self.group, &self.config) {
            (DeploymentGroup::Hook, Content::Inline(bytes)) => HookConfig::read(bytes),
            _ => None,
        };
        config.map_or(self.group.name().into(), |config| config.group.into())
    }
}

impl DeploymentAction {
    /// The deployment action of a job's action; `None` if nothing runs.
    pub fn of(action: Action) -> Option<Self> {
        match action {
            Action::Create => Some(Self::Create),
            Action::Update => Some(Self::Update),
            Action::Delete => Some(Self::Delete),
            // The effect of a script cannot be compared.
            Action::Check | Action::Retain | Action::Adopt => None,
        }
    }

    /// The name in Heat and in [`DEPLOY_ACTION`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl DeploymentGroup {
    /// The name in Heat.
    pub fn name(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::ApplyConfig => "apply-config",
            Self::JsonFile => "json-file",
            Self::Hook => "hook",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Deployment {
        Deployment {
            name: "setup".into(),
            steps: vec![DeploymentStep {
                actions: vec![DeploymentAction::Create, DeploymentAction::Update],
                group: DeploymentGroup::Script,
                config: Content::Inline(b"#!/bin/sh\n".to_vec()),
            }],
            inputs: [("colour".to_owned(), "blue".to_owned())].into(),
            replace_on: BTreeSet::new(),
            outputs: vec![DeploymentOutput { name: "result".into(), error_output: false }],
            timeout: 60,
            on_interrupt: OnInterrupt::Rerun,
        }
    }

    fn with(change: impl FnOnce(&mut Deployment)) -> Deployment {
        let mut deployment = deployment();
        change(&mut deployment);
        deployment
    }

    #[test]
    fn each_bound_has_its_error() {
        use DeploymentError as E;
        assert_eq!(deployment().check(), Ok(()));
        let input = |name: &str, value: &str| {
            with(|d| drop(d.inputs.insert(name.into(), value.into()))).check().unwrap_err()
        };
        let output = |name: &str| {
            with(|d| d.outputs.push(DeploymentOutput { name: name.into(), error_output: false }))
                .check()
                .unwrap_err()
        };
        let stored = Content::Stored { digest: crate::model::ContentDigest([0; 32]), size: 1 };
        for (wrong, error) in [
            (with(|d| d.name.clear()), E::Name),
            (with(|d| d.name = "a\nb".into()), E::Name),
            (with(|d| d.steps.push(d.steps[0].clone())), E::Twice(DeploymentAction::Create)),
            (with(|d| d.steps[0].config = stored), E::Stored),
            (with(|d| d.timeout = 0), E::Timeout),
            (with(|d| d.timeout = DEPLOYMENT_TIMEOUT_MAX + 1), E::Timeout),
            (
                with(|d| d.steps[0].config = Content::Inline(vec![b'a'; DEPLOYMENT_MAX])),
                E::TooLarge(DEPLOYMENT_MAX + 10),
            ),
        ] {
            assert_eq!(wrong.check(), Err(error));
        }
        for name in ["", "a=b", "a\0"] {
            assert_eq!(input(name, "x"), E::InputName(name.into()));
        }
        assert_eq!(input("a", "x\0"), E::InputValue("a".into()));
        for name in ["", "a/b", "a\0"] {
            assert_eq!(output(name), E::OutputName(name.into()));
        }
        for name in ["result", DEPLOY_STDOUT] {
            assert_eq!(output(name), E::OutputTwice(name.into()));
        }
        let many = with(|d| d.inputs = (0..=INPUTS_MAX).map(|n| (n.to_string(), String::new())).collect());
        assert_eq!(many.check(), Err(E::Inputs));
    }

    #[test]
    fn an_action_has_its_step_or_none() {
        let deployment = deployment();
        assert!(deployment.step(Action::Create).is_some());
        assert!(deployment.step(Action::Update).is_some());
        for action in [Action::Delete, Action::Check, Action::Retain] {
            assert!(deployment.step(action).is_none(), "{action:?}");
        }
    }

    #[test]
    fn a_hook_needs_an_agent_that_reads_hooks() {
        let config = HookConfig {
            group: "ansible".into(),
            config: json!("- hosts: localhost"),
            options: Default::default(),
            inputs: Vec::new(),
        };
        let hook = with(|d| {
            d.steps[0].group = DeploymentGroup::Hook;
            d.steps[0].config = Content::Inline(config.to_bytes());
        });
        assert_eq!(hook.properties()["configs"][0]["group"], "ansible");
        assert_eq!(crate::model::Spec::from(hook).reads(), READS_HOOKS);
        assert_eq!(crate::model::Spec::from(deployment()).reads(), 0);
        // The number of a group on the wire and in ledgers and stores.
        let groups = [
            DeploymentGroup::Script,
            DeploymentGroup::ApplyConfig,
            DeploymentGroup::JsonFile,
            DeploymentGroup::Hook,
        ];
        let numbers = groups.map(|group| postcard::to_stdvec(&group).unwrap());
        assert_eq!(numbers.concat(), [0, 1, 2, 3]);
    }

    #[test]
    fn only_an_input_that_says_so_replaces() {
        let old = deployment();
        let change = |d: &mut Deployment| drop(d.inputs.insert("colour".into(), "red".into()));
        assert!(!old.needs_replacement(&with(change)));
        let replacing = with(|d| {
            change(d);
            d.replace_on = ["colour".to_owned()].into();
        });
        assert!(old.needs_replacement(&replacing));
    }
}
