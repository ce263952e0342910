//! Contents too large for a job message. The agent fetches one content at a time, chunk by chunk, and
//! verifies each.
//!
//! ```text
//!   want ─▶ Finding ─Have(n)─▶ Asking ─Chunk─▶ Appending ─Have(n)─▶ … ─Have(size)─▶ Verifying ─▶ ready
//!                                ▲ reconnect, silence                                  │ Corrupt
//!                                └─────────────────────────────────────────────────────┘ once
//!   attempt ends, another may come ─▶ kept ─want─▶ Finding          kept ─time, or room is needed─▶ dropped
//! ```
//!
//! Chunks on disk survive reconnects and restarts. A content that has no room beside the others waits until
//! their jobs have ended. If the disk itself is full, the attempt ends, and its chunks are kept for the
//! next attempt.
//!
//! Absent: how many nodes fetch at one time (`controller/engine/src/job/fetches.rs`), and the files
//! (`agent/src/contents.rs`).

use std::collections::BTreeMap;
use std::time::Duration;

use muster_shared::model::{ContentDigest, Up};
use muster_shared::{MonoTime, ResourceId};

use crate::effects::Effects;
use crate::face::{ContentState, ContentStep, Effect, Retry, RunError};
use crate::ledger::Order;

/// The most bytes of contents kept for jobs; they stay on the state directory's disk until their jobs end.
pub const CONTENTS_MAX: u64 = 1024 * 1024 * 1024;

/// A chunk that is not here by then is asked for again: a slow link moves 128 KiB in less.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// A content stays this long after a failed attempt, for the next one: the pause before that is a minute at
/// most, and the job may then wait behind others.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
struct Wanted {
    size: u64,
    /// The resources that need the content, with their jobs' places.
    users: BTreeMap<ResourceId, Order>,
    ready: bool,
    corrupt_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Finding,
    Asking { have: u64, again: Option<MonoTime> },
    Appending,
    Verifying,
}

/// The result of fetching a content.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled {
    /// These resources' jobs can run.
    Ready(Vec<ResourceId>),
    Failed {
        users: Vec<ResourceId>,
        error: RunError,
    },
}

/// See the module's diagram.
#[derive(Debug, Default)]
pub struct Fetch {
    wanted: BTreeMap<ContentDigest, Wanted>,
    /// Contents of attempts that ended: the size, and the time at which the content is dropped.
    kept: BTreeMap<ContentDigest, (u64, MonoTime)>,
    active: Option<(ContentDigest, Step)>,
    online: bool,
}

impl Fetch {
    /// Requests a content for a job at this place. Returns `Ok(true)` if the content is there already.
    ///
    /// # Errors
    /// A reason for the operator, if there can never be room for the content.
    pub fn want(
        &mut self,
        resource: ResourceId,
        order: Order,
        digest: ContentDigest,
        size: u64,
    ) -> Result<bool, String> {
        if size > CONTENTS_MAX {
            return Err(format!("a content of {size} bytes is over the limit of {CONTENTS_MAX}"));
        }
        let wanted = self.wanted.entry(digest).or_insert_with(|| Wanted {
            size,
            users: BTreeMap::new(),
            ready: false,
            corrupt_once: false,
        });
        wanted.users.insert(resource, order);
        self.kept.remove(&digest);
        Ok(wanted.ready)
    }

    /// The resources whose contents are not complete yet.
    pub fn awaiting(&self) -> impl Iterator<Item = ResourceId> {
        self.wanted.values().filter(|wanted| !wanted.ready).flat_map(|wanted| wanted.users.keys().copied())
    }

    /// The content of the oldest job that still needs one, if there is room for it. No younger job goes
    /// first: its content could take the room and wait for the older job in turn. For the same reason,
    /// contents already fetched for younger jobs do not count.
    fn next(&self) -> Option<ContentDigest> {
        let place = |wanted: &Wanted| wanted.users.values().min().copied();
        let missing = self.wanted.iter().filter(|(_, wanted)| !wanted.ready);
        let (digest, next) = missing.min_by_key(|(_, wanted)| place(wanted))?;
        let older = self.wanted.values().filter(|wanted| wanted.ready && place(wanted) < place(next));
        let held: u64 = older.map(|wanted| wanted.size).sum();
        (held.saturating_add(next.size) <= CONTENTS_MAX).then_some(*digest)
    }

    /// A job does not need it any more.
    pub fn release(
        &mut self,
        resource: ResourceId,
        digest: ContentDigest,
        now: MonoTime,
        effects: &mut Effects,
    ) {
        if self.leave(resource, digest).is_some() {
            effects.push(Effect::Content { digest, step: ContentStep::Drop });
            self.pump(now, effects);
        }
    }

    /// Keeps the content of an attempt that has ended, for the next attempt.
    pub fn keep(
        &mut self,
        resource: ResourceId,
        digest: ContentDigest,
        now: MonoTime,
        effects: &mut Effects,
    ) {
        if let Some(wanted) = self.leave(resource, digest) {
            self.kept.insert(digest, (wanted.size, now + KEPT_FOR));
            self.pump(now, effects);
        }
    }

    /// Removes the resource from the content's users, and the content if it was the last user.
    fn leave(&mut self, resource: ResourceId, digest: ContentDigest) -> Option<Wanted> {
        let wanted = self.wanted.get_mut(&digest)?;
        wanted.users.remove(&resource);
        if wanted.users.is_empty() { self.take(digest) } else { None }
    }

    /// Drops all kept contents. Returns false if there were none.
    pub fn drop_kept(&mut self, effects: &mut Effects) -> bool {
        let kept = std::mem::take(&mut self.kept);
        effects.extend(kept.keys().map(|&digest| Effect::Content { digest, step: ContentStep::Drop }));
        !kept.is_empty()
    }

    /// The controller can, or cannot, be asked.
    pub fn set_online(&mut self, online: bool, now: MonoTime, effects: &mut Effects) {
        self.online = online;
        if let Some((_, Step::Asking { again, .. })) = &mut self.active {
            *again = None;
        }
        self.pump(now, effects);
    }

    /// Handles a chunk from the controller.
    pub fn chunk(
        &mut self,
        digest: ContentDigest,
        offset: u64,
        bytes: Vec<u8>,
        now: MonoTime,
        effects: &mut Effects,
    ) -> Option<Settled> {
        let Some((active, Step::Asking { have, .. })) = self.active else { return None };
        // Two requests for one chunk give two answers.
        if active != digest || have != offset {
            return None;
        }
        let size = self.wanted.get(&digest)?.size;
        if bytes.is_empty() {
            let error = later("the controller does not have the content any more");
            return self.fail(digest, error, now, effects);
        }
        if have.saturating_add(bytes.len() as u64) > size {
            let error = later(format!("the content is longer than the {size} bytes announced"));
            return self.fail(digest, error, now, effects);
        }
        self.active = Some((digest, Step::Appending));
        effects.push(Effect::Content { digest, step: ContentStep::Append { offset, bytes } });
        None
    }

    /// The answer to an [`Effect::Content`].
    pub fn content(
        &mut self,
        digest: ContentDigest,
        state: Result<ContentState, RunError>,
        now: MonoTime,
        effects: &mut Effects,
    ) -> Option<Settled> {
        let (active, step) = self.active?;
        if active != digest {
            return None;
        }
        let state = match state {
            Ok(state) => state,
            Err(error) => return self.step_failed(digest, error, now, effects),
        };
        let wanted = self.wanted.get_mut(&digest)?;
        match (state, step) {
            (ContentState::Have(have), Step::Finding | Step::Appending) => {
                if have == wanted.size {
                    self.active = Some((digest, Step::Verifying));
                    effects.push(Effect::Content { digest, step: ContentStep::Verify });
                } else if have > wanted.size {
                    let error = later("the content is longer on disk than announced");
                    return self.fail(digest, error, now, effects);
                } else {
                    self.active = Some((digest, Step::Asking { have, again: None }));
                }
            }
            (ContentState::Verified, Step::Verifying) => {
                wanted.ready = true;
                let users = wanted.users.keys().copied().collect();
                self.active = None;
                self.pump(now, effects);
                return Some(Settled::Ready(users));
            }
            (ContentState::Corrupt, Step::Verifying) => {
                if wanted.corrupt_once {
                    let error = later("the content came twice with a wrong digest");
                    return self.fail(digest, error, now, effects);
                }
                wanted.corrupt_once = true;
                self.active = Some((digest, Step::Asking { have: 0, again: None }));
            }
            (_, _) => return None,
        }
        self.pump(now, effects);
        None
    }

    /// When to ask for a chunk again, or to drop a kept content.
    pub fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        let asked = match self.active {
            Some((_, Step::Asking { again: Some(again), .. })) => Some((again, "ask for a chunk again")),
            _ => None,
        };
        let kept = self.kept.values().map(|(_, until)| (*until, "drop what was fetched")).min();
        asked.into_iter().chain(kept).min()
    }

    /// Asks for a late chunk again, drops kept contents whose time is over, and begins the next content.
    pub fn pump(&mut self, now: MonoTime, effects: &mut Effects) {
        for (digest, _) in self.kept.extract_if(.., |_, (_, until)| *until <= now) {
            effects.push(Effect::Content { digest, step: ContentStep::Drop });
        }
        if self.active.is_none()
            && let Some(digest) = self.next()
        {
            let wanted = self.wanted.values().map(|wanted| wanted.size);
            let held = wanted.chain(self.kept.values().map(|(size, _)| *size)).fold(0, u64::saturating_add);
            if held > CONTENTS_MAX {
                self.drop_kept(effects);
            }
            self.active = Some((digest, Step::Finding));
            effects.push(Effect::Content { digest, step: ContentStep::Find });
        }
        if let Some((digest, Step::Asking { have, again })) = &mut self.active
            && self.online
            && again.is_none_or(|again| again <= now)
        {
            *again = Some(now + ASK_AGAIN);
            effects.send(Up::Fetch { digest: *digest, offset: *have });
        }
    }

    /// The disk refused a step. First drops the kept contents of other attempts; keeps this one's chunks if
    /// the disk is merely full.
    fn step_failed(
        &mut self,
        digest: ContentDigest,
        error: RunError,
        now: MonoTime,
        effects: &mut Effects,
    ) -> Option<Settled> {
        if error.retry != Retry::WhenRoom {
            return self.fail(digest, error, now, effects);
        }
        if self.drop_kept(effects) {
            self.active = Some((digest, Step::Finding));
            effects.push(Effect::Content { digest, step: ContentStep::Find });
            return None;
        }
        let wanted = self.take(digest)?;
        self.kept.insert(digest, (wanted.size, now + KEPT_FOR));
        self.pump(now, effects);
        Some(Settled::Failed { users: wanted.users.into_keys().collect(), error })
    }

    fn fail(
        &mut self,
        digest: ContentDigest,
        error: RunError,
        now: MonoTime,
        effects: &mut Effects,
    ) -> Option<Settled> {
        let users = self.take(digest)?.users.into_keys().collect();
        effects.push(Effect::Content { digest, step: ContentStep::Drop });
        self.pump(now, effects);
        Some(Settled::Failed { users, error })
    }

    fn take(&mut self, digest: ContentDigest) -> Option<Wanted> {
        self.active.take_if(|(active, _)| *active == digest);
        self.wanted.remove(&digest)
    }
}

fn later(reason: impl Into<String>) -> RunError {
    RunError { reason: reason.into(), retry: Retry::Later }
}
