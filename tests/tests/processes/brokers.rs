//! Agents and controller over Mosquitto and over a cluster of rmqtt, set up as `examples` has them. With
//! `MUSTER_TEST_LINK=mosquitto`, `embedded` or `rmqtt` all the other tests run over a broker as well.

use std::fs;
use std::time::Duration;

use muster_broker::BrokerError;
use muster_testbed::{PATIENCE, eventually};
use muster_tests::site::{Agent, Link, Place, Port, Probe, Site};

const FILES: usize = 40;

/// The beginning of each file's name: long enough to be found in what a broker saw, and nowhere by chance.
const NAMED: &str = "file-of-this-name-";

fn named(number: usize) -> String {
    format!("{NAMED}{number}")
}

/// Files of both nodes, in a chain per node so that messages go to and fro.
fn template(agents: &[&Agent]) -> String {
    let mut text =
        "heat_template_version: 2018-08-31\nparameters: {v: {type: string}}\nresources:\n".to_owned();
    for agent in agents {
        for number in 0..FILES {
            let name = agent.name.replace('.', "_");
            text += &format!(
                "  {name}_{number}:\n    type: Muster::File\n    properties: {{node: {}, path: {}, content: {{get_param: v}}}}\n",
                agent.name,
                agent.file(&named(number)).display(),
            );
            if number > 0 {
                text += &format!("    depends_on: {name}_{}\n", number - 1);
            }
        }
    }
    text
}

fn all_are(agents: &[&Agent], version: &str) {
    for agent in agents {
        for number in 0..FILES {
            assert_eq!(agent.content(&named(number)).as_deref(), Some(version), "{} {number}", agent.name);
        }
    }
}

fn until_some(agent: &Agent, version: &str) {
    let last = named(FILES / 4);
    eventually("some are done", || (agent.content(&last).as_deref() == Some(version)).then_some(()));
}

#[test]
fn from_token_to_delete_over_mosquitto() {
    from_token_to_delete(Link::Mosquitto, "mqtts://127.0.0.1:");
}

pub fn from_token_to_delete(link: Link, shown: &str) {
    let mut site = Site::over(link);
    let (mut web1, web2) = (site.join("web-1"), site.join("web-2"));
    let status = site.json(&["status"]);
    assert!(status["link"].as_str().unwrap().starts_with(shown), "{status}");
    assert!(status["link_problem"].is_null(), "{status}");
    let file = site.file(&template(&[&web1, &web2]));
    site.ok(&["stack", "create", "web", "-t", &file, "-P", "v=1", "--wait"]);
    all_are(&[&web1, &web2], "1");

    // Drift is seen and corrected.
    let drifting = named(3);
    fs::write(web2.file(&drifting), "drifted").unwrap();
    eventually("the drift is corrected", || (web2.content(&drifting).as_deref() == Some("1")).then_some(()));

    // The broker goes in the middle of an update, then the controller, then an agent.
    let updating = site.spawn(&["stack", "update", "web", "--existing", "-P", "v=2", "--wait"]);
    until_some(&web1, "2");
    if let Some(mut broker) = site.broker.take() {
        broker.daemon.kill();
        for name in ["web-1", "web-2"] {
            site.until_node(name, "offline");
        }
        let status = site.json(&["status"]);
        let problem = status["link_problem"].as_str().unwrap_or_default();
        assert!(problem.contains("127.0.0.1:"), "{status}");
        broker.daemon.restart();
        site.broker = Some(broker);
    }
    updating.finish().expect(0);
    all_are(&[&web1, &web2], "2");

    let updating = site.spawn(&["stack", "update", "web", "--existing", "-P", "v=3", "--wait"]);
    until_some(&web1, "3");
    site.kill();
    site.restart();
    updating.finish().expect(0);
    all_are(&[&web1, &web2], "3");

    let updating = site.spawn(&["stack", "update", "web", "--existing", "-P", "v=4", "--wait"]);
    until_some(&web1, "4");
    web1.daemon.kill();
    site.until_node("web-1", "offline");
    web1.daemon.restart();
    updating.finish().expect(0);
    all_are(&[&web1, &web2], "4");

    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!((web1.listing(), web2.listing()), (Vec::<String>::new(), Vec::new()));
}

/// The controller and one agent are at one node of a cluster, another agent is at another; the first is killed in the middle
/// of an update, then the one that leads the cluster.
#[test]
fn nodes_of_a_cluster_are_killed() {
    let mut site = Site::over(Link::Rmqtt);
    site.try_first(2);
    let web2 = site.join("web-2");
    site.try_first(1);
    let web1 = site.join("web-1");
    let file = site.file(&template(&[&web1, &web2]));
    site.until_node("web-2", "online");
    site.ok(&["stack", "create", "web", "-t", &file, "-P", "v=1", "--wait"]);
    all_are(&[&web1, &web2], "1");
    for (killed, version) in [(1, "2"), (0, "3")] {
        let parameter = format!("v={version}");
        let updating = site.spawn(&["stack", "update", "web", "--existing", "-P", &parameter, "--wait"]);
        until_some(&web1, version);
        let mut cluster = site.cluster.take().unwrap();
        cluster.rmqtt.nodes[killed].kill();
        updating.finish().expect(0);
        all_are(&[&web1, &web2], version);
        cluster.rmqtt.restart(killed);
        site.cluster = Some(cluster);
    }
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!((web1.listing(), web2.listing()), (Vec::<String>::new(), Vec::new()));
}

/// A content of some chunks, and a controller that stops and starts in order.
#[test]
fn large_contents_pass_and_an_orderly_stop_is_told() {
    let mut site = Site::over(Link::Mosquitto);
    let web1 = site.join("web-1");
    let content = "0123456789abcdef".repeat(128 * 1024);
    fs::write(site.path().join("large"), &content).unwrap();
    let file = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  large: {{type: Muster::File, properties: {{node: web-1, path: {}, \
         content: {{get_file: large}}}}}}\n",
        web1.file("large").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &file, "--wait"]);
    assert!(web1.content("large").as_deref() == Some(&*content));
    assert!(site.controller.stop().success());
    eventually("the agent is told", || web1.daemon.log().contains("not connected").then_some(()));
    site.restart();
    site.until_node("web-1", "online");
}

fn problem(site: &Site, wanted: &str) {
    eventually(&format!("status says '{wanted}'"), || {
        let status = site.json(&["status"]);
        status["link_problem"].as_str().is_some_and(|said| said.contains(wanted)).then_some(())
    });
}

#[test]
fn what_a_broker_does_not_allow_is_said_with_what_to_set() {
    let mut site = Site::over(Link::Mosquitto);
    let web1 = site.join("web-1");
    let mut broker = site.broker.take().unwrap();
    broker.change("max_packet_size 263202", "max_packet_size 100000");
    problem(
        &site,
        "takes packets of 100000 bytes at most: let it take 263202 (Mosquitto: max_packet_size 263202)",
    );
    eventually("the agent says it", || web1.daemon.log().contains("max_packet_size 263202").then_some(()));
    broker.change("max_packet_size 100000", "max_packet_size 263202");
    site.until_node("web-1", "online");

    // The controller may not write any more: its notice to all nodes is refused.
    broker.permit("topic write muster", "topic deny muster");
    problem(&site, "does not take a message from this client (NotAuthorized)");
    broker.permit("topic deny muster", "topic write muster");
    site.until_node("web-1", "online");

    // It does not know the site's CA.
    broker.change("cafile", "#cafile");
    problem(&site, "does not know the CA of this side's certificate: give it the site's");
    broker.change("#cafile", "cafile");
    site.until_node("web-1", "online");
}

#[test]
fn a_broker_that_refuses_users_and_large_messages_is_told_apart() {
    let mut site = Site::over(Link::Mosquitto);
    let web1 = site.join("web-1");
    let mut broker = site.broker.take().unwrap();
    broker.change("use_identity_as_username true", "use_identity_as_username false");
    problem(&site, "in (NotAuthorized): give that client its user and permissions");
    broker.change("use_identity_as_username false", "use_identity_as_username true");
    site.until_node("web-1", "online");

    // A limit of which a client hears when it is too late. The content is no text that becomes small.
    broker.change("max_packet_size 263202", "max_packet_size 263202\nmessage_size_limit 20000");
    site.until_node("web-1", "online");
    let content: String = (0..300_000u32)
        .map(|n| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 27) as u8 % 26))
        .collect();
    fs::write(site.path().join("large"), &content).unwrap();
    let file = site.file(&format!(
        "heat_template_version: 2018-08-31\nresources:\n  large: {{type: Muster::File, properties: {{node: web-1, path: {}, \
         content: {{get_file: large}}}}}}\n",
        web1.file("large").display()
    ));
    site.ok(&["stack", "create", "s", "-t", &file]);
    problem(&site, "does not take a message from this client (PacketTooLarge)");
    assert_eq!(web1.content("large"), None);
    broker.change("\nmessage_size_limit 20000", "");
    eventually("nothing is lost", || (web1.content("large")? == content).then_some(()));
}

/// A node reads and writes its own topics only, and a joiner only its own request.
#[test]
fn the_broker_keeps_nodes_from_one_another() {
    let site = Site::over(Link::Mosquitto);
    let (web1, _web2) = (site.join("web-1"), site.join("web-2"));
    let broker = site.broker.as_ref().unwrap();
    let id = site.json(&["status"])["site"].as_str().unwrap().to_owned();
    // Two clients of one name push each other out.
    web1.daemon.signal("STOP");
    for (topic, may) in [
        ("web-1/up", true),
        ("web-2/up", false),
        ("web-1/down", false),
        ("web-2/down", false),
        ("controller", false),
        ("join/0123456789abcdef/answer", false),
    ] {
        let topic = format!("muster/v1/{id}/{topic}");
        let said = broker.probe(Port::Nodes).node(&web1.state).tries("somebody", "test", Some(&topic));
        assert_eq!(was_taken(said), may, "{topic}");
    }
    web1.daemon.signal("CONT");
    let own = "0123456789abcdef";
    for (topic, may) in [
        (format!("join/{own}/request"), true),
        ("join/fedcba9876543210/request".to_owned(), false),
        (format!("join/{own}/answer"), false),
        ("web-1/up".to_owned(), false),
        ("join@muster/down".to_owned(), false),
        ("controller".to_owned(), false),
    ] {
        let topic = format!("muster/v1/{id}/{topic}");
        let said = broker.probe(Port::Joiners).tries(own, "test", Some(&topic));
        assert_eq!(was_taken(said), may, "{topic}");
    }
    site.until_node("web-1", "online");
}

/// All agents are one user, and a client chooses its id, which the permissions have for a node's name. So the cluster keeps
/// nodes apart as far as they say who they are; what is the controller's it keeps from all of them.
#[test]
fn a_cluster_keeps_agents_from_what_is_the_controllers() {
    let site = Site::over(Link::Rmqtt);
    let (web1, web2) = (site.join("web-1"), site.join("web-2"));
    let rmqtt = &site.cluster.as_ref().unwrap().rmqtt;
    let id = site.json(&["status"])["site"].as_str().unwrap().to_owned();
    let topic = |name: &str| format!("muster/v1/{id}/{name}");
    // Every agent may read this one.
    let filter = topic("controller");
    // rmqtt takes what an id may away when its last connection ends, which may be after the next one has begun.
    let until_taken = |probe: &Probe, id: &str, name: &str| {
        eventually(&format!("{id} writes {name}"), || probe.tries(id, &filter, Some(&topic(name))).ok());
    };
    let node = rmqtt.probe(Port::Nodes).node(&web1.state);
    // Two clients of one id push each other out.
    web1.daemon.signal("STOP");
    until_taken(&node, "web-1", "web-1/up");
    for name in ["web-2/up", "web-1/down", "web-2/down", "controller", "join/0123456789abcdef/answer"] {
        assert!(!was_passed_on(node.tries("web-1", &filter, Some(&topic(name)))), "{name}");
    }
    for name in ["web-2/down", "+/down", "web-2/up", "+/up", "join/+/request", "join/0123456789abcdef/answer"]
    {
        assert!(node.tries("web-1", &topic(name), None).is_err(), "{name}");
    }
    web1.daemon.signal("CONT");

    let (joiner, own) = (rmqtt.probe(Port::Joiners), "0123456789abcdef");
    until_taken(&joiner, own, "join/0123456789abcdef/request");
    for name in [
        "join/fedcba9876543210/request",
        "join/0123456789abcdef/answer",
        "web-1/up",
        "web-1/down",
        "controller",
    ] {
        assert!(!was_passed_on(joiner.tries(own, &filter, Some(&topic(name)))), "{name}");
    }
    // Nor does a name that is a pattern help.
    for id in ["+", "#"] {
        for name in ["web-1/down", "controller", "join/0123456789abcdef/answer"] {
            assert!(joiner.tries(id, &filter, Some(&topic(name))).is_err(), "{id} {name}");
        }
    }
    // As docs/brokers.md warns, the password alone lets a client in under any node's name.
    web2.daemon.signal("STOP");
    until_taken(&joiner, "web-2", "web-2/up");
    web2.daemon.signal("CONT");
    site.until_node("web-1", "online");
    site.until_node("web-2", "online");
}

/// Whether rmqtt took a message of a client that it let in and had subscribe. It ends the connection where it does not, at
/// times without a reason.
fn was_passed_on(said: Result<(), BrokerError>) -> bool {
    match said {
        Ok(()) => true,
        Err(BrokerError::NotTaken { .. } | BrokerError::Lost { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Whether a message was taken; any other reason than permissions fails the test.
pub fn was_taken(said: Result<(), BrokerError>) -> bool {
    match said {
        Ok(()) => true,
        Err(error) if error.to_string().contains("NotAuthorized") => false,
        Err(error) => panic!("{error}"),
    }
}

/// A broker that loses, repeats, delays, swaps, alters, says again, forges and answers wrongly costs time and nothing else.
#[test]
fn a_hostile_broker_costs_time_and_reads_nothing() {
    const SEED: u64 = 7;
    const UPDATES_MAX: u32 = 20;
    /// Misdeeds after which an update may end in peace, also where a node waits for a packet and has done little.
    const MUCH: u64 = 30;
    const SECRET: &str = "nobody-in-between-may-read-this";
    // A packet that is lost, and none after it, is missed after a minute; then both ends may wait for half a minute.
    const SETTLES: Duration = PATIENCE.saturating_mul(2);
    let (site, broker) = Site::over_hostile_broker(SEED);
    let (web1, web2) = (site.join("web-1"), site.join("web-2"));
    let file = site.file(&template(&[&web1, &web2]));
    broker.set_calm(false);
    let web3 = site.agent("web-3", site.ok(&["node", "token", "--name", "web-3"]).trim(), Place::default());
    // As many updates as it needs to have done everything.
    for number in 0.. {
        let (verb, version) = (if number == 0 { "create" } else { "update" }, format!("{SECRET}-{number}"));
        let parameter = format!("v={version}");
        let running = site.spawn(&["stack", verb, "web", "-t", &file, "-P", &parameter, "--wait"]);
        let (some, before) = (named(FILES / 4), broker.done().total());
        let has_some = || web1.content(&some).as_deref() == Some(&*version);
        let had_much = || broker.done().total() >= before + MUCH;
        eventually("an update was harmed", || (has_some() || had_much()).then_some(()));
        broker.set_calm(true);
        running.finish_within(SETTLES).expect(0);
        all_are(&[&web1, &web2], &version);
        let done = broker.done();
        if number > 0 && done.are_all() {
            eprintln!("{done:?}");
            break;
        }
        assert!(number < UPDATES_MAX, "{done:?}");
        broker.set_calm(false);
    }
    for name in ["web-1", "web-2", "web-3"] {
        site.until_node(name, "online");
    }
    drop(web3);
    // One row for each file, made once.
    for number in 0..FILES {
        assert_eq!(site.physical_ids("web", &format!("web-1_{number}")).len(), 1, "{number}");
    }
    let hidden =
        [SECRET, web1.root.to_str().unwrap(), NAMED, "web-1_1", "heat_template_version", "Muster::File"];
    for hidden in hidden {
        assert!(!broker.saw(hidden.as_bytes()), "the broker saw '{hidden}'");
    }
    assert!(broker.saw(b"/web-1/down"), "it sees topics");
    site.ok(&["stack", "delete", "web", "--wait"]);
    assert_eq!(web1.listing(), Vec::<String>::new());
}
