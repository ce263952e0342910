//! Decides when the server's facts are sent: after each greeting, when they change, and when the controller
//! asks.
//!
//! A change of counters alone is not sent: 10,000 nodes would each send counters every minute that hardly
//! anybody reads. The controller asks for counters when somebody reads them.
//!
//! Absent: what the facts are (`agent/host/src/facts.rs`), and how many are sent (`shared/src/wire/facts.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::{Facts, Up};
use muster_shared::wire::CONTROLLER_READS_TIES;

use crate::effects::Effects;
use crate::face::Effect;
use crate::random::Random;

/// The pause after a hint: a link that comes up changes a few times.
const SETTLE: Duration = Duration::from_millis(50);
/// The least time between two readings, unless the controller asks: a link that flaps must not fill the line.
const SPACING: Duration = Duration::from_secs(1);
/// While links and addresses keep coming and going, as on a host of containers, facts are reported once in
/// this time after the burst is used up. A changed carrier is always reported.
const STORM_SPACING: Duration = Duration::from_secs(15);
/// The number of reports that may follow each other at once, times the spacing in a storm.
const BURST: Duration = STORM_SPACING.saturating_mul(8);
/// The longest delay of the facts after a greeting, so that a reconnecting fleet does not report all at once.
const GREETING: Duration = Duration::from_secs(2);

/// The pause before a failed reading is repeated.
const GATHER_AGAIN: Duration = Duration::from_secs(10);

/// The facts last sent on this connection, and when the next are due.
#[derive(Debug)]
pub(crate) struct FactsSchedule {
    random: Random,
    due: Option<MonoTime>,
    gathering: bool,
    /// The controller waits for them.
    asked: bool,
    /// When they were read last.
    last: Option<MonoTime>,
    /// Each report adds [`STORM_SPACING`] to this time; it may lie as far ahead as [`BURST`].
    paid_until: MonoTime,
    said: Option<Box<Facts>>,
    /// The controller reads what links are members of and lie on.
    tells_ties: bool,
}

impl FactsSchedule {
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
            tells_ties: false,
        }
    }

    pub(crate) fn hint(&mut self, now: MonoTime) {
        let spaced = self.last.map_or(now, |last| last + SPACING);
        self.due_by(spaced.max(now + SETTLE));
    }

    fn due_by(&mut self, at: MonoTime) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The controller reads so many additions, as in [`Welcome::reads`](muster_shared::model::Welcome::reads).
    pub(crate) fn greeted(&mut self, now: MonoTime, reads: u32) {
        (self.said, self.asked) = (None, false);
        self.tells_ties = reads >= CONTROLLER_READS_TIES;
        self.due = Some(now + self.random.below(GREETING));
    }

    pub(crate) fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        self.due.filter(|_| !self.gathering).map(|due| (due, "facts"))
    }

    /// The controller waits for them.
    pub(crate) fn ask(&mut self, now: MonoTime) {
        (self.asked, self.due) = (true, Some(now));
    }

    /// Reads the facts if a reading is due. Called after every input while the controller listens.
    pub(crate) fn gather(&mut self, now: MonoTime, effects: &mut Effects) {
        let is_due = self.due.is_some_and(|due| now >= due);
        if is_due && !self.gathering {
            (self.gathering, self.due, self.last) = (true, None, Some(now));
            effects.push(Effect::Gather);
        }
    }

    /// Handles the answer to [`Effect::Gather`], whether or not the controller listens.
    pub(crate) fn gathered(
        &mut self,
        now: MonoTime,
        facts: Result<Box<Facts>, String>,
        is_heard: bool,
        effects: &mut Effects,
    ) {
        if !std::mem::take(&mut self.gathering) {
            return;
        }
        let mut facts = match facts {
            Ok(facts) => facts,
            Err(reason) => {
                self.due_by(now + GATHER_AGAIN);
                return effects.warn(format!("cannot read what this server is: {reason}"));
            }
        };
        if !is_heard {
            return;
        }
        if !self.tells_ties {
            facts.links.iter_mut().for_each(|link| (link.master, link.lower) = (None, None));
        }
        let (is_news, is_urgent) = match &self.said {
            None => (true, true),
            Some(said) => (!said.is_same(&facts), self.asked || carrier_differs(said, &facts)),
        };
        let burst_until = MonoTime(self.paid_until.0.saturating_sub(BURST));
        if is_news && !is_urgent && burst_until > now {
            return self.due_by(burst_until);
        }
        if is_news || self.asked {
            self.asked = false;
            // A carrier that flaps for hours does not hold the rest back for longer than the burst.
            let paid = self.paid_until.min(now + BURST).max(now);
            self.paid_until = paid + STORM_SPACING;
            self.said = Some(facts.clone());
            effects.send(Up::Facts(facts));
        }
    }
}

/// Whether the carrier of a link that was there before changed.
fn carrier_differs(said: &Facts, facts: &Facts) -> bool {
    let was: BTreeMap<&str, bool> =
        said.links.iter().map(|link| (link.name.as_str(), link.carrier)).collect();
    facts.links.iter().any(|link| was.get(link.name.as_str()).is_some_and(|was| *was != link.carrier))
}
