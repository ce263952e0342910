//! The world of one run: everything in it, one queue of what happens next, and no time but its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use muster_engine::Limits;
use muster_shared::model::ReportKey;
use muster_shared::model::flow::{Bridge, FlowId};
use muster_shared::seal::{Body, ControllerEnd, Seal, SealPublic, SealSecret};
use muster_shared::{MonoTime, NodeId, ResourceId, SiteId};

use super::Options;
use super::bounds;
use super::bus::{Bus, End, Way};
use super::clocks::Clocks;
use super::controller::{Controller, Inlet};
use super::dice::Dice;
use super::drift::{Left, Thing};
use super::fault::Faults;
use super::flow::furnish;
use super::history::{self, History};
use super::host::Host;
use super::job_fate::Work;
use super::load::Load;
use super::machine::Machine;
use super::network::Network;
use super::operator::Operators;
use super::real_database::Beside;
use super::reference::Reference;
use super::script::RunKey;
use super::sealed::{Ends, Origin};
use super::served::Unserved;
use super::shared::Shared;
use super::standbys::{self, Standbys};

/// The events of a run, each at its time.
#[derive(Clone)]
pub enum Event {
    /// The controller's process starts.
    ControllerStarts,
    /// A controller of several, in this life of its process, takes a step for the lease.
    Keeper(usize, u64, standbys::Step),
    /// A fault befalls a controller of several.
    ControllersChaos,
    /// A controller of several must serve the site by now.
    ControllerIsDue,
    /// The controller takes what waits for it.
    ControllerTurn(u64),
    /// The controller's timer is due.
    ControllerWakes(u64, u64),
    /// A server asks to become a node.
    Joins(usize),
    /// A server that was cut off joins again, or a new one in its place.
    Rejoins(usize, bool),
    /// An agent's process starts.
    AgentStarts(usize),
    /// The agent takes what waits for it.
    AgentTurn(usize, u64),
    /// The agent's timer is due.
    AgentWakes(usize, u64, u64),
    /// The host ends a piece of work.
    HostWork(usize, u64, Work),
    /// An attempt to connect fails.
    ConnectFails(usize, u64, u64),
    /// An attempt to connect gets through.
    Connected(usize, u64, u64),
    /// The controller with this number of runs hears of a connection.
    TellController(u64, Inlet),
    /// A packet arrives.
    Deliver(u64, Way),
    /// Messages are said once more.
    Again(u64, Way, Body),
    /// A packet is sent once more.
    PacketAgain(u64, Way, Vec<u8>),
    /// The broker passes a packet on to the wrong node.
    PacketMisled(u64, Way, Vec<u8>),
    /// Is the greeting of a connection answered by now?
    AnswerIsLate(u64),
    /// A connection's end is noticed.
    Notices(u64, End),
    /// An operator does something.
    Operator,
    /// An operator of a crowd asks for something.
    CrowdAsks,
    /// A clock is set.
    ClockJumps,
    /// Do tokens still count?
    LooksAtTokens,
    /// Is every agent that is open served?
    LooksWhoIsServed,
    /// A fault begins.
    Chaos,
    /// The controller's disk is well again.
    StoreMends,
    /// A server's disk is well again.
    LedgerMends(usize),
    /// A link gets what it had before, by hand.
    PutsBack(usize, String, u32),
    /// A thing gets what it had before, by hand.
    PutsThingBack(usize, Thing, Left),
    /// A thing that was corrected is changed again by the one who fights over it.
    FoeActs(usize, Thing),
    /// An operator sees to a server by hand.
    Maintainer,
    /// An operator ends the maintenance of a server.
    MaintenanceEnds(usize),
    /// Is a server that was cut off to be reached again by now?
    IsBack(usize, u32),
    /// An agent that was in this life when it was cut off ends, or its server loses power.
    EndsWhileCut(usize, u64, bool),
    /// An operator of flow tables does something.
    FlowOperator,
    /// The rule that was put into this place of a switch, with this number, reaches its timeout.
    FlowEnds(usize, Bridge, FlowId, u64),
    /// A switch that ended at this start of it runs again.
    SwitchStarts(usize, u64),
    /// A signal is sent.
    Signaller,
    /// An operator of the fleet does something.
    FleetOperator,
    /// A bridge that went is there again.
    BridgeBack(usize, &'static str),
    /// The script that left this line ends.
    ScriptEnds(usize, RunKey, u64),
    /// While the script that left this line runs, its processes, its agent or its server end.
    EndsInRun(usize, RunKey, u64, u64),
    /// A cable breaks.
    CableChaos,
    /// The cable that broke in this turn is whole; so many times more it breaks again.
    CableMends(usize, u64, u64),
    /// A bridge's port for hosts that went in this turn is up again.
    PortMends(usize, &'static str, u64),
    /// At this end of a cable something is heard for the first time, or has not been heard for too long.
    Hears((usize, usize), u64, bool),
    /// The agent of a server, in this life, knows its bridges.
    BridgesSeen(usize, u64),
    /// An agent that stood still goes on.
    Thaws,
    /// An operator of intents does something.
    IntentOperator,
    /// A disk is copied, or takes the place of a later one.
    GoesBack(history::Step),
    /// An operator of a restored site looks at what waits.
    Restorer,
}

/// Streams of random numbers, one per purpose.
pub struct Streams {
    /// Delays on the network.
    pub net: Dice,
    /// Delays and tempers of disks.
    pub disks: Dice,
    /// The time that hosts take.
    pub hosts: Dice,
    /// The time that looks take, and what others do to hosts.
    pub watch: Dice,
    /// Seeds and restarts of agents.
    pub agents: Dice,
    /// Seeds and restarts of the controller.
    pub controller: Dice,
    /// The faults, and their times.
    pub chaos: Dice,
    /// Delays of switches and logs, and what befalls them.
    pub flows: Dice,
    /// Fresh keys of connections.
    pub keys: Dice,
}

/// The trace of a run's steps.
pub struct Trace {
    hasher: blake3::Hasher,
    /// Each step is printed there, where someone wants to see them.
    pub out: Option<Box<dyn std::io::Write>>,
    /// Steps so far.
    pub steps: u64,
}

/// The most events of one moment: more would be a loop.
const AT_ONCE_MAX: u32 = 200_000;

/// A simulated site, with all that is in it and around it.
pub struct World {
    /// The options of this run.
    pub options: Options,
    /// The present moment.
    pub now: MonoTime,
    queue: BTreeMap<(MonoTime, u64), Event>,
    order: u64,
    /// Events of the present moment.
    at_once: u32,
    pub faults: Faults,
    /// Random streams.
    pub dice: Streams,
    /// The state that survives the controller.
    pub shared: Rc<RefCell<Shared>>,
    /// The controller.
    pub controller: Controller,
    /// Servers, also those that were replaced.
    pub machines: Vec<Machine>,
    pub bus: Bus,
    /// Jobs that run at this moment, on any host.
    pub running: BTreeMap<ResourceId, (usize, ReportKey)>,
    pub operators: Operators,
    /// Cables between bridges.
    pub network: Network,
    /// The reference model.
    pub reference: Reference,
    /// Disks that go back in time.
    pub history: History,
    /// Several controllers and their lease.
    pub standbys: Standbys,
    /// The load of the servers.
    pub load: Load,
    /// Agents that are open and not served.
    pub unserved: Unserved,
    /// Resources that are gone and whose things stay.
    pub retained: Vec<ResourceId>,
    /// The time of the last write.
    pub last_write: MonoTime,
    pub trace: Trace,
    /// Operators do what can be done from now on.
    pub is_sound: bool,
    site: SealSecret,
}

/// Draws the rows of a turn. In one run of five they are so few that much comes between the slices of a stack that
/// enters its rows.
fn rows_per_turn(options: &Options) -> usize {
    let mut dice = Dice::new(options.seed, "rows of a turn");
    match options.parts.slices && dice.one_in(5) {
        true => *dice.pick(&[1, 2, 3, 5]),
        false => Limits::default().rows_per_turn,
    }
}

/// The site's name.
fn site() -> SiteId {
    "sim".parse().expect("a name of letters")
}

impl World {
    /// Whether operations of a few rows enter them in slices.
    pub fn has_slices(&self) -> bool {
        rows_per_turn(&self.options) < Limits::default().rows_per_turn
    }

    /// Before anything has happened.
    pub fn new(mut options: Options, left_out: BTreeSet<u64>) -> Self {
        let seed = options.seed;
        let history = History::of(&mut options);
        let dice = |purpose| Dice::new(seed, purpose);
        let mut setup = dice("setup");
        let limits = Limits {
            in_flight_per_node: *setup.pick(&[1, 2, 4, 256, 256]),
            in_flight_per_stack: *setup.pick(&[1, 3, 20_000, 20_000]),
            revisions_kept: *setup.pick(&[3, 3, 100]),
            rows_per_turn: rows_per_turn(&options),
            ..Limits::default()
        };
        let load = Load::of(&options);
        let limits = bounds::limits(&options, load.limits(limits));
        let shared = Shared {
            in_flight_per_node: limits.in_flight_per_node,
            // Its database would have to go back as well.
            beside: Beside::of(&options).filter(|_| !history.is_on),
            limits: options.parts.load.then_some(limits),
            clocks: Clocks::new(options.seed, options.parts.clocks),
            ..Shared::default()
        };
        let site = SealSecret::from_bytes(setup.bytes());
        let names: Vec<String> = (0..options.nodes).map(|n| format!("node-{n}")).collect();
        let mut world = Self {
            now: MonoTime::default(),
            queue: BTreeMap::new(),
            order: 0,
            at_once: 0,
            faults: Faults::new(seed, options.faults, left_out),
            dice: Streams {
                net: dice("net"),
                disks: dice("disks"),
                hosts: dice("hosts"),
                watch: dice("watch"),
                agents: dice("agents"),
                controller: dice("controller"),
                chaos: dice("chaos"),
                flows: dice("flows"),
                keys: dice("keys"),
            },
            shared: Rc::new(RefCell::new(shared)),
            controller: Controller::new(limits),
            machines: Vec::new(),
            bus: Bus::default(),
            running: BTreeMap::new(),
            operators: Operators::new(seed, options.stacks, names.clone()),
            network: Network::new(seed, if options.parts.network { options.nodes } else { 0 }),
            reference: Reference::default(),
            standbys: Standbys::new(seed, options.parts.standbys && !history.is_on),
            history,
            load: load.part(seed, "load of servers"),
            unserved: Unserved::default(),
            retained: Vec::new(),
            last_write: MonoTime::default(),
            trace: Trace { hasher: blake3::Hasher::new(), out: None, steps: 0 },
            is_sound: false,
            site,
            options,
        };
        world.operators.maker.fabric = Rc::clone(&world.network.fabric);
        world.operators.maker.sets = options.parts.fleets;
        world.operators.maker.drift = options.parts.drift;
        world.operators.maker.load = load.part(seed, "load of plans");
        for name in names {
            world.add_machine(&name, &mut setup);
        }
        world
    }

    /// A new server that is to have this name.
    pub fn add_machine(&mut self, name: &str, setup: &mut Dice) -> usize {
        let node: NodeId = name.parse().expect("made from letters and digits");
        let mut host = Host::new(setup, self.options.stacks);
        furnish(&mut host.switch, name, setup);
        let (key, seal) = self.new_key(&node, setup);
        let mut machine = Machine::new(node, seal, key, host);
        machine.bandwidth = self.load.bandwidth();
        self.machines.push(machine);
        self.machines.len() - 1
    }

    /// Fresh keys of a server.
    pub fn new_key(&self, node: &NodeId, dice: &mut Dice) -> (SealPublic, Arc<Seal>) {
        let secret = SealSecret::from_bytes(dice.bytes());
        (secret.public(), Arc::new(Seal::new(&secret, &self.site.public(), &site(), node)))
    }

    /// Both ends of a new connection of a server, and its greeting. `None`: one of them does not run.
    pub fn new_ends(&mut self, at: usize) -> Option<(Ends, Vec<u8>)> {
        let machine = &self.machines[at];
        let agent = Rc::clone(&machine.process.as_ref()?.seal);
        let admitted = self.controller.turns.as_ref()?.admitted();
        let (node, key) = (&machine.name, &machine.key);
        let seal = admitted.seal(node, key, || Seal::new(&self.site, key, &site(), node));
        let controller = ControllerEnd::following(seal, admitted.take_again(node, key, self.now));
        Some(Ends::new(agent, controller, self.dice.keys.bytes(), self.now))
    }

    /// Happens after this time.
    pub fn later(&mut self, after: Duration, event: Event) {
        self.at(self.now + after, event);
    }

    /// Happens at this time.
    pub fn at(&mut self, due: MonoTime, event: Event) {
        self.order += 1;
        self.queue.insert((due, self.order), event);
    }

    /// Says what happened.
    pub fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        let line = what(self);
        let seconds = self.now.0.as_secs_f64();
        self.trace.steps += 1;
        self.trace.hasher.update(&self.now.0.as_micros().to_le_bytes());
        self.trace.hasher.update(line.as_bytes());
        if let Some(out) = &mut self.trace.out {
            // The reader may have gone.
            let _ = writeln!(out, "{seconds:12.6} {line}");
        }
    }

    /// Returns the digest of all steps so far.
    pub fn digest(&self) -> String {
        self.trace.hasher.finalize().to_hex()[..16].to_owned()
    }

    /// Notes a violation.
    pub fn violate(&mut self, what: String) {
        if self.violation().is_none() {
            self.note(|_| format!("VIOLATED: {what}"));
        }
        self.shared.borrow_mut().violate(what);
    }

    /// The first thing that must not be, if there is one.
    pub fn violation(&self) -> Option<String> {
        self.shared.borrow().violation.clone()
    }

    /// The next thing happens; false if nothing is left.
    pub fn step(&mut self) -> bool {
        let Some(((due, _), event)) = self.queue.pop_first() else { return false };
        self.at_once = if due > self.now { 0 } else { self.at_once + 1 };
        if self.at_once == AT_ONCE_MAX {
            self.violate(format!("somebody goes round in circles: {AT_ONCE_MAX} things happen at once"));
        }
        self.now = due;
        self.shared.borrow_mut().now = due;
        match event {
            Event::ControllerStarts => self.controller_starts(),
            Event::Keeper(at, life, step) => self.keeper_steps(at, life, step),
            Event::ControllersChaos => self.controllers_chaos(),
            Event::ControllerIsDue => self.controller_is_due(),
            Event::ControllerTurn(run) => self.controller_turn_due(run),
            Event::ControllerWakes(run, timer) => self.controller_wakes(run, timer),
            Event::Joins(at) => self.joins(at),
            Event::Rejoins(at, new) => self.rejoins(at, new),
            Event::AgentStarts(at) => self.agent_starts(at),
            Event::AgentTurn(at, life) => self.agent_turn(at, life),
            Event::AgentWakes(at, life, timer) => self.agent_wakes(at, life, timer),
            Event::HostWork(at, life, work) => self.host_works(at, life, work),
            Event::ConnectFails(at, life, attempt) => self.connect_fails(at, life, attempt),
            Event::Connected(at, life, attempt) => self.connected(at, life, attempt),
            Event::TellController(run, inlet) if run == self.controller.run => self.tell_controller(inlet),
            Event::TellController(..) => {}
            Event::Deliver(line, way) => self.deliver(line, way),
            Event::Again(line, way, body) => self.post_body(line, way, body, false),
            Event::PacketAgain(line, way, packet) => self.post_packet(line, way, packet, Origin::Again),
            Event::PacketMisled(line, way, packet) => self.packet_is_misled(line, way, packet),
            Event::AnswerIsLate(line) => self.answer_is_late(line),
            Event::Notices(line, end) => self.notices(line, end),
            Event::Operator => self.operator_acts(),
            Event::CrowdAsks => self.one_of_a_crowd_asks(),
            Event::ClockJumps => self.clock_jumps(),
            Event::LooksAtTokens => self.looks_at_tokens(),
            Event::LooksWhoIsServed => self.looks_who_is_served(),
            Event::Chaos => self.chaos(),
            Event::StoreMends => {
                let mut shared = self.shared.borrow_mut();
                (shared.full, shared.broken, shared.held) = (false, false, false);
            }
            Event::LedgerMends(at) => self.machines[at].disk.full = false,
            Event::PutsBack(at, link, mtu) => self.puts_back_by_hand(at, &link, mtu),
            Event::PutsThingBack(at, thing, was) => self.puts_thing_back(at, &thing, was),
            Event::FoeActs(at, thing) => self.foe_acts(at, &thing),
            Event::Maintainer => self.maintainer_acts(),
            Event::MaintenanceEnds(at) => self.maintenance_ends(at),
            Event::IsBack(at, cut) => self.is_back(at, cut),
            Event::EndsWhileCut(at, life, power_cut) => self.ends_while_cut(at, life, power_cut),
            Event::FleetOperator => self.fleet_operator_acts(),
            Event::Signaller => self.signaller_acts(),
            Event::FlowOperator => self.flow_operator_acts(),
            Event::FlowEnds(at, bridge, id, number) => self.flow_ends(at, &bridge, id, number),
            Event::SwitchStarts(at, start) => self.switch_starts(at, start),
            Event::BridgeBack(at, bridge) => self.bridge_is_back(at, bridge),
            Event::ScriptEnds(at, key, line) => self.script_ends(at, key, line),
            Event::EndsInRun(at, key, line, how) => self.ends_in_run(at, key, line, how),
            Event::CableChaos => self.cable_chaos(),
            Event::CableMends(cable, turn, flaps) => self.cable_mends(cable, turn, flaps),
            Event::PortMends(device, port, turn) => self.port_mends(device, port, turn),
            Event::Hears(side, turn, last) => self.hears(side, turn, last),
            Event::BridgesSeen(at, life) => self.bridges_are_seen(at, life),
            Event::Thaws => self.network.dirty = true,
            Event::IntentOperator => self.intent_operator_acts(),
            Event::GoesBack(step) => self.goes_back(step),
            Event::Restorer => self.restorer_acts(),
        }
        self.network_moves();
        self.packets_are_right();
        true
    }

    /// Runs until this time, or until a violation.
    pub fn run_until(&mut self, end: MonoTime) {
        while self.violation().is_none() {
            match self.queue.first_key_value() {
                Some(((due, _), _)) if *due <= end => drop(self.step()),
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }
}
