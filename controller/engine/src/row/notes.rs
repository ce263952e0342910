//! Notes: what a row remembers for the engine only. They are neither desired state nor attributes,
//! so `get_attr` does not show them.

use std::collections::BTreeMap;

use muster_shared::Generation;
use muster_template::Removed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::traversal::signal::StoredSignal;

/// Notes of one row. Few rows have any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    /// The selector of a set.
    Selector(String),
    /// Names that a group has removed, each with the reference that removed it, if there was one.
    Removed(Removed),
    /// Resources that a systemd unit restarts and reloads for. Boxed: it is three times as large as the others,
    /// and every record of a row has a place for notes.
    Unit(Box<UnitNotes>),
    /// Texts to mask in the attributes of a network, a subnet or a port.
    Hides(Vec<Value>),
    /// Hidden values went into the flow rules of the row.
    HidesFlows,
    /// Signals to a wait condition handle, by their ids.
    Signals(BTreeMap<String, StoredSignal>),
}

/// The resources that a unit names in `restart_on` and in `reload_on`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitNotes {
    /// The resources in `restart_on`.
    pub restart: Trigger,
    /// The resources in `reload_on`.
    pub reload: Trigger,
}

/// The resources that one of these properties names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Paths of the resources. A COMPLETE stack has no tree to find them in.
    pub names: Vec<String>,
    /// The newest correction of one of them that the unit follows.
    pub mark: Option<Generation>,
}

impl Notes {
    /// Whether the notes may hold secrets, so that the store seals them.
    pub fn is_secret(&self) -> bool {
        match self {
            Notes::Hides(_) | Notes::Signals(_) => true,
            Notes::Selector(_) | Notes::Removed(_) | Notes::Unit(_) | Notes::HidesFlows => false,
        }
    }
}
