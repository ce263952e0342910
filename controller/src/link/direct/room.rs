//! Decides which clients wait to be let in, and which has to leave when the room is full. Pure: no clock, no socket.
//!
//! A newcomer is let in, and another guest leaves for it: one of those that have waited longest, of
//! the address that has most places. So an address takes places from itself first, and an address
//! that wants a single place gets it. Some places are kept for addresses that lately showed a good
//! certificate: other addresses cannot take them.
//!
//! Only a guest whose turn it is has to leave. A guest whose bytes wait for us stays. So does one
//! that has sent something and is about to go on. Where all guests are such, as in a storm of
//! reconnects, newcomers wait until one was served, and no work is lost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use muster_shared::MonoTime;

/// A guest that has been silent for less than this may just be slow. Two ways to a server at the other end of
/// the world and back.
const YOUNG: Duration = Duration::from_millis(500);
/// Guests that are looked at for each newcomer: each costs a system call.
const LOOKED_AT: usize = 4;
/// An address is known so long after its last good certificate: agents stay connected for days.
const KNOWN_FOR: Duration = Duration::from_secs(7 * 86_400);
/// The most known addresses, 3 times the number of connections; the oldest is forgotten.
const KNOWN_MAX: usize = 65_536;

/// Bounds of the waiting guests.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub places: usize,
    /// The part of `places` that is reserved for known addresses.
    pub kept: usize,
    /// The most places of one address, which many servers may share.
    pub per_address: usize,
}

/// The time that a guest has owed us its next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The duration.
    pub lasts: Duration,
    /// The guest has sent something before.
    pub spoken: bool,
}

/// The answer to a newcomer.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<K> {
    /// The newcomer is let in under this number, and the guest in `leaves` has to leave.
    In {
        /// The number for [`Room::leave`].
        id: u64,
        /// Others want the place: the guest must be quick.
        pressed: bool,
        /// The guest that has to leave.
        leaves: Option<K>,
    },
    /// Every guest that could leave waits for us: the newcomer should try again in a moment.
    Busy,
    /// The newcomer is refused.
    Refused,
}

/// The waiting clients. `K` is the way to tell a client to leave.
#[derive(Debug)]
pub struct Room<K> {
    bounds: Bounds,
    hosts: BTreeMap<IpAddr, Host<K>>,
    /// Guests of unknown addresses, and of known ones.
    classes: [Class; 2],
    known: BTreeMap<IpAddr, MonoTime>,
    known_since: BTreeSet<(MonoTime, IpAddr)>,
    last: u64,
    lots: u64,
}

#[derive(Debug)]
struct Host<K> {
    /// Guests by number, so the first has waited longest.
    guests: BTreeMap<u64, K>,
    known: bool,
}

#[derive(Debug, Default)]
struct Class {
    guests: usize,
    /// Each address after its number of places: the last has most.
    by_size: BTreeSet<(usize, IpAddr)>,
}

impl Class {
    fn resize(&mut self, host: IpAddr, from: usize, to: usize) {
        self.by_size.remove(&(from, host));
        if to > 0 {
            self.by_size.insert((to, host));
        }
        self.guests = self.guests + to - from;
    }
}

impl<K> Room<K> {
    /// An empty room. `seed` is for drawing lots.
    pub fn new(bounds: Bounds, seed: u64) -> Self {
        Self {
            bounds,
            hosts: BTreeMap::new(),
            classes: Default::default(),
            known: BTreeMap::new(),
            known_since: BTreeSet::new(),
            last: 0,
            lots: seed | 1,
        }
    }

    /// A client of this address arrives. `silence` of a guest is `None` if the guest waits for us.
    pub fn arrive(
        &mut self,
        now: MonoTime,
        host: IpAddr,
        silence: impl Fn(&K) -> Option<Silence>,
        told: impl FnOnce() -> K,
    ) -> Arrival<K> {
        self.forget(now);
        let known = self.known.contains_key(&host);
        let own = self.hosts.get(&host).map_or(0, |it| it.guests.len());
        let (waiting, most) = self.fill(known);
        let crowded = if own >= self.bounds.per_address {
            Some(host)
        } else if waiting >= most {
            // Empty if the class has no places.
            let Some((_, most)) = self.classes[usize::from(known)].by_size.last() else {
                return Arrival::Refused;
            };
            Some(*most)
        } else {
            None
        };
        let mut leaves = None;
        if let Some(crowded) = crowded {
            let may_wait = own < self.bounds.per_address;
            match self.longest(crowded, silence) {
                Some((_, Silence { lasts, spoken: true })) if lasts < YOUNG && may_wait => {
                    return Arrival::Busy;
                }
                Some((_, Silence { lasts, .. })) if lasts < YOUNG && self.lot() => return Arrival::Refused,
                Some((id, _)) => leaves = self.leave(crowded, id),
                None if may_wait => return Arrival::Busy,
                // All guests of its own address are served in their turn: a further one need not
                // wait for that.
                None => return Arrival::Refused,
            }
        }
        self.last += 1;
        let id = self.last;
        self.enter(host, known, id, told());
        let pressed = 2 * waiting >= most || 2 * own >= self.bounds.per_address;
        Arrival::In { id, pressed, leaves }
    }

    /// A client waits no longer.
    pub fn leave(&mut self, host: IpAddr, id: u64) -> Option<K> {
        let it = self.hosts.get_mut(&host)?;
        let size = it.guests.len();
        let told = it.guests.remove(&id)?;
        self.classes[usize::from(it.known)].resize(host, size, size - 1);
        if size == 1 {
            self.hosts.remove(&host);
        }
        Some(told)
    }

    /// A client of this address has shown a good certificate.
    pub fn good(&mut self, now: MonoTime, host: IpAddr) {
        if let Some(before) = self.known.insert(host, now) {
            self.known_since.remove(&(before, host));
        }
        self.known_since.insert((now, host));
        self.set_known(host, true);
        if self.known.len() > KNOWN_MAX {
            self.forget_first();
        }
    }

    /// The number of waiting guests of this class, and its places.
    fn fill(&self, known: bool) -> (usize, usize) {
        let [unknown, of_known] = &self.classes;
        match known {
            true => (unknown.guests + of_known.guests, self.bounds.places),
            false => (unknown.guests, self.bounds.places - self.bounds.kept),
        }
    }

    /// The guest with the longest silence among an address's longest-waiting ones.
    fn longest(&self, host: IpAddr, silence: impl Fn(&K) -> Option<Silence>) -> Option<(u64, Silence)> {
        let oldest = self.hosts.get(&host)?.guests.iter().take(LOOKED_AT);
        oldest
            .filter_map(|(id, told)| Some((*id, silence(told)?)))
            .min_by_key(|(_, silence)| Reverse(silence.lasts))
    }

    fn enter(&mut self, host: IpAddr, known: bool, id: u64, told: K) {
        let it = self.hosts.entry(host).or_insert_with(|| Host { guests: BTreeMap::new(), known });
        let size = it.guests.len();
        it.guests.insert(id, told);
        self.classes[usize::from(it.known)].resize(host, size, size + 1);
    }

    fn set_known(&mut self, host: IpAddr, known: bool) {
        if let Some(it) = self.hosts.get_mut(&host)
            && it.known != known
        {
            let size = it.guests.len();
            self.classes[usize::from(it.known)].resize(host, size, 0);
            self.classes[usize::from(known)].resize(host, 0, size);
            it.known = known;
        }
    }

    fn forget(&mut self, now: MonoTime) {
        while self.known_since.first().is_some_and(|(since, _)| now.since(*since) > KNOWN_FOR) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, host)) = self.known_since.pop_first() {
            self.known.remove(&host);
            self.set_known(host, false);
        }
    }

    /// xorshift: predicting it gives no advantage.
    fn lot(&mut self) -> bool {
        self.lots ^= self.lots << 13;
        self.lots ^= self.lots >> 7;
        self.lots ^= self.lots << 17;
        self.lots & (1 << 32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [u64; 0] = [];
    const BOUNDS: Bounds = Bounds { places: 12, kept: 4, per_address: 6 };

    fn host(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn at(seconds: u64) -> MonoTime {
        MonoTime(Duration::from_secs(seconds))
    }

    const SILENT: Option<Silence> = Some(Silence { lasts: YOUNG, spoken: false });
    const NEW: Option<Silence> = Some(Silence { lasts: Duration::ZERO, spoken: false });
    const SLOW: Option<Silence> = Some(Silence { lasts: Duration::ZERO, spoken: true });

    /// Numbers of those that wait, of one address.
    fn waiting(room: &Room<u64>, last: u8) -> Vec<u64> {
        room.hosts.get(&host(last)).map(|it| it.guests.keys().copied().collect()).unwrap_or_default()
    }

    /// So many come, one each second; who had to leave.
    fn crowd(room: &mut Room<u64>, from: u64, last: u8, count: u64) -> Vec<u64> {
        let come = |second| match room.arrive(at(second), host(last), |_| SILENT, || second) {
            Arrival::In { leaves, .. } => leaves,
            Arrival::Busy | Arrival::Refused => panic!("all are silent"),
        };
        (from..from + count).filter_map(come).collect()
    }

    #[test]
    fn an_address_that_has_all_it_may_takes_from_itself() {
        let mut room = Room::new(BOUNDS, 1);
        assert_eq!(crowd(&mut room, 0, 1, 6), NOBODY);
        assert_eq!(crowd(&mut room, 6, 1, 3), [0, 1, 2], "who has waited longest");
        assert_eq!(waiting(&room, 1).len(), 6);
        assert_eq!(crowd(&mut room, 9, 2, 2), NOBODY);
    }

    #[test]
    fn when_it_is_full_the_address_with_most_places_gives_one() {
        let mut room = Room::new(BOUNDS, 1);
        crowd(&mut room, 0, 1, 6);
        crowd(&mut room, 6, 2, 2);
        // Eight are for all.
        assert_eq!(crowd(&mut room, 8, 3, 1), [0]);
        assert_eq!(crowd(&mut room, 9, 4, 1), [1]);
        assert_eq!((waiting(&room, 1).len(), waiting(&room, 2).len(), waiting(&room, 3).len()), (4, 2, 1));
        // And so on, until all have as much.
        assert_eq!(crowd(&mut room, 10, 2, 3).len(), 3);
        assert!((1..=4).all(|last| waiting(&room, last).len() <= 5));
        assert_eq!(waiting(&room, 3).len(), 1, "who has one keeps it");
    }

    #[test]
    fn places_are_reserved_for_known_addresses_and_shared_by_them() {
        let mut room = Room::new(BOUNDS, 1);
        room.good(at(0), host(9));
        room.good(at(0), host(8));
        for last in 1..=4 {
            crowd(&mut room, u64::from(last) * 10, last, 6);
        }
        assert_eq!(room.classes[0].guests, 8);
        assert_eq!(crowd(&mut room, 60, 9, 4), NOBODY, "four are kept");
        assert_eq!(crowd(&mut room, 70, 8, 1), [60], "the other known address has most");
        assert_eq!(crowd(&mut room, 80, 5, 3).len(), 3);
        assert_eq!((room.classes[0].guests, waiting(&room, 9).len(), waiting(&room, 8).len()), (8, 3, 1));
    }

    #[test]
    fn an_address_is_known_for_a_time() {
        let mut room = Room::new(BOUNDS, 1);
        crowd(&mut room, 0, 1, 2);
        room.good(at(2), host(1));
        assert_eq!((room.classes[0].guests, room.classes[1].guests), (0, 2));
        crowd(&mut room, 3 + KNOWN_FOR.as_secs(), 2, 1);
        assert_eq!((room.classes[0].guests, room.classes[1].guests), (3, 0));
        assert!(room.known.is_empty() && room.known_since.is_empty());
    }

    #[test]
    fn among_the_young_it_is_by_lot() {
        let mut room = Room::new(BOUNDS, 1);
        let mut refused = 0;
        for number in 0..1000 {
            refused += u32::from(room.arrive(at(0), host(1), |_| NEW, || number) == Arrival::Refused);
        }
        assert!((400..600).contains(&refused), "{refused}");
        assert_eq!(waiting(&room, 1).len(), 6);
    }

    #[test]
    fn only_a_guest_leaves_whose_turn_it_is() {
        // All places are taken, and the first address has most of them: 0, 1, 2, 3, 4.
        let full = || {
            let mut room = Room::new(BOUNDS, 1);
            crowd(&mut room, 0, 1, 5);
            crowd(&mut room, 5, 2, 3);
            room
        };
        let come = |silences: &[(u64, Option<Silence>)]| {
            let of =
                |guest: &u64| silences.iter().find(|(it, _)| it == guest).and_then(|(_, silence)| *silence);
            full().arrive(at(60), host(3), of, || 60)
        };
        let leaves = |guest| Arrival::In { id: 9, pressed: true, leaves: Some(guest) };
        for (what, silences, wanted) in [
            ("all wait for us", &[][..], Arrival::Busy),
            ("what another address owes", &[(6, SILENT)], Arrival::Busy),
            ("one is about to go on", &[(0, SLOW)], Arrival::Busy),
            ("one is silent", &[(2, SILENT)], leaves(2)),
            ("one is silent, another about to go on", &[(0, SLOW), (3, SILENT)], leaves(3)),
            (
                "one has begun and is silent",
                &[(1, SILENT.map(|it| Silence { spoken: true, ..it }))],
                leaves(1),
            ),
        ] {
            assert_eq!(come(silences), wanted, "{what}");
        }
        let mut room = Room::new(BOUNDS, 1);
        crowd(&mut room, 0, 1, 6);
        assert_eq!(room.arrive(at(60), host(1), |_| None, || 60), Arrival::Refused, "its own places");
    }

    #[test]
    fn who_comes_when_half_is_taken_is_to_be_quick() {
        let mut room = Room::new(BOUNDS, 1);
        let mut pressed = |last| match room.arrive(at(0), host(last), |_| SILENT, || 0) {
            Arrival::In { pressed, .. } => pressed,
            Arrival::Busy | Arrival::Refused => panic!("there is room"),
        };
        assert_eq!([1, 1, 1, 1].map(&mut pressed), [false, false, false, true]);
        assert_eq!([2, 2].map(&mut pressed), [true, true]);
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let mut room = Room::new(BOUNDS, 1);
        let Arrival::In { id, .. } = room.arrive(at(0), host(1), |_| SILENT, || 7) else { panic!() };
        assert_eq!((room.leave(host(1), id), room.leave(host(1), id)), (Some(7), None));
        assert!(room.hosts.is_empty() && room.classes[0].by_size.is_empty() && room.classes[0].guests == 0);
    }
}
