//! The seal of a connection, with a broker in between that drops packets, swaps them, and sends them again: on the same
//! connection or on a later one of the node, or to another node.
//!
//! **Invariants.** A packet of another node is neither taken nor answered. Each packet is taken once at most. A copy of
//! a packet is taken if the packet itself was not, because it came before the greeting that was sent before it. A
//! packet that is sent once is taken, unless something before it was lost or a greeting was sent again beside it. Then
//! the connection ends, and all goes on over the next one. A network that stood still for a minute may be taken for one
//! that loses packets: that costs a connection, and is no violation.
//!
//! Sessions follow each other as over the direct link, where nothing is dropped: what one leaves begins the next.
//!
//! Absent: packets that were altered, or made up. They do not open, as tables beside `seal` show.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::time::Duration;

use muster_agent_link::NodeSeal;
use muster_shared::seal::{Body, ControllerEnd, Greeting, Opened, PacketError, Session};
use muster_shared::{MonoTime, NodeId};

use super::bus::Way;
use super::fault::Kind;
use super::world::{Event, World};

/// The time for the answer to a greeting, as in the real link.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Packets of a node that the broker keeps, and the size of the largest.
const KEPT_MAX: usize = 32;
const KEPT_BYTES: usize = 4096;

/// Kinds of packets: their second bytes.
const ANSWER: u8 = 2;
const GREETING_AGAIN: u8 = 4;
const ANSWER_AGAIN: u8 = 5;

/// The controller misses a packet that it has sent, and has sent none after it.
const MISSED: &str = "a packet is missed, and none came after it";

/// A packet that arrives.
pub struct Packet {
    pub bytes: Vec<u8>,
    pub origin: Origin,
}

/// The origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The other end of its connection has sent it.
    Sent,
    /// A copy of a packet that was on its way before, over this or an earlier connection of the node.
    Again,
    /// A packet between the controller and another node.
    OfAnother,
}

/// Both ends of a connection.
pub struct Ends {
    agent: AgentEnd,
    controller: ControllerEnd,
    /// Packets were lost or swapped, or a greeting was sent again: what comes then may be refused.
    pub is_disturbed: bool,
}

enum AgentEnd {
    Greeting(Rc<NodeSeal>, Greeting),
    Open(Session),
}

/// The effect of a packet at the end that it reaches.
pub enum Taken {
    /// The greeting is answered.
    Answer(Vec<u8>),
    /// The agent has its session.
    Begun,
    Body(Vec<u8>),
    /// The packet is not taken.
    Refused(PacketError),
    /// The connection must end, for this reason.
    Over(&'static str),
}

/// The packets that a broker has kept, by node.
#[derive(Default)]
pub struct Kept(BTreeMap<NodeId, VecDeque<(Way, Vec<u8>)>>);

/// The packets that were taken, by their digests.
#[derive(Default)]
pub struct TakenPackets(BTreeSet<u64>);

impl TakenPackets {
    /// Returns false if the packet was taken before.
    fn insert(&mut self, node: &NodeId, way: Way, packet: &[u8]) -> bool {
        // The same on each machine.
        let mut digest = DefaultHasher::new();
        (node, way == Way::Up, packet).hash(&mut digest);
        self.0.insert(digest.finish())
    }
}

impl Kept {
    fn keep(&mut self, node: &NodeId, way: Way, packet: &[u8]) {
        if packet.len() > KEPT_BYTES {
            return;
        }
        let kept = self.0.entry(node.clone()).or_default();
        kept.push_back((way, packet.to_vec()));
        if kept.len() > KEPT_MAX {
            kept.pop_front();
        }
    }

    /// Packets of all nodes but this.
    fn of_others(&self, node: &NodeId, way: Way) -> Vec<&[u8]> {
        let kept = self.0.iter().filter(|(other, _)| *other != node).flat_map(|(_, kept)| kept);
        kept.filter(|(its, _)| *its == way).map(|(_, packet)| &packet[..]).collect()
    }

    fn of(&self, node: &NodeId, way: Way) -> Vec<&[u8]> {
        let kept = self.0.get(node).into_iter().flatten();
        kept.filter(|(its, _)| *its == way).map(|(_, packet)| &packet[..]).collect()
    }
}

impl Ends {
    /// The agent is to send this greeting. Sessions follow each other as over the direct link.
    pub fn new(
        agent: Rc<NodeSeal>,
        controller: ControllerEnd,
        random: [u8; 32],
        now: MonoTime,
    ) -> (Self, Vec<u8>) {
        let greeting = agent.greet(random, true, now).expect("a sound key");
        let packet = greeting.packet().to_vec();
        let agent = AgentEnd::Greeting(agent, greeting);
        (Self { agent, controller, is_disturbed: false }, packet)
    }

    /// `None`: that end has no session.
    pub fn seal(&mut self, way: Way, body: Body) -> Option<Vec<u8>> {
        match (way, &mut self.agent) {
            (Way::Down, _) => self.controller.seal(body),
            (Way::Up, AgentEnd::Open(session)) => Some(session.seal(body)),
            (Way::Up, AgentEnd::Greeting(..)) => None,
        }
    }

    fn opens(&mut self, way: Way, packet: &[u8], now: MonoTime, random: [u8; 32]) -> Taken {
        let opened = match (way, &mut self.agent) {
            (Way::Up, _) => self.controller.open(packet, || Some(random)).map(|opened| match opened {
                Opened::Greeting { answer } => Taken::Answer(answer),
                Opened::Packet { body, .. } => Taken::Body(body),
            }),
            (Way::Down, AgentEnd::Open(session)) => session.open(packet).map(Taken::Body),
            (Way::Down, AgentEnd::Greeting(seal, greeting)) => match seal.accept(greeting, packet, now) {
                Ok(session) => {
                    self.agent = AgentEnd::Open(session);
                    Ok(Taken::Begun)
                }
                Err(error) => Err(error),
            },
        };
        match opened {
            Ok(Taken::Body(_)) if way == Way::Up && self.controller.has_lost(now) => Taken::Over(MISSED),
            Ok(taken) => taken,
            Err(error) if error.ends_session() && way == Way::Up => Taken::Over("the controller finds a gap"),
            Err(error) if error.ends_session() => Taken::Over("the agent finds a gap"),
            Err(error) => Taken::Refused(error),
        }
    }
}

impl World {
    /// Lets a broker pass a packet on, drop it or send it again. `None`: the packet does not arrive.
    pub fn passes_a_broker(&mut self, number: u64, way: Way, bytes: Vec<u8>) -> Option<Passing> {
        let node = self.bus.lines.get(&number)?.node.clone();
        let whom = format!("{way:?} {node}");
        if self.faults.strikes(self.now, Kind::PacketLost, &whom) {
            self.bus.lines.get_mut(&number)?.ends.is_disturbed = true;
            return None;
        }
        let kept = &mut self.bus.kept;
        kept.keep(&node, way, &bytes);
        if self.faults.strikes(self.now, Kind::PacketAgain, &whom) {
            let dice = self.faults.dice(Kind::PacketAgain);
            let again = match dice.one_in(3) {
                true => bytes.clone(),
                false => {
                    // A packet of any connection, and perhaps the other way.
                    let way = if dice.one_in(4) { Way::Down } else { way };
                    let all = kept.of(&node, way);
                    all.get(dice.index(all.len())).map_or_else(|| bytes.clone(), |packet| packet.to_vec())
                }
            };
            let after = dice.millis(0, 5000);
            self.later(after, Event::PacketAgain(number, way, again));
        }
        if self.faults.strikes(self.now, Kind::PacketMisled, &whom) {
            let dice = self.faults.dice(Kind::PacketMisled);
            let all = self.bus.kept.of_others(&node, way);
            if !all.is_empty() {
                let of_another = all[dice.index(all.len())].to_vec();
                let after = dice.millis(0, 5000);
                self.later(after, Event::PacketMisled(number, way, of_another));
            }
        }
        let is_swapped = self.faults.strikes(self.now, Kind::PacketsSwapped, &whom);
        Some(Passing { bytes, is_swapped })
    }

    /// A packet arrives. Returns the body, unless there is none for the receiver.
    pub fn opens(&mut self, number: u64, way: Way, packet: &Packet) -> Option<Vec<u8>> {
        let (now, random) = (self.now, self.dice.keys.bytes());
        let line = self.bus.lines.get_mut(&number)?;
        let (node, machine) = (line.node.clone(), line.machine);
        let taken = line.ends.opens(way, &packet.bytes, now, random);
        self.follows(number, way, &packet.bytes, &taken);
        let line = self.bus.lines.get_mut(&number)?;
        let was_disturbed = line.ends.is_disturbed;
        line.ends.is_disturbed |= packet.origin != Origin::Sent && matches!(taken, Taken::Answer(_));
        let is_refused = match taken {
            Taken::Refused(_) => true,
            Taken::Over(why) => why != MISSED,
            Taken::Answer(_) | Taken::Begun | Taken::Body(_) => false,
        };
        let is_taken = matches!(taken, Taken::Body(_) | Taken::Begun);
        if is_taken && !self.bus.taken.insert(&node, way, &packet.bytes) {
            self.violate(format!("{node} {way:?}: a packet was taken twice"));
        }
        if packet.origin == Origin::Sent && is_refused && !was_disturbed {
            self.violate(format!("{node} {way:?}: a sound packet was not taken"));
        }
        if packet.origin == Origin::OfAnother {
            self.shared.borrow_mut().counts.add("seal a packet of another node comes");
            if !is_refused {
                self.violate(format!("{node} {way:?}: a packet of another node was taken"));
            }
        }
        match taken {
            Taken::Body(body) => return Some(body),
            Taken::Begun => self.agent_receives(machine, muster_agent_core::Input::Connected),
            Taken::Answer(answer) => {
                if packet.origin == Origin::Again {
                    self.shared.borrow_mut().counts.add("seal a greeting of before is answered");
                }
                self.post_packet(number, Way::Down, answer, packet.origin);
            }
            Taken::Refused(error) => {
                self.note(|_| format!("{node} {way:?}: a packet is refused: {error}"));
                self.shared.borrow_mut().counts.add(format!("seal refused {}", error.label()));
            }
            Taken::Over(why) => {
                self.note(|_| format!("{node} {way:?}: the connection is over: {why}"));
                self.shared.borrow_mut().counts.add(format!("seal {why}"));
                let other = self.dice.net.millis(1, 50);
                let (agent, controller) = match way {
                    Way::Up => (other, Duration::ZERO),
                    Way::Down => (Duration::ZERO, other),
                };
                self.line_ends(number, Some(agent), Some(controller));
            }
        }
        None
    }

    /// The secrets that sessions leave for each other: the controller keeps it where a session has started. Counts those that follow
    /// another one, and those that were to.
    fn follows(&mut self, number: u64, way: Way, packet: &[u8], taken: &Taken) {
        let kind = |packet: &[u8]| packet.get(1).copied();
        let said = match taken {
            Taken::Begun if kind(packet) == Some(ANSWER_AGAIN) => "a session follows the one before",
            Taken::Answer(answer) if (kind(packet), kind(answer)) == (Some(GREETING_AGAIN), Some(ANSWER)) => {
                "a session is whole, for the controller has nothing of the one before"
            }
            Taken::Body(_) if way == Way::Up => {
                let Some(line) = self.bus.lines.get_mut(&number) else { return };
                let Some(again) = line.ends.controller.take_again(self.now) else { return };
                let key = line.ends.controller.key();
                if let Some(turns) = &self.controller.turns {
                    turns.admitted().keep_again(&line.node, &key, again, self.now);
                }
                return;
            }
            Taken::Begun | Taken::Answer(_) | Taken::Body(_) | Taken::Refused(_) | Taken::Over(_) => return,
        };
        self.shared.borrow_mut().counts.add(format!("seal {said}"));
    }

    /// A packet of another node arrives, beside all that is on its way.
    pub fn packet_is_misled(&mut self, number: u64, way: Way, bytes: Vec<u8>) {
        if self.bus.lines.get(&number).is_some_and(|line| !line.broken) {
            self.opens(number, way, &Packet { bytes, origin: Origin::OfAnother });
        }
    }

    /// The greeting of a connection is not waited for any longer.
    pub fn answer_is_late(&mut self, number: u64) {
        let Some(line) = self.bus.lines.get(&number).filter(|line| !line.broken) else { return };
        if matches!(line.ends.agent, AgentEnd::Greeting(..)) {
            self.note(|world| format!("{} has no answer to its greeting", world.bus.lines[&number].node));
            let controller = self.dice.net.millis(1, 50);
            self.line_ends(number, Some(Duration::ZERO), Some(controller));
        }
    }

    /// The agent greets over a connection that was just made.
    pub fn greets(&mut self, number: u64, greeting: Vec<u8>) {
        self.post_packet(number, Way::Up, greeting, Origin::Sent);
        self.later(ANSWER_WITHIN, Event::AnswerIsLate(number));
    }
}

/// A packet that a broker passes on; perhaps before the one that was sent before it.
pub struct Passing {
    pub bytes: Vec<u8>,
    pub is_swapped: bool,
}
