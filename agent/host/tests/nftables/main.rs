//! The nftables device on the real nft, in network namespaces. Needs root and nftables.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "these are tests, also outside of their functions; they share the bed of the network's"
)]

#[path = "../network/bed.rs"]
mod bed;
mod refused;
mod rules;
mod table;

use bed::Bed;
use muster_host::nftables::Nftables;
use muster_shared::model::flow::{DeviceName, Entry, FlowId};
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
fn with_filter<T: Send>(bed: &Bed, work: impl AsyncFnOnce(&mut Nftables) -> T + Send) -> T {
    bed.inside(async |_| {
        let mut filter = Nftables::open(&device()).unwrap();
        work(&mut filter).await
    })
}

/// `nft` in the namespace; it must work.
fn nft(bed: &Bed, words: &str) -> String {
    bed.exec(&format!("nft {words}"))
}

/// Our table as an operator sees it; nothing if it is not there.
fn shown(bed: &Bed) -> String {
    if nft(bed, "list tables").contains("inet muster") {
        nft(bed, "list table inet muster")
    } else {
        String::new()
    }
}
