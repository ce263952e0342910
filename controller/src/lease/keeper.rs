//! Waits for the lease, then renews it, on a thread of its own: nothing else of the controller delays that.
//!
//! Absent: when the lease may be taken (`machine.rs`), and the row in the database (`store/lease.rs`).

use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use muster_engine::record::AuditRecord;
use tokio::sync::oneshot;

use super::{
    Asker, Holder, LeaseState, Member, Record, Seen, Share, Standby, Tenure, Term, Terms, Verdict,
    since_boot, succession,
};
use crate::audit_journal::to_journal;
use crate::random::random;
use crate::site_name::SiteName;
use crate::store::{LeaseTable, StoreError};

/// The least time between two looks at the lease, however many agents come.
const LOOK_REST: Duration = Duration::from_millis(50);
/// The longest time that a stop waits until the lease is given up.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// The reason why the holder is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Another controller has the lease.
    Lost,
    /// An operator wants this controller to have it.
    HandOver { heir: String },
}

/// The lease was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    pub term: Term,
    /// The audit's row about that.
    pub row: Option<AuditRecord>,
}

/// The thread. Dropping this leaves the lease to run out.
#[derive(Debug)]
pub struct Keeper {
    orders: mpsc::Sender<Leave>,
    thread: Thread,
}

/// To whom the lease goes, if not to anyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heir {
    pub name: String,
    /// The one who wants that, where nobody has asked for the lease.
    pub asker: Option<Asker>,
}

/// The order to give the lease up, and to say when that is done.
struct Leave {
    heir: Option<Heir>,
    done: mpsc::Sender<()>,
}

impl Keeper {
    /// Begins to wait for the lease of a site. The receivers hear when it is taken, and when that is over.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(
        site: SiteName,
        table: LeaseTable,
        me: Member,
        terms: Terms,
        tenure: Tenure,
        share: Share,
    ) -> std::io::Result<(Self, oneshot::Receiver<Taken>, oneshot::Receiver<Ended>)> {
        let (orders, ordered) = mpsc::channel();
        let (took, taken) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let keeping =
            Keeping { site, table, me, terms, tenure, share, ordered, problem: None, announced: None };
        let thread = thread::Builder::new().name("lease".into()).spawn(move || keeping.run(took, end))?;
        Ok((Self { orders, thread: thread.thread().clone() }, taken, ended))
    }

    /// Gives the lease up, or the wait for it. Returns when that is done, or after a while without an answer: then
    /// the lease runs out.
    pub fn leave(self, heir: Option<Heir>) {
        let (done, is_done) = mpsc::channel();
        if self.orders.send(Leave { heir, done }).is_ok() {
            self.thread.unpark();
            // Also if the thread has ended meanwhile.
            let _ = is_done.recv_timeout(LEAVE_MAX);
        }
    }
}

struct Keeping {
    site: SiteName,
    table: LeaseTable,
    me: Member,
    terms: Terms,
    tenure: Tenure,
    share: Share,
    ordered: mpsc::Receiver<Leave>,
    /// The last problem: it is logged once.
    problem: Option<String>,
    /// When this standby last said that it is there.
    announced: Option<Instant>,
}

impl Keeping {
    fn run(mut self, took: oneshot::Sender<Taken>, end: oneshot::Sender<Ended>) {
        self.tenure.keep();
        let Some((taken, holder)) = self.stand_by() else { return };
        let term = taken.term;
        // Nobody listens: the program ends.
        if took.send(taken).is_ok() {
            self.hold(term, holder, end);
        }
    }

    /// Waits until the lease is this controller's; `None`: it is to wait no more.
    fn stand_by(&mut self) -> Option<(Taken, Holder)> {
        let mut standby = Standby::new(self.me.clone(), self.terms);
        loop {
            let looked = Instant::now();
            match self.try_take(&mut standby) {
                Ok(Some(taken)) => return Some(taken),
                Ok(None) if standby.has_namesake() => self.say(
                    "the active one has the same name: give one of them another (controller.name)",
                    &format!("another controller is called {}", self.me.name),
                ),
                Ok(None) => self.is_well(),
                Err(error) => self.say(&error.to_string(), "the lease cannot be seen"),
            }
            // Until an agent comes, which may have lost the active controller.
            thread::park_timeout(standby.next_look(since_boot(), self.share.reserve(&self.site, self.terms)));
            while let Some(rest) = LOOK_REST.checked_sub(looked.elapsed()) {
                thread::park_timeout(rest);
            }
            match self.ordered.try_recv() {
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return None,
                Ok(Leave { done, .. }) => {
                    if let Err(error) = self.table.forget_me() {
                        tracing::debug!(%error, "this controller is listed as a standby for a while");
                    }
                    let _ = done.send(()); // it may have waited long enough
                    return None;
                }
            }
        }
    }

    fn try_take(&mut self, standby: &mut Standby) -> Result<Option<(Taken, Holder)>, StoreError> {
        let asked = since_boot();
        let record = self.table.look()?;
        if self.announced.is_none_or(|announced| announced.elapsed() >= self.terms.pace()) {
            self.table.announce()?;
            self.announced = Some(Instant::now());
        }
        // Agents that come are sent to whom this tells of.
        self.show(record.as_ref())?;
        let verdict = standby.saw(since_boot(), record.as_ref(), self.share.reserve(&self.site, self.terms));
        self.tenure.set_vacant(standby.is_vacant(since_boot()));
        if verdict == Verdict::Wait {
            if let Some(record) = &record
                && let Some(why) = self.wants(standby)
                && self.table.ask(record, &self.me.name, &Asker::controller(&self.me.name, &why))?
            {
                tracing::info!(site = %self.site, of = record.holder.name, "asks for the lease: {why}");
            }
            return Ok(None);
        }
        // A controller that cannot read the database leaves the lease to one that can.
        self.table.check()?;
        let bits = random().map_err(|error| StoreError::Format(error.to_string()))?;
        if verdict == Verdict::TakeOver {
            self.table.end_holder()?;
        }
        let Some(term) = self.table.take(record.as_ref(), u64::from_ne_bytes(bits))? else { return Ok(None) };
        let holder = Holder::new(asked, self.terms);
        self.tenure.set(holder.until());
        // Should it lose the lease, agents are to go elsewhere at once.
        self.tenure.set_vacant(false);
        self.tenure.knocks().clear();
        tracing::info!(site = %self.site, epoch = term.epoch.0, "this controller has the lease");
        let row = succession::row(&self.me.name, record.as_ref(), verdict, term);
        row.iter().for_each(to_journal);
        Ok(Some((Taken { term, row }, holder)))
    }

    /// The reason why this controller is to ask the holder for the lease, if it is.
    fn wants(&self, standby: &Standby) -> Option<String> {
        let now = since_boot();
        let stranded = self.tenure.knocks().stranded(now, self.terms.lease);
        if standby.reaches_more(now, stranded) {
            return Some(format!("{stranded} agents reach this controller and not the active one"));
        }
        let wants = standby.is_known(now) && self.share.wants(&self.site);
        wants.then(|| "it has less than its share of the sites".to_owned())
    }

    fn hold(&mut self, term: Term, mut holder: Holder, end: oneshot::Sender<Ended>) {
        let mut end = Some(end);
        // Nobody may listen any more.
        let mut tell = |ended| drop(end.take().map(|end| end.send(ended)));
        let mut pause = Duration::ZERO;
        loop {
            thread::park_timeout(pause);
            match self.ordered.try_recv() {
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
                Ok(Leave { heir, done }) => {
                    self.tenure.resign();
                    match self.table.leave(term, heir.as_ref()).and(self.table.forget_me()) {
                        Ok(()) => {
                            let heir = heir.map(|heir| heir.name);
                            tracing::info!(heir, "this controller has given the lease up");
                        }
                        Err(error) => tracing::warn!(%error, "the lease cannot be given up: it runs out"),
                    }
                    let _ = done.send(()); // it may have waited long enough
                    return;
                }
            }
            pause = self.terms.pace();
            let asked = since_boot();
            match self.table.renew(term, self.tenure.agents()) {
                Ok(Some(record)) => {
                    holder.renewed(asked);
                    self.tenure.set(holder.until());
                    if let LeaseState::Asked { heir } = &record.state {
                        tell(Ended::HandOver { heir: heir.clone() });
                    }
                    match self.show(Some(&record)) {
                        Ok(()) => self.is_well(),
                        Err(error) => self.say(&error.to_string(), "the standbys cannot be seen"),
                    }
                }
                Ok(None) => {
                    self.tenure.resign();
                    tell(Ended::Lost);
                    return;
                }
                Err(error) => {
                    pause /= 4;
                    let what = "the lease cannot be renewed, and without it nothing is sent to agents";
                    self.say(&error.to_string(), what);
                }
            }
        }
    }

    /// Notes what is known of the site's controllers.
    fn show(&self, record: Option<&Record>) -> Result<(), StoreError> {
        let Some(record) = record else { return Ok(()) };
        let standbys = self.table.standbys(&record.holder.name)?;
        self.share.saw(&self.site, record, &standbys, self.terms);
        let mut seen = self.tenure.lock();
        let has_changed = seen.active.as_ref().is_none_or(|(active, _)| *active != record.holder);
        let active = Some((record.holder.clone(), record.since.clone()));
        *seen = Seen { active, epoch: record.term.epoch, standbys, problem: seen.problem.take() };
        drop(seen);
        if has_changed && record.holder.name != self.me.name {
            tracing::info!(site = %self.site, active = record.holder.name, since = record.since, "standing by");
        }
        Ok(())
    }

    fn say(&mut self, why: &str, what: &str) {
        if self.problem.as_deref() != Some(why) {
            tracing::warn!(site = %self.site, error = why, "{what}");
            self.problem = Some(why.to_owned());
            self.tenure.set_problem(Some(format!("{what}: {why}")));
        }
    }

    fn is_well(&mut self) {
        if self.problem.take().is_some() {
            self.tenure.set_problem(None);
        }
    }
}
