//! Types as documents, for `muster type show`. They are next to the code that reads the properties, and a
//! test compares the two.

use serde::Serialize;
use serde_json::Value;

use super::{Constraint, Kind, Property};

/// A type, as `muster type show -o json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct TypeSchema {
    pub name: &'static str,
    pub description: &'static str,
    pub properties: Vec<PropertySchema>,
    pub attributes: Vec<AttributeSchema>,
    /// Attributes without fixed names, in words; empty if there are none.
    pub other_attributes: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct PropertySchema {
    pub name: &'static str,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub required: bool,
    pub default: Option<Value>,
    pub constraint: Option<ConstraintSchema>,
    /// Whether a change is made in place or replaces the resource.
    pub on_update: String,
    pub description: &'static str,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintSchema {
    Range {
        min: u64,
        max: u64,
    },
    AllowedValues(&'static [&'static str]),
    /// The constraint in words.
    Description(&'static str),
}

#[derive(Clone, Debug, Serialize)]
pub struct AttributeSchema {
    pub name: &'static str,
    pub description: &'static str,
}

impl Kind {
    /// The type with all that is known of its properties and attributes.
    pub fn schema(self) -> TypeSchema {
        let attribute = |&(name, description): &(_, _)| AttributeSchema { name, description };
        TypeSchema {
            name: self.name(),
            description: self.about(),
            properties: self.properties().iter().map(property).collect(),
            attributes: self.info().attributes.iter().map(attribute).collect(),
            other_attributes: self.info().other_attributes,
        }
    }
}

fn property(property: &Property) -> PropertySchema {
    let constraint = match property.constraint {
        Constraint::None => None,
        Constraint::Range(min, max) => Some(ConstraintSchema::Range { min, max }),
        Constraint::OneOf(words) => Some(ConstraintSchema::AllowedValues(words)),
        Constraint::Text(text) => Some(ConstraintSchema::Description(text)),
    };
    let on_update = match property.replaces {
        "" => "in place".to_owned(),
        "always" => "replaced".to_owned(),
        which => format!("in place; replaced where {which}"),
    };
    PropertySchema {
        name: property.name,
        kind: property.kind.as_str(),
        required: property.required,
        default: property.default_value(),
        constraint,
        on_update,
        description: property.about,
    }
}
