//! `muster status`: the site at a glance.

use std::fmt::Write as _;

use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, cell, count, document, printable};
use crate::progress::note;

/// Agents' states, and how they are told.
const AGENTS: [(&str, &str); 5] = [
    ("online", "online"),
    ("offline", "offline"),
    ("maintenance", "in maintenance"),
    ("conflict", "in conflict"),
    ("disk_full", "with a full disk"),
];

/// Does it.
pub async fn run(client: &mut Client, format: Format) -> Result<(), Failure> {
    document(format, &client.get(&path(["status"])).await?, shown)
}

/// Says that nothing can be written, where that is so: what is listed may be older than what is. A controller that
/// cannot be asked has said so already.
pub async fn warn_if_read_only(client: &mut Client) {
    if let Ok(status) = client.get(&path(["status"])).await
        && let Some(why) = status["read_only"].as_str()
    {
        note(&format!("warning: {why}"));
    }
}

fn shown(status: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        writeln!(out, "{name:<12}{text}").expect("writing to a String does not fail");
    };
    let text = |key: &str| cell(&status[key]);
    line("site", text("site"));
    line("controller", format!("{} since {}, epoch {}", text("role"), text("since"), text("epoch")));
    for other in status["controllers"].as_array().into_iter().flatten().filter(|it| it["role"] != "active") {
        line(
            "",
            format!(
                "{} is {}, {} s behind",
                cell(&other["name"]),
                cell(&other["role"]),
                cell(&other["behind_s"])
            ),
        );
    }
    if let Some(why) = status["read_only"].as_str() {
        line("READ-ONLY", printable(why));
    }
    if status["restored"] == true {
        line("RESTORED", "the store is older than what agents hold: 'muster restore list'".to_owned());
    }
    line("store", text("store"));
    line("link", text("link"));
    let number = |of: &str, key: &str| status[of][key].as_u64().unwrap_or(0);
    let agents = AGENTS.iter().filter(|(key, _)| *key == "online" || number("agents", key) > 0);
    let agents: Vec<String> =
        agents.map(|(key, words)| format!("{} {words}", number("agents", key))).collect();
    line("agents", agents.join(", "));
    let waiting: Vec<String> = [("restore", "unknown thing"), ("hooks", "hook"), ("approvals", "approval")]
        .iter()
        .map(|(key, words)| (number("waiting", key), words))
        .filter(|(waiting, _)| *waiting > 0)
        .map(|(waiting, words)| count(waiting, words))
        .collect();
    line("for you", if waiting.is_empty() { "nothing".to_owned() } else { waiting.join(", ") });
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_site_at_a_glance() {
        let mut status = json!({"site": "9b3231f2ac", "role": "active", "since": "2026-01-01T00:00:00Z", "epoch": 7,
            "restored": false, "store": "sqlite:/var/lib/muster/muster.db", "link": "direct", "read_only": null,
            "controllers": [{"name": "c1", "role": "active", "behind_s": 0}],
            "agents": {"online": 3, "offline": 0, "maintenance": 0, "conflict": 0, "disk_full": 0},
            "waiting": {"restore": 0, "hooks": 0, "approvals": 0}});
        assert_eq!(
            shown(&status),
            "site        9b3231f2ac\n\
             controller  active since 2026-01-01T00:00:00Z, epoch 7\n\
             store       sqlite:/var/lib/muster/muster.db\n\
             link        direct\n\
             agents      3 online\n\
             for you     nothing\n"
        );
        status["controllers"] =
            json!([{"name": "c1", "role": "active"}, {"name": "c2", "role": "standby", "behind_s": 4}]);
        status["read_only"] = json!("no room\u{1b}");
        status["restored"] = json!(true);
        status["agents"] =
            json!({"online": 0, "offline": 2, "maintenance": 1, "conflict": 1, "disk_full": 3});
        status["waiting"] = json!({"restore": 1, "hooks": 2, "approvals": 0});
        assert_eq!(
            shown(&status),
            "site        9b3231f2ac\n\
             controller  active since 2026-01-01T00:00:00Z, epoch 7\n\
             \u{20}           c2 is standby, 4 s behind\n\
             READ-ONLY   no room\\u{1b}\n\
             RESTORED    the store is older than what agents hold: 'muster restore list'\n\
             store       sqlite:/var/lib/muster/muster.db\n\
             link        direct\n\
             agents      0 online, 2 offline, 1 in maintenance, 1 in conflict, 3 with a full disk\n\
             for you     1 unknown thing, 2 hooks\n"
        );
    }
}
