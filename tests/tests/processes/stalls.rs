//! A database that stalls: what is asked is answered, refused for a while, or waits, each with a word; nothing is lost.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use muster_testbed::{Daemon, Postgres, Running, command, eventually};
use muster_tests::site::{Agent, Place, Site, template_of_a_file};
use serde_json::Value;

/// A server with the site's database, a controller, and an agent with the file of the stack `web`.
struct Bed {
    server: Postgres,
    site: Site,
    web1: Agent,
    template: String,
}

impl Bed {
    fn start() -> Self {
        let server = Postgres::start();
        server.create("site");
        let site = Site::with_variables(&[("MUSTER_STORE__URL", OsStr::new(&server.url("site")))]);
        let web1 = site.join("web-1");
        let template = site.file(&template_of_a_file("web-1", &web1.file("motd")));
        site.ok(&["stack", "create", "web", "-t", &template, "-P", "text=one", "--wait"]);
        Self { server, site, web1, template }
    }

    fn update<'a>(&'a self, text: &'a str) -> [&'a str; 8] {
        ["stack", "update", "web", "-t", &self.template, "-P", text, "--wait"]
    }

    fn log_has(&self, text: &str, times: usize) {
        eventually(&format!("the log has {times} times: {text}"), || {
            (self.site.controller.log().matches(text).count() >= times).then_some(())
        });
    }
}

/// The head of the answer to a request without a body.
fn head(site: &Site, line: &str) -> String {
    let mut stream = UnixStream::connect(site.path().join("api.sock")).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase()
}

/// Each commit counts in `meta`, so none is made while that is locked; all of it can be read.
#[test]
fn while_nothing_can_be_written_all_wait_and_are_told() {
    let bed = Bed::start();
    let site = &bed.site;
    let token = site.ok(&["node", "token", "--name", "web-2"]);
    let slow = site.file(
        "heat_template_version: 2018-08-31\nresources:\n  \
         x: {type: Muster::Dummy, properties: {node: web-1, seconds: 10}}\n",
    );
    site.ok(&["stack", "create", "slow", "-t", &slow]);
    eventually("it runs", || (site.resource("slow", "x")["phase"] == "running").then_some(()));
    let lock = bed.server.lock("site", "meta", "SHARE");

    let refused = head(site, "DELETE /v1/stacks/web");
    assert!(refused.starts_with("http/1.1 503 ") && refused.contains("\r\nretry-after: 2"), "{refused}");
    bed.log_has("is read-only", 1);
    let nodes = site.muster(&["node", "list"]).expect(0);
    assert!(nodes.stdout.contains("web-1"), "{}", nodes.stdout);
    site.muster(&["stack", "delete", "web", "--wait", "--timeout", "1"])
        .refused(3, &["look after the database server", "muster gave up waiting"]);
    let web2 = site.agent("web-2", token.trim(), Place::default());
    eventually("the server that joins is told", || {
        web2.daemon.log().contains("this server asks again in").then_some(())
    });
    let before = site.controller.log().matches("update stack=web").count();
    let update = site.spawn(&bed.update("text=two"));
    // Refused, and asked again.
    bed.log_has("update stack=web", before + 2);
    assert_eq!(bed.web1.content("motd").as_deref(), Some("one"));
    let rows = "SELECT count(*) FROM resources WHERE name = 'x' AND status = 'COMPLETE'";
    assert_eq!(bed.server.psql("site", rows), "0", "the agent's report waits");

    drop(lock);
    let updated = update.finish().expect(0);
    assert!(updated.stderr.contains("; waiting for up to 60 s\n"), "{}", updated.stderr);
    assert_eq!(bed.web1.content("motd").as_deref(), Some("two"));
    assert_eq!(site.json(&["stack", "show", "web"])["revision"], 2, "it was carried out once");
    eventually("the report is taken", || (site.resource("slow", "x")["status"] == "COMPLETE").then_some(()));
    site.until_node("web-2", "online");
}

/// Stacks that an operator updates at once, on the agents of a simulated fleet.
const STACKS: usize = 50;
const AGENTS: usize = 10;
/// The most memory that so many requests may take while they wait.
const WAITING_MAX: u64 = 64 * 1024 * 1024;

/// A figure of the controller's memory, in bytes.
fn memory(site: &Site, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", site.controller.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn all_stacks_are_updated_while_nothing_can_be_written() {
    let server = Postgres::start();
    server.create("site");
    let site = Site::direct_with_variables(&[("MUSTER_STORE__URL", OsStr::new(&server.url("site")))]);
    let agents = AGENTS.to_string();
    let token = site.ok(&["node", "token", "--uses", &agents, "--name", "fleet-*"]);
    let mut fleet = command(None, env!("CARGO_BIN_EXE_muster-sim"));
    fleet.args(["fleet", "--stay", "--agents", &agents, "--token", token.trim()]);
    let mut fleet = Daemon::start("fleet", fleet, site.path());
    eventually("the fleet is online", || fleet.log().contains("fleet: staying").then_some(()));
    let stacks: Vec<(String, String)> = (0..STACKS)
        .map(|number| {
            let node = format!("fleet-{}", number % AGENTS);
            let path = format!("/etc/file{number}");
            (format!("s{number:02}"), site.file(&template_of_a_file(&node, Path::new(&path))))
        })
        .collect();
    // The first one waits for its commit; the others come while nothing is taken.
    let all = |verb: &'static str, stacks: &[(String, String)], text: &str| -> Vec<Running> {
        let ask = |(name, template): &(String, String)| {
            site.spawn(&["stack", verb, name, "-t", template, "-P", &format!("text={text}"), "--wait"])
        };
        stacks.iter().map(ask).collect()
    };
    for created in all("create", &stacks, "one") {
        created.finish().expect(0);
    }
    let before = memory(&site, "VmRSS");

    let lock = server.lock("site", "meta", "SHARE");
    let mut updates = all("update", &stacks[..1], "two");
    eventually("the site is read-only", || site.controller.log().contains("is read-only").then_some(()));
    updates.extend(all("update", &stacks[1..], "two"));
    for (name, _) in &stacks {
        let asked = format!("update stack={name}");
        eventually(&format!("{name} is refused, and asked for again"), || {
            (site.controller.log().matches(&asked).count() >= 2).then_some(())
        });
    }
    drop(lock);
    for update in updates {
        let updated = update.finish().expect(0);
        assert!(updated.stderr.contains("; waiting for up to 60 s\n"), "{}", updated.stderr);
    }
    let (most, bound) = (memory(&site, "VmHWM"), before + WAITING_MAX);
    assert!(most < bound, "{most} bytes of memory at most, and {before} before");

    let list = site.json(&["stack", "list"]);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), STACKS);
    for stack in list {
        assert_eq!((&stack["action"], &stack["status"]), (&"UPDATE".into(), &"COMPLETE".into()), "{stack}");
        assert_eq!(stack["revision"], 2, "it was updated once: {stack}");
    }
    assert!(fleet.stop().success(), "{}", fleet.log());
    let report: Value = serde_json::from_str(fleet.log().lines().last().unwrap()).unwrap();
    assert_eq!(report["stayed_failed"], 0, "{report}");
}

/// The server and all its sessions are stopped, as on a machine that hangs: not even a connection fails.
#[test]
fn a_server_that_hangs_holds_up_no_read_without_a_word() {
    let bed = Bed::start();
    let site = &bed.site;
    bed.server.freeze();
    let delete = site.spawn(&["stack", "delete", "web", "--wait"]);
    bed.log_has("delete stack=web", 1);
    let list = site.spawn(&["node", "list"]);
    bed.log_has("a commit waits", 1);
    bed.server.resume();
    let listed = list.finish().expect(0);
    assert!(listed.stdout.contains("web-1"), "{}", listed.stdout);
    for said in ["the controller has not answered for 5 s", "the controller waits for its database"] {
        assert!(listed.stderr.contains(said), "no '{said}' in: {}", listed.stderr);
    }
    delete.finish().expect(0);
    assert_eq!(bed.web1.content("motd"), None);
    assert_eq!(site.json(&["stack", "list"]), serde_json::json!([]));
    site.until_node("web-1", "online");
}
