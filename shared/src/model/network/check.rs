//! Checks across objects: members of one bridge, and a document's settings in Open vSwitch.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::ovs::{self, OvsTable, OvsValue};
use super::parse::Parsed;
use super::support;
use super::value::{quoted, text};
use super::{LinkName, NetworkError, Object, ObjectKind, all};

pub(super) fn settings(
    path: &str,
    kind: &str,
    name: &LinkName,
    map: &Map<String, Value>,
) -> Parsed<Vec<super::OvsSetting>> {
    let given = |option: &str| map.get(option).filter(|value| !support::is_empty(value));
    let mut settings = Vec::new();
    if let Some(mode) = given("ovs_fail_mode") {
        let word = serde_json::json!(format!("fail_mode={}", text(&format!("{path}.ovs_fail_mode"), mode)?));
        settings.extend(ovs::options(
            &format!("{path}.ovs_fail_mode"),
            OvsTable::Bridge,
            name.as_str(),
            &word,
        )?);
    }
    if let Some(options) = given("ovs_options") {
        let path = format!("{path}.ovs_options");
        settings.extend(match (kind, options) {
            ("ovs_tunnel" | "ovs_patch_port", Value::Array(items)) => {
                ovs::option_list(&path, name.as_str(), items)?
            }
            ("ovs_bridge", _) => ovs::options(&path, OvsTable::Bridge, name.as_str(), options)?,
            _ => ovs::options(&path, OvsTable::Port, name.as_str(), options)?,
        });
    }
    if let Some(extra) = given("ovs_extra") {
        settings.extend(ovs::extra(&format!("{path}.ovs_extra"), name.as_str(), extra)?);
    }
    let places: BTreeMap<_, _> =
        settings.iter().enumerate().map(|(index, setting)| (setting.place.clone(), index)).collect();
    // The last value counts, as with ovs-vsctl.
    let last: BTreeSet<usize> = places.into_values().collect();
    let settings = settings.into_iter().enumerate().filter(|(index, _)| last.contains(index));
    Ok(settings.map(|(_, setting)| setting).collect())
}

/// Moves the tag of a port from the settings to the port: of the object itself, or of a member that its bridge names.
/// A bridge's own port has its tag as a setting, wherever in the bridge it is said.
pub(super) fn take_tags(object: &mut Object) -> Parsed<()> {
    let is_tag = |setting: &super::OvsSetting| setting.place.column == "tag";
    let (tags, others) = std::mem::take(&mut object.settings).into_iter().partition(is_tag);
    object.settings = others;
    for setting in tags {
        let tag = vlan_of(&setting)?;
        let record = setting.place.record.as_str();
        let is_bridge = matches!(object.kind, ObjectKind::OvsBridge { .. });
        if record == object.name.as_str() && !is_bridge {
            give_tag(object, tag, &setting)?;
            continue;
        }
        let ObjectKind::OvsBridge { members } = &mut object.kind else {
            object.settings.push(setting);
            continue;
        };
        match members.iter_mut().find(|member| member.name.as_str() == record) {
            Some(member) => give_tag(member, tag, &setting)?,
            None => object.settings.push(setting),
        }
    }
    Ok(())
}

fn vlan_of(setting: &super::OvsSetting) -> Parsed<u16> {
    let tag = match setting.value {
        OvsValue::Number(tag) => u16::try_from(tag).ok().filter(|tag| (1..=4_094).contains(tag)),
        OvsValue::Text(_) | OvsValue::Bool(_) | OvsValue::Texts(_) | OvsValue::Numbers(_) => None,
    };
    tag.ok_or_else(|| NetworkError::invalid(&setting.path, "tag: 1 to 4094 is taken"))
}

fn give_tag(port: &mut Object, tag: u16, setting: &super::OvsSetting) -> Parsed<()> {
    let its_own = if let ObjectKind::Vlan { id, .. } = port.kind { Some(id) } else { port.tag };
    if let Some(other) = its_own.filter(|other| *other != tag) {
        let problem = format!("the VLAN of {} is {other}, not {tag}", port.name);
        return Err(NetworkError::invalid(&setting.path, problem));
    }
    port.tag = Some(tag);
    Ok(())
}

pub(super) fn check_primary(bridge: &LinkName, members: &[Object]) -> Parsed<()> {
    let is_primary = |member: &&Object| matches!(member.kind, ObjectKind::Interface { primary: true });
    match members.iter().filter(is_primary).nth(1) {
        None => Ok(()),
        Some(second) => {
            let problem = format!("{bridge} has a primary interface already; one is taken");
            Err(NetworkError::invalid(&format!("{}.primary", second.path), problem))
        }
    }
}

/// The bridge itself carries its VLANs, so a `device` may only name the bridge.
pub(super) fn check_devices(bridge: &LinkName, members: &[Object]) -> Parsed<()> {
    for member in members {
        if let ObjectKind::Vlan { device: Some(device), .. } = &member.kind
            && device != bridge
            && !members.iter().any(|other| other.name == *device && other.name != member.name)
        {
            let problem = format!("{device} is neither {bridge} nor a member of it");
            return Err(NetworkError::invalid(&format!("{}.device", member.path), problem));
        }
    }
    Ok(())
}

/// A VLAN may be on another VLAN, but not on itself.
pub(super) fn check_carriers(objects: &[Object]) -> Parsed<()> {
    let vlans = all(objects).filter_map(|object| {
        let ObjectKind::Vlan { device, .. } = &object.kind else { return None };
        Some((&object.name, device.clone()?))
    });
    let devices: BTreeMap<&LinkName, LinkName> = vlans.collect();
    for object in all(objects) {
        let under = std::iter::successors(devices.get(&object.name), |name| devices.get(name));
        if under.take(devices.len()).any(|name| *name == object.name) {
            let problem = format!("{} would stand on itself", object.name);
            return Err(NetworkError::invalid(&format!("{}.device", object.path), problem));
        }
    }
    Ok(())
}

/// A setting may only concern an object that the document itself puts into Open vSwitch.
pub(super) fn check_settings(objects: &[Object]) -> Parsed<()> {
    let bridges: Vec<&Object> =
        all(objects).filter(|object| matches!(object.kind, ObjectKind::OvsBridge { .. })).collect();
    let mut ports: BTreeSet<&str> = BTreeSet::new();
    let mut interfaces: BTreeSet<&str> = BTreeSet::new();
    for bridge in &bridges {
        ports.insert(bridge.name.as_str());
        for member in bridge.members() {
            ports.insert(member.name.as_str());
            if let ObjectKind::OvsBond { members } = &member.kind {
                interfaces.extend(members.iter().map(|member| member.name.as_str()));
            }
        }
    }
    let patches = objects.iter().filter(|object| matches!(object.kind, ObjectKind::OvsPatch { .. }));
    ports.extend(patches.map(|object| object.name.as_str()));
    interfaces.extend(&ports);
    for setting in all(objects).flat_map(|object| &object.settings) {
        let record = setting.place.record.as_str();
        let found = match setting.place.table {
            OvsTable::Bridge => bridges.iter().any(|bridge| bridge.name.as_str() == record),
            OvsTable::Port => ports.contains(record),
            OvsTable::Interface => interfaces.contains(record),
        };
        if found
            && setting.place.column == "tag"
            && !bridges.iter().any(|bridge| bridge.name.as_str() == record)
        {
            let problem = format!("the tag of {record} is said at {record} itself, or at its bridge");
            return Err(NetworkError::invalid(&setting.path, problem));
        }
        if !found {
            let table = setting.place.table.as_str().to_ascii_lowercase();
            let problem = format!("{} is no {table} of Open vSwitch in this document", quoted(record));
            return Err(NetworkError::invalid(&setting.path, problem));
        }
    }
    Ok(())
}
