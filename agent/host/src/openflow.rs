//! The flow tables of Open vSwitch's bridges, over OpenFlow 1.4 on `<rundir>/<bridge>.mgmt`.
//!
//! One connection for each bridge, pipelined and bounded. A change is one bundle, atomic and ordered, and is
//! read back before it counts as applied. Rules are written in the form in which the switch lists them, so
//! that a comparison only compares bytes. If the switch nevertheless lists another form, that form is
//! reported once ("odd") and expected from then on.
//!
//! ```text
//!   Packed ─▶ encode ─▶ bundle ─▶ switch ─▶ flow statistics ─▶ canonical form ─▶ hash ─▶ equal, or told
//! ```
//!
//! A rule's cookie is its id. Only rules with a cookie of ours are removed; groups and meters have no cookie,
//! and are ours by their number.
//!
//! Absent: the desired tables and the times of comparing (`agent/core/src/flow.rs`), and their storage
//! (`agent/src/flow_log.rs`).

mod ask;
mod change;
mod compare;
mod connect;
mod connection;
mod decode;
mod encode;
mod form;
mod numbered;
mod oxm;
mod ports;
mod read_back;
mod read_foreign;
mod stats;
#[cfg(test)]
mod tests;
mod trace;
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
pub use trace::{TraceError, read_trace, trace};

/// A connection to a bridge.
///
/// Every method's future may be dropped before its end: then the result of the work is unknown, and the
/// connection can still be used.
#[derive(Debug)]
pub struct Switch {
    device: DeviceName,
    connection: Connection,
    encoder: Encoder,
    former: Former,
    instance: u64,
    last_bundle: u32,
}

/// A spontaneous message of a bridge.
#[derive(Debug)]
pub enum Event {
    /// Flow tables, groups or ports have changed: compare. [`Switch::apply`] and [`Switch::strip`]
    /// do not cause it. Changes since the last call are one event.
    Changed {
        /// Only rules without a cookie of ours came or went.
        foreign_only: bool,
    },
    /// A rule ended by a timeout.
    Removed {
        id: FlowId,
        /// The timeout that ended the rule.
        timeout: Timeout,
    },
    /// The switch is gone: connect again.
    Gone(Lost),
}

/// A rule's timeouts.
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
    /// There is no such bridge, or no such switch.
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
    /// The switch sent nothing for too long.
    #[error("Open vSwitch did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The bytes are not OpenFlow, or exceed a bound.
    #[error("Open vSwitch sent what cannot be understood: {0}")]
    Garbled(&'static str),
    /// The switch refused a question that every switch answers.
    #[error("Open vSwitch refused a question: {0}")]
    Refused(String),
    /// An error of the nftables device, in words.
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
        /// The entry is ours already, or was when last seen: an entry in its place is replaced. Otherwise a
        /// rule, group or meter of others in its place refuses the change.
        held: bool,
    },
    /// The bridge must not hold this entry. An entry that is not there is no error.
    Remove {
        id: FlowId,
        /// The content last put under this id. It identifies groups and meters; a rule is identified by its
        /// cookie alone.
        was: Option<&'a [u8]>,
    },
}

/// The operations of a change, which are never all in memory.
///
/// The operations are read once from the beginning, and a second time if there are groups or meters among
/// them: those are put before the rules that use them and removed after. The order within rules, and within
/// groups, is kept. An id occurs at most once.
pub trait Ops {
    /// Starts again from the beginning.
    ///
    /// # Errors
    /// The change is given up; nothing was applied.
    fn rewind(&mut self) -> io::Result<()>;

    /// The next operation; `None` at the end.
    ///
    /// # Errors
    /// The change is given up; nothing was applied.
    fn next(&mut self) -> io::Result<Option<Op<'_>>>;

    /// Whether a rule of others that equals the one to put becomes ours. False where the change may be
    /// undone: the undo would remove the rule, and no record would say that it existed.
    fn takes_over(&self) -> bool {
        true
    }

    /// Whether all of the change may already be present: then existing groups and meters, which carry no
    /// cookie, are not taken for those of others.
    fn is_again(&self) -> bool {
        false
    }
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is present, as read back.
    Applied(Applied),
    /// Nothing of it was applied.
    Refused(Refusal),
}

/// A change that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Entries that the switch lists in another form than sent, in the order of ids. Keep the forms, and pass
    /// them to [`Switch::compare`] through [`Desired`].
    pub odd: Vec<(FlowId, Form)>,
    /// Entries that were put and are absent a moment later, in the order of ids: others removed them, or they
    /// ended by their timeout ([`Event::Removed`] tells).
    pub missing: Vec<FlowId>,
}

/// The reason why a change was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The entry that caused the refusal, if it is known.
    pub id: Option<FlowId>,
    /// The reason in words, including the switch's own.
    pub reason: String,
    /// A retry cannot help.
    pub permanent: bool,
}

/// The form of an entry as the switch gives it back: a hash of its canonical bytes, the same for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form(pub u64);

/// The desired entries of a bridge, in the order of their ids, by their index.
pub trait Desired {
    fn len(&self) -> usize;

    /// Whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry without its content.
    fn get(&self, index: usize) -> Wanted;

    /// The index of an id.
    fn find(&self, id: FlowId) -> Option<usize>;

    /// Reads the entry's [`Packed`](muster_shared::model::flow::Packed) bytes into `packed`, replacing
    /// its content.
    ///
    /// # Errors
    /// The comparison is given up.
    fn read(&self, index: usize, packed: &mut Vec<u8>) -> io::Result<()>;
}

/// An entry of [`Desired`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub id: FlowId,
    /// The entry must be present. For an absent one, such as an expired entry, only the place is ours:
    /// whatever is under its id is extraneous.
    pub present: bool,
    /// The odd form of the entry, if one was reported.
    pub odd: Option<Form>,
}

/// The differences between a bridge and its desired entries.
#[derive(Debug)]
pub struct Compared<E = Extraneous> {
    /// Absent entries, in the order of ids.
    pub missing: Vec<FlowId>,
    /// Entries with another form, with that form.
    pub altered: Vec<(FlowId, Form)>,
    /// Entries that cannot be expressed to the switch at present, since a port is missing. In the order
    /// of ids.
    pub unsayable: Vec<(FlowId, Arc<str>)>,
    /// Rules with cookies of ours that must not exist: pass them to [`Switch::strip`] before
    /// putting anything.
    pub extraneous: Vec<E>,
    /// Further extraneous rules exist: compare again once these are removed.
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

/// Identifies exactly one rule to be removed.
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
    /// Connects to `<rundir>/<bridge>.mgmt`, reads the ports and subscribes to changes.
    pub async fn connect(rundir: &Path, device: &DeviceName) -> Result<Self, Lost> {
        Self::open(rundir, device).await
    }

    /// Changes with each restart of the switch, after which its tables are empty.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    /// Waits for the next event. Meanwhile answers the switch's probes and probes the switch. Dropping the
    /// future loses nothing. [`Event::Gone`] is the last event.
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

    /// Rules that ended by themselves and were not reported yet; [`Switch::event`] then does not report them.
    /// Includes all ended rules that a completed [`Switch::compare`] no longer found.
    pub fn take_ended(&mut self) -> Vec<FlowId> {
        self.connection.heard.removed.drain(..).map(|(id, _)| id).collect()
    }

    /// Applies all of `ops` or none, and reads back the new entries.
    ///
    /// Waits for `commit` once everything was sent and before any of it takes effect, so that the write that
    /// makes the change durable may run meanwhile (start it before: it is polled only at the end). Its error
    /// refuses the change. The switch gives up a change that waits for 10 s.
    ///
    /// # Errors
    /// After [`Lost`], it is unknown whether the change was applied.
    pub async fn apply(
        &mut self,
        ops: &mut dyn Ops,
        commit: impl Future<Output = Result<(), String>>,
    ) -> Result<Outcome, Lost> {
        self.change(ops, commit).await
    }

    /// Reads the whole bridge and compares. Memory is proportional to the differences, plus one bit for
    /// each entry.
    pub async fn compare(&mut self, desired: &dyn Desired) -> Result<Compared, Lost> {
        self.compare_all(desired).await
    }

    /// Removes exactly these.
    pub async fn strip(&mut self, extraneous: &[Extraneous]) -> Result<(), Lost> {
        self.remove_extraneous(extraneous).await
    }

    /// The switch's counters: of everything that carries an id of ours, in unordered pages of at most
    /// [`STATS_PAGE`](muster_shared::model::flow::STATS_PAGE); then of the tables that hold entries or
    /// had lookups.
    pub async fn stats(
        &mut self,
        page: &mut dyn FnMut(Vec<FlowCounters>),
    ) -> Result<Vec<TableCounters>, Lost> {
        self.count(page).await
    }

    /// Rules without a cookie of ours, at most this many; in our notation as far as it can express them.
    pub async fn foreign(&mut self, max: usize) -> Result<Vec<ForeignRule>, Lost> {
        self.read_foreign(max).await
    }

    pub fn device(&self) -> &DeviceName {
        &self.device
    }
}
