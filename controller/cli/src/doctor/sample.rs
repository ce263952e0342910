//! A count of things, and the first of them by name; and what is found in them.

use muster_shared::finding::Finding;

use crate::failure::Failure;
use crate::output::count;

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

/// What was counted of one kind, for [`findings`].
pub struct Counted<'a> {
    /// The check's name, and that of the things in the plural.
    pub check: &'static str,
    /// The things in the singular, and their number.
    pub of: (&'static str, u64),
    /// Bad ones, the words for them, and what to do.
    pub bad: &'a [(&'a Sample, &'static str, &'static str)],
    /// The words where none is bad.
    pub good: &'static str,
}

/// A warning for each kind of bad ones, or that all is well; nothing where there is none at all. `cut`: why not all
/// could be looked at.
pub fn findings(counted: &Counted<'_>, cut: Option<&Failure>) -> Vec<Finding> {
    let Counted { check, of: (one, number), bad, good } = *counted;
    let all = count(number, one);
    let mut findings = Vec::new();
    for (sample, what, remedy) in bad.iter().filter(|(sample, ..)| !sample.is_empty()) {
        let verb = if sample.count() == 1 { "is" } else { "are" };
        let found = format!("{} of {all} {verb} {what}: {}", sample.count(), sample.names());
        findings.push(Finding::warning(check, found, *remedy));
    }
    if findings.is_empty() && number > 0 {
        findings.push(Finding::ok(check, format!("{all}; {good}")));
    }
    findings.extend(cut.map(|failure| {
        let found = format!("not all {check} were looked at: {}", failure.lines.join("; "));
        Finding::warning(check, found, "run this command again when the controller is less busy")
    }));
    findings
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
