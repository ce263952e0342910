//! `use_dhcp` and `use_dhcpv6`, and the options that go with them.
//!
//! Absent: which DHCP client leases the address (`agent/host/src/net/dhcp.rs`).

use serde_json::{Map, Value};

use super::NetworkError;
use super::parse::Parsed;
use super::value::{boolean, quoted, text};

/// The most words of `dhclient_args`: a server needs one or two.
const MAX_ARGUMENTS: usize = 32;

/// dhclient's options that a document may give, and whether a value follows. Options for files, for daemon
/// mode and for the served links are missing: Muster decides these.
const ARGUMENTS: [(&str, bool); 18] = [
    ("-B", false),
    ("-C", true),
    ("-D", true),
    ("-F", true),
    ("-H", true),
    ("-I", false),
    ("-R", true),
    ("-V", true),
    ("-g", true),
    ("-i", false),
    ("-q", false),
    ("-s", true),
    ("-timeout", true),
    ("-v", false),
    ("--address-prefix-len", true),
    ("--dad-wait-time", true),
    ("--decline-wait-time", true),
    ("--prefix-len-hint", true),
];

/// A link that leases its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp {
    /// `use_dhcp`
    pub v4: bool,
    /// `use_dhcpv6`
    pub v6: bool,
    /// `defroute`: the lease brings IPv4's default route.
    pub default_route: bool,
    /// `dhclient_args`, word by word.
    pub arguments: Vec<String>,
}

impl Dhcp {
    /// The option that asks for this family.
    pub fn option(v6: bool) -> &'static str {
        if v6 { "use_dhcpv6" } else { "use_dhcp" }
    }
}

/// The settings of an object; `inside` is the bridge or bond of which it is a member and which has
/// its addresses.
pub(super) fn dhcp(path: &str, map: &Map<String, Value>, inside: bool) -> Parsed<Option<Dhcp>> {
    let flag = |option: &str, default: bool| {
        map.get(option).map_or(Ok(default), |value| boolean(&format!("{path}.{option}"), value))
    };
    let (v4, v6) = (flag("use_dhcp", false)?, flag("use_dhcpv6", false)?);
    let default_route = flag("defroute", true)?;
    let written = map.get("dhclient_args").filter(|value| !value.is_null());
    let arguments = match written {
        None => Vec::new(),
        Some(value) => {
            let path = format!("{path}.dhclient_args");
            arguments(&path, text(&path, value)?)?
        }
    };
    if !v4 && !v6 {
        return Ok(None);
    }
    if inside {
        let path = format!("{path}.{}", Dhcp::option(!v4));
        let hint =
            "what belongs to a bridge or bond has no address of its own: give it to the bridge or bond";
        return Err(NetworkError::unsupported(&path, "a lease of a member", hint));
    }
    Ok(Some(Dhcp { v4, v6, default_route, arguments }))
}

fn arguments(path: &str, written: &str) -> Parsed<Vec<String>> {
    let mut words = written.split_ascii_whitespace();
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        let Some((_, has_value)) = ARGUMENTS.iter().find(|(known, _)| *known == word) else {
            let known: Vec<&str> = ARGUMENTS.iter().map(|(known, _)| *known).collect();
            let hint = format!("of dhclient's options {} are taken", known.join(", "));
            return Err(NetworkError::unsupported(path, quoted(word), &hint));
        };
        arguments.push(word.to_owned());
        if *has_value {
            let value = words.next().filter(|value| !value.starts_with('-'));
            let wanted = || NetworkError::invalid(path, format!("'{word}' wants a value"));
            arguments.push(value.ok_or_else(wanted)?.to_owned());
        }
        if arguments.len() > MAX_ARGUMENTS {
            return Err(NetworkError::invalid(path, format!("more than {MAX_ARGUMENTS} words")));
        }
    }
    Ok(arguments)
}
