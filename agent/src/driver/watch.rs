//! Looks that change nothing: at resources without a job, and at the server itself.
//!
//! Absent: when to look (`agent/core/src/watch.rs`), and which looks are skipped (`host/look.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_agent_core::{Look, Looked};
use muster_shared::ResourceId;
use muster_shared::model::{Claim, Spec, Survey};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::Driver;
use super::tasks::Done;

/// The time limit of a survey: Open vSwitch may hang. The controller waits a little longer.
const SURVEY_WITHIN: Duration = Duration::from_secs(25);

impl Driver {
    /// Begins or ends the watch of this resource.
    pub(super) fn watch(&mut self, resource: ResourceId, spec: Option<&Spec>) {
        self.host.applied(resource, spec);
        self.watcher.set(resource, spec.map(|spec| self.host.places(spec)).unwrap_or_default());
    }

    pub(super) fn look(&mut self, number: u64, looks: Vec<Look>) {
        self.watcher.renew();
        let host = Arc::clone(&self.host);
        self.tasks.spawn_local(async move {
            let mut looked = Vec::with_capacity(looks.len());
            for look in looks {
                let Look { resource, generation, .. } = look;
                let found = host.look(look).await;
                looked.push(Looked { resource, generation, found });
                // This looks at thousands of files, so the link gets its turn in between.
                yield_now().await;
            }
            Done::Looked { number, looked }
        });
    }

    pub(super) fn survey(&mut self, held: BTreeSet<Claim>) {
        let host = Arc::clone(&self.host);
        self.tasks.spawn_local(async move {
            let surveyed = timeout(SURVEY_WITHIN, host.survey(&held)).await;
            let late = || Survey {
                specs: Vec::new(),
                left_out: vec![format!("everything: the look took more than {} s", SURVEY_WITHIN.as_secs())],
            };
            Done::Surveyed(surveyed.unwrap_or_else(|_elapsed| late()))
        });
    }

    pub(super) fn gather(&mut self) {
        let host = Arc::clone(&self.host);
        self.tasks.spawn_local(async move {
            match host.server.facts(&host.network, env!("CARGO_PKG_VERSION")).await {
                Ok((facts, warnings)) => {
                    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    Done::Gathered(Ok(Box::new(facts)))
                }
                Err(error) => Done::Gathered(Err(muster_host::net::chain(&error))),
            }
        });
    }
}
