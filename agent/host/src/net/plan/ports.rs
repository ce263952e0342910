//! Ports of Open vSwitch without a link of the kernel (bonds, tunnels, patches), and single settings in
//! its database.
//!
//! Obstacles to a link that is wanted elsewhere are removed first; the rest follows once its interfaces are
//! free. All steps up to the next wait are one transaction, so that the switch sees no intermediate state.

use super::super::snapshot::PortBefore;
use super::super::state::{Attach, OvsPort, State};
use super::super::step::Step;
use super::super::wanted::{LinkKind, Origin, PortTarget, Target, Wanted};
use super::{PlanError, Planner};

/// Refuses to replace the objects of others, and to remove an object of another type than the document says.
pub(super) fn check(target: &Target, state: &State) -> Result<(), PlanError> {
    for (name, wanted) in target.ports.iter().filter_map(|(name, port)| Some((name, port.as_ref()?))) {
        let Some(now) = port(name, state).filter(|now| !is_so(wanted, now)) else { continue };
        if !(now.port.ours || wanted.may_replace) {
            let problem = format!(
                "{name} is there already as another port of {}; choose another name or delete it",
                now.bridge
            );
            return Err(PlanError::new(&wanted.path, problem));
        }
    }
    for (name, (kind, path)) in &target.removed {
        let is = kind_of(name, state);
        let fits = is.is_empty()
            || is.contains(&kind.as_str())
            || (kind == "interface" && state.ovs_bridge(name).is_none());
        if !fits {
            let problem = format!("{name} is no {kind} but a {}; nothing was removed", is[0]);
            return Err(PlanError::new(path, problem));
        }
    }
    Ok(())
}

/// The types of the existing object, as `remove_type` names them; empty if there is none.
fn kind_of(name: &str, state: &State) -> &'static [&'static str] {
    if state.ovs_bridge(name).is_some() {
        return &["ovs_bridge"];
    }
    if let Some(now) = port(name, state) {
        let interface = now.port.interfaces.get(name);
        let kind = interface.and_then(|it| it.columns.get("type")).and_then(|kind| kind.as_str());
        return match kind {
            _ if now.port.interfaces.len() > 1 || interface.is_none() => &["ovs_bond"],
            Some("patch") => &["ovs_patch_port"],
            Some(_) => &["ovs_tunnel"],
            None if now.port.is_internal() => &["vlan"],
            None => &["interface"],
        };
    }
    match state.links.get(name) {
        None => &[],
        Some(link) => match link.kind.as_str() {
            "bridge" => &["linux_bridge"],
            "vlan" => &["vlan"],
            "bond" | "team" => &["linux_bond"],
            _ => &["interface"],
        },
    }
}

fn port(name: &str, state: &State) -> Option<PortBefore> {
    let (bridge, port) = state.ovs.as_ref()?.port(name)?;
    Some(PortBefore { bridge: bridge.to_owned(), port: port.clone() })
}

pub(in super::super) fn is_so(wanted: &PortTarget, now: &PortBefore) -> bool {
    wanted.bridge == now.bridge && wanted.row.same_interfaces(&now.port)
}

impl Planner<'_> {
    /// Ports that are wanted differently, or not at all, go: their interfaces are free then.
    pub(super) fn free_ports(&mut self) {
        for (name, wanted) in &self.target.ports {
            let Some(now) = port(name, &self.state) else { continue };
            let stays = match wanted {
                Some(wanted) => is_so(wanted, &now),
                None => !(now.port.ours || self.is_removed(name)),
            };
            if stays {
                continue;
            }
            self.steps.push(Step::RemoveOvsPort { bridge: now.bridge.clone(), port: name.clone() });
            if now.port.interfaces.keys().any(|link| !self.stays_in_switch(link)) {
                self.steps.push(Step::SyncOvs);
            }
            if let Some(ovs) = &mut self.state.ovs {
                ovs.forget_port(name);
            }
        }
    }

    /// Whether the document removes the object, whatever its origin.
    pub(super) fn is_removed(&self, name: &str) -> bool {
        self.target.removed.contains_key(name)
    }

    fn stays_in_switch(&self, link: &str) -> bool {
        match self.target.links.get(link) {
            Some(Wanted::Present(wanted)) => {
                matches!(wanted.attach, Attach::Ovs(..) | Attach::OvsBond(..))
            }
            Some(Wanted::Absent) => true,
            // From then on the interface is a link of its own, if the kernel knows it.
            None => !self.state.links.contains_key(link),
        }
    }

    pub(super) fn add_ports(&mut self) {
        for (name, wanted) in &self.target.ports {
            let Some(wanted) = wanted else { continue };
            match port(name, &self.state) {
                None => {
                    let row: Box<OvsPort> = Box::new(wanted.row.clone());
                    self.steps.push(Step::AddOvsPort {
                        bridge: wanted.bridge.clone(),
                        port: name.clone(),
                        row,
                    });
                }
                Some(now) if now.port.tag != wanted.row.tag => {
                    self.steps.push(Step::SetOvsTag { port: name.clone(), tag: wanted.row.tag });
                }
                Some(_) => {}
            }
        }
    }

    /// Sets settings that differ. A missing row that only has to be restored took its settings along.
    pub(super) fn set(&mut self) {
        for (place, (value, _)) in &self.target.settings {
            if self.state.setting(place) != *value {
                self.steps.push(Step::SetOvs { place: place.clone(), value: value.clone() });
            }
        }
    }

    pub(super) fn is_bond(&self, name: &str) -> bool {
        match self.target.links.get(name) {
            Some(Wanted::Present(wanted)) => matches!(wanted.kind, LinkKind::Bond(_)),
            _ => self.state.links.get(name).is_some_and(|link| link.kind == "bond"),
        }
    }

    /// Sets the member that a bond prefers, once the member is in the bond.
    pub(super) fn prefer(&mut self) {
        for (name, wanted) in self.target.present() {
            let LinkKind::Bond(options) = &wanted.kind else { continue };
            let now = self.state.links.get(name).and_then(|link| link.bond.as_ref()?.primary.as_ref());
            if now != options.primary.as_ref() && wanted.origin != Origin::Beside {
                let primary = options.primary.as_ref().map(ToString::to_string);
                self.steps.push(Step::SetPrimary { link: name.to_owned(), primary });
            }
        }
    }
}
