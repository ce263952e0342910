use std::path::Path;

use muster_engine::record::{Change, EventRecord};
use muster_testbed::{Postgres, eventually};

use super::*;
use crate::store::testing::{Place, SITE};
use crate::store::{Database, Failure, Location, PostgresError, Store as _};

const BOUND: Duration = Duration::from_secs(10);

fn server(place: &Place) -> Box<Server> {
    let Location::Postgres(server) = place.location() else { panic!("{}", place.location()) };
    server
}

fn table(place: &Place, name: &str) -> LeaseTable {
    let addresses = vec![format!("{name}.example:8883")];
    let me = Member { name: name.to_owned(), addresses, instance: format!("{name}'s") };
    LeaseTable::open(&server(place), me, BOUND).unwrap()
}

fn open(place: &Place, key_file: &Path, term: Term) -> Result<Database, StoreError> {
    Database::open_in(&Location::Postgres(Box::new(server(place).within(BOUND))), key_file, Some(term))
}

fn commit(store: &mut Database, number: u64) -> Result<(), StoreError> {
    let (action, status, reason) = ("CREATE", "COMPLETE", "".into());
    let event = EventRecord { stack: 1, number, resource: None, action, status, reason, actor: None };
    store.commit(&mut std::iter::once(Change::Event(event)), &[])
}

#[test]
fn one_of_two_gets_it_and_the_other_sees_whose_it_is() {
    let place = Place::postgres();
    let (c1, c2) = (table(&place, "c1"), table(&place, "c2"));
    assert_eq!((c1.look().unwrap(), c2.look().unwrap()), (None, None));
    let first = c1.take(None, 0xffff_ffff_ffff_fff0).unwrap().unwrap();
    assert_eq!(first, Term { epoch: Epoch(1), bits: 0xffff_ffff_ffff_fff0 });
    assert_eq!(c2.take(None, 2).unwrap(), None);
    let seen = c2.look().unwrap().unwrap();
    assert_eq!((seen.term, seen.holder.name.as_str(), &seen.state), (first, "c1", &LeaseState::Held));
    assert_eq!(seen.holder.addresses, ["c1.example:8883"]);
    assert_eq!(seen.holder.instance, "c1's");

    // What changed since it was seen is not taken.
    let renewed = c1.renew(first, 7).unwrap().unwrap();
    assert_eq!((renewed.beat, renewed.agents), (seen.beat + 1, 7));
    assert_eq!(c2.take(Some(&seen), 2).unwrap(), None);
    let second = c2.take(Some(&renewed), 2).unwrap().unwrap();
    assert_eq!(second, Term { epoch: Epoch(2), bits: 2 });
    assert_eq!(c2.look().unwrap().unwrap().agents, 0);
    assert_eq!(c1.renew(first, 7).unwrap(), None);
    // Neither does the former holder give up what is another one's.
    c1.leave(first, None).unwrap();
    assert_eq!(c1.look().unwrap().unwrap().state, LeaseState::Held);

    let standbys = |table: &LeaseTable| -> Vec<String> {
        table.standbys("c2").unwrap().into_iter().map(|standby| standby.member.name).collect()
    };
    assert_eq!(standbys(&c2), [""; 0], "a look alone is told to nobody");
    c1.announce().unwrap();
    assert_eq!(standbys(&c2), ["c1"]);
    let held = c2.look().unwrap().unwrap();
    let by = |name| Asker::controller(name, "it wants that");
    let asks = |name| c1.ask(&held, "c1", &by(name)).unwrap();
    assert!(asks("c1") && !asks("c9"));
    let asked = c2.renew(second, 0).unwrap().unwrap();
    assert_eq!(
        (asked.state, asked.asker.as_deref()),
        (LeaseState::Asked { heir: "c1".to_owned() }, Some(&by("c1")))
    );
    let heir = |asker| Heir { name: "c1".to_owned(), asker };
    c2.leave(second, Some(&heir(None))).unwrap();
    let left = c1.look().unwrap().unwrap();
    assert_eq!(
        (left.state, left.asker.as_deref()),
        (LeaseState::Left { heir: "c1".to_owned() }, Some(&by("c1")))
    );
    c2.leave(second, Some(&heir(Some(by("c2"))))).unwrap();
    let left = c1.look().unwrap().unwrap();
    assert_eq!(left.asker.as_deref(), Some(&by("c2")));
    // A controller of an earlier version leaves the note as it is, which is of another term then.
    let note = format!(
        "UPDATE lease SET epoch = epoch + 1, heir = NULL, state = 'held' WHERE epoch = {}",
        second.epoch.0
    );
    c1.db().batch(&note).unwrap();
    assert_eq!(c1.look().unwrap().unwrap().asker, None);
    c1.forget_me().unwrap();
    assert_eq!(standbys(&c2), [""; 0]);
}

#[test]
fn a_holder_that_was_replaced_writes_nothing_more() {
    let place = Place::postgres();
    let (c1, c2) = (table(&place, "c1"), table(&place, "c2"));
    let first = c1.take(None, 1).unwrap().unwrap();
    let mut store = open(&place, &place.key_file(), first).unwrap();
    assert_eq!(store.next_epoch().unwrap(), first.epoch);
    commit(&mut store, 1).unwrap();
    c1.take(c1.look().unwrap().as_ref(), 3).unwrap().unwrap();
    let second = c2.take(c2.look().unwrap().as_ref(), 2).unwrap().unwrap();
    let refused = commit(&mut store, 2).unwrap_err();
    let wanted = "another controller has taken the site over, and this one's epoch 1 is over";
    assert!(refused.to_string().contains(wanted) && refused.failure() == Failure::Broken, "{refused}");
    // It gave the site's lock back, and does not get it again. Terms in which nothing was written count.
    assert_eq!(second.epoch, Epoch(3));
    let mut heir = open(&place, &place.key_file(), second).unwrap();
    assert_eq!(heir.next_epoch().unwrap(), second.epoch);
    commit(&mut heir, 3).unwrap();
    let again = open(&place, &place.key_file(), first).err().unwrap();
    assert!(matches!(again, StoreError::Postgres(PostgresError::Deposed { epoch: 1, .. })), "{again}");
    assert_eq!(place.run("SELECT string_agg(number::text, ' ' ORDER BY number) FROM events"), "1 3");
}

/// The look at the lease is given up after the lock's timeout, in a transaction that has begun.
#[test]
fn a_locked_lease_makes_busy_and_no_more() {
    let place = Place::postgres();
    let term = table(&place, "c1").take(None, 1).unwrap().unwrap();
    let mut store = open(&place, &place.key_file(), term).unwrap();
    commit(&mut store, 1).unwrap();
    store.db().batch("SET lock_timeout = '200ms'").unwrap();
    let lock = place.server.as_ref().unwrap().lock(SITE, "lease", "ACCESS EXCLUSIVE");
    for _ in 0..2 {
        let refused = commit(&mut store, 2).unwrap_err();
        assert!(refused.to_string().contains("55P03"), "{refused}");
        assert_eq!(refused.failure(), Failure::Busy, "{refused}");
    }
    drop(lock);
    eventually("the database takes a probe", || store.probe().ok());
    store.load().unwrap();
    commit(&mut store, 2).unwrap();
    assert_eq!(place.run("SELECT string_agg(number::text, ' ' ORDER BY number) FROM events"), "1 2");
}

/// A holder that stopped in the middle of a commit.
#[test]
fn a_take_ends_a_transaction_that_hangs_and_waits_for_none() {
    let place = Place::postgres();
    let (c1, c2) = (table(&place, "c1"), table(&place, "c2"));
    let first = c1.take(None, 1).unwrap().unwrap();
    let store = open(&place, &place.key_file(), first).unwrap();
    let hangs = store.db().transaction(|| {
        store.db().batch("INSERT INTO meta VALUES ('half', 'done')")?;
        let seen = c2.renew(first, 0)?;
        assert!(seen.is_some(), "a renewal waits for no transaction");
        let busy = c2.take(seen.as_ref(), 2);
        assert!(!matches!(busy, Ok(Some(_))), "the holder is in a transaction");
        c2.end_holder()?;
        let seen = c2.look()?;
        assert!(c2.take(seen.as_ref(), 2)?.is_some());
        Ok(())
    });
    assert!(hangs.is_err());
    assert_eq!(place.run("SELECT count(*) FROM meta WHERE key = 'half'"), "0");
}

#[test]
fn a_controller_with_the_data_key_gets_the_sites_shared_keys() {
    let place = Place::postgres();
    let c1 = table(&place, "c1");
    let term = c1.take(None, 1).unwrap().unwrap();
    let (mine, other, another) =
        (place.folder().join("c1"), place.folder().join("c2"), place.folder().join("c3"));
    for folder in [&mine, &other, &another] {
        std::fs::create_dir(folder).unwrap();
    }
    assert!(!c1.fetch_keys(&place.key_file(), &other).unwrap());
    let store = open(&place, &place.key_file(), term).unwrap();
    let pki = crate::pki::Pki::open(&mine).unwrap();
    store.share_keys(&place.location(), &mine).unwrap();
    assert!(c1.fetch_keys(&place.key_file(), &other).unwrap());
    assert_eq!(crate::pki::Pki::open(&other).unwrap().fingerprint(), pki.fingerprint());
    assert!(c1.fetch_keys(&place.key_file(), &other).unwrap());
    let sealed = place.run("SELECT string_agg(encode(bytes, 'escape'), ' ') FROM shared_keys");
    assert!(!sealed.contains("PRIVATE KEY") && !sealed.contains(pki.site().as_str()), "{sealed}");

    // A new data key: a controller that starts next is not stopped by what the old one has sealed.
    let mut store = store;
    store.rekey(&crate::store::KeyFile::at(&place.key_file()), &crate::store::testing::operator()).unwrap();
    assert!(!c1.fetch_keys(&place.key_file(), &other).unwrap());
    store.share_keys(&place.location(), &mine).unwrap();
    assert!(c1.fetch_keys(&place.key_file(), &other).unwrap());

    drop(crate::pki::Pki::open(&another).unwrap());
    let error = c1.fetch_keys(&place.key_file(), &another).unwrap_err().to_string();
    assert!(error.contains("is of a site whose") && error.contains("--data-dir"), "{error}");
    let no_key = place.folder().join("none");
    let error = c1.fetch_keys(&no_key, &other).unwrap_err().to_string();
    assert!(error.contains(&no_key.display().to_string()), "{error}");
}

#[test]
fn a_schema_of_a_newer_controller_is_left_to_that() {
    let place = Place::postgres();
    let c1 = table(&place, "c1");
    c1.check().unwrap();
    drop(open(&place, &place.key_file(), c1.take(None, 1).unwrap().unwrap()).unwrap());
    c1.check().unwrap();
    place.run("UPDATE meta SET value = '99' WHERE key = 'schema'");
    let error = c1.check().unwrap_err().to_string();
    assert!(error.contains("upgrade the controller"), "{error}");
}

/// Both find no table, and both make it.
#[test]
fn two_controllers_begin_at_the_same_moment() {
    let server = Postgres::start();
    server.create(SITE);
    let url: Location = server.url(SITE).parse().unwrap();
    let Location::Postgres(at) = url else { panic!() };
    let taken: Vec<bool> = std::thread::scope(|scope| {
        let begin = |name: &'static str| {
            let at = &at;
            scope.spawn(move || {
                let me = Member { name: name.to_owned(), addresses: Vec::new(), instance: String::new() };
                let table =
                    eventually("the tables are there", || LeaseTable::open(at, me.clone(), BOUND).ok());
                table.take(None, 1).unwrap().is_some()
            })
        };
        let threads = ["c1", "c2", "c3", "c4"].map(begin);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{taken:?}");
}

#[test]
fn a_lease_of_an_earlier_controller_gets_what_it_lacks() {
    let place = Place::postgres();
    let c1 = table(&place, "c1");
    let first = c1.take(None, 1).unwrap().unwrap();
    c1.db().batch("ALTER TABLE lease DROP COLUMN agents").unwrap();
    let c2 = table(&place, "c2");
    assert_eq!(c2.look().unwrap().unwrap().agents, 0);
    assert_eq!(c1.renew(first, 7).unwrap().unwrap().agents, 7);
}
