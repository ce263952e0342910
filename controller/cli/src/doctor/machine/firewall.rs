//! A packet filter that drops by default, where no agent comes through.
//!
//! Whether a rule lets the port through is not looked at: that no agent is online is what tells. Needs root, and
//! nftables in the kernel.

use std::path::Path;

use muster_api::site::AgentCounts;
use muster_shared::finding::Finding;
use nix::unistd::geteuid;
use serde_json::Value;

use super::program::ask;

const NFT: &str = "/usr/sbin/nft";
/// Present while the kernel has nftables; nft itself would load the module.
const MODULE: &str = "/sys/module/nf_tables";

pub async fn check(port: u16, agents: AgentCounts) -> Option<Finding> {
    if !geteuid().is_root() || !Path::new(MODULE).exists() {
        return None;
    }
    let chains = ask(Path::new(NFT), &["-j", "list", "chains"]).await?;
    finding(port, agents, &dropping(&serde_json::from_str(&chains).ok()?))
}

/// The chains that see what comes in for this machine and drop what no rule accepts.
fn dropping(listing: &Value) -> Vec<String> {
    let objects = listing["nftables"].as_array().into_iter().flatten();
    let chains = objects.filter_map(|object| object.get("chain"));
    let drops = chains.filter(|chain| chain["hook"] == "input" && chain["policy"] == "drop");
    let name = |chain: &Value| {
        let part = |key: &str| chain[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", part("family"), part("table"), part("name"))
    };
    drops.map(name).collect()
}

fn finding(port: u16, agents: AgentCounts, dropping: &[String]) -> Option<Finding> {
    const CHECK: &str = "firewall";
    let chain = dropping.first()?;
    let here = agents.online + agents.maintenance + agents.conflict + agents.disk_full;
    match (here, agents.offline) {
        (0, 0) => None,
        (0, _) => Some(Finding::warning(
            CHECK,
            format!("the chain {chain} drops what no rule accepts, and no agent is online"),
            format!("look whether a rule accepts TCP port {port}: nft list chain {chain}"),
        )),
        (_, _) => {
            Some(Finding::ok(CHECK, format!("the chain {chain} drops by default, and agents come through")))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Ok, Warning};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chain_that_drops_matters_where_no_agent_comes_through() {
        let chain = |name: &str, hook: &str, policy: &str| json!({"chain": {"family": "inet", "table": "filter", "name": name, "hook": hook, "policy": policy}});
        let listing = json!({"nftables": [{"metainfo": {}}, chain("a", "input", "accept"), chain("b", "output", "drop"),
            chain("c", "input", "drop"), {"chain": {"family": "inet", "table": "filter", "name": "d"}}]});
        let drops = dropping(&listing);
        assert_eq!(drops, ["inet filter c"]);
        let agents = |online, offline| AgentCounts { online, offline, ..AgentCounts::default() };
        for (agents, dropping, state) in [
            (agents(0, 2), &drops[..], Some(Warning)),
            (agents(1, 2), &drops, Some(Ok)),
            (agents(0, 0), &drops, None),
            (agents(0, 2), &[], None),
        ] {
            assert_eq!(finding(8883, agents, dropping).map(|finding| finding.state), state, "{agents:?}");
        }
        assert!(dropping(&json!({})).is_empty());
    }
}
