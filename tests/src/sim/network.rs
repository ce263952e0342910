//! The network of a run: bridges of some servers, cables between them, and intents over them; or none at all.
//!
//! ```text
//!   cables, bridges, agents ─▶ what is heard at each port ─▶ agents ─▶ topology ─▶ intents ─▶ flow tables ─▶ switches
//!        └─────────────────────────── a packet walks over what is really there ──────────────────────────────┘
//! ```
//!
//! **Invariants.** No packet ever goes round; what is INSTALLED delivers, where its cables are whole and its rules lie as
//! its table says; a rule has an intent that is known; nobody gets more of a link than there is. Afterwards each intent
//! that can be is INSTALLED.
//!
//! Absent: frames of LLDP. Who hears a port follows from the cables, and rules that would pass such frames on have none.

mod act;
mod cable;
mod check;
mod equal;
mod fabric;
mod model;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use muster_shared::model::flow::DeviceName;
use muster_shared::model::topology::DevicePorts;

use super::dice::Dice;
use cable::{Cable, Receiver, Side};
pub use fabric::{CAPACITY, Fabric, PRIORITY};
pub use model::{Wishes, counted, state_is_right};
use walk::Rules;

/// Cables, what is heard over them, and what agents told of that.
pub struct Network {
    /// The cables as they are wanted.
    pub fabric: Rc<Fabric>,
    /// The states of the cables, in the order of the fabric's.
    cables: Vec<Cable>,
    /// Ports for hosts that are down, each with the turn in which it went.
    down: BTreeMap<(usize, &'static str), u64>,
    receivers: BTreeMap<Side, Receiver>,
    /// The ports that each bridge's agent told last.
    told: BTreeMap<usize, DevicePorts>,
    /// Agents that know their bridges: which start of which server.
    seen: BTreeSet<(usize, u64)>,
    /// Whether something happened that may change what is heard.
    pub dirty: bool,
    /// Counts faults, so that only the last of a cable is mended.
    turn: u64,
    /// The rules of intents on each bridge.
    rules: Vec<Rules>,
    /// The digest of what was looked at last.
    print: u64,
    /// The version of intents whose reservations were added up last.
    added_up: u64,
    /// The dice for the faults of cables.
    chaos: Dice,
    /// The time until something is heard.
    air: Dice,
    /// The wishes of operators.
    wishes: Dice,
}

impl Network {
    /// The network of a run with so many servers.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let fabric = Fabric::new(&mut Dice::new(seed, "fabric"), nodes);
        let cables = fabric.cables.iter().map(|_| Cable::default()).collect();
        let rules = fabric.devices.iter().map(|_| Rules::default()).collect();
        Self {
            fabric: Rc::new(fabric),
            cables,
            down: BTreeMap::new(),
            receivers: BTreeMap::new(),
            told: BTreeMap::new(),
            seen: BTreeSet::new(),
            dirty: false,
            turn: 0,
            rules,
            print: 0,
            added_up: 0,
            chaos: Dice::new(seed, "cables"),
            air: Dice::new(seed, "beacons"),
            wishes: Dice::new(seed, "intents"),
        }
    }

    /// Returns whether the site has no bridges.
    pub fn is_empty(&self) -> bool {
        self.fabric.devices.is_empty()
    }

    /// A bridge's number.
    fn number(&self, device: &DeviceName) -> Option<usize> {
        self.fabric.devices.iter().position(|it| it == device)
    }
}
