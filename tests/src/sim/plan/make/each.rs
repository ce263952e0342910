//! Resources for each node at random, from a stream of their own: without them plans are what they were.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{CONFIG, Each, Plan, Resource, Rollout, Selector, Share, Value, What};
use super::{Maker, Mood};

/// Two that come before all else of a plan, and one that may need any of it.
pub const SETS: [&str; 3] = ["m", "n", "o"];
/// The number of roles, as labels have them.
const ROLES: u64 = 3;
const AWAYS: [&str; 4] = ["skip", "skip", "wait", "fail"];

impl Maker {
    /// Draws the sets that come first.
    pub(super) fn first_sets(&mut self, stack: usize, mood: Mood, plan: &mut Plan) {
        self.with_own_dice(|maker| {
            if !maker.dice.one_in(3) {
                return;
            }
            let count = 1 + maker.dice.index(2);
            for at in 0..count {
                maker.set(stack, mood, plan, SETS[at], &[], &SETS[..at]);
            }
        });
    }

    /// Lets other resources wait for all of a set, and perhaps adds one more set that needs some of them.
    pub(super) fn last_sets(&mut self, stack: usize, mood: Mood, plan: &mut Plan, names: &[&str]) {
        self.with_own_dice(|maker| {
            let sets: Vec<&str> =
                SETS.into_iter().filter(|name| plan.resources.contains_key(*name)).collect();
            if sets.is_empty() {
                return;
            }
            for name in names {
                if maker.dice.one_in(4)
                    && let Some(resource) = plan.resources.get_mut(*name)
                {
                    resource.depends_on.insert((*maker.dice.pick(&sets)).to_owned());
                }
            }
            if maker.dice.one_in(3) {
                maker.set(stack, mood, plan, SETS[2], names, &sets);
            }
        });
    }

    fn with_own_dice(&mut self, make: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.dice, &mut self.fleet);
        make(self);
        std::mem::swap(&mut self.dice, &mut self.fleet);
    }

    /// `earlier`: what else it may need; `sets`: of its kind.
    fn set(
        &mut self,
        stack: usize,
        mood: Mood,
        plan: &mut Plan,
        name: &str,
        earlier: &[&str],
        sets: &[&str],
    ) {
        let (mut depends_on, mut barriers) = (BTreeSet::new(), BTreeSet::new());
        for other in sets {
            if self.dice.below(3) > 0 {
                depends_on.insert((*other).to_owned());
                if self.dice.one_in(3) {
                    barriers.insert((*other).to_owned());
                }
            }
        }
        for other in earlier {
            if self.dice.one_in(5) {
                depends_on.insert((*other).to_owned());
            }
        }
        let rollout = self.dice.one_in(2).then(|| self.rollout(mood));
        let mut what = self.member(stack, mood, plan, name, earlier);
        if mood == Mood::Any && rollout.is_some() && self.dice.one_in(4) {
            // On every server, whatever is there.
            let mut values = match self.dummy(Mood::Sound, plan, earlier) {
                What::Dummy { values, .. } => values,
                _ => BTreeMap::new(),
            };
            values.insert("k".to_owned(), Value::Text(format!("v{}", self.dice.below(100))));
            what = What::Dummy { values, millis: 0, fail: Some("true") };
        }
        let on = self.dice.one_in(8).then(|| self.dice.one_in(2));
        let each = Each { nodes: self.selector(), barriers, rollout };
        let retain = self.dice.one_in(20);
        let resource = Resource { depends_on, on, retain, each: Some(each), ..Resource::of(what) };
        plan.resources.insert(name.to_owned(), resource);
    }

    fn member(&mut self, stack: usize, mood: Mood, plan: &Plan, name: &str, earlier: &[&str]) -> What {
        let mut what = match self.dice.below(5) {
            0 | 1 => self.dummy(mood, plan, earlier),
            2 if plan.resources.contains_key(CONFIG) => self.script(plan, earlier),
            _ => self.file(stack, mood, plan, earlier, name, &mut BTreeSet::new()),
        };
        let own = self.dice.one_in(2);
        match &mut what {
            What::Dummy { values, .. } if own => drop(values.insert("l".to_owned(), Value::Own)),
            // Nothing else of the stack is there.
            What::File { path, content, .. } => {
                if !path.contains("shared") {
                    *path = format!("/etc/s{stack}-{name}");
                }
                if own {
                    *content = Value::Own;
                }
            }
            What::Script(script) if own => script.input = Value::Own,
            _ => {}
        }
        what
    }

    fn rollout(&mut self, mood: Mood) -> Rollout {
        use Share::{Count, Percent};
        let most = if mood == Mood::Any { *self.dice.pick(&[Count(1), Count(2)]) } else { Count(0) };
        Rollout {
            batch: *self.dice.pick(&[Count(1), Count(1), Count(2), Count(3), Percent(25), Percent(50)]),
            pause: *self.dice.pick(&[0, 0, 1, 5, 20]),
            max_failures: *self.dice.pick(&[Count(0), Count(0), most, Percent(20), Percent(40)]),
            canary: *self.dice.pick(&[Count(0), Count(1), Count(1), Count(2), Percent(10)]),
            away: AWAYS[self.dice.index(AWAYS.len())],
        }
    }

    fn selector(&mut self) -> Selector {
        match self.dice.below(8) {
            0 => Selector::Every,
            1 => Selector::Any,
            2 => Selector::Not(self.dice.below(ROLES)),
            _ => Selector::Is(self.dice.below(ROLES)),
        }
    }

    /// Another selector, every third time.
    pub(super) fn changes_selector(&mut self, resource: &mut Resource) {
        if resource.each.is_none() {
            return;
        }
        self.with_own_dice(|maker| {
            if let Some(each) = resource.each.as_mut().filter(|_| maker.dice.one_in(3)) {
                each.nodes = maker.selector();
            }
        });
    }
}
