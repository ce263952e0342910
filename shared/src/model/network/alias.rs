//! Aliases such as `br-ex:0`: further addresses and routes of an interface that the document has under its own name.
//!
//! Absent: the kernel's label of an alias. Addresses are the interface's, and `ip address` shows them there.

use serde_json::Value;

use super::parse::Parsed;
use super::support;
use super::{LinkName, NetworkError, Object, all};

/// The name of the interface, and the alias as an object of that name; nothing for any other object.
pub(super) fn split(path: &str, value: &Value) -> Parsed<Option<(LinkName, Value)>> {
    let name = value["name"].as_str().and_then(|name| name.split_once(':'));
    let (Some((of, label)), Some("interface")) = (name, value["type"].as_str()) else { return Ok(None) };
    let path_of = |option: &str| format!("{path}.{option}");
    let name = LinkName::new(of).map_err(|problem| NetworkError::invalid(&path_of("name"), problem))?;
    if label.is_empty() || !label.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let problem = format!("an alias of {name} has letters or digits behind the colon");
        return Err(NetworkError::invalid(&path_of("name"), problem));
    }
    let Value::Object(map) = value else { return Ok(None) };
    let is_its_interfaces = |(option, value): &(&String, &Value)| {
        let is_applied = matches!(support::of_option("interface", option), support::Support::Applied);
        let is_taken = matches!(
            option.as_str(),
            "type" | "name" | "addresses" | "routes" | "rules" | "dns_servers" | "domain"
        );
        is_applied && !is_taken && !support::is_empty(value) && **value != Value::Bool(false)
    };
    if let Some((option, _)) = map.iter().find(is_its_interfaces) {
        return Err(NetworkError::unsupported(
            &path_of(option),
            format!("'{option}' of an alias"),
            &format!("say it at {name}; addresses, routes, rules, dns_servers and domain are taken here"),
        ));
    }
    let mut map = map.clone();
    map.insert("name".to_owned(), Value::from(name.as_str()));
    Ok(Some((name, Value::Object(map))))
}

/// Gives what an alias has to its interface.
pub(super) fn merge(of: &LinkName, alias: Object, objects: &mut [Object]) -> Parsed<()> {
    let Some(link) = find(of, objects).filter(|link| !link.is_port_only()) else {
        let problem = format!("an alias of {of}, which this document does not have: add {of} itself");
        return Err(NetworkError::invalid(&format!("{}.name", alias.path), problem));
    };
    for (index, address) in alias.addresses.iter().enumerate() {
        if link.addresses.iter().any(|there| there.addr() == address.addr()) {
            let path = format!("{}.addresses[{index}]", alias.path);
            let problem = format!("{} is an address of {of} already", address.addr());
            return Err(NetworkError::invalid(&path, problem));
        }
    }
    link.addresses.extend(alias.addresses);
    link.routes.extend(alias.routes);
    link.rules.extend(alias.rules);
    link.dns_servers.extend(alias.dns_servers);
    link.domains.extend(alias.domains);
    Ok(())
}

fn find<'a>(name: &LinkName, objects: &'a mut [Object]) -> Option<&'a mut Object> {
    for object in objects {
        if object.name == *name {
            return Some(object);
        }
        if all(object.members()).any(|member| member.name == *name) {
            return find(name, object.members_mut());
        }
    }
    None
}
