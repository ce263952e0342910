//! The state directory on a disk that refuses any call, and that loses and reorders what was not synced when
//! its server loses power: what the agent was told to be durable is there afterwards, and nothing else than
//! was written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use muster_shared::SiteId;

use super::*;
use crate::disk_calls::{Call, Tap};

const SEEDS: u64 = 150;
const STEPS: u64 = 60;
const ENTRIES: u128 = 3;
/// The directories that the disk knows.
const DIRECTORIES: [&str; 3] = ["", "ledger", "flows"];

/// SplitMix64 (Steele, Lea, Flood).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// The content of a file, by its number.
#[derive(Clone, Default)]
struct Held {
    /// As it was last synced.
    durable: Vec<u8>,
    /// The file was written since.
    is_dirty: bool,
}

/// A change of names that may be lost.
enum Name {
    Made(PathBuf, usize),
    Renamed(PathBuf, PathBuf, usize),
    Gone(PathBuf),
}

/// The disk's content after a power cut.
struct Disk {
    dice: Dice,
    files: Vec<Held>,
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    pending: Vec<Name>,
    /// A call in so many is refused.
    refuses: u64,
}

impl Disk {
    /// A disk on which the whole directory is durable.
    fn of(path: &Path, dice: Dice) -> Self {
        let mut disk = Self {
            dice,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            refuses: 0,
        };
        for directory in DIRECTORIES {
            for file in fs::read_dir(path.join(directory)).unwrap().map(|file| file.unwrap().path()) {
                if file.is_file() {
                    disk.names.insert(file.clone(), disk.files.len());
                    disk.files.push(Held { durable: fs::read(file).unwrap(), is_dirty: false });
                }
            }
        }
        disk.durable = disk.names.clone();
        disk
    }

    fn call(&mut self, call: Call<'_>) -> io::Result<()> {
        if self.refuses > 0 && self.dice.below(self.refuses) == 0 {
            let kind = [io::ErrorKind::StorageFull, io::ErrorKind::Other][self.dice.below(2) as usize];
            return Err(kind.into());
        }
        match call {
            Call::Create(path) => {
                if let Some(file) = self.names.get(path) {
                    self.files[*file].is_dirty = true;
                } else {
                    self.names.insert(path.to_owned(), self.files.len());
                    self.pending.push(Name::Made(path.to_owned(), self.files.len()));
                    self.files.push(Held::default());
                }
            }
            Call::Write(path) => self.files[self.names[path]].is_dirty = true,
            Call::Sync(path) => {
                self.files[self.names[path]] = Held { durable: fs::read(path).unwrap(), is_dirty: false };
            }
            Call::Rename(from, to) => {
                let file = self.names.remove(from).unwrap();
                self.names.insert(to.to_owned(), file);
                self.pending.push(Name::Renamed(from.to_owned(), to.to_owned(), file));
            }
            Call::Remove(path) => {
                if self.names.remove(path).is_some() {
                    self.pending.push(Name::Gone(path.to_owned()));
                }
            }
            Call::SyncDirectory(directory) => {
                for name in std::mem::take(&mut self.pending) {
                    if name.path().parent() == Some(directory) {
                        name.apply(&mut self.durable);
                    } else {
                        self.pending.push(name);
                    }
                }
            }
        }
        Ok(())
    }

    /// The files of a power cut: any of the changes of names that were not synced, whole files or parts
    /// of them.
    fn cut(&mut self) -> BTreeMap<PathBuf, Vec<u8>> {
        for name in std::mem::take(&mut self.pending) {
            if self.dice.below(2) == 0 {
                name.apply(&mut self.durable);
            }
        }
        let (files, dice) = (&self.files, &mut self.dice);
        let left = |(path, file): (&PathBuf, &usize)| {
            let mut bytes = files[*file].durable.clone();
            if files[*file].is_dirty {
                bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize);
            }
            (path.clone(), bytes)
        };
        self.durable.iter().map(left).collect()
    }
}

impl Name {
    fn path(&self) -> &Path {
        match self {
            Name::Made(path, _) | Name::Renamed(_, path, _) | Name::Gone(path) => path,
        }
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Name::Made(path, file) => drop(names.insert(path, file)),
            Name::Renamed(from, to, file) => {
                names.remove(&from);
                names.insert(to, file);
            }
            Name::Gone(path) => drop(names.remove(&path)),
        }
    }
}

/// The possible content of one record: the newest durable one, or any written over it since.
struct May<T>(Vec<T>);

impl<T: PartialEq + std::fmt::Debug> May<T> {
    fn is_durable(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    fn check(&mut self, there: T) {
        assert!(self.0.contains(&there), "{there:?} is there, of {:?}", self.0);
        self.0 = vec![there];
    }
}

/// The directory has these files and no others.
fn put(path: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for directory in DIRECTORIES {
        for file in fs::read_dir(path.join(directory)).unwrap().map(|file| file.unwrap().path()) {
            if file.is_file() {
                fs::remove_file(file).unwrap();
            }
        }
    }
    files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

fn version(n: u128, version: u64) -> Entry {
    holding(n, version.to_le_bytes().repeat(20))
}

fn lives(seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed);
    let mut state = StateDir::open(dir.path()).unwrap();
    let mut entries: BTreeMap<u128, May<Option<Entry>>> =
        (1..=ENTRIES).map(|n| (n, May(vec![None]))).collect();
    let mut epoch = May(vec![EpochId::default()]);
    let disk = Rc::new(RefCell::new(Disk::of(dir.path(), Dice(seed ^ 1))));
    let tap = |disk: &Rc<RefCell<Disk>>| {
        let disk = Rc::clone(disk);
        Tap::new(move |call| disk.borrow_mut().call(call))
    };
    let mut tapped = tap(&disk);
    for step in 1..=STEPS {
        let n = 1 + u128::from(dice.below(ENTRIES as u64));
        match dice.below(12) {
            0 => {
                let files = disk.borrow_mut().cut();
                drop((tapped, state));
                put(dir.path(), &files);
                state = StateDir::open(dir.path()).unwrap();
                epoch.check(state.epoch().unwrap());
                let there = state.ledger().unwrap();
                for (n, may) in &mut entries {
                    may.check(there.iter().find(|it| it.resource == entry(*n).resource).cloned());
                }
                let aside = fs::read_dir(dir.path().join("corrupt")).unwrap().count();
                assert_eq!(aside, 0, "a record was there in part");
                disk.replace(Disk::of(dir.path(), Dice(seed ^ step << 8)));
                tapped = tap(&disk);
            }
            1 => {
                // As it was, or gone some time.
                state.remove_entry(entry(n).resource);
                entries.get_mut(&n).unwrap().0.push(None);
                let is_there = dir.path().join("ledger").join(entry(n).resource.to_string()).exists();
                if is_there {
                    entries.get_mut(&n).unwrap().0.pop();
                }
            }
            2..4 => {
                if state.sync_ledger().is_ok() {
                    entries.values_mut().for_each(May::is_durable);
                }
            }
            4 => {
                let next = EpochId { number: Epoch(step as u32), bits: Some(seed) };
                match state.write_epoch(next) {
                    Ok(()) => epoch.0 = vec![next],
                    // Refused before or after it got its name.
                    Err(_) => epoch.0.push(next),
                }
            }
            5 => disk.borrow_mut().refuses = [0, 3, 10][dice.below(3) as usize],
            _ => {
                let next = version(n, step);
                if state.write_entry(&next).is_ok() {
                    entries.get_mut(&n).unwrap().0.push(Some(next));
                }
            }
        }
    }
}

#[test]
fn what_is_durable_survives_refusals_and_power_cuts() {
    (0..SEEDS).for_each(lives);
}

/// The site that the directory belongs to, with all that goes with it: never a part of each.
fn site_of(state: &StateDir) -> SiteId {
    let site = state.identity().unwrap().expect("one of the two").site;
    let rules = fs::read_dir(state.flows()).unwrap().count();
    match site == identity().site {
        true => assert_eq!((state.epoch().unwrap(), rules), (OLD_EPOCH, 1)),
        false => assert_eq!((state.epoch().unwrap(), rules), (EpochId::default(), 0)),
    }
    assert_eq!(state.ledger().unwrap(), [entry(1)], "the server has it at either site");
    assert!(!state.path().join(NEXT_IDENTITY).exists());
    site
}

const OLD_EPOCH: EpochId = EpochId { number: Epoch(50), bits: Some(9) };

fn next_identity() -> Identity {
    Identity { site: "lab-b".parse().unwrap(), ca_der: vec![9], ..identity() }
}

/// A directory of a node that is about to move.
fn before_the_move(path: &Path) -> StateDir {
    let state = StateDir::open(path).unwrap();
    state.write_identity(&identity()).unwrap();
    state.write_epoch(OLD_EPOCH).unwrap();
    state.write_entry(&entry(1)).unwrap();
    state.sync_ledger().unwrap();
    fs::write(state.flows().join("br0"), b"log").unwrap();
    state
}

/// The change and the start after it, of which only so many calls reach the disk. Whether the change was said to be made, and
/// whether calls were left over.
fn change(path: &Path, calls: usize, disk: &Rc<RefCell<Disk>>, state: StateDir) -> (bool, bool) {
    let left = Rc::new(RefCell::new(calls));
    let (disk, counted) = (Rc::clone(disk), Rc::clone(&left));
    let _tap = Tap::new(move |call| {
        let mut left = counted.borrow_mut();
        *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the server is off"))?;
        disk.borrow_mut().call(call)
    });
    let changed = state.change_site(&next_identity()).is_ok();
    drop(state);
    let opened = changed && StateDir::open(path).is_ok();
    (changed, opened && *left.borrow() > 0)
}

/// After each call of the change and of the start that ends it, with and without a power cut.
#[test]
fn a_crash_at_any_point_of_a_move_leaves_one_site() {
    let mut sites = BTreeMap::new();
    for calls in 0.. {
        let mut is_whole = false;
        for seed in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let state = before_the_move(dir.path());
            let disk = Rc::new(RefCell::new(Disk::of(dir.path(), Dice(seed))));
            let (changed, has_left) = change(dir.path(), calls, &disk, state);
            is_whole = has_left;
            if seed > 0 {
                let files = disk.borrow_mut().cut();
                put(dir.path(), &files);
            }
            let site = site_of(&StateDir::open(dir.path()).unwrap());
            assert!(!changed || site == next_identity().site, "call {calls}, seed {seed}: it is durable");
            *sites.entry(site.to_string()).or_insert(0) += 1;
            assert_eq!(site_of(&StateDir::open(dir.path()).unwrap()), site, "and stays so");
        }
        if is_whole {
            assert!(calls > 8, "{calls} calls are too few");
            break;
        }
    }
    assert!(sites["lab"] > 20 && sites["lab-b"] > 20, "{sites:?}");
}

/// The disk refuses one call and takes the others.
#[test]
fn a_refused_change_is_none_and_a_refused_start_is_tried_again() {
    for refused in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let state = before_the_move(dir.path());
        let calls = Rc::new(RefCell::new(0));
        let counted = Rc::clone(&calls);
        let tap = Tap::new(move |_| {
            *counted.borrow_mut() += 1;
            if *counted.borrow() == refused + 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        let changed = state.change_site(&next_identity());
        drop(state);
        let opened = StateDir::open(dir.path());
        drop(tap);
        let state = match (opened, &changed) {
            (Ok(state), _) => state,
            (Err(_), Ok(())) => StateDir::open(dir.path()).unwrap(),
            (Err(error), Err(_)) => panic!("{error}"),
        };
        let site = site_of(&state);
        assert_eq!(site == next_identity().site, changed.is_ok(), "call {refused}: {changed:?}");
        if *calls.borrow() <= refused {
            break;
        }
    }
}

#[test]
fn a_damaged_next_identity_leaves_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let state = before_the_move(dir.path());
    state.change_site(&next_identity()).unwrap();
    drop(state);
    let path = dir.path().join(NEXT_IDENTITY);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    assert_eq!(site_of(&state), identity().site);
    assert!(dir.path().join("corrupt").join(NEXT_IDENTITY).exists());
}
