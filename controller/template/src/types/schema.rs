//! What people and programs are told of types: `muster type show`. It stands beside the code that reads the properties,
//! and a test holds it to that code.

use serde_json::{Value, json};

use super::{Constraint, Kind, Property};

impl Kind {
    /// The type as a document: properties and attributes with all that is known of them.
    pub fn schema(self) -> Value {
        let properties: Vec<Value> = self.properties().iter().map(property).collect();
        let attribute = |(name, about): &(_, _)| json!({"name": name, "description": about});
        let attributes: Vec<Value> = self.info().attributes.iter().map(attribute).collect();
        json!({
            "name": self.name(),
            "description": self.about(),
            "properties": properties,
            "attributes": attributes,
            "other_attributes": self.info().other_attributes,
        })
    }
}

fn property(property: &Property) -> Value {
    let constraint = match property.constraint {
        Constraint::None => Value::Null,
        Constraint::Range(least, most) => json!({"range": {"min": least, "max": most}}),
        Constraint::OneOf(words) => json!({"allowed_values": words}),
        Constraint::Text(text) => json!({"description": text}),
    };
    let on_update = match property.replaces {
        "" => "in place".to_owned(),
        "always" => "replaced".to_owned(),
        which => format!("in place; replaced where {which}"),
    };
    json!({
        "name": property.name,
        "type": property.kind.as_str(),
        "required": property.required,
        "default": property.default_value(),
        "constraint": constraint,
        "on_update": on_update,
        "description": property.about,
    })
}
