//! The members of a rollout by name, and lists of members by state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_shared::MonoTime;

use super::member::{Gone, Member, State};
use super::record::Counts;

/// **Invariant.** A member is on the lists that [`Member::lists`] returns: [`Members::set`] alone
/// writes both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Members whose state is not the default.
    by_name: BTreeMap<Arc<str>, Member>,
    lists: [BTreeSet<(MonoTime, Arc<str>)>; List::COUNT],
}

/// A list of members, sorted by name. `Awaited` is sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Held,
    Absent,
    Missed,
    Begun,
    Leaving,
    /// Members of the present batch that have started.
    Open,
    Batch,
    Failed,
    Lost,
    /// Members that have, or may have, the revision.
    Touched,
    /// Members that have started and whose node is away, while their batch waits for them.
    Awaited,
}

impl List {
    const COUNT: usize = List::Awaited as usize + 1;
}

impl Member {
    /// The lists that the member is on, each with the time by which it is sorted.
    fn lists(self) -> impl Iterator<Item = (List, MonoTime)> {
        let (of_state, awaited) = match self.state {
            State::Idle => (None, None),
            State::Held => (Some(List::Held), None),
            State::Absent { .. } => (Some(List::Absent), None),
            State::Missed => (Some(List::Missed), None),
            State::Leaving => (Some(List::Leaving), None),
            State::Begun { gone: Some(Gone { since, passed_over: false }) } => {
                (Some(List::Begun), Some(since))
            }
            State::Begun { .. } => (Some(List::Begun), None),
        };
        let is_missed = self.state == State::Missed;
        let others = [
            (List::Open, of_state == Some(List::Begun) && self.in_batch),
            (List::Batch, self.in_batch),
            (List::Failed, is_missed || self.counts == Counts::Failed),
            (List::Lost, !is_missed && self.counts == Counts::Lost),
            (List::Touched, self.is_touched()),
        ];
        let others = others.into_iter().filter_map(|(list, is_on)| is_on.then_some(list));
        let by_name = of_state.into_iter().chain(others).map(|list| (list, MonoTime::default()));
        by_name.chain(awaited.map(|since| (List::Awaited, since)))
    }
}

impl Members {
    pub fn get(&self, name: &str) -> Member {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    pub fn set(&mut self, name: &Arc<str>, member: Member) {
        for (list, time) in self.get(name).lists() {
            self.lists[list as usize].remove(&(time, Arc::clone(name)));
        }
        for (list, time) in member.lists() {
            self.lists[list as usize].insert((time, Arc::clone(name)));
        }
        match member == Member::default() {
            true => self.by_name.remove(name),
            false => self.by_name.insert(Arc::clone(name), member),
        };
    }

    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, Member)> {
        self.by_name.iter().map(|(name, member)| (name, *member))
    }

    /// The shared copy of a member's name. `None`: the member has the default state.
    pub fn name(&self, name: &str) -> Option<Arc<str>> {
        self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    pub fn count(&self, list: List) -> usize {
        self.lists[list as usize].len()
    }

    pub fn has(&self, list: List) -> bool {
        !self.lists[list as usize].is_empty()
    }

    pub fn names(&self, list: List) -> impl Iterator<Item = &Arc<str>> {
        self.lists[list as usize].iter().map(|(_, name)| name)
    }

    /// The member whose node has been away longest while its batch waits, and since when.
    pub fn first_awaited(&self) -> Option<(MonoTime, &Arc<str>)> {
        self.lists[List::Awaited as usize].first().map(|(since, name)| (*since, name))
    }

    /// Members that wait to begin while their nodes are away, by name, and since when.
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
