//! Contents too large for a job: asked for chunk by chunk, one content at a time, verified when whole.
//!
//! ```text
//!   want ─▶ Finding ─Have(n)─▶ Asking ─Chunk─▶ Appending ─Have(n)─▶ … ─Have(size)─▶ Verifying ─▶ ready
//!                                ▲ reconnect, silence                                  │ Corrupt
//!                                └─────────────────────────────────────────────────────┘ once
//! ```
//!
//! What is on disk survives reconnects and restarts and is found again. What has no room beside the others waits until
//! their jobs have ended.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_shared::model::{ContentDigest, Up};
use muster_shared::{MonoTime, ResourceId};

use crate::face::{ContentState, ContentStep, Effect};
use crate::ledger::Order;

/// Bytes of contents kept at one time for the jobs that are next; they lie on the state directory's disk until their job ends.
pub const CONTENTS_MAX: u64 = 1024 * 1024 * 1024;

/// A chunk that is not here by then is asked for again: a slow link moves 128 KiB in less.
const ASK_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Wanted {
    size: u64,
    /// With their jobs' places.
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

/// What became of a content.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled {
    /// These resources' jobs can run.
    Ready(Vec<ResourceId>),
    /// They cannot.
    Failed {
        /// Whose.
        users: Vec<ResourceId>,
        /// Why.
        reason: String,
    },
}

/// See the module's diagram.
#[derive(Debug, Default)]
pub struct Fetch {
    wanted: BTreeMap<ContentDigest, Wanted>,
    active: Option<(ContentDigest, Step)>,
    online: bool,
}

impl Fetch {
    /// A job at this place needs a content. `Ok(true)`: it is there already.
    ///
    /// # Errors
    /// For the operator, if there is never room for it.
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
        Ok(wanted.ready)
    }

    /// Whose contents are not there yet.
    pub fn awaiting(&self) -> impl Iterator<Item = ResourceId> {
        self.wanted.values().filter(|wanted| !wanted.ready).flat_map(|wanted| wanted.users.keys().copied())
    }

    /// The content of the oldest job that has none, if there is room for it. No younger one goes before it: that might take
    /// the room and wait for the older job in turn. What was fetched for younger jobs does not count for the same reason.
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
        effects: &mut VecDeque<Effect>,
    ) {
        let Some(wanted) = self.wanted.get_mut(&digest) else { return };
        wanted.users.remove(&resource);
        if wanted.users.is_empty() {
            self.forget(digest, effects);
            self.pump(now, effects);
        }
    }

    /// The controller can, or cannot, be asked.
    pub fn set_online(&mut self, online: bool, now: MonoTime, effects: &mut VecDeque<Effect>) {
        self.online = online;
        if let Some((_, Step::Asking { again, .. })) = &mut self.active {
            *again = None;
        }
        self.pump(now, effects);
    }

    /// From the controller.
    pub fn chunk(
        &mut self,
        digest: ContentDigest,
        offset: u64,
        bytes: Vec<u8>,
        now: MonoTime,
        effects: &mut VecDeque<Effect>,
    ) -> Option<Settled> {
        let Some((active, Step::Asking { have, .. })) = self.active else { return None };
        // A chunk that was asked for twice comes twice.
        if active != digest || have != offset {
            return None;
        }
        let size = self.wanted.get(&digest)?.size;
        if bytes.is_empty() {
            return self.fail(
                digest,
                "the controller does not have the content any more".to_owned(),
                now,
                effects,
            );
        }
        if have.saturating_add(bytes.len() as u64) > size {
            let reason = format!("the content is longer than the {size} bytes announced");
            return self.fail(digest, reason, now, effects);
        }
        self.active = Some((digest, Step::Appending));
        effects.push_back(Effect::Content { digest, step: ContentStep::Append { offset, bytes } });
        None
    }

    /// The answer to an [`Effect::Content`].
    pub fn content(
        &mut self,
        digest: ContentDigest,
        state: Result<ContentState, String>,
        now: MonoTime,
        effects: &mut VecDeque<Effect>,
    ) -> Option<Settled> {
        let (active, step) = self.active?;
        if active != digest {
            return None;
        }
        let wanted = self.wanted.get_mut(&digest)?;
        match (state, step) {
            (Err(reason), _) => return self.fail(digest, reason, now, effects),
            (Ok(ContentState::Have(have)), Step::Finding | Step::Appending) => {
                if have == wanted.size {
                    self.active = Some((digest, Step::Verifying));
                    effects.push_back(Effect::Content { digest, step: ContentStep::Verify });
                } else if have > wanted.size {
                    let reason = "the content is longer on disk than announced".to_owned();
                    return self.fail(digest, reason, now, effects);
                } else {
                    self.active = Some((digest, Step::Asking { have, again: None }));
                }
            }
            (Ok(ContentState::Verified), Step::Verifying) => {
                wanted.ready = true;
                let users = wanted.users.keys().copied().collect();
                self.active = None;
                self.pump(now, effects);
                return Some(Settled::Ready(users));
            }
            (Ok(ContentState::Corrupt), Step::Verifying) => {
                if wanted.corrupt_once {
                    let reason = "the content came twice with a wrong digest".to_owned();
                    return self.fail(digest, reason, now, effects);
                }
                wanted.corrupt_once = true;
                self.active = Some((digest, Step::Asking { have: 0, again: None }));
            }
            (Ok(_), _) => return None,
        }
        self.pump(now, effects);
        None
    }

    /// When to ask again.
    pub fn timeout(&self) -> Option<(MonoTime, &'static str)> {
        match self.active {
            Some((_, Step::Asking { again: Some(again), .. })) => Some((again, "ask for a chunk again")),
            _ => None,
        }
    }

    /// Asks again if it is time, begins the next content if none is under way.
    pub fn pump(&mut self, now: MonoTime, effects: &mut VecDeque<Effect>) {
        if self.active.is_none()
            && let Some(digest) = self.next()
        {
            self.active = Some((digest, Step::Finding));
            effects.push_back(Effect::Content { digest, step: ContentStep::Find });
        }
        if let Some((digest, Step::Asking { have, again })) = &mut self.active
            && self.online
            && again.is_none_or(|again| again <= now)
        {
            *again = Some(now + ASK_AGAIN);
            effects.push_back(Effect::Send(Up::Fetch { digest: *digest, offset: *have }));
        }
    }

    fn fail(
        &mut self,
        digest: ContentDigest,
        reason: String,
        now: MonoTime,
        effects: &mut VecDeque<Effect>,
    ) -> Option<Settled> {
        let users = self.wanted.get(&digest)?.users.keys().copied().collect();
        self.forget(digest, effects);
        self.pump(now, effects);
        Some(Settled::Failed { users, reason })
    }

    fn forget(&mut self, digest: ContentDigest, effects: &mut VecDeque<Effect>) {
        self.wanted.remove(&digest);
        if self.active.is_some_and(|(active, _)| active == digest) {
            self.active = None;
        }
        effects.push_back(Effect::Content { digest, step: ContentStep::Drop });
    }
}
