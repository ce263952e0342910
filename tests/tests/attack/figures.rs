//! The time that honest work takes, and the memory that the controller holds.

use std::fs;
use std::time::{Duration, Instant};

use muster_tests::site::{Agent, Site};
use serde_json::json;

/// Honest updates in a row. The slowest of them is what is told.
const UPDATES: u32 = 20;
/// The most memory that an attack may add to the controller.
const MEMORY_MAX: u64 = 100 * 1024 * 1024;

/// Bytes that the controller holds in memory.
pub fn memory(site: &Site) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", site.controller.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A file of a server, changed again and again; the slowest change, from the wish to the file on its disk.
pub fn slowest_update(site: &Site, agent: &Agent, stack: &str) -> Duration {
    let mut slowest = Duration::ZERO;
    for number in 0..UPDATES {
        let (node, path) = (&agent.name, agent.file(stack));
        let template = site.file(&format!(
            "heat_template_version: 2018-08-31\nresources:\n  f: {{type: Muster::File, properties: {{node: {node}, path: {}, \
             content: 'number {number}'}}}}\n",
            path.display()
        ));
        let verb = if number == 0 { "create" } else { "update" };
        let begun = Instant::now();
        site.ok(&["stack", verb, stack, "-t", &template, "--wait"]);
        if number > 0 {
            slowest = slowest.max(begun.elapsed());
        }
        assert_eq!(agent.content(stack), Some(format!("number {number}")));
    }
    slowest
}

/// Begun before an attack; tells what it changed.
pub struct Measured {
    attack: &'static str,
    quiet: Duration,
    memory: u64,
}

impl Measured {
    pub fn begin(attack: &'static str, site: &Site, agent: &Agent) -> Self {
        Self { attack, quiet: slowest_update(site, agent, "quiet"), memory: memory(site) }
    }

    /// Prints the figures; what the attack added to the memory must be little.
    pub fn end(self, site: &Site, honest: Duration, sent: u64) {
        let (before, after) = (self.memory, memory(site));
        let line = json!({
            "bench": "attack", "attack": self.attack, "sent": sent,
            "quiet_ms": self.quiet.as_secs_f64() * 1e3, "honest_ms": honest.as_secs_f64() * 1e3,
            "rss_before": before, "rss_after": after,
        });
        println!("{line}");
        assert!(after < before + MEMORY_MAX, "{line}");
    }
}
