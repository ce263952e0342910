//! Parses a JSON value into a document. The first fault, with its path, ends the parsing.
//!
//! Absent: unknown types and options (`network/schema.rs`), which of the known ones are supported (`support.rs`), and
//! checks across objects (`check.rs`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::alias;
use super::check::{check_carriers, check_devices, check_primary, check_settings, settings, take_tags};
use super::layer3::{addresses, check_routes, check_rules, give_metrics, routes, rules};
use super::support::{Support, check_option, of_type};
use super::value::{boolean, fields, link_name, list, number, quoted, required_name, text};
use super::{
    BondOptions, LinkName, MAX_FALLBACK, MAX_OBJECTS, NetworkDocument, NetworkError, Object, ObjectKind,
    Removal, RouteTable, all, bond, dhcp, dns, ethtool, schema, support,
};

pub(super) type Parsed<T> = Result<T, NetworkError>;
/// Names of routing tables.
pub(super) type Tables = BTreeMap<String, u32>;

/// The sections of a document that is a map.
pub(super) const SECTIONS: [&str; 4] =
    ["network_config", "fallback_config", "minimum_config", "remove_config"];
/// The most links that one document removes.
const MAX_REMOVALS: usize = MAX_OBJECTS;
/// The longest name that `rt_tables` accepts.
const MAX_TABLE_NAME: usize = 64;

/// The place of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    Top,
    InLinuxBridge,
    InOvsBridge(&'a LinkName),
    InBond,
}

pub(super) fn document(value: &Value) -> Parsed<NetworkDocument> {
    let root = "network_config";
    let none = Map::new();
    let nothing = Vec::new();
    let (objects, sections) = match value {
        Value::Array(objects) => (objects, &none),
        Value::Object(sections) => {
            check_sections(sections)?;
            let without = || match sections.get("remove_config") {
                Some(_) => Ok(&nothing),
                None => Err(NetworkError::invalid(root, "is missing")),
            };
            let objects = match sections.get(root) {
                Some(objects) => list(root, objects)?,
                None => without()?,
            };
            (objects, sections)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(NetworkError::invalid(
                root,
                "a list of objects is wanted, or a map with network_config",
            ));
        }
    };
    let mut reader = Reader::default();
    schema::section(root, objects)?;
    let objects = reader.section(root, objects)?;
    let fallback = reader.fallback(sections)?;
    if let Some(removed) = sections.get("remove_config") {
        reader.remove_config(removed)?;
    }
    let dns = dns::gather(all(&objects))?;
    dns::gather(all(fallback.as_deref().unwrap_or_default()))?;
    let Reader { tables, removals, .. } = reader;
    let fallback = fallback.filter(|objects| !objects.is_empty());
    let document = NetworkDocument { objects, dns, fallback, tables, removals };
    document.check_names()?;
    for objects in [&document.objects, document.fallback.as_ref().unwrap_or(&Vec::new())] {
        check_routes(objects)?;
        check_rules(objects)?;
        check_settings(objects)?;
        check_carriers(objects)?;
    }
    Ok(document)
}

fn check_sections(sections: &Map<String, Value>) -> Parsed<()> {
    match sections.keys().find(|name| !SECTIONS.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => Err(NetworkError::unknown("network_config", "section", other, SECTIONS)),
    }
}

/// Values gathered over the whole document.
#[derive(Default)]
struct Reader {
    bounds: Bounds,
    tables: Vec<RouteTable>,
    by_name: Tables,
    removals: Vec<Removal>,
}

/// Counts over the whole document.
#[derive(Default)]
pub(super) struct Bounds {
    pub objects: usize,
    pub addresses: usize,
    pub routes: usize,
    pub rules: usize,
}

impl Bounds {
    pub fn add(count: &mut usize, more: usize, most: usize, path: &str, what: &str) -> Parsed<()> {
        *count += more;
        if *count > most {
            return Err(NetworkError::invalid(path, format!("the document has more than {most} {what}")));
        }
        Ok(())
    }
}

impl Reader {
    fn section(&mut self, root: &str, objects: &[Value]) -> Parsed<Vec<Object>> {
        // A route may name a table that the document defines later.
        for (index, value) in objects.iter().enumerate().filter(|(_, value)| value["type"] == "route_table") {
            self.table(&format!("{root}[{index}]"), fields(root, value)?)?;
        }
        let (mut parsed, mut aliases) = (Vec::new(), Vec::new());
        for (index, value) in objects.iter().enumerate() {
            let path = format!("{root}[{index}]");
            if schema::is_removal(value) {
                self.removal(&path, fields(&path, value)?)?;
            } else if let Some((of, value)) = alias::split(&path, value)? {
                aliases.push((of, self.object(&path, &value, Place::Top)?));
            } else if value["type"] != "route_table" {
                parsed.push(self.object(&path, value, Place::Top)?);
            }
        }
        aliases.into_iter().try_for_each(|(of, alias)| alias::merge(&of, alias, &mut parsed))?;
        give_metrics(&mut parsed);
        Ok(parsed)
    }

    /// `fallback_config`; without it, `minimum_config`.
    fn fallback(&mut self, sections: &Map<String, Value>) -> Parsed<Option<Vec<Object>>> {
        let mut found = None;
        for root in ["minimum_config", "fallback_config"] {
            let Some(value) = sections.get(root) else { continue };
            let objects = list(root, value)?;
            if root == "fallback_config" && objects.len() > MAX_FALLBACK {
                return Err(NetworkError::invalid(root, format!("at most {MAX_FALLBACK} objects are taken")));
            }
            schema::section(root, objects)?;
            let objects = self.section(root, objects)?;
            found = Some(objects).filter(|objects| !objects.is_empty()).or(found);
        }
        Ok(found)
    }

    fn remove_config(&mut self, value: &Value) -> Parsed<()> {
        let root = "remove_config";
        let items = list(root, value)?;
        schema::section(root, items)?;
        for (index, item) in items.iter().enumerate() {
            let path = format!("{root}[{index}]");
            if !schema::is_removal(item) {
                let problem = "remove_name and remove_type are wanted here, not an object";
                return Err(NetworkError::invalid(&path, problem));
            }
            self.removal(&path, fields(&path, item)?)?;
        }
        Ok(())
    }

    fn removal(&mut self, path: &str, map: &Map<String, Value>) -> Parsed<()> {
        let kind_path = format!("{path}.remove_type");
        let kind = text(&kind_path, &map["remove_type"])?;
        if let Support::Refused(why) = of_type(kind) {
            return Err(NetworkError::unsupported(&kind_path, format!("type '{kind}'"), why));
        }
        if self.removals.len() >= MAX_REMOVALS {
            return Err(NetworkError::invalid(path, format!("more than {MAX_REMOVALS} things to remove")));
        }
        let name_path = format!("{path}.remove_name");
        not_a_function(&name_path, &map["remove_name"])?;
        let written = text(&name_path, &map["remove_name"])?;
        let name =
            LinkName::of_port(written).map_err(|problem| NetworkError::invalid(&name_path, problem))?;
        if name.is_loopback() {
            let problem = "the loopback interface is the kernel's own, and is never taken away";
            return Err(NetworkError::invalid(&name_path, problem));
        }
        self.removals.push(Removal { path: path.to_owned(), name, kind: kind.to_owned() });
        Ok(())
    }

    fn table(&mut self, path: &str, map: &Map<String, Value>) -> Parsed<()> {
        for option in ["name", "table_id"] {
            not_a_function(&format!("{path}.{option}"), &map[option])?;
        }
        let name_path = format!("{path}.name");
        let name = text(&name_path, &map["name"])?;
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if name.is_empty()
            || name.len() > MAX_TABLE_NAME
            || !name.bytes().all(fits)
            || name.parse::<u32>().is_ok()
        {
            let problem = format!("{} cannot name a routing table", quoted(name));
            return Err(NetworkError::invalid(&name_path, problem));
        }
        let id_path = format!("{path}.table_id");
        let id = number(&id_path, &map["table_id"], 1, u32::MAX)?;
        let reserved = [(253, "default"), (254, "main"), (255, "local"), (0, "unspec")];
        if let Some((number, kept)) = reserved.iter().find(|(number, kept)| *number == id || *kept == name) {
            return Err(NetworkError::invalid(path, format!("{number} {kept} is the kernel's own table")));
        }
        let same = |table: &&RouteTable| table.name == name || table.id == id;
        match self.tables.iter().find(same) {
            Some(table) if table.name == name && table.id == id => {}
            Some(table) => {
                let problem = format!("{} gives {} to {} already", table.path, table.id, table.name);
                return Err(NetworkError::invalid(path, problem));
            }
            None => self.tables.push(RouteTable { path: path.to_owned(), name: name.to_owned(), id }),
        }
        self.by_name.insert(name.to_owned(), id);
        Ok(())
    }

    fn object(&mut self, path: &str, value: &Value, place: Place<'_>) -> Parsed<Object> {
        Bounds::add(&mut self.bounds.objects, 1, MAX_OBJECTS, path, "objects")?;
        let map = fields(path, value)?;
        let kind = supported_type(path, map)?;
        for (option, value) in map.iter().filter(|(option, _)| *option != "type") {
            let path = format!("{path}.{option}");
            not_a_function(&path, value)?;
            check_option(&path, kind, option, value)?;
        }
        let (name, of_kind) = self.kind(path, kind, map, place)?;
        if name.is_loopback() {
            check_loopback(path, map)?;
        }
        let has_link = !support::has_no_link(kind);
        let at = |name: &str| format!("{path}.{name}");
        let mut object = Object {
            path: path.to_owned(),
            addresses: addresses(path, map, &mut self.bounds)?,
            routes: routes(path, map, &mut self.bounds, &self.by_name)?,
            rules: rules(path, map, &mut self.bounds, &self.by_name)?,
            dns_servers: dns::servers(path, map)?,
            domains: dns::domains(path, map)?,
            dhcp: match has_link {
                true => dhcp::dhcp(path, map, is_member(kind, place))?,
                false => None,
            },
            mtu: map.get("mtu").map(|value| number(&at("mtu"), value, 68, 65_535)).transpose()?,
            settings: settings(path, kind, &name, map)?,
            ethtool: match map.get("ethtool_opts").filter(|value| !support::is_empty(value)) {
                Some(value) => ethtool::settings(&at("ethtool_opts"), value, &name)?,
                None => Vec::new(),
            },
            tag: None,
            name,
            kind: of_kind,
        };
        take_tags(&mut object)?;
        if let ObjectKind::OvsBond { members } | ObjectKind::LinuxBond { members, .. } = &mut object.kind {
            members.iter_mut().for_each(|member| member.mtu = member.mtu.or(object.mtu));
        }
        if matches!(object.kind, ObjectKind::OvsBond { .. }) {
            object.mtu = None;
        }
        Ok(object)
    }

    fn kind(
        &mut self,
        path: &str,
        kind: &str,
        map: &Map<String, Value>,
        place: Place<'_>,
    ) -> Parsed<(LinkName, ObjectKind)> {
        let in_bridge = |what: &str| {
            if let Place::InOvsBridge(bridge) = place {
                return Ok(bridge.clone());
            }
            let problem = format!("{what} stands among the members of its ovs_bridge");
            Err(NetworkError::invalid(&format!("{path}.type"), problem))
        };
        Ok(match kind {
            "vlan" => vlan(path, map, place)?,
            "interface" => {
                let primary =
                    map.get("primary").map(|value| boolean(&format!("{path}.primary"), value)).transpose()?;
                let name = match place {
                    Place::Top => top_name(path, map)?,
                    Place::InOvsBridge(_) | Place::InLinuxBridge | Place::InBond => required_name(path, map)?,
                };
                (name, ObjectKind::Interface { primary: primary.unwrap_or(false) })
            }
            "linux_tap" => (required_name(path, map)?, ObjectKind::LinuxTap),
            "ovs_patch_port" => {
                let bridge = link_name(&format!("{path}.bridge_name"), &map["bridge_name"])?;
                if let Place::InOvsBridge(other) = place
                    && *other != bridge
                {
                    let problem = format!("it stands among the members of {other}");
                    return Err(NetworkError::invalid(&format!("{path}.bridge_name"), problem));
                }
                let peer = port_name(&format!("{path}.peer"), &map["peer"])?;
                (port_name(&format!("{path}.name"), &map["name"])?, ObjectKind::OvsPatch { bridge, peer })
            }
            "ovs_tunnel" => {
                in_bridge("a tunnel")?;
                let tunnel = text(&format!("{path}.tunnel_type"), &map["tunnel_type"])?.to_owned();
                (port_name(&format!("{path}.name"), &map["name"])?, ObjectKind::OvsTunnel { tunnel })
            }
            "ovs_bond" => {
                in_bridge("a bond of Open vSwitch")?;
                let members = self.members(path, map, Place::InBond)?;
                if members.len() < 2 {
                    let problem =
                        "Open vSwitch bonds two interfaces or more; a single one is a member itself";
                    return Err(NetworkError::invalid(&format!("{path}.members"), problem));
                }
                (port_name(&format!("{path}.name"), &map["name"])?, ObjectKind::OvsBond { members })
            }
            "linux_bond" | "team" => {
                let members = self.members(path, map, Place::InBond)?;
                let at = format!("{path}.bonding_options");
                let options = match map.get("bonding_options").filter(|value| !support::is_empty(value)) {
                    None => BondOptions::default(),
                    Some(value) if kind == "team" => bond::team(&at, value)?,
                    Some(value) => bond::options(&at, value)?,
                };
                (required_name(path, map)?, ObjectKind::LinuxBond { members, options })
            }
            bridge => {
                let name = required_name(path, map)?;
                let inside =
                    if bridge == "ovs_bridge" { Place::InOvsBridge(&name) } else { Place::InLinuxBridge };
                let members = self.members(path, map, inside)?;
                check_primary(&name, &members)?;
                if bridge == "ovs_bridge" {
                    check_devices(&name, &members)?;
                    (name, ObjectKind::OvsBridge { members })
                } else {
                    (name, ObjectKind::LinuxBridge { members })
                }
            }
        })
    }

    fn members(&mut self, path: &str, map: &Map<String, Value>, inside: Place<'_>) -> Parsed<Vec<Object>> {
        let path = format!("{path}.members");
        let Some(value) = map.get("members") else { return Ok(Vec::new()) };
        let members = list(&path, value)?.iter().enumerate();
        let members = members.map(|(index, value)| self.object(&format!("{path}[{index}]"), value, inside));
        let members: Vec<Object> = members.collect::<Parsed<_>>()?;
        let is_vlan = |member: &&Object| matches!(member.kind, ObjectKind::Vlan { .. });
        match members.iter().find(is_vlan).filter(|_| inside == Place::InBond) {
            None => Ok(members),
            Some(vlan) => Err(NetworkError::unsupported(
                &format!("{}.type", vlan.path),
                "a VLAN in a bond",
                "put interfaces into the bond and the VLAN on it",
            )),
        }
    }
}

/// Whether the object is a pure member, whose bridge or bond has the addresses; an internal port of Open
/// vSwitch is a separate link.
fn is_member(kind: &str, place: Place<'_>) -> bool {
    match place {
        Place::Top => false,
        Place::InOvsBridge(_) => kind != "vlan",
        Place::InLinuxBridge | Place::InBond => true,
    }
}

fn supported_type<'a>(path: &str, map: &'a Map<String, Value>) -> Parsed<&'a str> {
    let path = format!("{path}.type");
    let kind = text(&path, &map["type"])?;
    if let Support::Refused(why) = of_type(kind) {
        return Err(NetworkError::unsupported(&path, format!("type '{kind}'"), why));
    }
    Ok(kind)
}

/// The schema permits `{get_param: …}`, since it also checks templates; here nothing can resolve
/// the function.
fn not_a_function(path: &str, value: &Value) -> Parsed<()> {
    let is_join =
        |value: &Value| value.as_object().is_some_and(|map| map.len() == 1 && map.contains_key("list_join"));
    if schema::is_param(value) || is_join(value) {
        return Err(NetworkError::unsupported(path, "a template's function", "give its value"));
    }
    match value {
        Value::Array(items) if !path.ends_with(".members") => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| not_a_function(&format!("{path}[{index}]"), item)),
        Value::Object(map) => {
            map.iter().try_for_each(|(key, value)| not_a_function(&format!("{path}.{key}"), value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(()),
    }
}

/// The name of an interface at the top of a document, where `lo` may stand for its addresses.
fn top_name(path: &str, map: &Map<String, Value>) -> Parsed<LinkName> {
    let path = format!("{path}.name");
    LinkName::or_loopback(text(&path, &map["name"])?).map_err(|problem| NetworkError::invalid(&path, problem))
}

/// Refuses what could take the loopback interface away from the server's own programs.
fn check_loopback(path: &str, map: &Map<String, Value>) -> Parsed<()> {
    const ASKS_NOTHING: [Value; 1] = [Value::Bool(false)];
    let is_refused = |(option, value): &(&String, &Value)| {
        let is_applied = matches!(support::of_option("interface", option), Support::Applied);
        let is_taken =
            matches!(option.as_str(), "type" | "name" | "addresses" | "rules" | "dns_servers" | "domain");
        is_applied && !is_taken && !support::is_empty(value) && !ASKS_NOTHING.contains(value)
    };
    match map.iter().find(is_refused) {
        None => Ok(()),
        Some((option, _)) => Err(NetworkError::unsupported(
            &format!("{path}.{option}"),
            format!("'{option}' of the loopback interface"),
            "addresses, rules, dns_servers and domain are taken there",
        )),
    }
}

fn port_name(path: &str, value: &Value) -> Parsed<LinkName> {
    LinkName::of_port(text(path, value)?).map_err(|problem| NetworkError::invalid(path, problem))
}

fn vlan(path: &str, map: &Map<String, Value>, place: Place<'_>) -> Parsed<(LinkName, ObjectKind)> {
    let id_path = format!("{path}.vlan_id");
    let id = number(&id_path, &map["vlan_id"], 1, 4_094)?;
    let id = u16::try_from(id).map_err(|_| NetworkError::invalid(&id_path, "1 to 4094 is taken"))?;
    let device = map.get("device").map(|value| link_name(&format!("{path}.device"), value)).transpose()?;
    if device.is_none() && !matches!(place, Place::InOvsBridge(_)) {
        let problem = "is missing: the interface that carries the VLAN";
        return Err(NetworkError::invalid(&format!("{path}.device"), problem));
    }
    let name =
        LinkName::new(&format!("vlan{id}")).map_err(|problem| NetworkError::invalid(&id_path, problem))?;
    Ok((name, ObjectKind::Vlan { id, device }))
}
