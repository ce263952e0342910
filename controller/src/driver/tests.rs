//! The order of commit and everything else.

mod bench;
mod blocked;
mod damaged;
mod read_only;
mod revisions;

use std::sync::{Arc, Mutex};

use muster_api::user::Scope;
use muster_engine::record::{Change, Proof, UserRecord};
use muster_engine::{EnvironmentText, Hook, Limits, NewToken, Options, Shown, Source, SourceText, Starts};
use muster_shared::Epoch;
use muster_shared::join::{TokenId, TokenSecret};
use muster_shared::model::{Hello, Observed, Outcome, Report, Up};
use muster_shared::seal::SealPublic;
use rusqlite::ffi;

use super::*;
use crate::link::JoinAsk as LinkJoinAsk;
use crate::store::{Database, PostgresError};

use bench::*;

#[test]
fn nothing_leaves_before_the_one_commit_of_its_turn() {
    let mut bench = Bench::new();
    let mut answer = bench.ask(create(1));
    let mut seen = bench.query();
    assert!(answer.try_recv().is_err() && seen.try_recv().is_err() && bench.log().is_empty());
    bench.driver.turn_over();
    assert_eq!(bench.log(), ["commit", "send"]);
    assert!(answer.try_recv().unwrap().is_ok() && seen.try_recv().unwrap());
    let key = bench.job().key();
    bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    assert!(bench.log().is_empty());
    bench.driver.turn_over();
    assert_eq!(bench.log(), ["commit", "send"]);
    assert_eq!(bench.sent.lock().unwrap().last(), Some(&Down::Acknowledge(key)));
}

#[test]
fn a_change_and_its_row_of_the_audit_are_one_commit() {
    let mut bench = Bench::new();
    let before = bench.audit().len();
    bench.turn(create(1)).unwrap();
    assert_eq!(bench.log(), ["commit", "send"]);
    bench.turn(create(1)).unwrap_err();
    bench.turn(Request::Maintenance { node: web(), on: false }).unwrap();
    let rows = bench.audit();
    let told: Vec<_> = rows[before..].iter().map(|row| (row.action.as_str(), row.result.as_str())).collect();
    assert_eq!(told[0], ("stack create", "ok"));
    assert!(told[1].1.starts_with("refused: "), "{told:?}");
    assert_eq!(told[2..], [("node maintenance", "ok")], "also where nothing else is written");
    // Without the change there is no row.
    bench.breaks(Some(ffi::SQLITE_FULL), false);
    bench.turn(Request::Delete { name: name() }).unwrap_err();
    assert_eq!(bench.audit(), rows);
}

/// The body of a request may take a minute to come.
#[test]
fn a_token_must_count_still_when_its_request_is_taken_up() {
    let mut bench = Bench::new();
    let user = |name: &str, secret_hash| {
        let (name, role, expires) = (name.to_owned(), muster_api::user::Role::Operator, u64::MAX);
        UserRecord { name, role, scope: Scope::default(), proof: Proof::Token(secret_hash), expires }
    };
    bench.turn(Request::NewUser { user: user("ben", [1; 32]), wall: 0 }).unwrap();
    let ben = || Caller {
        actor: "ben".into(),
        from: "192.0.2.9".into(),
        shown: Some(Shown::Token([1; 32])),
        trace: None,
    };
    bench.turn_of(ben(), create(1)).unwrap();
    bench.turn(Request::RevokeUser { name: "ben".to_owned() }).unwrap();
    let refused = bench.turn_of(ben(), Request::Delete { name: name() });
    assert!(matches!(&refused, Err(Refusal::Conflict(why)) if why.contains("revoked")), "{refused:?}");
    let actors: Vec<String> = bench.audit().into_iter().map(|row| row.actor).collect();
    assert_eq!(actors[actors.len() - 3..], ["anna", "ben", "anna"]);
}

/// The name of a stack that is created comes with the body.
#[test]
fn what_a_user_does_not_reach_is_refused_when_it_is_taken_up() {
    let mut bench = Bench::new();
    let scope = Scope { label: Some("rack=r1".parse().unwrap()), stacks: Some("web-*".into()) };
    let user = UserRecord {
        name: "ben".into(),
        role: muster_api::user::Role::Operator,
        scope,
        proof: Proof::Token([1; 32]),
        expires: u64::MAX,
    };
    bench.turn(Request::NewUser { user, wall: 0 }).unwrap();
    let ben = || Caller {
        actor: "ben".into(),
        from: "192.0.2.9".into(),
        shown: Some(Shown::Token([1; 32])),
        trace: None,
    };
    let create = |name: &str| Request::Create {
        name: name.parse().unwrap(),
        source: Source::nothing(),
        options: Options::default(),
    };
    let refused = bench.turn_of(ben(), create("db")).unwrap_err();
    assert!(matches!(&refused, Refusal::Forbidden(why) if why.contains("stacks web-*")), "{refused:?}");
    bench.turn_of(ben(), create("web-1")).unwrap();
    let rows: Vec<(String, String, bool)> = bench
        .audit()
        .into_iter()
        .map(|row| (row.actor, row.target, row.result == "ok"))
        .filter(|(actor, ..)| actor == "ben")
        .collect();
    let row = |target: &str, is_ok| ("ben".to_owned(), target.to_owned(), is_ok);
    assert_eq!(rows, [row("db", false), row("web-1", true)]);
    // The stack keeps the label of whoever made it.
    let other = Scope { label: Some("rack=r2".parse().unwrap()), stacks: None };
    let reach = |scope: &Scope| bench.driver.turns.view().reaches_stack(scope, &"web-1".parse().unwrap());
    assert!(reach(&other).is_err());
    assert!(reach(&Scope { label: Some("rack=r1".parse().unwrap()), stacks: None }).is_ok());
}

/// The store knows each name once.
#[test]
fn a_stack_may_be_made_in_the_turn_in_which_its_name_goes() {
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let done = |bench: &mut Bench| {
        let key = bench.job().key();
        bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    };
    done(&mut bench);
    bench.driver.turn_over();
    bench.turn(Request::Delete { name: name() }).unwrap();
    done(&mut bench);
    let mut answer = bench.ask(create(2));
    bench.driver.turn_over();
    answer.try_recv().unwrap().unwrap();
    assert_eq!(bench.driver.turns.read_only(), None);
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let view = bench.driver.turns.view().stack_view(&name()).unwrap();
    assert_eq!((view.action.as_str(), view.revision), ("CREATE", 1), "the new one is kept");
}

#[test]
fn who_joins_under_a_name_ends_the_connection_of_who_had_it() {
    let mut bench = Bench::new();
    let refused = bench.join(None, 2).unwrap_err();
    assert!(refused.contains("--name web-1"), "{refused}");
    assert!(!bench.log().contains(&"close web-1".to_owned()));
    bench.join(Some("web-1".into()), 2).unwrap();
    assert_eq!(bench.log().last().unwrap(), "close web-1");
    assert_eq!(bench.driver.turns.view().node_seal(&web()).unwrap().0, [2; 32]);
}

#[test]
fn what_environments_say_of_resources_is_known_after_a_restart() {
    let mut bench = Bench::new();
    let Request::Create { name: stack, source, options } = create(1) else { panic!("a create") };
    let text = "resource_registry: {resources: {a: {hooks: [pre-create, pre-delete]}}}".to_owned();
    let environments = vec![EnvironmentText { name: "e".into(), key: None, text }];
    let source = Source::parse(SourceText { environments, ..(*source.text).clone() }).unwrap();
    bench.turn(Request::Create { name: stack.clone(), source, options }).unwrap();
    let hooks = [Hook::PreCreate, Hook::PreDelete];
    for hook in hooks {
        bench.driver.turns.reload(MonoTime::default()).unwrap();
        bench.connect();
        if hook == Hook::PreDelete {
            bench.turn(Request::Delete { name: name() }).unwrap();
        }
        let clear = |hook| Request::ClearHook { stack: name(), resource: "a".into(), hook };
        for other in hooks.into_iter().filter(|other| *other != hook) {
            assert!(matches!(bench.turn(clear(other)), Err(Refusal::Conflict(_))), "{other:?}");
        }
        bench.turn(clear(hook)).unwrap();
        let key = bench.job().key();
        bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
        bench.driver.turn_over();
    }
    assert!(bench.driver.turns.view().stack_view(&stack).is_none());
}

#[test]
fn a_node_removal_is_durable_before_the_node_is_disconnected() {
    // A restarted controller knows the things that are left on the node.
    let mut bench = Bench::new();
    bench.turn(create(1)).unwrap();
    let key = bench.job().key();
    bench.receive(Up::Report(Report { key, outcome: Outcome::Done(Observed::default()) }));
    bench.driver.turn_over();
    bench.log();
    let removed = bench.turn(Request::RemoveNode { node: web() }).unwrap();
    let Answer::NodeRemoved { lost, lost_total: 1, .. } = removed else { panic!("{removed:?}") };
    assert_eq!(lost[0].physical_id, key.resource.to_string());
    assert_eq!(bench.log()[..2], ["commit", "close web-1"]);
    for _ in 0..2 {
        let site = bench.driver.turns.view();
        assert!(site.node_seal(&web()).is_none());
        let node = site.node_views().remove(0);
        assert_eq!((node.state.as_str(), &node.lost), ("lost", &lost));
        let rows = site.resource_views(&name(), true).unwrap();
        assert_eq!((rows.len(), rows[0].phase.as_str()), (1, "node_away"));
        assert_ne!(rows[0].physical_id, lost[0].physical_id);
        bench.driver.turns.reload(MonoTime::default()).unwrap();
    }
    // Who was let in before hears that it is over.
    bench.driver.link_event(LinkEvent::Connected { node: web(), connection: 99 });
    assert_eq!(bench.log().last().map(String::as_str), Some("close web-1"));
    bench.join(Some("web-1".into()), 2).unwrap();
    bench.connect();
    let down = bench.job();
    assert_eq!((down.resource, down.action), (key.resource, muster_shared::model::Action::Delete));
}

#[test]
fn a_clock_that_is_set_ends_no_wait() {
    const YEAR: i64 = 365 * 86_400;
    let dir = tempfile::tempdir().unwrap();
    drop(Database::sqlite(&dir.path().join("muster.db"), &dir.path().join("secrets.key")).unwrap());
    let db = rusqlite::Connection::open(dir.path().join("muster.db")).unwrap();
    let select = "SELECT value FROM meta WHERE key = 'steady'";
    let kept: String = db.query_row(select, [], |row| row.get(0)).unwrap();
    // As after a boot with a clock a year ahead, which was set right since.
    let (boot, booted) = kept.split_once(' ').unwrap();
    let kept = format!("{boot} {}", booted.parse::<i64>().unwrap() + YEAR);
    db.execute("UPDATE meta SET value = ?1 WHERE key = 'steady'", [kept]).unwrap();
    let mut bench = Bench::at(dir);
    let template = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 40000}}
";
    let text = SourceText { name: "t".into(), template: template.into(), ..SourceText::default() };
    let source = Source::parse(text).unwrap();
    bench.turn(Request::Create { name: name(), source, options: Options::default() }).unwrap();
    let select = "SELECT waits_since FROM resources WHERE name = 'w'";
    let since: i64 = db.query_row(select, [], |row| row.get(0)).unwrap();
    let clock = time::OffsetDateTime::now_utc().unix_timestamp();
    assert!((since - clock - YEAR).abs() < 600, "{since}, and the clock shows {clock}");
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let _ = bench.turn(Request::RevokeToken { id: [9; 8] });
    let rows = bench.driver.turns.view().resource_views(&name(), false).unwrap();
    let row = rows.iter().find(|row| row.name == "w").unwrap();
    assert!(row.phase == "signals" && row.phase_seconds < 600, "{row:?}");
}

#[test]
fn a_wait_condition_spans_restarts_and_its_signals_are_sealed() {
    let mut bench = Bench::new();
    let template = "heat_template_version: 2018-08-31
resources:
  h: {type: OS::Heat::WaitConditionHandle}
  w: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: h}, timeout: 40000, count: 2}}
";
    let text = SourceText { name: "t".into(), template: template.into(), ..SourceText::default() };
    let source = Source::parse(text).unwrap();
    bench.turn(Request::Create { name: name(), source, options: Options::default() }).unwrap();
    let signal = || Request::Signal {
        stack: name(),
        resource: "h".into(),
        signal: muster_engine::Signal { data: "marked".into(), ..muster_engine::Signal::default() },
    };
    bench.log();
    bench.turn(signal()).unwrap();
    assert_eq!(bench.log(), ["commit"], "it is durable when it is answered");
    let file = bench.dir.path().join("muster.db");
    let db = rusqlite::Connection::open(&file).unwrap();
    let changed = db.execute("UPDATE resources SET waits_since = waits_since - 30000 WHERE name = 'w'", []);
    assert_eq!(changed, Ok(1));
    for name in ["muster.db", "muster.db-wal"] {
        let bytes = std::fs::read(bench.dir.path().join(name)).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"marked"), "{name}");
    }
    bench.driver.turns.reload(MonoTime::default()).unwrap();
    let revoked = bench.turn(Request::RevokeToken { id: [9; 8] });
    assert!(revoked.is_err(), "only a turn in which what was loaded is taken up");
    let site = bench.driver.turns.view();
    let rows = site.resource_views(&name(), false).unwrap();
    let row = rows.iter().find(|row| row.name == "w").unwrap();
    assert!(row.phase == "signals" && (30_000..30_600).contains(&row.phase_seconds), "{row:?}");
    bench.turn(signal()).unwrap();
    let site = bench.driver.turns.view();
    assert_eq!(site.stack_view(&name()).unwrap().status, "COMPLETE");
    let waits =
        db.query_row("SELECT count(*) FROM resources WHERE waits_since IS NOT NULL", [], |row| row.get(0));
    assert_eq!(waits, Ok(0));
}
