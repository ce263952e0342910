//! The order of commit and everything else, with a store that fails when told to.

mod blocked;

use std::sync::{Arc, Mutex};

use muster_engine::record::Change;
use muster_engine::{EnvironmentText, Hook, Limits, NewToken, Options, Source, SourceText, Starts};
use muster_shared::Epoch;
use muster_shared::join::{TokenId, TokenSecret};
use muster_shared::model::{Hello, Observed, Outcome, Report, Up};
use muster_shared::seal::SealPublic;
use rusqlite::ffi;

use super::*;
use crate::link::JoinAsk as LinkJoinAsk;
use crate::store::{Database, PostgresError};

/// The events, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// A real store on a disk that is full when told to be.
struct Disk {
    sqlite: Database,
    broken: Arc<Mutex<Broken>>,
    log: Log,
}

#[derive(Clone, Copy, Default)]
struct Broken {
    /// A commit fails with this code of SQLite.
    writes: Option<i32>,
    /// Only the next one.
    once: bool,
    reads: bool,
}

/// In place of a code of SQLite, which decides each commit: the database cannot tell what became of it.
const UNDECIDED: i32 = -1;
/// Another controller has taken the site over.
const DEPOSED: i32 = -2;

fn sqlite(code: i32) -> StoreError {
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

struct Wire {
    log: Log,
    sent: Arc<Mutex<Vec<Down>>>,
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

struct Bench {
    driver: Driver<Disk, Wire>,
    broken: Arc<Mutex<Broken>>,
    log: Log,
    sent: Arc<Mutex<Vec<Down>>>,
    connection: u64,
    dir: tempfile::TempDir,
}

fn name() -> StackName {
    "s".parse().unwrap()
}

fn web() -> NodeId {
    "web-1".parse().unwrap()
}

fn create(value: u32) -> Request {
    let template = format!(
        "heat_template_version: 2018-08-31\nresources:\n  a:\n    type: Muster::Dummy\n    \
         properties: {{node: web-1, values: {{x: \"{value}\"}}}}\n"
    );
    let text = SourceText { name: "t".into(), template, ..SourceText::default() };
    Request::Create { name: name(), source: Source::parse(text).unwrap(), options: Options::default() }
}

impl Bench {
    /// With one node, which is there.
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
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

    fn join(&mut self, bound: Option<String>, key: u8) -> Result<JoinGrant, String> {
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

    fn connect(&mut self) {
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

    fn receive(&mut self, message: Up) {
        let event = LinkEvent::Received { node: web(), connection: self.connection, messages: vec![message] };
        self.driver.link_event(event);
    }

    fn ask(&mut self, request: Request) -> oneshot::Receiver<Result<Answer, Refusal>> {
        let (reply, answer) = oneshot::channel();
        self.driver.ask(Ask::Request(Box::new(request), reply, None));
        answer
    }

    fn turn(&mut self, request: Request) -> Result<Answer, Refusal> {
        let mut answer = self.ask(request);
        self.driver.turn_over();
        answer.try_recv().unwrap()
    }

    fn query(&mut self) -> oneshot::Receiver<bool> {
        let (reply, answer) = oneshot::channel();
        let look = move |it: &Look<'_>| reply.send(it.site.stack_view(&name()).is_some()).unwrap();
        self.driver.ask(Ask::Query(Box::new(look)));
        answer
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn job(&self) -> muster_shared::model::Job {
        let sent = self.sent.lock().unwrap();
        let job = sent.iter().rev().find_map(|message| match message {
            Down::Job(job) => Some(job.clone()),
            _ => None,
        });
        job.unwrap()
    }

    fn breaks(&mut self, writes: Option<i32>, reads: bool) {
        *self.broken.lock().unwrap() = Broken { writes, reads, once: false };
    }

    /// The agent answers the second greeting of its connection.
    fn says_ledger(&mut self) {
        self.driver.turn_over();
        let sent = self.sent.lock().unwrap();
        let welcome = sent.iter().rposition(|message| matches!(message, Down::Welcome(it) if it.want_ledger));
        assert!(welcome.is_some(), "it is greeted once more");
        drop(sent);
        self.receive(Up::Ledger { entries: Vec::new(), last: true });
    }
}

#[test]
fn nothing_leaves_before_the_one_commit_of_its_turn() {
    let mut bench = Bench::new();
    let mut answer = bench.ask(create(1));
    let mut seen = bench.query();
    assert!(answer.try_recv().is_err() && seen.try_recv().is_err() && bench.log().is_empty());
    bench.driver.turn_over();
    assert_eq!(bench.log(), ["commit", "send"]);
    assert!(answer.try_recv().unwrap().is_ok() && seen.try_recv().unwrap());
    let key = bench.job().key();
    bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    assert!(bench.log().is_empty());
    bench.driver.turn_over();
    assert_eq!(bench.log(), ["commit", "send"]);
    assert_eq!(bench.sent.lock().unwrap().last(), Some(&Down::Acknowledge(key)));
}

/// The store knows each name once.
#[test]
fn a_stack_may_be_made_in_the_turn_in_which_its_name_goes() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let done = |bench: &mut Bench| {
        let key = bench.job().key();
        bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    };
    done(&mut bench);
    bench.driver.turn_over();
    bench.turn(Request::Delete { name: name() }).unwrap();
    done(&mut bench);
    let mut answer = bench.ask(create(2));
    bench.driver.turn_over();
    answer.try_recv().unwrap().unwrap();
    assert_eq!(bench.driver.turns.read_only(), None);
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!((view.action.as_str(), view.revision), ("CREATE", 1), "the new one is kept");
}

#[test]
fn a_full_disk_forgets_what_is_not_durable_says_so_and_recovers() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_FULL), false);
    let mut answer = bench.ask(create(1));
    let mut seen = bench.query();
    bench.driver.turn_over();
    let refused = answer.try_recv().unwrap();
    assert!(
        matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("disk is full")),
        "{refused:?}"
    );
    assert!(!seen.try_recv().unwrap(), "what nobody was promised is not shown");
    assert!(bench.log().is_empty(), "nobody is sent away");
    assert!(matches!(bench.turn(create(1)), Err(Refusal::Unavailable(_))));
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some_and(|why| why.contains("disk is full")));
    assert_eq!(bench.driver.turns.view().node_views()[0].state, "online");
    assert_eq!(bench.driver.turns.view().site_view().agents.online, 1);
    bench.breaks(None, false);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_none());
    bench.says_ledger();
    bench.log();
    bench.turn(create(1)).unwrap();
    assert_eq!(bench.log(), ["commit", "send"]);
}

#[test]
fn a_report_that_could_not_be_written_is_not_acknowledged_and_counts_when_it_comes_again() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    let done = || Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) });
    bench.breaks(Some(ffi::SQLITE_FULL), false);
    bench.receive(done());
    bench.driver.turn_over();
    let acknowledged = |bench: &Bench| bench.sent.lock().unwrap().contains(&Down::Acknowledge(key));
    assert!(!acknowledged(&bench));
    bench.breaks(None, false);
    bench.sent.lock().unwrap().clear();
    bench.driver.wake();
    bench.receive(done());
    bench.says_ledger();
    assert_eq!(bench.job().key(), key, "the same job is asked about");
    assert!(!acknowledged(&bench), "what was said before belongs to the conversation that is over");
    bench.receive(done());
    bench.driver.turn_over();
    assert!(acknowledged(&bench));
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!((view.action.as_str(), view.status.as_str()), ("CREATE", "COMPLETE"));
}

#[test]
fn a_busy_database_is_waited_for_and_nothing_is_asked_twice() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_BUSY), false);
    let mut answer = bench.ask(create(1));
    bench.driver.turn_over();
    assert!(bench.driver.turns.is_busy() && bench.driver.turns.read_only().is_none());
    assert!(answer.try_recv().is_err(), "it waits");
    bench.breaks(None, false);
    let due = bench.driver.turns.poll_timeout().unwrap();
    let told = bench.driver.turns.turn_over(due);
    assert!(matches!(told.answers[..], [(_, Ok(_))]), "{:?}", told.answers);
    assert_eq!(bench.log(), ["commit", "send"]);
    assert!(!bench.driver.turns.is_busy());
}

#[test]
fn a_database_that_stays_busy_is_said() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_BUSY), false);
    bench.ask(create(1));
    bench.driver.turn_over();
    let mut due = bench.driver.turns.poll_timeout().unwrap();
    let told = loop {
        let told = bench.driver.turns.turn_over(due);
        if !bench.driver.turns.is_busy() {
            break told;
        }
        due = bench.driver.turns.poll_timeout().unwrap();
        assert!(due < MonoTime(Duration::from_secs(120)), "it is waited for without an end");
    };
    let refused = &told.answers[0].1;
    assert!(
        matches!(refused, Err(Refusal::Later { why, .. }) if why.contains("another program")),
        "{refused:?}"
    );
    assert!(bench.driver.turns.read_only().is_some());
    assert!(matches!(bench.turn(create(1)), Err(Refusal::Later { .. })));
}

#[test]
fn a_commit_that_may_have_been_made_is_not_called_refused() {
    let mut bench = Bench::new();
    bench.breaks(Some(UNDECIDED), false);
    let refused = bench.turn(create(1));
    assert!(
        matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("may have been done, or not")),
        "{refused:?}"
    );
    let refused = bench.turn(create(1));
    assert!(matches!(&refused, Err(Refusal::Later { .. })), "nothing of it was sent: {refused:?}");
}

#[test]
fn a_controller_that_was_replaced_does_not_say_that_there_is_nothing_to_do() {
    let nothing = || Request::Maintenance { node: web(), on: false };
    let mut bench = Bench::new();
    bench.turn(nothing()).unwrap();
    assert_eq!(bench.log(), [""; 0], "it changes nothing");
    bench.breaks(Some(DEPOSED), false);
    let refused = bench.turn(nothing());
    assert!(refused.is_err(), "{refused:?}");
    assert!(bench.driver.turns.read_only().is_some());
}

#[test]
fn a_mistake_is_said_as_such_and_the_engine_goes_on_at_once() {
    let mut bench = Bench::new();
    let writes = Some(ffi::SQLITE_CONSTRAINT_UNIQUE);
    *bench.broken.lock().unwrap() = Broken { writes, once: true, reads: false };
    let refused = bench.turn(create(1));
    assert!(matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("mistake")), "{refused:?}");
    assert!(bench.driver.turns.read_only().is_none());
    bench.says_ledger();
    assert!(!bench.log().contains(&"close web-1".to_owned()));
    bench.turn(create(1)).unwrap();
}

#[test]
fn the_same_mistake_over_and_over_is_paused() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_CONSTRAINT_UNIQUE), false);
    let mut pauses = Vec::new();
    let mut now = bench.driver.now();
    bench.driver.turns.connected(now, web(), 8);
    bench.driver.turns.turn_over(now);
    assert!(bench.driver.turns.read_only().is_none(), "the first is forgiven");
    assert_eq!(bench.driver.turns.poll_timeout(), Some(MonoTime::default()), "it goes on at once");
    for _ in 0..4 {
        // Whatever the engine has to write is wrong.
        bench.driver.turns.connected(now, web(), 9);
        bench.driver.turns.turn_over(now);
        assert!(bench.driver.turns.read_only().is_some());
        let due = bench.driver.turns.poll_timeout().unwrap();
        pauses.push(due.since(now).as_secs());
        now = due;
        bench.breaks(None, false);
        bench.driver.turns.wake(now);
        assert!(bench.driver.turns.read_only().is_none(), "a probe says that the disk is well");
        bench.breaks(Some(ffi::SQLITE_CONSTRAINT_UNIQUE), false);
    }
    assert!(pauses.windows(2).all(|pair| pair[0] < pair[1]), "{pauses:?}");
}

#[test]
fn an_engine_that_could_not_be_built_again_never_writes() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_FULL), true);
    let mut answer = bench.ask(create(1));
    bench.driver.turn_over();
    assert!(answer.try_recv().unwrap().is_err());
    bench.breaks(None, true);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some(), "it cannot be read yet");
    bench.driver.turn_over();
    assert!(!bench.log().contains(&"commit".to_owned()), "what nobody was promised is not written either");
    bench.breaks(None, false);
    bench.driver.wake();
    let mut seen = bench.query();
    bench.driver.turn_over();
    assert!(!seen.try_recv().unwrap());
    bench.says_ledger();
    bench.turn(create(2)).unwrap();
}

#[test]
fn who_joins_under_a_name_ends_the_connection_of_who_had_it() {
    let mut bench = Bench::new();
    let refused = bench.join(None, 2).unwrap_err();
    assert!(refused.contains("--name web-1"), "{refused}");
    assert!(!bench.log().contains(&"close web-1".to_owned()));
    bench.join(Some("web-1".into()), 2).unwrap();
    assert_eq!(bench.log().last().unwrap(), "close web-1");
    assert_eq!(bench.driver.turns.view().node_seal(&web()).unwrap().0, [2; 32]);
}

#[test]
fn what_environments_say_of_resources_is_known_after_a_restart() {
    let mut bench = Bench::new();
    let Request::Create { name: stack, source, options } = create(1) else { panic!("a create") };
    let text = "resource_registry: {resources: {a: {hooks: [pre-create, pre-delete]}}}".to_owned();
    let environments = vec![EnvironmentText { name: "e".into(), key: None, text }];
    let source = Source::parse(SourceText { environments, ..(*source.text).clone() }).unwrap();
    bench.turn(Request::Create { name: stack.clone(), source, options }).unwrap();
    let hooks = [Hook::PreCreate, Hook::PreDelete];
    for hook in hooks {
        bench.driver.turns.reload(MonoTime::default()).unwrap();
        bench.connect();
        if hook == Hook::PreDelete {
            bench.turn(Request::Delete { name: name() }).unwrap();
        }
        let clear = |hook| Request::ClearHook { stack: name(), resource: "a".into(), hook };
        for other in hooks.into_iter().filter(|other| *other != hook) {
            assert!(matches!(bench.turn(clear(other)), Err(Refusal::Conflict(_))), "{other:?}");
        }
        bench.turn(clear(hook)).unwrap();
        let key = bench.job().key();
        bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
        bench.driver.turn_over();
    }
    assert!(bench.driver.turns.view().stack_view(&stack).is_none());
}

#[test]
fn one_revision_that_cannot_be_read_holds_up_its_own_stack_only() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let file = bench.dir.path().join("muster.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE revisions SET template = zeroblob(50)", []).unwrap();
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!(view.status, "FAILED");
    assert!(view.status_reason.contains("cannot be read"), "{}", view.status_reason);
    bench.turn(Request::Delete { name: name() }).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    for name in ["muster.db", "muster.db-wal"] {
        let mode = bench.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Damages a row of the database, as the controller finds it at its next start.
fn damages(bench: &mut Bench, sql: &str) {
    let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
    assert_eq!(db.execute(sql, []), Ok(1), "{sql}");
    bench.driver.turns.reload(MonoTime::default()).unwrap();
}

#[test]
fn a_resource_that_cannot_be_read_holds_up_its_own_stack_only() {
    for column in ["spec = zeroblob(40)", "physical_id = 'x'", "type = 'Nobody::Knows'", "attempt = 'x'"] {
        let mut bench = Bench::new();
        bench.turn(create(1)).unwrap();
        let Request::Create { source, options, .. } = create(2) else { panic!("a create") };
        let other: StackName = "other".parse().unwrap();
        let create_other = Request::Create { name: other.clone(), source, options };
        bench.turn(create_other).unwrap();
        let stack = "(SELECT id FROM stacks WHERE name = 's')";
        damages(&mut bench, &format!("UPDATE resources SET {column} WHERE stack_id = {stack}"));
        bench.driver.wake();
        bench.driver.turn_over();
        let view = bench.driver.turns.view().stack_view(&name()).unwrap();
        assert_eq!(view.status, "FAILED", "{column}");
        let told = &view.status_reason;
        assert!(told.contains("resource 'a'") && told.contains("restore a backup"), "{column}: {told}");
        let Request::Create { source, .. } = create(3) else { panic!("a create") };
        let update = |name| Request::Update { name, source: source.clone(), options: Options::default() };
        let refused = bench.turn(update(name()));
        assert!(matches!(&refused, Err(Refusal::Conflict(why)) if why == told), "{column}: {refused:?}");
        bench.turn(update(other)).unwrap();
        bench.turn(Request::Delete { name: name() }).unwrap();
        let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
        let left = db.query_row(
            "SELECT count(*) FROM resources JOIN stacks ON stack_id = stacks.id WHERE stacks.name = 's'",
            [],
            |row| row.get(0),
        );
        assert_eq!(left, Ok(0), "{column}");
    }
}

#[test]
fn a_stack_or_a_token_that_cannot_be_read_is_left_out() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    damages(&mut bench, "UPDATE stacks SET outputs = zeroblob(9)");
    assert!(bench.driver.turns.view().stack_view(&name()).is_none());
    bench.driver.wake();
    bench.driver.turn_over();
    let db = rusqlite::Connection::open(bench.dir.path().join("muster.db")).unwrap();
    let left = db.query_row("SELECT count(*) FROM resources", [], |row| row.get(0));
    assert_eq!(left, Ok(1), "it stays in the database");
}

#[test]
fn a_token_that_cannot_be_read_is_not_valid() {
    let mut bench = Bench::new();
    let token = |id: u8| NewToken {
        id: [id; 8],
        secret_hash: [id; 32],
        expires: u64::MAX / 4,
        uses: 1,
        name: None,
        labels: BTreeMap::new(),
        rate: None,
    };
    for id in [2, 3] {
        bench.turn(Request::NewToken { token: token(id), wall: 1 }).unwrap();
    }
    damages(&mut bench, "UPDATE tokens SET labels = 'x' WHERE id = '0202020202020202'");
    bench.driver.wake();
    assert!(bench.turn(Request::RevokeToken { id: [2; 8] }).is_err());
    bench.turn(Request::RevokeToken { id: [3; 8] }).unwrap();
}

#[test]
fn a_removed_node_is_sent_away_once_that_is_durable_and_what_it_had_is_known_after_a_restart() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    bench.driver.turn_over();
    bench.log();
    let removed = bench.turn(Request::RemoveNode { node: web() }).unwrap();
    let Answer::NodeRemoved { lost, lost_total: 1, .. } = removed else { panic!("{removed:?}") };
    assert_eq!(lost[0].physical_id, key.resource.to_string());
    assert_eq!(bench.log()[..2], ["commit", "close web-1"]);
    for _ in 0..2 {
        let site = bench.driver.turns.view();
        assert!(site.node_seal(&web()).is_none());
        let node = site.node_views().remove(0);
        assert_eq!((node.state.as_str(), &node.lost), ("lost", &lost));
        let rows = site.resource_views(&name(), true).unwrap();
        assert_eq!((rows.len(), rows[0].phase.as_str()), (1, "node_away"));
        assert_ne!(rows[0].physical_id, lost[0].physical_id);
        bench.driver.turns.reload(MonoTime::default()).unwrap();
    }
    // Who was let in before hears that it is over.
    bench.driver.link_event(LinkEvent::Connected { node: web(), connection: 99 });
    assert_eq!(bench.log().last().map(String::as_str), Some("close web-1"));
    bench.join(Some("web-1".into()), 2).unwrap();
    bench.connect();
    let down = bench.job();
    assert_eq!((down.resource, down.action), (key.resource, muster_shared::model::Action::Delete));
}

#[test]
fn a_clock_that_is_set_ends_no_wait() {
    const YEAR: i64 = 365 * 86_400;
    let dir = tempfile::tempdir().unwrap();
    drop(Database::sqlite(&dir.path().join("muster.db"), &dir.path().join("secrets.key")).unwrap());
    let db = rusqlite::Connection::open(dir.path().join("muster.db")).unwrap();
    let select = "SELECT value FROM meta WHERE key = 'steady'";
    let kept: String = db.query_row(select, [], |row| row.get(0)).unwrap();
    // As after a boot with a clock a year ahead, which was set right since.
    let (boot, booted) = kept.split_once(' ').unwrap();
    let kept = format!("{boot} {}", booted.parse::<i64>().unwrap() + YEAR);
    db.execute("UPDATE meta SET value = ?1 WHERE key = 'steady'", [kept]).unwrap();
    let mut bench = Bench::at(dir);
    let template = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 40000}}
";
    let text = SourceText { name: "t".into(), template: template.into(), ..SourceText::default() };
    let source = Source::parse(text).unwrap();
    bench.turn(Request::Create { name: name(), source, options: Options::default() }).unwrap();
    let select = "SELECT waits_since FROM resources WHERE name = 'w'";
    let since: i64 = db.query_row(select, [], |row| row.get(0)).unwrap();
    let clock = time::OffsetDateTime::now_utc().unix_timestamp();
    assert!((since - clock - YEAR).abs() < 600, "{since}, and the clock shows {clock}");
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let _ = bench.turn(Request::RevokeToken { id: [9; 8] });
    let rows = bench.driver.turns.view().resource_views(&name(), false).unwrap();
    let row = rows.iter().find(|row| row.name == "w").unwrap();
    assert!(row.phase == "signals" && row.phase_seconds < 600, "{row:?}");
}

#[test]
fn a_wait_goes_on_by_the_clock_over_a_restart_and_its_signals_are_sealed() {
    let mut bench = Bench::new();
    let template = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 40000, count: 2}}
";
    let text = SourceText { name: "t".into(), template: template.into(), ..SourceText::default() };
    let source = Source::parse(text).unwrap();
    bench.turn(Request::Create { name: name(), source, options: Options::default() }).unwrap();
    let signal = || Request::Signal {
        stack: name(),
        resource: "h".into(),
        signal: muster_engine::Signal { data: "marked".into(), ..muster_engine::Signal::default() },
    };
    bench.log();
    bench.turn(signal()).unwrap();
    assert_eq!(bench.log(), ["commit"], "it is durable when it is answered");
    let file = bench.dir.path().join("muster.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    let changed = db.execute("UPDATE resources SET waits_since = waits_since - 30000 WHERE name = 'w'", []);
    assert_eq!(changed, Ok(1));
    for name in ["muster.db", "muster.db-wal"] {
        let bytes = std::fs::read(bench.dir.path().join(name)).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"marked"), "{name}");
    }
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let revoked = bench.turn(Request::RevokeToken { id: [9; 8] });
    assert!(revoked.is_err(), "only a turn in which what was loaded is taken up");
    let site = bench.driver.turns.view();
    let rows = site.resource_views(&name(), false).unwrap();
    let row = rows.iter().find(|row| row.name == "w").unwrap();
    assert!(row.phase == "signals" && (30_000..30_600).contains(&row.phase_seconds), "{row:?}");
    bench.turn(signal()).unwrap();
    let site = bench.driver.turns.view();
    assert_eq!(site.stack_view(&name()).unwrap().status, "COMPLETE");
    let waits =
        db.query_row("SELECT count(*) FROM resources WHERE waits_since IS NOT NULL", [], |row| row.get(0));
    assert_eq!(waits, Ok(0));
}
