//! The commands of apt and dpkg, and the parsing of their output.

use std::collections::BTreeMap;
use std::fs;

use super::ask::ask;
use super::error::last_lines;
use super::{Goal, Installed, Listing, Order, PackageFault, Result, Wanted, Work};

pub(super) const GET: &str = "/usr/bin/apt-get";
pub(super) const QUERY: &str = "/usr/bin/dpkg-query";
const CACHE: &str = "/usr/bin/apt-cache";
const MARK: &str = "/usr/bin/apt-mark";
const DPKG: &str = "/usr/bin/dpkg";
/// dpkg's interrupted work, in numbered files.
const UPDATES: &str = "/var/lib/dpkg/updates";
/// Programs that change packages take the first; dpkg alone takes the second.
pub(super) const LOCKS: [&str; 2] = ["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"];
/// No package may ask a question, and output is in the language that is parsed here.
pub(super) const ENVIRONMENT: [(&str, &str); 7] = [
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DEBIAN_PRIORITY", "critical"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("NEEDRESTART_SUSPEND", "1"),
    ("UCF_FORCE_CONFFOLD", "1"),
    ("LC_ALL", "C.UTF-8"),
    ("LANGUAGE", "C"),
];
/// A field each, as [`parse_list`] reads them.
const FORMAT: &str = "-f=${Package}\t${Architecture}\t${db:Status-Want}\t${db:Status-Eflag}\t${db:Status-Status}\t${Version}\n";
/// Options of all changes: no question, and files of an administrator stay. The lock was waited for; the lock
/// option covers a program that takes it at that moment.
const CHANGE: [&str; 14] = [
    "-y",
    "-qq",
    "-o",
    "DPkg::Lock::Timeout=60",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "-o",
    "Dpkg::Use-Pty=0",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
];

/// The package manager of the Debian family.
pub(super) struct Apt;

impl Apt {
    pub(super) async fn list() -> Result<Listing> {
        let answer = ask(QUERY, &["-W", FORMAT]).await?;
        if !answer.is_success {
            let said = last_lines("", &answer.stderr).join(" | ");
            return Err(PackageFault::Answer { program: QUERY, said });
        }
        Ok(parse_list(&answer.stdout))
    }

    pub(super) async fn offered(name: &str) -> Result<Vec<String>> {
        Ok(parse_policy(&ask(CACHE, &["policy", name]).await?.stdout).1)
    }

    /// Completes interrupted work, before which dpkg refuses everything else.
    pub(super) async fn mend(work: &Work<'_>, was: Listing) -> Result<(Listing, bool)> {
        if !is_interrupted() {
            return Ok((was, false));
        }
        let words = ["--configure", "-a", "--force-confdef", "--force-confold"];
        let mended = work.run(&order(DPKG, &[], words)).await;
        // A package that cannot be configured does not block others.
        if is_interrupted() {
            mended?;
        }
        Ok((Self::list().await?, true))
    }

    /// As [`Apt::mend`], but configures nothing, since that may be what took too long. dpkg completes
    /// interrupted work whenever it may write, here for an empty selection.
    pub(super) async fn settle(work: &Work<'_>) -> Result<()> {
        if is_interrupted() { work.run(&order(DPKG, &[], ["--set-selections"])).await } else { Ok(()) }
    }

    /// The packages that own a file.
    pub(super) async fn owners(file: &str) -> Result<Vec<String>> {
        Ok(parse_owners(&ask(QUERY, &["-S", file]).await?.stdout, file))
    }

    pub(super) async fn plan(work: &Work<'_>, is: &Listing, goal: &Goal) -> Result<Vec<Order>> {
        let found = is.find(work.package);
        let is_held = found.is_some_and(|found| found.held);
        let changed = match (&goal.version, found) {
            (Wanted::Absent, None) => None,
            (Wanted::Absent, Some(_)) => Some(change(["remove".into(), work.package.to_owned()])),
            (Wanted::Any, Some(Installed { broken: None, .. })) => None,
            (Wanted::Exactly(version), Some(Installed { broken: None, version: is, .. }))
                if is == version =>
            {
                None
            }
            (wanted, found) => {
                let what = what(work, wanted, found).await?;
                let mut words = vec!["install".to_owned(), "--no-remove".to_owned()];
                if matches!(wanted, Wanted::Exactly(_)) {
                    words.push("--allow-downgrades".into());
                }
                if found.and_then(|found| found.broken.as_ref()).is_some() {
                    words.push("--reinstall".into());
                }
                words.push(what);
                Some(change(words))
            }
        };
        let mark = |verb| mark(verb, work.package);
        let mut orders = Vec::new();
        if let Some(mut changed) = changed {
            if let (Some(found), true) = (found, is_held) {
                if goal.held.is_none() {
                    let (package, version) = (work.package.to_owned(), found.version.clone());
                    return Err(PackageFault::Held { package, version });
                }
                orders.push(mark("unhold"));
            }
            changed.gives = simulate(work, &changed).await?;
            orders.push(changed);
        }
        if goal.version != Wanted::Absent {
            match goal.held {
                Some(true) if !is_held || !orders.is_empty() => orders.push(mark("hold")),
                Some(false) if is_held && orders.is_empty() => orders.push(mark("unhold")),
                _ => {}
            }
        }
        Ok(orders)
    }
}

/// The package for apt, with its version if one is wanted; refreshes the lists if they lack it.
async fn what(work: &Work<'_>, wanted: &Wanted, found: Option<&Installed>) -> Result<String> {
    let package = work.package.to_owned();
    let named = |policy: &(Option<String>, Vec<String>)| match wanted {
        Wanted::Exactly(version) => policy.1.contains(version).then(|| format!("{package}={version}")),
        Wanted::Any | Wanted::Absent => {
            // A broken package stays as it is if no other version is offered.
            let is_there = policy.0.is_some() || (found.is_some() && !policy.1.is_empty());
            is_there.then(|| package.clone())
        }
    };
    let policy = parse_policy(&ask(CACHE, &["policy", &package]).await?.stdout);
    if let Some(what) = named(&policy) {
        return Ok(what);
    }
    let refresh = work.run(&refresh()).await.err().map(|fault| fault.to_string());
    let policy = parse_policy(&ask(CACHE, &["policy", &package]).await?.stdout);
    match (named(&policy), wanted) {
        (Some(what), _) => Ok(what),
        (None, Wanted::Exactly(version)) if !policy.1.is_empty() => {
            let version = version.clone();
            Err(PackageFault::NoVersion { package, version, offered: policy.1, refresh })
        }
        (None, _) => Err(PackageFault::NoPackage { package, refresh }),
    }
}

/// Lists of what there is.
pub(super) fn refresh() -> Order {
    change(["update", "-o", "APT::Update::Error-Mode=any"].map(str::to_owned))
}

/// The changes that apt would make, by name. An impossible change fails here, with nothing changed.
async fn simulate(work: &Work<'_>, order: &Order) -> Result<BTreeMap<String, Wanted>> {
    // We report these ourselves, with names.
    let words = order.arguments.iter().map(String::as_str).filter(|word| *word != "--no-remove");
    // The package's own hold ends with the order; holds of others then fail the order, with nothing changed.
    let words: Vec<&str> = ["-s", "--allow-change-held-packages"].into_iter().chain(words).collect();
    let answer = ask(GET, &words).await?;
    if !answer.is_success {
        return Err(PackageFault::Command {
            command: order.to_string(),
            how: "cannot be done".into(),
            lines: last_lines(&answer.stdout, &answer.stderr),
            permanent: true,
        });
    }
    let others = parse_removed(&answer.stdout, work.package);
    if others.is_empty() {
        return Ok(parse_changes(&answer.stdout));
    }
    let verb = if order.arguments.iter().any(|word| word == "remove") { "remove" } else { "install" };
    Err(PackageFault::Others { what: format!("{verb} {}", work.package), others })
}

/// The orders that restore `was`, as far as the repositories allow.
pub(super) fn back(was: &Listing, is: &Listing, name: &str) -> Vec<Order> {
    let (mut gives, mut fresh, mut orders) = (BTreeMap::new(), Vec::new(), Vec::new());
    for key in is.0.keys().filter(|key| !was.0.contains_key(*key)) {
        gives.insert(key.clone(), Wanted::Absent);
        fresh.push(key.clone());
    }
    for (key, before) in was.0.iter().filter(|(_, before)| before.broken.is_none()) {
        let same = |now: &Installed| now.version == before.version && now.broken.is_none();
        if !is.0.get(key).is_some_and(same) {
            gives.insert(key.clone(), Wanted::Exactly(before.version.clone()));
        }
    }
    if !gives.is_empty() {
        orders.push(give(&[], gives));
    }
    if !fresh.is_empty() {
        // Works also where apt gives up for missing versions; packages that are already gone do not matter,
        // and dependencies of others stay.
        let verb = ["--remove", "--force-remove-reinstreq"].map(str::to_owned);
        orders.push(order(DPKG, &[], verb.into_iter().chain(fresh)));
    }
    let held = |listing: &Listing| listing.find(name).is_some_and(|found| found.held);
    match (held(was), held(is)) {
        (true, false) => orders.push(mark("hold", name)),
        (false, true) if was.find(name).is_some() => orders.push(mark("unhold", name)),
        _ => {}
    }
    orders
}

/// The order for these packages at once, removed or in an earlier version.
fn give(options: &[&str], gives: BTreeMap<String, Wanted>) -> Order {
    let verb = ["install", "--allow-downgrades", "--allow-change-held-packages"];
    let words = gives.iter().map(|(key, given)| match given {
        Wanted::Absent => format!("{key}-"),
        Wanted::Any => key.clone(),
        Wanted::Exactly(version) => format!("{key}={version}"),
    });
    let words = verb.iter().chain(options).map(|word| (*word).to_owned()).chain(words);
    Order { gives: gives.clone(), ..change(words) }
}

/// The order of [`back`], unless it would remove packages that others have installed since.
pub(super) async fn sparing(order: Order) -> Option<Order> {
    if order.program != GET {
        return Some(order);
    }
    let words: Vec<&str> = ["-s"].into_iter().chain(order.arguments.iter().map(String::as_str)).collect();
    let answer = ask(GET, &words).await.ok()?;
    spared(order, answer.is_success.then_some(&answer.stdout))
}

/// `simulated`: the simulated changes; `None` if the order is impossible.
pub(super) fn spared(order: Order, simulated: Option<&String>) -> Option<Order> {
    let is_named = |(key, given): (&String, &Wanted)| {
        *given != Wanted::Absent || order.gives.get(key) == Some(&Wanted::Absent)
    };
    if simulated.is_some_and(|text| parse_changes(text).iter().all(is_named)) {
        return Some(order);
    }
    let mut gives = order.gives;
    gives.retain(|_, given| *given != Wanted::Absent);
    (!gives.is_empty()).then(|| give(&["--no-remove"], gives))
}

fn mark(verb: &str, package: &str) -> Order {
    Order { is_mark: true, ..order(MARK, &[], [verb, package]) }
}

fn is_interrupted() -> bool {
    let numbered = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let is_one = |entry: fs::DirEntry| entry.file_name().to_str().is_some_and(numbered);
    fs::read_dir(UPDATES).is_ok_and(|mut files| files.any(|file| file.is_ok_and(is_one)))
}

fn change(words: impl IntoIterator<Item = String>) -> Order {
    order(GET, &CHANGE, words)
}

fn order(
    program: &'static str,
    options: &[&str],
    words: impl IntoIterator<Item = impl Into<String>>,
) -> Order {
    let options = options.iter().map(|option| (*option).to_owned());
    let arguments = options.chain(words.into_iter().map(Into::into)).collect();
    Order { program, arguments, gives: BTreeMap::new(), is_mark: false }
}

/// Parses [`FORMAT`]. A package that left only configuration files counts as absent.
pub(super) fn parse_list(text: &str) -> Listing {
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let row: [&str; 6] = std::array::from_fn(|_| fields.next().unwrap_or_default());
        (!row[0].is_empty()).then_some(row)
    });
    let rows: Vec<[&str; 6]> = rows.collect();
    let native = rows.iter().find(|row| row[0] == "dpkg").map(|row| row[1]);
    let mut listing = BTreeMap::new();
    for [name, architecture, want, eflag, status, version] in rows {
        if matches!(status, "not-installed" | "config-files" | "") {
            continue;
        }
        let is_own = architecture == "all" || native.is_none_or(|native| native == architecture);
        let key = if is_own { name.to_owned() } else { format!("{name}:{architecture}") };
        // Pending triggers of other packages do not count.
        let is_whole =
            matches!(status, "installed" | "triggers-awaited" | "triggers-pending") && eflag == "ok";
        let broken = (!is_whole).then(|| match status {
            "installed" => "to be installed again".to_owned(),
            status => status.to_owned(),
        });
        let held = want == "hold";
        listing.insert(key, Installed { name: name.into(), version: version.into(), broken, held });
    }
    Listing(listing)
}

/// The candidate and the available versions, the newest first.
pub(super) fn parse_policy(text: &str) -> (Option<String>, Vec<String>) {
    let candidate = text.lines().find_map(|line| line.strip_prefix("  Candidate: "));
    let candidate = candidate.filter(|candidate| *candidate != "(none)").map(str::to_owned);
    let (mut versions, mut last) = (Vec::new(), None);
    for line in text.lines().skip_while(|line| *line != "  Version table:").skip(1) {
        let is_version = (line.starts_with("     ") || line.starts_with(" *** "))
            && line.as_bytes().get(5).is_some_and(|b| *b != b' ');
        let mut words = line.get(5..).unwrap_or_default().split_whitespace();
        if is_version {
            last = words.next();
        } else if words.nth(1).is_some_and(|source| source != "/var/lib/dpkg/status")
            && let Some(version) = last.take()
        {
            // The version has a source.
            versions.push(version.to_owned());
        }
    }
    (candidate.filter(|candidate| versions.contains(candidate)), versions)
}

/// Packages other than `own` that a simulation removes.
pub(super) fn parse_removed(text: &str, own: &str) -> Vec<String> {
    let removed = text.lines().filter_map(|line| line.strip_prefix("Remv ")?.split_whitespace().next());
    removed.filter(|name| name.split(':').next() != Some(own)).map(str::to_owned).collect()
}

/// `Inst NAME [OLD] (NEW ...)` and `Remv NAME [OLD]`: what a simulation makes of packages.
pub(super) fn parse_changes(text: &str) -> BTreeMap<String, Wanted> {
    let changes = text.lines().filter_map(|line| {
        let (verb, rest) = line.split_once(' ')?;
        let name = rest.split_whitespace().next()?;
        let given = match verb {
            "Remv" => Wanted::Absent,
            "Inst" => {
                let version = rest.split_once('(').and_then(|(_, new)| new.split_whitespace().next());
                version.map_or(Wanted::Any, |version| Wanted::Exactly(version.to_owned()))
            }
            _ => return None,
        };
        Some((name.to_owned(), given))
    });
    changes.collect()
}

/// `NAME[:ARCHITECTURE], ...: FILE`.
pub(super) fn parse_owners(text: &str, file: &str) -> Vec<String> {
    let rows = text.lines().filter_map(|line| line.strip_suffix(file)?.strip_suffix(": "));
    let names = rows.flat_map(|names| names.split(", "));
    names.filter_map(|name| name.split(':').next()).map(str::to_owned).collect()
}
