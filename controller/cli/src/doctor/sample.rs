//! A count of things, and the first of them by name.

/// Names that are told.
const FIRST: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    count: usize,
    first: Vec<String>,
}

impl Sample {
    pub fn add(&mut self, name: impl Into<String>) {
        self.count += 1;
        if self.first.len() < FIRST {
            self.first.push(name.into());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// `a, b and 3 more`
    pub fn names(&self) -> String {
        let more = self.count - self.first.len();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        self.first.join(", ") + &rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_rest_counted() {
        let mut sample = Sample::default();
        assert!(sample.is_empty() && sample.names().is_empty());
        for name in ["a", "b", "c", "d", "e"] {
            sample.add(name);
        }
        assert_eq!(sample.names(), "a, b, c, d, e");
        sample.add("f");
        sample.add("g");
        assert_eq!((sample.count(), sample.names().as_str()), (7, "a, b, c, d, e and 2 more"));
    }
}
