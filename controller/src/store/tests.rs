//! Everything that is written is read again.

use muster_engine::cause::Cause;
use muster_engine::notes::{Notes, Trigger, UnitNotes};
use muster_engine::record::{Change, EventRecord, Observation, ProgressRecord, ResourceRecord, TokenRecord};
use muster_engine::{NewToken, Starts};
use muster_shared::{Epoch, Generation, ResourceId};
use muster_template::Kind;
use serde_json::json;

use super::testing::each;
use super::{Database, Failure, Store as _};

#[test]
fn a_token_is_kept_with_all_it_allows() {
    each(|place| {
        let token = |id: u8, name: Option<&str>, rate: Option<&str>| TokenRecord {
            token: NewToken {
                id: [id; 8],
                secret_hash: [id; 32],
                expires: 7,
                uses: 3,
                name: name.map(str::to_owned),
                labels: [("role".to_owned(), "web".to_owned())].into(),
                rate: rate.map(|rate| rate.parse().unwrap()),
            },
            uses_left: 2,
        };
        let tokens = [token(1, None, None), token(2, Some("web-*"), Some("30/m"))];
        let mut changes = tokens.iter().cloned().map(|token| Change::Token(Box::new(token)));
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().tokens, tokens);
    });
}

#[test]
fn a_change_that_is_refused_is_named_without_its_content() {
    each(|place| {
        let mut store = place.open();
        let event = |reason: &str| {
            let (action, status, reason) = ("CREATE", "COMPLETE", reason.into());
            Change::Event(EventRecord {
                stack: 1,
                number: 4,
                resource: None,
                action,
                status,
                reason,
                actor: None,
            })
        };
        let mut twice = [event("harmless"), event("s3cret")].into_iter();
        let error = store.commit(&mut twice, &[]).unwrap_err();
        assert_eq!(error.failure(), Failure::Mistake);
        let told = error.to_string();
        assert!(told.starts_with("event 4 of stack 1 cannot be written:"), "{told}");
        assert!(told.to_lowercase().contains("unique") && !told.contains("s3cret"), "{told}");
        store.commit(&mut std::iter::once(event("alone")), &[]).unwrap();
    });
}

#[test]
fn a_busy_database_takes_nothing_of_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muster.db");
    let mut store = Database::sqlite(&path, &folder.path().join("key")).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut changes = std::iter::once(Change::TokenRemoved([1; 8]));
    let error = store.commit(&mut changes, &[]).unwrap_err();
    assert_eq!(error.failure(), Failure::Busy, "{error}");
    other.execute_batch("COMMIT").unwrap();
    assert!(changes.next().is_some());
}

#[test]
fn a_stack_that_came_and_went_in_one_commit_keeps_its_ids() {
    each(|place| {
        let removed = Change::StackRemoved { id: 5, name: "web".parse().unwrap(), traversal: 9 };
        place.open().commit(&mut std::iter::once(removed), &[]).unwrap();
        let (_, stack, traversal) = place.load().highest;
        assert_eq!((stack, traversal), (5, 9));
    });
}

#[test]
fn starts_are_recorded_with_their_bits() {
    each(|place| {
        let start = |bits| {
            let mut store = place.open();
            let epoch = store.next_epoch().unwrap();
            (epoch, store.record_start(epoch, bits).unwrap())
        };
        let ((first, _), (second, starts)) = (start(7), start(u64::MAX));
        let mut expected = Starts::default();
        expected.add(first, 7);
        expected.add(second, u64::MAX);
        assert_eq!(starts, expected);
    });
}

/// A lost row, which the store keeps without a stack.
fn row(id: u64, cause: Cause, notes: Option<Notes>) -> ResourceRecord {
    ResourceRecord {
        id,
        physical: ResourceId(uuid::Uuid::from_u128(id.into())),
        stack: 0,
        name: "motd".into(),
        kind: Kind::File,
        type_name: None,
        node: None,
        definition: 0,
        revision: 0,
        dropped: None,
        spec: None,
        handed_over: false,
        replaces: None,
        replaced_by: None,
        retain: false,
        drift_policy: None,
        external_id: None,
        lost_from: None,
        progress: ProgressRecord {
            id,
            action: None,
            cause,
            status: None,
            reason: None,
            applied: false,
            held: None,
            generation: Generation::default(),
            attempt: 0,
            in_flight: false,
            retry_count: 0,
            observed_ready: false,
            attributes: [].into(),
            notes,
            observed: Observation::Unknown,
            unhealthy: false,
            hook: None,
            hooks_cleared: 0,
            causes: Vec::new(),
            waited: None,
            corrections: None,
        },
    }
}

/// `sqlite3` and `psql` show why a job runs and what a row remembers, but for what may be secret.
#[test]
fn causes_and_notes_are_kept_readable_or_sealed() {
    each(|place| {
        let mark = Some(Generation { epoch: Epoch(3), number: 7 });
        let restart = Trigger { names: vec!["conf".to_owned()], mark };
        let unit = UnitNotes { restart, reload: Trigger::default() };
        let mut rows = vec![
            row(1, Cause::UnitRestart, Some(Notes::Unit(Box::new(unit)))),
            row(2, Cause::Traversal, Some(Notes::Hides(vec![json!("s3cret")]))),
            row(3, Cause::LostCleanup, None),
            row(4, Cause::Traversal, None),
        ];
        let mut changes = rows.iter().cloned().map(|row| Change::Resource(Box::new(row)));
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().resources, rows);

        rows[0].progress.notes = Some(Notes::HidesFlows);
        rows[1].progress = ProgressRecord { cause: Cause::Rebuild, ..rows[1].progress.clone() };
        let mut changes = rows.iter().map(|row| Change::Progress(Box::new(row.progress.clone())));
        place.open().commit(&mut changes, &[]).unwrap();
        assert_eq!(place.load().resources, rows);

        let seen = place.run("SELECT cause, notes, secret_notes IS NULL AS clear FROM resources ORDER BY id");
        let flags = if place.server.is_some() { ["t", "f"] } else { ["1", "0"] };
        let wanted = [
            format!("unit_restart|\"hides_flows\"|{}", flags[0]),
            format!("rebuild||{}", flags[1]),
            format!("lost_cleanup||{}", flags[0]),
            format!("||{}", flags[0]),
        ];
        assert_eq!(seen.lines().collect::<Vec<_>>(), wanted);
    });
}
