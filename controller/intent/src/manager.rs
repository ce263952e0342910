//! Intents from the request to the devices, and their moves when the network changes.
//!
//! ```text
//!   submit, withdraw, purge ─┐                                        ┌─▶ Effect::Write ─▶ flow table ─▶ written()
//!   ports, links, LLDP ──────┼─▶ intents concerned ─▶ compile, stages ┤
//!   timers ──────────────────┘                                        └─▶ Effect::Save
//! ```
//!
//! Requests and changes only mark intents. [`Manager::run`] looks at each marked intent once, so
//! the last of many requests for a key counts. **Placed** rules are what an intent told the flow
//! table to hold. Stages lead from there to the wanted rules, also if the path changes halfway. If
//! a write fails, the table is asked what it holds. The answer follows from all writes before and
//! after, including those before a start.
//!
//! Absent: how a write reaches its device (`controller/engine/src/intent/mod.rs`), who may ask for what
//! (`controller/engine/src/intent/request.rs`), the clock.

mod load;
mod move_rules;
mod network;
mod place;
mod request;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::flow::{DeviceName, Entry, Packed};

pub use load::{IntentRecord, PathRecord, PortRecord, Reroute};
pub use network::SettledPort;
pub use place::TableEntry;
pub use request::{IntentRefused, KEY_MAX, Wish};
pub use view::{HostView, IntentView, LinkView, PortView, ReservationView, TopologyView};

use crate::affected_intents::{Concerned, Hope, Tracker};
use crate::compile::Gate;
use crate::damping::Damping;
use crate::intent::Intent;
use crate::packed_intent::KeptIntent;
use crate::path_search::Trees;
use crate::phase::{Request, Standing, State, counts};
use crate::reservations::{Holder, Ledger, Share};
use crate::topology::{DeviceNo, LinkNo, PortNo, Topology};
use load::Stand;
use move_rules::Work;
use place::{Open, Placed, labelled};

/// Bound on the intents of a site. At a kilobyte each they take a quarter of a gigabyte.
pub const INTENTS_MAX: usize = 250_000;
/// Moves remembered of an intent.
pub const HISTORY_MAX: usize = 10;
/// The first pause before a retry after a failure on a device. It doubles with each further failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Capacity kept for effects.
const EFFECTS_KEPT: usize = 64;

/// The number of an intent, never used twice. The intent's rules have this owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentNo(pub u64);

/// A write under way, never used twice while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// An operation on one entry of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The device must hold the entry.
    Put(Packed),
    /// The device must not hold the entry.
    Remove(Packed),
}

impl Op {
    /// The entry.
    pub fn packed(&self) -> &Packed {
        let (Self::Put(packed) | Self::Remove(packed)) = self;
        packed
    }
}

/// The end of a write: an error if no part of it was done.
pub type Ended = (Token, Result<(), Box<str>>);

/// An effect to carry out, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write all operations or none. [`Manager::written`] takes the outcome.
    Write {
        token: Token,
        intent: IntentNo,
        device: DeviceName,
        /// No two operations have the same identity.
        ops: Vec<Op>,
    },
    /// The record of the intent has changed: see [`Manager::record`].
    Save(IntentNo),
    /// The intent is forgotten.
    Forget(IntentNo),
}

/// An intent.
#[derive(Debug)]
struct Held {
    key: Arc<str>,
    intent: KeptIntent,
    group: Option<Arc<str>>,
    request: Request,
    /// Counts the requests for the intent and the looks at it.
    version: u64,
    standing: Standing,
    /// Failures on devices since the intent was last as requested.
    errors: u32,
    reason: Option<Box<str>>,
    /// The path and rules that it has, or moves to.
    stand: Option<Box<Stand>>,
    placed: Placed,
    /// Rules that devices refused and the table still has as FAILED.
    refused: Vec<(DeviceNo, Packed)>,
    work: Option<Box<Work>>,
    /// Writes that have not ended.
    open: BTreeMap<Token, Open>,
    /// When the intent is looked at again without another cause.
    due: Option<MonoTime>,
    /// Look at the intent again, for this reason, once the present work allows that.
    again: Option<Arc<str>>,
    past: Option<Box<Past>>,
    /// The highest number of its shares.
    shares: u64,
}

/// State that few intents have.
#[derive(Debug, Default)]
struct Past {
    history: VecDeque<Reroute>,
    /// Shares to give back once no write is open. Until then packets may use the resources.
    leaving: Vec<u64>,
}

/// Intents of a site, and the network.
#[derive(Debug, Default)]
pub struct Manager {
    topology: Topology,
    ledger: Ledger,
    trees: Trees,
    tracker: Tracker<IntentNo>,
    /// Boxed, because a map node has room for twice as many as it holds.
    held: BTreeMap<IntentNo, Box<Held>>,
    by_key: BTreeMap<Arc<str>, IntentNo>,
    tokens: BTreeMap<Token, IntentNo>,
    next_token: u64,
    todo: Todo,
    due: BTreeSet<(MonoTime, IntentNo)>,
    counts: [usize; State::ALL.len()],
    unsaved: BTreeSet<IntentNo>,
    damping: Damping,
    /// Links with resources given back, which other intents may hope for.
    given_back: BTreeSet<LinkNo>,
    effects: VecDeque<Effect>,
}

/// Intents to look at, each with the reason and whether the look is certain.
#[derive(Debug, Default)]
struct Todo(BTreeMap<IntentNo, (Arc<str>, bool)>);

impl Todo {
    /// Adds an intent with a certain look. The first reason stays.
    fn surely(&mut self, no: IntentNo, why: &Arc<str>) {
        self.0.entry(no).or_insert_with(|| (why.clone(), true)).1 = true;
    }

    fn all(&mut self, concerned: Concerned<IntentNo>, why: &Arc<str>) {
        for no in concerned.perhaps {
            self.0.entry(no).or_insert_with(|| (why.clone(), false));
        }
        concerned.surely.into_iter().for_each(|no| self.surely(no, why));
    }

    /// Adds an intent because of a request, which becomes the reason.
    fn asked(&mut self, no: IntentNo) {
        self.0.insert(no, ("it was asked for".into(), true));
    }

    fn has(&self, no: IntentNo) -> bool {
        self.0.contains_key(&no)
    }
}

impl Manager {
    /// The next effect. Call it after [`Manager::run`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        // After a hundred thousand effects the capacity is not kept.
        self.effects.shrink_to(EFFECTS_KEPT);
        self.unsaved.pop_first().map(Effect::Save)
    }

    /// When [`Manager::run`] has something to do without another input.
    pub fn next_due(&self) -> Option<MonoTime> {
        let intent = self.due.first().map(|(due, _)| *due);
        let port = self.damping.next_due();
        intent.into_iter().chain(port).min()
    }

    /// Looks at all marked intents.
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
        // An intent may take what another gives back. Each is looked at once, and hopeful ones once more.
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

    /// Marks the intents that changes of the network concern.
    fn concern(&mut self) {
        let changes = self.topology.take_changes();
        if changes.is_empty() {
            return;
        }
        let why: Arc<str> = self.told(&changes).into();
        self.todo.all(self.tracker.concerned(&self.topology, &changes), &why);
        self.look_for_other_ways(&why);
    }

    /// Whether a link that the intent hopes for is usable. If none is, there is still no path.
    fn is_of_use(&self, no: IntentNo) -> bool {
        let (Hope::Links(links), Some(held)) = (self.tracker.hope(no), self.held.get(&no)) else {
            return true;
        };
        let (intent, holder) = (held.intent.unpack(), held.holder());
        let wanted = &intent.constraints;
        let gate = Gate { topology: &self.topology, ledger: &self.ledger, wanted, holder: &holder };
        links.iter().any(|link| self.topology.passes(*link) && gate.permits(*link))
    }

    /// Number of intents.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Counts of what the manager holds for intents. All are zero once all intents are gone.
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

    /// Number of intents in this state.
    pub fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    /// The next intent by number that is INSTALLED, round and round.
    pub fn next_installed(&self, after: Option<IntentNo>) -> Option<IntentNo> {
        let first = after.map_or(IntentNo(0), |IntentNo(no)| IntentNo(no.saturating_add(1)));
        let mut all = self.held.range(first..).chain(self.held.range(..first));
        all.find(|(_, held)| held.standing.state == State::Installed).map(|(no, _)| *no)
    }

    /// Keys of intents whose last request is not complete, by number.
    pub fn pending(&self) -> impl Iterator<Item = &str> {
        let is_open = |held: &&Held| held.work.is_some() || !held.open.is_empty();
        self.held.values().map(|held| &**held).filter(is_open).map(|held| &*held.key)
    }

    /// The number of the intent with this key.
    pub fn find(&self, key: &str) -> Option<IntentNo> {
        self.by_key.get(key).copied()
    }

    pub fn key(&self, no: IntentNo) -> Option<&str> {
        self.held.get(&no).map(|held| &*held.key)
    }

    /// State and reason.
    pub fn state(&self, no: IntentNo) -> Option<(State, Option<&str>)> {
        self.held.get(&no).map(|held| (held.standing.state, held.reason.as_deref()))
    }

    /// The last request, the type, and the failures on devices since the intent was last as requested.
    pub fn asked_of(&self, no: IntentNo) -> Option<(Request, &'static str, u32)> {
        self.held.get(&no).map(|held| (held.request, held.intent.unpack().kind.name(), held.errors))
    }

    /// Whether the last request is complete.
    pub fn is_settled(&self, no: IntentNo) -> bool {
        let is_open = |held: &Held| held.work.is_some() || held.again.is_some();
        self.held.get(&no).is_some_and(|held| !is_open(held) && !self.todo.has(no))
    }

    /// Whether a change may heal the intent.
    pub fn may_heal(&self, no: IntentNo) -> bool {
        self.tracker.is_hopeful(no)
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Reservations of intents.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Records the outcome of a look, unless a newer one is known.
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

    /// Lets changes of the intent's hosts concern it too.
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

    /// The intent no longer uses this share.
    fn let_go(&mut self, no: IntentNo, number: u64) {
        let Some(held) = self.held.get_mut(&no) else { return };
        held.past().leaving.push(number);
        self.settle_shares(no);
    }

    /// Gives back shares that no rule uses. A label stays as long as a rule has it. A bridge may
    /// keep such a rule for long.
    fn settle_shares(&mut self, no: IntentNo) {
        let Some(held) = self.held.get_mut(&no).filter(|held| held.open.is_empty()) else { return };
        let Some(past) = held.past.as_deref_mut().filter(|past| !past.leaving.is_empty()) else { return };
        let key = held.key.clone();
        let has_label =
            |number: &u64| self.ledger.label_of(&Share { key: key.clone(), number: *number }).is_some();
        // Most shares have no label. Then no rule is looked at.
        let placed = past.leaving.iter().any(has_label).then(|| held.placed.iter()).into_iter().flatten();
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
            std::mem::take(&mut past.leaving).into_iter().partition(is_had);
        for number in &stays {
            let share = Share { key: key.clone(), number: *number };
            self.given_back.extend(self.ledger.give_back_bandwidth(&share));
        }
        past.leaving = stays;
        for number in goes {
            self.give_back(key.clone(), number);
        }
    }

    /// After a start, keeps the labels of rules outside of the intent's path, and of rules that are
    /// being removed.
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
            held.past().leaving.push(number);
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
    fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// The latest move is last.
    fn history(&self) -> Vec<Reroute> {
        self.past.iter().flat_map(|past| &past.history).cloned().collect()
    }

    fn holder(&self) -> Holder {
        match &self.group {
            Some(group) => Holder::Group(group.clone()),
            None => Holder::Intent(self.key.clone()),
        }
    }

    /// The pause after the last failure.
    fn pause(&self) -> Duration {
        let doubled = RETRY_FIRST.saturating_mul(1 << self.errors.saturating_sub(1).min(16));
        doubled.min(RETRY_MAX)
    }
}

/// The entry in packed form.
fn packed(entry: &Entry) -> Packed {
    Packed::new(entry).expect("the compiler makes canonical entries")
}

/// The number of the group for protection on the first device. Operators seldom use numbers this large.
fn group_number(no: IntentNo) -> u32 {
    const OURS: u32 = 0x4000_0000;
    OURS | u32::try_from(no.0 & u64::from(OURS - 1)).expect("30 bits")
}

/// The operations of a stage, by device.
type ByDevice = BTreeMap<DeviceNo, Vec<Op>>;
