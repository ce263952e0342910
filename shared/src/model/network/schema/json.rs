//! The schema of network documents as JSON Schema, for editors. The types and options are those that are checked, less
//! what `support.rs` refuses.
//!
//! Absent: all that concerns several objects, and the form of most texts. An editor shows no error there; the parser
//! does.

use serde_json::{Map, Value, json};

use super::super::parse::SECTIONS;
use super::super::support::{Support, of_option, of_type};
use super::super::value::TRUTHS;
use super::super::{MAX_FALLBACK, NetworkDocument};
use super::{ADDRESS, DSCP2PRIO, Entry, Kind, REMOVED_TYPES, ROUTE, RULE, Type, about, types};

const ADDRESS_WITH_PREFIX: &str = "^[0-9A-Fa-f:.]+/[0-9]{1,3}$";
const NEXT_HOP: &str = "^([0-9A-Fa-f:.]+|self)$";
const INTEGER: &str = "^[-+]?[0-9]+$";

impl NetworkDocument {
    /// The JSON Schema (draft 2020-12) of a file with a network document.
    pub fn json_schema() -> Value {
        let mut definitions = Self::json_definitions(None);
        let mut schema = definitions.remove("network_document").expect("it is among them");
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!("network document");
        schema["$defs"] = Value::Object(definitions);
        schema
    }

    /// The same as definitions that refer to each other below `$defs`: `network_document` is a whole document,
    /// `network_objects` a section of it. `computed` is a schema of what may stand for any value.
    pub fn json_definitions(computed: Option<Value>) -> Map<String, Value> {
        Definitions { computed }.all()
    }
}

struct Definitions {
    computed: Option<Value>,
}

impl Definitions {
    fn all(&self) -> Map<String, Value> {
        let mut all = Map::from_iter([
            ("network_document".to_owned(), self.document()),
            ("network_objects".to_owned(), self.objects()),
            ("network_object".to_owned(), self.object()),
            ("network_removal".to_owned(), self.removal()),
            ("network_address".to_owned(), self.entry(&ADDRESS)),
            ("network_rule".to_owned(), self.entry(&RULE)),
            ("network_route".to_owned(), self.route()),
        ]);
        all.extend(supported().map(|kind| (definition(kind), self.object_of(kind))));
        all
    }

    /// A list of objects, or a map of sections.
    fn document(&self) -> Value {
        let section = |name: &str| {
            let section = match name {
                "remove_config" => self.list(reference("network_removal"), 0),
                _ => reference("network_objects"),
            };
            let mut section = described(about::of_section(name), self.value(section));
            if name == "fallback_config" {
                section["maxItems"] = json!(MAX_FALLBACK);
            }
            section
        };
        let sections: Map<String, Value> =
            SECTIONS.into_iter().map(|name| (name.to_owned(), section(name))).collect();
        json!({
            "description": "objects as in os-net-config's format",
            "type": ["array", "object"],
            "items": self.item(),
            "properties": sections,
            "additionalProperties": false,
            "if": {"type": "object"},
            "then": {"anyOf": [{"required": ["network_config"]}, {"required": ["remove_config"]}]},
        })
    }

    fn objects(&self) -> Value {
        json!({"type": "array", "items": self.item()})
    }

    /// An object, or what is to go.
    fn item(&self) -> Value {
        let is_removal = json!({
            "not": {"required": ["type"]},
            "anyOf": [{"required": ["remove_name"]}, {"required": ["remove_type"]}],
        });
        let item = json!({
            "if": is_removal,
            "then": reference("network_removal"),
            "else": reference("network_object"),
        });
        self.value(item)
    }

    /// An object of any type.
    fn object(&self) -> Value {
        let kind = |kind: &Type| json!({"const": kind.name, "description": about::of_type(kind.name)});
        let kinds = self.value(json!({"anyOf": supported().map(kind).collect::<Vec<_>>()}));
        let of_kind = |kind: &'static Type| {
            let is_kind = json!({"properties": {"type": {"const": kind.name}}, "required": ["type"]});
            json!({"if": is_kind, "then": reference(&definition(kind))})
        };
        json!({
            "type": "object",
            "required": ["type"],
            "properties": {"type": described(about::of_option("", "type"), kinds)},
            "allOf": supported().map(of_kind).collect::<Vec<_>>(),
        })
    }

    fn object_of(&self, kind: &Type) -> Value {
        let option = |(name, value): (&str, Kind)| {
            let text = about::of_option(kind.name, name);
            let schema = match of_option(kind.name, name) {
                Support::Applied => described(text, self.of(value)),
                Support::Inert(why) => {
                    described(&format!("{text}. Taken, and changes nothing: {why}"), self.of(value))
                }
                Support::Only(wanted, hint) => {
                    described(&format!("{text}. Taken as {wanted} alone: {hint}"), self.of(value))
                }
                Support::Refused(why) => {
                    described(&format!("Not supported: {why}"), json!({"enum": [null, "", []]}))
                }
            };
            (name.to_owned(), schema)
        };
        let mut properties = Map::from_iter([("type".to_owned(), json!(true))]);
        properties.extend(kind.options().map(option));
        let mut schema = json!({
            "description": about::of_type(kind.name),
            "properties": properties,
            "required": kind.required,
        });
        if !kind.open {
            schema["additionalProperties"] = json!(false);
        }
        schema
    }

    fn removal(&self) -> Value {
        let kinds: Vec<&str> =
            REMOVED_TYPES.into_iter().filter(|kind| !matches!(of_type(kind), Support::Refused(_))).collect();
        let option = |name, schema| described(about::of_option("", name), self.value(schema));
        json!({
            "type": "object",
            "properties": {
                "remove_name": option("remove_name", json!({"type": "string"})),
                "remove_type": option("remove_type", json!({"enum": kinds})),
            },
            "required": ["remove_name", "remove_type"],
            "additionalProperties": false,
        })
    }

    fn route(&self) -> Value {
        let mut route = self.entry(&(&ROUTE, &[]));
        let one_of = |options: &[&str]| {
            let given: Vec<Value> = options.iter().map(|option| json!({"required": [option]})).collect();
            json!({ "anyOf": given })
        };
        route["allOf"] =
            json!([one_of(&["next_hop", "nexthop"]), one_of(&["default", "ip_netmask", "destination"])]);
        route
    }

    fn entry(&self, (options, required): &Entry) -> Value {
        let option = |(name, kind): &(&str, Kind)| {
            ((*name).to_owned(), described(about::of_option("", name), self.of(*kind)))
        };
        let properties: Map<String, Value> = options.iter().map(option).collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })
    }

    /// The value of an option.
    fn of(&self, kind: Kind) -> Value {
        let text = || json!({"type": "string"});
        self.value(match kind {
            Kind::Text | Kind::PlainText | Kind::OvsOptions | Kind::Mac => text(),
            Kind::Int => json!({"type": ["integer", "string"], "pattern": INTEGER}),
            Kind::IntOrText => json!({"type": ["integer", "string"]}),
            Kind::Bool => json!({"type": ["boolean", "string"], "pattern": truth()}),
            Kind::Cidr => json!({"type": "string", "pattern": ADDRESS_WITH_PREFIX}),
            Kind::NextHop => json!({"type": "string", "pattern": NEXT_HOP}),
            Kind::Addresses => self.list(reference("network_address"), 1),
            Kind::Routes => self.list(reference("network_route"), 0),
            Kind::Rules => self.list(reference("network_rule"), 1),
            Kind::Servers => json!({"type": ["array", "null"], "items": self.value(text())}),
            Kind::Domains => json!({"type": ["array", "string", "null"], "items": self.value(text())}),
            Kind::Mapping => json!({"type": ["object", "null"]}),
            Kind::OvsOptionList => self.list(text(), 1),
            Kind::OvsExtra => {
                json!({"type": ["array", "string"], "items": self.value(text()), "minItems": 1})
            }
            Kind::VfState => json!({"enum": ["auto", "enable", "disable"]}),
            Kind::Dcb => json!({"type": "object", "required": ["dscp2prio"]}),
            Kind::Dscp2prio => self.list(self.entry(&DSCP2PRIO), 0),
            Kind::OneOf(words) => json!({"enum": words}),
            Kind::Members(fits, least, most, first_only) => self.members(fits, least, most, first_only),
        })
    }

    fn members(&self, fits: &[&str], least: usize, most: usize, first_only: bool) -> Value {
        let fits: Vec<&str> = supported().map(|kind| kind.name).filter(|kind| fits.contains(kind)).collect();
        let kind = json!({"properties": {"type": self.value(json!({"enum": fits}))}});
        let mut members = json!({"type": "array", "minItems": least});
        if !first_only {
            members["items"] = self.value(json!({"allOf": [reference("network_object"), kind]}));
        }
        if most != usize::MAX {
            members["maxItems"] = json!(most);
        }
        members
    }

    fn list(&self, item: Value, least: usize) -> Value {
        json!({"type": "array", "items": self.value(item), "minItems": least})
    }

    /// The value itself, or what may stand for it.
    fn value(&self, schema: Value) -> Value {
        match &self.computed {
            Some(computed) => json!({"anyOf": [schema, computed]}),
            None => schema,
        }
    }
}

/// The types that a document may have.
fn supported() -> impl Iterator<Item = &'static Type> {
    types().filter(|kind| !matches!(of_type(kind.name), Support::Refused(_)))
}

fn definition(kind: &Type) -> String {
    format!("network_{}", kind.name)
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn described(about: &str, mut schema: Value) -> Value {
    // A reference alone may have no other keys in the drafts before 2019.
    if schema.get("$ref").is_some() {
        schema = json!({"allOf": [schema]});
    }
    schema["description"] = json!(about);
    schema
}

/// The words of booleans, in upper and lower case.
fn truth() -> String {
    let either = |c: char| format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase());
    let word = |word: &str| word.chars().map(either).collect::<String>();
    let words: Vec<String> = TRUTHS.iter().map(|(text, _)| word(text)).collect();
    format!("^({})$", words.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described() {
        for kind in supported() {
            assert!(!about::of_type(kind.name).is_empty(), "{}", kind.name);
            let applied = |option: &&str| !matches!(of_option(kind.name, option), Support::Refused(_));
            for option in kind.option_names().filter(applied) {
                assert!(!about::of_option(kind.name, option).is_empty(), "{} {option}", kind.name);
            }
        }
        let entries = [&ROUTE[..], ADDRESS.0, RULE.0].concat();
        for (option, _) in entries {
            assert!(!about::of_option("", option).is_empty(), "{option}");
        }
        for section in SECTIONS {
            assert!(!about::of_section(section).is_empty(), "{section}");
        }
    }
}
