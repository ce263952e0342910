//! `dns_servers` and `domain`: the resolver's settings, gathered over the whole document.
//!
//! Absent: whether the resolver's file may be changed (`agent/host/src/net/plan/resolver.rs`).

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::error::clip;
use super::value::{list, quoted, text};
use super::{NetworkError, Object};

/// glibc's MAXNS: glibc silently ignores further servers.
pub const MAX_DNS_SERVERS: usize = 3;
/// The most search domains of one document. Each is queried for each short name, so more than a few are
/// a mistake.
const MAX_DOMAINS: usize = 32;
/// The limit of RFC 1035.
const MAX_DOMAIN_BYTES: usize = 253;

/// A document's settings for the resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dns {
    /// Servers in the document's order, at most [`MAX_DNS_SERVERS`].
    pub servers: Vec<IpAddr>,
    /// Search domains, in the document's order.
    pub domains: Vec<String>,
    /// The path of the first setting.
    pub path: String,
}

type Parsed<T> = Result<T, NetworkError>;

/// `dns_servers` of one object.
pub(super) fn servers(path: &str, map: &Map<String, Value>) -> Parsed<Vec<IpAddr>> {
    let path = format!("{path}.dns_servers");
    let server = |(index, value): (usize, &Value)| {
        let path = format!("{path}[{index}]");
        let written = text(&path, value)?;
        let address: Option<IpAddr> =
            written.parse().ok().filter(|it: &IpAddr| !it.is_unspecified() && !it.is_multicast());
        address.ok_or_else(|| {
            NetworkError::invalid(&path, format!("{} is no server's IP address", quoted(written)))
        })
    };
    match map.get("dns_servers") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(value) => list(&path, value)?.iter().enumerate().map(server).collect(),
    }
}

/// `domain` of one object: a single one, or a list.
pub(super) fn domains(path: &str, map: &Map<String, Value>) -> Parsed<Vec<String>> {
    let path = format!("{path}.domain");
    match map.get("domain") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) if one.is_empty() => Ok(Vec::new()),
        Some(one @ Value::String(_)) => Ok(vec![domain(&path, one)?]),
        Some(value) => {
            let domain = |(index, value): (usize, &Value)| domain(&format!("{path}[{index}]"), value);
            list(&path, value)?.iter().enumerate().map(domain).collect()
        }
    }
}

fn domain(path: &str, value: &Value) -> Parsed<String> {
    let name = text(path, value)?;
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    match name.len() <= MAX_DOMAIN_BYTES && name.trim_end_matches('.').split('.').all(label) {
        true => Ok(name.to_owned()),
        false => Err(NetworkError::invalid(path, format!("'{}' is no domain name", clip(name)))),
    }
}

/// The settings of all objects; `None` if there are none.
pub(super) fn gather<'a>(objects: impl Iterator<Item = &'a Object>) -> Parsed<Option<Dns>> {
    let mut dns = Dns::default();
    for object in objects {
        let new_server = |server: &&IpAddr, dns: &Dns| !dns.servers.contains(server);
        for server in &object.dns_servers {
            if new_server(&server, &dns) {
                dns.servers.push(*server);
            }
        }
        if dns.servers.len() > MAX_DNS_SERVERS {
            let problem = format!(
                "with {} the document has more than {MAX_DNS_SERVERS} name servers, and glibc asks no more",
                dns.servers[MAX_DNS_SERVERS]
            );
            return Err(NetworkError::invalid(&format!("{}.dns_servers", object.path), problem));
        }
        for domain in &object.domains {
            if !dns.domains.contains(domain) {
                dns.domains.push(domain.clone());
            }
        }
        if dns.domains.len() > MAX_DOMAINS {
            let problem = format!("the document has more than {MAX_DOMAINS} search domains");
            return Err(NetworkError::invalid(&format!("{}.domain", object.path), problem));
        }
        if dns.path.is_empty() && !(dns.servers.is_empty() && dns.domains.is_empty()) {
            let option = if dns.servers.is_empty() { "domain" } else { "dns_servers" };
            dns.path = format!("{}.{option}", object.path);
        }
    }
    Ok(Some(dns).filter(|dns| !dns.path.is_empty()))
}
