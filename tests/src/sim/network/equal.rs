//! Once nothing goes wrong any more: the topology is what the cables are, and each intent that can be is INSTALLED.

use std::collections::BTreeSet;

use muster_flow::record::FlowMark;
use muster_intent::intent::Kind;
use muster_intent::manager::{IntentRecord, Wish};
use muster_intent::phase::{Request, State};
use muster_intent::topology::ConnectPoint;
use muster_shared::model::flow::{DeviceName, FlowId};

use super::super::store::Tables;
use super::super::world::World;
use super::fabric::{HOSTS, cable_of, cable_port};
use super::model::is_stacks;

impl World {
    /// An intent that is still under way.
    pub fn intents_under_way(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let is_open = |record: &IntentRecord| {
            !matches!(record.state, State::Installed | State::Withdrawn | State::Failed)
        };
        let mut all = shared.tables.intents.intents.values();
        let (record, _) = all.find(|(record, _)| is_open(record))?;
        let reason = record.reason.as_deref().unwrap_or_default();
        Some(format!("intent {} is still {}: {reason}", record.key, record.state.as_str()))
    }

    /// The first difference between intents and their network.
    pub fn network_differs(&mut self) -> Option<String> {
        if self.network.is_empty() {
            return None;
        }
        self.reads_planes();
        (0..self.network.fabric.devices.len())
            .find_map(|device| self.topology_differs(device))
            .or_else(|| self.intents_differ())
            .or_else(|| self.stack_intents_differ())
            .or_else(|| self.is_left_on_a_switch())
    }

    fn intents_differ(&self) -> Option<String> {
        let shared = &mut *self.shared.borrow_mut();
        for (record, _) in shared.tables.intents.intents.values() {
            if let Some(wrong) = self.intent_differs(record, &shared.tables) {
                return Some(wrong);
            }
            match (record.request, record.state) {
                (_, State::Installed) => shared.counts.add("intent delivers"),
                (Request::Install, _) if !self.is_whole_network() => {
                    shared.counts.add("intent is not INSTALLED without a cable");
                }
                _ => {}
            }
        }
        None
    }

    fn is_whole_network(&self) -> bool {
        (0..self.network.cables.len()).all(|cable| (0..2).all(|end| self.passes(cable, end)))
    }

    /// A bridge as it is durable.
    fn topology_differs(&self, device: usize) -> Option<String> {
        let name = &self.network.fabric.devices[device];
        let shared = self.shared.borrow();
        let Some((up, ports)) = shared.tables.intents.devices.get(name) else {
            return Some(format!("nothing is known of {name}"));
        };
        let mut wanted: Vec<(String, bool, Option<ConnectPoint>)> =
            HOSTS.iter().map(|host| ((*host).to_owned(), true, None)).collect();
        for (cable, ends) in self.network.fabric.cables.iter().enumerate() {
            for end in (0..2).filter(|end| ends[*end] == device) {
                let port = cable_port(cable);
                let far = self.network.fabric.link(cable, 1 - end).0;
                let heard = self.passes(cable, 1 - end).then_some(far);
                wanted.push((port.clone(), self.is_port_up(device, &port), heard));
            }
        }
        wanted.sort();
        let mut is: Vec<(String, bool, Option<ConnectPoint>)> =
            ports.iter().map(|port| (port.name.to_string(), port.up, port.heard.clone())).collect();
        is.sort();
        (!*up || is != wanted).then(|| format!("{name} is known to have {up} {is:?}, and has {wanted:?}"))
    }

    fn intent_differs(&self, record: &IntentRecord, tables: &Tables) -> Option<String> {
        let wish = Wish { intent: record.intent.clone(), group: record.group.clone() };
        let can = self.can_be(&wish);
        let state = record.state;
        let right = match (record.request, can) {
            (Request::Install, Some(true)) => state == State::Installed,
            (Request::Install, Some(false)) => state == State::Failed,
            (Request::Install, None) => matches!(state, State::Installed | State::Failed),
            (Request::Withdraw | Request::Purge, _) => state == State::Withdrawn,
        };
        if !right {
            let key = &record.key;
            return Some(format!("intent {key} is {}, and can be {can:?}: {record:?}", state.as_str()));
        }
        let own = tables.flows.entries.values().filter(|it| it.owner.as_intent() == Some(record.no));
        let rules = own.filter(|it| it.mark == FlowMark::None).count();
        if state != State::Installed {
            return (rules > 0).then(|| format!("intent {} has {rules} rules: {record:?}", record.key));
        }
        if rules == 0 {
            return Some(format!("intent {} is INSTALLED and has no rules", record.key));
        }
        let unreached = self.unreached(&wish);
        let missing: BTreeSet<&ConnectPoint> = record.missing.iter().collect();
        if wish.intent.constraints.bandwidth.is_none() && unreached.iter().collect::<BTreeSet<_>>() != missing
        {
            return Some(format!("intent {} does not reach {unreached:?}: {record:?}", record.key));
        }
        self.delivers_wrongly(record)
    }

    /// The intent of each stack that is COMPLETE is its own, and INSTALLED.
    fn stack_intents_differ(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let intents = shared.tables.intents.intents.values();
        let mut stacks = intents.filter(|(record, _)| is_stacks(&record.key));
        stacks.find_map(|(record, owner)| match owner {
            None => Some(format!("the stack's intent {} is nobody's", record.key)),
            Some(row) if !shared.tables.rows.contains_key(row) => {
                Some(format!("the row {row} is gone that intent {} belongs to", record.key))
            }
            Some(_) => None,
        })
    }

    /// A rule of an intent that is withdrawn, or was.
    fn is_left_on_a_switch(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let flows = &shared.tables.flows;
        for (device, name) in self.network.fabric.devices.iter().enumerate() {
            let Some(at) = self.machine_of(device) else { continue };
            let Some(plane) = self.machines[at].host.switch.planes.get(name.bridge.as_str()) else {
                continue;
            };
            if shared.flows.forgotten.contains(name) {
                continue;
            }
            let number = super::super::flow::number_of(flows, &name.node, &name.bridge);
            let ours = plane.held.iter().filter(|(_, held)| FlowId::is_ours(held.cookie));
            let entry = |id: &FlowId| number.and_then(|number| flows.entries.get(&(number, *id)));
            for (id, held) in ours {
                if super::walk::is_intents(&held.packed) && entry(id).is_none() {
                    return Some(format!("rule {id} of an intent is left on {name}: {held:?}"));
                }
            }
        }
        None
    }

    /// Whether packets get from one bridge to another as is asked.
    fn is_reached(&self, wish: &Wish, from: &DeviceName, to: &DeviceName) -> bool {
        let constraints = &wish.intent.constraints;
        let numbers = self.network.number(from).zip(self.network.number(to));
        let Some((from, to)) = numbers else { return false };
        let open = |cable: usize, end: usize| {
            let [one, other] = [end, 1 - end].map(|end| {
                let device = self.network.fabric.cables[cable][end];
                !constraints.obstacles.contains(&self.network.fabric.devices[device])
            });
            let link = self.network.fabric.link(cable, end);
            one && other && self.passes(cable, end) && !constraints.obstacle_links.contains(&link)
        };
        self.network.fabric.reached(from, open).contains_key(&to)
    }

    /// Points that cannot be reached.
    fn unreached(&self, wish: &Wish) -> Vec<ConnectPoint> {
        let unreached = |points: &[ConnectPoint], is_reached: &dyn Fn(&ConnectPoint) -> bool| {
            points.iter().filter(|point| !is_reached(point)).cloned().collect()
        };
        match &wish.intent.kind {
            Kind::SinglePointToMultiPoint { from, to } => {
                unreached(to, &|point| self.is_reached(wish, &from.device, &point.device))
            }
            Kind::MultiPointToSinglePoint { from, to } => {
                unreached(from, &|point| self.is_reached(wish, &point.device, &to.device))
            }
            Kind::PointToPoint { .. } | Kind::LinkCollection { .. } | Kind::HostToHost { .. } => Vec::new(),
        }
    }

    /// Whether it can be INSTALLED; none: that is not for this to say.
    fn can_be(&self, wish: &Wish) -> Option<bool> {
        let (kind, constraints) = (&wish.intent.kind, &wish.intent.constraints);
        let mut points = kind.ingress().iter().chain(kind.egress());
        let is_there = |point: &ConnectPoint| {
            let is_host = HOSTS.contains(&&*point.port) && cable_of(&point.port).is_none();
            self.network.number(&point.device).is_some() && is_host
        };
        if !points.all(is_there) {
            return Some(false);
        }
        let reached = match kind {
            // No operator here asks for one.
            Kind::HostToHost { .. } => return None,
            Kind::PointToPoint { from, to } => self.is_reached(wish, &from.device, &to.device),
            Kind::LinkCollection { links, .. } => links.iter().all(|(from, _)| {
                let (device, cable) = (self.network.number(&from.device), cable_of(&from.port));
                let (Some(device), Some(cable)) = (device, cable) else { return false };
                let end = self.network.fabric.cables[cable].iter().position(|it| *it == device);
                end.is_some_and(|end| self.passes(cable, end))
            }),
            Kind::SinglePointToMultiPoint { to: many, .. }
            | Kind::MultiPointToSinglePoint { from: many, .. } => {
                let unreached = self.unreached(wish).len();
                unreached == 0 || constraints.partial_failure && unreached < many.len()
            }
        };
        // Unknown: the shares of others, and whether a path by all waypoints passes none twice.
        let is_open = constraints.bandwidth.is_some() || !constraints.waypoints.is_empty();
        match reached {
            false => Some(false),
            true => (!is_open).then_some(true),
        }
    }
}
