use super::*;

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn thing(n: u128) -> ResourceId {
    ResourceId(uuid::Uuid::from_u128(n))
}

fn newer(n: u128) -> BTreeMap<ResourceId, HeldThing> {
    [(thing(n), HeldThing { unlike: Unlike::Newer, generation: None })].into()
}

fn begun() -> Restored {
    Restored::load(RestoredRecord::fresh(), [node("a"), node("b")].into_iter())
}

fn all_come(restored: &mut Restored, of_a: BTreeMap<ResourceId, HeldThing>) {
    for (name, things) in [("a", of_a), ("b", BTreeMap::new())] {
        restored.ledger_told(&node(name), things);
        restored.tables_told(&node(name));
    }
}

#[test]
fn the_state_ends_when_all_nodes_have_come_and_nothing_is_held() {
    let mut restored = begun();
    for name in ["a", "b"] {
        assert!(restored.awaits_ledger(&node(name)) && !restored.ends());
        restored.ledger_told(&node(name), BTreeMap::new());
        assert!(!restored.awaits_ledger(&node(name)) && !restored.ends(), "its tables are to be compared");
        restored.tables_told(&node(name));
    }
    assert!(restored.ends() && !restored.is_on());
    assert_eq!(restored.changed(), Some(None), "nothing is kept of it");
}

#[test]
fn a_held_thing_keeps_the_state_up_until_it_is_decided() {
    let mut restored = begun();
    all_come(&mut restored, newer(1));
    assert!(!restored.ends());
    let record = restored.changed().flatten().unwrap();
    let mut again = Restored::load(record, [node("a"), node("b")].into_iter());
    assert_eq!(again.count(), 1, "it is durable");
    assert!(again.awaits_ledger(&node("a")), "the node says it again");
    all_come(&mut again, newer(1));
    assert!(again.drop_thing(&node("a"), thing(1)).is_some() && again.ends());
}

#[test]
fn rules_that_are_left_outlive_the_state() {
    let (mut restored, bridge) = (begun(), Bridge::try_from("br0".to_owned()).unwrap());
    all_come(&mut restored, BTreeMap::new());
    let table = HeldTable { unknown: [FlowId(7)].into(), ..HeldTable::default() };
    restored.table_told(&node("a"), &bridge, table);
    restored.leave_table(&node("a"), &bridge);
    assert!(restored.ends());
    let record = restored.changed().flatten().unwrap();
    let json = serde_json::to_string(&record).unwrap();
    let again = Restored::load(serde_json::from_str(&json).unwrap(), [node("a")].into_iter());
    assert!(!again.is_on());
    assert!(again.left_rules(&node("a"), &bridge).unwrap().contains(&FlowId(7)));
}

#[test]
fn the_list_has_a_bound() {
    let mut restored = begun();
    let many = (0..=LISTED_MAX as u128).flat_map(newer).collect();
    restored.ledger_told(&node("a"), many);
    restored.ledger_told(&node("b"), newer(1));
    assert_eq!(restored.count(), LISTED_MAX);
    assert!(restored.holds_things(&node("b")), "it is held without a line of its own");
}

#[test]
fn a_node_that_has_nothing_else_is_as_any_other_meanwhile() {
    let (mut restored, bridge) = (begun(), Bridge::try_from("br0".to_owned()).unwrap());
    assert!(restored.holds_things(&node("b")) && restored.holds_table(&node("b"), &bridge));
    all_come(&mut restored, newer(1));
    assert!(!restored.ends() && restored.holds_things(&node("a")));
    assert!(!restored.holds_things(&node("b")) && !restored.holds_table(&node("b"), &bridge));
}
