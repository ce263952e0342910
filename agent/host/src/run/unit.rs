//! The transient unit of a run: what systemd is told of it, and how it stands there.
//!
//! `KillMode=mixed`: the supervisor is asked to end first, for it knows what that means for the run; whatever is left of
//! the unit's processes when it has ended is killed.

use std::path::Path;
use std::time::Duration;

use super::record::Order;
use crate::systemd::{Active, Bus, Command, Property, Systemd, SystemdError, UnitState};

/// From the call to a running supervisor; a busy server takes seconds.
const START_WITHIN: Duration = Duration::from_secs(90);
/// More than the supervisor needs to end a run, and to kill what does not end.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// On top of the run's own time: the supervisor ends it long before, or waits for a disk.
const RUN_BEYOND: Duration = Duration::from_secs(600);

pub(super) struct Unit<'a> {
    pub(super) systemd: &'a Systemd,
    pub(super) name: String,
}

/// How a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitStands {
    /// There is no unit, or nothing of it runs.
    Gone,
    /// The supervisor is coming, or there.
    Runs,
    /// What is left is being killed.
    Ends,
}

impl Unit<'_> {
    pub(super) async fn stands(&self) -> Result<UnitStands, SystemdError> {
        Ok(stands(&self.systemd.connect().await?.state(&self.name).await?))
    }

    /// The supervisor has been started, or somebody did that already.
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
            // One process of it that takes too much memory is killed, and the command hears of that.
            ("OOMPolicy", text("continue")),
            ("CollectMode", text("inactive-or-failed")),
        ];
        // How the start ended says nothing of the run: it may be over already.
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
