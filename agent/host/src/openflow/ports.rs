//! Numbers of ports: rules name ports, and the switch numbers them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::wire::{Take, port};

/// Bytes of a name in OpenFlow, with the zero at its end.
const NAME: usize = 16;
/// The most ports of a bridge, as in Open vSwitch.
const PORTS_MAX: usize = 65_280;

/// The ports of a bridge.
#[derive(Debug, Default)]
pub(super) struct Ports {
    names: BTreeMap<u32, Box<str>>,
    numbers: BTreeMap<Box<str>, u32>,
}

impl Ports {
    pub fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(|name| &**name)
    }

    /// Names that OpenFlow can carry whole.
    pub fn can_carry(name: &str) -> bool {
        name.len() < NAME
    }

    /// Takes an `ofp_port`. Returns whether this changes anything; `None` if there are too many ports, or the
    /// bytes are no port.
    pub fn add(&mut self, description: &[u8]) -> Option<bool> {
        let (number, name) = read(description)?;
        if self.name(number) == Some(&*name) {
            return Some(false);
        }
        self.remove(number);
        if self.names.len() >= PORTS_MAX {
            return None;
        }
        self.names.insert(number, (*name).into());
        self.numbers.insert((*name).into(), number);
        Some(true)
    }

    /// Removes the port of this `ofp_port`.
    pub fn gone(&mut self, description: &[u8]) -> Option<()> {
        self.remove(read(description)?.0);
        Some(())
    }

    fn remove(&mut self, number: u32) {
        let Some(name) = self.names.remove(&number) else { return };
        // Another port may have taken the name already.
        if self.numbers.get(&name) == Some(&number) {
            self.numbers.remove(&name);
        }
    }
}

/// Number and name of an `ofp_port`. A longer name is cut by the switch, which may be within a character.
fn read(description: &[u8]) -> Option<(u32, Cow<'_, str>)> {
    let mut take = Take(description);
    let number = take.u32()?;
    take.bytes(2 + 2 + 6 + 2)?;
    let name = take.bytes(NAME)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
    let is_port = number <= port::IN_PORT || number == port::LOCAL;
    if is_port { Some((number, String::from_utf8_lossy(&name[..end]))) } else { None }
}
