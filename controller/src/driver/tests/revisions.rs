//! Revisions that are parsed beside the driver.

use super::*;

/// A site with a COMPLETE stack, whose revision counts as large.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    bench.driver.turn_over();
    bench.driver.turns.parse_beside(0);
    bench
}

fn check(bench: &mut Bench) -> (u64, TurnResults) {
    let now = MonoTime::default();
    let id = bench.driver.turns.request(now, None, Request::Check { name: name() }).unwrap();
    (id, bench.driver.turns.turn_over(now))
}

#[test]
fn others_are_answered_while_a_revision_is_parsed() {
    let mut bench = bench();
    let (id, mut told) = check(&mut bench);
    assert_eq!((told.answers.len(), told.revisions.len()), (0, 1));
    bench.turn(Request::Maintenance { node: web(), on: true }).unwrap();
    let now = MonoTime::default();
    let revision = told.revisions.pop().unwrap().parse();
    bench.driver.turns.revision_parsed(now, revision);
    let told = bench.driver.turns.turn_over(now);
    assert!(matches!(told.answers[..], [(of, Ok(_))] if of == id), "{:?}", told.answers);
}

#[test]
fn a_rollback_waits_for_its_revision_alone_and_gives_way() {
    let mut bench = bench();
    let Request::Create { name: stack, source, options } = create(2) else { panic!("a create") };
    let update = || Request::Update { name: stack.clone(), source: source.clone(), options: options.clone() };
    bench.turn(update()).unwrap();
    let now = MonoTime::default();
    let roll_back = || Request::Rollback { name: name(), to: Some(1) };
    let first = bench.driver.turns.request(now, None, roll_back()).unwrap();
    let second = bench.driver.turns.request(now, None, roll_back()).unwrap();
    let mut told = bench.driver.turns.turn_over(now);
    assert!(
        matches!(&told.answers[..], [(of, Err(Refusal::Conflict(why)))] if *of == second && why.contains("begins already")),
        "{:?}",
        told.answers
    );
    assert_eq!(told.revisions.len(), 1);
    bench.turn(update()).unwrap();
    bench.driver.turns.revision_parsed(now, told.revisions.pop().unwrap().parse());
    let told = bench.driver.turns.turn_over(now);
    assert!(
        matches!(&told.answers[..], [(of, Err(Refusal::Conflict(why)))] if *of == first && why.contains("another operation began")),
        "{:?}",
        told.answers
    );
}

/// An engine that is rebuilt counts its requests from the beginning.
#[test]
fn a_rebuilt_engine_gets_no_revision_of_the_one_before() {
    let mut bench = bench();
    let (_, mut before) = check(&mut bench);
    let now = MonoTime::default();
    bench.driver.turns.reload(now).unwrap();
    let (id, mut after) = check(&mut bench);
    for (told, answers) in [(&mut before, 0), (&mut after, 1)] {
        let revision = told.revisions.pop().unwrap().parse();
        bench.driver.turns.revision_parsed(now, revision);
        let told = bench.driver.turns.turn_over(now);
        assert_eq!(told.answers.iter().filter(|(of, answer)| *of == id && answer.is_ok()).count(), answers);
    }
}
