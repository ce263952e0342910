//! The neighbours heard on one port, until their time to live has passed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_shared::MonoTime;
use muster_shared::model::topology::{Beacon, HEARD_MAX};
use muster_shared::wire::NEIGHBOURS_MAX;

use super::frame::{Frame, Id};

/// The neighbours of one port: one for each pair of chassis and port, at most [`NEIGHBOURS_MAX`]. A full
/// table ignores newcomers until an entry expires, so that nobody can displace known neighbours.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heard: BTreeMap<(Id, Id), (Frame, MonoTime)>,
}

impl Table {
    /// Takes a frame. Returns whether the table changed. A time to live of 0 removes the neighbour.
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

    /// Drops expired entries. Returns whether there were any.
    pub fn expire(&mut self, now: MonoTime) -> bool {
        let before = self.heard.len();
        self.heard.retain(|_, (_, until)| *until > now);
        self.heard.len() != before
    }

    /// When the next entry expires.
    pub fn next_expiry(&self) -> Option<MonoTime> {
        self.heard.values().map(|(_, until)| *until).min()
    }

    /// The neighbours, by chassis and port.
    pub fn neighbours(&self) -> impl Iterator<Item = &Frame> {
        self.heard.values().map(|(frame, _)| frame)
    }
    /// The Muster ports among the neighbours: in order, at most [`HEARD_MAX`].
    pub fn beacons(&self) -> Vec<Beacon> {
        let beacons: BTreeSet<Beacon> = self.neighbours().filter_map(|frame| frame.beacon).collect();
        beacons.into_iter().take(HEARD_MAX).collect()
    }
}
