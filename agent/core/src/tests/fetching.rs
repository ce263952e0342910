//! Contents that do not fit a job.

use std::time::Duration;

use muster_shared::model::{Action, Content, ContentDigest, Down, Job, Outcome, Up};

use super::node::{Node, again, done, failed, file, job};
use crate::fetch::CONTENTS_MAX;
use crate::{ContentState, ContentStep, Input, Retry, RunError};

const SIZE: u64 = 300;

fn digest(n: u8) -> ContentDigest {
    ContentDigest([n; 32])
}

fn stored(n: u8) -> Job {
    let content = Content::Stored { digest: digest(n), size: SIZE };
    job(n.into(), 1, Action::Create, file(&format!("/{n}"), content))
}

fn chunk(n: u8, offset: u64, length: usize) -> Down {
    Down::Chunk { digest: digest(n), offset, bytes: vec![n; length] }
}

fn asked(bed: &mut Node) -> Vec<(ContentDigest, u64)> {
    let sent = std::mem::take(&mut bed.sent);
    let fetches = sent.into_iter().filter_map(|up| match up {
        Up::Fetch { digest, offset } => Some((digest, offset)),
        _ => None,
    });
    fetches.collect()
}

/// The steps for contents since the last call.
fn steps(bed: &mut Node) -> Vec<(ContentDigest, ContentStep)> {
    std::mem::take(&mut bed.contents)
}

fn append(n: u8, offset: u64, length: usize) -> (ContentDigest, ContentStep) {
    (digest(n), ContentStep::Append { offset, bytes: vec![n; length] })
}

#[test]
fn chunk_by_chunk_then_verified_then_run_then_gone() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Find)]);
    bed.content(digest(1), ContentState::Have(0));
    assert_eq!(asked(&mut bed), [(digest(1), 0)]);
    bed.down(chunk(1, 0, 200));
    assert_eq!(steps(&mut bed), [append(1, 0, 200)]);
    bed.content(digest(1), ContentState::Have(200));
    assert_eq!(asked(&mut bed), [(digest(1), 200)]);
    bed.down(chunk(1, 0, 200));
    assert_eq!(steps(&mut bed), [], "a chunk that comes twice");
    bed.down(chunk(1, 200, 100));
    bed.content(digest(1), ContentState::Have(SIZE));
    assert_eq!(steps(&mut bed), [append(1, 200, 100), (digest(1), ContentStep::Verify)]);
    assert!(bed.captures.is_empty() && bed.runs.is_empty());
    bed.content(digest(1), ContentState::Verified);
    bed.captured(1, Ok(""));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Drop)]);
}

#[test]
fn goes_on_where_it_stopped() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    bed.content(digest(1), ContentState::Have(0));
    bed.down(chunk(1, 0, 200));
    bed.content(digest(1), ContentState::Have(200));
    asked(&mut bed);
    bed.input(Input::Disconnected { reason: "reset".into() });
    bed.after(Duration::from_secs(1));
    bed.greet();
    assert_eq!(asked(&mut bed), [(digest(1), 200)], "after a reconnect");
    let mut bed = bed.crash();
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Find)]);
    bed.content(digest(1), ContentState::Have(200));
    bed.greet();
    assert_eq!(asked(&mut bed), [(digest(1), 200)], "after a restart");
    bed.after(Duration::from_secs(30));
    assert_eq!(asked(&mut bed), [(digest(1), 200)], "after silence");
}

#[test]
fn one_at_a_time_and_nothing_else_waits_for_it() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    bed.job(&stored(2));
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Find)]);
    bed.job(&super::node::create(9, 1));
    assert_eq!(bed.runs.len(), 1, "a job without a content does not wait");
    bed.down(Down::Withdraw { resource: super::node::id(1), generation: super::node::generation(1) });
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Drop), (digest(2), ContentStep::Find)]);
    assert_eq!(bed.report().outcome, Outcome::Withdrawn);
}

/// The job that runs last has the path: that must be the later of two, however long the first one's content takes.
#[test]
fn a_later_job_that_claims_the_same_waits_also_after_a_restart() {
    let on_path = |n: u8, path, content| job(n.into(), 1, Action::Create, file(path, content));
    let mut bed = Node::online();
    bed.job(&stored(1));
    bed.content(digest(1), ContentState::Have(SIZE));
    bed.content(digest(1), ContentState::Verified);
    bed.captured(1, Ok(""));
    bed.job(&on_path(2, "/1", Content::Inline(b"later".to_vec())));
    bed.job(&on_path(3, "/1", Content::Inline(b"last".to_vec())));
    let mut bed = bed.crash();
    bed.greet();
    bed.job(&on_path(4, "/4", Content::Inline(b"elsewhere".to_vec())));
    bed.captured(4, Ok(""));
    bed.ran(4, Ok(()));
    assert_eq!(bed.report().key.resource, super::node::id(4), "what claims another thing does not wait");
    assert!(bed.captures.is_empty() && bed.runs.is_empty(), "{:?} {:?}", bed.captures, bed.runs);
    bed.content(digest(1), ContentState::Have(SIZE));
    bed.content(digest(1), ContentState::Verified);
    for n in [1, 2, 3] {
        if n > 1 {
            bed.captured(n, Ok(""));
        }
        bed.ran(n, Ok(()));
        assert_eq!(bed.report().key.resource, super::node::id(n), "in the order they came");
    }
}

#[test]
fn what_cannot_be_had_fails_the_job() {
    type Fail = fn(&mut Node);
    let failures: [(&str, Fail); 5] = [
        ("the controller does not have", |bed| bed.down(chunk(1, 0, 0))),
        ("longer than the 300 bytes", |bed| bed.down(chunk(1, 0, 301))),
        ("disk damaged", |bed| {
            bed.down(chunk(1, 0, 200));
            bed.input(Input::Content { digest: digest(1), state: Err(failed("disk damaged")) });
        }),
        ("longer on disk", |bed| {
            bed.down(chunk(1, 0, 200));
            bed.content(digest(1), ContentState::Have(400));
        }),
        ("twice with a wrong digest", |bed| {
            for _ in 0..2 {
                bed.down(chunk(1, 0, 300));
                bed.content(digest(1), ContentState::Have(SIZE));
                bed.content(digest(1), ContentState::Corrupt);
            }
        }),
    ];
    for (want, fail) in failures {
        let mut bed = Node::online();
        bed.job(&stored(1));
        bed.content(digest(1), ContentState::Have(0));
        fail(&mut bed);
        let outcome = bed.report().outcome;
        assert!(
            matches!(&outcome, Outcome::Failed { reason, permanent: false } if reason.contains(want)),
            "{want}: {outcome:?}"
        );
        assert_eq!(steps(&mut bed).pop(), Some((digest(1), ContentStep::Drop)));
        assert!(bed.runs.is_empty());
    }
}

#[test]
fn a_delete_needs_no_content() {
    let mut bed = Node::online();
    bed.job(&Job { action: Action::Delete, generation: super::node::generation(2), ..stored(6) });
    assert_eq!(bed.report().outcome, done());
}

/// Three contents of which two fit: the third is fetched when the job of the first has ended.
#[test]
fn no_room_for_a_content_is_waited_for() {
    let mut bed = Node::online();
    let size = CONTENTS_MAX / 5 * 2;
    // The oldest has the digest that comes last.
    for n in [9_u8, 2, 1] {
        let content = Content::Stored { digest: digest(n), size };
        bed.job(&job(n.into(), 1, Action::Create, file(&format!("/{n}"), content)));
    }
    let mut fetched = Vec::new();
    for _ in 0..2 {
        let (digest, step) = bed.contents.pop().expect("one is asked for");
        assert_eq!(step, ContentStep::Find);
        fetched.push(digest);
        bed.content(digest, ContentState::Have(size));
        bed.contents.clear();
        bed.content(digest, ContentState::Verified);
    }
    assert_eq!(fetched, [digest(9), digest(2)], "the oldest first");
    assert_eq!(bed.contents, [], "it waits");
    assert_eq!(bed.reports(), [], "and nothing has failed");
    bed.captured(9, Ok(""));
    bed.ran(9, Ok(()));
    let drop = (digest(9), ContentStep::Drop);
    assert_eq!(bed.contents, [drop, (digest(1), ContentStep::Find)]);
}

/// 200 bytes of content `n` are there, and the disk has no room for more.
fn no_room(bed: &mut Node, n: u8) {
    if steps(bed) == [(digest(n), ContentStep::Find)] {
        bed.content(digest(n), ContentState::Have(200));
    }
    bed.down(chunk(n, 200, 100));
    assert_eq!(steps(bed), [append(n, 200, 100)]);
    let error = RunError { reason: "fetch: no space left".into(), retry: Retry::WhenRoom };
    bed.input(Input::Content { digest: digest(n), state: Err(error) });
}

fn told_no_room(bed: &mut Node) {
    let report = bed.report();
    assert_eq!(report.outcome, Outcome::NoRoom { reason: "fetch: no space left".into() });
    bed.down(Down::Acknowledge(report.key));
}

#[test]
fn no_room_on_the_disk_fails_nothing_and_what_is_there_stays() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    for attempt in 1..=3 {
        no_room(&mut bed, 1);
        told_no_room(&mut bed);
        assert_eq!(steps(&mut bed), [], "nothing is dropped");
        bed.after(Duration::from_secs(60));
        bed.job(&again(&stored(1), attempt));
    }
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Find)]);
    bed.content(digest(1), ContentState::Have(200));
    bed.sent.clear();
    bed.down(chunk(1, 200, 100));
    bed.content(digest(1), ContentState::Have(SIZE));
    bed.content(digest(1), ContentState::Verified);
    bed.captured(1, Ok(""));
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
    assert_eq!(steps(&mut bed).pop(), Some((digest(1), ContentStep::Drop)));
}

#[test]
fn what_an_attempt_leaves_goes_when_nobody_comes_back() {
    let dropped = [(digest(1), ContentStep::Drop)];
    type Next = fn(&mut Node);
    let rows: [(&str, Next); 3] = [
        ("its time is over", |bed| bed.after(Duration::from_secs(600))),
        ("records need the room", |bed| bed.input(Input::Room(Err("state: no space left".into())))),
        ("another content needs the room", |bed| {
            bed.job(&stored(2));
            bed.sent.clear();
            no_room(bed, 2);
            assert_eq!(bed.reports(), [], "that one is tried once more first");
            assert_eq!(bed.contents.pop(), Some((digest(2), ContentStep::Find)));
        }),
    ];
    for (why, next) in rows {
        let mut bed = Node::online();
        bed.job(&stored(1));
        no_room(&mut bed, 1);
        told_no_room(&mut bed);
        bed.after(Duration::from_secs(599));
        bed.job(&again(&stored(1), 1));
        no_room(&mut bed, 1);
        bed.sent.clear();
        assert_eq!(steps(&mut bed), []);
        next(&mut bed);
        assert_eq!(steps(&mut bed), dropped, "{why}");
    }
}

#[test]
fn what_was_fetched_stays_for_the_next_attempt_alone() {
    let mut bed = Node::online();
    bed.job(&stored(1));
    bed.content(digest(1), ContentState::Have(SIZE));
    bed.content(digest(1), ContentState::Verified);
    bed.captured(1, Ok(""));
    steps(&mut bed);
    bed.ran(1, Err(failed("the folder is not there")));
    assert_eq!(steps(&mut bed), [], "the next attempt wants it");
    bed.job(&again(&stored(1), 1));
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Find)]);
    bed.content(digest(1), ContentState::Have(SIZE));
    bed.content(digest(1), ContentState::Verified);
    steps(&mut bed);
    bed.ran(1, Err(RunError { reason: "there is a folder".into(), retry: Retry::Never }));
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Drop)], "none follows");
}

/// Kept contents count: both together are over the limit.
#[test]
fn what_is_kept_makes_room_for_what_is_wanted() {
    let mut bed = Node::online();
    let large = |n: u8| {
        let content = Content::Stored { digest: digest(n), size: CONTENTS_MAX / 3 * 2 };
        job(n.into(), 1, Action::Create, file(&format!("/{n}"), content))
    };
    bed.job(&large(1));
    no_room(&mut bed, 1);
    bed.job(&large(2));
    assert_eq!(steps(&mut bed), [(digest(1), ContentStep::Drop), (digest(2), ContentStep::Find)]);
}
