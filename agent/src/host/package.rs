//! Jobs of `Muster::Package`.

use muster_agent_core::{Before, Found, RunError};
use muster_host::package::{PackageBefore, PackageFault};
use muster_shared::model::{Action, Job, Observed, Package};

use super::deployment::run_id;
use super::{Host, NotRun, Ran, compared, damaged, decoded, encoded, failed};

impl Host {
    pub(super) async fn capture_package(
        &self,
        package: &Package,
        known: Vec<Before>,
    ) -> Result<Before, RunError> {
        match known.into_iter().next() {
            Some(known) => Ok(known),
            None => encoded(&self.packages.observe(package).await.map_err(package_failed)?),
        }
    }

    pub(super) async fn package(
        &self,
        job: &Job,
        package: &Package,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        let id = run_id(job.key());
        let not_run =
            |fault: PackageFault| NotRun { touched: fault.may_have_changed(), error: package_failed(fault) };
        if job.action == Action::Delete {
            let before: PackageBefore = decoded(&before.ok_or_else(damaged)?)?;
            let touched = self.packages.restore(&id, package, &before).await.map_err(not_run)?;
            return Ok(Ran { observed: Observed::default(), before: None, touched });
        }
        let applied = self.packages.apply(&id, package).await.map_err(not_run)?;
        if applied.mended {
            tracing::warn!(
                package = package.name,
                "dpkg had been interrupted before, or rpm: what it had under way was ended"
            );
        }
        let attributes = [
            ("name".to_owned(), package.name.clone()),
            ("version".to_owned(), applied.version.unwrap_or_default()),
        ];
        Ok(Ran {
            observed: Observed { attributes: attributes.into() },
            before: None,
            touched: applied.touched,
        })
    }

    pub(super) async fn check_package(&self, package: &Package) -> Result<Found, RunError> {
        let found = self.packages.check(package).await.map_err(package_failed)?;
        Ok(compared(found.is_empty(), false, format!("{}: {}", package.name, found.join(", "))))
    }
}

fn package_failed(fault: PackageFault) -> RunError {
    failed(&fault, fault.is_permanent())
}
