//! Records of an intent and of the network that survive a restart. They use names, not numbers.
//! Decides which intents stay as they are after a start.
//!
//! Absent: the whole order of a start (`controller/engine/src/intent/load.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use muster_shared::model::flow::{DeviceName, Packed};
use serde::{Deserialize, Serialize};

use super::place::{Open, Placed};
use super::{Held, IntentNo, Manager, Op, Past, Token};
use crate::affected_intents::Hope;
use crate::compile::Compiled;
use crate::host::Host;
use crate::intent::Intent;
use crate::packed_intent::KeptIntent;
use crate::path_search::Path;
use crate::phase::{Request, Standing, State};
use crate::reservations::Share;
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, PortNo, Topology};

/// The path and the reservations of an intent.
#[derive(Clone, Debug)]
pub(super) struct Stand {
    /// Number of its share.
    pub number: u64,
    /// The intent that it was compiled from.
    pub of: KeptIntent,
    /// Whether the devices had every rule of the path at some time.
    pub proven: bool,
    pub paths: Box<[Path]>,
    /// Shared with the tracker.
    pub links: Arc<[LinkNo]>,
    pub points: Arc<[PortNo]>,
    pub label: Option<u16>,
    pub missing: Box<[ConnectPoint]>,
    pub bandwidth: Option<u64>,
}

/// A move from one path to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reroute {
    pub why: Box<str>,
    /// Time from the cause until packets took the new path.
    pub took: Duration,
    /// The devices of the former paths.
    pub before: Vec<Vec<DeviceName>>,
}

/// The links of a path, each with its ends.
pub type PathRecord = Vec<(ConnectPoint, ConnectPoint)>;

/// An intent in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentRecord {
    pub no: IntentNo,
    pub key: Box<str>,
    pub intent: Arc<Intent>,
    /// The resource group that shares its reservations.
    pub group: Option<Box<str>>,
    /// The last request.
    pub request: Request,
    pub state: State,
    /// Version of the outcome.
    pub version: u64,
    /// Failures on devices since the intent was last as requested.
    pub errors: u32,
    /// The reason for the state.
    pub reason: Option<Box<str>>,
    /// The paths that the intent has or moves to.
    pub paths: Vec<PathRecord>,
    /// Links outside of paths, as of a link collection.
    pub links: PathRecord,
    /// The label on all links.
    pub label: Option<u16>,
    /// Bits per second reserved on each link.
    pub bandwidth: Option<u64>,
    /// Points that cannot be reached.
    pub missing: Vec<ConnectPoint>,
    /// Between hosts: the places of both.
    pub ends: Vec<ConnectPoint>,
    /// Moves; the latest is last.
    pub history: Vec<Reroute>,
}

/// A port as last reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRecord {
    /// The interface.
    pub name: Box<str>,
    /// Whether packets can pass.
    pub up: bool,
    /// The port whose LLDP is heard there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<ConnectPoint>,
    /// The port whose LLDP was heard there and is missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<ConnectPoint>,
}

impl Stand {
    pub fn new(compiled: Compiled, number: u64, of: KeptIntent, bandwidth: Option<u64>) -> Self {
        let Compiled { paths, links, points, label, missing, .. } = compiled;
        let (paths, links, points, missing) = (paths.into(), links.into(), points.into(), missing.into());
        Self { number, of, proven: false, paths, links, points, label, missing, bandwidth }
    }

    /// Whether compiling gave the same path and reservations for the same intent. The store has the
    /// newest intent only. After a start, the path may be that of an older one, which asked for less.
    pub fn is_of(&self, compiled: &Compiled, intent: &KeptIntent, bandwidth: Option<u64>) -> bool {
        *self.paths == *compiled.paths
            && *self.links == *compiled.links
            && *self.points == *compiled.points
            && self.label == compiled.label
            && *self.missing == *compiled.missing
            && self.bandwidth == bandwidth
            && self.of == *intent
    }

    /// The changes that may make the path whole.
    pub fn hope(&self) -> Hope {
        if self.missing.is_empty() { Hope::None } else { Hope::Anything }
    }

    /// Whether packets pass over all links and ports of the path.
    pub fn stands(&self, topology: &Topology) -> bool {
        self.links.iter().all(|link| topology.passes(*link))
            && self.points.iter().all(|port| topology.is_up(*port))
    }

    /// The devices of each path, in order.
    pub fn devices(&self, topology: &Topology) -> Vec<Vec<DeviceName>> {
        let of = |path: &Path| {
            let first = path.first().map(|link| topology.devices_of(*link).0);
            let devices = first.into_iter().chain(path.iter().map(|link| topology.devices_of(*link).1));
            devices.map(|device| topology.device_name(device).clone()).collect::<Vec<_>>()
        };
        let paths = self.paths.iter().map(|path| match path.is_empty() {
            // Both ends are on one device.
            true => self
                .points
                .first()
                .map(|port| topology.device_name(topology.device_of(*port)).clone())
                .into_iter()
                .collect(),
            false => of(path),
        });
        paths.collect()
    }

    pub fn missing_text(&self) -> Option<Box<str>> {
        let missing: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| format!("not reached: {}", missing.join(", ")).into())
    }
}

impl Manager {
    /// The record of an intent for the store.
    pub fn record(&self, no: IntentNo) -> Option<IntentRecord> {
        let held = self.held.get(&no)?;
        let stand = held.stand.as_deref();
        let named = |link: &LinkNo| {
            let (from, to) = self.topology.ends(*link);
            (self.topology.point(from), self.topology.point(to))
        };
        let paths: Vec<PathRecord> = stand
            .into_iter()
            .flat_map(|stand| &stand.paths)
            .map(|path| path.iter().map(named).collect())
            .collect();
        let on_paths: BTreeSet<LinkNo> =
            stand.into_iter().flat_map(|stand| &stand.paths).flatten().copied().collect();
        let others =
            stand.into_iter().flat_map(|stand| &*stand.links).filter(|link| !on_paths.contains(link));
        let intent = held.intent.unpack();
        let is_between_hosts = |of: &KeptIntent| match *of == held.intent {
            true => intent.kind.hosts().is_some(),
            false => of.unpack().kind.hosts().is_some(),
        };
        let hosts = stand.filter(|stand| is_between_hosts(&stand.of));
        let ends = hosts.map(|stand| stand.points.iter().map(|port| self.topology.point(*port)).collect());
        Some(IntentRecord {
            no,
            key: (*held.key).into(),
            intent: Arc::new(intent),
            group: held.group.as_deref().map(Into::into),
            request: held.request,
            state: held.standing.state,
            version: held.standing.version,
            errors: held.errors,
            reason: held.reason.clone(),
            paths,
            links: others.map(named).collect(),
            label: stand.and_then(|stand| stand.label),
            bandwidth: stand.and_then(|stand| stand.bandwidth),
            missing: stand.map(|stand| stand.missing.to_vec()).unwrap_or_default(),
            ends: ends.unwrap_or_default(),
            history: held.history(),
        })
    }

    /// Loads an intent after a start, once the network is known. `placed` is what the flow table
    /// holds for it. An installed intent whose links all pass stays as it is; any other is looked
    /// at. The table has `refused` entries as FAILED.
    pub fn load(
        &mut self,
        record: IntentRecord,
        placed: Vec<(DeviceName, Packed)>,
        refused: Vec<(DeviceName, Packed)>,
    ) {
        let IntentRecord { no, key, intent, group, request, state, version, errors, reason, .. } = record;
        let (key, group): (Arc<str>, Option<Arc<str>>) = (key.into(), group.map(Into::into));
        let mut numbered = |entries: Vec<(DeviceName, Packed)>| {
            let number = |(device, packed)| Some((self.topology.know_device(&device).ok()?, packed));
            let mut known: Vec<(DeviceNo, Packed)> = entries.into_iter().filter_map(number).collect();
            known.sort_by_key(|(device, _)| *device);
            known
        };
        let (rules, refused) = (numbered(placed), numbered(refused));
        let placed = Placed::of(rules.clone());
        let kept = KeptIntent::new(&intent);
        let link = |(from, to): &(ConnectPoint, ConnectPoint)| self.topology.link(from, to);
        let paths: Option<Vec<Path>> =
            record.paths.iter().map(|path| path.iter().map(link).collect()).collect();
        let others: Option<Vec<LinkNo>> = record.links.iter().map(link).collect();
        self.remember_hosts(&intent, &record.ends);
        let points: Option<Vec<PortNo>> = {
            let all = intent.kind.ingress().iter().chain(intent.kind.egress()).chain(&record.ends);
            all.map(|point| self.topology.port(point)).collect()
        };
        let stand = paths
            .zip(others)
            .zip(points)
            .filter(|((paths, others), _)| !paths.is_empty() || !others.is_empty());
        let stand = stand.map(|((paths, others), mut points)| {
            let links: BTreeSet<LinkNo> = paths.iter().flatten().copied().chain(others).collect();
            if intent.kind.hosts().is_none() {
                points.sort_unstable();
            }
            let links = links.into_iter().collect();
            let compiled = Compiled {
                paths,
                entries: Vec::new(),
                links,
                points,
                label: record.label,
                missing: record.missing,
            };
            let proven = state == State::Installed;
            Stand { proven, ..Stand::new(compiled, 1, kept.clone(), record.bandwidth) }
        });
        let is_up = stand.as_ref().is_some_and(|stand| stand.stands(&self.topology));
        let hosts = intent.kind.hosts().into_iter().flatten().zip(&record.ends);
        let mut known = hosts.map(|(host, end)| (self.topology.host(host), end));
        let is_there = known.all(|(host, end)| host.is_some_and(|host| host.location == *end));
        let is_still = match (request, state) {
            (Request::Install, State::Installed) => {
                is_up && is_there && !placed.is_empty() && refused.is_empty() && errors == 0
            }
            (Request::Withdraw, State::Withdrawn) => placed.is_empty() && refused.is_empty(),
            _ => false,
        };
        let history = VecDeque::from(record.history);
        let past = (!history.is_empty()).then(|| Box::new(Past { history, leaving: Vec::new() }));
        let mut held = Held {
            key: key.clone(),
            intent: kept,
            group,
            request,
            version,
            standing: Standing { version, step: 0, state },
            errors,
            reason,
            stand: None,
            placed,
            refused,
            work: None,
            open: BTreeMap::new(),
            due: None,
            again: None,
            past,
            shares: 1,
        };
        match stand {
            Some(stand) => {
                self.tracker.stands(no, stand.links.clone(), stand.points.clone(), stand.hope());
                let share = Share { key: key.clone(), number: 1 };
                let (topology, holder) = (&self.topology, held.holder());
                self.ledger.take(topology, share, holder, &stand.links, stand.bandwidth, stand.label);
                held.stand = Some(Box::new(stand));
            }
            None => self.tracker.failed(no, Hope::None, self.topology.next_link()),
        }
        if held.request == Request::Install {
            self.follow_hosts(no, &intent);
        }
        self.counts[state as usize] += 1;
        self.by_key.insert(key, no);
        self.held.insert(no, Box::new(held));
        self.hold_labels(no, &rules);
        if !is_still {
            self.todo.surely(no, &"the controller started".into());
        }
    }

    /// Places hosts where they were, until nodes report them.
    fn remember_hosts(&mut self, intent: &Intent, ends: &[ConnectPoint]) {
        for (host, location) in intent.kind.hosts().into_iter().flatten().zip(ends) {
            if self.topology.host(host).is_none() {
                let known = Host { location: location.clone(), addresses: Vec::new() };
                let _too_many = self.topology.observe_host(host, &location.device.node, Some(known));
            }
            self.topology.is_no_news(host);
        }
    }

    /// After [`Manager::load`], adds an open write of an intent, whatever newer ones there are.
    /// [`Manager::written`] takes its outcome. `before` has entries that devices may have instead
    /// until then.
    pub fn load_open(
        &mut self,
        no: IntentNo,
        device: &DeviceName,
        ops: Vec<Op>,
        before: Vec<Packed>,
    ) -> Option<Token> {
        let device = self.topology.know_device(device).ok()?;
        let held = self.held.get_mut(&no)?;
        self.next_token += 1;
        let token = Token(self.next_token);
        let rules: Vec<(DeviceNo, Packed)> = ops.iter().map(|op| (device, op.packed().clone())).collect();
        held.open.insert(token, Open { device, ops, before });
        self.hold_labels(no, &rules);
        let held = self.held.get_mut(&no)?;
        self.tokens.insert(token, no);
        if held.standing.state != State::Installed {
            self.todo.surely(no, &"the controller started".into());
        }
        Some(token)
    }

    /// After a start, once declared links are known, marks a cable as missing until LLDP is heard
    /// over it.
    pub fn load_missed(&mut self, from: &ConnectPoint, at: &ConnectPoint) {
        if let Some(link) = self.topology.link(from, at) {
            self.topology.is_missed(link);
        }
    }

    /// The records of a device's ports.
    pub fn port_records(&self, device: DeviceNo) -> Vec<PortRecord> {
        let ports = self.topology.ports(device);
        let record = |port: PortNo| PortRecord {
            name: self.topology.point(port).port,
            // The record has what the agent reported, not what damping waits for.
            up: self.topology.is_port_up(port) || self.damping.is_rising(port),
            heard: self.topology.heard_at(port).map(|link| self.topology.point(self.topology.ends(link).0)),
            missed: self.topology.missed_at(port).map(|link| self.topology.point(self.topology.ends(link).0)),
        };
        ports.map(record).collect()
    }
}
