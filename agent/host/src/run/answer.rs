//! The answer of a hook: JSON on its standard output, as heat-agents' hooks write it.
//!
//! ```text
//!   {"deploy_stdout": …, "deploy_stderr": …, "deploy_status_code": …, OUTPUT: …}
//! ```
//!
//! The end of a run is told as that of a script: the status, both streams, and the outputs. A hook that answers nothing,
//! or something else, is told by its own status and streams, as Heat does it. Two rules are ours: a hook that ends with
//! another status than 0 has failed, whatever it answers; and text before an answer in a line of its own is left out
//! (`docker-cmd` prints what its containers print).
//!
//! Absent: whether an output is declared as an error (`agent/src/host/deployment.rs`).

use serde_json::{Map, Value};

use super::output::{OUTPUT_MAX, Tail};
use super::record::{Ended, Output, RunEnd};

/// The most bytes of an answer. Heat takes a mebibyte of one, after its agent has cut the streams in it.
pub(super) const ANSWER_MAX: usize = 4 * 1024 * 1024;

const STDOUT: &str = "deploy_stdout";
const STDERR: &str = "deploy_stderr";
const STATUS: &str = "deploy_status_code";

/// The end of a hook's run. `stdout` and `stderr`: what its process wrote; `outputs`: the declared names.
pub(super) fn taken(how: RunEnd, stdout: Tail, stderr: Tail, outputs: &[String]) -> Ended {
    let is_whole = stdout.is_whole();
    let mut bytes = stdout.into_bytes();
    let Some(mut answer) = is_whole.then(|| read(&bytes)).flatten() else {
        let mut tail = Tail::of(OUTPUT_MAX);
        tail.push(&std::mem::take(&mut bytes));
        let how = match how {
            RunEnd::Exited(0) if !is_whole => {
                RunEnd::BadAnswer(format!("its answer has more than {ANSWER_MAX} bytes"))
            }
            how => how,
        };
        return Ended { how, stdout: tail.text(), stderr: stderr.text(), outputs: Default::default() };
    };
    drop(bytes);
    let mut stream = |name: &str| {
        let mut tail = Tail::of(OUTPUT_MAX);
        tail.push(answer.remove(name).and_then(text).unwrap_or_default().as_bytes());
        tail.text()
    };
    let (stdout, stderr) = (stream(STDOUT), stream(STDERR));
    let how = match how {
        RunEnd::Exited(0) => status(answer.remove(STATUS)),
        how => how,
    };
    let output = |name: &String| {
        let text = answer.remove(name).and_then(text)?;
        let is_small = text.len() <= OUTPUT_MAX;
        // NULs are replaced as in a script's output.
        let output = if is_small {
            Output::Text(text.replace('\0', "\u{fffd}"))
        } else {
            Output::TooLarge(text.len() as u64)
        };
        Some((name.clone(), output))
    };
    let outputs = outputs.iter().filter_map(output).collect();
    Ended { how, stdout, stderr, outputs }
}

/// Reads the whole output, or its last line, if that has a status.
fn read(stdout: &[u8]) -> Option<Map<String, Value>> {
    let stdout = stdout.trim_ascii();
    serde_json::from_slice(stdout).ok().or_else(|| {
        let line = stdout.rsplit(|byte| *byte == b'\n').next()?;
        serde_json::from_slice(line).ok().filter(|answer: &Map<String, Value>| answer.contains_key(STATUS))
    })
}

/// The end that an answer tells, of a hook that ended well itself.
fn status(given: Option<Value>) -> RunEnd {
    let status = match given {
        None | Some(Value::Null) => Some(0),
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    match status {
        // Beyond 32 bits there is no status of a process: it is not 0.
        Some(status) => RunEnd::Exited(i32::try_from(status).unwrap_or(i32::MAX)),
        None => RunEnd::BadAnswer(format!("the {STATUS} of its answer is no number")),
    }
}

/// A value as an attribute: a text as it is, null not at all, others as JSON.
fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(bytes: &[u8], max: usize) -> Tail {
        let mut tail = Tail::of(max);
        tail.push(bytes);
        tail
    }

    fn answered(how: RunEnd, stdout: &str) -> Ended {
        let names = ["result", "list", "absent"].map(str::to_owned);
        taken(how, tail(stdout.as_bytes(), ANSWER_MAX), tail(b"log\n", OUTPUT_MAX), &names)
    }

    #[test]
    fn an_answer_has_status_streams_and_declared_outputs() {
        let answer = r#"{"deploy_stdout": "out", "deploy_stderr": null, "deploy_status_code": "3",
            "result": "blue", "list": [1, null], "absent": null, "undeclared": "x"}"#;
        let text = |text: &str| Output::Text(text.into());
        let wanted = Ended {
            how: RunEnd::Exited(3),
            stdout: "out".into(),
            stderr: String::new(),
            outputs: [("list".into(), text("[1,null]")), ("result".into(), text("blue"))].into(),
        };
        assert_eq!(answered(RunEnd::Exited(0), answer), wanted);
    }

    #[test]
    fn the_status_is_the_worse_of_answer_and_process() {
        let exited = |status| RunEnd::Exited(status);
        let bad = |why: &str| RunEnd::BadAnswer(why.into());
        for (how, answer, wanted) in [
            (exited(0), "{}", exited(0)),
            (exited(0), r#"{"deploy_status_code": null}"#, exited(0)),
            (exited(0), r#"{"deploy_status_code": -1}"#, exited(-1)),
            (exited(0), r#"{"deploy_status_code": 4294967296}"#, exited(i32::MAX)),
            (
                exited(0),
                r#"{"deploy_status_code": 1.5}"#,
                bad("the deploy_status_code of its answer is no number"),
            ),
            (
                exited(0),
                r#"{"deploy_status_code": []}"#,
                bad("the deploy_status_code of its answer is no number"),
            ),
            (exited(2), r#"{"deploy_status_code": 0}"#, exited(2)),
            (RunEnd::Killed(9), r#"{"deploy_status_code": 0}"#, RunEnd::Killed(9)),
            (RunEnd::TimedOut, "{}", RunEnd::TimedOut),
        ] {
            assert_eq!(answered(how, answer).how, wanted, "{answer}");
        }
    }

    #[test]
    fn what_is_no_answer_is_output() {
        for stdout in ["", "hello\n", "[1]", "5", "{\"a\": ", "{}\n{}", "text\n{\"result\": \"blue\"}"] {
            let ended = answered(RunEnd::Exited(0), stdout);
            let wanted = Ended { stdout: stdout.into(), stderr: "log\n".into(), ..ended.clone() };
            assert_eq!((&ended, &ended.how), (&wanted, &RunEnd::Exited(0)));
            assert!(ended.outputs.is_empty(), "{stdout}");
        }
        assert_eq!(answered(RunEnd::Exited(7), "rubbish").how, RunEnd::Exited(7));
        // Too deep for a stack.
        assert_eq!(answered(RunEnd::Exited(0), &"[".repeat(100_000)).stdout.len(), OUTPUT_MAX);
    }

    #[test]
    fn text_before_an_answer_is_left_out() {
        let ended =
            answered(RunEnd::Exited(0), "4c5d\n{\"deploy_status_code\": 125, \"deploy_stderr\": \"no\"}\n");
        assert_eq!((ended.how, ended.stderr.as_str()), (RunEnd::Exited(125), "no"));
    }

    #[test]
    fn an_answer_has_bounds() {
        let long = "x".repeat(OUTPUT_MAX + 1);
        let answer = format!(r#"{{"deploy_stdout": "{long}", "result": "{long}"}}"#);
        let ended = answered(RunEnd::Exited(0), &answer);
        assert!(ended.stdout.starts_with('[') && ended.stdout.len() <= OUTPUT_MAX, "{}", ended.stdout.len());
        assert_eq!(ended.outputs["result"], Output::TooLarge(long.len() as u64));

        let flood = tail(&vec![b' '; ANSWER_MAX + 1], ANSWER_MAX);
        let ended = taken(RunEnd::Exited(0), flood, Tail::of(OUTPUT_MAX), &[]);
        assert_eq!(ended.how, RunEnd::BadAnswer("its answer has more than 4194304 bytes".into()));
        assert!(ended.stdout.len() <= OUTPUT_MAX, "{}", ended.stdout.len());
    }
}
