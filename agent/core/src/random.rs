//! Random numbers from a seed, so that a fleet does not do everything at one time.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood): enough to spread a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A random duration of at most `most`.
    pub(crate) fn below(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).expect("delays are seconds");
        Duration::from_micros(self.next() % (micros + 1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
