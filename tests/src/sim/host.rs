//! A server with state: dummies, files and links, of which some were there before Muster.
//!
//! Absent: how long a job takes there, and how it ends (`job_fate.rs`).

mod guarded;

use std::collections::BTreeMap;

use muster_agent_core::{Before, Found, Retry, RunError};
use muster_shared::model::{
    Action, Content, ContentDigest, Dummy, FailOn, File, Hostname, Job, Observed, OnDelete, Spec,
};
use muster_shared::{Generation, MonoTime, ResourceId};
use serde::{Deserialize, Serialize};

use super::dice::Dice;
use super::drift::{Others, Thing};
use super::flow::Switch;
use super::plan::FOUND;
use super::script::{Ran, Runner};
use guarded::guarded_of;

/// A file, its content by digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// The digest of its content.
    pub digest: ContentDigest,
    /// Permission bits.
    pub mode: u32,
}

/// The state before Muster that an agent keeps.
#[derive(Serialize, Deserialize)]
enum Was {
    Nothing,
    File(Option<FileState>),
    Links(BTreeMap<String, u32>),
    /// The links that a change may touch: MTU and maker.
    Undo(BTreeMap<String, (u32, Option<ResourceId>)>),
}

/// A change of a link.
#[derive(Clone, Debug)]
pub struct Step {
    pub link: String,
    pub mtu: u32,
    /// The maker; none: it is as before Muster.
    pub by: Option<ResourceId>,
}

/// The state of a server. It survives its agent.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Values of each dummy.
    pub dummies: BTreeMap<ResourceId, BTreeMap<String, String>>,
    /// The files by path.
    pub files: BTreeMap<String, FileState>,
    /// MTU by name.
    pub links: BTreeMap<String, u32>,
    /// The files as they are without Muster.
    pub files_before: BTreeMap<String, FileState>,
    /// The links as they are without Muster.
    pub links_before: BTreeMap<String, u32>,
    /// The last writer of a path or link that is there.
    pub made_by: BTreeMap<String, ResourceId>,
    /// Links that somebody has changed by hand since they were made: to what, and when.
    pub by_hand: BTreeMap<String, (u32, MonoTime)>,
    /// The time when each link was last changed by hand.
    pub touched: BTreeMap<String, MonoTime>,
    /// Files and dummies that others have changed since they were made.
    pub others: Others,
    /// The last outcome of the scripts of each deployment.
    pub scripts: BTreeMap<ResourceId, Ran>,
    /// Runs of scripts.
    pub runner: Runner,
    pub switch: Switch,
    /// The newest that was applied.
    applied: BTreeMap<ResourceId, Generation>,
}

fn failed(reason: &str) -> RunError {
    RunError { reason: reason.into(), retry: Retry::Later }
}

fn encode(was: &Was) -> Before {
    Before::new(postcard::to_stdvec(was).expect("plain data"))
}

fn decode(before: &Before) -> Was {
    postcard::from_bytes(before.written()).unwrap_or(Was::Nothing)
}

fn digest_of(file: &File) -> ContentDigest {
    match &file.content {
        Content::Inline(bytes) => ContentDigest::of(bytes),
        Content::Stored { digest, .. } => *digest,
    }
}

impl Host {
    /// Makes a server with some things of its own.
    pub fn new(dice: &mut Dice, stacks: usize) -> Self {
        let mut host = Self::default();
        let paths = (0..stacks).flat_map(|stack| (0..5).map(move |n| format!("/etc/s{stack}-{n}")));
        for path in paths.chain(["/etc/shared-0".to_owned()]) {
            if dice.one_in(3) {
                let digest = ContentDigest::of(format!("of old {}", dice.below(100)).as_bytes());
                host.files.insert(path, FileState { digest, mode: 0o600 });
            }
        }
        let (path, content, mode) = FOUND;
        host.files.insert(path.into(), FileState { digest: ContentDigest::of(content.as_bytes()), mode });
        for stack in 0..stacks {
            for link in 1..5 {
                host.links.insert(format!("eth{link}{stack}"), 1500);
            }
        }
        host.links.insert(Hostname::CLAIM.into(), 0);
        (host.files_before, host.links_before) = (host.files.clone(), host.links.clone());
        host
    }

    /// Removes what is there before Muster.
    pub fn is_bare(&mut self) {
        self.files.retain(|path, _| path == FOUND.0);
        self.files_before = self.files.clone();
        self.switch = Switch::default();
    }

    /// Returns the state before `spec` is applied. What is `known` of it from before takes precedence.
    pub fn capture(&self, spec: &Spec, known: &[Before], own: bool) -> Before {
        match spec {
            Spec::File(file) => match known.first() {
                Some(known) => known.clone(),
                None => {
                    let there = self.files.get(&file.path).copied();
                    encode(&Was::File(there.filter(|there| !own || there.digest != digest_of(file))))
                }
            },
            Spec::Network(_) | Spec::Hostname(_) => {
                let mut was = BTreeMap::new();
                for known in known {
                    if let Was::Links(links) = decode(known) {
                        for (link, mtu) in links {
                            was.entry(link).or_insert(mtu);
                        }
                    }
                }
                for link in guarded_of(spec).into_keys() {
                    let mtu = self.links.get(&link).copied().unwrap_or_default();
                    was.entry(link).or_insert(mtu);
                }
                encode(&Was::Links(was))
            }
            _ => encode(&Was::Nothing),
        }
    }

    /// Returns the state to restore, without the links that others restore.
    pub fn without(before: &Before, theirs: &[Before]) -> Before {
        let Was::Links(mut was) = decode(before) else { return before.clone() };
        for theirs in theirs {
            if let Was::Links(links) = decode(theirs) {
                was.retain(|link, _| !links.contains_key(link));
            }
        }
        encode(&Was::Links(was))
    }

    /// Compares what is there with what is wanted of a resource, and changes nothing.
    pub fn check(&self, resource: ResourceId, spec: &Spec) -> Found {
        let (missing, equal) = match spec {
            Spec::Dummy(dummy) => {
                let there = self.dummies.get(&resource);
                (there.is_none(), there == Some(&dummy.values))
            }
            Spec::File(file) => {
                let there = self.files.get(&file.path);
                (there.is_none(), there == Some(&FileState { digest: digest_of(file), mode: file.mode }))
            }
            Spec::Network(_) | Spec::Hostname(_) => {
                let there = |(link, mtu): (&String, &u32)| self.links.get(link) == Some(mtu);
                (false, guarded_of(spec).iter().all(there))
            }
            // No plan has any, and of a script its agent's word counts.
            _ => (false, true),
        };
        if equal {
            Found::AsDesired
        } else {
            Found::Differs { missing, reason: "it is not as desired".into() }
        }
    }

    /// The reason why a job is not to begin here, as far as the host can see.
    pub fn out_of_order(&self, job: &Job) -> Option<String> {
        let newest = self.applied.get(&job.resource).filter(|newest| **newest > job.generation)?;
        Some(format!("generation {} of {} runs after {newest}", job.generation, job.resource))
    }

    /// Applies a job. `contents`: what was fetched. `kind`: a dummy that is told to fail does so.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn run(
        &mut self,
        job: &Job,
        before: Option<&Before>,
        contents: &BTreeMap<ContentDigest, Vec<u8>>,
        kind: bool,
    ) -> Result<(Observed, Option<Before>), RunError> {
        let newest = self.applied.entry(job.resource).or_default();
        *newest = job.generation.max(*newest);
        let was = before.map_or(Was::Nothing, decode);
        match &job.spec {
            Spec::Dummy(dummy) => Ok((self.dummy(job, dummy, kind)?, None)),
            Spec::File(file) if job.action == Action::Delete => {
                // One that is kept is a file of others once its row is gone.
                if file.on_delete != OnDelete::Keep {
                    let Was::File(was) = was else { return Err(failed("what was before is not known")) };
                    self.put(&file.path, was, None);
                }
                Ok((Observed::default(), None))
            }
            Spec::File(file) => Ok((self.file(job.resource, file, contents)?, None)),
            // Step by step: see `network_steps`.
            Spec::Network(_) | Spec::Hostname(_) => {
                let Was::Links(mut was) = was else { return Err(failed("what was before is not known")) };
                let wanted = guarded_of(&job.spec);
                was.retain(|link, _| wanted.contains_key(link));
                let before = (job.action != Action::Delete).then(|| encode(&Was::Links(was)));
                let attributes = match &job.spec {
                    Spec::Hostname(hostname) if job.action.applies() => {
                        BTreeMap::from([("hostname".to_owned(), hostname.hostname.clone())])
                    }
                    _ => BTreeMap::new(),
                };
                Ok((Observed { attributes }, before))
            }
            _ => Err(failed("no plan has services, and scripts run by themselves")),
        }
    }

    fn dummy(&mut self, job: &Job, dummy: &Dummy, kind: bool) -> Result<Observed, RunError> {
        // In the end somebody has seen to what could not be taken away.
        let mended = job.action == Action::Delete && !kind;
        if !mended && (dummy.fail == Some(FailOn::Any) || dummy.fail == Some(FailOn::Action(job.action))) {
            return Err(failed("told to fail"));
        }
        self.others.forget(&Thing::Dummy(job.resource));
        if job.action == Action::Delete {
            self.dummies.remove(&job.resource);
            return Ok(Observed::default());
        }
        self.dummies.insert(job.resource, dummy.values.clone());
        Ok(Observed { attributes: dummy.values.clone() })
    }

    fn file(
        &mut self,
        resource: ResourceId,
        file: &File,
        contents: &BTreeMap<ContentDigest, Vec<u8>>,
    ) -> Result<Observed, RunError> {
        let digest = match &file.content {
            Content::Inline(bytes) => ContentDigest::of(bytes),
            Content::Stored { digest, .. } => match contents.get(digest) {
                Some(bytes) => ContentDigest::of(bytes),
                None => return Err(failed("the content is not there")),
            },
        };
        self.put(&file.path, Some(FileState { digest, mode: file.mode }), Some(resource));
        let attributes = BTreeMap::from([("path".to_owned(), file.path.clone())]);
        Ok(Observed { attributes })
    }

    fn keep_file(&mut self, path: &str) {
        self.others.forget(&Thing::File(path.to_owned()));
        match self.files.get(path) {
            Some(file) => drop(self.files_before.insert(path.to_owned(), *file)),
            None => drop(self.files_before.remove(path)),
        }
        self.made_by.remove(path);
    }

    fn put(&mut self, path: &str, file: Option<FileState>, by: Option<ResourceId>) {
        self.others.forget(&Thing::File(path.to_owned()));
        match file {
            Some(file) => drop(self.files.insert(path.to_owned(), file)),
            None => drop(self.files.remove(path)),
        }
        match by {
            Some(by) => drop(self.made_by.insert(path.to_owned(), by)),
            None => drop(self.made_by.remove(path)),
        }
    }

    /// Leaves what the resource made in place: it has no owner any more.
    pub fn retains(&mut self, resource: ResourceId, thing: &str) {
        if let Some(mtu) = self.links.get(thing) {
            self.links_before.insert(thing.to_owned(), *mtu);
            self.made_by.remove(thing);
            self.by_hand.remove(thing);
        } else if thing.starts_with('/') {
            // Also one that somebody has removed.
            self.keep_file(thing);
        } else {
            self.others.forget(&Thing::Dummy(resource));
            self.dummies.remove(&resource);
            self.scripts.remove(&resource);
        }
    }

    /// Makes the resource the owner of things that others made and have given up.
    pub fn falls_to(&mut self, resource: ResourceId, things: &[(String, ResourceId)]) {
        for (thing, maker) in things {
            if let Some(by) = self.made_by.get_mut(thing).filter(|by| *by == maker) {
                *by = resource;
            }
        }
    }

    /// Things of a resource that are here.
    pub fn things_of(&self, resource: ResourceId) -> Vec<String> {
        let dummy = self.dummies.contains_key(&resource).then(|| "a dummy".to_owned());
        let made = self.made_by.iter().filter(|(_, by)| **by == resource).map(|(what, _)| what.clone());
        let script = self.scripts.contains_key(&resource).then(|| "what a script left".to_owned());
        dummy.into_iter().chain(script).chain(made).collect()
    }

    /// A delete by `resource` would change what another one made.
    pub fn takes_from_another(&self, job: &Job, before: Option<&Before>) -> Option<(String, ResourceId)> {
        if job.action != Action::Delete {
            return None;
        }
        let things: Vec<String> = match &job.spec {
            Spec::File(file) => vec![file.path.clone()],
            Spec::Network(_) | Spec::Hostname(_) => match before.map(decode) {
                Some(Was::Links(was)) => was.into_keys().collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let other = |thing: &&String| self.made_by.get(*thing).is_some_and(|by| *by != job.resource);
        let thing = things.iter().find(other)?;
        Some((thing.clone(), self.made_by[thing]))
    }
}
