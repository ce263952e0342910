//! The real database beside the tables in memory, for each tenth seed a file of SQLite, and PostgreSQL where a run has that:
//! what is committed to the one is committed to the other, and what the one gives to a controller that starts, the other
//! gives as well.
//!
//! Independent changes of a commit are written in another order than the tables take them (`order.rs`). In SQLite, commits
//! fail at any of their rows (`inject.rs`): then nothing of them is there, and the driver gets the very error.
//!
//! Times are left out, or are whole seconds: the database counts what has waited by this machine's clock.

mod inject;
mod order;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use muster_controller::store::{Database, Location, Store as _, StoreError};
use muster_engine::Snapshot;
use muster_engine::record::{Change, ResourceRecord, RolloutRecord, StackRecord};
use tempfile::TempDir;

use inject::{Injector, Wrong};

use super::Options;
use super::dice::Dice;
use super::fault::Kind;
use super::world::World;

/// A seed in so many has it.
const EACH: u64 = 10;

/// Rows of a commit of which any may be the one that goes wrong: most commits have few, some have many.
const ROWS: [u64; 4] = [1, 3, 10, 100];

/// The database.
pub struct Beside {
    store: Database,
    injector: Option<Injector>,
    dice: Dice,
    _folder: TempDir,
}

/// The reason why a commit was not written.
pub enum Refused {
    /// The run wanted the error.
    Expected(StoreError),
    /// The change should have been written.
    Wrong(String),
}

impl Beside {
    /// Makes the real database for this run, if the run has one.
    pub fn of(options: &Options) -> Option<Self> {
        let Options { seed, postgres, .. } = *options;
        if postgres.is_none() && !seed.is_multiple_of(EACH) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("muster.db");
        let at = match postgres {
            None => Location::Sqlite(path.clone()),
            Some(url) => {
                let site = format!("seed-{seed}").parse().expect("a name of a site");
                url.parse::<Location>().expect("a URL of PostgreSQL").of_site(&site)
            }
        };
        let store = Database::open(&at, &folder.path().join("key")).expect("a new database");
        let injector = postgres.is_none().then(|| Injector::new(&path).expect("triggers of our own"));
        Some(Self { store, injector, dice: Dice::new(seed, "beside"), _folder: folder })
    }

    /// The next commit goes wrong, if it has enough rows. What it is, for reports.
    pub fn arm(&mut self) -> Option<String> {
        let injector = self.injector.as_mut()?;
        let (wrong, rows) = (Wrong::any(&mut self.dice), *self.dice.pick(&ROWS));
        let rows = 1 + self.dice.below(rows);
        injector.arm(wrong, rows).expect("nobody else holds the database");
        Some(format!("{wrong:?} at row {rows}"))
    }

    /// Nothing goes wrong any more.
    pub fn disarm(&mut self) {
        if let Some(injector) = &mut self.injector {
            injector.disarm().expect("nobody else holds the database");
        }
    }

    fn armed(&self) -> Option<Wrong> {
        self.injector.as_ref().and_then(Injector::armed)
    }

    /// Another program holds the database no longer.
    pub fn let_go(&mut self) {
        if self.armed() == Some(Wrong::Held) {
            self.disarm();
        }
    }

    /// If another program holds the database: what it says to a commit, of which it must take nothing.
    pub fn held(&mut self, changes: &mut dyn Iterator<Item = Change>) -> Option<Refused> {
        let wrong = self.armed().filter(|wrong| *wrong == Wrong::Held)?;
        let mut taken = 0;
        let written = self.store.commit(&mut changes.inspect(|_| taken += 1), &[]);
        self.disarm();
        let refused = refused(written.err(), Some(wrong));
        if taken > 0 {
            return Some(Refused::Wrong(format!("the database is busy, and has taken {taken} changes")));
        }
        Some(refused.unwrap_or_else(|| Refused::Wrong("the database wrote what another holds".to_owned())))
    }

    /// Writes a commit; why it is not written, if so.
    pub fn commit(&mut self, changes: &[Change]) -> Option<Refused> {
        let wrong = self.armed();
        let changes = order::shuffled(changes, &mut self.dice);
        let written = self.store.commit(&mut changes.into_iter(), &[]);
        self.disarm();
        refused(written.err(), wrong)
    }

    /// Whether it can be written; why not, where it should.
    pub fn probe(&mut self) -> Option<String> {
        self.disarm();
        let refused = self.store.probe().err()?;
        Some(format!("the database cannot be written, and nothing is wrong with it: {refused}"))
    }

    /// The first thing that it would not give as the tables do.
    pub fn differs(&mut self, tables: &Snapshot) -> Option<String> {
        let loaded = match self.store.load() {
            Ok(loaded) => told(&loaded),
            Err(error) => return Some(format!("the database cannot be loaded: {error}")),
        };
        let tables = told(tables);
        let key = loaded.keys().chain(tables.keys()).find(|key| loaded.get(*key) != tables.get(*key))?;
        let [database, tables] =
            [&loaded, &tables].map(|side| side.get(key).map_or("nothing", String::as_str));
        Some(format!("of {key} the database has {database}, the tables have {tables}"))
    }
}

fn refused(error: Option<StoreError>, wrong: Option<Wrong>) -> Option<Refused> {
    let error = error?;
    Some(match wrong {
        Some(wrong) if error.failure() == wrong.failure() => Refused::Expected(error),
        Some(wrong) => Refused::Wrong(format!("{wrong:?} is taken for {:?}: {error}", error.failure())),
        None => Refused::Wrong(format!("the database refuses a commit: {error}")),
    })
}

impl World {
    /// The next commit may go wrong at one of its rows.
    pub fn statement_fails(&mut self) {
        let mut shared = self.shared.borrow_mut();
        let Some(beside) = &mut shared.beside else { return };
        if self.faults.strikes(self.now, Kind::StatementFails, "the controller") {
            let Some(what) = beside.arm() else { return };
            drop(shared);
            self.note(|_| format!("FAULT {} {what}", Kind::StatementFails.name()));
        }
    }
}

/// Returns the text of each record, by what the record is about.
fn told(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    let mut tell = |of: String, what: &dyn Debug| drop(told.insert(of, format!("{what:?}")));
    for (stack, source) in &snapshot.stacks {
        let stack = StackRecord { ran: stack.ran.map(|_| Duration::ZERO), ..stack.clone() };
        tell(format!("stack {}", stack.name), &(&stack, source.is_some()));
    }
    snapshot.resources.iter().for_each(|row| tell(format!("row {}", row.id), &timeless(row)));
    snapshot.nodes.iter().for_each(|node| tell(format!("node {}", node.name), node));
    snapshot.tokens.iter().for_each(|token| tell(format!("token {:?}", token.token.id), token));
    snapshot.users.iter().for_each(|user| tell(format!("user {}", user.name), user));
    snapshot.contents.iter().for_each(|digest| tell(format!("content {digest:?}"), &()));
    let (mut edges, flows, intents) = (snapshot.edges.clone(), &snapshot.flows, &snapshot.intents);
    edges.sort_unstable();
    tell("the graph".into(), &edges);
    tell("the policies".into(), &snapshot.policies);
    tell("the highest ids".into(), &(snapshot.highest, flows.highest, intents.highest));
    flows.devices.iter().for_each(|(no, device)| tell(format!("flow table {no}"), device));
    flows.entries.iter().for_each(|(id, entry)| tell(format!("flow entry {id:?}"), entry));
    flows.operations.iter().for_each(|(id, operation)| tell(format!("flow operation {id}"), operation));
    flows.parts.iter().for_each(|(id, part)| tell(format!("part of a flow operation {id:?}"), part));
    for (row, (record, members)) in &snapshot.rollouts.rollouts {
        let record = RolloutRecord { rested: record.rested.map(|_| Duration::ZERO), ..record.clone() };
        tell(format!("rollout of row {row}"), &(record, members));
    }
    snapshot
        .rollouts
        .proven
        .iter()
        .for_each(|(row, proven)| tell(format!("proven set of row {row}"), proven));
    tell("forgotten tables".into(), &flows.forgotten);
    intents.intents.iter().for_each(|(no, intent)| tell(format!("intent {no:?}"), intent));
    intents.devices.iter().for_each(|(name, device)| tell(format!("bridge {name:?}"), device));
    told
}

fn timeless(row: &ResourceRecord) -> ResourceRecord {
    let mut row = row.clone();
    row.progress.waited = row.progress.waited.map(|_| Duration::ZERO);
    if let Some(corrections) = &mut row.progress.corrections {
        corrections.ago = Duration::ZERO;
        corrections.lasted = Duration::from_secs(corrections.lasted.as_secs());
        if let Some(again) = &mut corrections.made_again {
            again.ago = Duration::ZERO;
            again.lasted = Duration::from_secs(again.lasted.as_secs());
        }
    }
    row
}
