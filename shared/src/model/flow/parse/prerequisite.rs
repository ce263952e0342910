//! The prerequisites of a rule's parts: the checks of Open vSwitch, with errors in our terms.
//!
//! ```text
//!   selector ──► what is known of a packet (EtherType, protocol, tag) ──► each step of the treatment needs some of it,
//!                                                                         and push and pop change it
//! ```

use super::{BadEntry, Read};
use crate::model::flow::print::VLAN_PRESENT;
use crate::model::flow::{Action, Criterion, Field, Instruction, Rule};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// The properties of all packets at a point of the treatment.
struct PacketFields {
    eth_type: Option<u16>,
    ip_proto: Option<u8>,
    icmpv6_type: Option<u8>,
    icmpv6_code: Option<u8>,
    is_tagged: bool,
}

pub(super) fn check(rule: &Rule) -> Read<()> {
    let mut known = selected(rule).map_err(|bad| bad.key("selector"))?;
    let mut last = 0;
    for (n, instruction) in rule.treatment.iter().enumerate() {
        in_order(instruction, &mut last)
            .and_then(|()| known.instruction(instruction, rule.table))
            .map_err(|bad| bad.item(n).key("treatment"))?;
    }
    Ok(())
}

/// Checks a selector alone.
pub(super) fn selector(selector: Vec<Criterion>) -> Read<()> {
    let (treatment, idle_timeout, hard_timeout) = (Vec::new(), 0, 0);
    selected(&Rule { table: 0, priority: 0, selector, treatment, idle_timeout, hard_timeout }).map(drop)
}

fn selected(rule: &Rule) -> Read<PacketFields> {
    let known = PacketFields::of(rule);
    for field in rule.selector.iter().filter_map(|criterion| match criterion {
        Criterion::Field { field, .. } => Some(*field),
        Criterion::InPort(_) => None,
    }) {
        known.meets(field).map_err(|needs| needs_message(field.name(), needs).key(field.name()))?;
    }
    Ok(known)
}

/// OpenFlow carries instructions in one order, and each kind except actions at most once.
fn in_order(instruction: &Instruction, last: &mut u8) -> Read<()> {
    let (place, word) = match instruction {
        Instruction::Meter(_) => (1, "meter"),
        Instruction::Do(_) => (2, "an action"),
        Instruction::ClearActions => (3, "clear_actions"),
        Instruction::WriteActions(_) => (4, "write_actions"),
        Instruction::WriteMetadata { .. } => (5, "write_metadata"),
        Instruction::GotoTable(_) => (6, "goto_table"),
    };
    let is_again = place == *last && !matches!(instruction, Instruction::Do(_));
    let is_late = place < *last;
    *last = place.max(*last);
    match (is_again, is_late) {
        (true, _) => Err(BadEntry::new(format!("{word} stands here a second time")).key(word)),
        (_, true) => Err(BadEntry::new(format!(
            "{word} stands too late: the order is meter, actions, clear_actions, write_actions, write_metadata, goto_table"
        ))),
        _ => Ok(()),
    }
}

/// The error is the missing prerequisite, in the notation of a rule.
type PrerequisiteResult = Result<(), &'static str>;

fn needs_message(what: &str, needs: &str) -> BadEntry {
    BadEntry::new(format!("{what} needs {needs}"))
}

fn when(is_so: bool, needs: &'static str) -> PrerequisiteResult {
    if is_so { Ok(()) } else { Err(needs) }
}

impl PacketFields {
    fn of(rule: &Rule) -> Self {
        let exact = |field| rule.field(field).and_then(|(value, mask)| mask.is_none().then_some(value));
        let byte = |field| exact(field).and_then(|value| u8::try_from(value).ok());
        Self {
            eth_type: exact(Field::EthType).and_then(|value| u16::try_from(value).ok()),
            ip_proto: byte(Field::IpProto),
            icmpv6_type: byte(Field::Icmpv6Type),
            icmpv6_code: byte(Field::Icmpv6Code),
            is_tagged: rule.field(Field::VlanVid).is_some_and(|(value, mask)| {
                value & VLAN_PRESENT != 0 && mask.is_none_or(|mask| mask & VLAN_PRESENT != 0)
            }),
        }
    }

    fn is_mpls(&self) -> bool {
        self.eth_type.is_some_and(|it| MPLS.contains(&it))
    }

    fn is_ip(&self) -> bool {
        self.eth_type == Some(IPV4) || self.eth_type == Some(IPV6)
    }

    /// Whether this field can be matched on, or set.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most fields need nothing")]
    fn meets(&self, field: Field) -> PrerequisiteResult {
        let proto = |wanted: u8| self.is_ip() && self.ip_proto == Some(wanted);
        let nd =
            self.eth_type == Some(IPV6) && self.ip_proto == Some(58) && self.icmpv6_code.unwrap_or(0) == 0;
        let nd_type = |wanted: u8| nd && self.icmpv6_type == Some(wanted);
        match field {
            Field::VlanPcp => when(self.is_tagged, "a VLAN tag: vlan_vid: any, or a number"),
            Field::MplsLabel | Field::MplsTc | Field::MplsBos => {
                when(self.is_mpls(), "eth_type: 0x8847 (or 0x8848)")
            }
            Field::IpDscp | Field::IpEcn | Field::IpProto => {
                when(self.is_ip(), "eth_type: 0x0800 (or 0x86dd)")
            }
            Field::Ipv4Src | Field::Ipv4Dst => when(self.eth_type == Some(IPV4), "eth_type: 0x0800"),
            Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6Flabel => {
                when(self.eth_type == Some(IPV6), "eth_type: 0x86dd")
            }
            Field::TcpSrc | Field::TcpDst | Field::TcpFlags => {
                when(proto(6), "eth_type: 0x0800 (or 0x86dd) and ip_proto: 6")
            }
            Field::UdpSrc | Field::UdpDst => when(proto(17), "eth_type: 0x0800 (or 0x86dd) and ip_proto: 17"),
            Field::SctpSrc | Field::SctpDst => {
                when(proto(132), "eth_type: 0x0800 (or 0x86dd) and ip_proto: 132")
            }
            Field::Icmpv4Type | Field::Icmpv4Code => {
                let is_so = self.eth_type == Some(IPV4) && self.ip_proto == Some(1);
                when(is_so, "eth_type: 0x0800 and ip_proto: 1")
            }
            Field::Icmpv6Type | Field::Icmpv6Code => {
                let is_so = self.eth_type == Some(IPV6) && self.ip_proto == Some(58);
                when(is_so, "eth_type: 0x86dd and ip_proto: 58")
            }
            Field::Ipv6NdTarget => when(
                nd_type(SOLICITATION) || nd_type(ADVERTISEMENT),
                "eth_type: 0x86dd, ip_proto: 58 and icmpv6_type: 135 (or 136)",
            ),
            Field::Ipv6NdSll => {
                when(nd_type(SOLICITATION), "eth_type: 0x86dd, ip_proto: 58 and icmpv6_type: 135")
            }
            Field::Ipv6NdTll => {
                when(nd_type(ADVERTISEMENT), "eth_type: 0x86dd, ip_proto: 58 and icmpv6_type: 136")
            }
            Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => {
                when(self.eth_type == Some(ARP) || self.eth_type == Some(RARP), "eth_type: 0x0806")
            }
            _ => Ok(()),
        }
    }

    fn instruction(&mut self, instruction: &Instruction, table: u8) -> Read<()> {
        match instruction {
            Instruction::Do(action) => self.action(action, table),
            Instruction::WriteActions(actions) => actions.iter().enumerate().try_for_each(|(n, action)| {
                self.action(action, table).map_err(|bad| bad.item(n).key("write_actions"))
            }),
            Instruction::GotoTable(to) => onwards("goto_table", table, *to),
            Instruction::Meter(_) | Instruction::WriteMetadata { .. } | Instruction::ClearActions => Ok(()),
        }
    }

    fn action(&mut self, action: &Action, table: u8) -> Read<()> {
        const IN_SELECTOR: &str = "in the selector";
        let needs =
            |word: &str, needs: &str| BadEntry::new(format!("{word} needs {needs} {IN_SELECTOR}")).key(word);
        match action {
            Action::Set { field: field @ (Field::VlanVid | Field::VlanPcp), .. } if !self.is_tagged => {
                let word = format!("set_{}", field.name());
                let why = "there may be no tag to change: put push_vlan before it, or match vlan_vid";
                Err(BadEntry::new(why).key(&word))
            }
            Action::Set { field, .. } => {
                let word = format!("set_{}", field.name());
                self.meets(*field).map_err(|missing| needs(&word, missing))
            }
            Action::PushVlan(_) => {
                self.is_tagged = true;
                Ok(())
            }
            Action::PopVlan if !self.is_tagged => {
                Err(BadEntry::new("there may be no tag to take away: match vlan_vid").key("pop_vlan"))
            }
            Action::PopVlan => {
                self.is_tagged = false;
                Ok(())
            }
            Action::PushMpls(kind) => {
                self.becomes(*kind);
                Ok(())
            }
            Action::PopMpls(_) if !self.is_mpls() => Err(needs("pop_mpls", "eth_type: 0x8847 (or 0x8848)")),
            Action::PopMpls(kind) => {
                self.becomes(*kind);
                Ok(())
            }
            Action::DecMplsTtl if !self.is_mpls() => {
                Err(needs("dec_mpls_ttl", "eth_type: 0x8847 (or 0x8848)"))
            }
            Action::DecTtl if !self.is_ip() => Err(needs("dec_ttl", "eth_type: 0x0800 (or 0x86dd)")),
            Action::Ct(_) if !self.is_ip() => Err(needs("ct", "eth_type: 0x0800 (or 0x86dd)")),
            Action::Ct(ct) => match ct.table {
                Some(to) => onwards("table", table, to).map_err(|bad| bad.key("ct")),
                None => Ok(()),
            },
            Action::Output(_)
            | Action::Group(_)
            | Action::SetQueue(_)
            | Action::Resubmit(_)
            | Action::DecTtl
            | Action::DecMplsTtl => Ok(()),
        }
    }

    /// Behind a label nothing is known of what follows.
    fn becomes(&mut self, eth_type: u16) {
        self.eth_type = Some(eth_type);
        (self.ip_proto, self.icmpv6_type, self.icmpv6_code) = (None, None, None);
    }
}

fn onwards(word: &str, from: u8, to: u8) -> Read<()> {
    match to > from {
        true => Ok(()),
        false => {
            Err(BadEntry::new(format!("from table {from} it goes onwards only: want {} to 254", from + 1))
                .key(word))
        }
    }
}
