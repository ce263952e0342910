//! The jobs whose reports were acknowledged to an agent. No controller may send one of them again, nor an older one: not
//! after a restart, and not after it has taken the site over.
//!
//! Absent: what an agent does with such a job (`agent/core/src/jobs/accept.rs`).

use std::collections::BTreeMap;

use muster_shared::model::ReportKey;
use muster_shared::{Attempt, Generation, ResourceId};

/// The newest job of each resource whose outcome was acknowledged.
#[derive(Debug, Default)]
pub struct Settled(BTreeMap<ResourceId, (Generation, Attempt)>);

impl Settled {
    pub fn acknowledged(&mut self, key: &ReportKey) {
        let newest = self.0.entry(key.resource).or_default();
        *newest = (*newest).max((key.generation, key.attempt));
    }

    /// Says what is wrong with a job that comes.
    pub fn violation(&self, job: &ReportKey) -> Option<String> {
        let (generation, attempt) = self.0.get(&job.resource)?;
        ((job.generation, job.attempt) <= (*generation, *attempt)).then(|| {
            format!(
                "job {} of {}, attempt {}, comes after {generation}, attempt {}, was acknowledged",
                job.generation, job.resource, job.attempt.0, attempt.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::Epoch;
    use uuid::Uuid;

    use super::*;

    fn key(resource: u8, (epoch, number, attempt): (u32, u64, u32)) -> ReportKey {
        ReportKey {
            resource: ResourceId(Uuid::from_bytes([resource; 16])),
            generation: Generation { epoch: Epoch(epoch), number },
            attempt: Attempt(attempt),
        }
    }

    #[test]
    fn what_was_acknowledged_and_what_is_older_does_not_come() {
        let mut settled = Settled::default();
        settled.acknowledged(&key(1, (2, 5, 1)));
        // A late acknowledgement of an older job.
        settled.acknowledged(&key(1, (2, 4, 0)));
        for (resource, job, is_wrong) in [
            (1, (2, 5, 1), true),
            (1, (2, 5, 0), true),
            (1, (2, 4, 9), true),
            (1, (1, 9, 9), true),
            (1, (2, 5, 2), false),
            (1, (2, 6, 0), false),
            (1, (3, 1, 0), false),
            (2, (1, 1, 0), false),
        ] {
            assert_eq!(settled.violation(&key(resource, job)).is_some(), is_wrong, "{resource}: {job:?}");
        }
    }
}
