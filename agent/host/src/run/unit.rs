//! The transient unit of a run: its properties and its state in systemd.
//!
//! `KillMode=mixed`: only the supervisor receives SIGTERM, since it knows how to end the run; the unit's
//! remaining processes are killed after it has ended.

use std::path::Path;
use std::time::Duration;

use super::record::Order;
use crate::systemd::{Active, Bus, Command, Property, Systemd, SystemdError, UnitState};

/// The time from the call to a running supervisor; a busy server takes seconds.
const START_WITHIN: Duration = Duration::from_secs(90);
/// Longer than the supervisor needs to end a run and to kill its remaining processes.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Time beyond the run's own: the supervisor ends the run long before, unless it waits for a disk.
const RUN_BEYOND: Duration = Duration::from_secs(600);

pub(super) struct Unit<'a> {
    pub(super) systemd: &'a Systemd,
    pub(super) name: String,
}

/// The state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitStands {
    /// There is no unit, or none of its processes runs.
    Gone,
    /// The supervisor is coming, or there.
    Runs,
    /// The remaining processes are being killed.
    Ends,
}

impl Unit<'_> {
    pub(super) async fn stands(&self) -> Result<UnitStands, SystemdError> {
        Ok(stands(&self.systemd.connect().await?.state(&self.name).await?))
    }

    /// Starts the supervisor, unless it is already started.
    pub(super) async fn start(
        &self,
        supervisor: &Path,
        directory: &Path,
        order: &Order,
    ) -> Result<(), SystemdError> {
        let bus = self.systemd.connect().await?;
        match stands(&bus.state(&self.name).await?) {
            UnitStands::Gone => self.start_new(&bus, supervisor, directory, order).await,
            UnitStands::Runs | UnitStands::Ends => Ok(()),
        }
    }

    async fn start_new(
        &self,
        bus: &Bus,
        supervisor: &Path,
        directory: &Path,
        order: &Order,
    ) -> Result<(), SystemdError> {
        let text = |text: &str| Property::Text(text.to_owned());
        let micros = |time: Duration| Property::Number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let path = supervisor.display().to_string();
        let arguments = vec![path.clone(), "run".into(), directory.display().to_string()];
        let properties = [
            ("Description", Property::Text(format!("Muster: {}", order.description))),
            ("Type", text("exec")),
            ("ExecStart", Property::Commands(vec![Command { path, arguments, may_fail: false }])),
            ("KillMode", text("mixed")),
            ("TimeoutStopUSec", micros(STOP_WITHIN)),
            ("RuntimeMaxUSec", micros(order.timeout + RUN_BEYOND)),
            // If one process of the unit takes too much memory, only that process is killed, and the command
            // sees this.
            ("OOMPolicy", text("continue")),
            ("CollectMode", text("inactive-or-failed")),
        ];
        // The result of the start says nothing about the run, which may already be over.
        bus.start_transient(&self.name, &properties, START_WITHIN).await.map(drop)
    }
}

fn stands(state: &UnitState) -> UnitStands {
    match state.active {
        Active::Active | Active::Activating | Active::Reloading => UnitStands::Runs,
        Active::Deactivating => UnitStands::Ends,
        Active::Inactive | Active::Failed => UnitStands::Gone,
    }
}
