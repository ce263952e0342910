//! Limits warnings that an outsider can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Enough to see the problem; a flooded log hides more.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets one warning through per [`PAUSE`] and counts the others.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<(Option<Instant>, u64)>);

impl Quiet {
    /// `Some` if the warning may be logged, with the number suppressed since the last one.
    pub fn tell(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|last| last.elapsed() < PAUSE) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(Instant::now());
        Some(std::mem::take(&mut state.1))
    }
}
