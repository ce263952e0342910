//! One connection to a bridge: whole messages in and out, probes, and the switch's spontaneous messages.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use muster_shared::model::flow::FlowId;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::form::Former;
use super::ports::Ports;
use super::wire::{self, HEAD, Put, Take, VERSION, kind, part};
use super::{Lost, Timeout};

/// Bytes written at once: some hundred rules, which the switch processes while more are encoded.
pub(super) const OUTPUT_CHUNK: usize = 64 * 1024;
/// Bytes read at once; the buffer keeps this size while the connection is idle.
const INPUT_CHUNK: usize = 64 * 1024;
/// The most bytes read while writing, for a switch that answers only with errors: far more than all
/// possible errors.
const INPUT_MAX: usize = 8 * 1024 * 1024;
/// The longest silence: a switch is busy for seconds with a hundred thousand rules, and one that hangs longer
/// is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);
/// An idle connection is probed after this,
const PROBE_AFTER: Duration = Duration::from_secs(10);
/// The probe's own number; others count from 1.
const PROBE_XID: u32 = 0xffff_ffff;
/// The message number of the flow monitor and its updates.
pub(super) const MONITOR_XID: u32 = 0xffff_fffe;
/// The most ended rules that wait to be taken: as many as a switch can be asked to hold.
const REMOVED_MAX: usize = 1 << 20;
/// The most places of foreign rules that are remembered, in 9 MB. Beyond that, a new rule of ours may replace
/// a foreign rule whose place is not remembered.
pub(super) const FOREIGN_PLACES_MAX: usize = 1 << 18;
/// A real form is never 0.
pub(super) const UNKNOWN_FORM: u64 = 0;

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    /// Up to here the input was taken.
    taken: usize,
    /// Output; whole messages.
    pub output: Vec<u8>,
    sent: usize,
    last_xid: u32,
    pub ports: Ports,
    pub heard: Heard,
}

/// The switch's spontaneous messages.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub removed: VecDeque<(FlowId, Timeout)>,
    /// The entries of `removed` that the flow monitor reported, in its order among all other updates. A
    /// separate message reports the removal again later, when another rule may already be in the place.
    monitored: BTreeSet<FlowId>,
    /// A change other than of foreign rules.
    pub changed: bool,
    pub changed_foreign: bool,
    /// The places of foreign rules, with their forms, or [`UNKNOWN_FORM`] where only the place is known;
    /// `None` before the whole bridge was read.
    pub foreign_places: Option<HashMap<u64, u64>>,
    former: Former,
}

/// A message that was taken.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub version: u8,
    pub kind: u8,
    pub xid: u32,
    /// The body's range for [`Connection::body`], valid until the next message is taken.
    range: Range<usize>,
}

impl Connection {
    pub async fn open(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        Ok(Self {
            stream,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            sent: 0,
            last_xid: 0,
            ports: Ports::default(),
            heard: Heard::default(),
        })
    }

    pub fn peer_pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok()?.pid()
    }

    /// The number of a message.
    pub fn xid(&mut self) -> u32 {
        if self.last_xid >= MONITOR_XID - 1 {
            self.last_xid = 0;
        }
        self.last_xid += 1;
        self.last_xid
    }

    /// Restarts the message numbers, so that those of a change are consecutive.
    pub fn count_from_the_beginning(&mut self) {
        if self.last_xid > u32::MAX / 2 {
            self.last_xid = 0;
        }
    }

    /// Appends a message of this kind with its body; its number.
    pub fn say(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let xid = self.xid();
        self.say_as(kind, xid, body);
        xid
    }

    pub fn say_as(&mut self, kind: u8, xid: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = wire::begin(&mut self.output, kind, xid);
        body(&mut self.output);
        wire::end(&mut self.output, start);
    }

    /// Appends a multipart request; its number.
    pub fn ask(&mut self, what: u16, body: impl FnOnce(&mut Vec<u8>)) -> u32 {
        self.say(kind::MULTIPART_REQUEST, |out| {
            out.u16(what);
            out.zeros(2 + 4);
            body(out);
        })
    }

    /// Sends the output, and reads meanwhile, so that neither side waits for the other.
    pub async fn flush(&mut self) -> Result<(), Lost> {
        while self.sent < self.output.len() {
            match self.stream.try_write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let both = Interest::READABLE | Interest::WRITABLE;
                    let ready = timeout(SILENCE_MAX, self.stream.ready(both)).await;
                    let ready = ready.map_err(|_| Lost::Silent(SILENCE_MAX))?.map_err(Lost::Broken)?;
                    if ready.is_readable() {
                        self.try_read()?;
                    }
                }
                Err(error) => return Err(Lost::Broken(error)),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// The body of the message that was taken last.
    pub fn body(&self, message: &Message) -> &[u8] {
        self.input.get(message.range.clone()).unwrap_or_default()
    }

    /// The next message that is not spontaneous; first sends the output.
    pub async fn receive(&mut self) -> Result<Message, Lost> {
        loop {
            if let Some(message) = self.received()? {
                return Ok(message);
            }
            self.flush().await?;
            if let Some(message) = self.received()? {
                return Ok(message);
            }
            self.read(SILENCE_MAX).await?;
        }
    }

    /// Waits until there is something to be heard, and probes the switch if that takes long. May be dropped.
    pub async fn listen(&mut self) -> Result<(), Lost> {
        self.flush().await?;
        match self.read(PROBE_AFTER).await {
            Err(Lost::Silent(_)) => {}
            other => return other,
        }
        self.say_as(kind::ECHO_REQUEST, PROBE_XID, |_| {});
        self.flush().await?;
        self.read(SILENCE_MAX).await
    }

    /// Processes all waiting messages, and drops answers to questions that were given up.
    pub fn hear_all(&mut self) -> Result<(), Lost> {
        while self.received()?.is_some() {}
        Ok(())
    }

    /// The next complete message that is not spontaneous.
    pub fn received(&mut self) -> Result<Option<Message>, Lost> {
        loop {
            let rest = &self.input[self.taken..];
            let mut head = Take(rest);
            let (Some(version), Some(kind), Some(length), Some(xid)) =
                (head.u8(), head.u8(), head.u16(), head.u32())
            else {
                break;
            };
            let length = usize::from(length);
            if length < HEAD || (version != VERSION && kind != kind::HELLO && kind != kind::ERROR) {
                return Err(Lost::Garbled("a message of another version, or shorter than its head"));
            }
            if rest.len() < length {
                break;
            }
            let range = self.taken + HEAD..self.taken + length;
            self.taken += length;
            if !self.hear(kind, xid, range.clone())? {
                return Ok(Some(Message { version, kind, xid, range }));
            }
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        Ok(None)
    }

    /// Processes a spontaneous message.
    fn hear(&mut self, kind: u8, xid: u32, range: Range<usize>) -> Result<bool, Lost> {
        let body = &self.input[range];
        match kind {
            kind::ECHO_REQUEST => {
                let start = wire::begin(&mut self.output, kind::ECHO_REPLY, xid);
                self.output.extend_from_slice(body);
                wire::end(&mut self.output, start);
            }
            kind::ECHO_REPLY => {}
            kind::FLOW_REMOVED => {
                self.heard.flow_removed(body).ok_or(Lost::Garbled("a removed flow"))?;
            }
            kind::REQUEST_FORWARD => self.heard.changed = true,
            kind::PORT_STATUS => {
                let changed =
                    port_status(&mut self.ports, body).ok_or(Lost::Garbled("the state of a port"))?;
                self.heard.changed |= changed;
            }
            kind::MULTIPART_REPLY if body.starts_with(&part::FLOW_MONITOR.to_be_bytes()) => {
                let updates = body.get(8..).ok_or(Lost::Garbled("a flow update"))?;
                self.heard.flow_updates(updates).ok_or(Lost::Garbled("a flow update"))?;
            }
            kind::ERROR if xid == MONITOR_XID => {
                let (kind, code) = super::ask::error_of(body).unwrap_or_default();
                let name = super::words::name(kind, code);
                return Err(Lost::Refused(format!(
                    "to tell of changes: {name} (Open vSwitch 2.16 and later can)"
                )));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes up the ports of an answer.
    pub fn add_ports(&mut self, message: &Message) -> Option<()> {
        let mut page = Take(self.input.get(message.range.clone())?.get(8..)?);
        while !page.is_empty() {
            self.ports.add(page.item(4, 40)?)?;
        }
        Some(())
    }

    async fn read(&mut self, within: Duration) -> Result<(), Lost> {
        loop {
            let ready = timeout(within, self.stream.readable()).await;
            ready.map_err(|_| Lost::Silent(within))?.map_err(Lost::Broken)?;
            if self.try_read()? {
                return Ok(());
            }
        }
    }

    /// Returns whether anything arrived.
    fn try_read(&mut self) -> Result<bool, Lost> {
        if self.input.len() - self.taken > INPUT_MAX {
            return Err(Lost::Garbled("more answers than questions"));
        }
        if self.taken > INPUT_CHUNK {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        self.input.reserve(INPUT_CHUNK);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => Err(Lost::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(Lost::Broken(error)),
        }
    }

    /// Releases the memory that a large operation needed.
    pub fn shrink(&mut self) {
        self.input.shrink_to(INPUT_CHUNK);
        self.output.shrink_to(OUTPUT_CHUNK);
    }
}

/// Whether what rules mean has changed.
fn port_status(ports: &mut Ports, body: &[u8]) -> Option<bool> {
    const DELETED: u8 = 1;
    let (reason, description) = (*body.first()?, body.get(8..)?);
    if reason == DELETED { ports.gone(description).map(|()| true) } else { ports.add(description) }
}

impl Heard {
    /// `None` if the message is too short.
    pub fn flow_removed(&mut self, body: &[u8]) -> Option<()> {
        let mut take = Take(body);
        let (cookie, _priority, reason) = (take.u64()?, take.u16()?, take.u8()?);
        let timeout = match reason {
            0 => Timeout::Idle,
            1 => Timeout::Hard,
            // The flow monitor reports these too, without our own removals.
            _ => return Some(()),
        };
        if FlowId::is_ours(cookie) && !self.monitored.remove(&FlowId(cookie)) {
            self.ended(FlowId(cookie), timeout)?;
        }
        Some(())
    }

    fn ended(&mut self, id: FlowId, timeout: Timeout) -> Option<()> {
        if self.removed.len() >= REMOVED_MAX {
            return None;
        }
        self.removed.push_back((id, timeout));
        Some(())
    }

    /// `None` if the updates are malformed.
    pub fn flow_updates(&mut self, updates: &[u8]) -> Option<()> {
        const ADDED: u16 = 1;
        const REMOVED: u16 = 2;
        const ABBREVIATED: u16 = 4;
        let mut rest = Take(updates);
        while !rest.is_empty() {
            let mut update = Take(rest.item(0, 8)?);
            update.u16()?;
            let event = update.u16()?;
            match event {
                ABBREVIATED => {} // our own
                0..=3 => {
                    let (table, reason) = (update.u8()?, update.u8()?);
                    update.bytes(2 + 2)?;
                    let priority = update.u16()?;
                    update.bytes(4)?;
                    let cookie = update.u64()?;
                    let place = self.former.place(table, priority, update.matched()?);
                    let is_ours = FlowId::is_ours(cookie);
                    if let (Some(places), Some(place), false) = (&mut self.foreign_places, place, is_ours) {
                        if event == REMOVED {
                            places.remove(&place);
                        } else if places.len() < FOREIGN_PLACES_MAX {
                            // The event does not show the form of the rule.
                            places.insert(place, UNKNOWN_FORM);
                        }
                    }
                    match (event, is_ours) {
                        (REMOVED, true) if reason < 2 => {
                            if self.monitored.len() >= REMOVED_MAX {
                                return None;
                            }
                            self.monitored.insert(FlowId(cookie));
                            let timeout = if reason == 0 { Timeout::Idle } else { Timeout::Hard };
                            self.ended(FlowId(cookie), timeout)?;
                        }
                        (ADDED | REMOVED, false) => self.changed_foreign = true,
                        _ => self.changed = true,
                    }
                }
                // Updates were held back, and arrive now.
                _ => self.changed = true,
            }
        }
        Some(())
    }
}
