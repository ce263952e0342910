//! The flow rules of a node's own packet filter: `table inet muster` of nftables, for nodes without Open
//! vSwitch and beside it.
//!
//! Table 0 is the chain `t0`, hooked into `prerouting`: it sees every IPv4 and IPv6 packet that comes in
//! by an interface, whether for the node or through it, and knows its connection. Table N is the chain
//! `tN`, reached by `goto_table`. A packet without a matching rule continues as if the table were absent.
//! Rules that share fields, priority and a plain verdict are elements of a map, so that many of them cost
//! one lookup.
//!
//! ```text
//!   Packed ─▶ translate ─▶ plan ─▶ nft -f - ─▶ nft -j list ─▶ form ─▶ hash ─▶ equal, or told
//! ```
//!
//! A change is one transaction of nft and is read back. The whole table is ours; other tables are
//! neither read nor changed. Muster runs nft itself, since operators read its text, and the text is
//! stable across kernels.
//!
//! Absent: groups, meters, timeouts, entries that [`translate`] refuses, and packets that the node
//! itself sends.

mod form;
mod list;
mod plan;
mod run;
mod translate;
mod verdict_map;
mod watch;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use muster_shared::model::flow::{DeviceName, FlowCounters, FlowId, ForeignRule, STATS_PAGE, TableCounters};

use crate::openflow::{Applied, Compared, Desired, Lost, Op, Ops, Outcome, Refusal};
use list::{EXTRA_MAX, Found, Location, Picture};
use plan::{Script, Wish, is_as_said, is_in_place, plan};
use run::Program;
use watch::Watch;

const FAMILY: &str = "inet";
const TABLE: &str = "muster";
const HOOK: &str = "prerouting";
/// After connection tracking (-200) and mangle (-150), so that `ct_state` is known; before addresses are
/// translated (-100).
const PRIORITY: i32 = -140;
const CHAIN: &str = "{ type filter hook prerouting priority -140; policy accept; }";
/// A change is made again if its list was outdated when it reached the kernel. Only by mistake
/// would others write all the time.
const TRIES: u32 = 3;
/// The most objects removed one by one in separate runs of nft, if they cannot be removed together; the next
/// comparison finds the rest.
const ONE_BY_ONE_MAX: usize = 256;

/// The chain of a table.
fn chain(table: u8) -> String {
    format!("t{table}")
}

/// The packet filter of the current network namespace.
pub struct Nftables {
    device: DeviceName,
    program: Program,
    watch: Watch,
}

/// An object in our table that no entry accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraneous(Box<str>);

impl std::fmt::Debug for Nftables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nftables").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Nftables {
    /// Finds nft, and listens to what others change.
    ///
    /// # Errors
    /// nft is not installed, or the kernel has no nftables.
    pub fn open(device: &DeviceName) -> Result<Self, Lost> {
        Ok(Self { device: device.clone(), program: Program::find()?, watch: Watch::open()? })
    }

    /// As [`Nftables::open`], with the first existing one of these programs.
    pub fn open_with(device: &DeviceName, programs: Vec<PathBuf>) -> Result<Self, Lost> {
        let program = Program::first_of(programs.into_iter())?;
        Ok(Self { device: device.clone(), program, watch: Watch::open()? })
    }

    pub fn device(&self) -> &DeviceName {
        &self.device
    }

    /// Waits until others have changed our table, or may have. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The watch is lost; open it again.
    pub async fn changed(&mut self) -> Result<(), Lost> {
        self.watch.changed().await
    }

    /// Applies all of `ops` or none, and reads back the new entries. Waits for `commit` before anything takes
    /// effect; its error refuses the change.
    ///
    /// # Errors
    /// After [`Lost`], it is unknown whether the change was applied.
    pub async fn apply(
        &mut self,
        ops: &mut dyn Ops,
        commit: impl Future<Output = Result<(), String>>,
    ) -> Result<Outcome, Lost> {
        let wishes = match read_wishes(ops)? {
            Ok(wishes) => wishes,
            Err(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        if let Err(reason) = commit.await {
            return Ok(Outcome::Refused(Refusal { id: None, reason, permanent: false }));
        }
        for left in (0..TRIES).rev() {
            let picture = self.program.list().await?;
            if picture.is_bent {
                let reason =
                    "the chains of table inet muster were changed by others; they are corrected first";
                return Ok(refused(None, reason));
            }
            let script = plan(&picture, &wishes);
            drop(picture);
            let Some(bad) = self.run(&script).await? else { break };
            if left == 0 {
                let id = bad.line.and_then(|line| script.blamed(line));
                return Ok(Outcome::Refused(Refusal {
                    id,
                    reason: format!("nft: {}", bad.reason),
                    permanent: true,
                }));
            }
        }
        self.read_back(&wishes).await
    }

    async fn run(&mut self, script: &Script) -> Result<Option<run::Bad>, Lost> {
        if script.text.is_empty() {
            return Ok(None);
        }
        self.transact(&script.text).await
    }

    async fn read_back(&mut self, wishes: &[Wish]) -> Result<Outcome, Lost> {
        let picture = self.program.list().await?;
        let mut applied = Applied::default();
        for wish in wishes {
            let Some(said) = &wish.put else { continue };
            match picture.find(wish.id) {
                None => applied.missing.push(wish.id),
                Some(found) if is_as_said(found, said) => {}
                Some(found) if is_in_place(found, said) => applied.odd.push((wish.id, found.form)),
                Some(_) => applied.missing.push(wish.id),
            }
        }
        applied.odd.sort_unstable();
        applied.missing.sort_unstable();
        Ok(Outcome::Applied(applied))
    }

    /// Reads our table and compares.
    ///
    /// # Errors
    /// Nothing is known.
    pub async fn compare(&mut self, desired: &dyn Desired) -> Result<Compared<Extraneous>, Lost> {
        let picture = self.program.list().await?;
        compare(&picture, desired)
    }

    /// Removes exactly these objects, and returns why some could not be removed. Such objects stay for the
    /// next comparison, since they must not prevent the repair of our own rules.
    ///
    /// # Errors
    /// The result is unknown.
    pub async fn strip(&mut self, extraneous: &[Extraneous]) -> Result<Option<String>, Lost> {
        let all: String = extraneous.iter().map(|it| &*it.0).collect();
        let Some(bad) = self.transact(&all).await? else { return Ok(None) };
        if extraneous.len() > 1 {
            for one in extraneous.iter().take(ONE_BY_ONE_MAX) {
                self.transact(&one.0).await?;
            }
        }
        Ok(Some(bad.reason))
    }

    async fn transact(&mut self, script: &str) -> Result<Option<run::Bad>, Lost> {
        let watch = &mut self.watch;
        let done = self.program.transaction(script, |process| watch.own(process)).await?;
        Ok(done.err())
    }

    /// The counters, in pages; then by table. nft does not count unmatched packets, nor time.
    ///
    /// # Errors
    /// The counters could not be read.
    pub async fn stats(
        &mut self,
        page: &mut dyn FnMut(Vec<FlowCounters>),
    ) -> Result<Vec<TableCounters>, Lost> {
        let picture = self.program.list().await?;
        let mut tables: BTreeMap<u8, TableCounters> = BTreeMap::new();
        for found in &picture.found {
            let empty = TableCounters { table: found.table, ..TableCounters::default() };
            let table = tables.entry(found.table).or_insert(empty);
            table.active += 1;
            table.matches += found.packets;
            table.lookups += found.packets;
        }
        let counters = |found: &Found| FlowCounters {
            id: found.id,
            packets: found.packets,
            bytes: found.bytes,
            duration: 0,
        };
        picture.found.chunks(STATS_PAGE).for_each(|chunk| page(chunk.iter().map(counters).collect()));
        Ok(tables.into_values().collect())
    }

    /// Always empty: other tables are not read.
    pub fn foreign(&self) -> Vec<ForeignRule> {
        Vec::new()
    }
}

fn refused(id: Option<FlowId>, reason: &str) -> Outcome {
    Outcome::Refused(Refusal { id, reason: reason.into(), permanent: false })
}

/// The entries of a change in nft's language, or the first that cannot be expressed.
fn read_wishes(ops: &mut dyn Ops) -> Result<Result<Vec<Wish>, Refusal>, Lost> {
    ops.rewind().map_err(Lost::Kept)?;
    let mut wishes = Vec::new();
    while let Some(op) = ops.next().map_err(Lost::Kept)? {
        match op {
            Op::Put { id, packed, .. } => match translate::say(packed) {
                Ok(said) => wishes.push(Wish { id, put: Some(said) }),
                Err(reason) => return Ok(Err(Refusal { id: Some(id), reason, permanent: true })),
            },
            Op::Remove { id, .. } => wishes.push(Wish { id, put: None }),
        }
    }
    Ok(Ok(wishes))
}

fn compare(picture: &Picture, desired: &dyn Desired) -> Result<Compared<Extraneous>, Lost> {
    let mut compared = Compared::default();
    let mut packed = Vec::new();
    for index in 0..desired.len() {
        let wanted = desired.get(index);
        if !wanted.present {
            continue;
        }
        desired.read(index, &mut packed).map_err(Lost::Kept)?;
        let said = match translate::say(&packed) {
            Ok(said) => said,
            Err(reason) => {
                compared.unsayable.push((wanted.id, Arc::from(reason)));
                continue;
            }
        };
        let Some(found) = picture.find(wanted.id).filter(|_| !picture.is_bent) else {
            compared.missing.push(wanted.id);
            continue;
        };
        let is_odd = wanted.odd == Some(found.form) && is_in_place(found, &said);
        let is_reached = match found.at {
            Location::Rule { .. } => true,
            Location::Element(name) => picture.maps.get(&name).is_some_and(|map| map.dispatch.is_some()),
        };
        if !is_reached || !(is_odd || is_as_said(found, &said)) {
            compared.altered.push((wanted.id, found.form));
        }
    }
    extraneous(picture, desired, &mut compared);
    Ok(compared)
}

fn extraneous(picture: &Picture, desired: &dyn Desired, compared: &mut Compared<Extraneous>) {
    if picture.is_bent {
        compared.extraneous.push(Extraneous(format!("delete table {FAMILY} {TABLE}\n").into()));
        return;
    }
    let mut commands = picture.extra.clone();
    let mut last = None;
    for found in &picture.found {
        let index = desired.find(found.id).filter(|index| desired.get(*index).present);
        let is_second = last.replace(found.id) == Some(found.id);
        if index.is_some() && !is_second {
            continue;
        }
        if commands.len() >= EXTRA_MAX {
            compared.more_extraneous = true;
            break;
        }
        commands.push(found.removal());
    }
    compared.more_extraneous |= picture.more_extra;
    compared.extraneous = commands.into_iter().map(|command| Extraneous(command.into())).collect();
}
