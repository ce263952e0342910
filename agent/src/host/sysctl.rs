//! Jobs of `Muster::Sysctl`.

use muster_agent_core::{Before, Found, RunError};
use muster_host::sysctl::{SysctlFault, SysctlState};
use muster_shared::ResourceId;
use muster_shared::model::{Action, Observed, OnDelete, Sysctl};

use super::{Host, NotRun, Ran, compared, damaged, decoded, encoded, failed};

impl Host {
    pub(super) async fn capture_sysctl(
        &self,
        sysctl: &Sysctl,
        known: Vec<Before>,
    ) -> Result<Before, RunError> {
        match known.into_iter().next() {
            Some(known) => Ok(known),
            None => encoded(&self.sysctls.observe(sysctl).await.map_err(sysctl_failed)?),
        }
    }

    pub(super) async fn sysctl(
        &self,
        resource: ResourceId,
        action: Action,
        sysctl: &Sysctl,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        if action == Action::Delete && sysctl.on_delete == OnDelete::Keep {
            self.sysctls.leave(resource, sysctl).await.map_err(sysctl_failed)?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: false });
        }
        let (wanted, observed) = match action {
            Action::Delete => {
                let before: SysctlState = decoded(&before.ok_or_else(damaged)?)?;
                (before, Observed::default())
            }
            _ => {
                let attributes = [("value".to_owned(), sysctl.value.clone())].into();
                (self.sysctls.wanted(sysctl), Observed { attributes })
            }
        };
        let reached = self.sysctls.reach(resource, sysctl, &wanted).await;
        let touched = reached.map_err(|fault| NotRun { error: sysctl_failed(fault), touched: true })?;
        Ok(Ran { observed, before: None, touched })
    }

    pub(super) async fn check_sysctl(&self, sysctl: &Sysctl) -> Result<Found, RunError> {
        let found = self.sysctls.check(sysctl).await.map_err(sysctl_failed)?;
        Ok(compared(found.is_empty(), false, found.join(", ")))
    }
}

fn sysctl_failed(fault: SysctlFault) -> RunError {
    failed(&fault, fault.is_permanent())
}
