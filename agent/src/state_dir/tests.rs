mod crashes;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use muster_agent_core::{Before, Holding, Order};
use muster_shared::seal::SealPublic;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uuid::Uuid;

use super::*;

fn entry(n: u128) -> Entry {
    holding(n, vec![n as u8; 100])
}

fn holding(n: u128, before: Vec<u8>) -> Entry {
    let holding =
        Holding { before: Before::new(before), claims: Vec::new(), since: Order(1), over: BTreeMap::new() };
    Entry { holding: Some(holding), ..Entry::new(ResourceId(Uuid::from_u128(n))) }
}

fn ledger(path: &Path) -> Vec<Entry> {
    let mut entries = StateDir::open(path).unwrap().ledger().unwrap();
    entries.sort_by_key(|entry| entry.resource);
    entries
}

fn identity() -> Identity {
    Identity {
        site: "lab".parse().unwrap(),
        node: "web-1".parse().unwrap(),
        addresses: vec!["127.0.0.1:8883".parse().unwrap()],
        ca_der: vec![1],
        certificate_der: vec![2],
        key_der: vec![3],
        seal_secret: [4; 32],
        controller_seal: SealPublic([5; 32]),
        issued: 6,
        not_after: 7,
        broker: None,
    }
}

fn file_of(path: &Path, n: u128) -> PathBuf {
    path.join("ledger").join(Uuid::from_u128(n).to_string())
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    assert!(state.identity().unwrap().is_none());
    assert_eq!((state.epoch().unwrap(), state.ledger().unwrap()), (Epoch(0).into(), Vec::new()));
    state.write_identity(&identity()).unwrap();
    state.write_epoch(EpochId { number: Epoch(3), bits: Some(9) }).unwrap();
    for n in [1, 2, 3, 2] {
        state.write_entry(&entry(n)).unwrap();
    }
    state.sync_ledger().unwrap();
    state.remove_entry(entry(1).resource);
    state.remove_entry(entry(9).resource);
    drop(state);
    let state = StateDir::open(dir.path()).unwrap();
    let read = state.identity().unwrap().unwrap();
    assert_eq!((read.node, read.seal_secret, read.not_after), ("web-1".parse().unwrap(), [4; 32], 7));
    assert_eq!(state.epoch().unwrap(), EpochId { number: Epoch(3), bits: Some(9) });
    drop(state);
    assert_eq!(ledger(dir.path()), [entry(2), entry(3)]);
}

#[test]
fn secrets_are_for_the_agents_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made");
    let state = StateDir::open(&path).unwrap();
    state.write_identity(&identity()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in [path.join("identity"), file_of(&path, 1)] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn two_agents_never_share_one() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    assert!(matches!(StateDir::open(dir.path()), Err(StateError::Locked { .. })));
    drop(state);
    StateDir::open(dir.path()).unwrap();
}

/// Every byte altered, every length cut: never another entry than the one written.
#[test]
fn a_damaged_record_is_moved_aside_and_the_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    state.write_entry(&entry(2)).unwrap();
    drop(state);
    let file = file_of(dir.path(), 1);
    let whole = fs::read(&file).unwrap();
    let altered = (0..whole.len()).map(|place| {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        bytes
    });
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    for damaged in altered.chain(cut) {
        fs::write(&file, &damaged).unwrap();
        assert_eq!(ledger(dir.path()), [entry(2)]);
        assert!(!file.exists());
        let aside = dir.path().join("corrupt").join(file.file_name().unwrap());
        assert_eq!(fs::read(aside).unwrap(), damaged, "for whoever wants to know why");
    }
}

#[test]
fn a_record_under_another_name_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    drop(state);
    fs::rename(file_of(dir.path(), 1), file_of(dir.path(), 2)).unwrap();
    assert_eq!(ledger(dir.path()), []);
}

#[test]
fn what_a_crash_left_half_written_goes() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    drop(state);
    let half = record::temporary(&file_of(dir.path(), 1));
    fs::write(&half, b"muster1\nhalf").unwrap();
    assert_eq!(ledger(dir.path()), [entry(1)]);
    assert!(!half.exists());
}

#[test]
fn damaged_keys_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    fs::write(dir.path().join("identity"), b"x").unwrap();
    let error = state.identity().err().unwrap().to_string();
    assert!(error.contains("join again"), "{error}");
    fs::write(dir.path().join("epoch"), b"x").unwrap();
    record::write(&dir.path().join("epoch"), &Epoch(7)).unwrap();
    assert_eq!(state.epoch().unwrap(), Epoch(7).into(), "of an older agent");
    fs::write(dir.path().join("epoch"), b"x").unwrap();
    assert_eq!(state.epoch().unwrap(), Epoch(0).into(), "the controller's is taken again");
}

#[test]
fn a_write_that_fails_leaves_the_old_record() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    fs::create_dir(record::temporary(&file_of(dir.path(), 1))).unwrap();
    assert!(state.write_entry(&Entry::new(entry(1).resource)).is_err());
    fs::remove_dir(record::temporary(&file_of(dir.path(), 1))).unwrap();
    drop(state);
    assert_eq!(ledger(dir.path()), [entry(1)]);
}

#[test]
fn another_site_begins_with_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    state.write_epoch(Epoch(50).into()).unwrap();
    state.leave_site().unwrap();
    assert_eq!((state.epoch().unwrap(), state.ledger().unwrap()), (Epoch(0).into(), Vec::new()));
    state.leave_site().unwrap();
}

#[test]
fn who_joins_again_is_told_from_who_joins_another_site() {
    let token = |ca: &[u8]| muster_shared::join::JoinToken {
        site: "lab".parse().unwrap(),
        addresses: Vec::new(),
        ca_fingerprint: muster_shared::join::fingerprint(ca),
        id: muster_shared::join::TokenId([0; 8]),
        secret: muster_shared::join::TokenSecret([0; 16]),
        expires: 0,
        broker: None,
    };
    let old = identity();
    assert!(old.is_of(&token(&[1]), &old.node));
    assert!(!old.is_of(&token(&[9]), &old.node), "the controller was installed anew");
    assert!(!old.is_of(&token(&[1]), &"web-2".parse().unwrap()));
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    state.write_entry(&entry(1)).unwrap();
    let large = holding(1, vec![0; record::SIZE_MAX as usize]);
    assert!(state.write_entry(&large).is_err());
    drop(state);
    assert_eq!(ledger(dir.path()), [entry(1)]);
}

/// Needs root.
#[test]
fn a_full_disk_still_takes_what_frees_room() {
    let none: Option<&str> = None;
    let dir = tempfile::tempdir().unwrap();
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some("size=4m")).unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let full = |file: &str| {
        let error = fs::write(dir.path().join(file), vec![1; 8 * 1024 * 1024]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    };
    full("theirs");
    let refused = state.write_entry(&entry(1)).unwrap_err();
    assert!(crate::host::lacks_room(&refused), "{refused}");
    assert!(state.spend_reserve());
    state.write_entry(&entry(1)).unwrap();
    full("more");
    assert!(!state.spend_reserve() && state.write_entry(&entry(2)).is_err());
    assert!(state.find_room().is_err());
    assert!(!dir.path().join("reserve.new").exists());
    fs::remove_file(dir.path().join("theirs")).unwrap();
    state.find_room().unwrap();
    full("theirs");
    assert!(state.spend_reserve(), "it is kept again");
}
