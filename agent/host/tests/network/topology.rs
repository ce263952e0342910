//! Ports of real bridges: what is reported of them, which ports they hear, and how soon a cut cable is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use muster_host::facts::Server;
use muster_host::ports::{Ports, Voice};
use muster_shared::model::topology::{Beacon, DevicePorts, PortState};
use tokio::sync::Notify;

use crate::server::NetworkServer;

/// Far longer than anything takes.
const COMES: Duration = Duration::from_secs(30);
/// The time for which a report is good: a cable that dies silently is found then, and one that loses its carrier
/// before.
const GOOD: Duration = Duration::from_secs(6);

/// The news of a node, as the controller would have it.
struct DeviceNews {
    news: Receiver<(Instant, DevicePorts)>,
    devices: BTreeMap<String, DevicePorts>,
}

impl DeviceNews {
    /// Until it is told; when that was.
    fn until(&mut self, what: &str, is_so: impl Fn(&BTreeMap<String, DevicePorts>) -> bool) -> Instant {
        let mut at = Instant::now();
        while !is_so(&self.devices) {
            let Ok((when, device)) = self.news.recv_timeout(COMES) else {
                panic!("it is not told that {what}: {:#?}", self.devices)
            };
            at = when;
            match device.up {
                true => drop(self.devices.insert(device.bridge.to_string(), device)),
                false => drop(self.devices.remove(device.bridge.as_str())),
            }
        }
        at
    }

    fn port_is(&mut self, name: &str, what: &str, is_so: impl Fn(&PortState) -> bool) -> Instant {
        self.until(&format!("{name} {what}"), |devices| port(devices, name).is_some_and(&is_so))
    }

    fn port(&self, name: &str) -> &PortState {
        port(&self.devices, name).unwrap()
    }

    fn beacon(&self, name: &str) -> Beacon {
        self.port(name).beacon.unwrap_or_else(|| panic!("nothing is sent on {name}"))
    }
}

fn port<'a>(devices: &'a BTreeMap<String, DevicePorts>, name: &str) -> Option<&'a PortState> {
    devices.values().flat_map(|device| &device.ports).find(|port| &*port.name == name)
}

/// With the ports of all servers watched, as agents do it.
fn watched<const N: usize>(servers: [&NetworkServer; N], speaks: bool, work: impl FnOnce([DeviceNews; N])) {
    let over = [(); N].map(|()| Arc::new(Notify::new()));
    let (tells, told): (Vec<_>, Vec<_>) = servers.iter().map(|_| channel()).unzip();
    std::thread::scope(|scope| {
        for (number, (server, tell)) in servers.into_iter().zip(tells).enumerate() {
            let over = Arc::clone(&over[number]);
            let watch = async move |network| {
                let node = format!("node-{number}").parse().unwrap();
                let voice = Voice { node, seed: [number as u8; 32], speaks };
                let server = Server::default();
                let mut ports = Ports::open(&network, Arc::clone(server.listener()), voice);
                loop {
                    tokio::select! {
                        news = ports.changed() => {
                            assert_eq!(news.warnings, Vec::<String>::new());
                            for device in news.devices {
                                let _ = tell.send((Instant::now(), device));
                            }
                        }
                        () = over.notified() => return,
                    }
                }
            };
            scope.spawn(move || server.inside(watch));
        }
        let told: Vec<DeviceNews> =
            told.into_iter().map(|news| DeviceNews { news, devices: BTreeMap::new() }).collect();
        // Also where the test has failed: nobody waits for the watchers then.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            work(told.try_into().unwrap_or_else(|_| panic!("one of each")));
        }));
        over.iter().for_each(|over| over.notify_one());
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
    });
}

fn bridge(server: &NetworkServer, name: &str, ports: &[&str]) {
    server.ovs(&format!("add-br {name} -- set bridge {name} datapath_type=netdev"));
    for port in ports {
        server.ovs(&format!("add-port {name} {port}"));
        server.ip(&format!("link set {port} up"));
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn cable_ends_hear_each_other_and_report_a_cut_at_once() {
    let (one, two) = (NetworkServer::with_ovs(), NetworkServer::with_ovs());
    for cable in ["a", "b"] {
        one.plug(&format!("{cable}1"), &two, &format!("{cable}2"));
    }
    bridge(&one, "br0", &["a1", "b1"]);
    bridge(&two, "br0", &["a2", "b2"]);
    watched([&one, &two], true, |[mut at_one, mut at_two]| {
        // Each hears the other end of its own cable, and nothing else.
        for (here, there) in [("a1", "a2"), ("b1", "b2")] {
            at_one.port_is(here, "sends", |port| port.up && port.beacon.is_some());
            at_two.port_is(there, "sends", |port| port.up && port.beacon.is_some());
            let (of_one, of_two) = (at_one.beacon(here), at_two.beacon(there));
            at_one.port_is(here, "hears the other end", |port| port.heard == [of_two]);
            at_two.port_is(there, "hears the other end", |port| port.heard == [of_one]);
        }
        let own = at_one.port("br0");
        assert_eq!(
            (own.beacon, &own.heard[..]),
            (None, &[][..]),
            "nothing is sent on a port without a cable"
        );

        let (mut here, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..10 {
            let (server, cut) = if round % 2 == 0 { (&two, "a2") } else { (&one, "a1") };
            let begun = Instant::now();
            server.ip(&format!("link set {cut} down"));
            let at_a1 = at_one.port_is("a1", "is down", |port| !port.up && port.heard.is_empty()) - begun;
            let at_a2 = at_two.port_is("a2", "is down", |port| !port.up && port.heard.is_empty()) - begun;
            let (own, other) = if cut == "a1" { (at_a1, at_a2) } else { (at_a2, at_a1) };
            here.push(own);
            there.push(other);
            assert!(at_one.port("b1").up && at_one.port("b1").heard.len() == 1);
            let begun = Instant::now();
            server.ip(&format!("link set {cut} up"));
            let (of_one, of_two) = (at_one.beacon("a1"), at_two.beacon("a2"));
            let at_a1 = at_one.port_is("a1", "hears again", |port| port.up && port.heard == [of_two]);
            let at_a2 = at_two.port_is("a2", "hears again", |port| port.up && port.heard == [of_one]);
            back.push(at_a1.max(at_a2) - begun);
        }
        // With the time that `ip` takes to start. Of carriers the kernel tells once a second at most, and is asked.
        println!("'ip link set down' to told at that end: median {:?} of {here:?}", median(&here));
        println!("… at the other end: median {:?} of {there:?}", median(&there));
        println!("'ip link set up' to heard at both ends: median {:?} of {back:?}", median(&back));
        assert!(here.iter().all(|time| *time < GOOD), "{here:?}");
    });
}

#[test]
fn a_cable_that_dies_silently_is_found_and_one_that_heals() {
    let (one, two) = (NetworkServer::with_ovs(), NetworkServer::with_ovs());
    one.plug("a1", &two, "a2");
    bridge(&one, "br0", &["a1"]);
    bridge(&two, "br0", &["a2"]);
    watched([&one, &two], true, |[mut at_one, mut at_two]| {
        at_one.port_is("a1", "hears", |port| port.heard.len() == 1);
        at_two.port_is("a2", "hears", |port| port.heard.len() == 1);
        // One way only: the carrier stays, and the other way stays.
        two.run("nft add table netdev silent");
        two.run("nft add chain netdev silent out { type filter hook egress device a2 priority 0 ; }");
        let begun = Instant::now();
        two.run("nft add rule netdev silent out ether type 0x88cc drop");
        let at = at_one.port_is("a1", "is silent", |port| port.heard.is_empty());
        assert!(at_one.port("a1").up, "the carrier is there");
        println!("from the last frame that passes to told: {:?}", at - begun);
        two.run("nft delete table netdev silent");
        at_one.port_is("a1", "hears again", |port| port.heard.len() == 1);
        assert_eq!(at_two.port("a2").heard.len(), 1, "it has heard all the time");
        assert!(at_two.news.try_recv().is_err());
    });
}

#[test]
fn bridges_and_ports_come_and_go_and_a_loop_is_heard() {
    let server = NetworkServer::with_ovs();
    server.plug("l1", &server, "l2");
    watched([&server], true, |[mut told]| {
        bridge(&server, "br0", &["l1"]);
        bridge(&server, "br1", &["l2"]);
        told.port_is("l2", "sends", |port| port.beacon.is_some());
        told.port_is("l1", "sends", |port| port.beacon.is_some());
        let (first, second) = (told.beacon("l1"), told.beacon("l2"));
        assert_ne!(first, second);
        told.port_is("l1", "hears the other bridge", |port| port.heard == [second]);
        told.port_is("l2", "hears the other bridge", |port| port.heard == [first]);

        server.ovs("del-port br1 l2 -- add-port br0 l2");
        told.until("l2 is another bridge's", |devices| {
            devices["br0"].ports.iter().any(|port| &*port.name == "l2")
                && devices["br1"].ports.iter().all(|port| &*port.name != "l2")
        });
        assert_ne!(told.beacon("l2"), second, "it is another port");
        let moved = told.beacon("l2");
        told.port_is("l1", "hears it as such", |port| port.heard == [moved]);

        server.ovs("add-port br1 p1 -- set interface p1 type=patch options:peer=p0");
        server.ovs("add-port br0 p0 -- set interface p0 type=patch options:peer=p1");
        told.port_is("p0", "is up", |port| port.up && port.beacon.is_none());
        server.ip("link del l1");
        told.port_is("l1", "is gone", |port| !port.up && port.beacon.is_none());
        server.ovs("del-br br1");
        told.until("br1 is gone", |devices| !devices.contains_key("br1"));
        server.ovs("del-br br0");
        told.until("br0 is gone", BTreeMap::is_empty);

        server.plug("m1", &server, "m2");
        bridge(&server, "br0", &["m1"]);
        told.port_is("m1", "sends", |port| port.beacon.is_some() && !port.up);
    });
}

#[test]
fn who_is_not_to_send_hears_all_the_same() {
    let (one, two) = (NetworkServer::with_ovs(), NetworkServer::with_ovs());
    one.plug("a1", &two, "a2");
    bridge(&one, "br0", &["a1"]);
    bridge(&two, "br0", &["a2"]);
    watched([&one], false, |[mut quiet]| {
        quiet.port_is("a1", "is up", |port| port.up);
        watched([&two], true, |[mut loud]| {
            loud.port_is("a2", "sends", |port| port.up && port.beacon.is_some());
            let beacon = loud.beacon("a2");
            quiet.port_is("a1", "hears", |port| port.heard == [beacon]);
            assert_eq!(quiet.port("a1").beacon, None);
            assert_eq!(loud.port("a2").heard, []);
        });
    });
}
