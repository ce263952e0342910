//! An assertion for tests: the counts and sums of each table are those of its entries.

use muster_shared::model::flow::{Buckets, EntryState};

use crate::device::Flows;
use crate::record::FlowMark;

impl Flows {
    /// For tests. Panics if a table's counts or sums differ from its entries, or if something waits for
    /// nothing.
    pub fn assert_counts(&self) {
        let mut all = 0;
        for (_, device) in self.iter() {
            let name = &device.name;
            let mut sums = Buckets::default();
            for (id, kept) in device.table.iter().filter(|(_, kept)| !kept.removing) {
                let seen = match kept.mark {
                    FlowMark::None | FlowMark::Again => EntryState::Present,
                    FlowMark::Expired => EntryState::Expired,
                    FlowMark::Wrong => EntryState::Wrong,
                    FlowMark::Failed | FlowMark::Gone => continue,
                };
                assert_eq!(kept.digest, kept.packed.digest());
                sums.toggle(id, kept.digest, seen);
            }
            assert!(*device.table.sums() == sums, "sums of {name}");
            for mark in
                [FlowMark::Failed, FlowMark::Expired, FlowMark::Wrong, FlowMark::Again, FlowMark::Gone]
            {
                let counted = device.table.iter().filter(|(_, kept)| kept.mark == mark).count();
                assert_eq!(device.table.marked(mark), counted, "{mark:?} of {name}");
            }
            all += device.table.len();
            let mut standings = [0; 5];
            for (_, kept) in device.table.iter() {
                standings[device.table.standing(kept) as usize] += 1;
            }
            assert_eq!(device.standings(), standings, "standings of {name}");
            let versions: usize = device.table.iter().map(|(_, kept)| kept.versions()).sum();
            assert_eq!(device.table.versions(), versions, "versions of {name}");
            for (owner, counted) in device.table.owners() {
                let of_owner = device.table.iter().filter(|(_, kept)| kept.owner == owner).count();
                assert_eq!(counted, of_owner, "{owner:?} on {name}");
            }
            let waits = device.in_flight.is_some() || device.table.waits();
            let open = device
                .table
                .iter()
                .any(|(_, kept)| kept.serial > device.table.settled() && kept.mark != FlowMark::Failed);
            assert!(waits || !open, "nothing sends what is open of {name}");
            assert!(waits || device.waiters.is_empty(), "somebody waits for nothing of {name}");
        }
        assert_eq!(self.entries, all, "entries in all");
    }
}
