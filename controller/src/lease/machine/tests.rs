use muster_shared::Epoch;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

const TERMS: Terms = Terms { lease: Duration::from_secs(5) };

fn at(millis: u64) -> MonoTime {
    MonoTime(Duration::from_millis(millis))
}

fn record(epoch: u32, beat: u64, state: LeaseState) -> Record {
    let term = Term { epoch: Epoch(epoch), bits: 7 };
    Record { term, holder: member("c1"), since: String::new(), beat, agents: 0, state, asker: None }
}

fn member(name: &str) -> Member {
    Member { name: name.to_owned(), addresses: Vec::new(), instance: format!("{name}'s") }
}

fn left(heir: &str) -> LeaseState {
    LeaseState::Left { heir: heir.to_owned() }
}

/// Looks, each with its time and what it shows, and what the last of them leads to.
#[test]
fn a_standby_takes_what_is_free_or_was_not_renewed() {
    let held = |beat| Some(record(3, beat, LeaseState::Held));
    let asked = |beat| Some(record(3, beat, LeaseState::Asked { heir: "c2".to_owned() }));
    type Looks = Vec<(u64, Option<Record>)>;
    let mut own = held(1);
    own.iter_mut().for_each(|record| record.holder = member("c2"));
    let table: [(&str, Looks, Verdict); 14] = [
        ("nobody ever had it", vec![(0, None)], Verdict::Take),
        ("free", vec![(0, Some(record(3, 9, LeaseState::Free)))], Verdict::Take),
        ("held", vec![(0, held(1))], Verdict::Wait),
        ("held, and renewed", vec![(0, held(1)), (5_400, held(2)), (10_800, held(3))], Verdict::Wait),
        ("not renewed for a lease", vec![(0, held(1)), (5_400, held(1))], Verdict::Wait),
        ("not renewed for a lease and a tenth", vec![(0, held(1)), (5_501, held(1))], Verdict::TakeOver),
        ("seen once, long ago", vec![(0, held(1)), (90_000, held(1))], Verdict::TakeOver),
        (
            "another holder since",
            vec![(0, held(1)), (9_000, Some(record(4, 1, LeaseState::Held)))],
            Verdict::Wait,
        ),
        ("held by a predecessor that died", vec![(0, own)], Verdict::TakeOver),
        ("asked for", vec![(0, asked(1)), (5_000, asked(2))], Verdict::Wait),
        ("asked of one that is gone", vec![(0, asked(1)), (5_501, asked(1))], Verdict::TakeOver),
        ("left for this one", vec![(0, Some(record(3, 9, left("c2"))))], Verdict::Take),
        ("left for another", vec![(0, Some(record(3, 9, left("c3"))))], Verdict::Wait),
        (
            "left for another that is gone",
            vec![(0, Some(record(3, 9, left("c3")))), (5_501, Some(record(3, 9, left("c3"))))],
            Verdict::Take,
        ),
    ];
    for (what, looks, wanted) in table {
        let mut standby = Standby::new(member("c2"), TERMS);
        let verdicts: Vec<Verdict> = looks
            .iter()
            .map(|(millis, record)| standby.saw(at(*millis), record.as_ref(), Duration::ZERO))
            .collect();
        assert_eq!(verdicts.last(), Some(&wanted), "{what}: {verdicts:?}");
    }
}

#[test]
fn what_is_free_is_left_to_others_for_a_while() {
    let reserve = Duration::from_secs(1);
    let table = [
        (LeaseState::Free, 0, Verdict::Wait),
        (LeaseState::Free, 999, Verdict::Wait),
        (LeaseState::Free, 1_000, Verdict::Take),
        (left("c2"), 0, Verdict::Take),
        (left("c3"), 6_400, Verdict::Wait),
        (left("c3"), 6_501, Verdict::Take),
        (LeaseState::Held, 6_400, Verdict::Wait),
        (LeaseState::Held, 6_501, Verdict::TakeOver),
    ];
    for (state, millis, wanted) in table {
        let mut standby = Standby::new(member("c2"), TERMS);
        standby.saw(at(0), Some(&record(3, 1, state.clone())), reserve);
        let verdict = standby.saw(at(millis), Some(&record(3, 1, state.clone())), reserve);
        assert_eq!(verdict, wanted, "{state:?} after {millis} ms");
    }
}

#[test]
fn a_standby_looks_when_a_renewal_is_due_or_the_lease_is_over() {
    let reserve = Duration::from_secs(1);
    let table = [
        (LeaseState::Held, Duration::ZERO, 0, 750),
        (LeaseState::Held, Duration::ZERO, 400, 350),
        (LeaseState::Held, Duration::ZERO, 750, 250),
        (LeaseState::Held, Duration::ZERO, 5_400, 101),
        (LeaseState::Held, Duration::ZERO, 5_501, 250),
        (LeaseState::Held, reserve, 5_400, 250),
        (LeaseState::Asked { heir: "c2".to_owned() }, reserve, 6_450, 51),
        (LeaseState::Free, Duration::ZERO, 0, 250),
        (left("c3"), Duration::ZERO, 3_000, 250),
    ];
    for (state, reserve, millis, wanted) in table {
        let mut standby = Standby::new(member("c2"), TERMS);
        assert_eq!(standby.next_look(at(0), reserve), Duration::from_millis(250), "nothing is seen yet");
        standby.saw(at(0), Some(&record(3, 1, state.clone())), reserve);
        let next = standby.next_look(at(millis), reserve);
        assert_eq!(next, Duration::from_millis(wanted), "{state:?} after {millis} ms");
    }
}

#[test]
fn a_standby_is_known_a_lease_after_its_first_look() {
    let mut standby = Standby::new(member("c2"), TERMS);
    assert!(!standby.is_known(at(90_000)), "it has not looked");
    standby.saw(at(90_000), Some(&record(3, 1, LeaseState::Held)), Duration::ZERO);
    standby.saw(at(94_000), Some(&record(3, 2, LeaseState::Held)), Duration::ZERO);
    assert!(!standby.is_known(at(95_000)) && standby.is_known(at(95_001)));
}

#[test]
fn a_lease_is_vacant_after_two_missed_renewals_or_if_given_up() {
    let mut standby = Standby::new(member("c2"), TERMS);
    assert!(standby.is_vacant(at(0)));
    standby.saw(at(1_000), Some(&record(3, 1, LeaseState::Held)), Duration::ZERO);
    assert!(!standby.is_vacant(at(3_000)) && standby.is_vacant(at(3_001)));
    standby.saw(at(3_100), Some(&record(3, 2, LeaseState::Held)), Duration::ZERO);
    assert!(!standby.is_vacant(at(3_100)));
    standby.saw(at(4_000), Some(&record(3, 3, left("c3"))), Duration::ZERO);
    assert!(standby.is_vacant(at(4_000)));
}

#[test]
fn a_holder_counts_from_before_it_asked() {
    let mut holder = Holder::new(at(1_000), TERMS);
    assert_eq!(holder.until(), at(6_000));
    holder.renewed(at(3_000));
    assert_eq!(holder.until(), at(8_000));
    // An answer that was overtaken.
    holder.renewed(at(2_000));
    assert_eq!(holder.until(), at(8_000));
}

/// A controller, as the simulation has it.
struct Controller {
    name: String,
    role: Role,
    /// The speed of its clock, in thousandths.
    rate: u64,
    reserve: Duration,
    /// The controller does nothing before this.
    paused_until: u64,
    /// Nothing passes between it and the database before this.
    cut_off_until: u64,
    /// When it asks the database next.
    next: u64,
    asked: Option<Asked>,
}

enum Role {
    Waits(Standby),
    Holds(Holder, Term),
}

/// A request on its way to the database, or its answer on its way back.
struct Asked {
    request: Request,
    /// By the controller's clock; of a take, when it looked.
    at: MonoTime,
    arrives: u64,
    answers: u64,
    answer: Option<Answer>,
}

enum Request {
    Look,
    Take(Option<Record>),
    Renew(Term),
}

enum Answer {
    Saw(Option<Record>),
    Took(Option<Term>),
    Renewed(bool),
}

#[derive(Clone, Debug)]
enum Fault {
    /// A controller is stopped for so long.
    Pause(u64),
    /// The database does not hear it for so long.
    CutOff(u64),
    /// The controller dies, and starts again as a standby.
    Crash,
    /// The controller gives the lease up for the next one.
    HandOver,
}

/// The database's answer to a request.
fn served(row: &mut Option<Record>, request: &Request, name: &str, bits: u64) -> Answer {
    match request {
        Request::Look => Answer::Saw(row.clone()),
        Request::Renew(term) => {
            let ours = row.as_mut().filter(|row| row.term == *term);
            Answer::Renewed(ours.map(|row| row.beat += 1).is_some())
        }
        Request::Take(seen) if row == seen => {
            let epoch = row.as_ref().map_or(0, |row| row.term.epoch.0) + 1;
            let term = Term { epoch: Epoch(epoch), bits };
            *row = Some(Record {
                term,
                holder: member(name),
                since: String::new(),
                beat: 0,
                agents: 0,
                state: LeaseState::Held,
                asker: None,
            });
            Answer::Took(Some(term))
        }
        Request::Take(_) => Answer::Took(None),
    }
}

impl Controller {
    fn new(at: usize, rate: u64) -> Self {
        let name = format!("c{at}");
        let role = Role::Waits(Standby::new(member(&name), TERMS));
        let next = at as u64 * 37;
        // As if it had so many other sites.
        let reserve = TERMS.pace() / 2 * u32::try_from(at).unwrap();
        Self { name, role, rate, reserve, paused_until: 0, cut_off_until: 0, next, asked: None }
    }

    fn clock(&self, now: u64) -> MonoTime {
        at(now * self.rate / 1000)
    }

    fn holds(&self, now: u64) -> Option<Term> {
        match &self.role {
            Role::Holds(holder, term) => (self.clock(now) < holder.until()).then_some(*term),
            Role::Waits(_) => None,
        }
    }

    fn stand_by(&mut self) {
        (self.role, self.asked) = (Role::Waits(Standby::new(member(&self.name), TERMS)), None);
    }

    /// Runs the controller's step at `now`; a request takes so long on its way and back.
    fn step(&mut self, row: &mut Option<Record>, now: u64, ways: (u64, u64), bits: u64) {
        if let Some(asked) = &mut self.asked
            && asked.answer.is_none()
            && now >= asked.arrives
            && now >= self.cut_off_until
            && now < asked.answers
        {
            asked.answer = Some(served(row, &asked.request, &self.name, bits));
        }
        if now < self.paused_until {
            return;
        }
        if let Some(Asked { at, answer, .. }) = self.asked.take_if(|asked| now >= asked.answers) {
            match answer.filter(|_| now >= self.cut_off_until) {
                Some(answer) => self.hears(answer, now, at, ways),
                None => self.next = now,
            }
        }
        if self.asked.is_none() && now >= self.next {
            let pause = match &self.role {
                Role::Waits(standby) => standby.next_look(self.clock(now), self.reserve),
                Role::Holds(..) => TERMS.pace(),
            };
            self.next = now + u64::try_from(pause.as_millis()).unwrap();
            let request = match &self.role {
                Role::Waits(_) => Request::Look,
                Role::Holds(_, term) => Request::Renew(*term),
            };
            self.ask(request, now, self.clock(now), ways);
        }
    }

    fn ask(&mut self, request: Request, now: u64, at: MonoTime, (way, back): (u64, u64)) {
        self.asked =
            Some(Asked { request, at, arrives: now + way, answers: now + way + back + 50, answer: None });
    }

    fn hears(&mut self, answer: Answer, now: u64, asked: MonoTime, ways: (u64, u64)) {
        let clock = self.clock(now);
        match (&mut self.role, answer) {
            (Role::Waits(standby), Answer::Saw(record)) => {
                if standby.saw(clock, record.as_ref(), self.reserve) != Verdict::Wait {
                    self.ask(Request::Take(record), now, asked, ways);
                }
            }
            (Role::Waits(_), Answer::Took(Some(term))) => {
                self.role = Role::Holds(Holder::new(asked, TERMS), term);
            }
            (Role::Holds(holder, _), Answer::Renewed(true)) => holder.renewed(asked),
            (Role::Holds(..), Answer::Renewed(false)) => self.stand_by(),
            (Role::Waits(_), Answer::Took(None) | Answer::Renewed(_)) | (Role::Holds(..), _) => {}
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (100u64..20_000).prop_map(Fault::Pause),
        (100u64..20_000).prop_map(Fault::CutOff),
        Just(Fault::Crash),
        Just(Fault::HandOver),
    ]
}

/// Three controllers whose clocks run apart, which stop, are cut off, die and hand over: never do two hold the lease at one
/// moment, and once that is over, one of them does soon.
#[test]
fn never_do_two_hold_the_lease() {
    let rates = prop::array::uniform3(960u64..1040);
    let ways = prop::collection::vec((0u64..400, 0u64..400), 64);
    let faults = prop::collection::vec((0u64..60_000, 0usize..3, fault()), 0..24);
    let config = ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config)
        .run(&(rates, ways, faults), |(rates, ways, faults)| run(rates, &ways, &faults));
    ran.unwrap_or_else(|error| panic!("{error}"));
}

fn run(rates: [u64; 3], ways: &[(u64, u64)], faults: &[(u64, usize, Fault)]) -> Result<(), TestCaseError> {
    let mut row = None;
    let mut controllers: Vec<Controller> =
        rates.iter().enumerate().map(|(at, rate)| Controller::new(at, *rate)).collect();
    let (mut steps, mut epoch) = (0usize, 0);
    for now in (0..120_000u64).step_by(50) {
        for (_, which, fault) in faults.iter().filter(|(due, ..)| (now..now + 50).contains(due)) {
            strike(fault, *which, &mut controllers[*which], &mut row, now);
        }
        for (at, controller) in controllers.iter_mut().enumerate() {
            steps += 1;
            controller.step(&mut row, now, ways[steps % ways.len()], at as u64);
        }
        let holding: Vec<Term> = controllers.iter().filter_map(|controller| controller.holds(now)).collect();
        prop_assert!(holding.len() <= 1, "at {now}: {holding:?}");
        prop_assert!(holding.iter().all(|term| term.epoch.0 >= epoch), "at {now}: {holding:?} after {epoch}");
        epoch = holding.iter().fold(epoch, |epoch, term| epoch.max(term.epoch.0));
        // The last fault is over by second 80.
        prop_assert!(now < 95_000 || holding.len() == 1, "at {now}: {row:?}");
    }
    Ok(())
}

fn strike(fault: &Fault, which: usize, controller: &mut Controller, row: &mut Option<Record>, now: u64) {
    match fault {
        Fault::Pause(time) => controller.paused_until = controller.paused_until.max(now + time),
        Fault::CutOff(time) => controller.cut_off_until = controller.cut_off_until.max(now + time),
        Fault::Crash => controller.stand_by(),
        Fault::HandOver => {
            let can = now >= controller.paused_until && now >= controller.cut_off_until;
            let term = controller.holds(now).filter(|_| can);
            if let Some(row) = row.as_mut().filter(|row| Some(row.term) == term) {
                controller.stand_by();
                (row.state, row.beat) = (left(&format!("c{}", (which + 1) % 3)), row.beat + 1);
            }
        }
    }
}

#[test]
fn a_namesake_is_one_that_renews_the_lease_meanwhile() {
    let mut standby = Standby::new(member("c1"), TERMS);
    let of = |beat: u64, instance: &str| {
        let mut record = record(3, beat, LeaseState::Held);
        record.holder.instance = instance.to_owned();
        record
    };
    for (millis, beat, instance, wanted) in [
        (0, 1, "before the boot", false),
        (1_000, 1, "before the boot", false),
        (2_000, 2, "another machine's", true),
        (3_000, 3, "c1's", false),
    ] {
        standby.saw(at(millis), Some(&of(beat, instance)), Duration::ZERO);
        assert_eq!(standby.has_namesake(), wanted, "{millis}");
    }
    let mut other = Standby::new(member("c2"), TERMS);
    for beat in 1..4 {
        other.saw(at(beat * 1_000), Some(&of(beat, "c1's")), Duration::ZERO);
        assert!(!other.has_namesake());
    }
}

/// A standby sees these holders, a second each: the epoch, and the number of agents.
#[test]
fn a_standby_asks_when_it_sees_as_many_agents_as_the_holder() {
    type Seen = Vec<(u32, usize)>;
    let always = |agents, seconds| vec![(3, agents); seconds];
    let then = |first: usize, last: usize, at: usize| {
        (0..=30).map(|second| (3, if second < at { first } else { last })).collect()
    };
    let table: [(&str, Seen, usize, bool); 12] = [
        ("nobody is stranded", then(9, 0, 10), 0, false),
        ("one is, and the holder has none any more", then(9, 0, 10), 1, true),
        ("the holder has more", always(3, 31), 2, false),
        ("they seem to be connected still", always(3, 31), 3, true),
        ("the holder lost them just now", then(9, 0, 30), 3, true),
        ("more come to the holder", then(1, 3, 26), 3, false),
        ("they came a lease ago", then(1, 3, 25), 3, true),
        ("the holder is new to the standby", always(3, 20), 3, false),
        ("as above, a second later", always(3, 21), 3, true),
        ("another holder", [always(3, 20), vec![(4, 3); 20]].concat(), 3, false),
        ("the holder never had any", always(0, 300), 1, false),
        ("as above, a second later", always(0, 301), 1, true),
    ];
    for (what, seen, stranded, wanted) in table {
        let mut standby = Standby::new(member("c2"), TERMS);
        let mut now = MonoTime::default();
        assert!(!standby.reaches_more(now, stranded), "nothing was seen");
        for (beat, (epoch, agents)) in (1..).zip(seen) {
            now = at((beat - 1) * 1_000);
            let record = Record { agents, ..record(epoch, beat, LeaseState::Held) };
            assert_eq!(standby.saw(now, Some(&record), Duration::ZERO), Verdict::Wait, "{what}");
        }
        assert_eq!(standby.reaches_more(now, stranded), wanted, "{what}");
    }
}
