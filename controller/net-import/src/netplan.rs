//! Netplan's YAML (version 2) as a network document.
//!
//! A file names a link by an id. The link's own name is `set-name`, the name in `match`, or the id itself.
//!
//! Absent: links that a document does not have (Wi-Fi, modems, tunnels, VRFs, dummy links), which are left out by name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::assemble::{Link, assemble};
use crate::layer3::{Route, Servers, rule, with_prefix};
use crate::ovs::{self, Setting};
use crate::part::{Part, text};
use crate::{Imported, Malformed};

/// Sections of links that no document has.
const FOREIGN: [&str; 7] =
    ["dummy-devices", "modems", "nm-devices", "tunnels", "virtual-ethernets", "vrfs", "wifis"];

/// A bond's parameters with the kernel's names.
const BOND: [(&str, &str); 19] = [
    ("mode", "mode"),
    ("lacp-rate", "lacp_rate"),
    ("mii-monitor-interval", "miimon"),
    ("min-links", "min_links"),
    ("transmit-hash-policy", "xmit_hash_policy"),
    ("ad-select", "ad_select"),
    ("all-members-active", "all_slaves_active"),
    ("all-slaves-active", "all_slaves_active"),
    ("arp-interval", "arp_interval"),
    ("arp-validate", "arp_validate"),
    ("arp-all-targets", "arp_all_targets"),
    ("up-delay", "updelay"),
    ("down-delay", "downdelay"),
    ("fail-over-mac-policy", "fail_over_mac"),
    ("gratuitous-arp", "num_grat_arp"),
    ("packets-per-member", "packets_per_slave"),
    ("primary-reselect-policy", "primary_reselect"),
    ("resend-igmp", "resend_igmp"),
    ("learn-packet-interval", "lp_interval"),
];
/// Parameters that are times: milliseconds, or with a unit.
const TIMES: [&str; 4] = ["arp-interval", "down-delay", "mii-monitor-interval", "up-delay"];
/// Offloads, and the kernel's features that they switch, as systemd-networkd does.
const OFFLOADS: [(&str, &str); 7] = [
    ("receive-checksum-offload", "rx"),
    ("transmit-checksum-offload", "tx"),
    ("tcp-segmentation-offload", "tx-tcp-segmentation"),
    ("tcp6-segmentation-offload", "tx-tcp6-segmentation"),
    ("generic-segmentation-offload", "gso"),
    ("generic-receive-offload", "gro"),
    ("large-receive-offload", "lro"),
];
/// Settings for the tools that apply netplan's files.
const FOR_OTHERS: [&str; 5] = ["critical", "ignore-carrier", "optional", "optional-addresses", "renderer"];

/// Makes a document of these files' contents. A later file adds to the ones before, and its settings go first.
///
/// # Errors
/// A file that is not netplan's, with the place.
pub fn netplan(files: Vec<Value>) -> Result<Imported, Malformed> {
    let mut all = Value::Null;
    for file in files {
        merge(&mut all, file);
    }
    let mut top = Part::of("", &all)?;
    let mut network = top
        .part("network")?
        .ok_or_else(|| Malformed::new("network", "is missing: this is not a file of netplan"))?;
    let mut import = Import::default();
    top.end(&mut import.left_out);
    if let Some(version) = network.number("version")?.filter(|version| *version != 2) {
        return Err(Malformed::new(network.at("version"), format!("2 is read, not {version}")));
    }
    network.skip(&FOR_OTHERS);
    let mut patches = Vec::new();
    if let Some(mut switch) = network.part("openvswitch")? {
        patches = switch.items("ports")?;
        import.protocols = (switch.at("protocols"), switch.texts("protocols")?);
        switch.end(&mut import.left_out);
    }
    import.ethernets(&mut network)?;
    import.bonds(&mut network)?;
    import.bridges(&mut network)?;
    import.vlans(&mut network)?;
    for (path, ends) in patches {
        import.patch(&path, ends)?;
    }
    for section in FOREIGN {
        for (_, link) in network.named(section)? {
            import.left_out.push(format!("{}: a network document has no such link", link.path));
        }
    }
    network.end(&mut import.left_out);
    assemble(import.links, Vec::new(), import.left_out, import.absent)
}

/// Netplan's own rule: maps grow together, lists are appended, and of two values the later one counts.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (_, Value::Null) => {}
        (into, from) => *into = from,
    }
}

#[derive(Default)]
struct Import {
    links: Vec<Link>,
    /// The name of each link, by its id. `None`: it has one that the file does not know.
    names: BTreeMap<String, Option<String>>,
    /// The ids of VLANs that are left out.
    absent: BTreeSet<String>,
    /// The place and the names of the protocols of bridges that name none.
    protocols: (String, Vec<String>),
    servers: Servers,
    left_out: Vec<String>,
}

impl Import {
    fn ethernets(&mut self, network: &mut Part<'_>) -> Result<(), Malformed> {
        for (id, mut part) in network.named("ethernets")? {
            let name = self.name_of(id, &mut part)?;
            self.names.insert(id.to_owned(), name.clone());
            let Some(name) = name else { continue };
            let mut link = Link::new(&part.path, "interface", &name);
            let mut offloads = String::new();
            for (key, feature) in OFFLOADS {
                if let Some(truth) = part.truth(key)? {
                    offloads.push_str(&format!(" {feature} {}", if truth { "on" } else { "off" }));
                }
            }
            if !offloads.is_empty() {
                link.set("ethtool_opts", format!("-K ${{DEVICE}}{offloads}"));
            }
            if let Some(switch) = part.part("openvswitch")? {
                self.switched(&mut link, switch, "interface")?;
            }
            self.common(&mut link, &mut part)?;
            self.end(link, part);
        }
        Ok(())
    }

    /// The link's own name. A document names links, so one that only its card tells has none.
    fn name_of(&mut self, id: &str, part: &mut Part<'_>) -> Result<Option<String>, Malformed> {
        let given = part.text("set-name")?;
        let Some(mut wanted) = part.part("match")? else {
            return Ok(Some(given.unwrap_or_else(|| id.to_owned())));
        };
        let by_name = wanted.text("name")?;
        let is_exact = by_name.as_ref().is_some_and(|name| !name.contains(['*', '?', '[']));
        let mut by = wanted.unread();
        let name = given.clone().or_else(|| by_name.clone().filter(|_| is_exact));
        let Some(name) = name else {
            let by = if by.is_empty() { wanted.path } else { by.join(", ") };
            self.left_out.push(format!("{}: a network document has the link's name, not {by}", part.path));
            return Ok(None);
        };
        if by_name.is_some_and(|wanted| wanted != name) {
            by.push(wanted.at("name"));
        }
        self.left_out
            .extend(by.into_iter().map(|by| format!("{by}: a network document has the link's name alone")));
        Ok(Some(name))
    }

    /// Takes what links of all kinds have in Open vSwitch.
    fn switched(
        &mut self,
        link: &mut Link,
        mut switch: Part<'_>,
        table: &'static str,
    ) -> Result<(), Malformed> {
        for (key, column) in [("external-ids", "external_ids"), ("other-config", "other_config")] {
            ovs::map(link, &mut switch, key, (table, column), &mut self.left_out)?;
        }
        switch.end(&mut self.left_out);
        Ok(())
    }

    fn bonds(&mut self, network: &mut Part<'_>) -> Result<(), Malformed> {
        for (id, mut part) in network.named("bonds")? {
            self.names.insert(id.to_owned(), Some(id.to_owned()));
            let switch = part.part("openvswitch")?;
            let kind = if switch.is_some() { "ovs_bond" } else { "linux_bond" };
            let mut link = Link::new(&part.path, kind, id);
            link.members = self.members(&mut part)?;
            let parameters = part.part("parameters")?;
            match switch {
                Some(switch) => self.switched_bond(&mut link, switch, parameters)?,
                None => {
                    let options = parameters.map(|parameters| self.bond_options(parameters)).transpose()?;
                    let options = options.filter(|options| !options.is_empty());
                    link.set(
                        "bonding_options",
                        options.map_or("mode=balance-rr".to_owned(), |it| it.join(" ")),
                    );
                }
            }
            self.common(&mut link, &mut part)?;
            self.end(link, part);
        }
        Ok(())
    }

    /// A bond of Open vSwitch has its own modes.
    fn switched_bond(
        &mut self,
        link: &mut Link,
        mut switch: Part<'_>,
        parameters: Option<Part<'_>>,
    ) -> Result<(), Malformed> {
        let mut options = Vec::new();
        if let Some(mut parameters) = parameters {
            options.extend(parameters.text("mode")?.map(|mode| format!("bond_mode={mode}")));
            parameters.end(&mut self.left_out);
        }
        options.extend(switch.text("lacp")?.map(|lacp| format!("lacp={lacp}")));
        self.switched(link, switch, "port")?;
        if !options.is_empty() {
            link.set("ovs_options", options.join(" "));
        }
        Ok(())
    }

    fn bond_options(&mut self, mut part: Part<'_>) -> Result<Vec<String>, Malformed> {
        let mut options = Vec::new();
        for (parameter, option) in BOND {
            let path = part.at(parameter);
            let Some(value) = part.take(parameter) else { continue };
            let written = if let Value::Bool(truth) = value {
                u8::from(*truth).to_string()
            } else {
                text(&path, value)?
            };
            let written = if TIMES.contains(&parameter) { milliseconds(&path, &written)? } else { written };
            options.push(format!("{option}={written}"));
        }
        if let Some(primary) = part.text("primary")? {
            options.push(format!("primary={}", self.name(&primary)));
        }
        part.end(&mut self.left_out);
        Ok(options)
    }

    fn bridges(&mut self, network: &mut Part<'_>) -> Result<(), Malformed> {
        for (id, mut part) in network.named("bridges")? {
            self.names.insert(id.to_owned(), Some(id.to_owned()));
            let switch = part.part("openvswitch")?;
            let kind = if switch.is_some() { "ovs_bridge" } else { "linux_bridge" };
            let mut link = Link::new(&part.path, kind, id);
            link.members = self.members(&mut part)?;
            if let Some(mut switch) = switch {
                self.switched_bridge(&mut link, &mut switch)?;
                self.switched(&mut link, switch, "bridge")?;
            }
            if let Some(parameters) = part.part("parameters")? {
                parameters.end(&mut self.left_out);
            }
            self.common(&mut link, &mut part)?;
            self.end(link, part);
        }
        Ok(())
    }

    fn switched_bridge(&mut self, link: &mut Link, switch: &mut Part<'_>) -> Result<(), Malformed> {
        if let Some(mode) = switch.text("fail-mode")? {
            link.set("ovs_fail_mode", mode);
        }
        for (key, column) in [("mcast-snooping", "mcast_snooping_enable"), ("rstp", "rstp_enable")] {
            if let Some(truth) = switch.truth(key)? {
                link.settings.push(Setting::new(switch.at(key), "bridge", column, truth));
            }
        }
        let (path, names) = (switch.at("protocols"), switch.texts("protocols")?);
        let (path, names) = if names.is_empty() { &self.protocols } else { &(path, names) };
        ovs::protocols(link, path, names, &mut self.left_out);
        Ok(())
    }

    fn vlans(&mut self, network: &mut Part<'_>) -> Result<(), Malformed> {
        for (id, mut part) in network.named("vlans")? {
            let mut link = Link::new(&part.path, "vlan", id);
            link.object.remove("name");
            let number = part.number("id")?;
            let number =
                number.ok_or_else(|| Malformed::new(part.at("id"), "is missing: the number of the VLAN"))?;
            link.set("vlan_id", number);
            let name = format!("vlan{number}");
            if id != name {
                self.left_out.push(format!("{}: the link is called {name} in a network document", part.path));
            }
            if let Some(carrier) = part.text("link")? {
                if self.names.get(&carrier).is_some_and(Option::is_none) {
                    self.left_out.push(format!("{}: {carrier}, which carries it, is left out", part.path));
                    self.absent.insert(id.to_owned());
                    continue;
                }
                let carrier = self.name(&carrier);
                let is_switch = |link: &&mut Link| link.name == carrier && link.kind() == "ovs_bridge";
                match self.links.iter_mut().find(is_switch) {
                    Some(bridge) => bridge.members.push(id.to_owned()),
                    None => link.carrier = Some(carrier),
                }
            }
            self.common(&mut link, &mut part)?;
            self.end(link, part);
        }
        Ok(())
    }

    /// A pair of ports: in a document, each is a member of its bridge.
    fn patch(&mut self, path: &str, ends: &Value) -> Result<(), Malformed> {
        let [one, other] = ends.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(Malformed::new(path, "a list of two ports is wanted"));
        };
        let (one, other) = (text(path, one)?, text(path, other)?);
        let bridge = |name: &String| {
            let has = |link: &&Link| link.kind() == "ovs_bridge" && link.members.contains(name);
            self.links.iter().find(has).map(|bridge| bridge.name.clone())
        };
        let (Some(first), Some(second)) = (bridge(&one), bridge(&other)) else {
            let why = "are interfaces in the document: a patch joins two bridges there";
            self.left_out.push(format!("{path}: {one} and {other} {why}"));
            return Ok(());
        };
        for (name, peer, bridge) in [(&one, &other, first), (&other, &one, second)] {
            let mut link = Link::new(path, "ovs_patch_port", name);
            link.set("bridge_name", bridge);
            link.set("peer", peer.as_str());
            self.links.push(link);
        }
        Ok(())
    }

    /// The name behind an id. One that the file does not describe is a name itself.
    fn name(&self, id: &str) -> String {
        self.names.get(id).cloned().flatten().unwrap_or_else(|| id.to_owned())
    }

    fn members(&mut self, part: &mut Part<'_>) -> Result<Vec<String>, Malformed> {
        let path = part.at("interfaces");
        let mut members = Vec::new();
        for id in part.texts("interfaces")? {
            if self.names.get(&id).is_some_and(Option::is_none) {
                self.left_out.push(format!("{path}: {id} is left out, so it is no member"));
            } else {
                members.push(self.name(&id));
            }
        }
        Ok(members)
    }

    /// Takes the settings that links of all kinds have.
    fn common(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        part.skip(&FOR_OTHERS);
        if let Some(mtu) = part.number("mtu")? {
            link.set("mtu", mtu);
        }
        for (key, option) in [("dhcp4", "use_dhcp"), ("dhcp6", "use_dhcpv6")] {
            if let Some(truth) = part.truth(key)? {
                link.set(option, truth);
            }
        }
        if let Some(mut overrides) = part.part("dhcp4-overrides")? {
            if overrides.truth("use-routes")? == Some(false) {
                link.set("defroute", false);
            }
            overrides.end(&mut self.left_out);
        }
        for (path, address) in part.items("addresses")? {
            let address = self.address(&path, address)?;
            link.add("addresses", json!({"ip_netmask": with_prefix(&address)}));
        }
        for key in ["gateway4", "gateway6"] {
            let Some(via) = part.text(key)? else { continue };
            link.add("routes", json!({"default": true, "next_hop": via}));
        }
        for route in part.parts("routes")? {
            self.route(link, route)?;
        }
        for policy in part.parts("routing-policy")? {
            self.policy(link, policy)?;
        }
        if let Some(mut names) = part.part("nameservers")? {
            let (path, servers) = (names.at("addresses"), names.texts("addresses")?);
            let servers = self.servers.take(&path, servers, &mut self.left_out);
            if !servers.is_empty() {
                link.set("dns_servers", servers);
            }
            let domains = names.texts("search")?;
            if !domains.is_empty() {
                link.set("domain", domains);
            }
            names.end(&mut self.left_out);
        }
        Ok(())
    }

    /// An address, or a map with one key, whose value are settings of the address.
    fn address(&mut self, path: &str, value: &Value) -> Result<String, Malformed> {
        let Value::Object(map) = value else { return text(path, value) };
        let mut only = map.iter();
        match (only.next(), only.next()) {
            (Some((address, settings)), None) => {
                Part::of(format!("{path}.{address}"), settings)?.end(&mut self.left_out);
                Ok(address.clone())
            }
            _ => Err(Malformed::new(path, "an address is wanted, or one with its settings")),
        }
    }

    fn route(&mut self, link: &mut Link, mut part: Part<'_>) -> Result<(), Malformed> {
        let path = part.path.clone();
        let route = Route {
            to: part.text("to")?.unwrap_or_default(),
            via: part.text("via")?,
            metric: part.number("metric")?,
            table: part.number("table")?,
            source: part.text("from")?,
            onlink: part.truth("on-link")?.unwrap_or(false),
        };
        let kind = part.text("type")?.filter(|kind| kind != "unicast");
        let written = match kind {
            Some(_) => Err("a network document has routes of type unicast alone"),
            None => route.written(),
        };
        match written {
            Ok(route) => link.add("routes", route),
            Err(why) => self.left_out.push(format!("{path}: {why}")),
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    fn policy(&mut self, link: &mut Link, mut part: Part<'_>) -> Result<(), Malformed> {
        let mut words = Vec::new();
        for (key, word) in [
            ("from", "from"),
            ("to", "to"),
            ("mark", "fwmark"),
            ("type-of-service", "tos"),
            ("table", "table"),
            ("priority", "priority"),
        ] {
            words.push((word, part.text(key)?));
        }
        link.add("rules", rule(&words));
        part.end(&mut self.left_out);
        Ok(())
    }

    fn end(&mut self, link: Link, part: Part<'_>) {
        part.end(&mut self.left_out);
        self.links.push(link);
    }
}

/// Netplan's time: milliseconds, or a number with `ms` or `s`.
fn milliseconds(path: &str, written: &str) -> Result<String, Malformed> {
    let (number, factor) = match (written.strip_suffix("ms"), written.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1_000),
        (None, None) => (written, 1),
    };
    let number = number.trim().parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
    match number {
        Some(number) => Ok(number.to_string()),
        None => Err(Malformed::new(path, "a time in milliseconds is wanted, or with ms or s behind it")),
    }
}

#[cfg(test)]
mod tests;
