//! The places of a stack's files: below `files/`, each where it was beside the others.
//!
//! Invariant: no place leads out of its folder, and no two files have one place.

use std::collections::{BTreeMap, BTreeSet};

const FOLDER: &str = "files";
/// The longest name of a file on Linux is 255 bytes; a number may follow.
const NAME_MAX: usize = 200;

/// Places by the name that Heat has for a file.
pub struct Places(BTreeMap<String, String>);

impl Places {
    pub fn new<'a>(keys: impl Iterator<Item = &'a String>) -> Self {
        let keys: Vec<(&String, Vec<String>)> = keys.map(|key| (key, parts(key))).collect();
        let common = common(keys.iter().map(|(_, parts)| parts.as_slice()));
        let (mut places, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for (key, parts) in keys {
            let path = format!("{FOLDER}/{}", parts.get(common..).unwrap_or_default().join("/"));
            let mut place = path.clone();
            let mut number = 2_u32;
            // A file is no folder of another one, either.
            let clashes = |place: &str, taken: &BTreeSet<String>| {
                let below = format!("{place}/");
                let is_below = |other: &String| other.starts_with(&below);
                taken.contains(place)
                    || taken.range(below.clone()..).next().is_some_and(is_below)
                    || place.match_indices('/').any(|(at, _)| taken.contains(&place[..at]))
            };
            while clashes(&place, &taken) {
                place = format!("{FOLDER}/{number}/{}", path.trim_start_matches("files/"));
                number = number.saturating_add(1);
            }
            taken.insert(place.clone());
            places.insert(key.clone(), place);
        }
        Self(places)
    }

    pub fn of(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A file's place as a file at `from` names it.
    pub fn from(&self, from: &str, key: &str) -> Option<String> {
        let to: Vec<&str> = self.of(key)?.split('/').collect();
        let from: Vec<&str> = from.split('/').collect();
        let folders = from.len().saturating_sub(1);
        let same = to.iter().zip(&from).take(folders).take_while(|(to, from)| to == from).count();
        let up = std::iter::repeat_n("..", folders.saturating_sub(same));
        Some(up.chain(to.into_iter().skip(same)).collect::<Vec<_>>().join("/"))
    }
}

/// The parts of a path or URL, without what leads upwards.
fn parts(key: &str) -> Vec<String> {
    let path = key.split_once("://").map_or(key, |(_, rest)| rest);
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    let fits = |c: char| !c.is_control() && c != '\\';
    let part = |part: &str| -> String {
        let text = part.chars().map(|c| if fits(c) { c } else { '_' });
        let mut name = String::new();
        for c in text {
            if name.len() + c.len_utf8() > NAME_MAX {
                break;
            }
            name.push(c);
        }
        name
    };
    let parts: Vec<String> = parts.map(part).collect();
    if parts.is_empty() { vec!["file".to_owned()] } else { parts }
}

/// The number of folders that the paths have in common.
fn common<'a>(mut all: impl Iterator<Item = &'a [String]>) -> usize {
    let folders = |parts: &'a [String]| parts.split_last().map_or(&[][..], |(_, folders)| folders);
    let Some(first) = all.next().map(folders) else { return 0 };
    all.fold(first.len(), |count, parts| {
        let same = folders(parts).iter().zip(first).take_while(|(one, other)| one == other).count();
        count.min(same)
    })
}
