use std::collections::BTreeMap;

use muster_shared::Epoch;
use proptest::prelude::*;

use super::super::Member;
use super::*;

const TERMS: Terms = Terms { lease: Duration::from_secs(5) };

fn at(millis: u64) -> MonoTime {
    MonoTime(Duration::from_millis(millis))
}

fn record(epoch: u32, beat: u64, state: LeaseState) -> Record {
    let holder = Member { name: "c1".to_owned(), addresses: Vec::new() };
    let term = Term { epoch: Epoch(epoch), bits: 7 };
    Record { term, holder, since: String::new(), beat, state }
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
    let table: [(&str, Looks, Verdict); 13] = [
        ("nobody ever had it", vec![(0, None)], Verdict::Take),
        ("free", vec![(0, Some(record(3, 9, LeaseState::Free)))], Verdict::Take),
        ("held", vec![(0, held(1))], Verdict::Wait),
        ("held, and renewed", vec![(0, held(1)), (5_400, held(2)), (10_800, held(3))], Verdict::Wait),
        ("not renewed for a lease", vec![(0, held(1)), (5_400, held(1))], Verdict::Wait),
        ("not renewed for a lease and a tenth", vec![(0, held(1)), (5_501, held(1))], Verdict::TakeOver),
        ("seen once, long ago", vec![(0, held(1)), (90_000, held(1))], Verdict::TakeOver),
        ("another holder since", vec![(0, held(1)), (9_000, Some(record(4, 1, LeaseState::Held)))], Verdict::Wait),
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
        let mut standby = Standby::new("c2", TERMS);
        let verdicts: Vec<Verdict> =
            looks.iter().map(|(millis, record)| standby.saw(at(*millis), record.as_ref())).collect();
        assert_eq!(verdicts.last(), Some(&wanted), "{what}: {verdicts:?}");
    }
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
    /// Its clock goes this fast, in thousandths.
    rate: u64,
    /// It takes no step before this.
    paused_until: u64,
    /// The database does not hear it before this.
    cut_off_until: u64,
    next: u64,
}

enum Role {
    Waits(Standby),
    Holds(Holder, Term),
}

/// The row, and what the simulation knows of it.
struct Site {
    row: Option<Record>,
    /// When each term was taken.
    taken: BTreeMap<u32, u64>,
}

#[derive(Clone, Debug)]
enum Fault {
    /// A controller is stopped for so long.
    Pause(u64),
    /// The database does not hear it for so long.
    CutOff(u64),
    /// It dies, and starts again as a standby.
    Crash,
    /// It gives the lease up for the next one.
    HandOver,
}

impl Controller {
    fn clock(&self, now: u64) -> MonoTime {
        at(now * self.rate / 1000)
    }

    fn holds(&self, now: u64) -> Option<Term> {
        match &self.role {
            Role::Holds(holder, term) => (self.clock(now) < holder.until()).then_some(*term),
            Role::Waits(_) => None,
        }
    }

    /// A step at `now`, whose request takes `way` to the database and `back`.
    fn step(&mut self, site: &mut Site, now: u64, (way, back): (u64, u64), bits: u64) {
        let hears = now + way >= self.cut_off_until && now + way + back >= self.cut_off_until;
        self.next = now + u64::try_from(TERMS.pace().as_millis()).unwrap();
        let asked = self.clock(now);
        let answered = self.clock(now + way + back);
        match &mut self.role {
            Role::Holds(holder, term) => match &mut site.row {
                // A renewal whose answer is lost is made nevertheless.
                Some(row) if row.term == *term => {
                    if now + way >= self.cut_off_until {
                        row.beat += 1;
                    }
                    if hears {
                        holder.renewed(asked);
                    }
                }
                _ if hears => self.role = Role::Waits(Standby::new(&self.name, TERMS)),
                _ => {}
            },
            Role::Waits(standby) if hears => {
                if standby.saw(answered, site.row.as_ref()) == Verdict::Wait {
                    return;
                }
                let epoch = site.row.as_ref().map_or(0, |row| row.term.epoch.0) + 1;
                let term = Term { epoch: Epoch(epoch), bits };
                let holder = Member { name: self.name.clone(), addresses: Vec::new() };
                site.row =
                    Some(Record { term, holder, since: String::new(), beat: 0, state: LeaseState::Held });
                site.taken.insert(epoch, now + way);
                self.role = Role::Holds(Holder::new(asked, TERMS), term);
            }
            Role::Waits(_) => {}
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three controllers whose clocks run apart, which stop, are cut off, die and hand over: never do two hold the lease
    /// at one moment, and once that is over, one of them does soon.
    #[test]
    fn never_do_two_hold_the_lease(
        rates in prop::array::uniform3(960u64..1040),
        ways in prop::collection::vec((0u64..400, 0u64..400), 64),
        faults in prop::collection::vec((0u64..60_000, 0usize..3, fault()), 0..24),
    ) {
        let mut site = Site { row: None, taken: BTreeMap::new() };
        let mut controllers: Vec<Controller> = rates.iter().enumerate().map(|(at, rate)| {
            let name = format!("c{at}");
            let role = Role::Waits(Standby::new(&name, TERMS));
            Controller { name, role, rate: *rate, paused_until: 0, cut_off_until: 0, next: at as u64 * 37 }
        }).collect();
        let quiet = 90_000;
        let mut steps = 0usize;
        for now in (0..120_000u64).step_by(50) {
            for (_, which, fault) in faults.iter().filter(|(due, ..)| (now..now + 50).contains(due)) {
                let heir = format!("c{}", (which + 1) % 3);
                let controller = &mut controllers[*which];
                match fault {
                    Fault::Pause(time) => controller.paused_until = controller.paused_until.max(now + time),
                    Fault::CutOff(time) => controller.cut_off_until = controller.cut_off_until.max(now + time),
                    Fault::Crash => controller.role = Role::Waits(Standby::new(&controller.name, TERMS)),
                    Fault::HandOver => {
                        let can = now >= controller.paused_until && now >= controller.cut_off_until;
                        if let Some(term) = controller.holds(now).filter(|_| can) {
                            controller.role = Role::Waits(Standby::new(&controller.name, TERMS));
                            let row = site.row.as_mut().filter(|row| row.term == term).unwrap();
                            (row.state, row.beat) = (left(&heir), row.beat + 1);
                        }
                    }
                }
            }
            for (at, controller) in controllers.iter_mut().enumerate() {
                if now >= controller.next && now >= controller.paused_until {
                    steps += 1;
                    controller.step(&mut site, now, ways[steps % ways.len()], at as u64);
                }
            }
            let holding: Vec<Term> = controllers.iter().filter_map(|controller| controller.holds(now)).collect();
            prop_assert!(holding.len() <= 1, "at {now}: {holding:?}");
            if now > quiet + 15_000 {
                prop_assert_eq!(holding.len(), 1, "at {}", now);
            }
        }
        prop_assert!(site.taken.values().zip(site.taken.values().skip(1)).all(|(a, b)| a <= b));
    }
}
