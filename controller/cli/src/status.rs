//! `muster status`: the site at a glance, and the warning that the controller cannot write.
//!
//! Absent: why it cannot write (`controller/src/driver/turn/read_only.rs`), and how agents are counted
//! (`controller/engine/src/view/site.rs`).

use std::fmt::Write as _;

use muster_api::site::{Role, StatusView};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, count, printable, read, view, word};
use crate::progress::note;

/// Does it.
pub async fn run(client: &mut Client, format: Format) -> Result<(), Failure> {
    view(format, &client.get(&path(["status"])).await?, shown)
}

/// Warns if the controller cannot write: then the list may be outdated. An unreachable controller has been
/// reported already.
pub async fn warn_if_read_only(client: &mut Client) {
    if let Ok(status) = client.get(&path(["status"])).await.and_then(|status| read::<StatusView>(&status))
        && let Some(why) = status.read_only
    {
        note(&format!("warning: {why}"));
    }
}

fn shown(status: &StatusView) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        writeln!(out, "{name:<12}{text}").expect("writing to a String does not fail");
    };
    line("site", word(&status.site));
    let (role, since, epoch) = (status.role.as_str(), word(&status.since), status.epoch.0);
    line("controller", format!("{role} since {since}, epoch {epoch}"));
    let has_others = status.controllers.len() > 1 || status.role == Role::Standby;
    for other in status.controllers.iter().filter(|_| has_others) {
        let (name, role) = (word(&other.name), other.role.as_str());
        match other.role {
            Role::Active => {
                let since = other.since.as_deref().map(|since| format!(" since {}", word(since)));
                line("", format!("{name} is {role}{}", since.unwrap_or_default()));
            }
            Role::Standby => line("", format!("{name} is {role}, {} s behind", other.behind_s)),
        }
    }
    for (at, site) in status.sites.iter().filter(|_| status.sites.len() > 1).enumerate() {
        let active = site
            .active
            .as_deref()
            .map_or("not active anywhere".to_owned(), |name| format!("active on {}", word(name)));
        line(if at == 0 { "sites" } else { "" }, format!("{} {active}", word(&site.name)));
    }
    if let Some(why) = &status.read_only {
        line("READ-ONLY", printable(why));
    }
    if let Some(why) = &status.lease_problem {
        line("LEASE", printable(why));
    }
    if status.restored {
        line("RESTORED", "the store is older than what agents hold: 'muster restore list'".to_owned());
    }
    line("store", word(&status.store));
    line("link", word(&status.link));
    if let Some(why) = &status.link_problem {
        line("NO LINK", printable(why));
    }
    // Agents and operators are the active one's.
    if status.role == Role::Standby {
        return out;
    }
    let agents = &status.agents;
    let others = [
        (agents.offline, "offline"),
        (agents.maintenance, "in maintenance"),
        (agents.conflict, "in conflict"),
        (agents.disk_full, "with a full disk"),
    ];
    let others = others.iter().filter(|(number, _)| *number > 0);
    let others = others.map(|(number, words)| format!(", {number} {words}"));
    line("agents", format!("{} online{}", agents.online, others.collect::<String>()));
    let waiting = &status.waiting;
    let waiting =
        [(waiting.restore, "unknown thing"), (waiting.hooks, "hook"), (waiting.approvals, "approval")];
    let waiting = waiting.iter().filter(|(number, _)| *number > 0);
    let waiting: Vec<String> = waiting.map(|(number, words)| count(*number, words)).collect();
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
            shown(&read(&status).unwrap()),
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
        status["lease_problem"] = json!("the lease cannot be seen: no room");
        status["restored"] = json!(true);
        status["link"] = json!("mqtts://mq:8883");
        status["link_problem"] = json!("cannot reach the broker at mq:8883: no answer");
        status["agents"] =
            json!({"online": 0, "offline": 2, "maintenance": 1, "conflict": 1, "disk_full": 3});
        status["waiting"] = json!({"restore": 1, "hooks": 2, "approvals": 0});
        assert_eq!(
            shown(&read(&status).unwrap()),
            "site        9b3231f2ac\n\
             controller  active since 2026-01-01T00:00:00Z, epoch 7\n\
             \u{20}           c1 is active\n\
             \u{20}           c2 is standby, 4 s behind\n\
             READ-ONLY   no room\\u{1b}\n\
             LEASE       the lease cannot be seen: no room\n\
             RESTORED    the store is older than what agents hold: 'muster restore list'\n\
             store       sqlite:/var/lib/muster/muster.db\n\
             link        mqtts://mq:8883\n\
             NO LINK     cannot reach the broker at mq:8883: no answer\n\
             agents      0 online, 2 offline, 1 in maintenance, 1 in conflict, 3 with a full disk\n\
             for you     1 unknown thing, 2 hooks\n"
        );
    }

    #[test]
    fn a_standby_says_since_when_another_one_is_active() {
        let mut status = json!({"site": "9b3231f2ac", "role": "standby", "since": "2026-01-02T00:00:00Z", "epoch": 7,
            "store": "postgres://db1/muster", "link": "direct",
            "controllers": [{"name": "c1", "role": "active", "since": "2026-01-01T00:00:00Z", "behind_s": 0},
                {"name": "c2", "role": "standby", "since": null, "behind_s": 4}]});
        let text = |active: &str| {
            format!(
                "site        9b3231f2ac\n\
                 controller  standby since 2026-01-02T00:00:00Z, epoch 7\n\
                 \u{20}           {active}\n\
                 \u{20}           c2 is standby, 4 s behind\n\
                 store       postgres://db1/muster\n\
                 link        direct\n"
            )
        };
        assert_eq!(shown(&read(&status).unwrap()), text("c1 is active since 2026-01-01T00:00:00Z"));
        // A controller of before does not say it.
        status["controllers"][0]["since"].take();
        assert_eq!(shown(&read(&status).unwrap()), text("c1 is active"));
    }
}
