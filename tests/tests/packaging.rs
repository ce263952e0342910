//! The files that are installed beside the binaries say what is true of them.
#![allow(clippy::unwrap_used, reason = "these are tests, also outside of their functions")]

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_controller::config::Settings;
use muster_testbed::Running;
use muster_tests::site::binary;
use tempfile::TempDir;

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file)
}

/// The file with its settings switched on.
fn uncommented(file: &str) -> String {
    let text = std::fs::read_to_string(packaging(file)).unwrap();
    let setting = |line: &str| {
        let name = line.strip_prefix('#')?.split_once(" = ")?.0;
        name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_').then(|| line[1..].to_owned())
    };
    text.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_packaged_controller_toml_lists_every_default() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, uncommented("controller.toml")).unwrap();
    let none = std::iter::empty();
    let given = Settings::read(Some(file.path()), none.clone()).unwrap();
    assert_eq!(format!("{given:?}"), format!("{:?}", Settings::default()));
    let shown = format!("{given:?}");
    for section in [&shown[..], &format!("{:?}", given.limits), &format!("{:?}", given.log)] {
        let words = section.split([' ', '{', ',']).filter_map(|word| word.strip_suffix(':'));
        for name in words.filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')) {
            assert!(
                uncommented("controller.toml").contains(name),
                "{name} is not in packaging/controller.toml"
            );
        }
    }
    assert!(Settings::read(Some(&packaging("controller.toml")), none).is_ok(), "as it is installed");
}

/// Man pages and completion scripts of the programs under test, as packages have them.
#[test]
fn the_controller_is_bounded_watched_and_nobody_elses() {
    let unit = uncommented("systemd/muster-controller.service");
    let wanted = [
        "MemoryHigh=",
        "MemoryMax=",
        "TasksMax=",
        "WatchdogSec=",
        "Restart=always",
        "User=muster",
        "NoNewPrivileges=yes",
    ];
    for start in wanted {
        assert!(unit.lines().any(|line| line.starts_with(start)), "{start}: {unit}");
    }
    // A count that goes below nothing ends the program.
    let workspace = std::fs::read_to_string(packaging("../Cargo.toml")).unwrap();
    let (_, release) = workspace.split_once("[profile.release]").unwrap();
    let (release, _) = release.split_once("\n[").unwrap();
    assert!(release.contains("\noverflow-checks = true"), "{release}");
}

fn documents() -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(packaging("documents"));
    command.arg(folder.path()).args(["muster", "muster-controller", "muster-agent"].map(binary));
    Running::start(command).finish().expect(0);
    folder
}

fn help(program: &str) -> String {
    let mut command = Command::new(binary(program));
    command.arg("--help");
    Running::start(command).finish().expect(0).stdout
}

/// Every option that the help has, as it stands at the beginning of a line.
fn options(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split("  ").next().unwrap().split([' ', ',']));
    words.filter(|word| word.starts_with('-')).collect()
}

#[test]
fn man_pages_have_every_option_and_setting() {
    let folder = documents();
    let page = |name: &str| std::fs::read_to_string(folder.path().join("man").join(name)).unwrap();
    for program in ["muster-agent", "muster-controller"] {
        let text = page(&format!("{program}.8")).replace("\\-", "-");
        let help = help(program);
        assert!(options(&help).len() > 4, "{help}");
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            let item = line.trim_start().split("  ").next().unwrap();
            assert!(text.contains(item), "{program}(8) has no '{item}'");
        }
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "FILES", "SIGNALS", "EXIT STATUS"] {
            assert!(text.contains(&format!(".SH {section}\n")), "{program}(8) has no {section}");
        }
        assert!(!text.contains("@HELP@"));

        let file = format!("{}.toml", program.strip_prefix("muster-").unwrap());
        let text = page(&format!("{program}.toml.5")).replace("\\-", "-");
        let settings = uncommented(&file);
        let settings: Vec<_> = settings.lines().filter(|line| line.contains(" = ")).collect();
        assert!(settings.len() > 4, "{file}");
        for setting in settings.iter().filter(|line| !line.starts_with('#')) {
            assert!(
                text.contains(&format!(".TP\n\\fB{setting}\\fR\n")),
                "{program}.toml(5) has no '{setting}'"
            );
        }
    }
    assert!(page("muster-stack-create.1").contains("muster"));
}

#[test]
fn completion_scripts_know_every_option_and_verb() {
    let folder = documents();
    for program in ["muster-agent", "muster-controller"] {
        let help = help(program);
        for file in [format!("{program}.bash"), format!("_{program}"), format!("{program}.fish")] {
            let text = std::fs::read_to_string(folder.path().join("completion").join(&file)).unwrap();
            for option in options(&help) {
                let name = option.trim_start_matches('-');
                assert!(
                    text.contains(option)
                        || text.contains(&format!("-l {name}"))
                        || text.contains(&format!("-s {name}")),
                    "{file} has no {option}"
                );
            }
        }
        let verbs = if program == "muster-agent" {
            "join doctor net"
        } else {
            "backup restore rekey hand-over store help"
        };
        assert!(completed(folder.path(), program, &[""]).starts_with(verbs), "{program}");
    }
    assert_eq!(completed(folder.path(), "muster-agent", &["net", "sh"]), "show");
    assert_eq!(completed(folder.path(), "muster-agent", &["join", "x", "--st"]), "--state-dir");
    let page = folder.path().join("man/muster-agent.toml").to_str().unwrap().to_owned();
    assert_eq!(completed(folder.path(), "muster-agent", &["--config", &page]), format!("{page}.5"));
}

/// The completions of the last word by bash.
fn completed(folder: &Path, program: &str, words: &[&str]) -> String {
    let script = format!(
        "source \"$1\" && shift && COMP_WORDS=({program} \"$@\") COMP_CWORD=$# && _{} && echo \"${{COMPREPLY[*]}}\"",
        program.replace('-', "_")
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash"]).arg(folder.join(format!("completion/{program}.bash"))).args(words);
    Running::start(command).finish().expect(0).stdout.trim().to_owned()
}

#[test]
fn a_program_that_needs_a_newer_glibc_than_promised_is_refused() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(packaging("packages"));
    command.args(["--glibc", "2.17"]).arg(folder.path());
    command.args(["muster", "muster-controller", "muster-agent"].map(binary));
    let ran = Running::start(command).finish().expect(1);
    assert!(
        ran.stderr.contains("muster needs glibc 2.") && ran.stderr.contains("2.17 is promised"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no package is made");
}

#[test]
fn the_same_programs_make_the_same_packages() {
    // Made by people with other settings, in other places.
    let made = ["UTC", "Asia/Kolkata"].map(|zone| {
        let (folder, scratch) =
            (TempDir::new().unwrap(), TempDir::with_prefix(zone.replace('/', "-")).unwrap());
        let mut command = Command::new(packaging("packages"));
        command.env("TZ", zone).env("TMPDIR", scratch.path()).env_remove("SOURCE_DATE_EPOCH");
        command
            .arg("--fast")
            .arg(folder.path())
            .args(["muster", "muster-controller", "muster-agent"].map(binary));
        Running::start(command).finish().expect(0);
        folder
    });
    let [first, second] = made.each_ref().map(|folder| {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let content = |file: PathBuf| (file.file_name().unwrap().to_owned(), std::fs::read(file).unwrap());
        files.map(content).collect::<std::collections::BTreeMap<_, _>>()
    });
    assert!(first.len() >= 3, "{:?}", first.keys());
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, content) in &first {
        assert!(second.get(name) == Some(content), "{} is of other bytes", name.display());
    }
}

#[test]
fn packages_for_an_unknown_architecture_are_refused() {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(packaging("packages"));
    command.args(["--arch", "vax"]).arg(folder.path());
    command.args(["muster", "muster-controller", "muster-agent"].map(binary));
    let ran = Running::start(command).finish().expect(1);
    assert!(ran.stderr.contains("no packages are made for vax: want "), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no package is made");
}
