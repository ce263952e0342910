//! Compares what a bridge holds with its desired entries. Two entries are equal if their forms are, which
//! `form.rs` makes. A rule of others is counted and left alone.
//!
//! Absent: which rules are ours (`FlowId::is_ours`, `shared/src/model/flow.rs`), and what is repaired
//! (`agent/core/src/flow/repair_switch.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_shared::model::flow::{Entry, FlowId, Group, Meter, Packed};

use super::ask::Flow;
use super::connection::FOREIGN_PLACES_MAX;
use super::encode::{Encoder, Unsayable};
use super::form::{Former, Forms, form, of_meter};
use super::ports::Ports;
use super::wire::part;
use super::{Compared, Desired, Extraneous, Form, Lost, Switch};

/// The most extraneous rules reported at once; the caller removes them and compares again.
const EXTRANEOUS_MAX: usize = 4096;

/// A comparison under way.
struct Comparison<'a> {
    desired: &'a dyn Desired,
    /// A bit for each entry that was met, equal or not.
    met: Vec<u64>,
    packed: Vec<u8>,
    encoder: &'a mut Encoder,
    former: &'a mut Former,
    places: HashMap<u64, u64>,
    found: Compared,
    /// The latest reason, kept because many entries share it.
    reason: Arc<str>,
}

impl Switch {
    pub(super) async fn compare_all(&mut self, desired: &dyn Desired) -> Result<Compared, Lost> {
        let connection = &mut self.connection;
        let xid = connection.ask_flows(0, 0);
        let mut comparison = Comparison {
            desired,
            met: vec![0; desired.len().div_ceil(64)],
            packed: Vec::new(),
            encoder: &mut self.encoder,
            former: &mut self.former,
            places: HashMap::new(),
            found: Compared::default(),
            reason: "".into(),
        };
        loop {
            let (message, more) = connection.part(part::FLOW, xid).await?;
            let mut page = connection.page(&message);
            while !page.is_empty() {
                let flow = Flow::take(&mut page).ok_or(Lost::Garbled("a flow entry"))?;
                comparison.flow(&flow, &connection.ports)?;
            }
            if !more {
                break;
            }
        }
        connection.heard.foreign_places = Some(std::mem::take(&mut comparison.places));
        let groups = connection.groups().await?;
        let meters = connection.meters().await?;
        let meters = meters.iter().map(|(number, body)| (*number, of_meter(body))).collect();
        let device = &self.device;
        let group = |number| Entry::Group(Group { number, ..no_group() }).id(device);
        comparison.numbered(&groups, &connection.ports, group)?;
        let meter = |number| Entry::Meter(Meter { number, packets: false, bands: Vec::new() }).id(device);
        comparison.numbered(&meters, &connection.ports, meter)?;
        comparison.what_was_not_met(&connection.ports)?;
        let mut found = comparison.found;
        found.unsayable.sort_unstable_by_key(|(id, _)| *id);
        connection.shrink();
        Ok(found)
    }
}

fn no_group() -> Group {
    Group { number: 0, kind: muster_shared::model::flow::GroupKind::All, buckets: Vec::new() }
}

impl Comparison<'_> {
    fn flow(&mut self, flow: &Flow<'_>, ports: &Ports) -> Result<(), Lost> {
        let garbled = Lost::Garbled("criteria of a flow entry");
        let forms = self.former.rule(&flow.parts).ok_or(garbled)?;
        if !FlowId::is_ours(flow.cookie) {
            self.found.foreign = self.found.foreign.saturating_add(1);
            if self.places.len() < FOREIGN_PLACES_MAX {
                self.places.insert(forms.place, forms.form.0);
            }
            return Ok(());
        }
        let id = FlowId(flow.cookie);
        let Some(index) = self.desired.find(id).filter(|index| self.desired.get(*index).present) else {
            self.extraneous(id, flow);
            return Ok(());
        };
        if self.desired.get(index).odd == Some(forms.form) {
            self.meet(index);
            return Ok(());
        }
        self.desired.read(index, &mut self.packed).map_err(Lost::Kept)?;
        let wanted = match wanted(&self.packed, self.encoder, self.former, ports) {
            Ok(wanted) => wanted,
            Err(why) => {
                if self.meet(index) {
                    self.unsayable(id, why);
                }
                return Ok(());
            }
        };
        match wanted {
            Some(wanted) if wanted.form == forms.form => _ = self.meet(index),
            Some(wanted) if wanted.place == forms.place => {
                if self.meet(index) {
                    self.found.altered.push((id, forms.form));
                }
            }
            // The rule is in another place, or has the id of a group.
            _ => self.extraneous(id, flow),
        }
        Ok(())
    }

    /// Whether it is the first time.
    fn meet(&mut self, index: usize) -> bool {
        let bit = 1 << (index % 64);
        let first = self.met[index / 64] & bit == 0;
        self.met[index / 64] |= bit;
        first
    }

    fn unsayable(&mut self, id: FlowId, why: Unsayable) {
        if *self.reason != *why.reason {
            self.reason = why.reason.into();
        }
        self.found.unsayable.push((id, Arc::clone(&self.reason)));
    }

    fn extraneous(&mut self, cookie: FlowId, flow: &Flow<'_>) {
        if self.found.extraneous.len() >= EXTRANEOUS_MAX {
            self.found.more_extraneous = true;
            return;
        }
        let (table, priority) = (flow.parts.table, flow.parts.priority);
        self.found.extraneous.push(Extraneous {
            cookie,
            table,
            priority,
            matched: flow.parts.matched.into(),
        });
    }

    /// Compares groups or meters, whose ids follow from their numbers; any that are not desired belong
    /// to others.
    fn numbered(
        &mut self,
        there: &BTreeMap<u32, Form>,
        ports: &Ports,
        id: impl Fn(u32) -> FlowId,
    ) -> Result<(), Lost> {
        for (number, form) in there {
            let id = id(*number);
            let Some(index) = self.desired.find(id).filter(|index| self.desired.get(*index).present) else {
                continue;
            };
            self.meet(index);
            if self.desired.get(index).odd == Some(*form) {
                continue;
            }
            self.desired.read(index, &mut self.packed).map_err(Lost::Kept)?;
            match said(&self.packed, self.encoder, ports) {
                Ok(Some(wanted)) if wanted == *form => {}
                Ok(_) => self.found.altered.push((id, *form)),
                Err(why) => self.unsayable(id, why),
            }
        }
        Ok(())
    }

    fn what_was_not_met(&mut self, ports: &Ports) -> Result<(), Lost> {
        for index in 0..self.desired.len() {
            let wanted = self.desired.get(index);
            if !wanted.present || self.met[index / 64] >> (index % 64) & 1 != 0 {
                continue;
            }
            self.desired.read(index, &mut self.packed).map_err(Lost::Kept)?;
            let sayable = match Packed::read(&self.packed) {
                Ok(Entry::Rule(rule)) => self.encoder.rule(&rule, ports).map(drop),
                Ok(Entry::Group(group)) => self.encoder.group(&group, ports).map(drop),
                Ok(Entry::Meter(_)) => Ok(()),
                Err(error) => Err(Unsayable { reason: error.to_string(), permanent: true }),
            };
            match sayable {
                Ok(()) => self.found.missing.push(wanted.id),
                Err(why) => self.unsayable(wanted.id, why),
            }
        }
        Ok(())
    }
}

/// The forms of a desired rule; `None` for another kind of entry.
fn wanted(
    packed: &[u8],
    encoder: &mut Encoder,
    former: &mut Former,
    ports: &Ports,
) -> Result<Option<Forms>, Unsayable> {
    match Packed::read(packed) {
        Ok(Entry::Rule(rule)) => Ok(former.rule(&encoder.rule(&rule, ports)?)),
        Ok(Entry::Group(_) | Entry::Meter(_)) => Ok(None),
        Err(error) => Err(Unsayable { reason: error.to_string(), permanent: true }),
    }
}

/// The form of a desired group or meter; `None` for a rule.
fn said(packed: &[u8], encoder: &mut Encoder, ports: &Ports) -> Result<Option<Form>, Unsayable> {
    match Packed::read(packed) {
        Ok(Entry::Group(group)) => Ok(Some(form(encoder.group(&group, ports)?))),
        Ok(Entry::Meter(meter)) => Ok(Some(of_meter(encoder.meter(&meter)))),
        Ok(Entry::Rule(_)) => Ok(None),
        Err(error) => Err(Unsayable { reason: error.to_string(), permanent: true }),
    }
}
