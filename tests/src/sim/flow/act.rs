//! Operators of flow tables: they apply, modify, delete, purge and reconcile at random, and get in each other's way.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::{Answer, Refusal, Request};
use muster_flow::{FlowOp, FlowWrite};
use muster_shared::model::flow::{Action, DeviceName, Entry, FlowId, Instruction, Packed, Rule};
use muster_template::ForeignPolicy;

use super::super::dice::Dice;
use super::super::plan::CONFIRM_TIMEOUT;
use super::super::world::{Event, World};
use super::check::number_of;
use super::entries::{Manner, any, cutting, device, packed, rule};
use super::model::Stages;
use super::switch::{MANAGEMENT, OTHER};

/// A bridge that no server has.
const NO_BRIDGE: &str = "br9";
/// Rules of a batch that is too large for a message, each with as many instructions as it may have.
const LARGE: u16 = 260;

impl World {
    /// Lets an operator of flow rules act.
    pub fn flow_operator_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.operators.flows.millis(500, 45_000);
        self.later(next, Event::FlowOperator);
        if !self.can_be_asked() || self.options.nodes == 0 {
            return;
        }
        let name = self.some_device();
        match self.operators.flows.below(100) {
            0..62 => self.applies_flows(),
            62..78 => self.deletes_flows(name),
            78..82 => self.purges_flows(name, false),
            82..84 => self.purges_flows(name, true),
            84..92 => {
                let policies = [None, Some(ForeignPolicy::Leave), Some(ForeignPolicy::Show)];
                let foreign = *self.operators.flows.pick(&policies);
                self.tries("flow reconcile", Request::ReconcileFlows { device: name, foreign });
            }
            92..96 => drop(self.tries("flow stats", Request::FlowStats { device: name })),
            _ => drop(self.tries("flow foreign", Request::ForeignFlows { device: name })),
        }
    }

    fn some_device(&mut self) -> DeviceName {
        let dice = &mut self.operators.flows;
        // Few, so that they meet.
        let node = format!("node-{}", dice.index(self.options.nodes.min(4)));
        let bridge = match dice.below(40) {
            0 => NO_BRIDGE,
            1..25 => MANAGEMENT,
            _ => OTHER,
        };
        device(&node, bridge)
    }

    fn applies_flows(&mut self) {
        let (count, guard) =
            (*self.operators.flows.pick(&[1, 1, 1, 2, 3]), self.operators.flows.below(4) > 0);
        let mut stages = Stages::new();
        for _ in 0..count {
            let mut stage = BTreeMap::new();
            for _ in 0..1 + self.operators.flows.below(3) {
                let name = self.some_device();
                let entries = some_entries(&mut self.operators.flows, &name, guard);
                let change = entries.into_iter().map(|it| (it.unpack().id(&name), Some(it))).collect();
                stage.insert(name, change);
            }
            stages.push(stage);
        }
        let write = |(device, change): (&DeviceName, &super::model::Change)| FlowWrite {
            device: device.clone(),
            ops: change.iter().map(|(id, packed)| op(*id, packed.as_ref())).collect(),
        };
        let request = Request::ApplyFlows {
            stages: stages.iter().map(|stage| stage.iter().map(write).collect()).collect(),
            confirm_timeout: confirm(guard),
            application: None,
        };
        self.asks_flows("flow apply", stages, request);
    }

    /// Entries of a device as they are known, durably.
    fn known_flows(&self, name: &DeviceName) -> Vec<(FlowId, bool)> {
        let shared = self.shared.borrow();
        let flows = &shared.tables.flows;
        let Some(number) = number_of(flows, &name.node, &name.bridge) else { return Vec::new() };
        let range = flows.entries.range((number, FlowId(0))..=(number, FlowId(u64::MAX)));
        range.map(|((_, id), entry)| (*id, entry.owner.is_unnamed_operator() && !entry.removing)).collect()
    }

    fn deletes_flows(&mut self, name: DeviceName) {
        self.controller_catches_up();
        let known = self.known_flows(&name);
        let mut ids = BTreeSet::new();
        for _ in 0..1 + self.operators.flows.below(3) {
            if !known.is_empty() {
                ids.insert(self.operators.flows.pick(&known).0);
            }
        }
        if ids.is_empty() || self.operators.flows.one_in(12) {
            ids.insert(
                packed(&Entry::Rule(rule(&mut self.operators.flows, 3, Manner::Sound))).unpack().id(&name),
            );
        }
        let change = ids.iter().map(|id| (*id, None)).collect();
        let confirm_timeout = confirm(self.operators.flows.one_in(2));
        let request =
            Request::DeleteFlows { device: name.clone(), ids: ids.into_iter().collect(), confirm_timeout };
        self.asks_flows("flow delete", vec![[(name, change)].into()], request);
    }

    /// Takes off all that operators own; `forget`: the table alone.
    pub fn purges_flows(&mut self, name: DeviceName, forget: bool) {
        self.controller_catches_up();
        let theirs = self.known_flows(&name).into_iter().filter(|(_, theirs)| *theirs && !forget);
        let change = theirs.map(|(id, _)| (id, None)).collect();
        let request = Request::PurgeFlows { device: name.clone(), forget, confirm_timeout: None };
        let what = if forget { "flow purge --forget" } else { "flow purge" };
        self.asks_flows(what, vec![[(name, change)].into()], request);
    }

    /// Asks, and sees to it that what is acknowledged is durable.
    fn asks_flows(
        &mut self,
        what: &str,
        stages: Stages,
        request: Request,
    ) -> Option<Result<Answer, Refusal>> {
        self.shared.borrow_mut().flows.expect(stages);
        let answer = self.tries(what, request);
        let mut shared = self.shared.borrow_mut();
        shared.flows.expected();
        if let Some(Ok(Answer::Flows { operation, .. })) = &answer
            && !shared.tables.flows.operations.contains_key(operation)
        {
            shared.violate(format!("{what} was answered with operation {operation}, which is not durable"));
        }
        drop(shared);
        answer
    }
}

fn confirm(guard: bool) -> Option<u32> {
    guard.then_some(u32::try_from(CONFIRM_TIMEOUT).unwrap_or(u32::MAX))
}

fn op(id: FlowId, packed: Option<&Packed>) -> FlowOp {
    match packed {
        Some(packed) => FlowOp::Put { id, digest: packed.digest(), packed: packed.clone() },
        None => FlowOp::Remove(id),
    }
}

fn some_entries(dice: &mut Dice, name: &DeviceName, guard: bool) -> Vec<Packed> {
    let mut all: Vec<Entry> = (0..1 + dice.below(5)).map(|_| any(dice)).collect();
    if guard && name.bridge.as_str() == MANAGEMENT && dice.one_in(12) {
        all.push(cutting());
    }
    if dice.one_in(100) {
        let long = rule(dice, 9, Manner::Sound);
        let output = Instruction::Do(Action::SetQueue(70_000));
        let treatment = vec![output; muster_shared::model::flow::INSTRUCTIONS_MAX];
        all.extend((0..LARGE).map(|priority| {
            let (treatment, selector) = (treatment.clone(), Vec::new());
            Entry::Rule(Rule { priority, treatment, selector, ..long.clone() })
        }));
    }
    all.iter().map(packed).collect()
}
