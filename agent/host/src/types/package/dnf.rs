//! The commands of dnf and rpm, and the parsing of their output.

use std::collections::BTreeMap;

use super::ask::ask;
use super::error::last_lines;
use super::{Goal, Installed, Listing, Order, PackageFault, Result, Wanted, Work};

pub(super) const DNF: &str = "/usr/bin/dnf";
pub(super) const RPM: &str = "/usr/bin/rpm";
/// rpm's locks: the present default path of its database, and the earlier one. dnf waits for other dnf
/// processes itself.
pub(super) const LOCKS: [&str; 2] = ["/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock"];
/// The last field is a number that grows with each installation.
const FORMAT: &str = "--qf=%{NAME}\t%{ARCH}\t%|EPOCH?{%{EPOCH}}:{0}|:%{VERSION}-%{RELEASE}\t%{DBINSTANCE}\n";
/// dnf 4 ends each line itself, dnf 5 does not: so some lines may be empty.
const OFFERED: &str = "--qf=%{name} %{epoch}:%{version}-%{release}\n";
/// Options of all changes: no question, and no other package is upgraded or removed. Not quiet, since dnf
/// then hides the output of packages' scripts.
const CHANGE: [&str; 3] = ["-y", "--setopt=clean_requirements_on_remove=False", "--setopt=timeout=30"];

/// The package manager of the Fedora family.
pub(super) struct Dnf;

impl Dnf {
    pub(super) async fn list(name: &str) -> Result<Listing> {
        let answer = ask(RPM, &["-qa", FORMAT]).await?;
        if !answer.is_success {
            let said = last_lines("", &answer.stderr).join(" | ");
            return Err(PackageFault::Answer { program: RPM, said });
        }
        let (mut listing, older) = parse_list(&answer.stdout);
        let is_there = listing.find(name).is_some();
        if older.iter().any(|(_, older)| older.name == name) && Self::is_half_upgraded(name).await? {
            for installed in listing.0.values_mut().filter(|installed| installed.name == name) {
                installed.broken = Some("half upgraded".into());
            }
        }
        if is_there && parse_locks(&ask(DNF, &["-q", "versionlock", "list"]).await?.stdout, name) {
            for installed in listing.0.values_mut().filter(|installed| installed.name == name) {
                installed.held = true;
            }
        }
        Ok(listing)
    }

    /// False for kernels and other packages that may be installed in several versions.
    async fn is_half_upgraded(name: &str) -> Result<bool> {
        let answer = ask(DNF, &["-q", "repoquery", "--duplicates", name]).await?;
        Ok(!answer.stdout.trim().is_empty())
    }

    /// Completes an interrupted transaction, which leaves the new packages beside those that it was to
    /// remove. The remaining one is installed once more, since its scripts may not have finished, and
    /// then the older one is removed. The older one shows the interruption, so it stays while the first
    /// step fails.
    pub(super) async fn mend(work: &Work<'_>, was: Listing, goal: &Goal) -> Result<(Listing, bool)> {
        let package = work.package;
        let Some(found) = was.find(package).filter(|found| found.broken.is_some()) else {
            return Ok((was, false));
        };
        let mut is_whole = false;
        loop {
            // Packages that dnf has removed along with it need no further work.
            let (_, older) = parse_list(&ask(RPM, &["-q", FORMAT, package]).await?.stdout);
            let Some(order) = mending(found, &older, goal, is_whole) else { break };
            work.run(&order).await?;
            if order.program == RPM {
                break;
            }
            is_whole = true;
        }
        Ok((Self::list(package).await?, true))
    }

    pub(super) async fn offered(name: &str) -> Result<Vec<String>> {
        let answer = ask(DNF, &["-q", "repoquery", "--available", "--showduplicates", OFFERED, name]).await?;
        if answer.is_success {
            return Ok(parse_offered(&answer.stdout, name));
        }
        let said = last_lines("", &answer.stderr).join(" | ");
        Err(PackageFault::Answer { program: DNF, said })
    }

    /// The packages that own a file.
    pub(super) async fn owners(file: &str) -> Result<Vec<String>> {
        let answer = ask(RPM, &["-qf", "--qf=%{NAME}\n", file]).await?;
        let names = answer.stdout.lines().filter(|_| answer.is_success);
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) async fn plan(work: &Work<'_>, is: &Listing, goal: &Goal) -> Result<Vec<Order>> {
        let package = work.package;
        let found = is.find(package);
        let is_held = found.is_some_and(|found| found.held);
        let changed = match (&goal.version, found) {
            (Wanted::Absent, None) | (Wanted::Any, Some(_)) => None,
            (Wanted::Exactly(version), Some(is)) if is_version(&is.version, version) => None,
            (Wanted::Absent, Some(_)) => {
                let answer = ask(RPM, &["-e", "--test", package]).await?;
                let others = parse_needed(&answer.stderr);
                if !others.is_empty() {
                    return Err(PackageFault::Others { what: format!("remove {package}"), others });
                }
                Some(give(["remove", package], package, Wanted::Absent))
            }
            (wanted, _) => {
                let offered = Self::offered(package).await?;
                let none = || PackageFault::NoPackage { package: package.to_owned(), refresh: None };
                let Wanted::Exactly(version) = wanted else {
                    offered.first().ok_or_else(none)?;
                    let held = (goal.held == Some(true)).then(|| lock("add", package));
                    let install = give(["install", package], package, Wanted::Any);
                    return Ok([install].into_iter().chain(held).collect());
                };
                match offered.iter().find(|offered| is_version(offered, version)) {
                    Some(offered) => {
                        let given = Wanted::Exactly(offered.clone());
                        Some(give(["install", &spec(package, offered)], package, given))
                    }
                    None if offered.is_empty() => return Err(none()),
                    None => {
                        return Err(PackageFault::NoVersion {
                            package: package.to_owned(),
                            version: version.clone(),
                            offered,
                            refresh: None,
                        });
                    }
                }
            }
        };
        let mut orders = Vec::new();
        if let Some(changed) = changed {
            if let (Some(found), true) = (found, is_held) {
                if goal.held.is_none() {
                    let version = found.version.clone();
                    return Err(PackageFault::Held { package: package.to_owned(), version });
                }
                orders.push(lock("delete", package));
            }
            orders.push(changed);
        }
        if goal.version != Wanted::Absent {
            match goal.held {
                Some(true) if !is_held || !orders.is_empty() => orders.push(lock("add", package)),
                Some(false) if is_held && orders.is_empty() => orders.push(lock("delete", package)),
                _ => {}
            }
        }
        Ok(orders)
    }
}

/// The next order for a half-upgraded package. `is_whole`: the remaining one has been installed once more.
pub(super) fn mending(
    found: &Installed,
    older: &[(String, Installed)],
    goal: &Goal,
    is_whole: bool,
) -> Option<Order> {
    let stays = match &goal.version {
        Wanted::Absent => false,
        Wanted::Any => true,
        Wanted::Exactly(version) => is_version(&found.version, version),
    };
    if stays && !is_whole {
        return Some(change(["reinstall", &spec(&found.name, &found.version)]));
    }
    if older.is_empty() {
        return None;
    }
    let of_one = |(key, older): &(String, Installed)| {
        let architecture = key.strip_prefix(older.name.as_str()).unwrap_or_default();
        format!("{}{architecture}", spec(&older.name, without_epoch(&older.version)))
    };
    let words = ["-e", "--nodeps"].map(str::to_owned).into_iter();
    let arguments = words.chain(older.iter().map(of_one)).collect();
    Some(Order { program: RPM, arguments, gives: BTreeMap::new(), is_mark: false })
}

/// The orders that restore `was`, as far as the repositories allow.
pub(super) fn back(was: &Listing, is: &Listing, name: &str) -> Vec<Order> {
    let mut orders = Vec::new();
    let fresh: Vec<&str> = is.0.keys().filter(|key| !was.0.contains_key(*key)).map(String::as_str).collect();
    if !fresh.is_empty() {
        orders.push(change(["remove"].into_iter().chain(fresh)));
    }
    let other = |(key, before): &(&String, &Installed)| {
        is.0.get(*key).is_none_or(|now| now.version != before.version)
    };
    let old: Vec<String> =
        was.0.iter().filter(other).map(|(_, before)| spec(&before.name, &before.version)).collect();
    if !old.is_empty() {
        orders.push(change(["install"].into_iter().chain(old.iter().map(String::as_str))));
    }
    let held = |listing: &Listing| listing.find(name).is_some_and(|found| found.held);
    match (held(was), held(is)) {
        (true, false) => orders.push(lock("add", name)),
        (false, true) => orders.push(lock("delete", name)),
        _ => {}
    }
    orders
}

/// The order, unless it would remove a package that others depend on by now.
pub(super) async fn sparing(order: Order) -> Option<Order> {
    let mut words = order.arguments.iter().skip(CHANGE.len()).map(String::as_str);
    if words.next() != Some("remove") {
        return Some(order);
    }
    let words: Vec<&str> = ["-e", "--test"].into_iter().chain(words).collect();
    let answer = ask(RPM, &words).await.ok()?;
    answer.is_success.then_some(order)
}

/// `wanted`: a version with epoch and release, or without one or both.
pub(super) fn is_version(installed: &str, wanted: &str) -> bool {
    let without_epoch = without_epoch(installed);
    let version = without_epoch.rsplit_once('-').map_or(without_epoch, |(version, _)| version);
    let with_epoch = installed.rsplit_once('-').map_or(installed, |(version, _)| version);
    [installed, without_epoch, version, with_epoch].contains(&wanted)
}

fn without_epoch(version: &str) -> &str {
    version.split_once(':').map_or(version, |(_, rest)| rest)
}

/// dnf's notation for one version of a package.
fn spec(package: &str, version: &str) -> String {
    format!("{package}-{version}")
}

fn change<'a>(words: impl IntoIterator<Item = &'a str>) -> Order {
    let arguments = CHANGE.into_iter().chain(words).map(str::to_owned).collect();
    Order { program: DNF, arguments, gives: BTreeMap::new(), is_mark: false }
}

/// dnf's answer is not reliable about further packages, so those stay.
fn give<'a>(words: impl IntoIterator<Item = &'a str>, package: &str, given: Wanted) -> Order {
    Order { gives: BTreeMap::from([(package.to_owned(), given)]), ..change(words) }
}

fn lock(verb: &str, package: &str) -> Order {
    Order { is_mark: true, ..change(["versionlock", verb, package]) }
}

/// The output of packages' scripts within a change's output, and rpm's messages about them: dnf 4 indents its
/// own lines by two spaces.
pub(super) fn of_scripts(stdout: &str) -> String {
    let begun = stdout.lines().skip_while(|line| *line != "Running transaction").skip(1);
    let until_verified = begun.take_while(|line| !line.starts_with("  Verifying"));
    until_verified.filter(|line| !line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

/// Parses [`FORMAT`]: the current package of each name and architecture, which is the one installed last, and
/// the further ones beside it, by the same key.
pub(super) fn parse_list(text: &str) -> (Listing, Vec<(String, Installed)>) {
    let mut rows: Vec<(u64, String, Installed)> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(architecture), Some(version), instance) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let instance = instance.and_then(|instance| instance.parse().ok()).unwrap_or_default();
        let installed = Installed { name: name.into(), version: version.into(), broken: None, held: false };
        rows.push((instance, format!("{name}.{architecture}"), installed));
    }
    rows.sort_by_key(|(instance, ..)| *instance);
    let (mut listing, mut older) = (BTreeMap::new(), Vec::new());
    for (_, key, installed) in rows {
        older.extend(listing.insert(key.clone(), installed).map(|before| (key, before)));
    }
    (Listing(listing), older)
}

/// Versions of the package with exactly this name: dnf also lists packages that provide it.
pub(super) fn parse_offered(text: &str, package: &str) -> Vec<String> {
    let versions = text.lines().filter_map(|line| line.trim().split_once(' '));
    let mut offered = Vec::new();
    for version in versions.filter(|(name, _)| *name == package).map(|(_, version)| version.to_owned()) {
        if !offered.contains(&version) {
            offered.push(version);
        }
    }
    offered
}

/// `NAME-EPOCH:VERSION-RELEASE.*` in dnf 4, `Package name: NAME` in dnf 5.
pub(super) fn parse_locks(text: &str, package: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Package name: ") {
            return name == package;
        }
        let mut parts = line.rsplitn(3, '-').skip(2);
        parts.next() == Some(package)
    })
}

/// The packages that depend on it, according to rpm's test.
pub(super) fn parse_needed(text: &str) -> Vec<String> {
    let needed = text.lines().filter_map(|line| line.split_once(" is needed by (installed) "));
    needed.map(|(_, other)| other.trim().to_owned()).collect()
}
