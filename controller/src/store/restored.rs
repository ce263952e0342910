//! The record of a restored site: the entry `restored` of `meta`. `restore` writes there when the
//! restore was done. From the first start on the entry is the engine's record, and it goes when
//! everything is decided.

use muster_engine::restored::RestoredRecord;
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::StoreError;

pub(super) fn put(db: &Transaction<'_>, record: Option<&RestoredRecord>) -> Result<(), StoreError> {
    match record {
        None => db.execute("DELETE FROM meta WHERE key = 'restored'", [])?,
        Some(record) => {
            let text =
                serde_json::to_string(record).map_err(|error| StoreError::Format(error.to_string()))?;
            db.execute("INSERT OR REPLACE INTO meta VALUES ('restored', ?1)", [text])?
        }
    };
    Ok(())
}

pub(super) fn load(db: &Connection) -> Result<Option<RestoredRecord>, StoreError> {
    let text: Option<String> =
        db.query_row("SELECT value FROM meta WHERE key = 'restored'", [], |row| row.get(0)).optional()?;
    Ok(text.map(|text| match serde_json::from_str(&text) {
        Ok(record) => record,
        // The text is the time of the restore, or damaged: nothing is decided yet.
        Err(_) => RestoredRecord::fresh(),
    }))
}
