//! The addresses that join tokens carry: whether each resolves, and leads to this machine.
//!
//! A forwarding device in between is no fault: what leads elsewhere is a warning.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use muster_shared::finding::Finding;
use muster_shared::join::Address;
use nix::ifaddrs::getifaddrs;
use tokio::net::lookup_host;
use tokio::time::timeout;

const CHECK: &str = "addresses";
/// A resolver that does not answer is asked again for longer than that.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);
/// Addresses that are looked at; tokens carry as many.
const ADDRESSES_MAX: usize = 8;
const SETTING: &str = "controller.addresses in controller.toml";

/// `listen` is the address for agents.
pub async fn check(addresses: &[String], listen: SocketAddr) -> Vec<Finding> {
    let own = own_addresses();
    let checked = addresses.iter().take(ADDRESSES_MAX).map(async |text| {
        let address = match text.parse::<Address>() {
            Ok(address) => address,
            Err(error) => return Finding::error(CHECK, error.to_string(), format!("correct {SETTING}")),
        };
        let resolved = timeout(RESOLVE_WITHIN, lookup_host((address.host(), address.port()))).await;
        let numbers = match resolved {
            Ok(Ok(numbers)) => Ok(numbers.map(|number| number.ip()).collect()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", RESOLVE_WITHIN.as_secs())),
        };
        finding(&address, numbers, listen, &own)
    });
    join_all(checked).await
}

/// The addresses of all interfaces.
fn own_addresses() -> BTreeSet<IpAddr> {
    let all = getifaddrs().into_iter().flatten().filter_map(|interface| interface.address);
    let ip = |address: nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
    };
    all.filter_map(ip).collect()
}

fn finding(
    address: &Address,
    numbers: Result<BTreeSet<IpAddr>, String>,
    listen: SocketAddr,
    own: &BTreeSet<IpAddr>,
) -> Finding {
    let unresolved = |why: &str| {
        Finding::error(
            CHECK,
            format!("join tokens carry {address}, which does not resolve here: {why}"),
            format!(
                "look at /etc/hosts and the resolver ('getent hosts {}'), or correct {SETTING}",
                address.host()
            ),
        )
    };
    let numbers = match numbers {
        Ok(numbers) if numbers.is_empty() => return unresolved("it has no address"),
        Ok(numbers) => numbers,
        Err(why) => return unresolved(&why),
    };
    let shown = numbers.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    let is_number = address.host().parse::<IpAddr>().is_ok();
    let listens_on_loopback = listen.ip().is_loopback();
    let is_loopback = numbers.iter().all(|number| number.is_loopback());
    if is_loopback && is_number && !listens_on_loopback {
        let found = format!("join tokens carry {address}, which each server takes for itself");
        return Finding::error(CHECK, found, format!("set {SETTING} to an address that servers reach"));
    }
    // The name of a host is often on loopback in its own /etc/hosts; servers ask a resolver.
    let is_here = |number: &IpAddr| number.is_loopback() || own.contains(number);
    if !numbers.iter().any(is_here) {
        let found = format!("join tokens carry {address}, and no interface of this machine has {shown}");
        let remedy = format!(
            "leave it if something forwards connections from there to this machine; else correct {SETTING}"
        );
        return Finding::warning(CHECK, found, remedy);
    }
    let is_listened_on = |number: &IpAddr| match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => number.is_ipv4(),
        any if any.is_unspecified() => true,
        one => *number == one || number.is_loopback() && !is_number,
    };
    if address.port() != listen.port() || !numbers.iter().any(is_listened_on) {
        let found = format!("join tokens carry {address}, and the controller listens at {listen}");
        let remedy = format!(
            "leave it if something forwards connections; else correct {SETTING}, or controller.listen"
        );
        return Finding::warning(CHECK, found, remedy);
    }
    let resolves = if is_number { String::new() } else { format!(", which is {shown} here") };
    Finding::ok(CHECK, format!("join tokens carry {address}{resolves}"))
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok as Well, Warning};

    use super::*;

    #[test]
    fn an_address_leads_to_this_machine_or_not() {
        let own: BTreeSet<IpAddr> =
            ["127.0.0.1", "10.0.0.1", "fd00::1"].map(|own| own.parse().unwrap()).into();
        let any = "0.0.0.0:8883";
        for (address, numbers, listen, state) in [
            ("c1:8883", Ok("10.0.0.1"), any, Well),
            ("c1:8883", Ok("127.0.1.1"), any, Well),
            ("10.0.0.1:8883", Ok("10.0.0.1"), any, Well),
            ("10.0.0.1:8883", Ok("10.0.0.1"), "10.0.0.1:8883", Well),
            ("[fd00::1]:8883", Ok("fd00::1"), "[::]:8883", Well),
            ("127.0.0.1:8883", Ok("127.0.0.1"), "127.0.0.1:8883", Well),
            ("127.0.0.1:8883", Ok("127.0.0.1"), any, Error),
            ("c1:8883", Err("no such name"), any, Error),
            ("c1:8883", Ok(""), any, Error),
            ("c1:8883", Ok("10.0.0.9"), any, Warning),
            ("c1:8884", Ok("10.0.0.1"), any, Warning),
            ("c1:8883", Ok("10.0.0.1"), "127.0.0.1:8883", Warning),
            ("[fd00::1]:8883", Ok("fd00::1"), any, Warning),
        ] {
            let numbers = numbers.map_err(str::to_owned);
            let numbers = numbers.map(|all| all.split_whitespace().map(|one| one.parse().unwrap()).collect());
            let listen = listen.parse().unwrap();
            let finding = finding(&address.parse().unwrap(), numbers, listen, &own);
            assert_eq!(finding.state, state, "{address}: {finding:?}");
            assert!(finding.found.contains(address), "{finding:?}");
        }
        assert!(own_addresses().contains(&IpAddr::from([127, 0, 0, 1])));
    }
}
