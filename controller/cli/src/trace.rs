//! `muster trace`: where a packet goes, hop by hop.
//!
//! Absent: how a packet is followed (`controller/intent/src/trace.rs`), and the words of a packet
//! (`controller/template/src/packet.rs`).

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use muster_api::trace::{TraceEnd, TraceHop, TraceRule, TraceView};
use muster_picture::network::point;

use crate::client::{Client, escaped, path};
use crate::failure::Failure;
use crate::output::{Column, Format, cell, read, rows, table, view, word};

/// `trace`
#[derive(Args)]
pub struct Request {
    /// Port where the packet comes in
    #[arg(long, value_name = "NODE/BRIDGE:PORT", value_parser = NonEmptyStringValueParser::new())]
    from: String,
    /// Packet, in the words of a flow rule's selector; of a value with a mask the lowest is taken
    #[arg(long, value_name = "SELECTOR", default_value = "{}", hide_default_value = true)]
    packet: String,
}

/// Each rule that takes the packet has a line.
const HOPS: [&str; 7] = ["HOP", "AFTER", "DEVICE", "IN", "RULE", "OWNER", "OUT"];

const ENDS: [Column<TraceEnd>; 4] = [
    ("HOP", |end| cell(&end.hop)),
    ("END", |end| if end.delivered { "delivered" } else { "lost" }.to_owned()),
    ("AT", |end| cell(&end.at.as_ref().map(point))),
    ("PACKET", |end| match end.delivered {
        true => cell(&end.packet),
        false => word(&end.why),
    }),
];

/// Runs the command.
pub async fn run(request: Request, client: &mut Client, format: Format) -> Result<(), Failure> {
    let at =
        format!("{}?from={}&packet={}", path(["trace"]), escaped(&request.from), escaped(&request.packet));
    let answer = client.get(&at).await?;
    view(format, &answer, text)?;
    let trace: TraceView = read(&answer)?;
    match lost(&trace) {
        None => Ok(()),
        Some(why) => Err(Failure::failed(format!("the packet is lost: {why}"))),
    }
}

/// The reason why the packet, or a copy of it, does not arrive.
pub fn lost(trace: &TraceView) -> Option<String> {
    let why = trace.ends.iter().find(|end| !end.delivered).map(|end| word(&end.why));
    (!trace.delivered).then(|| why.unwrap_or_else(|| "nothing is known of its end".to_owned()))
}

/// The hops and the ends, as tables.
pub fn text(trace: &TraceView) -> String {
    let headings = HOPS.map(str::to_owned).to_vec();
    let lines = trace.hops.iter().flat_map(lines);
    format!("{}\n{}", rows([headings].into_iter().chain(lines)), table(&ENDS, &trace.ends))
}

/// A line for each rule of a hop, at least one. The last one says by which ports copies leave, and what the switch does
/// not do.
fn lines(hop: &TraceHop) -> Vec<Vec<String>> {
    let outputs = hop.outputs.iter().map(|output| match output.device == hop.device {
        true => word(&output.port),
        false => point(output),
    });
    let out: Vec<String> = outputs.chain(hop.notes.iter().map(|note| word(note))).collect();
    let of_hop = [cell(&hop.hop), cell(&hop.after), word(&hop.device), word(&hop.in_port)];
    let none = TraceRule { device: hop.device.clone(), ..TraceRule::default() };
    let rules = if hop.rules.is_empty() { vec![None] } else { hop.rules.iter().map(Some).collect() };
    let count = rules.len();
    let line = |(at, taken): (usize, Option<&TraceRule>)| {
        let [hop, after, _, in_port] = if at == 0 { of_hop.clone() } else { [(); 4].map(|()| word("")) };
        let device = word(&taken.unwrap_or(&none).device);
        let owner = cell(&taken.and_then(|rule| rule.owner.as_ref().or(rule.matches.as_ref())));
        let out = if at + 1 == count { word(&out.join(", ")) } else { word("") };
        vec![hop, after, device, in_port, taken.map_or_else(|| word(""), rule), owner, out]
    };
    rules.into_iter().enumerate().map(line).collect()
}

fn rule(rule: &TraceRule) -> String {
    match (&rule.id, &rule.matches) {
        (Some(id), _) => word(id),
        (None, Some(_)) => format!("foreign, table {}", rule.table),
        (None, None) => format!("none in table {}", rule.table),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::intent::Point;
    use serde_json::json;

    use super::*;

    fn trace() -> TraceView {
        let rule = |id: Option<&str>, owner: Option<&str>, matches: Option<&str>| json!({"device": "web-1/br0", "table": 0, "id": id, "owner": owner, "matches": matches});
        let value = json!({
            "delivered": false,
            "hops": [
                {"hop": 1, "after": null, "device": "web-1/br0", "in_port": "h1",
                    "rules": [rule(None, None, Some("ip")), rule(Some("4d550b208f12dbfa"), Some("intent a"), None)],
                    "outputs": [{"device": "web-1/br0", "port": "p2"}, {"device": "web-1/br1", "port": "q"}],
                    "notes": ["sent to an OpenFlow controller"]},
                {"hop": 2, "after": 1, "device": "web-2/br0", "in_port": "p1",
                    "rules": [{"device": "web-2/br0", "table": 0}]},
            ],
            "ends": [
                {"hop": 1, "delivered": true, "at": {"device": "web-1/br1", "port": "q"},
                    "packet": {"eth_type": 2048}},
                {"hop": 2, "delivered": false, "why": "no rule of table 0 on web-2/br0 takes it"},
            ],
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_hop_says_which_rule_took_the_packet_and_where_it_went() {
        let shown = text(&trace());
        let expected = "\
HOP  AFTER  DEVICE     IN  RULE              OWNER     OUT
1    -      web-1/br0  h1  foreign, table 0  ip        -
-    -      web-1/br0  -   4d550b208f12dbfa  intent a  p2, web-1/br1:q, sent to an OpenFlow controller
2    1      web-2/br0  p1  none in table 0   -         -

HOP  END        AT           PACKET
1    delivered  web-1/br1:q  eth_type=2048
2    lost       -            no rule of table 0 on web-2/br0 takes it
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_copy_that_is_lost_is_a_loss() {
        let mut trace = trace();
        assert_eq!(lost(&trace).as_deref(), Some("no rule of table 0 on web-2/br0 takes it"));
        trace.delivered = true;
        assert_eq!(lost(&trace), None);
        let at = Some(Point { device: "a/b".into(), port: "\u{1b}[2J".into() });
        trace.ends = vec![TraceEnd { delivered: true, at, ..TraceEnd::default() }];
        assert!(!text(&trace).contains('\u{1b}'), "what others wrote does not drive this terminal");
    }
}
