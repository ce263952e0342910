//! The running agent: whether there is one, and how it stands with its controller.

use std::io;
use std::path::Path;

use muster_shared::finding::Finding;
use muster_shared::time::utc;

use super::recorded::Joined;
use crate::link_state::LinkState;
use crate::local_socket;

const CHECK: &str = "agent";

/// The facts that this check collects.
#[derive(Clone, Debug)]
enum Facts {
    /// Nothing runs with this state directory.
    NotRunning { joined: Joined },
    Running {
        process: u32,
        /// As the agent says it, or why it does not.
        link: Result<LinkState, String>,
    },
}

/// `holder` is the process that holds the lock of the state directory.
pub async fn check(state_dir: &Path, holder: Option<u32>, joined: Joined) -> Vec<Finding> {
    let facts = match holder {
        None => Facts::NotRunning { joined },
        Some(process) => {
            let link = local_socket::link_state(state_dir).await;
            Facts::Running { process, link: link.map_err(|error: io::Error| error.to_string()) }
        }
    };
    vec![finding(&facts, &state_dir.display().to_string())]
}

fn finding(facts: &Facts, state_dir: &str) -> Finding {
    match facts {
        Facts::NotRunning { joined: Joined::No } => {
            let remedy = "muster-agent join --token -, then 'systemctl enable --now muster-agent'";
            Finding::warning(CHECK, "no agent runs: this server has not joined", remedy)
        }
        Facts::NotRunning { joined: Joined::Unknown } => Finding::warning(
            CHECK,
            format!("whether an agent runs with {state_dir} cannot be seen"),
            "run this command as root",
        ),
        Facts::NotRunning { joined: Joined::Yes } => Finding::error(
            CHECK,
            format!("no agent runs with {state_dir}"),
            "systemctl start muster-agent; 'journalctl -u muster-agent -n 20' says why it ended",
        ),
        Facts::Running { process, link: Err(why) } => Finding::warning(
            CHECK,
            format!("process {process} runs and does not say how it stands with its controller: {why}"),
            "run this command as root; if it was upgraded since the agent started: systemctl restart muster-agent",
        ),
        Facts::Running { process, link: Ok(LinkState::Connected { remote, since, .. }) } => {
            Finding::ok(CHECK, format!("process {process} is connected to {remote} since {}", utc(*since)))
        }
        Facts::Running { process, link: Ok(LinkState::Connecting) } => Finding::warning(
            CHECK,
            format!("process {process} connects for the first time since it started"),
            "run this command again in a minute",
        ),
        Facts::Running { process, link: Ok(LinkState::Away { reason, since }) } => Finding::error(
            CHECK,
            format!("process {process} has no connection since {}: {reason}", utc(*since)),
            "mend what is wrong with the controller's addresses below; the agent connects again by itself",
        ),
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn each_state_of_the_agent_has_its_finding() {
        let running = |link| Facts::Running { process: 7, link };
        let connected = LinkState::Connected { remote: "10.0.0.1".into(), since: 60, greeted: true };
        let away = LinkState::Away { reason: "no answer".into(), since: 120 };
        for (facts, state, words) in [
            (Facts::NotRunning { joined: Joined::No }, Severity::Warning, "has not joined"),
            (Facts::NotRunning { joined: Joined::Unknown }, Severity::Warning, "cannot be seen"),
            (Facts::NotRunning { joined: Joined::Yes }, Severity::Error, "no agent runs with /s"),
            (running(Err("no answer".into())), Severity::Warning, "process 7 runs and does not say"),
            (running(Ok(LinkState::Connecting)), Severity::Warning, "for the first time"),
            (running(Ok(connected)), Severity::Ok, "connected to 10.0.0.1 since 1970-01-01 00:01 UTC"),
            (running(Ok(away)), Severity::Error, "no connection since 1970-01-01 00:02 UTC: no answer"),
        ] {
            let finding = finding(&facts, "/s");
            assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
        }
    }
}
