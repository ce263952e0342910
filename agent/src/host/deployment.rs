//! Software deployments: the one step of a job's action, by group; its report; and its remains.
//!
//! A failed run is final: Heat's scripts expect to run once for each change, and a new attempt would run them
//! again. Only a run that could not begin is retried.
//!
//! The first line of a reason says what happened. The following lines quote the command's output, which may
//! be secret: they go to the controller, which masks known secrets, and not into the agent's log.
//!
//! Absent: whether an interrupted script runs again (`next`, `agent/host/src/run.rs`), and what a hook is given
//! (`deployment/hook.rs`).

mod hook;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use muster_agent_core::{Entry, Found, Retry, RunError};
use muster_host::documents::DocumentError;
use muster_host::run::{Ended, Output, Program, RunEnd, RunFailed, RunId, Task};
use muster_shared::model::{
    Action, Content, DEPLOY_ACTION, DEPLOY_STATUS_CODE, DEPLOY_STDERR, DEPLOY_STDOUT,
    DEPLOYMENT_ATTRIBUTES_MAX, Deployment, DeploymentAction, DeploymentGroup, DeploymentStep, Job, Observed,
    OnInterrupt, Outcome, ReportKey, Spec,
};
use muster_shared::{Attempt, ResourceId};

use super::{Host, compared, failed};

/// The most bytes quoted from the end of a command's errors: some lines, well within the limit of a reason.
const QUOTED_MAX: usize = 2048;

impl Host {
    pub(super) async fn deployment(&self, job: &Job, deployment: &Deployment) -> Result<Observed, RunError> {
        let resource = job.resource;
        let observed = match deployment.step(job.action) {
            Some(step) => self.step(job, deployment, step).await?,
            None => {
                self.runs.end_all(resource, None).await.map_err(run_failed)?;
                nothing_said(deployment)
            }
        };
        let has = |group| deployment.steps.iter().any(|step| step.group == group);
        let removes = job.action == Action::Delete;
        if removes || !has(DeploymentGroup::ApplyConfig) {
            self.documents.withdraw(resource).await.map_err(document_failed)?;
        }
        if removes || !has(DeploymentGroup::JsonFile) {
            self.documents.restore(resource).await.map_err(document_failed)?;
        }
        Ok(if removes { Observed::default() } else { observed })
    }

    async fn step(
        &self,
        job: &Job,
        deployment: &Deployment,
        step: &DeploymentStep,
    ) -> Result<Observed, RunError> {
        let config = config(step)?;
        match step.group {
            DeploymentGroup::Script => return self.script(job, deployment, config).await,
            DeploymentGroup::Hook => return self.hook(job, deployment, config).await,
            DeploymentGroup::ApplyConfig | DeploymentGroup::JsonFile => {}
        }
        self.runs.end_all(job.resource, None).await.map_err(run_failed)?;
        let written = match step.group {
            // The restore would undo the deployment's effect at once.
            _ if job.action == Action::Delete => Ok(()),
            DeploymentGroup::Script | DeploymentGroup::Hook => Ok(()),
            DeploymentGroup::ApplyConfig => self.documents.apply_config(job.resource, config).await,
            DeploymentGroup::JsonFile => self.documents.write(job.resource, config).await,
        };
        written.map_err(document_failed)?;
        Ok(nothing_said(deployment))
    }

    async fn script(&self, job: &Job, deployment: &Deployment, text: &[u8]) -> Result<Observed, RunError> {
        let mut environment = deployment.inputs.clone();
        environment.extend(self.own_variable());
        if let Some(action) = DeploymentAction::of(job.action) {
            environment.insert(DEPLOY_ACTION.to_owned(), action.name().to_owned());
        }
        let task = Task {
            description: format!("deployment {}", deployment.name),
            program: Program::Script(text.to_vec()),
            environment,
            outputs: deployment.outputs.iter().map(|output| output.name.clone()).collect(),
            timeout: Duration::from_secs(deployment.timeout.into()),
            again: deployment.on_interrupt == OnInterrupt::Rerun,
        };
        let ended = self.runs.run(&script_run(job.key()), &task).await.map_err(run_failed)?;
        told(deployment, &Ran::Script, ended)
    }

    /// Makes `os-net-config` and `os-apply-config`, if a run calls them, use this agent.
    fn own_variable(&self) -> Option<(String, String)> {
        let state = self.state.to_str()?;
        Some(("MUSTER_AGENT__STATE_DIR".to_owned(), state.to_owned()))
    }

    /// Only documents can be compared, while they are here: the agent's record of the last good state has
    /// only their digests. For a script, the ledger's record that it has run counts.
    pub(super) async fn check_deployment(
        &self,
        resource: ResourceId,
        deployment: &Deployment,
        applied: Option<&Spec>,
    ) -> Result<Found, RunError> {
        if applied.is_none() {
            return Ok(compared(false, true, "it has not run here".into()));
        }
        let (Some(create), Some(update)) = (deployment.step(Action::Create), deployment.step(Action::Update))
        else {
            return Ok(Found::AsDesired);
        };
        if create != update {
            // The last document is unknown.
            return Ok(Found::AsDesired);
        }
        let Content::Inline(config) = &create.config else { return Ok(Found::AsDesired) };
        let differ = match create.group {
            DeploymentGroup::Script | DeploymentGroup::Hook => return Ok(Found::AsDesired),
            DeploymentGroup::ApplyConfig => self.documents.check_applied(resource, config).await,
            DeploymentGroup::JsonFile => self.documents.check_written(resource, config).await,
        };
        let differ = differ.map_err(document_failed)?;
        Ok(compared(differ.is_empty(), false, differ.join(", ")))
    }

    /// Stops the run of a job that must not go on, if there is one.
    pub fn stop_run(&self, key: ReportKey) {
        self.runs.stop(&script_run(key));
    }

    /// The end of a job is on disk: its run's own record is not needed any more.
    pub fn forget_run(&self, key: ReportKey) {
        self.runs.forget(&script_run(key));
    }

    /// Drops the runs of jobs that are not under way, and the records of deployments that are gone.
    pub(super) fn sweep_deployments(&self, entries: &[&Entry]) -> std::io::Result<()> {
        let jobs = |entry: &Entry| {
            let [current, next] =
                [&entry.current, &entry.next].map(|job| job.as_ref().map(|accepted| accepted.job.key()));
            [current, next, tried_again(entry)]
        };
        let needed = |id: &RunId| {
            let mut keys = entries.iter().flat_map(|entry| jobs(entry)).flatten();
            keys.any(|key| run_id(key) == *id || script_run(key) == *id)
        };
        self.runs.sweep(needed).map_err(std::io::Error::other)?;
        let is_known =
            |resource| entries.iter().any(|entry| entry.resource == resource && !entry.is_tombstone());
        self.documents.sweep(is_known)
    }
}

/// The job of a resource with a temporary failure: another attempt may come.
pub(crate) fn tried_again(entry: &Entry) -> Option<ReportKey> {
    let last = entry.last.as_ref()?;
    matches!(last.outcome, Outcome::Failed { permanent: false, .. } | Outcome::NoRoom { .. })
        .then_some(last.key)
}

/// A script runs once per generation, whichever attempt of the job asks for its end: an outcome that was not
/// reported, or that the disk refused, does not lead to another run.
fn script_run(key: ReportKey) -> RunId {
    RunId::new(key.resource, key.generation, Attempt(0))
}

pub(super) fn run_id(key: ReportKey) -> RunId {
    RunId::new(key.resource, key.generation, key.attempt)
}

fn config(step: &DeploymentStep) -> Result<&[u8], RunError> {
    match &step.config {
        Content::Inline(config) => Ok(config),
        Content::Stored { .. } => Err(RunError {
            reason: "the job has no config: a bug, please report it".into(),
            retry: Retry::Never,
        }),
    }
}

/// The result of a run without output.
fn nothing_said(deployment: &Deployment) -> Observed {
    let ended = Ended {
        how: RunEnd::Exited(0),
        stdout: String::new(),
        stderr: String::new(),
        outputs: BTreeMap::new(),
    };
    Observed { attributes: attributes(deployment, 0, ended) }
}

/// The program that ran.
enum Ran {
    Script,
    /// The program of this group.
    Hook(String),
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script => f.write_str("the script"),
            Self::Hook(group) => write!(f, "the hook '{group}'"),
        }
    }
}

fn told(deployment: &Deployment, what: &Ran, ended: Ended) -> Result<Observed, RunError> {
    let errors = match what {
        // Some tools, such as Ansible, warn on standard error and tell failures on standard output.
        Ran::Hook(_) => Cow::Owned(format!("{}\n{}", ended.stderr.trim_end(), ended.stdout)),
        Ran::Script => Cow::Borrowed(&*ended.stderr),
    };
    let failed = |reason: String| RunError {
        reason: quoting(reason, errors.trim_start_matches('\n')),
        retry: Retry::Never,
    };
    let status = match &ended.how {
        RunEnd::Exited(0) => 0,
        RunEnd::Exited(status) => return Err(failed(format!("{what} ended with status {status}"))),
        RunEnd::Killed(signal) => return Err(failed(format!("{what} was ended by signal {signal}"))),
        RunEnd::TimedOut => {
            return Err(failed(format!("{what} took longer than {} s and was ended", deployment.timeout)));
        }
        RunEnd::Stopped => return Err(failed(format!("{what} was ended: its job was withdrawn"))),
        RunEnd::NotStarted(why) => return Err(failed(format!("{what} cannot be started: {why}"))),
        RunEnd::BadAnswer(why) => return Err(failed(format!("{what} has failed: {why}"))),
    };
    for output in &deployment.outputs {
        match ended.outputs.get(&output.name) {
            Some(Output::TooLarge(size)) => {
                let reason = format!(
                    "output '{}' has {size} bytes: more than is taken of one output (32 KiB), or of all (128 KiB)",
                    output.name
                );
                return Err(RunError { reason, retry: Retry::Never });
            }
            Some(Output::Text(text)) if output.error_output && !text.is_empty() => {
                let reason = format!("{what} left an error in output '{}'", output.name);
                return Err(RunError { reason: quoting(reason, text), retry: Retry::Never });
            }
            Some(Output::Text(_)) | None => {}
        }
    }
    let attributes = attributes(deployment, status, ended);
    let size: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > DEPLOYMENT_ATTRIBUTES_MAX {
        let reason =
            format!("its outputs have {size} bytes together: at most {DEPLOYMENT_ATTRIBUTES_MAX} are taken");
        return Err(RunError { reason, retry: Retry::Never });
    }
    Ok(Observed { attributes })
}

fn attributes(deployment: &Deployment, status: i32, mut ended: Ended) -> BTreeMap<String, String> {
    // An output that the run did not write is null for its readers, as in Heat.
    let outputs =
        deployment.outputs.iter().filter_map(|output| match ended.outputs.remove(&output.name)? {
            Output::Text(text) => Some((output.name.clone(), text)),
            Output::TooLarge(_) => None,
        });
    let mut attributes: BTreeMap<String, String> = outputs.collect();
    attributes.insert(DEPLOY_STATUS_CODE.to_owned(), status.to_string());
    attributes.insert(DEPLOY_STDOUT.to_owned(), ended.stdout);
    attributes.insert(DEPLOY_STDERR.to_owned(), ended.stderr);
    attributes
}

/// The end of the command's output, in whole lines if there are any. Output that is too long omits the
/// shell's trace (`set -x`), since the failure may be far before the script's last steps.
fn quoting(reason: String, written: &str) -> String {
    let mut written = Cow::Borrowed(written.trim_end());
    if written.len() > QUOTED_MAX {
        let is_trace = |line: &&str| line.starts_with('+') && line.trim_start_matches('+').starts_with(' ');
        let said: Vec<&str> = written.lines().filter(|line| !is_trace(line)).collect();
        if !said.is_empty() {
            written = Cow::Owned(said.join("\n"));
        }
    }
    if written.is_empty() {
        return reason;
    }
    let from = written.ceil_char_boundary(written.len().saturating_sub(QUOTED_MAX));
    let end = &written[from..];
    let end = if from == 0 { end } else { end.split_once('\n').map_or(end, |(_, lines)| lines) };
    format!("{reason}:\n{end}")
}

fn run_failed(error: RunFailed) -> RunError {
    let advice = match &error {
        RunFailed::Interrupted { .. } => {
            "; whether to run it again is yours to say: update it, or let on_interrupt be rerun"
        }
        _ => "",
    };
    let failed = failed(&error, error.is_permanent());
    RunError { reason: format!("{error}{advice}"), ..failed }
}

fn document_failed(error: DocumentError) -> RunError {
    let permanent = match &error {
        DocumentError::Json(_) | DocumentError::Path(_) | DocumentError::Damaged => true,
        DocumentError::File(error) => error.is_permanent(),
        DocumentError::Disk(_) => false,
    };
    failed(&error, permanent)
}

#[cfg(test)]
mod tests;
