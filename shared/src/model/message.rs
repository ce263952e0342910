//! Messages between controller and agent. Every delivery is at least once; every effect is idempotent by
//! (`resource`, `generation`, `attempt`). [`JOB_TIMEOUT`] is the time of every job, beyond that of its type.
//!
//! Absent: the bytes and bounds of a message (`wire/convert.rs`), and when a failed job is tried again
//! (`controller/engine/src/job/next_attempt.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::flow::{FlowDown, FlowUp};
use super::topology::DevicePorts;
use super::{Action, ContentDigest, Drift, Facts, Spec, Stray, Survey};
use crate::join::{Address, JoinToken};
use crate::{Attempt, EpochId, Generation, ResourceId};

/// Desired state of one resource for one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The resource's physical id.
    pub resource: ResourceId,
    /// Orders jobs of one resource: the higher one wins.
    pub generation: Generation,
    /// A higher attempt of the same generation runs again.
    pub attempt: Attempt,
    /// The action on the resource.
    pub action: Action,
    /// The agent ends the job as failed this long after it began.
    pub timeout: Duration,
    /// The desired state; for [`Action::Delete`] and [`Action::Retain`] the last one known.
    pub spec: Spec,
}

/// A message of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The answer to [`Hello`].
    Welcome(Welcome),
    /// Do this.
    Job(Job),
    /// Do not start this job. The answer is [`Outcome::Withdrawn`], or the job's outcome if it runs or ran. A
    /// running job that may be interrupted is interrupted, and fails.
    Withdraw {
        resource: ResourceId,
        generation: Generation,
    },
    /// The controller has stored this report durably.
    Acknowledge(ReportKey),
    /// Part of a content the agent asked for.
    Chunk {
        /// The digest of the whole content.
        digest: ContentDigest,
        /// The place of `bytes` in the content.
        offset: u64,
        /// Never empty, unless the controller does not have the content, or no longer.
        bytes: Vec<u8>,
    },
    /// The answer to [`Up::Challenge`], with the challenge's bytes.
    Answer {
        /// The job to confirm.
        key: ReportKey,
        /// The bytes of the challenge.
        bytes: Vec<u8>,
    },
    /// Say [`Up::Facts`] as they are now.
    AskFacts,
    /// The controller missed a report of drift on this connection: report all drift again.
    AskDrift,
    Flow(FlowDown),
    /// Describe these resources: at most [`DESCRIBED_MAX`](super::DESCRIBED_MAX). Sent only to an agent that
    /// [reads](Hello::reads) this message.
    Describe(Vec<ResourceId>),
    /// Delete a resource by the state in the agent's own ledger, as a job with that desired state would. The
    /// report is that of a job. Sent only to an agent that [reads](Hello::reads) this message.
    Remove(ReportKey),
    /// The addresses of the site's controllers, the active one first; at most
    /// [`ADDRESSES_MAX`](crate::join::ADDRESSES_MAX). Sent only to an agent that
    /// [reads](Hello::reads) this message.
    Controllers(Vec<Address>),
    /// Join another site with this token and leave this one; the answer is [`Up::Moved`]. Sent only to an agent
    /// that [reads](Hello::reads) this message.
    Move(Box<JoinToken>),
    /// Say what this server is like, as desired states that change nothing; the answer is [`Up::Surveyed`]. Sent
    /// only to an agent that [reads](Hello::reads) this message.
    Survey,
}

/// A message of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Up {
    /// The first message on every connection.
    Hello(Hello),
    /// The outcome of a job.
    Report(Report),
    /// A job runs for some time; never acknowledged, may be lost.
    Progress(Progress),
    /// The ledger, in pages; asked for by [`Welcome::want_ledger`].
    Ledger {
        /// A page of entries.
        entries: Vec<LedgerEntry>,
        /// This is the last page.
        last: bool,
    },
    /// Asks for part of a content.
    Fetch {
        /// The digest of the whole content.
        digest: ContentDigest,
        offset: u64,
    },
    /// Still here.
    Heartbeat {
        /// The digests of all drift reported on this connection and not reported as in sync since
        /// ([`Drift::digest`]), combined by exclusive or; older agents do not send it.
        drift: Option<u128>,
    },
    /// Over a connection made after a job's change: is the controller there, both ways, with packets of
    /// full size?
    Challenge {
        /// The job to confirm.
        key: ReportKey,
        /// [`CHALLENGE_BYTES`], fresh for each change.
        bytes: Vec<u8>,
    },
    /// States of resources without a job that differ from the last report on this connection; never
    /// acknowledged, sent again on the next connection.
    Drift(Vec<Drift>),
    /// The server's facts: after each [`Welcome`], when they change, and on request. Never acknowledged.
    Facts(Box<Facts>),
    Flow(FlowUp),
    /// The topology: the present state of devices, each complete. Never acknowledged, sent again on the
    /// next connection.
    Ports(Vec<DevicePorts>),
    /// The states of the agent's jobs that have not ended: after each [`Welcome`], then every [`JOBS_EVERY`]
    /// while there are any. If there are many, several messages. Never acknowledged. An agent that sends this
    /// enforces the deadlines of its jobs itself: the controller gives up one of them only if the agent does
    /// not mention it.
    Jobs(Vec<JobState>),
    /// The reason why the agent's disk has no room for its records; `None` once there is room again. Sent
    /// after each [`Welcome`] while the disk is full, and on changes. Never acknowledged. Meanwhile the agent
    /// accepts jobs that free room, as far as possible.
    DiskFull(Option<String>),
    /// The clock of the agent's server: after each [`Hello`], when the clock was set, and every hour. Never
    /// acknowledged; older agents do not send this.
    Clock {
        /// Seconds since 1970.
        unix: u64,
        /// Seconds by which the clock is ahead of the controller's. The controller's link adds this; agents
        /// do not send it.
        ahead: i64,
    },
    /// The answer to [`Down::Describe`]: the requested resources that the ledger has, in order.
    /// Never acknowledged.
    Described(Vec<Stray>),
    /// The answer to [`Down::Move`], on the same connection or never. Never acknowledged.
    Moved(MoveOutcome),
    /// The answer to [`Down::Survey`]. Never acknowledged.
    Surveyed(Survey),
}

/// The outcome of a move to another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The node belongs to the other site, durably. It says nothing more to this one.
    Left,
    /// The node belongs to this site, as before.
    Stays {
        /// A reason for the operator; bounded, free of secrets.
        reason: String,
    },
}

/// Between two accounts of all jobs.
pub const JOBS_EVERY: Duration = Duration::from_secs(60);
/// The most jobs in one [`Up::Jobs`]: 50 bytes each, so most of a packet.
pub const JOBS_TOLD_MAX: usize = 4096;

/// The state of a job at its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobState {
    pub key: ReportKey,
    /// The progress of the job.
    pub stage: Stage,
}

/// The progress of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting {
        /// The resource whose job runs in the same lane.
        behind: Option<ResourceId>,
    },
    /// The content is on its way.
    Fetching,
    /// The job runs. After [`Job::timeout`] the agent ends it as failed.
    Running,
}

/// Bytes of a challenge, each way: more than one packet of any MTU, so that a too large MTU for the
/// path shows.
pub const CHALLENGE_BYTES: usize = 16 * 1024;

/// The agent that connects, and what its ledger holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Changes with every boot of the server.
    pub boot_id: u128,
    pub agent_version: String,
    /// The number of messages added since the protocol's version that this agent reads, as in
    /// [`READS`](crate::wire::READS): an unknown message would end its connection. 0: an older agent, which
    /// does not say.
    pub reads: u32,
    /// Random for each start of the agent, so that two agents with one identity differ. `None`: an
    /// older agent.
    pub instance: Option<u128>,
    /// The agent's address. The controller's link adds this; agents do not send it.
    pub address: Option<IpAddr>,
    /// The highest epoch it has obeyed.
    pub epoch: EpochId,
    /// [`LedgerEntry::digest`] of all entries, combined by exclusive or.
    pub ledger: u128,
}

/// The controller's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The controller's epoch. An agent refuses an older epoch than it has obeyed, and a different one of the
    /// same number.
    pub epoch: EpochId,
    /// The ledgers differ: the agent must send its own.
    pub want_ledger: bool,
    /// The interval of [`Up::Heartbeat`].
    pub heartbeat: Duration,
    /// The number of additions to the messages of agents that the controller reads, as in
    /// [`CONTROLLER_READS`](crate::wire::CONTROLLER_READS). 0: an older controller, which does not say. Sent only
    /// to an agent that [reads](Hello::reads) it.
    pub reads: u32,
}

/// Identifies one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReportKey {
    pub resource: ResourceId,
    pub generation: Generation,
    pub attempt: Attempt,
}

/// The outcome of a job. Sent until acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub key: ReportKey,
    pub outcome: Outcome,
}

/// The outcome of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The state is as desired: applied and read back, or checked.
    Done(Observed),
    /// The state was not applied, or reading it back gave a different one.
    Failed {
        /// A reason for the operator; bounded, free of content.
        reason: String,
        /// A retry cannot help: the job itself is refused.
        permanent: bool,
    },
    /// The job was withdrawn before it started.
    Withdrawn,
    /// The agent knows a newer generation.
    Superseded { by: Generation },
    /// The answer to [`Action::Check`] and [`Action::Adopt`] if the host differs from the desired state.
    Differs {
        /// The host has nothing of the resource.
        missing: bool,
        /// The differences, for the operator; bounded, free of content.
        reason: String,
    },
    /// Not applied, since a disk of the node has no room. Another attempt may come when there is room.
    NoRoom {
        /// The reason, as in [`Outcome::Failed`].
        reason: String,
    },
}

/// The state as read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Attributes by name, for `get_attr`.
    pub attributes: BTreeMap<String, String>,
}

/// A job that takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub key: ReportKey,
    /// The state is applied; the agent waits until the observed state equals the desired one.
    pub settling: bool,
}

/// A resource as the agent's ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub resource: ResourceId,
    /// The generation of the last applied state.
    pub generation: Generation,
}

impl LedgerEntry {
    /// A digest for comparing whole ledgers: combine by exclusive or, in any order.
    pub fn digest(&self) -> u128 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.resource.0.as_bytes());
        hasher.update(&self.generation.epoch.0.to_le_bytes());
        hasher.update(&self.generation.number.to_le_bytes());
        let mut first = [0; 16];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        u128::from_le_bytes(first)
    }
}

/// The agent ends a job as failed after this time plus the time that the desired state allows.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(300);

impl Job {
    /// The most time for a job with this desired state.
    pub fn time_for(spec: &Spec) -> Duration {
        JOB_TIMEOUT + spec.own_time()
    }

    /// Names the report this job will lead to.
    pub fn key(&self) -> ReportKey {
        ReportKey { resource: self.resource, generation: self.generation, attempt: self.attempt }
    }
}
