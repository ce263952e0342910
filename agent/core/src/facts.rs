//! What the server is: told after each greeting, when it changes, and when the controller asks.
//!
//! Counters alone are no change: of 10,000 nodes each would speak every minute for what hardly anybody looks at. Who
//! looks is asked for them then.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{Facts, Up};

use crate::agent::Agent;
use crate::backoff::Random;
use crate::face::Effect;

/// After a hint: a link that comes up changes a few times.
const SETTLE: Duration = Duration::from_millis(50);
/// Between two readings, unless one is asked for: a link that flaps must not fill the line.
const SPACING: Duration = Duration::from_secs(1);
/// While links and addresses keep coming and going, as on a host of containers, they are told once in this time when
/// the burst is used up. A carrier that changes is always told.
const STORM_SPACING: Duration = Duration::from_secs(15);
/// Those that may follow each other at once, times the spacing in a storm.
const BURST: Duration = STORM_SPACING.saturating_mul(8);
/// After a greeting they are told within this: a fleet that reconnects does not speak all at once.
const GREETING: Duration = Duration::from_secs(2);

/// What could not be read is read again.
const GATHER_AGAIN: Duration = Duration::from_secs(10);

/// What was told on this connection, and what is to be told.
#[derive(Debug)]
pub(crate) struct Telling {
    random: Random,
    due: Option<MonoTime>,
    gathering: bool,
    /// The controller waits for them.
    asked: bool,
    /// When they were read last.
    last: Option<MonoTime>,
    /// Each that was told puts it off by [`STORM_SPACING`]; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
    said: Option<Box<Facts>>,
}

impl Telling {
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed ^ 0x6661_6374_7300_0000);
        Self {
            random,
            due: None,
            gathering: false,
            asked: false,
            last: None,
            paid_until: MonoTime::default(),
            said: None,
        }
    }

    pub(crate) fn hint(&mut self, now: MonoTime) {
        let spaced = self.last.map_or(now, |last| last + SPACING);
        self.due_by(spaced.max(now + SETTLE));
    }

    fn due_by(&mut self, at: MonoTime) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    pub(crate) fn greeted(&mut self, now: MonoTime) {
        (self.said, self.asked) = (None, false);
        self.due = Some(now + self.random.below(GREETING));
    }

    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.due.filter(|_| !self.gathering).map(|due| (due, "facts"))
    }
}

impl Agent {
    pub(crate) fn ask_facts(&mut self) {
        self.facts.asked = true;
        self.facts.due = Some(self.now);
    }

    /// After every input.
    pub(crate) fn tell_facts(&mut self) {
        let facts = &mut self.facts;
        let is_due = facts.due.is_some_and(|due| self.now >= due);
        if is_due && !facts.gathering && self.session.is_open() {
            (facts.gathering, facts.due, facts.last) = (true, None, Some(self.now));
            self.effects.push_back(Effect::Gather);
        }
    }

    /// The answer to [`Effect::Gather`].
    pub(crate) fn gathered(&mut self, facts: Result<Box<Facts>, String>) {
        if !std::mem::take(&mut self.facts.gathering) {
            return;
        }
        let facts = match facts {
            Ok(facts) => facts,
            Err(reason) => {
                self.facts.due_by(self.now + GATHER_AGAIN);
                return self.warn(format!("cannot read what this server is: {reason}"));
            }
        };
        if !self.session.is_open() {
            return;
        }
        let telling = &mut self.facts;
        let (is_news, is_urgent) = match &telling.said {
            None => (true, true),
            Some(said) => (!said.is_same(&facts), telling.asked || carrier_differs(said, &facts)),
        };
        let burst_until = MonoTime(telling.paid_until.0.saturating_sub(BURST));
        if is_news && !is_urgent && burst_until > self.now {
            return telling.due_by(burst_until);
        }
        if is_news || telling.asked {
            telling.asked = false;
            // A carrier that flaps for hours does not hold the rest back for longer than the burst.
            let paid = telling.paid_until.min(self.now + BURST).max(self.now);
            telling.paid_until = paid + STORM_SPACING;
            telling.said = Some(facts.clone());
            self.effects.push_back(Effect::Send(Up::Facts(facts)));
        }
    }
}

/// Of a link that was there before.
fn carrier_differs(said: &Facts, facts: &Facts) -> bool {
    let was: BTreeMap<&str, bool> =
        said.links.iter().map(|link| (link.name.as_str(), link.carrier)).collect();
    facts.links.iter().any(|link| was.get(link.name.as_str()).is_some_and(|was| *was != link.carrier))
}
