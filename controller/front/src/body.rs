//! Bodies of requests: how many bytes, for how long, and how much memory all of them take together. The right to hold a body
//! grows with it, so a slow one holds what it has sent alone.
//!
//! Absent: who may send one, and what is in it.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The unit in which room is counted.
const KIB: usize = 1024;
/// The time limit of a body.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Memory that bodies may still take.
#[derive(Clone)]
pub struct Room(Arc<Semaphore>);

/// The limits of one body.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most bytes of a body.
    pub most: usize,
    /// The longest wait for room.
    pub patience: Duration,
}

/// A body, and the right to hold it in memory.
#[derive(Debug)]
pub struct Collected {
    pub bytes: Vec<u8>,
    /// None: there are no bytes.
    pub room: Option<OwnedSemaphorePermit>,
}

/// The reason why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum NotCollected {
    /// The body has more bytes than this.
    TooLong(usize),
    /// The connection broke, or the body is no HTTP.
    Broken(String),
    /// The body did not arrive in time.
    Late,
    /// Others take all the room.
    NoRoom,
}

impl Display for NotCollected {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(most) => {
                write!(f, "the request's body is too long: at most {most} bytes are allowed")
            }
            Self::Broken(why) => write!(f, "the request's body cannot be read: {why}"),
            Self::Late => {
                write!(f, "the request's body did not arrive within {} seconds", BODY_TIME.as_secs())
            }
            Self::NoRoom => {
                f.write_str("the controller is overloaded: too many and too large requests wait already")
            }
        }
    }
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.div_ceil(KIB))))
    }

    /// Bytes that are free.
    pub fn free(&self) -> usize {
        self.0.available_permits() * KIB
    }

    /// Reads a body into this room. One that says beforehand that it is too long is read as far as it may go as well: who
    /// still sends would see a broken connection in place of the refusal.
    pub async fn collect(&self, body: Body, bounds: Bounds) -> Result<Collected, NotCollected> {
        let came = timeout(BODY_TIME, self.frames(body, bounds)).await;
        came.unwrap_or(Err(NotCollected::Late))
    }

    async fn frames(&self, mut body: Body, bounds: Bounds) -> Result<Collected, NotCollected> {
        let mut collected = Collected { bytes: Vec::new(), room: None };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| NotCollected::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = collected.bytes.len() + data.len();
            if size > bounds.most {
                return Err(NotCollected::TooLong(bounds.most));
            }
            let held = collected.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = u32::try_from(size.div_ceil(KIB) - held).map_err(|_| NotCollected::NoRoom)?;
            let more = timeout(bounds.patience, Arc::clone(&self.0).acquire_many_owned(more)).await;
            let more = more.map_err(|_elapsed| NotCollected::NoRoom)?.expect("nobody closes the semaphore");
            match &mut collected.room {
                Some(room) => room.merge(more),
                None => collected.room = Some(more),
            }
            collected.bytes.extend_from_slice(&data);
        }
        Ok(collected)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures_util::stream::{self, StreamExt as _};

    use super::*;

    const BOUNDS: Bounds = Bounds { most: 4 * KIB, patience: Duration::from_secs(5) };

    /// A body of these frames, which ends, or whose rest never comes.
    fn frames(sizes: &[usize], ends: bool) -> Body {
        let frames: Vec<_> =
            sizes.iter().map(|size| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *size]))).collect();
        match ends {
            true => Body::from_stream(stream::iter(frames)),
            false => Body::from_stream(stream::iter(frames).chain(stream::pending())),
        }
    }

    #[tokio::test]
    async fn the_room_of_a_body_grows_with_it_and_comes_back() {
        let room = Room::new(8 * KIB);
        let held = room.collect(frames(&[1000, 1000, 1], true), BOUNDS).await.unwrap();
        assert_eq!((held.bytes.len(), room.free()), (2001, 6 * KIB));
        drop(held);
        let empty = room.collect(Body::empty(), BOUNDS).await.unwrap();
        assert!(empty.bytes.is_empty() && empty.room.is_none());
        assert_eq!(room.free(), 8 * KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_bounds_in_bytes_time_and_room() {
        let room = Room::new(4 * KIB);
        let too_long = NotCollected::TooLong(4 * KIB);
        assert_eq!(room.collect(Body::from(vec![0; 4 * KIB + 1]), BOUNDS).await.unwrap_err(), too_long);
        assert_eq!(room.collect(frames(&[4 * KIB, 1], true), BOUNDS).await.unwrap_err(), too_long);
        assert_eq!(room.collect(frames(&[KIB], false), BOUNDS).await.unwrap_err(), NotCollected::Late);
        let held = room.collect(frames(&[3 * KIB], true), BOUNDS).await.unwrap();
        assert_eq!(room.collect(frames(&[2 * KIB], true), BOUNDS).await.unwrap_err(), NotCollected::NoRoom);
        drop(held);
        assert_eq!(room.free(), 4 * KIB);
    }
}
