//! Ansible itself reads the nodes of a site, with the script of `docs/ansible.md`. Ansible comes from PyPI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_testbed::Running;
use muster_tests::site::{Link, Site, binary};
use serde_json::{Value, json};
use tempfile::TempDir;

const DOCUMENT: &str = include_str!("../../../docs/ansible.md");
/// The newest that this was tried with, or an older one that this Python can run.
const ANSIBLE: &str = "ansible-core<2.20";
/// PyPI may be slow.
const INSTALL_WITHIN: Duration = Duration::from_secs(600);

/// Ansible in a directory of its own, and the inventory script of a site.
struct Ansible {
    dir: TempDir,
    url: String,
}

impl Ansible {
    /// Installs it.
    fn of(site: &Site) -> Self {
        let ansible = Self { dir: TempDir::new().unwrap(), url: site.url() };
        ansible.run("python3", &["-m", "venv", ansible.path("venv").to_str().unwrap()]);
        let pip = ["install", "--quiet", "--disable-pip-version-check", "--no-compile", ANSIBLE];
        ansible.run(ansible.path("venv/bin/pip"), &pip);
        let (_, script) = DOCUMENT.split_once("```sh muster-inventory\n").unwrap();
        let script = script.split_once("```").unwrap().0;
        fs::write(ansible.script(), script).unwrap();
        fs::set_permissions(ansible.script(), fs::Permissions::from_mode(0o755)).unwrap();
        ansible
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self) -> PathBuf {
        self.path("muster-inventory")
    }

    /// The output of a program that must succeed; it finds this build's `muster`.
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> String {
        let bin = binary("muster").parent().unwrap().to_owned();
        let path = std::env::join_paths(
            [bin].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new(program.as_ref());
        command.args(arguments).env("PATH", path.unwrap()).env("MUSTER_URL", &self.url);
        command.env("ANSIBLE_HOME", self.dir.path()).env("ANSIBLE_NOCOLOR", "1").env("LC_ALL", "C.UTF-8");
        Running::start(command).finish_within(INSTALL_WITHIN).expect(0).stdout
    }

    /// Runs one of Ansible's programs, with the site as its inventory.
    fn ansible(&self, program: &str, arguments: &[&str]) -> String {
        let script = self.script();
        let inventory = ["-i", script.to_str().unwrap()];
        self.run(self.path("venv/bin").join(program), &[&inventory, arguments].concat())
    }
}

#[test]
fn ansible_reads_the_nodes_of_a_site() {
    let site = Site::over(Link::Direct);
    let _agents = (site.join("web-1"), site.join("web-2"), site.join("db-1"));
    for (node, label) in [("web-1", "role=web"), ("web-2", "role=web"), ("db-1", "role=data.base")] {
        site.until_node(node, "online");
        site.ok(&["node", "label", node, label]);
    }
    site.ok(&["node", "maintenance", "web-2", "on"]);
    let ansible = Ansible::of(&site);

    let text = ansible.ansible("ansible-inventory", &["--list"]);
    let inventory: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    for (group, hosts) in [
        ("role_web", json!(["web-1", "web-2"])),
        ("role_data_base", json!(["db-1"])),
        ("online", json!(["db-1", "web-1"])),
        ("maintenance", json!(["web-2"])),
    ] {
        let mut found = inventory[group]["hosts"].clone();
        found.as_array_mut().unwrap_or_else(|| panic!("{group}: {text}")).sort_by_key(Value::to_string);
        assert_eq!(found, hosts, "{group}");
    }
    let variables = &inventory["_meta"]["hostvars"]["web-2"];
    assert_eq!(
        (&variables["ansible_host"], &variables["muster_state"], &variables["muster_labels"]),
        (&json!("127.0.0.1"), &json!("maintenance"), &json!({"role": "web"}))
    );
    let of_host = ansible.ansible("ansible-inventory", &["--host", "web-2"]);
    assert_eq!(serde_json::from_str::<Value>(&of_host).unwrap(), *variables);
    assert_eq!(site.json(&["inventory", "--host", "web-2"]), *variables);
    assert_eq!(site.ok(&["inventory", "--host", "web-3"]), "{}\n");
    let listed = ansible.ansible("ansible", &["role_web:!maintenance", "--list-hosts"]);
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["hosts", "(1):", "web-1"]);

    // With facts, as the document says.
    let script = fs::read_to_string(ansible.script()).unwrap().replace("inventory", "inventory --facts");
    assert!(DOCUMENT.contains(&format!("`{}`", script.lines().last().unwrap())));
    fs::write(ansible.script(), script).unwrap();
    let message = ["web-1", "-m", "ansible.builtin.debug", "-a", "var=muster_facts.architecture"];
    assert!(ansible.ansible("ansible", &message).contains(std::env::consts::ARCH));
}
