//! One member of a rollout: its state, and how it counts towards failures. [`Member::after`] has
//! every transition.
//!
//! ```text
//!   Idle ── something is to be done ─▶ Held ◀─ its node ─▶ Absent ── its place is passed over ─▶ Missed
//!    ▲                                  │ begins
//!    │                                  ▼
//!    ├─── ends well, or fails ──────── Begun ── leaves the set ─▶ Leaving
//!    └─── its job ends ◀──────────────────────────────────────────┘
//! ```
//!
//! A member that failed, or that left the set while under way, may begin again. It counts as before
//! until the new job ends. So a server that may have the revision always counts.

use muster_shared::MonoTime;
use muster_template::Away;

use super::record::{Counts, MemberRecord};

/// A member. The default is a member with nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub state: State,
    pub counts: Counts,
    /// The member belongs to the present batch, even after it has ended.
    pub in_batch: bool,
}

/// State of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// The member has nothing to do, or has ended.
    #[default]
    Idle,
    /// The member waits to begin.
    Held,
    /// The member waits to begin, and its node is away.
    Absent { since: MonoTime },
    /// The node is still away, and members behind this one have started. The member counts as failed.
    Missed,
    /// The member has started.
    Begun { gone: Option<Gone> },
    /// The member has left the set while its job is under way. It takes its place in the batch
    /// until the job ends.
    Leaving,
}

/// The node of a member that has started is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub since: MonoTime,
    /// The batch no longer waits for the member.
    pub passed_over: bool,
}

/// An event of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The rollout begins, or goes on with another tree or after a restart.
    LaidOut(Standing, MonoTime),
    /// The member has something to do. The time: since when its node is away.
    Wanted(Option<MonoTime>),
    /// The member's job is already under way. The time: now, if its node is away.
    UnderWay(Option<MonoTime>),
    Begins,
    /// The member is as the revision wants it, or is no longer wanted.
    EndsWell,
    Fails,
    NodeGone(MonoTime),
    NodeBack,
    /// A member behind it begins first.
    Misses,
    /// The node has been gone for so long that the batch no longer waits for it.
    PassedOver,
    /// The member leaves the set.
    Leaves,
    /// The job of a member that left the set has ended.
    JobEnds(Ended),
    /// The next batch begins, without waiting for jobs of members that have left.
    NextBatch,
}

/// Facts about a member when its rollout is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub is_member: bool,
    pub is_ready: bool,
    /// A job is under way, even if the member has left the set.
    pub works: bool,
    pub is_there: bool,
}

/// Result of the job of a member that left the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Failed,
    /// The job was interrupted, so its result is unknown.
    Untold,
    /// The job never began.
    Unbegun,
}

/// The settings of a rollout that a member's transitions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub away: Away,
    /// The present batch is the canary.
    pub canary: bool,
}

impl Member {
    /// The member after an event.
    pub fn after(self, event: Event, rules: Rules) -> Self {
        use State::{Absent, Begun, Held, Idle, Leaving, Missed};
        let Self { state, counts, in_batch } = self;
        let now = |state| Self { state, ..self };
        let ended = |counts, in_batch| Self { state: Idle, counts, in_batch };
        let begun =
            |gone: Option<Gone>| Self { state: Begun { gone }, counts: counts.again(), in_batch: true };
        let waiting = |away: Option<MonoTime>| match away {
            Some(since) if rules.away != Away::Wait => now(Absent { since }),
            Some(_) | None => now(Held),
        };
        match (state, event) {
            (_, Event::LaidOut(standing, time)) => self.laid_out(standing, time),
            (Idle | Held | Absent { .. } | Missed | Leaving, Event::Wanted(away)) => waiting(away),
            (Idle | Held | Absent { .. } | Missed | Leaving, Event::UnderWay(away)) => {
                begun(away.map(Gone::new))
            }
            (_, Event::Begins) => begun(None),
            (_, Event::EndsWell) => ended(Counts::Nothing, in_batch),
            // The rollout ignores failures of members that have not started.
            (Idle | Held | Absent { .. } | Missed | Leaving, Event::Fails) if !in_batch => now(Idle),
            (_, Event::Fails) => ended(Counts::Failed, in_batch),
            (Begun { gone: None }, Event::NodeGone(time) | Event::UnderWay(Some(time))) => {
                now(Begun { gone: Some(Gone::new(time)) })
            }
            (Held, Event::NodeGone(time)) => waiting(Some(time)),
            // The member counted as failed because its node was gone. Its job has not failed yet.
            (Begun { gone: Some(_) }, Event::NodeBack) => {
                Self { state: Begun { gone: None }, counts: Counts::Nothing, in_batch }
            }
            (Absent { .. } | Missed, Event::NodeBack) => now(Held),
            (Absent { .. }, Event::Misses) => now(Missed),
            (Begun { gone: Some(gone) }, Event::PassedOver) => Self {
                state: Begun { gone: Some(Gone { passed_over: true, ..gone }) },
                counts: if rules.away == Away::Fail { Counts::Failed } else { counts },
                in_batch: in_batch && rules.canary,
            },
            (Begun { .. }, Event::Leaves) => now(Leaving),
            // Another member takes the place. In a canary it also does when the result of the left
            // one proves nothing.
            (Leaving, Event::JobEnds(Ended::Unbegun)) => ended(Counts::Nothing, false),
            (Leaving, Event::JobEnds(Ended::Well)) => ended(Counts::Nothing, in_batch && !rules.canary),
            (Leaving, Event::JobEnds(Ended::Untold)) => ended(counts.lost(), in_batch && !rules.canary),
            (Leaving, Event::JobEnds(Ended::Failed)) => ended(Counts::Failed, in_batch),
            (Leaving, Event::NextBatch) => ended(counts.lost(), false),
            (_, Event::NextBatch) => Self { in_batch: false, ..self },
            (Begun { .. }, Event::Wanted(_) | Event::UnderWay(_))
            | (Idle | Absent { .. } | Missed | Begun { gone: Some(_) } | Leaving, Event::NodeGone(_))
            | (Idle | Held | Begun { gone: None } | Leaving, Event::NodeBack)
            | (Idle | Held | Missed | Begun { .. } | Leaving, Event::Misses)
            | (Idle | Held | Absent { .. } | Missed | Begun { gone: None } | Leaving, Event::PassedOver)
            | (Idle | Held | Absent { .. } | Missed | Leaving, Event::Leaves)
            | (Idle | Held | Absent { .. } | Missed | Begun { .. }, Event::JobEnds(_)) => self,
        }
    }

    /// The state of the member when its rollout is laid out. A member that had started, or that left
    /// while under way, goes on. The caller reports again which members wait.
    fn laid_out(self, standing: Standing, now: MonoTime) -> Self {
        let Self { state, counts, in_batch } = self;
        let Standing { is_member, is_ready, works, is_there } = standing;
        let gone = if let State::Begun { gone: Some(gone) } = state { gone } else { Gone::new(now) };
        let goes_on = works || matches!(state, State::Begun { .. });
        let (state, counts) = match is_member {
            _ if !self.is_open() => (State::Idle, counts),
            true if is_ready => (State::Idle, Counts::Nothing),
            true if goes_on => (State::Begun { gone: (!is_there).then_some(gone) }, counts.again()),
            false if works => (State::Leaving, counts.again()),
            true | false => (State::Idle, counts.lost()),
        };
        Self { state, counts, in_batch: in_batch && (is_member || state == State::Leaving) }
    }

    /// Whether an event shows that the revision does not fail everywhere.
    pub fn proves(self, event: Event) -> bool {
        match (self.state, event) {
            (State::Begun { .. }, Event::EndsWell) | (State::Leaving, Event::JobEnds(Ended::Well)) => true,
            (_, Event::LaidOut(standing, _)) => standing.is_member && standing.is_ready && self.is_open(),
            _ => false,
        }
    }

    /// Whether the member has started and its result is unknown.
    fn is_open(self) -> bool {
        matches!(self.state, State::Begun { .. } | State::Leaving) || self.counts == Counts::Lost
    }

    /// Whether the member has, or may have, the revision.
    pub fn is_touched(self) -> bool {
        self.is_open() || self.counts == Counts::Failed
    }

    /// The record to persist, if there is anything to keep. After a restart the caller reports
    /// again which members wait and which nodes are away.
    pub fn record(self) -> Option<MemberRecord> {
        let Self { state, counts, in_batch } = self;
        let (begun, leaving) = (matches!(state, State::Begun { .. }), state == State::Leaving);
        let is_kept = begun || leaving || in_batch || counts != Counts::Nothing;
        is_kept.then_some(MemberRecord { begun, leaving, counts, in_batch })
    }

    pub fn load(record: MemberRecord) -> Self {
        let MemberRecord { begun, leaving, counts, in_batch } = record;
        let state = match (begun, leaving) {
            (_, true) => State::Leaving,
            (true, false) => State::Begun { gone: None },
            (false, false) => State::Idle,
        };
        Self { state, counts, in_batch }
    }
}

impl Gone {
    fn new(since: MonoTime) -> Self {
        Self { since, passed_over: false }
    }
}

impl Counts {
    /// The count of a member that begins: its result will be known.
    fn again(self) -> Self {
        match self {
            Counts::Nothing | Counts::Lost => Counts::Nothing,
            Counts::Failed => Counts::Failed,
        }
    }

    fn lost(self) -> Self {
        match self {
            Counts::Nothing | Counts::Lost => Counts::Lost,
            Counts::Failed => Counts::Failed,
        }
    }
}

#[cfg(test)]
mod tests;
