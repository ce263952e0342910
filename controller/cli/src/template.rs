//! `muster template …`: what can be written in a template, from the code that reads templates. Needs
//! no controller.
//!
//! Absent: the functions and their versions (`controller/template/src/function_list.rs`).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use muster_template::{Function, Version, functions, lint, suggestion};
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, table};
use crate::source;

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
    /// Name what is read in another way than it looks
    ///
    /// Templates and environments are read in the YAML 1.1 of PyYAML, as Heat reads them: yes is true, 0644 is 420, 12:30
    /// is 750, 1e3 is text, and of a key that is given twice the last counts. The command names each such place, and
    /// merge keys, comments glued to a token, and text that goes on at the left margin. Exit code 0 if there is none, 1
    /// otherwise.
    #[command(
        after_help = "Example:\n  muster template lint web.yaml\n  muster template lint web.yaml -o json"
    )]
    Lint(Lint),
}

/// `template lint`
#[derive(Args)]
pub struct Lint {
    /// Template or environment; - reads stdin
    file: PathBuf,
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
    match verb {
        TemplateVerb::Functions(Functions { version }) => list(version, format),
        TemplateVerb::Lint(Lint { file }) => lint_file(&file, format),
    }
}

fn list(version: Option<Version>, format: Format) -> Result<(), Failure> {
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

fn lint_file(file: &Path, format: Format) -> Result<(), Failure> {
    let (name, text) = source::named(file)?;
    let (found, is_cut) = lint(&name, &text)?;
    document(format, &json!(found), |_| found.iter().map(|it| format!("{}\n", it.at)).collect())?;
    match (found.len(), is_cut) {
        (0, _) => Ok(()),
        (count, true) => Err(Failure::failed(format!(
            "{name}: more than {count} places are read in another way than they look"
        ))),
        (1, false) => Err(Failure::failed(format!("{name}: 1 place is read in another way than it looks"))),
        (count, false) => {
            Err(Failure::failed(format!("{name}: {count} places are read in another way than they look")))
        }
    }
}

fn version(name: &str) -> Result<Version, String> {
    Version::from_name(name).ok_or_else(|| {
        let near = suggestion(name, Version::names());
        format!("unknown version{near}; known are {}", Version::names().join(", "))
    })
}
