//! Settings in Open vSwitch's database, as a document's `ovs_extra` writes them.

use crate::Malformed;
use crate::assemble::Link;
use crate::part::{Part, text};

/// A document takes values of at most 1,024 bytes.
const VALUE_MAX: usize = 1_024;
/// So many VLANs, of at most four digits each with a comma, are below [`VALUE_MAX`].
const TRUNKS_AT_ONCE: usize = 200;

/// A setting of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The setting's place in the file.
    pub path: String,
    /// `bridge`, `port` or `interface`: the link's row there.
    pub table: &'static str,
    /// A column, or `column:key`.
    pub column: String,
    pub value: String,
}

impl Setting {
    pub fn new(
        path: impl Into<String>,
        table: &'static str,
        column: impl Into<String>,
        value: impl ToString,
    ) -> Self {
        Self { path: path.into(), table, column: column.into(), value: value.to_string() }
    }

    /// The VLANs of a trunk.
    pub fn trunks(path: &str, vlans: &[u32]) -> Vec<Self> {
        let joined = |vlans: &[u32]| vlans.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        vlans.chunks(TRUNKS_AT_ONCE).map(|vlans| Self::new(path, "port", "trunks", joined(vlans))).collect()
    }
}

/// The commands that make these settings of the link with that name. A column that comes again is added to.
pub(crate) fn commands(name: &str, settings: &[Setting]) -> Vec<String> {
    let mut commands = Vec::new();
    for table in ["bridge", "port", "interface"] {
        let (mut words, mut more, mut columns) = (String::new(), Vec::new(), Vec::new());
        for setting in settings.iter().filter(|setting| setting.table == table) {
            let (column, value) = (&setting.column, &setting.value);
            if column == "trunks" && columns.contains(&column) {
                more.push(format!("add {table} {name} {column} {value}"));
            } else {
                words.push_str(&format!(" {column}={value}"));
                columns.push(column);
            }
        }
        if !words.is_empty() {
            commands.push(format!("set {table} {name}{words}"));
        }
        commands.append(&mut more);
    }
    commands
}

/// Takes a map of keys with values, such as `external-ids`, for a column of the link's row.
pub(crate) fn map(
    link: &mut Link,
    part: &mut Part<'_>,
    key: &str,
    (table, column): (&'static str, &str),
    left_out: &mut Vec<String>,
) -> Result<(), Malformed> {
    let place = part.at(key);
    for (name, value) in part.named_values(key)? {
        let path = format!("{place}.{name}");
        let value = match value.as_bool() {
            Some(truth) => truth.to_string(),
            None if value.is_null() => {
                left_out.push(format!("{path}: a network document takes no key away"));
                continue;
            }
            None => text(&path, value)?,
        };
        if is_word(name) && !name.contains('=') && !name.starts_with("muster-") && is_word(&value) {
            link.settings.push(Setting::new(path, table, format!("{column}:{name}"), value));
        } else {
            left_out.push(format!("{path}: a network document cannot write this key with its value"));
        }
    }
    Ok(())
}

/// Takes the protocols of a bridge.
pub(crate) fn protocols(link: &mut Link, path: &str, names: &[String], left_out: &mut Vec<String>) {
    if !names.iter().all(|name| is_word(name) && !name.contains([',', '[', ']'])) {
        left_out.push(format!("{path}: a network document cannot write this list"));
    } else if !names.is_empty() {
        link.settings.push(Setting::new(path, "bridge", "protocols", names.join(",")));
    }
}

/// Whether a command can have the text as it is: commands have no quoting.
fn is_word(text: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"';
    !text.is_empty() && text.len() <= VALUE_MAX && text.chars().all(is_plain) && !text.contains("{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_commands_of_their_tables() {
        let mut settings = vec![
            Setting::new("a", "port", "vlan_mode", "trunk"),
            Setting::new("a", "bridge", "stp_enable", true),
            Setting::new("a", "bridge", "external_ids:k", "v"),
        ];
        settings.extend(Setting::trunks("a", &(1..=401).collect::<Vec<u32>>()));
        let commands = commands("br0", &settings);
        assert_eq!(commands[0], "set bridge br0 stp_enable=true external_ids:k=v");
        assert!(commands[1].starts_with("set port br0 vlan_mode=trunk trunks=1,2,3,"), "{commands:?}");
        assert!(commands[2].starts_with("add port br0 trunks 201,202,"), "{commands:?}");
        assert_eq!(commands[3..], ["add port br0 trunks 401"]);
        assert!(commands.iter().all(|command| command.len() < VALUE_MAX));
    }

    #[test]
    fn keys_that_no_command_can_write_are_named() {
        let value = json!({"ids": {"a": "x y", "b=c": 1, "muster-x": 2, "d": null, "e": true, "f": "{name}", "g": 7}});
        let (mut link, mut left_out) = (Link::new("l", "ovs_bridge", "br0"), Vec::new());
        let mut part = Part::of("l", &value).unwrap();
        map(&mut link, &mut part, "ids", ("bridge", "external_ids"), &mut left_out).unwrap();
        assert_eq!(commands("br0", &link.settings), ["set bridge br0 external_ids:e=true external_ids:g=7"]);
        assert_eq!(
            left_out,
            [
                "l.ids.a: a network document cannot write this key with its value",
                "l.ids.b=c: a network document cannot write this key with its value",
                "l.ids.d: a network document takes no key away",
                "l.ids.f: a network document cannot write this key with its value",
                "l.ids.muster-x: a network document cannot write this key with its value",
            ]
        );
        protocols(&mut link, "l.protocols", &["a,b".to_owned()], &mut left_out);
        assert_eq!(left_out[5], "l.protocols: a network document cannot write this list");
    }
}
