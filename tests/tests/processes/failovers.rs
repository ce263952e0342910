//! The cost of a failover in time. Stacks are being created, and a small fleet is in the middle of an update, when the
//! active controller is killed, stopped, or cut off from the database or from the agents, or when the database itself fails
//! over. `MUSTER_SOAK=N` repeats each N times.
//!
//! The fleet's agents fail the test where a job comes after a newer one, or after its report was acknowledged.
//!
//! Each prints a line of JSON: how long it took from the fault until the fleet began jobs again, which it had to do until its
//! update was done, and until the job of an update was done for which the successor was asked; and how many jobs a second ran
//! at most. With `MUSTER_SOAK`, where nothing else runs, it fails where the fleet's jobs went on later than a lease and two
//! seconds; not so `Unreached`, where a standby waits before it asks for the lease.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use muster_testbed::{Daemon, PortWay, Postgres, Running, Way, command, eventually, look_closely};
use muster_tests::site::{Agent, Controllers, Site, binary};
use serde_json::Value;
use tempfile::TempDir;

/// Stacks that are being created when it happens.
const STACKS: usize = 12;
/// Agents of the fleet, and things of each, whose jobs take 20 ms. Agents go on without a controller with what they have, so
/// they have but a few jobs at a time: most things have yet to change when it happens.
const AGENTS: usize = 40;
const THINGS: usize = 50;
const THINGS_IN_SOAK: usize = 200;
const IN_FLIGHT: usize = 24;
/// The longest time from the fault until the fleet begins jobs again, beside the length of a lease, in seconds.
const TAKE_OVER_MAX: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// kill -9 of the active controller.
    Kill,
    /// SIGSTOP, and SIGCONT when another one is active.
    Stop,
    /// The active controller does not reach the database.
    CutOff,
    /// Agents do not reach the active controller: nothing passes, and no connection is refused or ends.
    Unreached,
    /// The database's server is killed, and its standby promoted.
    Database,
}

#[test]
fn of_a_controller_that_is_killed() {
    repeat(Fault::Kill);
}

#[test]
fn of_a_controller_that_is_stopped() {
    repeat(Fault::Stop);
}

#[test]
fn of_a_controller_that_is_cut_off_from_the_database() {
    repeat(Fault::CutOff);
}

#[test]
fn of_a_controller_that_agents_do_not_reach() {
    repeat(Fault::Unreached);
}

#[test]
fn of_the_database() {
    repeat(Fault::Database);
}

fn repeat(fault: Fault) {
    let rounds = soak().map_or(1, |rounds| rounds.parse().unwrap());
    (0..rounds).for_each(|_| survive(fault));
}

/// The number of rounds in `make soak`, where nothing else runs beside the test.
fn soak() -> Option<String> {
    std::env::var("MUSTER_SOAK").ok()
}

fn things() -> usize {
    soak().map_or(THINGS, |_| THINGS_IN_SOAK)
}

/// The database: a server, one that follows it, and the way of the first controller. That of agents to this one, too.
struct Database {
    primary: Postgres,
    follower: Option<Postgres>,
    way: Way,
    agents_way: PortWay,
}

impl Database {
    fn start(fault: Fault) -> Self {
        let primary = Postgres::start();
        primary.create("site");
        let follower = (fault == Fault::Database).then(|| {
            let follower = primary.standby("second");
            primary.set("synchronous_standby_names = 'second'");
            eventually("the standby is synchronous", || {
                let state = primary.psql("postgres", "SELECT sync_state FROM pg_stat_replication");
                (state == "sync").then_some(())
            });
            follower
        });
        let way = Way::to(&primary.socket_dir());
        Self { primary, follower, way, agents_way: PortWay::start() }
    }

    /// For the first controller, and for the second.
    fn urls(&self) -> [String; 2] {
        let url = |first: &Path| {
            let follower = self.follower.as_ref().map(Postgres::socket_dir);
            let hosts: Vec<String> = [Some(first.to_owned()), follower]
                .into_iter()
                .flatten()
                .map(|socket| socket.display().to_string().replace('/', "%2F"))
                .collect();
            format!("postgres://muster@{}/site", hosts.join(","))
        };
        [url(self.way.socket_dir()), url(&self.primary.socket_dir())]
    }
}

fn template(site: &Site, agent: &Agent, name: &str, text: &str) -> String {
    let path = agent.root.join(name).display().to_string();
    site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  \
         file: {{type: Muster::File, properties: {{node: web-1, path: {path}, content: '{text}'}}}}\n"
    ))
}

fn survive(fault: Fault) {
    let mut database = Database::start(fault);
    let lease = match fault {
        _ if soak().is_none() => Controllers::LEASE,
        // Agents give up a controller that hangs after three seconds, so a shorter lease would not be what is waited for.
        Fault::Stop => 5,
        Fault::Kill | Fault::CutOff | Fault::Unreached | Fault::Database => 2,
    };
    let mut controllers = Controllers::behind(&database.agents_way, &database.urls(), lease, IN_FLIGHT);
    let agent = controllers.all[0].join("web-1");
    let steps: Vec<String> =
        (0..4).map(|step| template(&controllers.all[0], &agent, "steps", &step.to_string())).collect();
    controllers.all[0].ok(&["stack", "create", "steps", "-t", &steps[0], "--wait"]);
    controllers.all[0].ok(&["stack", "update", "steps", "-t", &steps[1], "--wait"]);
    let load = Load::start(&controllers);

    let over = AtomicBool::new(false);
    let (happened, update_took) = std::thread::scope(|scope| {
        // An older job than one that was done would set the file back, until the next step.
        let watcher = scope.spawn(|| {
            let mut last = 0;
            let mut is_over = || {
                let text = fs::read_to_string(agent.root.join("steps")).unwrap_or_default();
                if let Ok(step) = text.parse::<u32>() {
                    assert!(step >= last, "step {step} after step {last}");
                    last = step;
                }
                over.load(Ordering::Relaxed).then_some(())
            };
            while look_closely(&mut is_over).is_none() {}
        });
        let ends = EndsWatch(&over);
        let times = work_through(fault, &mut database, &mut controllers, (&agent, &load), &steps);
        drop(ends);
        watcher.join().unwrap();
        times
    });
    let active = controllers.until_active();
    let report = load.end(&controllers.all[active]);
    let most = &report["stayed_most_jobs_per_s"];
    let happened = happened.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let pauses = report["stayed_pauses"].as_array().unwrap().iter();
    let ended = pauses.map(|pause| [&pause["seconds"], &pause["ended_at"]].map(|it| it.as_f64().unwrap()));
    let longest = ended.filter(|[_, at]| *at > happened).max_by(|[one, _], [other, _]| one.total_cmp(other));
    // Where it never paused, agents were sent more before they had done what they had.
    let went_on = longest.map(|[_, again]| again - happened);
    let shown = went_on.map_or("null".to_owned(), |took| format!("{took:.3}"));
    println!(
        "{{\"failover\":\"{fault:?}\",\"lease_s\":{lease},\"went_on_s\":{shown},\"update_done_s\":{update_took:.3},\
         \"most_jobs_per_s\":{most}}}"
    );
    if soak().is_none() {
        return;
    }
    let last = report["stayed_last_job_at"].as_f64().unwrap();
    assert!(last > happened + 1.0, "{fault:?}: the fleet had next to nothing left to do");
    let bound = lease as f64 + TAKE_OVER_MAX;
    assert!(
        fault == Fault::Unreached || went_on.is_none_or(|took| took <= bound),
        "{fault:?}: the fleet's jobs went on after {shown} s, and {bound} s are the most"
    );
}

/// A fleet whose agents have many things each.
struct Load {
    fleet: Daemon,
    template: String,
    /// Holds the fleet's log.
    _dir: TempDir,
}

impl Load {
    /// Starts the fleet, and creates its things.
    fn start(controllers: &Controllers) -> Self {
        let (first, dir) = (&controllers.all[0], TempDir::new().unwrap());
        let uses = AGENTS.to_string();
        let token =
            first.ok(&["node", "token", "--uses", &uses, "--name", "fleet-*", "--label", "role=load"]);
        let mut fleet = command(None, binary("muster-sim"));
        fleet.args(["fleet", "--stay", "--agents", &uses, "--token", token.trim()]);
        let fleet = Daemon::start("fleet", fleet, dir.path());
        eventually("the fleet is online", || fleet.log().contains("fleet: staying").then_some(()));
        let things = (0..things()).map(|number| {
            format!(
                "  thing{number}: {{type: Muster::Dummy, properties: {{seconds: 0.02, values: {{word: {{get_param: \
                 word}}}}}}, for_each: {{nodes: role=load}}}}\n"
            )
        });
        let head = "heat_template_version: 2018-08-31\nparameters: {word: {type: string}}\nresources:\n";
        let template = first.file(&format!("{head}{}", things.collect::<String>()));
        first.ok(&["stack", "create", "load", "-t", &template, "-P", "word=one", "--wait"]);
        Self { fleet, template, _dir: dir }
    }

    /// Asks for a change of all things.
    fn update(&self, site: &Site, word: &str) {
        site.ok(&["stack", "update", "load", "-t", &self.template, "-P", &format!("word={word}")]);
    }

    /// Waits until all things have changed; returns what the fleet tells in the end.
    fn end(mut self, site: &Site) -> Value {
        crate::layers::until_complete(site, "load");
        let status = self.fleet.stop();
        let log = self.fleet.log();
        assert!(status.success(), "{log}");
        let report: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert_eq!(report["stayed_failed"], 0, "{report}");
        // Reports that were acknowledged. What an agent's ledger told of after a break is in none.
        let least = (2 * things() - 1) * AGENTS;
        assert!(report["stayed_jobs"].as_u64() >= Some(least as u64), "{report}");
        report
    }
}

/// Ends the watch, also where the test has failed.
struct EndsWatch<'a>(&'a AtomicBool);

impl Drop for EndsWatch<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns when the fault happened, and after how many seconds the job of an update was done for which the successor was
/// asked.
fn work_through(
    fault: Fault,
    database: &mut Database,
    controllers: &mut Controllers,
    (agent, load): (&Agent, &Load),
    steps: &[String],
) -> (SystemTime, f64) {
    let names: Vec<String> = (0..STACKS).map(|number| format!("s{number}")).collect();
    let templates: Vec<String> =
        names.iter().map(|name| template(&controllers.all[0], agent, name, name)).collect();
    let create = |(name, template): (&String, &String)| {
        controllers.all[0].spawn(&["stack", "create", name, "-t", template])
    };
    let mut creating: Vec<Running> = names.iter().zip(&templates).map(create).collect();
    eventually("some are answered", || {
        (creating.iter_mut().filter_map(|one| one.ended().then_some(())).count() >= STACKS / 4).then_some(())
    });

    // Answered when its jobs begin to leave.
    load.update(&controllers.all[0], "two");
    let (began, happened) = (Instant::now(), SystemTime::now());
    let active = match fault {
        Fault::Kill => {
            controllers.all[0].kill();
            controllers.until_successor()
        }
        Fault::Stop => {
            controllers.all[0].controller.signal("STOP");
            controllers.until_successor_of_silent()
        }
        Fault::CutOff => {
            database.way.cut();
            controllers.until_successor()
        }
        Fault::Unreached => {
            database.agents_way.cut();
            controllers.until_successor()
        }
        Fault::Database => {
            database.primary.kill();
            database.follower.as_ref().unwrap().promote();
            // The one that was active may have kept the lease.
            controllers.until_active()
        }
    };
    let site = &controllers.all[active];
    eventually("the successor takes an update", || {
        (site.muster(&["stack", "update", "steps", "-t", &steps[2]]).status == 0).then_some(())
    });
    let done = |step: &str| (fs::read_to_string(agent.root.join("steps")).ok()? == step).then_some(());
    eventually("the successor's job is done", || done("2"));
    let took = began.elapsed().as_secs_f64();

    // The first one comes back to itself, and sees what became of it.
    match fault {
        Fault::Stop => controllers.all[0].controller.signal("CONT"),
        Fault::CutOff => database.way.mend(),
        Fault::Unreached => database.agents_way.mend(),
        Fault::Kill | Fault::Database => {}
    }
    if matches!(fault, Fault::Stop | Fault::CutOff) {
        eventually("the first one ends", || controllers.all[0].controller.ended());
        let log = controllers.all[0].controller.log();
        assert!(log.contains("another controller has taken the site over"), "{log}");
    }
    let answered: Vec<bool> = creating.into_iter().map(|one| one.finish().status == 0).collect();
    match fault {
        Fault::Kill | Fault::Stop | Fault::CutOff => controllers.all[0].restart(),
        // It has given the lease up in order, and stands by.
        Fault::Unreached | Fault::Database => {}
    }
    if fault != Fault::Database {
        controllers.all[0].until_role("standby");
    }

    let site = &controllers.all[active];
    let list = site.json(&["stack", "list"]);
    let there = |name: &str| list.as_array().unwrap().iter().any(|stack| stack["name"] == name);
    for ((name, template), answered) in names.iter().zip(&templates).zip(answered) {
        assert!(there(name) || !answered, "{name} was answered and is forgotten: {list}");
        if !there(name) {
            site.ok(&["stack", "create", name, "-t", template]);
        }
        crate::layers::until_complete(site, name);
        assert_eq!(fs::read_to_string(agent.root.join(name)).unwrap(), *name);
    }
    site.ok(&["stack", "update", "steps", "-t", &steps[3], "--wait"]);
    assert_eq!(done("3"), Some(()));
    (happened, took)
}
