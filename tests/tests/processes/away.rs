//! Nodes that are away, and nodes that join only after a stack names them.

use muster_testbed::eventually;
use muster_tests::site::{Agent, Place, Site};

use crate::layers::until_complete;

fn two_files(site: &Site, here: &Agent, name: &str, path: &str) -> String {
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         near: {{type: Muster::File, properties: {{node: {}, path: {}, content: x}}}}\n  \
         far: {{type: Muster::File, properties: {{node: {name}, path: {path}, content: y}}}}\n  \
         after: {{type: Muster::Dummy, depends_on: far, properties: {{node: {}}}}}\n",
        here.name,
        here.file("near").display(),
        here.name
    ))
}

#[test]
fn a_node_that_is_away_holds_up_only_its_own_branch() {
    let site = Site::start();
    let (web1, mut web2) = (site.join("web-1"), site.join("web-2"));
    let template = two_files(&site, &web1, "web-2", web2.file("far").to_str().unwrap());
    web2.daemon.kill();
    site.until_node("web-2", "offline");
    site.ok(&["stack", "create", "s", "-t", &template]);
    eventually("near is there", || web1.content("near"));
    eventually("near is COMPLETE", || (site.resource("s", "near")["status"] == "COMPLETE").then_some(()));
    assert_eq!(site.resource("s", "far")["phase"], "node_away");
    let after = site.resource("s", "after");
    assert_eq!((&after["phase"], &after["waits_for"]), (&"waiting".into(), &serde_json::json!(["far"])));
    assert_eq!(site.json(&["stack", "show", "s"])["status"], "IN_PROGRESS");
    web2.daemon.restart();
    until_complete(&site, "s");
    assert_eq!(web2.content("far").as_deref(), Some("y"));

    // A delete waits for it too: nothing is forgotten.
    web2.daemon.kill();
    site.until_node("web-2", "offline");
    site.muster(&["stack", "delete", "s", "--wait", "--timeout", "1"])
        .refused(3, &["has not ended within 1 s"]);
    assert_eq!(web2.content("far").as_deref(), Some("y"));
    web2.daemon.restart();
    eventually("it is deleted", || (site.json(&["stack", "list"]) == serde_json::json!([])).then_some(()));
    assert_eq!((web1.listing(), web2.listing()), (Vec::new(), Vec::new()));
}

#[test]
fn a_stack_timed_out_for_a_missing_node_resumes_when_it_joins() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let far = site.path().join("late.root/far");
    let template = two_files(&site, &web1, "web-2", far.to_str().unwrap());
    site.muster(&["stack", "create", "refused", "-t", &template, "--require-nodes"])
        .refused(1, &["never joined", "web-2"]);
    assert_eq!(site.json(&["stack", "list"]), serde_json::json!([]));

    let ran = site.muster(&["stack", "create", "s", "-t", &template, "--timeout", "1", "--wait"]);
    let ran = ran.refused(3, &["web-2", "missing"]);
    assert!(ran.stderr.contains("warning: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("did you mean web-1?"), "{}", ran.stderr);
    let view = site.json(&["stack", "show", "s"]);
    assert_eq!(view["status"], "FAILED", "{view}");

    // It joins under the name that the template has.
    std::fs::create_dir(site.path().join("late.root")).unwrap();
    let _web2 = site.join("web-2");
    eventually("the stack is COMPLETE by itself", || {
        (site.json(&["stack", "show", "s"])["status"] == "COMPLETE").then_some(())
    });
    assert_eq!(std::fs::read_to_string(far).unwrap(), "y");
}

#[test]
fn a_reinstalled_server_takes_its_name_from_the_old_one() {
    let site = Site::start();
    // It goes on running, with keys that count no more.
    let web1 = site.join("web-1");
    let state = Some(site.path().join("again"));
    let token = site.ok(&["node", "token", "--name", "web-1"]);
    let again = site.agent("web-1", token.trim(), Place { state, ..Place::default() });
    eventually("the new one has joined", || again.daemon.log().contains(" joined ").then_some(()));
    let template = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
        web1.file("x").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &template, "--wait"]);
    assert_eq!(web1.content("x").as_deref(), Some("x"));
    assert!(again.daemon.log().contains(" job "), "the new one has no job:\n{}", again.daemon.log());
    assert!(!web1.daemon.log().contains(" job "), "the old one has a job:\n{}", web1.daemon.log());
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(web1.listing(), [""; 0]);
}
