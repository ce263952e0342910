//! The record of a restored site: the entry `restored` of `meta`. `restore` writes there when the
//! restore was done. From the first start on the entry is the engine's record, and it goes when
//! everything is decided.
//!
//! Absent: what waits to be decided, and when nothing does (`controller/engine/src/restored.rs`).

use muster_engine::restored::RestoredRecord;

use super::sql::Db;
use super::{StoreError, meta};

pub(super) fn put(db: &Db, record: Option<&RestoredRecord>) -> Result<(), StoreError> {
    match record {
        None => meta::remove(db, "restored"),
        Some(record) => {
            let text =
                serde_json::to_string(record).map_err(|error| StoreError::Format(error.to_string()))?;
            meta::put(db, "restored", &text)
        }
    }
}

pub(super) fn load(db: &Db) -> Result<Option<RestoredRecord>, StoreError> {
    Ok(meta::text(db, "restored")?.map(|text| match serde_json::from_str(&text) {
        Ok(record) => record,
        // The text is the time of the restore, or damaged: nothing is decided yet.
        Err(_) => RestoredRecord::fresh(),
    }))
}
