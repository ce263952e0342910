//! systemd: whether it is the first process here, answers on its bus, and runs the agent, now and at the next boot.

use std::path::Path;
use std::time::Duration;

use muster_host::systemd::{Active, Systemd, SystemdError, UnitState};
use muster_shared::finding::Finding;
use tokio::time::timeout;

use super::recorded::Joined;
use crate::settings::AgentSection;

const UNIT: &str = "muster-agent.service";
const CHECK: &str = "service";
const BUS: &str = "dbus";
/// systemd answers in milliseconds, unless it reads all units again.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Restarts on its own since it was last started by hand: one may be an upgrade of a library, several are a fault.
const RESTARTS_MAX: u32 = 3;

/// The facts that this check collects.
#[derive(Clone, Debug)]
struct Facts {
    unit: Unit,
    /// A process holds the lock of the state directory.
    is_running: bool,
    joined: Joined,
}

#[derive(Clone, Debug)]
enum Unit {
    /// Another init is the first process.
    NoSystemd,
    NoBus(String),
    Silent(String),
    /// The unit is for another state directory than this one.
    Others,
    /// The unit of this state directory.
    Own(Box<UnitState>),
}

/// `holder` is the process that holds the lock of the state directory.
pub async fn check(systemd: &Systemd, state_dir: &Path, holder: Option<u32>, joined: Joined) -> Vec<Finding> {
    let asked = async { systemd.connect().await?.state(UNIT).await };
    let unit = match timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(state)) => {
            let is_ours = state_dir == AgentSection::default().state_dir
                || holder.is_some_and(|holder| holder == state.main_pid);
            if is_ours { Unit::Own(Box::new(state)) } else { Unit::Others }
        }
        Ok(Err(SystemdError::Absent)) => Unit::NoSystemd,
        Ok(Err(error @ SystemdError::NoBus { .. })) => Unit::NoBus(error.to_string()),
        Ok(Err(error)) => Unit::Silent(error.to_string()),
        Err(_) => Unit::Silent(format!("systemd does not answer within {} s", ANSWER_WITHIN.as_secs())),
    };
    findings(&Facts { unit, is_running: holder.is_some(), joined })
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let bus = || Finding::ok(BUS, "systemd answers on the bus");
    match &facts.unit {
        Unit::NoSystemd => {
            vec![Finding::ok(
                CHECK,
                "systemd is not the first process here; another program has to start the agent",
            )]
        }
        Unit::NoBus(why) => vec![Finding::warning(BUS, why.clone(), "apt install dbus, or dnf install dbus")],
        Unit::Silent(why) => {
            let remedy = "systemctl status dbus; systemctl list-jobs shows what systemd waits for";
            vec![Finding::error(BUS, why.clone(), remedy)]
        }
        Unit::Others => {
            let found = format!("{UNIT} is not what runs, or would run, with this state directory");
            vec![bus(), Finding::ok(CHECK, found)]
        }
        Unit::Own(unit) => vec![bus(), of_unit(unit, facts)],
    }
}

fn of_unit(unit: &UnitState, facts: &Facts) -> Finding {
    if !unit.is_there() {
        let remedy = "install the package muster-agent: docs/install.md";
        return Finding::warning(CHECK, format!("there is no {UNIT}"), remedy);
    }
    if unit.load == "masked" {
        return Finding::error(CHECK, format!("{UNIT} is masked"), format!("systemctl unmask {UNIT}"));
    }
    match unit.active {
        Active::Failed => Finding::error(
            CHECK,
            format!("{UNIT} has failed ({})", unit.result),
            format!("'journalctl -u {UNIT} -n 20' says why; then systemctl restart {UNIT}"),
        ),
        Active::Active | Active::Reloading | Active::Activating => of_running(unit),
        Active::Inactive | Active::Deactivating if facts.joined == Joined::No => {
            Finding::ok(CHECK, format!("{UNIT} waits for this server to join"))
        }
        Active::Inactive | Active::Deactivating if facts.is_running => Finding::warning(
            CHECK,
            format!("an agent runs, and {UNIT} is not what started it"),
            format!("end that agent, then systemctl enable --now {UNIT}"),
        ),
        Active::Inactive | Active::Deactivating => {
            Finding::error(CHECK, format!("{UNIT} is not active"), format!("systemctl enable --now {UNIT}"))
        }
    }
}

fn of_running(unit: &UnitState) -> Finding {
    let restarts = unit.restarts;
    if restarts > RESTARTS_MAX {
        Finding::warning(
            CHECK,
            format!("{UNIT} was restarted {restarts} times because it ended"),
            format!("journalctl -u {UNIT} | grep -i error"),
        )
    } else if unit.file_state == "disabled" {
        let found = format!("{UNIT} is active and does not start at boot");
        Finding::warning(CHECK, found, format!("systemctl enable {UNIT}"))
    } else if unit.needs_reload {
        Finding::warning(
            CHECK,
            format!("the file of {UNIT} has changed since systemd read it"),
            "systemctl daemon-reload",
        )
    } else {
        Finding::ok(CHECK, format!("{UNIT} is active and {}, restarted {restarts} times", unit.file_state))
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    fn unit(active: Active) -> UnitState {
        UnitState { load: "loaded".into(), active, file_state: "enabled".into(), ..UnitState::default() }
    }

    fn here(unit: UnitState) -> Unit {
        Unit::Own(Box::new(unit))
    }

    #[test]
    fn each_state_of_the_unit_has_its_finding() {
        use Severity::{Error, Ok, Warning};
        let active = || unit(Active::Active);
        let masked = UnitState { load: "masked".into(), ..unit(Active::Inactive) };
        let absent = UnitState { load: "not-found".into(), ..unit(Active::Inactive) };
        let failed = UnitState { result: "exit-code".into(), ..unit(Active::Failed) };
        let disabled = UnitState { file_state: "disabled".into(), ..active() };
        let (yes, no) = (Joined::Yes, Joined::No);
        // The unit; whether an agent runs, and the server has joined.
        for (unit, is_running, joined, state, words) in [
            (Unit::NoSystemd, true, yes, Ok, "not the first process"),
            (Unit::NoBus("there is no socket".into()), true, yes, Warning, "there is no socket"),
            (Unit::Silent("no answer".into()), true, yes, Error, "no answer"),
            (Unit::Others, true, yes, Ok, "is not what runs"),
            (here(active()), true, yes, Ok, "active and enabled, restarted 0 times"),
            (here(UnitState { restarts: 3, ..active() }), true, yes, Ok, "restarted 3 times"),
            (
                here(UnitState { restarts: 4, ..active() }),
                true,
                yes,
                Warning,
                "restarted 4 times because it ended",
            ),
            (here(disabled), true, yes, Warning, "does not start at boot"),
            (here(UnitState { needs_reload: true, ..active() }), true, yes, Warning, "has changed"),
            (here(failed), false, yes, Error, "has failed (exit-code)"),
            (here(masked), false, yes, Error, "is masked"),
            (here(absent), false, yes, Warning, "there is no muster-agent.service"),
            (here(unit(Active::Inactive)), false, yes, Error, "is not active"),
            (here(unit(Active::Inactive)), true, yes, Warning, "is not what started it"),
            (here(unit(Active::Inactive)), false, no, Ok, "waits for this server to join"),
        ] {
            let facts = Facts { unit, is_running, joined };
            let findings = findings(&facts);
            let finding = findings.last().unwrap();
            assert!(finding.state == state && finding.found.contains(words), "{facts:?}: {finding:?}");
        }
    }
}
