//! Backups on disks of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_engine::record::{Change, NodeRecord};
use muster_shared::seal::SealPublic;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Place, With, backup, restore};
use crate::pki::{self, Pki};
use crate::store::testing::operator;
use crate::store::{Database, Store as _};

struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn place(&self) -> Place {
        let data_dir = self.0.path().to_owned();
        Place { database: data_dir.join("muster.db"), key_file: data_dir.join("secrets.key"), data_dir }
    }

    fn open(&self) -> Database {
        let place = self.place();
        let mut store = Database::sqlite(&place.database, &place.key_file).unwrap();
        store.settle(&place.data_dir, &operator()).unwrap();
        store
    }

    /// A site with one node; its name and its backup.
    fn site(&self, with: With) -> (String, std::path::PathBuf) {
        let mut store = self.open();
        let site = Pki::open(self.0.path()).unwrap().site().to_string();
        let node = NodeRecord {
            name: "web-1".parse().unwrap(),
            labels: [].into(),
            seal_public: SealPublic([7; 32]),
            agent_version: "t".into(),
            revoked: false,
            joined_with: ([1; 8], [2; 32]),
            maintenance: false,
        };
        store.commit(&mut std::iter::once(Change::Node(Box::new(node))), &[]).unwrap();
        let to = self.0.path().join("backup");
        backup(&self.place(), &to, with).unwrap();
        (site, to)
    }

    /// The key of the secrets comes from where it is kept.
    fn take_key(&self, from: &Self) {
        fs::copy(from.place().key_file, self.place().key_file).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn meta(path: &Path, key: &str) -> Option<String> {
    let db = Connection::open(path).unwrap();
    db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).ok()
}

#[test]
fn a_backup_makes_the_same_site_on_a_new_disk() {
    let (old, new) = (Disk::new(), Disk::new());
    let (site, file) = old.site(With::Keys);
    let key = fs::read(old.0.path().join("pki/seal.key")).unwrap();
    let ca_key = fs::read(old.0.path().join("pki/ca.key")).unwrap();
    let bytes = fs::read(&file).unwrap();
    for secret in [&key[..], &ca_key[30..80]] {
        assert!(
            !bytes.windows(secret.len()).any(|found| found == secret),
            "a key lies in the backup in clear"
        );
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    new.take_key(&old);
    restore(&file, &new.place(), &operator()).unwrap();
    assert_eq!(new.names(), ["muster.db", "pki", "secrets.key"]);
    assert_eq!(fs::metadata(new.place().database).unwrap().permissions().mode() & 0o777, 0o600);
    let mut store = new.open();
    assert_eq!(Pki::open(new.0.path()).unwrap().site().to_string(), site);
    let nodes = store.load().unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["web-1"]);
    assert!(meta(&new.place().database, "restored").is_some());

    // And it is backed up as any other.
    let again = new.0.path().join("again");
    backup(&new.place(), &again, With::Keys).unwrap();
    let third = Disk::new();
    third.take_key(&old);
    restore(&again, &third.place(), &operator()).unwrap();
    third.open();
}

#[test]
fn a_backup_that_is_put_in_place_by_hand_gives_its_keys_back() {
    let (old, new) = (Disk::new(), Disk::new());
    let (site, file) = old.site(With::Keys);
    new.take_key(&old);
    fs::copy(&file, new.place().database).unwrap();
    new.open();
    assert_eq!(Pki::open(new.0.path()).unwrap().site().to_string(), site);
    let tables = Connection::open(new.place().database).unwrap();
    let left: u32 = tables
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name IN ('keys', 'site_keys')", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(left, 0, "the keys stay in the live database");
    assert!(
        meta(&new.place().database, "restored").is_some() && meta(&new.place().database, "backup").is_none()
    );

    // In the data directory of another site it is refused, and changes nothing.
    let other = Disk::new();
    let (other_site, _) = other.site(With::Keys);
    fs::copy(&file, other.place().database).unwrap();
    fs::copy(old.place().key_file, other.place().key_file).unwrap();
    let mut store = Database::sqlite(&other.place().database, &other.place().key_file).unwrap();
    let error = store.settle(&other.place().data_dir, &operator()).unwrap_err().to_string();
    assert!(error.contains("is not the one in"), "{error}");
    assert_eq!(Pki::open(other.0.path()).unwrap().site().to_string(), other_site);
}

#[test]
fn keys_in_clear_from_before_are_taken_and_do_not_stay() {
    let (old, new) = (Disk::new(), Disk::new());
    let (site, file) = old.site(With::NoKeys);
    let before = Connection::open(&file).unwrap();
    before
        .execute_batch("DELETE FROM meta WHERE key = 'backup'; CREATE TABLE keys (file TEXT PRIMARY KEY, bytes BLOB NOT NULL)")
        .unwrap();
    for name in pki::FILES {
        let bytes = fs::read(old.0.path().join("pki").join(name)).unwrap();
        before.execute("INSERT INTO keys VALUES (?1, ?2)", rusqlite::params![name, bytes]).unwrap();
    }
    drop(before);
    new.take_key(&old);
    restore(&file, &new.place(), &operator()).unwrap();
    assert_eq!(Pki::open(new.0.path()).unwrap().site().to_string(), site);
    let ca_key = fs::read(old.0.path().join("pki/ca.key")).unwrap();
    let (secret, bytes) = (&ca_key[30..80], fs::read(new.place().database).unwrap());
    assert!(!bytes.windows(secret.len()).any(|found| found == secret), "the CA's key stays in the database");
}

#[test]
fn what_cannot_be_restored_is_said_and_leaves_nothing() {
    let old = Disk::new();
    let (_, file) = old.site(With::Keys);
    let refused = |file: &Path, prepare: &dyn Fn(&Disk), wanted: &str, left: &[&str]| {
        let disk = Disk::new();
        prepare(&disk);
        let error = restore(file, &disk.place(), &operator()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        assert_eq!(disk.names(), left, "{wanted}");
    };
    let with_key = |disk: &Disk| disk.take_key(&old);
    refused(&file, &|_| (), "is not there", &[]);
    refused(
        &file,
        &|disk| {
            let other = Disk::new();
            other.open();
            disk.take_key(&other);
        },
        "but the database is sealed with",
        &["secrets.key"],
    );
    refused(&old.place().database, &with_key, "not a backup", &["secrets.key"]);
    refused(&old.place().key_file, &with_key, "not a backup", &["secrets.key"]);

    let cut = old.0.path().join("cut");
    let bytes = fs::read(&file).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    refused(&cut, &with_key, "", &["secrets.key"]);
    let altered = old.0.path().join("altered");
    fs::copy(&file, &altered).unwrap();
    let db = Connection::open(&altered).unwrap();
    db.execute("UPDATE site_keys SET bytes = zeroblob(100) WHERE file = 'ca.key'", []).unwrap();
    drop(db);
    refused(&altered, &with_key, "the keys in the backup are damaged", &["secrets.key"]);

    let bare = old.0.path().join("bare");
    backup(&old.place(), &bare, With::NoKeys).unwrap();
    refused(&bare, &with_key, "are missing and the fleet trusts them", &["secrets.key"]);
    let error = backup(&old.place(), &bare, With::Keys).unwrap_err().to_string();
    assert!(error.contains("cannot write") && bare.exists(), "{error}");
}

#[test]
fn keys_that_are_kept_elsewhere_go_with_a_backup_without() {
    let (old, new) = (Disk::new(), Disk::new());
    let (site, file) = old.site(With::NoKeys);
    new.take_key(&old);
    fs::create_dir(new.0.path().join("pki")).unwrap();
    for name in pki::FILES {
        fs::copy(old.0.path().join("pki").join(name), new.0.path().join("pki").join(name)).unwrap();
    }
    restore(&file, &new.place(), &operator()).unwrap();
    new.open();
    assert_eq!(Pki::open(new.0.path()).unwrap().site().to_string(), site);
}

#[test]
fn a_fleet_whose_keys_are_gone_is_given_no_others() {
    let disk = Disk::new();
    disk.site(With::Keys);
    fs::remove_dir_all(disk.0.path().join("pki")).unwrap();
    let mut store = Database::sqlite(&disk.place().database, &disk.place().key_file).unwrap();
    let error = store.settle(&disk.place().data_dir, &operator()).unwrap_err().to_string();
    assert!(
        error.contains("the fleet trusts them") && error.contains("muster-controller restore"),
        "{error}"
    );
}
