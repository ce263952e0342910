//! The ends of jobs, counted since the engine was loaded. Operators see the counts in `/metrics`; nothing is decided by
//! them.
//!
//! Absent: what an end leads to (`job/apply_outcome.rs`), and attempts that another one followed.

use crate::view::View;

/// The end of a job. A job ends once, after the last of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// The agent did it, or found the thing as desired.
    Completed,
    /// The last attempt failed, or a check found a difference.
    Failed,
    /// The agent did not answer the last attempt in time.
    TimedOut,
    /// The job was withdrawn before it began, before it was tried again, or unanswered.
    Withdrawn,
    /// The job was withdrawn after it had started.
    Interrupted,
    /// The job's node was removed before it answered.
    Lost,
}

impl JobEnd {
    const ALL: [Self; 6] =
        [Self::Completed, Self::Failed, Self::TimedOut, Self::Withdrawn, Self::Interrupted, Self::Lost];

    /// The name that operators see.
    fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Withdrawn => "withdrawn",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
        }
    }
}

/// The number of jobs that ended in each way.
#[derive(Debug, Default)]
pub(crate) struct JobEnds([u64; JobEnd::ALL.len()]);

impl JobEnds {
    /// Counts the end of a job.
    pub fn count(&mut self, end: JobEnd) {
        self.0[end as usize] += 1;
    }
}

impl View<'_> {
    /// Returns the number of jobs that ended in each way since the engine was loaded, by the way's name.
    pub fn job_ends(&self) -> Vec<(&'static str, u64)> {
        JobEnd::ALL.into_iter().map(|end| (end.as_str(), self.jobs.ends.0[end as usize])).collect()
    }
}
