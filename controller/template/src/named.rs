//! Settings of resources by their names: a tree that follows the nesting of stacks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_shared::pattern;

/// The settings of one resource, or of all that match a pattern, and of the resources nested there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named<T> {
    pub here: T,
    /// Settings by a resource's own name.
    names: BTreeMap<Box<str>, Named<T>>,
    /// Settings by a pattern with `*`.
    patterns: BTreeMap<Box<str>, Named<T>>,
}

impl<T: Default> Named<T> {
    /// The settings under a name or pattern, one level below.
    pub fn enter(&mut self, name: &str) -> &mut Self {
        let level = if name.contains('*') { &mut self.patterns } else { &mut self.names };
        level.entry(name.into()).or_default()
    }

    /// Visits all settings of a resource, by its path (`servers/0/config`): those under its name before those
    /// under patterns, and a longer pattern before a shorter.
    pub fn of<'a>(&'a self, path: &str, each: &mut impl FnMut(&'a T)) {
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let mut visit = |found: &'a Self| match rest {
            None => each(&found.here),
            Some(rest) => found.of(rest, each),
        };
        // Settings of a `for_each` apply to all members that it makes: `name[node]`.
        let set = name.split_once('[').map(|(set, _)| set);
        self.names.get(name).into_iter().for_each(&mut visit);
        set.and_then(|set| self.names.get(set)).into_iter().for_each(&mut visit);
        let fits = |it: &str| pattern::matches(it, name) || set.is_some_and(|set| pattern::matches(it, set));
        let mut fitting: Vec<_> = self.patterns.iter().filter(|(it, _)| fits(it)).collect();
        fitting.sort_by_key(|(pattern, _)| Reverse(pattern.len()));
        fitting.into_iter().for_each(|(_, found)| visit(found));
    }

    /// Combines later settings with earlier ones, name by name.
    pub fn take(&mut self, later: Self, join: &impl Fn(&mut T, T)) {
        join(&mut self.here, later.here);
        for (mine, theirs) in [(&mut self.names, later.names), (&mut self.patterns, later.patterns)] {
            for (name, level) in theirs {
                mine.entry(name).or_default().take(level, join);
            }
        }
    }

    /// Resources of the root stack that are named, patterns left out.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    /// Patterns in all levels.
    pub fn count_patterns(&self) -> usize {
        let below = self.names.values().chain(self.patterns.values());
        self.patterns.len() + below.map(Self::count_patterns).sum::<usize>()
    }

    /// Everything in the tree, by path.
    pub fn all<'a>(&'a self, each: &mut impl FnMut(&'a T)) {
        each(&self.here);
        self.names.values().chain(self.patterns.values()).for_each(|level| level.all(each));
    }
}
