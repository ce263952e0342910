//! What goes into the machine and what comes out.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::model::flow::Bridge;
use muster_shared::model::topology::DevicePorts;
use muster_shared::model::{
    ContentDigest, Down, Facts, Job, NetworkConfig, Observed, Outcome, ReportKey, Spec, Up,
};
use muster_shared::{EpochId, Generation, ResourceId};

use crate::flow::{FlowEffect, FlowInput};
use crate::ledger::{Before, Entry};

/// What the machine is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Different on every node, so that a fleet does not reconnect in step.
    pub seed: u64,
    /// Of this boot of the server.
    pub boot_id: u128,
    /// Random: tells this run of the agent from one on a copy of the server's disk.
    pub instance: u128,
    /// Goes into `Hello`.
    pub agent_version: String,
}

/// Names one [`Effect::Write`] or [`Effect::WriteEpoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Once, first.
    Start,
    /// The connection asked for by [`Effect::Connect`] stands.
    Connected,
    /// A connection could not be made, or is gone. Exactly one follows each [`Effect::Connect`].
    Disconnected {
        reason: String,
    },
    /// From the controller.
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
        /// What it may touch, as it is now.
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
        /// Something was, or may have been, changed.
        touched: bool,
    },
    /// The answer to [`Effect::Restore`] and [`Effect::Fallback`].
    Restored {
        key: ReportKey,
        /// In force, or why not.
        result: Result<(), String>,
    },
    /// The answer to [`Effect::Check`].
    Checked {
        key: ReportKey,
        /// How what is there compares, or why that is not known.
        found: Result<Found, RunError>,
    },
    /// The answer to every [`Effect::Content`] but [`ContentStep::Drop`].
    Content {
        digest: ContentDigest,
        /// How it stands now, or why the step failed.
        state: Result<ContentState, RunError>,
    },
    /// The agent must end soon: nothing new begins, and unconfirmed changes are undone. Done when
    /// [`is_guarding`](crate::Agent::is_guarding) says so.
    Stop,
    /// Something of the network may have changed. Many at once are as good as one.
    Hint(Hint),
    /// These resources may have changed, by what [`Effect::Watch`] asked for. Many at once are as good as one.
    Changed(BTreeSet<ResourceId>),
    /// The answer to [`Effect::Look`].
    Looked {
        number: u64,
        /// How each stands.
        looked: Vec<Looked>,
    },
    /// The answer to [`Effect::Gather`].
    Gathered(Result<Box<Facts>, String>),
    /// Whether there is room for what the agent records: the answer to [`Effect::FindRoom`], and why not before what was
    /// refused for that.
    Room(Result<(), String>),
    /// Of a flow table, as [`FlowInput`] says.
    Flow {
        device: Bridge,
        input: FlowInput,
    },
    /// Devices whose ports changed, each whole as it is now, in order of their names.
    Ports(Vec<DevicePorts>),
    /// A network document that was given on this server itself; answered by [`Effect::LocalEnded`].
    Local {
        config: NetworkConfig,
        /// How long it may take in all.
        timeout: Duration,
        /// Documents up to this number were given before, also where the ledger knows none of them.
        after: u64,
    },
    /// Everything that had arrived from the controller was handled. Jobs begin with this input alone: a job whose
    /// withdrawal has arrived as well never begins.
    CaughtUp,
    /// The time of [`poll_timeout`](crate::Agent::poll_timeout) has come; too early does no harm.
    Timeout,
}

/// What of the network may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Routes, rules, bridges of Open vSwitch.
    Other,
    /// Also links or their addresses, and so the server's facts.
    Links,
    /// The neighbour at the other end of a cable changed: this affects the facts alone.
    Neighbours,
}

/// One resource to look at, with what [`Effect::Check`] says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub resource: ResourceId,
    /// Of its last good state.
    pub generation: Generation,
    pub spec: Spec,
    /// What was there before Muster.
    pub before: Option<Before>,
}

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    pub resource: ResourceId,
    /// As in [`Look`].
    pub generation: Generation,
    /// How what is there compares, or why that is not known.
    pub found: Result<Found, RunError>,
}

/// What is there, compared with the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The thing is as desired.
    AsDesired,
    Differs {
        /// Nothing is there at all.
        missing: bool,
        /// What differs, for the operator, free of content.
        reason: String,
    },
}

/// Why a job was not applied.
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
    /// After a while.
    Later,
    /// A disk of the node has no room for it now.
    WhenRoom,
}

impl Retry {
    /// Of a failure that is permanent or not.
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

/// How a content on disk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    /// So many bytes from the beginning, unverified.
    Have(u64),
    /// Whole, and its digest is right.
    Verified,
    /// The digest is wrong; nothing is left of it.
    Corrupt,
}

/// What to do, in order.
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
    /// Make the entry durable, in place of an older one of the resource.
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
    /// Read what is there before Muster changes it.
    Capture {
        key: ReportKey,
        /// What will be applied.
        spec: Spec,
        /// Records of the time before Muster: the resource's own, then those of resources that it
        /// takes over. They take precedence over the state now, and the answer must hold all of them.
        known: Vec<Before>,
        /// The controller knows it to be made, and nothing else does: the ledger was lost. If what is there is as
        /// wanted, it is Muster's own, and before it there is nothing that anybody knows of.
        own: bool,
    },
    /// Read all that the job may touch, completely, to be put back should the node be cut off.
    Guard {
        job: Box<Job>,
        /// As in [`Effect::Run`].
        before: Option<Before>,
        /// As in [`Effect::Run`].
        theirs: Vec<Before>,
    },
    /// Put back what [`Effect::Guard`] read; may be asked again.
    Restore {
        key: ReportKey,
        undo: Before,
    },
    /// Apply what the job has for the case that nothing else works; without such a thing, fail.
    Fallback {
        key: ReportKey,
        spec: Spec,
    },
    /// Apply the job and read back.
    Run {
        /// The job; a content that is fetched is there, verified.
        job: Box<Job>,
        /// What was there before Muster.
        before: Option<Before>,
        /// Of resources that have back what this one took over from them: a delete leaves alone what they know of.
        theirs: Vec<Before>,
    },
    /// Compare what is there with the job's desired state, and change nothing.
    Check {
        /// The job. A content that would be fetched is named by its digest, which is enough.
        job: Box<Job>,
        /// The last good state, its content named by digest.
        applied: Option<Spec>,
        /// What was there before Muster.
        before: Option<Before>,
    },
    /// Stop this run, check, reading or putting back; it is not answered any more.
    Cancel(ReportKey),
    /// Work on a content in the state directory.
    Content {
        digest: ContentDigest,
        step: ContentStep,
    },
    /// Compare what is there with the last good state of these, and change nothing.
    Look {
        number: u64,
        looks: Vec<Look>,
    },
    /// Say [`Input::Changed`] when something of this resource may have changed, as far as that costs little; a slow look
    /// finds the rest. None: not any more.
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
    /// Work on a flow table, as [`FlowEffect`] says.
    Flow {
        device: Bridge,
        effect: FlowEffect,
    },
    /// The answer to [`Input::Local`]; also without somebody who waits, after a restart.
    LocalEnded(Outcome),
    Warn(String),
}

/// Work on a content.
#[derive(Clone, PartialEq, Eq)]
pub enum ContentStep {
    /// How much is there?
    Find,
    /// Write at the end of what is there.
    Append {
        /// Where: what is there already.
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
