//! The fake switch: bridges that hold whatever is put there, by the place it takes, each with its cookie; what is put
//! as one bundle is there as a whole or not at all.
//!
//! Absent: faults, agents and time; `host.rs` and `harm.rs` bring them.

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::MonoTime;
use muster_shared::model::flow::{Action, DeviceName, Entry, FlowId, Instruction, Output, Packed, Port};

/// The port that no bridge has.
pub const NO_PORT: &str = "nope";
/// The bridge over which its server is reached.
pub const MANAGEMENT: &str = "br0";
/// The other one.
pub const OTHER: &str = "br1";
/// A cookie that is not ours.
pub const FOREIGN: u64 = 0x00ab_0000_0000_0000;

/// The contents of one place of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The cookie, which says whose it is.
    pub cookie: u64,
    pub packed: Packed,
    /// Counts what was ever put on this server: a timeout ends what it was set for, and nothing else.
    pub number: u64,
    /// Whether somebody else put it there, or changed it.
    pub by_hand: bool,
    /// The rule drops everything on its bridge, as [`cuts`] says: looked up at each message to the server.
    pub cuts: bool,
}

/// A bridge, while it exists.
#[derive(Clone, Debug, Default)]
pub struct Plane {
    /// The rules on the bridge, by place: the id of the entry that takes the place, whoever put it there.
    pub held: BTreeMap<FlowId, Held>,
    /// Entries of others that must be there.
    pub foreign: BTreeMap<FlowId, Held>,
    /// Digests of what has ended by its own timeout since the switch began, where nothing was put again.
    pub ended: BTreeMap<FlowId, u64>,
    /// The time when each was put last, since the switch began.
    pub put_at: BTreeMap<FlowId, MonoTime>,
}

/// The switch of a server.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The planes that exist.
    pub planes: BTreeMap<&'static str, Plane>,
    /// Whether the switch runs.
    pub runs: bool,
    /// Counts its starts.
    pub start: u64,
    /// Bridges that are away: until when does not matter, they are brought back.
    pub away: BTreeSet<&'static str>,
    puts: u64,
}

/// An operation of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bundled {
    /// Put this, with its id as cookie.
    Put(FlowId, Packed),
    /// Remove what is there, if it is ours.
    Remove(FlowId),
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            planes: [(MANAGEMENT, Plane::default()), (OTHER, Plane::default())].into(),
            runs: true,
            start: 1,
            away: BTreeSet::new(),
            puts: 0,
        }
    }
}

/// Drops everything of its bridge.
pub fn cuts(packed: &Packed) -> bool {
    match packed.unpack() {
        Entry::Rule(rule) => {
            rule.table == 0
                && rule.priority == u16::MAX
                && rule.selector.is_empty()
                && rule.treatment.is_empty()
        }
        Entry::Group(_) | Entry::Meter(_) => false,
    }
}

/// Sends packets to a port that is not there.
pub fn is_bad(packed: &Packed) -> bool {
    let Entry::Rule(rule) = packed.unpack() else { return false };
    rule.treatment.iter().any(|step| {
        matches!(step, Instruction::Do(Action::Output(Output::Port(Port::Named(name)))) if **name == *NO_PORT)
    })
}

/// Seconds until it may end by itself: idle, hard.
pub fn timeouts(packed: &Packed) -> (u16, u16) {
    match packed.unpack() {
        Entry::Rule(rule) => (rule.idle_timeout, rule.hard_timeout),
        Entry::Group(_) | Entry::Meter(_) => (0, 0),
    }
}

impl Switch {
    /// A bridge that answers.
    pub fn plane(&mut self, bridge: &str) -> Option<&mut Plane> {
        if !self.runs || self.away.contains(bridge) {
            return None;
        }
        self.planes.get_mut(bridge)
    }

    /// Returns whether the switch runs and has the bridge.
    pub fn is_there(&self, bridge: &str) -> bool {
        self.runs && !self.away.contains(bridge) && self.planes.contains_key(bridge)
    }

    /// Nothing gets through to the server.
    pub fn cuts(&self) -> bool {
        let mut held = self.planes.get(MANAGEMENT).into_iter().flat_map(|plane| plane.held.values());
        self.is_there(MANAGEMENT) && held.any(|held| held.cuts)
    }

    /// Puts something, whoever does it.
    pub fn put(
        &mut self,
        bridge: &str,
        at: FlowId,
        cookie: u64,
        packed: Packed,
        by_hand: bool,
        now: MonoTime,
    ) {
        self.puts += 1;
        let number = self.puts;
        if let Some(plane) = self.planes.get_mut(bridge) {
            let cuts = cuts(&packed);
            plane.held.insert(at, Held { cookie, packed, number, by_hand, cuts });
            plane.ended.remove(&at);
            plane.put_at.insert(at, now);
        }
    }

    /// Applies the whole bundle, or nothing and says why: the place that is to blame, the reason, and whether it is
    /// for good.
    pub fn bundle(
        &mut self,
        bridge: &str,
        ops: &[Bundled],
        now: MonoTime,
    ) -> Result<(), (FlowId, String, bool)> {
        for op in ops {
            if let Bundled::Put(id, packed) = op {
                self.takes(bridge, *id, packed)?;
            }
        }
        for op in ops {
            match op {
                Bundled::Put(id, packed) => self.put(bridge, *id, id.0, packed.clone(), false, now),
                Bundled::Remove(id) => self.take_away(bridge, *id),
            }
        }
        Ok(())
    }

    /// Whether it can be put there.
    fn takes(&self, bridge: &str, id: FlowId, packed: &Packed) -> Result<(), (FlowId, String, bool)> {
        if is_bad(packed) {
            return Err((id, format!("{bridge} has no port {NO_PORT}"), true));
        }
        let there = self.planes.get(bridge).and_then(|plane| plane.held.get(&id));
        match there {
            Some(held) if !FlowId::is_ours(held.cookie) => {
                Err((id, format!("there is a rule of somebody else, cookie {:#x}", held.cookie), true))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn take_away(&mut self, bridge: &str, id: FlowId) {
        if let Some(plane) = self.planes.get_mut(bridge) {
            if plane.held.get(&id).is_some_and(|held| held.cookie == id.0) {
                plane.held.remove(&id);
            }
            plane.ended.remove(&id);
            plane.put_at.remove(&id);
        }
    }

    /// Ends the switch, and what it held with it.
    pub fn stops(&mut self) {
        self.runs = false;
        self.planes.values_mut().for_each(|plane| *plane = Plane::default());
    }

    /// Starts the switch again.
    pub fn starts(&mut self) {
        self.runs = true;
        self.start += 1;
    }

    /// A bridge is taken down, with all that it held.
    pub fn loses(&mut self, bridge: &'static str) {
        self.away.insert(bridge);
        self.planes.insert(bridge, Plane::default());
    }

    /// Removes an entry that has reached its timeout. Returns false if another one has taken its place.
    pub fn ends(&mut self, bridge: &str, id: FlowId, number: u64) -> bool {
        let Some(plane) = self.planes.get_mut(bridge) else { return false };
        if plane.held.get(&id).is_none_or(|held| held.number != number) {
            return false;
        }
        let held = plane.held.remove(&id);
        plane.ended.extend(held.map(|held| (id, held.packed.digest())));
        true
    }
}

/// The place that an entry takes on a device.
pub fn place(device: &DeviceName, packed: &Packed) -> FlowId {
    packed.unpack().id(device)
}
