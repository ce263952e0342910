//! A commit: the changes of a turn as the store asks for them, and what has to wait until they are durable.
//!
//! Absent: when it is made, and tried again (`turn.rs`), and what follows when it fails (`read_only.rs`).

use std::collections::VecDeque;
use std::time::SystemTime;

use muster_engine::record::{AuditRecord, Change};
use muster_engine::{Effect, Engine};
use muster_shared::model::Down;
use muster_shared::seal::SealPublic;
use muster_shared::{MonoTime, NodeId, StackName};

use super::Turns;
use crate::driver::Outbox;
use crate::driver::audit::Audit;
use crate::store::{Failure, Store, StoreError};
use crate::telemetry::Note;

/// The changes of a turn, as far as the engine was asked for them.
#[derive(Default)]
pub(super) struct Commit {
    /// The first change; the others are still the engine's.
    first: Option<Change>,
    /// The store took the first change: it cannot be taken back.
    is_taken: bool,
    seen: Vec<NodeId>,
    not_let_in: VecDeque<AuditRecord>,
    /// The notes for traces about its changes, if there are traces.
    notes: Option<Vec<Note>>,
    /// Effects to carry out once the commit is durable.
    effects: Vec<Effect>,
    ended: Vec<(StackName, u64)>,
    keys: Vec<(NodeId, Option<SealPublic>)>,
}

impl<S: Store, O: Outbox> Turns<S, O> {
    /// Up to the first change of the next commit.
    pub(super) fn next_commit(&mut self, now: MonoTime) -> Box<Commit> {
        let mut commit =
            Commit { seen: std::mem::take(&mut self.seen).into_iter().collect(), ..Commit::default() };
        commit.not_let_in = self.audit.take_not_let_in();
        commit.notes = self.traces.as_ref().map(|_| Vec::new());
        commit.first = commit.next(&mut self.engine, &mut self.audit, now);
        Box::new(commit)
    }

    /// Writes the commit, and returns the effects that may leave. If the database is busy, returns
    /// the commit as it was.
    pub(super) fn commit(
        &mut self,
        mut commit: Box<Commit>,
        now: MonoTime,
    ) -> Result<Vec<Effect>, (Box<Commit>, StoreError)> {
        if commit.first.is_some() || !commit.seen.is_empty() {
            let seen = std::mem::take(&mut commit.seen);
            let (engine, audit) = (&mut self.engine, &mut self.audit);
            let has_first = commit.first.is_some();
            let mut changes =
                std::iter::from_fn(|| commit.first.take().or_else(|| commit.next(engine, audit, now)));
            let written = self.store.commit(&mut changes, &seen);
            (commit.seen, commit.is_taken) = (seen, has_first && commit.first.is_none());
            if let Err(error) = written {
                return Err((commit, error));
            }
        } else if commit.answers()
            && let Err(error) = self.store.may_write()
        {
            // "There is nothing to do" is the site's answer, which another controller may give by now.
            return Err((commit, error));
        }
        self.told.ended.append(&mut commit.ended);
        self.trace_commit(&mut commit);
        for (node, key) in commit.keys {
            self.admitted.set(node, key);
        }
        Ok(commit.effects)
    }

    /// Tells the traces what is durable now. Answers come first, for changes are of the operations that they begin.
    fn trace_commit(&mut self, commit: &mut Commit) {
        let Some(traces) = &mut self.traces else { return };
        let at = SystemTime::now();
        for effect in &commit.effects {
            if let Effect::Answer { id, answer } = effect {
                traces.answered(*id, answer, at);
            }
        }
        traces.durable(commit.notes.take().unwrap_or_default(), at);
        let view = self.engine.view();
        for effect in &commit.effects {
            if let Effect::Send { node, message: Down::Job(job), .. } = effect
                && let Some(of) = view.job_view(&job.resource)
            {
                traces.sent(node, job, &of, at);
            }
        }
    }
}

impl Commit {
    pub(super) fn may_wait(&self, error: &StoreError) -> bool {
        error.failure() == Failure::Busy && !self.is_taken
    }

    /// Whether a request is answered with success.
    fn answers(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Answer { answer: Ok(_), .. }))
    }

    /// The next change; what has to wait for the commit is kept. An answer may have a row of the audit.
    fn next(&mut self, engine: &mut Engine, audit: &mut Audit, now: MonoTime) -> Option<Change> {
        if let Some(record) = self.not_let_in.pop_front() {
            return Some(Change::Audit(Box::new(record)));
        }
        loop {
            match engine.poll_effect()? {
                Effect::Persist(change) => {
                    if let Some(notes) = &mut self.notes {
                        notes.extend(Note::of(&change));
                    }
                    match &change {
                        Change::StackRemoved { name, traversal, .. } => {
                            self.ended.push((name.clone(), *traversal));
                        }
                        Change::Node(node) => {
                            let key = (!node.revoked).then_some(node.seal_public);
                            self.keys.push((node.name.clone(), key));
                        }
                        Change::NodeRemoved(name) => self.keys.push((name.clone(), None)),
                        _ => {}
                    }
                    return Some(change);
                }
                Effect::Answer { id, answer } => {
                    let record = audit.row(id, &answer, now);
                    self.effects.push(Effect::Answer { id, answer });
                    if let Some(record) = record {
                        return Some(Change::Audit(Box::new(record)));
                    }
                }
                other => self.effects.push(other),
            }
        }
    }
}
