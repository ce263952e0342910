//! Hosts as they should be, and what is not so.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::record::{ResourceRecord, Status};
use muster_flow::record::FlowMark;
use muster_intent::manager::Wish;
use muster_intent::phase::Request;
use muster_shared::ResourceId;
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_shared::model::{ContentDigest, DEPLOY_STDOUT, Hostname};
use serde_json::Value as Json;

use super::super::addresses;
use super::super::drift;
use super::super::flow;
use super::super::host::FileState;
use super::super::machine::Machine;
use super::super::plan::{CUTTING, Plan, Resource, Runs, What, gist};
use super::super::store::Tables;
use super::tree::{At, Thing, has_failed};

/// Hosts as they should be, by the machine's name.
pub struct Wanted {
    dummies: BTreeMap<String, BTreeMap<ResourceId, BTreeMap<String, String>>>,
    /// The values that each script was made of.
    scripts: BTreeMap<String, BTreeMap<ResourceId, BTreeMap<String, String>>>,
    files: BTreeMap<String, BTreeMap<String, FileState>>,
    links: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Wanted {
    /// Returns the hosts as they should be without any stack.
    pub fn new(machines: &[&Machine]) -> Self {
        let name = |machine: &Machine| machine.name.to_string();
        Self {
            dummies: machines.iter().map(|m| (name(m), BTreeMap::new())).collect(),
            scripts: machines.iter().map(|m| (name(m), BTreeMap::new())).collect(),
            files: machines.iter().map(|m| (name(m), m.host.files_before.clone())).collect(),
            links: machines.iter().map(|m| (name(m), m.host.links_before.clone())).collect(),
        }
    }

    /// Adds what a stack must have on its hosts.
    ///
    /// # Errors
    /// Says what of the stack is not as it should be.
    pub fn add(
        &mut self,
        stack: u64,
        plan: &Plan,
        tables: &Tables,
        machines: &[&Machine],
    ) -> Result<(), String> {
        let at = At { stack, plan, tables };
        let things = at.unfold()?;
        let is_own = |row: &&ResourceRecord| row.stack == stack && row.dropped.is_none();
        if let Some(more) = tables.rows.values().filter(is_own).find(|row| !things.contains_key(&*row.name)) {
            return Err(format!("nobody asked for {}", more.name));
        }
        for (path, thing) in things {
            let row = at.row(&path)?;
            let has_failed = row.progress.status == Some(Status::Failed);
            match thing {
                Thing::Plain(resource) => self.add_plain(&at, &path, resource, machines)?,
                Thing::Member(resource) => self.add_plain(&at, &path, &resource, machines)?,
                Thing::Dummy { node, values } => {
                    let nowhere = || format!("{path} is to be on {node}, which is no server");
                    self.dummies.get_mut(node).ok_or_else(nowhere)?.insert(row.physical, values);
                }
                _ if has_failed => {}
                Thing::Value(text) => {
                    let is = row.spec.as_ref().and_then(|spec| spec.unpack().attribute("value"));
                    if is != Some(Json::String(text.clone())) {
                        return Err(format!("{path} is {is:?}, and should be {text:?}"));
                    }
                }
                Thing::Random(length) => {
                    let text = row.progress.attributes.get("value").map(String::as_str).unwrap_or_default();
                    let letters = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
                    if text.len() != length || !letters {
                        return Err(format!("{path} is {text:?}, and should have {length} characters"));
                    }
                }
                Thing::Port { network, fixed } => {
                    let third = fixed.map_or_else(|| addresses::third_of(network), |(third, _)| third);
                    let address = at.address(&path)?;
                    let last =
                        address.strip_prefix(&format!("10.{third}.0.")).and_then(|last| last.parse().ok());
                    let is_right = last.is_some_and(|last| match fixed {
                        Some((_, wanted)) => last == wanted,
                        // A port keeps an address that it has asked for before.
                        None => addresses::POOL.contains(&last) || addresses::ASKED_FOR.contains(&last),
                    });
                    if !is_right {
                        return Err(format!("{path} has {address} of {network}, and asked for {fixed:?}"));
                    }
                }
                Thing::Intent { key, wish } => intent_is(row.id, key, wish, tables)?,
                Thing::Whole => {}
            }
        }
        Ok(())
    }

    fn add_plain(
        &mut self,
        at: &At<'_>,
        name: &str,
        resource: &Resource,
        machines: &[&Machine],
    ) -> Result<(), String> {
        let tables = at.tables;
        let physical = at.physical(name)?;
        let node = match &resource.node {
            Some(node) => node.clone(),
            None if has_failed(&physical, tables) => return Ok(()),
            None => machines
                .iter()
                .filter(|machine| {
                    let host = &machine.host;
                    host.dummies.contains_key(&physical) || host.is_left(&drift::Thing::Dummy(physical))
                })
                // A thing under the id on a server without the row is another one.
                .max_by_key(|machine| at.row(name).is_ok_and(|row| row.node.as_ref() == Some(&machine.name)))
                .map(|machine| machine.name.to_string())
                .ok_or_else(|| format!("{name} is nowhere"))?,
        };
        let nowhere = || format!("{name} is to be on {node}, which is no server");
        match &resource.what {
            What::Dummy { values, .. } => {
                let values: Result<_, String> =
                    values.iter().map(|(key, value)| Ok((key.clone(), at.text(value)?))).collect();
                self.dummies.get_mut(&node).ok_or_else(nowhere)?.insert(physical, values?);
            }
            What::File { path, content, size, mode, .. } => {
                let mut content = at.text(content)?;
                content.push_str(&"x".repeat(*size));
                let file = FileState { digest: ContentDigest::of(content.as_bytes()), mode: *mode };
                self.files.get_mut(&node).ok_or_else(nowhere)?.insert(path.clone(), file);
            }
            What::Network { links, .. } => {
                if links.values().any(|mtu| *mtu == CUTTING) && !has_failed(&physical, tables) {
                    return Err(format!("{name} cuts {node} off and is COMPLETE"));
                }
                let all = self.links.get_mut(&node).ok_or_else(nowhere)?;
                all.extend(links.iter().map(|(link, mtu)| (link.clone(), *mtu)));
            }
            What::Hostname { number, .. } => {
                let all = self.links.get_mut(&node).ok_or_else(nowhere)?;
                all.insert(Hostname::CLAIM.to_owned(), *number);
            }
            What::Script(_) if has_failed(&physical, tables) => {}
            What::Script(script) => {
                let machine = machines.iter().find(|machine| *machine.name.as_str() == *node);
                let ran = machine.and_then(|machine| machine.host.scripts.get(&physical));
                let is_once = script.runs == Runs::Once;
                let told = at.row(name)?.progress.attributes.get(DEPLOY_STDOUT);
                if ran.is_some_and(|ran| !is_once && told != Some(&ran.stdout)) {
                    return Err(format!("{name} has told {told:?}, and its script {ran:?}"));
                }
                let gist = match ran.filter(|_| is_once) {
                    // The inputs at the time it was made.
                    Some(ran) => gist(&ran.deployment),
                    None => at.gist(script)?,
                };
                self.scripts.get_mut(&node).ok_or_else(nowhere)?.insert(physical, gist);
            }
            What::Flows { .. } if has_failed(&physical, tables) => {}
            What::Flows { device, entries } => {
                let row = tables.physical.get(&physical).copied().unwrap_or_default();
                if let Some(wrong) = flows_differ(row, device, entries, tables) {
                    return Err(format!("{name}: {wrong}"));
                }
            }
            What::Virtual(_) | What::Group(_) | What::Nested(_) => {}
        }
        Ok(())
    }

    /// Returns a difference between a machine and what it should be.
    pub fn differs(
        &self,
        machine: &Machine,
        tables: &Tables,
        open: &BTreeSet<&str>,
        left: &BTreeSet<ResourceId>,
        open_things: BTreeSet<String>,
    ) -> Option<String> {
        let name = machine.name.as_str();
        // A resource shown as FAILED may be anything: a resource of a stack that is COMPLETE is when somebody does not
        // trust it, or when it could not be made again for an agent that had lost everything. So may what is lost: one
        // that cannot be cleaned up holds back those that it needs.
        let here = |row: &&ResourceRecord| row.node.as_ref() == Some(&machine.name);
        let failed: BTreeSet<String> = tables
            .rows
            .values()
            .filter(here)
            .filter(|row| row.progress.status == Some(Status::Failed) || row.is_lost())
            .flat_map(|row| match &row.spec {
                Some(spec) => spec.unpack().claims(),
                // Only its agent knows a stray that could not be removed.
                None => machine.held_by(row.physical),
            })
            .map(|claim| claim.key)
            // A resource that an operator of a restored site keeps is as it is, and its next owner may restore
            // what was there before that one.
            .chain(open_things)
            .collect();
        // Changes by others to a thing with a resource are that resource's to correct.
        let stands = |row: &&ResourceRecord| here(row) && row.dropped.is_none();
        let standing: Vec<&ResourceRecord> = tables.rows.values().filter(stands).collect();
        let claimed: BTreeSet<String> = standing
            .iter()
            .flat_map(|row| row.spec.as_ref().map(|spec| spec.unpack().claims()).unwrap_or_default())
            .map(|claim| claim.key)
            .collect();
        let host = &machine.host;
        let is_left =
            |path: &String| claimed.contains(path) && host.is_left(&drift::Thing::File(path.clone()));
        let dummy_is_left = |id: &ResourceId| {
            host.is_left(&drift::Thing::Dummy(*id)) && standing.iter().any(|row| row.physical == *id)
        };
        let by_hand = |link: &String| claimed.contains(link) && host.by_hand.contains_key(link);
        // Things that a stack which is not COMPLETE may have made are not checked.
        let is_open = |thing: &String| {
            failed.contains(thing)
                || thing.contains("shared") && !open.is_empty()
                || open.iter().any(|stack| {
                    thing.contains(&format!("/{stack}-"))
                        || thing == Hostname::CLAIM && name.strip_prefix("node-") == stack.get(1..)
                        || thing.starts_with("eth") && thing.get(4..) == stack.get(1..)
                })
        };
        let row_open = |id: &ResourceId| {
            if left.contains(id) {
                return true;
            }
            let Some(row) = tables.physical.get(id).and_then(|row| tables.rows.get(row)) else {
                return false;
            };
            let stack = tables.stacks.get(&row.stack);
            has_failed(id, tables)
                || row.is_lost()
                || stack.is_some_and(|stack| open.contains(stack.name.as_str()))
        };
        let ran = machine.host.scripts.iter().map(|(id, ran)| (*id, gist(&ran.deployment))).collect();
        compare("dummy", name, &self.dummies[name], &host.dummies, |id| row_open(id) || dummy_is_left(id))
            .or_else(|| compare("script", name, &self.scripts[name], &ran, row_open))
            .or_else(|| {
                compare("file", name, &self.files[name], &host.files, |path| is_open(path) || is_left(path))
            })
            .or_else(|| {
                let is_open = |link: &String| is_open(link) || by_hand(link);
                compare("link", name, &self.links[name], &machine.host.links, is_open)
            })
    }
}

/// A resource's intent is its own, and as it wants it.
fn intent_is(row: u64, key: &str, wish: &Wish, tables: &Tables) -> Result<(), String> {
    let found = tables.intents.intents.values().find(|(record, _)| *record.key == *key);
    let is_so = found.is_some_and(|(record, owner)| {
        let is_wanted = record.intent == wish.intent && record.group == wish.group;
        *owner == Some(row) && is_wanted && record.request == Request::Install
    });
    if is_so {
        Ok(())
    } else {
        Err(format!("intent {key} of row {row} should be {wish:?}, and is {found:?}"))
    }
}

/// Checks the flow rules of a resource: each one that it wants is there and its own, and it has no others.
fn flows_differ(
    row: u64,
    device: &DeviceName,
    wanted: &BTreeMap<FlowId, Packed>,
    tables: &Tables,
) -> Option<String> {
    let number = flow::number_of(&tables.flows, &device.node, &device.bridge);
    let own = tables.flows.entries.iter().filter(|(_, entry)| entry.owner.0 == row);
    for (id, packed) in wanted {
        let entry = number.and_then(|number| tables.flows.entries.get(&(number, *id)));
        let is_so = |entry: &&muster_flow::record::FlowEntryRecord| {
            let ended = flow::has_ended(entry) && flow::timeouts(packed) != (0, 0);
            entry.owner.0 == row && entry.packed == *packed && (entry.mark == FlowMark::None || ended)
        };
        if entry.filter(is_so).is_none() {
            return Some(format!("{id} on {device} should be {packed:?} of row {row}, and is {entry:?}"));
        }
        if flow::cuts(packed) || flow::is_bad(packed) {
            return Some(format!("{id} on {device} cannot be there, and is COMPLETE"));
        }
    }
    let mut more = own.filter(|((of, id), _)| Some(*of) != number || !wanted.contains_key(id));
    more.next().map(|(_, entry)| format!("row {row} has more than it wants: {entry:?}"))
}

fn compare<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    node: &str,
    wanted: &BTreeMap<K, V>,
    is: &BTreeMap<K, V>,
    is_open: impl Fn(&K) -> bool,
) -> Option<String> {
    let keys: BTreeSet<&K> = wanted.keys().chain(is.keys()).collect();
    let key = keys.into_iter().find(|key| wanted.get(key) != is.get(key) && !is_open(key))?;
    Some(format!("{what} {key:?} on {node} is {:?}, and should be {:?}", is.get(key), wanted.get(key)))
}
