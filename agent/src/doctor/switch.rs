//! Open vSwitch: only where it is there, or something of this server's needs it.

use muster_host::net::{Network, chain};
use muster_shared::finding::Finding;

const CHECK: &str = "open_vswitch";
const REMEDY: &str =
    "systemctl status openvswitch-switch (or openvswitch); apt install openvswitch-switch if it is absent";

/// Whether this server needs the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    None,
    /// A bridge had flow rules, and may have none any more.
    FlowTable,
    /// A network document, or the settings.
    Document,
}

/// The facts that this check collects.
#[derive(Clone, Debug)]
struct Facts {
    need: Need,
    switch: Result<Option<muster_host::net::SwitchVersion>, String>,
}

pub async fn check(network: &Network, need: Need) -> Vec<Finding> {
    let switch = network.switch_version().await.map_err(|error| chain(&error));
    finding(&Facts { need, switch }).into_iter().collect()
}

fn finding(facts: &Facts) -> Option<Finding> {
    Some(match (&facts.switch, facts.need) {
        (Err(why), _) => Finding::error(CHECK, why.clone(), REMEDY),
        (Ok(None), Need::None) => return None,
        (Ok(None), Need::FlowTable) => {
            Finding::warning(CHECK, "it does not run, and a bridge of it had flow rules", REMEDY)
        }
        (Ok(None), Need::Document) => {
            Finding::error(CHECK, "it does not run, and this server's network needs it", REMEDY)
        }
        (Ok(Some(switch)), _) if !switch.is_current => Finding::error(
            CHECK,
            format!(
                "its database (version {}) answers, and the switch has not taken up the last change",
                switch.version
            ),
            "systemctl status ovs-vswitchd; the switch's log is /var/log/openvswitch/ovs-vswitchd.log",
        ),
        (Ok(Some(switch)), _) => Finding::ok(CHECK, format!("version {} runs", switch.version)),
    })
}

#[cfg(test)]
mod tests {
    use muster_host::net::SwitchVersion;
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn only_a_switch_that_is_here_or_needed_is_told() {
        use Severity::{Error, Ok, Warning};
        let runs = |is_current| Some(SwitchVersion { version: "3.1.0".into(), is_current });
        for (switch, need, wanted) in [
            (Result::Ok(None), Need::None, None),
            (Result::Ok(None), Need::FlowTable, Some((Warning, "had flow rules"))),
            (Result::Ok(None), Need::Document, Some((Error, "needs it"))),
            (Result::Ok(runs(true)), Need::None, Some((Ok, "version 3.1.0 runs"))),
            (Result::Ok(runs(false)), Need::None, Some((Error, "has not taken up"))),
            (Err("denied".into()), Need::None, Some((Error, "denied"))),
        ] {
            let facts = Facts { need, switch };
            match (finding(&facts), wanted) {
                (None, None) => {}
                (Some(finding), Some((state, words))) => {
                    assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
                }
                (other, _) => panic!("{facts:?}: {other:?}"),
            }
        }
    }
}
