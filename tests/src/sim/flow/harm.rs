//! Harm to a switch: it restarts, bridges go and come back, and rules are changed behind the agent's back.

use std::time::Duration;

use muster_agent_core::FlowInput;
use muster_shared::model::flow::{Bridge, Entry, FlowId, Packed};

use super::super::dice::Dice;
use super::super::fault::Kind;
use super::super::world::{Event, World};
use super::entries::{Manner, device, packed, rule};
use super::switch::{FOREIGN, Held, MANAGEMENT, OTHER, Switch, cuts, place};

/// The priority of somebody else's rules, which no rule of ours has.
const FOREIGN_PRIORITY: u16 = 50;
/// Rules of nobody's asking are in a table of their own as well.
const INVENTED_TABLE: u8 = 7;

/// Before Muster has come, somebody else has rules there.
pub fn furnish(switch: &mut Switch, node: &str, dice: &mut Dice) {
    for bridge in [MANAGEMENT, OTHER] {
        if dice.one_in(3) {
            let mut its = rule(dice, 0, Manner::Sound);
            its.priority = FOREIGN_PRIORITY;
            puts_foreign(switch, node, bridge, &packed(&Entry::Rule(its)));
        }
        if dice.one_in(8) {
            // In a place that operators ask for.
            let its = Entry::Rule(rule(dice, 0, Manner::Sound));
            puts_foreign(switch, node, bridge, &packed(&its));
        }
    }
}

fn puts_foreign(switch: &mut Switch, node: &str, bridge: &'static str, packed: &Packed) {
    let at = place(&device(node, bridge), packed);
    switch.put(bridge, at, FOREIGN, packed.clone(), true, Default::default());
    if let Some(plane) = switch.planes.get_mut(bridge)
        && let Some(held) = plane.held.get(&at).cloned()
    {
        plane.foreign.insert(at, held);
    }
}

impl World {
    fn bridge_of(which: u64) -> &'static str {
        if which.is_multiple_of(2) { MANAGEMENT } else { OTHER }
    }

    /// Lets something of that kind befall the switch of a server.
    pub fn harms_switch(&mut self, kind: Kind, at: usize, long: Duration, which: u64) {
        let bridge = Self::bridge_of(which);
        match kind {
            Kind::SwitchRestarts => self.switch_stops(at, long / 4),
            Kind::BridgeGone if self.machines[at].host.switch.is_there(bridge) => {
                self.machines[at].host.switch.loses(bridge);
                self.network.dirty = true;
                self.says_seen(at, bridge);
                self.later(long, Event::BridgeBack(at, bridge));
            }
            Kind::RuleLost => self.loses_rules(at, bridge),
            Kind::RuleAltered => self.alters_a_rule(at, bridge),
            Kind::RuleInvented => self.invents_a_rule(at, bridge),
            _ => {}
        }
    }

    fn switch_stops(&mut self, at: usize, long: Duration) {
        if !self.machines[at].host.switch.runs {
            return;
        }
        self.machines[at].host.switch.stops();
        let start = self.machines[at].host.switch.start;
        // So quickly that nobody sees it gone, once in a while.
        let after = if self.dice.flows.one_in(4) { Duration::ZERO } else { long };
        if after > Duration::ZERO {
            [MANAGEMENT, OTHER].into_iter().for_each(|bridge| self.says_seen(at, bridge));
        }
        self.later(after, Event::SwitchStarts(at, start));
    }

    /// Brings the switch back, with nothing on it.
    pub fn switch_starts(&mut self, at: usize, start: u64) {
        let switch = &mut self.machines[at].host.switch;
        if switch.runs || switch.start != start {
            return;
        }
        switch.starts();
        self.note(|world| format!("the switch of {} runs again", world.machines[at].name));
        [MANAGEMENT, OTHER].into_iter().for_each(|bridge| self.says_seen(at, bridge));
    }

    /// Brings the bridge back, with nothing on it.
    pub fn bridge_is_back(&mut self, at: usize, bridge: &'static str) {
        if self.machines[at].host.switch.away.remove(bridge) {
            self.network.dirty = true;
            self.note(|world| format!("{}/{bridge} is back", world.machines[at].name));
            self.says_seen(at, bridge);
        }
    }

    /// The server boots: the switch begins empty.
    pub fn switch_boots(&mut self, at: usize) {
        let switch = &mut self.machines[at].host.switch;
        switch.stops();
        switch.starts();
    }

    /// Ends all faults of switches: all run, and rules that others put over ours are taken away.
    pub fn switches_heal(&mut self) {
        for at in 0..self.machines.len() {
            let start = self.machines[at].host.switch.start;
            self.switch_starts(at, start);
            self.bridge_is_back(at, MANAGEMENT);
            self.bridge_is_back(at, OTHER);
        }
    }

    fn says_seen(&mut self, at: usize, bridge: &'static str) {
        if let Ok(bridge) = bridge.parse::<Bridge>() {
            self.is_seen(at, &bridge);
        }
    }

    /// A timeout is over.
    pub fn flow_ends(&mut self, at: usize, bridge: &Bridge, id: FlowId, number: u64) {
        if self.machines[at].host.switch.ends(bridge.as_str(), id, number) {
            self.note(|world| format!("{id} on {}/{bridge} ends by its timeout", world.machines[at].name));
            self.shared.borrow_mut().counts.add("flow ends by its timeout");
            self.flow_hints(at, bridge.as_str(), FlowInput::Ended { ids: vec![id] });
        }
    }

    fn ours(&self, at: usize, bridge: &'static str) -> Vec<(FlowId, Held)> {
        let plane = self.machines[at].host.switch.planes.get(bridge);
        let held = plane.into_iter().flat_map(|plane| plane.held.iter());
        // Also a rule that cuts a server off until its confirmation: its removal must not confirm it.
        let ours = held.filter(|(_, held)| FlowId::is_ours(held.cookie));
        ours.map(|(id, held)| (*id, held.clone())).collect()
    }

    fn loses_rules(&mut self, at: usize, bridge: &'static str) {
        let ours = self.ours(at, bridge);
        let all = self.dice.flows.one_in(3);
        let one = self.dice.flows.index(ours.len().max(1));
        for (n, (id, _)) in ours.iter().enumerate() {
            if (all || n == one)
                && let Some(plane) = self.machines[at].host.switch.plane(bridge)
            {
                plane.held.remove(id);
            }
        }
        self.flow_hints(at, bridge, FlowInput::Hint);
    }

    /// Another treatment in the place of one of ours.
    fn alters_a_rule(&mut self, at: usize, bridge: &'static str) {
        let ours = self.ours(at, bridge);
        if ours.is_empty() || !self.machines[at].host.switch.is_there(bridge) {
            return;
        }
        let (id, held) = self.dice.flows.pick(&ours).clone();
        let Entry::Rule(mut its) = held.packed.unpack() else { return };
        its.treatment = rule(&mut self.dice.flows, 0, Manner::Sound).treatment;
        if cuts(&packed(&Entry::Rule(its.clone()))) {
            return;
        }
        let now = self.now;
        let altered = packed(&Entry::Rule(its));
        self.machines[at].host.switch.put(bridge, id, held.cookie, altered, true, now);
        self.flow_hints(at, bridge, FlowInput::Hint);
    }

    /// A rule with a cookie of ours that nobody asked for; also in a place that is asked for.
    fn invents_a_rule(&mut self, at: usize, bridge: &'static str) {
        if !self.machines[at].host.switch.is_there(bridge) {
            return;
        }
        let table = if self.dice.flows.one_in(2) { INVENTED_TABLE } else { 0 };
        let its = packed(&Entry::Rule(rule(&mut self.dice.flows, table, Manner::Sound)));
        let id = place(&device(self.machines[at].name.as_str(), bridge), &its);
        let is_taken =
            self.machines[at].host.switch.planes.get(bridge).is_some_and(|it| it.held.contains_key(&id));
        if is_taken {
            return;
        }
        // A rule with our cookie at another place is no less ours.
        let cookie = if self.dice.flows.one_in(4) { id.0 ^ 1 } else { id.0 };
        let now = self.now;
        self.machines[at].host.switch.put(bridge, id, cookie, its, true, now);
        self.flow_hints(at, bridge, FlowInput::Hint);
    }
}
