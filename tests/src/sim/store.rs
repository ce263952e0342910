//! The controller's disk: tables in memory that change by whole commits, can be full, and end with the controller
//! at any of its effects. What the controller writes and what it lets leave are watched here, at the very moment.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use muster_controller::driver::Outbox;
use muster_controller::link::Grant;
use muster_controller::store::{Store, StoreError};
use muster_engine::memory;
use muster_engine::record::{
    Change, EventRecord, PackedSpec, ProgressRecord, ResourceRecord, RolloutChange, StackAction, StackRecord,
    Status,
};
use muster_engine::{Limits, Snapshot, SourceText};
use muster_intent::manager::IntentRecord;
use muster_intent::phase::State;
use muster_intent::record::IntentChange;
use muster_shared::model::flow::DeviceName;
use muster_shared::model::{Action, Claim, Down, ReportKey};
use muster_shared::seal::SealPublic;
use muster_shared::{Attempt, Epoch, Generation, MonoTime, NodeId, ResourceId, StackName, wire};
use muster_template::Kind;

use super::addresses::{self, Held};
use super::beside::{Beside, Refused};
use super::clocks::Clocks;
use super::count::Counts;
use super::drift::Sent;
use super::fleet::Fleet;
use super::flow::Model;
use super::history::Rules;
use super::invariant::{self, SoFar};
use super::network::{Wishes, counted, state_is_right};
use super::plan::Plan;
use super::rollout::{self, Rollouts};
use super::signal::Signals;

/// What the database holds.
#[derive(Clone, Default)]
pub struct Tables {
    kept: memory::Tables,
    /// Name to id.
    pub names: BTreeMap<StackName, u64>,
    /// Physical id to row.
    pub physical: BTreeMap<ResourceId, u64>,
    last_event: BTreeMap<u64, u64>,
    /// Since when a row waits.
    waits_since: BTreeMap<u64, Duration>,
    /// The same, and when it was corrected last, by the time that the database counts by.
    began: BTreeMap<u64, [Option<i64>; 2]>,
    steady: Option<i64>,
    /// Of the newest start.
    pub epoch: u32,
    starts: muster_engine::Starts,
    /// The bits of all starts, as the simulator has them.
    pub bits: BTreeSet<u64>,
    /// Rows that own what they claim.
    pub claims: BTreeMap<(NodeId, Claim), BTreeSet<u64>>,
}

impl Deref for Tables {
    type Target = memory::Tables;
    fn deref(&self) -> &memory::Tables {
        &self.kept
    }
}

impl DerefMut for Tables {
    fn deref_mut(&mut self) -> &mut memory::Tables {
        &mut self.kept
    }
}

/// Something that left the controller.
pub enum Leaving {
    /// Messages to a node.
    Send { node: NodeId, connection: u64, messages: Vec<Down> },
    /// The node's connection is ended.
    Close(NodeId),
}

/// A job that must not be out.
pub struct Suspect {
    pub resource: ResourceId,
    /// Which of its jobs.
    pub generation: Generation,
    pub wrong: String,
    /// Unless this node is greeted after it, in the same turn.
    pub unless_greeted: Option<NodeId>,
}

/// What became durable and others have to know of.
pub enum Noted {
    /// An intent as it is now.
    Intent(Box<IntentRecord>),
    /// A stack changed.
    Stack { was: Option<Box<StackRecord>>, is: Box<StackRecord> },
    /// Operators are told of something.
    Event(EventRecord),
    /// A stack is gone.
    StackGone(StackRecord),
    /// A row is gone.
    RowGone(Box<ResourceRecord>),
    /// A deployment is COMPLETE.
    Deployed(Box<ResourceRecord>),
    /// A flow table is gone.
    TableGone(DeviceName),
    /// What an entry was, or was to be, is not known any more: a change of it was refused.
    VersionGone(DeviceName),
}

/// The controller's surroundings. It survives the controller.
#[derive(Default)]
pub struct Shared {
    pub tables: Tables,
    /// The same in the real database.
    pub beside: Option<Beside>,
    /// Of its machine.
    pub clocks: Clocks,
    /// How often the controller read it where clocks are set.
    pub starts: u64,
    /// The controller ends after so many effects.
    pub fuse: Option<u32>,
    /// It has ended: nothing it does counts any more.
    pub blown: bool,
    /// Nothing can be written.
    pub full: bool,
    /// Nor read.
    pub broken: bool,
    /// Another program holds it.
    pub held: bool,
    /// The next commit is wrong in itself.
    pub mistaken: bool,
    /// What left in this turn.
    pub leaving: Vec<Leaving>,
    /// What became durable in this turn.
    pub noted: Vec<Noted>,
    /// Changes committed so far.
    pub changes: u64,
    /// How often all of it was read.
    pub loads: u64,
    /// The first thing that must not be.
    pub violation: Option<String>,
    /// How often what happened.
    pub counts: Counts,
    /// What operators sent, by the name of the source.
    pub plans: BTreeMap<String, Rc<Plan>>,
    /// The key at the other end of each connection.
    pub keys: BTreeMap<u64, SealPublic>,
    /// Jobs that left at least once.
    pub sent: BTreeSet<(ResourceId, Generation)>,
    /// Their attempts.
    pub tried: BTreeSet<ReportKey>,
    /// Jobs that must not be out unless they are taken back in the same turn.
    pub suspects: Vec<Suspect>,
    /// What has happened in this turn.
    pub turn: SoFar,
    /// The traversal in which each job that may be out began.
    pub began: BTreeMap<(ResourceId, Generation), u64>,
    /// What operators asked of flow tables.
    pub flows: Model,
    /// What operators asked of intents.
    pub wishes: Wishes,
    /// What counts as done of each deployment.
    pub settled: BTreeMap<ResourceId, PackedSpec>,
    /// The present moment.
    pub now: MonoTime,
    /// Signals, and who waits for them.
    pub signals: Signals,
    /// What is for each node.
    pub fleet: Fleet,
    /// Changes that go through it in batches.
    pub rollouts: Rollouts,
    /// What was refused of the address plan in this commit.
    pub refused: Vec<ProgressRecord>,
    /// Corrections, and what is said of them.
    pub fights: Sent,
    /// Nodes that were in maintenance before this turn.
    pub maintained: BTreeSet<NodeId>,
    /// Attempts that a node may have.
    pub may_have: BTreeSet<ReportKey>,
    /// Flow rules that a store which went back does not know.
    pub rules_undecided: Rules,
    /// Tables that are to become what the store says.
    pub tables_freed: BTreeSet<DeviceName>,
    /// What the site is to keep to, where that is looked at.
    pub limits: Option<Limits>,
    /// Jobs that may be with one node at a time.
    pub in_flight_per_node: usize,
}

impl Shared {
    /// The next effect happens, unless the controller has ended by then.
    pub fn step(&mut self) -> bool {
        if let Some(left) = &mut self.fuse {
            if *left == 0 {
                self.blown = true;
            } else {
                *left -= 1;
            }
        }
        !self.blown
    }

    /// The real database did not write a commit: nor do the tables.
    fn refused(&mut self, refused: Refused) -> Result<(), StoreError> {
        match refused {
            Refused::Meant(error) => {
                self.counts.add(format!("statement fails: {:?}", error.failure()));
                Err(error)
            }
            Refused::Wrong(what) => {
                self.violate(what.clone());
                Err(no(&what))
            }
        }
    }

    /// Keeps the first one.
    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn apply(&mut self, change: Change, claims: &mut BTreeSet<(NodeId, Claim)>) {
        if let Some(leak) = invariant::leak(&change) {
            self.violate(leak);
        }
        let tables = &mut self.tables;
        match change {
            Change::Stack(stack) => {
                let other = tables.names.insert(stack.name.clone(), stack.id).filter(|id| *id != stack.id);
                let doubled = other.map(|_| format!("two stacks are called {}", stack.name));
                let was = tables.stacks.get(&stack.id).cloned();
                tables.apply(Change::Stack(stack.clone()));
                let from = was.as_ref().map_or("none".to_owned(), state);
                let to = state(&stack);
                if from != to {
                    self.counts.add(format!("stack {from} -> {to}"));
                }
                self.noted.push(Noted::Stack { was: was.map(Box::new), is: stack });
                doubled.into_iter().for_each(|doubled| self.violate(doubled));
            }
            Change::StackRemoved { id, name, traversal } => {
                tables.names.remove(&name);
                let left: Vec<&str> =
                    tables.rows.values().filter(|row| row.stack == id).map(|row| &*row.name).collect();
                let left = (!left.is_empty()).then(|| format!("stack {name} is gone but for {left:?}"));
                let stack = tables.stacks.get(&id).cloned();
                tables.apply(Change::StackRemoved { id, name, traversal });
                if let Some(stack) = stack {
                    self.counts.add(format!("stack {} -> gone", state(&stack)));
                    self.noted.push(Noted::StackGone(stack));
                }
                left.into_iter().for_each(|left| self.violate(left));
            }
            Change::Resource(row) => {
                let was = tables.rows.get(&row.id).map(row_state);
                let old = tables.rows.get(&row.id).cloned();
                if let Some(was) = old.as_ref().filter(|was| was.physical != row.physical) {
                    tables.physical.remove(&was.physical);
                }
                tables.physical.insert(row.physical, row.id);
                tables.disclaim(row.id, claims);
                tables.claim(&row, claims);
                let is = row_state(&row);
                if begins(&mut self.began, tables, &row) {
                    self.rollouts.fresh.push(row.id);
                }
                tables.apply(Change::Resource(row.clone()));
                self.turn.row_went(old.as_ref(), &row);
                let stack = tables.stacks.get(&row.stack);
                let counted = self.fleet.row_went(old.as_ref(), &row, stack, self.now);
                counted.into_iter().for_each(|what| self.counts.add(what));
                self.told(old.as_ref().map(|old| &old.progress), &row.progress);
                self.fight_went(old.as_ref().map(|old| &old.progress), &row);
                self.deployment_went(old.as_ref().map(|old| &old.progress), &row);
                self.signals_went(old.as_ref().map(|old| &old.progress), &row);
                self.tables.waits(&row, self.now);
                self.row_went(was, is);
            }
            Change::Progress(progress) => {
                if !tables.rows.contains_key(&progress.id) {
                    let what = format!("progress of row {}, which was never written", progress.id);
                    return self.violate(what);
                }
                tables.disclaim(progress.id, claims);
                let before = tables.rows[&progress.id].clone();
                let was = Some(row_state(&before));
                let row = ResourceRecord { progress: (*progress).clone(), ..before.clone() };
                tables.apply(Change::Progress(progress));
                let is = row_state(&row);
                self.turn.row_went(Some(&before), &row);
                let old = before.progress;
                tables.claim(&row, claims);
                if begins(&mut self.began, tables, &row) {
                    self.rollouts.fresh.push(row.id);
                }
                self.told(Some(&old), &row.progress);
                self.fight_went(Some(&old), &row);
                self.deployment_went(Some(&old), &row);
                self.signals_went(Some(&old), &row);
                self.tables.waits(&row, self.now);
                self.row_went(was, is);
            }
            Change::ResourceRemoved(id) => {
                tables.disclaim(id, claims);
                tables.waits_since.remove(&id);
                tables.began.remove(&id);
                let row = tables.rows.get(&id).cloned();
                tables.apply(Change::ResourceRemoved(id));
                if let Some(row) = row {
                    tables.physical.remove(&row.physical);
                    self.counts.add(format!("row {} -> gone", row_state(&row)));
                    self.noted.push(Noted::RowGone(Box::new(row)));
                }
            }
            Change::Node(node) => {
                self.fleet.node_went(tables.nodes.get(&node.name), &node, self.now);
                if node.revoked {
                    self.rules_undecided.retain(|device, _| device.node != node.name);
                }
                let was = tables.nodes.get(&node.name).cloned();
                tables.apply(Change::Node(node.clone()));
                self.maintenance_went(was.as_ref(), &node);
            }
            Change::NodeRemoved(name) => {
                self.rules_undecided.retain(|device, _| device.node != name);
                tables.apply(Change::NodeRemoved(name));
            }
            Change::Event(event) => {
                tables.last_event.insert(event.stack, event.number);
                self.turn.tells(&event, tables);
                let is_check = event.action == StackAction::Check.as_str();
                if event.resource.is_none() && event.status == Status::Complete.as_str() && !is_check {
                    self.fleet.completed.insert(event.stack);
                }
                self.fight_is_told(&event);
                for (words, what) in [
                    ("two agents with its identity", "two agents with one identity are found"),
                    ("has lost it again and again", "a thing is lost again and again"),
                ] {
                    if event.reason.contains(words) {
                        self.counts.add(format!("history {what}"));
                    }
                }
                if event.reason.starts_with("expanded:") {
                    self.counts.add("tree is laid out anew");
                }
                self.noted.push(Noted::Event(event));
            }
            Change::Flow(change) => self.apply_flows(change),
            Change::Intent(change) => {
                let no = match &change {
                    IntentChange::Intent(record, _) => Some(record.no),
                    IntentChange::Removed(no) => Some(*no),
                    IntentChange::Device { .. } | IntentChange::DeviceRemoved(_) => None,
                };
                let was = no.and_then(|no| tables.intents.intents.get(&no)).map(|(record, _)| record);
                counted(was, &change).into_iter().for_each(|what| self.counts.add(what));
                if let IntentChange::Intent(record, _) = &change {
                    self.noted.push(Noted::Intent(record.clone()));
                }
                tables.apply(Change::Intent(change));
            }
            Change::Counters(counters) => tables.epoch = tables.epoch.max(counters.epoch.0),
            Change::Rollout(change) => {
                let has_row = |row: &u64| tables.rows.get(row).is_some_and(|row| row.progress.observed_ready);
                if matches!(&change, RolloutChange::Over(row) if has_row(row)) {
                    self.counts.add("rollout ended");
                }
                tables.apply(Change::Rollout(change));
            }
            Change::Revision(_)
            | Change::RevisionsTrimmed { .. }
            | Change::Edges { .. }
            | Change::Token(_)
            | Change::TokenRemoved(_)
            | Change::Content { .. }
            | Change::ContentRemoved(_)
            | Change::Restored(_) => tables.apply(change),
        }
    }

    /// What is said of a row; a random text is drawn once.
    fn told(&mut self, was: Option<&ProgressRecord>, is: &ProgressRecord) {
        let Self { tables, plans, .. } = self;
        let is_set = tables.rows.get(&is.id).is_some_and(|row| rollout::is_set(tables, plans, row));
        let steps = was.filter(|_| is_set).and_then(|was| rollout::counted(was, is));
        if steps.is_some() {
            self.rollouts.aborted.push(is.id);
        }
        steps.into_iter().for_each(|what| self.counts.add(what));
        let text = |progress: &ProgressRecord| progress.attributes.get("value").cloned();
        let is_same = self.tables.rows.get(&is.id).is_none_or(|row| row.kind != Kind::RandomString)
            || was.and_then(text).is_none_or(|was| text(is) == Some(was));
        if !is_same {
            self.violate(format!("the random text of row {} is another now", is.id));
        }
        // What a row failed of as a port comes back with it when another thing's job in its place is taken back.
        let is_port = self.tables.rows.get(&is.id).is_some_and(|row| row.kind == Kind::Port);
        if was.is_none_or(|was| was.reason != is.reason)
            && let Some(what) = addresses::counted(is)
        {
            self.counts.add(what);
            self.refused.extend(is_port.then(|| is.clone()));
        }
    }

    /// Of a deployment that is COMPLETE nothing runs again as it was.
    fn deployment_went(&mut self, was: Option<&ProgressRecord>, row: &ResourceRecord) {
        let Some(spec) = row.spec.as_ref().filter(|_| row.kind == Kind::SoftwareDeployment) else { return };
        let progress = &row.progress;
        let stands = row.dropped.is_none() && !row.is_lost() && !progress.observed.differs();
        let is_made = progress.action.is_some_and(|action| action.applies() || action == Action::Check);
        match progress.status {
            Some(Status::Complete) if stands && is_made => {
                self.settled.insert(row.physical, spec.clone());
                if was.is_none_or(|was| was.status != progress.status) {
                    self.noted.push(Noted::Deployed(Box::new(row.clone())));
                }
            }
            Some(Status::InProgress) if stands && self.settled.get(&row.physical) == Some(spec) => {}
            _ => drop(self.settled.remove(&row.physical)),
        }
    }

    /// `before`: who had which address before this commit.
    fn plan_is_right(&mut self, before: &Held) {
        let now = Held::of(&self.tables);
        if now.handed_on() > before.handed_on() {
            self.counts.add("tree address goes to the one that replaces it");
        }
        let wrong = now.twice(&self.tables);
        let refused = std::mem::take(&mut self.refused);
        let wrongly = refused.iter().find_map(|it| addresses::refused_wrongly(it, [before, &now]));
        wrong.or(wrongly).into_iter().for_each(|wrong| self.violate(wrong));
    }

    fn row_went(&mut self, was: Option<String>, is: String) {
        let was = was.unwrap_or_else(|| "none".to_owned());
        if was != is {
            self.counts.add(format!("row {was} -> {is}"));
        }
    }
}

impl Tables {
    /// What is there although all stacks, rules and intents are gone.
    pub fn are_left(&self) -> Option<String> {
        let left = [
            ("names", self.names.len()),
            ("revisions", self.revisions.len()),
            ("physical ids", self.physical.len()),
            ("rows that wait", self.waits_since.len()),
        ];
        let (what, count) = left.into_iter().find(|(_, count)| *count > 0)?;
        Some(format!("{count} {what} are left in the tables"))
    }

    /// Since when it waits by the clock.
    fn waits(&mut self, row: &ResourceRecord, now: MonoTime) {
        match row.progress.waited {
            Some(waited) => drop(self.waits_since.insert(row.id, now.0.saturating_sub(waited))),
            None => drop(self.waits_since.remove(&row.id)),
        }
        if let Some(steady) = self.steady {
            let began =
                |ago: Duration| steady.saturating_sub(i64::try_from(ago.as_secs()).unwrap_or(i64::MAX));
            let corrected = row.progress.corrections.map(|corrections| corrections.ago);
            self.began.insert(row.id, [row.progress.waited.map(began), corrected.map(began)]);
        }
    }

    /// Makes a row what a start loads: how long it has waited is counted by the clock.
    fn load(&self, row: &mut ResourceRecord, now: MonoTime) {
        let since = self.waits_since.get(&row.id);
        row.progress.waited = row.progress.waited.and(since).map(|since| now.0.saturating_sub(*since));
        if let (Some(steady), Some([waits, corrected])) = (self.steady, self.began.get(&row.id)) {
            let ago =
                |began: &i64| Duration::from_secs(u64::try_from(steady.saturating_sub(*began)).unwrap_or(0));
            row.progress.waited = row.progress.waited.and(waits.as_ref().map(ago));
            if let (Some(corrections), Some(began)) = (&mut row.progress.corrections, corrected) {
                corrections.ago = ago(began);
            }
        }
    }

    fn disclaim(&mut self, id: u64, touched: &mut BTreeSet<(NodeId, Claim)>) {
        let Some(row) = self.rows.get(&id) else { return };
        for key in owned(row) {
            if let Some(owners) = self.claims.get_mut(&key) {
                owners.remove(&id);
                if owners.is_empty() {
                    self.claims.remove(&key);
                }
            }
            touched.insert(key);
        }
    }

    fn claim(&mut self, row: &ResourceRecord, touched: &mut BTreeSet<(NodeId, Claim)>) {
        for key in owned(row) {
            self.claims.entry(key.clone()).or_default().insert(row.id);
            touched.insert(key);
        }
    }
}

/// Remembers in which traversal a job began; whether it has just done so.
fn begins(
    began: &mut BTreeMap<(ResourceId, Generation), u64>,
    tables: &Tables,
    row: &ResourceRecord,
) -> bool {
    let Some(stack) = tables.stacks.get(&row.stack).filter(|_| row.progress.in_flight) else { return false };
    let before = began.len();
    began.entry((row.physical, row.progress.generation)).or_insert(stack.traversal);
    began.len() > before
}

/// A row in a line.
pub fn brief(row: &ResourceRecord) -> String {
    let progress = &row.progress;
    let dropped = if row.dropped.is_some() { " dropped" } else { "" };
    format!(
        "row {} {} on {:?}{dropped} {} {:?} applied {} sent {} handed over {} hook {:?}",
        row.id,
        row.name,
        row.node,
        muster_engine::record::action_str(progress.action),
        progress.status,
        progress.applied,
        progress.in_flight,
        row.handed_over,
        progress.hook
    )
}

/// What a row owns.
fn owned(row: &ResourceRecord) -> Vec<(NodeId, Claim)> {
    let (Some(node), Some(spec)) = (&row.node, &row.spec) else { return Vec::new() };
    // What never left owns nothing after a restart.
    if row.handed_over || row.is_lost() || row.external_id.is_some() || !row.progress.applied {
        return Vec::new();
    }
    spec.unpack().claims().into_iter().map(|claim| (node.clone(), claim)).collect()
}

fn state(stack: &StackRecord) -> String {
    format!("{} {}", stack.action.as_str(), stack.status.as_str())
}

fn row_state(row: &ResourceRecord) -> String {
    let action = muster_engine::record::action_str(row.progress.action);
    let status = row.progress.status.map_or("INIT", Status::as_str);
    let more = match (row.progress.in_flight, row.progress.retry_count > 0) {
        (true, _) => " sent",
        (false, true) if row.progress.status == Some(Status::InProgress) => " backoff",
        (false, _) => "",
    };
    format!("{action} {status}{more}")
}

/// The store that the driver has.
pub struct SimStore(pub Rc<RefCell<Shared>>);

fn no(what: &str) -> StoreError {
    StoreError::Format(what.to_owned())
}

fn sqlite(code: i32) -> StoreError {
    StoreError::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None))
}

impl SimStore {
    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> Result<T, StoreError> {
        let shared = self.0.borrow();
        if shared.broken { Err(no("input/output error")) } else { Ok(read(&shared.tables)) }
    }
}

impl Store for SimStore {
    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change>, _: &[NodeId]) -> Result<(), StoreError> {
        let mut shared = self.0.borrow_mut();
        if shared.held {
            shared.counts.add("commit finds the database busy");
            let now = shared.now;
            shared.signals.held(now);
            return Err(sqlite(rusqlite::ffi::SQLITE_BUSY));
        }
        let code = match (shared.full, shared.broken, std::mem::take(&mut shared.mistaken)) {
            (_, true, _) => Some(rusqlite::ffi::SQLITE_IOERR),
            (true, ..) => Some(rusqlite::ffi::SQLITE_FULL),
            (.., true) => Some(rusqlite::ffi::SQLITE_CONSTRAINT),
            (false, false, false) => None,
        };
        if let Some(code) = code {
            let _ = changes.take(2).count(); // it fails in the middle
            let error = sqlite(code);
            shared.counts.add(format!("commit fails: {:?}", error.failure()));
            return Err(error);
        }
        if let Some(refused) = shared.beside.as_mut().and_then(|beside| beside.held(changes)) {
            return shared.refused(refused);
        }
        let changes: Vec<Change> = changes.collect();
        if changes.is_empty() || !shared.step() {
            return Ok(());
        }
        if let Some(refused) = shared.beside.as_mut().and_then(|beside| beside.commit(&changes)) {
            return shared.refused(refused);
        }
        shared.tables.steady = shared.clocks.steady(shared.now);
        let mut claims = BTreeSet::new();
        let held = Held::of(&shared.tables);
        let flows = changes.iter().any(|change| matches!(change, Change::Flow(_)));
        let intents = changes.iter().any(|change| matches!(change, Change::Intent(_)));
        for change in changes {
            shared.changes += 1;
            shared.apply(change, &mut claims);
        }
        if let Some(doubled) = invariant::claimed_twice(&shared.tables, &claims) {
            shared.violate(doubled);
        }
        let it = &mut *shared;
        it.fleet.committed(&it.tables);
        let decided = it.signals.held_since.unwrap_or(it.now);
        it.rollouts.committed(&it.tables, &it.plans, &it.began, decided);
        rollout::begin(it);
        shared.plan_is_right(&held);
        shared.keeps_to_its_bounds();
        shared.fights_are_told();
        shared.signals_are_right();
        if flows {
            let shared = &mut *shared;
            let wrong = shared.flows.committed(&shared.tables.flows);
            wrong.into_iter().for_each(|wrong| shared.violate(wrong));
        }
        if flows || intents {
            let shared = &mut *shared;
            shared.wishes.version += 1;
            let tables = &shared.tables;
            let wrong = shared.wishes.committed(&tables.intents);
            let wrong = wrong.or_else(|| state_is_right(&tables.intents, &tables.flows));
            wrong.into_iter().for_each(|wrong| shared.violate(wrong));
        }
        shared.step();
        Ok(())
    }

    fn load(&mut self) -> Result<Snapshot, StoreError> {
        {
            // What was about to leave when the controller ended may be out for all that anybody knows.
            let shared = &mut *self.0.borrow_mut();
            shared.loads += 1;
            let out = shared.tables.rows.values().filter(|row| row.progress.in_flight);
            for row in out {
                let ProgressRecord { generation, attempt, .. } = row.progress;
                shared.sent.insert((row.physical, generation));
                let key = ReportKey { resource: row.physical, generation, attempt: Attempt(attempt) };
                shared.tried.insert(key);
                shared.may_have.insert(key);
            }
            shared.fights_are_loaded();
            shared.tables.steady = shared.clocks.steady(shared.now);
            shared.starts += u64::from(shared.clocks.is_on);
            let waiting = shared.tables.rows.values().filter(|row| row.progress.waited.is_some()).count();
            if waiting > 0 {
                shared.counts.add("wait goes on after a restart");
            }
            if !shared.tables.rollouts.rollouts.is_empty() {
                shared.counts.add("rollout goes on after a restart");
            }
            for (record, _) in shared.tables.intents.intents.values() {
                if record.state != State::Installed {
                    shared.counts.add(format!("intent after a restart {}", record.state.as_str()));
                }
            }
        }
        let now = self.0.borrow().now;
        let snapshot = self.read(|tables| {
            let mut snapshot = tables.snapshot();
            for (stack, _) in &mut snapshot.stacks {
                let last = tables.last_event.get(&stack.id).copied().unwrap_or_default();
                stack.events = stack.events.max(last);
            }
            snapshot.resources.iter_mut().for_each(|row| tables.load(row, now));
            snapshot
        })?;
        let shared = &mut *self.0.borrow_mut();
        let differs = shared.beside.as_mut().and_then(|beside| beside.differs(&snapshot));
        differs.into_iter().for_each(|differs| shared.violate(differs));
        Ok(snapshot)
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        let mut shared = self.0.borrow_mut();
        if shared.full || shared.broken {
            return Err(no("disk is full"));
        }
        shared.tables.epoch += 1;
        Ok(Epoch(shared.tables.epoch))
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<muster_engine::Starts, StoreError> {
        let tables = &mut self.0.borrow_mut().tables;
        tables.bits.insert(bits);
        tables.starts.add(epoch, bits);
        Ok(tables.starts.clone())
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let mut shared = self.0.borrow_mut();
        match (shared.full, shared.broken, shared.held) {
            (false, false, false) => {
                let refused = shared.beside.as_mut().and_then(Beside::probe);
                refused.into_iter().for_each(|refused| shared.violate(refused));
                Ok(())
            }
            (.., true) => Err(sqlite(rusqlite::ffi::SQLITE_BUSY)),
            _ => Err(sqlite(rusqlite::ffi::SQLITE_FULL)),
        }
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        self.read(|tables| tables.source(stack, revision).map(|text| (**text).clone()))
    }
}

/// The way to the nodes that the driver has.
pub struct SimOutbox(pub Rc<RefCell<Shared>>);

impl Outbox for SimOutbox {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        let mut shared = self.0.borrow_mut();
        for message in messages {
            if !shared.step() {
                return;
            }
            if let Some(wrong) = invariant::leaves(&mut shared, node, connection, message) {
                shared.violate(wrong);
            }
            match shared.leaving.last_mut() {
                Some(Leaving::Send { node: to, connection: over, messages })
                    if to == node && *over == connection =>
                {
                    messages.push(message.clone());
                }
                _ => {
                    let (node, messages) = (node.clone(), vec![message.clone()]);
                    shared.leaving.push(Leaving::Send { node, connection, messages });
                }
            }
        }
    }

    fn send_chunk(&self, grant: Grant) {
        let Grant { node, connection, digest, offset } = grant;
        let bytes = {
            let shared = self.0.borrow();
            // What cannot be read is not sent.
            let Some(content) = shared.tables.contents.get(&digest).filter(|_| !shared.broken) else {
                return;
            };
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            content[from..content.len().min(from + wire::CHUNK_MAX)].to_vec()
        };
        self.send(&node, connection, &[Down::Chunk { digest, offset, bytes }]);
    }

    fn close(&self, node: &NodeId) {
        let mut shared = self.0.borrow_mut();
        if shared.step() {
            shared.leaving.push(Leaving::Close(node.clone()));
        }
    }
}
