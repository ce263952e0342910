//! The network managers of this server: systemd-networkd, NetworkManager, ifupdown.
//!
//! A drop-in for each running manager tells it to leave alone a link that a document names. The agent writes
//! the drop-in before the first change, and removes it when the link is restored. netplan only writes files
//! for the first two managers, and ours take precedence over them. ifupdown has no drop-ins: the agent
//! refuses a link that ifupdown brings up, and names file and line.
//!
//! A link for which systemd-networkd leases addresses has another drop-in (`leasing`); which client leases them is
//! decided in `dhcp.rs`.
//!
//! Managers configure the links of their own network namespace: an agent in another one has none. Absent:
//! configuration for the managers themselves, which `export.rs` writes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::dhcp::ClientSettings;

/// A manager answers a reload in milliseconds.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks whether a manager still configures a link.
const LOOK: Duration = Duration::from_millis(50);
/// A line of ifupdown's files, and all of them: an operator wrote them by hand.
const INTERFACES_MAX: u64 = 1024 * 1024;
const HEAD: &str =
    "# Written by muster-agent: this link is configured by a network document. Goes with it.\n";

/// The network managers that may configure links of this namespace.
#[derive(Clone, Debug)]
pub struct NetworkManagers {
    root: PathBuf,
    /// The folder of `networkctl` and `nmcli`; empty: from `PATH`, as outside of tests.
    programs: PathBuf,
}

/// The reason why a network manager does not release a link.
#[derive(Debug, Error)]
pub enum NetworkManagerError {
    /// ifupdown would configure the link at every boot.
    #[error(
        "{link} is configured by ifupdown ({}:{line}): take it out there, or make it 'iface {link} inet manual', then \
         try again", file.display()
    )]
    Ifupdown {
        link: String,
        /// The file that configures the link.
        file: PathBuf,
        line: usize,
    },
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The manager did not take the reload.
    #[error("cannot tell {who}: {why}")]
    Told { who: &'static str, why: String },
    /// The manager reloaded and still configures the link.
    #[error("{who} still manages {link} {} s after it was told to leave it alone", TOLD_WITHIN.as_secs())]
    Holds { who: &'static str, link: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ManagerKind {
    Networkd,
    NetworkManager,
}

/// systemd-networkd's files for its links, by the link's number.
const NETWORKD_LINKS: &str = "run/systemd/netif/links";
/// A file for each lease of IPv4, by the link's number.
const NETWORKD_LEASES: &str = "run/systemd/netif/leases";

impl ManagerKind {
    const ALL: [Self; 2] = [Self::Networkd, Self::NetworkManager];

    fn name(self) -> &'static str {
        match self {
            Self::Networkd => "systemd-networkd",
            Self::NetworkManager => "NetworkManager",
        }
    }

    /// A path that exists only while the manager's unit is active. The manager's own directories outlast it.
    fn runs(self) -> &'static str {
        match self {
            Self::Networkd => "run/systemd/units/invocation:systemd-networkd.service",
            Self::NetworkManager => "run/systemd/units/invocation:NetworkManager.service",
        }
    }

    fn drop_in(self, link: &str) -> String {
        match self {
            // The first matching file counts, and netplan's begin with 10.
            Self::Networkd => format!("etc/systemd/network/00-muster-{link}.network"),
            Self::NetworkManager => format!("etc/NetworkManager/conf.d/90-muster-{link}.conf"),
        }
    }

    fn content(self, link: &str) -> String {
        match self {
            Self::Networkd => format!("{HEAD}[Match]\nName={link}\n\n[Link]\nUnmanaged=yes\n"),
            Self::NetworkManager => {
                format!("{HEAD}[keyfile]\nunmanaged-devices+=interface-name:={link}\n")
            }
        }
    }

    fn reload(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Networkd => ("networkctl", ["--no-pager", "reload"]),
            Self::NetworkManager => ("nmcli", ["general", "reload"]),
        }
    }
}

impl NetworkManagers {
    /// The managers of the system below `root`, or of this one; `None` in a network namespace that is not
    /// that of the system's init.
    pub fn new(root: Option<PathBuf>) -> Option<Self> {
        match root {
            Some(root) => Some(Self { programs: root.join("usr/bin"), root }),
            None => is_namespace_of_init().then(|| Self { root: "/".into(), programs: PathBuf::new() }),
        }
    }

    /// Links with a drop-in of Muster's.
    pub fn told(&self) -> Vec<String> {
        let mut links: Vec<String> = ManagerKind::ALL
            .into_iter()
            .flat_map(|who| {
                let pattern = who.drop_in("\n");
                let (folder, file) = pattern.rsplit_once('/').unwrap_or_default();
                let (prefix, suffix) = file.split_once('\n').unwrap_or_default();
                let names = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
                let names = names.filter_map(|entry| entry.file_name().into_string().ok());
                let of_ours =
                    |name: String| Some(name.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned());
                names.filter_map(of_ours).collect::<Vec<_>>()
            })
            .collect();
        links.sort();
        links.dedup();
        links
    }

    /// The names of the managers that run.
    pub fn running(&self) -> Vec<&'static str> {
        ManagerKind::ALL.into_iter().filter(|who| self.is_here(*who)).map(ManagerKind::name).collect()
    }

    /// The running managers that still configure these links (by the kernel's number), each with its link. A link for which
    /// systemd-networkd leases addresses is not among them.
    pub async fn managing(&self, links: &BTreeMap<u32, String>) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for who in ManagerKind::ALL.into_iter().filter(|who| self.is_here(*who)) {
            for (index, link) in links {
                let leases =
                    fs::read_to_string(self.path(who, link)).is_ok_and(|text| text != who.content(link));
                if !leases && self.manages(who, link, *index).await {
                    found.push((who.name(), link.clone()));
                }
            }
        }
        found
    }

    /// The lines of [`NetworkManagers::leave_alone`] for each manager and link.
    pub fn would_tell(&self, links: &[&str]) -> Vec<String> {
        let present = ManagerKind::ALL.into_iter().filter(|who| self.is_here(*who));
        let text = |who: ManagerKind, link: &str| format!("tell {} to leave {link} alone", who.name());
        let of_who = |who| {
            links.iter().filter(move |link| !self.path(who, link).exists()).map(move |link| text(who, link))
        };
        present.flat_map(of_who).collect()
    }

    /// # Errors
    /// ifupdown configures one of the links.
    pub fn check(&self, links: &[&str]) -> Result<(), NetworkManagerError> {
        // Without the program, nothing reads its files.
        if !["sbin/ifup", "usr/sbin/ifup"].iter().any(|program| self.root.join(program).exists()) {
            return Ok(());
        }
        let found = ifupdown(&self.root);
        match links.iter().find_map(|link| found.get(*link).map(|at| (*link, at))) {
            None => Ok(()),
            Some((link, (file, line))) => {
                Err(NetworkManagerError::Ifupdown { link: link.to_owned(), file: file.clone(), line: *line })
            }
        }
    }

    /// Tells the running managers to leave these links alone (name → the kernel's index, if the link exists),
    /// and waits until they do. Returns whether a manager had to be told.
    ///
    /// # Errors
    /// A manager does not comply; the drop-ins are removed again.
    pub async fn leave_alone(
        &self,
        links: &BTreeMap<&str, Option<u32>>,
    ) -> Result<bool, NetworkManagerError> {
        let mut was_told = false;
        for who in ManagerKind::ALL.into_iter().filter(|who| self.is_here(*who)) {
            let new: Vec<&str> =
                links.keys().copied().filter(|link| !self.path(who, link).exists()).collect();
            if new.is_empty() {
                continue;
            }
            was_told = true;
            if let Err(error) = self.tell(who, &new, links).await {
                new.iter().for_each(|link| drop(fs::remove_file(self.path(who, link))));
                // The manager may refuse this reload as well.
                let _ = self.reload(who).await;
                return Err(error);
            }
        }
        Ok(was_told)
    }

    async fn tell(
        &self,
        who: ManagerKind,
        new: &[&str],
        links: &BTreeMap<&str, Option<u32>>,
    ) -> Result<(), NetworkManagerError> {
        for link in new {
            self.write_drop_in(who, link, &who.content(link))?;
        }
        self.reload(who).await?;
        let deadline = Instant::now() + TOLD_WITHIN;
        for link in new {
            let Some(index) = links.get(link).copied().flatten() else { continue };
            while self.manages(who, link, index).await {
                if Instant::now() >= deadline {
                    return Err(NetworkManagerError::Holds { who: who.name(), link: (*link).to_owned() });
                }
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Leaves these links to the managers again.
    ///
    /// # Errors
    /// A manager did not take the reload. Managers that start later read the files.
    pub async fn give_back<'a>(
        &self,
        links: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), NetworkManagerError> {
        let links: Vec<&str> = links.into_iter().collect();
        for who in ManagerKind::ALL {
            let mut went = false;
            for link in &links {
                went |= self.remove(who, link)?;
            }
            if went && self.is_here(who) {
                self.reload(who).await?;
            }
        }
        Ok(())
    }

    /// Removes the drop-ins of these links without telling the managers, which may use the links from the
    /// next boot on.
    ///
    /// # Errors
    /// A drop-in is still there.
    pub fn forget<'a>(&self, links: impl IntoIterator<Item = &'a str>) -> Result<(), NetworkManagerError> {
        links.into_iter().try_for_each(|link| {
            ManagerKind::ALL.into_iter().try_for_each(|who| self.remove(who, link).map(drop))
        })
    }

    /// Whether systemd-networkd runs, and could lease addresses.
    pub(super) fn has_networkd(&self) -> bool {
        self.is_here(ManagerKind::Networkd)
    }

    /// Makes systemd-networkd lease addresses for the link, and keep its present leases.
    pub(super) async fn lease(&self, link: &str, told: &ClientSettings) -> Result<(), NetworkManagerError> {
        self.write_drop_in(ManagerKind::Networkd, link, &leasing(link, told))?;
        self.reload(ManagerKind::Networkd).await
    }

    /// Has it leave the link alone again.
    pub(super) async fn end_lease(&self, link: &str) -> Result<(), NetworkManagerError> {
        self.write_drop_in(ManagerKind::Networkd, link, &ManagerKind::Networkd.content(link))?;
        if self.is_here(ManagerKind::Networkd) { self.reload(ManagerKind::Networkd).await } else { Ok(()) }
    }

    /// Whether the manager runs and has these settings for the link.
    pub(super) fn leases(&self, link: &str, told: &ClientSettings) -> bool {
        let now = fs::read_to_string(self.path(ManagerKind::Networkd, link)).unwrap_or_default();
        self.is_here(ManagerKind::Networkd) && now == leasing(link, told)
    }

    /// The IPv4 address that systemd-networkd has leased for the link of that number.
    pub(super) fn leased(&self, index: u32) -> Option<IpAddr> {
        let lease = fs::read_to_string(self.root.join(NETWORKD_LEASES).join(index.to_string())).ok()?;
        lease.lines().find_map(|line| line.strip_prefix("ADDRESS=")?.parse().ok())
    }

    /// A path of that system.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write_drop_in(&self, who: ManagerKind, link: &str, content: &str) -> Result<(), NetworkManagerError> {
        let path = self.path(who, link);
        write(&path, content).map_err(|source| NetworkManagerError::File { path, source })
    }

    fn remove(&self, who: ManagerKind, link: &str) -> Result<bool, NetworkManagerError> {
        let path = self.path(who, link);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(NetworkManagerError::File { path, source }),
        }
    }

    fn is_here(&self, who: ManagerKind) -> bool {
        // The path is a symbolic link without an existing target.
        self.root.join(who.runs()).symlink_metadata().is_ok()
    }

    fn path(&self, who: ManagerKind, link: &str) -> PathBuf {
        self.root.join(who.drop_in(link))
    }

    async fn manages(&self, who: ManagerKind, link: &str, index: u32) -> bool {
        match who {
            ManagerKind::Networkd => {
                let state = self.root.join(NETWORKD_LINKS).join(index.to_string());
                let state = fs::read_to_string(state).unwrap_or_default();
                let of = |key: &str| state.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
                of("ADMIN_STATE=").is_some_and(|state| state != "unmanaged")
            }
            ManagerKind::NetworkManager => {
                let asked = self.run("nmcli", &["-g", "GENERAL.STATE", "device", "show", link]).await;
                // 10 means unmanaged; NetworkManager does not manage an unknown link either.
                asked.is_ok_and(|said| !said.trim_start().starts_with("10"))
            }
        }
    }

    /// A program of the managers' system.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    async fn reload(&self, who: ManagerKind) -> Result<(), NetworkManagerError> {
        let (program, words) = who.reload();
        let told = self.run(program, &words).await;
        told.map(drop).map_err(|why| NetworkManagerError::Told { who: who.name(), why })
    }

    async fn run(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.program(program));
        command.args(words).stdin(Stdio::null()).kill_on_drop(true);
        let shown = format!("{program} {}", words.join(" "));
        let done = timeout(TOLD_WITHIN, command.output()).await;
        let done =
            done.map_err(|_| format!("{shown}: no answer"))?.map_err(|error| format!("{shown}: {error}"))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(format!("{shown}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        }
    }
}

/// systemd-networkd's drop-in for a link that leases. Addresses of the document stay: they are static.
fn leasing(link: &str, told: &ClientSettings) -> String {
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let (dns, gateway) = (yes(told.dns), yes(told.default_route));
    let family = match (told.v4, told.v6) {
        (true, true) => "yes",
        (true, false) => "ipv4",
        (false, _) => "ipv6",
    };
    format!(
        "{HEAD}[Match]\nName={link}\n\n[Network]\nDHCP={family}\nIPv6AcceptRA={}\nKeepConfiguration=static\n\n[DHCPv4]\n\
         ClientIdentifier=mac\nUseGateway={gateway}\nUseDNS={dns}\nUseDomains={dns}\nUseHostname=no\n\n[DHCPv6]\nUseDNS={dns}\n\
         UseDomains={dns}\nUseHostname=no\nWithoutRA=solicit\n\n[IPv6AcceptRA]\nUseDNS={dns}\n",
        yes(told.v6)
    )
}

fn is_namespace_of_init() -> bool {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    of("self").is_some_and(|own| of("1") == Some(own))
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Links that ifupdown brings up by itself, and the place that configures each. `auto` and `allow-*` alone
/// have no effect on a link without an `iface`, or with `manual`.
fn ifupdown(root: &Path) -> BTreeMap<String, (PathBuf, usize)> {
    let main = root.join("etc/network/interfaces");
    let more = fs::read_dir(root.join("etc/network/interfaces.d")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = more.map(|entry| entry.path()).collect();
    files.sort();
    files.insert(0, main);
    let (mut brought_up, mut configured) = (Vec::new(), BTreeMap::new());
    let mut left = INTERFACES_MAX;
    for file in files {
        let size = fs::metadata(&file).map_or(0, |metadata| metadata.len());
        let Some(rest) = left.checked_sub(size) else { break };
        left = rest;
        for (number, line) in fs::read_to_string(&file).unwrap_or_default().lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [first, links @ ..] if *first == "auto" || first.starts_with("allow-") => {
                    brought_up.extend(links.iter().map(|link| (*link).to_owned()));
                }
                ["iface", link, _, method, ..] if !matches!(*method, "manual" | "loopback") => {
                    configured.entry((*link).to_owned()).or_insert((file.clone(), number + 1));
                }
                _ => {}
            }
        }
    }
    configured.retain(|link, _| brought_up.contains(link));
    configured
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A system with stand-ins that write down what they are told, and let go when they are.
    fn system(which: &[ManagerKind]) -> (tempfile::TempDir, NetworkManagers) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        for folder in [NETWORKD_LINKS, "run/NetworkManager", "run/systemd/units", "usr/bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for who in which {
            std::os::unix::fs::symlink("0123456789abcdef", root.join(who.runs())).unwrap();
        }
        let program = |name: &str, text: &str| {
            let path = root.join("usr/bin").join(name);
            fs::write(
                &path,
                format!("#!/bin/sh\necho \"$(basename $0) $*\" >>{0}/said\n{text}\n", root.display()),
            )
            .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let links = root.join(NETWORKD_LINKS);
        let links = links.display();
        program("networkctl", &format!("for f in {links}/*; do echo ADMIN_STATE=unmanaged >$f; done"));
        program("nmcli", "case $1 in -g) echo '10 (unmanaged)' ;; esac");
        let neighbours = NetworkManagers::new(Some(root)).unwrap();
        (dir, neighbours)
    }

    fn said(dir: &tempfile::TempDir) -> String {
        let said = fs::read_to_string(dir.path().join("said")).unwrap_or_default();
        let _ = fs::remove_file(dir.path().join("said"));
        said
    }

    #[tokio::test]
    async fn network_managers_are_told_once_and_when_a_link_is_restored() {
        let (dir, neighbours) = system(&ManagerKind::ALL);
        let state = dir.path().join("run/systemd/netif/links/3");
        fs::write(&state, "ADMIN_STATE=configured\n").unwrap();
        let links = BTreeMap::from([("eth0", Some(3)), ("br-ex", None)]);
        assert_eq!(neighbours.would_tell(&["eth0"]).len(), 2);
        assert!(neighbours.leave_alone(&links).await.unwrap());
        assert_eq!(
            said(&dir),
            "networkctl --no-pager reload\nnmcli general reload\nnmcli -g GENERAL.STATE device show eth0\n"
        );
        let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
        assert!(
            read("etc/systemd/network/00-muster-eth0.network").contains("Name=eth0\n\n[Link]\nUnmanaged=yes")
        );
        assert!(read("etc/NetworkManager/conf.d/90-muster-br-ex.conf").contains("interface-name:=br-ex"));
        assert_eq!(neighbours.told(), ["br-ex", "eth0"]);
        assert!(!neighbours.leave_alone(&links).await.unwrap() && said(&dir).is_empty(), "they know");
        assert!(neighbours.would_tell(&["eth0"]).is_empty());
        neighbours.give_back(["eth0"]).await.unwrap();
        assert_eq!(said(&dir), "networkctl --no-pager reload\nnmcli general reload\n");
        assert_eq!(neighbours.told(), ["br-ex"]);
        neighbours.give_back(["eth0", "never"]).await.unwrap();
        assert_eq!(said(&dir), "", "nothing was to be given back");
    }

    #[tokio::test]
    async fn those_that_hold_a_link_are_named_and_told_nothing() {
        let (dir, neighbours) = system(&[ManagerKind::Networkd]);
        assert_eq!(neighbours.running(), ["systemd-networkd"]);
        let state = |link: u32, state: &str| {
            fs::write(
                dir.path().join(NETWORKD_LINKS).join(link.to_string()),
                format!("ADMIN_STATE={state}\n"),
            )
            .unwrap();
        };
        (2..=4).for_each(|link| state(link, "configured"));
        state(5, "unmanaged");
        let told = ClientSettings {
            client: super::super::Client::Networkd,
            v4: true,
            v6: false,
            default_route: true,
            dns: true,
            arguments: Vec::new(),
        };
        neighbours
            .write_drop_in(ManagerKind::Networkd, "eth2", &ManagerKind::Networkd.content("eth2"))
            .unwrap();
        neighbours.write_drop_in(ManagerKind::Networkd, "eth3", &leasing("eth3", &told)).unwrap();
        let links = BTreeMap::from([2, 3, 4, 5].map(|link| (link, format!("eth{link}"))));
        let held = neighbours.managing(&links).await;
        assert_eq!(held, [("systemd-networkd", "eth2".into()), ("systemd-networkd", "eth4".into())]);
        assert_eq!(said(&dir), "");
    }

    #[tokio::test]
    async fn those_that_do_not_run_are_not_told_anything() {
        let (dir, neighbours) = system(&[ManagerKind::NetworkManager]);
        assert!(neighbours.leave_alone(&BTreeMap::from([("eth0", Some(3))])).await.unwrap());
        assert!(!said(&dir).contains("networkctl"));
        assert!(!dir.path().join("etc/systemd").exists());
        let (dir, neighbours) = system(&[]);
        assert!(!neighbours.leave_alone(&BTreeMap::from([("eth0", Some(3))])).await.unwrap());
        assert_eq!(said(&dir), "");
    }

    #[tokio::test]
    async fn one_that_does_not_hear_is_an_error_and_nothing_is_left() {
        let (dir, neighbours) = system(&[ManagerKind::Networkd]);
        fs::write(dir.path().join("usr/bin/networkctl"), "#!/bin/sh\necho 'no bus' >&2\nexit 1\n").unwrap();
        let error = neighbours.leave_alone(&BTreeMap::from([("eth0", None)])).await.unwrap_err();
        assert!(
            error.to_string().contains("systemd-networkd: networkctl --no-pager reload: no bus"),
            "{error}"
        );
        assert_eq!(neighbours.told(), Vec::<String>::new());
    }

    #[test]
    fn what_ifupdown_brings_up_is_refused_with_its_place() {
        let (dir, neighbours) = system(&[]);
        let write_in = |path: &str, text: &str| write(&dir.path().join(path), text).unwrap();
        write_in(
            "etc/network/interfaces",
            "auto lo eth0 eth2\niface lo inet loopback\n\niface eth0 inet dhcp\niface eth2 inet manual\n",
        );
        write_in(
            "etc/network/interfaces.d/more",
            "# auto eth3\nallow-hotplug eth1\niface eth1 inet static\n  address 192.0.2.1/24\niface eth3 inet dhcp\n",
        );
        neighbours.check(&["eth0"]).unwrap();
        write_in("usr/sbin/ifup", "");
        for (link, at) in [
            ("eth0", Some("interfaces:4")),
            ("eth1", Some("interfaces.d/more:3")),
            ("eth2", None),
            ("eth3", None),
            ("eth4", None),
        ] {
            match (neighbours.check(&["br0", link]), at) {
                (Ok(()), None) => {}
                (Err(error), Some(at)) => assert!(error.to_string().contains(at), "{error}"),
                (other, _) => panic!("{link}: {other:?}"),
            }
        }
    }
}
