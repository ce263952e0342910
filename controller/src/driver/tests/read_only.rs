//! Commits that fail: who waits, who is refused with which words, and what is there afterwards.

use super::*;

#[test]
fn a_full_disk_forgets_what_is_not_durable_says_so_and_recovers() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_FULL), false);
    let mut answer = bench.ask(create(1));
    let mut seen = bench.query();
    bench.driver.turn_over();
    let refused = answer.try_recv().unwrap();
    assert!(
        matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("disk is full")),
        "{refused:?}"
    );
    assert!(!seen.try_recv().unwrap(), "what nobody was promised is not shown");
    assert!(bench.log().is_empty(), "nobody is sent away");
    assert!(matches!(bench.turn(create(1)), Err(Refusal::Unavailable(_))));
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some_and(|why| why.contains("disk is full")));
    assert_eq!(bench.driver.turns.view().node_views()[0].state, "online");
    assert_eq!(bench.driver.turns.view().site_view().agents.online, 1);
    bench.breaks(None, false);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_none());
    bench.says_ledger();
    bench.log();
    bench.turn(create(1)).unwrap();
    assert_eq!(bench.log(), ["commit", "send"]);
}

#[test]
fn an_unwritten_report_is_acknowledged_only_when_repeated() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    let done = || Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) });
    bench.breaks(Some(ffi::SQLITE_FULL), false);
    bench.receive(done());
    bench.driver.turn_over();
    let acknowledged = |bench: &Bench| bench.sent.lock().unwrap().contains(&Down::Acknowledge(key));
    assert!(!acknowledged(&bench));
    bench.breaks(None, false);
    bench.sent.lock().unwrap().clear();
    bench.driver.wake();
    bench.receive(done());
    bench.says_ledger();
    assert_eq!(bench.job().key(), key, "the same job is asked about");
    assert!(!acknowledged(&bench), "what was said before belongs to the conversation that is over");
    bench.receive(done());
    bench.driver.turn_over();
    assert!(acknowledged(&bench));
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!((view.action.as_str(), view.status.as_str()), ("CREATE", "COMPLETE"));
}

#[test]
fn a_busy_database_is_waited_for_and_nothing_is_asked_twice() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_BUSY), false);
    let mut answer = bench.ask(create(1));
    bench.driver.turn_over();
    assert!(bench.driver.turns.is_busy() && bench.driver.turns.read_only().is_none());
    assert!(answer.try_recv().is_err(), "it waits");
    bench.breaks(None, false);
    let due = bench.driver.turns.poll_timeout().unwrap();
    let told = bench.driver.turns.turn_over(due);
    assert!(matches!(told.answers[..], [(_, Ok(_))]), "{:?}", told.answers);
    assert_eq!(bench.log(), ["commit", "send"]);
    assert!(!bench.driver.turns.is_busy());
}

#[test]
fn a_database_that_stays_busy_is_said() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_BUSY), false);
    bench.ask(create(1));
    bench.driver.turn_over();
    let mut due = bench.driver.turns.poll_timeout().unwrap();
    let told = loop {
        let told = bench.driver.turns.turn_over(due);
        if !bench.driver.turns.is_busy() {
            break told;
        }
        due = bench.driver.turns.poll_timeout().unwrap();
        assert!(due < MonoTime(Duration::from_secs(120)), "it is waited for without an end");
    };
    let refused = &told.answers[0].1;
    assert!(
        matches!(refused, Err(Refusal::Later { why, .. }) if why.contains("another program")),
        "{refused:?}"
    );
    assert!(bench.driver.turns.read_only().is_some());
    assert!(matches!(bench.turn(create(1)), Err(Refusal::Later { .. })));
}

#[test]
fn a_commit_that_may_have_been_made_is_not_called_refused() {
    let mut bench = Bench::new();
    bench.breaks(Some(UNDECIDED), false);
    let refused = bench.turn(create(1));
    assert!(
        matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("may have been done, or not")),
        "{refused:?}"
    );
    let refused = bench.turn(create(1));
    assert!(matches!(&refused, Err(Refusal::Later { .. })), "nothing of it was sent: {refused:?}");
}

#[test]
fn a_replaced_controller_refuses_even_a_turn_without_changes() {
    let nothing = || Request::SampleFlows;
    let mut bench = Bench::new();
    bench.turn(nothing()).unwrap();
    assert_eq!(bench.log(), [""; 0], "it changes nothing");
    bench.breaks(Some(DEPOSED), false);
    let refused = bench.turn(nothing());
    assert!(refused.is_err(), "{refused:?}");
    assert!(bench.driver.turns.read_only().is_some());
}

#[test]
fn a_mistake_is_said_as_such_and_the_engine_goes_on_at_once() {
    let mut bench = Bench::new();
    let writes = Some(ffi::SQLITE_CONSTRAINT_UNIQUE);
    *bench.broken.lock().unwrap() = Broken { writes, once: true, reads: false };
    let refused = bench.turn(create(1));
    assert!(matches!(&refused, Err(Refusal::Unavailable(why)) if why.contains("mistake")), "{refused:?}");
    assert!(bench.driver.turns.read_only().is_none());
    bench.says_ledger();
    assert!(!bench.log().contains(&"close web-1".to_owned()));
    bench.turn(create(1)).unwrap();
}

#[test]
fn the_same_mistake_over_and_over_is_paused() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_CONSTRAINT_UNIQUE), false);
    let mut pauses = Vec::new();
    let mut now = bench.driver.now();
    bench.driver.turns.connected(now, web(), 8);
    bench.driver.turns.turn_over(now);
    assert!(bench.driver.turns.read_only().is_none(), "the first is forgiven");
    assert_eq!(bench.driver.turns.poll_timeout(), Some(MonoTime::default()), "it goes on at once");
    for _ in 0..4 {
        // Whatever the engine has to write is wrong.
        bench.driver.turns.connected(now, web(), 9);
        bench.driver.turns.turn_over(now);
        assert!(bench.driver.turns.read_only().is_some());
        let due = bench.driver.turns.poll_timeout().unwrap();
        pauses.push(due.since(now).as_secs());
        now = due;
        bench.breaks(None, false);
        bench.driver.turns.wake(now);
        assert!(bench.driver.turns.read_only().is_none(), "a probe says that the disk is well");
        bench.breaks(Some(ffi::SQLITE_CONSTRAINT_UNIQUE), false);
    }
    assert!(pauses.windows(2).all(|pair| pair[0] < pair[1]), "{pauses:?}");
}

#[test]
fn an_engine_that_could_not_be_built_again_never_writes() {
    let mut bench = Bench::new();
    bench.breaks(Some(ffi::SQLITE_FULL), true);
    let mut answer = bench.ask(create(1));
    bench.driver.turn_over();
    assert!(answer.try_recv().unwrap().is_err());
    bench.breaks(None, true);
    bench.driver.wake();
    assert!(bench.driver.turns.read_only().is_some(), "it cannot be read yet");
    bench.driver.turn_over();
    assert!(!bench.log().contains(&"commit".to_owned()), "what nobody was promised is not written either");
    bench.breaks(None, false);
    bench.driver.wake();
    let mut seen = bench.query();
    bench.driver.turn_over();
    assert!(!seen.try_recv().unwrap());
    bench.says_ledger();
    bench.turn(create(2)).unwrap();
}
