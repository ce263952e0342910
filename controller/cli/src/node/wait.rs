//! `muster node wait`: waits until a number of servers are online.
//!
//! Absent: `--wait` of an operation (`controller/cli/src/wait.rs`), and who is online
//! (`controller/engine/src/view/site.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, escaped};
use crate::failure::Failure;
use crate::output::{Format, count, document, read};
use crate::wait::get_patiently;

/// The pause between two looks: a person hardly notices it, and ten clients cost the controller little.
const PAUSE: Duration = Duration::from_millis(500);

/// Nodes by state.
type Counts = BTreeMap<String, u64>;

/// Waits until `wanted` nodes like this are online.
pub async fn wait(
    selector: &str,
    wanted: u64,
    within: Option<u64>,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    let end = within.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let at = format!("/v1/counts/nodes?selector={}", escaped(selector));
    let mut counts = Counts::new();
    loop {
        let look = get_patiently(client, &at);
        let answer = match end {
            None => look.await?,
            // After a timeout, the last answer is reported.
            Some(end) => match timeout(end.saturating_duration_since(Instant::now()), look).await {
                Ok(answer) => answer?,
                Err(_elapsed) => return Err(too_few(selector, wanted, within, &counts)),
            },
        };
        counts = read(&answer)?;
        let online = number(&counts, "online");
        if online >= wanted {
            return document(format, &answer, |_| format!("{} online\n", count(online, "node")));
        }
        if end.is_some_and(|end| Instant::now() + PAUSE >= end) {
            return Err(too_few(selector, wanted, within, &counts));
        }
        sleep(PAUSE).await;
    }
}

fn number(counts: &Counts, state: &str) -> u64 {
    counts.get(state).copied().unwrap_or(0)
}

fn too_few(selector: &str, wanted: u64, within: Option<u64>, counts: &Counts) -> Failure {
    let like = if selector.is_empty() { String::new() } else { format!(" like '{selector}'") };
    let others: Vec<String> = ["disk_full", "offline", "maintenance", "revoked", "lost"]
        .into_iter()
        .map(|state| (state, number(counts, state)))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!(", {count} {state}"))
        .collect();
    Failure::timed_out(format!(
        "of {}{like} {} online after {} s{}: see 'muster node list'",
        count(wanted, "node"),
        number(counts, "online"),
        within.unwrap_or_default(),
        others.concat()
    ))
}
