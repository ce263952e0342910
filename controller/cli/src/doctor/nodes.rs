//! The nodes of a site: who is away, cannot work, has another version, a wrong clock or another's MAC address.

use std::collections::BTreeSet;

use muster_api::node::NodeView;
use muster_shared::finding::Finding;
use muster_shared::time::span;

use super::sample::Sample;
use crate::failure::Failure;
use crate::output::count;

/// The fleet, counted node by node: it is larger than what should be kept.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The controller's version.
    version: String,
    nodes: u64,
    offline: Sample,
    maintenance: Sample,
    conflict: Sample,
    disk_full: Sample,
    other_version: Sample,
    clocks: Sample,
    drifted: Sample,
    /// Each is told by all nodes that it is about.
    mac_conflicts: BTreeSet<String>,
}

impl Fleet {
    pub fn of_controller(version: &str) -> Self {
        Self { version: version.to_owned(), ..Self::default() }
    }

    pub fn add(&mut self, node: &NodeView) {
        let name = || node.name.clone();
        match node.state.as_str() {
            // They are none of the site's any more.
            "revoked" | "lost" => return,
            "offline" => self.offline.add(name()),
            "maintenance" => self.maintenance.add(name()),
            "conflict" => self.conflict.add(format!("{} ({})", node.name, node.conflict.join(", "))),
            "disk_full" => self.disk_full.add(name()),
            _ => {}
        }
        self.nodes += 1;
        if !node.agent_version.is_empty() && node.agent_version != self.version {
            self.other_version.add(format!("{} ({})", node.name, node.agent_version));
        }
        if let Some(ahead) = node.clock_off_s {
            let side = if ahead < 0 { "behind" } else { "ahead" };
            self.clocks.add(format!("{} ({} {side})", node.name, span(ahead.unsigned_abs())));
        }
        if node.drifted > 0 {
            self.drifted.add(name());
        }
        self.mac_conflicts.extend(node.mac_conflicts.iter().cloned());
    }

    /// `cut`: why not all nodes could be looked at.
    pub fn findings(&self, cut: Option<&Failure>) -> Vec<Finding> {
        let bad = [
            (
                &self.conflict,
                "in conflict: two agents run with one identity",
                "stop one of them, empty its state directory, and join it under its own name",
            ),
            (
                &self.disk_full,
                "without room for their agent's records",
                "free space there: 'muster-agent doctor' says where",
            ),
        ];
        let bad = bad.into_iter().filter(|(sample, ..)| !sample.is_empty());
        let bad =
            bad.map(|(sample, what, remedy)| Finding::error("nodes", self.of_all(sample, what), remedy));
        let mut findings: Vec<Finding> = bad.collect();
        if !self.offline.is_empty() {
            let remedy = "there: muster-agent doctor; muster node remove NODE for one that is gone for ever";
            // In a large fleet some server is always switched off.
            findings.push(Finding::warning("nodes", self.of_all(&self.offline, "offline"), remedy));
        }
        if findings.is_empty() {
            findings.push(Finding::ok("nodes", self.well()));
        }
        findings.extend(self.warnings());
        findings.extend(cut.map(|failure| {
            let found = format!("not all nodes were looked at: {}", failure.lines.join("; "));
            Finding::warning("nodes", found, "run this command again when the controller is less busy")
        }));
        findings
    }

    fn warnings(&self) -> Vec<Finding> {
        let other = format!("with another version than the controller ({})", self.version);
        let few = [
            (
                "agent_versions",
                &self.other_version,
                other.as_str(),
                "upgrade muster-agent there: docs/install.md",
            ),
            ("clocks", &self.clocks, "with a wrong clock", "there: chronyc makestep, or timedatectl"),
            ("drift", &self.drifted, "with resources that are not as they were made", "muster node drift"),
        ];
        let few = few.into_iter().filter(|(_, sample, ..)| !sample.is_empty());
        let few = few
            .map(|(check, sample, what, remedy)| Finding::warning(check, self.of_all(sample, what), remedy));
        let macs = self.mac_conflicts.iter().map(|claim| {
            Finding::warning("mac_addresses", claim.clone(), "give one of the interfaces another address")
        });
        few.chain(macs).collect()
    }

    fn of_all(&self, sample: &Sample, what: &str) -> String {
        let verb = if sample.count() == 1 { "is" } else { "are" };
        format!("{} of {} {verb} {what}: {}", sample.count(), count(self.nodes, "node"), sample.names())
    }

    fn well(&self) -> String {
        match (self.nodes, self.maintenance.count()) {
            (0, _) => "no node has joined".to_owned(),
            (nodes, 0) => format!("{} online", count(nodes, "node")),
            (nodes, _) => {
                format!("{}; in maintenance: {}", count(nodes, "node"), self.maintenance.names())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity::{Error, Ok, Warning};

    use super::*;

    fn node(name: &str, state: &str) -> NodeView {
        NodeView { name: name.into(), state: state.into(), agent_version: "1".into(), ..NodeView::default() }
    }

    #[test]
    fn each_fault_of_a_node_is_found() {
        let two = || vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        for (bad, check, state, words) in [
            (node("b", "online"), "nodes", Ok, "2 nodes online"),
            (node("b", "maintenance"), "nodes", Ok, "2 nodes; in maintenance: b"),
            (node("b", "revoked"), "nodes", Ok, "1 node online"),
            (node("b", "offline"), "nodes", Warning, "1 of 2 nodes is offline: b"),
            (node("b", "disk_full"), "nodes", Error, "without room for their agent's records: b"),
            (NodeView { conflict: two(), ..node("b", "conflict") }, "nodes", Error, "b (10.0.0.1, 10.0.0.2)"),
            (
                NodeView { agent_version: "0".into(), ..node("b", "online") },
                "agent_versions",
                Warning,
                "than the controller (1): b (0)",
            ),
            (
                NodeView { clock_off_s: Some(-7500), ..node("b", "online") },
                "clocks",
                Warning,
                "b (2 h 5 min behind)",
            ),
            (
                NodeView { clock_off_s: Some(600), ..node("b", "online") },
                "clocks",
                Warning,
                "b (10 min ahead)",
            ),
            (NodeView { drifted: 1, ..node("b", "online") }, "drift", Warning, "as they were made: b"),
            (
                NodeView { mac_conflicts: vec!["52:54 is claimed twice".into()], ..node("b", "online") },
                "mac_addresses",
                Warning,
                "claimed twice",
            ),
        ] {
            let mut fleet = Fleet::of_controller("1");
            fleet.add(&node("a", "online"));
            fleet.add(&bad);
            let findings = fleet.findings(None);
            let finding = findings.iter().find(|finding| finding.check == check).unwrap();
            assert!(finding.state == state && finding.found.contains(words), "{bad:?}: {finding:?}");
        }
        assert_eq!(Fleet::default().findings(None), [Finding::ok("nodes", "no node has joined")]);
    }

    #[test]
    fn a_list_that_was_cut_off_is_told() {
        let mut fleet = Fleet::of_controller("1");
        fleet.add(&node("a", "online"));
        let findings = fleet.findings(Some(&Failure::failed("too slow")));
        let last = findings.last().unwrap();
        assert!(last.state == Warning && last.found == "not all nodes were looked at: too slow", "{last:?}");
    }
}
