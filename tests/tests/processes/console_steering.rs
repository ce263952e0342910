//! An operator's work in the browser: steering a rollout by its buttons and by the keyboard alone, seeing what waits
//! for what, and seeing what differs where a file was changed by hand. The browser itself says that no text of a page
//! is run.

use std::fs;

use muster_testbed::{Namespace, eventually};
use muster_tests::site::{Agent, Place, Site};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::{Browser, ENTER, TAB};
use crate::judge::Judge;

/// Text that a browser would run, if a page took it for its own.
const SCRIPT: &str = "<img src=x onerror='window.taken = 1'><script>window.taken = 1</script>";
/// Presses of the tabulator after which a page must have shown everything that can be focused.
const TABS_MAX: usize = 100;

/// Three servers of one label, and a machine of an operator. Dropped in this order.
struct Fleet {
    agents: Vec<Agent>,
    _servers: Vec<Namespace>,
    desk: Namespace,
    site: Site,
}

impl Fleet {
    fn start() -> Self {
        let mut site = Site::in_namespace();
        let hub = Namespace::HUB;
        site.configure(&format!("[controller]\napi = '{hub}:8443'\naddresses = ['{hub}:8883']\n"));
        site.kill();
        site.restart();
        let servers: Vec<Namespace> = (2..5).map(|number| site.hub().server(number)).collect();
        let join = |(number, server): (usize, &Namespace)| {
            let agent =
                site.join_at(&format!("web-{number}"), Place { namespace: Some(server), ..Place::default() });
            site.ok(&["node", "label", &agent.name, "role=web"]);
            agent
        };
        let agents = (1..).zip(&servers).map(join).collect();
        let desk = site.hub().server(9);
        Self { agents, _servers: servers, desk, site }
    }

    /// A file on each, one after the other with an hour in between, and something that waits for all of them.
    fn template(&self, content: &str) -> String {
        let root = self.agents[0].root.parent().unwrap().display();
        self.site.file(&format!(
            "heat_template_version: 2018-08-31\n\
             description: \"{SCRIPT}\"\n\
             resources:\n\
             \x20 motd:\n\
             \x20   type: Muster::File\n\
             \x20   for_each: {{nodes: 'role=web'}}\n\
             \x20   rollout: {{batch: 1, pause: 3600, max_failures: 0, canary: 1}}\n\
             \x20   properties:\n\
             \x20     path: {{str_replace: {{template: '{root}/NODE.root/motd', params: {{NODE: {{get_node: name}}}}}}}}\n\
             \x20     content: {content}\n\
             \x20 after:\n\
             \x20   type: Muster::Dummy\n\
             \x20   depends_on: motd\n\
             \x20   properties: {{node: web-1, values: {{said: \"{SCRIPT}\"}}}}\n\
             outputs: {{said: {{value: \"{SCRIPT}\", description: \"{SCRIPT}\"}}}}\n"
        ))
    }

    fn rollout(&self) -> Value {
        self.site.json(&["stack", "show", "web"])["rollouts"][0].clone()
    }

    fn until_rollout(&self, state: &str) {
        eventually(&format!("the rollout is {state}"), || (self.rollout()["state"] == state).then_some(()));
    }

    /// Returns the number of agents whose file has this content.
    fn with(&self, content: &str) -> usize {
        self.agents.iter().filter(|agent| agent.content("motd").as_deref() == Some(content)).count()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}:8443{path}", Namespace::HUB)
    }
}

/// Goes on by the tabulator until the focus is on something with these words.
fn tab_to(browser: &Browser<'_>, words: &str) {
    let focused =
        || browser.run("return document.activeElement.innerText || document.activeElement.id || ''", &[]);
    let mut seen = Vec::new();
    for _ in 0..TABS_MAX {
        let text = focused().as_str().unwrap().trim().to_owned();
        if text == words {
            let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle", &[]);
            assert_ne!(outline, "none", "{words}: nobody sees where the focus is");
            return;
        }
        seen.push(text);
        browser.type_keys(TAB);
    }
    panic!("no tabulator leads to {words}: {seen:?}");
}

#[test]
fn an_operator_steers_a_rollout_in_a_browser() {
    let fleet = Fleet::start();
    let (site, dir) = (&fleet.site, TempDir::new().unwrap());
    let token = site.ok(&["user", "create", "anna", "--role", "operator"]).trim().to_owned();
    let first = fleet.template("one");
    site.ok(&["stack", "create", "web", "-t", &first]);
    eventually("the first one has it", || (fleet.with("one") == 1).then_some(()));

    // By the keyboard alone, from the login on.
    let browser = Browser::start(&fleet.desk, &dir.path().join("anna"), false);
    browser.open(&fleet.url("/console"), "Log in to Muster");
    tab_to(&browser, "token");
    browser.leave(|| browser.type_keys(&format!("{token}{ENTER}")));
    browser.until("anna, operator");
    browser.run("document.activeElement.blur()", &[]);
    tab_to(&browser, "Skip to the content");
    browser.type_keys(ENTER);
    eventually("the way past the menu", || browser.url().ends_with("#main").then_some(()));
    browser.go(&fleet.url("/console"));
    tab_to(&browser, "Stacks");
    browser.leave(|| browser.type_keys(ENTER));
    browser.until("Stacks by name");
    tab_to(&browser, "web");
    browser.leave(|| browser.type_keys(ENTER));
    browser.until("Rollout of motd");

    // What waits, for what, in words and in the picture.
    eventually("the rest waits", || {
        let row = browser.run(
            "return [...document.querySelectorAll('main tr')].map((row) => row.innerText).find((row) => row.startsWith('after')) || ''",
            &[],
        );
        // Its own name, and after that what it waits for.
        row.as_str()?.contains("motd").then_some(())
    });
    let drawn = browser.run("return document.querySelector('main svg').textContent", &[]);
    let drawn = drawn.as_str().unwrap();
    assert!(drawn.contains("after") && drawn.contains("motd[web-3]"), "{drawn}");
    assert_eq!(browser.violations(), json!([]));

    // A rollout under way, with its buttons, also those that are asked for twice.
    let judge = Judge::new(dir.path());
    judge.page(&browser, "stack-rollout");
    browser.go(&fleet.url("/console/rollouts"));
    browser.until("Rollout of motd");
    browser.run("document.querySelectorAll('main details').forEach((it) => { it.open = true; })", &[]);
    let shown =
        browser.run("return [...document.querySelectorAll('main button')].map((it) => it.innerText)", &[]);
    assert_eq!(shown, json!(["Pause", "Promote", "Abort"]));
    judge.page(&browser, "rollout");
    browser.go(&fleet.url("/console/stacks/web"));
    browser.until("Rollout of motd");

    // Its buttons: two by the keyboard, and one that asks first.
    tab_to(&browser, "Pause");
    browser.leave(|| browser.type_keys(ENTER));
    fleet.until_rollout("paused");
    browser.until("paused");
    tab_to(&browser, "Resume");
    browser.leave(|| browser.type_keys(ENTER));
    fleet.until_rollout("going");
    browser.until("Promote…");
    tab_to(&browser, "Abort…");
    browser.type_keys(ENTER);
    tab_to(&browser, "Abort");
    assert_eq!(fleet.rollout()["state"], "going", "nothing is aborted before the second key");
    browser.leave(|| browser.type_keys(ENTER));
    fleet.until_rollout("aborted");
    browser.until("FAILED");
    assert_eq!((fleet.with("one"), fleet.rollout()["waiting"].clone()), (1, json!(2)), "nobody else got it");
    let row = site.json(&["audit", "--user", "anna"]);
    let steered = row.as_array().unwrap().iter().filter(|row| row["action"] == "stack rollout").count();
    assert_eq!(steered, 3, "{row:#}");

    // Somebody else changes a file, and the page of its node says what differs.
    let (agent, path) = (&fleet.agents[0], fleet.agents[0].file("kept"));
    let kept = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  kept:\n    type: Muster::File\n    drift_policy: report\n    \
         properties: {{node: {}, path: {}, content: as it was made}}\n",
        agent.name,
        path.display()
    ));
    site.ok(&["stack", "create", "kept", "-t", &kept, "--wait"]);
    browser.go(&fleet.url("/console/nodes/web-1"));
    browser.until("Resources of stacks here");
    fs::write(&path, SCRIPT).unwrap();
    let drift = eventually("the drift is seen", || site.json(&["node", "drift", "web-1"]).get(0).cloned());
    let why = drift["reason"].as_str().unwrap();
    assert!(!why.is_empty(), "{drift}");
    eventually("the page says what differs", || {
        let table = browser.run(
            "return [...document.querySelectorAll('main table')].find((it) => it.innerText.includes('Difference'))?.innerText || ''",
            &[],
        );
        let table = table.as_str()?;
        (table.contains(why) && table.contains("kept") && table.contains("report")).then_some(())
    });

    // Pages with texts of others: none was run, nothing was blocked that a page asked for.
    for page in [
        "/console/stacks/web",
        "/console/stacks/web/update",
        "/console/stacks/web/events",
        "/console/nodes/web-1",
    ] {
        browser.go(&fleet.url(page));
        browser.until("Muster");
        assert_eq!(browser.violations(), json!([]), "{page}");
        assert_eq!(browser.run("return window.taken || null", &[]), Value::Null, "{page}");
    }
    assert!(browser.text("body").len() > 100);
    // The browser would say so: an element that is put into the page is blocked, and told of.
    browser.run(
        "document.getElementById('main').insertAdjacentHTML('beforeend', arguments[0])",
        &[SCRIPT.into()],
    );
    eventually("the browser tells of it", || (browser.violations() != json!([])).then_some(()));
    assert_eq!(browser.run("return window.taken || null", &[]), Value::Null);
}
