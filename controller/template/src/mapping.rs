//! Mappings of types to other types or to template files; for all resources, or for some by name. Decides which mapping
//! counts for a resource.
//!
//! Absent: the reading of a `resource_registry` (`environment/resource_registry.rs`), and the opening of the template
//! (`tree/expand/nested.rs`).

use std::collections::BTreeMap;

use crate::Limits;
use crate::error::{Error, Place, cut};
use crate::files::{Mention, is_template};
use crate::named::Named;

/// The environments' mappings of types.
#[derive(Clone, Default)]
pub(crate) struct Mappings {
    pub types: Types,
    pub resources: Named<Types>,
}

/// Mappings by type, or by prefix with a `*`; `None` ends an earlier mapping.
#[derive(Clone, Default)]
pub(crate) struct Types(BTreeMap<Box<str>, Option<Entry>>);

/// A line of a `resource_registry`.
#[derive(Clone)]
pub(crate) struct Entry {
    pub to: Target,
    /// Among the environments of the stack.
    pub file: usize,
    pub at: Place,
    pub path: Box<str>,
}

#[derive(Clone)]
pub(crate) enum Target {
    /// A type, or the beginning of types with a `*` after it.
    Type(Box<str>),
    /// The key of a template.
    File(Box<str>),
}

/// The target of a type's mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Another type, which is not mapped further.
    Type(String),
    File {
        /// The key among the files of the stack.
        key: String,
        /// The line of the mapping.
        entry: EntryId,
    },
}

/// A line of a `resource_registry` that maps a type to a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(usize, u32, u32);

impl Entry {
    fn id(&self) -> EntryId {
        EntryId(self.file, self.at.line, self.at.column)
    }

    /// The target of `kind` by this line, whose key is `name`.
    fn result(&self, name: &str, kind: &str) -> Result<String, &str> {
        match &self.to {
            Target::File(key) => Err(key),
            Target::Type(to) => Ok(match (to.strip_suffix('*'), name.strip_suffix('*')) {
                // The part that the wildcard matches is kept.
                (Some(to), Some(from)) => [to, kind.strip_prefix(from).unwrap_or_default()].concat(),
                _ => to.to_string(),
            }),
        }
    }
}

impl Types {
    pub fn insert(&mut self, name: &str, entry: Option<Entry>) {
        self.0.insert(name.into(), entry);
    }

    /// Combines later mappings with earlier ones.
    pub fn take(&mut self, later: Self) {
        for (name, entry) in later.0 {
            match (entry, name.strip_suffix('*')) {
                (Some(entry), _) => drop(self.0.insert(name, Some(entry))),
                (None, Some(start)) => self.0.retain(|known, _| !known.starts_with(start)),
                (None, None) => drop(self.0.remove(&name)),
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.values().flatten()
    }

    /// The line for a type: its own, or the one with the longest matching prefix. A line that maps
    /// the type to itself counts as none.
    fn find(&self, kind: &str, within: &[EntryId]) -> Option<(&str, &Entry)> {
        let get = |name: &str| {
            let (name, entry) = self.0.get_key_value(name)?;
            entry.as_ref().map(|entry| (&**name, entry))
        };
        let stays = |(name, entry): &(&str, &Entry)| entry.result(name, kind).is_ok_and(|to| to == kind);
        let own = get(kind);
        // A type that is mapped to itself is exempt from wildcards.
        if self.0.is_empty() || own.as_ref().is_some_and(stays) {
            return None;
        }
        let starts = kind.char_indices().map(|(end, _)| end).chain([kind.len()]).rev();
        let wild = starts.filter_map(|end| get(&format!("{}*", &kind[..end])));
        own.into_iter().chain(wild).find(|found| !stays(found) && !within.contains(&found.1.id()))
    }
}

impl Mappings {
    pub fn take(&mut self, later: Self) {
        self.types.take(later.types);
        self.resources.take(later.resources, &|mine: &mut Types, theirs| mine.take(theirs));
    }

    /// The mapping of a type in a resource, without the lines in `within`. `Err`: the lines of a cycle, from
    /// the first one of the cycle.
    pub fn mapping(
        &self,
        kind: &str,
        resource: &str,
        within: &[EntryId],
    ) -> Result<Option<Mapping>, (&Entry, String)> {
        if self.types.0.is_empty() && self.resources.is_empty() {
            return Ok(None);
        }
        let mut chain = vec![kind.to_owned()];
        let mut first = None;
        loop {
            let last = chain.last().map_or(kind, String::as_str);
            let found = if is_template(last) { None } else { self.find(last, resource, within) };
            let Some((name, entry)) = found else { break };
            let first = *first.get_or_insert(entry);
            match entry.result(name, last) {
                Err(key) => return Ok(Some(Mapping::File { key: key.to_owned(), entry: entry.id() })),
                Ok(next) => {
                    let is_cycle = chain.contains(&next);
                    chain.push(next);
                    if is_cycle || chain.len() > Limits::CHAIN {
                        let names: Vec<&str> = chain.iter().map(|name| cut(name)).collect();
                        let what = if is_cycle { "a cycle of types" } else { "too long a chain of types" };
                        return Err((first, format!("{what}: {}", names.join(" -> "))));
                    }
                }
            }
        }
        Ok(first.and_then(|_| chain.pop()).map(Mapping::Type))
    }

    /// Whether the type is mapped anywhere.
    pub fn maps(&self, kind: &str) -> bool {
        let mut found = self.types.find(kind, &[]).is_some();
        self.resources.all(&mut |types: &Types| found |= types.find(kind, &[]).is_some());
        found
    }

    fn find(&self, kind: &str, resource: &str, within: &[EntryId]) -> Option<(&str, &Entry)> {
        let mut found = None;
        if !self.resources.is_empty() {
            self.resources.of(resource, &mut |types| found = found.or_else(|| types.find(kind, within)));
        }
        found.or_else(|| self.types.find(kind, within))
    }

    /// Each template that a type is mapped to, with the name of its environment by `file`.
    pub fn mentions<'a>(&'a self, file: impl Fn(usize) -> &'a str) -> Vec<Mention> {
        let mut found = Vec::new();
        let mut take = |types: &'a Types| {
            for entry in types.entries() {
                if let Target::File(key) = &entry.to {
                    let at = Error::new(file(entry.file), entry.at, &entry.path, "");
                    found.push(Mention::new(key.to_string(), true, at));
                }
            }
        };
        take(&self.types);
        self.resources.all(&mut take);
        found
    }
}
