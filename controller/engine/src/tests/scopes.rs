//! Users who reach a part of the site, and stacks that stay within that part.

use std::collections::BTreeMap;

use muster_api::user::Scope;
use muster_shared::StackName;

use super::bed::{Bed, flows, node, options, stack, template};
use super::trees::source;
use crate::{Options, Refusal, Request, Source};

fn label(bed: &mut Bed, index: usize, key: &str, value: Option<&str>) {
    let labels = BTreeMap::from([(key.to_owned(), value.map(str::to_owned))]);
    bed.ask(Request::LabelNode { node: node(index), labels }).unwrap();
}

/// Three nodes, the first two of which are in the rack.
fn rack() -> Bed {
    let mut bed = Bed::new(3);
    for index in 0..3 {
        label(&mut bed, index, "role", Some("web"));
    }
    for index in 0..2 {
        label(&mut bed, index, "rack", Some("r1"));
    }
    bed
}

fn scope(label: &str, stacks: &str) -> Scope {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Scope { label: some(label).map(|label| label.parse().unwrap()), stacks: some(stacks) }
}

fn create(name: &str, source: Source, label: Option<&str>) -> Request {
    let scope = label.map(|label| label.parse().unwrap());
    Request::Create { name: name.parse().unwrap(), source, options: Options { scope, ..options() } }
}

fn on(node: &str) -> Source {
    template(&format!("a: node={node} x=1"))
}

fn forbidden(result: Result<crate::Answer, Refusal>) -> String {
    match result {
        Err(Refusal::Forbidden(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_user_with_a_scope_may_ask() {
    let mut bed = rack();
    bed.ask(create("web-in", on("node-0"), Some("rack=r1"))).unwrap();
    bed.ask(create("web-out", on("node-2"), None)).unwrap();
    bed.ask(create("db-in", on("node-1"), Some("rack=r1"))).unwrap();
    bed.idle();
    let name = |text: &str| -> StackName { text.parse().unwrap() };
    let delete = |text: &str| Request::Delete { name: name(text) };
    let maintenance = |index| Request::Maintenance { node: node(index), on: true };
    let purge = |device: &str| Request::PurgeFlows {
        device: device.parse().unwrap(),
        forget: false,
        confirm_timeout: None,
    };
    let looks = |index| Request::Facts { node: node(index) };
    let relabel = || Request::LabelNode { node: node(0), labels: BTreeMap::new() };
    let intents = || Request::WithdrawIntents { keys: vec!["k".into()] };
    let revoke = || Request::RevokeNode { node: node(0) };
    let users = || Request::RevokeUser { name: "ben".into() };
    // The request, and whether it may be asked by users with: all, stacks web-*, the label, both.
    for (request, all, stacks, label, both) in [
        (delete("web-in"), true, true, true, true),
        (delete("web-out"), true, true, false, false),
        (delete("db-in"), true, false, true, false),
        (delete("web-new"), true, true, true, true),
        (create("web-new", on("node-2"), None), true, true, true, true),
        (create("db-new", on("node-2"), None), true, false, true, false),
        (Request::Cancel { name: name("web-out") }, true, true, false, false),
        (maintenance(0), true, false, true, true),
        (maintenance(2), true, false, false, false),
        (maintenance(7), true, false, false, false),
        (purge("node-0/br0"), true, false, true, true),
        (purge("node-2/br0"), true, false, false, false),
        (relabel(), true, false, false, false),
        (looks(0), true, true, true, true),
        (looks(2), true, true, false, false),
        (intents(), true, false, false, false),
        (revoke(), true, false, false, false),
        (users(), true, false, false, false),
    ] {
        for (scope, may) in [
            (scope("", ""), all),
            (scope("", "web-*"), stacks),
            (scope("rack=r1", ""), label),
            (scope("rack=r1", "web-*"), both),
        ] {
            let result = bed.engine.view().may_ask(&scope, &request);
            assert_eq!(result.is_ok(), may, "{scope}: {result:?}");
            if let Err(refusal) = result {
                assert!(matches!(&refusal, Refusal::Forbidden(why) if why.contains(&scope.to_string())));
            }
        }
    }
}

#[test]
fn a_stack_with_a_label_has_no_other_nodes() {
    let mut bed = rack();
    let why = forbidden(bed.ask(create("s", on("node-2"), Some("rack=r1"))));
    assert_eq!(
        why,
        "node node-2 does not have the label rack=r1, and the stack has nodes with that label alone"
    );
    assert!(bed.view().is_none(), "a refusal changes nothing");
    // A node that has not joined has no labels.
    forbidden(bed.ask(create("s", on("node-7"), Some("rack=r1"))));
    forbidden(bed.ask(create("s", flows("a: node-2/br0 1"), Some("rack=r1"))));
    bed.ask(create("s", on("node-0"), Some("rack=r1"))).unwrap();
    bed.idle();
    for _ in 0..2 {
        // Every user is refused, also after a restart.
        forbidden(bed.update(on("node-2")));
        bed.restart();
        (0..3).for_each(|index| bed.connect(&node(index)));
    }
    bed.update(on("node-1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn where_the_node_is_known_late_the_resource_fails() {
    let mut bed = rack();
    let late = |node: &str| {
        source(
            &format!(
                "resources:\n  v: {{type: OS::Heat::Value, properties: {{value: {node}}}}}\n  a: {{type: Muster::Dummy, \
                 properties: {{node: {{get_attr: [v, value]}}, values: {{x: 1}}}}}}\n"
            ),
            &[],
        )
    };
    bed.ask(create("s", late("node-2"), Some("rack=r1"))).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    assert!(bed.resource("a").status_reason.contains("rack=r1"), "{}", bed.resource("a").status_reason);
    assert!(bed.ran.iter().all(|job| !job.ends_with(" a")), "{:?}", bed.ran);
    bed.update(late("node-1")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
}

#[test]
fn selectors_and_facts_stay_within_the_label() {
    let mut bed = rack();
    let each = source(
        "resources:\n  a: {type: Muster::Dummy, for_each: {nodes: role=web}, properties: {values: {me: {get_node: name}}}}\n",
        &[],
    );
    bed.ask(create("s", each, Some("rack=r1"))).unwrap();
    bed.idle();
    let members = |bed: &Bed| -> Vec<String> {
        let rows = bed.resources().into_iter().map(|row| row.name);
        rows.filter(|name| name.contains('[')).collect()
    };
    assert_eq!(members(&bed), ["a[node-0]", "a[node-1]"]);
    label(&mut bed, 2, "rack", Some("r1"));
    label(&mut bed, 0, "rack", None);
    bed.pass(std::time::Duration::from_secs(2));
    bed.idle();
    assert_eq!(members(&bed), ["a[node-1]", "a[node-2]"]);
    let reads = source(
        "resources:\n  b: {type: Muster::Dummy, properties: {node: node-1, values: {x: {get_node: [node-0, name]}}}}\n",
        &[],
    );
    bed.ask(Request::Update { name: stack(), source: reads, options: options() }).unwrap();
    bed.idle();
    assert!(bed.resource("b").status_reason.contains("node-0 does not have the label rack=r1"));
}

#[test]
fn a_preview_reads_no_more_than_the_stack_may() {
    let mut bed = rack();
    label(&mut bed, 2, "of", Some("marker-of-others"));
    let reads = source(
        "resources:\n  b: {type: Muster::Dummy, properties: {node: node-1, values: {x: {get_node: [node-2, labels, of]}}}}\n",
        &[],
    );
    let told = |label: Option<&str>| {
        let options = Options { scope: label.map(|label| label.parse().unwrap()), ..options() };
        format!("{:?}", bed.engine.view().preview(&stack(), &reads, None, &options))
    };
    assert!(told(None).contains("marker-of-others"));
    assert!(!told(Some("rack=r1")).contains("marker-of-others"));
}

#[test]
fn a_job_that_waits_does_not_go_to_a_node_that_loses_the_label() {
    let mut bed = rack();
    bed.disconnect(&node(0));
    bed.ask(create("s", on("node-0"), Some("rack=r1"))).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    label(&mut bed, 0, "rack", None);
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), bed.ran.len()), ("CREATE_FAILED", 0));
    assert!(bed.resource("a").status_reason.contains("rack=r1"));
}

#[test]
fn a_site_wide_resource_needs_a_stack_without_a_label() {
    let mut bed = rack();
    let link = source(
        "resources:\n  l: {type: Muster::TopologyLink, properties: {from: {device: node-0/br0, port: a}, to: {device: \
         node-1/br0, port: a}}}\n",
        &[],
    );
    let why = forbidden(bed.ask(create("s", link, Some("rack=r1"))));
    assert!(why.contains("Muster::TopologyLink concerns the network of the whole site"), "{why}");
    let net = source("resources:\n  n: {type: OS::Neutron::Net, properties: {name: ctlplane}}\n", &[]);
    forbidden(bed.ask(create("s", net, Some("rack=r1"))));
}
