//! kill -9 at many points, of the controller, of an agent, of both. `MUSTER_SOAK=N` repeats each N times with
//! other points; `MUSTER_SEED` begins with the one that a failed run has printed.

use std::collections::BTreeMap;
use std::fs;

use muster_testbed::{Running, eventually};
use muster_tests::site::{Agent, Site};

use crate::layers::{FILES, Layers, until_complete};

/// Kills in each of create, update and delete.
const KILLS: usize = 2;

#[derive(Clone, Copy)]
enum Victim {
    Controller,
    Agent,
    Both,
}

#[test]
fn of_the_controller() {
    repeat(|seed| survive(Victim::Controller, seed));
}

#[test]
fn of_an_agent() {
    repeat(|seed| survive(Victim::Agent, seed));
}

#[test]
fn of_both() {
    repeat(|seed| survive(Victim::Both, seed));
}

#[test]
fn of_the_controller_forgets_nothing_that_it_answered() {
    repeat(answered_is_kept);
}

#[test]
fn of_an_agent_in_the_middle_of_a_job() {
    repeat(|_| one_long_job());
}

fn one_long_job() {
    let site = Site::start();
    let mut web1 = site.join("web-1");
    let template = site.file(
        "heat_template_version: 2018-08-31\nparameters: {v: {type: string}}\nresources:\n  \
         slow: {type: Muster::Dummy, properties: {node: web-1, seconds: 1, values: {v: {get_param: v}}}}\n",
    );
    for (verb, version) in [("create", "1"), ("update", "2")] {
        let jobs = |web1: &Agent| web1.daemon.log().matches(" job ").count();
        let before = jobs(&web1);
        let waiting =
            site.spawn(&["stack", verb, "s", "-t", &template, "-P", &format!("v={version}"), "--wait"]);
        eventually("it has begun", || (jobs(&web1) > before).then_some(()));
        web1.daemon.kill();
        web1.daemon.restart();
        waiting.finish().expect(0);
        assert_eq!(site.physical_ids("s", "slow").len(), 1);
    }
    site.ok(&["stack", "delete", "s", "--wait"]);
}

/// Runs with one seed after the other, as many as are asked for.
fn repeat(run: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).map_or(1, |text| text.parse().unwrap());
    let first: u64 = number("MUSTER_SEED");
    for seed in first..first + number("MUSTER_SOAK") {
        // Shown where the run fails.
        eprintln!("MUSTER_SEED={seed}");
        run(seed);
    }
}

/// Creates, updates and deletes a stack, with kills whenever so many files are done.
fn survive(victim: Victim, seed: u64) {
    let mut random = Random(seed);
    let mut site = Site::start();
    let mut agents = [site.join("web-1"), site.join("web-2")];
    let layers = Layers::new(&site, &agents);
    let before = BTreeMap::from([(agents[0].file("f0-0"), "before".to_owned())]);
    fs::write(agents[0].file("f0-0"), "before").unwrap();
    let history = layers.watch();

    let template = layers.template();
    site.ok(&["stack", "create", "s", "-t", template, "-P", "version=v1"]);
    for count in points(&mut random, 0) {
        layers.until("v1", count);
        kill(victim, &mut site, &mut agents, &mut random);
    }
    until_complete(&site, "s");
    layers.verify(&site, "s", "v1");

    // A command that waits does so across restarts.
    let update = site.spawn(&["stack", "update", "s", "-t", template, "-P", "version=v2", "--wait"]);
    for count in points(&mut random, 1) {
        layers.until("v2", count);
        kill(victim, &mut site, &mut agents, &mut random);
    }
    update.finish().expect(0);
    layers.verify(&site, "s", "v2");

    // A newer update in the middle of an older one.
    site.ok(&["stack", "update", "s", "--existing", "-P", "version=v3"]);
    layers.until("v3", random.below(FILES / 2));
    let update = site.spawn(&["stack", "update", "s", "--existing", "-P", "version=v4", "--wait"]);
    for count in points(&mut random, 1) {
        layers.until("v4", count);
        kill(victim, &mut site, &mut agents, &mut random);
    }
    update.finish().expect(0);
    layers.verify(&site, "s", "v4");

    let delete = site.spawn(&["stack", "delete", "s", "--wait"]);
    for count in points(&mut random, 1) {
        eventually("so many are gone", || (layers.count("v4") <= FILES - count).then_some(()));
        kill(victim, &mut site, &mut agents, &mut random);
    }
    delete.finish().expect(0);
    layers.verify_gone(&site, "s", &before);
    history.verify(&["nothing", "before", "v1", "v2", "v3", "v4", "nothing", "before"]);
}

/// After how many files to kill, ascending.
fn points(random: &mut Random, first: usize) -> Vec<usize> {
    let mut points: Vec<usize> = (0..KILLS).map(|_| first + random.below(FILES + 1 - first)).collect();
    points.sort_unstable();
    points
}

fn kill(victim: Victim, site: &mut Site, agents: &mut [Agent; 2], random: &mut Random) {
    let agent = &mut agents[random.below(2)];
    match victim {
        Victim::Controller => {
            site.kill();
            site.restart();
        }
        Victim::Agent => {
            agent.daemon.kill();
            agent.daemon.restart();
        }
        Victim::Both => {
            site.kill();
            agent.daemon.kill();
            agent.daemon.restart();
            site.restart();
        }
    }
}

/// Many stacks are asked for at once; the controller is killed when some have been answered.
fn answered_is_kept(seed: u64) {
    const STACKS: usize = 24;
    let mut random = Random(seed);
    let mut site = Site::start();
    let web1 = site.join("web-1");
    let template = |name: &str| {
        site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             file: {{type: Muster::File, properties: {{node: web-1, path: {}, content: {name}}}}}\n",
            web1.file(name).display()
        ))
    };
    let stacks: Vec<(String, String)> =
        (0..STACKS).map(|number| format!("s{number}")).map(|name| (name.clone(), template(&name))).collect();
    let mut running: Vec<Running> = stacks
        .iter()
        .map(|(name, template)| site.spawn(&["stack", "create", name, "-t", template]))
        .collect();
    let wanted = random.below(STACKS);
    eventually("some are answered", || {
        (running.iter_mut().filter_map(|one| one.ended().then_some(())).count() >= wanted).then_some(())
    });
    site.kill();
    let answers: Vec<bool> = running.drain(..).map(|one| answered(&one.finish())).collect();
    site.restart();
    let list = site.json(&["stack", "list"]);
    let there = |name: &str| list.as_array().unwrap().iter().any(|stack| stack["name"] == name);
    for ((name, template), answered) in stacks.iter().zip(answers) {
        assert!(there(name) || !answered, "{name} was answered and is forgotten: {list}");
        if !there(name) {
            site.ok(&["stack", "create", name, "-t", template]);
        }
        until_complete(&site, name);
        assert_eq!(web1.content(name).as_deref(), Some(name.as_str()));
        assert_eq!(site.physical_ids(name, "file").len(), 1);
    }
    assert_eq!(web1.listing().len(), STACKS);
}

/// Done, or the controller was gone.
fn answered(ran: &muster_testbed::Ran) -> bool {
    assert!(matches!(ran.status, 0 | 4), "{ran:?}");
    ran.status == 0
}

/// SplitMix64 (Steele, Lea, Flood).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}
