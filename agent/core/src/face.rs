//! The machine's inputs and effects: all that the driver tells it, and all that it asks of the driver.
//!
//! Absent: those of flow tables (`flow/face.rs`), and how the driver executes an effect
//! (`agent/src/driver.rs`).

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::join::JoinToken;
use muster_shared::model::flow::Bridge;
use muster_shared::model::topology::DevicePorts;
use muster_shared::model::{
    Claim, ContentDigest, Down, Facts, Job, NetworkConfig, Observed, Outcome, ReportKey, Spec, Survey, Up,
};
use muster_shared::{EpochId, Generation, ResourceId};

use crate::flow::{FlowEffect, FlowInput};
use crate::ledger::{Before, Entry};

/// The machine's configuration, given once at the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Differs from node to node, so that a fleet does not reconnect in step.
    pub seed: u64,
    /// Identifies this boot of the server.
    pub boot_id: u128,
    /// Random: distinguishes this run of the agent from a run on a copy of the server's disk.
    pub instance: u128,
    /// The version that `Hello` reports.
    pub agent_version: String,
}

/// Names one [`Effect::Write`] or [`Effect::WriteEpoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Starts the machine; the first input, given once.
    Start,
    /// The connection asked for by [`Effect::Connect`] is established.
    Connected,
    /// The connection failed or ended. Exactly one such input follows each [`Effect::Connect`].
    Disconnected {
        reason: String,
    },
    /// A message from the controller.
    Received(Down),
    /// The write is on disk and survives a power cut.
    Written(WriteId),
    WriteFailed {
        write: WriteId,
        reason: String,
    },
    /// The answer to [`Effect::Capture`].
    Captured {
        key: ReportKey,
        before: Result<Before, RunError>,
    },
    /// The answer to [`Effect::Guard`].
    Guarded {
        key: ReportKey,
        /// The present state of all that the change may touch.
        undo: Result<Before, RunError>,
        /// Random, [`CHALLENGE_BYTES`](muster_shared::model::CHALLENGE_BYTES) of it.
        challenge: Vec<u8>,
    },
    /// The answer to [`Effect::Run`].
    Ran {
        key: ReportKey,
        /// Applied and read back as desired, or why not.
        outcome: Result<Observed, RunError>,
        /// The record of the time before Muster from now on, where that changed.
        before: Option<Before>,
        /// The host changed something, or may have.
        touched: bool,
    },
    /// The answer to [`Effect::Restore`] and [`Effect::Fallback`].
    Restored {
        key: ReportKey,
        /// Success, or the reason of the failure.
        result: Result<(), String>,
    },
    /// The answer to [`Effect::Check`].
    Checked {
        key: ReportKey,
        /// The comparison of the host's state with the desired state, or the reason why it failed.
        found: Result<Found, RunError>,
    },
    /// The answer to every [`Effect::Content`] but [`ContentStep::Drop`].
    Content {
        digest: ContentDigest,
        /// The content's state now, or why the step failed.
        state: Result<ContentState, RunError>,
    },
    /// The agent must end soon: it begins no new work, and undoes unconfirmed changes. The driver waits until
    /// [`is_guarding`](crate::Agent::is_guarding) is false.
    Stop,
    /// The network may have changed. Many hints at once have the effect of one.
    Hint(Hint),
    /// These resources may have changed, as [`Effect::Watch`] observed. Many at once have the effect of one.
    Changed(BTreeSet<ResourceId>),
    /// The answer to [`Effect::Look`].
    Looked {
        number: u64,
        /// The result for each resource.
        looked: Vec<Looked>,
    },
    /// The answer to [`Effect::Gather`].
    Gathered(Result<Box<Facts>, String>),
    /// Whether there is room for the agent's records: the answer to [`Effect::FindRoom`]. The driver also
    /// gives the error of a refused write this way, ahead of that write's answer.
    Room(Result<(), String>),
    /// An input of a flow table; see [`FlowInput`].
    Flow {
        device: Bridge,
        input: FlowInput,
    },
    /// Devices whose ports changed, in order of their names. Each entry holds all of the device's
    /// present ports.
    Ports(Vec<DevicePorts>),
    /// A network document given on this server itself; answered by [`Effect::LocalEnded`].
    Local {
        config: NetworkConfig,
        /// Limits the whole change.
        timeout: Duration,
        /// Document numbers up to this one are used, even if the ledger knows none of them.
        after: u64,
    },
    /// The answer to [`Effect::Join`]: the driver holds the identity at the other site, or says why not.
    Joined {
        number: u64,
        joined: Result<(), String>,
    },
    /// The answer to [`Effect::ChangeSite`].
    SiteChanged(Result<(), String>),
    /// The answer to [`Effect::Survey`].
    Surveyed(Survey),
    /// The agent has handled all messages that had arrived from the controller. Jobs begin only on this
    /// input, so a job whose withdrawal has also arrived never begins.
    CaughtUp,
    /// The time of [`poll_timeout`](crate::Agent::poll_timeout) has come; an early timeout does no harm.
    Timeout,
}

/// The part of the network that may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Routes, rules, bridges of Open vSwitch.
    Other,
    /// Routes, rules or bridges, and also links or their addresses: the server's facts may have changed too.
    Links,
    /// The neighbour at the other end of a cable changed: this affects only the facts.
    Neighbours,
}

/// A resource to look at; the fields are those of [`Effect::Check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub resource: ResourceId,
    /// The generation of the last good state.
    pub generation: Generation,
    pub spec: Spec,
    /// The state before Muster.
    pub before: Option<Before>,
}

/// The state of one resource, as a look found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    pub resource: ResourceId,
    /// The generation from [`Look`].
    pub generation: Generation,
    /// The comparison of the host's state with the desired state, or the reason why it failed.
    pub found: Result<Found, RunError>,
}

/// The host's state, compared with the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The host's state equals the desired state.
    AsDesired,
    Differs {
        /// The host has nothing of the resource.
        missing: bool,
        /// The differences, for the operator; contains no content.
        reason: String,
    },
}

/// The reason why a job was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    pub reason: String,
    /// Whether the same job may end otherwise.
    pub retry: Retry,
}

/// When trying a job again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// An operator must change the node or the template first.
    Never,
    /// The job may be retried after a while.
    Later,
    /// A disk of the node has no room for it now.
    WhenRoom,
}

impl Retry {
    /// Permanent failures are never retried; others are retried later.
    pub fn unless(permanent: bool) -> Self {
        if permanent { Retry::Never } else { Retry::Later }
    }
}

impl From<RunError> for Outcome {
    fn from(RunError { reason, retry }: RunError) -> Self {
        match retry {
            Retry::Never => Outcome::Failed { reason, permanent: true },
            Retry::Later => Outcome::Failed { reason, permanent: false },
            Retry::WhenRoom => Outcome::NoRoom { reason },
        }
    }
}

/// The state of a content on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    /// The number of bytes present from the beginning, unverified.
    Have(u64),
    /// The content is complete, and its digest matches.
    Verified,
    /// The digest is wrong; nothing is left of it.
    Corrupt,
}

/// The effects of the machine. The driver executes them in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a connection to the controller.
    Connect,
    /// Close it; answered by [`Input::Disconnected`].
    Disconnect {
        reason: String,
    },
    /// Over the open connection.
    Send(Up),
    /// Write the entry durably, in place of the resource's older entry.
    Write {
        write: WriteId,
        entry: Box<Entry>,
    },
    /// Forget the resource's entry; need not be durable, is not answered.
    Remove(ResourceId),
    /// Make the highest epoch seen durable.
    WriteEpoch {
        write: WriteId,
        /// The highest seen.
        epoch: EpochId,
    },
    /// Read the state before Muster, before the first change.
    Capture {
        key: ReportKey,
        /// The desired state that the job will apply.
        spec: Spec,
        /// Records of the state before Muster: the resource's own, then those of resources from which this
        /// resource takes over. They take precedence over the present state, and the answer must hold all
        /// of them.
        known: Vec<Before>,
        /// The controller has a record of the resource, but the agent's ledger was lost. If the host's state
        /// equals the desired state, Muster made it, and the state before Muster is unknown.
        own: bool,
    },
    /// Read all that the job may touch, completely, so that [`Effect::Restore`] can undo the change.
    Guard {
        job: Box<Job>,
        /// The record described at [`Effect::Run`].
        before: Option<Before>,
        /// The records described at [`Effect::Run`].
        theirs: Vec<Before>,
    },
    /// Restore the state that [`Effect::Guard`] read; the agent may ask for this repeatedly.
    Restore {
        key: ReportKey,
        undo: Before,
    },
    /// Apply the job's fallback document, the last resort when a restore fails; fail if the job has none.
    Fallback {
        key: ReportKey,
        spec: Spec,
    },
    /// Apply the job and read back.
    Run {
        /// The job; its fetched content is complete and verified.
        job: Box<Job>,
        /// The state before Muster.
        before: Option<Before>,
        /// Records of resources that own again what this one took over from them: a delete leaves their
        /// state alone.
        theirs: Vec<Before>,
    },
    /// Compare the host with the job's desired state, and change nothing. For [`Action::Adopt`](muster_shared::model::Action)
    /// anything that applying the state would change is a difference.
    Check {
        /// The job. The digest alone names a content that would have to be fetched.
        job: Box<Job>,
        /// The last good state, its content named by digest.
        applied: Option<Spec>,
        /// The state before Muster.
        before: Option<Before>,
    },
    /// Cancel this run, check, read or restore; it needs no answer any more.
    Cancel(ReportKey),
    /// Work on a content in the state directory.
    Content {
        digest: ContentDigest,
        step: ContentStep,
    },
    /// Compare the host with the last good state of these resources, and change nothing.
    Look {
        number: u64,
        looks: Vec<Look>,
    },
    /// Send [`Input::Changed`] when this resource may have changed, where watching is cheap; a slow look
    /// finds the rest. `None` ends the watch.
    Watch {
        resource: ResourceId,
        spec: Option<Box<Spec>>,
    },
    /// See whether there is room again for what the agent records.
    FindRoom,
    /// Read the server's facts.
    Gather,
    /// Drop every content but these.
    KeepContents(Vec<ContentDigest>),
    /// Work on a flow table; see [`FlowEffect`].
    Flow {
        device: Bridge,
        effect: FlowEffect,
    },
    /// Join another site beside the present one.
    Join {
        number: u64,
        token: Box<JoinToken>,
    },
    /// Record, durably and in one step, that the node belongs to the site that it has joined. The machine only
    /// ends then: another one begins at that site.
    ChangeSite {
        /// The number in [`Effect::Join`].
        number: u64,
    },
    /// See what this server is like, as states that change nothing.
    Survey {
        /// Claims of resources that are held already: they are left out.
        held: BTreeSet<Claim>,
    },
    /// The answer to [`Input::Local`]; after a restart also if nothing waits for it.
    LocalEnded(Outcome),
    Warn(String),
}

/// Work on a content.
#[derive(Clone, PartialEq, Eq)]
pub enum ContentStep {
    /// Find how many bytes are present.
    Find,
    /// Append these bytes.
    Append {
        /// The offset to write at: the number of bytes already present.
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The content is complete: verify its digest.
    Verify,
    /// Nothing refers to the content: remove it.
    Drop,
}

impl std::fmt::Debug for ContentStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ContentStep::Find => f.write_str("Find"),
            ContentStep::Append { offset, bytes } => write!(f, "Append <{} bytes at {offset}>", bytes.len()),
            ContentStep::Verify => f.write_str("Verify"),
            ContentStep::Drop => f.write_str("Drop"),
        }
    }
}
