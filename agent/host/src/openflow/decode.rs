//! OpenFlow back into our words, where they have words for it.

use muster_shared::model::flow::{Action, Criterion, Ct, Field, Instruction, Output, Port, Rule};

use super::form::RuleParts;
use super::oxm;
use super::ports::Ports;
use super::wire::{NICIRA, NO_BUFFER, Take, action, instruction, nicira, port};

/// The rule, if our notation can express it.
pub(super) fn rule(parts: &RuleParts<'_>, ports: &Ports) -> Option<Rule> {
    let mut selector = selector(parts.matched, ports)?;
    selector.sort_unstable_by_key(Criterion::order);
    Some(Rule {
        table: parts.table,
        priority: parts.priority,
        selector,
        treatment: treatment(parts.instructions, ports)?,
        idle_timeout: parts.idle_timeout,
        hard_timeout: parts.hard_timeout,
    })
}

fn selector(matched: &[u8], ports: &Ports) -> Option<Vec<Criterion>> {
    let mut rest = Take(matched);
    let mut selector = Vec::new();
    while !rest.is_empty() {
        let item = oxm::take(&mut rest)?;
        let criterion = match (item.key, item.mask()) {
            (oxm::IN_PORT, None) => Criterion::InPort(named(u32::try_from(item.value()).ok()?, ports)?),
            (key, mask) => Criterion::Field { field: oxm::field(key)?, value: item.value(), mask },
        };
        selector.push(criterion);
    }
    Some(selector)
}

fn named(number: u32, ports: &Ports) -> Option<Port> {
    match number {
        port::LOCAL => Some(Port::Local),
        number => ports.name(number).map(|name| Port::Named(name.into())),
    }
}

fn treatment(instructions: &[u8], ports: &Ports) -> Option<Vec<Instruction>> {
    let mut rest = Take(instructions);
    let mut treatment = Vec::new();
    while !rest.is_empty() {
        let mut body = Take(rest.item(2, 8)?);
        let kind = body.u16()?;
        body.u16()?;
        match kind {
            instruction::GOTO_TABLE => treatment.push(Instruction::GotoTable(body.u8()?)),
            instruction::WRITE_METADATA => {
                body.u32()?;
                let (value, mask) = (body.u64()?, body.u64()?);
                treatment
                    .push(Instruction::WriteMetadata { value, mask: (mask != u64::MAX).then_some(mask) });
            }
            instruction::WRITE_ACTIONS => {
                body.u32()?;
                treatment.push(Instruction::WriteActions(actions(body.0, ports)?));
            }
            instruction::APPLY_ACTIONS => {
                body.u32()?;
                treatment.extend(actions(body.0, ports)?.into_iter().map(Instruction::Do));
            }
            instruction::CLEAR_ACTIONS => treatment.push(Instruction::ClearActions),
            instruction::METER => treatment.push(Instruction::Meter(body.u32()?)),
            _ => return None,
        }
    }
    Some(treatment)
}

/// A list of actions.
pub(super) fn actions(bytes: &[u8], ports: &Ports) -> Option<Vec<Action>> {
    actions_in(bytes, ports, false)
}

fn actions_in(bytes: &[u8], ports: &Ports, within_ct: bool) -> Option<Vec<Action>> {
    let mut rest = Take(bytes);
    let mut actions = Vec::new();
    while !rest.is_empty() {
        let mut body = Take(rest.item(2, 8)?);
        let kind = body.u16()?;
        body.u16()?;
        actions.push(match kind {
            action::OUTPUT => {
                let output = output(body.u32()?, ports)?;
                let bytes = body.u16()?;
                // A rule of Muster sends whole packets.
                if output == Output::Controller && bytes != NO_BUFFER {
                    return None;
                }
                Action::Output(output)
            }
            action::DEC_MPLS_TTL => Action::DecMplsTtl,
            action::PUSH_VLAN => Action::PushVlan(body.u16()?),
            action::POP_VLAN => Action::PopVlan,
            action::PUSH_MPLS => Action::PushMpls(body.u16()?),
            action::POP_MPLS => Action::PopMpls(body.u16()?),
            action::SET_QUEUE => Action::SetQueue(body.u32()?),
            action::GROUP => Action::Group(body.u32()?),
            action::DEC_NW_TTL => Action::DecTtl,
            action::SET_FIELD => {
                let item = oxm::take(&mut body)?;
                Action::Set { field: oxm::field(item.key)?, value: item.value(), mask: item.mask() }
            }
            action::EXPERIMENTER => experimenter(body, within_ct)?,
            _ => return None,
        });
    }
    Some(actions)
}

fn output(number: u32, ports: &Ports) -> Option<Output> {
    Some(match number {
        port::IN_PORT => Output::InPort,
        port::NORMAL => Output::Normal,
        port::ALL => Output::All,
        port::FLOOD => Output::Flood,
        port::CONTROLLER => Output::Controller,
        number => Output::Port(named(number, ports)?),
    })
}

fn experimenter(mut body: Take<'_>, within_ct: bool) -> Option<Action> {
    if body.u32()? != NICIRA {
        return None;
    }
    match body.u16()? {
        nicira::RESUBMIT_TABLE => {
            let (from, table) = (body.u16()?, body.u8()?);
            (from == 0xfff8).then_some(Action::Resubmit(table))
        }
        nicira::REG_LOAD => {
            let (at, header, value) = (body.u16()?, body.u32()?, body.u64()?);
            let field = oxm::loaded_field(header)?;
            let (at, count) = (u32::from(at >> 6), u32::from(at & 0x3f) + 1);
            let mask = (u128::from(u64::MAX) >> (64 - count)).checked_shl(at)?;
            let value = u128::from(value).checked_shl(at)?;
            if value & !mask != 0 || mask & !field.all_bits() != 0 {
                return None;
            }
            Some(Action::Set { field, value, mask: (mask != field.all_bits()).then_some(mask) })
        }
        // Only one level, so that received bytes cannot control the recursion's depth.
        nicira::CT if !within_ct => ct(body),
        _ => None,
    }
}

fn ct(mut body: Take<'_>) -> Option<Action> {
    let (flags, zone_source, zone, table) = (body.u16()?, body.u32()?, body.u16()?, body.u8()?);
    body.bytes(3)?;
    let helper = body.u16()?;
    if flags > 3 || zone_source != 0 || helper != 0 {
        return None;
    }
    let mut mark = None;
    for action in actions_in(body.0, &Ports::default(), true)? {
        let Action::Set { field: Field::CtMark, value, mask } = action else { return None };
        let (value, mask) = (u32::try_from(value).ok()?, mask.and_then(|mask| u32::try_from(mask).ok()));
        // A mask with holes becomes several loads.
        mark = Some(match (mark, mask) {
            (Some((before, Some(bits))), Some(mask)) if bits & mask == 0 => {
                (before | value, Some(bits | mask))
            }
            (None, mask) => (value, mask),
            _ => return None,
        });
    }
    let table = (table != 0xff).then_some(table);
    Some(Action::Ct(Ct { commit: flags & 1 != 0, force: flags & 2 != 0, zone, table, mark }))
}
