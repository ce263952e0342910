//! A stack that waits for signals: sent by `muster`, over restarts of the controller.

use std::fs;

use muster_testbed::eventually;
use muster_tests::site::Site;

#[test]
fn a_stack_waits_for_signals_and_uses_what_they_brought() {
    let mut site = Site::start();
    let web1 = site.join("web-1");
    let motd = web1.file("motd");
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31
resources:
  ready: {{type: OS::Heat::WaitConditionHandle}}
  wait: {{type: OS::Heat::WaitCondition, properties: {{handle: {{get_resource: ready}}, timeout: 3600, count: 2}}}}
  motd: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {{get_attr: [wait, data]}}}}}}
",
        motd.display()
    ));
    site.ok(&["stack", "create", "web", "-t", &template]);
    let waits = |site: &Site, came: &str| {
        let row = site.resource("web", "wait");
        (row["phase"] == "signals" && row["status_reason"].as_str().unwrap().starts_with(came)).then_some(row)
    };
    eventually("it waits", || waits(&site, "0 of 2"));
    assert!(site.ok(&["resource", "show", "web", "wait"]).contains("signals for"));
    let said =
        site.ok(&["resource", "signal", "web", "ready", "--data", r#"{"id": "a", "data": {"disk": "sdb"}}"#]);
    assert_eq!(said, "ready of web has signal a; 1 in all\n");

    // What was answered is kept, and the wait goes on.
    site.kill();
    site.restart();
    eventually("it waits again", || waits(&site, "1 of 2"));
    site.muster(&["resource", "signal", "web", "wait"]).refused(2, &["signal its handle 'ready'"]);
    let file = site.path().join("signal.json");
    fs::write(&file, r#"{"reason": "all is well"}"#).unwrap();
    site.ok(&["resource", "signal", "web", "ready", "-f", file.to_str().unwrap()]);
    eventually("the file is there", || web1.content("motd"));
    assert_eq!(web1.content("motd").as_deref(), Some(r#"{"2": null, "a": {"disk": "sdb"}}"#));
    eventually("complete", || (site.json(&["stack", "show", "web"])["status"] == "COMPLETE").then_some(()));

    // More are wanted, and one says that it failed.
    let text = fs::read_to_string(&template).unwrap().replace("count: 2", "count: 3");
    let more = site.file(&text);
    let update = site.spawn(&["stack", "update", "web", "-t", &more, "--wait"]);
    eventually("it waits for one more", || waits(&site, "2 of 3"));
    site.ok(&[
        "resource",
        "signal",
        "web",
        "ready",
        "--data",
        r#"{"status": "FAILURE", "reason": "disk is full"}"#,
    ]);
    update.finish().refused(1, &["wait", "disk is full"]);
    let events = site.ok(&["stack", "events", "web"]);
    assert!(events.contains("SIGNAL") && events.contains("status:FAILURE reason:disk is full"), "{events}");
    site.ok(&["stack", "rollback", "web", "--wait"]);

    // Deleted while it waits.
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert!(web1.listing().is_empty());
    site.ok(&["stack", "create", "web", "-t", &template]);
    eventually("it waits anew", || waits(&site, "0 of 2"));
    site.ok(&["stack", "delete", "web", "--wait"]);
}
