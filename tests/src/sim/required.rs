//! What must happen at least once in a thousand runs with heavy faults: what never happens is not tested.

use super::count::Counts;
use super::fault::Kind;

/// From so many runs on.
pub const SEEDS: u64 = 1000;

const STACKS: [&str; 34] = [
    "none -> CREATE IN_PROGRESS",
    "CREATE IN_PROGRESS -> CREATE COMPLETE",
    "CREATE IN_PROGRESS -> CREATE FAILED",
    "CREATE IN_PROGRESS -> UPDATE IN_PROGRESS",
    "CREATE IN_PROGRESS -> DELETE IN_PROGRESS",
    "CREATE IN_PROGRESS -> ROLLBACK IN_PROGRESS",
    "CREATE FAILED -> CREATE COMPLETE",
    "CREATE FAILED -> UPDATE IN_PROGRESS",
    "CREATE FAILED -> ROLLBACK IN_PROGRESS",
    "UPDATE IN_PROGRESS -> UPDATE COMPLETE",
    "UPDATE IN_PROGRESS -> UPDATE FAILED",
    "UPDATE IN_PROGRESS -> ROLLBACK IN_PROGRESS",
    "UPDATE IN_PROGRESS -> DELETE IN_PROGRESS",
    "UPDATE FAILED -> UPDATE COMPLETE",
    "UPDATE FAILED -> UPDATE IN_PROGRESS",
    "UPDATE FAILED -> ROLLBACK IN_PROGRESS",
    "UPDATE FAILED -> DELETE IN_PROGRESS",
    "UPDATE COMPLETE -> ROLLBACK IN_PROGRESS",
    "UPDATE COMPLETE -> CHECK IN_PROGRESS",
    "CHECK IN_PROGRESS -> CHECK COMPLETE",
    "CHECK IN_PROGRESS -> CHECK FAILED",
    "CHECK IN_PROGRESS -> UPDATE IN_PROGRESS",
    "CHECK FAILED -> UPDATE IN_PROGRESS",
    "ROLLBACK IN_PROGRESS -> ROLLBACK COMPLETE",
    "ROLLBACK IN_PROGRESS -> ROLLBACK FAILED",
    "ROLLBACK IN_PROGRESS -> UPDATE IN_PROGRESS",
    "ROLLBACK FAILED -> ROLLBACK COMPLETE",
    "ROLLBACK COMPLETE -> ROLLBACK IN_PROGRESS",
    "DELETE IN_PROGRESS -> DELETE FAILED",
    "DELETE IN_PROGRESS -> gone",
    "DELETE FAILED -> gone",
    "DELETE FAILED -> DELETE IN_PROGRESS",
    "DELETE FAILED -> UPDATE IN_PROGRESS",
    "DELETE FAILED -> ROLLBACK IN_PROGRESS",
];

const ROWS: [&str; 26] = [
    "none -> INIT INIT",
    "INIT INIT -> CREATE IN_PROGRESS",
    "INIT INIT -> CREATE IN_PROGRESS sent",
    "INIT INIT -> gone",
    "CREATE IN_PROGRESS -> CREATE IN_PROGRESS sent",
    "CREATE IN_PROGRESS sent -> CREATE COMPLETE",
    "CREATE IN_PROGRESS sent -> CREATE FAILED",
    "CREATE IN_PROGRESS sent -> CREATE IN_PROGRESS backoff",
    "CREATE IN_PROGRESS backoff -> CREATE IN_PROGRESS sent",
    "CREATE IN_PROGRESS backoff -> CREATE FAILED",
    "CREATE COMPLETE -> UPDATE IN_PROGRESS sent",
    "CREATE COMPLETE -> DELETE IN_PROGRESS sent",
    "CREATE COMPLETE -> CHECK IN_PROGRESS sent",
    "CREATE COMPLETE -> RETAIN IN_PROGRESS sent",
    "UPDATE IN_PROGRESS sent -> UPDATE COMPLETE",
    "UPDATE IN_PROGRESS sent -> UPDATE FAILED",
    "UPDATE IN_PROGRESS sent -> UPDATE IN_PROGRESS backoff",
    "UPDATE COMPLETE -> DELETE IN_PROGRESS sent",
    "CHECK IN_PROGRESS sent -> CHECK COMPLETE",
    "CHECK IN_PROGRESS sent -> CHECK FAILED",
    "DELETE IN_PROGRESS -> DELETE IN_PROGRESS sent",
    "DELETE IN_PROGRESS sent -> DELETE FAILED",
    "DELETE IN_PROGRESS sent -> DELETE IN_PROGRESS backoff",
    "DELETE IN_PROGRESS sent -> gone",
    "DELETE FAILED -> DELETE IN_PROGRESS sent",
    "RETAIN IN_PROGRESS sent -> gone",
];

const OPERATORS: [&str; 23] = [
    "create: taken",
    "create: refused",
    "create: no answer",
    "update: taken",
    "update: refused",
    "update: no answer",
    "delete: taken",
    "delete: refused",
    "delete: no answer",
    "rollback: taken",
    "rollback: refused",
    "rollback --to: taken",
    "rollback --to: refused",
    "cancel: taken",
    "cancel: refused",
    "check: taken",
    "check: refused",
    "unhealthy: taken",
    "unhealthy: refused",
    "clear-hook: taken",
    "clear-hook: refused",
    "revoke: taken",
    "remove: taken",
];

const AGENTS: [&str; 27] = [
    "agent looks",
    "agent says drifted",
    "agent says in sync",
    "agent says facts",
    "agent runs Create",
    "agent runs Update",
    "agent runs Delete",
    "agent checks",
    "agent captures",
    "agent captures what it takes over",
    "agent cancels",
    "agent guards",
    "agent asks for a confirmation",
    "agent puts back",
    "agent falls back",
    "server cut off",
    "agent warns",
    "agent writes an epoch",
    "agent has fetched",
    "agent says progress",
    "agent sends its ledger",
    "outcome done",
    "outcome failed",
    "outcome failed for good",
    "outcome withdrawn",
    "outcome superseded",
    "outcome differs",
];

/// What should have happened and never did.
pub fn missing(counts: &Counts) -> Vec<String> {
    let faults = Kind::ALL.iter().map(|kind| format!("fault {}", kind.name()));
    let stacks = STACKS.iter().map(|step| format!("stack {step}"));
    let rows = ROWS.iter().map(|step| format!("row {step}"));
    let operators = OPERATORS.iter().map(|deed| format!("operator {deed}"));
    let agents = AGENTS.iter().map(|what| (*what).to_owned());
    faults
        .chain(stacks)
        .chain(rows)
        .chain(operators)
        .chain(agents)
        .filter(|what| counts.of(what) == 0)
        .collect()
}
