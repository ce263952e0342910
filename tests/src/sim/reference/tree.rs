//! The groups, nested stacks and values of a plan, unfolded: what is at which path.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::notes::Notes;
use muster_engine::record::{ResourceRecord, Status};
use muster_intent::manager::Wish;
use muster_shared::ResourceId;
use serde_json::Value as Json;

use super::super::plan::{
    CONFIG, Each, Group, INNER_LENGTH, Inner, Member, Plan, Resource, Script, Value, Virtual, What, member,
    output,
};
use super::super::store::Tables;

/// A plan with what is durable: ids, random texts and addresses are nobody's to foresee.
pub struct At<'a> {
    pub stack: u64,
    /// The plan that the stack must match.
    pub plan: &'a Plan,
    pub tables: &'a Tables,
}

/// A resource of a tree.
pub enum Thing<'a> {
    /// A resource on a server, as the plan has it.
    Plain(&'a Resource),
    /// A member of a resource.
    Member(Box<Resource>),
    /// A dummy inside something.
    Dummy { node: &'a str, values: BTreeMap<String, String> },
    /// A value.
    Value(String),
    /// A text of this length.
    Random(usize),
    /// A port, perhaps with an address that it asks for.
    Port { network: &'a str, fixed: Option<(usize, u8)> },
    /// An intent.
    Intent { key: &'a str, wish: &'a Wish },
    /// A group, a nested stack, a network, a subnet or a link: there is no more to it.
    Whole,
}

/// The resources by path.
type Things<'a> = BTreeMap<String, Thing<'a>>;

impl<'a> At<'a> {
    /// Returns all resources that must be there, by path.
    pub fn unfold(&self) -> Result<Things<'a>, String> {
        let mut things = Things::new();
        for (name, resource) in self.plan.resources.iter().filter(|(_, resource)| resource.is_there()) {
            if let Some(each) = &resource.each {
                for node in self.nodes(name, each) {
                    let thing = Thing::Member(Box::new(resource.on_node(node)));
                    things.insert(member(name, node), thing);
                }
                things.insert(name.clone(), Thing::Whole);
                continue;
            }
            let thing = match &resource.what {
                What::Group(group) => {
                    for member in self.members(name, group)? {
                        self.member(&mut things, &format!("{name}/{member}"), group, member)?;
                    }
                    Thing::Whole
                }
                What::Nested(inner) => {
                    self.inside(&mut things, name, inner, self.text(&inner.value)?)?;
                    continue;
                }
                What::Virtual(Virtual::Value(value)) => Thing::Value(self.text(value)?),
                What::Virtual(Virtual::Random { length, .. }) => Thing::Random(*length),
                What::Virtual(Virtual::Port { network, fixed, .. }) => Thing::Port { network, fixed: *fixed },
                What::Virtual(Virtual::Intent { key, wish, .. }) => Thing::Intent { key, wish },
                What::Virtual(
                    Virtual::Net { .. }
                    | Virtual::Link { .. }
                    | Virtual::Subnet { .. }
                    | Virtual::Config(_)
                    | Virtual::Handle
                    | Virtual::Wait { .. },
                ) => Thing::Whole,
                _ => Thing::Plain(resource),
            };
            things.insert(name.clone(), thing);
        }
        Ok(things)
    }

    fn member(
        &self,
        things: &mut Things<'a>,
        path: &str,
        group: &'a Group,
        member: u64,
    ) -> Result<(), String> {
        let own = group.attribute_of(member);
        let thing = match &group.member {
            Member::Dummy { node, value } => {
                let values = [("i".to_owned(), own), ("k".to_owned(), self.text(value)?)].into();
                Thing::Dummy { node, values }
            }
            Member::Nested(inner) => return self.inside(things, path, inner, own),
            Member::Port { network } => Thing::Port { network, fixed: None },
        };
        things.insert(path.to_owned(), thing);
        Ok(())
    }

    /// A nested stack; its templates are in `plan/tree.rs`.
    fn inside(
        &self,
        things: &mut Things<'a>,
        path: &str,
        inner: &'a Inner,
        given: String,
    ) -> Result<(), String> {
        let at = |name: &str| format!("{path}/{name}");
        let node = inner.node.as_str();
        let values = BTreeMap::from([
            ("v".to_owned(), given.clone()),
            ("w".to_owned(), self.random(&at("w"))?),
            ("!r".to_owned(), inner.again.to_string()),
        ]);
        things.insert(path.to_owned(), Thing::Whole);
        things.insert(at("v"), Thing::Value(given));
        things.insert(at("w"), Thing::Random(INNER_LENGTH));
        things.insert(at("d"), Thing::Dummy { node, values });
        let of_d = self.physical(&at("d"))?.to_string();
        if self.text(&inner.on)? == "true" {
            things.insert(at("e"), Thing::Dummy { node, values: [("d".to_owned(), of_d.clone())].into() });
        }
        if let Some(count) = &inner.count {
            things.insert(at("g"), Thing::Whole);
            for member in 0..self.number(count)? {
                let values = [("i".to_owned(), format!("i{member}")), ("d".to_owned(), of_d.clone())];
                things.insert(at(&format!("g/{member}")), Thing::Dummy { node, values: values.into() });
            }
        }
        Ok(())
    }

    /// The nodes that have a member of this.
    pub fn nodes(&self, name: &str, each: &Each) -> BTreeSet<&'a str> {
        each.nodes(self.tables.nodes.values(), |node| self.row(&member(name, node)).is_ok())
    }

    /// Members of a group: the first names that were never removed.
    pub fn members(&self, path: &str, group: &Group) -> Result<Vec<u64>, String> {
        let row = self.row(path)?;
        let count = usize::try_from(self.number(&group.count)?).unwrap_or(usize::MAX);
        if group.chain.is_some() {
            return Ok((0..).take(count).collect());
        }
        let removed: BTreeSet<u64> = match &row.progress.notes {
            Some(Notes::Removed(removed)) => removed.keys().filter_map(|name| name.parse().ok()).collect(),
            _ => BTreeSet::new(),
        };
        let more = removed.difference(&group.removed).count();
        let by_thing = &group.removed_things;
        if !removed.is_superset(&group.removed) || !group.appends && more > by_thing.len() {
            let should = &group.removed;
            return Err(format!("{path} has given up {removed:?}, and should {should:?} and {by_thing:?}"));
        }
        let inside = format!("{path}/");
        let is_left = |row: &&ResourceRecord| {
            let is_own = row.stack == self.stack && row.dropped.is_none() && row.name.starts_with(&inside);
            is_own && by_thing.contains(&row.physical)
        };
        if let Some(left) = self.tables.rows.values().find(is_left) {
            return Err(format!("{} is {} still, and should be removed", left.name, left.physical));
        }
        Ok((0..).filter(|name| !removed.contains(name)).take(count).collect())
    }

    fn number(&self, value: &Value) -> Result<u64, String> {
        let text = self.text(value)?;
        text.parse().map_err(|_| format!("a count is {text:?}, and it is COMPLETE"))
    }

    /// Returns the text of a value.
    pub fn text(&self, value: &Value) -> Result<String, String> {
        let what = |of: &String| &self.plan.resources[of].what;
        match value {
            Value::Text(text) => Ok(text.clone()),
            Value::Hidden => Ok(self.plan.hidden.clone()),
            Value::Id(of) if matches!(what(of), What::Virtual(Virtual::Random { .. })) => self.random(of),
            Value::Id(of) => match &self.plan.resources[of].external {
                Some(id) => Ok(id.clone()),
                None => Ok(self.physical(of)?.to_string()),
            },
            Value::Attribute(of, key) => match what(of) {
                What::Dummy { values, .. } => self.text(&values[key]),
                What::File { path, .. } => Ok(path.clone()),
                What::Hostname { number, .. } => Ok(format!("h{number}")),
                What::Script(script) if key == "o" => Ok(output(&self.gist(script)?)),
                What::Script(_) => {
                    let told = self.row(of)?.progress.attributes.get(key);
                    told.cloned().ok_or_else(|| format!("{of} has told nothing"))
                }
                What::Virtual(Virtual::Value(value)) => self.text(value),
                What::Virtual(Virtual::Random { .. }) => self.random(of),
                What::Nested(inner) => self.text(&inner.value),
                What::Network { .. } | What::Flows { .. } | What::Group(_) | What::Virtual(_) => {
                    Err(format!("{of} has no such attribute"))
                }
            },
            Value::All(of, _) => {
                let What::Group(group) = what(of) else { return Err(format!("{of} is no group")) };
                let each = self.members(of, group)?.into_iter().map(|member| group.attribute_of(member));
                Ok(each.collect::<Vec<_>>().join(","))
            }
            Value::Address(of) => self.address(of),
            Value::Own => Err("it is on no node of its own".into()),
        }
    }

    /// Returns the values that a run of a script must be made of.
    pub fn gist(&self, script: &Script) -> Result<BTreeMap<String, String>, String> {
        let config = self.plan.resources.get(CONFIG).map(|resource| &resource.what);
        let Some(What::Virtual(Virtual::Config(config))) = config else {
            return Err("there is no config".into());
        };
        Ok(script.gist(config.clone(), self.text(&script.input)?))
    }

    fn random(&self, path: &str) -> Result<String, String> {
        let text = self.row(path)?.progress.attributes.get("value");
        text.cloned().ok_or_else(|| format!("{path} has no text"))
    }

    /// The one address of a port.
    pub fn address(&self, path: &str) -> Result<String, String> {
        match addresses(self.row(path)?).as_slice() {
            [(_, address)] => Ok(address.clone()),
            all => Err(format!("{path} has the addresses {all:?}")),
        }
    }

    /// The row of a path.
    pub fn row(&self, path: &str) -> Result<&'a ResourceRecord, String> {
        row(self.stack, path, self.tables)
    }

    /// The one thing it stands for.
    pub fn physical(&self, path: &str) -> Result<ResourceId, String> {
        Ok(self.row(path)?.physical)
    }
}

/// Subnet and address of each that a row has.
pub fn addresses(row: &ResourceRecord) -> Vec<(String, String)> {
    let text = row.progress.attributes.get("fixed_ips").map(String::as_str).unwrap_or("[]");
    let all: Vec<Json> = serde_json::from_str(text).unwrap_or_default();
    let part = |it: &Json, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    all.iter().map(|it| (part(it, "subnet_id"), part(it, "ip_address"))).collect()
}

/// Returns whether operators read the resource as FAILED.
pub fn has_failed(id: &ResourceId, tables: &Tables) -> bool {
    let row = tables.physical.get(id).and_then(|row| tables.rows.get(row));
    row.is_some_and(|row| row.progress.status == Some(Status::Failed))
}

fn row<'a>(stack: u64, name: &str, tables: &'a Tables) -> Result<&'a ResourceRecord, String> {
    let is_it = |row: &&ResourceRecord| row.stack == stack && *row.name == *name && row.dropped.is_none();
    let mut rows = tables.rows.values().filter(is_it);
    match (rows.next(), rows.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(format!("{name} has no row")),
        (Some(_), Some(_)) => Err(format!("{name} has more than one row")),
    }
}

/// The thing that a path of a stack stands for.
pub fn physical(stack: u64, name: &str, tables: &Tables) -> Result<ResourceId, String> {
    row(stack, name, tables).map(|row| row.physical)
}
