//! HOT as Heat's documentation has it: each feature with values that it gives, and what is said of bad input.
//! The rows of `docs/hot.md` name these tests.

mod bounds;
mod conditions;
mod constraints;
mod functions;
mod parameters;
mod properties;
mod texts;
mod versions;
mod waits;
mod yaql;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::ResourceTable;
use crate::{Facade, Parameters, StackNames, Template, parse};

/// Parameters that the tables use.
const PARAMETERS: &str = "
parameters:
  text: {type: string, default: some text}
  number: {type: number, default: 3}
  'on': {type: boolean, default: true}
  'off': {type: boolean, default: false}
  list: {type: comma_delimited_list, default: 'a,b,c'}
  site: {type: json, default: {dns: [10.0.0.53, 10.0.1.53], name: {short: lab}, none: null, pairs: [[k, v], [l, w]]}}
  which: {type: string, default: short}
";

fn template(version: &str, rest: &str) -> Result<Template, String> {
    let text = format!("heat_template_version: {version}{PARAMETERS}{rest}");
    let files = BTreeMap::from([("f.txt".to_owned(), "content of f".to_owned())]);
    parse("t", &text, &files).map_err(|errors| errors.to_string())
}

fn bound(template: &Template, given: &[(&str, Value)]) -> Result<Parameters, String> {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let parameters = template.bind(&given).map_err(|errors| errors.to_string())?;
    let names = StackNames { name: "web".into(), id: "7".into() };
    template.name_stack(parameters, names).map_err(|errors| errors.to_string())
}

/// The value of an output in a template of this version, or what is said without the place.
fn value_in(version: &str, value: &str) -> Result<Value, String> {
    value_of(version, "", value)
}

fn value_of(version: &str, rest: &str, value: &str) -> Result<Value, String> {
    let rest = format!("{rest}\noutputs: {{o: {{value: {value}}}}}\n");
    let template = template(version, &rest)?;
    let parameters = bound(&template, &[])?;
    let nothing = BTreeMap::new();
    template
        .render_output(0, &parameters, &ResourceTable(&template, &nothing))
        .map_err(|error| error.to_string())
}

fn value(value: &str) -> Result<Value, String> {
    value_in("wallaby", value)
}

/// The error of a value, after its place.
fn said(value: &str) -> String {
    let error = self::value(value).expect_err(value);
    error.rsplit_once("outputs.o.value").map_or(error.clone(), |(_, rest)| rest.to_owned())
}

fn gives(rows: &[(&str, Value)]) {
    for (text, wanted) in rows {
        assert_eq!(value(text).as_ref(), Ok(wanted), "{text}");
    }
}

fn says(rows: &[(&str, &str)]) {
    for (text, wanted) in rows {
        assert_eq!(said(text), *wanted, "{text}");
    }
}

#[test]
fn a_nested_stack_sees_its_resource_in_the_outer_template() {
    let rest = "outputs:\n  m: {value: {resource_facade: metadata}}\n  d: {value: {resource_facade: deletion_policy}}\n  u: {value: {resource_facade: update_policy}}\n";
    let template = template("2013-05-23", rest).unwrap();
    let parameters = bound(&template, &[]).unwrap();
    let nothing = BTreeMap::new();
    let rendered = |parameters: &Parameters, index| {
        template
            .render_output(index, parameters, &ResourceTable(&template, &nothing))
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        rendered(&parameters, 1).unwrap_err(),
        "t:11:14: outputs.m.value.resource_facade: only a nested stack has a resource in an outer template"
    );
    let facade = Facade {
        metadata: json!({"role": "web"}),
        deletion_policy: json!("Retain"),
        update_policy: json!({"rolling_update": {"max_batch_size": 1}}),
    };
    let inner = parameters.within(facade);
    assert_eq!(rendered(&inner, 0), Ok(json!("Retain")));
    assert_eq!(rendered(&inner, 1), Ok(json!({"role": "web"})));
    assert_eq!(rendered(&inner, 2), Ok(json!({"rolling_update": {"max_batch_size": 1}})));
    says(&[(
        "{resource_facade: meta}",
        ".resource_facade: unknown data type 'meta'; known are deletion_policy, metadata, update_policy",
    )]);
}

#[test]
fn the_catalogue_is_what_is_read() {
    let functions = crate::functions();
    assert!(functions.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each once");
    for function in functions {
        assert!(!function.syntax.is_empty() && !function.meaning.is_empty(), "{}", function.name);
        assert!(function.syntax.contains(&format!("{{{}:", function.name)), "{}", function.syntax);
        // The error is about the argument, not about the name.
        let error = value(&format!("{{{}: {{}}}}", function.name));
        assert!(
            !error.as_ref().is_err_and(|error| error.contains("unknown function")),
            "{}: {error:?}",
            function.name
        );
    }
}
