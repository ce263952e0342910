use muster_api::site::{ControllerView, SiteView, WaitingView};
use muster_shared::finding::Severity::{self, Error, Ok, Warning};

use super::*;

fn well() -> StatusView {
    StatusView {
        site: "lab".into(),
        since: "2026-01-01T00:00:00Z".into(),
        store: "sqlite:/var/lib/muster/muster.db".into(),
        link: "direct".into(),
        ca_left_s: Some(CA_SOON),
        controllers: vec![other("c1", Role::Active, 0)],
        ..StatusView::default()
    }
}

fn other(name: &str, role: Role, behind_s: u64) -> ControllerView {
    ControllerView { name: name.into(), role, since: None, behind_s }
}

fn shown(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|finding| (finding.check, finding.state)).collect()
}

#[test]
fn a_site_that_is_well_has_no_fault() {
    let wanted = [("site", Ok), ("store", Ok), ("link", Ok), ("certificate", Ok)];
    assert_eq!(shown(&findings(&well())), wanted);
    // A controller of before does not say how long its CA is valid.
    assert_eq!(shown(&findings(&StatusView { ca_left_s: None, ..well() })), wanted[..3]);
}

#[test]
fn each_fault_of_a_site_is_found() {
    let waiting = WaitingView { restore: 1, hooks: 2, approvals: 0 };
    let sites = vec![
        SiteView { name: "a".into(), active: Some("c1".into()) },
        SiteView { name: "b".into(), active: None },
    ];
    let standby = |behind| vec![other("c1", Role::Active, 0), other("c2", Role::Standby, behind)];
    for (status, check, state, words) in [
        (StatusView { read_only: Some("no room".into()), ..well() }, "store", Error, "muster.db: no room"),
        (StatusView { link_problem: Some("no broker".into()), ..well() }, "link", Error, "direct: no broker"),
        (StatusView { lease_problem: Some("older".into()), ..well() }, "lease", Error, "older"),
        (StatusView { restored: true, ..well() }, "restored", Warning, "until an operator decides"),
        (StatusView { sites, ..well() }, "sites", Warning, "active for b"),
        (StatusView { controllers: standby(10), ..well() }, "standby", Ok, "c2 looked at the lease 10 s ago"),
        (
            StatusView { controllers: standby(11), ..well() },
            "standby",
            Warning,
            "would not take over in time",
        ),
        (StatusView { ca_left_s: Some(CA_SOON - 1), ..well() }, "certificate", Warning, "valid for 364 d"),
        (StatusView { ca_left_s: Some(CA_NOW - 1), ..well() }, "certificate", Error, "valid for 29 d"),
        (StatusView { ca_left_s: Some(0), ..well() }, "certificate", Error, "valid for 0 s"),
        (StatusView { waiting, ..well() }, "waiting", Warning, "1 unknown thing waits for an operator"),
        (StatusView { role: Role::Standby, ..well() }, "site", Ok, "c1 is active"),
        (
            StatusView { role: Role::Standby, controllers: Vec::new(), ..well() },
            "site",
            Error,
            "no controller is active",
        ),
    ] {
        let findings = findings(&status);
        let finding = findings.iter().find(|finding| finding.check == check);
        let finding = finding.unwrap_or_else(|| panic!("no {check}: {findings:?}"));
        assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
    }
    assert_eq!(self::waiting(&StatusView { waiting, ..well() })[1].found, "2 hooks wait for an operator");
}

#[test]
fn whether_the_controller_answers_comes_first() {
    let version = |version: &str| Result::Ok(Version { version: version.into(), api: Vec::new() });
    let busy =
        Failure { retry_after: Some(std::time::Duration::from_secs(1)), ..Failure::failed("it is busy") };
    for (answer, state, words) in [
        (version("1.2.3"), Ok, "1.2.3, as of this command"),
        (version("1.2.2"), Warning, "1.2.2, and 1.2.3 of this command"),
        (Err(Failure::unreachable("cannot reach the controller")), Error, "cannot reach"),
        (Err(busy), Warning, "it is busy"),
        (Err(Failure::failed("the controller answered 502")), Error, "502"),
    ] {
        let finding = controller(&answer, "1.2.3");
        assert!(finding.state == state && finding.found.contains(words), "{finding:?}");
    }
    assert_eq!(no_status(&Failure::failed("there is no site 'x' here")).state, Error);
}
