//! Bodies of requests: how many bytes, for how long, and how much memory all of them take together, and those of one user.
//! The right to hold a body grows with it, so a slow one holds what it has sent alone.
//!
//! Absent: who may send one, and what is in it.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The unit in which room is counted.
const KIB: usize = 1024;
/// The time limit of a body.
const BODY_TIME: Duration = Duration::from_secs(60);

/// The bodies of one user take at most the room divided by this: others have room whatever that user sends.
const SHARE: usize = 2;

/// Memory that bodies may still take.
#[derive(Clone)]
pub struct Room {
    all: Arc<Semaphore>,
    /// The room for the bodies of each user, in KiB.
    share: usize,
    /// The room that is left to users who have bodies here now.
    shares: Arc<Mutex<BTreeMap<String, Weak<Semaphore>>>>,
}

/// The right to hold a body in memory; it is given back when this is dropped.
#[derive(Debug)]
pub struct Place {
    of_all: OwnedSemaphorePermit,
    of_user: OwnedSemaphorePermit,
}

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
    pub room: Option<Place>,
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
    /// The user's other requests take all the room that one user may take.
    ShareTaken,
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
            Self::ShareTaken => {
                f.write_str("your other requests take all the room that one user has: wait for their ends")
            }
        }
    }
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        let size = bytes.div_ceil(KIB);
        Self { all: Arc::new(Semaphore::new(size)), share: size / SHARE, shares: Arc::default() }
    }

    /// Bytes that are free.
    pub fn free(&self) -> usize {
        self.all.available_permits() * KIB
    }

    /// Reads a user's body into this room. One that says beforehand that it is too long is read as far as it may go as well:
    /// who still sends would see a broken connection in place of the refusal.
    pub async fn collect(&self, user: &str, body: Body, bounds: Bounds) -> Result<Collected, NotCollected> {
        let came = timeout(BODY_TIME, self.frames(user, body, bounds)).await;
        came.unwrap_or(Err(NotCollected::Late))
    }

    async fn frames(&self, user: &str, mut body: Body, bounds: Bounds) -> Result<Collected, NotCollected> {
        let mut collected = Collected { bytes: Vec::new(), room: None };
        let mut share = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| NotCollected::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = collected.bytes.len() + data.len();
            if size > bounds.most {
                return Err(NotCollected::TooLong(bounds.most));
            }
            let held = collected.room.as_ref().map_or(0, |place| place.of_all.num_permits());
            let more = u32::try_from(size.div_ceil(KIB) - held).map_err(|_| NotCollected::NoRoom)?;
            let share = share.get_or_insert_with(|| self.share_of(user));
            let wait = bounds.patience;
            let of_user = within(wait, share, more).await.ok_or(NotCollected::ShareTaken)?;
            let of_all = within(wait, &self.all, more).await.ok_or(NotCollected::NoRoom)?;
            match &mut collected.room {
                Some(place) => {
                    place.of_all.merge(of_all);
                    place.of_user.merge(of_user);
                }
                None => collected.room = Some(Place { of_all, of_user }),
            }
            collected.bytes.extend_from_slice(&data);
        }
        Ok(collected)
    }

    /// Returns the room that is left to a user. It exists while one of the user's bodies does.
    fn share_of(&self, user: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(user).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(user.to_owned(), Arc::downgrade(&share));
        share
    }
}

/// So many permits; none, if they are not there in time.
async fn within(wait: Duration, of: &Arc<Semaphore>, count: u32) -> Option<OwnedSemaphorePermit> {
    let permit = timeout(wait, Arc::clone(of).acquire_many_owned(count)).await.ok()?;
    Some(permit.expect("nobody closes the semaphore"))
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
        let held = room.collect("anna", frames(&[1000, 1000, 1], true), BOUNDS).await.unwrap();
        assert_eq!((held.bytes.len(), room.free()), (2001, 6 * KIB));
        drop(held);
        let empty = room.collect("anna", Body::empty(), BOUNDS).await.unwrap();
        assert!(empty.bytes.is_empty() && empty.room.is_none());
        assert_eq!(room.free(), 8 * KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_bounds_in_bytes_time_and_room() {
        let room = Room::new(8 * KIB);
        let too_long = NotCollected::TooLong(4 * KIB);
        assert_eq!(
            room.collect("anna", Body::from(vec![0; 4 * KIB + 1]), BOUNDS).await.unwrap_err(),
            too_long
        );
        assert_eq!(room.collect("anna", frames(&[4 * KIB, 1], true), BOUNDS).await.unwrap_err(), too_long);
        assert_eq!(
            room.collect("anna", frames(&[KIB], false), BOUNDS).await.unwrap_err(),
            NotCollected::Late
        );
        assert_eq!(room.free(), 8 * KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_leaves_room_for_others() {
        let room = Room::new(8 * KIB);
        let collect = async |user, size| room.collect(user, frames(&[size], true), BOUNDS).await;
        let held = collect("anna", 3 * KIB).await.unwrap();
        assert_eq!(collect("anna", 2 * KIB).await.unwrap_err(), NotCollected::ShareTaken);
        let of_another = collect("ben", 4 * KIB).await.unwrap();
        assert_eq!(collect("vera", 2 * KIB).await.unwrap_err(), NotCollected::NoRoom);
        drop(held);
        collect("anna", 4 * KIB).await.unwrap();
        drop(of_another);
        assert_eq!(room.free(), 8 * KIB);
        collect("vera", KIB).await.unwrap();
        assert_eq!(room.shares.lock().unwrap().len(), 1, "nothing is kept of who has no body here");
    }
}
