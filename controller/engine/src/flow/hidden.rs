//! Entries that something hidden went into: of what they are nothing is shown, nor kept where it can be read (the store
//! seals what is marked).
//!
//! What a hidden text became there, a canonical address or a number, is no text to look for: so entries are marked when
//! they are put, and stay so whoever owns them, until somebody says the same who hides nothing.

use muster_shared::model::flow::FlowId;
use muster_template::{MASK, Secrets};
use serde_json::Value;

use super::entry::{Kept, Owner};
use super::table::Table;
use crate::engine::Engine;
use crate::resource::Slot;

/// Under this a row keeps, among its attributes, that its flow rules are made of something hidden.
pub const HIDES_FLOWS: &str = "hides_flows";

/// Entries whose values are looked for in what an agent says of all of them: of more nothing is shown.
const SEARCHED_MAX: usize = 64;

impl Engine {
    /// Before a row's rules become those of `properties`. What is on the device may be of the properties before: a mark
    /// goes only when these are `settled`.
    pub(crate) fn mark_hidden_flows(&mut self, slot: Slot, hides: bool, settled: bool) {
        let row = &mut self.rows[slot];
        let (owner, node, applied) = (Owner(row.id), row.node, row.applied);
        let changed = match hides {
            true => row.attributes.insert(HIDES_FLOWS.to_owned(), String::new()).is_none(),
            false => (settled || !applied) && row.attributes.remove(HIDES_FLOWS).is_some(),
        };
        if !changed {
            return;
        }
        self.row_changed(slot, true);
        for key in node.map(|node| self.flows.of_node(node)).unwrap_or_default() {
            let Some(device) = self.flows.get_mut(key) else { continue };
            let sent = device.in_flight.as_ref().map_or(&[][..], |flight| &flight.ids);
            let table = &mut device.table;
            match hides {
                true if applied || table.owned(owner).next().is_some() => table.hide(owner, sent),
                false if settled => table.reveal(owner),
                true | false => continue,
            }
            self.flows.touched(key);
        }
    }

    /// Whether a resource's rules are made of something hidden.
    pub(super) fn hides_flows(&self, owner: Owner) -> bool {
        let row = self.rows.of_id(owner.0).map(|slot| &self.rows[slot]);
        row.is_some_and(|row| row.attributes.contains_key(HIDES_FLOWS))
    }
}

impl Table {
    /// Why an agent did not do what these say, which may repeat what is in them, for operators.
    pub fn told(&self, reason: String, of: &[FlowId]) -> String {
        let hidden = of.iter().filter_map(|id| self.get(*id)).flat_map(Kept::hidden);
        let values: Vec<Value> =
            hidden.take(SEARCHED_MAX + 1).map(|packed| Value::Object(packed.unpack().to_json())).collect();
        match values.len() {
            0 => reason,
            1..=SEARCHED_MAX => without_numbers(&Secrets::of(values.iter()).mask(&reason)),
            _ => MASK.to_owned(),
        }
    }

    /// Why something of the device is wrong, for operators: of one entry agents say its id first.
    pub fn told_of_device(&self, reason: String) -> String {
        match reason.split_once(": ").and_then(|(id, why)| Some((FlowId::parse(id)?, why))) {
            Some((id, why)) => format!("{id}: {}", self.told(why.to_owned(), &[id])),
            None => reason,
        }
    }
}

/// A number or an address may be told in another notation than ours: words with digits go.
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
        let mut table = Table::default();
        let mut put = |number: u64, hidden: bool| {
            let rule = json!({"priority": number, "treatment": [{"output": format!("port-{number}")}]});
            let packed = Packed::new(&Entry::from_json(&rule).unwrap()).unwrap();
            let (id, digest) = (FlowId(0x4d55_0000_0000_0000 | number), packed.digest());
            let serial = table.begin();
            table.put(id, packed, digest, (Owner::OPERATOR, hidden), serial);
            id
        };
        let (known, hidden) = (put(1, false), put(2, true));
        let rest: Vec<FlowId> = (3..99).map(|number| put(number, true)).collect();
        for (said, shown) in [
            (format!("{known}: no port port-1"), format!("{known}: no port port-1")),
            (format!("{hidden}: no port port-2, so"), format!("{hidden}: no port ******, so")),
            ("the switch is not there: errno 2".into(), "the switch is not there: errno 2".into()),
            ("4d55: no id".into(), "4d55: no id".into()),
            (String::new(), String::new()),
        ] {
            assert_eq!(table.told_of_device(said), shown);
        }
        assert_eq!(table.told("x 1".into(), &[known]), "x 1");
        assert_eq!(table.told("x 1".into(), &[known, hidden]), "x ******");
        assert_eq!(table.told("x".into(), &rest), MASK, "too many to look for");
    }
}
