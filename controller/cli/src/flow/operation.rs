//! `muster flow apply`, `delete`, `purge`: send, then wait where asked to, and say which lines of the file failed.
//!
//! Absent: how the controller carries the operation out (`controller/flow/src/operation.rs`).

use std::io::Write;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use muster_api::flow::{DeleteFlows, FlowError, FlowOperationView, FlowsBegun};
use muster_api::stack::{ProgressView, StackView};
use muster_shared::model::flow::{DeviceName, FlowId};
use muster_template::FlowFile;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Apply, Delete, Guard, Purge, Wait, of_device};
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, count, document, print, printable, read, word};
use crate::progress::Progress;
use crate::source::named;
use crate::wait::{Away, until};

/// The controller answers at the latest after so many seconds, also where nothing has changed.
const WATCH_S: u64 = 20;
/// Errors that are named.
const NAMED: usize = 20;

/// The request of an operation.
#[derive(Clone, Copy)]
enum FlowRequest<'a> {
    /// A flow file of this name.
    File(&'a str, &'a [u8]),
    Device(&'a DeviceName),
}

pub async fn apply(asked: Apply, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let (name, text) = named(&asked.file)?;
    let at = with_query(path(["flows"]), &asked.guard, &[("name", &name)]);
    let text = Bytes::from(text);
    let answer = client.send_text(Method::POST, &at, text.clone()).await?;
    follow("apply", FlowRequest::File(&name, &text), &answer, &asked.wait, since, client, format).await
}

pub async fn delete(asked: Delete, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let ids: Vec<String> = asked.ids.iter().map(ToString::to_string).collect();
    let at = with_query(of_device(&asked.device, &["flows"]), &asked.guard, &[]);
    let answer = client.send(Method::DELETE, &at, Some(&json!(DeleteFlows { ids }))).await?;
    follow("delete", FlowRequest::Device(&asked.device), &answer, &asked.wait, since, client, format).await
}

pub async fn purge(asked: Purge, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let forget = if asked.forget { "true" } else { "false" };
    let at = with_query(of_device(&asked.device, &["purge"]), &asked.guard, &[("forget", forget)]);
    let answer = client.send(Method::POST, &at, None).await?;
    follow("purge", FlowRequest::Device(&asked.device), &answer, &asked.wait, since, client, format).await
}

fn with_query(path: String, guard: &Guard, more: &[(&str, &str)]) -> String {
    let mut query: Vec<(&str, String)> =
        more.iter().map(|(key, value)| (*key, crate::client::escaped(value))).collect();
    if guard.no_guard {
        query.push(("guard", "false".to_owned()));
    }
    if let Some(seconds) = guard.confirm_timeout {
        query.push(("confirm_timeout", seconds.to_string()));
    }
    let query: Vec<String> = query.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// Reports the beginning, waits for the end if requested, and reports the end.
async fn follow(
    verb: &str,
    from: FlowRequest<'_>,
    answer: &Value,
    wait: &Wait,
    since: Instant,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    let FlowsBegun { operation, rules, devices, warnings } = read(answer)?;
    for warning in warnings {
        let _closed = writeln!(std::io::stderr(), "warning: {}", printable(&warning));
    }
    let what = format!("{} on {}", count(rules, "rule"), count(devices, "device"));
    if !wait.wait {
        return document(format, answer, |_| format!("flow {verb} IN_PROGRESS: {what}\n"));
    }
    let at = path(["flows", "operations", &operation.to_string()]);
    let mut progress = Progress::new();
    let ended = watch(verb, &at, since, wait.timeout, client, &mut progress).await;
    progress.clear();
    let (answer, last) = ended?.ok_or_else(|| timed_out(verb, from, wait.timeout.unwrap_or_default()))?;
    if format != Format::Table {
        document(format, &answer, |_| String::new())?;
    }
    match &*last.state {
        "COMPLETE" if format == Format::Table => print(&format!("flow {verb} COMPLETE: {what}\n")),
        "COMPLETE" => Ok(()),
        _ => Err(failed(verb, from, &last)),
    }
}

/// The failure when the operation takes longer than the wait.
fn timed_out(verb: &str, from: FlowRequest<'_>, seconds: u64) -> Failure {
    let mut text = format!(
        "flow {verb} has not ended within {seconds} s; it goes on; what it waits for: 'muster flow devices'"
    );
    if let FlowRequest::Device(device) = from {
        text += &format!("; if its node never comes back: 'muster flow purge --forget {device}'");
    }
    Failure::timed_out(text)
}

/// Waits until the operation has ended, across a restart of the controller; `None` if that takes too long.
async fn watch(
    verb: &str,
    at: &str,
    since: Instant,
    timeout: Option<u64>,
    client: &mut Client,
    progress: &mut Progress,
) -> Result<Option<(Value, FlowOperationView)>, Failure> {
    let end = timeout.map(|seconds| since + Duration::from_secs(seconds));
    let mut away = Away::default();
    loop {
        let left =
            end.map_or(WATCH_S, |end| end.saturating_duration_since(Instant::now()).as_secs().min(WATCH_S));
        let asked = format!("{at}?wait={}", left.max(1));
        match until(end, client.send_once(Method::GET, &asked, None), progress).await {
            None => return Ok(None),
            Some(Ok(answer)) => {
                let view: FlowOperationView = read(&answer)?;
                if view.state != "IN_PROGRESS" {
                    return Ok(Some((answer, view)));
                }
                away = Away::default();
                progress.show(&pictured(verb, &view));
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

/// The operation in the form that progress draws.
fn pictured(verb: &str, view: &FlowOperationView) -> StackView {
    let &FlowOperationView { stage, stages, done, total, .. } = view;
    let action = if stages > 1 { format!("{verb}, stage {stage}/{stages}") } else { verb.to_owned() };
    let progress = ProgressView { done, total, ..ProgressView::default() };
    StackView { name: "flow".to_owned(), action, progress, ..StackView::default() }
}

/// `FILE:LINE: ` of the rules in these errors, if they come from a file.
fn places(from: FlowRequest<'_>, errors: &[FlowError]) -> Vec<String> {
    let nowhere = vec![String::new(); errors.len()];
    let FlowRequest::File(name, text) = from else { return nowhere };
    let id = |error: &FlowError| error.id.as_deref().and_then(FlowId::parse);
    let ids: Vec<Option<FlowId>> = errors.iter().map(id).collect();
    let known: Vec<FlowId> = ids.iter().copied().flatten().collect();
    let Some(text) = std::str::from_utf8(text).ok().filter(|_| !known.is_empty()) else { return nowhere };
    let mut lines = FlowFile::lines_of(text, &known).into_iter();
    let line = |id: Option<FlowId>| id.and_then(|_| lines.next().flatten());
    ids.into_iter()
        .map(line)
        .map(|line| line.map_or_else(String::new, |line| format!("{name}:{line}: ")))
        .collect()
}

fn failed(verb: &str, from: FlowRequest<'_>, view: &FlowOperationView) -> Failure {
    let FlowOperationView { state, stage, stages, errors, .. } = view;
    let stage = if *stages > 1 { format!(" in stage {stage} of {stages}") } else { String::new() };
    let mut failure = Failure::failed(format!("flow {verb} {}{stage}", word(state)));
    let named = &errors[..errors.len().min(NAMED)];
    failure.lines.extend(named.iter().zip(places(from, named)).map(|(error, place)| {
        let rule = error.id.as_ref().map(|id| format!(" rule {}:", word(id))).unwrap_or_default();
        format!("{place}{}:{rule} {}", word(&error.device), word(&error.error))
    }));
    if errors.len() > NAMED {
        failure.lines.push(format!("and {} more", errors.len() - NAMED));
    }
    failure
}

#[cfg(test)]
mod tests {
    use muster_template::FlowLimits;

    use super::*;

    #[test]
    fn a_failure_names_the_rule_and_the_stage() {
        let text = "rules:\n- {device: web-1/br0, priority: 1}\n- {device: web-1/br0, priority: 2}\n";
        let file = FlowFile::parse("f.yaml", text, FlowLimits::default()).unwrap();
        let id = file.stages[0][0].entries[1].0.to_string();
        let view = json!({"state": "FAILED", "stage": 2, "stages": 3, "errors": [
            {"id": id, "device": "web-1/br0", "error": "no port 'eth9'"},
            {"id": "4d55000000000001", "device": "web-1/br0", "error": "of another file"},
            {"id": null, "device": "web-2/br0", "error": "the node is away"}]});
        assert_eq!(
            failed("apply", FlowRequest::File("f.yaml", text.as_bytes()), &read(&view).unwrap()).lines,
            [
                "flow apply FAILED in stage 2 of 3",
                &format!("f.yaml:3: web-1/br0: rule {id}: no port 'eth9'"),
                "web-1/br0: rule 4d55000000000001: of another file",
                "web-2/br0: the node is away"
            ]
        );
    }

    #[test]
    fn who_waits_too_long_is_told_how_to_end_it() {
        let device = "web-1/br0".parse().unwrap();
        let failure = timed_out("purge", FlowRequest::Device(&device), 5);
        assert!(failure.lines[0].contains("'muster flow purge --forget web-1/br0'"), "{failure:?}");
        assert!(!timed_out("apply", FlowRequest::File("f", b""), 5).lines[0].contains("forget"));
    }

    #[test]
    fn queries_are_escaped() {
        let guard = Guard { no_guard: false, confirm_timeout: Some(5) };
        assert_eq!(
            with_query("/v1/flows".into(), &guard, &[("name", "a b&c.yaml")]),
            "/v1/flows?name=a%20b%26c.yaml&confirm_timeout=5"
        );
        let guard = Guard { no_guard: true, confirm_timeout: None };
        assert_eq!(with_query("/x".into(), &guard, &[]), "/x?guard=false");
    }
}
