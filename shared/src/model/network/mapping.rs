//! The nic mapping: alias → interface name or MAC address.
//!
//! Absent: `nic1` and so on without a mapping (`agent/host/src/net/nics.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{LinkName, MAX_OBJECTS, NetworkError};
use crate::mac;

/// `nicN` or another alias → interface name or MAC address, as in os-net-config's mapping file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicMapping(BTreeMap<String, String>);

impl NicMapping {
    /// Makes a mapping from alias → name or MAC address.
    pub fn new(entries: BTreeMap<String, String>) -> Result<Self, NetworkError> {
        if entries.len() > MAX_OBJECTS {
            return Err(NetworkError::invalid("mapping", format!("more than {MAX_OBJECTS} entries")));
        }
        for (alias, nic) in &entries {
            let checked = LinkName::new(alias).and_then(|_| match normal_mac(nic) {
                Some(_) => Ok(()),
                None => LinkName::new(nic).map(|_| ()),
            });
            checked.map_err(|problem| NetworkError::invalid("mapping", problem))?;
        }
        Ok(Self(entries))
    }

    /// Parses a mapping file's content, with or without `interface_mapping`.
    pub fn parse(mapping: &Value) -> Result<Self, NetworkError> {
        let invalid = |problem: &str| NetworkError::invalid("mapping", problem);
        let map = mapping.get("interface_mapping").unwrap_or(mapping);
        let map =
            map.as_object().ok_or_else(|| invalid("a map of alias to interface name or MAC address"))?;
        let entries = map.iter().map(|(alias, nic)| match nic.as_str() {
            Some(nic) => Ok((alias.clone(), nic.to_owned())),
            None => Err(invalid(&format!("{alias}: an interface name or MAC address"))),
        });
        Self::new(entries.collect::<Result<_, _>>()?)
    }

    /// Alias → name, given the host's links and their MAC addresses (lower case, with colons). An entry whose
    /// interface is absent is left out, as in os-net-config: only its use is an error.
    pub fn resolve(
        &self,
        links: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, LinkName>, NetworkError> {
        let mut names = BTreeMap::new();
        let mut taken: BTreeMap<LinkName, &str> = BTreeMap::new();
        for (alias, nic) in &self.0 {
            let Some(name) = find(nic, links, alias)? else { continue };
            if links.contains_key(alias) && *alias != name.as_str() {
                let problem = format!("the alias {alias} is itself an interface of this host");
                return Err(NetworkError::invalid("mapping", problem));
            }
            if let Some(first) = taken.insert(name.clone(), alias) {
                let problem = format!("{first} and {alias} both stand for {name}");
                return Err(NetworkError::invalid("mapping", problem));
            }
            names.insert(alias.clone(), name);
        }
        Ok(names)
    }
}

fn find(nic: &str, links: &BTreeMap<String, String>, alias: &str) -> Result<Option<LinkName>, NetworkError> {
    let name = match normal_mac(nic) {
        None => links.contains_key(nic).then_some(nic),
        Some(mac) => {
            let mut with_it = links.iter().filter(|(_, of_link)| **of_link == mac).map(|(name, _)| name);
            let first = with_it.next();
            if let (Some(first), Some(second)) = (first, with_it.next()) {
                let problem =
                    format!("{alias}: {first} and {second} both have the address {mac}; name one of them");
                return Err(NetworkError::invalid("mapping", problem));
            }
            first.map(String::as_str)
        }
    };
    name.map(|name| LinkName::new(name).map_err(|problem| NetworkError::invalid("mapping", problem)))
        .transpose()
}

/// A MAC address in lower case with colons; none if the text is not a MAC address.
fn normal_mac(text: &str) -> Option<String> {
    mac::parse_written(text).map(|octets| mac::text(&octets))
}
