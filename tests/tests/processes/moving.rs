//! A node moves from one site to another: two controllers that know nothing of each other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use muster_testbed::eventually;
use muster_tests::site::{Agent, Link, Site};

/// A file that stays on the server when its stack goes.
fn kept(site: &Site, node: &Agent) -> String {
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  file:\n    type: Muster::File\n    deletion_policy: retain\n    \
         properties: {{node: {}, path: {}, content: kept}}\n",
        node.name,
        node.file("kept").display()
    ))
}

/// The metadata that change with any write of the file.
fn state(node: &Agent) -> (u64, i64, i64, i64) {
    let file = fs::metadata(node.file("kept")).unwrap();
    (file.ino(), file.mtime_nsec(), file.ctime(), file.ctime_nsec())
}

fn token(site: &Site, name: &str) -> String {
    site.ok(&["node", "token", "--name", name]).trim().to_owned()
}

#[test]
fn a_node_moves_and_its_server_is_not_touched() {
    let (old, new) = (Site::start(), Site::start());
    let mut web1 = old.join("web-1");
    old.ok(&["stack", "create", "s", "-t", &kept(&old, &web1), "--wait"]);
    let process = web1.daemon.id();
    let before = state(&web1);
    let token = token(&new, "web-1");
    old.muster(&["node", "move", "web-1", "--token", &token])
        .refused(1, &["has resources of these stacks: s.", "deletion_policy: retain"]);
    old.ok(&["stack", "delete", "s", "--wait"]);
    assert_eq!(state(&web1), before, "it is retained");

    let moved = old.ok(&["node", "move", "web-1", "--token", &token]);
    assert!(moved.starts_with("web-1 belongs to site '"), "{moved}");
    assert_eq!(old.node_state("web-1"), None);
    new.until_node("web-1", "online");
    assert_eq!((state(&web1), web1.daemon.id()), (before, process), "nothing on the server has changed");

    // A stack of the new site takes the file as it is, and the node is the new site's after a crash, too.
    new.ok(&["stack", "create", "s", "-t", &kept(&new, &web1), "--wait"]);
    assert_eq!(state(&web1), before);
    web1.daemon.kill();
    new.until_node("web-1", "offline");
    web1.daemon.restart();
    new.until_node("web-1", "online");
    assert_eq!(new.json(&["restore", "list"]), serde_json::json!([]), "it holds what the site knows");
    for log in [old.controller.log(), new.controller.log(), web1.daemon.log()] {
        assert!(!log.contains(&token), "the token is a secret: {log}");
    }

    // And back, to a site that has long forgotten it.
    new.ok(&["stack", "delete", "s", "--wait"]);
    let back = old.ok(&["node", "token", "--name", "web-1", "--label", "role=web"]);
    new.ok(&["node", "move", "web-1", "--token", back.trim()]);
    old.until_node("web-1", "online");
    assert_eq!(old.json(&["node", "list", "-l", "role=web"])[0]["name"], "web-1");
    assert_eq!((state(&web1), web1.daemon.id() == process), (before, false));
}

#[test]
fn a_node_that_cannot_move_stays_where_it_was() {
    // A token goes to the site's own controller: nothing may be in between that still answers.
    let (old, mut new) = (Site::over(Link::Direct), Site::over(Link::Direct));
    let mut web1 = old.join("web-1");
    let tries = |token: &str| old.muster(&["node", "move", "web-1", "--token", token]);
    let stays = |web1: &Agent, content: &str| {
        assert_eq!(old.node_state("web-1").as_deref(), Some("online"));
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             f: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {content}}}}}\n",
            web1.file("works").display()
        );
        old.ok(&["stack", "create", content, "-t", &old.file(&text), "--wait"]);
        assert_eq!(web1.content("works").as_deref(), Some(content));
        old.ok(&["stack", "delete", content, "--wait"]);
    };

    let good = token(&new, "web-1");
    tries("muster1-x").refused(2, &["the join token is damaged"]);
    tries(&token(&old, "web-1")).refused(2, &["the join token is of this site"]);
    old.muster(&["node", "move", "web-9", "--token", &good]).refused(1, &["no node 'web-9' has joined"]);
    tries(&token(&new, "db-1")).refused(1, &["node 'web-1' stays in this site", "is for 'db-1'"]);
    stays(&web1, "a");

    // Another server has the name there.
    let mut theirs = new.join("web-1");
    tries(&token(&new, "web-1")).refused(1, &["has a node 'web-1' already", "muster node remove web-1"]);
    assert_eq!(new.node_state("web-1").as_deref(), Some("online"), "it keeps its place");
    stays(&web1, "b");
    theirs.daemon.kill();
    new.ok(&["node", "remove", "web-1"]);

    let unreached = token(&new, "web-1");
    new.kill();
    tries(&unreached).refused(1, &["node 'web-1' stays in this site", "it cannot join site"]);
    stays(&web1, "c");

    new.restart();
    web1.daemon.kill();
    old.until_node("web-1", "offline");
    tries(&unreached).refused(1, &["node 'web-1' is not connected"]);
    web1.daemon.restart();
    old.until_node("web-1", "online");
    tries(&unreached).expect(0);
    new.until_node("web-1", "online");
    assert_eq!(old.node_state("web-1"), None);
}

/// The old site's store was set back, and its operator left on the server what it did not know any more.
#[test]
fn a_node_takes_along_what_no_stack_has() {
    let (mut old, new) = (Site::start(), Site::start());
    let web1 = old.join("web-1");
    let data = old.database().parent().unwrap().to_owned();
    let databases = || {
        let all = fs::read_dir(&data).unwrap().map(|file| file.unwrap().path());
        all.filter(|path| path.to_string_lossy().contains("muster.db")).collect::<Vec<_>>()
    };
    old.kill();
    let before: Vec<_> = databases().into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    old.restart();
    old.until_node("web-1", "online");
    old.ok(&["stack", "create", "s", "-t", &kept(&old, &web1), "--wait"]);
    old.kill();
    databases().iter().for_each(|path| fs::remove_file(path).unwrap());
    before.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
    old.restart();
    old.until_node("web-1", "online");
    let listed = |site: &Site| {
        eventually("it is listed", || {
            let list = site.json(&["restore", "list"]);
            (list.as_array()?.len() == 1 && list[0]["state"] == "unknown").then_some(())
        });
    };
    listed(&old);
    old.ok(&["restore", "adopt", "--all"]);

    let written = state(&web1);
    old.ok(&["node", "move", "web-1", "--token", &token(&new, "web-1")]);
    new.until_node("web-1", "online");
    listed(&new);
    assert_eq!(new.json(&["status"])["restored"], false, "the new site's store is not older than the node");
    assert_eq!(state(&web1), written);
    new.ok(&["restore", "remove", "--all"]);
    eventually("it is removed when an operator says so", || web1.content("kept").is_none().then_some(()));
}
