//! `muster topology show`: bridges, the links between them, and the ways of intents, as tables, a document,
//! Graphviz's language or a drawing.
//!
//! Absent: how a link is found by LLDP (`controller/intent/src/links_from_reports.rs`), and how a path is chosen
//! (`controller/intent/src/compile/constrained_path.rs`).

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use muster_api::intent::{BridgeView, HostView, LinkView, PortView, TopologyView};
use muster_picture::network::{DRAWN, Picture, point, state};

use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::{Column, Output, cell, print, read, table, view};

#[derive(Subcommand)]
pub enum TopologyVerb {
    /// Show the network: bridges, links, hosts, and the paths of intents
    ///
    /// A link is known from a stack or from LLDP, a host from a stack or from an agent. Pictures colour the
    /// paths of up to ten intents: the first by key, or the one of --intent.
    #[command(after_help = "Example:\n  muster topology show -o svg > network.svg")]
    Show(Show),
}

/// `topology show`
#[derive(Args)]
pub struct Show {
    /// Draw the path of this intent only
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    intent: Option<String>,
    /// Output format
    // The same as everywhere, with two more values.
    #[arg(short, long, value_parser = Output::of_graphs(), default_value = "table")]
    output: Output,
}

const DEVICES: [Column<BridgeView>; 4] = [
    ("DEVICE", |device| cell(&device.device)),
    ("STATE", |device| state(device.up, device.away).to_owned()),
    ("PORTS", |device| cell(&device.ports.len())),
    ("DOWN", |device| cell(&down(&device.ports))),
];

const LINKS: [Column<LinkView>; 9] = [
    ("FROM", |link| point(&link.from)),
    ("TO", |link| point(&link.to)),
    ("STATE", |link| state(link.up, false).to_owned()),
    ("KNOWN", |link| flagged([(link.declared, "declared"), (link.discovered, "LLDP")])),
    ("COST", |link| cell(&link.cost)),
    ("BANDWIDTH", |link| cell(&link.bandwidth)),
    ("RESERVED", |link| cell(&link.reserved)),
    ("LATENCY", |link| cell(&link.latency)),
    ("INTENTS", |link| cell(&link.intents)),
];

const HOSTS: [Column<HostView>; 5] = [
    ("HOST", |host| cell(&host.host)),
    ("AT", |host| point(&host.location)),
    ("ADDRESSES", |host| cell(&host.addresses)),
    ("KNOWN", |host| flagged([(host.declared, "declared"), (host.observed, "seen")])),
    ("INTENTS", |host| cell(&host.intents)),
];

/// Runs a verb.
pub async fn run(verb: TopologyVerb, client: &mut Client) -> Result<(), Failure> {
    let TopologyVerb::Show(asked) = verb;
    let query = match (&asked.intent, &asked.output) {
        (Some(key), _) => format!("?key={}", escaped(key)),
        (None, Output::Document(_) | Output::File(_)) => String::new(),
        (None, Output::Dot | Output::Svg) => format!("?intents={DRAWN}"),
    };
    let answer = client.get(&(path(["topology"]) + &query)).await?;
    match asked.output {
        Output::Document(format) => view(format, &answer, tables),
        Output::Dot => print(&Picture::of(&read(&answer)?).dot()),
        Output::Svg => print(&Picture::of(&read(&answer)?).svg()),
        Output::File(_) => Err(Output::is_for_others()),
    }
}

/// The words whose flag is set.
fn flagged<const N: usize>(words: [(bool, &'static str); N]) -> String {
    let words = words.into_iter().filter(|(is_set, _)| *is_set);
    cell(&words.map(|(_, word)| word).collect::<Vec<_>>())
}

fn down(ports: &[PortView]) -> Vec<&str> {
    ports.iter().filter(|port| !port.up).map(|port| port.name.as_str()).collect()
}

fn tables(network: &TopologyView) -> String {
    let mut text = format!("{}\n{}", table(&DEVICES, &network.devices), table(&LINKS, &network.links));
    if !network.hosts.is_empty() {
        text = format!("{text}\n{}", table(&HOSTS, &network.hosts));
    }
    text
}

#[cfg(test)]
mod tests;
