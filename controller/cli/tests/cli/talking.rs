use serde_json::{Value, json};

use crate::controller::{Act, Controller};
use crate::{muster, outcome};

fn begun(action: &str) -> Act {
    Act::Answer(
        202,
        json!({"name": "web", "id": "7", "action": action, "traversal": 3, "revision": 2, "warnings": ["look\u{7}"]}),
    )
}

pub fn view(action: &str, traversal: u64, status: &str, seq: u64) -> Act {
    Act::Answer(200, stack(action, traversal, status, seq))
}

pub fn stack(action: &str, traversal: u64, status: &str, seq: u64) -> Value {
    json!({"name": "web", "id": "7", "action": action, "status": status, "status_reason": "why", "revision": 2,
        "traversal": traversal, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "parameters": {}, "outputs": [], "active": [{"name": "motd", "node": "web-1", "phase": "running"}],
        "progress": {"done": 1, "total": 2, "in_flight": 1, "failed": 0}, "seq": seq})
}

fn failed_resources() -> Act {
    Act::Answer(
        200,
        json!([{"resource": "motd", "node": "web-1", "action": "CREATE", "reason": "no room", "causes": []}]),
    )
}

fn script_failed() -> Act {
    let mut failed = stack("UPDATE", 3, "FAILED", 5);
    failed["status_reason"] = json!("run: the script ended with status 7:\none\ntwo\n");
    Act::Answer(200, failed)
}

fn failed_script() -> Act {
    let reason = "the script ended with status 7:\none\ntwo\n";
    Act::Answer(
        200,
        json!([{"resource": "run", "node": "web-1", "action": "CREATE", "reason": reason, "causes": []}]),
    )
}

pub fn error(status: u16, class: &str) -> Act {
    Act::Answer(status, json!({"error": {"class": class, "message": "the reason", "errors": []}}))
}

/// The subject, arguments, the controller's script; exit code, stdout, stderr.
type Case = (&'static str, &'static str, Vec<Act>, i32, &'static str, &'static str);

#[test]
fn waiting() {
    let going = || view("UPDATE", 3, "IN_PROGRESS", 4);
    let cases: Vec<Case> = vec![
        (
            "complete",
            "update web --wait",
            vec![begun("UPDATE"), going(), view("UPDATE", 3, "COMPLETE", 5)],
            0,
            "web: UPDATE COMPLETE\n",
            "web UPDATE: 1/2; motd@web-1 running\n",
        ),
        (
            "failed",
            "update web --wait",
            vec![begun("UPDATE"), going(), view("UPDATE", 3, "FAILED", 5), failed_resources()],
            1,
            "",
            "web UPDATE: 1/2; motd@web-1 running\nerror: stack 'web': UPDATE FAILED: why\n\
            error: resource 'motd' on web-1: CREATE FAILED: no room\n",
        ),
        (
            "rolled back",
            "update web --wait --rollback",
            vec![
                begun("UPDATE"),
                view("UPDATE", 3, "FAILED", 5),
                view("ROLLBACK", 4, "COMPLETE", 6),
                Act::Answer(200, json!([])),
            ],
            1,
            "",
            "web UPDATE: 1/2; motd@web-1 running\nerror: stack 'web': UPDATE failed; ROLLBACK COMPLETE: why\n",
        ),
        (
            "failed with what a script wrote",
            "update web --wait",
            vec![begun("UPDATE"), script_failed(), failed_script()],
            1,
            "",
            "error: stack 'web': UPDATE FAILED: run: the script ended with status 7\n\
            error: resource 'run' on web-1: CREATE FAILED: the script ended with status 7:\n  one\n  two\n",
        ),
        (
            "pre-empted",
            "update web --wait",
            vec![begun("UPDATE"), view("UPDATE", 4, "IN_PROGRESS", 5), Act::Answer(200, json!([]))],
            1,
            "",
            "error: UPDATE of stack 'web' was pre-empted by UPDATE\n",
        ),
        (
            "out of time",
            "delete web --wait --timeout 1",
            vec![begun("DELETE"), Act::Hang],
            3,
            "",
            "error: DELETE of stack 'web' has not ended within 1 s; it goes on; what it waits for: muster stack graph web\n",
        ),
        (
            "restarted",
            "update web --wait",
            vec![begun("UPDATE"), going(), Act::Break, view("UPDATE", 3, "COMPLETE", 9)],
            0,
            "web: UPDATE COMPLETE\n",
            "web UPDATE: 1/2; motd@web-1 running\nthe controller is away; waiting for it\n",
        ),
        (
            "stopped and started",
            "update web --wait",
            vec![begun("UPDATE"), going(), error(503, "unavailable"), view("UPDATE", 3, "COMPLETE", 9)],
            0,
            "web: UPDATE COMPLETE\n",
            "web UPDATE: 1/2; motd@web-1 running\nthe controller is away; waiting for it\n",
        ),
        (
            "gone",
            "delete web --wait",
            vec![
                begun("DELETE"),
                Act::Answer(
                    200,
                    json!({"name": "web", "id": "", "action": "DELETE", "status": "COMPLETE", "traversal": 3, "seq": 1}),
                ),
            ],
            0,
            "web: DELETE COMPLETE\n",
            "",
        ),
        (
            "checked",
            "check web --wait",
            vec![begun("CHECK"), view("CHECK", 3, "FAILED", 5), failed_resources()],
            1,
            "",
            "error: stack 'web': CHECK FAILED: why\nerror: resource 'motd' on web-1: CREATE FAILED: no room\n",
        ),
        (
            "not waited for",
            "rollback web",
            vec![begun("ROLLBACK")],
            0,
            "web: ROLLBACK IN_PROGRESS, revision 2\n",
            "",
        ),
        ("refused", "rollback web --to 9", vec![error(404, "not_found")], 1, "", "error: the reason\n"),
        ("duplicate", "update web", vec![error(409, "conflict")], 1, "", "error: the reason\n"),
        ("wrong", "update web", vec![error(400, "invalid")], 2, "", "error: the reason\n"),
        ("read-only", "update web", vec![error(503, "unavailable")], 1, "", "error: the reason\n"),
        (
            "busy",
            "rollback web",
            vec![Act::Busy(0), Act::Busy(0), begun("ROLLBACK")],
            0,
            "web: ROLLBACK IN_PROGRESS, revision 2\n",
            "it is busy; waiting for up to 60 s\n",
        ),
        (
            "busy while it is waited for",
            "update web --wait",
            vec![Act::Busy(0), begun("UPDATE"), Act::Busy(0), Act::Busy(0), view("UPDATE", 3, "COMPLETE", 9)],
            0,
            "web: UPDATE COMPLETE\n",
            "it is busy; waiting for up to 60 s\nit is busy; waiting for it\n",
        ),
        (
            "busy for too long",
            "show web",
            vec![Act::Busy(0), Act::Busy(61)],
            3,
            "",
            "it is busy; waiting for up to 60 s\nerror: it is busy; muster gave up waiting\n",
        ),
        (
            "busy for longer than --timeout",
            "delete web --wait --timeout 5",
            vec![Act::Busy(6)],
            3,
            "",
            "error: it is busy; muster gave up waiting\n",
        ),
    ];
    for (case, arguments, script, exit, out, err) in cases {
        let controller = Controller::with(script);
        let (code, stdout, stderr) =
            outcome(muster("stack").args(arguments.split(' ')).args(["--url", &controller.url()]));
        let stderr = stderr.replace("warning: look\\u{7}\n", "");
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(exit), out, err), "{case}");
        controller.requests();
    }
}

#[test]
fn a_lost_answer_ends_with_4() {
    let controller = Controller::with(vec![Act::Break]);
    let (code, _, stderr) = outcome(muster("stack delete web --wait --url").arg(controller.url()));
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("it may have taken the request"), "{stderr}");
}

#[test]
fn what_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    let text = "heat_template_version: 2018-08-31\nresources:\n  f:\n    type: Muster::File\n    properties: {node: n, path: /f, \
                content: {get_file: c}}\n";
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("c"), "content").unwrap();
    let environment = folder.path().join("e.yaml").display().to_string();
    std::fs::write(&environment, "parameters: {a: x}").unwrap();
    let answers = vec![begun("CREATE"), view("CREATE", 3, "IN_PROGRESS", 1)];
    let controller = Controller::with(answers);
    let mut command =
        muster("stack create web -P a=b=c --timeout 9 --require-nodes --delete-first -o json -t");
    let (code, stdout, _) =
        outcome(command.arg(&file).args(["-e", &environment, "--url", &controller.url()]));
    assert_eq!(code, Some(0));
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(shown["status"], "IN_PROGRESS");
    assert_eq!((&shown["seq"], &shown["active"]), (&Value::Null, &Value::Null), "not part of the contract");
    let requests = controller.requests();
    let body: Value = serde_json::from_str(requests[0].strip_prefix("POST /v1/stacks ").unwrap()).unwrap();
    let name = file.display().to_string();
    assert_eq!(
        body,
        json!({"name": "web", "template": {"name": name, "text": text, "files": {"c": "content"}},
            "environments": [{"name": environment, "key": "e.yaml", "text": "parameters: {a: x}"}], "parameters": {"a": "b=c"},
            "options": {"rollback": false, "require_nodes": true, "delete_first": true, "timeout": 9, "max_nodes": null}})
    );
    assert_eq!(requests[1], "GET /v1/stacks/web");
}

#[test]
fn cancelling() {
    let mut cancelled = stack("UPDATE", 3, "FAILED", 9);
    cancelled["status_reason"] = json!("cancelled");
    let controller = Controller::with(vec![Act::Answer(200, cancelled)]);
    let (code, stdout, _) = outcome(muster("stack cancel web --url").arg(controller.url()));
    assert_eq!((code, stdout.as_str()), (Some(0), "web: UPDATE FAILED: cancelled\n"));
    assert_eq!(controller.requests(), ["POST /v1/stacks/web/cancel"]);
}

#[test]
fn a_token_is_alone_on_stdout() {
    let answer = json!({"token": "muster1-abc", "id": "01", "expires": "2026-01-01T00:00:00Z"});
    let controller = Controller::with(vec![Act::Answer(201, answer)]);
    let (code, stdout, stderr) = outcome(
        muster("node token --ttl 2h --uses 3 --rate 30/m --name web-* --label role=web --url")
            .arg(controller.url()),
    );
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "muster1-abc\n", ""));
    assert_eq!(
        controller.requests(),
        [r#"POST /v1/tokens {"labels":{"role":"web"},"name":"web-*","rate":"30/m","ttl":7200,"uses":3}"#]
    );
}

#[test]
fn a_token_for_any_name_is_asked_for_by_that_word() {
    let controller = Controller::with(vec![Act::Answer(201, json!({"token": "muster1-abc"}))]);
    let (code, stdout, _) = outcome(muster("node token --any-name --url").arg(controller.url()));
    assert_eq!((code, stdout.as_str()), (Some(0), "muster1-abc\n"));
    assert_eq!(controller.requests(), [r#"POST /v1/tokens {"labels":{},"name":null,"ttl":3600,"uses":1}"#]);
}

#[test]
fn template_errors_show_their_places_wherever_they_are_found() {
    let error = json!({"error": {"class": "invalid", "message": "the template is not valid", "errors": [
        {"file": "t.yaml", "line": 3, "column": 5, "path": "resources.x", "message": "no such type"},
        {"file": "t.yaml", "line": 0, "column": 0, "path": "parameters.p", "message": "must be given"}]}});
    let controller = Controller::with(vec![Act::Answer(400, error)]);
    let (code, _, stderr) = outcome(muster("stack update web --url").arg(controller.url()));
    assert_eq!(code, Some(2));
    assert_eq!(
        stderr,
        "error: t.yaml:3:5: resources.x: no such type\nerror: t.yaml: parameters.p: must be given\n"
    );
}

#[test]
fn an_output_without_a_value_says_why() {
    let outputs = || {
        let rows = json!([
            {"key": "a", "value": "x", "description": ""},
            {"key": "b", "value": null, "output_error": "t:5:9: no such key", "description": "a b"},
        ]);
        Act::Answer(200, rows)
    };
    for (format, wanted) in [
        (
            "table",
            "KEY  VALUE                                   DESCRIPTION\na    x                                       -\nb    cannot be computed: t:5:9: no such key  a b\n",
        ),
        ("json", "\"output_error\": \"t:5:9: no such key\""),
    ] {
        let controller = Controller::with(vec![outputs()]);
        let (code, stdout, stderr) =
            outcome(muster("stack outputs web -o").args([format, "--url", &controller.url()]));
        controller.requests();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.contains(wanted), "{stdout}");
    }
}
