//! Refused batches: which rule is to blame, what goes on all the same, and what goes on guarded.

use std::time::Duration;

use muster_flow::{FlowOp, FlowWrite};
use muster_shared::model::flow::{DeviceName, Entry, EntryState, Packed};

use super::bed::{Bed, node, parse};
use super::flow_tables::{device, id, put, rule, write};
use crate::{Request, Source, SourceText};

fn guarded_table(table: u8) -> Source {
    let template = "heat_template_version: 2018-08-31
resources:
  a:
    type: Muster::FlowTable
    properties:
      device: node-0/br0
      confirm_timeout: 60
      rules:
        - {priority: 100, selector: {eth_type: 0x0800, ipv4_dst: 10.0.1.0/24}, treatment: [{goto_table: 1}]}
";
    let template = template.replace("goto_table: 1", &format!("goto_table: {table}"));
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

/// Guards of the batches that wait at the node.
fn guards(bed: &Bed) -> Vec<Option<u32>> {
    bed.hosts[&node(0)].flows.waiting.iter().map(|batch| batch.confirm_timeout).collect()
}

fn refusals(bed: &Bed) -> usize {
    bed.hosts[&node(0)].flows.refusals
}

/// The agent has lost its tables.
fn wipe(bed: &mut Bed) {
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.devices.clear();
    bed.connect(&node(0));
}

fn hundred(bed: &mut Bed, d: &DeviceName) {
    let rules: Vec<Entry> = (1..=100).map(|n| rule(n, 1)).collect();
    bed.apply_rules(d, &rules);
}

#[test]
fn a_guard_outlives_the_controller() {
    // The batch is with its agent, or was never sent.
    for away in [false, true] {
        let mut bed = Bed::new(1);
        if away {
            bed.disconnect(&node(0));
        }
        bed.hold(0, true);
        bed.create(guarded_table(1)).unwrap();
        bed.restart();
        bed.connect(&node(0));
        assert_eq!(guards(&bed), [Some(60)]);
    }
}

/// The request of an older write is sent again if a newer one is refused. No operation waits for
/// the older one any longer.
#[test]
fn the_guard_of_an_overwritten_write_outlives_the_controller() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    bed.create(guarded_table(1)).unwrap();
    (0..40).for_each(|_| bed.pass(Duration::from_secs(400)));
    assert_eq!(bed.status(), "CREATE_FAILED");
    bed.update(guarded_table(2)).unwrap();
    bed.restart();
    bed.connect(&node(0));
    assert_eq!(guards(&bed), [Some(60)]);
    bed.bad(&d, 1, true);
    bed.decide(0);
    assert_eq!((refusals(&bed), guards(&bed)), (1, vec![Some(30)]));
}

#[test]
fn a_guard_of_an_operation_outlives_the_controller() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    let stages = vec![vec![write(&d, &[rule(1, 1)])]];
    bed.ask(Request::ApplyFlows { stages, confirm_timeout: Some(60), application: None }).unwrap();
    bed.restart();
    bed.hold(0, true);
    bed.connect(&node(0));
    assert_eq!(guards(&bed), [Some(60)]);
}

#[test]
fn what_waits_unguarded_is_guarded_when_it_is_asked_for_so() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    let stages = vec![vec![write(&d, &[rule(1, 1)])]];
    bed.ask(Request::ApplyFlows { stages, confirm_timeout: Some(60), application: None }).unwrap();
    bed.hold(0, true);
    bed.connect(&node(0));
    assert_eq!(guards(&bed), [Some(60)]);
}

/// The connection to the controller may depend on the removed rule.
#[test]
fn removals_are_guarded_whoever_wants_them() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    bed.hold(0, true);
    bed.ask(Request::DeleteFlows { device: d.clone(), ids: vec![id(&d, 1)], confirm_timeout: None }).unwrap();
    assert_eq!(guards(&bed), [Some(30)], "an operator without a guard");
    bed.decide(0);
    // A foreign rule has one of our cookies.
    let stray = (Packed::new(&rule(7, 1)).unwrap(), EntryState::Present);
    let host = bed.hosts.get_mut(&node(0)).unwrap();
    host.flows.devices.get_mut(&d.bridge).unwrap().entries.insert(id(&d, 7), stray);
    bed.say(&d);
    assert_eq!(guards(&bed), [Some(30)], "a stray");
    bed.decide(0);
    bed.hold(0, false);
    bed.apply_rules(&d, &[rule(3, 1)]);
    bed.hold(0, true);
    let stages = vec![vec![write(&d, &[rule(4, 1)])]];
    bed.ask(Request::ApplyFlows { stages, confirm_timeout: None, application: None }).unwrap();
    assert_eq!(guards(&bed), [None], "a change that only adds is unguarded where that was asked for");
}

#[test]
fn rules_that_cannot_be_put_back_do_not_hold_up_the_others() {
    let (mut bed, d) = (Bed::new(1), device(0));
    hundred(&mut bed, &d);
    (1..=50).for_each(|n| bed.bad(&d, n, false));
    wipe(&mut bed);
    assert_eq!(bed.on_device(&d).len(), 50, "without waiting");
    assert_eq!(bed.standings(&d), "ADDED 50, PENDING_ADD 50");
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.clear();
    bed.pass(Duration::from_secs(600));
    bed.say(&d);
    bed.pass(Duration::from_secs(600));
    assert!(bed.equal(&d), "{}", bed.standings(&d));
}

#[test]
fn what_cannot_be_put_back_and_is_not_named_is_found() {
    let (mut bed, d) = (Bed::new(1), device(0));
    hundred(&mut bed, &d);
    bed.bad(&d, 77, true);
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    wipe(&mut bed);
    (0..300).for_each(|_| bed.pass(Duration::from_secs(1)));
    assert_eq!(bed.standings(&d), "ADDED 99, PENDING_ADD 1");
    let row = bed.engine.view().flows().row(&d, id(&d, 77)).unwrap().rows.remove(0);
    assert_eq!(row.error.as_deref(), Some("no such port"));
    assert_eq!(bed.on_device(&d).len(), 99);
}

#[test]
fn what_is_refused_as_a_whole_is_tried_more_and_more_seldom() {
    let (mut bed, d) = (Bed::new(1), device(0));
    hundred(&mut bed, &d);
    (1..=100).for_each(|n| bed.bad(&d, n, false));
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    wipe(&mut bed);
    (0..3600).for_each(|_| bed.pass(Duration::from_secs(1)));
    assert!((10..80).contains(&refusals(&bed)), "{}", refusals(&bed));
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.clear();
    (0..10).for_each(|_| bed.pass(Duration::from_secs(400)));
    assert!(bed.equal(&d), "{}", bed.standings(&d));
}

#[test]
fn a_write_does_not_fail_for_a_repair_that_nobody_is_blamed_for() {
    let (mut bed, d) = (Bed::new(1), device(0));
    hundred(&mut bed, &d);
    bed.bad(&d, 77, true);
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    wipe(&mut bed);
    let innocent = bed.apply_rules(&d, &[rule(200, 1)]);
    (0..10).for_each(|_| bed.pass(Duration::from_secs(1)));
    assert_eq!(bed.ended(innocent), "COMPLETE");
    let guilty = bed.apply_rules(&d, &[rule(77, 2), rule(201, 1)]);
    (0..300).for_each(|_| bed.pass(Duration::from_secs(1)));
    assert!(bed.ended(guilty).starts_with("FAILED: no such port; which of these"));
}

#[test]
fn an_unnamed_refusal_among_many_writes_happens_only_twice() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    bed.bad(&d, 100, true);
    let operations: Vec<u64> = (1..=100).map(|n| bed.apply_rules(&d, &[rule(n, 1)])).collect();
    bed.connect(&node(0));
    // A guarded batch cuts its node off each time.
    assert_eq!(refusals(&bed), 2);
    let failed = operations.iter().filter(|operation| bed.ended(**operation) != "COMPLETE");
    assert_eq!(failed.collect::<Vec<_>>(), [&operations[99]]);
    let batches = bed.hosts[&node(0)].flows.ran;
    bed.disconnect(&node(0));
    for n in 1..=3 {
        bed.apply_rules(&d, &[rule(n, 2)]);
    }
    bed.connect(&node(0));
    assert_eq!(bed.hosts[&node(0)].flows.ran, batches + 1, "later writes are merged again");
}

/// A guarded batch that cut its node off is refused this way.
#[test]
fn a_refusal_that_names_none_tells_which_rules_it_may_be() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(0);
    bed.bad(&d, 1, true);
    let one = bed.apply_rules(&d, &[rule(1, 1)]);
    let some = bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    let rules: Vec<Entry> = (1..=50).map(|n| rule(n, 1)).collect();
    let many = bed.apply_rules(&d, &rules);
    let of = |operation| bed.operation(operation).errors.remove(0);
    assert_eq!((of(one).id, of(one).error.as_str()), (Some(id(&d, 1).to_string()), "no such port"));
    assert_eq!(of(some).id, None);
    let told = of(some).error;
    assert!((1..=2).all(|n| told.contains(&id(&d, n).to_string())), "{told}");
    assert!(of(many).error.ends_with(" and 40 more"), "{}", of(many).error);
}

#[test]
fn nothing_is_left_of_a_refused_removal_of_what_was_never_there() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 8, true);
    bed.bad(&d, 9, true);
    bed.hold(0, true);
    bed.apply_rules(&d, &[rule(1, 1), rule(8, 1)]);
    let ops = vec![FlowOp::Remove(id(&d, 1)), put(&d, &rule(9, 1))];
    bed.apply(vec![vec![FlowWrite { device: d.clone(), ops }]]).unwrap();
    bed.hold(0, false);
    bed.decide(0);
    assert_eq!(bed.standings(&d), "FAILED 2");
    bed.restart();
    assert_eq!(bed.standings(&d), "FAILED 2");
    bed.remove_rules(&d, &[id(&d, 8), id(&d, 9)]);
    assert_eq!(bed.standings(&d), "PENDING_REMOVE 2", "what the device has is not known until it is there");
    bed.connect(&node(0));
    assert!(bed.tables.flows.entries.is_empty());
}

#[test]
fn of_two_writes_that_fail_together_nothing_is_on_the_device() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.blame_none_above = Some(1);
    bed.bad(&d, 8, true);
    bed.bad(&d, 9, true);
    let older = bed.apply_rules(&d, &[rule(1, 1), rule(8, 1)]);
    let newer = bed.apply_rules(&d, &[rule(1, 2), rule(9, 1)]);
    bed.connect(&node(0));
    assert!(
        [older, newer].iter().all(|it| bed.ended(*it).starts_with("FAILED: no such port; which of these"))
    );
    assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d).len()), ("FAILED 3", 0));
}

#[test]
fn an_operation_that_shares_a_failed_rule_fails_too() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    bed.bad(&d, 1, true);
    let older = bed.apply_rules(&d, &[rule(1, 1)]);
    let newer = bed.apply_rules(&d, &[rule(1, 1), rule(2, 1)]);
    bed.connect(&node(0));
    assert_eq!([older, newer].map(|it| bed.ended(it)), ["FAILED: no such port", "FAILED: no such port"]);
    assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d).len()), ("FAILED 2", 0));
}

#[test]
fn a_device_with_too_many_changes_can_be_purged() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    for n in 0..1024 {
        let (n, table) = (n % 250, u8::try_from(n / 250).unwrap() + 1);
        bed.apply_rules(&d, &[rule(n, table)]);
    }
    let refusal = bed.apply(vec![vec![write(&d, &[rule(1, 9)])]]).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "device 'node-0/br0' has 1024 changes that wait: let its node come, or 'muster flow purge node-0/br0'"
    );
    let purge = Request::PurgeFlows { device: d.clone(), forget: false, confirm_timeout: None };
    bed.ask(purge).unwrap();
    bed.connect(&node(0));
    assert_eq!((bed.standings(&d).as_str(), bed.on_device(&d).len()), ("", 0));
}

#[test]
fn counters_of_tables_are_no_more_than_there_are_tables() {
    use muster_shared::model::Up;
    use muster_shared::model::flow::{FlowUp, TableCounters};
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    // The agent sends far too many counters before the last part.
    bed.hosts.get_mut(&node(0)).unwrap().flows.devices.clear();
    bed.input(crate::Input::Request { id: 77, request: Box::new(Request::FlowStats { device: d.clone() }) });
    let told = |last| {
        let tables = vec![TableCounters { table: 0, active: 1, lookups: 3, matches: 2 }; 200];
        (1..10).map(move |number| FlowUp::Stats {
            device: "br0".parse().unwrap(),
            number,
            entries: Vec::new(),
            tables: tables.clone(),
            last,
        })
    };
    for up in (0..20).flat_map(|_| told(false)).chain(told(true)) {
        bed.receive(&node(0), Up::Flow(up));
    }
    assert_eq!(bed.engine.view().flows().stats(&d).unwrap().tables.len(), 256);
}

#[test]
fn a_write_does_not_wait_for_a_repair_to_be_tried_again() {
    let (mut bed, d) = (Bed::new(1), device(0));
    hundred(&mut bed, &d);
    bed.bad(&d, 77, true);
    wipe(&mut bed);
    for _ in 0..100 {
        bed.pass(Duration::from_secs(1));
        bed.say(&d);
    }
    let refused = refusals(&bed);
    bed.pass(Duration::from_secs(1));
    bed.say(&d);
    assert_eq!(refusals(&bed), refused, "it waits by now");
    let operation = bed.apply_rules(&d, &[rule(200, 1)]);
    assert_eq!(bed.ended(operation), "COMPLETE");
}
