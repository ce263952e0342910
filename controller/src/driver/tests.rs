//! The order of commit and everything else, with a store that fails when told to.

use std::sync::{Arc, Mutex};

use muster_engine::record::Change;
use muster_engine::{Engine, EnvironmentText, Hook, Limits, NewToken, Options, Source, SourceText};
use muster_shared::Epoch;
use muster_shared::join::{TokenId, TokenSecret};
use muster_shared::model::{Hello, Observed, Outcome, Report, Up};
use muster_shared::seal::SealPublic;

use super::*;
use crate::link::JoinAsk as LinkJoinAsk;
use crate::store::Sqlite;

/// What happened, in its order.
type Log = Arc<Mutex<Vec<String>>>;

/// A real store on a disk that is full when told to be.
struct Disk {
    sqlite: Sqlite,
    broken: Arc<Mutex<Broken>>,
    log: Log,
}

#[derive(Clone, Copy, Default)]
struct Broken {
    writes: bool,
    reads: bool,
}

fn full() -> StoreError {
    StoreError::Format("disk is full".into())
}

impl Store for Disk {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        if self.broken.lock().unwrap().writes {
            drop(changes.next()); // fails in the middle
            return Err(full());
        }
        self.sqlite.commit(changes, seen)?;
        self.log.lock().unwrap().push("commit".into());
        Ok(())
    }

    fn load(&mut self) -> Result<muster_engine::Snapshot, StoreError> {
        if self.broken.lock().unwrap().reads { Err(full()) } else { self.sqlite.load() }
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        self.sqlite.next_epoch()
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        if self.broken.lock().unwrap().writes { Err(full()) } else { self.sqlite.probe() }
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        self.sqlite.source(stack, revision)
    }

    fn content(
        &mut self,
        digest: muster_shared::model::ContentDigest,
        offset: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.sqlite.content(digest, offset, length)
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
        let dir = tempfile::tempdir().unwrap();
        let (log, sent, broken) = (Log::default(), Arc::default(), Arc::default());
        let sqlite = Sqlite::open(&dir.path().join("muster.db"), &dir.path().join("secrets.key")).unwrap();
        let disk = Disk { sqlite, broken: Arc::clone(&broken), log: Arc::clone(&log) };
        let wire = Wire { log: Arc::clone(&log), sent: Arc::clone(&sent) };
        let config = |epoch| Config { epoch, seed: [7; 32], limits: Limits::default() };
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
        self.turn(Request::NewToken(token)).unwrap();
        let (reply, mut answer) = oneshot::channel();
        let ask = LinkJoinAsk {
            token_id: TokenId([1; 8]),
            secret,
            name: web(),
            seal_public: SealPublic([key; 32]),
            agent_version: "t".into(),
        };
        self.driver.link_event(LinkEvent::Join { ask, reply });
        self.driver.turn_over();
        answer.try_recv().unwrap().map_err(|not| not.reason)
    }

    fn connect(&mut self) {
        self.connection += 1;
        self.driver.link_event(LinkEvent::Connected { node: web(), connection: self.connection });
        let hello = Hello { boot_id: 1, agent_version: "t".into(), epoch: Epoch(0), ledger: 0 };
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
        self.driver.ask(Ask::Request(Box::new(request), reply));
        answer
    }

    fn turn(&mut self, request: Request) -> Result<Answer, Refusal> {
        let mut answer = self.ask(request);
        self.driver.turn_over();
        answer.try_recv().unwrap()
    }

    fn query(&mut self) -> oneshot::Receiver<bool> {
        let (reply, answer) = oneshot::channel();
        let look = move |engine: &Engine| reply.send(engine.stack_view(&name()).is_some()).unwrap();
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

    fn breaks(&mut self, writes: bool, reads: bool) {
        *self.broken.lock().unwrap() = Broken { writes, reads };
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

#[test]
fn a_full_disk_forgets_what_is_not_durable_says_so_and_recovers() {
    let mut bench = Bench::new();
    bench.breaks(true, false);
    let mut answer = bench.ask(create(1));
    let mut seen = bench.query();
    bench.driver.turn_over();
    let refused = answer.try_recv().unwrap();
    assert!(
        matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("disk is full")),
        "{refused:?}"
    );
    assert!(!seen.try_recv().unwrap(), "what nobody was promised is not shown");
    assert_eq!(bench.log(), ["close web-1"]);
    assert!(matches!(bench.turn(create(1)), Err(Refusal::Unavailable(_))));
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some());
    bench.breaks(false, false);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_none());
    bench.connect();
    bench.turn(create(1)).unwrap();
    assert_eq!(bench.log(), ["commit", "send"]);
}

#[test]
fn a_report_that_could_not_be_written_is_not_acknowledged_and_counts_when_it_comes_again() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    let done = || Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) });
    bench.breaks(true, false);
    bench.receive(done());
    bench.driver.turn_over();
    let acknowledged = |bench: &Bench| bench.sent.lock().unwrap().contains(&Down::Acknowledge(key));
    assert!(!acknowledged(&bench));
    bench.breaks(false, false);
    bench.driver.wake();
    bench.connect();
    assert_eq!(bench.job().key(), key, "the same job is asked about");
    bench.receive(done());
    bench.driver.turn_over();
    assert!(acknowledged(&bench));
    let view = bench.driver.turns.engine().stack_view(&name()).unwrap();
    assert_eq!((view.action.as_str(), view.status.as_str()), ("CREATE", "COMPLETE"));
}

#[test]
fn an_engine_that_could_not_be_built_again_never_writes() {
    let mut bench = Bench::new();
    bench.breaks(true, true);
    let mut answer = bench.ask(create(1));
    bench.driver.turn_over();
    assert!(answer.try_recv().unwrap().is_err());
    bench.breaks(false, true);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some(), "it cannot be read yet");
    bench.driver.turn_over();
    assert!(!bench.log().contains(&"commit".to_owned()), "what nobody was promised is not written either");
    bench.breaks(false, false);
    bench.driver.wake();
    let mut seen = bench.query();
    bench.driver.turn_over();
    assert!(!seen.try_recv().unwrap());
    bench.connect();
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
    assert_eq!(bench.driver.turns.engine().node_seal(&web()).unwrap().0, [2; 32]);
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
    assert!(bench.driver.turns.engine().stack_view(&stack).is_none());
}

#[test]
fn one_revision_that_cannot_be_read_holds_up_its_own_stack_only() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let file = bench.dir.path().join("muster.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE revisions SET template = zeroblob(50)", []).unwrap();
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let view = bench.driver.turns.engine().stack_view(&name()).unwrap();
    assert_eq!(view.status, "FAILED");
    assert!(view.status_reason.contains("cannot be read"), "{}", view.status_reason);
    bench.turn(Request::Delete { name: name() }).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    for name in ["muster.db", "muster.db-wal"] {
        let mode = bench.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
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
        let engine = bench.driver.turns.engine();
        assert!(engine.node_seal(&web()).is_none());
        let node = engine.node_views().remove(0);
        assert_eq!((node.state.as_str(), &node.lost), ("lost", &lost));
        let rows = engine.resource_views(&name(), true).unwrap();
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
    let engine = bench.driver.turns.engine();
    let rows = engine.resource_views(&name(), false).unwrap();
    let row = rows.iter().find(|row| row.name == "w").unwrap();
    assert!(row.phase == "signals" && (30_000..30_600).contains(&row.phase_seconds), "{row:?}");
    bench.turn(signal()).unwrap();
    let engine = bench.driver.turns.engine();
    assert_eq!(engine.stack_view(&name()).unwrap().status, "COMPLETE");
    let waits =
        db.query_row("SELECT count(*) FROM resources WHERE waits_since IS NOT NULL", [], |row| row.get(0));
    assert_eq!(waits, Ok(0));
}
