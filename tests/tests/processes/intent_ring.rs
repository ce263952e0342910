//! Intents on six real switches in a ring with a chord: packets go where they were asked to, also when a cable is cut.

use muster_testbed::{Namespace, Running, Switch, eventually};
use muster_tests::site::{Agent, Place, Site};
use serde_json::{Value, json};

/// Everything that is Muster's, as `ovs-ofctl` takes it.
const OURS: &str = "cookie=0x4d55000000000000/0xffff000000000000";
/// There and back for IPv4 and for ARP.
const KEYS: [&str; 4] = ["ip-1-4", "ip-4-1", "arp-1-4", "arp-4-1"];
/// Each to the next, and a chord from 1 to 4.
const CABLES: [(usize, usize); 7] = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1), (1, 4)];
/// Packets of a ping at a thousand each second.
const PACKETS: u32 = 5000;
/// The packets of a stream that must lose nothing. It is slow, for a switch that does not run for a fifth of a second
/// loses some of a thousand
/// each second.
const SLOW_PACKETS: u32 = 500;
/// Says how often a cable is cut under a ping, for a median of what is lost; each takes some ten seconds.
const CUTS: &str = "MUSTER_RING_CUTS";

/// Dropped in this order.
struct Ring {
    _agents: Vec<Agent>,
    switches: Vec<Switch>,
    servers: Vec<Namespace>,
    /// At the ports `host` of 1 and of 4.
    hosts: [Namespace; 2],
    site: Site,
}

impl Ring {
    fn start() -> Self {
        let site = Site::in_namespace();
        let hub = site.hub();
        let servers: Vec<Namespace> = (1..=6).map(|number| hub.server(number + 1)).collect();
        for (one, other) in CABLES {
            servers[one - 1].link(&format!("to{other}"), &servers[other - 1], &format!("to{one}"));
        }
        let hosts = [(1_usize, "10.9.0.1/24"), (4, "10.9.0.2/24")].map(|(number, address)| {
            let host = Namespace::new();
            servers[number - 1].link("host", &host, "eth0");
            host.ip(&format!("address add {address} dev eth0"));
            host
        });
        let switches: Vec<Switch> = (1..=6)
            .zip(&servers)
            .map(|(number, server)| {
                let switch = Switch::start(server);
                switch.bridge("br0", &[]);
                // Without rules it does nothing: else a ring goes round.
                switch.vsctl("set-fail-mode br0 secure");
                let cables = CABLES.iter().filter_map(|(one, other)| match number {
                    number if number == *one => Some(*other),
                    number if number == *other => Some(*one),
                    _ => None,
                });
                cables.for_each(|other| drop(switch.vsctl(&format!("add-port br0 to{other}"))));
                if [1, 4].contains(&number) {
                    switch.vsctl("add-port br0 host");
                }
                switch
            })
            .collect();
        let agents = (1..=6).zip(servers.iter().zip(&switches)).map(|(number, (server, switch))| {
            let place = Place { namespace: Some(server), switch: Some(switch), ..Place::default() };
            site.join_at(&format!("sw-{number}"), place)
        });
        let ring = Self { _agents: agents.collect(), switches, servers, hosts, site };
        ring.until_links(CABLES.len());
        ring
    }

    fn links(&self) -> Vec<Value> {
        let topology = self.site.json(&["topology", "show"]);
        topology["links"].as_array().unwrap().iter().filter(|link| link["up"] == true).cloned().collect()
    }

    /// So many cables carry in both directions.
    fn until_links(&self, cables: usize) {
        eventually(&format!("{cables} cables are known"), || {
            (self.links().len() == 2 * cables).then_some(())
        });
    }

    /// There and back for IPv4 and for ARP.
    fn submit(&self) {
        let end = |number: usize| json!({"device": format!("sw-{number}/br0"), "port": "host"});
        let intents: Vec<Value> = [(1, 4), (4, 1)]
            .into_iter()
            .flat_map(|(from, to)| {
                [("ip", 0x800), ("arp", 0x806)].map(|(name, eth_type)| {
                    json!({"key": format!("{name}-{from}-{to}"), "type": "point_to_point", "from": end(from), "to": end(to),
                        "selector": {"eth_type": eth_type}})
                })
            })
            .collect();
        let file = self.site.file(&json!({ "intents": intents }).to_string());
        self.site.ok(&["intent", "submit", "-f", &file, "--wait"]);
        // Until the hosts know each other's MAC address, packets wait in a short queue.
        self.hosts[0].pings("10.9.0.2");
    }

    fn until_installed(&self) {
        eventually("all intents are installed", || {
            KEYS.iter().all(|key| self.show(key)["state"] == "INSTALLED").then_some(())
        });
    }

    fn show(&self, key: &str) -> Value {
        self.site.json(&["intent", "show", key])
    }

    /// The devices of an intent's path, as their numbers.
    fn path(&self, key: &str) -> String {
        let shown = self.show(key);
        let numbers = shown["paths"][0].as_array().unwrap().iter().filter_map(Value::as_str);
        numbers.map(|name| &name[3..4]).collect::<Vec<_>>().join(" ")
    }

    fn rules(&self) -> usize {
        let lines = |switch: &Switch| {
            switch.ofctl(&["dump-flows", "br0", OURS]).lines().filter(|l| l.contains("cookie")).count()
        };
        self.switches.iter().map(lines).sum()
    }

    /// So many packets, so many seconds apart.
    fn ping(&self, packets: u32, apart: &str) -> Running {
        let mut command = self.hosts[0].command("ping");
        command.args(["-q", "-n", "-i", apart, "-c", &packets.to_string(), "-W", "5", "10.9.0.2"]);
        Running::start(command)
    }

    /// Cuts the first cable of the way in the middle of a ping; the packets that were lost. One end goes down, the other
    /// has no carrier.
    fn cut(&self) -> u32 {
        let way = self.path("ip-1-4");
        let port = self.first_port();
        self.lost_of(PACKETS, "0.001", || {
            self.servers[0].ip(&format!("link set {port} down"));
            eventually("the intents go another way", || {
                (self.path("ip-1-4") != way && self.show("ip-4-1")["state"] == "INSTALLED").then_some(())
            });
        })
    }

    /// The port by which packets leave the first server.
    fn first_port(&self) -> String {
        format!("to{}", &self.path("ip-1-4")[2..3])
    }

    fn heal(&self, port: &str) {
        self.servers[0].ip(&format!("link set {port} up"));
        self.until_links(CABLES.len());
    }

    /// Packets that the first host got.
    fn received(&self) -> u64 {
        self.hosts[0].run("cat /sys/class/net/eth0/statistics/rx_packets").trim().parse().unwrap()
    }

    /// Panics unless all packets come back.
    fn loses_nothing(&self) {
        assert_eq!(self.lost_of(SLOW_PACKETS, "0.01", || ()), 0);
    }

    /// Does something in the middle of a ping; the packets that were lost.
    fn lost_of(&self, packets: u32, apart: &str, what: impl FnOnce()) -> u32 {
        let before = self.received();
        let ping = self.ping(packets, apart);
        let part = u64::from(packets) / 5;
        eventually("packets go to and fro", || (self.received() > before + part).then_some(()));
        what();
        let said = ping.finish().stdout;
        let received = said.split(", ").find_map(|part| part.strip_suffix(" received")?.parse::<u32>().ok());
        packets - received.unwrap_or_else(|| panic!("{said}"))
    }
}

#[test]
fn packets_survive_a_cut_cable_and_an_intent_leaves_nothing() {
    let ring = Ring::start();
    ring.submit();
    assert_eq!(ring.path("ip-1-4"), "1 4");
    let shown = ring.show("ip-1-4");
    assert_eq!(
        (&shown["state"], &shown["request"], &shown["errors"]),
        (&json!("INSTALLED"), &json!("INSTALL_REQ"), &json!(0))
    );
    assert_eq!(shown["rules"].as_array().unwrap().len(), 2);
    assert_eq!(ring.rules(), 8);
    ring.loses_nothing();

    let lost = ring.cut();
    println!("a cable cut: {lost} of {PACKETS} packets lost at 1,000 each second");
    ring.until_installed();
    // A switch goes on by what it remembers of its rules, for a moment.
    ring.hosts[0].pings("10.9.0.2");
    ring.loses_nothing();
    let there = ring.path("ip-1-4");
    assert!(there == "1 2 3 4" || there == "1 6 5 4", "{there}");
    let history = ring.show("ip-1-4")["history"].clone();
    println!("{history}");
    assert_eq!(history.as_array().unwrap().len(), 1, "{history}");

    // Whoever stands well stays when it heals.
    ring.heal("to4");
    ring.loses_nothing();
    assert_eq!(ring.path("ip-1-4"), there);

    if let Some(cuts) =
        std::env::var(CUTS).ok().and_then(|cuts| cuts.parse::<usize>().ok()).filter(|cuts| *cuts > 0)
    {
        let lost = (0..cuts).map(|_| {
            let port = ring.first_port();
            let lost = ring.cut();
            ring.heal(&port);
            lost
        });
        let mut lost: Vec<u32> = lost.collect();
        lost.sort_unstable();
        let figures =
            json!({"bench": "ring", "cuts": cuts, "lost_ms_median": lost[cuts / 2], "lost_ms": lost});
        println!("{figures}");
    }

    for key in KEYS {
        ring.site.ok(&["intent", "withdraw", key, "--wait"]);
    }
    assert_eq!(ring.rules(), 0);
    ring.site.ok(&[&["intent", "purge"], &KEYS[..]].concat());
    assert_eq!(ring.site.json(&["intent", "list"]), json!([]));
}
