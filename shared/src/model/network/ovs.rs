//! `ovs_options` and `ovs_extra`: single settings in Open vSwitch's database, in the notation of `ovs-vsctl`.
//!
//! The settings are parsed here and sent to the database; no shell and no `ovs-vsctl` ever sees them. The
//! supported commands are `set`, `add` and `br-set-external-id`, for bridges, ports and interfaces that the
//! document names.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::NetworkError;
use super::error::clip;
use super::value::{quoted, text};

/// The most settings of one object; more are a mistake.
const MAX_SETTINGS: usize = 256;
/// The most bytes of one setting's value.
const MAX_VALUE: usize = 1_024;

/// A table of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OvsTable {
    Bridge,
    Port,
    Interface,
}

/// The place of a setting: a column of a row, or one key of a column that is a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OvsPlace {
    pub table: OvsTable,
    pub record: String,
    pub column: String,
    /// The key, of a column that is a map.
    pub key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvsSetting {
    /// The place in the document.
    pub path: String,
    /// The place in the database.
    pub place: OvsPlace,
    pub value: OvsValue,
}

/// A value of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OvsValue {
    Text(String),
    Number(i64),
    Bool(bool),
    Texts(BTreeSet<String>),
    Numbers(BTreeSet<i64>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Map,
    Text,
    Number,
    Bool,
    Texts,
    Numbers,
}

const BRIDGE: [(&str, Column); 8] = [
    ("external_ids", Column::Map),
    ("other_config", Column::Map),
    ("fail_mode", Column::Text),
    ("protocols", Column::Texts),
    ("flood_vlans", Column::Numbers),
    ("stp_enable", Column::Bool),
    ("rstp_enable", Column::Bool),
    ("mcast_snooping_enable", Column::Bool),
];
const PORT: [(&str, Column); 11] = [
    ("external_ids", Column::Map),
    ("other_config", Column::Map),
    ("bond_mode", Column::Text),
    ("lacp", Column::Text),
    ("vlan_mode", Column::Text),
    ("mac", Column::Text),
    ("trunks", Column::Numbers),
    ("tag", Column::Number),
    ("bond_updelay", Column::Number),
    ("bond_downdelay", Column::Number),
    ("bond_fake_iface", Column::Bool),
];
const INTERFACE: [(&str, Column); 7] = [
    ("external_ids", Column::Map),
    ("other_config", Column::Map),
    ("options", Column::Map),
    ("mac", Column::Text),
    ("ofport_request", Column::Number),
    ("ingress_policing_rate", Column::Number),
    ("ingress_policing_burst", Column::Number),
];

type Parsed<T> = Result<T, NetworkError>;

impl OvsTable {
    fn columns(self) -> &'static [(&'static str, Column)] {
        match self {
            Self::Bridge => &BRIDGE,
            Self::Port => &PORT,
            Self::Interface => &INTERFACE,
        }
    }

    /// The name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bridge => "Bridge",
            Self::Port => "Port",
            Self::Interface => "Interface",
        }
    }

    fn parse(path: &str, word: &str) -> Parsed<Self> {
        match word.to_ascii_lowercase().as_str() {
            "bridge" | "br" => Ok(Self::Bridge),
            "port" => Ok(Self::Port),
            "interface" | "iface" => Ok(Self::Interface),
            other => Err(NetworkError::unsupported(
                path,
                format!("the table {}", quoted(other)),
                "bridge, port and interface are taken",
            )),
        }
    }
}

/// `ovs_options` as text: `column=value` or `column:key=value`, with blanks between.
pub(super) fn options(path: &str, table: OvsTable, record: &str, value: &Value) -> Parsed<Vec<OvsSetting>> {
    let words = text(path, value)?.split_ascii_whitespace();
    let mut settings = Vec::new();
    for word in words {
        assign(path, table, record, word, false, &mut settings)?;
    }
    Ok(settings)
}

/// `ovs_options` as a list: each a key of the interface's `options`.
pub(super) fn option_list(path: &str, record: &str, items: &[Value]) -> Parsed<Vec<OvsSetting>> {
    let mut settings = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let written = text(&path, item)?;
        // `ovs-vsctl` also accepts the value with its column.
        let word = written.strip_prefix("options:").unwrap_or(written);
        assign(&path, OvsTable::Interface, record, &format!("options:{word}"), false, &mut settings)?;
    }
    Ok(settings)
}

/// `ovs_extra`: a command or a list of commands; `{name}` means the object's own name.
pub(super) fn extra(path: &str, record: &str, value: &Value) -> Parsed<Vec<OvsSetting>> {
    let mut settings = Vec::new();
    if let Value::Array(items) = value {
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            commands(&path, &text(&path, item)?.replace("{name}", record), &mut settings)?;
        }
    } else {
        commands(path, &text(path, value)?.replace("{name}", record), &mut settings)?;
    }
    Ok(settings)
}

fn commands(path: &str, written: &str, settings: &mut Vec<OvsSetting>) -> Parsed<()> {
    let words: Vec<&str> = written.split_ascii_whitespace().collect();
    words
        .split(|word| *word == "--")
        .filter(|command| !command.is_empty())
        .try_for_each(|words| command(path, words, settings))
}

fn command(path: &str, words: &[&str], settings: &mut Vec<OvsSetting>) -> Parsed<()> {
    let wants = |what: &str| Err(NetworkError::invalid(path, format!("'{}' wants {what}", clip(words[0]))));
    match words {
        ["set", table, record, rest @ ..] => {
            if rest.is_empty() {
                return wants("column=value or column:key=value");
            }
            let table = OvsTable::parse(path, table)?;
            rest.iter().try_for_each(|word| assign(path, table, record, word, false, settings))
        }
        ["add", table, record, column, rest @ ..] => {
            if rest.is_empty() {
                return wants("a value, or key=value");
            }
            let table = OvsTable::parse(path, table)?;
            rest.iter().try_for_each(|word| {
                let (_, kind) = find(path, table, column)?;
                let separator = if kind == Column::Map { ':' } else { '=' };
                assign(path, table, record, &format!("{column}{separator}{word}"), true, settings)
            })
        }
        ["br-set-external-id", bridge, key, value] => {
            let word = format!("external_ids:{key}={value}");
            assign(path, OvsTable::Bridge, bridge, &word, false, settings)
        }
        ["set" | "add", ..] => wants("a table, a row and what to set there"),
        ["br-set-external-id", ..] => wants("a bridge, a key and a value"),
        [other, ..] => Err(NetworkError::unsupported(
            path,
            format!("the command {}", quoted(other)),
            "set, add and br-set-external-id are taken",
        )),
        [] => Ok(()),
    }
}

fn find(path: &str, table: OvsTable, column: &str) -> Parsed<(&'static str, Column)> {
    let name = column.to_ascii_lowercase().replace('-', "_");
    let columns = table.columns();
    columns.iter().copied().find(|(known, _)| *known == name).ok_or_else(|| {
        let known = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let what = format!("the column {} of {}", quoted(column), table.as_str());
        NetworkError::unsupported(path, what, &format!("these are taken: {known}"))
    })
}

fn assign(
    path: &str,
    table: OvsTable,
    record: &str,
    word: &str,
    add: bool,
    settings: &mut Vec<OvsSetting>,
) -> Parsed<()> {
    let Some((left, value)) = word.split_once('=') else {
        return Err(NetworkError::invalid(path, format!("{} has no '='", quoted(word))));
    };
    let (column, key) = left.split_once(':').map_or((left, None), |(column, key)| (column, Some(key)));
    let (column, kind) = find(path, table, column)?;
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let invalid = |problem: String| Err(NetworkError::invalid(path, problem));
    if value.len() > MAX_VALUE || settings.len() >= MAX_SETTINGS {
        return invalid(format!("more than {MAX_SETTINGS} settings, or one longer than {MAX_VALUE} bytes"));
    }
    let key = key.map(|key| key.trim_matches('"').to_owned());
    match (kind, &key) {
        (Column::Map, None) => {
            return invalid(format!("{column} is a map: {column}:key=value is wanted"));
        }
        (Column::Map, Some(key)) if key.starts_with("muster-") => {
            return invalid(format!("{} is Muster's own mark", quoted(key)));
        }
        (Column::Map, Some(key)) if key.is_empty() => return invalid("the key is empty".to_owned()),
        (Column::Map, Some(_)) | (_, None) => {}
        (_, Some(_)) => return invalid(format!("{column} is no map and has no keys")),
    }
    let place = OvsPlace { table, record: record.to_owned(), column: column.to_owned(), key };
    let value = of_kind(path, kind, value)?;
    match settings.iter_mut().find(|setting| setting.place == place) {
        Some(there) if add => there.value.extend(value),
        Some(there) => there.value = value,
        None => settings.push(OvsSetting { path: path.to_owned(), place, value }),
    }
    Ok(())
}

fn of_kind(path: &str, kind: Column, value: &str) -> Parsed<OvsValue> {
    let wanted = |what: &str| NetworkError::invalid(path, format!("{what} is wanted, not {}", quoted(value)));
    let items = || value.trim_matches(['[', ']']).split(',').filter(|item| !item.is_empty());
    let number = |text: &str| text.parse::<i64>().map_err(|_| wanted("a number"));
    Ok(match kind {
        Column::Map | Column::Text => OvsValue::Text(value.to_owned()),
        Column::Number => OvsValue::Number(number(value)?),
        Column::Bool => OvsValue::Bool(value.parse().map_err(|_| wanted("true or false"))?),
        Column::Texts => OvsValue::Texts(items().map(str::to_owned).collect()),
        Column::Numbers => OvsValue::Numbers(items().map(number).collect::<Parsed<_>>()?),
    })
}

impl OvsValue {
    fn extend(&mut self, more: Self) {
        match (self, more) {
            (Self::Texts(here), Self::Texts(more)) => here.extend(more),
            (Self::Numbers(here), Self::Numbers(more)) => here.extend(more),
            (here, more) => *here = more,
        }
    }
}

impl fmt::Display for OvsValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bool(on) => write!(f, "{on}"),
            Self::Texts(texts) => f.write_str(&texts.iter().cloned().collect::<Vec<_>>().join(",")),
            Self::Numbers(numbers) => {
                f.write_str(&numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// `Bridge br-ex external_ids:bridge-id`
impl fmt::Display for OvsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.table.as_str(), self.record, self.column)?;
        self.key.iter().try_for_each(|key| write!(f, ":{key}"))
    }
}

impl FromStr for OvsPlace {
    type Err = NetworkError;

    fn from_str(written: &str) -> Parsed<Self> {
        let path = "setting";
        let mut words = written.splitn(3, ' ');
        let (Some(table), Some(record), Some(left)) = (words.next(), words.next(), words.next()) else {
            return Err(NetworkError::invalid(path, "a table, a row and a column are wanted"));
        };
        let (column, key) = left.split_once(':').map_or((left, None), |(column, key)| (column, Some(key)));
        let table = OvsTable::parse(path, table)?;
        let (column, _) = find(path, table, column)?;
        Ok(Self { table, record: record.to_owned(), column: column.to_owned(), key: key.map(str::to_owned) })
    }
}

impl Serialize for OvsPlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OvsPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
