//! A job and its withdrawal that reach a server together: the job never begins.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use muster_testbed::eventually;
use muster_tests::site::{Agent, Site};

/// The messages come apart now and then by themselves.
const ROUNDS: usize = 3;

fn signal(agent: &Agent, name: &str) {
    let pid = agent.daemon.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Bytes from the controller that the agent has not read yet.
fn unread(site: &Site) -> u64 {
    let port: u16 = site.address().rsplit(':').next().unwrap().parse().unwrap();
    let from = format!(":{port:04X}");
    let connections = fs::read_to_string("/proc/net/tcp").unwrap();
    let unread = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, queue) = fields.get(4)?.split_once(':')?;
        fields[2].ends_with(&from).then(|| u64::from_str_radix(queue, 16).unwrap())
    };
    connections.lines().filter_map(unread).sum()
}

fn until_more_is_unread(site: &Site, before: u64, what: &str) {
    eventually(&format!("{what} arrived"), || (unread(site) > before).then_some(()));
}

fn state(agent: &Agent) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.daemon.id())).unwrap();
    stat.rsplit(')').next()?.trim_start().chars().next()
}

#[test]
fn a_delete_and_its_withdrawal_read_together() {
    let site = Site::start();
    let web1 = site.join("web-1");
    let motd = web1.file("motd");
    let kept = "heat_template_version: 2018-08-31\nresources:\n  \
                a: {type: Muster::Dummy, properties: {node: web-1}}\n";
    let (file, dummy) = (
        format!(
            "  motd: {{type: Muster::File, properties: {{node: web-1, path: {}, content: hi}}}}\n",
            motd.display()
        ),
        "  b: {type: Muster::Dummy, properties: {node: web-1}}\n",
    );
    let (whole, less) = (site.file(&format!("{kept}{file}{dummy}")), site.file(kept));
    site.ok(&["stack", "create", "s", "-t", &whole, "--wait"]);
    let are =
        || (site.physical_ids("s", "motd"), site.physical_ids("s", "b"), fs::metadata(&motd).unwrap().ino());
    let were = are();
    for _ in 0..ROUNDS {
        signal(&web1, "-STOP");
        eventually("it stands still", || (state(&web1) == Some('T')).then_some(()));
        let before = unread(&site);
        site.ok(&["stack", "update", "s", "-t", &less]);
        eventually("both deletes are sent", || {
            let sent = "SELECT 1 FROM resources WHERE action = 'DELETE' AND in_flight = 1";
            (site.query(sent).len() == 2).then_some(())
        });
        // What the controller sends leaves it a moment after it is recorded, and after the operator is answered.
        until_more_is_unread(&site, before, "the deletes");
        let before = unread(&site);
        site.ok(&["stack", "rollback", "s"]);
        until_more_is_unread(&site, before, "their withdrawals");
        signal(&web1, "-CONT");
        eventually("the rollback ends", || {
            (site.json(&["stack", "show", "s"])["status"] == "COMPLETE").then_some(())
        });
        assert_eq!(are(), were);
        site.ok(&["stack", "update", "s", "-t", &whole, "--wait"]);
    }
}
