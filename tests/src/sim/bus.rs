//! Connections between agents and controller: every message passes the real wire format, and the real seal (`sealed`).
//! When a connection breaks, messages on their way are lost, and either side may notice late. Messages keep their order
//! only in one direction of one connection.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_agent_core::Input;
use muster_shared::model::{Down, Up};
use muster_shared::seal::Body;
use muster_shared::{MonoTime, NodeId, wire};

use super::controller::Inlet;
use super::fault::Kind;
use super::sealed::{Ends, Kept, Origin, Packet, TakenPackets};
use super::world::{Event, World};

/// The way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the controller to the agent.
    Down,
    /// From the agent to the controller.
    Up,
}

/// Either end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The agent's.
    Agent,
    /// The controller's.
    Controller,
}

/// A connection.
pub struct Line {
    /// The name in its certificate.
    pub node: NodeId,
    pub machine: usize,
    /// The number of its agent's start.
    pub life: u64,
    /// The number of the controller's start.
    pub run: u64,
    /// The time when the connection was made.
    pub since: MonoTime,
    /// Nothing gets through any more.
    pub broken: bool,
    pub ends: Ends,
    down: Pipe,
    up: Pipe,
}

#[derive(Default)]
struct Pipe {
    packets: VecDeque<Packet>,
    last: MonoTime,
    /// A line that is slow has room for the next byte.
    free: MonoTime,
}

/// The connections that there ever were.
#[derive(Default)]
pub struct Bus {
    /// The connections by number.
    pub lines: BTreeMap<u64, Line>,
    /// The one that each node has, as the controller sees it.
    pub registered: BTreeMap<NodeId, u64>,
    /// The packets that may be sent again.
    pub kept: Kept,
    /// The packets that were taken, by either end.
    pub taken: TakenPackets,
    next: u64,
}

impl Line {
    fn pipe(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::Down => &mut self.down,
            Way::Up => &mut self.up,
        }
    }
}

impl World {
    /// An agent wants a connection.
    pub fn agent_connects(&mut self, at: usize) {
        let whom = self.machines[at].name.clone();
        let fails = self.faults.strikes(self.now, Kind::ConnectFails, whom.as_str());
        let life = self.machines[at].life;
        let Some(process) = &mut self.machines[at].process else { return };
        process.attempt += 1;
        let attempt = process.attempt;
        let machine = &self.machines[at];
        let is_cut_off = self.now < machine.cut_off_until || machine.host.is_cut();
        let unreachable = is_cut_off || self.controller.turns.is_none() || !self.active_admits();
        let after =
            if fails || unreachable { self.dice.net.millis(10, 5000) } else { self.dice.net.millis(2, 60) };
        let event = if fails || unreachable {
            Event::ConnectFails(at, life, attempt)
        } else {
            Event::Connected(at, life, attempt)
        };
        self.later(after, event);
        if unreachable && !is_cut_off {
            self.comes_to_a_standby(&whom);
        }
    }

    /// The attempt came to nothing.
    pub fn connect_fails(&mut self, at: usize, life: u64, attempt: u64) {
        if self.machines[at].is_connecting(life, attempt) {
            self.tell_agent(at, Input::Disconnected { reason: "no answer".into() });
        }
    }

    /// The attempt got through; the controller lets in the node that it knows by this key.
    pub fn connected(&mut self, at: usize, life: u64, attempt: u64) {
        let machine = &self.machines[at];
        if !machine.is_connecting(life, attempt) {
            return;
        }
        let known = self.controller.turns.as_ref().and_then(|turns| turns.admitted().key(&machine.name));
        let is_away = self.now < machine.cut_off_until || machine.host.is_cut() || !self.active_admits();
        if known != Some(machine.key) || is_away {
            return self.connect_fails(at, life, attempt);
        }
        let node = machine.name.clone();
        if let Some(old) = self.bus.registered.get(&node).copied() {
            let (agent, controller) = (self.dice.net.millis(1, 50), self.dice.net.millis(0, 20));
            self.line_ends(old, Some(agent), Some(controller));
        }
        let overtaken = self.faults.strikes(self.now, Kind::ConnectionOvertaken, node.as_str());
        let given_up = overtaken.then_some(self.bus.next + 1);
        self.bus.next += 1 + u64::from(overtaken);
        let number = self.bus.next;
        let (down, up) = (Pipe::default(), Pipe::default());
        let (since, run) = (self.now, self.controller.run);
        let Some((ends, greeting)) = self.new_ends(at) else { return };
        let line = Line { node: node.clone(), machine: at, life, run, since, broken: false, ends, down, up };
        self.bus.lines.insert(number, line);
        self.bus.registered.insert(node.clone(), number);
        self.shared.borrow_mut().keys.insert(number, self.machines[at].key);
        self.note(|_| format!("{node} connected {number}"));
        self.tell_controller(Inlet::Connected { node: node.clone(), connection: number });
        if let Some(connection) = given_up {
            let after = self.dice.net.millis(0, 2000);
            self.later(
                after,
                Event::TellController(
                    self.controller.run,
                    Inlet::Connected { node: node.clone(), connection },
                ),
            );
            let after = after + self.dice.net.millis(0, 20_000);
            self.later(
                after,
                Event::TellController(self.controller.run, Inlet::Disconnected { node, connection }),
            );
        }
        if let Some(process) = &mut self.machines[at].process {
            process.line = Some(number);
        }
        self.greets(number, greeting);
    }

    /// Posts the messages of an agent.
    pub fn post_up(&mut self, line: u64, messages: &[Up]) {
        // Reports of ports have no number: MQTT says nothing twice over one connection with something else in between.
        let in_order = messages.iter().any(|message| matches!(message, Up::Ports(_)));
        self.post(line, Way::Up, wire::pack(messages), in_order);
    }

    /// Posts the messages of the controller.
    pub fn post_down(&mut self, line: u64, messages: &[Down]) {
        self.post(line, Way::Down, wire::pack(messages), false);
    }

    fn post(&mut self, line: u64, way: Way, packed: Result<Vec<Body>, wire::WireError>, in_order: bool) {
        match packed {
            Ok(bodies) => bodies.into_iter().for_each(|body| self.post_body(line, way, body, in_order)),
            Err(error) => self.violate(format!("a message cannot travel: {error}")),
        }
    }

    /// Messages on their way, perhaps said twice. `in_order`: with nothing in between.
    pub fn post_body(&mut self, number: u64, way: Way, body: Body, in_order: bool) {
        let Some(line) = self.bus.lines.get(&number).filter(|line| !line.broken) else { return };
        let whom = format!("{way:?} {}", line.node);
        if self.faults.strikes(self.now, Kind::MessageTwice, &whom) {
            if in_order {
                self.seals(number, way, body.clone());
            } else {
                let after = self.dice.net.millis(10, 5000);
                self.later(after, Event::Again(number, way, body.clone()));
            }
        }
        self.seals(number, way, body);
    }

    fn seals(&mut self, number: u64, way: Way, body: Body) {
        let Some(line) = self.bus.lines.get_mut(&number) else { return };
        match line.ends.seal(way, body) {
            Some(packet) => self.post_packet(number, way, packet, Origin::Sent),
            None => {
                let node = line.node.clone();
                self.violate(format!("{way:?} {node}: something is said before the greeting"));
            }
        }
    }

    /// A packet on its way.
    pub fn post_packet(&mut self, number: u64, way: Way, bytes: Vec<u8>, origin: Origin) {
        let Some(line) = self.bus.lines.get(&number).filter(|line| !line.broken) else { return };
        let whom = format!("{way:?} {}", line.node);
        let mut takes = self.dice.net.millis(0, 5);
        if self.faults.strikes(self.now, Kind::MessageDelayed, &whom) {
            takes += self.dice.net.millis(100, 15_000);
        }
        let (bytes, is_swapped) = match origin {
            Origin::Again | Origin::OfAnother => (bytes, false),
            Origin::Sent => match self.passes_a_broker(number, way, bytes) {
                Some(passing) => (passing.bytes, passing.is_swapped),
                None => return,
            },
        };
        let out_at = if way == Way::Down { self.controller.busy_until.max(self.now) } else { self.now };
        let Some(line) = self.bus.lines.get_mut(&number) else { return };
        let bandwidth = self.machines[line.machine].bandwidth;
        let pipe = line.pipe(way);
        let mut due = out_at + takes;
        if let Some(bandwidth) = bandwidth {
            pipe.free = pipe.free.max(out_at)
                + Duration::from_secs(bytes.len() as u64) / u32::try_from(bandwidth).unwrap_or(u32::MAX);
            due = pipe.free + takes;
        }
        pipe.last = pipe.last.max(due);
        let due = pipe.last;
        let waiting = pipe.packets.len();
        let packet = Packet { bytes, origin };
        if is_swapped && waiting > 0 {
            pipe.packets.insert(waiting - 1, packet);
            line.ends.is_disturbed = true;
        } else {
            pipe.packets.push_back(packet);
        }
        self.at(due, Event::Deliver(number, way));
    }

    /// The oldest packet on this way arrives.
    pub fn deliver(&mut self, number: u64, way: Way) {
        let run = self.controller.run;
        let Some(line) = self.bus.lines.get_mut(&number) else { return };
        let machine = line.machine;
        let due = self.machines[machine].cut_off_until.max(self.standbys.away_until(way));
        if !line.broken && self.now < due {
            return self.at(due, Event::Deliver(number, way));
        }
        let Some(packet) = line.pipe(way).packets.pop_front() else { return };
        let machine_at = &self.machines[machine];
        if line.broken || machine_at.host.is_cut() && !machine_at.line_goes_on {
            line.ends.is_disturbed = true;
            return;
        }
        let (node, life) = (line.node.clone(), line.life);
        let is_there = match way {
            Way::Up => line.run == run && self.controller.turns.is_some(),
            Way::Down => {
                let machine = &self.machines[machine];
                machine.life == life && machine.process.as_ref().is_some_and(|p| p.line == Some(number))
            }
        };
        if !is_there {
            return;
        }
        let Some(body) = self.opens(number, way, &packet) else { return };
        match way {
            Way::Up => match wire::read_body::<Up>(&body) {
                Ok(mut messages) => {
                    self.reads_clocks(machine, &mut messages);
                    self.tell_controller(Inlet::Received { node, connection: number, messages });
                }
                Err(error) => self.violate(format!("what {node} says cannot be read: {error}")),
            },
            Way::Down => match wire::read_body::<Down>(&body) {
                Ok(messages) => {
                    for message in messages {
                        self.note(|_| format!("{node} hears {}", told(&message)));
                        if let Down::Job(job) = &message {
                            let wrong = self.machines[machine].is_given_another(job);
                            wrong.into_iter().for_each(|wrong| self.violate(wrong));
                        }
                        self.agent_receives(machine, Input::Received(message));
                    }
                }
                Err(error) => self.violate(format!("what {node} is told cannot be read: {error}")),
            },
        }
    }

    /// A connection is over; who is to notice does so after the given time.
    pub fn line_ends(&mut self, number: u64, agent: Option<Duration>, controller: Option<Duration>) {
        let Some(line) = self.bus.lines.get_mut(&number) else { return };
        line.broken = true;
        line.down.packets.clear();
        line.up.packets.clear();
        for (end, after) in [(End::Agent, agent), (End::Controller, controller)] {
            if let Some(after) = after {
                self.later(after, Event::Notices(number, end));
            }
        }
    }

    /// An end notices that the connection is over.
    pub fn notices(&mut self, number: u64, end: End) {
        let Some(line) = self.bus.lines.get(&number) else { return };
        match end {
            End::Agent => {
                let machine = &mut self.machines[line.machine];
                let Some(process) = machine.process.as_mut().filter(|_| machine.life == line.life) else {
                    return;
                };
                if process.line.take_if(|own| *own == number).is_some() {
                    let at = line.machine;
                    self.agent_receives(at, Input::Disconnected { reason: "connection reset".into() });
                }
            }
            End::Controller => {
                if line.run != self.controller.run {
                    return;
                }
                let node = line.node.clone();
                if self.bus.registered.get(&node) == Some(&number) {
                    self.bus.registered.remove(&node);
                }
                self.tell_controller(Inlet::Disconnected { node, connection: number });
            }
        }
    }
}

/// A message as it is noted: many bytes in a row are told by what they sum up to, for there are megabytes of them in a run.
pub fn told(message: &Down) -> String {
    match message {
        Down::Chunk { digest, offset, bytes } => format!("Chunk {digest} at {offset}: {}", summed(bytes)),
        Down::Answer { key, bytes } => format!("Answer {key:?}: {}", summed(bytes)),
        other => format!("{other:?}"),
    }
}

/// Returns an agent's message as it is noted: sums stand for many bytes.
pub fn said(message: &Up) -> String {
    match message {
        Up::Challenge { key, bytes } => format!("Challenge {key:?}: {}", summed(bytes)),
        other => format!("{other:?}"),
    }
}

/// Many bytes in a line.
pub fn summed(bytes: &[u8]) -> String {
    format!("{} bytes {}", bytes.len(), &blake3::hash(bytes).to_hex()[..16])
}
