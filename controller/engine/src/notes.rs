//! What a row remembers for the engine's own use, by what the row stands for. Notes are neither desired state nor
//! attributes: nobody reads them with `get_attr`.

use std::collections::BTreeMap;

use muster_shared::Generation;
use muster_template::Removed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::signal::StoredSignal;

/// Notes of one row. Few rows have any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    /// The selector of a set.
    Selector(String),
    /// Names that a group has given up, each with the reference by which the member was removed, if it was by one.
    Removed(Removed),
    /// What a systemd unit is restarted and reloaded for.
    Unit(UnitNotes),
    /// Texts that are not to be shown of a network, a subnet or a port.
    Hides(Vec<Value>),
    /// The flow rules of the row are made of something hidden.
    HidesFlows,
    /// Signals to a wait condition handle, by their ids.
    Signals(BTreeMap<String, StoredSignal>),
}

/// The resources that a unit names in `restart_on` and in `reload_on`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitNotes {
    /// Of `restart_on`.
    pub restart: Trigger,
    /// Of `reload_on`.
    pub reload: Trigger,
}

/// What one of these properties names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// Paths of the resources, which a COMPLETE stack has no tree to find in.
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
