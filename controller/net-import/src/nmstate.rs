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
use crate::ovs::{self, Setting};
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
/// Parts of `ethtool` whose words are ethtool's own: the option, and the words.
const ETHTOOL: [(&str, &str, &[&str]); 3] = [
    ("pause", "-A", &["autoneg", "rx", "tx"]),
    ("ring", "-G", &["rx", "rx-mini", "rx-jumbo", "tx"]),
    (
        "coalesce",
        "-C",
        &[
            "adaptive-rx",
            "adaptive-tx",
            "rx-usecs",
            "rx-frames",
            "rx-usecs-irq",
            "rx-frames-irq",
            "tx-usecs",
            "tx-frames",
            "tx-usecs-irq",
            "tx-frames-irq",
            "stats-block-usecs",
            "pkt-rate-low",
            "rx-usecs-low",
            "rx-frames-low",
            "tx-usecs-low",
            "tx-frames-low",
            "pkt-rate-high",
            "rx-usecs-high",
            "rx-frames-high",
            "tx-usecs-high",
            "tx-frames-high",
            "sample-interval",
        ],
    ),
];
/// The highest number of a VLAN that a trunk can have.
const TRUNK_MAX: u32 = 4_095;
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
    /// The ports of bridges of Open vSwitch, by name.
    ports: BTreeMap<String, Port>,
    removed: Vec<Value>,
    left_out: Vec<String>,
}

/// A port of a bridge of Open vSwitch.
#[derive(Clone)]
struct Port {
    path: String,
    bridge: String,
    /// The VLAN of an access port.
    tag: Option<u32>,
    /// The settings of its row in the database, with the tag.
    settings: Vec<Setting>,
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
            "interface" => self.card(&mut link, &mut part)?,
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
        if let Some(row) = part.part("ovs-db")? {
            self.row(&mut link, row, if ours == "ovs_bridge" { "bridge" } else { "interface" })?;
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

    /// Takes a card's own settings, in the words of ethtool.
    fn card(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let mut commands: Vec<String> = Vec::new();
        let mut say = |option: &str, words: String| {
            if !words.is_empty() {
                commands.push(format!("{option} ${{DEVICE}}{words}"));
            }
        };
        if let Some(mut card) = part.part("ethernet")? {
            let mut words = card.number("speed")?.map(|speed| format!(" speed {speed}")).unwrap_or_default();
            match card.text("duplex")?.as_deref() {
                Some(duplex @ ("full" | "half")) => words.push_str(&format!(" duplex {duplex}")),
                Some(_) => self
                    .left_out
                    .push(format!("{}: full and half are in a network document", card.at("duplex"))),
                None => {}
            }
            let negotiates = card.truth("auto-negotiation")?;
            words.push_str(&negotiates.map(|truth| format!(" autoneg {}", on(truth))).unwrap_or_default());
            say("-s", words);
            card.end(&mut self.left_out);
        }
        if let Some(mut settings) = part.part("ethtool")? {
            for (key, option, known) in ETHTOOL {
                let Some(mut these) = settings.part(key)? else { continue };
                let mut words = String::new();
                for word in known {
                    let is_truth = key == "pause" || word.starts_with("adaptive-");
                    let value = match is_truth {
                        true => these.truth(word)?.map(|truth| on(truth).to_owned()),
                        false => these.number(word)?.map(|number| number.to_string()),
                    };
                    words.push_str(&value.map(|value| format!(" {word} {value}")).unwrap_or_default());
                }
                say(option, words);
                these.end(&mut self.left_out);
            }
            let mut words = String::new();
            if let Some(mut features) = settings.part("feature")? {
                for feature in features.keys() {
                    let is_word = feature.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                    if is_word && let Some(truth) = features.truth(feature)? {
                        words.push_str(&format!(" {feature} {}", on(truth)));
                    }
                }
                features.end(&mut self.left_out);
            }
            say("-K", words);
            settings.end(&mut self.left_out);
        }
        if !commands.is_empty() {
            link.set("ethtool_opts", commands.join("; "));
        }
        Ok(())
    }

    /// Takes what a link's row in Open vSwitch's database has besides.
    fn row(&mut self, link: &mut Link, mut row: Part<'_>, table: &'static str) -> Result<(), Malformed> {
        for column in ["external_ids", "other_config"] {
            ovs::map(link, &mut row, column, (table, column), &mut self.left_out)?;
        }
        row.end(&mut self.left_out);
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
        self.linux_options(&mut part)?;
        part.end(&mut self.left_out);
        Ok(())
    }

    /// A Linux bridge of a document has no spanning tree, so none is no difference.
    fn linux_options(&mut self, part: &mut Part<'_>) -> Result<(), Malformed> {
        let Some(mut options) = part.part("options")? else { return Ok(()) };
        let path = options.at("stp");
        if self.spanning_tree(&mut options)? == Some(true) {
            self.left_out.push(format!("{path}: a network document has no such setting"));
        }
        options.end(&mut self.left_out);
        Ok(())
    }

    /// Whether the bridge has a spanning tree: a truth, or a map with one.
    fn spanning_tree(&mut self, options: &mut Part<'_>) -> Result<Option<bool>, Malformed> {
        let path = options.at("stp");
        match options.take("stp") {
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(stp) => {
                let mut stp = Part::of(&path, stp)?;
                let enabled = stp.truth("enabled")?;
                stp.end(&mut self.left_out);
                Ok(enabled)
            }
            None => Ok(None),
        }
    }

    fn ovs_bridge(&mut self, link: &mut Link, part: &mut Part<'_>) -> Result<(), Malformed> {
        let Some(mut part) = part.part("bridge")? else { return Ok(()) };
        if let Some(mut options) = part.part("options")? {
            if let Some(mode) = options.text("fail-mode")?.filter(|mode| !mode.is_empty()) {
                link.set("ovs_fail_mode", mode);
            }
            let stp = self.spanning_tree(&mut options)?;
            for (key, column, truth) in [
                ("stp", "stp_enable", stp),
                ("rstp", "rstp_enable", options.truth("rstp")?),
                ("mcast-snooping-enable", "mcast_snooping_enable", options.truth("mcast-snooping-enable")?),
            ] {
                let setting = |truth: bool| Setting::new(options.at(key), "bridge", column, truth);
                link.settings.extend(truth.map(setting));
            }
            options.end(&mut self.left_out);
        }
        for port in part.parts("port")? {
            self.ovs_port(link, port)?;
        }
        part.end(&mut self.left_out);
        Ok(())
    }

    fn ovs_port(&mut self, bridge: &mut Link, mut part: Part<'_>) -> Result<(), Malformed> {
        let name = part.text("name")?.ok_or_else(|| Malformed::new(part.at("name"), "is missing"))?;
        let mut port =
            Port { path: part.path.clone(), bridge: bridge.name.clone(), tag: None, settings: Vec::new() };
        if let Some(vlan) = part.part("vlan")? {
            self.port_vlan(&mut port, vlan)?;
        }
        if let Some(bond) = part.part("link-aggregation")? {
            let link = self.ovs_bond(Link::new(&part.path, "ovs_bond", &name), bond)?;
            self.links.push(link);
        }
        part.end(&mut self.left_out);
        // A bridge's own port is in the document as the bridge itself.
        if name == bridge.name {
            bridge.settings.append(&mut port.settings);
            port.tag = None;
        } else {
            bridge.members.push(name.clone());
        }
        self.ports.insert(name, port);
        Ok(())
    }

    fn ovs_bond(&mut self, mut link: Link, mut part: Part<'_>) -> Result<Link, Malformed> {
        for mut port in part.parts("port")? {
            link.members.extend(port.text("name")?);
            port.end(&mut self.left_out);
        }
        if let Some(mode) = part.text("mode")? {
            link.set("ovs_options", format!("bond_mode={mode}"));
        }
        for (key, column) in [("bond-updelay", "bond_updelay"), ("bond-downdelay", "bond_downdelay")] {
            if let Some(delay) = part.number(key)? {
                link.settings.push(Setting::new(part.at(key), "port", column, delay));
            }
        }
        if let Some(row) = part.part("ovs-db")? {
            self.row(&mut link, row, "port")?;
        }
        part.end(&mut self.left_out);
        Ok(link)
    }

    /// The VLANs of a port: one of an access port, or those of a trunk.
    fn port_vlan(&mut self, port: &mut Port, mut part: Part<'_>) -> Result<(), Malformed> {
        let path = part.path.clone();
        let mode = part.text("mode")?;
        let (tag_path, tag) = (part.at("tag"), part.number("tag")?);
        let is_native = part.truth("enable-native")?.unwrap_or(false);
        let (trunk_path, trunks) = (part.at("trunk-tags"), self.trunks(&mut part)?);
        part.end(&mut self.left_out);
        match mode.as_deref() {
            None | Some("access") => {
                port.tag = tag.filter(|tag| *tag != 0);
                if tag == Some(0) {
                    self.left_out
                        .push(format!("{tag_path}: an access port of a network document has a VLAN"));
                }
                if !trunks.is_empty() {
                    self.left_out.push(format!("{trunk_path}: an access port has one VLAN"));
                }
            }
            Some("trunk") => {
                // Packets that enter and leave without a tag are in the VLAN of `tag`.
                let native = tag.filter(|tag| is_native && *tag != 0);
                let mode = if native.is_some() { "native-untagged" } else { "trunk" };
                port.settings.push(Setting::new(&path, "port", "vlan_mode", mode));
                port.settings.extend(native.map(|tag| Setting::new(&tag_path, "port", "tag", tag)));
                port.settings.extend(Setting::trunks(&trunk_path, &trunks));
                if tag.is_some_and(|tag| tag != 0) && !is_native {
                    self.left_out.push(format!("{tag_path}: a trunk has a VLAN of its own by enable-native"));
                }
            }
            Some(mode) => {
                self.left_out.push(format!("{path}: a port of a network document has no mode {mode}"));
            }
        }
        port.settings.extend(port.tag.map(|tag| Setting::new(&tag_path, "port", "tag", tag)));
        Ok(())
    }

    /// The VLANs of a trunk, in order.
    fn trunks(&mut self, part: &mut Part<'_>) -> Result<Vec<u32>, Malformed> {
        let mut trunks = BTreeSet::new();
        for mut item in part.parts("trunk-tags")? {
            let path = item.path.clone();
            let (first, last) = match item.part("id-range")? {
                Some(mut range) => {
                    let ends = (range.number("min")?, range.number("max")?);
                    range.end(&mut self.left_out);
                    ends
                }
                None => {
                    let id = item.number("id")?;
                    (id, id)
                }
            };
            item.end(&mut self.left_out);
            match (first, last) {
                (Some(first), Some(last)) if first <= last && last <= TRUNK_MAX => {
                    trunks.extend(first..=last)
                }
                _ => {
                    let problem = format!("id is wanted, or id-range with min and max, up to {TRUNK_MAX}");
                    return Err(Malformed::new(path, problem));
                }
            }
        }
        Ok(trunks.into_iter().collect())
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
        // An interface that the file does not describe may have settings as a port.
        let described: BTreeSet<String> = self.links.iter().map(|link| link.name.clone()).collect();
        let others =
            self.ports.iter().filter(|(name, port)| !port.settings.is_empty() && !described.contains(*name));
        let others: Vec<Link> = others.map(|(name, port)| Link::new(&port.path, "interface", name)).collect();
        self.links.extend(others);
        let (internal, others): (Vec<Link>, _) =
            std::mem::take(&mut self.links).into_iter().partition(|link| link.kind() == INTERNAL);
        self.links = others;
        for link in &mut self.links {
            let port = self.ports.get_mut(&link.name);
            link.settings.extend(port.into_iter().flat_map(|port| std::mem::take(&mut port.settings)));
        }
        for mut link in internal {
            match self.ports.get(&link.name).cloned() {
                Some(Port { bridge, settings, .. }) if link.object.contains_key("peer") => {
                    link.set("type", "ovs_patch_port");
                    link.set("bridge_name", bridge);
                    link.settings.extend(settings);
                    self.links.push(link);
                }
                Some(Port { tag: Some(tag), .. }) => {
                    self.be_vlan(&mut link, tag);
                    self.links.push(link);
                }
                place => self.internal(link, place.map(|port| port.bridge)),
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
            owner.settings.extend(port.settings);
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

fn on(truth: bool) -> &'static str {
    if truth { "on" } else { "off" }
}

#[cfg(test)]
mod tests;
