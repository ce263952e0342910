//! Waves by table and at random: who begins when, and what stops them.

use proptest::prelude::*;

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

fn wave(policy: Policy, members: usize) -> Wave {
    let mut wave = Wave::new(policy);
    (0..members).for_each(|n| wave.hold(&name(n), None));
    wave
}

fn numbers(names: &[Arc<str>]) -> String {
    names.iter().map(|name| name[3..name.len() - 1].to_owned()).collect::<Vec<_>>().join(" ")
}

fn turn(wave: &mut Wave, seconds: u64) -> String {
    numbers(&wave.turn(at(seconds), &|_| Health::Well))
}

/// What it is called, its policy, what happens and who begins then, how it stands at the end.
type Row = (&'static str, Policy, &'static [(&'static str, &'static str)], &'static str);

/// A line a step: `r1` is ready, `f1` failed, `p` promotes, `+5` is five seconds later; then who begins.
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
        let mut wave = wave(policy, 5);
        let mut now = 0;
        for (words, begins) in steps {
            for word in words.split(' ').filter(|word| !word.is_empty()) {
                let number = || word[1..].parse::<usize>().unwrap();
                match &word[..1] {
                    "r" => wave.ended(&name(number())),
                    "f" => wave.failed_of(&name(number())),
                    "p" => wave.promote(),
                    _ => now += number() as u64,
                }
            }
            assert_eq!(turn(&mut wave, now), *begins, "{what}: {words}");
            // Asked again, nobody else begins.
            assert_eq!(turn(&mut wave, now), "", "{what}: {words}");
        }
        let state = match wave.state() {
            State::Aborted(reason) => reason.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(state, end, "{what}");
    }
}

#[test]
fn a_canary_is_to_be_undisturbed_for_its_time() {
    let ended = || {
        let mut wave = wave(policy(2, 1, 1, 10), 3);
        assert_eq!(turn(&mut wave, 0), "0");
        wave.ended(&name(0));
        assert_eq!(turn(&mut wave, 1), "");
        wave
    };
    let mut drifts = ended();
    assert_eq!(drifts.turn(at(5), &|_| Health::Disturbed("drifted".into())), []);
    assert_eq!(*drifts.state(), State::Aborted("its canary a[n0] was disturbed: drifted".into()));
    let mut away = ended();
    assert_eq!(away.turn(at(5), &|_| Health::Away), []);
    assert_eq!(
        (turn(&mut away, 9), turn(&mut away, 18), turn(&mut away, 19)),
        ("".into(), "".into(), "1 2".into())
    );
    // Of the batches after it nobody asks.
    away.ended(&name(1));
    away.ended(&name(2));
    assert_eq!(away.turn(at(99), &|_| Health::Disturbed("drifted".into())), []);
    assert_eq!(*away.state(), State::Going);
}

#[test]
fn those_whose_node_is_away() {
    for (policy_of, first, then, ends) in [
        (Away::Skip, "1 2", "3", "Going"),
        (Away::Wait, "0 1", "2 3", "Going"),
        (Away::Fail, "1 2", "3", "Going"),
    ] {
        let mut wave = Wave::new(Policy { away: policy_of, ..policy(2, 1, 0, 0) });
        (0..4).for_each(|n| wave.hold(&name(n), (n == 0).then(MonoTime::default)));
        let begun = turn(&mut wave, 30);
        assert_eq!(begun, first, "{policy_of:?}");
        begun.split(' ').for_each(|n| wave.ended(&name(n.parse().unwrap())));
        assert_eq!(turn(&mut wave, 30), then, "{policy_of:?}");
        assert_eq!(wave.failed(), usize::from(policy_of == Away::Fail), "{policy_of:?}");
        assert_eq!(format!("{:?}", wave.state()), ends);
        // It is back: its turn comes, and it counts as failed no more.
        (1..4).for_each(|n| wave.ended(&name(n)));
        wave.node(&name(0), true, at(0));
        let begins = if policy_of == Away::Wait { "" } else { "0" };
        assert_eq!((turn(&mut wave, 30).as_str(), wave.failed()), (begins, 0), "{policy_of:?}");
    }
    let mut all = Wave::new(Policy { away: Away::Fail, ..policy(2, 1, 0, 0) });
    (0..4).for_each(|n| all.hold(&name(n), Some(at(5))));
    // An instant is no absence.
    assert_eq!((turn(&mut all, 34), all.failed(), all.due(at(34))), (String::new(), 0, Some(at(35))));
    assert_eq!(turn(&mut all, 35), "");
    assert!(matches!(all.state(), State::Aborted(why) if why.starts_with("4 failed")), "{:?}", all.state());
}

#[test]
fn who_is_held_anew_in_its_batch_comes_and_goes_as_any_other() {
    for (policy_of, counts) in [(Away::Skip, 0), (Away::Fail, 1)] {
        let again = |away: Option<MonoTime>| {
            let mut wave = wave(Policy { away: policy_of, ..policy(2, 1, 0, 60) }, 3);
            assert_eq!(turn(&mut wave, 0), "0 1");
            wave.ended(&name(0));
            wave.hold(&name(0), away);
            wave
        };
        // Its node was away when it was held, and is back before the next batch.
        let mut back = again(Some(at(0)));
        assert!(back.node(&name(0), true, at(1)), "{policy_of:?}");
        assert_eq!(back.waiting(), (2, 0), "{policy_of:?}");
        back.ended(&name(1));
        assert_eq!((turn(&mut back, 1).as_str(), turn(&mut back, 61).as_str()), ("", "0 2"), "{policy_of:?}");
        // Or it goes before that.
        let mut gone = again(None);
        assert!(gone.node(&name(0), false, at(1)), "{policy_of:?}");
        gone.ended(&name(1));
        assert_eq!((turn(&mut gone, 1).as_str(), turn(&mut gone, 61).as_str()), ("", "2"), "{policy_of:?}");
        assert_eq!((gone.waiting(), gone.failed()), ((1, 1), counts), "{policy_of:?}");
        // Having missed its turn, it is back.
        assert!(gone.node(&name(0), true, at(62)), "{policy_of:?}");
        assert_eq!((gone.waiting(), gone.failed()), ((1, 0), 0), "{policy_of:?}");
    }
}

#[test]
fn what_is_kept_goes_on_with_the_same_batch() {
    let mut wave = wave(policy(2, 1, 0, 0), 5);
    turn(&mut wave, 0);
    wave.failed_of(&name(0));
    let kept = wave.take_changed().unwrap().clone();
    assert!(wave.take_changed().is_none());
    let text = serde_json::to_string(&kept).unwrap();
    let mut again = Wave::of(wave.policy, serde_json::from_str(&text).unwrap());
    (2..5).for_each(|n| again.hold(&name(n), None));
    assert_eq!(turn(&mut again, 0), "", "n1 is under way");
    again.ended(&name(1));
    assert_eq!(turn(&mut again, 0), "2 3");
    again.failed_of(&name(2));
    assert_eq!(turn(&mut again, 0), "");
    assert!(matches!(again.state(), State::Aborted(_)));
}

/// Laid out again without these, of which some are still at work.
fn without(wave: &Wave, gone: &'static [usize], at_work: bool) -> Wave {
    let mut wave = Wave::going_on_from(wave.policy, wave);
    let is_gone = |asked: &str| gone.iter().any(|n| *name(*n) == *asked);
    wave.settle(at(0), &|name| Standing {
        is_member: !is_gone(name),
        is_ready: false,
        works: is_gone(name) && at_work,
        is_there: true,
    });
    for name in (0..5).map(name).filter(|name| !is_gone(name)) {
        if !wave.may_begin(&name) && !wave.has_failed(&name) {
            wave.hold(&name, None);
        }
    }
    wave
}

#[test]
fn who_leaves_is_counted_with_those_that_fail() {
    // Alone it is no failure: its turn is another's.
    let mut wave = wave(policy(2, 1, 0, 0), 5);
    assert_eq!(turn(&mut wave, 0), "0 1");
    let mut wave = without(&wave, &[0], false);
    assert_eq!((turn(&mut wave, 0).as_str(), wave.failed()), ("2", 0));
    wave.failed_of(&name(1));
    assert_eq!(turn(&mut wave, 0), "");
    let why = "2 failed, more than its max_failures of 1: a[n1] and 1 that left while under way";
    assert!(matches!(wave.state(), State::Aborted(said) if said == why), "{:?}", wave.state());
}

#[test]
fn who_leaves_keeps_its_place_until_its_job_has_ended() {
    for (how, then, state) in [
        (Ended::Well, "1 2", "Going"),
        (Ended::Unbegun, "1 2", "Going"),
        (Ended::Untold, "", "1 left while under way, and nobody has ended well yet"),
        (Ended::Failed, "", "1 failed, more than its max_failures of 0: a[n0]"),
    ] {
        let mut wave = wave(policy(1, 0, 0, 0), 5);
        assert_eq!(turn(&mut wave, 0), "0");
        let mut wave = without(&wave, &[0], true);
        assert_eq!(turn(&mut wave, 0), "", "{how:?}");
        wave.left_ended("a[n0]", how);
        let mut begun = vec![turn(&mut wave, 0)];
        wave.ended(&name(1));
        begun.push(turn(&mut wave, 0));
        let said = match wave.state() {
            State::Aborted(reason) => reason.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((begun.join(" ").trim(), &*said), (then, state), "{how:?}");
    }
}

#[test]
fn a_canary_that_leaves_proves_nothing() {
    for (how, max_failures) in [(Ended::Well, 0), (Ended::Unbegun, 0), (Ended::Untold, 1)] {
        let mut wave = wave(policy(2, max_failures, 1, 10), 5);
        assert_eq!(turn(&mut wave, 0), "0");
        let mut wave = without(&wave, &[0], true);
        wave.left_ended("a[n0]", how);
        assert_eq!(turn(&mut wave, 1), "1", "{how:?}");
        assert_eq!((turn(&mut wave, 99).as_str(), wave.is_canary()), ("", true), "{how:?}");
        wave.ended(&name(1));
        assert_eq!((turn(&mut wave, 100), turn(&mut wave, 110)), (String::new(), "2 3".into()), "{how:?}");
    }
}

#[test]
fn a_pause_goes_on_though_its_batch_has_left() {
    let mut wave = wave(policy(1, 0, 0, 20), 5);
    assert_eq!(turn(&mut wave, 0), "0");
    wave.ended(&name(0));
    assert_eq!(turn(&mut wave, 1), "");
    let mut wave = without(&wave, &[0], false);
    assert_eq!((turn(&mut wave, 2), wave.due(at(2))), (String::new(), Some(at(21))));
    assert_eq!(turn(&mut wave, 21), "1");
    wave.ended(&name(1));
    assert_eq!(
        (turn(&mut wave, 22), turn(&mut wave, 41), turn(&mut wave, 42)),
        ("".into(), "".into(), "2".into())
    );
}

#[test]
fn who_left_and_is_back_has_its_turn_anew() {
    let mut wave = wave(policy(3, 0, 2, 10), 5);
    assert_eq!(turn(&mut wave, 0), "0 1");
    let mut wave = without(&wave, &[0], false);
    assert_eq!(turn(&mut wave, 1), "2");
    // Three have it, and two of them are the canary.
    let mut wave = without(&wave, &[], false);
    assert_eq!(turn(&mut wave, 2), "");
    wave.ended(&name(1));
    wave.ended(&name(2));
    assert_eq!((turn(&mut wave, 3), turn(&mut wave, 13)), (String::new(), "0 3 4".into()));
    // Where no other one may begin, it may: it is no further server.
    let mut wave = self::wave(policy(1, 0, 0, 0), 5);
    assert_eq!(turn(&mut wave, 0), "0");
    let mut wave = without(&wave, &[0], true);
    wave.left_ended("a[n0]", Ended::Untold);
    let mut wave = without(&wave, &[], false);
    assert_eq!((turn(&mut wave, 1).as_str(), wave.state()), ("0", &State::Going));
    wave.failed_of(&name(0));
    assert_eq!(turn(&mut wave, 2), "");
    let why = "1 failed, more than its max_failures of 0: a[n0]";
    assert!(matches!(wave.state(), State::Aborted(said) if said == why), "{:?}", wave.state());
}

/// A revision that fails everywhere, of which nobody hears: whoever begins is removed before its job has ended.
#[test]
fn no_more_than_may_begin_while_nobody_has_ended_well() {
    let mut wave = wave(policy(2, 1, 0, 0), 5);
    assert_eq!(turn(&mut wave, 0), "0 1");
    let mut wave = without(&wave, &[0, 1], false);
    assert_eq!(turn(&mut wave, 0), "2");
    let mut wave = without(&wave, &[0, 1, 2], false);
    assert_eq!(turn(&mut wave, 0), "");
    let why = "3 left while under way, and nobody has ended well yet";
    assert!(matches!(wave.state(), State::Aborted(said) if said == why), "{:?}", wave.state());
}

#[test]
fn a_node_that_is_gone_for_long_is_passed_over_as_the_policy_says() {
    let begun = |away, max_failures, canary| {
        let mut wave = Wave::new(Policy { away, ..policy(2, max_failures, canary, 0) });
        (0..5).for_each(|n| wave.hold(&name(n), None));
        turn(&mut wave, 0);
        wave.node(&name(0), false, at(10));
        wave.ended(&name(1));
        assert_eq!((turn(&mut wave, 309).as_str(), wave.gone()), ("", 1), "{away:?}");
        wave
    };
    for (away, max_failures, canary, then, end) in [
        (Away::Skip, 1, 0, "2 3", "Going"),
        (Away::Skip, 0, 0, "", "Going"),
        (Away::Skip, 1, 1, "", "Going"),
        (Away::Wait, 1, 0, "", "Going"),
        (Away::Fail, 1, 0, "2 3", "Going"),
        (Away::Fail, 0, 0, "", "1 failed, more than its max_failures of 0: a[n0]"),
        (Away::Fail, 1, 1, "", "its canary a[n0] went away after it had begun"),
    ] {
        let mut wave = begun(away, max_failures, canary);
        let passes = end != "Going" || !then.is_empty();
        assert_eq!(wave.due(at(309)), passes.then(|| at(310)), "{away:?} {max_failures} {canary}");
        assert_eq!(turn(&mut wave, 310), then, "{away:?} {max_failures} {canary}");
        let state = match wave.state() {
            State::Aborted(reason) => reason.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(state, end, "{away:?} {max_failures} {canary}");
        // Back, it has not failed yet.
        wave.node(&name(0), true, at(400));
        assert_eq!((wave.failed(), wave.gone(), wave.may_begin("a[n0]")), (0, 0, true), "{away:?}");
    }
    // Of two that are gone one may be: the other one is waited for, or an operator waits no more.
    let mut wave = begun(Away::Skip, 1, 0);
    assert_eq!(turn(&mut wave, 310), "2 3");
    wave.node(&name(2), false, at(400));
    wave.ended(&name(3));
    assert_eq!(turn(&mut wave, 9999), "");
    wave.promote();
    assert_eq!(turn(&mut wave, 9999), "4");
}

#[test]
fn a_canary_of_several_is_all_of_them() {
    // Members come by one by one, as what they need is ready.
    let mut wave = Wave::new(policy(3, 0, 2, 10));
    wave.hold(&name(0), None);
    assert_eq!(turn(&mut wave, 0), "0");
    wave.ended(&name(0));
    assert_eq!(turn(&mut wave, 0), "");
    wave.hold(&name(1), None);
    assert_eq!(turn(&mut wave, 5), "1");
    wave.hold(&name(2), None);
    wave.ended(&name(1));
    assert_eq!(turn(&mut wave, 6), "");
    assert_eq!(turn(&mut wave, 15), "");
    assert_eq!(turn(&mut wave, 16), "2");
    // With no pause as well.
    let mut wave = Wave::new(policy(3, 3, 2, 0));
    wave.hold(&name(0), None);
    assert_eq!(turn(&mut wave, 0), "0");
    wave.ended(&name(0));
    (1..5).for_each(|n| wave.hold(&name(n), None));
    assert_eq!(turn(&mut wave, 0), "1");
    wave.failed_of(&name(1));
    assert_eq!(turn(&mut wave, 0), "");
    assert!(matches!(wave.state(), State::Aborted(why) if why == "its canary a[n1] failed"));
}

#[test]
fn a_canary_is_at_least_one() {
    let kept = Kept { canary: true, ..Kept::default() };
    let mut wave = Wave::of(policy(2, 0, 0, 0), kept);
    (0..3).for_each(|n| wave.hold(&name(n), None));
    assert_eq!(turn(&mut wave, 0), "0");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// However they come, go and are kept: a revision that fails everywhere gets to no more than a batch on top of those
    /// that may fail, and one that does not gets to all of them.
    #[test]
    fn what_hurts_is_stopped_and_what_does_not_reaches_all(
        batch in 1usize..5, max_failures in 0usize..4, canary in 0usize..4, pause in 0u64..3, members in 1usize..20,
        hurts in any::<bool>(), steps in prop::collection::vec((0u8..6, 0usize..20), 0..200),
    ) {
        let mut wave = Wave::new(policy(batch, max_failures, canary, pause));
        let (mut under_way, mut touched, mut done) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        (0..members).for_each(|n| wave.hold(&name(n), None));
        let mut now = 0;
        let rest = (0..members * 8).map(|n| (if n % 2 == 0 { 0 } else { 4 }, n / 2));
        for (step, n) in steps.into_iter().chain((0..members).map(|n| (2, n))).chain(rest) {
            match step {
                0 | 1 => {
                    let ends: Option<Arc<str>> = under_way.iter().nth(n % under_way.len().max(1)).cloned();
                    if let Some(ends) = ends {
                        under_way.remove(&ends);
                        match hurts {
                            true => wave.failed_of(&ends),
                            false => {
                                wave.ended(&ends);
                                done.insert(ends);
                            }
                        }
                    }
                }
                2 => {
                    wave.node(&name(n % members), true, at(now));
                }
                3 => {
                    wave.node(&name(n % members), false, at(now));
                }
                4 => now += 1,
                _ => {
                    let kept = wave.kept.clone();
                    let held: Vec<_> = (0..members).map(name).filter(|name| !touched.contains(name)).collect();
                    wave = Wave::of(wave.policy, kept);
                    held.iter().for_each(|name| wave.hold(name, None));
                }
            }
            let begin = wave.turn(at(now), &|_| Health::Well);
            prop_assert!(begin.iter().all(|name| touched.insert(name.clone())), "twice");
            under_way.extend(begin);
            prop_assert!(under_way.len() <= batch, "{} under way", under_way.len());
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
    let nobody = wave(policy(1, 0, 0, 0), 0);
    let mut wave = Wave::going_on_from(policy(2, 0, 1, 0), &nobody);
    (0..3).for_each(|n| wave.hold(&name(n), None));
    assert_eq!(turn(&mut wave, 0), "0");
    wave.ended(&name(0));
    assert_eq!(turn(&mut wave, 0), "1 2");
}
