//! Decides which faults happen, and when. Each fault that would happen has a number. A run with some numbers left out
//! is again exactly one run: so a failing run is made smaller.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::MonoTime;

use super::dice::Dice;

/// The number and severity of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Nothing goes wrong but what operators do.
    None,
    /// Now and then.
    Light,
    /// Faults all the time.
    Heavy,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A message takes seconds.
    MessageDelayed,
    /// A message is said twice.
    MessageTwice,
    /// A packet is sent again, by whoever has kept it.
    PacketAgain,
    /// A packet is passed to another node, or to the controller as another node's.
    PacketMisled,
    /// A packet is lost, and its connection goes on.
    PacketLost,
    /// A packet comes before the one that was sent before it.
    PacketsSwapped,
    /// A connection ends, and what was on its way is lost.
    ConnectionBreaks,
    /// A connection breaks, and a side notices late.
    ConnectionSilent,
    /// The controller is told of a connection after the one that took its place: the agent had given it up.
    ConnectionOvertaken,
    /// A connection cannot be made.
    ConnectFails,
    /// A node cannot be reached for a while.
    Partition,
    /// No node can be reached for a while.
    PartitionOfAll,
    /// The controller ends at one of its next effects.
    ControllerCrash,
    /// The controller stands still, then its clock jumps.
    ControllerFrozen,
    /// The controller comes to its next turn late: what agents say and operators ask comes in one.
    TurnLate,
    /// The controller's disk is full for a while.
    StoreFull,
    /// The store can be neither written nor read for a while.
    StoreBroken,
    /// Another program holds the database for a while.
    StoreBusy,
    /// A commit is wrong in itself.
    StoreMistake,
    /// The controller begins again with an earlier copy of its disk.
    StoreRestored,
    /// A copy of the controller's disk runs elsewhere, and agents reach it instead.
    ControllerTwice,
    /// A controller of several is stopped for a while, with its keeper of the lease, and its clock goes on.
    ControllerPaused,
    /// Nothing passes between one of several controllers and the database for a while.
    ControllerCutOff,
    /// No agent reaches the controller that has the lease for a while.
    ControllerUnreached,
    /// The clock of the controller that has the lease jumps beyond it.
    ControllerClockJumps,
    /// The controller that has the lease gives it up, for another one or for anyone.
    ControllerHandsOver,
    /// A statement of a commit fails, in the real database beside the tables.
    StatementFails,
    /// A commit takes seconds.
    StoreStalls,
    /// A server is as it was at an earlier time, its agent's disk and what it has.
    AgentReverted,
    /// A copy of a server runs beside it for a while, with its disk and its identity.
    AgentCloned,
    /// An agent ends at one of its next effects.
    AgentCrash,
    /// An agent ends, or its server loses power, while a change has cut it off.
    EndsWhileCut,
    /// An agent stands still, then its clock jumps.
    AgentFrozen,
    /// A server loses power: what was not synced may be lost.
    PowerCut,
    /// A server's disk is full for a while.
    LedgerFull,
    /// The content that was fetched is not the one that was sent.
    ContentDamaged,
    /// The state before a change cannot be read.
    CaptureFails,
    /// A job fails, nothing changed.
    JobFails,
    /// A job fails after it changed what it was to change.
    JobFailsLate,
    /// A job is refused for good.
    JobRefused,
    /// A job hangs before it did anything.
    JobHangs,
    /// A job did all and hangs.
    JobSilent,
    /// A job takes long.
    JobSlow,
    /// While a script runs, or right after, its server loses power, its processes are killed, or its agent ends.
    EndsInRun,
    /// The state before a change cannot be restored just now.
    RestoreFails,
    /// A thing is not as it should be while it is looked at: somebody changes it, and changes it back.
    ForeignChange,
    /// A link that a network job has made is changed by hand, and perhaps changed back.
    ForeignDrift,
    /// A file that a job has made, or the values of a dummy, are changed or removed by hand, and perhaps restored.
    ForeignThing,
    /// A thing is changed by hand again each time that it is corrected.
    ForeignFight,
    /// No hint reaches the agent that something changed.
    HintLost,
    /// A switch ends, and begins again with nothing on it.
    SwitchRestarts,
    /// A bridge is taken down for a while, with all that is on it.
    BridgeGone,
    /// Rules of ours are taken off a switch.
    RuleLost,
    /// A rule of ours is changed on its switch.
    RuleAltered,
    /// A rule that says it is ours comes to a switch.
    RuleInvented,
    /// A switch does not take what it is given.
    SwitchRefuses,
    /// A switch does not answer, and nobody knows whether it took what it was given.
    SwitchSilent,
    /// A switch takes seconds.
    SwitchSlow,
    /// No hint reaches the agent that a rule changed or ended.
    FlowHintLost,
    /// A cable is cut, and both ends see it.
    CableCut,
    /// A cable loses packets, in one direction or both, and nobody sees that.
    CableSilent,
    /// A cable is cut and whole again, over and over.
    CableFlaps,
    /// A port for hosts goes down.
    PortDown,
    /// A clock is set.
    ClockJumps,
}

impl Kind {
    /// The kinds of faults.
    pub const ALL: [Self; 64] = [
        Self::MessageDelayed,
        Self::MessageTwice,
        Self::PacketAgain,
        Self::PacketMisled,
        Self::PacketLost,
        Self::PacketsSwapped,
        Self::ConnectionBreaks,
        Self::ConnectionSilent,
        Self::ConnectionOvertaken,
        Self::ConnectFails,
        Self::Partition,
        Self::PartitionOfAll,
        Self::ControllerCrash,
        Self::ControllerFrozen,
        Self::TurnLate,
        Self::StoreFull,
        Self::StoreBroken,
        Self::StoreBusy,
        Self::StoreMistake,
        Self::StoreRestored,
        Self::ControllerTwice,
        Self::ControllerPaused,
        Self::ControllerCutOff,
        Self::ControllerUnreached,
        Self::ControllerClockJumps,
        Self::ControllerHandsOver,
        Self::AgentReverted,
        Self::AgentCloned,
        Self::StatementFails,
        Self::StoreStalls,
        Self::AgentCrash,
        Self::EndsWhileCut,
        Self::AgentFrozen,
        Self::PowerCut,
        Self::LedgerFull,
        Self::ContentDamaged,
        Self::CaptureFails,
        Self::JobFails,
        Self::JobFailsLate,
        Self::JobRefused,
        Self::JobHangs,
        Self::JobSilent,
        Self::JobSlow,
        Self::EndsInRun,
        Self::RestoreFails,
        Self::ForeignChange,
        Self::ForeignDrift,
        Self::ForeignThing,
        Self::ForeignFight,
        Self::HintLost,
        Self::SwitchRestarts,
        Self::BridgeGone,
        Self::RuleLost,
        Self::RuleAltered,
        Self::RuleInvented,
        Self::SwitchRefuses,
        Self::SwitchSilent,
        Self::SwitchSlow,
        Self::FlowHintLost,
        Self::CableCut,
        Self::CableSilent,
        Self::CableFlaps,
        Self::PortDown,
        Self::ClockJumps,
    ];

    /// A disk is as it was at an earlier time.
    pub fn goes_back(self) -> bool {
        matches!(self, Self::StoreRestored | Self::ControllerTwice | Self::AgentReverted | Self::AgentCloned)
    }

    /// Returns the name for reports.
    pub fn name(self) -> String {
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }

    /// Thousandths, each time it could happen, under heavy faults. Those that chaos brings have none.
    fn rate(self) -> u64 {
        match self {
            Kind::MessageDelayed | Kind::MessageTwice | Kind::PacketAgain => 30,
            Kind::PacketMisled => 10,
            Kind::PacketLost | Kind::PacketsSwapped => 3,
            Kind::ConnectionOvertaken => 100,
            Kind::ConnectFails => 200,
            Kind::EndsWhileCut => 250,
            Kind::StoreStalls | Kind::StatementFails => 5,
            Kind::TurnLate => 100,
            Kind::ContentDamaged => 60,
            Kind::CaptureFails => 20,
            Kind::JobFails => 60,
            Kind::JobFailsLate => 30,
            Kind::JobRefused => 8,
            Kind::JobHangs | Kind::JobSilent => 10,
            Kind::RestoreFails => 400,
            Kind::EndsInRun => 120,
            Kind::JobSlow | Kind::ForeignChange => 60,
            Kind::HintLost | Kind::FlowHintLost => 300,
            Kind::SwitchRefuses => 60,
            Kind::SwitchSilent => 40,
            Kind::SwitchSlow => 20,
            Kind::ConnectionBreaks
            | Kind::ConnectionSilent
            | Kind::Partition
            | Kind::PartitionOfAll
            | Kind::ControllerCrash
            | Kind::ControllerFrozen
            | Kind::StoreFull
            | Kind::StoreBroken
            | Kind::StoreBusy
            | Kind::StoreMistake
            | Kind::StoreRestored
            | Kind::ControllerTwice
            | Kind::ControllerPaused
            | Kind::ControllerCutOff
            | Kind::ControllerUnreached
            | Kind::ControllerClockJumps
            | Kind::ControllerHandsOver
            | Kind::AgentReverted
            | Kind::AgentCloned
            | Kind::AgentCrash
            | Kind::AgentFrozen
            | Kind::PowerCut
            | Kind::LedgerFull
            | Kind::SwitchRestarts
            | Kind::BridgeGone
            | Kind::RuleLost
            | Kind::RuleAltered
            | Kind::RuleInvented
            | Kind::CableCut
            | Kind::CableSilent
            | Kind::CableFlaps
            | Kind::PortDown
            | Kind::ClockJumps
            | Kind::ForeignDrift
            | Kind::ForeignThing
            | Kind::ForeignFight => 0,
        }
    }
}

/// The faults that chaos brings, as often as each is named here.
pub const CHAOS: [Kind; 38] = [
    Kind::ForeignDrift,
    Kind::ForeignDrift,
    Kind::ForeignThing,
    Kind::ForeignThing,
    Kind::ForeignThing,
    Kind::ForeignThing,
    Kind::ForeignFight,
    Kind::ConnectionBreaks,
    Kind::ConnectionBreaks,
    Kind::ConnectionBreaks,
    Kind::ConnectionSilent,
    Kind::ConnectionSilent,
    Kind::Partition,
    Kind::Partition,
    Kind::PartitionOfAll,
    Kind::ControllerCrash,
    Kind::ControllerCrash,
    Kind::ControllerCrash,
    Kind::ControllerFrozen,
    Kind::StoreFull,
    Kind::StoreBroken,
    Kind::StoreBusy,
    Kind::StoreMistake,
    Kind::AgentCrash,
    Kind::AgentCrash,
    Kind::AgentCrash,
    Kind::AgentFrozen,
    Kind::PowerCut,
    Kind::LedgerFull,
    Kind::SwitchRestarts,
    Kind::SwitchRestarts,
    Kind::BridgeGone,
    Kind::RuleLost,
    Kind::RuleLost,
    Kind::RuleAltered,
    Kind::RuleAltered,
    Kind::RuleInvented,
    Kind::RuleInvented,
];

/// A fault that happened.
#[derive(Clone, Debug)]
pub struct Fired {
    /// The fault's number in the run.
    pub number: u64,
    /// The time of the fault.
    pub at: MonoTime,
    pub kind: Kind,
    /// The object of the fault.
    pub whom: String,
}

/// The faults of a run.
pub struct Faults {
    /// The level of the run.
    pub level: Level,
    /// Whether faults have not stopped yet.
    pub on: bool,
    /// The faults that happened.
    pub fired: Vec<Fired>,
    dice: BTreeMap<Kind, Dice>,
    number: u64,
    left_out: BTreeSet<u64>,
}

impl Faults {
    /// The faults of a run, without those `left_out`.
    pub fn new(seed: u64, level: Level, left_out: BTreeSet<u64>) -> Self {
        let dice = Kind::ALL.into_iter().map(|kind| (kind, Dice::new(seed, &kind.name()))).collect();
        Self { level, on: level != Level::None, fired: Vec::new(), dice, number: 0, left_out }
    }

    /// Whether it happens here and now.
    pub fn strikes(&mut self, at: MonoTime, kind: Kind, whom: &str) -> bool {
        if !self.on {
            return false;
        }
        let rate = match self.level {
            Level::None => 0,
            Level::Light => kind.rate().div_ceil(8),
            Level::Heavy => kind.rate(),
        };
        self.dice(kind).per_mille(rate) && self.happens(at, kind, whom)
    }

    /// Whether a fault is to happen here and now; not if it is left out.
    pub fn happens(&mut self, at: MonoTime, kind: Kind, whom: &str) -> bool {
        let number = self.number;
        self.number += 1;
        if self.left_out.contains(&number) {
            return false;
        }
        self.fired.push(Fired { number, at, kind, whom: whom.to_owned() });
        true
    }

    /// Returns the dice for the severity of such a fault.
    pub fn dice(&mut self, kind: Kind) -> &mut Dice {
        self.dice.entry(kind).or_insert_with(|| Dice::new(0, &kind.name()))
    }
}
