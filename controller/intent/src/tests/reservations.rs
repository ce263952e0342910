use super::*;
use crate::reservations::{Holder, Ledger, Share};

fn share(key: &str, number: u64) -> Share {
    Share { key: key.into(), number }
}

fn intent(key: &str) -> Holder {
    Holder::Intent(key.into())
}

#[test]
fn bandwidth_is_taken_once_and_given_back_once() {
    let mut topology = network("a-b b-c");
    for (from, to) in [("a", "b"), ("b", "c")] {
        traits(&mut topology, from, to, |traits| traits.bandwidth = Some(100));
    }
    let links = [link(&topology, "a", "b"), link(&topology, "b", "c")];
    let mut ledger = Ledger::default();
    ledger.take(&topology, share("x", 1), intent("x"), &links, Some(60), None);
    ledger.take(&topology, share("x", 1), intent("x"), &links, Some(60), None);
    assert_eq!(ledger.taken(links[0]), 60, "twice is once");
    ledger.take(&topology, share("x", 2), intent("x"), &links[..1], Some(70), None);
    assert_eq!(ledger.taken(links[0]), 70, "an intent on its way takes the larger");
    assert_eq!(ledger.offered(&topology, links[0], &intent("x")), Some(100), "its own is no hindrance");
    assert_eq!(ledger.offered(&topology, links[0], &intent("y")), Some(30));
    assert_eq!(ledger.offered(&topology, link(&topology, "b", "a"), &intent("y")), None, "not known");
    ledger.give_back(&share("x", 1));
    ledger.give_back(&share("x", 1));
    assert_eq!((ledger.taken(links[0]), ledger.taken(links[1])), (70, 0));
    ledger.give_back(&share("x", 2));
    assert!(ledger.is_empty());
}

#[test]
fn a_resource_group_takes_as_its_largest_intent() {
    let mut topology = network("a-b");
    traits(&mut topology, "a", "b", |traits| traits.bandwidth = Some(100));
    let links = [link(&topology, "a", "b")];
    let group = Holder::Group("g".into());
    let mut ledger = Ledger::default();
    for (key, bandwidth) in [("x", 40), ("y", 60), ("z", 20)] {
        ledger.take(&topology, share(key, 1), group.clone(), &links, Some(bandwidth), None);
    }
    assert_eq!(ledger.taken(links[0]), 60);
    ledger.give_back(&share("y", 1));
    assert_eq!(ledger.taken(links[0]), 40);
    // The share moves from its own holder to the group. Its former reservation is given back.
    ledger.take(&topology, share("w", 1), intent("w"), &links, Some(10), None);
    ledger.take(&topology, share("w", 1), group, &links, Some(10), None);
    assert_eq!(ledger.taken(links[0]), 40);
}

#[test]
fn a_label_is_one_intents_on_a_link_and_stays_its_own() {
    let topology = network("a-b b-c");
    let links = [link(&topology, "a", "b"), link(&topology, "b", "c")];
    let mut ledger = Ledger::default();
    assert_eq!(ledger.label(&topology, &links, "x"), Some(1));
    ledger.take(&topology, share("x", 1), intent("x"), &links, None, Some(1));
    assert_eq!(ledger.label(&topology, &links, "x"), Some(1));
    assert_eq!(ledger.label(&topology, &links, "y"), Some(2));
    for label in 2..=4094 {
        ledger.take(&topology, share(&format!("i{label}"), 1), intent("i"), &links[1..], None, Some(label));
    }
    assert_eq!(ledger.label(&topology, &links, "y"), None, "all are taken on one of the links");
    assert_eq!(ledger.label(&topology, &links[..1], "y"), Some(2));
    ledger.give_back(&share("i7", 1));
    assert_eq!(ledger.label(&topology, &links, "y"), Some(7));
}
