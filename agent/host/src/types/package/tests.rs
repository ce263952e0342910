use super::*;
use crate::resource::Fault as _;
use crate::run::Ended;

fn installed(name: &str, version: &str) -> (String, Installed) {
    let installed = Installed { name: name.into(), version: version.into(), broken: None, held: false };
    (name.to_owned(), installed)
}

fn listing<const N: usize>(packages: [(&str, &str); N]) -> Listing {
    Listing(packages.into_iter().map(|(name, version)| installed(name, version)).collect())
}

fn words(orders: &[Order]) -> Vec<String> {
    orders.iter().map(ToString::to_string).collect()
}

#[test]
fn dpkg_lists_version_hold_breakage_and_architecture() {
    let listing = apt::parse_list(
        "dpkg\tamd64\tinstall\tok\tinstalled\t1.21\n\
         web\tall\thold\tok\tinstalled\t1:2.0-1\n\
         gone\tamd64\tdeinstall\tok\tconfig-files\t1\n\
         half\tamd64\tinstall\tok\thalf-configured\t3\n\
         torn\tamd64\tinstall\treinstreq\thalf-installed\t4\n\
         both\tamd64\tinstall\tok\ttriggers-pending\t5\n\
         both\ti386\tinstall\tok\tinstalled\t5\n\
         \t\n",
    );
    let shown: Vec<String> = listing
        .0
        .iter()
        .map(|(key, is)| format!("{key} {} {:?} {}", is.version, is.broken.as_deref(), is.held))
        .collect();
    assert_eq!(
        shown,
        [
            "both 5 None false",
            "both:i386 5 None false",
            "dpkg 1.21 None false",
            "half 3 Some(\"half-configured\") false",
            "torn 4 Some(\"half-installed\") false",
            "web 1:2.0-1 None true",
        ]
    );
}

#[test]
fn apt_tells_what_is_to_be_had_and_who_would_go() {
    let policy = "web:\n  Installed: 1.0\n  Candidate: 2.0\n  Version table:\n     2.0 500\n        \
                  500 file:/repo ./ Packages\n *** 1.0 100\n        100 /var/lib/dpkg/status\n     0.9 500\n        \
                  400 http://a bookworm/main amd64 Packages\n        500 http://b ./ Packages\n";
    assert_eq!(apt::parse_policy(policy), (Some("2.0".into()), vec!["2.0".to_owned(), "0.9".to_owned()]));
    let virtual_one = "mail:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n";
    assert_eq!(apt::parse_policy(virtual_one), (None, vec![]));
    assert_eq!(apt::parse_policy(""), (None, vec![]));
    let simulated = "Remv web [1.0]\nRemv web-extra [1.0] [web:amd64 ]\nInst x (1 a)\nConf x (1 a)\n";
    assert_eq!(apt::parse_removed(simulated, "web"), ["web-extra"]);
    let simulated =
        "Remv old [1.0]\nInst web [1.0] (2:2.0~1 repo [all]) [x ]\nInst x:i386 (1 a)\nConf x (9 a)\n";
    let changes = apt::parse_changes(simulated);
    let exactly = |version: &str| Wanted::Exactly(version.into());
    let expected = [("old", Wanted::Absent), ("web", exactly("2:2.0~1")), ("x:i386", exactly("1"))];
    assert_eq!(changes, expected.map(|(name, given)| (name.to_owned(), given)).into());
}

#[test]
fn what_failed_is_put_back_by_what_was_listed() {
    let was = listing([("lib", "1"), ("web", "1")]);
    let mut is = listing([("lib", "2"), ("new", "1"), ("web", "2")]);
    assert_eq!(
        words(&apt::back(&was, &is, "web")),
        ["apt-get install lib=1 new- web=1", "dpkg new"],
        "options are not shown"
    );
    assert_eq!(words(&dnf::back(&was, &is, "web")), ["dnf remove new", "dnf install lib-1 web-1"]);
    assert_eq!(is.left_of(&was), ["lib 2 is installed", "new 1 is installed", "web 2 is installed"]);
    is = was.clone();
    is.0.get_mut("web").unwrap().broken = Some("half-configured".into());
    assert_eq!(words(&apt::back(&was, &is, "web")), ["apt-get install web=1"]);
    assert_eq!(is.left_of(&was), ["web 1 is half-configured"]);
    is.0.clear();
    assert_eq!(is.left_of(&was), ["lib is gone", "web is gone"]);
    let mut held = was.clone();
    held.0.get_mut("web").unwrap().held = true;
    assert_eq!(words(&apt::back(&held, &was, "web")), ["apt-mark hold web"]);
    assert_eq!(words(&apt::back(&was, &was, "web")), [""; 0]);
}

/// An order that gives `gives`; `-` is no version.
fn ran(gives: &[(&str, &str)]) -> Order {
    let given = |version: &str| match version {
        "-" => Wanted::Absent,
        "*" => Wanted::Any,
        version => Wanted::Exactly(version.into()),
    };
    let gives = gives.iter().map(|(name, version)| ((*name).to_owned(), given(version))).collect();
    Order { program: apt::GET, arguments: Vec::new(), gives, is_mark: false }
}

#[test]
fn what_others_have_changed_in_between_stays() {
    let back = |manager: Manager, ran: &[Order], was: &Listing, is: &Listing| {
        let (was, is) = manager.changed_by(ran, was, is, "web");
        words(&manager.back(&was, &is, "web"))
    };
    // The server has web 1 with lib 1, and ssl 1. Others bring postgresql, and a security upgrade of ssl.
    let was = listing([("lib", "1"), ("ssl", "1"), ("web", "1")]);
    let order = ran(&[("lib", "2"), ("new", "1"), ("web", "2")]);
    let others = [("postgresql", "15"), ("ssl", "1.1")];
    let none: [&str; 0] = [];
    for (ours, expected) in [
        (
            vec![("lib", "2"), ("new", "1"), ("web", "2")],
            vec!["apt-get install lib=1 new- web=1", "dpkg new"],
        ),
        // The run was ended before it did anything.
        (vec![("lib", "1"), ("web", "1")], vec![]),
        // They have upgraded what it had changed, or removed it.
        (vec![("lib", "2.1"), ("new", "1.1"), ("web", "2")], vec!["apt-get install web=1"]),
        (vec![("lib", "2"), ("new", "1")], vec!["apt-get install lib=1 new-", "dpkg new"]),
    ] {
        let is =
            Listing(ours.iter().chain(&others).map(|(name, version)| installed(name, version)).collect());
        assert_eq!(back(Manager::Apt, std::slice::from_ref(&order), &was, &is), expected, "{ours:?}");
        assert_eq!(back(Manager::Apt, &[], &was, &is), none, "nothing of ours ran");
    }
    // Half there by our order, and by somebody else's.
    let mut is = was.clone();
    is.0.get_mut("web").unwrap().broken = Some("half-installed".into());
    is.0.get_mut("ssl").unwrap().broken = Some("half-configured".into());
    assert_eq!(back(Manager::Apt, std::slice::from_ref(&order), &was, &is), ["apt-get install web=1"]);
    // Our mark is removed, and the version that somebody else gave meanwhile stays.
    let mut was = was;
    was.0.get_mut("web").unwrap().held = true;
    let is = listing([("lib", "1"), ("ssl", "1"), ("web", "1.1")]);
    let unhold = Order { is_mark: true, ..ran(&[]) };
    assert_eq!(back(Manager::Apt, &[unhold, order.clone()], &was, &is), ["apt-mark hold web"]);
    assert_eq!(back(Manager::Apt, &[order], &was, &is), none, "they have ended it");
    // Removed by us, removed and installed again by somebody.
    let absent = [ran(&[("web", "-")])];
    let expected = ["apt-get install web=1", "apt-mark hold web"];
    assert_eq!(back(Manager::Apt, &absent, &was, &listing([("lib", "1")])), expected);
    assert_eq!(back(Manager::Apt, &absent, &was, &is), none);
    // dnf's orders name no architecture.
    let of_rpm = |text| dnf::parse_list(text).0;
    let (was, is) = (
        of_rpm("ssl\tx86_64\t0:1-1\n"),
        of_rpm("ssl\tx86_64\t0:2-1\nweb\tx86_64\t0:1-1\ndb\tnoarch\t0:1-1\n"),
    );
    assert_eq!(back(Manager::Dnf, &[ran(&[("web", "*")])], &was, &is), ["dnf remove web.x86_64"]);
}

#[test]
fn what_goes_back_removes_nothing_that_others_have_brought() {
    let was = listing([("web", "1")]);
    let is = listing([("lib", "1"), ("web", "2")]);
    let order = apt::back(&was, &is, "web").remove(0);
    let fine = "Remv lib [1]\nInst web [2] (1 repo [all])\nConf web (1 repo [all])\n".to_owned();
    assert_eq!(apt::spared(order.clone(), Some(&fine)), Some(order.clone()));
    let along = format!("{fine}Remv extra [1]\n");
    for simulated in [Some(&along), None] {
        let spared = apt::spared(order.clone(), simulated).unwrap();
        assert_eq!(spared.to_string(), "apt-get install web=1");
        assert!(spared.arguments.contains(&"--no-remove".to_owned()), "{:?}", spared.arguments);
    }
    let only_fresh = apt::back(&Listing::default(), &listing([("lib", "1")]), "web").remove(0);
    assert_eq!(apt::spared(only_fresh, Some(&along)), None);
}

#[test]
fn the_owner_of_a_file_is_understood() {
    let file = "/usr/bin/muster-agent";
    assert_eq!(apt::parse_owners("muster-agent: /usr/bin/muster-agent\n", file), ["muster-agent"]);
    let two = "diversion by x from: /usr/bin/y\na:amd64, b: /usr/bin/muster-agent\n";
    assert_eq!(apt::parse_owners(two, file), ["a", "b"]);
    assert_eq!(apt::parse_owners("a: /usr/bin/muster-agent.old\n", file), [""; 0]);
}

#[test]
fn rpm_and_dnf_are_understood() {
    // rpm tells them in any order.
    let (listing, older) = dnf::parse_list(
        "web\tnoarch\t0:1.20-1.el9\t7\nkernel\tx86_64\t0:5-10\t12\nkernel\tx86_64\t0:5-9\t3\n\n",
    );
    assert_eq!(listing.find("web").unwrap().version, "0:1.20-1.el9");
    assert_eq!(listing.find("kernel").unwrap().version, "0:5-10");
    assert_eq!(
        older.iter().map(|(key, older)| (key.as_str(), older.version.as_str())).collect::<Vec<_>>(),
        [("kernel.x86_64", "0:5-9")]
    );
    assert_eq!(listing.find("we"), None);
    for wanted in ["0:1.20-1.el9", "1.20-1.el9", "1.20", "0:1.20"] {
        assert!(dnf::is_version("0:1.20-1.el9", wanted), "{wanted}");
    }
    for wanted in ["1.2", "1", "1:1.20", "1.el9"] {
        assert!(!dnf::is_version("0:1.20-1.el9", wanted), "{wanted}");
    }
    let offered = "web 0:1.20-1\n\nweb 0:1.22-1\nweb-server 0:1.22-1\nweb 0:1.22-1\n";
    assert_eq!(dnf::parse_offered(offered, "web"), ["0:1.20-1", "0:1.22-1"]);
    for (list, name, is_locked) in [
        ("web-0:1.20-1.el9.*\n", "web", true),
        ("web-core-0:1.20-1.el9.*\n", "web", false),
        ("# Added by 'versionlock add'\nPackage name: web\nevr = 1.20-1\n", "web", true),
        ("", "web", false),
    ] {
        assert_eq!(dnf::parse_locks(list, name), is_locked, "{list}");
    }
    let test = "error: Failed dependencies:\n\tweb is needed by (installed) web-extra-1.0-1.noarch\n";
    assert_eq!(dnf::parse_needed(test), ["web-extra-1.0-1.noarch"]);
}

/// The older version tells of the cut: it is there until what stays is installed once more.
#[test]
fn dnf_reinstalls_a_half_upgraded_package_then_erases_the_old() {
    let (listing, older) = dnf::parse_list(
        "web\tx86_64\t1:2-1\t9\nweb\tx86_64\t1:1-1\t3\nweb\ti686\t1:1-1\t2\nweb\ti686\t1:2-1\t8\n",
    );
    let found = listing.find("web").unwrap();
    let again = Some("dnf reinstall web-1:2-1");
    let erase = Some("rpm web-1-1.i686 web-1-1.x86_64");
    let exactly = |version: &str| Wanted::Exactly(version.into());
    for (version, older, is_whole, wanted) in [
        (Wanted::Any, &older[..], false, again),
        (exactly("2"), &older, false, again),
        (Wanted::Any, &older, true, erase),
        (exactly("2"), &older, true, erase),
        // dnf has taken the older away with it.
        (Wanted::Any, &[], true, None),
        // A version that does not stay is not installed for that.
        (exactly("1"), &older, false, erase),
        (Wanted::Absent, &older, false, erase),
    ] {
        let goal = Goal { version, held: None };
        let order = dnf::mending(found, older, &goal, is_whole);
        assert_eq!(order.map(|order| order.to_string()).as_deref(), wanted, "{goal:?} {is_whole}");
    }
}

#[test]
fn of_what_dnf_wrote_the_scripts_lines_are_told() {
    let stdout = "Dependencies resolved.\n Package\nRunning transaction test\nRunning transaction\n  Preparing        : 1/1 \n  \
                  Running scriptlet: web-4-1.noarch  2/3 \nno port is free\nerror: %prein(web-4-1.noarch) scriptlet failed, \
                  exit status 4\n\n  Verifying        : web-4-1.noarch\nInstalled:\n  new-1-1.noarch\n";
    let stderr = "Error in PREIN scriptlet in rpm package web\nError: Transaction failed\n";
    let order = Order {
        program: dnf::DNF,
        arguments: ["-y", "install", "web-0:4-1"].map(Into::into).into(),
        gives: BTreeMap::new(),
        is_mark: false,
    };
    let fault = PackageFault::of_command(&order, &RunEnd::Exited(1), stdout, stderr);
    assert!(fault.is_permanent());
    assert_eq!(
        fault.to_string(),
        "'dnf install web-0:4-1' ended with status 1; it ends: no port is free | error: %prein(web-4-1.noarch) scriptlet \
         failed, exit status 4 | Error in PREIN scriptlet in rpm package web | Error: Transaction failed"
    );
    let fault =
        PackageFault::of_command(&order, &RunEnd::Exited(1), "Dependencies resolved.\n", "Error: no\n");
    assert!(fault.to_string().ends_with("it ends: Error: no") && !fault.is_permanent(), "{fault}");
}

#[test]
fn of_what_a_command_wrote_the_end_is_told() {
    let order = Order {
        program: apt::GET,
        arguments: ["-y", "-o", "A=b", "install", "web=2"].map(Into::into).into(),
        gives: BTreeMap::new(),
        is_mark: false,
    };
    let stdout = "Setting up web (2) ...\nno port is free\n";
    let stderr = "dpkg: error processing package web (--configure):\n installed web package post-installation script \
                  subprocess returned error exit status 4\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n";
    let fault = PackageFault::of_command(&order, &RunEnd::Exited(100), stdout, stderr);
    let said = fault.to_string();
    assert!(said.starts_with("'apt-get install web=2' ended with status 100; it ends: Setting up"), "{said}");
    assert!(said.contains("no port is free | dpkg: error"), "{said}");
    let back = fault.after(Vec::new()).to_string();
    assert!(back.ends_with("(what was there before this job is back)"), "{back}");
    let long = "x".repeat(5000);
    let fault = PackageFault::of_command(&order, &RunEnd::TimedOut, &long, &format!("{long}\nlast\n"));
    assert!(fault.to_string().len() < 3000 && fault.to_string().contains("last"));
}

#[test]
fn a_change_of_the_own_package_knows_its_way_back() {
    let was = listing([("lib", "1"), ("web", "2")]);
    let own =
        OwnProgram { program: "/usr/sbin/agent".into(), state_dir: "/var/lib/agent".into(), within: 30 };
    let asked = |manager: Manager, was: &Listing| {
        let way_back = WayBack::to(manager, was, "web").unwrap();
        let (words, time) = own.order(&ran(&[("web", "3")]), Duration::from_secs(100), &way_back);
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(words[..4], ["/usr/sbin/agent", "--state-dir", "/var/lib/agent", "upgrade"]);
        let change: OwnChange = serde_json::from_str(&words[4]).unwrap();
        assert_eq!((change.timeout, change.within, &*change.before), (100, 30, "2"));
        assert!(time > Duration::from_secs(100 + 3 * 30 + u64::from(change.back_timeout)), "{time:?}");
        (change.change[0].clone(), change.back.first().cloned(), change.back.last().cloned())
    };
    let some = |word: &str| Some(word.to_owned());
    assert_eq!(asked(Manager::Apt, &was), (apt::GET.into(), some(apt::GET), some("web=2")));
    assert_eq!(asked(Manager::Dnf, &was).2, some("web-2"));
    // A broken package comes back whole.
    let mut broken = was.clone();
    broken.0.get_mut("web").unwrap().broken = Some("half-configured".into());
    assert_eq!(asked(Manager::Apt, &broken).2, some("web=2"));
    assert!(WayBack::to(Manager::Apt, &was, "none").is_none());
}

#[test]
fn a_change_that_was_undone_says_why_and_is_not_tried_again() {
    let ended = |how, stderr: &str| {
        let stderr = stderr.to_owned();
        own::undone("agent", &Ended { how, stdout: String::new(), stderr, outputs: BTreeMap::new() })
    };
    let undone = RunEnd::Exited(UNDONE.into());
    let fault = ended(undone.clone(), &format!("dpkg: no\n{SAYS}it hangs; 1 is back\n")).unwrap();
    let said = "agent is the package of the agent that runs here, and was not kept: it hangs; 1 is back; it ends: dpkg: no";
    assert_eq!(fault.to_string(), said);
    assert!(fault.is_permanent());
    assert!(ended(undone, "").unwrap().to_string().ends_with("it did not come up"));
    for other in [RunEnd::Exited(0), RunEnd::Exited(100), RunEnd::Killed(9), RunEnd::TimedOut] {
        assert!(ended(other.clone(), SAYS).is_none(), "{other:?}");
    }
}

#[test]
fn a_program_that_was_put_back_is_known_until_it_is_replaced() {
    let dir = tempfile::TempDir::new().unwrap();
    let program = dir.path().join("agent");
    fs::write(&program, "1").unwrap();
    assert!(!PutBack::is_of(&program, dir.path()));
    PutBack::record(&program, dir.path()).unwrap();
    assert!(PutBack::is_of(&program, dir.path()));
    // As dpkg and rpm do it: both files are there for a moment.
    fs::write(dir.path().join("new"), "2").unwrap();
    fs::rename(dir.path().join("new"), &program).unwrap();
    assert!(!PutBack::is_of(&program, dir.path()));
}
