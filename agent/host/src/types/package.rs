//! `Muster::Package`: a package of the server's distribution, by apt or dnf.
//!
//! ```text
//!  list ─▶ as wanted? ─▶ wait for the lock ─▶ list, mend ─▶ what is to be had, refresh lists ─▶ would others go? ─▶ change ─▶ list
//!                                                                     what fails restores what its own orders changed │
//! ```
//!
//! Each change is a separate run ([`Runner`]), which outlives the agent: the agent waits for a run that it
//! finds under way, and then looks at everything again. Reading uses bounded commands. There is no shell and
//! no question, and no file of an administrator is overwritten.
//!
//! After a crash in the middle, the next run takes the half-made state for the state before: it repairs that
//! and ends as wanted, or fails and reports this. Absent: repositories and their keys, which are files, and
//! packages installed along with one, which stay.

mod apt;
mod ask;
mod dnf;
mod error;
mod lock;
mod own;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_shared::model::{OnDelete, PACKAGE_BACK, Package, Presence};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Tools, named};
use crate::resource::{self, Resource};
use crate::run::{Program, RunEnd, RunId, Runner, Task};
use crate::watch::Places;
use apt::Apt;
use dnf::Dnf;
pub use error::PackageFault;
use own::WayBack;
pub use own::{OwnChange, OwnProgram, PutBack, SAYS, UNDONE};

type Result<T> = std::result::Result<T, PackageFault>;

/// Packages of this server.
#[derive(Clone, Debug)]
pub struct Packages {
    runs: Runner,
    /// The program whose package is changed with care.
    own: Option<OwnProgram>,
}

/// A package as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageBefore {
    /// `None` if the package was not installed.
    version: Option<String>,
    held: bool,
}

/// A package in its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The installed version, if any.
    pub version: Option<String>,
    /// The state was changed.
    pub touched: bool,
    /// The agent first completed the work of an interrupted dpkg or rpm.
    pub mended: bool,
}

/// The packages of the server, by name and, where there may be several, architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listing(BTreeMap<String, Installed>);

/// An installed, or partly installed, package.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Installed {
    /// The name without architecture.
    name: String,
    version: String,
    /// The manager's term for an incomplete package, such as `half-configured`.
    broken: Option<String>,
    held: bool,
}

/// The desired state of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Goal {
    version: Wanted,
    held: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Absent,
    Any,
    /// The version as given.
    Exactly(String),
}

/// A command that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    program: &'static str,
    arguments: Vec<String>,
    /// The resulting state of packages: by key of a [`Listing`] for apt, by name for dnf.
    gives: BTreeMap<String, Wanted>,
    /// The order holds a package, or ends the hold.
    is_mark: bool,
}

/// The package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
}

/// A job: its runs, one after the other under one name, and its time limit.
struct Work<'a> {
    runs: &'a Runner,
    id: &'a RunId,
    package: &'a str,
    until: Instant,
    /// For the package of this program.
    own: Option<(&'a OwnProgram, WayBack)>,
}

/// The package databases: a change of any package changes one of these files.
const STATUS: [&str; 2] = ["/var/lib/dpkg/status", "/var/lib/rpm/rpmdb.sqlite"];
/// Files beside the second: its journal, and dnf's list of held packages.
const WITH_RPM: [&str; 3] =
    ["/var/lib/rpm/rpmdb.sqlite-wal", "/etc/dnf/plugins/versionlock.list", "/etc/dnf/versionlock.toml"];

impl Resource for Package {
    type Before = PackageBefore;
    type Fault = PackageFault;

    async fn observe(&self, tools: &Tools) -> Result<PackageBefore> {
        tools.packages.observe(self).await
    }

    async fn apply(
        &self,
        tools: &Tools,
        run: &RunId,
        _: PackageBefore,
    ) -> Result<resource::Applied<PackageBefore>> {
        let applied = tools.packages.apply(run, self).await?;
        let version = applied.version.unwrap_or_default();
        let mended = "dpkg had been interrupted before, or rpm: what it had under way was ended";
        let warnings = applied.mended.then(|| format!("{}: {mended}", self.name)).into_iter().collect();
        let attributes = [("name", self.name.clone()), ("version", version)];
        Ok(resource::Applied { warnings, ..resource::Applied::new(attributes) })
    }

    async fn restore(&self, tools: &Tools, run: &RunId, before: PackageBefore) -> Result<()> {
        tools.packages.restore(run, self, &before).await.map(drop)
    }

    async fn check(&self, tools: &Tools) -> Result<Vec<String>> {
        Ok(named(&self.name, tools.packages.check(self).await?))
    }

    fn places(&self, _tools: &Tools) -> Places {
        Places { files: STATUS.map(PathBuf::from).into(), unit: None }
    }

    fn decisive(&self) -> Vec<PathBuf> {
        match STATUS.iter().any(|file| fs::exists(file).unwrap_or(false)) {
            true => STATUS.iter().chain(&WITH_RPM).map(PathBuf::from).collect(),
            false => Vec::new(),
        }
    }
}

impl Packages {
    /// Packages of this server; commands that change something are `runs`.
    pub fn new(runs: Runner) -> Self {
        Self { runs, own: None }
    }

    /// The package that brought this program is kept in another version only if that reaches the controller.
    pub fn with_own(self, own: OwnProgram) -> Self {
        Self { own: Some(own), ..self }
    }

    /// The present state, for [`Packages::restore`].
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn observe(&self, package: &Package) -> Result<PackageBefore> {
        let manager = Manager::here()?;
        let listing = manager.list(&package.name).await?;
        let found = listing.find(&package.name);
        // An incomplete package was left by something else; restoring it would be pointless.
        let whole = found.filter(|found| found.broken.is_none());
        Ok(PackageBefore {
            version: whole.map(|whole| whole.version.clone()),
            held: found.is_some_and(|found| found.held),
        })
    }

    /// Makes the desired state and reads it back.
    ///
    /// # Errors
    /// The desired state was not reached. Changes were undone, unless the error says otherwise.
    pub async fn apply(&self, id: &RunId, package: &Package) -> Result<Applied> {
        self.reach(id, package, &Goal::of(package)).await
    }

    /// Restores the state before Muster. Returns whether anything changed.
    ///
    /// # Errors
    /// The state was not restored.
    pub async fn restore(&self, id: &RunId, package: &Package, before: &PackageBefore) -> Result<bool> {
        let ended = self.runs.wait_out(id).await?;
        if let Some(fault) = ended.and_then(|ended| own::undone(&package.name, &ended)) {
            return Err(fault);
        }
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
            // An upgrade made by others stays.
            (Some(_), Some(is)) if !ours(is) => Wanted::Any,
            (Some(version), Some(_)) => Wanted::Exactly(version.clone()),
            (Some(version), None) => {
                let there = manager.offered(&package.name).await?;
                let is_there = there.iter().any(|offered| offered == version);
                if is_there { Wanted::Exactly(version.clone()) } else { Wanted::Any }
            }
        };
        // A hold set for Muster ends in any case.
        let held = package.held.map(|_| before.held);
        Ok(self.reach(id, package, &Goal { version, held }).await?.touched)
    }

    /// Compares and changes nothing. Returns the differences in words.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn check(&self, package: &Package) -> Result<Vec<String>> {
        let manager = Manager::here()?;
        let listing = manager.list(&package.name).await?;
        let mut differ = manager.differences(&listing, &package.name, &Goal::of(package));
        if self.own_put_back(manager, &package.name).await?.is_some() {
            differ.push("its program is that of an earlier version".into());
        }
        Ok(differ)
    }

    /// The program of this agent, if this is its package, and an earlier program had to be restored.
    async fn own_put_back(&self, manager: Manager, name: &str) -> Result<Option<&OwnProgram>> {
        match self.own.as_ref().filter(|own| own.is_put_back()) {
            Some(own) if manager.is_own(name).await? => Ok(Some(own)),
            _ => Ok(None),
        }
    }

    async fn reach(&self, id: &RunId, package: &Package, goal: &Goal) -> Result<Applied> {
        let name = package.name.as_str();
        // A run started by an earlier agent comes to its end, however it ends.
        let ended = self.runs.wait_out(id).await?;
        if let Some(fault) = ended.and_then(|ended| own::undone(name, &ended)) {
            return Err(fault);
        }
        let manager = Manager::here()?;
        let was = manager.list(name).await?;
        let found = |listing: &Listing| listing.find(name).map(|found| found.version.clone());
        if manager.differences(&was, name, goal).is_empty() {
            if self.own_put_back(manager, name).await?.is_some() {
                return Err(PackageFault::PutBack { package: name.to_owned() });
            }
            return Ok(Applied { version: found(&was), touched: false, mended: false });
        }
        let until = Instant::now() + Duration::from_secs(package.timeout.into());
        let mut work = Work { runs: &self.runs, id, package: name, until, own: None };
        lock::wait(manager.locks(), package.timeout, until).await?;
        // Changes made by others while the agent waited stay.
        let (was, mended) = manager.mend(&work, manager.list(name).await?, goal).await?;
        if was.find(name).is_some() && manager.is_own(name).await? {
            if goal.version == Wanted::Absent {
                return Err(PackageFault::Own { package: name.to_owned() });
            }
            work.own = self.own.as_ref().zip(WayBack::to(manager, &was, name));
        }
        let mut ran = Vec::new();
        if let Err(fault) = Self::change(manager, &work, &was, goal, &mut ran).await {
            return Err(Self::put_back(manager, &work, &was, &ran, fault).await);
        }
        let is = manager.list(name).await?;
        let differ = manager.differences(&is, name, goal);
        if differ.is_empty() {
            return Ok(Applied { version: found(&is), touched: mended || !ran.is_empty(), mended });
        }
        let fault = PackageFault::Differs { package: name.to_owned(), differ: differ.join(", ") };
        Err(Self::put_back(manager, &work, &was, &ran, fault).await)
    }

    /// Changes by the present lists, and refreshes them if a version has left the repository since. `ran`:
    /// the started orders.
    async fn change(
        manager: Manager,
        work: &Work<'_>,
        was: &Listing,
        goal: &Goal,
        ran: &mut Vec<Order>,
    ) -> Result<()> {
        let mut orders = manager.plan(work, was, goal).await?.into_iter();
        let mut is_new = false;
        while let Some(order) = orders.next() {
            ran.push(order.clone());
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

    /// After `fault`: undoes the changes of the orders that `ran`, as far as possible.
    async fn put_back(
        manager: Manager,
        work: &Work<'_>,
        was: &Listing,
        ran: &[Order],
        fault: PackageFault,
    ) -> PackageFault {
        if ran.is_empty() || matches!(fault, PackageFault::Undone { .. }) {
            return fault;
        }
        let package = work.package;
        let until = Instant::now() + Duration::from_secs(PACKAGE_BACK.into());
        let work = Work { until, own: None, ..*work };
        let Ok(is) = manager.list(package).await else { return fault };
        let (was, is) = manager.changed_by(ran, was, &is, package);
        if is == was {
            return fault;
        }
        // The remaining differences show what this did not reach.
        let _ = manager.settle(&work).await;
        for order in manager.back(&was, &is, package) {
            if let Some(order) = manager.sparing(order).await {
                let _ = work.run(&order).await;
            }
        }
        let Ok(mut now) = manager.list(package).await else { return fault };
        now.0.retain(|key, _| was.0.contains_key(key) || is.0.contains_key(key));
        fault.after(now.left_of(&was))
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
    /// The package manager of this server. On a server with both, the distribution's own has the packages.
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

    /// Completes an interrupted run, whatever its origin. Returns the packages afterwards, and whether there
    /// was such a run.
    async fn mend(self, work: &Work<'_>, was: Listing, goal: &Goal) -> Result<(Listing, bool)> {
        match self {
            Self::Apt => Apt::mend(work, was).await,
            Self::Dnf => Dnf::mend(work, was, goal).await,
        }
    }

    async fn plan(self, work: &Work<'_>, is: &Listing, goal: &Goal) -> Result<Vec<Order>> {
        match self {
            Self::Apt => Apt::plan(work, is, goal).await,
            Self::Dnf => Dnf::plan(work, is, goal).await,
        }
    }

    /// Whether it is the package of the running program.
    async fn is_own(self, name: &str) -> Result<bool> {
        let Ok(program) = fs::read_link("/proc/self/exe") else { return Ok(false) };
        // A program that was replaced since still belongs to its package.
        let program = program.to_string_lossy();
        let program = program.strip_suffix(" (deleted)").unwrap_or(&program);
        let owners = match self {
            Self::Apt => Apt::owners(program).await?,
            Self::Dnf => Dnf::owners(program).await?,
        };
        Ok(owners.iter().any(|owner| owner == name))
    }

    /// An interrupted order of ours must not block the next one; this runs no script.
    async fn settle(self, work: &Work<'_>) -> Result<()> {
        match self {
            Self::Apt => Apt::settle(work).await,
            Self::Dnf => Ok(()),
        }
    }

    /// The differences between `was` and `is` that the orders that `ran` made, without changes of others.
    fn changed_by(self, ran: &[Order], was: &Listing, is: &Listing, name: &str) -> (Listing, Listing) {
        let gives: BTreeMap<&String, &Wanted> = ran.iter().flat_map(|order| &order.gives).collect();
        let are_marked = ran.iter().any(|order| order.is_mark);
        let (mut before, mut now) = (Listing::default(), Listing::default());
        for key in was.0.keys().chain(is.0.keys().filter(|key| !was.0.contains_key(*key))) {
            let (old, new) = (was.0.get(key), is.0.get(key));
            let Some(either) = new.or(old) else { continue };
            let given = gives.get(if self == Self::Apt { key } else { &either.name });
            let is_ours = given.is_some_and(|given| match (given, new) {
                // Incomplete as before, or incomplete without a version yet.
                (_, Some(Installed { broken: Some(_), version, .. }))
                    if version.is_empty() || old.is_some_and(|old| old.version == *version) =>
                {
                    true
                }
                (Wanted::Exactly(given), Some(new)) => new.version == *given,
                (Wanted::Any, Some(_)) | (Wanted::Absent, None) => true,
                _ => false,
            });
            let is_marked = are_marked && either.name == name;
            let mut old = old.cloned();
            match (&mut old, new) {
                // The version was changed by others, the hold by Muster.
                (Some(old), Some(new)) if is_marked && !is_ours => {
                    *old = Installed { held: old.held, ..new.clone() }
                }
                (Some(old), Some(new)) if !is_marked && is_ours => old.held = new.held,
                _ if !is_ours => continue,
                _ => {}
            }
            before.0.extend(old.map(|old| (key.clone(), old)));
            now.0.extend(new.map(|new| (key.clone(), new.clone())));
        }
        (before, now)
    }

    /// The orders that turn `is` back into `was`, as far as versions are available.
    fn back(self, was: &Listing, is: &Listing, name: &str) -> Vec<Order> {
        match self {
            Self::Apt => apt::back(was, is, name),
            Self::Dnf => dnf::back(was, is, name),
        }
    }

    /// The order, restricted to removing only the packages that it names.
    async fn sparing(self, order: Order) -> Option<Order> {
        match self {
            Self::Apt => apt::sparing(order).await,
            // dnf removes by name; the packages that depend on those were looked up first.
            Self::Dnf => dnf::sparing(order).await,
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

    /// The differences from `was`, in words.
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
    /// Runs the order to its end, in a separate unit.
    async fn run(&self, order: &Order) -> Result<()> {
        let timeout = self.until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let own = self.own.as_ref().filter(|_| order.gives.contains_key(self.package));
        let (arguments, timeout) = match own {
            Some((own, way_back)) => own.order(order, timeout, way_back),
            None => {
                let program = std::iter::once(OsString::from(order.program));
                (program.chain(order.arguments.iter().map(OsString::from)).collect(), timeout)
            }
        };
        let task = Task {
            description: format!("package {}", self.package),
            program: Program::Arguments(arguments),
            environment: apt::ENVIRONMENT.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            outputs: Vec::new(),
            timeout,
            // The present state is looked at first.
            again: false,
        };
        let ended = self.runs.run(self.id, &task).await;
        self.runs.forget(self.id);
        let ended = ended?;
        if let Some(fault) = own.and_then(|_| own::undone(self.package, &ended)) {
            return Err(fault);
        }
        match ended.how {
            RunEnd::Exited(0) => Ok(()),
            how => Err(PackageFault::of_command(order, &how, &ended.stdout, &ended.stderr)),
        }
    }
}

impl std::fmt::Display for Order {
    /// The command as an operator would type it, without the options common to all.
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
