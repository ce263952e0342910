//! The entries that operators and stacks want on devices: few places, so that they meet, and contents that tell who
//! asked last.

use muster_shared::model::flow::{
    Action, Band, Criterion, DeviceName, Entry, Field, Group, GroupBucket, GroupKind, Instruction, Meter,
    Output, Packed, Port, Rule,
};

use super::super::dice::Dice;
use super::switch::NO_PORT;

/// Tables of rules that operators and stacks meet in; each stack has one of its own besides.
pub const SHARED_TABLE: u8 = 0;
/// Priorities in the shared table.
const PRIORITIES: u64 = 6;

/// The manner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// An operator may ask for it: once in a while a bad entry, or one that ends by itself.
    Any,
    /// The device can hold it.
    Sound,
}

/// Packs what this file makes.
pub fn packed(entry: &Entry) -> Packed {
    Packed::new(entry).expect("made canonical")
}

/// Drops all that comes in, also from the controller.
pub fn cutting() -> Entry {
    Entry::Rule(Rule {
        table: 0,
        priority: u16::MAX,
        selector: Vec::new(),
        treatment: Vec::new(),
        idle_timeout: 0,
        hard_timeout: 0,
    })
}

fn output(port: &str) -> Action {
    Action::Output(Output::Port(Port::Named(port.into())))
}

fn some_output(dice: &mut Dice) -> Action {
    output(dice.pick::<&str>(&["p1", "p2", "p3"]))
}

/// A rule of a table.
pub fn rule(dice: &mut Dice, table: u8, manner: Manner) -> Rule {
    let priority = 100 + u16::try_from(dice.below(PRIORITIES)).unwrap_or_default();
    let selector = match dice.below(3) {
        0 => Vec::new(),
        1 => vec![Criterion::InPort(Port::Named("p1".into()))],
        _ => vec![Criterion::Field { field: Field::EthType, value: 0x0806, mask: None }],
    };
    let mut treatment = vec![Instruction::Do(some_output(dice))];
    if dice.one_in(4) {
        treatment.clear();
    }
    if manner == Manner::Any && dice.one_in(12) {
        treatment = vec![Instruction::Do(output(NO_PORT))];
    }
    let (mut idle_timeout, mut hard_timeout) = (0, 0);
    if manner == Manner::Any && dice.one_in(5) {
        let seconds = 5 + u16::try_from(dice.below(200)).unwrap_or_default();
        *(if dice.one_in(2) { &mut idle_timeout } else { &mut hard_timeout }) = seconds;
    }
    Rule { table, priority, selector, treatment, idle_timeout, hard_timeout }
}

/// An entry that an operator asks for.
pub fn any(dice: &mut Dice) -> Entry {
    match dice.below(10) {
        0 => Entry::Group(Group {
            number: 1 + u32::try_from(dice.below(2)).unwrap_or_default(),
            kind: GroupKind::All,
            buckets: vec![GroupBucket { weight: 0, watch_port: None, treatment: vec![some_output(dice)] }],
        }),
        1 => {
            let rate = 1000 + u32::try_from(dice.below(3)).unwrap_or_default();
            let bands = vec![Band { rate, burst: 0, dscp_remark: None }];
            Entry::Meter(Meter { number: 1, packets: false, bands })
        }
        _ => Entry::Rule(rule(dice, SHARED_TABLE, Manner::Any)),
    }
}

/// A device of a server.
pub fn device(node: &str, bridge: &str) -> DeviceName {
    DeviceName {
        node: node.parse().expect("made from letters and digits"),
        bridge: bridge.parse().expect("a short name"),
    }
}
