//! `Muster::Package`: a package of the server's distribution, by apt or dnf.
//!
//! ```text
//!  list ─▶ as wanted? ─▶ wait for the lock ─▶ mend ─▶ what is to be had, refresh lists ─▶ would others go? ─▶ change ─▶ list
//!                                                                                         │ what fails puts back what was listed
//! ```
//! What changes anything is a run of its own ([`Runner`]), which outlives the agent: one that is found under way is waited for,
//! and then everything is looked at again. What only reads is a bounded command. No shell, no question, no file of an
//! administrator overwritten.
//!
//! A crash in the middle makes the next run take the half-made state for what was there: it mends that and ends as wanted,
//! or fails and says so. Absent: repositories and their keys, which are files, and what was installed along with a
//! package, which stays.

mod apt;
mod ask;
mod dnf;
mod error;
mod lock;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_shared::model::{OnDelete, PACKAGE_BACK, Package, Presence};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::run::{How, Program, RunId, Runner, Task};
use apt::Apt;
use dnf::Dnf;
pub use error::PackageFault;

type Result<T> = std::result::Result<T, PackageFault>;

/// Packages of this server.
#[derive(Clone, Debug)]
pub struct Packages {
    runs: Runner,
}

/// A package as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageBefore {
    /// None: it was not there.
    version: Option<String>,
    held: bool,
}

/// A package that is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The version that is there, if any.
    pub version: Option<String>,
    /// Something was changed.
    pub touched: bool,
    /// What an interrupted dpkg had left was ended first.
    pub mended: bool,
}

/// All packages of the server, by name and, where there may be several, architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listing(BTreeMap<String, Installed>);

/// One that is there, or half there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Installed {
    /// Without architecture.
    name: String,
    version: String,
    /// The manager's word for one that is not whole, such as `half-configured`.
    broken: Option<String>,
    held: bool,
}

/// What a package is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Goal {
    version: Wanted,
    held: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Absent,
    Any,
    /// As it was given.
    Exactly(String),
}

/// A command that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    program: &'static str,
    arguments: Vec<String>,
}

/// Who knows what is installed and changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
}

/// One job: its runs, one after the other under one name, and its time.
struct Work<'a> {
    runs: &'a Runner,
    id: &'a RunId,
    package: &'a str,
    until: Instant,
}

impl Packages {
    /// Those of this server; commands that change something are `runs`.
    pub fn new(runs: Runner) -> Self {
        Self { runs }
    }

    /// What is there, to be put back with [`Packages::restore`].
    ///
    /// # Errors
    /// It cannot be known.
    pub async fn observe(&self, package: &Package) -> Result<PackageBefore> {
        let manager = Manager::here()?;
        let listing = manager.list(&package.name).await?;
        let found = listing.find(&package.name);
        // One that is half there, something else has left so: it is not what anybody wants back.
        let whole = found.filter(|found| found.broken.is_none());
        Ok(PackageBefore {
            version: whole.map(|whole| whole.version.clone()),
            held: found.is_some_and(|found| found.held),
        })
    }

    /// Makes it so and reads it back.
    ///
    /// # Errors
    /// It is not so. What was changed has been put back, unless the error says otherwise.
    pub async fn apply(&self, id: &RunId, package: &Package) -> Result<Applied> {
        self.reach(id, package, &Goal::of(package)).await
    }

    /// Puts back what was there before. Whether anything was changed.
    ///
    /// # Errors
    /// It is not as it was.
    pub async fn restore(&self, id: &RunId, package: &Package, before: &PackageBefore) -> Result<bool> {
        self.runs.wait_out(id.resource).await?;
        if package.on_delete == OnDelete::Keep {
            return Ok(false);
        }
        let manager = Manager::here()?;
        let listing = manager.list(&package.name).await?;
        let is = listing.find(&package.name);
        let ours =
            |is: &Installed| package.version.as_ref().is_some_and(|v| manager.is_version(&is.version, v));
        let version = match (&before.version, is) {
            (None, _) => Wanted::Absent,
            // An upgrade that somebody else made is theirs.
            (Some(_), Some(is)) if !ours(is) => Wanted::Any,
            (Some(version), Some(_)) => Wanted::Exactly(version.clone()),
            (Some(version), None) => {
                let there = manager.offered(&package.name).await?;
                let is_there = there.iter().any(|offered| offered == version);
                if is_there { Wanted::Exactly(version.clone()) } else { Wanted::Any }
            }
        };
        // What was held for us is not held any more, whatever becomes of it.
        let held = package.held.map(|_| before.held);
        Ok(self.reach(id, package, &Goal { version, held }).await?.touched)
    }

    /// Compares and changes nothing; in words where it differs.
    ///
    /// # Errors
    /// It cannot be known.
    pub async fn check(&self, package: &Package) -> Result<Vec<String>> {
        let manager = Manager::here()?;
        let listing = manager.list(&package.name).await?;
        Ok(manager.differences(&listing, &package.name, &Goal::of(package)))
    }

    async fn reach(&self, id: &RunId, package: &Package, goal: &Goal) -> Result<Applied> {
        let name = package.name.as_str();
        // What an agent before this one began comes to its end, however that is.
        self.runs.wait_out(id.resource).await?;
        let manager = Manager::here()?;
        let was = manager.list(name).await?;
        let found = |listing: &Listing| listing.find(name).map(|found| found.version.clone());
        if manager.differences(&was, name, goal).is_empty() {
            return Ok(Applied { version: found(&was), touched: false, mended: false });
        }
        let until = Instant::now() + Duration::from_secs(package.timeout.into());
        let work = Work { runs: &self.runs, id, package: name, until };
        lock::wait(manager.locks(), package.timeout, until).await?;
        let (was, mended) = manager.mend(&work, was).await?;
        if let Err(fault) = Self::change(manager, &work, &was, goal).await {
            return Err(Self::put_back(manager, &work, &was, fault).await);
        }
        let is = manager.list(name).await?;
        let differ = manager.differences(&is, name, goal);
        if differ.is_empty() {
            return Ok(Applied { version: found(&is), touched: true, mended });
        }
        let fault = PackageFault::Differs { package: name.to_owned(), differ: differ.join(", ") };
        Err(Self::put_back(manager, &work, &was, fault).await)
    }

    /// By what the lists say; of what has gone from the repository since, new ones know.
    async fn change(manager: Manager, work: &Work<'_>, was: &Listing, goal: &Goal) -> Result<()> {
        let mut orders = manager.plan(work, was, goal).await?.into_iter();
        let mut is_new = false;
        while let Some(order) = orders.next() {
            match work.run(&order).await {
                Ok(()) => {}
                Err(fault) if fault.is_of_old_lists() && !is_new && manager == Manager::Apt => {
                    is_new = true;
                    work.run(&apt::refresh()).await?;
                    orders = manager.plan(work, was, goal).await?.into_iter();
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// After `fault`: whatever has changed becomes what it was, where that can be.
    async fn put_back(manager: Manager, work: &Work<'_>, was: &Listing, fault: PackageFault) -> PackageFault {
        let work = Work { until: Instant::now() + Duration::from_secs(PACKAGE_BACK.into()), ..*work };
        let Ok(is) = manager.list(work.package).await else { return fault };
        if is == *was {
            return fault;
        }
        for order in manager.back(was, &is, work.package) {
            // What it did not reach is said in what is left.
            let _ = work.run(&order).await;
        }
        let Ok(is) = manager.list(work.package).await else { return fault };
        fault.after(is.left_of(was))
    }
}

impl Goal {
    fn of(package: &Package) -> Self {
        let version = match (package.state, &package.version) {
            (Presence::Absent, _) => Wanted::Absent,
            (Presence::Present, None) => Wanted::Any,
            (Presence::Present, Some(version)) => Wanted::Exactly(version.clone()),
        };
        Self { version, held: package.held }
    }
}

impl Manager {
    /// The one that this server has. Of a server with both, the distribution's own has the packages.
    fn here() -> Result<Self> {
        let has = |programs: [&str; 2]| programs.iter().all(|program| Path::new(program).is_file());
        if has([apt::GET, apt::QUERY]) {
            Ok(Self::Apt)
        } else if has([dnf::DNF, dnf::RPM]) {
            Ok(Self::Dnf)
        } else {
            Err(PackageFault::NoManager)
        }
    }

    async fn list(self, name: &str) -> Result<Listing> {
        match self {
            Self::Apt => Apt::list().await,
            Self::Dnf => Dnf::list(name).await,
        }
    }

    /// Versions that can be installed.
    async fn offered(self, name: &str) -> Result<Vec<String>> {
        match self {
            Self::Apt => Apt::offered(name).await,
            Self::Dnf => Dnf::offered(name).await,
        }
    }

    fn locks(self) -> &'static [&'static str] {
        match self {
            Self::Apt => &apt::LOCKS,
            Self::Dnf => &dnf::LOCKS,
        }
    }

    /// What an interrupted run of whomever has left is ended; what is there then, and whether there was such a thing.
    async fn mend(self, work: &Work<'_>, was: Listing) -> Result<(Listing, bool)> {
        match self {
            Self::Apt => Apt::mend(work, was).await,
            // A transaction of rpm that was interrupted leaves nothing that has to be ended first.
            Self::Dnf => Ok((was, false)),
        }
    }

    async fn plan(self, work: &Work<'_>, is: &Listing, goal: &Goal) -> Result<Vec<Order>> {
        match self {
            Self::Apt => Apt::plan(work, is, goal).await,
            Self::Dnf => Dnf::plan(work, is, goal).await,
        }
    }

    fn back(self, was: &Listing, is: &Listing, name: &str) -> Vec<Order> {
        match self {
            Self::Apt => apt::back(was, is, name),
            Self::Dnf => dnf::back(was, is, name),
        }
    }

    fn is_version(self, installed: &str, wanted: &str) -> bool {
        match self {
            Self::Apt => installed == wanted,
            Self::Dnf => dnf::is_version(installed, wanted),
        }
    }

    fn differences(self, listing: &Listing, name: &str, goal: &Goal) -> Vec<String> {
        let found = listing.find(name);
        let mut differ = Vec::new();
        match (found, &goal.version) {
            (None, Wanted::Absent) => {}
            (Some(is), Wanted::Absent) => differ.push(format!("{} is installed", is.version)),
            (None, _) => differ.push("it is not installed".into()),
            (Some(Installed { broken: Some(broken), .. }), _) => differ.push(format!("it is {broken}")),
            (Some(is), Wanted::Exactly(wanted)) if !self.is_version(&is.version, wanted) => {
                differ.push(format!("{} is installed, and should be {wanted}", is.version));
            }
            (Some(_), Wanted::Any | Wanted::Exactly(_)) => {}
        }
        if let (Some(wanted), Some(is), false) = (goal.held, found, goal.version == Wanted::Absent)
            && is.held != wanted
        {
            differ.push(if is.held { "it is held" } else { "it is not held" }.into());
        }
        differ
    }
}

impl Listing {
    /// The server's own, where there are several architectures.
    fn find(&self, name: &str) -> Option<&Installed> {
        let own = self.0.get(name);
        own.or_else(|| self.0.values().find(|installed| installed.name == name))
    }

    /// What is not as in `was`, in words.
    fn left_of(&self, was: &Self) -> Vec<String> {
        let mut left = Vec::new();
        for key in self.0.keys().chain(was.0.keys().filter(|key| !self.0.contains_key(*key))) {
            match (self.0.get(key), was.0.get(key)) {
                (Some(is), Some(was)) if is == was => {}
                (Some(Installed { version, broken: Some(broken), .. }), _) => {
                    left.push(format!("{key} {version} is {broken}"));
                }
                (Some(is), _) => left.push(format!("{key} {} is installed", is.version)),
                (None, _) => left.push(format!("{key} is gone")),
            }
        }
        left
    }
}

impl Work<'_> {
    /// Runs it to its end, in a unit of its own.
    async fn run(&self, order: &Order) -> Result<()> {
        let timeout = self.until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let program = std::iter::once(OsString::from(order.program));
        let task = Task {
            description: format!("package {}", self.package),
            program: Program::Arguments(program.chain(order.arguments.iter().map(OsString::from)).collect()),
            environment: apt::ENVIRONMENT.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            outputs: Vec::new(),
            timeout,
            // What is there is looked at first.
            again: false,
        };
        let ended = self.runs.run(self.id, &task).await;
        self.runs.forget(self.id);
        let ended = ended?;
        match ended.how {
            How::Exited(0) => Ok(()),
            how => Err(PackageFault::of_command(order, &how, &ended.stdout, &ended.stderr)),
        }
    }
}

impl std::fmt::Display for Order {
    /// As somebody would type it, less what is the same in all.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = PathBuf::from(self.program);
        write!(f, "{}", name.file_name().unwrap_or_default().to_string_lossy())?;
        let mut words = self.arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-o" => drop(words.next()),
                word if word.starts_with('-') => {}
                word => write!(f, " {word}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
