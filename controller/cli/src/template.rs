//! `muster template …`: what can be written in a template, from the code that reads templates. Needs
//! no controller.
//!
//! Absent: the functions and their versions (`controller/template/src/function_list.rs`).

use clap::{Args, Subcommand};
use muster_template::{Function, Version, functions, suggestion};
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, table};

/// Verbs.
#[derive(Subcommand)]
pub enum TemplateVerb {
    /// List the functions of templates
    ///
    /// The table has the first version of the language with each function, its form and its result. Some
    /// functions work in conditions only, or came to conditions later.
    #[command(
        after_help = "Example:\n  muster template functions\n  muster template functions --version 2016-10-14\n  \
                            muster template functions --version pike -o json"
    )]
    Functions(Functions),
}

/// `template functions`
#[derive(Args)]
pub struct Functions {
    /// List this version only, by date or name, as in heat_template_version
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: Option<Version>,
}

/// A function, with the versions that have it.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    since: Option<&'static str>,
    in_conditions: Option<&'static str>,
    syntax: &'static str,
    description: &'static str,
}

const COLUMNS: [Column<Row>; 5] = [
    ("FUNCTION", |row| cell(row.name)),
    ("SINCE", |row| cell(&row.since)),
    ("IN CONDITIONS", |row| cell(&row.in_conditions)),
    ("SYNTAX", |row| cell(row.syntax)),
    ("DESCRIPTION", |row| cell(row.description)),
];

/// Does it.
pub fn run(verb: TemplateVerb, format: Format) -> Result<(), Failure> {
    let TemplateVerb::Functions(Functions { version }) = verb;
    let has = |since: Option<Version>| since.filter(|since| version.is_none_or(|version| *since <= version));
    let row = |function: &Function| {
        let (since, in_conditions) = (has(function.since), has(function.in_conditions));
        let date = |version: Option<Version>| version.map(Version::date);
        (since.is_some() || in_conditions.is_some()).then(|| Row {
            name: function.name,
            since: date(since),
            in_conditions: date(in_conditions),
            syntax: function.syntax,
            description: function.meaning,
        })
    };
    let list: Vec<Row> = functions().iter().filter_map(row).collect();
    document(format, &json!(list), |_| table(&COLUMNS, &list))
}

fn version(name: &str) -> Result<Version, String> {
    Version::from_name(name).ok_or_else(|| {
        let near = suggestion(name, Version::names());
        format!("unknown version{near}; known are {}", Version::names().join(", "))
    })
}
