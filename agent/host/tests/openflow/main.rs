//! Flow tables of a real Open vSwitch. Needs root.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "these are tests, also outside of their functions; they share the server of the network's tests"
)]

mod foreign;
mod numbered;
mod odd_switch;
mod random;
mod rules;
#[path = "../network/server.rs"]
mod server;
mod table;

use std::path::Path;

use muster_host::openflow::Switch;
use muster_shared::model::flow::DeviceName;
use server::NetworkServer;

/// The device of all of these tests.
fn device() -> DeviceName {
    "web-1/br0".parse().unwrap()
}

/// A bridge `br0` with three ports and no rule.
fn bridge() -> NetworkServer {
    let server = NetworkServer::with_ovs();
    server.ovs("add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure");
    for port in ["p1", "p2", "p3"] {
        server.ovs(&format!("add-port br0 {port} -- set interface {port} type=internal"));
    }
    server
}

/// `ovs-ofctl` on the bridge; it must work.
fn ofctl(server: &NetworkServer, command: &str, rest: &str) -> String {
    let socket = server.rundir().join("br0.mgmt");
    let words = ["-O", "OpenFlow14", "--no-names", command, socket.to_str().unwrap(), rest];
    let words = words.iter().filter(|word| !word.is_empty());
    let output = std::process::Command::new("ovs-ofctl").args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `work` with a connection to the bridge.
fn with_switch<T>(server: &NetworkServer, work: impl AsyncFnOnce(&mut Switch) -> T) -> T {
    with_switch_in(server.rundir(), work)
}

fn with_switch_in<T>(rundir: &Path, work: impl AsyncFnOnce(&mut Switch) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut switch = Switch::connect(rundir, &device()).await.unwrap();
        work(&mut switch).await
    })
}
