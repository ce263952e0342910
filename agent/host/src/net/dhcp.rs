//! Leased addresses: a DHCP client of this server maintains the lease of each link that wants one.
//!
//! ```text
//!   systemd-networkd   a .network file of ours, where it runs
//!   dhcpcd, dhclient   a process for each link and family, in a unit of its own where there is systemd
//! ```
//!
//! The agent uses the first client found. The client's settings and its leases are noted below `/run`, in a
//! folder for each link, which a reboot clears along with the client. The processes call `lease.sh` when
//! their lease changes; the script is in the agent's state directory, since `/run` may be mounted `noexec`.
//!
//! Absent: DHCP itself, and how long an address is waited for (`LEASE_WITHIN`, `net.rs`). NetworkManager is
//! told to leave such a link alone, as any other, and leases nothing.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use muster_shared::model::network::Dhcp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::network_managers::{NetworkManagerError, NetworkManagers};

/// Bytes of a note, or of what a client has written of a lease.
const NOTE_MAX: u64 = 64 * 1024;

/// A DHCP client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    Networkd,
    /// dhcpcd(8)
    Dhcpcd,
    /// dhclient(8)
    Dhclient,
}

/// The client's settings for one link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSettings {
    pub client: Client,
    /// The client leases an IPv4 address.
    pub v4: bool,
    /// The client leases IPv6 addresses.
    pub v6: bool,
    /// The lease brings IPv4's default route.
    pub default_route: bool,
    /// The lease brings name servers and search domains.
    pub dns: bool,
    pub arguments: Vec<String>,
}

/// A link that a client serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub told: ClientSettings,
    /// The kernel's number of the link.
    pub index: u32,
    pub runs: bool,
    /// The leased addresses.
    pub addresses: BTreeSet<IpAddr>,
}

/// DHCP on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Leases {
    /// The client for new leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// dhclient is installed; only dhclient supports `dhclient_args`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_dhclient: bool,
    /// The leases by link.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Lease>,
}

/// The reason why a client could not be started or stopped.
#[derive(Debug, Error)]
pub enum DhcpError {
    /// A note of ours.
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A client, or the program that starts it, failed.
    #[error("{what}")]
    Run {
        /// The command and its result.
        what: String,
    },
    #[error(transparent)]
    Networkd(#[from] NetworkManagerError),
}

/// The places of clients and notes.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// A folder for each link of this network namespace.
    notes: PathBuf,
    /// The clients' scripts: not below `/run`, from which distributions let nothing be run.
    scripts: PathBuf,
    resolv_conf: PathBuf,
    neighbours: Option<NetworkManagers>,
    /// The client to use, whichever others are installed.
    only: Option<Client>,
}

impl Client {
    /// The client's name as its authors write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Networkd => "systemd-networkd",
            Self::Dhcpcd => "dhcpcd",
            Self::Dhclient => "dhclient",
        }
    }
}

impl Leases {
    /// The client's settings for `dhcp`; none if no client here can serve it.
    pub fn told(&self, dhcp: &Dhcp, dns: bool) -> Option<ClientSettings> {
        let client = match dhcp.arguments.is_empty() {
            true => self.client,
            false => self.has_dhclient.then_some(Client::Dhclient),
        };
        let Dhcp { v4, v6, default_route, ref arguments } = *dhcp;
        Some(ClientSettings { client: client?, v4, v6, default_route, dns, arguments: arguments.clone() })
    }

    /// The addresses that clients have put on a link.
    pub fn addresses(&self, link: &str) -> impl Iterator<Item = IpAddr> {
        self.links.get(link).into_iter().flat_map(|lease| lease.addresses.iter().copied())
    }
}

impl ClientSettings {
    /// Whether the client leases addresses of that family.
    pub fn leases(&self, address: IpAddr) -> bool {
        if address.is_ipv4() { self.v4 } else { self.v6 }
    }
}

impl Clients {
    pub fn new(
        notes: Option<PathBuf>,
        scripts: Option<PathBuf>,
        resolv_conf: PathBuf,
        neighbours: Option<NetworkManagers>,
        only: Option<Client>,
    ) -> Self {
        // Two namespaces may have links of the same name.
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_or(0, |file| file.ino());
        let notes = notes.unwrap_or_else(|| "/run/muster-dhcp".into()).join(namespace.to_string());
        let scripts = scripts.unwrap_or_else(|| "/var/lib/muster-agent/dhcp".into());
        let scripts = scripts.join(namespace.to_string());
        Self { notes, scripts, resolv_conf, neighbours, only }
    }

    /// The available client, and the state of the links that clients serve. `links`: the kernel's links, with
    /// their numbers and the addresses that have a lifetime.
    pub fn read<'a>(&self, links: impl Fn(&str) -> Option<(u32, Vec<IpNet>)> + 'a) -> Leases {
        let client = match self.only {
            Some(only) => self.is_here(only).then_some(only),
            None => [Client::Networkd, Client::Dhcpcd, Client::Dhclient]
                .into_iter()
                .find(|client| self.is_here(*client)),
        };
        let mut leases =
            Leases { client, has_dhclient: self.is_here(Client::Dhclient), links: BTreeMap::new() };
        for entry in fs::read_dir(&self.notes).into_iter().flatten().flatten() {
            let Ok(link) = entry.file_name().into_string() else { continue };
            let Some(note) = self.note(&link) else { continue };
            let there = links(&link);
            let is_it = there.as_ref().is_some_and(|(index, _)| *index == note.index);
            let runs = is_it && self.runs(&link, &note);
            let addresses = match note.told.client {
                Client::Networkd => {
                    self.of_networkd(&note, there.map(|(_, given)| given).unwrap_or_default())
                }
                Client::Dhcpcd | Client::Dhclient => self.noted(&link),
            };
            leases.links.insert(link, Lease { told: note.told, index: note.index, runs, addresses });
        }
        leases
    }

    /// Has a client lease addresses for a link that is up.
    pub async fn start(&self, link: &str, index: u32, told: &ClientSettings) -> Result<(), DhcpError> {
        let folder = self.notes.join(link);
        let failed = |source| DhcpError::File { path: folder.clone(), source };
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut note = Note { told: told.clone(), index, processes: Vec::new() };
        // After a crash, the next run finds this note and stops a client that may have been started.
        self.write_note(link, &note)?;
        match (told.client, &self.neighbours) {
            (Client::Networkd, Some(neighbours)) => neighbours.lease(link, told).await?,
            (Client::Networkd, None) => {
                return Err(DhcpError::Run {
                    what: "systemd-networkd serves another network namespace".into(),
                });
            }
            (Client::Dhcpcd | Client::Dhclient, _) => {
                for v6 in [false, true].into_iter().filter(|v6| if *v6 { told.v6 } else { told.v4 }) {
                    note.processes.extend(self.spawn(link, told, v6).await?);
                }
                self.write_note(link, &note)?;
            }
        }
        Ok(())
    }

    /// Stops the link's client. The leased addresses stay on the link.
    pub async fn stop(&self, link: &str) -> Result<(), DhcpError> {
        let Some(note) = self.note(link) else { return Ok(()) };
        match (note.told.client, &self.neighbours) {
            (Client::Networkd, Some(neighbours)) => neighbours.end_lease(link).await?,
            (Client::Networkd, None) => {}
            (Client::Dhcpcd | Client::Dhclient, _) => self.end(link, &note).await?,
        }
        // The note goes last: while it exists, everything is tried again.
        for folder in [self.scripts.join(link), self.notes.join(link)] {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(DhcpError::File { path: folder, source: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_here(&self, client: Client) -> bool {
        match client {
            Client::Networkd => self.neighbours.as_ref().is_some_and(NetworkManagers::has_networkd),
            Client::Dhcpcd | Client::Dhclient => process::program(client.name()).is_some(),
        }
    }

    fn runs(&self, link: &str, note: &Note) -> bool {
        match note.told.client {
            Client::Networkd => self.neighbours.as_ref().is_some_and(|it| it.leases(link, &note.told)),
            Client::Dhcpcd | Client::Dhclient => self.processes_run(link, note),
        }
    }

    /// systemd-networkd keeps a file of each IPv4 lease; its IPv6 addresses have a lifetime.
    fn of_networkd(&self, note: &Note, given: Vec<IpNet>) -> BTreeSet<IpAddr> {
        let v4 = self.neighbours.as_ref().and_then(|neighbours| neighbours.leased(note.index));
        let of_host = |net: &IpNet| net.addr().is_ipv6() && net.prefix_len() == 128;
        let v6 = given.into_iter().filter(|net| note.told.v6 && of_host(net)).map(|net| net.addr());
        v4.into_iter().chain(v6).collect()
    }

    /// The addresses that `lease.sh` has written.
    fn noted(&self, link: &str) -> BTreeSet<IpAddr> {
        let read = |family: &str| read(&self.notes.join(link).join(format!("lease.{family}")));
        let both = ["4", "6"].map(read).concat();
        both.split_ascii_whitespace().filter_map(|word| word.split('/').next()?.parse().ok()).collect()
    }

    fn note(&self, link: &str) -> Option<Note> {
        serde_json::from_str(&read(&self.notes.join(link).join("told"))).ok()
    }

    fn write_note(&self, link: &str, note: &Note) -> Result<(), DhcpError> {
        let text = serde_json::to_string(note).expect("a note has text keys and plain values");
        write(&self.notes.join(link), "told", &text, 0o644).map(drop)
    }
}

/// The client's settings, and the processes that were started without systemd.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    told: ClientSettings,
    index: u32,
    #[serde(default)]
    processes: Vec<process::Process>,
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) -> Result<PathBuf, DhcpError> {
    let path = folder.join(name);
    let new = path.with_extension("new");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &path)
    };
    write().map_err(|source| DhcpError::File { path: path.clone(), source })?;
    Ok(path)
}

/// The text of a file; empty if the file is missing, no text, or too long.
fn read(path: &Path) -> String {
    let fits = fs::metadata(path).is_ok_and(|file| file.len() <= NOTE_MAX);
    fits.then(|| fs::read_to_string(path).ok()).flatten().unwrap_or_default()
}

fn shown(words: &[&OsStr]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
