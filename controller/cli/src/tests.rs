use clap::{Command, CommandFactory};

use super::Cli;

/// Every command with its path, in the order of the help.
fn commands(command: &Command, path: &str, out: &mut Vec<(String, Command)>) {
    let path = format!("{path} {}", command.get_name()).trim().to_owned();
    out.push((path.clone(), command.clone()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        commands(inner, &path, out);
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn each_command_has_an_example_that_parses() {
    let mut all = Vec::new();
    commands(&Cli::command(), "", &mut all);
    assert!(all.len() > 20, "{}", all.len());
    for (path, command) in all {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let example = help.strip_prefix("Example:\n").unwrap_or_else(|| panic!("{path} has no example"));
        for line in example.lines() {
            let command = line.split(" > ").next().unwrap();
            Cli::command()
                .try_get_matches_from(words(command))
                .unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

/// The words of a line, as a shell splits it; a quoted text is a word, or the rest of one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn help() {
    let mut all = Vec::new();
    let mut root = Cli::command().term_width(100);
    root.build();
    commands(&root, "", &mut all);
    let text: Vec<String> = all
        .into_iter()
        .map(|(path, mut command)| format!("## {path}\n{}\n", command.render_long_help()))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}
