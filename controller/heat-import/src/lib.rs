//! Files for 'muster stack create', made from a stack of Heat: its template, its environment, and the files that they name.
//!
//! Heat names files by where the client had them (`file:///home/stack/net.yaml`). Here they lie below `files/`, and what
//! names them names them there. Hidden values stand in a file of their own, `hidden.yaml`.
//!
//! Absent: how Heat is asked, and how files are written (`controller/cli/src/import.rs`, `heat.rs`).

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod environment;
mod hidden;
mod place;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use muster_template::Limits;
use serde_json::{Map, Value};
use thiserror::Error;

use place::Places;
use reference::Source;

/// A stack as Heat tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    pub name: String,
    pub template: Value,
    pub environment: Value,
    pub files: Map<String, Value>,
}

/// The files that a stack becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// By path, without `..` and relative to the folder for them.
    pub files: BTreeMap<String, Content>,
    /// The values that could not be said.
    pub left_out: Vec<String>,
    /// Hidden parameters whose value Heat does not tell.
    pub to_give: Vec<String>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A document of YAML.
    Document(Value),
    /// As it was.
    Text(String),
}

/// The reason why a stack cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    #[error("it is no stack that was exported from Heat: {0}")]
    NoStack(&'static str),
    #[error(
        "its template is none of HOT (no heat_template_version), but one of AWS's format: write it in HOT first"
    )]
    NotHot,
    #[error("it has more than {} files", Limits::FILES)]
    TooMany,
    #[error("the file {0} is no text")]
    NoText(String),
}

/// The names of the files, in the order in which a command gives them.
pub const TEMPLATE: &str = "template.yaml";
pub const ENVIRONMENT: &str = "environment.yaml";
pub const HIDDEN: &str = "hidden.yaml";

impl Exported {
    /// Reads what `openstack stack export` writes.
    ///
    /// # Errors
    /// The document is something else.
    pub fn parse(document: &Value) -> Result<Self, ImportError> {
        let Value::Object(map) = document else { return Err(ImportError::NoStack("a map is wanted")) };
        let Some(template @ Value::Object(_)) = map.get("template") else {
            return Err(ImportError::NoStack("it has no map 'template'"));
        };
        let name = map.get("name").or_else(|| map.get("stack_name")).and_then(Value::as_str);
        let files = match map.get("files") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(files)) => files.clone(),
            Some(_) => return Err(ImportError::NoStack("its 'files' are no map")),
        };
        Ok(Self {
            name: name.unwrap_or("stack").to_owned(),
            template: template.clone(),
            environment: map.get("environment").cloned().unwrap_or(Value::Null),
            files,
        })
    }
}

/// The files of a stack.
///
/// # Errors
/// The stack is none that Muster can have. Nothing of it is told then.
pub fn import(exported: Exported) -> Result<Imported, ImportError> {
    let Exported { template, environment, files, .. } = exported;
    let Value::Object(of_template) = &template else {
        return Err(ImportError::NoStack("its template is no map"));
    };
    if !of_template.contains_key("heat_template_version") {
        return Err(ImportError::NotHot);
    }
    if files.len() > Limits::FILES {
        return Err(ImportError::TooMany);
    }
    let mut texts = BTreeMap::new();
    for (key, value) in files {
        let Value::String(text) = value else { return Err(ImportError::NoText(key)) };
        texts.insert(key, text);
    }
    let places = Places::new(texts.keys());
    let mut imported = Imported { files: BTreeMap::new(), left_out: Vec::new(), to_give: Vec::new() };
    let mut hidden = hidden::names(&template);
    for (key, text) in &texts {
        let place = places.of(key).expect("each file has a place");
        // A file of another kind may be no YAML at all.
        let nested = match text.contains("heat_template_version") {
            true => muster_template::document(key, text).ok(),
            false => None,
        };
        let nested = nested.filter(|nested| nested.get("heat_template_version").is_some());
        let content = match nested {
            Some(mut nested) => {
                hidden.extend(hidden::names(&nested));
                match reference::template(&mut nested, Source { place, key }, &places, &mut imported.left_out)
                {
                    true => Content::Document(nested),
                    false => Content::Text(text.clone()),
                }
            }
            None => Content::Text(text.clone()),
        };
        imported.files.insert(place.to_owned(), content);
    }
    let mut template = template;
    reference::template(&mut template, Source { place: TEMPLATE, key: "" }, &places, &mut imported.left_out);
    imported.files.insert(TEMPLATE.to_owned(), Content::Document(template));
    environment::import(environment, &hidden, &places, &mut imported);
    imported.left_out.sort();
    imported.left_out.dedup();
    Ok(imported)
}
