//! Events that must happen at least once in a thousand runs with heavy faults: what never happens is not tested.

use super::Parts;
use super::count::Counts;
use super::fault::Kind;

/// The number of runs from which on each event is required.
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

const OPERATORS: [&str; 26] = [
    "signal: taken",
    "signal: refused",
    "signal: no answer",
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

const AGENTS: [&str; 28] = [
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
    "agent restores",
    "agent falls back",
    "server cut off",
    "agent starts with a change that was not confirmed",
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

const FLOWS: [&str; 51] = [
    "entry none -> to be",
    "entry to be -> to go",
    "entry to be -> Failed",
    "entry to be -> Expired",
    "entry to be -> Wrong",
    "entry to be -> Again",
    "entry to go -> to be",
    "entry to go -> Failed",
    "entry to go -> Expired",
    "entry Failed -> to be",
    "entry Expired -> to be",
    "entry Expired -> to go",
    "entry Expired -> Gone",
    "entry Gone -> to go",
    "entry Again -> to be",
    "entry Again -> Wrong",
    "entry Wrong -> to be",
    "entry Wrong -> to go",
    "entry Wrong -> Again",
    "operation APPLY COMPLETE",
    "operation APPLY FAILED",
    "operation DELETE COMPLETE",
    "operation DELETE FAILED",
    "operation PURGE COMPLETE",
    "operation PURGE FAILED",
    "operation in a later stage",
    "compared: missing",
    "compared: ended",
    "compared: altered",
    "compared: extraneous",
    "ends by its timeout",
    "switch refuses for a reason",
    "cuts its server off",
    "host watches",
    "host leaves",
    "host appends",
    "host appends a guarded batch",
    "host applies",
    "host cancels",
    "host compares",
    "host repairs",
    "host is filled",
    "host compacts",
    "host decides well",
    "host decides against",
    "host records what ended",
    "host forgets",
    "host counts",
    "host tells what is foreign",
    "batch is fetched",
    "log is read with a batch that was not decided",
];

const FLOW_OPERATORS: [&str; 14] = [
    "apply: taken",
    "apply: refused",
    "apply: no answer",
    "delete: taken",
    "delete: refused",
    "delete: no answer",
    "purge: taken",
    "purge: refused",
    "purge: no answer",
    "purge --forget: taken",
    "purge --forget: refused",
    "reconcile: taken",
    "stats: taken",
    "foreign: taken",
];

const TREES: [&str; 32] = [
    "is laid out anew",
    "resource is not there",
    "value",
    "text",
    "text stays",
    "nested stack",
    "condition of another",
    "group",
    "group grows",
    "group shrinks",
    "group without members",
    "group in batches",
    "group of nested stacks",
    "group of ports",
    "group in a nested stack",
    "group in a nested stack, its count of another",
    "count",
    "count of another",
    "count of a parameter",
    "count of a value",
    "members are removed",
    "members are removed by what they stand for",
    "chain in turn",
    "chain at once",
    "types by names of the site's own",
    "port",
    "port stays",
    "no address is free",
    "port without a network",
    "address is another's",
    "address goes to the one that replaces it",
    "subnet still has ports",
];

const FLEETS: [&str; 14] = [
    "member begins",
    "member begins after its pair",
    "member begins behind a barrier",
    "member comes by a label",
    "member comes with its node",
    "member comes with a revision",
    "member comes during an operation",
    "member comes between two",
    "member goes by a label",
    "member goes with its node",
    "member goes with a revision",
    "member goes during an operation",
    "member goes between two",
    "stack is walked again",
];

const FLEET_OPERATORS: [&str; 2] = ["label: taken", "label: refused"];

const ROLLOUTS: [&str; 8] = [
    "member begins",
    "member begins, proven",
    "canary failed",
    "canary was disturbed",
    "aborted for its failures",
    "aborted by an operator",
    "ended",
    "goes on after a restart",
];

const ROLLOUT_OPERATORS: [&str; 8] = [
    "pause: taken",
    "pause: refused",
    "resume: taken",
    "resume: refused",
    "promote: taken",
    "promote: refused",
    "abort: taken",
    "abort: refused",
];

const SCRIPTS: [&str; 15] = [
    "begins Create",
    "begins Update",
    "begins Delete",
    "ends well",
    "ends badly",
    "takes too long",
    "is killed",
    "loses power",
    "runs again after an interruption",
    "that was interrupted fails",
    "is waited for by another agent",
    "is found to have ended",
    "has nothing to do",
    "config changes",
    "output is used",
];

const DRIFT: [&str; 27] = [
    "agent says missing",
    "operator update --converge: taken",
    "drift of Muster::File is to be corrected",
    "drift of Muster::File is corrected",
    "drift of Muster::Dummy is to be corrected",
    "drift of Muster::Dummy is corrected",
    "drift of Muster::NetworkConfig is corrected",
    "drift correction fails",
    "drift is restored by hand",
    "drift breaker opens",
    "drift breaker stays open over a restart",
    "drift breaker is closed by an operation",
    "drift is left to who fights",
    "drift is left and reported",
    "drift is left and ignored",
    "operator maintenance on: taken",
    "operator maintenance on: no answer",
    "operator maintenance off: taken",
    "operator maintenance off: no answer",
    "maintenance begins",
    "maintenance begins with work that waits",
    "maintenance begins with work that is out",
    "maintenance begins with drift",
    "maintenance ends",
    "maintenance ends with work that waits",
    "maintenance ends with work that is out",
    "maintenance ends with drift",
];

const WAITS: [&str; 8] = [
    "signal is new",
    "signal takes the place of another",
    "signal of failure",
    "wait COMPLETE",
    "wait fails",
    "wait is broken off",
    "wait times out",
    "wait goes on after a restart",
];

const INTENTS: [&str; 44] = [
    "none -> INSTALLING",
    "none -> FAILED",
    "INSTALLING -> INSTALLED",
    "INSTALLING -> WITHDRAWING",
    "INSTALLED -> REALLOCATING",
    "INSTALLED -> WITHDRAWING",
    "REALLOCATING -> INSTALLED",
    "REALLOCATING -> WITHDRAWING",
    "WITHDRAWING -> WITHDRAWN",
    "WITHDRAWING -> FAILED",
    "WITHDRAWING -> CORRUPT",
    "WITHDRAWING -> INSTALLING",
    "WITHDRAWING -> gone",
    "WITHDRAWN -> INSTALLING",
    "WITHDRAWN -> FAILED",
    "WITHDRAWN -> gone",
    "FAILED -> INSTALLING",
    "FAILED -> gone",
    "CORRUPT -> INSTALLING",
    "CORRUPT -> WITHDRAWING",
    "after a restart FAILED",
    "after a restart INSTALLING",
    "after a restart REALLOCATING",
    "after a restart WITHDRAWING",
    "after a restart CORRUPT",
    "has moved",
    "has moved off a port that went down",
    "has moved off a link that fell silent",
    "moves another way while it moves",
    "goes back",
    "of a stack INSTALLED",
    "point_to_point INSTALLED",
    "single_point_to_multi_point INSTALLED",
    "multi_point_to_single_point INSTALLED",
    "link_collection INSTALLED",
    "with bandwidth INSTALLED",
    "with waypoints INSTALLED",
    "with obstacles INSTALLED",
    "with encapsulation INSTALLED",
    "with protection INSTALLED",
    "with partial_failure INSTALLED",
    "with resource_group INSTALLED",
    "delivers",
    "is not INSTALLED without a cable",
];

const INTENT_OPERATORS: [&str; 11] = [
    "intent submit: taken",
    "intent submit: refused",
    "intent submit: no answer",
    "intent withdraw: taken",
    "intent withdraw: refused",
    "intent withdraw: no answer",
    "intent purge: taken",
    "intent purge: refused",
    "intent purge: no answer",
    "intent of a stack: refused",
    "rule of an intent: refused",
];

const CROWDS: [&str; 6] = [
    "makes a stack in the turn in which its name goes",
    "asks several things in one turn",
    "create: taken",
    "update: taken",
    "delete: taken",
    "delete: refused",
];

const HISTORIES: [&str; 16] = [
    "a second controller runs",
    "store is restored marked",
    "store is restored without a mark",
    "a restore without a mark is found out",
    "unknown is listed",
    "newer is listed",
    "deleted is listed",
    "table is listed",
    "unknown is decided: Adopt",
    "unknown is decided: Remove",
    "newer is decided: Adopt",
    "newer is decided: Remove",
    "deleted is decided: Adopt",
    "deleted is decided: Remove",
    "two agents with one identity are found",
    "a thing is lost again and again",
];

const LOADS: [&str; 5] = [
    "job waits in its lane for longer than its deadline",
    "a further attempt comes while one waits",
    "content takes ten deadlines",
    "job of an hour ends",
    "as many jobs with one server as there may be",
];

const ADOPTIONS: [&str; 4] = [
    "adoption finds what it wants",
    "adoption finds something else",
    "row ADOPT IN_PROGRESS sent -> ADOPT COMPLETE",
    "row ADOPT IN_PROGRESS sent -> ADOPT FAILED",
];

const CLOCKS: [&str; 2] = ["token counts", "token has expired"];

const BOUNDS: [&str; 2] = ["bounds as many COMPLETE revisions as are kept", "large turn is counted"];

const SEALS: [&str; 9] = [
    "refused repeated",
    "refused seal",
    "a greeting of before is answered",
    "a packet of another node comes",
    "the controller finds a gap",
    "the agent finds a gap",
    "a packet is missed, and none came after it",
    "a session follows the one before",
    "a session is whole, for the controller has nothing of the one before",
];

const SLICES: [&str; 2] = ["slices operation enters", "slices operation begins again"];

const STANDBYS: [&str; 13] = [
    "a controller that was replaced goes on",
    "a commit of a controller that was replaced is refused",
    "a message of a controller without the lease is held",
    "a lease that is not renewed is taken over",
    "a lease is taken back after a crash",
    "a lease is taken by its heir",
    "a lease that is free is taken",
    "a lease is another's by the time of the take",
    "a lease is asked for by a controller that more agents reach",
    "a renewal finds another holder",
    "a lease that was over is renewed",
    "agents are sent away, for the lease is over",
    "a controller stops between a commit and what leaves",
];

/// Returns the required events that never happened.
pub fn missing(counts: &Counts, parts: Parts) -> Vec<String> {
    // Some are asked for.
    let is_there = |kind: &&Kind| parts.history || !kind.goes_back();
    let faults = Kind::ALL.iter().filter(is_there).map(|kind| format!("fault {}", kind.name()));
    let stacks = STACKS.iter().map(|step| format!("stack {step}"));
    let rows = ROWS.iter().map(|step| format!("row {step}"));
    let operators = OPERATORS.iter().map(|deed| format!("operator {deed}"));
    let flows = FLOWS.iter().map(|what| format!("flow {what}"));
    let flow_operators = FLOW_OPERATORS.iter().map(|deed| format!("operator flow {deed}"));
    let trees = TREES.iter().map(|what| format!("tree {what}"));
    let fleets = FLEETS.iter().map(|what| format!("fleet {what}"));
    let fleet_operators = FLEET_OPERATORS.iter().map(|deed| format!("operator fleet {deed}"));
    let rollouts = ROLLOUTS.iter().map(|what| format!("rollout {what}"));
    let rollout_operators = ROLLOUT_OPERATORS.iter().map(|deed| format!("operator rollout {deed}"));
    let scripts = SCRIPTS.iter().map(|what| format!("script {what}"));
    let intents = INTENTS.iter().map(|what| format!("intent {what}"));
    let intent_operators = INTENT_OPERATORS.iter().map(|deed| format!("operator {deed}"));
    let crowds = CROWDS.iter().map(|what| format!("crowd {what}"));
    let histories = HISTORIES.iter().filter(|_| parts.history).map(|what| format!("history {what}"));
    let loads = LOADS.iter().map(|what| format!("load {what}"));
    let clocks = CLOCKS.iter().map(|what| format!("clocks {what}"));
    let bounds = BOUNDS.iter().map(|what| (*what).to_owned());
    let seals = SEALS.iter().map(|what| format!("seal {what}"));
    let standbys = STANDBYS.iter().map(|what| format!("standby {what}"));
    let slices = SLICES.iter().map(|what| (*what).to_owned());
    let agents = AGENTS.iter().map(|what| (*what).to_owned());
    let adoptions = ADOPTIONS.iter().map(|what| (*what).to_owned());
    faults
        .chain(stacks)
        .chain(rows)
        .chain(operators)
        .chain(agents)
        .chain(adoptions)
        .chain(crowds)
        .chain(histories)
        .chain(loads)
        .chain(clocks)
        .chain(bounds)
        .chain(slices)
        .chain(seals)
        .chain(standbys)
        .chain(flows)
        .chain(flow_operators)
        .chain(trees)
        .chain(fleets)
        .chain(fleet_operators)
        .chain(rollouts)
        .chain(rollout_operators)
        .chain(scripts)
        .chain(intents)
        .chain(intent_operators)
        .chain(DRIFT.iter().map(|what| (*what).to_owned()))
        .chain(WAITS.iter().map(|what| (*what).to_owned()))
        .filter(|what| counts.of(what) == 0)
        .collect()
}
