//! The description of the API, as OpenAPI 3.1: made of the routes and of the types of their bodies.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::error::Refused;
use crate::route::{Content, Operation, ROUTES, Route, SchemaOf};

/// The parts of the document.
struct Parts {
    paths: Map<String, Value>,
    refused: Value,
    /// Types by name: of answers, and of bodies of requests.
    answers: Map<String, Value>,
    bodies: Map<String, Value>,
}

/// The whole document.
pub fn document() -> Value {
    let Parts { paths, refused, answers: mut schemas, bodies } = parts();
    schemas.extend(bodies);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "description": "The API of the controller, which 'muster' uses.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas, "responses": {"Refused": refused}},
    })
}

fn parts() -> Parts {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    // An answer has all its fields; of a request some may be left out.
    let (mut bodies, mut answers) =
        (settings.clone().into_generator(), settings.for_serialize().into_generator());
    let refused = answers.subschema_for::<Refused>();
    let refused = json!({
        "description": "It cannot be done",
        "headers": {"Retry-After": {
            "description": "With 503: nothing was done, and the same request may be sent again after so many seconds",
            "schema": {"type": "integer"},
        }},
        "content": {"application/json": {"schema": refused}},
    });
    let mut paths = Map::new();
    for (operation, route) in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[format!("{:?}", route.method).to_lowercase()] =
            described(*operation, route, &mut bodies, &mut answers);
    }
    let (answers, bodies) = (answers.take_definitions(true), bodies.take_definitions(true));
    Parts { paths, refused, answers, bodies }
}

fn described(
    operation: Operation,
    route: &Route,
    bodies: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
) -> Value {
    let mut parameters: Vec<Value> = in_path(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.query.into_iter().flat_map(in_query));
    let mut answer = json!({"description": "It is done"});
    answer["content"] = content(route.answer, answers);
    let mut out = json!({
        "operationId": format!("{operation:?}"),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {route.status.to_string(): answer, "default": {"$ref": "#/components/responses/Refused"}},
    });
    if !matches!(route.body, Content::Nothing) {
        out["requestBody"] = json!({"required": true, "content": content(route.body, bodies)});
    }
    out
}

fn content(content: Content, schemas: &mut SchemaGenerator) -> Value {
    match content {
        Content::Nothing => json!({}),
        Content::Json(schema) => json!({"application/json": {"schema": schema(schemas)}}),
        Content::Text(what) => json!({"text/plain": {"schema": {"type": "string", "description": what}}}),
    }
}

fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

/// The fields of a query, each as a parameter; none of them has parts.
fn in_query(schema: SchemaOf) -> Vec<Value> {
    let schema = schema(&mut SchemaSettings::draft2020_12().into_generator());
    let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({"name": name, "in": "query", "description": about, "schema": schema})
    };
    fields.into_iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The file that keeps the description.
    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    #[test]
    fn the_kept_description_is_that_of_the_types() {
        let text = format!("{:#}\n", document());
        if std::env::var_os("MUSTER_OPENAPI").is_some() {
            std::fs::write(KEPT, &text).unwrap();
        }
        let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
        assert!(
            kept == text,
            "docs/openapi.json is stale; make it anew: MUSTER_OPENAPI=1 cargo test -p muster-api"
        );
    }

    #[test]
    fn no_route_is_there_twice_and_each_has_its_answer() {
        let mut seen = BTreeSet::new();
        for (operation, route) in ROUTES {
            assert!(seen.insert((route.path, format!("{:?}", route.method))), "{operation:?}");
            assert!(!matches!(route.answer, Content::Nothing), "{operation:?}");
            assert!(route.path.starts_with("/v1/") || route.path == "/metrics", "{}", route.path);
        }
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.values().map(|path| path.as_object().unwrap().len()).sum::<usize>(), ROUTES.len());
    }

    /// A body and an answer of one name may differ only in which fields may be left out.
    #[test]
    fn no_two_types_have_one_name() {
        let Parts { answers, bodies, .. } = parts();
        for (name, body) in &bodies {
            let Some(answer) = answers.get(name) else { continue };
            let fields = |schema: &Value| -> Option<BTreeSet<String>> {
                Some(schema["properties"].as_object()?.keys().cloned().collect())
            };
            assert_eq!(fields(body), fields(answer), "{name}");
            for key in ["oneOf", "anyOf", "enum", "type"] {
                assert_eq!(body[key], answer[key], "{name}");
            }
        }
    }

    #[test]
    fn what_is_referred_to_is_there() {
        fn check(value: &Value, all: &Value) {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                assert!(all.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
            }
            value.as_object().into_iter().flatten().for_each(|(_, part)| check(part, all));
            value.as_array().into_iter().flatten().for_each(|part| check(part, all));
        }
        check(&document(), &document());
    }

    #[test]
    fn a_query_is_described_field_by_field() {
        let document = document();
        let parameters = &document["paths"]["/v1/devices/{node}/{bridge}/flows"]["get"]["parameters"];
        let names: Vec<&str> = parameters
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["node", "bridge", "counters", "foreign", "limit", "offset", "search", "state", "table"]
        );
        assert_eq!(parameters[8]["description"], "Rules of this table alone.");
    }
}
