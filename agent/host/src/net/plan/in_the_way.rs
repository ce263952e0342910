//! Obstacles: refuses a document that needs a change of objects that Muster must not change.
//!
//! Absent: links that ifupdown brings up (`net/network_managers.rs`).

use super::super::state::{Attach, Link, State};
use super::super::wanted::{LinkKind, LinkTarget, Target};
use super::PlanError;
use muster_shared::model::network::BondOptions;

/// Refuses to take a link out of a bridge or bond that others made.
pub(super) fn check_membership(
    name: &str,
    wanted: &LinkTarget,
    target: &Target,
    state: &State,
) -> Result<(), PlanError> {
    let refuse = |problem: String| Err(PlanError::new(&wanted.path, problem));
    if let Some((master_name, master)) = state.master(name) {
        // Ports of the kernel's datapath have "ovs-system" as master: the database tells their bridge.
        let stays = wanted.attach == Attach::Linux(master_name.to_owned());
        let ours = stays || target.links.contains_key(master_name);
        let may_leave = match master.kind.as_str() {
            "bridge" | "openvswitch" => true,
            "bond" => ours,
            _ => false,
        };
        if !may_leave {
            let kind = &master.kind;
            return refuse(format!(
                "{name} belongs to {master_name} ({kind}), which this version does not change; take it out first"
            ));
        }
    }
    let Some((bridge, port)) = state.ovs_port(name) else { return Ok(()) };
    if let Attach::OvsBond(_, bond) = state.attachment(name) {
        return match port.ours || target.ports.contains_key(&bond) {
            true => Ok(()),
            false => refuse(format!(
                "{name} belongs to a bond of {bridge} that something else made; take it out first"
            )),
        };
    }
    let internal = port.interfaces.get(name).is_some_and(|interface| interface.internal);
    let moves = !matches!(&wanted.attach, Attach::Ovs(to, _) if to == bridge);
    if internal && moves && !wanted.may_replace {
        return refuse(format!(
            "{name} is an internal port of {bridge} that something else made; delete it there first"
        ));
    }
    Ok(())
}

/// Whether Muster makes such links and so may delete this one: never hardware, nor a link with
/// another's mark.
pub(in super::super) fn is_made(name: &str, state: &State) -> bool {
    if let Some(bridge) = state.ovs_bridge(name) {
        return bridge.ours;
    }
    if let Some((_, port)) = state.ovs_port(name) {
        return port.ours;
    }
    state.links.get(name).is_some_and(is_made_link)
}

/// A link that netlink makes and deletes.
pub(in super::super) fn is_made_link(link: &Link) -> bool {
    matches!(link.kind.as_str(), "bridge" | "vlan" | "bond") || link.ours
}

/// The obstacle in the place of a link that must have another kind, in words.
pub(in super::super) fn conflict(name: &str, kind: &LinkKind, state: &State) -> Option<String> {
    let link = state.links.get(name);
    let bridge = state.ovs_bridge(name).is_some();
    let internal = state.ovs_port(name).is_some_and(|(_, port)| port.is_internal());
    let is_there =
        |what: String| Some(format!("{name} is there already as {what}; choose another name or delete it"));
    match (kind, link) {
        (LinkKind::Existing, _) => None,
        (LinkKind::OvsBridge { .. }, _) if bridge => None,
        (LinkKind::OvsInternal { .. }, _) if internal => None,
        (_, None) if !bridge && !internal => None,
        (_, _) if bridge => is_there("a bridge of Open vSwitch".to_owned()),
        (_, _) if internal => is_there("a port of Open vSwitch".to_owned()),
        (LinkKind::LinuxBridge, Some(link)) if link.kind == "bridge" => None,
        (LinkKind::Tap, Some(link)) if link.tap => None,
        (LinkKind::Bond(options), Some(link)) if link.kind == "bond" => {
            let fixed =
                |now: &BondOptions| now.differing(options).any(|(number, _)| BondOptions::is_fixed(number));
            match link.bond.as_ref().is_some_and(fixed) {
                false => None,
                true => is_there(format!("a bond with other options ({})", told(link))),
            }
        }
        (LinkKind::Vlan { device, id }, Some(link)) => match &link.vlan {
            Some(vlan) if vlan.device == *device && vlan.id == *id => None,
            Some(vlan) => is_there(format!("VLAN {} on {}", vlan.id, vlan.device)),
            None => is_there(kind_of(link)),
        },
        (_, Some(link)) => is_there(kind_of(link)),
        (_, None) => None,
    }
}

fn told(bond: &Link) -> String {
    bond.bond.as_ref().map(|now| now.of_its_mode().describe()).unwrap_or_default()
}

fn kind_of(link: &Link) -> String {
    match link.kind.as_str() {
        "" => "hardware".to_owned(),
        kind => format!("a link of kind {kind}"),
    }
}
