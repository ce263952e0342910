//! The machine alone: a site that is told what to say, an agent whose answers are given, and what comes of that.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_shared::model::flow::{
    DeviceName, Entry, FlowDown, FlowId, FlowRefusal, FlowState, FlowUp, Packed, SwitchState,
};
use muster_shared::{Epoch, Generation, Generations, MonoTime, NodeId};
use muster_template::FlowSet;
use serde_json::json;

use crate::record::FlowSnapshot;
use crate::{
    Effect, FlowAction, FlowOp, FlowWrite, Flows, Job, Limits, OperationStatus, Owner, Refused,
    ResourceWrite, Site, Turn, Want,
};

/// What the rest of the site says.
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
    /// What a store would have.
    store: FlowSnapshot,
    told: Vec<Effect>,
    /// Connections of the agent so far.
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
        self.flows.audit();
        result
    }

    /// The agent greets over a new connection, and has no tables.
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

    /// The agent says how the batch that was sent last ended.
    fn decides(&mut self, root: u64, refused: Option<FlowRefusal>) {
        let state = FlowState {
            device: device().bridge,
            decided: self.sent().expect("a batch was sent"),
            refused,
            root,
            entries: 1,
            wrong: 0,
            foreign: 0,
            switch: SwitchState::Watched,
            reason: String::new(),
        };
        self.states(vec![state]);
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
fn a_batch_is_said_again_on_another_connection_and_when_nothing_is_heard_of_it() {
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
fn what_a_held_table_lacks_is_told_and_not_put_right() {
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
    assert_ne!(bed.sent(), batch, "it is put right once nobody holds it");
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
