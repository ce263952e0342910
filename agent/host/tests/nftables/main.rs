//! The nftables device on the real nft, in network namespaces. Needs root and nftables.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

mod refused;
mod rules;
mod table;

use muster_host::nftables::Nftables;
use muster_shared::model::flow::{DeviceName, Entry, FlowId};
use muster_testbed::Namespace;
use serde_json::{Value, json};

/// The device of all of these tests.
fn device() -> DeviceName {
    "web-1/nftables".parse().unwrap()
}

/// A rule as an operator writes it.
fn rule(value: Value) -> Entry {
    let entry = Entry::from_json(&value);
    entry.unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// A rule for each of `count` addresses, of one shape.
fn many(count: u32) -> Vec<Entry> {
    let address = |n: u32| std::net::Ipv4Addr::from(0x0a00_0001 + n).to_string();
    let one = |n| json!({"priority": 100, "selector": {"eth_type": 0x800, "ipv4_src": address(n)}, "treatment": []});
    (0..count).map(|n| rule(one(n))).collect()
}

fn id(entry: &Entry) -> FlowId {
    entry.id(&device())
}

/// Runs `work` with the packet filter of the namespace.
fn with_filter<T: Send>(server: &Namespace, work: impl AsyncFnOnce(&mut Nftables) -> T + Send) -> T {
    server.inside(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut filter = Nftables::open(&device()).unwrap();
            work(&mut filter).await
        })
    })
}

/// `nft` in the namespace; it must work.
fn nft(server: &Namespace, words: &str) -> String {
    server.run(&format!("nft {words}"))
}

/// Our table as an operator sees it; nothing if it is not there.
fn shown(server: &Namespace) -> String {
    if nft(server, "list tables").contains("inet muster") {
        nft(server, "list table inet muster")
    } else {
        String::new()
    }
}
