//! Drift that agents report outside of jobs: the resulting state, the events, and the facts.

use std::time::Duration;

use muster_shared::Generation;
use muster_shared::model::{Drift, DriftState, Facts, LinkFacts, Up};

use super::bed::{Bed, node, parse, template};
use crate::{Answer, Limits, Refusal, Request, SourceText};

const ONE: &str = "a: x=1 node=node-0";
const SECOND: Duration = Duration::from_secs(1);

fn made(source: &str) -> Bed {
    let mut bed = Bed::new(1);
    bed.create(template(source)).unwrap();
    bed.idle();
    bed.ran.clear();
    bed.tables.reasons.clear();
    bed
}

fn from_text(text: &str) -> Bed {
    let template = format!("heat_template_version: 2018-08-31\n{text}");
    let mut bed = Bed::new(1);
    bed.create(parse(SourceText { name: "t".into(), template, ..Default::default() })).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.tables.reasons.clear();
    bed
}

/// node-0 reports drift of resource `name`.
pub fn says(bed: &mut Bed, name: &str, state: DriftState, reason: &str) {
    let row = bed.tables.rows.values().find(|row| &*row.name == name).unwrap();
    let generation = row.progress.held.expect("its agent holds it");
    says_of(bed, name, generation, state, reason);
}

fn says_of(bed: &mut Bed, name: &str, generation: Generation, state: DriftState, reason: &str) {
    let row = bed.tables.rows.values().find(|row| &*row.name == name).unwrap();
    let drift = Drift { resource: row.physical, generation, state, reason: reason.into() };
    bed.receive(&node(0), Up::Drift(vec![drift]));
}

/// Non-empty reasons of events since the last call.
fn told(bed: &mut Bed) -> Vec<String> {
    std::mem::take(&mut bed.tables.reasons).into_iter().filter(|reason| !reason.is_empty()).collect()
}

fn observed(bed: &Bed, name: &str) -> String {
    bed.resource(name).observed
}

#[test]
fn drift_is_shown_and_durable_and_the_resource_stays_complete() {
    let mut bed = made(ONE);
    says(&mut bed, "a", DriftState::Drifted, "eth0 is down");
    assert_eq!(told(&mut bed), ["drifted: eth0 is down"]);
    for restarted in [false, true] {
        if restarted {
            bed.restart();
        }
        let row = bed.resource("a");
        assert_eq!(
            (&*row.observed, &*row.status, &*bed.status()),
            ("drifted", "COMPLETE", "CREATE_COMPLETE")
        );
        assert_eq!(row.status_reason, "drifted: eth0 is down");
        assert_eq!(bed.engine.view().node_views()[0].drifted, 1);
        let views = bed.engine.view().drift_views(Some(&node(0)));
        assert_eq!((&*views[0].resource, &*views[0].reason), ("a", "drifted: eth0 is down"));
        assert!(bed.engine.view().drift_views(Some(&node(1))).is_empty());
    }
    bed.connect(&node(0));
    says(&mut bed, "a", DriftState::InSync, "");
    assert_eq!((&*observed(&bed, "a"), bed.engine.view().node_views()[0].drifted), ("in_sync", 0));
    assert_eq!(bed.resource("a").status_reason, "");
    assert!(bed.engine.view().drift_views(None).is_empty());
}

#[test]
fn what_is_in_sync_writes_nothing() {
    let mut bed = made(ONE);
    let writes = bed.tables.writes;
    says(&mut bed, "a", DriftState::InSync, "");
    assert_eq!(bed.tables.writes, writes, "of 10,000 nodes that greet, none writes that all is well");
    says(&mut bed, "a", DriftState::Missing, "nothing is there");
    let writes = bed.tables.writes;
    says(&mut bed, "a", DriftState::Missing, "nothing is there");
    assert_eq!(bed.tables.writes, writes);
    assert_eq!(observed(&bed, "a"), "missing");
}

#[test]
fn an_update_applies_what_drifted_and_nothing_else() {
    let mut bed = made("a: x=1 node=node-0\n b: x=2 node=node-0");
    says(&mut bed, "a", DriftState::Drifted, "x is 7");
    bed.update(template("a: x=1 node=node-0\n b: x=2 node=node-0")).unwrap();
    bed.idle();
    assert_eq!((bed.ran.as_slice(), &*bed.status()), (["Update a".to_owned()].as_slice(), "UPDATE_COMPLETE"));
    let row = bed.resource("a");
    assert_eq!((&*row.observed, &*row.status_reason), ("in_sync", ""));
}

#[test]
fn a_check_asks_about_what_drifted_as_well() {
    let mut bed = made(ONE);
    says(&mut bed, "a", DriftState::Drifted, "x is 7");
    bed.check().unwrap();
    bed.idle();
    assert_eq!((bed.ran.as_slice(), &*bed.status()), (["Check a".to_owned()].as_slice(), "CHECK_COMPLETE"));
    assert_eq!(observed(&bed, "a"), "in_sync");
}

#[test]
fn what_a_check_found_is_corrected_by_hand_and_needs_no_job() {
    let mut bed = made(ONE);
    let held = bed.tables.rows.values().next().unwrap().progress.held.unwrap();
    for host in bed.hosts.values_mut() {
        host.things.clear();
    }
    bed.check().unwrap();
    bed.idle();
    assert_eq!((&*bed.status(), &*observed(&bed, "a")), ("CHECK_FAILED", "missing"));
    says_of(&mut bed, "a", held, DriftState::InSync, "");
    assert_eq!(observed(&bed, "a"), "in_sync");
    bed.ran.clear();
    bed.update(template(ONE)).unwrap();
    bed.idle();
    assert_eq!((bed.ran.len(), &*bed.status()), (0, "UPDATE_COMPLETE"));
}

#[test]
fn a_hand_corrected_resource_lost_with_its_ledger_is_recreated() {
    let mut bed = made(ONE);
    let held = bed.tables.rows.values().next().unwrap().progress.held.unwrap();
    let things = std::mem::take(&mut bed.hosts.get_mut(&node(0)).unwrap().things);
    bed.check().unwrap();
    bed.idle();
    bed.hosts.get_mut(&node(0)).unwrap().things = things;
    says_of(&mut bed, "a", held, DriftState::InSync, "");
    assert_eq!((&*bed.status(), &*observed(&bed, "a")), ("CHECK_FAILED", "in_sync"));
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().things.clear();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(observed(&bed, "a"), "unknown", "what was found was true of the lost thing");
    bed.update(template(ONE)).unwrap();
    bed.idle();
    assert_eq!((&*bed.status(), bed.reality().len()), ("UPDATE_COMPLETE", 1), "{:?}", bed.ran);
}

#[test]
fn what_was_compared_with_another_state_does_not_count() {
    let mut bed = made(ONE);
    let held = bed.tables.rows.values().next().unwrap().progress.held.unwrap();
    let other = Generation { number: held.number + 1, ..held };
    says_of(&mut bed, "a", other, DriftState::Drifted, "x is 7");
    assert_eq!(observed(&bed, "a"), "in_sync");

    bed.update(template("a: x=2 node=node-0")).unwrap();
    says_of(&mut bed, "a", held, DriftState::Drifted, "x is 7");
    assert_ne!(observed(&bed, "a"), "drifted", "its job is with the agent");
    bed.idle();
    says_of(&mut bed, "a", held, DriftState::Drifted, "x is 1");
    assert_eq!(observed(&bed, "a"), "in_sync", "that was before the update");
}

#[test]
fn what_failed_is_not_taken_for_what_was_applied_before() {
    let mut bed = made(ONE);
    let held = bed.tables.rows.values().next().unwrap().progress.held.unwrap();
    bed.update(template("a: x=2 node=node-0")).unwrap();
    bed.fail_next(&node(0), true);
    says_of(&mut bed, "a", held, DriftState::InSync, "");
    assert_eq!((&*observed(&bed, "a"), &*bed.resource("a").status), ("unknown", "FAILED"));
    bed.update(template("a: x=2 node=node-0")).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Update a"]);
}

#[test]
fn drift_seen_before_a_withdrawn_job_still_counts() {
    let limits = Limits { in_flight_per_node: 1, ..Limits::default() };
    let mut bed = Bed::with(1, limits);
    bed.create(template("a: x=1 node=node-0\n b: x=1 node=node-0")).unwrap();
    bed.idle();
    bed.update(template("a: x=2 node=node-0\n b: x=2 node=node-0")).unwrap();
    assert_eq!(bed.resource("b").phase, "queued");
    says(&mut bed, "b", DriftState::Drifted, "x is 7");
    bed.update(template("a: x=2 node=node-0\n b: x=1 node=node-0")).unwrap();
    bed.idle();
    let row = bed.resource("b");
    assert_eq!(
        (&*row.status, &*row.observed),
        ("COMPLETE", "in_sync"),
        "it was applied again: {:?}",
        bed.ran
    );
    assert!(bed.ran.contains(&"Update b".to_owned()), "{:?}", bed.ran);
}

#[test]
fn an_agent_that_flaps_writes_few_events_but_tells_the_last() {
    let mut bed = made(ONE);
    for n in 0..1000 {
        let state = if n % 2 == 0 { DriftState::Drifted } else { DriftState::InSync };
        says(&mut bed, "a", state, if n % 2 == 0 { "eth0 is down" } else { "" });
        assert_eq!(observed(&bed, "a"), if n % 2 == 0 { "drifted" } else { "in_sync" });
        bed.pass(SECOND / 10);
    }
    let events = told(&mut bed);
    assert!((5..=12).contains(&events.len()), "{} events in 100 s", events.len());
    bed.pass(10 * SECOND);
    bed.pass(10 * SECOND);
    says(&mut bed, "a", DriftState::Drifted, "eth0 is down");
    bed.pass(10 * SECOND);
    assert_eq!(told(&mut bed).last().unwrap(), "drifted: eth0 is down");
    says(&mut bed, "a", DriftState::InSync, "");
    bed.pass(10 * SECOND);
    assert_eq!(told(&mut bed), ["in sync again"]);
    bed.pass(100 * SECOND);
    assert!(told(&mut bed).is_empty());
}

#[test]
fn what_differs_is_shown_without_what_a_parameter_hides() {
    let mut bed = from_text(
        "parameters: {secret: {type: string, hidden: true, default: s3cret}}\n\
         resources: {a: {type: Muster::Dummy, properties: {node: node-0, values: {x: {get_param: secret}}}}}\n",
    );
    says(&mut bed, "a", DriftState::Drifted, "wanted s3cret");
    let events = told(&mut bed);
    assert_eq!(events, ["drifted: wanted ******"]);
    assert!(!bed.resource("a").status_reason.contains("s3cret"));
}

#[test]
fn drift_from_the_wrong_node_or_of_unknown_resources_is_ignored() {
    let mut bed = Bed::new(2);
    bed.create(template(ONE)).unwrap();
    bed.idle();
    let row = bed.tables.rows.values().next().unwrap();
    let (resource, generation) = (row.physical, row.progress.held.unwrap());
    let drift = Drift { resource, generation, state: DriftState::Drifted, reason: "a lie".into() };
    bed.receive(&node(1), Up::Drift(vec![drift]));
    let unknown = Drift {
        resource: muster_shared::ResourceId(uuid::Uuid::from_u128(1)),
        generation,
        state: DriftState::Missing,
        reason: String::new(),
    };
    bed.receive(&node(0), Up::Drift(vec![unknown]));
    assert_eq!(observed(&bed, "a"), "in_sync");
}

fn facts(carrier: bool) -> Up {
    let link = |name: &str| LinkFacts { name: name.into(), carrier, ..LinkFacts::default() };
    let links = vec![link("eth0"), link("eth1")];
    Up::Facts(Box::new(Facts { hostname: "web".into(), links, links_total: 2, ..Facts::default() }))
}

/// A bed whose resource `a` owns eth1.
fn with_link() -> Bed {
    from_text(
        "resources: {a: {type: Muster::NetworkConfig, properties: {node: node-0, \
         network_config: [{type: interface, name: eth1}]}}}\n",
    )
}

#[test]
fn a_carrier_that_is_lost_on_a_link_of_ours_is_an_event() {
    let mut bed = with_link();
    bed.receive(&node(0), facts(true));
    assert!(told(&mut bed).is_empty(), "what was before is not known");
    bed.receive(&node(0), facts(false));
    assert_eq!(told(&mut bed), ["carrier lost on eth1"], "eth0 is nobody's");
    for _ in 0..100 {
        bed.receive(&node(0), facts(true));
        bed.receive(&node(0), facts(false));
        bed.pass(SECOND / 10);
    }
    bed.receive(&node(0), facts(true));
    bed.pass(10 * SECOND);
    let events = told(&mut bed);
    assert_eq!(events.last().unwrap(), "carrier found on eth1");
    assert!(events.len() <= 3, "{events:?}");
    assert_eq!(observed(&bed, "a"), "in_sync", "a cable is no drift");
}

fn asked(bed: &Bed) -> usize {
    bed.hosts[&node(0)].asked_for_facts
}

#[test]
fn a_facts_request_returns_known_facts_if_the_agent_is_silent() {
    let mut bed = made(ONE);
    let ask = || Request::Facts { node: node(0) };
    let first = bed.put(ask());
    assert_eq!((bed.answers.get(&first), asked(&bed)), (None, 1));
    let second = bed.put(ask());
    assert_eq!(asked(&bed), 1, "once for both");
    bed.receive(&node(0), facts(true));
    for id in [first, second] {
        assert!(matches!(&bed.answers[&id], Ok(Answer::Facts { age, .. }) if age.is_zero()));
    }

    let silent = bed.put(ask());
    bed.pass(3 * SECOND);
    assert!(matches!(&bed.answers[&silent], Ok(Answer::Facts { age, .. }) if *age == 3 * SECOND));

    let leaving = bed.put(ask());
    bed.disconnect(&node(0));
    assert!(bed.answers.contains_key(&leaving));
    bed.pass(7 * SECOND);
    let away = bed.put(ask());
    assert!(matches!(&bed.answers[&away], Ok(Answer::Facts { age, .. }) if *age == 10 * SECOND));

    bed.restart();
    let never = bed.put(ask());
    assert!(matches!(&bed.answers[&never], Err(Refusal::Conflict(why)) if why.contains("has told nothing")));
    let unknown = bed.put(Request::Facts { node: "nobody".parse().unwrap() });
    assert!(matches!(&bed.answers[&unknown], Err(Refusal::NotFound(_))));
}

/// The drift is said while a job waits that comes to nothing, because the next revision ignores drift again.
#[test]
fn ignored_drift_does_not_return_with_a_job_that_never_began() {
    let source = |policy: &str, value: u32| {
        let template = format!(
            "heat_template_version: 2018-08-31\nresources:\n  \
             a: {{type: Muster::Dummy, drift_policy: {policy}, properties: {{node: node-0, values: {{x: '{value}'}}}}}}\n"
        );
        parse(SourceText { name: "t".into(), template, ..Default::default() })
    };
    let mut bed = Bed::new(1);
    bed.create(source("ignore", 1)).unwrap();
    bed.idle();
    bed.ask(Request::Maintenance { node: node(0), on: true }).unwrap();
    bed.update(source("report", 2)).unwrap();
    says(&mut bed, "a", DriftState::Drifted, "x is 3");
    bed.update(source("ignore", 1)).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "nothing is to be done");
    let row = bed.resource("a");
    assert_eq!((row.status.as_str(), &*row.status_reason), ("COMPLETE", ""));
    assert_ne!(row.observed, "drifted");
}
