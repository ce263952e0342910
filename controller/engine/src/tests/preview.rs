use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::bed::{Bed, files, node, options, parse, stack, template, under};
use crate::{Options, PreviewView, Refusal, Request, Source, SourceText};

fn preview(bed: &Bed, source: &Source) -> PreviewView {
    bed.engine.view().preview(&stack(), source, None, &options()).unwrap()
}

/// A preview as a text: `a create, b update [values.x 1 2]`
fn shown(view: &PreviewView) -> String {
    let rows = view.resources.iter().map(|row| {
        let properties: Vec<String> = row
            .properties
            .iter()
            .map(|p| format!("{} {} {}", p.path, p.old, if p.unknown { json!("?") } else { p.new.clone() }))
            .collect();
        let properties =
            if properties.is_empty() { String::new() } else { format!(" [{}]", properties.join(", ")) };
        format!("{} {}{}{properties}", row.name, row.change, if row.restricted { " restricted" } else { "" })
    });
    rows.collect::<Vec<_>>().join("; ")
}

#[test]
fn each_change_with_what_differs() {
    let mut bed = Bed::new(1);
    let old = "a: x=1\n b: x=@a.x | a\n c: !x=1\n d: x=1\n e: y=@c.!x";
    bed.create(template(old)).unwrap();
    bed.idle();
    let writes = bed.tables.writes;
    for (new, wanted) in [
        (old, "a unchanged; b unchanged; c unchanged; d unchanged; e unchanged"),
        ("", r#"a delete; b delete; c delete; d delete; e delete"#),
        (
            "a: x=2\n b: x=@a.x | a\n c: !x=1\n d: x=1\n e: y=@c.!x",
            r#"a update [values.x "1" "2"]; b update [values.x "1" "2"]; c unchanged; d unchanged; e unchanged"#,
        ),
        (
            "a: x=1\n b: x=@a.x | a\n c: !x=2\n d: x=1\n e: y=@c.!x\n f: z=1",
            r#"c replace [values.!x "1" "2"]; e update [values.y "1" "2"]; f create [node null null, seconds null 0.0, values null {"z":"1"}]; a unchanged; b unchanged; d unchanged"#,
        ),
        (
            "a: x=1 y=1\n b: x=@a.x | a\n c: !x=1\n d: x=1 node=node-7\n e: y=@c.!x",
            r#"a update [values.y null "1"]; d replace [node "node-0" "node-7"]; b unchanged; c unchanged; e unchanged"#,
        ),
    ] {
        let mut view = preview(&bed, &template(new));
        for row in view.resources.iter_mut().filter(|row| row.change == "delete") {
            assert!(row.properties.iter().all(|property| property.new.is_null() && !property.unknown));
            row.properties.clear();
        }
        // A resource that may be on any node has no known node before.
        let wanted = wanted.replace("node null null, ", "");
        assert_eq!(shown(&view), wanted, "{new}");
        assert_eq!(view.counts.values().sum::<u64>() as usize, view.resources.len());
    }
    assert_eq!(bed.tables.writes, writes, "nothing has changed");
    assert_eq!(bed.status(), "CREATE_COMPLETE");
}

#[test]
fn what_follows_from_a_thing_that_is_yet_to_be_made_is_unknown() {
    let text = |force: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31
resources:
  a: {{type: Muster::Dummy, properties: {{values: {{'!x': '{force}'}}}}}}
  b: {{type: Muster::Dummy, properties: {{values: {{of: {{get_resource: a}}, same: s}}}}}}
  c: {{type: Muster::Dummy, properties: {{values: {{'!of': {{list_join: ['-', [b, {{get_attr: [b, of]}}]]}}}}}}}}
  d: {{type: Muster::File, properties: {{node: node-0, path: /d, content: {{get_attr: [b, of]}}}}}}
"
        );
        parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    let view = preview(&bed, &text("1"));
    let unknown: Vec<&str> = view
        .resources
        .iter()
        .flat_map(|row| &row.properties)
        .filter(|property| property.unknown && property.new.is_null())
        .map(|property| property.path.as_str())
        .collect();
    assert_eq!(unknown, ["values", "values", "content"], "a stack that is not there is created");
    bed.create(text("1")).unwrap();
    bed.idle();
    let id = bed.resource("a").physical_id;
    let view = preview(&bed, &text("2"));
    assert_eq!(
        shown(&view),
        format!(
            r#"a replace [values.!x "1" "2"]; b update [values.of "{id}" "?"]; c replace [values.!of "b-{id}" "?"]; d update [content "{id}" "?"]"#
        )
    );
}

#[test]
fn restricted_changes_and_mistyped_names() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: !x=1\n c: x=1")).unwrap();
    bed.idle();
    let rules = "a: {restricted_actions: update}, b: {restricted_actions: replace}, cc: {hooks: pre-create}";
    let view = preview(&bed, &under(template("a: x=2\n b: !x=2\n c: x=2"), rules));
    assert_eq!(
        shown(&view),
        r#"a update restricted [values.x "1" "2"]; b replace restricted [values.!x "1" "2"]; c update [values.x "1" "2"]"#
    );
    assert_eq!(
        view.warnings,
        [
            "an environment names the resource 'cc', which the template does not have; did you mean 'c'?",
            "2 resources would fail, for the environment restricts it, and what needs them would wait"
        ]
    );
}

#[test]
fn what_an_update_would_be_refused_for() {
    let mut bed = Bed::new(1);
    bed.create(files("a: /etc/motd")).unwrap();
    bed.idle();
    let other = "other".parse().unwrap();
    let refused = bed.engine.view().preview(&other, &files("b: /etc/motd"), None, &options());
    assert!(
        matches!(refused, Err(Refusal::Conflict(why)) if why.contains("resource a of stack s: one thing has one owner"))
    );
    let required = Options { require_nodes: true, ..options() };
    let refused = bed.engine.view().preview(&stack(), &template("b: node=node-7"), None, &required);
    assert!(matches!(refused, Err(Refusal::Conflict(why)) if why.contains("node-7")));
    let view = preview(&bed, &template("b: node=node-7"));
    assert_eq!(view.warnings, ["node node-7 has never joined and is waited for; did you mean node-0?"]);
    bed.delete().unwrap();
    assert!(matches!(
        bed.engine.view().preview(&stack(), &files("b: /etc/motd"), None, &options()),
        Err(Refusal::Conflict(_))
    ));
}

#[test]
fn hidden_values_are_masked_before_and_after() {
    let text = "heat_template_version: 2018-08-31
parameters:
  secret: {type: string, hidden: true}
  pin: {type: number, hidden: true, default: 4711}
resources:
  a:
    type: Muster::File
    properties: {node: node-0, path: /a, content: {list_join: [' ', [it is, {get_param: secret}, {get_param: pin}]]}}
";
    let source = |secret: &str| {
        let parameters = [("secret".to_owned(), secret.into())].into();
        parse(SourceText { name: "t".into(), template: text.into(), parameters, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    let (old, new) = (source("hunter2"), source("hunter3"));
    bed.create(old.clone()).unwrap();
    bed.idle();
    for (tree, before) in [(Some(&*old.tree), "it is ****** ******"), (None, "******")] {
        let view = bed.engine.view().preview(&stack(), &new, tree, &options()).unwrap();
        let property = &view.resources[0].properties[0];
        assert_eq!((&property.old, &property.new), (&json!(before), &json!("it is ****** ******")));
        let view = bed.engine.view().preview(&stack(), &template(""), tree, &options()).unwrap();
        assert!(!serde_json::to_string(&view).unwrap().contains("hunter"));
    }
    // The row is not of the current revision, so its hidden values are not known.
    bed.disconnect(&node(0));
    bed.update(new.clone()).unwrap();
    let view = bed.engine.view().preview(&stack(), &source("hunter4"), Some(&new.tree), &options()).unwrap();
    assert!(!serde_json::to_string(&view).unwrap().contains("hunter"));
}

#[test]
fn external_and_retained() {
    let text = |properties: &str| {
        let text = format!(
            "heat_template_version: 2018-08-31\nresources:\n  a: {{type: Muster::File, {properties}, properties: {{node: node-0, path: /a, content: x}}}}\n"
        );
        parse(SourceText { name: "t".into(), template: text, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    assert_eq!(preview(&bed, &text("external_id: theirs")).resources[0].change, "adopt");
    bed.create(text("deletion_policy: retain")).unwrap();
    bed.idle();
    let view = preview(&bed, &template(""));
    assert_eq!(
        (view.resources[0].change.as_str(), view.resources[0].deletion_policy.as_str()),
        ("delete", "retain")
    );
}

/// The change of each resource in an update, from the jobs that ran.
fn done(bed: &Bed, source: &Source) -> BTreeMap<String, String> {
    let ran = |what: &str, name: &str| bed.ran.iter().any(|ran| *ran == format!("{what} {name}"));
    let mut names: Vec<String> =
        (0..source.tree.len()).map(|index| source.tree.name(index).to_owned()).collect();
    names.extend(bed.ran.iter().filter_map(|ran| ran.split_once(' ')).map(|(_, name)| name.to_owned()));
    let change = |name: &String| match (ran("Create", name), ran("Update", name), ran("Delete", name)) {
        (true, _, true) => "replace",
        (true, ..) => "create",
        (_, true, _) => "update",
        (.., true) => "delete",
        _ => "unchanged",
    };
    names.iter().map(|name| (name.clone(), change(name).to_owned())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An update does what its preview shows, also in a stack whose last operation failed.
    #[test]
    fn an_update_does_what_its_preview_says(seed: u64) {
        let mut dice = super::random::Dice(seed);
        let mut bed = Bed::new(2);
        let mut source = super::random::graph_with_references(&mut dice);
        for round in 0..4 {
            if round == 0 {
                bed.create(source.clone()).unwrap();
            } else {
                let next = super::random::graph_with_references(&mut dice);
                let view = bed.engine.view().preview(&stack(), &next, Some(&source.tree), &options()).unwrap();
                let said: BTreeMap<String, String> =
                    view.resources.iter().map(|row| (row.name.clone(), row.change.clone())).collect();
                let before: BTreeMap<String, Value> =
                    bed.reality().into_iter().map(|(name, values)| (name, json!(values))).collect();
                bed.ran.clear();
                bed.ask(Request::Update { name: stack(), source: next.clone(), options: options() }).unwrap();
                bed.idle();
                prop_assert!(bed.status() == "UPDATE_COMPLETE", "{} {:?}", bed.status(), bed.view());
                prop_assert_eq!(&said, &done(&bed, &next), "{:?}", bed.ran);
                // Each value that the preview shows as changed has changed, and no other.
                let after: BTreeMap<String, Value> =
                    bed.reality().into_iter().map(|(name, values)| (name, json!(values))).collect();
                for row in view.resources.iter().filter(|row| row.change == "update" || row.change == "replace") {
                    let mut values = before[&row.name].clone();
                    for property in &row.properties {
                        let Some(key) = property.path.strip_prefix("values.") else { continue };
                        prop_assert_eq!(&property.old, &values[key], "{}", row.name);
                        let new = after[&row.name].get(key).cloned().unwrap_or_default();
                        prop_assert!(property.unknown || property.new == new, "{} {property:?} {new}", row.name);
                        values[key] = new;
                    }
                    values.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                    prop_assert_eq!(&values, &after[&row.name], "{}", row.name);
                }
                source = next;
            }
            bed.idle();
        }
    }
}
