//! Resources that are flow rules: their jobs are given to the table of their device instead of an agent, as "this owner
//! wants exactly these entries", and the write's outcome is the job's.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::model::flow::{FlowId, Packed};
use muster_shared::model::{Action, Observed};
use muster_shared::{Attempt, Generation};
use muster_template::{FlowSet, ForeignPolicy};

use super::batch::Ended;
use super::device::{DeviceKey, Target};
use super::entry::{FlowStanding, Owner};
use super::operation::{FlowOp, collision};
use super::record::FlowMark;
use crate::engine::{Engine, Todo};
use crate::record::Observation;
use crate::request::Refusal;
use crate::resource::{Slot, WorkState};

/// A batch may wait for the one before it, and for the bridge.
const JOB_TIMEOUT: Duration = Duration::from_secs(330);

impl Engine {
    /// Gives a row's job to the table, or takes it back from there.
    pub(crate) fn transmit_flows(&mut self, slot: Slot, set: &FlowSet) {
        let row = &self.rows[slot];
        let (Some(action), Some(work)) = (row.action, &row.work) else { return };
        let (generation, attempt, owner) = (row.generation, row.attempt, Owner(row.id));
        let target = Target::Row(slot, generation, attempt);
        let is_withdrawing = work.state == WorkState::Withdrawing;
        let due = self.now + JOB_TIMEOUT + Duration::from_secs(set.confirm_timeout.unwrap_or(0).into());
        self.set_due(slot, Some(due));
        let key = match self.device(&set.device) {
            Ok(key) => key,
            Err(refusal) => return self.attempt_failed(slot, &refusal.to_string(), true),
        };
        let waits = self.flow_target(
            key,
            |other| matches!(other, Target::Row(of, ..) | Target::After(of, ..) if *of == slot),
        );
        match waits {
            _ if is_withdrawing => return self.withdraw_flows(slot, key, waits),
            Some((_, known)) if known == target => return, // said again
            Some((serial, old)) => self.wait_no_more(key, serial, old),
            None => {}
        }
        let after = Target::After(slot, generation, attempt);
        if action != Action::Check && self.waits_for_taker(key, owner, after) {
            return self.pump_device(key);
        }
        let ops = match action {
            Action::Check => return self.check_flow_row(slot, key, set),
            Action::Retain => {
                self.leave_flows(key, owner);
                Vec::new()
            }
            Action::Delete => self.owned_but(key, owner, &BTreeSet::new()),
            Action::Create | Action::Update => match self.wanted(slot, key, set, owner) {
                Ok(ops) => ops,
                Err(reason) => return self.attempt_failed(slot, &reason, true),
            },
        };
        self.apply_foreign_policy(key, action, set.foreign);
        let serial = self.write_flows(key, ops, owner, set.confirm_timeout);
        let Some(device) = self.flows.get_mut(key) else { return };
        if serial <= device.table.settled() {
            return self.flow_job_ended(slot, generation, attempt, Ok(()));
        }
        device.waiters.entry(serial).or_default().push(target);
        self.pump_device(key);
    }

    /// What another's write took over is this owner's again if that fails: nothing must come back to one that is gone,
    /// or that wants it no more.
    fn waits_for_taker(&mut self, key: DeviceKey, owner: Owner, target: Target) -> bool {
        let Some(device) = self.flows.get_mut(key) else { return false };
        let sent = device.in_flight.as_ref().map_or(&[][..], |flight| &flight.ids);
        let Some(serial) = device.table.taken_from(owner, sent) else { return false };
        device.waiters.entry(serial).or_default().push(target);
        true
    }

    /// What took something over from a row is decided.
    pub(crate) fn flow_job_begins(&mut self, slot: Slot, generation: Generation, attempt: u32) {
        let Some(row) = self.rows.get(slot) else { return };
        let is_it = row.is_sent() && row.generation == generation && row.attempt == attempt;
        if let Some(node) = row.node.filter(|_| is_it) {
            self.transmit(slot, node);
        }
    }

    fn flow_target(&self, key: DeviceKey, is_it: impl Fn(&Target) -> bool) -> Option<(u64, Target)> {
        let waiters = &self.flows.get(key)?.waiters;
        waiters.iter().find_map(|(serial, all)| Some((*serial, *all.iter().find(|it| is_it(it))?)))
    }

    fn wait_no_more(&mut self, key: DeviceKey, serial: u64, target: Target) {
        let Some(device) = self.flows.get_mut(key) else { return };
        if let Some(all) = device.waiters.get_mut(&serial) {
            all.retain(|other| *other != target);
            if all.is_empty() {
                device.waiters.remove(&serial);
            }
        }
    }

    /// What this owner has on the device and is not to have any more.
    fn owned_but(&self, key: DeviceKey, owner: Owner, kept: &BTreeSet<FlowId>) -> Vec<FlowOp> {
        let Some(device) = self.flows.get(key) else { return Vec::new() };
        device.table.owned(owner).filter(|id| !kept.contains(id)).map(FlowOp::Remove).collect()
    }

    fn wanted(&self, slot: Slot, key: DeviceKey, set: &FlowSet, owner: Owner) -> Result<Vec<FlowOp>, String> {
        let ids = set.ids();
        if let Some(refusal) = self.flow_conflict(set, &ids, &self.rows[slot].name) {
            return Err(refusal.to_string());
        }
        let put = |(id, packed): (&FlowId, &Packed)| FlowOp::Put {
            id: *id,
            digest: packed.digest(),
            packed: packed.clone(),
        };
        let mut ops: Vec<FlowOp> = ids.iter().zip(&set.entries).map(put).collect();
        ops.extend(self.owned_but(key, owner, &ids.into_iter().collect()));
        Ok(ops)
    }

    /// Why a resource cannot have these entries: an operator has one of them. Other resources have claims.
    pub(crate) fn flow_conflict(&self, set: &FlowSet, ids: &[FlowId], asker: &str) -> Option<Refusal> {
        let node = self.nodes.find(&set.device.node)?;
        let device = self.flows.get(self.flows.find(node, &set.device.bridge)?)?;
        ids.iter().zip(&set.entries).find_map(|(id, packed)| {
            let kept = device.table.get(*id)?;
            // One that an intent takes back may come back, where its bridge keeps it.
            let goes = kept.removing && kept.owner.as_intent().is_none();
            // Also one that has expired, whether its agent knows of that or not.
            let is_free = goes || kept.mark == FlowMark::Failed;
            let is_held = !is_free && (kept.owner.is_operator() || kept.owner.as_intent().is_some());
            if is_held {
                let (device, whose) = (&set.device, self.owner_text(kept.owner));
                let todo = match kept.owner.as_intent() {
                    Some(_) if kept.removing => "wait until the bridge has let go of it".to_owned(),
                    Some(_) => "withdraw the intent".to_owned(),
                    None => format!("'muster flow delete {device} {id}'"),
                };
                return Some(Refusal::Conflict(format!(
                    "resource {asker} asks for rule {id} on {device}, which belongs to {whose}: one rule has one \
                     owner; take it out of the template, or {todo}"
                )));
            }
            let collides = kept.packed != *packed && !kept.packed.unpack().has_place_of(&packed.unpack());
            collides.then(|| Refusal::Conflict(collision(*id, &set.device)))
        })
    }

    /// They stay, and are the operator's; what is hidden of them stays so.
    fn leave_flows(&mut self, key: DeviceKey, owner: Owner) {
        let Some(device) = self.flows.get_mut(key) else { return };
        for id in device.table.owned(owner).collect::<Vec<_>>() {
            device.table.give(id, Owner::OPERATOR);
        }
        self.flows.touched(key);
    }

    fn apply_foreign_policy(&mut self, key: DeviceKey, action: Action, policy: Option<ForeignPolicy>) {
        let Some(policy) = policy else { return };
        let policy = if action.removes() { ForeignPolicy::Leave } else { policy };
        self.set_foreign(key, policy);
    }

    /// What the table says: it is compared with the device all the time.
    fn check_flow_row(&mut self, slot: Slot, key: DeviceKey, set: &FlowSet) {
        let Some(device) = self.flows.get(key) else { return };
        let mut differs = None;
        for (id, packed) in set.ids().into_iter().zip(&set.entries) {
            let kept = device.table.get(id);
            let standing = kept.map(|kept| device.table.standing(kept));
            let is_so = matches!(standing, Some(FlowStanding::Added | FlowStanding::Expired));
            if is_so && kept.is_some_and(|kept| kept.packed == *packed) {
                continue;
            }
            let state = standing.map_or("not in the table", FlowStanding::as_str);
            let told = device.table.reason(id).map(|reason| device.table.told(reason.to_owned(), &[id]));
            let why = told.map(|why| format!(": {why}")).unwrap_or_default();
            differs = Some((standing.is_none(), format!("rule {id} is {state}{why}")));
            break;
        }
        match differs {
            None => self.found_in_sync(slot),
            Some((missing, reason)) => {
                let reason = self.shown(slot, &reason);
                self.found_different(slot, missing, &reason);
            }
        }
    }

    /// Takes a write back that no agent has; of one that is out, the outcome is waited for.
    fn withdraw_flows(&mut self, slot: Slot, key: DeviceKey, waits: Option<(u64, Target)>) {
        let Some(device) = self.flows.get_mut(key) else { return };
        if let Some((serial, target)) = waits {
            let is_own = matches!(target, Target::Row(..));
            if is_own && device.in_flight.as_ref().is_some_and(|flight| flight.serial >= serial) {
                return;
            }
            // Those that begin after it do not ask for it.
            let asks = |all: &Vec<Target>| all.iter().filter(|it| !matches!(it, Target::After(..))).count();
            let is_alone = is_own && device.waiters.get(&serial).is_some_and(|all| asks(all) == 1);
            if is_alone {
                let ids = device.table.waiting().to_vec();
                let before = device.table.len();
                device.table.fail(serial, &ids, None);
                let gone = before - device.table.len();
                device.guards.remove(&serial);
                self.flows.entries -= gone;
                self.flows.touched(key);
            }
            self.wait_no_more(key, serial, target);
        }
        match self.rows[slot].is_asked() {
            true => self.end_check(slot),
            false => self.undo_work(slot),
        }
        self.agenda.push_back(Todo::Visit(slot));
        self.pump_device(key);
    }

    /// The write that carries a row's job has come to its end.
    pub(super) fn flow_job_ended(
        &mut self,
        slot: Slot,
        generation: Generation,
        attempt: u32,
        ended: Ended<'_>,
    ) {
        let Some(row) = self.rows.get(slot) else { return };
        let is_it = row.is_sent() && row.generation == generation && row.attempt == attempt;
        let Some(node) = row.node.filter(|_| is_it) else { return };
        let is_withdrawing = row.work.as_ref().is_some_and(|work| work.state == WorkState::Withdrawing);
        debug_assert_eq!(row.key().attempt, Attempt(attempt));
        match ended {
            Ok(()) => {
                let is_going = row.is_going();
                self.done(slot, node, Observed::default());
                if !is_going && self.rows.get(slot).is_some_and(|row| row.work.is_none()) {
                    self.observe(slot, Observation::InSync);
                }
            }
            Err((id, why, _)) => {
                let reason = id.map_or_else(|| why.to_owned(), |id| format!("rule {id}: {why}"));
                let reason = self.shown(slot, &reason);
                match is_withdrawing {
                    true => self.interrupted(slot, reason),
                    // It was tried again by the batches.
                    false => self.attempt_failed(slot, &reason, true),
                }
            }
        }
    }
}
