//! A change: one bundle, and what was put read back.
//!
//! ```text
//!   meters ─▶ open ─▶ groups ─▶ rules ─▶ groups removed ─▶ close ─▶ (durable?) ─▶ commit ─▶ meters removed ─▶ read back
//!      ▲         └───────────── refused: discard ────────────┴──────────┘
//!      └── as they were: the switch takes no meters into bundles
//! ```

use std::collections::BTreeMap;

use muster_shared::model::flow::{Entry, FlowId, ID_MASK, ID_PREFIX, Packed};

use super::ask::{error_of, put_match};
use super::connection::OUTPUT_CHUNK;
use super::encode::Unsayable;
use super::form::{RuleParts, form, of_meter};
use super::wire::{self, GROUP_ANY, Put, TABLE_ALL, kind, part, port};
use super::{Applied, Form, Lost, Op, Ops, Outcome, Refusal, Switch, words};

/// Atomic and ordered.
const FLAGS: u16 = 3;
/// Read back one by one while they are at most so many; more are found by reading all.
const ONE_BY_ONE: usize = 256;
/// Bytes of groups and meters in one change, which are in memory meanwhile.
const NUMBERED_MAX: usize = 8 * 1024 * 1024;
/// `OFPFC_ADD`, `OFPFC_DELETE`; the same for groups and meters, which have a `MODIFY` between them.
const ADD: u8 = 0;
const MODIFY: u8 = 1;
const DELETE: u8 = 3;
const DELETE_NUMBERED: u8 = 2;

/// Why it went no further.
enum Stop {
    Lost(Lost),
    Refused(Refusal),
    /// A group or a meter came: they go first.
    Numbered,
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Stop::Lost(lost)
    }
}

/// A rule that was sent: its id and, if it was put, its form; else 0.
type Sent = (FlowId, u64);

/// A change under way.
#[derive(Default)]
struct Change {
    bundle: u32,
    /// The number of the first message in the bundle; the others follow.
    first_xid: u32,
    /// In the order of their messages.
    sent: Vec<Sent>,
    /// What was put of groups and meters: id, number, form.
    groups: Vec<(FlowId, u32, Form)>,
    meters: Vec<(FlowId, u32, Form)>,
    /// As meters were, to be put back.
    meters_before: Vec<(u32, Option<Box<[u8]>>)>,
    /// To be removed at the end.
    meters_removed: Vec<u32>,
}

/// A group or a meter of a change.
struct NumberedOp {
    id: FlowId,
    held: bool,
    /// What is to be, or was.
    entry: Entry,
    is_put: bool,
}

impl Switch {
    pub(super) async fn change(
        &mut self,
        ops: &mut dyn Ops,
        commit: impl Future<Output = Result<(), String>>,
    ) -> Result<Outcome, Lost> {
        if self.connection.heard.foreign_places.is_none() {
            self.learn_foreign().await?;
        }
        self.connection.count_from_the_beginning();
        let mut change = Change::default();
        let sent = match self.send_all(ops, &mut change).await {
            Ok(()) => self.commit(&change, commit).await,
            stopped => stopped,
        };
        match sent {
            Ok(()) => {}
            Err(Stop::Lost(lost @ Lost::Kept(_))) => {
                self.take_back(&change).await?;
                return Err(lost);
            }
            Err(Stop::Lost(lost)) => return Err(lost),
            Err(Stop::Refused(refusal)) => {
                self.take_back(&change).await?;
                return Ok(Outcome::Refused(refusal));
            }
            Err(Stop::Numbered) => return Err(Lost::Garbled("groups in a change that had none")),
        }
        for number in &change.meters_removed {
            self.say_meter(DELETE_NUMBERED, &meter_body(*number));
        }
        let applied = self.read_back(change).await?;
        self.connection.shrink();
        Ok(Outcome::Applied(applied))
    }

    async fn send_all(&mut self, ops: &mut dyn Ops, change: &mut Change) -> Result<(), Stop> {
        self.open_bundle(change);
        match self.send_rules(ops, change, false).await {
            Err(Stop::Numbered) => {}
            other => return other,
        }
        self.take_back(change).await?;
        *change = Change::default();
        let numbered = numbered(ops)?;
        self.put_meters(&numbered, change).await?;
        self.open_bundle(change);
        let there = self.connection.groups().await?;
        self.say_groups(&numbered, change, &there, true)?;
        self.send_rules(ops, change, true).await?;
        self.say_groups(&numbered, change, &there, false)
    }

    fn open_bundle(&mut self, change: &mut Change) {
        self.last_bundle = self.last_bundle.wrapping_add(1);
        change.bundle = self.last_bundle;
        self.say_bundle(change.bundle, 0);
    }

    fn say_bundle(&mut self, bundle: u32, what: u16) -> u32 {
        self.connection.say(kind::BUNDLE_CONTROL, |out| {
            out.u32(bundle);
            out.u16(what);
            out.u16(FLAGS);
        })
    }

    async fn send_rules(
        &mut self,
        ops: &mut dyn Ops,
        change: &mut Change,
        skip_numbered: bool,
    ) -> Result<(), Stop> {
        ops.rewind().map_err(Lost::Kept)?;
        while let Some(op) = ops.next().map_err(Lost::Kept)? {
            match op {
                Op::Put { id, packed, held } => match Packed::read(packed) {
                    Ok(Entry::Rule(rule)) => self.say_rule(change, id, &rule, held)?,
                    Ok(Entry::Group(_) | Entry::Meter(_)) if skip_numbered => {}
                    Ok(Entry::Group(_) | Entry::Meter(_)) => return Err(Stop::Numbered),
                    Err(error) => return Err(refused(Some(id), error.to_string(), true)),
                },
                Op::Remove { id, was } => match was.map(Packed::read) {
                    None | Some(Ok(Entry::Rule(_)) | Err(_)) => self.say_removal(change, id),
                    Some(Ok(_)) if skip_numbered => {}
                    Some(Ok(_)) => return Err(Stop::Numbered),
                },
            }
            if self.connection.output.len() >= OUTPUT_CHUNK {
                self.connection.flush().await?;
                while let Some(message) = self.connection.received()? {
                    if let Some(refusal) = self.refusal_in(&message, change) {
                        return Err(Stop::Refused(refusal));
                    }
                }
            }
        }
        Ok(())
    }

    fn say_rule(
        &mut self,
        change: &mut Change,
        id: FlowId,
        rule: &muster_shared::model::flow::Rule,
        held: bool,
    ) -> Result<(), Stop> {
        let parts = self.encoder.rule(rule, &self.connection.ports).map_err(|why| unsayable(id, why))?;
        let forms = self.former.rule(&parts);
        let forms = forms.ok_or_else(|| refused(Some(id), "its selector is too long".into(), true))?;
        if let Some(places) = &mut self.connection.heard.foreign_places {
            if held {
                places.remove(&forms.place);
            } else if places.contains(&forms.place) {
                let text =
                    "a rule that is not Muster's has its table, priority and selector; remove that one first";
                return Err(refused(Some(id), text.into(), true));
            }
        }
        let xid = self.connection.xid();
        change.sent(xid, id, forms.form.0);
        let out = &mut self.connection.output;
        let outer = begin_in_bundle(out, change.bundle, xid);
        put_flow_mod(out, xid, ADD, id.0, 0, &parts);
        wire::end(out, outer);
        Ok(())
    }

    /// Whatever carries the cookie.
    fn say_removal(&mut self, change: &mut Change, id: FlowId) {
        let xid = self.connection.xid();
        change.sent(xid, id, 0);
        let out = &mut self.connection.output;
        let outer = begin_in_bundle(out, change.bundle, xid);
        let all = RuleParts { table: TABLE_ALL, ..RuleParts::default() };
        put_flow_mod(out, xid, DELETE, id.0, u64::MAX, &all);
        wire::end(out, outer);
    }

    fn say_groups(
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
                (false, _) => (DELETE_NUMBERED, &removal[..]),
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

    fn say_meter(&mut self, command: u8, body: &[u8]) -> u32 {
        self.connection.say(kind::METER_MOD, |out| {
            out.u16(command.into());
            out.extend_from_slice(body);
        })
    }

    /// Puts the meters, which takes effect at once.
    async fn put_meters(&mut self, numbered: &[NumberedOp], change: &mut Change) -> Result<(), Stop> {
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

    /// Nothing of the change stays.
    async fn take_back(&mut self, change: &Change) -> Result<(), Lost> {
        if change.bundle != 0 {
            self.say_bundle(change.bundle, 6);
        }
        for (number, before) in change.meters_before.iter().rev() {
            match before {
                Some(body) => self.say_meter(MODIFY, body),
                None => self.say_meter(DELETE_NUMBERED, &meter_body(*number)),
            };
        }
        self.barrier().await?;
        self.connection.shrink();
        Ok(())
    }

    async fn barrier(&mut self) -> Result<(), Lost> {
        let barrier = self.connection.say(kind::BARRIER_REQUEST, |_| {});
        while self.connection.receive().await?.xid != barrier {}
        Ok(())
    }

    async fn commit(
        &mut self,
        change: &Change,
        durable: impl Future<Output = Result<(), String>>,
    ) -> Result<(), Stop> {
        // Every message of the bundle is answered before this is: a bundle that lacks one must not be committed.
        let closed = self.say_bundle(change.bundle, 2);
        self.bundle_answer(change, closed).await?;
        durable.await.map_err(|reason| refused(None, reason, false))?;
        let committed = self.say_bundle(change.bundle, 4);
        self.bundle_answer(change, committed).await
    }

    /// The answer to `xid`, with what was said of the bundle's messages before.
    async fn bundle_answer(&mut self, change: &Change, xid: u32) -> Result<(), Stop> {
        let mut refusal = None;
        loop {
            let message = self.connection.receive().await?;
            if message.xid != xid {
                refusal = refusal.or(self.refusal_in(&message, change));
                continue;
            }
            let refusal = match message.kind {
                kind::BUNDLE_CONTROL => refusal,
                kind::ERROR => refusal.or_else(|| Some(error_words(None, self.connection.body(&message)))),
                _ => return Err(Lost::Garbled("another message than of a bundle").into()),
            };
            return refusal.map_or(Ok(()), |refusal| Err(Stop::Refused(refusal)));
        }
    }

    /// What an error says of one of the bundle's messages.
    fn refusal_in(&self, message: &super::connection::Message, change: &Change) -> Option<Refusal> {
        let index = message.xid.checked_sub(change.first_xid)?;
        let (id, _) = change.sent.get(usize::try_from(index).ok()?)?;
        (message.kind == kind::ERROR).then(|| error_words(Some(*id), self.connection.body(message)))
    }

    async fn read_back(&mut self, change: Change) -> Result<Applied, Lost> {
        let Change { mut sent, groups, meters, .. } = change;
        sent.retain(|(_, form)| *form != 0);
        sent.sort_unstable();
        let mut seen = Seen::new(sent);
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

    async fn read_rules_back(&mut self, seen: &mut Seen) -> Result<(), Lost> {
        let former = &mut self.former;
        let connection = &mut self.connection;
        if seen.puts.len() > ONE_BY_ONE {
            let ours = u64::from(ID_PREFIX) << 48;
            return connection.flows(ours, ID_MASK, |flow| seen.see(former, flow)).await;
        }
        let ids: Vec<FlowId> = seen.puts.iter().map(|(id, _)| *id).collect();
        let xids: Vec<u32> = ids.iter().map(|id| connection.ask_flows(id.0, u64::MAX)).collect();
        for xid in xids {
            loop {
                let (message, more) = connection.part(part::FLOW, xid).await?;
                let mut page = connection.page(&message);
                while !page.is_empty() {
                    let flow = super::ask::Flow::take(&mut page).ok_or(Lost::Garbled("a flow entry"))?;
                    let _ = seen.see(former, &flow)?;
                }
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes exactly these, in one go.
    pub(super) async fn remove_extraneous(&mut self, extraneous: &[super::Extraneous]) -> Result<(), Lost> {
        const DELETE_STRICT: u8 = 4;
        for one in extraneous {
            let parts = RuleParts {
                table: one.table,
                priority: one.priority,
                matched: &one.matched,
                ..RuleParts::default()
            };
            let xid = self.connection.xid();
            put_flow_mod(&mut self.connection.output, xid, DELETE_STRICT, one.cookie.0, u64::MAX, &parts);
            if self.connection.output.len() >= OUTPUT_CHUNK {
                self.connection.flush().await?;
            }
        }
        self.barrier().await
    }
}

impl Change {
    fn sent(&mut self, xid: u32, id: FlowId, form: u64) {
        if self.sent.is_empty() {
            self.first_xid = xid;
        }
        self.sent.push((id, form));
    }
}

/// What was put, in the order of ids, and what of it was seen.
struct Seen {
    puts: Vec<Sent>,
    /// As it was to be.
    equal: Vec<bool>,
    odd: BTreeMap<FlowId, Form>,
}

impl Seen {
    fn new(puts: Vec<Sent>) -> Self {
        Self { equal: vec![false; puts.len()], puts, odd: BTreeMap::new() }
    }

    fn see(
        &mut self,
        former: &mut super::form::Former,
        flow: &super::ask::Flow<'_>,
    ) -> Result<std::ops::ControlFlow<()>, Lost> {
        let go_on = std::ops::ControlFlow::Continue(());
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
                // Another with its cookie is extraneous.
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

/// The groups and meters among `ops`, in order.
fn numbered(ops: &mut dyn Ops) -> Result<Vec<NumberedOp>, Stop> {
    let mut numbered = Vec::new();
    let mut bytes = 0;
    ops.rewind().map_err(Lost::Kept)?;
    while let Some(op) = ops.next().map_err(Lost::Kept)? {
        let (id, packed, held, is_put) = match op {
            Op::Put { id, packed, held } => (id, packed, held, true),
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

/// A meter's body that names it and nothing else.
fn meter_body(number: u32) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.u32(number);
    body
}

fn begin_in_bundle(out: &mut Vec<u8>, bundle: u32, xid: u32) -> usize {
    let outer = wire::begin(out, kind::BUNDLE_ADD, xid);
    out.u32(bundle);
    out.u16(0);
    out.u16(FLAGS);
    outer
}

fn put_flow_mod(out: &mut Vec<u8>, xid: u32, command: u8, cookie: u64, mask: u64, parts: &RuleParts<'_>) {
    let start = wire::begin(out, kind::FLOW_MOD, xid);
    out.u64(cookie);
    out.u64(mask);
    out.u8(parts.table);
    out.u8(command);
    out.u16(parts.idle_timeout);
    out.u16(parts.hard_timeout);
    out.u16(parts.priority);
    out.u32(u32::MAX); // no buffer
    out.u32(port::ANY);
    out.u32(GROUP_ANY);
    out.u16(parts.flags);
    out.u16(parts.importance);
    put_match(out, parts.matched);
    out.extend_from_slice(parts.instructions);
    wire::end(out, start);
}

fn refused(id: Option<FlowId>, reason: String, permanent: bool) -> Stop {
    Stop::Refused(Refusal { id, reason, permanent })
}

fn unsayable(id: FlowId, why: Unsayable) -> Stop {
    refused(Some(id), why.reason, why.permanent)
}

fn error_words(id: Option<FlowId>, body: &[u8]) -> Refusal {
    let (kind, code) = error_of(body).unwrap_or_default();
    let name = words::name(kind, code);
    let reason = match words::meaning(&name) {
        "" => format!("the switch refused it: {name}"),
        meaning => format!("the switch refused it: {name}: {meaning}"),
    };
    Refusal { id, reason, permanent: !words::may_pass(&name) }
}
