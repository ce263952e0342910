//! The end of the agent: running jobs get a while, and unconfirmed changes are undone.
//!
//! Absent: the controller. Nothing is sent any more.

use std::time::Duration;

use muster_agent_core::{Effect, Input};
use muster_shared::MonoTime;
use tokio::time::{Instant, sleep_until};

use super::{Driver, sleep_to};

/// The time that running jobs get when the agent is told to stop; a job that has not ended runs again after
/// the restart.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// The time to restore an unconfirmed change at the end: longer than for other work, since perhaps nobody
/// starts the agent again, and the server is cut off. systemd waits for 30 s (`TimeoutStopSec`).
const PUT_BACK_WITHIN: Duration = Duration::from_secs(25);

impl Driver {
    /// Waits a while for running jobs, undoes unconfirmed changes, and sends nothing any more.
    pub(super) async fn stop(&mut self) {
        self.connection = None;
        self.inbox.push_back(Input::Stop);
        let begun = Instant::now();
        let end = async {
            loop {
                self.turn_to_the_end();
                if self.runs.is_empty() && !self.machine.is_guarding() {
                    break;
                }
                // A failed restore is tried again after a while.
                let wake = self.machine.poll_timeout().map(|(at, _)| self.start + at.0);
                let is_guarding = self.machine.is_guarding();
                let limit = if is_guarding { PUT_BACK_WITHIN } else { STOP_WITHIN };
                tokio::select! {
                    Some(done) = self.tasks.join_next_with_id() => {
                        if let Ok((task, done)) = done {
                            self.done(task, done);
                        }
                    }
                    (device, input) = self.flows.said() => self.flow_said(device, input),
                    () = sleep_to(wake), if is_guarding => self.inbox.push_back(Input::Timeout),
                    () = sleep_until(begun + limit) => return false,
                }
            }
            true
        };
        if !end.await {
            tracing::warn!("a job did not end in time: it runs again, or is restored, when the agent starts");
        }
        self.sync();
    }

    /// Like [`Driver::turn`], without the controller.
    fn turn_to_the_end(&mut self) {
        loop {
            while let Some(input) = self.inbox.pop_front() {
                self.machine.handle(MonoTime(self.start.elapsed()), input);
            }
            while let Some(effect) = self.machine.poll_effect() {
                // Writes and work under way still matter; nothing new may begin.
                match effect {
                    Effect::Write { .. }
                    | Effect::Cancel(_)
                    | Effect::Flow { .. }
                    | Effect::LocalEnded(_)
                    | Effect::Restore { .. }
                    | Effect::Fallback { .. } => {
                        self.execute(effect);
                    }
                    _ => {}
                }
            }
            self.sync();
            if self.inbox.is_empty() {
                break;
            }
        }
    }
}
