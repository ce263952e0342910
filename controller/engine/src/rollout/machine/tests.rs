//! Rollouts by table and at random: which members begin when, and when a rollout stops.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::member::{Ended, Gone};
use super::super::record::RolloutSnapshot;
use super::*;

fn policy(batch: usize, max_failures: usize, canary: usize, pause: u64) -> Policy {
    Policy { batch, pause: Duration::from_secs(pause), max_failures, canary, away: Away::Skip }
}

fn at(seconds: u64) -> MonoTime {
    MonoTime::default() + Duration::from_secs(seconds)
}

fn name(n: usize) -> Arc<str> {
    format!("a[n{n}]").into()
}

fn fresh(policy: Policy, members: usize) -> Rollout {
    let mut rollout = Rollout::new(policy, 1);
    (0..members).for_each(|n| rollout.says(n, Event::Wanted(None)));
    rollout
}

impl Rollout {
    fn says(&mut self, n: usize, event: Event) {
        self.tell(&name(n), event);
    }
}

fn numbers(names: &[Arc<str>]) -> String {
    names.iter().map(|name| name[3..name.len() - 1].to_owned()).collect::<Vec<_>>().join(" ")
}

/// The store, which counts the time since it was written.
#[derive(Default)]
struct Store {
    tables: RolloutSnapshot,
    written: MonoTime,
}

/// A rollout loaded from the store after a save, told as by the engine after a restart: which
/// members wait, and which nodes are away.
fn reloaded(rollout: &mut Rollout, store: &mut Store, now: MonoTime) -> Option<Rollout> {
    if let Some(change) = rollout.save(1, now) {
        store.tables.apply(change);
        store.written = now;
    }
    let (record, members) = store.tables.rollouts.get(&1)?;
    let rested = record.rested.map(|rested| rested + now.since(store.written));
    let record = RolloutRecord { rested, ..record.clone() };
    let mut again = Rollout::load(rollout.policy, record, members, now);
    for (name, member) in rollout.members.all() {
        let events = match member.state {
            State::Held => vec![Event::Wanted(None)],
            State::Absent { since } => vec![Event::Wanted(Some(since))],
            State::Missed => vec![Event::Wanted(Some(at(0))), Event::Misses],
            State::Begun { gone: Some(Gone { since, passed_over }) } => match passed_over {
                true => vec![Event::NodeGone(since), Event::PassedOver],
                false => vec![Event::NodeGone(since)],
            },
            State::Begun { gone: None } | State::Idle | State::Leaving => Vec::new(),
        };
        events.into_iter().for_each(|event| _ = again.tell(name, event));
    }
    Some(again)
}

fn look(rollout: &mut Rollout, seconds: u64) -> String {
    numbers(&rollout.look(at(seconds), &|_| Health::Well).begin)
}

fn course(rollout: &Rollout) -> String {
    match rollout.course() {
        Course::Aborted(reason) => reason.clone(),
        other => format!("{other:?}"),
    }
}

/// Name, policy, steps with the members that begin then, and the state at the end.
type Row = (&'static str, Policy, &'static [(&'static str, &'static str)], &'static str);

/// A step, then the members that begin: `r1` is ready, `f1` failed, `p` promotes, `+5` is five
/// seconds later.
#[test]
fn who_begins_when() {
    let table: [Row; 9] = [
        ("batches", policy(2, 0, 0, 0), &[("", "0 1"), ("r0", ""), ("r1", "2 3"), ("r2 r3", "4")], "Going"),
        ("pause", policy(2, 0, 0, 5), &[("", "0 1"), ("r0 r1", ""), ("+4", ""), ("+1", "2 3")], "Going"),
        ("canary first", policy(3, 0, 1, 5), &[("", "0"), ("r0", ""), ("+5", "1 2 3")], "Going"),
        (
            "a canary fails",
            policy(3, 3, 1, 5),
            &[("", "0"), ("f0", ""), ("+9", "")],
            "its canary a[n0] failed",
        ),
        (
            "canary is no more than a batch",
            policy(1, 0, 3, 0),
            &[("", "0"), ("r0", "1"), ("r1", "2")],
            "Going",
        ),
        (
            "some may fail",
            policy(2, 1, 0, 0),
            &[("", "0 1"), ("f0", ""), ("r1", "2 3"), ("f2", "")],
            "2 failed, more than its max_failures of 1: a[n0], a[n2]",
        ),
        (
            "one that heals",
            policy(2, 0, 0, 0),
            &[("", "0 1"), ("r0", ""), ("r1", "2 3"), ("r2 r3", "4"), ("r4", "")],
            "Going",
        ),
        (
            "promoted",
            policy(2, 0, 2, 60),
            &[("", "0 1"), ("p", "2 3"), ("r2 r3", ""), ("+59", ""), ("p", "4"), ("r0 r1", "")],
            "Going",
        ),
        ("all at once", policy(9, 0, 0, 60), &[("", "0 1 2 3 4"), ("r0", ""), ("+99", "")], "Going"),
    ];
    for (what, policy, steps, end) in table {
        let mut rollout = fresh(policy, 5);
        let mut now = 0;
        for (words, begins) in steps {
            for word in words.split(' ').filter(|word| !word.is_empty()) {
                let number = || word[1..].parse::<usize>().unwrap();
                match &word[..1] {
                    "r" => rollout.says(number(), Event::EndsWell),
                    "f" => rollout.says(number(), Event::Fails),
                    "p" => rollout.promote(),
                    _ => now += number() as u64,
                }
            }
            assert_eq!(look(&mut rollout, now), *begins, "{what}: {words}");
            // A second look begins no further member.
            assert_eq!(look(&mut rollout, now), "", "{what}: {words}");
        }
        let state = course(&rollout);
        assert_eq!(state, end, "{what}");
    }
}

#[test]
fn a_canary_is_to_be_undisturbed_for_its_time() {
    let ended = || {
        let mut rollout = fresh(policy(2, 1, 1, 10), 3);
        assert_eq!(look(&mut rollout, 0), "0");
        rollout.says(0, Event::EndsWell);
        assert_eq!(look(&mut rollout, 1), "");
        rollout
    };
    let mut drifts = ended();
    assert_eq!(drifts.look(at(5), &|_| Health::Disturbed("drifted".into())).begin, []);
    assert_eq!(*drifts.course(), Course::Aborted("its canary a[n0] was disturbed: drifted".into()));
    let mut away = ended();
    assert_eq!(away.look(at(5), &|_| Health::Away).begin, []);
    assert_eq!(
        (look(&mut away, 9), look(&mut away, 18), look(&mut away, 19)),
        ("".into(), "".into(), "1 2".into())
    );
    // Later batches do not ask for the health of members.
    away.says(1, Event::EndsWell);
    away.says(2, Event::EndsWell);
    assert_eq!(away.look(at(99), &|_| Health::Disturbed("drifted".into())).begin, []);
    assert_eq!(*away.course(), Course::Going);
}

#[test]
fn those_whose_node_is_away() {
    for (policy_of, first, then, ends) in [
        (Away::Skip, "1 2", "3", "Going"),
        (Away::Wait, "0 1", "2 3", "Going"),
        (Away::Fail, "1 2", "3", "Going"),
    ] {
        let mut rollout = Rollout::new(Policy { away: policy_of, ..policy(2, 1, 0, 0) }, 1);
        (0..4).for_each(|n| rollout.says(n, Event::Wanted((n == 0).then(MonoTime::default))));
        let begun = look(&mut rollout, 30);
        assert_eq!(begun, first, "{policy_of:?}");
        begun.split(' ').for_each(|n| rollout.says(n.parse().unwrap(), Event::EndsWell));
        assert_eq!(look(&mut rollout, 30), then, "{policy_of:?}");
        assert_eq!(rollout.failed(), usize::from(policy_of == Away::Fail), "{policy_of:?}");
        assert_eq!(format!("{:?}", rollout.course()), ends);
        // The node is back: the member's turn comes, and it no longer counts as failed.
        (1..4).for_each(|n| rollout.says(n, Event::EndsWell));
        rollout.tell_of_node(&name(0), Event::NodeBack);
        let begins = if policy_of == Away::Wait { "" } else { "0" };
        assert_eq!((look(&mut rollout, 30).as_str(), rollout.failed()), (begins, 0), "{policy_of:?}");
    }
    let mut all = Rollout::new(Policy { away: Away::Fail, ..policy(2, 1, 0, 0) }, 1);
    (0..4).for_each(|n| all.says(n, Event::Wanted(Some(at(5)))));
    // A node that is away for an instant is not missed.
    assert_eq!((look(&mut all, 34), all.failed(), all.due(at(34))), (String::new(), 0, Some(at(35))));
    assert_eq!(look(&mut all, 35), "");
    assert!(
        matches!(all.course(), Course::Aborted(why) if why.starts_with("4 failed")),
        "{:?}",
        all.course()
    );
}

#[test]
fn who_is_held_anew_in_its_batch_comes_and_goes_as_any_other() {
    for (policy_of, counts) in [(Away::Skip, 0), (Away::Fail, 1)] {
        let again = |away: Option<MonoTime>| {
            let mut rollout = fresh(Policy { away: policy_of, ..policy(2, 1, 0, 60) }, 3);
            assert_eq!(look(&mut rollout, 0), "0 1");
            rollout.says(0, Event::EndsWell);
            rollout.says(0, Event::Wanted(away));
            rollout
        };
        // The node was away when the member was held, and is back before the next batch.
        let mut back = again(Some(at(0)));
        assert!(back.tell_of_node(&name(0), Event::NodeBack), "{policy_of:?}");
        assert_eq!((back.waiting(), back.absent()), (2, 0), "{policy_of:?}");
        back.says(1, Event::EndsWell);
        assert_eq!((look(&mut back, 1).as_str(), look(&mut back, 61).as_str()), ("", "0 2"), "{policy_of:?}");
        // The node goes away before the next batch.
        let mut gone = again(None);
        assert!(gone.tell_of_node(&name(0), Event::NodeGone(at(1))), "{policy_of:?}");
        gone.says(1, Event::EndsWell);
        assert_eq!((look(&mut gone, 1).as_str(), look(&mut gone, 61).as_str()), ("", "2"), "{policy_of:?}");
        assert_eq!((gone.waiting(), gone.absent(), gone.failed()), (1, 1, counts), "{policy_of:?}");
        // The node is back after its member missed its turn.
        assert!(gone.tell_of_node(&name(0), Event::NodeBack), "{policy_of:?}");
        assert_eq!((gone.waiting(), gone.absent(), gone.failed()), (1, 0, 0), "{policy_of:?}");
    }
}

#[test]
fn what_is_kept_goes_on_with_the_same_batch() {
    let mut rollout = fresh(policy(2, 1, 0, 0), 5);
    look(&mut rollout, 0);
    rollout.says(0, Event::Fails);
    let mut again = reloaded(&mut rollout, &mut Store::default(), at(0)).unwrap();
    assert!(rollout.save(1, at(0)).is_none());
    (2..5).for_each(|n| again.says(n, Event::Wanted(None)));
    assert_eq!(look(&mut again, 0), "", "n1 is under way");
    again.says(1, Event::EndsWell);
    assert_eq!(look(&mut again, 0), "2 3");
    again.says(2, Event::Fails);
    assert_eq!(look(&mut again, 0), "");
    assert!(matches!(again.course(), Course::Aborted(_)));
}

/// The rollout laid out again without these members. `at_work`: their jobs are still under way.
fn without(rollout: &Rollout, gone: &'static [usize], at_work: bool) -> Rollout {
    let mut rollout = rollout.clone();
    let is_gone = |asked: &str| gone.iter().any(|n| *name(*n) == *asked);
    rollout.lay_out(rollout.policy, at(0), &|name| Standing {
        is_member: !is_gone(name),
        is_ready: false,
        works: is_gone(name) && at_work,
        is_there: true,
    });
    for name in (0..5).map(name).filter(|name| !is_gone(name)) {
        if !rollout.has_begun(&name) && !rollout.has_failed(&name) {
            rollout.tell(&name, Event::Wanted(None));
        }
    }
    rollout
}

#[test]
fn who_leaves_is_counted_with_those_that_fail() {
    // A single member that leaves is no failure. Another member takes its turn.
    let mut rollout = fresh(policy(2, 1, 0, 0), 5);
    assert_eq!(look(&mut rollout, 0), "0 1");
    let mut rollout = without(&rollout, &[0], false);
    assert_eq!((look(&mut rollout, 0).as_str(), rollout.failed()), ("2", 0));
    rollout.says(1, Event::Fails);
    assert_eq!(look(&mut rollout, 0), "");
    let why = "2 failed, more than its max_failures of 1: a[n1] and 1 that left while under way";
    assert!(matches!(rollout.course(), Course::Aborted(said) if said == why), "{:?}", rollout.course());
}

#[test]
fn who_leaves_keeps_its_place_until_its_job_has_ended() {
    for (how, then, state) in [
        (Ended::Well, "1 2", "Going"),
        (Ended::Unbegun, "1 2", "Going"),
        (Ended::Untold, "", "1 left while under way, and nobody has ended well yet"),
        (Ended::Failed, "", "1 failed, more than its max_failures of 0: a[n0]"),
    ] {
        let mut rollout = fresh(policy(1, 0, 0, 0), 5);
        assert_eq!(look(&mut rollout, 0), "0");
        let mut rollout = without(&rollout, &[0], true);
        assert_eq!(look(&mut rollout, 0), "", "{how:?}");
        rollout.says(0, Event::JobEnds(how));
        let mut begun = vec![look(&mut rollout, 0)];
        rollout.says(1, Event::EndsWell);
        begun.push(look(&mut rollout, 0));
        let said = course(&rollout);
        assert_eq!((begun.join(" ").trim(), &*said), (then, state), "{how:?}");
    }
}

#[test]
fn a_canary_that_leaves_proves_nothing() {
    for (how, max_failures) in [(Ended::Well, 0), (Ended::Unbegun, 0), (Ended::Untold, 1)] {
        let mut rollout = fresh(policy(2, max_failures, 1, 10), 5);
        assert_eq!(look(&mut rollout, 0), "0");
        let mut rollout = without(&rollout, &[0], true);
        rollout.says(0, Event::JobEnds(how));
        assert_eq!(look(&mut rollout, 1), "1", "{how:?}");
        assert_eq!((look(&mut rollout, 99).as_str(), rollout.is_canary()), ("", true), "{how:?}");
        rollout.says(1, Event::EndsWell);
        assert_eq!(
            (look(&mut rollout, 100), look(&mut rollout, 110)),
            (String::new(), "2 3".into()),
            "{how:?}"
        );
    }
}

#[test]
fn a_pause_goes_on_though_its_batch_has_left() {
    let mut rollout = fresh(policy(1, 0, 0, 20), 5);
    assert_eq!(look(&mut rollout, 0), "0");
    rollout.says(0, Event::EndsWell);
    assert_eq!(look(&mut rollout, 1), "");
    let mut rollout = without(&rollout, &[0], false);
    assert_eq!((look(&mut rollout, 2), rollout.due(at(2))), (String::new(), Some(at(21))));
    assert_eq!(look(&mut rollout, 21), "1");
    rollout.says(1, Event::EndsWell);
    assert_eq!(
        (look(&mut rollout, 22), look(&mut rollout, 41), look(&mut rollout, 42)),
        ("".into(), "".into(), "2".into())
    );
}

#[test]
fn who_left_and_is_back_has_its_turn_anew() {
    let mut rollout = fresh(policy(3, 0, 2, 10), 5);
    assert_eq!(look(&mut rollout, 0), "0 1");
    let mut rollout = without(&rollout, &[0], false);
    assert_eq!(look(&mut rollout, 1), "2");
    // Three members have the revision, and two of them are the canary.
    let mut rollout = without(&rollout, &[], false);
    assert_eq!(look(&mut rollout, 2), "");
    rollout.says(1, Event::EndsWell);
    rollout.says(2, Event::EndsWell);
    assert_eq!((look(&mut rollout, 3), look(&mut rollout, 13)), (String::new(), "0 3 4".into()));
    // A member that has the revision may begin where no other may: it adds no further server.
    let mut rollout = fresh(policy(1, 0, 0, 0), 5);
    assert_eq!(look(&mut rollout, 0), "0");
    let mut rollout = without(&rollout, &[0], true);
    rollout.says(0, Event::JobEnds(Ended::Untold));
    let mut rollout = without(&rollout, &[], false);
    assert_eq!((look(&mut rollout, 1).as_str(), rollout.course()), ("0", &Course::Going));
    rollout.says(0, Event::Fails);
    assert_eq!(look(&mut rollout, 2), "");
    let why = "1 failed, more than its max_failures of 0: a[n0]";
    assert!(matches!(rollout.course(), Course::Aborted(said) if said == why), "{:?}", rollout.course());
}

/// A revision that fails everywhere, with no result known: each member is removed before its job ends.
#[test]
fn no_more_than_may_begin_while_nobody_has_ended_well() {
    let mut rollout = fresh(policy(2, 1, 0, 0), 5);
    assert_eq!(look(&mut rollout, 0), "0 1");
    let mut rollout = without(&rollout, &[0, 1], false);
    assert_eq!(look(&mut rollout, 0), "2");
    let mut rollout = without(&rollout, &[0, 1, 2], false);
    assert_eq!(look(&mut rollout, 0), "");
    let why = "3 left while under way, and nobody has ended well yet";
    assert!(matches!(rollout.course(), Course::Aborted(said) if said == why), "{:?}", rollout.course());
}

#[test]
fn a_node_gone_for_long_is_skipped_as_the_policy_says() {
    let begun = |away, max_failures, canary| {
        let mut rollout = Rollout::new(Policy { away, ..policy(2, max_failures, canary, 0) }, 1);
        (0..5).for_each(|n| rollout.says(n, Event::Wanted(None)));
        look(&mut rollout, 0);
        rollout.tell_of_node(&name(0), Event::NodeGone(at(10)));
        rollout.says(1, Event::EndsWell);
        assert_eq!((look(&mut rollout, 309).as_str(), rollout.gone()), ("", 1), "{away:?}");
        rollout
    };
    for (away, max_failures, canary, then, end) in [
        (Away::Skip, 1, 0, "2 3", "Going"),
        (Away::Skip, 0, 0, "", "Going"),
        (Away::Skip, 1, 1, "", "Going"),
        (Away::Wait, 1, 0, "", "Going"),
        (Away::Fail, 1, 0, "2 3", "Going"),
        (Away::Fail, 0, 0, "", "1 failed, more than its max_failures of 0: a[n0]"),
        (Away::Fail, 1, 1, "", "its canary a[n0] went away after it had started"),
    ] {
        let mut rollout = begun(away, max_failures, canary);
        let passes = end != "Going" || !then.is_empty();
        assert_eq!(rollout.due(at(309)), passes.then(|| at(310)), "{away:?} {max_failures} {canary}");
        assert_eq!(look(&mut rollout, 310), then, "{away:?} {max_failures} {canary}");
        let state = course(&rollout);
        assert_eq!(state, end, "{away:?} {max_failures} {canary}");
        // The node is back: the member has not failed yet.
        rollout.tell_of_node(&name(0), Event::NodeBack);
        assert_eq!((rollout.failed(), rollout.gone(), rollout.has_begun("a[n0]")), (0, 0, true), "{away:?}");
    }
    // One of two members that are gone may be passed over. The batch waits for the other, or an
    // operator promotes.
    let mut rollout = begun(Away::Skip, 1, 0);
    assert_eq!(look(&mut rollout, 310), "2 3");
    rollout.tell_of_node(&name(2), Event::NodeGone(at(400)));
    rollout.says(3, Event::EndsWell);
    assert_eq!(look(&mut rollout, 9999), "");
    rollout.promote();
    assert_eq!(look(&mut rollout, 9999), "4");
}

#[test]
fn a_canary_of_several_is_all_of_them() {
    // Members become ready to begin one by one.
    let mut rollout = Rollout::new(policy(3, 0, 2, 10), 1);
    rollout.says(0, Event::Wanted(None));
    assert_eq!(look(&mut rollout, 0), "0");
    rollout.says(0, Event::EndsWell);
    assert_eq!(look(&mut rollout, 0), "");
    rollout.says(1, Event::Wanted(None));
    assert_eq!(look(&mut rollout, 5), "1");
    rollout.says(2, Event::Wanted(None));
    rollout.says(1, Event::EndsWell);
    assert_eq!(look(&mut rollout, 6), "");
    assert_eq!(look(&mut rollout, 15), "");
    assert_eq!(look(&mut rollout, 16), "2");
    // The same holds without a pause.
    let mut rollout = Rollout::new(policy(3, 3, 2, 0), 1);
    rollout.says(0, Event::Wanted(None));
    assert_eq!(look(&mut rollout, 0), "0");
    rollout.says(0, Event::EndsWell);
    (1..5).for_each(|n| rollout.says(n, Event::Wanted(None)));
    assert_eq!(look(&mut rollout, 0), "1");
    rollout.says(1, Event::Fails);
    assert_eq!(look(&mut rollout, 0), "");
    assert!(matches!(rollout.course(), Course::Aborted(why) if why == "its canary a[n1] failed"));
}

#[test]
fn a_canary_is_at_least_one() {
    let record = RolloutRecord { canary: true, ..RolloutRecord::default() };
    let mut rollout = Rollout::load(policy(2, 0, 0, 0), record, &BTreeMap::new(), at(0));
    (0..3).for_each(|n| rollout.says(n, Event::Wanted(None)));
    assert_eq!(look(&mut rollout, 0), "0");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// In any order of events and restarts: a revision that fails everywhere reaches at most a
    /// batch on top of `max_failures` members, and one that fails nowhere reaches all members.
    #[test]
    fn what_hurts_is_stopped_and_what_does_not_reaches_all(
        batch in 1usize..5, max_failures in 0usize..4, canary in 0usize..4, pause in 0u64..3, members in 1usize..20,
        hurts in any::<bool>(), steps in prop::collection::vec((0u8..6, 0usize..20), 0..200),
    ) {
        let mut rollout = Rollout::new(policy(batch, max_failures, canary, pause), 1);
        let (mut under_way, mut touched, mut done) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        (0..members).for_each(|n| rollout.says(n, Event::Wanted(None)));
        let (mut now, mut store) = (0, Store::default());
        let rest = (0..members * 8).map(|n| (if n % 2 == 0 { 0 } else { 4 }, n / 2));
        for (step, n) in steps.into_iter().chain((0..members).map(|n| (2, n))).chain(rest) {
            match step {
                0 | 1 => {
                    let ends: Option<Arc<str>> = under_way.iter().nth(n % under_way.len().max(1)).cloned();
                    if let Some(ends) = ends {
                        under_way.remove(&ends);
                        match hurts {
                            true => _ = rollout.tell(&ends, Event::Fails),
                            false => {
                                rollout.tell(&ends, Event::EndsWell);
                                done.insert(ends);
                            }
                        }
                    }
                }
                2 => {
                    rollout.tell_of_node(&name(n % members), Event::NodeBack);
                }
                3 => {
                    rollout.tell_of_node(&name(n % members), Event::NodeGone(at(now)));
                }
                4 => now += 1,
                _ => {
                    rollout = reloaded(&mut rollout, &mut store, at(now)).unwrap_or(rollout);
                }
            }
            let begin = rollout.look(at(now), &|_| Health::Well).begin;
            prop_assert!(begin.iter().all(|name| touched.insert(name.clone())), "twice");
            under_way.extend(begin);
            prop_assert!(under_way.len() <= batch, "{} under way", under_way.len());
            // A restart leaves all as it is, also how much of the pause is over.
            if let Some(mut again) = reloaded(&mut rollout, &mut store, at(now)) {
                let rested = |rollout: &Rollout| rollout.batch_ended.map(|ended| ended.so_far(at(now)));
                prop_assert_eq!(rested(&again), rested(&rollout));
                (again.batch_ended, again.nodes_return) = (rollout.batch_ended, rollout.nodes_return);
                prop_assert_eq!(&again, &rollout);
            }
            if hurts {
                prop_assert!(touched.len() <= batch + max_failures, "{touched:?}");
            }
        }
        if !hurts {
            prop_assert_eq!(done.len(), members);
        }
    }
}

#[test]
fn a_percentage_of_nobody_is_a_canary_when_somebody_comes() {
    let nobody = fresh(policy(1, 0, 0, 0), 0);
    let mut rollout = nobody.clone();
    rollout.lay_out(policy(2, 0, 1, 0), at(0), &|_| Standing::default());
    (0..3).for_each(|n| rollout.says(n, Event::Wanted(None)));
    assert_eq!(look(&mut rollout, 0), "0");
    rollout.says(0, Event::EndsWell);
    assert_eq!(look(&mut rollout, 0), "1 2");
}
