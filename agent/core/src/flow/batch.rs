//! A batch from its arrival to its end. Absent: confirming and undoing it (`guard.rs`).

use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{Bridge, FlowBatch, FlowRefusal};
use muster_shared::model::{Content, ContentDigest};
use muster_shared::{Generation, MonoTime, ResourceId};

use super::{
    Appended, BATCH_BYTES_MAX, DEVICES_MAX, Device, ENTRIES_MAX, FlowEffect, NotApplied, Odd, Op, Switch,
    Undecided, Work, bounded,
};
use crate::agent::Agent;
use crate::challenge::Challenge;
use crate::confirm::STOPPED;
use crate::ledger::Order;

/// A switch that restarts is back by then; a batch that came meanwhile waits for it.
pub(super) const SWITCH_WITHIN: Duration = Duration::from_secs(20);
const CRASHED: &str = "the agent ended before the change was confirmed (a crash, a stop or a reboot)";

/// The batch that a device is at.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) generation: Generation,
    /// How long it may take to be confirmed, if it is to be.
    pub(super) confirm: Option<Duration>,
    /// The device is waited for until then.
    pub(super) wait_until: MonoTime,
    pub(super) stage: Stage,
}

/// See the diagram in the module above.
#[derive(Debug)]
pub(super) enum Stage {
    Fetching {
        ops: Content,
    },
    Ready {
        ops: Content,
    },
    Appending {
        stored: Option<ContentDigest>,
    },
    Logged {
        ops: Arc<Vec<Op>>,
        challenge: Option<Vec<u8>>,
        /// It was refused while the device was not filled, so that something of the table may have been missing; or it
        /// is to be confirmed, for which all of the table is to be there.
        after_filling: bool,
    },
    Applying {
        ops: Arc<Vec<Op>>,
        challenge: Option<Vec<u8>>,
        /// Of one that is to be confirmed.
        deadline: Option<MonoTime>,
    },
    Confirming {
        ops: Arc<Vec<Op>>,
        challenge: Challenge,
    },
    Undoing {
        ops: Arc<Vec<Op>>,
        why: String,
        /// It is not to be tried again by itself.
        is_final: bool,
        tries: u32,
        at: MonoTime,
    },
    Deciding {
        ops: Arc<Vec<Op>>,
        refused: Option<FlowRefusal>,
    },
}

impl Stage {
    /// Too late to put another one in its place.
    fn has_begun(&self) -> bool {
        !matches!(self, Stage::Fetching { .. } | Stage::Ready { .. })
    }

    /// Its operations, from when the device may hold them to when the table has them.
    pub(super) fn in_force(&self) -> Option<&Arc<Vec<Op>>> {
        match self {
            Stage::Applying { ops, .. }
            | Stage::Confirming { ops, .. }
            | Stage::Undoing { ops, .. }
            | Stage::Deciding { ops, .. } => Some(ops),
            Stage::Fetching { .. } | Stage::Ready { .. } | Stage::Appending { .. } | Stage::Logged { .. } => {
                None
            }
        }
    }
}

impl Batch {
    pub(super) fn is_being_undone(&self) -> bool {
        matches!(self.stage, Stage::Undoing { .. })
    }

    /// After a restart: what may have been applied is applied again, or undone.
    pub(super) fn recovered(undecided: Undecided, table: &super::Table) -> Option<Self> {
        let ops = Arc::new(table.resolve(undecided.ops)?);
        let stage = match undecided.guarded {
            true => {
                let at = MonoTime::default();
                Stage::Undoing { ops, why: CRASHED.into(), is_final: true, tries: 0, at }
            }
            false => Stage::Logged { ops, challenge: None, after_filling: false },
        };
        let (generation, wait_until) = (undecided.generation, MonoTime::default());
        Some(Self { generation, confirm: None, wait_until, stage })
    }
}

impl Device {
    pub(super) fn batch_timeout(&self) -> Option<(MonoTime, &'static str)> {
        let batch = self.batch.as_ref()?;
        match &batch.stage {
            Stage::Ready { .. } | Stage::Logged { after_filling: false, .. } => {
                (!self.is_back()).then_some((batch.wait_until, "a batch waits for its switch"))
            }
            Stage::Logged { after_filling: true, .. } => {
                (!self.is_filled()).then_some((batch.wait_until, "a batch waits for its switch to be filled"))
            }
            Stage::Applying { deadline, .. } => deadline.map(|at| (at, "deadline of a batch")),
            Stage::Confirming { challenge, .. } => challenge.timeouts().min_by_key(|(at, _)| *at),
            Stage::Undoing { at, .. } => match (&self.work, &self.switch) {
                (None, Switch::Back { .. }) => Some((*at, "undoing a batch")),
                (None, Switch::Unknown) => Some((batch.wait_until, "undoing a batch")),
                (None | Some(_), _) => None,
            },
            Stage::Fetching { .. } | Stage::Appending { .. } | Stage::Deciding { .. } => None,
        }
    }
}

fn refusal(reason: String, permanent: bool) -> FlowRefusal {
    FlowRefusal { id: None, reason: bounded(reason), permanent }
}

impl Agent {
    pub(super) fn with_batch(&mut self, bridge: &Bridge, change: impl FnOnce(&mut Batch)) {
        if let Some(batch) = self.device(bridge).and_then(|device| device.batch.as_mut()) {
            change(batch);
        }
    }

    fn stage_mut(&mut self, bridge: &Bridge) -> Option<&mut Stage> {
        self.device(bridge)?.batch.as_mut().map(|batch| &mut batch.stage)
    }

    pub(super) fn set_flow_stage(&mut self, bridge: &Bridge, stage: Stage) {
        self.with_batch(bridge, |batch| batch.stage = stage);
    }

    /// [`FlowDown::Batch`](muster_shared::model::flow::FlowDown::Batch)
    pub(super) fn flow_batch(&mut self, batch: FlowBatch) {
        let bridge = batch.device.clone();
        if !self.flows.devices.contains_key(&bridge) && !self.add_device(&bridge) {
            let reason =
                format!("this node has {DEVICES_MAX} flow tables already, which is the most it keeps");
            return self.tell_refusal(&batch, refusal(reason, true));
        }
        let Some(device) = self.device(&bridge) else { return };
        match batch.generation.cmp(&device.newest()) {
            // The controller does not know of the newer one, if its table was forgotten since.
            std::cmp::Ordering::Less => {
                device.asked |= device.forgotten;
                return;
            }
            // It may have come twice, or the controller has not heard how it ended.
            std::cmp::Ordering::Equal => {
                device.asked = true;
                return;
            }
            std::cmp::Ordering::Greater => {}
        }
        if device.batch.as_ref().is_some_and(|it| it.stage.has_begun()) || device.forgetting.is_some() {
            device.next = Some(batch);
        } else {
            self.drop_unbegun(&bridge, batch.generation);
            self.begin_batch(batch);
        }
    }

    /// A place for one more; one that was forgotten, or never had anything, makes room.
    fn add_device(&mut self, bridge: &Bridge) -> bool {
        if self.flows.devices.len() >= DEVICES_MAX {
            let is_free = |it: &Device| {
                let is_idle = it.batch.is_none() && it.next.is_none() && it.work.is_none() && !it.logging;
                is_idle && (it.forgotten || it.log.is_none())
            };
            let free =
                self.flows.devices.iter().filter(|(_, it)| is_free(it)).min_by_key(|(_, it)| it.decided);
            let Some((free, forgotten)) = free.map(|(free, it)| (free.clone(), it.forgotten)) else {
                return false;
            };
            self.flows.devices.remove(&free);
            self.flow_effect(&free, if forgotten { FlowEffect::Drop } else { FlowEffect::Leave });
        }
        self.flows.devices.insert(bridge.clone(), Device::new(bridge));
        self.flow_effect(bridge, FlowEffect::Watch);
        true
    }

    /// A batch that has not begun makes room for what came after it.
    pub(super) fn drop_unbegun(&mut self, bridge: &Bridge, newer: Generation) {
        let Some(device) = self.device(bridge) else { return };
        let resource = device.resource;
        let unbegun = device.batch.take_if(|it| !it.stage.has_begun() && it.generation <= newer);
        if let Some(Stage::Fetching { ops } | Stage::Ready { ops }) = unbegun.map(|it| it.stage) {
            self.release(resource, stored(&ops).map(|(digest, _)| digest));
        }
    }

    fn release(&mut self, resource: ResourceId, stored: Option<ContentDigest>) {
        if let Some(digest) = stored {
            self.fetch.release(resource, digest, self.now, &mut self.effects);
        }
    }

    fn begin_batch(&mut self, batch: FlowBatch) {
        let FlowBatch { device: bridge, generation, confirm_timeout, ops } = batch;
        let wait_until = self.now + SWITCH_WITHIN;
        let Some(device) = self.flows.devices.get_mut(&bridge) else { return };
        if std::mem::take(&mut device.forgotten) {
            self.effects.push(crate::Effect::Flow { device: bridge.clone(), effect: FlowEffect::Watch });
        }
        let (resource, confirm) =
            (device.resource, confirm_timeout.map(|s| Duration::from_secs(u64::from(s.max(1)))));
        let wanted = stored(&ops);
        let stage = Stage::Fetching { ops };
        device.batch = Some(Batch { generation, confirm, wait_until, stage });
        match wanted {
            None => self.flow_fetched(&bridge),
            Some((_, size)) if size > BATCH_BYTES_MAX => {
                let reason = format!("a batch of {size} bytes is over the limit of {BATCH_BYTES_MAX}");
                self.flow_refuse_unbegun(&bridge, refusal(reason, true));
            }
            // Tables wait for no lane, and nobody's turn is before theirs.
            Some((digest, size)) => match self.fetch.want(resource, Order::default(), digest, size) {
                Ok(true) => self.flow_fetched(&bridge),
                Ok(false) => self.fetch.pump(self.now, &mut self.effects),
                Err(reason) => self.flow_refuse_unbegun(&bridge, refusal(reason, false)),
            },
        }
    }

    /// A content is there, or cannot be had; true if it was a device's.
    pub(crate) fn flow_settled(&mut self, resource: ResourceId, failed: Option<&str>) -> bool {
        let Some(bridge) = self.flows.resource_of(resource) else { return false };
        match failed {
            None => self.flow_fetched(&bridge),
            Some(reason) => {
                if matches!(self.stage_mut(&bridge), Some(Stage::Fetching { .. })) {
                    self.flow_refuse_unbegun(&bridge, refusal(reason.to_owned(), false));
                }
            }
        }
        true
    }

    fn flow_fetched(&mut self, bridge: &Bridge) {
        let wait_until = self.now + SWITCH_WITHIN;
        self.with_batch(bridge, |batch| {
            if let Stage::Fetching { ops } = &mut batch.stage {
                let ops = std::mem::replace(ops, Content::Inline(Vec::new()));
                (batch.stage, batch.wait_until) = (Stage::Ready { ops }, wait_until);
            }
        });
    }

    /// Begins the next stage, where it can.
    pub(super) fn advance_batch(&mut self, bridge: &Bridge) {
        if !self.is_stopping
            && let Some(device) = self.device(bridge)
            && device.batch.is_none()
            && device.forgetting.is_none()
            && let Some(next) = device.next.take()
        {
            self.begin_batch(next);
        }
        let (now, is_stopping) = (self.now, self.is_stopping);
        let Some(device) = self.device(bridge) else { return };
        let Some(batch) = &device.batch else { return };
        let (is_idle, is_late) = (device.work.is_none(), now >= batch.wait_until);
        let gone = match &device.switch {
            Switch::Back { .. } => None,
            Switch::Unknown => is_late.then(|| format!("the switch of {bridge} did not answer")),
            Switch::Gone { reason } => (is_late || !device.was_back).then(|| reason.clone()),
        };
        let (is_back, is_filled) = (device.is_back(), device.is_filled());
        match &batch.stage {
            Stage::Ready { .. } | Stage::Logged { .. } if is_stopping => {}
            Stage::Ready { .. } => match gone {
                Some(reason) => self.flow_refuse_unbegun(bridge, refusal(reason, false)),
                None if is_back => self.append(bridge),
                None => {}
            },
            Stage::Logged { after_filling, .. } => match gone {
                Some(reason) => self.decide(bridge, Some(refusal(reason, false))),
                None if *after_filling && !is_filled && is_late => {
                    let reason = format!("{bridge} could not be filled again after its switch had restarted");
                    self.decide(bridge, Some(refusal(reason, false)));
                }
                None if is_idle && is_back && (is_filled || !*after_filling) => self.apply(bridge),
                None => {}
            },
            Stage::Applying { .. } | Stage::Confirming { .. } => self.guard_flows(bridge),
            Stage::Undoing { .. } => self.undo(bridge),
            Stage::Fetching { .. } | Stage::Appending { .. } | Stage::Deciding { .. } => {}
        }
    }

    fn append(&mut self, bridge: &Bridge) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        let Some(batch) = device.batch.as_mut().filter(|_| !device.logging) else { return };
        let guard = batch.confirm.is_some();
        let generation = batch.generation;
        if guard && !self.may_guard() {
            return;
        }
        let Some(Stage::Ready { ops }) = self.stage_mut(bridge) else { return };
        let ops = std::mem::replace(ops, Content::Inline(Vec::new()));
        let stored = stored(&ops).map(|(digest, _)| digest);
        self.set_flow_stage(bridge, Stage::Appending { stored });
        if guard {
            self.flows.guarding = Some(bridge.clone());
        }
        self.flow_effect(bridge, FlowEffect::Append { generation, ops, guard });
    }

    pub(super) fn flow_appended(
        &mut self,
        bridge: &Bridge,
        generation: Generation,
        result: Result<Appended, FlowRefusal>,
    ) {
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        let Some(batch) = device.batch.as_ref().filter(|it| it.generation == generation) else { return };
        let Stage::Appending { stored } = batch.stage else { return };
        let resource = device.resource;
        device.log = device.log.or(Some(0));
        self.release(resource, stored);
        let appended = match result {
            Ok(appended) => appended,
            Err(refused) => return self.flow_refuse_unbegun(bridge, refused),
        };
        let challenge = appended.challenge;
        let is_guarded = challenge.is_some();
        if !is_guarded {
            self.flows.guarding.take_if(|guarding| guarding == bridge);
        }
        let Some(device) = self.flows.devices.get_mut(bridge) else { return };
        let entries = device.table.len_after(&appended.ops);
        let Some(ops) = device.table.resolve(appended.ops).map(Arc::new) else {
            let reason = "a batch names an entry twice: a bug of the controller, please report it";
            return self.decide(bridge, Some(refusal(reason.into(), true)));
        };
        self.set_flow_stage(bridge, Stage::Logged { ops, challenge, after_filling: is_guarded });
        if entries > ENTRIES_MAX {
            let reason = format!("{bridge} would have {entries} entries, over the limit of {ENTRIES_MAX}");
            self.decide(bridge, Some(refusal(reason, true)));
        } else if is_guarded && self.is_stopping {
            self.decide(bridge, Some(refusal(STOPPED.into(), false)));
        }
    }

    fn apply(&mut self, bridge: &Bridge) {
        let now = self.now;
        let Some(device) = self.device(bridge) else { return };
        let Some(batch) = &mut device.batch else { return };
        let Stage::Logged { ops, challenge, .. } = &mut batch.stage else { return };
        let (ops, challenge) = (Arc::clone(ops), challenge.take());
        let window = batch.confirm.unwrap_or_default().max(Duration::from_secs(1));
        let is_guarded = challenge.is_some();
        let deadline = is_guarded.then(|| now + window);
        batch.stage = Stage::Applying { ops: Arc::clone(&ops), challenge, deadline };
        let number = self.begin_work(bridge, Work::Applying);
        // What is undone is removed, also what was there before as somebody else's.
        self.flow_effect(bridge, FlowEffect::Apply { number, ops, take_over: !is_guarded });
    }

    /// The answer to [`FlowEffect::Apply`], of a batch or of what undoes it.
    pub(super) fn flow_applied(&mut self, bridge: &Bridge, result: Result<Odd, NotApplied>) {
        let now = self.now;
        if let Err(NotApplied::Gone { reason }) = &result {
            self.flow_gone(bridge, reason.clone());
        }
        let Some(device) = self.device(bridge) else { return };
        match device.work.take() {
            Some(Work::Applying) => {}
            Some(Work::Undoing) => return self.undone(bridge, result),
            other => {
                device.work = other;
                return;
            }
        }
        let is_filled = device.is_filled();
        let Some(batch) = &mut device.batch else { return };
        let Stage::Applying { ops, challenge, deadline } = &mut batch.stage else { return };
        let (ops, challenge, deadline) = (Arc::clone(ops), challenge.take(), *deadline);
        match (result, challenge, deadline) {
            (Ok(odd), challenge, deadline) => {
                device.watching.applied(&ops, odd);
                match (challenge, deadline) {
                    (Some(_), Some(_)) if !is_filled => {
                        self.begin_undoing(bridge, "the switch was restarted while it was applied".into());
                    }
                    (Some(bytes), Some(deadline)) => self.confirm_flows(bridge, bytes, deadline),
                    (_, _) => self.decide(bridge, None),
                }
            }
            (Err(NotApplied::Refused(_)), challenge, _) if !is_filled => {
                // What it needs may be missing on a switch that has just come.
                batch.wait_until = now + SWITCH_WITHIN;
                batch.stage = Stage::Logged { ops, challenge, after_filling: true };
            }
            (Err(NotApplied::Refused(refused)), ..) => {
                let refused = FlowRefusal { reason: bounded(refused.reason), ..refused };
                self.decide(bridge, Some(refused));
            }
            (Err(NotApplied::Gone { reason }), Some(_), _) => {
                // Nobody knows whether it took it, and the node may be cut off.
                self.begin_undoing(bridge, reason);
            }
            (Err(NotApplied::Gone { .. }), None, _) => {
                batch.wait_until = now + SWITCH_WITHIN;
                batch.stage = Stage::Logged { ops, challenge: None, after_filling: false };
                device.watching.compare_now(now);
            }
        }
    }

    /// Its end is recorded.
    pub(super) fn decide(&mut self, bridge: &Bridge, refused: Option<FlowRefusal>) {
        let Some(device) = self.device(bridge) else { return };
        let Some(batch) = &mut device.batch else { return };
        let ops = match &batch.stage {
            Stage::Logged { ops, .. } => Arc::clone(ops),
            stage => stage.in_force().map(Arc::clone).unwrap_or_default(),
        };
        batch.stage = Stage::Deciding { ops, refused: refused.clone() };
        let generation = batch.generation;
        self.flow_effect(bridge, FlowEffect::Decide { generation, refused });
    }

    pub(super) fn flow_decided(
        &mut self,
        bridge: &Bridge,
        generation: Generation,
        result: Result<u64, String>,
    ) {
        let Some(device) = self.device(bridge) else { return };
        if let Ok(log) = &result {
            device.log = Some(*log);
        }
        let deciding = device.batch.as_mut().filter(|batch| batch.generation == generation);
        let Some(Stage::Deciding { ops, refused }) = deciding.map(|batch| &mut batch.stage) else {
            // One that was owed.
            device.logging = false;
            if result.is_err() && generation == device.decided {
                device.owed = Some((generation, device.refused.clone()));
            }
            return;
        };
        let (ops, refused) = (std::mem::take(ops), refused.take());
        if result.is_ok() {
            // The end of an older one would say that this one never was.
            device.owed = None;
        }
        match (refused, result) {
            (None, Ok(_)) => {
                device.table.apply(&ops);
                self.flow_ended(bridge, None);
            }
            (Some(refused), Ok(_)) => self.flow_ended(bridge, Some(refused)),
            (Some(refused), Err(reason)) => {
                self.effects.warn(format!("cannot record how a batch of {bridge} ended: {reason}"));
                self.owe(bridge, generation, &refused);
                self.flow_ended(bridge, Some(refused));
            }
            (None, Err(reason)) => {
                self.set_flow_stage(bridge, Stage::Deciding { ops, refused: None });
                self.begin_undoing(bridge, format!("cannot write on the node's disk: {reason}"));
            }
        }
    }

    fn owe(&mut self, bridge: &Bridge, generation: Generation, refused: &FlowRefusal) {
        if let Some(device) = self.device(bridge) {
            device.owed = Some((generation, Some(refused.clone())));
        }
    }

    /// It never touched the device, and is not in the log.
    fn flow_refuse_unbegun(&mut self, bridge: &Bridge, refused: FlowRefusal) {
        let Some(device) = self.device(bridge) else { return };
        let resource = device.resource;
        if let Some(Stage::Fetching { ops } | Stage::Ready { ops }) =
            device.batch.as_ref().map(|it| &it.stage)
        {
            let stored = stored(ops).map(|(digest, _)| digest);
            self.release(resource, stored);
        }
        self.flow_ended(bridge, Some(FlowRefusal { reason: bounded(refused.reason), ..refused }));
    }

    /// It has come to its end, which is told.
    fn flow_ended(&mut self, bridge: &Bridge, refused: Option<FlowRefusal>) {
        self.flows.guarding.take_if(|guarding| guarding == bridge);
        let Some(device) = self.device(bridge) else { return };
        let Some(batch) = device.batch.take() else { return };
        (device.decided, device.refused) = (batch.generation, refused);
        device.asked = true;
    }
}

/// A content that is fetched.
fn stored(ops: &Content) -> Option<(ContentDigest, u64)> {
    match ops {
        Content::Inline(_) => None,
        Content::Stored { digest, size } => Some((*digest, *size)),
    }
}
