//! A change that hurts stops at its canary, and the one that mends it reaches everybody, also those whose agents are started
//! anew meanwhile. `MUSTER_ROLLOUT_AGENTS=N` has N of them: each is a process.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use muster_testbed::{PATIENCE, eventually};
use muster_tests::site::{Agent, Place, Site};
use serde_json::{Value, json};

/// Also the largest number of agents: a machine has room for so many processes and no more.
const AGENTS_MAX: usize = 500;

fn agents() -> usize {
    let given = std::env::var("MUSTER_ROLLOUT_AGENTS").ok().and_then(|number| number.parse().ok());
    given.unwrap_or(12).clamp(6, AGENTS_MAX)
}

struct Fleet {
    agents: Vec<Agent>,
    /// Without the label.
    other: Agent,
    site: Site,
}

impl Fleet {
    fn start(count: usize) -> Self {
        let site = Site::start();
        let token = site.ok(&["node", "token", "--any-name", "--uses", &(count + 1).to_string()]);
        let begin = |name: String| site.agent(&name, token.trim(), Place::default());
        let agents: Vec<Agent> = (0..count).map(|number| begin(format!("web-{number:03}"))).collect();
        let other = begin("db-1".to_owned());
        let all = (count + 1).to_string();
        let patience = (PATIENCE.as_secs() * 4).to_string();
        site.ok(&["node", "wait", "--count", &all, "--timeout", &patience]);
        for agent in &agents {
            site.ok(&["node", "label", &agent.name, "role=web"]);
        }
        Self { agents, other, site }
    }

    /// With one file on each; nobody has the user `muster-nobody`.
    fn template(&self, content: &str, owner: &str, pause: u32) -> String {
        let root = self.agents[0].root.parent().unwrap().display();
        self.site.file(&format!(
            "heat_template_version: 2018-08-31\n\
             resources:\n\
             \x20 motd:\n\
             \x20   type: Muster::File\n\
             \x20   for_each: {{nodes: 'role=web'}}\n\
             \x20   rollout: {{batch: '10%', pause: {pause}, max_failures: 0, canary: 1}}\n\
             \x20   properties:\n\
             \x20     path: {{str_replace: {{template: '{root}/NODE.root/motd', params: {{NODE: {{get_node: name}}}}}}}}\n\
             \x20     content: {content}\n\
             \x20     owner: {owner}\n"
        ))
    }

    /// Content and inode of each node's file.
    fn files(&self) -> Vec<(String, u64)> {
        let file = |agent: &Agent| {
            let inode = fs::metadata(agent.file("motd")).unwrap().ino();
            (agent.content("motd").unwrap(), inode)
        };
        self.agents.iter().map(file).collect()
    }

    fn stack(&self) -> Value {
        self.site.json(&["stack", "show", "web"])
    }

    fn of_state(&self, state: &str) -> Vec<String> {
        let rows = self.site.json(&["resource", "list", "web"]);
        let rows = rows.as_array().unwrap().iter().filter(|row| row["status"] == state);
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_bad_change_stops_at_its_canary_and_the_next_reaches_all() {
    let mut fleet = Fleet::start(agents());
    let count = fleet.agents.len();
    let first = fleet.template("one", "root", 0);
    fleet.site.ok(&["stack", "create", "web", "-t", &first, "--wait"]);
    let before = fleet.files();
    assert!(before.iter().all(|(content, _)| content == "one"), "{before:?}");

    let bad = fleet.template("two", "muster-nobody", 0);
    let ran = fleet.site.muster(&["stack", "update", "web", "-t", &bad, "--wait"]);
    ran.refused(1, &["muster-nobody"]);
    assert_eq!(fleet.files(), before, "nobody else was touched, and the canary's file is as it was");
    assert_eq!(fleet.of_state("FAILED"), ["motd[web-000]"]);
    let rollout = fleet.stack()["rollouts"][0].clone();
    assert_eq!(
        (&rollout["state"], &rollout["failed"], &rollout["waiting"]),
        (&json!("aborted"), &json!(1), &json!(count - 1)),
        "{rollout}"
    );

    // A pause of a second between eleven batches: time enough for a third of them to be killed and started again.
    let good = fleet.template("three", "root", 1);
    let running = fleet.site.spawn(&["stack", "update", "web", "-t", &good, "--wait"]);
    eventually("the canary has it", || (fleet.agents[0].content("motd")? == "three").then_some(()));
    fleet.agents.iter_mut().skip(1).step_by(3).for_each(|agent| agent.daemon.kill());
    fleet.agents.iter_mut().skip(1).step_by(3).for_each(|agent| agent.daemon.restart());
    running.finish_within(PATIENCE * 4).expect(0);
    let after = fleet.files();
    assert!(after.iter().all(|(content, _)| content == "three"), "{after:?}");
    assert_eq!(fleet.of_state("COMPLETE").len(), count);
    assert_eq!(fleet.stack()["rollouts"], json!([]));
    assert_eq!(fleet.other.content("motd"), None);
    assert_eq!(fleet.site.json(&["node", "list", "-l", "role=web"]).as_array().unwrap().len(), count);
}
