//! `ethtool_opts`: the arguments of ethtool(8) for an interface, as settings by name. No command is run.
//!
//! Absent: the kernel's side (`agent/host/src/net/ethtool.rs`).

use serde_json::Value;

use super::parse::Parsed;
use super::value::{quoted, text};
use super::{LinkName, NetworkError};

/// The most words of one option: fewer are known.
const MAX_WORDS: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthtoolSetting {
    /// The setting as written, such as `-K tso`.
    pub written: String,
    /// The name, such as `rings/rx`, or several with a `*` in them: `features/tx-tcp*-segmentation`.
    pub name: String,
    /// A number; 1 and 0 for on and off, full and half.
    pub value: u32,
}

impl EthtoolSetting {
    /// Whether the setting covers this name.
    pub fn names(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            None => self.name == name,
            Some((first, last)) => name.strip_prefix(first).is_some_and(|rest| rest.ends_with(last)),
        }
    }
}

/// The kind of words for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    OnOff,
    Duplex,
}

use Kind::{Duplex, Number, OnOff};

/// A command of ethtool: its letter, its long names, our name for it, and its words.
type Command = (&'static str, &'static [&'static str], &'static str, &'static [(&'static str, Kind)]);

static COMMANDS: [Command; 5] = [
    ("-s", &["--change"], "link", &[("speed", Number), ("duplex", Duplex), ("autoneg", OnOff)]),
    ("-A", &["--pause"], "pause", &[("autoneg", OnOff), ("rx", OnOff), ("tx", OnOff)]),
    (
        "-G",
        &["--set-ring"],
        "rings",
        &[("rx", Number), ("rx-mini", Number), ("rx-jumbo", Number), ("tx", Number)],
    ),
    (
        "-L",
        &["--set-channels"],
        "channels",
        &[("rx", Number), ("tx", Number), ("other", Number), ("combined", Number)],
    ),
    (
        "-C",
        &["--coalesce"],
        "coalesce",
        &[
            ("adaptive-rx", OnOff),
            ("adaptive-tx", OnOff),
            ("rx-usecs", Number),
            ("rx-frames", Number),
            ("rx-usecs-irq", Number),
            ("rx-frames-irq", Number),
            ("tx-usecs", Number),
            ("tx-frames", Number),
            ("tx-usecs-irq", Number),
            ("tx-frames-irq", Number),
            ("stats-block-usecs", Number),
            ("pkt-rate-low", Number),
            ("rx-usecs-low", Number),
            ("rx-frames-low", Number),
            ("tx-usecs-low", Number),
            ("tx-frames-low", Number),
            ("pkt-rate-high", Number),
            ("rx-usecs-high", Number),
            ("rx-frames-high", Number),
            ("tx-usecs-high", Number),
            ("tx-frames-high", Number),
            ("sample-interval", Number),
        ],
    ),
];
const FEATURES: [&str; 4] = ["-K", "--features", "--offload", "features"];

/// ethtool's own names for groups of kernel features, where `*` matches anything. Any other word is a
/// feature's name.
static ALIASES: [([&str; 2], &str); 11] = [
    (["rx", "rx-checksumming"], "rx-checksum"),
    (["tx", "tx-checksumming"], "tx-checksum-*"),
    (["sg", "scatter-gather"], "tx-scatter-gather*"),
    (["tso", "tcp-segmentation-offload"], "tx-tcp*-segmentation"),
    (["gso", "generic-segmentation-offload"], "tx-generic-segmentation"),
    (["gro", "generic-receive-offload"], "rx-gro"),
    (["lro", "large-receive-offload"], "rx-lro"),
    (["rxvlan", "rx-vlan-offload"], "rx-vlan-hw-parse"),
    (["txvlan", "tx-vlan-offload"], "tx-vlan-hw-insert"),
    (["ntuple", "ntuple-filters"], "rx-ntuple-filter"),
    (["rxhash", "receive-hashing"], "rx-hashing"),
];

/// Parses `speed 1000 duplex full`, or `-K ${DEVICE} tso off; -G ${DEVICE} rx 1024`. The last value counts.
pub(super) fn settings(path: &str, value: &Value, link: &LinkName) -> Parsed<Vec<EthtoolSetting>> {
    let written = text(path, value)?;
    if written.split_ascii_whitespace().nth(MAX_WORDS).is_some() {
        return Err(NetworkError::invalid(path, format!("more than {MAX_WORDS} words")));
    }
    let mut settings: Vec<EthtoolSetting> = Vec::new();
    for command in written.split(';') {
        let words: Vec<&str> = command.split_ascii_whitespace().collect();
        let (command, words) = match words.as_slice() {
            [] => continue,
            [command, words @ ..] if command.starts_with('-') => {
                let names = ["${DEVICE}", "$DEVICE", link.as_str()];
                let device = words.split_first().filter(|(device, _)| names.contains(device));
                let missing = || {
                    let problem = format!("{} wants ${{DEVICE}} behind it", quoted(command));
                    NetworkError::invalid(path, problem)
                };
                (*command, device.ok_or_else(missing)?.1)
            }
            words => ("-s", words),
        };
        if words.is_empty() {
            return Err(NetworkError::invalid(path, format!("{} has nothing to set", quoted(command))));
        }
        for pair in words.chunks(2) {
            let [word, value] = pair else {
                return Err(NetworkError::invalid(path, format!("{} wants a value", quoted(pair[0]))));
            };
            let setting = setting(path, command, word, value)?;
            settings.retain(|other| other.name != setting.name);
            settings.push(setting);
        }
    }
    Ok(settings)
}

fn setting(path: &str, command: &str, word: &str, value: &str) -> Parsed<EthtoolSetting> {
    if FEATURES.contains(&command) {
        let alias = ALIASES.iter().find(|(words, _)| words.contains(&word));
        let name = alias.map_or(word, |(_, name)| name);
        if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(NetworkError::invalid(path, format!("{} is no feature", quoted(word))));
        }
        return Ok(EthtoolSetting {
            written: format!("-K {word}"),
            name: format!("features/{name}"),
            value: number(path, word, value, OnOff)?,
        });
    }
    let known = COMMANDS.iter().find(|(letter, long, ..)| *letter == command || long.contains(&command));
    let Some((letter, _, name, words)) = known else {
        let hint = "-s, -A, -C, -G, -K and -L are taken";
        return Err(NetworkError::unsupported(path, quoted(command), hint));
    };
    let Some((word, kind)) = words.iter().find(|(known, _)| *known == word) else {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        let hint = format!("with {letter} {} are taken", known.join(", "));
        return Err(NetworkError::unsupported(path, quoted(word), &hint));
    };
    Ok(EthtoolSetting {
        written: format!("{letter} {word}"),
        name: format!("{name}/{word}"),
        value: number(path, word, value, *kind)?,
    })
}

fn number(path: &str, word: &str, value: &str, kind: Kind) -> Parsed<u32> {
    let (found, wanted) = match kind {
        Number => (value.parse().ok(), "a number"),
        OnOff => (["off", "on"].iter().position(|known| *known == value), "on or off"),
        Duplex => (["half", "full"].iter().position(|known| *known == value), "half or full"),
    };
    let found = found.and_then(|number: usize| u32::try_from(number).ok());
    let wrong = || NetworkError::invalid(path, format!("{word}: {wanted} is wanted, not {}", quoted(value)));
    found.ok_or_else(wrong)
}
