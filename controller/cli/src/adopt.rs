//! `muster adopt`: what a server is like that others have configured, as a template that changes nothing there.
//!
//! Absent: what is looked at (`agent/src/host/survey.rs`), and the stack that takes the server over ('muster stack
//! create --adopt', `stack/operation.rs`).

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use clap::Args;
use hyper::Method;
use muster_api::node::{SurveyView, SurveyedResource};
use muster_shared::NodeId;
use serde_json::Value;

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Format, Output, document, print, printable, read};
use crate::yaml;

/// `adopt`
#[derive(Args)]
pub struct Adopt {
    /// Name of the node
    node: NodeId,
    /// File to write the template to, which must not exist; or json or yaml: what the node said, as a document
    /// [default: the template, on stdout]
    #[arg(short, long, value_name = "FILE", value_parser = Output::of_files(), default_value = "table", hide_default_value = true)]
    output: Output,
}

pub async fn run(asked: Adopt, client: &mut Client) -> Result<(), Failure> {
    let Adopt { node, output } = asked;
    if let Output::File(file) = &output
        && file.exists()
    {
        return Err(exists(file));
    }
    let answer = client.send(Method::GET, &path(["nodes", node.as_str(), "survey"]), None).await?;
    match output {
        Output::Document(Format::Table) | Output::Dot | Output::Svg => print(&template(&survey(&answer)?)),
        Output::Document(format) => document(format, &answer, |_| String::new()),
        Output::File(file) => {
            let survey = survey(&answer)?;
            write(&file, &template(&survey))?;
            print(&written(&file, &survey))
        }
    }
}

fn survey(answer: &Value) -> Result<SurveyView, Failure> {
    let survey: SurveyView = read(answer)?;
    if !survey.resources.is_empty() {
        return Ok(survey);
    }
    let why = survey.left_out.iter().map(|line| printable(line)).collect::<Vec<_>>().join("; ");
    Err(Failure::failed(format!("nothing on {} can be described: {why}", survey.name)))
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    opened.and_then(|mut opened| opened.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => Failure::failed(format!("cannot write {}: {error}", file.display())),
    })
}

fn exists(file: &Path) -> Failure {
    Failure::usage(format!("{} is there already: remove it, or choose another name", file.display()))
}

fn written(file: &Path, survey: &SurveyView) -> String {
    let file = file.display();
    let left_out = match survey.left_out.len() {
        0 => String::new(),
        1 => "; one thing is not described, see its first lines".to_owned(),
        many => format!("; {many} things are not described, see its first lines"),
    };
    let count = survey.resources.len();
    format!("{file}: resources: {count}{left_out}\nmuster stack create NAME -t {file} --adopt --wait\n")
}

/// The template, with what it lacks as comments.
fn template(survey: &SurveyView) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(&format!("# What {} is like. A stack of it changes nothing there:", printable(&survey.name)));
    line("#   muster stack create NAME -t FILE --adopt --wait");
    if !survey.left_out.is_empty() {
        line("# Not described:");
        survey.left_out.iter().for_each(|text| line(&format!("#   {}", printable(text))));
    }
    line("heat_template_version: 2018-08-31");
    line("resources:");
    survey.resources.iter().for_each(|it| resource(&mut out, it));
    out
}

fn resource(out: &mut String, resource: &SurveyedResource) {
    let SurveyedResource { name, r#type, properties, depends_on } = resource;
    let mut line = |text: std::fmt::Arguments| {
        out.write_fmt(text).and_then(|()| out.write_char('\n')).expect("writing to a String does not fail");
    };
    line(format_args!("  {name}:"));
    line(format_args!("    type: {}", r#type));
    if !depends_on.is_empty() {
        line(format_args!("    depends_on: [{}]", depends_on.join(", ")));
    }
    line(format_args!("    properties:"));
    for text in yaml::document(&Value::Object(properties.clone())).lines() {
        line(format_args!("      {text}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn survey() -> SurveyView {
        let mut survey: SurveyView = serde_json::from_value(json!({
            "name": "web-1.example.org",
            "resources": [
                {"name": "group_ops", "type": "Muster::Group", "properties": {"gid": 2000, "name": "ops", "node": "web-1.example.org"}},
                {"name": "user_anna", "type": "Muster::User", "depends_on": ["group_ops"],
                 "properties": {"name": "anna", "comment": "yes", "groups": ["ops"], "node": "web-1.example.org"}},
            ],
        }))
        .unwrap();
        survey.left_out.push("eth1: it leases its addresses\u{1b}[2J".to_owned());
        survey
    }

    #[test]
    fn a_template_has_what_was_found_and_says_what_it_lacks() {
        let text = template(&survey());
        insta::assert_snapshot!(text);
        assert!(!text.contains('\u{1b}'), "no control characters of a node");
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        write(file.path(), &text).unwrap_err();
    }
}
