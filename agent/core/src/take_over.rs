//! Who holds a thing that several resources claim, and what was there before the first of them.
//!
//! A resource that claims what another one made takes over what that one knows of the time before Muster; the
//! other's end then leaves the thing alone. A resource that does not come to hold the thing, or goes without
//! ever having been applied, gives it back. One that was applied and goes puts back what was there before the first of
//! them: then the others hold nothing either, and are in no list of what is here.

use muster_shared::ResourceId;
use muster_shared::model::{Action, Claim, ReportKey, Spec};

use crate::agent::{After, Agent};
use crate::face::{Effect, RunError};
use crate::ledger::{Before, Entry};
use crate::run::Phase;

/// What a job comes to hold.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    before: Before,
    claims: Vec<Claim>,
    /// What the resource held until then is another's, or nothing.
    anew: bool,
}

impl Captured {
    pub(crate) fn before(&self) -> &Before {
        &self.before
    }

    pub(crate) fn into_entry(self, entry: &mut Entry) {
        if self.anew {
            entry.claims.clear();
        }
        entry.before = Some(self.before);
        entry.claims.extend(self.claims);
        entry.claims.sort();
        entry.claims.dedup();
        entry.handed_over = None;
    }
}

impl Agent {
    pub(crate) fn take_over(&mut self, key: ReportKey, claims: &[Claim]) {
        let resource = key.resource;
        let mut others = self.ledger.held_by_others(claims, resource);
        others.retain(|&other| self.ledger.get(other).is_some_and(|entry| entry.handed_over.is_none()));
        if let Some(run) = self.runs.get_mut(&resource) {
            run.takes_over_from(&others);
        }
        for &other in &others {
            self.ledger.edit(other, |entry| entry.handed_over = Some(resource));
            self.write(other, After::HandedOver { other, to: key });
        }
        if others.is_empty() {
            self.capture(key);
        }
    }

    /// One of the others' records is on disk.
    pub(crate) fn handed_over(&mut self, key: ReportKey) {
        if let Some(Phase::HandingOver { left }) = self.phase(key.resource) {
            *left -= 1;
            if *left == 0 {
                self.capture(key);
            }
        }
    }

    pub(crate) fn not_handed_over(&mut self, other: ResourceId, key: ReportKey, reason: &str) {
        self.ledger.edit(other, |entry| entry.handed_over.take_if(|to| *to == key.resource));
        // The refused record may be there all the same.
        self.write_later(other);
        if self.current(key, |phase| matches!(phase, Phase::HandingOver { .. })).is_some() {
            self.end(key, self.disk_failed(reason));
        }
    }

    /// Asks what is there, unless that is known of all the job claims.
    fn capture(&mut self, key: ReportKey) {
        let Some(entry) = self.ledger.get(key.resource) else { return };
        let Some(job) = entry.current.as_ref().map(|accepted| &accepted.job) else { return };
        let claims = job.spec.claims();
        if let (Spec::Dummy(_), false) = (&job.spec, entry.exists()) {
            // Nothing to ask for; that it may have begun must be on disk all the same.
            let deadline = self.now + job.timeout;
            self.set_phase(key.resource, Phase::Capturing { deadline });
            return self.captured(key, Ok(Before::new(Vec::new())));
        }
        let is_known = entry.exists() && claims.iter().all(|claim| entry.claims.contains(claim));
        if is_known && entry.handed_over.is_none() {
            return self.run(key);
        }
        let others = self.new_givers(key.resource, &claims);
        let others = others.iter().filter_map(|&other| self.ledger.get(other)?.before.clone());
        let before = entry.before.clone().filter(|_| !self.is_taken(entry));
        let known: Vec<Before> = before.into_iter().chain(others).collect();
        let own = job.action == Action::Update && !entry.exists() && known.is_empty();
        let deadline = self.now + job.timeout;
        self.effects.push_back(Effect::Capture { key, spec: job.spec.clone(), known, own });
        self.set_phase(key.resource, Phase::Capturing { deadline });
    }

    /// Another one came to hold what this one held, and has put back what it did not want of it: what was there before
    /// is known to that one alone.
    fn is_taken(&self, entry: &Entry) -> bool {
        let taker = entry.handed_over.and_then(|to| self.ledger.get(to));
        taker.is_some_and(|taker| taker.exists() && taker.applied.is_some())
    }

    /// The answer to [`Effect::Capture`].
    pub(crate) fn captured(&mut self, key: ReportKey, before: Result<Before, RunError>) {
        let Some(job) = self.current(key, |phase| matches!(phase, Phase::Capturing { .. })).cloned() else {
            return;
        };
        let mut claims = job.spec.claims();
        match before {
            Ok(before) => {
                // All that they knew is known here now, also of what this job does not claim: it is put back.
                let givers = self.new_givers(key.resource, &claims);
                let theirs = givers.iter().filter_map(|&giver| self.ledger.get(giver));
                claims.extend(theirs.flat_map(|giver| giver.claims.iter().cloned()).collect::<Vec<_>>());
                let anew = self.ledger.get(key.resource).is_none_or(|e| !e.exists() || self.is_taken(e));
                let captured = Captured { before, claims, anew };
                if job.spec.confirm_within().is_some() {
                    return self.guard(&job, Some(captured));
                }
                let was = self.ledger.edit(key.resource, |entry| {
                    let was = entry.clone();
                    captured.into_entry(entry);
                    was
                });
                self.set_phase(key.resource, Phase::Recording);
                self.write(key.resource, After::Captured { key, was: Box::new(was) });
            }
            Err(error) => self.end(key, error.into()),
        }
    }

    /// Nothing was touched. What was read is right, but would not survive: it is read again next time.
    pub(crate) fn not_captured(&mut self, key: ReportKey, was: Entry, reason: &str) {
        if self.current(key, |phase| phase == Phase::Recording).is_some() {
            self.ledger.edit(key.resource, |entry| {
                (entry.before, entry.claims, entry.handed_over) = (was.before, was.claims, was.handed_over);
            });
            self.end(key, self.disk_failed(reason));
        }
    }

    /// Whether the end of this resource changes nothing on the host: what it made, if anything, is another's.
    pub(crate) fn leaves_alone(&mut self, resource: ResourceId, claims: &[Claim]) -> bool {
        self.give_back(resource, claims);
        let Some(entry) = self.ledger.get(resource) else { return true };
        if !entry.exists() || entry.handed_over.is_some() {
            return true;
        }
        let givers = self.have_back(resource);
        let theirs = givers.iter().filter_map(|&giver| self.ledger.get(giver)).map(|giver| &giver.claims);
        !givers.is_empty()
            && entry.claims.iter().all(|claim| theirs.clone().any(|theirs| theirs.contains(claim)))
    }

    /// Whether the disk refused to record that others have back what this resource claims. Should it go before that is
    /// there, they would have gone with it after a crash.
    pub(crate) fn is_held_up(&mut self, resource: ResourceId, claims: &[Claim]) -> bool {
        let mut others = self.ledger.held_by_others(claims, resource);
        others.retain(|other| self.stale.contains_key(other));
        others.iter().for_each(|&other| self.write(other, After::Nothing(other)));
        !others.is_empty()
    }

    /// Resources to which this one's end gives back what it took over: it was never applied. What it claims besides
    /// is its own to put back.
    pub(crate) fn have_back(&self, resource: ResourceId) -> Vec<ResourceId> {
        let holds = |entry: &&Entry| entry.exists() && entry.handed_over.is_none() && entry.applied.is_none();
        let entry = self.ledger.get(resource).filter(holds);
        entry.map_or_else(Vec::new, |entry| self.givers(resource, &entry.claims))
    }

    /// What others handed over to this resource and it does not hold is theirs again, or goes where what this
    /// resource held has gone: theirs is what they held until this very job.
    pub(crate) fn give_back(&mut self, resource: ResourceId, claims: &[Claim]) {
        let entry = self.ledger.get(resource);
        let holder = entry.filter(|entry| entry.exists() && entry.handed_over.is_none());
        let holds = |claim| holder.is_some_and(|holder| holder.claims.contains(claim));
        let unheld: Vec<Claim> = claims.iter().filter(|claim| !holds(claim)).cloned().collect();
        let to = entry.and_then(|entry| entry.handed_over);
        let applies = entry.and_then(|entry| entry.current.as_ref()).is_some_and(|a| a.job.action.applies());
        let is_gone = to.is_some_and(|to| !self.ledger.get(to).is_some_and(Entry::exists));
        let (held, other): (Vec<_>, Vec<_>) =
            self.givers(resource, &unheld).into_iter().partition(|&giver| {
                let run = self.runs.get(&resource).filter(|_| applies);
                run.is_some_and(|run| run.took_over_from(giver) || is_gone && run.may_take_over_from(giver))
            });
        self.hand_on(held, None);
        self.hand_on(other, to);
    }

    /// The resource has ended, and was this until then: what others handed over to it, and did not have back, has gone
    /// with it. Should the controller have a row of one of them, that is lost, and made again.
    pub(crate) fn went(&mut self, was: &Entry) {
        // What it had handed over itself is its taker's, and so is what came from others.
        if was.handed_over.is_none() {
            self.go_with(self.givers(was.resource, &was.claims));
        }
    }

    fn go_with(&mut self, mut gone: Vec<ResourceId>) {
        while let Some(resource) = gone.pop() {
            let Some(entry) = self.ledger.get(resource).filter(|entry| entry.undo.is_none()) else {
                continue;
            };
            gone.extend(self.givers(resource, &entry.claims));
            self.ledger.edit(resource, |entry| {
                (entry.applied, entry.before, entry.handed_over) = (None, None, None);
            });
            self.write(resource, After::Nothing(resource));
        }
    }

    /// After a restart: what was given back and not written down any more, and what was on its way to a resource
    /// whose turn may now come after another's. It is taken over again then. What has gone with its taker, and was not
    /// written down any more, is gone.
    pub(crate) fn give_back_lost(&mut self) {
        let holds_not = |entry: &Entry| {
            let mut pending = [&entry.current, &entry.next].into_iter().flatten();
            let is_wanted = pending.any(|accepted| accepted.job.action.applies());
            !entry.exists() && (is_wanted || entry.claims.is_empty())
        };
        let giver = |entry: &&Entry| {
            let to = entry.handed_over.and_then(|to| self.ledger.get(to));
            to.is_some_and(holds_not)
        };
        let givers: Vec<ResourceId> = self.ledger.iter().filter(giver).map(|entry| entry.resource).collect();
        self.hand_on(givers, None);
        self.open_rings();
        let went = |to| !self.ledger.get(to).is_some_and(Entry::exists);
        let gone = self.ledger.iter().filter(|entry| entry.exists() && entry.handed_over.is_some_and(went));
        self.go_with(gone.map(|entry| entry.resource).collect());
    }

    /// A resource that takes back what it once handed over and fails leaves on disk, when it crashes before the other's
    /// record, a ring of hand-overs, or a way to one that has gone before: of those on the way, the one that was applied
    /// last is the holder.
    fn open_rings(&mut self) {
        let next = |entry: &Entry| self.ledger.get(entry.handed_over?);
        let applied = |entry: &Entry| entry.applied.as_ref().map(|applied| applied.generation);
        let mut holders = Vec::new();
        for entry in self.ledger.iter().filter(|entry| entry.exists()) {
            let way = std::iter::successors(Some(entry), |at| next(at)).take(self.ledger.len() + 1);
            let mut newest = (None, entry.resource);
            for (place, at) in way.enumerate() {
                // What was applied later than that one went has not gone with it.
                let went = at.last.as_ref().filter(|_| !at.exists()).map(|last| last.key.generation);
                let is_ring = place > 0 && at.resource == entry.resource;
                if is_ring || went.is_some_and(|went| newest.0 > Some(went)) {
                    holders.push(newest.1);
                    break;
                }
                newest = newest.max((applied(at), at.resource));
            }
        }
        holders.sort_unstable();
        holders.dedup();
        self.hand_on(holders, None);
    }

    pub(crate) fn hand_on(&mut self, givers: Vec<ResourceId>, to: Option<ResourceId>) {
        for giver in givers {
            let to = to.filter(|&to| !self.leads_to(to, giver));
            self.ledger.edit(giver, |entry| entry.handed_over = to);
            self.write(giver, After::Nothing(giver));
        }
    }

    /// Whether what `from` held has come to `holder`. Were `holder` to hand it to `from`, nobody would hold it.
    fn leads_to(&self, from: ResourceId, holder: ResourceId) -> bool {
        let next = |resource: &ResourceId| self.ledger.get(*resource)?.handed_over;
        let mut chain = std::iter::successors(Some(from), next).take(self.ledger.len());
        chain.any(|resource| resource == holder)
    }

    /// Resources that hand over to this one in its current job. What those knew that did so in an earlier one, this one
    /// knows itself, as far as it has not put it back.
    fn new_givers(&self, resource: ResourceId, claims: &[Claim]) -> Vec<ResourceId> {
        let mut givers = self.givers(resource, claims);
        givers.retain(|&giver| self.runs.get(&resource).is_some_and(|run| run.may_take_over_from(giver)));
        givers
    }

    /// Resources that handed over to this one.
    fn givers(&self, resource: ResourceId, claims: &[Claim]) -> Vec<ResourceId> {
        let mut givers = self.ledger.held_by_others(claims, resource);
        givers.retain(|&giver| self.ledger.get(giver).is_some_and(|g| g.handed_over == Some(resource)));
        givers
    }
}
