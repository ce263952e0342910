//! The flow tables of a node and its agent: devices that run or refuse batches, lose rules and have
//! foreign ones.

use std::collections::BTreeMap;

use muster_shared::Generation;
use muster_shared::model::flow::{
    Action, Bridge, Buckets, Criterion, Entry, EntryState, FlowAsk, FlowBatch, FlowCounters, FlowDown,
    FlowId, FlowRefusal, FlowState, FlowUp, ForeignRule, Instruction, OpsRef, Output, Packed, Port, Rule,
    SwitchState, TableCounters, TraceQuestion, TraceStep, bucket_of, read_ops,
};
use muster_shared::model::{Content, ContentDigest, Up};

#[derive(Default)]
pub struct FlowDevice {
    pub entries: BTreeMap<FlowId, (Packed, EntryState)>,
    pub decided: Generation,
    pub refused: Option<FlowRefusal>,
    pub foreign: Vec<ForeignRule>,
}

impl FlowDevice {
    /// Returns what the rules do with a packet. The highest one that takes it counts; only outputs and fields work.
    fn traced(&self, bridge: &Bridge, question: &TraceQuestion) -> Vec<TraceStep> {
        let takes = |rule: &Rule| {
            rule.selector.iter().all(|criterion| match criterion {
                Criterion::InPort(port) => *port == Port::Named(question.in_port.clone()),
                Criterion::Field { field, value, mask } => {
                    question.packet.get(*field) & mask.unwrap_or(field.all_bits()) == *value
                }
            })
        };
        let rules = self.entries.iter().filter_map(|(id, (packed, _))| match packed.unpack() {
            Entry::Rule(rule) => Some((rule.priority, *id, rule)),
            _ => None,
        });
        let Some((_, id, rule)) =
            rules.filter(|(.., rule)| takes(rule)).max_by_key(|(priority, id, _)| (*priority, *id))
        else {
            return vec![TraceStep::Miss { bridge: bridge.clone(), table: 0 }];
        };
        let mut packet = question.packet.clone();
        let mut steps =
            vec![TraceStep::Rule { bridge: bridge.clone(), table: 0, cookie: id.0, matches: String::new() }];
        for instruction in rule.treatment {
            match instruction {
                Instruction::Do(Action::Output(Output::Port(Port::Named(port)))) => {
                    let (bridge, packet) = (bridge.clone(), packet.clone());
                    steps.push(TraceStep::Output { bridge, port, packet });
                }
                Instruction::Do(action) => assert!(packet.apply(&action)),
                other => panic!("{other:?}"),
            }
        }
        steps
    }
}

/// The devices of a node.
#[derive(Default)]
pub struct FlowHost {
    pub devices: BTreeMap<Bridge, FlowDevice>,
    /// Batches wait until the test runs them.
    pub held: bool,
    pub waiting: Vec<FlowBatch>,
    /// Entries that no device takes, with the reason.
    pub bad: BTreeMap<FlowId, (String, bool)>,
    /// Every batch is refused for good, and no entry is to blame.
    pub down: bool,
    /// With more than this many entries, a refusal names no entry.
    pub blame_none_above: Option<usize>,
    /// Numbers of batches that have ended, and of those refused.
    pub ran: usize,
    pub refusals: usize,
    /// New states of entries, set right after sums were reported.
    pub meanwhile: Vec<(FlowId, EntryState)>,
    /// Questions from the controller.
    pub asked: Vec<FlowAsk>,
    /// The number of the last one.
    pub last_asked: u64,
    /// Traces are not answered.
    pub silent: bool,
    /// The switch refuses traces, with this reason.
    pub trace_error: Option<String>,
    fetched: BTreeMap<ContentDigest, Vec<u8>>,
}

impl FlowHost {
    pub fn take(&mut self, message: FlowDown) -> Vec<Up> {
        match message {
            FlowDown::Batch(batch) => {
                self.waiting.retain(|other| other.device != batch.device);
                if let Content::Stored { digest, .. } = batch.ops {
                    self.waiting.push(batch);
                    return vec![Up::Fetch { digest, offset: 0 }];
                }
                self.waiting.push(batch);
                if self.held { Vec::new() } else { self.run() }
            }
            FlowDown::Ask { device, number, ask } => {
                let sums = matches!(ask, FlowAsk::Buckets);
                let mut answer = self.answer(device.clone(), number, ask);
                for (id, state) in self.meanwhile.drain(..).collect::<Vec<_>>().into_iter().filter(|_| sums) {
                    self.devices.get_mut(&device).unwrap().entries.get_mut(&id).unwrap().1 = state;
                    answer.push(self.state(&device));
                }
                answer
            }
            FlowDown::Forget { device, .. } => {
                self.devices.remove(&device);
                Vec::new()
            }
        }
    }

    pub fn chunk(&mut self, digest: ContentDigest, offset: u64, bytes: &[u8]) -> Vec<Up> {
        let content = self.fetched.entry(digest).or_default();
        content.truncate(usize::try_from(offset).unwrap());
        content.extend(bytes);
        let whole = self.waiting.iter().any(
            |batch| matches!(batch.ops, Content::Stored { digest: of, size } if of == digest && size == content.len() as u64),
        );
        match whole {
            true if self.held => Vec::new(),
            true => self.run(),
            false if bytes.is_empty() => Vec::new(),
            false => vec![Up::Fetch { digest, offset: content.len() as u64 }],
        }
    }

    /// Runs all waiting batches.
    pub fn run(&mut self) -> Vec<Up> {
        let batches = std::mem::take(&mut self.waiting);
        batches.into_iter().map(|batch| self.decide(batch)).collect()
    }

    fn decide(&mut self, batch: FlowBatch) -> Up {
        let bytes = match batch.ops {
            Content::Inline(bytes) => bytes,
            Content::Stored { digest, .. } => self.fetched.remove(&digest).expect("fetched"),
        };
        let device = self.devices.entry(batch.device.clone()).or_default();
        if batch.generation > device.decided {
            let ops: Vec<OpsRef<'_>> = read_ops(&bytes).map(Result::unwrap).collect();
            let is_bad = |op: &OpsRef<'_>| match op {
                OpsRef::Put { id, .. } => {
                    self.bad.get(id).map(|(why, permanent)| (*id, why.clone(), *permanent))
                }
                OpsRef::Remove(_) => None,
            };
            device.decided = batch.generation;
            let nameless = self.blame_none_above.is_some_and(|most| ops.len() > most);
            let blamed = ops.iter().find_map(is_bad).map(|(id, reason, permanent)| FlowRefusal {
                id: (!nameless).then_some(id),
                reason,
                permanent,
            });
            let silent =
                || FlowRefusal { id: None, reason: "the switch does not answer".into(), permanent: true };
            device.refused = blamed.or_else(|| self.down.then(silent));
            self.ran += 1;
            self.refusals += usize::from(device.refused.is_some());
            if device.refused.is_none() {
                for op in ops {
                    match op {
                        OpsRef::Put { id, packed, .. } => {
                            device
                                .entries
                                .insert(id, (Packed::from_bytes(packed).unwrap(), EntryState::Present));
                        }
                        OpsRef::Remove(id) => drop(device.entries.remove(&id)),
                    }
                }
            }
        }
        self.state(&batch.device)
    }

    pub fn state(&self, bridge: &Bridge) -> Up {
        Up::Flow(FlowUp::States { states: vec![self.state_of(bridge)], complete: false })
    }

    fn state_of(&self, bridge: &Bridge) -> FlowState {
        let device = &self.devices[bridge];
        FlowState {
            device: bridge.clone(),
            decided: device.decided,
            refused: device.refused.clone(),
            root: self.sums(bridge).root(),
            entries: u32::try_from(device.entries.len()).unwrap(),
            wrong: 0,
            foreign: u32::try_from(device.foreign.len()).unwrap(),
            switch: SwitchState::Watched,
            reason: String::new(),
            entry: None,
        }
    }

    fn sums(&self, bridge: &Bridge) -> Buckets {
        let mut sums = Buckets::default();
        for (id, (packed, state)) in &self.devices[bridge].entries {
            sums.toggle(*id, packed.digest(), *state);
        }
        sums
    }

    /// A bridge without rules of ours is asked, too.
    fn trace(&self, device: Bridge, number: u64, question: &TraceQuestion) -> Vec<Up> {
        if self.silent {
            return Vec::new();
        }
        let none = FlowDevice::default();
        let result = match &self.trace_error {
            Some(why) => Err(why.clone()),
            None => Ok(self.devices.get(&device).unwrap_or(&none).traced(&device, question)),
        };
        vec![Up::Flow(FlowUp::Traced { number, device, result })]
    }

    pub fn greeting(&self) -> Vec<Up> {
        let states = self.devices.keys().map(|bridge| self.state_of(bridge)).collect();
        vec![Up::Flow(FlowUp::States { states, complete: true })]
    }

    fn answer(&mut self, device: Bridge, number: u64, ask: FlowAsk) -> Vec<Up> {
        self.asked.push(ask.clone());
        self.last_asked = number;
        if let FlowAsk::Trace(question) = ask {
            return self.trace(device, number, &question);
        }
        if !self.devices.contains_key(&device) {
            return Vec::new();
        }
        let known = &self.devices[&device];
        let up = match ask {
            FlowAsk::Buckets => FlowUp::Buckets { number, sums: self.sums(&device).all().to_vec(), device },
            FlowAsk::Entries(buckets) => {
                let asked = |id: &FlowId| buckets.contains(&u16::try_from(bucket_of(*id)).unwrap());
                let entries = known.entries.iter().filter(|(id, _)| asked(id));
                let entries = entries.map(|(id, (packed, state))| (*id, packed.digest(), *state)).collect();
                FlowUp::Entries { device, number, entries, last: true }
            }
            FlowAsk::Stats => {
                let count = |id: &FlowId| FlowCounters { id: *id, packets: 2, bytes: 100, duration: 7 };
                let entries = known.entries.keys().map(count).collect();
                let tables = vec![TableCounters { table: 0, active: 1, lookups: 3, matches: 2 }];
                FlowUp::Stats { device, number, entries, tables, last: true }
            }
            FlowAsk::Foreign => FlowUp::Foreign { number, rules: known.foreign.clone(), last: true, device },
            FlowAsk::Look => return vec![self.state(&device)],
            FlowAsk::Trace(_) => unreachable!("answered above"),
        };
        vec![Up::Flow(up)]
    }
}
