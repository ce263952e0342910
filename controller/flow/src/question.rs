//! Questions to agents for operators: counters, and rules of others, which the device's policy may import. Requests
//! for the same share an answer, and a large device is asked less often. An operator's request to compare a device
//! now begins here as well.
//!
//! Absent: the comparison (`compare_with_agent.rs`), and the questions of `stack check`
//! (`controller/engine/src/drift/check_withdrawal.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{
    DeviceName, FOREIGN_MAX, FlowAsk, FlowCounters, FlowDown, FlowId, ForeignRule, TableCounters,
};
use muster_template::ForeignPolicy;

use crate::compare_with_agent::ANSWER_WITHIN;
use crate::device::{DEVICE_ENTRIES_MAX, DeviceKey, Flows};
use crate::effect::Effect;
use crate::operation::{FlowAction, FlowOp, FlowWrite};
use crate::owner::Owner;
use crate::record::FlowMark;
use crate::site::{Refused, Turn};

/// Requests that wait for one device. Later ones get what is known.
const WAITING_MAX: usize = 64;
/// Tables of a switch.
const TABLES_MAX: usize = 256;
/// The least interval between two reads of all counters, and the addition per thousand rules. A
/// read takes a hundredth of that.
const STATS_EVERY: Duration = Duration::from_secs(1);
const STATS_PER_THOUSAND: Duration = Duration::from_millis(100);

/// Devices asked at a time for metrics. Those with the oldest counters go first. Each answer of a
/// large device takes megabytes.
const SAMPLED_MAX: usize = 64;

/// Questions to a device, and the last answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    stats: Option<Question<Counted>>,
    foreign: Option<Question<Vec<ForeignRule>>>,
    pub counted: Option<Box<Counted>>,
    /// Rules of others as last reported.
    pub strangers: Vec<ForeignRule>,
}

/// A question, and the requests that wait for its answer.
#[derive(Debug)]
struct Question<T> {
    number: u64,
    until: MonoTime,
    requests: Vec<u64>,
    told: T,
}

/// Counters of a device.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub at: MonoTime,
    /// Sorted by id.
    pub entries: Vec<FlowCounters>,
    pub tables: Vec<TableCounters>,
    /// Packets and bytes by owner of the entries at the time of the report.
    pub owners: BTreeMap<Owner, (u64, u64)>,
}

impl Counted {
    pub fn of(&self, id: FlowId) -> Option<&FlowCounters> {
        self.entries.binary_search_by_key(&id, |counters| counters.id).ok().map(|at| &self.entries[at])
    }
}

/// Whether an answer can be read already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// [`Effect::Answer`] of the request follows once the agent has answered, or after a bound.
    Waits,
    /// The known answer is new enough, or no other can be had.
    Ready,
}

impl From<bool> for Asked {
    fn from(waits: bool) -> Self {
        if waits { Self::Waits } else { Self::Ready }
    }
}

impl Flows {
    /// Asks for the counters of a device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn ask_stats(&mut self, turn: &Turn<'_>, name: &DeviceName, request: u64) -> Result<Asked, Refused> {
        let key = self.known_device(turn.site, name)?;
        Ok(self.count_device(turn.now, key, Some(request)).into())
    }

    /// Asks the devices with the oldest counters, for metrics. The caller reads the counters known
    /// by then.
    pub fn sample(&mut self, now: MonoTime) {
        let read = |counted: &Counted| counted.at;
        let mut devices: Vec<_> =
            self.iter().map(|(key, device)| (device.questions.counted.as_deref().map(read), key)).collect();
        devices.sort_unstable();
        let mut asked = 0;
        for (_, key) in devices {
            asked += usize::from(self.count_device(now, key, None));
            if asked >= SAMPLED_MAX {
                break;
            }
        }
    }

    /// Asks for counters. Returns false if the known ones are new enough, or no others can be had.
    fn count_device(&mut self, now: MonoTime, key: DeviceKey, request: Option<u64>) -> bool {
        let number = self.next_question();
        let Some(device) = self.get_mut(key) else { return false };
        let is_there = device.heard;
        let thousands = u32::try_from(device.table.len() / 1000).unwrap_or(u32::MAX);
        let every = STATS_EVERY + STATS_PER_THOUSAND.saturating_mul(thousands);
        let is_new = device.questions.counted.as_ref().is_some_and(|counted| counted.at + every > now);
        if let Some(question) = &mut device.questions.stats {
            if question.requests.len() >= WAITING_MAX {
                return false;
            }
            question.requests.extend(request);
            return true;
        }
        if !is_there || is_new {
            return false;
        }
        let until = now + ANSWER_WITHIN;
        let requests = request.into_iter().collect();
        device.questions.stats = Some(Question { number, until, requests, told: Counted::default() });
        let DeviceName { node, bridge } = device.name.clone();
        self.set_timer(until, key);
        self.send(node, FlowDown::Ask { device: bridge, number, ask: FlowAsk::Stats });
        true
    }

    /// Asks for the rules of others on a device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn ask_foreign(
        &mut self,
        turn: &Turn<'_>,
        name: &DeviceName,
        request: u64,
    ) -> Result<Asked, Refused> {
        let key = self.known_device(turn.site, name)?;
        Ok(self.ask_strangers(turn.now, key, Some(request)).into())
    }

    fn ask_strangers(&mut self, now: MonoTime, key: DeviceKey, request: Option<u64>) -> bool {
        let number = self.next_question();
        let Some(device) = self.get_mut(key) else { return false };
        let is_there = device.heard;
        if let Some(question) = device.questions.foreign.as_mut().filter(|it| it.requests.len() < WAITING_MAX)
        {
            question.requests.extend(request);
            return true;
        }
        if !is_there || device.questions.foreign.is_some() {
            return false;
        }
        let until = now + ANSWER_WITHIN;
        let requests = request.into_iter().collect();
        device.questions.foreign = Some(Question { number, until, requests, told: Vec::new() });
        let DeviceName { node, bridge } = device.name.clone();
        self.set_timer(until, key);
        self.send(node, FlowDown::Ask { device: bridge, number, ask: FlowAsk::Foreign });
        true
    }

    pub(crate) fn stats_told(
        &mut self,
        now: MonoTime,
        key: DeviceKey,
        number: u64,
        entries: Vec<FlowCounters>,
        tables: Vec<TableCounters>,
        last: bool,
    ) {
        let Some(device) = self.get_mut(key) else { return };
        let Some(question) = device.questions.stats.as_mut().filter(|it| it.number == number) else {
            return;
        };
        let room = DEVICE_ENTRIES_MAX.saturating_sub(question.told.entries.len());
        question.told.entries.extend(entries.into_iter().take(room));
        let room = TABLES_MAX.saturating_sub(question.told.tables.len());
        question.told.tables.extend(tables.into_iter().take(room));
        if !last {
            return;
        }
        let Some(Question { mut told, requests, .. }) = device.questions.stats.take() else { return };
        told.at = now;
        told.entries.sort_by_key(|counters| counters.id);
        told.tables.sort_by_key(|counters| counters.table);
        // Summed up once, because many may ask for the sums of a million entries.
        for counters in &told.entries {
            let Some(kept) = device.table.get(counters.id) else { continue };
            let (packets, bytes) = told.owners.entry(kept.owner).or_default();
            (*packets, *bytes) = (packets.wrapping_add(counters.packets), bytes.wrapping_add(counters.bytes));
        }
        device.questions.counted = Some(Box::new(told));
        for request in requests {
            self.effect(Effect::Answer(request));
        }
    }

    pub(crate) fn foreign_told(
        &mut self,
        turn: &mut Turn<'_>,
        key: DeviceKey,
        number: u64,
        rules: Vec<ForeignRule>,
        last: bool,
    ) {
        let Some(device) = self.get_mut(key) else { return };
        let Some(question) = device.questions.foreign.as_mut().filter(|it| it.number == number) else {
            return;
        };
        let room = FOREIGN_MAX.saturating_sub(question.told.len());
        question.told.extend(rules.into_iter().take(room));
        if !last {
            return;
        }
        let Some(Question { told, requests, .. }) = device.questions.foreign.take() else { return };
        device.questions.strangers = told;
        let imports = device.foreign == ForeignPolicy::Import;
        for request in requests {
            self.effect(Effect::Answer(request));
        }
        if imports {
            self.import(turn, key);
        }
    }

    /// Imports rules of others: those that we can express become the operators'. Others stay as
    /// they are.
    fn import(&mut self, turn: &mut Turn<'_>, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        let name = device.name.clone();
        let mut ops = BTreeMap::new();
        for packed in device.questions.strangers.iter().filter_map(|rule| rule.entry.as_ref()) {
            let id = packed.unpack().id(&name);
            // An entry that was refused before is tried again.
            if device.table.get(id).is_none_or(|kept| kept.mark == FlowMark::Failed && !kept.removing) {
                let (digest, packed) = (packed.digest(), packed.clone());
                ops.insert(id, FlowOp::Put { id, digest, packed });
            }
        }
        if ops.is_empty() {
            return;
        }
        device.import_error = None;
        let write = FlowWrite { device: name, ops: ops.into_values().collect() };
        // A resource may have claimed one of the rules. Then none is imported, and the rules stay foreign.
        if let Err(refusal) = self.begin(turn, FlowAction::Import, vec![vec![write]], None) {
            self.import_failed(key, &refusal.to_string());
        }
    }

    /// Notes the failure of an import in its device, because no request waits for it.
    pub(crate) fn import_failed(&mut self, key: DeviceKey, why: &str) {
        if let Some(device) = self.get_mut(key) {
            device.import_error = Some(format!("rules that are not Muster's were not imported: {why}"));
        }
    }

    /// Sets the policy for rules of others, and looks at the present ones now.
    pub(crate) fn set_foreign(&mut self, now: MonoTime, key: DeviceKey, policy: ForeignPolicy) {
        let Some(device) = self.get_mut(key) else { return };
        device.import_error = None;
        if std::mem::replace(&mut device.foreign, policy) != policy {
            self.device_changed(key);
        }
        if policy != ForeignPolicy::Leave {
            self.ask_strangers(now, key, None);
        }
    }

    /// Lets the agent compare a device with its table, and then compares its table with ours.
    ///
    /// # Errors
    /// There is no such device, and none is made: there is no policy, or its node has never joined.
    pub fn reconcile(
        &mut self,
        turn: &mut Turn<'_>,
        name: &DeviceName,
        policy: Option<ForeignPolicy>,
    ) -> Result<(), Refused> {
        let key = match policy {
            // The device may have no rules of ours yet.
            Some(_) if turn.site.has_joined(&name.node) => self.device(name)?,
            Some(_) | None => self.known_device(turn.site, name)?,
        };
        if let Some(policy) = policy {
            self.set_foreign(turn.now, key, policy);
        }
        let number = self.next_question();
        let Some(device) = self.get_mut(key) else { return Ok(()) };
        (device.odd, device.repairs, device.not_before) = (None, 0, None);
        device.undone.hurry(turn.now);
        let DeviceName { node, bridge } = name.clone();
        self.send(node, FlowDown::Ask { device: bridge, number, ask: FlowAsk::Look });
        self.pump(turn, key);
        Ok(())
    }

    /// Answers requests whose question was not answered in time.
    pub(crate) fn questions_due(&mut self, now: MonoTime, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        let stats = device.questions.stats.take_if(|it| it.until <= now).map(|it| it.requests);
        let foreign = device.questions.foreign.take_if(|it| it.until <= now).map(|it| it.requests);
        for request in stats.into_iter().chain(foreign).flatten() {
            self.effect(Effect::Answer(request));
        }
    }

    /// Answers all requests with what is known, because the agent will not answer.
    pub(crate) fn end_questions(&mut self, key: DeviceKey) {
        let Some(device) = self.get_mut(key) else { return };
        let stats = device.questions.stats.take().map(|it| it.requests);
        let foreign = device.questions.foreign.take().map(|it| it.requests);
        for request in stats.into_iter().chain(foreign).flatten() {
            self.effect(Effect::Answer(request));
        }
    }
}
