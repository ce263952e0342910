//! Whether this server's own packet filter refuses packets to its controller, or the answers.
//!
//! An address that takes connections is not looked at further. Needs root, and changes nothing: the rules are read.
//!
//! Absent: what rules mean (`shared/src/finding/firewall.rs`).

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use muster_agent_link::Identity;
use muster_shared::finding::Finding;
use muster_shared::finding::firewall::{Hook, Interface, Listing, Loaded, Packet, Verdict, unlisted};
use muster_shared::join::Address;
use nix::unistd::geteuid;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, lookup_host};
use tokio::process::Command;
use tokio::time::timeout;

use crate::flows::management::{link_with, source};

const CHECK: &str = "firewall";
/// A name, and a connection of TCP.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// 10,000 rules take a second.
const LIST_WITHIN: Duration = Duration::from_secs(8);
/// The longest listing that is read; a longer one is as none.
const LISTING_MAX: u64 = 16 * 1024 * 1024;
/// The directories of distributions. The search path is not used: a user who can write there could run code as root.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];
/// Numbers of all addresses that are looked at.
const NUMBERS_MAX: usize = 16;

/// Looks at all addresses at a time. `first` are those of the settings.
pub async fn check(identity: Option<&Identity>, first: &[Address]) -> Vec<Finding> {
    let Some(identity) = identity.filter(|_| geteuid().is_root()) else { return Vec::new() };
    let identity = identity.clone().with_addresses(first);
    let resolved = join_all(identity.addresses.iter().map(async |address| {
        let numbers = timeout(CONNECT_WITHIN, lookup_host((address.host(), address.port()))).await;
        let numbers = numbers.ok().and_then(Result::ok).into_iter().flatten();
        numbers.map(|number| (address.to_string(), number)).collect::<Vec<_>>()
    }));
    let numbers: Vec<_> = resolved.await.into_iter().flatten().take(NUMBERS_MAX).collect();
    let silent = join_all(numbers.into_iter().map(async |(name, number)| {
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect(number)).await;
        (name, number, matches!(connected, Ok(Ok(_))))
    }));
    let (reached, silent): (Vec<_>, Vec<_>) =
        silent.await.into_iter().partition(|(_, _, connects)| *connects);
    if silent.is_empty() {
        let found = "connections to the controller pass this server's packet filter";
        return if reached.is_empty() { Vec::new() } else { vec![Finding::ok(CHECK, found)] };
    }
    let loaded = Loaded::find(|path| Path::new(path).exists(), |path| fs::read_to_string(path).ok());
    let Some(listing) = Listing::read(loaded, ask).await else {
        return vec![unlisted(CHECK)];
    };
    let judged = silent.into_iter().map(|(name, number, _)| {
        let packet = packet(number);
        let [there, back] = listing.both_ways(&packet);
        finding(&name, number, there, back)
    });
    match reached.is_empty() {
        true => judged.collect(),
        // One address that works is enough.
        false => judged.map(Finding::at_most_warning).collect(),
    }
}

/// The first packet of a connection to this number, by the route that it takes now.
fn packet(number: SocketAddr) -> Packet {
    let source = source(number);
    // Packets for this server itself go over loopback.
    let interface = match source {
        Some(own) if own == number.ip() => Some("lo".to_owned()),
        Some(own) => link_with(own),
        None => None,
    };
    Packet {
        hook: Hook::Output,
        interface: interface.map_or(Interface::OfNetwork, Interface::Name),
        is_v6: number.is_ipv6(),
        source,
        destination: Some(number.ip()),
        source_port: None,
        destination_port: Some(number.port()),
        is_new: true,
    }
}

/// The output of a program; none if it is missing, fails, says too much, or does not end.
async fn ask(program: &'static str, arguments: Vec<String>) -> Option<String> {
    let path = DIRECTORIES.iter().map(|place| Path::new(place).join(program)).find(|path| path.is_file())?;
    let mut command = Command::new(path);
    command.args(arguments).env_clear().env("LC_ALL", "C").kill_on_drop(true);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut stdout = child.stdout.take()?.take(LISTING_MAX);
    let mut text = String::new();
    let read = async {
        stdout.read_to_string(&mut text).await.ok()?;
        drop(stdout);
        child.wait().await.ok()
    };
    let status = timeout(LIST_WITHIN, read).await.ok()??;
    status.success().then_some(text)
}

fn finding(name: &str, number: SocketAddr, there: Verdict, back: Verdict) -> Finding {
    let at = if name == number.to_string() { name.to_owned() } else { format!("{name} ({})", number.ip()) };
    let kept = "; then keep that in the firewall's own configuration";
    match (there, back) {
        (Verdict::Refused { rule, remedy }, _) => Finding::error(
            CHECK,
            format!("{rule} refuses connections to {at} on this server"),
            format!("{remedy}{kept}"),
        ),
        (_, Verdict::Refused { rule, remedy }) => Finding::error(
            CHECK,
            format!("{rule} refuses what {at} answers on this server"),
            format!("{remedy}{kept}"),
        ),
        (Verdict::Depends { rule }, _) | (_, Verdict::Depends { rule }) => Finding::warning(
            CHECK,
            format!(
                "{rule} may refuse connections to {at} on this server: it asks for more than is known here"
            ),
            "look at the rule: nft -a list ruleset, or iptables-save",
        ),
        (Verdict::Passes, Verdict::Passes) => Finding::ok(
            CHECK,
            format!("no rule on this server refuses connections to {at}, though none comes about"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok, Warning};

    use super::*;

    #[test]
    fn the_worse_way_is_told() {
        let number = "10.0.0.1:8883".parse().unwrap();
        let depends = || Verdict::Depends { rule: "R".into() };
        let refused = |by: &str| Verdict::Refused { rule: by.into(), remedy: format!("accept {by}") };
        for (there, back, state, found) in [
            (Verdict::Passes, Verdict::Passes, Ok, "no rule"),
            (depends(), Verdict::Passes, Warning, "R may refuse connections to c:8883 (10.0.0.1)"),
            (Verdict::Passes, depends(), Warning, "R may"),
            (depends(), refused("B"), Error, "B refuses what c:8883 (10.0.0.1) answers"),
            (refused("A"), refused("B"), Error, "A refuses connections to c:8883"),
        ] {
            let finding = finding("c:8883", number, there, back);
            assert!(finding.state == state && finding.found.contains(found), "{finding:?}");
        }
        let finding = finding("10.0.0.1:8883", number, refused("A"), depends());
        assert_eq!(finding.found, "A refuses connections to 10.0.0.1:8883 on this server");
        assert_eq!(finding.remedy.unwrap(), "accept A; then keep that in the firewall's own configuration");
    }
}
