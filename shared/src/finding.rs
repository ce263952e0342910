//! The findings of `doctor`, on a server and at its controller, and how they are shown.
//!
//! Absent: the checks (`agent/src/doctor.rs`, `controller/cli/src/doctor.rs`).

pub mod firewall;
pub mod space;

use serde::Serialize;

/// The severity of a finding; the last one is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Ok,
    Warning,
    Error,
}

/// The outcome of a check, as one object of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check; stable, for programs.
    pub check: &'static str,
    pub state: Severity,
    /// In plain words.
    pub found: String,
    /// The remedy: a command or a file where there is one. None if all is well.
    pub remedy: Option<String>,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Ok => "ok",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl Finding {
    /// A finding without a fault.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, state: Severity::Ok, found: found.into(), remedy: None }
    }

    /// A finding that may become a fault, or a check that could not be done.
    pub fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: Severity::Warning, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// A fault.
    pub fn error(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: Severity::Error, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// The same, no worse than a warning.
    #[must_use]
    pub fn at_most_warning(mut self) -> Self {
        self.state = self.state.min(Severity::Warning);
        self
    }
}

/// Whether one of them is an error.
pub fn has_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.state == Severity::Error)
}

/// The findings for people: a line each, with what to do below it, and how many are bad.
pub fn table(findings: &[Finding]) -> String {
    let width =
        findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default().max("CHECK".len());
    let mut out = format!("{:<7}  {:<width$}  FOUND\n", "STATE", "CHECK");
    for Finding { check, state, found, remedy } in findings {
        out.push_str(&format!("{:<7}  {check:<width$}  {}\n", state.word(), printable(found)));
        if let Some(remedy) = remedy {
            out.push_str(&format!("{:<7}  {:<width$}  do: {}\n", "", "", printable(remedy)));
        }
    }
    out.push_str(&summary(findings));
    out
}

fn summary(findings: &[Finding]) -> String {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let some = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        number => format!("{number} {word}s"),
    };
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => "all is well\n".to_owned(),
        (errors, warnings) => format!("{}, {}\n", some(errors, "error"), some(warnings, "warning")),
    }
}

/// Escapes control characters: a text that others wrote must not drive the terminal.
fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_says_how_many_are_bad() {
        let mut findings = vec![Finding::ok("clock", "it is right")];
        assert_eq!(table(&findings), "STATE    CHECK  FOUND\nok       clock  it is right\nall is well\n");
        findings.push(Finding::warning("disk_space", "a\u{1b}b", "free some"));
        findings.push(Finding::error("name", "it is unknown", "x"));
        assert_eq!(
            table(&findings),
            "STATE    CHECK       FOUND\n\
             ok       clock       it is right\n\
             warning  disk_space  a\\u{1b}b\n\
             \u{20}                    do: free some\n\
             error    name        it is unknown\n\
             \u{20}                    do: x\n\
             1 error, 1 warning\n"
        );
        assert!(has_error(&findings));
        findings[2] = findings[2].clone().at_most_warning();
        assert!(!has_error(&findings));
        assert_eq!(findings[0].clone().at_most_warning().state, Severity::Ok);
    }

    #[test]
    fn json_has_the_same_keys_always() {
        assert_eq!(
            serde_json::to_string(&Finding::ok("clock", "it is right")).unwrap(),
            r#"{"check":"clock","state":"ok","found":"it is right","remedy":null}"#
        );
    }
}
