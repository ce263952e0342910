//! The figures of the fleet, which its members count, and the report of them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use muster_agent_link::connection::LinkError;
use muster_shared::Epoch;
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;
use tokio::sync::watch;

/// Reasons of lost connections that are kept; they are the controller's and the system's few.
const REASONS_MAX: usize = 20;

/// The shortest pause that is kept, and the most of them.
const PAUSE_LEAST: Duration = Duration::from_millis(50);
const PAUSES_MAX: usize = 1000;

/// A time in which no job began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pause {
    /// The end, in seconds since 1970.
    ended_at: f64,
    seconds: f64,
}

/// The state of the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Members that the controller has greeted.
    pub online: u64,
    /// The number of greetings, also of members that had been greeted before.
    pub greetings: u64,
    /// The number of times that a greeted member lost its connection.
    pub partings: u64,
    /// Jobs whose outcome is durable with the controller.
    pub jobs: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Things that were changed behind the agent's back.
    pub drifted: u64,
    /// Changed things that were corrected.
    pub corrected: u64,
}

#[derive(Debug, Default)]
struct Taken {
    online: Vec<Duration>,
    acknowledged: Vec<Duration>,
    corrected: Vec<Duration>,
    jobs: Option<(Instant, Instant)>,
    /// When the first job of each start of the controller began.
    first_jobs: BTreeMap<Epoch, SystemTime>,
    last_began: Option<(Instant, SystemTime)>,
    pauses: Vec<Pause>,
    lost: BTreeMap<String, u64>,
    /// Acknowledgements in each second since the first one.
    each_second: BTreeMap<u64, u64>,
    /// The first thing that a controller must never do.
    violation: Option<String>,
}

/// The figures to which all members write.
#[derive(Debug)]
pub struct Figures {
    standing: watch::Sender<Standing>,
    taken: Mutex<Taken>,
}

/// Percentiles of times in ms.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Percentiles {
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Default for Figures {
    fn default() -> Self {
        Self { standing: watch::Sender::new(Standing::default()), taken: Mutex::default() }
    }
}

impl Taken {
    /// A pause is over now.
    fn paused(&mut self, took: Duration) {
        if took >= PAUSE_LEAST && self.pauses.len() < PAUSES_MAX {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.pauses.push(Pause { ended_at: now.as_secs_f64(), seconds: took.as_secs_f64() });
        }
    }
}

impl Figures {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To wait for something.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    pub(super) fn online(&self, after: Duration) {
        self.taken().online.push(after);
        self.standing.send_modify(|it| (it.online, it.greetings) = (it.online + 1, it.greetings + 1));
    }

    pub(super) fn offline(&self) {
        self.standing.send_modify(|it| (it.online, it.partings) = (it.online - 1, it.partings + 1));
    }

    pub(super) fn lost(&self, error: &LinkError) {
        let lost = &mut self.taken().lost;
        // Among thousands of agents the count matters, and not the place.
        let reason = match error {
            LinkError::Unreachable { why, .. } => why.clone(),
            LinkError::NotLetIn(_) => "the controller does not let the node in (NotAuthorized)".into(),
            error => error.to_string(),
        };
        if lost.len() < REASONS_MAX || lost.contains_key(&reason) {
            *lost.entry(reason).or_default() += 1;
        }
    }

    /// A job begins, which a controller with this epoch sent.
    pub(super) fn began(&self, epoch: Epoch) {
        let now = Instant::now();
        let mut taken = self.taken();
        taken.jobs.get_or_insert((now, now));
        let last = taken.last_began.replace((now, SystemTime::now()));
        taken.paused(last.map_or(Duration::ZERO, |(last, _)| now - last));
        taken.first_jobs.entry(epoch).or_insert_with(SystemTime::now);
    }

    pub(super) fn acknowledged(&self, after: Duration) {
        {
            let mut taken = self.taken();
            taken.acknowledged.push(after);
            if let Some((first, last)) = &mut taken.jobs {
                *last = Instant::now();
                let second = last.duration_since(*first).as_secs();
                *taken.each_second.entry(second).or_default() += 1;
            }
        }
        self.standing.send_modify(|it| it.jobs += 1);
    }

    /// A controller did what it must never do; the first time is told.
    pub(super) fn violated(&self, what: String) {
        self.taken().violation.get_or_insert(what);
    }

    pub(super) fn failed(&self) {
        self.standing.send_modify(|it| it.failed += 1);
    }

    pub(super) fn drifted(&self) {
        self.standing.send_modify(|it| it.drifted += 1);
    }

    pub(super) fn corrected(&self, after: Duration) {
        self.taken().corrected.push(after);
        self.standing.send_modify(|it| it.corrected += 1);
    }

    /// Returns percentiles of the times that members took to come online since the last call.
    pub fn take_online(&self) -> Percentiles {
        Percentiles::of(std::mem::take(&mut self.taken().online))
    }

    /// From a report to its acknowledgement, which comes after the controller's commit.
    pub fn take_acknowledged(&self) -> Percentiles {
        Percentiles::of(std::mem::take(&mut self.taken().acknowledged))
    }

    /// From a change behind an agent's back to the end of the job that corrected it.
    pub fn take_corrected(&self) -> Percentiles {
        Percentiles::of(std::mem::take(&mut self.taken().corrected))
    }

    /// From the first job that began to the last acknowledgement.
    pub fn jobs_took(&self) -> Duration {
        self.taken().jobs.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// The newest epoch that has sent a job.
    pub fn last_epoch(&self) -> Option<Epoch> {
        self.taken().first_jobs.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// When the first job of a newer epoch began, in seconds since 1970.
    pub fn first_job_after(&self, epoch: Option<Epoch>) -> Option<f64> {
        let taken = self.taken();
        let (_, at) = taken.first_jobs.iter().find(|(newer, _)| Some(**newer) > epoch)?;
        at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
    }

    /// When the newest job began, in seconds since 1970.
    pub fn last_job(&self) -> Option<f64> {
        let (_, at) = self.taken().last_began?;
        at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
    }

    /// The times in which no job began although others did before and after, oldest first.
    pub fn pauses(&self) -> Vec<Pause> {
        self.taken().pauses.clone()
    }

    /// The second with most jobs.
    pub fn most_in_a_second(&self) -> u64 {
        self.taken().each_second.values().copied().max().unwrap_or(0)
    }

    pub fn violation(&self) -> Option<String> {
        self.taken().violation.clone()
    }

    /// Connections that were lost or not made, by reason.
    pub fn lost_by_reason(&self) -> BTreeMap<String, u64> {
        self.taken().lost.clone()
    }
}

impl Percentiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let Some(last) = times.len().checked_sub(1) else { return Self::default() };
        let at = |percent: usize| (times[last * percent / 100].as_secs_f64() * 1e5).round() / 100.0;
        Self { p50_ms: at(50), p95_ms: at(95), p99_ms: at(99), max_ms: at(100) }
    }
}

/// The resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// Bytes in memory, now.
    pub rss_bytes: u64,
}

impl Process {
    /// As `/proc` has it.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let stat = read("stat").with_context(|| format!("there is no process {pid}"))?;
        // The name, in brackets, may have blanks.
        let (_, fields) = stat.rsplit_once(')').context("/proc has another form")?;
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
        let per_second = sysconf(SysconfVar::CLK_TCK)?.context("the system does not tell its ticks")?;
        let status = read("status")?;
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
        let rss_kib: u64 = rss.and_then(|it| it.trim().parse().ok()).unwrap_or_default();
        Ok(Self { cpu_s: ticks as f64 / per_second as f64, rss_bytes: rss_kib * 1024 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let of = Percentiles::of((1..=101).rev().map(Duration::from_millis).collect());
        assert_eq!((of.p50_ms, of.p95_ms, of.p99_ms, of.max_ms), (51.0, 96.0, 100.0, 101.0));
        assert_eq!(Percentiles::of(Vec::new()).max_ms, 0.0);
    }

    #[test]
    fn the_first_job_of_a_newer_epoch_is_found() {
        let figures = Figures::default();
        assert_eq!((figures.last_epoch(), figures.first_job_after(None)), (None, None));
        figures.began(Epoch(3));
        assert_eq!((figures.last_epoch(), figures.first_job_after(Some(Epoch(3)))), (Some(Epoch(3)), None));
        figures.began(Epoch(5));
        let first = figures.first_job_after(Some(Epoch(3)));
        figures.began(Epoch(5));
        assert!(first > Some(0.0) && first == figures.first_job_after(Some(Epoch(3))));
    }

    #[test]
    fn short_pauses_are_not_kept_and_others_are_bounded() {
        let mut taken = Taken::default();
        taken.paused(PAUSE_LEAST / 2);
        assert_eq!(taken.pauses, []);
        for _ in 0..2 * PAUSES_MAX {
            taken.paused(Duration::from_secs(3));
        }
        assert_eq!((taken.pauses.len(), taken.pauses[0].seconds), (PAUSES_MAX, 3.0));
        assert!(taken.pauses[0].ended_at > 0.0);
    }

    #[test]
    fn a_process_tells_what_it_uses() {
        assert!(Process::of(std::process::id()).unwrap().rss_bytes > 0);
        assert!(Process::of(u32::MAX).is_err());
    }
}
