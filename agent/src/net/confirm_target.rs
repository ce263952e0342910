//! The target that confirms a change without a controller: a gateway, a host, or a TCP port.
//!
//! A host is pinged with a packet of its link's MTU, so that an MTU too large for the path shows. Linux
//! forbids fragmentation of such packets. A TCP port is connected to.
//!
//! Absent: confirmation by the controller (`agent/core/src/jobs/confirm.rs`), and the target state of links
//! (`agent/host/src/net/wanted.rs`).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

use muster_host::net::{Network, State};
use muster_shared::model::network::MAIN_TABLE;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// The time limit of one answer; a bridge that has just come up may lose the first packets.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(300);
/// The IP and ICMP headers of a ping.
const HEADERS_V4: u32 = 20 + 8;
const HEADERS_V6: u32 = 40 + 8;
/// The largest ping: Ethernet's jumbo frames end about here.
const PING_MAX: u32 = 9000;
/// The MTU assumed for a link whose MTU is unknown.
const MTU_DEFAULT: u32 = 1500;

/// A target to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The next hop of the default route.
    Gateway,
    /// Answers pings.
    Host(String),
    /// Takes connections.
    Port(String, u16),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{}': want gateway, an address, a host name, or HOST:PORT", text.escape_default());
        if text == "gateway" {
            return Ok(Self::Gateway);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Host(address.to_string()));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_host = bare.parse::<IpAddr>().is_ok() || bare.chars().all(is_name);
        if bare.is_empty() || bare.len() > 253 || !is_host || port == Some(0) {
            return Err(wrong());
        }
        Ok(match port {
            Some(port) => Self::Port(bare.to_owned(), port),
            None => Self::Host(bare.to_owned()),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("the gateway"),
            Self::Host(host) => f.write_str(host),
            Self::Port(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl Target {
    /// Tries until the target is reached.
    ///
    /// # Errors
    /// The last observation, if the target was not reached by the deadline.
    pub async fn reach(&self, network: &Network, deadline: Instant) -> Result<(), String> {
        let mut seen = "no time was left".to_owned();
        loop {
            match timeout_at(deadline, self.reach_once(network)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => seen = error,
                Err(_) => return Err(seen),
            }
            if timeout_at(deadline, sleep(AGAIN)).await.is_err() {
                return Err(seen);
            }
        }
    }

    async fn reach_once(&self, network: &Network) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        match self {
            Self::Port(host, port) => {
                let connecting = TcpStream::connect((host.as_str(), *port));
                let connected = timeout(ANSWER_WITHIN, connecting).await;
                connected.map_err(|_| "no answer".to_owned())?.map(drop).map_err(text)
            }
            Self::Host(host) => {
                let mut found = lookup_host((host.as_str(), 0)).await.map_err(text)?;
                let address = found.next().ok_or("it has no address")?;
                let state = network.observe().await.map_err(|error| error.to_string())?;
                ping(address, mtu_towards(address, &state)).await
            }
            Self::Gateway => {
                let state = network.observe().await.map_err(|error| error.to_string())?;
                let (gateway, mtu) = gateway(&state).ok_or("there is no default route")?;
                ping(gateway, mtu).await
            }
        }
    }
}

/// The next hop of the default route that the kernel takes, IPv4's before IPv6's, and the MTU of its link.
fn gateway(state: &State) -> Option<(SocketAddr, u32)> {
    let defaults = state.links.values().filter(|link| link.up).flat_map(|link| {
        let is_default = |route: &&muster_host::net::state::Route| {
            route.destination.prefix_len() == 0 && route.table == MAIN_TABLE
        };
        link.routes.iter().filter(is_default).filter_map(move |route| {
            let gateway = route.gateway?;
            let scope = if is_link_local(gateway) { link.index } else { 0 };
            let address = match gateway {
                IpAddr::V4(address) => SocketAddr::from((address, 0)),
                IpAddr::V6(address) => std::net::SocketAddrV6::new(address, 0, 0, scope).into(),
            };
            Some(((gateway.is_ipv6(), route.metric), address, link.mtu))
        })
    });
    defaults.min_by_key(|(rank, ..)| *rank).map(|(_, address, mtu)| (address, mtu))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The MTU of the link with the source address that the kernel would use for the target.
fn mtu_towards(target: SocketAddr, state: &State) -> u32 {
    let any = if target.is_ipv4() { IpAddr::from([0; 4]) } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((target.ip(), 9))?;
        socket.local_addr()
    });
    let has = |ip: IpAddr| {
        state.links.values().find(|link| link.addresses.iter().any(|address| address.net.addr() == ip))
    };
    source.ok().and_then(|source| has(source.ip())).map_or(MTU_DEFAULT, |link| link.mtu)
}

/// An ICMP echo with a packet of this size, and its answer.
async fn ping(target: SocketAddr, mtu: u32) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let (domain, protocol, headers) = match target {
        SocketAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, HEADERS_V4),
        SocketAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, HEADERS_V6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.connect(&target.into()).map_err(failed)?;
    let socket = tokio::net::UdpSocket::from_std(socket.into()).map_err(failed)?;
    let id = u16::try_from(std::process::id() & 0xffff).unwrap_or_default();
    let size = mtu.clamp(headers, PING_MAX) - headers;
    let request = echo(target.is_ipv4(), id, size);
    socket.send(&request).await.map_err(failed)?;
    let wait = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = socket.recv(&mut buffer).await?;
            let packet = &buffer[..length];
            // A raw IPv4 socket gives the IP header as well.
            let header =
                if target.is_ipv4() { usize::from(packet.first().unwrap_or(&0) & 0xf) * 4 } else { 0 };
            if packet.get(header..).is_some_and(|icmp| is_answer(icmp, &request)) {
                return Ok(());
            }
        }
    };
    match timeout(ANSWER_WITHIN, wait).await {
        Ok(answered) => answered.map_err(failed),
        Err(_) => Err(format!("no answer to a ping of {mtu} bytes")),
    }
}

/// An ICMP echo request; the kernel itself computes ICMPv6's checksum.
fn echo(is_v4: bool, id: u16, size: u32) -> Vec<u8> {
    let mut packet = vec![if is_v4 { 8 } else { 128 }, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(1u16.to_be_bytes());
    packet.extend((0..size).map(|n| (n % 251) as u8));
    if is_v4 {
        let sum = checksum(&packet).to_be_bytes();
        packet[2..4].copy_from_slice(&sum);
    }
    packet
}

/// The answer has another type, hence another sum, and everything else is the same.
fn is_answer(answer: &[u8], request: &[u8]) -> bool {
    let wanted = if request.first() == Some(&8) { 0 } else { 129 };
    answer.first() == Some(&wanted) && answer.get(4..) == request.get(4..)
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum = words.fold(0u32, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    });
    !(u16::try_from(sum).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_may_name() {
        for (text, target) in [
            ("gateway", Target::Gateway),
            ("192.0.2.1", Target::Host("192.0.2.1".into())),
            ("fe80::1", Target::Host("fe80::1".into())),
            ("db-1.example.org", Target::Host("db-1.example.org".into())),
            ("db-1:5432", Target::Port("db-1".into(), 5432)),
            ("[2001:db8::1]:22", Target::Port("2001:db8::1".into(), 22)),
        ] {
            assert_eq!(text.parse(), Ok(target), "{text}");
        }
        for text in ["", ":22", "host:", "host:0", "host:99999", "a b", "-c\n"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_echo_sums_up_and_its_answer_is_known() {
        let request = echo(true, 7, 1472);
        assert_eq!((request.len(), checksum(&request)), (1480, 0));
        let mut answer = request.clone();
        answer[0] = 0;
        answer[2..4].copy_from_slice(&[1, 2]);
        assert!(is_answer(&answer, &request) && !is_answer(&request, &request));
        answer[9] ^= 1;
        assert!(!is_answer(&answer, &request));
    }
}
