//! Looking at what nobody is at: when, and what is said of it.

use std::time::Duration;

use muster_shared::model::{
    Action, Down, Drift, DriftState, Facts, Job, LinkFacts, NetworkConfig, OnDelete, Spec, Up, Welcome,
};
use muster_shared::wire::CONTROLLER_READS_TIES;
use muster_shared::{Epoch, ResourceId};

use super::node::{CHALLENGE, Node, failed, generation, id, job, plain};
use crate::{Found, Hint, Input, Retry, RunError};

const SECOND: Duration = Duration::from_secs(1);

fn network(n: u128, number: u64, action: Action) -> Job {
    let config = NetworkConfig {
        document: format!("[{{\"type\": \"interface\", \"name\": \"eth{n}\"}}]"),
        mapping: Default::default(),
        confirm_timeout: 60,
        on_delete: OnDelete::Restore,
    };
    job(n, number, action, Spec::Network(config))
}

fn apply(bed: &mut Node, job: &Job) {
    bed.job(job);
    let n = job.resource.0.as_u128();
    if !bed.captures.is_empty() {
        bed.captured(n, Ok("before"));
    }
    bed.ran(n, Ok(()));
    bed.down(Down::Acknowledge(job.key()));
}

/// With resource 1 of generation 1, looked at, and that told.
fn watching() -> Node {
    let mut bed = Node::online();
    apply(&mut bed, &network(1, 1, Action::Create));
    bed.after(SECOND);
    bed.looked(Ok(Found::AsDesired));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::InSync, "")]);
    bed.after(60 * SECOND);
    bed
}

fn drifts(bed: &mut Node) -> Vec<Drift> {
    let of = |up| match up {
        Up::Drift(drifts) => Some(drifts),
        _ => None,
    };
    std::mem::take(&mut bed.sent).into_iter().filter_map(of).flatten().collect()
}

fn drift(n: u128, number: u64, state: DriftState, reason: &str) -> Drift {
    Drift { resource: id(n), generation: generation(number), state, reason: reason.into() }
}

fn differs(reason: &str) -> Result<Found, RunError> {
    Ok(Found::Differs { missing: false, reason: reason.into() })
}

#[test]
fn a_single_change_is_reported_within_a_tenth_of_a_second() {
    let mut bed = watching();
    bed.input(Input::Hint(Hint::Other));
    assert!(bed.looks.is_empty(), "a change is seldom alone");
    bed.after(SECOND / 10);
    assert_eq!(bed.looks[0].1[0].resource, id(1));
    bed.looked(differs("eth1 is down"));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::Drifted, "eth1 is down")]);
}

#[test]
fn what_was_told_is_told_again_on_the_next_connection_only() {
    let mut bed = watching();
    for _ in 0..3 {
        bed.input(Input::Hint(Hint::Links));
        bed.after(SECOND);
        bed.looked(differs("eth1 is down"));
    }
    assert_eq!(drifts(&mut bed).len(), 1);
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.input(Input::Hint(Hint::Other));
    bed.after(60 * SECOND);
    assert!(bed.looks.is_empty(), "there is nobody to tell");
    bed.greet();
    bed.after(SECOND);
    bed.looked(differs("eth1 is down"));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::Drifted, "eth1 is down")]);
}

#[test]
fn a_storm_of_hints_is_looked_at_now_and_then() {
    let mut bed = watching();
    let mut looks = 0;
    for _ in 0..10_000 {
        bed.input(Input::Hint(Hint::Other));
        bed.after(SECOND / 1000);
        if !bed.looks.is_empty() {
            looks += 1;
            bed.looked(Ok(Found::AsDesired));
        }
    }
    assert!((8..=14).contains(&looks), "{looks} looks in 10 s");
    assert!(drifts(&mut bed).is_empty());
    bed.after(60 * SECOND);
    bed.looked(Ok(Found::AsDesired));
    bed.after(SECOND);
    bed.input(Input::Hint(Hint::Other));
    bed.after(SECOND / 10);
    assert_eq!(bed.looks.len(), 1, "after the storm a change is looked at at once again");
}

#[test]
fn a_look_that_takes_long_is_rested_from() {
    let mut bed = watching();
    bed.input(Input::Hint(Hint::Other));
    bed.after(SECOND);
    bed.now = bed.now + 2 * SECOND;
    bed.looked(Ok(Found::AsDesired));
    bed.input(Input::Hint(Hint::Other));
    bed.after(19 * SECOND);
    assert!(bed.looks.is_empty());
    bed.after(SECOND);
    assert_eq!(bed.looks.len(), 1);
}

#[test]
fn without_a_hint_it_looks_after_some_heartbeats() {
    for (heartbeat, wanted) in [(30, 21..=27), (60, 10..=14), (600, 1..=2), (86_400, 1..=2), (1, 600..=800)] {
        let mut bed = watching();
        bed.input(Input::Disconnected { reason: "reset".into() });
        bed.after(60 * SECOND);
        bed.input(Input::Connected);
        let heartbeat = SECOND * heartbeat;
        bed.down(Down::Welcome(Welcome { epoch: Epoch(1).into(), want_ledger: false, heartbeat, reads: 0 }));
        bed.after(30 * SECOND);
        bed.looked(Ok(Found::AsDesired));
        let mut looks = 0;
        for _ in 0..3960 {
            bed.after(SECOND);
            if !bed.looks.is_empty() {
                looks += 1;
                bed.looked(Ok(Found::AsDesired));
            }
        }
        assert!(wanted.contains(&looks), "{looks} looks in an hour with a heartbeat in {heartbeat:?}");
    }
}

#[test]
fn nothing_is_looked_at_while_a_job_of_the_network_is_under_way() {
    let mut bed = watching();
    bed.job(&network(2, 2, Action::Create));
    bed.captured(2, Ok("before"));
    bed.input(Input::Hint(Hint::Links));
    bed.after(30 * SECOND);
    assert!(bed.looks.is_empty(), "what it would see is our own work");
    let (at, why) = bed.agent.poll_timeout().unwrap();
    assert!(at > bed.now, "{why} is due already");
    bed.ran(2, Ok(()));
    let (at, why) = bed.agent.poll_timeout().unwrap();
    assert_eq!((at.since(bed.now), why), (SECOND / 20, "look"));
    bed.after(SECOND);
    assert_eq!(bed.looks[0].1.len(), 2, "afterwards both are looked at");
}

#[test]
fn drift_checks_pause_while_a_change_is_unconfirmed_or_undone() {
    for kept in [true, false] {
        let mut bed = watching();
        bed.job(&network(1, 2, Action::Update));
        bed.touched(1, Ok(()));
        bed.reconnect();
        bed.input(Input::Hint(Hint::Links));
        bed.after(SECOND);
        assert!(bed.looks.is_empty());
        if kept {
            bed.down(Down::Answer { key: network(1, 2, Action::Update).key(), bytes: CHALLENGE.to_vec() });
        } else {
            bed.after(60 * SECOND);
            bed.input(Input::Hint(Hint::Links));
            bed.after(SECOND);
            assert!(bed.looks.is_empty(), "it is being restored");
            bed.restored(Ok(()));
            bed.reconnect();
        }
        drifts(&mut bed);
        bed.after(SECOND);
        bed.looked(Ok(Found::AsDesired));
        let number = if kept { 2 } else { 1 };
        assert_eq!(drifts(&mut bed), [drift(1, number, DriftState::InSync, "")], "kept: {kept}");
    }
}

#[test]
fn what_was_seen_while_a_job_began_does_not_count() {
    for ended in [false, true] {
        let mut bed = watching();
        bed.input(Input::Hint(Hint::Links));
        bed.after(SECOND);
        bed.job(&network(1, 2, Action::Update));
        if ended {
            bed.ran(1, Err(failed("no")));
        }
        bed.looked(differs("half done"));
        assert!(drifts(&mut bed).is_empty());
        if !ended {
            bed.ran(1, Err(failed("no")));
        }
        bed.after(SECOND);
        bed.looked(Ok(Found::AsDesired));
        assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::InSync, "")], "the last good state stands");
    }
}

#[test]
fn what_the_controller_took_back_is_told_anew() {
    let mut bed = watching();
    bed.disk_is_quick = false;
    bed.job(&network(1, 2, Action::Update));
    bed.down(Down::Withdraw { resource: id(1), generation: generation(2) });
    bed.after(SECOND);
    assert!(bed.looks.is_empty(), "the outcome is not on disk yet");
    bed.write_one();
    bed.write_one();
    bed.after(SECOND);
    bed.looked(Ok(Found::AsDesired));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::InSync, "")]);
}

#[test]
fn what_cannot_be_known_is_not_told_and_looked_at_again() {
    let mut bed = watching();
    bed.input(Input::Hint(Hint::Other));
    bed.after(SECOND);
    bed.looked(Err(failed("no answer from the kernel")));
    assert!(drifts(&mut bed).is_empty());
    bed.after(10 * SECOND);
    bed.looked(Err(RunError { reason: "no interface has that address".into(), retry: Retry::Never }));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::Drifted, "no interface has that address")]);
}

#[test]
fn a_look_that_is_never_answered_does_not_end_watching() {
    let mut bed = watching();
    bed.input(Input::Hint(Hint::Other));
    bed.after(SECOND);
    let lost = bed.looks.remove(0);
    bed.after(61 * SECOND);
    bed.after(SECOND);
    assert_eq!(bed.looks.len(), 1);
    bed.input(Input::Looked { number: lost.0, looked: Vec::new() });
    bed.looked(differs("eth1 is down"));
    assert_eq!(drifts(&mut bed).len(), 1);
}

fn apply_file(bed: &mut Node, n: u128, number: u64) -> Job {
    let job = job(n, number, Action::Create, plain(&format!("/etc/{n}")));
    apply(bed, &job);
    job
}

fn looked_at(bed: &Node) -> Vec<ResourceId> {
    bed.looks.iter().flat_map(|(_, looks)| looks.iter().map(|look| look.resource)).collect()
}

#[test]
fn what_is_gone_is_not_watched() {
    let mut bed = Node::online();
    apply(&mut bed, &network(2, 2, Action::Create));
    apply_file(&mut bed, 3, 3);
    assert_eq!(bed.watched, [id(2), id(3)].into());
    apply(&mut bed, &network(2, 4, Action::Delete));
    apply(&mut bed, &job(3, 5, Action::Delete, plain("/etc/3")));
    assert!(bed.watched.is_empty());
    bed.input(Input::Hint(Hint::Links));
    bed.input(Input::Changed([id(2), id(3), id(4)].into()));
    bed.after(600 * SECOND);
    assert!(bed.looks.is_empty());
    let bed = bed.crash();
    assert!(bed.watched.is_empty());
}

#[test]
fn a_file_that_may_have_changed_is_looked_at_alone() {
    let mut bed = Node::online();
    for n in 1..=3 {
        apply_file(&mut bed, n, 1);
    }
    bed.after(SECOND);
    assert_eq!(looked_at(&bed), [id(1), id(2), id(3)], "after the greeting");
    bed.looked(Ok(Found::AsDesired));
    bed.sent.clear();
    bed.after(SECOND);
    bed.input(Input::Changed([id(2)].into()));
    bed.after(SECOND / 10);
    assert_eq!(looked_at(&bed), [id(2)]);
    bed.looked(Ok(Found::Differs { missing: true, reason: "it is not there".into() }));
    assert_eq!(drifts(&mut bed), [drift(2, 1, DriftState::Missing, "it is not there")]);
    assert_eq!(bed.crash().watched.len(), 3, "and so they are after a restart");
}

#[test]
fn a_jobs_success_counts_as_in_sync_and_its_failure_is_checked() {
    let mut bed = Node::online();
    apply_file(&mut bed, 1, 1);
    bed.after(SECOND);
    bed.looked(differs("other bytes"));
    assert_eq!(drifts(&mut bed).len(), 1);
    let update = job(1, 2, Action::Update, plain("/etc/1"));
    apply(&mut bed, &update);
    bed.sent.clear();
    bed.after(SECOND);
    assert_eq!(looked_at(&bed), [id(1)], "what was said of it was unsaid");
    bed.looked(Ok(Found::AsDesired));
    assert!(drifts(&mut bed).is_empty(), "its outcome has told it");
    bed.job(&job(1, 3, Action::Update, plain("/etc/1")));
    bed.ran(1, Err(failed("no")));
    bed.after(SECOND);
    bed.looked(differs("half done"));
    assert_eq!(drifts(&mut bed), [drift(1, 2, DriftState::Drifted, "half done")]);
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let mut bed = Node::online();
    apply_file(&mut bed, 1, 1);
    apply(&mut bed, &network(2, 1, Action::Create));
    bed.after(SECOND);
    bed.looked(Ok(Found::AsDesired));
    bed.looked(Ok(Found::AsDesired));
    bed.after(60 * SECOND);
    bed.job(&job(3, 2, Action::Create, plain("/etc/3")));
    bed.captured(3, Ok("before"));
    bed.input(Input::Hint(Hint::Other));
    bed.input(Input::Changed([id(1)].into()));
    bed.after(SECOND);
    assert_eq!(looked_at(&bed), [id(2)], "a file is under way, the network is not");
    bed.ran(3, Ok(()));
    bed.after(SECOND);
    assert_eq!(looked_at(&bed), [id(2), id(1)]);
}

#[test]
fn a_heartbeat_carries_a_drift_digest_and_lost_drift_is_resent() {
    let mut bed = Node::online();
    let digest = |bed: &mut Node| {
        bed.sent.clear();
        bed.after(30 * SECOND);
        let of = |up: &Up| match up {
            Up::Heartbeat { drift } => *drift,
            _ => None,
        };
        bed.sent.iter().find_map(of).expect("a heartbeat")
    };
    for n in 1..=2 {
        apply_file(&mut bed, n, 1);
    }
    bed.after(SECOND);
    bed.looked(differs("other bytes"));
    let of = |n, state| Drift::digest(id(n), generation(1), state);
    assert_eq!(digest(&mut bed), of(1, DriftState::Drifted) ^ of(2, DriftState::Drifted));
    bed.input(Input::Changed([id(1)].into()));
    bed.after(SECOND);
    bed.looked(Ok(Found::Differs { missing: true, reason: "gone".into() }));
    bed.input(Input::Changed([id(2)].into()));
    bed.after(SECOND);
    bed.looked(Ok(Found::AsDesired));
    assert_eq!(digest(&mut bed), of(1, DriftState::Missing));
    bed.down(Down::AskDrift);
    bed.after(SECOND);
    assert_eq!(looked_at(&bed), [id(1), id(2)]);
    bed.looked(Ok(Found::AsDesired));
    assert_eq!(drifts(&mut bed), [drift(1, 1, DriftState::InSync, ""), drift(2, 1, DriftState::InSync, "")]);
    assert_eq!(digest(&mut bed), 0);
}

#[test]
fn many_are_told_in_pages() {
    let mut bed = Node::online();
    for n in 1..=300 {
        apply(&mut bed, &network(n, 1, Action::Create));
    }
    bed.sent.clear();
    bed.after(SECOND);
    bed.looked(differs(&"ä".repeat(4000)));
    let pages: Vec<usize> = bed
        .sent
        .iter()
        .filter_map(|up| match up {
            Up::Drift(drifts) => Some(drifts.len()),
            _ => None,
        })
        .collect();
    assert_eq!(pages, [256, 44]);
    assert!(drifts(&mut bed).iter().all(|drift| drift.reason.len() == 512));
}

fn facts(mtu: u32, bytes: u64) -> Facts {
    let mut link = LinkFacts { name: "eth0".into(), mtu, ..LinkFacts::default() };
    link.counters.rx_bytes = bytes;
    Facts { links: vec![link], links_total: 1, ..Facts::default() }
}

fn told(bed: &mut Node) -> Vec<Facts> {
    let of = |up| match up {
        Up::Facts(facts) => Some(*facts),
        _ => None,
    };
    std::mem::take(&mut bed.sent).into_iter().filter_map(of).collect()
}

#[test]
fn facts_are_reported_on_greeting_on_change_and_on_request() {
    let mut bed = Node::online();
    bed.after(2 * SECOND);
    assert_eq!(bed.gathers, 1);
    bed.input(Input::Gathered(Ok(Box::new(facts(1500, 1)))));
    assert_eq!(told(&mut bed).len(), 1);

    bed.input(Input::Hint(Hint::Other));
    bed.after(SECOND);
    assert_eq!(bed.gathers, 1, "a route is no fact");
    bed.input(Input::Hint(Hint::Links));
    bed.after(SECOND / 10);
    bed.input(Input::Gathered(Ok(Box::new(facts(1500, 2)))));
    assert_eq!((bed.gathers, told(&mut bed).len()), (2, 0), "counters are no change");

    bed.input(Input::Hint(Hint::Links));
    bed.after(SECOND / 10);
    assert_eq!(bed.gathers, 2, "not twice a second");
    bed.after(SECOND);
    bed.input(Input::Gathered(Ok(Box::new(facts(9000, 2)))));
    assert_eq!(told(&mut bed), [facts(9000, 2)]);

    bed.down(Down::AskFacts);
    bed.down(Down::AskFacts);
    assert_eq!(bed.gathers, 4, "who asks does not wait");
    bed.input(Input::Gathered(Ok(Box::new(facts(9000, 3)))));
    assert_eq!(told(&mut bed), [facts(9000, 3)]);
}

#[test]
fn an_older_controller_is_sent_no_ties_of_links() {
    let mut tied = facts(1500, 1);
    (tied.links[0].master, tied.links[0].lower) = (Some("bond0".into()), Some("eth1".into()));
    let mut bed = Node::offline(Vec::new(), Epoch(1).into());
    // The site is handed over to an older controller, and back.
    for (reads, wanted) in
        [(CONTROLLER_READS_TIES, tied.clone()), (0, facts(1500, 1)), (CONTROLLER_READS_TIES, tied.clone())]
    {
        bed.input(Input::Connected);
        let heartbeat = Duration::from_secs(60);
        bed.down(Down::Welcome(Welcome { epoch: Epoch(1).into(), want_ledger: false, heartbeat, reads }));
        bed.after(2 * SECOND);
        bed.input(Input::Gathered(Ok(Box::new(tied.clone()))));
        assert_eq!(told(&mut bed), [wanted], "the controller reads {reads}");
        bed.input(Input::Disconnected { reason: "handed over".into() });
        bed.after(60 * SECOND);
    }
}

#[test]
fn facts_of_a_host_whose_links_never_rest_are_told_now_and_then() {
    let mut bed = Node::online();
    for mtu in 0..600 {
        bed.input(Input::Hint(Hint::Links));
        bed.after(SECOND);
        bed.input(Input::Gathered(Ok(Box::new(facts(mtu, 1)))));
    }
    let times = told(&mut bed).len();
    assert!((40..=60).contains(&times), "{times} times in ten minutes");
    let mut lost = facts(0, 1);
    lost.links[0].carrier = true;
    bed.input(Input::Hint(Hint::Links));
    bed.after(SECOND);
    bed.input(Input::Gathered(Ok(Box::new(lost))));
    assert_eq!(told(&mut bed).len(), 1, "a carrier does not wait");
    bed.down(Down::AskFacts);
    bed.input(Input::Gathered(Ok(Box::new(facts(1, 1)))));
    assert_eq!(told(&mut bed).len(), 1, "who asks does not wait");
}

#[test]
fn facts_that_cannot_be_read_are_read_again() {
    let mut bed = Node::online();
    bed.after(2 * SECOND);
    bed.input(Input::Gathered(Err("no answer from the kernel".into())));
    assert_eq!(bed.warnings.len(), 1);
    bed.after(10 * SECOND);
    assert_eq!(bed.gathers, 2);
}

#[test]
fn facts_are_told_on_every_connection() {
    let mut bed = Node::online();
    for n in 1..=3 {
        bed.after(2 * SECOND);
        assert_eq!(bed.gathers, n);
        bed.input(Input::Gathered(Ok(Box::new(facts(1500, 1)))));
        assert_eq!(told(&mut bed).len(), 1);
        bed.input(Input::Disconnected { reason: "reset".into() });
        bed.input(Input::Hint(Hint::Links));
        bed.after(2 * SECOND);
        assert_eq!(bed.gathers, n, "there is nobody to tell");
        bed.greet();
    }
}
