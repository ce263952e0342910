//! `GET /metrics`: for Prometheus, in its text format 0.0.4. Written by hand, since the text is a few lines
//! and the engine already has the counters.
//!
//! Absent: the counting of packets that were not taken (`link/refused.rs`), and `muster status` (`status.rs`).

use std::fmt::Write as _;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use muster_api::flow::DeviceView;
use muster_engine::Request;
use muster_flow::StatsView;

use super::error::ApiError;
use super::{Api, blocking};

/// The most owners named for each device, the largest first; the others are one. Each value of a label costs
/// memory in the reader.
const OWNERS_MAX: usize = 20;

/// GET /metrics
pub async fn metrics(api: Api) -> Result<Response, ApiError> {
    // The answers of the devices are in the next sample.
    api.driver.request(Request::SampleFlows).await?;
    let look = |site: muster_engine::View<'_>| {
        (site.node_counts(), site.stack_counts(), site.flows().metrics(OWNERS_MAX))
    };
    let (nodes, stacks, devices) = api.driver.query(look).await?;
    let refused = api.config.refused.counts();
    let text = blocking(move || {
        let mut page = Page::default();
        page.family("muster_nodes", "gauge", "Nodes that have joined.");
        for (state, count) in ["online", "offline", "revoked"].into_iter().zip(nodes) {
            page.sample("muster_nodes", &[("state", state)], count);
        }
        page.family("muster_stacks", "gauge", "Stacks.");
        for ((action, status), count) in stacks {
            page.sample("muster_stacks", &[("action", action), ("status", status)], count);
        }
        page.family("muster_refused_packets_total", "counter", "Packets of agents that were not taken.");
        for (reason, count) in refused {
            page.sample("muster_refused_packets_total", &[("reason", reason)], count);
        }
        flows(&mut page, &devices);
        Ok(page.0)
    });
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.await?).into_response())
}

fn flows(page: &mut Page, devices: &[(DeviceView, StatsView)]) {
    page.family("muster_flow_rules", "gauge", "Entries of flow tables.");
    for (view, _) in devices {
        let states = [
            ("PENDING_ADD", view.pending_add),
            ("ADDED", view.added),
            ("PENDING_REMOVE", view.pending_remove),
            ("FAILED", view.failed),
            ("EXPIRED", view.expired),
        ];
        for (state, count) in states {
            page.sample("muster_flow_rules", &[("device", &view.device), ("state", state)], count);
        }
    }
    type Count = fn(&DeviceView) -> u64;
    let counts: [(&str, &str, &str, Count); 6] = [
        ("muster_flow_foreign_rules", "gauge", "Rules on devices that are not Muster's.", |view| {
            view.foreign
        }),
        ("muster_flow_batches_in_flight", "gauge", "Batches that an agent has.", |view| {
            view.in_flight.into()
        }),
        ("muster_flow_batches_total", "counter", "Batches sent.", |view| view.batches),
        ("muster_flow_refusals_total", "counter", "Batches refused.", |view| view.refusals),
        ("muster_flow_reconciliations_total", "counter", "Tables that differed.", |view| {
            view.reconciliations
        }),
        ("muster_flow_repaired_total", "counter", "Entries put right.", |view| view.repaired),
    ];
    for (name, kind, help, count) in counts {
        page.family(name, kind, help);
        for (view, _) in devices {
            page.sample(name, &[("device", &view.device)], count(view));
        }
    }
    type Sum = fn(&muster_flow::OwnerCounters) -> u64;
    let sums: [(&str, &str, Sum); 2] = [
        ("muster_flow_packets_total", "Packets, as last told.", |owner| owner.packets),
        ("muster_flow_bytes_total", "Bytes, as last told.", |owner| owner.bytes),
    ];
    for (name, help, sum) in sums {
        page.family(name, "counter", help);
        for (view, stats) in devices.iter().filter(|(_, stats)| stats.age.is_some()) {
            for owner in &stats.owners {
                page.sample(name, &[("device", &view.device), ("owner", &owner.owner)], sum(owner));
            }
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}
