//! The trace of a packet: a form, the path drawn, and each hop; and the same for the packets of an intent.

use std::collections::BTreeSet;

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use muster_api::intent::{LinkEnds, Point, TopologyView};
use muster_api::trace::{IntentProof, TraceEnd, TraceHop, TraceRule, TraceView, Verdict};
use muster_front::{escaped, path};
use muster_picture::network::{Picture, point};
use muster_picture::words::count;
use serde::Deserialize;

use super::device_path;
use crate::client::Problem;
use crate::frame::{Page, Section, badge, errors, link, picture, table, text};
use crate::login::Visitor;

/// The packet to trace.
#[derive(Deserialize)]
pub struct TraceQuery {
    #[serde(default)]
    from: String,
    #[serde(default)]
    packet: String,
}

/// GET /console/trace
pub async fn show(visitor: Visitor, Query(query): Query<TraceQuery>) -> Response {
    let below = if query.from.is_empty() {
        Ok(html! {})
    } else {
        let asked = format!("/v1/trace?from={}&packet={}", escaped(&query.from), escaped(&query.packet));
        match visitor.api.get::<TraceView>(&asked).await {
            Ok(trace) => traced(&visitor, &trace).await,
            Err(problem) => Ok(errors(&problem)),
        }
    };
    super::shown(&visitor, below.map(|below| page(&query, &below)))
}

fn page(query: &TraceQuery, below: &Markup) -> Page {
    let content = html! {
        p { "Each switch is asked what it would do with the packet. Nothing is sent, and nothing changes." }
        form.search method="get" action="/console/trace" {
            div {
                label for="from" { "From" }
                input id="from" name="from" value=(query.from) required placeholder="web-1/br0:p1" spellcheck="false";
            }
            div {
                label for="packet" { "Packet, as the selector of a flow rule" }
                input id="packet" name="packet" value=(query.packet) placeholder="eth_type: ipv4, ipv4_dst: 10.0.0.7" spellcheck="false";
            }
            button { "Trace" }
        }
        (below)
    };
    Page { section: Section::Network, title: "Trace a packet".to_owned(), is_live: false, content }
}

/// GET /console/intents/{key}/verify
pub async fn verify(visitor: Visitor, Path(key): Path<String>) -> Response {
    super::shown(&visitor, proof(&visitor, &key).await)
}

async fn proof(visitor: &Visitor, key: &str) -> Result<Page, Problem> {
    let proof: IntentProof = visitor.api.get(&path(["v1", "intents", key, "verify"])).await?;
    let (class, says) = match proof.verdict {
        Verdict::Ok => ("ok", "Each packet that was tried arrives."),
        Verdict::Broken => ("FAILED", "A packet does not arrive as it must."),
        Verdict::Unknown => ("unknown", "It is not known whether its packets arrive."),
    };
    let drawn = match &proof.trace {
        Some(trace) => traced(visitor, trace).await?,
        None => html! {},
    };
    let content = html! {
        p { "Of " (link(&path(["console", "intents", key]), key)) ": " (badge(class)) " " (says) }
        @if !proof.reason.is_empty() { p.error { (proof.reason) } }
        p { "Packets were tried at " (count(proof.tried as u64, "port")) @if proof.left_out > 0 { ", and at " (proof.left_out) " none" } "." }
        (drawn)
    };
    Ok(Page { section: Section::Intents, title: format!("Proof of {key}"), is_live: false, content })
}

/// The most bridges of the picture, the packet's own first.
const DRAWN_MAX: usize = 300;
/// The most bytes of their names in an address, which has at most 64 KiB.
const NAMES_MAX: usize = 48 << 10;

/// The bridges that the packet meets, as a part of an address.
fn met(trace: &TraceView) -> String {
    let ends = trace.ends.iter().filter_map(|end| Some(&*end.at.as_ref()?.device));
    let devices: BTreeSet<&str> = trace.hops.iter().map(|hop| &*hop.device).chain(ends).collect();
    let mut names = String::new();
    for name in devices.into_iter().take(DRAWN_MAX).map(|device| escaped(&format!("{device} "))) {
        if names.len() + name.len() > NAMES_MAX {
            break;
        }
        names += &name;
    }
    names
}

/// The path drawn, its hops and its ends.
async fn traced(visitor: &Visitor, trace: &TraceView) -> Result<Markup, Problem> {
    let asked = format!("/v1/topology?limit={DRAWN_MAX}&devices={}", met(trace));
    let network: TopologyView = visitor.api.get(&asked).await?;
    let links = links_of_packet(trace, &network);
    let drawn = picture("Path of the packet", move || Picture::of_packet(&network, &links).svg()).await;
    let verdict = if trace.delivered { "delivered" } else { "lost" };
    Ok(html! {
        h2 { "Path" }
        p { "The packet is " (badge(if trace.delivered { "ok" } else { "FAILED" })) " " (verdict) "." }
        (drawn)
        (table("Hops", &["Hop", "After", "Device", "In", "Rules", "Out"], &trace.hops.iter().map(hop).collect::<Vec<_>>()))
        (table("Ends", &["Hop", "End", "At", "Packet"], &trace.ends.iter().map(end).collect::<Vec<_>>()))
    })
}

/// The links that the packet takes.
fn links_of_packet(trace: &TraceView, network: &TopologyView) -> Vec<LinkEnds> {
    let outputs: Vec<&Point> = trace.hops.iter().flat_map(|hop| &hop.outputs).collect();
    let ends =
        |link: &muster_api::intent::LinkView| LinkEnds { from: link.from.clone(), to: link.to.clone() };
    let taken = network.links.iter().filter(|link| outputs.contains(&&link.from));
    taken.map(ends).collect()
}

fn hop(hop: &TraceHop) -> Vec<Markup> {
    let outputs: Vec<String> = hop.outputs.iter().map(point).chain(hop.notes.iter().cloned()).collect();
    vec![
        text(hop.hop),
        text(hop.after.map(|after| after.to_string()).unwrap_or_default()),
        link(&device_path(&hop.device), &hop.device),
        text(&hop.in_port),
        html! { ul.plain { @for taken in &hop.rules { li { (rule(taken)) } } } },
        text(outputs.join(", ")),
    ]
}

fn rule(rule: &TraceRule) -> Markup {
    html! {
        @match (&rule.id, &rule.intent, &rule.matches) {
            (Some(id), Some(key), _) => { (id) " of intent " (link(&path(["console", "intents", key]), key)) },
            (Some(id), None, _) => { (id) " of " (rule.owner.as_deref().unwrap_or_default()) },
            (None, _, Some(matches)) => { "foreign, table " (rule.table) ": " (matches) },
            (None, _, None) => { "none in table " (rule.table) },
        }
    }
}

fn end(end: &TraceEnd) -> Vec<Markup> {
    let packet: Vec<String> = end.packet.iter().map(|(field, value)| format!("{field}={value}")).collect();
    let (state, words) =
        if end.delivered { ("ok", "delivered".to_owned()) } else { ("FAILED", end.why.clone()) };
    let at = end.at.as_ref().map(point).unwrap_or_default();
    vec![
        text(end.hop),
        html! { (badge(state)) " " (words) },
        text([&[at][..], &end.hosts].concat().join(" ").trim()),
        text(packet.join(" ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bridges_fit_an_address() {
        let hop = |device: String| TraceHop { device, ..TraceHop::default() };
        let trace =
            TraceView { hops: vec![hop("b/br0".into()), hop("a/br0".into())], ..TraceView::default() };
        assert_eq!(met(&trace), "a%2Fbr0%20b%2Fbr0%20");
        let long = (0..256).map(|number| hop(format!("{}{number:03}/{}", "n".repeat(250), "%".repeat(15))));
        let names = met(&TraceView { hops: long.collect(), ..TraceView::default() });
        assert!(names.len() <= NAMES_MAX && names.len() > NAMES_MAX - 400, "{}", names.len());
    }
}
