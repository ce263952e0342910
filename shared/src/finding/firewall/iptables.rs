//! The rules of iptables, as `iptables-save` and `ip6tables-save` list them.
//!
//! An option that is not read here makes its rule unknown, never a match.

use std::net::IpAddr;

use super::packet::{is_port, within};
use super::{Base, Chain, Effect, Fits, Hook, Insert, Packet, Rule, Rules};

/// Targets that only count, log or mark.
const NEUTRAL: [&str; 9] = ["LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TCPMSS", "TOS", "DSCP", "SECMARK"];

/// The chains of a listing, judged for a packet. `program` is iptables or ip6tables, whichever made it.
pub fn chains(listing: &str, program: &str, packet: &Packet) -> Rules {
    let mut rules = Rules::default();
    if packet.is_v6 != program.starts_with("ip6") {
        return rules;
    }
    let mut table = None;
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix('*') {
            // Address translation refuses nothing.
            table = (name != "nat").then_some(name);
        }
        let Some(table) = table else { continue };
        let key = |chain: &str| (format!("{program} {table}"), chain.to_owned());
        if let Some(head) = line.strip_prefix(':') {
            let mut words = head.split_whitespace();
            let (Some(name), Some(policy)) = (words.next(), words.next()) else { continue };
            let hook = match name {
                "INPUT" => Some(Hook::Input),
                "OUTPUT" => Some(Hook::Output),
                _ => None,
            };
            let base = hook.map(|hook| Base {
                hook,
                refuses: policy == "DROP",
                policy: format!("the policy of chain {name} ({program}, table {table})"),
                insert: Insert::Iptables(format!("{program} -t {table} -I {name}")),
            });
            rules.chains.insert(key(name), Chain { base, rules: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("-A ") {
            let words = words(rest);
            let Some((chain, options)) = words.split_first() else { continue };
            let (fits, target) = judged(options, packet);
            let effect = match target {
                Some(Target::Goto(target)) => Effect::Goto(target),
                Some(Target::Jump(target)) if rules.chains.contains_key(&key(&target)) => {
                    Effect::Jump(target)
                }
                Some(Target::Jump(target)) => verdict(&target),
                None => Effect::Nothing,
            };
            if let Some(chain) = rules.chains.get_mut(&key(chain)) {
                let name = format!("the rule '{line}' ({program}, table {table})");
                chain.rules.push(Rule { name, cases: vec![(fits, effect)] });
            }
        }
    }
    rules
}

enum Target {
    Jump(String),
    Goto(String),
}

fn verdict(target: &str) -> Effect {
    match target {
        "ACCEPT" => Effect::Accept,
        "DROP" | "REJECT" => Effect::Refuse,
        "RETURN" => Effect::Return,
        target if NEUTRAL.contains(&target) => Effect::Nothing,
        _ => Effect::Unknown,
    }
}

/// Words between blanks; quotes hold a comment together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_escaped) = (Vec::new(), None, false, false);
    for c in line.chars() {
        match c {
            _ if is_escaped => {
                word.get_or_insert_with(String::new).push(c);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_with(String::new);
            }
            ' ' if !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_with(String::new).push(c),
        }
    }
    words.extend(word);
    words
}

/// Whether the options of a rule take the packet, and where it goes then.
fn judged(options: &[String], packet: &Packet) -> (Fits, Option<Target>) {
    let (mut fits, mut options, mut is_not) =
        (Fits::Yes, options.iter().map(String::as_str).peekable(), false);
    while let Some(option) = options.next() {
        if option == "!" {
            is_not = true;
            continue;
        }
        if matches!(option, "-j" | "-g") {
            let Some(target) = options.next().map(str::to_owned) else { break };
            // The rest belongs to the target.
            return (fits, Some(if option == "-j" { Target::Jump(target) } else { Target::Goto(target) }));
        }
        let mut values = Vec::new();
        while let Some(value) = options.next_if(|word| !word.starts_with('-') && *word != "!") {
            values.push(value);
        }
        let takes = match values.as_slice() {
            [value] => takes(option, value, packet),
            _ => Fits::Unknown,
        };
        fits = fits.and(if is_not { takes.not() } else { takes });
        is_not = false;
    }
    (fits, None)
}

fn takes(option: &str, value: &str, packet: &Packet) -> Fits {
    let any = |of: &dyn Fn(&str) -> Fits| value.split(',').map(of).fold(Fits::No, Fits::or);
    let port = |own: Option<u16>| any(&|range| within_ports(own, range));
    match option {
        // A module takes no packet by itself, and its options follow.
        "-m" | "--comment" => Fits::Yes,
        "-p" => Fits::of(Some(matches!(value, "tcp" | "6" | "all"))),
        "-s" => within(packet.source, value),
        "-d" => within(packet.destination, value),
        "-i" => packet.interface(Hook::Input, value, '+'),
        "-o" => packet.interface(Hook::Output, value, '+'),
        "--dport" | "--dports" => port(packet.destination_port),
        "--sport" | "--sports" => port(packet.source_port),
        "--ports" => port(packet.destination_port).or(port(packet.source_port)),
        "--ctstate" | "--state" => any(&|state| packet.state(state)),
        "--dst-type" if value == "LOCAL" && packet.hook == Hook::Input => Fits::Yes,
        "--src-range" => in_range(packet.source, value),
        "--dst-range" => in_range(packet.destination, value),
        _ => Fits::Unknown,
    }
}

/// `22`, or `8000:9000`.
fn within_ports(port: Option<u16>, range: &str) -> Fits {
    let (low, high) = range.split_once(':').unwrap_or((range, range));
    let ends = low.parse::<u16>().ok().zip(high.parse::<u16>().ok());
    ends.map_or(Fits::Unknown, |(low, high)| is_port(port, low, high))
}

/// `10.0.0.1-10.0.0.9`
fn in_range(address: Option<IpAddr>, range: &str) -> Fits {
    let ends = range
        .split_once('-')
        .and_then(|(low, high)| Some((low.parse::<IpAddr>().ok()?, high.parse::<IpAddr>().ok()?)));
    Fits::of(address.zip(ends).map(|(address, (low, high))| (low..=high).contains(&address)))
}
