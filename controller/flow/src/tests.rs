//! The machine alone: the tests set what the site and the agent answer, and look at the effects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::model::Content;
use muster_shared::model::flow::{
    Buckets, DeviceName, Entry, EntryState, FlowAsk, FlowBatch, FlowDown, FlowId, FlowRefusal, FlowState,
    FlowUp, OpsRef, Packed, SwitchState, bucket_of, read_ops,
};
use muster_shared::{Epoch, Generation, Generations, MonoTime, NodeId};
use muster_template::{FlowSet, MASK};
use serde_json::json;

use crate::record::FlowSnapshot;
use crate::{
    Effect, FlowAction, FlowOp, FlowStanding, FlowWrite, Flows, Job, Limits, OperationStatus, Owner, Refused,
    ResourceWrite, Site, Turn, Want,
};

/// Answers of the rest of the site.
#[derive(Default)]
struct Told {
    claimed: Option<FlowId>,
    is_held: bool,
}

impl Site for Told {
    fn has_claims(&self, _: &NodeId) -> bool {
        self.claimed.is_some()
    }

    fn claimant(&self, _: &DeviceName, id: FlowId) -> Option<Owner> {
        (self.claimed == Some(id)).then_some(Owner(9))
    }

    fn describe(&self, owner: Owner) -> String {
        format!("owner {}", owner.0)
    }

    fn is_lost(&self, _: Owner) -> bool {
        false
    }

    fn hides(&self, _: Owner) -> bool {
        false
    }

    fn has_joined(&self, _: &NodeId) -> bool {
        true
    }

    fn unknown(&self, _: &NodeId) -> Option<String> {
        None
    }

    fn why_waited_for(&self, node: &NodeId) -> String {
        format!("node {node} is away")
    }

    fn lacks_bridge(&self, _: &DeviceName) -> Option<String> {
        None
    }

    fn is_restored(&self) -> bool {
        self.is_held
    }

    fn holds_table(&self, _: &DeviceName) -> bool {
        self.is_held
    }

    fn left_rules(&self, _: &DeviceName) -> Option<&BTreeSet<FlowId>> {
        None
    }

    fn heeds_applied(&self, _: &DeviceName) -> bool {
        false
    }
}

struct Bed {
    flows: Flows,
    site: Told,
    now: MonoTime,
    generations: Generations,
    /// The records that a store would have.
    store: FlowSnapshot,
    told: Vec<Effect>,
    /// Number of the agent's connections so far.
    connections: u64,
}

impl Bed {
    fn new() -> Self {
        let limits = Limits { retries: 1, operations_kept: 2 };
        Self {
            flows: Flows::new(limits),
            site: Told::default(),
            now: MonoTime::default(),
            generations: Generations::new(Epoch(1)),
            store: FlowSnapshot::default(),
            told: Vec::new(),
            connections: 0,
        }
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut Flows, &mut Turn<'_>) -> R) -> R {
        let mut turn = Turn { now: self.now, generations: &mut self.generations, site: &self.site };
        let result = call(&mut self.flows, &mut turn);
        while let Some(change) = self.flows.poll_change() {
            self.store.apply(change);
        }
        self.told.extend(std::iter::from_fn(|| self.flows.poll_effect()));
        self.flows.assert_counts();
        result
    }

    /// The agent sends a Hello over a new connection, and has no tables.
    fn greets(&mut self) {
        self.connections += 1;
        self.flows.greeted(&node(), self.connections);
        self.states(Vec::new());
    }

    fn states(&mut self, states: Vec<FlowState>) {
        let message = FlowUp::States { states, complete: true };
        self.call(|flows, turn| flows.received(turn, &node(), message));
    }

    /// The generation of the batch that was sent last.
    fn sent(&self) -> Option<Generation> {
        self.told.iter().rev().find_map(|effect| match effect {
            Effect::Send { message: FlowDown::Batch(batch), .. } => Some(batch.generation),
            _ => None,
        })
    }

    /// The agent reports the outcome of the batch that was sent last.
    fn decides(&mut self, root: u64, refused: Option<FlowRefusal>) {
        let decided = self.sent().expect("a batch was sent");
        self.states(vec![FlowState { refused, ..state(decided, root) }]);
    }

    fn root(&self) -> u64 {
        self.flows.root(&device()).unwrap_or_default()
    }

    fn wants(&mut self, want: Want<'_>, attempt: u32) -> Result<bool, Refused> {
        let device = device();
        let write =
            ResourceWrite { device: &device, job: job(attempt), want, confirm_timeout: None, foreign: None };
        self.call(|flows, turn| flows.write_resource(turn, write))
    }

    fn applies(&mut self, priority: u16) -> Result<u64, Refused> {
        let write = FlowWrite { device: device(), ops: vec![put(priority)] };
        let begun = self.call(|flows, turn| flows.begin(turn, FlowAction::Apply, vec![vec![write]], None));
        begun.map(|begun| begun.operation)
    }
}

fn node() -> NodeId {
    "web-1".parse().unwrap()
}

fn device() -> DeviceName {
    DeviceName { node: node(), bridge: "br0".parse().unwrap() }
}

/// The agent's report of a device whose switch is well.
fn state(decided: Generation, root: u64) -> FlowState {
    FlowState {
        device: device().bridge,
        decided,
        refused: None,
        root,
        entries: 1,
        wrong: 0,
        foreign: 0,
        switch: SwitchState::Watched,
        reason: String::new(),
        entry: None,
    }
}

fn rule(priority: u16) -> Packed {
    let rule = json!({"priority": priority, "treatment": [{"output": "eth1"}]});
    Packed::new(&Entry::from_json(&rule).unwrap()).unwrap()
}

fn id(priority: u16) -> FlowId {
    rule(priority).unpack().id(&device())
}

fn put(priority: u16) -> FlowOp {
    let packed = rule(priority);
    FlowOp::Put { id: id(priority), digest: packed.digest(), packed }
}

fn job(attempt: u32) -> Job {
    Job { owner: Owner(3), generation: Generation { epoch: Epoch(1), number: 1 }, attempt }
}

fn set(priorities: &[u16]) -> FlowSet {
    let entries = priorities.iter().map(|priority| rule(*priority)).collect();
    FlowSet { device: device(), entries, confirm_timeout: None, foreign: None }
}

#[test]
fn the_end_of_a_resources_write_is_that_of_its_job() {
    let refusal = FlowRefusal { id: Some(id(1)), reason: "no such port".into(), permanent: true };
    for refused in [None, Some(refusal)] {
        let mut bed = Bed::new();
        let set = set(&[1, 2]);
        assert_eq!(bed.wants(Want::Be { set: &set, asker: "r" }, 0), Ok(false));
        assert!(bed.told.is_empty(), "its node is away: the table waits");
        assert_eq!(bed.store.entries.len(), 2, "and is durable");
        bed.greets();
        let root = if refused.is_none() { bed.root() } else { 0 };
        bed.decides(root, refused.clone());
        let ended = bed.told.iter().find_map(|effect| match effect {
            Effect::JobEnded(of, ended) if *of == job(0) => Some(ended.clone()),
            _ => None,
        });
        match refused {
            None => {
                assert_eq!(ended, Some(Ok(())));
                assert_eq!(bed.wants(Want::Be { set: &set, asker: "r" }, 1), Ok(true), "it is so already");
                assert_eq!(bed.flows.difference(&set), None);
            }
            Some(_) => {
                let failure = ended.unwrap().unwrap_err();
                assert_eq!((failure.rule, failure.permanent), (Some(id(1)), true));
                assert_eq!(failure.text(), format!("rule {}: no such port", id(1)));
                assert!(bed.flows.difference(&set).is_some());
            }
        }
    }
}

#[test]
fn a_reason_of_an_entry_that_left_the_table_is_masked() {
    let mut bed = Bed::new();
    bed.applies(1).unwrap();
    bed.greets();
    let root = bed.root();
    let decided = bed.sent().expect("a batch was sent");
    for (entry, shown) in [(Some(id(1)), "no port eth1"), (Some(id(2)), MASK), (None, "no port eth1")] {
        let state = FlowState { reason: "no port eth1".into(), entry, ..state(decided, root) };
        bed.states(vec![state]);
        let views = bed.flows.device_views();
        let named = entry.map(|id| format!("{id}: ")).unwrap_or_default();
        assert_eq!(views[0].reason, format!("{named}{shown}"));
    }
}

#[test]
fn rules_of_an_application_are_the_operators() {
    let mut bed = Bed::new();
    bed.greets();
    let named = |bed: &mut Bed, stages: usize, name: &str| {
        let write = || vec![FlowWrite { device: device(), ops: vec![put(1)] }];
        let stages = (0..stages).map(|_| write()).collect();
        bed.call(|flows, turn| flows.begin_named(turn, stages, None, name)).map(|begun| begun.operation)
    };
    for (stages, name, says) in [(2, "org.example", "one stage"), (1, "a b", "letters"), (1, "", "letters")] {
        let refused = named(&mut bed, stages, name).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    assert!(bed.store.applications.is_empty() && bed.store.entries.is_empty(), "what is refused has no name");
    named(&mut bed, 1, "org.example").unwrap();
    named(&mut bed, 1, "org.example").unwrap();
    let owner = |bed: &Bed| bed.store.entries.values().next().map(|entry| entry.owner);
    assert_eq!(owner(&bed), Some(Owner::application(1)));
    assert_eq!(bed.store.applications, [(1, "org.example".into())].into());
    let root = bed.root();
    bed.decides(root, None);

    // A resource may not have it; over a start it is the application's, whose name keeps its number.
    let set = set(&[1]);
    assert!(bed.wants(Want::Be { set: &set, asker: "r" }, 0).is_err());
    let store = bed.store.clone();
    let mut again = Bed { store: store.clone(), ..Bed::new() };
    again.call(|flows, turn| flows.load(turn, store, Vec::new()));
    assert_eq!(*again.flows.applications(), bed.store.applications);
    assert_eq!(again.flows.application("org.other").unwrap(), Owner::application(2));
    assert_eq!(again.flows.application("org.example").unwrap(), Owner::application(1));

    // An operator takes it over by asking for it, and a purge takes all of the operators' away.
    bed.applies(1).unwrap();
    assert_eq!(owner(&bed), Some(Owner::OPERATOR));
    named(&mut bed, 1, "org.example").unwrap();
    bed.call(|flows, turn| flows.purge(turn, device(), false, None)).unwrap();
    assert!(bed.store.entries.values().all(|entry| entry.removing));
}

#[test]
fn a_rule_has_one_owner() {
    let mut bed = Bed::new();
    bed.greets();
    bed.site.claimed = Some(id(1));
    let why = bed.applies(1).unwrap_err().to_string();
    assert!(why.contains("belongs to owner 9"), "{why}");
    bed.site.claimed = None;
    bed.applies(1).unwrap();
    let set = set(&[1]);
    let why = bed.wants(Want::Be { set: &set, asker: "r" }, 0).unwrap_err().to_string();
    assert!(why.contains("belongs to owner 0"), "{why}");
}

#[test]
fn a_job_is_taken_back_while_no_agent_has_its_write() {
    let mut bed = Bed::new();
    bed.wants(Want::Be { set: &set(&[1]), asker: "r" }, 0).unwrap();
    assert!(bed.call(|flows, turn| flows.withdraw(turn, &device(), job(0).owner)));
    assert_eq!(bed.store.entries.len(), 0, "nothing of it is left");
    bed.greets();
    bed.wants(Want::Be { set: &set(&[1]), asker: "r" }, 1).unwrap();
    assert!(!bed.call(|flows, turn| flows.withdraw(turn, &device(), job(1).owner)), "its agent may have it");
}

#[test]
fn a_batch_is_resent_on_a_new_connection_or_without_an_answer() {
    let mut bed = Bed::new();
    bed.greets();
    bed.applies(1).unwrap();
    let first = bed.sent().unwrap();
    let batches = |bed: &Bed| {
        let is_batch = |it: &&Effect| matches!(it, Effect::Send { message: FlowDown::Batch(_), .. });
        bed.told.iter().filter(is_batch).count()
    };
    assert_eq!(batches(&bed), 1);
    bed.now = bed.flows.next_due().unwrap();
    bed.call(|flows, turn| flows.timeout(turn));
    assert_eq!((batches(&bed), bed.sent()), (2, Some(first)));
    bed.flows.away(&node());
    bed.now = bed.now + Duration::from_secs(1);
    bed.greets();
    assert_eq!((batches(&bed), bed.sent()), (3, Some(first)), "it is the same batch");
}

#[test]
fn what_a_held_table_lacks_is_told_and_not_corrected() {
    let mut bed = Bed::new();
    bed.greets();
    bed.applies(1).unwrap();
    let root = bed.root();
    bed.decides(root, None);
    bed.site.is_held = true;
    let batch = bed.sent();
    bed.decides(0, None);
    let deleted = bed.told.iter().find_map(|effect| match effect {
        Effect::Compared { difference, .. } => Some(difference.deleted.clone()),
        _ => None,
    });
    assert_eq!(deleted, Some([id(1)].into()));
    assert_eq!(bed.sent(), batch, "nothing was sent for it");
    bed.site.is_held = false;
    bed.flows.compare_anew(&node());
    bed.decides(0, None);
    assert_ne!(bed.sent(), batch, "it is corrected once nobody holds it");
}

#[test]
fn what_was_saved_goes_on_where_it_was() {
    let mut bed = Bed::new();
    bed.greets();
    let operation = bed.applies(1).unwrap();
    let (store, generations) = (bed.store.clone(), bed.generations);
    let mut again = Bed { store: store.clone(), generations, ..Bed::new() };
    again.call(|flows, turn| flows.load(turn, store, Vec::new()));
    assert_eq!(again.root(), bed.root());
    assert!(!again.flows.has_ended(operation));
    again.greets();
    let root = again.root();
    again.decides(root, None);
    assert!(again.flows.has_ended(operation));
    assert_eq!(again.store.operations[&operation].0.status, OperationStatus::Complete);
}

/// The refusal of a change that cut its server off.
fn undone() -> FlowRefusal {
    FlowRefusal { id: None, reason: "the controller was not reached again".into(), permanent: true }
}

#[test]
fn a_write_that_nobody_waits_for_any_more_fails_as_others_do() {
    for priorities in [&[1][..], &[1, 2]] {
        let mut bed = Bed::new();
        for (attempt, priority) in (0..).zip(priorities) {
            let set = set(&[*priority]);
            let job = Job { owner: Owner(u64::from(*priority)), ..job(attempt) };
            let device = device();
            let want = Want::Be { set: &set, asker: "r" };
            let write = ResourceWrite { device: &device, job, want, confirm_timeout: None, foreign: None };
            bed.call(|flows, turn| flows.write_resource(turn, write)).unwrap();
        }
        let (store, generations) = (bed.store.clone(), bed.generations);
        let mut again = Bed { store: store.clone(), generations, ..Bed::new() };
        again.call(|flows, turn| flows.load(turn, store, Vec::new()));
        again.greets();
        let mut last = None;
        while again.sent() != last {
            last = again.sent();
            assert!(last.is_some_and(|last| last.number < 20), "it is sent over and over");
            again.decides(0, Some(undone()));
        }
        for priority in priorities {
            let standing = again.flows.standing(&device(), id(*priority));
            assert_eq!(standing, Some(FlowStanding::Failed), "rule {priority}");
        }
        assert_eq!(again.root(), 0);
    }
}

/// A server that rule 1 cuts off. Its agent undoes each batch that changes the rule, and answers
/// questions about its table.
#[derive(Default)]
struct CutOffByOne {
    table: BTreeMap<FlowId, u64>,
    heard: usize,
    /// The times when batches were undone.
    undone: Vec<MonoTime>,
}

impl CutOffByOne {
    fn sums(&self) -> Buckets {
        let mut sums = Buckets::default();
        self.table.iter().for_each(|(id, digest)| sums.toggle(*id, *digest, EntryState::Present));
        sums
    }

    /// Handles sent messages and answers them, until none is left.
    fn answers(&mut self, bed: &mut Bed) {
        while let Some(effect) = bed.told.get(self.heard).cloned() {
            self.heard += 1;
            let Effect::Send { message, .. } = effect else { continue };
            if let FlowDown::Batch(batch) = &message {
                let refused = self.applies(batch).then(undone);
                assert!(
                    refused.is_none() || batch.confirm_timeout.is_some(),
                    "cut off, and nobody undoes it"
                );
                if refused.is_some() {
                    bed.now = bed.now + Duration::from_secs(30);
                    self.undone.push(bed.now);
                }
                let root = self.sums().root();
                bed.decides(root, refused);
            } else if let Some(answer) = self.answer(message) {
                bed.call(|flows, turn| flows.received(turn, &node(), answer));
            }
        }
    }

    /// The answer to a question.
    fn answer(&self, message: FlowDown) -> Option<FlowUp> {
        let device = device().bridge;
        let FlowDown::Ask { number, ask, .. } = message else { return None };
        match ask {
            FlowAsk::Buckets => Some(FlowUp::Buckets { device, number, sums: self.sums().all().to_vec() }),
            FlowAsk::Entries(buckets) => {
                let is_asked = |id: &FlowId| buckets.iter().any(|it| usize::from(*it) == bucket_of(*id));
                let table = self.table.iter().filter(|(id, _)| is_asked(id));
                let entries = table.map(|(id, digest)| (*id, *digest, EntryState::Present)).collect();
                Some(FlowUp::Entries { device, number, entries, last: true })
            }
            _ => None,
        }
    }

    /// Applies a batch. Returns true if the batch cut the server off; then none of it is kept.
    fn applies(&mut self, batch: &FlowBatch) -> bool {
        let Content::Inline(bytes) = &batch.ops else { panic!("it is small") };
        let ops: Vec<OpsRef<'_>> = read_ops(bytes).collect::<Result<_, _>>().unwrap();
        let changes_one = |op: &OpsRef<'_>| match op {
            OpsRef::Put { id: of, .. } => *of == id(1),
            OpsRef::Remove(of) => *of == id(1) && self.table.contains_key(of),
        };
        if ops.iter().any(changes_one) {
            return true;
        }
        for op in ops {
            match op {
                OpsRef::Put { id, packed, .. } => {
                    self.table.insert(id, Packed::from_bytes(packed).unwrap().digest());
                }
                OpsRef::Remove(id) => drop(self.table.remove(&id)),
            }
        }
        false
    }
}

#[test]
fn a_correction_that_cuts_its_server_off_is_retried_ever_later() {
    let mut bed = Bed::new();
    bed.greets();
    for priority in [1, 2] {
        bed.applies(priority).unwrap();
        let root = bed.root();
        bed.decides(root, None);
    }
    let mut agent = CutOffByOne { heard: bed.told.len(), ..CutOffByOne::default() };
    bed.decides(0, None); // it has lost both
    agent.answers(&mut bed);
    let mut other = 10;
    while agent.undone.len() < 12 {
        // Writes go on in the meantime.
        other += 1;
        bed.applies(other).unwrap();
        agent.answers(&mut bed);
        assert_eq!(bed.flows.standing(&device(), id(other)), Some(FlowStanding::Added));
        assert_eq!(bed.flows.standing(&device(), id(1)), Some(FlowStanding::PendingAdd));
        bed.now = bed.flows.next_due().expect("it is tried again");
        bed.call(|flows, turn| flows.timeout(turn));
        agent.answers(&mut bed);
    }
    assert_eq!(bed.flows.standing(&device(), id(2)), Some(FlowStanding::Added), "it is not to blame");
    let pauses: Vec<Duration> = agent.undone.windows(2).map(|it| it[1].since(it[0])).collect();
    // The first two batches are the search for the rule to blame.
    assert!(pauses.is_sorted() && pauses[1] >= Duration::from_secs(60), "{pauses:?}");
    assert!(pauses.last().is_some_and(|last| *last >= Duration::from_secs(3600)), "{pauses:?}");
    // A comparison that an operator asks for tries at once.
    let tries = agent.undone.len();
    bed.call(|flows, turn| flows.reconcile(turn, &device(), None)).unwrap();
    agent.answers(&mut bed);
    assert_eq!(agent.undone.len(), tries + 1);
    bed.call(|flows, turn| {
        let write = FlowWrite { device: device(), ops: vec![FlowOp::Remove(id(1))] };
        flows.begin(turn, FlowAction::Delete, vec![vec![write]], None)
    })
    .unwrap();
    agent.answers(&mut bed);
    assert_eq!(agent.sums().root(), bed.root(), "without the rule all is well");
}

#[test]
fn an_entry_that_cannot_be_taken_off_stays_failed() {
    let mut bed = Bed::new();
    bed.greets();
    bed.applies(1).unwrap();
    bed.decides(0, Some(undone()));
    let failed = bed.sent();
    // The agent has the entry all the same, and undoes the removal.
    let agent = CutOffByOne { table: [(id(1), rule(1).digest())].into(), ..CutOffByOne::default() };
    let (mut heard, root) = (bed.told.len(), agent.sums().root());
    bed.decides(root, None);
    while let Some(effect) = bed.told.get(heard).cloned() {
        heard += 1;
        let Effect::Send { message, .. } = effect else { continue };
        if let Some(answer) = agent.answer(message) {
            bed.call(|flows, turn| flows.received(turn, &node(), answer));
        }
    }
    assert_ne!(bed.sent(), failed, "the entry is to be removed");
    bed.decides(root, Some(undone()));
    assert_eq!(bed.flows.standing(&device(), id(1)), Some(FlowStanding::Failed));
}

#[test]
fn all_that_no_table_has_goes_but_for_what_cuts_the_server_off() {
    let mut bed = Bed::new();
    bed.greets();
    bed.applies(20).unwrap();
    let root = bed.root();
    bed.decides(root, None);
    let table = (1..=8).chain([20]).map(|priority| (id(priority), rule(priority).digest())).collect();
    let mut agent = CutOffByOne { table, heard: bed.told.len(), ..CutOffByOne::default() };
    let root = agent.sums().root();
    bed.decides(root, None);
    agent.answers(&mut bed);
    for _ in 0..40 {
        bed.now = bed.flows.next_due().expect("one is tried again");
        bed.call(|flows, turn| flows.timeout(turn));
        agent.answers(&mut bed);
    }
    let left: Vec<FlowId> = agent.table.keys().copied().collect();
    let mut wanted = vec![id(1), id(20)];
    wanted.sort_unstable();
    assert_eq!(left, wanted);
}
