//! This program called as `os-apply-config`: answers `--key` from the documents of deployments of
//! group `apply-config`.
//!
//! The documents are `<state-dir>/apply-config/<resource>.json`, merged in the order of their names;
//! `--metadata` and `$OS_CONFIG_FILES` name other files. Types and errors are those of os-apply-config's
//! `value_types.py`. Absent: its templates, which `Muster::File` replaces.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use lexopt::prelude::*;
use serde_json::{Map, Value as Json};

use crate::cli::UsageError;
use crate::settings::Settings;

/// The name that this program must be called by.
pub const NAME: &str = "os-apply-config";
/// The directory's name in the state directory.
const DIRECTORY: &str = "apply-config";
/// The most bytes of all files together: a deployment's configuration fits a message of 256 KiB, and a node
/// has tens.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The exit status of Python's argparse.
const WRONG_USAGE: u8 = 2;

const HELP: &str = "\
Prints a value of what the deployments of group apply-config delivered to this server.

Usage: os-apply-config --key KEY [OPTIONS]

Options:
      --key KEY             a path such as database.host
      --key-default VALUE   print this where there is no such key (otherwise an error)
      --type TYPE           int, default, netaddress, netdevice, dsn, swiftdevices, username or raw (default: default,
                            letters, digits and _); the value must match it
  -m, --metadata FILE...    these files instead; $OS_CONFIG_FILES names them as well, with colons
      --fallback-metadata FILE...   these where none of the others has anything
  -s, --subhash KEY         look below this key
      --print-templates     print where templates would be
      --version             print the version
  -h, --help                print this

Templates (-t, -o, -v, --os-config-files) are accepted with --key and have no effect.

Example:
  os-apply-config --key ctlplane.metadata_ip --type netaddress --key-default ''
";

/// The options of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    key: Option<String>,
    key_default: Option<String>,
    kind: Option<String>,
    metadata: Vec<PathBuf>,
    fallback: Vec<PathBuf>,
    subhash: Option<String>,
    templates: Option<String>,
    prints: Option<Prints>,
}

#[derive(Debug, PartialEq, Eq)]
enum Prints {
    Help,
    Version,
    Templates,
}

pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{NAME}: error: {error}; see --help");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match &options.prints {
        Some(Prints::Help) => print!("{HELP}"),
        Some(Prints::Version) => println!("{}", env!("CARGO_PKG_VERSION")),
        Some(Prints::Templates) => {
            println!("{}", options.templates.as_deref().unwrap_or("/opt/stack/os-apply-config/templates"));
        }
        None => match answer(&options) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        },
    }
    ExitCode::SUCCESS
}

fn parse(arguments: Vec<OsString>) -> Result<Options, UsageError> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("key") => options.key = Some(parser.value()?.string()?),
            Long("key-default") => options.key_default = Some(parser.value()?.string()?),
            Long("type") => options.kind = Some(parser.value()?.string()?),
            Short('m') | Long("metadata") => options.metadata.extend(files(&mut parser)),
            Long("fallback-metadata") => options.fallback.extend(files(&mut parser)),
            Short('s') | Long("subhash") => options.subhash = Some(parser.value()?.string()?),
            Short('t') | Long("templates") => options.templates = Some(parser.value()?.string()?),
            Short('o') | Long("output" | "os-config-files") => drop(parser.value()?),
            Short('v') | Long("validate") => {}
            Long("print-templates") => options.prints = Some(Prints::Templates),
            Long("version") => options.prints = Some(Prints::Version),
            Short('h') | Long("help") => options.prints = Some(Prints::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    Ok(options)
}

/// The following values, possibly none.
fn files(parser: &mut lexopt::Parser) -> Vec<PathBuf> {
    parser.values().map(|values| values.map(PathBuf::from).collect()).unwrap_or_default()
}

fn answer(options: &Options) -> anyhow::Result<String> {
    let Some(key) = &options.key else {
        bail!("there are no templates here: deliver files with Muster::File, or ask for a --key");
    };
    let files = named(options)?;
    let mut config = merged(&files)?;
    if config.is_empty() {
        config = merged(&options.fallback)?;
    }
    let config = below(&config, options.subhash.as_deref())?;
    let Some(found) = find(config, key) else {
        return match &options.key_default {
            Some(default) => Ok(default.clone()),
            None => bail!("key {key} does not exist in {}", shown(&files)),
        };
    };
    let (text, kind) = (text(found), options.kind.as_deref().unwrap_or("default"));
    if !fits(&text, kind)? {
        bail!("cannot interpret value '{text}' as type {kind}");
    }
    Ok(text)
}

fn shown(files: &[PathBuf]) -> String {
    match files {
        [] => "what was delivered to this server: nothing".into(),
        files => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

/// The files to read.
fn named(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    if !options.metadata.is_empty() {
        return Ok(options.metadata.clone());
    }
    if let Ok(files) = std::env::var("OS_CONFIG_FILES") {
        return Ok(files.split(':').filter(|file| !file.is_empty()).map(PathBuf::from).collect());
    }
    delivered(&Settings::read(None, crate::environment())?.agent.state_dir)
}

fn delivered(state_dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let directory = state_dir.join(DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| directory.display().to_string()),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let is_whole = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_whole).collect();
    paths.sort();
    Ok(paths)
}

/// A file that is not there has nothing.
fn merged(files: &[PathBuf]) -> anyhow::Result<Map<String, Json>> {
    let (mut all, mut left) = (Map::new(), BYTES_MAX);
    for file in files {
        let context = || file.display().to_string();
        let size = match fs::metadata(file) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(context),
        };
        left = left.checked_sub(size).with_context(|| format!("{}: too large", context()))?;
        let text = fs::read_to_string(file).with_context(context)?;
        match serde_json::from_str(&text).with_context(context)? {
            Json::Object(map) => merge(&mut all, map),
            _ => bail!("{}: not a JSON object", context()),
        }
    }
    Ok(all)
}

/// Merges maps recursively; any other later value replaces the earlier one.
fn merge(all: &mut Map<String, Json>, more: Map<String, Json>) {
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(Json::Object(old)), Json::Object(new)) => merge(old, new),
            (_, value) => drop(all.insert(key, value)),
        }
    }
}

fn below<'a>(config: &'a Map<String, Json>, key: Option<&str>) -> anyhow::Result<&'a Map<String, Json>> {
    let Some(key) = key else { return Ok(config) };
    let found = find(config, key).and_then(Json::as_object);
    found.with_context(|| format!("key '{key}' does not correspond to a hash in the metadata file"))
}

fn find<'a>(config: &'a Map<String, Json>, key: &str) -> Option<&'a Json> {
    let mut parts = key.split('.');
    let first = config.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// A value as Python prints it; but maps and lists are JSON, which YAML readers accept like
/// Python's notation.
fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Bool(true) => "True".into(),
        Json::Bool(false) => "False".into(),
        Json::Null => "None".into(),
        Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

fn fits(text: &str, kind: &str) -> anyhow::Result<bool> {
    let all = |fits: fn(u8) -> bool| text.bytes().all(fits);
    let is_address = |b: u8| b.is_ascii_alphanumeric() || b"/.:-".contains(&b);
    Ok(match kind {
        "raw" => true,
        "int" => !text.is_empty() && all(|b| b.is_ascii_digit()),
        "default" => all(|b| b.is_ascii_alphanumeric() || b == b'_'),
        "netaddress" | "netdevice" => text.bytes().all(is_address),
        "username" => !text.is_empty() && all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
        "dsn" => is_dsn(text),
        "swiftdevices" => {
            !text.is_empty() && text.strip_suffix(',').unwrap_or(text).split(',').all(is_swift_device)
        }
        other => bail!("requested validation of unknown type: {}", other.escape_default()),
    })
}

/// `driver://user:password@host/name?variable=value`
fn is_dsn(text: &str) -> bool {
    let word = |text: &str, more: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b));
    let Some((driver, rest)) = text.split_once("://") else { return false };
    let (rest, variable) =
        rest.split_once('?').map_or((rest, None), |(rest, variable)| (rest, Some(variable)));
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (user, place),
        None => ("", rest),
    };
    let (name, password) =
        user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let names_user =
        word(name, b"+_-") && password.is_none_or(|password| !password.is_empty() && !name.is_empty());
    !driver.is_empty()
        && word(driver, b"")
        && names_user
        && word(place, b"/_.-:")
        && variable.is_none_or(|variable| !variable.is_empty() && word(variable, b"=_-"))
}

/// `r1z1-192.0.2.1:%PORT%/d1`
fn is_swift_device(device: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = device.strip_prefix('r').and_then(|rest| rest.split_once('z'));
    let Some((region, (zone, rest))) = parts.and_then(|(region, rest)| Some((region, rest.split_once('-')?)))
    else {
        return false;
    };
    // The range from '.' to '_', as in os-apply-config.
    let is_host = |b: u8| b.is_ascii_alphanumeric() || (b'.'..=b'_').contains(&b) || b == b'-';
    let Some((host, disk)) = rest.split_once(":%PORT%/") else { return false };
    number(region) && number(zone) && !host.is_empty() && host.bytes().all(is_host) && !disk.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(state: &Path, words: &[&str]) -> Result<String, String> {
        let mut options =
            parse(words.iter().map(OsString::from).collect()).map_err(|error| error.to_string())?;
        if options.metadata.is_empty() {
            options.metadata = delivered(state).unwrap();
            // Nothing at all is asked of the settings otherwise.
            options.metadata.push("/nonexistent".into());
        }
        answer(&options).map_err(|error| format!("{error:#}"))
    }

    fn state() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(DIRECTORY)).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(DIRECTORY).join(name), text).unwrap();
        write(
            "a.json",
            r#"{"db": {"host": "old", "port": 5432}, "up": true, "no": null, "ip": "2001:db8::1/64"}"#,
        );
        write("b.json", r#"{"db": {"host": "db1"}, "list": [1, "a"], "empty": ""}"#);
        write("c.json.new", "half of i");
        dir
    }

    #[test]
    fn a_key_is_answered_from_all_that_was_delivered() {
        let state = state();
        for (words, want) in [
            (&["--key", "db.host"][..], "db1"),
            (&["--key", "db.port", "--type", "int"], "5432"),
            (&["--key", "up"], "True"),
            (&["--key", "no"], "None"),
            (&["--key", "empty"], ""),
            (&["--key", "ip", "--type", "netaddress"], "2001:db8::1/64"),
            (&["--key", "list", "--type", "raw"], r#"[1,"a"]"#),
            (&["--key", "db", "--type", "raw"], r#"{"host":"db1","port":5432}"#),
            (&["--key", "host", "--subhash", "db"], "db1"),
            (&["--key", "db.name", "--key-default", "my name"], "my name"),
            (&["--key", "db.name", "--key-default", ""], ""),
            (&["--key", "db.host.deeper", "--key-default", "x"], "x"),
        ] {
            assert_eq!(ask(state.path(), words).as_deref(), Ok(want), "{words:?}");
        }
    }

    #[test]
    fn what_is_not_there_or_of_another_type_is_an_error() {
        let state = state();
        for (words, says) in [
            (&["--key", "db.name"][..], "key db.name does not exist in"),
            (&["--key", "ip"], "cannot interpret value '2001:db8::1/64' as type default"),
            (&["--key", "db.host", "--type", "int"], "cannot interpret value 'db1' as type int"),
            (&["--key", "db.host", "--type", "wrong"], "unknown type: wrong"),
            (&["--key", "host", "--subhash", "ip"], "does not correspond to a hash"),
            (&[], "Muster::File"),
            (&["--frob"], "--frob"),
        ] {
            let error = ask(state.path(), words).unwrap_err();
            assert!(error.contains(says), "{words:?}: {error}");
        }
        let bad = state.path().join("bad.json");
        for text in ["[1]", "{"] {
            fs::write(&bad, text).unwrap();
            let error = ask(state.path(), &["--key", "a", "-m", bad.to_str().unwrap()]).unwrap_err();
            assert!(error.contains("bad.json"), "{error}");
        }
    }

    #[test]
    fn types_are_those_of_value_types() {
        for (kind, good, bad) in [
            ("int", &["0", "12"][..], &["", "-1", "1.5"][..]),
            ("default", &["", "a_B9"], &["a b", "a.b", "a-b"]),
            ("netaddress", &["", "192.0.2.1/24", "::1", "host-1.example.org"], &["a b", "a_b"]),
            ("netdevice", &["eth0", "eth0.10", "eth0:1"], &["eth 0"]),
            ("username", &["web-1_x"], &["", "a.b"]),
            ("raw", &["", "any thing"], &[]),
            (
                "dsn",
                &["mysql://u:p@h/d", "sqlite:///var/x.db", "mysql://host/db?charset=utf8"],
                &["mysql", "://u@h", "mysql://u:p@h/d?x y", "my sql://h"],
            ),
            (
                "swiftdevices",
                &["r1z1-192.0.2.1:%PORT%/d1", "r1z1-192.0.2.1:%PORT%/d1,r1z2-192.0.2.2:%PORT%/d2"],
                &["", "z1-192.0.2.1:%PORT%/d1", "r1z1-192.0.2.1:6000/d1"],
            ),
        ] {
            for text in good {
                assert!(fits(text, kind).unwrap(), "{kind} takes '{text}'");
            }
            for text in bad {
                assert!(!fits(text, kind).unwrap(), "{kind} does not take '{text}'");
            }
        }
    }
}
