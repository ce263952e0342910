//! `docs/scaling.md`: its tables follow from what a server costs, as counted here, and from the raw lines of the page of
//! benchmarks; its commands and settings are ones that exist. After a change, `MUSTER_WRITE_DOCUMENTS=1` before this test
//! writes the tables anew.

use std::fs;
use std::process::Command;
use std::time::Duration;

use muster_controller::config::Settings;
use muster_controller::lease::Terms;
use muster_tests::page::measurements_in;
use muster_tests::scaling::{Allowed, Machine, costs, renew};

use super::conformance::{root, tests};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn allowed() -> Allowed {
    let settings = Settings::default();
    let unit = read("packaging/systemd/muster-controller.service");
    let files = unit.lines().find_map(|line| line.strip_prefix("LimitNOFILE=")).unwrap();
    let terms = Terms { lease: Duration::from_secs(settings.store.lease) };
    Allowed {
        connections: settings.limits.connections as u64,
        files: files.parse().unwrap(),
        nodes: muster_engine::Limits::default().nodes_max as u64,
        looks_per_s: 1.0 / terms.pace().as_secs_f64(),
    }
}

/// The lines of all blocks of the page that begin with this mark.
fn blocks(mark: &str) -> String {
    let page = read("docs/scaling.md");
    page.split(&format!("```{mark}\n")).skip(1).map(|rest| rest.split_once("```").unwrap().0).collect()
}

#[test]
fn the_tables_of_scaling_follow_from_costs_and_measurements() {
    let written = read("docs/scaling.md");
    let machine = Machine::of(&measurements_in(&read("docs/benchmarks.md")).unwrap()).unwrap();
    let page = renew(&written, &costs(10).unwrap(), &machine, allowed()).unwrap();
    if std::env::var_os("MUSTER_WRITE_DOCUMENTS").is_some() {
        return fs::write(root().join("docs/scaling.md"), page).unwrap();
    }
    assert_eq!(page, written, "docs/scaling.md is stale: MUSTER_WRITE_DOCUMENTS=1 makes its tables anew");
}

#[test]
fn the_settings_of_scaling_are_settings() {
    let settings: Settings = toml::from_str(&blocks("toml")).unwrap();
    assert!(settings.limits.connections > Settings::default().limits.connections);
}

#[test]
fn the_commands_of_scaling_are_commands() {
    let (script, tests, commands) = (read("tests/bench/all.sh"), tests(), blocks("sh"));
    let (_, parts) = script.split_once("parts=(").unwrap();
    let parts: Vec<&str> = parts.split_once(')').unwrap().0.split_whitespace().collect();
    for command in commands.lines() {
        let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        match words[..] {
            ["muster-sim", verb, ref arguments @ ..] => {
                let help =
                    Command::new(env!("CARGO_BIN_EXE_muster-sim")).args([verb, "--help"]).output().unwrap();
                let help = String::from_utf8(help.stdout).unwrap();
                let absent = arguments.iter().find(|word| word.starts_with("--") && !help.contains(**word));
                assert!(!help.is_empty() && absent.is_none(), "{command}: {absent:?}");
            }
            ["tests/bench/all.sh", part] => {
                assert!(parts.contains(&part.split('=').next().unwrap()), "{command}");
            }
            ["cargo", "nextest", "run", "-p", _, name] => assert!(tests.contains_key(name), "{command}"),
            _ => panic!("what is this? {command}"),
        }
    }
    assert!(commands.lines().count() > 5, "{commands}");
}

/// As the page says: what is counted is counted by this command.
#[test]
fn the_count_of_scaling_is_printed_by_muster_sim() {
    let commands = blocks("sh");
    let command = commands.lines().next().unwrap().strip_prefix("muster-sim ").unwrap();
    let printed =
        Command::new(env!("CARGO_BIN_EXE_muster-sim")).args(command.split_whitespace()).output().unwrap();
    let wanted =
        costs(10).unwrap().iter().map(|cost| serde_json::to_string(cost).unwrap() + "\n").collect::<String>();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), wanted);
}
