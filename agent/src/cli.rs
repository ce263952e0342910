//! The command line: flags before or after a verb.
//!
//! Absent: the settings of the file and their defaults (`settings.rs`).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;
use thiserror::Error;

use crate::net::confirm_target::Target;
use crate::net::export::{self, Export};
use crate::net::local::Confirm;
use crate::token::TokenSource;

/// The default of templates.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(120);
/// The longest time to confirm, in seconds: a server cut off for more than an hour is not protected any more.
pub const CONFIRM_WITHIN_MAX: u64 = 3600;

/// The output of `--help`.
pub const HELP: &str = "\
The agent of Muster: makes this server what its site's controller asks for.

Usage: muster-agent [OPTIONS]                   run; this server must have joined
       muster-agent [OPTIONS] join              enrol this server, then run; the token comes from
                                                --token, --token-file, or a systemd credential
                                                named muster.token
       muster-agent [OPTIONS] doctor            say what is wrong on this server; changes nothing
       muster-agent [OPTIONS] net VERB          configure the network, without a controller
       muster-agent [OPTIONS] flow release      release switches that wait for their flow tables;
                                                the unit muster-agent does so when the agent ends

Verbs of net:
  apply -c FILE   apply the document, and remember what was there before; with --confirm keep
                  the change only if TARGET answers afterwards
  plan -c FILE    print the steps of apply, and change nothing
  boot            restore the last applied network; the unit muster-network does so at boot
  show            print the current network as JSON
  export -c FILE  print the document as files of systemd-networkd, NetworkManager or ifupdown;
                  with --from-ledger all that is in force; with --into below a directory

Options:
  --config FILE     settings (default: /etc/muster/agent.toml, if it exists)
  --state-dir DIR   keys and ledger (default: /var/lib/muster-agent)
  --check-config    check the settings, and exit
  --token -         with join: read the token from stdin. 'join TOKEN' works as well, but users
                    of this server see the token in the list of processes
  --token-file FILE   with join: read the token from this file
  --name FQDN       with join: name of this server (default: its fqdn)
  --check           with join: only say whether this server could join
  -o, --output FORMAT   with doctor: table (default) or json
  --confirm TARGET  with net apply: gateway, an address, a host name, or HOST:PORT
  --confirm-timeout SECONDS   time for the change and for reaching TARGET (default: 120)
  --format NAME     with net export: networkd, networkmanager, ifupdown, or auto (the active one)
  --from-ledger     with net export: export what is in force on this server
  --into DIR        with net export: directory that stands for /
  -c FILE           with net: document in os-net-config's format (YAML or JSON)
  -h, --help        print this help
  -V, --version     print the version

Every setting can also be given as MUSTER_<SECTION>__<KEY>, such as MUSTER_LOG__LEVEL=debug.
Precedence: flags, then environment variables, then the settings file.

Examples:
  ssh controller muster node token --name web-1.example.org | muster-agent join --token -
  muster-agent doctor
  muster-agent net plan -c /etc/os-net-config/config.yaml
  muster-agent net apply -c new.yaml --confirm gateway --confirm-timeout 30
";

/// The requested command.
#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    Run,
    Join {
        /// The place of the token.
        token: TokenSource,
        /// The node's name, if not the fqdn.
        name: Option<String>,
        /// Only check.
        check: bool,
    },
    /// `doctor`
    Doctor(Output),
    /// `net apply`
    NetApply {
        file: PathBuf,
        confirm: Option<Confirm>,
        /// Another process restores the former state if this one leaves a change behind.
        watched: bool,
    },
    /// `net boot`
    NetBoot,
    /// `flow release`
    FlowRelease,
    /// `net plan`
    NetPlan(PathBuf),
    /// `net export`
    NetExport(Export),
    /// `net show`
    NetShow,
    /// `run`: supervise one run of a command; the agent starts this for the given directory.
    Supervise(PathBuf),
    /// `upgrade`: change the agent's own package; the agent starts this with what to do, as JSON.
    Upgrade(String),
    /// Say whether the settings are valid.
    CheckConfig,
    /// Print [`HELP`].
    Help,
    Version,
}

/// `-o`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    Json,
}

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Cli {
    pub verb: Verb,
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Error)]
pub enum UsageError {
    /// An option or value.
    #[error("{0}")]
    Option(#[from] lexopt::Error),
    /// An argument is missing, or there is one too many.
    #[error("{0}")]
    Wrong(String),
}

#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    config: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    document: Option<PathBuf>,
    token: Option<TokenSource>,
    name: Option<String>,
    confirm: Option<Target>,
    confirm_timeout: Option<Duration>,
    watched: bool,
    format: Option<String>,
    from_ledger: bool,
    into: Option<PathBuf>,
    output: Option<Output>,
    check: bool,
    check_config: bool,
    asked: Option<Verb>,
}

impl Arguments {
    fn take_token(&mut self, token: TokenSource) -> Result<(), UsageError> {
        match self.token.replace(token) {
            None => Ok(()),
            Some(_) => {
                Err(UsageError::Wrong("join takes one token, as 'muster node token' prints it".into()))
            }
        }
    }
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// [`UsageError`]
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, UsageError> {
    let mut given = Arguments::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => given.config = Some(parser.value()?.into()),
            Long("state-dir") => given.state_dir = Some(parser.value()?.into()),
            Long("token") => {
                let token = match parser.value()?.string()? {
                    dash if dash == "-" => TokenSource::Stdin,
                    token => TokenSource::Argument(token),
                };
                given.take_token(token)?;
            }
            Long("token-file") => {
                let file = TokenSource::File(parser.value()?.into());
                given.take_token(file)?;
            }
            Long("name") => given.name = Some(parser.value()?.string()?),
            Long("check") => given.check = true,
            Long("check-config") => given.check_config = true,
            Long("confirm") => given.confirm = Some(target(&parser.value()?.string()?)?),
            Long("confirm-timeout") => given.confirm_timeout = Some(seconds(parser.value()?)?),
            // Given by the watching process.
            Long("watched") => given.watched = true,
            Long("format") => given.format = Some(parser.value()?.string()?),
            Long("from-ledger") => given.from_ledger = true,
            Long("into") => given.into = Some(parser.value()?.into()),
            Short('o') | Long("output") => given.output = Some(output(&parser.value()?.string()?)?),
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
    if given.name.is_some() || given.check || given.token.is_some() {
        return wrong("--token, --token-file, --name and --check belong to join");
    }
    if given.output.is_some() {
        return wrong("-o belongs to doctor");
    }
    if given.document.is_some() {
        return wrong("-c belongs to 'net apply', 'net plan' and 'net export'");
    }
    if given.format.is_some() || given.from_ledger || given.into.is_some() {
        return wrong("--format, --from-ledger and --into belong to 'net export'");
    }
    if given.confirm.is_some() || given.confirm_timeout.is_some() || given.watched {
        return wrong("--confirm and --confirm-timeout belong to 'net apply', the second one to the first");
    }
    Ok(Cli { verb, config: given.config, state_dir: given.state_dir })
}

fn verb(given: &mut Arguments) -> Result<Verb, UsageError> {
    let wrong = |what: String| Err(UsageError::Wrong(what));
    let words: Vec<&str> = given.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] if given.check_config => Ok(Verb::CheckConfig),
        _ if given.check_config => wrong("--check-config stands alone".into()),
        [] => Ok(Verb::Run),
        ["join", tokens @ ..] => {
            let tokens: Vec<_> =
                tokens.iter().map(|token| TokenSource::Argument((*token).to_owned())).collect();
            for token in tokens {
                given.take_token(token)?;
            }
            Ok(Verb::Join {
                token: given.token.take().unwrap_or(TokenSource::Credential),
                name: given.name.take(),
                check: std::mem::take(&mut given.check),
            })
        }
        ["doctor"] => Ok(Verb::Doctor(given.output.take().unwrap_or_default())),
        ["doctor", ..] => wrong("doctor takes no further words".into()),
        ["net", "show"] => Ok(Verb::NetShow),
        ["net", "boot"] => Ok(Verb::NetBoot),
        ["net", "export"] => {
            let (document, from_ledger) = (given.document.take(), std::mem::take(&mut given.from_ledger));
            if document.is_some() == from_ledger {
                return wrong("net export needs either -c FILE or --from-ledger".into());
            }
            let format = given.format.take().map(|format| export::format(&format)).transpose();
            let format = format.map_err(|error| UsageError::Wrong(error.to_string()))?.flatten();
            Ok(Verb::NetExport(Export { document, format, into: given.into.take() }))
        }
        ["net", verb @ ("apply" | "plan")] => match given.document.take() {
            None => wrong(format!("net {verb} needs -c FILE")),
            Some(file) if *verb == "apply" => {
                let within = given.confirm_timeout;
                let confirm = given.confirm.take().map(|target| {
                    given.confirm_timeout = None;
                    Confirm { target, within: within.unwrap_or(CONFIRM_WITHIN) }
                });
                Ok(Verb::NetApply { file, confirm, watched: std::mem::take(&mut given.watched) })
            }
            Some(document) => Ok(Verb::NetPlan(document)),
        },
        ["flow", "release"] => Ok(Verb::FlowRelease),
        // The agent itself gives these arguments.
        ["run", directory] => Ok(Verb::Supervise(directory.into())),
        ["upgrade", change] => Ok(Verb::Upgrade((*change).to_owned())),
        ["flow", ..] => wrong("flow takes release".into()),
        ["net", ..] => wrong("net takes one of apply, boot, export, plan, show".into()),
        [other, ..] => wrong(format!(
            "unknown verb '{}': want join, doctor, net or flow; see --help",
            other.chars().take(40).collect::<String>().escape_default()
        )),
    }
}

/// `-o`
fn output(text: &str) -> Result<Output, UsageError> {
    match text {
        "table" => Ok(Output::Table),
        "json" => Ok(Output::Json),
        other => Err(UsageError::Wrong(format!("-o '{}': want table or json", other.escape_default()))),
    }
}

/// `--confirm`
///
/// # Errors
/// The text names no target that could be reached.
pub fn target(text: &str) -> Result<Target, UsageError> {
    text.parse().map_err(|error| UsageError::Wrong(format!("--confirm {error}")))
}

/// `--confirm-timeout`
///
/// # Errors
/// The value is out of bounds.
pub fn seconds(value: OsString) -> Result<Duration, UsageError> {
    let seconds = value.string()?.parse().ok().filter(|seconds| (1..=CONFIRM_WITHIN_MAX).contains(seconds));
    let wrong = || UsageError::Wrong(format!("--confirm-timeout takes 1 to {CONFIRM_WITHIN_MAX} seconds"));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
