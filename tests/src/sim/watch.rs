//! Changes by others to a server's network, and how agents and the controller respond.

use std::time::Duration;

use muster_agent_core::{Entry, Found, Hint, Input, Look, Looked};
use muster_shared::MonoTime;
use muster_shared::model::{Drift, DriftState};

use super::drift::Thing;
use super::fault::Kind;
use super::host::Host;
use super::plan::CUTTING;
use super::world::{Event, World};

/// Values that no document asks for.
const BY_HAND: u32 = 50_000;
/// The time from a look to the event about it: an agent may stand still for a minute in between.
const STALE: Duration = Duration::from_secs(100);

impl World {
    /// Tells the agent that the network changed, unless the hint is lost.
    pub(super) fn hints(&mut self, at: usize) {
        let whom = self.machines[at].name.to_string();
        if !self.faults.strikes(self.now, Kind::HintLost, &whom) {
            let hint = if self.dice.watch.one_in(2) { Hint::Links } else { Hint::Other };
            self.tell_agent(at, Input::Hint(hint));
        }
    }

    /// Changes a link that Muster has made, by hand, and every other time changes it back after a while.
    pub(super) fn changes_by_hand(&mut self, at: usize, long: Duration) {
        let host = &mut self.machines[at].host;
        let made: Vec<(String, u32)> = host
            .links
            .iter()
            .filter(|(link, mtu)| host.made_by.contains_key(*link) && **mtu != CUTTING)
            .map(|(link, mtu)| (link.clone(), *mtu))
            .collect();
        if made.is_empty() {
            return;
        }
        let (link, was) = self.dice.watch.pick(&made).clone();
        let mtu = BY_HAND + u32::try_from(self.dice.watch.below(10_000)).unwrap_or_default();
        host.change_by_hand(&link, mtu, self.now);
        self.note(|world| format!("somebody sets {link} on {} to {mtu}", world.machines[at].name));
        self.hints(at);
        if was < BY_HAND && self.dice.watch.one_in(2) {
            self.later(long, Event::PutsBack(at, link, was));
        }
    }

    /// Restores a link by hand, unless somebody else has done so or the link is gone.
    pub(super) fn puts_back_by_hand(&mut self, at: usize, link: &str, mtu: u32) {
        let (now, host) = (self.now, &mut self.machines[at].host);
        if host.by_hand.contains_key(link) {
            host.change_by_hand(link, mtu, now);
            host.by_hand.remove(link);
            self.note(|world| format!("somebody sets {link} on {} back to {mtu}", world.machines[at].name));
            self.hints(at);
        }
    }

    /// Answers the agent's look with the present state of these resources.
    pub(super) fn looked(&mut self, at: usize, number: u64, looks: Vec<Look>) {
        let host = &self.machines[at].host;
        let looked = looks.into_iter().map(|look| Looked {
            resource: look.resource,
            generation: look.generation,
            found: Ok(host.check(look.resource, &look.spec)),
        });
        let looked = looked.collect();
        self.tell_agent(at, Input::Looked { number, looked });
    }
}

impl Host {
    /// The reason why something of this must not be said: it is not so, and was not so a moment ago.
    pub(super) fn untrue<'a>(
        &self,
        drifts: &[Drift],
        mut entries: impl Iterator<Item = &'a Entry>,
        now: MonoTime,
    ) -> Option<String> {
        drifts.iter().find_map(|drift| {
            let entry = entries.find(|entry| entry.resource == drift.resource)?;
            let applied = entry.applied.as_ref()?;
            let differs = self.check(drift.resource, &applied.spec) != Found::AsDesired;
            let recent = |link: &String| self.touched.get(link).is_some_and(|at| now.since(*at) < STALE);
            let thing = Thing::of(drift.resource, &applied.spec);
            let thing_at = thing.and_then(|thing| self.others.touched(&thing));
            let is_recent = thing_at.is_some_and(|at| now.since(at) < STALE);
            let is_so = differs == (drift.state != DriftState::InSync);
            let wrong = !is_so && !is_recent && !Host::links_in(&applied.spec).iter().any(recent);
            wrong.then(|| format!("{} is said to be {:?}, which it is not", drift.resource, drift.state))
        })
    }
}
