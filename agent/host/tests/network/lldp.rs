//! Frames of LLDP on real cables: those that come in are heard, whatever the port belongs to.

use std::time::Duration;

use muster_host::facts::Server;
use muster_host::lldp::{Frame, GROUPS, Id};
use muster_host::net::Network;
use muster_host::sys::packet_socket;
use muster_shared::model::{LinkFacts, NeighbourFacts};
use tokio::time::timeout;

use crate::server::NetworkServer;

/// Far longer than anything takes.
const COMES: Duration = Duration::from_secs(20);

fn frame(name: &str, ttl: u16) -> Frame {
    Frame {
        chassis: Id { subtype: Id::MAC_OF_CHASSIS, octets: vec![2, 0, 0, 0, 0, 0x0a] },
        port: Id { subtype: Id::NAME_OF_PORT, octets: b"Ethernet7".to_vec() },
        ttl,
        port_description: None,
        system_name: Some(name.into()),
        system_description: Some("a switch of a test".into()),
        vlan: Some(100),
        management: vec!["10.0.0.254".parse().unwrap()],
        beacon: None,
    }
}

/// Sends a frame out of a link of this namespace.
async fn send(network: &Network, link: &str, bytes: &[u8]) {
    let links = network.link_facts().await.unwrap();
    let (index, _) = links.iter().find(|(_, facts)| facts.name == link).unwrap();
    let all = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let socket = packet_socket(*index, &[], &[all]).unwrap();
    assert_eq!(nix::unistd::write(&socket, bytes).unwrap(), bytes.len());
}

async fn facts(server: &Server, network: &Network, link: &str) -> LinkFacts {
    let (facts, warnings) = server.facts(network, "0").await.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    facts.links.into_iter().find(|facts| facts.name == link).unwrap()
}

/// The neighbours after the next change.
async fn changed(server: &Server, network: &Network) -> Vec<NeighbourFacts> {
    timeout(COMES, server.neighbours_changed()).await.expect("no neighbour came or went");
    facts(server, network, "eth0").await.neighbours
}

#[test]
fn a_switch_is_heard_on_a_port_of_anything() {
    for make in [
        &[][..],
        &["link add br0 type bridge", "link set eth0 master br0", "link set br0 up"],
        &["add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 eth0"],
    ] {
        let of_switch = make.first().is_some_and(|words| words.starts_with("add-br"));
        let (server, switch) =
            (if of_switch { NetworkServer::with_ovs() } else { NetworkServer::new() }, NetworkServer::new());
        server.plug("eth0", &switch, "e7");
        server.ip("link set eth0 up");
        switch.ip("link set e7 up");
        for words in make {
            drop(if of_switch { server.ovs(words) } else { server.ip(words) });
        }
        let switch_sends = |bytes: Vec<u8>| {
            switch.inside(async |network| send(&network, "e7", &bytes).await);
        };
        server.inside(async |network| {
            let host = Server::default();
            while !facts(&host, &network, "eth0").await.carrier {
                tokio::task::yield_now().await;
            }
            // Frames that are not a neighbour's: our own, one to another group, one of another kind, a broken one.
            send(&network, "eth0", &frame("ourselves", 120).write([2; 6])).await;
            let mut other = frame("to nobody", 120).write([2; 6]);
            other[5] = 0x77;
            switch_sends(other);
            let mut ip = frame("IPv4", 120).write([2; 6]);
            ip[12..14].copy_from_slice(&[8, 0]);
            switch_sends(ip);
            switch_sends(frame("broken", 120).write([2; 6])[..20].to_vec());

            switch_sends(frame("leaf-1", 120).write([2; 6]));
            let wanted = NeighbourFacts {
                chassis_id: "02:00:00:00:00:0a".into(),
                port_id: "Ethernet7".into(),
                port_description: None,
                system_name: Some("leaf-1".into()),
                system_description: Some("a switch of a test".into()),
                vlan: Some(100),
                management: vec!["10.0.0.254".parse().unwrap()],
            };
            assert_eq!(changed(&host, &network).await, [wanted], "{make:?}");

            // Good for long enough to be looked at.
            let mut again = frame("leaf-2", 4).write([2; 6]);
            again[..6].copy_from_slice(&GROUPS[2]);
            switch_sends(again);
            let renamed = changed(&host, &network).await;
            assert_eq!(renamed[0].system_name.as_deref(), Some("leaf-2"), "{make:?}");
            assert_eq!(changed(&host, &network).await, [], "its time is over");

            switch_sends(frame("leaf-1", 120).write([2; 6]));
            assert_eq!(changed(&host, &network).await.len(), 1);
            switch.ip("link set e7 down");
            while facts(&host, &network, "eth0").await.carrier {
                tokio::task::yield_now().await;
            }
            assert_eq!(facts(&host, &network, "eth0").await.neighbours, [], "nobody is on a dead cable");
            switch.ip("link set e7 up");
            while !facts(&host, &network, "eth0").await.carrier {
                tokio::task::yield_now().await;
            }
            switch_sends(frame("leaf-3", 120).write([2; 6]));
            assert_eq!(changed(&host, &network).await[0].system_name.as_deref(), Some("leaf-3"));
        });
    }
}
