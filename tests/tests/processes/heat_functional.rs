//! The functional tests that python-heatclient ships pass, but for those that use what a site does not have: templates in
//! CloudFormation's form, snapshots and suspended stacks.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_testbed::{Running, eventually};
use muster_tests::site::OpenstackClient;
use muster_tests::site::heatclient_tests::{FunctionalTests, OLDER_COMMAND, READING, STACKS};

use crate::heat_api::{site, token};

/// Each of some fifteen tests starts a program in Python a few times.
const WITHIN: Duration = Duration::from_secs(400);

fn run(tests: &FunctionalTests) {
    let (site, port) = site("");
    let (anna, endpoint) = (token(&site, "anna", "operator"), format!("http://127.0.0.1:{port}/v1/any"));
    let heat = OpenstackClient::new(
        None,
        site.path(),
        &[("OS_AUTH_TYPE", "admin_token"), ("OS_ENDPOINT", &endpoint), ("OS_TOKEN", &anna)],
    );
    let ran = Running::start(heat.functional_tests(&tests.names())).finish_within(WITHIN);

    // `module.Class.test_x ... ok`, and below that `ERROR: test_x (…)` of each failure, and why.
    let outcomes: BTreeMap<&str, bool> = ran
        .stderr
        .lines()
        .filter_map(|line| {
            let (name, outcome) = line.strip_prefix("heatclient.")?.split_once(" ... ")?;
            Some((name.rsplit('.').next()?, outcome == "ok"))
        })
        .collect();
    let failed: Vec<&str> = outcomes.iter().filter(|(_, passed)| !**passed).map(|(name, _)| *name).collect();
    let refused: Vec<&str> = tests.refused.iter().map(|(name, _)| *name).collect();
    assert_eq!((failed, outcomes.len()), (refused, tests.passed + tests.refused.len()), "{ran:?}");
    for (name, why) in tests.refused {
        let (_, told) = ran.stderr.split_once(&format!("ERROR: {name} (")).unwrap();
        let told = told.split("\n======").next().unwrap();
        assert!(told.contains(why), "{name}: {told}");
    }
    // They wait for no delete that is their last step.
    eventually("the tests delete what they made", || {
        (site.json(&["stack", "list"]) == serde_json::json!([])).then_some(())
    });
}

#[test]
fn commands_that_only_read() {
    run(&READING);
}

#[test]
fn stacks_are_created_shown_and_deleted() {
    run(&STACKS);
}

#[test]
fn the_older_command_works_too() {
    run(&OLDER_COMMAND);
}
