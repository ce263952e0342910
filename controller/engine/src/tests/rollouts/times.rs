//! Times of rollouts and of their operations: pauses that go on over a restart, and the time of an operation of its own.

use super::*;

/// A rollout whose canary has ended, after 500 of the 600 seconds of its pause and a restart.
fn after_a_canary() -> Bed {
    let mut bed = fleet(4, "{batch: 4}");
    bed.update(of("2", false, "{batch: 2, pause: 600, canary: 1}")).unwrap();
    assert_eq!(ran(&mut bed), ["Update a[node-0]"]);
    bed.pass(Duration::from_secs(500));
    bed.restart();
    bed
}

/// The next batch begins after so many seconds, and not before.
fn begins_after(bed: &mut Bed, seconds: u64) {
    bed.pass(Duration::from_secs(seconds - 1));
    assert_eq!(ran(bed), Vec::<String>::new());
    bed.pass(Duration::from_secs(1));
    assert_eq!(ran(bed), ["Update a[node-1]", "Update a[node-2]"]);
}

#[test]
fn the_pause_of_a_canary_goes_on_over_a_restart() {
    let mut bed = after_a_canary();
    bed.pass(Duration::from_secs(20));
    (0..4).for_each(|index| bed.connect(&node(index)));
    begins_after(&mut bed, 80);
}

#[test]
fn the_time_of_a_canary_begins_when_its_node_is_back() {
    let mut bed = after_a_canary();
    (1..4).for_each(|index| bed.connect(&node(index)));
    bed.pass(Duration::from_secs(60));
    bed.connect(&node(0));
    begins_after(&mut bed, 600);
}

#[test]
fn an_operation_of_its_own_has_its_whole_time() {
    let mut bed = fleet(2, "{batch: 2}");
    bed.pass(Duration::from_secs(100_000));
    bed.join(&node(2));
    web(&mut bed, 2);
    bed.pass(Duration::from_secs(30_000));
    assert_eq!(bed.status(), "UPDATE_IN_PROGRESS", "the new member's node is away");
}
