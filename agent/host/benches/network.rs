//! Speed of network documents on a real Open vSwitch in a namespace: one line of JSON for each measurement. Needs root.
//!
//! `cargo bench -p muster-host --bench network`, or `tests/bench/all.sh network`.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "the server is shared with the tests, which need more of it"
)]

#[path = "../tests/network/server.rs"]
mod server;

use std::fmt::Write as _;
use std::time::Instant;

use muster_shared::model::network::{NetworkDocument, NicMapping};
use serde_json::{Value, json};
use server::NetworkServer;

const PORTS: usize = 200;
const ROUTES_OF_PORTS: usize = 2;
const MANY_ROUTES: usize = 10_000;

fn main() {
    // `cargo test --benches` only wants to know whether it starts.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    vlan_ports();
    snapshot();
}

fn document() -> NetworkDocument {
    let vlan = |index: usize| {
        let (id, net) = (index + 2, format!("10.{}.{}", index / 250 + 100, index % 250));
        let route = |number: usize| json!({"ip_netmask": format!("10.{}.{}.0/24", 10 + number, index), "next_hop": format!("{net}.254")});
        let routes: Vec<Value> = (0..ROUTES_OF_PORTS).map(route).collect();
        json!({"type": "vlan", "vlan_id": id, "addresses": [{"ip_netmask": format!("{net}.1/24")}], "routes": routes})
    };
    let mut members: Vec<Value> = (0..PORTS).map(vlan).collect();
    members.insert(0, json!({"type": "interface", "name": "eth1", "primary": true}));
    NetworkDocument::parse(&json!([{"type": "ovs_bridge", "name": "br-ex", "members": members}])).unwrap()
}

fn vlan_ports() {
    let (server, peer) = (NetworkServer::with_ovs(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    let (document, mapping) = (document(), NicMapping::default());
    server.inside(async |network| {
        let start = Instant::now();
        let before = network.snapshot(&document, &mapping, None).await.unwrap();
        let lines = network.plan_text(&document, &mapping, Some(before.clone())).await.unwrap().lines.len();
        let plan_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let undo = network.undo(&document, &mapping, &before).await.unwrap();
        network.apply(&document, &mapping, &before).await.unwrap();
        let apply_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        assert!(!network.apply(&document, &mapping, &before).await.unwrap().changed());
        let noop_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        network.restore(&undo).await.unwrap();
        let restore_s = start.elapsed().as_secs_f64();
        let line = json!({"bench": "network", "vlan_ports": PORTS, "routes": PORTS * ROUTES_OF_PORTS, "steps": lines,
            "plan_s": plan_s, "apply_s": apply_s, "noop_s": noop_s, "restore_s": restore_s, "rss_bytes": rss_bytes()});
        println!("{line}");
    });
}

fn snapshot() {
    let (server, peer) = (NetworkServer::new(), NetworkServer::new());
    server.plug("eth1", &peer, "p1");
    server.ip("link set eth1 up");
    server.ip("address add 192.0.2.10/24 dev eth1");
    let mut batch = String::new();
    for index in 0..MANY_ROUTES {
        let (high, low) = (index / 256, index % 256);
        writeln!(batch, "route add 10.{high}.{low}.0/24 via 192.0.2.1 src 192.0.2.10").unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), batch).unwrap();
    server.run(&format!("ip -batch {}", file.path().display()));
    let document =
        json!([{"type": "interface", "name": "eth1", "addresses": [{"ip_netmask": "192.0.2.11/24"}]}]);
    let (document, mapping) = (NetworkDocument::parse(&document).unwrap(), NicMapping::default());
    server.inside(async |network| {
        let before = network.snapshot(&document, &mapping, None).await.unwrap();
        let start = Instant::now();
        let undo = network.undo(&document, &mapping, &before).await.unwrap();
        let bytes = muster_host::packed::pack(&undo).unwrap().len();
        let snapshot_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        network.apply(&document, &mapping, &before).await.unwrap();
        let apply_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        network.restore(&undo).await.unwrap();
        let restore_s = start.elapsed().as_secs_f64();
        let line = json!({"bench": "network", "routes": MANY_ROUTES, "snapshot_s": snapshot_s, "snapshot_bytes": bytes,
            "remove_s": apply_s, "restore_s": restore_s, "rss_bytes": rss_bytes()});
        println!("{line}");
    });
}

/// The most this process has had.
fn rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1_024)
}
