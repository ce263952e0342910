//! Fleets with real processes: a file for each server, a rollout that its canary stops, one that is paused over a kill -9
//! of the controller, and what each command says of it.

use muster_tests::testbed::{Agent, Site, eventually};
use serde_json::{Value, json};

use crate::layers::until_complete;

/// A file in the directory of each server, and something that may fail.
fn template(site: &Site, agents: &[Agent], content: &str, fail: bool) -> String {
    let root = agents[0].root.to_str().unwrap();
    let path = root.replace("web-1", "NODE");
    assert_ne!(path, root, "a server's directory has its name");
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file:\n    type: Muster::File\n    for_each: {{nodes: role=web}}\n    rollout: {{batch: 1, pause: 1, canary: 1}}\n    \
         properties: {{path: {{str_replace: {{template: {path}/f, params: {{NODE: {{get_node: name}}}}}}}}, content: {content}}}\n  \
         may:\n    type: Muster::Dummy\n    for_each: {{nodes: role=web}}\n    depends_on: file\n    rollout: {{batch: 2, canary: 1, max_failures: 1}}\n    \
         properties: {{values: {{v: {content}}}, fail: {fail}}}\n\
         outputs: {{paths: {{value: {{get_attr: [file, path]}}}}}}\n"
    ))
}

fn rollout(site: &Site, name: &str) -> Value {
    let view = site.json(&["stack", "show", "s"]);
    let found = view["rollouts"].as_array().unwrap().iter().find(|rollout| rollout["resource"] == name);
    found.cloned().unwrap_or_default()
}

#[test]
fn a_fleet_is_made_followed_and_rolled_out() {
    let mut site = Site::start();
    let agents: Vec<Agent> = (1..=4).map(|n| site.join(&format!("web-{n}"))).collect();
    for agent in &agents[..3] {
        site.ok(&["node", "label", &agent.name, "role=web"]);
    }
    let first = template(&site, &agents, "one", false);
    site.muster(&["stack", "create", "s", "-t", &first, "--max-nodes", "2"])
        .refused(1, &["'role=web' selects 3 nodes, over the 2 of --max-nodes"]);
    site.ok(&["stack", "create", "s", "-t", &first, "--wait"]);
    let list = site.json(&["resource", "list", "s"]);
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["file[web-1]", "file[web-2]", "file[web-3]", "may[web-1]", "may[web-2]", "may[web-3]"]
    );
    assert_eq!(site.resource("s", "may[web-2]")["requires"], json!(["file[web-2]"]));
    let content = |n: usize| agents[n - 1].content("f");
    assert_eq!((content(3).as_deref(), content(4)), (Some("one"), None));

    // Labels have effect at once.
    site.ok(&["node", "label", "web-4", "role=web"]);
    eventually("web-4 has its own", || content(4));
    site.ok(&["node", "label", "web-3", "role-"]);
    eventually("web-3 has nothing left", || content(3).is_none().then_some(()));
    until_complete(&site, "s");

    // What fails on the canary is on nobody else.
    let bad = template(&site, &agents, "two", true);
    site.muster(&["stack", "update", "s", "-t", &bad, "--wait"])
        .refused(1, &["its rollout was aborted: its canary"]);
    assert_eq!(rollout(&site, "may")["state"], "aborted");
    let failed = site.json(&["stack", "failures", "s"]);
    let failed: Vec<&str> =
        failed.as_array().unwrap().iter().map(|row| row["resource"].as_str().unwrap()).collect();
    assert_eq!(failed.iter().filter(|name| name.starts_with("may[")).count(), 1, "{failed:?}");
    site.ok(&["stack", "rollback", "s", "--wait"]);
    assert_eq!(content(1).as_deref(), Some("one"));

    // Paused, killed, resumed.
    let good = template(&site, &agents, "three", false);
    site.ok(&["stack", "update", "s", "-t", &good]);
    site.ok(&["stack", "rollout", "s", "pause", "file"]);
    eventually("its canary has ended", || (rollout(&site, "file")["in_flight"] == 0).then_some(()));
    site.kill();
    site.restart();
    for agent in &agents {
        site.until_node(&agent.name, "online");
    }
    assert_eq!(rollout(&site, "file")["state"], "paused");
    assert_eq!(site.resource("s", "file[web-4]")["phase"], "rollout");
    assert!(site.ok(&["stack", "show", "s"]).contains("1/3 done, paused"));
    site.muster(&["stack", "update", "s", "-t", &bad])
        .refused(1, &["rollout of file of stack 's' is paused"]);
    assert_eq!(content(4).as_deref(), Some("one"));
    site.ok(&["stack", "rollout", "s", "resume"]);
    until_complete(&site, "s");
    assert_eq!(
        (content(1).as_deref(), content(2).as_deref(), content(4).as_deref()),
        (Some("three"), Some("three"), Some("three"))
    );
    site.muster(&["stack", "rollout", "s", "promote"]).refused(1, &["no rollout of stack 's' is under way"]);
    site.ok(&["stack", "delete", "s", "--wait"]);
    assert!(agents.iter().all(|agent| agent.listing().is_empty()));
}
