//! Networks by their shape.

use std::collections::BTreeMap;

use muster_shared::model::flow::DeviceName;
use serde::Serialize;

use crate::sim::Dice;

/// The shape of the network of bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Edge, aggregation and core, with as many paths up as down; what is over is more edge.
    FatTree,
    /// Each leaf is connected to all spines of its thousand; thousands over a second layer of spines.
    LeafSpine,
    /// Each bridge is connected to the next.
    Ring,
    /// A tree, and as many cables again, anywhere.
    Random,
}

/// Leaves of one layer of spines.
const LEAVES_MAX: usize = 1000;
/// Spines of a layer.
const SPINES: usize = 4;
/// In a ring the ends of an intent are no further apart than that, as long as no cable is cut.
const APART_MAX: usize = 20;

/// Bridges and cables.
pub struct Fabric {
    shape: Shape,
    /// The bridges.
    pub devices: Vec<DeviceName>,
    numbers: BTreeMap<DeviceName, usize>,
    /// The bridges at the ends of each cable. Its ports have its number.
    pub cables: Vec<[usize; 2]>,
    /// Cables of each bridge.
    pub cables_of: Vec<Vec<usize>>,
}

/// The port of a cable.
pub fn cable_port(cable: usize) -> String {
    format!("c{cable}")
}

/// The cable of a port.
pub fn cable_of(port: &str) -> Option<usize> {
    port.strip_prefix('c')?.parse().ok()
}

fn fat_tree(devices: usize) -> Vec<[usize; 2]> {
    // Ports of each switch: the most with which there are enough bridges, and no fewer than two.
    let half = (1..).take_while(|half| 5 * half * half <= devices).last().unwrap_or(1);
    let pods = 2 * half;
    let (core, aggregation) = (half * half, pods * half);
    let mut cables = Vec::new();
    for pod in 0..pods {
        for up in 0..half {
            let switch = core + pod * half + up;
            cables.extend((0..half).map(|at| [switch, up * half + at]));
        }
    }
    for edge in core + aggregation..devices {
        let pod = (edge - core - aggregation) % pods;
        cables.extend((0..half).map(|up| [edge, core + pod * half + up]));
    }
    cables
}

fn leaf_spine(devices: usize) -> Vec<[usize; 2]> {
    let groups = devices.div_ceil(LEAVES_MAX + SPINES);
    let above = if groups > 1 { SPINES } else { 0 };
    let spines = above + groups * SPINES;
    let mut cables = Vec::new();
    if above > 0 {
        for group in 0..groups {
            cables.extend((0..SPINES).map(|spine| [above + group * SPINES + spine, spine]));
        }
    }
    for leaf in spines..devices {
        let group = (leaf - spines) % groups;
        cables.extend((0..SPINES).map(|spine| [leaf, above + group * SPINES + spine]));
    }
    cables
}

impl Fabric {
    /// So many bridges.
    pub fn new(shape: Shape, devices: usize, dice: &mut Dice) -> Self {
        let cables = match shape {
            Shape::FatTree => fat_tree(devices),
            Shape::LeafSpine => leaf_spine(devices),
            Shape::Ring => (0..devices).map(|at| [at, (at + 1) % devices]).collect(),
            Shape::Random => {
                let mut cables: Vec<[usize; 2]> = (1..devices).map(|at| [at, dice.index(at)]).collect();
                let more = (0..devices).map(|_| [dice.index(devices), dice.index(devices)]);
                cables.extend(more.filter(|[one, other]| one != other).collect::<Vec<_>>());
                cables
            }
        };
        let mut cables_of = vec![Vec::new(); devices];
        for (cable, ends) in cables.iter().enumerate() {
            ends.iter().for_each(|device| cables_of[*device].push(cable));
        }
        let name = |number: usize| -> DeviceName {
            let node = format!("n{number}").parse().expect("a letter and a number");
            DeviceName { node, bridge: "br0".parse().expect("a short name") }
        };
        let devices: Vec<DeviceName> = (0..devices).map(name).collect();
        let numbers = devices.iter().cloned().enumerate().map(|(number, name)| (name, number)).collect();
        Self { shape, devices, numbers, cables, cables_of }
    }

    /// With no more than this it mostly hangs together.
    pub fn faults_at_once(&self) -> usize {
        match self.shape {
            Shape::Ring => 2,
            Shape::FatTree | Shape::LeafSpine | Shape::Random => 1 + self.cables.len() / 50,
        }
    }

    /// A bridge's number.
    pub fn number(&self, name: &DeviceName) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Two bridges to be connected.
    pub fn ends(&self, dice: &mut Dice) -> (usize, usize) {
        let count = self.devices.len();
        let from = dice.index(count);
        let apart = match self.shape {
            Shape::Ring => 1 + dice.index(APART_MAX.min(count / 2)),
            Shape::FatTree | Shape::LeafSpine | Shape::Random => 1 + dice.index(count - 1),
        };
        (from, (from + apart) % count)
    }
}
