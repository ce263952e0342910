//! Changes of the network in whatever order of answers, refusals, crashes and stops: what is not confirmed
//! is undone.
//!
//! Two resources, each with a link of its own and one that both claim, on a host that is a map of links.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Action, Down, Job, NetworkConfig, OnDelete, Outcome, ReportKey, Spec, Up};
use muster_shared::{MonoTime, ResourceId};
use proptest::prelude::*;

use super::node::{CHALLENGE, HEARTBEAT, Node, again, failed, job};
use crate::{AtBoot, Before, Entry, Found, Input, at_boot};

const WINDOW: Duration = Duration::from_secs(20);

/// Link to what it is set to.
type Links = BTreeMap<String, u64>;

#[derive(Clone, Debug)]
enum Step {
    Deliver {
        n: u128,
        action: Action,
    },
    /// Delivers an earlier message again, this many ago.
    DeliverAgain {
        ago: usize,
        attempt: u32,
    },
    Withdraw {
        ago: usize,
    },
    Write,
    FailWrite,
    Captured,
    Guarded {
        fails: bool,
    },
    Touch,
    Ran {
        fails: bool,
    },
    Restored {
        fails: bool,
    },
    Answer {
        right: bool,
    },
    Acknowledge,
    Disconnect,
    Connect,
    Crash,
    PowerCut,
    Stop,
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..3u128, action()).prop_map(|(n, action)| Step::Deliver { n, action }),
        2 => (0..4usize, 0..3u32).prop_map(|(ago, attempt)| Step::DeliverAgain { ago, attempt }),
        1 => (0..3usize).prop_map(|ago| Step::Withdraw { ago }),
        12 => Just(Step::Write),
        1 => Just(Step::FailWrite),
        4 => Just(Step::Captured),
        5 => prop::bool::weighted(0.1).prop_map(|fails| Step::Guarded { fails }),
        5 => Just(Step::Touch),
        6 => prop::bool::weighted(0.25).prop_map(|fails| Step::Ran { fails }),
        5 => prop::bool::weighted(0.4).prop_map(|fails| Step::Restored { fails }),
        5 => prop::bool::weighted(0.8).prop_map(|right| Step::Answer { right }),
        2 => Just(Step::Acknowledge),
        1 => Just(Step::Disconnect),
        6 => Just(Step::Connect),
        1 => Just(Step::Crash),
        1 => Just(Step::PowerCut),
        1 => Just(Step::Stop),
        3 => (0..40u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    use Action::{Check, Create, Delete, Retain, Update};
    prop_oneof![3 => Just(Create), 4 => Just(Update), 3 => Just(Delete), 1 => Just(Check), 1 => Just(Retain)]
}

fn links_of(n: u128) -> [String; 2] {
    [format!("eth{n}"), "shared".to_owned()]
}

fn value(n: u128, number: u64) -> u64 {
    u64::try_from(n).expect("small") * 1000 + number
}

fn wanted(n: u128, number: u64, action: Action) -> Job {
    let links = links_of(n).map(|link| format!("{{\"type\":\"interface\",\"name\":\"{link}\"}}"));
    let config = NetworkConfig {
        document: format!("[{}]", links.join(",")),
        mapping: BTreeMap::new(),
        confirm_timeout: u32::try_from(WINDOW.as_secs()).expect("small"),
        on_delete: OnDelete::Restore,
    };
    job(n, number, action, Spec::Network(config))
}

/// A change as the host saw it.
#[derive(Clone, Debug)]
struct Change {
    /// The links as they were before its first touch, or that of the one it follows without that
    /// being undone.
    was: Links,
    deadline: MonoTime,
    /// The connection that stood when it ended.
    connection: Option<u64>,
    is_touched: bool,
    is_confirmed: bool,
}

struct World {
    bed: Node,
    /// As the controller has given them out: generations count for all resources together.
    jobs: Vec<Job>,
    host: Links,
    changes: BTreeMap<ReportKey, Change>,
    connection: u64,
    is_stopped: bool,
    /// Unknown objects may stay.
    retains: bool,
}

fn read(before: &Before) -> Links {
    postcard::from_bytes(before.written()).expect("ours")
}

fn written(links: &Links) -> Before {
    Before::new(postcard::to_stdvec(links).expect("plain"))
}

impl World {
    fn new() -> Self {
        let mut bed = Node::online();
        bed.disk_is_quick = false;
        bed.guards_are_quick = false;
        let host = ["eth1", "eth2", "shared"].map(|link| (link.to_owned(), 1));
        Self {
            bed,
            jobs: Vec::new(),
            host: host.into_iter().collect(),
            changes: BTreeMap::new(),
            connection: 1,
            is_stopped: false,
            retains: false,
        }
    }

    fn play(&mut self, step: &Step) {
        let bed = &mut self.bed;
        match *step {
            Step::Deliver { n, action } => {
                let number = u64::try_from(self.jobs.len()).expect("few") + 2;
                self.retains |= action == Action::Retain;
                self.jobs.push(wanted(n, number, action));
                bed.job(&self.jobs[self.jobs.len() - 1]);
            }
            Step::DeliverAgain { ago, attempt } => {
                if let Some(job) = self.jobs.iter().rev().nth(ago) {
                    bed.job(&again(job, attempt));
                }
            }
            Step::Withdraw { ago } => {
                if let Some(Job { resource, generation, .. }) = self.jobs.iter().rev().nth(ago).cloned() {
                    bed.down(Down::Withdraw { resource, generation });
                }
            }
            Step::Write => bed.write_one(),
            Step::FailWrite => bed.fail_one(),
            Step::Captured => self.capture(),
            Step::Guarded { fails } => self.guard(fails),
            Step::Touch => {
                self.touch();
            }
            Step::Ran { fails } => self.end(fails),
            Step::Restored { fails } => self.put_back(fails),
            Step::Answer { right } => self.answer(right),
            Step::Acknowledge => {
                for report in bed.agent.entries().flat_map(|e| e.unacknowledged.clone()).collect::<Vec<_>>() {
                    bed.down(Down::Acknowledge(report.key));
                }
            }
            Step::Disconnect => bed.input(Input::Disconnected { reason: "reset".into() }),
            Step::Connect => self.connect(),
            Step::Crash => self.crash(),
            Step::PowerCut => self.power_cut(),
            Step::Stop => {
                self.is_stopped = true;
                bed.input(Input::Stop);
            }
            Step::Wait { seconds } => bed.after(Duration::from_secs(seconds)),
        }
    }

    fn crash(&mut self) {
        let empty = Node::offline(Vec::new(), muster_shared::Epoch(1).into());
        self.bed = std::mem::replace(&mut self.bed, empty).crash_slow();
        self.is_stopped = false;
        self.connect();
    }

    /// The host comes up with what it has for itself, and with what the ledger says.
    fn power_cut(&mut self) {
        let was = self.host.clone();
        self.host.values_mut().for_each(|value| *value = 1);
        let entries: Vec<Entry> = self.bed.disk.values().cloned().collect();
        for step in at_boot(&entries) {
            match step {
                AtBoot::Apply { resource, spec, .. } => {
                    let n = resource.0.as_u128();
                    let applied = entries.iter().find(|entry| entry.resource == resource);
                    let applied = applied.and_then(|entry| entry.applied.as_ref()).expect("it was applied");
                    assert_eq!(*spec, applied.spec);
                    let links = links_of(n).map(|link| (link, value(n, applied.generation.number)));
                    self.host.extend(links);
                }
                AtBoot::Restore { undo, .. } => self.host.extend(read(&undo)),
            }
        }
        let is_quiet = self.bed.writes.is_empty() && entries.iter().all(|entry| entry.undo.is_none());
        // The host itself brings up retained links.
        assert!(!is_quiet || self.retains || self.host == was, "{was:?} was there, now {:?}", self.host);
        self.crash();
    }

    fn connect(&mut self) {
        self.connection += 1;
        self.bed.input(Input::Disconnected { reason: "closed by this side".into() });
        self.bed.input(Input::Timeout);
        self.bed.after(Duration::from_secs(1));
        self.bed.greet();
    }

    fn capture(&mut self) {
        let Some((key, known)) = self.bed.captures.first().cloned() else { return };
        self.bed.captures.remove(0);
        let mut before = Links::new();
        for known in &known {
            for (link, value) in read(known) {
                before.entry(link).or_insert(value);
            }
        }
        for link in links_of(key.resource.0.as_u128()) {
            let there = self.host[&link];
            before.entry(link).or_insert(there);
        }
        self.bed.input(Input::Captured { key, before: Ok(written(&before)) });
    }

    fn guard(&mut self, fails: bool) {
        let Some(job) = self.bed.guards.first().cloned() else { return };
        self.bed.guards.remove(0);
        let undo = if fails { Err(failed("cannot read")) } else { Ok(written(&self.host)) };
        self.bed.input(Input::Guarded { key: job.key(), undo, challenge: CHALLENGE.to_vec() });
    }

    /// The links that the job makes, and what it knows of the time before from then on.
    fn target(&self) -> Option<(Job, Links, Option<Links>)> {
        let (job, before) = self.bed.runs.first()?.clone();
        let mut before = before.as_ref().map(read).unwrap_or_default();
        let theirs: Vec<Links> = self.bed.theirs.last().into_iter().flatten().map(read).collect();
        let n = job.resource.0.as_u128();
        let mut links = Links::new();
        if job.action == Action::Delete {
            before.retain(|link, _| !theirs.iter().any(|theirs| theirs.contains_key(link)));
            return Some((job, before, None));
        }
        links.extend(links_of(n).map(|link| (link, value(n, job.generation.number))));
        for (link, value) in &before {
            links.entry(link.clone()).or_insert(*value);
        }
        before.retain(|link, _| links_of(n).contains(link));
        Some((job, links, Some(before)))
    }

    fn change(&mut self, job: &Job) -> &mut Change {
        let undo = self.bed.disk[&job.resource].undo.as_ref().expect("its undo is on disk first");
        assert_eq!(undo.key, job.key(), "of this very job");
        let change = Change {
            was: read(&undo.state),
            deadline: self.bed.now + WINDOW,
            connection: None,
            is_touched: false,
            is_confirmed: false,
        };
        self.changes.entry(job.key()).or_insert(change)
    }

    /// Executes one step of the running job.
    fn touch(&mut self) -> bool {
        let Some((job, links, _)) = self.target() else { return false };
        self.change(&job);
        let Some((link, value)) = links.into_iter().find(|(link, value)| self.host[link] != *value) else {
            return false;
        };
        self.change(&job).is_touched = true;
        self.host.insert(link, value);
        true
    }

    fn end(&mut self, fails: bool) {
        if let Some(job) = self.bed.checks.first() {
            let differs = Found::Differs { missing: false, reason: "address".into() };
            let found = if fails { differs } else { Found::AsDesired };
            return self.bed.checked(job.resource.0.as_u128(), found);
        }
        while !fails && self.touch() {}
        let Some((job, _, before)) = self.target() else { return };
        let connection = self.connection;
        let change = self.change(&job);
        change.connection = Some(connection);
        let touched = change.is_touched;
        self.bed.runs.remove(0);
        let outcome = if fails { Err(failed("no such link")) } else { Ok(Default::default()) };
        let before = before.filter(|_| !fails).map(|before| written(&before));
        self.bed.input(Input::Ran { key: job.key(), outcome, before, touched });
    }

    fn put_back(&mut self, fails: bool) {
        if let Some(key) = self.bed.fallbacks.pop() {
            return self.bed.input(Input::Restored { key, result: Err("there is none".into()) });
        }
        let Some((key, undo)) = self.bed.restores.pop() else { return };
        assert!(self.bed.disk[&key.resource].undo.is_some(), "on disk until it is in force again");
        for (link, value) in read(&undo) {
            self.host.insert(link, value);
            if fails {
                break;
            }
        }
        let result = if fails { Err("the switch is not running".into()) } else { Ok(()) };
        self.bed.input(Input::Restored { key, result });
    }

    fn answer(&mut self, right: bool) {
        let Some(key) = self.bed.sent.iter().rev().find_map(|up| match up {
            Up::Challenge { key, .. } => Some(*key),
            _ => None,
        }) else {
            return;
        };
        let (now, connection) = (self.bed.now, self.connection);
        if let Some(change) = self.changes.get_mut(&key) {
            let is_new = change.connection.is_some_and(|at| connection > at);
            change.is_confirmed |= right && is_new && now < change.deadline;
        }
        let bytes = if right { CHALLENGE.to_vec() } else { b"another".to_vec() };
        self.bed.down(Down::Answer { key, bytes });
    }

    fn look(&mut self) {
        self.bed.input(Input::Timeout);
        let bed = &self.bed;
        let at_work = bed.runs.len() + bed.guards.len() + bed.captures.len() + bed.checks.len();
        assert!(at_work + bed.restores.len() + bed.fallbacks.len() <= 1, "one at a time in the lane");
        if let Some((at, why)) = bed.agent.poll_timeout() {
            assert!(at > bed.now, "it would not sleep: {why}");
        }
        for up in &bed.sent {
            let Up::Report(report) = up else { continue };
            if let (Outcome::Done(_), Some(change)) = (&report.outcome, self.changes.get(&report.key)) {
                assert!(change.is_confirmed || !change.is_touched, "{report:?} was not confirmed");
                let entry = &bed.disk[&report.key.resource];
                assert!(entry.undo.as_ref().is_none_or(|undo| undo.key != report.key), "kept on disk");
            }
        }
        self.bed.sent.retain(|up| matches!(up, Up::Challenge { .. }));
    }

    /// With a disk, a host and a controller that work, everything ends, and what is said is so.
    fn settle(&mut self) {
        if self.is_stopped {
            self.crash();
        }
        for _ in 0..60 {
            self.play(&Step::Write);
            self.capture();
            self.guard(false);
            self.end(false);
            self.put_back(false);
            if self.bed.agent.is_guarding() || !self.bed.agent.is_online() {
                self.connect();
            }
            self.answer(true);
            self.bed.after(Duration::from_secs(2));
            self.look();
        }
        self.play(&Step::Acknowledge);
        self.bed.disk_is_quick = true;
        self.bed.write_one();
        self.bed.after(HEARTBEAT);
        assert!(!self.bed.agent.is_guarding());
        for entry in self.bed.agent.entries() {
            assert!(entry.current.is_none() && entry.next.is_none() && entry.undo.is_none(), "{entry:?}");
            assert_eq!(self.bed.disk.get(&entry.resource), Some(entry), "disk and memory agree");
            let n = entry.resource.0.as_u128();
            let (Some(applied), None) = (&entry.applied, self.bed.taker(n)) else { continue };
            for link in links_of(n) {
                let there = self.host[&link];
                assert_eq!(there, value(n, applied.generation.number), "{link} of {entry:?}");
            }
        }
        self.power_cut();
    }
}

fn play(steps: &[Step]) {
    let mut world = World::new();
    for step in steps {
        let open = undone(&world.bed);
        world.play(step);
        for (resource, key) in open {
            let entry = world.bed.agent.entries().find(|entry| entry.resource == resource);
            let is_open = entry.is_some_and(|entry| entry.undo.is_some());
            let is_failed = entry
                .and_then(|entry| entry.last.as_ref())
                .is_some_and(|last| last.key == key && matches!(last.outcome, Outcome::Failed { .. }));
            if let (false, true, Some(change)) = (is_open, is_failed, world.changes.get(&key)) {
                assert_eq!(world.host, change.was, "{key:?} failed and is undone");
            }
        }
        world.look();
    }
    world.settle();
}

/// Changes that are not kept, with the newest job they are of.
fn undone(bed: &Node) -> Vec<(ResourceId, ReportKey)> {
    bed.agent.entries().filter_map(|entry| Some((entry.resource, entry.undo.as_ref()?.key))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_not_confirmed_is_undone(steps in prop::collection::vec(step(), 1..120)) {
        play(&steps);
    }
}

/// The agent ends while a job of the resource runs and another waits behind it. After its restart it runs neither, once a newer
/// one is there.
#[test]
fn what_waits_behind_a_job_that_begins_again_goes_with_it() {
    use Step::*;
    let create = |n| Deliver { n, action: Action::Create };
    play(&[
        create(2),
        Write,
        Captured,
        create(2),
        create(1),
        Write,
        Write,
        Guarded { fails: false },
        Write,
        Crash,
        Restored { fails: false },
        Connect,
        create(1),
        Write,
        Write,
        Crash,
        create(1),
        create(1),
        create(2),
        Withdraw { ago: 1 },
    ]);
}
