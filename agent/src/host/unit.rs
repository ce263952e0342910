//! Jobs of `Muster::Unit`.

use muster_agent_core::{Before, Found, RunError};
use muster_host::unit::{UnitBefore, UnitFault};
use muster_shared::ResourceId;
use muster_shared::model::{Action, Observed, Unit};

use super::{Host, NotRun, Ran, compared, damaged, decoded, encoded, failed};

impl Host {
    pub(super) async fn capture_unit(&self, unit: &Unit, known: Vec<Before>) -> Result<Before, RunError> {
        let known = known.first().map(decoded::<UnitBefore>).transpose()?;
        encoded(&self.units.capture(unit, known).await.map_err(unit_failed)?)
    }

    pub(super) async fn unit(
        &self,
        resource: ResourceId,
        action: Action,
        unit: &Unit,
        before: Option<Before>,
    ) -> Result<Ran, NotRun> {
        let before: UnitBefore = decoded(&before.ok_or_else(damaged)?)?;
        if action == Action::Delete {
            let restored = self.units.restore(resource, unit, &before).await;
            restored.map_err(|fault| NotRun { error: unit_failed(fault), touched: true })?;
            return Ok(Ran { observed: Observed::default(), before: None, touched: true });
        }
        let applied = self.units.apply(resource, unit, before).await;
        let (before, touched) = applied
            .map_err(|fault| NotRun { touched: fault.may_have_changed(), error: unit_failed(fault) })?;
        let attributes = [("name".to_owned(), unit.name.clone())].into();
        Ok(Ran { observed: Observed { attributes }, before: Some(encoded(&before)?), touched })
    }

    pub(super) async fn check_unit(&self, unit: &Unit) -> Result<Found, RunError> {
        let found = self.units.check(unit).await.map_err(unit_failed)?;
        Ok(compared(found.is_empty(), false, format!("{}: {}", unit.name, found.join(", "))))
    }
}

fn unit_failed(fault: UnitFault) -> RunError {
    failed(&fault, fault.is_permanent())
}
