//! Intents over networks of hundreds to thousands of bridges. Cables fail and heal, bridges and the controller restart.
//! Only `muster-intent` is real: bridges take their writes one by one, in any order. After each write a packet of its
//! intent walks.
//!
//! **Invariants.** No packet ever goes round. An intent that is INSTALLED over whole cables delivers. In the end all
//! intents are INSTALLED and deliver. Withdrawn intents leave nothing, and nothing stays reserved.
//!
//! Absent: agents, flow tables, the store (`muster-sim run` has them).

mod plane;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use muster_intent::intent::{Constraints, Intent, Kind};
use muster_intent::manager::{
    Effect, IntentNo, IntentRecord, Manager, Op, SettledPort, TableEntry, Token, Wish,
};
use muster_intent::phase::State;
use muster_intent::topology::{ConnectPoint, LinkTraits};
use muster_shared::MonoTime;
use muster_shared::model::flow::{Criterion, DeviceName, Field};
use serde::Serialize;

use crate::sim::Dice;
use plane::{Fate, Plane};
pub use shape::Shape;
use shape::{Fabric, cable_port};

/// Each bridge's port for hosts, in and out.
const HOSTS: [&str; 2] = ["in", "out"];
/// Bits per second of each link, and what every fourth intent asks for.
const CAPACITY: u64 = 1_000;
const SHARE: u64 = 1;
/// After the last fault: the longest pause before something is tried again, and more.
const SETTLED_AFTER: Duration = Duration::from_secs(700);

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The shape of the network of bridges.
    pub shape: Shape,
    /// The number of bridges, at least 10.
    pub devices: usize,
    pub intents: usize,
    /// Cables that break, bridges and controllers that restart.
    pub faults: usize,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The measured figures: seconds of the wall clock, and counts.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    shape: Shape,
    devices: usize,
    cables: usize,
    intents: usize,
    seed: u64,
    /// The network is told of.
    topology_s: f64,
    /// From the submission of all intents until they are INSTALLED.
    install_s: f64,
    /// Faults from the first to the last, with all moves.
    faults_s: f64,
    cut: usize,
    silent: usize,
    restarted_devices: usize,
    restarted_controllers: usize,
    /// Intents that were under way when something else happened.
    interrupted: usize,
    /// Intents that came to another way.
    moved: usize,
    writes: usize,
    walks: usize,
    withdraw_s: f64,
}

/// A run.
struct Site {
    fabric: Fabric,
    manager: Manager,
    now: MonoTime,
    dice: Dice,
    plane: Plane,
    /// Per bridge, in order.
    waiting: BTreeMap<usize, Vec<(Token, IntentNo, Vec<Op>)>>,
    /// Bridges that restart: they take nothing, and hold nothing.
    off: BTreeSet<usize>,
    /// Cables nothing passes, with whether that is seen.
    broken: BTreeMap<usize, bool>,
    /// As the store would have them.
    saved: BTreeMap<IntentNo, IntentRecord>,
    /// Bridges of each intent.
    ends: BTreeMap<IntentNo, (usize, usize)>,
    figures: Figures,
}

/// Runs the intents through faults and measures that.
///
/// # Errors
/// Says what violates an invariant.
pub fn run(options: Options) -> anyhow::Result<Figures> {
    ensure!(options.devices >= 10, "at least ten bridges");
    let mut site = Site::new(options);
    let began = Instant::now();
    site.tells_all()?;
    site.figures.topology_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    site.submits(options.intents)?;
    site.settles()?;
    site.all_deliver()?;
    site.figures.install_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    for _ in 0..options.faults {
        site.something_happens()?;
    }
    site.all_heals()?;
    site.waits(SETTLED_AFTER)?;
    site.all_deliver()?;
    site.figures.faults_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    site.withdraws()?;
    site.figures.withdraw_s = began.elapsed().as_secs_f64();
    Ok(site.figures)
}

fn address(no: IntentNo) -> u128 {
    0x0a00_0000 + u128::from(no.0)
}

impl Site {
    fn new(options: Options) -> Self {
        let Options { shape, devices, intents, seed, .. } = options;
        let mut dice = Dice::new(seed, "topology");
        let fabric = Fabric::new(shape, devices, &mut dice);
        let figures = Figures {
            shape,
            devices: fabric.devices.len(),
            cables: fabric.cables.len(),
            intents,
            seed,
            topology_s: 0.0,
            install_s: 0.0,
            faults_s: 0.0,
            cut: 0,
            silent: 0,
            restarted_devices: 0,
            restarted_controllers: 0,
            interrupted: 0,
            moved: 0,
            writes: 0,
            walks: 0,
            withdraw_s: 0.0,
        };
        Self {
            plane: Plane::new(fabric.devices.len()),
            fabric,
            manager: Manager::default(),
            now: MonoTime::default(),
            dice,
            waiting: BTreeMap::new(),
            off: BTreeSet::new(),
            broken: BTreeMap::new(),
            saved: BTreeMap::new(),
            ends: BTreeMap::new(),
            figures,
        }
    }

    fn point(&self, device: usize, port: &str) -> ConnectPoint {
        ConnectPoint { device: self.fabric.devices[device].clone(), port: port.into() }
    }

    /// Whether packets pass a cable.
    fn passes(&self, cable: usize) -> bool {
        let is_off = self.fabric.cables[cable].iter().any(|device| self.off.contains(device));
        !is_off && !self.broken.contains_key(&cable)
    }

    /// A bridge as its agent tells of it.
    fn ports(&self, device: usize, hears: bool) -> Vec<SettledPort> {
        let port = |&cable: &usize| {
            let ends = self.fabric.cables[cable];
            let other = if ends[0] == device { ends[1] } else { ends[0] };
            let is_cut = self.broken.get(&cable) == Some(&true) || self.off.contains(&other);
            let far = || self.point(other, &cable_port(cable));
            let heard = (hears && self.passes(cable)).then(far);
            SettledPort { name: cable_port(cable).into(), up: !is_cut, heard }
        };
        let mut ports: Vec<SettledPort> = self.fabric.cables_of[device].iter().map(port).collect();
        ports.extend(HOSTS.iter().map(|name| SettledPort { name: (*name).into(), up: true, heard: None }));
        ports
    }

    fn tells(&mut self, device: usize, hears: bool) -> anyhow::Result<()> {
        let up = !self.off.contains(&device);
        let ports = if up { self.ports(device, hears) } else { Vec::new() };
        let errors = self.manager.tell_device(self.now, &self.fabric.devices[device], up, &ports);
        ensure!(errors.is_empty(), "{}: {errors:?}", self.fabric.devices[device]);
        Ok(())
    }

    /// Every bridge, and what its links carry.
    fn tells_all(&mut self) -> anyhow::Result<()> {
        for hears in [false, true] {
            (0..self.fabric.devices.len()).try_for_each(|device| self.tells(device, hears))?;
        }
        for cable in 0..self.fabric.cables.len() {
            let [one, other] = self.fabric.cables[cable].map(|device| self.point(device, &cable_port(cable)));
            for (from, to) in [(&one, &other), (&other, &one)] {
                let traits = LinkTraits { bandwidth: Some(CAPACITY), ..LinkTraits::default() };
                self.manager.declare(from, to, traits)?;
            }
        }
        Ok(())
    }

    fn submits(&mut self, intents: usize) -> anyhow::Result<()> {
        for number in 0..intents {
            let no = IntentNo(number as u64 + 1);
            let (from, to) = self.fabric.ends(&mut self.dice);
            self.ends.insert(no, (from, to));
            let field = |field, value| Criterion::Field { field, value, mask: None };
            let bandwidth = number.is_multiple_of(4).then_some(SHARE);
            let intent = Intent {
                kind: Kind::PointToPoint { from: self.point(from, HOSTS[0]), to: self.point(to, HOSTS[1]) },
                priority: 100,
                selector: vec![field(Field::EthType, 0x0800), field(Field::Ipv4Dst, address(no))],
                treatment: Vec::new(),
                constraints: Constraints { bandwidth, ..Constraints::default() },
            };
            self.manager.submit(&key_of(no), no, Wish { intent: Arc::new(intent), group: None })?;
        }
        self.takes()
    }

    /// Carries out what the manager wants done. Writes only wait.
    fn takes(&mut self) -> anyhow::Result<()> {
        self.manager.run(self.now);
        while let Some(effect) = self.manager.poll_effect() {
            match effect {
                Effect::Write { token, intent, device, ops } => {
                    let device = self.fabric.number(&device).context("a write for no bridge")?;
                    self.waiting.entry(device).or_default().push((token, intent, ops));
                }
                Effect::Save(no) => {
                    let record = self.manager.record(no).context("an intent that is not there is saved")?;
                    let moved = record.history.last().is_some()
                        && self.saved.get(&no).is_none_or(|was| was.history.last() != record.history.last());
                    self.figures.moved += usize::from(moved);
                    self.saved.insert(no, record);
                }
                Effect::Forget(no) => drop(self.saved.remove(&no)),
            }
        }
        Ok(())
    }

    /// Some bridge takes its next write; false: there is none that could.
    fn steps(&mut self) -> anyhow::Result<bool> {
        let first = self.dice.index(self.fabric.devices.len());
        // The next one from there on that can.
        let later = self.waiting.range(first..).map(|(device, _)| *device);
        let earlier = self.waiting.range(..first).map(|(device, _)| *device);
        let Some(device) = later.chain(earlier).find(|device| !self.off.contains(device)) else {
            return Ok(false);
        };
        let writes = self.waiting.get_mut(&device).context("a bridge with writes")?;
        let (token, intent, ops) = writes.remove(0);
        if writes.is_empty() {
            self.waiting.remove(&device);
        }
        self.plane.apply(device, &self.fabric.devices[device], intent, &ops)?;
        self.figures.writes += 1;
        self.manager.written(self.now, [(token, Ok(()))], |_, _, _| TableEntry::Nothing);
        self.walks(intent)?;
        self.takes()?;
        Ok(true)
    }

    fn settles(&mut self) -> anyhow::Result<()> {
        self.takes()?;
        while self.steps()? {}
        Ok(())
    }

    /// Lets time pass, timer by timer.
    fn waits(&mut self, time: Duration) -> anyhow::Result<()> {
        self.settles()?;
        let end = self.now + time;
        while let Some(due) = self.manager.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.settles()?;
        }
        self.now = end;
        self.settles()
    }

    /// A packet of an intent comes in.
    fn walks(&mut self, no: IntentNo) -> anyhow::Result<Fate> {
        self.figures.walks += 1;
        let (from, _) = self.ends[&no];
        let fate = self.plane.walk(&self.fabric, |cable| self.passes(cable), from, HOSTS[0], address(no));
        if let Fate::Round(way) = &fate {
            bail!("a packet of {} goes round: {way:?}", key_of(no));
        }
        Ok(fate)
    }

    /// An intent that is INSTALLED and stands on cables that are whole.
    fn delivers(&mut self, no: IntentNo) -> anyhow::Result<()> {
        let fate = self.walks(no)?;
        let (_, to) = self.ends[&no];
        ensure!(
            fate == Fate::Out(to, HOSTS[1].into()),
            "{} is INSTALLED, and its packets come to {fate:?}",
            key_of(no)
        );
        Ok(())
    }

    fn all_deliver(&mut self) -> anyhow::Result<()> {
        for no in self.ends.keys().copied().collect::<Vec<_>>() {
            let state = self.manager.state(no);
            ensure!(matches!(state, Some((State::Installed, None))), "{} is {state:?}", key_of(no));
            self.delivers(no)?;
        }
        let rules = self.plane.len();
        let placed: usize =
            self.ends.keys().filter_map(|no| Some(self.manager.view(self.now, *no)?.rules.len())).sum();
        ensure!(rules == placed, "{rules} rules lie on bridges, and intents have {placed}");
        Ok(())
    }

    fn something_happens(&mut self) -> anyhow::Result<()> {
        self.figures.interrupted += usize::from(!self.waiting.is_empty());
        // A network that falls apart has nothing to move: what fails heals as often.
        let wrong = self.broken.len() + self.off.len();
        let roll =
            if wrong < self.fabric.faults_at_once() { self.dice.below(20) } else { 11 + self.dice.below(9) };
        match roll {
            0..8 => {
                let cable = self.some_cable();
                self.figures.cut += 1;
                self.breaks(cable, true)?;
            }
            8..11 => {
                let cable = self.some_cable();
                self.figures.silent += 1;
                self.breaks(cable, false)?;
            }
            11..15 => {
                let broken: Vec<usize> = self.broken.keys().copied().collect();
                if !broken.is_empty() {
                    let cable = *self.dice.pick(&broken);
                    self.broken.remove(&cable);
                    self.tells_ends(cable)?;
                }
            }
            15 | 16 => {
                let device = self.dice.index(self.fabric.devices.len());
                self.figures.restarted_devices += 1;
                self.goes_off(device)?;
            }
            17 | 18 => {
                let off: Vec<usize> = self.off.iter().copied().collect();
                if !off.is_empty() {
                    let device = *self.dice.pick(&off);
                    self.comes_back(device)?;
                }
            }
            _ => {
                self.figures.restarted_controllers += 1;
                self.controller_restarts()?;
            }
        }
        self.takes()?;
        for _ in 0..self.dice.below(60) {
            self.steps()?;
        }
        self.now = self.now + self.dice.millis(0, 3000);
        self.takes()?;
        // Intents at rest, out of a few.
        for _ in 0..8 {
            let no = IntentNo(1 + self.dice.below(self.ends.len().max(1) as u64));
            let stands = self.manager.state(no).is_some_and(|(state, _)| state == State::Installed);
            let record = self.manager.record(no).filter(|_| stands && self.manager.is_settled(no));
            if record.is_some_and(|record| self.is_whole(&record)) {
                self.delivers(no)?;
            }
        }
        Ok(())
    }

    /// Picks a cable: three times out of four one that an intent goes over.
    fn some_cable(&mut self) -> usize {
        let no = IntentNo(1 + self.dice.below(self.ends.len().max(1) as u64));
        let links = self.saved.get(&no).map(|record| record.paths.concat()).unwrap_or_default();
        let used =
            (!links.is_empty() && self.dice.below(4) > 0).then(|| self.dice.pick(&links).0.port.clone());
        let used = used.and_then(|port| shape::cable_of(&port));
        used.unwrap_or_else(|| self.dice.index(self.fabric.cables.len()))
    }

    /// Packets pass on all that it stands on, and every bridge there is on.
    fn is_whole(&self, record: &IntentRecord) -> bool {
        let passes = |(from, _): &(ConnectPoint, ConnectPoint)| {
            shape::cable_of(&from.port).is_some_and(|cable| self.passes(cable))
        };
        let (from, to) = self.ends[&record.no];
        let is_on = [from, to].iter().all(|device| !self.off.contains(device));
        is_on && record.paths.iter().flatten().all(passes)
    }

    fn breaks(&mut self, cable: usize, seen: bool) -> anyhow::Result<()> {
        self.broken.insert(cable, seen);
        self.tells_ends(cable)
    }

    fn tells_ends(&mut self, cable: usize) -> anyhow::Result<()> {
        for device in self.fabric.cables[cable] {
            self.tells(device, true)?;
        }
        Ok(())
    }

    fn neighbours(&self, device: usize) -> BTreeSet<usize> {
        let cables = self.fabric.cables_of[device].iter();
        cables.flat_map(|cable| self.fabric.cables[*cable]).filter(|other| *other != device).collect()
    }

    /// A bridge restarts: it holds nothing, and takes nothing.
    fn goes_off(&mut self, device: usize) -> anyhow::Result<()> {
        self.off.insert(device);
        self.plane.empty(device);
        let name = self.fabric.devices[device].clone();
        self.manager.set_away(&name, true)?;
        for other in self.neighbours(device) {
            self.tells(other, true)?;
        }
        Ok(())
    }

    /// Brings a bridge back: its rules come from its agent's log, before its ports are up.
    fn comes_back(&mut self, device: usize) -> anyhow::Result<()> {
        self.off.remove(&device);
        self.plane.fill(device);
        let name = self.fabric.devices[device].clone();
        self.manager.set_away(&name, false)?;
        self.tells(device, true)?;
        for other in self.neighbours(device) {
            self.tells(other, true)?;
        }
        Ok(())
    }

    /// Restarts the controller: it knows what was saved, and what tables hold. Writes that are on their way stay so.
    fn controller_restarts(&mut self) -> anyhow::Result<()> {
        let old = std::mem::take(&mut self.manager);
        for (device, name) in self.fabric.devices.iter().enumerate() {
            let Some(number) = old.topology().device(name) else { continue };
            let port = |port: muster_intent::manager::PortRecord| SettledPort {
                name: port.name,
                up: port.up,
                heard: port.heard,
            };
            let ports: Vec<SettledPort> = old.port_records(number).into_iter().map(port).collect();
            self.manager.tell_device(self.now, name, true, &ports);
            self.manager.set_away(name, self.off.contains(&device))?;
        }
        for cable in 0..self.fabric.cables.len() {
            let [one, other] = self.fabric.cables[cable].map(|device| self.point(device, &cable_port(cable)));
            for (from, to) in [(&one, &other), (&other, &one)] {
                let traits = LinkTraits { bandwidth: Some(CAPACITY), ..LinkTraits::default() };
                self.manager.declare(from, to, traits)?;
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        // The tables, with the writes that are on their way.
        let mut table = self.plane.table();
        for (device, writes) in &waiting {
            for (_, intent, ops) in writes {
                plane::write(&mut table, *device, &self.fabric.devices[*device], *intent, ops);
            }
        }
        let mut placed: BTreeMap<IntentNo, Vec<(DeviceName, muster_shared::model::flow::Packed)>> =
            BTreeMap::new();
        for ((device, _), (intent, packed)) in table {
            placed.entry(intent).or_default().push((self.fabric.devices[device].clone(), packed));
        }
        for (no, record) in &self.saved {
            self.manager.load(record.clone(), placed.remove(no).unwrap_or_default(), Vec::new());
        }
        // The rules that may lie in the places of a write on its way: those there, and those of older writes.
        let mut may_lie: BTreeMap<_, Vec<_>> =
            self.plane.table().into_iter().map(|(place, rule)| (place, vec![rule])).collect();
        for (device, writes) in waiting {
            for (_, intent, ops) in writes {
                let name = &self.fabric.devices[device];
                let mut before = Vec::new();
                for op in &ops {
                    let lie = may_lie.entry((device, op.packed().unpack().id(name))).or_default();
                    let own = lie.iter().filter(|(of, _)| *of == intent);
                    before.extend(own.map(|(_, packed)| packed.clone()));
                    lie.push((intent, op.packed().clone()));
                }
                if let Some(token) = self.manager.load_open(intent, name, ops.clone(), before) {
                    self.waiting.entry(device).or_default().push((token, intent, ops));
                }
            }
        }
        Ok(())
    }

    fn all_heals(&mut self) -> anyhow::Result<()> {
        for device in self.off.clone() {
            self.comes_back(device)?;
        }
        for cable in std::mem::take(&mut self.broken).into_keys() {
            self.tells_ends(cable)?;
        }
        Ok(())
    }

    fn withdraws(&mut self) -> anyhow::Result<()> {
        for no in self.ends.keys() {
            self.manager.withdraw(&key_of(*no))?;
        }
        self.settles()?;
        let states = self.ends.keys().map(|no| self.manager.state(*no));
        let left = states.filter(|state| !matches!(state, Some((State::Withdrawn, _)))).count();
        ensure!(left == 0, "{left} intents are not WITHDRAWN");
        ensure!(self.plane.len() == 0, "{} rules are left", self.plane.len());
        let topology = self.manager.topology();
        let held: u64 = topology.known_links().map(|link| self.manager.ledger().taken(link)).sum();
        ensure!(held == 0, "{held} bit/s are held for nobody");
        Ok(())
    }
}

fn key_of(no: IntentNo) -> String {
    format!("intent-{}", no.0)
}
