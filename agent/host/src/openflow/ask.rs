//! Questions to the switch, and the entries of its answers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::connection::{Connection, Message};
use super::form::{Former, RuleParts, form};
use super::wire::{GROUP_ANY, METER_ALL, Put, TABLE_ALL, Take, kind, part, port};
use super::{Form, Lost, words};

/// The most bytes of all meters of a bridge, kept during a change: some ten thousand meters.
const METERS_MAX: usize = 4 * 1024 * 1024;

/// A flow entry of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow<'a> {
    pub cookie: u64,
    pub duration: u32,
    pub packets: u64,
    pub bytes: u64,
    pub parts: RuleParts<'a>,
}

impl<'a> Flow<'a> {
    /// The next of a page.
    pub fn take(page: &mut Take<'a>) -> Option<Self> {
        let mut entry = Take(page.item(0, 56)?);
        entry.u16()?;
        let table = entry.u8()?;
        entry.u8()?;
        let duration = entry.u32()?;
        entry.u32()?;
        let (priority, idle_timeout, hard_timeout) = (entry.u16()?, entry.u16()?, entry.u16()?);
        let (flags, importance) = (entry.u16()?, entry.u16()?);
        entry.u16()?;
        let (cookie, packets, bytes) = (entry.u64()?, entry.u64()?, entry.u64()?);
        let matched = entry.matched()?;
        let instructions = entry.0;
        let parts = RuleParts {
            table,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            importance,
            matched,
            instructions,
        };
        Some(Self { cookie, duration, packets, bytes, parts })
    }
}

/// Runs every parser of a switch's messages on any bytes, for fuzzing. Returns the number of valid messages.
pub fn read_anything(bytes: &[u8]) -> usize {
    let mut ports = super::ports::Ports::default();
    let mut heard = super::connection::Heard::default();
    let mut former = Former::default();
    let mut sense = usize::from(ports.add(bytes).is_some());
    let _ = ports.gone(bytes);
    sense += usize::from(heard.flow_removed(bytes).is_some());
    sense += usize::from(heard.flow_updates(bytes).is_some());
    let mut page = Take(bytes);
    while let Some(flow) = Flow::take(&mut page) {
        sense += 1;
        let forms = former.rule(&flow.parts);
        if let Some(rule) = super::decode::rule(&flow.parts, &ports) {
            // A rule that can be expressed has a form, and can be encoded again.
            assert!(forms.is_some(), "a rule without a form");
            let _ = super::encode::Encoder::default().rule(&rule, &ports);
        }
        let _ = super::read_foreign::text(&flow.parts, &ports);
    }
    let mut page = Take(bytes);
    while let Some(entry) = page.item(0, 8) {
        let _ = super::decode::actions(entry, &ports);
    }
    let _ = error_of(bytes);
    sense
}

/// Kind and code of an error message.
pub(super) fn error_of(body: &[u8]) -> Option<(u16, u16)> {
    let mut take = Take(body);
    Some((take.u16()?, take.u16()?))
}

impl Connection {
    /// The next part of the answer to a multipart request: its message, and whether more follow.
    pub async fn part(&mut self, what: u16, xid: u32) -> Result<(Message, bool), Lost> {
        loop {
            let message = self.receive().await?;
            if message.xid != xid {
                continue; // of something that was given up
            }
            let mut body = Take(self.body(&message));
            return match message.kind {
                kind::MULTIPART_REPLY => match (body.u16(), body.u16()) {
                    (Some(kind), Some(flags)) if kind == what => Ok((message, flags & 1 != 0)),
                    _ => Err(Lost::Garbled("an answer to another question")),
                },
                kind::ERROR => {
                    let (kind, code) = error_of(body.0).unwrap_or_default();
                    Err(Lost::Refused(words::name(kind, code)))
                }
                _ => Err(Lost::Garbled("another message than an answer")),
            };
        }
    }

    /// The entries of one part of the answer.
    pub fn page(&self, message: &Message) -> Take<'_> {
        Take(self.body(message).get(8..).unwrap_or_default())
    }

    /// Asks for flow entries whose cookies have these bits.
    pub fn ask_flows(&mut self, cookie: u64, mask: u64) -> u32 {
        self.ask(part::FLOW, |out| {
            out.u8(TABLE_ALL);
            out.zeros(3);
            out.u32(port::ANY);
            out.u32(GROUP_ANY);
            out.zeros(4);
            out.u64(cookie);
            out.u64(mask);
            put_match(out, &[]);
        })
    }

    /// Every flow entry whose cookie has these bits.
    pub async fn flows(
        &mut self,
        cookie: u64,
        mask: u64,
        mut each: impl FnMut(&Flow<'_>) -> Result<ControlFlow<()>, Lost>,
    ) -> Result<(), Lost> {
        let xid = self.ask_flows(cookie, mask);
        let mut goes_on = true;
        loop {
            let (message, more) = self.part(part::FLOW, xid).await?;
            let mut page = self.page(&message);
            while goes_on && !page.is_empty() {
                let flow = Flow::take(&mut page).ok_or(Lost::Garbled("a flow entry"))?;
                goes_on = each(&flow)?.is_continue();
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Entries of another kind: `what`, asked with this body; each with its length in its first two bytes.
    pub async fn entries(
        &mut self,
        what: u16,
        body: impl FnOnce(&mut Vec<u8>),
        mut each: impl FnMut(&[u8]) -> Option<()>,
    ) -> Result<(), Lost> {
        let xid = self.ask(what, body);
        loop {
            let (message, more) = self.part(what, xid).await?;
            let mut page = self.page(&message);
            while !page.is_empty() {
                page.item(0, 8).and_then(&mut each).ok_or(Lost::Garbled("an entry of an answer"))?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// The groups by number, with their forms.
    pub async fn groups(&mut self) -> Result<BTreeMap<u32, Form>, Lost> {
        let mut groups = BTreeMap::new();
        let each = |entry: &[u8]| {
            let body = entry.get(2..)?;
            groups.insert(Take(body.get(2..)?).u32()?, form(body));
            Some(())
        };
        self.entries(part::GROUP_DESC, |_| {}, each).await?;
        Ok(groups)
    }

    /// The meters by number, each from its flags to its end.
    pub async fn meters(&mut self) -> Result<BTreeMap<u32, Box<[u8]>>, Lost> {
        let mut meters: BTreeMap<u32, Box<[u8]>> = BTreeMap::new();
        let mut bytes = 0;
        let each = |entry: &[u8]| {
            let body = entry.get(2..)?;
            bytes += body.len();
            meters.insert(Take(body.get(2..)?).u32()?, body.into());
            (bytes <= METERS_MAX).then_some(())
        };
        self.entries(part::METER_CONFIG, |out| out.u32_and_pad(METER_ALL), each).await?;
        Ok(meters)
    }
}

/// An `ofp_match`.
pub(super) fn put_match(out: &mut Vec<u8>, matched: &[u8]) {
    let start = out.len();
    out.u16(1);
    out.u16(0);
    out.extend_from_slice(matched);
    out.length(start + 2, start);
    out.pad(start);
}

/// The body of questions about groups and meters.
pub(super) trait Numbered {
    fn u32_and_pad(&mut self, number: u32);
}

impl Numbered for Vec<u8> {
    fn u32_and_pad(&mut self, number: u32) {
        self.u32(number);
        self.zeros(4);
    }
}
