//! The flow tables of Open vSwitch's bridges, over OpenFlow 1.4 on `<rundir>/<bridge>.mgmt`.
//!
//! One connection for each bridge, pipelined and bounded. A change is one bundle, atomic and ordered, and read back
//! before it counts as applied. Rules are written in the form in which the switch gives them back, so that comparing is
//! comparing bytes; where the switch has a form of its own all the same, that form is told once ("odd") and expected
//! from then on.
//!
//! ```text
//!   Packed ─▶ encode ─▶ bundle ─▶ switch ─▶ flow statistics ─▶ canonical form ─▶ hash ─▶ equal, or told
//! ```
//!
//! A rule's cookie is its id. Nothing is removed that does not carry a cookie of ours; groups and meters carry none, and
//! are ours by their number.
//!
//! Absent: which tables there are to be, what is kept of them, when to look (all in the agent).

mod ask;
mod change;
mod compare;
mod connect;
mod connection;
mod decode;
mod encode;
mod foreign;
mod form;
mod numbered;
mod oxm;
mod ports;
mod read_back;
mod stats;
#[cfg(test)]
mod tests;
mod wire;
mod words;

use std::future::Future;
use std::io;
use std::mem::take;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{DeviceName, FlowCounters, FlowId, ForeignRule, TableCounters};
use thiserror::Error;

pub use ask::read_anything;
use connection::Connection;
use encode::Encoder;
use form::Former;

/// A bridge, spoken to.
///
/// Every method may be dropped before it has come to its end: what was under way is then not known, and the connection
/// can still be used.
#[derive(Debug)]
pub struct Switch {
    device: DeviceName,
    connection: Connection,
    encoder: Encoder,
    former: Former,
    instance: u64,
    last_bundle: u32,
}

/// What a bridge tells by itself.
#[derive(Debug)]
pub enum Event {
    /// Flow tables, groups or ports have changed: compare. [`Switch::apply`] and [`Switch::strip`]
    /// do not cause it. Changes since the last call are one event.
    Changed {
        /// Only rules without a cookie of ours came or went.
        foreign_only: bool,
    },
    /// A rule ended by itself.
    Removed {
        id: FlowId,
        /// By which of its timeouts.
        timeout: Timeout,
    },
    /// The switch is gone: connect again.
    Gone(Lost),
}

/// By which a rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Seconds without a packet.
    Idle,
    /// Seconds since it was put there.
    Hard,
}

/// The reason why a bridge cannot be spoken to (any more).
#[derive(Debug, Error)]
pub enum Lost {
    /// No such bridge, no such switch.
    #[error("cannot reach bridge {bridge} of Open vSwitch at {path}")]
    Connect {
        bridge: String,
        path: String,
        #[source]
        source: io::Error,
    },
    /// The bridge does not speak OpenFlow 1.4.
    #[error(
        "bridge {0} does not speak OpenFlow 1.4; add OpenFlow14 to its column 'protocols' (ovs-vsctl set bridge {0} protocols=…)"
    )]
    Version(String),
    /// The connection broke.
    #[error("lost the connection to Open vSwitch")]
    Broken(#[source] io::Error),
    /// No byte for too long.
    #[error("Open vSwitch did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// Bytes that are not OpenFlow, or over a bound.
    #[error("Open vSwitch sent what cannot be understood: {0}")]
    Garbled(&'static str),
    /// The switch refused a question that every switch answers.
    #[error("Open vSwitch refused a question: {0}")]
    Refused(String),
    /// Of the nftables device: in words.
    #[error("{0}")]
    Filter(String),
    /// The desired entries could not be read.
    #[error("cannot read the flow table that is kept")]
    Kept(#[source] io::Error),
}

/// An operation of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// The bridge must hold this entry.
    Put {
        /// The id: the cookie of a rule.
        id: FlowId,
        /// [`Packed`](muster_shared::model::flow::Packed) bytes.
        packed: &'a [u8],
        /// The entry is ours already, or was when last seen: whatever stands in its place is
        /// replaced. Otherwise a rule, group or meter of others in its place refuses the change.
        held: bool,
    },
    /// The bridge must not hold this entry. An entry that is not there is no error.
    Remove {
        id: FlowId,
        /// What was last put under this id. Groups and meters are found by it; a rule is by its cookie alone.
        was: Option<&'a [u8]>,
    },
}

/// The operations of a change, which are never all in memory.
///
/// They are read once from the beginning, and a second time if there are groups or meters among them: those are put
/// before the rules that use them and removed after. Within rules, and within groups, the order is kept; an id comes at
/// most once.
pub trait Ops {
    /// From the beginning.
    ///
    /// # Errors
    /// The change is given up; nothing was applied.
    fn rewind(&mut self) -> io::Result<()>;

    /// The next; none at the end.
    ///
    /// # Errors
    /// The change is given up; nothing was applied.
    fn next(&mut self) -> io::Result<Option<Op<'_>>>;

    /// A rule of others that equals the one to put becomes ours. Not where the change may be
    /// undone: the undo would remove it, and nothing would remember that it was there.
    fn takes_over(&self) -> bool {
        true
    }

    /// All of it may be there already: groups and meters, which carry no cookie, are not taken for those of others.
    fn is_again(&self) -> bool {
        false
    }
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is there, as read back.
    Applied(Applied),
    /// Nothing of it was applied.
    Refused(Refusal),
}

/// A change that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What the switch gives back in another form than it was sent, in the order of ids: to be kept, and given to
    /// [`Switch::compare`] through [`Desired`].
    pub odd: Vec<(FlowId, Form)>,
    /// What was put and is not there a moment later, in the order of ids: others removed it, or it has ended by its
    /// timeout ([`Event::Removed`] tells).
    pub missing: Vec<FlowId>,
}

/// The reason why a change was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The entry that caused the refusal, where there is one.
    pub id: Option<FlowId>,
    /// In words, with the switch's own.
    pub reason: String,
    /// Trying again cannot help.
    pub permanent: bool,
}

/// The form of an entry as the switch gives it back: a hash of its canonical bytes, the same for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form(pub u64);

/// The desired entries of a bridge, in the order of their ids, by their index.
pub trait Desired {
    fn len(&self) -> usize;

    /// None at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Without its content.
    fn get(&self, index: usize) -> Wanted;

    /// The index of an id.
    fn find(&self, id: FlowId) -> Option<usize>;

    /// Its [`Packed`](muster_shared::model::flow::Packed) bytes, in place of what is in `packed`.
    ///
    /// # Errors
    /// The comparison is given up.
    fn read(&self, index: usize, packed: &mut Vec<u8>) -> io::Result<()>;
}

/// An entry of [`Desired`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub id: FlowId,
    /// The entry must be there. Of an entry that must not, such as an expired one, only the place
    /// is ours: what stands under its id is extraneous.
    pub present: bool,
    /// The form that was told as odd, if it was.
    pub odd: Option<Form>,
}

/// The differences between a bridge and its desired entries.
#[derive(Debug)]
pub struct Compared<E = Extraneous> {
    /// Not there, in the order of ids.
    pub missing: Vec<FlowId>,
    /// There in another form, which is given.
    pub altered: Vec<(FlowId, Form)>,
    /// Neither: they cannot be said to the switch at present, for a port is not there. In the order of ids.
    pub unsayable: Vec<(FlowId, Arc<str>)>,
    /// With cookies of ours, and not to be there: for [`Switch::strip`], before anything is put.
    pub extraneous: Vec<E>,
    /// There are more of them than are given: compare again when these are gone.
    pub more_extraneous: bool,
    /// Rules without a cookie of ours.
    pub foreign: u32,
}

impl<E> Default for Compared<E> {
    fn default() -> Self {
        Self {
            missing: Vec::new(),
            altered: Vec::new(),
            unsayable: Vec::new(),
            extraneous: Vec::new(),
            more_extraneous: false,
            foreign: 0,
        }
    }
}

impl<E> Compared<E> {
    /// The bridge holds the desired entries, as far as the switch can express them.
    pub fn is_equal(&self) -> bool {
        self.missing.is_empty() && self.altered.is_empty() && self.extraneous.is_empty()
    }
}

/// A rule to be removed, exactly this one.
#[derive(Clone, PartialEq, Eq)]
pub struct Extraneous {
    cookie: FlowId,
    table: u8,
    priority: u16,
    /// OXM, as the switch gave it.
    matched: Box<[u8]>,
}

impl Extraneous {
    pub fn id(&self) -> FlowId {
        self.cookie
    }
}

impl std::fmt::Debug for Extraneous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cookie, table, priority, .. } = self;
        write!(f, "{cookie} (table {table}, priority {priority})")
    }
}

impl Switch {
    /// Connects to `<rundir>/<bridge>.mgmt`, learns the ports and asks to be told of changes.
    pub async fn connect(rundir: &Path, device: &DeviceName) -> Result<Self, Lost> {
        Self::open(rundir, device).await
    }

    /// Changes with each restart of the switch, after which its tables are empty.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// The next event. Answers the switch's probes and probes it while it waits. Nothing is lost when it is dropped. After
    /// [`Event::Gone`] there is nothing more.
    pub async fn event(&mut self) -> Event {
        loop {
            if let Err(lost) = self.connection.hear_all() {
                return Event::Gone(lost);
            }
            let heard = &mut self.connection.heard;
            if let Some((id, timeout)) = heard.removed.pop_front() {
                return Event::Removed { id, timeout };
            }
            let (changed, foreign) = (take(&mut heard.changed), take(&mut heard.changed_foreign));
            if changed || foreign {
                return Event::Changed { foreign_only: !changed };
            }
            if let Err(lost) = self.connection.listen().await {
                return Event::Gone(lost);
            }
        }
    }

    /// Rules that ended by themselves and were not told of yet: they are not told of by [`Switch::event`] then. What
    /// [`Switch::compare`] no longer found there is among what was told by the time it returns.
    pub fn take_ended(&mut self) -> Vec<FlowId> {
        self.connection.heard.removed.drain(..).map(|(id, _)| id).collect()
    }

    /// Does all of `ops` or nothing, and reads back what was put.
    ///
    /// `commit` is waited for when everything was sent and before any of it takes effect: so whatever makes the change
    /// durable may run meanwhile (start it before: it is polled only at the end). Its error refuses the change. The
    /// switch gives a change up that waits for 10 s.
    ///
    /// # Errors
    /// [`Lost`] leaves it open whether it was applied.
    pub async fn apply(
        &mut self,
        ops: &mut dyn Ops,
        commit: impl Future<Output = Result<(), String>>,
    ) -> Result<Outcome, Lost> {
        self.change(ops, commit).await
    }

    /// Reads the whole bridge and compares. Memory is in proportion to the differences and one bit for each entry.
    pub async fn compare(&mut self, desired: &dyn Desired) -> Result<Compared, Lost> {
        self.compare_all(desired).await
    }

    /// Removes exactly these.
    pub async fn strip(&mut self, extraneous: &[Extraneous]) -> Result<(), Lost> {
        self.remove_extraneous(extraneous).await
    }

    /// What the switch counted: of everything that carries an id of ours, in pages of
    /// [`STATS_PAGE`](muster_shared::model::flow::STATS_PAGE) at most, in no order; then of the tables that hold anything
    /// or were looked into.
    pub async fn stats(
        &mut self,
        page: &mut dyn FnMut(Vec<FlowCounters>),
    ) -> Result<Vec<TableCounters>, Lost> {
        self.count(page).await
    }

    /// Rules without a cookie of ours, at most so many; in our words where they can be said in them.
    pub async fn foreign(&mut self, max: usize) -> Result<Vec<ForeignRule>, Lost> {
        self.read_foreign(max).await
    }

    pub fn device(&self) -> &DeviceName {
        &self.device
    }
}
