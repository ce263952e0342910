//! The controller and the site at a glance: `GET /v1/version` and `GET /v1/status`.

use muster_api::site::{Role, StatusView, Version};
use muster_shared::finding::Finding;
use muster_shared::time::span;

use crate::failure::{Exit, Failure};
use crate::output::count;

/// A standby looks at the lease each second; later than that it would not notice a death in time.
const BEHIND_MAX: u64 = 10;
/// The site's CA: with this left, replacing it has to be planned, …
const CA_SOON: u64 = 365 * 86_400;
/// … and with this, done.
const CA_NOW: u64 = 30 * 86_400;

/// Whether the controller answers, and is of this command's version.
pub fn controller(answer: &Result<Version, Failure>, own: &str) -> Finding {
    const CHECK: &str = "controller";
    match answer {
        Err(failure) if failure.retry_after.is_some() => {
            let remedy = "run this command again; 'journalctl -u muster-controller' says what it waits for";
            Finding::warning(CHECK, text(failure), remedy)
        }
        Err(failure) if failure.exit == Exit::Unreachable => {
            let remedy = "on the controller's machine: systemctl status muster-controller, journalctl -u muster-controller -n 20";
            Finding::error(CHECK, text(failure), remedy)
        }
        Err(failure) => {
            Finding::error(CHECK, text(failure), "look what listens there: --url, 'ss -lxp | grep muster'")
        }
        Ok(Version { version, .. }) if version == own => Finding::ok(
            CHECK,
            format!("the controller answers; its version is {version}, as of this command"),
        ),
        Ok(Version { version, .. }) => Finding::warning(
            CHECK,
            format!("the controller answers; its version is {version}, and {own} of this command"),
            "install both of one version",
        ),
    }
}

/// The controller answers, and not about the site.
pub fn no_status(failure: &Failure) -> Finding {
    let remedy = "if several sites are listed: muster --site NAME doctor; else 'journalctl -u muster-controller -n 20'";
    Finding::error("site", text(failure), remedy)
}

fn text(failure: &Failure) -> String {
    failure.lines.join("; ")
}

/// The findings of a status.
pub fn findings(status: &StatusView) -> Vec<Finding> {
    let all = [
        Some(role(status)),
        Some(store(status)),
        Some(link(status)),
        lease(status),
        sites(status),
        restored(status),
        certificate(status.ca_left_s),
    ];
    all.into_iter().flatten().chain(standbys(status)).chain(waiting(status)).collect()
}

fn role(status: &StatusView) -> Finding {
    let StatusView { site, role, since, epoch, .. } = status;
    let text = format!("{} for site {site} since {since}, epoch {}", role.as_str(), epoch.0);
    let active = status.controllers.iter().find(|other| other.role == Role::Active);
    match (role, active) {
        (Role::Active, _) => Finding::ok("site", text),
        (Role::Standby, Some(active)) => Finding::ok(
            "site",
            format!("{text}; {} is active: nodes and stacks are known there", active.name),
        ),
        (Role::Standby, None) => Finding::error(
            "site",
            format!("{text}; no controller is active"),
            "systemctl status muster-controller on each controller's machine",
        ),
    }
}

fn store(status: &StatusView) -> Finding {
    match &status.read_only {
        None => Finding::ok("store", status.store.clone()),
        Some(why) => Finding::error(
            "store",
            format!("{}: {why}", status.store),
            "free space on its disk, or bring the database back: docs/troubleshooting.md; the controller goes on by itself",
        ),
    }
}

fn link(status: &StatusView) -> Finding {
    match &status.link_problem {
        None => Finding::ok("link", status.link.clone()),
        Some(why) => {
            Finding::error("link", format!("{}: {why}", status.link), "docs/brokers.md, 'What goes wrong'")
        }
    }
}

fn lease(status: &StatusView) -> Option<Finding> {
    let why = status.lease_problem.as_ref()?;
    Some(Finding::error("lease", why.clone(), "docs/standbys.md; 'journalctl -u muster-controller -n 20'"))
}

fn standbys(status: &StatusView) -> Vec<Finding> {
    let standbys = status.controllers.iter().filter(|other| other.role == Role::Standby);
    let finding = |name: &str, behind: u64| {
        let found = format!("{name} looked at the lease {} ago", span(behind));
        if behind <= BEHIND_MAX {
            return Finding::ok("standby", found);
        }
        let remedy = format!("on {name}: systemctl status muster-controller");
        Finding::warning("standby", format!("{found}, and would not take over in time"), remedy)
    };
    standbys.map(|standby| finding(&standby.name, standby.behind_s)).collect()
}

fn sites(status: &StatusView) -> Option<Finding> {
    let nowhere = status.sites.iter().filter(|site| site.active.is_none());
    let names: Vec<&str> = nowhere.map(|site| site.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let found = format!("no controller is known to be active for {}", names.join(", "));
        Finding::warning("sites", found, "muster --site NAME status; docs/sites.md")
    })
}

fn restored(status: &StatusView) -> Option<Finding> {
    status.restored.then(|| {
        let found =
            "the store is older than what agents hold: nothing of that is changed until an operator decides";
        Finding::warning("restored", found, "muster restore list; docs/restore.md")
    })
}

fn certificate(left: Option<u64>) -> Option<Finding> {
    const CHECK: &str = "certificate";
    let left = left?;
    let found = format!("the site's CA is valid for {}", span(left));
    let remedy = "each server has to join again under another CA: plan a new site, docs/fleets.md, 'Move a node to another site'";
    Some(match left {
        ..CA_NOW => Finding::error(CHECK, found, remedy),
        CA_NOW..CA_SOON => Finding::warning(CHECK, found, remedy),
        CA_SOON.. => Finding::ok(CHECK, found),
    })
}

fn waiting(status: &StatusView) -> Vec<Finding> {
    let waiting = &status.waiting;
    [
        (waiting.restore, "unknown thing", "muster restore list"),
        (
            waiting.hooks,
            "hook",
            "muster stack graph NAME shows them; muster resource clear-hook STACK RESOURCE HOOK",
        ),
        (waiting.approvals, "approval", "muster status"),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0)
    .map(|(number, noun, remedy)| {
        let verb = if number == 1 { "waits" } else { "wait" };
        Finding::warning("waiting", format!("{} {verb} for an operator", count(number, noun)), remedy)
    })
    .collect()
}

#[cfg(test)]
mod tests;
