//! `muster stack create`, `update`, `delete`, `rollback`, `check`, `cancel`: send, then wait where asked to.
//!
//! Absent: when the wait ends (`controller/cli/src/wait.rs`), and whether the controller accepts the operation
//! (`controller/engine/src/operation/acceptance.rs`).

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use muster_api::stack::{self, Begun, CreateStack, Options, StackView, UpdateStack};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Check, Create, Delete, EnvironmentArgs, KeptArgs, OperationArgs, Rollback, Update, Wait, show};
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, document, print, printable, read, word};
use crate::source::{Sent, Source, no_template, parameters};
use crate::wait::{Limit, Operation, is_gone, wait};

pub async fn create(asked: Create, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.how.timeout);
    let Sent { template, environments, files } =
        Source::read(Some(&asked.template), &asked.given.environments)?.sent();
    let body = json!(CreateStack {
        name: asked.name,
        template: template.ok_or_else(no_template)?,
        environments,
        files,
        parameters: parameters(&asked.given.parameters),
        options: options(&asked.how),
    });
    let answer = client.send(Method::POST, &path(["stacks"]), Some(&body)).await?;
    follow(&answer, OperationArgs::wait(&asked.how, since), asked.how.rollback, client, format).await
}

/// The new source of a stack, as an update and its preview send it.
pub(super) fn changed(
    template: Option<&Path>,
    given: &EnvironmentArgs,
    kept: &KeptArgs,
    options: Options,
) -> Result<Value, Failure> {
    let Sent { template, environments, files } = Source::read(template, &given.environments)?.sent();
    let parameters = parameters(&given.parameters);
    Ok(json!(UpdateStack {
        template,
        environments,
        files,
        parameters,
        existing: kept.existing,
        clear_parameters: kept.clear_parameter.iter().cloned().collect(),
        revision: None,
        options,
    }))
}

pub async fn update(asked: Update, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.how.timeout);
    let options = Options { converge: asked.converge, ..options(&asked.how) };
    let body = changed(asked.template.as_deref(), &asked.given, &asked.kept, options)?;
    let answer = client.send(Method::PUT, &path(["stacks", asked.name.as_str()]), Some(&body)).await?;
    follow(&answer, OperationArgs::wait(&asked.how, since), asked.how.rollback, client, format).await
}

pub async fn delete(asked: Delete, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let answer = client.send(Method::DELETE, &path(["stacks", asked.name.as_str()]), None).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn rollback(asked: Rollback, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let body = json!(stack::Rollback { to: asked.to });
    let at = path(["stacks", asked.name.as_str(), "rollback"]);
    let answer = client.send(Method::POST, &at, Some(&body)).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn check(asked: Check, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    client.wait_at_most(asked.wait.timeout);
    let answer = client.send(Method::POST, &path(["stacks", asked.name.as_str(), "check"]), None).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn cancel(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    let answer = client.send(Method::POST, &path(["stacks", name, "cancel"]), None).await?;
    if format == Format::Table {
        let stack: StackView = read(&answer)?;
        let [name, action, status, reason] =
            [&stack.name, &stack.action, &stack.status, &stack.status_reason].map(|text| word(text));
        return print(&format!("{name}: {action} {status}: {reason}\n"));
    }
    show(&answer, format)
}

/// Whether to wait for the end, and for how long.
struct WaitLimit(Option<Option<Limit>>);

impl OperationArgs {
    fn wait(&self, since: Instant) -> WaitLimit {
        let limit = |seconds| Limit { since, time: Duration::from_secs(seconds), of_stack: true };
        WaitLimit(self.wait.then(|| self.timeout.map(limit)))
    }
}

impl Wait {
    fn wait(&self, since: Instant) -> WaitLimit {
        let limit = |seconds| Limit { since, time: Duration::from_secs(seconds), of_stack: false };
        WaitLimit(self.wait.then(|| self.timeout.map(limit)))
    }
}

fn options(how: &OperationArgs) -> Options {
    let &OperationArgs { rollback, delete_first, require_nodes, adopt, max_nodes, timeout, wait: _ } = how;
    Options { rollback, require_nodes, delete_first, converge: false, adopt, timeout, max_nodes }
}

/// Reports the beginning, waits for the end if requested, and reports the end.
async fn follow(
    answer: &Value,
    WaitLimit(patience): WaitLimit,
    rollback: bool,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    let Begun { name, id, action, traversal, revision, warnings } = read(answer)?;
    for warning in warnings {
        let _closed = writeln!(std::io::stderr(), "warning: {}", printable(&warning));
    }
    let Some(limit) = patience else {
        return match format {
            Format::Table => print(&format!("{name}: {action} IN_PROGRESS, revision {revision}\n")),
            // A stack that is being deleted may be gone already.
            Format::Json | Format::Yaml if action == "DELETE" => document(format, answer, |_| String::new()),
            Format::Json | Format::Yaml => show_now(&name, client, format).await,
        };
    };
    let operation = Operation { name, id, action, traversal, rollback, limit };
    let mut last = None;
    let ended = wait(client, &operation, &mut last).await;
    if let Some((answer, stack)) = last {
        match format {
            Format::Json | Format::Yaml if is_gone(&stack) => {
                let StackView { name, action, status, traversal, .. } = stack;
                let known = json!({"name": name, "action": action, "status": status, "traversal": traversal});
                document(format, &known, |_| String::new())?;
            }
            Format::Json | Format::Yaml => show(&answer, format)?,
            Format::Table if ended.is_ok() => {
                print(&format!("{}: {} COMPLETE\n", operation.name, operation.action))?
            }
            Format::Table => {}
        }
    }
    ended
}

/// Shows the stack just after an operation has begun.
async fn show_now(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    show(&client.get(&path(["stacks", name])).await?, format)
}
