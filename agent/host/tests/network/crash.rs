//! A crash after any step: applying, or restoring, once more converges.

use serde_json::json;

use crate::server::NetworkServer;
use crate::{document, kept, no_mapping, settled};
use muster_host::net::{Snapshot, Target, plan};
use muster_shared::model::network::NetworkDocument;

#[test]
fn after_a_crash_at_any_step_both_ways_converge() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.plug("eth2", &peer, "p2");
    server.ip("link set eth1 up");
    server.ip("address add 192.0.2.1/24 dev eth1");
    server.ip("address add 192.0.2.3/24 dev eth1");
    server.ip("route add default via 192.0.2.254");
    let document = document(json!([
        {"type": "ovs_bridge", "name": "br-ex", "mtu": 1400, "addresses": [{"ip_netmask": "192.0.2.1/24"}],
         "routes": [{"default": true, "next_hop": "192.0.2.254"}],
         "members": [{"type": "interface", "name": "eth1", "primary": true}, {"type": "vlan", "vlan_id": 7}]},
        {"type": "linux_bridge", "name": "br1", "members": [{"type": "interface", "name": "eth2", "mtu": 1300}]},
    ]));
    server.inside(async |network| {
        let at_first = settled(network.observe().await.unwrap());
        let before = kept(network.snapshot(&document, &no_mapping(), None).await.unwrap());
        let steps_of = async |document: &NetworkDocument, before: &Snapshot| {
            let state = network.observe().await.unwrap();
            plan(&Target::new(document, before, &state, Some("netdev")), &state).unwrap()
        };
        let forth = steps_of(&document, &before).await;
        for crash in 0..=forth.len() {
            network.execute(&forth[..crash]).await.unwrap();
            network.apply(&document, &no_mapping(), &before).await.unwrap();
            assert_eq!(network.apply(&document, &no_mapping(), &before).await.unwrap().steps, []);

            let back = steps_of(&NetworkDocument::default(), &before).await;
            network.execute(&back[..crash.min(back.len())]).await.unwrap();
            network.restore(&before).await.unwrap();
            assert_eq!(settled(network.observe().await.unwrap()), at_first, "crash after step {crash}");
        }
        // A crash on the way forth, and the resource is deleted at once.
        for crash in 0..=forth.len() {
            network.execute(&forth[..crash]).await.unwrap();
            network.restore(&before).await.unwrap();
            assert_eq!(settled(network.observe().await.unwrap()), at_first, "deleted after step {crash}");
        }
    });
}
