//! The members of a rollout by name, and lists of them by what the rollout asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::MonoTime;

use super::member::{Counts, Gone, Member, State};

/// **Invariant.** A list has those members for which [`Member::on`] says so: [`Members::set`] alone writes both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Members whose state is not the default.
    by_name: BTreeMap<Arc<str>, Member>,
    lists: [BTreeSet<(MonoTime, Arc<str>)>; List::ALL.len()],
}

/// A list is in the order of names, but for `Awaited`, which is in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Held,
    /// Held members that had begun before they left the set.
    HeldAgain,
    Absent,
    Missed,
    Begun,
    /// Members of the present batch that have begun.
    Open,
    /// Members that have begun, and whose node is away.
    Gone,
    /// Of these, members that their batch waits for.
    Awaited,
    Leaving,
    Batch,
    Failed,
    Lost,
    /// Members that have, or may have, what the rollout brings.
    Touched,
}

impl List {
    const ALL: [List; 13] = [
        List::Held,
        List::HeldAgain,
        List::Absent,
        List::Missed,
        List::Begun,
        List::Open,
        List::Gone,
        List::Awaited,
        List::Leaving,
        List::Batch,
        List::Failed,
        List::Lost,
        List::Touched,
    ];
}

impl Member {
    /// Whether the member is on a list, and the time by which that is sorted.
    fn on(self, list: List) -> Option<MonoTime> {
        let is_begun = matches!(self.state, State::Begun { .. });
        let is_on = match list {
            List::Held => self.state == State::Held,
            List::HeldAgain => self.state == State::Held && self.counts == Counts::Lost,
            List::Absent => matches!(self.state, State::Absent { .. }),
            List::Missed => self.state == State::Missed,
            List::Begun => is_begun,
            List::Open => is_begun && self.in_batch,
            List::Gone => matches!(self.state, State::Begun { gone: Some(_) }),
            List::Awaited => {
                return match self.state {
                    State::Begun { gone: Some(Gone { since, passed_over: false }) } => Some(since),
                    State::Begun { .. } | State::Idle | State::Held | State::Absent { .. } => None,
                    State::Missed | State::Leaving => None,
                };
            }
            List::Leaving => self.state == State::Leaving,
            List::Batch => self.in_batch,
            List::Failed => self.counts == Counts::Failed || self.state == State::Missed,
            List::Lost => self.counts == Counts::Lost && self.state != State::Missed,
            List::Touched => self.is_touched(),
        };
        is_on.then(MonoTime::default)
    }
}

impl Members {
    pub fn get(&self, name: &str) -> Member {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    pub fn set(&mut self, name: &Arc<str>, member: Member) {
        let before = self.get(name);
        for list in List::ALL {
            let (was, is) = (before.on(list), member.on(list));
            if was == is {
                continue;
            }
            let names = &mut self.lists[list as usize];
            if let Some(time) = was {
                names.remove(&(time, Arc::clone(name)));
            }
            if let Some(time) = is {
                names.insert((time, Arc::clone(name)));
            }
        }
        match member == Member::default() {
            true => self.by_name.remove(name),
            false => self.by_name.insert(Arc::clone(name), member),
        };
    }

    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, Member)> {
        self.by_name.iter().map(|(name, member)| (name, *member))
    }

    /// The name as it is held, of a member whose state is not the default.
    pub fn name(&self, name: &str) -> Option<Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    pub fn count(&self, list: List) -> usize {
        self.lists[list as usize].len()
    }

    pub fn has(&self, list: List) -> bool {
        !self.lists[list as usize].is_empty()
    }

    pub fn first(&self, list: List) -> Option<&Arc<str>> {
        self.names(list).next()
    }

    pub fn names(&self, list: List) -> impl Iterator<Item = &Arc<str>> {
        self.lists[list as usize].iter().map(|(_, name)| name)
    }

    /// Since when the node is away of that member which the batch waits for the longest.
    pub fn first_awaited(&self) -> Option<(MonoTime, &Arc<str>)> {
        self.lists[List::Awaited as usize].first().map(|(since, name)| (*since, name))
    }

    /// Since when the nodes are away of members that wait to begin, in the order of names.
    pub fn absent(&self) -> impl Iterator<Item = (&Arc<str>, MonoTime)> {
        self.names(List::Absent).filter_map(|name| match self.by_name.get(name)?.state {
            State::Absent { since } => Some((name, since)),
            State::Idle | State::Held | State::Missed | State::Begun { .. } | State::Leaving => None,
        })
    }

    /// Whether the lists are those that follow from the members' states.
    pub fn is_consistent(&self) -> bool {
        let mut again = Self::default();
        self.by_name.iter().for_each(|(name, member)| again.set(name, *member));
        again == *self
    }
}
