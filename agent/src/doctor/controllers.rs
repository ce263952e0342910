//! The addresses of the site's controllers, or of the brokers in between: each name, each number behind it, the
//! certificate that is shown there, and packets of full size.
//!
//! One address that works is enough for the agent: then faults of the others are warnings.
//!
//! Absent: the look itself (`agent/link/src/probe_controller.rs`).

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use muster_agent_link::Identity;
use muster_agent_link::probe_controller::{Distrust, FullSize, Reached, look};
use muster_shared::finding::{Finding, Severity};
use muster_shared::join::Address;
use tokio::net::lookup_host;
use tokio::time::timeout;

const NAME: &str = "name";
const CONTROLLER: &str = "controller";
const MTU: &str = "mtu";
/// A resolver that does not answer is asked again for longer than that.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);
/// The numbers of one name that are looked at.
const NUMBERS_MAX: usize = 8;

/// The facts of one address.
#[derive(Clone, Debug)]
struct Facts {
    address: String,
    /// The address is a number, and needs no resolver.
    is_number: bool,
    /// By number, or why there is none.
    looks: Result<Vec<(SocketAddr, Reached)>, String>,
}

/// The peer behind the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Controller,
    Broker,
}

impl Peer {
    fn word(self) -> &'static str {
        match self {
            Peer::Controller => "controller",
            Peer::Broker => "broker",
        }
    }
}

/// Looks at all addresses at a time. `first` are those of the settings.
pub async fn check(identity: Option<&Identity>, first: &[Address]) -> Vec<Finding> {
    let Some(identity) = identity else { return Vec::new() };
    let identity = identity.clone().with_addresses(first);
    let peer = if identity.broker.is_some() { Peer::Broker } else { Peer::Controller };
    let facts = join_all(identity.addresses.iter().map(|address| look_at(&identity, address))).await;
    findings(&facts, peer, identity.site.as_str())
}

async fn look_at(identity: &Identity, address: &Address) -> Facts {
    let resolved = match timeout(RESOLVE_WITHIN, lookup_host((address.host(), address.port()))).await {
        Ok(Ok(numbers)) => Ok(numbers.take(NUMBERS_MAX).collect::<Vec<_>>()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", RESOLVE_WITHIN.as_secs())),
    };
    let trust = identity.trust();
    let looks = match resolved {
        Ok(numbers) => {
            let look = async |number| (number, look(&trust, address, number).await);
            Ok(join_all(numbers.into_iter().map(look)).await)
        }
        Err(why) => Err(why),
    };
    let is_number = address.host().parse::<std::net::IpAddr>().is_ok();
    Facts { address: address.to_string(), is_number, looks }
}

fn findings(facts: &[Facts], peer: Peer, site: &str) -> Vec<Finding> {
    if facts.is_empty() {
        let found = format!("this node knows no address of its {}", peer.word());
        return vec![Finding::error(CONTROLLER, found, "set agent.controllers in /etc/muster/agent.toml")];
    }
    let all: Vec<Vec<Finding>> = facts.iter().map(|facts| of_address(facts, peer, site)).collect();
    let works = |findings: &Vec<Finding>| findings.iter().all(|finding| finding.state < Severity::Error);
    let one_works = all.iter().any(works);
    let milder = |finding: Finding| if one_works { finding.at_most_warning() } else { finding };
    all.into_iter().flatten().map(milder).collect()
}

fn of_address(facts: &Facts, peer: Peer, site: &str) -> Vec<Finding> {
    let Facts { address, is_number, looks } = facts;
    let looks = match looks {
        Ok(looks) if !looks.is_empty() => looks,
        Ok(_) => return vec![unresolved(address, "it has no address")],
        Err(why) => return vec![unresolved(address, why)],
    };
    let mut findings = Vec::new();
    if !is_number {
        let numbers: Vec<String> = looks.iter().map(|(number, _)| number.ip().to_string()).collect();
        findings.push(Finding::ok(NAME, format!("{address} resolves to {}", numbers.join(", "))));
    }
    let is_reached = looks.iter().any(|(_, reached)| matches!(reached, Reached::Trusted { .. }));
    for (number, reached) in looks {
        let at = if *is_number { address.clone() } else { format!("{address} ({})", number.ip()) };
        let finding = connection(&at, *number, reached, peer, site);
        findings.push(if is_reached { finding.at_most_warning() } else { finding });
        if let Reached::Trusted { full_size, .. } = reached {
            findings.push(mtu(&at, *number, full_size));
        }
    }
    findings
}

fn unresolved(address: &str, why: &str) -> Finding {
    Finding::error(
        NAME,
        format!("{address} does not resolve: {why}"),
        "look at /etc/resolv.conf and /etc/hosts ('getent hosts NAME'), or set agent.controllers in \
         /etc/muster/agent.toml to an address that is right",
    )
}

fn connection(at: &str, number: SocketAddr, reached: &Reached, peer: Peer, site: &str) -> Finding {
    let (word, port) = (peer.word(), number.port());
    match reached {
        Reached::Nothing { why } => Finding::error(
            CONTROLLER,
            format!("there is no connection to {at}: {why}"),
            format!(
                "look whether the {word} runs and listens there, and whether a firewall or a route is in the way: \
                 'ip route get {}', TCP port {port}",
                number.ip()
            ),
        ),
        Reached::Tcp { why } => Finding::error(
            CONTROLLER,
            format!("{at} takes connections and does not speak TLS 1.3: {why}"),
            format!("look what listens there: on its machine 'ss -ltnp sport = :{port}'"),
        ),
        Reached::Untrusted { distrust, shown } => untrusted(at, distrust, shown, peer, site),
        Reached::Trusted { shown, .. } => {
            Finding::ok(CONTROLLER, format!("{at} shows the certificate of {}", quoted(shown)))
        }
    }
}

fn untrusted(at: &str, distrust: &Distrust, shown: &[String], peer: Peer, site: &str) -> Finding {
    let names = quoted(shown);
    match distrust {
        Distrust::OtherIssuer => {
            let whose = match peer {
                Peer::Controller => format!("this server belongs to site {site}, with another CA"),
                Peer::Broker => "another CA is trusted for brokers here".to_owned(),
            };
            Finding::error(
                CONTROLLER,
                format!("{at} shows the certificate of {names}: {whose}"),
                format!(
                    "correct the address if another {} listens there; else join again: 'muster-agent join --token -'",
                    peer.word()
                ),
            )
        }
        Distrust::Clock(clocks) => {
            Finding::error(CONTROLLER, format!("{at}: {clocks}"), "chronyc makestep, or timedatectl")
        }
        Distrust::OtherName => Finding::error(
            CONTROLLER,
            format!("{at} shows a certificate of {names} that has not this name"),
            "give the broker a certificate with its name: docs/brokers.md",
        ),
        Distrust::Other(why) => Finding::error(
            CONTROLLER,
            format!("{at} shows the certificate of {names}, which is refused: {why}"),
            "look at it: 'openssl s_client -connect HOST:PORT'",
        ),
    }
}

fn mtu(at: &str, number: SocketAddr, full_size: &FullSize) -> Finding {
    match full_size {
        FullSize::Arrives(bytes) => {
            Finding::ok(MTU, format!("packets with {bytes} bytes of TCP arrive at {at}"))
        }
        FullSize::TooLarge(_) => Finding::ok(MTU, format!("{at} takes packets of any size that is used")),
        FullSize::Lost(bytes) => Finding::error(
            MTU,
            format!(
                "small packets arrive at {at}, and packets with {bytes} bytes of TCP are lost on the way"
            ),
            format!(
                "lower the MTU of the link ('ip route get {}' names it) to that of the path, or let ICMP's 'fragmentation \
                 needed' pass",
                number.ip()
            ),
        ),
        FullSize::Unknown(why) => Finding::warning(
            MTU,
            format!("whether packets of full size arrive at {at} is not known: {why}"),
            "run this command again",
        ),
    }
}

/// Names on certificates: others chose them.
fn quoted(names: &[String]) -> String {
    match names {
        [] => "nobody that could be read".to_owned(),
        names => names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" of "),
    }
}

#[cfg(test)]
mod tests;
