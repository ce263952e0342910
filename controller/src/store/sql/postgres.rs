//! PostgreSQL: one connection that writes, each commit one pipeline, and a bound on every wait.
//!
//! ```text
//!   transaction:  BEGIN ─▶ answer        nothing is taken of the changes before that
//!                 statement, statement, …  sent at once, answers read when they come
//!                 row, row, …  collected (`many.rs`), and sent as a statement
//!                 meta.commit, COMMIT ─▶ all answers
//! ```
//!
//! One controller writes: it holds a session lock on the database for as long as its connection lives. When the
//! connection is lost, the next use connects again, first ends its own old session on the server, takes the
//! lock, and compares `meta.commit` with the commit made last: so a commit whose outcome is unknown is decided
//! before anything else is written, and another writer in between is noticed.
//!
//! `tokio-postgres` runs the connection on a thread of its own. The caller's thread waits for answers by itself
//! ([`wait`]), so the driver may call from within its runtime. See docs/decisions/0019-postgresql.md.
//!
//! If the site has a lease (`store/lease.rs`), each transaction begins with a look at it, in the same round trip.

mod convert;
mod error;
mod many;
mod new_connection;
mod server;
mod tls;
mod wait;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::{Row, Value};
use crate::lease::Term;
use crate::store::StoreError;
use convert::{Param, translated};
pub use error::PostgresError;
use many::{Many, Queue, Rows};
pub use server::Server;
use wait::{Connection, Deadline};

/// Writes that are not answered yet: more wait for the oldest. Bounds what both ends hold in memory.
const PENDING_MAX: usize = 512;
/// The bytes of such writes.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// The time to rewrite one table, at a start after a change of keys.
const REWRITE_MAX: Duration = Duration::from_secs(600);

/// The bounds of waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For a connection to one host, with its greeting.
    pub connect: Duration,
    /// For the answer to a statement. The server gives up by itself after the same time.
    pub answer: Duration,
    /// For another controller's lock: one that ended leaves its session behind for a moment.
    pub lock: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            lock: Duration::from_secs(5),
        }
    }
}

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Holds the site's lock, and writes: in a site with a lease, for as long as that is of this term.
    Writer(Option<Term>),
    /// Reads and writes the lease.
    Lease,
    /// Reads beside the writer.
    Reader,
}

fn is_deposed(error: &StoreError) -> bool {
    matches!(error, StoreError::Postgres(PostgresError::Deposed { .. }))
}

/// The way to a database, over as many connections as it takes, one at a time.
pub struct Link {
    server: Server,
    tls: tls::Tls,
    role: Role,
    patience: Patience,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    session: Option<Session>,
    /// A transaction is open: its connection is not replaced.
    in_transaction: bool,
    /// The serial of the last commit known to be durable.
    serial: u64,
    /// The serial was found once.
    is_known: bool,
    /// The serial of a commit whose outcome is unknown.
    doubt: Option<u64>,
    /// Sessions on the server, the last one being this: a former one may outlive its connection.
    backends: Vec<new_connection::Backend>,
    /// The change that is being written, for errors.
    change: Option<Arc<str>>,
}

/// A connection.
struct Session {
    client: Arc<Client>,
    connection: Connection,
    statements: HashMap<String, Statement>,
    /// Statements that collect rows, in their form for many.
    many: HashMap<String, Arc<Many>>,
    queue: Queue,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
}

/// A write that was sent.
struct Pending {
    answer: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    bytes: usize,
    changes: Changes,
}

/// The changes to which a write belongs, for errors.
enum Changes {
    One(Option<Arc<str>>),
    Many(Rows),
}

impl Changes {
    fn failed(&self, error: &Error) -> Option<String> {
        match self {
            Self::One(change) => change.as_deref().map(str::to_owned),
            Self::Many(rows) => rows.failed(error),
        }
    }
}

/// A prepared statement.
pub struct Prepared<'d> {
    link: &'d Link,
    statement: Statement,
    /// Rows are collected.
    many: Option<Arc<Many>>,
}

impl Link {
    /// Connects, and as a writer takes the site's lock.
    ///
    /// # Errors
    /// [`PostgresError`]
    pub(super) fn open(server: &Server, role: Role) -> Result<Self, StoreError> {
        let link = Self {
            server: server.clone(),
            tls: server.tls()?,
            role,
            patience: server.patience,
            state: RefCell::default(),
        };
        link.connect()?;
        Ok(link)
    }

    /// Names the change to which the next statements belong: an error will name it.
    pub fn name(&self, change: impl Into<Arc<str>>) {
        self.state.borrow_mut().change = Some(change.into());
    }

    pub fn prepare(&self, sql: &str) -> Result<Prepared<'_>, StoreError> {
        self.alive()?;
        if let Some(statement) = self.session(|session| session.statements.get(sql).cloned())? {
            return Ok(Prepared { link: self, statement, many: None });
        }
        // Answers come in order: those before the answer to this one are read first.
        self.settle()?;
        let (client, text) = (self.client()?, translated(sql));
        let statement = self.wait(client.prepare(&text))?;
        self.session(|session| session.statements.insert(sql.to_owned(), statement.clone()))?;
        Ok(Prepared { link: self, statement, many: None })
    }

    /// Prepares a statement whose rows are collected.
    pub fn prepare_many(&self, sql: &str) -> Result<Prepared<'_>, StoreError> {
        let prepared = self.prepare(sql)?;
        if let Some(many) = self.session(|session| session.many.get(sql).cloned())? {
            return Ok(Prepared { many: Some(many), ..prepared });
        }
        let many = Many::new(sql, prepared.statement.params()).map_err(|why| self.misfit(&*why))?;
        let many = Arc::new(many);
        self.session(|session| session.many.insert(sql.to_owned(), Arc::clone(&many)))?;
        Ok(Prepared { many: Some(many), ..prepared })
    }

    /// Statements without values, one after the other.
    pub fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.batch_within(sql, self.patience.answer)
    }

    /// The same with another bound than the usual one.
    pub fn batch_within(&self, sql: &str, bound: Duration) -> Result<(), StoreError> {
        self.alive()?;
        self.settle()?;
        let client = self.client()?;
        self.wait_within(client.batch_execute(sql), bound)
    }

    /// Rewrites every table without its former values.
    pub fn rewrite(&self) -> Result<(), StoreError> {
        let sql = "SELECT CAST(table_name AS TEXT) FROM information_schema.tables
            WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'";
        let mut tables = Vec::new();
        self.prepare(sql)?.each(&[], &mut |row| {
            tables.push(row.get::<String>(0)?);
            Ok(true)
        })?;
        for table in tables {
            self.batch_within(&format!("VACUUM (FULL) {table}"), REWRITE_MAX)?;
        }
        Ok(())
    }

    pub fn transaction<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        // BEGIN may have worked, and the look at the lease not: that transaction would refuse all later statements.
        self.begin().inspect_err(|_| self.roll_back())?;
        let done = work().and_then(|done| self.commit().map(|()| done));
        let mut state = self.state.borrow_mut();
        (state.in_transaction, state.change) = (false, None);
        drop(state);
        done.inspect_err(|_| self.roll_back())
    }

    /// The server's answer says that the connection works, and the lease is ours: only then a commit takes its
    /// changes.
    fn begin(&self) -> Result<(), StoreError> {
        self.alive()?;
        if let Err(error) = self.begin_now() {
            // The connection was lost without notice, and nothing was taken yet.
            if self.has_session() || is_deposed(&error) {
                return Err(error);
            }
            self.connect()?;
            self.begin_now()?;
        }
        self.state.borrow_mut().in_transaction = true;
        Ok(())
    }

    fn begin_now(&self) -> Result<(), StoreError> {
        let Role::Writer(Some(term)) = self.role else { return self.batch("BEGIN") };
        self.alive()?;
        self.settle()?;
        let client = self.client()?;
        let sql = format!("BEGIN; {}", new_connection::lease_of(term));
        let answers = self.wait(client.simple_query(&sql))?;
        if answers.iter().any(|answer| matches!(answer, SimpleQueryMessage::Row(_))) {
            return Ok(());
        }
        // The session goes, and with it the site's lock, which is another one's now.
        self.state.borrow_mut().session = None;
        Err(PostgresError::Deposed { server: self.server.to_string(), epoch: term.epoch.0 }.into())
    }

    /// Ends the session that holds the site's lock.
    pub fn end_holder(&self) -> Result<(), StoreError> {
        new_connection::end_holder(self)
    }

    fn commit(&self) -> Result<(), StoreError> {
        let serial = self.state.borrow().serial + 1;
        let mut note = self.prepare("UPDATE meta SET value = ?1 WHERE key = 'commit'")?;
        let serial_value = i64::try_from(serial).unwrap_or(i64::MAX);
        note.execute(&[Value::Integer(serial_value)])?;
        let client = self.client()?;
        // If a statement before it failed, the server makes a rollback of it.
        let name = self.changes();
        let sent = self.send(0, name, async move { client.batch_execute("COMMIT").await });
        let Err(error) = sent.and_then(|()| self.settle()) else {
            self.state.borrow_mut().serial = serial;
            return Ok(());
        };
        if self.has_session() {
            return Err(error); // the server said no
        }
        {
            let mut state = self.state.borrow_mut();
            (state.doubt, state.in_transaction) = (Some(serial), false);
        }
        match self.connect() {
            Ok(()) if self.state.borrow().serial == serial => Ok(()),
            Ok(()) => Err(error),
            Err(again) => {
                tracing::warn!(error = %again, "the database does not tell what became of the last commit");
                Err(PostgresError::Undecided { why: error.to_string() }.into())
            }
        }
    }

    /// Ends what the transaction began. If that fails, the connection goes, and the server ends it.
    fn roll_back(&self) {
        let is_closed = self.session(|session| {
            session.queue.take();
            session.pending.clear();
            session.pending_bytes = 0;
            session.client.is_closed()
        });
        if let Ok(false) = is_closed
            && let Err(error) = self.batch("ROLLBACK")
        {
            tracing::debug!(%error, "the transaction ends with its connection");
            self.state.borrow_mut().session = None;
        }
    }

    /// Makes sure that there is a connection.
    fn alive(&self) -> Result<(), StoreError> {
        let mut state = self.state.borrow_mut();
        let is_closed = state.session.as_ref().is_none_or(|session| session.client.is_closed());
        if !is_closed {
            return Ok(());
        }
        state.session = None;
        let in_transaction = state.in_transaction;
        drop(state);
        if in_transaction { Err(self.lost("its session ended").into()) } else { self.connect() }
    }

    /// Connects to the first host that takes writes (or reads), and finds out where the database is.
    fn connect(&self) -> Result<(), StoreError> {
        self.state.borrow_mut().session = None;
        let (client, connection) = wait::connect(&self.server, &self.tls, self.patience.connect)?;
        self.state.borrow_mut().session = Some(Session {
            client: Arc::new(client),
            connection,
            statements: HashMap::new(),
            many: HashMap::new(),
            queue: Queue::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
        });
        new_connection::settle(self).inspect_err(|_| self.state.borrow_mut().session = None)
    }

    fn has_session(&self) -> bool {
        self.state.borrow().session.is_some()
    }

    fn session<T>(&self, with: impl FnOnce(&mut Session) -> T) -> Result<T, StoreError> {
        match &mut self.state.borrow_mut().session {
            Some(session) => Ok(with(session)),
            None => Err(self.lost("its session ended").into()),
        }
    }

    fn client(&self) -> Result<Arc<Client>, StoreError> {
        self.session(|session| Arc::clone(&session.client))
    }

    /// Sends a write; its answer is read later. If many wait for theirs, the oldest ones are waited for.
    fn send(
        &self,
        bytes: usize,
        changes: Changes,
        answer: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) -> Result<(), StoreError> {
        let mut answer: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> = Box::pin(answer);
        let ready = wait::start(&mut answer);
        if let Some(answer) = ready {
            let Err(error) = answer else { return Ok(()) };
            // Of all that fail the first one says why: its answer has come as well, and may not be read yet.
            self.settle_to(0, 0)?;
            return Err(self.failed(&error, changes.failed(&error)));
        }
        let is_much = self.session(|session| {
            session.pending.push_back(Pending { answer, bytes, changes });
            session.pending_bytes += bytes;
            session.pending.len() > PENDING_MAX || session.pending_bytes > PENDING_BYTES_MAX
        })?;
        if is_much { self.settle_to(PENDING_MAX / 2, PENDING_BYTES_MAX / 2) } else { Ok(()) }
    }

    /// The change that is being written.
    fn changes(&self) -> Changes {
        Changes::One(self.state.borrow().change.clone())
    }

    /// Sends all writes, and reads the answers to them.
    fn settle(&self) -> Result<(), StoreError> {
        self.flush()?;
        self.settle_to(0, 0)
    }

    fn settle_to(&self, writes: usize, bytes: usize) -> Result<(), StoreError> {
        loop {
            let next = self.session(|session| {
                if session.pending.len() <= writes && session.pending_bytes <= bytes {
                    return None;
                }
                let next = session.pending.pop_front()?;
                session.pending_bytes -= next.bytes;
                Some(next)
            })?;
            let Some(Pending { answer, changes, .. }) = next else { return Ok(()) };
            match wait::until(answer, Deadline::after(self.patience.answer)) {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(self.failed(&error, changes.failed(&error))),
                None => return Err(self.hangs(self.patience.answer)),
            }
        }
    }

    fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        self.wait_within(answer, self.patience.answer)
    }

    fn wait_within<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
        bound: Duration,
    ) -> Result<T, StoreError> {
        match wait::until(answer, Deadline::after(bound)) {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(self.failed(&error, None)),
            None => Err(self.hangs(bound)),
        }
    }

    /// A connection that failed is given up.
    fn failed(&self, error: &Error, change: Option<String>) -> StoreError {
        let failed = StoreError::from(PostgresError::of(&self.server, error));
        if error.as_db_error().is_none() || error::is_fatal(error) {
            self.state.borrow_mut().session = None;
        }
        match change {
            Some(change) => StoreError::Change { change, source: Box::new(failed) },
            None => failed,
        }
    }

    fn hangs(&self, after: Duration) -> StoreError {
        self.state.borrow_mut().session = None;
        PostgresError::Hangs { server: self.server.to_string(), after }.into()
    }

    fn lost(&self, why: &str) -> PostgresError {
        PostgresError::Lost { server: self.server.to_string(), why: why.to_owned() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.close();
    }
}

impl Prepared<'_> {
    pub fn execute(&mut self, values: &[Value<'_>]) -> Result<(), StoreError> {
        if let Some(many) = &self.many {
            return self.link.add(many, &self.statement, values);
        }
        self.link.flush()?;
        let client = self.link.client()?;
        let statement = self.statement.clone();
        let params: Vec<Param> = values.iter().map(Param::new).collect();
        let bytes = params.iter().map(Param::size).sum();
        self.link.send(bytes, self.link.changes(), async move {
            client.execute_raw(&statement, params).await.map(drop)
        })
    }

    pub fn each(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let link = self.link;
        link.settle()?;
        let client = link.client()?;
        let params: Vec<Param> = values.iter().map(Param::new).collect();
        let mut rows = Box::pin(link.wait(client.query_raw(&self.statement, params))?);
        loop {
            match wait::until(rows.next(), Deadline::after(link.patience.answer)) {
                Some(None) => return Ok(()),
                Some(Some(Ok(row))) => {
                    if !each(&Row::Postgres(&row))? {
                        return Ok(());
                    }
                }
                Some(Some(Err(error))) => return Err(link.failed(&error, None)),
                None => return Err(link.hangs(link.patience.answer)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
