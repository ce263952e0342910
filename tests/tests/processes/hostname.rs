//! Host names on a server that has one of its own: a UTS namespace, and a file in place of `/etc/hostname`.

use std::ops::Deref;

use muster_testbed::{OwnName, Running, eventually};
use muster_tests::site::{Agent, OneServer, Place, binary};

/// The content of the file before Muster.
const BEFORE: &str = "# asset 4711\nold\n";

struct NamedServer {
    one: OneServer,
    name: OwnName,
}

impl Deref for NamedServer {
    type Target = OneServer;
    fn deref(&self) -> &OneServer {
        &self.one
    }
}

impl NamedServer {
    fn new() -> Self {
        Self { one: OneServer::new(), name: OwnName::new("old") }
    }

    fn join(&self) -> Agent {
        let place = Place { own_name: Some(&self.name), ..self.place() };
        let agent = self.site.join_at("web-1", place);
        std::fs::write(agent.file("hostname"), BEFORE).unwrap();
        agent
    }

    fn template(&self, agent: &Agent, name: &str, confirm_timeout: u32) -> String {
        let motd = agent.file("motd").display().to_string();
        self.site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  name:\n    type: Muster::Hostname\n    \
             properties: {{node: web-1, hostname: {name}, confirm_timeout: {confirm_timeout}}}\n  motd:\n    \
             type: Muster::File\n    properties: {{node: web-1, path: {motd}, content: {{get_attr: [name, \
             hostname]}}}}\n"
        ))
    }

    /// As `muster-network.service` does.
    fn boot(&self, agent: &Agent) {
        let mut command = self.server.command("nsenter");
        command.arg(self.name.flag()).arg("--").arg(binary("muster-agent")).args(["net", "boot"]);
        command.arg("--config").arg(self.site.path().join("agent.toml"));
        command.arg("--state-dir").arg(&agent.state);
        command.env("MUSTER_HOST__ETC_HOSTNAME", agent.file("hostname"));
        Running::start(command).finish().expect(0);
    }

    /// In the kernel and in the file.
    fn is(&self, agent: &Agent, name: &str, file: &str) -> Option<()> {
        (self.name.get() == name && agent.content("hostname").as_deref() == Some(file)).then_some(())
    }

    #[track_caller]
    fn has(&self, agent: &Agent, name: &str, file: &str) {
        let is = (self.name.get(), agent.content("hostname"));
        assert_eq!(is, (name.to_owned(), Some(file.to_owned())));
    }

    fn until(&self, agent: &Agent, name: &str, file: &str) {
        eventually(&format!("the server is {name}"), || self.is(agent, name, file));
    }
}

#[test]
fn a_name_is_given_changed_and_taken_back() {
    let named = NamedServer::new();
    let web1 = named.join();
    let template = named.template(&web1, "web-1.example.com", 30);
    named.site.ok(&["stack", "create", "names", "-t", &template, "--wait"]);
    named.has(&web1, "web-1.example.com", "web-1.example.com\n");
    assert_eq!(web1.content("motd").as_deref(), Some("web-1.example.com"));
    eventually("the name is a fact", || {
        (named.site.json(&["node", "facts", "web-1"])["hostname"] == "web-1.example.com").then_some(())
    });
    // Somebody else changes it, and changes it back.
    for (name, observed) in [("foreign", "drifted"), ("web-1.example.com", "in_sync")] {
        named.name.set(name);
        eventually(&format!("the name is seen to be {observed}"), || {
            (named.site.resource("names", "name")["observed"] == observed).then_some(())
        });
    }
    let begun = web1.daemon.log().matches(" job ").count();
    named.site.ok(&["stack", "update", "names", "-t", &template, "--wait"]);
    assert_eq!(web1.daemon.log().matches(" job ").count(), begun, "nothing to do");

    let template = named.template(&web1, "web-2", 30);
    named.site.ok(&["stack", "update", "names", "-t", &template, "--wait"]);
    named.has(&web1, "web-2", "web-2\n");
    assert_eq!(web1.content("motd").as_deref(), Some("web-2"));
    assert_eq!(named.site.physical_ids("names", "name").len(), 1);

    let second = named.site.muster(&["stack", "create", "other", "-t", &template, "--wait"]);
    second.refused(1, &["host name /etc/hostname"]);
    named.has(&web1, "web-2", "web-2\n");

    named.site.ok(&["stack", "delete", "names", "--wait"]);
    named.has(&web1, "old", BEFORE);
    assert_eq!(web1.listing(), ["hostname"]);
}

/// The controller cannot be reached anew while the name changes.
#[test]
fn a_name_that_is_not_confirmed_is_put_back() {
    let named = NamedServer::new();
    let web1 = named.join();
    named.site.ok(&["stack", "create", "names", "-t", &named.template(&web1, "web-1", 30), "--wait"]);
    named.server.refuse_connections(true);
    let update = named.template(&web1, "web-2", 10);
    let updating = named.site.spawn(&["stack", "update", "names", "-t", &update, "--wait"]);
    named.until(&web1, "web-2", "web-2\n");
    named.until(&web1, "web-1", "web-1\n");
    named.server.refuse_connections(false);
    updating.finish().refused(1, &["was not reached again within 10 s", "has been restored"]);
    assert_eq!(named.site.resource("names", "name")["status"], "FAILED");
    named.has(&web1, "web-1", "web-1\n");
    named.site.ok(&["stack", "delete", "names", "--wait"]);
    named.has(&web1, "old", BEFORE);
}

#[test]
fn an_agent_that_is_killed_puts_an_unconfirmed_name_back() {
    for at_boot in [false, true] {
        let named = NamedServer::new();
        let mut web1 = named.join();
        named.site.ok(&["stack", "create", "names", "-t", &named.template(&web1, "web-1", 30), "--wait"]);
        named.server.refuse_connections(true);
        let update = named.template(&web1, "web-2", 600);
        let updating = named.site.spawn(&["stack", "update", "names", "-t", &update, "--wait"]);
        named.until(&web1, "web-2", "web-2\n");
        web1.daemon.kill();
        named.has(&web1, "web-2", "web-2\n");
        if at_boot {
            named.boot(&web1);
            named.has(&web1, "web-1", "web-1\n");
        }
        web1.daemon.restart();
        named.until(&web1, "web-1", "web-1\n");
        named.server.refuse_connections(false);
        updating.finish().refused(1, &["ended before the change was confirmed", "has been restored"]);
        named.has(&web1, "web-1", "web-1\n");
        named.site.ok(&["stack", "delete", "names", "--wait"]);
        named.has(&web1, "old", BEFORE);
        assert_eq!(web1.listing(), ["hostname"]);
    }
}
