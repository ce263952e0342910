//! Reads back the new entries: each is present in the form it was sent, or is reported.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use muster_shared::model::flow::{FlowId, ID_MASK, ID_PREFIX};

use super::ask::Flow;
use super::change::{Change, Sent};
use super::form::{Former, of_meter};
use super::wire::part;
use super::{Applied, Form, Lost, Switch};

/// The number of rules queried at once, where rules are read one by one.
const AT_ONCE: usize = 256;
/// Reading one rule by its cookie takes the switch about this many times as long as reading one among all
/// of ours.
const ALL_IS_CHEAPER: u64 = 8;

impl Switch {
    pub(super) async fn read_back(&mut self, change: Change) -> Result<Applied, Lost> {
        let Change { mut sent, groups, meters, .. } = change;
        sent.retain(|(_, form)| *form != 0);
        sent.sort_unstable();
        let mut seen = ReadBack::new(sent);
        if !seen.puts.is_empty() {
            self.read_rules_back(&mut seen).await?;
        }
        let mut applied = seen.into_applied();
        if !groups.is_empty() {
            let there = self.connection.groups().await?;
            applied.add(&groups, |number| there.get(&number).copied());
        }
        if !meters.is_empty() {
            let there = self.connection.meters().await?;
            applied.add(&meters, |number| there.get(&number).map(|body| of_meter(body)));
        }
        applied.odd.sort_unstable();
        applied.missing.sort_unstable();
        Ok(applied)
    }

    async fn read_rules_back(&mut self, seen: &mut ReadBack) -> Result<(), Lost> {
        let is_much = seen.puts.len() > AT_ONCE && {
            let there: u64 = self.tables().await?.iter().map(|table| u64::from(table.active)).sum();
            seen.puts.len() as u64 * ALL_IS_CHEAPER >= there
        };
        let former = &mut self.former;
        let connection = &mut self.connection;
        if is_much {
            let ours = u64::from(ID_PREFIX) << 48;
            return connection.flows(ours, ID_MASK, |flow| seen.see(former, flow)).await;
        }
        let ids: Vec<FlowId> = seen.puts.iter().map(|(id, _)| *id).collect();
        for ids in ids.chunks(AT_ONCE) {
            let xids: Vec<u32> = ids.iter().map(|id| connection.ask_flows(id.0, u64::MAX)).collect();
            for xid in xids {
                loop {
                    let (message, more) = connection.part(part::FLOW, xid).await?;
                    let mut page = connection.page(&message);
                    while !page.is_empty() {
                        let flow = Flow::take(&mut page).ok_or(Lost::Garbled("a flow entry"))?;
                        let _ = seen.see(former, &flow)?;
                    }
                    if !more {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The new entries, in the order of ids, and the ones seen so far.
struct ReadBack {
    puts: Vec<Sent>,
    /// Whether each entry has the sent form.
    equal: Vec<bool>,
    odd: BTreeMap<FlowId, Form>,
}

impl ReadBack {
    fn new(puts: Vec<Sent>) -> Self {
        Self { equal: vec![false; puts.len()], puts, odd: BTreeMap::new() }
    }

    fn see(&mut self, former: &mut Former, flow: &Flow<'_>) -> Result<ControlFlow<()>, Lost> {
        let go_on = ControlFlow::Continue(());
        let id = FlowId(flow.cookie);
        let Ok(index) = self.puts.binary_search_by_key(&id, |(id, _)| *id) else { return Ok(go_on) };
        let forms = former.rule(&flow.parts).ok_or(Lost::Garbled("criteria of a flow entry"))?;
        if forms.form.0 == self.puts[index].1 {
            self.equal[index] = true;
        } else {
            self.odd.insert(id, forms.form);
        }
        Ok(go_on)
    }

    fn into_applied(mut self) -> Applied {
        let mut missing = Vec::new();
        for ((id, _), equal) in self.puts.iter().zip(&self.equal) {
            if *equal {
                // A second rule with the same cookie is extraneous.
                self.odd.remove(id);
            } else if !self.odd.contains_key(id) {
                missing.push(*id);
            }
        }
        Applied { odd: self.odd.into_iter().collect(), missing }
    }
}

impl Applied {
    fn add(&mut self, puts: &[(FlowId, u32, Form)], there: impl Fn(u32) -> Option<Form>) {
        for (id, number, form) in puts {
            match there(*number) {
                Some(there) if there == *form => {}
                Some(there) => self.odd.push((*id, there)),
                None => self.missing.push(*id),
            }
        }
    }
}
