//! The state before a change, as a target.

use super::super::ethtool::{AUTONEG, DUPLEX, MODES, SPEED};
use super::super::plan::{conflict, is_made, made_anew};
use super::super::snapshot::{self, Before, KindBefore, LinkBefore, Snapshot};
use super::super::state::{Attach, Link, Route, State};
use super::{Difference, LinkKind, LinkTarget, Origin, PortTarget, Target, Wanted, WantedResolver};

impl LinkBefore {
    /// The MTU asked for, of an interface made by Open vSwitch.
    pub(super) fn mtu_request(&self, name: &str) -> Option<u32> {
        let port = match &self.kind {
            KindBefore::OvsBridge(bridge) => bridge.ports.get(name),
            _ => self.port.as_ref(),
        };
        port?.interfaces.get(name)?.mtu_request
    }

    /// `other_config:hwaddr` of a bridge of Open vSwitch.
    pub(super) fn hwaddr(&self) -> Option<String> {
        match &self.kind {
            KindBefore::OvsBridge(bridge) => bridge.hwaddr.clone(),
            _ => None,
        }
    }
}

impl Target {
    /// Links of `before` that the document does not name.
    pub(super) fn put_back(&mut self, before: &Snapshot, state: &State) {
        let links = before.links.iter().map(|(name, link)| match link {
            Before::Absent => (name, None),
            Before::Present(link) => (name, Some((link.as_ref(), Origin::Before))),
        });
        let beside = before.beside.iter().map(|(name, link)| (name, Some((link, Origin::Beside))));
        for (name, link) in links.chain(beside) {
            if self.links.contains_key(name) {
                continue;
            }
            let wanted = match link {
                None => Some(Wanted::Absent),
                Some((link, origin)) => {
                    self.link_before(name, link, origin, before, state).map(Box::new).map(Wanted::Present)
                }
            };
            self.links.extend(wanted.map(|wanted| (name.clone(), wanted)));
        }
        for (rule, was) in &before.rules {
            match was {
                _ if self.rules.contains_key(rule) => {}
                Some(protocol) => {
                    self.rules.insert(rule.clone(), (*protocol, format!("before: {rule}")));
                }
                None => self.rules_gone.push(rule.clone()),
            }
        }
        let others = |name: &&String| !state.links.contains_key(*name) && !self.removed.contains_key(*name);
        let ports: Vec<_> = before.ports.iter().filter(|(name, _)| others(name)).collect();
        for (name, was) in ports {
            let wanted = was.as_ref().map(|was| PortTarget {
                path: format!("before.{name}"),
                bridge: was.bridge.clone(),
                row: was.port.clone(),
                may_replace: true,
            });
            self.ports.entry(name.clone()).or_insert(wanted);
        }
        for (place, was) in &before.settings {
            self.settings.entry(place.clone()).or_insert_with(|| (was.clone(), "before".to_owned()));
        }
        for (link, settings) in before.ethtool.iter().filter(|(link, _)| state.links.contains_key(*link)) {
            // The advertised modes follow from the speed that the document gives.
            let says = |key: &str| self.ethtool.contains_key(&(link.clone(), key.to_owned()));
            let is_said = says(SPEED) || says(DUPLEX);
            // With negotiation the advertised modes count, without it the speed.
            let was = settings.get(AUTONEG).copied();
            let said = self.ethtool.get(&(link.clone(), AUTONEG.to_owned())).map(|(value, _)| *value);
            let now = state.ethtool.get(link).and_then(|now| now.get(AUTONEG).copied());
            let will = said.or(was).or(now);
            let counts = |key: &str| match key {
                SPEED | DUPLEX => will != Some(1) || was == Some(1),
                key if key.starts_with(MODES) => !is_said && will != Some(0),
                _ => true,
            };
            for (key, was) in settings.iter().filter(|(key, _)| counts(key)) {
                let place = (link.clone(), key.clone());
                self.ethtool.entry(place).or_insert_with(|| (*was, "before".to_owned()));
            }
        }
        for (name, was) in &before.tables {
            self.tables.entry(name.clone()).or_insert_with(|| (*was, "before".to_owned()));
        }
        let was = before.resolver.clone().map(WantedResolver::Before);
        self.resolver = self.resolver.take().or(was);
    }

    /// Restores links that vanish with a link that is made again, and that nothing decides about: VLANs that
    /// others have put on a bond, and members of it. Includes links that the document names as interfaces,
    /// which would be lost otherwise.
    pub(super) fn keep_beside(&mut self, state: &State) {
        let anew: Vec<(String, String, bool)> = made_anew(self, state)
            .map(|(name, wanted)| {
                let bond = matches!(wanted.kind, LinkKind::Bond(_));
                (name.to_owned(), wanted.path.clone(), bond)
            })
            .collect();
        let mut beside = Snapshot::default();
        for (carrier, path, bond) in &anew {
            let carried = state.with_what_they_carry(std::iter::once(carrier.as_str()));
            let is_member = |link: &Link| *bond && link.master.as_ref() == Some(carrier);
            let members =
                state.links.iter().filter(|(_, link)| is_member(link)).map(|(name, _)| name.as_str());
            for name in carried.iter().copied().chain(members) {
                let Some(before) = snapshot::link(name, state) else { continue };
                let mut goes = carried.contains(name) && before.kind == KindBefore::Existing;
                if let Some(wanted) = self.links.get_mut(name) {
                    let Wanted::Present(wanted) = wanted else { continue };
                    if *bond && carried.contains(name) {
                        wanted.keep_mtu(&before);
                    }
                    let named = wanted.kind == LinkKind::Existing && wanted.origin == Origin::Document;
                    match &before.kind {
                        _ if !(named && carried.contains(name)) => continue,
                        KindBefore::Vlan(vlan) => {
                            wanted.kind = LinkKind::Vlan { device: vlan.device.clone(), id: vlan.id };
                            continue;
                        }
                        _ => goes = true,
                    }
                }
                if goes {
                    let kind = match state.links.get(name).map(|link| link.kind.as_str()) {
                        Some("vlan") => "vlan, not 802.1Q",
                        kind => kind.unwrap_or_default(),
                    };
                    let text = format!(
                        "{carrier} must be recreated, and {name} ({kind}) on it would go along; remove it first"
                    );
                    self.missing.push(Difference { path: path.clone(), text });
                } else {
                    beside.beside.insert(name.to_owned(), before);
                }
            }
        }
        for (name, before) in &beside.beside {
            if let Some(wanted) = self.link_before(name, before, Origin::Beside, &beside, state) {
                self.links.insert(name.clone(), Wanted::Present(Box::new(wanted)));
            }
        }
    }

    /// Nothing, and a warning, if it can no longer be.
    fn link_before(
        &mut self,
        name: &str,
        link: &LinkBefore,
        origin: Origin,
        before: &Snapshot,
        state: &State,
    ) -> Option<LinkTarget> {
        let kind = self.kind_before(name, link, before, state)?;
        if let Some(problem) = conflict(name, &kind, state).filter(|_| !is_made(name, state)) {
            self.warnings.push(format!("{name} was not restored: {problem}"));
            return None;
        }
        let mtu = match kind {
            LinkKind::OvsBridge { .. } | LinkKind::OvsInternal { .. } => link.mtu_request(name),
            // A VLAN may vanish with the link that carries it.
            LinkKind::Vlan { .. } => Some(link.mtu).filter(|mtu| *mtu != 0),
            _ => Some(link.mtu).filter(|mtu| *mtu != 0 && origin == Origin::Before),
        };
        let mut routes = link.routes.to_vec();
        routes.sort_by_key(Route::depth);
        Some(LinkTarget {
            path: format!("before.{name}"),
            origin,
            kind,
            may_replace: true,
            attach: self.attach_before(name, link, before, state),
            port: link.port.clone(),
            up: Some(link.up).filter(|up| *up || origin == Origin::Before),
            mtu,
            mac: link.made_mac.clone().filter(|_| origin == Origin::Before),
            addresses: link.addresses.clone(),
            routes,
            dhcp: link.dhcp.clone(),
        })
    }

    fn kind_before(
        &mut self,
        name: &str,
        link: &LinkBefore,
        before: &Snapshot,
        state: &State,
    ) -> Option<LinkKind> {
        let there = state.links.contains_key(name) || state.ovs_bridge(name).is_some();
        let mtu_request = link.mtu_request(name);
        let why = match &link.kind {
            KindBefore::Existing if there => return Some(LinkKind::Existing),
            KindBefore::LinuxBridge => return Some(LinkKind::LinuxBridge),
            KindBefore::Bond(options) => return Some(LinkKind::Bond(options.of_its_mode())),
            KindBefore::Tap => return Some(LinkKind::Tap),
            KindBefore::Vlan(vlan) if there || comes_back(&vlan.device, before, state) => {
                return Some(LinkKind::Vlan { device: vlan.device.clone(), id: vlan.id });
            }
            // The switch's database cannot be reached: the kernel's remaining link gets its addresses back.
            KindBefore::OvsBridge(_) | KindBefore::OvsInternal if state.ovs.is_none() => {
                return there.then_some(LinkKind::Existing);
            }
            KindBefore::OvsBridge(bridge) => {
                return Some(LinkKind::OvsBridge { row: Box::new(bridge.clone()), mtu_request });
            }
            KindBefore::OvsInternal if self.bridge_before(link, before, state) => {
                return Some(LinkKind::OvsInternal { mtu_request });
            }
            KindBefore::Existing | KindBefore::Vlan(_) | KindBefore::OvsInternal => "is gone",
        };
        self.warnings.push(format!("{name} {why}; what it had before was not restored"));
        None
    }

    fn bridge_before(&self, link: &LinkBefore, before: &Snapshot, state: &State) -> bool {
        match &link.attach {
            Attach::None => true,
            Attach::Linux(bridge) | Attach::Ovs(bridge, _) | Attach::OvsBond(bridge, _) => {
                let wanted = matches!(self.links.get(bridge), Some(Wanted::Present(_)));
                wanted || comes_back(bridge, before, state)
            }
        }
    }

    fn attach_before(&mut self, name: &str, link: &LinkBefore, before: &Snapshot, state: &State) -> Attach {
        if matches!(link.attach, Attach::Ovs(..) | Attach::OvsBond(..)) && state.ovs.is_none() {
            return state.attachment(name);
        }
        if self.bridge_before(link, before, state) {
            return link.attach.clone();
        }
        self.warnings.push(format!("{name} belonged to a bridge that is gone; it was left without one"));
        Attach::None
    }
}

impl LinkTarget {
    /// A bond that is made again, or an 802.1Q link still on it, gets its earlier MTU unless the document
    /// gives one.
    fn keep_mtu(&mut self, before: &LinkBefore) {
        let is_same = match (&self.kind, &before.kind) {
            (LinkKind::Bond(_), KindBefore::Bond(_)) => true,
            (LinkKind::Vlan { device, id }, KindBefore::Vlan(vlan)) => {
                *device == vlan.device && *id == vlan.id
            }
            (LinkKind::Existing, KindBefore::Vlan(_)) => true,
            _ => false,
        };
        let was = Some(before.mtu).filter(|mtu| *mtu != 0 && is_same);
        self.mtu = self.mtu.or(was);
    }
}

/// Whether the link exists and stays, or is restored too.
fn comes_back(name: &str, before: &Snapshot, state: &State) -> bool {
    match before.links.get(name) {
        Some(Before::Absent) => false,
        Some(Before::Present(link)) => link.kind != KindBefore::Existing || state.links.contains_key(name),
        None => {
            before.beside.get(name).is_some_and(|link| link.kind != KindBefore::Existing)
                || state.links.contains_key(name)
                || state.ovs_bridge(name).is_some()
        }
    }
}
