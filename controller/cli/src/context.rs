//! `muster login` and `muster context`: which controller commands are for, and with which token. Decides what goes before
//! what: `--url` and MUSTER_TOKEN, then the context in use, then the socket of this machine.
//!
//! Absent: how a controller is reached (`controller_connection.rs`), and who may ask it for what
//! (`controller/src/api/authorization.rs`).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use clap::{Args, Subcommand};
use muster_api::user::CallerView;
use muster_shared::user_token::UserToken;
use serde::{Deserialize, Serialize};

use crate::ca::Ca;
use crate::client::{Client, path};
use crate::controller_connection::{Credentials, Way, shown};
use crate::failure::Failure;
use crate::identity::{Flags, Identity};
use crate::oidc;
use crate::output::{Column, Format, cell, document, print, table};

/// The socket of a controller whose settings name no other.
pub const DEFAULT_URL: &str = "unix:///run/muster/api.sock";
/// A token without `muster login`.
const TOKEN_VARIABLE: &str = "MUSTER_TOKEN";
/// The CAs of a controller's own certificate, without `muster login`.
const CA_VARIABLE: &str = "MUSTER_CA";
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
    /// Log in at the identity provider's page, in a browser on any machine
    #[arg(long, conflicts_with = "token_file")]
    oidc: bool,
    /// CA of the controller's certificate, if the site's CA has not issued it: a PEM file, or 'system' for the CAs that
    /// this machine trusts [default: the CA that the token names]
    #[arg(long, value_name = "FILE|system", env = CA_VARIABLE, hide_env_values = true)]
    ca: Option<Ca>,
    #[command(flatten)]
    identity: Flags,
}

#[derive(Subcommand)]
pub enum ContextVerb {
    /// List the controllers that you have logged in to
    #[command(after_help = "Example:\n  muster context list")]
    List,
    /// Use another of them from now on
    #[command(after_help = "Example:\n  muster context use c1.example.org:8443")]
    Use {
        /// Name, as 'muster context list' shows it
        name: String,
    },
    /// Log out of one of them: its token leaves this machine's file
    ///
    /// Commands are for this machine's socket if it was in use. The token itself counts until it is revoked.
    #[command(after_help = "Example:\n  muster context remove c1.example.org:8443")]
    Remove {
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    url: String,
    /// None: the user shows a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The user's name, where no token says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// None: the one that the token names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
}

/// The settings of environment and flags.
#[derive(Clone, Default)]
struct Overrides<'a> {
    token: Option<&'a str>,
    ca: Option<&'a str>,
    identity: Option<Identity>,
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

/// The way to the controller that a command is for, and its URL.
pub fn way(url: Option<String>, identity: Option<Identity>) -> Result<(String, Way), Failure> {
    // A socket needs neither a token nor a context.
    if let Some(url) = url.as_ref().filter(|url| !url.starts_with("https://")) {
        return Ok((url.clone(), Way::new(url, Credentials::default())?));
    }
    let contexts = file().map_or_else(|| Ok(Contexts::default()), |file| Contexts::read(&file))?;
    let set = |name| env::var(name).ok().filter(|text| !text.is_empty());
    let (token, ca) = (set(TOKEN_VARIABLE), set(CA_VARIABLE));
    contexts.way(url, Overrides { token: token.as_deref(), ca: ca.as_deref(), identity })
}

/// Asks the controller as this user, and keeps how that is done.
pub async fn login(Login { url, token_file, oidc, ca, identity }: Login) -> Result<(), Failure> {
    let identity = if oidc { None } else { identity.pair()? };
    let token = if oidc {
        Some(oidc::log_in(Way::unknown(&url, ca.clone())?).await?)
    } else {
        given_token(token_file, identity.is_some())?
    };
    // Whoever trusted this machine's CAs for the login does so from then on.
    let ca = if oidc { ca.or(Some(Ca::System)) } else { ca };
    let kept = Context {
        url: url.clone(),
        token: token.as_ref().map(UserToken::to_string),
        user: None,
        ca: ca.as_ref().map(Ca::to_string),
        identity: identity.clone(),
    };
    let way = Way::new(&url, Credentials { token, ca, identity })?;
    if let Way::Socket(_) = way {
        return Err(Failure::usage("the socket of this machine needs no login: want https://HOST:PORT"));
    }
    let name = way.shown();
    let caller = Client::over(way).get(&path(["caller"])).await?;
    let caller: CallerView = serde_json::from_value(caller)
        .map_err(|error| Failure::failed(format!("the controller's answer is not understood: {error}")))?;
    let file = file().ok_or_else(|| Failure::failed("neither HOME nor XDG_CONFIG_HOME is set"))?;
    let mut contexts = Contexts::read(&file)?;
    contexts.contexts.insert(name.clone(), Context { user: Some(caller.name.clone()), ..kept });
    contexts.current = Some(name.clone());
    contexts.write(&file)?;
    print(&format!("{} is logged in to {name}; commands are for it from now on\n", caller.name))
}

/// The token to log in with. A user with a certificate needs none.
fn given_token(file: Option<PathBuf>, has_certificate: bool) -> Result<Option<UserToken>, Failure> {
    let text = match (file, env::var(TOKEN_VARIABLE).ok().filter(|text| !text.is_empty())) {
        (Some(path), _) => {
            let text = fs::File::open(&path).and_then(|file| io::read_to_string(file.take(TOKEN_MAX)));
            text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
        }
        (None, _) if has_certificate => return Ok(None),
        (None, Some(text)) => text,
        (None, None) => {
            let text = io::read_to_string(io::stdin().take(TOKEN_MAX));
            text.map_err(|error| Failure::usage(format!("cannot read the token from stdin: {error}")))?
        }
    };
    token(&text).map(Some)
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
            contexts.check(&name)?;
            contexts.current = Some(name);
            contexts.write(&file)
        }
        ContextVerb::Remove { name } => {
            contexts.check(&name)?;
            contexts.remove(&name);
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

impl Context {
    fn user(&self) -> String {
        let by_token = self.token.as_deref().and_then(|text| Some(token(text).ok()?.name));
        by_token.or_else(|| self.user.clone()).unwrap_or_default()
    }
}

impl Contexts {
    /// `url` and `given` go before the context in use.
    fn way(&self, url: Option<String>, given: Overrides<'_>) -> Result<(String, Way), Failure> {
        let context = match (&url, &self.current) {
            (Some(url), _) => self.contexts.get(&shown(url)?),
            (None, Some(name)) => Some(self.contexts.get(name).ok_or_else(|| {
                Failure::usage(format!("there is no context '{name}' any more: muster context use, or --url"))
            })?),
            (None, None) if given.token.is_some() => {
                return Err(Failure::usage(format!(
                    "{TOKEN_VARIABLE} is for a controller on another machine: say which one, with --url or MUSTER_URL"
                )));
            }
            (None, None) => None,
        };
        // Whoever gives one thing to be known by does not mean the other one that is kept.
        let kept = context.filter(|_| given.token.is_none() && given.identity.is_none());
        let token = match (given.token, kept.and_then(|kept| kept.token.as_deref())) {
            (Some(given), _) => Some(token(given).map_err(|failure| failure.about(TOKEN_VARIABLE))?),
            (None, Some(kept)) => Some(token(kept)?),
            (None, None) => None,
        };
        let identity = given.identity.or_else(|| kept?.identity.clone());
        let url = url.or_else(|| Some(context?.url.clone())).unwrap_or_else(|| DEFAULT_URL.into());
        let ca = given.ca.or_else(|| context?.ca.as_deref()).map(|text| {
            let Ok(ca) = text.parse::<Ca>();
            ca
        });
        let way = Way::new(&url, Credentials { token, ca, identity })?;
        Ok((url, way))
    }

    fn check(&self, name: &str) -> Result<(), Failure> {
        if self.contexts.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "none yet (muster login URL)".to_owned() } else { known.join(", ") };
        Err(Failure::usage(format!("no context '{name}': there are {known}")))
    }

    /// The context is gone, and is in use no more.
    fn remove(&mut self, name: &str) {
        self.contexts.remove(name);
        self.current.take_if(|current| current == name);
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(name, context): (&String, &Context)| Row {
            name: name.clone(),
            url: context.url.clone(),
            user: context.user(),
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

    /// Writes the whole file or nothing; at no moment can others read it.
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
    fn what_is_said_goes_before_what_is_kept() {
        let token = |name: &str| {
            UserToken { name: name.into(), ca_fingerprint: [1; 32], secret: [2; 32] }.to_string()
        };
        let (anna, ben, none) = (token("anna"), token("ben"), Contexts::default());
        let kept = |current: &str| Contexts {
            current: Some(current.into()),
            contexts: BTreeMap::from([
                (
                    "c1:8443".to_owned(),
                    Context { url: "https://c1".into(), token: Some(anna.clone()), ..Context::default() },
                ),
                (
                    "c2:9".to_owned(),
                    Context {
                        url: "https://c2:9".into(),
                        token: Some("damaged".into()),
                        ..Context::default()
                    },
                ),
            ]),
        };
        let (c1, c2, gone) = (kept("c1:8443"), kept("c2:9"), kept("c3:8443"));
        let found = |contexts: &Contexts, url: Option<&str>, given: Option<&str>| {
            contexts
                .way(url.map(ToOwned::to_owned), Overrides { token: given, ..Overrides::default() })
                .map_or_else(
                    |failure| failure.lines[0].clone(),
                    |(_, way)| {
                        let user = way.token().map_or("nobody", |token| &*token.name).to_owned();
                        format!("{user} at {}", way.shown())
                    },
                )
        };
        for (contexts, url, given, wanted) in [
            (&none, None, None, "nobody at /run/muster/api.sock"),
            (&none, None, Some(&*ben), "MUSTER_TOKEN is for a controller on another machine"),
            (&none, Some("https://c1"), Some(&*ben), "ben at c1:8443"),
            (&none, Some("https://c1"), None, "https://c1 needs a user's token"),
            (&c1, None, None, "anna at c1:8443"),
            (&c1, None, Some(&*ben), "ben at c1:8443"),
            (&c1, None, Some("x"), "MUSTER_TOKEN: that is no user's token"),
            (&c2, Some("https://c1:8443/"), None, "anna at c1:8443"),
            (&c2, None, None, "that is no user's token"),
            (&c2, None, Some(&*ben), "ben at c2:9"),
            (&gone, None, None, "there is no context 'c3:8443' any more"),
            (&gone, Some("https://c1"), None, "anna at c1:8443"),
        ] {
            let found = found(contexts, url, given);
            assert!(found.starts_with(wanted), "{url:?} {given:?}: {found}, not {wanted}");
        }
        let mut left = kept("c1:8443");
        left.remove("c1:8443");
        assert_eq!((left.current, left.contexts.len()), (None, 1));
    }

    #[test]
    fn contexts_are_kept_for_their_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("muster/contexts.toml");
        assert_eq!(Contexts::read(&file).unwrap(), Contexts::default());
        let token = UserToken { name: "anna".into(), ca_fingerprint: [1; 32], secret: [2; 32] }.to_string();
        let context = Context {
            url: "https://c1:8443".into(),
            token: Some(token),
            ca: Some("system".into()),
            ..Context::default()
        };
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
