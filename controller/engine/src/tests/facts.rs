//! Facts of servers: in selectors, and in templates by `get_node`.

use muster_shared::model::{Facts, LinkFacts, OsFacts, Up};

use super::bed::{Bed, node, options, parse, stack};
use crate::{Answer, Options, Refusal, Request, Source, SourceText};

pub fn facts(os: &str, mac: u8) -> Up {
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
fn a_template_waits_for_facts_and_rereads_them_per_operation() {
    let ask = "x: {get_node: [node-1, links, eth0.100, mac]}, n: {get_node: [node-1, name]}";
    let mut bed = Bed::new(2);
    bed.create(source(ask)).unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS", "node-1 has told nothing yet");
    let view = bed.engine.view().preview(&stack(), &source(ask), None, &options()).unwrap();
    assert!(view.resources.iter().flat_map(|row| &row.properties).any(|property| property.unknown));

    bed.receive(&node(1), facts("debian", 1));
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(values(&bed), ["node-1", "02:00:00:00:00:01", "02:00:00:00:00:01"]);

    bed.receive(&node(1), facts("debian", 7));
    bed.idle();
    assert_eq!(values(&bed)[1], "02:00:00:00:00:01", "nothing follows by itself");
    let view = bed.engine.view().preview(&stack(), &source(ask), None, &options()).unwrap();
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
fn facts_do_not_pass_to_the_server_that_takes_the_name() {
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
        let selector = text.parse().unwrap();
        let meant = bed.engine.view().known_nodes().into_iter().filter(|node| node.is_meant(&selector));
        meant.map(|node| node.view.name).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["node-0", "node-1", "node-2"]);
    assert_eq!(names("fact.os.id=debian"), ["node-0"]);
    assert_eq!(names("fact.os.id!=debian"), ["node-1"], "of node-2 nothing is known");
    assert_eq!(names("fact.memory>=16G,fact.links.*.mac=02:00:00:00:00:02"), ["node-1"]);
    let label = [("fact.os.id".to_owned(), Some("x".to_owned()))].into();
    let refused = bed.ask(Request::LabelNode { node: node(0), labels: label });
    assert!(matches!(refused, Err(Refusal::Invalid(why)) if why.contains("what the server itself tells")));
}

fn of(resources: &str) -> Source {
    let template = format!("heat_template_version: 2018-08-31\nresources: {{{resources}}}\n");
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

/// `asks` uses a fact of node-1, which is away after the controller's restart.
#[test]
fn an_update_waits_for_facts_only_where_something_changes() {
    let dummy = |name: &str, values: &str| {
        format!("{name}: {{type: Muster::Dummy, properties: {{node: node-0, values: {{{values}}}}}}}")
    };
    let mac = "x: {get_node: [node-1, links, eth0.100, mac]}";
    let group = |v: u8| {
        let member = dummy("d", &format!("v: {v}")).replace("d: ", "");
        format!("g: {{type: OS::Heat::ResourceGroup, properties: {{count: 1, resource_def: {member}}}}}")
    };
    let plain = |v: u8| {
        [dummy("other", &format!("v: {v}")), dummy("asks", mac), dummy("after", "x: {get_attr: [asks, x]}")]
    };
    let attr = |v: u8| {
        [dummy("other", &format!("v: {v}")), dummy("asks", &format!("{mac}, v: {{get_attr: [other, v]}}"))]
    };
    let grouped =
        |v: u8| [group(v), dummy("asks", &format!("{mac}, v: {{list_join: ['', {{get_attr: [g, v]}}]}}"))];
    let own = |v: u8| [dummy("asks", &format!("{mac}, v: {v}"))];
    let value = |v: u8| {
        [
            format!("val: {{type: OS::Heat::Value, properties: {{value: {{{mac}}}}}}}"),
            dummy("other", &format!("v: {v}, w: {{get_attr: [val, value, x]}}")),
        ]
    };
    for (title, before, after, waits, ran) in [
        ("nothing of it", plain(1).join(", "), plain(2).join(", "), false, vec!["Update other"]),
        ("an attribute", attr(1).join(", "), attr(2).join(", "), true, vec!["Update other"]),
        ("an attribute of a group", grouped(1).join(", "), grouped(2).join(", "), true, vec!["Update g/0"]),
        ("its own", own(1).join(", "), own(2).join(", "), true, vec![]),
        ("what uses its value", value(1).join(", "), value(2).join(", "), false, vec!["Update other"]),
    ] {
        for half_way in [false, true] {
            let mut bed = Bed::new(2);
            bed.receive(&node(1), facts("debian", 1));
            bed.create(of(&before)).unwrap();
            bed.idle();
            assert_eq!(bed.status(), "CREATE_COMPLETE", "{title}");
            bed.restart();
            bed.connect(&node(0));
            bed.ran.clear();
            let view = bed.engine.view().preview(&stack(), &of(&after), None, &options()).unwrap();
            let row = view.resources.iter().find(|row| row.name == "asks");
            assert_eq!(row.is_some_and(|row| row.change != "unchanged"), waits, "{title}: {row:?}");
            bed.update(of(&after)).unwrap();
            bed.idle();
            assert_eq!(bed.ran, ran, "{title}");
            if !waits {
                assert_eq!(bed.status(), "UPDATE_COMPLETE", "{title}");
                continue;
            }
            if half_way {
                // The restarted controller no longer knows the change.
                bed.restart();
                bed.connect(&node(0));
                bed.idle();
            }
            assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "{title}");
            let row = bed.resource("asks");
            assert_eq!(
                (&*row.phase, &*row.status_reason),
                ("facts", "waits for node node-1 to tell what it is")
            );
            // The same update again: the unreported change is not forgotten.
            bed.update(of(&after)).unwrap();
            bed.idle();
            assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "{title}");
            bed.connect(&node(1));
            assert_eq!(bed.resource("asks").phase, "facts", "it is there and has told nothing");
            bed.receive(&node(1), facts("debian", 1));
            bed.idle();
            assert_eq!(bed.status(), "UPDATE_COMPLETE", "{title}");
            assert_eq!(bed.ran.last().unwrap(), "Update asks", "{title}");
        }
    }
}

#[test]
fn who_asks_a_node_that_nobody_has_is_warned() {
    let mut bed = Bed::new(1);
    bed.join(&"web-1.example.org".parse().unwrap());
    let asks =
        |node: &str| source(&format!("x: {{get_node: [node-0, name]}}, y: {{get_node: [{node}, os, id]}}"));
    for (name, warned) in [
        ("web-1", None),
        ("web-1.example.org", None),
        ("node-9", Some("node node-9 has never joined and is waited for; did you mean node-0?")),
        ("wbe-1", Some("node wbe-1 has never joined and is waited for; did you mean web-1.example.org?")),
    ] {
        let view = bed.engine.view().preview(&stack(), &asks(name), None, &options()).unwrap();
        assert_eq!(view.warnings, warned.map(str::to_owned).as_slice(), "{name}");
        let needs = Options { require_nodes: true, ..options() };
        let strict = bed.engine.view().preview(&stack(), &asks(name), None, &needs);
        assert_eq!(strict.is_err(), warned.is_some(), "{name}: {strict:?}");
    }
    let Ok(Answer::Stack { warnings, .. }) = bed.create(asks("node-9")) else { panic!("it is waited for") };
    assert_eq!(warnings.len(), 1);
    bed.idle();
    assert_eq!(bed.resource("a").phase, "facts");
    bed.join(&"web-1.example.net".parse().unwrap());
    let refused = bed.update(asks("web-1")).unwrap_err().to_string();
    assert!(refused.contains("give the whole name"), "{refused}");
}

/// Each server joins and sends its facts, while rows wait for all of them under their short names.
#[test]
fn who_comes_wakes_those_alone_who_wait_for_him() {
    let visits = |count: usize| {
        let mut rows = Vec::new();
        for at in 0..count {
            rows.push(format!("s{at}: {{type: OS::Heat::DeployedServer, properties: {{name: web-{at}}}}}"));
            let asked = format!("x: {{get_node: [web-{at}, os, id]}}");
            rows.push(format!("a{at}: {{type: OS::Heat::Value, properties: {{value: {{{asked}}}}}}}"));
            let on =
                format!("{{node: {{get_resource: s{at}}}, values: {{x: {{get_attr: [a{at}, value, x]}}}}}}");
            rows.push(format!("d{at}: {{type: Muster::Dummy, properties: {on}}}"));
            let on = format!("{{node: {{get_resource: s{at}}}, values: {{}}}}");
            rows.push(format!("e{at}: {{type: Muster::Dummy, properties: {on}}}"));
        }
        let mut bed = Bed::new(0);
        bed.create(of(&rows.join(", "))).unwrap();
        bed.idle();
        bed.engine.traversals.jobs.graph.ctx.visits = 0;
        for at in 0..count {
            let name = format!("web-{at}.example.org").parse().unwrap();
            bed.join(&name);
            bed.connect(&name);
            bed.receive(&name, facts("debian", 1));
        }
        let visits = bed.engine.traversals.jobs.graph.ctx.visits;
        bed.idle();
        assert_eq!(bed.status(), "CREATE_COMPLETE");
        visits
    };
    let (some, twice) = (visits(15), visits(30));
    assert_eq!(twice, some * 2, "{some} for 15 servers");
    assert!(some <= 15 * 8, "{some}");
}
