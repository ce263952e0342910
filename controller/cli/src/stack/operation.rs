//! create, update, delete, rollback: send, then wait where asked to.

use std::io::Write;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Check, Create, Delete, How, Rollback, Update, Wait, show};
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, cell, document, print, printable};
use crate::source::{Source, parameters};
use crate::wait::{Limit, Operation, is_gone, wait};

pub async fn create(asked: Create, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    let mut body = json!({
        "name": asked.name.as_str(),
        "parameters": parameters(&asked.given.parameters),
        "options": options(&asked.how),
    });
    Source::read(Some(&asked.template), &asked.given.environments)?.into_body(&mut body);
    let answer = client.send(Method::POST, &path(["stacks"]), Some(&body)).await?;
    follow(&answer, How::wait(&asked.how, since), asked.how.rollback, client, format).await
}

pub async fn update(asked: Update, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    let mut body = json!({
        "parameters": parameters(&asked.given.parameters),
        "existing": asked.existing,
        "options": options(&asked.how),
    });
    if asked.converge {
        body["options"]["converge"] = json!(true);
    }
    Source::read(asked.template.as_deref(), &asked.given.environments)?.into_body(&mut body);
    let answer = client.send(Method::PUT, &path(["stacks", asked.name.as_str()]), Some(&body)).await?;
    follow(&answer, How::wait(&asked.how, since), asked.how.rollback, client, format).await
}

pub async fn delete(asked: Delete, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    let answer = client.send(Method::DELETE, &path(["stacks", asked.name.as_str()]), None).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn rollback(asked: Rollback, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    let body = json!({"to": asked.to});
    let at = path(["stacks", asked.name.as_str(), "rollback"]);
    let answer = client.send(Method::POST, &at, Some(&body)).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn check(asked: Check, client: &mut Client, format: Format) -> Result<(), Failure> {
    let since = Instant::now();
    let answer = client.send(Method::POST, &path(["stacks", asked.name.as_str(), "check"]), None).await?;
    follow(&answer, asked.wait.wait(since), false, client, format).await
}

pub async fn cancel(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    let view = client.send(Method::POST, &path(["stacks", name, "cancel"]), None).await?;
    if format == Format::Table {
        let [name, action, status, reason] =
            ["name", "action", "status", "status_reason"].map(|key| cell(&view[key]));
        return print(&format!("{name}: {action} {status}: {reason}\n"));
    }
    show(view, format)
}

/// How long to wait for the end, if at all.
struct Patience(Option<Option<Limit>>);

impl How {
    fn wait(&self, since: Instant) -> Patience {
        let limit = |seconds| Limit { since, time: Duration::from_secs(seconds), of_stack: true };
        Patience(self.wait.then(|| self.timeout.map(limit)))
    }
}

impl Wait {
    fn wait(&self, since: Instant) -> Patience {
        let limit = |seconds| Limit { since, time: Duration::from_secs(seconds), of_stack: false };
        Patience(self.wait.then(|| self.timeout.map(limit)))
    }
}

fn options(how: &How) -> Value {
    json!({"rollback": how.rollback, "require_nodes": how.require_nodes, "delete_first": how.delete_first,
        "timeout": how.timeout, "max_nodes": how.max_nodes})
}

/// Says what has begun, waits for it where asked to, and says how it ended.
async fn follow(
    answer: &Value,
    Patience(patience): Patience,
    rollback: bool,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        let _closed =
            writeln!(std::io::stderr(), "warning: {}", printable(warning.as_str().unwrap_or_default()));
    }
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    let (name, action) = (text("name"), text("action"));
    let Some(limit) = patience else {
        return match format {
            Format::Table => {
                print(&format!("{name}: {action} IN_PROGRESS, revision {}\n", cell(&answer["revision"])))
            }
            // Of what is being deleted there may be nothing to show any more.
            Format::Json | Format::Yaml if action == "DELETE" => document(format, answer, |_| String::new()),
            Format::Json | Format::Yaml => show_now(&name, client, format).await,
        };
    };
    let traversal = answer["traversal"].as_u64().unwrap_or(0);
    let operation = Operation { name, id: text("id"), action, traversal, rollback, limit };
    let mut last = None;
    let ended = wait(client, &operation, &mut last).await;
    if let Some(view) = last {
        match format {
            Format::Json | Format::Yaml if is_gone(&view) => {
                let known = ["name", "action", "status", "traversal"].map(|key| (key, view[key].clone()));
                document(format, &known.into_iter().collect(), |_| String::new())?;
            }
            Format::Json | Format::Yaml => show(view, format)?,
            Format::Table if ended.is_ok() => {
                print(&format!("{}: {} COMPLETE\n", operation.name, operation.action))?
            }
            Format::Table => {}
        }
    }
    ended
}

/// The stack as it is just after an operation has begun.
async fn show_now(name: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    show(client.get(&path(["stacks", name])).await?, format)
}
