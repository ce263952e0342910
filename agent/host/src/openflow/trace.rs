//! Asks a switch what it would do with a packet: Open vSwitch's own `ofproto/trace`, over the control socket of
//! ovs-vswitchd (`<rundir>/ovs-vswitchd.<pid>.ctl`, JSON-RPC 1.0). The packet is not sent, and nothing changes.
//!
//! ```text
//!   TraceQuestion ─▶ question: the flow as a text ─▶ ovs-vswitchd ─▶ text ─▶ answer: TraceSteps
//! ```
//!
//! The text of the question is made of numbers and of an interface's name without any character that the
//! switch reads in another way. So no text of an operator reaches the switch.
//!
//! Absent: where packets go that leave the switch (`controller/intent/src/trace.rs`).

mod action;
mod answer;
mod question;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_shared::model::flow::{Bridge, TraceQuestion, TraceStep};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub use answer::steps as read_trace;

/// The time limit of one trace: a switch needs milliseconds, also with 100,000 rules.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer. The switch gives up after 4,096 lookups; a text of so many is no answer to read.
const ANSWER_MAX: usize = 1024 * 1024;
/// Bytes of ovs-vswitchd's pid file that are read.
const PID_MAX: usize = 32;

/// The reason why the switch was not asked, or gave no answer.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The switch would read the name in another way.
    #[error(
        "a packet that comes in by '{0}' cannot be traced: want letters, digits and '_', '-', '.', ':' in the name"
    )]
    PortName(Box<str>),
    #[error("cannot find ovs-vswitchd by {}: is openvswitch-switch running?", path.display())]
    Pid {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot ask ovs-vswitchd at {}", path.display())]
    Socket {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("ovs-vswitchd did not answer within {} s", ANSWER_WITHIN.as_secs())]
    Late,
    #[error("ovs-vswitchd gave an answer that cannot be understood")]
    Garbled,
    #[error("ovs-vswitchd refuses: {0}")]
    Refused(String),
}

/// Asks the switch.
///
/// # Errors
/// [`TraceError`]
pub async fn trace(
    rundir: &Path,
    bridge: &Bridge,
    question: &TraceQuestion,
) -> Result<Vec<TraceStep>, TraceError> {
    let flow = question::text(question)?;
    let call = json!({"method": "ofproto/trace", "params": [bridge.as_str(), flow, "--names"], "id": 0});
    let path = control_socket(rundir)?;
    let told = timeout(ANSWER_WITHIN, ask(&path, &call.to_string())).await.map_err(|_| TraceError::Late)?;
    let text = match told.map_err(|source| TraceError::Socket { path, source })? {
        Some(Told { error: Some(error), .. }) => {
            return Err(TraceError::Refused(error.lines().next().unwrap_or_default().to_owned()));
        }
        Some(Told { result: Some(text), .. }) => text,
        Some(Told { .. }) | None => return Err(TraceError::Garbled),
    };
    answer::steps(bridge, &question.packet, &question.in_port, &text).ok_or(TraceError::Garbled)
}

/// The answer in JSON-RPC.
#[derive(Deserialize)]
struct Told {
    result: Option<String>,
    error: Option<String>,
}

fn control_socket(rundir: &Path) -> Result<PathBuf, TraceError> {
    let path = rundir.join("ovs-vswitchd.pid");
    let read = std::fs::read_to_string(&path);
    let pid = read.and_then(|text| {
        let pid = text.get(..text.len().min(PID_MAX)).unwrap_or_default().trim();
        pid.parse::<u32>().map_err(|_| io::ErrorKind::InvalidData.into())
    });
    let pid = pid.map_err(|source| TraceError::Pid { path, source })?;
    Ok(rundir.join(format!("ovs-vswitchd.{pid}.ctl")))
}

/// Returns `None` for an answer that is no JSON, or too long.
async fn ask(path: &Path, call: &str) -> io::Result<Option<Told>> {
    let mut stream = UnixStream::connect(path).await?;
    stream.write_all(call.as_bytes()).await?;
    let mut received = Vec::new();
    while received.len() <= ANSWER_MAX {
        if stream.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match serde_json::from_slice(&received) {
            Ok(told) => return Ok(Some(told)),
            Err(error) if error.is_eof() => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
