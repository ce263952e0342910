//! Once nothing goes wrong any more, tables equal switches: each entry that is ADDED is on its switch as it was asked for,
//! what is ours on a switch is in its table, what is not ours is as it was, and what was acknowledged is there.

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::record::{FlowEntryRecord, FlowMark};
use muster_shared::model::flow::{DeviceName, FlowId};

use super::super::machine::Machine;
use super::super::shared::Shared;
use super::super::store::Tables;
use super::check::number_of;
use super::entries::device;
use super::model::{Left, Wanted};
use super::switch::{MANAGEMENT, OTHER, timeouts};

/// Whether the entry ended by its own timeout.
pub fn has_ended(entry: &FlowEntryRecord) -> bool {
    matches!(entry.mark, FlowMark::Expired | FlowMark::Gone)
}

/// The list of entries left as they are, which most tables do not have.
static NOTHING: Left = Left::new();

/// The first table that is not what its switch is, or not what was asked for.
pub fn differ(shared: &Shared, machines: &[Machine]) -> Option<String> {
    let here = machines.iter().filter(|machine| !machine.scrapped && machine.joined);
    here.flat_map(|machine| [(machine, MANAGEMENT), (machine, OTHER)])
        .find_map(|(machine, bridge)| {
            let name = device(machine.name.as_str(), bridge);
            let left = shared.flows.left.get(&name).unwrap_or(&NOTHING);
            let wrong = table_differs(&shared.tables, machine, &name, left)
                .or_else(|| foreign_differs(machine, bridge))
                .or_else(|| asked_differs(shared, &name))?;
            Some(format!("{name}: {wrong}"))
        })
        .or_else(|| owners_differ(&shared.tables))
}

fn entries<'a>(tables: &'a Tables, name: &DeviceName) -> impl Iterator<Item = &'a FlowEntryRecord> {
    let number = number_of(&tables.flows, &name.node, &name.bridge);
    let range = number.map(|number| (number, FlowId(0))..=(number, FlowId(u64::MAX)));
    range.into_iter().flat_map(|range| tables.flows.entries.range(range)).map(|(_, entry)| entry)
}

/// But for entries that operators of a restored site have left as they are.
fn table_differs(tables: &Tables, machine: &Machine, name: &DeviceName, left: &Left) -> Option<String> {
    let plane = &machine.host.switch.planes[name.bridge.as_str()];
    let number = number_of(&tables.flows, &name.node, &name.bridge);
    let settled = number.and_then(|number| tables.flows.devices.get(&number)).map_or(0, |it| it.settled);
    // Rules on a device without a table are not checked.
    let has_log = machine.disk.logs.get(&name.bridge).is_some_and(|log| !log.is_empty());
    let is_kept = has_log && machine.watches(&name.bridge);
    let mut accounted = BTreeSet::new();
    let put = entries(tables, name).filter(|entry| entry.mark != FlowMark::Failed);
    let put: BTreeMap<FlowId, u64> = put.map(|entry| (entry.id, entry.serial)).collect();
    let is_left =
        |id: &FlowId| left.get(id).is_some_and(|write| put.get(id).is_none_or(|serial| serial < write));
    for entry in entries(tables, name).filter(|entry| !is_left(&entry.id)) {
        let held = plane.held.get(&entry.id).filter(|held| held.cookie == entry.id.0);
        let wrong = if entry.mark == FlowMark::Failed && !entry.removing {
            held.filter(|_| is_kept).map(|held| format!("is FAILED, and is there: {held:?}"))
        } else if entry.removing || entry.serial > settled {
            Some("is still PENDING".to_owned())
        } else if has_ended(entry) {
            let may = timeouts(&entry.packed) != (0, 0);
            (held.is_some() || !may).then(|| format!("has expired, and is {held:?}"))
        } else if entry.mark != FlowMark::None {
            Some(format!("is still {:?}", entry.mark))
        } else {
            accounted.insert(entry.id);
            let same = held.is_some_and(|held| held.packed == entry.packed);
            (!same).then(|| format!("is ADDED, and on the switch is {held:?}"))
        };
        if let Some(wrong) = wrong {
            return Some(format!("{} {wrong}: {entry:?}", entry.id));
        }
    }
    if !is_kept {
        return None;
    }
    let ours = plane.held.iter().filter(|(id, held)| FlowId::is_ours(held.cookie) && !is_left(id));
    let mut unknown = ours.filter(|(id, held)| held.cookie != id.0 || !accounted.contains(id));
    unknown.next().map(|(id, held)| format!("{id} is there, and nobody asked for it: {held:?}"))
}

fn foreign_differs(machine: &Machine, bridge: &str) -> Option<String> {
    let plane = &machine.host.switch.planes[bridge];
    let touched = plane.foreign.iter().find(|(id, held)| plane.held.get(id) != Some(held));
    touched.map(|(id, held)| format!("{id} is not ours and was {held:?}, and is {:?}", plane.held.get(id)))
}

/// A device that lacks what operators were told is there, or has more of theirs.
fn asked_differs(shared: &Shared, name: &DeviceName) -> Option<String> {
    let wanted = shared.flows.wanted(name);
    for (id, wanted) in &wanted {
        let all = entries(&shared.tables, name);
        let theirs = |entry: &&FlowEntryRecord| {
            entry.id == *id && entry.owner.is_unnamed_operator() && entry.mark != FlowMark::Failed
        };
        let is = all.filter(theirs).map(|entry| entry.packed.clone()).next();
        let right = match wanted {
            Wanted::Is(wanted) => is == *wanted,
            Wanted::OneOf(many) => many.contains(&is),
        };
        if !right {
            let history = shared.flows.history(name, *id);
            return Some(format!("operators were told that {id} is {wanted:?}, and it is {is:?}: {history}"));
        }
    }
    let theirs =
        |entry: &&FlowEntryRecord| entry.owner.is_unnamed_operator() && entry.mark != FlowMark::Failed;
    let mut all = entries(&shared.tables, name).filter(theirs);
    let nobody = all.find(|entry| !wanted.contains_key(&entry.id))?;
    Some(format!("no operator asked for {nobody:?}"))
}

/// An entry of a resource has one. Those of intents are looked at with each commit.
fn owners_differ(tables: &Tables) -> Option<String> {
    let is_rows =
        |entry: &&FlowEntryRecord| !entry.owner.is_unnamed_operator() && entry.owner.as_intent().is_none();
    let owned = tables.flows.entries.values().filter(is_rows);
    let mut orphans = owned.filter(|entry| !tables.rows.contains_key(&entry.owner.0));
    orphans.next().map(|entry| format!("the resource is gone that owned {entry:?}"))
}
