//! Entries that hidden values went into. Their content is not shown, and the store seals it.
//!
//! A hidden text may become an address or a number in an entry, so no search can find it there.
//! Entries are therefore marked when they are put. The mark stays, whoever owns the entry, until an
//! owner that hides nothing puts the same entry.
//!
//! Absent: whether hidden values went into the rules of a resource (`Traversals::decide`,
//! `controller/engine/src/traversal/visit.rs`).

use muster_shared::NodeId;
use muster_shared::model::flow::FlowId;
use muster_template::{MASK, Secrets};
use serde_json::Value;

use crate::device::Flows;
use crate::entry::Kept;
use crate::owner::Owner;
use crate::table::Table;

/// Entries whose values are searched for in a report about all of them. With more entries nothing
/// of the report is shown.
const SEARCHED_MAX: usize = 64;

impl Flows {
    /// Marks the entries of an owner on a node as hidden, including versions before open writes.
    /// `applied`: the owner may have had entries that the table no longer has.
    pub fn hide(&mut self, node: &NodeId, owner: Owner, applied: bool) {
        for key in self.of_node(node) {
            let Some(device) = self.get_mut(key) else { continue };
            let sent = device.in_flight.as_ref().map_or(&[][..], |flight| &flight.ids);
            if applied || device.table.owned(owner).next().is_some() {
                device.table.hide(owner, sent);
                self.touched(key);
            }
        }
    }

    /// Unmarks the entries of an owner on a node as hidden.
    pub fn reveal(&mut self, node: &NodeId, owner: Owner) {
        for key in self.of_node(node) {
            if let Some(device) = self.get_mut(key) {
                device.table.reveal(owner);
                self.touched(key);
            }
        }
    }
}

impl Table {
    /// A reason from an agent for these entries, for operators. It may repeat their content.
    pub fn told(&self, reason: String, of: &[FlowId]) -> String {
        masked(reason, of.iter().filter_map(|id| self.get(*id)))
    }

    /// A reason from an agent about a device, for operators. It may repeat the content of any entry.
    pub fn told_of_device(&self, reason: String) -> String {
        match reason.is_empty() {
            true => reason,
            false => masked(reason, self.iter().map(|(_, kept)| kept)),
        }
    }
}

/// The reason without what is hidden in these entries.
fn masked<'t>(reason: String, entries: impl Iterator<Item = &'t Kept>) -> String {
    let hidden = entries.flat_map(Kept::hidden).take(SEARCHED_MAX + 1);
    let values: Vec<Value> = hidden.map(|packed| Value::Object(packed.unpack().to_json())).collect();
    match values.len() {
        0 => reason,
        1..=SEARCHED_MAX => without_numbers(&Secrets::of(values.iter()).mask(&reason)),
        _ => MASK.to_owned(),
    }
}

/// Masks all words with digits: a number or an address may be in another notation than ours.
fn without_numbers(text: &str) -> String {
    let shown = |word: &str| {
        let bare = word.trim_end();
        match bare.contains(|c: char| c.is_ascii_digit()) {
            true => [MASK, &word[bare.len()..]].concat(),
            false => word.to_owned(),
        }
    };
    text.split_inclusive(char::is_whitespace).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use muster_shared::model::flow::{Entry, Packed};
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_device_whatever_is_said_of_what_is_hidden_is_masked() {
        let put = |table: &mut Table, number: u64, hidden: bool| {
            let rule = json!({"priority": number, "treatment": [{"output": format!("port-{number}")}]});
            let packed = Packed::new(&Entry::from_json(&rule).unwrap()).unwrap();
            let (id, digest) = (FlowId(0x4d55_0000_0000_0000 | number), packed.digest());
            let serial = table.begin();
            table.put(id, packed, digest, (Owner::OPERATOR, hidden), serial);
            id
        };
        let mut table = Table::default();
        let known = put(&mut table, 1, false);
        assert_eq!(table.told_of_device("no port port-1".into()), "no port port-1", "nothing is hidden");
        let hidden = put(&mut table, 2, true);
        assert_eq!(table.told("x 1".into(), &[known]), "x 1");
        assert_eq!(table.told("x 1".into(), &[known, hidden]), "x ******");
        assert_eq!(table.told("no port port-2, so".into(), &[hidden]), "no port ******, so");
        assert_eq!(table.told_of_device("no port port-2: errno 2".into()), "no port ******: errno ******");
        assert_eq!(table.told_of_device("the switch is not there".into()), "the switch is not there");
        assert_eq!(table.told_of_device(String::new()), "");
        let rest: Vec<FlowId> = (3..99).map(|number| put(&mut table, number, true)).collect();
        assert_eq!(table.told("x".into(), &rest), MASK, "too many to look for");
        assert_eq!(table.told_of_device("x".into()), MASK, "too many to look for");
    }
}
