//! The blocks of `docs/brokers.md`: what an operator types there, and writes into files.

use std::io::Write as _;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/brokers.md");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/mosquitto");
/// Commands for a machine of the broker's own: its packages, services and users.
const OF_THE_MACHINE: [&str; 3] = ["apt-get ", "systemctl ", "chown "];

/// The block that begins with this mark, without the margin of its list; each of `places` is replaced, and must be there.
pub fn block(mark: &str, places: &[(&str, &str)]) -> String {
    let parts = PAGE.split_once(&format!("```{mark}\n"));
    let (before, rest) = parts.unwrap_or_else(|| panic!("docs/brokers.md has no block '{mark}'"));
    let margin = before.rsplit('\n').next().unwrap();
    let lines = rest.split_once("```").unwrap().0.lines();
    let text: String =
        lines.map(|line| line.strip_prefix(margin).unwrap_or(line).to_owned() + "\n").collect();
    places.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "no '{from}' in the block '{mark}' of docs/brokers.md");
        text.replace(from, to)
    })
}

/// Runs such a block in the directory of the example's files. `answers` is what an operator types when asked.
pub fn run(mark: &str, places: &[(&str, &str)], answers: &str) {
    let script = block(mark, places);
    let is_here = |line: &&str| !OF_THE_MACHINE.iter().any(|command| line.starts_with(command));
    let script: Vec<&str> = script.lines().filter(is_here).collect();
    // Without a terminal, a program that asks for a password reads its input.
    let mut command = Command::new("setsid");
    command.args(["--wait", "sh", "-eu", "-c", &script.join("\n")]).current_dir(EXAMPLE);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "the block '{mark}' of docs/brokers.md fails");
}
