//! Computes the exact steps from the present state to the target. Pure; execution has nothing left to decide.
//!
//! Order: bridges, then their members, then MTU, then up (lower links first) and down, then new addresses,
//! routes and rules, then old rules, routes and addresses, then the resolver, then removals. Exceptions,
//! where the kernel allows only one of two objects at a time, are explained where they are planned. A target
//! that is reached gives no step.
//!
//! Absent: in which order addresses, routes and rules change (`plan/addresses_and_routes.rs`), what is wanted
//! (`wanted.rs`), and what counts as drift (`verify.rs`).

mod addresses_and_routes;
mod in_the_way;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod os_net_config_tests;
mod ports;
pub(super) mod resolver;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::model::network::BondOptions;
use thiserror::Error;

use in_the_way::{check_membership, is_made_link};
pub(super) use in_the_way::{conflict, is_made};
pub(super) use ports::is_so;

use super::dhcp::Lease;
use super::ethtool::{Asked, is_asked, is_of_link};
use super::state::{Attach, Link, OvsPort, State};
use super::step::Step;
use super::wanted::{LinkKind, LinkTarget, Origin, Target, Wanted};

/// The reason why no steps lead to the desired state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct PlanError {
    /// The place in the document.
    pub path: String,
    /// The obstacle, and how to remove it.
    pub problem: String,
}

impl PlanError {
    fn new(path: &str, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into() }
    }
}

/// The steps from `state` to `target`; empty if it is reached.
pub fn plan(target: &Target, state: &State) -> Result<Vec<Step>, PlanError> {
    for (name, wanted) in target.present().filter(|(_, wanted)| wanted.origin == Origin::Document) {
        check_membership(name, wanted, target, state)?;
    }
    ports::check(target, state)?;
    let anew = state.with_what_they_carry(made_anew(target, state).map(|(name, _)| name));
    let mut planner = Planner { target, anew, state: without_layer3(state), steps: Vec::new() };
    planner.stop_dhcp(state);
    planner.make_room()?;
    planner.create();
    planner.free_ports();
    planner.attach();
    planner.sizes();
    planner.ethtool(state);
    planner.carriers_up();
    planner.up(true);
    planner.up(false);
    for (name, (id, _)) in
        target.tables.iter().filter(|(name, (id, _))| state.tables.get(*name) != id.as_ref())
    {
        planner.steps.push(Step::SetTable { name: name.clone(), id: *id });
    }
    let stays = |(name, _): &(&String, &Link)| planner.state.links.contains_key(*name);
    let links = state.links.iter().filter(stays).map(|(name, link)| (name.as_str(), link)).collect();
    addresses_and_routes::plan(target, &links, (&state.rules, &state.dhcp), &mut planner.steps)?;
    if let Some(wanted) = &target.resolver {
        planner.steps.extend(resolver::plan(wanted, &state.resolver)?);
    }
    planner.teardown();
    planner.start_dhcp(state);
    Ok(planner.steps)
}

/// The state for planning layer 2, without copying tens of thousands of routes.
fn without_layer3(state: &State) -> State {
    let bare = |link: &Link| Link {
        index: link.index,
        kind: link.kind.clone(),
        mac: link.mac.clone(),
        permanent_mac: None,
        mtu: link.mtu,
        up: link.up,
        master: link.master.clone(),
        parent: link.parent.clone(),
        vlan: link.vlan.clone(),
        bond: link.bond.clone(),
        tap: link.tap,
        ours: link.ours,
        addresses: Vec::new(),
        routes: Arc::default(),
    };
    let links = state.links.iter().map(|(name, link)| (name.clone(), bare(link))).collect();
    State { links, ovs: state.ovs.clone(), ..State::default() }
}

/// The members of `steps`, a plan for `state`, that help while the switch does not answer. Steps that need
/// the switch are left out. Links that only the switch can remove are set down, so that their addresses do
/// not interfere.
pub(super) fn without_switch(steps: Vec<Step>, state: &State) -> Vec<Step> {
    let mut down = Vec::new();
    let mut others = Vec::new();
    for step in steps {
        let made_by_switch = match &step {
            Step::SyncOvs => continue,
            Step::DeleteOvsBridge { bridge } => bridge,
            Step::RemoveOvsPort { port, .. } if state.ovs_interface(port).is_some_and(|it| it.internal) => {
                port
            }
            _ => {
                others.push(step);
                continue;
            }
        };
        if state.links.get(made_by_switch).is_some_and(|link| link.up) {
            down.push(Step::SetUp { link: made_by_switch.clone(), up: false });
        }
    }
    [down, others].concat()
}

impl Target {
    pub(super) fn present(&self) -> impl Iterator<Item = (&str, &LinkTarget)> {
        self.links.iter().filter_map(|(name, wanted)| match wanted {
            Wanted::Present(wanted) => Some((name.as_str(), wanted.as_ref())),
            Wanted::Absent => None,
        })
    }

    fn absent(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter(|(_, wanted)| **wanted == Wanted::Absent).map(|(name, _)| name.as_str())
    }
}

/// The MTU of a new link.
const NEW_MTU: u32 = 1_500;

/// The kernel sets a link that leaves a bond down, and restores its earlier MTU, which no interface reports.
fn left_a_bond(link: &mut Link) {
    (link.up, link.mtu) = (false, 0);
}

struct Planner<'a> {
    target: &'a Target,
    /// Links that are removed and made again, with all links on top of them.
    anew: BTreeSet<&'a str>,
    /// The expected state after the steps so far, as far as later steps need it.
    state: State,
    steps: Vec<Step>,
}

impl Planner<'_> {
    /// Removes an object in the place of a new link: Muster's is removed, anything else is refused.
    fn make_room(&mut self) -> Result<(), PlanError> {
        let from = self.steps.len();
        for (name, wanted) in self.target.present() {
            let Some(problem) = conflict(name, &wanted.kind, &self.state) else { continue };
            let removed = self.target.removed.contains_key(name);
            if !(wanted.may_replace && (is_made(name, &self.state) || removed)) {
                return Err(PlanError::new(&wanted.path, problem));
            }
            self.delete(name);
        }
        self.sync_since(from);
        Ok(())
    }

    /// The link exists, and is not made again.
    fn stays(&self, link: &str, state: &State) -> bool {
        state.links.contains_key(link) && !self.anew.contains(link)
    }

    /// Whether the target decides about the client of a link. Clients of links beside the document return
    /// only with a link that is made again.
    fn leads(&self, link: &str, wanted: &LinkTarget, state: &State) -> bool {
        wanted.origin != Origin::Beside || !self.stays(link, state)
    }

    /// The client runs as wanted, and its link is not made again.
    fn leases(&self, link: &str, wanted: &LinkTarget, state: &State) -> bool {
        let as_wanted = |lease: &Lease| lease.runs && wanted.dhcp.as_ref() == Some(&lease.told);
        self.stays(link, state) && state.dhcp.links.get(link).is_some_and(as_wanted)
    }

    /// First: nothing may restore what goes.
    fn stop_dhcp(&mut self, state: &State) {
        for link in state.dhcp.links.keys() {
            let goes = match self.target.links.get(link) {
                None => false,
                Some(Wanted::Absent) => true,
                Some(Wanted::Present(wanted)) => {
                    self.leads(link, wanted, state) && !self.leases(link, wanted, state)
                }
            };
            if goes {
                self.steps.push(Step::StopDhcp { link: link.clone() });
            }
        }
    }

    /// Runs last: the state to restore may include the leased addresses.
    fn start_dhcp(&mut self, state: &State) {
        for (link, wanted) in self.target.present() {
            if let Some(told) = wanted.dhcp.clone()
                && self.leads(link, wanted, state)
                && !self.leases(link, wanted, state)
            {
                self.steps.push(Step::StartDhcp { link: link.to_owned(), told: Box::new(told) });
            }
        }
    }

    fn create(&mut self) {
        for (name, wanted) in self.target.present() {
            let link = name.to_owned();
            match &wanted.kind {
                LinkKind::LinuxBridge if !self.state.links.contains_key(name) => {
                    self.steps.push(Step::CreateLinuxBridge { link });
                }
                LinkKind::Bond(options) if !self.state.links.contains_key(name) => {
                    let mut options = options.clone();
                    // The kernel accepts the option only with its members present.
                    options.primary = None;
                    let mac = wanted.mac.clone();
                    self.steps.push(Step::CreateBond { link, options, mac });
                }
                LinkKind::Bond(options) if wanted.origin != Origin::Beside => {
                    let now = self.state.links.get(name).and_then(|bond| bond.bond.as_ref());
                    let values: BTreeMap<u16, u32> =
                        now.map(|now| now.differing(options).collect()).unwrap_or_default();
                    if !values.is_empty() {
                        let options = BondOptions { values, primary: None };
                        self.steps.push(Step::SetBond { link, options });
                    }
                }
                LinkKind::Tap if !self.state.links.contains_key(name) => {
                    self.steps.push(Step::CreateTap { link });
                }
                LinkKind::OvsBridge { row, .. } => match self.state.ovs_bridge(name) {
                    None => {
                        let mut row = row.clone();
                        row.ports.clear();
                        self.steps.push(Step::CreateOvsBridge { bridge: link, row });
                    }
                    Some(bridge) if bridge.hwaddr != row.hwaddr => {
                        let hwaddr = row.hwaddr.clone();
                        self.steps.push(Step::SetOvsHwaddr { bridge: link, hwaddr });
                    }
                    Some(_) => {}
                },
                _ => {}
            }
        }
    }

    /// Members into their bridges; VLANs, which need their device, after all else.
    fn attach(&mut self) {
        for (name, wanted) in in_order(self.target) {
            if let LinkKind::Vlan { device, id } = &wanted.kind
                && !self.state.links.contains_key(name)
            {
                // The switch makes the bridge's own link when it applies the change.
                let by_switch = self.target.links.get(device).is_some_and(
                    |it| matches!(it, Wanted::Present(it) if matches!(it.kind, LinkKind::OvsBridge { .. })),
                );
                if by_switch && !self.state.links.contains_key(device) {
                    self.sync_since(0);
                }
                self.steps.push(Step::CreateVlan { link: name.to_owned(), device: device.clone(), id: *id });
            }
        }
        for (name, wanted) in self.target.present() {
            self.attach_one(name, wanted);
            self.ports_of(name, wanted);
        }
        self.add_ports();
        self.prefer();
        for (name, wanted) in self.target.present() {
            let (LinkKind::OvsBridge { mtu_request, .. } | LinkKind::OvsInternal { mtu_request }) =
                wanted.kind
            else {
                continue;
            };
            let now = self.state.ovs_interface(name).and_then(|interface| interface.mtu_request);
            if now != mtu_request && wanted.origin != Origin::Beside {
                self.steps.push(Step::SetOvsMtu { interface: name.to_owned(), mtu: mtu_request });
            }
        }
        self.set();
        self.sync_since(0);
    }

    fn attach_one(&mut self, name: &str, wanted: &LinkTarget) {
        let now = self.state.attachment(name);
        // A link that only others decide about is moved only by a document.
        let others = wanted.origin == Origin::Beside && now != Attach::None;
        if now == wanted.attach || others {
            return;
        }
        let link = name.to_owned();
        if let (Attach::Ovs(from, _), Attach::Ovs(to, tag)) = (&now, &wanted.attach)
            && from == to
        {
            self.steps.push(Step::SetOvsTag { port: link, tag: *tag });
            return;
        }
        match (&now, &wanted.attach) {
            (Attach::Ovs(bridge, _), to) => {
                self.steps.push(Step::RemoveOvsPort { bridge: bridge.clone(), port: link.clone() });
                // Open vSwitch releases a link only when it applies the change; between its own bridges it
                // moves the link itself.
                if !matches!(to, Attach::Ovs(..) | Attach::OvsBond(..)) {
                    self.steps.push(Step::SyncOvs);
                }
                // The switch makes its own link again, with nothing on it.
                if matches!(wanted.kind, LinkKind::OvsInternal { .. }) {
                    self.forget(name);
                }
            }
            (Attach::Linux(_), Attach::None | Attach::Ovs(..) | Attach::OvsBond(..)) => {
                self.steps.push(Step::SetMaster { link: link.clone(), master: None });
                self.leave(name);
            }
            // A bond of others, which is restored as far as possible.
            (Attach::OvsBond(..), _) => return,
            (Attach::Linux(_) | Attach::None, _) => {}
        }
        match &wanted.attach {
            // The bond's port includes the member.
            Attach::None | Attach::OvsBond(..) => {}
            Attach::Linux(bond) if self.is_bond(bond) => {
                // The kernel takes a link into a bond only while it is down, and gives it the bond's MTU.
                if self.state.links.get(name).is_some_and(|it| it.up) {
                    self.steps.push(Step::SetUp { link: link.clone(), up: false });
                }
                self.steps.push(Step::SetMaster { link, master: Some(bond.clone()) });
                let of_bond = self.state.links.get(bond).map_or(NEW_MTU, |bond| bond.mtu);
                if let Some(member) = self.state.links.get_mut(name) {
                    (member.up, member.mtu) = (false, of_bond);
                }
            }
            Attach::Linux(bridge) => {
                self.steps.push(Step::SetMaster { link, master: Some(bridge.clone()) });
                self.leave(name);
            }
            Attach::Ovs(bridge, tag) => {
                let internal = matches!(wanted.kind, LinkKind::OvsInternal { .. });
                let row = wanted.port.clone().unwrap_or_else(|| OvsPort::new(name, *tag, internal));
                let row = Box::new(row);
                self.steps.push(Step::AddOvsPort { bridge: bridge.clone(), port: link, row });
            }
        }
    }

    /// Removes the link from its bond or bridge.
    fn leave(&mut self, name: &str) {
        let of_bond = self.state.master(name).is_some_and(|(_, master)| master.kind == "bond");
        if let Some(link) = self.state.links.get_mut(name).filter(|_| of_bond) {
            left_a_bond(link);
        }
    }

    /// Others' ports that went with their bridge.
    fn ports_of(&mut self, name: &str, wanted: &LinkTarget) {
        let LinkKind::OvsBridge { row, .. } = &wanted.kind else { return };
        for (port, row) in &row.ports {
            let elsewhere = |interface: &String| {
                self.state.ovs_interface(interface).is_some() || self.decides_about(interface)
            };
            if port != name && !row.interfaces.keys().any(elsewhere) {
                let (bridge, port, row) = (name.to_owned(), port.clone(), Box::new(row.clone()));
                self.steps.push(Step::AddOvsPort { bridge, port, row });
            }
        }
    }

    fn decides_about(&self, link: &str) -> bool {
        match self.target.links.get(link) {
            None => false,
            Some(Wanted::Absent) => true,
            Some(Wanted::Present(wanted)) => wanted.origin != Origin::Beside,
        }
    }

    /// Sets MTU and MAC, lower links first.
    fn sizes(&mut self) {
        let mut links = in_order(self.target);
        // A bond sets the MTU of its members, so bonds come first.
        links.sort_by_key(|(_, wanted)| !matches!(wanted.kind, LinkKind::Bond(_)));
        for (name, wanted) in links {
            let now = self.state.links.get(name);
            let by_switch = matches!(wanted.kind, LinkKind::OvsBridge { .. } | LinkKind::OvsInternal { .. });
            if let Some(mtu) = wanted.mtu
                && !by_switch
                && now.is_none_or(|link| link.mtu != mtu)
            {
                self.steps.push(Step::SetMtu { link: name.to_owned(), mtu });
                self.give_members_mtu(name, mtu);
            }
            let now = self.state.links.get(name);
            let made_with = now.is_none() && matches!(wanted.kind, LinkKind::Bond(_));
            if let Some(mac) = &wanted.mac
                && !made_with
                && now.is_none_or(|link| link.mac.as_ref() != Some(mac))
            {
                self.steps.push(Step::SetMac { link: name.to_owned(), mac: mac.clone() });
            }
        }
    }

    fn give_members_mtu(&mut self, bond: &str, mtu: u32) {
        let is_bond = self.is_bond(bond);
        let is_member = |wanted: &LinkTarget| is_bond && wanted.attach == Attach::Linux(bond.to_owned());
        for (name, _) in self.target.present().filter(|(_, wanted)| is_member(wanted)) {
            if let Some(member) = self.state.links.get_mut(name) {
                member.mtu = mtu;
            }
        }
    }

    /// Plans a step for each group of a link's settings, since a group is one message to the driver.
    fn ethtool(&mut self, state: &State) {
        let mut steps: BTreeMap<(&str, &str), BTreeMap<String, u32>> = BTreeMap::new();
        for ((link, key), (value, _)) in &self.target.ethtool {
            let group = if is_of_link(key) { "link" } else { key.split('/').next().unwrap_or_default() };
            if is_asked(state.ethtool.get(link), key, *value) != Asked::Yes {
                steps.entry((link, group)).or_default().insert(key.clone(), *value);
            }
        }
        // The kernel turns a speed into advertised modes only if the same message sets the negotiation.
        for ((link, _), settings) in steps.iter_mut().filter(|((_, group), _)| *group == "link") {
            let of_link =
                |((of, key), _): &(&(String, String), &(u32, String))| of == link && is_of_link(key);
            let wanted = self.target.ethtool.iter().filter(of_link);
            settings.extend(wanted.map(|((_, key), (value, _))| (key.clone(), *value)));
        }
        for ((link, _), settings) in steps {
            self.steps.push(Step::SetEthtool { link: link.to_owned(), settings });
        }
    }

    /// A link that carries a wanted VLAN but is in no document stays up.
    fn carriers_up(&mut self) {
        let target = self.target;
        for (_, wanted) in target.present().filter(|(_, wanted)| wanted.up == Some(true)) {
            let LinkKind::Vlan { device, .. } = &wanted.kind else { continue };
            let (mut carrier, mut down) = (Some(device.clone()), Vec::new());
            while let Some(name) = carrier.filter(|name| !target.links.contains_key(name)) {
                let Some(link) = self.state.links.get_mut(&name).filter(|link| !link.up) else { break };
                link.up = true;
                carrier = link.parent.clone();
                down.push(Step::SetUp { link: name, up: true });
            }
            self.steps.extend(down.into_iter().rev());
        }
    }

    fn up(&mut self, up: bool) {
        for (name, wanted) in in_order(self.target) {
            if wanted.up == Some(up) && self.state.links.get(name).is_none_or(|link| link.up != up) {
                self.steps.push(Step::SetUp { link: name.to_owned(), up });
            }
        }
    }

    /// Removes unwanted links: VLANs before the links that carry them.
    fn teardown(&mut self) {
        let from = self.steps.len();
        let is_there =
            |name: &str| self.state.links.contains_key(name) || self.state.ovs_bridge(name).is_some();
        let goes = |name: &&str| is_made(name, &self.state) || (self.is_removed(name) && is_there(name));
        let mut names: Vec<&str> = self.target.absent().filter(goes).collect();
        names.sort_by_key(|name| {
            let vlan = self.state.links.get(*name).is_some_and(|link| link.kind == "vlan");
            (!vlan, self.state.ovs_port(name).is_none())
        });
        for name in names {
            self.delete(name);
        }
        self.sync_since(from);
    }

    /// Deletes a link that [`is_made`] found, and forgets it.
    fn delete(&mut self, name: &str) {
        let link = name.to_owned();
        if self.state.ovs_bridge(name).is_some() {
            self.steps.push(Step::DeleteOvsBridge { bridge: link });
        } else if let Some((bridge, port)) = self.state.ovs_port(name) {
            let by_switch = port.is_internal();
            self.steps.push(Step::RemoveOvsPort { bridge: bridge.to_owned(), port: link.clone() });
            // The switch only releases some links, such as that of a bond.
            if !by_switch && self.state.links.get(name).is_some_and(is_made_link) {
                self.steps.extend([Step::SyncOvs, Step::DeleteLink { link }]);
            }
        } else {
            self.steps.push(Step::DeleteLink { link });
        }
        self.forget(name);
    }

    /// Forgets a removed link and the links on top of it. Its members are free; members of a bond are down
    /// and have their earlier MTU.
    fn forget(&mut self, name: &str) {
        let gone = self.state.with_what_they_carry(std::iter::once(name));
        let gone: BTreeSet<String> = gone.into_iter().map(str::to_owned).collect();
        let was_bond = self.state.links.get(name).is_some_and(|link| link.kind == "bond");
        self.state.links.retain(|link, _| !gone.contains(link));
        for link in self.state.links.values_mut() {
            if link.master.take_if(|master| gone.contains(master)).is_some() && was_bond {
                left_a_bond(link);
            }
        }
        if let Some(ovs) = &mut self.state.ovs {
            ovs.forget_bridge(name);
            ovs.forget_port(name);
        }
    }

    fn sync_since(&mut self, from: usize) {
        let last = self.steps[from..].iter().rposition(|step| step.is_ovs() || *step == Step::SyncOvs);
        if last.is_some_and(|last| self.steps[from + last] != Step::SyncOvs) {
            self.steps.push(Step::SyncOvs);
        }
    }
}

/// The links of the target that exist as something else, or elsewhere, so that they must be removed before
/// they are made. Leaves out the links that go with them.
pub(super) fn made_anew<'a>(
    target: &'a Target,
    state: &'a State,
) -> impl Iterator<Item = (&'a str, &'a LinkTarget)> {
    let moves = |name: &str, wanted: &LinkTarget| {
        let internal = matches!(wanted.kind, LinkKind::OvsInternal { .. });
        let stays = |bridge: &str| matches!(&wanted.attach, Attach::Ovs(to, _) if to == bridge);
        internal && state.ovs_port(name).is_some_and(|(bridge, _)| !stays(bridge))
    };
    let is_there = target.present().filter(|(name, _)| state.links.contains_key(*name));
    is_there
        .filter(move |(name, wanted)| moves(name, wanted) || conflict(name, &wanted.kind, state).is_some())
}

/// Existing links, then bonds, then bridges, then internal ports, then VLANs, those on other VLANs last.
fn in_order(target: &Target) -> Vec<(&str, &LinkTarget)> {
    let mut links: Vec<_> = target.present().collect();
    links.sort_by_cached_key(|(name, wanted)| match wanted.kind {
        LinkKind::Existing | LinkKind::Tap => 0,
        LinkKind::Bond(_) => 1,
        LinkKind::LinuxBridge | LinkKind::OvsBridge { .. } => 2,
        LinkKind::OvsInternal { .. } => 3,
        LinkKind::Vlan { .. } => 3 + target.vlans_under(name).count(),
    });
    links
}
