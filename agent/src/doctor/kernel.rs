//! The running kernel: what the agent needs of it, and whether its modules can still be loaded.
//!
//! A kernel that was upgraded without a reboot has often lost its modules: links of a kind that was not used before
//! cannot be made then.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_shared::finding::Finding;
use tokio::task::spawn_blocking;

const CHECK: &str = "kernel";
/// Modules of network documents, and the links that need them.
const MODULES: [(&str, &str); 3] = [("8021q", "VLANs"), ("bonding", "bonds"), ("bridge", "bridges")];
/// The lists of modules: a distribution's have less than 1 MiB.
const LIST_MAX: u64 = 16 * 1024 * 1024;

/// The facts that this check collects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    release: String,
    /// LLDP is heard through them.
    has_packet_sockets: bool,
    /// Files and directories are watched through it.
    has_inotify: bool,
    /// There is a directory of modules for this release.
    has_modules: bool,
    /// Modules that are neither loaded, built in nor in that directory.
    lacks: Vec<&'static str>,
}

pub async fn check() -> Vec<Finding> {
    match spawn_blocking(|| Facts::read(Path::new("/"))).await {
        Ok(facts) => vec![finding(&facts)],
        Err(error) => vec![Finding::warning(CHECK, error.to_string(), "uname -r")],
    }
}

impl Facts {
    fn read(root: &Path) -> Self {
        let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        let release = release.trim().to_owned();
        let modules = root.join("lib/modules").join(&release);
        let lists = ["modules.builtin", "modules.dep"].map(|list| text(&modules.join(list)));
        let is_there = |module: &str| {
            let file = format!("/{module}.ko");
            root.join("sys/module").join(module).exists() || lists.iter().any(|list| list.contains(&file))
        };
        Self {
            has_packet_sockets: root.join("proc/net/packet").exists(),
            has_inotify: root.join("proc/sys/fs/inotify").exists(),
            has_modules: !release.is_empty() && modules.is_dir(),
            lacks: MODULES.into_iter().map(|(module, _)| module).filter(|module| !is_there(module)).collect(),
            release,
        }
    }
}

fn text(path: &PathBuf) -> String {
    let mut text = String::new();
    // A list that is not there, or not whole, has no module.
    let _ = fs::File::open(path).and_then(|file| file.take(LIST_MAX).read_to_string(&mut text));
    text
}

fn finding(facts: &Facts) -> Finding {
    let Facts { release, has_packet_sockets, has_inotify, has_modules, lacks } = facts;
    if !has_inotify {
        let found = format!("Linux {release} has no inotify, by which the agent sees changes of files");
        return Finding::error(CHECK, found, "boot a kernel with CONFIG_INOTIFY_USER");
    }
    if !has_packet_sockets {
        let found = format!("Linux {release} has no packet sockets, through which neighbours are heard");
        return Finding::warning(CHECK, found, "modprobe af_packet");
    }
    let cannot = MODULES.iter().filter(|(module, _)| lacks.contains(module)).map(|(_, links)| *links);
    let cannot = cannot.collect::<Vec<_>>().join(", ");
    match (cannot.is_empty(), has_modules) {
        (true, _) => Finding::ok(CHECK, format!("Linux {release} has what the agent needs")),
        (false, false) => Finding::warning(
            CHECK,
            format!("there is no /lib/modules/{release}: {cannot} cannot be made unless they are built in"),
            "reboot into the kernel that is installed; in a container, load the modules on its host",
        ),
        (false, true) => Finding::warning(
            CHECK,
            format!("Linux {release} has no module {}, so {cannot} cannot be made", lacks.join(", ")),
            "install the kernel's further modules, such as linux-modules-extra or kernel-modules",
        ),
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_told_by_what_cannot_be_made() {
        let whole = || Facts {
            release: "6.1.0".into(),
            has_packet_sockets: true,
            has_inotify: true,
            has_modules: true,
            lacks: vec![],
        };
        for (facts, state, words) in [
            (whole(), Severity::Ok, "Linux 6.1.0 has what"),
            (Facts { has_modules: false, ..whole() }, Severity::Ok, "has what"),
            (
                Facts { has_modules: false, lacks: vec!["8021q", "bonding"], ..whole() },
                Severity::Warning,
                "no /lib/modules/6.1.0: VLANs, bonds cannot be made unless",
            ),
            (Facts { lacks: vec!["bridge"], ..whole() }, Severity::Warning, "no module bridge, so bridges"),
            (Facts { has_packet_sockets: false, ..whole() }, Severity::Warning, "no packet sockets"),
            (Facts { has_inotify: false, ..whole() }, Severity::Error, "no inotify"),
        ] {
            let finding = finding(&facts);
            assert!(finding.state == state && finding.found.contains(words), "{facts:?}: {finding:?}");
        }
    }

    #[test]
    fn a_module_is_loaded_built_in_or_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        put("proc/sys/kernel/osrelease", "6.1.0\n");
        let lacks = |root: &Path| Facts::read(root).lacks;
        assert_eq!(lacks(root.path()), ["8021q", "bonding", "bridge"]);
        assert!(!Facts::read(root.path()).has_modules);
        put("sys/module/bonding/refcnt", "0");
        put("lib/modules/6.1.0/modules.builtin", "kernel/net/bridge/bridge.ko\n");
        assert_eq!(lacks(root.path()), ["8021q"]);
        put("lib/modules/6.1.0/modules.dep", "kernel/net/8021q/8021q.ko.xz: kernel/net/802/mrp.ko.xz\n");
        assert!(lacks(root.path()).is_empty() && Facts::read(root.path()).has_modules);
    }
}
