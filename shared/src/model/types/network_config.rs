//! `Muster::NetworkConfig`: a list of os-net-config objects, and a last resort if neither they nor
//! the state before them can be in force.
//!
//! The network model's parser reads the document. Here its errors get their place in the template.
//!
//! Absent: which objects are supported (`model/network/support.rs`), and how the agent applies them
//! (`agent/host/src/net.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ClaimKind, DesiredState, TemplateType, at_most, map_in_bounds};
use crate::model::network::{NetworkDocument, NetworkError, NicMapping, Problem};
use crate::model::spec::{Claim, Lane, OnDelete};
use crate::property::{
    CONFIRM_TIMEOUT, Property, PropertyError, PropertyType, RenderedProperties, Step, confirm_timeout,
    has_null, on_delete, text, unwanted,
};

/// Bytes of a document; a server with 4,000 VLANs needs about this much.
const DOCUMENT_MAX: usize = 224 * 1024;

/// A document in os-net-config's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkConfig {
    /// The list of os-net-config objects, as JSON text.
    pub document: String,
    /// `nicN` or another alias → interface name or MAC address.
    pub mapping: BTreeMap<String, String>,
    /// Seconds until an unconfirmed change is undone.
    pub confirm_timeout: u32,
    /// The state that a delete leaves.
    pub on_delete: OnDelete,
}

impl TemplateType for NetworkConfig {
    const NAME: &'static str = "Muster::NetworkConfig";
    const ABOUT: &'static str = "the network of a node, as a list of os-net-config objects";
    const PROPERTIES: &'static [Property] = &[
        Property::confirm_timeout(),
        Property::optional("fallback_config", check_fallback).is(
            PropertyType::List,
            "os-net-config objects for where neither these nor what was before can be had",
        ),
        Property::optional("mapping", |value| mapping(value).map(drop))
            .is(
                PropertyType::Map,
                "names such as nic1, with the interface or MAC address that each stands for",
            )
            .default("{}"),
        Property::required("network_config", check_document).is(PropertyType::List, "os-net-config objects"),
        Property::node(),
        Property::on_delete(),
    ];
    const ATTRIBUTES: &'static [(&'static str, &'static str)] = &[];

    fn read(given: &RenderedProperties<'_>) -> Result<Self, PropertyError> {
        let config = given.required("network_config", |value| document(value).map(|_| value.clone()))?;
        let fallback = given.get("fallback_config", |value| fallback(value, &config))?;
        Ok(NetworkConfig {
            document: fallback.unwrap_or(config).to_string(),
            mapping: given.get("mapping", mapping)?.unwrap_or_default(),
            confirm_timeout: given.get("confirm_timeout", confirm_timeout)?.unwrap_or(CONFIRM_TIMEOUT),
            on_delete: given.get("on_delete", on_delete)?.unwrap_or_default(),
        })
    }
}

impl DesiredState for NetworkConfig {
    fn type_name(&self) -> &'static str {
        Self::NAME
    }

    fn key(&self) -> Cow<'_, str> {
        let links = self.claims().into_iter().filter(|claim| claim.kind == ClaimKind::Link);
        links.map(|claim| claim.key).collect::<Vec<_>>().join(", ").into()
    }

    fn claims(&self) -> Vec<Claim> {
        let mut names = Vec::new();
        let mut has_dns = false;
        if let Ok(document) = serde_json::from_str::<Value>(&self.document) {
            collect_names(&document, &mut names, &mut has_dns);
        }
        let link =
            |name: String| Claim::new(ClaimKind::Link, self.mapping.get(&name).cloned().unwrap_or(name));
        let resolver = has_dns.then(|| Claim::new(ClaimKind::Resolver, "dns"));
        let mut claims: Vec<Claim> = names.into_iter().map(link).chain(resolver).collect();
        claims.sort();
        claims.dedup();
        claims
    }

    fn properties(&self) -> Value {
        let document = serde_json::from_str(&self.document);
        json!({
            "network_config": document.unwrap_or_else(|_| json!(self.document)),
            "mapping": self.mapping,
            "confirm_timeout": self.confirm_timeout,
            "on_delete": self.on_delete.as_str(),
        })
    }

    fn attribute(&self, _name: &str) -> Option<Value> {
        None
    }

    fn check_bounds(&self) -> Result<(), &'static str> {
        at_most("document", self.document.len(), DOCUMENT_MAX)?;
        map_in_bounds("mapping", &self.mapping)
    }

    fn needs_replacement(&self, _next: &Self) -> bool {
        false
    }

    fn lane(&self) -> Lane {
        Lane::Network
    }

    fn confirm_within(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.confirm_timeout.into()))
    }

    fn weight(&self) -> usize {
        self.document.len()
    }
}

/// Every object's `name`, members included, and whether there are DNS settings; a `vlan` without a name is
/// `vlan<ID>`, as os-net-config names it.
fn collect_names(value: &Value, names: &mut Vec<String>, has_dns: &mut bool) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names, has_dns)),
        Value::Object(object) => {
            *has_dns |= ["dns_servers", "domain"].iter().any(|option| object.contains_key(*option));
            match (object.get("name"), object.get("vlan_id")) {
                (Some(Value::String(name)), _) => names.push(name.clone()),
                (None, Some(id)) => names.push(format!("vlan{id}")),
                _ => {}
            }
            for key in ["members", "network_config", "fallback_config"] {
                if let Some(inner) = object.get(key) {
                    collect_names(inner, names, has_dns);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mapping(value: &Value) -> Result<BTreeMap<String, String>, PropertyError> {
    let Value::Object(map) = value else { return Err(unwanted("a map of aliases to interfaces", value)) };
    map.iter()
        .map(|(key, value)| Ok((key.clone(), nic(key, value).map_err(|error| error.within_key(key))?)))
        .collect()
}

fn nic(alias: &str, value: &Value) -> Result<String, PropertyError> {
    let nic = text(value)?;
    if !value.is_null() {
        NicMapping::new(BTreeMap::from([(alias.to_owned(), nic.clone())]))
            .map_err(|error| PropertyError::new(error.problem.to_string()))?;
    }
    Ok(nic)
}

/// Checks a document that may still have nulls in place of functions' values, as far as it is certain.
fn check_document(value: &Value) -> Result<(), PropertyError> {
    if has_null(value) { check_types(value) } else { document(value).map(drop) }
}

fn document(value: &Value) -> Result<NetworkDocument, PropertyError> {
    NetworkDocument::parse(value).map_err(|error| located(&error, "network_config"))
}

fn located(error: &NetworkError, section: &str) -> PropertyError {
    let path = error.path.strip_prefix(section).unwrap_or_default();
    PropertyError::new(error.problem.to_string()).within_path(path)
}

fn check_fallback(value: &Value) -> Result<(), PropertyError> {
    if has_null(value) { check_types(value) } else { fallback(value, &json!([])).map(drop) }
}

/// The document with both sections.
fn fallback(value: &Value, config: &Value) -> Result<Value, PropertyError> {
    let objects = match config.get("network_config") {
        None => config,
        Some(_) if config.get("fallback_config").is_some() => {
            return Err(PropertyError::new("network_config has this section already"));
        }
        Some(objects) => objects,
    };
    let whole = json!({"network_config": objects, "fallback_config": value});
    NetworkDocument::parse(&whole).map_err(|error| located(&error, "fallback_config"))?;
    Ok(whole)
}

fn check_types(value: &Value) -> Result<(), PropertyError> {
    let objects = match value {
        Value::Null => return Ok(()),
        Value::Array(objects) => objects,
        Value::Object(sections) if sections.contains_key("network_config") => {
            return check_types(&sections["network_config"])
                .map_err(|error| error.within_key("network_config"));
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err(unwanted("a list of os-net-config objects", value));
        }
    };
    for (i, object) in objects.iter().enumerate() {
        check_type(object).map_err(|error| error.within(Step::Item(i)))?;
    }
    Ok(())
}

fn check_type(value: &Value) -> Result<(), PropertyError> {
    if value.is_null() {
        return Ok(());
    }
    let Value::Object(map) = value else { return Err(unwanted("an os-net-config object", value)) };
    // For an object with only a type, the document's parser has an error about the type, or about missing
    // options.
    if let Some(kind) = map.get("type").filter(|kind| !kind.is_null())
        && let Err(error) = NetworkDocument::parse(&json!([{ "type": kind }]))
        && (error.path.ends_with(".type") || matches!(error.problem, Problem::Unknown { what: "type", .. }))
    {
        return Err(PropertyError::new(error.problem.to_string()).within_key("type"));
    }
    map.get("members")
        .map_or(Ok(()), |members| check_types(members).map_err(|error| error.within_key("members")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Spec;

    #[test]
    fn a_network_document_claims_its_links_and_the_resolver_it_sets() {
        let config = |document: &str| NetworkConfig {
            document: document.into(),
            mapping: BTreeMap::from([("nic1".to_owned(), "eth1".to_owned())]),
            confirm_timeout: 60,
            on_delete: OnDelete::Restore,
        };
        let claims = |document: &str| -> Vec<String> {
            Spec::Network(config(document)).claims().iter().map(Claim::to_string).collect()
        };
        assert_eq!(
            claims(r#"[{"type":"ovs_bridge","name":"br-ex","members":[{"name":"nic1"},{"vlan_id":20}]}]"#),
            ["link br-ex", "link eth1", "link vlan20"]
        );
        assert_eq!(
            claims(
                r#"{"network_config":[{"name":"eth0","dns_servers":["192.0.2.53"]}],"fallback_config":[{"name":"eth2"}]}"#
            ),
            ["link eth0", "link eth2", "resolver dns"]
        );
        assert_eq!(claims(r#"[{"name":"eth0","domain":"example.org"}]"#), ["link eth0", "resolver dns"]);
        assert!(claims("not JSON").is_empty());
    }
}
