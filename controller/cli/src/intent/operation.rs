//! `muster intent submit`, `withdraw`, `purge`: send, then wait where asked to.
//!
//! Absent: what the controller refuses (`controller/engine/src/intent/request.rs`), and when an intent is no longer
//! under way (`controller/intent/src/phase.rs`).

use std::io::Write;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use muster_api::intent::{IntentKeys, IntentsTaken, IntentsWatched, WithdrawIntents};
use muster_api::stack::{ActiveView, ProgressView, StackView};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Submit, Withdraw};
use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::flow::Wait;
use crate::output::{Format, count, document, print, printable, read, word};
use crate::progress::Progress;
use crate::source::named;
use crate::wait::{Away, until};

/// The controller answers at the latest after so many seconds, also where nothing has changed: so often
/// progress is seen.
const WATCH_S: u64 = 5;
/// The most intents that are named if they missed the requested state.
const NAMED: usize = 20;

pub async fn submit(asked: Submit, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let (name, text) = named(&asked.file)?;
    let at = format!("{}?name={}", path(["intents"]), escaped(&name));
    let answer = client.send_text(Method::POST, &at, Bytes::from(text)).await?;
    let work = Work { verb: "submit", goal: "INSTALLED", since, wait: &asked.wait };
    follow(&work, &answer, client, format).await
}

pub async fn withdraw(asked: Withdraw, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let body = json!(WithdrawIntents { withdraw: asked.keys.into_iter().map(Into::into).collect() });
    let answer = client.send(Method::PATCH, &path(["intents"]), Some(&body)).await?;
    let work = Work { verb: "withdraw", goal: "WITHDRAWN", since, wait: &asked.wait };
    follow(&work, &answer, client, format).await
}

pub async fn purge(keys: &[String], client: &mut Client, format: Format) -> Result<(), Failure> {
    let body = json!(IntentKeys { keys: keys.iter().map(|key| (&**key).into()).collect() });
    let answer = client.send(Method::DELETE, &path(["intents"]), Some(&body)).await?;
    let taken: IntentsTaken = read(&answer)?;
    warn(&taken);
    document(format, &answer, |_| format!("intent purge COMPLETE{}\n", what(&taken)))
}

/// The request, and how to wait for it.
struct Work<'a> {
    verb: &'static str,
    /// The state that all intents must reach.
    goal: &'static str,
    since: Instant,
    wait: &'a Wait,
}

fn warn(taken: &IntentsTaken) {
    for warning in &taken.warnings {
        let _closed = writeln!(std::io::stderr(), "warning: {}", printable(warning));
    }
}

/// `: 2 intents`
fn what(taken: &IntentsTaken) -> String {
    format!(": {}", count(taken.keys.len() as u64, "intent"))
}

/// Reports the beginning, waits for the end if requested, and reports the end.
async fn follow(work: &Work<'_>, answer: &Value, client: &mut Client, format: Format) -> Result<(), Failure> {
    let taken: IntentsTaken = read(answer)?;
    warn(&taken);
    let none = taken.keys.is_empty();
    if !work.wait.wait || none {
        let state = if none { "COMPLETE" } else { "IN_PROGRESS" };
        return document(format, answer, |_| format!("intent {} {state}{}\n", work.verb, what(&taken)));
    }
    let mut progress = Progress::new();
    let body = json!(IntentKeys { keys: taken.keys.clone() });
    let ended = watch(work, &body, client, &mut progress).await;
    progress.clear();
    let last = ended?.ok_or_else(|| timed_out(work))?;
    if format != Format::Table {
        document(format, &last, |_| String::new())?;
    }
    let last: IntentsWatched = read(&last)?;
    match last.failed {
        0 if format == Format::Table => print(&format!("intent {} COMPLETE{}\n", work.verb, what(&taken))),
        0 => Ok(()),
        _ => Err(failed(work.verb, &last)),
    }
}

fn timed_out(work: &Work<'_>) -> Failure {
    let seconds = work.wait.timeout.unwrap_or_default();
    Failure::timed_out(format!(
        "intent {} has not ended within {seconds} s; it goes on; what it waits for: 'muster intent show KEY'",
        work.verb
    ))
}

/// Waits until none of the intents is under way, across a restart of the controller; `None` if that takes
/// too long.
async fn watch(
    work: &Work<'_>,
    body: &Value,
    client: &mut Client,
    progress: &mut Progress,
) -> Result<Option<Value>, Failure> {
    let end = work.wait.timeout.map(|seconds| work.since + Duration::from_secs(seconds));
    let mut away = Away::default();
    loop {
        let left =
            end.map_or(WATCH_S, |end| end.saturating_duration_since(Instant::now()).as_secs().min(WATCH_S));
        let asked = format!("{}?wait={}&state={}", path(["watch", "intents"]), left.max(1), work.goal);
        match until(end, client.send_once(Method::POST, &asked, Some(body)), progress).await {
            None => return Ok(None),
            Some(Ok(answer)) => {
                let view: IntentsWatched = read(&answer)?;
                if view.ended {
                    return Ok(Some(answer));
                }
                away = Away::default();
                progress.show(&pictured(work.verb, view));
            }
            Some(Err(failure)) => {
                let pause = away.pause(failure, |line| progress.note(line))?;
                if until(end, sleep(pause), progress).await.is_none() {
                    return Ok(None);
                }
            }
        }
    }
}

/// The intents in the form that progress draws.
fn pictured(verb: &str, view: IntentsWatched) -> StackView {
    let [done, total, failed] = [view.done, view.total, view.failed].map(|number| number as u64);
    let active = view.intents.into_iter().map(|intent| ActiveView {
        name: intent.key,
        phase: intent.state,
        ..ActiveView::default()
    });
    StackView {
        name: "intent".to_owned(),
        action: verb.to_owned(),
        progress: ProgressView { done, total, failed, in_flight: 0 },
        active: active.collect(),
        ..StackView::default()
    }
}

/// Each intent that missed the requested state, with the reason.
pub(super) fn failed(verb: &str, view: &IntentsWatched) -> Failure {
    let IntentsWatched { failed, total, intents, .. } = view;
    let mut failure = Failure::failed(format!("intent {verb} FAILED: {failed} of {total}"));
    failure.lines.extend(intents.iter().take(NAMED).map(|intent| {
        let reason = match &*intent.reason {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        format!("intent '{}' {}{reason}", word(&intent.key), word(&intent.state))
    }));
    let named = intents.len().min(NAMED);
    if *failed > named {
        failure.lines.push(format!("and {} more: 'muster intent list'", failed - named));
    }
    failure
}
