//! The answers of a switch to its agent: the switch takes bundles, is read and is corrected, one thing at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_agent_core::{Compared, DivergentForms, Extraneous, FlowInput, NotApplied, Repaired, TableEntry};
use muster_shared::MonoTime;
use muster_shared::model::flow::{
    Bridge, Entry, EntryState, FlowCounters, FlowId, FlowRefusal, ForeignRule, Packed, TableCounters,
    TraceQuestion,
};

use super::super::fault::Kind;
use super::super::world::{Event, World};
use super::host::{FlowWork, gone};
use super::switch::{Bundled, Held, timeouts};
use super::trace;

impl World {
    pub(super) fn applies_bundle(
        &mut self,
        at: usize,
        bridge: &Bridge,
        bundle: &[Bundled],
    ) -> Result<DivergentForms, NotApplied> {
        let whom = format!("{}/{bridge}", self.machines[at].name);
        let now = self.now;
        if !self.machines[at].host.switch.is_there(bridge.as_str()) {
            return Err(NotApplied::Gone { reason: gone() });
        }
        if self.faults.strikes(now, Kind::SwitchRefuses, &whom) {
            let blamed = bundle.get(self.dice.flows.index(bundle.len().max(1)));
            let id = blamed.map(|(Bundled::Put(id, _) | Bundled::Remove(id))| *id);
            let id = id.filter(|_| self.dice.flows.below(4) > 0);
            let (reason, permanent) = ("the switch has no room".to_owned(), self.dice.flows.one_in(3));
            return Err(NotApplied::Refused(FlowRefusal { id, reason, permanent }));
        }
        let silent = self.faults.strikes(now, Kind::SwitchSilent, &whom);
        if silent && self.dice.flows.one_in(2) {
            return Err(NotApplied::Gone { reason: gone() });
        }
        self.is_accounted_for(at, bridge, bundle);
        let was_cut = self.machines[at].host.is_cut();
        let result = self.machines[at].host.switch.bundle(bridge.as_str(), bundle, now);
        let put = bundle.iter().filter_map(|op| match op {
            Bundled::Put(id, packed) => Some((*id, packed.clone())),
            Bundled::Remove(_) => None,
        });
        if result.is_ok() {
            self.run_out_later(at, bridge, put.collect());
        }
        if !was_cut && self.machines[at].host.is_cut() {
            self.shared.borrow_mut().counts.add("flow cuts its server off");
            self.is_cut_off(at);
        }
        match result {
            Ok(()) if silent => Err(NotApplied::Gone { reason: gone() }),
            Ok(()) => Ok(DivergentForms::new()),
            Err((id, reason, permanent)) => {
                self.shared.borrow_mut().counts.add("flow switch refuses for a reason");
                Err(NotApplied::Refused(FlowRefusal { id: Some(id), reason, permanent }))
            }
        }
    }

    /// Plans the end of each rule with a timeout: on time, or a little later where packets come.
    fn run_out_later(&mut self, at: usize, bridge: &Bridge, put: Vec<(FlowId, Packed)>) {
        for (id, packed) in put {
            let (idle, hard) = timeouts(&packed);
            let mut ends = u64::from(if hard == 0 { idle } else { hard });
            if idle != 0 && hard == 0 {
                ends += self.dice.flows.below(3) * u64::from(idle);
            }
            let held =
                self.machines[at].host.switch.planes.get(bridge.as_str()).and_then(|it| it.held.get(&id));
            if let (Some(held), true) = (held, ends > 0) {
                let number = held.number;
                self.later(Duration::from_secs(ends), Event::FlowEnds(at, bridge.clone(), id, number));
            }
        }
    }

    pub(super) fn compared(
        &mut self,
        at: usize,
        bridge: &Bridge,
        kept: &[(TableEntry, Packed)],
    ) -> Result<Compared, String> {
        let now = self.now;
        let switch = &mut self.machines[at].host.switch;
        let Some(plane) = switch.plane(bridge.as_str()) else { return Err(gone()) };
        let mut compared = Compared::default();
        for (entry, packed) in kept {
            let (held, expired) = (plane.held.get(&entry.id), entry.state == EntryState::Expired);
            match held.filter(|held| held.cookie == entry.id.0) {
                // One that ended and is there was put by somebody else.
                Some(_) if expired => compared.extraneous.push(named(entry.id)),
                Some(held) if held.packed == *packed => {}
                Some(_) => compared.altered.push(entry.id),
                None if expired => {}
                None => {
                    let (idle, hard) = timeouts(packed);
                    let put_at = plane.put_at.get(&entry.id);
                    let late = |at: &MonoTime| now.since(*at) >= Duration::from_secs(hard.into());
                    // The switch has run since, and nothing is known that takes such a one away but its timeout.
                    let ended = put_at.is_some_and(|at| idle != 0 || hard != 0 && late(at));
                    if ended { &mut compared.ended } else { &mut compared.missing }.push(entry.id);
                }
            }
        }
        let known: BTreeSet<FlowId> = kept.iter().map(|(entry, _)| entry.id).collect();
        for (id, held) in &plane.held {
            match FlowId::is_ours(held.cookie) {
                true if held.cookie != id.0 || !known.contains(id) => compared.extraneous.push(named(*id)),
                true => {}
                false => compared.foreign += 1,
            }
        }
        let counts = [
            ("missing", compared.missing.len()),
            ("ended", compared.ended.len()),
            ("altered", compared.altered.len()),
            ("extraneous", compared.extraneous.len()),
        ];
        for (what, _) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.shared.borrow_mut().counts.add(format!("flow compared: {what}"));
        }
        Ok(compared)
    }

    pub(super) fn repaired(
        &mut self,
        at: usize,
        bridge: &Bridge,
        put: &[(FlowId, Packed)],
        remove: &[Extraneous],
    ) -> Result<Repaired, String> {
        let now = self.now;
        let whom = format!("{}/{bridge}", self.machines[at].name);
        if !self.machines[at].host.switch.is_there(bridge.as_str()) {
            return Err(gone());
        }
        for extraneous in remove {
            let switch = &mut self.machines[at].host.switch;
            if let (Some(id), Some(plane)) = (of_name(extraneous), switch.plane(bridge.as_str()))
                && plane.held.get(&id).is_some_and(|held| FlowId::is_ours(held.cookie))
            {
                plane.held.remove(&id);
            }
        }
        let mut repaired = Repaired::default();
        for (id, packed) in put {
            if self.faults.strikes(now, Kind::SwitchRefuses, &whom) {
                repaired.failed.push((*id, "the switch has no room".into()));
                continue;
            }
            let one = [Bundled::Put(*id, packed.clone())];
            self.is_accounted_for(at, bridge, &one);
            match self.machines[at].host.switch.bundle(bridge.as_str(), &one, now) {
                Ok(()) => self.run_out_later(at, bridge, vec![(*id, packed.clone())]),
                Err((id, reason, _)) => repaired.failed.push((id, reason)),
            }
        }
        Ok(repaired)
    }

    pub(super) fn counts(&mut self, at: usize, bridge: &Bridge, number: u64) {
        let plane = self.machines[at].host.switch.plane(bridge.as_str());
        let ours = plane.into_iter().flat_map(|plane| plane.held.iter());
        let ours = ours.filter(|(id, held)| held.cookie == id.0);
        let entries =
            ours.map(|(id, _)| FlowCounters { id: *id, packets: 1, bytes: 64, duration: 1 }).collect();
        let tables = vec![TableCounters { table: 0, active: 1, lookups: 1, matches: 1 }];
        let counted = FlowInput::Counted { number, entries, tables, last: true };
        let after = self.flow_takes(at);
        self.flow_later(at, bridge, after, FlowWork::Says(Box::new(counted)));
    }

    pub(super) fn tells_foreign(&mut self, at: usize, bridge: &Bridge, number: u64) {
        let plane = self.machines[at].host.switch.plane(bridge.as_str());
        let held = plane.into_iter().flat_map(|plane| plane.held.values());
        let foreign = held.filter(|held| !FlowId::is_ours(held.cookie));
        let rule = |cookie, packed: &Packed| ForeignRule {
            cookie,
            entry: Some(packed.clone()),
            text: String::new(),
        };
        let rules = foreign.map(|held| rule(held.cookie, &held.packed)).collect();
        let after = self.flow_takes(at);
        let said = FlowInput::Foreigners { number, rules, last: true };
        self.flow_later(at, bridge, after, FlowWork::Says(Box::new(said)));
    }

    pub(super) fn traces(&mut self, at: usize, bridge: &Bridge, number: u64, question: &TraceQuestion) {
        let plane = self.machines[at].host.switch.plane(bridge.as_str());
        let result = plane.ok_or_else(|| format!("{bridge}: unknown bridge")).map(|plane| {
            let rule = |held: &Held| match held.packed.unpack() {
                Entry::Rule(rule) => Some((held.cookie, rule)),
                Entry::Group(_) | Entry::Meter(_) => None,
            };
            let rules: Vec<_> = plane.held.values().filter_map(rule).collect();
            trace::steps(bridge, &rules, question)
        });
        let after = self.flow_takes(at);
        let said = FlowInput::Traced { number, result };
        self.flow_later(at, bridge, after, FlowWork::Says(Box::new(said)));
    }
}

/// The name of this place in the host's answers.
fn named(id: FlowId) -> Extraneous {
    Extraneous(id.0.to_le_bytes().into())
}

fn of_name(extraneous: &Extraneous) -> Option<FlowId> {
    Some(FlowId(u64::from_le_bytes(extraneous.0.as_ref().try_into().ok()?)))
}
