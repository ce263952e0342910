//! A change: sends one bundle, and reads back the new entries. Decides whether a rule of others in the same
//! place is taken over, or refuses the change.
//!
//! ```text
//!   meters ─▶ open ─▶ groups ─▶ rules ─▶ groups removed ─▶ close ─▶ (durable?) ─▶ commit ─▶ meters removed ─▶ read back
//!      ▲         └───────────── refused: discard ────────────┴──────────┘
//!      └── as they were: the switch takes no meters into bundles
//! ```

use muster_shared::model::flow::{Entry, FlowId, Packed};

use super::ask::{error_of, put_match};
use super::connection::OUTPUT_CHUNK;
use super::encode::Unsayable;
use super::form::RuleParts;
use super::wire::{self, GROUP_ANY, Put, TABLE_ALL, kind, port};
use super::{Form, Lost, Op, Ops, Outcome, Refusal, Switch, numbered, words};

/// Atomic and ordered.
const FLAGS: u16 = 3;
/// `OFPFC_ADD`, `OFPFC_DELETE`.
const ADD: u8 = 0;
const DELETE: u8 = 3;

/// The reason why it went no further.
pub(super) enum Stop {
    Lost(Lost),
    Refused(Refusal),
    /// A group or a meter was encountered: those go first.
    Numbered,
    /// As far as is known, another entry is in the place of this one.
    Taken {
        id: FlowId,
        is_same: bool,
    },
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Stop::Lost(lost)
    }
}

/// The id of a sent rule, and its form if it was put; 0 for a removal.
pub(super) type Sent = (FlowId, u64);

/// A change under way.
#[derive(Default)]
pub(super) struct Change {
    pub bundle: u32,
    /// The number of the message that opened the bundle: the switch names this number when it gives the
    /// bundle up.
    opened: u32,
    /// The number of the first message in the bundle; the others follow.
    pub first_xid: u32,
    /// Rules in the order of their messages.
    pub sent: Vec<Sent>,
    /// New groups: id, number, form.
    pub groups: Vec<(FlowId, u32, Form)>,
    pub meters: Vec<(FlowId, u32, Form)>,
    /// The earlier meters, for a restore.
    pub meters_before: Vec<(u32, Option<Box<[u8]>>)>,
    /// The places of rules of others that become ours.
    pub taken_over: Vec<u64>,
    /// Meters to remove at the end.
    pub meters_removed: Vec<u32>,
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
        let mut sent = self.send_all(ops, &mut change).await;
        if matches!(sent, Err(Stop::Taken { .. })) {
            // The entry may have gone, and later changes are unknown.
            self.take_back(&change).await?;
            change = Change::default();
            self.learn_foreign().await?;
            sent = self.send_all(ops, &mut change).await;
        }
        if sent.is_ok() {
            sent = self.commit(&change, commit).await;
        }
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
            Err(Stop::Taken { id, is_same }) => {
                self.take_back(&change).await?;
                let reason = if is_same {
                    "this very rule is there and is not Muster's, and a change that may be undone does not take it \
                     over; import it first (muster flow reconcile DEVICE --foreign import)"
                } else {
                    "a rule that is not Muster's has its table, priority and selector and does something else; \
                     remove that one first"
                };
                return Ok(Outcome::Refused(Refusal {
                    id: Some(id),
                    reason: reason.into(),
                    permanent: true,
                }));
            }
        }
        if let Some(places) = &mut self.connection.heard.foreign_places {
            change.taken_over.iter().for_each(|place| _ = places.remove(place));
        }
        for number in &change.meters_removed {
            self.say_meter(numbered::DELETE, &numbered::meter_body(*number));
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
        let numbered = numbered::numbered(ops)?;
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
        change.opened = self.say_bundle(change.bundle, 0);
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
        let takes_over = ops.takes_over();
        while let Some(op) = ops.next().map_err(Lost::Kept)? {
            match op {
                Op::Put { id, packed, held } => match Packed::read(packed) {
                    Ok(Entry::Rule(rule)) => self.say_rule(change, id, &rule, held, takes_over)?,
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
        takes_over: bool,
    ) -> Result<(), Stop> {
        let parts = self.encoder.rule(rule, &self.connection.ports).map_err(|why| unsayable(id, why))?;
        let forms = self.former.rule(&parts);
        let forms = forms.ok_or_else(|| refused(Some(id), "its selector is too long".into(), true))?;
        if let Some(places) = &mut self.connection.heard.foreign_places {
            if held {
                places.remove(&forms.place);
            } else {
                match places.get(&forms.place) {
                    None => {}
                    // The entry stays the same, apart from its cookie.
                    Some(form) if *form == forms.form.0 && takes_over => {
                        change.taken_over.push(forms.place);
                    }
                    Some(form) => return Err(Stop::Taken { id, is_same: *form == forms.form.0 }),
                }
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

    /// Removes every rule that carries the cookie.
    fn say_removal(&mut self, change: &mut Change, id: FlowId) {
        let xid = self.connection.xid();
        change.sent(xid, id, 0);
        let out = &mut self.connection.output;
        let outer = begin_in_bundle(out, change.bundle, xid);
        let all = RuleParts { table: TABLE_ALL, ..RuleParts::default() };
        put_flow_mod(out, xid, DELETE, id.0, u64::MAX, &all);
        wire::end(out, outer);
    }

    /// Nothing of the change stays.
    async fn take_back(&mut self, change: &Change) -> Result<(), Lost> {
        if change.bundle != 0 {
            self.say_bundle(change.bundle, 6);
        }
        for (number, before) in change.meters_before.iter().rev() {
            match before {
                Some(body) => self.say_meter(numbered::MODIFY, body),
                None => self.say_meter(numbered::DELETE, &numbered::meter_body(*number)),
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
        // All messages of the bundle are answered before this one: a bundle that lacks one must not
        // be committed.
        let closed = self.say_bundle(change.bundle, 2);
        self.bundle_answer(change, closed).await?;
        durable.await.map_err(|reason| refused(None, reason, false))?;
        let committed = self.say_bundle(change.bundle, 4);
        self.bundle_answer(change, committed).await
    }

    /// The answer to `xid`, after the errors of the bundle's messages.
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

    /// The refusal in an error about one of the bundle's messages, or about the whole bundle. After the
    /// switch gives a bundle up, further messages would begin another bundle, which must not be committed in
    /// its place.
    fn refusal_in(&self, message: &super::connection::Message, change: &Change) -> Option<Refusal> {
        if message.kind == kind::ERROR && message.xid == change.opened {
            return Some(error_words(None, self.connection.body(message)));
        }
        let index = message.xid.checked_sub(change.first_xid)?;
        let (id, _) = change.sent.get(usize::try_from(index).ok()?)?;
        (message.kind == kind::ERROR).then(|| error_words(Some(*id), self.connection.body(message)))
    }

    /// Removes exactly these rules, in one go.
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
    pub fn sent(&mut self, xid: u32, id: FlowId, form: u64) {
        if self.sent.is_empty() {
            self.first_xid = xid;
        }
        self.sent.push((id, form));
    }
}

pub(super) fn begin_in_bundle(out: &mut Vec<u8>, bundle: u32, xid: u32) -> usize {
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

pub(super) fn refused(id: Option<FlowId>, reason: String, permanent: bool) -> Stop {
    Stop::Refused(Refusal { id, reason, permanent })
}

pub(super) fn unsayable(id: FlowId, why: Unsayable) -> Stop {
    refused(Some(id), why.reason, why.permanent)
}

pub(super) fn error_words(id: Option<FlowId>, body: &[u8]) -> Refusal {
    let (kind, code) = error_of(body).unwrap_or_default();
    let name = words::name(kind, code);
    let reason = match words::meaning(&name) {
        "" => format!("the switch refused it: {name}"),
        meaning => format!("the switch refused it: {name}: {meaning}"),
    };
    Refusal { id, reason, permanent: !words::may_pass(&name) }
}
