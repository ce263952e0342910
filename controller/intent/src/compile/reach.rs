//! Compiles each kind of intent: from one port to another or to several, from several to one, over
//! given links, or between hosts.
//!
//! Absent: the choice of a path (`compile/constrained_path.rs`), and the rules (`compile/rules.rs`).

use std::collections::{BTreeMap, BTreeSet};

use muster_shared::model::flow::{Action, Criterion, Entry, Field, Group, GroupBucket, GroupKind};

use super::rules::{self, Fork, Forks};
use super::{CompileError, Compiled, Compiler};
use crate::host::{HostId, HostLocation};
use crate::intent::Intent;
use crate::path_search::Path;
use crate::reservations::Holder;
use crate::topology::{ConnectPoint, DeviceNo, LinkNo, PortNo};

impl Compiler<'_> {
    pub(super) fn point_to_point(
        &mut self,
        intent: &Intent,
        key: &str,
        holder: &Holder,
        group: u32,
        from: &ConnectPoint,
        to: &ConnectPoint,
    ) -> Result<Compiled, CompileError> {
        let (ingress, egress) = (self.end(from)?, self.end(to)?);
        let [start, end] = [ingress, egress].map(|port| self.topology.device_of(port));
        if intent.constraints.protection {
            return self.protected(intent, holder, group, ingress, egress);
        }
        let path = self.route(&intent.constraints, holder, start, end)?;
        if intent.constraints.vlan && !path.is_empty() {
            return self.labelled(intent, key, path, ingress, egress);
        }
        let mut forks = Forks::new();
        self.lay(&path, ingress, egress, &mut forks);
        let entries = rules::of_forks(self.topology, intent, &forks);
        Ok(Compiled { paths: vec![path], entries, ..Compiled::default() })
    }

    /// Both directions, over the same links if possible.
    pub(super) fn host_to_host(
        &mut self,
        intent: &Intent,
        holder: &Holder,
        one: HostId,
        two: HostId,
    ) -> Result<Compiled, CompileError> {
        let at = |compiler: &Self, host: HostId| match compiler.topology.host_location(host) {
            HostLocation::At(known) => compiler.end(&known.location),
            HostLocation::Unknown => Err(CompileError::NoHost(host)),
            HostLocation::Claimed(by) => {
                let at = by.iter().map(|host| host.location.clone()).collect();
                Err(CompileError::HostClaimed { host, at })
            }
        };
        let ports = [at(self, one)?, at(self, two)?];
        let mut made = Compiled { points: ports.to_vec(), ..Compiled::default() };
        if ports[0] == ports[1] {
            // Hosts behind one port reach each other without rules.
            made.paths = vec![Path::new(), Path::new()];
            return Ok(made);
        }
        let [start, end] = ports.map(|port| self.topology.device_of(port));
        let [there, back] = self.two_ways(&intent.constraints, holder, start, end)?;
        for (path, [from, to], hosts) in
            [(&there, ports, [one, two]), (&back, [ports[1], ports[0]], [two, one])]
        {
            let mut forks = Forks::new();
            self.lay(path, from, to, &mut forks);
            let fields = [Field::EthSrc, Field::EthDst].into_iter().zip(hosts);
            let own = fields.map(|(field, host)| Criterion::Field { field, value: host.value(), mask: None });
            let selector = intent.selector.iter().cloned().chain(own).collect();
            let directed = Intent { selector, ..intent.clone() };
            made.entries.extend(rules::of_forks(self.topology, &directed, &forks));
        }
        made.paths = vec![there, back];
        Ok(made)
    }

    /// Adds the forks of a path.
    fn lay(&self, path: &[LinkNo], ingress: PortNo, egress: PortNo, forks: &mut Forks) {
        let mut at = ingress;
        for link in path {
            let (out, next) = self.topology.ends(*link);
            forks.entry(at).or_default().on.insert(out);
            at = next;
        }
        forks.entry(at).or_default().out.insert(egress);
    }

    /// A path with a label. The first device adds the tag, and the last one removes it.
    fn labelled(
        &self,
        intent: &Intent,
        key: &str,
        path: Path,
        ingress: PortNo,
        egress: PortNo,
    ) -> Result<Compiled, CompileError> {
        let topology = self.topology;
        let label = self.ledger.label(topology, &path, key).ok_or_else(|| {
            let [from, to] =
                [ingress, egress].map(|port| topology.device_name(topology.device_of(port)).clone());
            CompileError::NoLabel { from, to }
        })?;
        let mut entries = Vec::with_capacity(path.len() + 1);
        let mut at = None;
        for link in &path {
            let (out, next) = topology.ends(*link);
            let device = topology.device_of(out);
            entries.push(match at {
                None => {
                    let actions = rules::tagged(topology, out, label);
                    (device, rules::entry(topology, intent, ingress, intent.selector.clone(), actions))
                }
                Some(port) => {
                    let actions = vec![rules::output(topology, out)];
                    (device, rules::entry(topology, intent, port, vec![rules::labelled(label)], actions))
                }
            });
            at = Some(next);
        }
        if let Some(port) = at {
            let mut actions = vec![Action::PopVlan];
            actions.extend(intent.treatment.iter().cloned());
            actions.push(rules::output(topology, egress));
            let rule = rules::entry(topology, intent, port, vec![rules::labelled(label)], actions);
            entries.push((topology.device_of(port), rule));
        }
        Ok(Compiled { paths: vec![path], entries, label: Some(label), ..Compiled::default() })
    }

    /// A group on the first device sends packets over the second path if the port of the first is down.
    fn protected(
        &mut self,
        intent: &Intent,
        holder: &Holder,
        group: u32,
        ingress: PortNo,
        egress: PortNo,
    ) -> Result<Compiled, CompileError> {
        let [start, end] = [ingress, egress].map(|port| self.topology.device_of(port));
        if start == end {
            let mut forks = Forks::new();
            self.lay(&[], ingress, egress, &mut forks);
            let entries = rules::of_forks(self.topology, intent, &forks);
            return Ok(Compiled { paths: vec![Path::new()], entries, ..Compiled::default() });
        }
        let (first, second) = self.two_routes(&intent.constraints, holder, start, end)?;
        let topology = self.topology;
        let mut forks = Forks::new();
        let mut buckets = Vec::new();
        for path in [Some(&first), second.as_ref()].into_iter().flatten() {
            self.lay(path, ingress, egress, &mut forks);
            let Some(link) = path.first() else { continue };
            let out = topology.ends(*link).0;
            let watch_port = Some(rules::port(topology, out));
            buckets.push(GroupBucket {
                weight: 0,
                watch_port,
                treatment: vec![rules::output(topology, out)],
            });
        }
        forks.remove(&ingress);
        let mut entries = rules::of_forks(topology, intent, &forks);
        entries.push((start, Entry::Group(Group { number: group, kind: GroupKind::FastFailover, buckets })));
        let selector = intent.selector.clone();
        entries.push((start, rules::entry(topology, intent, ingress, selector, vec![Action::Group(group)])));
        let paths = [Some(first), second].into_iter().flatten().collect();
        Ok(Compiled { paths, entries, ..Compiled::default() })
    }

    pub(super) fn spread(
        &mut self,
        intent: &Intent,
        holder: &Holder,
        from: &ConnectPoint,
        to: &[ConnectPoint],
    ) -> Result<Compiled, CompileError> {
        let ingress = self.end(from)?;
        let start = self.topology.device_of(ingress);
        let mut made = Compiled::default();
        let mut forks = Forks::new();
        // The link by which each device is reached. A second one would give the device every packet twice.
        let mut reached: BTreeMap<DeviceNo, Option<LinkNo>> = BTreeMap::from([(start, None)]);
        for point in to {
            let found = self.end(point).and_then(|egress| {
                let path = self.route(&intent.constraints, holder, start, self.topology.device_of(egress))?;
                Ok((egress, path))
            });
            let Some((egress, path)) = self.or_missing(intent, point, found, &mut made.missing)? else {
                continue;
            };
            // Use the part of the path after the last device that is reached already.
            let known =
                path.iter().rposition(|link| reached.contains_key(&self.topology.devices_of(*link).1));
            let rest = path.get(known.map_or(0, |at| at + 1)..).unwrap_or_default().to_vec();
            let joint = rest
                .first()
                .map_or(self.topology.device_of(egress), |link| self.topology.devices_of(*link).0);
            let mut way = Path::new();
            let mut at = joint;
            while let Some(Some(link)) = reached.get(&at) {
                way.push(*link);
                at = self.topology.devices_of(*link).0;
            }
            way.reverse();
            way.extend(&rest);
            for link in &rest {
                reached.insert(self.topology.devices_of(*link).1, Some(*link));
            }
            self.lay(&way, ingress, egress, &mut forks);
            made.paths.push(way);
        }
        self.finish_many(intent, &forks, made, from, to)
    }

    pub(super) fn gather(
        &mut self,
        intent: &Intent,
        holder: &Holder,
        from: &[ConnectPoint],
        to: &ConnectPoint,
    ) -> Result<Compiled, CompileError> {
        let egress = self.end(to)?;
        let end = self.topology.device_of(egress);
        let mut made = Compiled::default();
        let mut forks = Forks::new();
        // The link by which each device goes on. A second one might make a circle.
        let mut onwards: BTreeMap<DeviceNo, LinkNo> = BTreeMap::new();
        for point in from {
            let found = self.end(point).and_then(|ingress| {
                let path = self.route(&intent.constraints, holder, self.topology.device_of(ingress), end)?;
                Ok((ingress, path))
            });
            let Some((ingress, path)) = self.or_missing(intent, point, found, &mut made.missing)? else {
                continue;
            };
            let mut way = Path::new();
            let mut at = self.topology.device_of(ingress);
            let mut own = path.into_iter();
            while at != end {
                let link = match onwards.get(&at) {
                    Some(link) => *link,
                    None => match own.find(|link| self.topology.devices_of(*link).0 == at) {
                        Some(link) => link,
                        None => break,
                    },
                };
                way.push(link);
                at = self.topology.devices_of(link).1;
            }
            for link in &way {
                onwards.entry(self.topology.devices_of(*link).0).or_insert(*link);
            }
            self.lay(&way, ingress, egress, &mut forks);
            made.paths.push(way);
        }
        self.finish_many(intent, &forks, made, to, from)
    }

    /// With `partial_failure`, notes a point that cannot be connected.
    fn or_missing<T>(
        &self,
        intent: &Intent,
        point: &ConnectPoint,
        found: Result<T, CompileError>,
        missing: &mut Vec<ConnectPoint>,
    ) -> Result<Option<T>, CompileError> {
        match found {
            Err(_) if intent.constraints.partial_failure => {
                missing.push(point.clone());
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    fn finish_many(
        &self,
        intent: &Intent,
        forks: &Forks,
        made: Compiled,
        one: &ConnectPoint,
        many: &[ConnectPoint],
    ) -> Result<Compiled, CompileError> {
        if made.paths.is_empty() {
            let from = one.device.clone();
            let to = many.first().map_or_else(|| from.clone(), |point| point.device.clone());
            return Err(CompileError::NoPath { from, to, with: String::new(), closed: None });
        }
        Ok(Compiled { entries: rules::of_forks(self.topology, intent, forks), ..made })
    }

    pub(super) fn collect(
        &mut self,
        intent: &Intent,
        holder: &Holder,
        links: &[(ConnectPoint, ConnectPoint)],
        from: &[ConnectPoint],
        to: &[ConnectPoint],
    ) -> Result<Compiled, CompileError> {
        let topology = self.topology;
        let mut out: BTreeMap<DeviceNo, Fork> = BTreeMap::new();
        let mut into: Vec<PortNo> = Vec::new();
        let mut given: BTreeSet<LinkNo> = BTreeSet::new();
        for (start, end) in links {
            let wrong = |why, link| CompileError::Link { from: start.clone(), to: end.clone(), why, link };
            let link = topology.link(start, end).ok_or_else(|| wrong("is not known", None))?;
            if !topology.passes(link) {
                return Err(wrong("is down", Some(link)));
            }
            if !self.gate(&intent.constraints, holder).permits(link) {
                return Err(wrong("has not the bandwidth that is asked for", Some(link)));
            }
            given.insert(link);
            let (near, far) = topology.ends(link);
            out.entry(topology.device_of(near)).or_default().on.insert(near);
            into.push(far);
        }
        if let Some(device) = circle(&given, |link| topology.devices_of(link)) {
            return Err(CompileError::Circle(topology.device_name(device).clone()));
        }
        for point in to {
            let egress = self.end(point)?;
            out.entry(topology.device_of(egress)).or_default().out.insert(egress);
        }
        let mut forks = Forks::new();
        for point in from {
            into.push(self.end(point)?);
        }
        for port in into {
            let name = topology.device_name(topology.device_of(port));
            let Some(fork) = out.get(&topology.device_of(port)) else {
                let to = to.first().map_or_else(|| name.clone(), |point| point.device.clone());
                return Err(CompileError::NoPath {
                    from: name.clone(),
                    to,
                    with: " over the links given".into(),
                    closed: None,
                });
            };
            let (on, out) = (fork.on.clone(), fork.out.clone());
            forks.insert(port, Fork { on, out });
        }
        let entries = rules::of_forks(topology, intent, &forks);
        let links: Vec<LinkNo> = given.into_iter().collect();
        Ok(Compiled { entries, links, ..Compiled::default() })
    }
}

/// A device on a circle of links, if there is one.
fn circle(links: &BTreeSet<LinkNo>, devices_of: impl Fn(LinkNo) -> (DeviceNo, DeviceNo)) -> Option<DeviceNo> {
    let mut left: BTreeSet<(DeviceNo, DeviceNo)> = links.iter().map(|link| devices_of(*link)).collect();
    loop {
        let starts: BTreeSet<DeviceNo> = left.iter().map(|(from, _)| *from).collect();
        let before = left.len();
        // A link to a device without further links is in no circle.
        left.retain(|(_, to)| starts.contains(to));
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            return left.first().map(|(from, _)| *from);
        }
    }
}
