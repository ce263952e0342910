//! Groups and meters of a change. They have numbers and no cookies: existing ones that are not held belong to
//! others and are not touched.

use std::collections::BTreeMap;

use muster_shared::model::flow::{Entry, FlowId, Packed};

use super::change::{Change, Stop, begin_in_bundle, error_words, refused, unsayable};
use super::form::{form, of_meter};
use super::wire::{self, Put as _, kind};
use super::{Form, Lost, Op, Ops, Switch};

/// The most bytes of groups and meters in one change, all of which are in memory.
const NUMBERED_MAX: usize = 8 * 1024 * 1024;
/// `OFPGC_ADD`, `OFPGC_MODIFY`, `OFPGC_DELETE`; the same for meters.
const ADD: u8 = 0;
pub(super) const MODIFY: u8 = 1;
pub(super) const DELETE: u8 = 2;

/// A group or a meter of a change.
pub(super) struct NumberedOp {
    id: FlowId,
    held: bool,
    /// The desired or the former entry.
    entry: Entry,
    is_put: bool,
}

impl Switch {
    pub(super) fn say_groups(
        &mut self,
        numbered: &[NumberedOp],
        change: &mut Change,
        there: &BTreeMap<u32, Form>,
        puts: bool,
    ) -> Result<(), Stop> {
        for op in numbered.iter().filter(|op| op.is_put == puts) {
            let Entry::Group(group) = &op.entry else { continue };
            let is_there = there.contains_key(&group.number);
            if op.is_put && is_there && !op.held {
                let text = format!("group {} is there and is not Muster's; remove it first", group.number);
                return Err(refused(Some(op.id), text, true));
            }
            if !op.is_put && !is_there {
                continue;
            }
            let number = group.number.to_be_bytes();
            let removal = [&[0, 0][..], &number].concat();
            let (command, body) = match (op.is_put, is_there) {
                (false, _) => (DELETE, &removal[..]),
                (true, there) => {
                    let body = self.encoder.group(group, &self.connection.ports);
                    let body = body.map_err(|why| unsayable(op.id, why))?;
                    change.groups.push((op.id, group.number, form(body)));
                    (if there { MODIFY } else { ADD }, body)
                }
            };
            let xid = self.connection.xid();
            change.sent(xid, op.id, 0);
            let out = &mut self.connection.output;
            let outer = begin_in_bundle(out, change.bundle, xid);
            let inner = wire::begin(out, kind::GROUP_MOD, xid);
            out.u16(command.into());
            out.extend_from_slice(body);
            wire::end(out, inner);
            wire::end(out, outer);
        }
        Ok(())
    }

    pub(super) fn say_meter(&mut self, command: u8, body: &[u8]) -> u32 {
        self.connection.say(kind::METER_MOD, |out| {
            out.u16(command.into());
            out.extend_from_slice(body);
        })
    }

    /// Puts the meters, which take effect immediately.
    pub(super) async fn put_meters(
        &mut self,
        numbered: &[NumberedOp],
        change: &mut Change,
    ) -> Result<(), Stop> {
        if !numbered.iter().any(|op| matches!(op.entry, Entry::Meter(_))) {
            return Ok(());
        }
        let there = self.connection.meters().await?;
        let mut xids = BTreeMap::new();
        for op in numbered {
            let Entry::Meter(meter) = &op.entry else { continue };
            let before = there.get(&meter.number);
            match (op.is_put, before) {
                (false, None) => {}
                (false, Some(_)) => change.meters_removed.push(meter.number),
                (true, Some(_)) if !op.held => {
                    let text =
                        format!("meter {} is there and is not Muster's; remove it first", meter.number);
                    return Err(refused(Some(op.id), text, true));
                }
                (true, before) => {
                    let body = self.encoder.meter(meter).to_vec();
                    change.meters_before.push((meter.number, before.cloned()));
                    change.meters.push((op.id, meter.number, of_meter(&body)));
                    let command = if before.is_some() { MODIFY } else { ADD };
                    xids.insert(self.say_meter(command, &body), op.id);
                }
            }
        }
        let barrier = self.connection.say(kind::BARRIER_REQUEST, |_| {});
        let mut refusal = None;
        loop {
            let message = self.connection.receive().await?;
            if message.xid == barrier {
                break;
            }
            if let (Some(id), kind::ERROR) = (xids.get(&message.xid), message.kind) {
                refusal = refusal.or(Some(error_words(Some(*id), self.connection.body(&message))));
            }
        }
        refusal.map_or(Ok(()), |refusal| Err(Stop::Refused(refusal)))
    }
}

/// The groups and meters among `ops`, in order.
pub(super) fn numbered(ops: &mut dyn Ops) -> Result<Vec<NumberedOp>, Stop> {
    let mut numbered = Vec::new();
    let mut bytes = 0;
    ops.rewind().map_err(Lost::Kept)?;
    let is_again = ops.is_again();
    while let Some(op) = ops.next().map_err(Lost::Kept)? {
        let (id, packed, held, is_put) = match op {
            Op::Put { id, packed, held } => (id, packed, held || is_again, true),
            Op::Remove { id, was: Some(packed) } => (id, packed, true, false),
            Op::Remove { was: None, .. } => continue,
        };
        match Packed::read(packed) {
            Ok(entry @ (Entry::Group(_) | Entry::Meter(_))) => {
                bytes += packed.len();
                numbered.push(NumberedOp { id, held, entry, is_put });
            }
            Ok(Entry::Rule(_)) | Err(_) => {}
        }
        if bytes > NUMBERED_MAX {
            return Err(refused(Some(id), "too many groups in one batch: split it".into(), true));
        }
    }
    Ok(numbered)
}

/// A meter's body with only its number.
pub(super) fn meter_body(number: u32) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.u32(number);
    body
}
