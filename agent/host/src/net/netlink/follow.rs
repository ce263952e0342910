//! The kernel's links, kept up to date from its messages: up or down, and whatever else the messages contain.
//!
//! The kernel reports carrier changes at most once a second. So after an event, the links are queried for a
//! while: when several cables to a neighbour fail, all of them must be seen at once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use muster_shared::model::LinkFacts;
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use tokio::time::{Instant, sleep, sleep_until};

use super::dump::{message_length, whole};
use super::facts::facts;
use super::read::{MAX_LINKS, bounded};
use super::{NetlinkError, Result};

/// `RTMGRP_LINK`
const GROUP: u32 = 0x1;
/// The buffer of one message; a longer one counts as lost.
const DATAGRAM: usize = 32 * 1024;
/// Messages read in one go, before the rest of the agent has its turn.
const READ_AT_ONCE: usize = 256;
/// The pause between readings while irrelevant messages keep coming, as on a host with many containers.
const PAUSE: Duration = Duration::from_millis(2);

/// After a relevant event, links are queried for this long …
const ASK_FOR: Duration = Duration::from_millis(1100);
/// … each time this has passed …
const ASK_EVERY: Duration = Duration::from_millis(20);
/// … and at most so many of them, so that the answers fit the kernel's buffer: few servers have as
/// many cables.
const ASKED_MAX: usize = 32;

/// A link as its other end matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The link is administratively up and has a carrier.
    pub up: bool,
    /// The kernel's kind; empty for a card.
    pub kind: Box<str>,
    /// The MAC address of an Ethernet link.
    pub mac: Option<[u8; 6]>,
}

/// The links of the namespace in which the socket was opened.
pub struct Cables {
    socket: TokioSocket,
    buffer: Vec<u8>,
    links: BTreeMap<u32, (Box<str>, Cable)>,
    by_name: BTreeMap<Box<str>, u32>,
    ask_until: Instant,
    ask_next: Instant,
}

impl Cable {
    /// Frames of Ethernet go out of it to another end.
    pub fn has_far_end(&self) -> bool {
        self.mac.is_some() && matches!(&*self.kind, "" | "veth" | "bond" | "team")
    }
}

impl Cables {
    /// Reads the present links. Needs a tokio runtime with I/O and time.
    pub async fn open() -> Result<Self> {
        let open = || {
            let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
            socket.socket_mut().bind(&SocketAddr::new(0, GROUP))?;
            Ok(socket)
        };
        // Opened first, so that no change is missed.
        let socket = open().map_err(NetlinkError::Socket)?;
        let (links, by_name) = (BTreeMap::new(), BTreeMap::new());
        let buffer = Vec::with_capacity(DATAGRAM);
        let now = Instant::now();
        let mut cables = Self { socket, buffer, links, by_name, ask_until: now, ask_next: now };
        let read = whole(async |dump| {
            let mut read = Vec::new();
            let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
            dump.read(request, |message| {
                bounded(read.len(), MAX_LINKS, "links")?;
                if let RouteNetlinkMessage::NewLink(message) = message {
                    read.extend(facts(&message).map(|facts| (message.header.index, facts)));
                }
                Ok(())
            })
            .await?;
            Ok(read)
        });
        for (index, facts) in read.await? {
            cables.put(index, facts);
        }
        // Messages from before the list was read would set a link back to its old state for a moment.
        cables.read(false).await?;
        Ok(cables)
    }

    /// The index and state of a link, by name.
    pub fn get(&self, name: &str) -> Option<(u32, &Cable)> {
        let index = *self.by_name.get(name)?;
        Some((index, &self.links.get(&index)?.1))
    }

    /// Waits until one of `names` changed; others may have changed as well. An error means that messages were
    /// lost: then open the links again. Dropping the future loses nothing.
    pub async fn changed(&mut self, names: &BTreeSet<&str>) -> Result<()> {
        loop {
            let idle = Instant::now();
            let (asks, at) = (idle < self.ask_until, self.ask_next);
            tokio::select! {
                others = self.read(true) => {
                    if others?.iter().any(|name| names.contains(&**name)) {
                        let now = Instant::now();
                        (self.ask_until, self.ask_next) = (now + ASK_FOR, now + ASK_EVERY);
                        return Ok(());
                    }
                    if idle.elapsed() < PAUSE {
                        sleep(PAUSE).await;
                    }
                }
                () = sleep_until(at), if asks => {
                    self.ask_next = Instant::now() + ASK_EVERY;
                    self.ask(names).await?;
                }
            }
        }
    }

    /// Queries the links; the answers are read along with the kernel's own messages.
    async fn ask(&mut self, names: &BTreeSet<&str>) -> Result<()> {
        let up = names.iter().filter_map(|name| self.get(name));
        let up = up.filter(|(_, cable)| cable.up && cable.has_far_end()).map(|(index, _)| index);
        let mut bytes = Vec::new();
        for index in up.take(ASKED_MAX) {
            let mut link = LinkMessage::default();
            link.header.index = index;
            link.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
            let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
            request.header.flags = NLM_F_REQUEST;
            request.finalize();
            let start = bytes.len();
            bytes.resize(start + request.buffer_len().next_multiple_of(4), 0);
            request.serialize(&mut bytes[start..]);
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => self.socket.send(&bytes).await.map(drop).map_err(NetlinkError::Socket),
        }
    }

    /// Takes all waiting messages; if `waits`, at least one. Returns the names of links that changed.
    async fn read(&mut self, waits: bool) -> Result<Vec<Box<str>>> {
        let mut names = Vec::new();
        let read = poll_fn(|context| {
            for number in 0..READ_AT_ONCE {
                self.buffer.clear();
                match self.socket.poll_recv(context, &mut self.buffer) {
                    Poll::Ready(Ok(())) => {
                        let datagram = std::mem::take(&mut self.buffer);
                        let is_whole = self.take(&datagram, &mut names);
                        self.buffer = datagram;
                        if !is_whole {
                            return Poll::Ready(Err(io::Error::other("a message that is cut")));
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending if number == 0 && waits => return Poll::Pending,
                    Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(()))
        });
        read.await.map_err(NetlinkError::Socket)?;
        Ok(names)
    }

    /// Whether it could be read to its end.
    fn take(&mut self, mut datagram: &[u8], names: &mut Vec<Box<str>>) -> bool {
        while let Some(length) = message_length(datagram) {
            let (message, following) = datagram.split_at(length);
            datagram = following.get(length.next_multiple_of(4) - length..).unwrap_or_default();
            let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) else { continue };
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(message))
                    if is_of_link(&message) =>
                {
                    if let Some(facts) = facts(&message) {
                        names.extend(self.put(message.header.index, facts));
                    }
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(message))
                    if is_of_link(&message) =>
                {
                    names.extend(self.remove(message.header.index));
                }
                NetlinkPayload::Overrun(_) => return false,
                _ => {}
            }
        }
        datagram.is_empty()
    }

    /// Returns the name, if the link changed.
    fn put(&mut self, index: u32, facts: LinkFacts) -> Option<Box<str>> {
        let name: Box<str> = facts.name.into();
        let up = facts.up && facts.carrier;
        let cable = Cable { up, kind: facts.kind.into(), mac: facts.mac.filter(|mac| *mac != [0; 6]) };
        match self.links.get(&index) {
            Some((known, same)) if *known == name && *same == cable => return None,
            Some((known, _)) if *known == name => {}
            _ => {
                self.remove(index);
                if self.links.len() >= MAX_LINKS {
                    return None;
                }
                self.by_name.insert(name.clone(), index);
            }
        }
        self.links.insert(index, (name.clone(), cable));
        Some(name)
    }

    fn remove(&mut self, index: u32) -> Option<Box<str>> {
        let (name, _) = self.links.remove(&index)?;
        // Another link may already have this name.
        if self.by_name.get(&name) == Some(&index) {
            self.by_name.remove(&name);
        }
        Some(name)
    }
}

/// Whether the message is about a link, and not about a port of a bridge, which comes and goes under the
/// same number.
fn is_of_link(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Unspec
}
