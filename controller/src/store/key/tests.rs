use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn folder() -> (tempfile::TempDir, KeyFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(&folder.path().join(KEY_FILE));
    (folder, file)
}

#[test]
fn a_value_opens_only_in_its_place_with_its_key_and_whole() {
    let (key, other) = (DataKey::from_bytes([1; 32]), DataKey::from_bytes([2; 32]));
    let sealed = key.seal(b"here", b"secret").unwrap();
    assert_eq!(sealed.len(), b"secret".len() + 1 + NONCE + TAG);
    assert_eq!(key.open(b"here", &sealed).unwrap(), b"secret");
    assert_eq!(key.open(b"there", &sealed), Err(NotOurs));
    assert_eq!(other.open(b"here", &sealed), Err(NotOurs));
    for at in 0..sealed.len() {
        let mut altered = sealed.clone();
        altered[at] ^= 1;
        assert_eq!(key.open(b"here", &altered), Err(NotOurs), "byte {at}");
        assert_eq!(key.open(b"here", &sealed[..at]), Err(NotOurs), "{at} bytes");
    }
}

#[test]
fn no_nonce_comes_twice() {
    let key = DataKey::from_bytes([1; 32]);
    let nonces: std::collections::BTreeSet<_> = (0..NONCES * 3).map(|_| key.nonce().unwrap()).collect();
    assert_eq!(nonces.len(), NONCES * 3);
}

#[test]
fn a_key_is_created_owner_only_and_only_if_nothing_is_sealed() {
    let (_folder, file) = folder();
    let lost = DataKey::from_bytes([9; 32]);
    let error = file.open(Some(lost.id())).unwrap_err();
    assert!(matches!(error, KeyError::Missing { id, .. } if id == lost.id()), "{error}");
    assert!(!file.0.exists(), "none was made");
    let made = file.open(None).unwrap();
    assert_eq!(fs::metadata(&file.0).unwrap().mode() & 0o777, 0o600);
    assert!(!file.next().exists());
    assert_eq!(file.open(None).unwrap().id(), made.id(), "it is kept");
    assert_eq!(file.open(Some(made.id())).unwrap().id(), made.id());
    let error = file.open(Some(lost.id())).unwrap_err();
    assert!(matches!(error, KeyError::Wrong { .. }), "{error}");
    assert!(!format!("{made:?} {error:?}").contains(fs::read_to_string(&file.0).unwrap().trim()));
}

#[test]
fn a_file_that_others_read_or_that_is_no_key_is_refused() {
    let (_folder, file) = folder();
    let id = file.open(None).unwrap().id();
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&file.0, fs::Permissions::from_mode(mode)).unwrap();
        let error = file.open(Some(id)).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { mode: found, .. } if found == mode), "{error}");
    }
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(file.open(Some(id)).unwrap().id(), id);
    fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600)).unwrap();
    for text in ["", "00", &"0".repeat(63), &"g".repeat(64), &"0".repeat(5000)] {
        fs::write(&file.0, text).unwrap();
        assert!(matches!(file.open(Some(id)), Err(KeyError::Damaged { .. })), "{text:?}");
    }
    fs::write(&file.0, [0xff; 64]).unwrap();
    assert!(matches!(file.open(None), Err(KeyError::Damaged { .. })), "nor is one made in its place");
}

/// The database's word decides, whatever files a crash has left.
#[test]
fn a_change_of_keys_that_was_cut_short_comes_to_its_end() {
    let (_folder, file) = folder();
    let old = file.open(None).unwrap();
    let new = DataKey::random().unwrap();
    // Before the database was sealed anew.
    file.prepare(&new).unwrap();
    assert_eq!(file.open(Some(old.id())).unwrap().id(), old.id());
    assert!(!file.next().exists());
    // While the key was being written.
    fs::write(file.next(), "12").unwrap();
    assert_eq!(file.open(Some(old.id())).unwrap().id(), old.id());
    // After it was.
    file.prepare(&new).unwrap();
    assert_eq!(file.open(Some(new.id())).unwrap().id(), new.id());
    assert_eq!(file.open(Some(new.id())).unwrap().id(), new.id());
    assert!(!file.next().exists());
    // Neither is the database's: both are left for people to look at.
    file.prepare(&old).unwrap();
    assert!(file.open(Some(DataKey::from_bytes([3; 32]).id())).is_err());
    assert!(file.next().exists());
}
