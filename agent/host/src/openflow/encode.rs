//! Entries as OpenFlow 1.4, in the form in which Open vSwitch gives them back.

use muster_shared::model::flow::{
    Action, Criterion, Ct, Field, Group, GroupKind, Instruction, Meter, Output, Port, Rule,
};

use super::form::RuleParts;
use super::oxm;
use super::ports::Ports;
use super::wire::{GROUP_ANY, NICIRA, NO_BUFFER, Put, SEND_FLOW_REM, action, instruction, nicira, port};

/// Bytes of a group's buckets, or of a rule: its message has to be shorter than 64 KiB.
const BODY_MAX: usize = 60_000;

/// The reason why an entry cannot be encoded for this switch at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsayable {
    pub reason: String,
    /// A retry is useless before the entry changes.
    pub permanent: bool,
}

type EncodeResult = Result<(), Unsayable>;

fn never(reason: impl Into<String>) -> Unsayable {
    Unsayable { reason: reason.into(), permanent: true }
}

/// Encodes entries; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    matched: Vec<u8>,
    body: Vec<u8>,
}

impl Encoder {
    pub fn rule(&mut self, rule: &Rule, ports: &Ports) -> Result<RuleParts<'_>, Unsayable> {
        self.matched.clear();
        for criterion in &rule.selector {
            match criterion {
                Criterion::InPort(port) => {
                    let number = port_number(port, ports)?;
                    oxm::put_key(&mut self.matched, oxm::IN_PORT, 4, number.into(), None);
                }
                Criterion::Field { field, value, mask } => oxm::put(&mut self.matched, *field, *value, *mask),
            }
        }
        self.body.clear();
        instructions(&mut self.body, &rule.treatment, ports)?;
        if self.matched.len() + self.body.len() > BODY_MAX {
            return Err(never("the rule is longer than OpenFlow can say"));
        }
        Ok(RuleParts {
            table: rule.table,
            priority: rule.priority,
            idle_timeout: rule.idle_timeout,
            hard_timeout: rule.hard_timeout,
            flags: if rule.has_timeout() { SEND_FLOW_REM } else { 0 },
            importance: 0,
            matched: &self.matched,
            instructions: &self.body,
        })
    }

    /// A group from its type to the end, as in its modification and in its description.
    pub fn group(&mut self, group: &Group, ports: &Ports) -> Result<&[u8], Unsayable> {
        let out = &mut self.body;
        out.clear();
        out.u8(match group.kind {
            GroupKind::All => 0,
            GroupKind::Select => 1,
            GroupKind::Indirect => 2,
            GroupKind::FastFailover => 3,
        });
        out.u8(0);
        out.u32(group.number);
        for bucket in &group.buckets {
            let start = out.len();
            out.u16(0);
            out.u16(bucket.weight);
            out.u32(bucket.watch_port.as_ref().map_or(Ok(port::ANY), |port| port_number(port, ports))?);
            out.u32(GROUP_ANY);
            out.zeros(4);
            for action in &bucket.treatment {
                self::action(out, action, ports)?;
            }
            out.length(start, start);
        }
        if out.len() > BODY_MAX { Err(never("the group is longer than OpenFlow can say")) } else { Ok(out) }
    }

    /// A meter from its flags to the end, as in its modification and in its configuration.
    pub fn meter(&mut self, meter: &Meter) -> &[u8] {
        const KBPS: u16 = 1;
        const PKTPS: u16 = 2;
        const BURST: u16 = 4;
        const STATS: u16 = 8;
        let out = &mut self.body;
        out.clear();
        let burst = if meter.bands.iter().any(|band| band.burst != 0) { BURST } else { 0 };
        out.u16(if meter.packets { PKTPS } else { KBPS } | burst | STATS);
        out.u32(meter.number);
        for band in &meter.bands {
            out.u16(if band.dscp_remark.is_some() { 2 } else { 1 });
            out.u16(16);
            out.u32(band.rate);
            out.u32(band.burst);
            out.u8(band.dscp_remark.unwrap_or(0));
            out.zeros(3);
        }
        out
    }
}

fn port_number(port: &Port, ports: &Ports) -> Result<u32, Unsayable> {
    let name = match port {
        Port::Local => return Ok(port::LOCAL),
        Port::Named(name) => name,
    };
    match ports.number(name) {
        Some(number) => Ok(number),
        None if Ports::can_carry(name) => {
            Err(Unsayable { reason: format!("the bridge has no port {name}"), permanent: false })
        }
        None => Err(never(format!("port {name}: OpenFlow 1.4 carries names of 15 bytes at most"))),
    }
}

/// Actions that apply at once are one instruction. The switch runs instructions in an order of its
/// own, so rules must give them in that order.
fn instructions(out: &mut Vec<u8>, treatment: &[Instruction], ports: &Ports) -> EncodeResult {
    const ORDER: &str = "instructions go in this order, each once: meter, what is done at once, clear_actions, \
                         write_actions, write_metadata, goto_table";
    let rank = |instruction: &Instruction| match instruction {
        Instruction::Meter(_) => 0,
        Instruction::Do(_) => 1,
        Instruction::ClearActions => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::WriteMetadata { .. } => 4,
        Instruction::GotoTable(_) => 5,
    };
    let mut last = None;
    let mut at_once = None;
    for one in treatment {
        let rank = rank(one);
        if last.is_some_and(|last| rank < last || (rank == last && rank != 1)) {
            return Err(never(ORDER));
        }
        last = Some(rank);
        let start = out.len();
        match one {
            Instruction::Do(action) => {
                let start = match at_once {
                    Some(start) => start,
                    None => {
                        out.u16(instruction::APPLY_ACTIONS);
                        out.u16(0);
                        out.zeros(4);
                        at_once = Some(start);
                        start
                    }
                };
                self::action(out, action, ports)?;
                out.length(start + 2, start);
            }
            Instruction::Meter(number) => {
                out.u16(instruction::METER);
                out.u16(8);
                out.u32(*number);
            }
            Instruction::GotoTable(table) => {
                out.u16(instruction::GOTO_TABLE);
                out.u16(8);
                out.u8(*table);
                out.zeros(3);
            }
            Instruction::WriteMetadata { value, mask } => {
                out.u16(instruction::WRITE_METADATA);
                out.u16(24);
                out.zeros(4);
                out.u64(*value);
                out.u64(mask.unwrap_or(u64::MAX));
            }
            Instruction::ClearActions => {
                out.u16(instruction::CLEAR_ACTIONS);
                out.u16(8);
                out.zeros(4);
            }
            Instruction::WriteActions(actions) => {
                out.u16(instruction::WRITE_ACTIONS);
                out.u16(0);
                out.zeros(4);
                for action in actions {
                    self::action(out, action, ports)?;
                }
                out.length(start + 2, start);
            }
        }
    }
    Ok(())
}

/// An action of eight bytes.
fn short(out: &mut Vec<u8>, kind: u16, body: u32) {
    out.u16(kind);
    out.u16(8);
    out.u32(body);
}

fn action(out: &mut Vec<u8>, action: &Action, ports: &Ports) -> EncodeResult {
    match action {
        Action::Output(output) => {
            let number = match output {
                Output::Port(port) => port_number(port, ports)?,
                Output::InPort => port::IN_PORT,
                Output::Normal => port::NORMAL,
                Output::All => port::ALL,
                Output::Flood => port::FLOOD,
                Output::Controller => port::CONTROLLER,
            };
            let is_to_controller = matches!(output, Output::Controller);
            out.u16(action::OUTPUT);
            out.u16(16);
            out.u32(number);
            out.u16(if is_to_controller { NO_BUFFER } else { 0 });
            out.zeros(6);
        }
        Action::Group(number) => short(out, action::GROUP, *number),
        Action::SetQueue(queue) => short(out, action::SET_QUEUE, *queue),
        Action::Resubmit(table) => {
            nicira_head(out, nicira::RESUBMIT_TABLE, 16);
            out.u16(0xfff8);
            out.u8(*table);
            out.zeros(3);
        }
        Action::Set { field, value, mask: None } => set(out, *field, *value),
        Action::Set { field, value, mask: Some(mask) } => loads(out, *field, *value, *mask),
        Action::PushVlan(kind) => short(out, action::PUSH_VLAN, u32::from(*kind) << 16),
        Action::PopVlan => short(out, action::POP_VLAN, 0),
        Action::PushMpls(kind) => short(out, action::PUSH_MPLS, u32::from(*kind) << 16),
        Action::PopMpls(kind) => short(out, action::POP_MPLS, u32::from(*kind) << 16),
        Action::DecTtl => short(out, action::DEC_NW_TTL, 0),
        Action::DecMplsTtl => short(out, action::DEC_MPLS_TTL, 0),
        Action::Ct(given) => ct(out, given),
    }
    Ok(())
}

fn nicira_head(out: &mut Vec<u8>, subtype: u16, length: u16) {
    out.u16(action::EXPERIMENTER);
    out.u16(length);
    out.u32(NICIRA);
    out.u16(subtype);
}

/// `set_field`: a whole field.
fn set(out: &mut Vec<u8>, field: Field, value: u128) {
    let start = out.len();
    out.u16(action::SET_FIELD);
    out.u16(0);
    oxm::put(out, field, value, None);
    out.pad(start);
    out.length(start + 2, start);
}

/// Sets some bits of a field: before OpenFlow 1.5, Open vSwitch needs a load for each run of bits.
fn loads(out: &mut Vec<u8>, field: Field, value: u128, mask: u128) {
    let mut at = 0;
    while mask.checked_shr(at).is_some_and(|rest| rest != 0) {
        at += (mask >> at).trailing_zeros();
        let count = (mask >> at).trailing_ones().min(64);
        let bits = (value >> at) as u64 & u64::MAX >> (64 - count);
        nicira_head(out, nicira::REG_LOAD, 24);
        out.u16(u16::try_from(at << 6 | (count - 1)).unwrap_or(0));
        out.u32(oxm::load_header(field));
        out.u64(bits);
        at += count;
    }
}

fn ct(out: &mut Vec<u8>, given: &Ct) {
    let start = out.len();
    nicira_head(out, nicira::CT, 0);
    out.u16(u16::from(given.commit) | u16::from(given.force) << 1);
    out.u32(0);
    out.u16(given.zone);
    out.u8(given.table.unwrap_or(0xff));
    out.zeros(3 + 2);
    match given.mark {
        Some((value, None)) => set(out, Field::CtMark, value.into()),
        Some((value, Some(mask))) => loads(out, Field::CtMark, value.into(), mask.into()),
        None => {}
    }
    out.length(start + 2, start);
}
