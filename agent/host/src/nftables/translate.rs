//! Translates a rule to nft's input language, and to the form in which nft lists it (`nft -j -n`). A rule
//! that cannot be expressed is refused by name.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use muster_shared::mac;
use muster_shared::model::flow::{
    Action, Criterion, Ct, Entry, Field, Instruction, Output, Packed, Port, Rule,
};
use serde_json::{Value, json};

use super::form::hash;
use super::verdict_map::{self, Shape};
use crate::openflow::Form;

/// Bits of `ct_state` in OpenFlow, and what nftables has for them.
const STATES: [(u128, u32); 4] = [(0x01, 8), (0x02, 2), (0x04, 4), (0x10, 1)];
const REPLY: u128 = 0x08;
const TRACKED: u128 = 0x20;
const NAT: u128 = 0xc0;
const UNTRACKED: u32 = 64;
/// The flags that nft knows.
const TCP_FLAGS: u128 = 0xff;

/// A flow rule in nftables' language.
pub(super) struct TranslatedRule {
    pub table: u8,
    pub priority: u16,
    /// Everything but the comment; counters are put in place of [`COUNTER`].
    pub text: String,
    pub form: Form,
    /// The rule as an element of a map, if it can be one.
    pub element: Option<Element>,
    pub goto: Option<u8>,
}

/// A rule as an element.
pub(super) struct Element {
    pub shape: Shape,
    pub key: String,
    pub verdict: String,
    pub form: Form,
}

/// Marks the place of the counter in a rule's text.
pub(super) const COUNTER: &str = "counter";

/// The matching half.
#[derive(Default)]
struct Matches {
    text: String,
    form: Vec<Value>,
}

/// Translates an entry; the error is a reason in words.
pub(super) fn say(packed: &[u8]) -> Result<TranslatedRule, String> {
    match Packed::read(packed).map_err(|error| error.to_string())? {
        Entry::Rule(rule) => say_rule(&rule),
        Entry::Group(_) => Err("nftables has no groups".into()),
        Entry::Meter(_) => Err("nftables has no meters of OpenFlow's kind".into()),
    }
}

pub(super) fn say_rule(rule: &Rule) -> Result<TranslatedRule, String> {
    if rule.has_timeout() {
        return Err("rules of nftables have no timeouts: leave out idle_timeout and hard_timeout".into());
    }
    let Matches { mut text, mut form } = matches(rule)?;
    let (before, verdict, goto) = treatment(rule)?;
    let _ = write!(text, "{COUNTER} ");
    form.push(json!({"counter": null}));
    for (words, given) in &before {
        let _ = write!(text, "{words} ");
        form.push(given.clone());
    }
    text.push_str(&verdict.0);
    form.push(verdict.1.clone());
    let element = match before.is_empty() {
        true => verdict_map::of(rule).map(|(shape, key, given)| Element {
            shape,
            key,
            form: hash(&json!([given, verdict.1])),
            verdict: verdict.0,
        }),
        false => None,
    };
    let (table, priority) = (rule.table, rule.priority);
    Ok(TranslatedRule { table, priority, text, form: hash(&Value::Array(form)), element, goto })
}

fn matches(rule: &Rule) -> Result<Matches, String> {
    let mut all = Matches::default();
    let value = |field| rule.field(field).map(|(value, _)| value);
    let family = match value(Field::EthType) {
        None => 0,
        Some(0x0800) => 4,
        Some(0x86dd) => 6,
        Some(other) => {
            return Err(format!("the nftables device sees IPv4 and IPv6 only, not eth_type {other:#06x}"));
        }
    };
    let has = |fields: &[Field]| fields.iter().any(|field| value(*field).is_some());
    // nft leaves out what a later match implies.
    let of_family =
        [Field::IpDscp, Field::IpEcn, Field::Ipv4Src, Field::Ipv4Dst, Field::Ipv6Src, Field::Ipv6Dst];
    let icmp = [Field::Icmpv4Type, Field::Icmpv4Code, Field::Icmpv6Type, Field::Icmpv6Code];
    let ports = [
        Field::TcpSrc,
        Field::TcpDst,
        Field::TcpFlags,
        Field::UdpSrc,
        Field::UdpDst,
        Field::SctpSrc,
        Field::SctpDst,
    ];
    if family != 0 {
        let name = if family == 4 { "ipv4" } else { "ipv6" };
        let _ = write!(all.text, "meta nfproto {name} ");
        if !has(&of_family) && !has(&icmp) && value(Field::Ipv6Flabel).is_none() {
            all.form.push(nfproto_form(family));
        }
    }
    for criterion in &rule.selector {
        match criterion {
            Criterion::InPort(port) => all.port(port)?,
            Criterion::Field { field: Field::EthType, .. } => {}
            Criterion::Field { field: Field::IpProto, value, .. } => {
                let protocol = u8::try_from(*value).map_err(|_| "ip_proto is over 255")?;
                let _ = write!(all.text, "meta l4proto {protocol} ");
                if !has(&ports) && !has(&icmp) {
                    all.form.push(l4proto_form(protocol));
                }
            }
            Criterion::Field { field: Field::CtState, value, mask } => {
                all.ct_state(*value, mask.unwrap_or(Field::CtState.all_bits()))?;
            }
            Criterion::Field { field: Field::TcpFlags, value, mask } => all.tcp_flags(*value, *mask)?,
            Criterion::Field { field, value, mask } => all.field(*field, *value, *mask, family)?,
        }
    }
    Ok(all)
}

impl Matches {
    fn push(&mut self, text: &str, op: &str, left: Value, right: Value) {
        let _ = write!(self.text, "{text} ");
        self.form.push(json!({"match": {"op": op, "left": left, "right": right}}));
    }

    fn port(&mut self, port: &Port) -> Result<(), String> {
        match port {
            Port::Named(name) if may_be_quoted(name) => {
                self.push(&format!("iifname \"{name}\""), "==", meta("iifname"), json!(name));
                Ok(())
            }
            Port::Named(name) => {
                let name: String = name.chars().flat_map(char::escape_default).collect();
                Err(format!(
                    "in_port: '{name}' cannot be said to nft: want 1 to 15 letters, digits and any of -_.:@+,=#%"
                ))
            }
            Port::Local => {
                Err("in_port: LOCAL: the nftables device sees what comes in, not what the node sends".into())
            }
        }
    }

    fn ct_state(&mut self, value: u128, mask: u128) -> Result<(), String> {
        let known = STATES.iter().fold(REPLY | TRACKED, |known, (theirs, _)| known | theirs);
        if mask & NAT != 0 {
            return Err("ct_state: snat and dnat are not known yet where the nftables device looks".into());
        }
        if mask & !known != 0 {
            return Err("ct_state: nftables knows new est rel rpl inv trk".into());
        }
        let bits =
            |of: u128| STATES.iter().filter(move |(theirs, _)| of & theirs != 0).map(|(_, ours)| *ours);
        let (wanted, unwanted): (Vec<u32>, Vec<u32>) = (bits(value).collect(), bits(mask & !value).collect());
        let state = json!({"ct": {"key": "state"}});
        let is_untracked = mask & !value & TRACKED != 0;
        match wanted[..] {
            [] if is_untracked => self.push("ct state 64", "in", state, json!(UNTRACKED)),
            [one] if !is_untracked => self.push(&format!("ct state {one}"), "in", state, json!(one)),
            [] => {
                let tracked = (value & TRACKED != 0).then_some(UNTRACKED);
                let all = unwanted.into_iter().chain(tracked).fold(0, |all, bit| all | bit);
                if all != 0 {
                    self.push(&format!("ct state & {all} == 0"), "!", state, list(all));
                }
            }
            _ => {
                return Err(
                    "ct_state: a packet has one of new, est, rel and inv in nftables, and then it is tracked"
                        .into(),
                );
            }
        }
        if mask & REPLY != 0 {
            let direction = u32::from(value & REPLY != 0);
            let text = format!("ct direction {}", if direction == 1 { "reply" } else { "original" });
            self.push(&text, "==", json!({"ct": {"key": "direction"}}), json!(direction));
        }
        Ok(())
    }

    fn tcp_flags(&mut self, value: u128, mask: Option<u128>) -> Result<(), String> {
        let Some(mask) = mask.filter(|mask| mask & !TCP_FLAGS == 0) else {
            return Err("tcp_flags: nft knows fin syn rst psh ack urg ece cwr: name those that count, such as +syn-ack".into());
        };
        let (value, mask) =
            (u32::try_from(value).unwrap_or_default(), u32::try_from(mask).unwrap_or_default());
        let flags = payload("tcp", "flags");
        let text = format!("tcp flags & {mask} == {value}");
        match (value, mask) {
            (0, _) => self.push(&text, "!", flags, list(mask)),
            (_, 0xff) => self.push(&text, "==", flags, list(value)),
            _ => self.push(&text, "==", json!({"&": [flags, list(mask)]}), list(value)),
        }
        Ok(())
    }

    fn field(&mut self, field: Field, value: u128, mask: Option<u128>, family: u8) -> Result<(), String> {
        let ip = if family == 4 { "ip" } else { "ip6" };
        let (words, show): (String, Show) = match field {
            Field::CtMark => ("ct mark".into(), number),
            Field::CtZone => ("ct zone".into(), number),
            Field::EthSrc => ("ether saddr".into(), mac::text_of_field),
            Field::EthDst => ("ether daddr".into(), mac::text_of_field),
            Field::IpDscp => (format!("{ip} dscp"), number),
            Field::IpEcn => (format!("{ip} ecn"), number),
            Field::Ipv4Src => ("ip saddr".into(), ip4),
            Field::Ipv4Dst => ("ip daddr".into(), ip4),
            Field::Ipv6Src => ("ip6 saddr".into(), ip6),
            Field::Ipv6Dst => ("ip6 daddr".into(), ip6),
            Field::Ipv6Flabel if mask.is_none() => ("ip6 flowlabel".into(), number),
            Field::TcpSrc => ("tcp sport".into(), number),
            Field::TcpDst => ("tcp dport".into(), number),
            Field::UdpSrc => ("udp sport".into(), number),
            Field::UdpDst => ("udp dport".into(), number),
            Field::SctpSrc => ("sctp sport".into(), number),
            Field::SctpDst => ("sctp dport".into(), number),
            Field::Icmpv4Type => ("icmp type".into(), number),
            Field::Icmpv4Code => ("icmp code".into(), number),
            Field::Icmpv6Type => ("icmpv6 type".into(), number),
            Field::Icmpv6Code => ("icmpv6 code".into(), number),
            Field::VlanVid | Field::VlanPcp => {
                return Err(format!(
                    "{}: the nftables device sees packets without their VLAN tag: match the VLAN's interface with in_port",
                    field.name()
                ));
            }
            other => return Err(format!("{} cannot be matched by the nftables device", other.name())),
        };
        let left = match words.split_once(' ') {
            Some(("ct", key)) => json!({"ct": {"key": key}}),
            Some((protocol, name)) => payload(protocol, name),
            None => meta(&words),
        };
        let is_address = matches!(field, Field::Ipv4Src | Field::Ipv4Dst | Field::Ipv6Src | Field::Ipv6Dst);
        let is_number = !is_address && !matches!(field, Field::EthSrc | Field::EthDst);
        let given = |value: u128| if is_number { json!(value as u64) } else { json!(show(value)) };
        match mask {
            None => self.push(&format!("{words} {}", show(value)), "==", left, given(value)),
            Some(mask) => {
                let text = format!("{words} & {} == {}", show(mask), show(value));
                match prefix(mask, field.bits()).filter(|_| is_address) {
                    Some(length) => {
                        let prefix = json!({"prefix": {"addr": show(value), "len": length}});
                        self.push(&format!("{words} {}/{length}", show(value)), "==", left, prefix);
                    }
                    None => self.push(&text, "==", json!({"&": [left, given(mask)]}), given(value)),
                }
            }
        }
        Ok(())
    }
}

type Show = fn(u128) -> String;

/// The input text, and the listed form.
type Words = (String, Value);

/// The statements before the verdict, the verdict, and the table it leads to.
fn treatment(rule: &Rule) -> Result<(Vec<Words>, Words, Option<u8>), String> {
    let mut before = Vec::new();
    let mut verdict = None;
    for instruction in &rule.treatment {
        if verdict.is_some() {
            return Err("nothing can follow output: NORMAL in nftables".into());
        }
        match instruction {
            Instruction::Do(Action::Output(Output::Normal)) => {
                verdict = Some((("accept".to_owned(), json!({"accept": null})), None));
            }
            Instruction::GotoTable(table) => {
                let chain = super::chain(*table);
                verdict = Some(((format!("goto {chain}"), json!({"goto": {"target": chain}})), Some(*table)));
            }
            Instruction::Do(action) => before.extend(action_words(rule, action)?),
            other => return Err(format!("nftables has nothing for {}", instruction_name(other))),
        }
    }
    match (verdict, before.is_empty()) {
        (Some((words, goto)), _) => Ok((before, words, goto)),
        (None, true) if rule.treatment.is_empty() => {
            Ok((before, ("drop".into(), json!({"drop": null})), None))
        }
        (None, _) => Err("a treatment that does not drop ends in output: NORMAL or goto_table".into()),
    }
}

fn action_words(rule: &Rule, action: &Action) -> Result<Option<Words>, String> {
    match action {
        Action::Set { field: Field::IpDscp, value, mask: None } => {
            let ip = match rule.field(Field::EthType) {
                Some((0x0800, _)) => "ip",
                _ => "ip6",
            };
            let given = json!({"mangle": {"key": payload(ip, "dscp"), "value": (*value as u64)}});
            Ok(Some((format!("{ip} dscp set {value}"), given)))
        }
        Action::Ct(ct) => ct_words(ct),
        Action::Output(_) => Err("nftables forwards by the node's routes: output can be NORMAL only".into()),
        Action::Group(_) => Err("nftables has no groups".into()),
        Action::DecTtl => {
            Err("dec_ttl: nft can set a TTL, not count it down; the node does it for what it forwards".into())
        }
        Action::Set { field, .. } => {
            Err(format!("set_{} cannot be done by the nftables device", field.name()))
        }
        Action::SetQueue(_) => Err("nftables has nothing for set_queue".into()),
        Action::Resubmit(_) => Err("nftables has nothing for resubmit: use goto_table".into()),
        Action::PushVlan(_) | Action::PopVlan => Err("nftables pushes and pops no VLAN tags".into()),
        Action::PushMpls(_) | Action::PopMpls(_) | Action::DecMplsTtl => {
            Err("nftables has nothing for MPLS".into())
        }
    }
}

fn ct_words(ct: &Ct) -> Result<Option<Words>, String> {
    let Ct { commit: _, force, zone, table, mark } = ct;
    if *force || *zone != 0 || table.is_some() {
        return Err(
            "ct: connections are tracked by the node already: of ct, nftables takes commit and mark".into()
        );
    }
    let key = json!({"ct": {"key": "mark"}});
    Ok(mark.map(|(value, mask)| match mask {
        None => (format!("ct mark set {value}"), json!({"mangle": {"key": key, "value": value}})),
        Some(mask) => {
            let kept = !mask;
            // nft lists the set bits among the kept ones.
            let given = json!({"|": [{"&": [key, kept | value]}, value]});
            (
                format!("ct mark set ct mark & {kept} | {value}"),
                json!({"mangle": {"key": key, "value": given}}),
            )
        }
    }))
}

fn instruction_name(instruction: &Instruction) -> &'static str {
    match instruction {
        Instruction::Meter(_) => "meter",
        Instruction::WriteMetadata { .. } => "write_metadata",
        Instruction::ClearActions => "clear_actions",
        Instruction::WriteActions(_) => "write_actions",
        Instruction::Do(_) | Instruction::GotoTable(_) => "this step",
    }
}

/// Whether an interface's name can stand between quotes literally: no `*`, which would match more, and
/// nothing that ends the quotes.
pub(super) fn may_be_quoted(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@+,=#%".contains(&byte);
    (1..=15).contains(&name.len()) && name.bytes().all(is_plain)
}

pub(super) fn ip4(value: u128) -> String {
    Ipv4Addr::from(value as u32).to_string()
}

pub(super) fn ip6(value: u128) -> String {
    Ipv6Addr::from(value).to_string()
}

fn number(value: u128) -> String {
    value.to_string()
}

/// The length of a mask that is a prefix.
fn prefix(mask: u128, bits: u32) -> Option<u32> {
    let length = mask.count_ones();
    let all = u128::MAX >> (128 - bits);
    (length > 0 && mask == all & !(all.checked_shr(length).unwrap_or_default())).then_some(length)
}

/// Bits as nft lists them: a single one, or a list.
fn list(bits: u32) -> Value {
    let mut each: Vec<u32> = (0..32).map(|at| 1 << at).filter(|bit| bits & bit != 0).collect();
    if each.len() == 1 { json!(each.remove(0)) } else { json!(each) }
}

fn meta(key: &str) -> Value {
    json!({"meta": {"key": key}})
}

fn payload(protocol: &str, field: &str) -> Value {
    json!({"payload": {"protocol": protocol, "field": field}})
}

pub(super) fn nfproto_form(family: u8) -> Value {
    let number = if family == 4 { 2 } else { 10 };
    json!({"match": {"op": "==", "left": meta("nfproto"), "right": number}})
}

pub(super) fn l4proto_form(protocol: u8) -> Value {
    json!({"match": {"op": "==", "left": meta("l4proto"), "right": protocol}})
}
