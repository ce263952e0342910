//! The resolver's settings: `/etc/resolv.conf` itself, or a drop-in of systemd-resolved if that file is a
//! link to its own.
//!
//! Any other link belongs to a program that would write it again (NetworkManager, resolvconf, …): the
//! document is refused. `systemctl`, run without a shell and with a time limit, makes systemd-resolved
//! reload: it is present wherever resolved is, and one call per change does not justify a D-Bus client.
//!
//! Absent: which steps are needed (`plan/resolver.rs`).

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_shared::model::network::Dns;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// The resolver's file has a few hundred bytes; a larger one is not accepted.
const MAX_BYTES: u64 = 64 * 1024;
/// The time limit of a reload: systemd answers at once, or something is very wrong.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether `systemctl` is done, which takes about 10 ms.
const RELOAD_LOOK: Duration = Duration::from_millis(5);
const HEAD: &str = "# Written by muster-agent from the network document. What was here before is kept and comes back with it.\n";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolver {
    #[default]
    Absent,
    Plain {
        /// The whole file.
        content: String,
        /// Permission bits.
        mode: u32,
    },
    /// systemd-resolved has it; this is our drop-in.
    Resolved {
        /// The whole drop-in.
        drop_in: Option<String>,
    },
    /// A file of others, or one that is not text.
    Foreign {
        /// A description of the file and its owner.
        what: String,
    },
}

/// A file of the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverFile {
    /// `/etc/resolv.conf`
    ResolvConf,
    /// A drop-in for systemd-resolved.
    DropIn,
}

#[derive(Debug, Error)]
pub enum ResolverError {
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// systemd-resolved did not take it up.
    #[error("systemctl try-reload-or-restart systemd-resolved: {0}")]
    Reload(String),
}

/// The paths of the files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub resolv_conf: PathBuf,
    pub drop_in: PathBuf,
    pub systemctl: PathBuf,
    /// Names of routing tables.
    pub rt_tables: PathBuf,
}

impl Files {
    pub fn read(&self) -> Resolver {
        let foreign = |what: String| Resolver::Foreign { what };
        match fs::symlink_metadata(&self.resolv_conf) {
            Err(error) if error.kind() == ErrorKind::NotFound => Resolver::Absent,
            Err(error) => foreign(format!("cannot be read ({error})")),
            Ok(meta) if meta.is_symlink() => match fs::read_link(&self.resolv_conf) {
                Ok(target) if is_resolved(&target) => match text(&self.drop_in) {
                    Ok(drop_in) => Resolver::Resolved { drop_in },
                    Err(error) => {
                        foreign(format!("is systemd-resolved's, and its drop-in cannot be read ({error})"))
                    }
                },
                Ok(target) => foreign(format!("is a link to {}: {}", target.display(), owner(&target))),
                Err(error) => foreign(format!("is a link that cannot be read ({error})")),
            },
            Ok(meta) if !meta.is_file() => foreign("is no regular file".to_owned()),
            Ok(meta) => match text(&self.resolv_conf) {
                Ok(Some(content)) => Resolver::Plain { content, mode: meta.mode() & 0o7777 },
                Ok(None) => Resolver::Absent,
                Err(error) => foreign(format!("cannot be read ({error})")),
            },
        }
    }

    /// Writes the file, or removes it: at once, and durably.
    pub fn set(&self, file: ResolverFile, content: Option<&str>, mode: u32) -> Result<(), ResolverError> {
        let path = match file {
            ResolverFile::ResolvConf => &self.resolv_conf,
            ResolverFile::DropIn => &self.drop_in,
        };
        set(path, content, mode).map_err(|source| ResolverError::File { path: path.clone(), source })
    }

    pub async fn reload(&self) -> Result<(), ResolverError> {
        let failed = |what: String| ResolverError::Reload(what);
        let mut child = Command::new(&self.systemctl)
            .args(["try-reload-or-restart", "systemd-resolved"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let until = Instant::now() + RELOAD_TIMEOUT;
        loop {
            match child.try_wait().map_err(|error| failed(error.to_string()))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(failed(status.to_string())),
                None if Instant::now() < until => sleep(RELOAD_LOOK).await,
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed(format!("no end within {} s", RELOAD_TIMEOUT.as_secs())));
                }
            }
        }
    }
}

fn text(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut content = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(content))
}

pub(super) fn set(path: &Path, content: Option<&str>, mode: u32) -> io::Result<()> {
    let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
    match content {
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        },
        Some(content) => {
            fs::create_dir_all(parent)?;
            let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
            let new = parent.join(format!(".{name}.muster-new"));
            let _ = fs::remove_file(&new);
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            let written = file
                .write_all(content.as_bytes())
                .and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode)))
                .and_then(|()| file.sync_all())
                .and_then(|()| fs::rename(&new, path));
            if written.is_err() {
                let _ = fs::remove_file(&new);
            }
            written?;
        }
    }
    match fs::File::open(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        directory => directory?.sync_all(),
    }
}

fn is_resolved(target: &Path) -> bool {
    let target = target.to_string_lossy();
    // The target is the running service's file, or the one shipped with it.
    target.contains("systemd/resolve/") || target.ends_with("lib/systemd/resolv.conf")
}

fn owner(target: &Path) -> String {
    let target = target.to_string_lossy();
    let known = ["NetworkManager", "resolvconf", "connman", "dnsmasq", "netconfig"];
    match known.into_iter().find(|name| target.contains(name)) {
        Some(name) => format!("{name} seems to manage it"),
        None => "something else seems to manage it".to_owned(),
    }
}

/// `/etc/resolv.conf` with these settings; lines about anything else stay.
pub(super) fn resolv_conf(dns: &Dns, now: Option<&str>) -> String {
    let mut content = HEAD.to_owned();
    if !dns.domains.is_empty() {
        content.push_str(&format!("search {}\n", dns.domains.join(" ")));
    }
    dns.servers.iter().for_each(|server| content.push_str(&format!("nameserver {server}\n")));
    let of_others = |line: &&str| {
        let word = line.split_ascii_whitespace().next();
        word.is_some_and(|word| {
            !matches!(word, "search" | "domain" | "nameserver") && !word.starts_with(['#', ';'])
        })
    };
    for line in now.unwrap_or_default().lines().filter(of_others) {
        content.push_str(line);
        content.push('\n');
    }
    content
}

/// A drop-in for systemd-resolved with these settings.
pub(super) fn drop_in(dns: &Dns) -> String {
    let servers: Vec<String> = dns.servers.iter().map(ToString::to_string).collect();
    let mut content = format!("{HEAD}[Resolve]\n");
    for (key, values) in [("DNS", servers.join(" ")), ("Domains", dns.domains.join(" "))] {
        if !values.is_empty() {
            content.push_str(&format!("{key}={values}\n"));
        }
    }
    content
}
