//! When a standby takes the lease over or asks for it, and until when the active controller holds it. Pure: times come
//! with each call.
//!
//! Absent: how long a lease is, which is the setting `store.lease` (`controller/src/config.rs`), and a hand-over that
//! an operator asks for (`run/hand_over.rs`).

use std::time::Duration;

use muster_shared::MonoTime;

use super::{LeaseState, Member, Record, StandbyView, Term};

/// The length of a lease, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub lease: Duration,
}

impl Terms {
    /// Between two renewals.
    pub fn pace(self) -> Duration {
        self.lease / 5
    }

    /// The longest time between a renewal and a standby's look at it.
    fn glance(self) -> Duration {
        self.pace() / 4
    }

    /// The time without a renewal after which a standby takes the lease. Clocks of two machines run apart by far less
    /// than a tenth.
    fn patience(self) -> Duration {
        self.lease + self.lease / 10
    }

    /// The standbys that looked at the lease within its length, the last one first: these can take it.
    pub fn ready(self, standbys: &[StandbyView]) -> impl Iterator<Item = &StandbyView> {
        let mut ready: Vec<_> = standbys.iter().filter(|standby| standby.behind < self.lease).collect();
        ready.sort_by_key(|standby| standby.behind);
        ready.into_iter()
    }
}

/// A look that is to find the lease over comes so long after its end.
const AFTER_ITS_END: Duration = Duration::from_millis(1);
/// A holder whose standby has seen it for so many leases has the agents that reach it.
const SETTLES: u32 = 4;
/// The same of a holder that had no agent in that time. Perhaps there are none: a node that was removed still comes to each
/// controller in turn, and is to move the lease seldom.
const SETTLES_WITHOUT_AGENTS: u32 = 60;

/// The verdict about a standby's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Wait,
    /// The lease is free.
    Take,
    /// The holder has not renewed the lease: a session of it may still be there.
    TakeOver,
}

/// A controller that waits for the lease.
#[derive(Clone, Debug)]
pub struct Standby {
    me: Member,
    terms: Terms,
    /// When it first saw anything.
    began: Option<MonoTime>,
    /// The record that it saw last, and when it saw that first.
    last: Option<(Term, u64, LeaseState, MonoTime)>,
    /// The holder has this one's name, and lives.
    has_namesake: bool,
    reign: Option<Reign>,
}

/// A holder's time, as a standby sees it.
#[derive(Clone, Debug)]
struct Reign {
    term: Term,
    since: MonoTime,
    /// Connected to the holder.
    agents: usize,
    had_agents: bool,
    /// Since when these are not more than before.
    no_more_since: MonoTime,
}

impl Standby {
    pub fn new(me: Member, terms: Terms) -> Self {
        Self { me, terms, began: None, last: None, has_namesake: false, reign: None }
    }

    /// Whether it has looked for a lease's length: by then the holder has seen it, and has told its agents where it is.
    pub fn is_known(&self, now: MonoTime) -> bool {
        self.began.is_some_and(|began| now.since(began) > self.terms.lease)
    }

    /// A look at the lease was answered at `now`; `None`: nobody ever had it. A free lease is left to
    /// others for `reserve`, and then taken.
    pub fn saw(&mut self, now: MonoTime, record: Option<&Record>, reserve: Duration) -> Verdict {
        self.began.get_or_insert(now);
        let Some(record) = record else { return Verdict::Take };
        self.sees_reign(now, record);
        let Record { term, holder, beat, state, .. } = record;
        let since = match &self.last {
            Some((t, b, s, since)) if (t, b, s) == (term, beat, state) => *since,
            _ => now,
        };
        // A record from before a boot of this machine names this one, too, but is renewed no more.
        let (is_other, lives) =
            (holder.instance != self.me.instance, self.began.is_some_and(|began| since > began));
        self.has_namesake = holder.name == self.me.name && is_other && lives;
        self.last = Some((*term, *beat, state.clone(), since));
        let is_over = now.since(since) > self.terms.patience() + reserve;
        match state {
            LeaseState::Free if now.since(since) >= reserve => Verdict::Take,
            LeaseState::Left { heir } if *heir == self.me.name || is_over => Verdict::Take,
            // The process that had it was this one's predecessor, which is dead.
            LeaseState::Held | LeaseState::Asked { .. } if is_over || holder.instance == self.me.instance => {
                Verdict::TakeOver
            }
            LeaseState::Held | LeaseState::Asked { .. } | LeaseState::Left { .. } | LeaseState::Free => {
                Verdict::Wait
            }
        }
    }

    /// The time from `now` until the next look: shortly before a renewal is due, then again and again until it is seen, and
    /// at once when the lease is over. `reserve` is as for [`Self::saw`].
    pub fn next_look(&self, now: MonoTime, reserve: Duration) -> Duration {
        let glance = self.terms.glance();
        let Some((_, _, LeaseState::Held | LeaseState::Asked { .. }, since)) = &self.last else {
            return glance;
        };
        let (seen, over) = (now.since(*since), self.terms.patience() + reserve);
        let due = (self.terms.pace() - glance).saturating_sub(seen).max(glance);
        match over.checked_sub(seen) {
            Some(left) => due.min(left + AFTER_ITS_END),
            None => due,
        }
    }

    fn sees_reign(&mut self, now: MonoTime, record: &Record) {
        let (term, agents) = (record.term, record.agents);
        let reign = match &self.reign {
            Some(reign) if reign.term == term => {
                let no_more_since = if agents > reign.agents { now } else { reign.no_more_since };
                Reign { agents, had_agents: reign.had_agents || agents > 0, no_more_since, ..*reign }
            }
            _ => Reign { term, since: now, agents, had_agents: agents > 0, no_more_since: now },
        };
        self.reign = Some(reign);
    }

    /// Whether this controller is to ask for the lease, since so many agents are stranded ([`super::Knocks`]): at least as
    /// many as the holder has. A holder that is new, or to which more and more agents come, is given time, and one that never
    /// had any a long time.
    pub fn reaches_more(&self, now: MonoTime, stranded: usize) -> bool {
        let Terms { lease } = self.terms;
        self.reign.as_ref().is_some_and(|reign| {
            let settles = if reign.had_agents { SETTLES } else { SETTLES_WITHOUT_AGENTS };
            stranded >= reign.agents.max(1)
                && now.since(reign.since) >= settles * lease
                && now.since(reign.no_more_since) >= lease
        })
    }

    /// Whether another controller that is active has the name of this one.
    pub fn has_namesake(&self) -> bool {
        self.has_namesake
    }

    /// Whether the lease will be free soon, as far as the looks so far tell: two renewals are missing, or it was given up.
    pub fn is_vacant(&self, now: MonoTime) -> bool {
        self.last.as_ref().is_none_or(|(_, _, state, since)| match state {
            LeaseState::Held | LeaseState::Asked { .. } => now.since(*since) > 2 * self.terms.pace(),
            LeaseState::Left { .. } | LeaseState::Free => true,
        })
    }
}

/// A controller that has taken the lease.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    terms: Terms,
    until: MonoTime,
}

impl Holder {
    /// The lease was asked for at `asked`, and given.
    pub fn new(asked: MonoTime, terms: Terms) -> Self {
        Self { terms, until: asked + terms.lease }
    }

    /// A renewal was asked for at `asked`, and made.
    pub fn renewed(&mut self, asked: MonoTime) {
        self.until = self.until.max(asked + self.terms.lease);
    }

    /// When it may speak no more.
    pub fn until(&self) -> MonoTime {
        self.until
    }
}

#[cfg(test)]
mod tests;
