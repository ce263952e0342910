//! The encoding of records of the state before a change: JSON in LZ4, some 15 bytes for a route. The whole
//! JSON is never in memory.

use std::io::{self, BufReader, Read as _};

use lz4_flex::frame::{BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The JSON of a host with as many routes as are read at most is shorter.
const JSON_MAX: u64 = 256 * 1024 * 1024;

/// Packs a value.
///
/// # Errors
/// The value cannot be written as JSON.
pub fn pack(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    serde_json::to_writer(&mut encoder, what)?;
    encoder.finish().map_err(io::Error::other)
}

/// The value that [`pack`] was given; `None` for other bytes.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let json = FrameDecoder::new(bytes).take(JSON_MAX);
    serde_json::from_reader(BufReader::new(json)).ok()
}
