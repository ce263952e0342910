//! Reads the text of `ofproto/trace`: which rules take the packet, how it changes, and by which ports it leaves.
//!
//! ```text
//!   bridge("br0")                                                   a block of a bridge
//!   -------------
//!    0. ip,in_port=a, priority 100, cookie 0x4d55000000000001       a rule
//!       set_field:52:54:00:12:34:56->eth_dst                        an action
//!       output:p1
//!
//!       bridge("br1")                                               the peer of a patch port, within
//!       -------------
//!            0. No match.
//!   Datapath actions: set(eth(dst=52:54:00:12:34:56)),b             the ports that `NORMAL` chose
//! ```
//!
//! Lines within a block or a bucket of a group are indented, and change no packet behind it. An action that is not
//! known here is a [`TraceStep::Unclear`]: the packet behind it is not the one that leaves.
//!
//! Absent: the values of actions (`action.rs`).

use muster_shared::model::flow::{Bridge, FlowId, Packet, Port, TRACE_STEPS_MAX, TraceStep};

use super::action::{self, Effect};

/// Ports of the datapath that stand for all tunnels of a kind: no bridge has one of this name.
const TUNNELS: [&str; 3] = ["vxlan_sys_", "genev_sys_", "gre_sys"];

/// The steps in a text about a packet that comes in at this bridge; `None` if it is no such text. Never panics.
pub fn steps(bridge: &Bridge, packet: &Packet, in_port: &str, text: &str) -> Option<Vec<TraceStep>> {
    let mut reader = Reader {
        bridge: bridge.clone(),
        in_port,
        packet: packet.clone(),
        scopes: Vec::new(),
        steps: Vec::new(),
        chosen: None,
        sections: 0,
        blocks: 0,
    };
    for line in text.lines() {
        reader.line(line);
        if reader.steps.len() >= TRACE_STEPS_MAX {
            reader.steps.truncate(TRACE_STEPS_MAX - 1);
            reader.unclear("more steps than are told");
            break;
        }
    }
    if reader.sections > 0 {
        reader.unclear("the switch takes the packet up again, which it does not trace");
    }
    (reader.blocks > 0).then_some(reader.steps)
}

/// A block, and what holds again behind it.
struct Scope {
    /// Lines that belong to it are indented by more.
    indent: usize,
    bridge: Bridge,
    packet: Packet,
}

struct Reader<'a> {
    /// The bridge of the present block.
    bridge: Bridge,
    in_port: &'a str,
    /// The packet as it is by now.
    packet: Packet,
    scopes: Vec<Scope>,
    steps: Vec<TraceStep>,
    /// The switch chose ports itself (`NORMAL`, `FLOOD`, `ALL`): for this packet, on this bridge.
    chosen: Option<(Bridge, Packet)>,
    /// Further sections that the text must have.
    sections: usize,
    /// Blocks so far.
    blocks: usize,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() || text.starts_with("----") || text.starts_with("====") {
            return;
        }
        // The outermost blocks follow one another, and the packet goes on from one to the next.
        while let Some(scope) = self.scopes.pop_if(|scope| indent <= scope.indent) {
            (self.bridge, self.packet) = (scope.bridge, scope.packet);
        }
        if let Some(name) = text.strip_prefix("bridge(\"").and_then(|rest| rest.strip_suffix("\")")) {
            return self.begin_bridge(indent, name);
        }
        if let Some(actions) = text.strip_prefix("Datapath actions: ") {
            return self.end_section(actions);
        }
        if text.starts_with("recirc(") {
            self.sections = self.sections.saturating_sub(1);
            return;
        }
        if ["Flow: ", "Final flow: ", "Megaflow: ", "--. "].iter().any(|word| text.starts_with(word)) {
            return;
        }
        if let Some(why) = text.strip_prefix(">> ") {
            return self.refuse(why);
        }
        if text.starts_with("-> ") {
            return;
        }
        match table_of(text) {
            Some((table, rest)) => self.lookup(table, rest),
            None => self.act(indent, text),
        }
    }

    fn begin_bridge(&mut self, indent: usize, name: &str) {
        let Ok(bridge) = name.parse::<Bridge>() else { return self.unclear("a bridge without a name") };
        self.blocks += 1;
        if indent > 0 {
            // The output before leads to the peer of a patch port.
            if matches!(self.steps.last(), Some(TraceStep::Output { .. })) {
                self.steps.pop();
            }
            self.open(indent);
        }
        self.bridge = bridge;
    }

    fn open(&mut self, indent: usize) {
        self.scopes.push(Scope { indent, bridge: self.bridge.clone(), packet: self.packet.clone() });
    }

    fn lookup(&mut self, table: u8, rest: &str) {
        let bridge = self.bridge.clone();
        if rest.starts_with("No match") {
            return self.steps.push(TraceStep::Miss { bridge, table });
        }
        let (matches, cookie) = match rest.rsplit_once(", cookie 0x") {
            Some((matches, digits)) => (matches, u64::from_str_radix(digits.trim(), 16).unwrap_or(0)),
            None => (rest, 0),
        };
        // The match of a rule of ours may have been given as a secret.
        let matches = if FlowId::is_ours(cookie) { String::new() } else { matches.to_owned() };
        self.steps.push(TraceStep::Rule { bridge, table, cookie, matches });
    }

    fn act(&mut self, indent: usize, text: &str) {
        match action::of(text, &mut self.packet) {
            Effect::None => {}
            Effect::Bucket => self.open(indent),
            Effect::Output(port) => self.output(&port),
            Effect::Local => {
                let own = self.bridge.to_string();
                self.output(&own);
            }
            Effect::Back if self.scopes.is_empty() => {
                let port = self.in_port.to_owned();
                self.output(&port);
            }
            Effect::Chosen => self.chosen = Some((self.bridge.clone(), self.packet.clone())),
            Effect::Controller => {
                self.steps.push(TraceStep::Controller { bridge: self.bridge.clone() });
            }
            Effect::Back | Effect::Unclear => self.unclear(text),
        }
    }

    fn output(&mut self, port: &str) {
        let (bridge, packet) = (self.bridge.clone(), self.packet.clone());
        self.output_of(bridge, port, packet);
    }

    fn output_of(&mut self, bridge: Bridge, port: &str, packet: Packet) {
        if !Port::is_name(port) {
            return self.unclear("an output to a port without a name");
        }
        self.steps.push(TraceStep::Output { bridge, port: port.into(), packet });
    }

    /// The switch says that it does not do what the line before says.
    fn refuse(&mut self, why: &str) {
        if matches!(self.steps.last(), Some(TraceStep::Output { .. })) {
            self.steps.pop();
        }
        let bridge = self.bridge.clone();
        self.steps.push(TraceStep::Refused { bridge, why: why.to_owned() });
    }

    fn unclear(&mut self, action: &str) {
        let bridge = self.bridge.clone();
        self.steps.push(TraceStep::Unclear { bridge, action: action.to_owned() });
    }

    /// The datapath's actions name the ports that the switch chose itself.
    fn end_section(&mut self, actions: &str) {
        self.sections += actions.matches("recirc(").count();
        let Some((bridge, packet)) = self.chosen.take() else { return };
        for port in ports_of(actions) {
            let is_told =
                |step: &TraceStep| matches!(step, TraceStep::Output { port: told, .. } if **told == *port);
            if self.steps.iter().any(is_told) {
                continue;
            }
            match TUNNELS.iter().any(|tunnel| port.starts_with(tunnel)) {
                true => self.unclear(&format!("the switch sends a copy through a tunnel of {port}")),
                false => self.output_of(bridge.clone(), port, packet.clone()),
            }
        }
    }
}

/// The number of the table, and what follows.
fn table_of(text: &str) -> Option<(u8, &str)> {
    let (number, rest) = text.split_once(". ")?;
    Some((number.parse().ok()?, rest))
}

/// The ports among actions of the datapath: words without arguments.
fn ports_of(actions: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let words = actions.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let is_port = |word: &&str| {
        let own = ["drop", "pop_vlan", "pop_eth", "pop_nsh", "ct_clear"];
        !word.contains('(') && !own.contains(word) && !word.bytes().all(|b| b.is_ascii_digit())
    };
    words.map(str::trim).filter(is_port)
}
