//! Checks of signals to wait conditions, as they are durable. A signal that was acknowledged is never lost. Enough
//! signals complete a condition, and nothing else does. A condition fails no earlier than its timeout.

use std::collections::{BTreeMap, BTreeSet};

use muster_engine::notes::Notes;
use muster_engine::record::{PackedSpec, ProgressRecord, ResourceRecord, StackAction, Status};
use muster_engine::{Answer, Request, Signal, StoredSignal};
use muster_shared::{MonoTime, ResourceId, StackName};
use muster_template::{Desired, Kind, VirtualResource, WaitCondition};
use serde_json::json;

use super::operator::stack_name;
use super::plan::HANDLE;
use super::shared::Shared;
use super::store::{Tables, brief};
use super::world::{Event, World};

/// The reference for signals and for the conditions that wait for them.
#[derive(Clone, Default)]
pub struct Signals {
    /// The acknowledged signals of each handle: a part of their data, by id.
    acknowledged: BTreeMap<ResourceId, BTreeMap<String, String>>,
    /// The handle to which a signal is being sent at this moment.
    sending: Option<ResourceId>,
    /// The wait of each condition, and when it began.
    since: BTreeMap<ResourceId, (PackedSpec, MonoTime)>,
    /// When a turn began to wait for a busy database: what that turn decided began then.
    pub held_since: Option<MonoTime>,
    /// Rows that changed in this commit.
    changed: BTreeSet<u64>,
    /// The changed rows as they were before the commit.
    was: BTreeMap<u64, ProgressRecord>,
    sent: u64,
}

fn kept(row: &ResourceRecord) -> BTreeMap<&str, &StoredSignal> {
    match &row.progress.notes {
        Some(Notes::Signals(signals)) => signals.iter().map(|(id, signal)| (&**id, signal)).collect(),
        _ => BTreeMap::new(),
    }
}

fn waits_for(row: &ResourceRecord) -> Option<WaitCondition> {
    match row.spec.as_ref().filter(|_| row.kind == Kind::WaitCondition)?.unpack() {
        Desired::Virtual(VirtualResource::Wait(wait)) => Some(wait),
        _ => None,
    }
}

impl Shared {
    /// A row changes in this commit.
    pub(super) fn signals_went(&mut self, was: Option<&ProgressRecord>, row: &ResourceRecord) {
        if matches!(row.kind, Kind::WaitCondition | Kind::WaitConditionHandle) {
            self.signals.changed.insert(row.id);
            if let Some(was) = was {
                self.signals.was.entry(row.id).or_insert_with(|| was.clone());
            }
        }
    }

    /// Checks the signals and conditions that changed in a commit, now that all of it is in the tables.
    pub(super) fn signals_are_right(&mut self) {
        let was = std::mem::take(&mut self.signals.was);
        for id in std::mem::take(&mut self.signals.changed) {
            let Some(row) = self.tables.rows.get(&id).cloned() else { continue };
            let wrong = match row.kind {
                Kind::WaitConditionHandle => self.signals.lost(&row),
                _ => self.wait_went(was.get(&id), &row),
            };
            wrong.into_iter().for_each(|wrong| self.violate(wrong));
        }
        self.signals.held_since = None;
    }

    fn wait_went(&mut self, was: Option<&ProgressRecord>, row: &ResourceRecord) -> Option<String> {
        let wait = waits_for(row)?;
        let is = &row.progress;
        let is_same = was.is_some_and(|was| was.status == is.status && was.reason == is.reason);
        let (now, held) = (self.now, self.signals.held_since);
        let since = &mut self.signals.since;
        let is_made = is.action.is_some_and(|action| action.applies());
        let (well, badly) = self.tables.came(&wait);
        let enough = well >= wait.count as usize;
        match is.status {
            Some(Status::InProgress) => {
                let spec = row.spec.clone()?;
                let is_other = since.get(&row.physical).is_none_or(|(of, _)| *of != spec);
                if is_other {
                    since.insert(row.physical, (spec, held.unwrap_or(now)));
                }
                None
            }
            _ if is_same || !is_made => None,
            Some(Status::Complete) => {
                since.remove(&row.physical);
                self.counts.add(if was.is_some() { "wait COMPLETE" } else { "wait COMPLETE at once" });
                let back =
                    self.tables.stacks.get(&row.stack).is_some_and(|it| it.action == StackAction::Rollback);
                // A row that failed without a change may stand as it was.
                let stood = was.is_some_and(|was| was.status == Some(Status::Failed));
                let is_right = enough && (badly == 0 || back || stood);
                (!is_right)
                    .then(|| format!("{} has {well} signals of SUCCESS, {badly} of FAILURE", brief(row)))
            }
            Some(Status::Failed) => {
                let began = since.remove(&row.physical).map(|(_, since)| since);
                let reason = is.reason.as_deref().unwrap_or_default();
                if !reason.starts_with("timed out after") || !reason.contains("signals received") {
                    self.counts.add(if badly > 0 { "wait fails" } else { "wait is broken off" });
                    return None;
                }
                self.counts.add("wait times out");
                if enough && badly == 0 {
                    return Some(format!("{} has {well} signals, and has timed out: {reason}", brief(row)));
                }
                // The store counts in seconds, from the start when the controller starts.
                let waited = now.since(began.unwrap_or_default()).as_secs() + 1 + self.starts;
                (waited < wait.timeout.into())
                    .then(|| format!("{} has waited {waited} s, and has timed out: {reason}", brief(row)))
            }
            _ => None,
        }
    }
}

impl Signals {
    /// The database is busy: a commit waits.
    pub fn held(&mut self, now: MonoTime) {
        self.held_since.get_or_insert(now);
    }

    /// Returns the number of signals that were sent.
    pub fn brought(&self) -> u64 {
        self.sent
    }

    /// Returns the copy with the number of signals that were sent since: no two signals bring the same.
    pub fn after(self, sent: u64) -> Self {
        Self { sent, ..self }
    }

    /// Returns the time when the wait of a condition began.
    pub fn waits_since(&self, row: &ResourceRecord) -> Option<MonoTime> {
        let (of, since) = self.since.get(&row.physical)?;
        (Some(of) == row.spec.as_ref()).then_some(*since)
    }

    /// Returns an acknowledged signal that the row has not kept.
    fn lost(&self, row: &ResourceRecord) -> Option<String> {
        if self.sending == Some(row.physical) {
            return None;
        }
        let kept = kept(row);
        let has = |id: &str, data: &str| kept.get(id).is_some_and(|signal| signal.data == *data);
        let lost = self.acknowledged.get(&row.physical)?.iter().find(|(id, data)| !has(id, data))?;
        Some(format!("the signal {lost:?} to {} is lost", brief(row)))
    }
}

impl Tables {
    /// Signals of SUCCESS and of FAILURE that somebody waits for.
    fn came(&self, wait: &WaitCondition) -> (usize, usize) {
        let handle = wait.handle.parse().ok().map(ResourceId);
        let row = handle.and_then(|id| self.physical.get(&id)).and_then(|id| self.rows.get(id));
        let all = row.map(kept).unwrap_or_default();
        let badly = all.values().filter(|signal| signal.failure).count();
        (all.len() - badly, badly)
    }

    fn handles(&self) -> impl Iterator<Item = &ResourceRecord> {
        let stands = |row: &&ResourceRecord| row.dropped.is_none() && !row.is_lost();
        self.rows.values().filter(|row| row.kind == Kind::WaitConditionHandle).filter(stands)
    }
}

impl World {
    /// Sends a signal to a handle at random.
    pub fn signaller_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.operators.signals.millis(100, 25_000);
        self.later(next, Event::Signaller);
        if !self.can_be_asked() {
            return;
        }
        let handles: Vec<(u64, String)> =
            self.shared.borrow().tables.handles().map(|row| (row.stack, row.name.to_string())).collect();
        let dice = &mut self.operators.signals;
        let id = dice.one_in(2).then(|| format!("{}", 1 + dice.below(4)));
        let failure = dice.one_in(8);
        let (stack, name) = match dice.below(12) {
            0 => (None, HANDLE.to_owned()),
            1 => (None, "a".to_owned()),
            _ if handles.is_empty() => return,
            _ => {
                let (stack, name) = dice.pick(&handles).clone();
                (Some(stack), name)
            }
        };
        let stack = match stack {
            Some(stack) => stack,
            None => {
                let name = stack_name(dice.index(self.options.stacks));
                self.shared.borrow().tables.names.get(&name).copied().unwrap_or_default()
            }
        };
        self.signals(stack, &name, id, failure);
    }

    fn signals(&mut self, stack: u64, name: &str, id: Option<String>, failure: bool) {
        let (data, handle) = {
            let shared = &mut *self.shared.borrow_mut();
            shared.signals.sent += 1;
            let is_it =
                |row: &&ResourceRecord| row.stack == stack && *row.name == *name && row.dropped.is_none();
            let handle = shared.tables.rows.values().find(is_it).map(|row| (row.id, row.physical));
            shared.signals.sending = handle.map(|(_, physical)| physical);
            (format!("brought by {}.", shared.signals.sent), handle)
        };
        let Some(stack) = self.shared.borrow().tables.stacks.get(&stack).map(|stack| stack.name.clone())
        else {
            return;
        };
        let signal = Signal { id, failure, reason: None, data: json!(data) };
        let request = Request::Signal { stack, resource: name.to_owned(), signal };
        let answer = self.tries("signal", request);
        let shared = &mut *self.shared.borrow_mut();
        shared.signals.sending = None;
        let Some((row, physical)) = handle else { return };
        let Some(row) = shared.tables.rows.get(&row) else { return };
        let kept = kept(row);
        let known = shared.signals.acknowledged.entry(physical).or_default();
        let is_kept = |id: &str, was: &str| {
            kept.get(id).is_some_and(|signal| signal.data == *was || signal.data == *data)
        };
        let lost = known.iter().find(|(id, was)| !is_kept(id, was));
        let lost = lost.map(|lost| format!("a signal to {} comes, and {lost:?} is lost", row.name));
        let wrong = match answer {
            Some(Ok(Answer::Signalled { id, again, signals })) => {
                let is_kept = kept.get(&*id).is_some_and(|signal| signal.data == *data);
                let was = known.insert(id.clone(), data.clone());
                let is_right = is_kept && was.is_some() == again && known.len() == signals;
                shared.counts.add(if again { "signal takes the place of another" } else { "signal is new" });
                if failure {
                    shared.counts.add("signal of failure");
                }
                (!is_right).then(|| {
                    format!(
                        "signal {id} ({again}, {signals}) to {} is acknowledged, and there is {kept:?}",
                        row.name
                    )
                })
            }
            Some(Ok(other)) => Some(format!("a signal is answered {other:?}")),
            Some(Err(_)) => None,
            // The signal came, or it did not.
            None => {
                let brought = |signal: &StoredSignal| signal.data.as_str().unwrap_or_default().to_owned();
                *known = kept.iter().map(|(id, signal)| ((*id).to_owned(), brought(signal))).collect();
                None
            }
        };
        lost.or(wrong).into_iter().for_each(|wrong| shared.violate(wrong));
    }

    /// Replaces each signal that reported a failure by a good one, so that a sound plan can be carried out.
    pub(super) fn signals_are_put_right(&mut self) {
        let failed: Vec<(u64, String, String)> = {
            let shared = self.shared.borrow();
            let all = shared.tables.handles().flat_map(|row| {
                let bad = kept(row).into_iter().filter(|(_, signal)| signal.failure);
                bad.map(|(id, _)| (row.stack, row.name.to_string(), id.to_owned()))
            });
            all.collect()
        };
        for (stack, name, id) in failed {
            self.signals(stack, &name, Some(id), false);
        }
    }

    /// A handle that is to go takes no signals, and comes back with those that it has where it is wanted again before it
    /// is gone.
    pub(super) fn failures_would_come_back(&self, stack: &StackName) -> bool {
        let shared = self.shared.borrow();
        let id = shared.tables.names.get(stack);
        let goes = |row: &&ResourceRecord| row.dropped.is_some() && Some(&row.stack) == id;
        let mut rows = shared.tables.rows.values().filter(goes);
        rows.any(|row| kept(row).values().any(|signal| signal.failure))
    }

    /// A waiting row gets a signal.
    pub(super) fn signals_who_waits(&mut self) {
        let waiting: Vec<(u64, String)> = {
            let shared = self.shared.borrow();
            let tables = &shared.tables;
            let rows = tables.rows.values().filter(|row| row.progress.status == Some(Status::InProgress));
            let handle = |row: &ResourceRecord| {
                let handle = ResourceId(waits_for(row)?.handle.parse().ok()?);
                let handle = tables.rows.get(tables.physical.get(&handle)?)?;
                Some((handle.stack, handle.name.to_string()))
            };
            rows.filter_map(handle).collect()
        };
        for (stack, name) in waiting {
            // One that is counted may take the place of another for ever.
            let id = format!("more {}", self.shared.borrow().signals.sent);
            self.signals(stack, &name, Some(id), false);
        }
    }
}
