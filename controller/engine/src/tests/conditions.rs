//! Conditions decide which rows there are, and `get_param` knows the stack.

use std::collections::BTreeMap;

use serde_json::json;

use super::bed::{Bed, node, options, parse, stack};
use crate::{Source, SourceText};

const TEMPLATE: &str = "heat_template_version: wallaby
parameters: {prod: {type: boolean}}
conditions:
  is_prod: {get_param: prod}
  is_mine: {equals: [{get_param: OS::stack_name}, s]}
resources:
  volume: {type: Muster::Dummy, condition: is_prod, properties: {values: {size: '1'}}}
  other: {type: Muster::Dummy, condition: {not: is_mine}}
  user:
    type: Muster::Dummy
    depends_on: volume
    properties:
      values:
        volume: {get_attr: [volume, size]}
        stack: {list_join: ['-', [{get_param: OS::stack_name}, {get_param: OS::stack_id}]]}
outputs:
  size: {value: {get_attr: [volume, size]}, condition: is_prod}
";

fn source(prod: bool) -> Source {
    parse(SourceText {
        name: "t".into(),
        template: TEMPLATE.into(),
        parameters: BTreeMap::from([("prod".to_owned(), json!(prod))]),
        ..SourceText::default()
    })
}

/// Name and values of each thing that exists.
fn there(bed: &Bed) -> Vec<String> {
    let shown = |(name, values): (_, BTreeMap<String, String>)| format!("{name} {values:?}");
    bed.reality().into_iter().map(shown).collect()
}

#[test]
fn a_resource_comes_and_goes_with_its_condition() {
    let mut bed = Bed::new(1);
    bed.create(source(false)).unwrap();
    bed.idle();
    let without = [r#"user {"stack": "s-1", "volume": ""}"#];
    assert_eq!(
        (bed.status().as_str(), there(&bed)),
        ("CREATE_COMPLETE", without.map(str::to_owned).to_vec())
    );
    assert_eq!(bed.view().unwrap().outputs[0].value, json!(null));

    let preview = bed.engine.view().preview(&stack(), &source(true), None, &options()).unwrap();
    let changes: Vec<_> =
        preview.resources.iter().map(|row| format!("{} {}", row.name, row.change)).collect();
    assert_eq!(changes, ["user update", "volume create"]);

    bed.ran.clear();
    bed.update(source(true)).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Create volume", "Update user"]);
    assert_eq!(there(&bed), [r#"user {"stack": "s-1", "volume": "1"}"#, r#"volume {"size": "1"}"#]);
    assert_eq!(bed.view().unwrap().outputs[0].value, json!("1"));

    bed.ran.clear();
    bed.update(source(false)).unwrap();
    bed.idle();
    assert_eq!(bed.ran, ["Update user", "Delete volume"]);
    assert_eq!(there(&bed), without);

    bed.ran.clear();
    bed.update(source(false)).unwrap();
    bed.idle();
    assert!(bed.ran.is_empty(), "nothing has changed: {:?}", bed.ran);
}

#[test]
fn a_restart_midway_finds_the_rows_that_there_are() {
    let mut bed = Bed::new(1);
    bed.create(source(false)).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), there(&bed).len()), ("CREATE_COMPLETE", 1));
    bed.update(source(true)).unwrap();
    bed.restart();
    bed.connect(&node(0));
    bed.idle();
    assert_eq!((bed.status().as_str(), there(&bed).len()), ("UPDATE_COMPLETE", 2));
}

#[test]
fn what_is_chosen_may_not_need_itself() {
    let text = "heat_template_version: wallaby
resources:
  a: {type: Muster::Dummy, condition: true, properties: {values: {x: {get_attr: [b, x]}}}}
  b: {type: Muster::Dummy, condition: true, properties: {values: {x: {get_attr: [a, x]}}}}
";
    let source = parse(SourceText { name: "t".into(), template: text.into(), ..SourceText::default() });
    let mut bed = Bed::new(1);
    let refusal = bed.create(source).unwrap_err().to_string();
    assert!(refusal.contains("t:3:3: resources.a: dependency cycle: a -> b -> a"), "{refusal}");
    assert_eq!(bed.status(), "gone");
}

#[test]
fn an_immutable_parameter_keeps_its_value() {
    let source = |value: &str, hidden: bool| {
        let template = format!(
            "heat_template_version: wallaby\nparameters: {{p: {{type: string, immutable: true, hidden: {hidden}}}, q: {{type: string, default: x, immutable: true}}}}\n\
             resources: {{a: {{type: Muster::Dummy, properties: {{values: {{p: {{get_param: p}}}}}}}}}}\n"
        );
        let parameters = BTreeMap::from([("p".to_owned(), json!(value))]);
        parse(SourceText { name: "t".into(), template, parameters, ..SourceText::default() })
    };
    let mut bed = Bed::new(1);
    bed.create(source("one", false)).unwrap();
    bed.idle();
    bed.update(source("one", false)).unwrap();
    bed.idle();
    let wanted = "the parameter 'p' is immutable: its value cannot change while the stack is there";
    assert!(bed.update(source("two", false)).unwrap_err().to_string().contains(wanted));
    let preview = bed.engine.view().preview(&stack(), &source("two", false), None, &options());
    assert!(preview.unwrap_err().to_string().contains(wanted));
    assert_eq!(
        (bed.status().as_str(), there(&bed)),
        ("UPDATE_COMPLETE", vec![r#"a {"p": "one"}"#.to_owned()])
    );
    // Nor can a value that is hidden, or was hidden, also after a restart.
    bed.update(source("one", true)).unwrap();
    bed.idle();
    bed.restart();
    bed.connect(&node(0));
    for hidden in [true, false] {
        assert!(bed.update(source("two", hidden)).unwrap_err().to_string().contains(wanted), "{hidden}");
    }
    bed.update(source("one", true)).unwrap();
    bed.idle();
    assert_eq!(
        (bed.status().as_str(), there(&bed)),
        ("UPDATE_COMPLETE", vec![r#"a {"p": "one"}"#.to_owned()])
    );
    assert_eq!(bed.view().unwrap().parameters["p"], "******");
}
