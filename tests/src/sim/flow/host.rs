//! The work of a server for its agent's flow tables: logs on its disk, and the switch, each with its fate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_agent_core::{
    Appended, Compacted, Extraneous, FlowEffect, FlowInput, Input, NotApplied, Op, TableEntry,
};
use muster_shared::model::flow::{Bridge, FlowId, FlowRefusal, OpsRef, Packed, read_ops};
use muster_shared::model::{Content, ContentDigest};
use muster_shared::{Generation, MonoTime};

use super::super::fault::Kind;
use super::super::job_fate::Work;
use super::super::world::World;
use super::entries::device;
use super::log::{Log, Record};
use super::switch::{Bundled, MANAGEMENT, place};

/// The work that an agent's process has under way at its devices.
#[derive(Debug, Default)]
pub struct Hands {
    /// Devices that are watched.
    pub watched: BTreeSet<Bridge>,
    /// The work of each device that is not cancelled, by the agent's number.
    under_way: BTreeMap<Bridge, u64>,
    /// Orders for logs come to their ends in their order.
    logs_until: MonoTime,
}

/// Work on a device that comes to its next step.
#[derive(Clone, Debug)]
pub enum FlowWork {
    /// The switch is looked at for the first time.
    Seen,
    /// The record was written and is durable.
    Logged(Box<FlowInput>),
    /// The log is rewritten.
    Compact(Vec<TableEntry>, Vec<Packed>, Generation, Option<FlowRefusal>),
    /// Or with nothing in it.
    Forget(Generation),
    /// The switch takes a bundle, or does not.
    Apply(u64, Vec<Bundled>),
    /// The switch is read.
    Compare(u64, Vec<(TableEntry, Packed)>),
    /// Differences are corrected, one by one.
    Repair(u64, Vec<(FlowId, Packed)>, Vec<Extraneous>),
    /// The outcome is told.
    Told(u64, Box<FlowInput>),
    /// The answer to a question is told.
    Says(Box<FlowInput>),
}

const FULL: &str = "no space left on device";

pub(super) fn gone() -> String {
    "the switch does not answer".to_owned()
}

impl World {
    pub(super) fn flow_later(&mut self, at: usize, bridge: &Bridge, after: Duration, work: FlowWork) {
        self.work_later(at, after, Work::Flow(bridge.clone(), work));
    }

    /// Orders for logs take their time one after the other.
    fn log_later(&mut self, at: usize, bridge: &Bridge, work: FlowWork) {
        // A busy disk, once in a while.
        let most = if self.dice.flows.one_in(16) { 400 } else { 8 };
        let takes = self.dice.flows.millis(0, most);
        let now = self.now;
        let Some(process) = &mut self.machines[at].process else { return };
        let due = process.hands.logs_until.max(now) + takes;
        process.hands.logs_until = due;
        self.flow_later(at, bridge, due.since(now), work);
    }

    fn tell_flow(&mut self, at: usize, bridge: &Bridge, input: FlowInput) {
        self.tell_agent(at, Input::Flow { device: bridge.clone(), input });
    }

    fn begin_flow(&mut self, at: usize, bridge: &Bridge, number: u64) {
        let Some(process) = &mut self.machines[at].process else { return };
        let other = process.hands.under_way.insert(bridge.clone(), number);
        if other.is_some() {
            self.violate(format!("two things of {bridge} are under way at once"));
        }
    }

    fn is_under_way(&self, at: usize, bridge: &Bridge, number: u64) -> bool {
        let hands = self.machines[at].process.as_ref().map(|process| &process.hands);
        hands.is_some_and(|hands| hands.under_way.get(bridge) == Some(&number))
    }

    fn log(&mut self, at: usize, bridge: &Bridge) -> &mut Log {
        self.machines[at].disk.logs.entry(bridge.clone()).or_default()
    }

    /// Puts the entry where the agent says it is.
    fn lies(&mut self, at: usize, bridge: &Bridge, id: FlowId, position: u32) -> Option<Packed> {
        let name = device(self.machines[at].name.as_str(), bridge.as_str());
        let found = self.log(at, bridge).read(position);
        match found {
            Some(packed) if place(&name, &packed) == id => Some(packed),
            other => {
                self.violate(format!("{id} of {name} is not in the log at {position}, but {other:?}"));
                None
            }
        }
    }

    /// An agent asks its host.
    pub fn flow_effect(&mut self, at: usize, bridge: &Bridge, effect: FlowEffect) {
        self.shared.borrow_mut().counts.add(format!("flow host {}", name(&effect)));
        match effect {
            FlowEffect::Watch => {
                if let Some(process) = &mut self.machines[at].process {
                    process.hands.watched.insert(bridge.clone());
                }
                let after = self.dice.flows.millis(0, 30);
                self.flow_later(at, bridge, after, FlowWork::Seen);
            }
            FlowEffect::Leave => {
                if let Some(process) = &mut self.machines[at].process {
                    process.hands.watched.remove(bridge);
                }
            }
            FlowEffect::Append { generation, ops, guard } => {
                self.log_batch(at, bridge, generation, &ops, guard)
            }
            FlowEffect::Decide { generation, refused } => {
                let result = self.log_end(at, bridge, Record::Decided { generation, refused });
                self.log_later(
                    at,
                    bridge,
                    FlowWork::Logged(Box::new(FlowInput::Decided { generation, result })),
                );
            }
            FlowEffect::Expire { ids } => {
                let result = self.log_end(at, bridge, Record::Expired(ids.clone()));
                self.log_later(at, bridge, FlowWork::Logged(Box::new(FlowInput::Expired { ids, result })));
            }
            FlowEffect::Compact { kept, decided, refused } => {
                let lie = |it: &TableEntry| self.lies(at, bridge, it.id, it.at);
                let packed: Option<Vec<Packed>> = kept.iter().map(lie).collect();
                let Some(packed) = packed else { return };
                self.log_later(at, bridge, FlowWork::Compact(kept.to_vec(), packed, decided, refused));
            }
            FlowEffect::Forget { generation } => self.log_later(at, bridge, FlowWork::Forget(generation)),
            FlowEffect::Drop => drop(self.machines[at].disk.logs.remove(bridge)),
            FlowEffect::Apply { number, ops, .. } => self.apply_begins(at, bridge, number, &ops),
            FlowEffect::Compare { number, kept, .. } => {
                let lie = |it: &TableEntry| Some((*it, self.lies(at, bridge, it.id, it.at)?));
                let Some(kept) = kept.iter().map(lie).collect() else { return };
                self.begin_flow(at, bridge, number);
                let after = self.flow_takes(at);
                self.flow_later(at, bridge, after, FlowWork::Compare(number, kept));
            }
            FlowEffect::Repair { number, put, remove } => {
                self.repair_is_right(at, bridge, &put);
                let lie = |it: &TableEntry| Some((it.id, self.lies(at, bridge, it.id, it.at)?));
                let Some(put) = put.iter().map(lie).collect() else { return };
                self.begin_flow(at, bridge, number);
                let after = self.flow_takes(at);
                self.flow_later(at, bridge, after, FlowWork::Repair(number, put, remove));
            }
            FlowEffect::Cancel { number } => {
                if self.is_under_way(at, bridge, number)
                    && let Some(process) = &mut self.machines[at].process
                {
                    process.hands.under_way.remove(bridge);
                }
            }
            FlowEffect::Filled => {}
            FlowEffect::Count { number } => self.counts(at, bridge, number),
            FlowEffect::Foreign { number } => self.tells_foreign(at, bridge, number),
            FlowEffect::Trace { number, question } => self.traces(at, bridge, number, &question),
        }
    }

    /// The time that the switch takes for its next step.
    pub(super) fn flow_takes(&mut self, at: usize) -> Duration {
        let whom = self.machines[at].name.to_string();
        let slow = self.faults.strikes(self.now, Kind::SwitchSlow, &whom);
        self.dice.flows.millis(0, if slow { 30_000 } else { 20 })
    }

    fn log_batch(&mut self, at: usize, bridge: &Bridge, generation: Generation, ops: &Content, guard: bool) {
        let result = self.batch_in_log(at, bridge, generation, ops, guard);
        self.excuses_late(at, bridge);
        self.log_later(at, bridge, FlowWork::Logged(Box::new(FlowInput::Appended { generation, result })));
    }

    fn batch_in_log(
        &mut self,
        at: usize,
        bridge: &Bridge,
        generation: Generation,
        ops: &Content,
        guard: bool,
    ) -> Result<Appended, FlowRefusal> {
        let refused = |id, reason: &str, permanent| FlowRefusal { id, reason: reason.to_owned(), permanent };
        let bytes = match ops {
            Content::Inline(bytes) => bytes.clone(),
            Content::Stored { digest, .. } => {
                let stored = self.machines[at].disk.contents.get(digest).cloned().unwrap_or_default();
                if ContentDigest::of(&stored) != *digest {
                    return Err(refused(None, "the content is not there", false));
                }
                self.shared.borrow_mut().counts.add("flow batch is fetched");
                stored
            }
        };
        if self.machines[at].disk.full {
            return Err(refused(None, FULL, false));
        }
        let name = device(self.machines[at].name.as_str(), bridge.as_str());
        let log = self.log(at, bridge);
        let mut logged = Vec::new();
        for op in read_ops(&bytes) {
            let op = op.map_err(|bad| refused(None, &bad.to_string(), true))?;
            logged.push(match op {
                OpsRef::Remove(id) => Op { id, digest: 0, at: 0, length: 0, put: false },
                OpsRef::Put { id, packed, .. } => {
                    let wrong = || refused(Some(id), "this is not what its id says", true);
                    let packed = Packed::from_bytes(packed).map_err(|_| wrong())?;
                    if place(&name, &packed) != id {
                        return Err(wrong());
                    }
                    let length = u16::try_from(packed.bytes().len()).unwrap_or(u16::MAX);
                    Op { id, digest: packed.digest(), at: log.place(&packed), length, put: true }
                }
            });
        }
        let guarded = guard && bridge.as_str() == MANAGEMENT;
        log.append(Record::Batch { generation, ops: logged.clone(), guarded });
        let challenge = guarded.then(|| self.dice.agents.number().to_le_bytes().repeat(2048));
        Ok(Appended { ops: logged, challenge })
    }

    /// A disk that is full may have taken it all the same.
    fn log_end(&mut self, at: usize, bridge: &Bridge, record: Record) -> Result<u64, String> {
        let full = self.machines[at].disk.full;
        match full {
            false => self.log(at, bridge).append(record),
            true if self.dice.flows.one_in(4) => self.log(at, bridge).append_in_doubt(record),
            true => {}
        }
        if full { Err(FULL.to_owned()) } else { Ok(self.log(at, bridge).len()) }
    }

    fn apply_begins(&mut self, at: usize, bridge: &Bridge, number: u64, ops: &[Op]) {
        self.batch_is_on_disk(at, bridge, ops);
        let mut bundle = Vec::new();
        for op in ops {
            let Some(packed) = self.lies(at, bridge, op.id, op.at) else { return };
            bundle.push(if op.put { Bundled::Put(op.id, packed) } else { Bundled::Remove(op.id) });
        }
        self.begin_flow(at, bridge, number);
        let after = self.flow_takes(at);
        self.flow_later(at, bridge, after, FlowWork::Apply(number, bundle));
    }

    /// A step of it is due.
    pub fn flow_works(&mut self, at: usize, bridge: &Bridge, work: FlowWork) {
        match work {
            FlowWork::Seen => self.is_seen(at, bridge),
            FlowWork::Logged(input) => {
                if let Some(log) = self.machines[at].disk.logs.get_mut(bridge) {
                    log.sync();
                }
                self.tell_flow(at, bridge, *input);
            }
            FlowWork::Compact(kept, packed, decided, refused) => {
                let result = if self.machines[at].disk.full {
                    Err(FULL.to_owned())
                } else {
                    let log = self.log(at, bridge);
                    let at = log.rewrite(Record::Base { kept, decided, refused }, packed);
                    log.moved(&at);
                    Ok(Compacted { at, log: log.len() })
                };
                self.tell_flow(at, bridge, FlowInput::Compacted(result));
            }
            FlowWork::Forget(generation) => {
                let result = if self.machines[at].disk.full {
                    Err(FULL.to_owned())
                } else {
                    self.log(at, bridge).rewrite(Record::Forgotten(generation), Vec::new());
                    Ok(())
                };
                self.tell_flow(at, bridge, FlowInput::Forgotten(result));
            }
            FlowWork::Apply(number, bundle) => {
                if self.is_under_way(at, bridge, number) {
                    let result = self.applies_bundle(at, bridge, &bundle);
                    self.told_later(at, bridge, number, FlowInput::Applied { number, result });
                }
            }
            FlowWork::Compare(number, kept) => {
                if self.is_under_way(at, bridge, number) {
                    let result = self.compared(at, bridge, &kept);
                    self.told_later(at, bridge, number, FlowInput::Compared { number, result });
                }
            }
            FlowWork::Repair(number, put, remove) => {
                if self.is_under_way(at, bridge, number) {
                    let result = self.repaired(at, bridge, &put, &remove);
                    self.told_later(at, bridge, number, FlowInput::Repaired { number, result });
                }
            }
            FlowWork::Told(number, input) => {
                if self.is_under_way(at, bridge, number) {
                    if let Some(process) = &mut self.machines[at].process {
                        process.hands.under_way.remove(bridge);
                    }
                    // The connection ended with it, and there is a new one soon.
                    if matches!(*input, FlowInput::Applied { result: Err(NotApplied::Gone { .. }), .. }) {
                        let after = self.dice.flows.millis(1, 3000);
                        self.flow_later(at, bridge, after, FlowWork::Seen);
                    }
                    self.tell_flow(at, bridge, *input);
                }
            }
            FlowWork::Says(input) => self.tell_flow(at, bridge, *input),
        }
    }

    fn told_later(&mut self, at: usize, bridge: &Bridge, number: u64, input: FlowInput) {
        let after = self.flow_takes(at);
        self.flow_later(at, bridge, after, FlowWork::Told(number, Box::new(input)));
    }

    /// Watchers are told whether the device answers.
    pub(super) fn is_seen(&mut self, at: usize, bridge: &Bridge) {
        let machine = &self.machines[at];
        let hands = machine.process.as_ref().map(|process| &process.hands);
        if hands.is_some_and(|hands| hands.watched.contains(bridge)) {
            let there = machine.host.switch.is_there(bridge.as_str());
            let input = if there { FlowInput::Back } else { FlowInput::Gone { reason: gone() } };
            self.tell_flow(at, bridge, input);
        }
    }

    /// Watchers are told that something changed, if the hint is not lost.
    pub(super) fn flow_hints(&mut self, at: usize, bridge: &str, input: FlowInput) {
        let Ok(bridge) = bridge.parse::<Bridge>() else { return };
        let hands = self.machines[at].process.as_ref().map(|process| &process.hands);
        let whom = format!("{}/{bridge}", self.machines[at].name);
        if hands.is_some_and(|hands| hands.watched.contains(&bridge))
            && !self.faults.strikes(self.now, Kind::FlowHintLost, &whom)
        {
            self.tell_flow(at, &bridge, input);
        }
    }
}

fn name(effect: &FlowEffect) -> &'static str {
    match effect {
        FlowEffect::Watch => "watches",
        FlowEffect::Leave => "leaves",
        FlowEffect::Append { guard: true, .. } => "appends a guarded batch",
        FlowEffect::Append { .. } => "appends",
        FlowEffect::Decide { refused: None, .. } => "decides well",
        FlowEffect::Decide { .. } => "decides against",
        FlowEffect::Expire { .. } => "records what ended",
        FlowEffect::Compact { .. } => "compacts",
        FlowEffect::Forget { .. } => "forgets",
        FlowEffect::Drop => "drops",
        FlowEffect::Apply { .. } => "applies",
        FlowEffect::Compare { .. } => "compares",
        FlowEffect::Repair { .. } => "repairs",
        FlowEffect::Cancel { .. } => "cancels",
        FlowEffect::Filled => "is filled",
        FlowEffect::Count { .. } => "counts",
        FlowEffect::Foreign { .. } => "tells what is foreign",
        FlowEffect::Trace { .. } => "traces a packet",
    }
}
