//! Operations that have failed, and rollouts that wait for somebody.

use muster_api::stack::{StackRow, StackView};
use muster_shared::finding::Finding;

use super::sample::Sample;
use crate::failure::Failure;
use crate::output::count;

/// Counted stack by stack.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    stacks: u64,
    failed: Sample,
    paused: Sample,
    timed_out: Sample,
}

impl Operations {
    pub fn add(&mut self, stack: &StackRow) {
        self.stacks += 1;
        if stack.status == "FAILED" {
            self.failed.add(format!("{} ({})", stack.name, stack.action));
        }
    }

    /// Adds the rollouts of a stack whose operation is under way.
    pub fn add_rollouts(&mut self, stack: &StackView) {
        let name = |resource: &str| format!("{} of {}", resource, stack.name);
        for rollout in &stack.rollouts {
            match rollout.state.as_str() {
                "paused" => self.paused.add(name(&rollout.resource)),
                "timed_out" => self.timed_out.add(name(&rollout.resource)),
                _ => {}
            }
        }
    }

    /// `cut`: why not all stacks could be looked at.
    pub fn findings(&self, cut: Option<&Failure>) -> Vec<Finding> {
        let bad = [
            ("stacks", &self.failed, "operation has failed", "muster stack failures NAME"),
            (
                "rollouts",
                &self.paused,
                "rollout is paused",
                "muster stack rollout STACK resume, or abort; muster stack show STACK draws it",
            ),
            ("rollouts", &self.timed_out, "rollout has run out of time", "muster stack rollout STACK resume"),
        ];
        let bad = bad.into_iter().filter(|(_, sample, ..)| !sample.is_empty());
        let mut findings: Vec<Finding> = bad
            .map(|(check, sample, what, remedy)| {
                let what = if sample.count() == 1 { what.to_owned() } else { plural(what) };
                Finding::warning(check, format!("{} {what}: {}", sample.count(), sample.names()), remedy)
            })
            .collect();
        if self.failed.is_empty() {
            findings.insert(
                0,
                Finding::ok("stacks", format!("{}; no operation has failed", count(self.stacks, "stack"))),
            );
        }
        findings.extend(cut.map(|failure| {
            let found = format!("not all stacks were looked at: {}", failure.lines.join("; "));
            Finding::warning("stacks", found, "run this command again when the controller is less busy")
        }));
        findings
    }
}

/// `rollout is` → `rollouts are`
fn plural(what: &str) -> String {
    what.replacen(" is ", "s are ", 1).replacen(" has ", "s have ", 1)
}

#[cfg(test)]
mod tests {
    use muster_api::stack::RolloutView;
    use muster_shared::finding::Severity::{Ok, Warning};

    use super::*;

    fn row(name: &str, status: &str) -> StackRow {
        StackRow { name: name.into(), action: "UPDATE".into(), status: status.into(), ..StackRow::default() }
    }

    fn rollout(state: &str) -> StackView {
        let rollout = RolloutView { resource: "motd".into(), state: state.into(), ..RolloutView::default() };
        StackView { name: "web".into(), rollouts: vec![rollout], ..StackView::default() }
    }

    #[test]
    fn failures_and_rollouts_that_wait_are_found() {
        let mut operations = Operations::default();
        operations.add(&row("web", "IN_PROGRESS"));
        for state in ["going", "aborted"] {
            operations.add_rollouts(&rollout(state));
        }
        assert_eq!(operations.findings(None), [Finding::ok("stacks", "1 stack; no operation has failed")]);
        operations.add_rollouts(&rollout("paused"));
        operations.add_rollouts(&rollout("paused"));
        operations.add_rollouts(&rollout("timed_out"));
        let found = operations.findings(None);
        let shown: Vec<_> = found.iter().map(|finding| (finding.state, finding.found.as_str())).collect();
        assert_eq!(
            shown,
            [
                (Ok, "1 stack; no operation has failed"),
                (Warning, "2 rollouts are paused: motd of web, motd of web"),
                (Warning, "1 rollout has run out of time: motd of web"),
            ]
        );
        operations.add(&row("db", "FAILED"));
        let found = operations.findings(Some(&Failure::failed("too slow")));
        assert_eq!(
            (found[0].state, found[0].found.as_str()),
            (Warning, "1 operation has failed: db (UPDATE)")
        );
        assert_eq!(found.last().unwrap().found, "not all stacks were looked at: too slow");
    }
}
