//! Messages between version 1 and the model, with their bounds.
//!
//! Absent: the bounds on facts (`facts.rs`) and flow tables (`flow.rs`), and those on a desired state
//! (`check_bounds`, `model/types.rs`).

use std::time::Duration;

use uuid::Uuid;

use super::{CHUNK_MAX, WireError, facts, flow, jobs, stray, survey, topology, v1, watch};
use crate::join::{ADDRESSES_MAX, TOKEN_MAX};
use crate::model::{
    Action, CHALLENGE_BYTES, Content, ContentDigest, Down, Hello, Job, LedgerEntry, MoveOutcome, Observed,
    Outcome, Progress, Report, ReportKey, Up, Welcome, map_in_bounds,
};
use crate::{Attempt, Epoch, EpochId, Generation, ResourceId};

/// The most messages in one packet: a packet of the smallest ones holds fewer.
pub const MESSAGES_MAX: usize = 16 * 1024;
/// The most bytes of a reason: it is for reading. Longer ones are cut.
pub const REASON_MAX: usize = 4096;
const VERSION_MAX: usize = 64;
/// The most ledger entries in one page: 28 bytes each, so half a packet.
pub const LEDGER_PAGE_MAX: usize = 4096;
/// The most resources in one [`Up::Drift`]: with the longest reasons two thirds of a packet.
pub const DRIFTS_MAX: usize = 256;
/// A day: longer jobs are hung jobs.
const TIMEOUT_MAX_MS: u32 = 24 * 3600 * 1000;

pub fn at_most(field: &'static str, size: usize, max: usize) -> Result<(), WireError> {
    if size <= max { Ok(()) } else { Err(WireError::Bounds { field }) }
}

fn out_of_bounds(field: &'static str) -> WireError {
    WireError::Bounds { field }
}

/// Checks data from outside and converts it to the model.
pub trait Bounded {
    type Model;
    fn into_model(self) -> Result<Self::Model, WireError>;
}

impl From<&Down> for v1::Down {
    fn from(down: &Down) -> Self {
        match down {
            Down::Welcome(Welcome { epoch: EpochId { number, bits }, want_ledger, heartbeat, reads }) => {
                let want_ledger = *want_ledger;
                let heartbeat_s = u32::try_from(heartbeat.as_secs()).unwrap_or(u32::MAX);
                match (*reads, bits) {
                    (0, Some(bits)) => {
                        v1::Down::Welcomed { epoch: (number.0, *bits), want_ledger, heartbeat_s }
                    }
                    (0, None) => v1::Down::Welcome { epoch: number.0, want_ledger, heartbeat_s },
                    (reads, bits) => {
                        let epoch = (number.0, *bits);
                        v1::Down::WelcomedWithReads { epoch, want_ledger, heartbeat_s, reads }
                    }
                }
            }
            Down::Job(job) => v1::Down::Job(v1::Job {
                key: key_out(&job.key()),
                action: action_out(job.action),
                timeout_ms: u32::try_from(job.timeout.as_millis())
                    .unwrap_or(TIMEOUT_MAX_MS)
                    .min(TIMEOUT_MAX_MS),
                spec: (&job.spec).into(),
            }),
            Down::Withdraw { resource, generation } => {
                v1::Down::Withdraw { resource: id_out(*resource), generation: generation_out(*generation) }
            }
            Down::Acknowledge(key) => v1::Down::Acknowledge(key_out(key)),
            Down::Chunk { digest, offset, bytes } => {
                v1::Down::Chunk { digest: digest.0, offset: *offset, bytes: bytes.clone() }
            }
            Down::Answer { key, bytes } => v1::Down::Answer { key: key_out(key), bytes: bytes.clone() },
            Down::AskFacts => v1::Down::AskFacts,
            Down::AskDrift => v1::Down::AskDrift,
            Down::Flow(down) => v1::Down::Flow(flow::down_out(down)),
            Down::Describe(resources) => v1::Down::Describe(stray::asked_out(resources)),
            Down::Remove(key) => v1::Down::Remove(key_out(key)),
            Down::Controllers(addresses) => {
                v1::Down::Controllers(addresses.iter().take(ADDRESSES_MAX).map(ToString::to_string).collect())
            }
            Down::Move(token) => v1::Down::Move(token.to_string()),
            Down::Survey => v1::Down::Survey,
        }
    }
}

impl Bounded for v1::Down {
    type Model = Down;

    fn into_model(self) -> Result<Down, WireError> {
        Ok(match self {
            v1::Down::Welcome { epoch, want_ledger, heartbeat_s } => {
                welcome_in(Epoch(epoch).into(), want_ledger, heartbeat_s, 0)
            }
            v1::Down::Welcomed { epoch: (number, bits), want_ledger, heartbeat_s } => {
                let epoch = EpochId { number: Epoch(number), bits: Some(bits) };
                welcome_in(epoch, want_ledger, heartbeat_s, 0)
            }
            v1::Down::WelcomedWithReads { epoch: (number, bits), want_ledger, heartbeat_s, reads } => {
                welcome_in(EpochId { number: Epoch(number), bits }, want_ledger, heartbeat_s, reads)
            }
            v1::Down::Job(job) => {
                let key = key_in(job.key);
                Down::Job(Job {
                    resource: key.resource,
                    generation: key.generation,
                    attempt: key.attempt,
                    action: action_in(job.action),
                    timeout: Duration::from_millis(job.timeout_ms.min(TIMEOUT_MAX_MS).into()),
                    spec: job.spec.try_into().map_err(out_of_bounds)?,
                })
            }
            v1::Down::Withdraw { resource, generation } => {
                Down::Withdraw { resource: id_in(resource), generation: generation_in(generation) }
            }
            v1::Down::Acknowledge(key) => Down::Acknowledge(key_in(key)),
            v1::Down::Chunk { digest, offset, bytes } => {
                at_most("chunk", bytes.len(), CHUNK_MAX)?;
                Down::Chunk { digest: ContentDigest(digest), offset, bytes }
            }
            v1::Down::Answer { key, bytes } => {
                at_most("answer", bytes.len(), CHALLENGE_BYTES)?;
                Down::Answer { key: key_in(key), bytes }
            }
            v1::Down::AskFacts => Down::AskFacts,
            v1::Down::AskDrift => Down::AskDrift,
            v1::Down::Flow(down) => Down::Flow(flow::down_in(down)?),
            v1::Down::Describe(resources) => Down::Describe(stray::asked_in(resources)?),
            v1::Down::Remove(key) => Down::Remove(key_in(key)),
            v1::Down::Controllers(addresses) => {
                at_most("controllers", addresses.len(), ADDRESSES_MAX)?;
                let parsed = addresses.iter().map(|text| text.parse().map_err(|_| out_of_bounds("address")));
                Down::Controllers(parsed.collect::<Result<_, _>>()?)
            }
            v1::Down::Move(token) => {
                at_most("token", token.len(), TOKEN_MAX)?;
                Down::Move(Box::new(token.parse().map_err(|_| out_of_bounds("token"))?))
            }
            v1::Down::Survey => Down::Survey,
        })
    }
}

impl From<&Up> for v1::Up {
    fn from(up: &Up) -> Self {
        match up {
            Up::Hello(hello) => {
                let (boot_id, ledger) = (hello.boot_id.to_le_bytes(), hello.ledger.to_le_bytes());
                let agent_version = stray::version_out(&hello.agent_version, hello.reads);
                let epoch = hello.epoch.number.0;
                match hello.instance {
                    Some(instance) => v1::Up::Greeting {
                        boot_id,
                        instance: instance.to_le_bytes(),
                        agent_version,
                        epoch: (epoch, hello.epoch.bits),
                        ledger,
                    },
                    None => v1::Up::Hello { boot_id, agent_version, epoch, ledger },
                }
            }
            Up::Report(report) => {
                v1::Up::Report { key: key_out(&report.key), outcome: outcome_out(&report.outcome) }
            }
            Up::Progress(p) => v1::Up::Progress { key: key_out(&p.key), settling: p.settling },
            Up::Ledger { entries, last } => v1::Up::Ledger {
                entries: entries.iter().map(|e| (id_out(e.resource), generation_out(e.generation))).collect(),
                last: *last,
            },
            Up::Fetch { digest, offset } => v1::Up::Fetch { digest: digest.0, offset: *offset },
            Up::Heartbeat { drift: None } => v1::Up::Heartbeat,
            Up::Heartbeat { drift: Some(drift) } => v1::Up::Alive { drift: drift.to_le_bytes() },
            Up::Challenge { key, bytes } => v1::Up::Challenge { key: key_out(key), bytes: bytes.clone() },
            Up::Drift(drifts) => v1::Up::Drift(drifts.iter().map(watch::drift_out).collect()),
            Up::Facts(it) => match facts::ties_out(it) {
                Some(ties) => v1::Up::ServerWithTies(facts::facts_out(it), facts::more_out(it), ties),
                None => v1::Up::Server(facts::facts_out(it), facts::more_out(it)),
            },
            Up::Flow(up) => v1::Up::Flow(flow::up_out(up)),
            Up::Ports(devices) => v1::Up::Ports(devices.iter().map(topology::device_out).collect()),
            Up::Jobs(states) => v1::Up::Jobs(states.iter().map(jobs::state_out).collect()),
            Up::DiskFull(full) => v1::Up::DiskFull(full.as_deref().map(reason_out)),
            Up::Clock { unix, ahead: _ } => v1::Up::Clock { unix: *unix },
            Up::Described(strays) => v1::Up::Described(strays.iter().map(stray::stray_out).collect()),
            Up::Moved(MoveOutcome::Left) => v1::Up::Moved(None),
            Up::Moved(MoveOutcome::Stays { reason }) => v1::Up::Moved(Some(reason_out(reason))),
            Up::Surveyed(survey) => survey::survey_out(survey),
        }
    }
}

impl Bounded for v1::Up {
    type Model = Up;

    fn into_model(self) -> Result<Up, WireError> {
        Ok(match self {
            v1::Up::Hello { boot_id, agent_version, epoch, ledger } => {
                hello_in(boot_id, None, agent_version, Epoch(epoch).into(), ledger)?
            }
            v1::Up::Greeting { boot_id, instance, agent_version, epoch: (number, bits), ledger } => {
                let epoch = EpochId { number: Epoch(number), bits };
                hello_in(boot_id, Some(u128::from_le_bytes(instance)), agent_version, epoch, ledger)?
            }
            v1::Up::Report { key, outcome } => {
                Up::Report(Report { key: key_in(key), outcome: outcome_in(outcome)? })
            }
            v1::Up::Progress { key, settling } => Up::Progress(Progress { key: key_in(key), settling }),
            v1::Up::Ledger { entries, last } => {
                at_most("ledger page", entries.len(), LEDGER_PAGE_MAX)?;
                let entries = entries
                    .into_iter()
                    .map(|(id, generation)| LedgerEntry {
                        resource: id_in(id),
                        generation: generation_in(generation),
                    })
                    .collect();
                Up::Ledger { entries, last }
            }
            v1::Up::Fetch { digest, offset } => Up::Fetch { digest: ContentDigest(digest), offset },
            v1::Up::Heartbeat => Up::Heartbeat { drift: None },
            v1::Up::Alive { drift } => Up::Heartbeat { drift: Some(u128::from_le_bytes(drift)) },
            v1::Up::Challenge { key, bytes } => {
                at_most("challenge", bytes.len(), CHALLENGE_BYTES)?;
                Up::Challenge { key: key_in(key), bytes }
            }
            v1::Up::Drift(drifts) => {
                at_most("drifts", drifts.len(), DRIFTS_MAX)?;
                Up::Drift(drifts.into_iter().map(watch::drift_in).collect())
            }
            v1::Up::Facts(it) => {
                Up::Facts(Box::new(facts::facts_in(it, v1::FactsMore::default(), Vec::new())?))
            }
            v1::Up::Server(it, more) => Up::Facts(Box::new(facts::facts_in(it, more, Vec::new())?)),
            v1::Up::ServerWithTies(it, more, ties) => Up::Facts(Box::new(facts::facts_in(it, more, ties)?)),
            v1::Up::Flow(up) => Up::Flow(flow::up_in(up)?),
            v1::Up::Ports(devices) => Up::Ports(topology::devices_in(devices)?),
            v1::Up::Jobs(states) => Up::Jobs(jobs::states_in(states)?),
            v1::Up::DiskFull(full) => {
                at_most("reason", full.as_ref().map_or(0, String::len), REASON_MAX)?;
                Up::DiskFull(full)
            }
            v1::Up::Clock { unix } => Up::Clock { unix, ahead: 0 },
            v1::Up::Described(strays) => Up::Described(stray::strays_in(strays)?),
            v1::Up::Moved(None) => Up::Moved(MoveOutcome::Left),
            v1::Up::Moved(Some(reason)) => {
                at_most("reason", reason.len(), REASON_MAX)?;
                Up::Moved(MoveOutcome::Stays { reason })
            }
            v1::Up::Surveyed { specs, left_out } => Up::Surveyed(survey::survey_in(specs, left_out)?),
        })
    }
}

fn welcome_in(epoch: EpochId, want_ledger: bool, heartbeat_s: u32, reads: u32) -> Down {
    // A heartbeat that is too rare or too frequent is useless.
    let heartbeat = Duration::from_secs(heartbeat_s.clamp(1, 24 * 3600).into());
    Down::Welcome(Welcome { epoch, want_ledger, heartbeat, reads })
}

fn hello_in(
    boot_id: [u8; 16],
    instance: Option<u128>,
    agent_version: String,
    epoch: EpochId,
    ledger: [u8; 16],
) -> Result<Up, WireError> {
    at_most("agent_version", agent_version.len(), VERSION_MAX)?;
    let (boot_id, ledger) = (u128::from_le_bytes(boot_id), u128::from_le_bytes(ledger));
    let (agent_version, reads) = stray::version_in(agent_version);
    Ok(Up::Hello(Hello { boot_id, instance, address: None, agent_version, reads, epoch, ledger }))
}

pub(super) fn id_out(id: ResourceId) -> v1::Id {
    *id.0.as_bytes()
}

pub(super) fn id_in(id: v1::Id) -> ResourceId {
    ResourceId(Uuid::from_bytes(id))
}

pub(super) fn generation_out(generation: Generation) -> v1::Generation {
    (generation.epoch.0, generation.number)
}

pub(super) fn generation_in((epoch, number): v1::Generation) -> Generation {
    Generation { epoch: Epoch(epoch), number }
}

pub(super) fn key_out(key: &ReportKey) -> v1::Key {
    (id_out(key.resource), generation_out(key.generation), key.attempt.0)
}

pub(super) fn key_in((resource, generation, attempt): v1::Key) -> ReportKey {
    ReportKey { resource: id_in(resource), generation: generation_in(generation), attempt: Attempt(attempt) }
}

fn action_out(action: Action) -> v1::Action {
    match action {
        Action::Create => v1::Action::Create,
        Action::Update => v1::Action::Update,
        Action::Delete => v1::Action::Delete,
        Action::Check => v1::Action::Check,
        Action::Retain => v1::Action::Retain,
        Action::Adopt => v1::Action::Adopt,
    }
}

fn action_in(action: v1::Action) -> Action {
    match action {
        v1::Action::Create => Action::Create,
        v1::Action::Update => Action::Update,
        v1::Action::Delete => Action::Delete,
        v1::Action::Check => Action::Check,
        v1::Action::Retain => Action::Retain,
        v1::Action::Adopt => Action::Adopt,
    }
}

pub fn content_out(content: &Content) -> v1::Content {
    match content {
        Content::Inline(bytes) => v1::Content::Inline(bytes.clone()),
        Content::Stored { digest, size } => v1::Content::Stored { digest: digest.0, size: *size },
    }
}

pub fn content_in(content: v1::Content) -> Result<Content, WireError> {
    match content {
        v1::Content::Inline(bytes) => Ok(Content::Inline(bytes)),
        v1::Content::Stored { digest, size } if size <= Content::SIZE_MAX => {
            Ok(Content::Stored { digest: ContentDigest(digest), size })
        }
        v1::Content::Stored { .. } => Err(WireError::Bounds { field: "content" }),
    }
}

fn outcome_out(outcome: &Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Done(observed) => v1::Outcome::Done { attributes: observed.attributes.clone() },
        Outcome::Failed { reason, permanent } => {
            v1::Outcome::Failed { reason: reason_out(reason), permanent: *permanent }
        }
        Outcome::Withdrawn => v1::Outcome::Withdrawn,
        Outcome::Superseded { by } => v1::Outcome::Superseded { by: generation_out(*by) },
        Outcome::Differs { missing, reason } => {
            v1::Outcome::Differs { missing: *missing, reason: reason_out(reason) }
        }
        Outcome::NoRoom { reason } => v1::Outcome::NoRoom { reason: reason_out(reason) },
    }
}

fn reason_out(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON_MAX)].to_owned()
}

fn outcome_in(outcome: v1::Outcome) -> Result<Outcome, WireError> {
    Ok(match outcome {
        v1::Outcome::Done { attributes } => {
            map_in_bounds("attributes", &attributes).map_err(out_of_bounds)?;
            Outcome::Done(Observed { attributes })
        }
        v1::Outcome::Failed { reason, permanent } => {
            at_most("reason", reason.len(), REASON_MAX)?;
            Outcome::Failed { reason, permanent }
        }
        v1::Outcome::Withdrawn => Outcome::Withdrawn,
        v1::Outcome::Superseded { by } => Outcome::Superseded { by: generation_in(by) },
        v1::Outcome::Differs { missing, reason } => {
            at_most("reason", reason.len(), REASON_MAX)?;
            Outcome::Differs { missing, reason }
        }
        v1::Outcome::NoRoom { reason } => {
            at_most("reason", reason.len(), REASON_MAX)?;
            Outcome::NoRoom { reason }
        }
    })
}
