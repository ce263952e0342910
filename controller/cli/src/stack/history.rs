//! `stack revisions` and `stack failures`, as tables.

use std::fmt::Write;

use serde_json::Value;

use crate::output::{cell, lines};

/// A list with yes and no for true and false.
pub fn plain(list: &Value) -> Value {
    let mut list = list.clone();
    for value in list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for value in value.values_mut() {
            if let Value::Bool(truth) = value {
                *value = Value::from(if *truth { "yes" } else { "no" });
            }
        }
    }
    list
}

/// A paragraph for each: what, where, why, and the cause of each attempt that failed.
pub fn failures(list: &Value) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a String does not fail");
    let text = |value: &Value| value.as_str().map_or_else(|| cell(value), |text| lines(text, "    "));
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        line("nothing failed".to_owned());
    }
    for failure in list {
        let on = match cell(&failure["node"]) {
            node if node == "-" => String::new(),
            node => format!(" on {node}"),
        };
        line(format!(
            "{} ({}){on}: {} FAILED",
            cell(&failure["resource"]),
            cell(&failure["type"]),
            cell(&failure["action"])
        ));
        line(format!("  reason: {}", text(&failure["reason"])));
        let causes = failure["causes"].as_array().map_or(&[][..], Vec::as_slice);
        // One that says the same as the reason says nothing more.
        if causes.len() > 1 || causes.first().is_some_and(|cause| *cause != failure["reason"]) {
            for (index, cause) in causes.iter().enumerate() {
                line(format!("  attempt {}: {}", index + 1, text(cause)));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cause_has_its_line() {
        let list = json!([
            {"resource": "motd", "type": "Muster::File", "node": "web-1", "action": "CREATE", "reason": "no room",
                "causes": ["no\u{1b} directory", "no room:\na\nb\n"]},
            {"resource": "x", "type": "Muster::Dummy", "node": "", "action": "UPDATE", "reason": "restricted", "causes": []},
        ]);
        assert_eq!(
            failures(&list),
            "motd (Muster::File) on web-1: CREATE FAILED\n  reason: no room\n  attempt 1: no\\u{1b} directory\n  \
             attempt 2: no room:\n    a\n    b\nx (Muster::Dummy): UPDATE FAILED\n  reason: restricted\n"
        );
        assert_eq!(failures(&json!([])), "nothing failed\n");
    }
}
