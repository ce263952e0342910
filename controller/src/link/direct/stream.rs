//! One TLS connection with its buffers. A read or a write may be cancelled at any point and resumed.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, Publish};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::frame::{self, Frame};
use super::metered::Metered;
use crate::link::reason::Refusal;

/// An idle connection keeps this much for reading: many are idle.
const READ_MIN: usize = 1024;
/// A larger buffer is freed once it is empty.
const KEEP_MAX: usize = 16 * 1024;
/// The time that a client has to take the reason why it is refused. This is a courtesy.
const FAREWELL: Duration = Duration::from_secs(2);
/// Bytes to read and drop meanwhile, so that the kernel does not cut the reason off with a reset.
const FAREWELL_MAX: usize = 1024 * 1024;

pub struct Stream {
    reader: ReadHalf<TlsStream<Metered>>,
    writer: WriteHalf<TlsStream<Metered>>,
    input: BytesMut,
    /// Bytes to write; see [`Stream::write`].
    pub output: BytesMut,
    /// Bytes were written but not yet flushed.
    written: bool,
    /// Bytes that left `output` so far.
    sent: u64,
    /// The largest PUBLISH taken.
    max: usize,
}

impl Stream {
    pub fn new(tls: TlsStream<Metered>, max: usize) -> Self {
        let (reader, writer) = tokio::io::split(tls);
        Self { reader, writer, input: BytesMut::new(), output: BytesMut::new(), written: false, sent: 0, max }
    }

    /// The next packet among the read bytes.
    pub fn next(&mut self) -> Result<Option<Frame>, Refusal> {
        let frame = frame::next(&mut self.input, self.max)?;
        if self.input.is_empty() && self.input.capacity() > KEEP_MAX {
            self.input = BytesMut::new();
        }
        Ok(frame)
    }

    /// Whether something is still to be written or flushed.
    pub fn is_dirty(&self) -> bool {
        self.written || !self.output.is_empty()
    }

    /// The bytes given to TLS so far, and the same including those that still wait.
    pub fn progress(&self) -> (u64, u64) {
        (self.sent, self.sent + self.output.len() as u64)
    }

    /// Appends a packet of rumqttc's.
    pub fn put(&mut self, packet: &Packet) {
        // `write` fails for a packet id of 0 and a length over 256 MiB, and we have neither.
        if let Err(error) = packet.write(&mut self.output, None) {
            tracing::error!(%error, "a packet of our own cannot be written");
        }
    }

    /// Appends a PUBLISH; with `id` it has QoS 1.
    pub fn put_publish(&mut self, topic: Bytes, payload: Bytes, id: Option<u16>) {
        let qos = if id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        let publish = Publish { qos, topic, payload, pkid: id.unwrap_or(0), ..Publish::default() };
        self.put(&Packet::Publish(publish));
    }

    /// Waits until either something was read (`Ok(true)`; `Ok(false)` at the end) or all was written.
    pub async fn turn(&mut self, read: bool) -> io::Result<Turn> {
        let dirty = self.is_dirty();
        if self.input.len() == self.input.capacity() {
            self.input.reserve(READ_MIN);
        }
        tokio::select! {
            count = self.reader.read_buf(&mut self.input), if read => {
                Ok(if count? == 0 { Turn::End } else { Turn::Read })
            }
            done = drain(&mut self.writer, &mut self.output, &mut self.written, &mut self.sent), if dirty => {
                done?;
                if self.output.capacity() > KEEP_MAX {
                    self.output = BytesMut::new();
                }
                Ok(Turn::Written)
            }
            else => std::future::pending().await,
        }
    }

    /// Tells the client why, as far as it will listen, and closes.
    pub async fn farewell(mut self) {
        let said = async {
            drain(&mut self.writer, &mut self.output, &mut self.written, &mut self.sent).await?;
            self.writer.shutdown().await?;
            let mut left = FAREWELL_MAX;
            while left > 0 {
                self.input.clear();
                match self.reader.read_buf(&mut self.input).await? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
            Ok::<(), io::Error>(())
        };
        // Our own log has the reason if it cannot be sent.
        let _ = timeout(FAREWELL, said).await;
    }
}

/// The result of [`Stream::turn`].
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Read,
    Written,
    End,
}

async fn drain(
    writer: &mut WriteHalf<TlsStream<Metered>>,
    output: &mut BytesMut,
    written: &mut bool,
    sent: &mut u64,
) -> io::Result<()> {
    while !output.is_empty() {
        *written = true;
        match writer.write_buf(output).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => *sent += count as u64,
        }
    }
    writer.flush().await?;
    *written = false;
    Ok(())
}
