//! `muster type …`: what a template may be made of, from the code that reads templates. Needs no controller.
//!
//! Absent: the types themselves (`controller/template/src/types.rs`).

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use muster_template::{AttributeSchema, ConstraintSchema, Kind, PropertySchema, TypeSchema, suggestion};
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, rows, table};

#[derive(Subcommand)]
pub enum TypeVerb {
    /// List the resource types
    #[command(after_help = "Example:\n  muster type list")]
    List,
    /// Show the properties and attributes of a type
    ///
    /// The table lists each property with its type, default and constraints, and says whether a change
    /// updates the resource in place or replaces it.
    #[command(
        after_help = "Example:\n  muster type show Muster::File\n  muster type show Muster::File -o json"
    )]
    Show(Show),
}

/// `type show`
#[derive(Args)]
pub struct Show {
    /// Name of the type, as in templates
    #[arg(value_name = "TYPE")]
    name: String,
}

/// A type in a list.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    description: &'static str,
}

const COLUMNS: [Column<Row>; 2] =
    [("TYPE", |row| cell(row.name)), ("DESCRIPTION", |row| cell(row.description))];

/// Does it.
pub fn run(verb: TypeVerb, format: Format) -> Result<(), Failure> {
    match verb {
        TypeVerb::List => {
            let mut all = Kind::ALL;
            all.sort_by_key(|kind| kind.name());
            let list = all.map(|kind| Row { name: kind.name(), description: kind.about() });
            document(format, &json!(list.as_slice()), |_| table(&COLUMNS, &list))
        }
        TypeVerb::Show(Show { name }) => {
            let kind = Kind::from_name(&name).ok_or_else(|| {
                let near = suggestion(&name, Kind::ALL.map(Kind::name));
                Failure::usage(format!("there is no type '{name}'{near}; 'muster type list' has all of them"))
            })?;
            let schema = kind.schema();
            document(format, &json!(schema), |_| shown(&schema))
        }
    }
}

/// A table of properties and one of attributes.
fn shown(schema: &TypeSchema) -> String {
    let mut out = format!("{}: {}\n", cell(schema.name), cell(schema.description));
    let heading = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let names = ["PROPERTY", "TYPE", "DEFAULT", "VALUES", "A CHANGE IS MADE", "DESCRIPTION"];
    if !schema.properties.is_empty() {
        out.push('\n');
        out.push_str(&rows(std::iter::once(heading(&names)).chain(schema.properties.iter().map(property))));
    }
    if !schema.attributes.is_empty() {
        let attribute = |it: &AttributeSchema| vec![cell(it.name), cell(it.description)];
        out.push('\n');
        out.push_str(&rows(
            std::iter::once(heading(&["ATTRIBUTE", "DESCRIPTION"]))
                .chain(schema.attributes.iter().map(attribute)),
        ));
    }
    if !schema.other_attributes.is_empty() {
        writeln!(out, "\nattributes: {}", schema.other_attributes)
            .expect("writing to a String does not fail");
    }
    out
}

fn property(property: &PropertySchema) -> Vec<String> {
    let default = match &property.default {
        _ if property.required => "required".to_owned(),
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => cell(text),
        Some(value) => value.to_string(),
    };
    vec![
        cell(property.name),
        cell(property.kind),
        default,
        property.constraint.map_or_else(|| "-".to_owned(), limits),
        cell(&property.on_update),
        cell(property.description),
    ]
}

fn limits(constraint: ConstraintSchema) -> String {
    match constraint {
        ConstraintSchema::Range { min, max } => format!("{min} to {max}"),
        ConstraintSchema::AllowedValues(words) => {
            words.iter().map(|word| cell(*word)).collect::<Vec<_>>().join(", ")
        }
        ConstraintSchema::Description(text) => cell(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_for_people() {
        assert_eq!(
            shown(&Kind::Dummy.schema()),
            "\
Muster::Dummy: makes nothing real: for tests, demonstrations and order

PROPERTY  TYPE    DEFAULT  VALUES                               A CHANGE IS MADE                                DESCRIPTION
fail      string  false    true, false, create, update, delete  in place                                        which actions fail
node      string  -        -                                    replaced                                        the node it is on; any node where it is left out
seconds   number  0        0 to 86400                           in place                                        how long each action takes
values    map     {}       -                                    in place; replaced where a '!' key has changed  texts that are kept, and are its attributes

attributes: each key of 'values', with its value
"
        );
    }
}
