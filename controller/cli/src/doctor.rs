//! `muster doctor`: what is wrong with a site, as its controller knows it, and with the controller's machine.
//!
//! Each file of `doctor/` turns what was seen into findings, in pure functions; `site.rs`, `nodes.rs`, `stacks.rs`,
//! `devices.rs` and `intents.rs` are about answers of the API, `machine.rs` and what is below it about this machine.
//!
//! Absent: how findings are shown (`shared/src/finding.rs`), and checks on a server (`agent/src/doctor.rs`).

mod devices;
mod intents;
pub mod machine;
mod nodes;
mod sample;
mod site;
mod stacks;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use muster_api::flow::DeviceView;
use muster_api::intent::IntentRow;
use muster_api::node::NodeView;
use muster_api::site::{Role, StatusView, Version};
use muster_api::stack::{StackRow, StackView};
use muster_shared::finding::{self, Finding};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::{Client, path};
use crate::failure::{Exit, Failure};
use crate::output::{Format, document, read};
use crate::pages::Pages;
use devices::Switches;
use intents::Paths;
use machine::Seen;
use nodes::Fleet;
use stacks::Operations;

/// For one answer. A controller that is well needs milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// For all pages of nodes, of stacks, of devices or of intents: a million rows take some ten seconds.
const LIST_WITHIN: Duration = Duration::from_secs(60);
/// Stacks whose rollouts are looked at: each costs a request.
const STACKS_MAX: usize = 100;

/// `muster doctor`
#[derive(Args)]
pub struct Doctor {
    /// Settings of the controller on this machine, for checks of its directory, port and clock
    /// [default: /etc/muster/controller.toml, unless --url names another socket]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Does it. Errors among the findings make the command fail.
pub async fn run(doctor: Doctor, url: &str, client: &mut Client, format: Format) -> Result<(), Failure> {
    let findings = findings(doctor.config, url, client).await;
    let failed = finding::has_error(&findings);
    document(format, &json!(findings), |_| finding::table(&findings))?;
    // The findings say it all.
    if failed { Err(Failure { lines: Vec::new(), ..Failure::failed("") }) } else { Ok(()) }
}

/// The findings about the site and, with these settings, about this machine.
pub async fn findings(config: Option<PathBuf>, url: &str, client: &mut Client) -> Vec<Finding> {
    let Examined { mut findings, seen } = examine(client).await;
    findings.extend(machine::check(config, url, seen).await);
    findings
}

/// The answers of the API.
struct Examined {
    findings: Vec<Finding>,
    /// The facts that checks of the machine need; none if the controller did not answer.
    seen: Option<Seen>,
}

async fn examine(client: &mut Client) -> Examined {
    let version = ask::<Version>(client, &path(["version"])).await;
    let mut findings = vec![site::controller(&version, env!("CARGO_PKG_VERSION"))];
    let Ok(version) = version else { return Examined { findings, seen: None } };
    let status = match ask::<StatusView>(client, &path(["status"])).await {
        Ok(status) => status,
        Err(failure) => {
            findings.push(site::no_status(&failure));
            return Examined { findings, seen: None };
        }
    };
    findings.extend(site::findings(&status));
    let seen = Some(Seen::of(&status));
    // Nodes and stacks are the active one's.
    if status.role == Role::Active {
        findings.extend(nodes(client, &version.version).await);
        findings.extend(stacks(client).await);
        findings.extend(devices(client).await);
        findings.extend(intents(client).await);
    }
    Examined { findings, seen }
}

/// Asks once: a busy controller is a finding.
async fn ask<T: DeserializeOwned>(client: &mut Client, path: &str) -> Result<T, Failure> {
    match timeout(ANSWER_WITHIN, client.send_once(Method::GET, path, None)).await {
        Ok(answer) => answer.and_then(|answer| read(&answer)),
        Err(_) => Err(Failure::unreachable(format!(
            "the controller has not answered for {} s",
            ANSWER_WITHIN.as_secs()
        ))),
    }
}

async fn nodes(client: &mut Client, version: &str) -> Vec<Finding> {
    let mut fleet = Fleet::of_controller(version);
    let pages = Pages::of(path(["nodes"]), |node: &NodeView| &node.name);
    let whole = each(client, pages, |node| fleet.add(&node)).await;
    fleet.findings(whole.err().as_ref())
}

async fn stacks(client: &mut Client) -> Vec<Finding> {
    let mut operations = Operations::default();
    let mut going = Vec::new();
    let pages = Pages::of(path(["stacks"]), |stack: &StackRow| &stack.name);
    let whole = each(client, pages, |stack: StackRow| {
        operations.add(&stack);
        if stack.status != "COMPLETE" && going.len() < STACKS_MAX {
            going.push(stack.name);
        }
    });
    let whole = whole.await;
    for name in going {
        match ask::<StackView>(client, &path(["stacks", &name])).await {
            Ok(view) => operations.add_rollouts(&view),
            // It has just gone.
            Err(failure) if failure.missing => {}
            Err(_) => break,
        }
    }
    operations.findings(whole.err().as_ref())
}

async fn devices(client: &mut Client) -> Vec<Finding> {
    let mut switches = Switches::default();
    let pages = Pages::of(path(["devices"]), |device: &DeviceView| &device.device);
    let whole = each(client, pages, |device| switches.add(&device)).await;
    switches.findings(whole.err().as_ref())
}

async fn intents(client: &mut Client) -> Vec<Finding> {
    let mut paths = Paths::default();
    let pages = Pages::of(path(["intents"]), |intent: &IntentRow| &intent.key);
    let whole = each(client, pages, |intent| paths.add(&intent)).await;
    paths.findings(whole.err().as_ref())
}

/// The items of a list, as far as they come within [`LIST_WITHIN`].
async fn each<T: DeserializeOwned>(
    client: &mut Client,
    mut pages: Pages<T>,
    mut take: impl FnMut(T),
) -> Result<(), Failure> {
    let end = Instant::now() + LIST_WITHIN;
    loop {
        let page = timeout_at(end, pages.next(client)).await.map_err(|_| Failure {
            exit: Exit::TimedOut,
            ..Failure::failed(format!(
                "the controller took more than {} s to list them",
                LIST_WITHIN.as_secs()
            ))
        })?;
        let Some(page) = page? else { return Ok(()) };
        page.iter().map(read).try_for_each(|item| item.map(&mut take))?;
    }
}
