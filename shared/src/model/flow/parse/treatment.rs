//! Treatments: one-key maps, such as `{output: eth1}`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::near::cut;
use super::object::{Object, flag, list, unwanted};
use super::value::{masked_number, number, of_field, output};
use super::{BadEntry, GROUP_MAX, METER_MAX, Read, TABLE_MAX};
use crate::model::flow::{Action, Ct, Field, INSTRUCTIONS_MAX, Instruction};
use crate::near::suggestion;

/// The action names except `set_FIELD`.
const WORDS: [&str; 17] = [
    "output",
    "group",
    "set_queue",
    "resubmit",
    "push_vlan",
    "pop_vlan",
    "push_mpls",
    "pop_mpls",
    "dec_ttl",
    "dec_mpls_ttl",
    "ct",
    "meter",
    "goto_table",
    "write_metadata",
    "write_actions",
    "clear_actions",
    "set_FIELD",
];
const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
const MPLS_TYPES: [u16; 2] = [0x8847, 0x8848];
/// Fields that a switch changes only by other means, or never.
const NOT_SET: [Field; 7] = [
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::EthType,
    Field::MplsBos,
    Field::IpProto,
    Field::TcpFlags,
];

pub(super) fn instructions(value: &Value) -> Read<Vec<Instruction>> {
    if !value.is_array() {
        return Err(unwanted("a list, such as [{output: eth1}]; [] drops", value));
    }
    list(value, INSTRUCTIONS_MAX, instruction)
}

pub(super) fn actions(value: &Value) -> Read<Vec<Action>> {
    list(value, INSTRUCTIONS_MAX, action)
}

fn instruction(value: &Value) -> Read<Instruction> {
    let (word, given) = word_of(value)?;
    let read = match word {
        "meter" => number(given, 1..=METER_MAX).map(Instruction::Meter),
        "goto_table" => number(given, 1..=TABLE_MAX).map(Instruction::GotoTable),
        "write_metadata" => masked_number(64, given).and_then(|(value, mask)| {
            let narrow = |number: u128| u64::try_from(number).map_err(|_| unwanted("at most 64 bits", given));
            Ok(Instruction::WriteMetadata { value: narrow(value)?, mask: mask.map(narrow).transpose()? })
        }),
        "clear_actions" => switched_on(given, Instruction::ClearActions),
        "write_actions" => actions(given).map(Instruction::WriteActions),
        _ => return action(value).map(Instruction::Do),
    };
    read.map_err(|bad| bad.key(word))
}

fn action(value: &Value) -> Read<Action> {
    let (word, given) = word_of(value)?;
    read_action(word, given).map_err(|bad| bad.key(word))
}

fn read_action(word: &str, given: &Value) -> Read<Action> {
    match word {
        "output" => output(given).map(Action::Output),
        "group" => number(given, 0..=GROUP_MAX).map(Action::Group),
        "set_queue" => number(given, 0..=u64::from(u32::MAX)).map(Action::SetQueue),
        "resubmit" => number(given, 0..=TABLE_MAX).map(Action::Resubmit),
        "push_vlan" => ether_type(given, Some(VLAN_TYPES)).map(Action::PushVlan),
        "pop_vlan" => switched_on(given, Action::PopVlan),
        "push_mpls" => ether_type(given, Some(MPLS_TYPES)).map(Action::PushMpls),
        "pop_mpls" => ether_type(given, None).map(Action::PopMpls),
        "dec_ttl" => switched_on(given, Action::DecTtl),
        "dec_mpls_ttl" => switched_on(given, Action::DecMplsTtl),
        "ct" => ct(given).map(Action::Ct),
        "meter" | "goto_table" | "write_metadata" | "clear_actions" | "write_actions" => {
            Err(BadEntry::new("this is for a rule's own treatment; here stand actions only"))
        }
        _ => match word.strip_prefix("set_").and_then(Field::from_name) {
            Some(field) => set(field, given),
            None => Err(unknown(word)),
        },
    }
}

fn set(field: Field, given: &Value) -> Read<Action> {
    if NOT_SET.contains(&field) {
        let instead = if field == Field::CtMark {
            "; ct: {commit: true, mark: …} sets the connection's"
        } else if field == Field::EthType {
            "; push_vlan and push_mpls do"
        } else {
            ""
        };
        return Err(BadEntry::new(format!("nothing sets {}{instead}", field.name())));
    }
    let (value, mask) = of_field(field, given)?;
    match (field, mask) {
        (Field::VlanVid, mask) if mask.is_some() || value & 0x1000 == 0 => {
            Err(unwanted("a VLAN from 0 to 4095; pop_vlan takes the tag away", given))
        }
        (_, Some(_)) if !field.is_maskable() => {
            Err(BadEntry::new(format!("{} is set whole; it takes no mask", field.name())))
        }
        _ => Ok(Action::Set { field, value, mask }),
    }
}

fn ct(given: &Value) -> Read<Ct> {
    let Value::Object(map) = given else {
        return Err(unwanted("a map, such as {commit: true, zone: 1, table: 2}", given));
    };
    let given = Object::new("ct", map, &["commit", "force", "zone", "table", "mark"])?;
    let mark = given.read("mark", |value| {
        let (value, mask) = masked_number(32, value)?;
        let narrow = |number: u128| u32::try_from(number).map_err(|_| BadEntry::new("want at most 32 bits"));
        Ok((narrow(value)?, mask.map(narrow).transpose()?))
    })?;
    let ct = Ct {
        commit: given.flag("commit")?,
        force: given.flag("force")?,
        zone: given.number("zone", 0..=u64::from(u16::MAX))?.unwrap_or(0),
        table: given.number("table", 0..=TABLE_MAX)?,
        mark,
    };
    let needs_commit = [("mark", ct.mark.is_some()), ("force", ct.force)];
    match needs_commit.into_iter().find(|(_, is_given)| *is_given && !ct.commit) {
        Some((name, _)) => Err(BadEntry::new("this needs commit: true beside it").key(name)),
        None => Ok(ct),
    }
}

/// The single key of a step and its value; a word alone means `{word: true}`.
fn word_of(value: &Value) -> Read<(&str, &Value)> {
    const ONE: &str = "a map of one key, such as {output: eth1}";
    match value {
        Value::Object(map) => one_key(map).ok_or_else(|| match map.len() {
            0 => unwanted(ONE, value),
            count => {
                BadEntry::new(format!("{count} keys; each step is a map of one key: begin each with '- '"))
            }
        }),
        Value::String(word) if word == "drop" => {
            Err(BadEntry::new("to drop packets leave the treatment empty: treatment: []"))
        }
        Value::String(word) => Ok((word, &Value::Bool(true))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(unwanted(ONE, value)),
    }
}

fn one_key(map: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut entries = map.iter();
    match (entries.next(), entries.next()) {
        (Some((key, value)), None) => Some((key, value)),
        _ => None,
    }
}

fn switched_on<T>(given: &Value, then: T) -> Read<T> {
    match flag(given)? {
        true => Ok(then),
        false => Err(BadEntry::new("want true; to leave it out, leave it out")),
    }
}

fn ether_type(given: &Value, allowed: Option<[u16; 2]>) -> Read<u16> {
    let bounds: RangeInclusive<u64> = 0..=u64::from(u16::MAX);
    let number: u16 = match of_field(Field::EthType, given)? {
        (value, None) => u16::try_from(value).map_err(|_| unwanted("16 bits", given))?,
        (_, Some(_)) => number(given, bounds)?,
    };
    match allowed {
        Some(allowed) if !allowed.contains(&number) => {
            Err(unwanted(&format!("{:#06x} or {:#06x}", allowed[0], allowed[1]), given))
        }
        _ => Ok(number),
    }
}

fn unknown(word: &str) -> BadEntry {
    let near = match word {
        "drop" => "; an empty treatment drops: treatment: []".to_owned(),
        "normal" | "flood" | "all" => format!("; write output: {}", word.to_ascii_uppercase()),
        "mod_vlan_vid" => "; did you mean 'set_vlan_vid'?".to_owned(),
        "mod_dl_src" => "; did you mean 'set_eth_src'?".to_owned(),
        "mod_dl_dst" => "; did you mean 'set_eth_dst'?".to_owned(),
        "strip_vlan" => "; did you mean 'pop_vlan'?".to_owned(),
        _ => match word.strip_prefix("set_") {
            Some(field) => {
                let near = suggestion(field, Field::ALL.iter().map(|field| field.name()));
                near.replacen("mean '", "mean 'set_", 1)
            }
            None => suggestion(word, WORDS),
        },
    };
    let near = if near.is_empty() { format!("; known are {}", WORDS.join(", ")) } else { near };
    BadEntry::new(format!("there is no '{}' in a treatment{near}", cut(word)))
}
