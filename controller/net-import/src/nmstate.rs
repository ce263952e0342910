//! Nmstate's desired state as a network document.
//!
//! Routes and name servers stand by themselves there; in a document they belong to a link. An interface of Open vSwitch
//! with its bridge's name is the bridge itself.
//!
//! Absent: capture policies of nmstate (`nmstatectl policy` writes the state that they mean).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::assemble::{Link, assemble};
use crate::layer3::{Route, Servers, rule};
use crate::part::Part;
use crate::{Imported, Malformed};

/// Types of interfaces, and the object that each becomes.
const TYPES: [(&str, &str); 6] = [
    ("ethernet", "interface"),
    ("bond", "linux_bond"),
    ("linux-bridge", "linux_bridge"),
    ("ovs-bridge", "ovs_bridge"),
    ("ovs-interface", "ovs_interface"),
    ("vlan", "vlan"),
];
/// Types, and what a document removes them as.
const REMOVED: [(&str, &str); 5] = [
    ("ethernet", "interface"),
    ("bond", "linux_bond"),
    ("linux-bridge", "linux_bridge"),
    ("ovs-bridge", "ovs_bridge"),
    ("vlan", "vlan"),
];
/// An object that is in no document: it becomes a patch port, a VLAN, or its bridge's own addresses.
const INTERNAL: &str = "ovs_interface";
/// Keys for people and for nmstate itself.
const FOR_OTHERS: [&str; 3] = ["description", "identifier", "profile-name"];

/// Makes a document of a state.
///
/// # Errors
/// A file that is not nmstate's, with the place.
pub fn nmstate(state: &Value) -> Result<Imported, Malformed> {
    let mut top = Part::of("", state)?;
    let mut import = Import::default();
    let interfaces = top.parts("interfaces")?;
    let (routes, rules, dns) = (top.part("routes")?, top.part("route-rules")?, top.part("dns-resolver")?);
    let hostname = top.take("hostname");
    if interfaces.is_empty() && routes.is_none() && rules.is_none() && dns.is_none() && hostname.is_none() {
        return Err(Malformed::new("interfaces", "is missing: this is not a state of nmstate"));
    }
    if hostname.is_some() {
        import.left_out.push("hostname: a resource Muster::Hostname has the name of a server".to_owned());
    }
    for part in interfaces {
        import.interface(part)?;
    }
    import.settle_ports();
    if let Some(routes) = routes {
        import.routes(routes)?;
    }
    if let Some(rules) = rules {
        import.rules(rules)?;
    }
    if let Some(dns) = dns {
        import.dns(dns)?;
    }
    top.end(&mut import.left_out);
    assemble(import.links, import.removed, import.left_out, BTreeSet::new())
}

#[derive(Default)]
struct Import {
    links: Vec<Link>,
    /// The bridge and the tag of each port of an Open vSwitch bridge.
    ports: BTreeMap<String, (String, Option<u32>)>,
    removed: Vec<Value>,
    left_out: Vec<String>,
}

impl Import {
    fn interface(&mut self, mut part: Part<'_>) -> Result<(), Malformed> {
        let path = part.path.clone();
        let name = part.text("name")?.ok_or_else(|| Malformed::new(part.at("name"), "is missing"))?;
        let kind = part.text("type")?;
        let state = part.text("state")?;
        if kind.is_none() && state.as_deref() == Some("absent") {
            self.left_out.push(format!("{path}: a network document removes a link by its type: write that"));
            return Ok(());
        }
        let kind = kind.unwrap_or_else(|| "ethernet".to_owned());
        let of = |kinds: &[(&str, &'static str)]| {
            kinds.iter().find(|(theirs, _)| *theirs == kind).map(|(_, ours)| *ours)
        };
        match state.as_deref() {
            None | Some("up") => {}
            Some("absent") => {
                match of(&REMOVED) {
                    Some(ours) => self.removed.push(json!({"remove_name": name, "remove_type": ours})),
                    None => self.left_out.push(format!("{path}: a network document removes no {kind}")),
                }
                return Ok(());
            }
            Some(state) => {
                self.left_out.push(format!("{path}: a network document has no link in state {state}"));
                return Ok(());
            }
        }
        let Some(ours) = of(&TYPES) else {
            self.left_out.push(format!("{path}: a network document has no {kind}"));
            return Ok(());
        };
        part.skip(&FOR_OTHERS);
        let mut link = Link::new(&path, ours, &name);
        match ours {
            "linux_bond" => self.bond(&mut link, &mut part)?,
            "linux_bridge" => self.linux_bridge(&mut link, &mut part)?,
            "ovs_bridge" => self.ovs_bridge(&mut link, &mut part)?,
            "vlan" => self.vlan(&mut link, &mut part)?,
            INTERNAL => {
                if let Some(mut patch) = part.part("patch")? {
                    if let Some(peer) = patch.text("peer")? {
                        link.set("peer", peer);
                    }
                    patch.end(&mut self.left_out);
                }
            }
            _ => {}
        }
        if let Some(mtu) = part.number("mtu")? {
            link.set("mtu", mtu);
        }
        for (key, option) in [("ipv4", "use_dhcp"), ("ipv6", "use_dhcpv6")] {
            if let Some(family) = part.part(key)? {
                self.family(&mut link, family, option)?;
            }
        }
        part.end(&mut self.left_out);
        self.links.push(link);
        Ok(())
    }

    fn family(&mut self, link: &mut Link, mut part: Part<'_>, option: &str) -> Result<(), Malformed> {
        part.skip(&FOR_OTHERS);
        let enabled = part.truth("enabled")?.unwrap_or(true);
        if let Some(leases) = part.truth("dhcp")? {
            link.set(option, leases && enabled);
        }
        if part.truth("auto-routes")? == Some(false) {
            link.set("defroute", false);
        }
        if part.truth("autoconf")? == Some(true) && enabled {
            let path = part.at("autoconf");
            self.left_out.push(format!("{path}: the kernel's own setting stays as it is"));
        }
        for mut address in part.parts("address")? {
            let ip = address.text("ip")?.ok_or_else(|| Malformed::new(address.at("ip"), "is missing"))?;
            let length = address.number("prefix-length")?;
            let length = length.ok_or_else(|| Malformed::new(address.at("prefix-length"), "is missing"))?;
            if enabled {
                link.add("addresses", json!({"ip_netmask": format!("{ip}/{length}")}));
            }
            address.end(&mut self.left_out);
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    fn bond(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let path = part.at("link-aggregation");
        let mut part = part.part("link-aggregation")?.ok_or_else(|| Malformed::new(&path, "is missing"))?;
        let mode = part.text("mode")?.ok_or_else(|| Malformed::new(part.at("mode"), "is missing"))?;
        let mut options = vec![format!("mode={mode}")];
        for (name, value) in part.named_values("options")? {
            let value = match value {
                Value::Bool(truth) => u8::from(*truth).to_string(),
                Value::String(text) => text.clone(),
                value @ (Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    value.to_string()
                }
            };
            options.push(format!("{name}={value}"));
        }
        // Before version 1.0 ports were slaves.
        for key in ["port", "slaves"] {
            link.members.extend(part.texts(key)?);
        }
        link.set("bonding_options", options.join(" "));
        part.end(&mut self.left_out);
        Ok(())
    }

    fn linux_bridge(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let Some(mut part) = part.part("bridge")? else { return Ok(()) };
        for mut port in part.parts("port")? {
            link.members.extend(port.text("name")?);
            port.end(&mut self.left_out);
        }
        self.bridge_options(&mut part)?;
        part.end(&mut self.left_out);
        Ok(())
    }

    /// Returns the fail mode of an Open vSwitch bridge. A bridge of a document has no spanning tree, so none is no
    /// difference.
    fn bridge_options(&mut self, part: &mut Part<'_>) -> Result<Option<String>, Malformed> {
        let Some(mut options) = part.part("options")? else { return Ok(None) };
        let fail_mode = options.text("fail-mode")?.filter(|mode| !mode.is_empty());
        for key in ["mcast-snooping-enable", "rstp"] {
            if options.truth(key)? == Some(true) {
                self.left_out.push(format!("{}: a network document has no such setting", options.at(key)));
            }
        }
        let path = options.at("stp");
        let stp = match options.take("stp") {
            Some(Value::Bool(truth)) => *truth,
            Some(stp) => {
                let mut stp = Part::of(&path, stp)?;
                let enabled = stp.truth("enabled")?.unwrap_or(false);
                stp.end(&mut self.left_out);
                enabled
            }
            None => false,
        };
        if stp {
            self.left_out.push(format!("{path}: a network document has no such setting"));
        }
        options.end(&mut self.left_out);
        Ok(fail_mode)
    }

    fn ovs_bridge(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let Some(mut part) = part.part("bridge")? else { return Ok(()) };
        if let Some(mode) = self.bridge_options(&mut part)? {
            link.set("ovs_fail_mode", mode);
        }
        for port in part.parts("port")? {
            self.ovs_port(link, port)?;
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    fn ovs_port(&mut self, bridge: &mut Link, mut part: Part<'_>) -> Result<(), Malformed> {
        let name = part.text("name")?.ok_or_else(|| Malformed::new(part.at("name"), "is missing"))?;
        let mut tag = None;
        if let Some(mut vlan) = part.part("vlan")? {
            let mode = vlan.text("mode")?.unwrap_or_default();
            tag = vlan.number("tag")?;
            if mode != "access" {
                self.left_out.push(format!("{}: a port of a network document is an access port", vlan.path));
            }
            vlan.end(&mut self.left_out);
        }
        bridge.members.push(name.clone());
        if let Some(mut bond) = part.part("link-aggregation")? {
            let mut link = Link::new(&part.path, "ovs_bond", &name);
            for mut port in bond.parts("port")? {
                link.members.extend(port.text("name")?);
                port.end(&mut self.left_out);
            }
            if let Some(mode) = bond.text("mode")? {
                link.set("ovs_options", format!("bond_mode={mode}"));
            }
            bond.end(&mut self.left_out);
            self.links.push(link);
        }
        self.ports.insert(name, (bridge.name.clone(), tag));
        part.end(&mut self.left_out);
        Ok(())
    }

    fn vlan(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let path = part.at("vlan");
        let mut part = part.part("vlan")?.ok_or_else(|| Malformed::new(&path, "is missing"))?;
        let id = part.number("id")?.ok_or_else(|| Malformed::new(part.at("id"), "is missing"))?;
        self.be_vlan(link, id);
        if let Some(carrier) = part.text("base-iface")? {
            link.carrier = Some(carrier);
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    /// A VLAN's link has no name of its own in a document.
    fn be_vlan(&mut self, link: &mut Link, id: u32) {
        link.set("type", "vlan");
        link.object.remove("name");
        link.set("vlan_id", id);
        let name = format!("vlan{id}");
        if link.name != name {
            self.left_out.push(format!("{}: the link is called {name} in a network document", link.path));
        }
    }

    /// Gives each port of Open vSwitch its place: a patch port, a VLAN, or its bridge itself.
    fn settle_ports(&mut self) {
        let (internal, others): (Vec<Link>, _) =
            std::mem::take(&mut self.links).into_iter().partition(|link| link.kind() == INTERNAL);
        self.links = others;
        for link in &mut self.links {
            if let Some((_, Some(tag))) = self.ports.get(&link.name) {
                link.set("ovs_extra", vec![format!("set port {} tag={tag}", link.name)]);
            }
        }
        for mut port in internal {
            match self.ports.get(&port.name).cloned() {
                Some((bridge, _)) if port.object.contains_key("peer") => {
                    port.set("type", "ovs_patch_port");
                    port.set("bridge_name", bridge);
                    self.links.push(port);
                }
                Some((_, Some(tag))) => {
                    self.be_vlan(&mut port, tag);
                    self.links.push(port);
                }
                place => self.internal(port, place.map(|(bridge, _)| bridge)),
            }
        }
    }

    /// An interface without a tag: that of its bridge, or one that no document has.
    fn internal(&mut self, port: Link, bridge: Option<String>) {
        let Some(bridge) = bridge else {
            return self.left_out.push(format!("{}: it is in no bridge", port.path));
        };
        if bridge != port.name {
            let why = "an internal port of a network document has its bridge's name, or a VLAN's tag";
            self.left_out.push(format!("{}: {why}", port.path));
        }
        let links = self.links.iter_mut();
        let Some(owner) = links.into_iter().find(|link| link.name == bridge) else { return };
        owner.members.retain(|member| *member != port.name);
        if bridge == port.name {
            let of_the_port =
                port.object.into_iter().filter(|(option, _)| option != "type" && option != "name");
            owner.object.extend(of_the_port);
        }
    }

    fn routes(&mut self, mut part: Part<'_>) -> Result<(), Malformed> {
        for mut part in part.parts("config")? {
            let path = part.path.clone();
            if part.text("state")?.as_deref() == Some("absent") {
                self.left_out.push(format!("{path}: a route goes by an update whose document lacks it"));
                continue;
            }
            let route = Route {
                to: part.text("destination")?.unwrap_or_default(),
                via: part.text("next-hop-address")?,
                metric: part.number("metric")?,
                table: part.number("table-id")?.filter(|table| *table != 254),
                source: part.text("source")?,
                onlink: false,
            };
            let interface = part.text("next-hop-interface")?;
            let link = interface.and_then(|name| self.links.iter_mut().find(|link| link.name == name));
            let written = match (link, part.text("route-type")?) {
                (_, Some(kind)) => Err(format!("a network document has no route of type {kind}")),
                (None, None) => Err("next-hop-interface names no interface of this file".to_owned()),
                (Some(link), None) => {
                    route.written().map(|route| link.add("routes", route)).map_err(ToOwned::to_owned)
                }
            };
            if let Err(why) = written {
                self.left_out.push(format!("{path}: {why}"));
            }
            part.end(&mut self.left_out);
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    /// Rules belong to no link there. In a document the first link with addresses has them.
    fn rules(&mut self, mut part: Part<'_>) -> Result<(), Malformed> {
        for mut part in part.parts("config")? {
            let path = part.path.clone();
            if part.text("state")?.as_deref() == Some("absent") {
                self.left_out.push(format!("{path}: a rule goes by an update whose document lacks it"));
                continue;
            }
            let mut words = Vec::new();
            for (key, word) in [("ip-from", "from"), ("ip-to", "to"), ("iif", "iif")] {
                words.push((word, part.text(key)?));
            }
            let mask = part.number("fwmask")?.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            words.push(("fwmark", part.number("fwmark")?.map(|mark| format!("{mark:#x}{mask}"))));
            words.push(("table", Some(part.text("route-table")?.unwrap_or_else(|| "254".to_owned()))));
            words.push(("priority", part.text("priority")?));
            match self.host() {
                Some(link) => link.add("rules", rule(&words)),
                None => self.left_out.push(format!("{path}: no interface of this file can have it")),
            }
            part.end(&mut self.left_out);
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    fn dns(&mut self, mut part: Part<'_>) -> Result<(), Malformed> {
        if let Some(mut config) = part.part("config")? {
            let (path, servers) = (config.at("server"), config.texts("server")?);
            let servers = Servers::default().take(&path, servers, &mut self.left_out);
            let domains = config.texts("search")?;
            match self.host() {
                Some(link) => {
                    link.set("dns_servers", servers);
                    link.set("domain", domains);
                }
                None => self.left_out.push(format!("{path}: no interface of this file can have them")),
            }
            config.end(&mut self.left_out);
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    /// The link that has what belongs to the whole server.
    fn host(&mut self) -> Option<&mut Link> {
        let speaks = |link: &Link| {
            ["addresses", "use_dhcp", "use_dhcpv6"].iter().any(|option| link.object.contains_key(*option))
        };
        let at = self.links.iter().position(speaks)?;
        self.links.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &str) -> Imported {
        nmstate(&muster_yaml::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn routes_rules_and_name_servers_go_to_their_interface() {
        let text = "interfaces:
- name: eth0
  type: ethernet
  state: up
  mtu: 1400
  ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.10, prefix-length: 24}]}
  ipv6: {enabled: false, address: [{ip: '2001:db8::1', prefix-length: 64}]}
- {name: eth1, state: up, ipv4: {enabled: true, dhcp: true, auto-routes: false, auto-dns: false}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: eth0, table-id: 254, metric: 5}
  - {destination: 198.51.100.0/24, next-hop-address: 192.0.2.1, next-hop-interface: eth9}
  - {destination: 198.51.100.0/24, state: absent}
route-rules: {config: [{ip-from: 192.0.2.0/24, priority: 10, route-table: 7, fwmark: 0x30, fwmask: 16}]}
dns-resolver: {config: {server: [192.0.2.53], search: [example.org]}}
hostname: {config: a}
";
        let Imported { document, left_out } = imported(text);
        assert_eq!(
            document["network_config"],
            json!([
                {"type": "interface", "name": "eth0", "mtu": 1400, "use_dhcp": false,
                 "addresses": [{"ip_netmask": "192.0.2.10/24"}],
                 "routes": [{"default": true, "next_hop": "192.0.2.1", "metric": 5}],
                 "rules": [{"rule": "from 192.0.2.0/24 fwmark 0x30/0x10 table 7 priority 10"}],
                 "dns_servers": ["192.0.2.53"], "domain": ["example.org"]},
                {"type": "interface", "name": "eth1", "use_dhcp": true, "defroute": false},
            ])
        );
        assert_eq!(
            left_out,
            [
                "hostname: a resource Muster::Hostname has the name of a server",
                "interfaces[1].ipv4.auto-dns: a network document has no such setting",
                "routes.config[1]: next-hop-interface names no interface of this file",
                "routes.config[2]: a route goes by an update whose document lacks it",
            ]
        );
    }

    #[test]
    fn bonds_bridges_and_vlans_have_their_members() {
        let text = "interfaces:
- {name: vlan7, type: vlan, vlan: {base-iface: bond0, id: 7}}
- {name: br0, type: linux-bridge, bridge: {port: [{name: vlan7}], options: {stp: {enabled: false}}}}
- {name: bond0, type: bond, link-aggregation: {mode: active-backup, options: {miimon: 100, primary: eth0}, port: [eth0, eth1]}}
- {name: old0, type: linux-bridge, state: absent}
- {name: old1, state: absent}
- {name: eth3, type: ethernet, state: down}
- {name: v0, type: vrf}
";
        let Imported { document, left_out } = imported(text);
        assert_eq!(
            document,
            json!({
                "network_config": [
                    {"type": "linux_bridge", "name": "br0", "members": [{"type": "vlan", "vlan_id": 7, "device": "bond0"}]},
                    {"type": "linux_bond", "name": "bond0", "bonding_options": "mode=active-backup miimon=100 primary=eth0",
                     "members": [{"type": "interface", "name": "eth0"}, {"type": "interface", "name": "eth1"}]},
                ],
                "remove_config": [{"remove_name": "old0", "remove_type": "linux_bridge"}],
            })
        );
        assert_eq!(
            left_out,
            [
                "interfaces[4]: a network document removes a link by its type: write that",
                "interfaces[5]: a network document has no link in state down",
                "interfaces[6]: a network document has no vrf",
            ]
        );
    }

    #[test]
    fn ports_of_open_vswitch_find_their_place() {
        let text = "interfaces:
- {name: br0, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 192.0.2.1, prefix-length: 24}]}}
- {name: vlan5, type: ovs-interface, ipv4: {enabled: true, address: [{ip: 192.0.2.5, prefix-length: 24}]}}
- {name: odd, type: ovs-interface}
- {name: to1, type: ovs-interface, patch: {peer: to0}}
- name: br0
  type: ovs-bridge
  bridge:
    options: {fail-mode: secure, stp: true}
    port:
    - {name: br0}
    - {name: vlan5, vlan: {mode: access, tag: 5}}
    - {name: odd}
    - {name: to1}
    - {name: eth0, vlan: {mode: access, tag: 9}}
    - {name: pair, link-aggregation: {mode: balance-slb, port: [{name: eth1}, {name: eth2}]}}
- {name: eth0, type: ethernet}
";
        let Imported { document, left_out } = imported(text);
        assert_eq!(
            document["network_config"],
            json!([{"type": "ovs_bridge", "name": "br0", "ovs_fail_mode": "secure", "addresses": [{"ip_netmask": "192.0.2.1/24"}],
            "members": [
                {"type": "vlan", "vlan_id": 5, "addresses": [{"ip_netmask": "192.0.2.5/24"}]},
                {"type": "ovs_patch_port", "name": "to1", "bridge_name": "br0", "peer": "to0"},
                {"type": "interface", "name": "eth0", "ovs_extra": ["set port eth0 tag=9"]},
                {"type": "ovs_bond", "name": "pair", "ovs_options": "bond_mode=balance-slb",
                 "members": [{"type": "interface", "name": "eth1"}, {"type": "interface", "name": "eth2"}]},
            ]}])
        );
        assert_eq!(
            left_out,
            [
                "interfaces[4].bridge.options.stp: a network document has no such setting",
                "interfaces[2]: an internal port of a network document has its bridge's name, or a VLAN's tag",
            ]
        );
    }

    #[test]
    fn a_vlan_names_its_carrier_as_the_document_does() {
        let text = "interfaces:
- {name: v9, type: vlan, vlan: {base-iface: v7, id: 9}}
- {name: v7, type: vlan, vlan: {base-iface: eth0, id: 7}}
";
        let Imported { document, .. } = imported(text);
        assert_eq!(
            document["network_config"],
            json!([
                {"type": "vlan", "vlan_id": 9, "device": "vlan7"},
                {"type": "vlan", "vlan_id": 7, "device": "eth0"},
            ])
        );
    }

    #[test]
    fn other_files_are_refused_with_the_place() {
        for (text, wanted) in [
            ("{}", "interfaces: is missing: this is not a state of nmstate"),
            ("interfaces: {}", "interfaces: a list is wanted"),
            ("interfaces: [{type: bond}]", "interfaces[0].name: is missing"),
            ("interfaces: [{name: b, type: bond}]", "interfaces[0].link-aggregation: is missing"),
            (
                "interfaces: [{name: v, type: vlan, vlan: {id: x}}]",
                "interfaces[0].vlan.id: a number from 0 to 4294967295 is wanted",
            ),
        ] {
            let error = nmstate(&muster_yaml::parse(text).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), wanted, "{text}");
        }
    }
}
