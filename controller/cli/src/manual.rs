//! Completion scripts and man pages, made of the command line's own definition.

use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate, generate_to};
use clap_mangen::generate_to as man_pages;

use crate::failure::Failure;
use crate::output::print;

/// Prints a shell's completion script.
pub fn completion(shell: Shell, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(shell, &mut command, "muster", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes a man page for each command into a folder.
pub fn man(folder: &Path, command: Command) -> Result<(), Failure> {
    write(folder, |folder| man_pages(command, folder))
}

/// Writes the completion scripts of all shells into a folder.
pub fn completions(folder: &Path, mut command: Command) -> Result<(), Failure> {
    write(folder, |folder| {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            generate_to(shell, &mut command, "muster", folder)?;
        }
        Ok(())
    })
}

fn write(folder: &Path, work: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| work(folder))
        .map_err(|error| Failure::failed(format!("cannot write to {}: {error}", folder.display())))
}
