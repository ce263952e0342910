//! What every link in question shall be: the document's word for the links it names, and what was there
//! before for those that an older document named. Restoring is the target of no document at all.

use std::collections::BTreeMap;

use muster_shared::model::network::{NetworkDocument, Object, ObjectKind};

use super::snapshot::{Before, LinkBefore, Snapshot};
use super::state::{Address, Attach, PROTOCOL_STATIC, Route, State};

/// A place and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Such as `network_config[0].addresses[0]`.
    pub path: String,
    /// What was wanted and what is.
    pub text: String,
}

/// The links in question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// By name.
    pub links: BTreeMap<String, Wanted>,
    /// What the document needs and the host lacks: applying is refused, a plan shows it.
    pub missing: Vec<Difference>,
    /// What cannot be put back, and why.
    pub warnings: Vec<String>,
}

/// What one link shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It goes.
    Absent,
    /// It is there, like this.
    Present(LinkTarget),
}

/// A link as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// Its place in the document, or `before`.
    pub path: String,
    /// What it is.
    pub kind: LinkKind,
    /// It was not there before, so it may be made anew.
    pub ours: bool,
    /// What it belongs to.
    pub attach: Attach,
    /// Administratively up.
    pub up: bool,
    /// Nothing: as it is.
    pub mtu: Option<u32>,
    /// The MAC address of a Linux bridge. Nothing: as it is.
    pub mac: Option<String>,
    /// Exactly these.
    pub addresses: Vec<Address>,
    /// Exactly these static ones.
    pub routes: Vec<Route>,
}

/// What a link is and how it comes to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Made by somebody else.
    Existing,
    /// A Linux bridge.
    LinuxBridge,
    /// An 802.1Q link.
    Vlan {
        /// The link that carries it.
        device: String,
        /// The VLAN's id.
        id: u16,
    },
    /// A bridge of Open vSwitch with its local port.
    OvsBridge {
        /// Used when the bridge is made.
        datapath_type: Option<String>,
        /// `other_config:hwaddr`, exactly.
        hwaddr: Option<String>,
        /// The MTU asked for, exactly.
        mtu_request: Option<u32>,
    },
    /// An internal port of Open vSwitch.
    OvsInternal {
        /// The MTU asked for, exactly.
        mtu_request: Option<u32>,
    },
}

impl Target {
    /// From the document (aliases replaced) and what was there before.
    pub fn new(
        document: &NetworkDocument,
        before: &Snapshot,
        state: &State,
        datapath_type: Option<&str>,
    ) -> Self {
        let mut target = Self::default();
        for object in &document.objects {
            let attach = Attach::None;
            target.add(object, attach, before, state, datapath_type);
            for member in object.members() {
                let bridge = object.name.to_string();
                let attach = match (&object.kind, &member.kind) {
                    (ObjectKind::OvsBridge { .. }, ObjectKind::Vlan { id, .. }) => {
                        Attach::Ovs(bridge, Some(*id))
                    }
                    (ObjectKind::OvsBridge { .. }, _) => Attach::Ovs(bridge, None),
                    _ => Attach::Linux(bridge),
                };
                target.add(member, attach, before, state, datapath_type);
            }
        }
        for (name, before) in &before.links {
            if !target.links.contains_key(name) {
                target.put_back(name, before, state);
            }
        }
        for object in &document.objects {
            target.look_for(object, state);
            object.members().iter().for_each(|member| target.look_for(member, state));
        }
        target
    }

    fn add(
        &mut self,
        object: &Object,
        attach: Attach,
        before: &Snapshot,
        state: &State,
        datapath_type: Option<&str>,
    ) {
        let name = object.name.to_string();
        let was = before.present(&name);
        let mtu_request = object.mtu.or(was.and_then(|was| was.mtu_request));
        let primary = primary_mac(object, state);
        let kind = match &object.kind {
            ObjectKind::Interface { .. } => LinkKind::Existing,
            ObjectKind::LinuxBridge { .. } => LinkKind::LinuxBridge,
            ObjectKind::OvsBridge { .. } => LinkKind::OvsBridge {
                datapath_type: datapath_type.map(str::to_owned),
                hwaddr: primary.clone().or_else(|| was.and_then(|was| was.hwaddr.clone())),
                mtu_request,
            },
            ObjectKind::Vlan { .. } if matches!(attach, Attach::Ovs(..)) => {
                LinkKind::OvsInternal { mtu_request }
            }
            ObjectKind::Vlan { id, device } => LinkKind::Vlan {
                device: device.as_ref().map(ToString::to_string).unwrap_or_default(),
                id: *id,
            },
        };
        let linux_bridge = matches!(kind, LinkKind::LinuxBridge);
        let mtu = match kind {
            LinkKind::OvsBridge { .. } | LinkKind::OvsInternal { .. } => mtu_request,
            _ => object.mtu.or(was.map(|was| was.mtu).filter(|mtu| *mtu != 0)),
        };
        let wanted = LinkTarget {
            path: object.path.clone(),
            ours: before.was_absent(&name),
            attach,
            up: true,
            mtu,
            mac: primary.or_else(|| was.and_then(|was| was.bridge_mac.clone())).filter(|_| linux_bridge),
            addresses: object.addresses.iter().copied().map(Address::plain).collect(),
            routes: object.routes.iter().map(wanted_route).collect(),
            kind,
        };
        self.links.insert(name, Wanted::Present(wanted));
    }

    /// Notes what the document needs and the host lacks.
    fn look_for(&mut self, object: &Object, state: &State) {
        let lacks = |name: &str| !state.links.contains_key(name);
        let missing = match &object.kind {
            ObjectKind::Interface { .. } if lacks(object.name.as_str()) => {
                Some((object.path.clone(), no_link(object.name.as_str(), state)))
            }
            ObjectKind::Vlan { device: Some(device), .. }
                if lacks(device.as_str()) && !self.links.contains_key(device.as_str()) =>
            {
                Some((format!("{}.device", object.path), no_link(device.as_str(), state)))
            }
            ObjectKind::OvsBridge { .. } if state.ovs.is_none() => {
                let text =
                    "Open vSwitch's database cannot be reached; is openvswitch-switch installed and running?";
                Some((object.path.clone(), text.to_owned()))
            }
            _ => None,
        };
        self.missing.extend(missing.map(|(path, text)| Difference { path, text }));
    }

    fn put_back(&mut self, name: &str, before: &Before, state: &State) {
        let before = match before {
            Before::Absent => {
                self.links.insert(name.to_owned(), Wanted::Absent);
                return;
            }
            Before::Present(before) => before,
        };
        if !state.links.contains_key(name) && state.ovs_bridge(name).is_none() {
            self.warnings.push(format!("{name} is gone; what it had before was not put back"));
            return;
        }
        let kind = kind_before(name, before, state);
        let mtu = match kind {
            LinkKind::OvsBridge { .. } | LinkKind::OvsInternal { .. } => before.mtu_request,
            _ => Some(before.mtu).filter(|mtu| *mtu != 0),
        };
        let wanted = LinkTarget {
            path: format!("before.{name}"),
            kind,
            ours: false,
            attach: self.attach_before(name, before, state),
            up: before.up,
            mtu,
            mac: before.bridge_mac.clone(),
            addresses: before.addresses.clone(),
            routes: before.routes.clone(),
        };
        self.links.insert(name.to_owned(), Wanted::Present(wanted));
    }

    fn attach_before(&mut self, name: &str, before: &LinkBefore, state: &State) -> Attach {
        let still_there = match &before.attach {
            Attach::None => true,
            Attach::Linux(bridge) => state.links.contains_key(bridge),
            Attach::Ovs(bridge, _) => state.ovs_bridge(bridge).is_some(),
        };
        if still_there {
            return before.attach.clone();
        }
        self.warnings.push(format!("{name} belonged to a bridge that is gone; it was left without one"));
        Attach::None
    }
}

fn kind_before(name: &str, before: &LinkBefore, state: &State) -> LinkKind {
    let mtu_request = before.mtu_request;
    if state.ovs_bridge(name).is_some() {
        return LinkKind::OvsBridge { datapath_type: None, hwaddr: before.hwaddr.clone(), mtu_request };
    }
    match state.ovs_interface(name) {
        Some(interface) if interface.internal => LinkKind::OvsInternal { mtu_request },
        _ => LinkKind::Existing,
    }
}

/// The MAC address that a bridge takes from its primary member.
fn primary_mac(bridge: &Object, state: &State) -> Option<String> {
    let is_primary = |member: &&Object| matches!(member.kind, ObjectKind::Interface { primary: true });
    let member = bridge.members().iter().find(is_primary)?;
    state.links.get(member.name.as_str())?.mac.clone()
}

fn wanted_route(route: &muster_shared::model::network::Route) -> Route {
    Route {
        destination: route.destination,
        gateway: Some(route.next_hop),
        table: route.table,
        metric: route.kernel_metric(),
        protocol: PROTOCOL_STATIC,
        scope: 0,
        source: None,
        onlink: false,
    }
}

fn no_link(name: &str, state: &State) -> String {
    // Enough names to recognise a typing error; a host may have thousands of links.
    const SHOWN: usize = 12;
    let mut names: Vec<&str> = state.links.keys().map(String::as_str).filter(|name| *name != "lo").collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let mapping = if name.starts_with("nic") {
        format!("; map the alias (mapping: {{{name}: …}})")
    } else {
        String::new()
    };
    format!("there is no interface {name} on this host, only {}{more}{mapping}", names.join(", "))
}
