//! A failing run made smaller: faults are left out as long as it still fails.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::fault::Fired;
use super::{Options, run};

/// An operator who looks at a failure does not wait longer.
const WITHIN: Duration = Duration::from_secs(60);

/// The faults that remain when as many as possible have been left out, one part after the other and in the end one
/// at a time; with what is wrong then.
pub fn shrink(options: Options, fired: Vec<Fired>, violation: String) -> (Vec<Fired>, String) {
    let began = Instant::now();
    let mut left_out: BTreeSet<u64> = BTreeSet::new();
    let (mut fired, mut violation) = (fired, violation);
    let mut part = fired.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < fired.len() {
            if began.elapsed() > WITHIN {
                return (fired, violation);
            }
            let mut without = left_out.clone();
            without.extend(fired[at..fired.len().min(at + part)].iter().map(|fault| fault.number));
            let outcome = run(options, without.clone(), None);
            match outcome.violation {
                Some(still) if is_like(&still, &violation) => {
                    (left_out, fired, violation) = (without, outcome.fired, still);
                    smaller = true;
                }
                _ => at += part,
            }
        }
        // The numbers of faults after a change are others: as long as something goes, the same size is tried again.
        if !smaller || part > 1 {
            part /= 2;
        }
    }
    (fired, violation)
}

/// Returns whether two violations begin alike, and so are the same.
fn is_like(one: &str, other: &str) -> bool {
    one.split_whitespace().take(2).eq(other.split_whitespace().take(2))
}
