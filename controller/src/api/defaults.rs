//! Says which parameters an update returns to their defaults, because it neither gives them nor has `existing`: a note
//! for the operator.
//!
//! Absent: what `existing` keeps (`existing.rs`), and the check of values (`controller/template/src/bind.rs`).

use std::fmt::Write as _;

use muster_engine::{EnvironmentText, SourceText};
use muster_template::{Environment, Errors, Parameters, must_be_given};
use serde_json::Value;

/// Characters of a value on a line.
const SHOWN: usize = 60;
/// Parameters that have a line each.
const NAMED: usize = 20;

/// The parameters as they would be with `existing`; `None` if that would be no valid update.
pub struct Kept {
    parameters: Parameters,
}

impl Kept {
    /// The parameters of the update as it would be with `existing`.
    pub fn of(text: &SourceText, template_max: usize) -> Option<Self> {
        let environment = Environment::parse(text.environments.iter().map(EnvironmentText::file)).ok()?;
        let maps = |kind: &str| environment.maps(kind);
        let template =
            muster_template::parse_in(&text.name, &text.template, &text.files, template_max, &maps).ok()?;
        let parameters = template.bind_with(&environment, &text.parameters).ok()?;
        Some(Self { parameters })
    }

    /// A line for each parameter whose value differs.
    pub fn differences(&self, now: &Parameters) -> Vec<String> {
        let shown = now.masked();
        let changed = shown.keys().filter(|name| self.parameters.digest_of(name) != now.digest_of(name));
        let mut lines: Vec<String> = changed
            .map(|name| match (self.parameters.masked().get(name), shown.get(name)) {
                // Hidden values have the same mask on both sides.
                (Some(before), Some(now)) if before == now => {
                    format!("{name}: is back at its default (hidden); --existing keeps it")
                }
                (before, now) => {
                    format!("{name}: {} → {} (default); --existing keeps it", cut(before), cut(now))
                }
            })
            .collect();
        if lines.len() > NAMED {
            let more = lines.split_off(NAMED).len();
            lines.push(format!("{more} more parameters are back at their defaults; --existing keeps them"));
        }
        lines
    }

    /// Errors of an update, with a hint at `existing` where that would help.
    pub fn explained(&self, mut errors: Errors) -> Errors {
        for error in &mut errors.0 {
            let missing = error.path.strip_prefix("parameters.");
            if missing.is_some_and(|name| {
                self.parameters.get(name).is_some() && error.message == must_be_given(name)
            }) {
                error.message.push_str(", or --existing to keep the stack's own");
            }
        }
        errors
    }
}

/// A value on one line: text in quotes.
fn cut(value: Option<&Value>) -> String {
    let text = match value {
        None => return "nothing".to_owned(),
        Some(Value::String(text)) => format!("'{text}'"),
        Some(value) => value.to_string(),
    };
    let mut line = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == SHOWN {
            line.push('…');
            break;
        }
        match c.is_control() {
            true => write!(line, "{}", c.escape_default()).expect("writing to a String does not fail"),
            false => line.push(c),
        }
    }
    line
}
