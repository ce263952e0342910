//! Rules that are not ours: in our notation as far as it can express them, otherwise as text for people.
//!
//! Absent: that they are left alone (`compare.rs`), whether they are imported (`controller/flow/src/question.rs`), or
//! taken over by a change (`change.rs`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use data_encoding::HEXLOWER;
use muster_shared::model::flow::{Entry, FOREIGN_TEXT_MAX, FlowId, ForeignRule, Packed};

use super::connection::FOREIGN_PLACES_MAX;
use super::decode;
use super::form::RuleParts;
use super::oxm;
use super::ports::Ports;
use super::wire::Take;
use super::{Lost, Switch};

impl Switch {
    pub(super) async fn read_foreign(&mut self, max: usize) -> Result<Vec<ForeignRule>, Lost> {
        let mut rules = Vec::new();
        let xid = self.connection.ask_flows(0, 0);
        loop {
            let (message, more) = self.connection.part(super::wire::part::FLOW, xid).await?;
            let ports = &self.connection.ports;
            let mut page = self.connection.page(&message);
            while !page.is_empty() && rules.len() < max {
                let flow = super::ask::Flow::take(&mut page).ok_or(Lost::Garbled("a flow entry"))?;
                if !FlowId::is_ours(flow.cookie) {
                    let said = decode::rule(&flow.parts, ports).map(Entry::Rule);
                    let entry = said.and_then(|entry| Packed::new(&entry).ok());
                    let text = if entry.is_some() { String::new() } else { text(&flow.parts, ports) };
                    rules.push(ForeignRule { cookie: flow.cookie, entry, text });
                }
            }
            if !more {
                self.connection.shrink();
                return Ok(rules);
            }
        }
    }

    /// Reads the places of foreign rules; from then on the flow monitor keeps them current.
    pub(super) async fn learn_foreign(&mut self) -> Result<(), Lost> {
        let mut places = HashMap::new();
        let former = &mut self.former;
        let learn = |flow: &super::ask::Flow<'_>| {
            if !FlowId::is_ours(flow.cookie) && places.len() < FOREIGN_PLACES_MAX {
                let forms = former.rule(&flow.parts).ok_or(Lost::Garbled("criteria of a flow entry"))?;
                places.insert(forms.place, forms.form.0);
            }
            Ok(ControlFlow::Continue(()))
        };
        self.connection.flows(0, 0, learn).await?;
        self.connection.heard.foreign_places = Some(places);
        Ok(())
    }
}

/// A rule for people: what has no words of ours as bytes.
pub(super) fn text(parts: &RuleParts<'_>, ports: &Ports) -> String {
    let mut text = format!("table={} priority={}", parts.table, parts.priority);
    for (name, seconds) in [("idle_timeout", parts.idle_timeout), ("hard_timeout", parts.hard_timeout)] {
        if seconds != 0 {
            let _ = write!(text, " {name}={seconds}");
        }
    }
    let mut rest = Take(parts.matched);
    while let (false, Some(item)) = (rest.is_empty(), oxm::take(&mut rest)) {
        let name = match (item.key, oxm::field(item.key)) {
            (oxm::IN_PORT, _) => "in_port".to_owned(),
            (_, Some(field)) => field.name().to_owned(),
            (key, None) => format!("field_{:04x}_{}", key.class, key.number),
        };
        let port = u32::try_from(item.value()).ok().and_then(|number| ports.name(number));
        match port.filter(|_| item.key == oxm::IN_PORT) {
            Some(port) => _ = write!(text, " {name}={port}"),
            None => _ = write!(text, " {name}={:#x}", item.value()),
        }
        if let Some(mask) = item.mask() {
            let _ = write!(text, "/{mask:#x}");
        }
    }
    text.push_str(" instructions=");
    let shown = parts.instructions.len().min(FOREIGN_TEXT_MAX);
    HEXLOWER.encode_append(&parts.instructions[..shown], &mut text);
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= FOREIGN_TEXT_MAX - 3).last();
    if text.len() > FOREIGN_TEXT_MAX {
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
