//! Decides whether the driver is stuck, through its own inbox, as operators use it. A separate task would answer even
//! if the driver is stuck.
//!
//! Absent: what systemd hears, and for which sites (`run/process.rs`).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::driver::{Busy, DriverHandle};

/// Looks within one watchdog period: a single late one does no harm.
const LOOKS: u32 = 4;
/// Watchdog periods that a turn may take to decide. With 30 s that is two minutes: four times the time of the
/// largest stack (2,000,000 resources).
const DECIDING_MAX: u32 = 4;
/// Watchdog periods that a turn may take to write. With 30 s that is ten minutes: restarting the controller
/// does not repair a disk that hangs, and would lose pending work.
const WRITING_MAX: u32 = 20;

/// Asks the driver again and again, and tells, several times in a `watchdog`'s time, whether it is well.
/// Never ends.
pub async fn follow(driver: &DriverHandle, watchdog: Duration, tell: impl Fn(bool)) {
    loop {
        let asked = Instant::now();
        let mut answered = std::pin::pin!(answer(driver, watchdog / LOOKS));
        loop {
            tokio::select! {
                () = answered.as_mut() => break tell(true),
                () = sleep(watchdog / LOOKS) => tell(is_well(asked.elapsed(), driver.busy(), watchdog)),
            }
        }
        sleep(watchdog / LOOKS).await;
    }
}

/// Waits for a sign of the driver. One that is overloaded is asked again, for a stuck one looks the same.
async fn answer(driver: &DriverHandle, pause: Duration) {
    while driver.query(|_| ()).await.is_err() {
        sleep(pause).await;
    }
}

/// Whether a driver that has not answered for so long may still be at work.
fn is_well(silent: Duration, busy: Busy, watchdog: Duration) -> bool {
    silent
        < watchdog
            * match busy {
                Busy::Deciding => DECIDING_MAX,
                Busy::Writing => WRITING_MAX,
            }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_has_more_time_than_who_decides() {
        let watchdog = Duration::from_secs(30);
        for (silent, deciding, writing) in
            [(0, true, true), (119, true, true), (120, false, true), (599, false, true), (600, false, false)]
        {
            let silent = Duration::from_secs(silent);
            assert_eq!(is_well(silent, Busy::Deciding, watchdog), deciding, "{silent:?}");
            assert_eq!(is_well(silent, Busy::Writing, watchdog), writing, "{silent:?}");
        }
    }
}
