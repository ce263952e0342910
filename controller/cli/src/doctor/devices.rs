//! Switches that are away from nodes that are there, and rules that switches refused.

use muster_api::flow::DeviceView;
use muster_shared::finding::Finding;

use super::sample::{Counted, Sample, findings};
use crate::failure::Failure;

/// Counted device by device.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    devices: u64,
    absent: Sample,
    refused: Sample,
}

impl Switches {
    pub fn add(&mut self, device: &DeviceView) {
        self.devices += 1;
        // A node that is away is a finding of its own.
        if device.node_state == "online" && device.switch == "absent" {
            self.absent.add(&*device.device);
        }
        if device.failed > 0 {
            self.refused.add(format!("{} ({})", device.device, device.failed));
        }
    }

    /// None for a site without flow tables. `cut`: why not all devices could be looked at.
    pub fn findings(&self, cut: Option<&Failure>) -> Vec<Finding> {
        let bad = [
            (
                &self.absent,
                "without its switch",
                "there: muster-agent doctor, systemctl status openvswitch-switch (or openvswitch); \
                 ovs-vsctl list-br shows bridges",
            ),
            (
                &self.refused,
                "with FAILED rules",
                "muster flow list DEVICE --state failed; muster flow show DEVICE ID has the reason",
            ),
        ];
        let good = "no switch is away, no rule has failed";
        findings(&Counted { check: "devices", of: ("device", self.devices), bad: &bad, good }, cut)
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Ok, Warning};

    use super::*;

    fn device(name: &str, node_state: &str, switch: &str, failed: u64) -> DeviceView {
        let (device, node_state, switch) = (name.to_owned(), node_state.to_owned(), switch.to_owned());
        DeviceView { device, node_state, switch, failed, ..DeviceView::default() }
    }

    #[test]
    fn each_fault_of_a_device_is_found() {
        for (bad, state, words) in [
            (device("b/br0", "online", "watched", 0), Ok, "2 devices; no switch is away, no rule has failed"),
            (device("b/br0", "online", "absent", 0), Warning, "1 of 2 devices is without its switch: b/br0"),
            (device("b/br0", "offline", "absent", 0), Ok, "2 devices"),
            (
                device("b/br0", "online", "watched", 3),
                Warning,
                "1 of 2 devices is with FAILED rules: b/br0 (3)",
            ),
        ] {
            let mut switches = Switches::default();
            switches.add(&device("a/br0", "online", "watched", 0));
            switches.add(&bad);
            let found = switches.findings(None);
            let [finding] = &found[..] else { panic!("{found:?}") };
            assert_eq!((finding.check, finding.state), ("devices", state));
            assert!(finding.found.starts_with(words), "{}", finding.found);
        }
        assert_eq!(Switches::default().findings(None), []);
        let found = Switches::default().findings(Some(&Failure::failed("too slow")));
        assert_eq!(found[0].found, "not all devices were looked at: too slow");
    }
}
