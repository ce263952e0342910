//! The jobs of this node, from their arrival to their reports: a machine that owns the ledger, the lanes, and
//! the change that may cut the node off.
//!
//! ```text
//!   accept, stray, local_document ─▶ begin ─▶ record_before ─▶ run ──────────────────▶ end
//!                                                             └─▶ confirm ─▶ restore ─┘
//! ```
//! A job goes to `confirm` if it can cut the node off, and to `restore` if it must be undone. A delete leaves
//! `record_before` out, a check goes from `begin` by `check` to `end`, and an adoption by `check` to `record_before`.
//! `phase.rs` keeps how far each job is, and `tell.rs` tells the controller of all jobs.
//!
//! Absent: the connection, contents, flow tables and drift. A call gets what it uses of them as a [`Turn`].

mod accept;
mod begin;
mod check;
mod confirm;
mod end;
mod local_document;
mod phase;
mod record_before;
mod restore;
mod run;
mod stray;
pub(crate) mod tell;
mod withdraw;

use std::collections::BTreeMap;

use muster_shared::model::{Lane, Report};
use muster_shared::{MonoTime, ResourceId};

use crate::connection::Connection;
use crate::disk_full::Disk;
use crate::effects::Effects;
use crate::face::WriteId;
use crate::fetch::Fetch;
use crate::lanes::Lanes;
use crate::ledger::{After, Entry, Ledger};
use crate::watch::Watches;
use confirm::Guard;
use phase::Run;

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) ledger: Ledger,
    lanes: Lanes,
    /// The progress of each entry's current job.
    runs: BTreeMap<ResourceId, Run>,
    /// The change that may cut the node off, or its undoing.
    guard: Option<Guard>,
    /// When to try a failed restore again.
    restore_at: BTreeMap<ResourceId, MonoTime>,
}

/// The parts of the agent that one call uses: facts, and the machines beside the jobs.
pub(crate) struct Turn<'a> {
    pub(crate) now: MonoTime,
    /// Nothing new begins.
    pub(crate) is_stopping: bool,
    /// A batch of flow rules that can cut the node off is under way.
    pub(crate) flows_guard: bool,
    pub(crate) connection: &'a mut Connection,
    pub(crate) fetch: &'a mut Fetch,
    pub(crate) watches: &'a mut Watches,
    pub(crate) disk: &'a Disk,
    pub(crate) effects: &'a mut Effects,
}

impl Jobs {
    /// Starts from the entries on disk.
    pub(crate) fn new(ledger: Vec<Entry>) -> Self {
        Self { ledger: Ledger::new(ledger), ..Self::default() }
    }

    /// A change that can cut the node off is under way, or being undone.
    pub(crate) fn guards(&self) -> bool {
        self.guard.is_some()
    }

    /// Whether a job has not ended, or an undo is due.
    pub(crate) fn has_open(&self) -> bool {
        let is_open = |entry: &Entry| entry.current.is_some() || entry.next.is_some();
        !self.restore_at.is_empty() || self.ledger.iter().any(is_open)
    }

    /// Whether a job of the lane runs, or an undo there runs or is due.
    pub(crate) fn changes(&self, lane: Lane) -> bool {
        let is_restoring = self.guard.is_some() || !self.restore_at.is_empty();
        self.lanes.is_busy(lane) || lane == Lane::Network && is_restoring
    }

    /// A batch of flow rules that can cut the node off may begin.
    pub(crate) fn let_flows_guard(&self) -> bool {
        self.guard.is_none() && !self.lanes.is_busy(Lane::Network)
    }

    /// A record of the ledger is on disk, or was refused.
    pub(crate) fn written(&mut self, write: WriteId, failed: Option<String>, turn: &mut Turn) {
        let Some((after, kept_with)) = self.ledger.written(write, failed.is_some()) else { return };
        self.on_disk(after, failed.clone(), turn);
        if let Some(report) = kept_with {
            self.outcome_written(report, None, failed, turn);
        }
    }

    /// The outcome of a job is written: the jobs that wait for this begin.
    fn outcome_written(
        &mut self,
        report: Report,
        held: Option<Box<Entry>>,
        failed: Option<String>,
        turn: &mut Turn,
    ) {
        if self.is_keeping(report.key) {
            match failed.as_deref() {
                None => self.kept(),
                Some(_) if self.ledger.is_written_again(&report) => return,
                Some(reason) => return self.not_kept(report.key, reason, turn),
            }
        }
        if let Some(next) = self.ended(report, held, failed, turn) {
            self.admit(next, turn);
        }
    }

    fn on_disk(&mut self, after: After, failed: Option<String>, turn: &mut Turn) {
        match (after, failed) {
            (After::Accepted(key), None) => self.accepted(key, turn),
            (After::Accepted(key), Some(reason)) => self.not_accepted(key, &reason, turn),
            (After::Captured { key, .. }, None) => self.run(key, turn),
            (After::Guarded { key, was }, None) => self.guard_written(key, *was, turn),
            (After::Captured { key, was } | After::Guarded { key, was }, Some(reason)) => {
                self.not_recorded(key, *was, &reason, turn);
            }
            (After::Ended { report, held }, failed) => self.outcome_written(report, held, failed, turn),
            (After::Nothing, None) => {}
            (After::Nothing, Some(reason)) => {
                turn.effects.warn(format!("cannot write the ledger, will try again: {reason}"));
            }
        }
    }
}
