//! Servers with much to do: lines of few bytes a second, contents that take many times a job's deadline to come, jobs of an
//! hour, and as many jobs with one server as there may be. Waiting is no failure: whatever waits has its turn in its place,
//! and what was fetched is not fetched again.
//!
//! Absent: who says "no answer" of a server that is well (`silence.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_agent_core::Entry;
use muster_engine::Limits;
use muster_engine::record::{PackedSpec, ResourceRecord, Status};
use muster_shared::model::{Content, ContentDigest, Job, Outcome, ReportKey, Spec};
use muster_shared::{Generation, MonoTime, ResourceId};

use super::Options;
use super::dice::Dice;
use super::machine::Process;
use super::world::World;

/// A run in so many.
const IN: u64 = 5;
/// A loaded site in so many has as many jobs with one server as there may be: each turn looks at all of them.
const CROWDED_IN: u64 = 4;
/// Bytes a second: a piece of a content comes before it is asked for once more.
const BANDWIDTHS: [u64; 4] = [16_000, 16_000, 24_000, 50_000];
/// The deadline of a job is short, so that a content of some megabytes takes ten of them.
const DEADLINE: Duration = Duration::from_secs(30);
const DEADLINES: u32 = 10;
/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;
/// A server stands still for so many times as long: longer than its controller waits for a word.
pub const STANDS_STILL: u32 = 6;
/// The time for which an agent keeps what an attempt has fetched, apart from the time in which a disk records the end
/// of the attempt.
const KEPT_FOR: Duration = Duration::from_secs(590);
/// A record is on disk by then.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// Whether this run has servers with much to do, and what they have to do.
#[derive(Clone, Debug)]
pub struct Load {
    /// Whether the site has such a load.
    pub is_on: bool,
    /// There are servers by the thousand, and things on all of them.
    pub is_wide: bool,
    dice: Dice,
}

impl Load {
    /// The load of this run.
    pub fn of(options: &Options) -> Self {
        let mut dice = Dice::new(options.seed, "load");
        let is_wide = options.is_large();
        Self { is_on: options.parts.load && !is_wide && dice.one_in(IN), is_wide, dice }
    }

    /// Nothing but the usual.
    pub fn none() -> Self {
        Self { is_on: false, is_wide: false, dice: Dice::new(0, "load") }
    }

    /// Returns the load with a stream of random numbers of its own.
    pub fn part(&self, seed: u64, purpose: &str) -> Self {
        Self { is_on: self.is_on, is_wide: self.is_wide, dice: Dice::new(seed, purpose) }
    }

    /// The limits of the site.
    pub fn limits(&self, limits: Limits) -> Limits {
        if !self.is_on {
            return limits;
        }
        Limits { job_timeout: DEADLINE, in_flight_per_node: 256, in_flight_per_stack: 20_000, ..limits }
    }

    /// Bytes a second over the line of the next server, if that is slow.
    pub fn bandwidth(&mut self) -> Option<u64> {
        (self.is_on && self.dice.one_in(2)).then(|| *self.dice.pick(&BANDWIDTHS))
    }

    /// The size of a content that takes up to ten deadlines over the slowest line, and often as many.
    pub fn content(&mut self) -> Option<usize> {
        let most = BANDWIDTHS[0] * DEADLINE.as_secs() * u64::from(DEADLINES);
        (self.is_on && self.dice.one_in(4)).then(|| {
            let size = if self.dice.one_in(2) { most } else { self.dice.below(most) };
            usize::try_from(most / 8 + size).unwrap_or_default()
        })
    }

    /// Milliseconds of a job that takes long.
    pub fn job(&mut self) -> Option<u64> {
        (self.is_on && self.dice.one_in(12)).then_some(HOUR)
    }

    /// Draws a number of jobs for one server: as many as there may be, and some more.
    pub fn crowd(&mut self) -> Option<u64> {
        (self.is_on && self.dice.one_in(CROWDED_IN)).then(|| 250 + self.dice.below(40))
    }

    /// Returns how long a site may take to settle: twelve times as long with jobs of an hour, one after the other.
    pub fn settles_within(&self, otherwise: Duration) -> Duration {
        if self.is_on { otherwise * 12 } else { otherwise }
    }
}

/// The times when jobs came to a server, and the jobs that have had their turn since its agent began.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// An attempt that runs, and a further one that came meanwhile, have a place each.
    came: BTreeMap<ReportKey, Place>,
    /// Jobs whose arrival is not known: a disk has refused that they ended, and the next agent finds them there.
    unplaced: BTreeSet<(ResourceId, Generation)>,
    next: u64,
    begun: BTreeSet<ReportKey>,
    /// The times when attempts ended.
    ended: BTreeMap<ReportKey, MonoTime>,
    /// The time when the first piece of a content came.
    fetched: BTreeMap<ContentDigest, MonoTime>,
}

/// A further attempt has the same, unless the one before has started: that one's place is used up.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    since: MonoTime,
    recorded: MonoTime,
}

impl Places {
    /// The agent no longer knows it.
    pub fn forgets(&mut self, resource: ResourceId) {
        self.came.retain(|key, _| key.resource != resource);
        self.unplaced.retain(|(of, _)| *of != resource);
    }

    /// Another agent begins, with these entries: what the disk has lost comes again, and later.
    pub fn begins<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>) {
        let jobs = entries.flat_map(|entry| [&entry.current, &entry.next].into_iter().flatten());
        let known: BTreeSet<ReportKey> = jobs.map(|it| it.job.key()).collect();
        self.came.retain(|key, _| known.contains(key));
        let lost = known.iter().filter(|key| !self.came.contains_key(*key));
        self.unplaced = lost.map(|key| (key.resource, key.generation)).collect();
        self.begun.clear();
    }
}

/// A content that comes by itself.
fn stored(job: &Job) -> Option<ContentDigest> {
    match &job.spec {
        Spec::File(file) if job.action.applies() => match &file.content {
            Content::Stored { digest, .. } => Some(*digest),
            Content::Inline(_) => None,
        },
        _ => None,
    }
}

/// The row's job is with its server, or will be once more.
fn wants(row: &ResourceRecord, digest: ContentDigest) -> bool {
    let spec = row.spec.as_ref().map(PackedSpec::unpack);
    let is_of = |spec: &Spec| matches!(spec, Spec::File(file) if matches!(&file.content, Content::Stored { digest: of, .. } if *of == digest));
    row.dropped.is_none()
        && row.progress.status == Some(Status::InProgress)
        && spec.as_ref().and_then(|spec| spec.spec()).is_some_and(is_of)
}

impl World {
    /// A job has ended well; as many are with its server as are.
    pub(super) fn job_took(&mut self, at: usize, job: &Job) {
        let long =
            matches!(&job.spec, Spec::Dummy(dummy) if dummy.milliseconds >= HOUR && job.action.applies());
        let shared = &mut *self.shared.borrow_mut();
        if long {
            shared.counts.add("load job of an hour ends");
        }
        let name = &self.machines[at].name;
        let with_it = |row: &&ResourceRecord| row.progress.in_flight && row.node.as_ref() == Some(name);
        if self.load.is_on && shared.tables.rows.values().filter(with_it).count() >= shared.in_flight_per_node
        {
            shared.counts.add("load as many jobs with one server as there may be");
        }
    }

    /// An entry is written down: its jobs have their places.
    pub(super) fn takes_place(&mut self, at: usize, entry: &Entry) {
        let now = self.now;
        let places = &mut self.machines[at].places;
        let jobs: Vec<_> =
            [&entry.current, &entry.next].into_iter().flatten().map(|it| it.job.key()).collect();
        let stays = |generation: &Generation| jobs.iter().any(|key| key.generation == *generation);
        places.unplaced.retain(|(of, generation)| *of != entry.resource || stays(generation));
        let mut again = false;
        for key in &jobs {
            if places.came.contains_key(key) || places.unplaced.contains(&(key.resource, key.generation)) {
                continue;
            }
            let before = places.came.iter().find(|(before, _)| {
                (before.resource, before.generation) == (key.resource, key.generation)
                    && !jobs.contains(before)
                    && !places.begun.contains(before)
            });
            again |= before.is_some();
            let new = Place { number: places.next, since: now, recorded: now };
            let place = before.map_or(new, |(_, place)| Place { recorded: now, ..*place });
            places.came.insert(*key, place);
            places.next += 1;
        }
        places.came.retain(|key, _| key.resource != entry.resource || jobs.contains(key));
        if let Some(last) = &entry.last {
            places.ended.entry(last.key).or_insert(now);
            places.ended.retain(|_, at| now.since(*at) < 2 * KEPT_FOR);
        }
        if again {
            self.shared.borrow_mut().counts.add("load a further attempt comes while one waits");
        }
    }

    /// A job begins: none that came before it waits in its lane for nothing.
    pub(super) fn has_its_turn(&mut self, at: usize, key: ReportKey) {
        let now = self.now;
        let machine = &mut self.machines[at];
        if !machine.places.begun.insert(key) {
            return;
        }
        let machine = &self.machines[at];
        let (Some(process), Some(own)) = (&machine.process, machine.places.came.get(&key)) else {
            return;
        };
        let mut waited = Vec::new();
        if now.since(own.since) >= DEADLINE && self.load.is_on {
            waited.push("load job waits in its lane for longer than its deadline");
        }
        let waiting: Vec<(&Job, Place)> = process
            .agent
            .entries()
            .filter(|entry| entry.resource != key.resource && !entry.resource.is_local())
            .filter_map(|entry| entry.current.as_ref().map(|accepted| &accepted.job))
            .filter(|job| {
                !machine.places.begun.contains(&job.key()) && !process.half_done.contains(&job.key())
            })
            .filter_map(|job| {
                let place = machine.places.came.get(&job.key())?;
                (place.recorded + RECORDED_WITHIN < now).then_some((job, *place))
            })
            .collect();
        let lane = process
            .agent
            .entries()
            .find(|entry| entry.resource == key.resource)
            .and_then(|entry| entry.current.as_ref())
            .map(|accepted| accepted.job.spec.lane());
        // A job that waits for its content lets others pass, but for those that claim the same.
        let fetching = waiting.iter().filter(|(job, _)| stored(job).is_some()).map(|(_, it)| it.number).min();
        let passed = waiting.iter().find(|(job, place)| {
            Some(job.spec.lane()) == lane
                && place.number < own.number
                && stored(job).is_none()
                && fetching.is_none_or(|fetching| fetching > place.number)
        });
        let wrong = passed.filter(|_| !machine.disk.full).map(|(job, _)| {
            format!("{} begins {key:?} before {:?}, which came earlier", machine.name, job.key())
        });
        waited.into_iter().for_each(|what| self.shared.borrow_mut().counts.add(what));
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }

    /// A piece of a content is there.
    pub(super) fn piece_came(&mut self, at: usize, digest: ContentDigest) {
        let now = self.now;
        self.machines[at].places.fetched.entry(digest).or_insert(now);
    }

    /// A content has been fetched as a whole. Counts whether that took ten deadlines.
    pub(super) fn has_fetched(&mut self, at: usize, digest: ContentDigest) {
        let began = self.machines[at].places.fetched.remove(&digest);
        let counts = &mut self.shared.borrow_mut().counts;
        if began.is_some_and(|began| self.now.since(began) >= DEADLINE * (DEADLINES - 1)) {
            counts.add("load content takes ten deadlines");
        }
    }

    /// Checks that an agent drops a fetched content only if no job comes back for it. Excused is an agent that takes
    /// its disk for full: it keeps nothing, for records come before what may be fetched again. It looks for room only
    /// from time to time, so the disk may have room again before.
    pub(super) fn drops(&mut self, at: usize, digest: ContentDigest) {
        let machine = &self.machines[at];
        let shared = self.shared.borrow();
        let here = |row: &&ResourceRecord| row.node.as_ref() == Some(&machine.name) && wants(row, digest);
        let mut rows = shared.tables.rows.values().filter(here);
        let (Some(row), None) = (rows.next(), rows.next()) else { return };
        let has_room = |process: &&Process| !machine.disk.full && !process.found_no_room;
        let Some(process) = machine.process.as_ref().filter(has_room) else { return };
        let entry = process.agent.entries().find(|entry| entry.resource == row.physical);
        let Some(last) = entry.filter(|entry| entry.current.is_none()).and_then(|entry| entry.last.as_ref())
        else {
            return;
        };
        let comes_again = match &last.outcome {
            // Damaged content is fetched again.
            Outcome::Failed { permanent: false, reason } => !reason.contains("content"),
            Outcome::NoRoom { .. } => true,
            _ => false,
        };
        let is_new =
            machine.places.ended.get(&last.key).is_none_or(|ended| self.now.since(*ended) < KEPT_FOR);
        let wrong = (comes_again && is_new && last.key.generation == row.progress.generation).then(|| {
            let (name, of) = (&machine.name, &row.name);
            format!("{name} drops {digest}, which it has fetched for {of}: {:?} is tried again", last.key)
        });
        drop(rows);
        drop(shared);
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }
}
