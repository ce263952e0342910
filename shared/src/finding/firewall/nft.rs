//! The rules of nftables, as `nft -j list table …` lists them.
//!
//! Statements that only count, log or mark decide nothing. What is not read here makes a rule unknown, never a match.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::packet::{is_port, within};
use super::{Base, Chain, Effect, Fits, Hook, Insert, Packet, Rule, Rules};

/// Statements that neither match nor decide.
const NEUTRAL: [&str; 9] =
    ["counter", "log", "mangle", "ct helper", "notrack", "masquerade", "snat", "secmark", "flow"];
/// Sets that refer to sets, and elements within elements.
const DEPTH_MAX: usize = 8;

/// The tables with a base chain for one of the hooks, as family and name, of `nft -j list chains`.
pub fn tables(listing: &Value) -> Vec<(String, String)> {
    let chains = objects(listing, "chain").filter(|chain| hook(chain).is_some());
    let table = |chain: &Value| Some((text(chain, "family")?.to_owned(), text(chain, "table")?.to_owned()));
    let mut tables: Vec<_> = chains.filter_map(table).collect();
    tables.sort();
    tables.dedup();
    tables
}

/// Whether a rule of the listing was made by iptables in a form that nft does not show.
pub fn has_foreign(listing: &Value) -> bool {
    objects(listing, "rule").any(|rule| statements(rule).any(|statement| statement.get("xt").is_some()))
}

/// The chains of a listing, judged for a packet.
pub fn chains(listing: &Value, packet: &Packet) -> Rules {
    let mut rules = Rules::default();
    let sets = sets(listing);
    for chain in objects(listing, "chain") {
        let Some(key) = key(chain, "name").filter(|_| is_of(chain, packet)) else { continue };
        let path = path(chain, "name");
        let base = hook(chain).map(|hook| Base {
            hook,
            refuses: text(chain, "policy") == Some("drop"),
            policy: format!("the policy of chain {path}"),
            insert: Insert::Nft(path),
        });
        rules.chains.insert(key, Chain { base, rules: Vec::new() });
    }
    for rule in objects(listing, "rule") {
        let Some(key) = key(rule, "chain").filter(|_| is_of(rule, packet)) else { continue };
        let Some(chain) = rules.chains.get_mut(&key) else { continue };
        let handle = rule.get("handle").and_then(Value::as_u64).unwrap_or_default();
        let name = format!("the rule with handle {handle} of chain {}", path(rule, "chain"));
        let of = Of { packet, sets: &sets, table: &key.0 };
        chain.rules.push(Rule { name, cases: of.cases(rule) });
    }
    rules
}

fn objects<'a>(listing: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = listing.get("nftables").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(move |object| object.get(kind))
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn statements(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.get("expr").and_then(Value::as_array).into_iter().flatten()
}

/// The hook of a filter's base chain. Those of address translation are for other things.
fn hook(chain: &Value) -> Option<Hook> {
    if text(chain, "type") == Some("nat") {
        return None;
    }
    match text(chain, "hook")? {
        "input" => Some(Hook::Input),
        "output" => Some(Hook::Output),
        _ => None,
    }
}

fn is_of(object: &Value, packet: &Packet) -> bool {
    text(object, "family").is_some_and(|family| packet.is_of(family))
}

/// Table and chain, for a chain of the same table.
fn key(object: &Value, chain: &str) -> Option<(String, String)> {
    Some((table(object)?, text(object, chain)?.to_owned()))
}

fn table(object: &Value) -> Option<String> {
    Some(format!("nft {} {}", text(object, "family")?, text(object, "table")?))
}

/// `inet filter input`, as the command line takes it.
fn path(object: &Value, chain: &str) -> String {
    let part = |key| text(object, key).unwrap_or_default();
    format!("{} {} {}", part("family"), part("table"), part(chain))
}

/// By table and name.
type Sets<'a> = BTreeMap<(String, &'a str), &'a Value>;

fn sets(listing: &Value) -> Sets<'_> {
    let all = objects(listing, "set").chain(objects(listing, "map"));
    all.filter_map(|set| Some(((table(set)?, text(set, "name")?), set))).collect()
}

/// The packet, and the table whose rules are judged.
struct Of<'a> {
    packet: &'a Packet,
    sets: &'a Sets<'a>,
    table: &'a str,
}

/// The field of a packet that a rule compares.
enum Field {
    Port(Option<u16>),
    Address(Option<IpAddr>),
    /// The name of an interface, at this hook.
    Interface(Hook),
    State,
    /// The field has one of these words.
    Word(&'static [&'static str]),
    /// The packet has no such field: it is of another protocol.
    Absent,
    Unknown,
}

impl Of<'_> {
    fn cases(&self, rule: &Value) -> Vec<(Fits, Effect)> {
        let mut fits = Fits::Yes;
        for statement in statements(rule) {
            let Some((kind, body)) = statement.as_object().and_then(|statement| statement.iter().next())
            else {
                continue;
            };
            match kind.as_str() {
                "match" => fits = fits.and(self.matches(body)),
                "vmap" => return self.map(fits, body),
                kind if NEUTRAL.contains(&kind) => {}
                kind => match effect(kind, body) {
                    Some(effect) => return vec![(fits, effect)],
                    // Rates, quotas, and what later versions have.
                    None => fits = fits.and(Fits::Unknown),
                },
            }
        }
        vec![(fits, Effect::Nothing)]
    }

    /// A map of verdicts: the first element that the packet has decides.
    fn map(&self, before: Fits, body: &Value) -> Vec<(Fits, Effect)> {
        let unknown = || vec![(before.and(Fits::Unknown), Effect::Unknown)];
        let (Some(key), Some(data)) = (body.get("key"), body.get("data")) else { return unknown() };
        let field = self.field(key);
        let elements = match data.as_str() {
            Some(name) => self.named(name).and_then(|map| map.get("elem")),
            None => data.get("set"),
        };
        let Some(elements) = elements.and_then(Value::as_array) else { return unknown() };
        let case = |element: &Value| {
            let (value, verdict) = (element.get(0)?, element.get(1)?);
            let (kind, body) = verdict.as_object()?.iter().next()?;
            Some((before.and(self.compare(&field, value, 0)), effect(kind, body).unwrap_or(Effect::Unknown)))
        };
        elements.iter().map(|element| case(element).unwrap_or((Fits::Unknown, Effect::Unknown))).collect()
    }

    fn named(&self, name: &str) -> Option<&Value> {
        let name = name.strip_prefix('@')?;
        self.sets.get(&(self.table.to_owned(), name)).copied()
    }

    fn matches(&self, body: &Value) -> Fits {
        let (Some(left), Some(right)) = (body.get("left"), body.get("right")) else { return Fits::Unknown };
        let field = self.field(left);
        // A rule does not take a packet without the field, also where it asks for another value.
        if matches!(field, Field::Absent) {
            return Fits::No;
        }
        match text(body, "op") {
            Some("==" | "in") | None => self.compare(&field, right, 0),
            Some("!=") => self.compare(&field, right, 0).not(),
            Some(op) => match (field, number(right)) {
                (Field::Port(Some(port)), Some(other)) => Fits::of(match op {
                    "<" => Some(port < other),
                    "<=" => Some(port <= other),
                    ">" => Some(port > other),
                    ">=" => Some(port >= other),
                    _ => None,
                }),
                _ => Fits::Unknown,
            },
        }
    }

    fn field(&self, left: &Value) -> Field {
        if let Some(payload) = left.get("payload") {
            return self.payload(payload);
        }
        let key = |of: &str| left.get(of).and_then(|of| text(of, "key"));
        if key("ct") == Some("state") {
            return Field::State;
        }
        match key("meta") {
            Some("l4proto") => Field::Word(&["tcp", "6"]),
            Some("nfproto") if self.packet.is_v6 => Field::Word(&["ipv6", "10"]),
            Some("nfproto") => Field::Word(&["ipv4", "2"]),
            Some("protocol") if self.packet.is_v6 => Field::Word(&["ip6"]),
            Some("protocol") => Field::Word(&["ip"]),
            Some("iifname" | "iif") => Field::Interface(Hook::Input),
            Some("oifname" | "oif") => Field::Interface(Hook::Output),
            _ => Field::Unknown,
        }
    }

    fn payload(&self, payload: &Value) -> Field {
        let Packet { is_v6, source, destination, source_port, destination_port, .. } = *self.packet;
        match (text(payload, "protocol"), text(payload, "field")) {
            (Some("tcp" | "th"), Some("dport")) => Field::Port(destination_port),
            (Some("tcp" | "th"), Some("sport")) => Field::Port(source_port),
            (Some("ip"), _) if is_v6 => Field::Absent,
            (Some("ip6"), _) if !is_v6 => Field::Absent,
            (Some("ip" | "ip6"), Some("saddr")) => Field::Address(source),
            (Some("ip" | "ip6"), Some("daddr")) => Field::Address(destination),
            (Some("ip"), Some("protocol")) | (Some("ip6"), Some("nexthdr")) => Field::Word(&["tcp", "6"]),
            (Some("udp" | "udplite" | "sctp" | "dccp" | "icmp" | "icmpv6" | "igmp" | "esp" | "ah"), _) => {
                Field::Absent
            }
            _ => Field::Unknown,
        }
    }

    /// Whether the field has the value, or one of the values.
    fn compare(&self, field: &Field, value: &Value, depth: usize) -> Fits {
        let deeper = |value: &Value| self.compare(field, value, depth + 1);
        let any = |values: &[Value]| values.iter().map(deeper).fold(Fits::No, Fits::or);
        match (field, value) {
            (Field::Absent, _) => Fits::No,
            _ if depth > DEPTH_MAX => Fits::Unknown,
            (_, Value::Array(values)) => any(values),
            (_, Value::String(name)) if name.starts_with('@') => {
                let Some(set) = self.named(name) else { return Fits::Unknown };
                match set.get("elem") {
                    Some(Value::Array(values)) => any(values),
                    // No element.
                    None => Fits::No,
                    Some(_) => Fits::Unknown,
                }
            }
            (_, Value::Object(object)) => match object.iter().next() {
                Some((key, Value::Array(values))) if key == "set" => any(values),
                Some((key, inner)) if key == "elem" => inner.get("val").map_or(Fits::Unknown, deeper),
                Some((key, Value::Array(ends))) if key == "range" => range(field, ends),
                Some((key, prefix)) if key == "prefix" => {
                    let network = text(prefix, "addr").zip(prefix.get("len").and_then(Value::as_u64));
                    match (field, network) {
                        (Field::Address(address), Some((network, length))) => {
                            within(*address, &format!("{network}/{length}"))
                        }
                        _ => Fits::Unknown,
                    }
                }
                _ => Fits::Unknown,
            },
            (Field::Port(port), value) => {
                number(value).map_or(Fits::Unknown, |other| is_port(*port, other, other))
            }
            (Field::Address(Some(address)), Value::String(value)) => {
                Fits::of(value.parse::<IpAddr>().ok().map(|other| *address == other))
            }
            (Field::Interface(hook), Value::String(name)) => self.packet.interface(*hook, name, '*'),
            (Field::State, Value::String(state)) => self.packet.state(state),
            (Field::Word(words), Value::String(word)) => Fits::of(Some(words.contains(&word.as_str()))),
            (Field::Word(words), Value::Number(word)) => {
                Fits::of(Some(words.contains(&word.to_string().as_str())))
            }
            _ => Fits::Unknown,
        }
    }
}

fn range(field: &Field, ends: &[Value]) -> Fits {
    let [low, high] = ends else { return Fits::Unknown };
    match field {
        Field::Port(port) => {
            let bounds = number(low).zip(number(high));
            bounds.map_or(Fits::Unknown, |(low, high)| is_port(*port, low, high))
        }
        Field::Address(Some(address)) => {
            let end = |end: &Value| end.as_str().and_then(|end| end.parse::<IpAddr>().ok());
            Fits::of(end(low).zip(end(high)).map(|(low, high)| (low..=high).contains(address)))
        }
        Field::Address(None)
        | Field::Interface(_)
        | Field::State
        | Field::Word(_)
        | Field::Absent
        | Field::Unknown => Fits::Unknown,
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

fn effect(kind: &str, body: &Value) -> Option<Effect> {
    let target = || text(body, "target").map(str::to_owned);
    match kind {
        "accept" => Some(Effect::Accept),
        "drop" | "reject" => Some(Effect::Refuse),
        "return" => Some(Effect::Return),
        "continue" => Some(Effect::Nothing),
        "jump" => Some(target().map_or(Effect::Unknown, Effect::Jump)),
        "goto" => Some(target().map_or(Effect::Unknown, Effect::Goto)),
        "xt" if text(body, "type") != Some("match") => Some(Effect::Unknown),
        "queue" | "synproxy" | "tproxy" | "dnat" | "redirect" | "fwd" => Some(Effect::Unknown),
        _ => None,
    }
}
