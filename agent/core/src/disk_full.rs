//! Room for what the agent records, and what happens once its disk is full.
//!
//! ```text
//!   Room ─refused─▶ Full ─time─▶ FindRoom ─Ok─▶ Room
//!                    ▲                │ Err
//!                    └─ longer pause ─┘
//! ```
//!
//! A node whose disk is full stays connected and reports this. Until the node reports room again, the
//! controller sends only jobs that free room. If the disk refused even the controller's epoch, the agent
//! accepts no job.
//!
//! Absent: the room itself. `agent/src/state_dir.rs` looks for it, and holds a reserve for the records of
//! removals. The choice of jobs is the controller's (`controller/engine/src/node/disk_full.rs`).

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::Outcome;

use crate::effects::Effects;
use crate::face::Effect;

/// The pause between two looks for room: doubled each time, up to `PAUSE_MAX`.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Whether the disk of the agent's state directory accepts records.
#[derive(Debug, Default)]
pub(crate) enum Disk {
    #[default]
    Room,
    Full {
        reason: String,
        pause: Duration,
        /// When to look for room again; `None` while a look is under way.
        look_at: Option<MonoTime>,
    },
}

impl Disk {
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Disk::Full { .. })
    }

    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        match self {
            Disk::Full { look_at, .. } => look_at.map(|at| (at, "look for room")),
            Disk::Room => None,
        }
    }

    /// Looks for room if it is time.
    pub(crate) fn look(&mut self, now: MonoTime, effects: &mut Effects) {
        if let Disk::Full { look_at, .. } = self
            && look_at.take_if(|at| now >= *at).is_some()
        {
            effects.push(Effect::FindRoom);
        }
    }

    /// Records the result of a look. Returns whether the result is news.
    pub(crate) fn found(&mut self, now: MonoTime, found: Result<(), String>) -> bool {
        match (found, &mut *self) {
            (Ok(()), Disk::Full { .. }) => *self = Disk::Room,
            (Err(reason), Disk::Room) => {
                *self = Disk::Full { reason, pause: PAUSE_FIRST, look_at: Some(now + PAUSE_FIRST) };
            }
            (Err(_), Disk::Full { pause, look_at: look_at @ None, .. }) => {
                *pause = (*pause * 2).min(PAUSE_MAX);
                *look_at = Some(now + *pause);
                return false;
            }
            (Ok(()), Disk::Room) | (Err(_), Disk::Full { .. }) => return false,
        }
        true
    }

    /// The reason why the disk accepts no records, if it is full.
    pub(crate) fn full(&self) -> Option<&str> {
        match self {
            Disk::Full { reason, .. } => Some(reason),
            Disk::Room => None,
        }
    }

    /// The outcome of a job whose record was refused.
    pub(crate) fn failed(&self, reason: &str) -> Outcome {
        let reason = format!("cannot write on the node's disk: {reason}");
        if self.is_full() { Outcome::NoRoom { reason } } else { Outcome::Failed { reason, permanent: false } }
    }
}
