//! `muster net …`: network documents from the files of other tools. Needs no controller.
//!
//! Absent: what becomes what (`controller/net-import`), and documents for other tools ('muster-agent net export').

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use muster_net_import::{Imported, netplan, nmstate};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{Format, document, print, printable};
use crate::yaml;

/// Files of thousands of links are smaller.
const FILE_MAX: u64 = 1024 * 1024;

#[derive(Subcommand)]
pub enum NetVerb {
    /// Print the network document that says what a file of nmstate or netplan says
    ///
    /// A setting that a document cannot say is left out, and named in the document's first lines; the exit code is
    /// then 1. The
    /// document is one for 'muster-agent net plan -c', which shows what it would change on a server, and its
    /// network_config one for Muster::NetworkConfig.
    #[command(
        after_help = "Example:\n  muster net import --netplan /etc/netplan/50-cloud-init.yaml > network.yaml\n  \
                            muster net import --nmstate state.yml > network.yaml"
    )]
    Import(Import),
}

/// `net import`
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Import {
    /// A state of nmstate, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    nmstate: Option<PathBuf>,
    /// A file of netplan; repeatable, later files count
    #[arg(long, value_name = "FILE")]
    netplan: Vec<PathBuf>,
}

/// Does it.
pub fn run(verb: NetVerb, format: Format) -> Result<(), Failure> {
    let NetVerb::Import(Import { nmstate: state, netplan: files }) = verb;
    let (from, imported) = match state {
        Some(file) => (shown(&file), nmstate(&read(&file)?)),
        None => {
            let values = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, Failure>>()?;
            (files.iter().map(|file| shown(file)).collect::<Vec<_>>().join(", "), netplan(values))
        }
    };
    let imported =
        imported.map_err(|error| Failure::usage(format!("{from}: {}", printable(&error.to_string()))))?;
    match format {
        Format::Table => print(&text(&from, &imported))?,
        format => {
            let both = json!({"document": imported.document, "left_out": imported.left_out});
            document(format, &both, |_| String::new())?;
        }
    }
    match imported.left_out.len() {
        0 => Ok(()),
        count => Err(Failure::failed(format!(
            "{from}: {} left out, see 'Left out' in the document",
            if count == 1 { "one setting is".to_owned() } else { format!("{count} settings are") }
        ))),
    }
}

fn shown(file: &Path) -> String {
    printable(&file.display().to_string())
}

fn read(file: &Path) -> Result<Value, Failure> {
    let failure = |problem: String| Failure::usage(format!("{}: {problem}", shown(file)));
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| failure(error.to_string()))?;
    let read =
        opened.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| failure(error.to_string()))?;
    if u64::try_from(read).is_ok_and(|read| read > FILE_MAX) {
        return Err(failure(format!("over the limit of {FILE_MAX} bytes")));
    }
    muster_yaml::parse(&text).map_err(|error| Failure::usage(format!("{}:{error}", shown(file))))
}

/// The document, with what it lacks as comments.
fn text(from: &str, imported: &Imported) -> String {
    let mut out = format!("# From {from}.\n");
    if !imported.left_out.is_empty() {
        out.push_str("# Left out:\n");
    }
    for line in &imported.left_out {
        writeln!(out, "#   {}", printable(line)).expect("writing to a String does not fail");
    }
    out.push_str(&yaml::document(&imported.document));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_begins_with_what_it_lacks() {
        let imported = Imported {
            document: json!({"network_config": [{"name": "eth0", "type": "interface"}]}),
            left_out: vec!["network.wifis.w\u{1b}[2J: a network document has no such link".to_owned()],
        };
        assert_eq!(
            text("a.yaml", &imported),
            "# From a.yaml.\n# Left out:\n#   network.wifis.w\\u{1b}[2J: a network document has no such link\n\
             network_config:\n  - name: eth0\n    type: interface\n"
        );
        assert!(muster_yaml::parse(&text("a.yaml", &imported)).is_ok());
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b' '; FILE_MAX as usize + 1]).unwrap();
        assert!(read(file.path()).unwrap_err().lines[0].contains("over the limit"));
        assert!(read(Path::new("/nonexistent")).unwrap_err().lines[0].starts_with("/nonexistent: "));
    }
}
