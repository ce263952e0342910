//! `docs/restore.md`, done as it says.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_tests::testbed::{Agent, Running, Site, binary};

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
    let lines = script.lines().filter(|line| !line.starts_with("systemctl ")).collect::<Vec<_>>().join("\n");
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
    // They obey it as they did the old one, and it is backed up again.
    site.ok(&["stack", "update", "s", "-t", &second, "--wait"]);
    for agent in &agents {
        assert_eq!(agent.content("motd").as_deref(), Some("second"));
    }
    site.join("web-3");
    run(&site, "backup", &data);
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
