//! `--wait`: watches a stack until an operation has ended or `--timeout` is over, across restarts of the controller.
//! `progress.rs` draws what is shown meanwhile.
//!
//! Absent: when an operation ends (`controller/engine/src/traversal/stage_end.rs`) or times out (`timeout.rs` beside
//! it), and waits for flow tables and intents (`flow/operation.rs`, `intent/operation.rs`).

use std::future::pending;
use std::time::Duration;

use hyper::Method;
use muster_api::stack::{FailureView, StackView};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{Client, path};
use crate::failure::{Exit, Failure};
use crate::output::{read, word};
use crate::progress::{Progress, note};

/// The time that a controller may be unreachable: a restart with a million resources takes a few seconds.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// The pause between two attempts to reach it again.
const AWAY_PAUSE: Duration = Duration::from_millis(250);
/// The stack's own timeout was sent too; its reason, which names the missing resources, comes at most this
/// much later.
const REASON_TIME: Duration = Duration::from_secs(3);
/// A requested rollback begins at most this long after the failure: its revision is loaded first.
const ROLLBACK_TIME: Duration = Duration::from_secs(10);
/// Failed resources that are named.
const NAMED: usize = 20;

/// The operation to wait for, from the controller's answer.
pub struct Operation {
    /// The stack.
    pub name: String,
    /// The stack's id: another stack may get the name.
    pub id: String,
    /// CREATE, UPDATE, DELETE, ROLLBACK or CHECK.
    pub action: String,
    /// The traversal that carries it out.
    pub traversal: u64,
    /// A rollback follows a failure, and is also waited for.
    pub rollback: bool,
    /// `--timeout`: its beginning, its length, and whether the stack has the same one.
    pub limit: Option<Limit>,
}

/// A limit of the wait.
#[derive(Clone, Copy)]
pub struct Limit {
    /// When the command began.
    pub since: Instant,
    /// `--timeout`.
    pub time: Duration,
    /// The stack FAILS by the same time.
    pub of_stack: bool,
}

/// The meaning of a stack's state for an operation.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Going,
    Complete,
    Failed(String),
    /// Failed; the rollback that was asked for is about to begin.
    Failing(String),
}

/// Waits. The stack's last state goes to `last`, also where the operation failed.
pub async fn wait(
    client: &mut Client,
    operation: &Operation,
    last: &mut Option<(Value, StackView)>,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let ended = watch(client, operation, &mut progress, last).await;
    progress.clear();
    let (Verdict::Failed(reason) | Verdict::Failing(reason)) = ended? else { return Ok(()) };
    let mut failure = Failure::failed(reason);
    if operation.limit.is_some_and(|limit| limit.since.elapsed() >= limit.time) {
        failure.exit = Exit::TimedOut;
    }
    let failures = failures(client, &operation.name).await;
    // The resource's line already has the whole reason.
    if !failures.is_empty()
        && let Some(first) = failure.lines.first_mut()
        && let Some((head, _)) = first.split_once('\n')
    {
        *first = head.trim_end_matches(':').to_owned();
    }
    failure.lines.extend(failures);
    Err(failure)
}

async fn watch(
    client: &mut Client,
    operation: &Operation,
    progress: &mut Progress,
    last: &mut Option<(Value, StackView)>,
) -> Result<Verdict, Failure> {
    let end = operation
        .limit
        .map(|limit| limit.since + limit.time + if limit.of_stack { REASON_TIME } else { Duration::ZERO });
    let mut seq = 0;
    let mut away = Away::default();
    let mut failing: Option<(Instant, String)> = None;
    loop {
        let at = format!(
            "{}?seq={seq}&traversal={}",
            path(["stacks", &operation.name, "watch"]),
            operation.traversal
        );
        let patience = failing.as_ref().map(|(until, _)| *until).into_iter().chain(end).min();
        match until(patience, client.send_once(Method::GET, &at, None), progress).await {
            None => {
                return failing
                    .map_or_else(|| Err(timed_out(operation)), |(_, reason)| Ok(Verdict::Failed(reason)));
            }
            Some(Ok(answer)) => {
                let view: StackView = read(&answer)?;
                away = Away::default();
                seq = view.seq;
                let verdict = operation.judge(&view);
                failing = match &verdict {
                    Verdict::Failing(reason) => Some(
                        failing.map_or((Instant::now() + ROLLBACK_TIME, reason.clone()), |(until, _)| {
                            (until, reason.clone())
                        }),
                    ),
                    Verdict::Going | Verdict::Complete | Verdict::Failed(_) => None,
                };
                let ended = matches!(verdict, Verdict::Complete | Verdict::Failed(_));
                if !ended {
                    progress.show(&view);
                }
                *last = Some((answer, view));
                if ended {
                    return Ok(verdict);
                }
            }
            Some(Err(failure)) => {
                let pause = away.pause(failure, |line| progress.note(line))?;
                if until(end, sleep(pause), progress).await.is_none() {
                    return Err(timed_out(operation));
                }
            }
        }
    }
}

/// GET, across a restart of the controller.
pub async fn get_patiently(client: &mut Client, at: &str) -> Result<Value, Failure> {
    let mut away = Away::default();
    loop {
        match client.send_once(Method::GET, at, None).await {
            Err(failure) => sleep(away.pause(failure, note)?).await,
            answer => return answer,
        }
    }
}

/// For a command that waits: the controller is away, or does not answer at present.
#[derive(Default)]
pub struct Away {
    since: Option<Instant>,
    /// Whether the controller said to ask again: it is there, and the command waits for it as long as it may.
    is_busy: bool,
}

impl Away {
    /// The pause before the next try; a line is printed once. An error: it is no use to wait, or too long already.
    pub fn pause(&mut self, failure: Failure, mut line: impl FnMut(&str)) -> Result<Duration, Failure> {
        if let Some(after) = failure.retry_after {
            if !std::mem::replace(&mut self.is_busy, true) {
                line(&format!("{}; waiting for it", failure.lines.join("; ")));
            }
            self.since = None;
            return Ok(after.max(AWAY_PAUSE));
        }
        if !failure.passing {
            return Err(failure);
        }
        let since = *self.since.get_or_insert_with(|| {
            line("the controller is away; waiting for it");
            Instant::now()
        });
        if since.elapsed() <= AWAY_MAX { Ok(AWAY_PAUSE) } else { Err(failure) }
    }
}

/// Runs to the end, with progress drawn meanwhile; `None` if the time is up before.
pub async fn until<T>(
    end: Option<Instant>,
    work: impl Future<Output = T>,
    progress: &mut Progress,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = at(end) => return None,
            () = at(progress.due()) => progress.flush(),
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

fn timed_out(operation: &Operation) -> Failure {
    let Operation { name, action, .. } = operation;
    let seconds = operation.limit.map_or(0, |limit| limit.time.as_secs());
    Failure::timed_out(format!(
        "{action} of stack '{name}' has not ended within {seconds} s; it goes on; what it waits for: muster stack graph {name}"
    ))
}

/// A line for each failure; a failed query is no error, since these are details.
async fn failures(client: &mut Client, stack: &str) -> Vec<String> {
    let Ok(list) = client.get(&path(["stacks", stack, "failures"])).await else { return Vec::new() };
    let Ok(list) = read::<Vec<FailureView>>(&list) else { return Vec::new() };
    let mut lines: Vec<String> = list
        .iter()
        .take(NAMED)
        .map(|failure| {
            let [name, node, action] =
                [&failure.resource, &failure.node, &failure.action].map(|text| word(text));
            let reason = &failure.reason;
            let on = if node == "-" { String::new() } else { format!(" on {node}") };
            format!("resource '{name}'{on}: {action} FAILED: {reason}")
        })
        .collect();
    if list.len() > NAMED {
        lines.push(format!("and {} more: muster stack failures {stack}", list.len() - NAMED));
    }
    lines
}

/// The stack's delete has ended: the view has its name, action, status and traversal, and nothing else.
pub fn is_gone(view: &StackView) -> bool {
    view.action == "DELETE" && view.status == "COMPLETE"
}

impl Operation {
    fn judge(&self, view: &StackView) -> Verdict {
        let StackView { action, status, status_reason: reason, traversal, .. } = view;
        let traversal = *traversal;
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let name = &self.name;
        if is_gone(view) || view.id != self.id {
            return if self.action == "DELETE" {
                Verdict::Complete
            } else {
                Verdict::Failed(format!("stack '{name}' was deleted meanwhile"))
            };
        }
        let own = traversal == self.traversal && *action == self.action;
        let undo = self.rollback && action == "ROLLBACK" && traversal >= self.traversal;
        match status.as_str() {
            _ if traversal < self.traversal => Verdict::Going,
            "IN_PROGRESS" if own || undo => Verdict::Going,
            "COMPLETE" if own => Verdict::Complete,
            "FAILED" if own && self.rollback => {
                Verdict::Failing(format!("stack '{name}': {action} FAILED{because}"))
            }
            "FAILED" if own => Verdict::Failed(format!("stack '{name}': {action} FAILED{because}")),
            _ if undo => {
                Verdict::Failed(format!("stack '{name}': {} failed; ROLLBACK {status}{because}", self.action))
            }
            _ => Verdict::Failed(format!("{} of stack '{name}' was pre-empted by {action}", self.action)),
        }
    }
}

#[cfg(test)]
mod tests;
