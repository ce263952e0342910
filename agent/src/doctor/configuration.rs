//! The settings: whether they can be read and are valid, and who may change them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use muster_shared::finding::Finding;
use nix::unistd::geteuid;

use super::owner::Owner;
use crate::settings::DEFAULT_FILE;

const CHECK: &str = "configuration";

/// The facts that this check collects.
#[derive(Clone, Debug)]
pub struct Facts {
    path: PathBuf,
    /// An operator gave the path.
    is_given: bool,
    file: File,
    /// The reason why the settings are refused, those of the environment among them.
    refused: Option<String>,
    own_user: u32,
}

#[derive(Clone, Debug)]
enum File {
    Absent,
    Unreadable(String),
    Readable(Owner),
}

impl Facts {
    pub fn read(given: Option<&Path>, refused: Option<&anyhow::Error>) -> Self {
        let path = given.unwrap_or(Path::new(DEFAULT_FILE)).to_owned();
        let file = match fs::File::open(&path).and_then(|file| file.metadata()) {
            Ok(metadata) => File::Readable(Owner::of(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => File::Absent,
            Err(error) => File::Unreadable(error.to_string()),
        };
        let refused = refused.map(|error| format!("{error:#}"));
        Self { path, is_given: given.is_some(), file, refused, own_user: geteuid().as_raw() }
    }
}

pub fn finding(facts: &Facts) -> Finding {
    let path = facts.path.display();
    match (&facts.file, &facts.refused) {
        (File::Unreadable(why), _) if facts.own_user != 0 => {
            Finding::warning(CHECK, format!("{path}: {why}"), "run this command as root")
        }
        (File::Unreadable(why), _) => {
            Finding::error(CHECK, format!("{path}: {why}"), format!("look at the file: stat {path}"))
        }
        (File::Absent, _) if facts.is_given => {
            Finding::error(CHECK, format!("{path} is not there"), "give --config a file that is there")
        }
        (_, Some(why)) => Finding::error(
            CHECK,
            why.clone(),
            format!("correct {path} or the variable, then run 'muster-agent --check-config'"),
        ),
        (File::Absent, None) => Finding::ok(CHECK, format!("{path} is not there: the defaults apply")),
        (File::Readable(owner), None) if owner.lets_others_write() || !owner.is_trusted(facts.own_user) => {
            Finding::warning(
                CHECK,
                format!(
                    "{path} belongs to user {} with mode {:04o}: others may change it",
                    owner.user, owner.mode
                ),
                format!("chown root:root {path}; chmod 0644 {path}"),
            )
        }
        (File::Readable(owner), None) => {
            Finding::ok(CHECK, format!("{path} is valid; its mode is {:04o}", owner.mode))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_shared::finding::Severity;

    use super::*;

    #[test]
    fn each_state_of_the_file_has_its_finding() {
        let file = |user, mode| File::Readable(Owner { user, mode });
        for (file, is_given, refused, state, words) in [
            (file(0, 0o644), false, None, Severity::Ok, "is valid; its mode is 0644"),
            (file(7, 0o600), true, None, Severity::Ok, "is valid"),
            (file(8, 0o600), true, None, Severity::Warning, "user 8 with mode 0600"),
            (file(0, 0o664), false, None, Severity::Warning, "mode 0664: others may change it"),
            (file(0, 0o644), false, Some("log.level: 'x' is none"), Severity::Error, "log.level"),
            (File::Absent, false, None, Severity::Ok, "the defaults apply"),
            (File::Absent, false, Some("MUSTER_X is wrong"), Severity::Error, "MUSTER_X is wrong"),
            (File::Absent, true, Some("cannot read"), Severity::Error, "/c is not there"),
            (File::Unreadable("denied".into()), false, Some("cannot read"), Severity::Warning, "/c: denied"),
        ] {
            let refused = refused.map(str::to_owned);
            let facts = Facts { path: "/c".into(), is_given, file, refused, own_user: 7 };
            let finding = finding(&facts);
            assert!(finding.state == state && finding.found.contains(words), "{facts:?}: {finding:?}");
        }
        let file = File::Unreadable("I/O error".into());
        let facts = Facts { path: "/c".into(), is_given: false, file, refused: None, own_user: 0 };
        assert_eq!(finding(&facts).state, Severity::Error, "root can read what can be read");
    }
}
