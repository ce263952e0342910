//! Whether a bridge may carry the path to the controller.
//!
//! The answer is no only where that is evident: the path uses the loopback, or links of which none can be a
//! port of Open vSwitch. The packet filter always carries the path. In doubt the answer is yes, which costs a
//! new connection for each guarded batch.
//!
//! Absent: the same question for a switch that is to wait for its tables. `carries` in
//! `agent/host/src/net/switch.rs` answers it, and looks at Open vSwitch's database as well.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use muster_shared::join::Address;
use muster_shared::model::flow::Bridge;
use nix::ifaddrs::getifaddrs;

/// Links below a link: a VLAN on a bond on two cards is three deep.
const LINKS_MAX: usize = 64;

/// See the module's head.
pub fn may_carry(bridge: &Bridge, controllers: &[Address]) -> bool {
    // A rule that drops incoming packets cuts any node off.
    bridge.is_nftables()
        || controllers.iter().any(|address| match address.to_string().parse::<SocketAddr>() {
            Ok(controller) => may_carry_to(bridge, controller),
            // A name: its address is not known without a query.
            Err(_) => true,
        })
}

fn may_carry_to(bridge: &Bridge, controller: SocketAddr) -> bool {
    let Some(source) = source(controller) else { return true };
    if source.is_loopback() {
        return false;
    }
    let Some(link) = link_with(source) else { return true };
    let mut links = vec![link];
    let mut at = 0;
    while let Some(link) = links.get(at).cloned() {
        if link == bridge.as_str() || may_be_a_port(&link) || links.len() > LINKS_MAX {
            return true;
        }
        links.extend(below(&link));
        at += 1;
    }
    false
}

/// The address that packets to the controller carry. Nothing is sent.
pub fn source(controller: SocketAddr) -> Option<IpAddr> {
    let any = if controller.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(controller).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The link that has an address.
pub fn link_with(address: IpAddr) -> Option<String> {
    let is_it = |given: &nix::sys::socket::SockaddrStorage| match address {
        IpAddr::V4(address) => given.as_sockaddr_in().is_some_and(|it| it.ip() == address),
        IpAddr::V6(address) => given.as_sockaddr_in6().is_some_and(|it| it.ip() == address),
    };
    let mut addresses = getifaddrs().ok()?;
    addresses.find(|it| it.address.as_ref().is_some_and(is_it)).map(|it| it.interface_name)
}

fn sysfs(link: &str) -> PathBuf {
    PathBuf::from("/sys/class/net").join(link)
}

/// Whether the link is a port of Open vSwitch, or might be one.
fn may_be_a_port(link: &str) -> bool {
    let path = sysfs(link);
    let is_enslaved = fs::read_link(path.join("master")).is_ok_and(|to| to.ends_with("ovs-system"));
    let is_tap = path.join("tun_flags").exists();
    let number = |name: &str| fs::read_to_string(path.join(name)).ok();
    let is_pair = number("iflink").is_some() && number("iflink") != number("ifindex");
    let is_known = path.join("device").exists() || is_pair || !below(link).is_empty();
    is_enslaved || is_tap || !is_known
}

fn below(link: &str) -> Vec<String> {
    let entries = fs::read_dir(sysfs(link)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("lower_").map(str::to_owned)).collect()
}
