//! Reads all that has arrived from the controller before a job begins: the job's withdrawal may have arrived
//! too, after the server or its disk stalled.

use muster_agent_core::Input;
use tokio::task::yield_now;

use super::Driver;

/// Turns of the runtime until bytes in the socket reach the driver: one asks the kernel, one lets the link's
/// task read, one more covers a packet in several pieces.
const TURNS: usize = 3;
/// The most inputs handled before jobs begin although more inputs arrive: a controller that never pauses
/// must not delay them. At most 256 jobs are under way for a node; each arrives, may be withdrawn, and is
/// written twice.
const INPUTS_MAX: usize = 4096;

/// Whether jobs may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The number of inputs handled since jobs could last begin: any of them may have given a job its turn.
    On(usize),
    /// Every input was read, and none was handled since.
    CaughtUp,
}

impl Default for Reading {
    fn default() -> Self {
        Self::On(0)
    }
}

impl Reading {
    pub fn goes_on(self) -> bool {
        self != Self::CaughtUp
    }

    pub fn is_overdue(self) -> bool {
        matches!(self, Self::On(inputs) if inputs > INPUTS_MAX)
    }

    pub fn handled(&mut self, input: &Input) {
        *self = match (*self, input) {
            (_, Input::CaughtUp) => Self::CaughtUp,
            (Self::CaughtUp, _) => Self::On(1),
            (Self::On(inputs), _) => Self::On(inputs + 1),
        };
    }
}

/// Lets what has arrived reach the driver.
pub(super) async fn arrivals() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

impl Driver {
    /// Takes the next packet; without one, lets jobs begin.
    pub(super) fn read_on(&mut self) {
        match self.connection.as_mut().and_then(|connection| connection.events.try_recv().ok()) {
            Some(event) => self.event(Some(event)),
            None => self.inbox.push_back(Input::CaughtUp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_never_pauses_holds_nothing_up() {
        let mut reading = Reading::default();
        for _ in 0..INPUTS_MAX {
            reading.handled(&Input::Timeout);
            assert!(reading.goes_on() && !reading.is_overdue());
        }
        reading.handled(&Input::Timeout);
        assert!(reading.is_overdue());
        reading.handled(&Input::CaughtUp);
        assert!(!reading.goes_on() && !reading.is_overdue());
        reading.handled(&Input::Timeout);
        assert!(reading.goes_on() && !reading.is_overdue());
    }
}
