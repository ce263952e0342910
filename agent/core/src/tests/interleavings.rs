//! Whatever comes, in whatever order, with a crash at any point: the promises hold.

use std::collections::BTreeMap;

use muster_shared::ResourceId;
use muster_shared::model::{Action, Down, Job, Outcome, Spec};
use proptest::prelude::*;

use super::node::{Node, again, dummy, failed, generation, id, job, plain};
use crate::{Found, Input};

const RESOURCES: u128 = 4;

#[derive(Clone, Debug)]
enum Step {
    Deliver { n: u128, number: u64, attempt: u32 },
    Withdraw { n: u128, number: u64 },
    Write,
    FailWrite,
    Captured,
    Ran { fails: bool },
    Acknowledge,
    Reconnect,
    Crash,
    Wait,
}

/// A generation always has the same content, as with a correct controller.
fn wanted(n: u128, number: u64, attempt: u32) -> Job {
    let spec = if n.is_multiple_of(2) { plain(&format!("/{}", n % 4)) } else { dummy(&number.to_string()) };
    let action = match number % 6 {
        0 => Action::Delete,
        1 => Action::Create,
        2 => Action::Update,
        3 => Action::Check,
        4 => Action::Adopt,
        _ => Action::Retain,
    };
    again(&job(n, number, action, spec), attempt)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..RESOURCES, 0..11u64, 0..3u32).prop_map(|(n, number, attempt)| Step::Deliver { n, number, attempt }),
        1 => (0..RESOURCES, 0..11u64).prop_map(|(n, number)| Step::Withdraw { n, number }),
        8 => Just(Step::Write),
        1 => Just(Step::FailWrite),
        4 => Just(Step::Captured),
        4 => any::<bool>().prop_map(|fails| Step::Ran { fails }),
        2 => Just(Step::Acknowledge),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Crash),
        1 => Just(Step::Wait),
    ]
}

/// The host's observations; they outlive crashes.
#[derive(Default)]
struct Witness {
    /// The newest generation run for a resource.
    newest: BTreeMap<ResourceId, u64>,
}

impl Witness {
    fn look(&mut self, bed: &Node, disk_may_fail: bool) {
        let mut lanes = BTreeMap::new();
        for job in &bed.checks {
            assert_eq!(lanes.insert(job.spec.lane(), job.resource), None, "a check runs beside something");
            assert!(matches!(job.action, Action::Check | Action::Adopt), "{job:?}");
        }
        for (job, before) in &bed.runs {
            assert!(job.action != Action::Check && job.action != Action::Retain, "{job:?}");
            let running = lanes.insert(job.spec.lane(), job.resource);
            assert_eq!(running, None, "two jobs of one lane run");
            let entry = &bed.disk[&job.resource];
            let accepted = entry.current.as_ref().or(entry.next.as_ref()).expect("accepted on disk");
            let on_disk = [&entry.current, &entry.next];
            assert!(
                on_disk.into_iter().flatten().any(|accepted| accepted.job == *job),
                "{job:?} runs, {accepted:?} is on disk"
            );
            if matches!(job.spec, Spec::File(_)) {
                assert!(before.is_some() && entry.before() == before.as_ref(), "what was there is on disk");
            }
            let newest = self.newest.entry(job.resource).or_default();
            // After a write was refused, a job that was reported as failed may be run by the next start.
            assert!(disk_may_fail || *newest <= job.generation.number, "{job:?} after {newest}");
            *newest = (*newest).max(job.generation.number);
        }
        for report in bed.sent.iter().filter_map(|up| match up {
            muster_shared::model::Up::Report(report) => Some(report),
            _ => None,
        }) {
            if let Outcome::Done(_) = report.outcome {
                let entry = bed.disk.get(&report.key.resource).expect("an outcome is on disk");
                let known = entry.last.as_ref().is_some_and(|last| last.key >= report.key)
                    || entry.unacknowledged.iter().any(|stored| stored.key == report.key);
                assert!(known, "{report:?} was sent, {entry:?} is on disk");
            }
        }
    }
}

fn play(steps: Vec<Step>) {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    let mut witness = Witness::default();
    let disk_may_fail = steps.iter().any(|step| matches!(step, Step::FailWrite));
    for step in steps {
        match step {
            Step::Deliver { n, number, attempt } => bed.job(&wanted(n, number, attempt)),
            Step::Withdraw { n, number } => {
                bed.down(Down::Withdraw { resource: id(n), generation: generation(number) });
            }
            Step::Write => bed.write_one(),
            Step::FailWrite => bed.fail_one(),
            Step::Captured => end_capture(&mut bed),
            Step::Ran { fails } => end_run(&mut bed, fails),
            Step::Acknowledge => {
                for report in bed.reports() {
                    bed.down(Down::Acknowledge(report.key));
                }
            }
            Step::Reconnect => {
                bed.input(Input::Disconnected { reason: "reset".into() });
                bed.after(std::time::Duration::from_secs(30));
                bed.greet();
            }
            Step::Crash => {
                bed = bed.crash();
                bed.disk_is_quick = false;
                bed.greet();
            }
            Step::Wait => bed.after(std::time::Duration::from_secs(61)),
        }
        witness.look(&bed, disk_may_fail);
        bed.sent.clear();
    }
    settle(bed);
}

fn end_capture(bed: &mut Node) {
    if let Some((key, _)) = bed.captures.first() {
        bed.captured(key.resource.0.as_u128(), Ok("old"));
    }
}

fn end_run(bed: &mut Node, fails: bool) {
    if let Some(job) = bed.checks.first() {
        let differs = Found::Differs { missing: false, reason: "mode".into() };
        let found = if fails { differs } else { Found::AsDesired };
        return bed.checked(job.resource.0.as_u128(), found);
    }
    if let Some((job, ..)) = bed.runs.first() {
        let outcome = if fails { Err(failed("no")) } else { Ok(()) };
        bed.ran(job.resource.0.as_u128(), outcome);
    }
}

/// With a disk and a host that work, everything ends, is reported, and nothing is left that waits.
fn settle(mut bed: Node) {
    bed.disk_is_quick = true;
    for _ in 0..200 {
        bed.write_one();
        end_capture(&mut bed);
        end_run(&mut bed, false);
    }
    bed.sent.clear();
    bed.down(super::node::welcome(1, false));
    for report in bed.reports() {
        bed.down(Down::Acknowledge(report.key));
    }
    // The next heartbeat writes the records that the disk refused.
    bed.after(super::node::HEARTBEAT);
    bed.sent.clear();
    for entry in bed.agent.entries() {
        assert!(entry.current.is_none() && entry.next.is_none(), "left over: {entry:?}");
        assert_eq!(entry.unacknowledged, []);
        assert_eq!(bed.disk.get(&entry.resource), Some(entry), "disk and memory agree");
    }
    let (digest, restarted) = (bed.agent.jobs.ledger.digest(), bed.crash());
    assert_eq!(restarted.agent.jobs.ledger.digest(), digest);
    assert!(restarted.runs.is_empty() && restarted.captures.is_empty() && restarted.checks.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promises_hold(steps in prop::collection::vec(step(), 1..80)) {
        play(steps);
    }
}
