//! Groups, nested stacks, values and ports at random.

use std::collections::BTreeSet;

use super::super::{Group, HANDLE, Inner, Member, Order, Plan, Resource, Value, Virtual, What};
use super::{Maker, Mood};

/// The network of the first stack: the others have ports on it too.
pub const SHARED: &str = "shared";
/// Last addresses of pools that are soon full, and of one that is not.
const LAST: [u8; 3] = [11, 13, 16];
const LAST_SOUND: u8 = 130;
/// Addresses that are asked for lie outside the pools: those that anybody asks for, and those that are one's own.
const FIXED_ANY: u8 = 150;
const FIXED_OWN: u8 = 160;

/// The third byte of addresses of a stack's own network.
fn third_of(stack: usize) -> usize {
    1 + stack % 200
}

impl Maker {
    /// The first stack always has its network, for others have ports on it; some have their own.
    pub(super) fn network_of(&mut self, stack: usize, mood: Mood, plan: &mut Plan) {
        if stack != 0 && !self.dice.one_in(3) {
            return;
        }
        let name = if stack == 0 { SHARED.to_owned() } else { format!("net-{stack}") };
        let last = if mood == Mood::Any { *self.dice.pick(&LAST) } else { LAST_SOUND };
        let subnet = Virtual::Subnet { network: name.clone(), third: third_of(stack), last };
        for (key, here) in [("y", Virtual::Net { name }), ("z", subnet)] {
            plan.resources.insert(key.into(), Resource::of(What::Virtual(here)));
        }
    }

    /// `(stack, at)`: whose, and which of its resources.
    pub(super) fn tree(
        &mut self,
        mood: Mood,
        plan: &Plan,
        earlier: &[&str],
        node: &str,
        (stack, at): (usize, usize),
    ) -> What {
        if plan.resources.contains_key(HANDLE) && self.dice.one_in(4) {
            let timeout = if mood == Mood::Any { *self.dice.pick(&[10, 40, 120, 600]) } else { 600 };
            return What::Virtual(Virtual::Wait { count: 1 + self.dice.below(3), timeout });
        }
        match self.dice.below(10) {
            0 | 1 if self.dice.one_in(2) => What::Virtual(Virtual::Value(self.value(plan, earlier))),
            0 | 1 => What::Virtual(Virtual::Value(Value::Text(self.dice.below(4).to_string()))),
            2 => What::Virtual(Virtual::Random { length: 4 + self.dice.index(2), salt: self.dice.below(2) }),
            3..6 => What::Group(self.group(mood, plan, earlier, node)),
            6..8 => What::Nested(self.inner(plan, earlier, node)),
            _ => {
                let (network, is_own) = self.some_network(plan);
                let third = if is_own { third_of(stack) } else { third_of(0) };
                let fixed = match (mood, self.dice.below(4)) {
                    (Mood::Any, 0) => Some(FIXED_ANY + u8::try_from(self.dice.below(2)).unwrap_or_default()),
                    // No other port asks for it.
                    (Mood::Sound, 0) => {
                        u8::try_from(at % 8 + 8 * (stack % 8)).ok().map(|own| FIXED_OWN + own)
                    }
                    _ => None,
                };
                let by_id = is_own && self.dice.one_in(2);
                What::Virtual(Virtual::Port { network, by_id, fixed: fixed.map(|last| (third, last)) })
            }
        }
    }

    fn some_network(&mut self, plan: &Plan) -> (String, bool) {
        match plan.resources.get("y").map(|own| &own.what) {
            Some(What::Virtual(Virtual::Net { name })) if name == SHARED || self.dice.one_in(2) => {
                (name.clone(), true)
            }
            _ => (SHARED.to_owned(), false),
        }
    }

    /// A text, or what others have under this key.
    fn known_later(&mut self, plan: &Plan, earlier: &[&str], key: &str, text: String) -> Value {
        let has = |name: &&&str| {
            let resource = &plan.resources[**name];
            resource.is_there()
                && match &resource.what {
                    What::Dummy { values, .. } => values.contains_key(key),
                    What::Virtual(Virtual::Value(Value::Text(text))) => {
                        key == "n" && text.parse::<u64>().is_ok()
                    }
                    _ => false,
                }
        };
        let those: Vec<&str> = earlier.iter().filter(has).copied().collect();
        if those.is_empty() || self.dice.one_in(3) {
            return Value::Text(text);
        }
        let of = *self.dice.pick(&those);
        let is_value = matches!(plan.resources[of].what, What::Virtual(_));
        Value::Attribute(of.to_owned(), if is_value { "value" } else { key }.to_owned())
    }

    fn group(&mut self, mood: Mood, plan: &Plan, earlier: &[&str], node: &str) -> Group {
        let text = self.dice.below(4).to_string();
        let mut count = self.known_later(plan, earlier, "n", text);
        if mood == Mood::Any && self.dice.one_in(25) {
            // No number, as a rule.
            let other = self.value(plan, earlier);
            if matches!(other, Value::Attribute(..) | Value::Id(_)) {
                count = other;
            }
        }
        let by_parameter =
            matches!(&count, Value::Text(text) if text.parse::<u64>().is_ok()) && self.dice.one_in(2);
        let member = match self.dice.below(4) {
            0 | 1 => Member::Dummy { node: node.to_owned(), value: self.value(plan, earlier) },
            2 => Member::Nested(self.inner(plan, earlier, node)),
            _ => Member::Port { network: self.some_network(plan).0 },
        };
        if matches!(count, Value::Text(_)) && self.dice.one_in(4) {
            let order = if self.dice.one_in(3) { Order::AtOnce } else { Order::InTurn };
            return Group {
                chain: Some(order),
                count,
                by_parameter: false,
                removed: BTreeSet::new(),
                removed_things: BTreeSet::new(),
                appends: true,
                batches: None,
                member,
            };
        }
        let mut removed = BTreeSet::new();
        while self.dice.one_in(4) {
            removed.insert(self.dice.below(4));
        }
        Group {
            chain: None,
            count,
            by_parameter,
            removed,
            removed_things: BTreeSet::new(),
            appends: !self.dice.one_in(4),
            batches: self.dice.one_in(3).then(|| (1 + self.dice.below(2), 1 + self.dice.below(2))),
            member,
        }
    }

    fn inner(&mut self, plan: &Plan, earlier: &[&str], node: &str) -> Inner {
        let value = self.value(plan, earlier);
        let on = self.dice.one_in(2).to_string();
        let on = self.known_later(plan, earlier, "t", on);
        let text = self.dice.below(3).to_string();
        let count = self.dice.one_in(3).then(|| self.known_later(plan, earlier, "n", text));
        Inner { node: node.to_owned(), value, on, again: self.dice.below(2), count }
    }
}
