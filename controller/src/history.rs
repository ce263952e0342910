//! Samples of the site over the last hours, for charts: a ring in memory. A sample is a look at the driver between two
//! turns, as `/metrics` takes it; while the driver does not answer there is none.
//!
//! Absent: longer times, which are a matter for Prometheus.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::history::{HistoryView, SampleView};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{MissedTickBehavior, interval};

use crate::driver::DriverHandle;
use crate::link::LinkHandle;

/// Between two samples: twice as often as anybody would see in a chart of hours.
const EVERY: Duration = Duration::from_secs(30);
/// Samples that are kept: three hours, in some 60 KB.
const KEPT: usize = 360;

/// The samples. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    samples: VecDeque<(OffsetDateTime, SampleView)>,
    /// Jobs that had ended by the last sample.
    jobs: BTreeMap<&'static str, u64>,
}

/// The site as a look shows it.
#[derive(Debug, Default)]
struct Seen {
    nodes: u64,
    drifted: u64,
    jobs: Vec<(&'static str, u64)>,
}

impl History {
    /// Oldest first.
    pub fn view(&self) -> HistoryView {
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = ring.samples.back().map_or(OffsetDateTime::UNIX_EPOCH, |(at, _)| *at);
        let aged = |(at, sample): &(OffsetDateTime, SampleView)| {
            // A clock that was set back makes no age below 0.
            let age_seconds = u64::try_from((newest - *at).whole_seconds()).unwrap_or_default();
            SampleView { age_seconds, ..sample.clone() }
        };
        HistoryView { every_seconds: EVERY.as_secs(), samples: ring.samples.iter().map(aged).collect() }
    }

    /// Takes samples, the first one at once, for as long as this is polled.
    pub async fn follow(&self, driver: &DriverHandle, link: &LinkHandle) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let look = driver.query(|site| {
                let [online, offline, _revoked] = site.node_counts();
                Seen { nodes: online + offline, drifted: site.drifted_count(), jobs: site.job_ends() }
            });
            if let Ok(seen) = look.await {
                let connections = link.connections().welcomed as u64;
                self.add(seen, connections, OffsetDateTime::now_utc());
            }
        }
    }

    fn add(&self, Seen { nodes, drifted, jobs }: Seen, connections: u64, at: OffsetDateTime) {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs: BTreeMap<&'static str, u64> = jobs.into_iter().collect();
        // A failed commit loads the engine again, and its counts begin again.
        let since = |(outcome, count): (&&'static str, &u64)| {
            let before = ring.jobs.get(outcome).copied().unwrap_or_default();
            ((*outcome).to_owned(), if *count < before { *count } else { count - before })
        };
        let ended = match ring.samples.is_empty() {
            true => BTreeMap::new(),
            false => jobs.iter().map(since).filter(|(_, count)| *count > 0).collect(),
        };
        let text = at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_default();
        let sample = SampleView { at: text, age_seconds: 0, connections, nodes, drifted, jobs: ended };
        ring.samples.push_back((at, sample));
        ring.jobs = jobs;
        if ring.samples.len() > KEPT {
            ring.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_since_the_sample_before() {
        let history = History::default();
        for (completed, failed) in [(10, 1), (12, 1), (12, 1), (3, 0)] {
            let jobs = vec![("completed", completed), ("failed", failed)];
            history.add(Seen { jobs, ..Seen::default() }, 0, OffsetDateTime::UNIX_EPOCH);
        }
        let told: Vec<_> = history.view().samples.into_iter().map(|sample| sample.jobs).collect();
        let jobs = |count: u64| BTreeMap::from([("completed".to_owned(), count)]);
        // Of the first one nothing is known; the last one is after a load.
        assert_eq!(told, [BTreeMap::new(), jobs(2), BTreeMap::new(), jobs(3)]);
    }

    #[test]
    fn the_newest_samples_are_kept() {
        let history = History::default();
        for number in 0..KEPT as u64 + 7 {
            let seen = Seen { drifted: number, nodes: 3, ..Seen::default() };
            history.add(seen, 2, OffsetDateTime::UNIX_EPOCH + EVERY * u32::try_from(number).unwrap());
        }
        let HistoryView { every_seconds, samples } = history.view();
        assert_eq!((every_seconds, samples.len(), samples[0].drifted), (30, KEPT, 7));
        let SampleView { at, age_seconds, connections, nodes, .. } = &samples[0];
        assert_eq!((at.as_str(), *connections, *nodes), ("1970-01-01T00:03:30Z", 2, 3));
        assert_eq!((*age_seconds, samples[KEPT - 1].age_seconds), (EVERY.as_secs() * (KEPT as u64 - 1), 0));
    }
}
