//! What servers tell of themselves: in selectors, and in templates by `get_node`.

use muster_shared::model::{Facts, LinkFacts, OsFacts, Up};

use super::bed::{Bed, node, options, parse, stack};
use crate::{Refusal, Request, Source, SourceText};

fn facts(os: &str, mac: u8) -> Up {
    let link = LinkFacts { name: "eth0.100".into(), mac: Some([2, 0, 0, 0, 0, mac]), ..LinkFacts::default() };
    let os = OsFacts { id: os.into(), ..OsFacts::default() };
    Up::Facts(Box::new(Facts { os, memory: 16 << 30, links: vec![link], ..Facts::default() }))
}

fn source(values: &str) -> Source {
    let template = format!(
        "heat_template_version: 2018-08-31
resources:
  a: {{type: Muster::Dummy, properties: {{node: node-0, values: {{{values}}}}}}}
  b: {{type: Muster::Dummy, properties: {{node: node-0, values: {{of: {{get_attr: [a, x]}}}}}}}}
"
    );
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

fn values(bed: &Bed) -> Vec<String> {
    bed.reality().into_iter().flat_map(|(_, values)| values.into_values()).collect()
}

#[test]
fn a_template_waits_for_facts_and_takes_them_as_they_are_at_its_next_operation() {
    let ask = "x: {get_node: [node-1, links, eth0.100, mac]}, n: {get_node: [node-1, name]}";
    let mut bed = Bed::new(2);
    bed.create(source(ask)).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS", "node-1 has told nothing yet");
    let view = bed.engine.preview(&stack(), &source(ask), None, &options()).unwrap();
    assert!(view.resources.iter().flat_map(|row| &row.properties).any(|property| property.unknown));

    bed.receive(&node(1), facts("debian", 1));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(values(&bed), ["node-1", "02:00:00:00:00:01", "02:00:00:00:00:01"]);

    bed.receive(&node(1), facts("debian", 7));
    bed.idle();
    assert_eq!(values(&bed)[1], "02:00:00:00:00:01", "nothing follows by itself");
    let view = bed.engine.preview(&stack(), &source(ask), None, &options()).unwrap();
    let changed: Vec<_> = view.resources.iter().flat_map(|row| &row.properties).collect();
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert_eq!((&*changed[0].path, &changed[0].new), ("values.x", &"02:00:00:00:00:07".into()));
    bed.update(source(ask)).unwrap();
    bed.idle();
    assert_eq!(values(&bed), ["node-1", "02:00:00:00:00:07", "02:00:00:00:00:07"]);
    let updated = bed.resource("a").generation;
    bed.update(source(ask)).unwrap();
    bed.idle();
    assert_eq!(bed.resource("a").generation, updated, "the same facts make no job");
}

#[test]
fn what_a_server_told_is_not_true_of_the_one_that_takes_its_name() {
    for removed in [true, false] {
        let mut bed = Bed::new(2);
        bed.receive(&node(1), facts("debian", 1));
        bed.create(source("x: {get_node: [node-1, links, eth0.100, mac]}")).unwrap();
        bed.idle();
        if removed {
            bed.remove(&node(1));
        }
        bed.rejoin(&node(1));
        bed.connect(&node(1));
        bed.update(source("x: {get_node: [node-1, links, eth0.100, mac]}, y: 1")).unwrap();
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "it has told nothing yet");
        bed.receive(&node(1), facts("debian", 2));
        bed.idle();
        assert_eq!(bed.status(), "UPDATE_COMPLETE");
        assert!(values(&bed).contains(&"02:00:00:00:00:02".to_owned()), "{:?}", values(&bed));
    }
}

#[test]
fn what_no_node_has_fails_and_says_so() {
    let mut bed = Bed::new(1);
    bed.receive(&node(0), facts("debian", 1));
    bed.create(source("x: {get_node: [node-0, links, eth7, mac]}")).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_FAILED");
    let reason = bed.resource("a").status_reason;
    assert!(reason.contains("'node-0' has no 'links.eth7.mac'"), "{reason}");
    bed.update(source("x: {get_node: [node-0, os, id]}, l: {get_node: [node-0, labels, role]}")).unwrap();
    bed.idle();
    assert!(bed.resource("a").status_reason.contains("no 'labels.role'"));
}

#[test]
fn nodes_are_selected_by_what_they_told() {
    let mut bed = Bed::new(3);
    bed.receive(&node(0), facts("debian", 1));
    bed.receive(&node(1), facts("rhel", 2));
    let names = |text: &str| {
        let views = bed.engine.selected_views(&text.parse().unwrap());
        views.into_iter().map(|view| view.name).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["node-0", "node-1", "node-2"]);
    assert_eq!(names("fact.os.id=debian"), ["node-0"]);
    assert_eq!(names("fact.os.id!=debian"), ["node-1"], "of node-2 nothing is known");
    assert_eq!(names("fact.memory>=16G,fact.links.*.mac=02:00:00:00:00:02"), ["node-1"]);
    let label = [("fact.os.id".to_owned(), Some("x".to_owned()))].into();
    let refused = bed.ask(Request::LabelNode { node: node(0), labels: label });
    assert!(matches!(refused, Err(Refusal::Invalid(why)) if why.contains("what the server itself tells")));
}
