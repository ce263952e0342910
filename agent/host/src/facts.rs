//! The server's facts, from `/proc`, `/sys`, os-release and the kernel's links. Facts that cannot be read stay
//! empty.
//!
//! Absent: when they are sent (`agent/core/src/facts.rs`), and their names for operators
//! (`controller/template/src/fact.rs`).

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_shared::model::{DiskFacts, Facts, OsFacts};
use muster_shared::wire::fit_facts;

use crate::lldp::Listener;
use crate::net::{NetError, Network};

/// This server, with a listener at its ports.
#[derive(Debug)]
pub struct Server {
    root: PathBuf,
    listener: Arc<Listener>,
}

impl Default for Server {
    fn default() -> Self {
        Self { root: PathBuf::from("/"), listener: Arc::default() }
    }
}

impl Server {
    /// The present facts, cut to the limits of the wire format, and warnings for the log about facts that
    /// could not be read. From the first call on, the ports are listened to. Needs a tokio runtime.
    ///
    /// # Errors
    /// The kernel does not list its links.
    pub async fn facts(
        &self,
        network: &Network,
        agent_version: &str,
    ) -> Result<(Facts, Vec<String>), NetError> {
        let mut links = network.link_facts().await?;
        let warnings = self.listener.follow(&mut links);
        let mut links: Vec<_> = links.into_values().collect();
        links.sort_by(|a, b| (!a.kind.is_empty(), &a.name).cmp(&(!b.kind.is_empty(), &b.name)));
        let mut facts = Facts {
            agent_version: agent_version.to_owned(),
            links_total: u32::try_from(links.len()).unwrap_or(u32::MAX),
            links,
            ..system(&self.root)
        };
        fit_facts(&mut facts);
        Ok((facts, warnings))
    }

    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Returns once a neighbour came, went or changed since the last call. Dropping the future loses nothing.
    pub async fn neighbours_changed(&self) {
        self.listener.changed().await;
    }
}

/// The facts except the network's.
fn system(root: &Path) -> Facts {
    let read = |path: &str| read_to_string(root.join(path)).unwrap_or_default();
    let (stat, os_release) = (read("proc/stat"), read("etc/os-release"));
    let os_release = if os_release.is_empty() { read("usr/lib/os-release") } else { os_release };
    let of_os = |key: &str| {
        let value = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
    };
    Facts {
        hostname: read("proc/sys/kernel/hostname").trim().to_owned(),
        kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
        os: OsFacts { id: of_os("ID"), version: of_os("VERSION_ID"), name: of_os("PRETTY_NAME") },
        architecture: std::env::consts::ARCH.to_owned(),
        cpus: cpus(&stat),
        cpu_model: cpu_model(&read("proc/cpuinfo")),
        memory: number_after(&read("proc/meminfo"), "MemTotal:").saturating_mul(1024),
        booted_at: number_after(&stat, "btime"),
        disks: disks(&root.join("sys/block")),
        ..Facts::default()
    }
}

/// The number of lines `cpu0`, `cpu1`, …: the processors that are online.
fn cpus(stat: &str) -> u32 {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    u32::try_from(stat.lines().filter(is_cpu).count()).unwrap_or(u32::MAX)
}

fn cpu_model(cpuinfo: &str) -> String {
    let value = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim())
    });
    value.unwrap_or_default().to_owned()
}

fn number_after(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Disks with a device and a medium: no loop devices, no memory, no disks made of disks, no empty drives.
fn disks(block: &Path) -> Vec<DiskFacts> {
    let Ok(entries) = read_dir(block) else { return Vec::new() };
    let mut disks: Vec<DiskFacts> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let read = |file: &str| read_to_string(path.join(file)).unwrap_or_default().trim().to_owned();
            // The kernel counts in sectors of 512 bytes, whatever the disk's own sectors are.
            let size = read("size").parse::<u64>().ok().filter(|sectors| *sectors > 0)?.saturating_mul(512);
            path.join("device").exists().then(|| DiskFacts {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                size,
                model: read("device/model"),
                rotational: read("queue/rotational") == "1",
            })
        })
        .collect();
    disks.sort_by(|a, b| a.name.cmp(&b.name));
    disks
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_the_system_are_understood() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        put("etc/os-release", "PRETTY_NAME='Debian GNU/Linux 12'\nID=debian\nVERSION_ID=\"12\"\nID_LIKE=x\n");
        put("proc/stat", "cpu  1 2\ncpu0 1\ncpu1 2\nintr 5\ncpufreq 3\nbtime 1700000000\n");
        put("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 3 kB\n");
        put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 7\nmodel name\t: EPYC 7\nmodel name\t: other\n");
        put("proc/sys/kernel/hostname", "web-1\n");
        put("proc/sys/kernel/osrelease", "6.1.0\n");
        for (name, size, device) in [("sda", "4096", true), ("loop0", "8", false), ("sr0", "0", true)] {
            put(&format!("sys/block/{name}/size"), size);
            put(&format!("sys/block/{name}/queue/rotational"), "1\n");
            if device {
                put(&format!("sys/block/{name}/device/model"), "DISK 1   \n");
            }
        }
        let disk = DiskFacts { name: "sda".into(), size: 2 << 20, model: "DISK 1".into(), rotational: true };
        let wanted = Facts {
            hostname: "web-1".into(),
            kernel: "6.1.0".into(),
            os: OsFacts { id: "debian".into(), version: "12".into(), name: "Debian GNU/Linux 12".into() },
            architecture: std::env::consts::ARCH.into(),
            cpus: 2,
            cpu_model: "EPYC 7".into(),
            memory: 2 << 20,
            booted_at: 1_700_000_000,
            disks: vec![disk],
            ..Facts::default()
        };
        assert_eq!(system(root.path()), wanted);
        let nothing = Facts { architecture: std::env::consts::ARCH.into(), ..Facts::default() };
        assert_eq!(system(&root.path().join("nowhere")), nothing);
    }
}
