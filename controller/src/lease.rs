//! The lease of a site: of its controllers one is active, and the others stand by.
//!
//! ```text
//!   standby ── looks ──▶ free, or not renewed for longer than a lease ── takes it ──▶ active
//!                                                                              │ renews, five times in a lease
//!                                     not renewed in time: nothing is sent ◀───┤
//!                                     another one has it: the program ends ◀───┤
//!                                     hand-over, stop: freed for the next   ◀──┘
//! ```
//!
//! A standby asks for a hand-over where at least as many agents keep coming to it as the active controller has: these
//! do not reach that one. An active controller that has lost its brokers hands over to a standby by itself.
//!
//! The lease is a row in the database (`store/lease.rs`). Taking it draws a new epoch; each transaction of the active
//! controller compares its own with the row's. Nobody compares clocks: the holder counts from before it asked for a
//! renewal, and a standby from when it saw the last one, each by its own clock, which a stopped process and a
//! suspended machine cannot hold up. So two controllers never both think that they may send.
//!
//! A site in SQLite has one controller, which holds the lease for good.
//!
//! Absent: the times (`machine.rs`, `unreached_broker.rs`), which of several sites a controller asks for (`share.rs`), and
//! what the audit says of a change (`succession.rs`).

mod agents_at_standby;
mod keeper;
mod machine;
mod share;
mod succession;
mod unreached_broker;

use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use muster_shared::{Epoch, MonoTime, NodeId};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

pub use agents_at_standby::Knocks;
pub use keeper::{Ended, Heir, Keeper, Taken};
pub use machine::{Holder, Standby, Terms, Verdict};
pub use share::Share;
pub use unreached_broker::UnreachedBroker;

/// Between two looks whether this process still holds the lease. What is sent looks by itself.
pub(crate) const TENURE_LOOK: Duration = Duration::from_millis(200);

/// A holder's time, from its take to the next one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Higher than that of each holder before.
    pub epoch: Epoch,
    /// Drawn at random: two databases that were one may give the same epoch twice.
    pub bits: u64,
}

/// A controller as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Unique in the site.
    pub name: String,
    /// The addresses at which agents reach the holder, `host:port`.
    pub addresses: Vec<String>,
    /// The data directory, on its machine since the last boot: who has locked that directory knows that no other
    /// process of this instance lives. A copied directory is another one.
    pub instance: String,
}

/// The row of the lease in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub term: Term,
    /// The controller that took it last.
    pub holder: Member,
    /// When it did, RFC 3339 UTC.
    pub since: String,
    /// Raised by each renewal.
    pub beat: u64,
    /// Connected to the holder when it renewed the lease.
    pub agents: usize,
    pub state: LeaseState,
    /// The one who wants the heir to have the lease.
    pub asker: Option<Box<Asker>>,
}

/// The one who wants another controller to be active, for the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// A user of the system, or a controller.
    pub actor: String,
    pub from: String,
    pub why: String,
}

impl Asker {
    /// The controller of this name, which decided by itself.
    pub fn controller(name: &str, why: &str) -> Self {
        Self { actor: format!("controller {name}"), from: "its own decision".to_owned(), why: why.to_owned() }
    }
}

/// Whether the lease is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    Held,
    /// The lease is held, and is to go to this controller.
    Asked {
        heir: String,
    },
    /// The lease was given up for this controller; for others as well, if that one does not take it.
    Left {
        heir: String,
    },
    Free,
}

/// A controller that waits, as the active one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyView {
    pub member: Member,
    /// Since its last look at the lease.
    pub behind: Duration,
}

/// Whether this process may speak for the site, for all who speak: each asks before it does.
#[derive(Clone, Debug)]
pub struct Tenure(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Nanoseconds of [`since_boot`], until when it may; 0: it may not.
    until: AtomicU64,
    /// The lease is free, or its holder does not renew it as it should: this process may have it soon.
    is_vacant: AtomicBool,
    /// Raised when this process begins or ends to hold the lease, and when the lease begins or ends to be vacant; not
    /// when it runs out.
    changes: watch::Sender<u64>,
    /// The thread that looks at the lease.
    keeper: OnceLock<Thread>,
    /// Agents that are connected to this process.
    agents: AtomicUsize,
    /// Agents that came to it and were sent to the active controller.
    knocks: Mutex<Knocks>,
    seen: Mutex<Seen>,
}

/// The state that the keeper saw last.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The holder, and since when it is that.
    pub active: Option<(Member, String)>,
    pub epoch: Epoch,
    pub standbys: Vec<StandbyView>,
    /// The reason why this controller cannot see, take or renew the lease, or should not be like this.
    pub problem: Option<String>,
}

impl Tenure {
    /// A tenure that no other controller can take.
    pub fn for_good() -> Self {
        Self::until(u64::MAX)
    }

    /// A tenure that another controller may have.
    pub fn none() -> Self {
        Self::until(0)
    }

    fn until(until: u64) -> Self {
        Self(Arc::new(Shared {
            until: AtomicU64::new(until),
            is_vacant: AtomicBool::new(false),
            changes: watch::Sender::default(),
            keeper: OnceLock::new(),
            agents: AtomicUsize::new(0),
            knocks: Mutex::default(),
            seen: Mutex::default(),
        }))
    }

    /// Whether this process holds the lease at this moment.
    pub fn holds(&self) -> bool {
        self.holds_by(since_boot)
    }

    /// The same for a process that has this clock.
    pub fn holds_by(&self, clock: impl FnOnce() -> MonoTime) -> bool {
        match self.0.until.load(Ordering::Acquire) {
            u64::MAX => true,
            0 => false,
            until => clock().0 < Duration::from_nanos(until),
        }
    }

    /// How long ago the lease ran out; zero where it did not, or was given up.
    pub fn over_for(&self) -> Duration {
        match self.0.until.load(Ordering::Acquire) {
            0 | u64::MAX => Duration::ZERO,
            until => since_boot().0.saturating_sub(Duration::from_nanos(until)),
        }
    }

    /// Whether nobody else can ever have it.
    pub fn is_for_good(&self) -> bool {
        self.0.until.load(Ordering::Acquire) == u64::MAX
    }

    /// Whether nobody seems to hold the lease.
    pub fn is_vacant(&self) -> bool {
        self.0.is_vacant.load(Ordering::Acquire)
    }

    /// Hears of changes of [`Tenure::holds`] and [`Tenure::is_vacant`], but not of a lease that runs out.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Waits until this process holds the lease.
    pub async fn until_held(&self) {
        let mut changes = self.changes();
        while !self.holds() {
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// Waits until this process does not hold the lease, also where the lease runs out.
    pub async fn until_over(&self) {
        if self.is_for_good() {
            std::future::pending::<()>().await;
        }
        while self.holds() {
            sleep(TENURE_LOOK).await;
        }
    }

    /// Asks for a look at the lease now: an agent has come, so the active controller may have gone.
    pub fn look_now(&self) {
        if let Some(keeper) = self.0.keeper.get() {
            keeper.unpark();
        }
    }

    /// An agent came that may not come in: the active controller may not be reached from where it is.
    pub fn sends_away(&self, node: &NodeId) {
        if !self.holds() {
            self.knocks().comes(since_boot(), node);
        }
    }

    /// So many agents are connected to this process.
    pub fn set_agents(&self, agents: usize) {
        self.0.agents.store(agents, Ordering::Relaxed);
    }

    pub(crate) fn agents(&self) -> usize {
        self.0.agents.load(Ordering::Relaxed)
    }

    fn knocks(&self) -> MutexGuard<'_, Knocks> {
        self.0.knocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread looks at the lease.
    pub(crate) fn keep(&self) {
        self.0.keeper.get_or_init(thread::current);
    }

    pub(crate) fn set_vacant(&self, is_vacant: bool) {
        if self.0.is_vacant.swap(is_vacant, Ordering::AcqRel) != is_vacant {
            self.has_changed();
        }
    }

    fn has_changed(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// The site's controllers, as the keeper saw them last.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// The addresses at which agents reach the site's controllers: these, and those of the others.
    pub fn addresses(&self, own: &[String]) -> Vec<String> {
        let seen = self.lock();
        let active = seen.active.iter().map(|(member, _)| member);
        let others = active.chain(seen.standbys.iter().map(|standby| &standby.member));
        let mut addresses = own.to_vec();
        for address in others.flat_map(|member| &member.addresses) {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses
    }

    fn set_problem(&self, problem: Option<String>) {
        self.lock().problem = problem;
    }

    /// This process has the lease until then, by its own clock.
    pub fn set(&self, until: MonoTime) {
        let is_new = !self.holds();
        self.0.until.store(u64::try_from(until.0.as_nanos()).unwrap_or(u64::MAX - 1), Ordering::Release);
        if is_new {
            self.has_changed();
        }
    }

    /// This process speaks no more.
    pub fn resign(&self) {
        self.0.until.store(0, Ordering::Release);
        self.has_changed();
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Member::instance`] of the one who has locked its data directory with this file.
///
/// # Errors
/// The file, or the number of the boot, cannot be read.
pub fn instance(lock: &std::fs::File) -> std::io::Result<String> {
    let (boot, file) = (std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?, lock.metadata()?);
    Ok(format!("{} {} {}", boot.trim(), file.dev(), file.ino()))
}

/// The time since the machine's boot: it goes on while a process is stopped or the machine sleeps.
pub fn since_boot() -> MonoTime {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock");
    MonoTime(Duration::from(time))
}
