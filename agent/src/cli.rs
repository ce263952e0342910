//! The command line: flags before or after a verb.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;
use thiserror::Error;

/// What `--help` prints.
pub const HELP: &str = "\
The agent of Muster: makes this server what its site's controller asks for.

Usage: muster-agent [OPTIONS]                   run; this server must have joined
       muster-agent [OPTIONS] join TOKEN        enrol this server, then run
       muster-agent [OPTIONS] net VERB          the network part alone, without a controller

Verbs of net:
  apply -c FILE   make the network what the document says, and remember what was there
  plan -c FILE    say what apply would do
  show            print the network as it is, as JSON

Options:
  --config FILE     settings (default: /etc/muster/agent.toml, if it is there)
  --state-dir DIR   keys and ledger (default: /var/lib/muster-agent)
  --check-config    say whether the settings are valid, and exit
  --name FQDN       with join: this server's name (default: its fqdn)
  --check           with join: only say whether it could join
  -c FILE           with net: the document, in os-net-config's format (YAML or JSON)
  -h, --help        print this
  -V, --version     print the version

Every setting can also be given as MUSTER_<SECTION>__<KEY>, such as MUSTER_LOG__LEVEL=debug.
A flag counts more than the environment, and that more than the file.

Examples:
  muster-agent join \"$(ssh controller muster node token --name web-1.example.org)\"
  muster-agent net plan -c /etc/os-net-config/config.yaml
";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    /// Run.
    Run,
    /// Enrol.
    Join {
        /// The token.
        token: String,
        /// Not the fqdn.
        name: Option<String>,
        /// Only look.
        check: bool,
    },
    /// `net apply`
    NetApply(PathBuf),
    /// `net plan`
    NetPlan(PathBuf),
    /// `net show`
    NetShow,
    /// Say whether the settings are valid.
    CheckConfig,
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
}

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Cli {
    /// What to do.
    pub verb: Verb,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
}

/// Wrong usage.
#[derive(Debug, Error)]
pub enum UsageError {
    /// An option or value.
    #[error("{0}")]
    Option(#[from] lexopt::Error),
    /// Something is missing or too much.
    #[error("{0}")]
    Wrong(String),
}

#[derive(Default)]
struct Given {
    words: Vec<String>,
    config: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    document: Option<PathBuf>,
    name: Option<String>,
    check: bool,
    check_config: bool,
    asked: Option<Verb>,
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// [`UsageError`]
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, UsageError> {
    let mut given = Given::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => given.config = Some(parser.value()?.into()),
            Long("state-dir") => given.state_dir = Some(parser.value()?.into()),
            Long("name") => given.name = Some(parser.value()?.string()?),
            Long("check") => given.check = true,
            Long("check-config") => given.check_config = true,
            Short('c') => given.document = Some(parser.value()?.into()),
            Short('h') | Long("help") => given.asked = Some(Verb::Help),
            Short('V') | Long("version") => given.asked = Some(Verb::Version),
            Value(word) => given.words.push(word.string()?),
            Short(_) | Long(_) => return Err(argument.unexpected().into()),
        }
    }
    if let Some(verb) = given.asked.take() {
        return Ok(Cli { verb, config: given.config, state_dir: given.state_dir });
    }
    let verb = verb(&mut given)?;
    let wrong = |what: &str| Err(UsageError::Wrong(what.to_owned()));
    if given.name.is_some() || given.check {
        return wrong("--name and --check belong to join");
    }
    if given.document.is_some() {
        return wrong("-c belongs to 'net apply' and 'net plan'");
    }
    Ok(Cli { verb, config: given.config, state_dir: given.state_dir })
}

fn verb(given: &mut Given) -> Result<Verb, UsageError> {
    let wrong = |what: String| Err(UsageError::Wrong(what));
    let words: Vec<&str> = given.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] if given.check_config => Ok(Verb::CheckConfig),
        _ if given.check_config => wrong("--check-config stands alone".into()),
        [] => Ok(Verb::Run),
        ["join", token] => Ok(Verb::Join {
            token: (*token).to_owned(),
            name: given.name.take(),
            check: std::mem::take(&mut given.check),
        }),
        ["join", ..] => wrong("join takes one TOKEN, as 'muster node token' prints it".into()),
        ["net", "show"] => Ok(Verb::NetShow),
        ["net", verb @ ("apply" | "plan")] => match given.document.take() {
            None => wrong(format!("net {verb} needs -c FILE")),
            Some(document) if *verb == "apply" => Ok(Verb::NetApply(document)),
            Some(document) => Ok(Verb::NetPlan(document)),
        },
        ["net", ..] => wrong("net takes one of apply, plan, show".into()),
        [other, ..] => wrong(format!(
            "unknown verb '{}': want join or net; see --help",
            other.chars().take(40).collect::<String>().escape_default()
        )),
    }
}

#[cfg(test)]
mod tests;
