//! Ledger records: each is written at once, and all become durable together at the end of a turn.
//!
//! A full disk is told to the machine. A removal then gets the room that is held in reserve.
//!
//! Absent: what follows once a record is on disk (`agent/core/src/ledger/records.rs`), and the format of a file
//! (`record.rs`).

use std::io;

use muster_agent_core::{Entry, Input, WriteId};
use muster_shared::EpochId;
use muster_shared::model::ReportKey;

use super::Driver;
use crate::host::{lacks_room, tried_again};

impl Driver {
    pub(super) fn write_entry(&mut self, write: WriteId, entry: &Entry) {
        self.ended.extend(self.commands.iter().filter(|key| has_ended(entry, **key)));
        let mut result = self.state.write_entry(entry);
        if removes(entry) && self.makes_room(&result) {
            result = self.state.write_entry(entry);
        }
        self.written(write, result);
    }

    pub(super) fn write_epoch(&mut self, write: WriteId, epoch: EpochId) {
        let mut result = self.state.write_epoch(epoch);
        if self.makes_room(&result) {
            result = self.state.write_epoch(epoch);
        }
        self.written(write, result);
    }

    /// Tells the machine whether there is room again.
    pub(super) fn find_room(&mut self) {
        let found = self.state.find_room().map_err(|error| self.full(&error));
        self.inbox.push_back(Input::Room(found));
    }

    /// Makes the written records durable, and tells the machine.
    pub(super) fn sync(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let synced = self.state.sync_ledger().map_err(|error| self.refused(&error));
        if let Some(reason) = self.no_room.take() {
            self.inbox.push_back(Input::Room(Err(reason)));
        }
        for key in self.ended.drain(..) {
            let is_written = self.written.iter().all(|(_, result)| result.is_ok());
            if synced.is_ok() && is_written && self.commands.remove(&key) {
                self.host.forget_run(key);
            }
        }
        for (write, result) in self.written.drain(..) {
            self.inbox.push_back(match result.and(synced.clone()) {
                Ok(()) => Input::Written(write),
                Err(reason) => Input::WriteFailed { write, reason },
            });
        }
    }

    fn written(&mut self, write: WriteId, result: io::Result<()>) {
        let result = result.map_err(|error| self.refused(&error));
        self.written.push((write, result));
    }

    fn refused(&mut self, error: &io::Error) -> String {
        if lacks_room(error) {
            self.no_room = Some(self.full(error));
        }
        error.to_string()
    }

    fn full(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.state.path().display())
    }

    /// Whether a write that was refused for want of room can be repeated, now that the reserve was given up
    /// for it.
    fn makes_room(&mut self, result: &io::Result<()>) -> bool {
        let Some(error) = result.as_ref().err().filter(|error| lacks_room(*error)) else { return false };
        self.no_room = Some(self.full(error));
        self.state.spend_reserve()
    }
}

/// Whether the entry's purpose frees room: a removal, from its acceptance to its end.
fn removes(entry: &Entry) -> bool {
    let mut jobs = [&entry.current, &entry.next].into_iter().flatten();
    !entry.exists() || jobs.any(|accepted| accepted.job.action.removes())
}

/// The entry has the job's final outcome, so the end of its run is no longer needed.
fn has_ended(entry: &Entry, key: ReportKey) -> bool {
    let jobs = [&entry.current, &entry.next].into_iter().flatten().map(|accepted| accepted.job.key());
    let mut open = jobs.chain(tried_again(entry));
    entry.resource == key.resource && !open.any(|other| other.generation == key.generation)
}
