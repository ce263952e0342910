//! A unit as systemd has it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zbus::OwnedVariant;

/// Properties by name; unknown types are skipped.
pub(super) type Properties = BTreeMap<String, OwnedVariant>;

/// The activity of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Active {
    /// The unit runs, or has done its work and stays active.
    Active,
    /// The unit runs and reads its configuration again.
    Reloading,
    /// Nothing runs.
    #[default]
    Inactive,
    /// Nothing runs, and that was not wanted.
    Failed,
    /// The unit starts, or waits for its next start.
    Activating,
    /// The unit stops.
    Deactivating,
}

/// A unit as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    /// `loaded`, `not-found`, `masked`, `bad-setting`, `error`.
    pub load: String,
    /// The error in the unit's files, in systemd's words.
    pub load_error: String,
    pub active: Active,
    /// The state in more detail, by the unit's kind: `running`, `exited`, `auto-restart`.
    pub sub: String,
    /// `enabled`, `disabled`, `static`, `masked`; empty if it has no file.
    pub file_state: String,
    pub fragment: Option<PathBuf>,
    pub drop_ins: Vec<PathBuf>,
    /// The files are newer than what systemd has read.
    pub needs_reload: bool,
    /// Changes with every start.
    pub invocation: Vec<u8>,
    /// systemd has a job for the unit.
    pub has_job: bool,
    /// A service: how its last run ended (`success`, `exit-code`, `signal`, `timeout`, `start-limit-hit`).
    pub result: String,
    /// A service: `simple`, `notify`, `oneshot` and so on.
    pub service_type: String,
    /// A service: its main process was started since systemd knows of it.
    pub has_run: bool,
    /// For a service: how often systemd restarted it on its own.
    pub restarts: u32,
    /// For a service: the main process; 0 if there is none.
    pub main_pid: u32,
    /// For a service's main process: `CLD_EXITED` (1), `CLD_KILLED` (2), `CLD_DUMPED` (3); 0 if it has
    /// not ended.
    pub exit_code: i32,
    /// A service's main process: its status, or the signal's number.
    pub exit_status: i32,
    /// A service: its control group, below the root of them; empty if nothing runs.
    pub control_group: String,
}

impl UnitState {
    /// The unit has a file, possibly a mask, or was made over D-Bus.
    pub fn is_there(&self) -> bool {
        self.load != "not-found"
    }

    pub(super) fn read(properties: &Properties) -> Self {
        let text = |name| text(properties, name);
        let job: Option<(u32, zbus::OwnedObjectPath)> = value(properties, "Job");
        let (_, load_error): (String, String) = value(properties, "LoadError").unwrap_or_default();
        Self {
            load: text("LoadState"),
            load_error,
            active: Active::read(&text("ActiveState")),
            sub: text("SubState"),
            file_state: text("UnitFileState"),
            fragment: Some(text("FragmentPath")).filter(|path| !path.is_empty()).map(PathBuf::from),
            drop_ins: value::<Vec<String>>(properties, "DropInPaths")
                .unwrap_or_default()
                .into_iter()
                .map(PathBuf::from)
                .collect(),
            needs_reload: value(properties, "NeedDaemonReload").unwrap_or_default(),
            invocation: value(properties, "InvocationID").unwrap_or_default(),
            has_job: job.is_some_and(|(number, _)| number != 0),
            ..Self::default()
        }
    }

    pub(super) fn read_service(&mut self, properties: &Properties) {
        self.result = text(properties, "Result");
        self.service_type = text(properties, "Type");
        self.has_run = value::<u64>(properties, "ExecMainStartTimestampMonotonic").is_some_and(|at| at != 0);
        self.restarts = value(properties, "NRestarts").unwrap_or_default();
        self.main_pid = value(properties, "MainPID").unwrap_or_default();
        self.exit_code = value(properties, "ExecMainCode").unwrap_or_default();
        self.exit_status = value(properties, "ExecMainStatus").unwrap_or_default();
        self.control_group = text(properties, "ControlGroup");
    }
}

impl Active {
    fn read(word: &str) -> Self {
        match word {
            "active" => Self::Active,
            "reloading" | "refreshing" => Self::Reloading,
            "failed" => Self::Failed,
            "activating" => Self::Activating,
            "deactivating" => Self::Deactivating,
            // Includes "maintenance".
            _ => Self::Inactive,
        }
    }
}

fn value<T: TryFrom<OwnedVariant>>(properties: &Properties, name: &str) -> Option<T> {
    properties.get(name)?.try_clone().ok()?.try_into().ok()
}

fn text(properties: &Properties, name: &str) -> String {
    value(properties, name).unwrap_or_default()
}
