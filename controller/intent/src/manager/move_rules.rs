//! Moves an intent from the placed rules to the wanted ones, stage by stage. If a stage fails, the
//! intent returns to the path before or its rules are removed, and it is tried again later.
//!
//! Absent: the steps of each stage (`stages.rs`), and the pause before a retry (`Held::pause`,
//! `manager.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{DeviceName, Entry, Packed};

use super::load::{Reroute, Stand};
use super::place::{Open, Placed, TableEntry};
use super::{ByDevice, Effect, Ended, HISTORY_MAX, Held, IntentNo, Manager, Op, Token, group_number, packed};
use crate::affected_intents::Hope;
use crate::compile::{Compiled, Compiler};
use crate::intent::Intent;
use crate::phase::{Request, State};
use crate::reservations::Share;
use crate::stages::{Identity, Step, identity, stages, takes_packets_of};
use crate::topology::{DeviceNo, Topology};

/// The time to wait for a stage that changes rules before the path may change. Until then packets
/// may take old and new rules.
const CHANGING: Duration = Duration::from_secs(2);

/// The work on an intent under way.
#[derive(Debug)]
pub(super) struct Work {
    goal: Goal,
    /// Version of the look that started it.
    version: u64,
    stages: VecDeque<Vec<Step>>,
    /// Writes of the present stage.
    tokens: BTreeSet<Token>,
    /// The present stage changes rules that packets may meet.
    changes: bool,
    failed: Option<Box<str>>,
    began: MonoTime,
    stage_began: MonoTime,
    why: Arc<str>,
}

#[derive(Debug)]
enum Goal {
    /// The compiled rules. If they cannot be installed, the intent returns to the path before.
    Stand { before: Option<Before> },
    /// The path before, because of this failure.
    Return { to: Before, failure: Box<str> },
    /// No rule on any device. The intent is in this state then.
    Nothing(State),
}

#[derive(Debug)]
struct Before {
    stand: Box<Stand>,
    entries: Placed,
}

impl Goal {
    /// The path before, where the intent has one.
    fn before(self) -> Option<Before> {
        match self {
            Goal::Stand { before } => before,
            Goal::Return { to, .. } => Some(to),
            Goal::Nothing(_) => None,
        }
    }
}

impl Work {
    fn new(goal: Goal, stages: Vec<Vec<Step>>, why: Arc<str>, began: MonoTime) -> Self {
        Self {
            goal,
            version: 0,
            stages: stages.into(),
            tokens: BTreeSet::new(),
            changes: false,
            failed: None,
            began,
            stage_began: began,
            why,
        }
    }

    /// Whether the work removes every rule.
    fn removes_all(&self) -> bool {
        matches!(self.goal, Goal::Nothing(_))
    }

    /// Whether the work goes on when this write has ended.
    pub fn awaits(&self, token: Token) -> bool {
        !self.removes_all() && self.tokens.contains(&token)
    }

    /// Whether the path may change now.
    fn yields(&self, now: MonoTime) -> bool {
        !self.changes || self.tokens.is_empty() || now.since(self.stage_began) >= CHANGING
    }
}

impl Held {
    /// The stages from the rules on devices to the wanted ones.
    fn stages_to(&self, topology: &Topology, wanted: &[(DeviceNo, Entry)]) -> Vec<Vec<Step>> {
        let places = |open: &Open| {
            let (device, all) = (open.device, open.before.iter().chain(open.ops.iter().map(Op::packed)));
            all.map(move |packed| (device, packed.unpack())).collect::<Vec<_>>()
        };
        let perhaps: Vec<(DeviceNo, Entry)> = self.open.values().flat_map(places).collect();
        // A device may have a rule that counts as refused. One that is wanted is put again.
        let refused = self.refused.iter().map(|(device, packed)| (*device, packed.unpack()));
        let unwanted = refused.filter(|(device, entry)| {
            !wanted.iter().any(|(at, other)| at == device && identity(other) == identity(entry))
        });
        let held: Vec<(DeviceNo, Entry)> = self.placed.entries().into_iter().chain(unwanted).collect();
        stages(topology, &held, &perhaps, wanted)
    }

    /// Open writes to await before the first of these stages: writes of rules that stay, and
    /// removals of rules that take packets of those.
    fn under_way(&self, topology: &Topology, stages: &VecDeque<Vec<Step>>) -> BTreeSet<Token> {
        if self.open.is_empty() {
            return BTreeSet::new();
        }
        let changed: BTreeSet<(DeviceNo, Identity<'_>)> = stages.iter().flatten().map(Step::place).collect();
        let stays = |device, entry: &Entry| !changed.contains(&(device, identity(entry)));
        let mut standing = self.placed.entries();
        standing.retain(|(device, entry)| stays(*device, entry));
        let is_awaited = |open: &Open| {
            open.ops.iter().any(|op| match op {
                // A put that was undone since does not count.
                Op::Put(packed) => {
                    self.placed.has(open.device, packed) && stays(open.device, &packed.unpack())
                }
                Op::Remove(packed) => takes_packets_of(topology, open.device, &packed.unpack(), &standing),
            })
        };
        self.open.iter().filter(|(_, open)| is_awaited(open)).map(|(token, _)| *token).collect()
    }
}

impl Manager {
    /// Decides the next work for an intent.
    pub(super) fn look(&mut self, now: MonoTime, no: IntentNo, why: Arc<str>) {
        let Some(held) = self.held.get_mut(&no) else { return };
        if let Some(work) = held.work.as_ref().filter(|work| !work.yields(now)) {
            let due = work.stage_began + CHANGING;
            held.again = Some(why);
            return self.set_due(no, Some(due));
        }
        held.again = None;
        held.version += 1;
        self.set_due(no, None);
        let Some(held) = self.held.get_mut(&no) else { return };
        match held.request {
            Request::Purge if held.placed.is_empty() && held.refused.is_empty() && held.open.is_empty() => {
                self.forget(no)
            }
            Request::Withdraw | Request::Purge => self.leave(now, no, State::Withdrawn, Hope::None, why),
            Request::Install => {
                let (intent, holder) = (held.intent.unpack(), held.holder());
                let mut compiler =
                    Compiler { topology: &self.topology, ledger: &self.ledger, trees: &mut self.trees };
                match compiler.compile(&intent, &held.key, &holder, group_number(no)) {
                    Ok(compiled) => self.go(now, no, &intent, compiled, why),
                    Err(error) => {
                        held.reason = Some(error.to_string().into());
                        self.leave(now, no, State::Failed, error.hope(), why);
                    }
                }
            }
        }
    }

    /// Starts to install the compiled rules.
    fn go(&mut self, now: MonoTime, no: IntentNo, intent: &Intent, mut compiled: Compiled, why: Arc<str>) {
        let entries = std::mem::take(&mut compiled.entries);
        let Some(held) = self.held.get_mut(&no) else { return };
        let bandwidth = intent.constraints.bandwidth;
        // The path before stays the same, however often the new path changes in the meantime.
        let (began, before) = match held.work.take() {
            Some(work) => (work.began, work.goal.before()),
            None => {
                let entries = held.placed.clone();
                let proven = held.stand.clone().filter(|stand| stand.proven);
                (now, proven.map(|stand| Before { stand, entries }))
            }
        };
        if held.stand.as_ref().is_none_or(|stand| !stand.is_of(&compiled, &held.intent, bandwidth)) {
            held.shares += 1;
            let (key, number) = (held.key.clone(), held.shares);
            let share = Share { key, number };
            let (topology, holder) = (&self.topology, held.holder());
            self.ledger.take(topology, share, holder, &compiled.links, bandwidth, compiled.label);
            let old =
                held.stand.replace(Box::new(Stand::new(compiled, number, held.intent.clone(), bandwidth)));
            let kept = before.as_ref().map(|before| before.stand.number);
            if let Some(old) = old.filter(|old| Some(old.number) != kept) {
                // Rules of that path are still being written. Its share is given back once no write
                // is open.
                held.past().leaving.push(old.number);
            }
        }
        let Some(held) = self.held.get_mut(&no) else { return };
        if let Some(stand) = &held.stand {
            self.tracker.stands(no, stand.links.clone(), stand.points.clone(), stand.hope());
            self.follow_hosts(no, intent);
        }
        let Some(held) = self.held.get_mut(&no) else { return };
        let stages = held.stages_to(&self.topology, &entries);
        let state = if before.is_some() { State::Reallocating } else { State::Installing };
        self.begin(now, no, state, Work::new(Goal::Stand { before }, stages, why, began));
    }

    /// Starts to remove all rules.
    fn leave(&mut self, now: MonoTime, no: IntentNo, then: State, hope: Hope, why: Arc<str>) {
        let Some(held) = self.held.get_mut(&no) else { return };
        // The intent does not return to rules that are being removed.
        if let Some(stand) = &mut held.stand {
            stand.proven = false;
        }
        let stages = held.stages_to(&self.topology, &[]);
        let (began, before) = held.work.take().map_or((now, None), |work| (work.began, work.goal.before()));
        // Nor to those of the path before: the next path is installed in full.
        if let Some(before) = before.map(|before| before.stand.number)
            && held.stand.as_ref().is_none_or(|stand| stand.number != before)
        {
            held.past().leaving.push(before);
        }
        let wanted = (held.request == Request::Install).then(|| held.intent.unpack());
        self.tracker.failed(no, hope, self.topology.next_link());
        if let Some(intent) = wanted {
            self.follow_hosts(no, &intent);
        }
        self.begin(now, no, State::Withdrawing, Work::new(Goal::Nothing(then), stages, why, began));
    }

    /// Starts to return to the path before.
    fn go_back(
        &mut self,
        now: MonoTime,
        no: IntentNo,
        before: Before,
        began: MonoTime,
        why: Arc<str>,
        failure: Box<str>,
    ) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let stages = held.stages_to(&self.topology, &before.entries.entries());
        let Stand { links, points, .. } = &*before.stand;
        self.tracker.stands(no, links.clone(), points.clone(), before.stand.hope());
        let wanted = held.intent.unpack();
        self.follow_hosts(no, &wanted);
        let Some(held) = self.held.get_mut(&no) else { return };
        let left = held.stand.replace(before.stand.clone());
        held.version += 1;
        if let Some(left) = left.filter(|left| left.number != before.stand.number) {
            self.let_go(no, left.number);
        }
        let goal = Goal::Return { to: before, failure };
        self.begin(now, no, State::Reallocating, Work::new(goal, stages, why, began));
    }

    fn begin(&mut self, now: MonoTime, no: IntentNo, state: State, work: Work) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let version = held.version;
        let is_idle = work.stages.is_empty() && held.open.is_empty();
        let tokens = match work.removes_all() {
            false => held.under_way(&self.topology, &work.stages),
            true => BTreeSet::new(),
        };
        let waits = !tokens.is_empty();
        held.work = Some(Box::new(Work { version, tokens, ..work }));
        if !is_idle {
            self.outcome(no, version, state);
        }
        if !waits {
            self.next_stage(now, no);
        }
    }

    fn next_stage(&mut self, now: MonoTime, no: IntentNo) {
        loop {
            let Some(held) = self.held.get_mut(&no) else { return };
            let Some(work) = &mut held.work else { return };
            let Some(steps) = work.stages.pop_front() else {
                // All rules must be gone, including those of an earlier move that is still under
                // way.
                let waits = work.removes_all() && !held.open.is_empty();
                return if waits { work.changes = false } else { self.reached(now, no) };
            };
            let mut by_device = ByDevice::new();
            let mut removes = true;
            for step in &steps {
                let (device, op) = match step {
                    Step::Put(device, entry) => {
                        removes = false;
                        (*device, Op::Put(packed(entry)))
                    }
                    Step::Remove(device, entry) => (*device, Op::Remove(packed(entry))),
                };
                by_device.entry(device).or_default().push(op);
            }
            // From here on the write decides about these entries. Until then the table is known to
            // have them.
            held.refused.retain(|(device, packed)| {
                let entry = packed.unpack();
                let is_it = |op: &Op| identity(&op.packed().unpack()) == identity(&entry);
                !by_device.get(device).is_some_and(|ops| ops.iter().any(is_it))
            });
            let (met, over) = held.placed.apply(&by_device);
            // An older write may fail or come late, so the entries before it still count.
            let mut before: BTreeMap<DeviceNo, Vec<Packed>> = BTreeMap::new();
            for (device, packed) in met {
                before.entry(device).or_default().push(packed);
            }
            for open in held.open.values() {
                let Some(ops) = by_device.get(&open.device) else { continue };
                let is_met = |packed: &&Packed| {
                    let entry = packed.unpack();
                    ops.iter().any(|op| identity(&op.packed().unpack()) == identity(&entry))
                };
                before.entry(open.device).or_default().extend(open.before.iter().filter(is_met).cloned());
            }
            let takes = steps.iter().any(|step| matches!(step, Step::Remove(..)));
            work.changes = over || (takes && !removes);
            work.stage_began = now;
            // Rules that get no packets may be removed while the intent is installed.
            let awaited = !removes || work.removes_all();
            for (device, ops) in by_device {
                self.next_token += 1;
                let token = Token(self.next_token);
                let mut before = before.remove(&device).unwrap_or_default();
                before.sort_unstable();
                before.dedup();
                held.open.insert(token, Open { device, ops: ops.clone(), before });
                self.tokens.insert(token, no);
                if awaited {
                    work.tokens.insert(token);
                }
                let device = self.topology.device_name(device).clone();
                self.effects.push_back(Effect::Write { token, intent: no, device, ops });
            }
            if awaited {
                return;
            }
        }
    }

    /// Handles the ends of writes. For each entry of a failed write, `table` says what the flow
    /// table has. It knows all writes that [`Manager::poll_effect`] gave, and all that failed.
    pub fn written(
        &mut self,
        now: MonoTime,
        ended: impl IntoIterator<Item = Ended>,
        table: impl Fn(IntentNo, &DeviceName, &Packed) -> TableEntry,
    ) {
        let ended: Vec<Ended> = ended.into_iter().collect();
        // All failures come first: what follows from one write is not in the table yet when another
        // is looked up.
        for (token, _) in ended.iter().filter(|(_, end)| end.is_err()) {
            self.asks(*token, &table);
        }
        for (token, end) in ended {
            self.ends(now, token, end);
        }
    }

    /// Looks up what the flow table has for the entries of a failed write.
    fn asks(&mut self, token: Token, table: impl Fn(IntentNo, &DeviceName, &Packed) -> TableEntry) {
        let Some(no) = self.tokens.get(&token).copied() else { return };
        let Some(held) = self.held.get_mut(&no) else { return };
        let Some(Open { device, ops, .. }) = held.open.get(&token) else { return };
        let name = self.topology.device_name(*device);
        for op in ops {
            let (lies, entry) = (table(no, name, op.packed()), op.packed().unpack());
            held.refused.retain(|(of, other)| of != device || identity(&other.unpack()) != identity(&entry));
            let placed = match lies {
                TableEntry::Nothing => None,
                TableEntry::Entry(packed) => Some(packed),
                TableEntry::Failed(packed) => {
                    held.refused.push((*device, packed));
                    None
                }
            };
            held.placed.set(*device, op.packed(), placed);
        }
    }

    fn ends(&mut self, now: MonoTime, token: Token, outcome: Result<(), Box<str>>) {
        let Some(no) = self.tokens.remove(&token) else { return };
        let Some(held) = self.held.get_mut(&no) else { return };
        let Some(open) = held.open.remove(&token) else { return };
        let is_all = held.open.is_empty();
        if is_all {
            // An empty map keeps room for eleven entries.
            held.open = BTreeMap::new();
            self.settle_shares(no);
        }
        let Some(held) = self.held.get_mut(&no) else { return };
        let (of_stage, ended) = match &mut held.work {
            None => (false, false),
            Some(work) => match work.removes_all() {
                true => (true, is_all),
                false => (work.tokens.remove(&token), work.tokens.is_empty()),
            },
        };
        if let Err(why) = outcome {
            let why = format!("{}: {why}", self.topology.device_name(open.device));
            match held.work.as_mut().filter(|_| of_stage) {
                Some(work) => drop(work.failed.get_or_insert_with(|| why.into())),
                None => return self.left_behind(now, no, why),
            }
        }
        if !of_stage && is_all && held.work.is_none() {
            held.errors = 0;
        }
        if !of_stage || !ended {
            return;
        }
        let failed = held.work.as_mut().and_then(|work| work.failed.take());
        match (failed, held.again.take()) {
            (Some(reason), again) => self.stage_failed(now, no, reason, again),
            (None, Some(why)) => self.look(now, no, why),
            (None, None) => self.next_stage(now, no),
        }
    }

    /// A removal failed after the intent had moved. It is retried.
    fn left_behind(&mut self, now: MonoTime, no: IntentNo, why: String) {
        let Some(held) = self.held.get_mut(&no) else { return };
        held.errors += 1;
        held.reason = Some(why.into());
        let due = now + held.pause();
        self.unsaved.insert(no);
        match held.work.is_some() {
            true => held.again = Some("something was left behind".into()),
            false => self.set_due(no, Some(due)),
        }
    }

    fn stage_failed(&mut self, now: MonoTime, no: IntentNo, reason: Box<str>, again: Option<Arc<str>>) {
        let Some(held) = self.held.get_mut(&no) else { return };
        held.errors += 1;
        held.reason = Some(reason.clone());
        if let Some(why) = again {
            // Another cause to look at the intent has come up, and decides.
            return self.look(now, no, why);
        }
        let due = now + held.pause();
        let Some(mut work) = held.work.take() else { return };
        work.goal = match work.goal {
            Goal::Nothing(_) => {
                // A device does not remove a rule.
                self.outcome(no, work.version, State::Corrupt);
                return self.set_due(no, Some(due));
            }
            Goal::Stand { before: Some(before) } if before.stand.stands(&self.topology) => {
                return self.go_back(now, no, before, work.began, work.why, reason);
            }
            goal @ (Goal::Stand { .. } | Goal::Return { .. }) => goal,
        };
        held.version += 1;
        let why = work.why.clone();
        held.work = Some(work);
        self.leave(now, no, State::Corrupt, Hope::Network, why);
        self.set_due(no, Some(due));
    }

    fn reached(&mut self, now: MonoTime, no: IntentNo) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let Some(work) = held.work.take() else { return };
        let Work { goal, version, began, why, .. } = *work;
        match goal {
            Goal::Stand { before } => {
                if held.open.is_empty() {
                    held.errors = 0;
                }
                held.reason = held.stand.as_ref().and_then(|stand| stand.missing_text());
                let moved = before.filter(|before| {
                    held.stand.as_ref().is_some_and(|stand| stand.number != before.stand.number)
                });
                if let Some(before) = &moved {
                    let before = before.stand.devices(&self.topology);
                    let history = &mut held.past().history;
                    history.reserve_exact(1);
                    history.push_back(Reroute { why: (*why).into(), took: now.since(began), before });
                    while history.len() > HISTORY_MAX {
                        history.pop_front();
                    }
                }
                self.stands(no, version, moved.map(|before| before.stand.number), None);
            }
            Goal::Return { failure, .. } => {
                held.reason = Some(format!("it could not be moved: {failure}").into());
                let retry = now + held.pause();
                self.stands(no, version, None, Some(retry));
            }
            Goal::Nothing(state) => {
                if let Some(stood) = held.stand.take() {
                    self.let_go(no, stood.number);
                }
                let Some(held) = self.held.get_mut(&no) else { return };
                if held.request == Request::Purge {
                    return self.forget(no);
                }
                if state == State::Withdrawn {
                    (held.reason, held.errors) = (None, 0);
                }
                let due = (state == State::Corrupt).then(|| now + held.pause());
                self.outcome(no, version, state);
                self.set_due(no, due);
            }
        }
        self.settle_shares(no);
        let again = self.held.get_mut(&no).and_then(|held| held.again.take());
        if let Some(why) = again {
            self.look(now, no, why);
        }
    }

    /// Marks the installed path as proven, and gives back the bandwidth of the paths that it replaced.
    fn stands(&mut self, no: IntentNo, version: u64, left: Option<u64>, retry: Option<MonoTime>) {
        let Some(held) = self.held.get_mut(&no) else { return };
        if let Some(stand) = &mut held.stand {
            stand.proven = true;
        }
        // The last request is not what is installed.
        let is_older = held.stand.as_ref().is_some_and(|stand| stand.of != held.intent);
        // No packets meet the remaining rules of other paths. Only a bridge whose agent is away
        // delays their removal.
        let leaving = held.past.iter().flat_map(|past| &past.leaving).copied();
        for number in leaving.chain(left) {
            let share = Share { key: held.key.clone(), number };
            self.given_back.extend(self.ledger.give_back_bandwidth(&share));
        }
        if let Some(number) = left {
            self.let_go(no, number);
        }
        self.outcome(no, version, if is_older { State::Corrupt } else { State::Installed });
        self.set_due(no, retry);
    }

    /// Devices with open writes of an intent, and the number of operations.
    pub fn waits_for(&self, no: IntentNo) -> BTreeMap<DeviceNo, usize> {
        let mut devices = BTreeMap::new();
        for open in self.held.get(&no).into_iter().flat_map(|held| held.open.values()) {
            *devices.entry(open.device).or_insert(0) += open.ops.len();
        }
        devices
    }
}
