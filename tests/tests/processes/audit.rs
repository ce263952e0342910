//! The audit: rows that are there with the change, read, followed, and kept when the controller is killed.

use std::process::Command;

use muster_testbed::{Daemon, command, eventually};
use muster_tests::site::{Site, binary};
use serde_json::Value;

const SECRET: &str = "a-secret-that-no-row-shows";
const TEMPLATE: &str = "heat_template_version: 2018-08-31\nparameters: {password: {type: string, hidden: true}}\n\
                        outputs: {said: {value: {get_param: password}}}\n";

/// Action, target and result of the rows.
fn told(rows: &Value) -> Vec<(String, String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| (text(row, "action"), text(row, "target"), text(row, "result"))).collect()
}

#[test]
fn changes_are_told_with_who_asked_and_what_was_answered() {
    let mut site = Site::start();
    site.join("web-1");
    let mut follow = command(None, binary("muster"));
    follow.args(["--url", &site.url(), "audit", "--follow", "--since", "1h", "-o", "json"]);
    let follow = Daemon::start("follow", follow, site.path());
    let file = site.file(TEMPLATE);
    let parameter = format!("password={SECRET}");
    site.ok(&["stack", "create", "web", "-t", &file, "-P", &parameter, "--wait"]);
    site.muster(&["stack", "create", "web", "-t", &file, "-P", &parameter]).refused(1, &["web"]);
    site.ok(&["node", "label", "web-1", "role=web"]);
    site.ok(&["node", "list"]);

    let rows = site.json(&["audit"]);
    let all = told(&rows);
    let ok = |action: &str, target: &str| (action.to_owned(), target.to_owned(), "ok".to_owned());
    assert_eq!(all[0].0, "node token", "{all:?}");
    assert_eq!(all[1..3], [ok("join", "web-1"), ok("stack create", "web")]);
    let (action, target, result) = &all[3];
    assert_eq!((action.as_str(), target.as_str()), ("stack create", "web"));
    assert!(result.starts_with("refused: "), "{result}");
    assert_eq!(all[4..], [ok("node label", "web-1")], "reading is no change");
    let created = &rows[2];
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap().trim().to_owned();
    assert_eq!(created["actor"], user.as_str());
    assert!(created["from"].as_str().unwrap().starts_with("local, process "), "{created}");
    assert!(created["what"].as_str().unwrap().starts_with("revision 1, from "), "{created}");
    let token = format!("token {}", rows[0]["target"].as_str().unwrap());
    assert_eq!((&rows[1]["actor"], &rows[1]["from"]), (&token.into(), &"link".into()));
    assert_eq!(rows[4]["what"], "role");

    // What is asked for, and by whom.
    assert_eq!(told(&site.json(&["audit", "--user", "nobody-of-that-name"])), []);
    assert_eq!(told(&site.json(&["audit", "--user", &user, "--since", "1h"])).len(), 4);
    assert_eq!(told(&site.json(&["audit", "--since", "2099-01-01T00:00:00Z"])), []);
    site.muster(&["audit", "--since", "yesterday"]).refused(2, &["since", "yesterday"]);

    // Nothing that was answered is lost, and whoever follows goes on.
    site.kill();
    site.restart();
    site.ok(&["stack", "delete", "web", "--wait"]);
    let after = told(&site.json(&["audit"]));
    assert_eq!(after[..5], all);
    assert_eq!(after[5..], [ok("stack delete", "web")]);
    eventually("the last one is followed", || follow.log().contains("stack delete").then_some(()));
    let lines = follow.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>();
    assert_eq!(told(&Value::Array(lines)), after);
    assert!(!format!("{:?}{}", site.json(&["audit"]), follow.log()).contains(SECRET));
    let journal = site.controller.log();
    assert!(journal.contains("muster_audit") && journal.contains("stack delete"), "{journal}");
}
