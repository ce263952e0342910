//! dhcpcd and dhclient as separate processes: in the foreground, in a transient unit if systemd serves this
//! network namespace, otherwise in a new session. So they outlive the agent.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::super::network_managers::NetworkManagers;
use super::{Client, ClientSettings, Clients, DhcpError, Note, shown, write};

/// systemd answers in milliseconds, and a client that is asked to end does so.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// The exit status of systemctl(1) when asked to stop a unit that does not exist.
const NOT_LOADED: i32 = 5;
const LEASE_SH: &str = include_str!("lease.sh");

/// dhclient's own defaults wait for five minutes after a minute without an answer.
const DHCLIENT_CONF: &str = "\
# Written by muster-agent.
timeout 30;
retry 5;
backoff-cutoff 10;
option rfc3442-classless-static-routes code 121 = array of unsigned integer 8;
request subnet-mask, broadcast-address, routers, rfc3442-classless-static-routes, domain-name, domain-name-servers,
  domain-search, dhcp6.name-servers, dhcp6.domain-search;
";

/// A process: its number may be given to another later, which has another start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    id: i32,
    /// The start time, in ticks since the boot.
    started: u64,
}

impl Process {
    fn lives(&self) -> bool {
        started(self.id) == Some(self.started)
    }
}

impl Clients {
    /// Starts a client. Returns its process if systemd does not keep it.
    pub(super) async fn spawn(
        &self,
        link: &str,
        told: &ClientSettings,
        v6: bool,
    ) -> Result<Option<Process>, DhcpError> {
        let name = told.client.name();
        let program = program(name).ok_or_else(|| DhcpError::Run { what: format!("there is no {name}") })?;
        let script = self.script(link, told)?;
        let mut words: Vec<OsString> = vec![program.into()];
        match told.client {
            Client::Dhclient => words.extend(self.dhclient(link, told, v6, &script)?),
            Client::Dhcpcd | Client::Networkd => words.extend(dhcpcd(told, v6, &script)),
        }
        words.push(link.into());
        let Some(system) = self.systemd() else { return self.session(&words).await.map(Some) };
        stop_unit(system, link, v6).await?;
        let unit = format!("--unit={}", unit(link, v6));
        let family = if v6 { "IPv6" } else { "IPv4" };
        let description = format!("--description=Muster: lease of {link} ({family})");
        let mut command = vec![
            system.program("systemd-run").into_os_string(),
            "--quiet".into(),
            unit.into(),
            description.into(),
        ];
        // The unit runs before sysinit.target, and until the end of a shutdown. AppArmor's profile of
        // dhclient allows only Debian's own script.
        let properties = [
            "--collect",
            "--service-type=exec",
            "--property=DefaultDependencies=no",
            "--property=Restart=always",
            "--property=RestartSec=1",
            "--property=StartLimitIntervalSec=0",
            "--property=AppArmorProfile=-unconfined",
            "--",
        ];
        command.extend(properties.map(OsString::from));
        command.extend(words);
        match run(&command).await? {
            Ended { status, .. } if status.success() => Ok(None),
            ended => Err(ended.into()),
        }
    }

    pub(super) fn processes_run(&self, link: &str, note: &Note) -> bool {
        let families = [(note.told.v4, false), (note.told.v6, true)];
        let wanted = families.into_iter().filter(|(wanted, _)| *wanted).map(|(_, v6)| v6);
        match self.systemd().is_some() {
            true => wanted.into_iter().all(|v6| self.unit_runs(link, v6)),
            false => note.processes.len() == wanted.count() && note.processes.iter().all(Process::lives),
        }
    }

    pub(super) async fn end(&self, link: &str, note: &Note) -> Result<(), DhcpError> {
        if let Some(system) = self.systemd() {
            for v6 in [false, true] {
                stop_unit(system, link, v6).await?;
            }
        }
        for process in &note.processes {
            let began = Instant::now();
            while process.lives() {
                let signal = match began.elapsed() {
                    waited if waited < ANSWER_WITHIN => Signal::SIGTERM,
                    waited if waited < 2 * ANSWER_WITHIN => Signal::SIGKILL,
                    // The process waits in the kernel, which ends it later.
                    _ => return Err(DhcpError::Run { what: format!("{} does not end", process.id) }),
                };
                match kill(Pid::from_raw(process.id), signal) {
                    Ok(()) | Err(Errno::ESRCH) => sleep(LOOK).await,
                    Err(errno) => {
                        return Err(DhcpError::Run { what: format!("cannot end {}: {errno}", process.id) });
                    }
                }
            }
        }
        Ok(())
    }

    /// Units are in the network namespace of the system's init, which is where the agent has neighbours.
    fn systemd(&self) -> Option<&NetworkManagers> {
        self.neighbours.as_ref().filter(|neighbours| neighbours.at("run/systemd/system").is_dir())
    }

    fn unit_runs(&self, link: &str, v6: bool) -> bool {
        let invocation = format!("run/systemd/units/invocation:{}", unit(link, v6));
        self.neighbours.as_ref().is_some_and(|it| it.at(&invocation).symlink_metadata().is_ok())
    }

    /// Writes `lease.sh` with its settings.
    fn script(&self, link: &str, told: &ClientSettings) -> Result<PathBuf, DhcpError> {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        let known = format!(
            "client={} default_route={} dns={}\ndir={} all={} resolv_conf={}\n",
            told.client.name(),
            word(told.default_route),
            word(told.dns),
            quoted(&self.notes.join(link)),
            quoted(&self.notes),
            quoted(&self.resolv_conf),
        );
        let (first, rest) = LEASE_SH.split_once('\n').unwrap_or_default();
        let folder = self.scripts.join(link);
        let failed = |source| DhcpError::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        let flags = statvfs(&folder).map_err(|errno| failed(errno.into()))?.flags();
        if flags.contains(FsFlags::ST_NOEXEC) {
            let what = format!(
                "{} is on a file system mounted noexec, from which a DHCP client cannot run its script: mount it without, \
                 or give the agent another --state-dir",
                folder.display()
            );
            return Err(DhcpError::Run { what });
        }
        write(&folder, "lease.sh", &format!("{first}\n{known}{rest}"), 0o755)
    }

    fn dhclient(
        &self,
        link: &str,
        told: &ClientSettings,
        v6: bool,
        script: &Path,
    ) -> Result<Vec<OsString>, DhcpError> {
        let folder = self.notes.join(link);
        let family = if v6 { "6" } else { "4" };
        let conf = write(&folder, "dhclient.conf", DHCLIENT_CONF, 0o644)?;
        let mut words: Vec<OsString> = vec!["-d".into(), format!("-{family}").into()];
        words.extend(["-sf".into(), script.into(), "-cf".into(), conf.into()]);
        words.extend(["-lf".into(), folder.join(format!("leases.{family}")).into()]);
        words.extend(["-pf".into(), folder.join(format!("pid.{family}")).into()]);
        if v6 && !told.arguments.iter().any(|word| word == "-D") {
            // Gives the same identifier after a reboot, when the file of leases is gone.
            words.extend(["-D".into(), "LL".into()]);
        }
        words.extend(told.arguments.iter().map(OsString::from));
        Ok(words)
    }

    /// Starts a process without systemd, in a session of its own: it survives the terminal and the agent.
    async fn session(&self, words: &[OsString]) -> Result<Process, DhcpError> {
        let failed = |what: String| DhcpError::Run { what };
        let mut command = Command::new("setsid");
        command.args(words).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| failed(format!("setsid: {error}")))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        // Dropping the child leaves the reaping to tokio, or to init.
        let process = id.and_then(|id| Some(Process { id, started: started(id)? }));
        process.ok_or_else(|| failed(format!("{} ended at once", words[0].display())))
    }
}

fn dhcpcd(told: &ClientSettings, v6: bool, script: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["-B", "-q", "-p", "-f", "/dev/null", "-c"].map(OsString::from).into();
    words.push(script.into());
    if v6 {
        words.extend(
            ["-6", "--ia_na", "-o", "dhcp6_name_servers", "-o", "dhcp6_domain_search"].map(OsString::from),
        );
        return words;
    }
    words.extend(["-4", "--noipv4ll"].map(OsString::from));
    let options = "subnet_mask,broadcast_address,routers,classless_static_routes,domain_name,domain_name_servers,domain_search";
    words.extend(["-o".into(), options.into()]);
    if !told.default_route {
        words.push("--nogateway".into());
    }
    words
}

/// A unit name without `@`, which systemd would interpret.
fn unit(link: &str, v6: bool) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let word = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") };
    let link: String = link.bytes().map(word).collect();
    format!("muster-dhcp{}-{link}.service", if v6 { 6 } else { 4 })
}

/// Quotes a path as a word for the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Finds a program in the `PATH`, or in the directories of administrators' programs.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Nothing of a process that is over.
fn started(id: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The process name may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Stops the unit, also while it waits for a restart, which systemd does not count as running.
async fn stop_unit(system: &NetworkManagers, link: &str, v6: bool) -> Result<(), DhcpError> {
    let words = [system.program("systemctl").into_os_string(), "stop".into(), unit(link, v6).into()];
    match run(&words).await? {
        Ended { status, .. } if status.success() || status.code() == Some(NOT_LOADED) => Ok(()),
        ended => Err(ended.into()),
    }
}

/// The status and output of a command that has ended.
struct Ended {
    status: ExitStatus,
    said: String,
}

impl From<Ended> for DhcpError {
    fn from(ended: Ended) -> Self {
        Self::Run { what: ended.said }
    }
}

async fn run(words: &[OsString]) -> Result<Ended, DhcpError> {
    let said = shown(&words.iter().map(OsString::as_os_str).collect::<Vec<&OsStr>>());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    let failed = |why: String| DhcpError::Run { what: format!("{said}: {why}") };
    let done = timeout(ANSWER_WITHIN, command.output()).await;
    let done = done.map_err(|_| failed("no answer".into()))?.map_err(|error| failed(error.to_string()))?;
    let said = format!("{said}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(Ended { status: done.status, said })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// systemd has no `invocation:` of a unit that waits to be started again.
    #[tokio::test]
    async fn a_unit_that_waits_to_be_started_again_is_stopped_too() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("run/systemd/system")).unwrap();
        fs::create_dir_all(at("usr/bin")).unwrap();
        let systemctl = |code: i32| {
            let text = format!("#!/bin/sh\necho \"$*\" >>{}\nexit {code}\n", at("asked").display());
            fs::write(at("new"), text).unwrap();
            fs::set_permissions(at("new"), fs::Permissions::from_mode(0o755)).unwrap();
            fs::rename(at("new"), at("usr/bin/systemctl")).unwrap();
        };
        let neighbours = NetworkManagers::new(Some(root.path().to_owned()));
        let clients =
            Clients::new(Some(at("notes")), Some(at("scripts")), at("resolv.conf"), neighbours, None);
        let told = ClientSettings {
            client: Client::Dhclient,
            v4: true,
            v6: false,
            default_route: true,
            dns: true,
            arguments: Vec::new(),
        };
        let note = Note { told, index: 1, processes: Vec::new() };
        for (code, works) in [(0, true), (NOT_LOADED, true), (1, false)] {
            systemctl(code);
            let _ = fs::remove_file(at("asked"));
            assert_eq!(clients.end("eth1", &note).await.is_ok(), works, "{code}");
            let asked = fs::read_to_string(at("asked")).unwrap();
            let both = "stop muster-dhcp4-eth1.service\nstop muster-dhcp6-eth1.service\n";
            assert!(if works { asked == both } else { both.starts_with(&asked) }, "{asked}");
        }
    }
}
