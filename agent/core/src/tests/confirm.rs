//! A change that can cut the node off: kept only once the controller was reached again, undone in any
//! other case.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{Action, Down, Job, NetworkConfig, OnDelete, Outcome, ReportKey, Spec, Up};

use super::node::{CHALLENGE, HEARTBEAT, Node, done, failed, generation, id, job, key, welcome};
use crate::{Before, Input};

pub(super) const WINDOW: Duration = Duration::from_secs(20);

pub(super) fn network(n: u128, number: u64, action: Action) -> Job {
    let link = format!("[{{\"type\":\"interface\",\"name\":\"eth{n}\"}}]");
    let config = NetworkConfig {
        document: link,
        mapping: BTreeMap::new(),
        confirm_timeout: 20,
        on_delete: OnDelete::Restore,
    };
    job(n, number, action, Spec::Network(config))
}

/// Resource 1's job has changed the network and waits to be confirmed.
pub(super) fn confirming() -> Node {
    let mut bed = running();
    bed.touched(1, Ok(()));
    bed
}

/// Resource 1's job is with the host.
pub(super) fn running() -> Node {
    let mut bed = Node::online();
    bed.job(&network(1, 1, Action::Create));
    bed.captured(1, Ok("before Muster"));
    bed
}

pub(super) fn answer(bed: &mut Node, key: ReportKey, bytes: &[u8]) {
    bed.down(Down::Answer { key, bytes: bytes.to_vec() });
}

fn challenges(bed: &Node) -> usize {
    bed.sent.iter().filter(|up| matches!(up, Up::Challenge { .. })).count()
}

pub(super) fn reason(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { reason, permanent: true } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_it_may_touch_is_on_disk_before_the_first_change() {
    let mut bed = Node::online();
    bed.guards_are_quick = false;
    bed.job(&network(1, 1, Action::Create));
    bed.captured(1, Ok("before Muster"));
    assert!(bed.runs.is_empty());
    bed.disk_is_quick = false;
    bed.guarded(1, "as it was");
    assert!(bed.runs.is_empty());
    bed.write_one();
    let undo = bed.disk[&id(1)].undo.clone().unwrap();
    assert_eq!((undo.key, undo.state), (key(1, 1, 0), Before::new(b"as it was".to_vec())));
    assert_eq!(bed.runs.len(), 1);
}

#[test]
fn it_is_kept_once_a_new_connection_has_answered_the_challenge() {
    let mut bed = confirming();
    assert_eq!(bed.disconnects.len(), 1, "over a new connection");
    assert_eq!(challenges(&bed), 0);
    bed.reconnect();
    assert_eq!(bed.connects, 2);
    let asked = Up::Challenge { key: key(1, 1, 0), bytes: CHALLENGE.to_vec() };
    assert!(bed.sent.contains(&asked), "{:?}", bed.sent);
    assert!(bed.reports().is_empty());
    bed.disk_is_quick = false;
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    assert!(bed.reports().is_empty(), "only what is on disk is said");
    bed.write_one();
    assert_eq!(bed.report().outcome, done());
    let entry = &bed.disk[&id(1)];
    assert!(entry.undo.is_none() && entry.current.is_none() && entry.applied.is_some());
    assert!(bed.restores.is_empty() && !bed.agent.is_guarding());
}

#[test]
fn a_job_that_changes_nothing_needs_no_confirmation() {
    let mut bed = running();
    bed.ran(1, Ok(()));
    assert_eq!(bed.report().outcome, done());
    assert!(bed.disconnects.is_empty() && bed.disk[&id(1)].undo.is_none());
}

#[test]
fn a_job_that_is_refused_before_it_begins_is_not_put_back() {
    let mut bed = running();
    bed.ran(1, Err(failed("no such link")));
    assert_eq!(bed.report().outcome, failed("no such link").into());
    assert!(bed.restores.is_empty() && bed.disk[&id(1)].undo.is_none());
}

#[test]
fn a_job_that_fails_half_way_is_put_back() {
    let mut bed = running();
    bed.touched(1, Err(failed("cannot add the route")));
    assert!(bed.reports().is_empty());
    assert_eq!(bed.restores, [(key(1, 1, 0), Before::new(b"as it was".to_vec()))]);
    bed.restored(Ok(()));
    bed.reconnect();
    let text = reason(bed.report().outcome);
    assert!(text.contains("cannot add the route") && text.contains("has been restored"), "{text}");
    assert!(bed.disk[&id(1)].undo.is_none());
}

#[test]
fn without_an_answer_it_is_put_back_at_its_deadline() {
    let mut bed = confirming();
    bed.after(WINDOW - Duration::from_millis(1));
    assert!(bed.restores.is_empty());
    bed.input(Input::Disconnected { reason: "closed by this side".into() });
    bed.input(Input::Disconnected { reason: "no answer from 192.0.2.1".into() });
    bed.after(Duration::from_millis(1));
    assert_eq!(bed.restores.len(), 1);
    bed.restored(Ok(()));
    bed.greet();
    let text = reason(bed.report().outcome);
    assert!(text.contains("within 20 s"), "{text}");
}

#[test]
fn what_was_seen_is_said() {
    let mut bed = confirming();
    bed.input(Input::Disconnected { reason: "closed by this side".into() });
    bed.input(Input::Timeout);
    bed.input(Input::Disconnected { reason: "no answer from 192.0.2.1".into() });
    bed.after(WINDOW);
    bed.restored(Ok(()));
    bed.reconnect();
    assert!(reason(bed.report().outcome).contains("no answer from 192.0.2.1"));
    let mut bed = confirming();
    bed.reconnect();
    bed.after(WINDOW);
    bed.restored(Ok(()));
    bed.reconnect();
    assert!(reason(bed.report().outcome).contains("got no answer"));
}

#[test]
fn late_wrong_or_misaddressed_answers_decide_nothing() {
    let mut bed = confirming();
    bed.reconnect();
    for (key, bytes) in
        [(key(1, 1, 1), CHALLENGE), (key(2, 1, 0), CHALLENGE), (key(1, 1, 0), b"other" as &[u8])]
    {
        answer(&mut bed, key, bytes);
        assert!(bed.agent.is_guarding() && bed.reports().is_empty());
    }
    bed.now = bed.now + WINDOW;
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    assert!(bed.disk[&id(1)].applied.is_none());
    assert_eq!(bed.restores.len(), 1);
}

#[test]
fn an_answer_on_the_old_connection_decides_nothing() {
    let mut bed = confirming();
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    bed.down(welcome(1, false));
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    assert!(bed.agent.is_guarding() && bed.disk[&id(1)].applied.is_none());
}

#[test]
fn it_connects_again_and_again_and_asks_again() {
    let mut bed = confirming();
    bed.input(Input::Disconnected { reason: "closed by this side".into() });
    bed.input(Input::Timeout);
    for attempt in 3..10 {
        bed.input(Input::Disconnected { reason: "no route".into() });
        bed.after(Duration::from_secs(1));
        assert_eq!(bed.connects, attempt, "no later than after a second");
    }
    bed.greet();
    assert_eq!(challenges(&bed), 1);
    bed.after(Duration::from_secs(3));
    assert_eq!(challenges(&bed), 2);
}

#[test]
fn a_change_that_hangs_is_stopped_and_put_back() {
    let mut bed = running();
    bed.after(WINDOW);
    assert_eq!(bed.cancelled, [key(1, 1, 0)]);
    bed.restored(Ok(()));
    bed.reconnect();
    assert!(reason(bed.report().outcome).contains("not applied within 20 s"));
}

#[test]
fn after_a_crash_it_is_put_back_and_has_failed() {
    for stage in [running, confirming] {
        let mut bed = stage().crash();
        assert!(bed.runs.is_empty());
        assert_eq!(bed.restores, [(key(1, 1, 0), Before::new(b"as it was".to_vec()))]);
        bed = bed.crash();
        bed.restored(Ok(()));
        bed.reconnect();
        assert!(reason(bed.report().outcome).contains("ended before the change was confirmed"));
        assert!(bed.runs.is_empty() && bed.disk[&id(1)].undo.is_none());
        let entry = &bed.disk[&id(1)];
        assert!(!entry.exists(), "it holds what it held before");
        bed.job(&network(1, 2, Action::Update));
        assert_eq!(bed.captures.len(), 1);
    }
}

#[test]
fn nothing_of_the_lane_begins_before_it_is_put_back() {
    let mut bed = confirming();
    bed.reconnect();
    bed.job(&network(2, 1, Action::Create));
    bed.job(&network(1, 2, Action::Update));
    let mut bed = bed.crash();
    assert!(bed.captures.is_empty() && bed.runs.is_empty());
    bed.restored(Ok(()));
    assert!(!bed.captures.is_empty() || !bed.runs.is_empty());
}

#[test]
fn putting_back_is_tried_again_and_falls_back() {
    let mut bed = confirming();
    bed.after(WINDOW);
    for wait in [1, 2, 4, 8] {
        bed.restored(Err("the switch is not running"));
        assert!(bed.restores.is_empty());
        bed.after(Duration::from_secs(wait));
        assert_eq!(bed.restores.len(), 1);
    }
    bed.restored(Err("the switch is not running"));
    assert_eq!(bed.fallbacks, [key(1, 1, 0)]);
    bed.input(Input::Restored { key: key(1, 1, 0), result: Ok(()) });
    bed.reconnect();
    assert!(reason(bed.report().outcome).contains("fallback_config is in force"));
    assert!(bed.disk[&id(1)].undo.is_none());
}

/// Resource 1's change could neither be restored nor replaced.
pub(super) fn not_back() -> Node {
    let mut bed = confirming();
    bed.after(WINDOW);
    for wait in [1, 2, 4, 8, 0] {
        bed.restored(Err("the switch is not running"));
        bed.after(Duration::from_secs(wait));
    }
    bed.fallbacks.clear();
    bed.input(Input::Restored { key: key(1, 1, 0), result: Err("there is none".into()) });
    bed.reconnect();
    bed
}

#[test]
fn what_cannot_be_put_back_is_said_and_tried_for_ever() {
    let mut bed = not_back();
    assert!(reason(bed.report().outcome).contains("cannot be restored: there is none"));
    for _ in 0..3 {
        assert!(bed.disk[&id(1)].undo.is_some() && bed.restores.is_empty());
        bed.after(Duration::from_secs(30));
        assert_eq!(bed.restores.len(), 1);
        for wait in [1, 2, 4, 8, 0] {
            bed.restored(Err("the switch is not running"));
            bed.after(Duration::from_secs(wait));
        }
    }
    let mut bed = bed.crash();
    bed.restored(Ok(()));
    assert!(bed.disk[&id(1)].undo.is_none());
    bed.after(Duration::from_secs(600));
    assert!(bed.restores.is_empty());
}

#[test]
fn a_newer_job_runs_and_is_undone_to_the_last_confirmed_state() {
    let mut bed = not_back();
    bed.guards_are_quick = false;
    bed.job(&network(1, 2, Action::Update));
    bed.guarded(1, "half done");
    bed.touched(1, Ok(()));
    bed.after(WINDOW);
    assert_eq!(bed.restores, [(key(1, 2, 0), Before::new(b"as it was".to_vec()))]);
    let mut bed = not_back();
    bed.job(&network(1, 2, Action::Update));
    bed.touched(1, Ok(()));
    bed.reconnect();
    answer(&mut bed, key(1, 2, 0), CHALLENGE);
    assert!(bed.disk[&id(1)].undo.is_none());
    assert_eq!(bed.disk[&id(1)].applied.as_ref().unwrap().generation, generation(2));
    bed.after(Duration::from_secs(600));
    assert!(bed.restores.is_empty());
}

#[test]
fn a_disk_that_refuses_keeps_nothing() {
    let mut bed = Node::online();
    bed.job(&network(1, 1, Action::Create));
    bed.disk_is_quick = false;
    bed.captured(1, Ok("before Muster"));
    bed.fail_one();
    assert!(bed.runs.is_empty() && bed.restores.is_empty());
    let mut bed = confirming();
    bed.reconnect();
    bed.disk_is_quick = false;
    answer(&mut bed, key(1, 1, 0), CHALLENGE);
    bed.fail_one();
    assert!(bed.reports().is_empty());
    assert_eq!(bed.restores.len(), 1);
    bed.restored(Ok(()));
    bed.write_one();
    bed.reconnect();
    let text = reason(bed.report().outcome);
    assert!(text.contains("disk full") && text.contains("restored"), "{text}");
    assert!(bed.disk[&id(1)].applied.is_none() && bed.disk[&id(1)].undo.is_none());
}

#[test]
fn a_stop_puts_back_what_is_not_confirmed() {
    for stage in [running, confirming] {
        let mut bed = stage();
        bed.job(&network(2, 1, Action::Create));
        bed.input(Input::Stop);
        assert_eq!(bed.restores.len(), 1);
        bed.restored(Ok(()));
        assert!(!bed.agent.is_guarding());
        assert!(bed.captures.is_empty() && bed.runs.is_empty(), "nothing new begins");
        let mut bed = bed.crash();
        assert!(bed.restores.is_empty());
        bed.greet();
        assert!(reason(bed.report().outcome).contains("was stopped"));
    }
}

#[test]
fn a_delete_is_confirmed_as_well() {
    let mut bed = Node::online();
    bed.job(&network(1, 1, Action::Create));
    bed.captured(1, Ok("before Muster"));
    bed.ran(1, Ok(()));
    bed.sent.clear();
    bed.job(&network(1, 2, Action::Delete));
    bed.touched(1, Ok(()));
    bed.after(WINDOW);
    bed.restored(Ok(()));
    bed.reconnect();
    reason(bed.reports().pop().unwrap().outcome);
    assert!(bed.disk[&id(1)].exists());
    bed.job(&network(1, 3, Action::Delete));
    bed.touched(1, Ok(()));
    bed.reconnect();
    answer(&mut bed, key(1, 3, 0), CHALLENGE);
    assert_eq!(bed.reports().pop().unwrap().outcome, done());
    assert!(!bed.disk[&id(1)].exists());
}

#[test]
fn it_says_that_it_begins_and_that_it_goes_on() {
    let bed = running();
    let began = |up: &Up| matches!(up, Up::Progress(progress) if !progress.settling);
    assert!(bed.sent.iter().any(began), "{:?}", bed.sent);
    let mut bed = confirming();
    bed.reconnect();
    bed.after(HEARTBEAT.min(Duration::from_secs(2)));
    let settling = |up: &Up| matches!(up, Up::Progress(progress) if progress.settling);
    assert!(bed.sent.iter().any(settling), "{:?}", bed.sent);
}
