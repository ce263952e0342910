//! Plans one transaction that puts a change into the table, whatever the table holds now.
//!
//! Rules in a chain are ordered by priority, then id: a rule is inserted before the first one that follows
//! it. Correct rules are not touched; replaced rules keep their counters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use muster_shared::model::flow::FlowId;

use super::list::{
    ChainRule, Found, Location, Picture, Place, comment, delete_rule, place_of_map, place_of_rule,
};
use super::translate::{COUNTER, Element, TranslatedRule};
use super::verdict_map::{MapName, SHARED};
use super::{CHAIN, FAMILY, TABLE, chain};
use crate::openflow::Form;

/// An operation of a change.
pub(super) struct Wish {
    pub id: FlowId,
    /// `None` to remove the rule.
    pub put: Option<TranslatedRule>,
}

/// The input of nft.
#[derive(Default)]
pub(super) struct Script {
    pub text: String,
    /// The entry of each line, in the order of lines.
    lines: Vec<(u32, FlowId)>,
    count: u32,
}

impl Script {
    fn line(&mut self, id: Option<FlowId>, line: &str) {
        self.count += 1;
        self.text.push_str(line);
        if !line.ends_with('\n') {
            self.text.push('\n');
        }
        self.lines.extend(id.map(|id| (self.count, id)));
    }

    /// The entry a line is about.
    pub fn blamed(&self, line: usize) -> Option<FlowId> {
        let at = self.lines.binary_search_by_key(&line, |(line, _)| *line as usize).ok()?;
        Some(self.lines[at].1)
    }
}

/// The form in which a put entry must be listed afterwards.
pub(super) enum ExpectedForm {
    Rule(Form),
    Element(Form),
}

impl Wish {
    /// The form that is expected there.
    fn element(&self) -> Option<(&TranslatedRule, &Element, MapName)> {
        let said = self.put.as_ref()?;
        let element = said.element.as_ref()?;
        let TranslatedRule { table, priority, .. } = *said;
        Some((said, element, MapName { table, priority, shape: element.shape }))
    }
}

struct Plan<'a> {
    picture: &'a Picture,
    script: Script,
    chains: BTreeSet<u8>,
    /// Elements that each map holds in the end.
    maps: BTreeMap<MapName, usize>,
    inserted: Vec<(u8, Place, FlowId, String)>,
    elements: Vec<(FlowId, String)>,
    replaced: Vec<(FlowId, String)>,
    gone: BTreeSet<u64>,
    dispatch: BTreeSet<MapName>,
    rules: usize,
}

/// Plans the script; empty if there is nothing to do.
pub(super) fn plan(picture: &Picture, wishes: &[Wish]) -> Script {
    let mut shared: BTreeMap<MapName, usize> = BTreeMap::new();
    for (.., name) in wishes.iter().filter_map(Wish::element) {
        *shared.entry(name).or_default() += 1;
    }
    let rules = picture.found.iter().filter(|found| matches!(found.at, Location::Rule { .. })).count();
    let mut plan = Plan {
        picture,
        script: Script::default(),
        chains: BTreeSet::new(),
        maps: picture.maps.iter().map(|(name, map)| (*name, map.elements)).collect(),
        inserted: Vec::new(),
        elements: Vec::new(),
        replaced: Vec::new(),
        gone: BTreeSet::new(),
        dispatch: BTreeSet::new(),
        rules,
    };
    for wish in wishes {
        let found = picture.find(wish.id);
        let Some(said) = &wish.put else {
            plan.remove(found);
            continue;
        };
        plan.chains.insert(said.table);
        plan.chains.extend(said.goto);
        let in_map = wish
            .element()
            .filter(|(.., name)| plan.picture.maps.contains_key(name) || shared[name] >= SHARED);
        match in_map {
            Some((_, element, name)) => plan.put_element(wish, element, name, found),
            None => plan.put_rule(wish.id, said, found),
        }
    }
    plan.finish()
}

impl Plan<'_> {
    fn remove(&mut self, found: Option<&Found>) {
        let Some(found) = found else { return };
        match found.at {
            Location::Rule { handle, .. } => {
                self.gone.insert(handle);
                self.rules -= 1;
            }
            Location::Element(name) => *self.maps.entry(name).or_default() -= 1,
        }
        self.script.line(Some(found.id), &found.removal());
    }

    fn put_element(&mut self, wish: &Wish, element: &Element, name: MapName, found: Option<&Found>) {
        self.dispatch.insert(name);
        if found.is_some_and(|found| found.at == Location::Element(name) && found.form == element.form) {
            return;
        }
        self.remove(found);
        *self.maps.entry(name).or_default() += 1;
        let (counter, note) = (counter(found), comment(wish.id, name.priority));
        let Element { key, verdict, .. } = element;
        let line = format!("add element {FAMILY} {TABLE} {name} {{ {key} {counter} {note} : {verdict} }}");
        self.elements.push((wish.id, line));
    }

    fn put_rule(&mut self, id: FlowId, said: &TranslatedRule, found: Option<&Found>) {
        let text = said.text.replacen(COUNTER, &counter(found), 1);
        let text = format!("{text} {}", comment(id, said.priority));
        let stands = found.filter(|found| found.table == said.table && found.priority == said.priority);
        match stands.map(|found| (found, found.at)) {
            Some((found, Location::Rule { misplaced: false, .. })) if found.form == said.form => {}
            Some((_, Location::Rule { handle, misplaced: false })) => {
                let chain = chain(said.table);
                let line = format!("replace rule {FAMILY} {TABLE} {chain} handle {handle} {text}");
                self.replaced.push((id, line));
            }
            _ => {
                self.remove(found);
                self.rules += 1;
                self.inserted.push((said.table, place_of_rule(said.priority, id), id, text));
            }
        }
    }

    /// Inserts the rule before the first remaining one that follows it.
    fn insert(&self, table: u8, place: Place, text: &str) -> String {
        let standing: &[ChainRule] = self.picture.chains.get(&table).map_or(&[], Vec::as_slice);
        let after = &standing[standing.partition_point(|standing| standing.place < place)..];
        let chain = chain(table);
        match after.iter().find(|standing| !self.gone.contains(&standing.handle)) {
            Some(ChainRule { handle, .. }) => {
                format!("insert rule {FAMILY} {TABLE} {chain} position {handle} {text}")
            }
            None => format!("add rule {FAMILY} {TABLE} {chain} {text}"),
        }
    }

    fn finish(mut self) -> Script {
        let removed = std::mem::take(&mut self.script);
        let is_empty = self.rules == 0 && self.maps.values().all(|elements| *elements == 0);
        let mut script = Script::default();
        if is_empty {
            // Objects of others in the table vanish with it; deleting an absent table is skipped.
            if self.picture.exists {
                script.line(None, &format!("delete table {FAMILY} {TABLE}"));
            }
            return script;
        }
        script.line(None, &format!("add table {FAMILY} {TABLE}"));
        script.line(None, &format!("add chain {FAMILY} {TABLE} {} {CHAIN}", chain(0)));
        for table in self.chains.iter().filter(|table| **table != 0) {
            script.line(None, &format!("add chain {FAMILY} {TABLE} {}", chain(*table)));
        }
        let before = script.count;
        script.count += removed.count;
        script.text.push_str(&removed.text);
        script.lines.extend(removed.lines.into_iter().map(|(line, id)| (line + before, id)));
        let mut dropped = String::new();
        for (name, elements) in &self.maps {
            let map = self.picture.maps.get(name);
            let dispatch = map.and_then(|map| map.dispatch);
            if *elements == 0 {
                if let Some(handle) = dispatch {
                    self.gone.insert(handle);
                    dropped.push_str(&delete_rule(name.table, handle));
                }
                if map.is_some() {
                    let _ = writeln!(dropped, "delete map {FAMILY} {TABLE} {name}");
                }
                continue;
            }
            if map.is_none() {
                script.line(None, &format!("add map {FAMILY} {TABLE} {name} {}", name.declaration()));
            }
            if dispatch.is_none() && (map.is_none() || self.dispatch.contains(name)) {
                let text = format!("{} comment \"muster:map {name}\"", name.dispatch());
                self.inserted.push((name.table, place_of_map(name), FlowId::default(), text));
            }
        }
        for (id, line) in std::mem::take(&mut self.elements) {
            script.line(Some(id), &line);
        }
        self.inserted.sort_unstable_by_key(|(table, place, ..)| (*table, *place));
        for (table, place, id, text) in &self.inserted {
            let id = (*id != FlowId::default()).then_some(*id);
            script.line(id, &self.insert(*table, *place, text));
        }
        for (id, line) in &self.replaced {
            script.line(Some(*id), line);
        }
        // A map can be removed once no rule looks into it.
        dropped.lines().for_each(|line| script.line(None, line));
        script
    }
}

fn counter(found: Option<&Found>) -> String {
    match found {
        Some(Found { packets: packets @ 1.., bytes, .. }) => {
            format!("{COUNTER} packets {packets} bytes {bytes}")
        }
        _ => COUNTER.to_owned(),
    }
}

/// Whether the found rule equals the expected one, in either of its places.
pub(super) fn is_as_said(found: &Found, said: &TranslatedRule) -> bool {
    let place = match found.at {
        Location::Rule { misplaced: true, .. } => return false,
        Location::Rule { .. } => ExpectedForm::Rule(said.form),
        Location::Element(_) => match &said.element {
            Some(element) => ExpectedForm::Element(element.form),
            None => return false,
        },
    };
    let (ExpectedForm::Rule(form) | ExpectedForm::Element(form)) = place;
    is_in_place(found, said) && found.form == form
}

/// Whether the found rule is where the expected one belongs, whatever its content.
pub(super) fn is_in_place(found: &Found, said: &TranslatedRule) -> bool {
    let is_there = match (found.at, &said.element) {
        (Location::Rule { misplaced, .. }, _) => !misplaced,
        (Location::Element(name), Some(element)) => name.shape == element.shape,
        (Location::Element(_), None) => false,
    };
    is_there && found.table == said.table && found.priority == said.priority
}
