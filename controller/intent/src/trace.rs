//! Follows a packet through the network as it is: each switch is asked what it would do with the packet, and the
//! topology says where a cable leads.
//!
//! ```text
//!   start ─▶ question to a switch ─▶ answer ─┬─ output, cable ──▶ the next switch: another question
//!                                            ├─ output, no cable ▶ Delivered
//!                                            └─ no output ───────▶ Lost
//! ```
//!
//! Copies are followed as a tree. A copy that comes to a port where another copy has been, with the same fields,
//! has its fate and is not followed twice. One that comes back to a port on its own way runs in a circle.
//!
//! Absent: how a switch is asked, and whose rules are met (`controller/engine/src/intent/trace.rs`); which packets an
//! intent promises to carry (`proof.rs`).

use std::collections::{BTreeSet, VecDeque};

use muster_shared::model::flow::{Bridge, DeviceName, Packet, TraceQuestion, TraceStep};
use thiserror::Error;

use crate::topology::{ConnectPoint, Topology};

/// Switches that a packet passes one after the other: as many as its TTL allows.
pub const DEPTH_MAX: usize = 64;
/// Questions of one trace: a copy in every port of a large switch, and further on.
pub const HOPS_MAX: usize = 256;

/// Steps of all switches of one trace: an agent that is not honest tells as many as one answer may have.
pub const STEPS_MAX: usize = 4096;

/// The way of a packet and its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    hops: Vec<Hop>,
    /// Hops whose switch has to be asked.
    unasked: VecDeque<usize>,
    /// Hops whose switch has not answered.
    open: usize,
    /// Steps that switches told so far.
    steps: usize,
    ends: Vec<End>,
}

/// A switch on the way, and what it does with the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The hop before. The first one has none.
    pub before: Option<usize>,
    /// The port where the packet comes in.
    pub at: ConnectPoint,
    pub packet: Packet,
    /// In order; empty until the switch has answered.
    pub steps: Vec<TraceStep>,
    /// Hops before it.
    depth: usize,
}

/// The end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The last hop.
    pub hop: usize,
    pub fate: Fate,
}

/// The fate of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The copy leaves the network.
    Delivered {
        /// By this port, to which no cable of the topology is known.
        at: ConnectPoint,
        packet: Packet,
    },
    Lost(Loss),
}

/// The reason why a copy arrives nowhere, or nobody knows where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Loss {
    #[error("no rule of table {table} on {device} takes it")]
    NoRule { device: DeviceName, table: u8 },
    /// The last rule in the steps of the hop drops it.
    #[error("a rule on {0} drops it")]
    Dropped(DeviceName),
    #[error("{device} does not send it on: {why}")]
    Refused { device: DeviceName, why: String },
    #[error("{0} sends it to an OpenFlow controller, and nowhere else")]
    Controller(DeviceName),
    #[error("{0} is down")]
    PortDown(ConnectPoint),
    #[error("nothing passes over the link from {from} to {to}")]
    LinkDown { from: ConnectPoint, to: ConnectPoint },
    #[error("it comes to {0} again: it runs in a circle")]
    Circle(ConnectPoint),
    #[error("it passes more than {DEPTH_MAX} switches")]
    TooFar,
    #[error("it has more than {HOPS_MAX} copies")]
    TooMany,
    #[error("switches do more than {STEPS_MAX} things with it")]
    TooMuch,
    #[error("{device} could not be asked: {why}")]
    NotAsked { device: DeviceName, why: String },
    #[error("{device} changes it in a way that a trace does not follow: {action}")]
    Unclear { device: DeviceName, action: String },
}

/// A question to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The hop that the answer is for.
    pub hop: usize,
    pub device: DeviceName,
    pub question: TraceQuestion,
}

impl End {
    /// The port where the copy leaves the network, if it does.
    pub fn delivered_at(&self) -> Option<&ConnectPoint> {
        match &self.fate {
            Fate::Delivered { at, .. } => Some(at),
            Fate::Lost(_) => None,
        }
    }

    /// The reason why the copy is lost, if it is.
    pub fn loss(&self) -> Option<&Loss> {
        match &self.fate {
            Fate::Lost(loss) => Some(loss),
            Fate::Delivered { .. } => None,
        }
    }
}

impl Trace {
    /// The trace of a packet that comes in at this port.
    pub fn new(at: ConnectPoint, packet: Packet) -> Self {
        let first = Hop { before: None, at, packet, steps: Vec::new(), depth: 0 };
        Self { hops: vec![first], unasked: [0].into(), open: 0, steps: 0, ends: Vec::new() }
    }

    /// The switch to ask next. Several questions may be open at a time.
    pub fn next_question(&mut self) -> Option<Question> {
        let hop = self.unasked.pop_front()?;
        self.open += 1;
        let Hop { at, packet, .. } = &self.hops[hop];
        let question = TraceQuestion { in_port: at.port.clone(), packet: packet.clone() };
        Some(Question { hop, device: at.device.clone(), question })
    }

    /// The device that [`Trace::next_question`] asks next.
    pub fn next_device(&self) -> Option<&DeviceName> {
        self.unasked.front().map(|hop| &self.hops[*hop].at.device)
    }

    /// Whether the fate of each copy is known.
    pub fn is_over(&self) -> bool {
        self.unasked.is_empty() && self.open == 0
    }

    /// The hops, each after the one before it.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The fates of all copies, once the trace is over.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Takes the answer for a hop, or why there is none.
    pub fn answered(&mut self, topology: &Topology, hop: usize, answer: Result<Vec<TraceStep>, String>) {
        self.open = self.open.saturating_sub(1);
        let device = self.hops[hop].at.device.clone();
        match answer {
            Err(why) => self.lose(hop, Loss::NotAsked { device, why }),
            Ok(steps) if self.steps + steps.len() > STEPS_MAX => self.lose(hop, Loss::TooMuch),
            Ok(steps) => {
                self.steps += steps.len();
                self.hops[hop].steps.clone_from(&steps);
                self.follow(topology, hop, &device, steps);
            }
        }
    }

    fn follow(&mut self, topology: &Topology, hop: usize, device: &DeviceName, steps: Vec<TraceStep>) {
        let on = |bridge: &Bridge| DeviceName { node: device.node.clone(), bridge: bridge.clone() };
        let mut loss = Loss::Dropped(device.clone());
        let mut leaves = false;
        for step in steps {
            match step {
                TraceStep::Rule { bridge, .. } => loss = Loss::Dropped(on(&bridge)),
                TraceStep::Miss { bridge, table } => loss = Loss::NoRule { device: on(&bridge), table },
                TraceStep::Refused { bridge, why } => loss = Loss::Refused { device: on(&bridge), why },
                TraceStep::Controller { bridge } => loss = Loss::Controller(on(&bridge)),
                TraceStep::Unclear { bridge, action } => {
                    return self.lose(hop, Loss::Unclear { device: on(&bridge), action });
                }
                TraceStep::Output { bridge, port, packet } => {
                    leaves = true;
                    self.leave(
                        topology,
                        hop,
                        ConnectPoint { device: on(&bridge), port },
                        packet.on_the_cable(),
                    );
                }
            }
        }
        if !leaves {
            self.lose(hop, loss);
        }
    }

    /// A copy leaves by a port.
    fn leave(&mut self, topology: &Topology, hop: usize, from: ConnectPoint, packet: Packet) {
        let port = topology.port(&from);
        let Some((port, next)) = port.and_then(|port| Some((port, topology.neighbour(port)?))) else {
            return match port.is_none_or(|port| topology.is_port_up(port)) {
                true => self.ends.push(End { hop, fate: Fate::Delivered { at: from, packet } }),
                false => self.lose(hop, Loss::PortDown(from)),
            };
        };
        let to = topology.point(next);
        let links = topology.links_out_of(port).iter();
        let mut links = links.filter(|link| topology.ends(**link).1 == next);
        if !links.any(|link| topology.passes(*link)) {
            return self.lose(hop, Loss::LinkDown { from, to });
        }
        self.arrive(hop, to, packet);
    }

    /// A copy comes to the next switch.
    fn arrive(&mut self, before: usize, at: ConnectPoint, packet: Packet) {
        if self.is_on_the_way(before, &at, &packet) {
            return self.lose(before, Loss::Circle(at));
        }
        if self.hops.iter().any(|hop| hop.at == at && hop.packet == packet) {
            return; // another copy has its fate
        }
        let depth = self.hops[before].depth + 1;
        if depth >= DEPTH_MAX {
            return self.lose(before, Loss::TooFar);
        }
        if self.hops.len() >= HOPS_MAX {
            return self.lose(before, Loss::TooMany);
        }
        self.unasked.push_back(self.hops.len());
        self.hops.push(Hop { before: Some(before), at, packet, steps: Vec::new(), depth });
    }

    fn is_on_the_way(&self, last: usize, at: &ConnectPoint, packet: &Packet) -> bool {
        let mut way = Some(last);
        while let Some(hop) = way {
            if self.hops[hop].at == *at && self.hops[hop].packet == *packet {
                return true;
            }
            way = self.hops[hop].before;
        }
        false
    }

    fn lose(&mut self, hop: usize, loss: Loss) {
        self.ends.push(End { hop, fate: Fate::Lost(loss) });
    }

    /// The ports where copies are delivered.
    pub fn delivered(&self) -> BTreeSet<&ConnectPoint> {
        self.ends.iter().filter_map(End::delivered_at).collect()
    }
}
