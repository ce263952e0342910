//! The real database beside the tables in memory, for each tenth seed: what is committed to the one is committed to the
//! other, and what the one gives to a controller that starts, the other gives as well.
//!
//! Times are left out, or are whole seconds: the database counts what has waited by this machine's clock.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use muster_controller::store::{Sqlite, Store as _};
use muster_engine::Snapshot;
use muster_engine::record::{Change, ResourceRecord};
use tempfile::TempDir;

/// One seed in so many has it.
const EACH: u64 = 10;

/// The database.
pub struct Beside {
    store: Sqlite,
    _folder: TempDir,
}

impl Beside {
    /// For this seed, if it has one.
    pub fn of(seed: u64) -> Option<Self> {
        seed.is_multiple_of(EACH).then(|| {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            let store = Sqlite::open(&folder.path().join("muster.db"), &folder.path().join("key"));
            Self { store: store.expect("a new database"), _folder: folder }
        })
    }

    /// Writes a commit; why it cannot, if so.
    pub fn commit(&mut self, changes: &[Change]) -> Option<String> {
        let refused = self.store.commit(&mut changes.iter().cloned(), &[]).err()?;
        Some(format!("the database refuses a commit: {refused}"))
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

/// Each record, by what it is of.
fn told(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    let mut tell = |of: String, what: &dyn Debug| drop(told.insert(of, format!("{what:?}")));
    for (stack, source) in &snapshot.stacks {
        tell(format!("stack {}", stack.name), &(stack, source.is_some()));
    }
    snapshot.resources.iter().for_each(|row| tell(format!("row {}", row.id), &timeless(row)));
    snapshot.nodes.iter().for_each(|node| tell(format!("node {}", node.name), node));
    snapshot.tokens.iter().for_each(|token| tell(format!("token {:?}", token.token.id), token));
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
    }
    row
}
