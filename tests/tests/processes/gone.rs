//! Nodes that are cut off, and nodes that are gone for ever and come back.

use std::fs;

use muster_testbed::eventually;
use muster_tests::site::{Agent, Place, Site};
use serde_json::json;

use crate::layers::until_complete;

fn file(site: &Site, node: &Agent, content: &str) -> String {
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file: {{type: Muster::File, properties: {{node: {}, path: {}, content: {content}}}}}\n",
        node.name,
        node.file("far").display()
    ))
}

/// Joins again as who it was, with its state directory.
fn again(site: &Site, node: &Agent, token: &str) -> Agent {
    site.agent(&node.name, token.trim(), Place { state: Some(node.state.clone()), ..Place::default() })
}

#[test]
fn a_delete_ends_when_its_dead_node_is_removed() {
    // When the node returns, it is cleaned up before anything else.
    let mut site = Site::start();
    let mut web1 = site.join("web-1");
    fs::write(web1.file("far"), "from before").unwrap();
    site.ok(&["stack", "create", "s", "-t", &file(&site, &web1, "x"), "--wait"]);
    assert_eq!(web1.content("far").as_deref(), Some("x"));
    web1.daemon.kill();
    site.until_node("web-1", "offline");
    site.ok(&["stack", "delete", "s"]);
    assert_eq!(site.json(&["stack", "show", "s"])["status"], "IN_PROGRESS");

    let removed = site.json(&["node", "remove", "web-1"]);
    let lost = &removed["lost"][0];
    assert_eq!(
        (&lost["stack"], &lost["resource"], &lost["node"]),
        (&json!("s"), &json!("file"), &json!("web-1"))
    );
    eventually("the delete has ended", || (site.json(&["stack", "list"]) == json!([])).then_some(()));
    let listed = |site: &Site| {
        let show = site.json(&["node", "show", "web-1"]);
        assert_eq!(show["lost"][0]["physical_id"], lost["physical_id"], "{show}");
        assert_eq!(show["state"], "lost");
    };
    listed(&site);
    site.kill();
    site.restart();
    listed(&site);
    site.muster(&["node", "remove", "web-1"]).refused(1, &["was removed before"]);

    // What it was is worth nothing any more.
    web1.daemon.restart();
    eventually("it is sent away", || {
        web1.daemon.log().contains("does not let this node in (NotAuthorized)").then_some(())
    });
    assert_eq!(site.node_state("web-1").as_deref(), Some("lost"));
    web1.daemon.kill();
    let any = site.ok(&["node", "token", "--any-name"]);
    let mut refused = again(&site, &web1, &any);
    eventually("a token for any name is refused", || refused.daemon.ended());
    assert!(refused.daemon.log().contains("it needs a token for that name"), "{}", refused.daemon.log());

    let ran = site.muster(&["stack", "create", "t", "-t", &file(&site, &web1, "y")]).expect(0);
    assert!(ran.stderr.contains("web-1 was removed and is waited for"), "{}", ran.stderr);
    let token = site.ok(&["node", "token", "--name", "web-1"]);
    let web1 = again(&site, &web1, &token);
    until_complete(&site, "t");
    assert_eq!(web1.content("far").as_deref(), Some("y"));
    let show = site.json(&["node", "show", "web-1"]);
    assert_eq!((&show["state"], &show["lost"]), (&json!("online"), &json!([])));
    site.ok(&["stack", "delete", "t", "--wait"]);
    assert_eq!(
        web1.content("far").as_deref(),
        Some("from before"),
        "the first was cleaned up before the second was made"
    );
}

#[test]
fn a_revoked_node_is_cut_off_at_once_until_it_joins_again() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    site.ok(&["node", "label", "web-1", "role=web", "zone=a"]);
    let names = |selector: &str| {
        let list = site.json(&["node", "list", "-l", selector]);
        list.as_array()
            .unwrap()
            .iter()
            .map(|node| node["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("role=web"), ["web-1"]);
    site.ok(&["node", "label", "web-1", "zone-"]);
    assert!(names("zone").is_empty());
    site.ok(&["node", "revoke", "web-1"]);
    assert_eq!(site.node_state("web-1").as_deref(), Some("revoked"));
    eventually("its connection is closed", || {
        web1.daemon.log().contains("AdministrativeAction").then_some(())
    });
    site.ok(&["stack", "create", "s", "-t", &file(&site, &web1, "x")]);
    assert_eq!(site.resource("s", "file")["phase"], "node_away");
    eventually("it is not let in again", || web1.daemon.log().contains("NotAuthorized").then_some(()));
    assert_eq!((site.node_state("web-1").as_deref(), web1.content("far")), (Some("revoked"), None));
    web1.daemon.kill();
    let token = site.ok(&["node", "token", "--name", "web-1", "--label", "role=db"]);
    let web1 = again(&site, &web1, &token);
    until_complete(&site, "s");
    assert_eq!(web1.content("far").as_deref(), Some("x"));
    assert_eq!(names("role=db"), ["web-1"], "joining again starts from the token's labels");
    site.ok(&["stack", "delete", "s", "--wait"]);
}
