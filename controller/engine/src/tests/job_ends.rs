//! Counts of how jobs ended, as `/metrics` has them.

use std::time::Duration;

use super::bed::{Bed, node, template};

/// The ways in which at least one job ended.
fn ends(bed: &Bed) -> Vec<(&'static str, u64)> {
    bed.engine.view().job_ends().into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn each_job_is_counted_once_by_how_it_ended() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1\n b: x=2 | a")).unwrap();
    bed.fail_next(&node(0), false);
    assert_eq!(ends(&bed), [], "another attempt follows");
    bed.idle();
    assert_eq!(ends(&bed), [("completed", 2)]);

    bed.update(template("a: x=2\n b: x=2 | a")).unwrap();
    bed.fail_next(&node(0), true);
    assert_eq!(ends(&bed), [("completed", 2), ("failed", 1)]);

    bed.disconnect(&node(0));
    bed.update(template("a: x=3\n b: x=2 | a")).unwrap();
    bed.cancel().unwrap();
    assert_eq!(ends(&bed), [("completed", 2), ("failed", 1), ("withdrawn", 1)]);
}

#[test]
fn a_job_without_any_answer_times_out() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    // Longer than any job, and than any pause before the next attempt.
    (0..100).for_each(|_| bed.pass(Duration::from_secs(3600)));
    assert_eq!((bed.status().as_str(), ends(&bed)), ("CREATE_FAILED", vec![("timed_out", 1)]));
}

#[test]
fn a_job_of_a_removed_node_is_lost() {
    let mut bed = Bed::new(1);
    bed.create(template("a: x=1")).unwrap();
    bed.remove(&node(0));
    assert_eq!(ends(&bed), [("lost", 1)]);
}
