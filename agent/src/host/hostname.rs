//! Jobs of `Muster::Hostname`.
//!
//! Absent: how the name is changed and compared (`agent/host/src/hostname.rs`).

use muster_agent_core::{Before, RunError};
use muster_host::hostname::{NameError, NameState};
use muster_shared::model::{Action, Hostname, Observed, OnDelete};

use super::{Host, NotRun, Ran, damaged, decoded, encoded, failed};

impl Host {
    pub(super) async fn capture_name(&self, known: Vec<Before>) -> Result<Before, RunError> {
        match known.into_iter().next() {
            Some(known) => Ok(known),
            None => encoded(&self.name.observe().await.map_err(name_failed)?),
        }
    }

    pub(super) async fn hostname(
        &self,
        action: Action,
        hostname: &Hostname,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        let is = self.name.observe().await.map_err(name_failed)?;
        if action == Action::Delete && hostname.on_delete == OnDelete::Keep {
            self.name.leave().await.map_err(name_failed)?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: false });
        }
        let (wanted, observed) = match action {
            Action::Delete => (was(before)?, Observed::default()),
            _ => {
                let attributes = [("hostname".to_owned(), hostname.hostname.clone())].into();
                let wanted = self.name.plan(&hostname.hostname, &is).map_err(name_failed)?;
                (wanted, Observed { attributes })
            }
        };
        let touched = is != wanted;
        let reached = self.name.reach(&wanted).await;
        reached.map_err(|error| NotRun { error: name_failed(error), touched })?;
        Ok(Ran { observed, before: None, touched })
    }
}

fn was(before: Option<Before>) -> Result<NameState, RunError> {
    let before = before.ok_or_else(damaged)?;
    decoded(&before)
}

pub(super) fn name_failed(error: NameError) -> RunError {
    failed(&error, error.is_permanent())
}
