//! Writes of resources: "this owner wants exactly these entries". The outcome of the write is that
//! of the resource's job. A write that no agent has can be withdrawn.
//!
//! Absent: the job (`controller/engine/src/flow_row.rs`), and who is refused (`owner.rs`).

use std::collections::BTreeSet;

use muster_shared::model::flow::{DeviceName, FlowId, Packed};
use muster_template::{FlowSet, ForeignPolicy};

use crate::device::{DeviceKey, Flows, Target};
use crate::effect::Job;
use crate::entry::FlowStanding;
use crate::operation::{FlowOp, collision};
use crate::owner::{Asker, Owner, OwnerCheck};
use crate::site::{Refused, Site, Turn};

/// The wanted state of a resource's entries.
#[derive(Clone, Copy, Debug)]
pub enum Want<'a> {
    /// The device holds exactly these entries of the resource.
    Be {
        set: &'a FlowSet,
        /// The resource's name, for operators.
        asker: &'a str,
    },
    /// The device holds no entry of the resource.
    Gone,
    /// The entries stay, and operators own them.
    Left,
}

/// A job of a resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceWrite<'a> {
    /// The device. The site knows its node.
    pub device: &'a DeviceName,
    /// The job.
    pub job: Job,
    pub want: Want<'a>,
    /// Seconds until a change that cut the node off is undone.
    pub confirm_timeout: Option<u32>,
    /// The policy for rules of others, if the resource gives one.
    pub foreign: Option<ForeignPolicy>,
}

/// A difference between a device's table and the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// A rule is missing.
    pub missing: bool,
    /// The reason, for operators.
    pub reason: String,
}

impl Flows {
    /// Gives a job to the table. Returns true if there is nothing to do. Otherwise
    /// [`Effect::JobEnded`](crate::Effect::JobEnded) reports its end, or
    /// [`Effect::JobBegins`](crate::Effect::JobBegins) its start.
    ///
    /// # Errors
    /// Another owner has an entry, or there is no room for the device.
    pub fn write_resource(&mut self, turn: &mut Turn<'_>, write: ResourceWrite<'_>) -> Result<bool, Refused> {
        let ResourceWrite { device, job, want, confirm_timeout, foreign } = write;
        let key = self.device(device)?;
        match self.job_of(key, job.owner) {
            Some((_, target)) if target == Target::Job(job) => return Ok(false), // sent again
            Some((serial, target)) => self.wait_no_more(key, serial, target),
            None => {}
        }
        if self.waits_for_taker(key, job) {
            self.pump(turn, key);
            return Ok(false);
        }
        let ops = match want {
            Want::Left => {
                self.leave_to_operators(key, job.owner);
                Vec::new()
            }
            Want::Gone => self.owned_but(key, job.owner, &BTreeSet::new()),
            Want::Be { set, asker } => self.exactly(turn.site, key, set, job.owner, asker)?,
        };
        if let Some(policy) = foreign {
            let stays = matches!(want, Want::Be { .. });
            self.set_foreign(turn.now, key, if stays { policy } else { ForeignPolicy::Leave });
        }
        let serial = self.write(turn.site, key, ops, job.owner, confirm_timeout);
        let Some(device) = self.get_mut(key) else { return Ok(true) };
        if serial <= device.table.settled() {
            return Ok(true);
        }
        device.waiters.entry(serial).or_default().push(Target::Job(job));
        self.pump(turn, key);
        Ok(false)
    }

    /// Whether the job must wait for an open write of another owner that took over entries. If that
    /// fails, the entries are this owner's again, and must not come back to one that is gone or no
    /// longer wants them.
    fn waits_for_taker(&mut self, key: DeviceKey, job: Job) -> bool {
        let Some(device) = self.get_mut(key) else { return false };
        let sent = device.in_flight.as_ref().map_or(&[][..], |flight| &flight.ids);
        let Some(serial) = device.table.taken_from(job.owner, sent) else { return false };
        device.waiters.entry(serial).or_default().push(Target::After(job));
        true
    }

    /// The job of a resource that waits for a write, or behind one.
    fn job_of(&self, key: DeviceKey, owner: Owner) -> Option<(u64, Target)> {
        let is_it = |it: &&Target| matches!(it, Target::Job(job) | Target::After(job) if job.owner == owner);
        let waiters = &self.get(key)?.waiters;
        waiters.iter().find_map(|(serial, all)| Some((*serial, *all.iter().find(is_it)?)))
    }

    fn wait_no_more(&mut self, key: DeviceKey, serial: u64, target: Target) {
        let Some(device) = self.get_mut(key) else { return };
        if let Some(all) = device.waiters.get_mut(&serial) {
            all.retain(|other| *other != target);
            if all.is_empty() {
                device.waiters.remove(&serial);
            }
        }
    }

    /// Removals of all entries of this owner except `kept`.
    fn owned_but(&self, key: DeviceKey, owner: Owner, kept: &BTreeSet<FlowId>) -> Vec<FlowOp> {
        let Some(device) = self.get(key) else { return Vec::new() };
        device.table.owned(owner).filter(|id| !kept.contains(id)).map(FlowOp::Remove).collect()
    }

    fn exactly(
        &self,
        site: &dyn Site,
        key: DeviceKey,
        set: &FlowSet,
        owner: Owner,
        asker: &str,
    ) -> Result<Vec<FlowOp>, Refused> {
        let ids = set.ids();
        if let Some(refusal) = self.conflict(site, set, &ids, asker) {
            return Err(refusal);
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

    /// The reason why a resource cannot have these entries: an operator or an intent owns one.
    pub fn conflict(&self, site: &dyn Site, set: &FlowSet, ids: &[FlowId], asker: &str) -> Option<Refused> {
        let device = self.get(self.find(&set.device)?)?;
        let check = OwnerCheck::new(site, &set.device);
        ids.iter().zip(&set.entries).find_map(|(id, packed)| {
            let kept = device.table.get(*id)?;
            if let Some(why) = check.refusal(*id, Some(kept), Asker::Resource(asker)) {
                return Some(Refused::Conflict(why));
            }
            let collides = kept.packed != *packed && !kept.packed.unpack().has_place_of(&packed.unpack());
            collides.then(|| Refused::Conflict(collision(*id, &set.device)))
        })
    }

    /// Gives the entries of this owner to operators. Hidden ones stay hidden.
    fn leave_to_operators(&mut self, key: DeviceKey, owner: Owner) {
        let Some(device) = self.get_mut(key) else { return };
        for id in device.table.owned(owner).collect::<Vec<_>>() {
            device.table.give(id, Owner::OPERATOR);
        }
        self.touched(key);
    }

    /// The difference between the table and the resource. The table is compared with the device all
    /// the time.
    pub fn difference(&self, set: &FlowSet) -> Option<Differs> {
        let device = self.find(&set.device).and_then(|key| self.get(key));
        set.ids().into_iter().zip(&set.entries).find_map(|(id, packed)| {
            let table = device.map(|device| &device.table);
            let kept = table.and_then(|table| table.get(id));
            let standing = table.zip(kept).map(|(table, kept)| table.standing(kept));
            let is_so = matches!(standing, Some(FlowStanding::Added | FlowStanding::Expired));
            if is_so && kept.is_some_and(|kept| kept.packed == *packed) {
                return None;
            }
            let state = standing.map_or("not in the table", FlowStanding::as_str);
            let told = table.and_then(|table| Some(table.told(table.reason(id)?.to_owned(), &[id])));
            let why = told.map(|why| format!(": {why}")).unwrap_or_default();
            Some(Differs { missing: standing.is_none(), reason: format!("rule {id} is {state}{why}") })
        })
    }

    /// Withdraws a resource's job if no agent has its write. Returns false if an agent has: the
    /// outcome follows.
    pub fn withdraw(&mut self, turn: &mut Turn<'_>, device: &DeviceName, owner: Owner) -> bool {
        let Some(key) = self.find(device) else { return true };
        let waits = self.job_of(key, owner);
        let Some(device) = self.get_mut(key) else { return true };
        if let Some((serial, target)) = waits {
            let is_own = matches!(target, Target::Job(_));
            if is_own && device.in_flight.as_ref().is_some_and(|flight| flight.serial >= serial) {
                return false;
            }
            // Jobs that start after the write do not want it.
            let asks = |all: &Vec<Target>| all.iter().filter(|it| !matches!(it, Target::After(_))).count();
            let is_alone = is_own && device.waiters.get(&serial).is_some_and(|all| asks(all) == 1);
            if is_alone {
                let ids = device.table.waiting().to_vec();
                let before = device.table.len();
                device.table.fail(serial, &ids, None);
                let gone = before - device.table.len();
                device.guards.remove(&serial);
                self.entries -= gone;
                self.touched(key);
            }
            self.wait_no_more(key, serial, target);
        }
        self.pump(turn, key);
        true
    }
}
