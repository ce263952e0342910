//! Reads all objects of one kind from the kernel, message by message: of a list of many thousands, one
//! datagram is in memory.
//!
//! The kernel reports if a list changed while it was read, or did not fit; then the list is read again, a
//! few times.

use std::io::ErrorKind;

use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};

use super::{NetlinkError, REQUEST_TIMEOUT, Result};

/// The size of the kernel's datagrams, unless a single message is longer.
const DATAGRAM: usize = 32 * 1024;
/// The longest of a message: that of a card with hundreds of virtual functions.
const DATAGRAM_MAX: usize = 1024 * 1024;
/// The most readings of a list that keeps changing. Where a routing daemon never rests, the last reading is
/// used; the read-back of the result still sees later changes.
const TRIES: u32 = 4;
const ENOBUFS: i32 = 105;

/// Reads with `read`, again if the network changed meanwhile.
pub(super) async fn whole<T>(mut read: impl AsyncFnMut(&mut Dump) -> Result<T>) -> Result<T> {
    let reading = async {
        let mut datagram = DATAGRAM;
        for tries_left in (0..TRIES).rev() {
            let mut dump = Dump::open(datagram)?;
            let result = read(&mut dump).await;
            if dump.cut {
                datagram = DATAGRAM_MAX;
            } else if !dump.lost && (result.is_err() || !dump.changed || tries_left == 0) {
                return result;
            }
        }
        Err(NetlinkError::Answer("the kernel could not tell the whole of its network".to_owned()))
    };
    tokio::time::timeout(REQUEST_TIMEOUT, reading).await.map_err(|_| NetlinkError::Timeout)?
}

/// The dump has a socket of its own, so that unread messages vanish with it.
pub(super) struct Dump {
    socket: TokioSocket,
    buffer: Vec<u8>,
    sequence: u32,
    /// A list changed while it was read.
    changed: bool,
    /// The kernel lost messages for want of buffer space.
    lost: bool,
    /// A datagram did not fit.
    cut: bool,
}

impl Dump {
    /// Opens a socket in this thread's namespace.
    fn open(datagram: usize) -> Result<Self> {
        let open = || {
            let socket = TokioSocket::new(NETLINK_ROUTE)?;
            // Accept messages from the kernel only.
            socket.socket_ref().connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(NetlinkError::Socket)?,
            buffer: Vec::with_capacity(datagram),
            sequence: 0,
            changed: false,
            lost: false,
            cut: false,
        })
    }

    /// Asks for a list and gives its messages to `each`.
    pub async fn read(
        &mut self,
        request: RouteNetlinkMessage,
        mut each: impl FnMut(RouteNetlinkMessage) -> Result<()>,
    ) -> Result<()> {
        self.sequence += 1;
        let mut request = NetlinkMessage::from(request);
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes).await.map_err(NetlinkError::Socket)?;
        while !self.datagram(&mut each).await? {}
        Ok(())
    }

    /// Reads one datagram. Returns whether it was the last.
    async fn datagram(&mut self, each: &mut impl FnMut(RouteNetlinkMessage) -> Result<()>) -> Result<bool> {
        self.buffer.clear();
        while let Err(error) = self.socket.recv(&mut self.buffer).await {
            if error.kind() != ErrorKind::Interrupted {
                self.lost = error.raw_os_error() == Some(ENOBUFS);
                return Err(NetlinkError::Socket(error));
            }
        }
        let mut rest = self.buffer.as_slice();
        while let Some(length) = message_length(rest) {
            let (message, following) = rest.split_at(length);
            rest = following.get(length.next_multiple_of(4) - length..).unwrap_or_default();
            // Messages of an unknown kind are skipped.
            let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) else { continue };
            if message.header.sequence_number != self.sequence {
                continue;
            }
            self.changed |= message.header.flags & NLM_F_DUMP_INTR != 0;
            match message.payload {
                NetlinkPayload::Done(done) if done.code == 0 => return Ok(true),
                NetlinkPayload::Done(done) => {
                    return Err(NetlinkError::Kernel { code: done.code.abs(), detail: None });
                }
                NetlinkPayload::Error(error) => return Err(rtnetlink::Error::NetlinkError(error).into()),
                NetlinkPayload::Overrun(_) => self.lost = true,
                NetlinkPayload::InnerMessage(message) => each(message)?,
                _ => {}
            }
        }
        self.cut = !rest.is_empty();
        match self.cut {
            true => {
                Err(NetlinkError::Answer(format!("a message of the kernel is over {DATAGRAM_MAX} bytes")))
            }
            false => Ok(false),
        }
    }
}

/// The length of the first message in `bytes`; `None` if it is not complete.
pub(super) fn message_length(bytes: &[u8]) -> Option<usize> {
    const HEADER: usize = 16;
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    usize::try_from(length).ok().filter(|length| (HEADER..=bytes.len()).contains(length))
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::link::LinkMessage;

    use super::*;

    #[test]
    fn a_message_is_taken_as_long_as_it_says_unless_it_is_cut() {
        let of = |length: u32, size: usize| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.resize(size, 0);
            message_length(&bytes)
        };
        assert_eq!(of(16, 16), Some(16));
        assert_eq!(of(17, 40), Some(17));
        for (length, size) in [(0, 16), (15, 16), (17, 16), (u32::MAX, 64), (16, 4)] {
            assert_eq!(of(length, size), None, "{length} of {size}");
        }
        assert_eq!(message_length(&[16, 0, 0]), None);
    }

    #[tokio::test]
    async fn what_changed_meanwhile_is_read_anew_and_counts_at_last() {
        let mut reads = 0;
        let read = async |dump: &mut Dump| {
            reads += 1;
            dump.changed = true;
            Ok(reads)
        };
        assert_eq!(whole(read).await.unwrap(), TRIES);
    }

    #[tokio::test]
    async fn a_truncated_dump_is_read_again_with_more_room_and_never_used() {
        let mut rooms = Vec::new();
        let read = async |dump: &mut Dump| {
            rooms.push(dump.buffer.capacity());
            dump.cut = true;
            Ok(())
        };
        assert!(whole(read).await.is_err());
        assert_eq!(rooms, [DATAGRAM, DATAGRAM_MAX, DATAGRAM_MAX, DATAGRAM_MAX]);
    }

    /// The kernel's own answer, cut.
    #[tokio::test]
    async fn a_datagram_that_is_cut_is_known_to_be() {
        let request = || RouteNetlinkMessage::GetLink(LinkMessage::default());
        let mut dump = Dump::open(64).unwrap();
        assert!(dump.read(request(), |_| Ok(())).await.is_err());
        assert!(dump.cut);
        let (mut dump, mut links) = (Dump::open(DATAGRAM).unwrap(), 0);
        let count = |message| {
            links += usize::from(matches!(message, RouteNetlinkMessage::NewLink(_)));
            Ok(())
        };
        dump.read(request(), count).await.unwrap();
        assert!(links > 0 && !dump.cut);
    }

    #[tokio::test]
    async fn what_the_kernel_lost_is_read_anew() {
        let mut reads = 0;
        let read = async |dump: &mut Dump| {
            reads += 1;
            dump.lost = reads == 1;
            if dump.lost { Err(NetlinkError::Timeout) } else { Ok(reads) }
        };
        assert_eq!(whole(read).await.unwrap(), 2);
    }
}
