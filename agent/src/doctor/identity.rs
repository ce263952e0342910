//! Checks which node this is, and whether its certificate is valid by this server's clock.

use std::path::PathBuf;

use muster_agent_link::Identity;
use muster_shared::finding::Finding;
use muster_shared::time::{span, utc};

const IDENTITY: &str = "identity";
const CERTIFICATE: &str = "certificate";
/// A certificate begins so much before it is given out (`CLOCK_SKEW`, `controller/src/pki.rs`).
const SKEW: u64 = 12 * 3600;
/// A renewal that is due is tried each ten minutes; a node that was switched off may be late by more.
const RENEWAL_SLACK: u64 = 24 * 3600;

/// The facts about the identity on disk.
#[derive(Clone, Debug)]
pub enum Facts {
    Absent,
    Damaged(PathBuf),
    /// The record is not for this user.
    Denied(PathBuf),
    Unread {
        path: PathBuf,
        why: String,
    },
    Present {
        node: String,
        site: String,
        /// Certificate and key fit each other.
        is_whole: bool,
        /// Seconds since 1970.
        issued: u64,
        renew_at: u64,
        not_after: u64,
    },
}

impl Facts {
    pub fn of(identity: &Identity) -> Self {
        Self::Present {
            node: identity.node.to_string(),
            site: identity.site.to_string(),
            is_whole: identity.tls().is_ok(),
            issued: identity.issued,
            renew_at: identity.renew_at(),
            not_after: identity.not_after,
        }
    }
}

/// `now` is in seconds since 1970.
pub fn findings(facts: &Facts, now: u64) -> Vec<Finding> {
    let join = "muster-agent join --token -, with a token of 'muster node token' for its name";
    match facts {
        Facts::Absent => vec![Finding::error(IDENTITY, "this server has not joined a site", join)],
        Facts::Damaged(path) => {
            vec![Finding::error(IDENTITY, format!("{} is damaged", path.display()), join)]
        }
        Facts::Denied(path) => {
            let found = format!("{} is for another user to read", path.display());
            vec![Finding::warning(IDENTITY, found, "run this command as root")]
        }
        Facts::Unread { path, why } => {
            vec![Finding::error(
                IDENTITY,
                why.clone(),
                format!("look at the file system of {}", path.display()),
            )]
        }
        Facts::Present { node, site, is_whole: false, .. } => {
            let found = format!("the certificate of {node} of site {site} does not fit its key");
            vec![Finding::error(IDENTITY, found, join)]
        }
        Facts::Present { node, site, issued, renew_at, not_after, .. } => {
            let who = Finding::ok(IDENTITY, format!("this server is {node} of site {site}"));
            vec![who, certificate(now, *issued, *renew_at, *not_after)]
        }
    }
}

fn certificate(now: u64, issued: u64, renew_at: u64, not_after: u64) -> Finding {
    let clock = "set the clock: 'chronyc makestep' or 'timedatectl'";
    if now + SKEW < issued {
        let found = format!(
            "this server's clock says {}, and its certificate came {}: the clock is behind, or was ahead then",
            utc(now),
            utc(issued)
        );
        Finding::error(CERTIFICATE, found, clock)
    } else if now >= not_after {
        let found =
            format!("this server's clock says {}, and its certificate ended {}", utc(now), utc(not_after));
        let remedy =
            format!("{clock} if that is wrong; else the agent renews it once it reaches the controller");
        Finding::error(CERTIFICATE, found, remedy)
    } else if now >= renew_at + RENEWAL_SLACK {
        let found =
            format!("valid for {} and not renewed, which was due {}", span(not_after - now), utc(renew_at));
        let remedy = "let the agent run and reach the controller; 'journalctl -u muster-agent | grep renew' says why not";
        Finding::warning(CERTIFICATE, found, remedy)
    } else {
        Finding::ok(CERTIFICATE, format!("valid until {}, for {}", utc(not_after), span(not_after - now)))
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_is_judged_by_this_servers_clock() {
        let issued = 1_800_000_000;
        let (renew_at, not_after) = (issued + 60 * DAY, issued + 90 * DAY);
        for (now, state, words) in [
            (issued, Severity::Ok, "for 90 d"),
            (issued - SKEW, Severity::Ok, "valid until 2027-04-15"),
            (issued - SKEW - 1, Severity::Error, "the clock is behind"),
            (0, Severity::Error, "this server's clock says 1970-01-01 00:00 UTC"),
            (renew_at + DAY - 1, Severity::Ok, "valid until"),
            (renew_at + DAY, Severity::Warning, "valid for 29 d and not renewed"),
            (not_after - 1, Severity::Warning, "valid for 1 s"),
            (not_after, Severity::Error, "its certificate ended 2027-04-15"),
        ] {
            let finding = certificate(now, issued, renew_at, not_after);
            assert!(finding.state == state && finding.found.contains(words), "{now}: {finding:?}");
        }
    }

    #[test]
    fn each_state_of_the_record_has_its_finding() {
        let here = |is_whole| Facts::Present {
            node: "web-1".into(),
            site: "lab".into(),
            is_whole,
            issued: 10 * DAY,
            renew_at: 70 * DAY,
            not_after: 100 * DAY,
        };
        let unread = Facts::Unread { path: "/s/identity".into(), why: "/s/identity: I/O error".into() };
        for (facts, state, words) in [
            (Facts::Absent, Severity::Error, "has not joined"),
            (Facts::Damaged("/s/identity".into()), Severity::Error, "/s/identity is damaged"),
            (Facts::Denied("/s/identity".into()), Severity::Warning, "for another user"),
            (unread, Severity::Error, "I/O error"),
            (here(false), Severity::Error, "does not fit its key"),
            (here(true), Severity::Ok, "this server is web-1 of site lab"),
        ] {
            let findings = findings(&facts, 20 * DAY);
            assert!(findings[0].state == state && findings[0].found.contains(words), "{findings:?}");
            assert_eq!(findings.len(), if state == Severity::Ok { 2 } else { 1 });
        }
    }
}
