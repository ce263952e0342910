//! The neighbours heard on one port, until their time to live is over. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::topology::{Beacon, HEARD_MAX};
use muster_shared::wire::NEIGHBOURS_MAX;

use super::frame::{Frame, Id};

/// The neighbours of one port: one for each chassis and port that speaks, at most [`NEIGHBOURS_MAX`]. Once it is full,
/// those who come are not heard until one of the others is over: nobody drives out who was there.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heard: BTreeMap<(Id, Id), (Frame, MonoTime)>,
}

impl Table {
    /// Whether there is anything new in it. A frame whose time to live is 0 takes its neighbour away.
    pub fn hear(&mut self, now: MonoTime, frame: Frame) -> bool {
        let key = (frame.chassis.clone(), frame.port.clone());
        if frame.ttl == 0 {
            return self.heard.remove(&key).is_some();
        }
        if self.heard.len() >= NEIGHBOURS_MAX && !self.heard.contains_key(&key) {
            return false;
        }
        let until = now + Duration::from_secs(frame.ttl.into());
        let says = |frame: &Frame| Frame { ttl: 0, ..frame.clone() };
        let is_news = self.heard.get(&key).is_none_or(|(known, _)| says(known) != says(&frame));
        self.heard.insert(key, (frame, until));
        is_news
    }

    /// Drops those whose time is over; whether there were any.
    pub fn expire(&mut self, now: MonoTime) -> bool {
        let before = self.heard.len();
        self.heard.retain(|_, (_, until)| *until > now);
        self.heard.len() != before
    }

    /// When the next one is over.
    pub fn next_expiry(&self) -> Option<MonoTime> {
        self.heard.values().map(|(_, until)| *until).min()
    }

    /// By chassis and port.
    pub fn neighbours(&self) -> impl Iterator<Item = &Frame> {
        self.heard.values().map(|(frame, _)| frame)
    }
    /// The Muster ports among the neighbours: in order, at most [`HEARD_MAX`].
    pub fn beacons(&self) -> Vec<Beacon> {
        let beacons: BTreeSet<Beacon> = self.neighbours().filter_map(|frame| frame.beacon).collect();
        beacons.into_iter().take(HEARD_MAX).collect()
    }
}
