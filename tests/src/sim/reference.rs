//! What must be in the end, worked out from what operators asked for and was begun, with nothing of the engine: plans
//! as data, revisions by hand, and hosts as they were before Muster.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use muster_engine::flow::record::FlowMark;
use muster_engine::record::{ResourceRecord, StackAction, StackRecord, Status};
use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_shared::model::{ContentDigest, Hostname};
use muster_shared::{ResourceId, StackName};

use super::flow;
use super::host::FileState;
use super::machine::Machine;
use super::plan::{CUTTING, Plan, Value, What};
use super::store::Tables;

/// What an operator asked for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A new stack.
    Create(Rc<Plan>),
    /// A new revision.
    Update(Rc<Plan>),
    /// An older one.
    Rollback(Option<u32>),
    /// Nothing.
    Delete,
    /// How it is.
    Check,
    /// To stop.
    Cancel,
}

impl Asked {
    /// For reports.
    pub fn name(&self) -> &'static str {
        match self {
            Asked::Create(_) => "create",
            Asked::Update(_) => "update",
            Asked::Rollback(None) => "rollback",
            Asked::Rollback(Some(_)) => "rollback --to",
            Asked::Delete => "delete",
            Asked::Check => "check",
            Asked::Cancel => "cancel",
        }
    }

    fn action(&self) -> Option<StackAction> {
        match self {
            Asked::Create(_) => Some(StackAction::Create),
            Asked::Update(_) => Some(StackAction::Update),
            Asked::Rollback(_) => Some(StackAction::Rollback),
            Asked::Delete => Some(StackAction::Delete),
            Asked::Check => Some(StackAction::Check),
            Asked::Cancel => None,
        }
    }
}

/// One stack's history.
#[derive(Clone, Debug, Default)]
struct History {
    id: u64,
    traversal: u64,
    revision: u32,
    /// None: nothing.
    revisions: BTreeMap<u32, Option<Rc<Plan>>>,
    /// Newest first.
    complete: Vec<u32>,
    is_complete: bool,
    /// The last operation was a check.
    is_checked: bool,
}

/// All that operators did, as it was taken.
#[derive(Default)]
pub struct Reference {
    stacks: BTreeMap<StackName, History>,
    expected: Option<(StackName, Asked)>,
    /// With the revision that it was marked in.
    marked: BTreeMap<(StackName, String), (ResourceId, u32)>,
    /// A node is being removed.
    pub removing: bool,
}

impl History {
    fn begin(&mut self, asked: &Asked) {
        let was_checked = std::mem::replace(&mut self.is_checked, matches!(asked, Asked::Check));
        let plan = match asked {
            Asked::Create(plan) | Asked::Update(plan) => Some(Rc::clone(plan)),
            Asked::Rollback(to) => {
                let target = match to {
                    Some(to) => Some(to),
                    // A check says nothing of the revision.
                    None if self.is_complete || was_checked => {
                        self.complete.iter().find(|other| **other != self.revision)
                    }
                    None => self.complete.first(),
                };
                target.and_then(|to| self.revisions.get(to).cloned().flatten())
            }
            Asked::Delete | Asked::Check | Asked::Cancel => {
                self.is_complete = false;
                return;
            }
        };
        self.revision += 1;
        self.revisions.insert(self.revision, plan);
        self.is_complete = false;
    }

    /// What the stack is to be.
    fn plan(&self) -> Option<&Plan> {
        self.revisions.get(&self.revision)?.as_deref()
    }
}

impl Reference {
    /// This is asked now.
    pub fn expect(&mut self, name: &StackName, asked: Asked) {
        self.expected = Some((name.clone(), asked));
    }

    /// It was refused, or has begun.
    pub fn expected(&mut self) {
        self.expected = None;
    }

    /// A stack's record changed; what is wrong with that comes back.
    pub fn stack_went(
        &mut self,
        was: Option<&StackRecord>,
        is: &StackRecord,
        tables: &Tables,
    ) -> Option<String> {
        if was.is_none() {
            self.stacks.insert(is.name.clone(), History { id: is.id, ..History::default() });
        }
        let history = self.stacks.entry(is.name.clone()).or_default();
        if history.traversal != is.traversal {
            history.traversal = is.traversal;
            let asked = self.expected.take_if(|(name, _)| *name == is.name).map(|(_, asked)| asked);
            if let Some(asked) = &asked {
                history.begin(asked);
            }
            match asked.and_then(|asked| asked.action()) {
                Some(action) if action == is.action => {}
                // By itself, because the one before failed.
                None | Some(_) if is.action == StackAction::Rollback => {
                    history.is_complete = false;
                    history.begin(&Asked::Rollback(None));
                }
                // What was on a node that is gone for ever is made anew.
                None if self.removing
                    && is.action == StackAction::Update
                    && history.revision == is.revision =>
                {
                    // It is not COMPLETE any more, whatever a check has said.
                    (history.is_complete, history.is_checked) = (false, false);
                }
                None | Some(_) => {
                    return Some(format!("stack {} began {} unasked", is.name, is.action.as_str()));
                }
            }
            let keeps = matches!(is.action, StackAction::Delete | StackAction::Check);
            let has = tables.revisions.get(&(is.id, is.revision)).map(|text| text.name.as_str());
            let wanted =
                history.revisions.get(&is.revision).map(|plan| plan.as_ref().map_or("nothing", |p| &p.name));
            if history.revision != is.revision || (has != wanted && !keeps) {
                return Some(format!(
                    "{} of stack {} leads to revision {} with {has:?}, and should to {} with {wanted:?}",
                    is.action.as_str(),
                    is.name,
                    is.revision,
                    history.revision
                ));
            }
        }
        let is_complete = is.status == Status::Complete;
        if is_complete && !history.is_complete && is.action != StackAction::Check {
            history.complete.insert(0, is.revision);
            let id = is.id;
            let newer = |(stack, _): &(StackName, String), (_, revision): &mut (ResourceId, u32)| {
                *stack == is.name && *revision < is.revision
            };
            let trusted = self.marked.extract_if(.., newer);
            for ((_, resource), marked) in trusted.collect::<Vec<_>>() {
                if physical(id, &resource, tables) == Ok(marked.0) {
                    return Some(format!(
                        "{resource} of {} was marked unhealthy and is {} still",
                        is.name, marked.0
                    ));
                }
            }
        }
        history.is_complete = is_complete;
        None
    }

    /// An operator does not trust a resource.
    pub fn marks(&mut self, stack: &StackName, resource: &str, tables: &Tables) {
        let Some(history) = self.stacks.get(stack) else { return };
        if let Ok(physical) = physical(history.id, resource, tables) {
            self.marked.insert((stack.clone(), resource.to_owned()), (physical, history.revision));
        }
    }

    /// A stack has been deleted.
    pub fn stack_is_gone(&mut self, stack: &StackRecord) {
        self.expected.take_if(|(name, asked)| *name == stack.name && matches!(asked, Asked::Delete));
        self.stacks.remove(&stack.name);
        self.marked.retain(|(name, _), _| *name != stack.name);
    }

    /// Where reality is not what the stacks that are COMPLETE say, and, but for things of others, what was before.
    /// `by_hand`: what somebody has changed since is another, and may be so.
    pub fn differs(&self, tables: &Tables, machines: &[Machine], by_hand: bool) -> Option<String> {
        let machines: Vec<&Machine> = machines.iter().filter(|machine| !machine.scrapped).collect();
        let mut wanted = Wanted::new(&machines);
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for (name, history) in &self.stacks {
            let is_complete = tables.stacks.get(&history.id).is_some_and(|s| s.status == Status::Complete);
            match history.plan().filter(|_| is_complete) {
                Some(plan) => {
                    if let Err(wrong) = wanted.add(history.id, plan, tables, &machines) {
                        return Some(format!("stack {name}: {wrong}"));
                    }
                }
                None if is_complete => {}
                None => drop(open.insert(name.as_str())),
            }
        }
        machines.iter().find_map(|machine| wanted.differs(machine, tables, &open, by_hand))
    }
}

/// Hosts as they should be, by the machine's name.
struct Wanted {
    dummies: BTreeMap<String, BTreeMap<ResourceId, BTreeMap<String, String>>>,
    files: BTreeMap<String, BTreeMap<String, FileState>>,
    links: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Wanted {
    fn new(machines: &[&Machine]) -> Self {
        let name = |machine: &Machine| machine.name.to_string();
        Self {
            dummies: machines.iter().map(|m| (name(m), BTreeMap::new())).collect(),
            files: machines.iter().map(|m| (name(m), m.host.files_before.clone())).collect(),
            links: machines.iter().map(|m| (name(m), m.host.links_before.clone())).collect(),
        }
    }

    fn add(&mut self, stack: u64, plan: &Plan, tables: &Tables, machines: &[&Machine]) -> Result<(), String> {
        for (name, resource) in &plan.resources {
            let physical = physical(stack, name, tables)?;
            let node = match &resource.node {
                Some(node) => node.clone(),
                None if has_failed(&physical, tables) => continue,
                None => machines
                    .iter()
                    .find(|machine| machine.host.dummies.contains_key(&physical))
                    .map(|machine| machine.name.to_string())
                    .ok_or_else(|| format!("{name} is nowhere"))?,
            };
            let nowhere = || format!("{name} is to be on {node}, which is no server");
            match &resource.what {
                What::Dummy { values, .. } => {
                    let text = |value| text(value, stack, plan, tables);
                    let values: Result<_, String> =
                        values.iter().map(|(key, value)| Ok((key.clone(), text(value)?))).collect();
                    self.dummies.get_mut(&node).ok_or_else(nowhere)?.insert(physical, values?);
                }
                What::File { path, content, size, mode, .. } => {
                    let mut content = text(content, stack, plan, tables)?;
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
                What::Flows { .. } if has_failed(&physical, tables) => {}
                What::Flows { device, entries } => {
                    let row = tables.physical.get(&physical).copied().unwrap_or_default();
                    if let Some(wrong) = flows_differ(row, device, entries, tables) {
                        return Err(format!("{name}: {wrong}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn differs(
        &self,
        machine: &Machine,
        tables: &Tables,
        open: &BTreeSet<&str>,
        by_hand: bool,
    ) -> Option<String> {
        let name = machine.name.as_str();
        // What operators read to be FAILED may be anything: a resource of a stack that is COMPLETE is when somebody does not
        // trust it, or when it could not be made again for an agent that had lost everything. So may what is lost: one
        // that cannot be cleaned up holds back those that it needs.
        let here = |row: &&ResourceRecord| row.node.as_ref() == Some(&machine.name);
        let failed: BTreeSet<String> = tables
            .rows
            .values()
            .filter(here)
            .filter(|row| row.progress.status == Some(Status::Failed) || row.lost_from.is_some())
            .flat_map(|row| row.spec.as_ref().map(|spec| spec.unpack().claims()).unwrap_or_default())
            .map(|claim| claim.key)
            .collect();
        // What a stack that is not COMPLETE may have made is its own affair.
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
            let Some(row) = tables.physical.get(id).and_then(|row| tables.rows.get(row)) else {
                return false;
            };
            let stack = tables.stacks.get(&row.stack);
            has_failed(id, tables)
                || row.lost_from.is_some()
                || stack.is_some_and(|stack| open.contains(stack.name.as_str()))
        };
        compare("dummy", name, &self.dummies[name], &machine.host.dummies, row_open)
            .or_else(|| compare("file", name, &self.files[name], &machine.host.files, is_open))
            .or_else(|| {
                let is_open =
                    |link: &String| is_open(link) || by_hand && machine.host.by_hand.contains_key(link);
                compare("link", name, &self.links[name], &machine.host.links, is_open)
            })
    }
}

/// What a resource wants of a flow table is there, is its own, and is all that is its own.
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
        let is_so = |entry: &&muster_engine::flow::record::FlowEntryRecord| {
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

fn has_failed(id: &ResourceId, tables: &Tables) -> bool {
    let row = tables.physical.get(id).and_then(|row| tables.rows.get(row));
    row.is_some_and(|row| row.progress.status == Some(Status::Failed))
}

fn physical(stack: u64, name: &str, tables: &Tables) -> Result<ResourceId, String> {
    let is_it = |row: &&ResourceRecord| row.stack == stack && *row.name == *name && row.dropped.is_none();
    let mut rows = tables.rows.values().filter(is_it);
    match (rows.next(), rows.next()) {
        (Some(row), None) => Ok(row.physical),
        (None, _) => Err(format!("{name} has no row")),
        (Some(_), Some(_)) => Err(format!("{name} has more than one row")),
    }
}

fn text(value: &Value, stack: u64, plan: &Plan, tables: &Tables) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Hidden => Ok(plan.hidden.clone()),
        Value::Id(of) => match &plan.resources[of].external {
            Some(id) => Ok(id.clone()),
            None => Ok(physical(stack, of, tables)?.to_string()),
        },
        Value::Attribute(of, key) => match &plan.resources[of].what {
            What::Dummy { values, .. } => text(&values[key], stack, plan, tables),
            What::File { path, .. } => Ok(path.clone()),
            What::Hostname { number, .. } => Ok(format!("h{number}")),
            What::Network { .. } | What::Flows { .. } => Err(format!("{of} has no attributes")),
        },
    }
}
