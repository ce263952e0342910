//! Operators of intents: they submit, change, withdraw and purge at random, and touch what is not theirs.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::{Answer, Refusal, Request};
use muster_intent::manager::Wish;
use muster_intent::phase::Request as Wanted;
use muster_shared::model::flow::{DeviceName, FlowId};

use super::super::world::{Event, World};
use super::model::{Asked, is_stacks};

/// Keys are few, so that they meet.
const KEYS: usize = 6;

fn key_of(number: usize) -> Box<str> {
    format!("k{number}").into()
}

type Answered = Option<Result<Answer, Refusal>>;

impl World {
    /// Lets an operator of intents act.
    pub fn intent_operator_acts(&mut self) {
        if self.operators.done || self.network.is_empty() {
            return;
        }
        let next = self.network.wishes.millis(500, 60_000);
        self.later(next, Event::IntentOperator);
        if !self.can_be_asked() {
            return;
        }
        match self.network.wishes.below(100) {
            0..60 => {
                let count = *self.network.wishes.pick(&[1, 1, 2, 3]);
                let mut wishes = BTreeMap::new();
                for _ in 0..count {
                    let key = self.network.wishes.index(KEYS);
                    let wish = self.network.fabric.wish(&mut self.network.wishes, key, true);
                    wishes.insert(key_of(key), wish);
                }
                self.submits(wishes);
            }
            60..78 => {
                let keys = (0..1 + self.network.wishes.index(2))
                    .map(|_| key_of(self.network.wishes.index(KEYS)))
                    .collect();
                self.withdraws(keys);
            }
            78..90 => {
                let key = key_of(self.network.wishes.index(KEYS));
                self.purges_intents([key].into());
            }
            _ => self.touches_what_is_anothers(),
        }
    }

    fn asks_intents(
        &mut self,
        what: &str,
        expected: BTreeMap<Box<str>, Asked>,
        request: Request,
    ) -> Answered {
        self.controller_catches_up();
        self.shared.borrow_mut().wishes.expect(expected);
        let answer = self.tries(what, request);
        let shared = &mut *self.shared.borrow_mut();
        let taken = answer.as_ref().map(Result::is_ok);
        let wrong = shared.wishes.answered(taken, &shared.tables.intents);
        wrong.into_iter().for_each(|wrong| shared.violate(wrong));
        answer
    }

    /// Asks for these, in place of those that have the keys.
    pub(super) fn submits(&mut self, wishes: BTreeMap<Box<str>, Wish>) -> Answered {
        let asked = |wish: &Wish| Some((Wanted::Install, wish.clone()));
        let expected = wishes.iter().map(|(key, wish)| (key.clone(), asked(wish))).collect();
        let request = Request::SubmitIntents { intents: wishes.into_iter().collect() };
        self.asks_intents("intent submit", expected, request)
    }

    fn withdraws(&mut self, keys: BTreeSet<Box<str>>) -> Answered {
        let withdrawn = |key: &str| {
            let asked = self.shared.borrow().wishes.of(key);
            asked.map(|(_, wish)| (Wanted::Withdraw, wish))
        };
        let expected = keys.iter().map(|key| (key.clone(), withdrawn(key))).collect();
        self.asks_intents(
            "intent withdraw",
            expected,
            Request::WithdrawIntents { keys: keys.into_iter().collect() },
        )
    }

    fn purges_intents(&mut self, keys: BTreeSet<Box<str>>) -> Answered {
        let expected = keys.iter().map(|key| (key.clone(), None)).collect();
        self.asks_intents(
            "intent purge",
            expected,
            Request::PurgeIntents { keys: keys.into_iter().collect() },
        )
    }

    /// A stack's intent, or an intent's rule: both are refused.
    fn touches_what_is_anothers(&mut self) {
        self.controller_catches_up();
        let (stacks, rules): (Vec<Box<str>>, Vec<(DeviceName, FlowId)>) = {
            let shared = self.shared.borrow();
            let owned = shared.tables.intents.intents.values().filter(|(_, owner)| owner.is_some());
            let stacks = owned.map(|(record, _)| record.key.clone()).collect();
            let flows = &shared.tables.flows;
            let own = flows.entries.iter().filter(|(_, entry)| entry.owner.as_intent().is_some());
            let rules = own.filter_map(|((device, id), _)| {
                let device = flows.devices.get(device)?;
                let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
                Some((name, *id))
            });
            (stacks, rules.collect())
        };
        if !stacks.is_empty() && (rules.is_empty() || self.network.wishes.one_in(2)) {
            let keys = vec![self.network.wishes.pick(&stacks).clone()];
            let answer = self.tries("intent of a stack", Request::WithdrawIntents { keys });
            if matches!(answer, Some(Ok(_))) {
                self.violate("an operator has withdrawn a stack's intent".into());
            }
        } else if !rules.is_empty() {
            let (device, id) = self.network.wishes.pick(&rules).clone();
            let request = Request::DeleteFlows { device, ids: vec![id], confirm_timeout: None };
            let answer = self.tries("rule of an intent", request);
            if matches!(answer, Some(Ok(_))) {
                self.violate(format!("an operator has deleted rule {id}, which is an intent's"));
            }
        }
    }

    /// Under each key something that can be.
    pub fn everybody_submits(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let wish = |world: &mut Self, key| {
            let fabric = world.network.fabric.clone();
            (key_of(key), fabric.wish(&mut world.network.wishes, key, false))
        };
        let wishes = (0..KEYS).map(|key| wish(self, key)).collect();
        let answer = self.submits(wishes);
        if !matches!(answer, Some(Ok(_))) {
            self.violate(format!("intents that can be were not taken: {answer:?}"));
        }
    }

    /// No operator wants an intent any more.
    pub fn everybody_withdraws(&mut self) {
        let keys: BTreeSet<Box<str>> = self.shared.borrow().wishes.keys().cloned().collect();
        if keys.is_empty() || self.violation().is_some() {
            return;
        }
        let answer = self.withdraws(keys);
        if !matches!(answer, Some(Ok(_))) {
            self.violate(format!("intents could not be withdrawn: {answer:?}"));
        }
    }

    /// Purges all intents: none may be listed then.
    pub fn everybody_forgets(&mut self) {
        let keys: BTreeSet<Box<str>> = self.shared.borrow().wishes.keys().cloned().collect();
        if keys.is_empty() || self.violation().is_some() {
            return;
        }
        debug_assert!(keys.iter().all(|key| !is_stacks(key)));
        let answer = self.purges_intents(keys);
        if !matches!(answer, Some(Ok(_))) {
            self.violate(format!("intents could not be purged: {answer:?}"));
        }
    }
}
