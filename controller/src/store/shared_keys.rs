//! The site's keys in a PostgreSQL database, sealed with the data key: so every controller of the site has them that
//! has the data key. An operator carries that one file, and nothing else, to a new controller.

use std::path::Path;

use super::backup::{SiteKeys, key_place, read_keys, same_keys};
use super::key::KeyFile;
use super::rekey::sealed_with;
use super::sql::{Db, upsert, values};
use super::{Database, LeaseTable, Location, StoreError, schema};
use crate::pki;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS shared_keys (file TEXT PRIMARY KEY, bytes BYTEA NOT NULL)";

impl Database {
    /// Puts the keys of `<data_dir>/pki` into the database, for the site's other controllers.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn share_keys(&self, at: &Location, data_dir: &Path) -> Result<(), StoreError> {
        if let Location::Sqlite(_) = at {
            return Ok(()); // it has no others
        }
        let keys = read_keys(data_dir)?;
        self.db().transaction(|| {
            self.db().batch(TABLE)?;
            for (name, bytes) in &keys {
                let sealed = self.key.seal(&key_place(name), bytes)?;
                self.db().execute(upsert!("shared_keys", ["file"], ["bytes"]), values![name, sealed])?;
            }
            Ok(())
        })
    }
}

impl LeaseTable {
    /// Puts the site's keys into `<data_dir>/pki`, unless they are there. False: nobody has shared them yet.
    ///
    /// # Errors
    /// [`StoreError`]: the data key is not that of the database, or the data directory has the keys of another site.
    pub fn fetch_keys(&self, key_file: &Path, data_dir: &Path) -> Result<bool, StoreError> {
        let db = self.db();
        if !schema::has_table(db, "meta")? || !schema::has_table(db, "shared_keys")? {
            return Ok(false);
        }
        let Some(sealed_with) = sealed_with(db)? else { return Ok(false) };
        let key = KeyFile::at(key_file).find(sealed_with)?;
        let open = |(name, sealed): (String, Vec<u8>)| {
            let opened = key.open(&key_place(&name), &sealed);
            opened
                .map(|bytes| (name, bytes))
                .map_err(|_| failed("the site's keys in the database are damaged"))
        };
        let rows =
            db.all("SELECT file, bytes FROM shared_keys", values![], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let keys: SiteKeys = rows.into_iter().map(open).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Ok(false);
        }
        let folder = data_dir.join(pki::FOLDER);
        if folder.exists() {
            same_keys(&keys, &folder).map_err(|name| {
                let why = format!(
                    "the database is of a site whose {name} is not the one in {}: give this controller another --store, \
                     or an empty --data-dir",
                    folder.display()
                );
                failed(&why)
            })?;
        } else {
            pki::put_back(data_dir, &keys).map_err(|error| failed(&error.to_string()))?;
        }
        Ok(true)
    }
}

/// Takes the shared keys away, where there are some: they are sealed with the former data key. The next controller that
/// is active shares them again.
///
/// # Errors
/// [`StoreError`]
pub(super) fn forget(db: &Db) -> Result<(), StoreError> {
    match schema::has_table(db, "shared_keys")? {
        true => db.batch("DELETE FROM shared_keys"),
        false => Ok(()),
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::Format(why.to_owned())
}
