//! Greeting, epochs, the ledger, coming back.

use std::time::Duration;

use muster_shared::model::{Down, Hello, LedgerEntry, Up, Welcome};
use muster_shared::{Epoch, EpochId, MonoTime};

use super::node::{HEARTBEAT, Node, create, generation, id, welcome};
use crate::Input;

fn hello(epoch: u32, ledger: u128) -> Up {
    Up::Hello(Hello {
        boot_id: 9,
        instance: Some(8),
        address: None,
        agent_version: "1.2.3".into(),
        reads: muster_shared::wire::READS,
        epoch: Epoch(epoch).into(),
        ledger,
    })
}

#[test]
fn greets_and_beats() {
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    assert_eq!(bed.connects, 1);
    bed.input(Input::Connected);
    assert_eq!(bed.sent, [hello(1, 0)]);
    bed.down(welcome(1, false));
    assert!(bed.agent.is_online());
    bed.sent.clear();
    bed.after(HEARTBEAT - Duration::from_millis(1));
    assert_eq!(bed.sent, []);
    bed.after(Duration::from_millis(1));
    assert_eq!(bed.sent, [Up::Heartbeat { drift: Some(0) }]);
}

#[test]
fn the_ledger_is_told_and_its_digest_follows() {
    let mut bed = Node::online();
    for n in 1..=3 {
        bed.job(&create(n, n as u64));
        bed.ran(n, Ok(()));
    }
    bed.sent.clear();
    bed.down(welcome(1, true));
    let entries: Vec<_> =
        (1..=3).map(|n| LedgerEntry { resource: id(n), generation: generation(n as u64) }).collect();
    assert_eq!(bed.sent[0], Up::Ledger { entries: entries.clone(), last: true });
    let digest = entries.iter().fold(0, |digest, entry| digest ^ entry.digest());
    let mut bed = bed.crash();
    bed.input(Input::Connected);
    assert_eq!(bed.sent, [hello(1, digest)]);
}

#[test]
fn an_empty_ledger_is_one_page_and_a_long_one_more() {
    let mut bed = Node::online();
    bed.down(welcome(1, true));
    assert_eq!(bed.sent[0], Up::Ledger { entries: Vec::new(), last: true });
    for n in 0..5000 {
        bed.job(&create(n, 1));
        bed.ran(n, Ok(()));
        bed.down(Down::Acknowledge(create(n, 1).key()));
    }
    bed.sent.clear();
    bed.down(welcome(1, true));
    let pages: Vec<_> = bed
        .sent
        .iter()
        .filter_map(|up| match up {
            Up::Ledger { entries, last } => Some((entries.len(), *last)),
            _ => None,
        })
        .collect();
    assert_eq!(pages, [(4096, false), (904, true)]);
}

#[test]
fn a_higher_epoch_is_on_disk_before_it_counts() {
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    bed.input(Input::Connected);
    bed.disk_is_quick = false;
    bed.down(welcome(2, false));
    assert!(!bed.agent.is_online());
    bed.write_one();
    assert!(bed.agent.is_online());
    assert_eq!((bed.agent.epoch(), bed.epoch), (Epoch(2).into(), Epoch(2).into()));
}

#[test]
fn an_older_epoch_is_refused_and_commands_nothing() {
    let mut bed = Node::offline(Vec::new(), Epoch(2).into());
    bed.input(Input::Connected);
    bed.job(&create(1, 1));
    bed.down(welcome(1, false));
    bed.job(&create(1, 1));
    assert!(bed.disconnects[0].contains("epoch 1"), "{:?}", bed.disconnects);
    assert!(bed.runs.is_empty() && bed.disk.is_empty());
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(Duration::from_secs(1));
    assert_eq!(bed.connects, 2, "it may be back in its place by then");
}

fn welcome_with(number: u32, bits: Option<u64>) -> Down {
    let epoch = EpochId { number: Epoch(number), bits };
    Down::Welcome(Welcome { epoch, want_ledger: false, heartbeat: HEARTBEAT, reads: 0 })
}

#[test]
fn an_epoch_of_another_history_is_refused() {
    let mut bed = Node::offline(Vec::new(), EpochId { number: Epoch(2), bits: Some(7) });
    bed.input(Input::Connected);
    bed.down(welcome_with(2, Some(8)));
    bed.job(&create(1, 1));
    assert!(bed.disconnects[0].contains("a copy of the other's store"), "{:?}", bed.disconnects);
    assert!(!bed.agent.is_online() && bed.runs.is_empty() && bed.disk.is_empty());
    for known in [welcome_with(2, Some(7)), welcome_with(2, None), welcome_with(3, Some(8))] {
        let mut bed = Node::offline(Vec::new(), EpochId { number: Epoch(2), bits: Some(7) });
        bed.input(Input::Connected);
        bed.down(known.clone());
        assert!(bed.agent.is_online(), "{known:?}");
    }
}

#[test]
fn the_bits_of_an_epoch_are_kept_with_it() {
    let mut bed = Node::offline(Vec::new(), Epoch(2).into());
    bed.input(Input::Connected);
    bed.down(welcome_with(2, Some(8)));
    assert_eq!(bed.epoch, EpochId { number: Epoch(2), bits: Some(8) });
    bed.down(welcome_with(2, None));
    assert_eq!((bed.epoch.bits, bed.disconnects.len()), (Some(8), 0), "an older controller says none");
    let mut bed = bed.crash();
    bed.input(Input::Connected);
    bed.down(welcome_with(2, Some(9)));
    assert_eq!(bed.disconnects.len(), 1);
}

#[test]
fn an_epoch_that_cannot_be_recorded_is_not_obeyed() {
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    bed.input(Input::Connected);
    bed.disk_is_quick = false;
    bed.down(welcome(2, false));
    bed.fail_one();
    assert!(!bed.agent.is_online() && bed.disconnects.len() == 1);
    assert_eq!(bed.agent.epoch(), Epoch(1).into());
}

#[test]
fn a_controller_that_does_not_answer_is_left() {
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    bed.input(Input::Connected);
    bed.after(Duration::from_secs(30));
    assert_eq!(bed.disconnects.len(), 1);
}

#[test]
fn comes_back_and_says_when() {
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    for attempt in 1..50 {
        assert_eq!(bed.connects, attempt);
        bed.input(Input::Disconnected { reason: "reset".into() });
        let (at, why) = bed.agent.poll_timeout().expect("an idle agent waits to connect");
        assert_eq!(why, "connect");
        assert!(at.since(bed.now) <= Duration::from_secs(30));
        bed.now = at;
        bed.input(Input::Timeout);
    }
    assert!(bed.now > MonoTime(Duration::from_secs(60)), "it does not hurry for ever: {:?}", bed.now);
}

#[test]
fn idle_and_connected_it_wakes_for_the_heartbeat_alone() {
    let mut bed = Node::online();
    bed.after(Duration::from_secs(2));
    bed.input(Input::Gathered(Ok(Box::default())));
    bed.after(HEARTBEAT);
    for _ in 0..10 {
        let (at, why) = bed.agent.poll_timeout().unwrap();
        assert_eq!((at.since(bed.now), why), (HEARTBEAT, "heartbeat"));
        bed.now = at;
        bed.input(Input::Timeout);
    }
}

#[test]
fn an_epoch_on_its_way_to_disk_counts() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    bed.down(welcome(5, false));
    bed.down(welcome(3, false));
    assert_eq!(bed.disconnects.len(), 1);
    bed.write_one();
    bed.write_one();
    assert_eq!(bed.epoch, Epoch(5).into());
}
