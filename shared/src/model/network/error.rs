//! Errors of a network document.

use thiserror::Error;

/// A fault of a network document and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct NetworkError {
    /// A path such as `network_config[0].members[1].bonding_options`.
    pub path: String,
    /// The problem at this path.
    pub problem: Problem,
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// os-net-config knows this feature, but this version does not support it.
    #[error("{what} is not supported by this version{hint}")]
    Unsupported {
        /// The type, option or value.
        what: String,
        /// An alternative, with a leading `; `, or empty.
        hint: String,
    },
    /// os-net-config does not know it either.
    #[error("unknown {what} '{name}'{}", suggestion.as_ref().map(|s| format!("; did you mean '{s}'?")).unwrap_or_default())]
    Unknown {
        /// `type`, `option` or `section`.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
    },
    /// A value that is wrong.
    #[error("{0}")]
    Invalid(String),
}

impl NetworkError {
    pub(super) fn invalid(path: &str, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: Problem::Invalid(problem.into()) }
    }

    pub(super) fn unsupported(path: &str, what: impl Into<String>, hint: &str) -> Self {
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        Self { path: path.to_owned(), problem: Problem::Unsupported { what: what.into(), hint } }
    }

    /// `written` is not among `words`.
    pub(super) fn not_one_of(path: &str, written: &str, words: &[&'static str]) -> Self {
        let meant = crate::near::nearest(written, words.iter().copied())
            .map(|word| format!("; did you mean '{word}'?"));
        let problem = format!("'{}' is none of {}", clip(written), words.join(", "));
        Self::invalid(path, problem + meant.as_deref().unwrap_or_default())
    }

    pub(super) fn unknown<'a>(
        path: &str,
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let suggestion = crate::near::nearest(name, known).map(str::to_owned);
        let name = clip(name);
        Self { path: path.to_owned(), problem: Problem::Unknown { what, name, suggestion } }
    }
}

/// Enough of a text from outside to find the place, not a megabyte of it.
pub(super) fn clip(text: &str) -> String {
    let mut start: String = text.chars().take(64).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
