//! A server that restarts, fails over, hangs, refuses, or belongs to somebody else.

mod proxy;

use std::path::Path;
use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use muster_engine::record::{Change, EventRecord};
use muster_testbed::{Postgres, eventually};
use proxy::{Proxy, Trick};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::wait::{self, Deadline};
use crate::store::sql::{Db, values};
use crate::store::testing::{Place, SITE};
use crate::store::{Database, Failure, Location, Store as _, StoreError};

/// The time after which a test's server counts as hanging.
const SOON: Duration = Duration::from_secs(6);

fn open(url: &str, key_file: &Path) -> Result<Database, StoreError> {
    let Location::Postgres(server) = url.parse()? else { panic!("{url}") };
    Database::open(&Location::Postgres(Box::new(server.within(SOON))), key_file)
}

fn event(number: u64) -> Change {
    let (action, status, reason) = ("CREATE", "COMPLETE", "".into());
    Change::Event(EventRecord { stack: 1, number, resource: None, action, status, reason, actor: None })
}

fn commit(store: &mut Database, number: u64) -> Result<(), StoreError> {
    store.commit(&mut std::iter::once(event(number)), &[])
}

/// The events that are there, as one text.
fn events(server: &Postgres) -> String {
    server.psql(SITE, "SELECT string_agg(number::text, ' ' ORDER BY number) FROM events")
}

fn numbers(upto: u64) -> String {
    (1..=upto).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

/// Commits events one after the other, as a controller does: after an error it looks at what is there, and goes
/// on from that. Returns the last number that was acknowledged.
fn commits(store: &mut Database, from: u64, upto: u64, acknowledged: impl Fn(u64)) {
    let mut next = from;
    while next <= upto {
        match commit(store, next) {
            Ok(()) => {
                acknowledged(next);
                next += 1;
            }
            Err(error) => {
                assert_eq!(error.failure(), Failure::Busy, "{error}");
                let there = eventually("the database can be read again", || {
                    let sql = "SELECT coalesce(max(number), 0) FROM events";
                    store.db().only(sql, &[], |row| row.get::<u64>(0)).ok()
                });
                assert!(there == next || there + 1 == next, "{there} after {next}: something is lost");
                next = there + 1;
            }
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill_of_the_server() {
    let mut place = Place::postgres();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    let mut server = place.server.take().unwrap();
    for round in 0..3 {
        let (sender, reached) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let store = &mut store;
            let writer = scope.spawn(move || {
                commits(store, round * 60 + 1, round * 60 + 60, |number| sender.send(number).unwrap());
            });
            // In the middle of its commits.
            while reached.recv().unwrap() < round * 60 + 20 {}
            server.kill();
            server.restart();
            writer.join().unwrap();
        });
    }
    assert_eq!(events(&server), numbers(180));
}

#[test]
fn what_was_acknowledged_is_on_the_standby_that_is_promoted() {
    let mut place = Place::postgres();
    let mut primary = place.server.take().unwrap();
    let standby = primary.standby("second");
    primary.set("synchronous_standby_names = 'second'");
    eventually("the standby is synchronous", || {
        (primary.psql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync").then_some(())
    });
    let sockets =
        [&primary, &standby].map(|server| server.socket_dir().display().to_string().replace('/', "%2F"));
    let url = format!("postgres://muster@{}/{SITE}", sockets.join(","));
    let mut store = open(&url, &place.key_file()).unwrap();
    let (sender, reached) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            commits(&mut store, 1, 100, |number| sender.send(number).unwrap());
        });
        while reached.recv().unwrap() < 40 {}
        primary.kill();
        standby.promote();
        writer.join().unwrap();
    });
    assert_eq!(events(&standby), numbers(100));
}

/// A signal for the session that writes.
fn signal(server: &Postgres, name: &str) {
    let pid = server.psql(
        "postgres",
        "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted",
    );
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success(), "{pid}");
}

#[test]
fn a_server_that_hangs_is_given_up_and_found_again() {
    let place = Place::postgres();
    let server = place.server.as_ref().unwrap();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    commit(&mut store, 1).unwrap();
    signal(server, "STOP");
    let mut changes = [event(2)].into_iter();
    let error = store.commit(&mut changes, &[]).unwrap_err();
    assert_eq!(error.failure(), Failure::Busy, "{error}");
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(changes.next().is_some(), "it was busy before it took anything");
    signal(server, "CONT");
    eventually("the store works again", || store.probe().ok());
    commit(&mut store, 2).unwrap();
    assert_eq!(events(server), "1 2");
}

#[test]
fn a_server_that_is_away_takes_nothing_of_a_commit() {
    let mut place = Place::postgres();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    commit(&mut store, 1).unwrap();
    let server = place.server.as_mut().unwrap();
    server.stop();
    for _ in 0..2 {
        let mut changes = [event(2)].into_iter();
        let error = store.commit(&mut changes, &[]).unwrap_err();
        assert_eq!(error.failure(), Failure::Busy, "{error}");
        assert!(changes.next().is_some());
    }
    server.restart();
    commit(&mut store, 2).unwrap();
    assert_eq!(events(server), "1 2");
}

/// The connection is lost between the commit and its answer, or before the commit arrives.
#[test]
fn a_commit_whose_answer_is_lost_is_decided() {
    let place = Place::postgres();
    let server = place.server.as_ref().unwrap();
    for rows in [1, 3000] {
        for (trick, is_made) in [(Trick::LoseAnswer, true), (Trick::LoseCommit, false)] {
            let proxy = Proxy::start(&server.socket_dir());
            let mut store = open(&proxy.url(SITE), &place.key_file()).unwrap();
            proxy.play(trick);
            let done = store.commit(&mut (1..=rows).map(event), &[]);
            assert_eq!(done.is_ok(), is_made, "{trick:?}, {rows}: {done:?}");
            let there = server.psql(SITE, "SELECT count(*) FROM events");
            assert_eq!(there, if is_made { rows.to_string() } else { "0".to_owned() }, "{trick:?}");
            assert!(proxy.played(), "{trick:?}");
            commit(&mut store, rows + 1).unwrap();
            server.psql(SITE, "DELETE FROM events");
        }
    }
}

/// As many writes wait for their answers as may wait: so the commit itself waits for some, and the connection is lost then.
#[test]
fn a_commit_that_waits_for_earlier_writes_is_decided_as_well() {
    let place = Place::postgres();
    let server = place.server.as_ref().unwrap();
    let proxy = Proxy::start(&server.socket_dir());
    let store = open(&proxy.url(SITE), &place.key_file()).unwrap();
    let fill = |last: usize, trick: Option<Trick>| {
        store.db().transaction(|| {
            let mut put = store.db().prepare("INSERT INTO meta VALUES (?1, 'x')")?;
            trick.into_iter().for_each(|trick| proxy.play(trick));
            (0..last).try_for_each(|number| put.execute(values![format!("{last} {number}")]))
        })
    };
    // The statements are prepared by then, so no answer is waited for before the commit.
    fill(1, None).unwrap();
    fill(super::PENDING_MAX - 1, Some(Trick::LoseAnswers)).unwrap();
    assert!(proxy.played());
    let there = server.psql(SITE, "SELECT count(*) FROM meta WHERE value = 'x'");
    assert_eq!(there, super::PENDING_MAX.to_string());
    fill(2, None).unwrap();
}

#[test]
fn rows_of_many_bytes_go_by_several_statements() {
    let place = Place::postgres();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    let long = |number| {
        let Change::Event(event) = event(number) else { panic!("an event") };
        Change::Event(EventRecord { reason: "x".repeat(200 << 10).into(), ..event })
    };
    store.commit(&mut (1..=20).map(long), &[]).unwrap();
    let sql = "SELECT count(*), sum(length(reason)) FROM events";
    assert_eq!(place.server.as_ref().unwrap().psql(SITE, sql), format!("20|{}", 20 * (200 << 10)));
}

/// The connection is lost before the answer, and there is no other one: the answer comes with the next connection.
#[test]
fn a_commit_that_cannot_be_decided_yet_is_said_as_such() {
    let place = Place::postgres();
    let server = place.server.as_ref().unwrap();
    let proxy = Proxy::start(&server.socket_dir());
    let mut store = open(&proxy.url(SITE), &place.key_file()).unwrap();
    proxy.play(Trick::GoAway);
    let error = commit(&mut store, 1).unwrap_err();
    assert!(error.is_undecided() && error.failure() == Failure::Busy, "{error}");
    assert_eq!(events(server), "1");
    let again = commit(&mut store, 2).unwrap_err();
    assert!(!again.is_undecided(), "nothing of it was sent: {again}");
    proxy.comes_back();
    eventually("the store works again", || store.probe().ok());
    commit(&mut store, 2).unwrap();
    assert_eq!(events(server), "1 2");
}

#[test]
fn one_controller_writes_at_a_time() {
    let place = Place::postgres();
    let first = open(&place.url(), &place.key_file()).unwrap();
    let error = open(&place.url(), &place.key_file()).err().unwrap();
    let told = error.to_string();
    assert!(told.contains("is used by muster-controller at a socket"), "{told}");
    drop(first);
    open(&place.url(), &place.key_file()).unwrap();
}

#[test]
fn commits_of_somebody_else_are_noticed() {
    let place = Place::postgres();
    let server = place.server.as_ref().unwrap();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    commit(&mut store, 1).unwrap();
    server.psql(SITE, "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE key = 'commit'");
    commit(&mut store, 2).unwrap_or_else(|error| panic!("it looks when it connects: {error}"));
    server.psql(SITE, "UPDATE meta SET value = '99' WHERE key = 'commit'");
    signal(server, "TERM");
    let error = eventually("the session has ended", || commit(&mut store, 3).err());
    assert!(error.to_string().contains("restart this controller"), "{error}");
    assert_eq!(error.failure(), Failure::Broken);
    assert!(store.load().is_err() && store.probe().is_err());
}

/// Statements that the server refuses fail their own commit, and name the change.
#[test]
fn a_change_in_the_middle_of_many_is_named() {
    let place = Place::postgres();
    let mut store = open(&place.url(), &place.key_file()).unwrap();
    commit(&mut store, 700).unwrap();
    let mut many = (1..2000).map(event);
    let error = store.commit(&mut many, &[]).unwrap_err();
    assert!(error.to_string().starts_with("event 700 of stack 1 cannot be written: "), "{error}");
    assert_eq!(error.failure(), Failure::Mistake);
    store.commit(&mut (701..2000).map(event), &[]).unwrap();
    assert_eq!(place.run("SELECT count(*) FROM events"), "1300");
}

/// The server answers on another thread: to a later write perhaps before the answers to earlier ones are read.
#[test]
fn the_first_of_two_failed_writes_is_named_in_any_answer_order() {
    let place = Place::postgres();
    let store = open(&place.url(), &place.key_file()).unwrap();
    let Db::Postgres(link) = store.db() else { panic!("it is PostgreSQL") };
    let client = link.client().unwrap();
    let refused = |sql| wait::until(client.batch_execute(sql), Deadline::after(SOON)).unwrap();
    let (first, second) = (refused("nonsense"), refused("more nonsense"));
    let mut first = Some(first);
    let mut is_asked = false;
    let at_the_second_look = std::future::poll_fn(move |_| match std::mem::replace(&mut is_asked, true) {
        true => Poll::Ready(first.take().unwrap()),
        false => Poll::Pending,
    });
    link.name("the first");
    link.send(0, link.changes(), at_the_second_look).unwrap();
    link.name("the second");
    let error = link.send(0, link.changes(), std::future::ready(second)).unwrap_err();
    assert!(error.to_string().starts_with("the first cannot be written: "), "{error}");
}

#[test]
fn what_is_wrong_at_a_start_is_said_with_its_remedy() {
    let hba = |data: &Path| {
        let rules = "local all,replication muster trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    };
    let server = Postgres::on_loopback("", &hba);
    let place = Place::sqlite();
    server.create(SITE);
    server.psql("postgres", "CREATE ROLE guest LOGIN PASSWORD 'right'");
    server.psql("postgres", "CREATE DATABASE old ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let port = server.port();
    let tcp =
        |user: &str, database: &str| format!("postgres://{user}@127.0.0.1:{port}/{database}?sslmode=disable");
    for (url, wanted) in [
        (
            tcp("guest:wr0ng", SITE),
            "password authentication failed for user \"guest\"; set user and password in store.url",
        ),
        (tcp("guest:right", SITE), "make the user the owner of the database"),
        (server.url("nowhere"), "database \"nowhere\" does not exist; make it (createdb"),
        (server.url("old"), "the database's encoding is LATIN1"),
        (
            format!("postgres://muster:s3cret@127.0.0.1:1/{SITE}"),
            "no connection to postgres://muster@127.0.0.1:1/site",
        ),
        (
            format!("postgres://muster:s3cret@%2Fnowhere/{SITE}"),
            "no connection to postgres://muster@/nowhere/site",
        ),
    ] {
        let error = open(&url, &place.key_file()).err().unwrap().to_string();
        assert!(error.contains(wanted), "{url}: {error}");
        for secret in ["wr0ng", "right", "s3cret"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
    let standby = server.standby("second");
    let error = open(&standby.url(SITE), &place.key_file()).err().unwrap().to_string();
    assert!(error.contains("does not allow writes"), "{error}");
}

#[test]
fn tls_is_used_and_checked_as_the_url_says() {
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, issuer.pem()).unwrap();
        (issuer, file)
    };
    let ((issuer, roots), (_, other_roots)) = (made("roots.pem"), made("other.pem"));
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let prepare = |data: &Path| {
        std::fs::write(data.join("server.crt"), certificate.pem()).unwrap();
        Postgres::write_private(&data.join("server.key"), &key.serialize_pem());
        std::fs::write(data.join("pg_hba.conf"), "local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
            .unwrap();
    };
    let server = Postgres::on_loopback("ssl = on", &prepare);
    server.create(SITE);
    let (roots, other_roots) = (roots.display(), other_roots.display());
    for (host, query, refused) in [
        ("127.0.0.1", "sslmode=require".to_owned(), None),
        ("127.0.0.1", "".to_owned(), None),
        ("localhost", format!("sslmode=verify-full&sslrootcert={roots}"), None),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={roots}"), None),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={roots}"), Some("not valid for name")),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={other_roots}"),
            Some("invalid peer certificate"),
        ),
        (
            "localhost",
            format!("sslmode=verify-ca&sslrootcert={other_roots}"),
            Some("invalid peer certificate"),
        ),
        ("localhost", "sslmode=verify-full&sslrootcert=/nowhere".to_owned(), Some("sslrootcert /nowhere")),
        ("127.0.0.1", "sslmode=disable".to_owned(), Some("no encryption")),
    ] {
        let url = format!("postgres://muster@{host}:{}/{SITE}?{query}", server.port());
        match (open(&url, &folder.path().join("key")), refused) {
            (Ok(store), None) => {
                let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
                assert!(store.db().only(sql, &[], |row| row.get::<bool>(0)).unwrap(), "{url}");
            }
            (Err(error), Some(wanted)) => assert!(error.to_string().contains(wanted), "{url}: {error}"),
            (Ok(_), Some(_)) => panic!("{url}: connected"),
            (Err(error), None) => panic!("{url}: {error}"),
        }
    }
}
