//! Decides whether a unit is started, restarted or reloaded, and whether it stays up.
//!
//! Absent: which resources a restart follows (`restart_on`, `shared/src/model/types/unit.rs`), and commands of
//! jobs (`agent/host/src/run.rs`).

use std::time::Duration;

use muster_shared::model::{Unit, UnitActive};
use tokio::time::{Instant, timeout_at};

use super::{Result, UnitBefore, UnitFault, Units, is_up};
use crate::systemd::{Active, Bus, UnitState, Verb};

/// The time limit of a start: a job has five minutes, which must also suffice to undo the changes.
pub const START_MAX: Duration = Duration::from_secs(200);

impl Units {
    pub(super) async fn activate(
        &self,
        bus: &Bus,
        unit: &Unit,
        before: &UnitBefore,
        written: bool,
        touched: &mut bool,
    ) -> Result<()> {
        let name = unit.name.as_str();
        let state = bus.state(name).await?;
        let up = is_up(&state);
        let cares = !unit.restart_on.is_empty() || unit.files().next().is_some();
        let verb = match unit.active {
            Some(UnitActive::Stopped) if up => Some(Verb::Stop),
            Some(UnitActive::Stopped) => None,
            Some(UnitActive::Started) if !up && !is_as_started(&state) => Some(Verb::Start),
            _ if !up && unit.active.is_none() => None,
            _ if written || must(before.started.as_deref(), &unit.start_digest().to_string(), cares) => {
                Some(Verb::Restart)
            }
            _ if must(before.reloaded.as_deref(), &unit.reload_on, !unit.reload_on.is_empty()) => {
                Some(Verb::ReloadOrRestart)
            }
            _ => None,
        };
        if let Some(verb) = verb {
            *touched = true;
            if state.active == Active::Failed {
                // The unit may have used up its limit of starts.
                bus.reset_failed(name).await?;
            }
            self.tell(bus, verb, name).await?;
        }
        let runs = unit.active == Some(UnitActive::Started)
            || matches!(verb, Some(Verb::Restart | Verb::ReloadOrRestart));
        if runs { self.settle(bus, unit).await } else { Ok(()) }
    }

    /// Runs the job to its end; an error has the last lines of the unit's log.
    pub(super) async fn tell(&self, bus: &Bus, verb: Verb, name: &str) -> Result<()> {
        let end = bus.tell(verb, name, START_MAX).await?;
        if end.is_done() {
            return Ok(());
        }
        let state = bus.state(name).await?;
        let log = self.journal.last(name).await;
        let how = format!("{} ({})", end.0, described(&state));
        Err(UnitFault::NotDone { unit: name.into(), verb, how, log })
    }

    /// Waits until it was up for its time, without being started again meanwhile.
    async fn settle(&self, bus: &Bus, unit: &Unit) -> Result<()> {
        let name = unit.name.as_str();
        // Watches before the first look, so that no change is missed.
        let mut watch = bus.watch(name).await?;
        let first = bus.state(name).await?;
        let until = Instant::now() + Duration::from_secs(unit.settle.into());
        let mut now = first.clone();
        loop {
            let stays =
                is_as_started(&now) && now.invocation == first.invocation && now.restarts == first.restarts;
            if !stays {
                let log = self.journal.last(name).await;
                return Err(UnitFault::NotUp { unit: name.into(), how: described(&now), log });
            }
            match timeout_at(until, watch.changed()).await {
                Err(_) => return Ok(()),
                Ok(changed) => changed?,
            }
            now = bus.state(name).await?;
        }
    }
}

/// Whether the unit runs with other files or dependencies than desired. For a unit that Muster has not
/// started yet this is unknown: it counts as different if there are any dependencies.
fn must(with: Option<&str>, wanted: &str, cares: bool) -> bool {
    with.map_or(cares, |with| with != wanted)
}

/// The unit runs, or was to run once and has done so.
pub(super) fn is_as_started(state: &UnitState) -> bool {
    match state.active {
        Active::Active | Active::Reloading => true,
        Active::Inactive => state.service_type == "oneshot" && state.result == "success" && state.has_run,
        Active::Failed | Active::Activating | Active::Deactivating => false,
    }
}

/// The state in words, for the operator.
pub(super) fn described(state: &UnitState) -> String {
    let what = match state.active {
        Active::Active => "active",
        Active::Reloading => "reloading",
        Active::Inactive => "inactive",
        Active::Failed => "failed",
        Active::Activating if state.sub == "auto-restart" => "started again and again",
        Active::Activating => "being started",
        Active::Deactivating => "being stopped",
    };
    let end = match (state.exit_code, state.exit_status) {
        // CLD_EXITED
        (1, 0) | (0, _) => String::new(),
        (1, status) => format!(", its program ended with status {status}"),
        (_, signal) => format!(", its program was ended by signal {signal}"),
    };
    let result = match state.result.as_str() {
        "" | "success" | "exit-code" | "signal" | "core-dump" => String::new(),
        other => format!(", {other}"),
    };
    format!("{what}{end}{result}")
}
