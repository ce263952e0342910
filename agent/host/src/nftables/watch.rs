//! The kernel's messages about changed rules: which process, and which table. They only wake; the
//! caller reads the rules.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket as _, SocketAddr, TokioSocket};

use super::TABLE;
use crate::openflow::Lost;

/// `NFNLGRP_NFTABLES`, as a bit.
const GROUPS: u32 = 1 << 6;
/// `NFNL_SUBSYS_NFTABLES` in a message's type.
const SUBSYSTEM: u8 = 10;
/// `NFT_MSG_NEWGEN`: ends the messages of one transaction.
const NEW_GENERATION: u8 = 15;
/// `NFTA_GEN_PROC_PID`
const PROCESS: u16 = 2;
/// `NFPROTO_INET`
const INET: u8 = 1;
/// Larger than the kernel's largest datagram.
const PIECE: usize = 32 * 1024;
/// Runs of our own whose messages have not arrived.
const OWN_MAX: usize = 64;
/// The header of a message, and the header that precedes the attributes of an nftables message.
const HEADER: usize = 16;
const FAMILY_HEADER: usize = 4;

pub(super) struct Watch {
    socket: TokioSocket,
    own: VecDeque<u32>,
    is_touched: bool,
}

impl Watch {
    pub fn open() -> Result<Self, Lost> {
        let open = || -> io::Result<TokioSocket> {
            let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
            socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
            Ok(socket)
        };
        let socket = open().map_err(|error| Lost::Filter(format!("cannot watch nftables: {error}")))?;
        Ok(Self { socket, own: VecDeque::new(), is_touched: false })
    }

    /// Ignores the changes of this process.
    pub fn own(&mut self, process: u32) {
        self.own.push_back(process);
        if self.own.len() > OWN_MAX {
            self.own.pop_front();
        }
    }

    /// Waits until others have changed our table, or may have.
    pub async fn changed(&mut self) -> Result<(), Lost> {
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            match poll_fn(|context| self.socket.poll_recv(context, &mut piece)).await {
                Ok(()) if self.hear(&piece) => return Ok(()),
                Ok(()) => {}
                // The kernel had no room for all messages.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.is_touched = false;
                    return Ok(());
                }
                Err(error) => return Err(Lost::Broken(error)),
            }
        }
    }

    /// A transaction of others has ended that touched our table.
    fn hear(&mut self, mut piece: &[u8]) -> bool {
        let mut is_changed = false;
        while let Some((kind, body, rest)) = message(piece) {
            piece = rest;
            let [number, subsystem] = kind.to_le_bytes();
            if subsystem != SUBSYSTEM || body.len() < FAMILY_HEADER {
                continue;
            }
            let (header, attributes) = body.split_at(FAMILY_HEADER);
            if number == NEW_GENERATION {
                let process = attribute(attributes, PROCESS).and_then(|bytes| bytes.try_into().ok());
                let process = process.map(u32::from_be_bytes);
                let is_own = process.is_some_and(|process| self.own.contains(&process));
                is_changed |= self.is_touched && !is_own;
                self.is_touched = false;
            } else {
                // The first attribute of every kind of message is the table's name.
                let name = attribute(attributes, 1).unwrap_or_default();
                self.is_touched |= header[0] == INET && name.strip_suffix(b"\0") == Some(TABLE.as_bytes());
            }
        }
        is_changed
    }
}

/// Type and body of the first message, and what follows.
fn message(piece: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(piece.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(piece.get(4..6)?.try_into().ok()?);
    let body = piece.get(HEADER..length)?;
    Some((
        u16::from_le_bytes(kind.to_le_bytes()),
        body,
        piece.get(length.next_multiple_of(4)..).unwrap_or_default(),
    ))
}

fn attribute(mut piece: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(piece.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(piece.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = piece.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        piece = piece.get(length.next_multiple_of(4)..)?;
    }
}
