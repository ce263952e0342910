//! Intents: what `muster-intent` decides, carried out by the flow tables, told by agents, asked for by operators and
//! resources.
//!
//! ```text
//!   operators, rows ─▶ Manager ─▶ writes ─▶ flow tables ─▶ agents
//!   agents: ports, beacons ─▶ topology ─┘        └─ ended ─▶ Manager
//! ```
//!
//! **Invariants.** A rule of an intent has the intent as its owner from the write that puts it until it is off its device.
//! What the manager changed is durable before a write that follows from it leaves.
//!
//! Absent: paths, rules and their order (`muster-intent`).

mod load;
mod request;
mod row;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::{DeviceKey, Flows, Turn};
use muster_intent::host::HostId;
use muster_intent::manager::{Effect, Ended, IntentNo, Manager};
use muster_intent::ports::Ports;
use muster_intent::record::IntentChange;
use muster_intent::topology::ConnectPoint;
use muster_shared::MonoTime;

use crate::engine::Engine;
use crate::record::Change;
use crate::timer::TimerKey;

pub use request::IntentSummary;

/// All intents, and what agents say of the network.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    pub manager: Manager,
    /// The number of the newest intent ever.
    highest: u64,
    /// What agents tell of the network.
    pub ports: Ports,
    /// Resources that an intent belongs to, by the id of their row.
    owners: BTreeMap<IntentNo, u64>,
    /// Whose a declared link is, each direction by itself: the id of a row.
    links: BTreeMap<(ConnectPoint, ConnectPoint), u64>,
    /// Whose a declared host is: the id of a row.
    hosts: BTreeMap<HostId, u64>,
    /// Hosts that several nodes claim, and where, as stacks were told last.
    claimed: BTreeMap<HostId, Vec<ConnectPoint>>,
    /// Writes that have come to their ends.
    pub ended: Vec<Ended>,
    unsaved: BTreeSet<IntentNo>,
    due: Option<MonoTime>,
}

impl Intents {
    /// See [`Engine::leftovers`](crate::Engine::leftovers).
    pub fn leftovers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let own = [
            ("intents of rows", self.owners.len()),
            ("links of rows", self.links.len()),
            ("hosts of rows", self.hosts.len()),
            ("ends of writes", self.ended.len()),
            ("intents to be written", self.unsaved.len()),
        ];
        own.into_iter().chain(self.manager.leftovers())
    }
}

impl Engine {
    /// Does what intents have to do now; false if that is nothing.
    pub(crate) fn run_intents(&mut self) -> bool {
        let now = self.graph().ctx.now;
        let mut did = false;
        loop {
            let ended = std::mem::take(&mut self.intents.ended);
            let flows = &self.flows;
            let placed = |no, device: &_, packed: &_| flows.placed(no, device, packed);
            self.intents.manager.written(now, ended, placed);
            self.intents.manager.run(now);
            let mut pumped: BTreeSet<DeviceKey> = BTreeSet::new();
            let mut any = false;
            while let Some(effect) = self.intents.manager.poll_effect() {
                any = true;
                match effect {
                    Effect::Write { token, intent, device, ops } => {
                        let write = |flows: &mut Flows, turn: &mut Turn<'_>| {
                            flows.write_intent(turn.site, token, intent, &device, &ops)
                        };
                        match self.with_flows(write) {
                            Ok(Some(key)) => drop(pumped.insert(key)),
                            Ok(None) => self.intents.ended.push((token, Ok(()))),
                            Err(why) => self.intents.ended.push((token, Err(why.into_boxed_str()))),
                        }
                    }
                    Effect::Save(no) => {
                        self.intents.unsaved.insert(no);
                        self.intent_changed(no);
                    }
                    Effect::Forget(no) => {
                        self.intents.unsaved.remove(&no);
                        self.graph_mut().ctx.change(Change::Intent(IntentChange::Removed(no)));
                        self.intent_gone(no);
                    }
                }
            }
            // Many writes of a device are one batch.
            pumped.into_iter().for_each(|key| self.pump_device(key));
            did |= any;
            if self.intents.ended.is_empty() && !any {
                break;
            }
        }
        self.set_intents_due();
        did
    }

    fn set_intents_due(&mut self) {
        let due = self.intents.manager.next_due();
        if due == self.intents.due {
            return;
        }
        if let Some(old) = std::mem::replace(&mut self.intents.due, due) {
            self.graph_mut().ctx.timers.clear(old, TimerKey::Intents);
        }
        if let Some(due) = due {
            self.graph_mut().ctx.timers.set(due, TimerKey::Intents);
        }
    }

    /// The timer of intents has come.
    pub(crate) fn intents_due(&mut self) {
        self.intents.due = None;
        self.run_intents();
    }

    /// The next change of an intent: made only now, so that what becomes of it in one turn is written once.
    pub(crate) fn next_intent_change(&mut self) -> Option<Change> {
        loop {
            let no = self.intents.unsaved.pop_first()?;
            if let Some(record) = self.intents.manager.record(no) {
                let owner = self.intents.owners.get(&no).copied();
                return Some(Change::Intent(IntentChange::Intent(Box::new(record), owner)));
            }
        }
    }
}
