use super::*;

/// Bound on the listed things of one node.
const ON_NODE: usize = 1_000;

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn thing(n: u128) -> ResourceId {
    ResourceId(uuid::Uuid::from_u128(n))
}

fn newer(n: u128) -> BTreeMap<ResourceId, HeldThing> {
    [(thing(n), HeldThing { unlike: Divergence::Newer, generation: None })].into()
}

fn begun() -> Restored {
    Restored::load(RestoredRecord::fresh(), [node("a"), node("b")].into_iter(), ON_NODE)
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
    let mut again = Restored::load(record, [node("a"), node("b")].into_iter(), ON_NODE);
    assert_eq!(again.count(), 1, "it is durable");
    assert!(again.awaits_ledger(&node("a")), "the node says it again");
    all_come(&mut again, newer(1));
    assert!(again.drop_thing(&node("a"), thing(1)).is_some() && again.ends());
}

#[test]
fn rules_that_are_left_outlive_the_state() {
    let (mut restored, bridge) = (begun(), Bridge::try_from("br0".to_owned()).unwrap());
    all_come(&mut restored, BTreeMap::new());
    let table = TableDifference { unknown: [FlowId(7)].into(), ..TableDifference::default() };
    restored.table_told(&node("a"), &bridge, table);
    restored.leave_table(&node("a"), &bridge);
    assert!(restored.ends());
    let record = restored.changed().flatten().unwrap();
    let json = serde_json::to_string(&record).unwrap();
    let again = Restored::load(serde_json::from_str(&json).unwrap(), [node("a")].into_iter(), ON_NODE);
    assert!(!again.is_on());
    assert!(again.left_rules(&node("a"), &bridge).unwrap().contains(&FlowId(7)));
}

#[test]
fn the_list_has_a_bound_and_no_node_fills_it() {
    let mut restored = begun();
    let many: BTreeMap<_, _> = (0..=LISTED_MAX as u128).flat_map(newer).collect();
    restored.ledger_told(&node("a"), many.clone());
    restored.ledger_told(&node("b"), newer(1));
    assert_eq!(restored.count(), ON_NODE + 1);
    assert!(restored.has_more(), "what is beyond is held without a line");
    let one_more = LedgerEntry { resource: thing(u128::MAX), generation: Generation::default() };
    assert!(!restored.add_stray(&node("a"), one_more) && restored.add_stray(&node("b"), one_more));
    for other in 0..2 * LISTED_MAX / ON_NODE {
        restored.ledger_told(&node(&format!("c{other}")), many.clone());
    }
    assert_eq!(restored.count(), LISTED_MAX);
    restored.ledger_told(&node("d"), newer(1));
    assert!(restored.holds_things(&node("d")), "it is held without a line of its own");
}

#[test]
fn a_node_that_has_nothing_else_is_as_any_other_meanwhile() {
    let (mut restored, bridge) = (begun(), Bridge::try_from("br0".to_owned()).unwrap());
    assert!(restored.holds_things(&node("b")) && restored.holds_table(&node("b"), &bridge));
    all_come(&mut restored, newer(1));
    assert!(!restored.ends() && restored.holds_things(&node("a")));
    assert!(!restored.holds_things(&node("b")) && !restored.holds_table(&node("b"), &bridge));
}
