//! `muster import …`: stacks of other programs as files for 'muster stack create'. Needs no controller.
//!
//! Absent: what becomes what (`controller/heat-import`), how Heat is asked (`heat.rs`), and network documents
//! ('muster net import').

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use muster_heat_import::{Content, ENVIRONMENT, Exported, HIDDEN, Imported, TEMPLATE, import};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::heat::{self, ANSWER_MAX, Endpoint};
use crate::output::{Format, document, printable};
use crate::yaml;

#[derive(Subcommand)]
pub enum ImportVerb {
    /// Write a stack of OpenStack's Heat as files for 'muster stack create'
    ///
    /// Reads template, environment and files, through Heat's API or from a file of 'openstack stack export', and changes
    /// nothing there. Hidden values go into a file of their own, hidden.yaml, which only you can read; none is printed.
    /// A setting that could not be said is named, and the exit code is then 1.
    ///
    /// The API is asked at OS_ENDPOINT with the token in OS_TOKEN, which 'openstack token issue -f value -c id' prints.
    #[command(
        after_help = "Example:\n  muster import heat --stack web --endpoint https://heat.example.org:8004/v1/PROJECT\n  \
                      muster import heat --file web.json -d web"
    )]
    Heat(Heat),
}

/// `import heat`
#[derive(Args)]
#[command(group = clap::ArgGroup::new("from").required(true).args(["stack", "file"]))]
pub struct Heat {
    /// Name or id of the stack
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// A file of 'openstack stack export', in place of Heat's API; '-' is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Folder to write, which must not exist [default: the stack's name]
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Heat's API, with version and project
    #[arg(long, env = "OS_ENDPOINT", hide_env_values = true, value_name = "URL")]
    endpoint: Option<String>,
    /// File with the CA of Heat's certificate [default: the CAs of this machine]
    #[arg(long, env = "OS_CACERT", hide_env_values = true, value_name = "FILE")]
    os_cacert: Option<PathBuf>,
}

/// Does it.
pub async fn run(verb: ImportVerb, format: Format) -> Result<(), Failure> {
    let ImportVerb::Heat(Heat { stack, file, directory, endpoint, os_cacert }) = verb;
    let (from, exported) = match (stack, file) {
        (Some(stack), _) => {
            let endpoint = endpoint.ok_or_else(|| {
                Failure::usage("where is Heat? --endpoint, or OS_ENDPOINT: 'openstack catalog show orchestration' has it")
            })?;
            // From the environment alone: other users see a command's arguments.
            let token = std::env::var("OS_TOKEN").ok().filter(|token| !token.is_empty());
            let endpoint = Endpoint::new(&endpoint, token, os_cacert)?;
            (stack.clone(), heat::stack(&endpoint, &stack).await?)
        }
        (None, Some(file)) => {
            let shown = printable(&file.display().to_string());
            let exported = read(&file).and_then(|value| parsed(&value));
            (shown.clone(), exported.map_err(|failure| failure.about(&shown))?)
        }
        (None, None) => return Err(Failure::usage("--stack NAME or --file FILE is wanted")),
    };
    let name = exported.name.clone();
    let imported = import(exported).map_err(|error| {
        Failure::usage(format!("{}: {}", printable(&from), printable(&error.to_string())))
    })?;
    let directory = match directory {
        Some(directory) => directory,
        None => own_name(&name)?,
    };
    write(&directory, &imported)?;
    let files: Vec<&String> = imported.files.keys().collect();
    let told = json!({"stack": name, "directory": directory.display().to_string(), "files": files,
        "left_out": imported.left_out, "to_give": imported.to_give});
    document(format, &told, |_| text(&name, &directory, &imported))?;
    match imported.left_out.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed("a part of the stack was left out, see above")),
    }
}

fn parsed(value: &Value) -> Result<Exported, Failure> {
    Exported::parse(value).map_err(|error| Failure::usage(error.to_string()))
}

/// A stack's name is a folder's, unless somebody else made the file.
fn own_name(name: &str) -> Result<PathBuf, Failure> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.chars().all(fits) {
        true => Ok(PathBuf::from(name)),
        false => {
            Err(Failure::usage(format!("the stack '{}' names no folder: give one with -d", printable(name))))
        }
    }
}

fn read(file: &Path) -> Result<Value, Failure> {
    let mut text = Vec::new();
    let limit = u64::try_from(ANSWER_MAX).unwrap_or(u64::MAX);
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(limit + 1).read_to_end(&mut text),
        false => File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut text)),
    };
    read.map_err(|error| Failure::usage(error.to_string()))?;
    if text.len() > ANSWER_MAX {
        return Err(Failure::usage(format!("it is over the limit of {} MiB", ANSWER_MAX >> 20)));
    }
    serde_json::from_slice(&text).map_err(|error| Failure::usage(format!("it is not JSON: {error}")))
}

/// A folder of its own, so that nothing that was there is changed.
fn write(directory: &Path, imported: &Imported) -> Result<(), Failure> {
    let wrong = |path: &Path, error: &std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} is there already: remove it, or choose another one with -d",
            path.display()
        )),
        _ => Failure::failed(format!("cannot write {}: {error}", path.display())),
    };
    DirBuilder::new().mode(0o700).create(directory).map_err(|error| wrong(directory, &error))?;
    for (place, content) in &imported.files {
        let path = directory.join(place);
        if let Some(folder) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| wrong(folder, &error))?;
        }
        let mode = if place == HIDDEN { 0o600 } else { 0o644 };
        let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let text = match content {
            Content::Document(value) => yaml::document(value),
            Content::Text(text) => text.clone(),
        };
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| wrong(&path, &error))?;
    }
    Ok(())
}

/// The files that were written, the values that were left out, and the command that makes the stack.
fn text(name: &str, directory: &Path, imported: &Imported) -> String {
    let shown = |place: &str| printable(&directory.join(place).display().to_string());
    let mut lines: Vec<String> = imported.files.keys().map(|place| shown(place)).collect();
    lines.extend(imported.left_out.iter().map(|what| format!("left out: {}", printable(what))));
    let hidden = imported.to_give.iter();
    lines.extend(hidden.map(|name| format!("not told: the hidden parameter {}", printable(name))));
    let mut command = format!("muster stack create {} -t {}", printable(name), shown(TEMPLATE));
    for file in [ENVIRONMENT, HIDDEN].into_iter().filter(|file| imported.files.contains_key(*file)) {
        command.push_str(&format!(" -e {}", shown(file)));
    }
    for name in &imported.to_give {
        command.push_str(&format!(" -P {}=VALUE", printable(name)));
    }
    lines.push(command);
    lines.join("\n") + "\n"
}
