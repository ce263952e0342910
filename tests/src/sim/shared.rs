//! The state that the controller, the nodes and the checks of a simulated site share. It survives the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use muster_engine::Limits;
use muster_engine::record::{EventRecord, PackedSpec, ProgressRecord, ResourceRecord, StackRecord};
use muster_intent::manager::IntentRecord;
use muster_shared::model::ReportKey;
use muster_shared::model::flow::DeviceName;
use muster_shared::seal::SealPublic;
use muster_shared::{Generation, MonoTime, NodeId, ResourceId};

use super::clocks::Clocks;
use super::count::Counts;
use super::drift::Sent;
use super::fleet::Fleet;
use super::flow::Model;
use super::history::Rules;
use super::invariant::SoFar;
use super::network::Wishes;
use super::outbox::Leaving;
use super::plan::Plan;
use super::real_database::Beside;
use super::rollout::Rollouts;
use super::signal::Signals;
use super::standbys::Lease;
use super::store::Tables;

/// The controller's surroundings. It survives the controller.
#[derive(Default)]
pub struct Shared {
    pub tables: Tables,
    /// A real database with the same tables.
    pub beside: Option<Beside>,
    /// Clocks of the controller's machine.
    pub clocks: Clocks,
    /// The number of starts of the controller, where clocks are set.
    pub starts: u64,
    /// The controller ends after so many effects.
    pub fuse: Option<u32>,
    /// The controller has ended: nothing that it does counts any more.
    pub blown: bool,
    /// No write succeeds.
    pub full: bool,
    /// No read succeeds either.
    pub broken: bool,
    /// Another program holds the database.
    pub held: bool,
    /// The next commit is wrong in itself.
    pub mistaken: bool,
    /// Messages and answers that left in this turn.
    pub leaving: Vec<Leaving>,
    /// Changes that became durable in this turn.
    pub noted: Vec<Noted>,
    /// Changes committed so far.
    pub changes: u64,
    /// The number of times that the whole store was loaded.
    pub loads: u64,
    /// The row of the lease, and who writes by it: where the site has several controllers.
    pub lease: Lease,
    /// The first violation.
    pub violation: Option<String>,
    /// The number of times that each event happened.
    pub counts: Counts,
    /// Plans that operators sent, by the name of the source.
    pub plans: BTreeMap<String, Rc<Plan>>,
    /// The key at the other end of each connection.
    pub keys: BTreeMap<u64, SealPublic>,
    /// Jobs that left at least once.
    pub sent: BTreeSet<(ResourceId, Generation)>,
    /// Resources of which an agent was sent more than adoptions.
    pub made: BTreeSet<ResourceId>,
    /// The attempts of jobs that left.
    pub tried: BTreeSet<ReportKey>,
    /// Jobs that must not be out unless they are withdrawn in the same turn.
    pub suspects: Vec<Suspect>,
    /// Events of this turn so far.
    pub turn: SoFar,
    /// The traversal in which each job that may be out began.
    pub began: BTreeMap<(ResourceId, Generation), u64>,
    /// The reference for flow tables.
    pub flows: Model,
    /// The reference for intents.
    pub wishes: Wishes,
    /// The specification of each deployment that counts as done.
    pub settled: BTreeMap<ResourceId, PackedSpec>,
    /// The present moment.
    pub now: MonoTime,
    /// Signals, and who waits for them.
    pub signals: Signals,
    /// Nodes and members of sets, as they were.
    pub fleet: Fleet,
    /// The rollouts of sets.
    pub rollouts: Rollouts,
    /// Ports that the address plan refused in this commit.
    pub refused: Vec<ProgressRecord>,
    /// The corrections, and the events about them.
    pub fights: Sent,
    /// Nodes that were in maintenance before this turn.
    pub maintained: BTreeSet<NodeId>,
    /// Attempts that a node may have.
    pub may_have: BTreeSet<ReportKey>,
    /// Flow rules that a store which went back does not know.
    pub rules_undecided: Rules,
    /// Tables that are to become what the store says.
    pub tables_freed: BTreeSet<DeviceName>,
    /// The limits that the site must keep to, if they are checked.
    pub limits: Option<Limits>,
    /// Jobs that may be with one node at a time.
    pub in_flight_per_node: usize,
}

impl Shared {
    /// The next effect happens, unless the controller has ended by then.
    pub fn step(&mut self) -> bool {
        if let Some(left) = &mut self.fuse {
            if *left == 0 {
                self.blown = true;
            } else {
                *left -= 1;
            }
        }
        !self.blown
    }

    /// Keeps the first one.
    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

/// A change that became durable and that other parts have to know of.
pub enum Noted {
    /// An intent as it is now.
    Intent(Box<IntentRecord>),
    /// A stack changed.
    Stack { was: Option<Box<StackRecord>>, is: Box<StackRecord> },
    /// Operators are told of something.
    Event(EventRecord),
    /// A stack is gone.
    StackGone(StackRecord),
    /// A row is gone.
    RowGone(Box<ResourceRecord>),
    /// A deployment is COMPLETE.
    Deployed(Box<ResourceRecord>),
    /// A flow table is gone.
    TableGone(DeviceName),
    /// An earlier or an undecided version of an entry is not known any more: a change of it was refused.
    VersionGone(DeviceName),
}

/// A job that must not be out.
pub struct Suspect {
    pub resource: ResourceId,
    /// The generation of the job.
    pub generation: Generation,
    pub wrong: String,
    /// The job is excused if this node is greeted after it, in the same turn.
    pub unless_greeted: Option<NodeId>,
}
