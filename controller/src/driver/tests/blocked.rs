//! The whole loop over a store whose calls hang, and fail when they come back: the pulse says what is so, who
//! asked is answered, what was answered well is durable, and no agent is sent away.

use std::collections::BTreeSet;
use std::sync::Condvar;
use std::thread::JoinHandle;

use super::*;
use crate::link::intake::{self, Feed, fair};
use crate::pulse;

/// Opens and closes; whoever comes to it while it is closed waits.
#[derive(Default)]
struct Gate {
    at: Mutex<At>,
    moved: Condvar,
}

#[derive(Clone, Copy, Default)]
struct At {
    /// Calls that may still go through; none: all of them.
    calls: Option<usize>,
    /// A call waits.
    waits: bool,
    /// The failure of the waiting commit, if it fails.
    fails: Option<i32>,
}

impl Gate {
    /// After so many more calls it is closed.
    fn closes_after(&self, calls: usize) {
        self.at.lock().unwrap().calls = Some(calls);
    }

    /// Waits until the driver waits at the gate.
    fn until_somebody_waits(&self) {
        let at = self.at.lock().unwrap();
        drop(self.moved.wait_while(at, |at| !at.waits).unwrap());
    }

    /// The one that waits fails with this code of SQLite, or goes through, and all others do.
    fn opens(&self, fails: Option<i32>) {
        *self.at.lock().unwrap() = At { calls: None, waits: false, fails };
        self.moved.notify_all();
    }

    fn passes(&self) -> Result<(), StoreError> {
        let mut at = self.at.lock().unwrap();
        match &mut at.calls {
            None => return Ok(()),
            Some(0) => {}
            Some(left) => {
                *left -= 1;
                return Ok(());
            }
        }
        at.waits = true;
        self.moved.notify_all();
        let mut at = self.moved.wait_while(at, |at| at.waits).unwrap();
        at.fails.take().map_or(Ok(()), |code| Err(sqlite(code)))
    }
}

/// A real store behind a gate.
struct Gated {
    sqlite: Database,
    gate: Arc<Gate>,
}

impl Store for Gated {
    fn commit(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        seen: &[NodeId],
    ) -> Result<(), StoreError> {
        self.gate.passes()?;
        self.sqlite.commit(changes, seen)
    }

    fn load(&mut self) -> Result<muster_engine::Snapshot, StoreError> {
        self.sqlite.load()
    }

    fn next_epoch(&mut self) -> Result<Epoch, StoreError> {
        self.sqlite.next_epoch()
    }

    fn record_start(&mut self, epoch: Epoch, bits: u64) -> Result<Starts, StoreError> {
        self.sqlite.record_start(epoch, bits)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.sqlite.probe()
    }

    fn source(&mut self, stack: &StackName, revision: u32) -> Result<Option<SourceText>, StoreError> {
        self.gate.passes()?;
        self.sqlite.source(stack, revision)
    }
}

/// The loop in a thread of its own, with one agent that is connected.
struct Running {
    handle: DriverHandle,
    feed: Feed,
    gate: Arc<Gate>,
    log: Log,
    dir: tempfile::TempDir,
    thread: JoinHandle<()>,
}

const CONNECTION: u64 = 1;

impl Running {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (log, gate) = (Log::default(), Arc::<Gate>::default());
        let sqlite =
            Database::sqlite(&dir.path().join("muster.db"), &dir.path().join("secrets.key")).unwrap();
        let store = Gated { sqlite, gate: Arc::clone(&gate) };
        let wire = Wire { log: Arc::clone(&log), sent: Arc::default() };
        let config = |epoch| Config {
            epoch,
            epoch_bits: 1,
            starts: Starts::default(),
            seed: [7; 32],
            limits: Limits::default(),
        };
        let (handle, inbox) = channel();
        let (feed, intake) = intake::channel(fair::Bounds::default());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let driver = Driver::new(store, wire, config).unwrap();
            runtime.block_on(driver.run(inbox, intake));
        });
        let running = Self { handle, feed, gate, log, dir, thread };
        running.joins().await;
        running
    }

    async fn joins(&self) {
        let secret = TokenSecret([1; 16]);
        let token = NewToken {
            id: [1; 8],
            secret_hash: secret.digest(),
            expires: u64::MAX / 4,
            uses: 1,
            name: None,
            labels: BTreeMap::new(),
            rate: None,
        };
        self.handle.request(Request::NewToken { token, wall: 0 }).await.unwrap();
        let (reply, answer) = oneshot::channel();
        let ask = LinkJoinAsk {
            token_id: TokenId([1; 8]),
            secret,
            name: web(),
            seal_public: SealPublic([1; 32]),
            agent_version: "t".into(),
            moves: false,
        };
        self.feed.ask(LinkEvent::Join { ask, reply });
        answer.await.unwrap().unwrap();
        self.feed.connected(&web(), CONNECTION);
        let hello = Hello {
            boot_id: 1,
            instance: None,
            address: None,
            agent_version: "t".into(),
            reads: 0,
            epoch: Epoch(0).into(),
            ledger: 0,
        };
        self.says(Up::Hello(hello)).await.unwrap();
        self.log.lock().unwrap().clear();
    }

    /// The receipt comes once the driver has taken it.
    fn says(&self, message: Up) -> intake::Receipt {
        self.feed.received(&web(), CONNECTION, vec![message], 1)
    }

    fn asks(&self, stack: usize) -> tokio::task::JoinHandle<Result<Answer, Refusal>> {
        let Request::Create { source, options, .. } = create(1) else { unreachable!("it creates") };
        let (name, handle) = (format!("s{stack}").parse().unwrap(), self.handle.clone());
        tokio::spawn(async move { handle.request(Request::Create { name, source, options }).await })
    }

    /// The final content of the database, and the sent messages.
    async fn ends(self) -> (BTreeSet<String>, Vec<String>) {
        self.handle.stop().await;
        self.thread.join().unwrap();
        let mut sqlite =
            Database::sqlite(&self.dir.path().join("muster.db"), &self.dir.path().join("secrets.key"))
                .unwrap();
        let stacks = sqlite.load().unwrap().stacks.into_iter().map(|(stack, _)| stack.name.to_string());
        (stacks.collect(), std::mem::take(&mut self.log.lock().unwrap()))
    }
}

#[tokio::test]
async fn a_commit_that_hangs_is_told_and_loses_nothing() {
    let running = Running::start().await;
    running.gate.closes_after(0);
    let first = running.asks(1);
    tokio::task::yield_now().await;
    running.gate.until_somebody_waits();
    assert_eq!(running.handle.busy(), Busy::Writing, "the pulse has patience with a disk");
    let mut hurried = running.handle.clone();
    hurried.patience = Duration::from_millis(1);
    let refused = hurried.query(|_| ()).await;
    assert!(
        matches!(&refused, Err(Refusal::Later { why, .. }) if why.contains("waits for its database")),
        "{refused:?}"
    );
    // What comes in the meantime waits for it.
    let second = running.asks(2);
    let heard = running.says(Up::Heartbeat { drift: None });
    let told = Mutex::new(Vec::new());
    let is_told = tokio::sync::Notify::new();
    let tell = |well| {
        told.lock().unwrap().push(well);
        is_told.notify_one();
    };
    let follow = pulse::follow(&running.handle, Duration::from_millis(100), tell);
    let look = async {
        let until = async |wanted: bool| {
            while told.lock().unwrap().last() != Some(&wanted) {
                is_told.notified().await;
            }
        };
        until(false).await;
        assert_eq!(told.lock().unwrap().first(), Some(&true), "one who writes has time");
        assert!(!first.is_finished() && !second.is_finished());
        running.gate.opens(None);
        until(true).await;
        heard.await.unwrap();
        (first.await.unwrap(), second.await.unwrap())
    };
    let (first, second) = tokio::select! {
        answers = look => answers,
        () = follow => unreachable!("it never ends"),
    };
    first.unwrap();
    second.unwrap();
    let (stacks, log) = running.ends().await;
    assert_eq!(stacks, ["s1".to_owned(), "s2".to_owned()].into());
    assert!(!log.iter().any(|line| line.starts_with("close")), "{log:?}");
}

#[tokio::test]
async fn a_large_revision_is_parsed_beside_the_loop() {
    let running = Running::start().await;
    let Request::Create { name, source, options } = create(1) else { unreachable!("it creates") };
    let template = format!("{}# {}\n", source.text.template, "x".repeat(PARSED_HERE));
    let large =
        || Source::parse(SourceText { template: template.clone(), ..(*source.text).clone() }).unwrap();
    let create = Request::Create { name: name.clone(), source: large(), options: options.clone() };
    running.handle.request(create).await.unwrap();
    let update = Request::Update { name: name.clone(), source: large(), options };
    running.handle.request(update).await.unwrap();
    let to = Some(1);
    let Ok(Answer::Stack { .. }) = running.handle.request(Request::Rollback { name, to }).await else {
        panic!("it begins")
    };
    running.ends().await;
}

#[tokio::test]
async fn whatever_call_hangs_and_fails_nothing_answered_is_lost() {
    let codes = [
        None,
        Some(ffi::SQLITE_BUSY),
        Some(ffi::SQLITE_CONSTRAINT),
        Some(ffi::SQLITE_FULL),
        Some(ffi::SQLITE_IOERR),
    ];
    let cases = codes.into_iter().flat_map(|fails| (0..3).map(move |call| (fails, call)));
    // Those whose disk is not well are tried again after a second: all wait at one time.
    let cases = cases.map(|(fails, call)| tokio::spawn(hangs_and_fails(fails, call)));
    for case in cases.collect::<Vec<_>>() {
        case.await.unwrap();
    }
}

async fn hangs_and_fails(fails: Option<i32>, call: usize) {
    let case = format!("call {call} fails with {fails:?}");
    let running = Running::start().await;
    running.gate.closes_after(call);
    let gate = Arc::clone(&running.gate);
    let mut waits = tokio::task::spawn_blocking(move || gate.until_somebody_waits());
    let mut well = BTreeSet::new();
    let mut asked = Vec::new();
    // One after the other, each with a commit of its own, until one hangs.
    for n in 0.. {
        let mut one = running.asks(n);
        tokio::select! {
            answer = &mut one => {
                answer.unwrap().unwrap();
                well.insert(format!("s{n}"));
            }
            waited = &mut waits => {
                waited.unwrap();
                asked.push((n, one));
                asked.extend((n + 1..n + 4).map(|n| (n, running.asks(n))));
                break;
            }
        }
    }
    let heard = running.says(Up::Heartbeat { drift: None });
    running.gate.opens(fails);
    heard.await.unwrap();
    for (n, answer) in asked {
        match answer.await.unwrap() {
            Ok(_) => drop(well.insert(format!("s{n}"))),
            Err(Refusal::Unavailable(_) | Refusal::Later { .. }) => {}
            Err(other) => panic!("{case}: {other}"),
        }
    }
    // It is well again by itself.
    let name = "after";
    loop {
        let Request::Create { source, options, .. } = create(1) else { unreachable!("it creates") };
        let request = Request::Create { name: name.parse().unwrap(), source, options };
        match running.handle.request(request).await {
            Ok(_) => break,
            // What its agent says is taken all the while.
            Err(Refusal::Unavailable(_) | Refusal::Later { .. }) => {
                running.says(Up::Heartbeat { drift: None }).await.unwrap()
            }
            Err(other) => panic!("{case}: {other}"),
        }
    }
    well.insert(name.to_owned());
    let (stacks, log) = running.ends().await;
    let lost: Vec<_> = well.difference(&stacks).collect();
    assert!(lost.is_empty(), "{case}: {lost:?} was answered, and there is {stacks:?}");
    assert!(!log.iter().any(|line| line.starts_with("close")), "{case}: {log:?}");
}
