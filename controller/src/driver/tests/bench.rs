//! A driver over a store on a disk that is full or broken when told to be, and a link that keeps what is said.

use muster_api::site::AuditRow;

use super::*;
use crate::store::{AuditQuery, Location, Reader};

/// The events, in order.
pub(super) type Log = Arc<Mutex<Vec<String>>>;

/// A real store on a disk that is full when told to be.
pub(super) struct Disk {
    pub(super) sqlite: Database,
    pub(super) broken: Arc<Mutex<Broken>>,
    pub(super) log: Log,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Broken {
    /// A commit fails with this code of SQLite.
    pub(super) writes: Option<i32>,
    /// Only the next one.
    pub(super) once: bool,
    pub(super) reads: bool,
}

/// In place of a code of SQLite, which decides each commit: the database cannot tell what became of it.
pub(super) const UNDECIDED: i32 = -1;
/// Another controller has taken the site over.
pub(super) const DEPOSED: i32 = -2;

pub(super) fn sqlite(code: i32) -> StoreError {
    if code == UNDECIDED {
        return StoreError::Postgres(PostgresError::Undecided { why: "the connection was lost".into() });
    }
    if code == DEPOSED {
        return StoreError::Postgres(PostgresError::Deposed { server: "db".into(), epoch: 1 });
    }
    let told = Some("disk is full".to_owned()).filter(|_| code == ffi::SQLITE_FULL);
    StoreError::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), told))
}

impl Store for Disk {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        let mut broken = self.broken.lock().unwrap();
        if let Some(code) = broken.writes {
            if broken.once {
                broken.writes = None;
            }
            if code != ffi::SQLITE_BUSY {
                drop(changes.next()); // fails in the middle
            }
            return Err(sqlite(code));
        }
        drop(broken);
        self.sqlite.commit(changes, seen)?;
        self.log.lock().unwrap().push("commit".into());
        Ok(())
    }

    fn may_write(&mut self) -> Result<(), StoreError> {
        let code = self.broken.lock().unwrap().writes.filter(|code| *code == DEPOSED);
        code.map_or(Ok(()), |code| Err(sqlite(code)))
    }

    fn load(&mut self) -> Result<muster_engine::Snapshot, StoreError> {
        if self.broken.lock().unwrap().reads { Err(sqlite(ffi::SQLITE_IOERR)) } else { self.sqlite.load() }
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        self.sqlite.next_epoch()
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError> {
        self.sqlite.record_start(epoch, bits)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.broken.lock().unwrap().writes.map_or_else(|| self.sqlite.probe(), |code| Err(sqlite(code)))
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        self.sqlite.source(stack, revision)
    }
}

pub(super) struct Wire {
    pub(super) log: Log,
    pub(super) sent: Arc<Mutex<Vec<Down>>>,
}

impl Outbox for Wire {
    fn send(&self, _: &NodeId, _: u64, messages: &[Down]) {
        self.log.lock().unwrap().push("send".into());
        self.sent.lock().unwrap().extend_from_slice(messages);
    }

    fn send_chunk(&self, grant: Grant) {
        self.log.lock().unwrap().push(format!("chunk for {}", grant.node));
    }

    fn close(&self, node: &NodeId) {
        self.log.lock().unwrap().push(format!("close {node}"));
    }
}

pub(super) struct Bench {
    pub(super) driver: Driver<Disk, Wire>,
    pub(super) broken: Arc<Mutex<Broken>>,
    pub(super) log: Log,
    pub(super) sent: Arc<Mutex<Vec<Down>>>,
    pub(super) connection: u64,
    pub(super) dir: tempfile::TempDir,
}

pub(super) fn name() -> StackName {
    "s".parse().unwrap()
}

pub(super) fn web() -> NodeId {
    "web-1".parse().unwrap()
}

pub(super) fn create(value: u32) -> Request {
    let template = format!(
        "heat_template_version: 2018-08-31\nresources:\n  a:\n    type: Muster::Dummy\n    \
         properties: {{node: web-1, values: {{x: \"{value}\"}}}}\n"
    );
    let text = SourceText { name: "t".into(), template, ..SourceText::default() };
    Request::Create { name: name(), source: Source::parse(text).unwrap(), options: Options::default() }
}

impl Bench {
    /// With one node, which is there.
    pub(super) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    pub(super) fn at(dir: tempfile::TempDir) -> Self {
        let (log, sent, broken) = (Log::default(), Arc::default(), Arc::default());
        let sqlite =
            Database::sqlite(&dir.path().join("muster.db"), &dir.path().join("secrets.key")).unwrap();
        let disk = Disk { sqlite, broken: Arc::clone(&broken), log: Arc::clone(&log) };
        let wire = Wire { log: Arc::clone(&log), sent: Arc::clone(&sent) };
        let config = |epoch| Config {
            epoch,
            epoch_bits: 1,
            starts: Starts::default(),
            seed: [7; 32],
            limits: Limits::default(),
        };
        let driver = Driver::new(disk, wire, config).unwrap();
        let mut bench = Self { driver, broken, log, sent, connection: 0, dir };
        bench.join(None, 1).unwrap();
        bench.connect();
        bench
    }

    pub(super) fn join(&mut self, bound: Option<String>, key: u8) -> Result<JoinGrant, String> {
        let secret = TokenSecret([1; 16]);
        let token = NewToken {
            id: [1; 8],
            secret_hash: secret.digest(),
            expires: u64::MAX / 4,
            uses: 1,
            name: bound,
            labels: BTreeMap::new(),
            rate: None,
        };
        self.turn(Request::NewToken { token, wall: 0 }).unwrap();
        let (reply, mut answer) = oneshot::channel();
        let ask = LinkJoinAsk {
            token_id: TokenId([1; 8]),
            secret,
            name: web(),
            seal_public: SealPublic([key; 32]),
            agent_version: "t".into(),
            moves: false,
        };
        self.driver.link_event(LinkEvent::Join { ask, reply });
        self.driver.turn_over();
        answer.try_recv().unwrap().map_err(|not| not.reason)
    }

    pub(super) fn connect(&mut self) {
        self.connection += 1;
        self.driver.link_event(LinkEvent::Connected { node: web(), connection: self.connection });
        let hello = Hello {
            boot_id: 1,
            instance: None,
            address: None,
            agent_version: "t".into(),
            reads: 0,
            epoch: Epoch(0).into(),
            ledger: 0,
        };
        self.receive(Up::Hello(hello));
        self.driver.turn_over();
        self.log.lock().unwrap().clear();
    }

    pub(super) fn receive(&mut self, message: Up) {
        let event = LinkEvent::Received { node: web(), connection: self.connection, messages: vec![message] };
        self.driver.link_event(event);
    }

    pub(super) fn ask(&mut self, request: Request) -> oneshot::Receiver<Result<Answer, Refusal>> {
        self.ask_of(Caller { actor: "anna".into(), from: "local".into(), shown: None, trace: None }, request)
    }

    fn ask_of(&mut self, caller: Caller, request: Request) -> oneshot::Receiver<Result<Answer, Refusal>> {
        let (reply, answer) = oneshot::channel();
        self.driver.ask(Ask::Request { request: Box::new(request), caller, reply, room: None });
        answer
    }

    pub(super) fn turn_of(&mut self, caller: Caller, request: Request) -> Result<Answer, Refusal> {
        let mut answer = self.ask_of(caller, request);
        self.driver.turn_over();
        answer.try_recv().unwrap()
    }

    pub(super) fn turn(&mut self, request: Request) -> Result<Answer, Refusal> {
        let mut answer = self.ask(request);
        self.driver.turn_over();
        answer.try_recv().unwrap()
    }

    /// The rows of the audit, as they are on the disk.
    pub(super) fn audit(&self) -> Vec<AuditRow> {
        let store = &self.driver.turns.store().sqlite;
        let reader =
            Reader::open(&Location::Sqlite(self.dir.path().join("muster.db")), &store.key()).unwrap();
        reader.audit(&AuditQuery { limit: 100, ..AuditQuery::default() }).unwrap()
    }

    pub(super) fn query(&mut self) -> oneshot::Receiver<bool> {
        let (reply, answer) = oneshot::channel();
        let look = move |it: &Look<'_>| reply.send(it.site.stack_view(&name()).is_some()).unwrap();
        self.driver.ask(Ask::Query(Box::new(look)));
        answer
    }

    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    pub(super) fn job(&self) -> muster_shared::model::Job {
        let sent = self.sent.lock().unwrap();
        let job = sent.iter().rev().find_map(|message| match message {
            Down::Job(job) => Some(job.clone()),
            _ => None,
        });
        job.unwrap()
    }

    pub(super) fn breaks(&mut self, writes: Option<i32>, reads: bool) {
        *self.broken.lock().unwrap() = Broken { writes, reads, once: false };
    }

    /// The agent answers the second greeting of its connection.
    pub(super) fn says_ledger(&mut self) {
        self.driver.turn_over();
        let sent = self.sent.lock().unwrap();
        let welcome = sent.iter().rposition(|message| matches!(message, Down::Welcome(it) if it.want_ledger));
        assert!(welcome.is_some(), "it is greeted once more");
        drop(sent);
        self.receive(Up::Ledger { entries: Vec::new(), last: true });
    }
}
