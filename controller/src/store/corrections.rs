//! The record of a resource's corrections, and of remakes after an agent lost it, as one text: JSON of the
//! count, the last time (seconds of the steady clock), the seconds from the first to that, given up; then,
//! after remakes, their count, their last time, and the seconds from the first to that.
//!
//! Absent: when a correction may begin, and when the breaker opens (`controller/engine/src/drift/breaker.rs`).

use std::time::Duration;

use muster_engine::record::{Corrections, Rebuilds};

use super::database::{began, json};
use super::load::since;

type Corrected = (u32, i64, u64, bool);
type CorrectedAndRebuilt = (u32, i64, u64, bool, (u32, i64, u64));

pub(super) fn written(it: &Corrections, steady: i64) -> String {
    let (count, last, lasted) = (it.count, began(steady, it.ago), it.lasted.as_secs());
    match &it.made_again {
        None => json::<Corrected>(&(count, last, lasted, it.open)),
        Some(again) => {
            let again = (again.count, began(steady, again.ago), again.lasted.as_secs());
            json::<CorrectedAndRebuilt>(&(count, last, lasted, it.open, again))
        }
    }
}

/// `None`: the text is no such record.
pub(super) fn read(text: &str, steady: i64) -> Option<Corrections> {
    let corrected = |(count, last, lasted, open): Corrected, made_again| Corrections {
        count,
        ago: since(steady, last),
        lasted: Duration::from_secs(lasted),
        open,
        made_again,
    };
    if let Ok(it) = serde_json::from_str::<Corrected>(text) {
        return Some(corrected(it, None));
    }
    let (count, last, lasted, open, again) = serde_json::from_str::<CorrectedAndRebuilt>(text).ok()?;
    let (again, again_last, again_lasted) = again;
    let made_again =
        Rebuilds { count: again, ago: since(steady, again_last), lasted: Duration::from_secs(again_lasted) };
    Some(corrected((count, last, lasted, open), Some(made_again)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let seconds = Duration::from_secs;
        let made_again = Rebuilds { count: 2, ago: seconds(7), lasted: seconds(3) };
        for made_again in [None, Some(made_again)] {
            let it = Corrections { count: 5, ago: seconds(40), lasted: seconds(15), open: true, made_again };
            assert_eq!(read(&written(&it, 1000), 1000), Some(it));
            let later = read(&written(&it, 1000), 1010).map(|it| it.ago);
            assert_eq!(later, Some(seconds(50)));
        }
        assert!(read("[5,960,15,true]", 1000).is_some(), "never made again");
        assert_eq!(read("[5,960]", 1000), None);
    }
}
