//! The address plan as it is durable: no address is ever two ports', and none is refused while one is free.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use muster_engine::record::{ProgressRecord, ResourceRecord, Status};

use super::plan::SHARED;
use super::reference::addresses;
use super::store::Tables;

/// Last bytes of addresses that are in a pool, of any that there ever is.
pub const POOL: RangeInclusive<u8> = 10..=130;

/// The last parts of the addresses that ports ask for.
pub const ASKED_FOR: RangeInclusive<u8> = 150..=231;

/// The reason of a port that gets no address.
const NONE_FREE: &str = "no address is free";
/// The reason why else something of the plan is refused.
const REFUSALS: [(&str, &str); 4] = [
    ("there is no network", "tree port without a network"),
    ("is in use by the port", "tree address is another's"),
    ("subnets and", "tree network still has ports"),
    ("still has ports, such as", "tree subnet still has ports"),
];

/// The third byte of addresses of a network.
pub fn third_of(network: &str) -> usize {
    if network == SHARED {
        return 1;
    }
    network.strip_prefix("net-").and_then(|n| n.parse().ok()).map_or(0, |stack: usize| 1 + stack % 200)
}

/// The holders of each address.
#[derive(Default)]
pub struct Held(BTreeMap<String, Vec<u64>>);

impl Held {
    /// Returns the addresses that are held, as they are durable.
    pub fn of(tables: &Tables) -> Self {
        let mut held = Self::default();
        for row in tables.rows.values().filter(|row| row.progress.applied) {
            for (_, address) in addresses(row) {
                held.0.entry(address).or_default().push(row.id);
            }
        }
        held
    }

    /// Two ports with one address, unless one of them is there instead of the other.
    pub fn twice(&self, tables: &Tables) -> Option<String> {
        let of = |id: &u64| tables.rows.get(id);
        let instead = |one: &ResourceRecord, other: &ResourceRecord| {
            // After a rollback it is the newer one that goes.
            one.replaces == Some(other.id) && (one.dropped.is_some() || other.dropped.is_some())
        };
        let is_wrong = |ids: &Vec<u64>| match ids.as_slice() {
            [] | [_] => false,
            [one, other] => match (of(one), of(other)) {
                (Some(one), Some(other)) => !instead(one, other) && !instead(other, one),
                _ => true,
            },
            _ => true,
        };
        let (address, ids) = self.0.iter().find(|(_, ids)| is_wrong(ids))?;
        let rows: Vec<String> = ids.iter().filter_map(of).map(super::store::brief).collect();
        Some(format!("{address} is had twice: {}", rows.join("; ")))
    }

    /// Addresses that one port has instead of another.
    pub fn handed_on(&self) -> usize {
        self.0.values().filter(|ids| ids.len() > 1).count()
    }
}

/// A port has got none although one was free: in `held`, before or after this commit.
pub fn refused_wrongly(progress: &ProgressRecord, held: [&Held; 2]) -> Option<String> {
    let reason = none_free(progress)?;
    // `… sub (10.1.0.0/24) has 2 addresses in use, pools: 10.1.0.10-10.1.0.11`
    let (_, pool) = reason.rsplit_once("pools: ")?;
    let (first, last) = pool.split_once('-')?;
    let split = |address: &str| {
        let (net, last) = address.rsplit_once('.')?;
        Some((net.to_owned(), last.parse::<u8>().ok()?))
    };
    let ((net, first), (_, last)) = (split(first)?, split(last)?);
    let all: BTreeSet<&String> = held.iter().flat_map(|held| held.0.keys()).collect();
    let is_in =
        |address: &&&String| split(address).is_some_and(|(of, n)| of == net && (first..=last).contains(&n));
    let used = all.iter().filter(is_in).count();
    (used < usize::from(last - first) + 1)
        .then(|| format!("row {} has no address, and {used} of {pool} are in use: {reason}", progress.id))
}

fn none_free(progress: &ProgressRecord) -> Option<&str> {
    let reason = progress.reason.as_deref().filter(|_| progress.status == Some(Status::Failed))?;
    reason.contains(NONE_FREE).then_some(reason)
}

/// The name under which its state is counted.
pub fn counted(progress: &ProgressRecord) -> Option<&'static str> {
    if none_free(progress).is_some() {
        return Some("tree no address is free");
    }
    let reason = progress.reason.as_deref()?;
    REFUSALS.iter().find(|(part, _)| reason.contains(part)).map(|(_, what)| *what)
}
