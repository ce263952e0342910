//! Hooks: deployments whose group is a program of the server, in the form of heat-agents (`heat-config/hooks/GROUP`).
//!
//! The program reads this from its standard input, and answers on its standard output:
//!
//! ```text
//!   {"id": …, "name": …, "group": …, "creation_time": …, "config": …, "options": {…},
//!    "inputs": [{"name": …, "type": …, "value": …}], "outputs": [{"name": …, "type": …, "error_output": …}]}
//! ```
//!
//! A hook runs as a script does: in a unit of its own, once for each change, with a bound on its time. Its config is
//! neither in arguments nor in its environment.
//!
//! Absent: the answer (`agent/host/src/run/answer.rs`), and which program may run (`agent/host/src/files/program.rs`).

use std::path::PathBuf;
use std::time::Duration;

use muster_agent_core::{Retry, RunError};
use muster_host::run::{Program, RunId, Task};
use muster_shared::model::{
    DEPLOY_ACTION, Deployment, DeploymentAction, DeploymentOutput, HookConfig, HookInput, INPUT_TYPE, Job,
    Observed, OnInterrupt,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Host, Ran, run_failed, script_run, told};
use crate::settings::HookDirectories;

impl Host {
    pub(super) async fn hook(
        &self,
        job: &Job,
        deployment: &Deployment,
        config: &[u8],
    ) -> Result<Observed, RunError> {
        let config = HookConfig::read(config).ok_or_else(|| RunError {
            reason: "the job has no config for a hook: a bug, please report it".into(),
            retry: Retry::Never,
        })?;
        let id = script_run(job.key());
        let group = config.group.escape_debug().to_string();
        let task = Task {
            description: format!("deployment {}", deployment.name),
            program: Program::Hook {
                paths: paths(&self.hooks, &config.group),
                input: input(&id, deployment, DeploymentAction::of(job.action), config, now()),
            },
            environment: self.own_variable().into_iter().collect(),
            outputs: deployment.outputs.iter().map(|output| output.name.clone()).collect(),
            timeout: Duration::from_secs(deployment.timeout.into()),
            again: deployment.on_interrupt == OnInterrupt::Rerun,
        };
        let ended = self.runs.run(&id, &task).await.map_err(|error| {
            let failed = run_failed(error);
            RunError { reason: format!("group '{group}': {}", failed.reason), ..failed }
        })?;
        told(deployment, &Ran::Hook(group), ended)
    }
}

/// The possible paths of the group's program. As in heat-agents, a group's name counts without what cannot be in
/// one's.
fn paths(directories: &HookDirectories, group: &str) -> Vec<PathBuf> {
    let name: String = group.chars().filter(|it| it.is_alphanumeric() || ['-', '_'].contains(it)).collect();
    directories.0.iter().map(|directory| directory.join(&name)).collect()
}

fn now() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    now.format(&Rfc3339).unwrap_or_default()
}

/// The program's standard input. `id` names files of hooks, as the id of a config does in Heat: each change has another.
fn input(
    id: &RunId,
    deployment: &Deployment,
    action: Option<DeploymentAction>,
    config: HookConfig,
    now: String,
) -> Vec<u8> {
    let mut inputs = config.inputs;
    inputs.retain(|input| input.name != DEPLOY_ACTION);
    if let Some(action) = action {
        let (name, value) = (DEPLOY_ACTION.to_owned(), action.name().into());
        inputs.push(HookInput { name, kind: INPUT_TYPE.to_owned(), value });
    }
    let output = |output: &DeploymentOutput| json!({"name": output.name, "type": INPUT_TYPE, "error_output": output.error_output});
    let outputs: Vec<Value> = deployment.outputs.iter().map(output).collect();
    let input = json!({
        "id": id.to_string(),
        "name": deployment.name,
        "group": config.group,
        "creation_time": now,
        "config": config.config,
        "options": config.options,
        "inputs": inputs,
        "outputs": outputs,
    });
    input.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
