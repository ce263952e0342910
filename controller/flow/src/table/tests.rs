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
fn a_failed_entry_with_an_open_write_is_removed_from_the_device() {
    // The write was open when the controller started.
    let packed = Packed::new(&Entry::from_json(&json!({"priority": 1})).unwrap()).unwrap();
    let (id, digest) = (FlowId(0x4d55_0000_0000_0001), packed.digest());
    let refused: Arc<str> = "refused".into();
    for (was_open, compared, removed) in
        [(true, false, Written::Changed), (true, true, Written::Nothing), (false, false, Written::Nothing)]
    {
        let mut table = Table::default();
        let serial = table.begin();
        table.put(id, packed.clone(), digest, (Owner::OPERATOR, false), serial);
        if was_open {
            let (records, _) = table.next_unsaved(1);
            let mut loaded = Table::default();
            loaded.load_numbers(table.serial(), table.settled());
            records.into_iter().for_each(|record| loaded.load(record));
            table = loaded;
        }
        table.fail(serial, &[id], Some(&refused));
        if compared {
            table.found_equal();
        }
        let serial = table.begin();
        assert_eq!(table.remove(id, serial), removed, "open at a start {was_open}, compared {compared}");
        assert_eq!(table.len(), usize::from(removed == Written::Changed));
        let sent = table.take_waiting(serial, None);
        table.settle(serial, &sent);
        assert_eq!(table.len(), 0);
    }
}
