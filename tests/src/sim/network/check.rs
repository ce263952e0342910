//! Checks of the network at every moment, also in the middle of a move.

use std::collections::{BTreeMap, BTreeSet};

use muster_flow::record::{FlowEntryRecord, FlowMark};
use muster_intent::manager::{IntentNo, IntentRecord, IntentView};
use muster_intent::phase::{Request, State};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{Criterion, DeviceName, Field};

use super::super::world::World;
use super::fabric::{CAPACITY, cable_of};
use super::walk::Spot;

impl World {
    /// Checks the ways of packets, after a step that may have changed them.
    pub fn packets_are_right(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let print = self.reads_planes() ^ self.shared.borrow().wishes.version.rotate_left(32);
        if std::mem::replace(&mut self.network.print, print) == print {
            return;
        }
        let wrong = self.goes_round().or_else(|| self.does_not_deliver());
        if let Some(wrong) = wrong {
            let entries = self.entries_of_intents();
            entries.into_iter().for_each(|entry| self.note(|_| entry));
            self.violate(wrong);
        }
    }

    /// Checks what the tables say of each rule of an intent against its bridge.
    fn entries_of_intents(&self) -> Vec<String> {
        let shared = self.shared.borrow();
        let flows = &shared.tables.flows;
        let own = flows.entries.iter().filter_map(|((device, _), entry)| {
            let record = &shared.tables.intents.intents.get(&entry.owner.as_intent()?)?.0;
            let device = flows.devices.get(device)?;
            let name = DeviceName { node: device.node.clone(), bridge: device.bridge.clone() };
            let place = self.network.number(&name).and_then(|at| {
                let machine = &self.machines[self.machine_of(at)?];
                machine.host.switch.planes.get(name.bridge.as_str())?.held.get(&entry.id)
            });
            let lies = match place {
                None => "is not there",
                Some(held) if held.packed == entry.packed => "is there",
                Some(_) => "is there as another",
            };
            let open = entry.serial > device.settled;
            let past: Vec<_> = entry.past.iter().map(|past| past.packed.unpack()).collect();
            Some(format!(
                "rule of {} on {name}, {lies}, open {open}, goes {}: {:?}, before {past:?}",
                record.key,
                entry.removing,
                entry.packed.unpack()
            ))
        });
        own.collect()
    }

    fn goes_round(&self) -> Option<String> {
        self.ingresses().into_iter().find_map(|((device, port), address)| {
            let round = self.walks((device, port.clone()), address, &BTreeSet::new()).round?;
            let name = &self.network.fabric.devices[device];
            Some(format!("a packet for {address:#x} that comes in at {name} port {port} goes round: {round}"))
        })
    }

    /// Returns what is wrong with an intent that is INSTALLED and does not deliver, although all its rules lie as the
    /// tables say and all its cables are whole.
    fn does_not_deliver(&self) -> Option<String> {
        if self.is_dropped_somewhere() {
            return None;
        }
        let shared = self.shared.borrow();
        let mut lie: BTreeMap<IntentNo, bool> = BTreeMap::new();
        for ((device, _), entry) in &shared.tables.flows.entries {
            let Some(no) = entry.owner.as_intent().filter(|_| !entry.removing) else { continue };
            let device = shared.tables.flows.devices.get(device);
            let name = device.map(|it| DeviceName { node: it.node.clone(), bridge: it.bridge.clone() });
            let lies = name.is_some_and(|name| self.lies_there(&name, entry));
            *lie.entry(no).or_insert(true) &= lies;
        }
        shared.tables.intents.intents.values().find_map(|(record, _)| {
            let stands = record.state == State::Installed
                && record.request == Request::Install
                && lie.get(&record.no) == Some(&true)
                && self.is_whole(record);
            if !stands { None } else { self.delivers_wrongly(record) }
        })
    }

    /// An entry is on its bridge as the table has it.
    fn lies_there(&self, device: &DeviceName, entry: &FlowEntryRecord) -> bool {
        let Some(at) = self.network.number(device).and_then(|device| self.machine_of(device)) else {
            return false;
        };
        let plane = self.machines[at].host.switch.planes.get(device.bridge.as_str());
        let held = plane.and_then(|plane| plane.held.get(&entry.id));
        entry.mark == FlowMark::None && held.is_some_and(|held| held.packed == entry.packed)
    }

    /// Packets pass on all that it stands on.
    fn is_whole(&self, record: &IntentRecord) -> bool {
        let passes = |(from, _): &(ConnectPoint, ConnectPoint)| {
            let (device, cable) = (self.network.number(&from.device), cable_of(&from.port));
            let (Some(device), Some(cable)) = (device, cable) else { return false };
            let ends = self.network.fabric.cables.get(cable);
            let end = ends.and_then(|ends| ends.iter().position(|it| *it == device));
            end.is_some_and(|end| self.passes(cable, end))
        };
        record.paths.iter().flatten().chain(&record.links).all(passes)
    }

    /// The first point where packets of an intent do not come out where they are to.
    pub(super) fn delivers_wrongly(&self, record: &IntentRecord) -> Option<String> {
        let intent = &record.intent;
        let address = intent.selector.iter().find_map(|criterion| match criterion {
            Criterion::Field { field: Field::Ipv4Dst, value, .. } => Some(*value),
            Criterion::InPort(_) | Criterion::Field { .. } => None,
        })?;
        let spot = |point: &ConnectPoint| Some((self.network.number(&point.device)?, point.port.clone()));
        let reached = |points: &[ConnectPoint]| -> BTreeSet<Spot> {
            let reached = points.iter().filter(|point| !record.missing.contains(point));
            reached.filter_map(spot).collect()
        };
        let outs = reached(intent.kind.egress());
        reached(intent.kind.ingress()).into_iter().find_map(|from| {
            let walk = self.walks(from.clone(), address, &outs);
            let well = walk.outs == outs && walk.odd.is_none();
            (!well).then(|| {
                format!(
                    "intent {} is INSTALLED, and of a packet that comes in at {from:?} becomes {walk:?}: {record:?}",
                    record.key
                )
            })
        })
    }

    /// Checks that the reservations on links add up, and are no more than there is.
    pub fn reservations_are_right(&mut self) {
        let Some(turns) = &self.controller.turns else { return };
        let version = self.shared.borrow().wishes.version;
        if self.network.is_empty() || std::mem::replace(&mut self.network.added_up, version) == version {
            return;
        }
        let site = turns.view();
        let views: Vec<IntentView> =
            site.intents().iter().filter_map(|it| site.intent(&it.key).ok()).collect();
        // By link and holder, what a holder has there: its largest share.
        let mut held: BTreeMap<(&ConnectPoint, &ConnectPoint), BTreeMap<String, u64>> = BTreeMap::new();
        for view in &views {
            let holder = match &view.group {
                Some(group) => format!("group {group}"),
                None => format!("intent {}", view.key),
            };
            for it in &view.reservations {
                let own = held.entry((&it.from, &it.to)).or_default().entry(holder.clone()).or_default();
                *own = (*own).max(it.bandwidth.unwrap_or_default());
            }
        }
        let mut wrong = None;
        let links = site.topology().links;
        for link in &links {
            let sum: u64 =
                held.remove(&(&link.from, &link.to)).into_iter().flat_map(BTreeMap::into_values).sum();
            if sum != link.reserved || sum > CAPACITY {
                let (from, to) = (&link.from, &link.to);
                wrong = Some(format!(
                    "{} of {CAPACITY} are taken from {from} to {to}, and intents hold {sum}: {views:?}",
                    link.reserved
                ));
            }
        }
        for view in &views {
            let holds = |link: &(ConnectPoint, ConnectPoint)| {
                let mut own = view.reservations.iter().filter(|it| it.from == link.0 && it.to == link.1);
                own.any(|it| it.bandwidth >= view.intent.constraints.bandwidth)
            };
            let stands = view.state == State::Installed && view.retry_in.is_none();
            if stands && !view.links.iter().all(holds) && view.intent.constraints.bandwidth.is_some() {
                wrong.get_or_insert(format!("intent {} stands on what it does not hold: {view:?}", view.key));
            }
        }
        wrong.into_iter().for_each(|wrong| self.violate(wrong));
    }
}
