//! The network: bridges, the links between them, and the ways of the first intents.

use axum::extract::Query;
use axum::response::Response;
use maud::html;
use muster_api::intent::{HostView, LinkView, Point, TopologyView};
use muster_front::escaped;
use muster_picture::network::{DRAWN, Picture, point};
use serde::Deserialize;

use super::ROWS;
use crate::client::Problem;
use crate::frame::{Page, Section, badge, cut, more, picture, table, text};
use crate::login::Visitor;

/// The most bridges on a page, with the links between them: more are no picture that one can read.
const BRIDGES: usize = 300;

/// The page of the network.
#[derive(Deserialize)]
pub struct NetworkQuery {
    #[serde(default)]
    after: String,
}

/// GET /console/network
pub async fn show(visitor: Visitor, Query(query): Query<NetworkQuery>) -> Response {
    super::shown(&visitor, page(&visitor, &query.after).await)
}

async fn page(visitor: &Visitor, after: &str) -> Result<Page, Problem> {
    let asked = format!("/v1/topology?intents={DRAWN}&limit={BRIDGES}&marker={}", escaped(after));
    let network: TopologyView = visitor.api.get(&asked).await?;
    let next = network.devices.last().filter(|_| network.devices.len() == BRIDGES);
    let next = next.map(|last| format!("/console/network?after={}", escaped(&last.device)));
    let link = |link: &LinkView| {
        vec![
            text(point(&link.from)),
            text(point(&link.to)),
            badge(if link.up { "up" } else { "down" }),
            text(link.cost),
            text(link.bandwidth.map(|rate| format!("{} of {rate} bit/s", link.reserved)).unwrap_or_default()),
            text(link.intents),
        ]
    };
    let host = |host: &HostView| {
        let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
        let claimed: Vec<String> = host.claimed.iter().map(|at: &Point| point(at)).collect();
        vec![
            text(&host.host),
            text(point(&host.location)),
            text(addresses.join(" ")),
            text(claimed.join(" ")),
            text(host.intents),
        ]
    };
    let links: Vec<_> = network.links.iter().take(10 * ROWS).map(link).collect();
    let hosts: Vec<_> = network.hosts.iter().take(10 * ROWS).map(host).collect();
    let (all_links, all_hosts) = (network.links.len(), network.hosts.len());
    let bridges = network.devices.len();
    let drawn = picture("The network", move || Picture::of(&network).svg()).await;
    let content = html! {
        p { a href="/console/trace" { "Trace a packet" } }
        @if next.is_some() || !after.is_empty() {
            p.note { "These are " (bridges) " bridges by name, with the links between them." }
        }
        (drawn)
        h2 { "Links" }
        (table("Links, each direction on its own", &["From", "To", "State", "Cost", "Reserved", "Intents"],
            &links))
        (cut(all_links, links.len()))
        h2 { "Hosts" }
        (table("Hosts", &["Host", "At", "Addresses", "Also claimed at", "Intents"],
            &hosts))
        (cut(all_hosts, hosts.len()))
        (more(next))
    };
    Ok(Page { section: Section::Network, title: "Network".to_owned(), is_live: true, content })
}
