//! An admitted connection: packets in, packets out, and every bound on time. Ends it when the client is silent, or does
//! not read its output.
//!
//! Each connection has its own task. The task waits only for its own socket, its own queue and its [`Inbox`]. While the
//! inbox is full it does not read, so that only this client is held up.
//!
//! Absent: how long the client may be silent (`welcome` in `connection.rs`), and the same over a broker
//! (`link/broker/talk.rs`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PingResp, PubAck, SubAck, SubscribeReasonCode};
use tokio::time::{Instant, sleep_until};

use super::frame::Frame;
use super::stream::{Stream, Turn};
use crate::link::contents::Room;
use crate::link::inbox::{Inbox, Pending};
use crate::link::outbound::Outbound;
use crate::link::reason::{Reason, Refusal};

/// Encoded and not yet written; beyond this nothing more is encoded, and nothing read that would be answered.
const OUTPUT_MAX: usize = 64 * 1024;
/// Publishes of QoS 1 on their way. More would only wait in the client instead of here.
const INFLIGHT_MAX: u16 = 32;
/// The most filters of a subscription: there is only one topic, but clients may repeat it.
const FILTERS_MAX: usize = 8;

/// PUBACKs that wait for other output at most: a quarter of what an agent has on its way, so that it never waits for one.
const HELD_MAX: usize = 4;
/// The time that a PUBACK waits: most answers of the controller come within it, and then both take one write.
const HELD: Duration = Duration::from_millis(200);

/// A deadline is only postponed by at least this much: postponing it for every packet costs more, and so does
/// waking for outdated alarms.
const PUT_OFF: Duration = Duration::from_secs(5);

/// Bounds of a session.
pub struct Terms {
    /// The only topic the client publishes to.
    pub up: String,
    /// The only topic the client subscribes to.
    pub down: String,
    /// A silence of this length ends the connection: one and a half of the keep alive that `welcome`
    /// (`connection.rs`) agreed with the client.
    pub silence: Duration,
    /// The time in which a client must read each piece of output.
    pub drain: Duration,
    /// The end of the connection in any case.
    pub until: Option<Instant>,
    /// The client's receive maximum.
    pub receive_maximum: u16,
}

/// The reason why a session ended.
#[derive(Debug)]
pub enum End {
    /// The client left, or its network did.
    Gone,
    /// The controller ended the connection.
    Refused(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        End::Refused(refusal)
    }
}

pub struct Session<I: Inbox> {
    stream: Stream,
    outbound: Arc<Outbound<I::Queued>>,
    inbox: I,
    terms: Terms,
    down: Bytes,
    /// The QoS it subscribed with.
    subscribed: Option<QoS>,
    /// Bit n: packet id n + 1 is on its way.
    inflight: u64,
    window: u32,
    last_read: Instant,
    /// The byte up to which the client has to take the output, and since when.
    unread: Option<(Instant, u64)>,
    /// Since when the present first packet has been first in the queue.
    head_since: Option<Instant>,
    waiting: Option<(Pending, Option<u16>)>,
    /// PUBACKs of packets that the driver has, and since when the first one waits.
    held: Vec<u16>,
    held_since: Option<Instant>,
    /// Chunks of contents have their room until this byte is written.
    rooms: VecDeque<(u64, Room)>,
}

impl<I: Inbox> Session<I> {
    pub fn new(stream: Stream, outbound: Arc<Outbound<I::Queued>>, inbox: I, terms: Terms) -> Self {
        Self {
            down: Bytes::copy_from_slice(terms.down.as_bytes()),
            window: terms.receive_maximum.min(INFLIGHT_MAX).into(),
            stream,
            outbound,
            inbox,
            terms,
            subscribed: None,
            inflight: 0,
            last_read: Instant::now(),
            unread: None,
            head_since: None,
            waiting: None,
            held: Vec::new(),
            held_since: None,
            rooms: VecDeque::new(),
        }
    }

    /// Runs to the end, and returns the stream: the client has to hear why.
    pub async fn run(mut self) -> (End, Stream) {
        match self.converse().await {
            Ok(never) => match never {},
            Err(end) => {
                // What the driver has is acknowledged, whatever ends the connection.
                self.let_go();
                (end, self.stream)
            }
        }
    }

    async fn converse(&mut self) -> Result<Infallible, End> {
        let outbound = Arc::clone(&self.outbound);
        let mut alarm = pin!(sleep_until(self.deadline()));
        loop {
            if let Some(refusal) = outbound.ended() {
                return Err(refusal.into());
            }
            self.take_input()?;
            self.fill_output();
            let deadline = self.deadline();
            if deadline < alarm.deadline() || deadline > alarm.deadline() + PUT_OFF || alarm.is_elapsed() {
                alarm.as_mut().reset(deadline);
            }
            let reading = self.is_reading();
            tokio::select! {
                delivered = wait(&mut self.waiting) => {
                    let acknowledge = delivered?;
                    self.waiting = None;
                    self.last_read = Instant::now();
                    if let Some(id) = acknowledge {
                        self.held.push(id);
                        self.held_since.get_or_insert(self.last_read);
                    }
                }
                turn = self.stream.turn(reading) => match turn {
                    Ok(Turn::Read) => self.last_read = Instant::now(),
                    // This side did not read from the client meanwhile, so the client's silence does
                    // not count.
                    Ok(Turn::Written) if !reading => self.last_read = Instant::now(),
                    Ok(Turn::Written) => {}
                    Ok(Turn::End) | Err(_) => return Err(End::Gone),
                },
                () = outbound.changed.notified() => {}
                () = alarm.as_mut() => self.check_time(Instant::now())?,
            }
        }
    }

    fn is_reading(&self) -> bool {
        self.waiting.is_none() && self.stream.output.len() < OUTPUT_MAX
    }

    fn take_input(&mut self) -> Result<(), End> {
        while self.is_reading() {
            let Some(frame) = self.stream.next()? else { break };
            match frame {
                Frame::Publish { topic, payload, acknowledge } => {
                    if topic != self.terms.up.as_bytes() {
                        return Err(Refusal::new(Reason::NotAuthorized, "not your topic to publish").into());
                    }
                    match self.inbox.receive(payload)? {
                        Some(pending) => self.waiting = Some((pending, acknowledge)),
                        None => self.acknowledge(acknowledge),
                    }
                }
                Frame::PubAck { id } => self.acknowledged(id)?,
                Frame::Subscribe { id, filters } => self.subscribe(id, &filters)?,
                Frame::PingReq => self.stream.put(&Packet::PingResp(PingResp)),
                Frame::Disconnect => return Err(End::Gone),
                Frame::Connect(_) => {
                    return Err(Refusal::new(Reason::ProtocolError, "a second CONNECT").into());
                }
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, id: Option<u16>) {
        if let Some(id) = id {
            // MQTT has them in the order of their packets.
            self.let_go();
            self.put_acknowledgement(id);
        }
    }

    fn put_acknowledgement(&mut self, id: u16) {
        self.stream.put(&Packet::PubAck(PubAck::new(id, None)));
    }

    /// Appends what is held to the output.
    fn let_go(&mut self) {
        for id in std::mem::take(&mut self.held) {
            self.put_acknowledgement(id);
        }
        self.held_since = None;
    }

    fn held_until(&self) -> Option<Instant> {
        self.held_since.map(|since| since + HELD)
    }

    fn acknowledged(&mut self, id: u16) -> Result<(), Refusal> {
        let bit = 1u64.checked_shl(u32::from(id).wrapping_sub(1)).unwrap_or(0);
        if self.inflight & bit == 0 {
            return Err(Refusal::new(Reason::ProtocolError, "PUBACK of nothing that was sent"));
        }
        self.inflight &= !bit;
        Ok(())
    }

    fn subscribe(&mut self, id: u16, filters: &[(String, QoS)]) -> Result<(), Refusal> {
        if filters.len() > FILTERS_MAX {
            return Err(Refusal::new(Reason::QuotaExceeded, "too many filters"));
        }
        let mut return_codes = Vec::new();
        for (filter, qos) in filters {
            if filter.contains(['+', '#']) {
                return Err(Refusal::new(Reason::WildcardSubscriptionsNotSupported, "no wildcards here"));
            }
            if *filter != self.terms.down {
                return Err(Refusal::new(Reason::NotAuthorized, "not your topic to subscribe"));
            }
            let granted = if *qos == QoS::AtMostOnce { QoS::AtMostOnce } else { QoS::AtLeastOnce };
            self.subscribed = Some(granted);
            return_codes.push(SubscribeReasonCode::Success(granted));
        }
        self.stream.put(&Packet::SubAck(SubAck { pkid: id, return_codes, properties: None }));
        Ok(())
    }

    /// Moves packets from the queue to the output, as far as window and output allow.
    fn fill_output(&mut self) {
        while let Some(qos) = self.subscribed
            && self.stream.output.len() < OUTPUT_MAX
        {
            let free = self.inflight.trailing_ones();
            if qos != QoS::AtMostOnce && free >= self.window {
                break;
            }
            let Some((payload, room)) = self.inbox.next(&self.outbound) else { break };
            self.head_since = None;
            let id = (qos != QoS::AtMostOnce).then(|| {
                self.inflight |= 1 << free;
                free as u16 + 1
            });
            self.stream.put_publish(self.down.clone(), payload, id);
            self.rooms.extend(room.map(|room| (self.stream.progress().1, room)));
        }
        let now = Instant::now();
        let is_due = self.held_until().is_some_and(|at| at <= now);
        if is_due || self.held.len() >= HELD_MAX || self.stream.is_dirty() {
            self.let_go();
        }
        self.note_time(now);
    }

    /// Updates two clocks: one for the output, and one for the queue behind it, which may also wait
    /// for PUBACKs.
    fn note_time(&mut self, now: Instant) {
        match self.outbound.is_empty() {
            true => self.head_since = None,
            false => _ = self.head_since.get_or_insert(now),
        }
        let (sent, all) = self.stream.progress();
        while self.rooms.front().is_some_and(|(upto, _)| *upto <= sent) {
            self.rooms.pop_front();
        }
        self.unread = match self.unread {
            _ if !self.stream.is_dirty() => None,
            // A new wait does not flush the last bytes any faster.
            Some((since, upto)) if sent < upto || upto == all => Some((since, upto)),
            _ => Some((now, all)),
        };
    }

    fn slow_at(&self) -> Option<Instant> {
        self.unread
            .map(|(since, _)| since)
            .into_iter()
            .chain(self.head_since)
            .min()
            .map(|since| since + self.terms.drain)
    }

    fn silent_at(&self) -> Option<Instant> {
        self.is_reading().then(|| self.last_read + self.terms.silence)
    }

    fn deadline(&self) -> Instant {
        // The next look if nothing else is due.
        let rest = Instant::now() + Duration::from_secs(3600);
        [self.slow_at(), self.silent_at(), self.held_until(), self.terms.until]
            .into_iter()
            .flatten()
            .fold(rest, Instant::min)
    }

    fn check_time(&self, now: Instant) -> Result<(), Refusal> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.terms.until) {
            Err(Refusal::new(Reason::MaximumConnectTime, "without a certificate the time is short"))
        } else if due(self.slow_at()) {
            Err(Refusal::new(Reason::QuotaExceeded, "what was sent is not read"))
        } else if due(self.silent_at()) {
            Err(Refusal::new(Reason::KeepAliveTimeout, "nothing heard for one and a half keep alives"))
        } else {
            Ok(())
        }
    }
}

/// Waits until the received packet is delivered; for ever if there is none.
async fn wait(waiting: &mut Option<(Pending, Option<u16>)>) -> Result<Option<u16>, Refusal> {
    match waiting {
        Some((pending, acknowledge)) => pending.await.map(|()| *acknowledge),
        None => std::future::pending().await,
    }
}
