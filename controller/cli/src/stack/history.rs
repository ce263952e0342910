//! `stack revisions` and `stack failures`, as tables.
//!
//! Absent: which revisions are kept (`controller/engine/src/operation.rs`), and which failures
//! (`controller/engine/src/failure.rs`).

use std::fmt::Write;

use muster_api::stack::FailureView;

use crate::output::{lines, printable, word};

/// A cell of a table.
pub fn yes_or_no(truth: bool) -> String {
    if truth { "yes" } else { "no" }.to_owned()
}

/// A paragraph for each failure: what, where, why, and the cause of each failed attempt.
pub fn failures(list: &Vec<FailureView>) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a String does not fail");
    if list.is_empty() {
        line("nothing failed".to_owned());
    }
    for FailureView { resource, kind, node, action, reason, causes, .. } in list {
        let on = if node.is_empty() { String::new() } else { format!(" on {}", printable(node)) };
        line(format!("{} ({}){on}: {} FAILED", word(resource), word(kind), word(action)));
        line(format!("  reason: {}", lines(reason, "    ")));
        // A single cause that equals the reason adds nothing.
        if causes.len() > 1 || causes.first().is_some_and(|cause| cause != reason) {
            for (index, cause) in causes.iter().enumerate() {
                line(format!("  attempt {}: {}", index + 1, lines(cause, "    ")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::read;

    #[test]
    fn each_cause_has_its_line() {
        let list = json!([
            {"resource": "motd", "type": "Muster::File", "node": "web-1", "action": "CREATE", "reason": "no room",
                "causes": ["no\u{1b} directory", "no room:\na\nb\n"]},
            {"resource": "x", "type": "Muster::Dummy", "node": "", "action": "UPDATE", "reason": "restricted", "causes": []},
        ]);
        assert_eq!(
            failures(&read(&list).unwrap()),
            "motd (Muster::File) on web-1: CREATE FAILED\n  reason: no room\n  attempt 1: no\\u{1b} directory\n  \
             attempt 2: no room:\n    a\n    b\nx (Muster::Dummy): UPDATE FAILED\n  reason: restricted\n"
        );
        assert_eq!(failures(&Vec::new()), "nothing failed\n");
    }
}
