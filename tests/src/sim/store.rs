//! The controller's disk: tables in memory that change by whole commits, can be full, and end with the controller
//! at any of its effects. `commit` watches what the controller writes, at the very moment.

mod commit;
mod tables;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use muster_controller::store::{Failure, Store, StoreError};
use muster_engine::record::{Change, ProgressRecord};
use muster_engine::{Snapshot, SourceText};
use muster_intent::phase::State;
use muster_shared::model::{Action, ReportKey};
use muster_shared::{Attempt, Epoch, NodeId, StackName};

pub use self::tables::{Tables, brief};
use super::addresses::Held;
use super::network::state_is_right;
use super::real_database::{Beside, Refused};
use super::shared::Shared;
use super::standbys::Seat;
use super::{invariant, rollout};

/// The store that the driver has.
pub struct SimStore {
    pub shared: Rc<RefCell<Shared>>,
    /// The lease, as the controller has it; none: the site has one controller.
    pub seat: Option<Seat>,
}

impl SimStore {
    /// Checks that the database is reached, and that the controller has the lease.
    fn is_open(&self) -> Result<(), StoreError> {
        let shared = self.shared.borrow();
        self.seat.as_ref().map_or(Ok(()), |seat| shared.lease.is_open_to(seat, shared.now))
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> Result<T, StoreError> {
        let shared = self.shared.borrow();
        if shared.broken { Err(no("input/output error")) } else { Ok(read(&shared.tables)) }
    }
}

impl Store for SimStore {
    fn may_write(&mut self) -> Result<(), StoreError> {
        self.is_open()
    }

    fn commit(&mut self, changes: &mut dyn Iterator<Item = Change>, _: &[NodeId]) -> Result<(), StoreError> {
        let is_open = self.is_open();
        let mut shared = self.shared.borrow_mut();
        let busy = match is_open {
            Ok(()) => shared.held.then(|| sqlite(rusqlite::ffi::SQLITE_BUSY)),
            Err(error) if error.failure() == Failure::Busy => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(error) = busy {
            shared.counts.add("commit finds the database busy");
            let now = shared.now;
            // Signals of a replaced controller are not held up: they are never written.
            if self.seat.as_ref().is_none_or(|seat| shared.lease.is_of(seat)) {
                shared.signals.held(now);
            }
            return Err(error);
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
        if changes.is_empty() {
            // The turn had nodes that were seen, and nothing else. Later signals are decided later.
            shared.signals.held_since = None;
            return Ok(());
        }
        if !shared.step() {
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
        self.seat.iter().for_each(|seat| shared.stops_after_a_commit(seat));
        Ok(())
    }

    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.is_open()?;
        {
            // Jobs about to leave when the controller ended may be out for all that anybody knows.
            let shared = &mut *self.shared.borrow_mut();
            shared.loads += 1;
            // Changes that waited for the database are dropped, and decided again.
            shared.signals.held_since = None;
            let out = shared.tables.rows.values().filter(|row| row.progress.in_flight);
            for row in out {
                let ProgressRecord { generation, attempt, action, .. } = row.progress;
                shared.sent.insert((row.physical, generation));
                if action.is_some_and(|action| action.applies() && action != Action::Adopt) {
                    shared.made.insert(row.physical);
                }
                let key = ReportKey { resource: row.physical, generation, attempt: Attempt(attempt) };
                shared.tried.insert(key);
                shared.may_have.insert(key);
            }
            if shared.tables.stacks.values().any(|stack| stack.entering) {
                shared.counts.add("slices operation begins again");
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
        let now = self.shared.borrow().now;
        let snapshot = self.read(|tables| {
            let mut snapshot = tables.snapshot();
            for (stack, _) in &mut snapshot.stacks {
                let last = tables.last_event.get(&stack.id).copied().unwrap_or_default();
                stack.events = stack.events.max(last);
            }
            snapshot.resources.iter_mut().for_each(|row| tables.load(row, now));
            tables.age(&mut snapshot, now);
            snapshot
        })?;
        let shared = &mut *self.shared.borrow_mut();
        let differs = shared.beside.as_mut().and_then(|beside| beside.differs(&snapshot));
        differs.into_iter().for_each(|differs| shared.violate(differs));
        Ok(snapshot)
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        self.is_open()?;
        let mut shared = self.shared.borrow_mut();
        if shared.full || shared.broken {
            return Err(no("disk is full"));
        }
        shared.tables.epoch = self.seat.as_ref().map_or(shared.tables.epoch + 1, |seat| seat.term.epoch.0);
        Ok(Epoch(shared.tables.epoch))
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<muster_engine::Starts, StoreError> {
        let tables = &mut self.shared.borrow_mut().tables;
        tables.bits.insert(bits);
        tables.starts.add(epoch, bits);
        Ok(tables.starts.clone())
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.is_open()?;
        let mut shared = self.shared.borrow_mut();
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

impl Shared {
    /// The real database did not write a commit: nor do the tables.
    fn refused(&mut self, refused: Refused) -> Result<(), StoreError> {
        match refused {
            Refused::Expected(error) => {
                self.counts.add(format!("statement fails: {:?}", error.failure()));
                Err(error)
            }
            Refused::Wrong(what) => {
                self.violate(what.clone());
                Err(no(&what))
            }
        }
    }
}

fn no(what: &str) -> StoreError {
    StoreError::Format(what.to_owned())
}

fn sqlite(code: i32) -> StoreError {
    StoreError::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None))
}
