//! The results of Heat for the same templates: `tests/oracle/recorded.json`, which `tests/oracle/record` rewrites.
//!
//! Differences are listed in `tests/oracle/differences.txt`, and there may be no others: a difference that is gone has
//! to leave the list. `MUSTER_BLESS=1` writes the list as it is, to be read before it is committed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::ResourceTable;
use crate::{StackNames, Template, Tree, parse};

#[derive(Deserialize)]
struct Recorded {
    prefix: BTreeMap<String, String>,
    expressions: Vec<Expression>,
    documents: Vec<Document>,
    coercions: Vec<Coercion>,
}

#[derive(Deserialize)]
struct Expression {
    version: String,
    /// The key of what stands before it, if that is not the version.
    prefix: Option<String>,
    value: String,
    heat: (String, Value),
}

#[derive(Deserialize)]
struct Document {
    document: String,
    heat: (String, Value),
}

#[derive(Deserialize)]
struct Coercion {
    of: String,
    #[serde(rename = "type")]
    kind: String,
    default: Option<Value>,
    given: Value,
    heat: (String, Value),
}

fn oracle(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle").join(file)
}

/// The value of the output of a template with one.
fn output(text: &str) -> Result<Value, String> {
    let files = BTreeMap::from([("f.txt".to_owned(), "content of f".to_owned())]);
    let template = parse("t", text, &files).map_err(|errors| errors.to_string())?;
    let parameters = template.bind(&BTreeMap::new()).map_err(|errors| errors.to_string())?;
    let names = StackNames { name: "web".into(), id: "7".into() };
    let parameters = template.name_stack(parameters, names).map_err(|errors| errors.to_string())?;
    let nothing = BTreeMap::new();
    let refs = ResourceTable(&template, &nothing);
    template.render_output(0, &parameters, &refs).map_err(|error| error.to_string())
}

/// The value on its way to a parameter, or through an OS::Heat::Value.
fn coerced(of: &Coercion) -> Result<Value, String> {
    if of.of == "value" {
        let given = match &of.given {
            Value::Null => json!({"type": of.kind}),
            given => json!({"type": of.kind, "value": given}),
        };
        let made = crate::spec(crate::Kind::Value, &given).map_err(|error| error.to_string())?;
        let crate::Desired::Virtual(crate::VirtualResource::Value(text)) = made else {
            return Err("is no value".to_owned());
        };
        return serde_json::from_str(&text).map_err(|error| error.to_string());
    }
    let mut definition = json!({"type": of.kind});
    if let Some(default) = &of.default {
        definition["default"] = default.clone();
    }
    let inner = json!({
        "heat_template_version": "wallaby",
        "parameters": {"p": definition},
        "resources": {"v": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "p"}}}},
    });
    let inner = inner.to_string();
    if of.of == "root" {
        let template = parse("t", &inner, &BTreeMap::new()).map_err(|errors| errors.to_string())?;
        let given = BTreeMap::from([("p".to_owned(), of.given.clone())]);
        let parameters = template.bind(&given).map_err(|errors| errors.to_string())?;
        return Ok(parameters.get("p").cloned().unwrap_or_default());
    }
    let outer = json!({
        "heat_template_version": "wallaby",
        "resources": {"n": {"type": "inner.yaml", "properties": {"p": of.given}}},
    });
    let files = BTreeMap::from([("inner.yaml".to_owned(), inner)]);
    let template: Template = parse("t", &outer.to_string(), &files).map_err(|errors| errors.to_string())?;
    let environment = crate::Environment::default();
    let parameters = template.bind(&BTreeMap::new()).map_err(|errors| errors.to_string())?;
    let tree = Tree::new(template.into(), parameters.into(), &environment, &files);
    let tree = tree.map_err(|errors| errors.to_string())?;
    let index = (0..tree.len()).find(|index| tree.name(*index) == "n/v").ok_or("there is no 'n/v'")?;
    let made = tree.render(index, &crate::render::Unknown).map_err(|error| error.to_string())?;
    Ok(made.get("value").cloned().unwrap_or_default())
}

/// Numbers that are equal in Python are.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// The line of a difference; nothing where there is none.
fn difference(shown: &str, heat: &(String, Value), ours: &Result<Value, String>) -> Option<String> {
    let heats = (heat.0 == "ok").then_some(&heat.1);
    let line = match (heats, ours) {
        (Some(heats), Ok(ours)) if is_same(heats, ours) => return None,
        (None, Err(_)) => return None,
        (Some(heats), Ok(ours)) => format!("another value\t{shown}\t{heats}\t{ours}"),
        (Some(heats), Err(error)) => {
            let error = error.rsplit_once("outputs.o.value").map_or(&**error, |(_, rest)| rest);
            format!("refused here\t{shown}\t{heats}\t{error}")
        }
        (None, Ok(ours)) => format!("refused by Heat\t{shown}\t{}\t{ours}", heat.1),
    };
    Some(line.replace('\n', "\\n"))
}

/// The distinct expressions of TripleO's overclouds of Ocata, Pike, Wallaby and 2023 (openstack/tripleo-heat-templates,
/// Apache-2.0).
#[test]
fn every_yaql_of_tripleo_is_read() {
    let text = std::fs::read_to_string(oracle("tripleo-yaql.json")).expect("the expressions are there");
    let expressions: Vec<String> = serde_json::from_str(&text).expect("a list of texts");
    assert_eq!(expressions.len(), 170);
    for expression in expressions {
        let read = crate::yaql::parse(&expression);
        assert!(read.is_ok(), "{expression}: {:?}", read.err());
    }
}

#[test]
fn values_are_those_of_heat() {
    let recorded = std::fs::read_to_string(oracle("recorded.json")).expect("the recorded answers are there");
    let recorded: Recorded = serde_json::from_str(&recorded).expect("they are as 'record' writes them");
    assert!(recorded.expressions.len() >= 2000 && recorded.coercions.len() >= 500);
    let mut lines = Vec::new();
    for Expression { version, prefix, value, heat } in &recorded.expressions {
        let prefix = recorded.prefix.get(prefix.as_ref().unwrap_or(version));
        let prefix = prefix.unwrap_or(&recorded.prefix["older"]);
        let text = format!("heat_template_version: {version}\n{prefix}outputs:\n  o:\n    value: {value}\n");
        let short = value.replace(&format!(", data: {}", recorded.prefix["data"]), "");
        let shown = if version == "wallaby" { short } else { format!("{version}: {short}") };
        lines.extend(difference(&shown, heat, &output(&text)));
    }
    for Document { document, heat } in &recorded.documents {
        lines.extend(difference(document, heat, &output(document)));
    }
    for coercion in &recorded.coercions {
        let Coercion { of, kind, default, given, heat } = coercion;
        let default = default.as_ref().map(|default| format!(" default {default}")).unwrap_or_default();
        let shown = format!("{of} {kind}{default}: {given}");
        lines.extend(difference(&shown, heat, &coerced(coercion)));
    }
    lines.sort();
    let mut found = String::new();
    for line in lines {
        writeln!(found, "{line}").expect("writing to a String does not fail");
    }
    if std::env::var_os("MUSTER_BLESS").is_some() {
        std::fs::write(oracle("differences.txt"), &found).expect("the list can be written");
    }
    let listed = std::fs::read_to_string(oracle("differences.txt")).expect("the list is there");
    let (listed, found): (Vec<&str>, Vec<&str>) = (listed.lines().collect(), found.lines().collect());
    let new: Vec<&&str> = found.iter().filter(|line| !listed.contains(line)).collect();
    let gone: Vec<&&str> = listed.iter().filter(|line| !found.contains(line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "new differences: {new:#?}\ngone: {gone:#?}");
}
