//! Intents: flow tables carry out the decisions of `muster-intent`. Agents report the network.
//! Operators and resources submit intents.
//!
//! ```text
//!   operators, rows ────────────────────┬─▶ Manager ─▶ writes ─▶ flow tables ─▶ agents
//!   agents: ports, beacons ─▶ topology ─┘      ▲                      │
//!                                              └──────── ended ───────┘
//! ```
//!
//! **Invariants.** A rule of an intent is owned by that intent from its first write until it is off
//! its device. Changes of the manager are durable before a write that follows from them leaves.
//!
//! Absent: paths, rules and their order (`controller/intent/src/manager.rs`), who may change an
//! intent (`intent/request.rs`), and whether its packets arrive (`intent/proof.rs`).

mod load;
mod proof;
mod request;
mod row;
mod topology;
mod trace;
mod trace_view;

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::{DeviceKey, Flows, Turn};
use muster_intent::host::HostId;
use muster_intent::links_from_reports::Ports;
use muster_intent::manager::{Effect, Ended, IntentNo, Manager};
use muster_intent::record::IntentChange;
use muster_intent::topology::ConnectPoint;
use muster_shared::MonoTime;

use crate::engine::Engine;
use crate::record::Change;
use crate::timer::TimerKey;

use proof::Proofs;
pub use request::IntentSummary;
use trace::Traces;

/// The intents of the site, and the network as agents report it.
#[derive(Debug, Default)]
pub(crate) struct Intents {
    pub manager: Manager,
    /// The number of the newest intent so far.
    highest: u64,
    /// The network as agents report it.
    pub ports: Ports,
    /// The owner of each intent: the id of a row.
    owners: BTreeMap<IntentNo, u64>,
    /// The owner of each direction of a declared link: the id of a row.
    links: BTreeMap<(ConnectPoint, ConnectPoint), u64>,
    /// The owner of each declared host: the id of a row.
    hosts: BTreeMap<HostId, u64>,
    /// Hosts that several nodes claim, and where, as last reported to stacks.
    claimed: BTreeMap<HostId, Vec<ConnectPoint>>,
    /// Writes that have ended.
    pub ended: Vec<Ended>,
    unsaved: BTreeSet<IntentNo>,
    due: Option<MonoTime>,
    pub traces: Traces,
    pub proofs: Proofs,
}

impl Intents {
    /// See [`View::leftovers`](crate::View::leftovers).
    pub fn leftovers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let own = [
            ("intents of rows", self.owners.len()),
            ("links of rows", self.links.len()),
            ("hosts of rows", self.hosts.len()),
            ("ends of writes", self.ended.len()),
            ("intents to be written", self.unsaved.len()),
        ];
        own.into_iter().chain(self.traces.leftovers()).chain(self.manager.leftovers())
    }

    fn next_number(&mut self) -> IntentNo {
        self.highest += 1;
        IntentNo(self.highest)
    }

    /// Retracts a direction of a link, if it is of this row.
    fn retract(&mut self, row: u64, direction: &(ConnectPoint, ConnectPoint)) {
        if self.links.get(direction) == Some(&row) {
            self.links.remove(direction);
            self.manager.retract(&direction.0, &direction.1);
        }
    }

    /// The next change of an intent. It is made only now, so that all changes of one turn are
    /// written once.
    pub fn next_change(&mut self) -> Option<Change> {
        loop {
            let no = self.unsaved.pop_first()?;
            if let Some(record) = self.manager.record(no) {
                let owner = self.owners.get(&no).copied();
                return Some(Change::Intent(IntentChange::Intent(Box::new(record), owner)));
            }
        }
    }
}

impl Engine {
    /// Runs the intent manager and carries out its effects. Returns false if there was nothing to do.
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
                        self.intents.forget_proof(no);
                    }
                    Effect::Forget(no) => {
                        self.intents.unsaved.remove(&no);
                        self.graph_mut().ctx.change(Change::Intent(IntentChange::Removed(no)));
                        self.intent_gone(no);
                        self.intents.forget_proof(no);
                    }
                }
            }
            // Many writes to a device become one batch.
            pumped.into_iter().for_each(|key| self.with_flows(|flows, turn| flows.pump(turn, key)));
            did |= any;
            if self.intents.ended.is_empty() && !any {
                break;
            }
        }
        self.set_intents_due();
        let every = self.graph().ctx.limits.verify_every;
        self.intents.set_proof_due(now, every);
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

    /// The timer of intents has run out.
    pub(crate) fn intents_due(&mut self) {
        self.intents.due = None;
        self.run_intents();
    }
}
