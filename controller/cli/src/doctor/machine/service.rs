//! Whether systemd runs the controller, now and at the next boot.
//!
//! Absent: the agent's unit (`agent/src/doctor/service.rs`), which asks on the bus: a server may have no systemctl.

use std::collections::HashMap;
use std::path::Path;

use muster_shared::finding::Finding;

use super::program::ask;

const CHECK: &str = "service";
const UNIT: &str = "muster-controller.service";
const PROPERTIES: &str = "LoadState,ActiveState,Result,UnitFileState,NRestarts,NeedDaemonReload";
/// Restarts on its own since it was last started by hand: each start of a standby that lost the lease is one.
const RESTARTS_MAX: u32 = 3;

/// Nothing, where systemd is not there to say it. `answers`: a controller does.
pub async fn check(answers: bool) -> Option<Finding> {
    let property = format!("--property={PROPERTIES}");
    finding(&ask(Path::new("/usr/bin/systemctl"), &["show", UNIT, &property]).await?, answers)
}

fn finding(said: &str, answers: bool) -> Option<Finding> {
    let properties: HashMap<&str, &str> = said.lines().filter_map(|line| line.split_once('=')).collect();
    let property = |name: &str| properties.get(name).copied().unwrap_or_default();
    let log = format!("journalctl -u {UNIT} -n 20");
    let finding = match (property("LoadState"), property("ActiveState")) {
        ("", _) | (_, "") => return None,
        ("not-found", _) if answers => {
            Finding::ok(CHECK, format!("there is no {UNIT}; another program has to start the controller"))
        }
        ("not-found", _) => {
            let remedy = "install the package muster-controller: docs/install.md";
            Finding::warning(CHECK, format!("there is no {UNIT}"), remedy)
        }
        ("masked", _) => {
            Finding::error(CHECK, format!("{UNIT} is masked"), format!("systemctl unmask {UNIT}"))
        }
        (_, "failed") => Finding::error(
            CHECK,
            format!("{UNIT} has failed ({})", property("Result")),
            format!("'{log}' says why; then systemctl restart {UNIT}"),
        ),
        (_, "inactive" | "deactivating") if answers => Finding::warning(
            CHECK,
            format!("a controller answers, and {UNIT} is not what started it"),
            format!("end that controller, then systemctl enable --now {UNIT}"),
        ),
        (_, "inactive" | "deactivating") => {
            Finding::error(CHECK, format!("{UNIT} is not active"), format!("systemctl enable --now {UNIT}"))
        }
        (_, active) => {
            of_running(active, property("UnitFileState"), property("NRestarts"), property("NeedDaemonReload"))
        }
    };
    Some(finding)
}

fn of_running(active: &str, file: &str, restarts: &str, needs_reload: &str) -> Finding {
    if restarts.parse().is_ok_and(|restarts: u32| restarts > RESTARTS_MAX) {
        Finding::warning(
            CHECK,
            format!("{UNIT} was restarted {restarts} times because it ended"),
            format!("journalctl -u {UNIT} -p warning"),
        )
    } else if file == "disabled" {
        let found = format!("{UNIT} is {active} and does not start at boot");
        Finding::warning(CHECK, found, format!("systemctl enable {UNIT}"))
    } else if needs_reload == "yes" {
        let found = format!("the file of {UNIT} has changed since systemd read it");
        Finding::warning(CHECK, found, "systemctl daemon-reload")
    } else {
        Finding::ok(CHECK, format!("{UNIT} is {active} and {file}, restarted {restarts} times"))
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok, Warning};

    use super::*;

    #[test]
    fn each_state_of_the_unit_has_its_finding() {
        // LoadState, ActiveState, UnitFileState, NRestarts, NeedDaemonReload; whether a controller answers.
        for (unit, answers, state, words) in [
            ("loaded active enabled 0 no", true, Ok, "is active and enabled, restarted 0 times"),
            ("loaded activating enabled 1 no", false, Ok, "is activating and enabled, restarted 1 times"),
            ("loaded active enabled 4 no", true, Warning, "restarted 4 times because it ended"),
            ("loaded active disabled 0 no", true, Warning, "does not start at boot"),
            ("loaded active enabled 0 yes", true, Warning, "has changed since"),
            ("loaded failed enabled 5 no", false, Error, "has failed (exit-code)"),
            ("masked inactive masked 0 no", false, Error, "is masked"),
            ("loaded inactive disabled 0 no", false, Error, "is not active"),
            ("loaded inactive disabled 0 no", true, Warning, "is not what started it"),
            ("not-found inactive - 0 no", false, Warning, "there is no muster-controller.service"),
            ("not-found inactive - 0 no", true, Ok, "another program"),
        ] {
            let [load, active, file, restarts, reload] = unit.split(' ').collect::<Vec<_>>()[..] else {
                panic!()
            };
            let said = format!(
                "LoadState={load}\nActiveState={active}\nResult=exit-code\nUnitFileState={file}\nNRestarts={restarts}\nNeedDaemonReload={reload}\n"
            );
            let finding = finding(&said, answers).unwrap();
            assert!(finding.state == state && finding.found.contains(words), "{unit}: {finding:?}");
        }
        assert_eq!(finding("", true), None);
    }
}
