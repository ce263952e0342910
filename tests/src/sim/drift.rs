//! Drift: others change files and dummies that jobs have made, once or again and again. Checks what becomes of that.
//!
//! ```text
//!   somebody ─▶ host ─hint or slow look─▶ agent ─▶ engine ─▶ a correction, a word, or nothing: by the plan's policy
//!       ▲                                                │
//!       └────────── one who fights sees it corrected ────┘   until the breaker opens
//! ```
//!
//! Links and host names are changed in `watch`. Absent: two stacks that fight over one path, for the second one's claim
//! is refused.

mod host;
mod sent;
mod settled;

use std::collections::BTreeSet;
use std::time::Duration;

use muster_agent_core::Input;
use muster_shared::model::Spec;
use muster_shared::{MonoTime, ResourceId};

use super::fault::Kind;
use super::machine::Machine;
use super::world::{Event, World};

pub use host::{Foe, Left, Others, Thing};
pub use sent::Sent;

/// After a thing was corrected, who fights changes it again within so many milliseconds.
const AGAIN_WITHIN: u64 = 3000;
/// A fight that goes on until somebody makes peace.
const FOR_EVER: MonoTime = MonoTime(Duration::from_secs(1_000_000));

impl Machine {
    /// Things that jobs have made and nothing is under way at, as its agent has written down.
    fn made_things(&self) -> Vec<Thing> {
        let entries = self.disk.entries().filter(|entry| {
            let has_job = entry.current.is_some() || entry.next.is_some();
            entry.applied.is_some() && !self.disk.is_taken(entry) && !has_job
        });
        let things = entries.filter_map(|entry| {
            let applied = entry.applied.as_ref()?;
            let thing = Thing::of(entry.resource, &applied.spec)?;
            self.host.is_made(&thing, entry.resource).then_some(thing)
        });
        things.collect()
    }

    /// A resource stands for it, as its agent has written down.
    fn knows(&self, thing: &Thing) -> bool {
        self.disk.entries().any(|entry| {
            let applied = entry.applied.as_ref();
            applied.is_some_and(|applied| Thing::of(entry.resource, &applied.spec).as_ref() == Some(thing))
        })
    }
}

impl World {
    /// Changes or removes a thing by hand on this server, or on the next one that has something.
    pub(super) fn changes_a_thing(&mut self, at: usize, long: Duration, fights: bool) {
        let count = self.machines.len();
        let ats = (at..at + count).map(|at| at % count).filter(|at| !self.machines[*at].scrapped);
        let Some((at, things)) =
            ats.map(|at| (at, self.machines[at].made_things())).find(|(_, things)| !things.is_empty())
        else {
            return;
        };
        let thing = self.dice.watch.pick(&things).clone();
        if fights {
            let until = if self.dice.watch.one_in(3) { FOR_EVER } else { self.now + long + long };
            let leaves = Left::draw(&thing, &mut self.dice.watch);
            self.machines[at].host.others.foes.insert(thing.clone(), Foe { until, leaves });
            return self.foe_acts(at, &thing);
        }
        let was = self.machines[at].host.there(&thing);
        let was_made = !self.machines[at].host.is_left(&thing);
        let left = Left::draw(&thing, &mut self.dice.watch);
        self.leaves(at, &thing, left);
        if was_made && self.dice.watch.one_in(4) {
            self.later(long, Event::PutsThingBack(at, thing, was));
        }
    }

    fn leaves(&mut self, at: usize, thing: &Thing, left: Left) {
        let now = self.now;
        self.note(|world| format!("somebody leaves {thing:?} on {} as {left:?}", world.machines[at].name));
        self.machines[at].host.leave(thing, left, now);
        self.thing_changed(at, thing);
    }

    /// Restores a thing by hand, unless somebody else has done so or no resource stands for it any more. A thing that
    /// was kept when its resource went stays as it was then, and nobody looks at it.
    pub(super) fn puts_thing_back(&mut self, at: usize, thing: &Thing, was: Left) {
        let machine = &self.machines[at];
        if machine.knows(thing)
            && machine.host.is_left(thing)
            && !machine.host.others.foes.contains_key(thing)
        {
            self.leaves(at, thing, was);
            self.machines[at].host.others.forget(thing);
            self.shared.borrow_mut().counts.add("drift is restored by hand");
        }
    }

    /// The foe makes the thing theirs again.
    pub(super) fn foe_acts(&mut self, at: usize, thing: &Thing) {
        let host = &self.machines[at].host;
        let foe = host.others.foes.get(thing).filter(|foe| self.now < foe.until);
        let leaves = foe.map(|foe| foe.leaves.clone());
        if let Some(leaves) =
            leaves.filter(|leaves| host.is_made_by_anybody(thing) && host.there(thing) != *leaves)
        {
            self.leaves(at, thing, leaves);
        }
    }

    /// A job has written what it makes.
    pub(super) fn thing_is_written(&mut self, at: usize, resource: ResourceId, spec: &Spec) {
        let Some(thing) = Thing::of(resource, spec) else { return };
        self.thing_changed(at, &thing);
        if self.machines[at].host.others.foes.contains_key(&thing) {
            let after = self.dice.watch.millis(1, AGAIN_WITHIN);
            self.later(after, Event::FoeActs(at, thing));
        }
    }

    /// The agent is told of what it has asked for, unless that is lost.
    fn thing_changed(&mut self, at: usize, thing: &Thing) {
        let Some(process) = &self.machines[at].process else { return };
        let is_it = |watched: &Thing| watched == thing;
        let resources: BTreeSet<ResourceId> =
            process.watched.iter().filter(|(_, watched)| is_it(watched)).map(|(id, _)| *id).collect();
        let whom = self.machines[at].name.to_string();
        if !resources.is_empty() && !self.faults.strikes(self.now, Kind::HintLost, &whom) {
            self.tell_agent(at, Input::Changed(resources));
        }
    }

    /// Ends all fights: nobody changes a thing again when it is corrected.
    pub(super) fn makes_peace(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.host.others.foes.clear());
    }
}
