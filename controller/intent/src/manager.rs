//! Intents from the request to the devices, and what becomes of them while the network changes.
//!
//! ```text
//!   submit, withdraw, purge ─┐                                    ┌─▶ Effect::Write ─▶ flow table ─▶ written()
//!   ports, links, LLDP ──────┼─▶ who is concerned ─▶ compile, stages ┤
//!   timers ──────────────────┘                                    └─▶ Effect::Save
//! ```
//!
//! Requests and changes only say which intents are to be looked at; [`Manager::run`] looks at each of them once, so that
//! of many requests for one key the last counts. What an intent **placed** is what the flow table was told to hold for
//! it: stages lead from there to what is wanted, also when the way is changed halfway. Where a write failed the table is
//! asked what it holds instead: that follows from all writes before and after, those too of before a start.
//!
//! Absent: the way of a write to its device, who may ask for what, the clock.

mod load;
mod network;
mod place;
mod request;
mod view;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{DeviceName, Entry, Packed};

pub use load::{IntentRecord, PathRecord, PortRecord, Reroute};
pub use network::SettledPort;
pub use place::Lies;
pub use request::{IntentRefused, KEY_MAX, Wish};
pub use view::{HostView, IntentView, LinkView, PortView, ReservationView, TopologyView};

use crate::compile::Gate;
use crate::intent::Intent;
use crate::kept::KeptIntent;
use crate::ledger::{Holder, Ledger, Share};
use crate::path::Trees;
use crate::phase::{Request, Standing, State, counts};
use crate::topology::{DeviceNo, LinkNo, PortNo, Topology};
use crate::track::{Concerned, Hope, Tracker};
use load::Stand;
use network::Damping;
use place::{Open, Placed, labelled};
use work::Work;

/// Intents of a site: at a kilobyte each a quarter of a gigabyte.
pub const INTENTS_MAX: usize = 250_000;
/// Moves of an intent that are remembered.
pub const HISTORY_MAX: usize = 10;
/// The first pause before something that failed on a device is tried again; doubled with each further failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Room for effects that is kept.
const EFFECTS_KEPT: usize = 64;

/// An intent's number: never used twice. Its rules are of this owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentNo(pub u64);

/// A write on its way; never used twice while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// What is to be done with one entry of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The device is to hold it.
    Put(Packed),
    /// The device is to hold it no more.
    Remove(Packed),
}

impl Op {
    /// With what.
    pub fn packed(&self) -> &Packed {
        let (Self::Put(packed) | Self::Remove(packed)) = self;
        packed
    }
}

/// How a write ended: why, if nothing of it happened.
pub type Ended = (Token, Result<(), Box<str>>);

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All of it or nothing; its end is told to [`Manager::written`].
    Write {
        token: Token,
        intent: IntentNo,
        device: DeviceName,
        /// No two of one identity.
        ops: Vec<Op>,
    },
    /// [`Manager::record`] is another than before.
    Save(IntentNo),
    /// It is no more.
    Forget(IntentNo),
}

/// An intent.
#[derive(Debug)]
struct Held {
    key: Arc<str>,
    intent: KeptIntent,
    group: Option<Arc<str>>,
    request: Request,
    /// Counts with each time that it is looked at.
    version: u64,
    standing: Standing,
    /// Failures on devices since it was last as it is to be.
    errors: u32,
    reason: Option<Box<str>>,
    /// What it stands on, or is on its way to.
    stand: Option<Box<Stand>>,
    placed: Placed,
    /// What devices refused, and the table still has as FAILED.
    refused: Vec<(DeviceNo, Packed)>,
    work: Option<Box<Work>>,
    /// Writes that have not ended.
    open: BTreeMap<Token, Open>,
    /// When it is looked at again by itself.
    due: Option<MonoTime>,
    /// It is to be looked at once what is under way allows it.
    again: Option<Arc<str>>,
    aside: Option<Box<Aside>>,
    /// Numbers of its shares.
    shares: u64,
}

/// What most intents have nothing of.
#[derive(Debug, Default)]
struct Aside {
    history: VecDeque<Reroute>,
    /// Shares that are given back when no write is on its way: until then packets may go by what they are for.
    leaving: Vec<u64>,
}

/// Intents of a site and the network they are for.
#[derive(Debug, Default)]
pub struct Manager {
    topology: Topology,
    ledger: Ledger,
    trees: Trees,
    tracker: Tracker<IntentNo>,
    /// Boxed: a node of the map has room for twice as many as it holds.
    held: BTreeMap<IntentNo, Box<Held>>,
    by_key: BTreeMap<Arc<str>, IntentNo>,
    tokens: BTreeMap<Token, IntentNo>,
    next_token: u64,
    todo: Todo,
    due: BTreeSet<(MonoTime, IntentNo)>,
    counts: [usize; State::ALL.len()],
    unsaved: BTreeSet<IntentNo>,
    damping: Damping,
    /// Of these something was given back that others may hope for.
    given_back: BTreeSet<LinkNo>,
    effects: VecDeque<Effect>,
}

/// Intents that are to be looked at, and why; and whether they are in any case.
#[derive(Debug, Default)]
struct Todo(BTreeMap<IntentNo, (Arc<str>, bool)>);

impl Todo {
    /// The first reason is told.
    fn surely(&mut self, no: IntentNo, why: &Arc<str>) {
        self.0.entry(no).or_insert_with(|| (why.clone(), true)).1 = true;
    }

    fn all(&mut self, concerned: Concerned<IntentNo>, why: &Arc<str>) {
        for no in concerned.perhaps {
            self.0.entry(no).or_insert_with(|| (why.clone(), false));
        }
        concerned.surely.into_iter().for_each(|no| self.surely(no, why));
    }

    /// It was asked for: that is the reason.
    fn asked(&mut self, no: IntentNo) {
        self.0.insert(no, ("it was asked for".into(), true));
    }

    fn has(&self, no: IntentNo) -> bool {
        self.0.contains_key(&no)
    }
}

impl Manager {
    /// What is to be done next. Ask after [`Manager::run`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        // A hundred thousand at once leave no room for as many behind.
        self.effects.shrink_to(EFFECTS_KEPT);
        self.unsaved.pop_first().map(Effect::Save)
    }

    /// When [`Manager::run`] has something to do by itself.
    pub fn next_due(&self) -> Option<MonoTime> {
        let intent = self.due.first().map(|(due, _)| *due);
        let port = self.damping.next_due();
        intent.into_iter().chain(port).min()
    }

    /// Looks at all intents that something happened to.
    pub fn run(&mut self, now: MonoTime) {
        self.raise_ports(now);
        while let Some((due, no)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, no));
            if let Some(held) = self.held.get_mut(&no) {
                held.due = None;
                self.todo.surely(no, &"it is tried again".into());
            }
        }
        self.concern();
        // What one gives back another may take; each is looked at once, and those that hope once more.
        for _ in 0..2 {
            for (no, (why, is_sure)) in std::mem::take(&mut self.todo).0 {
                if is_sure || self.is_of_use(no) {
                    self.look(now, no, why);
                }
            }
            let links = std::mem::take(&mut self.given_back);
            if links.is_empty() {
                break;
            }
            self.todo.all(self.tracker.concerned_by_room(&links), &"somebody gave back what it needs".into());
        }
    }

    /// Those that the changes of the network concern.
    fn concern(&mut self) {
        let changes = self.topology.take_changes();
        if changes.is_empty() {
            return;
        }
        let why: Arc<str> = self.told(&changes).into();
        self.todo.all(self.tracker.concerned(&self.topology, &changes), &why);
        self.look_for_other_ways(&why);
    }

    /// One of the links that an intent hopes for is of use to it: without, there is no path as before.
    fn is_of_use(&self, no: IntentNo) -> bool {
        let (Hope::Links(links), Some(held)) = (self.tracker.hope(no), self.held.get(&no)) else {
            return true;
        };
        let (intent, holder) = (held.intent.unpack(), held.holder());
        let wanted = &intent.constraints;
        let gate = Gate { topology: &self.topology, ledger: &self.ledger, wanted, holder: &holder };
        links.iter().any(|link| self.topology.passes(*link) && gate.permits(*link))
    }

    /// How many intents there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What it holds for intents; nothing once all are gone.
    pub fn leftovers(&self) -> [(&'static str, usize); 10] {
        let (shares, labels, bandwidth) = self.ledger.counts();
        [
            ("intents", self.held.len()),
            ("keys of intents", self.by_key.len()),
            ("writes of intents", self.tokens.len()),
            ("intents to be looked at", self.todo.0.len()),
            ("times of intents", self.due.len()),
            ("intents to be saved", self.unsaved.len()),
            ("what intents stand on and hope for", self.tracker.count()),
            ("shares of intents", shares),
            ("labels of intents", labels),
            ("bandwidth of intents", bandwidth),
        ]
    }

    /// How many are in this state.
    pub fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    /// Those whose last request has not come to an end, in the order of their numbers.
    pub fn pending(&self) -> impl Iterator<Item = &str> {
        let is_open = |held: &&Held| held.work.is_some() || !held.open.is_empty();
        self.held.values().map(|held| &**held).filter(is_open).map(|held| &*held.key)
    }

    /// By its key.
    pub fn find(&self, key: &str) -> Option<IntentNo> {
        self.by_key.get(key).copied()
    }

    pub fn key(&self, no: IntentNo) -> Option<&str> {
        self.held.get(&no).map(|held| &*held.key)
    }

    /// How it stands, and why.
    pub fn state(&self, no: IntentNo) -> Option<(State, Option<&str>)> {
        self.held.get(&no).map(|held| (held.standing.state, held.reason.as_deref()))
    }

    /// What was asked for last, of what type it is, and its failures on devices since it was last as it is to be.
    pub fn asked_of(&self, no: IntentNo) -> Option<(Request, &'static str, u32)> {
        self.held.get(&no).map(|held| (held.request, held.intent.unpack().kind.name(), held.errors))
    }

    /// What was asked for last, and nothing of it is under way.
    pub fn is_settled(&self, no: IntentNo) -> bool {
        let is_open = |held: &Held| held.work.is_some() || held.again.is_some();
        self.held.get(&no).is_some_and(|held| !is_open(held) && !self.todo.has(no))
    }

    /// Something that comes may heal it.
    pub fn may_heal(&self, no: IntentNo) -> bool {
        self.tracker.is_hopeful(no)
    }

    /// The network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What intents hold of it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The outcome of looking at it counts where no newer one is known.
    fn outcome(&mut self, no: IntentNo, version: u64, state: State) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let step = if held.standing.version == version { held.standing.step + 1 } else { 0 };
        let new = Standing { version, step, state };
        if counts(Some(held.standing), new) {
            self.counts[held.standing.state as usize] -= 1;
            held.standing = new;
            self.counts[state as usize] += 1;
        }
        self.unsaved.insert(no);
    }

    fn set_due(&mut self, no: IntentNo, due: Option<MonoTime>) {
        let Some(held) = self.held.get_mut(&no) else { return };
        if let Some(old) = std::mem::replace(&mut held.due, due) {
            self.due.remove(&(old, no));
        }
        self.due.extend(due.map(|due| (due, no)));
    }

    /// Those who stand on what the tracker was told last of are concerned by their hosts too.
    fn follow_hosts(&mut self, no: IntentNo, intent: &Intent) {
        if let Some(hosts) = intent.kind.hosts() {
            self.tracker.is_between(no, hosts);
        }
    }

    fn forget(&mut self, no: IntentNo) {
        self.set_due(no, None);
        self.tracker.forget(no);
        let Some(held) = self.held.remove(&no) else { return };
        for number in 0..=held.shares {
            self.give_back(held.key.clone(), number);
        }
        for token in held.open.keys() {
            self.tokens.remove(token);
        }
        self.counts[held.standing.state as usize] -= 1;
        self.by_key.remove(&held.key);
        self.unsaved.remove(&no);
        self.effects.push_back(Effect::Forget(no));
    }

    /// Nothing stands on this share any more.
    fn let_go(&mut self, no: IntentNo, number: u64) {
        let Some(held) = self.held.get_mut(&no) else { return };
        held.aside().leaving.push(number);
        self.settle_shares(no);
    }

    /// A label is given back when no rule has it any more: one that a bridge did not let go of may be tried for long.
    fn settle_shares(&mut self, no: IntentNo) {
        let Some(held) = self.held.get_mut(&no).filter(|held| held.open.is_empty()) else { return };
        let Some(aside) = held.aside.as_deref_mut().filter(|aside| !aside.leaving.is_empty()) else { return };
        let key = held.key.clone();
        let has_label =
            |number: &u64| self.ledger.label_of(&Share { key: key.clone(), number: *number }).is_some();
        // Mostly there is none, and no rule is looked at.
        let placed = aside.leaving.iter().any(has_label).then(|| held.placed.iter()).into_iter().flatten();
        let labelled = placed.flat_map(|(device, packed)| labelled(&self.topology, device, packed));
        let mut has: BTreeSet<(PortNo, u16)> = labelled.collect();
        if let Some((stand, label)) = held.stand.as_ref().and_then(|stand| Some((stand, stand.label?))) {
            let own: BTreeSet<PortNo> = stand.links.iter().map(|link| self.topology.ends(*link).1).collect();
            has.retain(|(port, of)| *of != label || !own.contains(port));
        }
        let is_had = |number: &u64| {
            let share = Share { key: key.clone(), number: *number };
            let label = self.ledger.label_of(&share);
            label.is_some_and(|(label, ports)| ports.iter().any(|port| has.contains(&(*port, label))))
        };
        let (stays, goes): (Vec<u64>, Vec<u64>) =
            std::mem::take(&mut aside.leaving).into_iter().partition(is_had);
        for number in &stays {
            let share = Share { key: key.clone(), number: *number };
            self.given_back.extend(self.ledger.give_back_bandwidth(&share));
        }
        aside.leaving = stays;
        for number in goes {
            self.give_back(key.clone(), number);
        }
    }

    /// After a start: labels of rules that are not what an intent stands on, and of those that go, stay its own.
    fn hold_labels(&mut self, no: IntentNo, rules: &[(DeviceNo, Packed)]) {
        let Some(held) = self.held.get_mut(&no) else { return };
        let mut by_label: BTreeMap<u16, BTreeSet<PortNo>> = BTreeMap::new();
        for (device, packed) in rules {
            for (port, label) in labelled(&self.topology, *device, packed) {
                by_label.entry(label).or_default().insert(port);
            }
        }
        if let Some((stand, label)) = held.stand.as_ref().and_then(|stand| Some((stand, stand.label?)))
            && let Some(ports) = by_label.get_mut(&label)
        {
            let own: BTreeSet<PortNo> = stand.links.iter().map(|link| self.topology.ends(*link).1).collect();
            ports.retain(|port| !own.contains(port));
        }
        for (label, ports) in by_label.into_iter().filter(|(_, ports)| !ports.is_empty()) {
            held.shares += 1;
            let number = held.shares;
            let share = Share { key: held.key.clone(), number };
            self.ledger.take_label(share, ports.into_iter().collect(), label);
            held.aside().leaving.push(number);
        }
    }

    fn give_back(&mut self, key: Arc<str>, number: u64) {
        let share = Share { key, number };
        let ports = self.ledger.label_of(&share).map(|(_, ports)| ports).unwrap_or_default();
        self.given_back.extend(ports.iter().flat_map(|port| self.topology.links_into(*port)));
        let links = self.ledger.give_back(&share);
        self.given_back.extend(links);
    }
}

impl Held {
    fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// The latest last.
    fn history(&self) -> Vec<Reroute> {
        self.aside.iter().flat_map(|aside| &aside.history).cloned().collect()
    }

    fn holder(&self) -> Holder {
        match &self.group {
            Some(group) => Holder::Group(group.clone()),
            None => Holder::Intent(self.key.clone()),
        }
    }

    /// The pause after the latest failure.
    fn pause(&self) -> Duration {
        let doubled = RETRY_FIRST.saturating_mul(1 << self.errors.saturating_sub(1).min(16));
        doubled.min(RETRY_MAX)
    }
}

/// What is sent of an entry.
fn packed(entry: &Entry) -> Packed {
    Packed::new(entry).expect("the compiler makes canonical entries")
}

/// The group that protection needs on the first device; those of operators are seldom so large.
fn group_number(no: IntentNo) -> u32 {
    const OURS: u32 = 0x4000_0000;
    OURS | u32::try_from(no.0 & u64::from(OURS - 1)).expect("30 bits")
}

/// By device: what a stage does there.
type ByDevice = BTreeMap<DeviceNo, Vec<Op>>;
