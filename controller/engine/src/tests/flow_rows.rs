//! Flow rules as resources: they share one graph with all other resources, and one table with rules
//! of operators.

use muster_flow::FlowStanding;
use muster_shared::model::flow::EntryState;

use super::bed::{Bed, flows, node, parse, stack};
use super::flow_tables::{device, id, rule, write};
use crate::{Options, Refusal, Request, SourceText};

fn added(bed: &Bed, numbers: &[u16]) -> bool {
    let d = device(0);
    let mut ids: Vec<_> = numbers.iter().map(|n| id(&d, *n)).collect();
    ids.sort();
    bed.on_device(&d) == ids && bed.standings(&d) == format!("ADDED {}", ids.len())
}

#[test]
fn a_stack_has_rules_updates_them_and_takes_them_away() {
    let mut bed = Bed::new(1);
    bed.create(flows("a: node-0/br0 1 2\n b: node-0/br0 3 | a")).unwrap();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert!(added(&bed, &[1, 2, 3]));
    let before = bed.resource("a").physical_id;
    bed.update(flows("a: node-0/br0 2=5 4\n b: node-0/br0 3 | a")).unwrap();
    assert_eq!((bed.status().as_str(), bed.resource("a").physical_id), ("UPDATE_COMPLETE", before));
    assert!(added(&bed, &[2, 3, 4]) && bed.equal(&device(0)));
    assert_eq!(bed.resource("a").observed, "in_sync");
    bed.restart();
    bed.connect(&node(0));
    assert!(added(&bed, &[2, 3, 4]));
    let ran = bed.hosts[&node(0)].flows.ran;
    bed.update(flows("a: node-0/br0 2=5 4\n b: node-0/br0 3 | a")).unwrap();
    assert_eq!((bed.status().as_str(), bed.hosts[&node(0)].flows.ran), ("UPDATE_COMPLETE", ran));
    bed.delete().unwrap();
    assert_eq!(bed.status(), "gone");
    assert!(bed.on_device(&device(0)).is_empty());
    assert!(bed.tables.flows.entries.is_empty());
}

#[test]
fn a_rule_may_go_over_from_one_resource_to_another() {
    let mut bed = Bed::new(1);
    bed.create(flows("a: node-0/br0 1 2")).unwrap();
    bed.update(flows("b: node-0/br0 2 3")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(added(&bed, &[2, 3]));
    bed.update(flows("b: node-0/br0 3\n c: node-0/br0 2")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(added(&bed, &[2, 3]));
}

/// The new owner's write is out when the former owner of the rule goes.
#[test]
fn nothing_comes_back_to_a_resource_that_is_gone() {
    for (fails, restarts) in [(true, false), (true, true), (false, false), (false, true)] {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.create(flows("a: node-0/br0 1")).unwrap();
        bed.hold(0, true);
        bed.update(flows("b: node-0/br0 1=2")).unwrap();
        bed.update(flows("c: node-0/br0 1=3")).unwrap();
        bed.delete().unwrap();
        if restarts {
            bed.restart();
            bed.connect(&node(0));
        }
        if fails {
            bed.bad(&d, 1, true);
        }
        bed.hold(0, false);
        bed.decide(0);
        bed.idle();
        bed.delete().ok();
        let rows: Vec<u64> = bed.tables.rows.keys().copied().collect();
        let entries: Vec<_> = bed.tables.flows.entries.values().collect();
        assert!(entries.iter().all(|entry| rows.contains(&entry.owner.0)), "{fails} {restarts}: {entries:?}");
        assert_eq!((bed.status().as_str(), entries.len()), ("gone", 0), "{fails} {restarts}");
        assert!(bed.on_device(&d).is_empty(), "{fails} {restarts}");
    }
}

/// As above, but the former owner stays. It is COMPLETE only once the rule's owner is decided.
#[test]
fn an_update_that_gives_a_rule_away_waits_for_who_takes_it() {
    for fails in [true, false] {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.create(flows("a: node-0/br0 3\n b: node-0/br0 1 2")).unwrap();
        bed.hold(0, true);
        if fails {
            bed.bad(&d, 3, true);
        }
        bed.update(flows("a: node-0/br0 1 3=2\n b: node-0/br0 2")).unwrap();
        bed.decide(0);
        bed.hold(0, false);
        bed.decide(0);
        bed.idle();
        let owner = |name: &str| bed.resource(name).id.parse().unwrap();
        let owned = |n: u16| {
            bed.tables.flows.entries.values().find(|entry| entry.id == id(&d, n)).map(|it| it.owner.0)
        };
        assert_eq!(bed.resource("b").status, "COMPLETE", "{fails}");
        assert_eq!(owned(1), (!fails).then(|| owner("a")), "{fails}: of nobody who does not want it");
        assert_eq!(owned(2), Some(owner("b")));
        assert!(bed.equal(&d), "{fails}");
    }
}

/// The new owner's write is withdrawn before an agent has it.
#[test]
fn who_waits_for_a_write_that_is_taken_back_goes_on() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.create(flows("a: node-0/br0 3\n b: node-0/br0 1 2")).unwrap();
    bed.hold(0, true);
    bed.apply_rules(&d, &[rule(9, 1)]);
    bed.update(flows("a: node-0/br0 1 3\n b: node-0/br0 2")).unwrap();
    bed.update(flows("a: node-0/br0 3\n b: node-0/br0 2")).unwrap();
    bed.hold(0, false);
    bed.decide(0);
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.device_view(&d).rules), ("UPDATE_COMPLETE", 3));
    assert!(added(&bed, &[2, 3, 9]));
}

#[test]
fn why_a_rule_failed_does_not_tell_what_is_hidden() {
    let (mut bed, d) = (Bed::new(1), device(0));
    let template = "heat_template_version: 2018-08-31
parameters:
  port: {type: string, default: hush, hidden: true}
resources:
  a:
    type: Muster::FlowRule
    properties:
      device: node-0/br0
      priority: 100
      selector: {eth_type: 0x0800, ipv4_dst: 10.0.1.0/24}
      treatment: [{output: {get_param: port}}]
";
    let source = parse(SourceText { name: "t".into(), template: template.into(), ..SourceText::default() });
    let why = ("no port hush".into(), true);
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.insert(id(&d, 1), why);
    bed.create(source).unwrap();
    let told = bed.resource("a").status_reason;
    assert!(told.contains("no port") && !told.contains("hush"), "{told}");
}

/// Metrics would have the same sample twice if two owners had one name.
#[test]
fn a_resource_and_its_replacement_are_shown_as_one_owner() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.create(flows("a: node-0/br0 1 2")).unwrap();
    bed.hold(0, true);
    let template = "heat_template_version: 2018-08-31
resources:
  a: {type: Muster::FlowRule, properties: {device: node-0/br0, priority: 7}}
";
    let source = parse(SourceText { name: "t".into(), template: template.into(), ..SourceText::default() });
    bed.update(source).unwrap();
    assert_eq!(bed.standings(&d), "ADDED 2, PENDING_ADD 1");
    let owners = bed.engine.view().flows().stats(&d).unwrap().owners;
    let told: Vec<_> = owners.iter().map(|owner| (owner.owner.as_str(), owner.rules)).collect();
    assert_eq!(told, [("resource a of stack s", 3)]);
}

#[test]
fn another_device_is_another_thing() {
    let mut bed = Bed::new(2);
    bed.create(flows("a: node-0/br0 1")).unwrap();
    let before = bed.resource("a").physical_id;
    bed.update(flows("a: node-1/br0 1")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert_ne!(bed.resource("a").physical_id, before);
    assert!(bed.on_device(&device(0)).is_empty());
    assert_eq!(bed.on_device(&device(1)).len(), 1);
}

#[test]
fn two_owners_of_one_rule_are_refused_naming_both() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    let Err(Refusal::Conflict(why)) = bed.create(flows("a: node-0/br0 1")) else { panic!("refused") };
    assert!(why.contains("resource a") && why.contains("the operator"), "{why}");
    bed.create(flows("a: node-0/br0 2")).unwrap();
    let Err(Refusal::Conflict(why)) = bed.apply(vec![vec![write(&d, &[rule(2, 9)])]]) else {
        panic!("refused")
    };
    assert!(why.contains("the operator") && why.contains("resource a of stack s"), "{why}");
    let request = Request::DeleteFlows { device: d.clone(), ids: vec![id(&d, 2)], confirm_timeout: None };
    let Err(Refusal::Conflict(why)) = bed.ask(request) else { panic!("refused") };
    assert!(why.contains("resource a of stack s"), "{why}");
    let other = Request::Create {
        name: "other".parse().unwrap(),
        source: flows("z: node-0/br0 2"),
        options: Options::default(),
    };
    let Err(Refusal::Conflict(why)) = bed.ask(other) else { panic!("refused") };
    assert!(why.contains("resource z") && why.contains("resource a of stack s"), "{why}");
    assert!(bed.equal(&d));
    assert_eq!(bed.standings(&d), "ADDED 2");
}

/// The rule stays the operator's whether its agent knows of the expiry or has forgotten it.
#[test]
fn a_rule_that_has_expired_is_its_operators_still() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.apply_rules(&d, &[rule(1, 1)]);
    bed.hosts
        .get_mut(&node(0))
        .unwrap()
        .flows
        .devices
        .get_mut(&d.bridge)
        .unwrap()
        .entries
        .get_mut(&id(&d, 1))
        .unwrap()
        .1 = EntryState::Expired;
    bed.say(&d);
    for forgets in [false, true] {
        if forgets {
            bed.disconnect(&node(0));
            bed.hosts.get_mut(&node(0)).unwrap().flows.devices.clear();
            bed.connect(&node(0));
        }
        assert_eq!(bed.standings(&d), "EXPIRED 1", "{forgets}");
        let Err(Refusal::Conflict(why)) = bed.create(flows("a: node-0/br0 1")) else { panic!("{forgets}") };
        assert!(why.contains("belongs to the operator"), "{why}");
    }
    bed.remove_rules(&d, &[id(&d, 1)]);
    bed.create(flows("a: node-0/br0 1")).unwrap();
    assert!(added(&bed, &[1]));
}

#[test]
fn a_claim_counts_before_its_rule_is_there() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.disconnect(&node(0));
    bed.create(flows("a: node-0/br0 2")).unwrap();
    let Err(Refusal::Conflict(why)) = bed.apply(vec![vec![write(&d, &[rule(2, 9)])]]) else {
        panic!("refused")
    };
    assert!(why.contains("resource a of stack s"), "{why}");
}

#[test]
fn a_refused_rule_fails_its_resource_alone() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.bad(&d, 2, true);
    bed.create(flows("a: node-0/br0 1 2\n b: node-0/br0 3\n c: node-0/br0 4 | a")).unwrap();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(bed.resource("a").status_reason.contains("no such port"), "{}", bed.resource("a").status_reason);
    assert_eq!((bed.resource("b").status, bed.resource("c").status), ("COMPLETE".into(), "INIT".into()));
    assert_eq!(bed.standings(&d), "ADDED 1, FAILED 2");
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.clear();
    bed.update(flows("a: node-0/br0 1 2\n b: node-0/br0 3\n c: node-0/br0 4 | a")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(added(&bed, &[1, 2, 3, 4]));
}

#[test]
fn a_failed_update_keeps_the_old_rules_and_can_be_rolled_back() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.create(flows("a: node-0/br0 1 2")).unwrap();
    bed.bad(&d, 3, true);
    bed.update(flows("a: node-0/br0 1=7 3")).unwrap();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert_eq!(bed.on_device(&d).len(), 2);
    bed.rollback(None).unwrap();
    assert_eq!(bed.status(), "ROLLBACK_COMPLETE");
    assert!(added(&bed, &[1, 2]) && bed.equal(&d));
}

#[test]
fn a_newer_update_withdraws_unsent_rules_and_awaits_sent_ones() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    bed.create(flows("a: node-0/br0 1\n b: node-0/br0 2")).unwrap();
    // One of the two writes is out, and the other waits for it.
    assert_eq!(bed.standings(&d), "PENDING_ADD 2");
    bed.update(flows("a: node-0/br0 1=4\n b: node-0/br0 3")).unwrap();
    for _ in 0..6 {
        bed.decide(0);
    }
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    assert!(added(&bed, &[1, 3]) && bed.equal(&d));
}

#[test]
fn a_cancelled_operation_ends_and_the_next_goes_on() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    bed.create(flows("a: node-0/br0 1\n b: node-0/br0 2 | a")).unwrap();
    bed.cancel().unwrap();
    bed.hold(0, false);
    bed.decide(0);
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert_eq!(bed.on_device(&d), vec![id(&d, 1)]);
    bed.update(flows("a: node-0/br0 1\n b: node-0/br0 2 | a")).unwrap();
    assert!(added(&bed, &[1, 2]));
}

#[test]
fn a_check_says_what_is_not_there() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.create(flows("a: node-0/br0 1 2")).unwrap();
    bed.check().unwrap();
    assert_eq!(bed.status(), "CHECK_COMPLETE");
    bed.bad(&d, 1, true);
    let flows_of = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
    flows_of.devices.get_mut(&d.bridge).unwrap().entries.remove(&id(&d, 1));
    bed.say(&d);
    bed.check().unwrap();
    assert_eq!((bed.status().as_str(), bed.resource("a").observed.as_str()), ("CHECK_FAILED", "drifted"));
    assert!(bed.resource("a").status_reason.contains(&id(&d, 1).to_string()));
}

#[test]
fn what_is_retained_is_the_operators() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.create(flows("a: retain node-0/br0 1")).unwrap();
    bed.delete().unwrap();
    assert_eq!(bed.status(), "gone");
    assert!(added(&bed, &[1]));
    let operation = bed.remove_rules(&d, &[id(&d, 1)]);
    assert_eq!(bed.ended(operation), "COMPLETE");
}

#[test]
fn a_removed_node_leaves_lost_rules_which_go_when_it_is_back() {
    let mut bed = Bed::new(1);
    let d = device(0);
    bed.create(flows("a: node-0/br0 1")).unwrap();
    assert_eq!(bed.remove(&node(0)), ["a"]);
    bed.update(flows("b: node-0/br0 2")).unwrap();
    bed.restart();
    bed.rejoin(&node(0));
    bed.connect(&node(0));
    assert_eq!(bed.status(), "UPDATE_COMPLETE", "{:?}", bed.resources());
    assert!(bed.lost(&node(0)).is_empty());
    assert_eq!(bed.on_device(&d), vec![id(&d, 2)]);
}

#[test]
fn a_controller_that_restarts_in_the_middle_of_a_job_goes_on() {
    for lost in [false, true] {
        let (mut bed, d) = (Bed::new(1), device(0));
        bed.hold(0, true);
        bed.create(flows("a: node-0/br0 1\n b: node-0/br0 2 | a")).unwrap();
        let host = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
        if lost {
            host.waiting.clear();
        } else {
            host.run();
        }
        bed.restart();
        bed.hold(0, false);
        bed.connect(&node(0));
        assert_eq!(bed.status(), "CREATE_COMPLETE");
        assert!(added(&bed, &[1, 2]) && bed.equal(&d));
    }
}

#[test]
fn a_node_that_goes_in_the_middle_of_a_job_is_waited_for() {
    let (mut bed, d) = (Bed::new(1), device(0));
    bed.hold(0, true);
    bed.create(flows("a: node-0/br0 1")).unwrap();
    bed.disconnect(&node(0));
    bed.hosts.get_mut(&node(0)).unwrap().flows.waiting.clear();
    bed.hold(0, false);
    bed.connect(&node(0));
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert!(bed.equal(&d));
}

#[test]
fn a_preview_says_what_would_be() {
    let mut bed = Bed::new(1);
    bed.create(flows("a: node-0/br0 1")).unwrap();
    let view =
        bed.engine.view().preview(&stack(), &flows("a: node-0/br0 1 2"), None, &Options::default()).unwrap();
    let text = format!("{view:?}");
    assert!(text.contains("10.0.2.0/24"), "{text}");
    assert_eq!(bed.engine.view().flows().standing(&device(0), id(&device(0), 1)), Some(FlowStanding::Added));
}

#[test]
fn one_graph_orders_rules_and_other_things() {
    let mut bed = Bed::new(1);
    let text = "heat_template_version: 2018-08-31\nresources:\n  bridge: {type: Muster::Dummy, properties: {node: node-0, values: {a: b}}}\n  \
        rule:\n    type: Muster::FlowRule\n    depends_on: bridge\n    properties: {device: node-0/br0, priority: 100, selector: {eth_type: 0x0800, ipv4_dst: 10.0.1.0/24}, treatment: [{output: NORMAL}]}\n  \
        service: {type: Muster::Dummy, properties: {node: node-0, values: {id: {get_attr: [rule, id]}}}}\n";
    bed.create(parse(SourceText { name: "t".into(), template: text.into(), ..SourceText::default() }))
        .unwrap();
    assert!(bed.on_device(&device(0)).is_empty(), "its bridge is not there yet");
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    let (_, values) = bed.reality().remove(1);
    assert_eq!(values["id"], id(&device(0), 1).to_string());
}

/// The rule has the hidden text in another form.
#[test]
fn rules_made_of_something_hidden_are_known_as_such() {
    let source = |secret: &str, hidden: bool| {
        let template = format!(
            "heat_template_version: 2018-08-31
parameters:
  net: {{type: string, hidden: {hidden}}}
resources:
  a:
    type: Muster::FlowRule
    deletion_policy: retain
    properties: {{device: node-0/br0, priority: 7, selector: {{eth_type: 0x0800, ipv4_dst: {{get_param: net}}}}, treatment: []}}
  b:
    type: Muster::FlowRule
    properties: {{device: node-0/br0, priority: 8, selector: {{eth_type: 0x0800, ipv4_dst: 10.9.0.0/24}}, treatment: []}}
"
        );
        let parameters = [("net".to_owned(), secret.into())].into();
        parse(SourceText { name: "t".into(), template, parameters, ..SourceText::default() })
    };
    let secret = |bed: &Bed| {
        let rows = bed.engine.view().flows().rows(&device(0), None).unwrap();
        for row in &rows.rows {
            let one = bed.engine.view().flows().row(&device(0), row.id).unwrap();
            let durable = bed.tables.flows.entries.values().find(|entry| entry.id == row.id).unwrap();
            assert_eq!((one.rows[0].secret, durable.hidden), (row.secret, row.secret));
        }
        let mut secret: Vec<(&str, bool)> =
            rows.rows.iter().map(|row| (&*rows.owners[&row.owner], row.secret)).collect();
        secret.sort();
        secret.iter().map(|(_, secret)| *secret).collect::<Vec<_>>()
    };
    let mut bed = Bed::new(1);
    bed.create(source("10.1.2.0/255.255.255.0", true)).unwrap();
    assert_eq!((bed.status(), secret(&bed)), ("CREATE_COMPLETE".into(), vec![true, false]));
    bed.restart();
    assert_eq!(secret(&bed), [true, false], "its values are not known any more");
    // The rule on the device still has the hidden value.
    bed.update(source("10.1.3.0/24", false)).unwrap();
    assert_eq!(secret(&bed), [true, false]);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status(), secret(&bed)), ("UPDATE_COMPLETE".into(), vec![false, false]));
    // The value stays the same, and is a secret from now on.
    bed.update(source("10.1.3.0/24", true)).unwrap();
    bed.idle();
    assert_eq!((bed.status(), secret(&bed)), ("UPDATE_COMPLETE".into(), vec![true, false]));
    bed.delete().unwrap();
    bed.idle();
    assert_eq!((bed.status(), secret(&bed)), ("gone".into(), vec![true]), "what was left to operators");
    bed.restart();
    assert_eq!(secret(&bed), [true]);
    let rows = bed.engine.view().flows().rows(&device(0), None).unwrap();
    assert_eq!(rows.owners.values().collect::<Vec<_>>(), ["the operator"]);
    // An operator who writes the same rule makes it public.
    let (ran, id) = (bed.hosts[&node(0)].flows.ran, rows.rows[0].id);
    let entry = rows.rows[0].packed.unpack();
    bed.connect(&node(0));
    bed.apply_rules(&device(0), &[entry]);
    assert_eq!((secret(&bed), rows.rows[0].id), (vec![false], id));
    assert_eq!(bed.hosts[&node(0)].flows.ran, ran, "nothing changes on the device");
}

/// An entry whose write is not decided was another rule before.
#[test]
fn what_a_rule_was_before_is_hidden_with_it() {
    let source = |port: &str, hidden: bool| {
        let template = format!(
            "heat_template_version: 2018-08-31
parameters:
  port: {{type: string, hidden: {hidden}}}
resources:
  a: {{type: Muster::FlowRule, properties: {{device: node-0/br0, priority: 7, treatment: [{{output: {{get_param: port}}}}]}}}}
"
        );
        let parameters = [("port".to_owned(), port.into())].into();
        parse(SourceText { name: "t".into(), template, parameters, ..SourceText::default() })
    };
    let hidden = |bed: &Bed| {
        let entries: Vec<_> = bed.tables.flows.entries.values().collect();
        assert_eq!(entries.len(), 1);
        let past: Vec<bool> = entries[0].past.iter().map(|past| past.hidden).collect();
        (entries[0].hidden, past)
    };
    let mut bed = Bed::new(1);
    bed.create(source("eth7", false)).unwrap();
    assert_eq!((bed.status(), hidden(&bed)), ("CREATE_COMPLETE".into(), (false, vec![])));
    bed.hold(0, true);
    bed.update(source("eth8", false)).unwrap();
    assert_eq!(hidden(&bed), (false, vec![false]));
    bed.update(source("eth8", true)).unwrap();
    assert_eq!(hidden(&bed), (true, vec![true]), "so it was while it was no secret");
    bed.restart();
    bed.hold(0, false);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status(), hidden(&bed)), ("UPDATE_COMPLETE".into(), (true, vec![])));
    // A failed entry is hidden again, as it was before.
    let id = bed.engine.view().flows().rows(&device(0), None).unwrap().rows[0].id;
    bed.hosts.get_mut(&node(0)).unwrap().flows.bad.insert(id, ("no".into(), true));
    bed.update(source("eth9", false)).unwrap();
    bed.idle();
    assert_eq!((bed.status(), hidden(&bed)), ("UPDATE_FAILED".into(), (true, vec![])));
}

/// The reason has the hidden text in the form of the rule, and in a notation that cannot be foreseen.
#[test]
fn a_refusal_of_a_hidden_rule_shows_no_hidden_value() {
    let template = "heat_template_version: 2018-08-31
parameters:
  net: {type: string, default: 10.77.2.0/255.255.255.0, hidden: true}
resources:
  a: {type: Muster::FlowRule, properties: {device: node-0/br0, priority: 7, selector: {eth_type: 0x0800, ipv4_dst: {get_param: net}}, treatment: [{output: NORMAL}]}}
";
    let source =
        || parse(SourceText { name: "t".into(), template: template.into(), ..SourceText::default() });
    let mut bed = Bed::new(1);
    bed.create(source()).unwrap();
    let id = bed.engine.view().flows().rows(&device(0), None).unwrap().rows[0].id;
    bed.delete().unwrap();
    let why = "the switch refused it: BAD_VALUE: ip daddr 10.77.2.0/24 (0x0a4d0200)";
    for named in [true, false] {
        let flows = &mut bed.hosts.get_mut(&node(0)).unwrap().flows;
        flows.bad.insert(id, (why.into(), true));
        flows.blame_none_above = (!named).then_some(0);
        bed.create(source()).unwrap();
        bed.idle();
        let told = bed.resource("a").status_reason;
        assert!(told.contains("the switch refused it: BAD_VALUE: ip daddr ******"), "{told}");
        let rows = bed.engine.view().flows().rows(&device(0), None).unwrap().rows;
        let all = format!("{told} {:?} {:?}", bed.tables.reasons, rows[0].error);
        assert!(!all.contains("10.77") && !all.contains("0a4d"), "{all}");
        assert!(told.contains(&id.to_string()));
        bed.delete().unwrap();
        bed.idle();
    }
}
