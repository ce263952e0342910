//! The parts of a bundle from the controller's machine: its system, the controller's settings, and the journal of its
//! unit.
//!
//! Files that the settings name are never opened: passwords and keys are in them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use nix::sys::utsname::uname;
use serde_json::{Value, json};

use super::contents::{Contents, Part};
use crate::doctor::machine::program;

/// The largest file of the controller's settings. The one that is installed has 5 kB.
const SETTINGS_MAX: u64 = 1 << 20;
/// Lines of the journal, the last: some days of a calm site, minutes of one with `debug`.
const JOURNAL_LINES: &str = "5000";
const UNIT: &str = "muster-controller.service";
/// Files that name the distribution, the operator's first.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

const SETTINGS: &str = "controller-settings.json";
const JOURNAL: &str = "journal.txt";

/// Adds them; without `settings` this machine is not known to be the controller's.
pub async fn add(contents: &mut Contents, settings: Option<&Path>) {
    contents.document("machine.json", system());
    let Some(settings) = settings else {
        let why = "--url names another socket; --config FILE says that the controller is on this machine";
        contents.leave_out(SETTINGS, why);
        return contents.leave_out(JOURNAL, why);
    };
    match read_settings(settings) {
        Ok(document) => contents.document(SETTINGS, document),
        Err(why) => contents.leave_out(SETTINGS, &format!("{}: {why}", settings.display())),
    }
    let arguments = ["--unit", UNIT, "--lines", JOURNAL_LINES, "--output", "short-iso-precise", "--no-pager"];
    match program::ask(Path::new("journalctl"), &arguments).await {
        Some(journal) => contents.text(JOURNAL, &journal, Part::Last),
        None => {
            contents.leave_out(JOURNAL, &format!("'journalctl --unit {UNIT}' failed; with sudo it may work"))
        }
    }
}

/// Kernel and distribution.
fn system() -> Value {
    let kernel = uname().map_or(Value::Null, |names| {
        let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        json!({"name": text(names.sysname()), "release": text(names.release()), "version": text(names.version()),
            "machine": text(names.machine())})
    });
    let distribution = OS_RELEASE.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    json!({"kernel": kernel, "os_release": distribution.lines().collect::<Vec<_>>()})
}

/// The settings without comments, so that each value is known by its name.
fn read_settings(path: &Path) -> Result<Value, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(SETTINGS_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    // The error's own text has the line.
    toml::from_str(&text).map_err(|_| "it is not valid TOML; muster-controller --check-config".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_and_system_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("controller.toml");
        let files = async |text: &str| {
            fs::write(&settings, text).unwrap();
            let mut contents = Contents::new();
            add(&mut contents, Some(&settings)).await;
            contents.end()
        };
        let (ended, _) =
            files("# password = 'geheim'\n[store]\nurl = 'postgres://u:geheim@h/d' # geheim\n").await;
        let text = |name: &str| &*ended.iter().find(|file| file.name == name).unwrap().text;
        assert_eq!(text(SETTINGS), "{\n  \"store\": {\n    \"url\": \"postgres://u:******@h/d\"\n  }\n}\n");
        assert!(text("machine.json").contains("\"name\": \"Linux\""));
        let (ended, left_out) = files("password = geheim\n").await;
        assert!(!ended.iter().any(|file| file.text.contains("geheim") || file.name == SETTINGS));
        assert!(left_out.iter().any(|line| line.contains("it is not valid TOML")), "{left_out:?}");
    }
}
