//! Intents: what is sent, and how it ends.

use std::path::Path;

use serde_json::{Value, json};

use crate::controller::{Act, Controller};
use crate::{muster, outcome};

const FILE: &str = "intents: []\n";

fn taken(keys: &[&str]) -> Act {
    Act::Answer(200, json!({"keys": keys, "warnings": ["look\u{7}"]}))
}

fn watched(ended: bool, failed: u64, intents: Value) -> Act {
    Act::Answer(200, json!({"ended": ended, "done": 1, "failed": failed, "total": 2, "intents": intents}))
}

/// Exit code, stdout and stderr of a command, and what it asked for.
fn run(script: Vec<Act>, arguments: &str) -> (Option<i32>, String, String, Vec<String>) {
    let controller = Controller::with(script);
    let (code, stdout, stderr) = outcome(muster(arguments).arg("--url").arg(controller.url()));
    (code, stdout, stderr, controller.requests())
}

fn written(folder: &Path) -> String {
    std::fs::write(folder.join("my intents.yaml"), FILE).unwrap();
    folder.join("my intents.yaml").display().to_string()
}

fn submit(script: Vec<Act>, more: &str) -> (Option<i32>, String, String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::with(script);
    let file = written(folder.path());
    let mut command = muster(&format!("intent submit {more}"));
    let (code, stdout, stderr) = outcome(command.arg("-f").arg(file).arg("--url").arg(controller.url()));
    (code, stdout, stderr, controller.requests())
}

#[test]
fn a_file_is_submitted_and_waited_for() {
    let (code, stdout, stderr, requests) = submit(vec![taken(&["a", "b"])], "");
    assert_eq!((code, &*stdout), (Some(0), "intent submit IN_PROGRESS: 2 intents\n"), "{stderr}");
    assert_eq!(stderr, "warning: look\\u{7}\n");
    assert!(
        requests[0].starts_with("POST /v1/intents?name=") && requests[0].ends_with("intents: []"),
        "{requests:?}"
    );
    assert!(requests[0].contains("my%20intents.yaml"), "{requests:?}");

    let on = || watched(false, 0, json!([{"key": "b", "state": "INSTALLING"}]));
    let unavailable =
        || Act::Answer(503, json!({"error": {"class": "unavailable", "message": "restarting"}}));
    let script = vec![taken(&["a", "b"]), on(), unavailable(), watched(true, 0, json!([]))];
    let (code, stdout, stderr, requests) = submit(script, "--wait");
    assert_eq!((code, &*stdout), (Some(0), "intent submit COMPLETE: 2 intents\n"), "{stderr}");
    assert!(stderr.contains("intent submit: 1/2; b INSTALLING\n"), "{stderr}");
    assert_eq!(requests[1], "POST /v1/watch/intents?wait=5&state=INSTALLED {\"keys\":[\"a\",\"b\"]}");
    assert_eq!(requests.len(), 4);

    let (code, stdout, ..) = submit(vec![taken(&[])], "--wait");
    assert_eq!((code, &*stdout), (Some(0), "intent submit COMPLETE: 0 intents\n"), "nothing is waited for");
}

#[test]
fn what_cannot_be_installed_ends_with_1_and_the_reason() {
    let failed = || {
        watched(
            true,
            2,
            json!([{"key": "a", "state": "FAILED", "reason": "no path has 5 bit/s"}, {"key": "b", "state": "CORRUPT", "reason": ""}]),
        )
    };
    let wanted = "error: intent submit FAILED: 2 of 2\nerror: intent 'a' FAILED: no path has 5 bit/s\nerror: intent 'b' CORRUPT\n";
    let (code, stdout, stderr, _) = submit(vec![taken(&["a", "b"]), failed()], "--wait");
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.ends_with(wanted), "{stderr}");
    let (code, stdout, stderr, _) = submit(vec![taken(&["a", "b"]), failed()], "--wait -o json");
    let last: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &last["failed"]), (Some(1), &json!(2)));
    assert!(stderr.ends_with(wanted), "{stderr}");
    let place = json!({"file": "i.yaml", "line": 3, "column": 5, "path": "intents[0].key", "message": "no"});
    let bad = Act::Answer(400, json!({"error": {"class": "invalid", "message": "m", "errors": [place]}}));
    let (code, _, stderr, _) = submit(vec![bad], "--wait");
    assert_eq!((code, &*stderr), (Some(2), "error: i.yaml:3:5: intents[0].key: no\n"));
}

#[test]
fn who_waits_too_long_is_told_that_it_goes_on() {
    let (code, _, stderr, _) = submit(vec![taken(&["a"]), Act::Hang], "--wait --timeout 1");
    assert_eq!(code, Some(3));
    assert!(
        stderr.ends_with("error: intent submit has not ended within 1 s; it goes on; what it waits for: 'muster intent show KEY'\n"),
        "{stderr}"
    );
}

#[test]
fn intents_are_withdrawn_and_purged() {
    let script = vec![taken(&["a/b", "c"]), watched(true, 0, json!([]))];
    let (code, stdout, stderr, requests) = run(script, "intent withdraw a/b c --wait");
    assert_eq!((code, &*stdout), (Some(0), "intent withdraw COMPLETE: 2 intents\n"), "{stderr}");
    assert_eq!(
        requests,
        [
            "PATCH /v1/intents {\"withdraw\":[\"a/b\",\"c\"]}",
            "POST /v1/watch/intents?wait=5&state=WITHDRAWN {\"keys\":[\"a/b\",\"c\"]}"
        ]
    );
    let (code, stdout, _, requests) = run(vec![taken(&["a"])], "intent purge a");
    assert_eq!((code, &*stdout), (Some(0), "intent purge COMPLETE: 1 intent\n"));
    assert_eq!(requests, ["DELETE /v1/intents {\"keys\":[\"a\"]}"]);
    let still =
        json!({"error": {"class": "conflict", "message": "intent 'a' is INSTALLED: withdraw it first"}});
    let (code, _, stderr, _) = run(vec![Act::Answer(409, still)], "intent purge a");
    assert_eq!((code, &*stderr), (Some(1), "error: intent 'a' is INSTALLED: withdraw it first\n"));
}

#[test]
fn intents_are_listed_and_shown() {
    let row = json!({"key": "a", "type": "point_to_point", "state": "FAILED", "request": "INSTALL_REQ", "errors": 0,
        "reason": "no path", "owner": "the operator"});
    let (code, stdout, _, requests) = run(vec![Act::Answer(200, json!([row]))], "intent list --state failed");
    assert_eq!(
        (code, &*stdout),
        (
            Some(0),
            "KEY  TYPE            STATE   ERRORS  OWNER         REASON\na    point_to_point  FAILED  0       the operator  no path\n"
        )
    );
    assert_eq!(requests, ["GET /v1/intents?state=FAILED"]);
    let (_, stdout, _, requests) = run(vec![Act::Answer(200, row.clone())], "intent show all/of-it -o json");
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), row);
    assert_eq!(requests, ["GET /v1/intents/all%2Fof-it"]);
}

#[test]
fn the_network_is_shown() {
    let answer = json!({"devices": [{"device": "a/br0", "up": true, "away": false, "ports": []}], "links": [], "intents": []});
    for (arguments, begins, asks) in [
        ("topology show", "DEVICE  STATE", "GET /v1/topology"),
        ("topology show -o json", "{\n  \"devices\"", "GET /v1/topology"),
        ("topology show -o dot", "// Grey", "GET /v1/topology?intents=10"),
        ("topology show -o svg --intent a/b", "<svg", "GET /v1/topology?key=a%2Fb"),
    ] {
        let (code, stdout, stderr, requests) = run(vec![Act::Answer(200, answer.clone())], arguments);
        assert!(code == Some(0) && stdout.starts_with(begins), "{arguments}: {stdout}{stderr}");
        assert_eq!(requests, [asks], "{arguments}");
    }
}
