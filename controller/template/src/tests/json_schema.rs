//! The JSON Schema that editors get: it takes each template that is read without an error, and knows every name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::schema::{sample, with};
use crate::build::Reader;
use crate::source::Source;
use crate::types::unknown::OWN;
use crate::types::{Constraint, PropertyType};
use crate::{Kind, functions, parse_in, referenced_files, template_schema};

fn validator() -> Validator {
    let schema = template_schema();
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::validator_for(&schema).unwrap()
}

/// The template as an editor reads it, all of it as data.
fn data(text: &str) -> Option<Value> {
    let source = Source::new(text);
    let mut reader = Reader::new("t", &source.text, source.shift);
    reader.functions = false;
    reader.next().ok()?;
    reader.next().ok()?;
    Some(reader.expr(0).ok()?.sketch())
}

#[track_caller]
fn valid(validator: &Validator, document: &Value, name: &str) {
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {}\n{document:#}", errors.join("\n"));
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, ending, found),
            false if path.to_string_lossy().ends_with(ending) => found.push(path),
            false => {}
        }
    }
}

/// Templates of files, and of the blocks of documents.
fn templates() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["examples", "controller/template/src/testdata", "tests/tests/servers/tripleo"] {
        files(&root.join(folder), ".yaml", &mut paths);
    }
    files(&root.join("docs"), ".md", &mut paths);
    let mut found = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        match name.ends_with(".md") {
            true => found.extend(
                text.split("```yaml\n")
                    .skip(1)
                    .map(|rest| (name.clone(), rest.split("```").next().unwrap().into())),
            ),
            false => found.push((name, text)),
        }
    }
    found.retain(|(_, text)| text.contains("heat_template_version"));
    found
}

/// Reads a template with files that are all empty, and with types of others mapped.
fn is_read(name: &str, text: &str) -> bool {
    let Ok(named) = referenced_files(name, text) else { return false };
    let files: BTreeMap<String, String> = named.into_iter().map(|name| (name, String::new())).collect();
    let is_mapped =
        |name: &str| Kind::from_name(name).is_none() && !OWN.iter().any(|own| name.starts_with(own));
    parse_in(name, text, &files, usize::MAX, &is_mapped).is_ok()
}

#[test]
fn templates_that_are_read_are_valid() {
    let validator = validator();
    let mut read = 0;
    for (name, text) in templates() {
        if is_read(&name, &text) {
            valid(&validator, &data(&text).unwrap(), &name);
            read += 1;
        }
    }
    assert!(read > 20, "{read}");
}

fn template_of(kind: Kind, properties: &Value) -> Value {
    json!({
        "heat_template_version": "2018-08-31",
        "resources": {"x": {"type": kind.name(), "properties": properties}},
    })
}

/// Each property of each type, with each value that the type's own tests give it, and with a function.
#[test]
fn values_that_types_take_are_valid() {
    let validator = validator();
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_whole()) {
        let (sample, values) = sample(kind);
        valid(&validator, &template_of(kind, &sample), kind.name());
        for property in kind.properties() {
            let mut given = match property.constraint {
                Constraint::Range(least, most) => vec![json!(least), json!(most), json!(most.to_string())],
                Constraint::OneOf(words) => words.iter().map(|word| json!(word)).collect(),
                Constraint::Text(_) | Constraint::None => values[property.name].as_array().cloned().unwrap(),
            };
            given.extend(property.default_value());
            given.extend([json!(null), json!({"get_param": "p"}), json!({"if": ["c", 1]})]);
            let is_taken =
                |value: &Value| value.is_null() || value.is_object() || (property.check)(value).is_ok();
            for value in given.into_iter().filter(is_taken) {
                // A required property is not null.
                if !(value.is_null() && property.required) {
                    let properties = with(&sample, &[(property.name, value)]);
                    valid(&validator, &template_of(kind, &properties), property.name);
                }
            }
        }
    }
}

#[test]
fn typing_errors_in_properties_are_found() {
    let validator = validator();
    let refused = |kind: Kind, properties: &Value| {
        assert!(!validator.is_valid(&template_of(kind, properties)), "{kind}: {properties}");
    };
    for kind in Kind::ALL.into_iter().filter(|kind| kind.property("").is_err()) {
        let (sample, _) = sample(kind);
        for property in kind.properties() {
            let name = property.name;
            refused(kind, &with(&sample, &[(&format!("{name}x"), json!(null))]));
            if property.required {
                let mut less = sample.clone();
                less.as_object_mut().unwrap().remove(name);
                refused(kind, &less);
            }
            let wrong = match (property.constraint, property.kind) {
                (Constraint::OneOf(_), _) => json!("nonsense"),
                (Constraint::Range(_, most), _) => json!(most + 1),
                (_, PropertyType::Any) => continue,
                (_, PropertyType::List | PropertyType::Map) => json!(1),
                _ => json!([{"a": 1}]),
            };
            refused(kind, &with(&sample, &[(name, wrong)]));
        }
    }
}

#[test]
fn typing_errors_in_templates_are_found() {
    let validator = validator();
    let template = |resource: &str| {
        format!(
            "heat_template_version: 2018-08-31\nparameters: {{p: {{type: string}}}}\nresources:\n  a: {resource}\n"
        )
    };
    let dummy = |keys: &str| template(&format!("{{type: Muster::Dummy, {keys}}}"));
    for (text, is_valid) in [
        (template("{type: Muster::Dummy}"), true),
        (template("{type: Muster::Dumy}"), false),
        (template("{type: OS::Heat::Vale}"), false),
        (template("{type: Site::Server, properties: {any: 1}}"), true),
        (template("{type: net/vlan.yaml}"), true),
        (template("{typ: Muster::Dummy}"), false),
        (template("{}"), false),
        (template("{type: OS::Heat::SoftwareDeployments, properties: {servrs: {}}}"), false),
        (dummy("properties: {seconds: {get_param: p}}"), true),
        (dummy("properties: {seconds: {get_parm: p}}"), false),
        (dummy("properties: {seconds: {get_param: p, get_file: f}}"), false),
        (dummy("properties: {seconds: {equals: [1, 2]}}"), false),
        (dummy("condition: {equals: [1, 2]}"), true),
        (dummy("condition: {equal: [1, 2]}"), false),
        (dummy("depends_on: b"), true),
        (dummy("depends_on: [b, {resource: c, scope: all}]"), true),
        (dummy("depends_on: [{resorce: c}]"), false),
        (dummy("depends_on: [{resource: c, scope: every}]"), false),
        (dummy("deletion_policy: Retain"), true),
        (dummy("deletion_policy: retian"), false),
        (dummy("drift_policy: report"), true),
        (dummy("drift_policy: reprot"), false),
        (dummy("for_each: {nodes: role=web}, rollout: {batch: 10%, canary: 1}"), true),
        (dummy("for_each: {nodes: role=web}, rollout: {batches: 10%}"), false),
        (dummy("for_each: {node: role=web}"), false),
        (template("{type: Muster::Timezone, for_each: {nodes: a}, properties: {timezone: UTC}}"), true),
        (template("{type: Muster::Timezone, properties: {timezone: UTC}}"), false),
        (template("{type: Muster::NetworkConfig, properties: {node: a, network_config: {get_param: p}}}"), true),
        (
            template(
                "{type: Muster::NetworkConfig, properties: {node: a, network_config: [{type: vlan, vlan_id: {get_param: p}, \
                 device: {get_param: p}, addresses: [{ip_netmask: {list_join: [/, [a, b]]}}]}]}}",
            ),
            true,
        ),
        (
            template("{type: Muster::NetworkConfig, properties: {node: a, network_config: [{type: vlan, vlanid: 5, device: e}]}}"),
            false,
        ),
        (
            template("{type: OS::Heat::ResourceGroup, update_policy: {rolling_update: {max_batch_size: 1}}, properties: {resource_def: {}}}"),
            true,
        ),
        (
            template("{type: OS::Heat::ResourceGroup, update_policy: {rolling_updates: {}}, properties: {resource_def: {}}}"),
            false,
        ),
        ("heat_template_version: rocky\nparameters: {p: {type: strin}}".to_owned(), false),
        ("heat_template_version: rocky\nparameters: {p: {type: string, hiden: true}}".to_owned(), false),
        ("heat_template_version: rocky\nparameters: {p: {type: string, hidden: yes}}".to_owned(), true),
        (
            "heat_template_version: rocky\nparameters: {p: {type: string, constraints: [{custom_constraint: ip_addr}]}}"
                .to_owned(),
            true,
        ),
        (
            "heat_template_version: rocky\nparameters: {p: {type: string, constraints: [{lenght: {max: 8}}]}}".to_owned(),
            false,
        ),
        ("heat_template_version: rocky\noutputs: {o: {value: 1, condition: c}}".to_owned(), true),
        ("heat_template_version: rocky\noutputs: {o: {valu: 1}}".to_owned(), false),
        ("heat_template_version: 2018-08-30".to_owned(), false),
        ("heat_template_version: rocky\nresorces: {}".to_owned(), false),
        ("resources: {}".to_owned(), false),
    ] {
        let document = data(&text).unwrap();
        match is_valid {
            true => valid(&validator, &document, &text),
            false => assert!(!validator.is_valid(&document), "{text}"),
        }
    }
}

#[test]
fn hover_help_is_what_the_tables_say() {
    let schema = template_schema();
    let file = &schema["$defs"]["Muster::File"]["properties"];
    assert_eq!(
        file["path"]["description"],
        "where it is (absolute and in its shortest form); required; a change replaces the resource"
    );
    let functions_in = |name: &str| schema.pointer(name).unwrap().as_object().unwrap().len();
    let values = functions().iter().filter(|function| function.since.is_some()).count();
    assert_eq!(functions_in("/$defs/function/properties"), values);
    let mut silent = Vec::new();
    without_help(&schema, "", &mut silent);
    assert_eq!(silent, Vec::<String>::new());
}

/// The ways to properties without a description.
fn without_help(schema: &Value, way: &str, found: &mut Vec<String>) {
    let Value::Object(map) = schema else {
        let Value::Array(items) = schema else { return };
        return items.iter().for_each(|item| without_help(item, way, found));
    };
    if let Some(Value::Object(properties)) =
        map.get("properties").filter(|_| map.contains_key("additionalProperties"))
    {
        for (name, property) in properties {
            let described = property["description"].as_str().is_some_and(|text| !text.is_empty());
            // The type of a network object is described once, for all types.
            if !described && property != &json!(true) {
                found.push(format!("{way}/{name}"));
            }
        }
    }
    map.iter().for_each(|(key, inner)| without_help(inner, &format!("{way}/{key}"), found));
}
