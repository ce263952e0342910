//! The parts of a bundle that the controller knows of the site.
//!
//! Absent on purpose: templates, and values of parameters and outputs. Questions that the controller does not answer
//! are left out, with the reason.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use hyper::Method;
use muster_api::node::NodeView;
use muster_api::stack::{EventRow, StackRow, StackView};
use muster_shared::StackName;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::contents::{Contents, Part};
use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::read;
use crate::pages::Pages;

/// For all requests: a site of a million nodes takes most of it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// Stacks whose failures, events and graphs are in the bundle: each costs some requests.
const STACKS_MAX: usize = 20;
/// The most events of each stack, the newest: an operation over 300 servers.
const EVENTS_MAX: usize = 1000;
/// Pages of events that are read for the last ones; ten have all that a controller keeps by default.
const EVENT_PAGES_MAX: usize = 50;
/// Rows of a graph that is asked for: about the size that a file may have.
const GRAPH_MAX: u64 = 10_000;

/// A controller that is asked for a bounded time in all.
struct Source<'c> {
    client: &'c mut Client,
    end: Instant,
}

/// Adds what the controller says.
pub async fn add(contents: &mut Contents, client: &mut Client) {
    let mut source = Source { client, end: Instant::now() + ANSWERS_WITHIN };
    let version = source.get(&path(["version"])).await;
    let (answered, why) = match version {
        Ok(version) => (version, None),
        Err(failure) => (Value::Null, Some(reason(&failure))),
    };
    contents.document("version.json", json!({"muster": env!("CARGO_PKG_VERSION"), "controller": answered}));
    if let Some(why) = why {
        return contents.leave_out("all that the controller knows", &why);
    }
    source.document(contents, "status.json", &path(["status"])).await;
    source.document(contents, "node-counts.json", &path(["counts", "nodes"])).await;
    let stacks = source.stacks(contents).await;
    for stack in &stacks {
        source.stack(contents, stack).await;
    }
    source.list(contents, "drift.json", &path(["drift"])).await;
    source.list(contents, "devices.json", &path(["devices"])).await;
    source.list(contents, "intents.json", &path(["intents"])).await;
    let metrics = timeout_at(source.end, source.client.get_text("/metrics")).await;
    match metrics.unwrap_or_else(|_| Err(late())) {
        Ok(page) => contents.text("metrics.txt", &page, Part::First),
        Err(failure) => contents.leave_out("metrics.txt", &reason(&failure)),
    }
    source.nodes(contents).await;
}

/// The reason why an answer is missing.
fn reason(failure: &Failure) -> String {
    failure.lines.join("; ")
}

fn late() -> Failure {
    Failure::timed_out(format!("the controller took more than {} s in all", ANSWERS_WITHIN.as_secs()))
}

impl Source<'_> {
    async fn get(&mut self, path: &str) -> Result<Value, Failure> {
        let answer = timeout_at(self.end, self.client.send_once(Method::GET, path, None)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn document(&mut self, contents: &mut Contents, name: &str, path: &str) {
        match self.get(path).await {
            Ok(document) => contents.document(name, document),
            Err(failure) => contents.leave_out(name, &reason(&failure)),
        }
    }

    /// A list that comes in one answer.
    async fn list(&mut self, contents: &mut Contents, name: &str, path: &str) {
        match self.get(path).await {
            Ok(answer) => {
                let mut list = contents.list(name);
                let items = answer.as_array().cloned().unwrap_or_default();
                items.into_iter().all(|item| list.push(item));
                list.end(None);
            }
            Err(failure) => contents.leave_out(name, &reason(&failure)),
        }
    }

    async fn nodes(&mut self, contents: &mut Contents) {
        let mut list = contents.list("nodes.json");
        let pages = Pages::of(path(["nodes"]), |node: &NodeView| &node.name);
        let cut = self.each(pages, |node| list.push(node)).await;
        list.end(cut.err().map(|failure| reason(&failure)).as_deref());
    }

    /// Adds all stacks; those to be looked at: failed ones first, then those under way, the newest first.
    async fn stacks(&mut self, contents: &mut Contents) -> Vec<StackRow> {
        let mut chosen: Vec<StackRow> = Vec::new();
        let mut list = contents.list("stacks.json");
        let pages = Pages::of(path(["stacks"]), |stack: &StackRow| &stack.name);
        let cut = self.each(pages, |stack| {
            if let Ok(row) = read::<StackRow>(&stack)
                && row.status != "COMPLETE"
            {
                chosen.push(row);
            }
            // Those to be looked at may come after the last one that has room.
            list.push(stack);
            true
        });
        let cut = cut.await;
        list.end(cut.err().map(|failure| reason(&failure)).as_deref());
        chosen.sort_by_cached_key(|stack| (stack.status != "FAILED", Reverse(stack.updated_at.clone())));
        if let Some(more) = chosen.len().checked_sub(STACKS_MAX).filter(|more| *more > 0) {
            contents.leave_out("stacks/", &format!("{more} more stacks are not COMPLETE"));
            chosen.truncate(STACKS_MAX);
        }
        chosen
    }

    /// Hands over all items, until there is no room.
    async fn each<T: DeserializeOwned>(
        &mut self,
        mut pages: Pages<T>,
        mut take: impl FnMut(Value) -> bool,
    ) -> Result<(), Failure> {
        loop {
            let page = timeout_at(self.end, pages.next(self.client)).await.map_err(|_| late())??;
            let Some(page) = page else { return Ok(()) };
            if !page.into_iter().all(&mut take) {
                return Ok(());
            }
        }
    }

    /// Adds a stack that failed or is under way.
    async fn stack(&mut self, contents: &mut Contents, row: &StackRow) {
        // It becomes a part of a path.
        let Ok(name) = row.name.parse::<StackName>() else { return };
        let (name, folder) = (name.as_str(), format!("stacks/{name}"));
        let file = format!("{folder}/stack.json");
        match self.get(&path(["stacks", name])).await.and_then(|view| read::<StackView>(&view)) {
            Ok(view) => contents.document(&file, json!(without_values(view))),
            Err(failure) => contents.leave_out(&file, &reason(&failure)),
        }
        self.list(contents, &format!("{folder}/failures.json"), &path(["stacks", name, "failures"])).await;
        let file = format!("{folder}/events.json");
        match self.events(name).await {
            Ok((events, more)) => {
                let mut list = contents.list(&file);
                events.into_iter().all(|event| list.push(event));
                list.end(None);
                if more {
                    contents.leave_out(&file, &format!("only the last {EVENTS_MAX} are here"));
                }
            }
            Err(failure) => contents.leave_out(&file, &reason(&failure)),
        }
        let (file, rows) = (format!("{folder}/graph.json"), row.progress.total);
        match rows {
            0..=GRAPH_MAX => self.document(contents, &file, &path(["stacks", name, "graph"])).await,
            _ => contents.leave_out(&file, &format!("{rows} rows are too many")),
        }
    }

    /// The last ones, and whether there are earlier ones.
    async fn events(&mut self, stack: &str) -> Result<(VecDeque<Value>, bool), Failure> {
        let (mut last, mut after, mut more) = (VecDeque::new(), 0, false);
        for _ in 0..EVENT_PAGES_MAX {
            let page = self.get(&format!("{}?after={after}", path(["stacks", stack, "events"]))).await?;
            let page = page.as_array().cloned().unwrap_or_default();
            let Some(newest) = page.last() else { break };
            after = read::<EventRow>(newest)?.number;
            last.extend(page);
            while last.len() > EVENTS_MAX {
                last.pop_front();
                more = true;
            }
        }
        Ok((last, more))
    }
}

/// The view without the values that operators gave, and without those computed from them.
fn without_values(view: StackView) -> StackView {
    StackView { parameters: Default::default(), outputs: Vec::new(), ..view }
}
