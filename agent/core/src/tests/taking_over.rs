//! A resource that claims what another one made.

use std::collections::BTreeMap;

use muster_shared::model::{
    Action, Content, ContentDigest, Down, Job, NetworkConfig, Observed, OnDelete, Outcome, Spec,
};
use muster_shared::wire::REASON_MAX;

use super::node::{Node, again, done, failed, generation, id, job, plain};
use crate::{Before, ContentState, Entry, Input, Order};

fn file(n: u128, number: u64, action: Action) -> Job {
    job(n, number, action, plain("/etc/motd"))
}

fn old() -> Option<Before> {
    Some(Before::new(b"old".to_vec()))
}

/// Resource 1 made the file; resource 2 takes it over.
fn taken_over() -> Node {
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    bed.job(&file(2, 2, Action::Create));
    assert_eq!(bed.captures[0].1, [Before::new(b"old".to_vec())], "what was there before the first of them");
    bed.captured(2, Ok("old"));
    bed
}

#[test]
fn the_older_ones_end_leaves_the_thing_alone() {
    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.reports();
    bed.job(&file(1, 3, Action::Delete));
    assert!(bed.runs.is_empty());
    assert_eq!(bed.report().outcome, done());
    bed.job(&file(2, 4, Action::Delete));
    assert_eq!(bed.runs[0].1, old(), "the newer one's end restores what was there before the older one");
}

#[test]
fn it_can_be_taken_back() {
    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.job(&file(1, 3, Action::Update));
    bed.captured(1, Ok("old"));
    bed.ran(1, Ok(()));
    bed.reports();
    bed.job(&file(2, 4, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()));
    bed.job(&file(1, 5, Action::Delete));
    assert_eq!(bed.runs[0].1, old());
}

#[test]
fn one_that_never_was_applied_gives_it_back() {
    let mut bed = taken_over();
    bed.ran(2, Err(failed("no such owner")));
    bed.reports();
    bed.job(&file(2, 3, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()));
    assert_eq!(bed.taker(1), None);
    bed.job(&file(1, 4, Action::Delete));
    assert_eq!(bed.runs[0].1, old());
}

#[test]
fn a_crash_at_any_write_takes_over_all_the_same() {
    for survives in 0..4 {
        let mut bed = Node::online();
        bed.apply_file(&file(1, 1, Action::Create), "old");
        bed.disk_is_quick = false;
        bed.job(&file(2, 2, Action::Create));
        for _ in 0..survives {
            bed.write_one();
            if !bed.captures.is_empty() {
                bed.captured(2, Ok("old"));
            }
        }
        let mut bed = bed.crash();
        bed.greet();
        bed.job(&file(2, 2, Action::Create));
        if let Some((_, known)) = bed.captures.first() {
            assert_eq!(known, &[Before::new(b"old".to_vec())], "{survives} writes");
            bed.captured(2, Ok("old"));
        }
        bed.ran(2, Ok(()));
        bed.reports();
        bed.job(&file(1, 3, Action::Delete));
        assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()), "{survives} writes");
        bed.job(&file(2, 4, Action::Delete));
        assert_eq!(bed.runs[0].1, old());
    }
}

#[test]
fn a_full_disk_while_taking_over_changes_nothing() {
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    bed.disk_is_quick = false;
    bed.job(&file(2, 2, Action::Create));
    bed.write_one();
    bed.captured(2, Ok("old"));
    assert!(!bed.agent.is_on_disk());
    bed.fail_one();
    bed.write_one();
    assert!(matches!(bed.report().outcome, Outcome::Failed { permanent: false, .. }));
    bed.disk_is_quick = true;
    bed.job(&file(1, 3, Action::Delete));
    assert_eq!(bed.runs[0].1, old(), "it is still the older one's");
}

#[test]
fn what_cannot_be_read_fails_the_job() {
    let mut bed = Node::online();
    bed.job(&file(1, 1, Action::Create));
    bed.captured(1, Err(failed("a directory")));
    assert!(matches!(bed.report().outcome, Outcome::Failed { .. }));
    bed.job(&file(1, 2, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()), "nothing was touched");
}

/// Resource 2 is about to take over the file of resource 1, and cannot.
fn could_not(fail: impl FnOnce(&mut Node)) {
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    bed.job(&file(2, 2, Action::Create));
    fail(&mut bed);
    bed.reports();
    assert_eq!(bed.taker(1), None);
    bed.job(&file(2, 3, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()));
    bed.job(&file(1, 4, Action::Delete));
    assert_eq!(bed.runs[0].1, old(), "it is still the older one's");
}

#[test]
fn one_that_could_not_look_has_not_taken_over() {
    could_not(|bed| bed.captured(2, Err(failed("no answer"))));
}

#[test]
fn one_whose_record_the_disk_refused_has_not_taken_over() {
    could_not(|bed| {
        bed.disk_is_quick = false;
        bed.captured(2, Ok("old"));
        bed.fail_one();
        bed.disk_is_quick = true;
        bed.write_one();
    });
}

#[test]
fn one_that_is_withdrawn_after_a_crash_has_not_taken_over() {
    let content = ContentDigest::of(b"new");
    let stored = super::node::file("/etc/motd", Content::Stored { digest: content, size: 3 });
    let mut bed = Node::online();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    bed.job(&job(2, 2, Action::Create, stored));
    bed.content(content, ContentState::Have(3));
    bed.content(content, ContentState::Verified);
    assert_eq!(bed.captures.len(), 1);
    let mut bed = bed.crash();
    bed.greet();
    bed.down(Down::Withdraw { resource: id(2), generation: generation(2) });
    bed.job(&file(1, 3, Action::Delete));
    assert_eq!(bed.runs[0].1, old(), "it is still the older one's");
}

#[test]
fn one_that_takes_back_and_cannot_leaves_it_where_it_is() {
    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.job(&file(1, 3, Action::Update));
    bed.captured(1, Err(failed("no answer")));
    bed.reports();
    bed.job(&file(1, 4, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()));
    bed.job(&file(2, 5, Action::Delete));
    assert_eq!(bed.runs[0].1, old(), "one of them restores it");
}

#[test]
fn a_record_the_disk_refused_leaves_the_older_record() {
    let mut bed = Node::online();
    bed.apply_file(&job(1, 1, Action::Create, plain("/a")), "of a");
    bed.apply_file(&job(2, 1, Action::Create, plain("/b")), "of b");
    bed.job(&job(1, 2, Action::Update, plain("/b")));
    assert_eq!(bed.captures[0].1, [Before::new(b"of a".to_vec()), Before::new(b"of b".to_vec())]);
    bed.disk_is_quick = false;
    bed.captured(1, Ok("of a and b"));
    bed.fail_one();
    bed.disk_is_quick = true;
    bed.write_one();
    assert!(matches!(bed.report().outcome, Outcome::Failed { .. }));
    assert_eq!(bed.disk[&id(1)].before(), Some(&Before::new(b"of a".to_vec())));
    bed.job(&job(1, 3, Action::Delete, plain("/a")));
    assert_eq!(bed.runs[0].1, Some(Before::new(b"of a".to_vec())));
}

#[test]
fn a_long_reason_is_cut_where_it_may_be() {
    let mut bed = Node::online();
    bed.job(&file(1, 1, Action::Create));
    bed.captured(1, Err(failed(&"é".repeat(1_000_000))));
    let Outcome::Failed { reason, .. } = bed.report().outcome else { panic!("it failed") };
    assert_eq!(reason, "é".repeat(REASON_MAX / 2), "the record of a resource stays small");
}

#[test]
fn an_update_counts_as_own_unless_a_record_says_otherwise() {
    let mut bed = Node::online();
    bed.job(&file(1, 1, Action::Create));
    assert!(bed.own.is_empty(), "it may be anyone's");
    bed.captured(1, Ok("old"));
    bed.ran(1, Ok(()));
    bed.job(&job(1, 2, Action::Update, plain("/etc/issue")));
    assert!(bed.own.is_empty(), "what it made is in its record");
    bed.captured(1, Ok("old"));
    bed.ran(1, Ok(()));
    bed.job(&file(2, 3, Action::Update));
    assert_eq!(bed.own, [id(2)], "its record was lost");
    let mut bed = taken_over();
    bed.ran(2, Ok(()));
    bed.job(&file(3, 4, Action::Update));
    assert!(bed.own.is_empty(), "another's record says what was there before");
}

/// Resources 1, 2 and 3 made the file one after the other, each taking it over.
fn a_chain() -> Node {
    let mut bed = Node::online();
    for n in 1..4 {
        bed.apply_file(&file(n, u64::try_from(n).unwrap(), Action::Create), "old");
    }
    assert_eq!((bed.taker(1), bed.taker(2), bed.taker(3)), (Some(id(3)), Some(id(3)), None));
    bed
}

/// Deletes all three; one of them restores the state before Muster.
fn one_gives_back(mut bed: Node, order: [u128; 3]) {
    for (n, number) in order.into_iter().zip(10..) {
        bed.job(&file(n, number, Action::Delete));
        if let Some((_, before)) = bed.runs.first() {
            assert_eq!(*before, old());
            bed.ran(n, Ok(()));
            return;
        }
    }
    panic!("nobody holds what was there before Muster: {order:?}");
}

#[test]
fn a_failed_reclaim_leaves_the_claim_with_the_last_of_a_chain() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3]] {
        let mut bed = a_chain();
        bed.job(&file(1, 4, Action::Update));
        bed.captured(1, Err(failed("no answer")));
        assert_eq!(bed.taker(3), None);
        one_gives_back(bed, order);
    }
}

/// The first takes over from the last again, and the agent ends at any write of that; then all go.
#[test]
fn a_crash_while_one_takes_back_leaves_one_holder() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3]] {
        for survives in 0..4 {
            let mut bed = a_chain();
            bed.disk_is_quick = false;
            bed.job(&file(1, 4, Action::Update));
            for _ in 0..survives {
                bed.write_one();
                if !bed.captures.is_empty() {
                    bed.captured(1, Ok("old"));
                }
            }
            let mut bed = bed.crash();
            let holders = [1, 2, 3].into_iter().filter(|n| bed.taker(*n).is_none()).count();
            assert_eq!(holders, 1, "{survives} writes");
            bed.greet();
            if !bed.captures.is_empty() {
                bed.captured(1, Ok("old"));
            }
            if !bed.runs.is_empty() {
                bed.ran(1, Err(failed("no answer")));
            }
            one_gives_back(bed, order);
        }
    }
}

/// The last of a chain has gone, and restored what was there before Muster.
fn a_chain_that_has_gone() -> Node {
    let mut bed = a_chain();
    bed.job(&file(3, 4, Action::Delete));
    bed.ran(3, Ok(()));
    let key = bed.report().key;
    bed.down(Down::Acknowledge(key));
    bed
}

#[test]
fn a_resource_gone_with_its_taker_stays_gone_after_a_crash() {
    let mut bed = a_chain_that_has_gone().crash();
    assert!(!bed.disk[&id(1)].exists() && !bed.disk[&id(2)].exists());
    bed.greet();
    bed.job(&file(2, 5, Action::Delete));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()), "it is not restored twice");
}

#[test]
fn a_resource_gone_with_its_taker_is_created_like_a_new_one() {
    // The ledger no longer lists the resource.
    let ends: [fn(Node) -> Node; 2] = [
        |bed| bed,
        |mut bed| {
            // Neither record that says so had come to disk.
            let chain = a_chain().disk;
            bed.disk.extend([1, 2].map(|n| (id(n), chain[&id(n)].clone())));
            let mut bed = bed.crash();
            bed.greet();
            bed
        },
    ];
    for end in ends {
        let mut bed = end(a_chain_that_has_gone());
        assert_eq!(bed.agent.jobs.ledger.digest(), 0, "a restored store may have a row of the first");
        bed.captures.clear();
        bed.job(&file(1, 5, Action::Update));
        assert_eq!(bed.captures.len(), 1);
        bed.captured(1, Ok("old"));
        bed.ran(1, Ok(()));
        bed.job(&file(1, 6, Action::Delete));
        assert_eq!(bed.runs[0].1, old());
    }
}

#[test]
fn what_another_left_to_a_third_one_has_not_gone_with_it() {
    let mut bed = a_chain();
    bed.job(&file(2, 4, Action::Delete));
    assert_eq!((bed.runs.len(), bed.taker(1)), (0, Some(id(3))));
    assert!(bed.disk[&id(1)].applied.is_some(), "the third one may give it back");
}

/// The moment of a holding that has gone is known by its number: after a restart no other holding gets that.
#[test]
fn a_holding_after_a_restart_is_not_one_that_has_gone() {
    let mut bed = Node::online();
    bed.disk_is_quick = false;
    let gone = [(id(1), Order(1000))].into();
    bed.disk.insert(id(9), Entry { gone, ..Entry::new(id(9)) });
    let mut bed = bed.crash();
    bed.greet();
    bed.apply_file(&file(1, 1, Action::Create), "old");
    let since = bed.disk[&id(1)].holding.as_ref().unwrap().since;
    assert!(since > Order(1000), "{since:?}");
}

fn links(n: u128, number: u64, action: Action, names: &[&str]) -> Job {
    let links: Vec<String> =
        names.iter().map(|name| format!(r#"{{"type": "interface", "name": "{name}"}}"#)).collect();
    let config = NetworkConfig {
        document: format!("[{}]", links.join(", ")),
        mapping: BTreeMap::default(),
        confirm_timeout: 0,
        on_delete: OnDelete::default(),
    };
    job(n, number, action, Spec::Network(config))
}

/// Resource 2 took over two links of resource 1 and wants only one: until it has restored the other, that is
/// its own.
#[test]
fn an_unwanted_taken_over_claim_stays_until_it_is_restored() {
    for works in [true, false] {
        let mut bed = Node::online();
        bed.apply_file(&links(1, 1, Action::Create, &["eth1", "eth2"]), "both");
        bed.job(&links(2, 2, Action::Create, &["eth1"]));
        bed.captured(2, Ok("both"));
        bed.ran(2, if works { Ok(()) } else { Err(failed("no carrier")) });
        bed.reports();
        bed.captures.clear();
        bed.job(&links(3, 3, Action::Create, &["eth2"]));
        let known = &bed.captures[0].1;
        if works {
            assert!(known.is_empty(), "what is there now is as it was before the first of them");
        } else {
            assert_eq!(*known, [Before::new(b"both".to_vec())]);
        }
    }
}

/// Resource 2 has the link of resource 1, which is then to have none: it restores nothing.
#[test]
fn one_that_gives_up_what_another_took_over_leaves_it_alone() {
    let mut bed = Node::online();
    bed.apply_file(&links(1, 1, Action::Create, &["eth1"]), "one");
    bed.apply_file(&links(2, 2, Action::Create, &["eth1"]), "one");
    bed.captures.clear();
    bed.job(&links(1, 3, Action::Update, &[]));
    assert!(bed.captures[0].1.is_empty(), "what was there before is known to the other alone");
}

/// Resource 2 took over a link of resource 1, changed another one besides, and could not be undone: its end
/// gives up the one and restores the other, also when a crash comes in between.
#[test]
fn an_unapplied_resource_restores_what_it_did_not_take_over() {
    for crash in [false, true] {
        let mut bed = Node::online();
        bed.apply_file(&links(1, 1, Action::Create, &["eth1", "eth2"]), "eth1, eth2");
        bed.job(&links(2, 2, Action::Create, &["eth1", "eth4"]));
        bed.captured(2, Ok("all"));
        bed.falls_back(2);
        bed.job(&links(2, 3, Action::Delete, &["eth1", "eth4"]));
        assert_eq!(bed.taker(1), Some(id(2)), "not before the end");
        if crash {
            bed = bed.crash();
            bed.restored(Ok(()));
            bed.reconnect();
            bed.job(&again(&links(2, 3, Action::Delete, &["eth1", "eth4"]), 1));
        }
        assert_eq!(bed.runs.last().map(|(job, _)| job.action), Some(Action::Delete));
        let (_, before) = bed.runs.last().unwrap();
        assert_eq!(*before, Some(Before::new(b"all".to_vec())));
        assert_eq!(bed.theirs.last(), Some(&vec![Before::new(b"eth1, eth2".to_vec())]));
        bed.ran(2, Err(failed("no carrier")));
        bed.job(&again(&links(2, 3, Action::Delete, &["eth1", "eth4"]), 2));
        assert_eq!(bed.theirs.last().map(Vec::len), Some(1), "nor is it forgotten in another attempt");
        bed.ran(2, Ok(()));
        assert_eq!((bed.taker(1), bed.disk[&id(1)].exists()), (None, true));
    }
}

/// Resource 2 has nothing of its own besides: its end changes nothing.
#[test]
fn an_unapplied_resource_with_only_taken_claims_changes_nothing() {
    let mut bed = Node::online();
    bed.apply_file(&links(1, 1, Action::Create, &["eth1", "eth2"]), "eth1, eth2");
    bed.job(&links(2, 2, Action::Create, &["eth1"]));
    bed.captured(2, Ok("eth1, eth2"));
    bed.ran(2, Err(failed("it differs after all")));
    bed.reports();
    bed.job(&links(2, 3, Action::Delete, &["eth1"]));
    assert_eq!((bed.runs.len(), bed.report().outcome), (0, done()));
    assert_eq!((bed.taker(1), bed.disk[&id(1)].exists()), (None, true));
}

/// Resource 2 took over from resource 1 and restored what it did not want of it; another one may have that
/// by now.
#[test]
fn what_was_put_back_of_what_it_took_over_is_not_put_back_again() {
    let mut bed = Node::online();
    bed.apply_file(&links(1, 1, Action::Create, &["eth1", "eth2"]), "eth1, eth2");
    bed.job(&links(2, 2, Action::Create, &["eth1"]));
    bed.captured(2, Ok("eth1, eth2"));
    let (key, observed) = (bed.runs.pop().unwrap().0.key(), Ok(Observed::default()));
    bed.input(Input::Ran {
        key,
        outcome: observed,
        before: Some(Before::new(b"eth1".to_vec())),
        touched: false,
    });
    bed.captures.clear();
    bed.job(&links(2, 3, Action::Update, &["eth1", "eth3"]));
    assert_eq!(bed.captures[0].1, [Before::new(b"eth1".to_vec())]);
    bed.captured(2, Ok("eth1, eth3"));
    let claims = bed.disk[&id(2)].claims().iter().map(|claim| claim.key.as_str());
    assert_eq!(claims.collect::<Vec<_>>(), ["eth1", "eth3"]);
}
