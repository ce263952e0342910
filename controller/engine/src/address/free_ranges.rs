//! Free addresses of a subnet, as ranges of numbers. Taking and freeing a number costs the
//! logarithm of the number of gaps.
//!
//! Absent: which port gets which address (`address.rs`).

use std::collections::BTreeMap;

/// Ranges of numbers, first to last. No two ranges touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreeRanges(BTreeMap<u128, u128>);

impl FreeRanges {
    /// The least free number.
    pub fn first(&self) -> Option<u128> {
        self.0.first_key_value().map(|(first, _)| *first)
    }

    /// Marks a number as taken.
    pub fn take(&mut self, number: u128) {
        let Some((&first, &last)) = self.0.range(..=number).next_back().filter(|(_, last)| **last >= number)
        else {
            return;
        };
        self.0.remove(&first);
        if first < number {
            self.0.insert(first, number - 1);
        }
        if number < last {
            self.0.insert(number + 1, last);
        }
    }

    /// Marks a range as free. Ranges that touch become one.
    pub fn give(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        let touching: Vec<u128> = self
            .0
            .range(..=last.saturating_add(1))
            .rev()
            .take_while(|(_, end)| end.saturating_add(1) >= first)
            .map(|(start, _)| *start)
            .collect();
        for start in touching {
            if let Some(end) = self.0.remove(&start) {
                (first, last) = (first.min(start), last.max(end));
            }
        }
        self.0.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0u128..40, 0u128..6, any::<bool>()), 0..80)) {
            let (mut free, mut set) = (FreeRanges::default(), BTreeSet::new());
            for (first, more, gives) in steps {
                if gives {
                    free.give(first, first + more);
                    set.extend(first..=first + more);
                } else {
                    free.take(first);
                    set.remove(&first);
                }
                let numbers: BTreeSet<u128> = free.0.iter().flat_map(|(first, last)| *first..=*last).collect();
                prop_assert_eq!(&numbers, &set);
                let touching = free.0.iter().zip(free.0.iter().skip(1)).any(|((_, end), (next, _))| end + 1 >= *next);
                prop_assert!(!touching);
                prop_assert_eq!(free.first(), set.first().copied());
            }
        }
    }

    #[test]
    fn the_last_number_there_is() {
        let mut free = FreeRanges::default();
        free.give(u128::MAX, u128::MAX);
        free.give(u128::MAX - 1, u128::MAX - 1);
        free.take(u128::MAX);
        assert_eq!(free.0, BTreeMap::from([(u128::MAX - 1, u128::MAX - 1)]));
    }
}
