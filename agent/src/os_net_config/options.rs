//! The command line of os-net-config 18.1, with `--confirm` and `--confirm-timeout` of our own.
//!
//! As there, a long option may be cut short where it stays unambiguous, and wrong usage is exit code 2.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::cli::{self, UsageError};
use crate::net::confirm_target::Target;
use crate::net::local::Confirm;

/// The output of `--help`.
pub const HELP: &str = "\
Configures this server's network from a document in os-net-config's format, with Muster's agent.

Usage: os-net-config [OPTIONS]

Where an agent runs, it applies the document and keeps it only if it reaches its controller afterwards; what was there
before is restored otherwise. Without an agent it is applied at once.

Options:
  -c, --config-file FILE    the document (default: /etc/os-net-config/config.yaml)
  -m, --mapping-file FILE   interface_mapping: alias to name or MAC address
                            (default: /etc/os-net-config/mapping.yaml, if it is there)
  -i, --interfaces [NIC...] print which interface stands for each alias, as JSON, and exit
      --noop                print what would be done
      --minimum-config      apply the section minimum_config first
      --remove-config       remove what the section remove_config names first
      --no-network-config   leave out the section network_config
      --no-fallback-config  never fall back to the section fallback_config
      --no-activate         only for the next boot; not where an agent runs
      --detailed-exit-codes bits: 1 error, 2 changed, 4 network_config, 8 fallback_config, 16 minimum_config,
                            32 remove_config, 64 purge; otherwise 0, or 1 if something failed
      --exit-on-validation-errors   nothing is done if any section is wrong
      --confirm TARGET      without an agent: keep it only if TARGET is reached afterwards: gateway, an address, a
                            host name, or HOST:PORT
      --confirm-timeout SECONDS     how long that may take
  -v, --verbose  -d, --debug        say what is done
      --version             print the version
  -h, --help                print this

Accepted, and said where they would mean something: -p/--provider (there is one: this), --cleanup, --persist-mapping.
Refused: -r/--root-dir but with --noop, --purge-provider.

Example:
  os-net-config -c /etc/os-net-config/config.yaml --detailed-exit-codes -v
";

const PROVIDERS: [&str; 4] = ["ifcfg", "eni", "nmstate", "iproute"];

const LONG: [&str; 22] = [
    "config-file",
    "mapping-file",
    "interfaces",
    "root-dir",
    "provider",
    "purge-provider",
    "detailed-exit-codes",
    "exit-on-validation-errors",
    "debug",
    "verbose",
    "version",
    "noop",
    "no-activate",
    "minimum-config",
    "no-network-config",
    "no-fallback-config",
    "cleanup",
    "persist-mapping",
    "remove-config",
    "confirm",
    "confirm-timeout",
    "help",
];

/// The options of the command.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "os-net-config has them")]
pub struct Options {
    /// `-c`
    pub config_file: PathBuf,
    /// `-m`
    pub mapping_file: PathBuf,
    /// `None` if not given; an empty list means all interfaces.
    pub interfaces: Option<Vec<String>>,
    /// `-r`
    pub root_dir: PathBuf,
    /// `-p`
    pub provider: Option<String>,
    /// `--purge-provider`
    pub purge_provider: Option<String>,
    /// `--detailed-exit-codes`
    pub detailed_exit_codes: bool,
    /// `--exit-on-validation-errors`
    pub exit_on_validation_errors: bool,
    /// `-v` or `-d`
    pub verbose: bool,
    /// `--noop`
    pub noop: bool,
    /// `--no-activate`
    pub no_activate: bool,
    /// `--minimum-config`
    pub minimum_config: bool,
    /// `--no-network-config`
    pub no_network_config: bool,
    /// `--no-fallback-config`
    pub no_fallback_config: bool,
    /// `--cleanup`
    pub cleanup: bool,
    /// `--persist-mapping`
    pub persist_mapping: bool,
    /// `--remove-config`
    pub remove_config: bool,
    /// `--confirm`
    pub confirm: Option<Confirm>,
    /// `--confirm-timeout`, in seconds
    pub confirm_timeout: Option<u32>,
    /// Another process restores the former state if this one leaves a change behind.
    pub watched: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Configure, or print the effect of configuring.
    Run(Box<Options>),
    /// Print [`HELP`].
    Help,
    Version,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            config_file: "/etc/os-net-config/config.yaml".into(),
            mapping_file: "/etc/os-net-config/mapping.yaml".into(),
            interfaces: None,
            root_dir: PathBuf::new(),
            provider: None,
            purge_provider: None,
            detailed_exit_codes: false,
            exit_on_validation_errors: false,
            verbose: false,
            noop: false,
            no_activate: false,
            minimum_config: false,
            no_network_config: false,
            no_fallback_config: false,
            cleanup: false,
            persist_mapping: false,
            remove_config: false,
            confirm: None,
            confirm_timeout: None,
            watched: false,
        }
    }
}

/// Reads the arguments, without the program's name.
///
/// # Errors
/// [`UsageError`]
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, UsageError> {
    let whole: Vec<OsString> = arguments.into_iter().map(whole_option).collect::<Result<_, _>>()?;
    let mut options = Options::default();
    let mut target: Option<Target> = None;
    let mut parser = lexopt::Parser::from_args(whole);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('c') | Long("config-file") => options.config_file = parser.value()?.into(),
            Short('m') | Long("mapping-file") => options.mapping_file = parser.value()?.into(),
            Short('i') | Long("interfaces") => {
                let names = options.interfaces.insert(Vec::new());
                if let Ok(values) = parser.values() {
                    for value in values {
                        names.push(value.string()?);
                    }
                }
            }
            Short('r') | Long("root-dir") => options.root_dir = parser.value()?.into(),
            Short('p') | Long("provider") => options.provider = Some(provider(parser.value()?)?),
            Long("purge-provider") => options.purge_provider = Some(provider(parser.value()?)?),
            Long("detailed-exit-codes") => options.detailed_exit_codes = true,
            Long("exit-on-validation-errors") => options.exit_on_validation_errors = true,
            Short('d' | 'v') | Long("debug" | "verbose") => options.verbose = true,
            Long("noop") => options.noop = true,
            Long("no-activate") => options.no_activate = true,
            Long("minimum-config") => options.minimum_config = true,
            Long("no-network-config") => options.no_network_config = true,
            Long("no-fallback-config") => options.no_fallback_config = true,
            Long("cleanup") => options.cleanup = true,
            Long("persist-mapping") => options.persist_mapping = true,
            Long("remove-config") => options.remove_config = true,
            Long("confirm") => target = Some(cli::target(&parser.value()?.string()?)?),
            Long("confirm-timeout") => {
                let seconds = cli::seconds(parser.value()?)?.as_secs();
                options.confirm_timeout = u32::try_from(seconds).ok();
            }
            Long("watched") => options.watched = true,
            Long("version") => return Ok(Invocation::Version),
            Short('h') | Long("help") => return Ok(Invocation::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    let within = options.confirm_timeout.map(|seconds| std::time::Duration::from_secs(seconds.into()));
    options.confirm = target.map(|target| Confirm { target, within: within.unwrap_or(cli::CONFIRM_WITHIN) });
    Ok(Invocation::Run(Box::new(options)))
}

fn provider(value: OsString) -> Result<String, UsageError> {
    let name = value.string()?;
    if PROVIDERS.contains(&name.as_str()) {
        return Ok(name);
    }
    let known = PROVIDERS.join(", ");
    Err(UsageError::Wrong(format!("provider '{}': want one of {known}", name.escape_default())))
}

/// `--detailed` for `--detailed-exit-codes`.
fn whole_option(argument: OsString) -> Result<OsString, UsageError> {
    let Some(given) =
        argument.to_str().and_then(|text| text.strip_prefix("--")).filter(|text| !text.is_empty())
    else {
        return Ok(argument);
    };
    let (name, value) = match given.split_once('=') {
        Some((name, value)) => (name, format!("={value}")),
        None => (given, String::new()),
    };
    if LONG.contains(&name) {
        return Ok(argument);
    }
    let meant: Vec<&str> = LONG.into_iter().filter(|long| long.starts_with(name)).collect();
    match meant.as_slice() {
        [one] => Ok(format!("--{one}{value}").into()),
        [] => Ok(argument),
        several => Err(UsageError::Wrong(format!("--{name} could be any of --{}", several.join(", --")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Options, String> {
        match parse(words.split_whitespace().map(OsString::from)) {
            Ok(Invocation::Run(options)) => Ok(*options),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_as_os_net_config_has_them() {
        let default = Options::default;
        let file = |file: &str| Options { config_file: file.into(), ..default() };
        let rows: &[(&str, Options)] = &[
            ("", default()),
            ("-c a.json", file("a.json")),
            ("--config-file=a.json", file("a.json")),
            ("--config a.json", file("a.json")),
            ("-m map.yaml", Options { mapping_file: "map.yaml".into(), ..default() }),
            ("-i", Options { interfaces: Some(vec![]), ..default() }),
            (
                "-i nic1 nic2 -v",
                Options { interfaces: Some(vec!["nic1".into(), "nic2".into()]), verbose: true, ..default() },
            ),
            ("--interfaces -c x", Options { interfaces: Some(vec![]), ..file("x") }),
            ("-p ifcfg", Options { provider: Some("ifcfg".into()), ..default() }),
            ("--purge-provider eni", Options { purge_provider: Some("eni".into()), ..default() }),
            ("-r /mnt", Options { root_dir: "/mnt".into(), ..default() }),
            ("--noop", Options { noop: true, ..default() }),
            ("-d", Options { verbose: true, ..default() }),
            ("-vc x", Options { verbose: true, ..file("x") }),
            ("--cleanup", Options { cleanup: true, ..default() }),
            ("--remove-config", Options { remove_config: true, ..default() }),
            ("--minimum-config", Options { minimum_config: true, ..default() }),
            ("--no-network-config", Options { no_network_config: true, ..default() }),
            ("--no-fallback-config", Options { no_fallback_config: true, ..default() }),
            ("--no-activate", Options { no_activate: true, ..default() }),
            ("--persist-mapping", Options { persist_mapping: true, ..default() }),
            ("--detailed-exit-codes", Options { detailed_exit_codes: true, ..default() }),
            ("--detailed", Options { detailed_exit_codes: true, ..default() }),
            ("--exit-on-validation-errors", Options { exit_on_validation_errors: true, ..default() }),
            (
                "--confirm gateway --confirm-timeout 7",
                Options {
                    confirm: Some(Confirm {
                        target: Target::Gateway,
                        within: std::time::Duration::from_secs(7),
                    }),
                    confirm_timeout: Some(7),
                    ..default()
                },
            ),
        ];
        for (words, want) in rows {
            assert_eq!(asked(words).as_ref(), Ok(want), "{words}");
        }
    }

    #[test]
    fn wrong_usage_is_named() {
        for (words, says) in [
            ("-c", "missing"),
            ("--provider networkd", "want one of ifcfg, eni, nmstate, iproute"),
            ("--no", "could be any of --noop, --no-activate"),
            ("--confirm-timeout 0", "1 to 3600"),
            ("--frobnicate", "--frobnicate"),
            ("config.yaml", "config.yaml"),
            ("--help", "Help"),
            ("--version", "Version"),
        ] {
            let error = asked(words).unwrap_err();
            assert!(error.contains(says), "{words}: {error}");
        }
    }
}
