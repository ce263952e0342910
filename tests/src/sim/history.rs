//! Disks that go back in time: the controller begins again with an earlier copy of its tables, with the mark that
//! `muster-controller restore` leaves or, as the snapshot of a machine, without it.
//!
//! ```text
//!   tables and what operators knew ── a copy ──▶ … ── the controller ends ──▶ it starts from the copy
//!                                                                                 │
//!              operators look at what is listed, adopt, remove, or update ◀───────┘
//! ```
//!
//! The reference goes back with the tables, so operations since the copy no longer count. Servers do not go back: `held`
//! checks that nothing is changed on them before an operator has decided.
//!
//! In one run of so many, one of these happens: restores, servers that go back, clones, or a second controller. Such a
//! run has no bridges, fleets or drift policies. `--with mixed` has all of them in one run, again and again.

mod epochs;
mod held;
mod rules;
mod servers;
mod twin;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_engine::record::PackedSpec;
use muster_engine::restored::RestoredRecord;
use muster_engine::{HeldView, Request, Verdict};
use muster_shared::model::flow::DeviceName;
use muster_shared::{MonoTime, ResourceId};

use super::dice::Dice;
use super::drift::Sent;
use super::fault::{Kind, Level};
use super::fleet::Fleet;
use super::flow::{Left, Model};
use super::invariant::SoFar;
use super::network::Wishes;
use super::reference::Past;
use super::rollout::Rollouts;
use super::signal::Signals;
use super::store::Tables;
use super::world::{Event, World};
use super::{Options, Parts};
use held::Held;
pub use rules::Rules;
use servers::Servers;
use twin::Twin;

/// A run in so many has disks that go back.
const EACH: u64 = 8;
/// The most restores of the store in a run that is about them.
const RESTORES_MAX: u32 = 2;

/// Disks that go back.
pub struct History {
    /// Disks go back in this run.
    pub is_on: bool,
    which: Which,
    /// The number of restores of the store so far.
    restores: u32,
    dice: Dice,
    copy: Option<Box<Copy>>,
    held: Held,
    servers: Servers,
    twin: Twin,
}

/// The kinds of going back that a run has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Stores,
    Servers,
    Clones,
    Twins,
    /// Any of these, again and again.
    All,
}

impl Which {
    const EACH: [Self; 4] = [Self::Stores, Self::Servers, Self::Clones, Self::Twins];

    fn has(self, it: Self) -> bool {
        self == it || self == Self::All
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The controller's disk is copied.
    Copies,
    /// The copy takes its place.
    Restores,
    /// A server's disk is copied.
    Images,
    /// A server is as in the copy.
    Reverts,
    /// A copy of a server begins to run.
    Clones,
    /// The server or its clone is switched off for good.
    CloneGoes,
    /// The controller's disk is copied for a second one.
    TwinImages,
    /// The second controller starts, and agents reach it instead of the first.
    TwinBegins,
    /// The second controller is switched off, and agents reach the first again.
    TwinGoes,
    /// The first one is started again.
    FirstStartsAgain,
}

/// The controller's disk, and all that is known of what it should hold.
struct Copy {
    at: MonoTime,
    tables: Tables,
    flows: Model,
    wishes: Wishes,
    settled: BTreeMap<ResourceId, PackedSpec>,
    signals: Signals,
    fleet: Fleet,
    rollouts: Rollouts,
    fights: Sent,
    tables_freed: BTreeSet<DeviceName>,
    decisions: BTreeMap<ResourceId, u32>,
    reference: Past,
    retained: Vec<ResourceId>,
}

impl History {
    /// Draws whether disks go back in this run. If so, the site is simpler.
    pub fn of(options: &mut Options) -> Self {
        let mut dice = Dice::new(options.seed, "history");
        let may_be = options.parts.history && options.faults != Level::None && !options.is_large();
        let is_on = may_be && dice.one_in(EACH);
        if is_on {
            options.parts = Parts { history: true, mixed: options.parts.mixed, ..Parts::NONE };
        }
        let which = *dice.pick(&Which::EACH);
        let which = if options.parts.mixed { Which::All } else { which };
        let twin = Twin::of(options.seed, which == Which::Twins);
        Self {
            is_on,
            which,
            restores: 0,
            dice,
            copy: None,
            held: Held::default(),
            servers: Servers::default(),
            twin,
        }
    }
}

impl World {
    /// Plans the times when disks are copied.
    pub fn history_begins(&mut self) {
        if self.history.is_on {
            if self.history.which.has(Which::Stores) {
                self.plans_the_next();
            }
            self.plans_servers();
            if self.history.which.has(Which::Twins) {
                self.plans_the_twin();
            }
            self.later(Duration::from_secs(20), Event::Restorer);
        }
    }

    fn plans_the_next(&mut self) {
        let copies = self.history.dice.millis(5_000, 360_000);
        let restores = copies + self.history.dice.millis(1_000, 420_000);
        self.later(copies, Event::GoesBack(Step::Copies));
        self.later(restores, Event::GoesBack(Step::Restores));
    }

    /// A disk is copied, or takes the place of a later one.
    pub fn goes_back(&mut self, step: Step) {
        match step {
            Step::CloneGoes => self.clone_goes(),
            Step::TwinGoes => self.twin_goes(),
            Step::FirstStartsAgain => self.controller_ends(),
            _ if !self.faults.on => {}
            Step::TwinImages => self.images_for_the_twin(),
            Step::TwinBegins => self.twin_begins(),
            Step::Images => self.takes_an_image(),
            Step::Reverts => self.reverts_a_server(),
            Step::Clones => self.clones_a_server(),
            Step::Copies => self.history.copy = Some(Box::new(self.copy())),
            Step::Restores => {
                if let Some(copy) = self.history.copy.take()
                    && !self.history.twin.runs()
                    && self.faults.happens(self.now, Kind::StoreRestored, "controller")
                {
                    self.history.restores += 1;
                    self.restores(*copy);
                }
                if self.history.restores < RESTORES_MAX || self.history.which == Which::All {
                    self.plans_the_next();
                }
            }
        }
    }

    fn copy(&self) -> Copy {
        let is_over = self.controller.turns.is_some() && !self.is_restored();
        let shared = self.shared.borrow();
        Copy {
            at: self.now,
            tables: shared.tables.clone(),
            flows: shared.flows.clone(),
            wishes: shared.wishes.clone(),
            settled: shared.settled.clone(),
            signals: shared.signals.clone(),
            fleet: shared.fleet.clone(),
            rollouts: shared.rollouts.clone(),
            fights: shared.fights.clone(),
            decisions: self.history.held.decisions(),
            tables_freed: if is_over { BTreeSet::new() } else { shared.tables_freed.clone() },
            reference: self.reference.past(),
            retained: self.retained.clone(),
        }
    }

    fn restores(&mut self, copy: Copy) {
        let is_marked = self.history.dice.per_mille(700);
        let minutes = self.now.since(copy.at).as_secs() / 60;
        let mark = if is_marked { "marked" } else { "without a mark" };
        self.note(|_| format!("FAULT {} {mark}, {minutes} min old", Kind::StoreRestored.name()));
        self.shared.borrow_mut().counts.add(format!("history store is restored {mark}"));
        self.controller_ends();
        self.takes_up(copy, is_marked);
    }

    /// The controller that goes on has this disk.
    fn takes_up(&mut self, copy: Copy, is_marked: bool) {
        self.reference.goes_back(copy.reference);
        self.is_kept_no_more(&copy.tables, &copy.retained);
        self.retained = copy.retained;
        self.history.held.forgets_decisions(copy.decisions);
        {
            let shared = &mut *self.shared.borrow_mut();
            self.history.held.goes_back(shared, &copy.tables, &self.machines, is_marked);
            self.history.servers.forgets();
            let brought = shared.signals.brought();
            shared.tables = copy.tables;
            (shared.flows, shared.wishes, shared.settled) = (copy.flows, copy.wishes, copy.settled);
            (shared.fleet, shared.rollouts, shared.fights) = (copy.fleet, copy.rollouts, copy.fights);
            (shared.signals, shared.mistaken) = (copy.signals.after(brought), false);
            if is_marked {
                shared.tables.restored = Some(RestoredRecord::fresh());
            }
            // Another start says again what a later one said: its epoch may have the same number.
            let epoch = shared.tables.epoch;
            shared.sent.retain(|(_, generation)| generation.epoch.0 <= epoch);
            shared.tried.retain(|key| key.generation.epoch.0 <= epoch);
            shared.began.retain(|(_, generation), _| generation.epoch.0 <= epoch);
            shared.suspects.clear();
            shared.rules_undecided.clear();
            shared.tables_freed = if is_marked { BTreeSet::new() } else { copy.tables_freed };
            shared.noted.clear();
            shared.turn = SoFar::default();
        }
        if is_marked {
            self.rules_wait(&BTreeSet::new());
        }
        self.leaves_what_no_row_puts_back();
        for at in 0..self.machines.len() {
            self.table_may_be_another(at);
            self.is_known_or_joins(at);
        }
    }

    /// Notes what was retained since the copy: it is a resource's again, which may restore what was there before it.
    fn is_kept_no_more(&mut self, tables: &Tables, retained: &[ResourceId]) {
        let since = self.retained.iter().filter(|id| !retained.contains(id));
        let rows = since.filter_map(|id| tables.physical.get(id)).filter_map(|row| tables.rows.get(row));
        for row in rows {
            let (Some(node), Some(spec)) = (&row.node, &row.spec) else { continue };
            let claims = spec.unpack().claims().into_iter().map(|claim| (node.clone(), claim.key));
            self.reference.regained.extend(claims);
        }
    }

    /// A server whose key the restored store does not have joins again.
    fn is_known_or_joins(&mut self, at: usize) {
        let machine = &self.machines[at];
        let is_known = {
            let shared = self.shared.borrow();
            let record = shared.tables.nodes.get(&machine.name);
            record.is_some_and(|record| !record.revoked && record.seal_public == machine.key)
        };
        if !is_known && machine.joined && !machine.scrapped {
            self.machines[at].joined = false;
            let after = self.history.dice.millis(100, 120_000);
            self.later(after, Event::Rejoins(at, false));
        }
    }

    /// Whether something waits to be decided, as operators see it.
    pub fn is_restored(&self) -> bool {
        self.history.is_on && self.controller.turns.as_ref().is_some_and(|it| it.view().site_view().restored)
    }

    /// An operator of a restored site looks at the list, and perhaps decides.
    pub fn restorer_acts(&mut self) {
        if self.operators.done {
            return;
        }
        let next = self.history.dice.millis(2_000, 120_000);
        self.later(next, Event::Restorer);
        if !self.can_be_asked() || !self.is_restored() {
            return;
        }
        let mut views = self.looks_at_the_list();
        let dice = &mut self.history.dice;
        if dice.one_in(3) {
            return; // another time
        }
        if dice.one_in(2) {
            views.retain(|_| dice.one_in(2));
        }
        let verdict = if dice.one_in(2) { Verdict::Adopt } else { Verdict::Remove };
        self.decides(verdict, views);
    }

    /// Once nothing goes wrong any more, all that waits is decided.
    pub fn restorer_ends(&mut self) {
        if !self.history.is_on || !self.operators.done || self.violation().is_some() || !self.can_be_asked() {
            return;
        }
        self.leaves_what_is_half_made();
        self.leaves_what_was_retained();
        self.drifts_where_lost_jobs_end();
        let views = self.looks_at_the_list();
        let verdict = if self.history.dice.one_in(2) { Verdict::Adopt } else { Verdict::Remove };
        let (some, others) = views.into_iter().partition(|_| self.history.dice.one_in(2));
        self.decides(verdict, some);
        self.decides(verdict, others);
    }

    fn looks_at_the_list(&mut self) -> Vec<HeldView> {
        self.controller_catches_up();
        let views =
            self.controller.turns.as_ref().map(|turns| turns.view().held_views(None)).unwrap_or_default();
        let wrong = self.is_not_listed(&views);
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
        for view in &views {
            self.shared.borrow_mut().counts.add(format!("history {} is listed", view.state));
        }
        views
    }

    /// An operator decides. Some have what has no row removed, one after the other, and adopt what cannot be.
    fn decides(&mut self, verdict: Verdict, mut views: Vec<HeldView>) {
        if verdict == Verdict::Remove {
            let mut unknown: Vec<HeldView> = views.extract_if(.., |view| view.state == "unknown").collect();
            if self.history.dice.one_in(2) {
                unknown.retain(|view| self.asks_to_decide(verdict, vec![view.clone()]));
            }
            self.asks_to_decide(Verdict::Adopt, unknown);
        }
        self.asks_to_decide(verdict, views);
    }

    /// An operator asks for a decision about these. True if it is refused.
    fn asks_to_decide(&mut self, verdict: Verdict, views: Vec<HeldView>) -> bool {
        if views.is_empty() {
            return false;
        }
        let ids: Vec<String> = views.iter().map(|view| view.id.clone()).collect();
        self.note(|_| format!("operator: {verdict:?} {}", ids.join(", ")));
        let ids = Some(ids);
        let left = if verdict == Verdict::Adopt { self.entries_that_differ(&views) } else { BTreeMap::new() };
        let what = if verdict == Verdict::Adopt { "restore adopt" } else { "restore remove" };
        let answer = self.tries(what, Request::Restored { verdict, ids, node: None });
        // An operator without an answer looks again; it may be decided all the same.
        if let Some(Err(_)) = answer {
            return true;
        }
        for view in &views {
            self.shared.borrow_mut().counts.add(format!("history {} is decided: {verdict:?}", view.state));
            if let Ok(thing) = view.id.parse().map(ResourceId) {
                self.takes_decision(verdict, view, thing);
            } else if let (Verdict::Remove, Ok(device)) = (verdict, view.id.parse::<DeviceName>()) {
                let mut shared = self.shared.borrow_mut();
                shared.rules_undecided.remove(&device);
                shared.tables_freed.insert(device);
            }
        }
        let flows = &mut self.shared.borrow_mut().flows;
        for (device, entries) in left {
            flows.left.entry(device).or_default().extend(entries);
        }
        false
    }

    fn takes_decision(&mut self, verdict: Verdict, view: &HeldView, thing: ResourceId) {
        self.history.held.decided(thing);
        match verdict {
            Verdict::Adopt if view.state == "unknown" => {
                self.reference.left.insert((view.node.clone(), thing));
            }
            Verdict::Adopt => {}
            // A script runs again, once.
            Verdict::Remove => drop(self.shared.borrow_mut().settled.remove(&thing)),
        }
    }

    /// Entries of the listed tables that are not on their device as the table has them.
    fn entries_that_differ(&self, views: &[HeldView]) -> BTreeMap<DeviceName, Left> {
        let tables = views.iter().filter(|view| view.state == "table");
        let names = tables.filter_map(|view| view.id.parse::<DeviceName>().ok());
        names.map(|name| (name.clone(), self.differing_entries(&name))).collect()
    }
}
