//! Selector and treatment of an intent, in the notation of a rule. They do not contain the ports where
//! packets enter and leave.

use serde_json::Value;

use super::{BadEntry, prerequisite, selector, treatment};
use crate::model::flow::{Action, Criterion, Instruction, Rule};

/// A selector as in a rule, without a port.
///
/// # Errors
/// [`BadEntry`], with the path below it.
pub fn traffic_selector(value: &Value) -> Result<Vec<Criterion>, BadEntry> {
    let criteria = selector(value)?;
    if criteria.iter().any(|criterion| matches!(criterion, Criterion::InPort(_))) {
        return Err(BadEntry::new("packets come in at the port of 'from': leave it out").key("in_port"));
    }
    prerequisite::selector(criteria.clone())?;
    Ok(criteria)
}

/// Parses a treatment as in a rule, of actions alone, none of which sends packets anywhere. Does not check
/// prerequisites: see [`check_traffic`].
///
/// # Errors
/// [`BadEntry`], with the path below the treatment.
pub fn traffic_treatment(value: &Value) -> Result<Vec<Action>, BadEntry> {
    if !value.is_array() {
        return Err(super::unwanted("a list, such as [{set_eth_dst: 52:54:00:12:34:56}]", value));
    }
    let actions = treatment::actions(value)?;
    for (n, action) in actions.iter().enumerate() {
        let word = match action {
            Action::Output(_) => "output",
            Action::Group(_) => "group",
            Action::Resubmit(_) => "resubmit",
            Action::Ct(ct) if ct.table.is_some() => "ct",
            Action::Ct(_)
            | Action::SetQueue(_)
            | Action::Set { .. }
            | Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::DecTtl
            | Action::DecMplsTtl => continue,
        };
        let why = "where packets go is what 'to' says: an intent's treatment only changes them";
        return Err(BadEntry::new(why).key(word).item(n));
    }
    Ok(actions)
}

/// Checks that packets of this selector have the fields that these actions change.
///
/// # Errors
/// [`BadEntry`], with a path that begins with `selector` or `treatment`.
pub fn check_traffic(selector: &[Criterion], treatment: &[Action]) -> Result<(), BadEntry> {
    prerequisite::check(&Rule {
        table: 0,
        priority: 0,
        selector: selector.to_vec(),
        treatment: treatment.iter().cloned().map(Instruction::Do).collect(),
        idle_timeout: 0,
        hard_timeout: 0,
    })
}
