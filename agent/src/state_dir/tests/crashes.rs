//! The state directory on a disk that refuses any call, and that loses and reorders what was not synced when
//! its server loses power: what the agent was told to be durable is there afterwards, and nothing else than
//! was written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;
use crate::calls::{Call, Tap};

const SEEDS: u64 = 150;
const STEPS: u64 = 60;
const ENTRIES: u128 = 3;

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
        for directory in [path.to_owned(), path.join("ledger")] {
            for file in fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()) {
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
                for directory in ["", "ledger"] {
                    for file in
                        fs::read_dir(dir.path().join(directory)).unwrap().map(|file| file.unwrap().path())
                    {
                        if file.is_file() {
                            fs::remove_file(file).unwrap();
                        }
                    }
                }
                files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
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
