//! A clock for periods without a running controller: waits, and the age of a correction.
//!
//! The clock starts at seconds since 1970 when the database is first opened after a boot of the
//! machine. From then on it follows the machine's uptime: a change of the wall clock ends no wait
//! and closes no breaker. After a boot, and on another machine, the wall clock counts again.

use std::fs;

use time::OffsetDateTime;

use super::sql::Db;
use super::{StoreError, meta};

/// The machine's clocks.
pub struct Machine {
    /// Differs after each boot.
    pub boot: String,
    /// Seconds since that.
    pub up: i64,
    /// Seconds since 1970.
    pub clock: i64,
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyClock {
    /// When the machine booted. `None`: its uptime is unknown.
    booted: Option<i64>,
}

impl SteadyClock {
    /// The clock as the database has it for this boot, or else from the wall clock, from now on.
    pub(super) fn open(db: &Db) -> Result<Self, StoreError> {
        let kept = meta::text(db, "steady")?;
        let Some(machine) = Machine::now() else { return Ok(Self { booted: None }) };
        let (steady, text) = Self::of(kept.as_deref(), &machine);
        if kept.as_ref() != Some(&text) {
            // A full disk must not prevent a start; the next one writes the value.
            if let Err(error) = db.transaction(|| meta::put(db, "steady", &text)) {
                tracing::warn!(%error, "cannot write when this machine booted: a clock that is set before the next start counts");
            }
        }
        Ok(steady)
    }

    /// With the text that is kept of it.
    pub fn of(kept: Option<&str>, machine: &Machine) -> (Self, String) {
        let same_boot = kept.and_then(|kept| kept.strip_prefix(&machine.boot)?.trim_start().parse().ok());
        let booted = same_boot.unwrap_or(machine.clock.saturating_sub(machine.up));
        (Self { booted: Some(booted) }, format!("{} {booted}", machine.boot))
    }

    /// Seconds since 1970, or nearly.
    pub(super) fn now(self) -> i64 {
        self.since_boot(up()).unwrap_or_else(clock)
    }

    /// The same, of this machine.
    pub fn at(self, machine: &Machine) -> i64 {
        self.since_boot(Some(machine.up)).unwrap_or(machine.clock)
    }

    fn since_boot(self, up: Option<i64>) -> Option<i64> {
        self.booted.zip(up).map(|(booted, up)| booted.saturating_add(up))
    }
}

impl Machine {
    fn now() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot = boot.trim();
        (!boot.is_empty()).then_some(())?;
        Some(Self { boot: boot.to_owned(), up: up()?, clock: clock() })
    }
}

fn up() -> Option<i64> {
    fs::read_to_string("/proc/uptime").ok()?.split('.').next()?.parse().ok()
}

fn clock() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_moves_nothing() {
        let machine = |boot: &str, up, clock| Machine { boot: boot.into(), up, clock };
        // The stored value, the machine, and the expected boot time.
        for (kept, machine, wanted) in [
            (None, machine("a", 100, 5000), 4900),
            (Some("a 4900"), machine("a", 200, 5100), 4900),
            (Some("a 4900"), machine("a", 200, 9_999_999), 4900),
            (Some("a 4900"), machine("a", 200, 3), 4900),
            (Some("a 4900"), machine("b", 10, 6000), 5990),
            (Some("nonsense"), machine("a", 100, 5000), 4900),
        ] {
            let (steady, text) = SteadyClock::of(kept, &machine);
            assert_eq!(steady, SteadyClock { booted: Some(wanted) }, "{kept:?}");
            assert_eq!(text, format!("{} {wanted}", machine.boot));
        }
    }

    #[test]
    fn what_is_kept_counts_for_this_boot_alone() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::sqlite(&folder.path().join("db")).unwrap();
        db.batch("CREATE TABLE meta (key TEXT PRIMARY KEY, value)").unwrap();
        let near = |steady: SteadyClock| (steady.now() - clock()).abs() <= 2;
        let first = SteadyClock::open(&db).unwrap();
        assert!(near(first));
        assert_eq!(SteadyClock::open(&db).unwrap(), first);
        // The clock was set back by a year since.
        let text = meta::text(&db, "steady").unwrap().unwrap();
        let (boot, booted) = text.split_once(' ').unwrap();
        let ahead = booted.parse::<i64>().unwrap() + 365 * 86_400;
        meta::put(&db, "steady", &format!("{boot} {ahead}")).unwrap();
        let steady = SteadyClock::open(&db).unwrap();
        assert!((steady.now() - clock() - 365 * 86_400).abs() <= 2);
        meta::put(&db, "steady", &format!("other {ahead}")).unwrap();
        assert!(near(SteadyClock::open(&db).unwrap()), "another boot");
    }
}
