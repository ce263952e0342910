//! The owner of each file, by paths without symbolic links: one file may have several paths.
//!
//! The controller knows one owner of each path (`controller/engine/src/claim.rs`). Only the node sees that two
//! paths are one file; the later claim fails here.
//!
//! Absent: paths of `json-file` deployments, which claim nothing at the controller either.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use muster_agent_core::{Retry, RunError};
use muster_host::files::Files;
use muster_shared::ResourceId;
use muster_shared::model::File;

/// Files of resources that were applied.
#[derive(Debug, Default)]
pub struct Owners(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Owners by real path, in the order of their claims.
    by_place: BTreeMap<PathBuf, Vec<(ResourceId, File)>>,
    places: BTreeMap<ResourceId, PathBuf>,
}

impl Owners {
    /// The resource has this file, or no file any more.
    pub fn set(&self, files: &Files, resource: ResourceId, file: Option<&File>) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = file.and_then(|file| files.real_path(file).ok());
        if place.as_ref() != table.places.get(&resource) {
            table.remove(resource);
        }
        let (Some(file), Some(place)) = (file, place) else { return };
        let owners = table.by_place.entry(place.clone()).or_default();
        if !owners.iter().any(|(owner, _)| *owner == resource) {
            let file = File { content: muster_shared::model::Content::Inline(Vec::new()), ..file.clone() };
            owners.push((resource, file));
        }
        table.places.insert(resource, place);
    }

    /// Checks whether the resource may have this file.
    ///
    /// # Errors
    /// Another resource, which the error names, has the file under another path.
    pub fn claim(&self, files: &Files, resource: ResourceId, file: &File) -> Result<(), RunError> {
        // If the path does not exist, writing the file gives the reason.
        let Ok(place) = files.real_path(file) else { return Ok(()) };
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let owners = table.by_place.get(&place).into_iter().flatten();
        // The controller knows the owner of the same path, and hands it over. A link may lead elsewhere by now.
        let other = owners.take_while(|(owner, _)| *owner != resource).find(|(_, theirs)| {
            theirs.path != file.path && files.real_path(theirs).is_ok_and(|theirs| theirs == place)
        });
        let Some((owner, theirs)) = other else { return Ok(()) };
        let reason = format!(
            "{}: this file belongs to the resource {owner} of this node already, by the path {}: one file has one owner; \
             delete that resource first, or name another file",
            file.path, theirs.path
        );
        Err(RunError { reason, retry: Retry::Never })
    }
}

impl Table {
    fn remove(&mut self, resource: ResourceId) {
        let Some(place) = self.places.remove(&resource) else { return };
        if let Some(owners) = self.by_place.get_mut(&place) {
            owners.retain(|(owner, _)| *owner != resource);
            if owners.is_empty() {
                self.by_place.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use muster_shared::model::{Content, OnDelete};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_file_by_two_paths_has_one_owner() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let link = |to: &str| {
            let _ = fs::remove_file(dir.path().join("link"));
            symlink(to, dir.path().join("link")).unwrap();
        };
        link("a");
        let file = |path: &str| File {
            path: dir.path().join(path).to_str().unwrap().into(),
            content: Content::Inline(b"hello".to_vec()),
            mode: 0o644,
            owner: None,
            group: None,
            on_delete: OnDelete::Restore,
        };
        let [first, second] = [1, 2].map(|n| ResourceId(Uuid::from_u128(n)));
        let (files, owners) = (Files::new(dir.path().join("aside")), Owners::default());
        let (direct, linked) = (file("a/motd"), file("link/motd"));

        owners.set(&files, first, Some(&direct));
        owners.claim(&files, first, &direct).unwrap();
        owners.claim(&files, second, &direct).expect("a path is handed over by the controller's word");
        owners.claim(&files, second, &file("link/other")).unwrap();
        let refused = owners.claim(&files, second, &linked).unwrap_err();
        assert!(refused.retry == Retry::Never, "{refused:?}");
        for name in [&direct.path, &linked.path, &first.to_string()] {
            assert!(refused.reason.contains(name), "{refused:?}");
        }

        // Both had it before this was looked at: the first keeps it.
        owners.set(&files, second, Some(&linked));
        owners.claim(&files, first, &direct).unwrap();
        owners.claim(&files, second, &linked).unwrap_err();
        // The link leads elsewhere, and back.
        link("b");
        owners.claim(&files, second, &linked).unwrap();
        owners.set(&files, first, None);
        link("a");
        owners.claim(&files, second, &linked).unwrap();
        owners.claim(&files, first, &direct).unwrap_err();
    }
}
