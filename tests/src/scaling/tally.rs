//! Counts of what crosses the wire and reaches the disk.

use std::cell::RefCell;
use std::ops::{Div, Sub};
use std::path::Path;
use std::rc::Rc;

use bytes::BytesMut;
use muster_controller::driver::Outbox;
use muster_controller::link::Grant;
use muster_controller::store::{Database, Store, StoreError};
use muster_engine::record::Change;
use muster_engine::{Snapshot, SourceText, Starts};
use muster_shared::model::Down;
use muster_shared::{Epoch, NodeId, StackName};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{PubAck, Publish};
use serde::Serialize;

/// Counts since the site began, of all servers together; or of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Jobs that agents ran.
    pub jobs: u64,
    /// Packets of MQTT that agents sent, and their bytes.
    pub packets_up: u64,
    pub bytes_up: u64,
    /// Packets of MQTT that the controller sent, and their bytes.
    pub packets_down: u64,
    pub bytes_down: u64,
    /// Changes that the driver gave to the store.
    pub changes: u64,
    /// Rows that the database inserted, updated or deleted for them.
    pub rows: u64,
    /// Rows that the database has, without events, of which it keeps the newest.
    pub rows_kept: u64,
    pub commits: u64,
}

impl Tally {
    /// An agent publishes a packet of so many sealed bytes, and is sent its acknowledgement.
    pub fn up(&mut self, topic: &str, sealed: usize) {
        let (mut publish, mut acknowledgement) = (BytesMut::new(), BytesMut::new());
        Publish { pkid: 1, ..Publish::new(topic, QoS::AtLeastOnce, vec![0; sealed], None) }
            .write(&mut publish)
            .and(PubAck::new(1, None).write(&mut acknowledgement))
            .expect(BOUNDED);
        self.sent_up(publish.len() as u64);
        self.sent_down(acknowledgement.len() as u64);
    }

    /// The controller publishes a packet of so many sealed bytes, which MQTT does not acknowledge.
    pub fn down(&mut self, topic: &str, sealed: usize) {
        let mut publish = BytesMut::new();
        Publish::new(topic, QoS::AtMostOnce, vec![0; sealed], None).write(&mut publish).expect(BOUNDED);
        self.sent_down(publish.len() as u64);
    }

    fn sent_up(&mut self, bytes: u64) {
        (self.packets_up, self.bytes_up) = (self.packets_up + 1, self.bytes_up + bytes);
    }

    fn sent_down(&mut self, bytes: u64) {
        (self.packets_down, self.bytes_down) = (self.packets_down + 1, self.bytes_down + bytes);
    }

    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            jobs: each(self.jobs, other.jobs),
            packets_up: each(self.packets_up, other.packets_up),
            bytes_up: each(self.bytes_up, other.bytes_up),
            packets_down: each(self.packets_down, other.packets_down),
            bytes_down: each(self.bytes_down, other.bytes_down),
            changes: each(self.changes, other.changes),
            rows: each(self.rows, other.rows),
            rows_kept: each(self.rows_kept, other.rows_kept),
            commits: each(self.commits, other.commits),
        }
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }
}

/// The part of each of so many servers, rounded up.
impl Div<u64> for Tally {
    type Output = Self;

    fn div(self, servers: u64) -> Self {
        self.with(Self::default(), |count, _| count.div_ceil(servers))
    }
}

const BOUNDED: &str = "a packet of ours is within MQTT's bounds";

/// The counts that all parts of a site add to.
pub type Shared = Rc<RefCell<Tally>>;

/// A database that counts what is written to it. Its rows are counted by the database itself.
pub struct CountedStore {
    pub store: Database,
    pub tally: Shared,
}

impl Store for CountedStore {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        let mut tally = self.tally.borrow_mut();
        tally.commits += 1;
        tally.changes += seen.len() as u64;
        self.store.commit(&mut changes.inspect(|_| tally.changes += 1), seen)
    }

    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.store.load()
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        self.store.next_epoch()
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError> {
        self.store.record_start(epoch, bits)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.store.probe()
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        self.store.source(stack, revision)
    }
}

/// A second look at the database: it has a trigger for each way to write to each table.
pub struct Rows {
    db: rusqlite::Connection,
    tables: Vec<String>,
}

impl Rows {
    /// Begins to count.
    pub fn of(path: &Path) -> rusqlite::Result<Self> {
        let db = rusqlite::Connection::open(path)?;
        let named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let tables: Vec<String> =
            db.prepare(named)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        db.execute_batch("CREATE TABLE written (rows INTEGER); INSERT INTO written VALUES (0)")?;
        for table in &tables {
            for way in ["INSERT", "UPDATE", "DELETE"] {
                db.execute_batch(&format!(
                    "CREATE TRIGGER count_{table}_{way} AFTER {way} ON {table}
                         BEGIN UPDATE written SET rows = rows + 1; END"
                ))?;
            }
        }
        Ok(Self { db, tables })
    }

    /// Rows written so far.
    pub fn written(&self) -> rusqlite::Result<u64> {
        self.number("SELECT rows FROM written")
    }

    /// Rows in all tables but that of events.
    pub fn kept(&self) -> rusqlite::Result<u64> {
        let tables = self.tables.iter().filter(|table| *table != "events");
        tables.map(|table| self.number(&format!("SELECT count(*) FROM {table}"))).sum()
    }

    fn number(&self, sql: &str) -> rusqlite::Result<u64> {
        self.db.query_row(sql, [], |row| row.get(0)).map(i64::unsigned_abs)
    }
}

/// For a node, on its connection.
type Sent = (NodeId, u64, Vec<Down>);

/// Messages that the driver lets leave, in their order.
#[derive(Clone, Default)]
pub struct Leaving(pub Rc<RefCell<Vec<Sent>>>);

impl Outbox for Leaving {
    fn send(&self, node: &NodeId, connection: u64, messages: &[Down]) {
        self.0.borrow_mut().push((node.clone(), connection, messages.to_vec()));
    }

    fn send_chunk(&self, _: Grant) {
        unreachable!("a file as small as ours is in its job");
    }

    /// A node that joins has no connection yet.
    fn close(&self, _: &NodeId) {}
}
