//! Backups: one file that a site starts again from, on another disk too.
//!
//! ```text
//!   the database, as it was at one moment       what is sealed in it stays sealed
//!   site_keys                                   the files of <data-dir>/pki, sealed with the data key; left out on demand
//!   meta.backup                                 when it was made: what is opened with this in it is a backup
//! ```
//!
//! No backup contains the data key, so a stolen backup reveals no secret and cannot impersonate the site. A
//! database from a backup is marked from then on: `meta.restored`.
//!
//! Absent: a copy to a database of another kind (`copy.rs`), and what a restored site does with what servers hold
//! (`controller/engine/src/restored.rs`).

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::database::now;
use super::key::{DataKey, KeyFile};
use super::rekey::{note_scrub, sealed_with};
use super::schema::{has_table, version};
use super::sql::{Db, values};
use super::{Database, StoreError, audit, meta};
use crate::audit_of_commands::Runner;
use crate::pki;

/// A key of a site is some hundred bytes.
const KEY_MAX: i64 = 64 * 1024;
/// The time that another program may hold the database.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Contents of a backup in addition to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// The site's keys, sealed.
    Keys,
    /// No keys: they are kept elsewhere.
    NoKeys,
}

/// The places of the data for a backup.
#[derive(Clone, Debug)]
pub struct Place {
    /// Holds the folder `pki`.
    pub data_dir: PathBuf,
    pub database: PathBuf,
    /// The file of the data key.
    pub key_file: PathBuf,
}

/// The files of `<data-dir>/pki`.
pub(super) type SiteKeys = Vec<(String, Vec<u8>)>;

/// Copies the database to a new file; the controller may be running.
///
/// # Errors
/// [`StoreError`], also if the file exists; a partial copy is removed.
pub fn backup(place: &Place, to: &Path, with: With) -> Result<(), StoreError> {
    let db = Connection::open_with_flags(&place.database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.busy_timeout(BUSY_WAIT)?;
    let made = new_file(to);
    made.map_err(|error| failed(format!("cannot write {}: {error}", to.display())))?;
    let copied = copy(&db, to).and_then(|target| {
        let target = Db::Sqlite(target);
        target.transaction(|| {
            if with == With::Keys {
                seal_keys(&target, place)?;
            }
            meta::put(&target, "backup", &now())
        })?;
        sync(to)
    });
    copied.inspect_err(|_| drop(fs::remove_file(to)))
}

/// Restores a backup's site to a data directory that has none. The data key must be there already.
///
/// # Errors
/// [`StoreError`]: then there is no database, and the call can be repeated.
pub fn restore(from: &Path, place: &Place, by: &Runner) -> Result<(), StoreError> {
    let new = place.database.with_extension("db.new");
    let leave = || {
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut file = new.clone().into_os_string();
            file.push(end);
            drop(fs::remove_file(file)); // most are not there
        }
    };
    leave();
    restore_as(from, &new, place, by).inspect_err(|_| leave())
}

fn restore_as(from: &Path, new: &Path, place: &Place, by: &Runner) -> Result<(), StoreError> {
    let wrong = |why: &str| failed(format!("{}: {why}", from.display()));
    let source = Db::read_sqlite(from)?;
    let made = made(&source)
        .map_err(|error| wrong(&format!("not a backup of a controller's database ({error})")))?;
    made.ok_or_else(|| wrong("not a backup: make one with 'muster-controller backup'"))?;
    let Db::Sqlite(db) = &source else { return Err(wrong("not a file of SQLite")) };
    let whole: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if whole != "ok" {
        return Err(wrong(&format!("damaged ({whole}): take another backup")));
    }
    new_file(new).map_err(|error| failed(format!("cannot write {}: {error}", new.display())))?;
    drop(copy(db, new)?);
    let mut store = Database::sqlite(new, &place.key_file)?;
    store.settle(&place.data_dir, by)?;
    // Writes everything to the one file that is moved.
    store.db().batch("PRAGMA journal_mode = DELETE")?;
    drop(store);
    self::place(new, &place.database)
}

/// Moves a finished database to its place, durably.
pub(super) fn place(new: &Path, path: &Path) -> Result<(), StoreError> {
    let placed = sync(new).and_then(|()| move_to(new, path));
    placed.map_err(|error| failed(format!("cannot make {}: {error}", path.display())))
}

impl Database {
    /// Call this before a site is opened. A restored backup puts its keys into the data directory,
    /// and forgets that it is a backup; the audit says by whom. A fleet whose keys are missing gets no new ones, because it
    /// would refuse them for good.
    ///
    /// # Errors
    /// [`StoreError`], and nothing is changed.
    pub fn settle(&mut self, data_dir: &Path, by: &Runner) -> Result<(), StoreError> {
        let folder = data_dir.join(pki::FOLDER);
        let keys = site_keys(&self.db, &self.key)?;
        match (&keys, folder.exists()) {
            (Some(keys), true) => same_keys(keys, &folder).map_err(|name| {
                failed(format!(
                    "the database is a backup of a site whose {name} is not the one in {}: use the data directory of \
                     that site, or an empty one",
                    folder.display()
                ))
            })?,
            (Some(keys), false) => {
                pki::put_back(data_dir, keys).map_err(|error| failed(error.to_string()))?;
            }
            (None, false) if self.has_nodes()? => {
                return Err(failed(format!(
                    "the site's keys ({}) are missing and the fleet trusts them: restore them, or restore a backup \
                     with 'muster-controller restore FILE' into an empty data directory",
                    folder.display()
                )));
            }
            (None, true | false) => {}
        }
        let made = made(&self.db)?;
        if keys.is_none() && made.is_none() {
            return Ok(());
        }
        let made = made.unwrap_or_else(|| "an unknown time".to_owned());
        let row = by.did("restore", "site", format!("backup of {made}"));
        self.db.transaction(|| {
            self.db.batch("DROP TABLE IF EXISTS site_keys; DROP TABLE IF EXISTS keys;")?;
            meta::remove(&self.db, "backup")?;
            meta::put(&self.db, "restored", &now())?;
            audit::add(&self.db, &row, &now())?;
            note_scrub(&self.db)
        })?;
        self.scrub()
    }

    fn has_nodes(&self) -> Result<bool, StoreError> {
        self.db.only("SELECT EXISTS (SELECT 1 FROM nodes)", values![], |row| row.get(0))
    }
}

/// When the backup was made; `None`: the database of a controller, or no database of ours.
fn made(db: &Db) -> Result<Option<String>, StoreError> {
    version(db)?;
    match meta::text(db, "backup")? {
        None if has_table(db, "keys")? => Ok(Some("before backups said it".into())),
        made => Ok(made),
    }
}

fn copy(db: &Connection, to: &Path) -> Result<Connection, StoreError> {
    let mut target = Connection::open(to)?;
    // Copies all pages in one step: a consistent copy, which does not delay the writer, thanks to WAL.
    rusqlite::backup::Backup::new(db, &mut target)?.step(-1)?;
    target.pragma_update(None, "journal_mode", "DELETE")?;
    Ok(target)
}

fn seal_keys(copy: &Db, place: &Place) -> Result<(), StoreError> {
    let unsealed = || failed("the database does not say which key it is sealed with".into());
    let key = KeyFile::at(&place.key_file).find(sealed_with(copy)?.ok_or_else(unsealed)?)?;
    copy.batch("CREATE TABLE site_keys (file TEXT PRIMARY KEY, bytes BLOB NOT NULL)")?;
    for (name, bytes) in read_keys(&place.data_dir)? {
        let sealed = key.seal(&key_place(&name), &bytes)?;
        copy.execute("INSERT INTO site_keys VALUES (?1, ?2)", values![name, sealed])?;
    }
    Ok(())
}

/// The files of `<data_dir>/pki`.
pub(super) fn read_keys(data_dir: &Path) -> Result<SiteKeys, StoreError> {
    let read = |name: &&str| {
        let path = data_dir.join(pki::FOLDER).join(name);
        let bytes = fs::read(&path)
            .map_err(|error| failed(format!("the site's key {} cannot be read: {error}", path.display())))?;
        Ok(((*name).to_owned(), bytes))
    };
    pki::FILES.iter().map(read).collect()
}

pub(super) fn key_place(name: &str) -> Vec<u8> {
    [b"site_keys.bytes\0", name.as_bytes()].concat()
}

/// `None`: the backup has no keys. Backups from before keys were sealed have them in clear.
fn site_keys(db: &Db, key: &DataKey) -> Result<Option<SiteKeys>, StoreError> {
    let sealed = has_table(db, "site_keys")?;
    if !sealed && !has_table(db, "keys")? {
        return Ok(None);
    }
    let damaged = || failed("the keys in the backup are damaged: take another backup".into());
    let table = if sealed { "site_keys" } else { "keys" };
    let select = format!("SELECT bytes FROM {table} WHERE file = ?1 AND length(bytes) <= {KEY_MAX}");
    let read = |name: &&str| {
        let bytes: Option<Vec<u8>> = db.first(&select, values![name], |row| row.get(0))?;
        let bytes = bytes.ok_or_else(damaged)?;
        let bytes = if sealed { key.open(&key_place(name), &bytes).map_err(|_| damaged())? } else { bytes };
        Ok(((*name).to_owned(), bytes))
    };
    pki::FILES.iter().map(read).collect::<Result<SiteKeys, StoreError>>().map(Some)
}

/// Whether the folder has these files.
///
/// # Errors
/// The name of one that differs.
pub(super) fn same_keys<'k>(keys: &'k SiteKeys, folder: &Path) -> Result<(), &'k str> {
    match keys.iter().find(|(name, bytes)| fs::read(folder.join(name)).ok().as_ref() != Some(bytes)) {
        None => Ok(()),
        Some((name, _)) => Err(name),
    }
}

/// Private to the owner from the first byte.
fn new_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| failed(format!("cannot write {}: {error}", path.display())))
}

fn move_to(new: &Path, path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let moved = fs::rename(new, path).and_then(|()| File::open(folder.unwrap_or(Path::new(".")))?.sync_all());
    moved.map_err(|error| failed(error.to_string()))
}

fn failed(why: String) -> StoreError {
    StoreError::Format(why)
}

#[cfg(test)]
mod tests;
