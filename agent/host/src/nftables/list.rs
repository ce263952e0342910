//! Reads `nft -j -n list table inet muster`, object by object, and keeps a few words per rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use muster_shared::model::flow::FlowId;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use super::form::hash;
use super::verdict_map::MapName;
use super::{FAMILY, HOOK, PRIORITY, TABLE};
use crate::openflow::{Form, Lost};

/// The most commands to remove objects that are not ours; the next reading finds the rest.
pub(super) const EXTRA_MAX: usize = 1024;

/// The present state of our table.
#[derive(Default)]
pub(super) struct Picture {
    pub exists: bool,
    /// A chain is hooked otherwise than ours are.
    pub is_bent: bool,
    pub chains: BTreeMap<u8, Vec<ChainRule>>,
    pub maps: BTreeMap<MapName, Map>,
    /// Sorted by id once the reading is complete.
    pub found: Vec<Found>,
    /// Commands to remove objects that no entry accounts for.
    pub extra: Vec<String>,
    pub more_extra: bool,
}

/// A rule in its chain, in the order of the chain.
#[derive(Clone, Copy)]
pub(super) struct ChainRule {
    pub place: Place,
    pub handle: u64,
}

/// The position of a rule in its chain: reversed priority, maps before rules, then map or id.
pub(super) type Place = (u16, u8, u64);

pub(super) fn place_of_rule(priority: u16, id: FlowId) -> Place {
    (u16::MAX - priority, 1, id.0)
}

pub(super) fn place_of_map(name: &MapName) -> Place {
    (u16::MAX - name.priority, 0, name.shape.code())
}

#[derive(Default)]
pub(super) struct Map {
    pub is_there: bool,
    pub elements: usize,
    /// The rule that looks packets up in the map, if it is correct.
    pub dispatch: Option<u64>,
}

/// A rule of ours.
pub(super) struct Found {
    pub id: FlowId,
    pub table: u8,
    pub priority: u16,
    pub at: Location,
    pub key: Option<Box<str>>,
    pub form: Form,
    pub packets: u64,
    pub bytes: u64,
}

impl Found {
    pub fn removal(&self) -> String {
        match self.at {
            Location::Rule { handle, .. } => delete_rule(self.table, handle),
            Location::Element(name) => delete_element(&name, self.key.as_deref().unwrap_or_default()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// A rule, by its handle; not in the order of priorities, if it is misplaced.
    Rule { handle: u64, misplaced: bool },
    /// An element of the map of its table and priority.
    Element(MapName),
}

impl Picture {
    /// The first entry with this id.
    pub fn find(&self, id: FlowId) -> Option<&Found> {
        let at = self.found.partition_point(|found| found.id < id);
        self.found.get(at).filter(|found| found.id == id)
    }

    fn extra(&mut self, command: String) {
        if self.extra.len() < EXTRA_MAX { self.extra.push(command) } else { self.more_extra = true }
    }

    fn item(&mut self, kind: &str, object: &Value) {
        let name = object["name"].as_str().unwrap_or_default();
        match kind {
            "table" => self.exists = true,
            "chain" => self.chain(name, object),
            "rule" => self.rule(object),
            "metainfo" => {}
            // Removed by handle: nft might interpret a name.
            other => {
                let handle = object["handle"].as_u64().unwrap_or_default();
                self.extra(format!("delete {other} {FAMILY} {TABLE} handle {handle}\n"));
            }
        }
    }

    fn chain(&mut self, name: &str, object: &Value) {
        let hook = &object["hook"];
        match table_of(name) {
            Some(table) => {
                self.chains.entry(table).or_default();
                let is_right = match table {
                    0 => hook == HOOK && object["prio"] == json!(PRIORITY) && object["policy"] == "accept",
                    _ => hook.is_null(),
                };
                self.is_bent |= !is_right;
            }
            // Only through a hook can a foreign chain have an effect that our rules do not show.
            None => match object["handle"].as_u64() {
                Some(handle) => self.extra(format!("delete chain {FAMILY} {TABLE} handle {handle}\n")),
                None => self.is_bent = true,
            },
        }
    }

    fn rule(&mut self, object: &Value) {
        let (Some(chain), Some(handle)) = (object["chain"].as_str(), object["handle"].as_u64()) else {
            return;
        };
        let Some(table) = table_of(chain) else {
            // A chain with rules cannot be removed.
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            if chain.bytes().all(is_word) {
                self.extra.insert(0, format!("delete rule {FAMILY} {TABLE} {chain} handle {handle}\n"));
                self.extra.truncate(EXTRA_MAX);
            }
            return;
        };
        let comment = object["comment"].as_str().unwrap_or_default();
        let mut all = object["expr"].as_array().cloned().unwrap_or_default();
        let map = comment.strip_prefix("muster:map ").and_then(MapName::parse);
        if let Some(name) = map.filter(|name| name.table == table && all == name.dispatch_form()) {
            let map = self.maps.entry(name).or_default();
            if map.dispatch.is_none() {
                map.dispatch = Some(handle);
                self.chains.entry(table).or_default().push(ChainRule { place: place_of_map(&name), handle });
                return;
            }
        }
        let Some((id, priority)) = read_comment(comment) else {
            return self.extra(delete_rule(table, handle));
        };
        let (mut packets, mut bytes) = (0, 0);
        for part in &mut all {
            if let Some(counter) = part.get_mut("counter") {
                packets = counter["packets"].as_u64().unwrap_or_default();
                bytes = counter["bytes"].as_u64().unwrap_or_default();
                *counter = Value::Null;
            }
        }
        self.chains.entry(table).or_default().push(ChainRule { place: place_of_rule(priority, id), handle });
        let (form, at) = (hash(&Value::Array(all)), Location::Rule { handle, misplaced: false });
        self.found.push(Found { id, table, priority, at, key: None, form, packets, bytes });
    }

    fn element(&mut self, name: MapName, given: &Value) {
        let (element, verdict) = (&given[0]["elem"], &given[1]);
        let value = if element.is_null() { &given[0] } else { &element["val"] };
        let Some(key) = name.shape.key_text(value) else { return };
        let id = element["comment"].as_str().and_then(read_comment);
        let Some((id, _)) = id.filter(|(_, priority)| *priority == name.priority) else {
            return self.extra(delete_element(&name, &key));
        };
        self.maps.entry(name).or_default().elements += 1;
        let counter = &element["counter"];
        self.found.push(Found {
            id,
            table: name.table,
            priority: name.priority,
            at: Location::Element(name),
            key: Some(key.into()),
            form: hash(&json!([value, verdict])),
            packets: counter["packets"].as_u64().unwrap_or_default(),
            bytes: counter["bytes"].as_u64().unwrap_or_default(),
        });
    }

    fn done(mut self) -> Self {
        self.found.sort_by_key(|found| found.id);
        let bare: Vec<_> = self.maps.iter().filter(|(_, map)| !map.is_there).map(|(name, _)| *name).collect();
        for name in bare {
            self.maps.remove(&name);
        }
        let mut out_of_order = BTreeSet::new();
        for chain in self.chains.values_mut() {
            let in_order = in_order(chain);
            let all = std::mem::replace(chain, in_order);
            let handles: BTreeSet<u64> = chain.iter().map(|standing| standing.handle).collect();
            out_of_order.extend(all.iter().map(|it| it.handle).filter(|handle| !handles.contains(handle)));
        }
        for (name, map) in &mut self.maps {
            if let Some(handle) = map.dispatch.filter(|handle| out_of_order.contains(handle)) {
                // The dispatch rule is too early or too late.
                map.dispatch = None;
                self.extra.push(delete_rule(name.table, handle));
            }
        }
        // A rule that leads to a chain is removed before the chain.
        self.extra.sort_by_key(|command| rank(command));
        for found in self.found.iter_mut().filter(|_| !out_of_order.is_empty()) {
            if let Location::Rule { handle, misplaced } = &mut found.at {
                *misplaced = out_of_order.contains(handle);
            }
        }
        self
    }
}

/// Rules look into sets and maps, maps lead to chains, and all of them may name other objects.
fn rank(command: &str) -> usize {
    let kinds = ["delete rule ", "delete element ", "delete set ", "delete map ", "delete chain "];
    kinds.iter().position(|kind| command.starts_with(kind)).unwrap_or(kinds.len())
}

/// The largest part of a chain that is in order; others moved the rest.
fn in_order(chain: &[ChainRule]) -> Vec<ChainRule> {
    if chain.is_sorted_by(|a, b| a.place < b.place) {
        return chain.to_vec();
    }
    // For each length, where the run that ends earliest ends; and the predecessor of each rule in its run.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = Vec::with_capacity(chain.len());
    for (at, standing) in chain.iter().enumerate() {
        let length = ends.partition_point(|end| chain[*end].place < standing.place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut run: Vec<ChainRule> = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        run.push(chain[at]);
        next = before[at];
    }
    run.reverse();
    run
}

pub(super) fn delete_rule(table: u8, handle: u64) -> String {
    format!("delete rule {FAMILY} {TABLE} {} handle {handle}\n", super::chain(table))
}

pub(super) fn delete_element(name: &MapName, key: &str) -> String {
    format!("delete element {FAMILY} {TABLE} {name} {{ {key} }}\n")
}

/// `muster:4d55000000000001 100`
pub(super) fn comment(id: FlowId, priority: u16) -> String {
    format!("comment \"muster:{id} {priority}\"")
}

fn read_comment(text: &str) -> Option<(FlowId, u16)> {
    let (id, priority) = text.strip_prefix("muster:")?.split_once(' ')?;
    let read = (FlowId::parse(id)?, priority.parse().ok()?);
    (format!("muster:{} {}", read.0, read.1) == text).then_some(read)
}

fn table_of(chain: &str) -> Option<u8> {
    let table = chain.strip_prefix('t')?.parse().ok()?;
    (super::chain(table) == chain).then_some(table)
}

pub(super) fn read(from: impl Read) -> Result<Picture, Lost> {
    let mut picture = Picture::default();
    let mut json = serde_json::Deserializer::from_reader(from);
    let read = json.deserialize_map(Root(&mut picture)).and_then(|()| json.end());
    read.map_err(|error| Lost::Filter(format!("cannot read what nft lists: {error}")))?;
    Ok(picture.done())
}

struct Root<'a>(&'a mut Picture);
struct Items<'a>(&'a mut Picture);
struct Item<'a>(&'a mut Picture);
struct MapItem<'a>(&'a mut Picture);
struct Elements<'a>(&'a mut Picture, Option<MapName>);

impl<'de> Visitor<'de> for Root<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what nft lists")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nftables" => map.next_value_seed(Items(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

macro_rules! seed {
    ($name:ident, $method:ident) => {
        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.$method(self)
            }
        }
    };
}

seed!(Items, deserialize_seq);
seed!(Item, deserialize_map);
seed!(MapItem, deserialize_map);
seed!(Elements, deserialize_seq);

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while all.next_element_seed(Item(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(kind) = map.next_key::<String>()? {
            match kind.as_str() {
                "map" => map.next_value_seed(MapItem(self.0))?,
                _ => self.0.item(&kind, &map.next_value()?),
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for MapItem<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut name, mut kind, mut handle) = (None, Value::Null, 0);
        let mut has_name = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => {
                    name = MapName::parse(&map.next_value::<String>()?);
                    has_name = true;
                }
                "type" => kind = map.next_value()?,
                "handle" => handle = map.next_value()?,
                "elem" if !has_name || kind.is_null() => {
                    return Err(A::Error::custom("a map's elements before its name and type"));
                }
                "elem" => {
                    name = name.filter(|name| name.shape.kind() == kind);
                    map.next_value_seed(Elements(self.0, name))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        match name.filter(|name| name.shape.kind() == kind) {
            Some(name) => self.0.maps.entry(name).or_default().is_there = true,
            // nft knows a map's handle only as that of a set.
            None => self.0.extra(format!("delete set {FAMILY} {TABLE} handle {handle}\n")),
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(element) = all.next_element::<Value>()? {
            if let Some(name) = self.1 {
                self.0.element(name, &element);
            }
        }
        Ok(())
    }
}
