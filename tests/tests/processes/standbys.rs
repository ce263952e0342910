//! A site with several controllers: one is active, and another one takes over when it dies, hangs, is cut off from the
//! database, or is told to hand over.

use std::fs;

use muster_testbed::{PortWay, Postgres, Running, Way, command, eventually};
use muster_tests::site::{Agent, Controllers, Site, template_of_a_file};

/// A server with the site's database; its controllers; an agent, with the file that the stack `web` makes on it.
struct Bed {
    server: Postgres,
    controllers: Controllers,
    agent: Agent,
    template: String,
}

impl Bed {
    fn start(count: usize) -> Self {
        let server = Postgres::start();
        server.create("site");
        let controllers = Controllers::start(&vec![server.url("site"); count]);
        Self::with(server, controllers)
    }

    fn with(server: Postgres, controllers: Controllers) -> Self {
        let first = &controllers.all[0];
        let agent = first.join("web-1");
        let template = first.file(&template_of_a_file("web-1", &agent.file("motd")));
        let bed = Self { server, controllers, agent, template };
        bed.apply(0, "create", "one");
        bed
    }

    fn url(&self) -> String {
        self.server.url("site")
    }

    /// Creates or updates the stack at this controller, which must work.
    fn apply(&self, at: usize, verb: &str, text: &str) {
        let parameter = format!("text={text}");
        let site = &self.controllers.all[at];
        site.ok(&["stack", verb, "web", "-t", &self.template, "-P", &parameter, "--wait"]);
        assert_eq!(fs::read_to_string(self.agent.root.join("motd")).unwrap(), text);
    }

    fn epoch(&self, at: usize) -> u64 {
        self.controllers.all[at].status().unwrap()["epoch"].as_u64().unwrap()
    }
}

/// The metrics that Prometheus would get from the controller's socket.
fn metrics(site: &Site) -> String {
    let mut curl = command(None, "curl");
    curl.args(["-sf", "--unix-socket", site.url().trim_start_matches("unix://"), "http://muster/metrics"]);
    Running::start(curl).finish().expect(0).stdout
}

/// The changes of the active controller in the audit: actor, action, target, and what it says of them.
fn changes(site: &Site) -> Vec<[String; 4]> {
    let rows = site.json(&["audit"]);
    let rows = rows.as_array().unwrap().iter();
    let rows = rows
        .map(|row| ["actor", "action", "target", "what"].map(|key| row[key].as_str().unwrap().to_owned()));
    rows.filter(|[_, action, ..]| ["hand-over", "take-over"].contains(&action.as_str())).collect()
}

fn log_has(site: &Site, text: &str) {
    eventually(&format!("the log says: {text}"), || site.controller.log().contains(text).then_some(()));
}

#[test]
fn a_standby_takes_over_from_a_controller_that_was_killed() {
    let mut bed = Bed::start(2);
    let before = bed.epoch(0);
    let standby = &bed.controllers.all[1];
    let status = standby.status().unwrap();
    assert_eq!((&status["role"], &status["controllers"][0]["name"]), (&"standby".into(), &"c1".into()));
    let asked = standby.muster(&["stack", "list"]);
    let since = status["controllers"][0]["since"].as_str().unwrap();
    asked.refused(1, &[&format!("c2 stands by: c1 is active since {since}, ask there")]);
    let shown = standby.ok(&["status"]);
    assert!(shown.contains(&format!("\n            c1 is active since {since}\n")), "{shown}");
    eventually("the active one shows the standby in its metrics", || {
        let metrics = metrics(&bed.controllers.all[0]);
        metrics.contains("\nmuster_standby_behind_seconds{controller=\"c2\"} ").then_some(())
    });
    assert!(metrics(standby).contains("\nmuster_controller_active 0\n"));

    // As `systemctl reload` does.
    standby.controller.signal("HUP");
    bed.controllers.all[0].kill();
    bed.controllers.all[1].until_role("active");
    bed.controllers.all[1].until_node("web-1", "online");
    assert!(bed.epoch(1) > before);
    bed.apply(1, "update", "two");

    // What was killed comes back as a standby, and is the next one's heir.
    bed.controllers.all[0].restart();
    bed.controllers.all[0].until_role("standby");
    bed.controllers.all[1].until_controller("c1", "standby");
    bed.controllers.all[1].kill();
    bed.controllers.all[0].until_role("active");
    bed.controllers.all[0].until_node("web-1", "online");
    bed.apply(0, "update", "three");
    let changes = changes(&bed.controllers.all[0]);
    let by_itself = changes.iter().map(|[actor, action, target, _]| format!("{actor} {action} {target}"));
    assert_eq!(by_itself.collect::<Vec<_>>(), ["controller c2 take-over c2", "controller c1 take-over c1"]);
    assert!(changes.iter().all(|[.., what]| what.ends_with(": the lease was not renewed")), "{changes:?}");
}

#[test]
fn a_controller_that_hung_finds_its_successor_and_ends() {
    let mut bed = Bed::start(2);
    bed.controllers.all[0].controller.signal("STOP");
    bed.controllers.all[1].until_role("active");
    // The agent hears nothing from the first one, and looks for another.
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "two");
    bed.controllers.all[0].controller.signal("CONT");
    eventually("the first one ends", || bed.controllers.all[0].controller.ended());
    log_has(&bed.controllers.all[0], "another controller has taken the site over");
    bed.apply(1, "update", "three");
}

#[test]
fn a_site_is_handed_over_and_back_while_agents_work() {
    let bed = Bed::start(3);
    let url = bed.url();
    let first = &bed.controllers.all[0];
    let handed = first.controller(&url, &["hand-over", "--to", "c2"]).expect(0);
    assert_eq!(handed.stdout, "c2\n");
    bed.controllers.all[1].until_role("active");
    first.until_role("standby");
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "two");
    // From any machine with the settings.
    bed.controllers.all[1].until_controller("c1", "standby");
    let handed = bed.controllers.all[2].controller(&url, &["hand-over", "--to", "c1"]).expect(0);
    assert_eq!(handed.stdout, "c1\n");
    // It has the lease, and answers once it has loaded the site.
    first.until_role("active");
    first.until_node("web-1", "online");
    bed.apply(0, "update", "three");
    let changes = changes(first);
    let [there, back] = &changes[..] else { panic!("{changes:?}") };
    for (row, to) in [(there, "c2"), (back, "c1")] {
        assert_eq!(row[1..3], ["hand-over", to], "{changes:?}");
    }
    assert!(there[0] == back[0] && !there[0].starts_with("controller "), "{changes:?}");
    assert!(there[3].starts_with("from c1, epoch ") && there[3].ends_with(": asked for c2"), "{changes:?}");

    first.until_controller("c2", "standby");
    let refused = |arguments: &[&str], wanted: &[&str]| first.controller(&url, arguments).refused(1, wanted);
    refused(&["hand-over", "--to", "c1"], &["c1 is the active one already"]);
    refused(
        &["hand-over", "--to", "c9"],
        &["c9 does not stand by", "c2 looked", "start muster-controller there"],
    );
    let file = format!("sqlite:{}", first.path().join("none.db").display());
    first.controller(&file, &["hand-over"]).refused(1, &["standbys need PostgreSQL"]);
}

/// The agent's token has the address of the first controller alone.
#[test]
fn an_agent_is_told_of_controllers_that_came_later() {
    let mut bed = Bed::start(1);
    let url = bed.url();
    bed.controllers.add(&url);
    let connected = |bed: &Bed| bed.agent.daemon.log().matches("connected controller=").count();
    let before = connected(&bed);
    bed.agent.daemon.kill();
    bed.agent.daemon.restart();
    eventually("it is connected again", || (connected(&bed) > before).then_some(()));
    bed.controllers.all[0].until_node("web-1", "online");
    bed.apply(0, "update", "two");
    bed.controllers.all[0].kill();
    bed.controllers.all[1].until_role("active");
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "three");
}

/// The agent knows the first controller alone, and is away when the second one comes and becomes active.
#[test]
fn a_standby_tells_an_agent_where_the_active_one_is() {
    let mut bed = Bed::start(1);
    bed.agent.daemon.kill();
    let url = bed.url();
    bed.controllers.add(&url);
    bed.controllers.all[0].until_controller("c2", "standby");
    bed.controllers.all[0].controller(&url, &["hand-over", "--to", "c2"]).expect(0);
    bed.controllers.all[1].until_role("active");
    bed.controllers.all[0].until_role("standby");
    bed.agent.daemon.restart();
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "two");
}

/// The successor does not wait until the lease runs out.
#[test]
fn a_controller_that_stops_in_order_frees_the_site() {
    let mut bed = Bed::start(2);
    assert!(bed.controllers.all[0].controller.stop().success());
    bed.controllers.all[1].until_role("active");
    log_has(&bed.controllers.all[1], "this controller has the lease");
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "two");
    // A standby that stops is listed no more.
    bed.controllers.add(&bed.server.url("site"));
    bed.controllers.all[1].until_controller("c3", "standby");
    assert!(bed.controllers.all[2].controller.stop().success());
    eventually("c3 is gone", || {
        let status = bed.controllers.all[1].status()?;
        status["controllers"].as_array()?.iter().all(|other| other["name"] != "c3").then_some(())
    });
}

/// Both controllers have one client id at the broker.
#[test]
fn a_controller_without_the_lease_leaves_the_broker() {
    let server = Postgres::start();
    server.create("site");
    let way = Way::to(&server.socket_dir());
    let folder = way.socket_dir().display().to_string().replace('/', "%2F");
    let urls = [format!("postgres://muster@{folder}/site"), server.url("site")];
    let mut bed = Bed::with(server, Controllers::over_mosquitto(&urls));
    let site = bed.controllers.all[0].status().unwrap()["site"].as_str().unwrap().to_owned();
    // Mosquitto has a line for each client that it lets in.
    let client = format!(" as controller@{site} ");
    let came = |bed: &Bed| {
        let broker = bed.controllers.all[0].broker.as_ref().unwrap();
        let log = broker.daemon.log();
        log.lines().filter(|line| line.contains("New client connected") && line.contains(&client)).count()
    };
    let connected = |bed: &Bed| bed.agent.daemon.log().matches("connected controller=").count();
    assert_eq!(came(&bed), 1);

    way.cut();
    assert_eq!(bed.controllers.until_successor(), 1);
    bed.controllers.all[0].until_role("standby");
    bed.controllers.all[1].until_node("web-1", "online");
    bed.apply(1, "update", "two");
    let before = connected(&bed);
    // The first one lives, and does not know that it has a successor.
    log_has(&bed.controllers.all[0], "without the lease, this controller stays away from the broker");
    assert_eq!(bed.controllers.all[0].controller.ended(), None);
    bed.apply(1, "update", "three");
    way.mend();
    eventually("the first one ends", || bed.controllers.all[0].controller.ended());
    bed.controllers.all[0].restart();
    bed.controllers.all[0].until_role("standby");
    bed.apply(1, "update", "four");
    // Each came once, and the agent stayed where it was.
    assert_eq!((came(&bed), connected(&bed)), (2, before));

    bed.controllers.all[1].until_controller("c1", "standby");
    bed.controllers.all[1].kill();
    bed.controllers.all[0].until_role("active");
    bed.controllers.all[0].until_node("web-1", "online");
    bed.apply(0, "update", "five");
    assert_eq!(came(&bed), 3);
}

/// The first controller and the agent reach the broker; the second one, which is active, does so no more.
#[test]
fn a_controller_that_loses_its_broker_hands_over_to_a_standby() {
    let server = Postgres::start();
    server.create("site");
    let (way, url) = (PortWay::start(), server.url("site"));
    let bed = Bed::with(server, Controllers::over_mosquitto_by(&way, &[url.clone(), url]));
    let [first, second] = &bed.controllers.all[..] else { panic!("there are two") };
    let to_the_second = || {
        first.until_controller("c2", "standby");
        first.controller(&bed.url(), &["hand-over", "--to", "c2"]).expect(0);
        second.until_role("active");
        second.until_node("web-1", "online");
    };
    to_the_second();
    bed.apply(1, "update", "two");
    second.until_controller("c1", "standby");

    way.cut();
    first.until_role("active");
    first.until_node("web-1", "online");
    bed.apply(0, "update", "three");
    log_has(second, "no broker can be reached from here: the site goes to a standby");
    second.until_role("standby");
    first.until_role("active");
    let changes = changes(first);
    let [.., last] = &changes[..] else { panic!("the audit has no change of controllers") };
    assert_eq!(last[..3], ["controller c2", "hand-over", "c1"]);
    assert!(last[3].ends_with(": no broker can be reached from there"), "{last:?}");

    way.mend();
    to_the_second();
    bed.apply(1, "update", "four");
}
