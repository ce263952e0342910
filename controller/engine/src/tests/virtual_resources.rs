//! Virtual resources: made, changed, replaced and removed without a node.

use std::time::Duration;

use super::bed::{Bed, node, options, parse, stack, under};
use crate::{Answer, Hook, Options, Request, Source, SourceText};

/// A template with these resources.
fn source(resources: &str) -> Source {
    let template = format!("heat_template_version: 2018-08-31\nresources: {{{resources}}}\n");
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

fn value(json: &str) -> String {
    format!("v: {{type: OS::Heat::Value, properties: {{value: {json}}}}}")
}

fn with_outputs(resources: &str, outputs: &str) -> Source {
    let template =
        format!("heat_template_version: 2018-08-31\nresources: {{{resources}}}\noutputs: {{{outputs}}}\n");
    parse(SourceText { name: "t".into(), template, ..SourceText::default() })
}

fn output(bed: &Bed, key: &str) -> serde_json::Value {
    let view = bed.view().unwrap();
    view.outputs.iter().find(|output| output.key == key).unwrap().value.clone()
}

#[test]
fn each_type_is_made_with_its_attributes() {
    let mut bed = Bed::new(1);
    let resources = "v: {type: OS::Heat::Value, properties: {type: json, value: '{\"a\": [1, 2]}'}}, \
         n: {type: OS::Heat::None, properties: {whatever: {it: is}}}, \
         r: {type: OS::Heat::RandomString, properties: {length: 8, sequence: digits}}, \
         t: {type: OS::Heat::TestResource, properties: {value: seen}}, \
         s: {type: OS::Heat::DeployedServer, properties: {name: node-0}}, \
         d: {type: Muster::Dummy, properties: {node: {get_resource: s}, values: {of: {get_attr: [v, value, a, 1]}}}}";
    let outputs = "v: {value: {get_attr: [v, value]}}, n: {value: {get_attr: [n, any, path]}}, \
         r: {value: {get_attr: [r, value]}}, id: {value: {get_resource: r}}, t: {value: {get_attr: [t, output]}}, \
         s: {value: {get_attr: [s, name]}}, d: {value: {get_attr: [d, of]}}";
    bed.create(with_outputs(resources, outputs)).unwrap();
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS", "only the dummy is not made at once");
    bed.idle();
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    assert_eq!(output(&bed, "v"), serde_json::json!({"a": [1, 2]}));
    assert_eq!(output(&bed, "n"), serde_json::Value::Null);
    let random = output(&bed, "r");
    let random = random.as_str().unwrap();
    assert!(random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_digit()), "{random}");
    assert_eq!(output(&bed, "id"), random);
    assert_eq!((output(&bed, "t"), output(&bed, "s")), ("seen".into(), "node-0".into()));
    assert_eq!(output(&bed, "d"), "2");
    assert_eq!(bed.ran, ["Create d"]);
    for row in bed.resources().iter().filter(|row| row.name != "d") {
        assert_eq!((&*row.status, &*row.observed, &*row.node), ("COMPLETE", "in_sync", ""), "{}", row.name);
    }
    let before = bed.tables.writes;
    bed.restart();
    bed.connect(&node(0));
    bed.check().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "CHECK_COMPLETE");
    assert!(bed.tables.writes > before);
    bed.delete().unwrap();
    bed.idle();
    assert_eq!(bed.status(), "gone");
    assert!(bed.tables.rows.is_empty() && bed.tables.edges.is_empty());
}

#[test]
fn what_changes_in_place_and_what_is_replaced() {
    let random = |more: &str| format!("v: {{type: OS::Heat::RandomString, properties: {{{more}}}}}");
    let test = |more: &str| format!("v: {{type: OS::Heat::TestResource, properties: {{{more}}}}}");
    for (old, new, change) in [
        (value("1"), value("1"), "unchanged"),
        (value("1"), value("[2]"), "update"),
        (value("1"), "v: {type: OS::Heat::None}".into(), "replace"),
        (random("length: 4"), random("length: 4, salt: x"), "replace"),
        (random("length: 4, salt: x"), random("length: 4, salt: x"), "unchanged"),
        (random("length: 4"), random("length: 5"), "replace"),
        (test("value: a"), test("value: b"), "update"),
        (test("value: a"), test("value: b, update_replace: true"), "replace"),
        (test("value: a"), test("value: b, update_replace_value: b"), "replace"),
        (test("value: a"), test("value: b, update_replace_value: c"), "update"),
    ] {
        let mut bed = Bed::new(0);
        bed.create(source(&old)).unwrap();
        assert_eq!(bed.status(), "CREATE_COMPLETE");
        let before = bed.resource("v");
        let view = bed.engine.view().preview(&stack(), &source(&new), None, &options()).unwrap();
        assert_eq!(view.resources[0].change, change, "{old} -> {new}");
        bed.update(source(&new)).unwrap();
        assert_eq!(bed.status(), "UPDATE_COMPLETE", "{old} -> {new}");
        let after = bed.resource("v");
        assert_eq!(before.physical_id != after.physical_id, change == "replace", "{old} -> {new}");
        assert_eq!(bed.tables.rows.len(), 1, "{old} -> {new}");
    }
}

#[test]
fn a_random_text_is_kept_over_updates_and_restarts() {
    let mut bed = Bed::new(0);
    let with = |more: &str| {
        with_outputs(&format!("r: {{type: OS::Heat::RandomString}}, {more}"), "r: {value: {get_resource: r}}")
    };
    bed.create(with(&value("1"))).unwrap();
    let made = output(&bed, "r");
    bed.restart();
    bed.update(with(&value("2"))).unwrap();
    assert_eq!(output(&bed, "r"), made);
    bed.unhealthy("r").unwrap();
    bed.update(with(&value("2"))).unwrap();
    assert_ne!(output(&bed, "r"), made, "one that nobody trusts is made anew");
}

#[test]
fn hooks_restrictions_failures_and_rollback() {
    let mut bed = Bed::new(0);
    bed.create(under(source(&value("1")), "v: {hooks: [pre-create, post-create, pre-delete, post-delete]}"))
        .unwrap();
    for hook in [Hook::PreCreate, Hook::PostCreate] {
        assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
        bed.restart();
        bed.clear("v", hook).unwrap();
    }
    assert_eq!(bed.status(), "CREATE_COMPLETE");
    bed.update(under(source(&value("2")), "v: {restricted_actions: update}")).unwrap();
    assert_eq!(bed.status(), "UPDATE_FAILED");
    assert_eq!(bed.resource("v").status_reason, "update is restricted by the environment");
    let failing = "v: {type: OS::Heat::TestResource, properties: {fail: true}}";
    bed.ask(Request::Update {
        name: stack(),
        source: source(failing),
        options: Options { rollback: true, ..options() },
    })
    .unwrap();
    assert_eq!(bed.status(), "ROLLBACK_IN_PROGRESS", "it waits at a hook of that revision");
    bed.update(source(&value("3"))).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.update(under(source(&value("3")), "v: {hooks: [pre-delete, post-delete]}")).unwrap();
    assert_eq!(bed.status(), "UPDATE_COMPLETE");
    bed.delete().unwrap();
    for hook in [Hook::PreDelete, Hook::PostDelete] {
        assert_eq!(bed.status(), "DELETE_IN_PROGRESS");
        bed.restart();
        bed.clear("v", hook).unwrap();
    }
    assert_eq!(bed.status(), "gone");
}

#[test]
fn a_test_resource_takes_its_time() {
    let test = |more: &str| source(&format!("v: {{type: OS::Heat::TestResource, properties: {{{more}}}}}"));
    let state = |bed: &Bed| {
        let status = bed.status();
        let row = bed.engine.view().resource_views(&stack(), true).unwrap_or_default().into_iter().next();
        format!("{status} {}", row.map(|row| format!("{} {}", row.status, row.phase)).unwrap_or_default())
    };
    let seconds = Duration::from_secs;
    let mut bed = Bed::new(0);
    bed.create(test("value: a, wait_secs: 2.5, action_wait_secs: {update: 40, delete: '5'}")).unwrap();
    assert_eq!(state(&bed), "CREATE_IN_PROGRESS IN_PROGRESS pause");
    assert_eq!(bed.resource("v").status_reason, "it is ready in 2 s");
    bed.pass(Duration::from_millis(2499));
    assert_eq!(state(&bed), "CREATE_IN_PROGRESS IN_PROGRESS pause");
    bed.pass(Duration::from_millis(1));
    assert_eq!(state(&bed), "CREATE_COMPLETE COMPLETE ");
    // A restart neither forgets the wait nor starts it over.
    let later = test("value: b, wait_secs: 2.5, action_wait_secs: {update: 40, delete: '5'}, fail: true");
    bed.update(later).unwrap();
    bed.pass(seconds(30));
    let waited = |bed: &mut Bed, time: u64| {
        // The store adds the time since it was written.
        for row in bed.tables.rows.values_mut() {
            row.progress.waited = row.progress.waited.map(|_| seconds(time));
        }
        bed.restart();
    };
    waited(&mut bed, 30);
    bed.pass(seconds(9));
    assert_eq!(state(&bed), "UPDATE_IN_PROGRESS IN_PROGRESS pause");
    bed.pass(seconds(1));
    assert_eq!(state(&bed), "UPDATE_FAILED FAILED ");
    assert_eq!(bed.resource("v").status_reason, "told to fail");
    // Another update during the wait starts it over.
    for value in ["c", "d"] {
        bed.update(test(&format!("value: {value}, action_wait_secs: {{update: 9, delete: 5}}"))).unwrap();
        bed.pass(seconds(8));
        assert_eq!(state(&bed), "UPDATE_IN_PROGRESS IN_PROGRESS pause", "{value}");
    }
    bed.pass(seconds(1));
    assert_eq!(state(&bed), "UPDATE_COMPLETE COMPLETE ");
    bed.delete().unwrap();
    bed.pass(seconds(2));
    waited(&mut bed, 2);
    bed.pass(Duration::from_millis(2999));
    assert_eq!(state(&bed), "DELETE_IN_PROGRESS IN_PROGRESS pause");
    bed.pass(Duration::from_millis(1));
    assert_eq!(state(&bed), "gone ");
    assert!(bed.tables.rows.is_empty() && bed.engine.poll_timeout().is_none());
    // With -1 the wait lasts until the stack times out.
    bed.create(test("wait_secs: -1")).unwrap();
    bed.pass(seconds(99_999));
    assert_eq!(bed.status(), "CREATE_IN_PROGRESS");
    bed.pass(seconds(1));
    assert_eq!(bed.status(), "CREATE_FAILED");
}

#[test]
fn a_controller_that_dies_at_any_point_ends_in_the_same() {
    let resources = format!(
        "{}, w: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [v, value]}}}}}}, \
         d: {{type: Muster::Dummy, properties: {{values: {{x: {{get_attr: [w, value]}}}}}}}}, \
         z: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [d, x]}}}}}}",
        value("7")
    );
    let mut bed = Bed::new(1);
    bed.dying = true;
    bed.create(with_outputs(&resources, "z: {value: {get_attr: [z, value]}}")).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status(), output(&bed, "z")), ("CREATE_COMPLETE".into(), "7".into()));
    bed.dying = true;
    bed.delete().unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!(bed.status(), "gone");
    assert!(bed.tables.rows.is_empty());
}

#[test]
fn a_wrong_property_changes_nothing() {
    for (resource, wanted) in [
        ("v: {type: OS::Heat::Value, properties: {value: x, type: number}}", "want a number"),
        (
            "v: {type: OS::Heat::RandomString, properties: {length: 3, character_classes: [{class: digits, min: 4}]}}",
            "4 at least",
        ),
        (
            "v: {type: OS::Heat::TestResource, properties: {wait_secs: {get_param: 'x'}}}",
            "want seconds, from 0 to 2592000, or -1",
        ),
        ("v: {type: OS::Heat::TestResource, properties: {attr_wait_secs: 1}}", "must be 0"),
        (
            "v: {type: OS::Heat::TestResource, properties: {action_wait_secs: {updat: 1}}}",
            "unknown action 'updat'",
        ),
    ] {
        let mut bed = Bed::new(0);
        let template = format!(
            "heat_template_version: 2018-08-31\nparameters: {{x: {{type: string, default: x}}}}\nresources: {{{resource}}}\n"
        );
        let text = SourceText { name: "t".into(), template, ..SourceText::default() };
        let said = match Source::parse(text) {
            Ok(source) => bed.create(source).unwrap_err().to_string(),
            Err(errors) => errors.to_string(),
        };
        assert!(said.contains(wanted), "{said}");
        assert!(bed.tables.stacks.is_empty());
    }
}

#[test]
fn a_server_is_found_by_its_short_name() {
    let named = |name: &str, value: &str| {
        let server = format!("s: {{type: OS::Heat::DeployedServer, properties: {{name: {name}}}}}");
        let dummy = format!(
            "d: {{type: Muster::Dummy, properties: {{node: {{get_resource: s}}, values: {{v: {value}}}}}}}"
        );
        with_outputs(&format!("{server}, {dummy}"), "s: {value: {get_attr: [s, name]}}")
    };
    let mut bed = Bed::new(0);
    for name in ["web-1.example.org", "web-1-a.example.org", "web-10.example.org", "db.example.org"] {
        let name = name.parse().unwrap();
        bed.join(&name);
        bed.connect(&name);
    }
    assert_eq!(
        bed.engine.view().preview(&stack(), &named("web-1", "a"), None, &options()).unwrap().warnings,
        [""; 0]
    );
    bed.create(named("web-1", "a")).unwrap();
    bed.idle();
    assert_eq!((&*bed.status(), output(&bed, "s")), ("CREATE_COMPLETE", "web-1.example.org".into()));
    assert_eq!(bed.resource("d").node, "web-1.example.org");
    let made = bed.resource("s").physical_id;

    // The server stays bound to its node, also when another node has the same short name.
    bed.join(&"web-1.example.net".parse().unwrap());
    bed.restart();
    bed.connect(&"web-1.example.org".parse().unwrap());
    bed.update(named("web-1", "b")).unwrap();
    bed.idle();
    assert_eq!((&*bed.status(), bed.resource("s").physical_id), ("UPDATE_COMPLETE", made));
    assert_eq!(bed.resource("d").node, "web-1.example.org");
    bed.delete().unwrap();
    bed.idle();
    let refusal = bed.create(named("web-1", "a")).unwrap_err().to_string();
    assert!(
        refusal.contains(
            "'web-1' is short for web-1.example.net and for web-1.example.org: give the whole name"
        ),
        "{refusal}"
    );
    bed.create(named("web-1.example.net", "a")).unwrap();
}

#[test]
fn a_short_name_is_somebodys_once_he_joins() {
    let text = |v: u32| {
        with_outputs(
            &format!(
                "s: {{type: OS::Heat::DeployedServer, properties: {{name: web-1}}}}, \
                 d: {{type: Muster::Dummy, properties: {{node: {{get_resource: s}}, values: {{v: {v}}}}}}}"
            ),
            "s: {value: {get_attr: [s, name]}}",
        )
    };
    for restarts in [false, true] {
        let mut bed = Bed::new(1);
        bed.create(text(1)).unwrap();
        bed.idle();
        assert_eq!((bed.status().as_str(), &*bed.resource("d").node), ("CREATE_IN_PROGRESS", "web-1"));
        let made = bed.resource("s").physical_id;
        if restarts {
            bed.restart();
        }
        // A node with another name does not match.
        bed.join(&"web-10.example.org".parse().unwrap());
        assert_eq!(bed.resource("d").node, "web-1");
        let name = "web-1.example.org".parse().unwrap();
        bed.join(&name);
        assert_eq!(bed.resource("d").node, "web-1.example.org");
        bed.connect(&name);
        bed.idle();
        assert_eq!((bed.status(), output(&bed, "s")), ("CREATE_COMPLETE".into(), "web-1.example.org".into()));
        assert!(bed.tables.reasons.iter().any(|told| told == "s: the server web-1 is web-1.example.org"));
        // The binding to the node makes nothing again.
        bed.ran.clear();
        bed.update(text(2)).unwrap();
        bed.idle();
        assert_eq!((bed.ran.as_slice(), bed.resource("s").physical_id), (&["Update d".to_owned()][..], made));
        bed.delete().unwrap();
        bed.idle();
        assert!(bed.status() == "gone" && bed.tables.rows.is_empty());
    }
}

#[test]
fn a_server_that_never_joined_is_told_of() {
    let server = "s: {type: OS::Heat::DeployedServer, properties: {name: node-7}}";
    let mut bed = Bed::new(1);
    let needs = Options { require_nodes: true, ..options() };
    let request = Request::Create { name: stack(), source: source(server), options: needs };
    let refusal = bed.ask(request).unwrap_err().to_string();
    assert!(refusal.contains("these nodes have never joined: node-7"), "{refusal}");
    let Ok(Answer::Stack { warnings, .. }) = bed.create(source(server)) else { panic!("it is waited for") };
    assert_eq!(warnings, ["node node-7 has never joined and is waited for; did you mean node-0?"]);
}
