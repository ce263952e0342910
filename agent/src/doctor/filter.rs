//! nftables: only where this server has a flow table of it.

use muster_host::nftables::Nftables;
use muster_shared::NodeId;
use muster_shared::finding::Finding;
use muster_shared::model::flow::{Bridge, DeviceName, NFTABLES};

const CHECK: &str = "nftables";

/// `is_used`: the agent has a flow table of the packet filter.
pub async fn check(is_used: bool, node: Option<&NodeId>) -> Vec<Finding> {
    let (true, Some(node)) = (is_used, node) else { return Vec::new() };
    let Ok(bridge) = NFTABLES.parse::<Bridge>() else { return Vec::new() };
    // Finds nft and listens to the kernel for a moment; the table is not read.
    let opened = Nftables::open(&DeviceName { node: node.clone(), bridge });
    vec![finding(opened.map(drop).map_err(|error| error.to_string()))]
}

fn finding(opened: Result<(), String>) -> Finding {
    match opened {
        Ok(()) => Finding::ok(CHECK, "nft is installed, and the kernel has nftables"),
        Err(why) => Finding::error(CHECK, why, "apt install nftables (or dnf); modprobe nf_tables"),
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn what_cannot_be_opened_is_an_error() {
        assert_eq!(finding(Ok(())).state, Severity::Ok);
        let finding = finding(Err("nft is not installed".into()));
        assert!(finding.state == Severity::Error && finding.found.contains("not installed"), "{finding:?}");
    }
}
