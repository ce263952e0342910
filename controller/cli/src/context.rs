//! `muster login` and `muster context`: which controller commands are for, and with which token. Decides what goes before
//! what: `--url` and MUSTER_TOKEN, then the context in use, then the socket of this machine.
//!
//! Absent: how a controller is reached (`way.rs`), and who may ask it for what (`controller/src/api/caller.rs`).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::{Args, Subcommand};
use muster_shared::user_token::UserToken;
use serde::{Deserialize, Serialize};

use crate::client::{Client, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, document, print, table};
use crate::way::Way;

/// The socket of a controller whose settings name no other.
pub const DEFAULT_URL: &str = "unix:///run/muster/api.sock";
/// A token without `muster login`.
const TOKEN_VARIABLE: &str = "MUSTER_TOKEN";
/// The most bytes of a file with a token.
const TOKEN_MAX: u64 = 4096;

/// `login`
#[derive(Args)]
pub struct Login {
    /// Address of the controller: https://HOST or https://HOST:PORT
    url: String,
    /// File with the token that 'muster user create' printed [default: MUSTER_TOKEN, or stdin]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Verbs.
#[derive(Subcommand)]
pub enum ContextVerb {
    /// List the controllers that you have logged in to
    #[command(after_help = "Example:\n  muster context list")]
    List,
    /// Use another of them from now on
    #[command(after_help = "Example:\n  muster context use c1.example.org")]
    Use {
        /// Name, as 'muster context list' shows it
        name: String,
    },
}

/// The file of a user, which nobody else can read.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    url: String,
    token: String,
}

/// A context in a list.
#[derive(Serialize, Deserialize)]
struct Row {
    name: String,
    url: String,
    user: String,
    in_use: bool,
}

const COLUMNS: [Column<Row>; 4] = [
    ("NAME", |row| cell(&row.name)),
    ("URL", |row| cell(&row.url)),
    ("USER", |row| cell(&row.user)),
    ("IN USE", |row| cell(&row.in_use)),
];

/// The way to the controller that a command is for.
pub fn way(url: Option<String>) -> Result<(String, Way), Failure> {
    // A socket needs neither a token nor a context.
    if let Some(url) = url.as_ref().filter(|url| !url.starts_with("https://")) {
        return Ok((url.clone(), Way::new(url, None)?));
    }
    let contexts = match file() {
        Some(file) => Contexts::read(&file)?,
        None => Contexts::default(),
    };
    let given = match env::var(TOKEN_VARIABLE) {
        Ok(text) if !text.is_empty() => Some(token(&text).map_err(|failure| failure.about(TOKEN_VARIABLE))?),
        Ok(_) | Err(_) => None,
    };
    let context = match &url {
        Some(url) => contexts.contexts.values().find(|context| context.url == *url),
        None => contexts.current.as_ref().and_then(|name| contexts.contexts.get(name)),
    };
    let kept = context.map(|context| token(&context.token)).transpose()?;
    let url =
        url.or_else(|| context.map(|context| context.url.clone())).unwrap_or_else(|| DEFAULT_URL.into());
    let way = Way::new(&url, given.or(kept))?;
    Ok((url, way))
}

/// Asks the controller with the token, and keeps both.
pub async fn login(Login { url, token_file }: Login) -> Result<(), Failure> {
    let text = match token_file {
        Some(path) => {
            let text = fs::File::open(&path).and_then(|file| io::read_to_string(file.take(TOKEN_MAX)));
            text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
        }
        None => match env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.is_empty() => text,
            Ok(_) | Err(_) => {
                let text = io::read_to_string(io::stdin().take(TOKEN_MAX));
                text.map_err(|error| Failure::usage(format!("cannot read the token from stdin: {error}")))?
            }
        },
    };
    let token = token(&text)?;
    let way = Way::new(&url, Some(token.clone()))?;
    if let Way::Socket(_) = way {
        return Err(Failure::usage("the socket of this machine needs no login: want https://HOST:PORT"));
    }
    let name = way.shown();
    Client::over(way).get(&path(["status"])).await?;
    let file = file().ok_or_else(|| Failure::failed("neither HOME nor XDG_CONFIG_HOME is set"))?;
    let mut contexts = Contexts::read(&file)?;
    contexts.contexts.insert(name.clone(), Context { url, token: token.to_string() });
    contexts.current = Some(name.clone());
    contexts.write(&file)?;
    print(&format!("{} is logged in to {name}; commands are for it from now on\n", token.name))
}

/// Does it.
pub fn run(verb: ContextVerb, format: Format) -> Result<(), Failure> {
    let file = file().ok_or_else(|| Failure::failed("neither HOME nor XDG_CONFIG_HOME is set"))?;
    let mut contexts = Contexts::read(&file)?;
    match verb {
        ContextVerb::List => {
            let rows = contexts.rows();
            let list = serde_json::json!(rows);
            document(format, &list, |_| table(&COLUMNS, &rows))
        }
        ContextVerb::Use { name } => {
            if !contexts.contexts.contains_key(&name) {
                let known: Vec<&str> = contexts.contexts.keys().map(String::as_str).collect();
                return Err(Failure::usage(format!(
                    "no context '{name}': there are {}",
                    if known.is_empty() {
                        "none yet (muster login URL)".to_owned()
                    } else {
                        known.join(", ")
                    }
                )));
            }
            contexts.current = Some(name);
            contexts.write(&file)
        }
    }
}

fn token(text: &str) -> Result<UserToken, Failure> {
    text.trim()
        .parse()
        .map_err(|error: muster_shared::user_token::UserTokenError| Failure::usage(error.to_string()))
}

/// The user's file.
fn file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("muster/contexts.toml"))
}

impl Contexts {
    fn rows(&self) -> Vec<Row> {
        let row = |(name, context): (&String, &Context)| Row {
            name: name.clone(),
            url: context.url.clone(),
            user: token(&context.token).map(|token| token.name).unwrap_or_default(),
            in_use: self.current.as_ref() == Some(name),
        };
        self.contexts.iter().map(row).collect()
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let wrong = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("{}: {why}; mend it, or remove it and log in again", file.display()))
        };
        match fs::read_to_string(file) {
            Ok(text) => toml::from_str(&text).map_err(|error| wrong(&error.message())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// All of it or nothing; nobody else can read it at any moment.
    fn write(&self, file: &Path) -> Result<(), Failure> {
        let wrong = |error: io::Error| Failure::failed(format!("cannot write {}: {error}", file.display()));
        let text = toml::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        let fresh = file.with_extension(format!("toml.{}", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let opened = options.create_new(true).write(true).mode(0o600).open(&fresh);
        let placed = opened
            .and_then(|mut opened| opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()))
            .and_then(|()| fs::rename(&fresh, file));
        placed.map_err(|error| {
            drop(fs::remove_file(&fresh));
            wrong(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn contexts_are_kept_for_their_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("muster/contexts.toml");
        assert_eq!(Contexts::read(&file).unwrap(), Contexts::default());
        let token = UserToken { name: "anna".into(), ca_fingerprint: [1; 32], secret: [2; 32] }.to_string();
        let context = Context { url: "https://c1:8443".into(), token };
        let contexts = Contexts {
            current: Some("c1:8443".into()),
            contexts: BTreeMap::from([("c1:8443".to_owned(), context)]),
        };
        contexts.write(&file).unwrap();
        contexts.write(&file).unwrap();
        assert_eq!(Contexts::read(&file).unwrap(), contexts);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        let rows = contexts.rows();
        assert_eq!((rows[0].user.as_str(), rows[0].in_use), ("anna", true));
        fs::write(&file, "current = 3\n").unwrap();
        let failure = Contexts::read(&file).unwrap_err();
        assert!(failure.lines[0].contains("contexts.toml"), "{:?}", failure.lines);
    }
}
