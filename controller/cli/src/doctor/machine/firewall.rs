//! Whether this machine's packet filter refuses those who connect to the controller, or the controller's answers.
//!
//! Needs root, and changes nothing: the rules are read. Addresses of loopback are left out.
//!
//! Absent: what rules mean (`shared/src/finding/firewall.rs`).

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use muster_api::site::AgentCounts;
use muster_shared::finding::Finding;
use muster_shared::finding::firewall::{Hook, Interface, Listing, Loaded, Packet, Verdict, unlisted};
use nix::unistd::geteuid;

use super::program::ask;

const CHECK: &str = "firewall";
/// The directories of distributions.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

/// An address where the controller listens.
#[derive(Clone, Debug)]
pub struct Door {
    /// The clients that connect there, such as "agents".
    pub who: &'static str,
    pub address: SocketAddr,
    /// Agents come here, so that those that are online tell whether it is open.
    pub is_for_agents: bool,
}

/// `agents` is what the controller says of them, if it answers.
pub async fn check(doors: &[Door], agents: Option<AgentCounts>) -> Vec<Finding> {
    let doors: Vec<_> = doors.iter().filter(|door| !door.address.ip().is_loopback()).collect();
    if doors.is_empty() || !geteuid().is_root() {
        return Vec::new();
    }
    let asked = async |program: &'static str, arguments: Vec<String>| {
        let path =
            DIRECTORIES.iter().map(|place| Path::new(place).join(program)).find(|path| path.is_file())?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ask(&path, &arguments).await
    };
    let loaded = Loaded::find(|path| Path::new(path).exists(), |path| fs::read_to_string(path).ok());
    let Some(listing) = Listing::read(loaded, asked).await else {
        return vec![unlisted(CHECK)];
    };
    doors.into_iter().map(|door| finding(door, &worst(&listing, door.address), agents)).collect()
}

/// The worst fate of a connection's first packet, and of what answers it. `::` takes both versions of IP; most use IPv4.
fn worst(listing: &Listing, address: SocketAddr) -> Verdict {
    let is_any = address.ip().is_unspecified();
    let packet = Packet {
        hook: Hook::Input,
        interface: Interface::OfNetwork,
        is_v6: address.is_ipv6() && !is_any,
        source: None,
        destination: (!is_any).then_some(address.ip()),
        source_port: None,
        destination_port: Some(address.port()),
        is_new: true,
    };
    let [there, back] = listing.both_ways(&packet);
    match (there, back) {
        (there @ Verdict::Refused { .. }, _) => there,
        (_, back @ Verdict::Refused { .. }) => back,
        (there @ Verdict::Depends { .. }, _) => there,
        (Verdict::Passes, back) => back,
    }
}

fn finding(door: &Door, verdict: &Verdict, agents: Option<AgentCounts>) -> Finding {
    let Door { who, address, is_for_agents } = door;
    let port = address.port();
    let agents = agents.filter(|_| *is_for_agents).unwrap_or_default();
    let here = agents.online + agents.maintenance + agents.conflict + agents.disk_full;
    match verdict {
        Verdict::Refused { rule, remedy } => {
            let finding = Finding::error(
                CHECK,
                format!("{rule} refuses {who} at TCP port {port} of this machine"),
                format!("{remedy}; then keep that in the firewall's own configuration"),
            );
            // Agents that are connected stay, or came over loopback.
            if here > 0 { finding.at_most_warning() } else { finding }
        }
        Verdict::Depends { rule } if *is_for_agents && here == 0 && agents.offline > 0 => Finding::warning(
            CHECK,
            format!(
                "no agent is online, and {rule} decides which {who} come through to TCP port {port} of this machine"
            ),
            "look at the rule: nft -a list ruleset, or iptables-save",
        ),
        Verdict::Depends { rule } => Finding::ok(
            CHECK,
            format!("{rule} decides which {who} come through to TCP port {port} of this machine"),
        ),
        Verdict::Passes => {
            Finding::ok(CHECK, format!("no rule on this machine refuses {who} at TCP port {port}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok, Warning};

    use super::*;

    #[test]
    fn what_rules_do_to_agents_and_users() {
        let agents = |online, offline| Some(AgentCounts { online, offline, ..AgentCounts::default() });
        let refused = Verdict::Refused { rule: "R".into(), remedy: "accept".into() };
        let depends = Verdict::Depends { rule: "R".into() };
        for (is_for_agents, verdict, agents, state) in [
            (true, &refused, agents(0, 2), Error),
            (true, &refused, agents(1, 2), Warning),
            (true, &refused, None, Error),
            (true, &depends, agents(0, 2), Warning),
            (true, &depends, agents(1, 2), Ok),
            (true, &depends, agents(0, 0), Ok),
            (true, &Verdict::Passes, agents(0, 2), Ok),
            (false, &refused, agents(1, 0), Error),
            (false, &depends, agents(0, 2), Ok),
        ] {
            let who = if is_for_agents { "agents" } else { "users" };
            let door = Door { who, address: "0.0.0.0:8883".parse().unwrap(), is_for_agents };
            let finding = finding(&door, verdict, agents);
            assert_eq!(finding.state, state, "{verdict:?}, {agents:?}");
            assert!(finding.found.contains("TCP port 8883"), "{finding:?}");
        }
    }
}
