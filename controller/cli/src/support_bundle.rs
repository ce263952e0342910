//! `muster support-bundle`: what one sends to somebody who helps, as a .tar.gz.
//!
//! The operator sees what goes in before the file is written. Absent: templates, and values of parameters and outputs.

mod archive;
mod contents;
mod machine;
mod mask;
mod site;

use std::io::{ErrorKind, IsTerminal as _, Write as _, stderr, stdin};
use std::path::{Path, PathBuf};

use clap::Args;
use muster_shared::finding;
use serde_json::json;

use crate::client::Client;
use crate::context::DEFAULT_URL;
use crate::doctor::{self, machine::DEFAULT_FILE};
use crate::failure::Failure;
use crate::output::{Column, Format, count, document, lines, print, table};
use contents::{Contents, File};

/// `muster support-bundle`
#[derive(Args)]
pub struct SupportBundle {
    /// File to write, such as muster.tar.gz; its owner alone may read it
    file: PathBuf,
    /// Write without asking; needed where there is no terminal
    #[arg(long)]
    yes: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Settings of the controller on this machine
    /// [default: /etc/muster/controller.toml, unless --url names another socket]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const COLUMNS: [Column<File>; 2] =
    [("FILE", |file| file.name.clone()), ("BYTES", |file| file.text.len().to_string())];

/// Does it.
pub async fn run(
    asked: SupportBundle,
    url: &str,
    client: &mut Client,
    format: Format,
) -> Result<(), Failure> {
    let SupportBundle { file: path, yes, force, config } = asked;
    let can_ask = stdin().is_terminal() && stderr().is_terminal();
    if !yes && !can_ask {
        return Err(Failure::usage(
            "muster support-bundle asks before it writes, and this is no terminal; --yes writes without asking",
        ));
    }
    // Before the controller is asked for anything.
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists(&path));
    }
    let (files, left_out) = gather(config, url, client).await;
    if format == Format::Table {
        print(&listed(&files, &left_out))?;
    }
    if !yes {
        if format != Format::Table {
            say(&listed(&files, &left_out));
        }
        say(&format!("Write these files to {}? They are for whoever helps you. [y/N] ", path.display()));
        let mut answer = String::new();
        let read = stdin().read_line(&mut answer);
        if read.is_err() || !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
            return Err(Failure::failed("nothing was written"));
        }
    }
    let size = archive::write(&path, &files, force).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(&path),
        _ => Failure::failed(format!("cannot write {}: {error}", path.display())),
    })?;
    let sizes = files.iter().map(|File { name, text }| json!({"name": name, "bytes": text.len()}));
    let written = json!({"file": path.display().to_string(), "bytes": size, "files": sizes.collect::<Vec<_>>(),
        "left_out": left_out});
    document(format, &written, |_| {
        format!("{}: {}; look into it before you send it\n", path.display(), count(size, "byte"))
    })
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!("{} exists; --force replaces it", path.display()))
}

/// Gathers the files, and the list of those that are missing.
async fn gather(config: Option<PathBuf>, url: &str, client: &mut Client) -> (Vec<File>, Vec<String>) {
    let mut contents = Contents::new();
    let findings = doctor::findings(config.clone(), url, client).await;
    contents.document("doctor.json", json!(findings));
    contents.text("doctor.txt", &finding::table(&findings), contents::Part::First);
    let settings = config.or_else(|| (url == DEFAULT_URL).then(|| DEFAULT_FILE.into()));
    machine::add(&mut contents, settings.as_deref()).await;
    site::add(&mut contents, client).await;
    contents.end()
}

fn listed(files: &[File], left_out: &[String]) -> String {
    let mut out = table(&COLUMNS, files);
    for line in left_out {
        out.push_str(&format!("left out: {}\n", lines(line, "  ")));
    }
    out
}

/// To the operator, who may have redirected stdout.
fn say(text: &str) {
    let mut stderr = stderr().lock();
    let _closed = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
