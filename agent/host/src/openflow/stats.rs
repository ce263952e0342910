//! The counters of a switch.

use muster_shared::model::flow::{
    Entry, FlowCounters, FlowId, Group, GroupKind, ID_MASK, ID_PREFIX, Meter, STATS_PAGE, TableCounters,
};

use super::ask::{Flow, Numbered as _};
use super::wire::{GROUP_ALL, METER_ALL, Take, part};
use super::{Lost, Switch};

/// The bytes of one table in the answer.
const TABLE: usize = 24;

impl Switch {
    pub(super) async fn count(
        &mut self,
        page: &mut dyn FnMut(Vec<FlowCounters>),
    ) -> Result<Vec<TableCounters>, Lost> {
        let mut full = Vec::new();
        let mut add = |counters: FlowCounters| {
            full.push(counters);
            if full.len() >= STATS_PAGE {
                page(std::mem::take(&mut full));
            }
        };
        let xid = self.connection.ask_flows(u64::from(ID_PREFIX) << 48, ID_MASK);
        loop {
            let (message, more) = self.connection.part(part::FLOW, xid).await?;
            let mut entries = self.connection.page(&message);
            while !entries.is_empty() {
                let Flow { cookie, duration, packets, bytes, .. } =
                    Flow::take(&mut entries).ok_or(Lost::Garbled("a flow entry"))?;
                add(FlowCounters { id: FlowId(cookie), packets, bytes, duration });
            }
            if !more {
                break;
            }
        }
        let device = self.device.clone();
        let group = |entry: &[u8]| {
            let (number, packets, bytes, duration) = group_counters(entry)?;
            let group = Group { number, kind: GroupKind::All, buckets: Vec::new() };
            add(FlowCounters { id: Entry::Group(group).id(&device), packets, bytes, duration });
            Some(())
        };
        let all_groups = |out: &mut Vec<u8>| out.u32_and_pad(GROUP_ALL);
        self.connection.entries(part::GROUP, all_groups, group).await?;
        let meters = self.connection.ask(part::METER, |out| out.u32_and_pad(METER_ALL));
        loop {
            let (message, more) = self.connection.part(part::METER, meters).await?;
            let mut entries = self.connection.page(&message);
            while !entries.is_empty() {
                let counters = entries.item(4, 40).and_then(meter_counters);
                let (number, packets, bytes, duration) = counters.ok_or(Lost::Garbled("a meter"))?;
                let meter = Meter { number, packets: false, bands: Vec::new() };
                add(FlowCounters { id: Entry::Meter(meter).id(&device), packets, bytes, duration });
            }
            if !more {
                break;
            }
        }
        if !full.is_empty() {
            page(full);
        }
        let tables = self.tables().await?;
        self.connection.shrink();
        Ok(tables)
    }

    /// Tables that hold anything or were looked into.
    pub(super) async fn tables(&mut self) -> Result<Vec<TableCounters>, Lost> {
        let mut tables = Vec::new();
        let xid = self.connection.ask(part::TABLE, |_| {});
        loop {
            let (message, more) = self.connection.part(part::TABLE, xid).await?;
            let mut entries = self.connection.page(&message);
            while !entries.is_empty() {
                let counters = entries.bytes(TABLE).and_then(table_counters);
                let counters = counters.ok_or(Lost::Garbled("a table"))?;
                if counters.active != 0 || counters.lookups != 0 {
                    tables.push(counters);
                }
            }
            if !more {
                return Ok(tables);
            }
        }
    }
}

fn table_counters(entry: &[u8]) -> Option<TableCounters> {
    let mut take = Take(entry);
    let table = take.u8()?;
    take.bytes(3)?;
    Some(TableCounters { table, active: take.u32()?, lookups: take.u64()?, matches: take.u64()? })
}

/// Number, packets, bytes, seconds.
fn group_counters(entry: &[u8]) -> Option<(u32, u64, u64, u32)> {
    let mut take = Take(entry);
    take.u32()?;
    let number = take.u32()?;
    take.bytes(4 + 4)?;
    Some((number, take.u64()?, take.u64()?, take.u32()?))
}

/// As [`group_counters`].
fn meter_counters(entry: &[u8]) -> Option<(u32, u64, u64, u32)> {
    let mut take = Take(entry);
    let number = take.u32()?;
    take.bytes(2 + 6 + 4)?;
    Some((number, take.u64()?, take.u64()?, take.u32()?))
}
