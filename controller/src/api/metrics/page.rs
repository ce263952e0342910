//! The metrics by name. docs/operate.md has the same names in a table, which a test compares with the answer.
//!
//! Absent: where the values come from (`metrics.rs`).

use std::collections::BTreeMap;
use std::fmt;

use muster_api::flow::DeviceView;
use muster_flow::{OwnerCounters, StatsView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::process::Process;
use crate::durations::Durations;
use crate::lease::StandbyView;
use crate::link::Connections;

/// The figures of one answer.
#[derive(Debug)]
pub struct Page {
    pub is_active: bool,
    pub process: Process,
    /// `None`: it stands by.
    pub controller: Option<Controller>,
    pub connections: Option<Connections>,
    /// `None`: the driver has not answered.
    pub site: Option<Site>,
}

/// Figures that an active controller measures of itself.
#[derive(Debug)]
pub struct Controller {
    pub turns: Durations,
    pub commits: Durations,
    /// The lengths of the queues before the driver.
    pub queues: [(&'static str, usize); 3],
    /// By reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Agents can reach it.
    pub is_reachable: bool,
    /// Seconds since 1970.
    pub ca_ends: Option<i64>,
    pub standbys: Vec<StandbyView>,
    /// By what became of them.
    pub spans: [(&'static str, u64); 2],
}

/// The driver's figures of the site.
#[derive(Debug)]
pub struct Site {
    pub is_writable: bool,
    /// Connected, away, revoked.
    pub nodes: [u64; 3],
    /// By action and status.
    pub stacks: BTreeMap<(&'static str, &'static str), u64>,
    pub rollouts: Vec<(&'static str, u64)>,
    pub jobs: Vec<(&'static str, u64)>,
    pub drifted: u64,
    pub intents: Vec<(&'static str, u64)>,
    pub broken_intents: u64,
    pub devices: Vec<(DeviceView, StatsView)>,
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        families.one(
            "muster_controller_active",
            "Whether this controller is the active one of the site.",
            self.is_active,
        )?;
        self.process.encode(&mut families)?;
        if let Some(Connections { new, welcomed }) = self.connections {
            let states = [("new", new), ("welcomed", welcomed)]
                .map(|(state, count)| ([("state", state)], count as u64));
            families.gauges("muster_agent_connections", "Connections of agents.", states)?;
        }
        let Some(controller) = &self.controller else { return Ok(()) };
        controller.encode(&mut families)?;
        families.one(
            "muster_driver_answers",
            "Whether the driver answered in time; if not, the figures of the site are missing.",
            self.site.is_some(),
        )?;
        self.site.as_ref().map_or(Ok(()), |site| site.encode(&mut families))
    }
}

impl Process {
    fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory.", self.resident),
            ("process_open_fds", "Open files and connections.", self.open_files),
            ("process_max_fds", "Files and connections that may be open.", self.open_files_max),
        ] {
            families.gauges(name, help, value.map(|value| ([], value)))?;
        }
        Ok(())
    }
}

impl Controller {
    fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        families.durations(
            "muster_driver_turn_duration_seconds",
            "Time of a turn of the driver, with its commits.",
            &self.turns,
        )?;
        families.durations(
            "muster_store_commit_duration_seconds",
            "Time of a commit to the database, also of one that failed.",
            &self.commits,
        )?;
        let queues = self.queues.map(|(queue, length)| ([("queue", queue)], length as u64));
        families.gauges(
            "muster_driver_queue_length",
            "What waits for the driver: requests of the API, nodes with messages, servers that join.",
            queues,
        )?;
        let refused = self.refused.iter().map(|(reason, count)| ([("reason", *reason)], *count));
        families.counters("muster_refused_packets", "Packets of agents that were not taken.", refused)?;
        families.one(
            "muster_link_up",
            "Whether agents can reach the controller; 0 only where a broker is in between.",
            self.is_reachable,
        )?;
        families.signed(
            "muster_ca_not_after_timestamp_seconds",
            "When the certificate of the site's CA ends.",
            self.ca_ends,
        )?;
        let spans = self.spans.map(|(outcome, count)| ([("outcome", outcome)], count));
        families.counters(
            "muster_telemetry_spans",
            "Spans of traces that the collector has taken, or that were dropped.",
            spans,
        )?;
        let standbys = self.standbys.iter();
        families.gauges(
            "muster_standby_behind_seconds",
            "Time since a standby looked at the lease.",
            standbys.map(|standby| ([("controller", &*standby.member.name)], standby.behind.as_secs())),
        )
    }
}

impl Site {
    fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        families.one("muster_store_writable", "Whether the database can be written.", self.is_writable)?;
        let nodes = ["online", "offline", "revoked"].into_iter().zip(self.nodes);
        families.gauges(
            "muster_nodes",
            "Nodes that have joined.",
            nodes.map(|(state, count)| ([("state", state)], count)),
        )?;
        let stacks = self.stacks.iter();
        let stacks =
            stacks.map(|((action, status), count)| ([("action", *action), ("status", *status)], *count));
        families.gauges("muster_stacks", "Stacks.", stacks)?;
        let rollouts = self.rollouts.iter().map(|(state, count)| ([("state", *state)], *count));
        families.gauges("muster_rollouts", "Rollouts of the stacks' last operations.", rollouts)?;
        let jobs = self.jobs.iter().map(|(outcome, count)| ([("outcome", *outcome)], *count));
        families.counters("muster_jobs", "Jobs that ended, since the site was loaded.", jobs)?;
        families.gauges(
            "muster_drifted_resources",
            "Resources that were observed drifted or missing.",
            [([], self.drifted)],
        )?;
        let intents = self.intents.iter().map(|(state, count)| ([("state", *state)], *count));
        families.gauges("muster_intents", "Intents.", intents)?;
        families.gauges(
            "muster_intents_broken",
            "INSTALLED intents with packets that do not arrive, as traces in the background found.",
            [([], self.broken_intents)],
        )?;
        devices(families, &self.devices)
    }
}

fn devices(families: &mut Families<'_>, devices: &[(DeviceView, StatsView)]) -> fmt::Result {
    let rules = devices.iter().flat_map(|(view, _)| {
        let states = [
            ("PENDING_ADD", view.pending_add),
            ("ADDED", view.added),
            ("PENDING_REMOVE", view.pending_remove),
            ("FAILED", view.failed),
            ("EXPIRED", view.expired),
        ];
        states.map(|(state, count)| ([("device", view.device.as_str()), ("state", state)], count))
    });
    families.gauges("muster_flow_rules", "Entries of flow tables.", rules)?;
    type Count = fn(&DeviceView) -> u64;
    let gauges: [(&str, &str, Count); 2] = [
        ("muster_flow_foreign_rules", "Rules on devices that are not Muster's.", |view| view.foreign),
        ("muster_flow_batches_in_flight", "Batches that an agent has.", |view| view.in_flight.into()),
    ];
    for (name, help, count) in gauges {
        families.gauges(
            name,
            help,
            devices.iter().map(|(view, _)| ([("device", view.device.as_str())], count(view))),
        )?;
    }
    let counters: [(&str, &str, Count); 4] = [
        ("muster_flow_batches", "Batches sent.", |view| view.batches),
        ("muster_flow_refusals", "Batches refused.", |view| view.refusals),
        ("muster_flow_reconciliations", "Tables that differed.", |view| view.reconciliations),
        ("muster_flow_repaired", "Entries corrected.", |view| view.repaired),
    ];
    for (name, help, count) in counters {
        families.counters(
            name,
            help,
            devices.iter().map(|(view, _)| ([("device", view.device.as_str())], count(view))),
        )?;
    }
    type Sum = fn(&OwnerCounters) -> u64;
    let sums: [(&str, &str, Sum); 2] = [
        ("muster_flow_packets", "Packets, as last told.", |owner| owner.packets),
        ("muster_flow_bytes", "Bytes, as last told.", |owner| owner.bytes),
    ];
    for (name, help, sum) in sums {
        let counted = devices.iter().filter(|(_, stats)| stats.age.is_some());
        let owners = counted.flat_map(|(view, stats)| {
            stats.owners.iter().map(move |owner| {
                ([("device", view.device.as_str()), ("owner", owner.owner.as_str())], sum(owner))
            })
        });
        families.counters(name, help, owners)?;
    }
    Ok(())
}

/// Writes one metric after the other.
struct Families<'e>(DescriptorEncoder<'e>);

/// A metric's value with its labels.
type Sample<'l, const N: usize> = ([(&'l str, &'l str); N], u64);

impl Families<'_> {
    /// 1 or 0.
    fn one(&mut self, name: &str, help: &str, is_so: bool) -> fmt::Result {
        self.gauges(name, help, [([], u64::from(is_so))])
    }

    fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample<'l, N>>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        samples
            .into_iter()
            .try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
    }

    /// `_total` is added to the name.
    fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample<'l, N>>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, value)| {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    fn signed(&mut self, name: &str, help: &str, value: Option<i64>) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        value.map_or(Ok(()), |value| family.encode_gauge(&value))
    }

    fn durations(&mut self, name: &str, help: &str, durations: &Durations) -> fmt::Result {
        let family = self.0.encode_descriptor(name, help, None, durations.metric_type())?;
        durations.encode(family)
    }
}
