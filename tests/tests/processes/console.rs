//! Operators work from another machine, by console in a real browser and by command line: one who may change things, one who may only look,
//! and one whose token was revoked. Every page is clicked through, and judged by axe-core.

use std::fs;
use std::path::Path;

use muster_testbed::{Namespace, Ran, Running, Switch, command, eventually};
use muster_tests::site::{Agent, Place, Site};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::Browser;
use crate::desk::Desk;
use crate::judge::Judge;

/// Text that a browser would run, if a page took it for its own.
const SCRIPT: &str = "<img src=x onerror=\"window.taken = 1\"><script>window.taken = 1</script>";

/// Three servers with switches in a triangle, and two machines of operators. Dropped in this order.
struct Fleet {
    _agents: Vec<Agent>,
    _switches: Vec<Switch>,
    _servers: Vec<Namespace>,
    desks: [Namespace; 2],
    site: Site,
}

impl Fleet {
    fn start() -> Self {
        let mut site = Site::in_namespace();
        let hub = Namespace::HUB;
        site.configure(&format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n"));
        site.kill();
        site.restart();
        let servers: Vec<Namespace> = (1..=3).map(|number| site.hub().server(number + 1)).collect();
        for (one, other) in [(1, 2), (2, 3), (3, 1)] {
            servers[one - 1].link(&format!("to{other}"), &servers[other - 1], &format!("to{one}"));
        }
        let switch = |(number, server): (usize, &Namespace)| {
            let switch = Switch::start(server);
            switch.bridge("br0", &["p1"]);
            switch.vsctl("set-fail-mode br0 secure");
            for other in (1..=3).filter(|other| *other != number) {
                switch.vsctl(&format!("add-port br0 to{other}"));
            }
            server.ip("link set p1 up");
            switch
        };
        let switches: Vec<Switch> = (1..).zip(&servers).map(switch).collect();
        let agents = (1..).zip(servers.iter().zip(&switches)).map(|(number, (server, switch))| {
            let place = Place { namespace: Some(server), switch: Some(switch), ..Place::default() };
            site.join_at(&format!("web-{number}"), place)
        });
        let agents = agents.collect();
        (1..=3).for_each(|number| site.until_node(&format!("web-{number}"), "online"));
        eventually("the cables are known", || {
            let topology = site.json(&["topology", "show"]);
            (topology["links"].as_array()?.iter().filter(|link| link["up"] == true).count() == 6)
                .then_some(())
        });
        let desks = [site.hub().server(8), site.hub().server(9)];
        Self { _agents: agents, _switches: switches, _servers: servers, desks, site }
    }

    /// Fills the site with something of every kind that a page shows.
    fn fill(&self) {
        let (site, root) = (&self.site, self.site.path().join("made"));
        fs::create_dir(&root).unwrap();
        site.ok(&["node", "label", "web-1", "role=web", "rack=a1"]);
        site.ok(&["node", "label", "web-2", "role=web", "rack=a2"]);
        let template = site.file(&template(&root, "hello"));
        site.ok(&["stack", "create", "web", "-t", &template, "--wait", "--timeout", "60"]);
        let end = |number: usize| json!({"device": format!("web-{number}/br0"), "port": "p1"});
        let intents: Vec<Value> = [(1, 2), (2, 3)]
            .map(|(from, to)| {
                json!({"key": format!("p1-{from}-{to}"), "type": "point_to_point", "from": end(from), "to": end(to),
                    "selector": {"eth_type": 0x0800, "ipv4_dst": format!("10.0.{to}.0/24")}})
            })
            .to_vec();
        let file = site.file(&json!({"intents": intents}).to_string());
        site.ok(&["intent", "submit", "-f", &file, "--wait", "--timeout", "60"]);
    }

    fn token(&self, name: &str, role: &str) -> String {
        self.site.ok(&["user", "create", name, "--role", role]).trim().to_owned()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}:8443{path}", Namespace::HUB)
    }

    /// Another client than a browser.
    fn curl(&self, arguments: &[&str]) -> Ran {
        let mut curl = command(Some(&self.desks[1]), "curl");
        curl.args(["-s", "--cacert", self.site.ca().to_str().unwrap()]).args(arguments);
        Running::start(curl).finish()
    }
}

/// Two files on each of two servers, one after the other, and an output with a text that a browser would run.
fn template(root: &Path, text: &str) -> String {
    let file = |name: &str, node: &str, needs: &str| {
        let path = root.join(format!("{node}-{name}"));
        format!(
            "  {name}-{node}:\n    type: Muster::File\n{needs}    properties: {{node: {node}, path: {}, content: '{text}'}}\n",
            path.display()
        )
    };
    let files: String = ["web-1", "web-2"]
        .iter()
        .map(|node| file("base", node, "") + &file("site", node, &format!("    depends_on: base-{node}\n")))
        .collect();
    let said = json!(SCRIPT);
    format!(
        "heat_template_version: 2018-08-31\nresources:\n{files}outputs: {{said: {{value: {said}, description: {said}}}}}\n"
    )
}

/// Clicks through every page, and has each of them judged.
fn every_page(browser: &Browser<'_>, judge: &Judge) {
    for (link, says, name) in [
        ("Fleet", "Nodes by name", "fleet"),
        ("web-1", "Resources of stacks here", "node"),
        ("Stacks", "Stacks by name", "stacks"),
        ("web", "What waits for what", ""),
        ("Resources", "base-web-1", "resources"),
        ("web", "What waits for what", ""),
        ("Events", "CREATE", "events"),
        ("Rollouts", "No rollout is under way.", "rollouts"),
        ("Flow tables", "Devices by name", "devices"),
        ("web-1/br0", "10.0.2.0/24", "device"),
        ("Network", "Links, each direction", "network"),
        ("Trace a packet", "Nothing is sent", "trace"),
        ("Intents", "Intents by key", "intents"),
        ("p1-1-2", "web-1/br0 → web-2/br0", "intent"),
        ("Verify", "Each packet that was tried arrives.", "verify"),
        ("Audit", "user create", "audit"),
    ] {
        browser.press(link);
        browser.until(says);
        match name {
            "verify" => {
                let drawn = browser.run("return document.querySelector('main svg').textContent", &[]);
                assert!(
                    drawn.as_str().unwrap().contains("web-2/br0"),
                    "the way of a packet is drawn: {drawn}"
                );
            }
            "network" => {
                let drawn = browser.run("return document.querySelector('main svg').textContent", &[]);
                assert!(
                    drawn.as_str().unwrap().contains("p1-1-2"),
                    "the paths of intents are drawn: {drawn}"
                );
            }
            // Counters are told by the agent, which may take its time.
            "device" => eventually("the page has counters", || {
                browser.go(&browser.url());
                let bytes = "return [...document.querySelectorAll('main table tr')].map((row) => row.lastElementChild.innerText)";
                let bytes = browser.run(bytes, &[]);
                let (head, rows) = bytes.as_array().unwrap().split_first()?;
                let are_told = !rows.is_empty()
                    && rows.iter().all(|bytes| bytes.as_str().is_some_and(|it| !it.is_empty()));
                (head == "Bytes" && are_told).then_some(())
            }),
            _ => {}
        }
        if !name.is_empty() {
            judge.page(browser, name);
        }
    }
}

#[test]
fn operators_work_in_a_browser() {
    let fleet = Fleet::start();
    fleet.fill();
    let site = &fleet.site;
    let dir = TempDir::new().unwrap();
    let judge = Judge::new(dir.path());
    let (anna, vera, eve) =
        (fleet.token("anna", "operator"), fleet.token("vera", "viewer"), fleet.token("eve", "operator"));
    let browser = Browser::start(&fleet.desks[0], &dir.path().join("anna"), false);

    // Nobody sees anything without a token.
    browser.go(&fleet.url("/"));
    browser.until("Log in to Muster");
    judge.page(&browser, "login");
    browser.fill("#token", "something else");
    browser.press("Log in");
    browser.until("That is no user's token");
    judge.page(&browser, "login-refused");
    browser.run("document.getElementById('token').value = 'x'.repeat(9000)", &[]);
    browser.press("Log in");
    browser.until("Too large");
    judge.page(&browser, "too-large");
    browser.go(&fleet.url("/console/stacks/web"));
    browser.fill("#token", &anna);
    browser.press("Log in");
    browser.until("What waits for what");
    assert!(browser.url().ends_with("/console/stacks/web"), "a login leads to the page that was asked for");
    judge.page(&browser, "stack");
    assert!(browser.text("main").contains(SCRIPT), "it is shown as text");

    every_page(&browser, &judge);

    // Searches, and what is not there.
    browser.go(&fleet.url("/console"));
    browser.until("Connections of agents");
    assert_eq!(browser.run("return document.querySelectorAll('.charts svg').length", &[]), 3);
    browser.fill("#selector", "rack=a2");
    browser.press("Search");
    eventually("one node is found", || {
        let text = browser.text("main table");
        (text.contains("web-2") && !text.contains("web-1")).then_some(())
    });
    // A fact as the page's own example has it.
    for (search, found) in [("rack=a2,fact.memory>=1M", true), ("rack=a2,fact.memory>=900T", false)] {
        browser.fill("#selector", search);
        browser.press("Search");
        eventually(search, || (browser.text("main table").contains("web-2") == found).then_some(()));
    }
    browser.fill("#selector", "rack=(");
    browser.press("Search");
    eventually("the selector is refused", || (!browser.text("[role=alert]").is_empty()).then_some(()));
    browser.go(&fleet.url("/console/devices/web-1/br0?search=10.0.2"));
    browser.until("Entries 1 to 1.");
    browser.go(&fleet.url("/console/nodes/web-1"));
    browser.until("What was done last to these resources");
    let jobs = browser.run(
        "return [...document.querySelectorAll('main table')].find((it) => it.innerText.includes('Asked for by')).innerText",
        &[],
    );
    let jobs = jobs.as_str().unwrap().to_owned();
    assert!(
        jobs.contains("base-web-1") && jobs.contains("site-web-1") && jobs.contains("COMPLETE"),
        "{jobs}"
    );
    assert!(!jobs.contains("web-2"), "{jobs}");
    browser.go(&fleet.url("/console/trace"));
    browser.fill("#from", "web-1/br0:p1");
    browser.fill("#packet", "eth_type: ipv4, ipv4_dst: 10.0.2.7");
    browser.press("Trace");
    browser.until("of intent p1-1-2");
    assert!(browser.text("main").contains("web-2/br0:p1"), "{}", browser.text("main"));
    judge.page(&browser, "traced");
    browser.go(&fleet.url("/console/nodes/web-9"));
    browser.until("no node 'web-9'");
    judge.page(&browser, "refused");

    // A change is shown without a click, unless the operator has paused the page.
    browser.go(&fleet.url("/console"));
    let pause = |is_paused: bool| {
        browser.run("document.getElementById('pause').click()", &[]);
        let pause =
            browser.run("return [document.getElementById('pause').ariaPressed, source === null]", &[]);
        assert_eq!(pause, json!([is_paused.to_string(), is_paused]));
    };
    pause(true);
    site.ok(&["node", "maintenance", "web-3", "on"]);
    assert!(!browser.text("main").contains("maintenance"), "the page is as it was");
    pause(false);
    browser.until("maintenance");

    // A button, and a change that is looked at before it is started.
    browser.go(&fleet.url("/console/nodes/web-3"));
    browser.press("End maintenance");
    eventually("maintenance has ended", || {
        (site.json(&["node", "show", "web-3"])["state"] == "online").then_some(())
    });
    let root = site.path().join("made");
    browser.go(&fleet.url("/console/stacks/web/update"));
    browser.until("Files, environments and parameters stay as they are.");
    judge.page(&browser, "update");
    browser.run(
        "document.getElementById('template').value = arguments[0]",
        &[template(&root, "hello again").into()],
    );
    browser.press("Preview");
    browser.until("Resources that change");
    assert!(browser.text("main").contains("hello → hello again"), "{}", browser.text("main"));
    judge.page(&browser, "preview");
    browser.press("Start the update");
    eventually("the files are changed", || {
        ["web-1-base", "web-1-site", "web-2-base", "web-2-site"]
            .iter()
            .all(|name| fs::read_to_string(root.join(name)).is_ok_and(|text| text == "hello again"))
            .then_some(())
    });
    browser.go(&fleet.url("/console/stacks/web/update"));
    browser.run("document.getElementById('template').value = 'resources: ['", &[]);
    browser.press("Preview");
    eventually("the template is refused", || (!browser.text("[role=alert]").is_empty()).then_some(()));

    // She works by command line as well: what she makes there is shown in the browser without a click.
    let desk = |name: &str, token: &str| {
        let desk = Desk::new(&fleet.desks[0], site, name);
        desk.muster(&["login", &fleet.url(""), "--token-file", &desk.file("token", token)]).expect(0);
        desk
    };
    let at_desk = desk("anna", &anna);
    browser.go(&fleet.url("/console/stacks"));
    browser.until("Stacks by name");
    let empty = at_desk.file("empty.yaml", "heat_template_version: 2018-08-31\n");
    at_desk.muster(&["stack", "create", "by-hand", "-t", &empty, "--wait"]).expect(0);
    browser.until("by-hand");
    assert_eq!(at_desk.json(&["stack", "show", "web"])["revision"], 2, "the update of the browser");

    // Who logs out is out, whatever the browser kept.
    let cookie = browser.run("return document.cookie", &[]);
    assert_eq!(cookie, "", "no script reads the session");
    browser.press("Log out");
    browser.until("Log in to Muster");
    browser.go(&fleet.url("/console/audit"));
    browser.until("Log in to Muster");
    drop(browser);

    // A viewer looks at the same pages, in the dark, and has no button.
    let browser = Browser::start(&fleet.desks[0], &dir.path().join("vera"), true);
    browser.go(&fleet.url("/console"));
    browser.fill("#token", &vera);
    browser.press("Log in");
    browser.until("vera, viewer");
    judge.page(&browser, "fleet-dark");
    browser.go(&fleet.url("/console/stacks/web"));
    browser.until("What waits for what");
    judge.page(&browser, "stack-dark");
    assert_eq!(browser.run("return document.querySelectorAll('main button').length", &[]), 0);
    let sent = browser.run_later(
        "const done = arguments[arguments.length - 1], key = document.querySelector('input[name=key]').value;
         fetch('/console/stacks/web', {method: 'POST', body: new URLSearchParams({key, does: 'check'})})
            .then(async (answer) => done([answer.status, (await answer.text()).includes('needs role operator')]));",
    );
    assert_eq!(sent, json!([403, true]));
    let at_desk = desk("vera", &vera);
    assert_eq!(at_desk.json(&["stack", "list"]).as_array().unwrap().len(), 2);
    at_desk.muster(&["stack", "delete", "by-hand"]).refused(1, &["needs role operator", "vera"]);
    // A form of another session, or of another site, changes nothing.
    let sent = browser.run_later(
        "const done = arguments[arguments.length - 1];
         fetch('/console/stacks/web', {method: 'POST', body: new URLSearchParams({key: 'x', does: 'check'})})
            .then((answer) => done(answer.status));",
    );
    assert_eq!(sent, json!(403));
    let foreign =
        ["-H", "Origin: https://example.org", "-d", "token=x", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(fleet.curl(&[&foreign[..], &[&fleet.url("/console/login")]].concat()).expect(0).stdout, "403");

    // A session ends with its token.
    site.ok(&["user", "revoke", "vera"]);
    browser.go(&fleet.url("/console/stacks"));
    browser.until("Log in to Muster");
    let at_desk = desk("eve", &eve);
    site.ok(&["user", "revoke", "eve"]);
    at_desk.muster(&["stack", "list"]).refused(1, &["unknown or revoked"]);
    browser.fill("#token", &eve);
    browser.press("Log in");
    browser.until("unknown or revoked");

    // The audit tells all of it.
    let audit = site.json(&["audit"]);
    let has = |actor: &str, action: &str, result: &str| {
        let rows = audit.as_array().unwrap();
        rows.iter().any(|row| {
            let is = |key: &str, text: &str| row[key].as_str().unwrap().contains(text);
            row["actor"] == actor && is("action", action) && is("result", result) && is("from", "10.77.0.")
        })
    };
    assert!(has("anna", "stack update", "ok") && has("anna", "node maintenance", "ok"), "{audit}");
    assert!(
        has("anna", "stack create", "ok") && has("vera", "DeleteStack", "needs role operator"),
        "{audit}"
    );
    assert!(
        has("vera", "CheckStack", "needs role operator") && has("unknown (eve)", "", "unknown or revoked"),
        "{audit}"
    );

    // Every answer tells the browser to load nothing else, and nobody but users over TLS gets one.
    let head = fleet
        .curl(&["-D", "-", "-o", "/dev/null", &fleet.url("/console/login")])
        .expect(0)
        .stdout
        .to_lowercase();
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(!head.contains("set-cookie"), "{head}");
}
