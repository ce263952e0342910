//! A policy rule in the notation of `ip rule`.
//!
//! A rule is identified by its text: two rules with the same [`Rule::to_string`] are also the same to the
//! kernel. Absent: the kernel's side (`agent/host/src/net/netlink/rule.rs`), actions that lead to other rules,
//! and features that need unsupported objects (goto, l3mdev, suppressors, realms, NAT).

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::error::clip;
use super::parse::Tables;
use super::value::{fields, number, quoted, table, text};
use super::{LinkName, NetworkError};

/// The priorities of rules without one, right before the kernel's rule for the main table (32766).
const OWN_PRIORITIES: std::ops::Range<u32> = 16_384..32_512;

/// Words that open a part of a rule.
const WORDS: [&str; 21] = [
    "from",
    "to",
    "iif",
    "dev",
    "oif",
    "fwmark",
    "tos",
    "dsfield",
    "ipproto",
    "sport",
    "dport",
    "table",
    "lookup",
    "priority",
    "preference",
    "pref",
    "prio",
    "order",
    "blackhole",
    "unreachable",
    "prohibit",
];
/// Words of `ip rule` that are refused by name.
const REFUSED: [&str; 13] = [
    "goto",
    "nop",
    "nat",
    "map-to",
    "realms",
    "suppress_prefixlength",
    "suppress_ifgroup",
    "uidrange",
    "tun_id",
    "l3mdev",
    "protocol",
    "type",
    "flowlabel",
];

/// A policy rule: which packets use which routing table, and the order of evaluation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Rules with lower priorities are evaluated first.
    pub priority: u32,
    /// The rule is for IPv6, not IPv4.
    pub v6: bool,
    /// The rule is for packets that do not match.
    pub not: bool,
    /// Source addresses.
    pub from: Option<IpNet>,
    /// Destination addresses.
    pub to: Option<IpNet>,
    /// The interface where the packet came in.
    pub iif: Option<LinkName>,
    /// The interface that a local socket is bound to.
    pub oif: Option<LinkName>,
    /// Type of service.
    pub tos: u8,
    /// Mark and mask.
    pub fwmark: Option<(u32, u32)>,
    /// Number of the transport protocol.
    pub ipproto: Option<u8>,
    /// First and last source port.
    pub sport: Option<(u16, u16)>,
    /// First and last destination port.
    pub dport: Option<(u16, u16)>,
    /// The treatment of the packet.
    pub action: RuleAction,
}

/// The treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleAction {
    /// Look up this routing table.
    Table(u32),
    /// Silently dropped.
    Blackhole,
    /// Refused: network unreachable.
    Unreachable,
    /// Refused: administratively prohibited.
    Prohibit,
}

type Parsed<T> = Result<T, NetworkError>;

/// An entry of `rules`: `{rule, comment}`.
pub(super) fn entry(path: &str, value: &Value, tables: &Tables) -> Parsed<Rule> {
    let map = fields(path, value)?;
    let path = format!("{path}.rule");
    let rule = map.get("rule").ok_or_else(|| NetworkError::invalid(&path, "is missing"))?;
    parse(&path, text(&path, rule)?, tables)
}

pub(super) fn parse(path: &str, written: &str, tables: &Tables) -> Parsed<Rule> {
    // The longest sensible rule has about 300 bytes.
    if written.len() > 1_024 {
        return Err(NetworkError::invalid(path, "is longer than 1024 bytes"));
    }
    let mut parts = Parts {
        path,
        tables,
        seen: Vec::new(),
        family: None,
        rule: Rule::default(),
        priority: None,
        action: None,
    };
    let mut words = written.split_ascii_whitespace().peekable();
    // Accepted as in a command. A document removes a rule by leaving it out.
    if matches!(words.peek(), Some(&"add")) {
        words.next();
    }
    while let Some(word) = words.next() {
        parts.word(word, &mut words)?;
    }
    parts.rule()
}

struct Parts<'a> {
    path: &'a str,
    tables: &'a Tables,
    seen: Vec<&'static str>,
    family: Option<bool>,
    rule: Rule,
    priority: Option<u32>,
    action: Option<RuleAction>,
}

impl Default for Rule {
    /// An IPv4 rule for all packets, without a table yet.
    fn default() -> Self {
        Self {
            priority: 0,
            v6: false,
            not: false,
            from: None,
            to: None,
            iif: None,
            oif: None,
            tos: 0,
            fwmark: None,
            ipproto: None,
            sport: None,
            dport: None,
            action: RuleAction::Table(0),
        }
    }
}

impl Parts<'_> {
    fn word<'w>(&mut self, word: &str, words: &mut impl Iterator<Item = &'w str>) -> Parsed<()> {
        let kind = match word {
            "dev" => "iif",
            "dsfield" => "tos",
            "lookup" => "table",
            "preference" | "pref" | "prio" | "order" => "priority",
            "blackhole" | "unreachable" | "prohibit" => "action",
            _ => match WORDS.iter().chain(&["not", "-4", "-6"]).find(|known| **known == word) {
                Some(known) => known,
                None => return Err(self.unknown(word)),
            },
        };
        if self.seen.contains(&kind) {
            return Err(self.invalid(format!("'{word}' stands for what was given already")));
        }
        self.seen.push(kind);
        match word {
            "not" => self.rule.not = true,
            "-4" | "-6" => self.of_family(word == "-6", word)?,
            "blackhole" => self.action = Some(RuleAction::Blackhole),
            "unreachable" => self.action = Some(RuleAction::Unreachable),
            "prohibit" => self.action = Some(RuleAction::Prohibit),
            _ => {
                let value = words.next().ok_or_else(|| self.invalid(format!("'{word}' wants a value")))?;
                self.value(kind, word, value)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, kind: &str, word: &str, value: &str) -> Parsed<()> {
        let json = Value::String(value.to_owned());
        let path = self.path;
        let wrong = |why: String| NetworkError::invalid(path, format!("'{word} {}': {why}", clip(value)));
        let rule = &mut self.rule;
        match kind {
            "from" | "to" => {
                let net = self.prefix(word, value)?;
                *(if kind == "from" { &mut self.rule.from } else { &mut self.rule.to }) = net;
            }
            "iif" => rule.iif = Some(LinkName::or_loopback(value).map_err(wrong)?),
            "oif" => rule.oif = Some(LinkName::or_loopback(value).map_err(wrong)?),
            "fwmark" => {
                let (mark, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
                let pair = integer(mark).zip(integer(mask));
                rule.fwmark = Some(pair.ok_or_else(|| wrong("a mark, or mark/mask, is wanted".to_owned()))?);
            }
            "tos" => {
                let tos = integer(value).and_then(|tos| u8::try_from(tos).ok());
                rule.tos = tos.ok_or_else(|| wrong("a number from 0 to 0xff is wanted".to_owned()))?;
            }
            "ipproto" => {
                rule.ipproto = Some(
                    protocol(value)
                        .ok_or_else(|| wrong("tcp, udp, icmp or a number is wanted".to_owned()))?,
                );
            }
            "sport" | "dport" => {
                let ports =
                    ports(value).ok_or_else(|| wrong("a port, or FIRST-LAST, is wanted".to_owned()))?;
                *(if kind == "sport" { &mut rule.sport } else { &mut rule.dport }) = Some(ports);
            }
            "table" => {
                let table = RuleAction::Table(table(self.path, &json, self.tables)?);
                // With an action, the kernel never looks at the table.
                self.action.get_or_insert(table);
            }
            _ => self.priority = Some(number(self.path, &json, 1, u32::MAX)?),
        }
        Ok(())
    }

    fn prefix(&mut self, word: &str, value: &str) -> Parsed<Option<IpNet>> {
        if matches!(value, "all" | "any" | "default") {
            return Ok(None);
        }
        let net: Option<IpNet> =
            value.parse().ok().or_else(|| value.parse().ok().map(|ip: std::net::IpAddr| ip.into()));
        let Some(net) = net else {
            return Err(self.invalid(format!("'{word} {}' is no address or prefix", clip(value))));
        };
        if net != net.trunc() {
            return Err(self.invalid(format!("'{word} {net}' has host bits; {} is meant", net.trunc())));
        }
        self.of_family(net.addr().is_ipv6(), value)?;
        Ok(Some(net).filter(|net| net.prefix_len() > 0))
    }

    fn of_family(&mut self, v6: bool, what: &str) -> Parsed<()> {
        match self.family.replace(v6) {
            Some(other) if other != v6 => {
                Err(self.invalid(format!("{} is of another address family than the rest", quoted(what))))
            }
            _ => Ok(()),
        }
    }

    fn rule(mut self) -> Parsed<Rule> {
        let no_action = "leads nowhere: give table, blackhole, unreachable or prohibit";
        self.rule.action = self.action.ok_or_else(|| self.invalid(no_action))?;
        self.rule.v6 = self.family.unwrap_or(false);
        let ports = self.rule.sport.is_some() || self.rule.dport.is_some();
        // The kernel compares ports of TCP, UDP, DCCP and SCTP only; a rule for others would never match.
        if ports && self.rule.ipproto.is_some_and(|number| !matches!(number, 6 | 17 | 33 | 132)) {
            return Err(self.invalid("sport and dport want ipproto tcp, udp, dccp or sctp"));
        }
        self.rule.priority = self.priority.unwrap_or_else(|| self.rule.own_priority());
        Ok(self.rule)
    }

    fn unknown(&self, word: &str) -> NetworkError {
        match REFUSED.contains(&word) {
            true => NetworkError::unsupported(self.path, format!("'{word}'"), "leave it out"),
            false => NetworkError::unknown(self.path, "word", word, WORDS.into_iter().chain(["not"])),
        }
    }

    fn invalid(&self, problem: impl Into<String>) -> NetworkError {
        NetworkError::invalid(self.path, problem)
    }
}

impl Rule {
    /// The priority of a rule without one, derived from the rule's own text: it is the same on every run and
    /// wherever the rule is in the document, whereas the kernel would choose one by the existing rules. An
    /// operator who needs an order gives priorities.
    fn own_priority(&self) -> u32 {
        // FNV-1a, 32 bits: spreads short texts well, and is the same on every machine.
        let text = Self { priority: 0, ..self.clone() }.to_string();
        let hash = text
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        OWN_PRIORITIES.start + hash % (OWN_PRIORITIES.end - OWN_PRIORITIES.start)
    }
}

fn integer(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    }
}

fn protocol(text: &str) -> Option<u8> {
    match text {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "dccp" => Some(33),
        "ipv6-icmp" | "icmpv6" => Some(58),
        "sctp" => Some(132),
        _ => text.parse().ok().filter(|number| *number != 0),
    }
}

fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = (first.parse().ok()?, last.parse().ok()?);
    (ports.0 != 0 && ports.0 <= ports.1).then_some(ports)
}

impl FromStr for Rule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Parsed<Self> {
        parse("rule", text, &Tables::new())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The notation of `ip rule add`, in a fixed order, so that texts can be compared.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.v6 && self.from.is_none() && self.to.is_none() {
            f.write_str("-6 ")?;
        }
        if self.not {
            f.write_str("not ")?;
        }
        match self.from {
            Some(from) => write!(f, "from {from}")?,
            None => f.write_str("from all")?,
        }
        self.to.iter().try_for_each(|to| write!(f, " to {to}"))?;
        self.iif.iter().try_for_each(|iif| write!(f, " iif {iif}"))?;
        self.oif.iter().try_for_each(|oif| write!(f, " oif {oif}"))?;
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        self.fwmark.iter().try_for_each(|(mark, mask)| write!(f, " fwmark {mark:#x}/{mask:#x}"))?;
        self.ipproto.iter().try_for_each(|number| write!(f, " ipproto {number}"))?;
        for (word, ports) in [("sport", self.sport), ("dport", self.dport)] {
            ports.iter().try_for_each(|(first, last)| write!(f, " {word} {first}-{last}"))?;
        }
        match self.action {
            RuleAction::Table(table) => write!(f, " table {table}")?,
            RuleAction::Blackhole => f.write_str(" blackhole")?,
            RuleAction::Unreachable => f.write_str(" unreachable")?,
            RuleAction::Prohibit => f.write_str(" prohibit")?,
        }
        write!(f, " priority {}", self.priority)
    }
}
