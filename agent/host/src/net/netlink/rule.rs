//! Policy rules of the kernel.
//!
//! Absent: which rules a document may have (`shared/src/model/network/rule.rs`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use muster_shared::model::network::{LinkName, Rule, RuleAction};
use rtnetlink::packet_core::{DefaultNla, Nla};
use rtnetlink::packet_route::rule::{
    RuleAction as Action, RuleAttribute, RuleFlags, RuleMessage, RulePortRange,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::dump::whole;
use super::read::bounded;
use super::{EEXIST, Netlink, Result, done_by, within};

/// The most rules: a host with more would evaluate all of them for every unmatched packet.
const MAX_RULES: usize = 65_536;
const ENOENT: i32 = 2;
/// The kernel's value for an absent `suppress_prefixlength`.
const NO_SUPPRESSION: u32 = u32::MAX;
/// `FRA_SPORT_MASK` and `FRA_DPORT_MASK`, which the kernel gives with single ports since 6.14.
const WHOLE_PORTS: [u16; 2] = [28, 29];

impl Netlink {
    /// The rules that can be represented in full, with the `RTPROT_` number of their origin. Leaves out the
    /// kernel's first rule, which leads to its local table.
    pub async fn rules(&mut self) -> Result<BTreeMap<Rule, u8>> {
        whole(async |dump| {
            let mut rules = BTreeMap::new();
            for family in [AddressFamily::Inet, AddressFamily::Inet6] {
                let mut request = RuleMessage::default();
                request.header.family = family;
                dump.read(RouteNetlinkMessage::GetRule(request), |message| {
                    let RouteNetlinkMessage::NewRule(message) = message else { return Ok(()) };
                    if let Some((rule, protocol)) = parse(&message) {
                        bounded(rules.len(), MAX_RULES, "policy rules")?;
                        rules.insert(rule, protocol);
                    }
                    Ok(())
                })
                .await?;
            }
            Ok(rules)
        })
        .await
    }

    pub async fn add_rule(&mut self, rule: &Rule, protocol: u8) -> Result<()> {
        let mut request = self.handle.rule().add();
        *request.message_mut() = message(rule, protocol);
        done_by(within(request.execute()).await, &[EEXIST])
    }

    /// Removes exactly that rule.
    pub async fn remove_rule(&mut self, rule: &Rule, protocol: u8) -> Result<()> {
        done_by(within(self.handle.rule().del(message(rule, protocol)).execute()).await, &[ENOENT])
    }
}

fn is_all_ones(attribute: &DefaultNla) -> bool {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    value.iter().all(|byte| *byte == u8::MAX)
}

/// `None` for rules that a document cannot express: those belong to others.
fn parse(message: &RuleMessage) -> Option<(Rule, u8)> {
    let header = &message.header;
    let known = RuleFlags::Invert | RuleFlags::IifDetached | RuleFlags::OifDetached;
    let mut rule = Rule {
        v6: header.family == AddressFamily::Inet6,
        not: header.flags.contains(RuleFlags::Invert),
        tos: header.tos,
        ..Rule::default()
    };
    if !known.contains(header.flags) {
        return None;
    }
    let (mut table, mut protocol, mut mark, mut mask) = (u32::from(header.table), 0, None, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Destination(address) => rule.to = IpNet::new(*address, header.dst_len).ok(),
            RuleAttribute::Source(address) => rule.from = IpNet::new(*address, header.src_len).ok(),
            RuleAttribute::Iifname(name) => rule.iif = Some(LinkName::or_loopback(name).ok()?),
            RuleAttribute::Oifname(name) => rule.oif = Some(LinkName::or_loopback(name).ok()?),
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(found) => mark = Some(*found),
            RuleAttribute::FwMask(found) => mask = Some(*found),
            RuleAttribute::Table(found) => table = *found,
            RuleAttribute::Protocol(found) => protocol = (*found).into(),
            RuleAttribute::IpProtocol(found) => rule.ipproto = Some((*found).into()),
            RuleAttribute::SourcePortRange(range) => rule.sport = Some((range.start, range.end)),
            RuleAttribute::DestinationPortRange(range) => rule.dport = Some((range.start, range.end)),
            RuleAttribute::SuppressPrefixLen(NO_SUPPRESSION) | RuleAttribute::L3MDev(false) => {}
            RuleAttribute::Other(other) if WHOLE_PORTS.contains(&other.kind()) && is_all_ones(other) => {}
            _ => return None,
        }
    }
    rule.fwmark = (mark.is_some() || mask.is_some()).then(|| (mark.unwrap_or(0), mask.unwrap_or(u32::MAX)));
    rule.action = match header.action {
        Action::ToTable => RuleAction::Table(table),
        Action::Blackhole => RuleAction::Blackhole,
        Action::Unreachable => RuleAction::Unreachable,
        Action::Prohibit => RuleAction::Prohibit,
        _ => return None,
    };
    // The kernel's first rule has no priority; documents cannot name its table or the other reserved ones.
    (rule.priority != 0 && rule.action != RuleAction::Table(255)).then_some((rule, protocol))
}

fn message(rule: &Rule, protocol: u8) -> RuleMessage {
    let mut message = RuleMessage::default();
    let header = &mut message.header;
    header.family = if rule.v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    header.dst_len = rule.to.map_or(0, |net| net.prefix_len());
    header.src_len = rule.from.map_or(0, |net| net.prefix_len());
    header.tos = rule.tos;
    if rule.not {
        header.flags = RuleFlags::Invert;
    }
    header.action = match rule.action {
        RuleAction::Table(_) => Action::ToTable,
        RuleAction::Blackhole => Action::Blackhole,
        RuleAction::Unreachable => Action::Unreachable,
        RuleAction::Prohibit => Action::Prohibit,
    };
    let attributes = &mut message.attributes;
    if let RuleAction::Table(table) = rule.action {
        // Tables above 255 are only in the attribute.
        header.table = u8::try_from(table).unwrap_or(0);
        attributes.push(RuleAttribute::Table(table));
    }
    let address = |net: IpNet| -> IpAddr { net.addr() };
    attributes.push(RuleAttribute::Priority(rule.priority));
    attributes.push(RuleAttribute::Protocol(protocol.into()));
    attributes.extend(rule.to.map(|net| RuleAttribute::Destination(address(net))));
    attributes.extend(rule.from.map(|net| RuleAttribute::Source(address(net))));
    attributes.extend(rule.iif.iter().map(|name| RuleAttribute::Iifname(name.to_string())));
    attributes.extend(rule.oif.iter().map(|name| RuleAttribute::Oifname(name.to_string())));
    if let Some((mark, mask)) = rule.fwmark {
        attributes.push(RuleAttribute::FwMark(mark));
        attributes.push(RuleAttribute::FwMask(mask));
    }
    attributes.extend(rule.ipproto.map(|number| RuleAttribute::IpProtocol(i32::from(number).into())));
    let range = |(start, end)| RulePortRange { start, end };
    attributes.extend(rule.sport.map(|ports| RuleAttribute::SourcePortRange(range(ports))));
    attributes.extend(rule.dport.map(|ports| RuleAttribute::DestinationPortRange(range(ports))));
    message
}
