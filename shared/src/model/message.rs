//! Messages between controller and agent. Every delivery is at least once; every effect is idempotent by
//! (`resource`, `generation`, `attempt`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::flow::{FlowDown, FlowUp};
use super::topology::DevicePorts;
use super::{Action, ContentDigest, Drift, Facts, Spec, Stray};
use crate::{Attempt, EpochId, Generation, ResourceId};

/// Desired state of one resource for one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The resource's physical id.
    pub resource: ResourceId,
    /// Decides between jobs of one resource: the higher wins.
    pub generation: Generation,
    /// A higher one of the same generation runs again.
    pub attempt: Attempt,
    /// What is to be done.
    pub action: Action,
    /// The agent ends the job as failed so long after it began.
    pub timeout: Duration,
    /// The desired state; for [`Action::Delete`] and [`Action::Retain`] the last one known.
    pub spec: Spec,
}

/// What the controller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The answer to [`Hello`].
    Welcome(Welcome),
    /// Do this.
    Job(Job),
    /// Do not start this; answered with [`Outcome::Withdrawn`], or by its outcome if it runs or ran. What may be
    /// interrupted is, and fails.
    Withdraw {
        resource: ResourceId,
        generation: Generation,
    },
    /// This report is durable with the controller.
    Acknowledge(ReportKey),
    /// Part of a content the agent asked for.
    Chunk {
        /// Of the whole content.
        digest: ContentDigest,
        /// Where `bytes` begin.
        offset: u64,
        /// Never empty, unless the controller does not have the content (any more).
        bytes: Vec<u8>,
    },
    /// The answer to [`Up::Challenge`], with its own bytes.
    Answer {
        /// The job to confirm.
        key: ReportKey,
        /// As in the challenge.
        bytes: Vec<u8>,
    },
    /// Say [`Up::Facts`] as they are now.
    AskFacts,
    /// What was said of drift on this connection is not what was heard: say all of it again.
    AskDrift,
    Flow(FlowDown),
    /// Say what these are: at most [`DESCRIBED_MAX`](super::DESCRIBED_MAX). Only to an agent that
    /// [reads](Hello::reads) it.
    Describe(Vec<ResourceId>),
    /// Delete a thing by what the agent's own ledger says of it, as a job does whose desired state only the agent knows;
    /// reported as one. Only to an agent that [reads](Hello::reads) it.
    Remove(ReportKey),
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Up {
    /// First on every connection.
    Hello(Hello),
    /// What a job came to.
    Report(Report),
    /// A job runs and takes its time; never acknowledged, may be lost.
    Progress(Progress),
    /// The ledger, in pages; asked for by [`Welcome::want_ledger`].
    Ledger {
        /// This page.
        entries: Vec<LedgerEntry>,
        /// This is the last page.
        last: bool,
    },
    /// Asks for part of a content.
    Fetch {
        /// Of the whole content.
        digest: ContentDigest,
        offset: u64,
    },
    /// Still here.
    Heartbeat {
        /// [`Drift::digest`] of all that was said to differ on this connection and has not been said to be in sync since,
        /// combined by exclusive or; older agents do not say.
        drift: Option<u128>,
    },
    /// Over a connection made after a job's change: is the controller there, both ways, with packets of full size?
    Challenge {
        /// The job to confirm.
        key: ReportKey,
        /// [`CHALLENGE_BYTES`], fresh for each change.
        bytes: Vec<u8>,
    },
    /// How resources without a job stand, where that is not what was said last on this connection; never
    /// acknowledged, said again on the next connection.
    Drift(Vec<Drift>),
    /// What the server is: after each [`Welcome`], when it changes, and when asked. Never acknowledged.
    Facts(Box<Facts>),
    Flow(FlowUp),
    /// Of the topology: devices as they are now, each whole. Never acknowledged, said again on the next connection.
    Ports(Vec<DevicePorts>),
    /// How the jobs stand that the agent has and has not ended: after each [`Welcome`], then every [`JOBS_EVERY`] while there
    /// are any. Several messages where they are many. Never acknowledged. An agent that says this owns the deadlines of its
    /// jobs: the controller gives up on one of them only if the agent is silent about it.
    Jobs(Vec<JobState>),
    /// The agent's disk has no room for what it records, and why; none: there is room again. After each [`Welcome`] for
    /// which that is so, and when it changes. Never acknowledged. Jobs that free room are taken meanwhile, as far as may be.
    DiskFull(Option<String>),
    /// What the clock of the agent's server shows: after each [`Hello`], when the clock was set, and each hour. Never
    /// acknowledged; older agents do not say.
    Clock {
        /// Seconds since 1970.
        unix: u64,
        /// Seconds that it is ahead of the controller's clock, as the controller's link sees it: no agent says that.
        ahead: i64,
    },
    /// The answer to [`Down::Describe`]: those of the ledger, in the order asked for. Never acknowledged.
    Described(Vec<Stray>),
}

/// Between two accounts of all jobs.
pub const JOBS_EVERY: Duration = Duration::from_secs(60);
/// Jobs in one [`Up::Jobs`]: 50 bytes each, so most of a packet.
pub const JOBS_TOLD_MAX: usize = 4096;

/// How a job stands with its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobState {
    pub key: ReportKey,
    /// How far it is.
    pub stage: Stage,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting {
        /// The resource whose job runs in its lane.
        behind: Option<ResourceId>,
    },
    /// The content is on its way.
    Fetching,
    /// The job runs. After [`Job::timeout`] the agent ends it as failed.
    Running,
}

/// Bytes of a challenge, each way: more than one packet of any MTU, so that one the path does not carry shows.
pub const CHALLENGE_BYTES: usize = 16 * 1024;

/// The agent that connects, and what its ledger holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Changes with every boot of the server.
    pub boot_id: u128,
    pub agent_version: String,
    /// How much of what was appended to the protocol's version it reads, as [`READS`](crate::wire::READS): what it does
    /// not read would end its connection. 0: an older agent, which does not say.
    pub reads: u32,
    /// Drawn at each start of the agent: of two agents with one identity, each has its own. None: an older agent.
    pub instance: Option<u128>,
    /// Where it connects from, as the controller's link sees it: no agent says that.
    pub address: Option<IpAddr>,
    /// The highest epoch it has obeyed.
    pub epoch: EpochId,
    /// [`LedgerEntry::digest`] of all entries, combined by exclusive or.
    pub ledger: u128,
}

/// What the controller answers to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The controller's epoch. An agent refuses an older one than it has obeyed, and another one of the same number.
    pub epoch: EpochId,
    /// The ledgers differ: send it.
    pub want_ledger: bool,
    /// How often to send [`Up::Heartbeat`].
    pub heartbeat: Duration,
}

/// Names one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReportKey {
    pub resource: ResourceId,
    pub generation: Generation,
    pub attempt: Attempt,
}

/// What a job came to. Sent until acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub key: ReportKey,
    pub outcome: Outcome,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// What is there is as desired: applied and read back, or checked.
    Done(Observed),
    /// Not applied, or what was read back differs.
    Failed {
        /// For the operator; bounded, free of content.
        reason: String,
        /// Trying again cannot help: the job itself is refused.
        permanent: bool,
    },
    /// The job was withdrawn before it started.
    Withdrawn,
    /// The agent knows a newer generation.
    Superseded { by: Generation },
    /// The answer to [`Action::Check`] where what is there is not as desired.
    Differs {
        /// Nothing is there at all.
        missing: bool,
        /// What differs, for the operator; bounded, free of content.
        reason: String,
    },
    /// Not applied: a disk of the node has no room for it. Another attempt may come when there is.
    NoRoom {
        /// As in [`Outcome::Failed`].
        reason: String,
    },
}

/// What was read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Attributes by name, for `get_attr`.
    pub attributes: BTreeMap<String, String>,
}

/// A job that takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub key: ReportKey,
    /// Applied and waiting until what is observed equals what is desired.
    pub settling: bool,
}

/// A resource as the agent's ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub resource: ResourceId,
    /// Of the last state that was applied.
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

/// An agent ends a job as failed after this, and what the job itself says it takes.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(300);

impl Job {
    /// How long a job with this desired state may take.
    pub fn time_for(spec: &Spec) -> Duration {
        JOB_TIMEOUT + spec.own_time()
    }

    /// Names the report this job will lead to.
    pub fn key(&self) -> ReportKey {
        ReportKey { resource: self.resource, generation: self.generation, attempt: self.attempt }
    }
}
