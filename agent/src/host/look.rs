//! Looks at resources without a job, often and for long: skips resources that cannot have changed since they
//! were found as desired.
//!
//! Absent: when to look (`agent/core/src/watch.rs`), and what a type compares (its `check` in
//! `agent/host/src`).

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use muster_agent_core::{Found, Look, RunError};
use muster_host::types::Way;
use muster_host::watch::Places;
use muster_shared::model::Spec;
use muster_shared::{Generation, ResourceId};

use super::Host;

/// Times of file systems have steps of some milliseconds, on old ones of two seconds: what changed so
/// recently may change again without another time.
const SETTLED: Duration = Duration::from_secs(3);
/// Fingerprints of resources' files from when the resources were found as desired.
#[derive(Debug, Default)]
pub struct PrintCache(Mutex<BTreeMap<ResourceId, CachedPrints>>);

/// The generation that was found, and the fingerprints of the files that determine its state.
type CachedPrints = (Generation, Vec<Option<Print>>);

/// A file's metadata: every change of the file alters the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Host {
    /// As [`Host::check`], for a state that was applied.
    ///
    /// # Errors
    /// The state cannot be read.
    pub async fn look(&self, look: Look) -> Result<Found, RunError> {
        let Look { resource, generation, spec, before } = look;
        let files = decisive(&spec);
        if files.is_empty() {
            return self.check(resource, &spec, Some(&spec), before).await;
        }
        // Taken before the files are read, so that a concurrent change shows the next time.
        let prints: Vec<Option<Print>> = files.iter().map(print).collect();
        if self.seen.is_same(resource, generation, &prints) {
            return Ok(Found::AsDesired);
        }
        let found = self.check(resource, &spec, Some(&spec), before).await;
        let keep = matches!(found, Ok(Found::AsDesired)) && prints.iter().flatten().all(Print::is_settled);
        self.seen.set(resource, keep.then_some((generation, prints)));
        found
    }

    /// The places where changes of a resource can be watched.
    pub fn places(&self, spec: &Spec) -> Places {
        match Way::of(spec) {
            Way::Resource(resource) => resource.places(&self.tools),
            Way::File(file) => Places { files: vec![PathBuf::from(&file.path)], unit: None },
            // The network has its own hints, and only a look finds changes of a deployment.
            Way::Dummy(_) | Way::Network(_) | Way::Hostname(_) | Way::Deployment(_) => Places::default(),
        }
    }

    /// Records that the resource was applied in this state, or that nothing of it exists any more.
    pub fn applied(&self, resource: ResourceId, spec: Option<&Spec>) {
        let file = spec.and_then(|spec| if let Spec::File(file) = spec { Some(file) } else { None });
        self.owners.set(&self.tools.files, resource, file);
        if spec.is_none() {
            self.seen.set(resource, None);
        }
    }
}

impl PrintCache {
    fn is_same(&self, resource: ResourceId, generation: Generation, prints: &[Option<Print>]) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&resource).is_some_and(|(of, seen)| *of == generation && seen == prints)
    }

    fn set(&self, resource: ResourceId, to: Option<CachedPrints>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match to {
            Some(to) => drop(seen.insert(resource, to)),
            None => drop(seen.remove(&resource)),
        }
    }
}

impl Print {
    fn of(meta: &Metadata) -> Self {
        Self {
            file: (meta.dev(), meta.ino()),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let changed = u64::try_from(self.changed.0).map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago > SETTLED))
    }
}

/// Files that determine a resource's whole state; empty if the state depends on more.
fn decisive(spec: &Spec) -> Vec<PathBuf> {
    match Way::of(spec) {
        Way::Resource(resource) => resource.decisive(),
        Way::File(file) => {
            // This file maps owners' names to numbers.
            let users = file.owner.as_ref().map(|_| "/etc/passwd".into());
            let groups = file.group.as_ref().map(|_| "/etc/group".into());
            users.into_iter().chain(groups).chain([PathBuf::from(&file.path)]).collect()
        }
        // The rest of the state is in the kernel.
        Way::Dummy(_) | Way::Network(_) | Way::Hostname(_) | Way::Deployment(_) => Vec::new(),
    }
}

fn print(file: impl AsRef<Path>) -> Option<Print> {
    let found: io::Result<Metadata> = fs::symlink_metadata(file);
    found.ok().as_ref().map(Print::of)
}
