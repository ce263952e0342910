//! Collects the items of a flow file into stages.
//!
//! Absent: the words of a rule (`shared/src/model/flow/parse.rs`), and the order of stages at the devices
//! (`controller/flow/src/operation.rs`).

use std::collections::BTreeMap;

use indexmap::IndexMap;
use muster_shared::model::flow::{BadEntry, DeviceName, Entry, FlowId, Packed, Step, suggestion};
use muster_shared::property::confirm_timeout;
use serde_json::Value;

use super::{FlowFile, FlowPart, STAGES_MAX};
use crate::error::{Errors, Place, Sink, cut, push_item, push_key};
use crate::types::with_function;

/// A section of a flow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Rules,
    Stages,
    Groups,
    Meters,
    ConfirmTimeout,
}

const SECTIONS: [(&str, Section); 5] = [
    ("rules", Section::Rules),
    ("stages", Section::Stages),
    ("groups", Section::Groups),
    ("meters", Section::Meters),
    ("confirm_timeout", Section::ConfirmTimeout),
];

/// The place of an item: `rules[3]`, `stages[1][3]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub section: Section,
    pub stage: usize,
    pub item: usize,
}

/// An error of an item, with steps below the item.
pub(super) struct Fault {
    pub steps: Vec<Step>,
    pub message: String,
}

/// Meters, groups, rules: in a batch each kind comes before the entries that need it.
type Kinds = [Vec<(FlowId, Packed)>; 3];

pub(super) struct Collector {
    seen: Vec<(Section, Place)>,
    devices: IndexMap<Box<str>, usize>,
    names: Vec<DeviceName>,
    /// Entries by stage, then by number of the device.
    stages: Vec<BTreeMap<usize, Kinds>>,
    /// The line of each id: only looked up, never iterated.
    lines: IndexMap<FlowId, u32>,
    entries_max: usize,
    confirm_timeout: Option<u32>,
}

impl Collector {
    pub fn new(entries_max: usize) -> Self {
        Self {
            seen: Vec::new(),
            devices: IndexMap::new(),
            names: Vec::new(),
            stages: vec![BTreeMap::new()],
            lines: IndexMap::new(),
            entries_max,
            confirm_timeout: None,
        }
    }

    /// An empty collection with the same bounds.
    pub fn another(&self) -> Self {
        Self::new(self.entries_max)
    }

    /// The section of that name, if it is allowed here.
    pub fn section(&mut self, errors: &mut Sink, name: &str, at: Place) -> Option<Section> {
        let Some((_, section)) = SECTIONS.into_iter().find(|(known, _)| *known == name) else {
            let near = match suggestion(name, SECTIONS.map(|(known, _)| known)) {
                near if near.is_empty() => {
                    "; known are rules, stages, groups, meters, confirm_timeout".to_owned()
                }
                near => near,
            };
            errors.push(at, "", format!("a flow file has no section '{}'{near}", cut(name)));
            return None;
        };
        if let Some((_, first)) = self.seen.iter().find(|(seen, _)| *seen == section) {
            let message = format!("the section '{name}' is given twice; the first is at {first}");
            errors.push(at, "", message);
            return None;
        }
        let other = match section {
            Section::Rules => Some(Section::Stages),
            Section::Stages => Some(Section::Rules),
            Section::Groups | Section::Meters | Section::ConfirmTimeout => None,
        };
        if self.seen.iter().any(|(seen, _)| Some(*seen) == other) {
            errors.push(at, "", "give either rules or stages: rules are one stage");
        }
        self.seen.push((section, at));
        Some(section)
    }

    pub fn timeout(&mut self, errors: &mut Sink, value: &Value, at: Place) {
        match confirm_timeout(value).map_err(with_function) {
            Ok(seconds) => self.confirm_timeout = Some(seconds),
            Err(error) => errors.push(at, "confirm_timeout", error.message),
        }
    }

    /// Begins a stage of `stages`; the first one exists from the start.
    pub fn stage(&mut self, errors: &mut Sink, number: usize, at: Place) -> bool {
        if number >= STAGES_MAX {
            errors.push(at, "stages", format!("more than {STAGES_MAX} stages"));
            return false;
        }
        if number >= self.stages.len() {
            self.stages.push(BTreeMap::new());
        }
        true
    }

    /// Whether a further entry is within the bound.
    pub fn has_room(&self, errors: &mut Sink, at: Place, spot: Spot) -> bool {
        if self.lines.len() < self.entries_max {
            return true;
        }
        let message = format!(
            "more than {} rules, groups and meters (limits.flow_rules); split the file",
            self.entries_max
        );
        errors.push(at, &spot.path(&[]), message);
        false
    }

    /// Takes an item that begins on this line.
    pub fn take(&mut self, value: &Value, spot: Spot, line: u32) -> Result<(), Fault> {
        let entry = Entry::from_json(value)?;
        let kind = match (&entry, spot.section) {
            (Entry::Meter(_), Section::Meters | Section::Stages) => 0,
            (Entry::Group(_), Section::Groups | Section::Stages) => 1,
            (Entry::Rule(_), Section::Rules | Section::Stages) => 2,
            (_, section) => {
                let belongs = match entry {
                    Entry::Rule(_) => "this is a flow rule: it belongs into 'rules'",
                    Entry::Group(_) => "this is a group: it belongs into 'groups'",
                    Entry::Meter(_) => "this is a meter: it belongs into 'meters'",
                };
                debug_assert!(section != Section::Stages, "stages take all kinds");
                return Err(Fault::of(&[], belongs));
            }
        };
        let device = self.device(value)?;
        let id = entry.id(&self.names[device]);
        let packed = Packed::new(&entry).map_err(|error| Fault::of(&[], format!("too large: {error}")))?;
        if let Some(first) = self.lines.get(&id) {
            return Err(self.twice(id, &entry, *first));
        }
        self.lines.insert(id, line);
        self.stages[spot.stage].entry(device).or_default()[kind].push((id, packed));
        Ok(())
    }

    /// The line of the entry with this id, if there is one.
    pub fn line_of(&self, id: FlowId) -> Option<u32> {
        self.lines.get(&id).copied()
    }

    fn device(&mut self, value: &Value) -> Result<usize, Fault> {
        const KEY: &str = "device";
        let text = match value.get(KEY) {
            Some(Value::String(text)) => text.as_str(),
            None | Some(Value::Null) => {
                return Err(Fault::of(&[KEY], "this must be given: NODE/BRIDGE, such as web-1/br0"));
            }
            Some(_) => return Err(Fault::of(&[KEY], "want text: NODE/BRIDGE, such as web-1/br0")),
        };
        if let Some(number) = self.devices.get(text) {
            return Ok(*number);
        }
        let name: DeviceName = text.parse().map_err(|error| Fault::of(&[KEY], format!("{error}")))?;
        self.devices.insert(text.into(), self.names.len());
        self.names.push(name);
        Ok(self.names.len() - 1)
    }

    fn twice(&self, id: FlowId, entry: &Entry, line: u32) -> Fault {
        let all = self.stages.iter().flat_map(BTreeMap::values).flatten().flatten();
        let is_same =
            all.filter(|(other, _)| *other == id).any(|(_, packed)| packed.unpack().has_place_of(entry));
        let what = match (is_same, entry) {
            (false, _) => {
                return Fault::of(
                    &[],
                    format!(
                        "by chance this has the id {id} of the entry at line {line}: give one of them another priority"
                    ),
                );
            }
            (true, Entry::Rule(_)) => "the same device, table, priority and selector as the rule",
            (true, Entry::Group(_)) => "the same device and number as the group",
            (true, Entry::Meter(_)) => "the same device and number as the meter",
        };
        Fault::of(&[], format!("this has {what} at line {line}"))
    }

    pub fn finish(self, mut errors: Sink) -> Result<FlowFile, Errors> {
        let has_any = |section: &[Section]| self.seen.iter().any(|(seen, _)| section.contains(seen));
        if errors.is_empty() && !has_any(&[Section::Rules, Section::Stages, Section::Groups, Section::Meters])
        {
            let place = Place { line: 1, column: 1 };
            errors.push(
                place,
                "",
                "the flow file has no rules: give 'rules: [...]' or 'stages: [[...], ...]'",
            );
        }
        if !errors.is_empty() {
            return Err(errors.into_errors());
        }
        let names = self.names;
        let stages = self.stages.into_iter().map(|stage| {
            let mut parts: Vec<FlowPart> = stage
                .into_iter()
                .map(|(device, [mut meters, groups, rules])| {
                    // Most often there are rules only; they are not copied then.
                    let entries = match meters.is_empty() && groups.is_empty() {
                        true => rules,
                        false => {
                            meters.extend(groups);
                            meters.extend(rules);
                            meters
                        }
                    };
                    FlowPart { device: names[device].clone(), entries }
                })
                .collect();
            parts.sort_by(|a, b| a.device.cmp(&b.device));
            parts
        });
        Ok(FlowFile { stages: stages.collect(), confirm_timeout: self.confirm_timeout })
    }
}

impl Spot {
    /// The path as text, with further steps.
    pub fn path(self, steps: &[Step]) -> String {
        let mut path = String::new();
        match self.section {
            Section::Rules => push_key(&mut path, "rules"),
            Section::Groups => push_key(&mut path, "groups"),
            Section::Meters => push_key(&mut path, "meters"),
            Section::ConfirmTimeout => push_key(&mut path, "confirm_timeout"),
            Section::Stages => {
                push_key(&mut path, "stages");
                push_item(&mut path, self.stage);
            }
        }
        push_item(&mut path, self.item);
        for step in steps {
            match step {
                Step::Key(key) => push_key(&mut path, key),
                Step::Item(index) => push_item(&mut path, *index),
            }
        }
        path
    }
}

impl Fault {
    pub fn of(keys: &[&str], message: impl Into<String>) -> Self {
        Self { steps: keys.iter().map(|key| Step::Key((*key).into())).collect(), message: message.into() }
    }
}

impl From<BadEntry> for Fault {
    fn from(bad: BadEntry) -> Self {
        Self { steps: bad.path, message: bad.message }
    }
}
