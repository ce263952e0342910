use muster_shared::model::flow::Entry;
use serde_json::json;

use super::*;

#[test]
fn what_is_taken_back_and_wanted_again_is_sent_once() {
    let mut table = Table::default();
    let packed = Packed::new(&Entry::from_json(&json!({"priority": 1})).unwrap()).unwrap();
    let (id, digest) = (FlowId(0x4d55_0000_0000_0001), packed.digest());
    let refused: Arc<str> = "refused".into();
    for reason in [None, Some(&refused)] {
        for _ in 0..2 {
            let serial = table.begin();
            table.put(id, packed.clone(), digest, (Owner::OPERATOR, false), serial);
            // No part of the write was sent: another batch is out.
            table.fail(serial, &[id], reason);
            let serial = table.begin();
            table.remove(id, serial);
        }
        let serial = table.begin();
        table.put(id, packed.clone(), digest, (Owner::OPERATOR, false), serial);
        assert_eq!(table.take_waiting(serial, None), [id]);
        assert!(table.take_waiting(serial, None).is_empty());
        table.settle(serial, &[id]);
        let serial = table.begin();
        table.remove(id, serial);
        assert_eq!(table.take_waiting(serial, None), [id]);
        table.settle(serial, &[id]);
    }
}

#[test]
fn a_failed_entry_from_before_a_start_goes_from_the_device() {
    // At the start its write was open, or had failed.
    let packed = Packed::new(&Entry::from_json(&json!({"priority": 1})).unwrap()).unwrap();
    let (id, digest) = (FlowId(0x4d55_0000_0000_0001), packed.digest());
    let refused: Arc<str> = "refused".into();
    let loaded = |mut table: Table| {
        let (records, _) = table.next_unsaved(1);
        let mut loaded = Table::default();
        loaded.load_numbers(table.serial(), table.settled());
        records.into_iter().for_each(|record| loaded.load(record));
        loaded
    };
    let put_on = |was_open: bool, had_failed: bool, compared: bool| {
        let mut table = Table::default();
        let serial = table.begin();
        table.put(id, packed.clone(), digest, (Owner::OPERATOR, false), serial);
        if was_open {
            table = loaded(table);
        }
        table.fail(serial, &[id], Some(&refused));
        if had_failed {
            table = loaded(table);
        }
        if compared {
            table.found_equal();
        }
        table
    };
    for (was_open, had_failed, compared, removed) in [
        (false, false, false, Written::Nothing),
        (true, false, false, Written::Changed),
        (false, true, false, Written::Changed),
        (true, true, false, Written::Changed),
        (true, false, true, Written::Nothing),
        (false, true, true, Written::Nothing),
    ] {
        let mut table = put_on(was_open, had_failed, compared);
        let serial = table.begin();
        let start =
            format!("open at a start {was_open}, FAILED at a start {had_failed}, compared {compared}");
        assert_eq!(table.remove(id, serial), removed, "{start}");
        assert_eq!(table.len(), usize::from(removed == Written::Changed));
        let sent = table.take_waiting(serial, None);
        table.settle(serial, &sent);
        assert_eq!(table.len(), 0);
    }
}
