//! Network managers beside the agent, and whether they leave Muster's links alone.
//!
//! Absent: how they are told to (`agent/host/src/net/network_managers.rs`).

use muster_host::net::{Disputed, Network, chain};
use muster_shared::finding::Finding;
use muster_shared::model::network::{NetworkDocument, NicMapping};

const CHECK: &str = "network_managers";

pub async fn check(network: &Network, documents: &[(NetworkDocument, NicMapping)]) -> Vec<Finding> {
    let disputed = network.disputed(documents).await;
    findings(disputed.map_err(|error| chain(&error)))
}

fn findings(disputed: Result<Disputed, String>) -> Vec<Finding> {
    let Disputed { running, holders, refused } = match disputed {
        Ok(disputed) => disputed,
        Err(why) => {
            let found = format!("the links of this server cannot be listed: {why}");
            return vec![Finding::error(CHECK, found, "run this command as root")];
        }
    };
    let mut findings: Vec<Finding> = holders.iter().map(|(who, link)| held(who, link)).collect();
    findings.extend(refused.map(|why| Finding::warning(CHECK, why, "edit the file that is named")));
    if findings.is_empty() {
        findings.push(Finding::ok(
            CHECK,
            match running.as_slice() {
                [] => "no network manager runs here".to_owned(),
                running => format!("{} leaves the links of Muster alone", running.join(" and ")),
            },
        ));
    }
    findings
}

fn held(who: &str, link: &str) -> Finding {
    let reload = match who {
        "NetworkManager" => "nmcli general reload",
        _ => "networkctl reload",
    };
    Finding::warning(
        CHECK,
        format!("{who} configures {link}, which Muster configures as well"),
        format!("{reload}; if that does not help, update the stack: the agent tells {who} again"),
    )
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn managers_that_hold_a_link_are_named() {
        use Severity::{Error, Ok, Warning};
        let here = |running, holders| Disputed { running, holders, refused: None };
        let ifupdown =
            Disputed { refused: Some("eth1 is configured by ifupdown".into()), ..Disputed::default() };
        for (disputed, wanted) in [
            (Result::Ok(Disputed::default()), [(Ok, "no network manager runs")].as_slice()),
            (
                Result::Ok(here(vec!["systemd-networkd", "NetworkManager"], vec![])),
                &[(Ok, "systemd-networkd and NetworkManager leaves")],
            ),
            (
                Result::Ok(here(
                    vec!["systemd-networkd"],
                    vec![("systemd-networkd", "eth0".into()), ("systemd-networkd", "eth1".into())],
                )),
                &[(Warning, "systemd-networkd configures eth0"), (Warning, "configures eth1")],
            ),
            (Result::Ok(ifupdown), &[(Warning, "by ifupdown")]),
            (Err("denied".into()), &[(Error, "cannot be listed: denied")]),
        ] {
            let findings = findings(disputed);
            assert_eq!(findings.len(), wanted.len(), "{findings:?}");
            for (finding, (state, words)) in findings.iter().zip(wanted) {
                assert!(finding.state == *state && finding.found.contains(words), "{finding:?}");
            }
        }
    }
}
