//! One device of a node: its log is a list, its switch a map.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::flow::{
    Bridge, Buckets, EntryState, FlowBatch, FlowDown, FlowId, FlowRefusal, FlowState, FlowUp, ID_PREFIX, Ops,
    OpsRef, Packed, Rule, read_ops,
};
use muster_shared::model::{Content, Down, Up, Welcome};
use muster_shared::{Epoch, Generation};

use super::node::{HEARTBEAT, Node, generation};
use crate::{
    Appended, Compacted, Compared, DivergentForms, Extraneous, FlowEffect, FlowInput, Input, Loaded,
    NotApplied, Op, Repaired, TableEntry, Undecided,
};

/// A record of a log.
#[derive(Clone, Debug)]
pub enum Record {
    Batch { generation: Generation, ops: Vec<Op>, guarded: bool },
    Decided { generation: Generation, refused: Option<FlowRefusal> },
    Expired(Vec<FlowId>),
    Whole { kept: Vec<TableEntry>, decided: Generation, refused: Option<FlowRefusal> },
    Forgotten(Generation),
}

/// The node with its device `br0`.
pub struct FlowNode {
    pub bed: Node,
    pub log: Vec<Record>,
    /// Id to digest, of rules of ours.
    pub switch: BTreeMap<FlowId, u64>,
    pub is_back: bool,
    /// The bridge carries the path to the controller.
    pub is_management: bool,
    pub disk_is_full: bool,
    /// Batches with this rule are refused, and it cannot be repaired.
    pub bad: Option<FlowId>,
    /// Missing rules have ended by their timeouts.
    pub timeouts: Vec<FlowId>,
    /// The form that the switch makes of a digest.
    pub odd: BTreeMap<u64, u64>,
    pub foreign: u32,
    /// Most of the log is.
    pub is_dead: bool,
    /// Effects of the host are not answered.
    pub is_slow: bool,
    /// The log is being rewritten, meanwhile.
    pub is_moving: bool,
    pub held: Vec<FlowEffect>,
    pub done: Vec<&'static str>,
    next_at: u32,
}

pub fn br0() -> Bridge {
    "br0".parse().unwrap()
}

pub fn flow(n: u64) -> FlowId {
    FlowId(u64::from(ID_PREFIX) << 48 | n)
}

/// A rule's bytes; its digest changes with `goto`.
pub fn packed(goto: u8) -> Packed {
    let entry = muster_shared::model::flow::Entry::Rule(Rule {
        table: 0,
        priority: 1,
        selector: Vec::new(),
        treatment: vec![muster_shared::model::flow::Instruction::GotoTable(goto)],
        idle_timeout: 0,
        hard_timeout: 0,
    });
    Packed::new(&entry).unwrap()
}

pub fn ops(puts: &[(u64, u8)], removes: &[u64]) -> Vec<u8> {
    let mut ops = Ops::default();
    puts.iter().for_each(|(n, goto)| ops.put(flow(*n), &packed(*goto)));
    removes.iter().for_each(|n| ops.remove(flow(*n)));
    ops.into_bytes()
}

pub fn table(rules: &[(u64, u8)]) -> BTreeMap<FlowId, u64> {
    rules.iter().map(|(n, goto)| (flow(*n), packed(*goto).digest())).collect()
}

pub fn root(rules: &[(u64, u8)], state: EntryState) -> u64 {
    let mut sums = Buckets::default();
    table(rules).into_iter().for_each(|(id, digest)| sums.toggle(id, digest, state));
    sums.root()
}

impl FlowNode {
    /// Connected; the switch is there.
    pub fn new() -> Self {
        let mut bed = Self::with(Node::online(), Vec::new(), BTreeMap::new());
        bed.bed.sent.clear();
        bed
    }

    fn with(bed: Node, log: Vec<Record>, switch: BTreeMap<FlowId, u64>) -> Self {
        let mut bed = Self::held(bed, log, switch);
        bed.drain();
        bed
    }

    fn held(bed: Node, log: Vec<Record>, switch: BTreeMap<FlowId, u64>) -> Self {
        Self {
            bed,
            log,
            switch,
            is_back: true,
            is_management: false,
            disk_is_full: false,
            bad: None,
            timeouts: Vec::new(),
            odd: BTreeMap::new(),
            foreign: 0,
            is_dead: false,
            is_moving: false,
            is_slow: false,
            held: Vec::new(),
            done: Vec::new(),
            next_at: 1_000,
        }
    }

    /// As after kill -9, connected again.
    pub fn crash(self) -> Self {
        let Self { bed, log, switch, is_back, .. } = self;
        let loaded = load(&log);
        let bed = Node::with_flows(bed.disk.into_values().collect(), loaded);
        let mut bed = Self { is_back, ..Self::with(bed, log, switch) };
        bed.bed.greet();
        bed.drain();
        bed
    }

    /// A new process whose host does not answer yet.
    pub fn started(log: Vec<Record>, switch: BTreeMap<FlowId, u64>) -> Self {
        let bed = Node::with_flows(Vec::new(), load(&log));
        let mut bed = Self { is_slow: true, ..Self::held(bed, log, switch) };
        bed.drain();
        bed
    }

    pub fn batch(&mut self, number: u64, bytes: Vec<u8>) {
        self.send(number, None, bytes);
    }

    pub fn guarded(&mut self, number: u64, bytes: Vec<u8>) {
        self.send(number, Some(20), bytes);
    }

    fn send(&mut self, number: u64, confirm_timeout: Option<u32>, bytes: Vec<u8>) {
        let ops = Content::Inline(bytes);
        self.down(FlowDown::Batch(FlowBatch {
            device: br0(),
            generation: generation(number),
            confirm_timeout,
            ops,
        }));
    }

    pub fn down(&mut self, down: FlowDown) {
        self.bed.down(Down::Flow(down));
        self.drain();
    }

    pub fn input(&mut self, input: FlowInput) {
        self.bed.input(Input::Flow { device: br0(), input });
        self.drain();
    }

    pub fn after(&mut self, time: Duration) {
        self.bed.after(time);
        self.drain();
    }

    /// Everything that is due within a while.
    pub fn settle(&mut self) {
        for _ in 0..40 {
            self.after(Duration::from_secs(1));
        }
    }

    pub fn go(&mut self) {
        self.is_back = false;
        self.switch.clear();
        self.input(FlowInput::Gone { reason: "no bridge br0 on this node".into() });
    }

    pub fn back(&mut self) {
        self.is_back = true;
        self.input(FlowInput::Back);
    }

    /// The connection is lost, and there is a new one.
    pub fn reconnect(&mut self) {
        self.reconnect_to(0);
    }

    /// As [`Self::reconnect`], to a controller that reads so many additions.
    pub fn reconnect_to(&mut self, reads: u32) {
        self.bed.input(Input::Disconnected { reason: "lost".into() });
        self.bed.after(Duration::from_secs(1));
        self.bed.input(Input::Connected);
        let epoch = Epoch(1).into();
        self.bed.down(Down::Welcome(Welcome { epoch, want_ledger: false, heartbeat: HEARTBEAT, reads }));
        self.drain();
    }

    /// The latest report about the device.
    pub fn state(&self) -> FlowState {
        let states = self.bed.sent.iter().rev().find_map(|up| match up {
            Up::Flow(FlowUp::States { states, .. }) => states.first(),
            _ => None,
        });
        states.expect("a state was told").clone()
    }

    pub fn states_said(&self) -> usize {
        self.bed.sent.iter().filter(|up| matches!(up, Up::Flow(FlowUp::States { .. }))).count()
    }

    /// Answers what was not answered.
    pub fn release(&mut self) {
        (self.is_slow, self.is_moving) = (false, false);
        for effect in std::mem::take(&mut self.held) {
            self.work(effect);
        }
        self.drain();
    }

    pub fn drain(&mut self) {
        while let Some((device, effect)) = self.bed.flows.pop_front() {
            assert_eq!(device, br0());
            self.work(effect);
        }
    }

    fn work(&mut self, effect: FlowEffect) {
        let is_host = matches!(
            effect,
            FlowEffect::Apply { .. } | FlowEffect::Compare { .. } | FlowEffect::Repair { .. }
        );
        let is_log = matches!(effect, FlowEffect::Compact { .. });
        if self.is_slow && is_host || self.is_moving && is_log {
            return self.held.push(effect);
        }
        let answer = match effect {
            FlowEffect::Watch if self.is_back => FlowInput::Back,
            FlowEffect::Watch => FlowInput::Gone { reason: "no bridge br0 on this node".into() },
            FlowEffect::Leave | FlowEffect::Drop => return,
            FlowEffect::Filled => return self.done.push("filled"),
            FlowEffect::Cancel { .. } => {
                self.done.push("cancel");
                return self.held.clear();
            }
            FlowEffect::Append { generation, ops, guard } => self.append(generation, ops, guard),
            FlowEffect::Decide { generation, refused } => {
                let result = self.record(Record::Decided { generation, refused });
                FlowInput::Decided { generation, result }
            }
            FlowEffect::Expire { ids } => {
                let result = self.record(Record::Expired(ids.clone()));
                FlowInput::Expired { ids, result }
            }
            FlowEffect::Forget { generation } => {
                FlowInput::Forgotten(self.record(Record::Forgotten(generation)).map(drop))
            }
            FlowEffect::Compact { kept, decided, refused } => self.compact(&kept, decided, refused),
            FlowEffect::Apply { number, ops, .. } => FlowInput::Applied { number, result: self.apply(&ops) },
            FlowEffect::Compare { number, kept, odd } => {
                FlowInput::Compared { number, result: self.compare(&kept, &odd) }
            }
            FlowEffect::Repair { number, put, remove } => {
                FlowInput::Repaired { number, result: self.repair(&put, &remove) }
            }
            FlowEffect::Count { number } => {
                FlowInput::Counted { number, entries: Vec::new(), tables: Vec::new(), last: true }
            }
            FlowEffect::Foreign { number } => FlowInput::Foreigners { number, rules: Vec::new(), last: true },
            FlowEffect::Trace { number, .. } => FlowInput::Traced { number, result: Ok(Vec::new()) },
        };
        self.bed.input(Input::Flow { device: br0(), input: answer });
    }

    fn record(&mut self, record: Record) -> Result<u64, String> {
        if self.disk_is_full {
            return Err("disk full".into());
        }
        self.log.push(record);
        Ok(if self.is_dead { 100 * 1024 } else { 100 })
    }

    fn append(&mut self, generation: Generation, ops: Content, guard: bool) -> FlowInput {
        let Content::Inline(bytes) = ops else { panic!("tests send operations inline") };
        let mut list = Vec::new();
        for op in read_ops(&bytes) {
            list.push(match op.unwrap() {
                OpsRef::Put { id, packed, .. } => {
                    self.next_at += 1;
                    let digest = Packed::from_bytes(packed).unwrap().digest();
                    Op { id, digest, at: self.next_at, length: packed.len() as u16, put: true }
                }
                OpsRef::Remove(id) => Op { id, digest: 0, at: 0, length: 0, put: false },
            });
        }
        let guarded = guard && self.is_management;
        let recorded = self.record(Record::Batch { generation, ops: list.clone(), guarded });
        let challenge = guarded.then(|| super::node::CHALLENGE.to_vec());
        let result = recorded.map(|_| Appended { ops: list, challenge });
        let refused = |reason| FlowRefusal { id: None, reason, permanent: false };
        FlowInput::Appended { generation, result: result.map_err(refused) }
    }

    fn compact(
        &mut self,
        kept: &[TableEntry],
        decided: Generation,
        refused: Option<FlowRefusal>,
    ) -> FlowInput {
        self.done.push("compact");
        let at: Vec<u32> = (0..kept.len() as u32).map(|n| 10_000 + n).collect();
        let moved = kept.iter().zip(&at).map(|(it, at)| TableEntry { at: *at, ..*it }).collect();
        self.log = vec![Record::Whole { kept: moved, decided, refused }];
        FlowInput::Compacted(Ok(Compacted { at, log: 1 }))
    }

    fn apply(&mut self, ops: &[Op]) -> Result<DivergentForms, NotApplied> {
        self.done.push("apply");
        if !self.is_back {
            return Err(NotApplied::Gone { reason: "the switch went away".into() });
        }
        if let Some(bad) = ops.iter().find(|op| op.put && Some(op.id) == self.bad) {
            let reason = "no port veth9 on br0".to_owned();
            return Err(NotApplied::Refused(FlowRefusal { id: Some(bad.id), reason, permanent: true }));
        }
        let mut odd = DivergentForms::new();
        for op in ops {
            if op.put {
                let form = self.form(op.digest);
                self.switch.insert(op.id, form);
                if form != op.digest {
                    odd.insert(op.id, form);
                }
            } else {
                self.switch.remove(&op.id);
            }
        }
        Ok(odd)
    }

    fn form(&self, digest: u64) -> u64 {
        *self.odd.get(&digest).unwrap_or(&digest)
    }

    fn compare(&mut self, kept: &[TableEntry], odd: &DivergentForms) -> Result<Compared, String> {
        self.done.push("compare");
        if !self.is_back {
            return Err("the switch went away".into());
        }
        let mut found = Compared { foreign: self.foreign, ..Compared::default() };
        let mut left = self.switch.clone();
        for it in kept.iter().filter(|it| it.state != EntryState::Expired) {
            match left.remove(&it.id) {
                None if self.timeouts.contains(&it.id) => found.ended.push(it.id),
                None => found.missing.push(it.id),
                Some(form) if form == it.digest || odd.get(&it.id) == Some(&form) => {}
                Some(_) => found.altered.push(it.id),
            }
        }
        found.extraneous =
            left.keys().map(|id| Extraneous(id.0.to_be_bytes().to_vec().into_boxed_slice())).collect();
        Ok(found)
    }

    fn repair(&mut self, put: &[TableEntry], remove: &[Extraneous]) -> Result<Repaired, String> {
        self.done.push("repair");
        if !self.is_back {
            return Err("the switch went away".into());
        }
        let mut repaired = Repaired::default();
        for it in put {
            if Some(it.id) == self.bad {
                repaired.failed.push((it.id, "no port veth9 on br0".into()));
                continue;
            }
            let form = self.form(it.digest);
            self.switch.insert(it.id, form);
            if form != it.digest {
                repaired.odd.insert(it.id, form);
            }
        }
        for Extraneous(id) in remove {
            self.switch.remove(&FlowId(u64::from_be_bytes(id[..].try_into().unwrap())));
        }
        Ok(repaired)
    }
}

/// As a host loads its log.
fn load(log: &[Record]) -> Vec<Loaded> {
    let mut kept: BTreeMap<FlowId, TableEntry> = BTreeMap::new();
    let (mut decided, mut refused, mut undecided) = (Generation::default(), None, None);
    let mut forgotten = false;
    for record in log.iter().cloned() {
        match record {
            Record::Batch { generation, ops, guarded } => {
                forgotten = false;
                undecided = Some(Undecided { generation, ops, guarded });
            }
            Record::Decided { generation, refused: why } => {
                let batch = undecided.take().filter(|it: &Undecided| it.generation == generation);
                for op in batch.filter(|_| why.is_none()).map(|it| it.ops).unwrap_or_default() {
                    let Op { id, digest, at, length, put } = op;
                    match put {
                        true => {
                            kept.insert(id, TableEntry { id, digest, at, length, state: EntryState::Present })
                        }
                        false => kept.remove(&id),
                    };
                }
                (decided, refused) = (generation, why);
            }
            Record::Expired(ids) => ids.iter().for_each(|id| {
                kept.get_mut(id).unwrap().state = EntryState::Expired;
            }),
            Record::Whole { kept: whole, decided: generation, refused: why } => {
                kept = whole.into_iter().map(|it| (it.id, it)).collect();
                (decided, refused, undecided) = (generation, why, None);
            }
            Record::Forgotten(generation) => {
                kept.clear();
                (decided, refused, undecided, forgotten) = (generation, None, None, true);
            }
        }
    }
    if log.is_empty() {
        return Vec::new();
    }
    let kept = kept.into_values().collect();
    vec![Loaded { device: br0(), kept, decided, refused, undecided, forgotten, log: 100 }]
}
