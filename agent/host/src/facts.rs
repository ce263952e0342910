//! What the server is: read from `/proc`, `/etc/os-release` and the kernel's links. What cannot be read is left empty.

use std::fs::read_to_string;

use muster_shared::model::Facts;
use muster_shared::wire::fit_facts;

use crate::net::{NetError, Network};

/// What stays the same while the agent runs.
#[derive(Clone, Debug, Default)]
pub struct Server {
    kernel: String,
    os: String,
    cpus: u32,
    memory: u64,
    booted_at: u64,
}

impl Server {
    /// Of this server.
    pub fn read() -> Self {
        let read = |path| read_to_string(path).unwrap_or_default();
        let (stat, os_release) = (read("/proc/stat"), read("/etc/os-release"));
        let os_release = if os_release.is_empty() { read("/usr/lib/os-release") } else { os_release };
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            os: pretty_name(&os_release),
            cpus: cpus(&stat),
            memory: number_after(&read("/proc/meminfo"), "MemTotal:").saturating_mul(1024),
            booted_at: number_after(&stat, "btime"),
        }
    }

    /// With its links as they are now, cut to what the wire takes.
    ///
    /// # Errors
    /// The kernel does not tell of its links.
    pub async fn facts(&self, network: &Network, agent_version: &str) -> Result<Facts, NetError> {
        let links = network.link_facts().await?;
        let mut facts = Facts {
            hostname: read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
            kernel: self.kernel.clone(),
            os: self.os.clone(),
            cpus: self.cpus,
            memory: self.memory,
            booted_at: self.booted_at,
            agent_version: agent_version.to_owned(),
            links_total: u32::try_from(links.len()).unwrap_or(u32::MAX),
            links,
        };
        fit_facts(&mut facts);
        Ok(facts)
    }
}

fn pretty_name(os_release: &str) -> String {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    value.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
}

/// Lines `cpu0`, `cpu1`, …: those that are online.
fn cpus(stat: &str) -> u32 {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    u32::try_from(stat.lines().filter(is_cpu).count()).unwrap_or(u32::MAX)
}

fn number_after(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_understood() {
        assert_eq!(
            pretty_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
        assert_eq!(pretty_name("PRETTY_NAME='Alpine'"), "Alpine");
        assert_eq!(pretty_name("ID=x"), "");
        assert_eq!(cpus("cpu  1 2\ncpu0 1\ncpu1 2\nintr 5\ncpufreq 3\n"), 2);
        assert_eq!(number_after("MemTotal:       2048 kB\nMemFree: 3 kB\n", "MemTotal:"), 2048);
        assert_eq!(number_after("nothing", "btime"), 0);
    }
}
