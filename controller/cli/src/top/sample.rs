//! A site for tests of the state and of the view.

use serde_json::{Value, json};

use super::question::{Answers, Stacks};
use super::state::State;
use crate::output::read;

/// Two operations, one with a rollout, failed stacks, a full disk, 1,203 nodes of which one page is known.
pub fn site() -> State {
    let mut state = State::default();
    state.take(Ok(answers()));
    state
}

fn answers() -> Answers {
    let stack = |name: &str, status: &str, done: u64, total: u64| {
        json!({"name": name, "action": "UPDATE", "status": status, "updated_at": "2026-01-01T00:00:00Z",
            "progress": {"done": done, "total": total, "in_flight": 8, "failed": 1}})
    };
    let active = |name: &str, node: &str, phase: &str, seconds: u64| json!({"name": name, "node": node, "phase": phase, "phase_seconds": seconds});
    let mut fleet = stack("fleet", "IN_PROGRESS", 400, 1200);
    fleet["active"] = json!([
        active("motd[web-1]", "web-1", "running", 3),
        active("motd[web-7]", "web-7", "running", 95),
        active("motd[web-9]", "web-9", "node_away", 600),
    ]);
    fleet["rollouts"] = json!([{"resource": "motd", "state": "going", "stage": "batch", "total": 1200, "done": 400,
        "in_flight": 8, "failed": 1, "next_in": 5}]);
    let mut web = stack("web", "IN_PROGRESS", 3, 4);
    web["active"] = json!([active("net", "web-2", "running", 12)]);
    let node = |n: u64| {
        json!({"name": format!("n{n:04}"), "state": if n == 500 { "offline" } else { "online" },
            "last_seen": format!("2026-01-01T{:02}:00:00Z", if n == 500 { 1 } else { 12 })})
    };
    let list = |values: Vec<Value>| json!(values);
    Answers {
        status: read(&json!({"site": "9b3231f2ac", "role": "active", "epoch": 7,
            "link_problem": "cannot reach the broker at mq:8883: no answer", "agents": {"disk_full": 1}}))
        .unwrap(),
        nodes: read(&json!({"total": 1203, "online": 1200, "offline": 2, "disk_full": 1})).unwrap(),
        running: Stacks {
            rows: read(&list(vec![
                stack("fleet", "IN_PROGRESS", 400, 1200),
                stack("web", "IN_PROGRESS", 3, 4),
            ]))
            .unwrap(),
            has_more: false,
        },
        failed: Stacks { rows: read(&list(vec![stack("db", "FAILED", 1, 2)])).unwrap(), has_more: false },
        views: read(&list(vec![fleet, web])).unwrap(),
        page: read(&list((0..1000).map(node).collect())).unwrap(),
    }
}
