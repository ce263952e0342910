//! `docs/restore.md`, done as it says.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_testbed::{Running, eventually};
use muster_tests::site::{Agent, Site, binary};
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../../docs/restore.md");

/// The commands of the block that begins with "```sh NAME".
fn block(name: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("```sh {name}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs a block with the places of this site instead of those of a machine. systemd is not asked: the test itself stops and
/// starts the controller where the document does.
fn run(site: &Site, name: &str, data: &Path) {
    let media = site.path().join("media");
    fs::create_dir_all(&media).unwrap();
    let config = site.path().join("controller.toml");
    let controller = format!(
        "{} --config {} --data-dir {}",
        binary("muster-controller").display(),
        config.display(),
        data.display()
    );
    let script = block(name)
        .replace("muster-controller restore", &format!("{controller} restore"))
        .replace("muster-controller backup", &format!("{controller} backup"))
        .replace("/var/lib/muster", data.to_str().unwrap())
        .replace("/var/backups", media.to_str().unwrap())
        .replace("/media/key", media.to_str().unwrap());
    let muster =
        format!("{} --url unix://{} ", binary("muster").display(), site.path().join("api.sock").display());
    let lines = script.lines().filter(|line| !line.starts_with("systemctl "));
    let lines = lines.map(|line| match line.strip_prefix("muster ") {
        Some(arguments) => format!("{muster}{arguments}"),
        None => line.to_owned(),
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    let ran = Command::new("sh").args(["-eux", "-c", &lines]).output().unwrap();
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn agents_come_back_after_a_restore_on_a_new_disk() {
    let mut site = Site::start();
    let agents = [site.join("web-1"), site.join("web-2")];
    let template = |content: &str| {
        let file = |(n, agent): (usize, &Agent)| {
            format!(
                "  f{n}: {{type: Muster::File, properties: {{node: {}, path: {}, content: {content}}}}}\n",
                agent.name,
                agent.file("motd").display()
            )
        };
        let files: String = agents.iter().enumerate().map(file).collect();
        site.file(&format!("heat_template_version: 2018-08-31\nresources:\n{files}"))
    };
    let (first, second) = (template("first"), template("second"));
    site.ok(&["stack", "create", "s", "-t", &first, "--wait"]);
    let data = site.database().parent().unwrap().to_owned();
    run(&site, "backup", &data);

    site.kill();
    fs::remove_dir_all(&data).unwrap();
    run(&site, "restore", &data);
    site.restart();
    for agent in &agents {
        site.until_node(&agent.name, "online");
        assert_eq!(agent.content("motd").as_deref(), Some("first"));
    }
    run(&site, "look", &data);
    let audit = site.json(&["audit"]);
    let row = audit.as_array().unwrap().iter().find(|row| row["action"] == "restore").unwrap();
    assert!(row["what"].as_str().unwrap().starts_with("backup of 20"), "{row}");
    // They obey it as they did the old one, and it is backed up again.
    site.ok(&["stack", "update", "s", "-t", &second, "--wait"]);
    for agent in &agents {
        assert_eq!(agent.content("motd").as_deref(), Some("second"));
    }
    site.join("web-3");
    run(&site, "backup", &data);
}

/// Files and a script that leaves a line for each run.
fn later_template(site: &Site, agent: &Agent, content: &str, files: &[&str]) -> String {
    let lines = agent.file("lines");
    let file = |file: &&str| {
        let path = agent.file(file);
        format!(
            "  {file}: {{type: Muster::File, properties: {{node: web-1, path: {}, content: x}}}}\n",
            path.display()
        )
    };
    let files: String = files.iter().map(file).collect();
    site.file(&format!(
        "heat_template_version: 2018-08-31
resources:
{files}  motd: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {content}}}}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      config: |
        #!/bin/sh
        echo {content} >>{}
  run:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: config}}, server: web-1, actions: [CREATE, UPDATE]}}
",
        agent.file("motd").display(),
        lines.display()
    ))
}

#[test]
fn what_a_backup_does_not_know_waits_for_an_operator() {
    let mut site = Site::start();
    let agent = site.join("web-1");
    let (old, new) = (
        later_template(&site, &agent, "first", &["before"]),
        later_template(&site, &agent, "second", &["since", "kept"]),
    );
    fs::write(agent.file("since"), "mine").unwrap();
    site.ok(&["stack", "create", "s", "-t", &old, "--wait"]);
    let data = site.database().parent().unwrap().to_owned();
    run(&site, "backup", &data);
    site.ok(&["stack", "update", "s", "-t", &new, "--wait"]);

    site.kill();
    fs::remove_dir_all(&data).unwrap();
    run(&site, "restore", &data);
    site.restart();
    site.until_node("web-1", "online");
    let list = eventually("the list", || {
        let list = site.json(&["restore", "list"]);
        // What is unknown gets its name a moment later.
        let named = |list: &Vec<Value>| list.iter().filter(|it| !it["thing"].is_null()).count();
        list.as_array().is_some_and(|list| named(list) == 2).then_some(list)
    });
    let states = |list: &Value| {
        let item = |it: &Value| {
            format!("{} {}", it["resource"].as_str().unwrap_or("-"), it["state"].as_str().unwrap())
        };
        let mut states: Vec<String> = list.as_array().unwrap().iter().map(item).collect();
        states.sort();
        states
    };
    run(&site, "list", &data);
    assert_eq!(states(&list), ["- unknown", "- unknown", "before deleted", "motd newer", "run newer"]);
    let status = site.json(&["status"]);
    assert_eq!((&status["restored"], &status["waiting"]["restore"]), (&json!(true), &json!(5)));
    // What the store does not know is there with its type and by its name, and its node is said.
    let things = site.ok(&["restore", "list", "--node", "web-1"]);
    for name in ["since", "kept"] {
        let path = agent.file(name).display().to_string();
        let line = things.lines().find(|line| line.contains(&path)).unwrap_or_else(|| panic!("{things}"));
        assert!(line.contains("Muster::File") && line.contains("unknown"), "{line}");
    }
    assert!(!things.contains("secret") && site.json(&["restore", "list", "--node", "web-2"]) == json!([]));
    assert_eq!(site.json(&["node", "show", "web-1"])["held"], 5);
    assert!(site.ok(&["node", "list"]).contains("5 things on web-1 wait: muster restore list --node web-1"));
    let as_it_was = || {
        for name in ["since", "kept"] {
            assert_eq!(agent.content(name).as_deref(), Some("x"), "nothing is removed");
        }
        assert_eq!(agent.content("before"), None, "nothing is made again");
        assert_eq!(agent.content("motd").as_deref(), Some("second"));
        assert_eq!(agent.content("lines").as_deref(), Some("first\nsecond\n"), "no script runs again");
    };
    as_it_was();
    let id = |name: &str| {
        let path = agent.file(name).display().to_string();
        let of_it = |it: &&Value| it["resource"] == name || it["thing"] == path.as_str();
        list.as_array().unwrap().iter().find(of_it).unwrap()["id"].as_str().unwrap().to_owned()
    };
    // All or nothing.
    site.muster(&["restore", "remove", &id("since"), "nothing"]).refused(1, &["does not wait"]);
    site.muster(&["restore", "remove", "--all", "--node", "web-2"]).refused(1, &["web-2", "restore list"]);
    site.muster(&["restore", "remove", "--node", "web-1"]).refused(2, &["--all"]);
    as_it_was();
    site.ok(&["restore", "remove", &id("before"), &id("since")]);
    eventually("the file is made again", || agent.content("before"));
    let back = || (agent.content("since").as_deref() == Some("mine")).then_some(());
    eventually("what was there before the removed file is back", back);
    site.ok(&["restore", "adopt", &id("motd"), &id("kept")]);
    run(&site, "decide", &data);
    eventually("the end of the state", || (site.json(&["status"])["restored"] == false).then_some(()));
    assert_eq!(agent.content("lines").as_deref(), Some("first\nsecond\n"));
    assert_eq!(agent.content("kept").as_deref(), Some("x"), "what is adopted stays");
    assert_eq!(site.json(&["node", "show", "web-1"])["held"], 0);
    // A new wish is newer than all.
    site.ok(&["stack", "update", "s", "-t", &new, "--wait"]);
    assert_eq!(agent.content("before"), None);
    assert_eq!(agent.content("motd").as_deref(), Some("second"));
}

/// The operator's word is given while the agent is away, and the controller is killed after it.
#[test]
fn a_removal_waits_for_its_node() {
    let mut site = Site::start();
    let mut agent = site.join("web-1");
    let data = site.database().parent().unwrap().to_owned();
    run(&site, "backup", &data);
    let new = later_template(&site, &agent, "first", &["since"]);
    fs::write(agent.file("motd"), "mine").unwrap();
    site.ok(&["stack", "create", "s", "-t", &new, "--wait"]);
    site.kill();
    fs::remove_dir_all(&data).unwrap();
    run(&site, "restore", &data);
    site.restart();
    eventually("the list", || {
        let list = site.json(&["restore", "list"]);
        let types = list.as_array().into_iter().flatten().filter(|it| !it["type"].is_null());
        (types.count() == 3).then_some(())
    });
    agent.daemon.kill();
    site.until_node("web-1", "offline");
    site.ok(&["restore", "remove", "--all", "--node", "web-1"]);
    assert_eq!(site.json(&["restore", "list"]), json!([]));
    assert_eq!(site.json(&["node", "show", "web-1"])["lost_total"], 3);
    assert_eq!(agent.content("since").as_deref(), Some("x"));
    site.kill();
    site.restart();
    agent.daemon.restart();
    eventually("the end of the removal", || {
        (site.json(&["node", "show", "web-1"])["lost_total"] == 0).then_some(())
    });
    assert_eq!((agent.content("since"), agent.content("motd").as_deref()), (None, Some("mine")));
    assert_eq!(agent.content("lines").as_deref(), Some("first\n"), "no script runs for it");
    eventually("the end of the state", || (site.json(&["status"])["restored"] == false).then_some(()));
}

#[test]
fn a_site_is_never_overwritten() {
    let site = Site::start();
    let data = site.database().parent().unwrap().to_owned();
    run(&site, "backup", &data);
    let backup = site.path().join("media/muster.db");
    let controller = |data: &Path| {
        let mut command = Command::new(binary("muster-controller"));
        command.arg("--config").arg(site.path().join("controller.toml")).arg("--data-dir").arg(data);
        command.arg("restore").arg(&backup);
        Running::start(command).finish()
    };
    controller(&data).refused(1, &["stop the controller first"]);
    let other = site.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("muster.db"), "mine").unwrap();
    controller(&other).refused(1, &["there is a site already", "--data-dir"]);
    assert_eq!(fs::read_to_string(other.join("muster.db")).unwrap(), "mine");
}
