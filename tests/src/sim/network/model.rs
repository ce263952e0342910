//! The reference model of intents, from the requests that were accepted; and what of a record is wrong by itself.

use std::collections::BTreeMap;

use muster_flow::record::{FlowMark, FlowSnapshot};
use muster_intent::manager::{IntentRecord, Wish};
use muster_intent::phase::{Request, State};
use muster_intent::record::{IntentChange, IntentSnapshot};

/// The last request under a key; none: to forget it, or no request at all.
pub type Asked = Option<(Request, Wish)>;

/// The accepted requests of operators about intents.
#[derive(Clone, Default)]
pub struct Wishes {
    asked: BTreeMap<Box<str>, (Request, Wish)>,
    /// The requests that are being made at this moment.
    expected: BTreeMap<Box<str>, Asked>,
    /// Counts commits that changed something of intents or flow tables.
    pub version: u64,
}

/// Whether an intent under this key is a stack's.
pub fn is_stacks(key: &str) -> bool {
    key.starts_with('s')
}

/// Returns the last request as the store has it.
fn asked_of(intents: &IntentSnapshot, key: &str) -> Asked {
    let (record, _) = intents.intents.values().find(|(record, _)| *record.key == *key)?;
    let wish = Wish { intent: record.intent.clone(), group: record.group.clone() };
    Some((record.request, wish))
}

impl Wishes {
    /// Notes requests before they are made.
    pub fn expect(&mut self, expected: BTreeMap<Box<str>, Asked>) {
        self.expected = expected;
    }

    /// Returns the last request under a key.
    pub fn of(&self, key: &str) -> Asked {
        self.asked.get(key).cloned()
    }

    /// Returns the keys that have a request.
    pub fn keys(&self) -> impl Iterator<Item = &Box<str>> {
        self.asked.keys()
    }

    /// Takes the answer to the pending requests: accepted, refused, or unknown, and then what is durable decides.
    /// Returns what is wrong with the answer.
    pub fn answered(&mut self, taken: Option<bool>, intents: &IntentSnapshot) -> Option<String> {
        let mut wrong = None;
        for (key, new) in std::mem::take(&mut self.expected) {
            let (is, old) = (asked_of(intents, &key), self.of(&key));
            let right = match taken {
                Some(true) => is == new,
                Some(false) => is == old,
                None => is == new || is == old,
            };
            if !right {
                let text = format!("what was asked of intent {key} was answered {taken:?}");
                wrong = Some(format!("{text}: before {old:?}, asked {new:?}, durable {is:?}"));
            }
            match is {
                Some(is) => drop(self.asked.insert(key, is)),
                None => drop(self.asked.remove(&key)),
            }
        }
        wrong
    }

    /// Everything of a commit is durable: nobody but an operator changes what operators asked for.
    pub fn committed(&self, intents: &IntentSnapshot) -> Option<String> {
        let own =
            intents.intents.values().filter(|(record, owner)| owner.is_none() && !is_stacks(&record.key));
        let mut count = 0;
        for (record, _) in own {
            let is = asked_of(intents, &record.key);
            if self.of(&record.key) != is && self.expected.get(&record.key) != Some(&is) {
                let asked = self.of(&record.key);
                return Some(format!("intent {} is {is:?}, and operators asked for {asked:?}", record.key));
            }
            count += usize::from(self.asked.contains_key(&record.key));
        }
        let going = self.asked.keys().filter(|key| self.expected.get(*key) == Some(&None)).count();
        (count + going < self.asked.len()).then(|| "an intent is gone that an operator asked for".to_owned())
    }
}

/// Checks what must hold of every record, whatever happens.
pub fn state_is_right(intents: &IntentSnapshot, flows: &FlowSnapshot) -> Option<String> {
    for (record, _) in intents.intents.values() {
        let needs_reason = matches!(record.state, State::Failed | State::Corrupt);
        if needs_reason && record.reason.as_deref().is_none_or(str::is_empty) {
            return Some(format!("intent {} is {} without a reason", record.key, record.state.as_str()));
        }
    }
    for ((device, _), entry) in &flows.entries {
        let Some(no) = entry.owner.as_intent() else { continue };
        match intents.intents.get(&no) {
            None => return Some(format!("the intent is gone that owned {entry:?}")),
            Some((record, _)) if record.state == State::Withdrawn => {
                return Some(format!("intent {} is WITHDRAWN and has {entry:?}", record.key));
            }
            // An entry that could not be removed after a move is in the table again.
            Some((record, _)) if record.state == State::Installed && record.errors == 0 => {
                let settled = flows.devices.get(device).map(|it| it.settled).unwrap_or_default();
                let is_wanted = !entry.removing && entry.mark == FlowMark::None;
                if is_wanted && entry.serial > settled {
                    return Some(format!("intent {} is INSTALLED, and not ADDED is {entry:?}", record.key));
                }
            }
            Some(_) => {}
        }
    }
    None
}

/// Returns the names under which a change is counted.
pub fn counted(was: Option<&IntentRecord>, change: &IntentChange) -> Vec<String> {
    match change {
        IntentChange::Intent(is, owner) => {
            let from = was.map_or("none", |was| was.state.as_str());
            let mut counts = Vec::new();
            if was.is_none_or(|was| was.state != is.state) {
                counts.push(format!("intent {from} -> {}", is.state.as_str()));
            }
            if was.is_none_or(|was| was.state != is.state) && is.state == State::Installed {
                counts.push(format!("intent {} INSTALLED", is.intent.kind.name()));
                let constraints = &is.intent.constraints;
                for (name, is_given) in [
                    ("bandwidth", constraints.bandwidth.is_some()),
                    ("waypoints", !constraints.waypoints.is_empty()),
                    ("obstacles", !constraints.obstacles.is_empty()),
                    ("encapsulation", constraints.vlan),
                    ("protection", constraints.protection),
                    ("partial_failure", !is.missing.is_empty()),
                    ("resource_group", is.group.is_some()),
                ] {
                    if is_given {
                        counts.push(format!("intent with {name} INSTALLED"));
                    }
                }
                if owner.is_some() {
                    counts.push("intent of a stack INSTALLED".to_owned());
                }
            }
            let moves =
                |was: &&IntentRecord| was.state == State::Reallocating && is.state == State::Reallocating;
            if was.filter(moves).is_some_and(|was| was.version < is.version) {
                counts.push("intent moves another way while it moves".to_owned());
            }
            if was.is_some_and(|was| was.history.last() != is.history.last()) {
                counts.push("intent has moved".to_owned());
                let why = is.history.last().map(|last| &*last.why).unwrap_or_default();
                if why.starts_with("the link from") && why.contains("is down") {
                    counts.push("intent has moved off a link that fell silent".to_owned());
                } else if why.contains("is down") {
                    counts.push("intent has moved off a port that went down".to_owned());
                }
            }
            if is.reason.as_deref().is_some_and(|reason| reason.starts_with("it could not be moved")) {
                counts.push("intent goes back".to_owned());
            }
            counts
        }
        IntentChange::Removed(_) => {
            vec![format!("intent {} -> gone", was.map_or("none", |was| was.state.as_str()))]
        }
        IntentChange::Device { .. } | IntentChange::DeviceRemoved(_) => Vec::new(),
    }
}
