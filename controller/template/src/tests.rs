//! Fixtures: each directory of `testdata/` has a `template.yaml` and what comes of it.
//!
//! `given.json` (optional) holds `parameters`, `files`, `resources` (name → attributes; its presence makes
//! the resource ready). `expected.json` holds what binding and rendering give, `errors.txt` the errors of
//! parsing or binding. `MUSTER_BLESS=1` writes what came out, to be read before it is committed.

mod deployment;
mod flow_file;
mod heat;
mod hot;
mod intent_file;
mod json_schema;
mod language;
mod overcloud;
mod properties;
mod scale;
mod schema;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{Parameters, References, RenderError, Template, parse};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TestInputs {
    parameters: BTreeMap<String, Value>,
    files: BTreeMap<String, String>,
    resources: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Answers from a table of resources by name; those in it are ready.
struct ResourceTable<'a>(&'a Template, &'a BTreeMap<String, BTreeMap<String, Value>>);

impl ResourceTable<'_> {
    fn of(&self, index: u32) -> Option<&BTreeMap<String, Value>> {
        self.1.get(&*self.0.resources[index as usize].name)
    }
}

impl References for ResourceTable<'_> {
    fn resource_id(&self, index: u32) -> Option<String> {
        self.of(index).map(|_| format!("id-of-{}", self.0.resources[index as usize].name))
    }

    fn attribute(&self, index: u32, name: &str) -> Option<Value> {
        self.of(index)?.get(name).cloned()
    }

    fn is_ready(&self, index: u32) -> bool {
        self.of(index).is_some()
    }
}

#[test]
fn fixtures_are_read_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testdata");
    let mut cases: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let bless = std::env::var_os("MUSTER_BLESS").is_some();
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let (file, got) = match outcome(&case) {
            Ok(value) => ("expected.json", serde_json::to_string_pretty(&value).unwrap() + "\n"),
            Err(errors) => ("errors.txt", errors + "\n"),
        };
        if bless {
            std::fs::write(case.join(file), &got).unwrap();
        }
        let wanted = std::fs::read_to_string(case.join(file))
            .unwrap_or_else(|error| panic!("{name}: no {file} ({error}); got:\n{got}"));
        assert!(got == wanted, "{name}/{file}: wanted:\n{wanted}\ngot:\n{got}");
    }
}

fn outcome(case: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(case.join("template.yaml")).unwrap();
    let given: TestInputs = match std::fs::read_to_string(case.join("given.json")) {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => TestInputs::default(),
    };
    let template = parse("template.yaml", &text, &given.files).map_err(|errors| errors.to_string())?;
    let parameters = template.bind(&given.parameters).map_err(|errors| errors.to_string())?;
    Ok(everything(&template, &parameters, &ResourceTable(&template, &given.resources)))
}

fn everything(template: &Template, parameters: &Parameters, refs: &ResourceTable<'_>) -> Value {
    let mut resources = Map::new();
    for (i, resource) in template.resources.iter().enumerate() {
        let requires: Vec<&str> =
            resource.requires.iter().map(|index| &*template.resources[*index as usize].name).collect();
        let rendered = template.render(i, parameters, refs);
        let spec = rendered.as_ref().ok().map(|properties| match crate::spec(resource.kind, properties) {
            Ok(_) => json!("valid"),
            Err(error) => json!(error.to_string()),
        });
        let mut entry = json!({
            "type": resource.kind.name(), "requires": requires, "properties": shown(rendered), "spec": spec,
        });
        if template.retains(i, parameters).unwrap() {
            entry["retain"] = json!(true);
        }
        if let Some(policy) = resource.drift_policy() {
            entry["drift_policy"] = json!(policy.as_str());
        }
        match template.external_id(i, parameters) {
            Ok(None) => {}
            Ok(Some(id)) => entry["external_id"] = json!(id),
            Err(error) => entry["external_id"] = json!(format!("error: {error}")),
        }
        resources.insert(resource.name.to_string(), entry);
    }
    let outputs: Map<String, Value> = template
        .outputs()
        .iter()
        .enumerate()
        .map(|(i, output)| (output.key.to_string(), shown(template.render_output(i, parameters, refs))))
        .collect();
    json!({ "parameters": parameters.masked(), "resources": resources, "outputs": outputs })
}

fn shown(rendered: Result<Value, RenderError>) -> Value {
    rendered.unwrap_or_else(|error| json!(format!("error: {error}")))
}
