//! Values of a stack that stay as they are until another way to make them is asked for: random texts and addresses. And
//! the counts of its trees.

use std::collections::BTreeMap;

use super::super::count::Counts;
use super::super::plan::{Group, Inner, Member, Order, Plan, Value, Virtual, What};
use super::super::store::Tables;
use super::tree::{At, Thing, has_failed};

/// Values by path, each with the way in which it was asked for.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    known: BTreeMap<String, (String, String)>,
    sizes: BTreeMap<String, usize>,
}

impl Kept {
    /// Forgets the values that another revision asks for in another way: they may change from now on.
    pub fn begins(&mut self, plan: Option<&Plan>) {
        self.known.retain(|path, (way, _)| plan.and_then(|plan| way_of(plan, path)).as_ref() == Some(way));
    }

    /// An operator does not trust it: there will be another one. An address goes to it.
    pub fn marks(&mut self, path: &str) {
        let inside = format!("{path}/");
        self.known.retain(|known, (way, _)| {
            way.starts_with("port") || known != path && !known.starts_with(&inside)
        });
    }

    /// A revision is COMPLETE: what is not as it was, and should be.
    pub fn ends(&mut self, stack: u64, plan: &Plan, tables: &Tables, counts: &mut Counts) -> Option<String> {
        let at = At { stack, plan, tables };
        let things = match at.unfold() {
            Ok(things) => things,
            Err(wrong) => return Some(wrong),
        };
        for (path, thing) in &things {
            let Ok(row) = at.row(path) else { continue };
            let is = match thing {
                _ if has_failed(&row.physical, tables) => continue,
                Thing::Random(_) => row.progress.attributes.get("value").cloned(),
                Thing::Port { .. } => at.address(path).ok(),
                _ => None,
            };
            let (Some(is), Some(way)) = (is, way_of(plan, path)) else { continue };
            let what = way.split_whitespace().next().unwrap_or_default().to_owned();
            match self.known.insert(path.clone(), (way, is.clone())) {
                Some((_, was)) if was != is => {
                    return Some(format!("{path} was {was} and is {is}, and nobody asked for that"));
                }
                Some(_) => counts.add(format!("tree {what} stays")),
                None => counts.add(format!("tree {what}")),
            }
        }
        self.counts(&at, plan, counts);
        None
    }

    fn counts(&mut self, at: &At<'_>, plan: &Plan, counts: &mut Counts) {
        if plan.own_types {
            counts.add("tree types by names of the site's own");
        }
        for (name, resource) in &plan.resources {
            if !resource.is_there() {
                counts.add("tree resource is not there");
                continue;
            }
            match &resource.what {
                What::Group(group) => self.counts_group(at, name, group, counts),
                What::Nested(inner) => {
                    counts.add("tree nested stack");
                    counts_inner(inner, counts);
                }
                What::Virtual(Virtual::Value(_)) => counts.add("tree value"),
                What::Virtual(Virtual::Config(text)) if text.ends_with('+') => {
                    counts.add("script config changes")
                }
                What::Dummy { values, .. } if values.values().any(|value| tells(plan, value)) => {
                    counts.add("script output is used");
                }
                _ => {}
            }
        }
    }

    fn counts_group(&mut self, at: &At<'_>, name: &str, group: &Group, counts: &mut Counts) {
        let size = at.members(name, group).unwrap_or_default().len();
        match self.sizes.insert(name.to_owned(), size) {
            Some(was) if was < size => counts.add("tree group grows"),
            Some(was) if was > size => counts.add("tree group shrinks"),
            _ => counts.add("tree group"),
        }
        if size == 0 {
            counts.add("tree group without members");
        }
        match &group.count {
            Value::Attribute(of, _) if matches!(at.plan.resources[of].what, What::Virtual(_)) => {
                counts.add("tree count of a value");
            }
            Value::Attribute(..) => counts.add("tree count of another"),
            _ if group.by_parameter => counts.add("tree count of a parameter"),
            _ => counts.add("tree count"),
        }
        if !group.removed.is_empty() {
            counts.add("tree members are removed");
        }
        if !group.removed_things.is_empty() {
            counts.add("tree members are removed by what they stand for");
        }
        match group.chain {
            Some(Order::InTurn) if size > 1 => counts.add("tree chain in turn"),
            Some(Order::AtOnce) if size > 1 => counts.add("tree chain at once"),
            _ => {}
        }
        if group.batches.is_some() && size > 1 {
            counts.add("tree group in batches");
        }
        match &group.member {
            Member::Dummy { .. } => {}
            Member::Nested(inner) => {
                counts.add("tree group of nested stacks");
                counts_inner(inner, counts);
            }
            Member::Port { .. } => counts.add("tree group of ports"),
        }
    }
}

/// Whether it is what a script told.
fn tells(plan: &Plan, value: &Value) -> bool {
    let Value::Attribute(of, _) = value else { return false };
    plan.resources.get(of).is_some_and(|resource| matches!(resource.what, What::Script(_)))
}

fn counts_inner(inner: &Inner, counts: &mut Counts) {
    if let Value::Attribute(..) = inner.on {
        counts.add("tree condition of another");
    }
    match &inner.count {
        Some(Value::Attribute(..)) => counts.add("tree group in a nested stack, its count of another"),
        Some(_) => counts.add("tree group in a nested stack"),
        None => {}
    }
}

/// Returns a description of how a text or an address is asked for, if the plan alone says so.
fn way_of(plan: &Plan, path: &str) -> Option<String> {
    let (name, inside) = path.split_once('/').map_or((path, ""), |(name, inside)| (name, inside));
    let resource = plan.resources.get(name).filter(|resource| resource.is_there())?;
    match (&resource.what, inside) {
        (What::Virtual(Virtual::Random { length, salt }), "") => Some(format!("text {length} {salt}")),
        (What::Virtual(Virtual::Port { network, by_id, fixed }), "") => {
            Some(format!("port {network} {by_id} {fixed:?}"))
        }
        (What::Nested(inner), "w") => Some(format!("text inside {}", inner.again)),
        (What::Group(group), inside) => {
            let (member, inside) = inside.split_once('/').map_or((inside, ""), |both| both);
            let Value::Text(count) = &group.count else { return None };
            let is_in = member.parse::<u64>().ok()? < count.parse::<u64>().ok()?
                && group.removed.is_empty()
                && group.removed_things.is_empty();
            match (&group.member, inside) {
                _ if !is_in => None,
                (Member::Nested(inner), "w") => Some(format!("text inside {}", inner.again)),
                (Member::Port { network }, "") => Some(format!("port {network} in a group")),
                _ => None,
            }
        }
        _ => None,
    }
}
