//! Durations, as a histogram that one thread fills and the API reads. A measurement is two additions to atomics: no
//! lock, no allocation, so the driver can afford one in each turn (docs/decisions/0027-metrics-library.md).
//!
//! Absent: the clock. The caller has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The upper bounds of the buckets in seconds, two for each power of ten: from a turn that has nothing to do to the
/// longest wait for a database. Each is a time series for the reader.
const BOUNDS: [f64; 12] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Counted durations. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Durations(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// By the bound that a duration does not exceed; the last one has those that exceed all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Durations {
    /// Adds a duration.
    pub fn add(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.iter().take_while(|bound| seconds > **bound).count();
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        // Centuries fit.
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // Of what was loaded, so that the count is that of the last bucket.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_duration_is_in_all_buckets_that_it_does_not_exceed() {
        let durations = Durations::default();
        let shared = durations.clone();
        [100, 101, 3000, 31_000_000].into_iter().for_each(|us| shared.add(Duration::from_micros(us)));
        let mut registry = Registry::default();
        registry.register("turn_seconds", "Turns", durations);
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        let counts: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("turn_seconds_")).collect();
        let wanted = [
            "bucket{le=\"0.0001\"} 1",
            "bucket{le=\"0.0003\"} 2",
            "bucket{le=\"0.001\"} 2",
            "bucket{le=\"0.003\"} 3",
        ];
        assert_eq!(counts[..4], wanted, "{text}");
        assert_eq!(
            counts[11..],
            ["bucket{le=\"30\"} 3", "bucket{le=\"+Inf\"} 4", "sum 31.003201", "count 4"]
        );
    }
}
