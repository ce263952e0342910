//! Admission of clients that are not yet known.
//!
//! There are two bounds. Connections that are not admitted yet: [`room`](super::room) chooses the one that
//! must leave for a newcomer. Clients without a certificate: one per address. An address is an IPv4 address
//! or an IPv6 /64, as one host gets.
//!
//! Absent: whether a known node comes in (`connection.rs`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use muster_shared::MonoTime;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::metered::Incoming;
use super::room::{Arrival, Bounds, Room, Silence};

/// The pause of a newcomer when all guests wait for us, before the silent ones are looked for again.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const BUSY_PAUSES: usize = 100;

/// The place of clients that are not admitted yet.
#[derive(Debug)]
pub struct Lobby {
    room: Mutex<Room<Guest>>,
    left: Notify,
    started: Instant,
}

#[derive(Debug)]
struct Guest {
    socket: Weak<Incoming>,
    leave: oneshot::Sender<()>,
}

impl Guest {
    fn silence(&self) -> Option<Silence> {
        self.socket.upgrade()?.silence()
    }
}

/// The places are all taken by guests that wait for us.
struct Busy;

/// A place in the lobby; dropping it gives it back.
#[derive(Debug)]
pub struct Waiting {
    lobby: Arc<Lobby>,
    host: IpAddr,
    id: u64,
    pub pressed: bool,
}

/// Resolves when another client needs the place.
pub type Leave = oneshot::Receiver<()>;

impl Lobby {
    pub fn new(bounds: Bounds, seed: u64) -> Arc<Self> {
        let room = Mutex::new(Room::new(bounds, seed));
        Arc::new(Self { room, left: Notify::new(), started: Instant::now() })
    }

    /// A place for a client of this address, or a refusal.
    pub async fn arrive(
        self: &Arc<Self>,
        address: IpAddr,
        socket: &Arc<Incoming>,
    ) -> Option<(Waiting, Leave)> {
        for _ in 0..BUSY_PAUSES {
            match self.try_arrive(host(address), socket) {
                Ok(arrived) => return arrived,
                // The next round sees a guest that left in the meantime.
                Err(Busy) => drop(timeout(BUSY_PAUSE, self.left.notified()).await),
            }
        }
        None
    }

    fn try_arrive(
        self: &Arc<Self>,
        host: IpAddr,
        socket: &Arc<Incoming>,
    ) -> Result<Option<(Waiting, Leave)>, Busy> {
        let (tell, leave) = oneshot::channel();
        let guest = || Guest { socket: Arc::downgrade(socket), leave: tell };
        match self.lock().arrive(self.now(), host, Guest::silence, guest) {
            Arrival::In { id, pressed, leaves } => {
                // The guest may be leaving already.
                let _ = leaves.map(|guest| guest.leave.send(()));
                Ok(Some((Waiting { lobby: Arc::clone(self), host, id, pressed }, leave)))
            }
            Arrival::Busy => Err(Busy),
            Arrival::Refused => Ok(None),
        }
    }

    /// A client of this address has shown a good certificate.
    pub fn good(&self, address: IpAddr) {
        self.lock().good(self.now(), host(address));
    }

    fn now(&self) -> MonoTime {
        MonoTime(self.started.elapsed())
    }

    /// The room is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, Room<Guest>> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.lobby.lock().leave(self.host, self.id);
        self.lobby.left.notify_one();
    }
}

/// A number of places per address.
#[derive(Debug)]
pub struct Places {
    per_address: usize,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A taken place; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub fn new(per_address: usize) -> Arc<Self> {
        Arc::new(Self { per_address, taken: Mutex::default() })
    }

    /// A place for this address, unless its places are used up.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = host(address);
        let mut taken = self.lock();
        let count = taken.entry(address).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(Place { places: Arc::clone(self), address })
    }

    /// A count is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        match taken.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                taken.remove(&self.address);
            }
        }
    }
}

fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_host() {
        let places = Places::new(2);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = places.take(address("fd00::1")).unwrap();
        let _second = places.take(address("fd00::2")).unwrap();
        assert!(places.take(address("fd00::3")).is_none());
        assert!(places.take(address("fd00:0:0:1::1")).is_some());
        drop(first);
        assert!(places.take(address("fd00::3")).is_some());
        let _v4 = (places.take(address("10.0.0.1")), places.take(address("::ffff:10.0.0.1")));
        assert!(places.take(address("10.0.0.1")).is_none());
        assert!(places.take(address("10.0.0.2")).is_some());
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let places = Places::new(1);
        drop(places.take("10.0.0.1".parse().unwrap()));
        assert!(places.lock().is_empty());
    }
}
