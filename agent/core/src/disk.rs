//! Room for what the agent records.
//!
//! ```text
//!   Room ─refused─▶ Full ─time─▶ FindRoom ─Ok─▶ Room
//!                    ▲                │ Err
//!                    └─ longer pause ─┘
//! ```
//!
//! A node whose disk is full stays connected and says so: the controller gives it only jobs that free room, until it says
//! that there is room again. Where not even the controller's epoch could be recorded, no job is taken at all.

use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{Outcome, Up};

use crate::agent::{After, Agent};
use crate::face::Effect;

/// Between two looks for room: this, doubled each time, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Whether the disk of the agent's own directory takes what it records.
#[derive(Debug, Default)]
pub(crate) enum Disk {
    #[default]
    Room,
    Full {
        reason: String,
        pause: Duration,
        /// None: it is being looked at.
        look_at: Option<MonoTime>,
    },
}

impl Disk {
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Disk::Full { .. })
    }
}

impl Agent {
    pub(crate) fn disk_timeout(&self) -> Option<(MonoTime, &'static str)> {
        match self.disk {
            Disk::Full { look_at, .. } => look_at.map(|at| (at, "look for room")),
            Disk::Room => None,
        }
    }

    /// Looks for room if it is time.
    pub(crate) fn look_for_room(&mut self) {
        if let Disk::Full { look_at, .. } = &mut self.disk
            && look_at.take_if(|at| self.now >= *at).is_some()
        {
            self.effects.push_back(Effect::FindRoom);
        }
    }

    pub(crate) fn room(&mut self, found: Result<(), String>) {
        match (found, &mut self.disk) {
            (Ok(()), Disk::Full { .. }) => {
                self.disk = Disk::Room;
                self.tell_disk();
                for resource in self.stale.keys().copied().collect::<Vec<_>>() {
                    self.write(resource, After::Nothing(resource));
                }
                if self.epoch_refused {
                    self.reconnect("there is room again to record the controller's epoch");
                }
            }
            (Err(reason), Disk::Room) => {
                self.warn(format!("there is no room for what the agent records: {reason}"));
                let look_at = Some(self.now + PAUSE_FIRST);
                self.disk = Disk::Full { reason, pause: PAUSE_FIRST, look_at };
                // Records come before what may be fetched again.
                self.fetch.drop_kept(&mut self.effects);
                self.tell_disk();
            }
            (Err(_), Disk::Full { pause, look_at: look_at @ None, .. }) => {
                *pause = (*pause * 2).min(PAUSE_MAX);
                *look_at = Some(self.now + *pause);
            }
            (Ok(()), Disk::Room) | (Err(_), Disk::Full { .. }) => {}
        }
    }

    /// Somebody listens who takes the disk to have room.
    pub(crate) fn disk_greeted(&mut self) {
        if self.disk.is_full() {
            self.tell_disk();
        }
    }

    fn tell_disk(&mut self) {
        let full = match &self.disk {
            Disk::Full { reason, .. } => Some(reason.clone()),
            Disk::Room => None,
        };
        if self.session.is_open() {
            self.effects.push_back(Effect::Send(Up::DiskFull(full)));
        }
    }

    /// How a job ends whose record was refused.
    pub(crate) fn disk_failed(&self, reason: &str) -> Outcome {
        let reason = format!("cannot write on the node's disk: {reason}");
        if self.disk.is_full() {
            Outcome::NoRoom { reason }
        } else {
            Outcome::Failed { reason, permanent: false }
        }
    }
}
