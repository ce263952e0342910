use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn id(n: u128) -> ResourceId {
    ResourceId(uuid::Uuid::from_u128(n))
}

fn at(path: PathBuf) -> Places {
    Places { files: vec![path], unit: None }
}

async fn next(watcher: &mut Watcher) -> BTreeSet<ResourceId> {
    tokio::time::timeout(Duration::from_secs(20), watcher.changed()).await.expect("a change is told")
}

/// A file of resource 1, told of once as it begins, in a folder where resource 2 has another.
async fn watching(root: &Path) -> Watcher {
    let mut watcher = Watcher::new(Systemd::new(root.join("run")));
    fs::write(root.join("one"), "1").unwrap();
    watcher.set(id(1), at(root.join("one")));
    watcher.set(id(2), at(root.join("two")));
    let begun = next(&mut watcher).await;
    assert_eq!(begun, [id(1)].into(), "what happened before it was watched, once for the folder");
    watcher
}

#[tokio::test]
async fn what_becomes_of_a_file_is_told_of_its_resource_alone() {
    let root = tempfile::tempdir().unwrap();
    let one = root.path().join("one");
    let mut watcher = watching(root.path()).await;
    let steps: [(&str, &dyn Fn()); 6] = [
        ("written", &|| fs::write(&one, "2").unwrap()),
        ("another mode", &|| fs::set_permissions(&one, fs::Permissions::from_mode(0o600)).unwrap()),
        ("moved away", &|| fs::rename(&one, root.path().join("away")).unwrap()),
        ("moved back", &|| fs::rename(root.path().join("away"), &one).unwrap()),
        ("replaced", &|| {
            fs::write(root.path().join("new"), "3").unwrap();
            fs::rename(root.path().join("new"), &one).unwrap();
        }),
        ("removed", &|| fs::remove_file(&one).unwrap()),
    ];
    for (what, step) in steps {
        step();
        assert_eq!(next(&mut watcher).await, [id(1)].into(), "{what}");
    }
    fs::write(root.path().join("other"), "").unwrap();
    fs::write(root.path().join("two"), "").unwrap();
    assert_eq!(next(&mut watcher).await, [id(2)].into(), "and nothing of what is nobody's");
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_again_is_watched_again() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let mut watcher = Watcher::new(Systemd::new(root.path().join("run")));
    watcher.set(id(1), at(folder.join("one")));
    next(&mut watcher).await;
    fs::remove_dir(&folder).unwrap();
    assert_eq!(next(&mut watcher).await, [id(1)].into());
    fs::create_dir(&folder).unwrap();
    watcher.renew();
    assert_eq!(next(&mut watcher).await, [id(1)].into(), "as it is watched again");
    fs::rename(&folder, root.path().join("away")).unwrap();
    assert_eq!(next(&mut watcher).await, [id(1)].into());
    fs::write(root.path().join("away/one"), "").unwrap();
    fs::create_dir(&folder).unwrap();
    watcher.renew();
    next(&mut watcher).await;
    fs::write(folder.join("one"), "").unwrap();
    assert_eq!(next(&mut watcher).await, [id(1)].into());
}

#[tokio::test]
async fn what_is_not_watched_any_more_is_not_told() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = watching(root.path()).await;
    watcher.set(id(1), Places::default());
    fs::write(root.path().join("one"), "2").unwrap();
    fs::write(root.path().join("two"), "2").unwrap();
    assert_eq!(next(&mut watcher).await, [id(2)].into());
    watcher.set(id(2), Places::default());
    assert!(watcher.directories.is_empty() && watcher.by_watch.is_empty() && watcher.places.is_empty());
}

#[test]
fn events_that_make_no_sense_end() {
    let mut bytes = Vec::new();
    for (watch, name) in [(1_i32, "a"), (2, "")] {
        bytes.extend(watch.to_ne_bytes());
        bytes.extend(AddWatchFlags::IN_CREATE.bits().to_ne_bytes());
        bytes.extend([0; 4]);
        let padded = if name.is_empty() { 0_u32 } else { 16 };
        bytes.extend(padded.to_ne_bytes());
        let mut field = name.as_bytes().to_vec();
        field.resize(padded as usize, 0);
        bytes.extend(field);
    }
    let read = |bytes: &[u8]| -> Vec<(i32, OsString)> {
        events(bytes).map(|event| (event.watch, event.name.to_owned())).collect()
    };
    assert_eq!(read(&bytes), [(1, "a".into()), (2, OsString::new())]);
    for cut in [1, 15, 16, 20, 31] {
        assert!(read(&bytes[..cut]).is_empty(), "{cut}");
    }
    bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert!(read(&bytes).is_empty());
}
