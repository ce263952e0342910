//! Intents that cannot be installed, whose bridges differ, or whose packets do not arrive.

use muster_api::intent::IntentRow;
use muster_shared::finding::Finding;

use super::sample::{Counted, Sample, findings};
use crate::failure::Failure;

/// Counted intent by intent.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    intents: u64,
    failed: Sample,
    corrupt: Sample,
    broken: Sample,
}

impl Paths {
    pub fn add(&mut self, intent: &IntentRow) {
        self.intents += 1;
        match intent.state.as_str() {
            "FAILED" => self.failed.add(&*intent.key),
            "CORRUPT" => self.corrupt.add(&*intent.key),
            _ if intent.broken.is_some() => self.broken.add(&*intent.key),
            _ => {}
        }
    }

    /// None for a site without intents. `cut`: why not all intents could be looked at.
    pub fn findings(&self, cut: Option<&Failure>) -> Vec<Finding> {
        let bad = [
            (&self.failed, "FAILED", "muster intent show KEY says which path, host or room is missing"),
            (
                &self.corrupt,
                "CORRUPT",
                "muster intent show KEY names the bridge; the controller tries again, with pauses",
            ),
            (
                &self.broken,
                "broken: packets do not arrive",
                "muster intent verify KEY shows where, and which other rule takes them",
            ),
        ];
        let good = "none is FAILED, CORRUPT or broken";
        findings(&Counted { check: "intents", of: ("intent", self.intents), bad: &bad, good }, cut)
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Ok, Warning};

    use super::*;

    fn intent(key: &str, state: &str, broken: Option<&str>) -> IntentRow {
        let (key, state, broken) = (key.to_owned(), state.to_owned(), broken.map(ToOwned::to_owned));
        IntentRow { key, state, broken, ..IntentRow::default() }
    }

    #[test]
    fn each_fault_of_an_intent_is_found() {
        for (bad, state, words) in [
            (intent("b", "INSTALLED", None), Ok, "2 intents; none is FAILED, CORRUPT or broken"),
            (intent("b", "WITHDRAWN", None), Ok, "2 intents"),
            (intent("b", "FAILED", None), Warning, "1 of 2 intents is FAILED: b"),
            (intent("b", "CORRUPT", None), Warning, "1 of 2 intents is CORRUPT: b"),
            (
                intent("b", "INSTALLED", Some("lost")),
                Warning,
                "1 of 2 intents is broken: packets do not arrive: b",
            ),
        ] {
            let mut paths = Paths::default();
            paths.add(&intent("a", "INSTALLED", None));
            paths.add(&bad);
            let found = paths.findings(None);
            let [finding] = &found[..] else { panic!("{found:?}") };
            assert_eq!((finding.check, finding.state), ("intents", state));
            assert!(finding.found.starts_with(words), "{}", finding.found);
        }
        assert_eq!(Paths::default().findings(None), []);
        let found = Paths::default().findings(Some(&Failure::failed("too slow")));
        assert_eq!(found[0].found, "not all intents were looked at: too slow");
    }
}
